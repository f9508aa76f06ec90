"""Evaluations and videos of a training that `rsl-rl train` runs."""

from functools import partial
from typing import TYPE_CHECKING, Any, List, Tuple

if TYPE_CHECKING:
    from rsl_rl.evaluation.callbacks import VideoCallback
    from rsl_rl.runners import OnPolicyRunner
    from rsl_rl.tasks.legged_robot import LeggedRobot

GATE = "gate"
"""Reason of a training that ended by --until_gate."""


def build_callback_envs(cfg: Any) -> "Tuple[List[LeggedRobot], List[LeggedRobot]]":
    """Return the environments of evaluations and of videos, one or none each; errors occur before a run is created."""
    from rsl_rl.evaluation.callbacks import build_evaluation_env, build_video_env

    progress, device, seed = cfg.progress, cfg.sim_device, cfg.seed
    evaluation = [build_evaluation_env(cfg.env, progress, device, seed + 1000)] if progress.evaluate_interval else []
    video = [build_video_env(cfg.env, progress, device, seed)] if progress.video_interval else []
    return evaluation, video


def attach_callbacks(
    runner: "OnPolicyRunner", cfg: Any, evaluation_envs: "List[LeggedRobot]", video_envs: "List[LeggedRobot]"
) -> "List[VideoCallback]":
    """Add the callbacks to the runner; return those of videos."""
    from rsl_rl.evaluation.callbacks import EvaluationCallback, VideoCallback
    from rsl_rl.runners.best_checkpoint import BestCheckpoint
    from rsl_rl.runners.gate_streak import GateStreak
    from rsl_rl.runners.superseded import METRICS

    progress, last, policy = cfg.progress, cfg.runner.max_iterations, runner.get_inference_policy
    folder = runner.log_dir
    assert folder is not None  # the runner was given one
    for env in evaluation_envs or [None] * bool(progress.evaluate_interval):  # None on ranks that do not evaluate
        iteration = runner.current_learning_iteration
        listeners = [BestCheckpoint(folder, iteration, runner.save, runner.print_line).save_if_better]
        if progress.until_gate:
            stop = partial(runner.request_stop, GATE)
            streak = GateStreak(progress.until_gate, progress.gate_score, stop, folder / METRICS, iteration)
            listeners.append(streak.note_evaluation)
        runner.after_update.append(EvaluationCallback(env, progress, last, policy, listeners, runner.collective))
    video_callbacks = [
        VideoCallback(env, progress, last, policy, folder / "videos", runner.print_line) for env in video_envs
    ]
    runner.after_update += video_callbacks
    return video_callbacks


def attach_terrain_report(runner: "OnPolicyRunner", last: int) -> List[str]:
    """Write a picture of the terrain; draw the levels, and report a curriculum on which robots do not advance. Return
    notes for the user."""
    from rsl_rl.config.task import LeggedRobotConfig

    env: Any = runner.env
    folder = runner.log_dir
    rough = isinstance(env.cfg, LeggedRobotConfig) and env.cfg.terrain.is_rough
    if not rough or folder is None or runner.collective.rank != 0:
        return []
    from rsl_rl.evaluation.curriculum_report import CurriculumReport, write_overview

    runner.after_update.append(CurriculumReport(env, folder, last, runner.print_line))
    return write_overview(env, folder)

"""Train a policy: `rsl-rl train --task go2_flat`."""

import signal
import sys
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Tuple

from rsl_rl.cli import trainings
from rsl_rl.cli.audit import audit_lines
from rsl_rl.cli.command_line import Arguments, parse
from rsl_rl.cli.errors import explain_exit, fail, print_line, program, short_line, usage_errors
from rsl_rl.cli.experiments import file_of
from rsl_rl.cli.ranks import (
    arguments_after_restart,
    config_of_rank,
    exit_code_of_stop,
    join_ranks,
    mark_run,
    prefix_of,
    prepare_rank,
    run_rank,
    unmark_run,
)
from rsl_rl.cli.signals import INTERRUPTED, TERMINATED, exit_on_signals, stop_on_signals
from rsl_rl.cli.training_page import TrainingPage
from rsl_rl.utils.files import expand_user
from rsl_rl.utils.host import Launch
from rsl_rl.utils.provenance import write_provenance
from rsl_rl.viz.page import PageTraining

if TYPE_CHECKING:
    from rsl_rl.distributed import Collective
    from rsl_rl.evaluation.callbacks import EvaluationTest, VideoCallback
    from rsl_rl.runners import OnPolicyRunner
    from rsl_rl.tasks.legged_robot import LeggedRobot

MAX_TIMEOUT = 1e7
"""Largest --rank_timeout [s]."""

GATE = "gate"
"""Reason of a training that ended by --until_gate."""


@dataclass(frozen=True)
class Flags:
    """Flags of a training; all other flags are fields of the config."""

    list: bool = False
    """Print the tasks, with a line on each, and exit."""
    resume: bool = False
    """Continue an existing run in its folder, with its config, until max_iterations is reached."""
    load_run: str = "-1"
    """Folder of the run to resume; -1 for the newest."""
    checkpoint: int = -1
    """Iteration to resume from; -1 for the newest undamaged one."""
    fresh_episodes: bool = False
    """With --resume: start new episodes instead of continuing those of the run, so that num_envs may change."""
    seeds: Tuple[int, ...] = ()
    """Train once with each of these seeds, one after the other, and print a table of the results."""
    init_from: str = ""
    """Start with the weights of this checkpoint file, or of the newest checkpoint in this run folder."""
    audit: bool = False
    """Say first what the rewards of the task pay, as `rsl-rl audit` does."""
    log_root: str = ""
    """Folder of all experiments; default: logs/ of the checkout, or of the current folder without a checkout."""
    page: Optional[int] = None
    """Port of a web page of this computer that shows the training: curves, evaluations and the newest policy, walking.
    0: a free port."""
    headless: bool = True
    """Has no effect: training never opens a window. Accepted because legged_gym has it."""
    rank_timeout: float = 300.0
    """With torchrun: longest time that a process waits for the others [s]; then the training ends and names them."""


def main(argv: Sequence[str]) -> int:
    with usage_errors():
        launch = prepare_rank()
    seeds = trainings.split_flags(argv) if launch.size == 1 else None
    if seeds is not None:
        return trainings.train_seeds(*seeds, parse_flags)
    args, own, collective = join_ranks(launch, lambda: prepare(argv, launch))
    exit_on_signals(collective.claim_report)  # not before: a rank that waits for the others runs no handler
    return run_rank(collective, lambda: train(args, own, launch, collective))


def prepare(argv: Sequence[str], launch: Launch) -> Tuple[Arguments, Any]:
    """Return the arguments of a training and the config of one rank."""
    if launch.size > 1 and trainings.split_flags(argv) is not None:
        fail("--seeds starts several trainings of one process each; start it without torchrun")
    args = parse_flags(argv)
    with usage_errors():
        if launch.restarts:
            more = arguments_after_restart(args.log_root / args.cfg.runner.experiment_name, args.run)
            args = parse_flags([*argv, *more])
        if not 0 < args.flags.rank_timeout <= MAX_TIMEOUT:
            raise ValueError(f"--rank_timeout {args.flags.rank_timeout}: give a time from above 0 to {MAX_TIMEOUT:g} s")
        own = config_of_rank(args.cfg, launch)
        from rsl_rl.utils.seeding import require_device

        for name in ("sim_device", "rl_device"):
            require_device(name, getattr(own, name))
    return args, own


def parse_flags(argv: Sequence[str]) -> Arguments:
    """Parse the command line of a training."""
    return parse(Flags, __doc__ or "", from_run=False, argv=argv)


def train(args: Arguments, own: Any, launch: Launch, collective: "Collective") -> int:
    """Train with the config of one rank, ``own``."""
    cfg, engine, is_first = args.cfg, engine_name(args.cfg), collective.rank == 0
    if engine == "mujoco_warp" and is_first:
        print_line("MuJoCo Warp compiles its kernels, which takes about a minute if they are not cached")
    with usage_errors():
        for line in audit_lines(cfg.env) if args.flags.audit and is_first else ():
            print_line(line)
        page = TrainingPage(args.flags.page) if args.flags.page is not None and is_first else None
        runner, notes, videos = set_up(args, own, collective)
    run = runner.log_dir
    assert run is not None  # the runner was given one
    device = f"{runner.env.device}{f' ({engine})' if engine else ''}"
    shared, num_envs = f", shared by {collective.size} ranks", sum(collective.gather(runner.env.num_envs))
    device += shared if collective.size > 1 else ""
    lines = [f"note: {note}" for note in (*runner.env_corrections, *notes)]
    lines += [f"{cfg.task}: {num_envs} environments on {device}, networks on {runner.device}", f"run: {run}"]
    lines += [f"page: {page.address}"] if page is not None else []
    for line in lines if is_first else ():
        print_line(line)
    if page is not None:
        page.start(run, describe_page(cfg, run, runner.current_learning_iteration))
    code, last_lines = learn(runner, cfg, launch, videos)
    if page is not None:
        page.end("; ".join(last_lines))
    for line in last_lines if is_first and code != 1 else ():
        print_line(line)
    return code


def learn(
    runner: "OnPolicyRunner", cfg: Any, launch: Launch, videos: "Optional[VideoCallback]"
) -> Tuple[int, List[str]]:
    """Train until the last iteration, the gate or a signal; return the exit code and lines on how it ended. The line of
    a failure is printed."""
    from rsl_rl.env import ContractError
    from rsl_rl.runners import TrainingError

    received, collective, run = stop_on_signals(runner), runner.collective, runner.log_dir
    assert run is not None  # the runner was given one
    remaining = cfg.runner.max_iterations - runner.current_learning_iteration
    try:
        if collective.rank == 0 and launch.has_group:
            mark_run(run)
        runner.learn(remaining, init_at_random_ep_len=cfg.runner.init_at_random_ep_len and not runner.episodes_restored)
        done = runner.current_learning_iteration
        passed = runner.stopped_by == GATE
        collective.close()
        if videos is not None and (passed or done >= cfg.runner.max_iterations):
            videos.finish(interrupted=lambda: bool(received))
    except (TrainingError, ContractError, OSError, SystemExit) as error:  # signals raise nothing here
        if isinstance(error, SystemExit):
            error = TrainingError(explain_exit(error))
        failure = f"failed after iteration {runner.current_learning_iteration}: {short_line(str(error))}"
        if collective.claim_report():
            print(f"{program()}: {prefix_of(collective)}{failure}", file=sys.stderr)
        return 1, [failure]
    finally:
        if videos is not None:
            videos.cancel()
    if collective.rank == 0:
        unmark_run(run)
    if passed:
        times = f"{cfg.progress.until_gate} evaluations in a row" if cfg.progress.until_gate > 1 else "an evaluation"
        reason = f"the policy passed the gate in {times}: training ends after iteration {done}"
        return 0, [reason, f"done: {run}"]
    if done >= cfg.runner.max_iterations:
        return 0, [f"done: {run}"]
    code = INTERRUPTED if signal.SIGINT in received or runner.stopped_by == "SIGINT" else TERMINATED
    line = f"interrupted by {runner.stopped_by} after iteration {done} and saved; continue with --resume"
    return exit_code_of_stop(code, launch), [line]


def describe_page(cfg: Any, run: Path, iteration: int) -> PageTraining:
    """Return what the page of a training shows that goes on from an iteration."""
    from rsl_rl.config.task import LeggedRobotConfig

    has_robot = isinstance(cfg.env, LeggedRobotConfig)
    gate = dict(cfg.env.gate) if has_robot else {}
    return PageTraining(cfg.task, run.name, iteration, cfg.runner.max_iterations, gate, has_robot)


def engine_name(cfg: Any) -> str:
    """Return the name of the physics engine; empty for a task without physics."""
    return cfg.env.sim.backend if hasattr(cfg.env, "sim") else ""


def set_up(
    args: Arguments, own: Any, collective: "Collective"
) -> "Tuple[OnPolicyRunner, List[str], Optional[VideoCallback]]":
    """Return the runner with its callbacks, notes for the user, and the callback of videos.

    The checkpoint of a run that is resumed is loaded. ``own`` is the config of this rank; all ranks of the collective
    call it together.
    """
    from rsl_rl.utils.checkpoints import find_checkpoint
    from rsl_rl.utils.host import prepare_host
    from rsl_rl.utils.seeding import make_deterministic, seed_everything

    cfg = args.cfg
    run, which = args.run, args.flags.checkpoint
    checkpoint = collective.call_on_first(lambda: find_checkpoint(run, which)) if run else None
    weights = expand_user(args.flags.init_from, "--init_from") if args.flags.init_from else None
    if weights is not None and weights.is_dir():
        weights = find_checkpoint(weights)
    prepare_host()
    notes = make_deterministic() if cfg.deterministic else []
    if engine_name(cfg) == "mujoco_warp" and cfg.sim_device == "cpu":
        notes.append("mujoco_warp on a CPU uses one thread and is for tests; --sim mujoco is many times as fast")
    elif engine_name(cfg) == "mujoco_warp" and cfg.deterministic:
        notes.append("MuJoCo Warp adds contact forces in no fixed order on a GPU; --sim mujoco gives the same bits")
    actuator = type(cfg.env.control.actuator).__name__ if hasattr(cfg.env, "control") else "ActuatorConfig"
    if actuator != "ActuatorConfig":
        notes.append(f"actuator: {actuator}, computed before each physics step")
    seed_everything(own.seed)
    env = own.env.build(device=own.sim_device, seed=own.seed)
    callback_envs = build_callback_envs(own) if collective.rank == 0 else ([], None)
    if checkpoint is None:
        runner = create_run(env, args, own.rl_device, collective, weights)
        notes += [f"weights of {weights}"] if weights else []
    else:
        runner, more_notes = resume_run(env, args, own.rl_device, collective, checkpoint)
        notes += more_notes
    runner.add_git_repo_to_log(file_of(cfg))
    notes += attach_terrain_report(runner, cfg.runner.max_iterations)
    return runner, notes, attach_callbacks(runner, cfg, *callback_envs)


def create_run(
    env: Any, args: Arguments, device: str, collective: "Collective", weights: Optional[Path]
) -> "OnPolicyRunner":
    """Create a run with a new folder, with the weights of a checkpoint if one is given; an error leaves no folder."""
    from rsl_rl.runners import OnPolicyRunner
    from rsl_rl.runners.checkpoints import load_algorithm
    from rsl_rl.utils.checkpoints import discard_run_folder, read_checkpoint
    from rsl_rl.utils.files import make_new_folder

    cfg = args.cfg
    name = "_".join(part for part in (f"{datetime.now():%Y-%m-%d_%H-%M-%S}", cfg.runner.run_name) if part)
    folder = collective.call_on_first(lambda: make_new_folder(args.log_root / cfg.runner.experiment_name, name))
    try:
        runner = OnPolicyRunner(env, cfg, folder, device, collective)
        if weights is not None:
            load_algorithm(runner.alg, weights, read_checkpoint(weights, runner.alg.device), load_optimizer=False)
        if collective.rank == 0:
            write_provenance(folder, args.words, collective.size)
        return runner
    except BaseException:
        if collective.rank == 0:
            discard_run_folder(folder)
        raise


def resume_run(
    env: Any, args: Arguments, device: str, collective: "Collective", checkpoint: Path
) -> "Tuple[OnPolicyRunner, List[str]]":
    """Resume a run from a checkpoint; also return notes on what differs."""
    from rsl_rl.runners import OnPolicyRunner
    from rsl_rl.utils.checkpoints import checkpoints_of

    flags, limit, notes = args.flags, args.cfg.runner.max_iterations, []
    runner = OnPolicyRunner(env, args.cfg, checkpoint.parent, device, collective)
    runner.load(checkpoint, load_env=not flags.fresh_episodes)
    if runner.current_learning_iteration >= limit:
        raise ValueError(f"{checkpoint} has reached max_iterations={limit}; increase --max_iterations")
    if not runner.episodes_restored:
        reason = "--fresh_episodes" if flags.fresh_episodes else f"{checkpoint.name} has no state of them"
        if runner.ranks_of_checkpoint != collective.size:
            reason = (
                f"{checkpoint.name} is of {runner.ranks_of_checkpoint} ranks, and this training has {collective.size}"
            )
        notes.append(f"new episodes of {type(env).__name__} are started: {reason}")
    newest = checkpoints_of(checkpoint.parent)[-1]
    if flags.checkpoint == -1 and newest != checkpoint:
        notes.append(f"{newest.name} is damaged; resuming from {checkpoint.name}")
    return runner, notes


def build_callback_envs(cfg: Any) -> "Tuple[List[EvaluationTest], Optional[LeggedRobot]]":
    """Return the tests of evaluations and the environment of videos, if asked for; errors occur before a run is
    created."""
    from rsl_rl.evaluation.callbacks import build_tests, build_video_env

    progress, device, seed = cfg.progress, cfg.sim_device, cfg.seed
    tests = build_tests(cfg.env, progress, device, seed + 1000) if progress.evaluate_interval else []
    return tests, build_video_env(cfg.env, progress, device, seed) if progress.video_interval else None


def attach_callbacks(
    runner: "OnPolicyRunner", cfg: Any, tests: "Sequence[EvaluationTest]", video_env: "Optional[LeggedRobot]"
) -> "Optional[VideoCallback]":
    """Add the callbacks to the runner; return that of videos."""
    from rsl_rl.evaluation.callbacks import EvaluationCallback, VideoCallback, describe_evaluation
    from rsl_rl.runners.listeners import BestCheckpoint, GateStreak

    progress, last, policy = cfg.progress, cfg.runner.max_iterations, runner.get_inference_policy
    folder = runner.log_dir
    assert folder is not None  # the runner was given one
    if progress.evaluate_interval:  # also on ranks without the tests
        iteration = runner.current_learning_iteration
        listeners = [
            lambda iteration, metrics: runner.print_line(describe_evaluation(iteration, metrics, cfg.env.gate)),
            BestCheckpoint(folder, iteration, runner.save, runner.print_line).save_if_better,
        ]
        if progress.until_gate:
            stop = partial(runner.request_stop, GATE)
            streak = GateStreak(progress.until_gate, progress.gate_score, stop, folder, iteration)
            listeners.append(streak.note_evaluation)
        runner.after_update.append(EvaluationCallback(tests, progress, last, policy, listeners, runner.collective))
    if video_env is None:
        return None
    videos = VideoCallback(video_env, progress, last, policy, folder / "videos", runner.print_line)
    runner.after_update.append(videos)
    return videos


def attach_terrain_report(runner: "OnPolicyRunner", last: int) -> List[str]:
    """Write a picture of the terrain; draw the levels, and report a curriculum on which robots do not advance. Return
    notes for the user."""
    from rsl_rl.config.task import LeggedRobotConfig

    env: Any = runner.env
    folder = runner.log_dir
    rough = isinstance(env.cfg, LeggedRobotConfig) and env.cfg.terrain.is_rough
    if not rough or folder is None or runner.collective.rank != 0:
        return []
    from rsl_rl.evaluation.curriculum import CurriculumReport, write_overview

    runner.after_update.append(CurriculumReport(env, folder, last, runner.print_line))
    return write_overview(env, folder)

"""Train a policy: `python scripts/train.py --task go2_flat`."""

import os
import signal
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, List, NamedTuple, Optional, Tuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.command_line import LOGS, Arguments, parse, say, usage_errors

if TYPE_CHECKING:
    from rsl_rl.runners import OnPolicyRunner
    from rsl_rl.tasks.legged_robot import LeggedRobot
    from rsl_rl.tasks.progress import Clips


@dataclass(frozen=True)
class Flags:
    """What to do, apart from the config."""

    list: bool = False
    """Print the names of the tasks and leave."""
    resume: bool = False
    """Go on with an earlier run in its own folder, with its own config, until max_iterations is reached."""
    load_run: str = "-1"
    """Folder of the run to resume; -1 for the newest."""
    checkpoint: int = -1
    """Iteration to resume from; -1 for the newest that is whole."""
    fresh_episodes: bool = False
    """With --resume: begin new episodes instead of going on with those of the run, so that num_envs may change."""
    init_from: str = ""
    """Begin with the weights of this checkpoint file, or of the newest checkpoint of this run folder."""
    headless: bool = True
    """Accepted for legged_gym's users; training never opens a window."""


INTERRUPTED, TERMINATED = 130, 143
"""Exit codes after Ctrl-C, and after SIGTERM, SIGUSR1 or max_time; the run is saved."""

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1") if hasattr(signal, name)]
"""What ends a training in an orderly way; SLURM sends SIGUSR1 before the end, if asked to."""


def main(args: Arguments) -> int:
    cfg, engine = args.cfg, engine_of(args.cfg)
    leave_at_signals()
    if engine == "mujoco_warp":
        say("MuJoCo Warp builds its kernels, which takes a minute or so where it has none in its cache")
    with usage_errors():
        runner, notes, clips = set_up(args)
    for note in (*runner.env_corrections, *notes):
        say(f"note: {note}")
    place = f"{runner.env.device}{f' ({engine})' if engine else ''}"
    say(f"{cfg.task}: {runner.env.num_envs} environments on {place}, networks on {runner.device}")
    say(f"run: {runner.log_dir}")
    received = stop_at_signals(runner)
    from rsl_rl.runners import TrainingError

    left = cfg.runner.max_iterations - runner.current_learning_iteration
    try:
        runner.learn(left, init_at_random_ep_len=cfg.runner.init_at_random_ep_len and not runner.episodes_restored)
        done = runner.current_learning_iteration
        for one in clips if done >= cfg.runner.max_iterations else ():
            one.finish(interrupted=lambda: bool(received))
    except (TrainingError, OSError) as error:
        print(f"train.py: failed after iteration {runner.current_learning_iteration}: {error}", file=sys.stderr)
        return 1
    finally:
        for one in clips:
            one.give_up()
    if done < cfg.runner.max_iterations:
        reason = received[0].name if received else "max_time"
        say(f"interrupted by {reason} after iteration {done} and saved; go on with --resume")
        return INTERRUPTED if signal.SIGINT in received else TERMINATED
    say(f"done: {runner.log_dir}")
    return 0


def engine_of(cfg: Any) -> str:
    """Name what computes the physics; nothing where there is none."""
    return cfg.env.sim.backend if hasattr(cfg.env, "sim") else ""


class Training(NamedTuple):
    """What is to run."""

    runner: "OnPolicyRunner"
    notes: List[str]  # what the user should know
    clips: "List[Clips]"  # one where films are asked for


def set_up(args: Arguments) -> Training:
    """Build everything, with the state of an earlier run if one is resumed."""
    from rsl_rl.utils.checkpoints import find_checkpoint
    from rsl_rl.utils.host import prepare_host
    from rsl_rl.utils.seeding import make_deterministic, require_device, seed_everything

    cfg = args.cfg
    for name in ("sim_device", "rl_device"):
        require_device(name, getattr(cfg, name))
    checkpoint = find_checkpoint(args.run, args.flags.checkpoint) if args.run else None
    weights = find_weights(args.flags.init_from) if args.flags.init_from else None
    prepare_host()
    notes = make_deterministic() if cfg.deterministic else []
    if engine_of(cfg) == "mujoco_warp" and cfg.sim_device == "cpu":
        notes.append("mujoco_warp on a CPU takes one thread and is for tests; --sim mujoco is many times as fast")
    seed_everything(cfg.seed)
    env = cfg.env.build(device=cfg.sim_device, seed=cfg.seed)
    onlooking = build_onlooking(cfg)
    if checkpoint is None:
        runner = begin(env, cfg, weights)
        notes += [f"weights of {weights}"] if weights else []
    else:
        runner, more_notes = go_on(env, args, checkpoint)
        notes += more_notes
    return Training(runner, notes, look_on(runner, cfg, *onlooking))


def build_onlooking(cfg: Any) -> "Tuple[List[LeggedRobot], List[LeggedRobot]]":
    """Build what progress is shown with, before there is a run: the robots to judge and those to film, each one
    environment or none."""
    from rsl_rl.tasks.progress import build_for_clips, build_for_evaluations

    progress, device, seed = cfg.progress, cfg.sim_device, cfg.seed
    judged = [build_for_evaluations(cfg.env, progress, device, seed + 1000)] if progress.evaluate_interval else []
    filmed = [build_for_clips(cfg.env, progress, device, seed)] if progress.video_interval else []
    return judged, filmed


def look_on(
    runner: "OnPolicyRunner", cfg: Any, judged: "List[LeggedRobot]", filmed: "List[LeggedRobot]"
) -> "List[Clips]":
    """Have the runner show its progress; return what makes the films."""
    from rsl_rl.runners.best import BestCheckpoint
    from rsl_rl.tasks.progress import Clips, Evaluations

    progress, last, policy = cfg.progress, cfg.runner.max_iterations, runner.get_inference_policy
    folder = runner.log_dir
    assert folder is not None  # the runner was given one
    for env in judged:
        best = BestCheckpoint(folder, runner.current_learning_iteration, runner.save, runner.print_line)
        runner.after_update.append(Evaluations(env, progress, last, policy, best.offer))
    clips = [Clips(env, progress, last, policy, folder / "videos", runner.print_line) for env in filmed]
    runner.after_update += clips
    return clips


def find_weights(path: str) -> Path:
    """Return the checkpoint that --init_from names."""
    from rsl_rl.utils.checkpoints import find_checkpoint

    folder = Path(path).expanduser()
    return find_checkpoint(folder) if folder.is_dir() else folder


def begin(env: Any, cfg: Any, weights: Optional[Path]) -> "OnPolicyRunner":
    """Make a run with a new folder, with the weights of a checkpoint if one is given; where something is wrong, no
    folder is left."""
    from rsl_rl.runners import OnPolicyRunner
    from rsl_rl.runners.checkpoint_manager import load_algorithm
    from rsl_rl.utils.checkpoints import discard_run_folder, make_run_folder

    name = "_".join(part for part in (f"{datetime.now():%Y-%m-%d_%H-%M-%S}", cfg.runner.run_name) if part)
    folder = make_run_folder(LOGS / cfg.runner.experiment_name, name)
    try:
        runner = OnPolicyRunner(env, cfg, folder, cfg.rl_device)
        if weights is not None:
            load_algorithm(runner.alg, weights, load_optimizer=False)
        return runner
    except BaseException:
        discard_run_folder(folder)
        raise


def go_on(env: Any, args: Arguments, checkpoint: Path) -> "Tuple[OnPolicyRunner, List[str]]":
    """Take up a run at a checkpoint; also tell what is not as it was."""
    from rsl_rl.runners import OnPolicyRunner
    from rsl_rl.utils.checkpoints import checkpoints_of

    flags, limit, notes = args.flags, args.cfg.runner.max_iterations, []
    runner = OnPolicyRunner(env, args.cfg, checkpoint.parent, args.cfg.rl_device)
    runner.load(checkpoint, load_env=not flags.fresh_episodes)
    if runner.current_learning_iteration >= limit:
        raise ValueError(f"{checkpoint} has reached max_iterations={limit}; give --max_iterations more")
    if not runner.episodes_restored:
        reason = "--fresh_episodes" if flags.fresh_episodes else f"{checkpoint.name} holds no state of them"
        notes.append(f"the episodes of {type(env).__name__} start anew: {reason}")
    newest = checkpoints_of(checkpoint.parent)[-1]
    if flags.checkpoint == -1 and newest != checkpoint:
        notes.append(f"{newest.name} is damaged; going on from {checkpoint.name}")
    return runner, notes


def leave_at_signals() -> None:
    """Have signals end the process with one line, while there is nothing to save yet."""

    def leave(number: int, frame: Any) -> None:
        print(f"train.py: interrupted by {signal.Signals(number).name} before training began", file=sys.stderr)
        raise SystemExit(INTERRUPTED if number == signal.SIGINT else TERMINATED)

    for number in SIGNALS:
        signal.signal(number, leave)


def stop_at_signals(runner: "OnPolicyRunner") -> List[signal.Signals]:
    """Have signals end the training after the iteration at hand, and a second Ctrl-C at once; return the list in which
    the signals received will be."""
    received: List[signal.Signals] = []

    def stop(number: int, frame: Any) -> None:
        if number == signal.SIGINT and signal.SIGINT in received:
            os.write(sys.stderr.fileno(), b"left at once; the last checkpoint is the newest in the run folder\n")
            os._exit(INTERRUPTED)
        received.append(signal.Signals(number))
        runner.request_stop()

    for number in SIGNALS:
        signal.signal(number, stop)
    return received


if __name__ == "__main__":
    sys.exit(main(parse(Flags, __doc__ or "", from_run=False)))

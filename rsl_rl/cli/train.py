"""Train a policy: `rsl-rl train --task go2_flat`."""

import os
import signal
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

from rsl_rl.cli.callbacks import GATE, attach_callbacks, build_callback_envs
from rsl_rl.cli.command_line import Arguments, parse
from rsl_rl.cli.errors import print_line, program, usage_errors
from rsl_rl.cli.experiments import file_of

if TYPE_CHECKING:
    from rsl_rl.evaluation.callbacks import VideoCallback
    from rsl_rl.runners import OnPolicyRunner


@dataclass(frozen=True)
class Flags:
    """Flags of a training; all other flags are fields of the config."""

    list: bool = False
    """Print the names of the tasks and exit."""
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
    log_root: str = ""
    """Folder of all experiments; default: logs/ of the checkout, or of the current folder without a checkout."""
    headless: bool = True
    """Has no effect: training never opens a window. Accepted because legged_gym has it."""


INTERRUPTED, TERMINATED = 130, 143
"""Exit codes after Ctrl-C, and after SIGTERM, SIGUSR1, SIGHUP or max_time; the run is saved."""

SHOW_CURSOR = b"\x1b[?25h"
"""Escape sequence that shows the cursor of a terminal."""

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1", "SIGHUP") if hasattr(signal, name)]
"""Signals that stop a training after saving; SLURM can send SIGUSR1 before the time limit, a closed terminal sends
SIGHUP."""


def main(argv: Sequence[str]) -> int:
    from rsl_rl.cli import train_seeds  # it needs this module

    seeds = train_seeds.split_flags(argv)
    if seeds is not None:
        return train_seeds.main(*seeds)
    return train(parse(Flags, __doc__ or "", from_run=False, argv=argv))


def train(args: Arguments) -> int:
    cfg, engine = args.cfg, engine_name(args.cfg)
    exit_on_signals()
    if engine == "mujoco_warp":
        print_line("MuJoCo Warp compiles its kernels, which takes about a minute if they are not cached")
    with usage_errors():
        runner, notes, video_callbacks = set_up(args)
    for note in (*runner.env_corrections, *notes):
        print_line(f"note: {note}")
    device = f"{runner.env.device}{f' ({engine})' if engine else ''}"
    print_line(f"{cfg.task}: {runner.env.num_envs} environments on {device}, networks on {runner.device}")
    print_line(f"run: {runner.log_dir}")
    received = stop_on_signals(runner)
    from rsl_rl.runners import TrainingError

    remaining = cfg.runner.max_iterations - runner.current_learning_iteration
    try:
        runner.learn(remaining, init_at_random_ep_len=cfg.runner.init_at_random_ep_len and not runner.episodes_restored)
        done = runner.current_learning_iteration
        passed = runner.stopped_by == GATE
        for one in video_callbacks if passed or done >= cfg.runner.max_iterations else ():
            one.finish(interrupted=lambda: bool(received))
    except (TrainingError, OSError) as error:
        print(f"{program()}: failed after iteration {runner.current_learning_iteration}: {error}", file=sys.stderr)
        return 1
    finally:
        for one in video_callbacks:
            one.cancel()
    if passed:
        times = f"{cfg.progress.until_gate} evaluations in a row"
        print_line(f"the policy passed the gate in {times}: training ends after iteration {done}")
    elif done < cfg.runner.max_iterations:
        reason = received[0].name if received else "max_time"
        print_line(f"interrupted by {reason} after iteration {done} and saved; continue with --resume")
        return INTERRUPTED if signal.SIGINT in received else TERMINATED
    print_line(f"done: {runner.log_dir}")
    return 0


def engine_name(cfg: Any) -> str:
    """Return the name of the physics engine; empty for a task without physics."""
    return cfg.env.sim.backend if hasattr(cfg.env, "sim") else ""


class Training(NamedTuple):
    """A training that is ready to run."""

    runner: "OnPolicyRunner"
    notes: List[str]  # for the user
    video_callbacks: "List[VideoCallback]"  # one or none


def set_up(args: Arguments) -> Training:
    """Build environment, runner and callbacks; load the checkpoint of a run that is resumed."""
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
    if engine_name(cfg) == "mujoco_warp" and cfg.sim_device == "cpu":
        notes.append("mujoco_warp on a CPU uses one thread and is for tests; --sim mujoco is many times as fast")
    seed_everything(cfg.seed)
    env = cfg.env.build(device=cfg.sim_device, seed=cfg.seed)
    callback_envs = build_callback_envs(cfg)
    if checkpoint is None:
        runner = create_run(env, args, weights)
        notes += [f"weights of {weights}"] if weights else []
    else:
        runner, more_notes = resume_run(env, args, checkpoint)
        notes += more_notes
    runner.add_git_repo_to_log(file_of(cfg))
    return Training(runner, notes, attach_callbacks(runner, cfg, *callback_envs))


def find_weights(path: str) -> Path:
    """Return the checkpoint of --init_from."""
    from rsl_rl.utils.checkpoints import find_checkpoint

    folder = Path(path).expanduser()
    return find_checkpoint(folder) if folder.is_dir() else folder


def create_run(env: Any, args: Arguments, weights: Optional[Path]) -> "OnPolicyRunner":
    """Create a run with a new folder, with the weights of a checkpoint if one is given; an error leaves no folder."""
    from rsl_rl.runners import OnPolicyRunner
    from rsl_rl.runners.checkpoint_manager import load_algorithm
    from rsl_rl.utils.checkpoints import discard_run_folder, make_run_folder

    cfg = args.cfg
    name = "_".join(part for part in (f"{datetime.now():%Y-%m-%d_%H-%M-%S}", cfg.runner.run_name) if part)
    folder = make_run_folder(args.log_root / cfg.runner.experiment_name, name)
    try:
        runner = OnPolicyRunner(env, cfg, folder, cfg.rl_device)
        if weights is not None:
            load_algorithm(runner.alg, weights, load_optimizer=False)
        return runner
    except BaseException:
        discard_run_folder(folder)
        raise


def resume_run(env: Any, args: Arguments, checkpoint: Path) -> "Tuple[OnPolicyRunner, List[str]]":
    """Resume a run from a checkpoint; also return notes on what differs."""
    from rsl_rl.runners import OnPolicyRunner
    from rsl_rl.utils.checkpoints import checkpoints_of

    flags, limit, notes = args.flags, args.cfg.runner.max_iterations, []
    runner = OnPolicyRunner(env, args.cfg, checkpoint.parent, args.cfg.rl_device)
    runner.load(checkpoint, load_env=not flags.fresh_episodes)
    if runner.current_learning_iteration >= limit:
        raise ValueError(f"{checkpoint} has reached max_iterations={limit}; increase --max_iterations")
    if not runner.episodes_restored:
        reason = "--fresh_episodes" if flags.fresh_episodes else f"{checkpoint.name} has no state of them"
        notes.append(f"new episodes of {type(env).__name__} are started: {reason}")
    newest = checkpoints_of(checkpoint.parent)[-1]
    if flags.checkpoint == -1 and newest != checkpoint:
        notes.append(f"{newest.name} is damaged; resuming from {checkpoint.name}")
    return runner, notes


def exit_on_signals() -> None:
    """Install signal handlers that end the process with one line, before there is something to save."""

    def leave(number: int, frame: Any) -> None:
        print(f"{program()}: interrupted by {signal.Signals(number).name} before training began", file=sys.stderr)
        raise SystemExit(INTERRUPTED if number == signal.SIGINT else TERMINATED)

    handle_signals(leave)


def stop_on_signals(runner: "OnPolicyRunner") -> List[signal.Signals]:
    """Install signal handlers that stop the training after the current iteration, or at once for a second Ctrl-C.

    Return the list to which they append received signals.
    """
    received: List[signal.Signals] = []

    def stop(number: int, frame: Any) -> None:
        if number == signal.SIGINT and signal.SIGINT in received:
            if os.isatty(sys.stdout.fileno()):
                os.write(sys.stdout.fileno(), SHOW_CURSOR)  # the table of the console hides it
            os.write(sys.stderr.fileno(), b"stopped at once; the newest checkpoint is in the run folder\n")
            os._exit(INTERRUPTED)
        received.append(signal.Signals(number))
        runner.request_stop()

    handle_signals(stop)
    return received


def handle_signals(handler: Callable[[int, Any], None]) -> None:
    """Install a handler of all signals in SIGNALS; SIGHUP stays ignored under nohup."""
    hangup = getattr(signal, "SIGHUP", None)
    for number in SIGNALS:
        if number != hangup or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)

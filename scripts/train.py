"""Train a policy: `python scripts/train.py --task go2_flat`."""

import os
import signal
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, List, Tuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.command_line import LOGS, Arguments, parse, usage_errors

if TYPE_CHECKING:
    from rsl_rl.runners import OnPolicyRunner


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
    headless: bool = True
    """Accepted for legged_gym's users; training never opens a window."""


INTERRUPTED, TERMINATED = 130, 143
"""Exit codes after Ctrl-C, and after SIGTERM, SIGUSR1 or max_time; the run is saved."""


def main(args: Arguments) -> int:
    cfg = args.cfg
    with usage_errors():
        runner, notes = set_up(args)
    for note in (*runner.env_corrections, *notes):
        print(f"note: {note}")
    print(f"{cfg.task}: {runner.env.num_envs} environments on {runner.env.device}, networks on {runner.device}")
    print(f"run: {runner.log_dir}")
    received = stop_at_signals(runner)
    left = cfg.runner.max_iterations - runner.current_learning_iteration
    from rsl_rl.runners import TrainingError

    try:
        runner.learn(left, init_at_random_ep_len=cfg.runner.init_at_random_ep_len and not runner.episodes_restored)
    except (TrainingError, OSError) as error:
        print(f"train.py: failed after iteration {runner.current_learning_iteration}: {error}", file=sys.stderr)
        return 1
    if runner.stop_requested or runner.out_of_time:
        reason = received[0].name if received else "max_time"
        done = runner.current_learning_iteration
        print(f"interrupted by {reason} after iteration {done} and saved; go on with --resume")
        return INTERRUPTED if signal.SIGINT in received else TERMINATED
    print(f"done: {runner.log_dir}")
    return 0


def set_up(args: Arguments) -> "Tuple[OnPolicyRunner, List[str]]":
    """Build everything, with the state of an earlier run if one is resumed; also tell what the user should know.

    Where something is wrong, no new run folder is left.
    """
    from rsl_rl.runners import OnPolicyRunner
    from rsl_rl.runners.checkpoint import (
        checkpoints_of,
        discard_run_folder,
        find_checkpoint,
        make_run_folder,
        supersede_after,
    )
    from rsl_rl.utils.host import prepare_host
    from rsl_rl.utils.seeding import make_deterministic, require_device, seed_everything

    cfg = args.cfg
    for name in ("sim_device", "rl_device"):
        require_device(name, getattr(cfg, name))
    checkpoint = find_checkpoint(args.run, args.flags.checkpoint) if args.run else None
    prepare_host()
    notes = make_deterministic() if cfg.deterministic else []
    seed_everything(cfg.seed)
    env = cfg.env.build(device=cfg.sim_device, seed=cfg.seed)
    if checkpoint is None:
        name = "_".join(part for part in (f"{datetime.now():%Y-%m-%d_%H-%M-%S}", cfg.runner.run_name) if part)
        folder = make_run_folder(LOGS / cfg.runner.experiment_name, name)
        try:
            return OnPolicyRunner(env, cfg, folder, cfg.rl_device), notes
        except BaseException:
            discard_run_folder(folder)
            raise
    runner = OnPolicyRunner(env, cfg, checkpoint.parent, cfg.rl_device)
    runner.load(checkpoint)
    if runner.current_learning_iteration >= cfg.runner.max_iterations:
        raise ValueError(
            f"{checkpoint} has reached max_iterations={cfg.runner.max_iterations}; give --max_iterations more"
        )
    if not runner.episodes_restored:
        notes.append(f"{checkpoint.name} holds no state of {type(env).__name__}; its episodes start anew")
    newest = checkpoints_of(checkpoint.parent)[-1]
    if args.flags.checkpoint == -1 and newest != checkpoint:
        notes.append(f"{newest.name} is damaged; going on from {checkpoint.name}")
    supersede_after(checkpoint.parent, runner.current_learning_iteration)
    return runner, notes


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

    for name in ("SIGINT", "SIGTERM", "SIGUSR1"):  # SIGUSR1: what SLURM sends before the end, where it exists
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), stop)
    return received


if __name__ == "__main__":
    sys.exit(main(parse(Flags, __doc__ or "", from_run=False)))

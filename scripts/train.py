"""Train a policy: `python scripts/train.py --task go2_flat`."""

import signal
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Tuple

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
    """Iteration to resume from; -1 for the newest."""
    headless: bool = True
    """Accepted for legged_gym's users; training never opens a window."""


def main(args: Arguments) -> int:
    cfg = args.cfg
    with usage_errors():
        runner, resumed = set_up(args)
    for correction in runner.env_corrections:
        print(f"note: {correction}")
    restorable = hasattr(runner.env, "load_state_dict")
    if resumed and not restorable:
        print(f"note: {type(runner.env).__name__} keeps no state of its own; its episodes start anew")
    print(f"{cfg.task}: {runner.env.num_envs} environments on {runner.env.device}, networks on {runner.device}")
    print(f"run: {runner.log_dir}")
    signal.signal(signal.SIGINT, lambda *_: stop(runner))
    left = cfg.runner.max_iterations - runner.current_learning_iteration
    runner.learn(left, init_at_random_ep_len=cfg.runner.init_at_random_ep_len and not (resumed and restorable))
    if runner.stop_requested:
        print(f"interrupted after iteration {runner.current_learning_iteration} and saved; go on with --resume")
        return 130
    print(f"done: {runner.log_dir}")
    return 0


def set_up(args: Arguments) -> "Tuple[OnPolicyRunner, bool]":
    """Build everything, and only when all of it works create the run folder; also tell whether a run is resumed."""
    from rsl_rl.runners import OnPolicyRunner
    from rsl_rl.runners.checkpoint import find_checkpoint, make_run_folder, supersede_after
    from rsl_rl.utils.host import prepare_host
    from rsl_rl.utils.seeding import require_device, seed_everything

    cfg = args.cfg
    for name in ("sim_device", "rl_device"):
        require_device(name, getattr(cfg, name))
    checkpoint = find_checkpoint(args.run, args.flags.checkpoint) if args.run else None
    prepare_host()
    seed_everything(cfg.seed)
    env = cfg.env.build(device=cfg.sim_device, seed=cfg.seed)
    experiment = LOGS / cfg.runner.experiment_name
    name = "_".join(part for part in (f"{datetime.now():%Y-%m-%d_%H-%M-%S}", cfg.runner.run_name) if part)
    runner = OnPolicyRunner(env, cfg, args.run or experiment / name, cfg.rl_device)
    if checkpoint is None:
        runner.log_dir = make_run_folder(experiment, name)
        return runner, False
    runner.load(checkpoint)
    if runner.current_learning_iteration >= cfg.runner.max_iterations:
        raise ValueError(
            f"{checkpoint} has reached max_iterations={cfg.runner.max_iterations}; give --max_iterations more"
        )
    supersede_after(checkpoint.parent, runner.current_learning_iteration)
    return runner, True


def stop(runner: "OnPolicyRunner") -> None:
    """Finish the iteration and save at the first Ctrl-C; leave at once at the second."""
    if runner.stop_requested:
        raise KeyboardInterrupt
    runner.request_stop()


if __name__ == "__main__":
    sys.exit(main(parse(Flags, __doc__ or "", from_run=False)))

"""Train a policy: `python scripts/train.py --task go2_flat`."""

import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.command_line import LOGS, Arguments, parse, usage_errors


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
    flags, cfg = args.flags, args.cfg
    with usage_errors():
        from rsl_rl.runners import OnPolicyRunner
        from rsl_rl.runners.checkpoint import find_checkpoint
        from rsl_rl.utils.seeding import require_device, seed_everything

        for name in ("sim_device", "rl_device"):
            require_device(name, getattr(cfg, name))
        checkpoint = find_checkpoint(args.run, flags.checkpoint) if args.run else None
        seed_everything(cfg.seed)
        env = cfg.env.build(device=cfg.sim_device, seed=cfg.seed)
        name = "_".join(part for part in (f"{datetime.now():%Y-%m-%d_%H-%M-%S}", cfg.runner.run_name) if part)
        log_dir = args.run or LOGS / cfg.runner.experiment_name / name
        runner = OnPolicyRunner(env, cfg, log_dir, cfg.rl_device)
        if checkpoint is not None:
            runner.load(checkpoint)
        left = cfg.runner.max_iterations - runner.current_learning_iteration
        if left <= 0:
            raise ValueError(
                f"{checkpoint} has reached max_iterations={cfg.runner.max_iterations}; give --max_iterations more"
            )
    for correction in runner.env_corrections:
        print(f"note: {correction}")
    if checkpoint is not None and not hasattr(env, "load_state_dict"):
        print(f"note: {type(env).__name__} keeps no state of its own; its episodes start anew")
    print(f"{cfg.task}: {env.num_envs} environments on {env.device}, networks on {runner.device}\nrun: {log_dir}")
    try:
        runner.learn(left, init_at_random_ep_len=cfg.runner.init_at_random_ep_len and checkpoint is None)
    except KeyboardInterrupt:
        print(f"interrupted; saved {runner.save_to_log_dir()}")
        return 130
    print(f"done: {log_dir}")
    return 0


if __name__ == "__main__":
    sys.exit(main(parse(Flags, __doc__ or "", from_run=False)))

"""Train a policy: `rsl-rl train --task go2_flat`."""

import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Sequence, Tuple

from rsl_rl.cli import train_seeds
from rsl_rl.cli.command_line import Arguments, parse
from rsl_rl.cli.errors import fail, print_line, program, usage_errors
from rsl_rl.cli.ranks import (
    arguments_after_restart,
    config_of_rank,
    exit_code_of_stop,
    mark_run,
    prepare_rank,
    run_rank,
    unmark_run,
)
from rsl_rl.cli.signals import INTERRUPTED, TERMINATED, exit_on_signals, stop_on_signals
from rsl_rl.cli.training_setup import GATE, engine_name, set_up
from rsl_rl.utils.launch import Launch

if TYPE_CHECKING:
    from rsl_rl.distributed import Collective


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
    rank_timeout: float = 300.0
    """With torchrun: longest time that a process waits for the others [s]; then the training ends and names them."""


def main(argv: Sequence[str]) -> int:
    launch = prepare_rank()
    seeds = train_seeds.split_flags(argv)
    if seeds is not None:
        if launch.size > 1:
            fail("--seeds starts several trainings of one process each; start it without torchrun")
        return train_seeds.train_seeds(*seeds, parse_flags)
    args = parse_flags(argv)
    if launch.restarts:
        more = arguments_after_restart(args.log_root / args.cfg.runner.experiment_name, args.run)
        args = parse_flags([*argv, *more])
    from rsl_rl.distributed import join_process_group
    from rsl_rl.utils.seeding import require_device

    exit_on_signals()
    with usage_errors():
        if not args.flags.rank_timeout > 0:
            raise ValueError(f"--rank_timeout {args.flags.rank_timeout}: give a time in seconds")
        own = config_of_rank(args.cfg, launch)
        for name in ("sim_device", "rl_device"):
            require_device(name, getattr(own, name))
        collective = join_process_group(own.rl_device, args.flags.rank_timeout)
    return run_rank(collective, lambda: train(args, own, launch, collective))


def parse_flags(argv: Sequence[str]) -> Arguments:
    """Parse the command line of a training."""
    return parse(Flags, __doc__ or "", from_run=False, argv=argv)


def train(args: Arguments, own: Any, launch: Launch, collective: "Collective") -> int:
    """Train with the config of one rank, ``own``."""
    cfg, engine, is_first = args.cfg, engine_name(args.cfg), collective.rank == 0
    if engine == "mujoco_warp" and is_first:
        print_line("MuJoCo Warp compiles its kernels, which takes about a minute if they are not cached")
    with usage_errors(collective.claim_report):
        runner, notes, video_callbacks = set_up(args, own, collective)
    run = runner.log_dir
    assert run is not None  # the runner was given one
    device = f"{runner.env.device}{f' ({engine})' if engine else ''}"
    shared, num_envs = f", shared by {collective.size} ranks", sum(collective.gather(runner.env.num_envs))
    device += shared if collective.size > 1 else ""
    lines = [f"note: {note}" for note in (*runner.env_corrections, *notes)]
    lines += [
        f"{cfg.task}: {num_envs} environments on {device}, networks on {runner.device}",
        f"run: {run}",
    ]
    for line in lines if is_first else ():
        print_line(line)
    received = stop_on_signals(runner)
    from rsl_rl.runners import TrainingError

    remaining = cfg.runner.max_iterations - runner.current_learning_iteration
    try:
        if is_first and launch.has_group:
            mark_run(run)
        runner.learn(remaining, init_at_random_ep_len=cfg.runner.init_at_random_ep_len and not runner.episodes_restored)
        done = runner.current_learning_iteration
        passed = runner.stopped_by == GATE
        collective.close()
        for one in video_callbacks if passed or done >= cfg.runner.max_iterations else ():
            one.finish(interrupted=lambda: bool(received))
    except (TrainingError, OSError) as error:
        if collective.claim_report():
            print(f"{program()}: failed after iteration {runner.current_learning_iteration}: {error}", file=sys.stderr)
        return 1
    finally:
        for one in video_callbacks:
            one.cancel()
    if is_first:
        unmark_run(run)
    last_lines, code = [f"done: {run}"], 0
    if passed:
        times = f"{cfg.progress.until_gate} evaluations in a row"
        last_lines.insert(0, f"the policy passed the gate in {times}: training ends after iteration {done}")
    elif done < cfg.runner.max_iterations:
        last_lines = [f"interrupted by {runner.stopped_by} after iteration {done} and saved; continue with --resume"]
        code = INTERRUPTED if signal.SIGINT in received or runner.stopped_by == "SIGINT" else TERMINATED
        code = exit_code_of_stop(code, launch)
    for line in last_lines if is_first else ():
        print_line(line)
    return code

"""A training of several processes, which torchrun has started: what each takes, and how all end together."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

from rsl_rl.cli.command_line import Arguments
from rsl_rl.cli.errors import Ended, UsageError, explain_exit, print_error, program, usage_errors
from rsl_rl.utils.config_io import to_dict
from rsl_rl.utils.files import atomic_write, is_regular_file
from rsl_rl.utils.host import Launch, current_launch, end_with_parent, launcher_name, take_share_of_cpus

if TYPE_CHECKING:
    from rsl_rl.distributed import Collective

COMPARED_FLAGS = ("resume", "checkpoint", "fresh_episodes", "init_from")
"""Flags beside the config that must be the same on all ranks; paths of run folders may differ between machines."""

MARK = ".launcher"
"""File in a run folder with the name of the torchrun whose processes train there."""


def prepare_rank() -> Launch:
    """Return torchrun's description of this process.

    Limit the process to its share of the CPUs, and end it when torchrun ends.
    Call it before torch is imported.
    """
    launch = current_launch()
    if launch.has_group:
        take_share_of_cpus(launch.local_rank, launch.local_size)
        end_with_parent()
    return launch


def config_of_rank(cfg: Any, launch: Launch) -> Any:
    """Return the config of a training with the devices, the seed and the share of the environments of one process."""
    if cfg.env.num_envs < launch.size:
        raise ValueError(
            f"env.num_envs={cfg.env.num_envs} are fewer environments than the {launch.size} processes; they are shared "
            "among these, so give at least one for each"
        )
    return dataclasses.replace(
        cfg,
        sim_device=launch.device(cfg.sim_device),
        rl_device=launch.device(cfg.rl_device),
        seed=launch.seed(cfg.seed),
        env=dataclasses.replace(cfg.env, num_envs=launch.share_of(cfg.env.num_envs)),
    )


def join_ranks(launch: Launch, prepare: Callable[[], Tuple[Arguments, Any]]) -> Tuple[Arguments, Any, Collective]:
    """Return what ``prepare`` returns, the arguments of a training and the config of this rank, and the collective.

    A rank that ``prepare`` refuses, or settings that are not the same on all ranks, end all ranks with one line.
    """
    prepared, error = None, ""
    try:
        prepared = prepare()
    except UsageError as refusal:
        if launch.size == 1:
            raise
        error = refusal.message
    except Exception as failure:
        if launch.size == 1:
            raise
        traceback.print_exc()
        error = f"{type(failure).__name__}: {failure}"
    from rsl_rl.distributed import DEFAULT_TIMEOUT, AgreementError, Start, join_process_group, versions

    device, timeout, start = "cpu", DEFAULT_TIMEOUT, Start(error=error)
    if prepared is not None:
        args, own = prepared
        device, timeout, start = own.rl_device, args.flags.rank_timeout, Start({**versions(), **_settings(args)})
    with usage_errors():
        try:
            collective = join_process_group(device, timeout, start, show=print_error)
        except AgreementError:  # rank 0 has printed it
            raise Ended(2) from None
    assert prepared is not None  # an error is an AgreementError
    return (*prepared, collective)


def _settings(args: Arguments) -> Dict[str, Any]:
    """Return the settings that must be the same on all ranks."""
    return {**{f"--{name}": getattr(args.flags, name) for name in COMPARED_FLAGS}, **to_dict(args.cfg)}


def mark_run(run: Path) -> None:
    """Note in a run folder which torchrun trains there."""
    atomic_write(run / MARK, launcher_name().encode())


def unmark_run(run: Path) -> None:
    """Remove the note of :func:`mark_run`: a later start of the same processes is a training of its own."""
    with contextlib.suppress(OSError):
        (run / MARK).unlink()


def arguments_after_restart(experiment: Path, run: Optional[Path]) -> List[str]:
    """Return further flags with which restarted processes continue the run of the processes before them; empty if there
    is no checkpoint yet. ``run`` is the folder of --resume."""
    if run is None:
        marks = [path for path in experiment.glob(f"*/{MARK}") if is_regular_file(path)]
        marks = [path for path in marks if path.read_bytes() == launcher_name().encode()]
        run = max((path.parent for path in marks), key=lambda folder: folder.name, default=None)
    if run is None or not any(run.glob("model_*.pt")):
        return []
    return ["--resume", "--load_run", str(run), "--checkpoint", "-1", "--init_from", "", "--no_fresh_episodes"]


def run_rank(collective: Collective, work: Callable[[], int]) -> int:
    """Return the exit code of the work of one rank. If it fails, one rank prints why, and the process ends."""
    from rsl_rl.distributed import RankError

    try:
        code = work()
    except RankError as error:
        line = collective.explain(error)
        if line:
            print(f"{program()}: {line}; the newest checkpoint is in the run folder", file=sys.stderr)
        code = 1
    except UsageError as error:
        if collective.claim_report():
            named = error.message.startswith("rank ")
            print_error(error.message if named else f"{prefix_of(collective)}{error.message}")
        code = 2
    except Exception as error:
        if collective.size == 1:
            raise
        if collective.claim_report():
            traceback.print_exc()
            print(f"{program()}: rank {collective.rank} failed: {type(error).__name__}: {error}", file=sys.stderr)
        code = 1
    except Ended as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    except SystemExit as stop:
        if collective.claim_report():
            print(f"{program()}: {prefix_of(collective)}{explain_exit(stop)}", file=sys.stderr)
        code = 1
    if code != 0:
        collective.abort(code)
    return code


def prefix_of(collective: Collective) -> str:
    """Return the start of a message of one rank; empty in a single process."""
    return f"rank {collective.rank}: " if collective.size > 1 else ""


def exit_code_of_stop(code: int, launch: Launch) -> int:
    """Return the exit code of a training that was stopped and saved: 0 where torchrun would restart it otherwise."""
    return 0 if launch.may_restart else code

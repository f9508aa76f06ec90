"""A training of several processes, which torchrun has started: what each takes, and how all end together."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, List, Optional

from rsl_rl.cli.errors import program
from rsl_rl.utils.files import atomic_write, is_regular_file
from rsl_rl.utils.host import Launch, current_launch, launcher_name, parent_death_signal, take_share_of_cpus

if TYPE_CHECKING:
    from rsl_rl.distributed import Collective

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
        end_with_parent = parent_death_signal()
        if end_with_parent is not None:
            end_with_parent()
    return launch


def config_of_rank(cfg: Any, launch: Launch) -> Any:
    """Return the config of a training with the devices, the seed and the share of the environments of one process."""
    num_envs = launch.share_of(cfg.env.num_envs)
    if num_envs == 0:
        raise ValueError(
            f"env.num_envs={cfg.env.num_envs} are fewer environments than the {launch.size} processes; they are shared "
            "among these, so give at least one for each"
        )
    return dataclasses.replace(
        cfg,
        sim_device=launch.device(cfg.sim_device),
        rl_device=launch.device(cfg.rl_device),
        seed=launch.seed(cfg.seed),
        env=dataclasses.replace(cfg.env, num_envs=num_envs),
    )


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
    except Exception as error:
        if collective.size == 1:
            raise
        if collective.claim_report():
            traceback.print_exc()
            print(f"{program()}: rank {collective.rank} failed: {type(error).__name__}: {error}", file=sys.stderr)
        code = 1
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    if code != 0:
        collective.abort(code)
    return code


def exit_code_of_stop(code: int, launch: Launch) -> int:
    """Return the exit code of a training that was stopped and saved: 0 where torchrun would restart it otherwise."""
    return 0 if launch.may_restart else code

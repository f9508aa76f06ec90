"""Flags of the commands: they become a config, with engine and devices of this machine for "auto"."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import importlib.util
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, List, Literal, NamedTuple, Optional, Sequence, Set, Tuple, Type, Union

from rsl_rl.cli.config_flags import SHORTCUTS, parse_config
from rsl_rl.cli.errors import Ended, FlagParser, print_line, usage_errors
from rsl_rl.cli.experiments import Experiments, default_log_root
from rsl_rl.cli.flag_help import print_help
from rsl_rl.config import aliases
from rsl_rl.config.experiment import TrainConfig
from rsl_rl.config.identified import with_identified_files
from rsl_rl.utils.config_io import convert, declared_types, from_dict, read_yaml, short_repr
from rsl_rl.utils.files import expand_user
from rsl_rl.utils.registry import suggest

if TYPE_CHECKING:
    from rsl_rl.sim.base import Backend

IDENTIFIED = "env.identified"
"""Flag of files that `rsl-rl identify` has written. It is no field: the config has what follows from the files."""


@dataclasses.dataclass(frozen=True)
class RunFlags:
    """Flags that name a checkpoint of an existing run."""

    load_run: str = "-1"
    """Folder of the run; -1 for the newest."""
    checkpoint: Union[int, Literal["best"]] = -1
    """Iteration; -1 for the newest, best for the best one of a training with --evaluate_interval."""
    log_root: str = ""
    """Folder of all experiments; default: logs/ of the checkout, or of the current folder without a checkout."""


class Arguments(NamedTuple):
    """A parsed command line."""

    flags: Any  # of the script itself
    cfg: Any  # TrainConfig with the overrides applied
    run: Optional[Path]  # folder of an existing run
    log_root: Path  # folder of all experiments
    words: Tuple[str, ...] = ()  # the command line, with the names of fields

    @property
    def existing_run(self) -> Path:
        assert self.run is not None  # parse() was told to find one
        return self.run


def parse(flags: Type, description: str, from_run: bool, argv: Sequence[str]) -> Arguments:
    """Parse the command line into ``flags`` and a config: that of --task, or that of an existing run."""
    set_omp_spincount()
    for stream in (sys.stdout, sys.stderr):  # print "?" for characters that the terminal does not have
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    own = {field.name for field in dataclasses.fields(flags)}
    argv = [_expand(_current_name(argument, own), own) for argument in argv]
    words = argv
    files, argv = _take_identified(argv)
    early, experiments = _parse_early_flags(argv), Experiments()
    asks_for_help = early.help is not None
    if early.list:
        print("\n".join(experiments.lines()))
        raise Ended(0)
    with usage_errors():
        if not early.task and not asks_for_help:
            mistyped = [f" Did you mean --task in place of {word}?" for word in argv if suggest(word, ["--task"])]
            raise ValueError(
                f"--task is missing; known tasks: {', '.join(experiments.names())}.{''.join(mistyped[:1])}"
            )
        run, unavailable, cfg = None, "", TrainConfig()
        if early.task:  # whose class may inherit the name of another experiment
            cfg = dataclasses.replace(experiments.load(early.task)(), task=early.task)
        if asks_for_help:
            more = f"\n\n--{IDENTIFIED} FILE: a robot with the parameters that rsl-rl identify has found."
            print_help(flags, cfg, SHORTCUTS, description + more * hasattr(cfg.env, "control"), early.help)
            raise Ended(0)
        log_root = default_log_root()
        if early.log_root:
            log_root = Path(os.path.realpath(expand_user(early.log_root, "--log_root")))  # resolve() fails for loops
        import_isaac_gym(early, from_run)
        if from_run or early.resume:
            run, cfg = _read_run(early, cfg, log_root, experiments)
            if not early.resume:
                cfg, unavailable = fallback_to_available(cfg, early)
        if early.sim_backend and not hasattr(cfg.env, "sim"):
            raise ValueError(f"--sim: the task '{cfg.task}' has no physics to choose")
        cfg = dataclasses.replace(cfg, env=with_identified_files(cfg.env, files))
        given, cfg = parse_config(flags, cfg, _with_current_fields(argv, cfg))
        for name, hint in declared_types(flags).items():
            convert(hint, getattr(given, name), f"--{name}")
        cfg = resolve_auto(cfg)
        if unavailable:
            print_line(f"note: the run used {unavailable}, which is not available here; using {chosen_backend(cfg)}")
        if "resume" in own:
            if not given.resume and ((given.load_run, given.checkpoint) != ("-1", -1) or given.fresh_episodes):
                raise ValueError(
                    "--load_run, --checkpoint and --fresh_episodes need --resume; add it, or leave them out"
                )
            if given.resume and given.init_from:
                raise ValueError("--init_from starts a new run, and --resume continues one; use only one of them")
        if not from_run and cfg.acceleration.cuda_graphs and cfg.rl_device.startswith("cpu"):
            raise ValueError(
                "acceleration.cuda_graphs=True needs a GPU and rl_device is the CPU; add --rl_device cuda, or "
                "--acceleration.no_cuda_graphs"
            )
    return Arguments(given, cfg, run, log_root, tuple(words))


def reject_changed_flags(flags: Any, mode: str, *names: str) -> None:
    """Raise a ValueError for flags that have no effect in a mode; ``mode`` starts the message."""
    changed = [f"--{name}" for name in names if getattr(flags, name) != getattr(type(flags), name)]
    if changed:
        raise ValueError(f"{mode}; leave out {', '.join(changed)}")


def _current_name(argument: str, own: Set[str]) -> str:
    """Return a flag with its present name; a deprecated name prints a note."""
    name, equals, value = argument.partition("=")
    new = aliases.FLAGS.get(name[2:].replace("-", "_"), "")
    if new not in own:
        return argument
    print_line(f"note: {name} is deprecated; use --{new}")
    return f"--{new}{equals}{value}"


def _expand(argument: str, own: Set[str]) -> str:
    """Return a flag with underscores; a short form becomes its config field unless the script has such a flag."""
    if not argument.startswith("--"):
        return argument
    name, equals, value = argument[2:].partition("=")
    name = name.replace("-", "_")
    return f"--{name if name in own else SHORTCUTS.get(name, name)}{equals}{value}"


def _with_current_fields(argv: Sequence[str], cfg: TrainConfig) -> List[str]:
    """Return the arguments with the present names of fields; a former name prints a note.

    A former setting of a section becomes flags of the terms that take it; without one it has no effect.
    """
    result, values = [], [*argv]
    while values:
        name, equals, value = values.pop(0).partition("=")
        paths = aliases.current_paths(name[2:], cfg) if name.startswith("--") else [name[2:]]
        if paths == [name[2:]]:
            result.append(name + equals + value)
            continue
        own = [value] if equals else []
        while values and not values[0].startswith("--"):
            own.append(values.pop(0))
        use = f"use {', '.join(f'--{path}' for path in paths)}" if paths else "no term of the task takes it"
        print_line(f"note: {name} is deprecated; {use}")
        for path in paths:
            result += [f"--{path}", *own]
    return result


def _take_identified(argv: Sequence[str]) -> Tuple[List[Path], List[str]]:
    """Return the files of --env.identified, and the other arguments."""
    parser = FlagParser(add_help=False, allow_abbrev=False)
    parser.add_argument(f"--{IDENTIFIED}", dest="files", nargs="+", default=[], type=Path, metavar="FILE")
    parsed, others = parser.parse_known_args(argv)
    return parsed.files, others


def _parse_early_flags(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the flags that decide which config is used."""
    parser = FlagParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--task")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--help", "-h", nargs="?", const="")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--load_run", default="-1")
    parser.add_argument("--checkpoint", default="-1")
    parser.add_argument("--log_root", default="")
    parser.add_argument("--runner.experiment_name", dest="experiment_name")
    parser.add_argument("--env.sim.backend", dest="sim_backend")
    return parser.parse_known_args(argv)[0]


def _read_run(
    early: argparse.Namespace, cfg: TrainConfig, log_root: Path, experiments: Experiments
) -> Tuple[Path, TrainConfig]:
    """Find the run of --load_run and read its config."""
    from rsl_rl.utils.checkpoints import BEST, best_iteration, config_of, find_run  # imports torch, slow for --help

    run = find_run(log_root / (early.experiment_name or cfg.runner.experiment_name), early.load_run or "''")
    asked = best_iteration(run) if early.checkpoint == BEST else early.checkpoint
    path = config_of(run, int(asked) if str(asked).isdecimal() else -1)
    if not path.is_file():
        raise ValueError(f"{run} is not the folder of a run: it has no config.yaml; choose another with --load_run")
    values = read_yaml(path)
    task = values.get("task", cfg.task)
    if not experiments.same(str(task), cfg.task):
        raise ValueError(
            f"{run} is a run of the task {short_repr(task)} and not of '{cfg.task}'; correct --task or --load_run"
        )
    try:
        return run, from_dict(type(cfg), values)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def set_omp_spincount() -> None:
    """Limit the active waiting of OpenMP threads to microseconds, unless the user has set it.

    Otherwise torch's idle threads use the cores that the physics needs. Call it before torch is imported.
    """
    if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & set(os.environ):
        os.environ["GOMP_SPINCOUNT"] = "50000"


def import_isaac_gym(early: argparse.Namespace, from_run: bool) -> None:
    """Import Isaac Gym if it is installed and may be needed: it cannot be imported after torch."""
    may_be_needed = early.sim_backend == "isaacgym" or from_run or early.resume
    if may_be_needed and importlib.util.find_spec("isaacgym") is not None:
        with contextlib.suppress(ImportError):  # its backend reports the error if it is needed
            importlib.import_module("isaacgym")


def fallback_to_available(cfg: TrainConfig, early: argparse.Namespace) -> Tuple[TrainConfig, str]:
    """Set engine and devices of a run to "auto" if this machine does not have them; also return their names then.

    With --sim, only the devices become "auto".
    """
    from rsl_rl.sim.base import AUTO, has_device, is_available

    backend, unavailable = chosen_backend(cfg), ""
    if not (is_available(backend) and has_device(resolve_auto(cfg).rl_device)):
        cfg, unavailable = _with_backend(cfg, AUTO), str(backend)
    elif early.sim_backend is None:
        return cfg, unavailable
    return dataclasses.replace(cfg, sim_device=AUTO, rl_device=AUTO), unavailable


def chosen_backend(cfg: TrainConfig) -> Backend:
    """Return engine and device of a config, with "auto" resolved."""
    from rsl_rl.sim.base import choose_backend

    sim = getattr(cfg.env, "sim", None)  # a task without physics uses the device of MuJoCo
    return choose_backend("mujoco" if sim is None else sim.backend, cfg.sim_device)


def resolve_auto(cfg: TrainConfig) -> TrainConfig:
    """Replace every "auto" by the best choice on this machine."""
    from rsl_rl.sim.base import AUTO

    backend = chosen_backend(cfg)
    rl_device = backend.device if cfg.rl_device == AUTO else cfg.rl_device
    return _with_backend(dataclasses.replace(cfg, sim_device=backend.device, rl_device=rl_device), backend.engine)


def _with_backend(cfg: TrainConfig, backend: str) -> TrainConfig:
    sim = getattr(cfg.env, "sim", None)
    if sim is None:
        return cfg
    env: Any = dataclasses.replace(cfg.env, sim=dataclasses.replace(sim, backend=backend))  # type: ignore[call-arg]
    return dataclasses.replace(cfg, env=env)

"""Command line of the scripts: flags become a config; a user's error becomes one line and exit code 2."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import importlib.util
import io
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator, NamedTuple, Optional, Sequence, Set, Tuple, Type

import tyro
from typing_extensions import Annotated

from configs import EXPERIMENTS
from configs.train_config import TrainConfig
from rsl_rl.utils.config_io import convert, declared_types, from_dict, read_yaml, short_repr
from rsl_rl.utils.terminal import replace_unencodable_output

if TYPE_CHECKING:
    from rsl_rl.sim.selection import Backend

LOGS = Path(__file__).resolve().parent.parent / "logs"

SHORTCUTS = {
    "num_envs": "env.num_envs",
    "sim": "env.sim.backend",
    "max_iterations": "runner.max_iterations",
    "max_time": "runner.max_time",
    "experiment_name": "runner.experiment_name",
    "run_name": "runner.run_name",
    "save_interval": "runner.save_interval",
    "evaluate_interval": "progress.evaluate_interval",
    "video_interval": "progress.video_interval",
    "logger": "runner.logger",
}
"""Flags of legged_gym, and the config field of each."""

DEPRECATED = {"postmortem": "fault_dump"}
"""Old flags that are still accepted, and their new names."""


class Arguments(NamedTuple):
    """A parsed command line."""

    flags: Any  # of the script itself
    cfg: Any  # TrainConfig with the overrides applied
    run: Optional[Path]  # folder of an existing run


def fail(message: str) -> None:
    """Print one line and exit with the code of wrong usage."""
    print(f"{Path(sys.argv[0]).name}: error: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(2)


def print_line(text: str) -> None:
    """Print a line; a closed pipe or a full disk is not an error."""
    try:
        print(text, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # otherwise Python fails again at exit


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Turn errors of a user, raised during the setup, into one line and exit code 2."""
    try:
        yield
    except (ValueError, OSError) as error:
        fail(str(error))
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "allocate" not in str(error):
            raise
        fail(f"this machine has too little memory; use fewer environments or smaller networks ({error})")
    except ModuleNotFoundError as error:
        remedy = "install it with pip, or with an extra of rsl-rl-lib (see README.md)"
        fail(str(error) if "install" in str(error) else f"{error}; {remedy}")


def parse(flags: Type, description: str, from_run: bool, argv: Optional[Sequence[str]] = None) -> Arguments:
    """Parse the command line into ``flags`` and a config: that of --task, or that of an existing run."""
    set_omp_spincount()
    replace_unencodable_output()
    own = {field.name for field in dataclasses.fields(flags)}
    argv = [_expand(_current_name(argument, own), own) for argument in (sys.argv[1:] if argv is None else argv)]
    early = _parse_early_flags(argv)
    if early.list:
        print("\n".join(EXPERIMENTS.names()))
        raise SystemExit(0)
    with usage_errors():
        if early.task is None and not early.help:
            raise ValueError(f"--task is missing; known tasks: {', '.join(EXPERIMENTS.names())}")
        cls = EXPERIMENTS.load(early.task or EXPERIMENTS.names()[0])
        if not (isinstance(cls, type) and issubclass(cls, TrainConfig)):
            raise ValueError(f"--task {early.task} is no TrainConfig; name one of {', '.join(EXPERIMENTS.names())}")
        cfg, run, unavailable = cls(), None, ""
        _import_isaac_gym(early, from_run)
        if (from_run or early.resume) and not early.help:
            run, cfg = _read_run(early, cfg)
            if not early.resume:
                cfg, unavailable = _fallback_to_available(cfg, early)
        if early.sim_backend and not hasattr(cfg.env, "sim"):
            raise ValueError(f"--sim: the task '{cfg.task}' has no physics to choose")
        parsed = _parse_config(flags, cfg, description, argv)
        for name, hint in declared_types(flags).items():
            convert(hint, getattr(parsed.flags, name), f"--{name}")
        cfg = _resolve_auto(parsed.cfg)
        if unavailable:
            print_line(f"note: the run used {unavailable}, which is not available here; using {_chosen_backend(cfg)}")
        if not from_run:
            _reject_unused_flags(parsed.flags, cfg)
    return Arguments(parsed.flags, cfg, run)


def _import_isaac_gym(early: argparse.Namespace, from_run: bool) -> None:
    """Import Isaac Gym if it is installed and may be needed: it cannot be imported after torch."""
    may_be_needed = early.sim_backend == "isaacgym" or from_run or early.resume
    if may_be_needed and not early.help and importlib.util.find_spec("isaacgym") is not None:
        with contextlib.suppress(ImportError):  # its backend reports the error if it is needed
            importlib.import_module("isaacgym")


def _fallback_to_available(cfg: TrainConfig, early: argparse.Namespace) -> Tuple[TrainConfig, str]:
    """Set engine and devices of a run to "auto" if this machine does not have them; also return their names then.

    With --sim, only the devices become "auto".
    """
    from rsl_rl.sim.selection import AUTO, has_device, is_available

    backend, unavailable = _chosen_backend(cfg), ""
    if not (is_available(backend) and has_device(_resolve_auto(cfg).rl_device)):
        cfg, unavailable = _with_backend(cfg, AUTO), str(backend)
    elif early.sim_backend is None:
        return cfg, unavailable
    return dataclasses.replace(cfg, sim_device=AUTO, rl_device=AUTO), unavailable


def _chosen_backend(cfg: TrainConfig) -> Backend:
    """Return engine and device of a config, with "auto" resolved."""
    from rsl_rl.sim.selection import choose_backend

    return choose_backend(_engine_name(cfg), cfg.sim_device)


def _resolve_auto(cfg: TrainConfig) -> TrainConfig:
    """Replace every "auto" by the best choice on this machine."""
    from rsl_rl.sim.selection import AUTO

    backend = _chosen_backend(cfg)
    rl_device = backend.device if cfg.rl_device == AUTO else cfg.rl_device
    return _with_backend(dataclasses.replace(cfg, sim_device=backend.device, rl_device=rl_device), backend.engine)


def _engine_name(cfg: TrainConfig) -> str:
    """Return the engine of a config; a task without physics uses the device of MuJoCo."""
    sim = getattr(cfg.env, "sim", None)
    return "mujoco" if sim is None else sim.backend


def _with_backend(cfg: TrainConfig, backend: str) -> TrainConfig:
    sim = getattr(cfg.env, "sim", None)
    if sim is None:
        return cfg
    env: Any = dataclasses.replace(cfg.env, sim=dataclasses.replace(sim, backend=backend))  # type: ignore[call-arg]
    return dataclasses.replace(cfg, env=env)


def set_omp_spincount() -> None:
    """Limit the active waiting of OpenMP threads to microseconds, unless the user has set it.

    Otherwise torch's idle threads use the cores that the physics needs. Call it before torch is imported.
    """
    if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & set(os.environ):
        os.environ["GOMP_SPINCOUNT"] = "50000"


def _reject_unused_flags(flags: Any, cfg: TrainConfig) -> None:
    if not flags.resume and ((flags.load_run, flags.checkpoint) != ("-1", -1) or flags.fresh_episodes):
        raise ValueError("--load_run, --checkpoint and --fresh_episodes need --resume; add it, or leave them out")
    if flags.resume and flags.init_from:
        raise ValueError("--init_from starts a new run, and --resume continues one; use only one of them")
    if cfg.acceleration.cuda_graphs and cfg.rl_device.startswith("cpu"):
        raise ValueError(
            "acceleration.cuda_graphs=True needs a GPU and rl_device is the CPU; add --rl_device cuda, or "
            "--acceleration.no_cuda_graphs"
        )


def _current_name(argument: str, own: Set[str]) -> str:
    """Return a flag with its present name; a deprecated name prints a note."""
    name, equals, value = argument.partition("=")
    new = DEPRECATED.get(name[2:].replace("-", "_"), "")
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


def _parse_early_flags(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the flags that decide which config is used."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--task")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--help", "-h", action="store_true")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--load_run", default="-1")
    parser.add_argument("--checkpoint", default="-1")
    parser.add_argument("--runner.experiment_name", dest="experiment_name")
    parser.add_argument("--env.sim.backend", dest="sim_backend")
    try:
        return parser.parse_known_args(argv)[0]
    except argparse.ArgumentError as error:
        fail(str(error))
        raise


def _read_run(early: argparse.Namespace, cfg: TrainConfig) -> Tuple[Path, TrainConfig]:
    """Find the run of --load_run and read its config."""
    from rsl_rl.utils.checkpoints import BEST, best_iteration, config_of, find_run  # imports torch, slow for --help

    run = find_run(LOGS / (early.experiment_name or cfg.runner.experiment_name), early.load_run or "''")
    asked = best_iteration(run) if early.checkpoint == BEST else early.checkpoint
    path = config_of(run, int(asked) if str(asked).isdecimal() else -1)
    if not path.is_file():
        raise ValueError(f"{run} is not the folder of a run: it has no config.yaml; choose another with --load_run")
    values = read_yaml(path)
    task = values.get("task", cfg.task)
    if task != cfg.task:
        raise ValueError(
            f"{run} is a run of the task {short_repr(task)} and not of '{cfg.task}'; correct --task or --load_run"
        )
    try:
        return run, from_dict(type(cfg), values)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _parse_config(flags: Type, cfg: Any, description: str, argv: Sequence[str]) -> Any:
    unnamed = tyro.conf.arg(name="")
    combined = dataclasses.make_dataclass(
        "Arguments",
        [
            ("flags", Annotated[flags, unnamed], dataclasses.field(default_factory=flags)),  # type: ignore[valid-type]
            ("cfg", Annotated[type(cfg), unnamed], dataclasses.field(default=cfg)),
        ],
    )
    shortcuts = "\n".join(f"--{short}  for  --{field}" for short, field in SHORTCUTS.items())
    description = f"{description}\n\nShort forms:\n{shortcuts}\n\nTasks: {', '.join(EXPERIMENTS.names())}"
    with one_line_errors():
        return tyro.cli(combined, args=argv, description=description, use_underscores=True)


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn tyro's error messages, which are printed in a box, into a ValueError of one line."""
    messages = io.StringIO()
    try:
        with contextlib.redirect_stderr(messages):
            yield
    except SystemExit as stop:
        if stop.code:
            raise ValueError(_as_one_line(messages.getvalue())) from None
        raise


def _as_one_line(box: str) -> str:
    """Return the text of a message in a box of lines or minus signs, without its title."""
    lines = [line.strip("│ ") for line in box.splitlines()[1:] if not set(line) <= set("│╰╯─- ")]
    words = re.sub(r"\s+", " ", " ".join(line for line in lines if not line.startswith("For full helptext")))
    found = re.match(r"Error parsing cfg\.?([\w.]*): (.*)", words)
    if found:  # most configs name the field themselves
        field, words = found.groups()
        words = words if words.startswith(field) else f"{field}.{words}"
    return f"{words} (--help lists every flag)"

"""What the scripts share: flags become a config, and a user's mistake becomes one line and exit code 2."""

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
from rsl_rl.utils.config_io import convert, declared_types, from_dict, read_yaml, shown

if TYPE_CHECKING:
    from rsl_rl.sim.selection import Place

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
"""Flags that legged_gym's users know, and the config field each of them sets."""


class Arguments(NamedTuple):
    """What a command line says."""

    flags: Any  # of the script itself
    cfg: Any  # TrainConfig with the overrides applied
    run: Optional[Path]  # folder of an earlier run to go on from


def fail(message: str) -> None:
    """Print one line and leave with the exit code of wrong usage."""
    print(f"{Path(sys.argv[0]).name}: error: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(2)


def say(text: str) -> None:
    """Print a line, if anybody reads it: a closed pipe or a full disk ends nothing."""
    try:
        print(text, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python fails again when it ends


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Turn what a user can get wrong, raised while things are set up, into one line and exit code 2."""
    try:
        yield
    except (ValueError, OSError) as error:
        fail(str(error))
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "allocate" not in str(error):
            raise
        fail(f"this machine has too little memory for that; take fewer environments or smaller networks ({error})")
    except ModuleNotFoundError as error:
        remedy = "install it with pip, or with an extra of rsl-rl-lib, which README.md lists"
        fail(str(error) if "install" in str(error) else f"{error}; {remedy}")


def parse(flags: Type, description: str, from_run: bool, argv: Optional[Sequence[str]] = None) -> Arguments:
    """Read the command line into ``flags`` and a config; --task picks the config, or the config of an earlier run is
    taken."""
    let_cores_go()
    own = {field.name for field in dataclasses.fields(flags)}
    argv = [_expand(argument, own) for argument in (sys.argv[1:] if argv is None else argv)]
    early = _peek(argv)
    if early.list:
        print("\n".join(EXPERIMENTS.names()))
        raise SystemExit(0)
    with usage_errors():
        if early.task is None and not early.help:
            raise ValueError(f"--task is missing; known tasks: {', '.join(EXPERIMENTS.names())}")
        cls = EXPERIMENTS.load(early.task or EXPERIMENTS.names()[0])
        if not (isinstance(cls, type) and issubclass(cls, TrainConfig)):
            raise ValueError(f"--task {early.task} is no TrainConfig; name one of {', '.join(EXPERIMENTS.names())}")
        cfg, run, made_with = cls(), None, ""
        _import_isaac_gym(early, from_run)
        if (from_run or early.resume) and not early.help:
            run, cfg = _read_run(early, cfg)
            if not early.resume:
                cfg, made_with = _at_home(cfg, early)
        if early.sim_backend and not hasattr(cfg.env, "sim"):
            raise ValueError(f"--sim: the task '{cfg.task}' has no physics to choose")
        parsed = _parse_config(flags, cfg, description, argv)
        for name, hint in declared_types(flags).items():
            convert(hint, getattr(parsed.flags, name), f"--{name}")
        cfg = _settle(parsed.cfg)
        if made_with:
            say(f"note: the run was made with {made_with}, which does not serve here; taking {_place(cfg)}")
        if not from_run:
            _refuse_what_would_do_nothing(parsed.flags, cfg)
    return Arguments(parsed.flags, cfg, run)


def _import_isaac_gym(early: argparse.Namespace, from_run: bool) -> None:
    """Import Isaac Gym where it is installed and may be asked for: it refuses to be imported after torch."""
    may_be_asked = early.sim_backend == "isaacgym" or from_run or early.resume
    if may_be_asked and not early.help and importlib.util.find_spec("isaacgym") is not None:
        with contextlib.suppress(ImportError):  # where it is needed, its backend says so
            importlib.import_module("isaacgym")


def _at_home(cfg: TrainConfig, early: argparse.Namespace) -> Tuple[TrainConfig, str]:
    """Leave the engine and the devices of a run open where this machine has not those; also say in that case what they
    were. An engine that is asked for may take the device that fits it."""
    from rsl_rl.sim.selection import AUTO, has_device, serves_here

    place, found = _place(cfg), ""
    if not (serves_here(place) and has_device(_settle(cfg).rl_device)):
        cfg, found = _with_backend(cfg, AUTO), str(place)
    elif early.sim_backend is None:
        return cfg, found
    return dataclasses.replace(cfg, sim_device=AUTO, rl_device=AUTO), found


def _place(cfg: TrainConfig) -> Place:
    """Return what computes the physics of a config, as far as this machine has it."""
    from rsl_rl.sim.selection import choose

    return choose(_backend(cfg), cfg.sim_device)


def _settle(cfg: TrainConfig) -> TrainConfig:
    """Replace every "auto" by what is best on this machine."""
    from rsl_rl.sim.selection import AUTO

    place = _place(cfg)
    rl_device = place.device if cfg.rl_device == AUTO else cfg.rl_device
    return _with_backend(dataclasses.replace(cfg, sim_device=place.device, rl_device=rl_device), place.backend)


def _backend(cfg: TrainConfig) -> str:
    """Return the engine of a config; a task without physics computes where MuJoCo would."""
    sim = getattr(cfg.env, "sim", None)
    return "mujoco" if sim is None else sim.backend


def _with_backend(cfg: TrainConfig, backend: str) -> TrainConfig:
    sim = getattr(cfg.env, "sim", None)
    if sim is None:
        return cfg
    env: Any = dataclasses.replace(cfg.env, sim=dataclasses.replace(sim, backend=backend))  # type: ignore[call-arg]
    return dataclasses.replace(cfg, env=env)


def let_cores_go() -> None:
    """Have torch's threads look for work for microseconds and not for milliseconds, unless the user has a say in it:
    physics waits for their cores, and on a machine that does other things too so does everybody. Read when torch loads.
    """
    if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & set(os.environ):
        os.environ["GOMP_SPINCOUNT"] = "50000"


def _refuse_what_would_do_nothing(flags: Any, cfg: TrainConfig) -> None:
    if not flags.resume and ((flags.load_run, flags.checkpoint) != ("-1", -1) or flags.fresh_episodes):
        raise ValueError(
            "--load_run, --checkpoint and --fresh_episodes say what to go on from; add --resume, or leave them out"
        )
    if flags.resume and flags.init_from:
        raise ValueError("--init_from begins a new run, and --resume goes on with one; leave one of them out")
    if cfg.acceleration.cuda_graphs and cfg.rl_device.startswith("cpu"):
        raise ValueError(
            "acceleration.cuda_graphs=True needs a GPU and rl_device is the CPU; add --rl_device cuda, or "
            "--acceleration.no_cuda_graphs"
        )


def _expand(argument: str, own: Set[str]) -> str:
    """Write a flag with underscores, and a short form as the config field it stands for unless the script has a flag of
    that name."""
    if not argument.startswith("--"):
        return argument
    name, equals, value = argument[2:].partition("=")
    name = name.replace("-", "_")
    return f"--{name if name in own else SHORTCUTS.get(name, name)}{equals}{value}"


def _peek(argv: Sequence[str]) -> argparse.Namespace:
    """Read the few flags that decide which config the others apply to."""
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
    """Find the run that --load_run names and read the config that it was trained with."""
    from rsl_rl.utils.checkpoints import BEST, best_iteration, config_of, find_run  # torch: --help has no time for it

    run = find_run(LOGS / (early.experiment_name or cfg.runner.experiment_name), early.load_run or "''")
    asked = best_iteration(run) if early.checkpoint == BEST else early.checkpoint
    path = config_of(run, int(asked) if str(asked).isdecimal() else -1)
    if not path.is_file():
        raise ValueError(f"{run} is no run's folder: it has no config.yaml; name another with --load_run")
    values = read_yaml(path)
    task = values.get("task", cfg.task)
    if task != cfg.task:
        raise ValueError(
            f"{run} is a run of the task {shown(task)} and not of '{cfg.task}'; correct --task or --load_run"
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
    with one_line_complaints():
        return tyro.cli(combined, args=argv, description=description, use_underscores=True)


@contextlib.contextmanager
def one_line_complaints() -> Iterator[None]:
    """Turn tyro's framed complaint about a command line into a ValueError of one line."""
    complaints = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaints):
            yield
    except SystemExit as stop:
        if stop.code:
            raise ValueError(_in_one_line(complaints.getvalue())) from None
        raise


def _in_one_line(box: str) -> str:
    """Take the words out of tyro's framed message and leave its title, whether the frame is drawn or of minuses."""
    lines = [line.strip("│ ") for line in box.splitlines()[1:] if not set(line) <= set("│╰╯─- ")]
    words = re.sub(r"\s+", " ", " ".join(line for line in lines if not line.startswith("For full helptext")))
    found = re.match(r"Error parsing cfg\.?([\w.]*): (.*)", words)
    if found:  # most configs name the place themselves
        place, words = found.groups()
        words = words if words.startswith(place) else f"{place}.{words}"
    return f"{words} (--help lists every flag)"

"""The card of a policy, card.json: what trained it, what was measured, and under which licence it is given."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Dict, Mapping, Optional, Tuple, Union

from rsl_rl.config.base import Settings, require_counts, require_field, require_not_negative
from rsl_rl.contracts.contract import read_json
from rsl_rl.contracts.schema import schema
from rsl_rl.utils.config_io import from_dict, short_repr, to_dict
from rsl_rl.utils.files import atomic_write

FORMAT = 1
"""Version of card.json."""

CARD = "card.json"

FILM = "film.webp"
"""An animated picture of a robot that walks with the policy."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_SHA256 = re.compile(r"[0-9a-f]{64}")

Number = Optional[float]
"""A measured number; null: not finite."""


@dataclass(frozen=True)
class Training(Settings):
    """What trained the policy. Equal command, settings, commit, versions and CPU give equal weights."""

    section: ClassVar[str] = "training"

    command: str
    """Command line that trains it."""
    commit: str
    """Git commit of the program; empty for an installed package."""
    date: str
    """Day of the start, year-month-day in UTC."""
    seed: int
    versions: Mapping[str, str]
    """Versions of Python and of packages, by name."""
    cpu: str
    """Model of the CPU."""
    instruction_set: str
    """Architecture and vector instructions that the networks used."""
    threads: int
    """Threads of the networks; sums over another number of threads are rounded otherwise."""
    engine: str
    """Physics engine."""
    device: str
    """Device of the physics and of the networks."""
    checkpoint: Union[int, str]
    """Iteration of the policy, or best."""
    samples: int
    """Control steps of all robots up to the checkpoint."""
    seconds: float
    """Time of collecting and learning up to the checkpoint [s]."""
    changed_files: Tuple[str, ...] = ()
    """Files that differed from the commit."""

    def __post_init__(self):
        super().__post_init__()
        require_counts(self, 0, "seed", high=2**32 - 1)
        require_counts(self, 1, "threads")
        require_counts(self, 0, "samples", high=2**62)
        require_not_negative(self, "seconds")
        iteration = isinstance(self.checkpoint, int) and self.checkpoint >= 0
        require_field(self, "checkpoint", iteration or self.checkpoint == "best", "; give an iteration, or best")
        try:
            program = shlex.split(self.command)[:1]
        except ValueError:
            program = []
        require_field(self, "command", program in (["rsl-rl"], ["torchrun"]), "; give a command of rsl-rl or torchrun")


@dataclass(frozen=True)
class Criterion(Settings):
    """A success criterion of the task."""

    limit: float
    measured: Number = None
    """null: not measured, or not finite."""


@dataclass(frozen=True)
class Endurance(Settings):
    """How long robots walk under a joystick between two failures."""

    robot_hours: float
    failures: int
    """Falls, freezes and commands that were not followed."""
    hours_between_failures: Number
    """null: there was no failure."""
    interval: Tuple[Number, Number]
    """Its 95 % interval [h]; null: no limit."""
    lin_vel_error: float
    """Mean length of velocity less command [m/s]."""
    yaw_rate_error: float
    """Mean distance from the commanded yaw rate [rad/s]."""

    def __post_init__(self):
        super().__post_init__()
        require_not_negative(self, "robot_hours")
        require_counts(self, 0, "failures")


@dataclass(frozen=True)
class Evaluation(Settings):
    """What was measured of the policy by `rsl-rl evaluate --joystick`."""

    section: ClassVar[str] = "evaluation"

    robots: int
    seconds: float
    """Length of the evaluation [s]."""
    seeds: Tuple[int, ...]
    """Seeds of the evaluation."""
    metrics: Mapping[str, Number]
    """Means over the seeds, with the names of evaluate."""
    gate: Mapping[str, Criterion]
    """Success criteria of the task by metric."""
    gate_passed: bool
    endurance: Mapping[str, Endurance]
    """Tests "without pushes" and "with pushes"."""
    disturbances: Mapping[str, Mapping[str, Number]]
    """fall_rate, lin_vel_error and yaw_rate_error by disturbance."""
    unmet: Tuple[str, ...] = ()
    """Criteria that are not met, as sentences."""
    warnings: Tuple[str, ...] = ()
    """What evaluate warns of."""

    def __post_init__(self):
        super().__post_init__()
        require_counts(self, 1, "robots")
        require_not_negative(self, "seconds")


@dataclass(frozen=True)
class Card(Settings):
    """Everything on a policy of the zoo."""

    name: str
    """Name of the entry: that of its folder."""
    task: str
    """Name of the task."""
    robot: str
    sha256: str
    """SHA-256 of policy.onnx."""
    training: Training
    evaluation: Evaluation
    licence: str
    """Licence of the policy, such as BSD-3-Clause."""
    known_weaknesses: Tuple[str, ...] = ()
    """What the policy is known to do badly, as sentences."""
    film: str = ""
    """film.webp; empty without one."""
    format: int = FORMAT
    """Version of the file."""

    def __post_init__(self):
        super().__post_init__()
        require_field(self, "format", self.format == FORMAT, f"; give {FORMAT}")
        check_name(self.name)
        require_field(self, "sha256", bool(_SHA256.fullmatch(self.sha256)), "; give 64 hexadecimal digits")
        require_field(self, "film", self.film in ("", FILM), f"; give {FILM}, or an empty text")
        for name in ("task", "licence"):
            require_field(self, name, bool(getattr(self, name).strip()), " is empty; give a text")


def check_name(name: str) -> None:
    """Raise a ValueError for a name that no folder of an entry can have."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"name={short_repr(name)}; give letters, digits, _, - and ., at most 64, such as go2_flat")


def card_of(values: Any) -> Card:
    """Return the card of plain values; what does not fit is a ValueError that names the field."""
    if not isinstance(values, Mapping):
        raise ValueError(f"the card is {short_repr(values)}; give the names of its fields with values")
    version = values.get("format")
    if version != FORMAT or isinstance(version, (bool, float)):
        raise ValueError(f"format={short_repr(version)}; this program reads {FORMAT}: use one of the card's version")
    return from_dict(Card, values)


def card_json(card: Card) -> Dict[str, Any]:
    """Return a card as plain values."""
    return {"format": card.format, **to_dict(card)}


def read_card(path: Path) -> Card:
    """Read card.json; what does not fit is a ValueError that names the file and the field."""
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    try:
        return card_of(read_json(path))
    except ValueError as error:
        raise ValueError(f"{path} is damaged, or of another version: {error}") from error


def write_card(card: Card, path: Path) -> Path:
    """Write card.json, after reading its content as :func:`read_card` would."""
    content = json.dumps(card_json(card), indent=2, allow_nan=False) + "\n"
    card_of(json.loads(content))
    atomic_write(path, content.encode())
    return path


def card_schema() -> Dict[str, Any]:
    """Return the JSON Schema of card.json."""
    made = schema(Card, "Card of a policy")
    made["properties"]["format"] = {**made["properties"]["format"], "const": FORMAT}
    return {**made, "required": [*made["required"], "format"]}

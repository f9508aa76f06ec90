"""Say what is wrong with the rewards of a task, from what motions earn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.evaluation.audit.incomes import FOLLOWING, POLICY, SHAMS, CommandRow, Earned, best_walk, measure
from rsl_rl.evaluation.conditions import ActingPolicy

TOLERANCE = 0.05
"""Size of commands [m/s, rad/s] beyond env.commands.dead_zone that may be ignored without a complaint."""

ALMOST = 0.9
"""Share of the income of walking, over all commands, from which on a sham is a complaint."""

_STILL = ("stand", "lean", "one leg up")
"""Shams without steps."""

_LOSS_FACTOR = 2.0
"""Multiple of what walking loses at the smallest command to walk, which is subtracted from walking at every command:
with such a loss policies often learn to stand before they try to walk. Chosen by trainings, see docs/audit.md."""


@dataclass(frozen=True)
class Finding:
    """A fault of the rewards."""

    kind: str
    """dead_zone, in_place, shortcut, falling or lying."""
    direction: str
    """Of the commands; empty: all."""
    motion: str
    """What earns too much."""
    term: str
    """The reward term that matters most."""
    sentence: str


@dataclass(frozen=True)
class Audit:
    """What the rewards of a task pay, and what is wrong with them."""

    rows: Tuple[CommandRow, ...]
    dead_zones: Dict[str, Dict[str, float]]
    """Largest command [m/s, rad/s] by direction and by sham that a policy is predicted to ignore because of what the
    sham earns; at least env.commands.dead_zone, and infinite if it includes the largest command."""
    measured: Dict[str, float]
    """Largest command by direction at which the policy moves at less than half of it; empty without a policy."""
    findings: Tuple[Finding, ...]

    @property
    def predicted(self) -> Dict[str, float]:
        """The predicted dead zone of each direction [m/s, rad/s]."""
        return {direction: max(zones.values()) for direction, zones in self.dead_zones.items()}


def audit(cfg: LeggedRobotConfig, policy: Optional[ActingPolicy] = None) -> Audit:
    """Judge the rewards of a task without training; a policy takes the place of the reference walk."""
    rows = measure(cfg, policy)
    return judge(cfg, rows)


def judge(cfg: LeggedRobotConfig, rows: Sequence[CommandRow]) -> Audit:
    """Return the audit of what was measured."""
    judged = [row for row in rows if best_walk(row) is not None]
    if not judged:
        raise ValueError(
            "no reference gait reaches any command of the task, so its rewards cannot be audited; check the default "
            "pose, base_height_target and the ranges of commands"
        )
    by_direction = {
        name: [row for row in judged if row.direction == name] for name in dict.fromkeys(r.direction for r in judged)
    }
    standing = cfg.commands.dead_zone
    zones = {name: dead_zones(own, standing) for name, own in by_direction.items()}
    moving = [row for row in judged if row.size > standing]
    findings = _ignored(cfg, by_direction, zones)
    findings += _worthless(cfg, moving) or _almost_walking(cfg, moving)
    return Audit(tuple(rows), zones, _measured(rows, standing), tuple(findings))


def dead_zones(rows: Sequence[CommandRow], standing: float) -> Dict[str, float]:
    """Return the dead zone of each sham that does not follow the command; ``rows`` are those of one direction.

    Shams without steps are compared with a walk that earns less than the reference by _LOSS_FACTOR times its loss at
    the smallest command. ``standing`` is the size of commands up to which the task wants the robot to stand.
    """
    smallest = next((row for row in rows if row.size > standing), rows[-1])
    found: Dict[str, float] = {}
    for sham in SHAMS:
        if sham in FOLLOWING or not all(sham in row.earned for row in rows):
            continue
        learned = sham in _STILL and POLICY not in smallest.earned
        less = _LOSS_FACTOR * max(0.0, smallest.earned[sham].total - _walk(smallest).total) if learned else 0.0
        margins = [(row.size, _walk(row).total - less - row.earned[sham].total) for row in rows]
        found[sham] = last_crossing(margins, standing)
    return found


def last_crossing(margins: Sequence[Tuple[float, float]], standing: float) -> float:
    """Return the size up to which margins (size, margin) are not positive, interpolated; at least ``standing``, the
    size up to which the task wants the robot to stand."""
    moving = [(size, margin) for size, margin in margins if size > standing]
    last = max((i for i, (_, margin) in enumerate(moving) if margin <= 0), default=-1)
    if last < 0:
        return standing
    if last == len(moving) - 1:
        return math.inf
    (size, margin), (next_size, next_margin) = moving[last], moving[last + 1]
    return size + (next_size - size) * -margin / (next_margin - margin)


def _walk(row: CommandRow) -> Earned:
    earned = best_walk(row)
    assert earned is not None  # rows without a walk were left out
    return earned


def unit(direction: str) -> str:
    """Return the unit of commands in a direction."""
    return "rad/s" if direction == "turning" else "m/s"


def _ignored(
    cfg: LeggedRobotConfig, rows: Dict[str, List[CommandRow]], zones: Dict[str, Dict[str, float]]
) -> List[Finding]:
    """Return the directions in which commands are ignored beyond what the task wants."""
    findings = []
    for direction, own in zones.items():
        sham = max(own, key=lambda name: own[name])
        size = own[sham]
        if size <= cfg.commands.dead_zone + TOLERANCE:
            continue
        row = min(rows[direction], key=lambda row: abs(row.size - size)) if math.isfinite(size) else rows[direction][-1]
        until = "of every size" if math.isinf(size) else f"up to {size:.2f} {unit(direction)}"
        term, reason = explain(cfg, row, sham)
        findings.append(
            Finding(
                "dead_zone",
                direction,
                sham,
                term,
                f"{direction}: a policy is predicted to ignore commands {until} (env.commands.dead_zone is "
                f"{cfg.commands.dead_zone:g}), as a robot that {SHAMS[sham]} earns too much; at {row.size:g} "
                f"{unit(direction)} {reason}",
            )
        )
    return findings


def explain(cfg: LeggedRobotConfig, row: CommandRow, sham: str) -> Tuple[str, str]:
    """Return the term that should make walking pay but pays a sham nearly as much, and a sentence on it and on what
    walking costs."""
    walking, other = _walk(row).terms, row.earned[sham].terms
    paid = {name: value for name, value in other.items() if value > 0 and walking[name] > 0}
    gains = {name: walking[name] - other[name] for name in paid}
    if not gains:
        return "", "no term pays for walking"
    term = max(gains, key=lambda name: gains[name])
    weight, params = cfg.rewards.terms[term].weight, cfg.rewards.terms[term].params
    width = f" with tracking_sigma {params['tracking_sigma']:g}" if "tracking_sigma" in params else ""
    doing = {"stand": "standing", "march": "stepping in place"}.get(sham, f"a robot that {SHAMS[sham]}")
    text = f"`{term}`{width} pays {other[term] / weight:.2f} of its weight for {doing}"
    extra = {name: walking[name] - other[name] for name in walking if walking[name] < other[name] - 1e-4}
    dearest = sorted(extra, key=lambda name: extra[name])[:2]
    if dearest:
        names = " and ".join(f"`{name}`" for name in dearest)
        charge = "charges" if len(dearest) == 1 else "charge"
        text += f", and {names} {charge} walking {-sum(extra[name] for name in dearest):.3f} per second more"
    return term, text


def mean_share(rows: Sequence[CommandRow], motion: str) -> float:
    """Return what a motion earns over all commands as a share of what walking earns; commands count by the part of the
    range that they stand for."""
    earned = walked = 0.0
    for row, weight in zip(rows, _weights(rows)):
        if motion in row.earned:
            earned += weight * row.earned[motion].total
            walked += weight * _walk(row).total
    return earned / walked if walked > 0 else 0.0


def _weights(rows: Sequence[CommandRow]) -> List[float]:
    """Return the part of the range of sizes that each row stands for."""
    weights = []
    for row in rows:
        sizes = [other.size for other in rows if other.direction == row.direction]
        i = sizes.index(row.size)
        low = sizes[i - 1] if i else 0.0
        weights.append(row.size - low)
    return weights


def _worthless(cfg: LeggedRobotConfig, rows: Sequence[CommandRow]) -> List[Finding]:
    """Return a finding if walking costs more than it earns."""
    if not rows:
        return []
    weights = _weights(rows)
    sums = {
        name: sum(w * _walk(row).terms[name] for row, w in zip(rows, weights)) / sum(weights)
        for name in cfg.rewards.terms
    }
    total = sum(sums.values())
    if total > 0:
        return []
    term = min(sums, key=lambda name: sums[name])
    clipped = (
        "the learner sees 0 for everything" if cfg.rewards.only_positive else "an early fall is the best that it can do"
    )
    return [
        Finding(
            "falling",
            "",
            "lie",
            term,
            f"walking earns {total:.2f} per second over all commands, and a fall, after which there is nothing, 0: "
            f"{clipped}; `{term}` charges {-sums[term]:.2f}",
        )
    ]


def _almost_walking(cfg: LeggedRobotConfig, rows: Sequence[CommandRow]) -> List[Finding]:
    """Return the shams that earn nearly as much as walking over all commands."""
    shares = {sham: mean_share(rows, sham) for sham in SHAMS}
    standing = max((sham for sham in SHAMS if sham not in (*FOLLOWING, "lie")), key=lambda sham: shares[sham])
    limits = {standing: ALMOST, **dict.fromkeys(FOLLOWING, 1.01), "lie": 0.5}
    findings = []
    for sham, limit in limits.items():
        share = shares[sham]
        if share < limit:
            continue
        own = [row for row in rows if sham in row.earned]
        term, paid = _largest_gain(cfg, own, sham)
        kind = "lying" if sham == "lie" else "shortcut" if sham in FOLLOWING else "in_place"
        against = "walking" if sham in FOLLOWING or sham == "lie" else "a robot that does nothing but stand"
        ends = ", which does not end the episode," if sham == "lie" else ""
        findings.append(
            Finding(
                kind,
                "",
                sham,
                term,
                f"a robot that {SHAMS[sham]}{ends} earns {100 * share:.0f} % of what a walking one earns over all "
                f"commands: `{term}` pays it {paid:.2f} per second"
                + ("" if sham == "stand" else f" more than {against}"),
            )
        )
    return findings


def _largest_gain(cfg: LeggedRobotConfig, rows: Sequence[CommandRow], sham: str) -> Tuple[str, float]:
    """Return the term that makes a sham pay, and by how much per second on average: compared with standing, or with
    walking for shams that follow the command."""
    means: Dict[str, float] = {}
    for name in cfg.rewards.terms:
        values = []
        for row in rows:
            than = 0.0
            if sham in FOLLOWING or sham == "lie":
                than = _walk(row).terms[name]
            elif sham != "stand":
                than = row.earned["stand"].terms[name]
            values.append(row.earned[sham].terms[name] - than)
        means[name] = sum(values) / len(values)
    term = max(means, key=lambda name: means[name])
    return term, means[term]


def _measured(rows: Sequence[CommandRow], standing: float) -> Dict[str, float]:
    """Return the largest command of each direction at which the policy moves at less than half of it, interpolated."""
    found = {}
    for direction in dict.fromkeys(row.direction for row in rows):
        own = [row for row in rows if row.direction == direction and POLICY in row.earned]
        if own:
            found[direction] = last_crossing([(row.size, _followed(row) - 0.5) for row in own], standing)
    return found


def _followed(row: CommandRow) -> float:
    """Return the velocity of the policy along the command, as a share of it."""
    velocity = row.earned[POLICY].velocity
    return sum(v * c for v, c in zip(velocity, row.command)) / sum(c * c for c in row.command)


def as_json(result: Audit) -> Dict[str, Any]:
    """Return an audit as plain values."""
    rows = [
        {
            "direction": row.direction,
            "size": row.size,
            "command": list(row.command),
            "income": {name: {"total": own.total, "terms": own.terms} for name, own in row.earned.items()},
        }
        for row in result.rows
    ]
    return {
        "findings": [vars(finding) for finding in result.findings],
        "dead_zone": result.predicted,
        "dead_zones": result.dead_zones,
        "measured_dead_zone": result.measured,
        "commands": rows,
    }

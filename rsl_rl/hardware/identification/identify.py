"""Find the parameters of a robot from its logs, and say which of them the logs determine."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence, Tuple

import numpy as np

from rsl_rl.evaluation.doctor.replay import Replay, gravity
from rsl_rl.hardware.identification.fit import Fit, explained, fit
from rsl_rl.hardware.identification.parameters import ALIKE, KINDS, LEVEL, Layout, Parameter, layout_of
from rsl_rl.hardware.identification.recordings import QUIET, Recording
from rsl_rl.hardware.identification.simulation import NOISE, STEP, Piece, Worlds

ALIKE_FROM = 0.9
"""Correlation of two estimates from which the log hardly tells them apart."""

_COARSE = 0.005  # physics step of the first iterations [s]
_STAND_SECONDS, _FLOOR_SECONDS = 8.0, 0.2  # longest piece
_FLOOR_PIECES, _MOST_STAND_SECONDS = 40, 40.0  # that are used
_MOST_UNEXPLAINED = 0.35  # of the motion of the joints


Sets = List[Tuple[Worlds, List[Piece]]]


class Estimate(NamedTuple):
    """A parameter that was looked for."""

    parameter: Parameter
    value: float
    low: float  # of the 90 % interval
    high: float
    is_determined: bool
    alike: Tuple[str, ...]  # labels of parameters that the logs hardly tell apart from it
    why: str  # it is not determined


class Trace(NamedTuple):
    """Positions of the joints in a piece of a log."""

    name: str
    time: np.ndarray  # [T] [s]
    measured: np.ndarray  # [T, J] [rad]
    before: np.ndarray  # simulated with the model's numbers
    after: np.ndarray  # with those that were found


@dataclass(frozen=True)
class Identification:
    """What the logs say of a robot."""

    joint_names: Tuple[str, ...]
    estimates: Tuple[Estimate, ...]
    logs: Tuple[str, ...]
    supports: Tuple[str, ...]  # of each log: stand or floor
    error_before: float  # root mean square of simulated minus measured joint positions [rad]
    error_after: float
    notes: Tuple[str, ...]
    traces: Tuple[Trace, ...] = field(default=())

    def of(self, kind: str) -> List[Estimate]:
        return [one for one in self.estimates if one.parameter.kind == kind]


def identify(
    recordings: Sequence[Recording],
    description: Mapping[str, Any],
    model_path: Path,
    per: str = "joint",
    support: str = "auto",
    progress: Callable[[str], None] = lambda line: None,
) -> Identification:
    """Return the parameters of the robot of a contract from its logs.

    What logs on a stand determine is taken as known for those on the floor, which tell it less well. ``support``:
    whether the trunk was fixed to a "stand" or the robot stood on the "floor"; "auto" tells by which of the two
    explains each log better. ``progress`` gets lines.
    """
    if description.get("actuator", {"type": "pd"}).get("type", "pd") != "pd":
        raise ValueError(
            f"the contract's actuator is {description['actuator'].get('type')}; identify knows pd, loops with a limit"
        )
    replay = Replay(model_path, description, description["joint_names"], 0.0025)
    layout = layout_of(Worlds.nominal_of(replay), dict(description), float(replay.model.body_mass.sum()), per)
    supports = [
        support if support != "auto" else _support_of(recording, model_path, description, layout)
        for recording in recordings
    ]
    logs: Dict[str, List[Recording]] = {}
    for recording, chosen in zip(recordings, supports):
        progress(f"{recording.name}: {recording.seconds:.1f} s on the {chosen}")
        logs.setdefault(chosen, []).append(recording)

    def found_on(chosen: str, layout: Layout) -> Identification:
        return _identify(logs[chosen], description, model_path, chosen == "stand", layout, progress)

    if len(logs) == 1:
        return found_on(supports[0], layout)
    stand = found_on("stand", layout)
    known = {one.parameter: one.value for one in stand.estimates if one.is_determined}
    return _joined(layout, stand, found_on("floor", layout.with_known(known)))


def _joined(layout: Layout, stand: Identification, floor: Identification) -> Identification:
    """Return what logs on a stand have determined, and the rest from logs on the floor."""
    found = {one.parameter: one for one in (*stand.estimates, *floor.estimates)}
    shares = np.array([len(stand.logs), len(floor.logs)]) / (len(stand.logs) + len(floor.logs))

    def mean(name: str) -> float:
        return float(np.sqrt(shares @ np.square([getattr(stand, name), getattr(floor, name)])))

    return Identification(
        stand.joint_names,
        tuple(found[parameter] for parameter in layout.parameters),
        stand.logs + floor.logs,
        stand.supports + floor.supports,
        mean("error_before"),
        mean("error_after"),
        stand.notes + floor.notes,
        stand.traces + floor.traces,
    )


def _identify(
    recordings: Sequence[Recording],
    description: Mapping[str, Any],
    model_path: Path,
    on_stand: bool,
    layout: Layout,
    progress: Callable[[str], None],
) -> Identification:
    """Return the parameters of a layout from logs that are all of a stand or all of the floor."""

    def sets_with(step: float, longest: float) -> Sets:
        sets = []
        for recording in recordings:
            worlds = Worlds(model_path, description, layout, on_stand, step)
            if on_stand:
                worlds.with_gravity(_gravity_of(recording))
            sets.append((worlds, pieces_of(recording, on_stand, longest)))
        return sets

    def tell(stage: str) -> Callable[[float], None]:
        return lambda error: progress(f"{stage}: residual {error:.2f} (1: the noise of a Go2's sensors)")

    def repeated(every: Sets, x: np.ndarray, iterations: int, converged: float, stage: str) -> Tuple[Sets, Fit]:
        for _ in range(1 if on_stand else 2):  # feet that land hold start states in wrong places: look for them again
            chosen = [explained(worlds, pieces, x, _FLOOR_PIECES) for worlds, pieces in every]
            sets = [(worlds, pieces) for (worlds, _), (pieces, _) in zip(every, chosen)]
            result = fit(sets, x, layout.least, iterations, converged, [states for _, states in chosen], tell(stage))
            x = result.x
        return sets, result

    where = "" if on_stand else "walking, "
    every = sets_with(_COARSE, 0.5 * _FLOOR_SECONDS)
    sets, result = repeated(every, _with_delay(every, layout), 6, 0.03 if on_stand else 0.005, f"{where}coarse steps")
    _require_explained(sets, result, 1.5 * _MOST_UNEXPLAINED)
    x = _with_limits(sets, layout, result)
    if not np.array_equal(x, result.x):
        result = fit(sets, x, layout.least, 4, 0.03, result.states, tell(f"{where}with limits of the torque"))
        x = _without_idle_limits(sets, layout, result)
    sets, result = repeated(sets_with(STEP, _FLOOR_SECONDS), x, 3 if on_stand else 5, 0.002, f"{where}fine steps")
    moved = np.zeros(len(x)) if on_stand else _moved(layout, result.x - x)
    traces, errors = _traces(sets, result, layout)
    _require_explained(sets, result, _MOST_UNEXPLAINED)
    supports = ("stand" if on_stand else "floor",) * len(recordings)
    return Identification(
        tuple(description["joint_names"]),
        _estimates(layout, result, moved, recordings, _untold(layout, on_stand), _peak(sets, layout, result.x)),
        tuple(recording.name for recording in recordings),
        supports,
        *errors,
        tuple(note for recording in recordings for note in recording.notes),
        traces,
    )


def pieces_of(recording: Recording, on_stand: bool, longest: float = _FLOOR_SECONDS) -> List[Piece]:
    """Return the pieces of a log that are simulated: of ``longest`` [s] on the floor, where a small error of the state
    grows, and longer ones on a stand."""
    longest = _STAND_SECONDS if on_stand else longest
    pieces = []
    for start, end in recording.pieces:
        first = start + int(np.ceil(0.06 / recording.period))  # the targets before it are known
        seconds = recording.time[end - 1] - recording.time[first] if end > first else 0.0
        count = max(1, int(np.ceil(seconds / longest)) if on_stand else int(seconds / longest))
        edges = np.linspace(first, end - 1, count + 1).astype(int)
        pieces += [Piece(recording, int(a), int(b) + 1) for a, b in zip(edges[:-1], edges[1:]) if b - a >= 4]
    most = max(1, int(_MOST_STAND_SECONDS / longest)) if on_stand else 3 * _FLOOR_PIECES // 2
    if len(pieces) > most:
        pieces = [pieces[i] for i in np.linspace(0, len(pieces) - 1, most).astype(int)]
    return pieces


def _gravity_of(recording: Recording) -> np.ndarray:
    """Return the mean direction of gravity in the base frame [3]."""
    usable = np.concatenate([np.arange(start, end) for start, end in recording.pieces])
    mean = gravity(recording.motion.base_quat[usable]).mean(axis=0)
    return np.asarray(mean / np.linalg.norm(mean))


def _support_of(recording: Recording, model_path: Path, description: Mapping[str, Any], layout: Layout) -> str:
    """Return stand or floor, whichever explains the joints of some short pieces better with the model's numbers."""
    pieces = pieces_of(recording, False)
    pieces = [pieces[i] for i in np.linspace(0, len(pieces) - 1, min(12, len(pieces))).astype(int)]
    errors = {}
    for name in ("stand", "floor"):
        worlds = Worlds(model_path, description, layout, name == "stand")
        if name == "stand":
            worlds.with_gravity(_gravity_of(recording))
        x, states = np.zeros(len(layout.parameters)), worlds.start_states(pieces)
        own = [np.abs(one.residual[one.channel == 1]).mean() for one in worlds.predict(pieces, x, states, "none")]
        errors[name] = float(np.median(own))
    quiet_trunk = np.nanstd(recording.motion.base_ang_vel) < 0.15
    return "stand" if errors["stand"] < errors["floor"] and quiet_trunk else "floor"


def _some(sets: Sequence[Tuple[Worlds, List[Piece]]]) -> List[Tuple[Worlds, List[Piece]]]:
    return [(worlds, pieces[:: max(1, len(pieces) // 10)]) for worlds, pieces in sets]


def _with_delay(sets: Sequence[Tuple[Worlds, List[Piece]]], layout: Layout) -> np.ndarray:
    """Return nominal parameters with the delay that explains the joints best."""
    x = np.zeros(len(layout.parameters))
    if not layout.indices("action_delay"):  # it is known
        return x
    (delay,) = layout.indices("action_delay")
    spread = layout.parameters[delay].spread
    tried = {seconds: _joint_errors(_some(sets), _with(x, [delay], seconds / spread)).sum() for seconds in _DELAYS}
    return _with(x, [delay], min(tried, key=lambda seconds: tried[seconds]) / spread)


def _with_limits(sets: Sequence[Tuple[Worlds, List[Piece]]], layout: Layout, result: Fit) -> np.ndarray:
    """Return parameters with limits of the torque below what was asked for, where these explain a joint clearly better.

    The derivative by a limit that no simulated torque reaches is zero, so that no step would find it.
    """
    peak = _peak(sets, layout, result.x)
    limits = layout.indices("torque_limit")
    best = _joint_costs(sets, result.x, result.states)
    best, x = best - _CLEARLY, result.x.copy()
    for share in _SHARES:
        other = result.x.copy()
        for i in limits:
            one = layout.parameters[i]
            bound = min(one.nominal, share * max(peak[place] for place in one.places))
            other[i] = max(layout.least[i], (bound - one.nominal) / one.spread)
        costs = _joint_costs(sets, other, result.states)
        for i in limits:
            places = list(layout.parameters[i].places)
            if costs[places].sum() < best[places].sum():
                x[i], best[places] = other[i], costs[places]
    return x


def _without_idle_limits(sets: Sequence[Tuple[Worlds, List[Piece]]], layout: Layout, result: Fit) -> np.ndarray:
    """Return parameters in which a limit of the torque is nominal unless it explains its joint clearly better."""
    limits, x = layout.indices("torque_limit"), result.x.copy()
    gain = _joint_costs(sets, _with(x, limits, 0.0), result.states) - _joint_costs(sets, x, result.states)
    for i in limits:
        places = list(layout.parameters[i].places)
        x[i] = x[i] if gain[places].sum() > _CLEARLY * len(places) else 0.0
    return x


def _joint_costs(
    sets: Sequence[Tuple[Worlds, List[Piece]]], x: np.ndarray, states: Sequence[Sequence[np.ndarray]]
) -> np.ndarray:
    """Return the sum of squared residuals of the positions of each joint [J], in standard deviations."""
    total = np.zeros(sets[0][0].num_joints)
    for (worlds, pieces), own in zip(sets, states):
        for one in worlds.predict(pieces, x, own, "none"):
            error = one.residual[one.channel == 0].reshape(-1, len(total)) / NOISE["joint_pos"]
            total += (np.minimum(np.abs(error), 10.0) ** 2).sum(axis=0)
    return total


_CLEARLY = 20.0
"""Sum of squared residuals, in standard deviations, by which a limit of the torque must explain the motion better."""

_DELAYS = (0.0, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05)
_SHARES = (0.95, 0.8, 0.65, 0.5)


def _with(x: np.ndarray, places: Sequence[int], value: float) -> np.ndarray:
    out = x.copy()
    out[list(places)] = value
    return out


def _joint_errors(sets: Sequence[Tuple[Worlds, Sequence[Piece]]], x: np.ndarray) -> np.ndarray:
    """Return the mean squared residual of the positions of each joint [J]."""
    total, rows = np.zeros(sets[0][0].num_joints), 0
    for worlds, pieces in sets:
        for one in worlds.predict(pieces, x, worlds.start_states(pieces), "none"):
            error = one.residual[one.channel == 0].reshape(-1, len(total))
            total, rows = total + np.clip(error**2, 0, 0.25).sum(axis=0), rows + len(error)
    return total / max(1, rows)


def _peak(sets: Sequence[Tuple[Worlds, Sequence[Piece]]], layout: Layout, x: np.ndarray) -> np.ndarray:
    """Return the largest torque that was asked for, of each joint [J]."""
    values = layout.values(x)
    peak = np.zeros(sets[0][0].num_joints)
    for worlds, pieces in sets:
        stiffness, damping = worlds.gains
        for piece in pieces:
            motion, time = piece.recording.motion, piece.recording.time
            late = np.searchsorted(time, time[piece.rows] - values["action_delay"][0], side="right") - 1
            error = motion.targets[np.maximum(late, 0)] - motion.joint_pos[piece.rows]
            asked = stiffness * error - damping * motion.joint_vel[piece.rows]
            peak = np.maximum(peak, np.nanpercentile(np.abs(asked), 99.5, axis=0))
    return peak


def _traces(
    sets: Sequence[Tuple[Worlds, List[Piece]]], result: Fit, layout: Layout
) -> Tuple[Tuple[Trace, ...], Tuple[float, float]]:
    """Return measured and simulated positions of the longest piece of each log, and both root mean square errors of
    all pieces [rad]."""
    traces, squares, count = [], np.zeros(2), 0
    zero = np.zeros(len(layout.parameters))
    for (worlds, pieces), states in zip(sets, result.states):
        shown = int(np.argmax([piece.end - piece.start for piece in pieces]))
        runs = [list(worlds.predict(pieces, zero, worlds.start_states(pieces), "none"))]
        runs.append(list(worlds.predict(pieces, result.x, states, "none")))
        errors = [[one.residual[one.channel == 0].reshape(-1, worlds.num_joints) for one in run] for run in runs]
        squares += [sum(float((one**2).sum()) for one in own) for own in errors]
        count += sum(one.size for one in errors[0])
        recording, rows = pieces[shown].recording, pieces[shown].rows
        measured = recording.motion.joint_pos[rows]
        time = recording.time[rows] - recording.time[0]
        traces.append(Trace(recording.name, time, measured, *(measured + own[shown] for own in errors)))
    before, after = np.sqrt(squares / count)
    return tuple(traces), (float(before), float(after))


def _require_explained(sets: Sequence[Tuple[Worlds, List[Piece]]], result: Fit, most: float) -> None:
    """Raise a ValueError if the model leaves too much of the motion.

    That is the root mean square residual of joint positions over that of the motion since the start of each piece; the
    median of the joints.
    """
    left, whole = np.zeros(sets[0][0].num_joints), np.zeros(sets[0][0].num_joints)
    for (worlds, pieces), states in zip(sets, result.states):
        for piece, one in zip(pieces, worlds.predict(pieces, result.x, states, "none")):
            positions = piece.recording.motion.joint_pos[piece.rows]
            left += (one.residual[one.channel == 0].reshape(positions.shape) ** 2).sum(axis=0)
            whole += ((positions - positions[0]) ** 2).sum(axis=0)
    share = float(np.median(np.sqrt(left / np.maximum(whole, 1e-12))))
    if share > most:
        raise ValueError(
            f"the model does not explain the motion: {100 * share:.0f} % of it is left; is it the log and the contract "
            "of this robot? rsl-rl doctor says what else may be wrong"
        )


def _moved(layout: Layout, change: np.ndarray) -> np.ndarray:
    """Return by how much the parameters of each kind differ between the last two stages, root mean square [P].

    The stages simulate other pieces of a walk. Contacts make the residual of a walk rough, and the derivatives do not
    know how far an estimate still is from its end, so that intervals without this are too narrow.
    """
    out = np.zeros(len(change))
    for kind in {one.kind for one in layout.parameters}:
        own = layout.indices(kind)
        out[own] = np.sqrt(np.mean(change[own] ** 2))
    return out


def _untold(layout: Layout, on_stand: bool) -> Dict[str, str]:
    """Return why logs do not determine some kinds of parameters, however narrow their intervals are.

    In steps of 2.5 ms the offsets that explain a walk best are about 0.015 rad from the true ones, those of thighs and
    of calves together, and no residual shows it. The payload makes up for it, unless the strength of the motors is
    known.
    """
    if on_stand:
        return {kind: "the trunk is fixed in every log" for kind, one in KINDS.items() if one.floor_only}
    why = {"encoder_offset": "a log of walking does not tell it"}
    if layout.indices("motor_strength"):
        why["payload"] = "the strength of the motors is not known from a log on a stand"
    return why


def _estimates(
    layout: Layout,
    result: Fit,
    moved: np.ndarray,
    recordings: Sequence[Recording],
    untold: Mapping[str, str],
    peak: np.ndarray,
) -> Tuple[Estimate, ...]:
    """Return what is known of each parameter; ``untold`` are the kinds that are not determined, with the reason."""
    covariance = result.covariance
    deviation = np.sqrt(np.diag(covariance))
    alone = 1.0 / np.sqrt(np.diag(result.information) + 1.0)  # if all others were known
    correlation = covariance / np.outer(deviation, deviation)
    deviation = np.hypot(deviation, moved)
    ranges = np.max([recording.moved for recording in recordings], axis=0)
    estimates = []
    for i, one in enumerate(layout.parameters):
        value = one.nominal + one.spread * result.x[i]
        half = LEVEL * one.spread * deviation[i]
        is_determined = one.kind not in untold and one.is_determined(value, half)
        others = np.abs(correlation[i])
        others[i] = 0.0
        order = np.argsort(-others)[:2]
        alike = tuple(layout.parameters[j].label for j in order if others[j] > ALIKE_FROM)
        why = ""
        if not is_determined:
            could = one.is_determined(value, LEVEL * one.spread * alone[i])
            alike = alike or ((layout.parameters[order[0]].label,) if could else ())
            why = untold.get(one.kind) or _why(one, half, could, alike, ranges, peak)
        low = max(one.least, value - half)
        estimates.append(Estimate(one, float(value), float(low), float(value + half), is_determined, alike, why))
    return tuple(estimates)


def _why(
    one: Parameter,
    half: float,
    could: bool,
    alike: Sequence[str],
    ranges: np.ndarray,
    peak: np.ndarray,
) -> str:
    """Return why the interval of a parameter is too wide."""
    kind = KINDS[one.kind]
    if kind.size == "joints" and max(ranges[place] for place in one.places) < QUIET:
        return "the joint hardly moves"
    if one.kind == "torque_limit":
        return f"at most {max(peak[place] for place in one.places):.3g} {kind.unit} were asked for"
    if could and alike:
        return f"hardly told apart from {alike[0]}"
    return f"the log tells it to +-{half:.2g} {kind.unit}".rstrip()


def told_alike() -> List[str]:
    """Return what no log tells apart, in sentences."""
    return [f"{kind} stands also for {other}" for kind, other in ALIKE]

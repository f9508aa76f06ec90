"""Find how a robot on a stand is wired: the joint, sign and zero of each channel, the mounting of the IMU, delays,
rates and units. A channel is a place in the robot's readings and targets.

1. Listen: sizes, rates, units.
2. Push each channel's motor both ways, with gains for which targets ask for at most the torque share, also if motors
   are swapped or turn the other way. Which reading moves, and when?
3. Move all joints slowly, level, nose down and right side down; the operator turns the trunk. Gravity tells the
   mounting of the IMU, and the torques tell the joints.
4. The operator moves each limb, with the motors damped: which channels are of it?
5. Joints that are not determined yet: the operator turns each of them by hand, and those whose zero is not are driven
   to the ends of their ranges.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from rsl_rl.hardware import imu as imus
from rsl_rl.hardware.bring_up_result import Channel, Found
from rsl_rl.hardware.delays import Span, find_delays
from rsl_rl.hardware.driver import StoppedError
from rsl_rl.hardware.limbs import Limbs, hanging_pose, loads, telling_pose
from rsl_rl.hardware.mapping import LARGEST_ZERO, SLOW, Fit, LimbSearch, Samples, margin
from rsl_rl.hardware.pushes import MOVED, Push, wrong_motors
from rsl_rl.hardware.session import (
    LARGEST_ERROR,
    LATE,
    PERIOD,
    RESERVE,
    USED,
    Request,
    Session,
    angle_between,
    mean_quat,
    moving,
)

LEVELS = (0.15, 0.3, 0.6)
"""Parts of the torque share with which a motor is pushed, until its joint moves."""
PUSH_SECONDS, REST_SECONDS = 0.25, 0.2
SWING_SECONDS = 0.6
"""Longest time until limbs are still before a motor is pushed [s]."""
PUSHED = 0.06
"""Angle at which a push ends [rad]."""
AMPLITUDES = (0.8, 0.6)
"""Of the slow motion of joints that are moved easily, such as knees, and of the others [rad]."""
FREQUENCIES = (0.2, 0.35)
"""Lowest and highest frequency of the slow motion [Hz]."""
RAMP_SECONDS, POSE_SECONDS = 1.0, 1.5
"""Time in which the slow motion begins, and until a pose is reached [s]."""
POSE_TORQUE = 0.45
"""Part of the torque share that may hold a pose of a level trunk."""
TILT = 0.5
"""Angle by which the operator is asked to turn the trunk [rad]."""
LEVEL_SECONDS, HOLD_SECONDS = 5.0, 3.0
ASK_SECONDS = 25.0
"""Longest time until the operator does what he was asked for [s]."""
WINDOW = 15
"""Control steps of one sample."""
FLOOR = 0.002
"""Error of torques that is always expected, as a part of the torque share."""
WEAK = 0.04
"""Torque of gravity up to which a joint is not told by it, as a part of the torque share."""
CLEAR = 30.0
"""Difference of the logarithms of likelihoods from which an assignment is clear."""
CLEAR_ZERO = 0.025
"""Standard deviation up to which a zero is determined [rad]."""
STOP_DISTANCE, STOP_SPEED, STOP_SECONDS = 1.5, 0.6, 4.0
"""Largest distance of the end of a range to which a joint is driven [rad], its speed [rad/s] and its time [s]."""
TURN_SECONDS, TURNED = 8.0, 0.1
"""Longest time until the operator has turned a joint [s], and its angle [rad]."""
STILL_SECONDS = 4.0
"""Longest time until the joints are still [s]."""
LEVEL_SPREAD = 0.01
"""Standard deviation of the tilt of a trunk that is called level [rad]; it is added to the standard deviation of each
zero."""
STOP_SPREAD = 0.012
"""Standard deviation of a zero that is known from the end of a range [rad]."""
ENOUGH_ZERO = 0.015
"""Standard deviation of a zero from which more is tried to find it [rad]."""
UNEVEN = 0.1
"""Difference of the loop's period from PERIOD from which it is told, as a part of it."""


class BringUp:
    """The run of a bring-up on a session."""

    def __init__(
        self,
        session: Session,
        limbs: Limbs,
        ask: Callable[[Request], None],
        tell: Callable[[str], None] = lambda line: None,
        compute: Callable[[Callable[[], Any]], Any] = lambda function: function(),
        torques: Mapping[str, float] = MappingProxyType({}),
    ):
        """``ask`` tells the operator what to do, ``tell`` prints progress, and ``compute`` calls a function that takes
        seconds and returns its result; the joints have to be damped meanwhile. ``torques`` are the largest ones of
        joints [N m], for the time when it is known which joint is which; others keep that of the session."""
        self.session, self.limbs, self.ask, self.tell, self.compute = session, limbs, ask, tell, compute
        self.found = Found([Channel(name) for name in session.driver.names])
        self.count, self.torques = session.count, torques
        self.pushes: List[Push] = []
        self._phase_time = 0.0
        self._rates = self.amplitudes = self.center = self._began_at = np.zeros(self.count)  # of the slow motion
        self.excited: List[slice] = []
        self.members: List[List[int]] = []
        self.work: List[_LimbWork] = []

    def run(self) -> Found:
        """Do all steps; a reason to stop is a StoppedError."""
        session, found = self.session, self.found
        if self.count != len(self.limbs.names):
            raise StoppedError(
                f"the driver has {self.count} joints, the contract {len(self.limbs.names)}: another robot"
            )
        if sum(len(self.limbs.chain(end)) for end in self.limbs.ends()) != self.count:
            raise StoppedError("limbs that share a joint, such as a waist, are not supported")
        self.tell("listening")
        session.begin()
        session.listen(1.0)
        self._find_units()
        for c in range(self.count):
            self.tell(f"pushing joint {c + 1} of {self.count}")
            self._push(c)
        found.problems += self.compute(lambda: wrong_motors(self.pushes, session.driver.names))
        if found.problems:
            return self.compute(self._finish)
        self._slow_motion()
        if not found.problems:
            self._move_limbs()
        if not found.problems:
            self._assign()
        return self.compute(self._finish)

    # 1. Listen

    def _find_units(self) -> None:
        """Check that the angles are in the unit that was given, and choose the gain of the pushes by their size."""
        session, in_radians = self.session, self.session.unit == 1.0
        largest = float(np.abs(session.recording.arrays()["joint_pos"]).max())
        if in_radians and largest > 2 * math.pi:
            raise StoppedError(
                "joint angles beyond 2 pi: give --unit deg if the driver's angles are degrees; if not, put the robot "
                "into its zero pose"
            )
        if not in_radians and largest <= 2 * math.pi:  # targets for degrees would be 57 times too far
            raise StoppedError("no joint angle is beyond 2 pi: they are radians; leave --unit deg out")
        self.found.units["joint_pos"] = "rad" if in_radians else "deg"
        farthest = 2 * float(np.abs(session.pos).max())  # of swapped motors, and of one that turns the other way
        session.kp_safe = session.torque / max(LARGEST_ERROR, farthest / (1 - LEVELS[-1] - RESERVE))

    # 2. Push each motor

    def _push(self, c: int) -> None:
        """Push a channel's motor both ways, harder until its joint moves."""
        session = self.session
        rest = session.pos.copy()
        for _ in range(round(SWING_SECONDS / PERIOD)):  # limbs that the push before has moved
            if np.ptp(_smooth(self._recent(25), 8), axis=0).max() < MOVED / 2:
                break
            session.send(rest, session.kp_safe)
        for level in LEVELS:
            largest = 0.0
            for sign in (1, -1):
                start, row = (
                    session.recording.newest("joint_pos", 3).mean(axis=0) * session.unit,
                    len(session.recording),
                )
                targets = rest.copy()
                targets[c] = start[c] + sign * level * (session.torque / session.kp_safe)[c]
                for _ in range(round(PUSH_SECONDS / PERIOD)):
                    session.send(targets, session.kp_safe)
                    if np.abs(session.pos - start).max() > PUSHED:
                        break
                end = len(session.recording)
                for _ in range(round(REST_SECONDS / PERIOD)):  # what was moved in these was on its way
                    session.send(rest, session.kp_safe)
                rows = session.recording.arrays(slice(row, len(session.recording)))["joint_pos"] * session.unit - start
                smooth = np.stack([rows[i : len(rows) - 2 + i] for i in range(3)]).mean(axis=0)
                peak = int(np.abs(smooth[:, c]).argmax()) if np.abs(smooth[:, c]).max() > MOVED else None
                moved = smooth[peak if peak is not None else int(np.abs(smooth).max(axis=1).argmax())]
                self.pushes.append(Push(c, sign, level, row, end, moved))
                largest = max(largest, sign * float(moved[c]))
            if largest > 2 * MOVED:
                return

    # 3. Slow motion

    def _plan_slow_motion(self) -> None:
        """Choose the center, size and frequency of each joint's motion by the pushes."""
        count, moved = self.count, np.zeros((self.count, 2))  # per torque share, up and down
        for push in self.pushes:
            way = 0 if push.sign > 0 else 1
            moved[push.channel, way] = max(moved[push.channel, way], push.sign * push.moved[push.channel] / push.level)
        blocked = moved.min(axis=1) < 0.3 * moved.max(axis=1)
        away = np.where(blocked, 0.25 * np.where(moved[:, 0] > moved[:, 1], 1.0, -1.0), 0.0)
        self._began_at, self.center = self.session.pos.copy(), self.session.pos + away
        self.amplitudes = np.where(moved.max(axis=1) > np.median(moved.max(axis=1)), *AMPLITUDES)
        spread = np.linspace(*FREQUENCIES, count)[np.random.default_rng(0).permutation(count)]
        self._rates, self._phase_time = 2 * math.pi * spread, 0.0

    def _slow_motion(self) -> None:
        """Move all joints slowly while the operator turns the trunk."""
        session = self.session
        self.compute(self._plan_slow_motion)
        first = len(session.recording)
        self.tell("moving all joints slowly")
        self._excite(LEVEL_SECONDS)
        level = self._quats(first + round(1.0 / PERIOD))
        holds = self._turn_sides(level, tuple(imus.SIDES))
        if not holds:
            return
        before = holds["left side"]
        text = "Turn the trunk level, then to the left by about 30 degrees, and keep it so."
        self.ask(Request(text, {"motion": "turn", "axis": [0.0, 0.0, 1.0], "angle": TILT}))
        if not self._until(lambda: self._has_turned(before, 0.3)):
            self.found.problems.append(f"the trunk was not turned within {ASK_SECONDS:g} s: {text}")
            return
        self.excited = [slice(first, len(session.recording))]
        self.compute(lambda: self._read_slow_motion(level, holds))

    def _read_slow_motion(self, level: np.ndarray, holds: Dict[str, np.ndarray]) -> None:
        """Find the meaning of the IMU's numbers, units and delays."""
        columns = self.session.recording.arrays(self.excited[0])
        if not self._keeps_period():
            return
        self.found.imu, problems = imus.find_imu(columns["base_quat"], columns["base_ang_vel"], PERIOD, level, holds)
        self.found.problems += problems
        if self.found.imu is not None:
            self.found.units["base_ang_vel"] = self.found.imu.unit
        self._find_velocity_unit(columns)
        self._find_delays()

    def _turn_sides(self, level: np.ndarray, sides: Sequence[str]) -> Dict[str, np.ndarray]:
        """Let the operator turn sides of the trunk down; return the mean orientations [4], none after a failure."""
        before, holds = level, {}
        for i, side in enumerate(sides):
            axis, sign = imus.SIDES[side]
            back = "Turn the trunk back, and then its" if i else "Turn the trunk's"
            text = f"{back} {side} down by about 30 degrees, and keep it so."
            turn = [0.0, sign, 0.0] if axis == 0 else [-sign, 0.0, 0.0]
            self.ask(Request(text, {"motion": "turn", "axis": turn, "angle": TILT}))
            if not self._until(lambda: self._has_turned(before, 0.3)):  # noqa: B023  # called before it changes
                self.found.problems.append(f"the trunk was not turned within {ASK_SECONDS:g} s: {text}")
                return {}
            row = len(self.session.recording)
            self._excite(HOLD_SECONDS)
            before = holds[side] = self._quats(row)
        return holds

    def _excite(self, seconds: float, until: Optional[Callable[[], bool]] = None) -> bool:
        """Continue the slow motion for a time, or until something happens; return whether it has."""
        for _ in range(round(seconds / PERIOD)):
            ramp = min(1.0, self._phase_time / RAMP_SECONDS)
            # triangles: friction and inertia are constant between the turns
            triangle = 2 / math.pi * np.arcsin(np.sin(self._rates * self._phase_time))
            wanted = self._began_at + ramp * (self.center + self.amplitudes * triangle - self._began_at)
            self.session.step(wanted, self.session.kp_work)
            self._phase_time += PERIOD
            if until is not None and until():
                return True
        return False

    def _until(self, happened: Callable[[], bool]) -> bool:
        return self._excite(ASK_SECONDS, happened)

    def _quats(self, row: int) -> np.ndarray:
        return mean_quat(self.session.recording.arrays(slice(row, None))["base_quat"])

    def _has_turned(self, before: np.ndarray, least: float) -> bool:
        """Return whether the trunk has turned and is still."""
        still = moving(self.session.recording, 0.3)
        return still is not None and still < 0.02 and angle_between(self._quats(-10), before) > least

    def _find_delays(self) -> None:
        """Find the time from a target to the reading of its motion."""
        everything = self.session.recording.arrays(slice(0, self.pushes[-1].end + 20))
        spans = [
            [Span(p.row, p.end) for p in self.pushes if p.channel == c and p.sign * p.moved[c] > MOVED]
            for c in range(self.count)
        ]
        angles = everything["joint_pos"] * self.session.unit
        each, self.found.delay = find_delays(angles, everything["target"], spans, PERIOD)
        for channel, delay in zip(self.found.channels, each):
            channel.delay = delay
        if self.found.delay > LATE - 2 * PERIOD:
            self.found.notes.append(
                f"motions seem to be read {1000 * self.found.delay:.0f} ms after their targets: with more than "
                f"{1000 * (LATE - 2 * PERIOD):.0f} ms a joint that is moved by hand may have more than the torque share"
            )

    def _keeps_period(self) -> bool:
        """Return whether the loop has run with its period, as accelerations and delays are by it; tell if not."""
        seconds = float(np.median(np.diff(self.session.recording.arrays()["time"])))
        if abs(seconds / PERIOD - 1) <= UNEVEN:
            return True
        allowed = f"{1000 * PERIOD:.0f} ms: use a machine that is not busy"
        self.found.problems.append(f"the loop ran once in {1000 * seconds:.1f} ms instead of {allowed}")
        return False

    def _find_velocity_unit(self, columns: Dict[str, np.ndarray]) -> None:
        """Compare joint velocities with the change of the angles."""
        pos, told, wide = columns["joint_pos"] * self.session.unit, columns["joint_vel"], 15
        vel = (pos[2 * wide :] - pos[: -2 * wide]) / (2 * wide * PERIOD)
        mean = np.stack([told[i : len(told) - 2 * wide + i] for i in range(2 * wide + 1)]).mean(axis=0)
        slopes = (vel * mean).sum(axis=0) / (vel**2).sum(axis=0)
        still = np.quantile(np.abs(vel), 0.9, axis=0) < 0.05
        slope = float(np.median(slopes[~still])) if not still.all() else 1.0
        self.found.units["joint_vel"] = "deg/s" if slope > 10 else "rad/s"
        factor = 180 / math.pi if slope > 10 else 1.0
        for c, name in enumerate(self.session.driver.names):
            if still[c]:
                self.found.problems.append(
                    f"{name}: it hardly moved with {USED * 100:.0f} % of the share: give a larger --torque_share"
                )
            elif not 0.7 < slopes[c] / factor < 1.4:
                self.found.problems.append(
                    f"{name}: joint_vel is {slopes[c]:.2f} times the change of joint_pos; units, sign or order differ"
                )

    # 4. Limbs

    def _move_limbs(self) -> None:
        """Find the channels of each limb: those that move when the operator moves its end."""
        session, limbs = self.session, self.limbs
        session.by_hand = True
        ends = limbs.ends()
        spans = np.zeros((len(ends), self.count))
        for i, end in enumerate(ends):
            place = limbs.place_of(end)
            text = f"Take the {place} limb at its end ({limbs.links[end]}), and bend all its joints for two seconds."
            self._until_still()
            row = len(session.recording)
            self.ask(Request(text, {"motion": "move", "link": limbs.links[end]}))
            moved = False
            for _ in range(round(ASK_SECONDS / PERIOD)):
                session.send(session.pos, 0.0)
                if len(session.recording) - row < 40:
                    continue
                recent = np.ptp(_smooth(session.recording.newest("joint_pos", 40), 8), axis=0).max() * session.unit
                moved = moved or recent > 0.1
                if moved and recent < 0.04:
                    break
            if not moved:
                self.found.problems.append(f"no joint moved within {ASK_SECONDS:g} s: {text}")
                return
            pos = session.recording.arrays(slice(row, None))["joint_pos"] * session.unit
            creep = np.linspace(0.0, 1.0, len(pos))[:, None] * (pos[-8:].mean(axis=0) - pos[:8].mean(axis=0))
            spans[i] = np.ptp(_smooth(pos - creep, 8), axis=0)
        session.by_hand = False
        owner = spans.argmax(axis=0)
        for i, end in enumerate(ends):
            members = [c for c in range(self.count) if owner[c] == i]
            chain = limbs.chain(end)
            second = np.sort(spans, axis=0)[-2]
            unclear = [c for c in members if spans[i, c] < max(0.012, 1.5 * second[c])]
            if len(members) != len(chain) or unclear:
                names = [session.driver.names[c] for c in members]
                self.found.problems.append(
                    f"when the {limbs.place_of(end)} limb was moved, {len(members)} channels moved most "
                    f"({', '.join(names)}), but it has {len(chain)} joints; move all joints of one limb, and no other"
                )
            self.members.append(members)

    def _until_still(self) -> None:
        """Damp the joints until they hardly move."""
        for step in range(round(STILL_SECONDS / PERIOD)):
            self.session.send(self.session.pos, 0.0)
            if step > 50 and np.ptp(_smooth(self._recent(60), 15), axis=0).max() < 0.01:
                return

    def _recent(self, count: int) -> np.ndarray:
        """Return the newest joint angles [count, J] [rad]."""
        return self.session.recording.newest("joint_pos", count) * self.session.unit

    # 5. Joints

    def samples(self) -> Samples:
        """Return means over short times of the slow motion, without those in which the trunk turns."""
        parts = [self._samples_of(rows) for rows in self.excited]
        return Samples(*(np.concatenate(columns) for columns in zip(*parts)))

    def _samples_of(self, excited: slice) -> Samples:
        assert self.found.imu is not None
        columns = self.session.recording.arrays(excited)
        pos, shift = columns["joint_pos"] * self.session.unit, self.found.delay / PERIOD
        whole, part = int(shift), shift - int(shift)
        targets = (1 - part) * np.roll(columns["target"], whole, axis=0) + part * np.roll(
            columns["target"], whole + 1, axis=0
        )
        vel = np.gradient(_smooth(pos, 7), PERIOD, axis=0)
        torque = columns["stiffness"] * (targets - pos) - columns["damping"] * vel
        ways, vel = np.tanh(vel / SLOW), np.gradient(_smooth(_smooth(pos, 7), 15), PERIOD, axis=0)
        acc = np.gradient(vel, PERIOD, axis=0)
        pos, torque, ways = (_smooth(_smooth(x, 7), 15) for x in (pos, torque, ways))  # as smooth as accelerations
        gravity = self.found.imu.gravity(columns["base_quat"])
        rows = len(pos) // WINDOW * WINDOW
        pos, vel, acc, ways, torque, gravity = (
            x[:rows].reshape(-1, WINDOW, *x.shape[1:]).mean(axis=1) for x in (pos, vel, acc, ways, torque, gravity)
        )
        change = np.linalg.norm(np.gradient(gravity, axis=0), axis=1) + np.linalg.norm(
            gravity - np.roll(gravity, 1, axis=0), axis=1
        )
        still = (change < 0.04) & (np.arange(len(pos)) > 6)
        gravity = gravity / np.linalg.norm(gravity, axis=1, keepdims=True)
        return Samples(*(x[still] for x in (pos, vel, acc, ways, torque, gravity)))

    def _assign(self) -> None:
        """Find the joint, sign and zero of each channel, limb by limb, and ask where the torques do not tell."""
        self.tell("computing which joint each channel is")
        for end, members in zip(self.limbs.ends(), self.members):
            chain = self.limbs.chain(end)
            limb = self.limbs.part(chain)
            work = self.compute(lambda: self._searched(end, chain, limb, members))  # noqa: B023  # is called at once
            if not work.fits:
                self.found.problems.append(
                    f"no order of the {work.place} limb's channels keeps its joints in their ranges, with zeros up to "
                    f"{LARGEST_ZERO:g} rad: another robot, or wrong units"
                )
                return
            while work.unclear() is not None:
                if not self._turn_joint(work):
                    return
            work.margins = [margin(work.fits, i) for i in range(len(members))]
            self.work.append(work)
        self._find_stops()
        if any((work.fits[0].spread > ENOUGH_ZERO).any() for work in self.work):
            self._turn_again()
        for work in self.work:
            self._take(work)

    def _searched(self, end: int, chain: List[int], limb: Limbs, members: List[int]) -> _LimbWork:
        torque, place = float(self.session.torque.min()), self.limbs.place_of(end)
        search = LimbSearch(limb, self.samples().take(members), FLOOR * torque, hanging_pose(limb))
        return _LimbWork(place, chain, members, search, WEAK * torque, search.search())

    def _allow_own_torques(self) -> None:
        """Let each motor give the share of its own joint's torque limit, now that its joint is known."""
        torques = self.session.torque.copy()
        for work in self.work:
            for i, c in enumerate(work.members):
                name = self.limbs.names[work.chain[work.fits[0].joints[i]]]
                torques[c] = self.torques.get(name, torques[c])
        self.session.set_torques(torques)

    def _turn_again(self) -> None:
        """Move slowly once more, about a pose in which gravity tells more of the zeros that are not known well."""
        self._allow_own_torques()
        center = self.compute(self._telling_center)
        self._began_at, self.center, self.amplitudes = self.session.pos.copy(), center, self.amplitudes / 2
        self._phase_time = 0.0
        self._excite(POSE_SECONDS)
        row = len(self.session.recording)
        if self._turn_sides(self._quats(-30), ("nose", "right side")):
            self.excited.append(slice(row, len(self.session.recording)))
            self.compute(self._refit_all)

    def _telling_center(self) -> np.ndarray:
        """Return targets [J] for poses of the limbs in which gravity tells most of what is not known well [rad]."""
        center = self.center.copy()
        for work in self.work:
            best, members = work.fits[0], work.members
            order, signs = list(best.joints), np.array(best.signs)
            unknown = [joint for joint, spread in zip(best.joints, best.spread) if spread > ENOUGH_ZERO]
            largest = np.empty(len(order))
            largest[order] = POSE_TORQUE * self.session.torque[members]
            if unknown:
                angles, torques = telling_pose(work.search.limb, unknown, largest, TILT)
                ahead = torques[order] / self.session.kp_work[members]
                center[members] = best.zeros + signs * (angles[order] + ahead)
        return center

    def _refit_all(self) -> None:
        samples = self.samples()
        for work in self.work:
            work.search = work.search.with_samples(samples.take(work.members))
            work.refit()

    def _turn_joint(self, work: _LimbWork) -> bool:
        """Let the operator turn the joint that is least clear, in the direction of its angles, or against it if it is
        at the end of its range; return whether one channel has moved."""
        session, joint = self.session, work.chain[work.fits[0].joints[work.unclear() or 0]]
        name, axis, told = self.limbs.names[joint], self.limbs.axes[joint], ""
        for sign in (1, -1):
            text = f"Turn {self.limbs.links[joint]} by hand ({name}): {direction(sign * axis)}. Then let go."
            session.by_hand = True
            self._until_still()
            start = self._recent(20).mean(axis=0)
            self.ask(Request(text, {"motion": "joint", "joint": name, "sign": sign}))
            moved, largest = np.zeros(self.count), 0.0
            for _ in range(round(TURN_SECONDS / PERIOD)):
                session.send(session.pos, 0.0)
                recent = self._recent(30)
                moves = recent[-5:].mean(axis=0) - start
                if np.abs(moves).max() > largest:
                    largest, moved = float(np.abs(moves).max()), moves
                if largest > TURNED and np.ptp(_smooth(recent, 8), axis=0).max() < 0.03:
                    break
            session.by_hand = False
            c = int(np.abs(moved).argmax())
            if largest > TURNED and np.delete(np.abs(moved), c).max() < 0.7 * largest and c in work.members:
                break
            told = f"no one joint of the {work.place} limb moved clearly: {text}"
        else:
            self.found.problems.append(told)
            return False
        i = work.members.index(c)
        work.search.fixed[i] = work.chain.index(joint), sign if moved[c] > 0 else -sign
        self.found.channels[c].evidence = "turned by hand"
        work.fits = self.compute(work.search.search)
        if not work.fits:
            self.found.problems.append(
                f"{session.driver.names[c]}: what moved by hand does not fit the torques: {text}"
            )
        return bool(work.fits)

    def _find_stops(self) -> None:
        """Drive joints whose zeros are not known well to the nearest ends of their ranges."""
        waiting = {
            id(work): [
                i for i in range(len(work.members)) if work.fits[0].spread[i] > ENOUGH_ZERO and self._end_of(work, i)
            ]
            for work in self.work
        }
        self._excite(0.3)
        while any(waiting.values()):
            chosen = [(work, waiting[id(work)].pop()) for work in self.work if waiting[id(work)]]
            self.tell("driving joints to the ends of their ranges")
            self._drive_to_stops(chosen)
        self.compute(lambda: [work.refit() for work in self.work if work.search.zeros])

    def _end_of(self, work: _LimbWork, i: int) -> Optional[Tuple[float, float]]:
        """Return the nearest end of a joint's range, and the direction to it in the channel; None for ends far away."""
        best, joint = work.fits[0], work.chain[work.fits[0].joints[i]]
        c = work.members[i]
        angle = best.signs[i] * (self.session.pos[c] - best.zeros[i])
        ends = [(abs(end - angle), end, way * best.signs[i]) for end, way in zip(self.limbs.ranges[joint], (-1.0, 1.0))]
        distance, end, way = min(ends)
        return (float(end), float(way)) if distance < STOP_DISTANCE else None

    def _drive_to_stops(self, chosen: Sequence[Tuple[_LimbWork, int]]) -> None:
        """Drive one joint of each limb to the end of its range, and take its zero from where it stops.

        A soft end gives way in proportion to the torque that it carries, so the zero is the extrapolation to none.
        """
        session = self.session
        wanted, reach = session.pos.copy(), USED * session.torque / session.kp_work
        ends = {work.members[i]: self._end_of(work, i) for work, i in chosen}
        ways = np.zeros(self.count)
        for c, end in ends.items():
            ways[c] = end[1] if end else 0.0
        if not ways.any():  # the ends are farther away now
            return
        start = session.pos.copy()
        for step in range(round(STOP_SECONDS / PERIOD)):
            along = np.minimum(step * PERIOD * STOP_SPEED, np.abs(ways * (session.pos - start)) + reach)
            session.step(np.where(ways != 0, start + ways * along, wanted), session.kp_work)
            recent = session.recording.newest("joint_pos", 40) * session.unit
            if step > 60 and np.ptp(_smooth(recent, 15), axis=0)[ways != 0].max() < 0.008:
                break
        levels = []
        for share in (1.0, 0.5):
            row = len(session.recording)
            for _ in range(35):
                session.step(np.where(ways != 0, session.pos + share * reach * ways, wanted), session.kp_work)
            columns = session.recording.arrays(slice(row + 10, None))
            pos = columns["joint_pos"] * session.unit
            torque = columns["stiffness"] * (columns["target"] - pos)
            levels.append((pos.mean(axis=0), torque.mean(axis=0)))
        gravity = (
            self.found.imu.gravity(session.recording.newest("base_quat", 30)).mean(axis=0)
            if self.found.imu
            else np.zeros(3)
        )
        for work, i in chosen:
            c, best, end = work.members[i], work.fits[0], ends[work.members[i]]
            if end is None:
                continue
            (full, strong), (half, weak) = ((pos[c], torque[c]) for pos, torque in levels)
            angles = np.empty((1, len(work.chain)))
            angles[0, list(best.joints)] = np.array(best.signs) * (levels[0][0][work.members] - best.zeros)
            held = best.signs[i] * loads(work.search.limb, angles, gravity[None]).torques[0, best.joints[i]]
            pressed = ways[c] * (strong - held)  # on the end of the range, with friction [N m]
            stiff = (full - half) / (strong - weak) if abs(strong - weak) > 1e-6 else 0.0
            place = full - max(0.0, stiff) * (strong - held)
            zero = place - best.signs[i] * end[0]
            near = abs(zero - best.zeros[i]) < max(0.08, 3.5 * best.spread[i])
            if pressed > 0.3 * abs(strong) and abs(full - half) < 0.05 and near:
                work.search.zeros[i] = float(zero), STOP_SPREAD
                self.found.channels[c].evidence += ", end of its range"

    def _take(self, work: _LimbWork) -> None:
        best = work.fits[0]
        for i, c in enumerate(work.members):
            channel = self.found.channels[c]
            channel.joint = self.limbs.names[work.chain[best.joints[i]]]
            channel.sign, channel.zero = best.signs[i], float(best.zeros[i])
            channel.zero_spread = float(np.hypot(best.spread[i], LEVEL_SPREAD))
            channel.margin = work.margins[i]
            channel.friction = float(best.errors[i])
        self.found.fits[work.place] = (work.members, work.search.samples, best)

    def _finish(self) -> Found:
        """Add what is known of rates and ranges, and name what is not determined."""
        found, recording = self.found, self.session.recording
        columns = recording.arrays()
        if not any("the loop ran" in text for text in found.problems):
            self._keeps_period()
        seconds = max(PERIOD, float(columns["stamp"][-1] - columns["stamp"][0]))
        found.seconds = float(columns["time"][-1] - columns["time"][0])
        for name in ("joint_pos", "joint_vel", "base_quat", "base_ang_vel"):
            found.rates[name] = float((np.diff(columns[name], axis=0) != 0).any(axis=1).sum() / seconds)
        pos = _smooth(columns["joint_pos"] * self.session.unit, 5)
        for c, channel in enumerate(found.channels):
            channel.rate = float((np.diff(columns["joint_pos"][:, c]) != 0).sum() / seconds)
            channel.low, channel.high = float(pos[:, c].min()), float(pos[:, c].max())
            if channel.joint and channel.margin < CLEAR:
                found.problems.append(
                    f"{channel.name}: not clear whether it is {channel.joint} (margin {channel.margin:.1f})"
                )
            elif channel.joint and channel.zero_spread > CLEAR_ZERO:
                found.problems.append(f"{channel.name}: its zero is known to {channel.zero_spread:.3f} rad only")
        return found


@dataclass
class _LimbWork:
    """A limb while its joints are looked for."""

    place: str
    chain: List[int]
    members: List[int]
    search: LimbSearch
    weak: float
    """Torque of gravity up to which a joint is not told by it [N m]."""
    fits: List[Fit] = field(default_factory=list)
    margins: List[float] = field(default_factory=list)

    def unclear(self) -> Optional[int]:
        """Return the channel, an index within the limb, that is least clear; None if all are.

        Errors of the model are larger than what gravity tells of a light joint, so such a joint is never clear.
        """
        if not self.fits:
            return None
        margins = np.array([margin(self.fits, i) for i in range(len(self.members))])
        margins[self.search.gravity_torques(self.fits[0]) < self.weak] = 0.0
        margins[list(self.search.fixed)] = np.inf
        least = int(np.argmin(margins))
        return least if margins[least] < CLEAR else None

    def refit(self) -> None:
        """Fit the zeros again."""
        best = self.search.refit(self.fits[0])
        if best is not None:
            self.fits[0] = best


def direction(axis: np.ndarray) -> str:
    """Return a rotation about an axis of the base frame in words."""
    i = int(np.abs(axis).argmax())
    positive = axis[i] > 0
    if i == 0:
        return f"{'clockwise' if positive else 'counter-clockwise'} as seen from behind the robot"
    if i == 1:
        return f"its lower end to the {'back' if positive else 'front'} of the robot"
    return f"{'counter-clockwise' if positive else 'clockwise'} as seen from above"


def _smooth(array: np.ndarray, count: int) -> np.ndarray:
    """Return means over ``count`` rows, as many rows as given."""
    kernel = np.ones(count) / count
    padded = np.pad(array, ((count // 2, count - 1 - count // 2), (0, 0)), mode="edge")
    return np.stack([np.convolve(column, kernel, mode="valid") for column in padded.T], axis=1)

"""A simulated robot behind UDP, in real time, to try robot_loop.py before there is a robot.

    python udp_robot.py policy.onnx --port 9870 --loss 0.05 --jitter 0.005

It is MuJoCo with the model, the PD loops and the torque limits of the policy's file; the protocol is that of
udp_driver.py. Until the first targets the robot stands in the policy's pose.

The motors have a watchdog of their own: without new targets for 100 ms the joints are damped until the motors are
switched off. Targets that are older than the last, or answer a reading that is older than 100 ms, are ignored.

The connection is as bad as you like, in both directions: --loss and --jitter, and a packet of the kind "flaw" with the
same settings as JSON, and "late": the time for which all packets are held back, once [s]. For each run the program
prints a line of JSON when the motors are switched off: how it went, as the robot saw it.

--wiring gives the robot joints in another order, with other signs and zeros, an IMU that is turned, noise, delays,
friction and more, see wired_robot.py; --draw_wiring draws one. --stand holds its trunk on a stand, beside which an
operator does what packets of the kind "hand" ask for.
"""

import argparse
import contextlib
import heapq
import itertools
import json
import random
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

import numpy as np
from sim_to_sim import Walker, fail
from udp_driver import MAX_PACKET, READINGS, floats, pack, unpack
from wired_robot import WiredWalker, Wiring, draw_wiring, read_wiring, write_wiring

PERIOD = 0.005
"""Time between two readings [s]."""
MAX_SILENCE = 0.1
"""Time without targets after which the joints are damped, and age of the reading that targets may answer [s]."""

LARGEST_FAULTS = {"loss": 1.0, "jitter": 10.0, "late": 10.0}
"""Largest settings of a bad connection: share of lost packets, random delay [s], time of holding back [s]."""


class Connection:
    """A socket that loses, delays and holds back packets in both directions."""

    def __init__(self, port: int, loss: float, jitter: float, seed: int):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", port))
        self.socket.setblocking(False)
        self._random = random.Random(seed)
        self._order = itertools.count()
        self._outgoing: List[Tuple[float, int, bytes, Any]] = []
        self._incoming: List[Tuple[float, int, bytes, Any]] = []
        self._held_until = 0.0
        self.set_faults(loss=loss, jitter=jitter)

    def set_faults(self, loss: float = 0.0, jitter: float = 0.0, late: float = 0.0) -> None:
        """Set the share of packets that are lost, the largest random delay [s], and hold all back for a time [s]."""
        self._loss, self._jitter = loss, jitter
        self._held_until = time.monotonic() + late

    def _delay(self, queue: List[Tuple[float, int, bytes, Any]], packet: bytes, peer: Any) -> None:
        now = time.monotonic()
        if self._random.random() >= self._loss:
            due = max(now, self._held_until) + self._random.uniform(0.0, self._jitter)
            heapq.heappush(queue, (due, next(self._order), packet, peer))

    def send(self, packet: bytes, peer: Any) -> None:
        self._delay(self._outgoing, packet, peer)

    def received(self) -> Iterator[Tuple[bytes, Any]]:
        """Send what is due, and yield the packets that have arrived with their senders."""
        while True:
            try:
                packet, peer = self.socket.recvfrom(MAX_PACKET)
            except (BlockingIOError, ConnectionRefusedError):
                break
            if packet[:4] == b"flaw":
                self._take_faults(packet[4:], peer)
            else:
                self._delay(self._incoming, packet, peer)
        now = time.monotonic()
        while self._outgoing and self._outgoing[0][0] <= now:
            self._send_now(*heapq.heappop(self._outgoing)[2:])
        while self._incoming and self._incoming[0][0] <= now:
            yield heapq.heappop(self._incoming)[2:]

    def _take_faults(self, content: bytes, peer: Any) -> None:
        """Follow and answer a packet of the kind flaw; what makes no sense is ignored."""
        try:
            self.set_faults(**read_faults(content))
        except ValueError as error:
            print(f"a packet of the kind flaw is ignored: {error}", file=sys.stderr)
        else:
            self._send_now(b"flaw", peer)

    def _send_now(self, packet: bytes, peer: Any) -> None:
        with contextlib.suppress(OSError):  # the loop has ended
            self.socket.sendto(packet, peer)


def read_faults(content: bytes) -> Dict[str, float]:
    """Return the settings of a packet of the kind flaw; others than loss, jitter and late are a ValueError."""
    try:
        told = json.loads(content.decode())
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict) or not all(
        name in LARGEST_FAULTS and type(value) in (int, float) and 0 <= value <= LARGEST_FAULTS[name]
        for name, value in told.items()
    ):
        allowed = ", ".join(f"{name} from 0 to {largest:g}" for name, largest in LARGEST_FAULTS.items())
        raise ValueError(f"{content[:60]!r} is not JSON with {allowed}")
    return told


class Robot:
    """A robot in MuJoCo with motors that have PD loops and a watchdog."""

    def __init__(self, walker: Walker):
        self._walker, self._names = walker, walker.policy.joint_names
        walker.substeps = max(1, round(PERIOD / walker.model.opt.timestep))
        self.period = walker.substeps * walker.model.opt.timestep
        self._number = 0
        self._sent: Dict[int, float] = {}  # times of the latest readings
        self._asked = 0  # requests to the operator
        self.start()

    def start(self, newest: int = -1) -> None:
        """Stand, until targets come whose packet has a higher number than this."""
        self._walker.reset()
        self._targets = self._walker.policy.default_joint_pos
        self._gains: Optional[Tuple[np.ndarray, np.ndarray]] = None  # that of the targets; None before the first
        self._newest, self._heard, self._asked = newest, 0.0, 0
        self.counts = {"targets": 0, "damping": 0, "late": 0, "out_of_order": 0}
        self.oldest_answer, self.watchdog, self.fallen = 0.0, False, False

    def names(self) -> bytes:
        return json.dumps(self._names).encode()

    def reading(self) -> bytes:
        """Return a packet with what the robot measures now."""
        measured = self._walker.readings()
        self._number += 1
        now = time.monotonic()
        self._sent[self._number] = now
        self._sent.pop(self._number - 1000, None)
        content = np.concatenate([measured[name] for name in READINGS]).astype("<f4").tobytes()
        return pack(b"read", self._number, 0, now, content)

    def follow(self, number: int, answers: int, content: bytes) -> None:
        """Take joint targets and gains, unless they are out of order or too late, or the watchdog has struck."""
        values = floats(content[: len(content) // 4 * 4])
        if len(values) != 3 * len(self._names) or not np.isfinite(values).all() or self.watchdog:
            return
        now = time.monotonic()
        age = now - self._sent.get(answers, -np.inf)
        if number <= self._newest:
            self.counts["out_of_order"] += 1
            return
        targets, stiffness, damping = np.split(values, 3)
        if stiffness.any():
            if age > MAX_SILENCE:
                self.counts["late"] += 1
                return
            self.oldest_answer = max(self.oldest_answer, age)
        self.counts["targets" if stiffness.any() else "damping"] += 1
        self._targets, self._gains, self._newest, self._heard = targets, (stiffness, damping), number, now

    def hand(self, content: bytes) -> None:
        """Let the operator do what a packet asks for; the same packet again, or what makes no sense, is ignored."""
        try:
            request = json.loads(content.decode())
            number = int(request.pop("number"))
            if isinstance(self._walker, WiredWalker) and number >= self._asked:
                self._asked = number + 1
                self._walker.hand(request)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            print(f"a packet of the kind hand is ignored: {_line(error)}", file=sys.stderr)

    def step(self) -> None:
        """Simulate the time between two readings."""
        walker = self._walker
        if self.follows and time.monotonic() - self._heard > MAX_SILENCE and not self.watchdog:
            self.watchdog = True
            self._gains = np.zeros_like(self._targets), walker.policy.damping
        if self._gains is not None:
            stiffness, damping = self._gains
            walker.set_gains(stiffness / walker.policy.stiffness, damping / walker.policy.damping)
        walker.simulate(self._targets)
        self.fallen |= walker.velocities()[1] and self._gains is not None and bool(self._gains[0].any())

    @property
    def follows(self) -> bool:
        """Whether it got targets since it stood."""
        return self._gains is not None

    def report(self, newest: int = -1) -> str:
        """Return how the run went, as JSON, and stand again; late packets, up to a number, start no new run."""
        told = {**self.counts, "oldest_answer": self.oldest_answer, "watchdog": self.watchdog, "fallen": self.fallen}
        if isinstance(self._walker, WiredWalker):
            told["largest_torque_share"] = float(self._walker.largest_share.max())
        self._walker.set_gains(1.0, 1.0)
        self.start(newest)
        return json.dumps(
            {name: value if isinstance(value, (int, float)) else bool(value) for name, value in told.items()}
        )


def serve(robot: Robot, connection: Connection) -> None:
    """Simulate in real time and answer packets, for ever."""
    peer, due = None, time.monotonic()
    while True:
        for packet, sender in connection.received():
            kind, number, answers, _, content = unpack(packet) or (b"", 0, 0, 0.0, b"")
            if kind == b"name":
                if robot.follows and sender != peer:  # that one has ended without a stop
                    print(robot.report(), flush=True)
                elif sender != peer:
                    robot.start()
                peer = sender
                connection.send(pack(b"name", 0, 0, time.monotonic(), robot.names()), sender)
            elif kind == b"hold" and sender == peer:
                robot.follow(number, answers, content)
            elif kind == b"hand" and sender == peer:
                robot.hand(content)
            elif kind == b"stop" and sender == peer and robot.follows:
                print(robot.report(number), flush=True)
        now = time.monotonic()
        if now >= due:
            robot.step()
            if peer is not None:
                connection.send(robot.reading(), peer)
            due = max(due + robot.period, now - 10 * robot.period)  # a slow machine is not caught up with for long
        select.select([connection.socket], [], [], min(0.001, max(0.0, due - time.monotonic())))


def make_walker(mujoco: Any, args: argparse.Namespace) -> Walker:
    """Return the robot, with the wiring and the stand that the flags ask for."""
    walker = Walker(mujoco, args.policy, args.model)
    if not args.stand and args.wiring is None and args.draw_wiring is None:
        return walker
    names, wiring = walker.policy.joint_names, Wiring()
    if args.draw_wiring is not None:
        if args.draw_wiring < 0 or args.wiring is None:
            raise ValueError(f"--draw_wiring {args.draw_wiring}: give a seed from 0, and --wiring FILE to write")
        wiring = draw_wiring(names, walker.policy.torque_limits.tolist(), args.draw_wiring)
        write_wiring(wiring, args.wiring)
    elif args.wiring is not None:
        wiring = read_wiring(args.wiring, names)
    return WiredWalker(mujoco, args.policy, wiring, args.model, args.stand)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policy", type=Path, help="policy.onnx as play.py writes it")
    parser.add_argument("--port", type=int, default=9870, help="on 127.0.0.1; 0 for any")
    parser.add_argument("--loss", type=float, default=0.0, help="share of the packets that are lost")
    parser.add_argument("--jitter", type=float, default=0.0, help="largest random delay of a packet [s]")
    parser.add_argument("--seed", type=int, default=0, help="of loss and delays")
    parser.add_argument("--model", type=Path, help="MJCF file of the robot on a floor; the policy's own without it")
    parser.add_argument("--stand", action="store_true", help="hold the trunk on a stand, with an operator beside it")
    parser.add_argument("--wiring", type=Path, help="JSON file with what is between the joints and the driver")
    parser.add_argument("--draw_wiring", type=int, metavar="SEED", help="draw the wiring, and write it to --wiring")
    args = parser.parse_args()
    try:
        for name in ("loss", "jitter"):
            if not 0 <= getattr(args, name) <= LARGEST_FAULTS[name]:
                raise ValueError(f"--{name} {getattr(args, name):g}: give 0 to {LARGEST_FAULTS[name]:g}")
        import mujoco

        robot = Robot(make_walker(mujoco, args))
        connection = Connection(args.port, args.loss, args.jitter, args.seed)
    except (ValueError, OSError, OverflowError, ImportError) as error:
        return fail(" ".join(str(error).split()))
    host, port = connection.socket.getsockname()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print(f"a simulated robot listens at {host}:{port}", flush=True)
    try:
        serve(robot, connection)
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A driver of robot_loop.py for robots behind UDP, such as the simulated one of udp_robot.py. An example to start from.

A packet is a header (kind, its own number, number of the reading that it answers, sender's time [s]) and numbers of 32
bits, all little-endian:

| kind | from | content |
|---|---|---|
| name | loop | nothing; the robot answers with a packet of the same kind, with the joint names as JSON |
| read | robot | base_quat, base_ang_vel, base_lin_vel, joint_pos, joint_vel |
| hold | loop | joint targets, stiffness, damping |
| stop | loop | nothing |
| hand | loop | what a simulated operator is asked to do, as JSON |

Both sides drop packets that are older than one that they have.
"""

import json
import socket
import struct
import time
from typing import Any, Dict, List, Mapping, Optional, Tuple

import numpy as np

HEADER = struct.Struct("<4sIId")
READINGS = {"base_quat": 4, "base_ang_vel": 3, "base_lin_vel": 3, "joint_pos": 0, "joint_vel": 0}
"""Sizes of what a robot measures; 0 for one number per joint."""
MAX_PACKET = 65_507
CLOCK_DRIFT = 1e-4
"""Largest drift of the robot's clock against ours [s/s]."""


def pack(kind: bytes, number: int, answers: int, seconds: float, content: bytes = b"") -> bytes:
    return HEADER.pack(kind, number, answers, seconds) + content


def unpack(packet: bytes) -> Optional[Tuple[bytes, int, int, float, bytes]]:
    """Return kind, number, number of the answered reading, time and content; None for what is too short."""
    return (*HEADER.unpack_from(packet), packet[HEADER.size :]) if len(packet) >= HEADER.size else None


def floats(content: bytes) -> np.ndarray:
    return np.frombuffer(content, "<f4").astype(np.float32)


def read_names(content: bytes) -> List[str]:
    """Return the joint names of a packet; none of one with other content."""
    try:
        names = json.loads(content.decode())
    except (ValueError, RecursionError):
        return []
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else []


def address_of(text: str) -> Tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"--address {text}: give host:port, such as 127.0.0.1:9870")
    return host, int(port)


class UdpDriver:
    """A robot behind UDP. It sends readings after it was asked for its joint names."""

    def __init__(self, address: Tuple[str, int], timeout: float = 5.0):
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._number = self._asked = 0
        self._newest: Optional[Dict[str, Any]] = None
        self._newest_number = -1
        self._offset = np.inf  # our clock minus the robot's, of the fastest packet [s]
        self._offset_time = 0.0
        try:
            self._socket.connect(address)
            self._names = self._ask_names(timeout)
        except BaseException:
            self._socket.close()
            raise
        self._socket.setblocking(False)

    def joint_names(self) -> List[str]:
        return self._names

    def readings(self) -> Optional[Mapping[str, Any]]:
        while True:
            try:
                packet = unpack(self._socket.recv(MAX_PACKET))
            except BlockingIOError:
                return self._newest
            if packet is not None and packet[0] == b"read" and packet[1] > self._newest_number:
                self._take(*packet)

    def hold(self, targets: np.ndarray, stiffness: np.ndarray, damping: np.ndarray) -> None:
        self._send(b"hold", np.concatenate((targets, stiffness, damping)).astype("<f4").tobytes())

    def stop(self) -> None:
        for _ in range(3):  # one packet may be lost
            self._send(b"stop")

    def ask(self, motion: Mapping[str, Any]) -> None:
        """Ask the operator of a simulated robot to do something, see Operator in wired_robot.py."""
        for _ in range(3):  # one packet may be lost; the robot follows the first
            self._send(b"hand", json.dumps({**motion, "number": self._asked}).encode())
        self._asked += 1

    def close(self) -> None:
        self._socket.close()

    def _send(self, kind: bytes, content: bytes = b"") -> None:
        self._number += 1
        self._socket.send(pack(kind, self._number, max(0, self._newest_number), time.monotonic(), content))

    def _ask_names(self, timeout: float) -> List[str]:
        end = time.monotonic() + timeout
        self._socket.settimeout(0.1)
        while time.monotonic() < end:
            self._send(b"name")
            try:
                packet = unpack(self._socket.recv(MAX_PACKET))
            except (socket.timeout, ConnectionRefusedError):
                time.sleep(0.01)
                continue
            names = read_names(packet[4]) if packet is not None and packet[0] == b"name" else []
            if names:
                return names
        host, port = self._socket.getpeername()
        raise ConnectionError(f"no robot answers at {host}:{port} within {timeout:g} s; start it first")

    def _take(self, kind: bytes, number: int, answers: int, robot_time: float, content: bytes) -> None:
        """Store readings, with the time at which they were measured by our clock.

        The fastest packet tells the difference of the clocks; a packet that took longer is that much older.
        """
        sizes = [size or len(self._names) for size in READINGS.values()]
        values = floats(content[: len(content) // 4 * 4])
        if len(values) != sum(sizes) or not np.isfinite(robot_time):
            return
        now = time.monotonic()
        drift = CLOCK_DRIFT * (now - self._offset_time)
        self._offset, self._offset_time = min(self._offset + drift, now - robot_time), now
        parts = np.split(values, np.cumsum(sizes)[:-1])
        self._newest = {**dict(zip(READINGS, parts)), "time": robot_time + self._offset}
        self._newest_number = number


def connect(address: str) -> UdpDriver:
    """Return the driver of a robot at host:port."""
    return UdpDriver(address_of(address))

"""Read the log of a robot from ROS messages: an MCAP file, a rosbag2 folder, or a bag of ROS 1.

This file needs the package rosbags, which is in an extra; nothing else imports it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence, Tuple

import numpy as np
from rosbags.highlevel import AnyReader
from rosbags.typesys import Stores, get_typestore

from rsl_rl.utils.text import listed

MAX_MESSAGES = 1_000_000
"""Messages of the used topics that are read."""

TYPES: Dict[str, Tuple[str, ...]] = {
    "joints": ("sensor_msgs/msg/JointState",),
    "targets": ("sensor_msgs/msg/JointState",),
    "imu": ("sensor_msgs/msg/Imu",),
    "command": ("geometry_msgs/msg/Twist", "geometry_msgs/msg/TwistStamped"),
    "odometry": ("nav_msgs/msg/Odometry",),
}
"""What a topic can be used for, and the types of messages that fit."""

NEEDED = ("joints", "targets")


class Bag(NamedTuple):
    """T rows, one for each message with joint targets, and what was read, in sentences."""

    header: List[str]  # names of the columns of a log; SI units
    table: np.ndarray  # [T, columns]; NaN where nothing was recorded before the row
    notes: List[str]


def read_bag(path: Path, joint_names: Sequence[str], topics: Mapping[str, str], max_rows: int) -> Bag:
    """Return the rows of a bag: each has the newest readings that were recorded before the targets of the row.

    ``topics`` says which topic is used for what, by the names of ``TYPES``. Without it a topic is used if it is the
    only one of its type; of two with joint states, /joint_states has the readings. What is not clear is a ValueError.
    """
    try:
        with AnyReader([path], default_typestore=get_typestore(Stores.LATEST)) as reader:
            used = _choose(path, {one.topic: one.msgtype for one in reader.connections}, topics)
            roles = {topic: role for role, topic in used.items()}
            messages = []
            wanted = [one for one in reader.connections if one.topic in roles]
            for connection, nanoseconds, raw in reader.messages(connections=wanted) if wanted else ():
                message = reader.deserialize(raw, connection.msgtype)
                messages.append((nanoseconds, roles[connection.topic], message))
                if len(messages) == MAX_MESSAGES:
                    break
    except ValueError:
        raise
    except Exception as error:  # a damaged bag raises errors of many kinds
        text = " ".join(str(error).split())[:200]
        raise ValueError(f"{path} is not a bag that rosbags reads: {text or type(error).__name__}") from error
    shown = ", ".join(f"{role} from {topic}" for role, topic in used.items())
    notes = [f"each row has the newest readings before its targets, by the time of the recorder: {shown}"]
    header, table = _rows(messages, joint_names, used, max_rows)
    if not len(table):
        raise ValueError(f"{path} has no message with joint targets on {used['targets']}")
    if len(table) == max_rows:
        notes.append(f"the log has {max_rows:,} rows or more; only these are used")
    return Bag(header, table, notes)


def _choose(path: Path, known: Mapping[str, str], topics: Mapping[str, str]) -> Dict[str, str]:
    """Return the topic of each role."""
    for role, topic in topics.items():
        if role not in TYPES:
            raise ValueError(f"--topics {role}={topic}: give {listed(list(TYPES), 9)}")
        if known.get(topic) not in TYPES[role]:
            there = known.get(topic, "not in the log")
            raise ValueError(f"--topics {role}={topic}: {topic} is {there}; give one of type {TYPES[role][0]}")
    used = dict(topics)
    for role, types in TYPES.items():
        free = sorted(topic for topic, kind in known.items() if kind in types and topic not in used.values())
        if role == "joints" and len(free) == 2 and role not in used:
            free = [topic for topic in free if topic.endswith("joint_states")]
        if role in used or not free:
            continue
        if len(free) > 1:
            example = f"--topics {role}={free[0]}"
            raise ValueError(f"{path} has several topics for {role}: {', '.join(free)[:300]}; give one: {example}")
        used[role] = free[0]
    missing = [role for role in NEEDED if role not in used]
    if missing:
        there = ", ".join(f"{topic} ({kind})" for topic, kind in sorted(known.items()))[:300] or "nothing"
        raise ValueError(
            f"{path} has no topic for {missing[0]}, of type {TYPES[missing[0]][0]}; it has {there}: "
            f"name one with --topics {missing[0]}=TOPIC"
        )
    return used


def _rows(
    messages: Sequence[Tuple[int, str, Any]], joint_names: Sequence[str], used: Mapping[str, str], max_rows: int
) -> Tuple[List[str], np.ndarray]:
    """Return the header, and a row for each message with targets; messages of another robot are a ValueError."""
    joints = list(joint_names)
    columns = {
        "joints": [f"{name}.{joint}" for name in ("joint_pos", "joint_vel") for joint in joints],
        "targets": [f"target.{joint}" for joint in joints],
        "imu": [f"base_quat.{part}" for part in "wxyz"] + [f"base_ang_vel.{part}" for part in "xyz"],
        "command": ["command.vx", "command.vy", "command.yaw_rate"],
        "odometry": [f"base_lin_vel.{part}" for part in "xyz"],
    }
    numbers: Dict[str, Callable[[Any], List[float]]] = {
        "joints": lambda m: _joint_values(m, joints, m.position) + _joint_values(m, joints, m.velocity),
        "targets": lambda m: _joint_values(m, joints, m.position),
        "imu": _imu,
        "command": _command,
        "odometry": lambda m: _xyz(m.twist.twist.linear),
    }
    order = [role for role in TYPES if role in used]
    newest = {role: [np.nan] * len(columns[role]) for role in order}
    rows = []
    for nanoseconds, role, message in messages:
        if role in NEEDED and not set(joints) & set(message.name):
            raise ValueError(
                f"{used[role]} has the joints {listed(list(message.name), 6)}, the policy {listed(joints, 6)}"
            )
        newest[role] = numbers[role](message)
        if role == "targets":
            rows.append([1e-9 * (nanoseconds - messages[0][0]), *(x for one in order for x in newest[one])])
            if len(rows) == max_rows:
                break
    header = ["time", *(name for role in order for name in columns[role])]
    return header, np.array(rows, float).reshape(len(rows), len(header))


def _joint_values(message: Any, joint_names: Sequence[str], values: Sequence[float]) -> List[float]:
    """Return the values of joints by name, NaN for a joint without one."""
    known = dict(zip(message.name, values))
    return [float(known.get(name, np.nan)) for name in joint_names]


def _imu(message: Any) -> List[float]:
    quat = message.orientation
    known = message.orientation_covariance[0] != -1  # which says that there is no orientation
    return [*((quat.w, quat.x, quat.y, quat.z) if known else [np.nan] * 4), *_xyz(message.angular_velocity)]


def _command(message: Any) -> List[float]:
    twist = getattr(message, "twist", message)
    return [twist.linear.x, twist.linear.y, twist.angular.z]


def _xyz(vector: Any) -> List[float]:
    return [vector.x, vector.y, vector.z]

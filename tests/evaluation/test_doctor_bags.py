"""Recordings of ROS messages, written by the real library: the log is that of the runner's CSV file."""

import sys

import numpy as np
import pytest

from rsl_rl.evaluation.doctor import read_log

JOINTS = ["hip", "knee"]
DESCRIPTION = {"inputs": {"obs": [1, 7]}, "joint_names": JOINTS}
ROWS = 20
TOPICS = {
    "/joint_states": "sensor_msgs/msg/JointState",
    "/joint_commands": "sensor_msgs/msg/JointState",
    "/imu/data": "sensor_msgs/msg/Imu",
    "/cmd_vel": "geometry_msgs/msg/Twist",
    "/odom": "nav_msgs/msg/Odometry",
}


@pytest.fixture(scope="module")
def numbers():
    """What the robot read and was sent, [ROWS, k]."""
    rng = np.random.default_rng(0)
    sizes = {"joint_pos": 2, "joint_vel": 2, "target": 2, "base_quat": 4, "base_ang_vel": 3, "base_lin_vel": 3}
    return {name: rng.normal(size=(ROWS, size)) for name, size in {**sizes, "command": 3}.items()}


def messages(types, numbers, row):
    """The messages of a control step, by topic; names of the joints are in another order in the targets."""

    def vector(values):
        return types["geometry_msgs/msg/Vector3"](*map(float, values))

    def joints(names, position, velocity=()):
        return types["sensor_msgs/msg/JointState"](header(), list(names), np.array(position), np.array(velocity), empty)

    def header():
        stamp = types["builtin_interfaces/msg/Time"](0, 0)
        extra = {"seq": 0} if "std_msgs/msg/Header" in types and "seq" in fields("std_msgs/msg/Header") else {}
        return types["std_msgs/msg/Header"](stamp=stamp, frame_id="base", **extra)

    def fields(name):
        return types[name].__dataclass_fields__

    def quaternion(w, x, y, z):
        return types["geometry_msgs/msg/Quaternion"](x=x, y=y, z=z, w=w)

    def twist(linear, angular):
        return types["geometry_msgs/msg/Twist"](linear=vector(linear), angular=vector(angular))

    empty, at = np.zeros(0), {name: values[row].tolist() for name, values in numbers.items()}
    none, still = np.zeros(9), np.zeros(36)
    pose = types["geometry_msgs/msg/Pose"](
        types["geometry_msgs/msg/Point"](0.0, 0.0, 0.0), quaternion(1.0, 0.0, 0.0, 0.0)
    )
    vx, vy, yaw_rate = at["command"]
    return {
        "/joint_states": joints(JOINTS, at["joint_pos"], at["joint_vel"]),
        "/imu/data": types["sensor_msgs/msg/Imu"](
            header(), quaternion(*at["base_quat"]), none, vector(at["base_ang_vel"]), none, vector((0, 0, 9.8)), none
        ),
        "/cmd_vel": twist((vx, vy, 0.0), (0.0, 0.0, yaw_rate)),
        "/odom": types["nav_msgs/msg/Odometry"](
            header(),
            "base",
            types["geometry_msgs/msg/PoseWithCovariance"](pose, still),
            types["geometry_msgs/msg/TwistWithCovariance"](twist(at["base_lin_vel"], (0.0, 0.0, 0.0)), still),
        ),
        "/joint_commands": joints(JOINTS[::-1], at["target"][::-1]),
    }


def record(path, numbers, renamed=None, kind="mcap"):
    """Write a recording: an MCAP file in a folder, a folder with SQLite, or a bag of ROS 1; return what to read."""
    from rosbags.rosbag1 import Writer as Writer1
    from rosbags.rosbag2 import StoragePlugin
    from rosbags.rosbag2 import Writer as Writer2
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS1_NOETIC if kind == "bag" else Stores.ROS2_HUMBLE)
    serialize = store.serialize_ros1 if kind == "bag" else store.serialize_cdr
    plugin = StoragePlugin.MCAP if kind == "mcap" else StoragePlugin.SQLITE3
    writer = Writer1(path / "walk.bag") if kind == "bag" else Writer2(path / "walk", version=8, storage_plugin=plugin)
    with writer:
        topics = {topic: (renamed or {}).get(topic, topic) for topic in TOPICS}
        connections = {
            topic: writer.add_connection(topics[topic], TOPICS[topic], typestore=store)
            for topic in TOPICS
            if topics[topic]
        }
        for row in range(ROWS):
            for i, (topic, message) in enumerate(messages(store.types, numbers, row).items()):
                if topic in connections:
                    content = serialize(message, TOPICS[topic])
                    writer.write(connections[topic], 10**18 + 20_000_000 * row + 1000 * i, content)
    return {"bag": path / "walk.bag", "folder": path / "walk", "mcap": path / "walk" / "walk.mcap"}[kind]


@pytest.mark.parametrize("kind", ["mcap", "folder", "bag"])
def test_recording_is_read_as_the_log_of_its_numbers(numbers, tmp_path, kind):
    pytest.importorskip("rosbags")
    log = read_log(record(tmp_path, numbers, kind=kind), DESCRIPTION)
    assert log.joint_names == tuple(JOINTS)
    np.testing.assert_allclose(np.diff(log.time), 0.02, atol=1e-9)
    assert set(log.readings) == set(numbers) - {"target"}
    for name, values in {**log.readings, "target": log.target}.items():
        np.testing.assert_array_equal(values, numbers[name])
    assert log.observation is None and "joints from /joint_states, targets from /joint_commands" in log.notes[0]


def test_recording_with_topics_of_other_names_needs_them_named(numbers, tmp_path):
    pytest.importorskip("rosbags")
    names = {"/joint_states": "/robot/measured", "/joint_commands": "/robot/wanted"}
    path = record(tmp_path, numbers, names)
    with pytest.raises(ValueError, match=r"several topics for targets: .*; give one: --topics targets=") as error:
        read_log(path, DESCRIPTION)
    assert "/robot/measured" in str(error.value) and "\n" not in str(error.value)
    log = read_log(path, DESCRIPTION, {"joints": "/robot/measured"})
    np.testing.assert_array_equal(log.target, numbers["target"])


@pytest.mark.parametrize(
    ("topics", "message"),
    [
        ({"feet": "/imu/data"}, "--topics feet=/imu/data: give joints, targets, imu, command, odometry"),
        ({"imu": "/odom"}, "/odom is nav_msgs/msg/Odometry; give one of type sensor_msgs/msg/Imu"),
        ({"imu": "/nose"}, "/nose is not in the log"),
    ],
)
def test_recording_with_a_topic_that_does_not_fit_is_one_line(numbers, tmp_path, topics, message):
    pytest.importorskip("rosbags")
    with pytest.raises(ValueError) as error:
        read_log(record(tmp_path, numbers), DESCRIPTION, topics)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_recording_of_another_robot_or_without_targets_is_one_line(numbers, tmp_path):
    pytest.importorskip("rosbags")
    path = record(tmp_path, numbers)
    with pytest.raises(ValueError, match="/joint_states has the joints hip, knee, the policy ankle"):
        read_log(path, {**DESCRIPTION, "joint_names": ["ankle"]})
    (tmp_path / "still").mkdir()
    path = record(tmp_path / "still", numbers, {"/joint_commands": ""})
    with pytest.raises(ValueError, match="no topic for targets"):
        read_log(path, DESCRIPTION)


@pytest.mark.parametrize("damage", ["empty", "cut", "noise", "folder"])
def test_recording_that_is_damaged_is_one_line(numbers, tmp_path, damage):
    pytest.importorskip("rosbags")
    path = tmp_path / "bad.mcap"
    if damage == "folder":
        path.mkdir()
    elif damage == "noise":
        path.write_bytes(np.random.default_rng(0).bytes(5000))
    else:
        content = record(tmp_path, numbers).read_bytes()
        path.write_bytes(content[: len(content) // 3] if damage == "cut" else b"")
    with pytest.raises(ValueError) as error:
        read_log(path, DESCRIPTION)
    assert "\n" not in str(error.value) and str(path) in str(error.value)


def test_recording_without_the_package_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "walk.mcap").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "rosbags.highlevel", None)
    monkeypatch.delitem(sys.modules, "rsl_rl.evaluation.doctor.bags", raising=False)
    with pytest.raises(ValueError, match=r"needs rosbags, which is not installed: pip install 'rsl-rl-lib\[bags\]'"):
        read_log(tmp_path / "walk.mcap", DESCRIPTION)


def test_topics_for_a_csv_file_are_one_line(tmp_path):
    with pytest.raises(ValueError, match="--topics is for recordings of ROS messages"):
        read_log(tmp_path / "walk.csv", DESCRIPTION, {"imu": "/imu"})

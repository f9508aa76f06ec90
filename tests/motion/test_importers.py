"""Motions in the formats of others: disguised ones are read as what they were, or the missing convention is asked for;
files that are damaged or malicious are an error of one line."""

import base64
import codecs
import collections
import io
import os
import pickle
import zlib
from dataclasses import replace

import numpy as np
import pytest
import torch

from rsl_rl.motion.clip import save_clip
from rsl_rl.motion.generate import generate
from rsl_rl.motion.importers import mjlab_npz, read_motion
from rsl_rl.motion.importers.orders import PUBLIC
from rsl_rl.motion.importers.safe_pickle import load
from rsl_rl.motion.importers.source import ConventionError, Given, plain_name
from rsl_rl.motion.kinematics import Kinematics, build_clip
from rsl_rl.motion.rotations import from_vector, multiply, rotate
from rsl_rl.robots import ROBOTS
from tests.motion import disguises

PLACE, ANGLE = 5e-3, 1e-2
"""Largest difference of a motion that was read as it was [m] and [rad]; files have nine digits."""


@pytest.fixture(scope="module")
def pool():
    return list(disguises.motions(most=1))


def read_asking(path, robot, given, everything):
    """Read a file and give what is asked for: first the names of joints, then all that a user may know."""
    steps = {"found": given, "asked for joints": replace(given, joints=everything.joints), "asked for more": everything}
    for how, known in steps.items():
        try:
            return how, read_motion(path, robot, known).clip
        except ConventionError as error:  # which says in a line what to give
            assert known is not everything and "\n" not in str(error) and "--" in str(error)
    raise AssertionError("unreachable")


def read_disguised(kind, pool, folder, seed, count):
    """Read disguised clips and count how; one that is read as another motion fails the test."""
    suffix, write = disguises.FORMATS[kind]
    rng, path, counts = np.random.default_rng(seed), folder / f"motion{suffix}", collections.Counter()
    for i in range(count):
        _, robot, kinematics, clip = pool[i % len(pool)]
        own, given, full = write(path, clip, rng)
        how, read = read_asking(path, robot, given, full(kinematics))
        place, angle = disguises.difference(read, clip)
        assert place < PLACE and angle < ANGLE, f"{kind} {i} {clip.name} {how}: {place} {angle} {vars(own)}"
        counts[how] += 1
    return counts


@pytest.mark.parametrize("kind", list(disguises.FORMATS))
def test_disguised_motion_is_found_or_asked_about(kind, pool, tmp_path):
    read_disguised(kind, pool, tmp_path, 0, 2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(disguises.FORMATS))
def test_a_hundred_disguises_of_a_format(kind, tmp_path):
    counts = read_disguised(kind, list(disguises.motions()), tmp_path, 1, 100)
    print(kind, dict(counts))
    if kind in ("mjlab_npz", "bvh"):  # bodies show everything, unless the robot may lie on the floor
        assert counts["found"] >= 90


def test_wrong_order_of_joints_is_not_read_without_a_word(pool, tmp_path):
    """The user says that a shuffled file has the model's order."""
    _, robot, _, clip = pool[0]
    order = np.roll(np.arange(12), 1)
    qpos = np.hstack((clip.root_pos, clip.root_quat, clip.joint_pos[:, order]))
    np.save(tmp_path / "motion.npy", qpos)
    with pytest.raises(ConventionError, match="fits the robot under no conventions"):
        read_motion(tmp_path / "motion.npy", robot, Given(fps=50.0, joints="model"))


def test_order_of_angles_that_the_motion_does_not_show_is_asked_about(tmp_path):
    """A robot that stands, looks to the left and leans a little: forward or to the side, by the order of the turns."""
    robot = ROBOTS.load("go2")
    clip = generate(robot, "stand")
    euler = np.tile([0.03, 0.0, np.pi / 2], (clip.num_frames, 1)) * 180 / np.pi
    rows = np.hstack((clip.root_pos * 100, euler, clip.joint_pos * 180 / np.pi))
    header = ",".join([*(f"root_translate{x}" for x in "XYZ"), *(f"root_rotate{x}" for x in "XYZ"), *clip.joint_names])
    np.savetxt(tmp_path / "motion.csv", rows, delimiter=",", header=header, comments="")
    with pytest.raises(ConventionError, match=r"add --euler xyz or .* \(--euler xyz .* is usual for this format\)"):
        read_motion(tmp_path / "motion.csv", robot, Given(fps=120.0))
    read = read_motion(tmp_path / "motion.csv", robot, Given(fps=120.0, euler="xyz")).clip
    w, x, y, z = read.root_quat[0].tolist()
    assert 2 * (w * x + y * z) == pytest.approx(0.03, abs=1e-3)  # the trunk leans about its own x axis


def test_file_of_another_robot_and_bodies_that_contradict_joints_are_errors(pool, tmp_path):
    _, robot, _, clip = pool[0]
    path = tmp_path / "motion.npz"
    disguises.write_mjlab_npz(path, clip, np.random.default_rng(0))
    with pytest.raises(ValueError, match="check --robot"):
        read_motion(path, ROBOTS.load("anymal_c"), Given())
    with np.load(path) as file:
        arrays = dict(file)
    arrays["joint_pos"][:, 3] += 0.3
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match="contradicts itself"):
        read_motion(path, robot, Given())


def test_orders_of_isaac_lab_and_of_the_g1_with_arms_are_known(tmp_path):
    robot = ROBOTS.load("go2")
    clip = generate(robot, "trot", 0.5, 0.1, 0.6, seconds=2.0)
    breadth = [j * 1 + 3 * leg for j in range(3) for leg in range(4)]  # all hips, all thighs, all calves
    qpos = np.hstack((clip.root_pos, clip.root_quat, clip.joint_pos[:, breadth]))
    np.save(tmp_path / "motion.npy", qpos)
    imported = read_motion(tmp_path / "motion.npy", robot, Given(fps=50.0, joints="breadth"))
    assert disguises.difference(imported.clip, clip)[1] < 1e-5
    robot = ROBOTS.load("g1")
    clip = generate(robot, "walk", 0.4, 0.0, 0.3, seconds=2.0)
    arms = 0.3 + np.zeros((clip.num_frames, 17))
    arms[:, 4] += np.linspace(0, 0.5, clip.num_frames)
    quat = clip.root_quat.numpy()[:, [1, 2, 3, 0]]
    rows = np.hstack((clip.root_pos, quat, clip.joint_pos, arms))
    np.savetxt(tmp_path / "motion.csv", rows, delimiter=",")
    with pytest.raises(ConventionError, match="--joints g1_29 or g1_29_breadth"):
        read_motion(tmp_path / "motion.csv", robot, Given(fps=50.0))
    imported = read_motion(tmp_path / "motion.csv", robot, Given(fps=50.0, joints="g1_29"))
    assert disguises.difference(imported.clip, clip)[1] < 1e-5
    assert any("left out" in note and "left_shoulder_roll_joint (moves by 0.50)" in note for note in imported.notes)


def test_file_with_other_frames_of_bodies_is_read_by_its_root_and_its_joints(tmp_path):
    """As BeyondMimic's files of the G1 with arms, whose links have other frames than those of this G1."""
    robot = ROBOTS.load("g1")
    clip = generate(robot, "walk", 0.4, 0.0, 0.3, seconds=2.0)
    rng = np.random.default_rng(0)
    bodies = len(clip.link_names)
    quat = rng.normal(size=(clip.num_frames, bodies + 17, 4))
    quat /= np.linalg.norm(quat, axis=2, keepdims=True)
    quat[:, 0] = clip.root_quat
    joints = np.zeros((clip.num_frames, 29))
    names = [plain_name(name) for name in PUBLIC["g1_29_breadth"]]
    for j, name in enumerate(clip.joint_names):
        joints[:, names.index(plain_name(name))] = clip.joint_pos[:, j]
    place = np.concatenate((clip.link_pos, np.ones((clip.num_frames, 17, 3))), axis=1)
    np.savez(tmp_path / "motion.npz", fps=[50], joint_pos=joints, body_pos_w=place, body_quat_w=quat)
    with pytest.raises(ValueError, match="give --joints"):
        read_motion(tmp_path / "motion.npz", robot, Given())
    imported = read_motion(tmp_path / "motion.npz", robot, Given(joints="g1_29_breadth"))
    assert disguises.difference(imported.clip, clip)[1] < 1e-5
    assert imported.notes[0].startswith("its bodies are not")


def test_frames_that_are_not_finite_stay_in_the_clip(pool, tmp_path):
    _, robot, _, clip = pool[0]
    qpos = np.hstack((clip.root_pos, clip.root_quat, clip.joint_pos))
    qpos[10:12, 9] = np.nan
    np.savez(tmp_path / "motion.npz", qpos=qpos, fps=50.0, joint_names=np.array(clip.joint_names))
    bad = read_motion(tmp_path / "motion.npz", robot, Given()).clip
    assert not bad.joint_pos[10:12].isfinite().any() and bad.joint_pos[:10].isfinite().all()


def test_frames_with_quaternions_of_length_0_have_no_numbers(pool, tmp_path):
    _, robot, _, clip = pool[0]
    qpos = np.hstack((clip.root_pos, clip.root_quat, clip.joint_pos))
    qpos[10:12, 3:7] = 0.0
    np.savez(tmp_path / "motion.npz", qpos=qpos, fps=50.0, joint_names=np.array(clip.joint_names))
    bad = read_motion(tmp_path / "motion.npz", robot, Given()).clip
    assert not bad.root_quat[10:12].isfinite().any() and bad.root_quat[:10].isfinite().all()


@pytest.mark.parametrize("kind", ["mjlab_npz", "qpos"])
def test_robot_that_lies_is_not_read_as_one_that_stands(kind, tmp_path):
    """A squat on the back is, with another axis upwards, a squat on the feet."""
    robot = ROBOTS.load("g1")
    squat = generate(robot, "squat")
    back = from_vector(torch.tensor([0.0, -np.pi / 2, 0.0], dtype=torch.float64))
    pos = rotate(back, squat.root_pos.double()) + torch.tensor([0.0, 0.0, 0.1], dtype=torch.float64)
    quat = multiply(back.expand(squat.num_frames, 4), squat.root_quat.double())
    clip = build_clip(Kinematics(robot), pos, quat, squat.joint_pos, squat.fps, "squat")
    path, given = tmp_path / "motion.npz", Given()
    if kind == "qpos":
        qpos = np.hstack((clip.root_pos, clip.root_quat, clip.joint_pos))
        np.savez(path, qpos=qpos, fps=clip.fps, joint_names=np.array(clip.joint_names))
        given = Given(quaternion="wxyz", length="m", angles="rad")
    else:
        mjlab_npz.write(clip, path)
    with pytest.raises(ConventionError, match="--up"):
        read_motion(path, robot, given)
    read = read_motion(path, robot, replace(given, up="z")).clip
    torch.testing.assert_close(read.root_pos, clip.root_pos, atol=1e-4, rtol=0)


def test_legs_in_another_order_than_the_user_says_are_doubtful(tmp_path):
    robot = ROBOTS.load("go2")
    clip = generate(robot, "trot", 0.5, seconds=2.0)
    words = {
        (0, 1, 2, 3): "",
        (0, 1, 3, 2): "doubtful: the motion fits far better with the columns of ",
        (0, 3, 2, 1): "the order of the legs is that of --joints; the columns of ",  # a trot half a cycle later
    }
    for order, word in words.items():
        columns = [3 * leg + j for leg in order for j in range(3)]
        np.save(tmp_path / "motion.npy", np.hstack((clip.root_pos, clip.root_quat, clip.joint_pos[:, columns])))
        notes = read_motion(tmp_path / "motion.npy", robot, Given(fps=50.0, joints="model")).notes
        assert any(note.startswith(word) for note in notes)
        assert word[:8] == "doubtful" or not any("doubtful" in note for note in notes)


def test_clip_of_another_robot_is_an_error(tmp_path):
    save_clip(generate(ROBOTS.load("go2"), "stand"), tmp_path / "stand.npz")
    for name in ("g1", "h1"):
        with pytest.raises(ValueError, match="is of another robot"):
            read_motion(tmp_path / "stand.npz", ROBOTS.load(name), Given())


# Pickles ----------------------------------------------------------------------------------------------------------


class Bomb:
    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


def test_pickle_runs_no_code(tmp_path):
    path, mark = tmp_path / "motion.pkl", tmp_path / "mark"
    for bomb in (Bomb(os.system, f"touch {mark}"), Bomb(eval, "1"), Bomb(open, str(mark), "w"), Bomb(np.fromfile, "x")):
        for protocol in range(6):
            path.write_bytes(pickle.dumps({"fps": 30, "root_pos": bomb}, protocol))
            with pytest.raises(ValueError, match="only numbers, texts and arrays are read") as failure:
                load(path)
            assert "\n" not in str(failure.value)
    assert not mark.exists()


# written by joblib 1.6.0: joblib.dump({"walk": {"dof": np.arange(6.0).reshape(3, 2), "fps": 30}}, path)
JOBLIB = (
    "gASV5QAAAAAAAAB9lIwEd2Fsa5R9lCiMA2RvZpSME2pvYmxpYi5udW1weV9waWNrbGWUjBFOdW1weUFycmF5V3JhcHBlcpSTlCmB"
    "lH2UKIwIc3ViY2xhc3OUjAVudW1weZSMB25kYXJyYXmUk5SMBXNoYXBllEsDSwKGlIwFb3JkZXKUjAFDlIwFZHR5cGWUaAqMBWR0"
    "eXBllJOUjAJmOJSJiIeUUpQoSwOMATyUTk5OSv////9K/////0sAdJRijAphbGxvd19tbWFwlIiMG251bXB5X2FycmF5X2FsaWdu"
    "bWVudF9ieXRlc5RLEHViD////////////////////wAAAAAAAAAAAAAAAAAA8D8AAAAAAAAAQAAAAAAAAAhAAAAAAAAAEEAAAAAA"
    "AAAUQJULAAAAAAAAAIwDZnBzlEsedXMu"
)


def test_arrays_of_every_protocol_and_order_are_read(tmp_path):
    path = tmp_path / "motion.pkl"
    arrays = {
        "double": np.arange(12.0).reshape(3, 4),
        "fortran": np.asfortranarray(np.arange(12, dtype=np.float32).reshape(3, 4)),
        "axes": np.arange(24.0).reshape(2, 3, 4).transpose(1, 2, 0),
        "big": np.arange(5, dtype=">f8"),
        "int": np.arange(4),
        "names": np.array(["a", "bc"]),
        "scalar": np.float64(2.5),
    }
    for protocol in range(6):
        path.write_bytes(pickle.dumps({**arrays, "list": [1, 2.5, "x", None]}, protocol))
        content = load(path)
        assert content["list"] == [1, 2.5, "x", None]
        for name, value in arrays.items():
            np.testing.assert_array_equal(content[name], value)


def ladder(steps):
    """Return lists, each of which holds the one before it, so that no path to a new one is long."""
    lists = [[]]
    for _ in range(steps):
        lists.append([lists[-1]])
    return {"root_pos": lists}


def nested(depth):
    """Return a list with 10^depth places, all of the same few objects."""
    value = [1.0]
    for _ in range(depth):
        value = [value] * 10
    return value


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "pickle"),
        (b"hello", "pickle"),
        (pickle.dumps({"fps": np.arange(9.0)})[:-20], "pickle"),
        (pickle.dumps(np.array([object()], dtype=object)), "only numbers"),
        (b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f", "pickle"),  # bytes of 2^63
        (b"x\x9c" + b"\x00" * 50, "pickle"),
        (pickle.dumps([1, 2]), "dict"),
        (pickle.dumps({"root_pos": np.zeros((5, 2)), "root_rot": np.zeros((5, 4)), "dof": np.zeros((5, 2))}), "shape"),
        (pickle.dumps({"a": {}, "b": {}}), "2 motions"),
        (pickle.dumps({"fps": 30}), "root_pos"),
        (pickle.dumps(nested(18)), "more than 20,000,000 items"),
        (pickle.dumps({"root_pos": nested(9), "dof": nested(9)}), "more than 20,000,000 items"),
        (pickle.dumps({"root_pos": Bomb(codecs.encode, nested(9), "latin1")}), "not a text"),
        (pickle.dumps({((1.0,) * 10,): 1}), "a tuple as a key"),
        (pickle.dumps({1, 2}), "a set"),
        (pickle.dumps(ladder(3000)), "nested too deeply"),
        (b"cnumpy\ndtype\n(dV__doc__\nVx\nsb.", "not an array"),
    ],
)
def test_damaged_pickles_are_one_line(content, words, tmp_path):
    path = tmp_path / "motion.pkl"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=words) as failure:
        read_motion(path, ROBOTS.load("go2"), Given())
    assert "\n" not in str(failure.value)


def test_gigantic_files_are_one_line(tmp_path, monkeypatch):
    robot = ROBOTS.load("go2")
    for suffix in (".csv", ".pkl", ".npy", ".npz", ".bvh"):
        path = tmp_path / f"motion{suffix}"
        with path.open("wb") as file:
            file.truncate(600_000_000)  # a sparse file
        with pytest.raises(ValueError, match="600 MB") as failure:
            read_motion(path, robot, Given())
        assert "\n" not in str(failure.value)
    monkeypatch.setattr("rsl_rl.motion.importers.safe_pickle.LARGEST", 10**6)
    path = tmp_path / "packed.pkl"
    path.write_bytes(zlib.compress(pickle.dumps({"dof": bytes(5 * 10**6)})))
    with pytest.raises(ValueError, match="unpacks to more"):
        load(path)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", "1,2,3\n4,5,6\n", "3 columns"),
        ("a.csv", "1,2,3\n1,2,x\n", "not a table"),
        ("a.csv", "", "is empty"),
        ("a.csv", "\n".join(",".join(["0.1"] * 19) for _ in range(1)), "1 frames"),
        ("a.csv", b"\xff\xfe\x00\x01", "not a text file"),
        ("a.csv", "Frame,root_translateX\n0,1\n", "2 columns"),
        ("a.npy", b"\x93NUMPY\x01\x00", "cannot be read|damaged"),
        ("a.npz", b"PK\x03\x04", "damaged"),
        ("a.bvh", "HIERARCHY\nROOT Hips\n{", "not a BVH"),
        ("a.bvh", "hello", "not a BVH"),
        ("a.mov", "", "--format"),
    ],
)
def test_damaged_files_are_one_line(name, content, words, tmp_path):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=words) as failure:
        read_motion(path, ROBOTS.load("go2"), Given(fps=30.0))
    assert "\n" not in str(failure.value)


def test_unknown_conventions_are_errors():
    with pytest.raises(ValueError, match="wxyz, xyzw"):
        Given(quaternion="zyxw")
    with pytest.raises(ValueError, match="fps"):
        Given(fps=0.0)


def test_objects_in_arrays_are_not_unpickled(tmp_path):
    buffer = io.BytesIO()
    np.save(buffer, np.array([print], dtype=object), allow_pickle=True)
    (tmp_path / "motion.npy").write_bytes(buffer.getvalue())
    with pytest.raises(ValueError, match="cannot be read"):
        read_motion(tmp_path / "motion.npy", ROBOTS.load("go2"), Given())


def test_file_of_joblib_is_read(tmp_path):
    path = tmp_path / "motion.pkl"
    path.write_bytes(base64.b64decode(JOBLIB))
    content = load(path)["walk"]
    np.testing.assert_array_equal(content["dof"], np.arange(6.0).reshape(3, 2))
    assert content["fps"] == 30

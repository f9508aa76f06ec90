"""Logs that are damaged, short, long or of something else: told in a line, and nothing is diagnosed from them."""

import csv
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deploy.onnx_policy import Policy
from rsl_rl.evaluation.doctor import diagnose, lines, read_log
from rsl_rl.evaluation.doctor import log as log_module

JOINTS = ["hip", "knee"]
DESCRIPTION = {
    "inputs": {"obs": [1, 7]},
    "observations": [
        {"name": "gravity", "size": 3, "scale": 1.0, "frame": "base"},
        {"name": "joint_pos", "size": 2, "scale": 1.0, "frame": "joint"},
        {"name": "action", "size": 2, "scale": 1.0, "frame": "joint"},
    ],
    "joint_names": JOINTS,
    "default_joint_pos": [0.1, -0.2],
    "action_scale": 0.25,
    "action_clip": 2.0,
    "stiffness": [30.0, 40.0],
    "damping": [1.0, 2.0],
    "torque_limits": [20.0, 45.0],
    "control_period": 0.02,
}


def network(obs):
    """A network whose actions follow the joints."""
    return [(0.5 * obs[:, 3:5] - 0.2 * obs[:, 5:]).astype(np.float32)]


def network_of_seven(obs):
    """The network, for an observation with more numbers at the end."""
    return network(obs[:, :7])


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """The header and 30 rows of a log."""
    path = tmp_path_factory.mktemp("log") / "log.csv"
    policy = Policy(DESCRIPTION, network, log=path)
    rng = np.random.default_rng(0)
    for step in range(30):
        policy.clock = lambda step=step: 100.0 + 0.02 * step
        angle = rng.normal()
        quat = (np.cos(angle), 0, 0, np.sin(angle))
        policy(command=(0, 0, 0), base_quat=quat, base_ang_vel=rng.normal(size=3), joint_pos=rng.normal(size=2))
    with path.open(newline="") as file:
        return list(csv.reader(file))


def write(path, rows):
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    path.write_text(buffer.getvalue())
    return path


def judge(path):
    log = read_log(path, DESCRIPTION)
    return diagnose(log, Policy(DESCRIPTION, network, log.joint_names), network, DESCRIPTION, None)


def test_log_as_written_is_read_and_healthy(rows, tmp_path):
    log = read_log(write(tmp_path / "log.csv", rows), DESCRIPTION)
    assert len(log.time) == 30 and log.joint_names == tuple(JOINTS) and not log.notes
    assert "base_lin_vel" not in log.readings  # which the robot did not give
    assert not judge(tmp_path / "log.csv").findings


def column(rows, name):
    return next(i for i, head in enumerate(rows[0]) if head.startswith(name))


def changed(rows, name, row, value):
    copy = [list(one) for one in rows]
    copy[row][column(rows, name)] = value
    return copy


def changed_all(rows, name):
    """Each row with its own number in a column."""
    return [
        rows[0],
        *([*row[: column(rows, name)], str(i), *row[column(rows, name) + 1 :]] for i, row in enumerate(rows[1:])),
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: [], "is empty"),
        (lambda rows: rows[:1], "no whole row"),
        (lambda rows: [*rows[:9], rows[10], rows[9], *rows[11:]], "sort the rows by time"),
        (
            lambda rows: changed(rows, "joint_pos.knee", 4, "high"),
            "joint_pos.knee [rad] in row 5 is 'high', not a number",
        ),
        (lambda rows: changed(rows, "time", 4, "nan"), "time of row 5 is not a number of seconds"),
        (lambda rows: [*rows[:5], rows[5][:-2], *rows[6:]], "row 6 has"),
        (lambda rows: changed(rows, "joint_pos.knee", 0, "joint_pos.ankle [rad]"), "the policy hip, knee"),
        (lambda rows: changed(rows, "joint_pos.knee", 0, "joint_pos.knee [turns]"), "is in 'turns'; known units: rad"),
        (lambda rows: changed(rows, "joint_pos.knee", 0, "joint_pos.knee [rad/s]"), "known units: rad, deg"),
        (lambda rows: changed(rows, "base_quat.w", 0, "base_quat.w [rad]"), "base_quat.w is in 'rad'; it has no unit"),
        (lambda rows: changed(rows, "episode", 4, "0.5"), "episode is not a whole number in row 5"),
        (lambda rows: changed(rows, "time", 4, "1.7e18"), "such as 'time [ns]'"),
        (lambda rows: [[";".join(row)] for row in rows], "the cells are not separated by commas"),
        (lambda rows: [["\t".join(row)] for row in rows], "the cells are not separated by commas"),
        (lambda rows: changed(rows, "time", 0, "clock"), "has no column 'time [s]'"),
        (lambda rows: changed(rows, "base_quat.z", 0, "base_quat.up"), "give all 4 or none"),
        (lambda rows: changed(rows, "base_quat.z", 0, "base_quat.x"), "two columns base_quat.x"),
        (lambda rows: changed(rows, "target.hip", 0, "wanted.hip"), "a column target.knee and none target.hip"),
        (lambda rows: changed_all(rows, "episode"), "the episode changes in most rows"),
        (
            lambda rows: [[*row, "observation.7" if i == 0 else "0"] for i, row in enumerate(rows)],
            "8 numbers of the observation, the policy 7",
        ),
    ],
)
def test_log_that_cannot_be_read_is_one_line(rows, tmp_path, change, message):
    path = write(tmp_path / "log.csv", change(rows))
    with pytest.raises(ValueError) as error:
        read_log(path, DESCRIPTION)
    assert message in str(error.value) and "\n" not in str(error.value) and str(path) in str(error.value)


def test_log_in_degrees_by_its_header_is_converted(rows, tmp_path):
    turned = [list(row) for row in rows]
    for name in ("joint_pos.hip", "joint_pos.knee"):
        place = column(rows, name)
        turned[0][place] = f"{name} [deg]"
        for row in turned[1:]:
            row[place] = str(np.degrees(float(row[place])))
    assert not judge(write(tmp_path / "log.csv", turned)).findings


def test_log_with_a_cut_last_row_is_read_without_it(rows, tmp_path):
    log = read_log(write(tmp_path / "log.csv", [*rows[:-1], rows[-1][:4]]), DESCRIPTION)
    assert len(log.time) == 29 and "the last row is cut off" in log.notes[0]


def test_log_of_readings_that_the_runner_refuses_names_degrees(rows, tmp_path):
    limited = {**DESCRIPTION, "joint_limits": [[-3.0, 3.0]] * 2, "input_limits": {"joint_pos": 4.0}}
    policy = Policy(limited, network, log=tmp_path / "log.csv")
    with pytest.raises(ValueError, match="larger than any in training"):
        policy(command=(0, 0, 0), base_quat=(1, 0, 0, 0), joint_pos=(40.0, -90.0))
    log = read_log(tmp_path / "log.csv", limited)
    (finding,) = diagnose(log, Policy(limited, network), network, limited, None).findings
    assert finding.kind == "degrees" and "joint_pos" in finding.sentence


def test_log_in_milliseconds_without_a_unit_says_so(rows, tmp_path):
    slow = [rows[0], *([str(1000 * float(row[0])), *row[1:]] for row in rows[1:])]
    (finding,) = judge(write(tmp_path / "log.csv", slow)).findings
    assert finding.kind == "rate" and "'time [ms]'" in finding.sentence


def test_log_in_nanoseconds_of_the_epoch_is_healthy(rows, tmp_path):
    epoch = [["time [ns]", *rows[0][1:]], *([f"{1.7e18 + 1e9 * float(row[0]):.0f}", *row[1:]] for row in rows[1:])]
    assert not judge(write(tmp_path / "log.csv", epoch)).findings


def test_log_with_other_columns_is_read_without_them(rows, tmp_path):
    more = [[*row, "", "hello" if i else "battery [V]"] for i, row in enumerate(rows)]
    result = judge(write(tmp_path / "log.csv", more))
    assert not result.findings and result.notes[0] == "columns that a log does not have are not used: battery"


def test_log_of_a_recorder_that_is_faster_than_the_loop_is_one_line(rows, tmp_path):
    fast = [rows[0], *([str(float(row[0]) + i / 1000), *row[1:]] for row in rows[1:] for i in range(20))]
    with pytest.raises(ValueError, match=r"20.* rows of each control step"):
        judge(write(tmp_path / "log.csv", fast))


def test_readings_that_no_runner_takes_beside_observations_make_up_no_complaint(rows, tmp_path):
    clock = {"name": "gait_clock", "size": 2, "scale": 1.0, "frame": "base"}
    commands = {"gait_clock": {"period": 0.5, "dead_zone": None}}
    timed = {**DESCRIPTION, "inputs": {"obs": [1, 9]}, "commands": commands}
    timed["observations"] = [*DESCRIPTION["observations"], clock]
    path = tmp_path / "log.csv"
    policy = Policy(timed, network_of_seven, log=path)
    rng = np.random.default_rng(0)
    for step in range(60):
        policy.clock = lambda step=step: 0.02 * step
        policy(
            command=(0.5, 0, 0), base_quat=(1, 0, 0, 0), base_ang_vel=rng.normal(size=3), joint_pos=rng.normal(size=2)
        )
    with path.open(newline="") as file:
        logged = list(csv.reader(file))
    for row in logged[20:24]:
        row[column(logged, "base_quat.w")] = "0"
    log = read_log(write(path, logged), timed)
    result = diagnose(log, Policy(timed, network_of_seven), network_of_seven, timed, None)
    assert [one.boundary for one in result.findings] == ["reading"]
    assert any("follow missing ones" in note for note in result.notes)


def observed(rows, change):
    """The log of a runner that changes the observation [7] before the network gets it."""
    first, action = column(rows, "observation.0"), column(rows, "action.hip")
    out = [list(row) for row in rows]
    for row in out[1:]:
        obs = change(np.array(row[first : first + 7], float))
        row[first : first + 7] = map(str, obs)
        actions = np.clip(network(obs[None])[0][0], -2, 2)
        row[action : action + 2] = map(str, actions)
        targets = np.array(DESCRIPTION["default_joint_pos"]) + 0.25 * actions
        place = column(rows, "target.hip")
        row[place : place + 2] = map(str, targets)
    for before, row in zip(out[1:], out[2:]):  # the last action is a part of the observation
        row[first + 5 : first + 7] = map(
            str, change(np.array([0.0] * 5 + list(map(float, before[action : action + 2]))))[5:]
        )
    return out


def test_observation_with_a_scale_and_a_clip_has_both_named(rows, tmp_path):
    factors = np.array([1.0, 1.0, 1.0, 2.0, 2.0, 1.0, 1.0])
    path = write(tmp_path / "log.csv", observed(rows, lambda obs: np.clip(factors * obs, -0.4, 0.4)))
    found = {one.kind: one.sentence for one in judge(path).findings if one.boundary == "observation"}
    assert found["scale"] == "joint_pos: 2 times the policy's" and found["clipped input"].endswith("clipped to 0.4")


def test_observation_with_gravity_flipped_and_scaled_has_both_named(rows, tmp_path):
    factors = np.array([-2.0, -2.0, -2.0, 1.0, 1.0, 1.0, 1.0])
    path = write(tmp_path / "log.csv", observed(rows, lambda obs: factors * obs))
    found = {one.kind for one in judge(path).findings if one.boundary == "observation"}
    assert found == {"gravity flipped", "scale"}


def without(rows, names):
    kept = [i for i, head in enumerate(rows[0]) if not head.startswith(names)]
    return [[row[i] for i in kept] for row in rows]


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (lambda rows: [rows[0], *rows[11:]], "follow missing ones"),
        (lambda rows: [*rows[:9], *rows[12:]], ""),
        (lambda rows: without(rows, "base_quat"), "the log has no base_quat: observations are not judged"),
        (lambda rows: without(rows, ("observation", "action")), ""),
        (
            lambda rows: [rows[0], *([f"{float(x):.2f}" if x else x for x in row] for row in rows[1:])],
            "less than 4 decimals",
        ),
    ],
)
def test_log_that_lacks_something_has_no_complaint_made_up_from_it(rows, tmp_path, change, note):
    result = judge(write(tmp_path / "log.csv", change(rows)))
    assert {one.kind for one in result.findings} <= {"jitter"} and note in " ".join(result.notes)


def test_log_of_noise_is_not_taken_for_degrees(rows, tmp_path):
    rng = np.random.default_rng(2)
    noisy = [list(row) for row in rows]
    for name in ("joint_pos.hip", "joint_pos.knee", "joint_vel.hip", "joint_vel.knee"):
        for row in noisy[1:]:
            row[column(rows, name)] = str(rng.normal())
    kinds = {one.kind for one in judge(write(tmp_path / "log.csv", noisy)).findings}
    assert "degrees" not in kinds


def test_log_that_is_huge_is_read_in_part(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(log_module, "MAX_ROWS", 10)
    log = read_log(write(tmp_path / "log.csv", rows), DESCRIPTION)
    assert len(log.time) == 10 and "more than 10 rows" in log.notes[0]


def test_log_with_a_gap_and_missing_numbers_says_so_and_has_no_complaint_of_them(rows, tmp_path):
    broken = changed(rows, "joint_pos.knee", 7, "nan")
    for row in broken[20:]:
        row[0] = str(float(row[0]) + 3.0)
    result = judge(write(tmp_path / "log.csv", broken))
    notes = " ".join(result.notes)
    assert "joint_pos of knee is missing or not finite in 1 of 30 rows, first in row 8" in notes
    assert "1 gaps in time, the longest of 3.02 s" in notes
    assert {one.kind for one in result.findings} <= {"jitter"}


def test_log_that_is_no_text_is_one_line(tmp_path):
    (tmp_path / "log.csv").write_bytes(bytes(range(256)) * 10)
    with pytest.raises(ValueError, match="is not a CSV file"):
        read_log(tmp_path / "log.csv", DESCRIPTION)


def test_log_with_a_line_without_end_is_one_line(tmp_path):
    (tmp_path / "log.csv").write_bytes(bytes(3 * log_module.MAX_LINE))
    with pytest.raises(ValueError, match="is not a CSV file: a line has more than 100,000 characters"):
        read_log(tmp_path / "log.csv", DESCRIPTION)


CELLS = st.sampled_from(["", "nan", "inf", "-inf", "1e300", "-1e300", "x", "0", "1", "[rad]", "1e-320"])


@settings(max_examples=80)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 400), CELLS), max_size=40), st.integers(0, 3000))
def test_log_with_any_damage_is_read_or_one_line(rows, tmp_path_factory, edits, cut):
    damaged = [list(row) for row in rows]
    for row, place, cell in edits:
        damaged[row][place % len(damaged[row])] = cell
    path = tmp_path_factory.mktemp("damaged") / "log.csv"
    text = write(path, damaged).read_text()
    path.write_text(text[: len(text) - cut])
    try:
        result = judge(path)
    except ValueError as error:
        assert "\n" not in str(error)
    else:
        assert all(
            "\n" not in line and "nan" not in line.split("(")[0]
            for line in lines(result)
            if not line.startswith("note")
        )

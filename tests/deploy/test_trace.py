"""The trace of an export and its replay on a robot's computer, and the log of the runner."""

import csv
import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import torch

from deploy.onnx_policy import OnnxPolicy
from deploy.policy_records import read_trace, replay_trace
from rsl_rl.cli import export
from rsl_rl.evaluation import export_parity
from tests.exports import lively_policy

pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The folder of an exported policy with memory, whose weights react to the observations."""
    folder = tmp_path_factory.mktemp("exported")
    torch.manual_seed(0)
    cfg, policy = lively_policy("go2_flat_blind", folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "PARITY_SECONDS", 2.0)
        assert export.export(policy, cfg, folder)
    return folder


def check(folder, *flags):
    """Run the file that is copied to the robot, where neither torch nor this package can be imported."""
    program = (
        "import runpy, sys; sys.modules['torch'] = sys.modules['rsl_rl'] = None; sys.argv = sys.argv[1:]; "
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    command = [sys.executable, "-c", program, "onnx_policy.py", "policy.onnx", "--check", *flags]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_check_of_an_export_agrees_and_says_the_time_per_step(exported):
    result = check(exported)
    assert result.returncode == 0, result.stderr
    assert "100 steps agree with trace.npz" in result.stdout and "time per step: median" in result.stdout
    assert (exported / "trace.npz").stat().st_size <= export_parity.TRACE_BYTES
    assert read_trace(exported / "trace.npz")["episode_start"].sum() >= 3  # resets are replayed too


@pytest.mark.parametrize(
    ("name", "boundary"),
    [
        ("base_quat", "observation of gravity"),
        ("action", "action at"),
        ("target", "target at"),
        ("joint_pos", "observation of joint_pos"),
    ],
)
def test_check_of_a_changed_trace_names_the_first_boundary(exported, tmp_path, name, boundary):
    arrays = dict(read_trace(exported / "trace.npz"))
    changed = arrays[name].copy()
    changed[40] = changed[40][[1, 0, *range(2, changed.shape[1])]] if name == "base_quat" else changed[40] + 0.01
    np.savez_compressed(tmp_path / "trace.npz", **{**arrays, name: changed})
    result = check(exported, "--trace", str(tmp_path / "trace.npz"))
    assert result.returncode == 1 and f"{boundary}" in result.stdout and "in step 40" in result.stdout


@pytest.mark.parametrize("damage", ["missing", "cut", "other", "uneven"])
def test_check_of_a_damaged_trace_is_one_line(exported, tmp_path, damage):
    path = tmp_path / "trace.npz"
    whole = (exported / "trace.npz").read_bytes()
    if damage == "cut":
        path.write_bytes(whole[: len(whole) // 2])
    elif damage == "other":
        np.savez(path, numbers=np.zeros(3))
    elif damage == "uneven":
        arrays = read_trace(exported / "trace.npz")
        np.savez(path, **{**arrays, "action": arrays["action"][:-1]})
    result = check(exported, "--trace", str(path))
    assert result.returncode == 2 and "Traceback" not in result.stderr
    assert len(result.stderr.splitlines()) == 1 and "trace.npz" in result.stderr


HEADERS = {
    "huge": b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }",
    "too large a number": b"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999999,), }",
    "cut": b"{'descr'",
}


def array_with(header):
    """Return the content of an .npy file with this header and no numbers."""
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


def set_in_headers(content, place_in_directory, place_in_file, value):
    """Return a zip archive with a byte changed in the header of each of its files."""
    changed = bytearray(content)
    for i in range(len(content) - 30):
        if content[i : i + 4] == b"PK\x01\x02":
            changed[i + place_in_directory] = value
        elif content[i : i + 4] == b"PK\x03\x04":
            changed[i + place_in_file] = value
    return bytes(changed)


@pytest.mark.parametrize(
    "damage", [*HEADERS, "one array", "encrypted", "unknown compression", "number", "texts", "starts of two columns"]
)
def test_read_trace_of_what_is_no_trace_is_one_clear_error(exported, tmp_path, damage):
    path, arrays = tmp_path / "trace.npz", dict(read_trace(exported / "trace.npz"))
    whole = (exported / "trace.npz").read_bytes()
    changed = {
        "number": {"action": np.float32(1.0)},
        "texts": {"action": arrays["action"].astype(str)},
        "starts of two columns": {"episode_start": np.ones((len(arrays["action"]), 2), bool)},
    }
    if damage in HEADERS:
        np.savez(path, **arrays)
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("more.npy", array_with(HEADERS[damage]))
    elif damage == "one array":
        with path.open("wb") as file:
            np.save(file, arrays["action"])
    elif damage == "encrypted":
        path.write_bytes(set_in_headers(whole, 8, 6, 1))
    elif damage == "unknown compression":
        path.write_bytes(set_in_headers(whole, 10, 8, 99))
    else:
        np.savez(path, **{**arrays, **changed[damage]})
    with pytest.raises(ValueError, match=r"trace\.npz"):
        read_trace(path)


def test_replay_of_a_wrong_joint_order_differs_in_the_observation(exported):
    trace = read_trace(exported / "trace.npz")
    names = trace["joint_names"].tolist()
    difference, _ = replay_trace(OnnxPolicy(exported / "policy.onnx", [names[1], names[0], *names[2:]]), trace)
    assert difference is not None and (difference.boundary, difference.place) == ("observation", "joint_pos")


def test_trace_larger_than_its_limit_is_shortened(exported, tmp_path, monkeypatch):
    trace = read_trace(exported / "trace.npz")
    steps, names = len(trace["action"]), trace["joint_names"].tolist()
    whole = (exported / "trace.npz").stat().st_size
    monkeypatch.setattr(export_parity, "TRACE_BYTES", whole // 2)
    rollout = export_parity.Rollout(
        joint_names=names,
        obs=torch.tensor(trace["observation"])[:, None],
        images=(),
        actions=torch.tensor(trace["action"])[:, None],
        last_actions=torch.zeros(steps, 1, len(names)),
        sensors={name: torch.tensor(trace[name])[:, None] for name in ("command", "joint_pos")},
        joint_targets=torch.tensor(trace["target"])[:, None],
        target_limits=torch.tensor([[-9.0, 9.0]] * len(names)),
        done=torch.zeros(steps, 1, dtype=torch.bool),
        memories=(),
    )
    path = export_parity.write_trace(tmp_path / "trace.npz", rollout, 0.02, 20.0)
    assert path.stat().st_size <= whole // 2
    short = read_trace(path)["action"]
    assert 0 < len(short) < steps and (short == trace["action"][: len(short)]).all()


def test_log_of_a_policy_has_what_it_got_and_gave(exported, tmp_path):
    trace = read_trace(exported / "trace.npz")
    names = trace["joint_names"].tolist()[::-1]  # the robot's order
    policy = OnnxPolicy(exported / "policy.onnx", names, log=tmp_path / "walk.csv")
    given = []
    for step in range(3):
        readings = {
            "command": (0.3, 0.0, 0.1),
            "base_quat": trace["base_quat"][step],
            "joint_pos": trace["joint_pos"][step][::-1],
        }
        given.append((readings, policy(**readings), policy.last_action.copy()))
    targets = policy(command=(0.3, 0.0, 0.1), base_quat=(1, 0, 0, 0), joint_pos=None)  # held
    policy.reset()
    policy(**given[0][0])
    with (tmp_path / "walk.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["episode"] for row in rows] == ["1"] * 4 + ["2"]
    for row, (readings, sent, action) in zip(rows, given):
        for name, unit, values in (("joint_pos", " [rad]", readings["joint_pos"]), ("target", " [rad]", sent)):
            assert np.allclose([float(row[f"{name}.{one}{unit}"]) for one in names], values, atol=1e-7)
        own = json.loads((exported / "policy.json").read_text())["joint_names"]
        assert np.allclose([float(row[f"action.{one}"]) for one in own], action, atol=1e-7)
        assert row["base_ang_vel.x [rad/s]"] == "" and float(row["base_quat.w"]) == pytest.approx(
            readings["base_quat"][0]
        )
    held = rows[3]
    assert held["observation.0"] == held[f"action.{names[0]}"] == "" and held[f"joint_pos.{names[0]} [rad]"] == ""
    assert float(held[f"target.{names[0]} [rad]"]) == pytest.approx(targets[0])


def test_log_of_a_first_call_that_is_refused_has_its_readings(exported, tmp_path):
    trace = read_trace(exported / "trace.npz")
    names = trace["joint_names"].tolist()
    policy = OnnxPolicy(exported / "policy.onnx", names, log=tmp_path / "walk.csv")
    joint_pos = trace["joint_pos"][0]
    with pytest.raises(ValueError, match="is not a rotation"):
        policy(command=(0.3, 0.0, 0.1), base_quat=(2, 0, 0, 0), joint_pos=joint_pos)
    with (tmp_path / "walk.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert np.allclose([float(row[f"joint_pos.{one} [rad]"]) for one in names], joint_pos, atol=1e-7)
    assert {row[f"target.{one} [rad]"] for one in names} | {row["observation.0"], row[f"action.{names[0]}"]} == {""}

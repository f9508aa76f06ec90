"""The command that reads the log of a policy on a robot."""

import copy
import csv
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from configs.go2_flat import flat_task
from configs.train_config import TrainConfig
from deploy.onnx_policy import OnnxPolicy, open_onnx
from rsl_rl.cli.main import main
from rsl_rl.config.policy import ActorCriticConfig
from rsl_rl.contracts import read_contract
from rsl_rl.exporters import describe_module, policy_module
from rsl_rl.runners import OnPolicyRunner

pytest.importorskip("onnxruntime")
pytest.importorskip("mujoco")

from benchmarks.doctor_faults import MAKERS
from benchmarks.doctor_robot import Setup, run


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    """The ONNX file of a policy that has learned nothing: its robot stands and moves a little."""
    torch.manual_seed(0)
    task = replace(flat_task(), num_envs=2)
    nets = ActorCriticConfig(actor_hidden_dims=(16,), critic_hidden_dims=(8,))
    here = {"sim_device": "cpu", "rl_device": "cpu"}
    runner = OnPolicyRunner(task.build(seed=1), TrainConfig(task="go2_flat", policy=nets, env=task, **here))
    content = {
        "format": 1,
        **describe_module(policy_module(runner.alg.policy)),
        **runner.env.describe_interface(["policy"]),
    }
    return runner.export_policy_to_onnx(tmp_path_factory.mktemp("exported"), metadata=content)


@pytest.fixture
def walk(policy, tmp_path):
    """Write the log of a robot with a fault."""

    def write(kind="", seed=3):
        description, network = open_onnx(policy)
        rng = np.random.default_rng(seed)
        setup = Setup(description=copy.deepcopy(dict(description)), network=network)
        if kind:
            MAKERS[kind](description, rng).plant(setup)
        run(description, setup, rng, tmp_path / "log.csv", seconds=2.0)
        return str(tmp_path / "log.csv")

    return write


def answer(capsys, *argv):
    """The exit code, the lines before the JSON, and the JSON."""
    code = main(["doctor", *map(str, argv)])
    *shown, last = capsys.readouterr().out.splitlines()
    return code, shown, json.loads(last)


def test_doctor_command_on_a_healthy_log_finds_nothing(policy, walk, capsys):
    code, shown, result = answer(capsys, walk(), policy)
    assert code == 0 and shown[-1] == "nothing wrong is found" and not result["findings"]


def test_doctor_command_on_a_fault_writes_report_and_mapping(policy, walk, capsys, tmp_path):
    page, fix = tmp_path / "report.html", tmp_path / "fixed.json"
    code, shown, result = answer(capsys, walk("joint zero"), policy, "--report", page, "--fix", fix)
    assert code == 1 and result["boundary"] == "reading" and "the first boundary that differs: reading" in shown
    (finding,) = result["findings"]
    assert finding["kind"] == "joint zero" and 0 < finding["confidence"] <= 1
    zeros = read_contract(fix).joint_zeros
    assert np.count_nonzero(zeros) == 1 and 0.1 < np.abs(zeros).max() < 0.4
    assert OnnxPolicy(policy, description=fix).joint_names  # which a robot can run
    assert finding["sentence"] in page.read_text() and "data:image/png" in page.read_text()


def test_doctor_command_takes_the_wiring_of_a_robot_yaml(policy, walk, capsys, tmp_path):
    description, _ = open_onnx(policy)
    names, path, zero = description["joint_names"], walk(), 0.25  # of one joint [rad]
    with open(path, newline="") as file:
        header, *rows = csv.reader(file)
    for i in (header.index(f"{kind}.{names[1]} [rad]") for kind in ("joint_pos", "target")):
        for row in rows:
            row[i] = f"{float(row[i]) + zero:.9g}"
    with open(path, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])
    units = {"joint_pos": "rad", "joint_vel": "rad/s", "base_ang_vel": "rad/s"}
    wiring = {"quaternion_order": "wxyz", "imu_mounting": [1.0, 0.0, 0.0, 0.0], "units": units}
    joints = [{"name": x, "sign": 1.0, "zero": zero if x == names[1] else 0.0} for x in names]
    (tmp_path / "robot.yaml").write_text(json.dumps({"format": 1, **wiring, "joints": joints}))
    assert answer(capsys, path, policy)[0] == 1
    assert answer(capsys, path, policy, "--robot", tmp_path / "robot.yaml")[0] == 0


def test_doctor_command_without_a_determined_mapping_writes_none(policy, walk, capsys, tmp_path):
    code, shown, _ = answer(capsys, walk("action scale"), policy, "--fix", tmp_path / "fixed.json")
    assert code == 1 and any(line.startswith("fix: none") for line in shown) and not (tmp_path / "fixed.json").exists()


@pytest.mark.parametrize("missing", ["log", "policy", "model", "folder", "joints"])
def test_doctor_command_with_what_it_cannot_read_is_one_line(policy, walk, capsys, tmp_path, root, missing):
    log = walk() if missing != "log" else str(tmp_path / "none.csv")
    argv = [log, str(policy)]
    if missing == "policy":
        argv[1] = log
    elif missing == "model":
        argv += ["--model", str(root / "rsl_rl/robots/anymal_c/anymal_c.xml")]
    elif missing == "folder":
        argv += ["--report", str(tmp_path / "none" / "report.html")]
    elif missing == "joints":
        text = (tmp_path / "log.csv").read_text()
        (tmp_path / "log.csv").write_text(text.replace("FL_hip_joint", "hip"))
    assert main(["doctor", *argv]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1

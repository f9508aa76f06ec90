"""What play.py says and does about the files that it exports."""

import json
import sys
from dataclasses import replace

import pytest
import torch

from configs.go2_flat import flat_task
from configs.train_config import TrainConfig
from rsl_rl.cli import export, play
from rsl_rl.cli.command_line import Arguments
from rsl_rl.cli.errors import UsageError
from rsl_rl.config.mdp import ObservationTerm
from rsl_rl.config.policy import ActorCriticConfig
from rsl_rl.exporters import policy_module
from rsl_rl.runners import OnPolicyRunner

pytest.importorskip("onnxruntime")


@pytest.fixture
def played(tmp_path, monkeypatch):
    """Play a policy in this process: exit code and the exported/ folder."""
    monkeypatch.setattr(export, "PARITY_SECONDS", 0.6)

    def run(runner):
        runner.log_dir.mkdir()
        runner.save(runner.log_dir / "model_0.pt")
        flags = play.Flags(num_envs=1, seconds=0.1, video=False, plot=False)
        return play.play(Arguments(flags, runner.train_cfg, runner.log_dir, tmp_path)), runner.log_dir / "exported"

    return run


def small_run(tmp_path, **observations):
    env = replace(flat_task(), num_envs=4)
    env = replace(env, observations={**env.observations, "policy": env.observations["policy"].with_terms(observations)})
    cfg = TrainConfig(
        sim_device="cpu",
        rl_device="cpu",
        task="go2_flat",
        policy=ActorCriticConfig(actor_hidden_dims=(16, 8), critic_hidden_dims=(8,)),
        env=env,
    )
    return OnPolicyRunner(env.build(seed=1), cfg, log_dir=tmp_path / "run")


def test_play_says_how_far_the_files_are(played, tmp_path, capsys, root):
    code, folder = played(small_run(tmp_path))
    out = capsys.readouterr().out
    assert code == 0 and "parity: TorchScript acts like" in out and "parity: ONNX acts like" in out
    content = json.loads((folder / "parity.json").read_text())
    assert set(content["formats"]) == {"TorchScript", "ONNX"} and content["tolerance"] == 1e-5
    assert (folder / "onnx_policy.py").read_text() == (root / "deploy" / "onnx_policy.py").read_text()


def test_play_of_a_policy_whose_targets_leave_the_limits_is_equal_and_counts_them(played, tmp_path, capsys):
    runner = small_run(tmp_path)
    with torch.no_grad():
        runner.alg.policy.actor[-1].bias.add_(10.0)  # 2.5 rad, more than any torque needs
    code, folder = played(runner)
    lines = [line for line in capsys.readouterr().out.splitlines() if "parity: ONNX" in line]
    result = json.loads((folder / "parity.json").read_text())["formats"]["ONNX"]
    assert code == 0 and result["clamped_targets"] > 100 and result["mismatch"] is None
    assert lines[0].endswith(f"; the runner clamps {result['clamped_targets']} joint targets to target_limits")


def test_play_where_exported_is_a_file_is_one_line(tmp_path):
    runner = small_run(tmp_path)
    runner.log_dir.mkdir()
    runner.save(runner.log_dir / "model_0.pt")
    (runner.log_dir / "exported").touch()
    with pytest.raises(UsageError) as caught:
        play.play(
            Arguments(play.Flags(num_envs=1, seconds=0.1, video=False), runner.train_cfg, runner.log_dir, tmp_path)
        )
    error = caught.value.message
    assert caught.value.code == 2 and "exported" in error and "\n" not in error


def test_play_exits_with_1_and_deletes_nothing_where_a_file_is_wrong(played, tmp_path, capsys, monkeypatch):
    def shifted(policy):
        module = policy_module(policy)
        module.actor[-1].bias.data.add_(0.1)
        return module

    monkeypatch.setattr("rsl_rl.exporters.onnx.policy_module", shifted)
    code, folder = played(small_run(tmp_path))
    out = capsys.readouterr().out
    assert code == 1 and "parity: TorchScript acts like" in out
    assert "parity: ONNX does NOT act like the policy: actions differ first in step 0, robot" in out and "_joint" in out
    assert {"policy.pt", "policy.onnx", "policy.json", "parity.json"} <= {path.name for path in folder.iterdir()}


def test_without_onnxruntime_play_says_what_to_install_and_does_the_rest(played, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    code, folder = played(small_run(tmp_path))
    out = capsys.readouterr().out
    assert code == 0 and (folder / "policy.onnx").exists()
    assert "parity: ONNX is not checked: onnxruntime is not installed; run: pip install onnxruntime\n" in out
    assert set(json.loads((folder / "parity.json").read_text())["formats"]) == {"TorchScript"}


def test_a_policy_that_senses_what_no_robot_can_is_exported_with_a_warning(played, tmp_path, capsys):
    code, folder = played(small_run(tmp_path, friction=ObservationTerm(), air_time=ObservationTerm()))
    out = capsys.readouterr().out
    assert code == 0 and "not for robots: no robot senses friction, air_time; train a policy on some of" in out
    assert json.loads((folder / "parity.json").read_text())["formats"]["ONNX"]["joint_targets"] is None


def test_a_policy_with_a_history_is_exported_and_the_robots_program_stacks_the_same_steps(played, tmp_path, capsys):
    past = {name: ObservationTerm(history=3) for name in ("gravity", "joint_pos", "action")}
    code, folder = played(small_run(tmp_path, **past))
    out = capsys.readouterr().out
    assert code == 0 and "not for robots" not in out
    described = json.loads((folder / "policy.json").read_text())
    assert {term["name"] for term in described["observations"] if term["history"] == 3} == set(past)
    assert described["inputs"]["obs"] == [1, 50 + 2 * (3 + 12 + 12)]
    parity = json.loads((folder / "parity.json").read_text())
    assert parity["resets"] >= 4 and all(x["joint_targets"] < 1e-5 for x in parity["formats"].values())

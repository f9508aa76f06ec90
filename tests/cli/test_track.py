"""Train, evaluate and play a policy that follows reference motions, by commands."""

import json

import numpy as np
import pytest

from rsl_rl.contracts import read_contract

pytestmark = pytest.mark.slow

SMALL = (
    "--num_envs", "8", "--runner.num_steps_per_env", "4", "--max_iterations", "1",
    "--policy.actor_hidden_dims", "16", "--policy.critic_hidden_dims", "16",
)  # fmt: skip

CLIPS = ["trot speed=0.3", "trot speed=0.7", "bound", "sit", "stand_up"]


def train(rsl_rl_here, folder):
    """Return the flags of a task and the folder of a run of one iteration."""
    task = ("--task", "go2_track", "--log_root", str(folder))
    assert rsl_rl_here("train", *task, *SMALL) == 0
    (run,) = (folder / "go2_track").iterdir()
    return task, run


def test_train_and_evaluate(rsl_rl_here, tmp_path, capsys):
    task, run = train(rsl_rl_here, tmp_path)
    (line,) = (run / "metrics.jsonl").read_text().splitlines()
    assert {"episode/Motion/failure_rate", "episode/termination_anchor_height"} <= json.loads(line).keys()

    capsys.readouterr()
    assert rsl_rl_here("evaluate", *task, "--num_envs", "5", "--seconds", "0.1") == 0
    *lines, last = capsys.readouterr().out.splitlines()
    results = json.loads(last)
    assert [clip["name"] for clip in results["clips"]] == CLIPS
    assert all(clip["episodes"] == 1 and len(clip["by_time"]["mpkpe"]) for clip in results["clips"])
    assert results["tracking_failures"] == sum(clip["failures"] for clip in results["clips"]) / 5
    assert {"mpkpe", "root_relative_mpkpe", "joint_error", "turn_error"} <= results.keys()
    assert any("each clip from its first frame to its last, loops for 10 s" in line for line in lines)
    report = next(run.glob("evaluation_*.html")).read_text()
    assert "Reference motions" in report and report.count("<polyline") == 5 * 4


def test_play_exports_policy_and_references(rsl_rl_here, tmp_path):
    task, run = train(rsl_rl_here, tmp_path)
    assert rsl_rl_here("play", *task, "--num_envs", "1", "--seconds", "0.1", "--no_video", "--no_plot") == 0
    with np.load(run / "exported" / "references.npz") as references:
        assert references["clips"].tolist() == CLIPS
        assert references["0.joint_pos"].shape == (1001, 12) and references["4.base_quat"].shape == (151, 4)
    contract = json.loads((run / "exported" / "policy.json").read_text())
    assert contract["commands"]["motion"] == {"steps": [0, 5], "clips": CLIPS}
    assert all(-3 < low <= high < 3 for low, high in contract["command_ranges"])
    parity = json.loads((run / "exported" / "parity.json").read_text())
    assert all(one["mismatch"] is None for one in parity.values() if isinstance(one, dict) and "mismatch" in one)


def test_style_is_trained_evaluated_and_exported_with_its_clocks(rsl_rl_here, tmp_path):
    task = ("--task", "go2_style", "--log_root", str(tmp_path))
    assert rsl_rl_here("train", *task, *SMALL) == 0
    assert rsl_rl_here("evaluate", *task, "--num_envs", "4", "--seconds", "0.1") == 0
    assert rsl_rl_here("export", *task) == 0
    (run,) = (tmp_path / "go2_style").iterdir()
    contract = read_contract(run / "exported" / "policy.json")
    assert contract.commands["style"] == {"styles": ["pace", "bound"]}
    assert [len(one["duty"]) for one in contract.commands["foot_clock"]["rhythms"]] == [4, 4]
    assert {"styles.py", "onnx_policy.py", "policy.onnx"} <= {path.name for path in (run / "exported").iterdir()}
    parity = json.loads((run / "exported" / "parity.json").read_text())
    assert all(one["mismatch"] is None for one in parity.values() if isinstance(one, dict) and "mismatch" in one)

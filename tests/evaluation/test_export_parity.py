"""Exported files over a real walk, and the mistakes that a comparison must find."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from configs.go2_flat import flat_task
from configs.train_config import TrainConfig
from deploy.onnx_policy import Policy, open_onnx
from rsl_rl.cli import export
from rsl_rl.config.mdp import EventTerm
from rsl_rl.config.policy import ActorCriticConfig, ActorCriticRecurrentConfig
from rsl_rl.evaluation.conditions import for_evaluation
from rsl_rl.evaluation.export_parity import (
    TOLERANCE,
    Mismatch,
    ParityResult,
    compare,
    describe_parity,
    open_torchscript,
    record_rollout,
    write_parity,
)
from rsl_rl.exporters import describe_module, policy_module
from rsl_rl.exporters.onnx import export_onnx
from rsl_rl.runners import OnPolicyRunner

pytest.importorskip("onnxruntime")

NETS = {"actor_hidden_dims": (16, 8), "critic_hidden_dims": (8,)}
POLICIES = {
    "mlp": ActorCriticConfig(**NETS),
    "gru": ActorCriticRecurrentConfig(rnn_type="gru", rnn_hidden_size=12, rnn_num_layers=2, **NETS),
    "lstm": ActorCriticRecurrentConfig(rnn_type="lstm", rnn_hidden_size=12, **NETS),
}


def lively_runner(policy, log_dir=None):
    """A runner of go2_flat whose normaliser has seen something and whose policy moves."""
    here = {"sim_device": "cpu", "rl_device": "cpu"}
    cfg = TrainConfig(task="go2_flat", policy=policy, env=replace(flat_task(), num_envs=4), **here)
    runner = OnPolicyRunner(cfg.env.build(seed=1), cfg, log_dir=log_dir)
    runner.learn(1)
    with torch.no_grad():
        for parameter in runner.alg.policy.parameters():
            parameter.mul_(1.5)
    return runner


def walk(runner, seconds, terms=None):
    """The description of the policy for an environment with randomisation terms, and a rollout of two robots."""
    cfg = replace(for_evaluation(runner.env.cfg, 2, seconds), episode_length=seconds / 3)
    cfg = replace(cfg, randomization=cfg.randomization.with_terms(terms or {}))
    env = cfg.build(seed=2)
    module = describe_module(policy_module(runner.alg.policy))
    description = {"format": 1, **module, **env.describe_interface(["policy"])}
    rollout = record_rollout(env, runner.get_inference_policy(), ["policy"], round(seconds / cfg.sim.control_dt))
    return description, rollout


def exported(runner, description, folder, kind):
    """Write the policy as a file of a kind with a description, and open it as play.py does."""
    path = runner.export_policy_to_jit(folder)
    path.with_suffix(".json").write_text(json.dumps(description))
    if kind == "onnx":
        path = runner.export_policy_to_onnx(folder, metadata=description)
    return path


def opened(path, rollout):
    result, note = export.open_exported(path, rollout.joint_names)
    assert note == ""
    return result


@pytest.fixture(scope="module")
def walker():
    torch.manual_seed(0)
    runner = lively_runner(replace(POLICIES["mlp"], actor_obs_normalization=True))
    return (runner, *walk(runner, 0.6))


def test_comparison_with_encoder_offsets_finds_no_mismatch(walker, tmp_path):
    runner, *_ = walker
    terms = {"encoder_offset": EventTerm("startup", params={"range": (-0.05, 0.05)})}  # of each joint and robot
    description, rollout = walk(runner, 0.6, terms)
    exported_policy = opened(exported(runner, description, tmp_path, "onnx"), rollout)
    assert compare(rollout, exported_policy).mismatch is None


@pytest.mark.parametrize("normalizer", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["normaliser", "plain"])
@pytest.mark.parametrize(
    ("name", "seconds"), [("mlp", 4.0), ("gru", 4.0), ("lstm", 4.0), pytest.param("lstm", 20.0, marks=pytest.mark.slow)]
)
def test_files_and_runner_act_like_the_policy_over_many_seconds_with_resets(name, seconds, normalizer, tmp_path):
    runner = lively_runner(replace(POLICIES[name], actor_obs_normalization=normalizer))
    description, rollout = walk(runner, seconds)
    assert rollout.done.shape == (50 * seconds, 2) and rollout.num_resets >= 4
    assert rollout.actions.abs().max() > 0.05 and rollout.last_actions[1:].abs().max() > 0.05
    for kind in ("torchscript", "onnx"):
        result = compare(rollout, opened(exported(runner, description, tmp_path, kind), rollout))
        print(f"{name} normalizer={normalizer} {kind}: {result.actions:.1e} {result.joint_targets:.1e} rad")
        assert result.mismatch is None
        assert max(result.actions, result.joint_targets) <= TOLERANCE == 1e-5


def swap(names, a, b):
    """The names with two of them exchanged."""
    other = {a: b, b: a}
    return [other.get(name, name) for name in names]


FAULTS = {
    "permuted joints": lambda d: {"joint_names": swap(d["joint_names"], "FL_hip_joint", "FR_hip_joint")},
    "joints by kind": lambda d: {"joint_names": sorted(d["joint_names"], key=lambda name: name[3:])},
    "action scale": lambda d: {"action_scale": 0.5},
    "action clip": lambda d: {"action_clip": 1e-3},
    "default pose": lambda d: {"default_joint_pos": [0.0, *d["default_joint_pos"][1:]]},
    "scale of a term": lambda d: {"observations": [{**t, "scale": 1.0} for t in d["observations"]]},
    "order of terms": lambda d: {"observations": [d["observations"][i] for i in (1, 0, *range(2, 8))]},
}


@pytest.mark.parametrize("kind", ["torchscript", "onnx"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_description_is_caught_with_step_and_joint(fault, kind, walker, tmp_path):
    runner, description, rollout = walker
    wrong = {**description, **FAULTS[fault](description)}
    result = compare(rollout, opened(exported(runner, wrong, tmp_path, kind), rollout))
    assert result.actions <= TOLERANCE  # the network is right
    assert (result.mismatch.what, result.mismatch.step) == ("joint_targets", 0)
    if fault == "permuted joints":  # 0.1 and -0.1 rad in the default pose
        assert result.mismatch.joint in ("FL_hip_joint", "FR_hip_joint")
    if fault == "default pose":
        assert result.mismatch.joint == "FL_hip_joint"
    if fault == "action scale":
        robot, joint = divmod(int(rollout.actions[0].abs().argmax()), 12)
        assert (result.mismatch.robot, result.mismatch.joint) == (robot, rollout.joint_names[joint])
        assert result.mismatch.difference == pytest.approx(0.25 * float(rollout.actions[0].abs().max()), rel=1e-4)


@pytest.mark.parametrize("kind", ["torchscript", "onnx"])
def test_a_dropped_normaliser_is_caught_with_step_and_joint(kind, walker, tmp_path):
    runner, description, rollout = walker
    keep, runner.alg.policy.actor_obs_normalizer = (
        runner.alg.policy.actor_obs_normalizer,
        torch.nn.Identity(),
    )
    try:
        path = exported(runner, description, tmp_path, kind)
    finally:
        runner.alg.policy.actor_obs_normalizer = keep
    result = compare(rollout, opened(path, rollout))
    assert (result.mismatch.what, result.mismatch.step) == ("actions", 0)
    assert result.mismatch.joint in rollout.joint_names and result.joint_targets > TOLERANCE


def test_a_memory_that_outlives_its_episode_is_caught(tmp_path):
    runner = lively_runner(POLICIES["gru"])
    description, rollout = walk(runner, 0.6)
    file = opened(exported(runner, description, tmp_path, "torchscript"), rollout)
    first = int(rollout.done.any(dim=1).nonzero()[0])
    forgetful = rollout._replace(done=torch.zeros_like(rollout.done))  # as if nobody had said that episodes ended
    assert compare(rollout, file).mismatch is None
    assert compare(forgetful, file).mismatch.step == first + 1


def test_a_runner_that_loses_its_memory_is_caught(tmp_path):
    runner = lively_runner(POLICIES["lstm"])
    description, rollout = walk(runner, 0.2)
    file = opened(exported(runner, description, tmp_path, "torchscript"), rollout)

    class Forgetful(Policy):
        def __call__(self, **state):
            targets = super().__call__(**state)
            self.memories = [0 * memory for memory in self.memories]
            return targets

    forgetful = file._replace(controller=lambda: Forgetful(description, file.network, rollout.joint_names))
    result = compare(rollout, forgetful)
    assert (result.mismatch.what, result.mismatch.step) == ("kept_memories", 1)
    assert result.mismatch.joint.startswith("unit ")


def test_a_runner_that_remembers_another_action_than_it_took_is_caught(walker, tmp_path):
    runner, description, rollout = walker
    file = opened(exported(runner, description, tmp_path, "torchscript"), rollout)

    class Forgetful(Policy):
        def __call__(self, **state):
            targets = super().__call__(**state)
            self.last_action = self.last_action + np.eye(12, dtype=np.float32)[4] / 100
            return targets

    forgetful = file._replace(controller=lambda: Forgetful(description, file.network, rollout.joint_names))
    result = compare(rollout, forgetful)
    assert (result.mismatch.what, result.mismatch.step) == ("last_actions", 1)
    assert result.mismatch.joint == rollout.joint_names[4] and result.mismatch.difference == pytest.approx(
        0.01, rel=1e-3
    )


def test_what_is_no_number_is_a_difference_and_json_can_write_it(walker, tmp_path):
    runner, description, rollout = walker
    file = opened(exported(runner, description, tmp_path, "torchscript"), rollout)
    broken = file._replace(network=lambda obs: [np.full((1, 12), np.nan, np.float32)], controller=None)
    result = compare(rollout, broken)
    assert result.mismatch.what == "actions" and result.joint_targets is None
    assert describe_parity("x", result).endswith(
        f"actions are not finite first in step 0, robot 0, at {rollout.joint_names[0]}"
    )
    path = write_parity(tmp_path / "parity.json", rollout, {"TorchScript": result})
    content = json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert content["formats"]["TorchScript"]["actions"] is None
    assert content["formats"]["TorchScript"]["mismatch"]["step"] == 0
    assert (content["control_steps"], content["robots"]) == (30, 2) and content["resets"] == rollout.num_resets


def test_readings_that_the_runner_refuses_are_a_mismatch_with_the_reason(walker, tmp_path):
    runner, description, rollout = walker
    small = {**description, "input_limits": {"joint_vel": 1e-3}}  # robots start at rest
    result = compare(rollout, opened(exported(runner, small, tmp_path, "torchscript"), rollout))
    assert result.mismatch.what == "joint_targets" and result.mismatch.step <= 1
    line = describe_parity("ONNX", result)
    assert "NOT act like the policy: its runner refuses step" in line and "joint_vel=[" in line and "\n" not in line


def test_targets_are_compared_within_the_limits_of_the_simulation(walker, tmp_path):
    runner, description, rollout = walker
    narrow = rollout.joint_targets.mean(dim=(0, 1)).unsqueeze(1) + torch.tensor([-0.01, 0.01])
    for limits, is_equal in ((rollout.target_limits, True), (narrow, False)):
        told = {**description, "target_limits": limits.tolist()}
        file = opened(exported(runner, told, tmp_path, "torchscript"), rollout)
        assert (compare(rollout, file).mismatch is None) == is_equal
        result = compare(rollout._replace(target_limits=limits), file)
        assert result.mismatch is None and (result.clamped_targets > 0) != is_equal


def test_the_verdict_names_format_step_and_joint():
    line = describe_parity("ONNX", ParityResult(0.5, 0.1, Mismatch("joint_targets", 7, 3, "RL_calf_joint", 0.1)))
    assert line.startswith("ONNX does NOT act like the policy") and "step 7, robot 3, most at RL_calf_joint" in line
    assert describe_parity("ONNX", ParityResult(1e-6, 2e-7, None)).startswith("ONNX acts like the policy")


def test_recording_leaves_the_environment_as_it_was(walker):
    env = for_evaluation(walker[0].env.cfg, 2, 1.0).build(seed=0)
    record_rollout(env, walker[0].get_inference_policy(), ["policy"], 2)
    assert "step" not in vars(env.sim)


def test_torchscript_without_memory_answers_with_a_list(walker, tmp_path):
    network = open_torchscript(walker[0].export_policy_to_jit(tmp_path))
    (actions,) = network(np.zeros((1, 50), np.float32))
    assert actions.shape == (1, 12)


def test_the_description_fits_what_onnx_carries(walker, tmp_path):
    runner, description, _ = walker
    stored, _ = open_onnx(export_onnx(runner.alg.policy, tmp_path / "policy.onnx", description))
    assert len(stored.pop("network_sha256")) == 64
    assert stored == json.loads(json.dumps(description)) and stored["command_ranges"][0] == [-1.0, 1.0]

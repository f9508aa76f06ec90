"""Checkpoints and configs that were written before format 2's code; see checkpoints_format_1/README.md."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from configs import EXPERIMENTS
from rsl_rl.config.learn import AccelerationConfig
from rsl_rl.config.mdp import RewardTerm
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.runners.loading import load_policy
from rsl_rl.utils.checkpoints import read_checkpoint
from rsl_rl.utils.config_io import from_dict, read_yaml, to_dict
from rsl_rl.utils.trajectories import as_states
from tests.runners.checkpoints_format_1.cases import ITERATIONS, MORE_ITERATIONS, POLICIES, config_of
from tests.runners.checkpoints_format_1.pair_env import PairEnv

FOLDER = Path(__file__).parent / "checkpoints_format_1"
ROUNDING = {"atol": 1e-7, "rtol": 1e-6}  # other processors may round differently

of_each_policy = pytest.mark.parametrize("name", POLICIES)
with_each_acceleration = pytest.mark.parametrize("fused", [True, False], ids=["fused", "plain"])


@pytest.fixture(scope="module")
def expected():
    return torch.load(FOLDER / "expected.pt", weights_only=True)


def runner_of(name, fused=True):
    """Return a runner whose learning rate, weights and environment are not those of the checkpoint."""
    cfg = config_of(name)
    cfg = replace(cfg, algorithm=replace(cfg.algorithm, learning_rate=5e-4), acceleration=AccelerationConfig(fused))
    return OnPolicyRunner(PairEnv(seed=7), cfg)


def assert_same(state, other):
    """Compare nested states of tensors and numbers."""
    if isinstance(state, torch.Tensor):
        assert torch.equal(torch.as_tensor(other, dtype=state.dtype), state)
    elif isinstance(state, dict):
        assert set(state) == set(other)
        for key, value in state.items():
            assert_same(value, other[key])
    elif isinstance(state, (list, tuple)):
        assert len(state) == len(other)
        for value, own in zip(state, other):
            assert_same(value, own)
    else:
        assert state == other


@of_each_policy
@with_each_acceleration
def test_checkpoint_of_format_1_loads_completely(name, fused):
    state = read_checkpoint(FOLDER / f"{name}.pt")
    runner = runner_of(name, fused)
    runner.load(FOLDER / f"{name}.pt")
    now = runner._state()
    assert state["format"] == 1 and state["optimizer_state_dict"]["state"][0]["step"] == ITERATIONS * 4
    assert now["optimizer_state_dict"]["state"][0]["exp_avg_sq"].abs().max() > 0
    assert runner.alg.learning_rate == pytest.approx(2e-3)
    for entry in ("model_state_dict", "learning_rate", "skips_in_row", "iter", "env", "episodes", "counters", "rng"):
        assert_same(state[entry], now[entry])
    assert_same(state["optimizer_state_dict"]["state"], now["optimizer_state_dict"]["state"])
    for before, after in zip(state["memory"], now["memory"]):
        assert all(torch.equal(a, b) for a, b in zip(as_states(before), as_states(after), strict=True))
    remembered = [memory.abs().max() for side in state["memory"] for memory in as_states(side)]
    assert len(remembered) == {"mlp": 0, "gru": 2, "lstm": 4}[name.rpartition("_")[2]]
    assert all(memory > 0.01 for memory in remembered)


@of_each_policy
@with_each_acceleration
def test_policy_of_format_1_acts_and_values_as_before(name, fused, expected, tmp_path):
    shutil.copyfile(FOLDER / f"{name}.pt", tmp_path / "model_4.pt")
    cfg = replace(config_of(name), acceleration=AccelerationConfig(fused))
    loaded = load_policy(cfg, PairEnv(), tmp_path)
    policy, case = loaded.runner.alg.policy, expected["cases"][name]
    assert loaded.env_steps == ITERATIONS * 8 * 8
    torch.testing.assert_close(policy.noise_std(), case["std"], **ROUNDING)
    for t, done in enumerate(expected["done"]):
        groups = {group: steps[t] for group, steps in expected["obs"].items()}
        with torch.no_grad():
            actions, values = loaded.policy(groups), policy.evaluate(groups)
        torch.testing.assert_close(actions, case["actions"][t], **ROUNDING)
        torch.testing.assert_close(values, case["values"][t], **ROUNDING)
        loaded.policy.reset(done)
        policy.reset(done)


@of_each_policy
@with_each_acceleration
def test_training_resumed_from_format_1_gives_the_weights_of_before(name, fused, expected):
    runner = runner_of(name, fused)
    runner.load(FOLDER / f"{name}.pt")
    loaded = {key: value.clone() for key, value in runner.alg.policy.state_dict().items()}
    runner.learn(MORE_ITERATIONS)
    weights = runner.alg.policy.state_dict()
    split = expected["cases"][name]["resumed"].split([value.numel() for value in weights.values()])
    for (key, value), before in zip(weights.items(), split, strict=True):
        torch.testing.assert_close(
            value.flatten().float(), before, atol=2e-6, rtol=1e-5, msg=lambda m, k=key: f"{k}: {m}"
        )
    assert max((value - loaded[key]).abs().max() for key, value in weights.items()) > 1e-2


@pytest.mark.parametrize("task", ["go2_flat", "go2_flat_blind"])
def test_config_of_before_loads_with_every_setting(task):
    values = read_yaml(FOLDER / f"{task}.yaml")
    cfg = from_dict(EXPERIMENTS.load(task), values)
    assert cfg.extensions == () and cfg.acceleration.fused and cfg.policy.distribution == "gaussian"

    limits = values["env"]["terminations"]
    assert cfg.safety.max_reward == limits.pop("max_reward")
    assert cfg.safety.max_observation == limits.pop("max_observation")
    del values["env"]["rewards"]["foot_clearance_target"]  # of a reward term that the task does not have

    def kept(old, new, place):
        if isinstance(old, dict):
            for key, value in old.items():
                own = new[key] if isinstance(new, dict) else type(new).__name__ if key == "kind" else getattr(new, key)
                kept(value, own, f"{place}.{key}")
        else:
            assert to_dict({"": new.weight if isinstance(new, RewardTerm) else new}) == {"": old}, place

    kept(values, cfg, task)

import math

import numpy as np
import pytest
import torch

from rsl_rl.config.learn import SafetyConfig
from rsl_rl.env import ContractError, StepResult
from rsl_rl.env.step_validator import StepValidator

N = 4
GROUPS = ("policy", "camera", "ids")
NO_DONE = torch.zeros(N, dtype=torch.bool)
OF_ENV_2 = torch.arange(N) == 2


_NOTHING = object()


@pytest.fixture(params=["cpu", "gpu"], autouse=True)
def path(request, monkeypatch):
    """On a CPU work is skipped where nothing broke; test the path of a GPU too."""
    if request.param == "gpu":
        monkeypatch.setattr(StepValidator, "is_sound_on_cpu", lambda self, numbers, masks: False)


def observe(**changed):
    groups = {
        "policy": torch.ones(N, 3),
        "camera": torch.ones(N, 1, 2, 2),
        "ids": torch.arange(N, dtype=torch.uint8).unsqueeze(1),
        "unread": torch.full((N, 1), math.nan),
    }
    return {**groups, **changed}


def put(group, value):
    """Return a group with a value in environment 2."""
    group = observe()[group]
    group[2, ..., 0] = value
    return group


def step_of(validator, obs=_NOTHING, reward=_NOTHING, done=NO_DONE, t=0, **extras):
    reward = torch.ones(N) if reward is _NOTHING else reward
    result = StepResult(observe() if obs is _NOTHING else obs, reward, done, extras)
    return validator.validate_step(result, {name: observe()[name] for name in GROUPS}, torch.zeros(N, 2), t)


def validator_of(**settings):
    validator = StepValidator(GROUPS, SafetyConfig(**settings), N, torch.device("cpu"))
    validator.validate_obs(observe())
    return validator


def numbers_of(validator):
    return {name: value for name, value in zip(*validator.pop()) if value != 0}


def test_sound_step_is_passed_on_as_it_is():
    validator, time_outs, done = validator_of(), OF_ENV_2.clone(), OF_ENV_2.clone()
    step = step_of(validator, done=done, time_outs=time_outs, log={"x": 1.0})
    assert set(step.obs) == set(GROUPS) and step.extras["valid"].all()
    assert all(torch.equal(step.obs[name], observe()[name]) for name in GROUPS)
    assert step.obs["ids"].dtype == torch.uint8 and torch.equal(step.done, done)
    assert set(step.extras) == {"time_outs", "valid"} and step.extras["time_outs"] is time_outs
    assert numbers_of(validator) == {} and validator.first_event("reward") is None


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 2e6])
@pytest.mark.parametrize("group", ["policy", "camera"])
def test_broken_group_masks_its_environment_in_this_step_and_the_next(group, value):
    validator = validator_of()
    step = step_of(validator, observe(**{group: put(group, value)}), t=5)
    assert torch.equal(step.extras["valid"], ~OF_ENV_2) and torch.equal(step.done, OF_ENV_2)
    assert step.reward.tolist() == [1, 1, 0, 1]
    for name in GROUPS:  # the others are not usable without it
        assert torch.equal(step.obs[name][2], torch.zeros_like(step.obs[name][2]))
        assert torch.equal(step.obs[name][:2], observe()[name][:2])
    after = step_of(validator, t=6)
    assert torch.equal(after.extras["valid"], ~OF_ENV_2) and torch.equal(after.obs["policy"], observe()["policy"])
    assert step_of(validator, t=7).extras["valid"].all()
    assert numbers_of(validator) == {"excluded_steps": 2, "faults/observation": 1}
    event = validator.first_event("observation")
    assert event is not None and (event["environment"], event["step"]) == (2, 5)
    assert {f"{when}/{name}" for when in ("obs", "next_obs") for name in GROUPS} <= set(event)
    assert torch.equal(event[f"next_obs/{group}"].flatten()[:1].nan_to_num(7.0), torch.tensor([value]).nan_to_num(7.0))


def test_first_observation_that_is_broken_masks_the_step_from_it():
    validator = validator_of()
    inputs = validator.validate_obs(observe(policy=put("policy", math.nan)))
    assert torch.equal(inputs["policy"], observe()["policy"] * ~OF_ENV_2.unsqueeze(1))
    assert torch.equal(step_of(validator).extras["valid"], ~OF_ENV_2)


def test_limits_are_those_of_the_config():
    validator = validator_of(max_observation=5.0, max_reward=3.0)
    assert step_of(validator, observe(policy=put("policy", -5.0)), torch.full((N,), -3.0)).extras["valid"].all()
    step = step_of(validator, observe(policy=put("policy", -5.1)), torch.tensor([1.0, 3.1, 1.0, 1.0]))
    assert step.extras["valid"].tolist() == [True, False, False, True]
    assert numbers_of(validator) == {"excluded_steps": 2, "faults/observation": 1, "faults/reward": 1}


def test_reported_fault_is_not_counted_as_a_reward_again_and_needs_no_reset():
    validator = validator_of()
    reward = torch.where(OF_ENV_2, math.nan, torch.ones(N))
    step = step_of(validator, reward=reward, done=OF_ENV_2, invalid={"engine": OF_ENV_2})
    assert torch.equal(step.extras["valid"], ~OF_ENV_2) and step.reward.isfinite().all()
    assert numbers_of(validator) == {"excluded_steps": 1, "faults/engine": 1}


def test_environment_that_waits_for_a_reset_is_marked_until_it_was_reset():
    validator = validator_of()
    step_of(validator, reward=torch.where(OF_ENV_2, math.inf, torch.ones(N)))
    assert torch.equal(validator.to_reset, OF_ENV_2)
    step_of(validator)
    assert torch.equal(validator.to_reset, OF_ENV_2)
    step_of(validator, done=OF_ENV_2)  # it has reset itself
    assert not validator.to_reset.any()
    step_of(validator, reward=torch.where(OF_ENV_2, math.inf, torch.ones(N)))
    validator.clear_resets()
    assert not validator.to_reset.any()


def test_broken_final_observation_is_zeroed_and_counts_where_the_episode_ended():
    validator = validator_of()
    broken = torch.where((torch.arange(N) >= 2).unsqueeze(1), math.nan, torch.ones(N, 3))
    step = step_of(validator, done=OF_ENV_2, final_obs=observe(policy=broken))
    assert torch.equal(step.extras["valid"], ~OF_ENV_2)
    assert step.extras["final_obs"]["policy"].sum(dim=1).tolist() == [3, 3, 0, 0]
    assert set(step.extras["final_obs"]) == set(GROUPS)
    assert numbers_of(validator) == {"excluded_steps": 1, "faults/final_observation": 1}


def test_final_observation_of_another_shape_is_refused():
    with pytest.raises(
        ValueError, match=r"'policy' of extras\['final_obs'\] has the shape \[4, 2\] in this step; give \[4, 3\]"
    ):
        step_of(validator_of(), final_obs=observe(policy=torch.ones(N, 2)))


OTHERS = (None, "x", 3, [0.0] * N, np.zeros(N), torch.zeros(2), torch.zeros(N, 4), torch.zeros(N) + 1j)
OTHERS += (torch.zeros(N, device="meta"), torch.zeros(N).to_sparse())
"""What is no column [N] of real numbers, for any part of a step."""


@pytest.mark.parametrize("part", ["reward", "done", "time_outs", "no_transition", "invalid"])
@pytest.mark.parametrize("other", OTHERS, ids=lambda x: f"{type(x).__name__}-{getattr(x, 'dtype', '')}")
def test_column_of_another_kind_is_a_contract_error_that_names_it(part, other):
    given = {"invalid": {"engine": other}} if part == "invalid" else {part: other}
    name = {"invalid": "extras['invalid']['engine']", "reward": "reward", "done": "done"}.get(part, f"extras['{part}']")
    with pytest.raises(ContractError) as caught:
        step_of(validator_of(), **given)
    assert str(caught.value).startswith(f"{name} ") and "; give" in str(caught.value)


@pytest.mark.parametrize("other", [None, "x", torch.ones(N, 3), {"policy": None}, {"policy": np.ones((N, 3))}, {}])
def test_observations_of_another_kind_are_a_contract_error(other):
    with pytest.raises(ContractError, match=r"the observations.*; give"):
        step_of(validator_of(), obs=other)
    with pytest.raises(ContractError, match=r"the observations.*; give"):
        validator_of().validate_obs(other)


@pytest.mark.parametrize("other", [None, "x", torch.ones(N, 3), {"policy": None}, {"policy": torch.ones(N, 3) + 1j}])
def test_final_observations_of_another_kind_are_a_contract_error(other):
    with pytest.raises(ContractError, match=r"extras\['final_obs'\].*; give"):
        step_of(validator_of(), final_obs=other)


@pytest.mark.parametrize("other", [None, "x", [OF_ENV_2], {3: OF_ENV_2}, OF_ENV_2])
def test_causes_of_another_kind_are_a_contract_error(other):
    with pytest.raises(ContractError, match=r"extras\['invalid'\]=.* in this step; give a dict from causes, as texts"):
        step_of(validator_of(), invalid=other)


@pytest.mark.parametrize("result", [None, 3, (), (observe(), torch.ones(N), NO_DONE), (*range(5),), {"obs": 1}])
def test_result_of_another_form_is_a_contract_error(result):
    with pytest.raises(ContractError, match=r"step\(\) gives .*; return StepResult"):
        validator_of().validate_step(result, {}, torch.zeros(N, 2), 0)


@pytest.mark.parametrize("extras", [None, "x", []])
def test_extras_of_another_kind_are_a_contract_error(extras):
    with pytest.raises(ContractError, match=r"extras is a .* in this step; return a fresh dict every step"):
        validator_of().validate_step(StepResult(observe(), torch.ones(N), NO_DONE, extras), {}, torch.zeros(N, 2), 0)


BOUNDS = {"policy": (torch.full((3,), -10.0), torch.full((3,), 10.0))}


@pytest.mark.parametrize("value", [11.0, -1e5, math.nan])
def test_observation_outside_its_bounds_masks_its_environment_in_this_step_and_the_next(value):
    validator = validator_of()
    validator.validate_obs(observe(), BOUNDS)
    step = step_of(validator, observe(policy=put("policy", value)))
    assert torch.equal(~step.extras["valid"], OF_ENV_2) and (step.obs["policy"][2] == 0).all()
    assert torch.equal(~step_of(validator).extras["valid"], OF_ENV_2)
    step = step_of(validator, observe(policy=put("policy", 9.0)))
    assert step.extras["valid"].all() and numbers_of(validator)["faults/observation"] == 1


def test_bounds_that_half_of_the_environments_leave_are_ignored():
    validator = validator_of()
    obs = observe(policy=observe()["policy"] + 1e4)
    validator.validate_obs(obs, BOUNDS)
    assert step_of(validator, obs).extras["valid"].all() and numbers_of(validator) == {}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"obs": {name: group for name, group in observe().items() if name != "camera"}}, "no group 'camera' in this"),
        (
            {"obs": observe(policy=torch.ones(N, 2))},
            r"'policy' of the observations has the shape \[4, 2\] in this step; give \[4, 3\]",
        ),
        ({"obs": observe(policy=torch.ones(1, 3))}, r"'policy' of the observations has the shape \[1, 3\]"),
        ({"reward": torch.ones(1)}, r"reward has the shape \[1\] in this step; give \[4\] in every step"),
        ({"done": torch.zeros(5, dtype=torch.bool)}, r"done has the shape \[5\]"),
        ({"time_outs": torch.zeros(1, dtype=torch.bool)}, r"extras\['time_outs'\] has the shape \[1\]"),
        ({"invalid": {"fell": torch.zeros(2, dtype=torch.bool)}}, r"extras\['invalid'\]\['fell'\] has the shape \[2\]"),
    ],
)
def test_step_with_other_shapes_than_the_first_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        step_of(validator_of(), **changes)

"""Former names of settings in files, flags and Python programs."""

import copy
import json
import pickle
from dataclasses import replace

import pytest

from configs.g1_flat import biped_task
from configs.go2_flat import Go2Flat, flat_task
from rsl_rl.cli.command_line import parse
from rsl_rl.cli.sweep.search_space import parse_space
from rsl_rl.cli.train import Flags
from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.mdp import ObservationGroupConfig, RandomizationConfig, RewardConfig
from rsl_rl.config.task import EventTerm, LeggedRobotConfig, ObservationTerm, RewardTerm
from rsl_rl.utils.config_io import from_dict, to_dict

TASK = flat_task()
MORE = {"teacher": {"gravity": ObservationTerm(scale=2.0)}}
PUSHED = {"friction": [0.2, 1.5], "payload": [-1.0, 4.0], "push_interval": 6.0, "push_velocity": 0.8}


def former(task):
    """Return the settings of a task as a config.yaml of before has them."""
    values = json.loads(json.dumps(to_dict(task)))
    observations, events = values.pop("observations"), values["randomization"].pop("terms")
    rewards = values["rewards"].pop("terms")
    values["policy_observations"] = observations.pop("policy")["terms"]
    values["critic_observations"] = observations.pop("critic")["terms"]
    values["more_observations"] = {name: group["terms"] for name, group in observations.items()}
    values["observation_history"] = {"policy": 1}
    params = {name: x for term in rewards.values() for name, x in term["params"].items()}
    values["rewards"].update(params, weights={name: term["weight"] for name, term in rewards.items()})
    settings = {name: x for event in events.values() for name, x in event["params"].items()}
    values["randomization"].update(settings, push_interval=events["push"]["period"], terms={})
    return values


def test_settings_of_a_former_file_are_those_of_the_present_one():
    task = replace(TASK, observations={**TASK.observations, "teacher": ObservationGroupConfig(MORE["teacher"])})
    read = from_dict(LeggedRobotConfig, former(task))
    assert read == task and list(read.observations) == ["policy", "critic", "teacher"]
    assert list(read.rewards.terms) == list(task.rewards.terms)
    assert list(read.randomization.terms) == ["model_parameters", "start_state", "push"]
    values = former(task)
    values["critic_observations"] = {}
    assert list(from_dict(LeggedRobotConfig, values).observations) == ["policy", "teacher"]


def test_params_and_events_of_a_former_file_go_before_its_settings():
    values = former(TASK)
    values["rewards"]["weights"]["base_height"] = {"weight": -3.0, "params": {"base_height_target": 0.2}}
    values["randomization"].update(PUSHED)
    values["randomization"]["terms"] = {
        "kick": {"mode": "interval", "period": 2.0, "func": "push"},
        "push": {"mode": "interval", "period": 1.0, "params": {"push_turning": 0.5}},
    }
    read = from_dict(LeggedRobotConfig, values)
    assert read.rewards.terms["base_height"] == RewardTerm(-3.0, params={"base_height_target": 0.2})
    events = read.randomization.terms
    assert list(events) == ["model_parameters", "start_state", "push", "kick"]
    assert events["push"] == EventTerm("interval", 1.0, params={"push_velocity": 0.8, "push_turning": 0.5})
    assert events["model_parameters"].params["friction"] == (0.2, 1.5)


def test_former_limits_of_rewards_are_those_of_the_learner():
    values = {"safety": {"max_reward": 100.0}, "env": {"terminations": {"max_reward": 10.0, "max_observation": 1e7}}}
    safety = from_dict(Go2Flat, values).safety
    assert (safety.max_reward, safety.max_observation) == (10.0, 1e7)
    assert from_dict(LeggedRobotConfig, values["env"]).terminations == LeggedRobotConfig().terminations
    assert parse_config(["--env.terminations.max_observation", "30"]).safety.max_observation == 30.0


def test_another_name_of_a_field_sets_the_field():
    assert from_dict(PPOConfig, {"bptt_length": 8}).unroll_len == 8


@pytest.mark.parametrize(
    ("cls", "values", "message"),
    [
        (
            PPOConfig,
            {"bptt_length": 8, "unroll_len": 8},
            "algorithm.bptt_length is another name of algorithm.unroll_len",
        ),
        (
            LeggedRobotConfig,
            {"policy_observations": {"gravity": {}}, "observations": {"policy": {"terms": {"action": {}}}}},
            "env.policy_observations is another name of env.observations.policy.terms, and both are given",
        ),
        (LeggedRobotConfig, {"more_observations": 3}, "env.more_observations=3; give a mapping"),
        (LeggedRobotConfig, {"more_observations": {"feet": 3}}, "observations.feet.terms=3; give a mapping"),
        (LeggedRobotConfig, {"observation_history": {"feet": 3}}, "observations.feet.terms is missing"),
        (
            LeggedRobotConfig,
            {"randomization": {"payload": [0, 1], "terms": 3}},
            "terms.model_parameters.*: terms=3; give",
        ),
        (LeggedRobotConfig, {"rewards": {"weights": [1.0]}}, r"env.rewards.weights=\[1.0\]; give a mapping"),
        (
            LeggedRobotConfig,
            {"rewards": {"weights": {"trot": "high"}}},
            "rewards.terms.trot.weight='high' is a str",
        ),
    ],
)
def test_former_settings_that_cannot_be_are_refused(cls, values, message):
    with pytest.raises(ValueError, match=message):
        from_dict(cls, values)


def test_former_flags_set_the_present_fields_and_print_a_note(capsys):
    flags = "--env.rewards.weights.torques -2e-4 --env.rewards.tracking_sigma 0.3 --env.randomization.friction 0.2 1.5 "
    flags += "--env.randomization.push_interval=6 --env.policy_observations.gravity.noise 0.1 "
    flags += "--env.critic_observations.joint-pos.scale 3 --env.observation_history.policy 2"
    env = parse(Flags, "", False, ["--task", "go2_flat", "--sim", "mujoco", *flags.split()]).cfg.env
    present = replace(TASK, sim=env.sim).rewards.with_weights({"torques": -2e-4})
    for term in ("track_lin_vel", "track_yaw_rate"):
        present = present.with_params(term, tracking_sigma=0.3)
    assert env.rewards == present
    assert env.randomization.terms["model_parameters"].params["friction"] == (0.2, 1.5)
    assert env.randomization.terms["push"] == replace(TASK.randomization.terms["push"], period=6.0)
    policy, critic = env.observations["policy"], env.observations["critic"]
    assert (policy.terms["gravity"].noise, policy.history, critic.terms["joint_pos"].scale) == (0.1, 2, 3.0)
    notes = capsys.readouterr().out
    assert "note: --env.rewards.weights.torques is deprecated; use --env.rewards.terms.torques.weight\n" in notes
    assert notes.count("is deprecated") == 7


def test_former_field_of_a_search_is_the_present_one():
    (parameter,) = parse_space(["env.rewards.weights.trot=0.5,1.0"], lambda flags: parse_config(flags))
    assert parameter.field == "env.rewards.terms.trot.weight"


def parse_config(flags):
    return parse(Flags, "", False, ["--task", "go2_flat", "--sim", "mujoco", *flags]).cfg


def test_constructors_take_former_keywords():
    policy, critic = TASK.observations["policy"].terms, TASK.observations["critic"].terms
    task = LeggedRobotConfig(
        policy_observations=policy,
        critic_observations=critic,
        observation_history={"policy": 2},
        more_observations=MORE,
    )
    assert list(task.observations) == ["policy", "critic", "teacher"] and task.observations["policy"].history == 2
    rewards = RewardConfig(weights={"collision": -1.0, "trot": RewardTerm(0.5)}, collision_links=("FL_calf",))
    assert rewards.terms["collision"] == RewardTerm(-1.0, params={"collision_links": ("FL_calf",)})
    assert rewards.terms["trot"] == RewardTerm(0.5)
    events = RandomizationConfig(payload=(-5.0, 5.0), push_velocity=0.3)
    expected = RandomizationConfig().with_params("model_parameters", payload=(-5.0, 5.0))
    assert events == expected.with_params("push", push_velocity=0.3) and events.terms["push"].period == 8.0


def test_former_names_are_read_and_replaced():
    task = biped_task()
    weights = {name: weight for name, weight in task.rewards.weights.items() if name != "gait"}
    rewards = replace(task.rewards, weights={**weights, "base_height": -5.0, "trot": 1.0}, foot_clearance_target=0.2)
    assert list(rewards.terms) == [*weights, "trot"]
    assert rewards.terms["base_height"] == RewardTerm(-5.0, params={"base_height_target": 0.75})  # it keeps its target
    assert (
        rewards.terms["foot_clearance"].params
        == {"foot_clearance_target": 0.2}
        == {"foot_clearance_target": rewards.foot_clearance_target}
    )
    events = replace(task.randomization, payload=(0.0, 1.0), push_interval=0.0)
    assert events.payload == (0.0, 1.0) and events.push_interval == 0.0 and events.push_velocity == 0.4
    noiseless = {name: replace(term, noise=0.0) for name, term in task.policy_observations.items()}
    other = replace(task, policy_observations=noiseless, more_observations=MORE)
    assert other.observations["policy"].terms == noiseless and other.more_observations == MORE
    assert other.critic_observations == task.observations["critic"].terms
    with pytest.raises(AttributeError, match="RewardConfig has no setting 'wights'"):
        task.rewards.wights  # noqa: B018


def test_configs_with_former_names_are_copied_and_pickled():
    cfg = Go2Flat()
    assert copy.deepcopy(cfg) == pickle.loads(pickle.dumps(cfg)) == cfg

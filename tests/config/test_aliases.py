"""Former names of settings in files, flags and Python programs."""

import copy
import inspect
import json
import pickle
from dataclasses import dataclass, replace

import pytest
import torch

from configs.g1_flat import biped_task
from configs.go2_flat import Go2Flat, flat_task
from rsl_rl.cli.command_line import parse
from rsl_rl.cli.sweep.search_space import parse_space
from rsl_rl.cli.train import Flags
from rsl_rl.config import aliases
from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.mdp import ObservationGroupConfig, RandomizationConfig, RewardConfig, TerminationConfig
from rsl_rl.config.task import EventTerm, LeggedRobotConfig, ObservationTerm, RewardTerm
from rsl_rl.tasks.mdp import events as event_terms
from rsl_rl.tasks.mdp import rewards as reward_terms
from rsl_rl.utils.config_io import from_dict, to_dict


def with_former_terms(task):
    """Return the task with reward terms and events whose parameters were settings once."""
    terms = {name: term for name, term in task.rewards.terms.items() if name != "foot_timing"}
    pushes = {"push": EventTerm("interval", 2.0, params={"push_turning": 1.5})}
    return replace(
        task,
        rewards=RewardConfig({**terms, "trot": RewardTerm(0.75)}, only_positive=task.rewards.only_positive),
        randomization=RandomizationConfig().with_terms(pushes),
    )


TASK = with_former_terms(flat_task())
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
            "env.randomization.terms=3; give a mapping",
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
    present = flat_task().rewards.with_weights({"torques": -2e-4})
    for term in ("track_lin_vel", "track_yaw_rate"):
        present = present.with_params(term, tracking_sigma=0.3)
    assert env.rewards == present
    assert env.randomization.terms["model_parameters"].params["friction"] == (0.2, 1.5)
    assert env.randomization.terms["push"] == replace(flat_task().randomization.terms["push"], period=6.0)
    policy, critic = env.observations["policy"], env.observations["critic"]
    assert (policy.terms["gravity"].noise, policy.history, critic.terms["joint_pos"].scale) == (0.1, 2, 3.0)
    notes = capsys.readouterr().out
    assert "note: --env.rewards.weights.torques is deprecated; use --env.rewards.terms.torques.weight\n" in notes
    assert notes.count("is deprecated") == 7


def test_former_field_of_a_search_is_the_present_one():
    (parameter,) = parse_space(["env.rewards.weights.foot_timing=0.5,1.0"], lambda flags: parse_config(flags))
    assert parameter.field == "env.rewards.terms.foot_timing.weight"
    with pytest.raises(ValueError, match="no term of the task takes it; leave it out"):
        parse_space(["env.rewards.foot_clearance_target=0.1,0.2"], lambda flags: parse_config(flags))


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
    assert events.payload == (0.0, 1.0) and events.push_interval == 0.0 and events.push_velocity == 0.5
    noiseless = {name: replace(term, noise=0.0) for name, term in task.policy_observations.items()}
    other = replace(task, policy_observations=noiseless, more_observations=MORE)
    assert other.observations["policy"].terms == noiseless and other.more_observations == MORE
    assert other.critic_observations == task.observations["critic"].terms
    with pytest.raises(AttributeError, match="RewardConfig has no setting 'wights'"):
        task.rewards.wights  # noqa: B018


def near(state, *, tracking_sigma):
    """A reward that takes a setting of the section, as in docs/own-task.md of before."""
    return (-state.base_height.square() / tracking_sigma).exp()


def near_by_default(state, *, tracking_sigma=2.0):
    return near(state, tracking_sigma=tracking_sigma)


NEAR, NEAR_BY_DEFAULT = f"{__name__}:near", f"{__name__}:near_by_default"


def test_former_setting_reaches_every_term_that_takes_it():
    weights = {"vel": RewardTerm(1.0, "track_lin_vel"), "track_yaw_rate": 0.5, NEAR: 1.0, NEAR_BY_DEFAULT: 1.0}
    own = {"own": RewardTerm(1.0, "track_lin_vel", {"tracking_sigma": 0.1})}
    for rewards in (
        RewardConfig(weights={**weights, **own}, tracking_sigma=0.5),
        from_dict(RewardConfig, to_dict({"weights": {**weights, **own}, "tracking_sigma": 0.5})),
    ):
        assert {name: term.params.get("tracking_sigma") for name, term in rewards.terms.items()} == {
            "vel": 0.5, "track_yaw_rate": 0.5, NEAR: 0.5, NEAR_BY_DEFAULT: None, "own": 0.1,
        }  # fmt: skip
        other = replace(rewards, tracking_sigma=0.3)
        assert other.terms["vel"].params == other.terms[NEAR].params == {"tracking_sigma": 0.3}
        assert other.terms["own"] == own["own"] and other.tracking_sigma == 0.3
    more = replace(TASK.rewards, weights={**TASK.rewards.weights, NEAR: 1.0, "single_stance": 1.0})
    assert more.terms[NEAR].params == {"tracking_sigma": 0.25} and more.air_time_target == 0.3
    env = replace(TASK, num_envs=2, rewards=more).build()
    assert env.step(torch.zeros(2, 12)).reward.shape == (2,)


def test_former_settings_of_events_reach_every_event_that_takes_them():
    kick = {"mode": "interval", "period": 2.0, "func": "push"}
    hard = {**kick, "params": {"push_velocity": 3.0}}
    events = from_dict(RandomizationConfig, {"push_velocity": 1.5, "terms": {"kick": kick, "hard": hard}}).terms
    assert [events[name].params["push_velocity"] for name in ("push", "kick", "hard")] == [1.5, 1.5, 3.0]
    terms = {"kick": EventTerm(**kick), "hard": EventTerm(**hard)}
    events = RandomizationConfig(push_velocity=1.5, terms=terms)
    assert [events.terms[name].params["push_velocity"] for name in ("push", "kick", "hard")] == [1.5, 1.5, 3.0]
    events = replace(events, push_velocity=1.0, push_interval=3.0)
    assert [events.terms[name].params["push_velocity"] for name in ("push", "kick", "hard")] == [1.0, 1.0, 3.0]
    assert [events.terms[name].period for name in ("push", "kick")] == [3.0, 2.0]
    own = from_dict(RandomizationConfig, {"push_interval": 3.0, "terms": {"push": {"mode": "reset"}}}).terms["push"]
    assert (own.mode, own.period) == ("reset", 0.0)


def test_tracking_score_of_a_schedule_has_the_former_width():
    values = former(replace(TASK, num_envs=2))
    values["rewards"]["tracking_sigma"] = 0.5
    values["commands"]["schedule"] = {"steps": 10, "tracking": 0.7}
    env = from_dict(LeggedRobotConfig, values).build()
    assert env.commands.sources["velocity"]._schedule._width == 0.5


def test_former_weight_zero_needs_no_links_and_another_one_does():
    zero = from_dict(RewardConfig, {"weights": {"collision": 0.0, "alive": 1.0}, "collision_links": []})
    replace(TASK, num_envs=2, rewards=zero).build()
    with pytest.raises(ValueError, match="collision has no collision_links"):
        replace(TASK, num_envs=2, rewards=zero.with_weights({"collision": -1.0})).build()


def test_settings_of_shipped_functions_are_those_in_their_signatures():
    for section, functions in (("env.rewards", reward_terms.TERMS), ("env.randomization", event_terms.TERMS)):
        for name, function in functions.items():
            taken = set(inspect.signature(function).parameters) & set(aliases.SETTINGS[section])
            assert set(aliases._taken(name, "")) == taken
        assert set(aliases.SETTINGS[section]) == {x for name in functions for x in aliases._taken(name, "")}
    shipped = RandomizationConfig().terms.values()
    assert {x: value for term in shipped for x, value in term.params.items()} == aliases.SETTINGS["env.randomization"]


@dataclass(frozen=True)
class OwnTask(LeggedRobotConfig):
    """A task of a user, with a setting of its own."""

    colour: str = "red"


def test_derived_config_takes_former_keywords():
    policy = TASK.observations["policy"].terms
    task = replace(OwnTask(policy_observations=policy), critic_observations=policy, colour="blue")
    assert task.observations["policy"].terms == task.observations["critic"].terms == policy
    assert task.policy_observations == policy and task.colour == "blue"
    assert next(iter(inspect.signature(OwnTask).parameters)) == "robot"
    with pytest.raises(TypeError, match="polcy_observations"):
        OwnTask(polcy_observations=policy)


@pytest.mark.parametrize("name", ["max_reward", "max_observation"])
def test_setting_of_another_section_is_an_error_that_says_where_it_is(name):
    message = f"env.terminations.{name} is safety.{name} now; set it in the config of the experiment"
    with pytest.raises(TypeError, match=message):
        TerminationConfig(**{name: 1e3})
    with pytest.raises(AttributeError, match=message):
        getattr(TerminationConfig(), name)


def test_former_flag_without_a_term_that_takes_it_is_left_out(capsys):
    cfg = parse_config(["--env.rewards.foot_clearance_target", "0.1", "--num_envs", "7"])
    assert cfg.env.rewards == flat_task().rewards and cfg.env.num_envs == 7
    note = "note: --env.rewards.foot_clearance_target is deprecated; no term of the task takes it\n"
    assert note in capsys.readouterr().out


def test_configs_with_former_names_are_copied_and_pickled():
    cfg = Go2Flat()
    assert copy.deepcopy(cfg) == pickle.loads(pickle.dumps(cfg)) == cfg

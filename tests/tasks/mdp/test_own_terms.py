"""Terms of each kind from a user's module, with parameters, in the config only."""

import json
import re
from dataclasses import dataclass, field, replace

import pytest
import torch

from configs.go2_flat import Go2Flat
from rsl_rl.cli.command_line import parse
from rsl_rl.cli.train import Flags
from rsl_rl.config.mdp import (
    CommandTerm,
    EventTerm,
    ObservationGroupConfig,
    ObservationTerm,
    RandomizationConfig,
    RewardConfig,
    RewardTerm,
    TerminationTerm,
)
from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.evaluation.conditions import for_evaluation
from rsl_rl.evaluation.gait_metrics import GaitMetrics
from rsl_rl.evaluation.playback import for_playback
from rsl_rl.tasks.mdp.commands import CommandSource
from rsl_rl.tasks.mdp.terminations import Terminations, any_of
from rsl_rl.utils.config_io import from_dict, read_yaml, to_dict, write_yaml
from rsl_rl.utils.tensors import Uniform

CFG = Go2Flat().env
HERE = __name__


def make(num_envs=4, seed=0, **changes):
    return replace(CFG, num_envs=num_envs, **changes).build(seed=seed)


def knee_speed(state, *, power, factor=1.0):
    return factor * state.joint_vel[:, 2::3].abs().pow(power).sum(dim=1)


def too_low(state, *, min_height):
    return state.base_height < min_height


def height_command(state):
    return state.commands["height"]


def low_joints(state, *, first, count=2):
    return state.joint_pos[:, first : first + count]


class HeightCommands(CommandSource):
    """Heights of the trunk [m], which grow with the number of finished episodes."""

    def __init__(self, task, *, low, high, resampling_time):
        super().__init__(task, ((low, high),), resampling_time)
        self.finished, self._draw = 0, Uniform(task.num_envs, self.ranges, task.generator)
        task.observers.append(self.count)

    def count(self, state, done):
        self.finished += int(done.sum())

    def sample(self):
        return self._draw() + self.finished


def spin(task, mask, *, speed):
    """Turn the robots of a mask on the spot."""
    turning = torch.tensor([0.0, 0.0, speed]).expand(task.num_envs, 3)
    task.sim.set_root_velocity(mask, torch.zeros(task.num_envs, 3), turning)


class Tired:
    """A friction that falls with each episode; its counter is saved."""

    def __init__(self, task, *, loss):
        self._task, self._loss = task, loss
        self.episodes = torch.zeros(task.num_envs)

    def __call__(self, mask):
        self.episodes += mask
        self._task.state.friction = 1.0 - self._loss * self.episodes
        self._task.sim.set_friction(self._task.state.friction)

    def state_dict(self):
        return {"episodes": self.episodes.clone()}

    def load_state_dict(self, state):
        self.episodes.copy_(state["episodes"])


class Forbidden:
    def __init__(self, task):
        pass


# Terms at work


def test_own_reward_with_params_is_weighted_under_its_own_name():
    terms = {
        "slow_knees": RewardTerm(-2.0, f"{HERE}:knee_speed", {"power": 2}),
        f"{HERE}:knee_speed": RewardTerm(1.0, params={"power": 1.0, "factor": 3.0}),
        "alive": RewardTerm(1.0),
    }
    env = make(rewards=RewardConfig(terms, only_positive=False))
    seen = {}
    env.observers.append(lambda state, done: seen.update(vel=state.joint_vel[:, 2::3].clone()))
    result = env.step(torch.randn(4, 12))
    expected = -2.0 * seen["vel"].square().sum(dim=1) + 3.0 * seen["vel"].abs().sum(dim=1) + 1.0
    torch.testing.assert_close(result.reward, 0.02 * expected)
    assert {"rew_slow_knees", "rew_knee_speed", "rew_alive"} <= set(result.extras["log"])


def test_two_terms_of_one_function_have_their_own_params():
    terms = {"base_height": RewardTerm(1.0), "low": RewardTerm(1.0, "base_height", {"base_height_target": 0.1})}
    env = make(rewards=RewardConfig(terms))
    state = env.state
    for _ in range(2):
        env.step(torch.zeros(4, 12))
    heights = state.base_height.clone()
    expected = 0.02 * torch.stack(((heights - 0.3).square(), (heights - 0.1).square()))
    torch.testing.assert_close(env._rewards.compute(), expected)


def test_own_termination_ends_episodes_and_is_a_cause_of_falls():
    terms = {f"{HERE}:too_low": TerminationTerm(params={"min_height": 10.0})}
    env = make(terminations=replace(CFG.terminations, terms=terms))
    result = env.step(torch.zeros(4, 12))
    assert result.done.all() and not result.extras["time_outs"].any()
    meter = GaitMetrics(env.cfg, env.robot)
    env.observers.append(meter)
    env.step(torch.zeros(4, 12))
    assert meter.falls() == {
        **dict.fromkeys(("engine", "state", "trunk_contact", "head_contact", "tilt", "other"), 0.0), "too_low": 1.0
    }  # fmt: skip


def test_shipped_termination_that_is_none_ends_no_episode_and_is_no_cause_of_falls():
    gravity = torch.tensor([[0.0, 0.0, 1.0]] * 4)  # of robots upside down
    off = replace(CFG.terminations, terms={"tilt": None, "forbidden_contact": None})
    for terminations, fallen in ((CFG.terminations, True), (off, False)):
        env = make(terminations=terminations)
        env.state.gravity = gravity
        causes = Terminations(terminations, env.state).causes(env.state)
        assert any_of(causes, 4, torch.device("cpu")).tolist() == [fallen] * 4 and ("tilt" in causes) == fallen
    with pytest.raises(ValueError, match="there is no term 'tilt'"):
        off.with_params("tilt", max_tilt=1.0)
    assert from_dict(type(off), to_dict(off)) == off


def test_term_with_the_name_of_a_shipped_one_replaces_it():
    upright = make(terminations=replace(CFG.terminations, terms={"tilt": TerminationTerm(params={"max_tilt": 1e-4})}))
    done = torch.zeros(4, dtype=torch.bool)
    for _ in range(5):
        done |= upright.step(torch.randn(4, 12)).done
    assert done.any()


def test_own_command_source_is_drawn_observed_and_reads_the_task():
    term = CommandTerm(f"{HERE}:HeightCommands", {"low": 0.2, "high": 0.3, "resampling_time": 0.06})
    policy = CFG.observations["policy"].with_terms({f"{HERE}:height_command": ObservationTerm(scale=2.0)})
    env = make(
        commands=replace(CFG.commands, terms={**CFG.commands.terms, "height": term}),
        observations={**CFG.observations, "policy": policy},
        episode_length=0.1,
        randomization=RandomizationConfig.none(),
    )
    first = env.state.commands["height"].clone()
    assert first.shape == (4, 1) and (first >= 0.2).all() and (first <= 0.3).all()
    seen = []
    for _ in range(5):
        obs = env.step(torch.zeros(4, 12)).obs
        seen.append(env.state.commands["height"].clone())
        torch.testing.assert_close(obs["policy"][:, -1:], 2.0 * seen[-1])
    assert torch.equal(seen[1], first) and (seen[2] != first).all()  # every three steps
    assert env.commands.sources["height"].finished == 4 and (seen[4] >= 4.2).all()  # the episodes ended
    other = env.cfg.build(seed=5)
    other.load_state_dict(env.state_dict())
    for _ in range(4):
        actions = torch.randn(4, 12)
        other.commands.sources["height"].finished = env.commands.sources["height"].finished
        assert torch.equal(env.step(actions).obs["policy"], other.step(actions).obs["policy"])


def test_own_source_of_velocities_replaces_the_shipped_one_but_not_a_command_given_to_playback():
    term = CommandTerm(f"{HERE}:HeightCommands", {"low": 0.2, "high": 0.3})
    commands = replace(CFG.commands, terms={**CFG.commands.terms, "velocity": term})
    with pytest.raises(
        ValueError, match=r"env.commands.terms.velocity has 1 ranges; give those of vx, vy and yaw rate"
    ):
        make(commands=commands)
    cfg = for_playback(replace(CFG, commands=commands), 2, 1.0, (0.5, 0.0, 0.1))
    assert cfg.build().state.requested_command.tolist() == [pytest.approx([0.5, 0.0, 0.1])] * 2


def test_own_event_at_random_times_has_its_mean_period():
    term = EventTerm("interval", period=0.1, func=f"{HERE}:spin", params={"speed": 7.0})
    env = make(1000, randomization=RandomizationConfig.none().with_terms({"spin": term}))
    spun = torch.zeros(1000)
    for _ in range(4):
        result = env.step(torch.zeros(1000, 12))
        spinning = env.sim.root_ang_vel[:, 2] == 7.0
        spun += spinning
        assert torch.equal(result.obs["critic"][:, 5] == 0.25 * 7.0, spinning)
        assert torch.equal((result.obs["critic"][:, :3] == 0).all(dim=1), spinning)  # observations follow the event
    assert spun.mean().item() == pytest.approx(4 * 0.02 / 0.1, abs=0.13)  # five standard errors


def test_own_event_at_resets_runs_for_the_robots_that_start_and_is_saved():
    term = EventTerm("reset", func=f"{HERE}:Tired", params={"loss": 0.125})
    env = make(3, randomization=RandomizationConfig.none().with_terms({"tired": term}))
    env.reset([1])
    env.step(torch.zeros(3, 12))
    assert env.state.friction.tolist() == [0.875, 0.75, 0.875]
    assert env.sim.parameters()["friction"].tolist() == [0.875, 0.75, 0.875]
    other = env.cfg.build(seed=1)
    other.load_state_dict(env.state_dict())
    other.reset([0])
    assert other.state.friction.tolist() == [0.75, 0.75, 0.875]


def test_shipped_event_can_run_at_resets_for_the_robots_that_start():
    term = EventTerm("reset", func="model_parameters", params={"friction": (0.1, 0.2), "payload": (3.0, 4.0)})
    env = make(3, randomization=CFG.randomization.with_terms({"slippery": term}))
    before, gains = env.state.friction.clone(), env.sim.parameters()["stiffness"].clone()
    assert (before < 0.2).all() and (env.state.payload >= 3.0).all()
    env.reset([2])
    changed = (env.state.friction != before).tolist()
    assert changed == [False, False, True]
    assert (env.sim.parameters()["stiffness"] != gains).any(dim=1).tolist() == changed
    assert torch.equal(env.state.friction, env.sim.parameters()["friction"])


def test_evaluation_has_events_at_random_times_only_with_pushes():
    terms = {
        "spin": EventTerm("interval", period=0.1, func=f"{HERE}:spin", params={"speed": 7.0}),
        "tired": EventTerm("reset", func=f"{HERE}:Tired", params={"loss": 0.1}),
    }
    cfg = replace(CFG, randomization=CFG.randomization.with_terms(terms))
    tasks = [for_evaluation(cfg, 4, 1.0, pushes=pushes) for pushes in (False, True)]
    events = [set(task.build()._events._terms) for task in tasks]
    assert events[0] == {"model_parameters", "start_state", "tired"} == events[1] - {"push", "spin"}
    assert events[1] >= {"push", "spin"}


def test_same_function_with_other_params_is_another_observation():
    terms = {
        "first": ObservationTerm(func=f"{HERE}:low_joints", params={"first": 0}),
        "last": ObservationTerm(func=f"{HERE}:low_joints", params={"first": 9, "count": 3}),
        "again": ObservationTerm(scale=2.0, func=f"{HERE}:low_joints", params={"first": 0}),
    }
    more = {"own": ObservationGroupConfig(terms), "same": ObservationGroupConfig({"other": terms["last"]})}
    env = make(observations={**CFG.observations, **more})
    obs, joints = env.step(torch.randn(4, 12)).obs, env.state.joint_pos
    expected = torch.cat((joints[:, :2], joints[:, 9:], 2.0 * joints[:, :2]), dim=1)
    torch.testing.assert_close(obs["own"], expected)
    assert torch.equal(obs["same"], joints[:, 9:])


# Errors at construction


def own_term(kind, func, params):
    """Return changes of the task with a term of each kind, and the path of the term."""
    if kind == "reward":
        return {"rewards": RewardConfig({"own": RewardTerm(1.0, func, params)})}, "env.rewards.terms.own"
    if kind == "observation":
        term = {"own": ObservationTerm(func=func, params=params)}
        return {"observations": {"policy": ObservationGroupConfig(term)}}, "env.observations.policy.terms.own"
    if kind == "termination":
        terms = {"own": TerminationTerm(func, params)}
        return {"terminations": replace(CFG.terminations, terms=terms)}, "env.terminations.terms.own"
    if kind == "command":
        return {"commands": replace(CFG.commands, terms={"own": CommandTerm(func, params)})}, "env.commands.terms.own"
    terms = {"own": EventTerm("reset", func=func, params=params)}
    return {"randomization": CFG.randomization.with_terms(terms)}, "env.randomization.terms.own"


FUNCTIONS = {  # of each kind: function, parameter without a default, all parameters
    "reward": ("knee_speed", "power", "power, factor"),
    "observation": ("low_joints", "first", "first, count"),
    "termination": ("too_low", "min_height", "min_height"),
    "command": ("HeightCommands", "low', 'high", "low, high, resampling_time"),
    "event": ("spin", "speed", "speed"),
}


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_parameter_that_a_function_wants_and_params_lacks_is_named(kind):
    name, lacked, _ = FUNCTIONS[kind]
    changes, where = own_term(kind, f"{HERE}:{name}", {})
    with pytest.raises(
        ValueError, match=re.escape(f"{where}: {name} needs '{lacked}', which params lacks; give a value")
    ):
        make(**changes)


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_param_that_a_function_does_not_take_is_named_with_those_that_it_takes(kind):
    name, _, known = FUNCTIONS[kind]
    changes, where = own_term(kind, f"{HERE}:{name}", {"sped": 1.0})
    with pytest.raises(ValueError, match=re.escape(f"{where}.params has 'sped'; {name} takes {known}.")):
        make(**changes)


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_unknown_name_of_a_function_is_an_error_with_the_known_ones(kind):
    changes, _ = own_term(kind, "spim", {})
    with pytest.raises(ValueError, match=f"unknown {kind} term 'spim'; known: "):
        make(**changes)


@pytest.mark.parametrize(
    ("kind", "func", "message"),
    [
        ("reward", "height_command_of_none", "has no 'height_command_of_none'"),
        ("reward", "two_columns", r"the reward 'own' returns \[4, 2\]; return \[N\], here N=4"),
        (
            "termination",
            "no_mask",
            r"the termination 'own' returns torch.float32 of shape \[4\]; return \[N\] bool, N=4",
        ),
        ("command", "Forbidden", "own is a Forbidden; derive it from rsl_rl.tasks.mdp.commands"),
        ("event", "Forbidden", r"own: Forbidden has no method __call__\(mask\); write one"),
    ],
)
def test_function_that_is_no_such_term_is_refused(kind, func, message):
    with pytest.raises(ValueError, match=message):
        make(**own_term(kind, f"{HERE}:{func}", {})[0])


def two_columns(state):
    return state.joint_pos[:, :2]


def no_mask(state):
    return state.base_height


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: EventTerm("sometimes"), "mode='sometimes'; allowed: startup, reset, interval"),
        (lambda: EventTerm("interval", period=-1.0), "period=-1.0 must not be negative"),
        (lambda: EventTerm("reset", period=1.0), "period=1.0 has no effect in the mode reset; leave it out"),
        (lambda: RewardTerm(1.0, params={"sigma": float("nan")}), r"params.sigma=nan: give a finite number"),
        (lambda: RewardTerm(1.0, params={"f": [1, print]}), r"params.f\[1\]=.* is a builtin_function_or_method; give"),
        (
            lambda: RewardConfig({"trot": {"weight": "high"}}),
            "env.rewards.terms.trot.weight='high' is a str; give a number",
        ),
        (
            lambda: RewardConfig({"trot": {"wight": 1}}),
            "unknown setting 'env.rewards.terms.trot.wight'",
        ),
        (lambda: RewardConfig({"trot": {}}), "env.rewards.terms.trot.weight is missing"),
    ],
)
def test_settings_of_a_term_are_checked(build, message):
    with pytest.raises(ValueError, match=message):
        build()


# Files and flags


def with_terms() -> LeggedRobotConfig:
    low = {"low": RewardTerm(1.0, "base_height", {"base_height_target": 0.1})}
    knees = ObservationTerm(2.0, 0.1, 3, f"{HERE}:low_joints", {"first": [1, 2, {"a": None}]})
    kick = EventTerm("interval", 5.0, f"{HERE}:spin", {"speed": 1.0})
    return replace(
        CFG,
        rewards=CFG.rewards.with_terms(low),
        terminations=replace(CFG.terminations, terms={"low": TerminationTerm(f"{HERE}:too_low", {"min_height": 0.1})}),
        randomization=CFG.randomization.with_terms({"kick": kick}),
        observations={"policy": ObservationGroupConfig({"knees": knees}, history=2)},
    )


def test_terms_survive_the_config_file(tmp_path):
    write_yaml(with_terms(), tmp_path / "env.yaml")
    assert from_dict(LeggedRobotConfig, read_yaml(tmp_path / "env.yaml")) == with_terms()


def test_terms_of_mappings_are_the_same_as_of_configs():
    assert from_dict(LeggedRobotConfig, json.loads(json.dumps(to_dict(with_terms())))) == with_terms()


@dataclass(frozen=True)
class Own(Go2Flat):
    """go2_flat with own terms."""

    env: LeggedRobotConfig = field(default_factory=with_terms)


def test_flags_change_weights_params_periods_and_histories():
    flags = "--env.rewards.terms.foot_timing.weight 0.25 --env.rewards.terms.low.params.base_height_target 0.2 "
    flags += "--env.randomization.terms.kick.period 9 "
    flags += "--env.randomization.terms.kick.params.speed 3 --env.terminations.terms.low.params.min_height 0.3 "
    flags += "--env.randomization.terms.model_parameters.params.friction 0.2 1.5 "
    flags += "--env.observations.policy.history 4 --env.observations.policy.terms.knees.noise 0.3"
    env = parse(Flags, "", False, ["--task", f"{HERE}:Own", "--sim", "mujoco", *flags.split()]).cfg.env
    assert env.rewards.terms["foot_timing"].weight == 0.25
    assert env.rewards.terms["low"].params == {"base_height_target": 0.2}
    assert env.randomization.terms["model_parameters"].params["friction"] == (0.2, 1.5)
    assert env.randomization.terms["kick"] == EventTerm("interval", 9.0, f"{HERE}:spin", {"speed": 3.0})
    assert env.terminations.terms["low"].params == {"min_height": 0.3}
    assert env.observations["policy"].history == 4 and env.observations["policy"].terms["knees"].noise == 0.3


def test_events_that_a_config_does_not_name_are_the_shipped_ones():
    terms = {"spin": EventTerm("reset"), "model_parameters": EventTerm("reset", params={"friction": (0.1, 0.2)})}
    events, shipped = replace(CFG.randomization, terms=terms).terms, RandomizationConfig().terms
    assert list(events) == ["model_parameters", "start_state", "push", "spin"]
    assert events["start_state"] == shipped["start_state"] and events["push"] == shipped["push"]
    assert events["model_parameters"].mode == "reset"
    assert events["model_parameters"].params == {**shipped["model_parameters"].params, "friction": (0.1, 0.2)}


def test_parameters_of_a_term_that_is_not_there_are_refused():
    with pytest.raises(ValueError, match=r"there is no term 'kick'; give one of model_parameters, start_state, push"):
        CFG.randomization.with_params("kick", strength=1.0)

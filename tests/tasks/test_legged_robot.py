import copy
import functools
import itertools
import math
import operator
from dataclasses import replace

import mujoco
import numpy as np
import pytest
import torch

from configs import EXPERIMENTS
from configs.go2_flat import Go2Flat, go2_task, without_noise
from rsl_rl.config.mdp import (
    CommandTerm,
    ControlConfig,
    EventTerm,
    ObservationGroupConfig,
    ObservationTerm,
    RandomizationConfig,
    RewardConfig,
    RewardTerm,
    TerminationTerm,
)
from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.robots.go2 import GO2
from rsl_rl.sim.base import RobotPoseVel
from rsl_rl.tasks import faults, legged_robot
from rsl_rl.tasks.legged_robot import LeggedRobot
from rsl_rl.tasks.mdp import commands, events, rewards
from rsl_rl.tasks.mdp.events import StartState
from rsl_rl.tasks.mdp.observations import TERMS
from rsl_rl.tasks.mdp.rewards import bind_rewards

CFG = Go2Flat().env
CLOCK = {"gait_clock": CommandTerm(params={"period": 0.8})}
OF_ANY_TASK = tuple(name for name in TERMS if not name.startswith(("style", "foot_clock", "reference_")))
"""Observations that need no command source of their own."""


def make(num_envs: int = 8, seed: int = 0, **changes) -> LeggedRobot:
    return replace(CFG, num_envs=num_envs, **changes).build(seed=seed)


def randomized(event, **params):
    return {"randomization": CFG.randomization.with_params(event, **params)}


def rewarded(reward, **params):
    return {"rewards": RewardConfig({reward: RewardTerm(1.0, params=params)})}


def noiseless(cfg: LeggedRobotConfig = CFG):
    return {**cfg.observations, "policy": ObservationGroupConfig(without_noise(cfg.observations["policy"].terms))}


def groups(**terms):
    """Return the observation groups of the task with other terms of some."""
    return {**CFG.observations, **{name: ObservationGroupConfig(own) for name, own in terms.items()}}


def test_the_observation_is_what_its_terms_say():
    env = make(observations=noiseless(), randomization=RandomizationConfig.none())
    env.step(torch.randn(8, 12))
    state, obs = env.state, env.get_observations()["policy"]
    assert obs.shape == (8, 50)
    expected = torch.cat(
        (
            2.0 * state.base_lin_vel, 0.25 * state.base_ang_vel, state.gravity, 2.0 * state.command,
            state.joint_pos - env._default_joint_pos, 0.05 * state.joint_vel, state.action,
            state.commands["gait_clock"] * (state.command.norm(dim=1, keepdim=True) > CFG.commands.dead_zone),
        ),
        dim=1,
    )  # fmt: skip
    torch.testing.assert_close(obs, expected)


def test_who_is_to_move_is_said_by_the_command_that_a_step_began_with():
    env = make(64, commands=replace(CFG.commands, resampling_time=0.02, standing_fraction=0.5))
    for _ in range(3):
        near_zero = CFG.commands.dead_zone * torch.tensor([[0.0, 0.9, 0.0], [-0.7, 0.0, 0.8]]).repeat(32, 1)
        env.state.command.copy_(near_zero)
        env.step(torch.zeros(64, 12))
        assert env.state.moving.tolist() == [0.0, 1.0] * 32
        assert not torch.equal(env.state.command, near_zero)


@pytest.mark.parametrize("links", [("FL_foot", "FR_foot", "RL_foot", "RR_foot"), ("RL_foot", "trunk", "FL_thigh")])
def test_the_state_says_how_hard_links_press(links):
    env = make(64)
    env.sim.contact_force.normal_()
    env.state.refresh()
    force = env.sim.contact_force[:, [env.sim.link_names.index(link) for link in links]]
    assert torch.equal(env.state.contact_force(links), force)
    torch.testing.assert_close(env.state.contact_strength(links), force.norm(dim=-1))


def test_the_state_says_how_far_joints_may_go():
    state = make(1).state
    middle, half = state.joint_middle, state.joint_half_range
    torch.testing.assert_close(torch.stack((middle - half, middle + half), dim=1), state.sim.joint_limits)


def test_actions_of_another_precision_are_taken():
    env, other = make(), make()
    actions = 200 * torch.randn(8, 12)
    env.step(actions.double())
    other.step(actions)
    assert torch.equal(env.state.action, other.state.action) and env.state.action.abs().max() == CFG.control.action_clip


def test_noise_has_the_width_asked_for():
    terms = {"gravity": ObservationTerm(scale=2.0, noise=0.1)}
    env = make(2000, observations=groups(policy=terms), randomization=RandomizationConfig.none())
    noise = env.get_observations()["policy"] - 2.0 * env.state.gravity
    assert noise.abs().max() <= 0.2 and noise.abs().max() > 0.199


def test_noise_is_new_in_each_step_and_one_for_both_observations_of_a_step():
    env = make(observations=groups(policy={"gravity": ObservationTerm(scale=2.0, noise=0.1)}))
    drawn = []
    for _ in range(2):
        _, _, done, extras = env.step(torch.zeros(8, 12))
        assert not done.any()
        drawn.append(env.get_observations()["policy"] - 2.0 * env.state.gravity)
        torch.testing.assert_close(extras["final_obs"]["policy"], env.get_observations()["policy"])
    assert (drawn[0] - drawn[1]).abs().min() > 0


def test_groups_share_terms_and_keep_their_own_order_scale_and_noise():
    wide = {"command": ObservationTerm(), "gravity": ObservationTerm(), "joint_pos": ObservationTerm(scale=3.0)}
    turned = {"joint_pos": ObservationTerm(scale=3.0), "command": ObservationTerm(scale=2.0)}
    exact = {"gravity": ObservationTerm()}
    for (policy, critic), num_envs in itertools.product(itertools.permutations((wide, turned, exact), 2), (1, 8)):
        env = make(num_envs, observations=groups(policy=policy, critic=critic))
        env.step(torch.randn(num_envs, 12))
        for group, terms in (("policy", policy), ("critic", critic)):
            expected = [term.scale * TERMS[name].function(env.state) for name, term in terms.items()]
            assert torch.equal(env.get_observations()[group], torch.cat(expected, dim=1))
            assert env.get_observations()[group].is_contiguous()


def test_what_a_quiet_step_leaves_out_changes_nothing(monkeypatch):
    """On a CPU, steps in which no episode ends skip what cannot have changed; nothing is skipped where nobody looks."""

    def rollout():
        env = make(
            6,
            episode_length=0.5,
            observations=groups(critic={name: ObservationTerm(scale=1.5) for name in OF_ANY_TASK}),
            commands=replace(CFG.commands, resampling_time=0.06, standing_fraction=0.5, terms=CLOCK),
            randomization=CFG.randomization.with_terms({"push": EventTerm("interval", 0.1)}),
        )
        torch.manual_seed(1)
        for _ in range(40):
            yield env.step(0.5 * torch.randn(6, 12)), env.state.base_lin_vel, env.state.command.clone()

    looking = list(rollout())
    for module in (commands, events, faults, legged_robot):
        monkeypatch.setattr(module, "none_on_cpu", lambda mask: False)
    quiet = 0
    for (step, *state), (other, *others) in zip(looking, rollout()):
        quiet += not step.done.any()
        pairs = [(step.reward, other.reward), (step.done, other.done), *zip(state, others)]
        for ours, theirs in (
            (step.obs, other.obs),
            *((step.extras[name], other.extras[name]) for name in ("final_obs", "log", "invalid")),
        ):
            assert ours.keys() == theirs.keys()
            pairs += [(ours[name], theirs[name]) for name in ours]
        assert all(torch.equal(a.nan_to_num(7.0), b.nan_to_num(7.0)) for a, b in pairs)
    assert 10 < quiet < 40


def test_an_environment_leaves_torchs_threads_as_they_were(set_torchs_threads):
    env, seen = make(), []
    env.observers.append(lambda *_: seen.append(torch.get_num_threads()))
    set_torchs_threads(2)
    env.step(torch.zeros(8, 12))
    with pytest.raises(RuntimeError, match="size"):
        env.step(torch.zeros(8, 5))
    assert seen == [1] and torch.get_num_threads() == 2


def test_robots_start_within_their_bounds_with_joints_that_bend_either_way():
    context = make(5000).context
    context = replace(context, robot=replace(context.robot, default_joint_pos=(0.1, -1.0, 0.0)))
    start = StartState(context, initial_joint_scale=(0.5, 2.0), initial_velocity=0.3).draw()
    low = torch.tensor([-math.pi, *[-0.3] * 6, 0.05, -2.0, 0.0])
    high = torch.tensor([math.pi, *[0.3] * 6, 0.2, -0.5, 0.0])
    assert (start >= low).all() and (start <= high).all()
    torch.testing.assert_close(start.amin(dim=0), low, atol=0.01, rtol=0)  # 5000 draws come that near to the ends
    torch.testing.assert_close(start.amax(dim=0), high, atol=0.01, rtol=0)


def test_time_outs_come_at_the_limit_and_are_not_failures():
    env = make(episode_length=0.1, randomization=RandomizationConfig.none())
    for step in range(1, 11):
        _, _, done, extras = env.step(torch.zeros(8, 12))
        assert done.tolist() == extras["time_outs"].tolist() == [step % 5 == 0] * 8
    assert (env.episode_length_buf == 0).all()


def test_the_final_observation_is_that_of_the_episode_that_ended():
    env = make(episode_length=0.1, randomization=RandomizationConfig.none(), observations=noiseless())
    for _ in range(4):
        env.step(torch.ones(8, 12))
    command = env.state.command.clone()
    _, _, done, extras = env.step(torch.ones(8, 12))
    assert done.all()
    final, first = extras["final_obs"]["policy"], env.get_observations()["policy"]
    torch.testing.assert_close(final[:, 9:12], 2.0 * command)  # still the old command
    assert (final[:, 36:48] == 1).all() and (first[:, 36:48] == 0).all()  # and the last action; the new one has none
    assert (first[:, 24:36] == 0).all()  # joints at rest
    assert first[:, 12:24].abs().max() < 1e-6 < final[:, 12:24].abs().max()  # in the default pose


def test_draws_of_another_kind_of_device_are_refused():
    state = make().state_dict()
    with pytest.raises(ValueError, match=r"of another type of device than cpu; .*\(--fresh_episodes\)"):
        make().load_state_dict({**state, "generator": torch.zeros(16, dtype=torch.uint8)})  # a GPU's has 16 bytes


def test_load_state_dict_refuses_every_tensor_of_another_shape():
    env = make()
    state = env.state_dict()
    for path in list(tensors_of(state)):
        if path == ("generator",):
            continue
        wrong = copy.deepcopy(state)
        *parents, name = path
        entry = functools.reduce(operator.getitem, parents, wrong)
        value = entry[name]
        entry[name] = value[:1] if value.dim() else value.view(1)  # what copy_ would take for all robots
        with pytest.raises(
            ValueError, match=rf"{'.'.join(path)} has the shape \[1.* and this simulation needs \[[8\]]"
        ):
            env.load_state_dict(wrong)


def tensors_of(state, path=()):
    for name, value in state.items():
        if isinstance(value, dict):
            yield from tensors_of(value, (*path, name))
        elif isinstance(value, torch.Tensor):
            yield (*path, name)


def test_a_robot_on_its_back_has_failed():
    env = make(2, randomization=RandomizationConfig.none())
    on_its_back = torch.tensor([[0.0, 1.0, 0.0, 0.0]]).repeat(2, 1)
    zeros, pose = torch.zeros(2, 3), env._default_joint_pos.repeat(2, 1)
    pos = torch.tensor([[0.0, 0.0, 0.3]]).repeat(2, 1)
    env.sim.reset(torch.tensor([True, False]), RobotPoseVel(pos, on_its_back, zeros, zeros, pose, torch.zeros(2, 12)))
    _, _, done, extras = env.step(torch.zeros(2, 12))
    assert done.tolist() == [True, False] and not extras["time_outs"].any()


def test_commands_lie_in_their_ranges_and_change_in_time():
    commands = replace(CFG.commands, resampling_time=0.1, standing_fraction=0.25, standing_time=0.0)
    env = make(1000, commands=commands, episode_length=100.0, randomization=RandomizationConfig.none())
    first = env.state.command.clone()
    for _ in range(4):
        env.step(torch.zeros(1000, 12))
    assert torch.equal(env.state.command, first)
    env.step(torch.zeros(1000, 12))
    assert (env.state.command != first).any(dim=1).float().mean() > 0.9
    for column, (low, high) in enumerate((commands.lin_vel_x, commands.lin_vel_y, commands.yaw_rate)):
        values = env.state.command[:, column]
        assert low <= values.min() < 0.9 * low and 0.9 * high < values.max() <= high
    standing = (env.state.command == 0).all(dim=1).float().mean().item()
    assert standing == pytest.approx(0.25, abs=0.07)  # five standard errors


def test_slow_commands_are_scaled_by_a_factor_from_0_to_1_and_the_others_are_not():
    ranges = {"lin_vel_x": (1.0, 1.0), "lin_vel_y": (0.5, 0.5), "yaw_rate": (-1.0, -1.0)}
    commands = replace(CFG.commands, **ranges, standing_fraction=0.2, slow_fraction=0.5)
    command = make(2000, commands=commands).state.command
    factor = command[:, 0]
    torch.testing.assert_close(command, factor.unsqueeze(1) * torch.tensor([1.0, 0.5, -1.0]))
    assert factor.min() == 0 and factor.max() == 1
    slow = factor[(factor > 0) & (factor < 1)]
    # five standard errors of a share of 2000, of a mean and of a standard deviation of 1000
    assert len(slow) / 2000 == pytest.approx(0.5, abs=0.056)
    assert (factor == 0).float().mean().item() == pytest.approx(0.2, abs=0.045)
    assert slow.mean().item() == pytest.approx(0.5, abs=0.046)
    assert slow.std().item() == pytest.approx(12**-0.5, abs=0.021)


def test_standing_time_of_a_zero_command_is_longer_than_that_of_a_velocity():
    commands = replace(CFG.commands, resampling_time=0.04, standing_fraction=0.5, standing_time=0.1)
    env = make(200, commands=commands, episode_length=100.0, randomization=RandomizationConfig.none())
    first = env.state.command.clone()
    standing = (first == 0).all(dim=1)
    kept = []  # share of the first commands that are left after each step, of standing robots and of the others
    for _ in range(5):
        env.step(torch.zeros(200, 12))
        same = (env.state.command == first).all(dim=1)
        kept.append((same[standing].float().mean().item(), same[~standing].float().mean().item()))
    assert kept[:4] == [(1.0, 1.0), (1.0, 0.0), (1.0, 0.0), (1.0, 0.0)]
    assert kept[4][0] < 0.8  # half of the new commands are zero again


def test_a_robot_that_the_engine_lost_is_reset_counted_and_unrewarded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    env = make(4)
    env.sim.set_root_velocity(torch.tensor([True, False, False, False]), torch.full((4, 3), 1e12), torch.zeros(4, 3))
    obs, reward, done, extras = env.step(torch.zeros(4, 12))
    assert done[0] and not extras["time_outs"][0] and reward[0] == 0
    assert {cause: mask.tolist() for cause, mask in extras["invalid"].items() if mask.any()} == {
        "engine": [True, False, False, False]
    }
    for group in (*obs.values(), *extras["final_obs"].values()):
        assert torch.isfinite(group).all()


def test_episode_sums_are_logged_per_term_when_episodes_end():
    env = make(episode_length=0.1, randomization=RandomizationConfig.none())
    for _ in range(5):
        _, _, _, extras = env.step(torch.zeros(8, 12))
    log = extras["log"]
    assert set(log) >= {f"rew_{name}" for name in CFG.rewards.terms}
    terms = torch.stack([log[f"rew_{name}"] for name in CFG.rewards.terms])
    assert torch.isfinite(terms).all()
    _, _, _, extras = env.step(torch.zeros(8, 12))
    assert torch.isnan(extras["log"]["rew_track_lin_vel"]).all()  # nobody finished: nothing to say


def test_log_of_a_fall_names_its_causes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the engine writes a log
    env = make(num_envs=3, randomization=RandomizationConfig.none())
    names = [f"termination_{cause}" for cause in ("trunk_contact", "head_contact", "tilt")]
    log = env.step(torch.zeros(3, 12)).extras["log"]
    assert [name for name in log if name.startswith("termination_")] == names
    assert all(torch.isnan(log[name]).all() for name in names)  # no episode has ended

    pose = env.sim.pose_vel()
    high = pose.root_pos + torch.tensor([0.0, 0.0, 3.0])  # no contact
    upside_down = pose._replace(root_pos=high, root_quat=torch.tensor([[0.0, 1, 0, 0]]).expand(3, 4).clone())
    env.sim.reset(torch.tensor([True, False, True]), upside_down)
    env.sim.set_root_velocity(torch.tensor([False, False, True]), torch.full((3, 3), 1e12), torch.zeros(3, 3))
    result = env.step(torch.zeros(3, 12))
    log = result.extras["log"]
    assert result.done[0] and not result.done[1]
    assert [log[name][0].item() for name in names] == [0.0, 0.0, 1.0] and log["fall_rate"][0] == 1.0
    assert result.extras["invalid"]["engine"][2]  # a robot that broke is not counted
    assert all(torch.isnan(log[name][1:]).all() for name in names)


def test_log_of_a_time_out_has_no_cause():
    env = make(episode_length=0.02, randomization=RandomizationConfig.none())
    log = env.step(torch.zeros(8, 12)).extras["log"]
    assert [float(log[f"termination_{cause}"].sum()) for cause in ("trunk_contact", "head_contact", "tilt")] == [0] * 3


def test_the_reward_is_the_weighted_sum_of_the_terms():
    weights = {"track_yaw_rate": 2.0, "torques": -0.01}
    cfg = RewardConfig(only_positive=False).with_weights(weights)
    env = make(randomization=RandomizationConfig.none(), rewards=cfg)
    seen, terms = {}, bind_rewards(CFG.rewards)
    env.observers.append(lambda state, done: seen.update({name: terms[name](state) for name in weights}))
    _, reward, _, _ = env.step(torch.randn(8, 12))
    torch.testing.assert_close(reward, 0.02 * (2.0 * seen["track_yaw_rate"] - 0.01 * seen["torques"]))


def twice_alive(state, cfg):
    assert cfg.only_positive
    return 2 * rewards.alive(state)


def test_a_reward_term_of_another_package_is_found_by_its_path():
    weights = {"tests.tasks.test_legged_robot:twice_alive": 1.0}
    env = make(rewards=RewardConfig().with_weights(weights))
    _, reward, _, extras = env.step(torch.zeros(8, 12))
    torch.testing.assert_close(reward, torch.full((8,), 0.04))
    assert "rew_twice_alive" in extras["log"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rewards": RewardConfig({"track_vel": RewardTerm(1.0)})}, "'track_vel'.*Did you mean 'track_lin_vel'"),
        ({"observations": groups(policy={"gravitty": ObservationTerm()})}, "term 'gravitty'.*Did you mean 'gravity'"),
        ({"robot": "go3"}, "unknown robot 'go3'; known: anymal_c, g1, go2, h1"),
        ({"terminations": replace(CFG.terminations, contact_links=("tail",))}, r"unknown links \['tail'\]"),
    ],
)  # fmt: skip
def test_a_typo_in_a_name_fails_at_the_start(changes, words):
    with pytest.raises(ValueError, match=words):
        make(**changes)


def test_randomisation_stays_in_its_ranges_and_reaches_the_critic():
    env = make(200)
    ranges = CFG.randomization.terms["model_parameters"].params
    for name in ("friction", "payload"):
        values, (low, high) = getattr(env.state, name), ranges[name]
        assert low <= values.min() and values.max() <= high and values.std() > 0
    critic = env.get_observations()["critic"]
    assert torch.equal(critic[:, -2], env.state.friction) and torch.equal(critic[:, -1], 0.5 * env.state.payload)


def test_pushes_come_at_their_rate():
    pushes = {"push": EventTerm("interval", 0.2, params={"push_velocity": 0.5})}
    randomization = RandomizationConfig.none().with_terms(pushes)
    env = make(1000, randomization=randomization, episode_length=100.0)
    before = env.sim.root_lin_vel.clone()
    env.step(torch.zeros(1000, 12))
    pushed = ((env.sim.root_lin_vel - before)[:, :2].norm(dim=1) > 0.1).float().mean().item()
    assert pushed == pytest.approx(0.1 * (1 - 3.14 * 0.1**2 / 1.0), abs=0.05)  # 0.02 s of 0.2 s; small ones go unseen


def test_pushes_turn_the_trunk_about_each_axis():
    def turning(largest):
        params = {"push_velocity": 0.0, "push_turning": largest}
        pushes = {"push": EventTerm("interval", CFG.sim.control_dt, params=params)}  # in every step
        env = make(1000, randomization=RandomizationConfig.none().with_terms(pushes))
        env.step(torch.zeros(1000, 12))
        return env.sim.root_ang_vel.clone()

    change = turning(1.5) - turning(0.0)
    assert change.abs().max() <= 1.5 + 1e-5
    assert change.mean(dim=0).tolist() == pytest.approx([0.0] * 3, abs=0.1)
    assert change.std(dim=0).tolist() == pytest.approx([1.5 / 3**0.5] * 3, rel=0.1)  # of a uniform distribution


def test_pushes_with_a_schedule_grow_with_its_factor():
    def pushed(params):
        pushes = {"push": EventTerm("interval", CFG.sim.control_dt, params={"push_velocity": 0.5, **params})}
        env = make(16, randomization=RandomizationConfig.none().with_terms(pushes))
        changes, factors = [], []
        for _ in range(6):
            set_root_velocity = env.sim.set_root_velocity
            env.sim.set_root_velocity = lambda mask, lin_vel, ang_vel: changes.append(lin_vel - env.sim.root_lin_vel)
            factors.append(env.step(torch.zeros(16, 12)).extras["log"].get("Schedule/push"))
            env.sim.set_root_velocity = set_root_velocity
        return torch.stack(changes), factors

    whole, no_factors = pushed({})
    growing, factors = pushed({"schedule": {"steps": 4, "start": 0.2}})
    expected = torch.tensor([0.4, 0.6, 0.8, 1.0, 1.0, 1.0])  # each step advances the schedule, then pushes
    torch.testing.assert_close(growing, whole * expected.view(-1, 1, 1), atol=1e-6, rtol=0)
    assert whole.abs().max() > 0.4 and no_factors == [None] * 6
    assert [float(factor) for factor in factors] == pytest.approx([0.2, *expected[:-1].tolist()])  # of the step before


def test_one_seed_one_history():
    def history(seed):
        env = make(seed=seed)
        torch.manual_seed(0)
        return torch.stack([env.step(torch.randn(8, 12)).obs["policy"] for _ in range(10)])

    assert torch.equal(history(3), history(3)) and not torch.equal(history(3), history(4))


def test_chosen_robots_can_be_reset_from_outside():
    env = make()
    for _ in range(3):
        env.step(torch.zeros(8, 12))
    env.reset([1, 4])
    assert env.episode_length_buf.tolist() == [3, 0, 3, 3, 0, 3, 3, 3]
    env.reset()
    assert (env.episode_length_buf == 0).all()


def test_mirrored_robots_live_mirrored_lives():
    """Physics, observations and mirrors agree: a robot and its mirror image, driven by mirrored actions, stay mirror
    images. Their gait clocks are half a turn apart, since a mirror exchanges the feet of left and right."""
    commands = replace(
        CFG.commands, lin_vel_x=(0.3, 0.3), lin_vel_y=(0.0, 0.0), yaw_rate=(0.0, 0.0), standing_fraction=0.0
    )
    env = make(2, observations=noiseless(), randomization=RandomizationConfig.none(), commands=commands)
    mirrors = env.mirrors()
    zeros, quat = torch.zeros(2, 3), torch.tensor([[1.0, 0.0, 0.0, 0.0]]).repeat(2, 1)
    pos = torch.tensor([[0.0, 0.0, 0.32]]).repeat(2, 1)
    pose = env._default_joint_pos.repeat(2, 1)
    env.sim.reset(torch.ones(2, dtype=torch.bool), RobotPoseVel(pos, quat, zeros, zeros, pose, torch.zeros(2, 12)))
    phase = env.commands.sources["gait_clock"]._phase
    phase[1] = (phase[0] + 0.5) % 1.0
    for _ in range(6):
        action = 0.8 * torch.randn(1, 12)
        index, sign = mirrors["actions"]
        obs = env.step(torch.cat((action, action[:, index] * sign))).obs
        # The trunk's published inertia is skewed by up to 1.4 %, so the images part, slowly at first.
        for group in ("policy", "critic"):
            index, sign = mirrors[group]
            torch.testing.assert_close(obs[group][0, index] * sign, obs[group][1], atol=0.06, rtol=0.05)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"observations": {}}, "env.observations has no group policy; name some of action,"),
        ({"observations": groups(policy={})}, "observation group has no terms"),
        ({"rewards": RewardConfig()}, "env.rewards.terms is empty"),
        (
            rewarded("collision", collision_links=()),
            "collision has no collision_links",
        ),
        (
            rewarded("track_lin_vel", tracking_sigma=0.0),
            "env.rewards.terms.track_lin_vel.params.tracking_sigma=0.0 must",
        ),
        (rewarded("track_yaw_rate", tracking_sigma="wide"), "tracking_sigma='wide' is a str; give a number"),
        (rewarded("joint_limits", soft_joint_limit=5), r"params.soft_joint_limit=5.0 must lie in \[0, 1\]"),
        (rewarded("base_height", base_height_target=-0.1), "base_height_target=-0.1 must not be negative"),
        (rewarded("feet_air_time", air_time_target=-0.1), "air_time_target=-0.1 must not be negative"),
        (rewarded("single_stance", air_time_target=-0.1), "air_time_target=-0.1 must not be negative"),
        (rewarded("foot_clearance", foot_clearance_target=-0.1), "foot_clearance_target=-0.1 must not be negative"),
        (rewarded("collision", collision_links=("FL_calf", "FL_calf")), "collision_links=.*: name each entry once"),
        (rewarded("collision", collision_links=7), "collision.params.collision_links=7; give a list"),
        (rewarded("joint_deviation", joints=7), "joint_deviation.params.joints=7; give a list"),
        (randomized("model_parameters", payload=(-9.0, 0.0)), "takes off more than the trunk's 6.921 kg"),
        (randomized("model_parameters", friction=(1.0, 0.5)), r"params.friction=\(1.0, 0.5\): the first number"),
        (
            randomized("model_parameters", stiffness_scale=(0.0, 1.0)),
            "stiffness_scale=.*: give positive numbers",
        ),
        (randomized("push", push_velocity=-1.0), "env.randomization.terms.push.params.push_velocity=-1.0 must not be"),
        (randomized("push", push_turning=-1.0), "push_turning=-1.0 must not be negative"),
        (randomized("start_state", initial_velocity=-1.0), "initial_velocity=-1.0 must not be negative"),
        (randomized("start_state", initial_velocity="fast"), "initial_velocity='fast' is a str; give a number"),
        (
            randomized("start_state", initial_joint_scale=(1.0, 0.5)),
            "initial_joint_scale=.*: the first number",
        ),
        (randomized("model_parameters", damping_scale=(0.0, 1.0)), "damping_scale=.*: give positive numbers"),
        (randomized("model_parameters", payload=3.0), "model_parameters.params.payload=3.0; give a list"),
        (
            {"randomization": RandomizationConfig.none().with_params("push", push_velocity="fast")},
            "env.randomization.terms.push.params.push_velocity='fast' is a str; give a number",
        ),
    ],
)
def test_a_task_that_cannot_be_is_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        make(200, **changes)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: ObservationTerm(noise=-1.0), "noise=-1.0"),
        (lambda: EventTerm("interval", -1.0), "period=-1.0 must not be negative"),
        (lambda: replace(CFG.commands, standing_fraction=2.0), "standing_fraction=2.0"),
        (lambda: replace(CFG.control, damping=0.0), "control.damping=0.0 must be positive"),
        (lambda: replace(CFG.control, damping={".*": 0.0}), "control.damping={'.*': 0.0} must be positive"),
        (lambda: replace(CFG.control, stiffness={"(": 1.0}), r"control.stiffness: '\(' is not a regular expression"),
        (lambda: replace(CFG.sim, dt=0.0), "sim.dt=0.0"),
        (lambda: replace(CFG, episode_length=0.0), "episode_length=0.0"),
    ],
)
def test_settings_out_of_range_are_named(build, words):
    with pytest.raises(ValueError, match=words):
        build()


def test_gains_and_action_scale_by_pattern_reach_engine_targets_and_interface():
    control = replace(
        CFG.control,
        stiffness={".*_hip_joint": 20.0, ".*_(thigh|calf)_joint": 40.0},
        damping={".*_calf_joint": 2.0, ".*_(hip|thigh)_joint": 1.0},
        action_scale={".*_hip_joint": 0.125, ".*_(thigh|calf)_joint": 0.5},
    )
    env = make(2, control=control, randomization=CFG.randomization.none())
    stiffness, damping, scale = [20.0, 40.0, 40.0] * 4, [1.0, 1.0, 2.0] * 4, [0.125, 0.5, 0.5] * 4
    assert env.sim.parameters()["stiffness"].tolist() == [stiffness] * 2
    assert env.sim.parameters()["damping"].tolist() == [damping] * 2
    env.step(torch.full((2, 12), 2.0))
    torch.testing.assert_close(env.joint_targets[0] - env.state.default_joint_pos, 2 * torch.tensor(scale))
    described = env.describe_interface(["policy"])
    assert (described["stiffness"], described["damping"], described["action_scale"]) == (stiffness, damping, scale)
    with pytest.raises(ValueError, match=r"env\.control\.damping: the name FL_thigh_joint matches none of"):
        make(2, control=replace(CFG.control, damping={".*_(hip|calf)_joint": 1.0}))


def test_the_default_pose_of_a_task_replaces_that_of_the_robot():
    own = make(2, control=replace(CFG.control, default_joint_pos=None)).state.default_joint_pos
    control = replace(CFG.control, default_joint_pos={"R._thigh_joint": 0.9, "FL_calf_joint": -1.4})
    env = make(2, control=control, randomization=CFG.randomization.none())
    expected = own.clone()
    expected[[7, 10]], expected[2] = 0.9, -1.4
    torch.testing.assert_close(env.state.default_joint_pos, expected)
    torch.testing.assert_close(env.sim.joint_pos, expected.expand(2, -1))  # the start without randomisation
    env.step(torch.zeros(2, 12))
    torch.testing.assert_close(env.joint_targets, expected.expand(2, -1))
    assert env.describe_interface(["policy"])["default_joint_pos"] == pytest.approx(expected.tolist())
    with pytest.raises(ValueError, match=r"env\.control\.default_joint_pos: 'R_.*' matches none of FL_hip_joint"):
        make(2, control=replace(CFG.control, default_joint_pos={"R_.*": 0.9}))
    with pytest.raises(
        ValueError, match=r"default_joint_pos of FL_calf_joint is 1 rad, outside its range of -2\.72 to"
    ):
        make(2, control=replace(CFG.control, default_joint_pos={"FL_calf_joint": 1.0}))


def standing(control: ControlConfig):
    """Return the places of the feet FL, FR, RL and RR [4, 3] and of the centre of mass [3] in the default pose, with a
    level trunk."""
    model = mujoco.MjModel.from_xml_path(str(GO2.model_path))
    data = mujoco.MjData(model)
    data.qpos[7:] = make(1, control=control).state.default_joint_pos
    mujoco.mj_forward(model, data)
    return np.array([data.geom(f"{leg}_foot").xpos for leg in ("FL", "FR", "RL", "RR")]), data.subtree_com[1]


def test_the_feet_of_go2_flat_carry_almost_equal_weights_in_the_default_pose():
    feet, centre = standing(CFG.control)
    front, rear = feet[:2].mean(axis=0), feet[2:].mean(axis=0)
    share = (centre[0] - rear[0]) / (front[0] - rear[0])
    assert 0.45 < share < 0.55  # 0.6 in the robot's own pose, in which policies tip over the front feet
    assert abs(front[2] - rear[2]) < 0.005  # [m]: the trunk is level


def test_the_feet_of_go2_flat_are_further_apart_than_in_the_pose_of_the_robot():
    own, narrow, wide = (
        standing(control)[0][:, 1].reshape(2, 2) @ (1, -1)  # [m] from right to left, of front and rear feet
        for control in (replace(CFG.control, default_joint_pos=None), go2_task(hip_angle=0.1).control, CFG.control)
    )
    np.testing.assert_allclose(narrow, own, atol=0.002)  # other thighs change it a little
    np.testing.assert_allclose(wide - own, 0.06, atol=0.003)  # legs of 0.31 m, each 0.1 rad further outward


def test_which_tasks_have_a_default_pose_of_their_own_and_slow_commands():
    tasks = {name: EXPERIMENTS.load(name)().env for name in EXPERIMENTS.names()}
    robots = {name: env for name, env in tasks.items() if isinstance(env, LeggedRobotConfig)}
    endings = ("", "_blind", "_blind_mlp", "_teacher", "_distilled")
    wide = {*(f"go2_flat{ending}" for ending in endings), *(name for name in robots if name.startswith("go2_flat_mlp"))}
    narrow = {"go2_flat_robust", "go2_rough", "go2_rough_teacher", "go2_rough_student"}
    poses = {name: env.control.default_joint_pos for name, env in robots.items() if env.control.default_joint_pos}
    assert set(poses) == wide | narrow
    for tasks_of_pose, hip_angle in ((wide, 0.2), (narrow, 0.1)):
        expected = go2_task(hip_angle).control.default_joint_pos
        assert all(poses[name] == expected for name in tasks_of_pose)
    slow = {name for name, env in robots.items() if env.commands.slow_fraction}
    assert slow == {*wide, *narrow, "anymal_c_flat", "anymal_c_rough", "g1_flat"}


def never(state):
    return torch.zeros_like(state.timed_out)


def test_a_termination_of_ones_own_in_place_of_a_shipped_one_is_not_described():
    term = TerminationTerm(f"{__name__}:never")
    env = make(
        1,
        terminations=replace(
            CFG.terminations, terms={"forbidden_contact": term, "tilt": TerminationTerm(params={"max_tilt": 0.5})}
        ),
    )
    simulation = env.describe_interface(["policy"])["simulation"]
    assert "contact_links" not in simulation and simulation["max_tilt"] == 0.5


def test_the_interface_tells_the_robot_what_it_needs():
    described = make(1).describe_interface(["policy"])
    assert [(term["name"], term["size"]) for term in described["observations"]] == [
        ("base_lin_vel", 3), ("base_ang_vel", 3), ("gravity", 3), ("command", 3),
        ("joint_pos", 12), ("joint_vel", 12), ("action", 12), ("gait_clock", 2),
    ]  # fmt: skip
    assert described["commands"]["gait_clock"] == {"period": 0.5, "dead_zone": CFG.commands.dead_zone}
    assert described["control_period"] == pytest.approx(0.02) and described["joint_names"][0] == "FL_hip_joint"
    assert described["simulation"] == {
        "model": "rsl_rl/robots/go2/go2.xml", "standing_height": 0.32,
        "contact_links": ("trunk", "head"), "contact_force": 1.0, "max_tilt": 1.0,
    }  # fmt: skip
    limits, stiffness = described["joint_limits"], described["stiffness"]
    margins = [torque / gain for torque, gain in zip(described["torque_limits"], stiffness)]
    expected = [(low - margin, high + margin) for (low, high), margin in zip(limits, margins)]
    torch.testing.assert_close(torch.tensor(described["target_limits"]), torch.tensor(expected))
    assert len(make(1).describe_interface(["policy", "critic"])["observations"]) == 8 + len(
        CFG.observations["critic"].terms
    )

"""Events that randomise parameters, sensor errors, schedules and commands."""

import math
from dataclasses import replace

import pytest
import torch

from configs.go2_flat import Go2Flat
from rsl_rl.config.mdp import (
    CommandConfig,
    EventTerm,
    ObservationGroupConfig,
    ObservationTerm,
    RandomizationConfig,
    RewardConfig,
    RewardTerm,
    ScheduleConfig,
)
from rsl_rl.tasks.mdp.observations import mirrors_by_type
from rsl_rl.tasks.mdp.randomization import TERMS, RandomParameter
from rsl_rl.utils.tensors import yaw_of

CFG = Go2Flat().env
ZERO = torch.zeros(16, 12)
PARAMETER = "rsl_rl.tasks.mdp.observations:parameter"


def make(terms=None, num_envs=16, seed=0, observations=None, backend="mujoco", groups=CFG.observations, **changes):
    """The task without randomisation but ``terms``; ``observations`` are the terms of a further group."""
    cfg = replace(
        CFG,
        num_envs=num_envs,
        sim=replace(CFG.sim, backend=backend, num_threads=1),
        randomization=RandomizationConfig.none().with_terms(terms or {}),
        observations={**groups, "more": ObservationGroupConfig(observations)} if observations else groups,
        **changes,
    )
    return cfg.build("cpu", seed=seed)


def startup(**params):
    return EventTerm("startup", params=params)


def field(env, name):
    return env.sim._field(name)  # what the engine computes with; the interface only has what was set


def lift(env, height):
    """Lift the robots; a reset to a pose would also set their velocity."""
    env.sim._qpos[:, 2] += height


def test_masses_and_centre_of_mass_are_those_of_the_engine():
    env = make({
        "link_mass": startup(range={".*_thigh": (0.5, 1.5)}),
        "payload": startup(range=(-1.0, 2.0)),
        "trunk_com": startup(range={"x": (-0.05, 0.05)}),
    })  # fmt: skip
    sim, model, drawn = env.sim, env.sim.model, env.state.parameters
    factor, payload = drawn["link_mass"].double(), drawn["payload"][:, 0].double()
    thighs = [name.endswith("_thigh") for name in sim.body_names]
    assert factor[:, ~torch.tensor(thighs)].eq(1.0).all() and factor[:, thighs].std() > 0.1
    expected = torch.tensor(model.body_mass[1:]) * factor
    expected[:, 0] += payload
    torch.testing.assert_close(field(env, "body_mass")[:, 1:], expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(sim.total_mass.double(), expected.sum(dim=1), rtol=1e-6, atol=0)
    inertia = torch.tensor(model.body_inertia[1:]) * (expected / torch.tensor(model.body_mass[1:])).unsqueeze(-1)
    torch.testing.assert_close(field(env, "body_inertia")[:, 1:], inertia, rtol=1e-6, atol=0)
    com = field(env, "body_ipos")[:, 1] - torch.tensor(model.body_ipos[1])
    torch.testing.assert_close(com.float(), drawn["trunk_com"])
    assert drawn["trunk_com"][:, 0].abs().max() > 0.02 and drawn["trunk_com"][:, 1:].eq(0).all()


def test_gravity_is_the_acceleration_of_the_fall():
    env = make({"gravity_change": startup(range={"z": (-1.0, 1.0), "x": (0.5, 0.5)})})
    change = env.state.parameters["gravity_change"]
    velocity = env.sim.root_lin_vel.clone()
    env.sim.set_physics_state(env.sim.physics_state())
    lift(env, 1.0)
    env.sim.step(env.joint_targets, 4)
    torch.testing.assert_close(
        (env.sim.root_lin_vel - velocity) / 0.02, change + torch.tensor([0.0, 0.0, -9.81]), rtol=0, atol=0.4
    )  # the legs swing a little
    assert change[:, 2].std() > 0.3


def test_motor_strength_scales_gains_and_limits():
    env = make({"motor_strength": startup(range=(0.5, 0.9), same=True), "stiffness": startup(range=(0.8, 1.2))})
    strength, stiffness = (env.state.parameters[name] for name in ("motor_strength", "stiffness"))
    assert strength.eq(strength[:, :1]).all() and strength[:, 0].std() > 0.05 and stiffness.std(dim=1).min() > 0.01
    torch.testing.assert_close(field(env, "actuator_gainprm")[:, :, 0].float(), 30.0 * stiffness * strength)
    torch.testing.assert_close(field(env, "actuator_biasprm")[:, :, 2].float(), -0.75 * strength)
    torch.testing.assert_close(field(env, "actuator_forcerange")[:, :, 1].float(), env.sim.torque_limits * strength)


def test_friction_restitution_armature_and_joint_friction_reach_the_engine():
    env = make({
        "friction": startup(range=(0.2, 1.0)),
        "restitution": startup(range=(0.1, 0.4)),
        "armature": startup(range=(0.01, 0.03)),
        "joint_friction": startup(range=(0.0, 0.3)),
    })  # fmt: skip
    drawn = env.state.parameters
    torch.testing.assert_close(field(env, "pair_friction")[:, 3, 0].float(), drawn["friction"][:, 0])
    torch.testing.assert_close(env.state.friction, drawn["friction"][:, 0])
    assert field(env, "pair_solref")[:, 0, 1].argsort().tolist() == (-drawn["restitution"][:, 0]).argsort().tolist()
    torch.testing.assert_close(field(env, "dof_armature")[:, 6:].float(), drawn["armature"])
    torch.testing.assert_close(field(env, "dof_frictionloss")[:, 6:].float(), drawn["joint_friction"])


@pytest.mark.parametrize("same", [False, True])
def test_log_uniform_draws_equal_ratios_equally_often(same):
    """Each of three decades has a third of the draws; of a uniform distribution the lowest would have 0.9 %."""
    params = {"range": (0.002, 2.0), "distribution": "log_uniform", "same": same}
    env = make({"armature": startup(**params)}, num_envs=512)
    drawn = env.state.parameters["armature"]
    assert not same or torch.equal(drawn, drawn[:, :1].expand_as(drawn))
    drawn = drawn[:, 0] if same else drawn.flatten()
    assert drawn.min() >= torch.tensor(0.002) and drawn.max() <= 2.0
    shares = torch.histc(drawn.log10(), bins=3, min=math.log10(0.002), max=math.log10(2.0)) / len(drawn)
    error = 4 * math.sqrt(2 / 9 / len(drawn))  # four standard deviations of a share of one third
    assert shares.tolist() == pytest.approx([1 / 3] * 3, abs=error)


def test_log_uniform_keeps_names_without_a_pattern_at_their_nominal_value():
    """That of the dry friction of a Go2's joints is 0, which has no logarithm."""
    params = {"range": {".*_calf_joint": (0.05, 0.3)}, "distribution": "log_uniform"}
    env = make({"joint_friction": startup(**params)})
    calves = torch.tensor(["calf" in name for name in env.sim.joint_names])
    drawn, nominal = env.state.parameters["joint_friction"], env.sim.nominal_parameter("joint_friction")
    assert torch.equal(drawn[:, ~calves], nominal[~calves].expand(16, -1))
    assert (drawn[:, calves] >= torch.tensor(0.05)).all() and (drawn[:, calves] <= torch.tensor(0.3)).all()
    assert drawn[:, calves].unique().numel() > 32  # 64 draws of 65,536 values


def test_log_uniform_delays_are_those_of_the_range():
    env = make({"action_delay": startup(range=(7, 8), distribution="log_uniform")}, num_envs=64)
    assert env.state.parameters["action_delay"].unique().tolist() == [7.0, 8.0]


def test_force_pushes_the_trunk_for_its_duration():
    env = make({"push_force": EventTerm("interval", 0.1, params={"force": 40.0, "duration": (0.06, 0.06)})})
    lengths, current = [], torch.zeros(16)
    for _ in range(60):
        env.step(ZERO)
        force = env.state.parameters["trunk_force"]
        torch.testing.assert_close(env.sim.parameters()["trunk_force"], force)
        assert force[:, :2].abs().max() <= 40 and force[:, 2].eq(0).all()
        active = force.abs().sum(dim=1) > 0
        lengths += current[(current > 0) & ~active].tolist()
        current = (current + 1) * active
    assert lengths and min(lengths) >= 2
    plain = make()
    before = plain.sim.root_lin_vel.clone()
    lift(plain, 1.0)
    plain.sim.set_parameters({"trunk_force": torch.tensor([[30.0, 0.0, 0.0]]).expand(16, 3)})
    plain.sim.step(plain.joint_targets, 4)
    gained = (plain.sim.root_lin_vel - before)[:, 0].mean()
    assert float(gained) == pytest.approx(30.0 * 0.02 / float(plain.sim.total_mass[0]), rel=0.6)


def test_every_event_is_logged_and_can_be_observed_with_its_mirror_image():
    ranges = {name: (0.1, 0.2) for name in TERMS if name not in ("push_force", "action_delay")}
    terms = {name: startup(range=pair) for name, pair in {**ranges, "action_delay": (1, 2)}.items()}
    terms["push_force"] = EventTerm("interval", 1.0, params={"force": 10.0})
    names = [kind.parameter for kind in TERMS.values() if isinstance(kind, type) and issubclass(kind, RandomParameter)]
    env = make(terms, observations={name: ObservationTerm() for name in (*names, "trunk_force")})
    step = env.step(ZERO)
    # which columns are of which term is known to the group only
    parts = env._groups["more"].split(step.obs["more"][3])
    for name in names:
        torch.testing.assert_close(torch.tensor(parts[name]), env.state.parameters[name][3])
        log = {key: float(step.extras["log"][f"Randomization/{name}_{key}"]) for key in ("mean", "low", "high")}
        assert log["low"] <= log["mean"] <= log["high"] and log["mean"] == float(env.state.parameters[name].mean())
    strength = mirrors_by_type(env.robot)["joint_factors"]
    assert strength[0] == env.robot.mirrored_joints and set(strength[1]) == {1.0}


def test_observation_of_a_parameter_that_is_not_randomised_is_its_nominal_value():
    env = make(observations={"motor_strength": ObservationTerm(), "trunk_force": ObservationTerm()})
    assert env.get_observations()["more"][0].tolist() == [1.0] * 12 + [0.0] * 3
    with pytest.raises(ValueError, match=r"parameter 'motor'; known: friction, .*Did you mean 'motor_strength'"):
        make(observations={"friction": ObservationTerm(func=PARAMETER, params={"name": "motor"})})


def test_modes_draw_at_their_times_for_the_robots_concerned():
    env = make({"friction": EventTerm("reset", params={"range": (0.2, 1.0)}), "payload": startup(range=(0.0, 1.0))})
    friction, payload = env.state.friction.clone(), env.state.payload.clone()
    env.reset([3, 5])
    assert (env.state.friction != friction).nonzero().flatten().tolist() == [3, 5]
    assert torch.equal(env.state.payload, payload)


def test_schedule_by_steps_widens_a_range_from_its_nominal_value():
    terms = {"payload": EventTerm("reset", params={"range": (2.0, 2.0), "schedule": {"steps": 10, "start": 0.5}})}
    env = make(terms)
    assert env.state.payload.tolist() == [1.0] * 16
    for _ in range(5):
        env.step(ZERO)
    env.reset()
    torch.testing.assert_close(env.state.payload, torch.full((16,), 1.5))
    assert float(env.step(ZERO).extras["log"]["Randomization/payload_schedule"]) == pytest.approx(0.75)


def test_schedule_by_tracking_grows_only_while_commands_are_followed():
    still = CommandConfig(
        terms=CFG.commands.terms, standing_fraction=1.0, schedule=ScheduleConfig(steps=10, tracking=0.05)
    )
    fast = CommandConfig(
        terms=CFG.commands.terms,
        lin_vel_x=(3.0, 3.0),
        schedule=ScheduleConfig(steps=10, start=1.0, end=2.0, tracking=0.9),
    )
    factors = []
    for commands in (still, fast):
        env = make(commands=commands)
        for _ in range(40):
            log = env.step(ZERO).extras["log"]
        factors.append(float(log["Schedule/velocity_commands"]))
    assert factors == [1.0, 1.0]  # the first has grown from 0, the second not at all
    assert env.commands.sources["velocity"].state_dict()["progress"] == 0


@pytest.mark.parametrize(("terms", "width"), [({"near": 0.5, "track_lin_vel": 0.3}, 0.5), ({}, 0.25)])
def test_tracking_score_of_a_schedule_has_the_width_of_the_first_reward_that_has_one(terms, width):
    rewards = {name: RewardTerm(1.0, "track_lin_vel", {"tracking_sigma": sigma}) for name, sigma in terms.items()}
    rewards = RewardConfig({"alive": RewardTerm(1.0), **rewards})
    commands = CommandConfig(
        terms=CFG.commands.terms, lin_vel_x=(1.0, 1.0), schedule=ScheduleConfig(steps=10, start=1.0, tracking=0.9)
    )
    env = make(commands=commands, rewards=rewards)
    env.step(ZERO)
    schedule, state = env.commands.sources["velocity"]._schedule, env.state
    lin_error = (state.command[:, :2] - state.base_lin_vel[:, :2]).square().sum(dim=1)
    yaw_error = (state.command[:, 2] - state.base_ang_vel[:, 2]).square()
    tracking = ((-lin_error / width).exp() + (-yaw_error / width).exp()).mean() / 2
    assert float(schedule.score) == pytest.approx(float(tracking) * env.cfg.sim.control_dt / 5.0, rel=1e-4)


def test_command_schedule_scales_the_ranges():
    env = make(
        num_envs=256,
        commands=CommandConfig(
            terms=CFG.commands.terms, standing_fraction=0.0, schedule=ScheduleConfig(steps=10, start=0.2)
        ),
    )
    assert 0.15 < env.state.command[:, 0].abs().max() <= 0.2


def test_heading_commands_turn_the_robot_to_the_heading():
    env = make(
        commands=CommandConfig(terms=CFG.commands.terms, heading_fraction=0.5, heading_gain=0.7, standing_fraction=0.2)
    )
    heading = env.commands.sources["velocity"].state_dict()["heading"]
    assert 0 < heading.isnan().sum() < 16
    env.step(ZERO)
    heading = env.commands.sources["velocity"].state_dict()["heading"]
    angle = heading - yaw_of(env.sim.root_quat)
    angle = torch.atan2(angle.sin(), angle.cos())
    expected = (0.7 * angle).clamp(-1.0, 1.0)
    turning = ~heading.isnan()
    torch.testing.assert_close(env.state.command[turning, 2], expected[turning], atol=1e-5, rtol=0)
    env.reset()
    assert env.state.command.eq(0).all(dim=1).any()


def test_dead_zone_is_the_largest_command_to_stand():
    env = make(commands=CommandConfig(terms=CFG.commands.terms, dead_zone=0.05))
    env.state.command[:] = torch.tensor([0.04, 0.0, 0.0])
    env.state.command[1, 0] = 0.06
    env.state.refresh()
    assert env.state.moving[:3].tolist() == [0.0, 1.0, 0.0]


def test_bias_is_constant_during_an_episode_and_delay_gives_earlier_values():
    biased = ObservationTerm(bias=0.5, scale=2.0, func="joint_pos")
    late = ObservationTerm(delay=(0, 3), func="joint_pos")
    env = make(num_envs=64, observations={"biased": biased, "late": late, "joint_pos": ObservationTerm()})
    env.reset()
    errors = env._groups["more"].errors  # the drawn delays are not observed
    delay, rows = errors._delay[:, 1], torch.arange(64)
    assert set(delay.tolist()) == {0, 1, 2, 3}
    true, biases = [env.get_observations()["more"][:, 24:]], []
    generator = torch.Generator().manual_seed(0)
    for _ in range(6):
        step = env.step(0.3 * torch.randn(64, 12, generator=generator))
        assert not step.done.any()
        true.append(step.obs["more"][:, 24:])
        biases.append(step.obs["more"][:, :12] - 2 * true[-1])
        history = torch.stack([true[max(0, len(true) - 1 - k)] for k in range(4)])  # newest first
        torch.testing.assert_close(step.obs["more"][:, 12:24], history[delay, rows])
        torch.testing.assert_close(step.extras["final_obs"]["more"], step.obs["more"])
    assert torch.stack(biases).std(dim=0).max() < 1e-5
    assert 0.9 < biases[0].abs().max() <= 1.0
    env.reset([0])
    assert torch.equal(env.get_observations()["more"][0, 12:24], env.get_observations()["more"][0, 24:])
    torch.testing.assert_close(env.get_observations()["more"][1:], step.obs["more"][1:])


def everything():
    """A task with many random terms."""
    terms = {
        "motor_strength": EventTerm("reset", params={"range": (0.8, 1.2), "schedule": {"steps": 30, "tracking": 0.1}}),
        "link_mass": EventTerm("reset", params={"range": (0.9, 1.1)}),
        "trunk_com": startup(range=(-0.02, 0.02)),
        "restitution": startup(range=(0.0, 0.3)),
        "gravity_change": EventTerm("interval", 0.2, params={"range": (-0.2, 0.2)}),
        "encoder_offset": EventTerm("reset", params={"range": (-0.02, 0.02)}),
        "push_force": EventTerm("interval", 0.3, params={"force": 30.0}),
        "push": EventTerm("interval", 0.3, params={"push_velocity": 0.5, "schedule": {"steps": 60}}),
    }
    policy = CFG.observations["policy"]
    late = {name: replace(term, bias=0.02, delay=(0, 2)) for name, term in policy.terms.items()}
    groups = {**CFG.observations, "policy": policy.with_terms(late)}
    commands = CommandConfig(
        terms=CFG.commands.terms, heading_fraction=0.5, schedule=ScheduleConfig(steps=50, start=0.3, tracking=0.1)
    )
    return lambda seed: make(terms, seed=seed, groups=groups, commands=commands)


def test_equal_seeds_give_equal_bits_and_resume_is_exact():
    build, generator = everything(), torch.Generator().manual_seed(0)
    first, second, resumed = build(1), build(1), build(2)
    actions = 0.4 * torch.randn(40, 16, 12, generator=generator)
    for action in actions[:20]:
        first.step(action)
        second.step(action)
    resumed.load_state_dict(first.state_dict())
    for action in actions[20:]:
        steps = [env.step(action) for env in (first, second, resumed)]
        for other in steps[1:]:
            assert all(torch.equal(other.obs[name], value) for name, value in steps[0].obs.items())
            assert torch.equal(other.reward, steps[0].reward)


def test_restitution_is_the_ratio_of_speeds_of_a_fall():
    """A rigid robot without legs to bend would bounce so; here the trunk's speed of a stiff robot, roughly."""
    ups = []
    for restitution in (0.01, 0.6):
        env = make({"restitution": startup(range=(restitution, restitution))}, num_envs=1)
        lift(env, 0.1)
        speeds = []
        for _ in range(60):
            env.sim.step(env.joint_targets[:1], 1)
            speeds.append(float(env.sim.foot_vel[0, :, 2].mean()))
        ups.append(max(speeds[20:]))
    assert ups[1] > 1.3 * ups[0]


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"friction": startup(range=(1.0, 0.5))}, r"range=\(1.0, 0.5\): the first number must not exceed the sec"),
        ({"friction": startup(range=(-1.0, 0.5))}, "give numbers from 0"),
        ({"friction": startup(range=(0, 1), distribution="log_uniform")}, "log_uniform' needs numbers above 0"),
        ({"friction": startup(range=(0.1, 1), distribution="log")}, "distribution='log': give uniform or log_uniform"),
        ({"friction": startup(range=3)}, r"friction.params.range=3; give a list"),
        ({"motor_strength": startup(range={"knee": (1, 1)})}, "motor_strength: 'knee' matches none of FL_hip_joint"),
        ({"action_delay": startup(range=(0.5, 1))}, "give whole physics steps"),
        ({"payload": startup(range=(0, 1), schedule={"stepz": 3})}, "unknown setting .*stepz"),
        ({"payload": startup(range=(0, 1), schedule={"steps": -1})}, "steps=-1: give a whole number"),
        ({"payload": startup()}, "needs 'range'"),
    ],
)
def test_event_that_cannot_be_is_refused(terms, words):
    with pytest.raises(ValueError, match=words):
        make(terms)


def test_engine_that_lacks_a_parameter_is_named(monkeypatch):
    from rsl_rl.sim.mujoco_cpu import MujocoSim

    setters = MujocoSim._setters  # an engine that lacks one is made from one that has all
    monkeypatch.setattr(
        MujocoSim, "_setters", lambda sim: {k: v for k, v in setters(sim).items() if k != "restitution"}
    )
    with pytest.raises(ValueError, match="restitution: the engine 'mujoco' cannot set 'restitution'; it sets armature"):
        make({"restitution": startup(range=(0.0, 0.3))})
    assert math.isfinite(float(make().sim.total_mass[0]))

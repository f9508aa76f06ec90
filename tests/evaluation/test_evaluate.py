import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from configs.go2_flat import Go2Flat
from configs.go2_rough import rough_task
from rsl_rl.config.mdp import (
    CommandConfig,
    EventTerm,
    ObservationGroupConfig,
    ObservationTerm,
    RandomizationConfig,
    ScheduleConfig,
)
from rsl_rl.evaluation.conditions import DISTURBANCES, disturbed, for_evaluation, for_standing
from rsl_rl.evaluation.curriculum import for_curriculum, measure_level, require_curriculum
from rsl_rl.evaluation.evaluate import (
    STANDING_METRICS,
    EvalResult,
    SeedResult,
    bootstrap_interval,
    differences,
    evaluate,
    evaluate_seed,
    measure_drift,
    unmet_criteria,
)
from rsl_rl.evaluation.gait_metrics import AXES, CommandBins, GaitMetrics, merge_bins
from rsl_rl.robots.go2 import GO2
from rsl_rl.tasks.robot_state import RobotState

CFG = Go2Flat().env


class Still:
    """Holds the standing pose."""

    def __init__(self, action=0.0):
        self.action, self.resets = action, 0

    def __call__(self, obs):
        return torch.full((len(obs["policy"]), 12), self.action)

    def reset(self, dones=None):
        self.resets += 1


def test_the_gate_measures_a_robot_that_stands():
    """Told to walk at a fixed velocity, a robot that stands still misses by exactly that velocity."""
    commands = replace(CFG.commands, lin_vel_x=(0.6, 0.6), lin_vel_y=(-0.8, -0.8), yaw_rate=(0.5, 0.5))
    cfg = for_evaluation(replace(CFG, commands=commands), num_envs=16, seconds=2.0)
    cfg = replace(cfg, randomization=RandomizationConfig.none())
    policy = Still()
    result = evaluate(cfg.build(), policy, seconds=2.0)
    assert result["fall_rate"] == 0 and policy.resets == 101
    assert result["lin_vel_error"] == pytest.approx(1.0, abs=0.03)  # |(0.6, -0.8)|, less what settling down moves
    assert result["yaw_rate_error"] == pytest.approx(0.5, abs=0.03)
    assert result["action_rate"] == 0 and result["duty_factor"] > 0.9 and 1 < result["mean_torque"] < 6


def test_disturbance_replaces_the_randomisation_of_the_training():
    randomization = RandomizationConfig().with_params("model_parameters", friction=(0.1, 2.0))
    randomization = randomization.with_params("push", push_velocity=3.0)
    task = replace(CFG, randomization=randomization, sim=replace(CFG.sim, contact_impedance=0.999))
    same = [disturbed(for_evaluation(cfg, 4, 1.0), "heavy_trunk+slippery+delay").build() for cfg in (CFG, task)]
    assert same[0].sim.model.pair_solimp.tolist() == same[1].sim.model.pair_solimp.tolist()
    for env in same:
        assert env.state.payload.tolist() == [5.0] * 4 and env.state.friction.tolist() == pytest.approx([0.15] * 4)
        assert env.state.parameters["action_delay"].eq(4).all()  # physics steps of 5 ms
        assert env.cfg.randomization.terms["push"].period == 0
    weak = disturbed(for_evaluation(CFG, 4, 1.0), "weak_motors+pushes").build()
    assert weak.sim.parameters()["motor_strength"].eq(0.6).all() and weak.cfg.randomization.terms["push"].params == {
        "push_velocity": 1.5,
        "push_turning": 0.0,
    }
    assert all(disturbed(CFG, name) for name in DISTURBANCES)
    with pytest.raises(ValueError, match=r"--disturbance heavy: known: none, .* Did you mean 'heavy_trunk'"):
        disturbed(CFG, "heavy")


def test_evaluation_uses_the_end_of_schedules_and_no_bias():
    events = {"payload": EventTerm("startup", params={"range": (2.0, 2.0), "schedule": {"steps": 100, "end": 0.5}})}
    biased = {name: replace(term, bias=1.0) for name, term in CFG.observations["policy"].terms.items()}
    observations = {**CFG.observations, "policy": ObservationGroupConfig(biased)}
    commands = replace(CFG.commands, schedule=ScheduleConfig(steps=10))
    task = replace(CFG, observations=observations, commands=commands)
    env = for_evaluation(replace(task, randomization=RandomizationConfig.none().with_terms(events)), 4, 1.0).build()
    assert env.state.payload.tolist() == [1.0] * 4 and env.state.command.abs().max() > 0
    assert not env._groups["policy"].errors.is_needed


def test_an_actor_is_evaluated_without_noise_whatever_group_it_reads():
    noisy = ObservationGroupConfig({"joint_vel": ObservationTerm(noise=1.5, bias=0.1)})
    quiet = ObservationGroupConfig({"joint_vel": ObservationTerm()})
    tasks = [replace(CFG, observations={**CFG.observations, "critic": x, "own": x}) for x in (noisy, quiet)]
    obs, expected = (for_evaluation(cfg, 4, 1.0).build().get_observations() for cfg in tasks)
    for name in ("critic", "own"):
        assert torch.equal(obs[name], expected["critic"])


def test_drift_of_standing_robots_is_their_way_in_ten_seconds():
    env = for_standing(for_evaluation(replace(CFG, randomization=RandomizationConfig.none()), 4, 1.0)).build()
    result = measure_drift(env, Still())
    assert result["standing_falls"] == 0 and result["standing_drift"] <= result["standing_drift_max"] < 0.02
    assert env.state.command.eq(0).all() and set(result) == set(STANDING_METRICS)


class Climber(Still):
    """Holds the standing pose and moves up by one level every fifth step."""

    def __init__(self, env):
        super().__init__()
        self.env, self.steps = env, 0

    def __call__(self, obs):
        self.steps += 1
        self.env.levels.level.fill_(self.steps // 5)
        return super().__call__(obs)


def test_level_is_the_mean_after_the_time_to_reach_it():
    task = replace(rough_task(), num_envs=4, episode_length=0.04)
    task = replace(task, terrain=replace(task.terrain, num_levels=4, promotion_distance=100.0, demotion_share=0.0))
    env = for_curriculum(for_evaluation(task, 4, 1.0), task).build()
    assert env.levels.level.tolist() == [0] * 4 and env.max_episode_length == 2
    assert env.cfg.commands.resampling_time == task.commands.resampling_time
    result = measure_level(env, Climber(env))
    assert result == {"terrain_level": 2.5}  # the last 4 of 16 steps have the levels 2, 2, 3, 3


def test_curriculum_needs_levels():
    with pytest.raises(ValueError, match="--curriculum: robots do not move between levels here; take a task"):
        require_curriculum(CFG)
    assert require_curriculum(rough_task()) == rough_task()


def test_falls_are_counted():
    cfg = for_evaluation(CFG, num_envs=8, seconds=2.0)
    env = cfg.build()
    walk = evaluate_seed(env, Still(action=6.0), seconds=2.0)  # folds its legs
    assert walk.metrics["fall_rate"] >= 1.0 and env.observers == []
    assert sum(walk.falls.values()) == pytest.approx(walk.metrics["fall_rate"])
    assert walk.falls["other"] == walk.falls["engine"] == walk.falls["state"] == 0  # every failure has its name
    assert walk.recording["command"].shape == (100, 1, 3)


def test_the_gate_is_without_noise_and_pushes():
    cfg = for_evaluation(CFG, 4, 20.0)
    assert all(term.noise == 0 for term in cfg.observations["policy"].terms.values())
    assert cfg.randomization.terms["push"].period == 0 and cfg.commands.standing_fraction == 0
    assert cfg.randomization.terms["model_parameters"] == CFG.randomization.terms["model_parameters"]
    whole = {**CFG.randomization.terms["push"].params["schedule"], "steps": 0}  # as at the end of the training
    pushed = CFG.randomization.with_params("push", schedule=whole)
    assert for_evaluation(CFG, 4, 20.0, pushes=True).randomization == pushed


@pytest.mark.parametrize(("periods", "changes"), [({}, 0), ({"command_period": 0.1}, 3)])
def test_evaluation_changes_commands_after_its_period(periods, changes):
    env = for_evaluation(CFG, num_envs=4, seconds=0.4, **periods).build(seed=1)
    commands = [env.state.requested_command.clone()]
    for _ in range(19):  # 0.38 s
        env.step(torch.zeros(4, env.num_actions))
        commands.append(env.state.requested_command.clone())
    assert sum(not torch.equal(a, b) for a, b in zip(commands, commands[1:])) == changes


def test_every_repetition_has_to_pass():
    limits = {"a": 1.0}
    assert unmet_criteria([{"a": 0.5}, {"a": 1.0}], limits) == []
    assert unmet_criteria([{"a": 0.5}, {"a": 1.5}], limits) == ["a 1.5000 > 1.0"]
    assert unmet_criteria([{"a": float("nan")}], limits) == ["a nan > 1.0"]


class StillState(SimpleNamespace):
    planar_velocity = RobotState.planar_velocity


def still_state(num_envs=2):
    """Robots that stand upright in the air and do nothing."""

    def zeros(*shape):
        return torch.zeros(num_envs, *shape)

    sim = SimpleNamespace(
        joint_names=tuple(f"joint_{i}" for i in range(12)),
        torque_limits=torch.full((12,), 20.0),
        total_mass=torch.full((num_envs,), 15.0),
        diverged=zeros().bool(),
        overflowed=zeros().bool(),
        root_pos=zeros(3),
        root_quat=zeros(4),
        root_lin_vel=zeros(3),
        root_ang_vel=zeros(3),
        joint_pos=zeros(12),
        joint_vel=zeros(12),
    )
    forces = {link: zeros() for link in CFG.terminations.contact_links}
    return StillState(
        sim=sim,
        control_dt=0.02,
        command=zeros(3),
        requested_command=zeros(3),
        action=zeros(12),
        previous_action=zeros(12),
        base_lin_vel=zeros(3),
        base_ang_vel=zeros(3),
        gravity=torch.tensor([0.0, 0.0, -1.0]).repeat(num_envs, 1),
        joint_torque=zeros(12),
        joint_vel=sim.joint_vel,
        foot_contact=zeros(4).bool(),
        foot_touchdown=zeros(4).bool(),
        foot_height=zeros(4),
        foot_vel=zeros(4, 3),
        air_time=zeros(4),
        timed_out=zeros().bool(),
        forces=forces,
        contact_strength=lambda links: torch.stack([forces[link] for link in links], dim=1),
    )


NOBODY = torch.zeros(2, dtype=torch.bool)


def test_each_number_of_a_gait_has_its_paper_answer():
    """Two robots, 10 steps: 2 N m on every joint at 3 rad/s, at 0.5 m/s, one foot of four down and sliding."""
    meter, state = GaitMetrics(CFG, GO2), still_state()
    state.joint_torque[:], state.joint_vel[:] = -2.0, 3.0
    state.joint_torque[0, 0] = 20.0  # at its limit
    state.base_lin_vel[:, 0] = 0.5
    state.foot_contact[:, 2] = True
    state.foot_vel[:, :, 1] = 0.1 * torch.arange(1, 5)  # only the third touches
    for step in range(10):
        state.foot_touchdown[:, 1] = step in (3, 8)
        state.foot_height[:, 1] = GO2.foot_radius + (0.06 if step == 2 else 0.0)
        meter(state, NOBODY)
    result = meter.result()
    assert result["torque_saturation"] == pytest.approx(1 / 24)
    assert list(meter.saturation().values()) == pytest.approx([0.5, *[0.0] * 11])  # by joint: one robot of two
    assert result["mean_torque"] == pytest.approx((23 * 2 + 20) / 24)
    power = (23 * 2 + 20) * 3 / 2  # [W] a robot
    assert result["cost_of_transport"] == pytest.approx(power / (15 * 9.81 * 0.5), rel=1e-5)
    assert result["foot_slip"] == pytest.approx(0.3)
    assert result["duty_factor"] == pytest.approx(1 / 4)
    assert result["step_frequency"] == pytest.approx(2 / 4 / 0.2)  # two touchdowns of one foot of four in 0.2 s
    assert result["swing_height"] == pytest.approx(0.06)
    assert result["lin_vel_error"] == pytest.approx(0.5) and result["fall_rate"] == 0
    assert set(result) == set(GaitMetrics.NAMES)


def test_action_jerk_is_the_second_difference_of_the_target():
    actions, falls = torch.randn(30, 2, 12), torch.rand(30, 2) < 0.2
    meter, state = GaitMetrics(CFG, GO2), still_state()
    targets = [[torch.zeros(12)] * 2 for _ in range(2)]  # by robot; before an episode, the default pose
    squares = []
    for action, done in zip(actions, falls):
        state.previous_action.copy_(state.action)
        state.action.copy_(action)
        meter(state, done)
        for robot in range(2):
            targets[robot].append(0.25 * action[robot])
            a, b, c = targets[robot][-3:]
            squares.append((c - 2 * b + a).square())
            if done[robot]:
                targets[robot] = [torch.zeros(12)] * 2
        state.action.masked_fill_(done.unsqueeze(1), 0.0)  # as the environment does
    assert falls.any()
    assert meter.result()["action_jerk"] == pytest.approx(torch.stack(squares).mean().sqrt().item(), rel=1e-5)


def test_a_steady_change_has_no_jerk():
    meter, state = GaitMetrics(CFG, GO2), still_state()
    for step in range(4):
        state.previous_action[:], state.action[:] = step, step + 1
        meter(state, NOBODY)
    assert meter.result()["action_rate"] == pytest.approx(0.25)
    assert meter.result()["action_jerk"] == pytest.approx(0.25 * math.sqrt(1 / 4))  # the start alone, from rest


def test_a_fall_is_booked_under_the_first_cause_that_holds():
    meter, state = GaitMetrics(CFG, GO2), still_state(8)
    state.gravity[[0, 2, 4, 5]] = torch.tensor([1.0, 0.0, 0.0])  # on the side
    state.sim.diverged[0] = True
    state.sim.root_pos[1] = math.nan
    state.forces["trunk"][[2, 3]] = 30.0
    state.forces["head"][3] = 30.0
    state.forces["head"][7] = 0.5  # less than what counts
    done = torch.tensor([True, True, True, True, True, False, False, True])
    meter(state, done)
    expected = {"engine": 1, "state": 1, "trunk_contact": 2, "head_contact": 0, "tilt": 1, "other": 1}
    assert meter.falls() == {cause: count / 8 for cause, count in expected.items()}
    assert list(meter.falls()) == list(expected) and meter.result()["fall_rate"] == 6 / 8


def test_command_bins_agree_with_a_loop():
    cfg = CommandConfig(lin_vel_x=(-1.0, 1.0), lin_vel_y=(0.3, 0.3), yaw_rate=(0.0, 2.0))
    bins, samples = CommandBins(cfg), []
    for _ in range(3):
        command, measured, errors = (
            torch.rand(50, 3) * 2 - torch.tensor([1.0, 0, 0]),
            torch.randn(50, 3),
            torch.rand(50, 2),
        )
        command[:, 1] = 0.3
        command[0], command[1] = torch.tensor([-1.0, 0.3, 0.0]), torch.tensor([1.0, 0.3, 2.0])  # the ends belong
        bins.add(command, measured, errors[:, 0], errors[:, 1])
        samples += zip(command.tolist(), measured.tolist(), errors.tolist())
    result = bins.result()
    assert [(b.axis, b.low, b.high) for b in result if b.axis != "yaw_rate"] == [
        *(("lin_vel_x", low, high) for low, high in ((-1, -0.6), (-0.6, -0.2), (-0.2, 0.2), (0.2, 0.6), (0.6, 1))),
        ("lin_vel_y", 0.3, 0.3),
    ]
    for one in result:
        i = AXES.index(one.axis)
        inside = [s for s in samples if one.low <= s[0][i] < one.high or s[0][i] == one.high or one.low == one.high]
        assert one.samples == len(inside) > 0
        columns = ([s[0][i] for s in inside], [s[1][i] for s in inside], *zip(*(s[2] for s in inside)))
        for mean, column in zip(one[4:], columns):
            assert mean == pytest.approx(sum(column) / len(column), rel=1e-4, abs=1e-5)


def test_pooled_bins_are_those_of_all_samples_together():
    cfg = CommandConfig(lin_vel_x=(-1.0, 1.0), lin_vel_y=(-1.0, 1.0), yaw_rate=(-1.0, 1.0))
    together, halves = CommandBins(cfg), [CommandBins(cfg), CommandBins(cfg)]
    for half, num_robots in zip(halves, (5, 60)):  # in the first, some bins stay empty
        step = (torch.rand(num_robots, 3) - 0.5, torch.randn(num_robots, 3), *torch.rand(2, num_robots))
        half.add(*step)
        together.add(*step)
    pooled = merge_bins([half.result() for half in halves])
    assert any(one.samples == 0 and math.isnan(one.lin_vel_error) for one in halves[0].result())
    for one, other in zip(pooled, together.result()):
        assert one[:4] == other[:4] and one[4:] == pytest.approx(other[4:], nan_ok=True)


@pytest.mark.parametrize(
    ("values", "interval"),
    [
        ([0.4] * 5, (0.4, 0.4)),
        ([0.0, 1.0], (0.0, 1.0)),  # a quarter of the draws is twice the same, at either end
        ([0.0] * 9 + [1.0], (0.0, 0.3)),  # ones in ten draws: P(0) = 0.35, P(<= 2) = 0.930, P(<= 3) = 0.987
    ],
)
def test_bootstrap_intervals_known_on_paper(values, interval):
    assert bootstrap_interval(values) == pytest.approx(interval)


def test_the_interval_of_many_values_is_the_normal_one():
    values = torch.randn(400, generator=torch.Generator().manual_seed(1)).double()
    half = 1.96 * values.std(correction=0).item() / 20
    low, high = bootstrap_interval(values.tolist())
    assert (low, high) == pytest.approx((values.mean().item() - half, values.mean().item() + half), abs=0.01)


def test_a_judgement_sums_its_repetitions_up():
    def eval_result(*errors, cfg=CFG):
        walks = [SeedResult({"lin_vel_error": error}, {"tilt": error / 2}, [], {}) for error in errors]
        return EvalResult("a", "model_1.pt", 10, cfg, (), walks)

    one = eval_result(0.1, 0.2)
    assert one.metrics == pytest.approx({"lin_vel_error": 0.15}) and one.falls == pytest.approx({"tilt": 0.075})
    assert one.intervals == {"lin_vel_error": (0.1, 0.2)} and eval_result(0.1).intervals == {}
    gate = replace(CFG, gate={"lin_vel_error": 0.15})
    assert eval_result(0.1, 0.2, cfg=gate).unmet == ["lin_vel_error 0.2000 > 0.15"]  # each seed for itself
    assert differences([one, eval_result(0.3)]) == []
    assert differences([one, eval_result(0.3, cfg=gate)]) == ["gate"]
    conditions = [replace(one, disturbance="none"), replace(eval_result(0.3, cfg=gate), disturbance="pushes")]
    assert differences(conditions) == []  # each is compared with results under its own disturbance

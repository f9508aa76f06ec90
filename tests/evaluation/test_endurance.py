"""Endurance: which robots fail under a joystick, the time between failures, dead zones and drift."""

import math
from dataclasses import replace

import pytest
import torch

from configs.go2_flat import Go2Flat
from rsl_rl.config.mdp import CommandTerm, RandomizationConfig
from rsl_rl.evaluation import endurance, endurance_report
from rsl_rl.evaluation.conditions import disturbed
from rsl_rl.evaluation.endurance import (
    DIRECTIONS,
    FAILURES,
    PUSHES,
    SIZES,
    Endurance,
    FailureJudge,
    JoystickResult,
    SmallCommands,
    dead_zone,
    evaluate_joystick,
    for_endurance,
    for_small_commands,
    measure_endurance,
    measure_small_commands,
    merge,
    poisson_interval,
    with_pushes,
)
from rsl_rl.evaluation.endurance_report import endurance_html, failure_rows, small_command_rows
from rsl_rl.evaluation.evaluate import EvalResult, SeedResult
from rsl_rl.tasks.mdp.commands import JoystickCommands
from rsl_rl.viz.video import VideoError
from tests.kill_and_resume import same

CFG = Go2Flat().env
DT = 0.02


class Still:
    """Holds the standing pose."""

    def __init__(self):
        self.resets = []

    def __call__(self, obs):
        return torch.zeros(len(obs["policy"]), 12)

    def reset(self, dones=None):
        self.resets.append(None if dones is None else dones.clone())


def judged(commands, velocities, falls=()):
    """Return (kind, time [s]) of the failures of one robot, whose commands and velocities are given for each step."""
    judge = FailureJudge(1, DT)
    found = []
    for i, (command, velocity) in enumerate(zip(commands, velocities), start=1):
        kinds = judge(torch.tensor([command]), torch.tensor([velocity]), torch.tensor([i in falls]))
        assert kinds.sum() <= 1
        found += [(FAILURES[k], round(i * DT, 2)) for k in kinds[:, 0].nonzero().flatten().tolist()]
    return found


def steps(seconds):
    return round(seconds / DT)


def test_judge_of_a_robot_that_follows_finds_no_failure():
    walk, turn = (0.8, 0.2, 0.0), (0.0, 0.0, 0.9)
    commands = [walk] * steps(5) + [turn] * steps(5)
    assert judged(commands, commands) == []


def test_judge_of_a_robot_that_stands_still_finds_a_freeze_after_two_and_a_quarter_seconds():
    assert judged([(0.5, 0.0, 0.0)] * 111, [(0.0,) * 3] * 111) == []
    assert judged([(0.5, 0.0, 0.0)] * 112, [(0.0,) * 3] * 112) == [("freeze", 2.24)]  # 62 and 50 steps of 0.02 s
    assert judged([(0.0, 0.0, 0.0)] * steps(9), [(0.0,) * 3] * steps(9)) == []  # told to stand
    assert judged([(0.29, 0.0, 0.0)] * steps(9), [(0.0,) * 3] * steps(9)) == []  # too slow to be called a freeze


def test_judge_of_a_robot_that_is_slow_in_less_than_four_fifths_of_the_time_finds_no_freeze():
    command = [(0.35, 0.0, 0.0)] * steps(3.25)
    lead, rest = steps(1.25), steps(2.0)
    moving = rest // 5 + 1
    velocities = [(0.0,) * 3] * lead + [(0.35, 0.0, 0.0)] * moving + [(0.0,) * 3] * (rest - moving)
    assert not [kind for kind, _ in judged(command, velocities) if kind == "freeze"]
    frozen = [(0.0,) * 3] * (lead + steps(1.0) - 1) + [(0.35, 0.0, 0.0)]
    assert judged(command, frozen) == [("freeze", 2.24)]  # 49 of 50 steps


@pytest.mark.parametrize(
    "command, velocity",
    [((0.8, 0.0, 0.0), (0.45, 0.0, 0.0)), ((0.2, 0.0, 0.8), (0.2, 0.0, 0.35)), ((0.0, 0.0, 0.0), (0.0, 0.0, 0.5))],
)
def test_judge_of_a_large_error_finds_a_command_that_is_not_followed_after_three_seconds(command, velocity):
    found = judged([command] * steps(3.5), [velocity] * steps(3.5))
    assert [kind for kind, _ in found] == ["not followed"]
    assert 3.0 <= found[0][1] <= 3.42  # the average of 0.5 rad/s needs 0.4 s to reach 0.4 rad/s


def test_judge_of_a_velocity_that_swings_with_the_gait_finds_no_failure():
    command = [(0.5, 0.0, 0.0)] * steps(9)
    swinging = [(0.5 + 0.6 * math.sin(2 * math.pi * 2.5 * i * DT), 0.0, 0.0) for i in range(len(command))]
    assert judged(command, swinging) == []


def test_judge_of_commands_that_change_restarts_its_clocks():
    stop_and_go = ([(0.5, 0.0, 0.0)] * steps(2.0) + [(-0.5, 0.0, 0.0)] * steps(2.0)) * 5
    assert judged(stop_and_go, [(0.0,) * 3] * len(stop_and_go)) == []


def test_judge_of_a_fall_counts_it_once_and_judges_the_restarted_robot_anew():
    found = judged([(0.5, 0.0, 0.0)] * steps(4.0), [(0.0,) * 3] * steps(4.0), falls={steps(1.0)})
    assert found == [("fall", 1.0), ("freeze", 3.24)]


@pytest.mark.parametrize("count, low, high", [(0, 0.0, 3.6889), (1, 0.0253, 5.5716), (10, 4.7954, 18.3904)])
def test_poisson_interval_equals_published_values(count, low, high):
    """Table of exact limits: Garwood, Fiducial limits for the Poisson distribution, Biometrika 28, 1936."""
    assert poisson_interval(count) == pytest.approx((low, high), abs=6e-4)


def counted(hours, falls, error=0.1):
    failures = {kind: {"velocity": 0, "stop": 0} for kind in FAILURES}
    failures["fall"]["stop"] = falls
    return Endurance(hours, failures, error, error)


def test_merged_endurance_pools_hours_failures_and_errors():
    merged = merge([counted(1.0, 2, 0.1), counted(3.0, 0, 0.2)])
    assert merged.robot_hours == 4.0 and merged.num_failures == 2 and merged.hours_between_failures == 2.0
    assert merged.lin_vel_error == pytest.approx(0.175) and merged.failures["fall"] == {"velocity": 0, "stop": 2}
    assert counted(2.0, 0).hours_between_failures == math.inf and counted(2.0, 0).interval[1] == math.inf


def test_standing_robots_freeze_as_often_as_commands_are_long_and_fast():
    """With one command of 0.8 m/s for 5 s, a robot that stands still fails every 2.25 s, and restarts each time."""
    commands = replace(CFG.commands, lin_vel_x=(0.8, 0.8), lin_vel_y=(0.0, 0.0), yaw_rate=(0.0, 0.0))
    task = for_endurance(replace(CFG, commands=commands, randomization=RandomizationConfig.none()), 8, 9.0)
    fast = CommandTerm("tests.evaluation.test_endurance:ConstantCommands")
    task = replace(task, commands=replace(task.commands, terms={**task.commands.terms, "velocity": fast}))
    policy = Still()
    result = measure_endurance(task.build(), policy, 9.0, num_recorded=3)
    assert result.robot_hours == pytest.approx(8 * 9.0 / 3600)
    assert {kind: result.count(kind) for kind in FAILURES} == {"fall": 0, "freeze": 8 * 4, "not followed": 0}
    assert sum(int(dones.sum()) for dones in policy.resets[1:]) == 8 * 4
    assert [failure.kind for failure in result.recorded] == ["freeze"] * 3
    first = result.recorded[0]
    assert first.seconds == pytest.approx(2.26, abs=0.03) and len(first.pose) == round(first.seconds / DT)
    assert first.pose.shape[1] == 19 and first.requested[-1].tolist() == pytest.approx([0.8, 0.0, 0.0])


class ConstantCommands(JoystickCommands):
    """The upper bounds of the ranges, for ever."""

    def sample(self):
        command = super().sample()
        self._drawn_duration.fill_(1e9)
        return self._high.expand_as(command)


def test_joystick_commands_have_their_kinds_sizes_and_durations():
    task = replace(for_endurance(CFG, 512, 20.0), randomization=RandomizationConfig.none())
    env = task.build(seed=3)
    source, state = env.commands.sources["velocity"], env.state
    assert isinstance(source, JoystickCommands)
    last, lengths, age = state.requested_command.clone(), [], torch.ones(512)
    counts = torch.zeros(len(source.KINDS))
    for _ in range(600):
        env.commands.step(torch.zeros(512, dtype=torch.bool))
        command = state.requested_command
        new = source._age == 0
        lengths += age[new].tolist()
        age = torch.where(new, 1.0, age + 1)
        for kind in source.kind[new].tolist():
            counts[kind] += 1
        for kind, now, before in zip(source.kind[new].tolist(), command[new], last[new]):
            name, size = source.KINDS[kind], now.abs()
            if name == "stop":
                assert not size.any()
            elif name == "turn":
                assert not size[:2].any() and size[2] <= 1.0
            elif name == "reversal" and before.any():
                assert torch.equal(now, -before)
            elif name == "small":
                assert (size > 0).sum() == 1 and 0.05 <= size.max() <= 0.2
        last = command.clone()
    assert torch.allclose(counts / counts.sum(), torch.tensor(0.2), atol=0.03)
    lengths = [length for length in lengths if length < 600]
    assert min(lengths) >= 49 and max(lengths) <= 250 and 140 < sum(lengths) / len(lengths) < 160


def test_joystick_commands_continue_after_a_round_trip_of_their_state():
    task = replace(for_endurance(CFG, 16, 20.0), randomization=RandomizationConfig.none())
    env, other = task.build(seed=3), task.build(seed=4)
    for _ in range(40):
        env.step(torch.zeros(16, 12))
    other.load_state_dict(env.state_dict())
    for _ in range(120):
        env.step(torch.zeros(16, 12))
        other.step(torch.zeros(16, 12))
    assert same(env.state_dict(), other.state_dict())


def test_endurance_task_keeps_the_noise_and_pushes_only_if_asked():
    task = for_endurance(CFG, 4, 5.0)
    assert task.observations == CFG.observations and task.commands.limit.enabled
    assert task.randomization.terms["push"].period == 0
    pushed = with_pushes(disturbed(task, "slippery")).randomization.terms
    assert pushed["push"] == PUSHES and pushed["model_parameters"].params["friction"] == (0.15, 0.15)


def test_dead_zone_is_where_half_of_the_command_is_reached_between_the_tested_sizes():
    exact = list(SIZES)
    assert dead_zone(exact) == SIZES[0]
    slow = [size - 0.03 for size in SIZES]  # half of the command is reached at 0.06, between 0.05 and 0.075
    assert dead_zone(slow) == pytest.approx(0.06)
    assert dead_zone([exact[0], 0.0, *exact[2:]]) == pytest.approx(0.05 + 0.025 * 2 / 5)  # a hole below does not count
    assert dead_zone([0.5 * size for size in SIZES]) == SIZES[0]  # half is enough
    assert dead_zone([0.49 * size for size in SIZES]) == math.inf
    assert dead_zone([math.nan] * len(SIZES)) == math.inf
    assert dead_zone([exact[0], math.nan, *exact[2:]]) == SIZES[2]  # all of its robots fell


def test_small_commands_of_a_robot_that_stands_still_are_not_followed_and_it_does_not_drift(quick_commands):
    task = replace(for_small_commands(CFG), randomization=RandomizationConfig.none())
    result = measure_small_commands(task.build(), Still())
    assert list(result.dead_zone) == list(DIRECTIONS)
    assert set(result.dead_zone.values()) == {math.inf} and result.falls == 0
    assert result.stop_drift < 0.01  # it settles on soft contacts


def test_small_commands_outside_of_the_ranges_of_a_task_are_left_out(quick_commands):
    forward = replace(CFG.commands, lin_vel_x=(-0.1, 1.0), lin_vel_y=(0.0, 0.0))
    task = for_small_commands(replace(CFG, commands=forward, randomization=RandomizationConfig.none()))
    result = measure_small_commands(task.build(), Still())
    assert list(result.dead_zone) == ["forward", "turn left", "turn right"]


def test_joystick_metrics_count_against_the_gate_and_are_missing_without_a_test(quick_commands):
    gate = {"fall_rate": 0.5, "failures_per_hour": 0.1}
    cfg = replace(CFG, gate=gate)
    shares = []
    joystick = evaluate_joystick(cfg, Still(), "cpu", 1, robot_hours=0.005, progress=shares.append)
    assert shares == sorted(shares) and shares[-1] == 1.0 and 0.5 in shares
    assert joystick.free.robot_hours == pytest.approx(0.005, rel=0.3) and joystick.free.num_failures > 0
    seed_result = SeedResult({"fall_rate": 0.0}, {}, [], {})
    without = EvalResult("a", "model_1.pt", 1, cfg, (), [seed_result])
    assert without.unmet == [] and without.not_measured == ["failures_per_hour"] and without.joystick == {}
    measured = EvalResult("a", "model_1.pt", 1, cfg, (), [seed_result.with_joystick(joystick)])
    assert len(measured.unmet) == 1 and measured.unmet[0].startswith("failures_per_hour")
    assert measured.not_measured == [] and set(measured.joystick) == {"without pushes", "with pushes"}


def measured(name="model_1", num_falls=2):
    """Return the result of an evaluation with failures under a joystick, without running it."""
    failures = {kind: {"velocity": 0, "stop": 0} for kind in FAILURES}
    failures["fall"]["stop"] = num_falls
    pose = torch.zeros(5, 19)
    pose[:, 2:4] = torch.tensor([0.3, 1.0])
    recorded = [endurance.Failure("fall", "stop", 7.25, pose, torch.ones(5, 3), torch.zeros(5, 3))] * num_falls
    free = Endurance(4.0, failures, 0.081, 0.092, recorded)
    pushed = Endurance(4.0, failures, 0.1, 0.1)
    small = SmallCommands({"forward": 0.05, "left": math.inf}, {}, 0.01, 0.02, 0)
    seed_result = SeedResult({"fall_rate": 0.0}, {}, [], {}).with_joystick(JoystickResult(free, pushed, small))
    return EvalResult(name, "model_1.pt", 1, replace(CFG, gate={}), (), [seed_result])


def test_failures_per_hour_of_the_gate_are_those_of_all_seeds_together():
    gate = {"failures_per_hour": 0.3, "pushed_failures_per_hour": 0.2}
    with_two, without = (measured(num_falls=falls).seed_results[0] for falls in (2, 0))  # in 4 h each
    both = EvalResult("a", "model_1.pt", 1, replace(CFG, gate=gate), (), [with_two, without])
    assert both.unmet == ["pushed_failures_per_hour 0.2500 > 0.2"]


def test_tables_of_endurance_name_hours_failures_and_dead_zones():
    rows = {row[0]: row[1:] for row in failure_rows(measured())}
    assert rows[""] == ["without pushes", "with pushes"]
    assert rows["hours between failures"] == ["2.00", "2.00"]
    assert rows["95 % interval [h]"][0] == "0.55 to 16.51"  # 4 h by 7.2247 and 0.2422
    assert rows["fall after a command of the kind stop"] == ["2", "2"]
    assert not any("freeze" in name for name in rows)
    assert small_command_rows(measured()) == [["forward", "left"], ["0.05", "more than 0.3"]]


def test_report_of_endurance_has_a_clip_of_each_failure_or_says_why_not(monkeypatch):
    drawn = []

    def write(path, clip, size):
        assert size == (640, 368)
        drawn.append(clip)
        path.write_bytes(b"film")

    monkeypatch.setattr(endurance_report, "write_video", write)
    page = "".join(endurance_html([measured("<b>", num_falls=4)]))
    assert page.count("data:video/mp4;base64,ZmlsbQ==") == 3 == len(drawn)
    assert "fall after a command of the kind stop, at 7.2 s" in page and "<b>" not in page
    assert drawn[0].captions[0].startswith("0.1 s before    commanded +1.00 +1.00 m/s")

    def refuse(path, clip, size):
        raise VideoError("no driver; install one")

    monkeypatch.setattr(endurance_report, "write_video", refuse)
    page = "".join(endurance_html([measured()]))
    assert page.count("No clips of failures: no driver; install one") == 1 and "<video" not in page
    assert list(endurance_html([EvalResult("a", "b", 1, CFG, (), [SeedResult({}, {}, [], {})])])) == []

"""Generated motions: footfalls as the gait is defined, feet that do not slide, limits, and errors of a line."""

import pytest
import torch

from rsl_rl.motion.checks import check, feet_of, footfalls
from rsl_rl.motion.gaits import BIPED_GAITS, GAITS, places_of
from rsl_rl.motion.generate import generate, motion_names
from rsl_rl.motion.kinematics import Kinematics
from rsl_rl.motion.legs import legs_of
from rsl_rl.motion.rotations import turn_between
from rsl_rl.robots import ROBOTS
from rsl_rl.sim.kinematics import rotation_matrix

GO1, SOLO12 = "zoo.robots.go1.flat:ROBOT", "zoo.robots.solo12.flat:ROBOT"

ORDER = {  # of touchdown after that of the left rear foot, as the field defines the gaits (Hildebrand 1989)
    "walk": (["RL"], ["FL"], ["RR"], ["FR"]),
    "trot": (["FR", "RL"], ["FL", "RR"]),
    "pace": (["FL", "RL"], ["FR", "RR"]),
    "bound": (["RL", "RR"], ["FL", "FR"]),
    "pronk": (["FL", "FR", "RL", "RR"],),
    "gallop": (["RL"], ["RR"], ["FL"], ["FR"]),
}


def build(name):
    robot = ROBOTS.load(name)
    return robot, Kinematics(robot), legs_of(robot)


def slide(clip, legs):
    feet = feet_of(clip, legs)
    return float((feet.speed * feet.standing).max())


def falls_of(clip, legs):
    """Return touchdown and duty factor of each foot by its place."""
    home = legs.default_position
    return {place: (found[1], found[0]) for place, found in zip(places_of(home), footfalls(clip, legs).values())}


def slow(*names):
    return [pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", ["go2", *slow("anymal_c", GO1, SOLO12)])
@pytest.mark.parametrize("gait", list(GAITS))
def test_gait_has_its_footfalls_and_its_duty_factor(name, gait):
    robot, kinematics, legs = build(name)
    clip = generate(robot, gait, fps=400.0)
    falls = falls_of(clip, legs)
    times = {place: round((fall - falls["RL"][0]) % 1.0, 2) % 1.0 for place, (fall, _) in falls.items()}
    groups = {}
    for place, time in times.items():
        near = next((t for t in groups if min(abs(t - time), 1 - abs(t - time)) < 0.03), time)
        groups.setdefault(near, []).append(place)
    assert tuple(sorted(groups[t]) for t in sorted(groups)) == tuple(map(sorted, ORDER[gait]))
    for _, duty in falls.values():
        assert duty == pytest.approx(GAITS[gait].duty, abs=0.04)
    assert slide(clip, legs) < 0.02
    assert check(clip, kinematics, legs) == []


@pytest.mark.parametrize("name", ["go2", *slow("anymal_c", "g1", "h1", GO1, SOLO12)])
def test_every_motion_keeps_limits_floor_and_feet(name):
    robot, kinematics, legs = build(name)
    low, high = kinematics.limits.float().unbind(1)
    for motion, kind in motion_names(robot).items():
        if kind == "gait" and name == "go2":
            continue  # tested above
        clip = generate(robot, motion)
        assert slide(clip, legs) < 0.02, motion
        assert ((clip.joint_pos >= low - 1e-5) & (clip.joint_pos <= high + 1e-5)).all(), motion
        assert check(clip, kinematics, legs) == [], motion


@pytest.mark.parametrize(
    ("speed", "side", "turn"), [(1.0, 0.0, 0.0), (-0.5, 0.0, 0.0), (0.0, 0.3, 0.0), (0.4, 0.1, 0.8)]
)
def test_trot_moves_as_asked_and_closes(speed, side, turn):
    """The trunk's mean velocity in the frame of the path is the one asked for; the end is the start, moved on."""
    robot, _, legs = build("go2")
    clip = generate(robot, "trot", speed, side, turn)
    assert clip.loop
    torch.testing.assert_close(clip.joint_pos[-1], clip.joint_pos[0], atol=1e-3, rtol=0)
    torch.testing.assert_close(clip.joint_vel[-1], clip.joint_vel[0], atol=1e-3, rtol=0)
    assert float(turn_between(clip.root_quat[0], clip.root_quat[-1])) == pytest.approx(turn * clip.length, abs=1e-4)
    if not turn:
        way = (clip.root_pos[-1] - clip.root_pos[0]) / clip.length
        torch.testing.assert_close(way, torch.tensor([speed, side, 0.0]), atol=1e-4, rtol=0)
    assert slide(clip, legs) < 0.02


def test_trunk_falls_freely_while_no_foot_is_on_the_floor():
    """In the flight of a pronk the vertical acceleration is that of gravity."""
    robot, _, legs = build("go2")
    clip = generate(robot, "pronk", fps=500.0)
    air = ~feet_of(clip, legs, 1e-4).standing.any(dim=1)
    acceleration = (clip.link_vel[2:, 0, 2] - clip.link_vel[:-2, 0, 2]) * 250.0
    inside = air[:-2] & air[1:-1] & air[2:]
    assert int(inside.sum()) > 20
    torch.testing.assert_close(acceleration[inside], torch.full_like(acceleration[inside], -9.81), atol=0.4, rtol=0)


def test_biped_walks_on_alternate_feet_with_level_soles():
    robot, _, legs = build("g1")
    clip = generate(robot, "walk", 0.4, fps=200.0)
    falls = falls_of(clip, legs)
    assert (falls["R"][0] - falls["L"][0]) % 1 == pytest.approx(0.5, abs=0.02)
    assert falls["L"][1] == pytest.approx(BIPED_GAITS["walk"].duty, abs=0.04)
    feet = legs.feet(clip.joint_pos.double())
    up = rotation_matrix(clip.root_quat.double()).unsqueeze(1) @ legs.up(feet.rotation).unsqueeze(3)
    assert up[..., 2, 0].min() > 0.999


def test_seconds_are_whole_cycles_and_postures_start_and_end_as_named():
    robot, kinematics, _ = build("go2")
    one = generate(robot, "trot")
    assert (generate(robot, "trot", seconds=3.0).num_frames - 1) % (one.num_frames - 1) == 0
    stand = float(generate(robot, "stand").root_pos[0, 2])
    up, down = generate(robot, "stand_up"), generate(robot, "lie_down")
    assert float(up.root_pos[0, 2]) < 0.5 * stand and float(up.root_pos[-1, 2]) == pytest.approx(stand)
    torch.testing.assert_close(up.joint_pos[0], down.joint_pos[-1])
    sit = generate(robot, "sit")
    rear = kinematics.link_names.index("RL_thigh")
    front = kinematics.link_names.index("FL_thigh")
    assert float(sit.link_pos[-1, front, 2] - sit.link_pos[-1, rear, 2]) > 0.1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("trott",), "Did you mean 'trot'"),
        (("trot", 30.0), "too fast"),
        (("sit", 1.0), "stays on the spot"),
        (("sit", None, None, None, 9.0), "leave out speed, side, turn and seconds"),
        (("trot", float("nan")), "give a number"),
        (("trot", 0.5, 0.0, 0.0, 0.0, 1.0), "10 to 1000"),
        (("trot", 0.5, 0.0, 0.0, 1e9), "give up to 600"),
    ],
)
def test_wrong_requests_are_one_line(arguments, words):
    with pytest.raises(ValueError, match=words) as failure:
        generate(ROBOTS.load("go2"), *arguments)
    assert "\n" not in str(failure.value)

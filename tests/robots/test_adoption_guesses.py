"""Guesses about models of others: legs, arms, forward, inertias, and why a robot does not stand."""

import re
from pathlib import Path

import mujoco
import numpy as np
import pytest

from rsl_rl.adoption.adopt import adopt_model
from rsl_rl.adoption.names import end_of, is_arm, side_of
from rsl_rl.adoption.structure import Hints
from rsl_rl.evaluation.adoption_report import source_pose
from tests.models_of_others import BIPED_DEFAULTS, biped_mjcf, quadruped_urdf, wheeled_urdf

INERTIA = r'<inertia ixx="[^"]*" iyy="[^"]*" izz="[^"]*"'

ARM = """
<body name="{side}_{upper}" pos="0 {y} 0.25">
  <joint name="{side}_s1" axis="1 0 0" range="-115 115"/>
  <geom type="capsule" fromto="0 0 0 {first}" size="0.03" mass="1"/>
  <body name="{side}_{lower}" pos="{first}">
    <joint name="{side}_s2" axis="0 1 0" range="-115 115"/>
    <geom type="capsule" fromto="0 0 0 {second}" size="0.03" mass="1"/>
  </body>
</body>"""


def adopt(folder: Path, text: str, **hints):
    """Adopt the model of a text; an MJCF file may include the defaults of the biped."""
    (folder / "defaults.xml").write_text(BIPED_DEFAULTS)
    path = folder / f"robot.{'urdf' if '<robot' in text else 'xml'}"
    path.write_text(text)
    return adopt_model(path, "robot", *([Hints(**hints)] if hints else []))


def stretched_urdf() -> str:
    """Return a quadruped whose legs lie stretched out backward at zero joint angles."""
    return re.sub(r'(_HFE".*?<origin xyz="[^"]*")', r'\1 rpy="0 1.5707963 0"', quadruped_urdf())


def biped_with_arms(first: str, second: str, upper: str = "upper", lower: str = "lower") -> str:
    """Return a biped with two-joint arms; ``first`` and ``second`` are vectors with {s}, the sign of the side."""
    arms = "".join(
        ARM.format(side=side, y=0.2 * s, first=first.format(s=s), second=second.format(s=s), upper=upper, lower=lower)
        for side, s in (("left", 1), ("right", -1))
    )
    model = biped_mjcf()
    model = re.sub(r'\n<body name="(left|right)_arm".*?</body>', "", model, flags=re.DOTALL)
    return model.replace('<site name="imu"/>', f'<site name="imu"/>{arms}').replace(
        ' 0 0"/></keyframe>', ' 0 0 0 0"/></keyframe>'
    )


def joints_of(robot):
    return [leg.joints for leg in robot.tree.legs]


@pytest.mark.parametrize("value", ["0", "1"])
def test_inertia_of_zeros_or_ones_becomes_that_of_mass_and_shape(tmp_path, value):
    text = re.sub(INERTIA, f'<inertia ixx="{value}" iyy="{value}" izz="{value}"', quadruped_urdf())
    robot = adopt(tmp_path, text)
    links = {link.name: link for link in robot.tree.links}
    shank = links["LF_SHANK"]
    rod = shank.mass * (0.8 * 0.22) ** 2 / 12  # of the cylinder in the file
    assert np.linalg.eigvalsh(shank.inertia)[1:] == pytest.approx([rod, rod], rel=0.1)
    trunk = links["root"]
    assert 0.01 < np.sqrt(np.trace(trunk.inertia) / trunk.mass) < 0.3  # a few kg of water, not a needle or a ship
    assert any("inertias" in warning and "trunk" in warning for warning in robot.warnings)


def test_inertia_that_fits_is_kept_without_a_warning(tmp_path):
    robot = adopt(tmp_path, quadruped_urdf())
    thigh = next(link for link in robot.tree.links if link.name == "LF_THIGH")
    assert np.diag(thigh.inertia) == pytest.approx(0.6 / 12 * np.array([0.0425, 0.0425, 0.005]), rel=1e-3)
    assert robot.warnings == ()


def test_legs_that_lie_at_zero_angles_are_found_by_turning_their_joints(tmp_path):
    robot = adopt(tmp_path, stretched_urdf())
    assert joints_of(robot) == [(f"{n}_HAA", f"{n}_HFE", f"{n}_KFE") for n in ("LF", "RF", "LH", "RH")]
    assert robot.stands and robot.symmetry.holds
    assert robot.reach == pytest.approx(0.42, rel=0.05)


@pytest.mark.parametrize("names", [("upper_arm", "hand"), ("upper", "lower")])
def test_arms_that_reach_the_floor_are_not_legs(tmp_path, names):
    robot = adopt(tmp_path, biped_with_arms("0 0 -0.5", "0 0 -0.55", *names))
    assert [(leg.name, len(leg.joints)) for leg in robot.tree.legs] == [("left", 6), ("right", 6)]
    assert set(robot.tree.locked) == {"left_s1", "left_s2", "right_s1", "right_s2"}
    warned = any("may be legs" in warning for warning in robot.warnings)
    assert warned == (names[1] == "lower")  # names that say arm leave no doubt


def test_arms_of_a_t_pose_hang_down(tmp_path):
    robot = adopt(tmp_path, biped_with_arms("0 {s} 0", "0 {s} 0"))
    assert robot.tree.locked["left_s1"] < -1.0 and robot.tree.locked["right_s1"] > 1.0
    assert robot.tree.locked["left_s2"] == robot.tree.locked["right_s2"] == 0.0
    assert any("left_s1 at -1" in note for note in robot.notes)


@pytest.mark.parametrize("base", ["torso"])
def test_names_of_sides_turn_a_robot_forward(tmp_path, base):
    text = biped_mjcf()
    for old, new in (("left_", "LEFT_"), ("right_", "left_"), ("LEFT_", "right_")):
        text = text.replace(old, new)
    robot = adopt(tmp_path, text)
    assert robot.tree.legs[0].name == "left" and robot.tree.legs[0].joints[0] == "left_yaw"
    assert "forward is where the names of the legs say" in robot.notes and robot.warnings == ()
    assert robot.skeleton.frame[:, 0] == pytest.approx([-1.0, 0.0, 0.0])
    assert robot.tree.links[0].name == base


def test_names_that_fit_no_direction_are_a_warning(tmp_path):
    text = quadruped_urdf().replace('"RF_', '"QQ_').replace('"LH_', '"RF_').replace('"QQ_', '"LH_')
    robot = adopt(tmp_path, text)
    assert any("do not fit their places" in warning and "forward may be wrong" in warning for warning in robot.warnings)


def test_unnamed_biped_looks_where_its_feet_point(tmp_path):
    text = (
        biped_mjcf()
        .replace("left_", "a_")
        .replace("right_", "b_")
        .replace('pos="0.03 0 -0.045"', 'pos="-0.06 0 -0.045"')
    )
    robot = adopt(tmp_path, text)
    assert robot.skeleton.frame[:, 0] == pytest.approx([-1.0, 0.0, 0.0])
    assert "forward is where the feet point" in robot.notes


def test_chains_that_end_at_one_place_are_refused(tmp_path):
    with pytest.raises(ValueError, match="end at one place, as bars of a closed chain"):
        adopt(tmp_path, quadruped_urdf(legs=("LF", "RF", "LH", "RH", "LB", "RB")))


def test_arms_without_legs_are_refused_by_their_names(tmp_path):
    text = quadruped_urdf(legs=("LF", "RF"))
    for leg, arm in (
        ("HIP", "ARM"),
        ("THIGH", "ELBOW"),
        ("SHANK", "HAND"),
        ("FOOT", "PALM"),
        ("HAA", "1"),
        ("HFE", "2"),
        ("KFE", "3"),
    ):
        text = text.replace(f"F_{leg}", f"F_{arm}")
    with pytest.raises(ValueError, match=r"arms or heads \(head, LF_HAND, RF_HAND\); .* with --feet"):
        adopt(tmp_path, text)


def test_robot_that_does_not_stand_says_why(tmp_path):
    robot = adopt(tmp_path, quadruped_urdf(effort=1.2))
    assert not robot.stands and any("motors at their torque limit: LF_" in fault for fault in robot.faults)


def test_biped_on_ball_feet_falls_and_says_why(tmp_path):
    text = quadruped_urdf(legs=("LF", "RF")).replace(' xyz="0.2 ', ' xyz="0 ')
    robot = adopt(tmp_path, text)
    assert robot.faults[0] == "it falls over, as nothing balances on two ball feet"


def test_feet_that_are_named_are_the_legs(tmp_path):
    robot = adopt(tmp_path, quadruped_urdf(), feet=("RH_FOOT", "LF_SHANK", "LH_SHANK", "RF_FOOT"))
    assert [leg.links[-1] for leg in robot.tree.legs] == ["LF_SHANK", "RF_SHANK", "LH_SHANK", "RH_SHANK"]
    front = adopt(tmp_path, quadruped_urdf(), feet=("LF_FOOT", "RF_FOOT"))
    assert joints_of(front) == [("LF_HAA", "LF_HFE", "LF_KFE"), ("RF_HAA", "RF_HFE", "RF_KFE")]
    assert set(front.tree.locked) == {"neck", *(f"{n}_{j}" for n in ("LH", "RH") for j in ("HAA", "HFE", "KFE"))}


def test_number_of_legs_decides_between_legs_and_arms(tmp_path):
    text = biped_with_arms("0 0 -0.5", "0 0 -0.55")
    robot = adopt(tmp_path, text, legs=4)
    assert len(robot.tree.legs) == 4 and robot.tree.locked == {}


def test_base_is_the_link_that_is_named(tmp_path):
    text = quadruped_urdf().replace(
        '<child link="trunk"/><origin xyz="0 0 0"', '<child link="trunk"/><origin xyz="0.1 0 0.05" rpy="0 0 1.5707963"'
    )
    robot = adopt(tmp_path, text, base="trunk")
    assert robot.tree.links[0].name == "trunk"
    np.testing.assert_allclose(robot.skeleton.frame[:, 2], [0, 0, 1], atol=1e-6)
    root = adopt(tmp_path, text)
    assert robot.stance.height == pytest.approx(root.stance.height + 0.05, abs=2e-3)


def test_locked_joint_is_part_of_its_link(tmp_path):
    robot = adopt(tmp_path, quadruped_urdf(), lock={"neck": 0.5, "LF_HAA": 0.0, "RF_HAA": 0.0})
    assert robot.tree.locked == {"neck": 0.5, "LF_HAA": 0.0, "RF_HAA": 0.0}
    assert joints_of(robot)[:2] == [("LF_HFE", "LF_KFE"), ("RF_HFE", "RF_KFE")] and len(joints_of(robot)[2]) == 3


def test_wheels_that_are_locked_are_feet(tmp_path):
    robot = adopt(tmp_path, wheeled_urdf(), lock={"left_axle": 0.0, "right_axle": 0.0})
    assert joints_of(robot) == [("left_hip", "left_knee"), ("right_hip", "right_knee")]
    assert robot.reach + robot.tree.feet[0].height == pytest.approx(0.4 + 0.06, abs=0.01)  # to the rim of the wheel


@pytest.mark.parametrize(
    ("hints", "reason"),
    [
        ({"feet": ("LF_FOOT", "RF_FOTO")}, "--feet RF_FOTO: .*no link of that name. Did you mean 'RF_FOOT'"),
        ({"feet": ("LF_FOOT", "LF_SHANK")}, "--feet LF_SHANK: another foot is a part of the same link"),
        ({"feet": ("root", "RF_FOOT")}, "--feet root: no joint moves it"),
        ({"feet": ("LF_FOOT", "RF_FOOT", "RH_FOOT")}, "has 3 legs"),
        ({"legs": 3}, "--legs 3: legs come in pairs"),
        ({"legs": 8}, "--legs 8: .* has 4 chains"),
        ({"base": "trnk"}, "--base trnk: .*Did you mean 'trunk'"),
        ({"base": "LF_THIGH"}, "--base LF_THIGH is a part of a leg: it moves with the joint 'LF_HAA'"),
        ({"lock": {"nick": 0.0}}, "--lock nick: .*Did you mean 'neck'"),
        ({"lock": {"neck": 3.0}}, "--lock neck=3 is outside of the range of the joint, -2.6 to 2.6 rad"),
    ],
)
def test_hint_that_does_not_fit_is_refused_with_a_reason(tmp_path, hints, reason):
    with pytest.raises(ValueError, match=reason):
        adopt(tmp_path, quadruped_urdf(), **hints)


def test_source_is_drawn_in_the_pose_of_the_robot(tmp_path):
    text = quadruped_urdf().replace(
        '<child link="trunk"/><origin xyz="0 0 0"', '<child link="trunk"/><origin xyz="0 0 0" rpy="0 0 1.5707963"'
    )
    robot = adopt(tmp_path, text)
    ours, theirs = mujoco.MjData(robot.model), mujoco.MjData(robot.source.model)
    ours.qpos[:] = [0, 0, robot.stance.height, 1, 0, 0, 0, *robot.settled.angles]
    theirs.qpos[:] = source_pose(robot)
    mujoco.mj_kinematics(robot.model, ours)
    mujoco.mj_kinematics(robot.source.model, theirs)
    for link in robot.tree.links[1:]:
        np.testing.assert_allclose(theirs.body(link.name).xpos, ours.body(link.name).xpos, atol=1e-5)


@pytest.mark.parametrize(
    ("names", "arm", "side", "end"),
    [
        (["LF_HAA", "LF_SHANK"], False, 1, 1),
        (["fl_uleg", "fl_lleg"], False, 1, 1),
        (["lower_leg_front_rightL_link"], False, -1, 1),
        (["Right_Shoulder_Roll", "right_hand_link"], True, -1, 0),
        (["LAnkleRoll"], False, 1, 0),
        (["RL_calf"], False, 1, -1),
        (["front_left_shoulder", "front_left_foot"], False, 1, 1),
        (["arm_link_wr0", "arm_link_fngr"], True, 0, 0),
        (["joint_1", "link_2"], False, 0, 0),
    ],
)
def test_names_say_arm_side_and_end(names, arm, side, end):
    assert (is_arm(names), side_of(names), end_of(names)) == (arm, side, end)

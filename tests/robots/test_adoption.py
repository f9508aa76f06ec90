"""Models of others are read, understood and prepared."""

import ast
import dataclasses
import os
import re
from pathlib import Path

import mujoco
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rsl_rl.adoption.adopt import adopt_model
from rsl_rl.adoption.config_file import common_pattern, write_config
from rsl_rl.adoption.geometry import fit, points_of_shape
from rsl_rl.adoption.reading import find_mesh, read_model
from rsl_rl.adoption.standing import gravity_torques
from rsl_rl.adoption.structure import find_skeleton
from tests.models_of_others import (
    BIPED_DEFAULTS,
    arm_urdf,
    biped_mjcf,
    one_leg_urdf,
    quadruped_urdf,
    wheeled_urdf,
)

XACRO = "http://www.ros.org/wiki/xacro"

QUADRUPED_MASS = 10 * (0.6 + 0.02 + 4 * (0.02 + 0.06 + 0.015))


def save(folder: Path, text: str, name: str = "robot.urdf") -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def quadruped(tmp_path_factory):
    return adopt_model(save(tmp_path_factory.mktemp("urdf"), quadruped_urdf(flipped=True, order=-1)), "dog")


@pytest.fixture(scope="module")
def biped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mjcf")
    save(folder, BIPED_DEFAULTS, "defaults.xml")
    return adopt_model(save(folder, biped_mjcf(), "walker.xml"), "walker")


def test_quadruped_legs_are_ordered_by_place_and_keep_their_names(quadruped):
    legs = quadruped.tree.legs
    assert [leg.name for leg in legs] == ["FL", "FR", "RL", "RR"]
    assert [leg.joints for leg in legs] == [(f"{n}_HAA", f"{n}_HFE", f"{n}_KFE") for n in ("LF", "RF", "LH", "RH")]
    assert quadruped.tree.locked == {"neck": 0.0}


def test_prepared_model_has_the_names_that_the_engines_read(quadruped):
    model = quadruped.model
    joints = [joint for leg in quadruped.tree.legs for joint in leg.joints]
    assert model.jnt_type[0] == mujoco.mjtJoint.mjJNT_FREE
    assert [model.joint(i).name for i in range(1, model.njnt)] == joints
    assert [model.joint(j).name for j in model.actuator_trnid[:, 0]] == joints
    sensors = {model.sensor(i).name for i in range(model.nsensor)}
    for foot in ("FL_foot", "FR_foot", "RL_foot", "RR_foot"):
        assert {f"{foot}_contact", f"{foot}_pos", f"{foot}_vel"} <= sensors
    assert "root_contact" in sensors


def test_mass_and_centre_of_mass_are_those_of_the_source(quadruped):
    source = quadruped.source
    assert quadruped.tree.mass == pytest.approx(QUADRUPED_MASS, rel=1e-4)
    ours, theirs = mujoco.MjData(quadruped.model), mujoco.MjData(source.model)
    random = np.random.default_rng(0)
    for joint in range(1, quadruped.model.njnt):
        name = quadruped.model.joint(joint).name
        angle = random.uniform(-1, 1)
        ours.qpos[quadruped.model.jnt_qposadr[joint]] = angle
        theirs.qpos[source.model.jnt_qposadr[source.model.joint(name).id]] = angle
    ours.qpos[:3] = theirs.qpos[:3] = 0.0
    for model, data in ((quadruped.model, ours), (source.model, theirs)):
        mujoco.mj_forward(model, data)
    np.testing.assert_allclose(ours.subtree_com[1], theirs.subtree_com[1], atol=1e-5)
    np.testing.assert_allclose(ours.body("LF_SHANK").xpos, theirs.body("LF_SHANK").xpos, atol=1e-6)
    inertias = []
    for model, data in ((quadruped.model, ours), (source.model, theirs)):
        full = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, data, full)
        inertias.append(full[:6, :6])
    np.testing.assert_allclose(*inertias, atol=1e-4)


def test_mirror_image_is_found_with_flipped_axes(quadruped):
    symmetry = quadruped.symmetry
    assert symmetry.joints == (3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8)
    assert symmetry.signs == (1.0, -1.0, -1.0) * 4  # right joints turn about opposite axes
    assert symmetry.feet == (1, 0, 3, 2)
    assert symmetry.holds and symmetry.error < 1e-6


def test_legs_that_are_no_mirror_images_are_reported(tmp_path):
    text = re.sub(r'(<joint name="RF_KFE".*?<origin xyz=")0 0 -0.2"', r'\g<1>0.03 0 -0.17"', quadruped_urdf())
    robot = adopt_model(save(tmp_path, text), "dog")
    assert not robot.symmetry.holds
    assert "ActorCriticConfig(" in write_config(robot) and "SymmetricActorCritic" not in write_config(robot)


def test_quadruped_stands_level_with_its_weight_on_four_feet(quadruped):
    settled, stance = quadruped.settled, quadruped.stance
    assert quadruped.stands and settled.tilt < 0.02
    assert settled.forces.sum() == pytest.approx(QUADRUPED_MASS * 9.81, rel=0.02)
    assert settled.forces.min() > 0.15 * settled.forces.sum()
    assert 0.6 * 0.42 < stance.height < 0.42
    assert (np.abs(settled.torques) < 0.6 * quadruped.model.actuator_forcerange[:, 1]).all()


def outside(robot, joint):
    """Return how far each foot is outside a joint of its leg, as a fraction of the leg's reach."""
    data = mujoco.MjData(robot.model)
    data.qpos[7:] = robot.stance.angles
    mujoco.mj_kinematics(robot.model, data)
    feet = np.array([data.site(leg.foot).xpos[1] for leg in robot.tree.legs])
    joints = np.array([data.xanchor[robot.model.joint(leg.joints[joint]).id][1] for leg in robot.tree.legs])
    return np.sign(joints) * (feet - joints) / robot.reach


def test_only_the_feet_of_a_quadruped_stand_further_apart_than_its_hips(quadruped, root):
    assert outside(quadruped, 1) == pytest.approx(0.11, abs=0.02)
    g1 = adopt_model(root / "rsl_rl" / "robots" / "g1" / "g1.xml", "g1")
    assert outside(g1, 3) == pytest.approx(0.0, abs=0.02)


def test_torques_against_gravity_are_those_of_the_standing_robot(quadruped):
    model, data = quadruped.model, mujoco.MjData(quadruped.model)
    data.qpos[7:] = quadruped.settled.angles
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    torques = gravity_torques(model, data, [model.site(leg.foot).id for leg in quadruped.tree.legs])
    measured = quadruped.settled.torques
    np.testing.assert_allclose(torques, measured, atol=0.35 * np.abs(measured).max())
    assert np.corrcoef(torques, measured)[0, 1] > 0.95


def test_biped_with_a_world_of_its_own_stands_on_flat_feet(biped):
    assert [leg.name for leg in biped.tree.legs] == ["left", "right"]
    assert set(biped.tree.locked) == {"left_shoulder", "right_shoulder"}
    assert biped.stands
    feet = [link.foot for link in biped.tree.links if link.foot is not None]
    assert all(foot.is_flat for foot in feet)
    assert feet[0].shape.size[0] == pytest.approx(0.1, abs=0.02)
    assert any("shell.stl" in note for note in biped.notes) and any("crate" in note for note in biped.notes)
    assert [motor.effort for motor in biped.choice.motors.values()] == [100.0] * 12


def test_joints_without_a_plausible_limit_get_one_from_the_weight(tmp_path):
    robot = adopt_model(save(tmp_path, quadruped_urdf(effort=1000.0)), "dog")
    efforts = {motor.effort for motor in robot.choice.motors.values()}
    assert list(efforts) == [pytest.approx(2 * robot.choice.torque_scale, rel=0.01)]
    assert any("torque limit of all joints" in note for note in robot.notes)


def test_what_is_left_out_is_noted(tmp_path):
    mimic = '<mimic joint="LF_HAA"/><limit lower="-2.6" upper="2.6" effort="5.0"'
    text = quadruped_urdf().replace('<limit lower="-2.6" upper="2.6" effort="5.0"', mimic)
    notes = "\n".join(read_model(save(tmp_path, text)).notes)
    for part in ("gazebo (2), transmission (1)", "trunk.dae, thigh.stl", "couplings between joints (mimic)"):
        assert all(word in notes for word in part.split(", ")), notes


@pytest.mark.parametrize(("rpy", "forward", "up"), [("0 0 1.5707963", 1, 2), ("-1.5707963 0 0", 0, 1)])
def test_base_frame_is_turned_to_forward_left_and_up(tmp_path, rpy, forward, up):
    fixed = '<child link="trunk"/><origin xyz="0 0 0"'
    text = quadruped_urdf().replace(fixed, f'{fixed} rpy="{rpy}"')
    source = read_model(save(tmp_path, text))
    frame = find_skeleton(source).frame
    np.testing.assert_allclose(frame[:, [0, 2]], np.eye(3)[:, [forward, up]], atol=1e-6)
    assert adopt_model(source.path, "dog").tree.legs[0].joints[0] == "LF_HAA"


def test_names_that_the_prepared_model_needs_are_free(tmp_path):
    text = quadruped_urdf()
    for old, new in (("LF_SHANK", "FL_foot"), ("RF_SHANK", "FR_foot"), ("LH_THIGH", "floor")):
        text = text.replace(f'"{old}"', f'"{new}"')
    robot = adopt_model(save(tmp_path, text), "dog")
    assert [leg.links[-1] for leg in robot.tree.legs] == ["FL_foot_link", "FR_foot_link", "LH_SHANK", "RH_SHANK"]
    assert robot.tree.legs[2].links[1] == "floor_link" and robot.stands


@settings(max_examples=4)
@given(
    length=st.floats(0.3, 0.8), width=st.floats(0.15, 0.4), upper=st.floats(0.1, 0.35), lower=st.floats(0.1, 0.35),
    mass=st.floats(2.0, 80.0), flipped=st.booleans(), order=st.sampled_from((1, -1)),
)  # fmt: skip
def test_quadrupeds_of_any_size_are_understood(tmp_path_factory, length, width, upper, lower, mass, flipped, order):
    text = quadruped_urdf(length, width, upper, lower, mass, flipped, 3 * mass * (upper + lower), order=order)
    robot = adopt_model(save(tmp_path_factory.mktemp("any"), text), "dog")
    assert [leg.joints[0] for leg in robot.tree.legs] == ["LF_HAA", "RF_HAA", "LH_HAA", "RH_HAA"]
    assert robot.symmetry.holds
    assert robot.reach == pytest.approx(upper + lower, rel=0.05)
    assert robot.stance.height < upper + lower + 0.02
    assert not robot.settled.others and robot.settled.tilt < 0.1


WRISTS = "".join(
    f"<body name='{name}_1'><joint axis='0 1 0'/><geom size='.02'/>"
    f"<body name='{name}_2'><joint axis='1 0 0'/><geom size='.02'/></body></body>"
    for name in ("left", "right")
)
"""Two chains of joints that all end where they begin."""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"<mujoco><worldbody><body><freejoint/><geom size='.1'/>{WRISTS}</body></worldbody></mujoco>", "no legs"),
        ("no xml", "not readable as XML"),
        ("<html/>", "root element <html>"),
        ('<robot name="r"/>', "no <link>"),
        (f'<robot name="r" xmlns:xacro="{XACRO}"><xacro:arg name="a"/><link name="a"/></robot>', "xacro"),
        ('<robot name="r"><link name="a"/></robot>', "no joints between links"),
        ("<mujoco><worldbody/></mujoco>", "no bodies"),
        ("<mujoco><worldbody><body><geom/></body></worldbody></mujoco>", "cannot be compiled"),
        ('<mujoco><include file="missing.xml"/></mujoco>', "missing.xml"),
        (arm_urdf(), "no legs"),
        (wheeled_urdf(), "wheels"),
        (one_leg_urdf(), "one leg"),
        (quadruped_urdf().replace('"LF_KFE" type="revolute"', '"LF_KFE" type="prismatic"'), "'LF_KFE' of a leg slides"),
        (quadruped_urdf().replace('"neck" type="revolute"', '"neck" type="planar"'), "type 'planar'"),
        (quadruped_urdf(legs=("LF", "RF", "LH")), "3 legs"),
        ('<?xml version="1.0" encoding="klingon"?><robot name="r"/>', "not readable as XML"),
    ],
)
def test_file_without_a_legged_robot_is_refused_with_a_reason(tmp_path, text, reason):
    with pytest.raises(ValueError, match=re.escape(reason)) as refusal:
        read = read_model(save(tmp_path, text, "model.urdf"))
        find_skeleton(read)
    assert str(tmp_path) in str(refusal.value)


HIP = '<origin xyz="0.2 0.1 0"/><axis xyz="1 0 0"/><limit lower="-2.6"'
DEEP = "<body><joint/><geom size='.1'/>"
COPIES = '<replicate count="1000">' * 2 + '<body><freejoint/><geom size=".1"/></body>' + "</replicate>" * 2
GRID = '<flexcomp name="f" type="grid" count="50 50 50" spacing=".1 .1 .1" radius=".01"/>'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (quadruped_urdf().replace(HIP, HIP.replace("0.2 0.1", "nan 0.1")), "joint 'LF_HAA' has xyz=\"nan 0.1 0\""),
        (quadruped_urdf().replace(HIP, HIP.replace("0.2 0.1", "0.2 -inf")), "joint 'LF_HAA' has xyz=\"0.2 -inf 0\""),
        (quadruped_urdf().replace(HIP, HIP.replace("-2.6", "nan")), "joint 'LF_HAA' has lower=\"nan\""),
        (quadruped_urdf().replace('size="0.08', 'size="inf'), "link 'head' has size=\"inf 0.06 0.05\""),
        (quadruped_urdf().replace('mass value="6.0"', 'mass value="-6.0"'), "the link 'trunk' has a mass of -6 kg"),
        (quadruped_urdf().replace('ixx="', 'ixx="nan" was="', 1), "link 'trunk' has ixx=\"nan\""),
        (quadruped_urdf().replace(HIP, HIP.replace("0.2 0.1", "1e300 0.1")), "origin of the link 'LF_HIP'"),
        (
            quadruped_urdf().replace('<axis xyz="1 0 0"/>', '<axis xyz="1e300 0 0"/>'),
            "the axis of the joint 'LF_HAA' has no direction",
        ),
        (biped_mjcf().replace('pos="0 0.1 -0.1"', 'pos="nan 0.1 -0.1"'), "body 'left_hip' has pos=\"nan 0.1 -0.1\""),
        (
            biped_mjcf().replace('size="0.1 0.045', 'size="inf 0.045'),
            "joint 'left_ankle_roll' has size=\"inf 0.045 0.015\"",
        ),
        (biped_mjcf().replace('range="0 2.2"', 'range="0 nan"', 1), "joint 'left_knee' has range=\"0 nan\""),
        (biped_mjcf().replace('mass="3"', 'mass="nan"', 1), "joint 'left_pitch' has mass=\"nan\""),
        (biped_mjcf("numbers.xml"), "the damping of a joint of the link 'left_hip'"),
        (quadruped_urdf().replace('"LF_HIP"', '"LF&#10;HIP"'), r"the name 'LF\nHIP' has characters that cannot"),
        (quadruped_urdf().replace('"LF_KFE"', '"LF\u202eKFE"'), r"the name 'LF\u202eKFE' has characters"),
        (f"<mujoco><worldbody>{DEEP * 100_000}{'</body>' * 100_000}</worldbody></mujoco>", "more than 200 deep"),
        ("<robot>" + "<link name='a'>" * 100_000 + "</link>" * 100_000 + "</robot>", "more than 200 deep"),
        (f"<mujoco><worldbody>{COPIES}</worldbody></mujoco>", "elements, with all copies; a model may have 100,000"),
        (f"<mujoco><worldbody><body>{GRID}</body></worldbody></mujoco>", "125,000 links, with all copies"),
        ("<mujoco>" + '<include file="part.xml"/>' * 2 + "</mujoco>", "1,001 links, with all copies"),
        (
            "<robot>" + "<link name='a'/>" * 1001 + "</robot>",
            "1,001 links, with all copies; a model may have 1,000",
        ),
        (f"<robot name='r'><!--{' ' * 10_000_000}--></robot>", "has 10 MB; a model without its meshes may have 10 MB"),
    ],
)
def test_model_with_impossible_numbers_or_too_many_parts_is_refused(tmp_path, monkeypatch, text, reason):
    monkeypatch.chdir(tmp_path)
    save(tmp_path, f"<mujoco><worldbody>{'<body/>' * 1001}</worldbody></mujoco>", "part.xml")
    save(tmp_path, BIPED_DEFAULTS, "defaults.xml")
    save(tmp_path, BIPED_DEFAULTS.replace('damping="0.5"', 'damping="inf"'), "numbers.xml")
    path = save(tmp_path, text, "model.xml")
    with pytest.raises(ValueError, match=re.escape(reason)) as refusal:
        adopt_model(path, "dog")
    assert str(refusal.value).startswith(f"{path}")
    assert sorted(os.listdir(tmp_path)) == ["defaults.xml", "model.xml", "numbers.xml", "part.xml"]  # no log of MuJoCo


def test_model_that_includes_itself_or_a_pipe_is_refused(tmp_path):
    body = "<worldbody><body><freejoint/><geom size='.1'/></body></worldbody>"
    path, other = tmp_path / "robot.xml", tmp_path / "other.xml"
    os.mkfifo(tmp_path / "pipe.xml")
    for part, message in (
        ("<asset><model name='again' file='robot.xml'/></asset>", "robot.xml includes robot.xml, which has it too"),
        ("<asset><model name='other' file='other.xml'/></asset>", "robot.xml includes robot.xml, which has it too"),
        ("<include file='pipe.xml'/>", "robot.xml includes pipe.xml, which is no file"),
    ):
        path.write_text(f"<mujoco>{part}{body}</mujoco>")
        other.write_text(f"<mujoco><asset><model name='robot' file='robot.xml'/></asset>{body}</mujoco>")
        with pytest.raises(ValueError, match=message):
            read_model(path)


def test_legs_with_hundreds_of_joints_are_refused(tmp_path):
    chain = "".join(
        f"<body pos='0 0 {-0.4 / 31}'><joint axis='{i % 2} {1 - i % 2} 0' range='-1 1'/><geom size='.01' mass='.1'/>"
        for i in range(31)
    )
    legs = "".join(f"<body pos='0 {y} 0'>{chain}{'</body>' * 31}</body>" for y in (-0.1, 0.1))
    text = f"<mujoco><compiler autolimits='true'/><worldbody><body><geom size='.1'/>{legs}</body></worldbody></mujoco>"
    with pytest.raises(ValueError, match="legs with 62 joints; at most 60 are supported"):
        adopt_model(save(tmp_path, text, "spider.xml"), "spider")


def test_file_whose_name_is_not_utf8_is_refused(tmp_path):
    with pytest.raises(ValueError, match="a name that is not UTF-8; rename"):
        read_model(save(tmp_path, quadruped_urdf(), os.fsdecode(b"d\xffg.urdf")))


def test_floating_joint_makes_its_child_the_base(tmp_path):
    def floating(parent, child):
        ends = f'<parent link="{parent}"/><child link="{child}"/>'
        return f'<link name="{parent}"/><joint name="to_{child}" type="floating">{ends}</joint></robot>'

    text = quadruped_urdf()
    for parent in ("world", "odom"):
        box = '<link name="box"/></robot>'
        moved = text.replace("</robot>", floating(parent, "root")).replace("</robot>", box)
        moved = moved.replace("</robot>", floating("earth", "box"))
        source = read_model(save(tmp_path, moved))
        assert source.model.body(source.base).name == "root"
        assert source.model.njnt == read_model(save(tmp_path, text)).model.njnt
        assert any("link 'root'" in note for note in source.notes)


def test_names_that_shapes_would_share_stay_apart(tmp_path):
    text = quadruped_urdf().replace('"LF_HIP"', '"root_2"').replace('"LF_HAA"', '"floating_base"')
    box = '<collision><geometry><box size="0.1 0.1 0.1"/></geometry></collision>'
    text = text.replace('<link name="root"/>', f'<link name="root">{box}{box}</link>')
    text = text.replace('<link name="root_2">', f'<link name="root_2">{box}')
    robot = adopt_model(save(tmp_path, text), "dog")
    assert {"root", "root_2", "root_2_"} <= {robot.model.geom(i).name for i in range(robot.model.ngeom)}


NAMES = st.text(st.characters(codec="utf-8"), min_size=1) | st.sampled_from(
    ['b",*([],__import__("os").system("false"))[0],"c', '"""', "\\", "a\nimport os\n", "{x}", "\\N{", "%s", "#", "é"]
)


@settings(max_examples=50)
@given(name=NAMES, other=NAMES)
def test_names_in_the_config_are_text(quadruped, name, other):
    assume(name != other)
    base = dataclasses.replace(quadruped.tree.links[0], name=name)
    leg = quadruped.tree.legs[0]
    named = {leg.links[-1]: other}
    others = [dataclasses.replace(x, name=named.get(x.name, x.name), parent=name) for x in quadruped.tree.links[1:]]
    links = (base, *others)
    legs = (dataclasses.replace(leg, links=(*leg.links[:-1], other)), *quadruped.tree.legs[1:])
    tree = dataclasses.replace(quadruped.tree, links=links, legs=legs, locked={other: 0.0})
    source = quadruped.source._replace(path=Path("/", other.replace("/", "")))
    written = ast.parse(write_config(dataclasses.replace(quadruped, tree=tree, source=source, notes=(other, name))))
    plain = ast.parse(write_config(quadruped))
    forbidden = [
        node.value for node in ast.walk(written) if isinstance(node, ast.keyword) and node.arg == "contact_links"
    ]
    assert [ast.literal_eval(value) for value in forbidden] == [(name,)]
    texts = [node.value for node in ast.walk(written) if isinstance(node, ast.Constant)]
    assert other in texts  # the links whose contacts cost
    assert [type(node) for node in ast.walk(written)] == [type(node) for node in ast.walk(plain)]


def test_mesh_is_found_in_packages_and_beside_the_model(tmp_path, monkeypatch):
    tetrahedron = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
    folder = tmp_path / "dog_description"
    (folder / "urdf").mkdir(parents=True)
    (folder / "meshes").mkdir()
    (folder / "meshes" / "a.obj").write_text(tetrahedron)
    (folder / "meshes" / "broken.obj").write_text("v 0 0\n")
    model = folder / "urdf" / "dog.urdf"
    found = folder / "meshes" / "a.obj"
    assert find_mesh(model, "package://dog_description/meshes/a.obj") == found.resolve()
    assert find_mesh(model, "package://dog_description/meshes/a.dae") == found.resolve()  # the same in another format
    assert find_mesh(model, f"file://{found}") == found
    assert find_mesh(model, "../meshes/a.obj").resolve() == found.resolve()
    assert find_mesh(model, "../meshes/broken.obj") is None
    assert find_mesh(model, f"file://localhost{found}") == found
    for name in (
        "file://[bad/a.stl",
        "http://[",
        "file://",
        "package://",
        "",
        "/",
        "..",
        f"{'x' * 300}.stl",
        "file:///%00.stl",
    ):
        assert find_mesh(model, name) is None
    assert find_mesh(tmp_path / "elsewhere.urdf", "package://cat/meshes/a.obj") is None
    monkeypatch.setenv("ROS_PACKAGE_PATH", f"/nowhere:{folder.parent}")
    assert find_mesh(Path("/opt/robot.urdf"), "package://dog_description/meshes/a.obj") == found
    (folder / "package.xml").write_text("<package><name>cat</name></package>")
    assert find_mesh(model, "package://cat/meshes/a.obj") == found.resolve()


@settings(max_examples=30)
@given(st.lists(st.from_regex(r"[a-z]{1,3}(_[a-z]{1,4}){0,2}", fullmatch=True), min_size=1, max_size=6))
def test_common_pattern_matches_its_names_and_no_others(names):
    pattern = common_pattern(names)
    assert all(re.fullmatch(pattern, name) for name in names)
    assert not re.fullmatch(pattern, "Other") and not re.fullmatch(pattern, f"{names[0]}_")


def test_shape_that_is_fitted_has_the_extent_of_the_points():
    random = np.random.default_rng(0)
    points = random.uniform(-1, 1, (500, 3)) * (0.02, 0.03, 0.2) + (1, 2, 3)
    for shape in (fit(points), fit(points * (1, 1, 0.2))):
        np.testing.assert_allclose(shape.pos[:2], (1, 2), atol=0.01)
    assert fit(points).kind == mujoco.mjtGeom.mjGEOM_CAPSULE
    np.testing.assert_allclose(np.ptp(points_of_shape(fit(points)), axis=0)[2], 0.4, atol=0.02)


def test_robot_is_data_that_cannot_be_changed(quadruped):
    with pytest.raises(dataclasses.FrozenInstanceError):
        quadruped.name = "cat"

"""Meshes of an adopted robot: they are where the source has them, pictures show them, and the simulation has none."""

import mujoco
import numpy as np
import pytest
from PIL import Image

from rsl_rl.adoption.adopt import adopt_model
from rsl_rl.adoption.visuals import find_meshes, write_visuals
from rsl_rl.utils.mujoco_model import file_to_draw
from rsl_rl.viz.video import Picture, VideoError, write_pictures
from tests.models_of_others import quadruped_urdf

RED = '<material name="red"><color rgba="0.9 0.1 0.1 1"/></material>'


def wedge(length, width, height):
    """Corners [12, 3, 3] of the triangles of a body without any symmetry of a box [m]."""
    a, b, c, d = (0, 0, 0), (length, 0, 0), (length, width, 0), (0, width, 0)
    e, f, g, h = (0, 0, -height), (length / 2, 0, -height), (length / 2, width / 3, -height), (0, width / 3, -height)
    quads = [(a, d, c, b), (e, f, g, h), (a, b, f, e), (b, c, g, f), (c, d, h, g), (d, a, e, h)]
    return np.array([corner for p, q, r, s in quads for corner in ((p, q, r), (p, r, s))], dtype=float)


def stl(triangles):
    rows = np.zeros(len(triangles), dtype=[("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("unused", "<u2")])
    rows["corners"] = triangles
    return bytes(80) + len(triangles).to_bytes(4, "little") + rows.tobytes()


def adopt(tmp_path, urdf):
    """Adopt a robot and write its files; return the robot and the path of its model."""
    (tmp_path / "thigh.stl").write_bytes(stl(wedge(0.05, 0.06, 0.2)))
    (tmp_path / "dog.urdf").write_text(urdf)
    robot, path = adopt_model(tmp_path / "dog.urdf", "dog"), tmp_path / "dog" / "dog.xml"
    path.parent.mkdir()
    path.write_text(robot.mjcf)
    meshes = find_meshes(robot.source, robot.skeleton)
    if meshes:
        write_visuals(robot.mjcf, meshes, path)
    return robot, path


@pytest.fixture
def dog(tmp_path):
    """A quadruped whose thighs are seen as red meshes, and collide as balls, with a grey camera on its trunk."""
    seen = '<visual><origin xyz="0 0.01 0" rpy="0.3 0 0.2"/><geometry><mesh filename="thigh.stl"/></geometry>'
    urdf = quadruped_urdf().replace(
        '<visual><geometry><mesh filename="package://dog_description/meshes/thigh.stl"/></geometry></visual>',
        f"{seen}{RED}</visual>",
    )
    camera = '<visual><origin xyz="0 0.02 0" rpy="0.5 0 1"/><geometry><mesh filename="thigh.stl"/></geometry></visual>'
    urdf = urdf.replace('<link name="camera"/>', f'<link name="camera">{camera}</link>')
    ball = '<collision><geometry><sphere radius="0.03"/></geometry></collision>'
    mesh = '<collision><geometry><mesh filename="package://dog_description/meshes/thigh.stl"/></geometry></collision>'
    assert mesh in urdf and seen in urdf
    return adopt(tmp_path, urdf.replace(mesh, ball))


def corners_of(model, pose):
    """Return the vertices of all meshes in the world, sorted, for angles of joints by name."""
    data = mujoco.MjData(model)
    data.qpos[:7] = 0, 0, 0.4, 1, 0, 0, 0
    for name, angle in pose.items():
        data.qpos[model.joint(name).qposadr[0]] = angle
    mujoco.mj_kinematics(model, data)
    found = []
    for geom in np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_MESH):
        first, count = model.mesh_vertadr[model.geom_dataid[geom]], model.mesh_vertnum[model.geom_dataid[geom]]
        local = model.mesh_vert[first : first + count]
        found.append(local @ data.geom_xmat[geom].reshape(3, 3).T + data.geom_xpos[geom])
    points = np.concatenate(found)
    return points[np.lexsort(points.round(4).T)]


def test_meshes_are_where_the_source_has_them_in_any_pose(dog):
    robot, path = dog
    drawn, rng = mujoco.MjModel.from_xml_path(str(file_to_draw(path))), np.random.default_rng(1)
    assert drawn.nmesh == 5 and drawn.nq == robot.model.nq
    for _ in range(5):
        pose = {joint: rng.uniform(-1, 1) for leg in robot.tree.legs for joint in leg.joints}
        np.testing.assert_allclose(corners_of(drawn, pose), corners_of(robot.source.model, pose), atol=2e-6)


def test_simulation_has_no_meshes_and_moves_as_the_drawn_robot(dog):
    robot, path = dog
    simulated, drawn = (mujoco.MjModel.from_xml_path(str(file)) for file in (path, file_to_draw(path)))
    assert simulated.nmesh == 0
    ends = []
    for model in (simulated, drawn):
        data = mujoco.MjData(model)
        data.qpos[2] = robot.stance.height
        mujoco.mj_step(model, data, 200)
        ends.append([*data.qpos, *data.qvel])
    np.testing.assert_array_equal(*ends)


def test_pictures_show_the_meshes_in_their_colour(dog, tmp_path):
    robot, path = dog
    picture = Picture(np.array([0, 0, robot.stance.height, 1, 0, 0, 0, *robot.stance.angles]), "", 90.0)
    try:
        write_pictures(tmp_path / "dog.png", path, [picture], 1)
    except VideoError:
        pytest.skip("no OpenGL driver: apt-get install libegl1 libegl-mesa0 libgl1-mesa-dri")
    pixels = np.asarray(Image.open(tmp_path / "dog.png").convert("RGB")).astype(int)
    assert ((pixels[..., 0] > 2 * pixels[..., 1]) & (pixels[..., 0] > 80)).sum() > 100  # red


def test_robot_without_meshes_is_drawn_from_its_model(tmp_path):
    _, path = adopt(tmp_path, quadruped_urdf())  # its mesh files are missing
    assert file_to_draw(path) == path

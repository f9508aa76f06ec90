"""Ground: planes, height fields, triangle meshes, and the shapes of terrain_utils."""

import numpy as np
import pytest
import torch
from robots import World, box_urdf

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture
def ball(tmp_path):
    text = box_urdf(1.0).replace('<box size="0.2 0.2 0.2"/>', '<sphere radius="0.1"/>')
    (tmp_path / "ball.urdf").write_text(text)
    return tmp_path / "ball.urdf"


def waves(nx=40, ny=25, cell=0.1, vertical=0.005):
    """Return heights [nx, ny] as counts, different along x and y."""
    x, y = np.arange(nx)[:, None] * cell, np.arange(ny)[None, :] * cell
    return np.rint((0.2 * np.sin(1.5 * x) + 0.1 * np.cos(2.5 * y) + 0.05 * x) / vertical).astype(np.int16)


def height_field(raw, cell=0.1, vertical=0.005, origin=(-1.0, -0.5, 0.2)):
    def add(world):
        params = world.api.HeightFieldParams()
        params.column_scale = params.row_scale = cell
        params.vertical_scale = vertical
        params.nbColumns, params.nbRows = raw.shape  # columns are along x
        params.transform.p = world.api.Vec3(*origin)
        world.gym.add_heightfield(world.sim, raw.flatten(order="C"), params)

    return add


def triangle_mesh(vertices, triangles, origin=(-1.0, -0.5, 0.2)):
    def add(world):
        params = world.api.TriangleMeshParams()
        params.nb_vertices, params.nb_triangles = len(vertices), len(triangles)
        params.transform.p = world.api.Vec3(*origin)
        world.gym.add_triangle_mesh(world.sim, vertices.flatten(), triangles.flatten(), params)

    return add


def heights_of(world):
    """Return heights of the ground by rays from above at some places."""
    world.prepare()
    places = np.array([[-0.33, 0.21], [0.5, 0.0], [1.77, 1.31], [2.41, 0.66]])
    start = np.concatenate([places, np.full((4, 1), 20.0)], axis=1)
    down = np.tile([0.0, 0.0, -1.0], (4, 1))
    distance, _ = world.sim.engine.worlds.ray(start[None], down[None], np.array([0]))
    return places, 20.0 - distance[0]


def bilinear(raw, places, origin=(-1.0, -0.5, 0.2), cell=0.1, vertical=0.005):
    x, y = (places - origin[:2]).T / cell
    i, j = x.astype(int), y.astype(int)
    u, v = x - i, y - j
    h = raw * vertical + origin[2]
    return (1 - u) * ((1 - v) * h[i, j] + v * h[i, j + 1]) + u * ((1 - v) * h[i + 1, j] + v * h[i + 1, j + 1])


def test_height_field_has_the_samples_along_x_and_y(gymapi, ball):
    raw = waves()
    places, found = heights_of(World(gymapi, ball, 1, height=30.0, ground=height_field(raw)))
    np.testing.assert_allclose(found, bilinear(raw, places), atol=4e-3)


def test_height_field_stays_where_it_is_for_environments_at_other_origins(gymapi, ball):
    raw = waves()
    world = World(gymapi, ball, 0, ground=height_field(raw))
    for i in range(2):
        env = world.gym.create_env(world.sim, gymapi.Vec3(-0.3, -0.2, 0), gymapi.Vec3(0.3, 0.2, 1), 1)
        world.gym.create_actor(env, world.asset, gymapi.Transform(gymapi.Vec3(0, 0, 30)), "ball", i, 0)
    world.num_envs = 2
    world.prepare()
    places = np.array([[-0.33, 0.21], [0.5, 0.0], [1.77, 1.31]])
    start = np.concatenate([places, np.full((3, 1), 20.0)], axis=1)
    down = np.tile([0.0, 0.0, -1.0], (3, 1))
    distance, _ = world.sim.engine.worlds.ray(start[None], down[None], np.array([1]))
    np.testing.assert_allclose(20.0 - distance[0], bilinear(raw, places + np.array([0.0, 0.4])), atol=4e-3)


def test_tilted_plane_stays_where_it_is_for_environments_at_other_origins(gymapi, ball):
    def tilted(world):
        plane = gymapi.PlaneParams()
        plane.normal = gymapi.Vec3(0, 0.6, 0.8)
        world.gym.add_ground(world.sim, plane)

    world = World(gymapi, ball, 0, ground=tilted)
    for i in range(2):
        env = world.gym.create_env(world.sim, gymapi.Vec3(-0.3, -0.2, 0), gymapi.Vec3(0.3, 0.2, 1), 1)
        world.gym.create_actor(env, world.asset, gymapi.Transform(gymapi.Vec3(0, 0, 30)), "ball", i, 0)
    world.num_envs = 2
    world.prepare()
    start, down = np.array([[[0.0, 0.0, 20.0]]] * 2), np.array([[[0.0, 0.0, -1.0]]] * 2)
    distance, _ = world.sim.engine.worlds.ray(start, down, np.array([0, 1]))
    np.testing.assert_allclose(20.0 - distance[:, 0], [0.0, -0.4 * 0.6 / 0.8], atol=1e-6)


def test_mesh_of_a_height_field_is_that_height_field(gymapi, ball):
    from isaacgym.terrain_utils import convert_heightfield_to_trimesh

    raw = waves()
    vertices, triangles = convert_heightfield_to_trimesh(raw, 0.1, 0.005)
    assert vertices.dtype == np.float32 and triangles.dtype == np.uint32 and len(triangles) == 2 * 39 * 24
    world = World(gymapi, ball, 1, height=30.0, ground=triangle_mesh(vertices, triangles))
    field = world.sim.scene.grounds[0]
    np.testing.assert_allclose(field.heights, raw * 0.005, atol=1e-6)
    places, found = heights_of(world)
    np.testing.assert_allclose(found, bilinear(raw, places), atol=4e-3)
    normals = np.cross(*(vertices[triangles[:, k]] - vertices[triangles[:, 0]] for k in (1, 2)))
    assert (normals[:, 2] > 0).all()  # triangles face up


def test_mesh_in_another_order_is_rasterized_to_the_same_heights(gymapi, ball):
    from isaacgym.terrain_utils import convert_heightfield_to_trimesh

    raw = waves()
    vertices, triangles = convert_heightfield_to_trimesh(raw, 0.1, 0.005)
    order = np.random.default_rng(0).permutation(len(vertices))
    place = np.argsort(order)
    world = World(gymapi, ball, 1, height=30.0, ground=triangle_mesh(vertices[order], place[triangles]))
    np.testing.assert_allclose(world.sim.scene.grounds[0].heights, raw * 0.005, atol=1e-5)


def test_steps_become_vertical_walls_at_the_threshold(gymapi, ball):
    from isaacgym.terrain_utils import convert_heightfield_to_trimesh

    raw = np.zeros((20, 20), np.int16)
    raw[8:12, 8:12] = 100  # 0.5 m
    vertices, triangles = convert_heightfield_to_trimesh(raw, 0.1, 0.005, slope_threshold=0.75)
    flat = vertices.reshape(20, 20, 3)
    np.testing.assert_allclose(flat[7, 10, 0], 0.8, atol=1e-6)  # moved under the edge
    np.testing.assert_allclose(flat[12, 10, 0], 1.1, atol=1e-6)
    np.testing.assert_allclose(flat[10, 7, 1], 0.8, atol=1e-6)
    edges = vertices[triangles]
    (a, b), (c, d) = ((edges[:, k, :2] - edges[:, 0, :2]).T for k in (1, 2))
    areas = np.abs(a * d - b * c)
    steep = np.ptp(edges[..., 2], axis=1) > 0.1
    sides = steep & (areas < 1e-6)
    assert sides.sum() >= 4 * 3 * 2  # walls have no extent seen from above
    world = World(gymapi, ball, 1, height=30.0, ground=triangle_mesh(vertices, triangles))
    np.testing.assert_allclose(world.sim.scene.grounds[0].heights, raw * 0.005, atol=1e-6)


def test_ball_rests_on_each_kind_of_ground_at_the_same_height(gymapi, ball):
    from isaacgym.terrain_utils import convert_heightfield_to_trimesh

    raw = np.full((60, 60), 40, np.int16)
    mesh = convert_heightfield_to_trimesh(raw, 0.1, 0.005)
    origin = (-3.0, -3.0, -0.2)  # the surface is at zero
    grounds = ["plane", height_field(raw, origin=origin), triangle_mesh(*mesh, origin=origin)]
    ends = []
    for ground in grounds:
        world = World(gymapi, ball, 1, height=0.15, ground=ground).prepare()
        world.step(200)
        ends.append(world.root[0, 2])
        torch.testing.assert_close(world.force[0, 0, 2], torch.tensor(9.81), atol=0.1, rtol=0)
    torch.testing.assert_close(torch.stack(ends), torch.full((3,), 0.1), atol=1e-3, rtol=0)


def test_wrong_numbers_of_samples_vertices_and_normals_are_refused(gymapi, ball):
    with pytest.raises(ValueError, match=r"add_heightfield: 12 samples for nbRows=3 and nbColumns=5"):
        World(gymapi, ball, 1, ground=lambda world: _short_field(world))
    with pytest.raises(ValueError, match=r"add_triangle_mesh: 9 numbers for nb_vertices=4"):
        World(gymapi, ball, 1, ground=lambda world: _short_mesh(world))
    with pytest.raises(ValueError, match=r"add_ground: the normal is zero"):
        World(gymapi, ball, 1, ground=lambda world: _no_normal(world))


def _short_field(world):
    params = world.api.HeightFieldParams()
    params.nbRows, params.nbColumns = 3, 5
    world.gym.add_heightfield(world.sim, np.zeros(12, np.int16), params)


def _short_mesh(world):
    params = world.api.TriangleMeshParams()
    params.nb_vertices, params.nb_triangles = 4, 1
    world.gym.add_triangle_mesh(world.sim, np.zeros(9, np.float32), np.zeros(3, np.uint32), params)


def _no_normal(world):
    params = world.api.PlaneParams()
    params.normal = world.api.Vec3(0, 0, 0)
    world.gym.add_ground(world.sim, params)


def tile(width=81, length=81):
    from isaacgym import terrain_utils

    return terrain_utils.SubTerrain("tile", width=width, length=length, vertical_scale=0.005, horizontal_scale=0.1)


def test_terrain_shapes_have_the_heights_that_were_asked_for(gymapi):
    from isaacgym import terrain_utils as t

    np.random.seed(0)
    rough = t.random_uniform_terrain(tile(), -0.05, 0.05, step=0.01, downsampled_scale=0.2).height_field_raw
    assert rough.min() == -10 and rough.max() == 10 and rough.dtype == np.int16
    slope = t.pyramid_sloped_terrain(tile(), slope=0.3, platform_size=2.0).height_field_raw * 0.005
    assert slope[0].max() == 0 and np.ptp(slope[31:50, 31:50]) == 0 and slope.max() == slope[40, 40] > 0.5
    pit = t.pyramid_sloped_terrain(tile(), slope=-0.3, platform_size=2.0).height_field_raw * 0.005
    np.testing.assert_allclose(pit, -slope, atol=0.005)
    stairs = t.pyramid_stairs_terrain(tile(), 0.5, 0.1, platform_size=2.0).height_field_raw * 0.005
    np.testing.assert_allclose(stairs[40, [0, 4, 5, 9, 10, 15]], [0, 0, 0.1, 0.1, 0.2, 0.3])
    assert np.ptp(stairs[31:50, 31:50]) == 0
    np.testing.assert_array_equal(stairs, stairs[::-1])
    boxes = t.discrete_obstacles_terrain(tile(), 0.2, 1.0, 2.0, 20, platform_size=2.0).height_field_raw
    assert set(np.unique(boxes)) <= {-40, -20, 0, 20, 40} and not boxes[31:50, 31:50].any() and boxes.any()
    stones = t.stepping_stones_terrain(tile(), 0.5, 0.3, 0.0, platform_size=2.0, depth=-3.0).height_field_raw
    assert set(np.unique(stones)) == {-600, 0} and not stones[31:50, 31:50].any()
    wave = t.wave_terrain(tile(), num_waves=2, amplitude=0.4).height_field_raw
    assert 60 <= wave.max() <= 80 and wave.min() == -wave.max()
    rise = t.sloped_terrain(tile(), slope=0.5).height_field_raw
    assert rise[10, 3] == 100 and np.ptp(rise[10]) == 0
    steps = t.stairs_terrain(tile(), 0.5, 0.1).height_field_raw
    assert steps[[0, 4, 5], 0].tolist() == [20, 20, 40]

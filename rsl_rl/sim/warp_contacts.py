"""Contacts in MuJoCo Warp: how many there can be, and those with a height field that it gets wrong.

A height field is a grid of prisms. Where a shape touches the side of a prism, MuJoCo Warp 4.0 gives a vertical contact
up to the height of the step: decimetres deep, above the ground or directed downwards. MuJoCo on a CPU does not.
"""

# pyright: reportAttributeAccessIssue=false, reportIndexIssue=false, reportOperatorIssue=false, reportCallIssue=false
# pyright: reportArgumentType=false
# (mujoco and warp fill their namespaces at run time; warp compiles the kernels, whose types Python does not have, and
# needs annotations that are not strings)
import itertools
from typing import Any, Iterator, Tuple

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp

from rsl_rl.utils.height_field import HeightField
from rsl_rl.utils.mujoco_model import FLOOR

_PLANE, _HFIELD = int(mujoco.mjtGeom.mjGEOM_PLANE), int(mujoco.mjtGeom.mjGEOM_HFIELD)
_SPHERE, _CAPSULE = int(mujoco.mjtGeom.mjGEOM_SPHERE), int(mujoco.mjtGeom.mjGEOM_CAPSULE)

_MAX_HFIELD_CONTACTS = 4
"""Contacts that MuJoCo Warp keeps of one geom with a height field."""

_MAX_ABOVE = wp.constant(1e-4)
"""Height above the ground that rounding explains [m]."""

_MIN_UP = wp.constant(-0.01)
"""Upward part of a normal, which is not negative on any ground, less rounding."""


def max_contacts(model: Any) -> int:
    """Return the largest number of contacts that the geoms of a ``mujoco.MjModel`` can have at once."""
    return max(1, sum(_contacts_of(*types) for types in _pairs(model)))


def max_constraints(model: Any, num_contacts: int) -> int:
    """Return the largest number of constraint rows of a model with this number of contacts."""
    condim = max([1, *model.geom_condim, *model.pair_dim])
    pyramidal = model.opt.cone == mujoco.mjtCone.mjCONE_PYRAMIDAL
    rows = 2 * (condim - 1) if pyramidal and condim > 1 else condim
    limits = 2 * int(model.jnt_limited.sum()) + 2 * int(model.tendon_limited.sum())
    losses = int((model.dof_frictionloss > 0).sum()) + int((model.tendon_frictionloss > 0).sum())
    return int(num_contacts * rows) + limits + losses + 6 * int(model.neq)


def _pairs(model: Any) -> Iterator[Tuple[int, int]]:
    """Yield the two types of each pair of geoms that may touch, smaller type first."""
    for a, b in itertools.combinations(range(model.ngeom), 2):
        wanted = (model.geom_contype[a] & model.geom_conaffinity[b]) | (
            model.geom_contype[b] & model.geom_conaffinity[a]
        )
        if wanted and model.body_weldid[model.geom_bodyid[a]] != model.body_weldid[model.geom_bodyid[b]]:
            yield _types(model, a, b)
    for a, b in zip(model.pair_geom1, model.pair_geom2):
        yield _types(model, int(a), int(b))


def _types(model: Any, a: int, b: int) -> Tuple[int, int]:
    low, high = sorted((int(model.geom_type[a]), int(model.geom_type[b])))
    return low, high


def _contacts_of(low: int, high: int) -> int:
    """Return the most contacts of two geoms of these types, smaller type first."""
    if low == _HFIELD or high == _HFIELD:
        return _MAX_HFIELD_CONTACTS
    if _SPHERE in (low, high):
        return 1
    if high == _CAPSULE and low in (_PLANE, _CAPSULE):
        return 2
    return 8


@wp.func
def _surface(heights: wp.array2d[float], first: wp.vec2, cell: float, point: wp.vec3) -> wp.vec3:
    """Return the slope along x, the slope along y and the height of the ground under a point."""
    x = wp.clamp((point[0] - first[0]) / cell, 0.0, float(heights.shape[0] - 1))
    y = wp.clamp((point[1] - first[1]) / cell, 0.0, float(heights.shape[1] - 1))
    i, j = wp.clamp(int(x), 0, heights.shape[0] - 2), wp.clamp(int(y), 0, heights.shape[1] - 2)
    low, high = heights[i, j], heights[i + 1, j + 1]
    x, y = x - float(i), y - float(j)
    if x >= y:  # the triangles of a cell meet at its diagonal
        rise = wp.vec2(heights[i + 1, j] - low, high - heights[i + 1, j])
    else:
        rise = wp.vec2(high - heights[i, j + 1], heights[i, j + 1] - low)
    return wp.vec3(rise[0] / cell, rise[1] / cell, low + x * rise[0] + y * rise[1])


@wp.kernel(enable_backward=False)
def _correct(
    heights: wp.array2d[float],
    first: wp.vec2,
    cell: float,
    floor: int,
    radius: wp.array2d[float],  # of the bounding spheres of geoms
    num: wp.array[int],
    world: wp.array[int],
    geom: wp.array[wp.vec2i],
    dist: wp.array[float],
    pos: wp.array[wp.vec3],
    frame: wp.array[wp.mat33],
    kind: wp.array[int],
):
    i = wp.tid()
    if i >= num[0] or geom[i][0] != floor:
        return
    normal = frame[i][0]
    on_ground, on_shape = pos[i] - 0.5 * dist[i] * normal, pos[i] + 0.5 * dist[i] * normal
    under = _surface(heights, first, cell, on_shape)
    depth = under[2] - on_shape[2]  # of the deepest point of the shape
    largest = radius[world[i] % radius.shape[0], geom[i][1]] + wp.max(depth, 0.0)
    above = on_ground[2] - _surface(heights, first, cell, on_ground)[2]
    if normal[2] >= _MIN_UP and above <= _MAX_ABOVE and -dist[i] <= largest:
        return
    if depth <= 0.0:
        kind[i] = 0  # neither a constraint nor sensed
        return
    normal = wp.normalize(wp.vec3(-under[0], -under[1], 1.0))
    along = wp.normalize(wp.vec3(1.0, 0.0, under[0]))
    dist[i] = -depth * normal[2]
    pos[i] = on_shape - 0.5 * dist[i] * normal
    frame[i] = wp.matrix_from_rows(normal, along, wp.cross(normal, along))


def correct_contacts(warp_model: mjw.Model, model: mujoco.MjModel, ground: HeightField) -> None:
    """Have the engine correct its contacts with the height field before they act.

    A contact is wrong if it points down, if its point on the ground is above the ground, or if it is deeper than the
    shape reaches. It is removed if the deepest point of the shape is above the ground; otherwise it becomes a contact
    of this point with the triangle above it.
    """
    floor, heights = model.geom(FLOOR).id, wp.array(np.ascontiguousarray(ground.heights, np.float32), dtype=float)
    settings = [heights, wp.vec2(*ground.origin), float(ground.cell), floor, warp_model.geom_rbound]

    def correct(_: mjw.Model, data: mjw.Data) -> None:
        contact = data.contact
        found = [data.nacon, contact.worldid, contact.geom, contact.dist, contact.pos, contact.frame, contact.type]
        wp.launch(_correct, dim=data.naconmax, inputs=settings + found)

    warp_model.callback.contactfilter = correct

"""Shapes of ground for height fields: each function changes ``terrain.height_field_raw`` and returns the terrain.

Heights are int16 counts of ``vertical_scale`` metres on a grid of ``horizontal_scale`` metres, [width, length]. Random
terrains use NumPy's global generator; a seed does not give the heights that NVIDIA's functions give.
"""

import numpy as np
from numpy.random import choice  # noqa: F401  # clients get it by `from isaacgym.terrain_utils import *`


class SubTerrain:
    """One tile of a terrain, flat at first."""

    def __init__(self, terrain_name="terrain", width=256, length=256, vertical_scale=1.0, horizontal_scale=1.0):
        self.terrain_name = terrain_name
        self.vertical_scale, self.horizontal_scale = vertical_scale, horizontal_scale
        self.width, self.length = int(width), int(length)
        self.height_field_raw = np.zeros((self.width, self.length), dtype=np.int16)


def _counts(terrain, metres):
    """Return a height as counts."""
    return int(metres / terrain.vertical_scale)


def _cells(terrain, metres):
    """Return a distance as a number of grid cells."""
    return int(metres / terrain.horizontal_scale)


def _platform(terrain, size):
    """Return the slices of a square of ``size`` metres in the middle."""
    half = _cells(terrain, size / 2)
    x, y = terrain.width // 2, terrain.length // 2
    return slice(max(0, x - half), x + half), slice(max(0, y - half), y + half)


def _ramp(count):
    """Return how far each of ``count`` points is from the border: 0 there, 1 in the middle."""
    middle = max(1, count // 2)
    return np.clip((middle - np.abs(middle - np.arange(count))) / middle, 0.0, 1.0)


def random_uniform_terrain(terrain, min_height, max_height, step=1, downsampled_scale=None):
    """Add random heights from min_height to max_height [m] in steps of ``step`` [m], drawn every ``downsampled_scale``
    metres (every point by default) and interpolated between."""
    low, high = _counts(terrain, min_height), _counts(terrain, max_height)
    step = max(1, _counts(terrain, step))
    levels = np.arange(low, high + step, step)
    spacing = terrain.horizontal_scale if downsampled_scale is None else downsampled_scale
    shape = tuple(max(2, int(count * terrain.horizontal_scale / spacing)) for count in (terrain.width, terrain.length))
    coarse = np.random.choice(levels, shape).astype(float)
    terrain.height_field_raw += np.rint(_stretched(coarse, terrain.height_field_raw.shape)).astype(np.int16)
    return terrain


def _stretched(coarse, shape):
    """Return heights interpolated to a finer grid with the same corners, linearly along x and y."""
    x, y = (np.linspace(0, size - 1, count) for size, count in zip(coarse.shape, shape))
    i, j = (np.minimum(p.astype(int), size - 2) for p, size in zip((x, y), coarse.shape))
    u, v = (x - i)[:, None], (y - j)[None, :]
    a, b = coarse[np.ix_(i, j)], coarse[np.ix_(i + 1, j)]
    c, d = coarse[np.ix_(i, j + 1)], coarse[np.ix_(i + 1, j + 1)]
    return a * (1 - u) * (1 - v) + b * u * (1 - v) + c * (1 - u) * v + d * u * v


def sloped_terrain(terrain, slope=1):
    """Add a slope that rises along x by ``slope`` metres per metre."""
    rise = slope * terrain.horizontal_scale / terrain.vertical_scale * np.arange(terrain.width)
    terrain.height_field_raw += rise[:, None].astype(np.int16)
    return terrain


def pyramid_sloped_terrain(terrain, slope=1, platform_size=1.0):
    """Add a pyramid (a pit for negative slopes) whose top is flat for ``platform_size`` metres."""
    peak = slope * terrain.horizontal_scale / terrain.vertical_scale * (terrain.width / 2)
    pyramid = peak * _ramp(terrain.width)[:, None] * _ramp(terrain.length)[None, :]
    xs, ys = _platform(terrain, platform_size)
    top = abs(pyramid[xs.start, ys.start])  # the height of the platform's corner
    terrain.height_field_raw += np.clip(pyramid, -top, top).astype(np.int16)
    return terrain


def discrete_obstacles_terrain(terrain, max_height, min_size, max_size, num_rects, platform_size=1.0):
    """Put ``num_rects`` boxes of random sizes [m] and of the heights -1, -0.5, 0.5 or 1 times max_height on the ground;
    the middle stays free."""
    height = _counts(terrain, max_height)
    low, high = max(1, _cells(terrain, min_size)), max(2, _cells(terrain, max_size))
    levels = [-height, -height // 2, height // 2, height]
    step = 4
    for _ in range(num_rects):
        width, length = (step * max(1, np.random.randint(low, max(low + 1, high)) // step) for _ in "xy")
        x = np.random.randint(0, max(1, terrain.width - width))
        y = np.random.randint(0, max(1, terrain.length - length))
        terrain.height_field_raw[x : x + width, y : y + length] = np.random.choice(levels)
    terrain.height_field_raw[_platform(terrain, platform_size)] = 0
    return terrain


def wave_terrain(terrain, num_waves=1, amplitude=1.0):
    """Add waves along x and y whose sum reaches ``amplitude`` metres."""
    if num_waves > 0:
        half = 0.5 * amplitude / terrain.vertical_scale
        x = 2 * np.pi * num_waves * np.arange(terrain.width) / terrain.width
        y = 2 * np.pi * num_waves * np.arange(terrain.length) / terrain.length
        terrain.height_field_raw += (half * (np.cos(y)[None, :] + np.sin(x)[:, None])).astype(np.int16)
    return terrain


def stairs_terrain(terrain, step_width, step_height):
    """Add stairs that rise along x."""
    width, height = max(1, _cells(terrain, step_width)), _counts(terrain, step_height)
    rise = height * (1 + np.arange(terrain.width) // width)
    terrain.height_field_raw += rise[:, None].astype(np.int16)
    return terrain


def pyramid_stairs_terrain(terrain, step_width, step_height, platform_size=1.0):
    """Build stairs from all sides up to (down to, for negative heights) a platform in the middle."""
    width, height = max(1, _cells(terrain, step_width)), _counts(terrain, step_height)
    platform = _cells(terrain, platform_size)
    inset, level = 0, 0
    while min(terrain.width, terrain.length) - 2 * (inset + width) > platform:
        inset, level = inset + width, level + height
        terrain.height_field_raw[inset : terrain.width - inset, inset : terrain.length - inset] = level
    return terrain


def stepping_stones_terrain(terrain, stone_size, stone_distance, max_height, platform_size=1.0, depth=-10):
    """Build square stones of random heights up to max_height, with gaps between them, over a pit of ``depth`` [m]."""
    size, gap = max(1, _cells(terrain, stone_size)), _cells(terrain, stone_distance)
    height = _counts(terrain, max_height)
    levels = np.arange(-height - 1, height) if height > 0 else np.array([0])
    terrain.height_field_raw[:] = _counts(terrain, depth)
    for x in range(0, terrain.width, size + gap):
        shift = np.random.randint(0, size) if size > 1 else 0  # rows of stones are not in line
        for y in range(-shift, terrain.length, size + gap):
            terrain.height_field_raw[x : x + size, max(0, y) : max(0, y + size)] = np.random.choice(levels)
    terrain.height_field_raw[_platform(terrain, platform_size)] = 0
    return terrain


def convert_heightfield_to_trimesh(height_field_raw, horizontal_scale, vertical_scale, slope_threshold=None):
    """Return vertices [V, 3] float32 and triangles [T, 3] uint32 of a height field.

    Where the ground is steeper than ``slope_threshold``, the lower vertex moves by one cell to under the upper one, so
    that a step is a vertical wall.
    """
    raw = np.asarray(height_field_raw)
    if not (horizontal_scale > 0 and vertical_scale > 0):
        raise ValueError(
            f"convert_heightfield_to_trimesh: horizontal_scale={horizontal_scale} and vertical_scale={vertical_scale}; "
            "both must be above zero"
        )
    rows, cols = raw.shape
    x = np.tile(np.arange(rows)[:, None] * float(horizontal_scale), (1, cols))
    y = np.tile(np.arange(cols)[None, :] * float(horizontal_scale), (rows, 1))
    if slope_threshold is not None:
        limit = slope_threshold * horizontal_scale / vertical_scale
        move_x, move_y = _moves(raw.astype(np.int64), limit, 0), _moves(raw.astype(np.int64), limit, 1)
        corner = _corner_moves(raw.astype(np.int64), limit)
        x += np.where(move_x != 0, move_x, np.where(move_y == 0, corner, 0)) * horizontal_scale
        y += np.where(move_y != 0, move_y, np.where(move_x == 0, corner, 0)) * horizontal_scale
    vertices = np.stack([x, y, raw * float(vertical_scale)], axis=-1).reshape(-1, 3).astype(np.float32)
    first = (np.arange(rows - 1)[:, None] * cols + np.arange(cols - 1)).ravel()
    upper = np.stack([first, first + cols + 1, first + 1], axis=-1)
    lower = np.stack([first, first + cols, first + cols + 1], axis=-1)
    return vertices, np.stack([upper, lower], axis=1).reshape(-1, 3).astype(np.uint32)


def _moves(raw, limit, axis):
    """Return 1 where the next point along an axis is higher by more than the limit, -1 where the previous one is."""
    steep = np.diff(raw, axis=axis)
    moves = np.zeros(raw.shape, dtype=int)
    lower, upper = ([slice(None)] * 2 for _ in "ab")
    lower[axis], upper[axis] = slice(0, -1), slice(1, None)
    moves[tuple(lower)] += steep > limit
    moves[tuple(upper)] -= steep < -limit
    return moves


def _corner_moves(raw, limit):
    """Return 1 or -1 where only the diagonal neighbour is higher by more than the limit."""
    steep = raw[1:, 1:] - raw[:-1, :-1]
    moves = np.zeros(raw.shape, dtype=int)
    moves[:-1, :-1] += steep > limit
    moves[1:, 1:] -= steep < -limit
    return moves

"""Measure the physics on stairs as a height field and as boxes: python benchmarks/ground.py --num_envs 256

Prints environment steps per second (4 physics steps) of the Go2 with random joint targets, on one thread.
"""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

import argparse
import time

import mujoco
import numpy as np
from mujoco import batch

from rsl_rl.config.terrain import TerrainConfig, TerrainType
from rsl_rl.robots.go2 import GO2
from rsl_rl.terrain import Terrain, build_terrain
from rsl_rl.utils.mujoco_model import load_model

TILES, SIZE, WIDTH = 8, 8.0, 0.3  # per side; of a tile and of a step [m]
HEIGHT, STEPS = 0.1, 9  # of a step [m], per tile


def stairs(cell: float) -> Terrain:
    """Return tiles of stairs that rise to their middle."""
    kind = TerrainType(func="stairs_down", params={"step_height": (HEIGHT, HEIGHT), "step_width": WIDTH})
    cfg = TerrainConfig(types={"stairs": kind}, num_levels=TILES, num_columns=TILES, tile_size=SIZE, cell=cell)
    terrain = build_terrain(cfg)
    assert terrain is not None
    return terrain


def boxes(per_step: int) -> mujoco.MjModel:
    """Return the same stairs of boxes: one below the other, or four around each."""
    spec = mujoco.MjSpec.from_file(str(GO2.model_path))
    links = [sensor.name[: -len("_contact")] for sensor in spec.sensors if sensor.name.endswith("_contact")]
    for sensor in [sensor for sensor in spec.sensors if sensor.name.endswith("_contact")]:
        spec.delete(sensor)  # they name one geom of the ground
    for pair in list(spec.pairs):
        spec.delete(pair)
    for link in links:
        geom = spec.geom(link)
        geom.contype, geom.conaffinity, geom.condim = 1, 2, 3
    floor = spec.geom("floor")
    floor.contype, floor.conaffinity = 2, 1
    middles = (np.arange(TILES) - (TILES - 1) / 2) * SIZE
    for x, y in [(x, y) for x in middles for y in middles]:
        for step in range(STEPS):
            outer, top = 1.0 + WIDTH * step, (STEPS - step) * HEIGHT / 2
            middle, half = outer - WIDTH / 2, WIDTH / 2
            sides = [(middle, 0, half, outer), (-middle, 0, half, outer)]
            sides += [(0, middle, outer - WIDTH, half), (0, -middle, outer - WIDTH, half)]
            for dx, dy, half_x, half_y in sides if per_step == 4 else [(0, 0, outer, outer)]:
                spec.worldbody.add_geom(
                    type=mujoco.mjtGeom.mjGEOM_BOX,
                    size=[half_x, half_y, top],
                    pos=[x + dx, y + dy, top],
                    contype=2,
                    conaffinity=1,
                )
    model = spec.compile()
    model.opt.disableflags &= ~int(mujoco.mjtDisableBit.mjDSBL_MIDPHASE)
    return model


def measure(model: mujoco.MjModel, num_envs: int, seconds: float, height: float) -> float:
    """Return environment steps per second of robots that are dropped at random places."""
    draw, pose = np.random.default_rng(0), np.array(GO2.default_joint_pos)
    worlds = batch.Batch(model, num_envs, 1)
    qpos, ctrl = worlds.bind("qpos"), worlds.bind("ctrl")
    qpos[:] = 0.0
    qpos[:, :2] = draw.uniform(-0.45, 0.45, (num_envs, 2)) * TILES * SIZE
    qpos[:, 2], qpos[:, 3], qpos[:, 7:] = height + 0.4, 1.0, pose
    steps, began = -60, 0.0
    while steps < 0 or time.perf_counter() - began < seconds:
        ctrl[:] = pose + 0.1 * draw.standard_normal((num_envs, model.nu))
        worlds.step(nstep=4)
        steps += 1
        if steps == 0:
            began = time.perf_counter()
    return steps * num_envs / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--num_envs", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=4.0)
    args = parser.parse_args()
    highest = STEPS * HEIGHT
    models = {"plane": (load_model(GO2.model_path), 0.0)}
    for cell in (0.2, 0.1, 0.05):
        models[f"height field, cell {cell} m"] = (load_model(GO2.model_path, stairs(cell).ground), highest)
    for per_step in (1, 4):
        models[f"boxes, {per_step * STEPS * TILES**2}, without contact sensors"] = (boxes(per_step), highest)
    for name, (model, height) in models.items():
        print(f"{name}: {measure(model, args.num_envs, args.seconds, height):.0f} environment steps/s", flush=True)


if __name__ == "__main__":
    main()

"""Compare MuJoCo's Newton solver with sparse and with dense matrices: `python benchmarks/sparse_solver.py`.

From 60 degrees of freedom on, MuJoCo takes sparse matrices by itself. The sparse Cholesky factorization of 4.0.0 can
give a wrong Hessian, slow convergence and wrong accelerations (google-deepmind/mujoco#3767, mended in 4.0.1). A line
for each robot of this repository, alone and in heaps: degrees of freedom, the matrices that MuJoCo takes, and how far
the accelerations of both solvers are apart in random states with many contacts. `--mjcf FILE` adds a model of your own.
The last line is JSON.
"""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
import argparse
import json
import sys
from pathlib import Path
from typing import Any, Dict, Sequence, Tuple

import mujoco
import numpy as np

from rsl_rl.robots import ROBOTS

ITERATIONS = 100
"""Largest number of Newton iterations."""

WRONG = 1e-3
"""Difference of accelerations, relative to the largest one, above which a state counts as wrong."""

AUTO, DENSE, SPARSE = (getattr(mujoco.mjtJacobian, f"mjJAC_{name}") for name in ("AUTO", "DENSE", "SPARSE"))


def heap_of(file: Path, copies: int) -> Any:
    """Return a model with copies of a robot on a floor; all shapes collide with all others but their neighbours."""
    world = mujoco.MjSpec()
    world.worldbody.add_geom(name="ground", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1])
    for i in range(copies):
        robot = mujoco.MjSpec.from_file(str(file))
        robot.option = world.option
        for part in [*robot.pairs, *robot.sensors, *robot.keys, *robot.worldbody.geoms]:
            robot.delete(part)
        world.attach(robot, prefix=f"{i}_", frame=world.worldbody.add_frame())
    for geom in world.geoms:
        geom.contype = geom.conaffinity = 1
    model = world.compile()
    model.opt.iterations, model.opt.ls_iterations, model.opt.tolerance = ITERATIONS, 50, 1e-12
    return model


def randomise(model: Any, data: Any, rng: np.random.Generator) -> None:
    """Set random positions and velocities; free bodies lie on one another near the floor."""
    mujoco.mj_resetData(model, data)
    data.qvel[:] = rng.normal(0.0, 1.0, model.nv)
    for joint in range(model.njnt):
        address, kind = model.jnt_qposadr[joint], model.jnt_type[joint]
        if kind == mujoco.mjtJoint.mjJNT_FREE:
            data.qpos[address : address + 3] = rng.uniform((-0.4, -0.4, 0.0), (0.4, 0.4, 0.4))
            data.qpos[address + 3 : address + 7] = rng.normal(size=4)
        elif kind == mujoco.mjtJoint.mjJNT_BALL:
            data.qpos[address : address + 4] = rng.normal(size=4)
        else:
            low, high = model.jnt_range[joint] if model.jnt_limited[joint] else (-1.0, 1.0)
            data.qpos[address] = rng.uniform(low, high)
    mujoco.mj_normalizeQuat(model, data.qpos)


def solve(model: Any, data: Any, jacobian: int) -> Tuple[np.ndarray, int]:
    """Return the accelerations of the state and the iterations of the solver."""
    model.opt.jacobian = jacobian
    data.qacc_warmstart[:] = 0.0
    mujoco.mj_forward(model, data)
    return data.qacc.copy(), int(data.solver_niter.sum())


def compare(model: Any, states: int, seed: int) -> Dict[str, Any]:
    """Compare both solvers in random states."""
    model.opt.jacobian = AUTO
    own = "sparse" if mujoco.mj_isSparse(model) else "dense"
    rng, data = np.random.default_rng(seed), mujoco.MjData(model)
    differences, iterations, contacts = [], [], []
    for _ in range(states):
        randomise(model, data, rng)
        dense, dense_iterations = solve(model, data, DENSE)
        sparse, sparse_iterations = solve(model, data, SPARSE)
        differences.append(float(np.abs(sparse - dense).max() / max(1.0, np.abs(dense).max())))
        iterations.append((dense_iterations, sparse_iterations))
        contacts.append(data.ncon)
    found = np.nan_to_num(differences, nan=np.inf)
    return {
        "degrees_of_freedom": int(model.nv),
        "taken": own,
        "contacts": float(np.mean(contacts)),
        "median_difference": float(np.median(found)),
        "largest_difference": float(found.max()),
        "wrong": float((found > WRONG).mean()),
        "iterations_dense": float(np.mean([dense for dense, _ in iterations])),
        "iterations_sparse": float(np.mean([sparse for _, sparse in iterations])),
    }


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--states", type=int, default=50, help="random states of each model (default: 50)")
    parser.add_argument("--copies", type=int, nargs="+", default=[1, 3, 5], help="robots in a heap (default: 1 3 5)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mjcf", type=Path, nargs="*", default=[], help="further models")
    flags = parser.parse_args(argv)
    files = {name: ROBOTS.load(name).model_path for name in ROBOTS.names()}
    heaps = {f"{name} x {copies}": (file, copies) for name, file in files.items() for copies in flags.copies}
    print(f"MuJoCo {mujoco.mj_versionString()}, {flags.states} random states; wrong: above {WRONG:g} of the largest")
    print("| model | degrees of freedom | taken | contacts | median, largest difference | wrong | iterations |")
    print("|---|---|---|---|---|---|---|")
    results = {}
    models = {name: heap_of(*heap) for name, heap in heaps.items()}
    models.update({file.name: mujoco.MjModel.from_xml_path(str(file)) for file in flags.mjcf})
    for name, model in models.items():
        one = results[name] = compare(model, flags.states, flags.seed)
        iterations = f"{one['iterations_dense']:.1f} dense, {one['iterations_sparse']:.1f} sparse"
        difference = f"{one['median_difference']:.0e}, {one['largest_difference']:.0e}"
        print(
            f"| {name} | {one['degrees_of_freedom']} | {one['taken']} | {one['contacts']:.0f} | {difference} | "
            f"{100 * one['wrong']:.0f} % | {iterations} |",
            flush=True,
        )
    print(json.dumps({"mujoco": mujoco.mj_versionString(), **results}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""How often a bring-up finds the wiring of a robot: random wirings of ten simulated robots on a stand.

    python -m benchmarks.bring_up --wirings 50 --results bring_up.jsonl
    python -m benchmarks.bring_up --results bring_up.jsonl --table

A wiring is drawn by deploy/wired_robot.py: any order and signs of the joints, zeros up to 0.5 rad, an IMU turned by any
rotation of its axes and up to 15 degrees more, delays of 0 to 60 ms, a Go2's noise, friction, motors that are weaker or
stronger, and a stand that is level to half a degree. The simulation runs in this process, without waiting. Results are
added to the file, one line each; wirings that it has already are left out.
"""

from __future__ import annotations

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Tuple

import mujoco
import numpy as np

from rsl_rl.cli.bring_up import own_torques
from rsl_rl.cli.experiments import import_shipped
from rsl_rl.hardware.bring_up import BringUp
from rsl_rl.hardware.driver import StoppedError, Watched
from rsl_rl.hardware.imu import to_matrices
from rsl_rl.hardware.limbs import read_limbs
from rsl_rl.hardware.session import PERIOD, UNITS, Session
from rsl_rl.robots import ROBOTS

ROOT = Path(__file__).resolve().parent.parent
SHARE = 0.15
RIGHT_ZERO, RIGHT_IMU = 0.06, 5.0
"""Largest errors of a zero [rad], which rsl-rl doctor takes for healthy, and of the IMU's mounting [deg]."""
ZOO = {"go1": ROOT / "zoo/robots/go1/go1.xml", "solo12": ROOT / "zoo/robots/solo12/solo12.xml"}
WRITTEN = {  # places of the hips x, y [m], hip to knee and knee to foot [m], masses [kg], torque limit [N m], joints
    "hexapod": ([(x, y) for x in (0.25, 0.0, -0.25) for y in (0.12, -0.12)], 0.15, 0.18, (0.4, 0.6, 0.25), 20.0, "xyy"),
    "planar": ([(x, y) for x in (0.2, -0.2) for y in (0.1, -0.1)], 0.2, 0.2, (0.8, 0.3), 15.0, "yy"),
    "heavy": ([(x, y) for x in (0.4, -0.4) for y in (0.2, -0.2)], 0.35, 0.35, (3.0, 5.0, 1.2), 150.0, "xyy"),
    "biped": ([(0.0, 0.1), (0.0, -0.1)], 0.3, 0.3, (1.0, 1.5, 2.5, 1.5), 60.0, "zxyy"),
}
"""Robots that this file writes: they are made of boxes and have the masses and limits of small machines."""


def deployed(name: str) -> Any:
    """Return a module of deploy/, whose files import each other by their own names."""
    folder = str(Path(str(import_shipped("rsl_rl_deploy").__file__)).parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return __import__(name)


def written_model(name: str, folder: Path) -> Path:
    """Write the MJCF file of one of the robots of WRITTEN."""
    hips, thigh, shank, masses, limit, axes = WRITTEN[name]
    turns = {"x": "1 0 0", "y": "0 1 0", "z": "0 0 1"}
    legs, motors = [], []
    for i, (x, y) in enumerate(hips):
        side = 1 if y > 0 else -1
        bodies = ""
        for k, axis in enumerate(axes):
            is_knee, is_thigh = k == len(axes) - 1, k == len(axes) - 2
            place = f"{x} {y} 0" if k == 0 else f"0 0 {-thigh}" if is_knee else f"0 {0.05 * side if is_thigh else 0} 0"
            limits = "-2.6 -0.4" if is_knee else "-1.8 2.6" if is_thigh else "-0.8 0.8"
            length = shank if is_knee else thigh if is_thigh else 0.05
            middle = f"0 {0.02 * side} {-length / 2 + 0.01 * k}"
            size = f"0.03 0.03 {length / 2}"
            bodies += f"""<body name="leg{i}_link{k}" pos="{place}"><joint name="leg{i}_joint{k}" axis="{turns[axis]}"
                range="{limits}" damping="0.05" armature="{limit * 4e-4}"/>
                <geom type="box" size="{size}" pos="{middle}" mass="{masses[k]}" contype="0" conaffinity="0"/>"""
            motors.append(f'<position joint="leg{i}_joint{k}" kp="30" forcerange="{-limit} {limit}"/>')
        legs.append(bodies + "</body>" * len(axes))
    path = folder / f"{name}.xml"
    path.write_text(
        f"""<mujoco><compiler angle="radian" autolimits="true"/><option timestep="0.005"/><worldbody>
        <geom name="floor" type="plane" size="5 5 1"/><body name="trunk" pos="0 0 1"><freejoint/>
        <geom type="box" size="0.3 0.1 0.06" mass="8" contype="0" conaffinity="0"/>{"".join(legs)}</body></worldbody>
        <actuator>{"".join(motors)}</actuator></mujoco>"""
    )
    return path


def describe(path: Path) -> Dict[str, Any]:
    """Return a description of a robot without a policy."""
    model = mujoco.MjModel.from_xml_path(str(path))
    joints = model.actuator_trnid[:, 0]
    count, limits = len(joints), model.actuator_forcerange[:, 1]
    rest = np.clip(0.0, model.jnt_range[joints, 0], model.jnt_range[joints, 1])
    return {
        "format": 1,
        "joint_names": [model.joint(int(i)).name for i in joints],
        "default_joint_pos": rest.tolist(),
        "action_scale": 0.25,
        "action_clip": None,
        "stiffness": [30.0] * count,
        "damping": np.maximum(0.1, 0.02 * limits).tolist(),
        "torque_limits": limits.tolist(),
        "control_period": 0.02,
        "inputs": {"obs": [1, 3]},
        "observations": [{"name": "gravity", "size": 3, "scale": 1.0, "frame": "base"}],
        "simulation": {"model": str(path), "standing_height": 1.0},
    }


class SimulatedDriver:
    """A driver whose robot is in this process; its clock is that of the simulation."""

    def __init__(self, walker: Any):
        self._walker, self._targets = walker, np.zeros(len(walker.policy.joint_names))
        walker.substeps = round(PERIOD / walker.model.opt.timestep)

    def clock(self) -> float:
        return float(self._walker.data.time)

    def sleep(self, seconds: float) -> None:
        for _ in range(round(seconds / PERIOD)):
            self._walker.simulate(self._targets)

    def joint_names(self) -> List[str]:
        return self._walker.policy.joint_names

    def readings(self) -> Dict[str, Any]:
        return {"time": self.clock(), **self._walker.readings()}

    def hold(self, targets: np.ndarray, stiffness: np.ndarray, damping: np.ndarray) -> None:
        self._targets = targets
        policy = self._walker.policy
        self._walker.set_gains(stiffness / policy.stiffness, damping / policy.damping)

    def stop(self) -> None:
        self._walker.set_gains(0.0, 0.0)

    def close(self) -> None:
        pass


def unit_of(wiring: Any) -> float:
    """Return the radians in one unit of a robot's joint angles."""
    return UNITS[wiring.units["joint_pos"]]


def bring_up(path: Path, wiring: Any, share: float = SHARE, driver_class: Any = SimulatedDriver) -> Tuple[BringUp, Any]:
    """Bring a simulated robot up; return the run and the robot. A stop is a StoppedError."""
    description = describe(path)
    walker = deployed("wired_robot").WiredWalker(mujoco, (description, None), wiring, path, stand=True)
    driver = driver_class(walker)
    limits = description["torque_limits"]
    torque, damping = share * min(limits), min(description["damping"])
    session = Session(Watched(driver, None), torque, damping, driver.clock, driver.sleep, unit_of(wiring))
    run = BringUp(
        session,
        read_limbs(path, description["joint_names"]),
        lambda request: walker.hand(request.motion),
        torques=own_torques(description, share),
    )
    try:
        run.run()
    finally:
        session.end()
    return run, walker


def errors_of(run: BringUp, wiring: Any) -> Dict[str, Any]:
    """Compare what was found with a wiring."""
    found = run.found
    joints = [one.joint == true for one, true in zip(found.channels, wiring.joints)]
    signs = [one.sign == true for one, true in zip(found.channels, wiring.signs)]
    zeros = [abs(one.zero - true) for one, true in zip(found.channels, wiring.zeros)]
    angle = np.nan
    if found.imu is not None:
        rest = to_matrices(np.array([wiring.imu_mounting]))[0].T @ found.imu.mounting
        angle = float(np.degrees(np.arccos(np.clip((np.trace(rest) - 1) / 2, -1, 1))))
    right = all(joints) and all(signs) and max(zeros) <= RIGHT_ZERO and angle <= RIGHT_IMU
    delay = found.delay - wiring.reading_delay - wiring.target_delay
    return {
        "complete": found.is_complete,
        "right": bool(right),
        "order": bool(all(joints) and all(signs)),
        "zero": float(max(zeros)),
        "imu": angle,
        "delay": float(abs(delay)),
        "seconds": found.seconds,
        "by_hand": sum("hand" in one.evidence for one in found.channels),
        "problems": found.problems,
    }


def one_wiring(name: str, path: Path, seed: int) -> Dict[str, Any]:
    """Bring one robot with one wiring up."""
    description, began = describe(path), time.process_time()
    wiring = deployed("wired_robot").draw_wiring(description["joint_names"], description["torque_limits"], seed)
    try:
        run, walker = bring_up(path, wiring)
        told = {**errors_of(run, wiring), "share": float(walker.largest_share.max())}
    except StoppedError as error:
        told = {"complete": False, "right": False, "problems": [f"stopped: {error}"]}
    return {"robot": name, "seed": seed, **told, "cpu": time.process_time() - began}


def table(results: List[Dict[str, Any]]) -> List[str]:
    """Return the results as a table of Markdown."""
    lines = [
        "| robot | joints | wirings | right | not determined | wrong, reported as right | zero: median of the worst "
        "[rad] | IMU: median [deg] | delay: median [ms] | time: longest [s] | torque: largest share | CPU [s] |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    names = [*dict.fromkeys(one["robot"] for one in results), ""]
    for name in names:
        own = [one for one in results if name in (one["robot"], "")]
        ran = [one for one in own if "share" in one]
        done = [one for one in ran if one["complete"]]
        right, wrong = sum(one["right"] for one in done), sum(not one["right"] for one in done)
        figures = [float(np.median([one[key] for one in done])) if done else np.nan for key in ("zero", "imu", "delay")]
        longest = max((one["seconds"] for one in ran), default=np.nan)
        share = max((one["share"] for one in ran), default=np.nan)
        cpu = float(np.mean([one["cpu"] for one in own])) if own else np.nan
        cells = [name or "all", own[0].get("joints", "") if name else "", len(own), right, len(own) - len(done), wrong]
        cells += [f"{figures[0]:.3f}", f"{figures[1]:.1f}", f"{1000 * figures[2]:.0f}", f"{longest:.0f}"]
        cells += [f"{share:.3f}", f"{cpu:.1f}"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wirings", type=int, default=50, help="of each robot")
    parser.add_argument("--first", type=int, default=0, help="seed of the first wiring")
    parser.add_argument("--robots", nargs="+", default=[*ROBOTS.names(), *ZOO, *WRITTEN])
    parser.add_argument("--results", type=Path, default=Path("bring_up.jsonl"))
    parser.add_argument("--table", action="store_true", help="print the table of the file only")
    args = parser.parse_args()
    lines = args.results.read_text().splitlines() if args.results.is_file() else []
    results = [json.loads(line) for line in lines]
    have = {(one["robot"], one["seed"]) for one in results}
    folder = args.results.parent
    paths = {**{name: ROBOTS.load(name).model_path for name in ROBOTS.names()}, **ZOO}
    for seed in range(args.first, args.first + (0 if args.table else args.wirings)):
        for name in args.robots:
            if (name, seed) in have:
                continue
            path = paths.get(name) or written_model(name, folder)
            result = {**one_wiring(name, path, seed), "joints": len(describe(path)["joint_names"])}
            results.append(result)
            with args.results.open("a") as file:
                file.write(json.dumps(result) + "\n")
            verdict = "not determined" if not result["complete"] else "right" if result["right"] else "WRONG"
            print(f"{name} {seed}: {verdict} {'; '.join(result['problems'][:2])}", flush=True)
    print("\n".join(table(results)))


if __name__ == "__main__":
    main()

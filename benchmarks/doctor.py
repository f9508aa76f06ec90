"""Plant faults between policies and simulated robots, and count what the doctor says about their logs.

    python -m benchmarks.doctor --folder FOLDER_OF_EXPORTS --faults 500 --pairs 100 --healthy 300 --out results.jsonl
    python -m benchmarks.doctor --table results.jsonl

FOLDER has a folder with policy.onnx for each policy. Faults are in the driver, in the runner or in the robot. Noise,
friction, payload and gains of every robot are drawn at random. The doctor gets nothing but the log and policy.onnx.
"""

from __future__ import annotations

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
import argparse
import copy
import json
import math
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Sequence

import mujoco
import numpy as np

from deploy.onnx_policy import Policy, PolicyStoppedError, open_onnx
from rsl_rl.evaluation.doctor import diagnose, read_log

NOISE = {"joint_pos": 0.004, "joint_vel": 0.1, "base_ang_vel": 0.05, "base_lin_vel": 0.04, "base_quat": 0.004}
"""Standard deviations of the sensors [rad, rad/s, m/s]."""
ROOT = Path(__file__).resolve().parent.parent
TILT = 1.2
"""Tilt of the trunk at which a robot has fallen, and the log ends soon [rad]."""


@dataclass
class Setup:
    """What is between a policy and the world; a fault changes a part of it."""

    driver: List[Callable[[Dict[str, np.ndarray]], None]] = field(default_factory=list)  # change readings
    to_robot: List[Callable[[np.ndarray], np.ndarray]] = field(default_factory=list)  # targets -> targets of the motors
    observe: List[Callable[[np.ndarray], np.ndarray]] = field(default_factory=list)
    description: Dict[str, Any] = field(default_factory=dict)  # of the runner
    network: Callable[..., Any] = None  # type: ignore
    delay: int = 0  # of targets [control steps]
    period: float = 1.0  # of the loop, relative to the policy's
    jitter: float = 0.0  # spread of the period, relative
    stiffness: float = 1.0
    damping: float = 1.0
    torque: float = 1.0
    keeps_memory: bool = False  # over resets
    model: str = ""  # of the robot


class Runner(Policy):
    """A runner with faults."""

    def __init__(self, setup: Setup, joint_names, log):
        self._setup = setup
        super().__init__(setup.description, setup.network, joint_names, log=log)

    def observe(self, **readings):
        if self._last_obs is not None:
            self._last_obs = self._whole  # a history is of what the runner computed, before the fault
        obs = self._whole = super().observe(**readings)
        for change in self._setup.observe:
            obs = change(obs)
        return obs

    def reset(self):
        kept = self.memories if self._setup.keeps_memory and hasattr(self, "memories") else None
        super().reset()
        if kept is not None:
            self.memories = kept


class Robot:
    """A robot of unknown friction, payload and gains in MuJoCo."""

    def __init__(self, description, setup, rng, joint_names=None):
        model_path = setup.model or description["simulation"]["model"]
        self.model = mujoco.MjModel.from_xml_path(str(ROOT / model_path))
        self.data = mujoco.MjData(self.model)
        joints = self.model.actuator_trnid[:, 0]
        self.joint_names = [self.model.joint(i).name for i in joints]
        self._pos, self._vel = self.model.jnt_qposadr[joints], self.model.jnt_dofadr[joints]
        names = self.joint_names if not setup.model else description["joint_names"]
        order = [description["joint_names"].index(name) for name in names]
        stiffness = np.array(description["stiffness"])[order] * setup.stiffness * rng.uniform(0.95, 1.05, len(order))
        damping = np.array(description["damping"])[order] * setup.damping * rng.uniform(0.95, 1.05, len(order))
        limits = np.array(description["torque_limits"])[order] * setup.torque
        self.model.actuator_gainprm[:, 0] = stiffness
        self.model.actuator_biasprm[:, 1] = -stiffness
        self.model.actuator_biasprm[:, 2] = -damping
        self.model.actuator_forcerange[:] = np.stack((-limits, limits), axis=1)
        friction = rng.uniform(0.4, 1.25)
        self.model.geom_friction[:, 0] = friction
        self.model.pair_friction[:, :2] = friction
        trunk = self.model.jnt_bodyid[0]
        mass = self.model.body_mass[trunk]
        scale = 1.0 + mass / 7.0 * rng.uniform(-1.0, 2.0) / mass  # payload of -1 to 2 kg for a Go2, in proportion
        self.model.body_mass[trunk] *= scale
        self.model.body_inertia[trunk] *= scale
        mujoco.mj_setConst(self.model, self.data)
        self._rng = rng
        self._default = np.array(description["default_joint_pos"])[order]
        self._height = description["simulation"]["standing_height"]
        self.reset()

    def reset(self):
        mujoco.mj_resetData(self.model, self.data)
        heading = self._rng.uniform(-np.pi, np.pi)
        self.data.qpos[:7] = 0, 0, self._height + 0.01, math.cos(heading / 2), 0, 0, math.sin(heading / 2)
        self.data.qpos[self._pos] = self._default + self._rng.uniform(-0.05, 0.05, len(self._pos))
        mujoco.mj_forward(self.model, self.data)

    def readings(self):
        rng, data = self._rng, self.data

        def noise(name, size):
            return rng.normal(0, NOISE[name], size)

        quat, turned = data.qpos[3:7].copy(), np.empty(4)
        small = np.array([1.0, *noise("base_quat", 3) / 2])
        mujoco.mju_mulQuat(turned, quat, small / np.linalg.norm(small))
        rotation = np.empty(9)
        mujoco.mju_quat2Mat(rotation, data.qpos[3:7])
        return {
            "base_quat": turned,
            "base_ang_vel": data.qvel[3:6] + noise("base_ang_vel", 3),
            "base_lin_vel": rotation.reshape(3, 3).T @ data.qvel[:3] + noise("base_lin_vel", 3),
            "joint_pos": data.qpos[self._pos] + noise("joint_pos", len(self._pos)),
            "joint_vel": data.qvel[self._vel] + noise("joint_vel", len(self._vel)),
        }

    def step(self, targets, seconds):
        self.data.ctrl[:] = targets
        substeps = max(1, round(seconds / 0.005))
        self.model.opt.timestep = seconds / substeps
        mujoco.mj_step(self.model, self.data, substeps)

    @property
    def fallen(self):
        rotation = np.empty(9)
        mujoco.mju_quat2Mat(rotation, self.data.qpos[3:7])
        return rotation[8] < math.cos(TILT)


def run(description, setup, rng, path, seconds=10.0, episodes=1):
    """Let a robot walk, and write the log of its runner; return the time that it walked [s]."""
    robot = Robot(description, setup, rng)
    names = robot.joint_names if not setup.model else description["joint_names"]
    runner = Runner(setup, names, path)
    clock = [rng.uniform(0, 1e4)]
    runner.clock = lambda: clock[0]
    low, high = np.array(description["command_ranges"]).T
    total = 0.0
    for _ in range(episodes):
        robot.reset()
        runner.reset()
        pending = [robot.data.qpos[robot._pos].copy()] * setup.delay
        now, until, command, end = 0.0, 0.0, np.zeros(3), seconds / episodes
        while now < end:
            if now >= until:
                command = rng.uniform(low, high) * (rng.random() > 0.15)
                until = now + rng.uniform(1.0, 3.0)
            readings = robot.readings()
            for change in setup.driver:
                change(readings)
            try:
                targets = runner(command=command, **readings)
            except (PolicyStoppedError, ValueError):
                break
            for change in setup.to_robot:
                targets = change(targets)
            pending.append(targets)
            period = runner.control_period * setup.period * (1 + setup.jitter * rng.uniform(-1, 1))
            robot.step(pending.pop(0), period)
            clock[0] += period + rng.normal(0, 1e-4)
            now += period
            total += period
            if robot.fallen:
                end = min(end, now + 0.1)
    return total


@dataclass
class Planted:
    """A fault in a setup, and the words by which a report names it rightly."""

    kind: str
    plant: Callable[[Setup], None]
    accepted: Sequence[str]  # kinds of findings
    words: Sequence[str] = ()  # that the sentence of the finding must contain


Maker = Callable[[Mapping[str, Any], np.random.Generator], Planted]


def term_slices(description):
    """Return the place of each term of the observation."""
    slices, start = {}, 0
    for term in description["observations"]:
        end = start + term["size"] * term.get("history", 1)
        slices[term["name"]], start = slice(start, end), end
    return slices


def change_observation(name, change, description):
    part = term_slices(description)[name]

    def observe(obs):
        obs = obs.copy()
        obs[part] = change(obs[part])
        return obs

    return observe


def legs_of(description):
    """Return the joints of each leg: policies of these robots list leg after leg."""
    count = len(description["joint_names"])
    size = 6 if description["simulation"]["model"].endswith("g1.xml") else 3
    return np.arange(count).reshape(-1, size)


def mix_joints(setup, place, forth, back):
    """Apply a function to joint readings, and its inverse to targets."""
    if place != "targets":

        def read(readings):
            for name in ("joint_pos", "joint_vel"):
                readings[name] = forth(readings[name], name)

        setup.driver.append(read)
    if place != "readings":
        setup.to_robot.append(back)


def draw_place(rng):
    return str(rng.choice(["readings and targets", "readings", "targets"], p=[0.6, 0.2, 0.2]))


def joint_order(description, rng):
    legs, names = legs_of(description), description["joint_names"]
    way = rng.choice(["legs", "within legs", "two joints", "interleaved"])
    order = np.arange(len(names))
    if way == "legs":
        perm = rng.permutation(len(legs))
        while (perm == np.arange(len(legs))).all():
            perm = rng.permutation(len(legs))
        order = legs[perm].ravel()
    elif way == "within legs":
        i, j = rng.choice(legs.shape[1], 2, replace=False)
        swapped = legs.copy()
        swapped[:, [i, j]] = legs[:, [j, i]]
        order = swapped.ravel()
    elif way == "two joints":
        i, j = rng.choice(len(names), 2, replace=False)
        order[[i, j]] = order[[j, i]]
    else:
        order = legs.T.ravel()
    place = draw_place(rng)

    def back(targets):
        sent = np.empty_like(targets)
        sent[order] = targets
        return sent

    return Planted(
        "joint order",
        lambda setup: mix_joints(setup, place, lambda x, _: x[order], back),
        ["joint order"],
        [f"the {place} have"],
    )


def joint_sign(description, rng):
    names = description["joint_names"]
    signs = np.ones(len(names))
    joint = int(rng.integers(len(names)))
    signs[joint] = -1
    place = draw_place(rng)
    return Planted(
        "joint sign",
        lambda setup: mix_joints(setup, place, lambda x, _: x * signs, lambda x: x * signs),
        ["joint sign"],
        [f"sign of {names[joint]} is", f"in the {place}"],
    )


def joint_zero(description, rng):
    names = description["joint_names"]
    joint, zeros = int(rng.integers(len(names))), np.zeros(len(names))
    zeros[joint] = rng.choice([-1, 1]) * rng.uniform(0.12, 0.35)
    return Planted(
        "joint zero",
        lambda setup: mix_joints(setup, "", lambda x, name: x + zeros * (name == "joint_pos"), lambda x: x - zeros),
        ["joint zero"],
        [f"zero of {names[joint]} "],
    )


def change_readings(names, change):
    def driver(readings):
        for name in names:
            readings[name] = change(readings[name], readings)

    return driver


def sensed(description, names):
    terms = {term["name"] for term in description["observations"]}
    return [name for name in names if name in terms]


def degrees(description, rng):
    options = [["joint_pos"], *[[name] for name in sensed(description, ["joint_vel", "base_ang_vel"])]]
    names = options[rng.integers(len(options))]
    driver = change_readings(names, lambda x, _: np.degrees(x))
    return Planted("degrees", lambda setup: setup.driver.append(driver), ["degrees"], [names[0]])


def rotation_quat(rng, axes=True):
    """Draw one of the 23 rotations of axes, or a small one, as a matrix and a quaternion."""
    if axes:
        matrix = np.eye(3)
        while (matrix == np.eye(3)).all():
            matrix = np.eye(3)[rng.permutation(3)] * rng.choice([-1, 1], 3)
            if np.linalg.det(matrix) < 0:
                matrix[0] *= -1
    else:
        axis = rng.normal(size=3)
        vector = axis / np.linalg.norm(axis) * np.radians(rng.uniform(8, 20))
        quat, flat = np.empty(4), np.empty(9)
        mujoco.mju_axisAngle2Quat(quat, vector / np.linalg.norm(vector), np.linalg.norm(vector))
        mujoco.mju_quat2Mat(flat, quat)
        matrix = flat.reshape(3, 3)
    quat = np.empty(4)
    mujoco.mju_mat2Quat(quat, matrix.ravel())
    return matrix, quat


def turn_imu(matrix, quat):
    """Turn the IMU: ``matrix`` turns vectors of its frame into the base's."""

    def driver(readings):
        out = np.empty(4)
        mujoco.mju_mulQuat(out, readings["base_quat"], quat)
        readings["base_quat"] = out
        readings["base_ang_vel"] = matrix.T @ readings["base_ang_vel"]

    return driver


def imu_turned(description, rng):
    driver = turn_imu(*rotation_quat(rng))
    return Planted("IMU turned", lambda setup: setup.driver.append(driver), ["IMU turned"])


def imu_askew(description, rng):
    driver = turn_imu(*rotation_quat(rng, axes=False))
    return Planted("IMU askew", lambda setup: setup.driver.append(driver), ["IMU askew"])


def gravity_flipped(description, rng):
    change = change_observation("gravity", lambda x: -x, description)
    return Planted("gravity flipped", lambda setup: setup.observe.append(change), ["gravity flipped"])


def quaternion_order(description, rng):
    driver = change_readings(["base_quat"], lambda x, _: x[[1, 2, 3, 0]])
    return Planted("quaternion order", lambda setup: setup.driver.append(driver), ["quaternion order"])


def world_frame(description, rng):
    name = str(rng.choice(sensed(description, ["base_ang_vel", "base_lin_vel"])))

    def to_world(vector, readings):
        flat = np.empty(9)
        mujoco.mju_quat2Mat(flat, readings["base_quat"])
        return flat.reshape(3, 3) @ vector

    driver = change_readings([name], to_world)
    return Planted("world frame", lambda setup: setup.driver.append(driver), ["world frame"], [name])


def scale_term(setup, index, factor):
    setup.description["observations"][index]["scale"] *= factor


def observation_scale(description, rng):
    options = [i for i, term in enumerate(description["observations"]) if term["name"] not in ("command", "gait_clock")]
    index = int(rng.choice(options))
    scale = description["observations"][index]["scale"]
    factor = float(rng.choice([2.0, 0.5] + ([1 / scale] if scale != 1.0 else [])))
    name = description["observations"][index]["name"]
    return Planted("scale", lambda setup: scale_term(setup, index, factor), ["scale"], [name + ":"])


def command_scale(description, rng):
    index = [term["name"] for term in description["observations"]].index("command")
    factor = float(rng.choice([0.5, 2.0]))
    return Planted("command scale", lambda setup: scale_term(setup, index, factor), ["command scale"])


def action_scale(description, rng):
    factor = float(rng.choice([0.5, 2.0]))

    def plant(setup):
        setup.description["action_scale"] = factor * np.array(setup.description["action_scale"])
        setup.description["action_scale"] = setup.description["action_scale"].tolist()

    return Planted("action scale", plant, ["action scale", "scale"])


def history_order(description, rng):
    """Only for policies with a history; see :func:`with_history`."""
    term = next(term for term in description["observations"] if term.get("history", 1) > 1)
    change = change_observation(term["name"], lambda x: x.reshape(term["history"], -1)[::-1].ravel(), description)
    return Planted("history order", lambda setup: setup.observe.append(change), ["history order"])


def memory(description, rng):
    def plant(setup):
        setup.keeps_memory = True

    return Planted("memory", plant, ["memory"])


def late_action(description, rng):
    def plant(setup):
        setup.delay = int(rng.integers(1, 3))

    return Planted("late action", plant, ["late action"])


def rate(description, rng):
    def plant(setup):
        setup.period = float(rng.choice([rng.uniform(0.6, 0.88), rng.uniform(1.14, 1.6)]))

    return Planted("rate", plant, ["rate"])


def jitter(description, rng):
    def plant(setup):
        setup.jitter = float(rng.uniform(0.3, 0.6))

    return Planted("jitter", plant, ["jitter"])


def gains(description, rng):
    def plant(setup):
        if rng.random() < 0.6:
            setup.stiffness = float(rng.choice([rng.uniform(0.35, 0.6), rng.uniform(1.7, 3.0)]))
        else:
            setup.damping = float(rng.choice([rng.uniform(0.1, 0.4), rng.uniform(2.2, 4.0)]))

    return Planted("gains", plant, ["gains"])


def torque_limit(description, rng):
    """A limit that the robot reaches; a healthy robot's torque is below about a third of the policy's limits."""

    def plant(setup):
        setup.torque = float(rng.uniform(0.12, 0.2))

    return Planted("torque limit", plant, ["torque limit"])


def stale_sensor(description, rng):
    options = ["joint_pos", "base_quat", *sensed(description, ["joint_vel", "base_ang_vel", "base_lin_vel"])]
    name, every, kept = str(rng.choice(options)), int(rng.integers(4, 9)), {}
    freezes = rng.random() < 0.3

    def driver(readings):
        kept["calls"] = kept.get("calls", 0) + 1
        if "value" not in kept or (not freezes and kept["calls"] % every == 0) or (freezes and kept["calls"] < 60):
            kept["value"] = readings[name]
        readings[name] = kept["value"]

    return Planted("stale sensor", lambda setup: setup.driver.append(driver), ["stale sensor"], [name])


def clipped_input(description, rng):
    limit = float(rng.uniform(0.3, 0.8))
    change = lambda obs: obs.clip(-limit, limit)  # noqa: E731
    return Planted("clipped input", lambda setup: setup.observe.append(change), ["clipped input"])


def wrong_robot(description, rng):
    """Another robot with as many joints, driven under the names of the policy's."""
    own = description["simulation"]["model"]
    others = {
        "rsl_rl/robots/go2/go2.xml": ["rsl_rl/robots/anymal_c/anymal_c.xml", "rsl_rl/robots/g1/g1.xml"],
        "rsl_rl/robots/anymal_c/anymal_c.xml": ["rsl_rl/robots/go2/go2.xml", "rsl_rl/robots/g1/g1.xml"],
        "rsl_rl/robots/g1/g1.xml": ["rsl_rl/robots/go2/go2.xml", "rsl_rl/robots/anymal_c/anymal_c.xml"],
    }

    def plant(setup):
        setup.model = str(rng.choice(others[own]))

    return Planted("wrong robot", plant, ["wrong robot"])


MAKERS: Dict[str, Maker] = {
    "joint order": joint_order,
    "joint sign": joint_sign,
    "joint zero": joint_zero,
    "degrees": degrees,
    "IMU turned": imu_turned,
    "IMU askew": imu_askew,
    "gravity flipped": gravity_flipped,
    "quaternion order": quaternion_order,
    "world frame": world_frame,
    "scale": observation_scale,
    "command scale": command_scale,
    "action scale": action_scale,
    "history order": history_order,
    "memory": memory,
    "late action": late_action,
    "rate": rate,
    "jitter": jitter,
    "gains": gains,
    "torque limit": torque_limit,
    "stale sensor": stale_sensor,
    "clipped input": clipped_input,
    "wrong robot": wrong_robot,
}


def fits(kind, description):
    """Return whether a policy can have a fault."""
    terms = {term["name"]: term for term in description["observations"]}
    if kind == "memory":
        return len(description["inputs"]) > 1
    if kind == "history order":
        return any(term.get("history", 1) > 1 for term in terms.values())
    return kind != "world frame" or bool(sensed(description, ["base_ang_vel", "base_lin_vel"]))


def with_history(description, network, steps=3):
    """Return a policy that observes joint positions of several steps and uses the newest."""
    changed = copy.deepcopy(dict(description))
    part = term_slices(description)["joint_pos"]
    size = part.stop - part.start
    for term in changed["observations"]:
        if term["name"] == "joint_pos":
            term["history"] = steps
    changed["inputs"]["obs"] = [1, description["inputs"]["obs"][1] + size * (steps - 1)]

    def newest(obs, *memories):
        end = part.start + size * steps
        return network(np.concatenate([obs[:, : part.start], obs[:, end - size :]], axis=1), *memories)

    return changed, newest


def one_log(name, description, network, kinds, seed, folder):
    """Let a robot walk with faults, ask the doctor, and return the result in plain values."""
    rng = np.random.default_rng(seed)
    if "history order" in kinds:
        description, network = with_history(description, network)
    setup = Setup(description=copy.deepcopy(dict(description)), network=network)
    planted = [MAKERS[kind](description, rng) for kind in kinds]
    for one in planted:
        one.plant(setup)
    path = Path(folder) / "log.csv"
    walked = run(description, setup, rng, path, episodes=2 if "memory" in kinds else 1)
    began = time.process_time()
    log = read_log(path, description)
    runner = Policy(description, network, log.joint_names)
    result = diagnose(log, runner, network, description, ROOT / description["simulation"]["model"])
    found = [
        {"kind": f.kind, "sentence": f.sentence, "confidence": f.confidence, "others": f.others}
        for f in result.findings
    ]
    named = [
        any(f.kind in one.accepted and all(word in f.sentence for word in one.words) for f in result.findings)
        for one in planted
    ]
    return {
        "robot": name,
        "seed": seed,
        "kinds": list(kinds),
        "words": [list(one.words) for one in planted],
        "seconds": round(walked, 2),
        "named": named,
        "noticed": bool(result.findings),
        "found": found,
        "cpu_s": round(time.process_time() - began, 2),
        "notes": list(result.notes),
    }


def plan(policies, args):
    """Return (policy, kinds, seed) of every log, kinds in turn over the robots."""
    rng, jobs, names = np.random.default_rng(args.seed), [], list(policies)
    kinds = list(MAKERS)
    only = args.only.split(",") if args.only else kinds

    def fitting(kind):
        return [name for name in names if fits(kind, policies[name][0]) or kind == "history order"]

    for i in range(args.faults):
        kind = only[i % len(only)]
        able = fitting(kind)
        jobs.append((able[(i // len(only)) % len(able)], (kind,)))
    for _ in range(args.pairs):
        first, second = rng.choice(
            [kind for kind in kinds if kind not in ("wrong robot", "memory", "history order")], 2, replace=False
        )
        able = [name for name in fitting(first) if name in fitting(second)]
        jobs.append((str(rng.choice(able)), (str(first), str(second))))
    jobs += [(names[i % len(names)], ()) for i in range(args.healthy)]
    return [(name, kinds, args.seed * 100_000 + i) for i, (name, kinds) in enumerate(jobs)]


def table(results):
    """Return the table by kind as lines of Markdown."""
    rows = defaultdict(list)
    for one in results:
        key = "healthy" if not one["kinds"] else one["kinds"][0] if len(one["kinds"]) == 1 else "pairs"
        rows[key].append(one)
    lines = ["| fault | logs | noticed | named right |", "|---|---|---|---|"]
    for key in [*[kind for kind in MAKERS if kind in rows], "pairs", "healthy"]:
        own = rows.get(key, [])
        if not own:
            continue
        noticed = sum(one["noticed"] for one in own)
        if key == "healthy":
            lines.append(f"| healthy | {len(own)} | {noticed} | - |")
        elif key == "pairs":
            both, one_of = sum(all(one["named"]) for one in own), sum(any(one["named"]) for one in own)
            lines.append(f"| pairs | {len(own)} | {noticed} | both {both}, at least one {one_of} |")
        else:
            lines.append(f"| {key} | {len(own)} | {noticed} | {sum(all(one['named']) for one in own)} |")
    singles = [one for one in results if len(one["kinds"]) == 1]
    if singles:
        named, noticed = (
            sum(map(test, singles)) for test in (lambda one: all(one["named"]), lambda one: one["noticed"])
        )
        shares = [f"{number} ({number / len(singles):.1%})" for number in (noticed, named)]
        lines.append(f"| all single faults | {len(singles)} | {' | '.join(shares)} |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="folder with exported policies, each in a folder of its own")
    parser.add_argument("--faults", type=int, default=500, help="logs with one fault")
    parser.add_argument("--pairs", type=int, default=100, help="logs with two faults")
    parser.add_argument("--healthy", type=int, default=300, help="logs without a fault")
    parser.add_argument("--only", help="kinds of faults, by comma; all without it")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", type=int, nargs=2, default=(0, 1), metavar=("I", "N"), help="only jobs I of N")
    parser.add_argument(
        "--out", type=Path, help="file of results, a JSON object a line; finished logs are not repeated"
    )
    parser.add_argument("--table", type=Path, nargs="+", help="print the table of files of results")
    args = parser.parse_args()
    if args.table:
        print("\n".join(table([json.loads(line) for path in args.table for line in path.read_text().splitlines()])))
        return 0
    policies = {path.parent.name: open_onnx(path) for path in sorted(args.folder.glob("*/policy.onnx"))}
    done = {json.loads(line)["seed"] for line in args.out.read_text().splitlines()} if args.out.exists() else set()
    jobs = plan(policies, args)[args.part[0] :: args.part[1]]
    with tempfile.TemporaryDirectory() as folder, args.out.open("a", buffering=1) as file:
        for name, kinds, seed in jobs:
            if seed not in done:
                file.write(json.dumps(one_log(name, *policies[name], kinds, seed, folder)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

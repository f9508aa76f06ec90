"""Faults in the driver, in the runner or in the robot, each with the words by which a report names it rightly."""

from __future__ import annotations

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Mapping, Sequence

import mujoco
import numpy as np

from benchmarks.doctor_robot import Setup


@dataclass
class Planted:
    """A fault in a setup, and the words by which a report names it rightly."""

    kind: str
    plant: Callable[[Setup], None]
    accepted: Sequence[str]  # kinds of findings
    words: Sequence[str] = ()  # that the sentence of the finding must contain


MODELS = (  # robots with twelve joints, of which one stands in for another
    "rsl_rl/robots/go2/go2.xml",
    "rsl_rl/robots/anymal_c/anymal_c.xml",
    "rsl_rl/robots/g1/g1.xml",
    "zoo/robots/solo12/solo12.xml",
)

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
    own = Path(description["simulation"]["model"]).name
    others = [model for model in MODELS if Path(model).name != own]

    def plant(setup):
        setup.model = str(rng.choice(others))

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

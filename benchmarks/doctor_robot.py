"""A simulated robot that walks with a policy, and the places where a fault can be planted between the two.

Noise, friction, payload and gains of every robot are drawn at random. The runner is the policy's own, and it writes the
log.
"""

from __future__ import annotations

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, List

import mujoco
import numpy as np

from deploy.onnx_policy import Policy, PolicyStoppedError
from rsl_rl.cli.doctor import find_model
from rsl_rl.utils.mujoco_model import without_log

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
        if self.last_obs is not None:
            self.last_obs = self._whole  # a history is of what the runner computed, before the fault
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
        model_path = ROOT / setup.model if setup.model else find_model(description)
        self.model = mujoco.MjModel.from_xml_path(str(model_path))
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


@without_log()
def run(description, setup, rng, path, seconds=6.0, episodes=1):
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

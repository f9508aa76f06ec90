"""A simulated robot with hidden parameters, which hangs on a stand and follows targets, or walks with a policy.

Its physics step is finer than that of the identification, and its sensors have noise. It writes the logs that a real
robot would write.
"""

from __future__ import annotations

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
import csv
import math
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np

from benchmarks.doctor_robot import NOISE
from benchmarks.runs import ROOT
from deploy.onnx_policy import Policy, PolicyStoppedError
from rsl_rl.hardware.identification.simulation import on_stand_model
from rsl_rl.utils.mujoco_model import without_log

STEP = 0.00025
"""Physics step [s]."""


def draw_hidden(rng, description, model):
    """Return hidden parameters of a robot: those of rsl_rl.hardware.identification, and the delay of its sensors."""
    joints = len(description["joint_names"])

    def each(low, high, spread):
        return rng.uniform(low, high) * np.exp(rng.normal(0, spread, joints))

    limit = np.array(description["torque_limits"])
    return {
        "armature": each(0.5, 2.5, 0.15) * model.dof_armature[6:],
        "motor_strength": each(0.75, 1.1, 0.05),
        "viscous_friction": each(0.05, 0.4, 0.2),
        "joint_friction": each(0.002, 0.02, 0.3) * limit,
        "torque_limit": rng.uniform(0.5, 1.0) * limit,
        "encoder_offset": rng.normal(0, 0.03, joints),
        "action_delay": np.array([STEP * round(rng.uniform(0.0, 0.025) / STEP)]),
        "sensing_delay": np.array([STEP * round(rng.uniform(0.0, 0.008) / STEP)]),
        "payload": np.array([rng.uniform(-0.05, 0.25)]) * model.body_mass.sum(),
        "trunk_com": rng.uniform(-0.03, 0.03, 3),
        "friction": np.array([rng.uniform(0.5, 1.2)]),
    }


class HiddenRobot:
    """A robot in MuJoCo with hidden parameters."""

    def __init__(self, description, hidden, rng, fixed):
        path = ROOT / description["simulation"]["model"]
        self.model = on_stand_model(path) if fixed else mujoco.MjModel.from_xml_path(str(path))
        self.data = mujoco.MjData(self.model)
        self.description, self.hidden, self.fixed, self._rng = description, hidden, fixed, rng
        model = self.model
        joints = model.actuator_trnid[:, 0]
        self.joint_names = [model.joint(i).name for i in joints]
        self._pos, self._vel = model.jnt_qposadr[joints], model.jnt_dofadr[joints]
        order = [list(description["joint_names"]).index(name) for name in self.joint_names]
        own = {name: value[order] if len(value) == len(order) else value for name, value in hidden.items()}
        self._offset = own["encoder_offset"]
        model.opt.timestep = STEP
        model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        model.dof_armature[self._vel] = own["armature"]
        model.dof_damping[self._vel] = own["viscous_friction"]
        model.dof_frictionloss[self._vel] = own["joint_friction"]
        strength = own["motor_strength"]
        stiffness, damping = (np.array(description[name])[order] * strength for name in ("stiffness", "damping"))
        model.actuator_gainprm[:, 0], model.actuator_biasprm[:, 1] = stiffness, -stiffness
        model.actuator_biasprm[:, 2] = -damping
        limit = own["torque_limit"] * strength
        model.actuator_forcerange[:] = np.stack((-limit, limit), axis=1)
        if not fixed:
            trunk = model.jnt_bodyid[0]
            scale = 1.0 + hidden["payload"][0] / model.body_mass[trunk]
            model.body_mass[trunk] *= scale
            model.body_inertia[trunk] *= scale
            model.body_ipos[trunk] += hidden["trunk_com"]
            model.geom_friction[:, 0] = model.pair_friction[:, :2] = hidden["friction"][0]
        mujoco.mj_setConst(model, self.data)
        self._default = np.array(description["default_joint_pos"])[order]
        self._order = order
        self._largest = np.zeros(len(order))  # torque of each motor in any physics step so far [N m]
        self.reset()

    def reset(self):
        mujoco.mj_resetData(self.model, self.data)
        if not self.fixed:
            self.data.qpos[:7] = 0, 0, self.description["simulation"]["standing_height"], 1, 0, 0, 0
        self.data.qpos[self._pos] = self._default
        mujoco.mj_forward(self.model, self.data)
        self.steps = 0
        self._arriving = []  # physics steps and targets
        self.data.ctrl[:] = self._default - self._offset
        self._seen = self._sense()

    def _sense(self):
        data = self.data
        rotation = np.empty(9)
        quat = np.array([1.0, 0, 0, 0]) if self.fixed else data.qpos[3:7].copy()
        mujoco.mju_quat2Mat(rotation, quat)
        zero = np.zeros(3)
        return {
            "base_quat": quat,
            "base_ang_vel": zero if self.fixed else data.qvel[3:6].copy(),
            "base_lin_vel": zero if self.fixed else rotation.reshape(3, 3).T @ data.qvel[:3],
            "joint_pos": data.qpos[self._pos] + self._offset,
            "joint_vel": data.qvel[self._vel].copy(),
            "joint_torque": data.actuator_force.copy(),
        }

    def readings(self):
        """Return what the sensors give now: late and with noise."""
        seen = dict(self._seen)
        for name in ("base_ang_vel", "base_lin_vel", "joint_pos", "joint_vel"):
            seen[name] = seen[name] + self._rng.normal(0, NOISE[name], len(seen[name]))
        turned = np.empty(4)
        small = np.array([1.0, *self._rng.normal(0, NOISE["base_quat"] / 2, 3)])
        mujoco.mju_mulQuat(turned, seen["base_quat"], small / np.linalg.norm(small))
        return {**seen, "base_quat": turned}

    def step(self, targets, seconds):
        """Send targets, and simulate a time."""
        self._arriving.append((self.steps + round(self.hidden["action_delay"][0] / STEP), targets - self._offset))
        end = self.steps + round(seconds / STEP)
        measured = end - round(self.hidden["sensing_delay"][0] / STEP)
        while self.steps < end:
            while self._arriving and self._arriving[0][0] <= self.steps:
                self.data.ctrl[:] = self._arriving.pop(0)[1]
            marks = [mark for mark in (end, measured, *(at for at, _ in self._arriving[:1])) if mark > self.steps]
            for _ in range(min(marks) - self.steps):
                mujoco.mj_step(self.model, self.data)
                np.maximum(self._largest, np.abs(self.data.actuator_force), out=self._largest)
            self.steps = min(marks)
            if self.steps == measured:
                self._seen = self._sense()

    @property
    def reached(self):
        """Whether the torque of each joint has reached its limit in any physics step [J], in the policy's order."""
        reached = np.empty(len(self._order), bool)
        reached[self._order] = self._largest >= 0.999 * self.model.actuator_forcerange[:, 1]
        return reached

    @property
    def fallen(self):
        rotation = np.empty(9)
        mujoco.mju_quat2Mat(rotation, self.data.qpos[3:7])
        return rotation[8] < math.cos(1.0)


class Motors(NamedTuple):
    """Motors with an inertia of their own, friction, and gears with backlash."""

    backlash: float = 0.015  # [rad]
    dry_friction: float = 0.03  # share of the torque limit
    viscous_friction: float = 0.15  # [N m s/rad]
    inertia: float = 0.012  # seen at the joint [kg m^2]
    strength: float = 0.9  # torque per commanded torque
    delay: float = 0.004  # of the targets [s]


NEW = Motors()
WORN = Motors(0.03, 0.06, 0.3, 0.02, 0.65, 0.015)
"""Motors of a robot that walks badly with policies for perfect ones."""

_GEAR = 400.0, 0.6
"""Stiffness [N m/rad] and damping [N m s/rad] of a gear whose teeth touch."""


class BacklashRobot(HiddenRobot):
    """A robot whose motors are of the class :class:`Motors`.

    The encoders are on the motors' side. The measured torque is the one that the link gets.
    """

    def __init__(self, description, rng, fixed, motors=NEW):
        joints = len(description["joint_names"])
        limit = np.array(description["torque_limits"])
        nothing = {
            name: np.zeros(joints) for name in ("armature", "viscous_friction", "joint_friction", "encoder_offset")
        }
        own = {"motor_strength": np.full(joints, motors.strength), "torque_limit": limit}
        delays = {"action_delay": np.array([motors.delay]), "sensing_delay": np.zeros(1)}
        load = {"payload": np.zeros(1), "trunk_com": np.zeros(3), "friction": np.array([0.8])}
        self._motor = np.zeros((2, joints))
        super().__init__(description, {**nothing, **own, **delays, **load}, rng, fixed)
        self._motors, self._dry = motors, motors.dry_friction * limit[self._order]
        self._gains = [np.array(description[name])[self._order] for name in ("stiffness", "damping")]
        self._limit = limit[self._order]
        self.model.actuator_gainprm[:, 0] = 1.0
        self.model.actuator_biasprm[:] = 0.0
        self._transmitted = np.zeros(joints)
        self.reset()

    def reset(self):
        super().reset()
        self._motor = np.stack((self.data.qpos[self._pos], np.zeros(len(self._pos))))
        self._held = self.data.ctrl.copy()
        self._transmitted = np.zeros(len(self._pos))

    def step(self, targets, seconds):
        self._arriving.append((self.steps + round(self.hidden["action_delay"][0] / STEP), np.asarray(targets)))
        motors, (stiffness, damping) = self._motors, _GEAR
        for _ in range(round(seconds / STEP)):
            while self._arriving and self._arriving[0][0] <= self.steps:
                self._held = self._arriving.pop(0)[1]
            angle, speed = self._motor
            twist = angle - self.data.qpos[self._pos]
            beyond = twist - np.clip(twist, -motors.backlash / 2, motors.backlash / 2)
            spring = stiffness * beyond + damping * (speed - self.data.qvel[self._vel]) * (beyond != 0)
            self._transmitted = spring
            asked = self._gains[0] * (self._held - angle) - self._gains[1] * speed
            given = motors.strength * np.clip(asked, -self._limit, self._limit)
            torque = given - motors.viscous_friction * speed - spring
            new = speed + STEP * torque / motors.inertia
            slowing = STEP * self._dry / motors.inertia
            new = np.sign(new) * np.maximum(0.0, np.abs(new) - slowing)
            self._motor = np.stack((angle + STEP * new, new))
            self.data.ctrl[:] = spring
            mujoco.mj_step(self.model, self.data)
            self.steps += 1
        self._seen = self._sense()

    def _sense(self):
        seen = super()._sense()
        if self._motor.any():
            seen.update(joint_pos=self._motor[0].copy(), joint_vel=self._motor[1].copy())
        return {**seen, "joint_torque": getattr(self, "_transmitted", np.zeros(len(self._pos))).copy()}


COLUMNS = {"joint_pos": "rad", "joint_vel": "rad/s", "joint_torque": "N m", "target": "rad"}


class TorqueLog:
    """A log with measured torques, written row by row in the robot's order of the joints."""

    def __init__(self, file, joint_names):
        self._writer = csv.writer(file, lineterminator="\n")
        header = ["time [s]", "episode", *(f"base_quat.{x}" for x in "wxyz")]
        header += [f"base_ang_vel.{x} [rad/s]" for x in "xyz"]
        header += [f"{kind}.{name} [{unit}]" for kind, unit in COLUMNS.items() for name in joint_names]
        self._writer.writerow(header)

    def write(self, now, episode, seen, targets):
        names = ("base_quat", "base_ang_vel", "joint_pos", "joint_vel", "joint_torque")
        parts = (*(seen[name] for name in names), targets)
        self._writer.writerow([f"{now:.6f}", episode, *(f"{x:.9g}" for part in parts for x in part)])


@without_log()
def log_excitation(robot, targets, period, path):
    """Let a robot on a stand follow targets [T, J], in the policy's order, and write the log."""
    robot.reset()
    with Path(path).open("w", newline="") as file:
        log = TorqueLog(file, robot.joint_names)
        for row in targets[:, robot._order]:
            log.write(robot.steps * STEP, 1, robot.readings(), row)
            robot.step(row, period)


def random_commands(rng, description):
    """Yield velocity commands [3] of a walk, and how long each holds [s]; 15 % are stops."""
    low, high = np.array(description["command_ranges"]).T
    while True:
        yield rng.uniform(low, high) * (rng.random() > 0.15), rng.uniform(1.0, 3.0)


@without_log()
def log_loaded_walk(robot, network, rng, path, seconds, period):
    """Let a robot walk with random commands, and write its log with torques, a row in each ``period`` [s]."""
    runner = Policy(robot.description, network, robot.joint_names)
    now, until, episode = 0.0, 0.0, 1
    runner.clock = lambda: 100.0 + now
    commands, rows = random_commands(rng, robot.description), round(runner.control_period / period)
    robot.reset()
    with Path(path).open("w", newline="") as file:
        log = TorqueLog(file, robot.joint_names)
        while now < seconds:
            if now >= until:
                command, held = next(commands)
                until = now + held
            seen = robot.readings()
            try:
                targets = runner(command=command, **{name: seen[name] for name in seen if name != "joint_torque"})
            except PolicyStoppedError:
                targets = None
            if targets is None or robot.fallen:
                robot.reset()
                runner.reset()
                now, episode = now + 0.5, episode + 1
                continue
            for _ in range(rows):
                log.write(now, episode, robot.readings(), targets)
                robot.step(targets, period)
                now += period


@without_log()
def log_walk(robot, network, rng, path, seconds=20.0):
    """Let a robot walk with random commands, and write the log of the policy's runner; return the number of falls."""
    runner = Policy(robot.description, network, robot.joint_names, log=path)
    runner.clock = lambda: 100.0 + robot_time[0]
    robot_time, falls, until, command = [0.0], 0, 0.0, np.zeros(3)
    commands = random_commands(rng, robot.description)
    robot.reset()
    while robot_time[0] < seconds:
        if robot_time[0] >= until:
            command, held = next(commands)
            until = robot_time[0] + held
        seen = {name: value for name, value in robot.readings().items() if name != "joint_torque"}
        try:
            targets = runner(command=command, **seen)
        except (PolicyStoppedError, ValueError):
            targets = None
        if targets is None or robot.fallen:
            falls += 1
            robot.reset()
            runner.reset()
            robot_time[0] += 0.5
            continue
        robot.step(targets, runner.control_period)
        robot_time[0] += runner.control_period
    return falls

"""Sim-to-sim: run an exported policy in MuJoCo, one robot after the other, without rsl_rl.

    python deploy/sim_to_sim.py logs/go2_flat/<run>/exported/policy.onnx --robots 32

Needs numpy, onnxruntime and mujoco. The last line is JSON: fall_rate (falls per robot), lin_vel_error [m/s] and
yaw_rate_error [rad/s], as in scripts/evaluate.py; each robot gets a new command every 10 s and after a fall. All robots
have the parameters of the model by default; --friction, --payload and --gains randomise them as in evaluate.py.
"""

import argparse
import itertools
import json
import math
import sys
from pathlib import Path

import numpy as np
from onnx_policy import OnnxPolicy

MODEL = Path(__file__).resolve().parent.parent / "rsl_rl" / "robots" / "go2" / "go2.xml"
COMMAND_PERIOD = 10.0  # [s]
MAX_TILT = 1.0  # [rad]
FORBIDDEN_CONTACTS = ("trunk_contact", "head_contact")  # sensors; more than 1 N is a fall


class Walker:
    """One robot in MuJoCo: a free joint, then hinges, each with a position actuator."""

    def __init__(self, mujoco, model_path, policy_path, height):
        self._mujoco, self._height = mujoco, height
        self.model = mujoco.MjModel.from_xml_path(str(model_path))
        self.data = mujoco.MjData(self.model)
        joints = self.model.actuator_trnid[:, 0]
        self.policy = OnnxPolicy(policy_path, [self.model.joint(i).name for i in joints])
        self._pos, self._vel = self.model.jnt_qposadr[joints], self.model.jnt_dofadr[joints]
        self._substeps = round(self.policy.control_period / self.model.opt.timestep)
        limits = self.policy.torque_limits
        self.model.actuator_forcerange[:] = np.stack((-limits, limits), axis=1)
        self._trunk = self.model.jnt_bodyid[0]
        self.trunk_mass = float(self.model.body_mass[self._trunk])
        self._inertia = self.model.body_inertia[self._trunk].copy()
        self._motor = dc_motor(self.policy.description, self.policy.joint_names)
        self.set_gains(1.0, 1.0)

    def set_gains(self, stiffness_scale, damping_scale):
        """Set the PD gains of the policy's training, times factors [J]."""
        self._gains = self.policy.stiffness * stiffness_scale, self.policy.damping * damping_scale
        stiffness, damping = self._gains if self._motor is None else (1.0, 0.0)  # with a motor ctrl is the torque
        self.model.actuator_gainprm[:, 0] = stiffness
        self.model.actuator_biasprm[:, 1] = -stiffness if self._motor is None else 0.0
        self.model.actuator_biasprm[:, 2] = -damping

    def set_body(self, friction, payload):
        """Set the sliding friction of robot and floor, if given, and add a payload to the trunk [kg]."""
        if friction is not None:
            self.model.geom_friction[:, 0] = friction
            self.model.pair_friction[:, :2] = friction  # of geoms that the model pairs
        scale = 1.0 + payload / self.trunk_mass
        self.model.body_mass[self._trunk] = self.trunk_mass * scale
        self.model.body_inertia[self._trunk] = self._inertia * scale
        self._mujoco.mj_setConst(self.model, self.data)

    def reset(self):
        """Reset the robot to its standing pose."""
        self._mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:3] = 0.0, 0.0, self._height
        self.data.qpos[self._pos] = self.policy.default_joint_pos
        self._mujoco.mj_forward(self.model, self.data)
        self.policy.reset()

    def step(self, command):
        """Simulate one control step with the policy's action."""
        targets = self.policy(
            command=command,
            base_quat=self.data.qpos[3:7],
            base_lin_vel_world=self.data.qvel[:3],
            base_ang_vel=self.data.qvel[3:6],
            joint_pos=self.data.qpos[self._pos],
            joint_vel=self.data.qvel[self._vel],
        )
        if self._motor is None:
            self.data.ctrl[:] = targets
            self._mujoco.mj_step(self.model, self.data, self._substeps)
            return
        stall, no_load = self._motor
        for _ in range(self._substeps):
            velocity = self.data.qvel[self._vel]
            torque = self._gains[0] * (targets - self.data.qpos[self._pos]) - self._gains[1] * velocity
            share = velocity / no_load
            self.data.ctrl[:] = np.clip(torque, stall * (-1 - share), stall * (1 - share))
            self._mujoco.mj_step(self.model, self.data)

    def velocities(self):
        """Return vx, vy [m/s] and yaw rate [rad/s] in the base frame, and whether the robot has fallen."""
        base_to_world = np.empty(9)
        self._mujoco.mju_quat2Mat(base_to_world, self.data.qpos[3:7])
        rotation = base_to_world.reshape(3, 3)
        forces = [np.linalg.norm(self.data.sensor(name).data) for name in FORBIDDEN_CONTACTS]
        fallen = rotation[2, 2] < math.cos(MAX_TILT) or max(forces) > 1.0
        vx, vy, _ = rotation.T @ self.data.qvel[:3]
        return np.array((vx, vy, self.data.qvel[5])), fallen


def dc_motor(description, joint_names):
    """Return stall torque [N m] and no-load speed [rad/s] of the joints, or None for ideal PD loops."""
    actuator = description.get("actuator", {"type": "pd"})
    if actuator["type"] == "pd":
        return None
    if actuator["type"] != "dc_motor":
        raise ValueError(f"the policy's actuator is '{actuator['type']}'; this script simulates pd and dc_motor")
    order = [description["joint_names"].index(name) for name in joint_names]
    return tuple(np.array(actuator[name])[order] for name in ("stall_torque", "no_load_speed"))


def draw_commands(ranges, seed):
    """Draw command after command [3] uniformly from the ranges of the training."""
    low, high = np.array(ranges).T
    generator = np.random.default_rng(seed)
    while True:
        yield generator.uniform(low, high)


def vary(walker, args, generator):
    """Randomise the parameters of the robot."""
    friction = None if args.friction is None else generator.uniform(*args.friction)
    walker.set_body(friction, generator.uniform(*args.payload))
    walker.set_gains(*generator.uniform(*args.gains, (2, len(walker.policy.joint_names))))


def walk(walker, commands, steps):
    """Run a robot with an iterator of commands [3], each until a time or a fall; return falls and mean errors.

    A new command after a fall prevents that the robot falls again in the same way.
    """
    falls, errors = 0, np.zeros(2)
    per_command = round(COMMAND_PERIOD / walker.policy.control_period)
    command, age = next(commands), 0
    walker.reset()
    for _ in range(steps):
        walker.step(command)
        age += 1
        velocity, fallen = walker.velocities()
        errors += np.hypot(*(velocity - command)[:2]), abs(velocity[2] - command[2])
        if fallen:
            falls += 1
            walker.reset()
        if fallen or age == per_command:
            command, age = next(commands), 0
    return np.array((falls, *(errors / steps)))


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policy", type=Path, help="policy.onnx as play.py writes it")
    parser.add_argument("--model", type=Path, default=MODEL, help="MJCF file of the robot on a floor")
    parser.add_argument("--height", type=float, default=0.32, help="of the trunk at the start [m]")
    parser.add_argument("--robots", type=int, default=32, help="how many walk, one after the other")
    parser.add_argument("--seconds", type=float, default=20.0, help="time that each walks [s]")
    parser.add_argument("--seed", type=int, default=0, help="of commands and robots")
    ranges = {"type": float, "nargs": 2, "metavar": ("LOW", "HIGH")}
    parser.add_argument("--friction", **ranges, help="range of the sliding friction; the model's own without it")
    parser.add_argument("--payload", **ranges, default=(0.0, 0.0), help="range of the mass added to the trunk [kg]")
    parser.add_argument("--gains", **ranges, default=(1.0, 1.0), help="range of the factors on each joint's gains")
    parser.add_argument(
        "--commands",
        type=Path,
        help="JSON list [robots][every 10 s, and after a fall][vx, vy, yaw rate] to follow instead, over and over",
    )
    return parser.parse_args()


def check(args):
    """Raise a ValueError for numbers that no robot can have."""
    if args.robots < 1 or not 0 < args.seconds < math.inf:
        raise ValueError(f"--robots {args.robots} and --seconds {args.seconds}: give positive numbers")
    if args.seed < 0 or not 0 < args.height < math.inf:
        raise ValueError(f"--seed {args.seed} and --height {args.height:g}: give a seed from 0 and a positive height")
    least = {"friction": 0.0, "payload": -math.inf, "gains": 0.0}
    for name, lowest in least.items():
        low, high = getattr(args, name) or (0.0, 0.0)
        if not lowest <= low <= high < math.inf or low == -math.inf:  # false of NaN
            values = f"--{name} {low:g} {high:g}"
            raise ValueError(
                f"{values}: give two finite numbers, {'none negative, ' * (lowest == 0)}the lower one first"
            )


def main():
    args = parse()
    try:
        import mujoco

        mujoco.set_mju_user_warning(lambda message: None)  # it would write a log file into the working directory

        check(args)
        walker = Walker(mujoco, args.model, args.policy, args.height)
        steps = max(1, round(args.seconds / walker.policy.control_period))
        segments = math.ceil(args.seconds / COMMAND_PERIOD)
        if min(args.payload) <= -walker.trunk_mass:
            raise ValueError(
                f"--payload {min(args.payload):g} takes off the trunk's {walker.trunk_mass:g} kg; give more"
            )
        if args.commands is not None:
            given = np.array(json.loads(args.commands.read_text()), float)
            if given.ndim != 3 or given.shape[0] < 1 or given.shape[1] < segments or given.shape[2] != 3:
                raise ValueError(f"--commands has the shape {given.shape}; give [robots, {segments}, 3]")
            if not np.isfinite(given).all():
                raise ValueError("--commands has numbers that are not finite; give velocities in m/s and rad/s")
            commands = [itertools.cycle(own) for own in given]
        else:
            commands = [draw_commands(walker.policy.description["command_ranges"], args.seed)] * args.robots
    except ModuleNotFoundError as error:
        return fail(f"{error.name} is not installed; run: pip install {error.name}")
    except Exception as error:  # onnxruntime's have no type in common
        return fail(" ".join(str(error).split()))
    results, generator = [], np.random.default_rng(args.seed + 1)
    for followed in commands:
        vary(walker, args, generator)
        try:
            results.append(walk(walker, followed, steps))
        except ValueError as error:  # a state or a target outside the limits of the policy
            return fail(f"the policy stopped robot {len(results)}: {error}")
    fall_rate, lin_vel_error, yaw_rate_error = np.mean(results, axis=0)
    numbers = {"fall_rate": fall_rate, "lin_vel_error": lin_vel_error, "yaw_rate_error": yaw_rate_error}
    print(json.dumps({**numbers, "robots": len(commands), "seconds": args.seconds, "policy": str(args.policy)}))
    return 0


def fail(message):
    """Say in one line what is wrong."""
    print(f"sim_to_sim.py: error: {message}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())

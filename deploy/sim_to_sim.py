"""Sim-to-sim: run an exported policy in MuJoCo, one robot after the other, without rsl_rl.

    python deploy/sim_to_sim.py logs/go2_flat/<run>/exported/policy.onnx --robots 32

Needs numpy, onnxruntime and mujoco. The last line is JSON: fall_rate (falls per robot), lin_vel_error [m/s] and
yaw_rate_error [rad/s], as in scripts/evaluate.py; each robot gets a new command every 10 s and after a fall. Model,
height and what counts as a fall are in the policy's file. All robots have the parameters of the model by default;
--friction, --payload and --gains randomise them as in evaluate.py.

A robot whose simulation diverges, or whose policy stops, counts as fallen. The JSON has the numbers of both, and those
of policy.counts. The exit code is 1 if a simulation diverged, and 2 for wrong usage.
"""

import argparse
import itertools
import json
import math
import sys
from pathlib import Path

import numpy as np
from onnx_policy import Policy, PolicyStoppedError, open_onnx

GO2 = {
    "model": "rsl_rl/robots/go2/go2.xml",
    "standing_height": 0.32,
    "contact_links": ["trunk", "head"],
    "contact_force": 1.0,
    "max_tilt": 1.0,
}
"""Simulation of policies whose file does not have one, which are older."""
COMMAND_PERIOD = 10.0  # [s]
MAX_HEIGHT = 10.0  # [m]


class Walker:
    """One robot in MuJoCo: a free joint, then hinges, each with a position actuator."""

    def __init__(self, mujoco, policy, model_path=None, height=None):
        """``policy`` is the path of policy.onnx, or its description and network."""
        description, network = policy if isinstance(policy, tuple) else open_onnx(policy)
        simulation = read_simulation(description)
        path = find_model(simulation) if model_path is None else model_path
        if not Path(path).is_file():
            raise ValueError(f"{path} is not a file; give the MJCF file of the robot")
        self._mujoco = mujoco
        self._height = simulation["standing_height"] if height is None else height
        self.model = mujoco.MjModel.from_xml_path(str(path))
        self.model.opt.jacobian = mujoco.mjtJacobian.mjJAC_DENSE  # the sparse solver of MuJoCo 4.0.0 can be wrong
        self.data = mujoco.MjData(self.model)
        joints = self.model.actuator_trnid[:, 0]
        self.policy = Policy(description, network, [self.model.joint(i).name for i in joints])
        self._lowest_cosine = math.cos(simulation["max_tilt"])
        self._contacts = [f"{link}_contact" for link in simulation["contact_links"]]  # sensors
        self._contact_force = simulation["contact_force"]
        sensors = {self.model.sensor(i).name for i in range(self.model.nsensor)}
        missing = [name for name in self._contacts if name not in sensors]
        if missing:
            raise ValueError(f"{path} has no sensor {missing[0]}, whose contact is a fall; give the policy's --model")
        bad = mujoco.mjtWarning
        self._divergence = [bad.mjWARN_BADQPOS, bad.mjWARN_BADQVEL, bad.mjWARN_BADQACC]
        self.counts = {"diverged": 0, "stopped": 0}  # simulations; policies
        self._pos, self._vel = self.model.jnt_qposadr[joints], self.model.jnt_dofadr[joints]
        self.substeps = round(self.policy.control_period / self.model.opt.timestep)
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
        """Simulate one control step with the policy's action; return whether the policy stopped or the simulation
        diverged, after which it has to be reset."""
        try:
            self.simulate(self._targets(command))
        except PolicyStoppedError:
            self.counts["stopped"] += 1
            return True
        diverged = any(self.data.warning[kind].number for kind in self._divergence)  # MuJoCo has reset the robot
        self.counts["diverged"] += diverged
        return diverged

    def _targets(self, command):
        """Return the policy's joint targets."""
        return self.policy(command=command, **self.readings())

    def readings(self):
        """Return what the robot's sensors measure, as arguments of the policy."""
        return {
            "base_quat": self.data.qpos[3:7],
            "base_lin_vel": self.base_to_world().T @ self.data.qvel[:3],
            "base_ang_vel": self.data.qvel[3:6],
            "joint_pos": self.data.qpos[self._pos],
            "joint_vel": self.data.qvel[self._vel],
        }

    def base_to_world(self):
        """Return the rotation matrix of the base [3, 3]."""
        matrix = np.empty(9)
        self._mujoco.mju_quat2Mat(matrix, self.data.qpos[3:7])
        return matrix.reshape(3, 3)

    def simulate(self, targets):
        """Simulate one control step with joint targets."""
        if self._motor is None:
            self.data.ctrl[:] = targets
            self._mujoco.mj_step(self.model, self.data, self.substeps)
            return
        stall, no_load = self._motor
        for _ in range(self.substeps):
            velocity = self.data.qvel[self._vel]
            torque = self._gains[0] * (targets - self.data.qpos[self._pos]) - self._gains[1] * velocity
            share = velocity / no_load
            self.data.ctrl[:] = np.clip(torque, stall * (-1 - share), stall * (1 - share))
            self._mujoco.mj_step(self.model, self.data)

    def velocities(self):
        """Return vx, vy [m/s] and yaw rate [rad/s] in the base frame, and whether the robot has fallen."""
        rotation = self.base_to_world()
        forces = [np.linalg.norm(self.data.sensor(name).data) for name in self._contacts]
        fallen = rotation[2, 2] < self._lowest_cosine or any(force > self._contact_force for force in forces)
        vx, vy, _ = rotation.T @ self.data.qvel[:3]
        return np.array((vx, vy, self.data.qvel[5])), fallen


def read_simulation(description):
    """Return the entry "simulation" of a policy; a task without one of the shipped terminations has no such falls."""
    simulation = description.get("simulation", GO2)
    if isinstance(simulation, dict):
        simulation = {"contact_links": [], "contact_force": 0.0, "max_tilt": math.pi, **simulation}
        numbers = [simulation.get(name) for name in ("standing_height", "contact_force", "max_tilt")]
        are_numbers = all(isinstance(value, (int, float)) and 0 <= value < math.inf for value in numbers)
        links = simulation["contact_links"]
        are_names = isinstance(links, (list, tuple)) and all(isinstance(link, str) for link in links)
        if are_numbers and are_names and isinstance(simulation.get("model"), str):
            return simulation
    raise ValueError(f"simulation={simulation} of the policy is not as play.py writes it; export the policy again")


def find_model(simulation):
    """Return the model file of a policy: an absolute path, or one beside this folder."""
    path = Path(__file__).resolve().parent.parent / simulation["model"]
    if not path.is_file():
        raise ValueError(f"the policy's model {path} is not on this machine; give its MJCF file with --model")
    return path


def dc_motor(description, joint_names):
    """Return stall torque [N m] and no-load speed [rad/s] of the joints, or None for ideal PD loops."""
    actuator = description.get("actuator", {"type": "pd"})
    kind = actuator.get("type") if isinstance(actuator, dict) else actuator
    if kind == "pd":
        return None
    if kind != "dc_motor":
        raise ValueError(f"the policy's actuator is '{kind}'; this script simulates pd and dc_motor")
    order = [description["joint_names"].index(name) for name in joint_names]
    numbers = [np.array(actuator.get(name)) for name in ("stall_torque", "no_load_speed")]
    if not all(x.shape == (len(order),) and x.dtype.kind in "if" and (x > 0).all() for x in numbers):
        raise ValueError(f"the policy's actuator is {actuator}; give stall_torque and no_load_speed of each joint")
    return tuple(x[order] for x in numbers)


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

    A new command after a fall prevents that the robot falls again in the same way. A stop of the policy and a
    simulation that diverges are falls, and their steps are not in the errors.
    """
    falls, errors = 0, np.zeros(2)
    per_command = round(COMMAND_PERIOD / walker.policy.control_period)
    command, age = next(commands), 0
    walker.reset()
    for _ in range(steps):
        failed = walker.step(command)
        age += 1
        velocity, fallen = walker.velocities()
        fallen = fallen or failed
        if not failed:
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
    parser.add_argument("--model", type=Path, help="MJCF file of the robot on a floor; the policy's own without it")
    parser.add_argument("--height", type=float, help="of the trunk at the start [m]; the robot's own without it")
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
    if args.seed < 0:
        raise ValueError(f"--seed {args.seed}: give a seed from 0")
    if args.height is not None and not 0 < args.height <= MAX_HEIGHT:
        raise ValueError(f"--height {args.height:g}: give a height from 0 to {MAX_HEIGHT:g} m")
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

        check(args)
        # MuJoCo writes a file for each simulation that diverges
        mujoco.set_mju_user_warning(lambda message: None)  # pyright: ignore[reportAttributeAccessIssue]
        walker = Walker(mujoco, args.policy, args.model, args.height)
        steps = max(1, round(args.seconds / walker.policy.control_period))
        segments = math.ceil(args.seconds / COMMAND_PERIOD)
        if min(args.payload) <= -walker.trunk_mass:
            raise ValueError(
                f"--payload {min(args.payload):g} takes off the trunk's {walker.trunk_mass:g} kg; give more"
            )
        if args.commands is not None:
            if not args.commands.is_file():
                raise ValueError(f"--commands {args.commands} is not a file")
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
        except ValueError as error:  # a start that the policy cannot use
            return fail(f"robot {len(results)} cannot start: {error}")
    fall_rate, lin_vel_error, yaw_rate_error = np.mean(results, axis=0)
    numbers = {"fall_rate": fall_rate, "lin_vel_error": lin_vel_error, "yaw_rate_error": yaw_rate_error}
    counts = {**walker.counts, **walker.policy.counts}
    print(
        json.dumps({**numbers, "robots": len(commands), "seconds": args.seconds, "policy": str(args.policy), **counts})
    )
    if walker.counts["diverged"]:
        print(f"sim_to_sim.py: the simulation diverged {walker.counts['diverged']} times", file=sys.stderr)
        return 1
    return 0


def fail(message):
    """Say in one line what is wrong."""
    print(f"sim_to_sim.py: error: {message}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())

"""Predict the motion of a logged robot with its model, over a short time from each of many steps."""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

HORIZON = 3
"""Control steps of a prediction."""

_SAME_HEIGHT = 0.008
"""Solids that are at most this much higher than the lowest one stand on the floor too [m]."""

_SINK = 0.002
"""Depth of standing feet in the floor [m]."""


@dataclass(frozen=True)
class Motion:
    """T control steps of a robot, in the policy's order of joints and in SI units."""

    base_quat: np.ndarray  # [T, 4] w x y z, base to world
    base_ang_vel: np.ndarray  # [T, 3] base frame [rad/s]
    base_lin_vel: Optional[np.ndarray]  # [T, 3] base frame [m/s]; None: estimated from the standing feet
    joint_pos: np.ndarray  # [T, J] [rad]
    joint_vel: np.ndarray  # [T, J] [rad/s]
    targets: np.ndarray  # [T, J] [rad], sent after the readings of the same row


MOST_DELAY = 3
"""Control steps by which targets may be late."""


def window(motion: Motion, steps: np.ndarray) -> Tuple[Motion, np.ndarray]:
    """Return only the rows that predictions from some steps need, and the places of these steps."""
    rows = (steps[:, None] + np.arange(-MOST_DELAY, HORIZON + 1)).clip(0)
    parts: Dict[str, Any] = {name: None if x is None else x[rows.ravel()] for name, x in vars(motion).items()}
    return Motion(**parts), MOST_DELAY + rows.shape[1] * np.arange(len(steps))


def joined(motions: Sequence[Motion]) -> Motion:
    """Return the rows of several motions, one after the other."""
    parts: Dict[str, Any] = {}
    for name, x in vars(motions[0]).items():
        parts[name] = None if x is None else np.concatenate([getattr(one, name) for one in motions])
    return Motion(**parts)


class Actuation(NamedTuple):
    """Factors on the contract's numbers, and the delay of targets."""

    stiffness: float = 1.0
    damping: float = 1.0
    torque: float = 1.0
    delay: int = 0  # control steps


NOMINAL = Actuation()


class Replay:
    """A robot's model with the gains of a contract."""

    def __init__(
        self, model_path: Path, description: Mapping[str, Any], joint_names: Sequence[str], control_period: float
    ):
        import mujoco
        from mujoco import rollout

        from rsl_rl.utils.mujoco_model import without_log

        self._mujoco, self._rollout, self._without_log = mujoco, rollout.rollout, without_log
        self.model = mujoco.MjModel.from_xml_path(str(model_path))
        self.model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_SENSOR
        self._data = mujoco.MjData(self.model)
        joints = self._find_joints(joint_names)
        actuators = {int(j): i for i, j in enumerate(self.model.actuator_trnid[:, 0])}
        self._order = np.array([actuators[j] for j in joints])  # actuator of each joint
        self._pos, self.dofs = self.model.jnt_qposadr[joints], self.model.jnt_dofadr[joints]
        self._gains = np.array(description["stiffness"]), np.array(description["damping"])
        self.torque_limits = np.array(description["torque_limits"])  # [J] [N m]
        substeps = max(1, round(control_period / self.model.opt.timestep))
        self._period, self._substeps = control_period, {False: substeps, True: max(1, substeps // 2)}
        implicit = mujoco.mjtIntegrator.mjINT_IMPLICITFAST  # stable with any damping at the coarse time step
        self._integrators = {False: self.model.opt.integrator, True: implicit}
        self._set_actuation(Actuation())
        self._floor = self._find_floor()
        self._solids = self._find_solids()

    def _find_joints(self, names: Sequence[str]) -> List[int]:
        """Return the joints of the policy in the model; another model is a ValueError."""
        known = {self.model.joint(i).name: i for i in range(self.model.njnt)}
        moved = {int(joint) for joint in self.model.actuator_trnid[:, 0]}
        for name in names:
            if known.get(name) not in moved:
                raise ValueError(
                    f"the model has no joint {name} with an actuator; give the policy's robot with --model"
                )
        if self.model.nq != 7 + len(names):
            raise ValueError(f"the model has {self.model.nq - 7} joints, the policy {len(names)}; give its robot")
        return [known[name] for name in names]

    def legs(self) -> List[List[int]]:
        """Return the joints of each chain of links below the base, in the policy's order, the nearest first."""
        model, chains = self.model, {}
        for joint, dof in enumerate(self.dofs):
            body = int(model.dof_bodyid[dof])
            path = [body]
            while model.body_parentid[path[-1]] != model.jnt_bodyid[0] and path[-1] != 0:
                path.append(int(model.body_parentid[path[-1]]))
            chains.setdefault(path[-1], []).append((len(path), joint))
        return [[joint for _, joint in sorted(chain)] for chain in chains.values()]

    def _set_actuation(self, actuation: Actuation) -> None:
        stiffness, damping = self._gains[0] * actuation.stiffness, self._gains[1] * actuation.damping
        limits = self.torque_limits * actuation.torque
        self.model.actuator_gainprm[self._order, 0] = stiffness
        self.model.actuator_biasprm[self._order, 1] = -stiffness
        self.model.actuator_biasprm[self._order, 2] = -damping
        self.model.actuator_forcerange[self._order] = np.stack((-limits, limits), axis=1)
        self.model.actuator_forcelimited[self._order] = 1

    def _find_floor(self) -> int:
        planes = np.flatnonzero(self.model.geom_type == self._mujoco.mjtGeom.mjGEOM_PLANE)
        if not len(planes):
            raise ValueError("the model has no floor, a geom of type plane")
        return int(planes[0])

    def _find_solids(self) -> np.ndarray:
        """Return the geoms that touch the floor."""
        pairs = np.stack((self.model.pair_geom1, self.model.pair_geom2), axis=1)
        paired = pairs[(pairs == self._floor).any(axis=1)]
        found = {int(geom) for geom in paired.flat if geom != self._floor}
        types, affinities = self.model.geom_contype, self.model.geom_conaffinity
        floor = self._floor
        touches = (types & affinities[floor]) | (affinities & types[floor])
        found |= {int(geom) for geom in np.flatnonzero(touches) if geom != floor}
        return np.array(sorted(found))

    def _lowest(self, positions: np.ndarray, up: np.ndarray) -> np.ndarray:
        """Return the lowest point [m] of each solid at these heights, whose axes have these z, [..., solids(, 3)]."""
        kind, size = self.model.geom_type[self._solids], self.model.geom_size[self._solids]
        up, geoms = np.abs(up), self._mujoco.mjtGeom
        extent = np.where(
            kind == geoms.mjGEOM_BOX,
            (up * size).sum(axis=-1),
            size[:, 0] + np.where(kind == geoms.mjGEOM_SPHERE, 0.0, size[:, 1] * up[..., 2]),
        )
        return np.asarray(positions - extent)

    def states(self, motion: Motion, steps: np.ndarray) -> np.ndarray:
        """Return the state of the model at each step, with the lowest part of the robot on the floor."""
        data, model = self._data, self.model
        rows = np.zeros((len(steps), 1 + model.nq + model.nv))
        rows[:, 4:8] = motion.base_quat[steps]
        rows[:, 1 + self._pos] = motion.joint_pos[steps]
        velocity = rows[:, 1 + model.nq :]
        velocity[:, 3:6] = motion.base_ang_vel[steps]
        velocity[:, self.dofs] = motion.joint_vel[steps]
        if motion.base_lin_vel is not None:
            velocity[:, :3] = rotate(rows[:, 4:8], motion.base_lin_vel[steps])
        heights, up = np.empty((len(steps), len(self._solids))), np.empty((len(steps), len(self._solids), 3))
        for i, row in enumerate(rows):
            data.qpos[:] = row[1 : 1 + model.nq]
            self._mujoco.mj_kinematics(model, data)
            heights[i] = data.geom_xpos[self._solids, 2]
            up[i] = data.geom_xmat[self._solids, 6:]
            if motion.base_lin_vel is None:
                velocity[i, :3] = self._standing_velocity(velocity[i], self._lowest(heights[i], up[i]))
        lowest = self._lowest(heights, up)
        least = lowest.min(axis=1, keepdims=True)
        standing = lowest < least + _SAME_HEIGHT
        rows[:, 3] = -_SINK - (lowest * standing).sum(axis=1) / standing.sum(axis=1)
        return rows

    def _standing_velocity(self, velocity: np.ndarray, lowest: np.ndarray) -> np.ndarray:
        """Return the velocity of the base [3] with which the lowest solid stands still."""
        data, model, jacobian = self._data, self.model, np.empty((3, self.model.nv))
        self._mujoco.mj_comPos(model, data)
        geom = self._solids[lowest.argmin()]
        point = data.geom_xpos[geom].copy()
        point[2] = lowest.min()
        self._mujoco.mj_jac(model, data, jacobian, None, point, model.geom_bodyid[geom])
        return -jacobian @ velocity

    def predict(self, motion: Motion, steps: np.ndarray, actuation: Actuation, is_coarse: bool) -> np.ndarray:
        """Return the states after each control step of the horizon, [n, HORIZON, state]."""
        substeps = self._substeps[is_coarse]
        self.model.opt.timestep = self._period / substeps
        self.model.opt.integrator = self._integrators[is_coarse]
        self._set_actuation(actuation)
        states = self.states(motion, steps)
        when = (steps[:, None] + np.arange(HORIZON) - actuation.delay).clip(0)
        ctrl = np.zeros((len(steps), HORIZON, self.model.nu))
        ctrl[:, :, self._order] = motion.targets[when]
        ctrl = np.repeat(ctrl, substeps, axis=1)
        with self._without_log():  # wrong corrections may be motions that no robot has
            out = np.asarray(self._rollout(self.model, self._data, states, ctrl)[0])
        return out[:, substeps - 1 :: substeps]

    def residuals(
        self, motion: Motion, steps: np.ndarray, actuation: Actuation = NOMINAL, is_coarse: bool = False
    ) -> np.ndarray:
        """Return predicted minus measured, [n, HORIZON, 2 J + 6]: joint positions, velocities, gyro, gravity.

        Coarse: with twice the model's time step, to tell what is worth a finer look.
        """
        out = self.predict(motion, steps, actuation, is_coarse)
        q = out[:, :, 1 : 1 + self.model.nq]
        v = out[:, :, 1 + self.model.nq :]
        later = steps[:, None] + 1 + np.arange(HORIZON)
        parts = [
            q[:, :, self._pos] - motion.joint_pos[later],
            v[:, :, self.dofs] - motion.joint_vel[later],
            v[:, :, 3:6] - motion.base_ang_vel[later],
            gravity(q[:, :, 3:7]) - gravity(motion.base_quat[later]),
        ]
        return np.concatenate(parts, axis=2)


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the product of quaternions w x y z, [..., 4]."""
    w, x, y, z = np.moveaxis(a, -1, 0)
    columns = np.moveaxis(b, -1, 0)
    p, i, j, k = columns
    return np.stack(
        (w * p - x * i - y * j - z * k, w * i + x * p + y * k - z * j, w * j - x * k + y * p + z * i,
         w * k + x * j - y * i + z * p),
        axis=-1,
    )  # fmt: skip


def rotate(quat: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Turn vectors [..., 3] by quaternions w x y z."""
    w, axis = quat[..., :1], quat[..., 1:]
    twice = 2.0 * np.cross(axis, vectors)
    return vectors + w * twice + np.cross(axis, twice)


def rotate_back(quat: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Turn vectors [..., 3] by the inverse of quaternions w x y z."""
    return rotate(quat * np.array([1.0, -1.0, -1.0, -1.0]), vectors)


def gravity(quat: np.ndarray) -> np.ndarray:
    """Return the direction of gravity in the base frame of quaternions w x y z, [..., 3]."""
    w, x, y, z = np.moveaxis(quat, -1, 0)
    return -np.stack((2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z), axis=-1)

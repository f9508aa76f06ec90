"""The calls of ``gymapi.Gym`` that concern one actor or one body: states as arrays, scale, attractors."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch

from gymapi_mujoco import attractors
from gymapi_mujoco.enums import CONSTANTS
from gymapi_mujoco.handles import Env, actor_of, engine_of, env_of, unprepared
from gymapi_mujoco.rotations import rotation_matrix
from gymapi_mujoco.scene import Actor
from gymapi_mujoco.structs import (
    AttractorProperties,
    DofFrame,
    DofState,
    RigidBodyState,
    Transform,
    Vec3,
    as_array,
    to_transform,
    to_wxyz,
)

_POS, _VEL = CONSTANTS["STATE_POS"], CONSTANTS["STATE_VEL"]


class ActorCalls:
    """Calls for one actor or body."""

    # States of one actor as arrays.

    def get_actor_dof_states(self, env: Env, actor: int, flags: int) -> np.ndarray:
        """Return an array of ``gymapi.DofState.dtype``."""
        own = actor_of(env, actor, "get_actor_dof_states")
        dofs = engine_of(env.sim, "get_actor_dof_states").dofs
        dofs.refresh()
        rows = dofs.of(env.index, own).cpu().numpy()
        states = np.zeros(len(rows), DofState.dtype)
        if flags & _POS:
            states["pos"] = rows[:, 0]
        if flags & _VEL:
            states["vel"] = rows[:, 1]
        return states

    def set_actor_dof_states(self, env: Env, actor: int, states: np.ndarray, flags: int) -> bool:
        own = actor_of(env, actor, "set_actor_dof_states")
        engine = engine_of(env.sim, "set_actor_dof_states")
        engine.dofs.refresh()
        rows = engine.dofs.of(env.index, own)
        if flags & _POS:
            rows[:, 0] = torch.from_numpy(np.ascontiguousarray(states["pos"]))
        if flags & _VEL:
            rows[:, 1] = torch.from_numpy(np.ascontiguousarray(states["vel"]))
        index = env.index * engine.layout.num_actors + own.index
        engine.dofs.write(engine.dofs.buffer, torch.tensor([index]).to(engine.layout.device))
        return True

    def get_actor_rigid_body_states(self, env: Env, actor: int, flags: int) -> np.ndarray:
        """Return an array of ``gymapi.RigidBodyState.dtype``; before ``prepare_sim`` that of the start."""
        own, engine = actor_of(env, actor, "get_actor_rigid_body_states"), env.sim.engine
        rows = np.zeros((len(own.asset.bodies), 13), np.float32)
        if engine is None:
            rows[:, :7] = own.start_poses()
        else:
            engine.bodies.refresh()
            rows[:] = engine.bodies.of(env.index, own).cpu().numpy()
        if not flags & _POS:
            rows[:, :7] = 0.0
        if not flags & _VEL:
            rows[:, 7:] = 0.0
        return rows.view(RigidBodyState.dtype).reshape(-1)

    def get_rigid_transform(self, env: Env, body: int) -> Transform:
        """Return the pose of a body, by its index in the environment, in the environment's frame."""
        actors = env_of(env, "get_rigid_transform").actors
        owner = next((own for own in actors if 0 <= body - own.body_start < len(own.asset.bodies)), None)
        if owner is None:
            raise IndexError(f"get_rigid_transform: body {body}; environment {env.index} has {env.num_bodies} bodies")
        states = self.get_actor_rigid_body_states(env, owner.index, _POS)
        row = states.view(np.float32).reshape(-1, 13)[body - owner.body_start].astype(float)
        return to_transform(row[:3], np.roll(row[3:7], 1))

    def get_dof_frame(self, env: Env, dof: int) -> DofFrame:
        """Return origin and axis of a DoF, by its index in the environment, in the environment's frame."""
        owner = next((own for own in env_of(env, "get_dof_frame").actors
                      if 0 <= dof - own.dof_start < len(own.asset.joints)), None)  # fmt: skip
        if owner is None:
            raise IndexError(f"get_dof_frame: DoF {dof}; environment {env.index} has {env.num_dofs} DoFs")
        joint = owner.asset.joints[dof - owner.dof_start]
        body = next(i for i, part in enumerate(owner.asset.bodies) if any(own is joint for own in part.joints))
        pose = self.get_rigid_transform(env, owner.body_start + body)
        frame, turn = DofFrame(), rotation_matrix(to_wxyz(pose.r))
        frame.origin = Vec3(*(as_array(pose.p) + turn @ joint.anchor))
        frame.axis = Vec3(*(turn @ joint.axis))
        return frame

    # Forces and targets of one actor's DoFs.

    def get_actor_dof_forces(self, env: Env, actor: int) -> np.ndarray:
        """Return the efforts and drive forces [DoFs] of the last step [N or N m]."""
        own = actor_of(env, actor, "get_actor_dof_forces")
        forces = engine_of(env.sim, "get_actor_dof_forces").dof_forces
        forces.refresh()
        return _of(forces.buffer.view(len(env.sim.envs), -1), env, own).cpu().numpy().copy()

    def apply_actor_dof_efforts(self, env: Env, actor: int, efforts: np.ndarray) -> bool:
        """Apply efforts [DoFs] for the next ``simulate``; those of other actors stay as they are."""
        own = actor_of(env, actor, "apply_actor_dof_efforts")
        engine = engine_of(env.sim, "apply_actor_dof_efforts")
        values = engine.layout.zeros(engine.layout.num_envs, engine.layout.num_dofs)
        _of(values, env, own)[:] = _floats(efforts)
        index = torch.tensor([env.index * engine.layout.num_actors + own.index]).to(engine.layout.device)
        engine.efforts.set(values.view(-1), index)
        return True

    def get_actor_dof_position_targets(self, env: Env, actor: int) -> np.ndarray:
        """Return the targets [DoFs] of position drives [rad or m]."""
        own = actor_of(env, actor, "get_actor_dof_position_targets")
        drives = engine_of(env.sim, "get_actor_dof_position_targets").drives
        return _of(drives.position_target, env, own).cpu().numpy().copy()

    def set_actor_dof_position_targets(self, env: Env, actor: int, targets: np.ndarray) -> bool:
        own = actor_of(env, actor, "set_actor_dof_position_targets")
        drives = engine_of(env.sim, "set_actor_dof_position_targets").drives
        _of(drives.position_target, env, own)[:] = _floats(targets)
        return True

    def get_actor_dof_velocity_targets(self, env: Env, actor: int) -> np.ndarray:
        """Return the targets [DoFs] of velocity drives [rad/s or m/s]."""
        own = actor_of(env, actor, "get_actor_dof_velocity_targets")
        drives = engine_of(env.sim, "get_actor_dof_velocity_targets").drives
        return _of(drives.velocity_target, env, own).cpu().numpy().copy()

    def set_actor_dof_velocity_targets(self, env: Env, actor: int, targets: np.ndarray) -> bool:
        own = actor_of(env, actor, "set_actor_dof_velocity_targets")
        drives = engine_of(env.sim, "set_actor_dof_velocity_targets").drives
        _of(drives.velocity_target, env, own)[:] = _floats(targets)
        return True

    # Scale.

    def get_actor_scale(self, env: Env, actor: int) -> float:
        return actor_of(env, actor, "get_actor_scale").asset.scale

    def set_actor_scale(self, env: Env, actor: int, scale: float) -> bool:
        """Scale an actor's lengths, and its masses by the third power; before ``prepare_sim``, and in all environments
        alike."""
        unprepared(env_of(env, "set_actor_scale").sim, "set_actor_scale")
        value = float(np.asarray(scale).item())  # clients pass arrays of one number too
        if not 0 < value < np.inf:
            raise ValueError(f"set_actor_scale: {value:g}; give a number above zero")
        actor_of(env, actor, "set_actor_scale").set_scale(value)
        return True

    # Attractors.

    def create_rigid_body_attractor(self, env: Env, props: AttractorProperties) -> int:
        """Add an attractor, before ``prepare_sim``; return its handle in the environment."""
        unprepared(env_of(env, "create_rigid_body_attractor").sim, "create_rigid_body_attractor")
        attractors.check(props)
        if not 0 <= props.rigid_handle < env.num_bodies:
            raise IndexError(
                f"create_rigid_body_attractor: body {props.rigid_handle}; environment {env.index} has {env.num_bodies}"
            )
        env.attractors.append(copy.deepcopy(props))
        return len(env.attractors) - 1

    def get_attractor_properties(self, env: Env, attractor: int) -> AttractorProperties:
        return copy.deepcopy(_attractor(env, attractor, "get_attractor_properties"))

    def set_attractor_properties(self, env: Env, attractor: int, props: AttractorProperties) -> None:
        """Change stiffness, damping, offset and target; body and axes stay as they are, and AXIS_NONE switches off."""
        before = _attractor(env, attractor, "set_attractor_properties")
        attractors.check(props)
        if props.rigid_handle != before.rigid_handle:
            raise ValueError("set_attractor_properties: the body of an attractor cannot change; create another one")
        env.attractors[attractor] = copy.deepcopy(props)
        if env.sim.engine is not None:
            env.sim.engine.attractors.write(env.index, attractor)

    def set_attractor_target(self, env: Env, attractor: int, target: Transform) -> None:
        """Move the target, a pose in the environment's frame."""
        props = self.get_attractor_properties(env, attractor)
        props.target = target
        self.set_attractor_properties(env, attractor, props)


def _of(values: torch.Tensor, env: Env, actor: Actor) -> torch.Tensor:
    """Return the columns of an actor's DoFs in values [N, D]."""
    return values[env.index, actor.dof_start : actor.dof_start + len(actor.asset.joints)]


def _floats(values: Any) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))


def _attractor(env: Env, handle: int, call: str) -> AttractorProperties:
    found = env_of(env, call).attractors
    if not 0 <= handle < len(found):
        raise IndexError(f"{call}: attractor {handle}; environment {env.index} has {len(found)} attractors")
    return found[handle]

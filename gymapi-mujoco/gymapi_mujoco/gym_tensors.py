"""The calls of ``Gym`` that run the simulation and exchange tensors with it."""

from __future__ import annotations

import time
from typing import Callable, NamedTuple, Optional, Tuple

import numpy as np
import torch

from gymapi_mujoco import dynamics
from gymapi_mujoco.engine import Engine
from gymapi_mujoco.enums import CONSTANTS, CoordinateSpace
from gymapi_mujoco.handles import actor_of, engine_of, sim_of
from gymapi_mujoco.params import DofState, RigidBodyState
from gymapi_mujoco.scene import Env, Sim
from gymapi_mujoco.tensors import Tensor, floats, indices

_POS, _VEL = CONSTANTS["STATE_POS"], CONSTANTS["STATE_VEL"]


class Tensors:
    """Part of ``Gym``. Setters act at once; the next refresh shows what was set."""

    def simulate(self, sim: Sim) -> None:
        """Advance all environments by ``dt``."""
        engine_of(sim, "simulate").simulate()
        sim.frames += 1

    def fetch_results(self, sim: Sim, wait: bool) -> None:
        """Do nothing: ``simulate`` returns when the step is done."""
        engine_of(sim, "fetch_results")

    def get_sim_time(self, sim: Sim) -> float:
        return sim_of(sim, "get_sim_time").time

    def get_frame_count(self, sim: Sim) -> int:
        return sim_of(sim, "get_frame_count").frames

    def get_elapsed_time(self, sim: Sim) -> float:
        """Return the wall-clock time since ``create_sim`` [s]."""
        return time.monotonic() - sim_of(sim, "get_elapsed_time").started

    # State tensors.

    def acquire_actor_root_state_tensor(self, sim: Sim) -> Tensor:
        """Return [actors, 13]: position, quaternion x y z w, linear and angular velocity in world axes."""
        return Tensor(engine_of(sim, "acquire_actor_root_state_tensor").root_state)

    def acquire_dof_state_tensor(self, sim: Sim) -> Tensor:
        """Return [DoFs, 2]: position and velocity."""
        return Tensor(engine_of(sim, "acquire_dof_state_tensor").dof_state)

    def acquire_rigid_body_state_tensor(self, sim: Sim) -> Tensor:
        """Return [bodies, 13], as the root states; velocities are those of the centres of mass."""
        engine = engine_of(sim, "acquire_rigid_body_state_tensor")
        engine.refresh_bodies()
        return Tensor(engine.body_state)

    def acquire_net_contact_force_tensor(self, sim: Sim) -> Tensor:
        """Return [bodies, 3]: the sum of contact forces on each body [N], in world axes."""
        return Tensor(engine_of(sim, "acquire_net_contact_force_tensor").contact_force)

    def refresh_actor_root_state_tensor(self, sim: Sim) -> bool:
        engine_of(sim, "refresh_actor_root_state_tensor").refresh_root()
        return True

    def refresh_dof_state_tensor(self, sim: Sim) -> bool:
        engine_of(sim, "refresh_dof_state_tensor").refresh_dofs()
        return True

    def refresh_rigid_body_state_tensor(self, sim: Sim) -> bool:
        engine_of(sim, "refresh_rigid_body_state_tensor").refresh_bodies()
        return True

    def refresh_net_contact_force_tensor(self, sim: Sim) -> bool:
        engine_of(sim, "refresh_net_contact_force_tensor").refresh_contacts()
        return True

    def set_actor_root_state_tensor(self, sim: Sim, state: Tensor) -> bool:
        return _write(_ROOT, sim, state, "set_actor_root_state_tensor")

    def set_actor_root_state_tensor_indexed(self, sim: Sim, state: Tensor, actors: Tensor, count: int) -> bool:
        """Write the root states of the first ``count`` actors in ``actors``, out of a tensor of all states."""
        return _write(_ROOT, sim, state, "set_actor_root_state_tensor_indexed", (actors, count))

    def set_dof_state_tensor(self, sim: Sim, state: Tensor) -> bool:
        return _write(_DOFS, sim, state, "set_dof_state_tensor")

    def set_dof_state_tensor_indexed(self, sim: Sim, state: Tensor, actors: Tensor, count: int) -> bool:
        return _write(_DOFS, sim, state, "set_dof_state_tensor_indexed", (actors, count))

    # Efforts, targets and forces.

    def set_dof_actuation_force_tensor(self, sim: Sim, forces: Tensor) -> bool:
        """Apply forces [DoFs] for the next ``simulate``, limited to the DoFs' ``effort`` where it is above zero."""
        return _write(_EFFORTS, sim, forces, "set_dof_actuation_force_tensor")

    def set_dof_actuation_force_tensor_indexed(self, sim: Sim, forces: Tensor, actors: Tensor, count: int) -> bool:
        return _write(_EFFORTS, sim, forces, "set_dof_actuation_force_tensor_indexed", (actors, count))

    def set_dof_position_target_tensor(self, sim: Sim, targets: Tensor) -> bool:
        return _write(_POSITIONS, sim, targets, "set_dof_position_target_tensor")

    def set_dof_position_target_tensor_indexed(self, sim: Sim, targets: Tensor, actors: Tensor, count: int) -> bool:
        return _write(_POSITIONS, sim, targets, "set_dof_position_target_tensor_indexed", (actors, count))

    def set_dof_velocity_target_tensor(self, sim: Sim, targets: Tensor) -> bool:
        return _write(_VELOCITIES, sim, targets, "set_dof_velocity_target_tensor")

    def set_dof_velocity_target_tensor_indexed(self, sim: Sim, targets: Tensor, actors: Tensor, count: int) -> bool:
        return _write(_VELOCITIES, sim, targets, "set_dof_velocity_target_tensor_indexed", (actors, count))

    def apply_rigid_body_force_tensors(
        self,
        sim: Sim,
        forceTensor: Optional[Tensor] = None,  # noqa: N803
        torqueTensor: Optional[Tensor] = None,  # noqa: N803
        space: CoordinateSpace = CoordinateSpace.ENV_SPACE,
    ) -> bool:
        """Apply forces and torques [bodies, 3] at the centres of mass for the next ``simulate``."""
        call = "apply_rigid_body_force_tensors"
        engine = engine_of(sim, call)
        force, torque = (_vectors(engine, x, call) for x in (forceTensor, torqueTensor))
        dynamics.apply_forces(engine, force, torque, CoordinateSpace(space))
        return True

    def apply_rigid_body_force_at_pos_tensors(
        self,
        sim: Sim,
        forceTensor: Tensor,  # noqa: N803
        posTensor: Optional[Tensor] = None,  # noqa: N803
        space: CoordinateSpace = CoordinateSpace.ENV_SPACE,
    ) -> bool:
        """Apply forces [bodies, 3] at positions [bodies, 3] for the next ``simulate``."""
        call = "apply_rigid_body_force_at_pos_tensors"
        engine = engine_of(sim, call)
        if posTensor is None:
            return self.apply_rigid_body_force_tensors(sim, forceTensor, None, space)
        force, pos = _vectors(engine, forceTensor, call), _vectors(engine, posTensor, call)
        dynamics.apply_forces_at(engine, force, pos, CoordinateSpace(space))
        return True

    # Forces of joints and sensors, Jacobians, mass matrices.

    def acquire_dof_force_tensor(self, sim: Sim) -> Tensor:
        """Return [DoFs]: the force that efforts and drives applied in the last step."""
        return Tensor(dynamics.dof_forces(engine_of(sim, "acquire_dof_force_tensor")).buffer)

    def refresh_dof_force_tensor(self, sim: Sim) -> bool:
        dynamics.dof_forces(engine_of(sim, "refresh_dof_force_tensor")).refresh()
        return True

    def acquire_force_sensor_tensor(self, sim: Sim) -> Tensor:
        """Return [sensors, 6]: force and torque at each sensor."""
        return Tensor(dynamics.force_sensors(engine_of(sim, "acquire_force_sensor_tensor")).buffer)

    def refresh_force_sensor_tensor(self, sim: Sim) -> bool:
        dynamics.force_sensors(engine_of(sim, "refresh_force_sensor_tensor")).refresh()
        return True

    def acquire_jacobian_tensor(self, sim: Sim, name: str) -> Tensor:
        """Return [environments, bodies, 6, 6 + DoFs] of a named actor: of linear, then angular velocities of the
        centres of mass, by the root's velocities and the DoFs'. A fixed base has [.., bodies - 1, 6, DoFs]."""
        return Tensor(dynamics.jacobian(engine_of(sim, "acquire_jacobian_tensor"), name).buffer)

    def refresh_jacobian_tensors(self, sim: Sim) -> bool:
        dynamics.refresh_all(engine_of(sim, "refresh_jacobian_tensors"), dynamics.Jacobian)
        return True

    def acquire_mass_matrix_tensor(self, sim: Sim, name: str) -> Tensor:
        """Return [environments, 6 + DoFs, 6 + DoFs] of a named actor; [.., DoFs, DoFs] with a fixed base."""
        return Tensor(dynamics.mass_matrix(engine_of(sim, "acquire_mass_matrix_tensor"), name).buffer)

    def refresh_mass_matrix_tensors(self, sim: Sim) -> bool:
        dynamics.refresh_all(engine_of(sim, "refresh_mass_matrix_tensors"), dynamics.MassMatrix)
        return True

    # States of one actor as arrays.

    def get_actor_dof_states(self, env: Env, actor: int, flags: int) -> np.ndarray:
        """Return an array of ``gymapi.DofState.dtype``."""
        own = actor_of(env, actor, "get_actor_dof_states")
        engine = engine_of(env.sim, "get_actor_dof_states")
        engine.refresh_dofs()
        start = env.index * engine.num_dofs + own.dof_start
        rows = engine.dof_state[start : start + len(own.asset.joints)].cpu().numpy()
        states = np.zeros(len(rows), DofState.dtype)
        if flags & _POS:
            states["pos"] = rows[:, 0]
        if flags & _VEL:
            states["vel"] = rows[:, 1]
        return states

    def set_actor_dof_states(self, env: Env, actor: int, states: np.ndarray, flags: int) -> bool:
        own = actor_of(env, actor, "set_actor_dof_states")
        engine = engine_of(env.sim, "set_actor_dof_states")
        engine.refresh_dofs()
        start = env.index * engine.num_dofs + own.dof_start
        rows = engine.dof_state[start : start + len(own.asset.joints)]
        if flags & _POS:
            rows[:, 0] = torch.from_numpy(np.ascontiguousarray(states["pos"]))
        if flags & _VEL:
            rows[:, 1] = torch.from_numpy(np.ascontiguousarray(states["vel"]))
        engine.set_dofs(engine.dof_state, torch.tensor([env.index * engine.num_actors + own.index]).to(engine.device))
        return True

    def get_actor_rigid_body_states(self, env: Env, actor: int, flags: int) -> np.ndarray:
        """Return an array of ``gymapi.RigidBodyState.dtype``; before ``prepare_sim`` that of the start."""
        own = actor_of(env, actor, "get_actor_rigid_body_states")
        rows = np.zeros((len(own.asset.bodies), 13), np.float32)
        if env.sim.engine is None:
            rows[:, :7] = own.start_poses()
        else:
            env.sim.engine.refresh_bodies()
            start = env.index * env.sim.engine.num_bodies + own.body_start
            rows[:] = env.sim.engine.body_state[start : start + len(rows)].cpu().numpy()
        if not flags & _POS:
            rows[:, :7] = 0.0
        if not flags & _VEL:
            rows[:, 7:] = 0.0
        return rows.view(RigidBodyState.dtype).reshape(-1)


class _Writer(NamedTuple):
    """How a tensor of a caller is written: its name in messages, its number of values, and the function."""

    what: str
    size: Callable[[Engine], int]
    write: Callable[[Engine, torch.Tensor, Optional[torch.Tensor]], None]  # values, and flat indices of actors or None


def _num_dofs(engine: Engine) -> int:
    return engine.num_envs * engine.num_dofs


_ROOT = _Writer("the state", lambda engine: engine.root_state.numel(), Engine.set_root)
_DOFS = _Writer("the state", lambda engine: engine.dof_state.numel(), Engine.set_dofs)
_EFFORTS = _Writer("the tensor of forces", _num_dofs, Engine.set_efforts)
_POSITIONS = _Writer("the tensor of targets", _num_dofs, lambda e, x, rows: e.set_targets(e.position_target, x, rows))
_VELOCITIES = _Writer("the tensor of targets", _num_dofs, lambda e, x, rows: e.set_targets(e.velocity_target, x, rows))


def _write(writer: _Writer, sim: Sim, values: Tensor, call: str, chosen: Optional[Tuple[Tensor, int]] = None) -> bool:
    """Write the values of all actors, or those of the chosen ones: a tensor of actors, and how many of them."""
    engine = engine_of(sim, call)
    rows = None
    if chosen is not None:
        actors, count = chosen
        rows = indices(actors, int(count), engine.num_envs * engine.num_actors, call, engine.device)
    writer.write(engine, floats(values, writer.size(engine), call, writer.what, engine.device), rows)
    return True


def _vectors(engine: Engine, tensor: Optional[Tensor], call: str) -> Optional[torch.Tensor]:
    """Return a tensor [environments, bodies, 3] of a handle, None for None."""
    if tensor is None:
        return None
    shape = (engine.num_envs, engine.num_bodies, 3)
    return floats(tensor, engine.num_envs * engine.num_bodies * 3, call, "the tensor", engine.device).view(shape)

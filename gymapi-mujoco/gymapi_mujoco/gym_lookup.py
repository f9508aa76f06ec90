"""The calls of ``Gym`` that answer with names, counts and indices."""

from __future__ import annotations

from typing import Dict, List, Sequence

from gymapi_mujoco.asset import Asset
from gymapi_mujoco.enums import DofType, IndexDomain, JointType
from gymapi_mujoco.handles import actor_of, asset_of, env_of, sim_of
from gymapi_mujoco.params import ActuatorProperties, IndexRange, Version
from gymapi_mujoco.scene import Actor, Env, Sim
from gymapi_mujoco.vectors import Vec3


def _index(names: Sequence[str], name: str) -> int:
    """Return the index of a name, -1 if there is none."""
    return names.index(name) if name in names else -1


def _in_domain(actor: Actor, index: int, domain: IndexDomain, kind: str) -> int:
    """Return the index of an actor's body or DoF among those of the actor, of the environment or of all."""
    if index < 0 or domain == IndexDomain.DOMAIN_ACTOR:
        return index
    index += actor.body_start if kind == "bodies" else actor.dof_start
    if domain == IndexDomain.DOMAIN_ENV:
        return index
    sizes = [env.num_bodies if kind == "bodies" else env.num_dofs for env in actor.env.sim.envs[: actor.env.index]]
    return index + sum(sizes)


class Lookup:
    """Part of ``Gym``; names that are not found have the index -1."""

    # Of assets.

    def get_asset_rigid_body_count(self, asset: Asset) -> int:
        return len(asset_of(asset, "get_asset_rigid_body_count").bodies)

    def get_asset_rigid_body_names(self, asset: Asset) -> List[str]:
        return list(asset_of(asset, "get_asset_rigid_body_names").body_names)

    def get_asset_rigid_body_name(self, asset: Asset, index: int) -> str:
        return asset_of(asset, "get_asset_rigid_body_name").body_names[index]

    def get_asset_rigid_body_dict(self, asset: Asset) -> Dict[str, int]:
        return {name: i for i, name in enumerate(asset_of(asset, "get_asset_rigid_body_dict").body_names)}

    def find_asset_rigid_body_index(self, asset: Asset, name: str) -> int:
        return _index(asset_of(asset, "find_asset_rigid_body_index").body_names, name)

    def get_asset_rigid_shape_count(self, asset: Asset) -> int:
        return len(asset_of(asset, "get_asset_rigid_shape_count").shapes)

    def get_asset_rigid_body_shape_indices(self, asset: Asset) -> List[IndexRange]:
        ranges = []
        owners = [body for body, _ in asset_of(asset, "get_asset_rigid_body_shape_indices").shapes]
        for i in range(len(asset.bodies)):
            part = IndexRange()
            part.start, part.count = sum(owner < i for owner in owners), owners.count(i)
            ranges.append(part)
        return ranges

    def get_asset_dof_count(self, asset: Asset) -> int:
        return len(asset_of(asset, "get_asset_dof_count").joints)

    def get_asset_dof_names(self, asset: Asset) -> List[str]:
        return list(asset_of(asset, "get_asset_dof_names").dof_names)

    def get_asset_dof_name(self, asset: Asset, index: int) -> str:
        return asset_of(asset, "get_asset_dof_name").dof_names[index]

    def get_asset_dof_dict(self, asset: Asset) -> Dict[str, int]:
        return {name: i for i, name in enumerate(asset_of(asset, "get_asset_dof_dict").dof_names)}

    def find_asset_dof_index(self, asset: Asset, name: str) -> int:
        return _index(asset_of(asset, "find_asset_dof_index").dof_names, name)

    def get_asset_dof_type(self, asset: Asset, index: int) -> DofType:
        sliding = asset_of(asset, "get_asset_dof_type").joints[index].sliding
        return DofType.DOF_TRANSLATION if sliding else DofType.DOF_ROTATION

    def get_dof_type_string(self, kind: DofType) -> str:
        return {DofType.DOF_ROTATION: "Rotation", DofType.DOF_TRANSLATION: "Translation"}.get(kind, "Invalid")

    def get_asset_joint_count(self, asset: Asset) -> int:
        return len(asset_of(asset, "get_asset_joint_count").joint_names)

    def get_asset_joint_names(self, asset: Asset) -> List[str]:
        return list(asset_of(asset, "get_asset_joint_names").joint_names)

    def get_asset_joint_name(self, asset: Asset, index: int) -> str:
        return asset_of(asset, "get_asset_joint_name").joint_names[index]

    def get_asset_joint_dict(self, asset: Asset) -> Dict[str, int]:
        return {name: i for i, name in enumerate(asset_of(asset, "get_asset_joint_dict").joint_names)}

    def get_asset_joint_type(self, asset: Asset, index: int) -> JointType:
        name = asset_of(asset, "get_asset_joint_type").joint_names[index]
        if name not in asset.dof_names:
            return JointType.JOINT_FIXED
        sliding = asset.joints[asset.dof_names.index(name)].sliding
        return JointType.JOINT_PRISMATIC if sliding else JointType.JOINT_REVOLUTE

    def get_asset_actuator_count(self, asset: Asset) -> int:
        return len(asset_of(asset, "get_asset_actuator_count").joints)

    def get_asset_actuator_joint_name(self, asset: Asset, index: int) -> str:
        return asset_of(asset, "get_asset_actuator_joint_name").dof_names[index]

    def get_asset_actuator_properties(self, asset: Asset) -> List[ActuatorProperties]:
        """Return one motor per DoF, with the effort limit of the DoF."""
        result = []
        for row in asset_of(asset, "get_asset_actuator_properties").dof_properties:
            motor = ActuatorProperties()
            motor.motor_effort = motor.upper_force_limit = float(row["effort"])
            motor.lower_force_limit = -float(row["effort"])
            motor.force_limited = bool(row["effort"] > 0)
            result.append(motor)
        return result

    def get_asset_tendon_count(self, asset: Asset) -> int:
        """Return 0: assets have no tendons here."""
        asset_of(asset, "get_asset_tendon_count")
        return 0

    get_asset_soft_body_count = get_asset_tendon_count

    # Of actors.

    def get_actor_count(self, env: Env) -> int:
        return len(env_of(env, "get_actor_count").actors)

    def get_actor_handle(self, env: Env, index: int) -> int:
        return actor_of(env, index, "get_actor_handle").index

    def get_actor_name(self, env: Env, actor: int) -> str:
        return actor_of(env, actor, "get_actor_name").name

    def get_actor_asset(self, env: Env, actor: int) -> Asset:
        return actor_of(env, actor, "get_actor_asset").asset

    def find_actor_handle(self, env: Env, name: str) -> int:
        return _index([actor.name for actor in env_of(env, "find_actor_handle").actors], name)

    def get_actor_index(self, env: Env, actor: int, domain: IndexDomain) -> int:
        index = actor_of(env, actor, "get_actor_index").index
        before = sum(len(other.actors) for other in env.sim.envs[: env.index])
        return index + before if domain == IndexDomain.DOMAIN_SIM else index

    def find_actor_index(self, env: Env, name: str, domain: IndexDomain) -> int:
        handle = self.find_actor_handle(env, name)
        return handle if handle < 0 else self.get_actor_index(env, handle, domain)

    def get_actor_rigid_body_count(self, env: Env, actor: int) -> int:
        return len(actor_of(env, actor, "get_actor_rigid_body_count").asset.bodies)

    def get_actor_rigid_body_names(self, env: Env, actor: int) -> List[str]:
        return list(actor_of(env, actor, "get_actor_rigid_body_names").asset.body_names)

    def get_actor_rigid_body_dict(self, env: Env, actor: int) -> Dict[str, int]:
        return self.get_asset_rigid_body_dict(actor_of(env, actor, "get_actor_rigid_body_dict").asset)

    def find_actor_rigid_body_index(self, env: Env, actor: int, name: str, domain: IndexDomain) -> int:
        own = actor_of(env, actor, "find_actor_rigid_body_index")
        return _in_domain(own, _index(own.asset.body_names, name), IndexDomain(domain), "bodies")

    def find_actor_rigid_body_handle(self, env: Env, actor: int, name: str) -> int:
        """Return the index of a body in its environment."""
        return self.find_actor_rigid_body_index(env, actor, name, IndexDomain.DOMAIN_ENV)

    def get_actor_rigid_body_index(self, env: Env, actor: int, body: int, domain: IndexDomain) -> int:
        return _in_domain(actor_of(env, actor, "get_actor_rigid_body_index"), body, IndexDomain(domain), "bodies")

    def get_actor_rigid_body_handle(self, env: Env, actor: int, body: int) -> int:
        return self.get_actor_rigid_body_index(env, actor, body, IndexDomain.DOMAIN_ENV)

    def get_actor_root_rigid_body_handle(self, env: Env, actor: int) -> int:
        return self.get_actor_rigid_body_handle(env, actor, 0)

    def get_actor_rigid_shape_count(self, env: Env, actor: int) -> int:
        return len(actor_of(env, actor, "get_actor_rigid_shape_count").asset.shapes)

    def get_actor_rigid_body_shape_indices(self, env: Env, actor: int) -> List[IndexRange]:
        return self.get_asset_rigid_body_shape_indices(actor_of(env, actor, "get_actor_rigid_body_shape_indices").asset)

    def get_actor_dof_count(self, env: Env, actor: int) -> int:
        return len(actor_of(env, actor, "get_actor_dof_count").asset.joints)

    def get_actor_dof_names(self, env: Env, actor: int) -> List[str]:
        return list(actor_of(env, actor, "get_actor_dof_names").asset.dof_names)

    def get_actor_dof_dict(self, env: Env, actor: int) -> Dict[str, int]:
        return self.get_asset_dof_dict(actor_of(env, actor, "get_actor_dof_dict").asset)

    def find_actor_dof_index(self, env: Env, actor: int, name: str, domain: IndexDomain) -> int:
        own = actor_of(env, actor, "find_actor_dof_index")
        return _in_domain(own, _index(own.asset.dof_names, name), IndexDomain(domain), "dofs")

    def find_actor_dof_handle(self, env: Env, actor: int, name: str) -> int:
        return self.find_actor_dof_index(env, actor, name, IndexDomain.DOMAIN_ENV)

    def get_actor_dof_index(self, env: Env, actor: int, dof: int, domain: IndexDomain) -> int:
        return _in_domain(actor_of(env, actor, "get_actor_dof_index"), dof, IndexDomain(domain), "dofs")

    def get_actor_dof_handle(self, env: Env, actor: int, dof: int) -> int:
        return self.get_actor_dof_index(env, actor, dof, IndexDomain.DOMAIN_ENV)

    def get_actor_joint_count(self, env: Env, actor: int) -> int:
        return len(actor_of(env, actor, "get_actor_joint_count").asset.joint_names)

    def get_actor_joint_names(self, env: Env, actor: int) -> List[str]:
        return list(actor_of(env, actor, "get_actor_joint_names").asset.joint_names)

    def get_actor_joint_dict(self, env: Env, actor: int) -> Dict[str, int]:
        return self.get_asset_joint_dict(actor_of(env, actor, "get_actor_joint_dict").asset)

    def get_actor_actuator_count(self, env: Env, actor: int) -> int:
        return len(actor_of(env, actor, "get_actor_actuator_count").asset.joints)

    def get_actor_tendon_count(self, env: Env, actor: int) -> int:
        """Return 0: actors have no tendons here."""
        actor_of(env, actor, "get_actor_tendon_count")
        return 0

    get_actor_soft_body_count = get_actor_tendon_count

    def get_actor_force_sensor_count(self, env: Env, actor: int) -> int:
        return len(actor_of(env, actor, "get_actor_force_sensor_count").asset.sensors)

    # Of environments and the simulation.

    def get_env(self, sim: Sim, index: int) -> Env:
        return sim_of(sim, "get_env").envs[index]

    def get_env_count(self, sim: Sim) -> int:
        return len(sim_of(sim, "get_env_count").envs)

    def get_env_origin(self, env: Env) -> Vec3:
        return Vec3(*env_of(env, "get_env_origin").origin)

    def get_env_rigid_body_count(self, env: Env) -> int:
        return env_of(env, "get_env_rigid_body_count").num_bodies

    def get_env_dof_count(self, env: Env) -> int:
        return env_of(env, "get_env_dof_count").num_dofs

    def get_env_joint_count(self, env: Env) -> int:
        return sum(len(actor.asset.joint_names) for actor in env_of(env, "get_env_joint_count").actors)

    def get_sim_actor_count(self, sim: Sim) -> int:
        return sum(len(env.actors) for env in sim_of(sim, "get_sim_actor_count").envs)

    def get_sim_rigid_body_count(self, sim: Sim) -> int:
        return sum(env.num_bodies for env in sim_of(sim, "get_sim_rigid_body_count").envs)

    def get_sim_dof_count(self, sim: Sim) -> int:
        return sum(env.num_dofs for env in sim_of(sim, "get_sim_dof_count").envs)

    def get_sim_joint_count(self, sim: Sim) -> int:
        return sum(self.get_env_joint_count(env) for env in sim_of(sim, "get_sim_joint_count").envs)

    def get_sim_force_sensor_count(self, sim: Sim) -> int:
        envs = sim_of(sim, "get_sim_force_sensor_count").envs
        return sum(len(actor.asset.sensors) for env in envs for actor in env.actors)

    def get_version(self) -> Version:
        """Return 1.0, which is Preview 4's."""
        return Version()

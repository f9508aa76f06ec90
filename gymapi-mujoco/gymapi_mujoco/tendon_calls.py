"""The calls of ``gymapi.Gym`` that concern tendons. All tendons are fixed ones."""

from __future__ import annotations

import copy
from typing import List, Sequence

from gymapi_mujoco import tendons
from gymapi_mujoco.asset import Asset, Tendon
from gymapi_mujoco.handles import Env, actor_of, asset_of
from gymapi_mujoco.scene import require_count
from gymapi_mujoco.structs import TendonProperties


class TendonCalls:
    """Tendons of assets and actors; names that are not found have the index -1."""

    def get_asset_tendon_count(self, asset: Asset) -> int:
        return len(asset_of(asset, "get_asset_tendon_count").tendons)

    def get_asset_tendon_name(self, asset: Asset, tendon: int) -> str:
        return _tendon(asset_of(asset, "get_asset_tendon_name"), tendon, "get_asset_tendon_name").name

    def find_asset_tendon_index(self, asset: Asset, name: str) -> int:
        names = [tendon.name for tendon in asset_of(asset, "find_asset_tendon_index").tendons]
        return names.index(name) if name in names else -1

    def get_asset_fixed_tendon_joint_coefficients(self, asset: Asset, tendon: int) -> List[float]:
        call = "get_asset_fixed_tendon_joint_coefficients"
        return list(_tendon(asset_of(asset, call), tendon, call).coefficients)

    def get_asset_fixed_tendon_joint_name(self, asset: Asset, tendon: int, joint: int) -> str:
        call = "get_asset_fixed_tendon_joint_name"
        return _joint(_tendon(asset_of(asset, call), tendon, call), joint, call)

    def get_asset_tendon_properties(self, asset: Asset) -> List[TendonProperties]:
        """Return a copy of the properties, by tendon."""
        return copy.deepcopy(asset_of(asset, "get_asset_tendon_properties").tendon_properties)

    def set_asset_tendon_properties(self, asset: Asset, props: Sequence[TendonProperties]) -> bool:
        """Set the properties of actors that are created from now on."""
        own = asset_of(asset, "set_asset_tendon_properties")
        own.tendon_properties = _checked(own, props)
        return True

    def get_actor_tendon_count(self, env: Env, actor: int) -> int:
        return len(actor_of(env, actor, "get_actor_tendon_count").asset.tendons)

    def get_actor_tendon_name(self, env: Env, actor: int, tendon: int) -> str:
        call = "get_actor_tendon_name"
        return _tendon(actor_of(env, actor, call).asset, tendon, call).name

    def find_actor_tendon_index(self, env: Env, actor: int, name: str) -> int:
        return self.find_asset_tendon_index(actor_of(env, actor, "find_actor_tendon_index").asset, name)

    def get_actor_fixed_tendon_joint_coefficients(self, env: Env, actor: int, tendon: int) -> List[float]:
        call = "get_actor_fixed_tendon_joint_coefficients"
        return list(_tendon(actor_of(env, actor, call).asset, tendon, call).coefficients)

    def get_actor_fixed_tendon_joint_name(self, env: Env, actor: int, tendon: int, joint: int) -> str:
        call = "get_actor_fixed_tendon_joint_name"
        return _joint(_tendon(actor_of(env, actor, call).asset, tendon, call), joint, call)

    def find_actor_fixed_tendon_joint_index(self, env: Env, actor: int, tendon: int, name: str) -> int:
        call = "find_actor_fixed_tendon_joint_index"
        joints = _tendon(actor_of(env, actor, call).asset, tendon, call).joints
        return joints.index(name) if name in joints else -1

    def get_actor_tendon_properties(self, env: Env, actor: int) -> List[TendonProperties]:
        """Return a copy of the properties, by tendon."""
        return copy.deepcopy(actor_of(env, actor, "get_actor_tendon_properties").tendon_properties)

    def set_actor_tendon_properties(self, env: Env, actor: int, props: Sequence[TendonProperties]) -> bool:
        """Set the properties of one actor, before ``prepare_sim`` or after it."""
        own = actor_of(env, actor, "set_actor_tendon_properties")
        own.tendon_properties = _checked(own.asset, props)
        if env.sim.engine is not None:
            env.sim.engine.write_tendons(env.index, own)
        return True


def _checked(asset: Asset, props: Sequence[TendonProperties]) -> List[TendonProperties]:
    require_count(props, len(asset.tendons), "tendon", asset.name)
    for tendon, own in zip(asset.tendons, props):
        tendons.check(own, tendon.name)
    return copy.deepcopy(list(props))


def _tendon(asset: Asset, index: int, call: str) -> Tendon:
    if not 0 <= index < len(asset.tendons):
        raise IndexError(f"{call}: tendon {index}; '{asset.name}' has {len(asset.tendons)} tendons")
    return asset.tendons[index]


def _joint(tendon: Tendon, index: int, call: str) -> str:
    if not 0 <= index < len(tendon.joints):
        raise IndexError(f"{call}: joint {index}; the tendon '{tendon.name}' has {len(tendon.joints)} joints")
    return tendon.joints[index]

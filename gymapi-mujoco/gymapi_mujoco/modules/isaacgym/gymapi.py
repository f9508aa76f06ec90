"""Classes, constants and the entry point of the interface."""

from typing import Any

from gymapi_mujoco import enums as _enums
from gymapi_mujoco.asset import Asset
from gymapi_mujoco.enums import *  # noqa: F403
from gymapi_mujoco.gym import Gym
from gymapi_mujoco.handles import Env, Sim
from gymapi_mujoco.structs import (
    ActuatorProperties,
    AssetOptions,
    AttractorProperties,
    CameraProperties,
    DofFrame,
    DofState,
    FlexParams,
    ForceSensorProperties,
    HeightFieldParams,
    IndexRange,
    Int2,
    Mat33,
    Mat44,
    PhysXParams,
    PlaneParams,
    Quat,
    RigidBodyProperties,
    RigidBodyState,
    RigidShapeProperties,
    SimParams,
    TendonProperties,
    Transform,
    TriangleMeshParams,
    Vec2,
    Vec3,
    Velocity,
    Version,
    VhacdParams,
)
from gymapi_mujoco.tensors import Tensor
from gymapi_mujoco.viewer import ActionEvent, Viewer

HeightFieldProperties = HeightFieldParams  # its name in earlier releases

__all__ = [
    "ActionEvent",
    "ActuatorProperties",
    "Asset",
    "AssetOptions",
    "AttractorProperties",
    "CameraProperties",
    "DofFrame",
    "DofState",
    "Env",
    "FlexParams",
    "ForceSensorProperties",
    "Gym",
    "HeightFieldParams",
    "HeightFieldProperties",
    "IndexRange",
    "Int2",
    "Mat33",
    "Mat44",
    "PhysXParams",
    "PlaneParams",
    "Quat",
    "RigidBodyProperties",
    "RigidBodyState",
    "RigidShapeProperties",
    "Sim",
    "SimParams",
    "TendonProperties",
    "Tensor",
    "Transform",
    "TriangleMeshParams",
    "Vec2",
    "Vec3",
    "Velocity",
    "Version",
    "VhacdParams",
    "Viewer",
    "acquire_gym",
    *(kind.__name__ for kind in _enums.ENUMERATIONS),
    *_enums.module_constants(),
]

globals().update(_enums.module_constants())

_gym = Gym()


def acquire_gym(*args: Any, **kwargs: Any) -> Gym:
    """Return the interface, of which a process has one."""
    return _gym


def __getattr__(name: str) -> Any:
    raise AttributeError(f"gymapi.{name} is not provided by gymapi-mujoco")

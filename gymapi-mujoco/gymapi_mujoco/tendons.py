"""Fixed tendons: lengths that are sums of joint positions, with a spring, a damper and limits.

PhysX applies the force of a tendon to each joint times 1 / coefficient of the joint; MuJoCo applies it times the
coefficient. Stiffness, damping and stiffness of the limits are passed on divided by the squared geometric mean of the
coefficients, so that both agree where the coefficients are of one size.
"""

# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

from typing import List

import mujoco
import numpy as np
import torch

from gymapi_mujoco.asset import Tendon
from gymapi_mujoco.contacts import spring
from gymapi_mujoco.structs import AssetOptions, TendonProperties
from gymapi_mujoco.worlds import Worlds

_FAR = 1e9
"""Limits of a tendon without limits."""


def read_tendons(model: mujoco.MjModel) -> List[Tendon]:
    """Return the tendons of the model of an MJCF file."""
    found = []
    for i in range(model.ntendon):
        wraps = range(model.tendon_adr[i], model.tendon_adr[i] + model.tendon_num[i])
        joints = [model.joint(int(model.wrap_objid[k])).name for k in wraps]
        found.append(Tendon(model.tendon(i).name, joints, [float(model.wrap_prm[k]) for k in wraps]))
    return found


def read_properties(model: mujoco.MjModel, options: AssetOptions) -> List[TendonProperties]:
    """Return the properties of these tendons; the stiffness of limits is that of the options."""
    result = []
    for i in range(model.ntendon):
        props = TendonProperties()
        props.stiffness, props.damping = float(model.tendon_stiffness[i]), float(model.tendon_damping[i])
        props.fixed_spring_rest_length = float(model.tendon_lengthspring[i].mean())
        props.is_fixed_limited = bool(model.tendon_limited[i])
        props.fixed_lower_limit, props.fixed_upper_limit = model.tendon_range[i].tolist()
        props.limit_stiffness = options.tendon_limit_stiffness
        result.append(props)
    return result


def add_tendons(spec: mujoco.MjSpec, actor: int, tendons: List[Tendon]) -> None:
    """Add the tendons of an actor; ``Tendons`` writes their properties."""
    for tendon in tendons:
        added = spec.add_tendon(name=f"{actor}/{tendon.name}")
        added.limited, added.range = True, [-_FAR, _FAR]
        for joint, coefficient in zip(tendon.joints, tendon.coefficients):
            added.wrap_joint(f"{actor}/{joint}", coefficient)


def check(props: TendonProperties, name: str) -> None:
    """Refuse properties that are not numbers or negative."""
    for field in ("stiffness", "damping", "limit_stiffness"):
        value = getattr(props, field)
        if not 0 <= value < np.inf:
            raise ValueError(f"tendon '{name}' has {field} {value:g}; give zero or more")
    if props.is_fixed_limited and not props.fixed_lower_limit <= props.fixed_upper_limit:
        raise ValueError(
            f"tendon '{name}' has the limits {props.fixed_lower_limit:g} and {props.fixed_upper_limit:g}; "
            "give a lower one that is not above the upper one"
        )


_FIELDS = ("stiffness", "damping", "lengthspring", "range", "solref_lim", "solimp_lim")


class Tendons:
    """The tendons of all environments in the model."""

    def __init__(self, worlds: Worlds):
        self._worlds = worlds
        if worlds.model.ntendon:
            self._own = {name: worlds.field(f"tendon_{name}") for name in _FIELDS}

    def write(self, env: int, index: int, tendon: Tendon, props: TendonProperties) -> None:
        """Take over the properties of a tendon, by its index in the environment."""
        own, model = self._own, self._worlds.model
        scale, mobility = tendon.squared_coefficient, float(model.tendon_invweight0[index])
        own["stiffness"][env, index], own["damping"][env, index] = props.stiffness / scale, props.damping / scale
        own["lengthspring"][env, index] = props.fixed_spring_rest_length
        limited = props.is_fixed_limited and props.limit_stiffness > 0
        limits = (props.fixed_lower_limit, props.fixed_upper_limit) if limited else (-_FAR, _FAR)
        own["range"][env, index] = torch.tensor(limits).to(own["range"])
        # The damping acts at all lengths, so the limits have a spring only.
        solref, impedance = spring(props.limit_stiffness / scale * mobility, 0.0, model.opt.timestep)
        own["solref_lim"][env, index] = torch.tensor(solref).to(own["solref_lim"])
        own["solimp_lim"][env, index, :2] = impedance

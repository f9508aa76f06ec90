"""Random changes of properties, as clients of IsaacGymEnvs' kind describe them by dictionaries.

A description has ``range`` (two numbers: the limits, or mean and variance of a Gaussian), ``operation`` (``additive``
or ``scaling``), ``distribution`` (``uniform``, ``loguniform`` or ``gaussian``), and optionally ``num_buckets`` (draw
one of so many evenly spaced values) and ``schedule`` with ``schedule_steps``: ``linear`` lets the change grow over so
many steps, ``constant`` begins it after them.
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, Mapping, Optional, Sequence

import numpy as np

from gymapi_mujoco.structs import Vec3

OPERATIONS = ("additive", "scaling")
DISTRIBUTIONS = ("uniform", "loguniform", "gaussian")
SCHEDULES = ("linear", "constant")


def generate_random_samples(
    attr_randomization_params: Mapping[str, Any], shape: Any, curr_gym_step_count: int, extern_sample: Any = None
) -> Any:
    """Draw what is to be added or multiplied, or take the given sample; the schedule weakens it towards no change."""
    params = attr_randomization_params
    low, high = _range_of(params)
    kind = _choice(params, "distribution", DISTRIBUTIONS)
    if extern_sample is not None:
        sample = np.asarray(extern_sample, dtype=float).reshape(shape)
    elif kind == "gaussian":
        sample = np.random.normal(low, math.sqrt(high), shape)
    elif kind == "loguniform":
        if low <= 0:
            raise ValueError(f"distribution loguniform: the range starts at {low:g}; it must be above zero")
        sample = np.exp(np.random.uniform(math.log(low), math.log(high), shape))
    else:
        sample = np.random.uniform(low, high, shape)
    neutral = 0.0 if _choice(params, "operation", OPERATIONS) == "additive" else 1.0
    return neutral + _strength(params, curr_gym_step_count) * (sample - neutral)


def apply_random_samples(
    prop: Any,
    og_prop: Any,
    attr: str,
    attr_randomization_params: Mapping[str, Any],
    curr_gym_step_count: int,
    extern_sample: Any = None,
    bucketing_randomization_params: Optional[Mapping[str, Any]] = None,
) -> None:
    """Change one attribute of a property: a random sample is added to its original value, or multiplied with it."""
    params = attr_randomization_params
    original = og_prop[attr] if isinstance(og_prop, (np.ndarray, dict)) else getattr(og_prop, attr)
    is_vector = isinstance(original, Vec3)
    before = np.array([original.x, original.y, original.z]) if is_vector else np.asarray(original, dtype=float)
    sample = generate_random_samples(params, before.shape, curr_gym_step_count, extern_sample)
    after = before + sample if params["operation"] == "additive" else before * sample
    buckets = params.get("num_buckets", 0) or (bucketing_randomization_params or {}).get("num_buckets", 0)
    if buckets and _choice(params, "distribution", DISTRIBUTIONS) != "gaussian":
        after = _nearest(after, before, params, int(buckets))
    if isinstance(prop, (np.ndarray, dict)):
        prop[attr] = after
    elif is_vector:
        setattr(prop, attr, Vec3(*after.tolist()))
    else:
        setattr(prop, attr, type(original)(after.item()) if isinstance(original, (int, float)) else after)


def check_buckets(gym: Any, envs: Sequence[Any], dr_params: Mapping[str, Any]) -> None:
    """Check the descriptions of all actors. PhysX limits the number of materials; this engine has no such limit."""
    for properties in dr_params.get("actor_params", {}).values():
        for attributes in properties.values():
            for params in attributes.values() if isinstance(attributes, Mapping) else ():
                buckets = int(params.get("num_buckets", 0)) if isinstance(params, Mapping) else 0
                if buckets < 0:
                    raise ValueError(f"num_buckets is {buckets}; give a number above zero, or leave it out")


def get_property_getter_map(gym: Any) -> Dict[str, Any]:
    """Return the calls that read an actor's properties, by the names of the properties."""
    return {
        "dof_properties": gym.get_actor_dof_properties,
        "rigid_body_properties": gym.get_actor_rigid_body_properties,
        "rigid_shape_properties": gym.get_actor_rigid_shape_properties,
    }


def get_property_setter_map(gym: Any) -> Dict[str, Any]:
    """Return the calls that write an actor's properties, by the names of the properties."""
    return {
        "dof_properties": gym.set_actor_dof_properties,
        "rigid_body_properties": gym.set_actor_rigid_body_properties,
        "rigid_shape_properties": gym.set_actor_rigid_shape_properties,
    }


def get_default_setter_args(gym: Any) -> Dict[str, List[Any]]:
    """Return the further arguments of the setters; the inertia of bodies follows their mass."""
    return {"dof_properties": [], "rigid_body_properties": [True], "rigid_shape_properties": []}


def _choice(params: Mapping[str, Any], key: str, allowed: Sequence[str]) -> str:
    value = params.get(key)
    if value not in allowed:
        raise ValueError(f"a randomization has the {key} {value!r}; it can be {', '.join(allowed)}")
    return str(value)


def _range_of(params: Mapping[str, Any]) -> Sequence[float]:
    limits = params.get("range")
    if limits is None or len(limits) != 2:
        raise ValueError(f"a randomization has the range {limits!r}; give two numbers")
    return [float(limit) for limit in limits]


def _strength(params: Mapping[str, Any], step: int) -> float:
    """Return how much of the change acts at a step, from 0 to 1."""
    if params.get("schedule") is None:
        return 1.0
    steps = float(params.get("schedule_steps", 0))
    if _choice(params, "schedule", SCHEDULES) == "constant":
        return float(step >= steps)
    return min(step / steps, 1.0) if steps > 0 else 1.0


def _nearest(after: np.ndarray, before: np.ndarray, params: Mapping[str, Any], buckets: int) -> np.ndarray:
    """Return the nearest of evenly spaced values between the smallest and the largest possible one."""
    low, high = _range_of(params)
    ends = (before + low, before + high) if params["operation"] == "additive" else (before * low, before * high)
    width = (ends[1] - ends[0]) / max(1, buckets - 1)
    steps = np.rint(np.divide(after - ends[0], width, out=np.zeros_like(after, dtype=float), where=width != 0))
    return ends[0] + width * np.clip(steps, 0, max(0, buckets - 1))

"""Command line, settings and wireframes for clients."""

import argparse
import sys
from typing import Any
from xml.etree import ElementTree

import numpy as np
from gymapi_mujoco.backends import INSTALL, gpu_is_usable, warp_is_installed
from gymapi_mujoco.randomization import (  # noqa: F401
    apply_random_samples,
    check_buckets,
    generate_random_samples,
    get_default_setter_args,
    get_property_getter_map,
    get_property_setter_map,
)

from isaacgym import gymapi


def parse_device_str(device_str):
    """Return type and number of a device: "cuda:1" is ("cuda", 1)."""
    kind, _, number = str(device_str).partition(":")
    if kind == "gpu":
        kind = "cuda"
    if kind not in ("cpu", "cuda") or (number and not number.isdecimal()):
        raise ValueError(f"device '{device_str}': give cpu, cuda or cuda:<number>")
    return kind, int(number or 0)


def _indent_xml(elem, level=0):
    """Indent the elements of an XML tree, in place."""
    ElementTree.indent(elem, level=level)


def parse_bool(value):
    return str(value).lower() in ("1", "true", "yes", "on")


def parse_arguments(description="Isaac Gym Example", headless=False, no_graphics=False, custom_parameters=None):
    """Parse the command line of an example: devices, physics engine, threads, and a client's own parameters.

    The simulation is on a GPU where torch has CUDA and MuJoCo Warp is installed; elsewhere its devices become ``cpu``,
    and one line says so. Devices in the client's own parameters (``--rl_device``) become ``cpu`` where torch has no
    CUDA.
    """
    gpu = gpu_is_usable()
    parser = argparse.ArgumentParser(description=description)
    if headless:
        parser.add_argument("--headless", action="store_true", help="Run without a window")
    if no_graphics:
        parser.add_argument("--nographics", action="store_true", help="Run without a window and without cameras")
    parser.add_argument("--sim_device", type=str, default="cuda:0" if gpu else "cpu", help="Device of the simulation")
    parser.add_argument("--pipeline", type=str, default="gpu" if gpu else "cpu", help="Where tensors are: cpu or gpu")
    parser.add_argument("--graphics_device_id", type=int, default=0, help="Device that draws")
    engine = parser.add_mutually_exclusive_group()
    engine.add_argument("--flex", action="store_true", help="Not provided")
    engine.add_argument("--physx", action="store_true", help="The default; MuJoCo takes PhysX's place")
    parser.add_argument("--num_threads", type=int, default=0, help="Largest number of threads of the simulation")
    parser.add_argument("--subscenes", type=int, default=0, help="Not used")
    parser.add_argument("--slices", type=int, default=0, help="Not used")
    for own in custom_parameters or []:
        _add(parser, own)
    args = parser.parse_args()
    _replace_devices(args, {own["name"].lstrip("-") for own in custom_parameters or [] if "name" in own}, gpu)
    args.sim_device_type, args.compute_device_id = parse_device_str(args.sim_device)
    args.use_gpu = args.sim_device_type == "cuda"
    args.use_gpu_pipeline = args.use_gpu and str(args.pipeline).lower() in ("gpu", "cuda")
    args.device, args.device_id = args.sim_device_type, args.compute_device_id
    args.physics_engine = gymapi.SIM_FLEX if args.flex else gymapi.SIM_PHYSX
    args.slices = args.slices or args.subscenes
    if getattr(args, "nographics", False):
        args.headless = True
    return args


def _add(parser, own):
    """Add a parameter given as a dict: name, and what ``add_argument`` takes."""
    if "name" not in own or not ({"type", "action"} & set(own)):
        raise ValueError(f"custom parameter {own}: give a name, and a type or an action")
    settings = {key: value for key, value in own.items() if key != "name"}
    if settings.get("type") is bool:
        settings["type"] = parse_bool
    parser.add_argument(own["name"], **settings)


def _replace_devices(args, own, gpu):
    """Use the CPU where a CUDA device is not there, or not for the simulation, and print what was replaced."""
    import torch

    replaced = []
    for name, value in vars(args).items():
        if not isinstance(value, str) or not value.startswith(("cuda", "gpu")):
            continue
        if (name in ("sim_device", "pipeline") and not gpu) or (name in own and not torch.cuda.is_available()):
            setattr(args, name, "cpu")
            replaced.append(f"{name}={value}")
    if replaced:
        missing = torch.cuda.is_available() and not warp_is_installed()
        hint = f"; for a simulation on a GPU {INSTALL}" if missing else ""
        print(f"isaacgym: cpu instead of {', '.join(replaced)}{hint}", file=sys.stderr)


def parse_sim_config(config, sim_params):
    """Write a dictionary of settings to ``SimParams``; ``physx`` and ``flex`` are dictionaries of their own."""
    for name, value in config.items():
        if name in ("physx", "flex"):
            parse_sim_config(value, getattr(sim_params, name))
        elif name == "gravity":
            sim_params.gravity = gymapi.Vec3(*value)
        elif name == "up_axis" and isinstance(value, str):
            sim_params.up_axis = gymapi.UP_AXIS_Z if value.lower().endswith("z") else gymapi.UP_AXIS_Y
        elif hasattr(sim_params, name):
            setattr(sim_params, name, value)
        else:
            print(f"isaacgym: setting '{name}' is not known and is left out", file=sys.stderr)


class LineGeometry:
    """Lines to draw: ``vertices()`` are the ends [lines, 2] of ``Vec3.dtype``, ``colors()`` [lines]."""

    def vertices(self):
        raise NotImplementedError

    def colors(self):
        raise NotImplementedError

    def num_lines(self):
        return len(self.colors())

    def instance_verts(self, pose=None):
        """Return the vertices, transformed by a pose."""
        return self.vertices() if pose is None else pose.transform_points(self.vertices())


def _packed(rows):
    """Return an array [..., 3] as one of ``Vec3.dtype`` [...]."""
    rows = np.asarray(rows, dtype=np.float32)
    out: Any = np.empty(rows.shape[:-1], gymapi.Vec3.dtype)
    for i, name in enumerate("xyz"):
        out[name] = rows[..., i]
    return out


class _Lines(LineGeometry):
    def _set(self, ends, colors, pose):
        ends = _packed(np.asarray(ends, dtype=np.float32).reshape(-1, 2, 3))
        self.verts = ends if pose is None else pose.transform_points(ends)
        self._colors = _packed(np.broadcast_to(np.asarray(colors, dtype=np.float32), (len(ends), 3)))

    def vertices(self):
        return self.verts

    def colors(self):
        return self._colors


class AxesGeometry(_Lines):
    """Axes x, y, z in red, green and blue."""

    def __init__(self, scale=1.0, pose=None):
        ends = np.stack([np.zeros((3, 3)), scale * np.eye(3)], axis=1)
        self._set(ends, np.eye(3), pose)


class WireframeBoxGeometry(_Lines):
    def __init__(self, xdim=1, ydim=1, zdim=1, pose=None, color=None):
        half = np.array([xdim, ydim, zdim]) / 2
        self._set(_box(-half, half), color or (1, 0, 0), pose)


class WireframeBBoxGeometry(_Lines):
    """A box between two corners, [2, 3]."""

    def __init__(self, bbox, pose=None, color=None):
        self._set(_box(*np.asarray(bbox, dtype=float)), color or (1, 0, 0), pose)


def _box(low, high):
    """Return the twelve edges [12, 2, 3] between two corners."""
    corners = [(i, j, k) for i in (0, 1) for j in (0, 1) for k in (0, 1)]
    pairs = [(a, b) for a in corners for b in corners if a < b and sum(p != q for p, q in zip(a, b)) == 1]
    return np.array([[np.where(end, high, low) for end in pair] for pair in pairs])


class WireframeSphereGeometry(_Lines):
    """Circles of longitude and latitude."""

    def __init__(self, radius=1.0, num_lats=8, num_lons=8, pose=None, color=None, color2=None):
        along = np.linspace(0, np.pi, num_lats + 1)
        around = 2 * np.pi * np.arange(num_lons + 1) / num_lons
        points = radius * np.stack(
            [
                np.sin(along)[:, None] * np.cos(around),
                np.sin(along)[:, None] * np.sin(around),
                np.cos(along)[:, None] + 0 * around,
            ],
            axis=-1,
        )
        down = np.stack([points[:-1, :-1], points[1:, :-1]], axis=2).reshape(-1, 2, 3)
        ring = np.stack([points[1:-1, :-1], points[1:-1, 1:]], axis=2).reshape(-1, 2, 3)
        first, second = color or (1, 0, 0), color2 or color or (1, 0, 0)
        colors = np.concatenate([np.tile(first, (len(down), 1)), np.tile(second, (len(ring), 1))])
        self._set(np.concatenate([down, ring]), colors, pose)


def draw_lines(geom, gym, viewer, env, pose):
    """Draw a geometry at a pose in an environment."""
    gym.add_lines(viewer, env, geom.num_lines(), geom.instance_verts(pose), geom.colors())


def draw_line(p1, p2, color, gym, viewer, env):
    """Draw a line between two points (``Vec3``)."""
    ends = _packed([[[p1.x, p1.y, p1.z], [p2.x, p2.y, p2.z]]])
    gym.add_lines(viewer, env, 1, ends, _packed([[color.x, color.y, color.z]]))

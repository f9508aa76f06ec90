"""Cameras: depth and segmentation by rays, which need no OpenGL; colour by MuJoCo's renderer.

A camera looks along x of its frame, y is to the left, z is up.
"""

# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import importlib
import math
import os
import sys
from functools import cached_property
from typing import Dict, Iterable, List, Optional, Tuple

import mujoco
import numpy as np
import torch
from mujoco.rendering.classic import gl_context

from gymapi_mujoco.engine import Engine
from gymapi_mujoco.enums import CameraFollowMode, ImageType
from gymapi_mujoco.kinematics import Kinematics
from gymapi_mujoco.rotations import identity, multiply, rotation_matrix
from gymapi_mujoco.structs import CameraProperties, Transform, Vec3, as_array, to_wxyz
from gymapi_mujoco.tensors import Tensor


class Camera:
    """A camera of one environment; its pose is in the environment, or relative to a body."""

    def __init__(self, env: int, props: CameraProperties):
        if props.width < 1 or props.height < 1 or not 0 < props.horizontal_fov < 180:
            raise ValueError(
                f"create_camera_sensor: {props.width} x {props.height} pixels with {props.horizontal_fov:g} degrees; "
                "give a positive size and a field of view between 0 and 180"
            )
        self.env, self.props = env, props
        self.pos, self.quat = np.zeros(3), identity()
        self.body: Optional[int] = None
        self.mode = CameraFollowMode.FOLLOW_TRANSFORM
        self.tensors: Dict[ImageType, Tensor] = {}

    def place(self, pos: np.ndarray, quat: np.ndarray) -> None:
        """Place the camera in its environment."""
        self.body, self.pos, self.quat = None, pos, quat / np.linalg.norm(quat)

    def attach(self, body: int, pose: Transform, mode: CameraFollowMode) -> None:
        """Let the camera follow a body of its environment."""
        self.body, self.mode = body, CameraFollowMode(mode)
        self.pos, self.quat = as_array(pose.p), to_wxyz(pose.r)

    def pose(self, kinematics: Optional[Kinematics]) -> Tuple[np.ndarray, np.ndarray]:
        """Return position and quaternion w x y z in the environment; without kinematics, before ``prepare_sim``."""
        if self.body is None or kinematics is None:
            return self.pos, self.quat
        pos, quat = (x[self.env, 1 + self.body].double().cpu().numpy() for x in kinematics.get("xpos", "xquat"))
        if self.mode == CameraFollowMode.FOLLOW_POSITION:
            return pos + self.pos, self.quat
        return pos + rotation_matrix(quat) @ self.pos, multiply(quat, self.quat)

    def directions(self) -> np.ndarray:
        """Return the ray of each pixel [height, width, 3] in the camera's frame, one metre deep."""
        width, height = self.props.width, self.props.height
        focal = 0.5 * width / math.tan(math.radians(self.props.horizontal_fov) / 2)
        across = -(np.arange(width) + 0.5 - width / 2) / focal
        down = -(np.arange(height) + 0.5 - height / 2) / focal
        rays = np.ones((height, width, 3))
        rays[..., 1], rays[..., 2] = across[None, :], down[:, None]
        return rays

    def tensor(self, kind: ImageType, device: torch.device) -> Tensor:
        """Return the tensor that ``Pictures.draw_tensors`` writes to."""
        if kind not in self.tensors:
            kinds = {ImageType.IMAGE_COLOR: torch.uint8, ImageType.IMAGE_DEPTH: torch.float32}
            shape = (self.props.height, self.props.width, *[4] * (kind == ImageType.IMAGE_COLOR))
            self.tensors[kind] = Tensor(torch.zeros(shape, dtype=kinds.get(kind, torch.int32), device=device))
        return self.tensors[kind]


class Pictures:
    """Pictures of a running simulation."""

    def __init__(self, engine: Engine):
        self.engine = engine
        self._renderers: Dict[Tuple[int, int], mujoco.Renderer] = {}  # by size

    def image(self, camera: Camera, kind: ImageType) -> np.ndarray:
        """Return a picture: colour uint8 [height, width * 4], depth float32 [height, width] in metres, negative, and
        -inf where nothing is; segmentation uint32 [height, width]."""
        if kind == ImageType.IMAGE_COLOR:
            rgb = self.color(camera.env, *camera.pose(self.engine.kinematics), camera.props)
            opaque = np.full((*rgb.shape[:2], 1), 255, np.uint8)
            return np.concatenate([rgb, opaque], axis=-1).reshape(rgb.shape[0], -1)
        if kind not in (ImageType.IMAGE_DEPTH, ImageType.IMAGE_SEGMENTATION):
            raise NotImplementedError(f"{kind.name} is not provided; IMAGE_COLOR, IMAGE_DEPTH, IMAGE_SEGMENTATION are")
        return self._cast_rays([camera], kind)[0]

    def _cast_rays(self, cameras: List[Camera], kind: ImageType) -> np.ndarray:
        """Return depth or segmentation of cameras of one size, one per environment, [cameras, height, width]."""
        engine, props = self.engine, cameras[0].props
        poses = [camera.pose(engine.kinematics) for camera in cameras]
        starts = np.stack([pos for pos, _ in poses])
        turns = rotation_matrix(np.stack([quat for _, quat in poses]))
        rays = cameras[0].directions().reshape(-1, 3) @ turns.transpose(0, 2, 1)
        lengths = np.linalg.norm(rays, axis=2)
        ids = np.array([camera.env for camera in cameras])
        points = np.repeat(starts[:, None], rays.shape[1], axis=1)
        distance, geoms = engine.worlds.ray(points, rays / lengths[..., None], ids)
        depth = distance / lengths
        missed = (distance < 0) | (depth < props.near_plane) | (depth > props.far_plane)
        shape = (len(cameras), props.height, props.width)
        if kind == ImageType.IMAGE_DEPTH:
            return np.where(missed, -np.inf, -depth).astype(np.float32).reshape(shape)
        actors = [engine.scene.actors[camera.env] for camera in cameras]
        shown = np.stack([[0, *np.concatenate([actor.segmentation for actor in own])] for own in actors])
        seen = np.take_along_axis(shown, engine.model.geom_bodyid[np.where(missed, 0, geoms)], axis=1)
        return np.where(missed, 0, seen).astype(np.uint32).reshape(shape)

    def draw_tensors(self, cameras_of_envs: Iterable[List[Camera]]) -> None:
        """Draw what cameras show into the tensors that were asked for."""
        groups: Dict[tuple, List[Camera]] = {}
        for cameras in cameras_of_envs:
            for i, camera in enumerate(cameras):
                for kind in camera.tensors:
                    props = camera.props
                    key = (i, kind, props.width, props.height, props.horizontal_fov, props.near_plane, props.far_plane)
                    groups.setdefault(key, []).append(camera)
        for (_, kind, *_), cameras in groups.items():
            if kind == ImageType.IMAGE_COLOR:
                images = np.stack([self.image(camera, kind) for camera in cameras])
            else:
                images = self._cast_rays(cameras, kind)
            for camera, image in zip(cameras, images):
                target = camera.tensors[kind].torch
                values = image.astype(np.int32) if image.dtype == np.uint32 else image
                target.copy_(torch.from_numpy(np.ascontiguousarray(values).reshape(target.shape)))

    @cached_property
    def _data(self) -> mujoco.MjData:
        return mujoco.MjData(self.engine.model)

    def color(self, env: int, pos: np.ndarray, quat: np.ndarray, props: CameraProperties) -> np.ndarray:
        """Return a colour picture [height, width, 3] uint8 of one environment from a place."""
        model = self.engine.model
        renderer = self._renderer(props.width, props.height)
        self.engine.worlds.get_data(env, self._data)
        mujoco.mj_forward(self.engine.worlds.get_model(env), self._data)
        forward = rotation_matrix(quat)[:, 0]
        camera = mujoco.MjvCamera()
        camera.type, camera.lookat, camera.distance = mujoco.mjtCamera.mjCAMERA_FREE, pos + forward, 1.0
        camera.azimuth = math.degrees(math.atan2(forward[1], forward[0]))
        camera.elevation = math.degrees(math.asin(np.clip(forward[2], -1, 1)))
        half = math.tan(math.radians(props.horizontal_fov) / 2)
        model.vis.global_.fovy = math.degrees(2 * math.atan(half * props.height / props.width))
        renderer.update_scene(self._data, camera)
        return renderer.render()

    def _renderer(self, width: int, height: int) -> mujoco.Renderer:
        key = (width, height)
        if key not in self._renderers:
            visual = self.engine.model.vis.global_
            visual.offwidth, visual.offheight = max(visual.offwidth, width), max(visual.offheight, height)
            self._renderers[key] = _new_renderer(self.engine.model, width, height)
        return self._renderers[key]


def look_at(pos: Vec3, target: Vec3) -> np.ndarray:
    """Return the quaternion w x y z of a camera that looks from a point to another, with z up."""
    x, y, z = as_array(target) - as_array(pos)
    yaw, pitch = math.atan2(y, x), -math.atan2(z, math.hypot(x, y))
    turn = np.array([math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)])
    return multiply(turn, np.array([math.cos(pitch / 2), 0.0, math.sin(pitch / 2), 0.0]))


def write_png(image: np.ndarray, path: str) -> None:
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise ModuleNotFoundError("writing pictures needs Pillow; run 'pip install pillow'") from None
    Image.fromarray(np.ascontiguousarray(image)).save(path)


def _new_renderer(model: mujoco.MjModel, width: int, height: int) -> mujoco.Renderer:
    """Return a renderer. MuJoCo chooses its OpenGL driver when it is imported, one that needs a display if MUJOCO_GL is
    not set; without a display the drivers that need none are tried here."""
    displays = any(os.environ.get(name) for name in ("MUJOCO_GL", "DISPLAY"))
    drivers = [""] if displays or not sys.platform.startswith("linux") else ["egl", "osmesa"]
    errors = []
    for driver in drivers:
        try:
            if driver:
                os.environ["PYOPENGL_PLATFORM"] = driver
                gl_context.GLContext = importlib.import_module(f"mujoco.{driver}").GLContext
            return mujoco.Renderer(model, height, width)
        except Exception as error:  # PyOpenGL raises errors of its own
            errors.append(f"{driver or os.environ.get('MUJOCO_GL', 'glfw')}: {error}")
    raise RuntimeError(
        f"a colour picture needs OpenGL, which fails here ({'; '.join(errors)}); install libegl1 or libosmesa6, or use "
        "IMAGE_DEPTH, which needs none"
    )

"""The calls of ``Gym`` that show the simulation: cameras, the viewer, lines."""

from __future__ import annotations

from typing import Any, List, Optional

import numpy as np
import torch

from gymapi_mujoco.cameras import Camera, Renderers, look_at, render_tensors, transform_of
from gymapi_mujoco.enums import CameraFollowMode, ImageType, MeshType
from gymapi_mujoco.handles import actor_of, engine_of, env_of, sim_of
from gymapi_mujoco.params import CameraProperties
from gymapi_mujoco.scene import Env, Sim
from gymapi_mujoco.tensors import Tensor
from gymapi_mujoco.vectors import Transform, Vec3, as_array, to_wxyz
from gymapi_mujoco.viewer import ActionEvent, Viewer


class Graphics:
    """Part of ``Gym``."""

    # Cameras.

    def create_camera_sensor(self, env: Env, props: Optional[CameraProperties] = None) -> int:
        """Add a camera to an environment; return its handle."""
        camera = Camera(env_of(env, "create_camera_sensor"), props or CameraProperties())
        env.cameras.append(camera)
        return len(env.cameras) - 1

    def set_camera_location(self, camera: int, env: Env, position: Vec3, target: Vec3) -> None:
        """Place a camera in the environment's frame, looking at a target."""
        _camera(env, camera, "set_camera_location").place(as_array(position), look_at(position, target))

    def set_camera_transform(self, camera: int, env: Env, pose: Transform) -> None:
        _camera(env, camera, "set_camera_transform").place(as_array(pose.p), to_wxyz(pose.r))

    def attach_camera_to_body(self, camera: int, env: Env, body: int, pose: Transform, mode: CameraFollowMode) -> None:
        _camera(env, camera, "attach_camera_to_body").attach(body, pose, mode)

    def get_camera_transform(self, sim: Sim, env: Env, camera: int) -> Transform:
        """Return the camera's pose in the world."""
        found = _camera(env, camera, "get_camera_transform")
        return transform_of(*found.pose(sim_of(sim, "get_camera_transform").engine))

    def step_graphics(self, sim: Sim) -> None:
        """Do nothing: pictures are of the present state."""
        sim_of(sim, "step_graphics")

    def render_all_camera_sensors(self, sim: Sim) -> None:
        """Draw into the tensors of ``get_camera_image_gpu_tensor``."""
        render_tensors(engine_of(sim, "render_all_camera_sensors"))

    def get_camera_image(self, sim: Sim, env: Env, camera: int, kind: ImageType) -> np.ndarray:
        """Return colour uint8 [h, w * 4], depth float32 [h, w] (negative, m), or segmentation uint32 [h, w]."""
        engine = engine_of(sim, "get_camera_image")
        return _camera(env, camera, "get_camera_image").image(engine, ImageType(kind))

    def get_camera_image_gpu_tensor(self, sim: Sim, env: Env, camera: int, kind: ImageType) -> Tensor:
        """Return a tensor that ``render_all_camera_sensors`` writes to."""
        engine = engine_of(sim, "get_camera_image_gpu_tensor")
        found, kind = _camera(env, camera, "get_camera_image_gpu_tensor"), ImageType(kind)
        if kind not in found.tensors:
            props = found.props
            kinds = {ImageType.IMAGE_COLOR: torch.uint8, ImageType.IMAGE_DEPTH: torch.float32}
            shape = (props.height, props.width, *[4] * (kind == ImageType.IMAGE_COLOR))
            found.tensors[kind] = Tensor(torch.zeros(shape, dtype=kinds.get(kind, torch.int32), device=engine.device))
        return found.tensors[kind]

    def start_access_image_tensors(self, sim: Sim) -> None:
        """Do nothing: tensors can be read at any time."""
        sim_of(sim, "start_access_image_tensors")

    def end_access_image_tensors(self, sim: Sim) -> None:
        """Do nothing."""
        sim_of(sim, "end_access_image_tensors")

    # The viewer.

    def create_viewer(self, sim: Sim, props: Optional[CameraProperties] = None) -> Viewer:
        """Return a viewer; its window opens at the first ``draw_viewer``, if there is a display."""
        viewer = Viewer(sim_of(sim, "create_viewer"), props or CameraProperties())
        sim.viewer = viewer
        return viewer

    def destroy_viewer(self, viewer: Viewer) -> None:
        _viewer(viewer, "destroy_viewer").close()

    def query_viewer_has_closed(self, viewer: Viewer) -> bool:
        return _viewer(viewer, "query_viewer_has_closed").closed

    def draw_viewer(self, viewer: Viewer, sim: Sim, render_collision: bool = False) -> None:
        """Show the collision shapes of at most 256 environments."""
        _viewer(viewer, "draw_viewer").draw()

    def poll_viewer_events(self, viewer: Viewer) -> None:
        """Do nothing: the window collects events by itself."""
        _viewer(viewer, "poll_viewer_events")

    def sync_frame_time(self, sim: Sim) -> None:
        """Wait until as much time has passed as was simulated, if there is a window."""
        viewer = sim_of(sim, "sync_frame_time").viewer
        if viewer is not None and viewer.showing:
            sim.wait_for_frame()

    def subscribe_viewer_keyboard_event(self, viewer: Viewer, key: int, action: str) -> None:
        _viewer(viewer, "subscribe_viewer_keyboard_event").actions[int(key)] = action

    def subscribe_viewer_mouse_event(self, viewer: Viewer, button: int, action: str) -> None:
        """Accept the subscription; MuJoCo's window keeps the mouse for its camera, so no event comes."""
        _viewer(viewer, "subscribe_viewer_mouse_event")

    def query_viewer_action_events(self, viewer: Viewer) -> List[ActionEvent]:
        """Return the events since the last call."""
        events, viewer.events = _viewer(viewer, "query_viewer_action_events").events, []
        return events

    def viewer_camera_look_at(self, viewer: Viewer, env: Optional[Env], position: Vec3, target: Vec3) -> None:
        """Move the viewer's camera; without an environment, positions are in the world."""
        origin = np.zeros(3) if env is None else env.origin
        index = None if env is None else env.index
        _viewer(viewer, "viewer_camera_look_at").look(index, position, target, origin)

    def get_viewer_camera_transform(self, viewer: Viewer, env: Optional[Env]) -> Transform:
        """Return the viewer's pose in an environment, or in the world."""
        own = _viewer(viewer, "get_viewer_camera_transform")
        return transform_of(own.pos - (0.0 if env is None else env.origin), own.quat)

    def write_viewer_image_to_file(self, viewer: Viewer, path: str) -> None:
        """Write a PNG file with the viewer's environment from the viewer's place; needs OpenGL and Pillow."""
        own = _viewer(viewer, "write_viewer_image_to_file")
        engine = engine_of(own.sim, "write_viewer_image_to_file")
        _write_png(Renderers.of(engine).draw(own.env, own.pos, own.quat, own.props), path)

    def write_camera_image_to_file(self, sim: Sim, env: Env, camera: int, kind: ImageType, path: str) -> None:
        """Write a colour picture as a PNG file; needs OpenGL and Pillow."""
        if kind != ImageType.IMAGE_COLOR:
            raise NotImplementedError("write_camera_image_to_file: only IMAGE_COLOR; get the others as arrays")
        image = self.get_camera_image(sim, env, camera, kind)
        _write_png(image.reshape(len(image), -1, 4)[..., :3], path)

    def clear_lines(self, viewer: Viewer) -> None:
        _viewer(viewer, "clear_lines").lines.clear()

    def add_lines(self, viewer: Viewer, env: Optional[Env], count: int, vertices: Any, colors: Any) -> None:
        """Draw lines between points [2 * count] (``Vec3.dtype`` or floats), in the environment's frame."""
        origin = np.zeros(3) if env is None else env.origin
        ends = _floats(vertices).reshape(-1, 2, 3)[:count] + origin
        _viewer(viewer, "add_lines").lines.append((ends, _floats(colors).reshape(-1, 3)[:count]))

    def set_rigid_body_color(self, env: Env, actor: int, body: int, kind: MeshType, color: Vec3) -> None:
        """Colour the shapes of a body, in the pictures of all environments."""
        own = env_of(env, "set_rigid_body_color").actor(actor)
        own.asset.colors[body] = as_array(color)

    def get_rigid_body_segmentation_id(self, env: Env, actor: int, body: int) -> int:
        return int(_segmentation(env, actor, body, "get_rigid_body_segmentation_id")[body])

    def set_rigid_body_segmentation_id(self, env: Env, actor: int, body: int, segmentation: int) -> None:
        """Set what segmentation pictures show for a body."""
        _segmentation(env, actor, body, "set_rigid_body_segmentation_id")[body] = segmentation

    def set_light_parameters(self, sim: Sim, index: int, intensity: Vec3, ambient: Vec3, direction: Vec3) -> None:
        """Accept and ignore: pictures have MuJoCo's headlight."""
        sim_of(sim, "set_light_parameters")


def _camera(env: Any, handle: int, call: str) -> Camera:
    cameras = env_of(env, call).cameras
    if not 0 <= handle < len(cameras):
        raise IndexError(f"{call}: camera {handle}; environment {env.index} has {len(cameras)} cameras")
    return cameras[handle]


def _segmentation(env: Any, actor: int, body: int, call: str) -> np.ndarray:
    own = actor_of(env, actor, call)
    if not 0 <= body < len(own.segmentation):
        raise IndexError(f"{call}: body {body}; actor '{own.name}' has {len(own.segmentation)} bodies")
    return own.segmentation


def _viewer(viewer: Any, call: str) -> Viewer:
    if not isinstance(viewer, Viewer):
        raise TypeError(f"{call}: got {type(viewer).__name__}; pass what create_viewer returned")
    return viewer


def _floats(array: Any) -> np.ndarray:
    """Return points as floats: an array of ``Vec3.dtype``, of floats, or a list of ``Vec3``."""
    if isinstance(array, (list, tuple)) and array and isinstance(array[0], Vec3):
        return np.stack([as_array(point) for point in array])
    array = np.asarray(array)
    if array.dtype.names:
        return np.stack([array[name] for name in "xyz"], axis=-1).astype(float)
    return array.astype(float)


def _write_png(image: np.ndarray, path: str) -> None:
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise ModuleNotFoundError("writing pictures needs Pillow; run 'pip install pillow'") from None
    Image.fromarray(np.ascontiguousarray(image)).save(path)

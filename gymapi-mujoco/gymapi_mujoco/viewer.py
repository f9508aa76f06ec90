"""The viewer: MuJoCo's window where there is a display, else an object that takes the calls and shows nothing."""

# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

import mujoco
import numpy as np

from gymapi_mujoco.cameras import Pictures, look_at, write_png
from gymapi_mujoco.engine import Engine
from gymapi_mujoco.enums import KeyboardInput
from gymapi_mujoco.structs import CameraProperties, Vec3, as_array

_GLFW_NAMES = {
    32: "SPACE", 39: "APOSTROPHE", 44: "COMMA", 45: "MINUS", 46: "PERIOD", 47: "SLASH", 59: "SEMICOLON", 61: "EQUAL",
    91: "LEFT_BRACKET", 92: "BACKSLASH", 93: "RIGHT_BRACKET", 96: "GRAVE_ACCENT", 256: "ESCAPE", 257: "ENTER",
    258: "TAB", 259: "BACKSPACE", 260: "INSERT", 261: "DEL", 262: "RIGHT", 263: "LEFT", 264: "DOWN", 265: "UP",
    266: "PAGE_UP", 267: "PAGE_DOWN", 268: "HOME", 269: "END",
}  # fmt: skip
"""GLFW's numbers of keys; letters and digits are their ASCII codes, F1 is 290."""

_CLOSING_TIME = 5.0
"""Longest time to wait for the window's thread [s]."""

_MOST_SHOWN = 256
"""Environments in the window; each takes time to draw."""


class ActionEvent:
    """A key that was pressed: the action that was subscribed, and its value."""

    def __init__(self, action: str = "", value: float = 0.0) -> None:
        self.action, self.value = action, value


class Viewer:
    """What ``create_viewer`` returns: a window with the bodies of at most 256 environments, and the ground of that of
    ``viewer_camera_look_at``, at first number 0."""

    def __init__(self, pictures: Callable[[], Optional[Pictures]], graphics_device: int, props: CameraProperties):
        """``pictures`` returns those of the simulation, None before ``prepare_sim``."""
        self._pictures, self._graphics_device, self.props = pictures, graphics_device, props
        self.pos, self.quat = np.array([3.0, 3.0, 2.0]), look_at(Vec3(3, 3, 2), Vec3(0, 0, 0.5))
        self.env, self.target = 0, np.array([0.0, 0.0, 0.5])
        self.actions: Dict[int, str] = {}
        self.events: List[ActionEvent] = []
        self.lines: List[Tuple[np.ndarray, np.ndarray]] = []
        self.closed = False
        self._window: Any = None
        self._threads: Set[threading.Thread] = set()
        self._data: Any = None  # of the environment with the ground
        self._other: Any = None  # of another one
        self._moved, self._told = True, False

    def look(self, env: Optional[int], pos: Vec3, target: Vec3, origin: np.ndarray) -> None:
        self.env = self.env if env is None else env
        self.pos, self.target = as_array(pos) + origin, as_array(target) + origin
        self.quat, self._moved = look_at(pos, target), True

    def press(self, key: int) -> None:
        """Take a key as GLFW numbers it."""
        name = _GLFW_NAMES.get(key) or (f"F{key - 289}" if 290 <= key <= 301 else chr(key) if 48 <= key <= 90 else "")
        number = KeyboardInput.__members__.get(f"KEY_{name}", -1)
        if int(number) in self.actions:
            self.events.append(ActionEvent(self.actions[int(number)], 1.0))

    def draw(self) -> None:
        """Show the present state, and open the window at the first call."""
        pictures = self._pictures()
        if self.closed or pictures is None or not self._open(pictures.engine):
            return
        engine = pictures.engine
        if not self._window.is_running():
            self.closed = True
            return
        engine.worlds.get_data(self.env, self._data)
        mujoco.mj_forward(engine.model, self._data)
        origin = engine.scene.origins[self.env]
        if self._moved:
            self._place_camera(origin)
        self._window.user_scn.ngeom = 0
        add_others(self._window.user_scn, engine, self.env, self._other, self._window.opt)
        self._draw_lines(origin)
        self._window.sync()

    def _open(self, engine: Engine) -> bool:
        if self._window is not None:
            return True
        if self._graphics_device < 0 or not has_display():
            if not self._told:
                print("isaacgym: there is no display, so no window is shown", file=sys.stderr)
            self._told = True
            return False
        from mujoco import viewer as window

        self._data, self._other = mujoco.MjData(engine.model), mujoco.MjData(engine.model)
        before = set(threading.enumerate())
        self._window = window.launch_passive(
            engine.model, self._data, key_callback=self.press, show_left_ui=False, show_right_ui=False
        )
        self._window.opt.sitegroup[:] = 0
        self._threads = set(threading.enumerate()) - before
        atexit.register(self.close)
        return True

    def write_image(self, path: str) -> None:
        """Write a PNG file with the viewer's environment from the viewer's place."""
        pictures = self._pictures()
        if pictures is None:
            raise RuntimeError("write_viewer_image_to_file: call prepare_sim first")
        place = self.pos - pictures.engine.scene.origins[self.env]
        write_png(pictures.color(self.env, place, self.quat, self.props), path)

    def _place_camera(self, origin: np.ndarray) -> None:
        self._moved = False
        camera, offset = self._window.cam, self.target - self.pos
        camera.lookat[:], camera.distance = self.target - origin, max(0.1, float(np.linalg.norm(offset)))
        camera.azimuth = np.degrees(np.arctan2(offset[1], offset[0]))
        camera.elevation = np.degrees(np.arcsin(offset[2] / camera.distance))

    def _draw_lines(self, origin: np.ndarray) -> None:
        scene = self._window.user_scn
        for ends, colors in self.lines:
            for (start, end), color in zip(ends, colors):
                if scene.ngeom == scene.maxgeom:
                    return
                geom = scene.geoms[scene.ngeom]
                kind, rgba = mujoco.mjtGeom.mjGEOM_LINE, np.array([*color, 1.0], dtype=np.float32)
                mujoco.mjv_initGeom(geom, kind, np.zeros(3), np.zeros(3), np.zeros(9), rgba)
                mujoco.mjv_connector(geom, kind, 2.0, start - origin, end - origin)
                scene.ngeom += 1

    @property
    def showing(self) -> bool:
        """Return whether a window is open."""
        return self._window is not None and not self.closed

    def close(self) -> None:
        """Close the window and wait for its thread: a process that ends before it crashes in GLFW."""
        if self._window is not None:
            self._window.close()
        for thread in self._threads:
            thread.join(timeout=_CLOSING_TIME)
        self.closed = True
        atexit.unregister(self.close)


def add_others(scene: Any, engine: Engine, shown: int, data: Any, option: mujoco.MjvOption) -> None:
    """Add the moving bodies of all environments but one to a scene; ``data`` is room for a state."""
    states = engine.coordinates.qpos[:_MOST_SHOWN].double().cpu().numpy()  # one copy from the device
    floating = all(own.floating for own in engine.layout.actors)
    for world, state in enumerate(states):
        if world != shown:
            model = engine.model if floating else engine.worlds.get_model(world)  # fixed bases have other places
            data.qpos[:] = state
            mujoco.mj_kinematics(model, data)
            first = scene.ngeom
            mujoco.mjv_addGeoms(model, data, option, mujoco.MjvPerturb(), mujoco.mjtCatBit.mjCAT_DYNAMIC, scene)
            for i in range(first, scene.ngeom):
                scene.geoms[i].pos += engine.scene.origins[world] - engine.scene.origins[shown]


def has_display() -> bool:
    """Return whether a window can be opened."""
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))

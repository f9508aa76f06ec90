"""Show a robot in MuJoCo's viewer, with the keyboard for its command."""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

import os
import sys
import threading
from typing import Dict, List, Optional, Sequence, Tuple, Union

import mujoco
import mujoco.viewer

from rsl_rl.utils.height_field import HeightField
from rsl_rl.utils.mujoco_model import file_to_draw, load_model
from rsl_rl.viz.frame import STEP, Choice, Command, Frame
from rsl_rl.viz.scene import add_dots, scale_of

_KEYS: Dict[int, Tuple[int, float]] = {  # GLFW key code: index in the command, and its change
    265: (0, STEP),  # up
    264: (0, -STEP),  # down
    263: (2, STEP),  # left
    262: (2, -STEP),  # right
    ord(","): (1, STEP),
    ord("."): (1, -STEP),
}
_TIMEOUT = 5.0  # for closing the window [s]
_ENTER, _SPACE, _BACKSPACE = 257, 32, 259
HELP = "arrows: forward, backward, turn; comma and full stop: left, right; Enter: stop; space: pause; backspace: reset"


class NativeViewer:
    """A window that shows one robot; closing it ends the teleoperation."""

    def __init__(
        self,
        model_path: Union[str, os.PathLike],
        ranges: Sequence[Tuple[float, float]],  # of vx, vy [m/s] and yaw rate [rad/s]
        command: Command,  # to begin with
        choice: Choice,  # for all time
        ground: Optional[HeightField] = None,  # None: that of the model
    ):
        if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            raise ValueError("--keyboard needs a display and DISPLAY is not set; take --viewer, which is a web page")
        self._model = load_model(file_to_draw(model_path), ground)
        self._data = mujoco.MjData(self._model)
        self._ranges, self._command = ranges, list(command)
        self.paused, self._reset, self.choice = False, False, choice
        others = set(threading.enumerate())
        self._window = mujoco.viewer.launch_passive(
            self._model, self._data, key_callback=self.on_key, show_left_ui=False, show_right_ui=False
        )
        self._threads = set(threading.enumerate()) - others
        camera = self._window.cam
        camera.type, camera.trackbodyid = mujoco.mjtCamera.mjCAMERA_TRACKING, int(self._model.jnt_bodyid[0])
        camera.distance, camera.elevation, camera.azimuth = 2.0 * scale_of(self._model), -16.0, 125.0

    def on_key(self, key: int) -> None:
        """Handle one key press; runs in the window's thread."""
        if key in _KEYS:
            i, change = _KEYS[key]
            low, high = self._ranges[i]
            self._command[i] = min(max(self._command[i] + change, low), high)
        elif key == _ENTER:
            self._command = [0.0] * 3
        elif key == _SPACE:
            self.paused = not self.paused
        elif key == _BACKSPACE:
            self._reset = True

    @property
    def command(self) -> Command:
        vx, vy, yaw_rate = self._command
        return vx, vy, yaw_rate

    def is_open(self) -> bool:
        return self._window.is_running()

    def wants_reset(self) -> bool:
        wanted, self._reset = self._reset, False
        return wanted

    def wanted_push(self) -> Optional[Tuple[float, float]]:
        """Return None: there is no key for a push."""

    def offer(self, checkpoints: Sequence[str]) -> None:
        """Ignore the checkpoints of the run: there is no menu."""

    def present(self, status: str, ground: Optional[HeightField]) -> None:
        """Ignore a policy that was loaded; the caller prints it."""

    def show(self, frame: Frame) -> None:
        """Show the first robot and, in the corner, commanded against measured velocity and the reward terms."""
        with self._window.lock():
            self._data.qpos[:] = frame.poses[0]
            mujoco.mj_forward(self._model, self._data)
            scene = self._window.user_scn
            if len(frame.points) and scene is not None:
                scene.ngeom = 0
                add_dots(scene, frame.points)
        names = ("forward [m/s]", "left [m/s]", "turn left [rad/s]")
        left: List[str] = ["", *names, *frame.rewards]
        right = ["commanded, measured", *(f"{c:+.2f} {v:+.2f}" for c, v in zip(self._command, frame.velocity))]
        right += [f"{value:+.3f}" for value in frame.rewards.values()]
        position = mujoco.mjtGridPos.mjGRID_TOPLEFT
        self._window.set_texts((mujoco.mjtFontScale.mjFONTSCALE_100, position, "\n".join(left), "\n".join(right)))
        self._window.sync()

    def close(self) -> None:
        """Close the window and wait for its thread, which must not draw after Python has unloaded the library."""
        self._window.close()
        for thread in self._threads:
            thread.join(timeout=_TIMEOUT)

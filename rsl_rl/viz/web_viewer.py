"""Show a robot on a web page, with sliders for its command."""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

import asyncio
import contextlib
import functools
import io
import math
import os
import string
import threading
import time
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import mujoco
import numpy as np
import trimesh
import viser

from rsl_rl.utils.height_field import HeightField
from rsl_rl.utils.mujoco_model import file_to_draw, load_model
from rsl_rl.utils.text import markdown_cell
from rsl_rl.viz.client_messages import refusal_of_message
from rsl_rl.viz.frame import ALL_LEVELS, NEWEST, STEP, Choice, Command, Frame
from rsl_rl.viz.request_guard import HOST, RequestGuard, guarded_servers, report
from rsl_rl.viz.scene import height_to_look_at, places_of, scale_of

_CAMERA = (0.9, -1.1, 0.45)  # initial position of the camera for a Go2, from where it looks [m]
_TEXT_STRIDE = 5  # frames between two updates of the text
_TIMEOUT = 5.0  # for stopping the server [s]
_GROUND_COLOR, _POINT_COLOR = (176, 168, 150), (230, 64, 26)
_MAX_VERTICES = 300_000  # of the ground, so that browsers can draw it
_COMMAND_NAMES = ("forward [m/s]", "left [m/s]", "turn left [rad/s]")
_KEYS: Dict[Any, Tuple[int, float, str]] = {  # key: index in the command, its change, and a label
    "W": (0, STEP, "faster forward"),
    "S": (0, -STEP, "slower, or backward"),
    "A": (2, STEP, "turn left"),
    "D": (2, -STEP, "turn right"),
    "Q": (1, STEP, "to the left"),
    "E": (1, -STEP, "to the right"),
}
_MAX_PUSH = 3.0  # [m/s]
_PUSH_PER_METER = 3.0  # change of velocity for each meter that the mouse drags a robot [1/s]
_OWN_GROUND, _ALL_LEVELS_LABEL = "as in training", "all"
_ARROW_LABELS = {"commanded velocity": "blue", "measured velocity": "green", "contact forces": "red"}
_ARROW_COLORS = dict(zip(_ARROW_LABELS, ((40, 90, 230), (30, 160, 60), (220, 40, 40))))
_VELOCITY_LENGTH, _FORCE_LENGTH = 0.5, 0.4  # of arrows for a Go2: of 1 m/s, and of the robot's weight [m]
_GRAVITY = 9.81  # [m/s^2]


class WebViewer:
    """A web page for any number of browsers, which share the panel.

    The first robot stays in the middle of the page, and the grid of the floor moves.
    """

    def __init__(
        self,
        model_path: Union[str, os.PathLike],
        ranges: Sequence[Tuple[float, float]],  # of vx, vy [m/s] and yaw rate [rad/s]
        command: Command,  # to begin with
        port: int,
        ground: Optional[HeightField] = None,  # None: a plane
        num_robots: int = 1,
    ):
        if not 1 <= port <= 65535:
            raise ValueError(f"--port {port}: give a number from 1 to 65535, such as 8080")
        self._model = load_model(file_to_draw(model_path))
        self._data = mujoco.MjData(self._model)
        guard = RequestGuard()
        with contextlib.redirect_stdout(io.StringIO()), guarded_servers(guard, refusal_of_message):
            self.server = viser.ViserServer(host=HOST, port=port, label="rsl_rl", verbose=False)  # prints the address
        self.server.get_event_loop().set_exception_handler(_report_task)
        self.server.gui.configure_theme(show_share_button=False)  # it opens a tunnel to the internet
        self.address = f"http://{HOST}:{self.server.get_port()}/?token={guard.token}"
        self._floor_height, self._grid, self._floor, self._points = 0.0, None, None, None
        self._terrain, self._level = None, None  # menus
        self._places = np.zeros((num_robots, 2))
        self._yaws = [0.0] * num_robots  # [rad]
        self._dragged: Optional[Tuple[float, float]] = None  # a push by the mouse, forward and left [m/s]
        self._draw_ground(ground)
        self._bodies = [self._draw_robot(i) for i in range(num_robots)]
        self._arrows = {name: self._draw_arrows(name, color) for name, color in _ARROW_COLORS.items()}
        self._build_panel(ranges, command)
        target = np.array([0.0, 0.0, height_to_look_at(self._model)])
        camera = self.server.initial_camera
        camera.position, camera.look_at = target + scale_of(self._model) * np.array(_CAMERA), target

    def _draw_ground(self, ground: Optional[HeightField]) -> None:
        """Draw a ground in place of the last one."""
        for node in (self._grid, self._floor, self._points):
            if node is not None:
                node.remove()
        scene = self.server.scene
        self._ground, self._grid, self._floor, self._points = ground, None, None, None
        if ground is None:
            self._grid = scene.add_grid("/floor", width=40.0, height=40.0, cell_size=0.25, section_size=1.0)
            self._places, self._floor_height = places_of(len(self._places)), 0.0
        else:
            vertices, faces = ground_mesh(ground)
            self._floor = scene.add_mesh_simple("/ground", vertices, faces, color=_GROUND_COLOR, flat_shading=True)
            dots = np.zeros((1, 3), dtype=np.float32)
            self._points = scene.add_point_cloud("/scan", dots, _POINT_COLOR, point_size=0.03)
            self._places = np.zeros_like(self._places)  # robots start on tiles of their own

    def _draw_robot(self, robot: int) -> Dict[int, viser.FrameHandle]:
        """Draw a robot; return the frame of each of its bodies."""
        scene, model = self.server.scene, self._model
        moving = [body for body in range(1, model.nbody) if model.body_weldid[body] != 0]
        bodies = {body: scene.add_frame(f"/robot{robot}/{body}", show_axes=False) for body in moving}
        for geom in range(model.ngeom):
            body = int(model.geom_bodyid[geom])
            if body in bodies and model.geom_group[geom] <= 2:  # 3 and up are hidden in MuJoCo's viewers too
                mesh = geom_mesh(model, geom)
                drawn = scene.add_mesh_simple(
                    f"/robot{robot}/{body}/{geom}",
                    np.asarray(mesh.vertices, dtype=np.float32),
                    np.asarray(mesh.faces, dtype=np.uint32),
                    color=_color(model, geom),
                    flat_shading=model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_BOX,
                    wxyz=model.geom_quat[geom],
                    position=model.geom_pos[geom],
                )
                drawn.on_drag("left")(functools.partial(self._drag, robot))
        return bodies

    async def _drag(self, robot: int, event: viser.SceneNodeDragEvent) -> None:
        """Request a push along the way that the mouse has dragged a robot, when it lets go."""
        if event.phase == "end":
            x, y, _ = _PUSH_PER_METER * np.subtract(event.end_position, event.start_position)
            shrinking = min(1.0, _MAX_PUSH / max(math.hypot(x, y), 1e-9))
            angle = math.atan2(y, x) - self._yaws[robot]
            speed = shrinking * math.hypot(x, y)
            self._dragged = speed * math.cos(angle), speed * math.sin(angle)

    def _draw_arrows(self, name: str, color: Tuple[int, int, int]) -> viser.ArrowsHandle:
        size = scale_of(self._model)
        return self.server.scene.add_arrows(
            f"/{name}",
            np.zeros((0, 2, 3)),
            color,
            shaft_radius=0.008 * size,
            head_radius=0.02 * size,
            head_length=0.04 * size,
        )

    def _build_panel(self, ranges: Sequence[Tuple[float, float]], command: Command) -> None:
        gui = self.server.gui
        self._status = gui.add_markdown("")
        self.sliders: List[viser.GuiInputHandle] = []
        self._limits: List[Tuple[float, float]] = []  # of the commands
        self._command = [float(start) for start in command]  # the last valid one
        for name, (low, high), start in zip(_COMMAND_NAMES, ranges, command):
            low, high = min(low, start), max(high, start)
            self._limits.append((low, high))
            fixed = low == high
            self.sliders.append(
                gui.add_slider(name, low, high + 0.05 * fixed, step=0.05, initial_value=start, disabled=fixed)
            )
        self._stop = gui.add_button("stop (all sliders to zero)")
        self._pause = gui.add_button("pause")
        self._reset = gui.add_button("reset")
        self._frame, self.paused = 0, False
        self._wants_reset, self._wants_push = threading.Event(), threading.Event()
        with gui.add_folder("push"):
            self._push_speed = gui.add_slider("change of velocity [m/s]", 0.0, _MAX_PUSH, step=0.1, initial_value=1.0)
            self._push_angle = gui.add_slider("direction [deg], 90: left", -180, 180, step=15, initial_value=90)
            push = gui.add_button("push")
        with gui.add_folder("show"):
            self._shown = {name: gui.add_checkbox(f"{name} ({label})", True) for name, label in _ARROW_LABELS.items()}
        self._text = gui.add_markdown("")
        self._stop.on_click(lambda _: self._zero())
        self._pause.on_click(lambda _: self._toggle())
        self._reset.on_click(lambda _: self._wants_reset.set())
        push.on_click(lambda _: self._wants_push.set())
        for key, (index, change, label) in _KEYS.items():
            gui.add_command(label, hotkey=key).on_trigger(functools.partial(self._change, index, change))
        gui.add_command("stop", hotkey="X").on_trigger(lambda _: self._zero())
        gui.add_command("push", hotkey="P").on_trigger(lambda _: self._wants_push.set())
        gui.add_command("reset", hotkey="R").on_trigger(lambda _: self._wants_reset.set())

    def add_menus(self, choice: Choice, terrains: Sequence[str], num_levels: int) -> None:
        """Add menus of checkpoints and, if there are ``terrains``, of grounds and levels."""
        gui, self._choice = self.server.gui, choice
        levels = [_ALL_LEVELS_LABEL, *map(str, range(num_levels))]
        with gui.add_folder("policy and ground"):
            self._checkpoint = gui.add_dropdown("checkpoint", [choice.checkpoint], initial_value=choice.checkpoint)
            if terrains:
                own = choice.terrain or _OWN_GROUND
                names = list(dict.fromkeys((_OWN_GROUND, own, *terrains)))
                self._terrain = gui.add_dropdown("ground", names, initial_value=own)
                level = _ALL_LEVELS_LABEL if choice.level == ALL_LEVELS else str(choice.level)
                self._level = gui.add_dropdown("level", levels, initial_value=level)

    def offer(self, checkpoints: Sequence[str]) -> None:
        """Set the menu of checkpoints; the chosen one stays in it."""
        chosen = self.choice.checkpoint
        self._checkpoint.options = tuple(dict.fromkeys((NEWEST, chosen, *checkpoints)))

    def present(self, status: str, ground: Optional[HeightField]) -> None:
        """Show a line on top of the panel, and another ground."""
        self._status.content = "".join(f"\\{c}" if c in string.punctuation else c for c in status)  # no markup
        if ground is not self._ground:
            self._draw_ground(ground)

    def _zero(self) -> None:
        for slider in self.sliders:
            if not slider.disabled:
                slider.value = min(max(0.0, slider.min), slider.max)

    def _change(self, index: int, change: float, _: Any) -> None:
        """Change one number of the command, within its limits; runs in a thread of the server."""
        slider, (low, high) = self.sliders[index], self._limits[index]
        if not slider.disabled:
            slider.value = round(min(max(self.command[index] + change, low), high), 6)

    def _toggle(self) -> None:
        self.paused = not self.paused
        self._pause.label = "resume" if self.paused else "pause"

    @property
    def command(self) -> Command:
        """The command of the sliders within their limits; a browser may send any value."""
        for i, (slider, (low, high)) in enumerate(zip(self.sliders, self._limits)):
            self._command[i] = _number(slider, low, high, self._command[i])
        vx, vy, yaw_rate = self._command
        return vx, vy, yaw_rate

    @property
    def choice(self) -> Choice:
        """The choice of the menus; a text that is not in a menu changes nothing."""
        checkpoint, terrain, level = self._choice
        if self._checkpoint.value in self._checkpoint.options:
            checkpoint = self._checkpoint.value
        if self._terrain is not None and self._terrain.value in self._terrain.options:
            terrain = "" if self._terrain.value == _OWN_GROUND else self._terrain.value
        if self._level is not None and self._level.value in self._level.options:
            level = ALL_LEVELS if self._level.value == _ALL_LEVELS_LABEL else int(self._level.value)
        self._choice = Choice(checkpoint, terrain, level)
        return self._choice

    def is_open(self) -> bool:
        """Return True; Ctrl-C ends the viewer."""
        return True

    def wants_reset(self) -> bool:
        return _take(self._wants_reset)

    def wanted_push(self) -> Optional[Tuple[float, float]]:
        """Return the change of velocity of a push, forward and left [m/s], if one was requested since the last call."""
        dragged, self._dragged = self._dragged, None
        if dragged is not None:
            return dragged
        if not _take(self._wants_push):
            return None
        speed = _number(self._push_speed, 0.0, _MAX_PUSH, 0.0)
        angle = math.radians(_number(self._push_angle, -180.0, 180.0, 0.0))
        return speed * math.cos(angle), speed * math.sin(angle)

    def show(self, frame: Frame) -> None:
        """Show a moment."""
        root = frame.poses[0]
        if len(frame.points):  # follow the height of the ground slowly
            self._floor_height += 0.1 * (float(frame.points[:, 2].mean()) - self._floor_height)
        here = np.array([root[0], root[1], self._floor_height])
        self._yaws = [_yaw(pose) for pose in frame.poses]
        with self.server.atomic():
            if self._grid is not None:
                self._grid.position = -(here % 1.0)
            elif self._floor is not None and self._points is not None:
                self._floor.position = -here
                self._points.points = (frame.points - here).astype(np.float32)
            for pose, place, bodies in zip(frame.poses, self._places, self._bodies):
                self._data.qpos[:] = pose
                mujoco.mj_kinematics(self._model, self._data)
                for body, node in bodies.items():
                    node.position = self._data.xpos[body] - here + (*place, 0.0)
                    node.wxyz = self._data.xquat[body]
            for name, arrows in arrows_of(frame, self.command, self._model).items():
                shown = arrows if self._shown[name].value else arrows[:0]
                self._arrows[name].points = (shown - here).astype(np.float32)
        if self._frame % _TEXT_STRIDE == 0:
            self._text.content = _text(self.command, frame.velocity, here, frame.rewards)
        self._frame += 1

    def close(self) -> None:
        """Stop the server and its event loop; viser leaves the loop open with pending tasks."""
        loop, end = self.server.get_event_loop(), time.monotonic() + _TIMEOUT
        with contextlib.redirect_stdout(io.StringIO()):
            self.server.stop()
        while loop.is_running() and time.monotonic() < end:
            time.sleep(0.01)
        if loop.is_running() or loop.is_closed():
            return
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks))
        loop.close()


def arrows_of(frame: Frame, command: Command, model: mujoco.MjModel) -> Dict[str, np.ndarray]:
    """Return starts and ends of the arrows of the first robot by name, [arrows, 2, 3] in world coordinates [m].

    Velocities are above the trunk and forces at the feet; what is almost zero has no arrow.
    """
    root, size = frame.poses[0], scale_of(model)
    yaw = _yaw(root)
    weight = _GRAVITY * float(model.body_mass.sum())
    arrows = {}
    for (name, (vx, vy, _)), height in zip(zip(_ARROW_LABELS, (command, frame.velocity)), (0.3, 0.25)):
        start = root[:3] + np.array([0.0, 0.0, height * size])
        turned = np.array([vx * math.cos(yaw) - vy * math.sin(yaw), vx * math.sin(yaw) + vy * math.cos(yaw), 0.0])
        arrows[name] = _without_short(start[None], _VELOCITY_LENGTH * size * turned[None])
    arrows["contact forces"] = _without_short(frame.feet, _FORCE_LENGTH * size / weight * frame.forces)
    return arrows


def _yaw(pose: np.ndarray) -> float:
    """Return the heading of a robot [rad] from its position and orientation (w x y z), the first seven of [nq]."""
    w, x, y, z = pose[3:7]
    return math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))


def _without_short(starts: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Return arrows [arrows, 2, 3] of vectors [K, 3] that are longer than 1 cm."""
    arrows = np.stack((starts, starts + vectors), axis=1)
    return arrows[np.linalg.norm(vectors, axis=1) > 0.01]


def _number(slider: viser.GuiInputHandle, low: float, high: float, otherwise: float) -> float:
    """Return the value of a slider within limits; a browser may send any value."""
    value = slider.value
    valid = isinstance(value, (int, float)) and math.isfinite(value)
    return min(max(float(value), low), high) if valid else otherwise


def _take(event: threading.Event) -> bool:
    """Return whether an event was set, and clear it."""
    was_set = event.is_set()
    event.clear()
    return was_set


def _report_task(loop: asyncio.AbstractEventLoop, context: Dict[str, Any]) -> None:
    """Report an error of a task of the server, such as a text for a slider, in one line."""
    report(repr(context.get("exception", context["message"])))


def ground_mesh(ground: HeightField) -> Tuple[np.ndarray, np.ndarray]:
    """Return vertices [V, 3] in world coordinates and triangles [T, 3] of a height field, with fewer points if it is
    large."""
    stride = 1 + int(math.sqrt(ground.heights.size / _MAX_VERTICES))
    heights = ground.heights[::stride, ::stride]
    nx, ny = heights.shape
    step = stride * ground.cell
    x, y = (first + step * np.arange(count) for first, count in zip(ground.origin, (nx, ny)))
    vertices = np.stack((*np.meshgrid(x, y, indexing="ij"), heights), axis=-1).reshape(-1, 3)
    corner = (np.arange(nx - 1)[:, None] * ny + np.arange(ny - 1)).ravel()
    opposite = corner + ny + 1
    faces = np.concatenate(
        [np.stack(t, axis=1) for t in ((corner, corner + ny, opposite), (corner, opposite, corner + 1))]
    )
    return vertices.astype(np.float32), faces.astype(np.uint32)


def _text(command: Sequence[float], velocity: Sequence[float], here: np.ndarray, rewards: Mapping[str, float]) -> str:
    rows = [f"| {n} | {c:+.2f} | {v:+.2f} |" for n, c, v in zip(_COMMAND_NAMES, command, velocity)]
    terms = [f"| {markdown_cell(name)} | {value:+.3f} |" for name, value in rewards.items()]
    terms.append(f"| **sum** | **{sum(rewards.values()):+.3f}** |")
    position = f"at x {here[0]:+.2f} m, y {here[1]:+.2f} m"
    head, body = ("| | commanded | measured |", "|---|---|---|"), ("| reward term | per second |", "|---|---|")
    return "\n".join((*head, *rows, "", position, "", *body, *terms))


def geom_mesh(model: mujoco.MjModel, geom: int) -> trimesh.Trimesh:
    """Return the surface of a geom of a MuJoCo model in the geom's frame; an unknown type becomes a small sphere."""
    kind, size, shapes = model.geom_type[geom], model.geom_size[geom], mujoco.mjtGeom
    if kind == shapes.mjGEOM_BOX:
        return trimesh.creation.box(extents=2 * size)
    if kind == shapes.mjGEOM_CAPSULE:
        capsule = trimesh.creation.capsule(height=2 * size[1], radius=size[0], count=[16, 16])
        return capsule.apply_translation(-capsule.bounds.mean(axis=0))  # trimesh's origin differs between versions
    if kind == shapes.mjGEOM_CYLINDER:
        return trimesh.creation.cylinder(radius=size[0], height=2 * size[1], sections=24)
    if kind == shapes.mjGEOM_MESH:
        mesh = model.geom_dataid[geom]
        vertices = model.mesh_vert[model.mesh_vertadr[mesh] :][: model.mesh_vertnum[mesh]]
        faces = model.mesh_face[model.mesh_faceadr[mesh] :][: model.mesh_facenum[mesh]]
        return trimesh.Trimesh(vertices, faces, process=False)
    ball = trimesh.creation.icosphere(subdivisions=2, radius=1.0)
    if kind == shapes.mjGEOM_ELLIPSOID:
        ball.apply_scale(size)
    else:
        ball.apply_scale(size[0] if kind == shapes.mjGEOM_SPHERE else 0.01)
    return ball


def _color(model: mujoco.MjModel, geom: int) -> Tuple[int, int, int]:
    material = model.geom_matid[geom]
    rgba = model.mat_rgba[material] if material >= 0 else model.geom_rgba[geom]
    red, green, blue = (int(255 * value) for value in rgba[:3])
    return red, green, blue

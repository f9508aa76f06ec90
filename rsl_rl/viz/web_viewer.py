"""Show a robot on a web page, with sliders for its command."""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

import asyncio
import contextlib
import io
import math
import os
import threading
import time
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import mujoco
import numpy as np
import trimesh
import viser

from rsl_rl.utils.height_field import HeightField
from rsl_rl.viz.client_messages import refusal_of_message
from rsl_rl.viz.request_guard import HOST, RequestGuard, guarded_servers, report
from rsl_rl.viz.scene import height_to_look_at, scale_of

_CAMERA = (0.9, -1.1, 0.45)  # initial position of the camera for a Go2, from where it looks [m]
_TEXT_STRIDE = 5  # frames between two updates of the text
_TIMEOUT = 5.0  # for stopping the server [s]
_GROUND_COLOR, _POINT_COLOR = (176, 168, 150), (230, 64, 26)
_MAX_VERTICES = 300_000  # of the ground, so that browsers can draw it
_COMMAND_NAMES = ("forward [m/s]", "left [m/s]", "turn left [rad/s]")


class WebViewer:
    """A web page for any number of browsers, which share the sliders.

    The robot stays in the middle of the page, and the grid of the floor moves.
    """

    def __init__(
        self,
        model_path: Union[str, os.PathLike],
        ranges: Sequence[Tuple[float, float]],  # of vx, vy [m/s] and yaw rate [rad/s]
        command: Sequence[float],  # to begin with
        port: int,
        ground: Optional[HeightField] = None,  # None: a plane
    ):
        if not 1 <= port <= 65535:
            raise ValueError(f"--port {port}: give a number from 1 to 65535, such as 8080")
        self._model = mujoco.MjModel.from_xml_path(str(model_path))
        self._data = mujoco.MjData(self._model)
        guard = RequestGuard()
        with contextlib.redirect_stdout(io.StringIO()), guarded_servers(guard, refusal_of_message):
            self.server = viser.ViserServer(host=HOST, port=port, label="rsl_rl", verbose=False)  # prints the address
        self.server.get_event_loop().set_exception_handler(_report_task)
        self.server.gui.configure_theme(show_share_button=False)  # it opens a tunnel to the internet
        self.address = f"http://{HOST}:{self.server.get_port()}/?token={guard.token}"
        self._ground, self._floor_height = ground, 0.0
        self._draw_scene()
        self._build_panel(ranges, command)
        target = np.array([0.0, 0.0, height_to_look_at(self._model)])
        camera = self.server.initial_camera
        camera.position, camera.look_at = target + scale_of(self._model) * np.array(_CAMERA), target

    def _draw_scene(self) -> None:
        scene, model = self.server.scene, self._model
        self._grid = self._points = None
        if self._ground is None:
            self._grid = scene.add_grid("/floor", width=40.0, height=40.0, cell_size=0.25, section_size=1.0)
        else:
            vertices, faces = ground_mesh(self._ground)
            self._floor = scene.add_mesh_simple("/floor", vertices, faces, color=_GROUND_COLOR, flat_shading=True)
            dots = np.zeros((1, 3), dtype=np.float32)
            self._points = scene.add_point_cloud("/scan", dots, _POINT_COLOR, point_size=0.03)
        moving = [body for body in range(1, model.nbody) if model.body_weldid[body] != 0]
        self._bodies = {body: scene.add_frame(f"/robot/{body}", show_axes=False) for body in moving}
        for geom in range(model.ngeom):
            body = int(model.geom_bodyid[geom])
            if body in self._bodies and model.geom_group[geom] <= 2:  # 3 and up are hidden in MuJoCo's viewers too
                mesh = geom_mesh(model, geom)
                scene.add_mesh_simple(
                    f"/robot/{body}/{geom}",
                    np.asarray(mesh.vertices, dtype=np.float32),
                    np.asarray(mesh.faces, dtype=np.uint32),
                    color=_color(model, geom),
                    flat_shading=model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_BOX,
                    wxyz=model.geom_quat[geom],
                    position=model.geom_pos[geom],
                )

    def _build_panel(self, ranges: Sequence[Tuple[float, float]], command: Sequence[float]) -> None:
        gui = self.server.gui
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
        self._text = gui.add_markdown("")
        self._frame, self.paused, self._wants_reset = 0, False, threading.Event()
        self._stop.on_click(lambda _: self._zero())
        self._pause.on_click(lambda _: self._toggle())
        self._reset.on_click(lambda _: self._wants_reset.set())

    def _zero(self) -> None:
        for slider in self.sliders:
            if not slider.disabled:
                slider.value = min(max(0.0, slider.min), slider.max)

    def _toggle(self) -> None:
        self.paused = not self.paused
        self._pause.label = "resume" if self.paused else "pause"

    @property
    def command(self) -> Tuple[float, float, float]:
        """The command of the sliders within their limits; a browser may send any value."""
        for i, (slider, (low, high)) in enumerate(zip(self.sliders, self._limits)):
            value = slider.value
            if isinstance(value, (int, float)) and math.isfinite(value):
                self._command[i] = min(max(float(value), low), high)
        vx, vy, yaw_rate = self._command
        return vx, vy, yaw_rate

    def is_open(self) -> bool:
        """Return True; Ctrl-C ends the viewer."""
        return True

    def wants_reset(self) -> bool:
        wanted = self._wants_reset.is_set()
        self._wants_reset.clear()
        return wanted

    def show(
        self, pose: np.ndarray, velocity: Sequence[float], rewards: Mapping[str, float], points: np.ndarray
    ) -> None:
        """Show a pose [7 + J], the measured velocity in the order of the command, reward terms by name, and points [K,
        3]."""
        self._data.qpos[:] = pose
        mujoco.mj_kinematics(self._model, self._data)
        if len(points):  # follow the height of the ground slowly
            self._floor_height += 0.1 * (float(points[:, 2].mean()) - self._floor_height)
        here = np.array([pose[0], pose[1], self._floor_height])
        with self.server.atomic():
            if self._grid is not None:
                self._grid.position = -(here % 1.0)
            elif self._points is not None:
                self._floor.position = -here
                self._points.points = (points - here).astype(np.float32)
            for body, frame in self._bodies.items():
                frame.position = self._data.xpos[body] - here
                frame.wxyz = self._data.xquat[body]
        if self._frame % _TEXT_STRIDE == 0:
            self._text.content = _text(self.command, velocity, here, rewards)
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
    terms = [f"| {name} | {value:+.3f} |" for name, value in rewards.items()]
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

"""Isaac Gym's viewer."""

# pyright: reportMissingModuleSource=false
from __future__ import annotations

from isaacgym import gymapi

from rsl_rl.sim.isaac_gym_scene import Scene


class IsaacGymViewer:
    """A window that shows a scene with a graphics device; without calls of ``draw`` it needs no time."""

    def __init__(self, scene: Scene):
        if scene.headless:
            raise ValueError("this simulation has no graphics device; make it with headless=False to open a window")
        self._gym, self._sim, self._on_gpu = scene.gym, scene.sim, scene.on_gpu
        self._viewer = self._gym.create_viewer(self._sim, gymapi.CameraProperties())
        if self._viewer is None:
            raise ValueError("Isaac Gym could not open a window; use a machine with a display, or headless=True")
        x, y, _ = scene.origins[0].tolist()
        camera, target = gymapi.Vec3(x - 2.0, y - 2.0, 1.5), gymapi.Vec3(x, y, 0.3)
        self._gym.viewer_camera_look_at(self._viewer, scene.envs[0], camera, target)

    def draw(self) -> bool:
        """Show the last step, at most in real time; return whether the window is still open."""
        if self._gym.query_viewer_has_closed(self._viewer):
            return False
        if self._on_gpu:
            self._gym.fetch_results(self._sim, True)  # the window draws from the host's copy
        self._gym.step_graphics(self._sim)
        self._gym.draw_viewer(self._viewer, self._sim, False)
        self._gym.sync_frame_time(self._sim)
        return True

    def close(self) -> None:
        self._gym.destroy_viewer(self._viewer)

"""The references of a policy that follows a motion, one for each control step.

Needs numpy, and references.npz, which the export has written beside policy.onnx.

    policy = OnnxPolicy("policy.onnx", joint_names)
    references = References("references.npz", policy, clip="trot speed=0.3")
    references.start(base_quat=quat, base_pos=pos)  # the motion begins where the robot is
    while not references.is_over:  # once in policy.control_period seconds
        targets = policy(**references.next(), base_quat=quat, base_pos=pos, base_ang_vel=..., joint_pos=..., ...)

Another source gives the same names: reference_base_pos [m] and reference_base_quat (w x y z) are where the base is to
be in the world after the control step, reference_joint_pos [rad] and reference_joint_vel [rad/s] those of the joints,
in the policy's own order and angles. If the policy reads frames ahead, joints are all of them, one after the other.
"""

from pathlib import Path
from typing import Any, Dict, Sequence, Union

import numpy as np


class References:
    """The references of a clip, for a policy with a ``description``; the first clip of the file without a name.

    At the end of a clip its last frame stays, at rest. The export writes 20 s of a loop.
    """

    def __init__(self, path: Union[str, Path], policy: Any, clip: str = ""):
        if not Path(path).is_file():
            raise FileNotFoundError(f"no file {path}; the export writes references.npz beside policy.onnx: copy it too")
        with np.load(path, allow_pickle=False) as content:
            names = [str(name) for name in content["clips"]]
            chosen = clip or names[0]
            if chosen not in names:
                raise ValueError(f"clip={clip}; {path} has {', '.join(names)}")
            self.joint_pos, self.joint_vel, self.base_pos, self.base_quat = (
                content[f"{names.index(chosen)}.{name}"] for name in ("joint_pos", "joint_vel", "base_pos", "base_quat")
            )
        self._ahead = np.array(policy.description["commands"]["motion"]["steps"])  # frames that the policy reads
        self.start()

    def __len__(self) -> int:
        return len(self.joint_pos)

    @property
    def is_over(self) -> bool:
        """Whether the last frame was given."""
        return self._step >= len(self)

    def start(self, base_quat: Sequence[float] = (), base_pos: Sequence[float] = ()) -> None:
        """Begin, with the heading and above the place of the robot's base in the world; without them as the clip has
        them. Heights are those of the clip."""
        self._step = 1  # the first control step leads from the first frame to the second one
        turn = _yaw(base_quat) - _yaw(self.base_quat[0]) if len(base_quat) else 0.0
        self._turn = np.array((np.cos(turn / 2), 0, 0, np.sin(turn / 2)), np.float32)
        self._rotation = np.array(
            ((np.cos(turn), -np.sin(turn), 0), (np.sin(turn), np.cos(turn), 0), (0, 0, 1)), np.float32
        )
        shift = np.asarray(base_pos, np.float32) - self._rotation @ self.base_pos[0] if len(base_pos) else np.zeros(3)
        self._shift = (shift * (1, 1, 0)).astype(np.float32)

    def next(self) -> Dict[str, np.ndarray]:
        """Return the references of the next control step."""
        wanted = self._step + self._ahead
        frames, is_over = np.minimum(wanted, len(self) - 1), wanted >= len(self)
        self._step += 1
        w, z = self._turn[0], self._turn[3]
        a, b, c, d = self.base_quat[frames[0]]
        return {
            "reference_joint_pos": self.joint_pos[frames].ravel(),
            "reference_joint_vel": np.where(is_over[:, None], np.float32(0), self.joint_vel[frames]).ravel(),
            "reference_base_pos": self._rotation @ self.base_pos[frames[0]] + self._shift,
            "reference_base_quat": np.array((w * a - z * d, w * b - z * c, w * c + z * b, w * d + z * a), np.float32),
        }


def _yaw(quat: Sequence[float]) -> float:
    w, x, y, z = map(float, quat)
    return float(np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)))

"""Run a policy in C on this machine: compile it, and call it with the arguments of the robot's runner."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

import numpy as np
import torch

from rsl_rl.utils.tensors import rotate_inverse

COMPILERS = ("cc", "gcc", "clang")
READINGS = {"command": 3, "base_quat": 4, "base_ang_vel": 3, "base_lin_vel": 3, "joint_pos": 0, "joint_vel": 0}
READINGS["gait_clock"] = 2
"""Sizes of the fields of policy_readings, in order; 0 for one number per joint."""
JOINT_VALUES = ("default_joint_pos", "stiffness", "damping", "torque_limits", "target_limits")
COUNTS = ("calls", "held_calls", "clipped_commands", "clamped_targets")
STATUSES = ("running", "held", "stopped", "not started")


class CPolicy:
    """A policy in C as a function from sensor readings to joint targets, with the interface of Policy in
    deploy/onnx_policy.py. A policy that stops, or cannot start, raises a ``stopped_error`` or a ValueError."""

    def __init__(
        self,
        source: Path,
        description: Mapping[str, Any],
        joint_names: Optional[Sequence[str]] = None,
        stopped_error: type = ValueError,
    ):
        self.description, self.control_period = description, float(description["control_period"])
        self.joint_names = list(description["joint_names"] if joint_names is None else joint_names)
        library, self._stopped_error = load_library(source), stopped_error
        self._memory_shapes = [shape for name, shape in description["inputs"].items() if name != "obs"]
        self._readings, self._state = _structures(description)
        self._targets = (ctypes.c_float * len(description["joint_names"]))()
        self._call = {name: getattr(library, f"{source.stem}_{name}") for name in ("init", "reset", "step", "clear")}
        self._network = getattr(library, f"{source.stem}_network")
        names = (ctypes.c_char_p * len(self.joint_names))(*(name.encode() for name in self.joint_names))
        if len(names) != len(self._targets) or not self._call["init"](ctypes.byref(self._state), names):
            raise ValueError(f"got the joints {self.joint_names}; the policy moves {description['joint_names']}")
        joint_values = (np.array(getattr(self._state, name), np.float32) for name in JOINT_VALUES)
        self.default_joint_pos, self.stiffness, self.damping, self.torque_limits, self.target_limits = joint_values

    def reset(self) -> None:
        """Start an episode."""
        self._call["reset"](ctypes.byref(self._state))

    def restarted(self) -> CPolicy:
        """Return itself at the start of an episode."""
        self.reset()
        return self

    def __call__(self, **readings: Any) -> np.ndarray:
        """Return joint targets [rad] in the order of ``joint_names``."""
        world = readings.pop("base_lin_vel_world", None)
        if world is not None:
            vectors = (torch.as_tensor(np.asarray(x, np.float32)[None]) for x in (readings["base_quat"], world))
            readings["base_lin_vel"] = rotate_inverse(*vectors)[0].numpy()
        self._call["clear"](ctypes.byref(self._readings))
        for name, value in readings.items():
            if value is not None:
                getattr(self._readings, name)[:] = np.asarray(value, np.float32).tolist()
        code = self._call["step"](ctypes.byref(self._state), ctypes.byref(self._readings), self._targets)
        status = STATUSES[code]
        if status in ("stopped", "not started"):
            raise (self._stopped_error if status == "stopped" else ValueError)(f"{status}: {self.problem}")
        return np.array(self._targets, np.float32)

    def network(self, obs: np.ndarray, *memories: np.ndarray) -> List[np.ndarray]:
        """Return actions [1, A] and the next recurrent states for obs [1, D]."""
        floats = np.concatenate(
            [np.empty(0, np.float32), *(memory.ravel() for memory in memories), np.zeros(1, np.float32)]
        )
        actions = np.empty((1, len(self._targets)), np.float32)
        self._network(*(_pointer(x) for x in (obs, floats, actions)))
        return [actions, *self._split(floats)]

    @property
    def last_action(self) -> np.ndarray:
        """The last action, in the policy's order."""
        return np.array(self._state.last_action, np.float32)

    @last_action.setter
    def last_action(self, action: np.ndarray) -> None:
        self._state.last_action[:] = action.tolist()

    @property
    def memories(self) -> Sequence[np.ndarray]:
        """The recurrent states of the network, each [L, 1, H]."""
        return self._split(np.array(self._state.memory, np.float32))

    @memories.setter
    def memories(self, memories: Sequence[np.ndarray]) -> None:
        for i, value in enumerate(np.concatenate([np.empty(0, np.float32), *map(np.ravel, memories)]).tolist()):
            self._state.memory[i] = value

    @property
    def held(self) -> int:
        """Calls in a row without usable readings."""
        return self._state.held

    @property
    def problem(self) -> str:
        """Why the last of them had none."""
        return (self._state.problem or b"").decode()

    @property
    def counts(self) -> Dict[str, int]:
        """Calls that returned targets, and how many of them were not as usual, since the start."""
        return {name: getattr(self._state, name) for name in COUNTS}

    def _split(self, floats: np.ndarray) -> List[np.ndarray]:
        ends = np.cumsum([int(np.prod(shape)) for shape in self._memory_shapes])
        return [floats[end - int(np.prod(shape)) : end].reshape(shape) for shape, end in zip(self._memory_shapes, ends)]


def load_library(source: Path, flags: Sequence[str] = ("-O3",)) -> ctypes.CDLL:
    """Compile a policy in C and load it; without a compiler it is an ImportError."""
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise ImportError(f"no C compiler is installed; install one of {', '.join(COMPILERS)}")
    with tempfile.TemporaryDirectory() as folder:  # a library that is loaded needs its file no more
        library = Path(folder) / "policy.so"
        command = [compiler, "-std=c99", *flags, "-fPIC", "-shared", str(source), "-o", str(library), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ValueError(f"{source} does not compile: {' '.join(done.stderr.split())[:500]}")
        return ctypes.CDLL(str(library))


def _structures(description: Mapping[str, Any]) -> List[Any]:
    """Return policy_readings and policy_state of the header, as ctypes see them."""
    joints, (_, num_obs) = len(description["joint_names"]), description["inputs"]["obs"]
    states = sum(int(np.prod(shape)) for name, shape in description["inputs"].items() if name != "obs")
    per_joint, flag, count = ctypes.c_float * joints, ctypes.c_int, ctypes.c_ulong
    state = {
        **dict.fromkeys(JOINT_VALUES, per_joint),
        "target_limits": (ctypes.c_float * 2) * joints,
        "problem": ctypes.c_char_p,
        **dict.fromkeys((*COUNTS, "steps"), count),
        **dict.fromkeys(("held", "started"), flag),
        "robot_index": flag * joints,
        "command": ctypes.c_float * 3,
        "last_action": per_joint,
        "last_obs": ctypes.c_float * num_obs,
        "targets": per_joint,
        "memory": ctypes.c_float * max(1, states),
    }
    readings = {name: ctypes.c_float * (size or joints) for name, size in READINGS.items()}
    fields = {"Readings": list(readings.items()), "State": list(state.items())}
    return [type(name, (ctypes.Structure,), {"_fields_": members})() for name, members in fields.items()]


def _pointer(array: np.ndarray) -> Any:
    assert array.dtype == np.float32 and array.flags.c_contiguous
    return array.ctypes.data_as(ctypes.POINTER(ctypes.c_float))

"""Train a network of a robot's motors from a log with measured torques, for ActuatorNetworkConfig.

The network maps errors of the position and velocities, now and some physics steps ago, to the torque of a joint
(Hwangbo et al., "Learning agile and dynamic motor skills for legged robots", 2019). One network serves all joints. The
last part of each log is held out, and the error there is compared with those of the PD loop of the contract and of a
parametric model: a delay, a factor of the PD torque, viscous and dry friction and an inertia of each joint, by least
squares.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor, nn

from rsl_rl.hardware.identification.recordings import Recording

STEP = 0.005
"""Physics step of trainings [s]."""

PATTERN = (0, 1, 2, 4, 8)
"""Times of the inputs before the present one, in multiples of the first distance."""

HELD_OUT = 0.25
"""Share of each log that is not trained on, at its end."""

_HIDDEN, _BATCH, _RATE = 32, 256, 3e-3
_MOST_DELAY = 8  # rows
_SLIP = 0.1  # velocity from which dry friction is almost whole [rad/s]


class Rows(NamedTuple):
    """Rows of logs: each is one joint at one time."""

    errors: np.ndarray  # [M, history] target - position [rad]
    velocities: np.ndarray  # [M, history] [rad/s]
    torque: np.ndarray  # [M] measured [N m]
    joint: np.ndarray  # [M] index


@dataclass(frozen=True)
class ActuatorTraining:
    """A network and its errors on held-out rows, root mean square [N m]."""

    script: bytes  # TorchScript
    settings: Dict[str, Any]  # of ActuatorNetworkConfig, without the path
    held_out: Dict[str, float]  # of the network, the PD loop and the parametric model
    by_joint: Dict[str, Dict[str, float]]
    seconds: float  # of the logs that were trained on


def train_actuator(
    recordings: Sequence[Recording],
    description: Mapping[str, Any],
    epochs: int = 150,
    seed: int = 0,
    progress: Callable[[str], None] = lambda line: None,
) -> ActuatorTraining:
    """Train a network; a log without measured torques is a ValueError."""
    for recording in recordings:
        if recording.torque is None:
            raise ValueError(
                f"{recording.name} has no measured torques; log them as columns joint_torque.NAME [N m], such as the "
                "driver's estimate from the motor current"
            )
    period = max(recording.period for recording in recordings)
    first = max(2, round(period / STEP))  # physics steps between the inputs
    history = tuple(first * k for k in PATTERN)
    ago = [steps * STEP for steps in history]
    splits = [_split(recording, ago) for recording in recordings]
    train, test = (_joined([split[i] for split in splits]) for i in range(2))
    if len(train.torque) < 1000 or len(test.torque) < 200:
        raise ValueError(f"the logs have {len(train.torque)} usable rows of joints; give at least 1000, some seconds")
    scales = {
        "error_scale": 1.0 / float(max(1e-6, train.errors.std())),
        "velocity_scale": 1.0 / float(max(1e-6, train.velocities.std())),
        "torque_scale": float(max(1e-6, train.torque.std())),
    }
    network = _fit(train, test, scales, epochs, seed, progress)
    predicted = {"network": _predict(network, test, scales), "PD": _pd(test, description)}
    parametric = [_parametric(recording, description, ago) for recording in recordings]
    predicted["parametric model"] = np.concatenate(parametric)
    errors = {name: np.asarray(values - test.torque) for name, values in predicted.items()}
    names = list(description["joint_names"])
    by_joint = {
        joint: {name: _rms(values[test.joint == i]) for name, values in errors.items()} for i, joint in enumerate(names)
    }
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.trace(network.eval(), torch.zeros(2, 2 * len(history))), buffer)
    held_out = {name: _rms(values) for name, values in errors.items()}
    seconds = (1.0 - HELD_OUT) * sum(recording.seconds for recording in recordings)
    return ActuatorTraining(buffer.getvalue(), {"history": list(history), **scales}, held_out, by_joint, seconds)


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.square(values).mean())) if len(values) else float("nan")


def _split(recording: Recording, ago: Sequence[float]) -> Tuple[Rows, Rows]:
    """Return rows to train on and held-out rows of a log, with the inputs at some times ago [s].

    The torque that is read in a row follows from the target of the row before.
    """
    motion, torque = recording.motion, recording.torque
    assert torque is not None  # checked before
    back, rows, late = _usable(recording, torque, ago)
    errors = np.stack([motion.targets[rows - k - 1] - motion.joint_pos[rows - k] for k in back], axis=2)
    velocities = np.stack([motion.joint_vel[rows - k] for k in back], axis=2)
    joints = np.broadcast_to(np.arange(torque.shape[1]), (len(rows), torque.shape[1]))
    columns = (errors, velocities, torque[rows], joints)
    train, test = (Rows(*(x[own].reshape(-1, *x.shape[2:]) for x in columns)) for own in (~late, late))
    return train, test


def _usable(recording: Recording, torque: np.ndarray, ago: Sequence[float]) -> Tuple[List[int], np.ndarray, np.ndarray]:
    """Return some times ago [s] in rows, the rows that have all inputs and torques, and which of them are held out."""
    back = [round(seconds / recording.period) for seconds in ago]
    rows = np.concatenate([np.arange(start + 1 + max(back), stop) for start, stop in recording.pieces])
    rows = rows[np.isfinite(torque[rows]).all(axis=1)]
    end = recording.time[-1] - HELD_OUT * (recording.time[-1] - recording.time[0])
    return back, rows, recording.time[rows] > end


def _joined(parts: Sequence[Rows]) -> Rows:
    return Rows(*(np.concatenate(columns) for columns in zip(*parts)))


def _inputs(rows: Rows, scales: Mapping[str, float]) -> Tensor:
    """Return the inputs of the network [M, 2 * history], as ActuatorNetwork gives them."""
    scaled = (rows.errors * scales["error_scale"], rows.velocities * scales["velocity_scale"])
    return torch.as_tensor(np.concatenate(scaled, axis=1), dtype=torch.float32)


def _predict(network: nn.Module, rows: Rows, scales: Mapping[str, float]) -> np.ndarray:
    with torch.no_grad():
        return np.asarray(network(_inputs(rows, scales))[:, 0].double().numpy() * scales["torque_scale"])


def _fit(
    train: Rows,
    test: Rows,
    scales: Mapping[str, float],
    epochs: int,
    seed: int,
    progress: Callable[[str], None],
) -> nn.Module:
    """Return a network trained with Adam on mini-batches, with a rate that falls to zero."""
    generator = torch.Generator().manual_seed(seed)
    sizes = (2 * train.errors.shape[1], _HIDDEN, _HIDDEN, _HIDDEN, 1)
    layers: List[nn.Module] = []
    for inputs, outputs in zip(sizes[:-1], sizes[1:]):
        layer = nn.Linear(inputs, outputs)
        with torch.no_grad():
            layer.weight.copy_(torch.randn(outputs, inputs, generator=generator) / inputs**0.5)
            layer.bias.zero_()
        layers += [layer, nn.Softsign()]
    network = nn.Sequential(*layers[:-1])
    x, y = _inputs(train, scales), torch.as_tensor(train.torque / scales["torque_scale"], dtype=torch.float32)
    optimizer = torch.optim.Adam(network.parameters(), lr=_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for epoch in range(epochs):
        order = torch.randperm(len(x), generator=generator)
        for rows in order.split(_BATCH):
            loss = (network(x[rows])[:, 0] - y[rows]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
        if (epoch + 1) % max(1, epochs // 10) == 0:
            error = _rms(_predict(network, test, scales) - test.torque)
            progress(f"epoch {epoch + 1} of {epochs}: held-out error {error:.3f} N m")
    return network


def _pd(rows: Rows, description: Mapping[str, Any]) -> np.ndarray:
    """Return the torque of the contract's PD loop."""
    stiffness, damping, limit = (
        np.array(description[name])[rows.joint] for name in ("stiffness", "damping", "torque_limits")
    )
    return np.asarray(np.clip(stiffness * rows.errors[:, 0] - damping * rows.velocities[:, 0], -limit, limit))


def _parametric(recording: Recording, description: Mapping[str, Any], ago: Sequence[float]) -> np.ndarray:
    """Return the torque of the parametric model on the held-out rows of a log, in the order of :func:`_split`."""
    motion, torque = recording.motion, recording.torque
    assert torque is not None  # checked before
    stiffness, damping, limit = (np.array(description[name]) for name in ("stiffness", "damping", "torque_limits"))
    acceleration = np.gradient(motion.joint_vel, recording.time, axis=0)
    _, rows, late = _usable(recording, torque, ago)
    out = np.zeros((int(late.sum()), torque.shape[1]))
    for j in range(torque.shape[1]):
        best = np.inf
        for delay in range(_MOST_DELAY):
            error = motion.targets[np.maximum(0, rows - 1 - delay), j] - motion.joint_pos[rows, j]
            velocity = motion.joint_vel[rows, j]
            asked = np.clip(stiffness[j] * error - damping[j] * velocity, -limit[j], limit[j])
            columns = np.stack((asked, velocity, np.tanh(velocity / _SLIP), acceleration[rows, j]), axis=1)
            weights, *_ = np.linalg.lstsq(columns[~late], torque[rows, j][~late], rcond=None)
            left = float(np.square(columns[~late] @ weights - torque[rows, j][~late]).mean())
            if left < best:
                best, out[:, j] = left, columns[late] @ weights
    return np.asarray(out.reshape(-1))

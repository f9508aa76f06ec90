"""A warning of damping that a client computes itself and that the time step is too long for."""

# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import warnings
from typing import List, Optional

import torch
from torch import Tensor

from gymapi_mujoco.model import Layout
from gymapi_mujoco.worlds import Worlds

WATCHED_ENVS, WATCHED_STEPS, LEAST_STEPS = 16, 200, 60
"""How many environments and time steps are watched, and after how many a warning can come."""

LEAST_CORRELATION = 0.75
"""Correlation of the changes of effort and velocity from which the effort counts as damping."""


class ExplicitDamping:
    """Watches efforts of DoFs for those that follow the velocity by more than the time step allows.

    Damping kd of an effort that a client computes from the last velocity is unstable above kd dt / I = 2, with the time
    step dt and the inertia I that the DoF has with all others free. The velocity then changes its sign in every step,
    unless friction of the DoF or a contact holds it. Efforts that reach their limits look like kd dt / I = 2.
    """

    def __init__(self, worlds: Worlds, layout: Layout, names: List[str], dt: float):
        self._worlds, self._names, self._dt = worlds, names, dt
        columns = [column for own in layout.actors for column in range(own.vel.start, own.vel.stop)]
        self._columns = torch.tensor(columns, dtype=torch.int64).to(worlds.device)
        self._efforts, self._qvel = worlds.state("qfrc_applied"), worlds.state("qvel")
        self._watched = bool(names) and worlds.device.type == "cpu"  # a GPU would have to be waited for
        self._last: Optional[Tensor] = None
        self._sums = torch.zeros(4, len(columns), dtype=worlds.dtype, device=worlds.device)
        self._steps = 0

    def begin_step(self) -> None:
        """Take note of efforts and velocities before a step; warn once, at the end."""
        if self._steps >= WATCHED_STEPS or not self._watched:
            return
        rows = slice(0, WATCHED_ENVS)
        now = torch.stack([self._efforts[rows][:, self._columns], self._qvel[rows][:, self._columns]])
        if self._last is not None:
            effort, speed = now - self._last
            turned = (now[1] * self._last[1] < 0).to(speed)
            self._sums += torch.stack([effort * speed, effort.square(), speed.square(), turned]).sum(1)
        self._last, self._steps = now, self._steps + 1
        if self._steps in (LEAST_STEPS, WATCHED_STEPS):
            self._warn()

    def _warn(self) -> None:
        both, efforts, speeds, turned = self._sums
        damping = -both / speeds.clamp(min=1e-12)
        correlation = -both / (efforts * speeds).sqrt().clamp(min=1e-12)
        mass = self._worlds.mass_matrix(self._worlds.result("M")[:1])[0]
        inertia = 1 / torch.linalg.inv(mass).diagonal()[self._columns]
        ratio = damping * self._dt / inertia
        rings = turned > 0.6 * (self._steps - 1) * min(WATCHED_ENVS, self._worlds.num)
        unstable = ((ratio > 2.2) | (ratio > 1.5) & rings) & (correlation > LEAST_CORRELATION)
        found = unstable.nonzero()[:, 0].tolist()
        if not found:
            return
        self._steps = WATCHED_STEPS
        worst = max(found, key=lambda i: float(ratio[i]))
        names = ", ".join(f"'{self._names[i]}'" for i in found)
        warnings.warn(
            f"the client's damping of {names} is unstable (friction or a contact may hide it): about "
            f"{float(damping[worst]):.3g} N m s/rad of '{self._names[worst]}' are too large for an inertia of "
            f"{float(inertia[worst]):.2g} kg m^2 and steps of {self._dt:g} s (kd dt / I = {float(ratio[worst]):.1f} or "
            f"more, stable below 2). Set AssetOptions.armature to {float(damping[worst]) * self._dt:.2g} or above, or "
            "use a smaller dt",
            stacklevel=4,
        )

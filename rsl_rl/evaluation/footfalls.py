"""The order and the timing in which feet land: which gait the strides of a recording are."""

from __future__ import annotations

from typing import Mapping, Sequence

import numpy as np

TOLERANCE = 0.15
"""Largest error of the moment at which a foot lands, in strides; half a stride is opposite."""


def stride_phases(contact: np.ndarray, done: np.ndarray) -> np.ndarray:
    """Return the moment at which each foot lands in each stride of all robots, in strides from 0 to 1, [S, F].

    ``contact`` [T, N, F] are the feet on the floor, ``done`` [T, N] the ends of episodes. A stride goes from one
    touchdown of the first foot to the next, in one episode. The moment is NaN for a foot that does not land in it, or
    lands more than once.
    """
    phases = []
    landed = np.zeros_like(contact)
    landed[1:] = contact[1:] & ~contact[:-1] & ~done[:-1, :, None]
    for robot in range(contact.shape[1]):
        starts = np.flatnonzero(landed[:, robot, 0])
        for begin, end in zip(starts, starts[1:]):
            if done[begin:end, robot].any():
                continue
            row = np.full(contact.shape[2], np.nan)
            row[0] = 0.0
            # A foot that lands with the first one may be a little earlier: half a stride before and after count alike.
            margin = max(1, round(TOLERANCE * (end - begin)))
            for foot in range(1, contact.shape[2]):
                times = np.flatnonzero(landed[max(0, begin - margin) : end - margin, robot, foot])
                if len(times) == 1:
                    row[foot] = ((times[0] + max(0, begin - margin) - begin) / (end - begin)) % 1.0
            phases.append(row)
    return np.array(phases).reshape(-1, contact.shape[2])


def share_of_gait(phases: np.ndarray, touchdown: Sequence[float]) -> float:
    """Return the share of strides [S, F] in which every foot lands when a gait says, in strides; NaN without strides.

    Only the moments relative to the first foot count.
    """
    if not len(phases):
        return float("nan")
    wanted = np.asarray(touchdown, float) - touchdown[0]
    apart = np.abs((phases - wanted + 0.5) % 1.0 - 0.5)
    return float((apart <= TOLERANCE).all(axis=1).mean())  # NaN is not within the tolerance


def shares(phases: np.ndarray, gaits: Mapping[str, Sequence[float]]) -> dict:
    """Return the share of strides that are each of several gaits."""
    return {name: share_of_gait(phases, touchdown) for name, touchdown in gaits.items()}

"""The delay between targets and readings of pushed joints."""

import numpy as np
import pytest

from rsl_rl.hardware.delays import Span, find_delays

PERIOD = 0.01


def pushed(delay, damping, seed):
    """Return angles and targets [T, 1] of a joint at rest that is pushed to both sides, and the pushes."""
    rng, fine = np.random.default_rng(seed), 20
    targets, spans = np.zeros(300), [Span(60, 78), Span(160, 178)]
    targets[60:78], targets[160:178] = 0.6, -0.6
    held = np.repeat(targets, fine)  # the target of a row acts until the reading of that row
    late = np.concatenate([np.zeros(round(delay / PERIOD * fine)), held])[: len(held)]
    angle = speed = 0.0
    angles = np.empty(len(targets))
    for i, target in enumerate(late):
        speed += (20.0 * target - damping * speed - 5.0 * angle) * PERIOD / fine
        angle += speed * PERIOD / fine
        angles[i // fine] = angle
    return (angles + rng.normal(0, 0.004, len(angles)))[:, None], targets[:, None], spans


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.035, 0.06])
@pytest.mark.parametrize("damping", [1.0, 8.0])
def test_delay_of_pushes_is_found_through_noise(delay, damping):
    errors = []
    for seed in range(5):
        angles, targets, spans = pushed(delay, damping, seed)
        each, total = find_delays(angles, targets, [spans], PERIOD)
        assert each == [total]
        errors.append(total - delay)
    assert abs(np.median(errors)) < 0.015


def test_joint_without_a_push_has_no_delay_and_does_not_change_that_of_all():
    angles, targets, spans = pushed(0.03, 5.0, 0)
    each, total = find_delays(np.tile(angles, 2), np.tile(targets, 2), [[], spans], PERIOD)
    assert np.isnan(each[0]) and each[1] == total

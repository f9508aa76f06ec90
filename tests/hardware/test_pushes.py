"""Which motors do not move their own reading."""

import numpy as np
import pytest

from rsl_rl.hardware.pushes import Push, wrong_motors

NAMES = ("hip", "knee", "ankle")


def pushes(rows, level=0.6):
    """Pushes of each motor both ways; rows [3, 3] are what the strongest ones move."""
    return [Push(c, sign, level, 0, 25, sign * np.array(row)) for c, row in enumerate(rows) for sign in (1, -1)]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([[0.06, -0.04, 0.0], [-0.05, 0.1, -0.02], [0.0, -0.03, 0.2]], []),
        ([[0.06, 0.0, 0.0], [0.0, 0.002, 0.001], [0.0, 0.0, 0.2]], ["knee: its motor moves no joint"]),
        ([[0.06, 0.0, 0.0], [0.0, -0.1, 0.0], [0.0, 0.0, 0.2]], ["knee: its reading turns the other way"]),
        (np.zeros((3, 3)), ["no motor moves its joint"]),
    ],
)
def test_motors_that_do_not_move_their_own_reading_are_named(rows, told):
    problems = wrong_motors(pushes(rows), NAMES)
    assert len(problems) == len(told)
    assert all(problem.startswith(text) for problem, text in zip(problems, told))


def test_swapped_motors_are_named():
    problems = wrong_motors(pushes([[0.0, 0.06, 0.0], [0.05, 0.0, 0.0], [0.0, 0.0, 0.2]]), NAMES)
    assert problems[0].startswith("hip: its targets move the reading of knee: the motors are swapped")
    assert "the targets of knee and hip move each other's readings: mend the driver" in problems


def test_limb_that_still_swings_in_weak_pushes_is_not_taken_for_the_motors_own():
    """A swing of a heavy limb in the weak pushes of another motor had been counted four times as much."""
    right = pushes([[0.06, 0.0, 0.0], [0.0, 0.1, 0.0], [0.0, 0.0, 0.2]])
    swinging = [Push(1, sign, 0.15, 0, 25, sign * np.array([-0.5, 0.0, 0.0])) for sign in (1, -1)]
    assert wrong_motors([*right[:2], *swinging, *right[2:]], NAMES) == []

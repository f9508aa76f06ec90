import numpy as np
import pytest

from rsl_rl.evaluation.footfalls import share_of_gait, shares, stride_phases

GAITS = {
    "trot": (0.0, 0.5, 0.5, 0.0),
    "pace": (0.0, 0.5, 0.0, 0.5),
    "bound": (0.5, 0.5, 0.0, 0.0),
    "pronk": (0.0, 0.0, 0.0, 0.0),
}


def contacts(touchdown, period=20, duty=0.6, steps=200, start=0):
    """Feet on the floor by the definition of a gait, [steps, 1, 4]."""
    turns = ((np.arange(start, start + steps)[:, None] / period - np.array(touchdown)) % 1.0).round(9) % 1.0
    return (turns < duty)[:, None]


@pytest.mark.parametrize("name", GAITS)
def test_strides_of_a_gait_are_of_that_gait_and_of_no_other(name):
    contact = contacts(GAITS[name], start=3)
    phases = stride_phases(contact, np.zeros(contact.shape[:2], bool))
    assert len(phases) >= 8
    assert shares(phases, GAITS) == {other: float(other == name) for other in GAITS}


def test_foot_that_lands_a_little_early_is_with_the_first_one():
    contact = contacts((0.0, 0.5, 0.95, 0.45))
    phases = stride_phases(contact, np.zeros(contact.shape[:2], bool))
    assert share_of_gait(phases, GAITS["pace"]) == 1.0
    np.testing.assert_allclose(phases[2], [0.0, 0.5, 0.95, 0.45], atol=1e-9)


def test_stride_over_the_end_of_an_episode_does_not_count():
    contact, done = contacts(GAITS["pace"]), np.zeros((200, 1), bool)
    whole = len(stride_phases(contact, done))
    done[105] = True
    assert len(stride_phases(contact, done)) == whole - 1


def test_foot_that_drags_or_hops_twice_is_of_no_gait():
    contact = contacts(GAITS["pace"])
    dragging = contact.copy()
    dragging[:, :, 3] = True
    twice = contact.copy()
    twice[:, 0, 2] = contacts((0, 0, 0, 0), period=10)[:, 0, 2]
    for changed in (dragging, twice):
        assert share_of_gait(stride_phases(changed, np.zeros((200, 1), bool)), GAITS["pace"]) < 0.2


def test_robots_without_strides_have_no_share():
    still = np.ones((50, 2, 4), bool)
    assert np.isnan(share_of_gait(stride_phases(still, np.zeros((50, 2), bool)), GAITS["trot"]))

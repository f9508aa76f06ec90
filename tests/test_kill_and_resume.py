"""Trainings killed at random moments go on as if they had never been; see kill_and_resume.py."""

import pytest

from tests.kill_and_resume import kill_and_resume


@pytest.mark.parametrize("task", ["recall", pytest.param("toy", marks=pytest.mark.slow)])
def test_a_killed_training_goes_on_bit_by_bit(task, programs):
    arguments = ["--task", task, "--num_envs", "16", "--save_interval", "2"]
    said = list(kill_and_resume(arguments, iterations=24, kills=2, seed=1, within=0.3, start=programs.start))
    assert said[1].startswith("killed") and "2 kills: weights, optimiser, physics" in said[2]


@pytest.mark.slow
@pytest.mark.parametrize("task", ["go2_flat", "go2_flat_blind"])
def test_a_go2_killed_ten_times_goes_on_bit_by_bit(task):
    arguments = ["--task", task, "--num_envs", "256", "--save_interval", "2"]
    said = list(kill_and_resume(arguments, iterations=40, kills=10, seed=1))
    print("\n".join(said))
    assert len(said) == 11 and any("writing" in line for line in said)

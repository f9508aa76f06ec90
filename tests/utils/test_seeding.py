import random

import numpy as np
import pytest
import torch

from rsl_rl.utils.seeding import require_device, seed_everything


def test_one_seed_covers_python_numpy_and_torch():
    draws = []
    for _ in range(2):
        seed_everything(3)
        draws.append((random.random(), np.random.rand(), torch.rand(()).item()))
    assert draws[0] == draws[1]


@pytest.mark.parametrize("device", ["gpu", "cuda:99", "meta"])
def test_a_device_that_is_not_there_is_named_and_the_cpu_always_is(device):
    require_device("rl_device", "cpu")
    with pytest.raises(ValueError, match=f"rl_device.*{device}"):
        require_device("rl_device", device)


def test_what_deterministic_asks_for_is_on_from_then_on(run_script):
    code = """
import os, torch
from rsl_rl.utils.seeding import make_deterministic
notes = make_deterministic()
assert torch.are_deterministic_algorithms_enabled() and os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
assert all(note.startswith("deterministic: ") for note in notes) and len(notes) == 2
"""
    done = run_script("-c", code)
    assert done.returncode == 0, done.stderr

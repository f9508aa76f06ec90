"""Ranks with N / 2 or N / 4 environments learn what one process with N environments learns; see scripted.py."""

import functools
import os
import subprocess
import sys

import pytest
import torch

from rsl_rl.distributed import SINGLE_PROCESS
from tests.distributed.scripted import CASES, PEERS, UPDATES, learn
from tests.kill_and_resume import free_port, same

SIZES = [PEERS[0], *(pytest.param(size, marks=pytest.mark.slow) for size in PEERS[1:])]
"""Numbers of ranks."""


@pytest.fixture(scope="module")
def ranks(tmp_path_factory, pytestconfig):
    """A function that returns what each rank has computed, for a number of ranks."""
    folder = tmp_path_factory.mktemp("ranks")

    @functools.lru_cache(maxsize=None)
    def run(size):
        env = {**os.environ, "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        command = [sys.executable, "-m", "tests.distributed.scripted", str(folder)]
        processes = [
            subprocess.Popen(command, env={**env, "RANK": str(rank)}, cwd=pytestconfig.rootpath) for rank in range(size)
        ]
        assert [process.wait(timeout=120) for process in processes] == [0] * size
        return [torch.load(folder / f"{size}_{rank}.pt") for rank in range(size)]

    return run


def differences(a, b, name=""):
    """Names of numbers in nested values that differ by more than the rounding of float32."""
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        return [found for key in a for found in differences(a[key], b[key], f"{name}.{key}")]
    if isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        return [found for i, pair in enumerate(zip(a, b)) for found in differences(*pair, f"{name}.{i}")]
    if isinstance(a, str) or a is None:
        return [] if a == b else [f"{name}: {a} and {b}"]
    x, y = (torch.as_tensor(value, dtype=torch.float64) for value in (a, b))
    close = torch.isclose(x, y, rtol=2e-4, atol=2e-6, equal_nan=True)
    return [] if close.all() else [f"{name}: {(x - y).abs().max():.2g} of {x.abs().max():.2g}"]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", CASES)
def test_ranks_with_a_share_of_the_environments_learn_as_one_process(name, size, ranks):
    torch.set_num_threads(1)
    whole = learn(CASES[name], SINGLE_PROCESS)
    assert len(whole["updates"]) == UPDATES
    for rank in ranks(size):
        assert differences(whole, rank[name]) == []


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", CASES)
def test_ranks_have_the_same_weights_bit_by_bit(name, size, ranks):
    first = ranks(size)[0][name]
    assert all(
        same(first["state"], rank[name]["state"]) and first["rates"] == rank[name]["rates"] for rank in ranks(size)
    )


@pytest.mark.parametrize("size", SIZES)
def test_ranks_agree_on_values_and_errors_of_the_host(size, ranks):
    for rank in range(size):
        said = ranks(size)[rank]["agreement"]
        assert said["gathered"] == [{"rank": other} for other in range(size)]
        assert said["on_first"] == (list(range(size)) if rank == 0 else [])
        assert said["called"] == "rank 0" and said["first"] == [f"rank {size - 1}", None] and said["own"] == rank
        assert said["weights"].startswith("TrainingError: rank 1 has other weights than rank 0")
        assert said["disk"] == "OSError: no space left"


def test_scripted_cases_skip_mask_and_roll_back(ranks):
    """The cases are what they are for."""
    broken = ranks(2)[0]["mlp_broken"]["updates"]
    assert broken[1]["skipped_steps"] > 0 and broken[1]["rollback"].startswith("warning") and not broken[0]["rollback"]
    assert broken[2]["skipped_steps"] == 0
    rates = ranks(2)[0]["mlp"]["rates"]
    assert len(set(rates)) > 2  # the schedule moves

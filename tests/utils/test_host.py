"""Shares of a machine, and what torchrun says to a process."""

import os
import subprocess
import sys

import pytest
import torch

from rsl_rl.utils import host
from rsl_rl.utils.host import (
    MAX_SINGLE_THREAD_ROWS,
    Launch,
    available_cpus,
    current_launch,
    launcher_name,
    single_thread_if_small,
    take_share_of_cpus,
)


@pytest.mark.parametrize(
    ("cpu_max", "expected"), [("150000 100000", 1), ("20000 100000", 1), ("6400000 100000", None), ("max 100000", None)]
)
def test_a_containers_quota_limits_the_cpus(tmp_path, cpu_max, expected):
    (tmp_path / "cpu.max").write_text(cpu_max + "\n")
    own = len(os.sched_getaffinity(0))
    assert available_cpus(tmp_path / "cpu.max") == (expected or own)
    assert available_cpus(tmp_path / "missing") == own


@pytest.mark.parametrize(
    ("own", "available", "count", "expected"),
    [
        (range(8), 8, 2, [{0, 1, 2, 3}, {4, 5, 6, 7}]),
        (range(8), 4, 2, [{0, 1}, {2, 3}]),  # a container's quota
        ([3, 5, 7], 3, 2, [{3}, {5}]),
        ([3, 5], 2, 3, [{3}, {5}, {3}]),
    ],
)
def test_shares_of_cpus_are_disjoint_where_there_are_enough(own, available, count, expected, monkeypatch):
    taken = []
    monkeypatch.setattr(host, "available_cpus", lambda: available)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(own))
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, share: taken.append(set(share)))
    sizes = [take_share_of_cpus(index, count) for index in range(count)]
    assert taken == expected and sizes == [len(share) for share in expected]


@pytest.mark.parametrize(("given", "expected"), [("", 16), ("30", 30)])
def test_threads_are_few_unless_the_user_says_otherwise(run_script, monkeypatch, given, expected):
    code = (
        "import torch; from rsl_rl.utils import host; torch.set_num_threads(30); "
        "host.available_cpus = lambda: 64; host.prepare_host(); print(torch.get_num_threads())"
    )
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    done = run_script("-c", code, **({"OMP_NUM_THREADS": given} if given else {}))
    assert done.returncode == 0 and int(done.stdout) == expected, done.stderr


def test_freed_memory_is_kept(run_script):
    """Tensors of 8 MB, made and dropped in turn, must not be handed back to the system and cleared anew."""
    code = (
        "import resource, torch; from rsl_rl.utils.host import prepare_host; prepare_host()\n"
        "def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "keep = [torch.ones(1 << 23) for _ in range(3)]; del keep\n"
        "before = faults()\n"
        "for _ in range(20): torch.ones(1 << 23)\n"
        "print(faults() - before)"
    )
    done = run_script("-c", code)
    assert done.returncode == 0, done.stderr
    pages = (1 << 25) // 4096  # of one tensor
    assert int(done.stdout) < 10 * pages  # otherwise all twenty are


@pytest.mark.parametrize(("rows", "expected"), [(1, 1), (MAX_SINGLE_THREAD_ROWS, 1), (MAX_SINGLE_THREAD_ROWS + 1, 3)])
def test_few_rows_keep_to_one_thread_for_as_long_as_the_block_lasts(rows, expected, set_torchs_threads):
    set_torchs_threads(3)
    with pytest.raises(KeyError), single_thread_if_small(rows):
        assert torch.get_num_threads() == expected
        raise KeyError
    assert torch.get_num_threads() == 3


VARIABLES = {"RANK": "3", "WORLD_SIZE": "8", "MASTER_ADDR": "host", "MASTER_PORT": "1", "LOCAL_RANK": "1"}


def test_process_without_torchrun_is_alone(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WORLD_SIZE", "4")  # as some clusters set it for everything
    launch = current_launch()
    assert (
        launch == Launch() and launch.share_of(7) == 7 and launch.seed(5) == 5 and launch.device("cuda:1") == "cuda:1"
    )


def test_process_of_torchrun_has_a_device_and_a_seed_of_its_own(monkeypatch):
    more = {"LOCAL_WORLD_SIZE": "4", "TORCHELASTIC_RESTART_COUNT": "1", "TORCHELASTIC_MAX_RESTARTS": "2"}
    for name, value in {**VARIABLES, **more}.items():
        monkeypatch.setenv(name, value)
    launch = current_launch()
    assert launch == Launch(3, 8, 1, 4, 1, 2, has_group=True) and launch.may_restart
    assert [launch.device(name) for name in ("cuda", "cuda:0", "cpu")] == ["cuda:1", "cuda:1", "cpu"]
    assert launch.seed(1) != 1
    with pytest.raises(ValueError, match="cuda:2 is one GPU for 4 processes; give cuda"):
        launch.device("cuda:2")


@pytest.mark.parametrize(("total", "size"), [(10, 1), (10, 3), (2, 3), (4096, 7)])
def test_shares_of_all_ranks_add_up_and_differ_by_one_at_most(total, size):
    shares = [Launch(rank, size).share_of(total) for rank in range(size)]
    assert sum(shares) == total and max(shares) - min(shares) <= 1 and shares == sorted(shares, reverse=True)


def test_launcher_name_is_the_same_for_all_its_processes(monkeypatch):
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    code = "from rsl_rl.utils.host import launcher_name; print(launcher_name())"
    names = {subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout for _ in range(2)}
    assert len(names) == 1 and names != {launcher_name() + "\n"}
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "walk")
    assert launcher_name() == "walk"

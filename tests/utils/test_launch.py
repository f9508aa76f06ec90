"""What torchrun says to a process."""

import subprocess
import sys

import pytest

from rsl_rl.utils.launch import Launch, current_launch, launcher_name

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
    code = "from rsl_rl.utils.launch import launcher_name; print(launcher_name())"
    names = {subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout for _ in range(2)}
    assert len(names) == 1 and names != {launcher_name() + "\n"}
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "walk")
    assert launcher_name() == "walk"

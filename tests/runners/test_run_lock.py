import json
import os
import subprocess
import sys

import pytest

from rsl_rl.config.task import ToyConfig
from rsl_rl.runners import OnPolicyRunner, TrainingError, run_folder
from rsl_rl.tasks.toy import PointEnv

HOLD = """
import sys
from pathlib import Path
from rsl_rl.runners.run_folder import run_lock
with run_lock(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of tmp_path."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "locked\n"
    yield process
    process.kill()
    process.communicate()


def runner(cfg, folder):
    return OnPolicyRunner(PointEnv(ToyConfig(num_envs=8, episode_steps=5)), cfg, folder)


def test_learn_in_a_folder_where_another_process_trains_raises_and_writes_nothing(small_cfg, tmp_path, holder):
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(TrainingError, match=f"process {holder.pid} on host .* is training in {tmp_path}"):
        runner(small_cfg, tmp_path).learn(1)
    assert sorted(path.name for path in tmp_path.iterdir()) == before == [run_folder.LOCK]


def test_learn_after_the_other_process_was_killed_takes_the_lock_over(small_cfg, tmp_path, holder):
    holder.kill()
    holder.wait()
    assert (tmp_path / run_folder.LOCK).exists()  # it could not tidy up
    runner(small_cfg, tmp_path).learn(1)
    assert not (tmp_path / run_folder.LOCK).exists() and (tmp_path / "model_1.pt").exists()


@pytest.mark.parametrize("alive", [True, False])
def test_run_lock_where_the_file_system_has_no_locks_looks_the_process_up(tmp_path, holder, monkeypatch, alive):
    monkeypatch.setattr(run_folder, "fcntl", None)
    if not alive:
        holder.kill()
        holder.wait()
    if alive:
        with pytest.raises(TrainingError, match=f"process {holder.pid}"), run_folder.run_lock(tmp_path):
            pass
    else:
        with run_folder.run_lock(tmp_path):
            assert json.loads((tmp_path / run_folder.LOCK).read_text())["pid"] == os.getpid()


def test_run_lock_of_another_host_is_respected_where_there_are_no_locks(tmp_path, monkeypatch):
    monkeypatch.setattr(run_folder, "fcntl", None)
    (tmp_path / run_folder.LOCK).write_text(json.dumps({"host": "elsewhere", "pid": 1}))
    with pytest.raises(TrainingError, match="process 1 on host elsewhere"), run_folder.run_lock(tmp_path):
        pass


def test_learn_twice_in_one_process_locks_each_time(small_cfg, tmp_path):
    training = runner(small_cfg, tmp_path)
    training.learn(1)
    training.learn(1)
    assert (tmp_path / "model_2.pt").exists() and not (tmp_path / run_folder.LOCK).exists()

import os

import pytest
import torch

from rsl_rl.runners.checkpoint import (
    CheckpointError,
    find_checkpoint,
    find_run,
    random_states,
    read_checkpoint,
    restore_random_states,
    write_checkpoint,
)


def test_what_is_written_is_read(tmp_path):
    write_checkpoint(tmp_path / "model_1.pt", {"model_state_dict": {"w": torch.ones(2)}, "iter": 1})
    assert read_checkpoint(tmp_path / "model_1.pt")["model_state_dict"]["w"].tolist() == [1, 1]
    assert [path.name for path in tmp_path.iterdir()] == ["model_1.pt"]


def test_a_failed_write_leaves_the_old_file_whole(tmp_path, monkeypatch):
    path = tmp_path / "model_1.pt"
    write_checkpoint(path, {"model_state_dict": {}, "iter": 1})

    def crash(*args):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", crash)
    with pytest.raises(OSError, match="no space"):
        write_checkpoint(path, {"model_state_dict": {}, "iter": 2})
    assert read_checkpoint(path)["iter"] == 1 and len(list(tmp_path.iterdir())) == 1


class Bomb:
    def __reduce__(self):
        return (os.mkdir, ("exploded",))


def test_nothing_in_a_checkpoint_is_executed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"model_state_dict": Bomb()}, tmp_path / "model_1.pt")
    with pytest.raises(CheckpointError, match=r"model_1.pt is damaged or no checkpoint of weights alone"):
        read_checkpoint(tmp_path / "model_1.pt")
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.95])
def test_a_truncated_file_is_refused(tmp_path, share):
    path = tmp_path / "model_1.pt"
    write_checkpoint(path, {"model_state_dict": {"w": torch.ones(1000)}, "iter": 1})
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(CheckpointError, match="damaged"):
        read_checkpoint(path)


def test_foreign_and_future_files_are_refused(tmp_path):
    torch.save({"weights": 1}, tmp_path / "a.pt")
    with pytest.raises(CheckpointError, match="it holds weights and no model_state_dict"):
        read_checkpoint(tmp_path / "a.pt")
    torch.save({"model_state_dict": {}, "format": 99}, tmp_path / "b.pt")
    with pytest.raises(CheckpointError, match="format 99"):
        read_checkpoint(tmp_path / "b.pt")
    with pytest.raises(CheckpointError, match="no checkpoint"):
        read_checkpoint(tmp_path / "missing.pt")


def test_the_newest_checkpoint_goes_by_number(tmp_path):
    run = tmp_path / "2026-01-01"
    run.mkdir()
    for name in ("model_9.pt", "model_10.pt", "model_best.pt"):
        (run / name).touch()
    assert find_checkpoint(run).name == "model_10.pt" and find_checkpoint(run, 9).name == "model_9.pt"
    with pytest.raises(CheckpointError, match="no checkpoint of iteration 3; it has 9, 10"):
        find_checkpoint(run, 3)
    with pytest.raises(CheckpointError, match="holds no checkpoint"):
        find_checkpoint(tmp_path)


def test_the_newest_run_is_the_last_with_a_checkpoint(tmp_path):
    for name, files in (("2026-01-01", ["model_1.pt"]), ("2026-01-02", ["model_1.pt"]), ("2026-01-03", [])):
        (tmp_path / name).mkdir()
        for file in files:
            (tmp_path / name / file).touch()
    assert find_run(tmp_path).name == "2026-01-02" and find_run(tmp_path, "2026-01-01").name == "2026-01-01"
    with pytest.raises(CheckpointError, match=r"no run 2025 .* it has 2026-01-01"):
        find_run(tmp_path, "2025")
    with pytest.raises(CheckpointError, match="train one first"):
        find_run(tmp_path / "nothing")


def test_random_states_go_through_a_file(tmp_path):
    import random

    import numpy as np

    write_checkpoint(tmp_path / "m.pt", {"model_state_dict": {}, "rng": random_states()})
    first = random.random(), np.random.rand(), torch.rand(()).item()
    restore_random_states(read_checkpoint(tmp_path / "m.pt")["rng"])
    assert (random.random(), np.random.rand(), torch.rand(()).item()) == first

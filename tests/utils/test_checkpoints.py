import os
import zipfile

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rsl_rl.utils.checkpoints import (
    CheckpointError,
    best_iteration,
    checkpoint_id,
    find_checkpoint,
    find_run,
    prune_checkpoints,
    read_checkpoint,
    write_checkpoint,
)
from rsl_rl.utils.files import make_new_folder
from rsl_rl.utils.seeding import random_states, restore_random_states


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
    with pytest.raises(CheckpointError, match=r"model_1.pt is damaged or not a checkpoint"):
        read_checkpoint(tmp_path / "model_1.pt")
    assert not (tmp_path / "exploded").exists()


def example(path, iteration=1):
    write_checkpoint(path, {"model_state_dict": {"w": torch.arange(1000.0)}, "iter": iteration})
    return path.read_bytes()


@pytest.mark.parametrize("percent", range(0, 100, 5))
def test_a_truncated_file_is_refused(tmp_path, percent):
    path = tmp_path / "model_1.pt"
    content = example(path)
    path.write_bytes(content[: len(content) * percent // 100])
    with pytest.raises(CheckpointError, match="damaged"):
        read_checkpoint(path)


@given(st.data())
def test_a_changed_bit_is_noticed_wherever_it_is(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("bits") / "model_1.pt"
    content = bytearray(example(path))
    place, bit = data.draw(st.integers(0, len(content) - 1)), data.draw(st.integers(0, 7))
    content[place] ^= 1 << bit
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="damaged"):
        read_checkpoint(path)


@pytest.mark.parametrize("place", [-66, -65], ids=["low byte", "high byte"])
@pytest.mark.parametrize("bit", range(8))
def test_checkpoint_with_a_changed_length_of_its_checksum_is_refused(tmp_path, place, bit):
    path = tmp_path / "model_1.pt"
    content = bytearray(example(path))
    assert content[-66:-64] == (64).to_bytes(2, "little")
    content[place] ^= 1 << bit
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="damaged"):
        read_checkpoint(path)


def test_checkpoint_without_its_checksum_is_refused(tmp_path):
    path = tmp_path / "model_1.pt"
    path.write_bytes(example(path)[:-64])
    with pytest.raises(CheckpointError, match="damaged"):
        read_checkpoint(path)


def test_a_file_of_another_trainer_has_its_archives_checksums(tmp_path):
    path = tmp_path / "model_1.pt"
    torch.save({"model_state_dict": {"w": torch.arange(1000.0)}}, path)
    assert read_checkpoint(path)["model_state_dict"]["w"][7] == 7
    content = bytearray(path.read_bytes())
    content[content.index(torch.arange(100.0, 110.0).numpy().tobytes())] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"the checksum of .* is wrong"):
        read_checkpoint(path)


def test_the_newest_whole_checkpoint_is_found_and_offered(tmp_path):
    for iteration in (1, 2, 3, 4):
        content = example(tmp_path / f"model_{iteration}.pt", iteration)
        if iteration > 2:
            (tmp_path / f"model_{iteration}.pt").write_bytes(content[:-100])
    assert find_checkpoint(tmp_path).name == "model_2.pt"
    with pytest.raises(CheckpointError, match=r"model_4.pt is damaged .*; use model_2.pt \(--checkpoint 2\)"):
        read_checkpoint(find_checkpoint(tmp_path, 4))


def test_foreign_and_future_files_are_refused(tmp_path):
    torch.save({"weights": 1}, tmp_path / "a.pt")
    with pytest.raises(CheckpointError, match="it has weights and no model_state_dict"):
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
        example(run / name)
    assert find_checkpoint(run).name == "model_10.pt" and find_checkpoint(run, 9).name == "model_9.pt"
    with pytest.raises(CheckpointError, match="no checkpoint of iteration 3; it has 9, 10"):
        find_checkpoint(run, 3)
    with pytest.raises(CheckpointError, match="has no checkpoint"):
        find_checkpoint(tmp_path)


def test_the_best_is_found_by_its_name_alone(tmp_path):
    run = tmp_path / "2026-01-01"
    run.mkdir()
    for iteration in (1, 2, 3):
        example(run / f"model_{iteration}.pt", iteration)
    with pytest.raises(CheckpointError, match=r"has no model_best.pt, which a training .* saves; it has 1, 2, 3$"):
        find_checkpoint(run, "best")
    example(run / "model_best.pt", 2)
    assert find_checkpoint(run, "best").name == "model_best.pt" and best_iteration(run) == 2
    assert [checkpoint_id(find_checkpoint(run, which)) for which in (-1, 2, "best")] == [3, 2, "best"]
    prune_checkpoints(run, keep_last=1, keep_every=0)
    assert sorted(path.name for path in run.iterdir()) == ["model_3.pt", "model_best.pt"]
    (run / "model_3.pt").unlink()
    assert find_checkpoint(run, "best").exists()  # a copy of it is enough
    with pytest.raises(CheckpointError, match="train one first"):
        find_run(tmp_path)


def test_find_run_newest_is_by_the_start_in_its_name(tmp_path):
    for name in ("2026-01-01_10-00-00", "2026-01-02_10-00-00_fast", "backup", "zz_copy"):
        (tmp_path / name).mkdir()
        example(tmp_path / name / "model_1.pt", 1)
    assert find_run(tmp_path).name == "2026-01-02_10-00-00_fast"


def test_make_new_folder_in_a_dangling_link_raises(tmp_path):
    (tmp_path / "logs").symlink_to(tmp_path / "unmounted")
    with pytest.raises(OSError):
        make_new_folder(tmp_path / "logs", "run")


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


def test_a_file_of_another_trainer_with_64_parts_is_whole(tmp_path):
    """Where ours has the length of its SHA-256, 64, such a file has the number of its parts."""
    path = tmp_path / "model_1.pt"
    for num_tensors in range(40, 64):
        torch.save({"model_state_dict": {str(i): torch.zeros(1) for i in range(num_tensors)}}, path)
        if len(zipfile.ZipFile(path).namelist()) == 64:
            break
    assert path.read_bytes()[-66:-64] == (64).to_bytes(2, "little")
    assert len(read_checkpoint(path)["model_state_dict"]) == num_tensors

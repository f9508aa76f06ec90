import json
import os
from dataclasses import replace

import pytest

from rsl_rl.config.task import ToyConfig
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.runners.run_folder import supersede_after
from rsl_rl.tasks.toy import PointEnv
from rsl_rl.utils.checkpoints import write_checkpoint


def example(path, iteration):
    write_checkpoint(path, {"format": 1, "model_state_dict": {}, "iter": iteration})


def iterations(path):
    return [json.loads(line)["iteration"] for line in path.read_text().splitlines()]


def test_supersede_after_moves_checkpoints_films_and_the_best(tmp_path):
    (tmp_path / "videos").mkdir()
    for iteration in (2, 4, 10):
        example(tmp_path / f"model_{iteration}.pt", iteration)
        for ending in (".mp4", "_frames.png"):
            (tmp_path / "videos" / f"model_{iteration}{ending}").touch()
    example(tmp_path / "model_best.pt", 4)
    assert supersede_after(tmp_path, 4) == tmp_path / "superseded" / "after_4"
    assert {path.name for path in (tmp_path / "superseded" / "after_4").iterdir()} == {
        "model_10.pt", "model_10.mp4", "model_10_frames.png",
    }  # fmt: skip
    supersede_after(tmp_path, 3)
    assert sorted(path.name for path in tmp_path.rglob("*.pt") if path.parent == tmp_path) == ["model_2.pt"]
    assert (
        not (tmp_path / "model_best.pt").exists() and (tmp_path / "superseded" / "after_3" / "model_best.pt").exists()
    )
    (tmp_path / "model_best.pt").write_bytes(b"damaged")
    supersede_after(tmp_path, 0)
    assert [path.name for path in tmp_path.glob("model_*.pt")] == ["model_best.pt"]  # the next replaces it


def test_supersede_after_with_nothing_later_drops_a_line_that_was_cut_off(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"iteration": 1}\n{"iteration": 2}\n{"iter')
    assert supersede_after(tmp_path, 2) is None
    assert iterations(tmp_path / "metrics.jsonl") == [1, 2] and not (tmp_path / "superseded").exists()


def test_supersede_after_drops_a_last_line_without_its_end(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"iteration": 1}\n{"iteration": 2}')
    assert supersede_after(tmp_path, 2) is None
    assert iterations(tmp_path / "metrics.jsonl") == [1]


def test_supersede_after_killed_in_the_middle_loses_no_line(tmp_path, monkeypatch):
    (tmp_path / "metrics.jsonl").write_text("".join(f'{{"iteration": {i}}}\n' for i in (1, 2, 3)))
    replace_file, calls = os.replace, []

    def killed_at_second(*args):
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        replace_file(*args)

    monkeypatch.setattr(os, "replace", killed_at_second)
    with pytest.raises(KeyboardInterrupt):
        supersede_after(tmp_path, 2)
    assert iterations(tmp_path / "metrics.jsonl") == [1, 2, 3]
    assert iterations(tmp_path / "superseded" / "after_2" / "metrics.jsonl") == [3]


def test_supersede_after_metrics_without_iteration_counts_as_later(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"iteration": 1}\n{"iteration": null}\n')
    assert supersede_after(tmp_path, 1) == tmp_path / "superseded" / "after_1"
    assert iterations(tmp_path / "metrics.jsonl") == [1]


def test_learn_again_in_a_run_folder_keeps_metrics_and_events_of_each_branch(small_cfg, tmp_path, capsys):
    cfg = replace(small_cfg, runner=replace(small_cfg.runner, logger="tensorboard"))
    for _ in range(3):  # the second and the third start anew, without load
        OnPolicyRunner(PointEnv(ToyConfig(num_envs=16, episode_steps=10)), cfg, tmp_path).learn(2)
    branches = [tmp_path / "superseded" / name for name in ("after_0", "after_0_2")]
    for branch in branches:
        assert iterations(branch / "metrics.jsonl") == [1, 2] and (branch / "model_2.pt").exists()
        assert list(branch.glob("events.out.tfevents.*"))
    first, second = ((branch / "metrics.jsonl").read_bytes() for branch in branches)
    assert first != second and iterations(tmp_path / "metrics.jsonl") == [1, 2]
    assert f"iterations after 0 of an earlier training are in {branches[1]}" in " ".join(
        capsys.readouterr().out.split()
    )

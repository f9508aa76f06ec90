import json
import os

import pytest

from rsl_rl.loggers import JsonlLogger


def write(path, iterations, first):
    logger = JsonlLogger(path)
    logger.start(first, 10)
    for iteration in iterations:
        logger.write({"iteration": iteration, "loss": float("nan"), "reward": None})
    logger.close()


def test_lines_are_valid_json_without_nan(tmp_path):
    path = tmp_path / "metrics.jsonl"
    write(path, [1], first=0)
    assert json.loads(path.read_text()) == {"iteration": 1, "loss": None, "reward": None}


def test_a_resumed_run_drops_what_came_after_its_checkpoint(tmp_path):
    path = tmp_path / "metrics.jsonl"
    write(path, [1, 2, 3], first=0)
    with path.open("a") as file:
        file.write('{"iteration": 4, "lo')  # cut off by a crash
    write(path, [3, 4], first=2)
    assert [json.loads(line)["iteration"] for line in path.read_text().splitlines()] == [1, 2, 3, 4]


def test_a_line_without_its_end_is_not_gone_on_with(tmp_path):
    path = tmp_path / "metrics.jsonl"
    write(path, [1, 2], first=0)
    path.write_bytes(path.read_bytes()[:-1])
    write(path, [2, 3], first=1)
    assert [json.loads(line)["iteration"] for line in path.read_text().splitlines()] == [1, 2, 3]


def test_the_old_file_stays_whole_until_the_shorter_one_is(tmp_path, monkeypatch):
    path = tmp_path / "metrics.jsonl"
    write(path, [1, 2, 3], first=0)
    before = path.read_bytes()

    def killed(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        JsonlLogger(path).start(2, 10)
    assert path.read_bytes() == before

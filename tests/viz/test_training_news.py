"""What a page is told of a training: all that is in the run folder, and nothing that a page could not show."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsl_rl.viz import training_news
from rsl_rl.viz.training_news import MOST_RECORDS, TrainingWatch, parse_line


def append(run, *records):
    with open(run / "metrics.jsonl", "a") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


@pytest.fixture
def watch(tmp_path):
    return TrainingWatch(tmp_path, 0, 100)


def test_watch_of_an_empty_folder_says_once_that_there_is_nothing(watch):
    news = watch.look()
    assert (news.records, news.checkpoint, news.seconds_left, news.ending) == ([], -1, None, "")
    assert watch.look() is None


def test_watch_of_appended_lines_tells_each_once(watch, tmp_path):
    append(tmp_path, {"iteration": 1, "mean_reward": 0.5})
    assert watch.look().records == [{"iteration": 1, "mean_reward": 0.5}]
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"iteration": 2, "mean_')
        file.flush()
        assert watch.look() is None  # a line that is being written
        file.write('reward": 0.75}\n{"iteration": 3}\n')
    news = watch.look()
    assert not news.replaces
    assert news.records == [{"iteration": 2, "mean_reward": 0.75}, {"iteration": 3}]
    assert watch.look("done").ending == "done"


def test_watch_of_a_resumed_run_replaces_what_was_moved_away(watch, tmp_path):
    append(tmp_path, *({"iteration": i} for i in range(1, 6)))
    watch.look()
    os.replace(tmp_path / "metrics.jsonl", tmp_path / "old")
    append(tmp_path, {"iteration": 1}, {"iteration": 2})
    news = watch.look()
    assert news.replaces and [record["iteration"] for record in news.records] == [1, 2]


def test_watch_keeps_the_newest_evaluation_and_counts_faults(watch, tmp_path):
    evaluated = {"iteration": 1, "evaluation/score": 2.0, "faults/state": 2, "skipped_steps": 0}
    append(tmp_path, evaluated, {"iteration": 2, "faults/state": 1, "excluded_steps": 5})
    (tmp_path / "model_0.pt").touch()
    (tmp_path / "model_20.pt").touch()
    (tmp_path / "model_best.pt").touch()
    news = watch.look()
    assert news.evaluation == evaluated and news.newest["iteration"] == 2
    assert news.faults == {"faults/state": 3, "excluded_steps": 5}
    assert news.checkpoint == 20


def test_watch_of_negative_numbers_of_faults_leaves_them_out(watch, tmp_path):
    append(tmp_path, *({"iteration": i, "faults/state": -1e308, "faults/action": 1e308} for i in range(3)))
    assert watch.look().faults == {"faults/action": 1e15}


def test_watch_time_left_is_that_of_the_mean_speed(tmp_path):
    append(tmp_path, {"iteration": 30})
    os.utime(tmp_path / "metrics.jsonl", (1100.0, 1100.0))
    news = TrainingWatch(tmp_path, 10, 100, started=1000.0).look()
    assert news.seconds_left == pytest.approx(100 / 20 * 70)


def test_watch_of_a_long_training_has_means_of_all_iterations(watch, tmp_path):
    numbers = range(1, 5 * MOST_RECORDS + 1)
    append(tmp_path, *({"iteration": i, "x": float(i), **({"y": 1.0} if i % 10 == 0 else {})} for i in numbers))
    news = watch.look()
    assert MOST_RECORDS // 2 <= len(news.records) <= MOST_RECORDS
    weights = [
        b["iteration"] - a for a, b in zip([0, *(r["iteration"] for r in news.records)], news.records, strict=False)
    ]
    mean = sum(record["x"] * weight for record, weight in zip(news.records, weights, strict=True)) / sum(weights)
    assert mean == pytest.approx(sum(numbers[: int(sum(weights))]) / sum(weights))
    assert {record["y"] for record in news.records if "y" in record} == {1.0}
    append(tmp_path, *({"iteration": i} for i in range(5001, 5017)))
    assert watch.look().newest == {"iteration": 5016}


NO_RECORDS = {
    "empty": b"",
    "list": b"[]",
    "text": b'"x"',
    "no iteration": b"{}",
    "text as iteration": b'{"iteration": "1"}',
    "negative": b'{"iteration": -1}',
    "NaN": b'{"iteration": NaN}',
    "not UTF-8": b"\xff\xfe",
    "nested": b"[" * 90_000,
    "more digits than Python reads": b'{"iteration": 1' + b"0" * 5000 + b"}",
    "long": b'{"iteration": 1, "a": ' + b" " * 2_000_000 + b"1}",
    "many names": json.dumps({"iteration": 1, **{str(i): 1 for i in range(1000)}}).encode(),
}


@pytest.mark.parametrize("line", NO_RECORDS.values(), ids=NO_RECORDS)
def test_watch_of_a_line_that_is_no_record_counts_it_and_goes_on(line, watch, tmp_path):
    (tmp_path / "metrics.jsonl").write_bytes(line + b'\n{"iteration": 7}\n')
    news = watch.look()
    assert news.damaged == 1 and news.records == [{"iteration": 7}]


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_watch_of_metrics_that_are_no_file_has_no_records(kind, watch, tmp_path):
    path = tmp_path / "metrics.jsonl"
    {"pipe": os.mkfifo, "device": lambda path: path.symlink_to("/dev/zero"), "folder": Path.mkdir}[kind](path)
    assert watch.look().records == []


def test_line_with_values_that_are_no_finite_numbers_leaves_them_out():
    line = b'{"iteration": 1, "a": NaN, "b": -Infinity, "c": 1e999, "d": null, "e": [1], "f": true, "g": 1' + b"0" * 400
    assert parse_line(line + b', "h\\u0000": 1, "' + b"i" * 200 + b'": 1, "<b>": 2}') == {"iteration": 1, "<b>": 2}


@given(st.lists(st.binary(max_size=60) | st.just(b'{"iteration": 1, "skipped_steps": 1e308}'), max_size=8))
def test_watch_of_any_bytes_gives_news_that_json_can_hold(tmp_path_factory, lines):
    run = tmp_path_factory.mktemp("run")
    (run / "metrics.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    json.dumps(TrainingWatch(run, 0, 10).look().__dict__, allow_nan=False)


def test_watch_with_means_of_huge_numbers_leaves_no_infinity(monkeypatch, watch, tmp_path):
    monkeypatch.setattr(training_news, "MOST_RECORDS", 2)
    append(tmp_path, *({"iteration": i, "x": 1.7e308} for i in range(8)))
    assert all(record["x"] == pytest.approx(1.7e308) for record in watch.look().records)

import json

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


def test_jsonl_started_again_appends(tmp_path):
    path = tmp_path / "metrics.jsonl"
    write(path, [1, 2], first=0)
    write(path, [3, 4], first=2)
    assert [json.loads(line)["iteration"] for line in path.read_text().splitlines()] == [1, 2, 3, 4]

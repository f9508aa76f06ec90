import json

from rsl_rl.loggers import JsonlLogger, Logger, RetryingLogger


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


class Sink(Logger):
    full = False

    def __init__(self):
        self.records = []

    def write(self, record):
        if self.full:
            raise OSError("no space")
        self.records.append(record["iteration"])


def test_what_could_not_be_written_is_written_later_in_order():
    sink, said = Sink(), []
    logger = RetryingLogger(sink, said.append)
    for iteration in range(1, 8):
        sink.full = 3 <= iteration <= 5
        logger.write({"iteration": iteration})
    logger.close()
    assert sink.records == [1, 2, 3, 4, 5, 6, 7]
    assert len(said) == 2 and "Sink cannot write: no space" in said[0] and "Sink writes again" in said[1]


def test_a_logger_that_could_not_start_starts_later():
    class Unstarted(Sink):
        full, started = True, None

        def start(self, first_iteration, last_iteration):
            if self.full:
                raise OSError("no space")
            self.started = first_iteration, last_iteration

    sink, said = Unstarted(), []
    logger = RetryingLogger(sink, said.append)
    logger.start(3, 9)
    logger.write({"iteration": 4})
    sink.full = False
    logger.write({"iteration": 5})
    assert sink.started == (3, 9) and sink.records == [4, 5]


def test_what_is_lost_in_the_end_is_told():
    sink, said = Sink(), []
    logger = RetryingLogger(sink, said.append)
    sink.full = True
    for iteration in (1, 2):
        logger.write({"iteration": iteration})
    logger.close()
    assert "2 records of Sink are lost" in said[-1]

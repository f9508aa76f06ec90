import pytest
import yaml
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rsl_rl.loggers.tensorboard import CONFIG_TAG, TensorBoardLogger


def curve(folder, tag="Loss/kl"):
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return [(event.step, event.value) for event in events.Scalars(tag)]


def write(folder, iterations, first):
    logger = TensorBoardLogger(folder, {})
    logger.start(first, 10)
    for iteration in iterations:
        extra = {"faults/reward": 1.0, "evaluation/score": 2.5}
        logger.write({"iteration": iteration, "kl": iteration / 4, "mean_reward": None, **extra})
    return logger


def test_every_record_is_there_though_nobody_closed_the_file(tmp_path):
    logger = write(tmp_path, [1, 2, 3], first=0)
    assert curve(tmp_path) == [(1, 0.25), (2, 0.5), (3, 0.75)]
    assert curve(tmp_path, "Faults/reward") == [(1, 1.0), (2, 1.0), (3, 1.0)]
    assert curve(tmp_path, "Evaluation/score") == [(1, 2.5), (2, 2.5), (3, 2.5)]
    with pytest.raises(KeyError):
        curve(tmp_path, "Train/mean_reward")
    logger.close()


def test_name_that_is_not_unicode_is_written_with_its_escapes(tmp_path):
    logger = TensorBoardLogger(tmp_path, {})
    logger.start(0, 10)
    logger.write({"iteration": 1, "episode/a\udcff\n": 2.0, "kl": 0.5})
    logger.close()
    assert curve(tmp_path, r"Episode/a\udcff\n") == [(1, 2.0)] and curve(tmp_path) == [(1, 0.5)]


def test_a_resumed_run_takes_back_what_came_after_its_checkpoint(tmp_path):
    write(tmp_path, [1, 2, 3, 4], first=0).close()
    write(tmp_path, [3, 4, 5], first=2).close()
    assert [step for step, _ in curve(tmp_path)] == [1, 2, 3, 4, 5]


def texts(folder):
    events = EventAccumulator(str(folder), size_guidance={"tensors": 0})
    events.Reload()
    assert events.SummaryMetadata(CONFIG_TAG).plugin_data.plugin_name == "text"
    return [(event.step, event.tensor_proto.string_val[0].decode()) for event in events.Tensors(CONFIG_TAG)]


def test_start_writes_the_config_as_text_at_each_start(tmp_path):
    for first, rate in ((0, 1e-3), (2, 5e-4)):
        config = {"algorithm": {"learning_rate": rate, "note": "a: <b> *c*"}, "env": {"types": [1, 2]}}
        logger = TensorBoardLogger(tmp_path, config)
        logger.start(first, 10)
        logger.close()
    found = texts(tmp_path)
    assert [step for step, _ in found] == [0, 2]
    assert all(line.startswith("    ") for line in found[-1][1].splitlines())  # code in Markdown
    assert yaml.safe_load("\n".join(line[4:] for line in found[-1][1].splitlines())) == config

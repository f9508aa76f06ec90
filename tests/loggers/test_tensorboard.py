import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rsl_rl.loggers.tensorboard import TensorBoardLogger


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


def test_a_resumed_run_takes_back_what_came_after_its_checkpoint(tmp_path):
    write(tmp_path, [1, 2, 3, 4], first=0).close()
    write(tmp_path, [3, 4, 5], first=2).close()
    assert [step for step, _ in curve(tmp_path)] == [1, 2, 3, 4, 5]

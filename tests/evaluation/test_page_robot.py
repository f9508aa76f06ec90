"""What a page says of a training."""

from pathlib import Path

import pytest

from configs.go2_flat import Go2Flat
from rsl_rl.evaluation.page_robot import describe_training

SOUND = b'{"iteration": 40, "evaluation/fall_rate": 0.5, "evaluation/x": "y"}\n'


@pytest.mark.parametrize(
    "damage", [b"", b'["evaluation/"]\n', b'"evaluation/' + b"[" * 100_000 + b"\n", b'"evaluation/\xff"\n']
)
def test_describe_training_has_the_newest_evaluation_that_can_be_read(tmp_path, damage):
    (tmp_path / "metrics.jsonl").write_bytes(b'{"iteration": 20, "evaluation/fall_rate": 0.9}\n' + SOUND + damage)
    facts = describe_training(tmp_path, Path("model_41.pt"), Go2Flat(), 1000, "")
    assert facts["Evaluation"] == "iteration 40: fall_rate 0.5"
    assert (facts["Checkpoint"], facts["Licence"]) == ("model_41", "not stated")

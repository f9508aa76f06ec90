"""The programs in docs/ run as they stand there."""

import importlib.util
import re
import sys

import pytest
import torch


@pytest.fixture
def example(root, tmp_path, monkeypatch):
    """The whole example of docs/extending.md, imported from a file outside the package."""
    code = re.search(r"```python\n(.*?)```", (root / "docs" / "extending.md").read_text(), re.DOTALL).group(1)
    path = tmp_path / "rail_example.py"
    path.write_text(code)
    spec = importlib.util.spec_from_file_location("rail_example", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "rail_example", module)
    spec.loader.exec_module(module)
    return module


@torch.no_grad()
def mean_reward(env, policy, num_steps=64):
    obs, total = env.get_observations(), 0.0
    for _ in range(num_steps):
        obs, reward, done, _ = env.step(policy(obs))
        policy.reset(done)
        total += reward.mean().item() / num_steps
    return total


def test_extending_example_learns_with_camera_memory_curiosity_auxiliary_loss_and_symmetry(example, tmp_path):
    runner = example.train(iterations=20)
    assert (
        mean_reward(example.Rail(), runner.get_inference_policy()) > 0.6
    )  # doing nothing earns 0, the best about 0.75
    metrics = runner.alg.extensions
    assert [type(extension).__name__ for extension in metrics.all] == ["Curiosity", "PositionLoss", "Symmetry"]
    runner.save(tmp_path / "model.pt")
    twin = example.train(iterations=0)
    twin.load(tmp_path / "model.pt")
    states = [r.alg.extensions.state_dict() for r in (runner, twin)]
    assert torch.equal(states[0]["1_PositionLoss"]["layer"]["weight"], states[1]["1_PositionLoss"]["layer"]["weight"])

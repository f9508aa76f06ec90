"""Whatever ends a training, the last complete update is in the run folder."""

from dataclasses import replace

import pytest
import torch

from rsl_rl.config.task import ToyConfig
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.tasks.toy import PointEnv
from rsl_rl.utils.checkpoints import read_checkpoint


class FailingEnv(PointEnv):
    """Raise an error at the control step with a number."""

    def __init__(self, error, at):
        super().__init__(ToyConfig(num_envs=8, episode_steps=5))
        self.error, self.left = error, at

    def step(self, actions):
        self.left -= 1
        if self.left < 0:
            raise self.error
        return super().step(actions)


@pytest.mark.parametrize("error", [RuntimeError("broken"), KeyboardInterrupt(), SystemExit(3)])
def test_learn_error_in_step_saves_the_last_update_and_raises_it_again(small_cfg, tmp_path, error, capsys):
    cfg = replace(small_cfg, runner=replace(small_cfg.runner, save_interval=100))
    check, num_steps = 3, cfg.runner.num_steps_per_env
    runner = OnPolicyRunner(FailingEnv(error, check + 2 * num_steps + 1), cfg, tmp_path)
    with pytest.raises(type(error)):
        runner.learn(5)
    state = read_checkpoint(tmp_path / "model_2.pt")
    assert state["iter"] == 2 and state["env"] is None
    assert "after iteration 2, which is saved" in capsys.readouterr().out
    resumed = OnPolicyRunner(PointEnv(ToyConfig(num_envs=8, episode_steps=5)), cfg, tmp_path)
    resumed.load(tmp_path / "model_2.pt")
    assert not resumed.episodes_restored
    pairs = zip(resumed.alg.policy.parameters(), runner.alg.policy.parameters())
    assert all(torch.equal(a, b) for a, b in pairs)
    resumed.learn(1)


def test_learn_error_that_also_prevents_saving_is_raised_itself(small_cfg, tmp_path, capsys):
    cfg = replace(small_cfg, runner=replace(small_cfg.runner, save_interval=100))
    env = FailingEnv(RuntimeError("broken"), 3 + cfg.runner.num_steps_per_env + 1)
    runner = OnPolicyRunner(env, cfg, tmp_path)
    runner.after_update.append(lambda iteration: setattr(runner.alg, "state_dict", lambda: {"bad": object()}) or {})
    with pytest.raises(RuntimeError, match="broken"):
        runner.learn(5)
    assert "iteration 1 could not be saved" in capsys.readouterr().out
    assert not (tmp_path / "model_1.pt").exists()

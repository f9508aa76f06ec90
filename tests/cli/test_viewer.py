"""Which policy and ground the viewer shows: what the user chose, or the newest checkpoint of a training."""

import os
from dataclasses import replace
from types import SimpleNamespace

import pytest

from configs.go2_flat import Go2Flat
from rsl_rl.cli import viewer
from rsl_rl.cli.command_line import Arguments
from rsl_rl.cli.play import Flags
from rsl_rl.cli.viewer import Stage
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.viz.frame import ALL_LEVELS, NEWEST, Choice

CFG = replace(Go2Flat(), sim_device="cpu", rl_device="cpu")


class Display(SimpleNamespace):
    """A display that keeps the checkpoints that it is offered."""

    def offer(self, checkpoints):
        self.offered = checkpoints


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "model_1.pt"
    runner = OnPolicyRunner(replace(CFG.env, num_envs=2).build("cpu", seed=0), CFG)
    runner.save(path)
    return path.read_bytes()


@pytest.fixture
def stage_of(tmp_path, weights, monkeypatch):
    monkeypatch.setattr(viewer, "_POLL_PERIOD", 0.0)
    (tmp_path / "model_1.pt").write_bytes(weights)
    return lambda **flags: Stage(Arguments(Flags(viewer=True, **flags), CFG, tmp_path, tmp_path.parent))


def test_stage_that_follows_loads_a_newer_checkpoint_and_survives_a_damaged_one(stage_of, tmp_path, weights):
    stage = stage_of(follow=True, num_envs=2)
    display = Display(choice=stage.choice)
    assert stage.choice.checkpoint == NEWEST and stage.env.num_envs == 2 and "model_1.pt" in stage.status
    assert not stage.is_outdated(display) and display.offered == ["1"]
    (tmp_path / "model_5.pt").write_bytes(weights)
    assert stage.is_outdated(display) and display.offered == ["1", "5"]
    stage.update(display.choice)
    assert "model_5.pt" in stage.status and not stage.is_outdated(display)
    for name in ("model_1.pt", "model_5.pt"):  # as a disk that fails
        (tmp_path / name).write_bytes(b"damaged")
        os.utime(tmp_path / name, (1, 1))
    policy = stage.policy
    assert stage.is_outdated(display)
    stage.update(display.choice)
    assert stage.status.startswith("this choice cannot be shown: ") and "\n" not in stage.status
    assert stage.policy is policy and not stage.is_outdated(display)


def test_stage_without_following_stays_with_its_checkpoint_until_the_user_chooses(stage_of, tmp_path, weights):
    stage = stage_of()
    display = Display(choice=stage.choice)
    (tmp_path / "model_5.pt").write_bytes(weights)
    assert stage.choice == Choice("1", "", ALL_LEVELS) and not stage.is_outdated(display)
    display.choice = Choice("5", "stairs_up", 2)
    assert stage.is_outdated(display)
    stage.update(display.choice)
    assert "model_5.pt" in stage.status and stage.env.sim.ground is not None
    ground = stage.env.sim.ground
    for wrong, problem in (
        (Choice("7", "stairs_up", 2), "no checkpoint of iteration 7"),
        (Choice("5", "", 2), "plane"),
    ):
        stage.update(wrong)
        assert problem in stage.status and stage.env.sim.ground is ground


def test_stage_of_too_many_robots_is_refused(stage_of):
    for number in (0, 17):
        with pytest.raises(ValueError, match=f"^--num_envs {number}: the viewer shows 1 to 16 robots"):
            stage_of(num_envs=number)


def test_stage_of_a_file_keeps_its_policy_on_every_ground(tmp_path):
    def stand(obs):
        return obs["policy"].new_zeros(len(obs["policy"]), 12)

    args = Arguments(Flags(viewer=True, num_envs=2), CFG, None, tmp_path)
    stage = viewer.FileStage(args, tmp_path / "policy.onnx", stand)
    display = Display(choice=stage.choice)
    assert stage.policy is stand and stage.status == f"playing {tmp_path / 'policy.onnx'}" and stage.env.num_envs == 2
    assert not stage.is_outdated(display) and display.offered == []
    display.choice = stage.choice._replace(terrain="stairs_up", level=1)
    assert stage.is_outdated(display)
    stage.update(display.choice)
    assert stage.policy is stand and stage.env.sim.ground is not None

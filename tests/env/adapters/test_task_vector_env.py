"""Tasks of this package in Gymnasium's registry."""

import subprocess
import sys
import warnings
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch

gymnasium = pytest.importorskip("gymnasium")
from gymnasium.utils.env_checker import check_env  # noqa: E402
from gymnasium.vector import AutoresetMode  # noqa: E402

import rsl_rl.gymnasium_tasks  # noqa: E402
from configs import EXPERIMENTS  # noqa: E402
from rsl_rl.config.task import CameraConfig, ToyConfig  # noqa: E402
from rsl_rl.env import StepResult, as_vec_env, check_vec_env  # noqa: E402
from rsl_rl.env.adapters.task_vector_env import TaskVectorEnv  # noqa: E402
from rsl_rl.gymnasium_tasks import gymnasium_id  # noqa: E402
from rsl_rl.runners import OnPolicyRunner  # noqa: E402
from rsl_rl.tasks.toy import PointEnv  # noqa: E402


class OnlyInstance(gymnasium.Env):
    """The only instance of a vector environment, for Gymnasium's checker of single environments."""

    metadata = {"render_modes": []}  # noqa: RUF012
    render_mode = None

    def __init__(self, envs):
        self.envs = envs
        self.observation_space, self.action_space = envs.single_observation_space, envs.single_action_space

    def first(self, obs):
        return {name: part[0] for name, part in obs.items()} if isinstance(obs, dict) else obs[0]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        obs, infos = self.envs.reset(seed=seed, options=options)
        return self.first(obs), infos

    def step(self, action):
        obs, reward, terminated, truncated, infos = self.envs.step(np.asarray(action)[None])
        return self.first(obs), float(reward[0]), bool(terminated[0]), bool(truncated[0]), infos


@pytest.mark.parametrize("task", EXPERIMENTS.names())
def test_make_vec_of_every_task_gives_what_its_spaces_say(task):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # make_vec warns of missing metadata
        envs = gymnasium.make_vec(gymnasium_id(task), num_envs=3)
    assert envs.num_envs == 3 and envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert envs.spec.id == gymnasium_id(task)
    obs, infos = envs.reset(seed=4)
    assert obs in envs.observation_space and infos == {}
    envs.action_space.seed(1)
    for _ in range(3):
        obs, reward, terminated, truncated, infos = envs.step(envs.action_space.sample())
        assert obs in envs.observation_space and reward.shape == terminated.shape == truncated.shape == (3,)
        assert terminated.dtype == truncated.dtype == bool and reward.dtype == np.float32
    envs.close()
    assert envs.closed


@pytest.mark.parametrize("task", ["Toy", "Choice", "Camera", "Go2Flat"])
def test_checker_of_gymnasium_passes_an_instance(task):
    envs = gymnasium.make_vec(f"rsl_rl/{task}-v0", num_envs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*(infinity|symmetric and normalized|max_episode_steps).*")
        check_env(OnlyInstance(envs), skip_render_check=True)


def test_observations_are_a_box_of_one_group_and_a_dict_of_several():
    box = gymnasium.make_vec("rsl_rl/Go2Flat-v0", num_envs=2)
    both = gymnasium.make_vec("rsl_rl/Go2Flat-v0", num_envs=2, groups=("policy", "critic"))
    policy, critic = (both.observation_space[name] for name in ("policy", "critic"))
    assert box.observation_space.shape == policy.shape == (2, 50) and critic.shape[1] > 50
    assert box.action_space.shape == (2, 12)
    with pytest.raises(ValueError, match=r"groups names 'polcy'.*Did you mean 'policy'"):
        gymnasium.make_vec("rsl_rl/Go2Flat-v0", num_envs=2, groups=("polcy",))


def test_reset_with_a_seed_decides_everything_that_follows():
    def trajectory(envs, seed):
        obs, _ = envs.reset(seed=seed)
        steps = [envs.step(0.1 * np.ones((4, 12), np.float32)) for _ in range(30)]
        return [obs, *(part for step in steps for part in step[:4])]

    one = gymnasium.make_vec("rsl_rl/Go2Flat-v0", num_envs=4)
    other = gymnasium.make_vec("rsl_rl/Go2Flat-v0", num_envs=4, seed=9)
    other.step(other.action_space.sample())
    for a, b in zip(trajectory(one, 5), trajectory(other, 5)):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(one.reset(seed=6)[0], one.reset(seed=5)[0])
    assert one.np_random_seed == 5
    for seed in ([1, 2, 3, 4], -1, True):
        with pytest.raises(ValueError, match="give one whole number"):
            one.reset(seed=seed)


def test_finished_instances_are_reset_in_the_same_step_with_their_last_observation():
    envs = TaskVectorEnv(ToyConfig(num_envs=2, episode_steps=3))
    start, _ = envs.reset(seed=0)
    for t in range(3):
        obs, _, terminated, truncated, infos = envs.step(np.ones((2, 1), np.float32))
        assert truncated.tolist() == [t == 2] * 2 and not terminated.any() and ("final_obs" in infos) == (t == 2)
    assert infos["_final_obs"].all()
    for i in (0, 1):
        np.testing.assert_allclose(infos["final_obs"][i], start[i] + 0.6, rtol=1e-5)
    assert np.abs(obs - start - 0.6).min() > 1e-4


def test_failures_are_terminations_and_only_they():
    envs = TaskVectorEnv(ToyConfig(num_envs=2))
    envs.reset(seed=0)
    push = np.float32([[1.0], [0.0]])
    for _ in range(30):
        _, _, terminated, truncated, infos = envs.step(push)
        if terminated.any():
            break
    assert terminated.tolist() == [True, False] and not truncated.any()
    assert infos["final_obs"][0][0] > 3.0 and infos["final_obs"][1] is None


def test_reset_mask_starts_some_instances_again():
    envs = TaskVectorEnv(CameraConfig(num_envs=3), ("policy", "camera"))
    before, _ = envs.reset(seed=0)
    after, _ = envs.reset(options={"reset_mask": np.array([False, True, False])})
    assert [np.array_equal(before["camera"][i], after["camera"][i]) for i in range(3)] == [True, False, True]
    with pytest.raises(ValueError, match="a seed starts all instances again"):
        envs.reset(seed=0, options={"reset_mask": np.array([False, True, False])})


def test_what_a_user_does_wrong_is_an_error():
    envs = TaskVectorEnv(ToyConfig(num_envs=3), action_limit=1.0)
    assert envs.single_action_space.high.tolist() == [1.0]
    with pytest.raises(ValueError, match=r"actions have the shape \[3\]; give \[3, 1\]"):
        envs.step(np.zeros(3))


class InPlaceEnv(PointEnv):
    """Writes every step into the same tensors, as simulators do."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.buffers = {"policy": self._groups["policy"].clone()}, torch.zeros(self.num_envs)

    def get_observations(self):
        return self.buffers[0]

    def step(self, actions):
        obs, reward, done, extras = super().step(actions)
        self.buffers[0]["policy"].copy_(self._groups["policy"])
        self.buffers[1].copy_(reward)
        return StepResult(obs, self.buffers[1], done, extras)


@dataclass(frozen=True)
class InPlaceConfig(ToyConfig):
    builds: ClassVar[str] = f"{__name__}:InPlaceEnv"


def test_results_stay_as_they_were_when_the_task_writes_into_its_buffers():
    envs = TaskVectorEnv(InPlaceConfig(num_envs=2))
    first, _ = envs.reset(seed=0)
    seen = [first, *envs.step(np.ones((2, 1), np.float32))[:2]]
    copies = [array.copy() for array in seen]
    envs.step(np.ones((2, 1), np.float32))
    for array, copy in zip(seen, copies):
        np.testing.assert_array_equal(array, copy)


def test_the_task_and_its_way_through_gymnasium_are_the_same():
    direct = EXPERIMENTS.load("toy")().env
    direct = replace(direct, num_envs=5).build(seed=3)
    through = as_vec_env(gymnasium.make_vec("rsl_rl/Toy-v0", num_envs=5, seed=3))
    check_vec_env(through)
    through.client.reset(seed=3)
    for _ in range(60):
        actions = torch.randn(5, 1)
        for mine, its in zip(direct.step(actions)[:3], through.step(actions)[:3]):
            if isinstance(mine, dict):
                mine, its = mine["policy"], its["policy"]
            torch.testing.assert_close(mine, its, rtol=0, atol=0)


def test_a_runner_learns_on_a_registered_task(small_cfg):
    runner = OnPolicyRunner(gymnasium.make_vec("rsl_rl/Choice-v0", num_envs=64), replace(
        small_cfg, policy=replace(small_cfg.policy, distribution="categorical")
    ))  # fmt: skip
    runner.learn(30)
    assert runner.collector.recent.means()[0] > 2 * 48 / 4  # random answers earn 48 / 4


def test_make_vec_by_module_and_id_works_in_a_new_process(root):
    code = (
        "import gymnasium; envs = gymnasium.make_vec('rsl_rl.gymnasium_tasks:rsl_rl/Toy-v0', num_envs=4); "
        "print(envs.reset(seed=0)[0].shape, envs)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert done.stdout.split("\n")[0] == "(4, 1) TaskVectorEnv(rsl_rl/Toy-v0, num_envs=4)", done.stderr


def test_registered_ids_are_those_of_the_experiments():
    ids = {spec.id for spec in gymnasium.registry.values() if spec.namespace == "rsl_rl"}
    assert ids >= {gymnasium_id(name) for name in EXPERIMENTS.names()}
    assert rsl_rl.gymnasium_tasks.gymnasium_id("far_goal_rnd") == "rsl_rl/FarGoalRnd-v0"

"""Distillation through the runner: learning to imitate, resuming, going on with PPO, and what a user can get wrong."""

import json
import shutil
import uuid
from dataclasses import replace

import pytest
import torch

from configs.go2_flat import Go2Flat
from configs.go2_flat_distilled import Go2FlatDistilled
from rsl_rl.config.algorithm import DistillationConfig, PPOConfig
from rsl_rl.config.learn import LearnConfig, RunnerConfig
from rsl_rl.config.policy import ActorCriticConfig, ActorCriticRecurrentConfig
from rsl_rl.config.task import RecallConfig
from rsl_rl.runners import DistillationRunner, OnPolicyRunner
from rsl_rl.runners.loading import load_policy
from rsl_rl.tasks.toy import RecallEnv
from rsl_rl.utils.checkpoints import read_checkpoint

GRU = ActorCriticRecurrentConfig(
    rnn_type="gru", rnn_hidden_size=16, actor_hidden_dims=(16,), critic_hidden_dims=(16,), init_noise_std=0.3
)
MLP = ActorCriticConfig((16,), (16,))
RUNNER = RunnerConfig(num_steps_per_env=24, save_interval=100, logger="none")


class PrivilegedRecallEnv(RecallEnv):
    """Recall with the group "teacher" [N, 1], which shows the sign at all times."""

    def _observe_groups(self):
        return {**super()._observe_groups(), "teacher": self.x.unsqueeze(1)}


def env_of(num_envs=64, seed=0):
    return PrivilegedRecallEnv(RecallConfig(num_envs=num_envs), seed=seed)


def mean_reward(policy, num_envs=500):
    """Mean reward of a step of one whole episode."""
    env = env_of(num_envs, seed=5)
    obs, total = env.get_observations(), 0.0
    for _ in range(env.max_episode_length):
        obs, reward, done, _ = env.step(policy(obs))
        policy.reset(done)
        total += reward.mean().item()
    return total / env.max_episode_length


def save_teacher(folder, policy, iterations=0):
    """Train a teacher with PPO and leave a run."""
    cfg = LearnConfig(policy=policy, algorithm=PPOConfig(entropy_coef=0.0), runner=RUNNER)
    runner = OnPolicyRunner(env_of(), cfg, folder)
    runner.learn(iterations)
    return runner


@pytest.fixture(scope="module")
def teacher_run(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("teacher")
    runner = save_teacher(folder, replace(MLP, actor_groups=("teacher",)), 40)
    assert mean_reward(runner.get_inference_policy()) > 0.85
    return folder


def distilled(teacher_run, policy=GRU, **settings):
    settings = {"learning_rate": 3e-3, "teacher_share": 0.5, "teacher_updates": 5, **settings}
    return LearnConfig(
        policy=policy, algorithm=DistillationConfig(teacher_run=str(teacher_run), **settings), runner=RUNNER
    )


@pytest.fixture(scope="module")
def student_run(teacher_run, tmp_path_factory):
    torch.manual_seed(0)
    runner = DistillationRunner(env_of(), distilled(teacher_run), tmp_path_factory.mktemp("student"))
    runner.learn(30, init_at_random_ep_len=True)
    return runner


def test_recurrent_student_recalls_what_its_teacher_sees_and_one_without_memory_does_not(student_run, teacher_run):
    assert mean_reward(student_run.get_inference_policy()) > 0.8
    runner = OnPolicyRunner(env_of(), distilled(teacher_run, policy=MLP))
    runner.learn(30, init_at_random_ep_len=True)
    assert mean_reward(runner.get_inference_policy()) < 0.2


def test_distilled_checkpoint_goes_on_in_ppo_with_the_same_actions_and_values(student_run):
    cfg = LearnConfig(policy=GRU, algorithm=PPOConfig(entropy_coef=0.0), runner=RUNNER)
    untrained, runner = (OnPolicyRunner(env_of(), cfg) for _ in range(2))
    runner.load(student_run.log_dir / "model_30.pt", load_optimizer=False)
    before = mean_reward(runner.get_inference_policy())
    assert before == mean_reward(student_run.get_inference_policy())

    def unexplained(one):
        """Share of the variance of the returns that the values do not explain."""
        one.collector.collect(one.env.reset())
        columns = one.alg.storage.columns
        return ((columns["values"] - columns["returns"]).square().mean() / columns["returns"].var()).item()

    assert unexplained(runner) < 0.3 and unexplained(untrained) > 0.9
    runner.learn(3)
    assert mean_reward(runner.get_inference_policy()) > before - 0.1


@pytest.mark.parametrize("memory", [False, True], ids=["mlp", "gru"])
def test_resumed_distillation_goes_on_bit_by_bit_with_the_teacher_that_it_had(memory, tmp_path):
    teacher = replace(replace(GRU, rnn_hidden_size=4) if memory else MLP, actor_groups=("teacher", "policy"))
    save_teacher(tmp_path / "teacher", teacher)
    cfg = distilled(tmp_path / "teacher", num_learning_epochs=2)
    cfg = replace(cfg, runner=replace(RUNNER, save_interval=3, num_steps_per_env=8))

    def metrics():
        lines = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
        return [{name: x for name, x in line.items() if not name.endswith("_s")} for line in lines]

    alone = OnPolicyRunner(env_of(8), cfg, tmp_path / "run")
    alone.learn(7, init_at_random_ep_len=True)
    expected = metrics()
    shutil.rmtree(tmp_path / "teacher")
    save_teacher(tmp_path / "teacher", teacher)  # other weights under the same name
    resumed = OnPolicyRunner(env_of(8, seed=9), cfg, tmp_path / "run")
    assert not torch.equal(resumed.alg.teacher.actor[0].weight, alone.alg.teacher.actor[0].weight)
    resumed.load(tmp_path / "run" / "model_3.pt")
    resumed.learn(4)
    assert resumed.episodes_restored and len(expected) == 7 and metrics() == expected
    states = alone.alg.policy.state_dict(), resumed.alg.policy.state_dict()
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())


def test_policy_of_a_run_acts_without_its_teacher(student_run, teacher_run, tmp_path):
    cfg = replace(student_run.train_cfg, algorithm=DistillationConfig(teacher_run=str(tmp_path / "gone")))
    loaded = load_policy(cfg, RecallEnv(RecallConfig(num_envs=3)), student_run.log_dir)  # no group "teacher" either
    assert mean_reward(loaded.policy) == mean_reward(student_run.get_inference_policy())


def test_distilling_asks_for_no_number(teacher_run):
    cfg = distilled(teacher_run, num_learning_epochs=1)
    runner = OnPolicyRunner(env_of(), replace(cfg, runner=replace(RUNNER, num_steps_per_env=6)))
    obs = runner.env.get_observations()

    def requests(work):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            work()
        waiting = ("aten::item", "aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero")
        return sum(event.count for event in profile.key_averages() if event.key in waiting)

    assert requests(lambda: torch.ones(3).sum().item()) == 2  # it counts
    runner.collector.collect(obs)
    runner.alg.update()

    def iterate():
        runner.alg.begin_rollout()
        obs = runner.env.get_observations()
        for _ in range(runner.num_steps_per_env):
            runner.alg.act(obs)
            runner.alg.process_env_step(torch.zeros(64), torch.zeros(64, dtype=torch.bool), {}, obs)
        runner.alg.compute_returns(obs)
        runner.alg.update()

    assert requests(iterate) == 0


def config_error(teacher_run, env=None, **settings):
    with pytest.raises(ValueError) as caught:
        OnPolicyRunner(env or env_of(4), distilled(teacher_run, **settings))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_teacher_that_is_not_there_or_does_not_fit_is_one_clear_error(teacher_run, tmp_path):
    assert config_error("").startswith("algorithm.teacher_run is missing; give the folder of the teacher's training")
    assert "there is no such folder or checkpoint" in config_error(tmp_path / "nothing")
    assert "has no checkpoint of iteration 7; it has 0, 40" in config_error(teacher_run, teacher_checkpoint=7)
    assert "picks a checkpoint of a folder" in config_error(teacher_run / "model_40.pt", teacher_checkpoint=7)
    message = config_error(teacher_run, env=RecallEnv(RecallConfig(num_envs=4)))
    assert "the teacher reads the group 'teacher', and the environment gives policy; name the groups" in message
    assert "Did you mean 'teacher'?" in config_error(teacher_run, teacher_groups=("teacer",))
    message = config_error(teacher_run, teacher_groups=("policy",))
    assert "does not fit the groups policy here" in message and "size mismatch for actor.0.weight" in message
    (tmp_path / "run").mkdir()
    shutil.copy(teacher_run / "model_40.pt", tmp_path / "run" / "model_40.pt")
    (tmp_path / "run" / "config.yaml").write_text("policy: {rnn_type: gru}")
    assert "set algorithm.teacher to a config of their class" in config_error(tmp_path / "run")
    (tmp_path / "run" / "config.yaml").unlink()
    assert "size mismatch" in config_error(tmp_path / "run", teacher_groups=("teacher",))  # networks of default size


def test_teacher_without_a_config_has_the_networks_that_are_given(teacher_run, tmp_path):
    shutil.copy(teacher_run / "model_40.pt", tmp_path / "policy.pt")
    cfg = distilled(tmp_path / "policy.pt", teacher=MLP, teacher_groups=("teacher",))
    alg = OnPolicyRunner(env_of(4), cfg).alg
    weights = read_checkpoint(teacher_run / "model_40.pt")["model_state_dict"]
    assert torch.equal(alg.teacher.actor[0].weight, weights["actor.0.weight"])


def test_distillation_runner_with_ppo_raises(small_cfg):
    with pytest.raises(ValueError, match="got algorithm=PPOConfig; give a DistillationConfig, or take OnPolicyRunner"):
        DistillationRunner(env_of(4), small_cfg)


def test_distilled_go2_has_the_observations_of_its_teacher_and_walks_through_an_update(tmp_path):
    flat, cfg = Go2Flat(), Go2FlatDistilled()
    cfg = replace(cfg, env=replace(cfg.env, num_envs=4))
    teacher_env = replace(flat.env, num_envs=4).build()
    OnPolicyRunner(teacher_env, flat).save(tmp_path / "model_0.pt")
    env = cfg.env.build()
    groups, size = env.get_observations(), teacher_env.get_observations()["policy"].shape[1]
    assert list(groups) == ["policy", "critic", "teacher"] and groups["teacher"].shape == (4, size)
    assert torch.equal(groups["teacher"], groups["critic"][:, :size])
    cfg = replace(cfg, algorithm=replace(cfg.algorithm, teacher_run=str(tmp_path / "model_0.pt")))
    OnPolicyRunner(env, cfg).learn(1)


@pytest.mark.slow
def test_train_begins_with_the_weights_of_a_checkpoint(root, run_script, small_cfg):
    experiment = f"init-{uuid.uuid4().hex[:8]}"
    common = ("scripts/train.py", "--task", "toy", "--experiment_name", experiment, "--max_iterations", "1")
    try:
        assert run_script(*common, "--run_name", "first").returncode == 0
        first = next((root / "logs" / experiment).glob("*_first"))
        done = run_script(*common, "--seed", "5", "--run_name", "second", "--init_from", str(first))
        assert done.returncode == 0 and f"note: weights of {first / 'model_1.pt'}" in done.stdout
        second = next((root / "logs" / experiment).glob("*_second"))
        states = [read_checkpoint(path)["model_state_dict"] for path in (first / "model_1.pt", second / "model_0.pt")]
        assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())
        assert read_checkpoint(second / "model_1.pt")["counters"]["env_steps"] == 16 * 64
        for path, reason in ((first / "model_9.pt", "there is no checkpoint"), (first / "git", "has no checkpoint")):
            refused = run_script(*common, "--init_from", str(path))
            assert refused.returncode == 2 and reason in refused.stderr and refused.stderr.count("\n") == 1
        refused = run_script(*common, "--resume", "--init_from", str(first))
        assert refused.returncode == 2 and "--init_from starts a new run" in refused.stderr
        assert len(list((root / "logs" / experiment).iterdir())) == 2
    finally:
        shutil.rmtree(root / "logs" / experiment, ignore_errors=True)

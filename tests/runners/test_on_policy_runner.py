import functools
import io
import json
from dataclasses import replace

import pytest
import torch
from rich.console import Console

from configs import EXPERIMENTS
from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.learn import LearnConfig
from rsl_rl.config.policy import ActorCriticConfig, ActorCriticRecurrentConfig, SymmetricActorCriticConfig
from rsl_rl.config.task import RecallConfig, ToyConfig
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.tasks.toy import PointEnv, RecallEnv
from rsl_rl.utils.checkpoints import CheckpointError, config_of, read_checkpoint, write_checkpoint
from rsl_rl.utils.config_io import read_yaml, to_dict

METRICS = {
    "iteration", "env_steps", "collect_s", "learn_s", "steps_per_s", "mean_reward", "mean_episode_length",
    "surrogate_loss", "value_loss", "entropy", "kl", "learning_rate", "noise_std",
}  # fmt: skip


def toy(**settings) -> PointEnv:
    return PointEnv(ToyConfig(**{"num_envs": 16, "episode_steps": 10, **settings}))


def weights(runner):
    return [p.detach().clone() for p in runner.alg.policy.parameters()]


def test_a_run_leaves_what_it_promises(small_cfg, tmp_path):
    runner = OnPolicyRunner(toy(), replace(small_cfg, runner=replace(small_cfg.runner, logger="tensorboard")), tmp_path)
    runner.add_git_repo_to_log(__file__)
    assert list(tmp_path.iterdir()) == []  # nothing is written before training starts
    runner.learn(5, init_at_random_ep_len=True)
    assert {"config.yaml", "metrics.jsonl", "git", "model_2.pt", "model_4.pt", "model_5.pt"} <= {
        p.name for p in tmp_path.iterdir()
    }
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["iteration"] for line in lines] == [1, 2, 3, 4, 5]
    assert set(lines[-1]) >= METRICS
    assert lines[-1]["env_steps"] == runner.tot_timesteps == 5 * 8 * 16
    assert read_yaml(tmp_path / "config.yaml")["env"] == to_dict(ToyConfig(num_envs=16, episode_steps=10))


def test_tensorboard_gets_the_tags_that_users_know(small_cfg, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    OnPolicyRunner(toy(), replace(small_cfg, runner=replace(small_cfg.runner, logger="tensorboard")), tmp_path).learn(3)
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    tags = set(events.Tags()["scalars"])
    assert {
        "Loss/value_function",
        "Loss/surrogate",
        "Loss/learning_rate",
        "Policy/mean_noise_std",
        "Perf/total_fps",
        "Perf/collection time",
        "Perf/learning_time",
        "Train/mean_reward",
        "Train/mean_episode_length",
    } <= tags
    assert [event.step for event in events.Scalars("Loss/surrogate")] == [1, 2, 3]


def test_the_config_is_left_as_it_was(small_cfg):
    nested = to_dict(small_cfg)
    before = json.dumps(nested)
    OnPolicyRunner(toy(), nested).learn(1)
    assert json.dumps(nested) == before
    with pytest.raises(ValueError, match=r"unknown setting 'algorithm.gama'.*'gamma'"):
        OnPolicyRunner(toy(), {"algorithm": {"gama": 0.9}})


@pytest.mark.parametrize("kind", [None, "gru", "lstm"])
def test_the_same_seed_gives_the_same_weights(small_cfg, kind):
    if kind:
        policy = ActorCriticRecurrentConfig(
            rnn_type=kind, rnn_hidden_size=8, actor_hidden_dims=(8,), critic_hidden_dims=(8,)
        )
        small_cfg = replace(small_cfg, policy=policy)
    runs = []
    for _ in range(2):
        torch.manual_seed(5)
        runner = OnPolicyRunner(toy(), small_cfg)
        runner.learn(3)
        runs.append(weights(runner))
    assert all(torch.equal(a, b) for a, b in zip(*runs))


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("memory", [None, "gru", "lstm"])
def test_a_resumed_run_goes_on_as_if_never_stopped(small_cfg, tmp_path, normalized, memory):
    nets = {"actor_hidden_dims": (16,), "critic_hidden_dims": (16,)}
    nets.update(actor_obs_normalization=normalized, critic_obs_normalization=normalized)
    policy = (
        ActorCriticRecurrentConfig(rnn_type=memory, rnn_hidden_size=8, **nets) if memory else ActorCriticConfig(**nets)
    )
    small_cfg = replace(small_cfg, policy=policy)
    torch.manual_seed(5)
    whole = OnPolicyRunner(toy(), small_cfg)
    whole.learn(6)
    torch.manual_seed(5)
    OnPolicyRunner(toy(), small_cfg, tmp_path).learn(4)
    torch.manual_seed(99)
    resumed = OnPolicyRunner(toy(), small_cfg, tmp_path)
    resumed.load(tmp_path / "model_4.pt")
    resumed.learn(2)
    assert all(torch.equal(a, b) for a, b in zip(weights(whole), weights(resumed)))
    assert (resumed.current_learning_iteration, resumed.tot_timesteps) == (6, whole.tot_timesteps)
    lines = [json.loads(line)["iteration"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("task", ["go2_flat", "go2_flat_blind"])
def test_a_resumed_go2_goes_on_as_if_never_stopped(tmp_path, task):
    """Weights, physics and metrics, bit by bit, from another process's seeds."""
    cfg = EXPERIMENTS.load(task)()
    runner_cfg = replace(cfg.runner, num_steps_per_env=12, save_interval=2, logger="none")
    # an annealed setting depends on the last iteration, which a training that is cut here has not
    algorithm = replace(cfg.algorithm, final_desired_kl=None, final_entropy_coef=None)
    cfg = replace(cfg, env=replace(cfg.env, num_envs=16, episode_length=0.3), runner=runner_cfg, algorithm=algorithm)

    def runner(name, seed):
        torch.manual_seed(seed)
        return OnPolicyRunner(cfg.env.build(seed=seed), cfg, tmp_path / name)

    whole, cut = runner("whole", 5), runner("cut", 5)
    torch.manual_seed(6)
    whole.learn(5, init_at_random_ep_len=True)
    torch.manual_seed(6)
    cut.learn(2, init_at_random_ep_len=True)
    resumed = runner("cut", 99)
    resumed.load(tmp_path / "cut" / "model_2.pt")
    resumed.learn(3)
    assert all(torch.equal(a, b) for a, b in zip(weights(whole), weights(resumed)))
    assert torch.equal(whole.env.sim.physics_state(), resumed.env.sim.physics_state())
    clocks = {"collect_s": 0, "learn_s": 0, "steps_per_s": 0}
    a, b = (
        [{**json.loads(line), **clocks} for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("whole", "cut")
    )
    assert a == b and len(a) == 5 and a[-1]["mean_episode_length"] is not None
    fewer = replace(cfg, env=replace(cfg.env, num_envs=8))
    with pytest.raises(ValueError, match=r"environment\.sim\.state has the shape \[16, .* use the number of robots"):
        OnPolicyRunner(fewer.env.build(), fewer).load(tmp_path / "cut" / "model_2.pt")


@pytest.mark.parametrize(
    "keys, loads_alone",
    [
        (("model_state_dict", "critic.0.weight"), False),
        (("average", "model_state_dict", "actor.0.bias"), False),
        (("optimizer_state_dict", "state", 3, "exp_avg_sq"), True),
        (("learning_rate",), True),
    ],
)
def test_load_numbers_that_are_not_finite_raises(small_cfg, tmp_path, keys, loads_alone):
    """What only training needs does not keep a policy from being replayed."""
    cfg = replace(small_cfg, algorithm=replace(small_cfg.algorithm, ema_decay=0.9))
    runner = OnPolicyRunner(toy(), cfg)
    runner.learn(1)
    runner.save(tmp_path / "model_1.pt")
    state = read_checkpoint(tmp_path / "model_1.pt")
    parent = functools.reduce(lambda part, key: part[key], keys[:-1], state)
    parent[keys[-1]] = torch.as_tensor(parent[keys[-1]]).masked_fill(torch.tensor(True), float("nan"))
    write_checkpoint(tmp_path / "model_2.pt", state)
    other = OnPolicyRunner(toy(), cfg)
    before = [p.clone() for p in other.alg.policy.parameters()]
    with pytest.raises(CheckpointError, match=f"not finite, in {'.'.join(map(str, keys))};"):
        other.load(tmp_path / "model_2.pt")
    assert all(torch.equal(a, b) for a, b in zip(before, other.alg.policy.parameters()))
    if loads_alone:
        other.load(tmp_path / "model_2.pt", load_optimizer=False)


def test_infos_come_back_and_weights_can_come_alone(small_cfg, tmp_path):
    runner = OnPolicyRunner(toy(), small_cfg)
    runner.learn(1)
    runner.save(tmp_path / "model_1.pt", infos={"note": "first"})
    other = OnPolicyRunner(toy(), small_cfg)
    rate = other.alg.learning_rate
    assert other.load(tmp_path / "model_1.pt", load_optimizer=False) == {"note": "first"}
    assert all(torch.equal(a, b) for a, b in zip(weights(runner), weights(other)))
    assert other.alg.learning_rate == rate and other.alg.learner.optimizer.state_dict()["state"][0]["step"] == 0


def test_inference_takes_groups_and_tensors(small_cfg):
    env = toy()
    policy = OnPolicyRunner(env, small_cfg).get_inference_policy(device="cpu")
    obs = env.get_observations()
    assert torch.equal(policy(obs), policy(obs["policy"])) and not policy(obs).requires_grad


class InPlace(PointEnv):
    """Refreshes one observation buffer in place, as zero-copy simulators do, and speaks legged_gym's dialect."""

    def __init__(self, cfg, done_as):
        self._buffer = torch.zeros(cfg.num_envs, 1)
        self.done_as = done_as
        super().__init__(cfg)

    def get_observations(self):
        self._buffer.copy_(super().get_observations()["policy"])
        return {"policy": self._buffer}

    def step(self, actions):
        result = super().step(actions)
        return result._replace(done=self.done_as(result.done), reward=result.reward.unsqueeze(1))


@pytest.mark.parametrize(
    "done_as", [lambda d: d, lambda d: d.float(), lambda d: d.long().unsqueeze(1)], ids=["bool", "float", "column"]
)
def test_in_place_buffers_and_other_dialects_train_to_the_same_weights(small_cfg, done_as):
    torch.manual_seed(5)
    plain = OnPolicyRunner(toy(), small_cfg)
    plain.learn(3)
    torch.manual_seed(5)
    other = OnPolicyRunner(InPlace(ToyConfig(num_envs=16, episode_steps=10), done_as), small_cfg)
    other.learn(3)
    assert any("reward has the shape [16, 1]" in sentence for sentence in other.env_corrections)
    assert all(torch.equal(a, b) for a, b in zip(weights(plain), weights(other)))


class Rough(PointEnv):
    """Changes its actions in place, gives float64 observations, and junk in the rows of final_obs that do not count."""

    def get_observations(self):
        return {"policy": super().get_observations()["policy"].double()}

    def step(self, actions):
        result = super().step(actions.mul_(1.0))
        actions.fill_(float("nan"))
        final = torch.where(result.done.unsqueeze(1), result.extras["final_obs"]["policy"].double(), float("nan"))
        return result._replace(extras={**result.extras, "final_obs": {"policy": final}})


def test_what_an_environment_does_to_its_actions_and_unfinished_rows_does_not_matter(small_cfg):
    torch.manual_seed(5)
    plain = OnPolicyRunner(toy(), small_cfg)
    plain.learn(3)
    torch.manual_seed(5)
    rough = OnPolicyRunner(Rough(ToyConfig(num_envs=16, episode_steps=10)), small_cfg)
    rough.learn(3)
    assert all(torch.equal(a, b) for a, b in zip(weights(plain), weights(rough)))
    assert rough.get_inference_policy()(rough.env.get_observations()).shape == (16, 1)


class Stops(PointEnv):
    """Calls for a stop, or fails, in the middle of a rollout."""

    action = None

    def step(self, actions):
        if self.action is not None:
            action, self.action = self.action, None
            action()
        return super().step(actions)


def test_a_stop_finishes_the_iteration_and_a_failure_can_be_followed_by_learning(small_cfg, tmp_path):
    env = Stops(ToyConfig(num_envs=16, episode_steps=10))
    runner = OnPolicyRunner(env, small_cfg, tmp_path)
    runner.learn(1)
    env.action = runner.request_stop
    runner.learn(10)
    assert (
        runner.stopped_by == "request" and runner.current_learning_iteration == 2 and (tmp_path / "model_2.pt").exists()
    )

    runner.request_stop()  # before it begins: nothing is learned
    runner.learn(1)
    assert runner.current_learning_iteration == 2

    def fail():
        raise RuntimeError("the simulator is gone")

    env.action = fail
    with pytest.raises(RuntimeError, match="simulator"):
        runner.learn(1)
    runner.learn(1)
    assert runner.current_learning_iteration == 3


def test_an_inference_policy_is_a_copy_with_a_memory_of_its_own(small_cfg):
    policy = ActorCriticRecurrentConfig(
        rnn_type="lstm", rnn_hidden_size=8, actor_hidden_dims=(8,), critic_hidden_dims=(8,)
    )
    env = toy()
    runner = OnPolicyRunner(env, replace(small_cfg, policy=policy))
    runner.learn(2)
    states = [state.clone() for state in runner.alg.policy.get_hidden_states()[0]]
    acting = runner.get_inference_policy()
    one = {"policy": torch.ones(1, 1)}  # another number of robots than in training
    first, second = acting(one), acting(one)
    assert not torch.equal(first, second)
    acting.reset()
    assert torch.equal(acting(one), first)
    assert all(torch.equal(a, b) for a, b in zip(states, runner.alg.policy.get_hidden_states()[0]))
    runner.alg.policy.act_inference(torch.ones(16, 1))  # remembering with a graph is no obstacle
    runner.get_inference_policy()
    runner.learn(1)
    acting.reset()
    assert torch.equal(acting(one), first)


def test_ages_at_the_start_differ_and_stay_below_each_limit(small_cfg):
    env = toy(num_envs=200)
    env.max_episode_length = torch.arange(1, 201)
    runner = OnPolicyRunner(env, small_cfg)
    runner.collector.randomize_episode_lengths()
    assert (env.episode_length_buf < env.max_episode_length).all() and env.episode_length_buf.unique().numel() > 20


def test_groups_that_are_no_rows_are_refused(small_cfg):
    class Flat(PointEnv):
        def get_observations(self):
            return {"policy": super().get_observations()["policy"].squeeze(1)}

    with pytest.raises(ValueError, match=r"the group 'policy' has the shape \[16\]; a network reads"):
        OnPolicyRunner(Flat(ToyConfig(num_envs=16)), small_cfg)


def test_a_checkpoint_of_another_size_is_refused(small_cfg, tmp_path):
    OnPolicyRunner(toy(), small_cfg, tmp_path).learn(1)
    wider = replace(small_cfg, policy=replace(small_cfg.policy, actor_hidden_dims=(32,)))
    with pytest.raises(CheckpointError, match=r"model_1.pt does not fit the policy as configured: .*actor.0.weight"):
        OnPolicyRunner(toy(), wider).load(tmp_path / "model_1.pt")
    with pytest.raises(ValueError, match="the state has num_envs=16 and this environment has 8"):
        OnPolicyRunner(toy(num_envs=8), small_cfg).load(tmp_path / "model_1.pt")


def test_a_rollout_too_small_for_its_mini_batches_is_refused(small_cfg):
    cfg = replace(small_cfg, runner=replace(small_cfg.runner, num_steps_per_env=1))
    with pytest.raises(ValueError, match="1 environments x 1 steps has 1 steps for num_mini_batches=2"):
        OnPolicyRunner(toy(num_envs=1), cfg)


def test_going_on_leaves_the_first_account_as_it_was(small_cfg, tmp_path):
    runner = OnPolicyRunner(toy(), small_cfg, tmp_path)
    runner.learn(1)
    runner.learn(1)
    assert not list(tmp_path.glob("config_from_*"))  # the same training
    before = (tmp_path / "config.yaml").read_text()
    other = replace(small_cfg, algorithm=replace(small_cfg.algorithm, entropy_coef=0.5))
    resumed = OnPolicyRunner(toy(), other, tmp_path)
    resumed.load(tmp_path / "model_1.pt")
    resumed.learn(2)
    assert (tmp_path / "config.yaml").read_text() == before
    assert read_yaml(tmp_path / "config_from_1.yaml")["algorithm"]["entropy_coef"] == 0.5
    assert config_of(tmp_path, 0).name == "config.yaml"
    assert [config_of(tmp_path, n).name for n in (1, 3, -1)] == ["config_from_1.yaml"] * 3
    superseded = tmp_path / "superseded" / "after_1"
    assert {"model_2.pt", "metrics.jsonl"} <= {path.name for path in superseded.iterdir()}
    again = OnPolicyRunner(toy(), small_cfg, tmp_path)
    again.load(tmp_path / "model_0.pt")
    again.learn(1)
    assert config_of(tmp_path).name == "config_from_0.yaml"


def test_going_back_in_one_process_leaves_no_checkpoints_of_the_other_branch(small_cfg, tmp_path):
    first = OnPolicyRunner(toy(), small_cfg, tmp_path)
    first.learn(2)
    runner = OnPolicyRunner(toy(), small_cfg, tmp_path)
    runner.load(tmp_path / "model_2.pt")
    runner.learn(4)
    runner.save(tmp_path / "model_best.pt")
    assert (tmp_path / "config_from_2.yaml").exists()
    for back_to in (4, 0):
        runner.load(tmp_path / f"model_{back_to}.pt")
        runner.learn(1)
        kept = {path.name for path in tmp_path.glob("model_*.pt")}
        assert kept == {f"model_{i}.pt" for i in (0, 2, 4, 5) if i <= back_to} | {f"model_{back_to + 1}.pt"}
    superseded = {
        folder.name: {path.name for path in folder.iterdir() if not path.name.startswith(("events", "git"))}
        for folder in (tmp_path / "superseded").iterdir()
    }
    assert superseded == {
        "after_4": {"model_6.pt", "model_best.pt", "metrics.jsonl"},
        "after_0": {"model_2.pt", "model_4.pt", "model_5.pt", "config_from_2.yaml", "metrics.jsonl"},
    }
    assert config_of(tmp_path, 0).name == "config_from_0.yaml"  # the one before went with what it described


def test_what_looks_on_is_called_after_each_update_and_its_numbers_are_logged(small_cfg, tmp_path):
    runner = OnPolicyRunner(toy(), small_cfg, tmp_path)
    seen = []

    def look(iteration):
        seen.append((iteration, runner.current_learning_iteration, weights(runner)))
        return {"evaluation/height": 0.5 * iteration} if iteration == 2 else {}

    runner.after_update.append(look)
    runner.learn(3)
    assert [numbers[:2] for numbers in seen] == [(1, 1), (2, 2), (3, 3)]
    assert all(torch.equal(a, b) for a, b in zip(seen[-1][2], weights(runner)))  # after the update
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line.get("evaluation/height") for line in lines] == [None, 1.0, None]


def test_groups_that_the_environment_lacks_are_refused(small_cfg):
    cfg = replace(small_cfg, policy=replace(small_cfg.policy, critic_groups=("priviledged",)))
    with pytest.raises(ValueError, match="critic_groups names 'priviledged', and the environment gives policy"):
        OnPolicyRunner(toy(), cfg)


def test_a_symmetric_policy_needs_mirrors(small_cfg):
    cfg = replace(small_cfg, policy=SymmetricActorCriticConfig())
    with pytest.raises(ValueError, match="PointEnv has no mirrors"):
        OnPolicyRunner(toy(), cfg)


def test_an_unknown_logger_is_refused(small_cfg, tmp_path):
    with pytest.raises(ValueError, match=r"unknown logger 'tensorbord'.*Did you mean 'tensorboard'"):
        OnPolicyRunner(toy(), replace(small_cfg, runner=replace(small_cfg.runner, logger="tensorbord")), tmp_path)


class Endless(VecEnv):
    """Reward 1 for ever, cut into episodes of 5 steps by the clock: the value of every state is 1 / (1 - gamma)."""

    def __init__(self, say_so: bool, final_obs: bool):
        self.num_envs, self.num_actions, self.max_episode_length, self.device = 32, 1, 5, "cpu"
        self.cfg = {}
        self.say_so, self.final_obs = say_so, final_obs
        self.episode_length_buf = torch.arange(32) % 5

    def get_observations(self):
        return {"policy": torch.ones(32, 1)}

    def step(self, actions):
        self.episode_length_buf += 1
        done = self.episode_length_buf >= 5
        self.episode_length_buf[done] = 0
        extras = {"time_outs": done if self.say_so else torch.zeros_like(done)}
        if self.final_obs:
            extras["final_obs"] = self.get_observations()
        return self.get_observations(), torch.ones(32), done, extras


@pytest.mark.parametrize(("say_so", "final_obs"), [(True, True), (True, False), (False, False)])
def test_the_value_of_an_endless_task_needs_time_outs(small_cfg, say_so, final_obs):
    algorithm = replace(
        small_cfg.algorithm, gamma=0.8, learning_rate=1e-2, schedule="fixed", use_clipped_value_loss=False
    )
    runner = OnPolicyRunner(Endless(say_so, final_obs), replace(small_cfg, algorithm=algorithm))
    runner.learn(60)
    value = runner.alg.policy.evaluate(torch.ones(1, 1)).item()
    if say_so:
        assert value == pytest.approx(1 / (1 - 0.8), rel=0.05)  # the critic is a net that is still moving a little
    else:
        # Every fifth step ends for good: between the mean of the five sums, 2.31, and the fixed point 1 / 0.36.
        assert 2.2 < value < 2.9


def test_the_toy_is_solved():
    """A point that walks home at full speed and stays there loses the sum of what is left of |x| on the way."""
    cfg = LearnConfig(policy=ActorCriticConfig(actor_hidden_dims=(32, 32), critic_hidden_dims=(32, 32)))
    env = PointEnv(ToyConfig(num_envs=64, episode_steps=32))
    runner = OnPolicyRunner(env, cfg)
    runner.learn(30, init_at_random_ep_len=True)
    policy, obs, reward_sum = runner.get_inference_policy(), env.reset(), 0.0
    x = env.x.abs()
    best = 0.0
    for _ in range(31):  # the last step would show the next episode
        obs, reward, _, _ = env.step(policy(obs))
        reward_sum += reward.mean().item()
        x = (x - 0.2).clamp(min=0.0)
        best += (1 - x).mean().item()
    assert reward_sum > 0.95 * best


def test_the_console_shows_progress(small_cfg):
    from rsl_rl.loggers import ConsoleLogger

    outputs = {}
    for terminal in (False, True):
        stream = io.StringIO()
        runner = OnPolicyRunner(toy(), small_cfg)
        runner._run_log._loggers = [ConsoleLogger("toy", Console(file=stream, force_terminal=terminal, width=100))]
        runner.learn(2)
        outputs[terminal] = stream.getvalue()
    description, *iterations = outputs[False].splitlines()
    assert description.startswith("acceleration on cpu: flat Adam") and description in outputs[True]
    assert len(iterations) == 2 and "iteration 2/2" in iterations[1]
    assert "mean reward" in outputs[True] and "time left" in outputs[True] and "learning rate" in outputs[True]


@pytest.mark.parametrize(
    ("policy", "low", "high"),
    [
        (ActorCriticRecurrentConfig((16,), (16,), rnn_type="gru", rnn_hidden_size=16), 0.8, 1.0),
        pytest.param(
            ActorCriticRecurrentConfig((16,), (16,), rnn_type="lstm", rnn_hidden_size=16),
            0.8,
            1.0,
            marks=pytest.mark.slow,
        ),
        (ActorCriticConfig((32, 32), (32, 32)), 0.0, 0.2),  # without memory, the first of twelve steps and no more
    ],
    ids=["gru", "lstm", "mlp"],
)
def test_a_sign_shown_once_is_recalled_with_a_memory_and_only_then(policy, low, high):
    runner = OnPolicyRunner(
        RecallEnv(RecallConfig()), LearnConfig(policy=policy, algorithm=PPOConfig(entropy_coef=0.0))
    )
    runner.learn(25, init_at_random_ep_len=True)
    env = RecallEnv(RecallConfig(num_envs=500), seed=5)
    acting, obs, total = runner.get_inference_policy(), env.get_observations(), 0.0
    for _ in range(env.max_episode_length):
        obs, reward, done, _ = env.step(acting(obs))
        acting.reset(done)
        total += reward.mean().item()
    assert low < total / env.max_episode_length <= high


@pytest.mark.parametrize("schedule", ["fixed", "adaptive"])
@pytest.mark.parametrize("kind", ["mlp", "gru", "lstm", "lstm in chunks"])
def test_collecting_and_learning_ask_for_no_number(small_cfg, kind, schedule):
    policy = replace(small_cfg.policy, actor_obs_normalization=True, critic_obs_normalization=True)
    if kind != "mlp":
        policy = ActorCriticRecurrentConfig(
            rnn_type=kind.split()[0], rnn_hidden_size=8, actor_hidden_dims=(8,), critic_hidden_dims=(8,)
        )
    unrolling = {"unroll_len": 4, "burn_in": 1} if kind.endswith("chunks") else {}
    algorithm = replace(small_cfg.algorithm, schedule=schedule, **unrolling)
    runner = OnPolicyRunner(toy(), replace(small_cfg, policy=policy, algorithm=algorithm))
    obs = runner.env.get_observations()

    def requests(work) -> int:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            work()
        waiting = ("aten::item", "aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero")
        return sum(event.count for event in profile.key_averages() if event.key in waiting)

    assert requests(lambda: torch.ones(3).sum().item()) == 2  # it counts
    assert requests(lambda: runner.collector.collect(obs)) == 0
    assert requests(runner.alg.update) == 0


MALFORMED = {
    "a negative iteration": ({"iter": -1}, "iter=-1; a training has a number from 0"),
    "an absurd iteration": ({"iter": 10**30}, "iter=1000.*; a training has a number"),
    "a fraction of an iteration": ({"iter": 1.5}, "iter=1.5"),
    "no number as an iteration": ({"iter": "two"}, "iter='two'"),
    "an absurd counter": ({"counters": {"env_steps": -5}}, "env_steps=-5"),
    "counters of another type": ({"counters": [1]}, r"counters=\[1\] and not a dict"),
    "no state of the environment": (
        {"env": {}},
        "cannot be loaded: the entry is missing",
    ),
    "a state of the environment of another type": ({"env": [1, 2]}, "cannot be loaded"),
    "episodes of another type": ({"episodes": None}, "cannot be loaded"),
    "half a random generator": ({"rng": {"python": [3, [1], None]}}, "cannot be loaded"),
    "no random generators": ({"rng": {"python": None}}, "cannot be loaded"),
    "half a roll-back": ({"rollback": {"iteration": 1}}, "has no iteration, learning_rate, state for a roll-back"),
    "no optimiser": ({"optimizer_state_dict": None}, "does not fit the policy"),
    "weights of another type": ({"model_state_dict": [1]}, "is damaged or not a checkpoint"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_load_of_a_malformed_checkpoint_is_one_clear_error(small_cfg, tmp_path, case):
    changes, message = MALFORMED[case]
    runner = OnPolicyRunner(toy(), small_cfg, tmp_path)
    runner.learn(1)
    path = tmp_path / "changed.pt"
    write_checkpoint(path, {**read_checkpoint(tmp_path / "model_1.pt"), **changes})
    with pytest.raises(CheckpointError, match=message) as caught:
        OnPolicyRunner(toy(), small_cfg).load(path)
    assert "\n" not in str(caught.value)


def of_optimizer(group=None, moments=None):
    """Return a change of the optimiser's settings, or of the moments of its first parameter."""

    def change(state):
        state["optimizer_state_dict"]["param_groups"][0].update(group or {})
        state["optimizer_state_dict"]["state"][0].update(moments or {})

    return change


NONSENSE = {
    "betas=2": of_optimizer({"betas": (2.0, 5.0)}),
    "betas=1": of_optimizer({"betas": (0.9, 1.0)}),
    "betas=-0.1": of_optimizer({"betas": [-0.1, 0.9]}),
    "eps=-1": of_optimizer({"eps": -1.0}),
    "weight_decay=1000000000.0": of_optimizer({"weight_decay": 1e9}),
    "lr=-0.001": of_optimizer({"lr": -1e-3}),
    "maximize=1": of_optimizer({"maximize": True}),
    "step=-5": of_optimizer(moments={"step": torch.tensor(-5.0)}),
    "exp_avg_sq=-1": of_optimizer(moments={"exp_avg_sq": torch.tensor([-1.0])}),
    "learning_rate=-0.1": lambda state: state.update(learning_rate=-0.1),
    "learning_rate=10000000000.0": lambda state: state.update(learning_rate=1e10),
}


@pytest.mark.parametrize("entry", NONSENSE)
def test_load_of_an_optimiser_that_computes_nonsense_is_one_clear_error(small_cfg, tmp_path, entry):
    OnPolicyRunner(toy(), small_cfg, tmp_path).learn(1)
    state = read_checkpoint(tmp_path / "model_1.pt")
    NONSENSE[entry](state)
    write_checkpoint(tmp_path / "changed.pt", state)
    with pytest.raises(CheckpointError, match=rf"changed.pt has {entry}(\.0)? of the optimiser.*\(--init_from\)$"):
        OnPolicyRunner(toy(), small_cfg).load(tmp_path / "changed.pt")
    OnPolicyRunner(toy(), small_cfg).load(tmp_path / "changed.pt", load_optimizer=False)


TENSORS = {
    "a tensor without values": lambda x: x.to("meta"),
    "a sparse or nested tensor": lambda x: x.to_sparse(),
    "a quantized tensor": lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
    "numbers of the type float8_e4m3fn": lambda x: x.to(torch.float8_e4m3fn),
    "complex numbers": lambda x: x + 1j,
}


@pytest.mark.filterwarnings("ignore::UserWarning")  # quantized tensors are deprecated
@pytest.mark.parametrize("kind", TENSORS)
@pytest.mark.parametrize("part", ["model_state_dict", "optimizer_state_dict"])
def test_load_of_tensors_that_hold_no_plain_numbers_is_one_clear_error(small_cfg, tmp_path, kind, part):
    runner = OnPolicyRunner(toy(), small_cfg, tmp_path)
    runner.learn(1)
    state = read_checkpoint(tmp_path / "model_1.pt")
    parent = state[part] if part == "model_state_dict" else state[part]["state"][0]
    key = "actor.0.weight" if part == "model_state_dict" else "exp_avg"
    parent[key] = TENSORS[kind](parent[key])
    write_checkpoint(tmp_path / "changed.pt", state)
    with pytest.raises(CheckpointError, match=rf"changed.pt holds {kind}.*, in {part}.*{key}; use an") as caught:
        OnPolicyRunner(toy(), small_cfg).load(tmp_path / "changed.pt")
    assert "\n" not in str(caught.value)


def test_load_without_an_iteration_gives_weights_only(small_cfg, tmp_path):
    OnPolicyRunner(toy(), small_cfg, tmp_path).learn(1)
    state = read_checkpoint(tmp_path / "model_1.pt")
    del state["iter"]
    write_checkpoint(tmp_path / "changed.pt", state)
    runner = OnPolicyRunner(toy(), small_cfg)
    with pytest.raises(CheckpointError, match=r"changed.pt has no iteration \(iter\).*--init_from"):
        runner.load(tmp_path / "changed.pt")
    runner.load(tmp_path / "changed.pt", load_optimizer=False)
    assert torch.equal(runner.alg.policy.state_dict()["actor.0.weight"], state["model_state_dict"]["actor.0.weight"])


@pytest.mark.parametrize("threads", [None, 1, 3])
def test_resume_with_another_number_of_threads_prints_a_note(small_cfg, tmp_path, capsys, threads):
    OnPolicyRunner(toy(), small_cfg, tmp_path).learn(1)
    state = read_checkpoint(tmp_path / "model_1.pt")
    assert state["threads"] == torch.get_num_threads()
    state["threads"] = threads
    write_checkpoint(tmp_path / "model_1.pt", {k: v for k, v in state.items() if v is not None or k != "threads"})
    resumed = OnPolicyRunner(toy(), small_cfg, tmp_path)
    resumed.load(tmp_path / "model_1.pt")
    capsys.readouterr()
    resumed.learn(1)
    note = f"note: the checkpoint is of a process with {threads} threads and this one has {torch.get_num_threads()}"
    assert capsys.readouterr().out.count(note) == (threads not in (None, torch.get_num_threads()))

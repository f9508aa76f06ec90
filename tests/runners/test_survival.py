"""What a training outlasts, and what it says when it cannot go on."""

import json
import math
import subprocess
import types
from dataclasses import replace

import numpy
import pytest
import torch

from rsl_rl.config.learn import SafetyConfig
from rsl_rl.config.policy import ActorCriticRecurrentConfig
from rsl_rl.config.task import ToyConfig
from rsl_rl.env import VecEnv
from rsl_rl.env.step_validator import StepValidator
from rsl_rl.runners import OnPolicyRunner, TrainingError
from rsl_rl.tasks.toy import PointEnv
from rsl_rl.utils import tensors
from rsl_rl.utils.checkpoints import read_checkpoint

TOY = ToyConfig(num_envs=16, episode_steps=10)


@pytest.fixture(params=["cpu", "gpu"])
def asks(request, monkeypatch):
    """On a CPU the validator skips work where nothing broke; on a GPU it does not, and that is tested here too."""
    if request.param == "gpu":
        monkeypatch.setattr(StepValidator, "is_sound_on_cpu", lambda self, numbers, masks: False)
        monkeypatch.setattr(tensors, "none_on_cpu", lambda mask: False)


class Faulty(PointEnv):
    """A toy that alters some of its steps, counted from 0, on the way out, once training has begun."""

    def __init__(self, alter, steps, cfg=TOY):
        super().__init__(cfg)
        self.alter, self.steps, self.time = alter, steps, None

    def step(self, actions):
        result = super().step(actions)
        if self.time is not None:
            if self.time in self.steps:
                result = self.alter(self, result)
            self.time += 1
        return result


def no_reward(env, result):
    reward = result.reward.clone()
    reward[3] = math.nan
    return result._replace(reward=reward)


def no_observation(env, result):
    obs = result.obs["policy"].clone()
    obs[3] = math.inf
    return result._replace(obs={"policy": obs})


def nothing_at_all(env, result):
    return result._replace(reward=result.reward * math.nan)


def train(cfg, env, folder=None, iterations=6):
    torch.manual_seed(5)
    runner = OnPolicyRunner(env, cfg, folder)
    env.time = 0
    runner.learn(iterations)
    return runner


def records_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def all_finite(runner):
    return all(torch.isfinite(p).all() for p in runner.alg.policy.parameters())


@pytest.mark.usefixtures("asks")
@pytest.mark.parametrize(("step", "faults"), [(3, 0), (20, 1)], ids=["before there are statistics", "later"])
def test_one_finite_outlier_with_normalisation_changes_the_statistics_little(small_cfg, tmp_path, step, faults):
    def outlier(env, result):
        obs = result.obs["policy"].clone()
        obs[3, 0] = 9.9e5
        return result._replace(obs={"policy": obs})

    policy = replace(small_cfg.policy, actor_obs_normalization=True, critic_obs_normalization=True)
    runner = train(replace(small_cfg, policy=policy), Faulty(outlier, {step}), tmp_path)
    assert sum(record["faults/observation"] for record in records_of(tmp_path)) == faults
    assert runner.alg.policy.actor_obs_normalizer.var.sqrt().max() < 20 and all_finite(runner)


@pytest.mark.parametrize("memory", [False, True])
def test_looking_first_changes_nothing(small_cfg, monkeypatch, memory):
    if memory:
        small_cfg = with_memory(small_cfg)
    weights = []
    for looks in (True, False):
        if not looks:
            monkeypatch.setattr(StepValidator, "is_sound_on_cpu", lambda self, numbers, masks: False)
        runner = train(small_cfg, Faulty(no_reward, {11}))
        weights.append(torch.cat([p.detach().flatten() for p in runner.alg.policy.parameters()]))
    assert torch.equal(*weights)


def with_memory(cfg):
    nets = {"actor_hidden_dims": (8,), "critic_hidden_dims": (8,)}
    return replace(cfg, policy=ActorCriticRecurrentConfig(rnn_type="gru", rnn_hidden_size=8, **nets))


@pytest.mark.usefixtures("asks")
def test_an_environment_may_name_causes_as_the_validator_does(small_cfg, tmp_path):
    def says_so(env, result):
        broken = torch.arange(16) == 3
        return result._replace(done=result.done | broken, extras={**result.extras, "invalid": {"reward": broken}})

    nothing = {"reward": torch.zeros(16, dtype=torch.bool)}
    env = Faulty(says_so, {10})
    step = env.step
    env.step = lambda actions: (lambda r: r._replace(extras={"invalid": nothing, **r.extras}))(step(actions))
    train(small_cfg, env, tmp_path)
    assert [record["faults/reward"] for record in records_of(tmp_path)] == [0, 1, 0, 0, 0, 0]


@pytest.mark.usefixtures("asks")
def test_a_broken_reward_is_left_out_counted_and_told(small_cfg, tmp_path, capsys):
    runner = train(small_cfg, Faulty(no_reward, {10, 11}), tmp_path)
    records = records_of(tmp_path)
    assert [record["faults/reward"] for record in records] == [0, 2, 0, 0, 0, 0]
    assert [record["excluded_steps"] for record in records] == [0, 2, 0, 0, 0, 0]
    assert all(record["skipped_steps"] == 0 and math.isfinite(record["mean_reward"] or 0) for record in records)
    assert all_finite(runner)
    line = "fault: reward (nan) in environment 3, iteration 2, step 2; 2 such steps in this iteration are masked"
    assert capsys.readouterr().out.count(line) == 1
    case = torch.load(tmp_path / "postmortem" / "reward_2.pt", weights_only=True)
    assert (case["cause"], case["environment"], case["step"]) == ("reward", 3, 2)
    assert math.isnan(case["seen_by_learner"]["reward"]) and case["env"] is None
    assert json.loads((tmp_path / "postmortem" / "reward_2.json").read_text())["seen_by_learner"]["reward"] == "nan"


@pytest.mark.usefixtures("asks")
@pytest.mark.parametrize("memory", [False, True])
def test_after_a_broken_observation_the_next_step_is_left_out_too_and_the_environment_is_reset(
    small_cfg, tmp_path, memory
):
    if memory:
        small_cfg = with_memory(small_cfg)
    env = Faulty(no_observation, {7, 12})  # the last step of a rollout, and one in the middle
    asked = []
    reset = env.reset
    env.reset = lambda ids=None: asked.append(ids.tolist()) or reset(ids)
    runner = train(small_cfg, env, tmp_path)
    records = records_of(tmp_path)
    assert [record["faults/observation"] for record in records] == [1, 1, 0, 0, 0, 0]
    # After the first rollout the environment is reset, and its next observation is sound.
    assert [record["excluded_steps"] for record in records] == [1, 2, 0, 0, 0, 0]
    assert asked == [[3], [3]] and all_finite(runner)
    for state in (s for s in runner.alg.policy.get_hidden_states() if s is not None):
        assert torch.isfinite(state if isinstance(state, torch.Tensor) else torch.stack(state)).all()


@pytest.mark.usefixtures("asks")
def test_nothing_of_a_broken_environment_reaches_the_gradient(small_cfg):
    """Updates in which one environment gives other numbers, and breaks in every step: the same gradients."""
    one_step = replace(small_cfg.algorithm, num_learning_epochs=1, num_mini_batches=1)
    gradients = []
    for junk in (0.0, 5.0):

        def other(env, result, junk=junk):
            return no_reward(env, result._replace(reward=result.reward + junk * (torch.arange(16) == 3)))

        runner = train(replace(small_cfg, algorithm=one_step), Faulty(other, set(range(8))), iterations=1)
        gradients.append(torch.cat([p.grad.flatten() for p in runner.alg.policy.parameters()]))
    sound = train(replace(small_cfg, algorithm=one_step), Faulty(no_reward, ()), iterations=1)
    torch.testing.assert_close(*gradients, atol=1e-7, rtol=1e-6)
    whole = torch.cat([p.grad.flatten() for p in sound.alg.policy.parameters()])
    assert gradients[0].abs().max() > 1e-3 and (gradients[0] - whole).abs().max() > 1e-4  # it is one less


@pytest.mark.usefixtures("asks")
def test_an_environment_that_is_reset_begins_with_an_empty_memory_and_a_new_count(small_cfg):
    cfg = replace(with_memory(small_cfg), runner=replace(small_cfg.runner, num_steps_per_env=8))
    env = Faulty(no_reward, {2}, replace(TOY, episode_steps=100))
    seen = []
    reset = env.reset
    env.reset = lambda env_ids=None: seen.append(env_ids.tolist()) or reset(env_ids)
    runner = train(cfg, env, iterations=1)
    assert seen == [[3]]
    state = runner.alg.policy.get_hidden_states()[0]
    sizes = (state if isinstance(state, torch.Tensor) else state[0])[0].abs().sum(dim=1)
    assert sizes[3] == 0 and (sizes > 0).sum() > 8
    assert runner.collector.stats.state_dict()["length"][3] == 0 and env.episode_length_buf[3] == 0


@pytest.mark.usefixtures("asks")
def test_causes_that_are_named_only_when_they_happen_are_counted_too(small_cfg, tmp_path, capsys):
    def stops_now_and_then(env, result):
        broken = torch.arange(16) == 5
        sound = no_reward(env, result) if env.time == 12 else result
        return sound._replace(done=sound.done | broken, extras={**sound.extras, "invalid": {"engine": broken}})

    train(
        small_cfg,
        Faulty(lambda env, r: (no_reward if env.time == 10 else stops_now_and_then)(env, r), {10, 12}),
        tmp_path,
    )
    record = records_of(tmp_path)[1]
    assert (record["faults/engine"], record["faults/reward"], record["excluded_steps"]) == (1, 2, 3)
    said = capsys.readouterr().out
    assert "fault: engine in environment 5" in said and "fault: reward (nan) in environment 3" in said
    assert {path.name for path in (tmp_path / "postmortem").glob("*.pt")} == {"engine_2.pt", "reward_2.pt"}


@pytest.mark.parametrize("cause", ["../../out", "/tmp/out", "a/b", "\x1b[31m", "c" * 300])
def test_dump_of_a_cause_of_any_name_is_in_the_folder(small_cfg, tmp_path, cause):
    def breaks(env, result):
        broken = torch.arange(16) == 5
        return result._replace(done=result.done | broken, extras={**result.extras, "invalid": {cause: broken}})

    run = tmp_path / "logs" / "run"
    train(small_cfg, Faulty(breaks, {10}), run)
    (dump,) = (run / "postmortem").glob("*.pt")
    assert torch.load(dump, weights_only=True)["cause"] == cause and dump.name.endswith("_2.pt")
    assert [path.name for path in tmp_path.iterdir()] == ["logs"] and list((tmp_path / "logs").iterdir()) == [run]


def test_an_environment_that_fails_to_explain_itself_ends_nothing(small_cfg, tmp_path, capsys):
    env = Faulty(no_reward, {10})
    env.postmortem = lambda cause: {}[cause]
    train(small_cfg, env, tmp_path)
    said = capsys.readouterr().out
    assert "warning: the environment's postmortem('reward') failed: KeyError" in said and "fault: reward" in said


@pytest.mark.usefixtures("asks")
@pytest.mark.parametrize(
    "reset",
    [None, lambda: None, lambda seed=None, options=None: 1 / 0, VecEnv.reset],
    ids=["none", "of all alone", "by a seed", "not implemented"],
)
def test_an_environment_that_cannot_be_reset_is_left_out_while_it_is_broken(small_cfg, tmp_path, reset):
    env = Faulty(no_observation, set(range(8, 30)))
    env.reset = types.MethodType(reset, env) if reset is VecEnv.reset else reset
    runner = train(small_cfg, env, tmp_path)
    assert [record["excluded_steps"] for record in records_of(tmp_path)] == [0, 8, 8, 7, 0, 0] and all_finite(runner)


def test_a_learner_that_loses_itself_goes_back_with_a_lower_step_size(small_cfg, tmp_path, capsys):
    cfg = replace(
        small_cfg,
        algorithm=replace(small_cfg.algorithm, schedule="fixed", learning_rate=1e-3),
        safety=SafetyConfig(max_skipped_steps=6, rollback_factor=0.25),
    )
    env = Faulty(nothing_at_all, set(range(16, 32)))  # all of the third and fourth rollout: 8 gradient steps
    runner = train(cfg, env, tmp_path)
    assert [record["skipped_steps"] for record in records_of(tmp_path)] == [0, 0, 4, 4, 0, 0]
    assert "rollback to the learner of iteration 2, learning rate 0.00025 (rollback 1 of 3)" in capsys.readouterr().out
    assert runner.alg.learning_rate == pytest.approx(2.5e-4) and all_finite(runner)
    good = read_checkpoint(tmp_path / "model_2.pt")["model_state_dict"]
    back = read_checkpoint(tmp_path / "model_4.pt")
    assert all(torch.equal(good[name], value) for name, value in back["model_state_dict"].items())
    assert back["counters"]["rollbacks"] == 1 and back["learning_rate"] == pytest.approx(2.5e-4)


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_resume_before_a_rollback_goes_back_to_the_same_state(small_cfg, tmp_path, stop):
    """The good state is of iteration 2, and the gradient steps of iterations 3 and 4 fail."""
    cfg = replace(small_cfg, safety=SafetyConfig(max_skipped_steps=6))
    failing = set(range(16, 32))
    whole = train(cfg, Faulty(nothing_at_all, failing), tmp_path / "whole", iterations=6)
    train(cfg, Faulty(nothing_at_all, failing), tmp_path / "cut", iterations=stop)
    env = Faulty(nothing_at_all, failing)
    resumed = OnPolicyRunner(env, cfg, tmp_path / "cut")
    resumed.load(tmp_path / "cut" / f"model_{stop}.pt")
    env.time = 8 * stop
    resumed.learn(6 - stop)
    assert ("rollback" in read_checkpoint(tmp_path / "cut" / f"model_{stop}.pt")) == (stop != 2)
    pairs = zip(resumed.alg.policy.parameters(), whole.alg.policy.parameters())
    assert all(torch.equal(a, b) for a, b in pairs)


def test_the_way_back_is_to_the_last_state_with_a_step_taken(small_cfg, tmp_path, capsys):
    cfg = replace(small_cfg, safety=SafetyConfig(max_skipped_steps=6))
    env = Faulty(nothing_at_all, set(range(32, 48)))
    torch.manual_seed(5)
    runner = OnPolicyRunner(env, cfg, tmp_path)
    gather, calls = runner.alg.storage.batches.gather, []

    def one_in_four_overflows(indices):
        calls.append(None)
        if len(calls) % 4 == 0:
            runner.alg.storage.groups["policy"].fill_(math.inf)
        return gather(indices)

    runner.alg.storage.batches.gather = one_in_four_overflows
    env.time = 0
    runner.learn(6)
    assert [record["skipped_steps"] for record in records_of(tmp_path)][:4] == [1, 1, 1, 1]
    assert "rollback to the learner of iteration 4" in capsys.readouterr().out


def test_a_learner_that_keeps_losing_itself_fails_and_says_so(small_cfg, tmp_path):
    cfg = replace(small_cfg, safety=SafetyConfig(max_skipped_steps=4, max_rollbacks=2))
    with pytest.raises(TrainingError, match=r"4 gradient steps in a row .* after 2 of 2 rollbacks.*learning_rate"):
        train(cfg, Faulty(nothing_at_all, set(range(16, 1000))), tmp_path, iterations=50)
    assert [record["iteration"] for record in records_of(tmp_path)] == [1, 2, 3, 4, 5]
    assert sorted(path.name for path in tmp_path.glob("model_*.pt")) == ["model_0.pt", "model_2.pt", "model_4.pt"]


def test_old_checkpoints_are_deleted_as_asked(small_cfg, tmp_path):
    cfg = replace(small_cfg, runner=replace(small_cfg.runner, save_interval=1, keep_last=2, keep_every=4))
    train(cfg, Faulty(no_reward, ()), tmp_path, iterations=7)
    assert sorted(path.name for path in tmp_path.glob("model_*.pt")) == [
        f"model_{iteration}.pt" for iteration in (0, 4, 6, 7)
    ]


def test_the_clock_ends_a_training(small_cfg, tmp_path):
    cfg = replace(small_cfg, runner=replace(small_cfg.runner, max_time=0.5, save_interval=10**6))
    runner = train(cfg, Faulty(no_reward, ()), tmp_path, iterations=10**6)
    assert runner.stopped_by == "max_time"
    assert (tmp_path / f"model_{runner.current_learning_iteration}.pt").exists()
    runner.cfg = replace(runner.cfg, max_time=0.0)
    runner.learn(1)
    assert runner.stopped_by is None


def test_recent_episodes_are_remembered_though_the_environment_forgets(small_cfg, tmp_path):
    env = Faulty(no_reward, ())
    env.state_dict = None
    runner = train(small_cfg, env, tmp_path, iterations=2)
    other = OnPolicyRunner(Faulty(no_reward, ()), small_cfg)
    other.episodes_restored = True
    other.load(tmp_path / "model_2.pt")
    assert not other.episodes_restored and other.collector.recent.means() == runner.collector.recent.means() != (
        None,
        None,
    )


def test_a_state_that_no_checkpoint_can_hold_is_refused_before_training(small_cfg, tmp_path):
    env = Faulty(no_reward, ())
    env.state_dict = lambda: {"poses": [numpy.zeros(3)]}
    with pytest.raises(
        ValueError, match=r"state_dict\(\)\['poses'\]\[0\] is a numpy.ndarray, which a checkpoint cannot"
    ):
        OnPolicyRunner(env, small_cfg)
    with pytest.raises(ValueError, match=r"the checkpoint\['infos'\]\['return'\] is a numpy.float64"):
        OnPolicyRunner(Faulty(no_reward, ()), small_cfg).save(tmp_path / "model_1.pt", {"return": numpy.float64(1)})


@pytest.fixture
def small_disk(tmp_path):
    """A disk of one megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], check=False)
    if mounted.returncode != 0:
        pytest.skip("mounting a small disk needs root")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_stops_no_training(small_cfg, small_disk, capsys):
    cfg = replace(small_cfg, runner=replace(small_cfg.runner, save_interval=2, logger="tensorboard"))
    run = small_disk / "run"

    class Filling(Faulty):
        """Fills the disk after the first checkpoints, and makes room again later."""

        def step(self, actions):
            if self.time == 8 * 5:
                with (small_disk / "full").open("wb", buffering=0) as file, pytest.raises(OSError):
                    while True:
                        file.write(b"0" * 1024)
            if self.time == 8 * 12:
                (small_disk / "full").unlink()
            return super().step(actions)

    runner = train(cfg, Filling(no_reward, ()), run, iterations=15)
    said = capsys.readouterr().out
    attempts = [line for line in said.splitlines() if "could not be saved" in line]
    # At 6, then after pauses of 1, 2 and 2 iterations, until there is room: one line each.
    assert [line.split()[1] for line in attempts] == [
        "model_6.pt",
        "model_7.pt",
        "model_8.pt",
        "model_10.pt",
        "model_12.pt",
    ]
    assert all("No space left" in line and "next attempt after iteration" in line for line in attempts)
    assert "JsonlLogger cannot write" in said and "JsonlLogger writes again" in said
    assert [record["iteration"] for record in records_of(run)] == list(range(1, 16))
    kept = {path.name for path in run.glob("model_*.pt")}
    assert {"model_0.pt", "model_2.pt", "model_4.pt", "model_14.pt", "model_15.pt"} <= kept
    assert all(read_checkpoint(path)["iter"] >= 0 for path in run.glob("model_*.pt")) and not list(run.glob(".*.part"))
    assert runner.current_learning_iteration == 15


def test_a_last_checkpoint_that_cannot_be_saved_is_a_failure(small_cfg, tmp_path):
    run = tmp_path / "run"

    class Vanishing(Faulty):
        def step(self, actions):
            if self.time == 10:
                import shutil

                shutil.rmtree(run)
            return super().step(actions)

    with pytest.raises(TrainingError, match="iteration 3 could not be saved in"):
        train(small_cfg, Vanishing(no_reward, ()), run, iterations=3)

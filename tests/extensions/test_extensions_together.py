"""Random network distillation, symmetry and a third extension in one algorithm."""

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch
from pair_env import PairEnv
from torch.utils._python_dispatch import TorchDispatchMode

from rsl_rl.algorithms.extension import Extension, Extensions
from rsl_rl.algorithms.ppo import PPO
from rsl_rl.config.extensions import ExtensionConfig, RNDConfig, SymmetryConfig
from rsl_rl.config.learn import AccelerationConfig
from rsl_rl.config.policy import ActorCriticConfig, ActorCriticRecurrentConfig
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.utils.config_io import from_dict, to_dict

NETS = {"actor_hidden_dims": (8,), "critic_hidden_dims": (8,)}
POLICIES = {
    "mlp": (ActorCriticConfig(**NETS, actor_obs_normalization=True), {}),
    "gru": (ActorCriticRecurrentConfig(**NETS, rnn_type="gru", rnn_hidden_size=4), {}),
    "lstm in chunks": (
        ActorCriticRecurrentConfig(**NETS, rnn_type="lstm", rnn_hidden_size=4), {"unroll_len": 3, "burn_in": 1},
    ),
}  # fmt: skip
BOTH = (RNDConfig(), SymmetryConfig(use_mirror_loss=True, mirror_loss_coeff=0.5))


class Third(Extension):
    """Double the reward so far, append the samples so far once more, and add a loss."""

    def __init__(self):
        self.calls, self.sizes = [], []

    @classmethod
    def from_env(cls, cfg, env, policy, device):
        return cls()

    def reward(self, transition, next_obs, dones):
        return transition.columns["rewards"].clone()

    def finish_rollout(self, storage):
        self.calls.append("finish_rollout")

    def transform(self, batch):
        self.calls.append("transform")
        size = batch.sample_mask.shape[-2]
        self.sizes.append((size, batch.num_original))
        repeated = {name: x if x.dim() < 2 else torch.cat((x, x), dim=-2) for name, x in batch.columns.items()}
        groups = {name: torch.cat((x, x)) for name, x in batch.groups.items()}
        return batch.replace(groups=groups, columns=repeated, num_original=batch.num_original or size)

    def losses(self, policy, batch):
        self.calls.append("losses")
        self.sizes.append((batch.sample_mask.shape[-2], batch.num_original))
        return {"third_loss": policy.actor[0].weight.square().sum()}

    def learn(self, batch):
        self.calls.append("learn")
        return {"third_size": torch.tensor(float(batch.sample_mask.shape[-2]))}

    def update(self, storage):
        self.calls.append("update")
        return {"third_update": torch.tensor(7.0)}


@dataclass(frozen=True)
class ThirdConfig(ExtensionConfig):
    builds: ClassVar[str] = "test_extensions_together:Third"


@pytest.fixture
def make_runner(small_cfg):
    def make(policy="mlp", extensions=BOTH, log_dir=None, device="cpu", **settings):
        nets, chunks = POLICIES[policy]
        cfg = replace(
            small_cfg, policy=nets, extensions=extensions, algorithm=replace(small_cfg.algorithm, **chunks), **settings
        )
        return OnPolicyRunner(PairEnv(device=device), cfg, log_dir, device)

    return make


def test_three_extensions_work_in_their_order(make_runner):
    torch.manual_seed(1)
    runner = make_runner(extensions=(*BOTH, ThirdConfig()))
    rnd, _, third = runner.alg.extensions.all
    records = []
    runner.write = records.append
    runner.learn(1)
    num_samples = 8 * 8 // 2  # of a mini-batch: environments x steps / mini-batches
    assert third.calls == ["finish_rollout", *["learn", "transform", "losses"] * 4, "update"]
    assert third.sizes == [(2 * num_samples, num_samples), (4 * num_samples, num_samples)] * 4
    expected = {"rnd_loss", "symmetry_loss", "third_loss", "intrinsic_reward", "rnd_weight"}
    assert expected <= set(records[0]) and records[0]["third_update"] == 7.0
    assert records[0]["third_size"] == num_samples and rnd.num_steps == 8


@pytest.mark.parametrize("extensions", [(*BOTH, ThirdConfig()), (ThirdConfig(), *BOTH)], ids=["last", "first"])
def test_rewards_of_extensions_are_added_in_their_order(make_runner, extensions):
    alg = make_runner(extensions=extensions).alg
    obs = {"policy": torch.randn(8, 3), "critic": torch.randn(8, 2)}
    alg.act(obs)
    alg.process_env_step(torch.ones(8), torch.zeros(8), {}, obs)
    rnd = next(extension for extension in alg.extensions.all if hasattr(extension, "predictor"))
    intrinsic = rnd.update(alg.storage)["intrinsic_reward"]
    doubled_too = isinstance(alg.extensions.all[-1], Third)
    expected = 2 * (1 + intrinsic) if doubled_too else 2 + intrinsic
    torch.testing.assert_close(alg.storage.columns["rewards"][0].mean(), expected)


@pytest.mark.parametrize("order", ["third first", "third last"])
def test_symmetry_loss_does_not_depend_on_samples_that_others_append(make_runner, order):
    losses = []
    for extensions in (BOTH, (ThirdConfig(), *BOTH) if order == "third first" else (*BOTH, ThirdConfig())):
        torch.manual_seed(1)
        alg = make_runner(extensions=extensions).alg
        policy, batch = alg.policy, filled(alg)
        for extension in alg.extensions.transforming:
            batch = extension.transform(batch)
        policy.update_distribution(batch.groups)
        for extension in alg.extensions.with_losses:
            found = extension.losses(policy, batch)
            losses += [found["symmetry_loss"]] if "symmetry_loss" in found else []
    assert losses[0] > 0
    torch.testing.assert_close(losses[1], losses[0])


class Taker(Extension):
    """Give a loss and metrics by names that may be taken."""

    def __init__(self, losses=(), learned=(), updated=()):
        self._losses, self._learned, self._updated = losses, learned, updated

    def losses(self, policy, batch):
        return {name: policy.actor[0].weight.square().sum() for name in self._losses}

    def learn(self, batch):
        return {name: torch.zeros(()) for name in self._learned}

    def update(self, storage):
        return {name: torch.zeros(()) for name in self._updated}


class OtherTaker(Taker):
    """Another class, whose names get no suffix."""


@pytest.mark.parametrize(
    "takers, name",
    [
        ([Taker(losses=["value_loss"])], "value_loss"),
        ([Taker(losses=["mine"]), OtherTaker(losses=["mine"])], "mine"),
        ([Taker(learned=["mine"]), OtherTaker(losses=["mine"])], "mine"),
        ([Taker(learned=["mine"]), OtherTaker(updated=["mine"])], "mine"),
        ([Taker(updated=["learning_rate"])], "learning_rate"),
    ],
)
def test_extensions_metric_name_taken_raises(make_runner, takers, name):
    runner = make_runner(extensions=())
    runner.alg.learner.extensions = Extensions(takers)
    with pytest.raises(ValueError, match=f"'{name}'.*taken; rename it"):
        runner.learn(1)


def filled(alg):
    """A mini-batch of a rollout of random numbers."""
    generator = torch.Generator().manual_seed(3)
    for group in (*alg.storage.groups.values(), alg.storage.columns["actions"]):
        group.copy_(torch.randn(group.shape, generator=generator))
    list(alg.storage.batches.shuffled(1, 1))
    return alg.storage.batches.gather(torch.arange(20))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_checkpoint_with_extensions_resumes_bit_by_bit(make_runner, tmp_path, policy):
    torch.manual_seed(1)
    first = make_runner(policy, log_dir=tmp_path / "a")
    first.learn(3)
    first.save(tmp_path / "model.pt")
    first.learn(2)
    torch.manual_seed(2)
    second = make_runner(policy)
    second.load(tmp_path / "model.pt")
    assert second.episodes_restored
    second.learn(2)
    ours, theirs = (tensors(runner.alg.state_dict()) for runner in (first, second))
    assert len(ours) == len(theirs) > 60 and all(torch.equal(a, b) for a, b in zip(ours, theirs))


def tensors(state):
    if isinstance(state, torch.Tensor):
        return [state]
    if isinstance(state, (dict, list, tuple)):
        return [x for item in (state.values() if isinstance(state, dict) else state) for x in tensors(item)]
    return []


def test_a_checkpoint_with_extensions_loads_for_another_number_of_environments(make_runner, small_cfg, tmp_path):
    runner = make_runner("gru", log_dir=tmp_path / "a")
    runner.learn(2)
    runner.save(tmp_path / "model.pt")
    other = OnPolicyRunner(PairEnv(num_envs=5), runner.train_cfg)
    other.load(tmp_path / "model.pt", load_env=False)
    other.learn(2)
    assert all(x.isfinite().all() for x in tensors(other.alg.state_dict()))


def test_configs_of_extensions_survive_yaml(small_cfg):
    cfg = replace(small_cfg, extensions=BOTH)
    assert from_dict(type(cfg), to_dict(cfg)) == cfg


def test_a_run_with_a_rollback_goes_on(make_runner):
    runner = make_runner("gru")
    runner.learn(1)
    alg = runner.alg
    good = alg.state_dict()
    alg.restart_from(good, 1e-4)
    runner.learn(1)
    assert all(x.isfinite().all() for x in tensors(alg.state_dict()))


SYNCHRONISING = {"_local_scalar_dense", "nonzero", "is_nonzero", "equal", "masked_select", "unique_dim", "_unique2"}


class CountSynchronisations(TorchDispatchMode):
    """Count the operations for which the host would wait for a GPU."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.__name__.split(".")[0]
        boolean_index = name in ("index", "index_put_", "index_put") and any(
            index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1]
        )
        if name in SYNCHRONISING or boolean_index:
            self.found.append(name)
        return func(*args, **(kwargs or {}))


def iterate(alg, env, obs):
    """Collect a rollout and learn from it, without the runner."""
    alg.begin_rollout()
    for _ in range(alg.storage.num_steps):
        result = env.step(alg.act(obs))
        obs = result.obs
        valid = torch.ones_like(result.done)
        extras = {"time_outs": result.extras["time_outs"], "final_obs": result.extras["final_obs"], "valid": valid}
        alg.process_env_step(result.reward, result.done, extras, obs)
    alg.compute_returns(obs)
    alg.update()
    return obs


def test_count_synchronisations_finds_them():
    x = torch.arange(3.0)
    with CountSynchronisations() as mode:
        x.sum().item()
        x[x > 1]
        x.nonzero()
        bool((x > 1).any())
    assert len(mode.found) == 4


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("extensions", [(), BOTH, (SymmetryConfig(use_data_augmentation=False),)])
def test_an_iteration_with_extensions_asks_the_device_for_nothing(make_runner, policy, extensions):
    runner = make_runner(policy, extensions)
    obs = iterate(runner.alg, runner.env, runner.env.get_observations())
    with CountSynchronisations() as mode:
        iterate(runner.alg, runner.env, obs)
    assert mode.found == []


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("policy", POLICIES)
def test_an_iteration_with_extensions_waits_for_no_gpu(make_runner, policy):
    runner = make_runner(policy, device="cuda")
    runner.learn(2)
    torch.cuda.set_sync_debug_mode("error")  # a synchronisation raises
    try:
        iterate(runner.alg, runner.env, runner.env.get_observations())
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("policy", POLICIES)
def test_extensions_in_cuda_graphs_compute_the_same(make_runner, policy):
    found = []
    for cuda_graphs in (False, True):
        torch.manual_seed(1)
        runner = make_runner(policy, device="cuda", acceleration=AccelerationConfig(cuda_graphs=cuda_graphs))
        runner.learn(4)
        found.append(tensors(runner.alg.state_dict()))
    for plain, graphed in zip(*found):
        torch.testing.assert_close(graphed, plain, atol=1e-4, rtol=1e-3)  # other kernels may be picked


def test_extensions_that_read_the_same_class_twice_keep_states_apart(make_runner):
    two = (RNDConfig(num_outputs=3), RNDConfig(num_outputs=5))
    runner, records = make_runner(extensions=two), []
    runner.write = records.append
    runner.learn(1)
    assert records[0]["rnd_loss"] != records[0]["rnd_loss_2"] and records[0]["intrinsic_reward_2"] > 0
    state = runner.alg.extensions.state_dict()
    assert list(state) == ["0_RandomNetworkDistillation", "1_RandomNetworkDistillation"]
    assert isinstance(runner.alg, PPO)

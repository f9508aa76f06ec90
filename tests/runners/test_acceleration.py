"""Faster ways to compute must compute the same."""

import pytest
import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from rsl_rl.algorithms import PPO
from rsl_rl.config.learn import AccelerationConfig
from rsl_rl.modules import ActorCritic, ActorCriticRecurrent
from rsl_rl.runners.acceleration import accelerate
from rsl_rl.utils.replay_graph import GraphedFunction, Recording, own_tensors

T, N, D, C, A = 6, 10, 3, 4, 2
NETS = {"actor_hidden_dims": (16, 8), "critic_hidden_dims": (16, 8)}


class GraphOnCpu(GraphedFunction):
    """Behaves as a CUDA graph does where it matters to callers: inputs and outputs keep their places, and what Python
    assigned is as it was when the recording was made."""

    def __init__(self, function, policy):
        super().__init__(function, torch.device("cpu"))
        self._policy = policy

    def _run_aside(self, arguments):
        return self._function(*arguments)

    def _record(self, arguments):
        inputs, own_arguments = own_tensors(arguments)
        recording = Recording(inputs, None, None)

        def run():
            assigned = self._policy.get_hidden_states()
            results = self._function(*own_arguments)
            self._policy.set_hidden_states(assigned)  # a replay assigns nothing
            if recording.results is None:
                leaves, structure = tree_flatten(results)
                copies = [x.clone() if isinstance(x, torch.Tensor) else x for x in leaves]
                recording.results = tree_unflatten(copies, structure)
            for own, result in zip(tree_flatten(recording.results)[0], tree_flatten(results)[0]):
                if isinstance(own, torch.Tensor):
                    own.copy_(result)

        recording.run = run
        return recording


def make(kind, **settings) -> PPO:
    torch.manual_seed(3)
    if kind == "mlp":
        net = ActorCritic(D, C, A, **NETS)
    else:
        net = ActorCriticRecurrent(D, C, A, rnn_type=kind, rnn_hidden_size=5, **NETS)
    ppo = PPO(net, num_mini_batches=3, num_learning_epochs=2, **settings)  # mini-batches of two sizes
    ppo.init_storage(N, T, [D], [C], [A])
    return ppo


def train(ppo, num_iterations=3) -> list:
    torch.manual_seed(4)
    metrics = []
    for _ in range(num_iterations):
        for _ in range(T):
            ppo.act(torch.randn(N, D), torch.randn(N, C))
            ppo.process_env_step(torch.randn(N), torch.rand(N) < 0.3, {"time_outs": torch.rand(N) < 0.5})
        ppo.compute_returns(torch.randn(N, C))
        metrics.append(ppo.update())
    return metrics


@pytest.mark.parametrize("settings", [{}, {"unroll_len": 4, "burn_in": 1}], ids=["whole", "chunks"])
@pytest.mark.parametrize("kind", ["mlp", "gru", "lstm"])
def test_graphs_change_nothing(kind, settings):
    if kind == "mlp" and settings:
        pytest.skip("chunks are for policies with memory")
    plain, graphed = make(kind, **settings), make(kind, **settings)
    graphed.policy_step = GraphOnCpu(graphed.policy_step, graphed.actor_critic)
    graphed.learning_step = GraphOnCpu(graphed.learning_step, graphed.actor_critic)
    for expected, got in zip(train(plain), train(graphed)):
        assert all(torch.equal(expected[name], got[name]) for name in expected)
    assert len(graphed.learning_step._recordings) == (
        1 if kind == "mlp" else 2
    )  # 3 x 20 steps; 3, 3 and 4 of 10 robots
    assert graphed.policy_step._recordings
    for a, b in zip(plain.actor_critic.parameters(), graphed.actor_critic.parameters()):
        assert torch.equal(a, b)


@pytest.mark.parametrize("kind", ["mlp", "gru", "lstm"])
def test_a_compiled_loss_is_the_loss(kind):
    plain, compiled = make(kind), make(kind)
    accelerate(compiled, AccelerationConfig(compile=True))
    for expected, got in zip(train(plain, 2), train(compiled, 2)):
        for name in expected:
            torch.testing.assert_close(got[name], expected[name], atol=1e-6, rtol=1e-4)
    for a, b in zip(plain.actor_critic.parameters(), compiled.actor_critic.parameters()):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", ["mlp", "gru", "lstm"])
@pytest.mark.parametrize("activation", ["elu", "silu"])
def test_networks_in_bfloat16_learn_nearly_the_same_with_float32_losses(kind, activation, monkeypatch):
    monkeypatch.setitem(NETS, "activation", activation)
    plain, coarse = make(kind, schedule="fixed"), make(kind, schedule="fixed")
    accelerate(coarse, AccelerationConfig(bfloat16=True))
    seen = []
    loss = coarse.loss
    coarse.loss = lambda policy, values, *rest: seen.append((policy.mean, values)) or loss(policy, values, *rest)
    for expected, got in zip(train(plain), train(coarse)):
        for name in ("surrogate_loss", "value_loss", "entropy"):
            torch.testing.assert_close(got[name], expected[name], atol=0.02, rtol=0.02)  # 8 bits of mantissa
    assert seen and all(x.dtype == torch.float32 for pair in seen for x in pair)
    rounded = [mean for mean, _ in seen if torch.equal(mean, mean.bfloat16().float())]
    assert len(rounded) == len(seen)  # it was bfloat16 that computed them
    assert all(p.dtype == torch.float32 for p in coarse.actor_critic.parameters())
    torch.testing.assert_close(coarse.storage.mu, plain.storage.mu, atol=0.02, rtol=0.02)
    assert not torch.equal(coarse.storage.mu, coarse.storage.mu.bfloat16().float())  # acting is exact


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_what_a_recording_reads_keeps_its_place(kind):
    """A CUDA graph reads the memory that was there when it was recorded, in the first update."""
    ppo = make(kind, unroll_len=4)
    places = []
    for _ in range(2):
        train(ppo, 1)
        storage = ppo.storage
        saved = (*storage.saved_hidden_states_a, *storage.saved_hidden_states_c)
        assert len(saved) == (2 if kind == "gru" else 4)
        columns = (*storage._columns.values(), storage.returns, storage.advantages, storage.sigma)
        learned = [x for p in ppo.actor_critic.parameters() for x in (p, p.grad)]
        places.append([x.data_ptr() for x in (*saved, *columns, *learned)])
    assert places[0] == places[1]


def test_the_samples_of_a_network_without_memory_keep_their_place():
    ppo = make("mlp")
    train(ppo, 1)
    place = ppo.storage._samples.data_ptr()
    train(ppo, 1)
    assert ppo.storage._samples.data_ptr() == place

"""CUDA graphs, torch.compile and bfloat16 against the implementations without them."""

import pytest
import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from rsl_rl.acceleration.cuda_graph import GraphedFunction, Recording, own_tensors
from rsl_rl.algorithms.ppo import PPO, draw_actions
from rsl_rl.config.learn import AccelerationConfig
from rsl_rl.modules.policy import ActorCritic, ActorCriticRecurrent
from tests.learners import ppo_of

T, N, D, C, A = 6, 10, 3, 4, 2
NETS = {"actor_hidden_dims": (16, 8), "critic_hidden_dims": (16, 8), "critic_groups": ("critic",)}


class GraphOnCpu(GraphedFunction):
    """Behaves as a CUDA graph does where it matters to callers: inputs and outputs keep their places, and what Python
    assigned is as it was when the recording was made."""

    def __init__(self, function, policy):
        super().__init__(function, torch.device("cpu"))
        self._policy = policy
        self.num_recorded = 0

    def _run_aside(self, arguments):
        return self._function(*arguments)

    def _record(self, arguments):
        self.num_recorded += 1
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


def make(kind, acceleration=None, **settings) -> PPO:
    torch.manual_seed(3)
    if kind == "mlp":
        net = ActorCritic(D, C, A, **NETS)
    else:
        net = ActorCriticRecurrent(D, C, A, rnn_type=kind, rnn_hidden_size=5, **NETS)
    settings = {"num_mini_batches": 3, "num_learning_epochs": 2, **settings}  # mini-batches of two sizes
    return ppo_of(net, N, T, {"policy": D, "critic": C}, acceleration=acceleration, **settings)


def observe():
    return {"policy": torch.randn(N, D), "critic": torch.randn(N, C)}


def train(ppo, num_iterations=3) -> list:
    torch.manual_seed(4)
    metrics = []
    for _ in range(num_iterations):
        for _ in range(T):
            ppo.act(observe())
            ppo.process_env_step(torch.randn(N), torch.rand(N) < 0.3, {"time_outs": torch.rand(N) < 0.5})
        ppo.compute_returns(observe())
        metrics.append(ppo.update().metrics)
    return metrics


@pytest.mark.parametrize("settings", [{}, {"unroll_len": 4, "burn_in": 1}], ids=["whole", "chunks"])
@pytest.mark.parametrize("kind", ["mlp", "gru", "lstm"])
def test_graphed_training_gives_equal_bits(kind, settings):
    if kind == "mlp" and settings:
        pytest.skip("chunks are for policies with memory")
    plain, graphed = make(kind, **settings), make(kind, **settings)
    policy_step, learning_step = (
        GraphOnCpu(function, graphed.policy) for function in (draw_actions, graphed.learner.step)
    )
    graphed._policy_step, graphed.learner._step = policy_step, learning_step  # as Acceleration.graphed gives them
    for expected, got in zip(train(plain), train(graphed)):
        assert all(torch.equal(value, got[name]) for name, value in expected.items())
    assert learning_step.num_recorded == (1 if kind == "mlp" else 2)  # 3 x 20 steps; 3, 3 and 4 of 10 robots
    assert policy_step.num_recorded == 1
    for a, b in zip(plain.policy.parameters(), graphed.policy.parameters()):
        assert torch.equal(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mlp", "gru", "lstm"])
def test_compiled_loss_trains_to_equal_weights(kind):
    plain, compiled = make(kind), make(kind, AccelerationConfig(compile=True))
    assert "compiled closed-form loss" in compiled.description and "compiled" not in plain.description
    for expected, got in zip(train(plain, 2), train(compiled, 2)):
        for name, value in expected.items():
            torch.testing.assert_close(got[name], value, atol=1e-6, rtol=1e-4)
    for a, b in zip(plain.policy.parameters(), compiled.policy.parameters()):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", ["mlp", "gru", "lstm"])
@pytest.mark.parametrize("activation", ["elu", "silu"])
def test_bfloat16_networks_train_with_float32_losses_and_similar_results(kind, activation, monkeypatch):
    monkeypatch.setitem(NETS, "activation", activation)
    plain = make(kind, schedule="fixed")
    coarse = make(kind, AccelerationConfig(bfloat16=True), schedule="fixed")
    seen = []
    backward = coarse.learner.backward

    def record_and_compute(distribution, values, *rest):
        seen.append((distribution.mean, values))
        return backward(distribution, values, *rest)

    coarse.learner.backward = record_and_compute
    for expected, got in zip(train(plain), train(coarse)):
        for name in ("surrogate_loss", "value_loss", "entropy"):
            torch.testing.assert_close(got[name], expected[name], atol=0.02, rtol=0.02)  # 8 bits of mantissa
    assert seen and all(x.dtype == torch.float32 for pair in seen for x in pair)
    rounded = [mean for mean, _ in seen if torch.equal(mean, mean.bfloat16().float())]
    assert len(rounded) == len(seen)  # it was bfloat16 that computed them
    assert all(p.dtype == torch.float32 for p in coarse.policy.parameters())
    acted, exact = (ppo.storage.columns["action_mean"] for ppo in (coarse, plain))
    torch.testing.assert_close(acted, exact, atol=0.02, rtol=0.02)
    assert not torch.equal(acted, acted.bfloat16().float())  # acting is exact


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_tensors_read_by_a_recording_keep_their_addresses(kind):
    """A CUDA graph reads the addresses of its recording, in the first update."""
    ppo = make(kind, unroll_len=4)
    places = []
    for _ in range(2):
        train(ppo, 1)
        storage = ppo.storage
        saved = [state for states in storage.saved_states for state in states]
        assert len(saved) == (2 if kind == "gru" else 4)
        learned = [x for p in ppo.policy.parameters() for x in (p, p.grad)]
        places.append([x.data_ptr() for x in (*saved, *storage.columns.values(), *learned)])
    assert places[0] == places[1]


def test_joined_samples_of_flat_batches_keep_their_address():
    """A CUDA graph reads them, and no public name leads to them."""
    ppo = make("mlp")
    train(ppo, 1)
    place = ppo.storage.batches._joined.data_ptr()
    train(ppo, 1)
    assert ppo.storage.batches._joined.data_ptr() == place

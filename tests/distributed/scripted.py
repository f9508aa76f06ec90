"""The same rollouts for one learner, or cut by environments for several: updates of each must be equal.

    python -m tests.distributed.scripted FOLDER

is one rank: it runs every case and saves what it has computed in FOLDER. RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT
say which.
"""

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from rsl_rl.algorithms.ppo import draw_actions
from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.extensions import AMPConfig, RNDConfig, SymmetryConfig
from rsl_rl.config.learn import AccelerationConfig, LearnConfig, RunnerConfig, SafetyConfig
from rsl_rl.config.policy import ActorCriticConfig, ActorCriticRecurrentConfig
from rsl_rl.distributed import join_process_group
from rsl_rl.runners.checkpoints import state_of_rank, write_ranks
from rsl_rl.runners.rollback import Rollback, TrainingError
from rsl_rl.utils.checkpoints import read_checkpoint

N, T, A, EPOCHS, MINI_BATCHES, UPDATES = 32, 6, 2, 2, 2, 3
PEERS = (2, 4)
"""Numbers of ranks; mini-batches are cut for the largest, so that all of them learn from the same ones."""


@dataclass(frozen=True)
class Case:
    """A learner, and what happens to it."""

    policy: ActorCriticConfig = ActorCriticConfig()
    extensions: tuple = ()
    algorithm: tuple = ()  # of fields of PPOConfig
    fused: bool = True
    masked: bool = False  # some samples, one step of rank 1, and in the second update all of its samples
    broken: bool = False  # an advantage of the last environment is NaN in the second update

    @property
    def cfg(self):
        hidden = {"actor_hidden_dims": (16,), "critic_hidden_dims": (16,), "activation": "tanh"}
        settings = {"num_learning_epochs": EPOCHS, "num_mini_batches": MINI_BATCHES, **dict(self.algorithm)}
        return LearnConfig(
            policy=replace(self.policy, **hidden, actor_obs_normalization=True),
            algorithm=PPOConfig(**settings),
            extensions=self.extensions,
            acceleration=AccelerationConfig(fused=self.fused),
            runner=RunnerConfig(num_steps_per_env=T),
        )


GRU, LSTM = (ActorCriticRecurrentConfig(rnn_type=kind, rnn_hidden_size=8) for kind in ("gru", "lstm"))
STYLE = AMPConfig(
    {"still": ("a clip",)},
    group="policy",
    source="tests.distributed.scripted:one_transition",
    replay_share=0.0,  # what is replayed is drawn by each rank
    learning_rate=1e-2,
    hidden_dims=(8,),
)
MIRROR = SymmetryConfig(use_mirror_loss=True, mirror_loss_coeff=0.5)
CASES = {
    "mlp": Case(),
    "mlp_autograd": Case(fused=False),
    "mlp_per_mini_batch": Case(algorithm=(("normalize_advantage_per_mini_batch", True),), masked=True),
    "mlp_masked": Case(policy=ActorCriticConfig(value_normalization=True), masked=True),
    "mlp_broken": Case(broken=True, masked=True),
    "gru": Case(policy=GRU),
    "lstm_chunks": Case(policy=LSTM, algorithm=(("unroll_len", 3), ("burn_in", 1)), masked=True),
    "symmetry": Case(extensions=(MIRROR,), masked=True),
    "symmetry_gru": Case(policy=GRU, extensions=(SymmetryConfig(),)),
    "amp": Case(extensions=(STYLE,), masked=True),
    "rnd": Case(extensions=(RNDConfig(state_normalization=True, reward_normalization=True),), masked=True),
}


def one_transition(env, group, motions):
    return {"still": [torch.tensor([[1.0, 2.0, -0.5, 3.0], [0.5, 1.0, 0.5, -2.0]])]}


class ScriptedEnv:
    """Environments ``rows`` of N; observations, rewards and dones are a table."""

    num_actions, max_episode_length, device, cfg = A, 100, "cpu", {}

    def __init__(self, rows):
        draw = torch.Generator().manual_seed(7)
        steps = UPDATES * T + 1
        self.rows, self.num_envs = rows, len(rows)
        self.obs = torch.randn(steps, N, 4, generator=draw) * torch.tensor([1.0, 3.0, 0.5, 10.0]) + 1.0
        self.reward = torch.randn(steps, N, generator=draw)
        self.done = torch.rand(steps, N, generator=draw) < 0.15
        self.noise = torch.randn(steps, N, A, generator=draw)
        self.valid = torch.rand(steps, N, generator=draw) > 0.2
        self.valid[2, N // 4 : N // 2] = False
        self.valid[T : 2 * T, N // 2 :] = False
        self.step = 0

    def at(self, table):
        return table[self.step][self.rows]

    def get_observations(self):
        return {"policy": self.at(self.obs)}

    def mirrors(self):
        index = torch.tensor([1, 0]), torch.ones(2)
        return {"policy": (torch.arange(4), torch.tensor([1.0, -1.0, 1.0, -1.0])), "actions": index}


def shuffled_units(cell_size, num_cells):
    """Mini-batches of all epochs: for each cell of units, a permutation in parts; [batch][cell] are indices within."""
    draw = torch.Generator().manual_seed(11)
    return [
        batch
        for _ in range(EPOCHS)
        for batch in zip(
            *(torch.randperm(cell_size, generator=draw).tensor_split(MINI_BATCHES) for _ in range(num_cells))
        )
    ]


def scripted_batches(storage, rows):
    """Indices of each mini-batch for a learner with these environments: the same samples however they are cut."""
    cells, envs_of_cell = max(PEERS), N // max(PEERS)
    own = range(int(rows[0]) // envs_of_cell, (int(rows[-1]) + 1) // envs_of_cell)
    steps_of_cell = envs_of_cell * (T if storage.batches.unit == "steps" else 1)
    for parts in shuffled_units(steps_of_cell, cells):
        units = []
        for cell in own:
            step, env = parts[cell] // envs_of_cell, parts[cell] % envs_of_cell
            first = cell * envs_of_cell - int(rows[0])
            units.append(step * len(rows) + first + env)
        yield torch.cat(units)


def learn(case, collective):
    """Run the updates of a case; return what must be equal."""
    size = N // collective.size
    rows = torch.arange(collective.rank * size, (collective.rank + 1) * size)
    torch.manual_seed(collective.rank)  # other weights on each rank, until they join
    env, cfg = ScriptedEnv(rows), case.cfg
    alg = cfg.algorithm.build_for(cfg, env, "cpu")
    alg.join(collective)
    alg._policy_step = lambda *args: _drawn(env, *args)
    shuffled = alg.storage.batches.shuffled
    alg.storage.batches.shuffled = lambda *sizes: (
        scripted for scripted, _ in zip(scripted_batches(alg.storage, rows), shuffled(*sizes))
    )
    optimizer = alg.learner.optimizer
    gradients, rates, step = [], [], optimizer.step_where_finite

    def record(usable):
        gradients.append(torch.cat([gradient.flatten() for gradient in optimizer.gradients]))
        rates.append(float(alg.learner.learning_rate))
        return step(usable)

    optimizer.step_where_finite = record
    rollback = Rollback(alg, SafetyConfig(max_skipped_steps=2, max_rollbacks=3))
    rollback.start(0)
    updates = []
    for update in range(UPDATES):
        alg.begin_rollout()
        for _ in range(T):
            with torch.no_grad():
                alg.act(env.get_observations())
            reward, done, valid = (env.at(table) for table in (env.reward, env.done, env.valid))
            env.step += 1
            valid = valid if case.masked else torch.ones_like(valid)
            reward = reward.masked_fill(~valid, 0.0)
            alg.process_env_step(reward, done | ~valid, {"valid": valid}, env.get_observations())
        alg.compute_returns(env.get_observations())
        if case.broken and update == 1 and collective.rank == collective.size - 1:
            alg.storage.columns["advantages"][:, -1] = torch.nan
        result = alg.update()
        metrics = {name: float(value) for name, value in result.metrics.items()}
        message = rollback.check(update, float(result.steps_taken), float(result.steps_skipped), may_keep=True)
        updates.append({**metrics, "rollback": message})
    state = alg.state_dict()
    if "0_RandomNetworkDistillation" in state["extensions"]:
        state["extensions"]["0_RandomNetworkDistillation"]["reward_normalizer"].pop(
            "_extra_state"
        )  # of each environment
    for name in ("replayed", "num_stored", "generator", "rank"):  # of each rank
        state["extensions"].get("0_AdversarialMotionPrior", {}).pop(name, None)
    state["extensions"].pop("0_Symmetry", None)
    return {"updates": updates, "gradients": gradients, "rates": rates, "state": state}


def _drawn(env, policy, groups, states):
    """A step of the policy whose actions are drawn with the noise of the table."""
    step = draw_actions(policy, groups, states)
    return step._replace(actions=policy.distribution.mode + policy.distribution.std * env.at(env.noise))


def agree(collective, folder):
    """Call the methods of a collective for values on the host, and write checkpoints of equal and of other weights."""
    rank, said = collective.rank, {}
    said["gathered"] = collective.gather({"rank": rank})
    said["on_first"] = collective.gather_on_first(rank)
    said["called"] = collective.call_on_first(lambda: f"rank {rank}")
    said["first"] = [
        collective.first_of(f"rank {rank}" if rank == collective.size - 1 else None),
        collective.first_of(None),
    ]
    state = {"model_state_dict": {"weight": torch.ones(3)}, "rng": rank, "iter": 2, "format": 1}
    path = Path(folder) / f"model_{collective.size}.pt"
    write_ranks(path, state, collective, ())
    said["own"] = state_of_rank(read_checkpoint(path), collective)["rng"]
    if rank == 1:
        state["model_state_dict"]["weight"][1] = 1.0 + 1e-7
    for name, function in {"weights": lambda: write_ranks(path, state, collective, ()), "disk": full_disk}.items():
        try:
            function() if name == "weights" else collective.call_on_first(function)
        except (TrainingError, OSError) as error:
            said[name] = f"{type(error).__name__}: {error}"
    return said


def full_disk():
    raise OSError("no space left")


def main(folder):
    torch.set_num_threads(1)
    collective = join_process_group()
    results = {name: learn(case, collective) for name, case in CASES.items()}
    results["agreement"] = agree(collective, folder)
    torch.save(results, Path(folder) / f"{collective.size}_{collective.rank}.pt")
    collective.close()


if __name__ == "__main__":
    main(sys.argv[1])

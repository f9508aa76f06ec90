"""Policies as two networks of rsl_rl 4 and 5: those that a client derived, and ours with the names of these versions.

Letters: T steps, n environments, L layers, H hidden size.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Sequence, Tuple, Type, Union

import torch
from torch import Tensor, nn

from rsl_rl.compat.batches import trajectory_states
from rsl_rl.compat.checkpoints import Version, from_native, shift_std
from rsl_rl.compat.distributions import ForwardFamily
from rsl_rl.compat.former_code import detached
from rsl_rl.compat.models import ExportedModel, MLPModel, RNNModel, scriptable, with_graph
from rsl_rl.compat.policies import ActorCritic
from rsl_rl.compat.storage import dones_of
from rsl_rl.config.policy import ActorCriticConfig
from rsl_rl.distributed import Collective
from rsl_rl.exporters.policy_module import example_inputs, output_names, policy_module
from rsl_rl.modules import policy as native
from rsl_rl.modules.distributions import Distribution
from rsl_rl.modules.memory import Memory, reset_states
from rsl_rl.modules.model import Model, Observation
from rsl_rl.utils.trajectories import HiddenState, ResetMasks, as_states, split_and_pad_trajectories

# A client's networks

Network = Tuple[Type[MLPModel], Dict[str, Any]]
"""A class, and the settings of its constructor."""


class ClientModel(Model):
    """A client's network where a policy expects ours: its latent and perceptron, over any leading dimensions.

    A network with a memory gets the sequences of a mini-batch as padded trajectories.
    """

    def __init__(self, groups: Sequence[str], network: MLPModel):
        head = getattr(network, "mlp", nn.Identity())  # a network with a forward of its own may have none
        super().__init__(groups, network.obs_normalizer, {}, None, head)  # type: ignore[arg-type]
        images = getattr(network, "obs_groups_2d", ())
        self.network, self._num_dims = network, {group: 3 if group in images else 1 for group in groups}
        self.has_statistics = True  # the network knows whether it has some
        if isinstance(network, RNNModel):
            self.memory = ModelMemory(network)  # type: ignore[assignment]

    def forward(
        self, obs: Observation, masks: Optional[ResetMasks] = None, state: HiddenState = None, advance: bool = True
    ) -> Tensor:
        x = {self.groups[0]: obs} if isinstance(obs, Tensor) else {group: obs[group] for group in self.groups}
        if masks is not None and self.memory is not None:
            return self._trajectories(x, masks, state)
        flat, leading = self._flattened(x)
        before = self.network.get_hidden_state()
        own = self.network.has_own_forward()
        outputs = self.network(flat) if own else self.network.mlp(self.network.get_latent(flat))
        if not advance:
            self.network.reset(hidden_state=before)
        return outputs.reshape(*leading, -1)

    def _trajectories(self, x: Mapping[str, Tensor], masks: ResetMasks, state: HiddenState) -> Tensor:
        """Return the outputs [T, n, outputs] for sequences [T, n, ...] from the states [L, n, H] before them."""
        dones = dones_of(masks.keep_state)
        padded, samples = split_and_pad_trajectories({group: x[group].float() for group in self.groups}, dones)
        latent = self.network.get_latent(padded, samples, as_given(trajectory_states(state, dones)))
        return self.network.mlp(latent).reshape(*dones.shape, -1)

    def update_normalization(self, obs: Mapping[str, Tensor], sample_mask: Tensor, collective: Collective) -> None:
        """Merge a rollout [T, N, ...] into the client's statistics; all ranks get those of rank 0."""
        self.network.update_normalization(self._flattened(obs)[0])
        collective.load_from_first(self.network.obs_normalizer)

    def export_module(self) -> nn.Module:
        return ExportedModel(self.network)

    def _flattened(self, x: Mapping[str, Tensor]) -> Tuple[Dict[str, Tensor], Tuple[int, ...]]:
        """Return groups [B, ...], and the leading dimensions that became B."""
        first = self.groups[0]
        leading = tuple(x[first].shape[: x[first].dim() - self._num_dims[first]])
        flat = {g: x[g].reshape(-1, *x[g].shape[x[g].dim() - self._num_dims[g] :]).float() for g in self.groups}
        return flat, leading


class ModelMemory:
    """The state of a client's network, with the interface that policies expect of a memory."""

    def __init__(self, network: RNNModel):
        self._network = network

    @property
    def hidden_states(self) -> HiddenState:
        """State [L, N, H]; None for zeros."""
        return self._network.get_hidden_state()

    @hidden_states.setter
    def hidden_states(self, state: HiddenState) -> None:
        self._network.reset(hidden_state=as_given(state))

    def current_state(self, num_envs: int) -> HiddenState:
        """Return the state [L, N, H]; zeros before the first step."""
        if self.hidden_states is not None:
            return self.hidden_states
        layer = self._network.rnn.rnn
        zeros = layer.weight_hh_l0.new_zeros(layer.num_layers, num_envs, layer.hidden_size)  # type: ignore[operator]
        return zeros if isinstance(layer, nn.GRU) else (zeros, zeros)

    def reset(self, dones: Optional[Tensor] = None) -> None:
        """Zero the state of the environments marked in dones [N] or [N, 1]; of all for None."""
        self._network.reset(None if dones is None else dones.reshape(-1))


def as_given(state: HiddenState) -> HiddenState:
    """Return a state as a torch layer takes it: (h,) as h, and () as None."""
    parts = as_states(state)
    return None if not parts else parts[0] if len(parts) == 1 else parts


class ModelPolicy(ActorCritic):
    """An actor and a critic of a client's classes; ``obs`` are observations of the environment."""

    actor: MLPModel  # type: ignore[assignment]
    critic: MLPModel  # type: ignore[assignment]
    is_recurrent = property(lambda self: self.memories != (None, None))  # type: ignore[assignment]

    def __init__(
        self,
        num_actor_obs: int,
        num_critic_obs: int,
        num_actions: int,
        image_shapes: Optional[Mapping[str, Sequence[int]]] = None,
        *,
        networks: Sequence[Network],
        obs: Mapping[str, Tensor],
        **settings: Any,
    ):
        cfg = ActorCriticConfig(**settings)
        sets = {"actor": cfg.actor_groups, "critic": cfg.critic_groups}
        built = []
        for role, (cls, own), size in zip(sets, networks, (num_actions, 1)):
            built.append(cls(obs, {name: list(names) for name, names in sets.items()}, role, size, **own))
        self._join(built[0], built[1], cfg, num_actions, obs)

    @classmethod
    def of_networks(cls, actor: MLPModel, critic: MLPModel) -> ModelPolicy:
        """Return a policy of two networks."""
        if actor.distribution is None:
            raise ValueError("the actor has no distribution; construct it with a distribution_cfg")
        policy = cls.__new__(cls)
        groups: Dict[str, Any] = {
            f"{role}_groups": tuple(model.read_groups) for role, model in (("actor", actor), ("critic", critic))
        }
        sizes = zip(actor.obs_groups, actor.group_sizes)
        obs = {group: torch.zeros(1, size, device=next(actor.parameters()).device) for group, size in sizes}
        policy._join(actor, critic, ActorCriticConfig(**groups), actor.distribution.output_dim, obs)
        return policy

    def _join(
        self,
        actor: MLPModel,
        critic: MLPModel,
        cfg: ActorCriticConfig,
        num_actions: int,
        obs: Mapping[str, Tensor],
    ) -> None:
        nn.Module.__init__(self)
        self.cfg, self.num_actor_obs, self.actor, self.critic = cfg, actor.obs_dim, actor, critic
        groups = (cfg.actor_groups, cfg.critic_groups or cfg.actor_groups)
        models = [ClientModel(names, network) for names, network in zip(groups, (actor, critic))]
        self._set_models(models[0], models[1])
        assert self.actor.distribution is not None  # every actor's settings have one
        if self.actor.has_own_forward():
            with torch.no_grad(), torch.random.fork_rng():
                self.actor(obs, stochastic_output=True)
            self.family = ForwardFamily(self.actor)
        else:
            self.family = self.actor.distribution.family
        # not registered a second time: they are parts of the networks
        vars(self).update(
            actor_obs_normalizer=self.actor.obs_normalizer, critic_obs_normalizer=self.critic.obs_normalizer
        )
        self.value_normalizer = nn.Identity()
        noise = torch.full((num_actions,), float(cfg.init_noise_std))
        self.distribution = self.family(torch.zeros(self.family.num_outputs), noise)

    def update_distribution(self, obs: Any, masks: Any = None, state: HiddenState = None) -> Distribution:  # type: ignore[override]
        if not self.actor.has_own_forward():
            return super().update_distribution(obs, masks, state)
        self.actor(obs, masks, state, stochastic_output=True)
        self.distribution = self.actor.latest_distribution
        return self.distribution

    def snapshot(self, memo: Optional[Dict[int, Any]] = None) -> native.ActorCritic:
        return super().snapshot({**with_graph(self.actor), **(memo or {})})

    def noise_std(self) -> Tensor:
        assert self.actor.distribution is not None
        std = self.actor.distribution.noise_std()
        return self.distribution.std if std is None else std


# Networks of any policy


class MemoryView(nn.Module):
    """The memory of a policy with the names of an ``RNN`` of rsl_rl 4 and 5: the layer ``rnn`` and ``hidden_state``."""

    def __init__(self, memory: Memory):
        super().__init__()
        self.rnn = memory.rnn
        vars(self)["_memory"] = memory  # not registered: the layer is

    @property
    def hidden_state(self) -> HiddenState:
        """State [L, N, H], of an LSTM two; None for zeros."""
        return vars(self)["_memory"].hidden_states

    @hidden_state.setter
    def hidden_state(self, state: HiddenState) -> None:
        vars(self)["_memory"].hidden_states = state

    def reset(self, dones: Optional[Tensor] = None, hidden_state: HiddenState = None) -> None:
        """Zero the state of the environments marked in dones [N], or set all of it."""
        self.hidden_state = hidden_state if dones is None else reset_states(self.hidden_state, dones)

    def detach_hidden_state(self, dones: Optional[Tensor] = None) -> None:
        """Keep the state without its gradient, of the environments marked in dones [N] or of all."""
        self.hidden_state = detached(self.hidden_state, dones)


class ModelView(nn.Module):
    """One network of a policy; its parts are the policy's own: ``mlp``, ``obs_normalizer`` and ``rnn``."""

    _policy: ActorCritic
    _role: str
    _model: Model

    def __init__(self, policy: ActorCritic, role: str):
        super().__init__()
        model = policy.actor_model if role == "actor" else policy.critic_model
        vars(self).update(_policy=policy, _role=role, _model=model)  # not registered: the parts below are
        self.obs_normalizer, self.mlp = model.normalizer, model.head
        if model.memory is not None:
            self.rnn = MemoryView(model.memory)
        if model.image_encoders:
            self.cnns = model.image_encoders
        self.is_recurrent = model.memory is not None
        self.obs_groups = list(model.groups)
        self.obs_normalization = not isinstance(model.normalizer, nn.Identity)
        self.obs_dim = policy.num_actor_obs if role == "actor" else None

    output_mean = property(lambda self: self._policy.action_mean)
    output_std = property(lambda self: self._policy.noise_std())
    output_entropy = property(lambda self: self._policy.entropy)

    def forward(self, obs: Union[Tensor, Mapping[str, Tensor]], stochastic_output: bool = False, **_: Any) -> Tensor:
        """Return the value, or the actions without exploration, or with ``stochastic_output`` drawn ones."""
        policy = self._policy
        if self._role == "critic":
            return policy.evaluate(obs)
        return policy.act(obs) if stochastic_output else policy.act_inference(obs)

    def get_output_log_prob(self, outputs: Tensor) -> Tensor:
        """Return the log density of actions under the latest distribution."""
        return self._policy.get_actions_log_prob(outputs)

    def reset(self, dones: Optional[Tensor] = None, hidden_state: HiddenState = None) -> None:
        """Zero the recurrent states of the environments marked in dones [N], or set all of them."""
        if self.is_recurrent:
            self.rnn.reset(dones, hidden_state)

    def get_hidden_state(self) -> HiddenState:
        """Return the recurrent state; None without memory."""
        return None if self._model.memory is None else self._model.memory.hidden_states

    def detach_hidden_state(self, dones: Optional[Tensor] = None) -> None:
        """Keep the recurrent state without its gradient, of the environments marked in dones [N] or of all."""
        if self.is_recurrent:
            self.rnn.detach_hidden_state(dones)

    @property
    def output_distribution_params(self) -> Tuple[Tensor, ...]:
        """Parameters of the latest distribution."""
        mean = self._policy.action_mean
        return tuple(x.expand_as(mean) for x in self._policy.distribution.parameters.values())

    def get_kl_divergence(self, old_params: Tuple[Tensor, ...], new_params: Tuple[Tensor, ...]) -> Tensor:
        """Return KL(old || new) [...] in nats of distributions with these parameters."""
        family = self._policy.family
        old, new = (dict(zip(family.parameter_shapes, params)) for params in (old_params, new_params))
        return family.of_parameters(new).kl_from(old).squeeze(-1)

    def state_dict(self, *args: Any, **kwargs: Any) -> Dict[str, Any]:  # type: ignore[override]
        """Return the network's tensors under the names of rsl_rl 5; those of a network of images under the names of its
        parts, because our encoders end in a linear layer."""
        if self._model.image_encoders:
            noise = {f"distribution.{name}_param": getattr(self._policy, name, None) for name in ("std", "log_std")}
            own = {name: value.detach() for name, value in noise.items() if value is not None and self._role == "actor"}
            return {**super().state_dict(*args, **kwargs), **own}
        return as_version_5({"model_state_dict": self._policy.state_dict()}, self._policy)[f"{self._role}_state_dict"]

    def as_jit(self) -> nn.Module:
        """Return a copy of the actor that ``torch.jit.script`` takes; a recurrent one keeps its state itself."""
        return scriptable(policy_module(self._policy))

    def as_onnx(self, verbose: bool = False) -> nn.Module:
        """Return a copy of the actor for ``torch.onnx.export``."""
        module: Any = policy_module(self._policy)
        inputs = example_inputs(module)
        module.verbose, module.is_recurrent, module.input_size = verbose, self.is_recurrent, module.num_obs
        module.input_names, module.output_names = list(inputs), list(output_names(module))
        module.get_dummy_inputs = lambda: tuple(inputs.values())
        return module


def networks_of(policy: native.ActorCritic) -> Tuple[Any, Any]:
    """Return actor and critic of a policy as the networks that rsl_rl 4 and 5 have."""
    if isinstance(policy, ModelPolicy):
        return policy.actor, policy.critic
    return ModelView(policy, "actor"), ModelView(policy, "critic")  # type: ignore[arg-type]


def as_version_5(state: Mapping[str, Any], policy: native.ActorCritic) -> Dict[str, Any]:
    """Return networks and optimiser of a policy of ours, in a checkpoint in our names, in the form of version 5."""
    weights = shift_std(state["model_state_dict"], policy, 1)
    result = from_native({**state, "model_state_dict": weights}, Version(5, 5))
    return {key: value for key, value in result.items() if key.endswith("_state_dict")}

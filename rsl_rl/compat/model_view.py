"""Actor and critic of a policy as the networks that rsl_rl 4 and 5 have."""

from __future__ import annotations

import copy
from typing import Any, Dict, Mapping, Optional, Union

import torch
from torch import Tensor, nn

from rsl_rl.compat.checkpoints import Version, from_native
from rsl_rl.compat.loading import shift_std
from rsl_rl.compat.policies import ActorCritic
from rsl_rl.exporters.policy_module import example_inputs, output_names, policy_module
from rsl_rl.modules.memory import reset_states
from rsl_rl.modules.model import Model
from rsl_rl.utils.trajectories import HiddenState

_VERSION = Version(5, 5)


class ModelView(nn.Module):
    """One network of a policy; its parts are the policy's own: ``mlp``, ``obs_normalizer`` and ``rnn``."""

    _policy: ActorCritic
    _role: str
    _model: Model

    def __init__(self, policy: ActorCritic, role: str):
        super().__init__()
        vars(self).update(_policy=policy, _role=role)  # not registered: the parts below are
        model = policy.actor_model if role == "actor" else policy.critic_model
        vars(self).update(_model=model)
        self.obs_normalizer, self.mlp = model.normalizer, model.head
        if model.memory is not None:
            self.rnn = model.memory
        self.is_recurrent = model.memory is not None
        self.obs_groups = list(model.groups)
        self.obs_normalization = not isinstance(model.normalizer, nn.Identity)
        self.obs_dim = policy.num_actor_obs if role == "actor" else None

    @property
    def output_std(self) -> Tensor:
        """Standard deviation of the actions."""
        return self._policy.noise_std()

    @property
    def output_mean(self) -> Tensor:
        """Mean of the latest actions."""
        return self._policy.action_mean

    @property
    def output_entropy(self) -> Tensor:
        """Entropy of the latest distribution over actions."""
        return self._policy.entropy

    def forward(self, obs: Union[Tensor, Mapping[str, Tensor]], stochastic_output: bool = False, **_: Any) -> Tensor:
        """Return the value, or the actions without exploration, or with ``stochastic_output`` drawn ones."""
        policy: ActorCritic = self._policy
        if self._role == "critic":
            return policy.evaluate(obs)
        return policy.act(obs) if stochastic_output else policy.act_inference(obs)

    def get_output_log_prob(self, outputs: Tensor) -> Tensor:
        """Return the log density of actions under the latest distribution."""
        return self._policy.get_actions_log_prob(outputs)

    def reset(self, dones: Optional[Tensor] = None, hidden_state: HiddenState = None) -> None:
        """Zero the recurrent states of the environments marked in dones [N], or set all of them."""
        memory = self._model.memory
        if memory is not None:
            memory.hidden_states = hidden_state if dones is None else reset_states(memory.hidden_states, dones)

    def get_hidden_state(self) -> HiddenState:
        """Return the recurrent state; None without memory."""
        return None if self._model.memory is None else self._model.memory.hidden_states

    def state_dict(self, *args: Any, **kwargs: Any) -> Dict[str, Any]:  # type: ignore[override]
        """Return the network's tensors under the names of rsl_rl 5."""
        weights = shift_std(self._policy.state_dict(), self._policy, 1)
        state = from_native({"model_state_dict": weights}, _VERSION)
        return state[f"{self._role}_state_dict"]

    def as_jit(self) -> nn.Module:
        """Return a copy of the actor that ``torch.jit.script`` compiles; a recurrent one keeps its state itself."""
        return ScriptablePolicy(self._policy) if not self.is_recurrent else ScriptableRecurrentPolicy(self._policy)

    def as_onnx(self, verbose: bool = False) -> nn.Module:
        """Return a copy of the actor for ``torch.onnx.export``."""
        module: Any = policy_module(self._policy)
        inputs = example_inputs(module)
        module.verbose, module.is_recurrent, module.input_size = verbose, self.is_recurrent, module.num_obs
        module.input_names, module.output_names = list(inputs), list(output_names(module))
        module.get_dummy_inputs = lambda: tuple(inputs.values())
        return module


class ScriptablePolicy(nn.Module):
    """obs [N, D] -> actions [N, A]."""

    def __init__(self, policy: ActorCritic):
        super().__init__()
        module = policy_module(policy)
        self.normalizer, self.actor = module.normalizer, module.actor

    def forward(self, x: Tensor) -> Tensor:
        return self.actor(self.normalizer(x))

    @torch.jit.export
    def reset(self) -> None:
        """Do nothing: there is no state."""


class ScriptableRecurrentPolicy(nn.Module):
    """obs [1, D] -> actions [1, A], with the recurrent state inside."""

    def __init__(self, policy: ActorCritic):
        super().__init__()
        module: Any = policy_module(policy)
        self.normalizer, self.actor = module.normalizer, module.actor
        rnn = copy.deepcopy(module.rnn)
        self.cell = ScriptableLSTM(rnn) if isinstance(rnn, nn.LSTM) else ScriptableGRU(rnn)

    def forward(self, x: Tensor) -> Tensor:
        return self.actor(self.cell(self.normalizer(x)))

    @torch.jit.export
    def reset(self) -> None:
        """Start an episode."""
        self.cell.reset()


class ScriptableGRU(nn.Module):
    """A GRU that keeps its state [L, 1, H]."""

    def __init__(self, rnn: nn.GRU):
        super().__init__()
        self.rnn = rnn
        self.hidden_state: Tensor
        self.register_buffer("hidden_state", torch.zeros(rnn.num_layers, 1, rnn.hidden_size))

    def forward(self, x: Tensor) -> Tensor:
        y, h = self.rnn(x.unsqueeze(0), self.hidden_state)
        self.hidden_state[:] = h
        return y.squeeze(0)

    @torch.jit.export
    def reset(self) -> None:
        """Start an episode."""
        self.hidden_state[:] = 0.0


class ScriptableLSTM(nn.Module):
    """An LSTM that keeps its states [L, 1, H]."""

    def __init__(self, rnn: nn.LSTM):
        super().__init__()
        self.rnn = rnn
        self.hidden_state: Tensor
        self.cell_state: Tensor
        for name in ("hidden_state", "cell_state"):
            self.register_buffer(name, torch.zeros(rnn.num_layers, 1, rnn.hidden_size))

    def forward(self, x: Tensor) -> Tensor:
        y, (h, c) = self.rnn(x.unsqueeze(0), (self.hidden_state, self.cell_state))
        self.hidden_state[:] = h
        self.cell_state[:] = c
        return y.squeeze(0)

    @torch.jit.export
    def reset(self) -> None:
        """Start an episode."""
        self.hidden_state[:] = 0.0
        self.cell_state[:] = 0.0

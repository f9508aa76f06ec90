"""Modules for export: a policy without exploration, on the CPU, with the normaliser inside."""

from __future__ import annotations

import copy
import io
import warnings
from pathlib import Path
from typing import Dict, List, Tuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rsl_rl.modules.cnn import CNN
from rsl_rl.modules.distributions import (
    Beta,
    BetaFamily,
    CategoricalFamily,
    DistributionFamily,
    StateDependentGaussianFamily,
)
from rsl_rl.modules.policy import ActorCritic
from rsl_rl.utils.files import atomic_write, make_folder


class Mean(nn.Module):
    """The first half [..., A] of a mean and a standard deviation [..., 2A]."""

    def __init__(self, num_actions: int):
        super().__init__()
        self.num_actions = num_actions

    def forward(self, x: Tensor) -> Tensor:
        return x[..., : self.num_actions]


class BetaMean(nn.Module):
    """The mean [..., A] of beta distributions with outputs [..., 2A]."""

    def __init__(self, num_actions: int) -> None:
        super().__init__()
        self.num_actions = num_actions
        self.low, self.width = Beta.low, Beta.high - Beta.low

    def forward(self, x: Tensor) -> Tensor:
        alpha, beta = (1.0 + F.softplus(x)).split(self.num_actions, dim=-1)
        return self.low + self.width * alpha / (alpha + beta)


class Choice(nn.Module):
    """The index [..., 1] of the largest of K outputs."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.argmax(x, dim=-1, keepdim=True)


def action_layers(family: DistributionFamily) -> List[nn.Module]:
    """Return the layers after an actor of a distribution family; none for a Gaussian whose mean are the outputs."""
    if isinstance(family, StateDependentGaussianFamily):
        return [Mean(family.num_actions)]
    if isinstance(family, BetaFamily):
        return [BetaMean(family.num_actions)]
    return [Choice()] if isinstance(family, CategoricalFamily) else []


class FeedForwardPolicy(nn.Module):
    """obs [1, D] -> actions [1, A]."""

    state_names: Tuple[str, ...] = ()
    """Names of recurrent states, such as "h": input "h_in" and output "h_out" [L, 1, H], which is the next input."""

    def __init__(self, policy: ActorCritic, num_obs: int):
        super().__init__()
        self.num_obs = num_obs
        self.normalizer = copy.deepcopy(policy.actor_obs_normalizer)
        self.actor = nn.Sequential(*policy.actor.plain(), *action_layers(policy.family))

    def forward(self, obs: Tensor) -> Tensor:
        return self.actor(self.normalizer(obs))


class GRUPolicy(FeedForwardPolicy):
    """obs [1, D], h_in [L, 1, H] -> actions [1, A], h_out; h_in is zero at the start of an episode."""

    state_names = ("h",)

    def __init__(self, policy: ActorCritic, num_obs: int):
        super().__init__(policy, num_obs)
        memory = policy.actor_model.memory
        assert memory is not None
        self.rnn = memory.as_layer()

    def forward(self, obs: Tensor, h_in: Tensor) -> Tuple[Tensor, Tensor]:  # type: ignore[override]
        y, h_out = self.rnn(self.normalizer(obs).unsqueeze(0), h_in)
        return self.actor(y.squeeze(0)), h_out


class LSTMPolicy(GRUPolicy):
    """obs [1, D], h_in and c_in [L, 1, H] -> actions [1, A], h_out, c_out; both are zero at the start of an episode."""

    state_names = ("h", "c")

    def forward(self, obs: Tensor, h_in: Tensor, c_in: Tensor) -> Tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
        y, (h_out, c_out) = self.rnn(self.normalizer(obs).unsqueeze(0), (h_in, c_in))
        return self.actor(y.squeeze(0)), h_out, c_out


class ImagePolicy(FeedForwardPolicy):
    """obs [1, D], each image group [1, ...] by its name, h_in and c_in as above -> actions [1, A], h_out, c_out.

    It takes any number of inputs, and so is traced and not scripted.
    """

    def __init__(self, policy: ActorCritic, num_obs: int):
        super().__init__(policy, num_obs)
        model = policy.actor_model
        self.encoders = copy.deepcopy(model.image_encoders)
        self.image_shapes = {group: cast(CNN, encoder).shape for group, encoder in model.image_encoders.items()}
        self.rnn = None if model.memory is None else model.memory.as_layer()
        self.state_names = () if self.rnn is None else ("h",) if isinstance(self.rnn, nn.GRU) else ("h", "c")

    def forward(self, obs: Tensor, *others: Tensor) -> Tuple[Tensor, ...]:  # type: ignore[override]
        images, states = others[: len(self.encoders)], others[len(self.encoders) :]
        encoded = [encoder(image) for encoder, image in zip(self.encoders.values(), images)]
        features = torch.cat((self.normalizer(obs), *encoded), dim=-1)
        if self.rnn is None:
            return (self.actor(features),)
        before = states[0] if len(states) == 1 else states
        y, after = self.rnn(features.unsqueeze(0), before)
        return (self.actor(y.squeeze(0)), *((after,) if isinstance(after, Tensor) else after))


def policy_module(policy: ActorCritic) -> FeedForwardPolicy:
    """Return the module for export of a policy, a copy in evaluation mode without gradients."""
    memory, own = policy.actor_model.memory, policy.actor_model.export_module()
    module: FeedForwardPolicy
    if own is not None:
        module = cast(FeedForwardPolicy, own)
    elif policy.actor_model.image_encoders:
        module = ImagePolicy(policy, policy.num_actor_obs)
    elif memory is not None:
        rnn = memory.rnn
        module = (GRUPolicy if isinstance(rnn, nn.GRU) else LSTMPolicy)(policy, rnn.input_size)
    else:
        module = FeedForwardPolicy(policy, next(policy.actor.parameters()).shape[1])
    return module.cpu().eval().requires_grad_(False)


def example_inputs(module: FeedForwardPolicy) -> Dict[str, Tensor]:
    """Return an input of zeros for each name."""
    inputs = {"obs": torch.zeros(1, module.num_obs)}
    if isinstance(module, ImagePolicy):
        inputs.update({group: torch.zeros(1, *shape) for group, shape in module.image_shapes.items()})
    for name in module.state_names:
        rnn = cast(nn.RNNBase, module.rnn)
        inputs[f"{name}_in"] = torch.zeros(rnn.num_layers, 1, rnn.hidden_size)
    return inputs


def output_names(module: FeedForwardPolicy) -> Tuple[str, ...]:
    """Return the names of the outputs in order."""
    return ("actions", *(f"{name}_out" for name in module.state_names))


def describe_module(module: FeedForwardPolicy) -> Dict[str, Dict[str, List[int]]]:
    """Return the shapes of the inputs and of the outputs by name, in order."""
    inputs = example_inputs(module)
    with torch.no_grad():
        outputs = module(*inputs.values())
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    return {
        "inputs": {name: list(x.shape) for name, x in inputs.items()},
        "outputs": {name: list(x.shape) for name, x in zip(output_names(module), outputs)},
    }


def export_torchscript(policy: ActorCritic, path: Path) -> Path:
    """Write a policy as a TorchScript file that needs no Python; inputs and outputs are those of its policy module."""
    module = policy_module(policy)
    return write_torchscript(module, path, tuple(example_inputs(module).values()) * isinstance(module, ImagePolicy))


def write_torchscript(module: nn.Module, path: Path, traced_with: Tuple[Tensor, ...] = ()) -> Path:
    """Write a module as a TorchScript file, scripted, or traced with inputs."""
    make_folder(path.parent)
    content = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*torch.jit.*", category=DeprecationWarning)
        warnings.filterwarnings("ignore", category=torch.jit.TracerWarning)  # of torch.nn.GRU's own checks
        scripted = torch.jit.trace(module, traced_with) if traced_with else torch.jit.script(module)
        torch.jit.save(scripted, content)
    atomic_write(path, content.getvalue())
    return path

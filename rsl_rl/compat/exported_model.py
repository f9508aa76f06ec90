"""Networks of clients as files: the network itself is traced, whatever its methods do."""

from __future__ import annotations

import copy
import warnings
from typing import Any, List, Tuple

import torch
from torch import Tensor, nn

from rsl_rl.exporters.policy_module import ImagePolicy, action_layers, example_inputs, output_names
from rsl_rl.utils.trajectories import as_states


class ExportedModel(ImagePolicy):
    """obs [1, D], each image group [1, C, H, W], h_in and c_in [L, 1, H] of a memory -> actions [1, A], h_out, c_out.

    ``network`` is a network of version 4 or 5; actions are without exploration.
    """

    def __init__(self, network: Any, verbose: bool = False):
        nn.Module.__init__(self)
        latest = {} if network.distribution is None else {id(network.distribution.latest): None}
        self.network = copy.deepcopy(network, latest).cpu().eval().requires_grad_(False)
        self.network.reset()
        self.layers = nn.ModuleList([] if network.distribution is None else action_layers(network.distribution.family))
        self.is_recurrent, self.verbose = bool(network.is_recurrent), verbose
        self.num_obs = self.input_size = network.obs_dim
        images: List[Any] = [getattr(network, f"obs_{name}_2d", []) for name in ("groups", "channels", "dims")]
        self.image_shapes = {group: (channels, *size) for group, channels, size in zip(*images)}
        self.rnn = network.rnn.rnn if self.is_recurrent else None
        self.state_names = () if self.rnn is None else ("h",) if isinstance(self.rnn, nn.GRU) else ("h", "c")
        self.input_names, self.output_names = list(example_inputs(self)), list(output_names(self))

    def forward(self, obs: Tensor, *others: Tensor) -> Tuple[Tensor, ...]:  # type: ignore[override]
        network, num_images = self.network, len(self.image_shapes)
        groups = dict(zip(network.obs_groups, obs.split(network.group_sizes, dim=-1)))
        groups.update(zip(self.image_shapes, others[:num_images]))
        states = others[num_images:]
        if states:
            network.reset(hidden_state=states[0] if len(states) == 1 else tuple(states))
        x = network.mlp(network.get_latent(groups))
        for layer in self.layers:
            x = layer(x)
        after = as_states(network.get_hidden_state()) if states else ()
        network.reset()
        return (x, *after) if states else x  # type: ignore[return-value]

    def get_dummy_inputs(self) -> Tuple[Tensor, ...]:
        """Return inputs of zeros."""
        return tuple(example_inputs(self).values())


class WithOneState(nn.Module):
    """obs [1, D] -> actions [1, A], with the state of a GRU inside."""

    def __init__(self, traced: torch.jit.ScriptModule, zeros: Tensor):
        super().__init__()
        self.traced = traced
        self.hidden_state: Tensor
        self.register_buffer("hidden_state", zeros)

    def forward(self, x: Tensor) -> Tensor:
        actions, h = self.traced(x, self.hidden_state)
        self.hidden_state[:] = h
        return actions

    @torch.jit.export
    def reset(self) -> None:
        """Start an episode."""
        self.hidden_state[:] = 0.0


class WithTwoStates(nn.Module):
    """obs [1, D] -> actions [1, A], with the states of an LSTM inside."""

    def __init__(self, traced: torch.jit.ScriptModule, zeros: Tensor):
        super().__init__()
        self.traced = traced
        self.hidden_state: Tensor
        self.cell_state: Tensor
        self.register_buffer("hidden_state", zeros)
        self.register_buffer("cell_state", zeros.clone())

    def forward(self, x: Tensor) -> Tensor:
        actions, h, c = self.traced(x, self.hidden_state, self.cell_state)
        self.hidden_state[:] = h
        self.cell_state[:] = c
        return actions

    @torch.jit.export
    def reset(self) -> None:
        """Start an episode."""
        self.hidden_state[:] = 0.0
        self.cell_state[:] = 0.0


def scriptable(network: Any) -> nn.Module:
    """Return a copy of a network that ``torch.jit.script`` takes; a recurrent one keeps its state itself."""
    exported = ExportedModel(network)
    inputs: List[Tensor] = list(exported.get_dummy_inputs())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*torch.jit.*", category=DeprecationWarning)
        warnings.filterwarnings("ignore", category=torch.jit.TracerWarning)  # of torch.nn.GRU's own checks
        traced: Any = torch.jit.trace(exported, tuple(inputs))
    if not exported.state_names:
        return traced
    if exported.image_shapes:
        raise ValueError("a recurrent network of images cannot be scripted with its state inside; take as_onnx()")
    return (WithOneState if len(exported.state_names) == 1 else WithTwoStates)(traced, inputs[-1])

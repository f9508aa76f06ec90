"""Networks with the constructors that rsl_rl 3 to 5 have, for clients that build their own from them."""

from __future__ import annotations

import math
from typing import Any, List, Optional, Sequence, Tuple, Union, cast

import torch
from torch import Tensor, nn

from rsl_rl.compat.former_functions import get_param, resolve_nn_activation
from rsl_rl.config.policy import CNNConfig
from rsl_rl.modules.cnn import CNN as OurCNN  # noqa: N811
from rsl_rl.modules.memory import reset_states
from rsl_rl.modules.mlp import MLP as OurMLP  # noqa: N811
from rsl_rl.utils.trajectories import HiddenState, unpad_trajectories


class _WithOurs(type):
    """Makes a class stand for this package's class of the same name too: by arguments of that, and in isinstance."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        ours = vars(cls).get("ours")
        if ours is not None and getattr(cls, "are_ours")(args):  # noqa: B009 - the classes have it
            return ours(*args, **kwargs)
        return super().__call__(*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        ours = vars(cls).get("ours")
        return super().__instancecheck__(instance) or (ours is not None and isinstance(instance, ours))


class MLP(nn.Sequential, metaclass=_WithOurs):
    """Linear layers with an activation between them; an ``output_dim`` of several numbers is a shape."""

    ours = OurMLP

    @staticmethod
    def are_ours(args: Sequence[Any]) -> bool:
        """Return whether arguments are layers."""
        return len(args) > 0 and isinstance(args[0], (nn.Module, dict))

    def __init__(
        self,
        input_dim: int,
        output_dim: Union[int, Sequence[int]],
        hidden_dims: Sequence[int],
        activation: str = "elu",
        last_activation: Optional[str] = None,
    ):
        layers: List[nn.Module] = []
        size = input_dim
        for units in hidden_dims:
            units = input_dim if units == -1 else units
            layers += [nn.Linear(size, units), resolve_nn_activation(activation)]
            size = units
        shape = [output_dim] if isinstance(output_dim, int) else list(output_dim)
        layers.append(nn.Linear(size, math.prod(shape)))
        if not isinstance(output_dim, int):
            layers.append(nn.Unflatten(-1, shape))
        if last_activation is not None:
            layers.append(resolve_nn_activation(last_activation))
        super().__init__(*layers)

    def __getitem__(self, index: Any) -> Any:
        return nn.Sequential(*list(self)[index]) if isinstance(index, slice) else super().__getitem__(index)

    def init_weights(self, scales: Union[float, Sequence[float]]) -> None:
        """Make each linear layer's weight orthogonal with the gain of its place, and its bias zero."""
        for i, layer in enumerate(self):
            if isinstance(layer, nn.Linear):
                nn.init.orthogonal_(layer.weight, gain=get_param(scales, i))
                nn.init.zeros_(layer.bias)


class CNN(nn.Sequential, metaclass=_WithOurs):
    """Convolutions with an activation behind each, over images [N, C, H, W]; the outputs are flattened by default."""

    ours = OurCNN

    @staticmethod
    def are_ours(args: Sequence[Any]) -> bool:
        """Return whether arguments are a shape and a config."""
        return len(args) == 2 and isinstance(args[1], CNNConfig)

    def __init__(
        self,
        input_dim: Tuple[int, int],
        input_channels: int,
        output_channels: Sequence[int],
        kernel_size: Union[int, Sequence[int]],
        stride: Union[int, Sequence[int]] = 1,
        padding: str = "none",
        activation: str = "elu",
        flatten: bool = True,
        global_pool: str = "none",
        **others: Any,
    ):
        others.update({"global_pool": global_pool} if global_pool != "none" else {})
        if others:
            raise ValueError(f"CNN has no {', '.join(others)} here; give stride, padding, activation or flatten")
        layers: List[nn.Module] = []
        channels = input_channels
        for i, out in enumerate(output_channels):
            kernel = get_param(kernel_size, i)
            mode = "zeros" if padding == "none" else padding
            size = 0 if padding == "none" else kernel // 2
            layers.append(nn.Conv2d(channels, out, kernel, get_param(stride, i), size, padding_mode=cast(Any, mode)))
            layers.append(resolve_nn_activation(activation))
            channels = out
        layers += [nn.Flatten()] * flatten
        super().__init__(*layers)
        with torch.no_grad():
            shape = super().forward(torch.zeros(1, input_channels, *input_dim)).shape[1:]
        self.output_channels = None if flatten else channels
        self.output_dim = shape[0] if flatten else tuple(shape[1:])


class RNN(nn.Module):
    """A GRU or LSTM that keeps its state over steps [N, D], or runs padded trajectories [T, M, D] with their masks."""

    def __init__(self, input_size: int, hidden_dim: int = 256, num_layers: int = 1, type: str = "lstm"):
        super().__init__()
        kind = nn.GRU if type.lower() == "gru" else nn.LSTM
        self.rnn = kind(input_size=input_size, hidden_size=hidden_dim, num_layers=num_layers)
        self.hidden_state: HiddenState = None

    def forward(self, input: Tensor, masks: Optional[Tensor] = None, hidden_state: HiddenState = None) -> Tensor:
        if masks is not None:
            return unpad_trajectories(self.rnn(input, hidden_state)[0], masks)
        output, self.hidden_state = self.rnn(input.unsqueeze(0), self.hidden_state)
        return output

    def reset(self, dones: Optional[Tensor] = None, hidden_state: HiddenState = None) -> None:
        """Zero the state of the environments marked in dones [N], or set all of it."""
        self.hidden_state = hidden_state if dones is None else reset_states(self.hidden_state, dones)


class EmpiricalNormalization(nn.Module):
    """Scale inputs [..., D] by the mean and deviation of what :meth:`update` has seen; up to ``until`` samples."""

    def __init__(self, shape: Union[int, Sequence[int]], eps: float = 1e-2, until: Optional[float] = None):
        super().__init__()
        self.eps, self.until = eps, until
        self._mean: Tensor  # [1, D]
        self._var: Tensor  # [1, D]
        self._std: Tensor  # [1, D]
        self.count: Tensor  # [] samples seen
        self.register_buffer("_mean", torch.zeros(shape).unsqueeze(0))
        self.register_buffer("_var", torch.ones(shape).unsqueeze(0))
        self.register_buffer("_std", torch.ones(shape).unsqueeze(0))
        self.register_buffer("count", torch.tensor(0, dtype=torch.long))

    @property
    def mean(self) -> Tensor:
        """Mean [D]."""
        return self._mean.squeeze(0).clone()

    @property
    def std(self) -> Tensor:
        """Standard deviation [D]."""
        return self._std.squeeze(0).clone()

    def forward(self, x: Tensor) -> Tensor:
        return (x - self._mean) / (self._std + self.eps)

    @torch.jit.unused
    @torch.no_grad()
    def update(self, x: Tensor) -> None:
        """Merge a batch [N, D] into the statistics, in training mode."""
        if not self.training or (self.until is not None and self.count >= self.until):
            return
        self.count += len(x)
        share = len(x) / self.count
        mean, var = x.mean(dim=0, keepdim=True), x.var(dim=0, unbiased=False, keepdim=True)
        delta = mean - self._mean
        self._mean += share * delta
        self._var += share * (var - self._var + delta * (mean - self._mean))
        self._std.copy_(self._var.sqrt())

    @torch.jit.unused
    def inverse(self, y: Tensor) -> Tensor:
        """Return what is scaled to y."""
        return y * (self._std + self.eps) + self._mean

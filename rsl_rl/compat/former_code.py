"""Networks, with the constructors of rsl_rl 3 to 5, and helper functions that rsl_rl 1 to 5 have and clients import."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union, cast

import torch
from torch import Tensor, nn

from rsl_rl.compat import eras
from rsl_rl.compat.former_names import Facade
from rsl_rl.config.policy import CNNConfig
from rsl_rl.modules.cnn import CNN as OurCNN  # noqa: N811
from rsl_rl.modules.memory import reset_states
from rsl_rl.modules.mlp import MLP as OurMLP  # noqa: N811
from rsl_rl.modules.mlp import get_activation
from rsl_rl.utils.git_state import read_git_state, write_git_state
from rsl_rl.utils.registry import suggest
from rsl_rl.utils.trajectories import HiddenState, as_states, unpad_trajectories

_OPTIMIZERS = {
    "adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD, "rmsprop": torch.optim.RMSprop,
}  # fmt: skip

# Networks


class MLP(nn.Sequential, metaclass=Facade):
    """Linear layers with an activation between them; an ``output_dim`` of several numbers is a shape. With layers as
    arguments it is one of this version."""

    stands_for = OurMLP

    def __new__(cls, *args: Any, **settings: Any) -> Any:
        is_ours = cls is MLP and len(args) > 0 and isinstance(args[0], (nn.Module, dict))
        return OurMLP(*args) if is_ours else super().__new__(cls)

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


class CNN(nn.Sequential, metaclass=Facade):
    """Convolutions with an activation behind each, over images [N, C, H, W]; the outputs are flattened by default. With
    a shape and a config as arguments it is one of this version."""

    stands_for = OurCNN

    def __new__(cls, *args: Any, **settings: Any) -> Any:
        is_ours = cls is CNN and len(args) == 2 and isinstance(args[1], CNNConfig)
        return OurCNN(*args) if is_ours else super().__new__(cls)

    def __init__(
        self,
        input_dim: Tuple[int, int],
        input_channels: int,
        output_channels: Sequence[int],
        kernel_size: Union[int, Sequence[int]],
        stride: Union[int, Sequence[int]] = 1,
        dilation: Union[int, Sequence[int]] = 1,
        padding: str = "none",
        norm: Union[str, Sequence[str]] = "none",
        activation: str = "elu",
        max_pool: Union[bool, Sequence[bool]] = False,
        global_pool: str = "none",
        flatten: bool = True,
    ):
        layers: List[nn.Module] = []
        images = torch.zeros(1, input_channels, *input_dim)  # whose shape behind each layer sets the next one's size
        for i, out in enumerate(output_channels):
            kernel, step, spread = (get_param(value, i) for value in (kernel_size, stride, dilation))
            mode = "zeros" if padding == "none" else padding
            size = tuple(0 if padding == "none" else same_padding(n, kernel, step, spread) for n in images.shape[2:])
            convolution = nn.Conv2d(
                images.shape[1], out, kernel, step, cast(Any, size), spread, padding_mode=cast(Any, mode)
            )
            with torch.no_grad():
                images = convolution(images)
            layers += [convolution, *_norm(get_param(norm, i), images), resolve_nn_activation(activation)]
            if get_param(max_pool, i):
                layers.append(nn.MaxPool2d(kernel_size=3, stride=2, padding=1))
                images = layers[-1](images)
        if global_pool not in _GLOBAL_POOLS:
            raise ValueError(f"unknown global_pool '{global_pool}'; allowed: {', '.join(_GLOBAL_POOLS)}")
        pools: List[nn.Module] = [pool((1, 1)) for pool in _GLOBAL_POOLS[global_pool]]
        for pool in pools:
            images = pool(images)
        super().__init__(*layers, *pools, *[nn.Flatten()] * flatten)
        channels, shape = images.shape[1], tuple(images.shape[2:])
        self.output_channels = None if flatten else channels
        self.output_dim = channels * math.prod(shape) if flatten else shape

    def init_weights(self) -> None:
        """Draw the weights of the convolutions by Kaiming's rule, and make their biases zero."""
        for layer in self:
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight)
                nn.init.zeros_(cast(Tensor, layer.bias))


_GLOBAL_POOLS: Dict[str, List[Any]] = {"none": [], "max": [nn.AdaptiveMaxPool2d], "avg": [nn.AdaptiveAvgPool2d]}


def _norm(kind: str, images: Tensor) -> List[nn.Module]:
    """Return the layer that normalises images [N, C, H, W], if there is one."""
    if kind not in ("none", "batch", "layer"):
        raise ValueError(f"unknown norm '{kind}'; allowed: none, batch, layer")
    if kind == "none":
        return []
    return [nn.BatchNorm2d(images.shape[1]) if kind == "batch" else nn.LayerNorm(list(images.shape[1:]))]


def same_padding(size: int, kernel: int, stride: int, dilation: int) -> int:
    """Return the padding with which a convolution over ``size`` pixels has size // stride outputs."""
    missing = stride * (size // stride - 1) + dilation * (kernel - 1) + 1 - size
    return max(0, math.ceil(missing / 2))


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

    def detach_hidden_state(self, dones: Optional[Tensor] = None) -> None:
        """Keep the state without its gradient, of the environments marked in dones [N] or of all."""
        self.hidden_state = detached(self.hidden_state, dones)


def detached(state: HiddenState, dones: Optional[Tensor] = None) -> HiddenState:
    """Return a recurrent state [L, N, H] without its gradient, of the environments marked in dones [N] or of all."""
    if state is None:
        return None
    parts = [part.detach() for part in as_states(state)]
    if dones is not None:
        done = dones.bool().reshape(1, -1, 1)
        parts = [torch.where(done, part, whole) for part, whole in zip(parts, as_states(state))]
    return parts[0] if isinstance(state, Tensor) else tuple(parts)


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


class EmpiricalDiscountedVariationNormalization(nn.Module):
    """Divide rewards [N] by the running standard deviation of their discounted sums, in training mode."""

    def __init__(
        self, shape: Union[int, Sequence[int]], eps: float = 1e-2, gamma: float = 0.99, until: Optional[float] = None
    ):
        super().__init__()
        self.emp_norm = EmpiricalNormalization(shape, eps, until)
        self.gamma, self.sums = gamma, torch.zeros(())

    def forward(self, rew: Tensor) -> Tensor:
        if self.training:
            self.sums = self.gamma * self.sums + rew
            self.emp_norm.update(self.sums)
        std = self.emp_norm.std
        return rew / torch.where(std > 0, std, torch.ones_like(std))


# Functions


def resolve_callable(callable_or_name: Any) -> Any:
    """Return a class or function by "package.module:name", "package.module.name" or a bare name; others as they are."""
    if callable(callable_or_name):
        return callable_or_name
    if not isinstance(callable_or_name, str):
        raise TypeError(f"got a {type(callable_or_name).__name__}; give a class, a function or the name of one")
    return eras.resolve_class(callable_or_name)


string_to_callable = resolve_callable


def resolve_class(cfg: Mapping[str, Any]) -> Tuple[Any, Dict[str, Any]]:
    """Return the class that ``cfg["class_name"]`` names, and a copy of the other settings."""
    own = copy.deepcopy(dict(cfg))
    return resolve_callable(own.pop("class_name")), own


def activation_name(act_name: str) -> str:
    """Return our name of a non-linearity."""
    return {"swish": "silu", "crelu": "celu"}.get(act_name.lower(), act_name.lower())


def resolve_nn_activation(act_name: str) -> nn.Module:
    """Return a fresh non-linearity by its name."""
    return get_activation(activation_name(act_name))


def resolve_optimizer(optimizer_name: str) -> Any:
    """Return an optimiser's class by its name: adam, adamw, sgd or rmsprop."""
    if optimizer_name.lower() not in _OPTIMIZERS:
        raise ValueError(f"unknown optimizer '{optimizer_name}'; allowed: {', '.join(_OPTIMIZERS)}")
    return _OPTIMIZERS[optimizer_name.lower()]


def get_param(param: Any, idx: int) -> Any:
    """Return an entry of a list or tuple; anything else as it is."""
    return param[idx] if isinstance(param, (tuple, list)) else param


def resolve_obs_groups(
    obs: Mapping[str, Tensor], obs_groups: Mapping[str, Sequence[str]], default_sets: Sequence[str]
) -> Dict[str, List[str]]:
    """Return observation groups by set: as named, and for the default sets that are not, the group of the set's name,
    else "policy"; a group that the observations lack is a ValueError."""
    known = list(obs.keys())
    resolved = {name: list(groups) for name, groups in obs_groups.items()}
    for name in default_sets:
        resolved.setdefault(name, [name] if name in known else list(resolved.get("policy", ["policy"])))
    for name, groups in resolved.items():
        for group in groups:
            if group not in known:
                raise ValueError(
                    f"obs_groups['{name}'] names '{group}', and there are {', '.join(known)}.{suggest(group, known)}"
                )
    return resolved


def resolve_rnd_config(alg_cfg: Dict[str, Any], *others: Any, **named: Any) -> Dict[str, Any]:
    """Return the settings as they are; the runner reads ``rnd_cfg`` and ``symmetry_cfg`` itself."""
    return alg_cfg


resolve_symmetry_config = resolve_rnd_config


def check_nan(obs: Mapping[str, Tensor], rewards: Tensor, dones: Tensor) -> None:
    """Raise a ValueError where the environment gives NaN."""
    values = {**{f"observation '{name}'": obs[name] for name in obs.keys()}, "reward": rewards, "done": dones}  # noqa: SIM118
    broken = [name for name, value in values.items() if torch.isnan(value).any()]
    if broken:
        raise ValueError(f"the environment gives NaN in {', '.join(broken)}; repair the term behind it")


def compile_model(model: nn.Module, mode: Optional[str] = None) -> nn.Module:
    """Return a model compiled by ``torch.compile`` in a mode; as it is for None."""
    return model if mode is None else torch.compile(model, mode=mode)  # type: ignore[return-value]


def store_code_state(logdir: str, repositories: Sequence[str]) -> List[str]:
    """Write commit and uncommitted changes of repositories into ``logdir/git``; return the files."""
    folder = Path(logdir) / "git"
    write_git_state(read_git_state(repositories), folder)
    return sorted(str(path) for path in folder.glob("*.diff"))

"""Helper functions that rsl_rl 1 to 5 have in ``rsl_rl.utils``."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn

from rsl_rl.compat.classes import resolve_class as class_of
from rsl_rl.modules.mlp import get_activation
from rsl_rl.utils.git_state import write_git_state
from rsl_rl.utils.registry import suggest

_ACTIVATIONS = {"swish": "silu", "crelu": "celu"}
_OPTIMIZERS = {
    "adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD, "rmsprop": torch.optim.RMSprop,
}  # fmt: skip


def resolve_callable(callable_or_name: Any) -> Any:
    """Return a class or function by "package.module:name", "package.module.name" or a bare name; others as they are."""
    if callable(callable_or_name):
        return callable_or_name
    if not isinstance(callable_or_name, str):
        raise TypeError(f"got a {type(callable_or_name).__name__}; give a class, a function or the name of one")
    return class_of(callable_or_name)


def string_to_callable(name: str) -> Any:
    """Return a function by "package.module:name"."""
    return resolve_callable(name)


def resolve_class(cfg: Mapping[str, Any]) -> Tuple[Any, Dict[str, Any]]:
    """Return the class that ``cfg["class_name"]`` names, and a copy of the other settings."""
    own = copy.deepcopy(dict(cfg))
    return resolve_callable(own.pop("class_name")), own


def resolve_nn_activation(act_name: str) -> nn.Module:
    """Return a fresh non-linearity by its name."""
    return get_activation(_ACTIVATIONS.get(act_name.lower(), act_name.lower()))


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


def resolve_rnd_config(alg_cfg: Dict[str, Any], obs: Any, obs_groups: Any, env: Any) -> Dict[str, Any]:
    """Return the settings as they are; the runner reads ``rnd_cfg`` itself."""
    return alg_cfg


def resolve_symmetry_config(alg_cfg: Dict[str, Any], env: Any) -> Dict[str, Any]:
    """Return the settings as they are; the runner reads ``symmetry_cfg`` itself."""
    return alg_cfg


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
    write_git_state([Path(path) for path in repositories], folder)
    return sorted(str(path) for path in folder.glob("*.diff"))

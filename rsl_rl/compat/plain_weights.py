"""Weights of this package's own layers and of a client's networks, as files of other versions hold them."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Tuple

import torch
from torch import Tensor

from rsl_rl.modules.symmetry import SymmetricLinear
from rsl_rl.utils.checkpoints import CheckpointError

_MIRRORS = ("input_index", "input_sign", "output_index", "output_sign")


def plain_weights(weights: Mapping[str, Tensor]) -> Tuple[Dict[str, Tensor], bool]:
    """Return weights with plain layers in the place of symmetric ones, and whether there were some.

    A plain layer has the averages that a symmetric one computes with. A symmetric memory is a CheckpointError.
    """
    layers = [name[: -len("input_index")] for name in weights if name.endswith(".input_index")]
    if not layers:
        return dict(weights), False
    if any(name.startswith("memory_") for name in weights):
        raise CheckpointError("rsl_rl has no counterpart of a symmetric memory; train a policy without symmetry")
    result = {name: value for name, value in weights.items() if name.rpartition(".")[2] not in _MIRRORS}
    for layer in layers:
        index, sign, out_index, out_sign = (weights[layer + name] for name in _MIRRORS)
        mirrors = [(tuple(i.tolist()), tuple(s.tolist())) for i, s in ((index, sign), (out_index, out_sign))]
        module = SymmetricLinear(mirrors[0], mirrors[1])
        module.load_state_dict({name: weights[layer + name] for name in module.state_dict()})
        with torch.no_grad():
            result[f"{layer}weight"], result[f"{layer}bias"] = module.weight_and_bias()
    heads = [layer for layer in layers if layer.startswith("actor.")]
    mirrored = weights[f"{heads[-1]}output_index"]  # that of the actions
    for name in ("std", "log_std"):
        if name in result:
            value = result[name].exp() if name == "log_std" else result[name]
            value = 0.5 * (value + value[mirrored])
            result[name] = value.log() if name == "log_std" else value
    return result, True


def require_convertible(state: Mapping[str, Any]) -> None:
    """Raise a CheckpointError where a file of another version cannot say what a checkpoint of this package says."""
    weights = state.get("model_state_dict", {})
    if "teacher_state_dict" in state or any(name.startswith("student.") for name in weights):
        raise CheckpointError("it is a distillation; load it with its runner and save runner.alg.save()")
    if not any(name in weights for name in ("std", "log_std", *_STD_OF_MODELS)):
        raise CheckpointError(
            "its standard deviation depends on the state, or its distribution has none, and the file does not say "
            "which; load it with its runner and save runner.alg.save()"
        )


_STD_OF_MODELS = ("actor.distribution.std_param", "actor.distribution.log_std_param")
"""Names of the standard deviation of a client's networks."""


def is_of_models(weights: Mapping[str, Tensor]) -> bool:
    """Return whether weights are those of a client's networks."""
    return any(name in weights for name in _STD_OF_MODELS)


def parts_of_models(weights: Mapping[str, Tensor], major: int) -> Dict[str, Dict[str, Tensor]]:
    """Return the weights of a client's networks as a file of version 4 or 5 holds them."""
    if major < 4:
        raise CheckpointError("its networks are derived from MLPModel, CNNModel or RNNModel; convert to 4.0 or later")
    parts: Dict[str, Dict[str, Tensor]] = {}
    for role in ("actor", "critic"):
        own = {name[len(role) + 1 :]: value for name, value in weights.items() if name.startswith(f"{role}.")}
        if major == 4:
            own = {name.replace("distribution.", "").replace("_param", ""): value for name, value in own.items()}
        parts[f"{role}_state_dict"] = own
    return parts

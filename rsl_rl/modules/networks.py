"""Construct the parts of actor and critic that a policy's config describes, of plain or of symmetric layers."""

from __future__ import annotations

from typing import Any, Dict, Mapping, NamedTuple, Sequence, Tuple

from torch import nn

from rsl_rl.config.policy import (
    ActorCriticConfig,
    ActorCriticRecurrentConfig,
    CNNConfig,
    MirrorTuple,
    SymmetricActorCriticConfig,
)
from rsl_rl.modules.cnn import CNN, SymmetricCNN
from rsl_rl.modules.distributions import DistributionFamily
from rsl_rl.modules.memory import Memory
from rsl_rl.modules.mlp import MLP, mlp
from rsl_rl.modules.symmetry import SymmetricMemory, joined, swapped_halves, symmetric_mlp

CRITIC_PARTS = ("critic.", "memory_c.", "encoder_c.", "critic_obs_normalizer.", "value_normalizer.")
"""Beginnings of the names in a policy's state dict that belong to the critic; all others belong to the actor."""


def build_networks(
    cfg: ActorCriticConfig,
    num_obs: Tuple[int, int],
    family: DistributionFamily,
    num_actions: int,
    image_shapes: Mapping[str, Sequence[int]],
) -> Dict[str, Any]:
    """Return the heads ``actor`` and ``critic``, and depending on the config the memories ``memory_a`` and
    ``memory_c`` and the image encoders ``encoder_a`` and ``encoder_c``.

    ``num_obs`` are the sizes of the vectors that actor and critic read.
    """
    layers, roles = layers_for(cfg), ("actor", "critic")
    inputs = {role: inputs_for(cfg, role, size) for role, size in zip(roles, num_obs)}
    groups = {"actor": cfg.actor_groups, "critic": cfg.critic_groups or cfg.actor_groups}
    encoders: Dict[str, nn.ModuleDict] = {}
    for role in roles:
        for group in (group for group in groups[role] if group in image_shapes):
            encoder, features = layers.cnn(group, image_shapes[group], cfg.cnn.get(group, CNNConfig()))
            encoders.setdefault(role, nn.ModuleDict())[group] = encoder
            inputs[role] = layers.concatenated(inputs[role], features)
    recurrent = cfg if isinstance(cfg, ActorCriticRecurrentConfig) else None
    with_memory = recurrent.memory_of if recurrent is not None else ()
    size = recurrent.rnn_hidden_size if recurrent is not None else 0
    action = inputs_for(cfg, "action", num_actions)
    outputs = {
        "actor": Features(family.num_outputs, family.mirror_of_outputs(action.mirror)),
        "critic": Features(1, ((0,), (1.0,))),
    }
    hidden_dims = {"actor": cfg.actor_hidden_dims, "critic": cfg.critic_hidden_dims}
    parts: Dict[str, Any] = {}
    for role in roles:
        head_inputs = layers.hidden(size) if role in with_memory else inputs[role]
        parts[role] = layers.mlp(head_inputs, hidden_dims[role], outputs[role], cfg.activation)
    if cfg.initialization == "orthogonal":
        # Gains as in Andrychowicz et al. 2021, https://arxiv.org/abs/2006.05990: a small last layer of the actor.
        for role, last_gain in (("actor", 0.01), ("critic", 1.0)):
            init_orthogonal(parts[role], [2**0.5] * len(hidden_dims[role]) + [last_gain])
    for role in roles:
        if recurrent is not None and role in with_memory:
            memory = layers.memory(inputs[role], recurrent.rnn_type, recurrent.rnn_num_layers, size)
            parts[f"memory_{role[0]}"] = memory
    parts.update({f"encoder_{role[0]}": encoder for role, encoder in encoders.items()})
    return parts


def init_orthogonal(sequential: nn.Sequential, gains: Sequence[float]) -> None:
    """Make the weight of each linear layer orthogonal with the gain of its place, and its bias zero."""
    linears = [module for module in sequential if isinstance(module, nn.Linear)]
    if len(linears) != len(gains):
        raise ValueError(f"got {len(gains)} scales for {len(linears)} linear layers; give one each")
    for linear, gain in zip(linears, gains):
        nn.init.orthogonal_(linear.weight, gain=gain)
        nn.init.zeros_(linear.bias)


class Features(NamedTuple):
    """A vector between two layers."""

    size: int
    mirror: MirrorTuple = ((), ())  # empty for plain layers


class PlainLayers:
    """Layers without symmetry; the mirrors of features are ignored."""

    def hidden(self, size: int) -> Features:
        """Return the features of hidden units."""
        return Features(size)

    def concatenated(self, *parts: Features) -> Features:
        """Return the features of concatenated vectors."""
        return Features(sum(part.size for part in parts))

    def mlp(self, inputs: Features, hidden_dims: Sequence[int], outputs: Features, activation: str) -> MLP:
        """Return linear layers with an activation between them."""
        return mlp(inputs.size, hidden_dims, outputs.size, activation)

    def memory(self, inputs: Features, type: str, num_layers: int, hidden_size: int) -> Memory:
        """Return a GRU or LSTM."""
        return Memory(inputs.size, type, num_layers, hidden_size)

    def cnn(self, group: str, shape: Sequence[int], cfg: CNNConfig) -> Tuple[nn.Module, Features]:
        """Return an image encoder, and its features."""
        return CNN(shape, cfg), Features(cfg.num_features)


class SymmetricLayers(PlainLayers):
    """Layers that map mirrored inputs to mirrored outputs."""

    def __init__(self, image_mirrors: Mapping[str, MirrorTuple]):
        self._image_mirrors = image_mirrors

    def hidden(self, size: int) -> Features:
        return Features(size, swapped_halves(size))

    def concatenated(self, *parts: Features) -> Features:
        return Features(sum(part.size for part in parts), joined(*(part.mirror for part in parts)))

    def mlp(self, inputs: Features, hidden_dims: Sequence[int], outputs: Features, activation: str) -> MLP:
        return symmetric_mlp(inputs.mirror, hidden_dims, outputs.mirror, activation)

    def memory(self, inputs: Features, type: str, num_layers: int, hidden_size: int) -> Memory:
        return SymmetricMemory(inputs.mirror, type, num_layers, hidden_size)

    def cnn(self, group: str, shape: Sequence[int], cfg: CNNConfig) -> Tuple[nn.Module, Features]:
        if group not in self._image_mirrors:
            raise ValueError(
                f"image_mirrors has no '{group}'; the environment's mirrors() must describe every group that is read"
            )
        encoder = SymmetricCNN(shape, cfg, self._image_mirrors[group])
        return encoder, self.hidden(encoder.num_features)


def layers_for(cfg: ActorCriticConfig) -> PlainLayers:
    """Return the layer factory of a policy's config."""
    return SymmetricLayers(cfg.image_mirrors) if isinstance(cfg, SymmetricActorCriticConfig) else PlainLayers()


def inputs_for(cfg: ActorCriticConfig, name: str, size: int) -> Features:
    """Return the features of the vector that ``name`` ("actor", "critic" or "action") stands for, of a given size."""
    if not isinstance(cfg, SymmetricActorCriticConfig):
        return Features(size)
    image: MirrorTuple = getattr(cfg, f"{name}_mirror")
    if len(image[0]) != size:
        raise ValueError(
            f"{name}_mirror has {len(image[0])} entries and the vector {size}; the environment's mirrors() must "
            "describe every observation group that is read, and the actions"
        )
    return Features(size, image)

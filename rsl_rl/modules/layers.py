"""Layer factories: construct the layers of a policy, plain or symmetric."""

from __future__ import annotations

from typing import Mapping, NamedTuple, Sequence, Tuple

from torch import nn

from rsl_rl.config.policy import ActorCriticConfig, CNNConfig, MirrorTuple, SymmetricActorCriticConfig
from rsl_rl.modules.cnn import CNN, SymmetricCNN
from rsl_rl.modules.memory import Memory
from rsl_rl.modules.mirror import joined, swapped_halves
from rsl_rl.modules.mlp import MLP, mlp
from rsl_rl.modules.symmetric import SymmetricMemory, symmetric_mlp


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

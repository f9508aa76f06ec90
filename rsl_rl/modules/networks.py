"""Construct the parts of actor and critic that a policy's config describes."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Sequence, Tuple

from torch import nn

from rsl_rl.config.policy import ActorCriticConfig, ActorCriticRecurrentConfig, CNNConfig
from rsl_rl.modules.distribution_families import DistributionFamily
from rsl_rl.modules.layers import Features, inputs_for, layers_for

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

"""Networks that configurations of earlier versions describe, as our policy configs."""

from __future__ import annotations

from functools import partial
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple, Type, cast

from rsl_rl.compat.checkpoints import ROLES
from rsl_rl.compat.client_classes import policy_class
from rsl_rl.compat.eras import STD_KEYS, Given, filled, is_exact, is_filled, resolve_class, settings_for
from rsl_rl.compat.exact import ExactOutput
from rsl_rl.compat.former_code import activation_name, get_param
from rsl_rl.compat.model_policy import ModelPolicy
from rsl_rl.compat.models import OURS, CNNModel, MLPModel, RNNModel, distribution_class, std_settings
from rsl_rl.compat.policies import ActorCritic, ActorCriticRecurrent
from rsl_rl.config.policy import ActorCriticConfig, ActorCriticRecurrentConfig, CNNConfig
from rsl_rl.env.vec_env import Observations

_MODELS = {"MLPModel": False, "CNNModel": False, "RNNModel": True}
"""Whether a network class of rsl_rl 4 and 5 has a memory; for these the policy is ours."""
_OWN = (ActorCritic, ActorCriticRecurrent, ActorCritic.stands_for, ActorCriticRecurrent.stands_for)
_POLICIES = {"ActorCritic": False, "ActorCriticCNN": False, "ActorCriticRecurrent": True}


_PLAIN_CNN = {
    "dilation": 1,
    "padding": "none",
    "norm": "none",
    "max_pool": False,
    "global_pool": "none",
    "flatten": True,
}
"""Settings of an image encoder that ours does not have, with the value that needs nothing."""


class Network(NamedTuple):
    """One network of a policy."""

    groups: Tuple[str, ...]
    settings: Dict[str, Any]  # hidden_dims, activation, obs_normalization, rnn_type, ..., cnn_cfg
    recurrent: bool


def policy_of(given: Given) -> ActorCriticConfig:
    """Return our config of the actor and critic that a configuration describes."""
    return _of_sections(given) if given.era.major >= 4 else _of_policy(given)


def _of_policy(given: Given) -> ActorCriticConfig:
    """Return the config for a section "policy", which describes both networks."""
    cfg, obs = given.cfg, given.obs
    section = dict(cfg["policy"])
    name = section.pop("class_name", None) or cfg.get("runner", {}).get("policy_class_name") or "ActorCritic"
    shared = {key: section.pop(key) for key in _SHARED_KEYS if key in section}
    cls: Optional[Type] = None
    recurrent = _POLICIES.get(name) if isinstance(name, str) else None
    if recurrent is None:
        cls = resolve_class(name, given.near)
        _require_subclass(cls, ActorCritic, "policy.class_name")
        recurrent = issubclass(cast(type, cls), ActorCriticRecurrent)
        cls = None if cls in _OWN else cls
    networks = []
    for role in ROLES:
        own = {"hidden_dims": section.pop(f"{role}_hidden_dims", None), "cnn_cfg": section.pop(f"{role}_cnn_cfg", None)}
        norm = section.pop(f"{role}_obs_normalization", None)
        own["obs_normalization"] = cfg.get("empirical_normalization") if norm in (None, {}) else norm
        networks.append(Network(groups_of(given, role), {**shared, **own}, recurrent))
    distribution = {key: section.pop(key) for key in STD_KEYS if key in section}
    if cls is None:
        given.unused.extend(f"policy.{key}" for key in section)
    else:
        base = ActorCriticRecurrent if recurrent else ActorCritic
        cls = policy_class(cls, base, cfg["policy"], given.era, obs)
    return policy_config(networks, std_settings(distribution), given, cls)


_SHARED_KEYS = ("activation", "rnn_type", "rnn_hidden_size", "rnn_hidden_dim", "rnn_num_layers")
_OWN_KEYS = ("class_name", "hidden_dims", "obs_normalization", "distribution_cfg", "cnn_cfg")
_MODEL_KEYS = (*_OWN_KEYS, *_SHARED_KEYS, *STD_KEYS)


def _of_sections(given: Given) -> ActorCriticConfig:
    """Return the config for the sections "actor" and "critic"."""
    networks, classes = [], []
    for role in ROLES:
        section = given.cfg.get(role)
        if not is_filled(section):
            raise ValueError(f"the configuration has no '{role}'; describe the network, as in {{'hidden_dims': [256]}}")
        cls = resolve_class(section.get("class_name", "MLPModel"), given.near)
        _require_subclass(cls, MLPModel, f"{role}.class_name")
        classes.append(cls)
        networks.append(Network(groups_of(given, role), dict(section), _MODELS.get(cls.__name__, False)))
    distribution = distribution_of(networks[0].settings)
    own = has_own_distribution(given.cfg)
    settings = {} if own else std_settings(distribution)
    if is_exact(given.cfg):
        if own or settings["distribution"] != "gaussian" or settings["state_dependent_std"]:
            raise ValueError(
                "compat='exact' reproduces GaussianDistribution alone; take it, or leave out compat for "
                f"{distribution.get('class_name')}"
            )
        distribution["class_name"] = ExactOutput
    elif not own and all(cls in (MLPModel, CNNModel, RNNModel) for cls in classes):
        for role, network in zip(ROLES, networks):
            given.unused.extend(f"{role}.{key}" for key in network.settings if key not in _MODEL_KEYS)
        return policy_config(networks, settings, given)
    described = []
    for cls, network in zip(classes, networks):
        own = {key: value for key, value in network.settings.items() if key not in ("class_name", *STD_KEYS)}
        described.append((cls, {key: value for key, value in own.items() if value is not None}))
    described[0][1]["distribution_cfg"] = {"class_name": "GaussianDistribution", **distribution}
    described[1][1].pop("distribution_cfg", None)
    for role, network in zip(ROLES, networks):
        settings[f"{role}_groups"] = network.groups
    first = {name: given.obs[name] for network in networks for name in network.groups}
    builds = staticmethod(partial(ModelPolicy, networks=described, obs=first))
    return settings_for(ActorCriticConfig, ModelPolicy, builds=builds)(**settings)


def has_own_distribution(cfg: Mapping[str, Any]) -> bool:
    """Return whether the actor of a configuration of version 4 or 5 has a distribution of a client's class."""
    return distribution_class(distribution_of(filled(cfg.get("actor")))) not in OURS


def needs_plain_ppo(given: Given) -> bool:
    """Return whether networks of a configuration of version 4 or 5 compute their distribution, or all of their outputs,
    themselves."""
    if given.era.major < 4:
        return False
    sections = [filled(given.cfg.get(role)) for role in ROLES]
    classes = [resolve_class(section["class_name"], given.near) for section in sections if section.get("class_name")]
    own = any(isinstance(cls, type) and issubclass(cls, MLPModel) and cls.has_own_forward() for cls in classes)
    return own or has_own_distribution(given.cfg)


def distribution_of(section: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the settings of the distribution of a network of version 4 or 5."""
    if is_filled(section.get("distribution_cfg")):
        return dict(section["distribution_cfg"])
    return {key: section[key] for key in STD_KEYS if key in section}


def groups_of(given: Given, role: str) -> Tuple[str, ...]:
    """Return the observation groups that a network reads: as named, else the group of its name, else "policy"."""
    sets, known = filled(given.cfg.get("obs_groups")), list(given.obs.keys())
    named = sets.get(role) or (sets.get("policy") if role in ("actor", "student") else None)
    if named:
        return tuple(named)
    if role in known and (given.era.major >= 4 or role != "actor"):
        return (role,)
    return ("policy",) if "policy" in known or role != "critic" else groups_of(given, "actor")


def policy_config(
    networks: Sequence[Network], settings: Dict[str, Any], given: Given, cls: Optional[Type] = None
) -> ActorCriticConfig:
    """Return the config of an actor and a critic."""
    for role, network in zip(ROLES, networks):
        settings[f"{role}_groups"] = network.groups
        settings[f"{role}_obs_normalization"] = bool(network.settings.get("obs_normalization") or False)
        settings[f"{role}_hidden_dims"] = _hidden_dims(network, given.obs)
    settings["activation"] = activation_name(_one(networks, "activation", "elu"))
    settings["cnn"] = _cnn_of(networks, given)
    memory_of = tuple(role for role, network in zip(ROLES, networks) if network.recurrent)
    base: Type = ActorCriticConfig
    if memory_of:
        base = ActorCriticRecurrentConfig
        with_memory = [network for network in networks if network.recurrent]
        settings.update(
            memory_of=memory_of,
            rnn_type=_one(with_memory, "rnn_type", "lstm").lower(),
            rnn_hidden_size=_one(with_memory, "rnn_hidden_dim", _one(with_memory, "rnn_hidden_size", 256)),
            rnn_num_layers=_one(with_memory, "rnn_num_layers", 1),
        )
    return base(**settings) if cls is None else settings_for(base, cls)(**settings)


def _one(networks: Sequence[Network], key: str, default: Any) -> Any:
    """Return a setting that all networks share; two values are a ValueError."""
    values = [network.settings.get(key) for network in networks]
    values = [default if value in (None, {}) else value for value in values]
    if values.count(values[0]) != len(values):
        raise ValueError(
            f"{key} is {values[0]!r} for the actor and {values[1]!r} for the critic; here both have the same, so give "
            "one value"
        )
    return values[0]


def _hidden_dims(network: Network, obs: Observations) -> Tuple[int, ...]:
    """Return the sizes of the hidden layers; -1 stands for that of the input."""
    given = network.settings.get("hidden_dims")
    dims = (256, 256, 256) if given in (None, {}) else tuple(given)
    size = sum(obs[group].shape[-1] for group in network.groups if group in obs.keys())  # noqa: SIM118
    return tuple(size if units == -1 else units for units in dims)


def _cnn_of(networks: Sequence[Network], given: Given) -> Dict[str, CNNConfig]:
    """Return the encoders of image groups; ours end in a linear layer and have one size of kernel and stride."""
    configs: Dict[str, CNNConfig] = {}
    obs, unused = given.obs, given.unused
    for network in networks:
        cnn_cfg = filled(network.settings.get("cnn_cfg"))
        for group in network.groups if cnn_cfg else ():
            if group not in obs.keys() or obs[group].dim() < 3:  # noqa: SIM118
                continue
            own = cnn_cfg.get(group, cnn_cfg)
            cnn = {"channels": own.get("output_channels"), "activation": activation_name(own.get("activation", "elu"))}
            cnn.update({key: get_param(own.get(key), 0) for key in ("kernel_size", "stride")})
            configs[group] = CNNConfig(**{key: value for key, value in cnn.items() if value is not None})
            taken = ("output_channels", "activation", "kernel_size", "stride")
            others = sorted(key for key in own if key not in taken and own[key] != _PLAIN_CNN.get(key))
            unused += [f"cnn_cfg.{key}" for key in others if f"cnn_cfg.{key}" not in unused]
    return configs


def _require_subclass(cls: Any, base: Type, where: str) -> None:
    if not (isinstance(cls, type) and issubclass(cls, base)):
        raise ValueError(f"{where} names {cls!r}; give a subclass of {base.__module__}.{base.__name__}")

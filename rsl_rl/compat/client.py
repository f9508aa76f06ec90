"""Settings of any era as ours, and what the client that gives them expects."""

from __future__ import annotations

import copy
import sys
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Union

from rsl_rl.algorithms.algorithm import Algorithm
from rsl_rl.compat.config import translate
from rsl_rl.compat.eras import Era, era_of
from rsl_rl.compat.loading import fitted, wants
from rsl_rl.config.learn import LearnConfig
from rsl_rl.env.vec_env import VecEnv
from rsl_rl.utils.config_io import from_dict


class LoadRequest(NamedTuple):
    """What of a checkpoint is to be loaded."""

    optimizer: bool
    env: bool  # the current episodes
    iteration: bool
    convert: Callable[[Any], Any]  # what a file holds -> a checkpoint in our form


class Client:
    """The code that constructs a runner, as far as it matters to the runner.

    ``settings`` are ours. ``cfg``, ``alg_cfg`` and ``policy_cfg`` are what the client finds as the runner's attributes:
    in an earlier format, copies of what it gave. ``first_iteration`` is the number of the first update.
    """

    def __init__(self, settings: LearnConfig, given: Optional[Mapping[str, Any]] = None, era: Optional[Era] = None):
        self.settings, self.era = settings, era
        self.first_iteration = 1 if era is None else era.first_iteration
        self.cfg: Any = settings.runner
        self.alg_cfg: Any = settings.algorithm
        self.policy_cfg: Any = settings.policy
        if era is not None and given is not None:
            own = _copied(given)
            self.cfg = own["runner"] if era.major == 1 else own
            self.alg_cfg, self.policy_cfg = own["algorithm"], own.get("policy", own.get("actor"))

    def load_request(
        self, alg: Algorithm, load_optimizer: Any, load_env: bool, options: Mapping[str, Any]
    ) -> LoadRequest:
        """Return what the arguments of ``runner.load`` ask for; rsl_rl 4 and 5 have ``load_cfg`` and ``strict`` in the
        place of the first two."""
        unknown = set(options) - {"load_cfg", "strict"}
        if unknown:
            raise TypeError(f"load() has no argument {', '.join(sorted(unknown))}")
        load_cfg, strict = options.get("load_cfg"), options.get("strict", True)
        if not isinstance(load_optimizer, bool):
            load_cfg, strict = load_optimizer, options.get("strict", load_env)
            load_optimizer, load_env = True, True
        optimizer = load_optimizer and wants(load_cfg, "optimizer")
        return LoadRequest(
            optimizer, load_env, wants(load_cfg, "iteration"), lambda state: fitted(state, alg, load_cfg, strict)
        )

    def iteration_locals(self, record: Mapping[str, Any]) -> Dict[str, Any]:
        """Return an iteration's numbers under the names that an overridden ``log(locs)`` reads."""
        losses = {"mean_value_loss": "value_loss", "mean_surrogate_loss": "surrogate_loss", "mean_entropy": "entropy"}
        loss_dict = {"value_function": record.get("value_loss"), "surrogate": record.get("surrogate_loss")}
        episodes = {"rewbuffer": "mean_reward", "lenbuffer": "mean_episode_length"}
        return {
            "it": record["iteration"],
            "collection_time": record["collect_s"],
            "learn_time": record["learn_s"],
            "loss_dict": loss_dict,
            "ep_infos": [],
            **{name: record.get(key) for name, key in losses.items()},
            **{name: [record[key]] if record.get(key) is not None else [] for name, key in episodes.items()},
        }


def client_of(train_cfg: Union[LearnConfig, Mapping[str, Any]], env: VecEnv, runner: Any) -> Client:
    """Return the client of a configuration: ours, as an object or nested dict, or that of an earlier version.

    Settings of an earlier version without effect here are named in one line. In our own format an unknown one is a
    ValueError.
    """
    if isinstance(train_cfg, LearnConfig):
        return Client(train_cfg)
    era = era_of(train_cfg) if isinstance(train_cfg, Mapping) else None
    if era is None:
        return Client(from_dict(LearnConfig, train_cfg))
    near = (runner, getattr(env, "client", env))
    translation = translate(train_cfg, era, env, env.get_observations(), near)
    _report(translation.unused, era)
    return Client(translation.settings, train_cfg, era)


def _report(unused: List[str], era: Era) -> None:
    if unused:
        names = ", ".join(unused)
        print(f"rsl_rl: settings of a configuration for version {era.major} without effect: {names}", file=sys.stderr)


def _copied(value: Any) -> Any:
    """Return a copy of nested dicts and lists; what else is in them is shared."""
    if isinstance(value, Mapping):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else copy.copy(value)

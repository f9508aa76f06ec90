"""The runner with the arguments and names of rsl_rl 1 to 5."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Tuple, Union

import torch

from rsl_rl.algorithms.algorithm import Algorithm
from rsl_rl.algorithms.distillation import Distillation
from rsl_rl.compat.algorithms import PPO
from rsl_rl.compat.client import client_of
from rsl_rl.compat.eras import Era
from rsl_rl.compat.facade import Facade
from rsl_rl.compat.views import add_algorithm_names, add_inference_names, add_runner_names
from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.learn import LearnConfig
from rsl_rl.distributed import Collective
from rsl_rl.env.adapters import as_vec_env
from rsl_rl.env.vec_env import VecEnv
from rsl_rl.loggers import Record
from rsl_rl.runners.checkpoints import load_algorithm
from rsl_rl.runners.runner import Runner

_TWO = ("value_loss", "surrogate_loss")
_FIVE = (*_TWO, "entropy", "rnd_loss", "symmetry_loss")
"""What ``update`` returned as a tuple in 1.0 to 2.1, and in 2.2; later versions return a dict."""


class OnPolicyRunner(Runner, metaclass=Facade):
    """A :class:`Runner` that also takes configurations of rsl_rl 1 to 5.

    With one of these the algorithm and its policy have the names and calls of its version, files are numbered as there,
    and the runner has the attributes that clients use.
    """

    stands_for = Runner

    def __init__(
        self,
        env: VecEnv,
        train_cfg: Union[LearnConfig, Mapping[str, Any]],
        log_dir: Union[str, Path, None] = None,
        device: Union[str, torch.device] = "cpu",
        collective: Optional[Collective] = None,
    ):
        adapted = as_vec_env(env)
        self._client = client = client_of(train_cfg, adapted, self)
        self.cfg, self.alg_cfg = client.cfg, client.alg_cfg
        settings = client.settings.runner
        self.num_steps_per_env, self.save_interval = settings.num_steps_per_env, settings.save_interval
        super().__init__(adapted, client.settings, log_dir, device, collective)
        self.env = env
        if client.era is not None:
            add_algorithm_names(self.alg)
            add_inference_names(self)
            add_runner_names(self, client.policy_cfg, settings.logger)

    def build_algorithm(self, cfg: LearnConfig, env: VecEnv) -> Algorithm:
        era = self._client.era
        if era is None:
            return super().build_algorithm(cfg, env)
        plain = type(cfg.algorithm) is PPOConfig
        alg: Any = PPO.from_env(cfg, env, self.device) if plain else super().build_algorithm(cfg, env)
        alg.unpacked = unpacked_by(era, self.alg_cfg)
        return alg

    # Numbers of iterations

    @property
    def current_learning_iteration(self) -> int:
        """Number of the last update; the first one is 1 in version 1 and in this one, and 0 in others."""
        return self.number_of(self.num_updates)

    @current_learning_iteration.setter
    def current_learning_iteration(self, number: int) -> None:
        self.num_updates = self.updates_of(number)

    def number_of(self, num_updates: int) -> int:
        return max(0, num_updates - 1 + self._client.first_iteration)

    def updates_of(self, iteration: int) -> int:
        return iteration + 1 - self._client.first_iteration

    # Training

    def write(self, record: Record) -> None:
        super().write(record)
        if type(self).log is not OnPolicyRunner.log and self.collective.rank == 0:
            self.log(self._client.iteration_locals(record))

    def log(self, locs: Dict[str, Any], *layout: int) -> None:
        """Do nothing; a subclass may log more after each iteration. ``locs`` are the numbers by rsl_rl's names."""

    # Checkpoints and policies

    def load(
        self,
        path: Union[str, Path],
        load_optimizer: bool = True,
        load_env: bool = True,
        map_location: Any = None,
        **options: Any,
    ) -> Optional[Dict[str, Any]]:
        """Load a checkpoint, also one of rsl_rl 1 to 5, and return its infos; see :meth:`Runner.load`.

        ``load_cfg``, ``strict`` and ``map_location`` have the meaning of rsl_rl 5, also in this order.
        """
        request = self._client.load_request(self.alg, load_optimizer, load_env, options)
        state = load_algorithm(self.alg, Path(path), request.optimizer, request.convert)
        return self.restore(state, request.optimizer, request.env, request.iteration)

    def export_policy_to_onnx(
        self,
        path: Union[str, Path],
        filename: str = "policy.onnx",
        metadata: Union[Mapping[str, Any], bool, None] = None,
        verbose: bool = False,
    ) -> Path:
        """Write the policy as ONNX, see :meth:`Runner.export_policy_to_onnx`; ``verbose``, also in third place, changes
        nothing."""
        return super().export_policy_to_onnx(path, filename, None if isinstance(metadata, bool) else metadata)


class DistillationRunner(OnPolicyRunner):
    """An :class:`OnPolicyRunner` whose algorithm is a distillation; the base class serves as well."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        if not isinstance(self.alg, Distillation):
            raise ValueError(
                f"DistillationRunner got algorithm={type(self.alg_cfg).__name__}; give a DistillationConfig, or take "
                "OnPolicyRunner"
            )


def unpacked_by(era: Era, section: Mapping[str, Any]) -> Tuple[str, ...]:
    """Return the names of what ``update`` returned as a tuple in an era; none where it returned a dict.

    Versions 2.2 are told from those before by the settings of the section "algorithm". Version 2.3 returned a dict,
    whose values are there by name too.
    """
    if era.major > 2:
        return ()
    return _FIVE if era.major == 2 and ("rnd_cfg" in section or "symmetry_cfg" in section) else _TWO

"""The runner with the arguments and names of rsl_rl 1 to 5."""

from __future__ import annotations

from functools import cached_property, partial
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

import torch

from rsl_rl.algorithms.algorithm import Algorithm
from rsl_rl.algorithms.distillation import Distillation
from rsl_rl.compat.algorithms import PPO, TEACHER_ONLY, ClientCalls, fitted, wants
from rsl_rl.compat.config import client_of
from rsl_rl.compat.env import as_vec_env
from rsl_rl.compat.eras import Era
from rsl_rl.compat.former_names import Facade
from rsl_rl.compat.model_policy import networks_of
from rsl_rl.compat.storage import RolloutStorage
from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.learn import LearnConfig
from rsl_rl.distributed import Collective
from rsl_rl.env.vec_env import VecEnv
from rsl_rl.exporters.policy_module import write_torchscript
from rsl_rl.loggers import Record
from rsl_rl.runners.checkpoints import load_algorithm
from rsl_rl.runners.inference import InferencePolicy
from rsl_rl.runners.runner import Runner
from rsl_rl.utils.checkpoints import read_checkpoint
from rsl_rl.utils.host import current_launch

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

    def build_algorithm(self, cfg: LearnConfig, env: VecEnv) -> Algorithm:
        era = self._client.era
        if era is None:
            return super().build_algorithm(cfg, env)
        plain = type(cfg.algorithm) is PPOConfig
        alg: Any = PPO.from_env(cfg, env, self.device) if plain else super().build_algorithm(cfg, env)
        alg.unpacked = unpacked_by(era, self.alg_cfg)
        if era.major >= 3 and isinstance(alg.storage, RolloutStorage):
            alg.storage.serve_groups(alg.policy.family.parameter_shapes)
        return alg

    # Numbers of iterations

    @property
    def current_learning_iteration(self) -> int:
        """Number of the last update; the first one is 1 in version 1 and in this one, and 0 in others."""
        return max(0, self.num_updates - 1 + self._client.first_iteration)

    @current_learning_iteration.setter
    def current_learning_iteration(self, number: int) -> None:
        self.num_updates = number + 1 - self._client.first_iteration

    # What clients read; they may write it too

    disable_logs = False
    multi_gpu_cfg = None
    training_type = "rl"
    policy_cfg = cached_property(lambda self: self._client.policy_cfg)
    logger_type = cached_property(lambda self: self.train_cfg.runner.logger)
    logger = cached_property(lambda self: LoggerView(self))
    writer = cached_property(lambda self: self.logger.writer)
    git_status_repos = cached_property(lambda self: self.logger.git_status_repos)
    obs_normalizer = cached_property(lambda self: self.alg.policy.actor_obs_normalizer)
    critic_obs_normalizer = cached_property(lambda self: self.alg.policy.critic_obs_normalizer)
    privileged_obs_normalizer = cached_property(lambda self: self.alg.policy.critic_obs_normalizer)
    empirical_normalization = cached_property(lambda self: self.alg.policy.cfg.actor_obs_normalization)
    is_distributed = cached_property(lambda self: self.collective.size > 1)
    gpu_world_size = cached_property(lambda self: self.collective.size)
    gpu_global_rank = cached_property(lambda self: self.collective.rank)
    gpu_local_rank = cached_property(lambda self: current_launch().local_rank)

    # Training

    def write(self, record: Record) -> None:
        super().write(record)
        if type(self).log is not OnPolicyRunner.log and self.collective.rank == 0:
            self.log(iteration_locals(record))

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
        unknown = set(options) - {"load_cfg", "strict"}
        if unknown:
            raise TypeError(f"load() has no argument {', '.join(sorted(unknown))}")
        load_cfg, strict = options.get("load_cfg"), options.get("strict", True)
        if not isinstance(load_optimizer, bool):
            load_cfg, strict = load_optimizer, options.get("strict", load_env)
            load_optimizer, load_env = True, True
        load_optimizer = load_optimizer and wants(load_cfg, "optimizer")
        alg = self.alg
        convert = alg.converted if isinstance(alg, ClientCalls) else partial(fitted, alg=alg)
        file = read_checkpoint(Path(path), alg.device, partial(convert, load_cfg=load_cfg, strict=strict))
        with_iteration = wants(load_cfg, "iteration") and TEACHER_ONLY not in file
        state = load_algorithm(alg, Path(path), file if with_iteration else {**file, "iter": 0}, load_optimizer)
        if not with_iteration:
            del state["iter"]
        return self.restore(state, load_optimizer, load_env)

    def get_inference_policy(self, device: Union[str, torch.device, None] = None) -> InferencePolicy:
        """Return a copy of the policy as a function from observations to actions without noise; see InferencePolicy.

        It also has the names of a network of rsl_rl 4 and 5.
        """
        return ClientInferencePolicy(self.alg.inference_policy, device if device is not None else self.device)

    def export_policy_to_jit(self, path: Union[str, Path], filename: str = "policy.pt") -> Path:
        """Write the policy as TorchScript, see :meth:`Runner.export_policy_to_jit`; a network of the client's with an
        ``as_jit`` of its own as that module."""
        network = self._exporting_network("as_jit")
        if network is None:
            return super().export_policy_to_jit(path, filename)
        return write_torchscript(network.as_jit().cpu(), Path(path) / filename)

    def export_policy_to_onnx(
        self,
        path: Union[str, Path],
        filename: str = "policy.onnx",
        metadata: Union[Mapping[str, Any], bool, None] = None,
        verbose: bool = False,
    ) -> Path:
        """Write the policy as ONNX, see :meth:`Runner.export_policy_to_onnx`; ``verbose``, also in third place, changes
        nothing. A network of the client's with an ``as_onnx`` of its own is written as that module."""
        metadata, network = None if isinstance(metadata, bool) else metadata, self._exporting_network("as_onnx")
        if network is None:
            return super().export_policy_to_onnx(path, filename, metadata)
        from rsl_rl.exporters.onnx import export_module  # imports an optional package

        module = network.as_onnx(verbose=verbose)
        inputs = dict(zip(module.input_names, module.get_dummy_inputs()))
        return export_module(module, inputs, module.output_names, Path(path) / filename, metadata)

    def _exporting_network(self, method: str) -> Any:
        """Return the actor if it is a client's that defines how it is exported; else None."""
        actor = networks_of(self.alg.inference_policy)[0]
        defined = next((cls for cls in type(actor).__mro__ if method in vars(cls)), None)
        return actor if defined is not None and not defined.__module__.startswith("rsl_rl.") else None


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


def iteration_locals(record: Mapping[str, Any]) -> Dict[str, Any]:
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


class ClientInferencePolicy(InferencePolicy):
    """An :class:`InferencePolicy` with the names of a network of rsl_rl 4 and 5: ``rnn``, ``mlp``,
    ``get_hidden_state``, ``as_jit`` and ``as_onnx``."""

    def __getattr__(self, name: str) -> Any:
        if name in ("mlp", "rnn", "obs_normalizer", "get_hidden_state", "as_jit", "as_onnx"):
            return getattr(networks_of(self._actor_critic)[0], name)
        return super().__getattr__(name)


class LoggerView:
    """``runner.logger``: writes what a client adds; the run itself is logged by the runner."""

    def __init__(self, runner: Any):
        self._runner = runner
        self.logger_type, self.disable_logs = runner.logger_type, False
        self.log_dir = None if runner.log_dir is None else str(runner.log_dir)
        self.writer = None if self.log_dir is None else LazyWriter(self.log_dir)
        self.git_status_repos = RepositoryList(runner)

    tot_timesteps = property(lambda self: self._runner.tot_timesteps)
    tot_time = property(lambda self: self._runner.tot_time)

    def init_logging_writer(self) -> None:
        """Do nothing: a writer is opened when it is used."""

    def process_env_step(self, *args: Any) -> None:
        """Do nothing: the runner's collector keeps the statistics."""

    def save_model(self, path: str, it: int) -> None:
        """Do nothing: a checkpoint stays in the run folder."""

    def stop_logging_writer(self) -> None:
        """Close the writer."""
        if self.writer is not None:
            self.writer.close()


class LogWriter:
    """What a client derives its own writer from; a configuration's writer is not used, which a line at the start
    says."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        """Write a number; a subclass defines it."""
        raise NotImplementedError(f"{type(self).__name__} defines no add_scalar")

    def store_config(self, env_cfg: Any, train_cfg: Any) -> None:
        """Do nothing."""

    def save_model(self, model_path: str, it: int) -> None:
        """Do nothing."""

    def save_file(self, path: str) -> None:
        """Do nothing."""

    def save_video(self, video: Any, it: int) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""


class LazyWriter:
    """A TensorBoard SummaryWriter that is opened when it is used."""

    def __init__(self, log_dir: str):
        self.log_dir, self._writer = log_dir, None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter  # imports tensorboard

            self._writer = SummaryWriter(log_dir=self.log_dir, flush_secs=10)
        return getattr(self._writer, name)

    def close(self) -> None:
        """Close the writer, if it was opened; the next use opens another one."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class RepositoryList(List[str]):
    """Files whose repositories are saved with a run; what is appended is passed on to the runner."""

    def __init__(self, runner: Any):
        super().__init__()
        self._runner = runner

    def append(self, path: Any) -> None:
        super().append(path)
        self._runner.add_git_repo_to_log(path)

"""Attributes that clients of earlier versions find on a runner and its algorithm."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

from rsl_rl.algorithms.algorithm import Algorithm
from rsl_rl.compat.checkpoints import Version, from_native
from rsl_rl.compat.client_algorithm import networks_of
from rsl_rl.compat.distillation import LaterTeacherDistillation
from rsl_rl.compat.loading import fitted, shift_std, wants
from rsl_rl.compat.model_policy import ModelPolicy
from rsl_rl.compat.model_view import ModelView
from rsl_rl.compat.models import MLPModel
from rsl_rl.utils.host import current_launch

_SAVED = Version(5, 5)
"""Version whose form ``alg.save()`` has; the method is of version 4 and later."""


def add_algorithm_names(alg: Algorithm) -> None:
    """Add ``get_policy``, ``actor``, ``critic``, ``save``, ``load``, ``compile``, ``rnd`` and the like."""
    actor, critic = networks_of(alg.policy)
    extensions = getattr(getattr(alg, "extensions", None), "all", ())
    rnd = next((extension for extension in extensions if hasattr(extension, "predictor")), None)

    if isinstance(alg, LaterTeacherDistillation):
        _add_student_names(alg, actor)

    def save() -> Dict[str, Any]:
        state = alg.state_dict()
        if isinstance(alg.policy, ModelPolicy):
            return {**alg.policy.file_parts(), "optimizer_state_dict": state["optimizer_state_dict"]}
        if isinstance(alg, LaterTeacherDistillation):
            roles = {"student": alg.policy, "teacher": alg.teacher}
            return {f"{role}_state_dict": ModelView(policy, "actor").state_dict() for role, policy in roles.items()}
        weights = shift_std(state["model_state_dict"], alg.policy, 1)
        state = from_native({**state, "model_state_dict": weights}, _SAVED)
        return {key: value for key, value in state.items() if key.endswith("_state_dict")}

    def load(
        loaded_dict: Mapping[str, Any], load_cfg: Optional[Mapping[str, bool]] = None, strict: bool = True
    ) -> bool:
        alg.load_state_dict(fitted(dict(loaded_dict), alg, load_cfg, strict), wants(load_cfg, "optimizer"))
        return wants(load_cfg, "iteration")

    _set_new(
        alg,
        actor=actor,
        critic=critic,
        get_policy=lambda: actor,
        save=save,
        load=load,
        compile=lambda mode=None: None,
        rnd=rnd,
        is_multi_gpu=alg.collective.size > 1,
        gpu_world_size=alg.collective.size,
        gpu_global_rank=alg.collective.rank,
    )


def _add_student_names(alg: Any, actor: Any) -> None:
    """Give a distillation, and its policy, the names of a student."""
    policy = alg.policy
    alg.student = actor
    vars(policy).update(
        student=policy.actor, student_obs_normalizer=policy.actor_obs_normalizer
    )  # not registered again
    if policy.is_recurrent:
        vars(policy).update(memory_s=policy.memory_a)


def add_runner_names(runner: Any, policy_cfg: Any, logger_type: str) -> None:
    """Add ``logger``, ``writer``, ``obs_normalizer``, ``git_status_repos`` and the like."""
    policy, collective = runner.alg.policy, runner.alg.collective
    logger = LoggerView(runner, logger_type)
    _set_new(
        runner,
        policy_cfg=policy_cfg,
        logger=logger,
        writer=logger.writer,
        logger_type=logger_type,
        git_status_repos=logger.git_status_repos,
        disable_logs=False,
        obs_normalizer=policy.actor_obs_normalizer,
        critic_obs_normalizer=policy.critic_obs_normalizer,
        privileged_obs_normalizer=policy.critic_obs_normalizer,
        empirical_normalization=policy.cfg.actor_obs_normalization,
        is_distributed=collective.size > 1,
        multi_gpu_cfg=None,
        gpu_world_size=collective.size,
        gpu_global_rank=collective.rank,
        gpu_local_rank=current_launch().local_rank,
        training_type="rl",
    )


def add_inference_names(runner: Any) -> None:
    """Give what ``get_inference_policy`` returns the names of a network of version 4 and 5: ``rnn``, ``mlp``,
    ``get_hidden_state``, ``as_jit`` and ``as_onnx``."""
    get_policy = runner.get_inference_policy

    def get_inference_policy(device: Any = None) -> Any:
        policy = get_policy(device)
        if hasattr(policy, "actor_model"):  # a client's own method may return something else
            actor = policy.actor if isinstance(policy.actor, MLPModel) else ModelView(policy, "actor")
            names = ("mlp", "rnn", "obs_normalizer", "get_hidden_state", "as_jit", "as_onnx")
            _set_new(policy, **{name: getattr(actor, name) for name in names if hasattr(actor, name)})
        return policy

    runner.get_inference_policy = get_inference_policy


def _set_new(thing: Any, **attributes: Any) -> None:
    """Set the attributes that an object does not have."""
    for name, value in attributes.items():
        if not hasattr(thing, name):
            setattr(thing, name, value)


class LoggerView:
    """``runner.logger``: writes what a client adds; the run itself is logged by the runner."""

    def __init__(self, runner: Any, logger_type: str):
        self._runner = runner
        self.logger_type, self.disable_logs = logger_type, False
        self.log_dir = None if runner.log_dir is None else str(runner.log_dir)
        self.writer = None if self.log_dir is None else LazyWriter(self.log_dir)
        self.git_status_repos = RepositoryList(runner)

    @property
    def tot_timesteps(self) -> int:
        """Environment steps so far."""
        return self._runner.tot_timesteps

    @property
    def tot_time(self) -> float:
        """Seconds of collecting and learning so far."""
        return self._runner.tot_time

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

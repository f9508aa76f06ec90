"""Environments of rsl_rl 1 and 2, whose observations are single tensors, and what they inherit from."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from torch import Tensor

from rsl_rl.env import adapters, check, vec_env
from rsl_rl.env.adapters import is_vector_env, of_groups, unknown
from rsl_rl.env.adapters.foreign import ForeignEnv
from rsl_rl.env.check import EnvReport, load_env
from rsl_rl.env.contract import four_of
from rsl_rl.env.vec_env import Observations, StepResult, is_groups

_INTERFACES = (
    'a pair (tensor, extras with "observations")',
    "a tensor beside get_privileged_observations()",
)


class VecEnv(vec_env.VecEnv):
    """A :class:`rsl_rl.env.vec_env.VecEnv` that declares the members of rsl_rl 1 too; all such environments are its
    instances."""

    @classmethod
    def __subclasshook__(cls, subclass: type) -> bool:  # not the metaclass Facade, which no Protocol can be mixed with
        return True if cls is VecEnv and vec_env.VecEnv in subclass.__mro__ else NotImplemented

    num_obs: int
    """Size D of the group "policy"."""
    num_privileged_obs: Optional[int]
    """Size C of the group "critic"; None if there is no such group."""
    obs_buf: Tensor
    """Latest observation of the group "policy", [N, D]."""
    privileged_obs_buf: Optional[Tensor]
    """Latest observation of the group "critic", [N, C], or None."""
    rew_buf: Tensor
    """Latest reward, [N]."""
    reset_buf: Tensor
    """Whether the latest step ended the episode, [N]."""
    extras: Dict[str, Any]
    """The latest step's extras."""

    def get_privileged_observations(self) -> Optional[Tensor]:
        """Return the group "critic" [N, C], or None."""
        return self.get_observations().get("critic")


def as_vec_env(env: Any, actions: str = "clip") -> vec_env.VecEnv:
    """Return an environment as a ``VecEnv``: itself where it is one, else an adapter of it.

    Recognised are, by what ``get_observations()`` returns: groups (a dict or TensorDict); a pair (tensor, extras), with
    further groups in ``extras["observations"]``; a tensor, with ``get_privileged_observations()`` beside it and five
    results of ``step``. Such an environment is reset once. A ``gymnasium.vector.VectorEnv`` is recognised by its class;
    ``actions`` is how it maps actions to a bounded box: "clip" or "tanh" from [-1, 1], or "none".

    Attributes that are set on the adapter are set on ``env``. Anything else is a TypeError.
    """
    if isinstance(env, ForeignEnv) or is_vector_env(env) or not callable(getattr(env, "get_observations", None)):
        return adapters.as_vec_env(env, actions)
    obs = _first_observations(env)
    if is_groups(obs):
        return of_groups(env, obs)
    if isinstance(obs, Tensor):
        return FiveTupleEnv(env, obs)
    if isinstance(obs, (tuple, list)) and len(obs) == 2 and isinstance(obs[0], Tensor):
        return ExtrasEnv(env, obs[0])
    raise unknown(env, f"get_observations() that returns a {type(obs).__name__}", _INTERFACES)


def check_env(source: Any, num_steps: int = 100) -> EnvReport:
    """Check an environment of any interface that :func:`as_vec_env` knows against the contract, and time it for
    ``num_steps`` control steps.

    ``source`` is the environment, a function that makes it, or a text; see :func:`rsl_rl.env.check.load_env`. An
    environment of an unknown interface is a TypeError.
    """
    return check.check_env(as_vec_env(load_env(source)), num_steps)


class ExtrasEnv(ForeignEnv):
    """An environment that returns one tensor, and all of its groups in ``extras["observations"]``."""

    form = 'one tensor and extras["observations"], as for rsl_rl 2'

    def get_observations(self) -> Observations:
        obs, extras = self.client.get_observations()
        return _with_extras(obs, extras)

    def step(self, actions: Tensor) -> StepResult:
        obs, reward, done, extras = four_of(self.client.step(actions))
        groups = _with_extras(obs, extras)
        return self._result(groups, reward, done, _with_final_groups(extras, groups))


class FiveTupleEnv(ForeignEnv):
    """An environment that returns (obs, privileged_obs or None, reward, done, extras)."""

    form = "five results of step(), as legged_gym's"

    @staticmethod
    def names_privileged(client: Any) -> bool:
        """Return whether an environment says itself what privileged observations it has."""
        method = getattr(type(client), "get_privileged_observations", None)
        return method is not None and method is not VecEnv.get_privileged_observations

    def get_observations(self) -> Observations:
        named = self.names_privileged(self.client)
        return _with_privileged(
            self.client.get_observations(), self.client.get_privileged_observations() if named else None
        )

    def step(self, actions: Tensor) -> StepResult:
        obs, privileged, reward, done, extras = _five(self.client.step(actions), type(self.client).__name__)
        groups = _with_privileged(obs, privileged)
        return self._result(groups, reward, done, _with_final_groups(extras, groups))


def _first_observations(env: Any) -> Any:
    """Return what ``get_observations()`` gives; an environment of single tensors is reset before, which it expects."""
    resets = callable(getattr(env, "reset", None)) and FiveTupleEnv.names_privileged(env)
    try:
        obs = env.get_observations()
    except AttributeError:  # its buffers are made by the first reset
        if not resets:
            raise
        obs = None
    if resets and (obs is None or isinstance(obs, Tensor)):
        env.reset()
        obs = env.get_observations()
    return obs


def _with_extras(obs: Tensor, extras: Any) -> Dict[str, Tensor]:
    found = extras.get("observations") if is_groups(extras) else None
    others: Any = found if is_groups(found) else {}
    return {"policy": obs, **{name: value for name, value in others.items() if name != "policy"}}


def _with_privileged(obs: Tensor, privileged: Any) -> Dict[str, Tensor]:
    has_some = isinstance(privileged, Tensor) and privileged.shape[-1] > 0
    return {"policy": obs, "critic": privileged} if has_some else {"policy": obs}


def _with_final_groups(extras: Any, groups: Dict[str, Tensor]) -> Any:
    """Return extras whose last observations are groups, where they are one tensor: that of the critic."""
    final = extras.get("final_obs") if is_groups(extras) else None
    if not isinstance(final, Tensor):
        return extras
    return {**extras, "final_obs": {**groups, "critic" if "critic" in groups else "policy": final}}


def _five(result: Any, name: str) -> Tuple[Any, ...]:
    """Return the five results of a step; four stand for one without privileged observations."""
    if isinstance(result, (tuple, list)) and len(result) in (4, 5):
        return tuple(result) if len(result) == 5 else (result[0], None, *result[1:])
    got = f"{len(result)} values" if isinstance(result, (tuple, list)) else f"a {type(result).__name__}"
    raise TypeError(
        f"{name}.step() gives {got}; with get_observations() that returns a tensor, give (obs, privileged_obs, reward, "
        "done, extras)"
    )

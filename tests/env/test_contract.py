import re

import pytest
import torch

from configs import EXPERIMENTS
from rsl_rl.algorithms.build import resolve_groups, resolve_mirrors, zero_actions
from rsl_rl.config.policy import SymmetricActorCriticConfig
from rsl_rl.config.task import ToyConfig
from rsl_rl.env import ContractError, StepResult, check_vec_env
from rsl_rl.env.contract import find_corrections, standardize_step
from rsl_rl.tasks.toy import PointEnv


class Altered(PointEnv):
    """A toy whose step results are altered on the way out."""

    def __init__(self, alter):
        super().__init__(ToyConfig(num_envs=4))
        self.alter = alter

    def step(self, actions):
        return self.alter(super().step(actions))


def without_time_outs(result):
    return result._replace(extras={})


def with_extras(**entries):
    """Add entries to the extras; functions are called with the result."""
    return lambda r: r._replace(extras={**r.extras, **{k: v(r) if callable(v) else v for k, v in entries.items()}})


def broken(rows):
    """Say that some rows broke, and end their episodes."""

    def alter(r):
        mask = torch.tensor(rows)
        return r._replace(
            reward=torch.where(mask, torch.nan, r.reward),
            done=r.done | mask,
            extras={**r.extras, "invalid": {"engine": mask}, "final_obs": {"policy": r.obs["policy"] / ~mask[:, None]}},
        )

    return alter


CORRECTED = {
    "done as float": (lambda r: r._replace(done=r.done.float()), "done is float32"),
    "done as integers": (lambda r: r._replace(done=r.done.long()), "done is int64"),
    "done as a column": (lambda r: r._replace(done=r.done.unsqueeze(1)), r"done has the shape \[4, 1\]"),
    "reward as a column": (lambda r: r._replace(reward=r.reward.unsqueeze(1)), r"reward has the shape \[4, 1\]"),
    "no time_outs": (without_time_outs, "no time_outs"),
    "time_outs as float": (
        lambda r: r._replace(extras={"time_outs": r.extras["time_outs"].float()}),
        "time_outs'] is float32",
    ),
    "time_outs as a column": (
        with_extras(time_outs=lambda r: r.extras["time_outs"].unsqueeze(1)),
        r"time_outs'\] has the shape \[4, 1\]",
    ),
    "nan in an observation": (
        lambda r: r._replace(obs={"policy": torch.where(torch.arange(4).view(4, 1) == 2, torch.nan, r.obs["policy"])}),
        r"step\(\).obs\['policy'\] holds values that are not finite in 1 of 4 environments; such steps are left out",
    ),
    "inf in a reward": (
        lambda r: r._replace(reward=torch.where(torch.arange(4) == 2, torch.inf, r.reward)),
        "reward holds values that are not finite in 1 of 4 environments",
    ),
    "a log that is a list": (with_extras(log=[1.0]), r"extras\['log'\] is a list, which is left out of the log"),
    "a log of words": (
        with_extras(episode={"gait": "trot"}),
        r"extras\['episode'\]\['gait'\] is a str, which is left out of the log",
    ),
    "time_outs where nothing ended": (
        with_extras(time_outs=lambda r: torch.ones_like(r.done)),
        "is set where done is not; it counts only where both are",
    ),
}

REFUSED = {
    "nothing at all": (lambda r: None, "step.. gives a NoneType; return StepResult"),
    "three values": (lambda r: r[:3], "step.. gives 3 values; return StepResult"),
    "legged_gym's order": (
        lambda r: (r.obs["policy"], None, r.reward, r.done, r.extras),
        "step.. gives 5 values; return StepResult.*legged_gym's .obs, privileged_obs, reward, done, extras. becomes",
    ),
    "a bare tensor": (lambda r: r._replace(obs=r.obs["policy"]), "gives a Tensor; return a dict of groups"),
    "no policy group": (lambda r: r._replace(obs={"state": r.obs["policy"]}), "without 'policy'"),
    "other groups": (lambda r: r._replace(obs={**r.obs, "extra": r.obs["policy"]}), "keep groups and shapes the same"),
    "nan in observations": (lambda r: r._replace(obs={"policy": r.obs["policy"] * float("nan")}), "not finite"),
    "inf in rewards": (lambda r: r._replace(reward=r.reward + float("inf")), "reward holds values that are not finite"),
    "reward of another shape": (lambda r: r._replace(reward=r.reward.expand(4, 4)), r"reward has the shape \[4, 4\]"),
    "integer rewards": (lambda r: r._replace(reward=r.reward.long()), "reward is int64"),
    "done as a list": (lambda r: r._replace(done=r.done.tolist()), "done is a list; give a torch tensor"),
    "done of counts": (lambda r: r._replace(done=r.done + 2), "done holds values other than 0 and 1"),
    "too few rows": (lambda r: r._replace(reward=r.reward[:2]), "first dimension must be num_envs=4"),
    "no extras": (lambda r: r._replace(extras=None), "extras is a NoneType"),
    "observations and more": (lambda r: r._replace(obs=(r.obs, {})), "gives a tuple; return a dict of groups"),
    "complex observations": (lambda r: r._replace(obs={"policy": r.obs["policy"] + 1j}), "is complex64; give real"),
    "groups that are no tensors": (lambda r: r._replace(obs={"policy": [1.0] * 4}), "'policy'. is a list"),
    "wider observations": (
        lambda r: r._replace(obs={"policy": r.obs["policy"].expand(4, 2)}),
        r"gives {policy: \[4, 2\]} after {policy: \[4, 1\]}; keep",
    ),
    "time_outs of half the robots": (with_extras(time_outs=lambda r: r.done[:2]), "time_outs'. has the shape .2."),
    "time_outs of counts": (
        with_extras(time_outs=lambda r: torch.full((4,), 3)),
        "time_outs'. holds values other than 0 and 1; return whether the time limit",
    ),
    "no final observations": (with_extras(final_obs=None), "final_obs'. is a NoneType; give groups"),
    "final observations without a group": (
        with_extras(final_obs=lambda r: {"state": r.obs["policy"]}),
        "final_obs'. has no policy; give every group of step",
    ),
    "wider final observations": (
        with_extras(final_obs=lambda r: {"policy": torch.zeros(4, 3)}),
        r"final_obs'..'policy'. has the shape \[4, 3\]; give \[4, 1\]",
    ),
    "final observations of half the robots": (
        with_extras(final_obs=lambda r: {"policy": r.obs["policy"][:2]}),
        r"final_obs'..'policy'. has the shape \[2, 1\]; its first dimension must be num_envs=4",
    ),
    "a final image of one robot": (
        with_extras(final_obs=lambda r: {**r.obs, "camera": torch.zeros(1, 1, 8, 16, dtype=torch.uint8)}),
        "final_obs'..'camera'. has the shape .1, 1, 8, 16.; its first dimension must be num_envs=4",
    ),
    "nan in final observations": (
        lambda r: with_extras(final_obs={"policy": torch.full((4, 1), torch.nan)})(r._replace(done=~r.done)),
        "not finite where an episode ended",
    ),
    "invalid without a cause": (
        with_extras(invalid=lambda r: r.done),
        "'invalid'. is a Tensor; give a dict from causes",
    ),
    "a cause that is a number": (with_extras(invalid=lambda r: {3: r.done}), "is named by a int; name the cause"),
    "invalid as float": (with_extras(invalid=lambda r: {"engine": r.done.float()}), "'engine'. is float32; give bool"),
    "invalid as a column": (
        with_extras(invalid=lambda r: {"engine": r.done[:, None]}),
        r"has the shape \[4, 1\]; give",
    ),
    "invalid but not done": (
        with_extras(invalid=lambda r: {"engine": ~r.done}),
        "'engine'. is set where done is not; reset what broke, and set done",
    ),
    "sparse rewards": (lambda r: r._replace(reward=r.reward.to_sparse()), "reward is a nested tensor or one of"),
    "starts that are counts": (with_extras(no_transition=torch.zeros(4)), r"no_transition'\] is float32; give bool"),
    "observations of no width": (
        lambda r: r._replace(obs={"policy": r.obs["policy"][:, :0]}),
        r"step\(\).obs\['policy'\] has the shape \[4, 0\]; give at least one number",
    ),
    "another device": (lambda r: r._replace(reward=r.reward.to("meta")), "keep every tensor on env.device"),
}


@pytest.mark.parametrize("case", CORRECTED)
def test_what_can_be_corrected_is_said(case):
    alter, words = CORRECTED[case]
    corrections = check_vec_env(Altered(alter))
    assert any(re.search(words, sentence) for sentence in corrections), corrections


REMEDIES = {
    "done as float": "done = done.bool()",
    "done as a column": "done = done.squeeze(-1)",
    "reward as a column": "reward = reward.squeeze(-1)",
    "no time_outs": 'extras["time_outs"] = self.episode_length_buf >= self.max_episode_length  # [N] bool',
    "time_outs as float": "extras['time_outs'] = timed_out.bool()",
    "time_outs as a column": "extras['time_outs'] = timed_out.squeeze(-1)",
    "nan in an observation": "find the term that divides by zero or takes a root below it",
    "time_outs where nothing ended": 'extras["time_outs"] = timed_out & done',
}


@pytest.mark.parametrize("case", REMEDIES)
def test_find_corrections_of_a_violation_gives_its_remedy(case):
    (correction,) = find_corrections(Altered(CORRECTED[case][0]))
    assert correction.remedy == REMEDIES[case]


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_corrected_is_refused_with_a_remedy(case):
    alter, words = REFUSED[case]
    with pytest.raises(ContractError, match=words):
        check_vec_env(Altered(alter))


ATTRIBUTES = {
    "num_envs": [
        (0, "num_envs=0; give a whole number"),
        (4.0, "num_envs=4.0"),
        (True, "num_envs=True"),
        (None, "None"),
    ],
    "num_actions": [(torch.tensor(1), "num_actions=tensor.1."), ("1", "num_actions='1'"), (-1, "num_actions=-1")],
    "device": [("gpu", "device='gpu' is not a device"), (None, "device=None is not a device")],
    "max_episode_length": [
        (0, "max_episode_length=0; give a positive number"),
        (float("nan"), "max_episode_length=nan"),
        (torch.ones(3), r"max_episode_length is a tensor \[3\]"),
        (-torch.ones(4), "give one positive number, or one each"),
        ("long", "max_episode_length='long'"),
    ],
    "episode_length_buf": [
        (torch.zeros(4), "episode_length_buf is float32; count control steps in int64"),
        (torch.zeros(2, dtype=torch.long), r"episode_length_buf has the shape \[2\]"),
        (torch.zeros(4, 1, dtype=torch.long), r"episode_length_buf has the shape \[4, 1\]; give one number"),
        ([0, 0, 0, 0], "episode_length_buf is a list"),
    ],
}


@pytest.mark.parametrize(
    ("name", "value", "words"), [(name, value, words) for name, cases in ATTRIBUTES.items() for value, words in cases]
)
def test_attributes_that_mean_nothing_are_refused_before_a_step(name, value, words):
    env = Altered(lambda r: pytest.fail("stepped"))
    setattr(env, name, value)
    with pytest.raises(ContractError, match=words):
        check_vec_env(env)


def test_numbers_of_numpy_and_limits_of_each_environment_are_fine():
    import numpy as np

    env = PointEnv(ToyConfig(num_envs=4))
    env.num_envs, env.num_actions, env.max_episode_length = np.int64(4), np.int32(1), np.ceil(31.2)
    assert check_vec_env(env) == []
    env.max_episode_length = torch.full((4,), 32)
    assert check_vec_env(env) == []


def test_groups_that_change_after_a_while_are_noticed():
    counts = []

    def later(result):
        counts.append(1)
        return result._replace(obs={**result.obs, "critic": result.obs["policy"]}) if len(counts) == 3 else result

    with pytest.raises(ContractError, match=r"gives {critic: \[4, 1\], policy: \[4, 1\]} after {policy: \[4, 1\]}"):
        check_vec_env(Altered(later))
    assert len(counts) == 3


@pytest.mark.parametrize(
    ("obs", "words"), [(None, "NoneType"), (torch.zeros(4, 1), "Tensor"), ({}, "without 'policy'")]
)
def test_first_observations_that_are_none_are_refused(obs, words):
    env = PointEnv(ToyConfig(num_envs=4))
    env.get_observations = lambda: obs
    with pytest.raises(ContractError, match=rf"get_observations.. gives .*{words}"):
        check_vec_env(env)


def test_what_broke_may_hold_anything_and_is_no_error():
    assert check_vec_env(Altered(broken([True, False, False, True]))) == []


def test_causes_that_change_are_refused():
    alter = with_extras(invalid=lambda r: {f"engine {len(steps)}": r.done})
    steps = []

    def count(result):
        steps.append(1)
        return alter(result)

    with pytest.raises(ContractError, match=r"names .'engine 2'. after .'engine 1'.; name the same causes"):
        check_vec_env(Altered(count))


def test_an_environment_that_raises_raises_its_own_error():
    def fault(result):
        raise OverflowError("the engine is out of contacts")

    with pytest.raises(OverflowError, match="out of contacts"):
        check_vec_env(Altered(fault))


def test_the_check_leaves_the_environment_as_many_steps_further_on():
    env = PointEnv(ToyConfig(num_envs=4))
    check_vec_env(env, num_steps=5)
    assert env.episode_length_buf.tolist() == [5] * 4


@pytest.mark.parametrize(
    "mirrors",
    [{}, {"policy": (torch.tensor([0]), torch.ones(1))}, {"policy": None, "actions": None}, None],
    ids=["nothing", "no actions", "no pairs", "None"],
)
def test_mirrors_that_leave_something_out_are_refused(mirrors):
    env = PointEnv(ToyConfig(num_envs=4))
    env.mirrors = lambda: mirrors
    cfg = resolve_groups(SymmetricActorCriticConfig(), env.get_observations())
    with pytest.raises(
        ValueError, match=r"PointEnv.mirrors.. has no pair of tensors .index, sign. for '(policy|actions)'"
    ):
        resolve_mirrors(cfg, env, env.get_observations())


class Images(PointEnv):
    """A toy with groups of integers and of flags beside its own."""

    def __init__(self):
        super().__init__(ToyConfig(num_envs=4, episode_steps=2))

    def add_groups(self, obs):
        image = torch.randint(256, (4, 3, 8, 16), dtype=torch.uint8)
        return {**obs, "camera": image, "ids": torch.arange(4), "contacts": torch.ones(4, 2, dtype=torch.bool)}

    def get_observations(self):
        return self.add_groups(super().get_observations())

    def step(self, actions):
        result = super().step(actions)
        final_obs = self.add_groups(result.extras["final_obs"])
        return result._replace(extras={**result.extras, "final_obs": final_obs})


def test_observation_groups_of_integer_and_bool_dtype_are_accepted():
    assert check_vec_env(Images()) == []


def test_environment_with_discrete_actions_is_stepped_with_the_given_actions():
    seen = []

    class Discrete(PointEnv):
        def step(self, actions):
            seen.append(actions.clone())
            actions += 1  # must not reach the next step
            return super().step(torch.zeros(4, 1))

    choice = torch.tensor([[0], [2], [1], [0]])
    assert check_vec_env(Discrete(ToyConfig(num_envs=4)), num_steps=2, actions=choice) == []
    assert len(seen) == 2 and all(torch.equal(actions, torch.tensor([[0], [2], [1], [0]])) for actions in seen)
    assert all(actions.dtype == torch.int64 for actions in seen)
    assert torch.equal(choice, torch.tensor([[0], [2], [1], [0]]))


def test_environment_is_stepped_with_zeros_without_given_actions():
    seen = []

    class Recorded(PointEnv):
        def step(self, actions):
            seen.append(actions)
            return super().step(actions)

    check_vec_env(Recorded(ToyConfig(num_envs=4)))
    assert len(seen) == 3 and all(torch.equal(actions, torch.zeros(4, 1)) for actions in seen)


def test_state_that_cannot_be_loaded_is_not_checked():
    env = Altered(lambda r: r)
    env.state_dict = lambda: {"x": object()}
    with pytest.raises(ContractError, match="which a checkpoint cannot hold"):
        check_vec_env(env)
    env.load_state_dict = None  # such a state is never saved
    assert check_vec_env(env) == []


def test_missing_attributes_are_named():
    env = PointEnv(ToyConfig(num_envs=4))
    del env.max_episode_length
    with pytest.raises(ContractError, match="PointEnv has no max_episode_length"):
        check_vec_env(env)


def test_a_reused_extras_dict_is_noticed():
    extras = {}

    def stale(result):
        extras.setdefault("time_outs", result.extras["time_outs"])
        return result._replace(extras=extras)

    assert any("stale" in sentence for sentence in check_vec_env(Altered(stale)))


def test_corrections_are_carried_out():
    result = standardize_step(
        StepResult({}, torch.ones(3, 1, dtype=torch.float64), torch.tensor([[0], [1], [0]]), {}), num_envs=3
    )
    assert result.reward.shape == (3,) and result.reward.dtype == torch.float32
    assert result.done.tolist() == [False, True, False]


@pytest.mark.parametrize("name", EXPERIMENTS.names())
def test_every_experiment_keeps_the_contract(name):
    from dataclasses import replace

    cfg = EXPERIMENTS.load(name)()
    env = replace(cfg.env, num_envs=4).build()
    assert check_vec_env(env, num_steps=10, actions=zero_actions(cfg.policy, env)) == []

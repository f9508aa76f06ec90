"""Observation groups of a legged robot beside "policy" and "critic"."""

from dataclasses import replace

import pytest
import torch

from configs.go2_flat import Go2Flat
from rsl_rl.config.mdp import ObservationTerm
from rsl_rl.tasks.mdp.observations import Term

CFG = Go2Flat().env
MORE = {
    "heading": {"gravity": ObservationTerm(scale=2.0), "command": ObservationTerm(scale=1.0)},
    "feet": {"foot_contact": ObservationTerm(scale=1.0)},
}


def make(**groups):
    """Return go2_flat with further observation groups, each given by its terms."""
    more = {name: {"terms": terms} for name, terms in groups.items()}
    return replace(CFG, num_envs=4, observations={**CFG.observations, **more}).build(seed=0)


def test_more_groups_are_given_mirrored_described_and_stored():
    env = make(**MORE)
    result = env.step(torch.randn(4, 12))
    for groups in (result.obs, result.extras["final_obs"]):
        assert list(groups) == ["policy", "critic", "heading", "feet"]
    state = env.state
    torch.testing.assert_close(result.obs["heading"], torch.cat((2.0 * state.gravity, state.command), dim=1))
    torch.testing.assert_close(result.obs["feet"], state.foot_contact.float())
    index, sign = env.mirrors()["heading"]
    assert index.tolist() == [0, 1, 2, 3, 4, 5] and sign.tolist() == [1, -1, 1, 1, -1, -1]
    described = env.describe_interface(["feet", "heading"])["observations"]
    assert [(term["name"], term["size"]) for term in described] == [("foot_contact", 4), ("gravity", 3), ("command", 3)]
    other = make(**MORE)
    other.load_state_dict(env.state_dict())
    assert torch.equal(other.get_observations()["heading"], result.obs["heading"])


def test_more_groups_leave_the_others_as_they_are():
    plain, more = make(), make(**MORE)
    for _ in range(5):
        actions = torch.randn(4, 12)
        one, two = plain.step(actions), more.step(actions)
        assert torch.equal(one.reward, two.reward)
        assert all(torch.equal(group, two.obs[name]) for name, group in one.obs.items())


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"actions": MORE["feet"]}, "env.observations names a group actions, which is taken; use another name"),
        ({"feet": {}}, "an observation group has no terms"),
        ({"feet": {"foot_contakt": ObservationTerm()}}, "unknown observation term .*Did you mean 'foot_contact'"),
        ({"feet": 3}, "env.observations.feet.terms=3; give a mapping"),
    ],
)
def test_a_group_that_cannot_be_is_refused(groups, message):
    with pytest.raises(ValueError, match=message):
        make(**groups)


def height_and_speed(state):
    """A term of another package: height of the trunk [m] and its speed [m/s]."""
    return torch.cat((state.base_height.unsqueeze(1), state.base_lin_vel.norm(dim=1, keepdim=True)), dim=1)


def flat(state):
    return state.base_height


MIRRORED = Term(lambda state: state.base_lin_vel, mirror_type="vector", frame="base")


def test_observation_term_by_path_is_scaled_described_and_changed_by_pushes():
    path = f"{__name__}:height_and_speed"
    env = make(own={path: ObservationTerm(scale=2.0)})
    for _ in range(3):
        result = env.step(torch.zeros(4, 12))
        torch.testing.assert_close(result.obs["own"], 2.0 * height_and_speed(env.state))
    assert env.describe_interface(["own"])["observations"] == [
        {"name": path, "size": 2, "scale": 2.0, "frame": "", "history": 1, "delay": [0.0, 0.0]}
    ]


def test_observation_term_by_path_without_a_mirror_image_is_refused_by_a_symmetric_policy_only():
    own = {f"{__name__}:height_and_speed": ObservationTerm()}
    env = make(policy={**CFG.observations["policy"].terms, **own})
    with pytest.raises(ValueError, match=r"height_and_speed' of 2 numbers has no mirror image"):
        env.mirrors()
    index, sign = make(own={f"{__name__}:MIRRORED": ObservationTerm()}).mirrors()["own"]
    assert index.tolist() == [0, 1, 2] and sign.tolist() == [1, -1, 1]


FRONT_FEET = Term(lambda state: state.feet(state.foot_height, "F._foot"), "feet", "world", names="F._foot")
LEFT_FEET = Term(lambda state: state.feet(state.foot_height, ".L_foot"), "feet", "world", names=".L_foot")
HIPS = Term(lambda state: state.joints(state.joint_pos, "abduction"), "joints", "joint", names="abduction")


def test_mirror_image_of_some_feet_or_joints_exchanges_those_alone():
    env = make(own={f"{__name__}:{name}": ObservationTerm() for name in ("FRONT_FEET", "HIPS")})
    index, sign = env.mirrors()["own"]
    assert env.sim.foot_names[:2] == ("FL_foot", "FR_foot")
    assert index.tolist() == [1, 0, 3, 2, 5, 4] and sign.tolist() == [1, 1, -1, -1, -1, -1]


def test_mirror_image_of_feet_without_their_partners_is_refused():
    env = make(own={f"{__name__}:LEFT_FEET": ObservationTerm()})
    with pytest.raises(ValueError, match="has FL_foot without FR_foot, its mirror image; name both, or neither"):
        env.mirrors()


def test_links_of_the_state_are_those_of_the_simulation_in_each_step():
    env = make()
    calves = ("FL_calf", "RR_calf")
    before = env.state.link_pos(calves).clone()
    env.step(torch.randn(4, 12))
    shape = (4, 2, 3)
    assert env.state.link_pos(calves).shape == env.state.link_vel(calves).shape == shape
    assert (env.state.link_pos(calves) != before).all() and env.state.link_turn(calves).shape == (*shape, 3)
    torch.testing.assert_close(env.state.link_vel(("trunk",))[:, 0], env.sim.root_lin_vel)
    env.reset()
    torch.testing.assert_close(env.state.link_pos(("trunk",))[:, 0], env.sim.root_pos)


def test_observation_term_by_path_of_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"flat' returns \[4\]; return \[N, k\], here N=4"):
        make(own={f"{__name__}:flat": ObservationTerm()})

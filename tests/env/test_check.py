import pytest
import torch

from rsl_rl.config.task import ToyConfig
from rsl_rl.env import check_env
from rsl_rl.tasks.toy import PointEnv
from tests.era_clients import A, C, D, N, V1Env, V2Env, V3Env, V5Env


def make_env():
    return V2Env()


@pytest.mark.parametrize(
    "source", [f"{__name__}:make_env", make_env, V2Env, V2Env()], ids=["name", "f", "class", "env"]
)
def test_check_env_takes_an_environment_or_what_makes_one(source):
    report = check_env(source, num_steps=5)
    assert "rsl_rl 2" in report.form and (report.num_envs, report.num_actions) == (N, A)
    assert report.groups == {"policy": (D,), "critic": (C,), "rnd_state": (A,)}
    assert report.steps_per_s > 0 and report.error == ""


class Endless(V5Env):
    def step(self, actions):
        obs, reward, done, _ = super().step(actions)
        return obs, reward, done, {}


def test_check_env_of_environments_of_each_era_gives_the_lines_to_change():
    remedies = {finding.remedy for env in (V1Env, V3Env, Endless) for finding in check_env(env, 2).findings}
    assert {"done = done.bool()", "reward = reward.squeeze(-1)"} <= remedies
    assert any(remedy.startswith('extras["time_outs"] = self.episode_length_buf') for remedy in remedies)


class Stale(V1Env):
    def step(self, actions):
        self.extras["time_outs"] = torch.ones(N, dtype=torch.bool)
        return super().step(actions)


def test_check_env_of_stale_time_outs_reports_the_line_to_change():
    text = "\n".join(check_env(Stale, 2).lines())
    assert 'change: extras["time_outs"] = timed_out & done' in text


def test_check_env_of_an_environment_that_keeps_the_contract_has_nothing_to_correct():
    report = check_env(PointEnv(ToyConfig(num_envs=4)), num_steps=3)
    assert report.findings == [] and report.form == "PointEnv"
    assert report.lines()[1] == "nothing to correct"


def test_check_env_says_why_an_environment_cannot_be_learned_from():
    class Broken(V5Env):
        def step(self, actions):
            obs, reward, done, extras = super().step(actions)
            return obs, reward[:3], done, extras

    report = check_env(Broken, num_steps=2)
    assert "reward has the shape [3]" in report.error and report.lines()[1].startswith("error: ")


def test_check_env_of_a_gymnasium_id():
    pytest.importorskip("gymnasium")
    report = check_env("CartPole-v1", num_steps=3)
    assert report.groups == {"policy": (4,)} and report.num_actions == 2 and report.error == ""


def test_check_env_of_a_path_is_refused():
    pytest.importorskip("gymnasium")
    with pytest.raises(ValueError, match=r"knows no environment \.\./folder:make_env; give package\.module:make_env"):
        check_env("../folder:make_env")


def test_check_env_of_an_unknown_id_names_a_known_one():
    pytest.importorskip("gymnasium")
    with pytest.raises(ValueError, match=r"knows no environment CartPoles-v1; give .*\. Did you mean 'CartPole-v1'\?"):
        check_env("CartPoles-v1")

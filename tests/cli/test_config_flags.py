"""A parser of the named settings returns what the parser of the whole config does."""

import pytest

from configs.go2_flat import Go2Flat
from rsl_rl.cli import config_flags
from rsl_rl.cli.config_flags import parse_config, parse_settings, parse_whole
from rsl_rl.cli.flag_help import setting_names, value_at
from rsl_rl.cli.train import Flags


def is_text_of_one_word(value):
    return isinstance(value, (str, int, float)) and not isinstance(value, bool) and str(value)[:1] not in ("", "-")


def test_settings_of_their_own_value_are_those_of_the_whole_parser():
    cfg = Go2Flat()
    values = {path: value_at(cfg, path) for path in setting_names(cfg)}
    paths = [path for path, value in values.items() if is_text_of_one_word(value)]
    assert len(paths) > 150
    argv = [word for path in paths for word in (f"--{path}", str(values[path]))]
    named = parse_settings(Flags, cfg, argv, paths)
    assert named == parse_whole(Flags, cfg, argv) and named[1] == cfg


@pytest.mark.parametrize(
    "words",
    [
        "--env.num_envs 7 --env.sim.num_threads 1 --seed 3 --resume",
        "--env.rewards.terms.track_lin_vel.weight 2.5 --env.rewards.terms.track_lin_vel.params.tracking_sigma 0.5",
        "--policy.actor_hidden_dims 8 4 --algorithm.schedule adaptive --algorithm.final_entropy_coef None",
        "--env.commands.slow_fraction=0.5 --env.commands.lin_vel_x -2 0.5 --env.commands.lin_vel_y -.5 .5",
        "--acceleration.cuda_graphs --env.gate.fall_rate 0.5",
        "--algorithm.num_mini_batches 2 --algorithm.num_mini_batches 3",
        "--env.rewards.terms.foot_timing.params.offsets 0 0.5 0.25 0",
        "--env.rewards.terms.collision.params.collision_links a b",
    ],
)
def test_settings_are_those_of_the_whole_parser(words, monkeypatch):
    whole = parse_whole(Flags, Go2Flat(), words.split())
    assert whole[1] != Go2Flat()
    monkeypatch.setattr(config_flags, "parse_whole", None)
    assert parse_config(Flags, Go2Flat(), words.split()) == whole


@pytest.mark.parametrize(
    "words",
    [
        "--no_deterministic --env.num_envs 7",
        "--no_resume --env.num_envs 7",
    ],
)
def test_switches_to_turn_off_are_for_the_whole_parser(words, monkeypatch):
    whole = parse_whole(Flags, Go2Flat(), words.split())
    monkeypatch.setattr(config_flags, "parse_settings", None)
    assert parse_config(Flags, Go2Flat(), words.split()) == whole


@pytest.mark.parametrize(
    "words",
    ["--env.num_envs 0", "--env.num_envs x", "--algorithm.schedule slow", "--env.num_envs", "--seed 1 2", "-x 1"],
)
def test_mistakes_are_those_of_the_whole_parser(words):
    with pytest.raises(ValueError) as named:
        parse_config(Flags, Go2Flat(), words.split())
    with pytest.raises(ValueError) as whole:
        parse_whole(Flags, Go2Flat(), words.split())
    assert str(named.value) == str(whole.value)

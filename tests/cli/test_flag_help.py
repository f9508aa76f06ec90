"""Help in two levels, and what an unknown flag is taken for."""

import re
from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from configs.go2_flat import Go2Flat
from configs.toy import Toy
from rsl_rl.cli.config_flags import SHORTCUTS
from rsl_rl.cli.evaluate import Flags as EvaluateFlags
from rsl_rl.cli.flag_help import explain_unknown_flag, print_help, sections_of, setting_names, similar_names
from rsl_rl.cli.train import Flags

NAMES = [*dict.fromkeys([*setting_names(Go2Flat()), *SHORTCUTS])]
LASTS = Counter(name.rpartition(".")[2] for name in NAMES)


@pytest.fixture(autouse=True)
def _width_of_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")


def help_of(capsys, cfg, section="", flags=Flags):
    print_help(flags, cfg, SHORTCUTS, "What it does.", section)
    return capsys.readouterr().out


def flags_in(text):
    return re.findall(r"^(?:│ )? *(--[a-z][\w.]*)", text, flags=re.M)


def test_short_help_has_the_usual_flags_with_their_meaning_and_the_sections(capsys):
    text = help_of(capsys, Go2Flat())
    flags = flags_in(text)
    assert flags[0] == "--task" and {"--resume", "--seed", "--rl_device", *(f"--{name}" for name in SHORTCUTS)} < {
        *flags
    }
    assert not any("." in flag for flag in flags) and len(text.splitlines()) < 110
    assert "Robots simulated at once" in text and "(default: 512)" in text
    sections = text[text.index("--help SECTION") :]
    assert all(f"\n  {name} " in sections for name, _ in sections_of(Go2Flat()))
    assert "env.rewards" in sections and "a weighted sum of terms" in sections


def test_help_of_a_section_has_its_flags_alone(capsys):
    every = flags_in(help_of(capsys, Go2Flat(), "all"))
    for section in ("algorithm", "env.rewards", "env.observations", "env.gate", "env.rewards.terms.torques"):
        own = [flag for flag in every if flag.startswith(f"--{section}.")]
        assert own and flags_in(help_of(capsys, Go2Flat(), section)) == own


def test_sections_and_usual_flags_together_are_all_flags(capsys):
    every = {*flags_in(help_of(capsys, Go2Flat(), "all"))}
    found = {*flags_in(help_of(capsys, Go2Flat()))}
    for section, _ in sections_of(Go2Flat()):
        found |= {*flags_in(help_of(capsys, Go2Flat(), section))}
    assert found == every


def test_help_of_a_task_without_physics_leaves_out_flags_that_it_lacks(capsys):
    flags = flags_in(help_of(capsys, Toy(), flags=EvaluateFlags))
    assert "--sim" not in flags and flags.count("--num_envs") == 1 and "--episodes" in flags


@pytest.mark.parametrize(
    ("typed", "meant"),
    {
        "lr": ["algorithm.learning_rate"],
        "learning_rate": ["algorithm.learning_rate"],
        "clip_range": ["algorithm.clip_param"],
        "gae_lambda": ["algorithm.lam"],
        "n_steps": ["runner.num_steps_per_env"],
        "iterations": ["max_iterations"],
        "num_env": ["num_envs"],
        "env.num_env": ["num_envs"],
        "taks": ["task"],
        "acceleration.no_fusd": ["acceleration.fused"],
        "env.rewards.terms.torquess.weight": ["env.rewards.terms.torques.weight"],
        "tracking_sigma": [
            f"env.rewards.terms.{term}.params.tracking_sigma" for term in ("track_lin_vel", "track_yaw_rate")
        ],
        "qqq": [],
    }.items(),
)
def test_unknown_flag_is_taken_for_the_flag_that_is_meant(typed, meant):
    assert similar_names(typed, NAMES, SHORTCUTS) == meant
    message = explain_unknown_flag([f"--{typed}", "1"], Flags, Go2Flat(), SHORTCUTS)
    assert message.startswith(f"unknown flag --{typed};") and all(f"--{name}" in message for name in meant)


@given(st.sampled_from([name for name in NAMES if "." in name]), st.data())
def test_setting_with_a_missing_letter_is_recognised(name, data):
    last = name.rpartition(".")[2]
    assume(len(last) > 4)
    at = data.draw(st.integers(0, len(last) - 1))
    typed = last[:at] + last[at + 1 :]
    assume(typed not in LASTS)
    suggested = similar_names(f"{name[: -len(last)]}{typed}", NAMES, SHORTCUTS)
    found = [SHORTCUTS.get(one, one) for one in suggested]
    assert [one.count(".") for one in found] == [name.count(".")] and found[0].rpartition(".")[0] == name.rpartition(
        "."
    )[0]


@pytest.mark.parametrize("words", [["--resume=1"], ["--resume", "yes"], ["--no_resume", "1"]])
def test_value_after_a_switch_names_both_forms_of_it(words):
    message = explain_unknown_flag(words, Flags, Go2Flat(), SHORTCUTS)
    assert message == f"{' '.join(words)}: a switch takes no value; write --resume or --no_resume"
    assert explain_unknown_flag(["--task", "toy", "--resume"], Flags, Go2Flat(), SHORTCUTS) == ""

"""Names that load, parameters that are bound, and patterns of names."""

import importlib
import sys

import pytest
import torch

from rsl_rl.config.mdp import RewardConfig, TerminationConfig
from rsl_rl.utils import registry
from rsl_rl.utils.registry import Registry, bind_term, find_function, import_object, settings_of, values_by_name

COLOURS = Registry("colour", {"red": "math:pi", "blue": "math:tau", "lost": "math:nowhere"})


def test_names_and_paths_load():
    import math

    assert COLOURS.load("red") == math.pi
    assert COLOURS.load("math:e") == math.e
    assert COLOURS.names() == ["blue", "lost", "red"]


def test_an_unknown_name_lists_the_known_and_suggests():
    with pytest.raises(ValueError, match=r"unknown colour 'bleu'; known: blue, lost, red. Did you mean 'blue'?"):
        COLOURS.load("bleu")


@pytest.mark.parametrize(("path", "words"), [("math", "package.module:name"), ("math:pie", "Did you mean 'pi'")])
def test_a_bad_path_says_what_is_wrong(path, words):
    with pytest.raises(ValueError, match=words):
        import_object(path)


def test_import_object_of_a_module_that_was_moved_finds_it_at_its_new_place(monkeypatch):
    monkeypatch.setattr(registry, "MOVED", {"old_math": "math"})
    assert import_object("old_math:pi") == COLOURS.load("red")


@pytest.mark.parametrize("old", sorted(set(registry.MOVED) - {"rsl_rl.sim.isaac_gym"}))  # which needs the engine
def test_import_of_a_module_that_was_moved_warns_and_gives_its_new_place(old):
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=f"{old} is deprecated; import {registry.MOVED[old]}"):
        module = importlib.import_module(old)
    assert module is importlib.import_module(registry.MOVED[old])


def sized(state, *, size, offset=1.0):
    return state, size, offset


def with_section(state, cfg):
    return state, cfg


def open_to_all(state, **values):
    return state, values


class Counter:
    def __init__(self, task, *, limit):
        self.values = (task, limit)


def test_bound_function_gets_params_settings_and_defaults_in_this_order():
    assert bind_term(sized, {"size": 2}, "here", {"size": 3, "offset": 4})("s") == ("s", 2, 1.0)
    assert bind_term(sized, {"offset": 5}, "here", {"size": 3, "offset": 4})("s") == ("s", 3, 5)


def test_bound_function_with_cfg_gets_the_section_of_the_config():
    cfg = RewardConfig(only_positive=False)
    assert bind_term(with_section, {}, "here", settings_of(cfg))("s") == ("s", cfg)
    assert bind_term(lambda state, cfg=None: cfg, {}, "here", settings_of(cfg))("s") is cfg
    assert bind_term(lambda state, cfg=None: cfg, {}, "here", {})("s") is None


def test_bound_class_is_constructed_with_its_parameters():
    assert bind_term(Counter, {"limit": 7}, "here", {})("task").values == ("task", 7)


def test_bound_function_with_any_keywords_takes_all_params():
    assert bind_term(open_to_all, {"a": 1}, "here", {"b": 2})("s") == ("s", {"a": 1})


@pytest.mark.parametrize(
    ("function", "params", "message"),
    [
        (sized, {}, r"here: sized needs 'size', which params lacks; give a value in here\.params"),
        (sized, {"size": 1, "ofset": 2}, r"here\.params has 'ofset'; sized takes size, offset\. Did you mean 'offset'"),
        (with_section, {}, "here: with_section needs 'cfg', which params lacks"),
        (Counter, {"limt": 1}, r"here\.params has 'limt'; Counter takes limit\. Did you mean 'limit'"),
        (lambda: 0, {}, "takes 0 arguments by position; it gets 1"),
        (lambda state: 0, {"state": 1}, r"here\.params has 'state'; .* takes none"),
        (3.0, {}, "here names a float; name a function"),
        (torch.ones, {}, "here: no signature found.*write a function that calls it"),
    ],
)
def test_params_that_do_not_fit_the_signature_are_refused(function, params, message):
    with pytest.raises(ValueError, match=message):
        bind_term(function, params, "here", {})


def test_settings_of_a_section_are_its_fields_and_itself():
    cfg = TerminationConfig(max_tilt=0.5)
    settings = settings_of(cfg)
    assert settings["max_tilt"] == 0.5 and settings["cfg"] is cfg and set(vars(cfg)) == set(settings) - {"cfg"}


def test_function_of_another_module_is_found_by_its_path_and_a_shipped_one_by_its_name():
    assert find_function(f"{__name__}:sized", {}, "reward term") is sized
    assert find_function("sized", {"sized": sized}, "reward term") is sized
    with pytest.raises(ValueError, match=r"unknown reward term 'sizd'; known: sized\. Did you mean 'sized'"):
        find_function("sizd", {"sized": sized}, "reward term")


NAMES = ("FL_hip_joint", "FL_knee_joint", "FR_hip_joint", "FR_knee_joint")


def test_number_is_the_value_of_every_name():
    assert values_by_name(30.0, NAMES, "gains") == (30.0,) * 4


def test_pattern_matches_whole_names():
    assert values_by_name({".*_hip_joint": 1.0, "F[LR]_knee_.*": 2.0}, NAMES, "gains") == (1.0, 2.0, 1.0, 2.0)


@pytest.mark.parametrize(
    ("value", "message"),
    (
        ({".*hip": 1.0, ".*": 2.0}, "gains: '.*hip' matches none of FL_hip_joint, .*correct the pattern"),
        (
            {".*_hip_joint": 1.0},
            r"gains: the name FL_knee_joint matches none of '\.\*_hip_joint'; give each name exact",
        ),
        ({".*": 1.0, "FR.*": 2.0}, r"gains: the name FR_hip_joint matches '\.\*' and 'FR\.\*'; give each name exactly"),
        ({"(": 1.0, ".*": 2.0}, r"gains: '\(' is not a regular expression"),
        ({}, "gains is empty; give a number"),
    ),
)
def test_each_name_needs_exactly_one_pattern(value, message):
    with pytest.raises(ValueError, match=message):
        values_by_name(value, NAMES, "gains")

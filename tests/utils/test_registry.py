"""Names that load, and patterns of names."""

import fractions
import functools
import importlib
import sys
import timeit

import pytest

from rsl_rl.utils import registry
from rsl_rl.utils.registry import Registry, import_object, is_of_python, require_patterns, values_by_name

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


def test_functions_of_python_itself_are_told_from_those_of_others():
    own = functools.partial(importlib.import_module, "math")
    assert all(map(is_of_python, (len, timeit.timeit, importlib.import_module, fractions.Fraction, sys.exit)))
    assert not any(map(is_of_python, (own, Registry, values_by_name, pytest.raises, lambda: 0)))


CLASSES = Registry("error", {"value": "builtins:ValueError"}, base="builtins:Exception")
INSTANCES = Registry("number", {"pi": "math:pi"}, base="builtins:float", instances=True)


def test_load_of_a_path_of_the_right_base_gives_it():
    assert CLASSES.load("builtins:KeyError") is KeyError
    assert INSTANCES.load("math:e") == importlib.import_module("math").e


@pytest.mark.parametrize(
    ("registry_of", "path", "words"),
    [
        (
            CLASSES,
            "os:system",
            "the error 'os:system' is a builtin_function_or_method; name a class derived from builtins",
        ),
        (CLASSES, "builtins:int", "is the class int; name a class derived from builtins.Exception, or one of value"),
        (
            INSTANCES,
            "builtins:float",
            "the number 'builtins:float' is the class float; name an instance of builtins.float",
        ),
    ],
)
def test_load_of_a_path_of_another_kind_says_what_it_has_to_be(registry_of, path, words):
    with pytest.raises(ValueError, match=words):
        registry_of.load(path)


def test_import_object_of_a_module_that_was_moved_finds_it_at_its_new_place(monkeypatch):
    monkeypatch.setattr(registry, "MOVED", {"old_math": "math"})
    assert import_object("old_math:pi") == COLOURS.load("red")


@pytest.mark.parametrize("old", sorted(set(registry.MOVED) - {"rsl_rl.sim.isaac_gym"}))  # which needs the engine
def test_import_of_a_module_that_was_moved_warns_and_gives_its_new_place(old):
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=f"{old} is deprecated; import {registry.MOVED[old]}"):
        module = importlib.import_module(old)
    assert module is importlib.import_module(registry.MOVED[old])


NAMES = ("FL_hip_joint", "FL_knee_joint", "FR_hip_joint", "FR_knee_joint")


def test_number_is_the_value_of_every_name():
    assert values_by_name(30.0, NAMES, "gains") == (30.0,) * 4


def test_pattern_matches_whole_names():
    assert values_by_name({".*_hip_joint": 1.0, "F[LR]_knee_.*": 2.0}, NAMES, "gains") == (1.0, 2.0, 1.0, 2.0)


@pytest.mark.parametrize("pattern", ("(a+)+b", "(?:[a-z]*)*x", "(a|aa)+b", "((a+))*b", "(_?[a-z]+){1,60}x"))
def test_pattern_that_can_take_for_ever_is_refused(pattern):
    with pytest.raises(ValueError, match=r"gains: .* which can take for ever"):
        values_by_name({pattern: 1.0, ".*": 2.0}, ("a" * 60,), "gains")


@pytest.mark.parametrize("pattern", ("(FL|FR)_.*", "(.*_)?hip", ".*(hip|knee)_[0-9]+", r"[*+|)]{2}.*", "(ab){2}.+"))
def test_pattern_that_is_quick_is_taken(pattern):
    require_patterns({pattern: 1.0}, "gains")


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

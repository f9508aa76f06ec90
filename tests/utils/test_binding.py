"""Parameters that are bound to the functions of terms, and checked."""

import os
import timeit
from typing import Mapping, Optional, Sequence, Union

import pytest
import torch
from typing_extensions import Annotated

from rsl_rl.config.mdp import RewardConfig, ScheduleConfig, TerminationConfig
from rsl_rl.utils.binding import bind_term, find_function, settings_of
from rsl_rl.utils.config_io import Check


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
        (torch.ones, {}, "here: .*ones is not a function of a task; write one that calls it"),
        (
            timeit.timeit,
            {"setup": "raise SystemExit"},
            "here: timeit is not a function of a task; write one that calls it",
        ),
        (os.system, {}, "here: system is not a function of a task; write one that calls it"),
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


Length = Annotated[float, Check(lambda number: number > 0, " must be positive")]


def typed(
    state,
    *,
    length: Length = 1.0,
    lengths: Mapping[str, Length] = {},
    names: Union[str, Sequence[str]] = "",
    listed: list = (),
    schedule: Optional[ScheduleConfig] = None,
):
    return length, lengths, names, listed, schedule


def unresolved(state, *, length: "Length", tensor: "Missing" = None):  # noqa: F821  # as in a module of others
    return length


class Typed:
    def __init__(self, task, *, length: Length):
        self.length = length


def test_params_are_converted_to_the_types_that_a_function_declares():
    params = {"length": 2, "lengths": {"a": 1}, "names": ("a", "b"), "listed": (1,), "schedule": {"steps": 3}}
    bound = bind_term(typed, params, "here", {})("s")
    assert bound == (2.0, {"a": 1.0}, ("a", "b"), (1,), ScheduleConfig(steps=3)) and type(bound[0]) is float
    assert bind_term(Typed, {"length": 1}, "here", {})("task").length == 1.0
    assert bind_term(unresolved, {"length": "long"}, "here", {})("s") == "long"


@pytest.mark.parametrize(
    ("function", "params", "message"),
    [
        (typed, {"length": "long"}, r"here\.params\.length='long' is a str; give a number"),
        (typed, {"length": 0}, r"here\.params\.length=0\.0 must be positive"),
        (typed, {"lengths": {"a": -1}}, r"here\.params\.lengths\.a=-1\.0 must be positive"),
        (typed, {"names": 7}, r"here\.params\.names=7; give a list"),
        (typed, {"schedule": {"stepz": 3}}, r"unknown setting 'here\.params\.schedule\.stepz'"),
        (Typed, {"length": True}, r"here\.params\.length=True is a bool; give a number"),
    ],
)
def test_params_that_do_not_fit_the_declared_types_are_refused(function, params, message):
    with pytest.raises(ValueError, match=message):
        bind_term(function, params, "here", {})

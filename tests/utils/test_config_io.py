import enum
import math
import time
from dataclasses import dataclass, field, is_dataclass, replace
from typing import Dict, Optional, Tuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs import EXPERIMENTS
from configs.go2_flat import Go2Flat
from configs.train_config import TrainConfig
from rsl_rl.config import mdp, task
from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.learn import LearnConfig
from rsl_rl.config.policy import ActorCriticConfig, ActorCriticRecurrentConfig, SymmetricActorCriticConfig
from rsl_rl.config.task import LeggedRobotConfig, ToyConfig
from rsl_rl.utils.config_io import from_dict, read_yaml, short_repr, to_dict, write_yaml


@dataclass(frozen=True)
class Inner:
    number: float = 1.0
    pair: Tuple[float, float] = (0.0, 1.0)
    sizes: Tuple[int, ...] = (1, 2)


@dataclass(frozen=True)
class Outer:
    name: str = "x"
    flag: bool = False
    maybe: Optional[int] = None
    inner: Inner = field(default_factory=Inner)
    weights: Dict[str, float] = field(default_factory=dict)


numbers = st.floats(-1e6, 1e6)
inners = st.builds(Inner, numbers, st.tuples(numbers, numbers), st.lists(st.integers(0, 9)).map(tuple))


@given(
    st.builds(
        Outer,
        st.text("abc"),
        st.booleans(),
        st.none() | st.integers(0, 9),
        inners,
        st.dictionaries(st.text("ab"), numbers),
    )
)
def test_any_config_survives_the_round_trip(cfg):
    assert from_dict(Outer, to_dict(cfg)) == cfg


def test_task_config_module_reexports_every_mdp_config():
    owned = {name: value for name, value in vars(mdp).items() if getattr(value, "__module__", "") == mdp.__name__}
    classes = {name: value for name, value in owned.items() if is_dataclass(value)}
    assert len(classes) == 14 and classes.items() <= vars(task).items()
    assert {*classes, "Range", "LeggedRobotConfig", "ToyConfig", "RecallConfig"} <= set(task.__all__)


@pytest.mark.parametrize("name", EXPERIMENTS.names())
def test_every_experiment_survives_its_file(name, tmp_path):
    cfg = replace(EXPERIMENTS.load(name)(), seed=7)
    write_yaml(cfg, tmp_path / "config.yaml")
    assert from_dict(type(cfg), read_yaml(tmp_path / "config.yaml")) == cfg


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"nmae": "y"}, "unknown setting 'nmae'.*Did you mean 'name'"),
        ({"inner": {"numbr": 1}}, "unknown setting 'inner.numbr'.*'number'"),
        ({3: "y"}, "unknown setting '3'; known here: name, flag"),
        ({"name" * 1000: "y"}, r"unknown setting '(name){20}'; known here"),
        ({("a", "b"): 1}, r"unknown setting '\('a', 'b'\)'"),
        ({"name": None}, "name=None is a NoneType; give a text"),
        ({"name": ["x"]}, r"name=\['x'\] is a list; give a text"),
        ({"maybe": "x"}, "maybe='x' is a str; give a whole number"),
        ({"maybe": 1.0}, "maybe=1.0 is a float; give a whole number"),
        ({"maybe": 10**5000}, "maybe=<int>: give a finite number, of at most 9.22e.18"),
        ({"inner": 3}, "inner=3; give a mapping of its settings"),
        ({"inner": [1, 2]}, r"inner=\[1, 2\]; give a mapping of its settings"),
        ({"inner": None}, "inner=None; give a mapping of its settings"),
        ({"inner": {"kind": "Outer"}}, "inner.kind='Outer'; known: Inner"),
        ({"inner": {"kind": ["Inner"]}}, r"inner.kind=\['Inner'\]; known: Inner"),
        ({"flag": "yes"}, "flag='yes' is a str; give true or false"),
        ({"flag": 1}, "flag=1 is a int; give true or false"),
        ({"inner": {"number": "a"}}, "inner.number='a' is a str; give a number$"),
        ({"inner": {"number": "1e-3"}}, "inner.number='1e-3' is a str; give a number; YAML .* 1.0e-3"),
        ({"inner": {"number": float("nan")}}, "inner.number=nan: give a finite number"),
        ({"inner": {"number": 1e39}}, "inner.number=1e.39: give a finite number, of at most 3.4e.38"),
        ({"inner": {"number": 10**400}}, "inner.number=10+.*: give a finite number"),
        ({"inner": {"pair": [1, float("inf")]}}, r"inner.pair\[1\]=inf: give a finite number"),
        ({"weights": {1: 2.0}}, "weights has the key 1, a int; give names as keys"),
        ({"weights": [["a", 1.0]]}, r"weights=\[\['a', 1.0\]\]; give a mapping"),
        ({"inner": {"number": True}}, "inner.number=True is a bool"),
        ({"inner": {"pair": [1]}}, r"inner.pair=\[1\] has 1 values; give 2"),
        ({"inner": {"sizes": 3}}, "inner.sizes=3; give a list"),
        ({"weights": 3}, "weights=3; give a mapping"),
        ({"weights": {"a": "b"}}, "weights.a='b'"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(values, words):
    with pytest.raises(ValueError, match=words):
        from_dict(Outer, values)


def test_numbers_and_lists_of_other_makes_become_the_declared_ones():
    import numpy as np

    values = {"inner": {"number": np.float32(2), "pair": (1, np.int64(2)), "sizes": [np.int8(3)]}, "maybe": np.int32(4)}
    cfg = from_dict(Outer, values)
    assert cfg == Outer(maybe=4, inner=Inner(2.0, (1.0, 2.0), (3,)))
    assert type(cfg.inner.number) is float and type(cfg.inner.sizes[0]) is int and type(cfg.inner.pair[0]) is float


def test_a_config_made_in_code_is_held_to_the_same():
    cfg = PPOConfig(gamma=1, num_mini_batches=2)
    assert type(cfg.gamma) is float
    assert ActorCriticConfig(actor_hidden_dims=[8, 8]).actor_hidden_dims == (8, 8)
    with pytest.raises(ValueError, match=r"algorithm.learning_rate=nan: give a finite number"):
        PPOConfig(learning_rate=float("nan"))
    with pytest.raises(ValueError, match=r"policy=PPOConfig.*; give a mapping"):
        LearnConfig(policy=cfg)
    with pytest.raises(ValueError, match=r"env.observations=3; give a mapping"):
        LeggedRobotConfig(observations=3)


def nested(depth):
    return "a: " + "[" * depth + "]" * depth


FILES = {
    "a list": ("- 1\n- 2\n", "holds a list, not a mapping"),
    "a text": ("hello", "holds a str, not a mapping"),
    "nothing": ("", "holds a NoneType"),
    "a bracket too few": ("a: [1\n", "is not valid YAML: .*line 2"),
    "a program": ("a: !!python/object/apply:os.system ['touch executed']\n", "could not determine a constructor"),
    "an object": ("a: !!python/object:pathlib.Path {}\n", "could not determine a constructor"),
    "a key twice": ("a: 1\nb: 2\na: 3\n", "the key 'a' twice.*line 3"),
    "a nested key twice": ("x:\n  a: 1\n  a: 1\n", "the key 'a' twice"),
    "a list as a key": ("? [1]\n: 2\n", "unhashable key"),
    "a date that is none": ("a: 2020-99-99\n", "month must be in"),
    "a tag that does not fit": ("a: !!timestamp x\n", "is not valid YAML"),
    "a number without end": (f"a: {'9' * 5000}\n", "is not valid YAML"),
    "brackets without end": (nested(5000), "is not valid YAML: .*recursion"),
    "bytes": (b"\x80\x81\xff", "is not valid YAML"),
    "zeros": (b"\0" * 100, "is not valid YAML"),
}


@pytest.mark.parametrize("case", FILES)
def test_a_file_without_settings_is_refused(case, tmp_path, monkeypatch):
    content, words = FILES[case]
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "config.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=f"{path} .*{words}") as caught:
        read_yaml(path)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500
    assert [file.name for file in tmp_path.iterdir()] == ["config.yaml"]


def test_nested_merge_keys_are_refused_at_once(tmp_path):
    """Each of 26 levels merges the one before twice, so that resolving them takes 2^26 steps."""
    levels = ["a0: &a0 {x: 1}", *(f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}" for i in range(1, 27))]
    path = tmp_path / "config.yaml"
    path.write_text("\n".join(levels))
    begin = time.monotonic()
    with pytest.raises(ValueError, match=r"merge keys \(<<\) are not supported; write the settings out"):
        read_yaml(path)
    assert time.monotonic() - begin < 5


def test_a_few_aliases_are_resolved_and_many_or_circular_ones_refused(tmp_path):
    """Nine levels of ten references each stand for 10^9 values, which nobody may write out."""
    path = tmp_path / "config.yaml"
    path.write_text("a: &a [1, 2]\nb: *a\n")
    assert read_yaml(path) == {"a": [1, 2], "b": [1, 2]}
    path.write_text("a: &a [*a]\n")
    with pytest.raises(ValueError, match="aliases"):
        read_yaml(path)
    levels = [f"a{i}: &a{i} [{', '.join(['*a%d' % (i - 1) if i else 'x'] * 10)}]" for i in range(9)]  # noqa: UP031
    path.write_text("\n".join(levels) + "\nname: *a8\n")
    with pytest.raises(ValueError, match=r"aliases .* stand for more than 1000000 values; write the settings out"):
        read_yaml(path)


@pytest.mark.parametrize(
    "policy", [ActorCriticRecurrentConfig(rnn_type="gru"), SymmetricActorCriticConfig(), ActorCriticConfig()]
)
def test_a_field_may_hold_a_subclass_of_what_it_declares(policy):
    cfg = LearnConfig(policy=policy)
    assert from_dict(LearnConfig, to_dict(cfg)) == cfg
    assert to_dict(cfg)["policy"].get("kind") == (None if type(policy) is ActorCriticConfig else type(policy).__name__)


def test_an_unknown_kind_lists_the_known():
    with pytest.raises(
        ValueError, match=r"policy.kind='ActorCriticRecurent'; known: ActorCriticConfig, ActorCriticRecurrentC"
    ):
        from_dict(LearnConfig, {"policy": {"kind": "ActorCriticRecurent"}})


def test_a_field_without_a_class_of_its_own_asks_for_the_kind():
    cfg = TrainConfig(env=ToyConfig(num_envs=3))
    assert from_dict(TrainConfig, to_dict(cfg)) == cfg
    with pytest.raises(ValueError, match=r"env.kind is missing; name one of .*LeggedRobotConfig.*ToyConfig"):
        from_dict(TrainConfig, {"env": {"num_envs": 3}})


def test_a_term_that_does_not_know_its_place_is_named_with_it():
    values = {"env": {"observations": {"policy": {"terms": {"gravity": {"noise": -1}}}}}}
    with pytest.raises(ValueError, match=r"^env.observations.policy.terms.gravity.noise=-1.0 must not be negative"):
        from_dict(Go2Flat, values)


def test_a_setting_without_a_default_is_asked_for():
    @dataclass(frozen=True)
    class Needy:
        size: int

    with pytest.raises(ValueError, match="size is missing and has no default"):
        from_dict(Needy, {})


# Whatever a dict of settings holds: a config or one ValueError

junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, -1, 1, 2, 3, 7, 2**31, 2**63, 10**400])
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["", "..", "a/b", "1e-3", "\0", "\ud800", "LearnConfig", "ToyConfig", "cpu", "adaptive"])
    | st.binary(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=5) | st.integers() | st.none() | st.just("kind"), inner, max_size=4)
    ),
    max_leaves=8,
)


def places(values, path=()):
    """Every place in nested dicts, as a path of keys."""
    for key, value in values.items():
        yield (*path, key)
        if isinstance(value, dict):
            yield from places(value, (*path, key))


@st.composite
def changed_settings(draw):
    """The settings of an experiment with one of them replaced, left out or joined by another; and its path."""
    cls = EXPERIMENTS.load(draw(st.sampled_from(EXPERIMENTS.names())))
    values = to_dict(cls())
    path = draw(st.sampled_from(list(places(values))))
    parent = values
    for key in path[:-1]:
        parent = parent[key]
    change = draw(st.sampled_from(["replace", "drop", "add", "number"]))
    if change == "replace":
        parent[path[-1]] = draw(junk)
    elif change == "number":
        parent[path[-1]] = draw(st.floats() | st.integers(-5, 100_000) | st.sampled_from([math.nan, math.inf]))
    elif change == "drop":
        del parent[path[-1]]
    else:
        path = (*path[:-1], draw(st.text(max_size=8) | st.integers() | st.tuples(st.integers())))
        parent[path[-1]] = draw(junk)
    return cls, values, path


def accepted(cls, values):
    """The config, which survives the round trip, or the words of its refusal."""
    try:
        cfg = from_dict(cls, values)
    except ValueError as error:
        assert "\n" not in str(error) and 0 < len(str(error)) < 1000, str(error)
        return str(error)
    assert from_dict(cls, to_dict(cfg)) == cfg
    return cfg


@pytest.mark.parametrize(
    "values, where",
    [
        ({"kind": "DistillationConfig", "teacher": {"actor_groups": []}}, "algorithm.teacher.actor_groups is empty"),
        ({"kind": "DistillationConfig", "teacher": {"init_noise_std": -1}}, "algorithm.teacher.init_noise_std=-1"),
    ],
)
def test_from_dict_config_in_another_place_is_named_by_this_place(values, where):
    with pytest.raises(ValueError, match=f"^{where}"):
        from_dict(LearnConfig, {"algorithm": values})


def test_a_config_with_one_strange_setting_is_taken_or_refused_by_its_place():
    seen = set()

    @settings(max_examples=150)
    @given(changed_settings())
    def check(changed):
        cls, values, path = changed
        before = repr(values)
        result = accepted(cls, values)
        seen.add(type(result).__name__)
        assert repr(values) == before  # the caller's own
        if isinstance(result, str):
            name = path[-1] if str(path[-1]).isprintable() and isinstance(path[-1], str) else short_repr(path[-1])
            assert name in result and all(part in result for part in path[:-1]), (path, result)

    check()
    assert {"str"} < seen, "some settings must be refused and some taken"


@settings(max_examples=200)
@given(junk, st.sampled_from([LearnConfig, TrainConfig, Outer]))
def test_anything_for_a_config_is_taken_or_refused(values, cls):
    assert isinstance(accepted(cls, values), (cls, str))


def test_configs_of_others_with_enumerations_numpy_and_unknown_types_can_be_written(tmp_path):
    class Kind(str, enum.Enum):
        JOINT = "joint"

    @dataclass
    class Foreign:
        kind: "Unknown" = Kind.JOINT  # noqa: F821, RUF100
        gain: float = np.float64(2.5)
        number: int = np.int64(3)

    path = tmp_path / "config.yaml"
    write_yaml({"env": Foreign()}, path)
    assert read_yaml(path)["env"] == {"kind": "joint", "gain": 2.5, "number": 3}

from dataclasses import dataclass, field, replace
from typing import Dict, Optional, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs import EXPERIMENTS
from rsl_rl.config.learn import LearnConfig
from rsl_rl.config.policy import ActorCriticConfig, ActorCriticRecurrentConfig, SymmetricActorCriticConfig
from rsl_rl.utils.config_io import from_dict, read_yaml, to_dict, write_yaml


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
        ({"inner": 3}, "inner. is a int"),
        ({"flag": "yes"}, "flag='yes' is a str; give a bool"),
        ({"inner": {"number": "a"}}, "inner.number='a' is a str; give a float"),
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


@pytest.mark.parametrize("text", ["- 1\n- 2\n", "a: [1\n"])
def test_a_file_without_settings_is_refused(text, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=str(path)):
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

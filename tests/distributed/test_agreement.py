"""Ranks compare what they are about to train before they begin."""

import threading

import pytest
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st

from rsl_rl.distributed import AgreementError, Start, require_agreement
from rsl_rl.distributed.agreement import agree_on_start, find_disagreement
from rsl_rl.distributed.collective import Collective

plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(["", "a", "auto"])
nested = plain | st.lists(plain, max_size=2) | st.dictionaries(st.sampled_from("ab"), plain)
sections = st.dictionaries(st.sampled_from("xyz"), nested)


def begin(starts):
    """Let ranks begin, each in a thread; return what each has raised, and what rank 0 has shown."""
    store, raised, shown = dist.HashStore(), [None] * len(starts), []

    def run(rank):
        try:
            agree_on_start(store, rank, len(starts), starts[rank], shown.append)
        except AgreementError as error:
            raised[rank] = (str(error), len(shown))

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(len(starts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return raised, shown


def test_agree_on_start_with_equal_settings_raises_nowhere_and_shows_nothing():
    assert begin([Start({"a": {"b": [1, 2]}})] * 3) == ([None] * 3, [])


@pytest.mark.parametrize(
    ("starts", "message"),
    [
        ([Start(), Start(error="no wheels"), Start()], "rank 1: no wheels"),
        ([Start(error="no wheels")] * 3, "no wheels"),
        ([Start(error="one"), Start(error="other")], "rank 0: one"),
        ([Start({"a": {"b": 1}}), Start({"a": {"b": 1}}), Start({"a": {"b": 2}})], "rank 2 has a.b=2 and rank 0 has"),
        ([Start({"a": 1}), Start({})], "rank 1 has a=nothing and rank 0 has a=1; start all ranks with the same flags"),
        ([Start({"a": 1}), Start(error="no wheels")], "rank 1: no wheels"),
    ],
)
def test_agree_on_start_otherwise_raises_on_all_after_rank_0_has_shown_it(starts, message):
    raised, shown = begin(starts)
    assert len(shown) == 1 and shown[0].startswith(message)
    assert raised == [(shown[0], 1)] * len(starts)


@settings(max_examples=25)
@given(sections, st.integers(2, 4))
def test_find_disagreement_of_equal_settings_is_empty(values, size):
    assert find_disagreement([Start(values)] * size) == ""


@settings(max_examples=25)
@given(sections, st.integers(1, 3))
def test_find_disagreement_names_rank_and_path_of_what_one_rank_has_besides(values, rank):
    starts = [Start({**values, "section": {"same": 1, "own": 1}})] * 4
    starts[rank] = Start({**values, "section": {"same": 1, "own": 2}})
    assert find_disagreement(starts).startswith(f"rank {rank} has section.own=2 and rank 0 has section.own=1; ")


class Others(Collective):
    """A collective whose rank 1 has said something else."""

    size = 2

    def __init__(self, said):
        self.said = said

    def gather(self, value):
        return [value, self.said]


def test_require_agreement_reads_no_addresses_of_objects():
    require_agreement(Others('{"f": "<function f>"}'), {"f": "<function f at 0x7f00deadbeef>"})
    with pytest.raises(AgreementError, match="rank 1 has f='<function g>' and rank 0 has f='<function f>'"):
        require_agreement(Others('{"f": "<function g>"}'), {"f": "<function f at 0x7f00deadbeef>"})

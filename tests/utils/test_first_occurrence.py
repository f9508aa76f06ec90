import torch
from hypothesis import given
from hypothesis import strategies as st

from rsl_rl.utils.first_occurrence import FirstOccurrence

KINDS, N = ("a", "b", "c"), 5


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.02, 0.3, 1.0]))
def test_the_first_of_each_kind_is_kept_as_a_loop_would(seed, rate):
    draw = torch.Generator().manual_seed(seed)
    events, expected = FirstOccurrence(KINDS, torch.device("cpu")), {}
    for step in range(6):
        masks = torch.rand(len(KINDS), N, generator=draw) < rate
        row, block = torch.rand(N, generator=draw), torch.rand(N, 2, 3, generator=draw)
        events.record(masks, step, {"row": row, "block": block})
        for kind, mask in zip(KINDS, masks):
            for n in range(N):
                if mask[n] and kind not in expected:
                    expected[kind] = (n, step, row[n], block[n])
    for kind in KINDS:
        event = events.read(kind)
        assert (event is None) == (kind not in expected)
        if event is not None:
            n, step, row, block = expected[kind]
            assert (event["environment"], event["step"], event["row"]) == (n, step, row)
            assert torch.equal(event["block"], block)
    assert events.read("another") is None

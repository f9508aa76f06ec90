"""Signals that are delayed until the end of a block."""

import os
import signal

import pytest

from rsl_rl.cli.signals import delay_signals


class StruckError(Exception):
    """What the handler of the test raises."""


@pytest.fixture
def struck():
    """A handler of SIGTERM that raises StruckError."""

    def strike(number, frame):
        raise StruckError

    former = signal.signal(signal.SIGTERM, strike)
    yield strike
    signal.signal(signal.SIGTERM, former)


def test_signal_is_handled_at_the_end_of_the_block(struck):
    done = []
    with pytest.raises(StruckError):
        with delay_signals():
            os.kill(os.getpid(), signal.SIGTERM)
            done.append("the rest of the block")
    assert done == ["the rest of the block"]
    assert signal.getsignal(signal.SIGTERM) is struck


def test_block_that_fails_does_not_lose_the_signal(struck):
    with pytest.raises(StruckError) as caught:
        with delay_signals():
            os.kill(os.getpid(), signal.SIGTERM)
            raise OSError("no space left on device")
    assert isinstance(caught.value.__context__, OSError)
    assert signal.getsignal(signal.SIGTERM) is struck


def test_block_without_a_signal_changes_no_handler(struck):
    with delay_signals():
        assert signal.getsignal(signal.SIGTERM) is not struck
    assert signal.getsignal(signal.SIGTERM) is struck

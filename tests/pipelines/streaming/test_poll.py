"""Polling goes on only from a state that was shared out as it is now."""

from types import SimpleNamespace

import pytest
from beam_state import Cell

from pipelines.errors import RunError
from pipelines.streaming.control import Control
from pipelines.streaming.poll import PollSource, _PollFn


def polling(readers, shards):
    return _PollFn(PollSource(SimpleNamespace(n_readers=readers), shards, Control("none")))


@pytest.mark.parametrize(("readers", "shards"), [(3, 8), (2, 4)])
def test_readers_and_shards_cannot_change_while_a_stream_lives(readers, shards):
    shape = Cell()
    polling(2, 8)._check(shape)
    polling(2, 8)._check(shape)
    with pytest.raises(RunError, match=f"--readers 2 and --shards 8, and goes on with --readers {readers}"):
        polling(readers, shards)._check(shape)

import os

from pipelines.frames import pack, unpack
from pipelines.spill import Spill


def test_blocks_come_back_as_they_were_put(tmp_path):
    for spill in (Spill(), Spill(str(tmp_path))):
        tokens = spill.put(b"first", b"", b"third" * 1000)
        assert [bytes(spill.get(token)) for token in tokens] == [b"first", b"", b"third" * 1000]


def test_blocks_put_together_share_a_file_and_tokens_are_short(tmp_path):
    tokens = Spill(str(tmp_path)).put(*[b"x" * 10_000] * 5)
    assert len(os.listdir(tmp_path)) == 1
    assert max(map(len, tokens)) < 1000


def test_a_frame_is_read_from_the_middle_of_a_file(tmp_path):
    import numpy as np

    spill = Spill(str(tmp_path))
    tokens = spill.put(b"odd", pack({"a": np.arange(5)}))
    assert unpack(spill.get(tokens[1]))["a"].tolist() == [0, 1, 2, 3, 4]

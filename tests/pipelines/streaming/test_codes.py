import numpy as np
import pyarrow as pa
import pytest

from pipelines.streaming import codes as module
from pipelines.streaming.codes import Codes


def texts(*names):
    return pa.array(names, pa.large_string())


def test_a_name_that_occurs_twice_in_a_block_has_one_number():
    codes = Codes()
    assert codes.of(texts("ann", "bob", "ann")).tolist() == [0, 1, 0]
    assert codes.of(texts("bob", "cem", "cem", "ann")).tolist() == [1, 2, 2, 0]
    assert len(codes) == 3


@pytest.mark.parametrize("seed", range(5))
def test_numbers_are_those_of_a_dictionary(seed):
    rng = np.random.default_rng(seed)
    codes, known = Codes(), {}
    for size in rng.integers(1, 3000, size=6).tolist():
        names = [f"w{n}" for n in rng.integers(4000, size=size)]
        assert codes.of(texts(*names)).tolist() == [known.setdefault(name, len(known)) for name in names]
    assert codes.names(range(len(codes))).to_pylist() == list(known)
    assert codes.find(texts("nobody", *known)).tolist() == [-1, *known.values()]


def test_names_with_one_hash_are_told_apart(monkeypatch):
    monkeypatch.setattr(module, "hash_texts", lambda names: np.full(len(names), 7, np.uint64))
    codes, known = Codes(), {}
    for names in (["a"], ["b", "c", "b"], ["c", "d", "d", "a"]):
        assert codes.of(texts(*names)).tolist() == [known.setdefault(name, len(known)) for name in names]
    assert codes.find(texts("d", "e", "a")).tolist() == [known["d"], -1, known["a"]]

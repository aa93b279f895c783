"""Counts of everything in and out: they travel with the data, so that a retry neither loses nor doubles them.

A count is a name and an integer; counts are added up by name. `labels_read = labels_used + labels_repeated +
labels_rejected + labels_withdrawn` always holds; the last are the deletions and the labels that they withdrew.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping

import apache_beam as beam


def pack_counts(counts: Mapping[str, int]) -> bytes:
    """Counts as bytes."""
    return json.dumps({name: int(value) for name, value in sorted(counts.items())}).encode()


def add_counts(parts: Iterable[bytes]) -> bytes:
    """All counts together.

    >>> add_counts([pack_counts({"a": 1}), pack_counts({"a": 2, "b": 0})])
    b'{"a": 3, "b": 0}'
    """
    total: Counter[str] = Counter()
    for part in parts:
        for name, value in json.loads(part).items():
            total[name] += value
    return pack_counts(total)


class CountsCombineFn(beam.CombineFn):
    """Lends `add_counts` to Beam."""

    def create_accumulator(self) -> bytes:
        """No counts."""
        return pack_counts({})

    def add_input(self, total: bytes, counts: bytes) -> bytes:
        """`counts` added."""
        return add_counts([total, counts])

    def merge_accumulators(self, totals: Iterable[bytes]) -> bytes:
        """All `totals` together."""
        return add_counts(totals)

    def extract_output(self, total: bytes) -> bytes:
        """The total."""
        return total

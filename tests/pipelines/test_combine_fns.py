import json

import numpy as np
from laws import assert_combines_freely

from crowdcore.edges import EdgeCounts
from crowdcore.labels import group_labels
from pipelines.counts import CountsCombineFn, pack_counts
from pipelines.edge_frames import EdgeCountsCombineFn, pack_edges, unpack_edges
from pipelines.spill import Spill


def edges_of(rows):
    """Edge counts of (task, worker, label) rows."""
    names = [sorted(set(column)) for column in zip(*rows, strict=True)]
    codes = [
        [name.index(value) for value in column] for name, column in zip(names, zip(*rows, strict=True), strict=True)
    ]
    sizes = [len(name) for name in names]
    labels = group_labels(*codes, n_tasks=sizes[0], n_workers=sizes[1], n_classes=sizes[2]).labels
    return EdgeCounts.of(labels, names[1], names[2])


ANN_BOB = edges_of([("t1", "ann", "x"), ("t1", "bob", "x"), ("t2", "ann", "x"), ("t2", "bob", "y")])
BOB_ÇEM = edges_of([("t3", "bob", "x"), ("t3", "çem", "x"), ("t4", "bob", "z"), ("t4", "çem", "z")])
ALL = edges_of([("t5", "ann", "x"), ("t5", "bob", "x"), ("t5", "çem", "y")])


def test_edge_counts_combine_freely():
    frames = [pack_edges(edges) for edges in (ANN_BOB, BOB_ÇEM, ALL)]
    total = unpack_edges(assert_combines_freely(EdgeCountsCombineFn(), frames))
    assert total.workers.tolist() == ["ann", "bob", "çem"]
    assert total.classes == ("x", "y", "z")
    pairs = zip(total.first.tolist(), total.second.tolist(), strict=True)
    counts = zip(total.n_common.tolist(), total.n_agree.tolist(), strict=True)
    assert dict(zip(pairs, counts, strict=True)) == {(0, 1): (3, 2), (0, 2): (1, 0), (1, 2): (3, 2)}


def test_edge_counts_combine_freely_by_reference(tmp_path):
    spill = Spill(str(tmp_path))
    tokens = spill.put(*(pack_edges(edges) for edges in (ANN_BOB, BOB_ÇEM, ALL)))
    total = assert_combines_freely(EdgeCountsCombineFn(spill), tokens, lambda token: bytes(spill.get(token)))
    assert unpack_edges(total) == ANN_BOB + BOB_ÇEM + ALL


def test_counts_combine_freely():
    parts = [pack_counts({"a": 1}), pack_counts({"a": 2, "b": 5}), pack_counts({"c": 0})]
    assert json.loads(assert_combines_freely(CountsCombineFn(), parts)) == {"a": 3, "b": 5, "c": 0}


def test_edges_go_through_a_frame_unchanged_also_negative_ones():
    difference = ANN_BOB - ALL
    assert (difference.n_common < 0).any()
    for edges in (ANN_BOB, EdgeCounts.zero(), difference):
        again = unpack_edges(pack_edges(edges))
        assert again == edges
        assert again.classes == edges.classes
        assert again.first.dtype == np.int64

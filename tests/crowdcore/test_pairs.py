from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import crowdcore.pairs
from crowdcore.edges import EdgeCounts
from crowdcore.labels import TaskLabels, group_labels
from crowdcore.pairs import PairTally, is_sampled, pair_rounds
from crowdcore.simulate import simulate_crowd

CROWDS = st.dictionaries(st.tuples(st.integers(0, 4), st.integers(0, 6)), st.integers(0, 2), max_size=20)


def labels_of(crowd, n_workers=7, dtype=np.int64):
    """TaskLabels of {(task, worker): class}."""
    cells = np.array([(*cell, label) for cell, label in crowd.items()], dtype).reshape(-1, 3)
    return group_labels(*cells.T, n_tasks=5, n_workers=n_workers, n_classes=3).labels


def tallied(*groups):
    tally = PairTally()
    for labels in groups:
        tally.add(labels)
    return tally


def as_dictionary(tally):
    """{pair: (common, agreements)}."""
    n_labels, _ = tally.by_worker(0)
    order = np.flatnonzero(n_labels)
    first, second, n_common, n_agree = tally.pairs(order)
    assert len(set(zip(first, second, strict=True))) == len(first)
    pairs = zip(order[first].tolist(), order[second].tolist(), strict=True)
    return dict(zip(pairs, zip(n_common.tolist(), n_agree.tolist(), strict=True), strict=True))


def pairs_of(labels):
    """(pairs,) first and second worker of every pair."""
    rounds = list(pair_rounds(labels))
    return np.concatenate([one.first for one in rounds]), np.concatenate([one.second for one in rounds])


def counted_plainly(*crowds):
    counts = {}
    for crowd in crowds:
        for (one, one_label), (other, other_label) in combinations(sorted(crowd.items()), 2):
            if one[0] == other[0]:
                n_common, n_agree = counts.get((one[1], other[1]), (0, 0))
                counts[one[1], other[1]] = n_common + 1, n_agree + (one_label == other_label)
    return counts


@given(CROWDS, CROWDS, st.sampled_from([0, 5, 4096]), st.sampled_from([1, 10, 4_000_000]))
def test_dense_and_sparse_tallies_count_what_a_dictionary_would(one, two, dense_workers, round_pairs):
    with patch.multiple(crowdcore.pairs, _DENSE_WORKERS=dense_workers, _ROUND_PAIRS=round_pairs):
        tally = tallied(labels_of(one), labels_of(two), labels_of(one))
        assert as_dictionary(tally) == counted_plainly(one, two, one)


@given(CROWDS, CROWDS)
def test_a_tally_that_outgrows_the_dense_table_keeps_its_counts(small, large):
    with patch.multiple(crowdcore.pairs, _DENSE_WORKERS=7, _ROUND_PAIRS=1):
        tally = tallied(labels_of(small), labels_of(large, n_workers=9), labels_of(small), labels_of(large, 11))
        assert as_dictionary(tally) == counted_plainly(small, large, small, large)


@given(CROWDS, CROWDS, st.lists(st.integers(7, 400), min_size=2, max_size=2))
def test_a_dense_table_that_grows_keeps_its_counts(one, two, n_workers):
    tally = tallied(labels_of(one, n_workers[0]), labels_of(two, n_workers[1]))
    assert as_dictionary(tally) == counted_plainly(one, two)


@given(CROWDS, st.sampled_from([0, 4096]))
def test_reading_a_tally_does_not_change_it(crowd, dense_workers):
    with patch.object(crowdcore.pairs, "_DENSE_WORKERS", dense_workers):
        tally = tallied(labels_of(crowd))
        assert as_dictionary(tally) == as_dictionary(tally)
        tally.add(labels_of(crowd))
        assert as_dictionary(tally) == counted_plainly(crowd, crowd)


def test_more_than_4096_workers_are_counted_like_fewer():
    crowd = simulate_crowd(n_tasks=20_000, n_workers=4000, labels_per_task=3, rng=np.random.default_rng(1))
    names = np.array([f"w{code}" for code in range(4500)], object)
    dense = EdgeCounts.of(crowd.grouped(), names[:4000], ["a", "b"])
    wide = group_labels(crowd.task, crowd.worker, crowd.label, n_tasks=20_000, n_workers=4500, n_classes=2)
    assert EdgeCounts.of(wide.labels, names, ["a", "b"]) == dense
    assert int(dense.n_common.sum()) == 20_000 * 3


@given(CROWDS)
def test_labels_and_ordered_pairs_of_peers_are_those_of_a_plain_count(crowd):
    tasks = {task: [worker for t, worker in crowd if t == task] for task, _ in crowd}
    peers = {worker: [len(task) - 1 for task in tasks.values() if worker in task] for worker in range(7)}
    n_labels, n_triples = tallied(labels_of(crowd)).by_worker(7)
    assert n_labels.tolist() == [len(peers[worker]) for worker in range(7)]
    assert n_triples.tolist() == [sum(n * (n - 1) for n in peers[worker]) for worker in range(7)]


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint16, np.int32])
def test_narrow_codes_are_counted_like_wide_ones(dtype):
    crowd = {(task, worker): worker % 3 for task in range(3) for worker in (0, 1, 240, 241, 250)}
    tally = tallied(labels_of(crowd, n_workers=251, dtype=dtype))
    assert as_dictionary(tally) == counted_plainly(crowd)


def one_task(size):
    return group_labels([0] * size, range(size), [0] * size, n_tasks=1, n_workers=size, n_classes=1).labels


@given(st.integers(4, 60), st.integers(1, 400))
def test_a_task_with_too_many_pairs_keeps_distinct_ones_and_each_worker_as_many(size, max_pairs):
    n_all = size * (size - 1) // 2
    with patch.object(crowdcore.pairs, "MAX_PAIRS", max_pairs):
        first, second = pairs_of(one_task(size))
        assert tallied(one_task(size)).n_sampled == (n_all > max_pairs)
    kept = set(zip(first.tolist(), second.tolist(), strict=True))
    assert len(kept) == len(first)
    assert all(one < other for one, other in kept)
    assert len(kept) == n_all if n_all <= max_pairs else len(kept) <= max(max_pairs, size)
    assert len(set(np.bincount([*first, *second], minlength=size))) == 1


@given(st.integers(4, 60), st.integers(60, 400))
def test_a_part_of_the_pairs_is_as_large_as_the_cap_allows(size, max_pairs):
    """Whole circles of `size` pairs, one a distance below half the circle."""
    with patch.object(crowdcore.pairs, "MAX_PAIRS", max_pairs):
        first, _ = pairs_of(one_task(size))
        if is_sampled(np.array(size)):
            assert len(first) == min(max_pairs // size, (size - 1) // 2) * size


@given(st.integers(30, 90), st.integers(100, 400))
def test_the_distances_of_kept_pairs_are_spread_evenly_over_half_the_circle(size, max_pairs):
    with patch.object(crowdcore.pairs, "MAX_PAIRS", max_pairs):
        first, second = pairs_of(one_task(size))
    apart = second - first
    distances = np.unique(np.minimum(apart, size - apart))
    gaps = np.diff([*distances, 1 + (size - 1) // 2])
    assert distances[0] == 1
    assert gaps.max() - gaps.min() <= 1


def test_the_cap_is_500_000_pairs():
    assert len(pairs_of(one_task(10_000))[0]) == 500_000
    assert is_sampled(np.array([0, 1, 1000, 1001, 10_000])).tolist() == [False, False, False, True, True]


@given(CROWDS)
def test_a_round_holds_no_more_pairs_than_it_may(crowd):
    with patch.object(crowdcore.pairs, "_ROUND_PAIRS", 21):
        assert all(len(pairs.first) <= 21 for pairs in pair_rounds(labels_of(crowd)))


@given(CROWDS, CROWDS)
def test_which_pairs_are_kept_depends_on_the_task_alone(one, two):
    """Tasks of a crowd counted alone, or among others, give the same edges and the same number of sampled tasks."""
    names = [f"w{code}" for code in range(7)]
    together = labels_of(one | two)
    with patch.object(crowdcore.pairs, "MAX_PAIRS", 5):
        whole = EdgeCounts.of(together, names, "abc")
        parts = [
            EdgeCounts.of(
                labels_of({cell: label for cell, label in (one | two).items() if cell[0] == task}), names, "abc"
            )
            for task in range(5)
        ]
        assert EdgeCounts.sum(parts) == whole
    assert whole.n_sampled == int(np.sum(together.sizes * (together.sizes - 1) // 2 > 5))


def test_sampled_tasks_are_added_and_taken_away():
    names = [f"w{code}" for code in range(7)]
    with patch.object(crowdcore.pairs, "MAX_PAIRS", 10):
        edges = EdgeCounts.of(one_task(7), names, "a")
    assert ((edges + edges).n_sampled, (edges + edges - edges).n_sampled) == (2, 1)
    assert edges + edges - edges == edges


def test_threads_may_add_at_once():
    crowd = simulate_crowd(n_tasks=4000, n_workers=300, labels_per_task=5, rng=np.random.default_rng(2)).grouped()
    alone, together = tallied(*[crowd] * 16), PairTally()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(together.add, [crowd] * 16))
    assert as_dictionary(together) == as_dictionary(alone)


def test_threads_may_add_at_once_to_a_sparse_tally():
    crowd = simulate_crowd(n_tasks=4000, n_workers=300, labels_per_task=5, rng=np.random.default_rng(3)).grouped()
    alone, together = tallied(*[crowd] * 16), PairTally()
    with patch.multiple(crowdcore.pairs, _DENSE_WORKERS=0, _ROUND_PAIRS=50_000), ThreadPoolExecutor(8) as pool:
        list(pool.map(together.add, [crowd] * 16))
    assert as_dictionary(together) == as_dictionary(alone)


@given(CROWDS, st.permutations(range(7)), st.sampled_from([1, 3, 32]), st.sampled_from([0, 4096]))
def test_workers_may_be_listed_in_any_order(crowd, order, rows_at_once, dense_workers):
    with patch.multiple(crowdcore.pairs, _DENSE_WORKERS=dense_workers, _ROWS_AT_ONCE=rows_at_once):
        tally = tallied(labels_of(crowd))
        order = np.array([code for code in order if tally.by_worker(7)[0][code]], int)
        first, second, n_common, n_agree = tally.pairs(order)
    assert np.all(first < second)
    assert np.all(np.diff(first * 7 + second) > 0)
    pairs = (tuple(sorted(pair)) for pair in zip(order[first].tolist(), order[second].tolist(), strict=True))
    found = dict(zip(pairs, zip(n_common.tolist(), n_agree.tolist(), strict=True), strict=True))
    assert found == counted_plainly(crowd)


def test_pairs_that_come_to_nothing_are_left_out_in_whatever_order_their_workers_were_met():
    tally = PairTally()
    for workers, sign in (([0, 1], 1), ([1, 0], -1)):
        tally.add(TaskLabels(np.array([0, 2]), np.array(workers), np.array([0, 0]), 2, 1), sign)
    assert [len(column) for column in tally.pairs(np.array([0, 1]))] == [0, 0, 0, 0]

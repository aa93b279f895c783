"""Counts between nights: files give back what was put in, changes add up, few pairs are added as many are."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nights import plain
from test_segments import state_of, tasks

from crowdcore import edges as edges_module
from crowdcore import pairs
from crowdcore.edges import EdgeCounts
from crowdcore.labels import group_labels
from crowdcore.pairs import PairTally
from pipelines.ledger.counts_file import CountsChange, KeptCounts, changed_edges
from pipelines.parallel import mapped

WORKERS = [f"w{number}" for number in range(7)]
labels = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6), st.integers(0, 2)), max_size=25)


def edges_of(rows):
    """The counts of (task, worker, class)."""
    if not rows:
        return EdgeCounts.zero()
    grouped = group_labels(*zip(*rows, strict=True), n_tasks=6, n_workers=7, n_classes=3)
    return EdgeCounts.of(grouped.labels, WORKERS, ["a", "b", "c"])


@settings(max_examples=200)
@given(many=labels, few=labels, other=labels)
def test_few_pairs_are_added_as_many_are(many, few, other):
    """`_with_few` gives the general sum, or nothing where a worker comes or goes."""
    many, change = edges_of(many), edges_of(few) - edges_of(other)
    for sign in (1, -1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(edges_module, "_FEW", 1 << 40)  # the general sum always
            expected = EdgeCounts._combine([(many, 1), (change, sign)])
        if not many.n_edges:
            continue
        found = EdgeCounts._with_few(many, change, sign)
        if found is None:
            known = set(many.workers.tolist())
            sums = dict(zip(many.workers.tolist(), many.n_labels.tolist(), strict=True))
            for worker, n in zip(change.workers.tolist(), change.n_labels.tolist(), strict=True):
                sums[worker] = sums.get(worker, 0) + sign * n
            assert not set(change.workers.tolist()) <= known or 0 in sums.values()
        else:
            assert plain(found) == plain(expected)
            assert found == expected


def test_few_pairs_take_the_short_way():
    """A correction of one label among many pairs."""
    rows = [(task, worker, (task + worker) % 3) for task in range(6) for worker in range(7)]
    many, changed = edges_of(rows), edges_of([(0, 0, 1), (0, 1, 1)]) - edges_of([(0, 0, 0), (0, 1, 1)])
    assert EdgeCounts._with_few(many, changed, 1) is not None
    assert many + changed - changed == many


@given(rows=labels, skills=st.lists(st.floats(-1, 1), min_size=7, max_size=7))
def test_files_give_back_the_counts(tmp_path_factory, rows, skills):
    folder, edges = tmp_path_factory.getbasetemp(), edges_of(rows)
    skills = np.array(skills[: edges.n_workers])
    for name, content in zip(("pairs", "workers"), KeptCounts(edges, skills).to_files(), strict=True):
        (folder / name).write_bytes(content)
    found = KeptCounts.of_files(str(folder / "pairs"), str(folder / "workers"), edges.class_counts, edges.n_sampled)
    assert plain(found.edges) == plain(edges)
    assert found.edges == edges
    assert np.array_equal(found.skills, skills)


def test_counts_beyond_32_bits_and_skills_that_are_not_known_are_kept(tmp_path):
    big = 1 << 40
    one = np.array([0], np.int64)
    edges = EdgeCounts(
        np.array(["ann", "bob"], object), np.array([big, big]), np.array([0, big]), one, one + 1,
        np.array([big]), np.array([big - 1]), ("a",), 2, (2 * big,),
    )  # fmt: skip
    for name, content in zip("pw", KeptCounts(edges, np.array([np.nan, 0.5])).to_files(), strict=True):
        (tmp_path / name).write_bytes(content)
    found = KeptCounts.of_files(str(tmp_path / "p"), str(tmp_path / "w"), edges.class_counts, 2)
    assert plain(found.edges) == plain(edges)
    assert np.array_equal(found.skills, [np.nan, 0.5], equal_nan=True)


@settings(max_examples=40)
@given(before=tasks, after=tasks)
def test_a_change_is_what_is_there_now_less_what_was(before, after):
    """In either order, and added by threads at once."""
    change, separate = CountsChange(), [CountsChange(), CountsChange()]
    adding = [
        threading.Thread(target=change.add, args=(state_of(one), sign)) for one, sign in ((after, 1), (before, -1))
    ]
    for thread in adding:
        thread.start()
    for thread in adding:
        thread.join()
    for one, state in zip(separate, (after, before), strict=True):
        one.add(state_of(state))
    assert plain(change.total()) == plain(separate[0].total() - separate[1].total())


@settings(max_examples=60)
@given(before=labels, after=labels)
def test_changed_pairs_are_told_with_their_counts_of_now(before, after):
    old, new = edges_of(before), edges_of(after)
    now = {(a, b): (n, k) for a, b, n, k in plain(new)[1]}
    then = {(a, b): (n, k) for a, b, n, k in plain(old)[1]}
    found = {(a, b): (n, k) for a, b, n, k in plain(changed_edges(new - old, new))[1]}
    expected = {pair: now.get(pair, (0, 0)) for pair in now | then if now.get(pair) != then.get(pair)}
    assert found == expected


def test_a_tally_of_few_pairs_among_many_workers_stays_sparse():
    """A dense table of 4,000 workers takes 128 MB; a night of few labels must not."""
    tally = PairTally()
    for task in range(50):
        workers = np.array([task, 3999 - task])
        crowd = group_labels([0, 0], workers, [0, task % 2], n_tasks=1, n_workers=4000, n_classes=2)
        tally.add(crowd.labels)
    assert len(tally._dense) == 0
    first, second, n_common, n_agree = tally.pairs(np.arange(4000))
    assert (first.tolist(), second.tolist()) == (list(range(50)), [3999 - task for task in range(50)])
    assert (n_common.sum(), n_agree.sum()) == (50, 25)


@settings(max_examples=40)
@given(rounds=st.lists(labels.filter(bool), min_size=1, max_size=4), cells=st.sampled_from([1, 8, 1000]))
def test_dense_and_sparse_tallies_count_the_same(rounds, cells):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairs, "_CELLS_PER_PAIR", cells)
        tally = PairTally()
        for rows in rounds:
            tally.add(group_labels(*zip(*rows, strict=True), n_tasks=6, n_workers=7, n_classes=3).labels)
        n_labels, _ = tally.by_worker(7)
        order = np.flatnonzero(n_labels)
        names = np.array(WORKERS, object)[order]
        first, second, n_common, n_agree = tally.pairs(order)
        found = list(zip(names[first], names[second], n_common.tolist(), n_agree.tolist(), strict=True))
        assert found == plain(EdgeCounts.sum([edges_of(rows) for rows in rounds]))[1]


def test_work_in_threads_keeps_its_order_and_is_not_taken_far_ahead():
    taken = []

    def items():
        for number in range(500):
            taken.append(number)
            yield number

    results = mapped(lambda number: number * 2, items())
    assert [next(results) for _ in range(3)] == [0, 2, 4]
    assert len(taken) <= 3 + 8 * 2 + 1
    assert list(results) == [number * 2 for number in range(3, 500)]
    assert list(mapped(str, [])) == []


def test_what_goes_wrong_in_a_thread_is_told():
    def work(number):
        if number == 3:
            raise ValueError("three")
        return number

    with pytest.raises(ValueError, match="three"):
        list(mapped(work, range(10)))

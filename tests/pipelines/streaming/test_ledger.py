"""The ledger: changes add up, in any order, and can be taken away again."""

import numpy as np
import pytest
from histories import Event, block_of, cut, random_events, surviving
from test_label_table import edges_of

from crowdcore.edges import EdgeCounts
from crowdcore.pairs import MAX_PAIRS
from pipelines.streaming.label_table import LabelTable
from pipelines.streaming.ledger import Ledger, pack_change


def changes_of(pieces):
    table, changes = LabelTable(), []
    for piece in pieces:
        applied = table.apply(block_of(piece))
        changes.append(pack_change(table.change(applied), table.workers, table.classes, len(piece)))
    return changes


def ledger_of(changes, sign=1):
    ledger = Ledger()
    for change in changes:
        ledger.add(change, sign)
    return ledger


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_changes_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    events = random_events(rng, 300)
    changes = changes_of(cut(rng, events, 12))
    shuffled = [changes[place] for place in rng.permutation(len(changes))]
    assert ledger_of(shuffled).edges() == ledger_of(changes).edges() == edges_of(surviving(events))


def test_what_is_taken_away_leaves_what_was_before():
    rng = np.random.default_rng(1)
    events = random_events(rng, 300)
    changes = changes_of(cut(rng, events, 8))
    ledger = ledger_of(changes)
    for change in changes[4:]:
        ledger.add(change, -1)
    assert ledger.edges() == ledger_of(changes[:4]).edges()
    assert ledger.n_events == ledger_of(changes[:4]).n_events


def test_a_ledger_less_itself_is_empty():
    changes = changes_of([random_events(np.random.default_rng(2), 200)])
    ledger = ledger_of(changes)
    ledger.add(ledger.to_bytes(), -1)
    assert ledger.edges() == EdgeCounts.zero()
    assert ledger.n_events == 0


def test_counts_that_are_negative_for_a_while_add_up_in_the_end():
    first = [Event("t", "ann", "x", 1), Event("t", "bob", "x", 1)]
    correction, withdrawal = [Event("t", "bob", "y", 2)], [Event("t", "ann", "x", 3, deleted=True)]
    changes = changes_of([first, correction, withdrawal])
    backwards = Ledger()
    for change in reversed(changes):
        backwards.add(change)
        backwards.edges()
    assert backwards.edges() == edges_of(surviving([*first, *correction, *withdrawal]))


def test_the_frame_of_a_ledger_is_the_ledger():
    ledger = ledger_of(changes_of([random_events(np.random.default_rng(3), 300)]))
    again = Ledger()
    again.add(ledger.to_bytes())
    assert again.edges() == ledger.edges()
    assert again.n_events == ledger.n_events


def test_pairs_that_came_to_nothing_and_workers_without_labels_are_gone():
    first = [Event("t", name, "x", 1) for name in ("ann", "bob", "cem")]
    gone = [Event("t", "ann", "x", 2, deleted=True)]
    edges = ledger_of(changes_of([first, gone])).edges()
    assert edges.workers.tolist() == ["bob", "cem"]
    assert edges.n_edges == 1


def test_a_task_of_so_many_labels_that_its_pairs_are_sampled_counts_as_in_the_batch():
    rng = np.random.default_rng(4)
    n_workers = 1100
    assert n_workers * (n_workers - 1) // 2 > MAX_PAIRS
    events = [
        Event(task, f"w{worker}", str(rng.choice(["no", "yes"])), 1)
        for task in ("big", "small")
        for worker in rng.permutation(n_workers if task == "big" else 20).tolist()
    ]
    corrected = [Event("big", f"w{worker}", "no", 2) for worker in range(0, n_workers, 9)]
    withdrawn = [Event("big", f"w{worker}", "no", 3, deleted=True) for worker in range(0, n_workers, 11)]
    pieces = [*cut(rng, events, 5), corrected, withdrawn]
    changes = changes_of(pieces)
    ledger = ledger_of(changes[:-1])
    assert ledger.edges() == edges_of(surviving([e for piece in pieces[:-1] for e in piece]))
    assert ledger.edges().n_sampled == 1
    ledger.add(ledger.to_bytes(), -1)
    assert ledger.edges().n_sampled == 0
    fewer = surviving([e for piece in pieces for e in piece])
    assert sum(label.task == "big" for label in fewer) * (n_workers - 101) // 2 < MAX_PAIRS
    assert ledger_of(changes).edges() == edges_of(fewer), "below the bound again, every pair counts"


@pytest.mark.parametrize("seed", range(5))
def test_counts_are_possible_whichever_changes_are_still_on_their_way(seed):
    rng = np.random.default_rng(seed)
    events = random_events(rng, 300)
    changes, ledger = changes_of([[event] for event in events]), Ledger()
    for place in rng.permutation(len(changes)):
        ledger.add(changes[place])
        edges = ledger.edges()
        assert (edges.n_labels > 0).all()
        assert (edges.n_triples >= 0).all()
        assert (edges.n_common > 0).all()
        assert ((edges.n_agree >= 0) & (edges.n_agree <= edges.n_common)).all()
        assert (edges.first < edges.second).all()
        assert (np.array(edges.n_by_class) > 0).all()

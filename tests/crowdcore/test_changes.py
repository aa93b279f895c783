"""Changes of counts: what is added is the difference of the counts before and after, and little more is looked at."""

import numpy as np
import pytest

from crowdcore import changes
from crowdcore.changes import NONE, change_of
from crowdcore.edges import EdgeCounts
from crowdcore.labels import group_labels
from crowdcore.pairs import MAX_PAIRS

N_WORKERS = 1100
WORKERS = [f"w{number:04d}" for number in range(N_WORKERS)]


def counts_of(task, worker, label):
    """(workers, workers, 2) common tasks and agreements of the labels that hold."""
    there = label != NONE
    grouped = group_labels(task[there], worker[there], label[there], n_tasks=2, n_workers=N_WORKERS, n_classes=2)
    edges = EdgeCounts.of(grouped.labels, WORKERS, ["no", "yes"])
    code = np.array([int(name[1:]) for name in edges.workers])
    return added_up(code[edges.first], code[edges.second], edges.n_common, edges.n_agree)


def added_up(first, second, n_common, n_agree):
    table = np.zeros((N_WORKERS, N_WORKERS, 2), np.int64)
    np.add.at(table, (first, second), np.stack([n_common, n_agree], axis=1))
    return table


@pytest.fixture
def crowd():
    """A task whose pairs are sampled, and a small one: (labels,) task, worker, label."""
    task = np.repeat([0, 1], [N_WORKERS, 20])
    worker = np.concatenate([np.arange(N_WORKERS), np.arange(20)])
    return task, worker, np.random.default_rng(5).integers(0, 2, len(task))


@pytest.mark.parametrize("what", ["corrected", "withdrawn", "new"])
def test_a_change_of_a_task_of_sampled_pairs_is_the_difference_of_the_counts(crowd, what):
    task, worker, label = crowd
    before, after = label.copy(), label.copy()
    after[[300, -3]] = 1 - label[[300, -3]] if what == "corrected" else NONE
    if what == "new":
        before, after = after, before
    change = change_of(task, worker, before, after, n_workers=N_WORKERS, n_classes=2)
    found = added_up(change.first, change.second, change.n_common, change.n_agree)
    assert np.array_equal(found, counts_of(task, worker, after) - counts_of(task, worker, before))


def test_a_corrected_label_of_a_task_of_sampled_pairs_changes_only_pairs_of_its_worker(crowd):
    task, worker, before = crowd
    after = before.copy()
    after[300] = 1 - before[300]
    change = change_of(task, worker, before, after, n_workers=N_WORKERS, n_classes=2)
    assert np.all((change.first == 300) | (change.second == 300))
    assert len(change.first) == 2 * (MAX_PAIRS // N_WORKERS)  # a partner on either side at each distance


def test_not_every_pair_of_a_task_of_sampled_pairs_is_looked_at(crowd, monkeypatch):
    task, worker, before = crowd
    after = before.copy()
    after[[300, -3]] = 1 - before[[300, -3]]
    looked_at, changed_pairs = [], changes._changed_pairs

    def noted(task, *rest):
        looked_at.append(np.unique(task).tolist())
        return changed_pairs(task, *rest)

    monkeypatch.setattr(changes, "_changed_pairs", noted)
    change_of(task, worker, before, after, n_workers=N_WORKERS, n_classes=2)
    assert looked_at == [[1]]

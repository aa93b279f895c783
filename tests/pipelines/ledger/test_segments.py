"""Segments: what is packed is found again, whatever the ids look like and however their hashes fall together."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nights import texts

from pipelines.blocks import NO_TIME
from pipelines.ledger import segments
from pipelines.ledger.segments import Segment, all_states, find_states, pack_state, unshadowed
from pipelines.ledger.task_state import WITHDRAWN, TaskState, joined, rows_at

ids = st.text(st.characters(codec="utf-8"), max_size=6)
rows = st.tuples(
    st.sampled_from(["ann", "bob", "zoë"]), st.sampled_from([None, "a", "b"]), st.sampled_from([NO_TIME, 0, 7])
)
tasks = st.dictionaries(ids, st.lists(rows, min_size=1, max_size=4, unique_by=lambda row: row[0]), max_size=12)


def state_of(tasks, received=1, latest=5):
    """A state of {task: [(worker, label or None, time)]}; the codes are in an order of no meaning."""
    workers, classes = ["nobody", "zoë", "bob", "ann", "cem"], ["z", "b", "a"]
    flat = [row for rows in tasks.values() for row in rows]
    starts = np.cumsum([0, *map(len, tasks.values())])
    return TaskState(
        texts(list(tasks)),
        starts.astype(np.int64),
        np.full(len(tasks), latest) + np.arange(len(tasks)),
        np.array([workers.index(worker) for worker, *_ in flat], np.int64),
        texts(workers),
        np.array([WITHDRAWN if label is None else classes.index(label) for _, label, _ in flat], np.int64),
        texts(classes),
        np.array([time for *_, time in flat], np.int64),
        np.full(len(flat), received, np.int64) + (np.arange(len(flat)) % 2 if received > 1 else 0),
    )


def plain(state):
    """{task: (latest, [(worker, label or None, time, received)])} of a state."""
    workers, classes = state.workers.to_pylist(), state.classes.to_pylist()
    found = {}
    for place, task in enumerate(state.task.to_pylist()):
        here = range(state.starts[place], state.starts[place + 1])
        rows = [
            (
                workers[state.worker[row]],
                None if state.label[row] == WITHDRAWN else classes[state.label[row]],
                int(state.time[row]),
                int(state.received[row]),
            )
            for row in here
        ]
        found[task] = (int(state.latest[place]), sorted(rows))
    assert len(found) == len(state)
    return found


def segment_of(folder, state, name="segment"):
    path = folder / name
    path.write_bytes(pack_state(state))
    return Segment(str(path))


@pytest.fixture(params=[32, 3, 0])
def hash_bits(request, monkeypatch):
    """The real hash; one of few values; and the same for all."""
    whole = segments._hashes
    kept = np.uint32(((1 << request.param) - 1) << (32 - request.param))
    monkeypatch.setattr(segments, "_hashes", lambda tasks: whole(tasks) & kept)
    return request.param


@settings(max_examples=40)
@given(
    known=tasks,
    asked=st.lists(ids, max_size=6, unique=True),
    received=st.sampled_from([1, 2, 300]),
    bits=st.sampled_from([32, 2, 0]),
)
def test_what_is_packed_is_found_again(tmp_path_factory, known, asked, received, bits):
    with pytest.MonkeyPatch.context() as patch:
        whole, kept = segments._hashes, np.uint32(((1 << bits) - 1) << (32 - bits))
        patch.setattr(segments, "_hashes", lambda tasks: whole(tasks) & kept)
        state = state_of(known, received)
        segment = segment_of(tmp_path_factory.getbasetemp(), state)
        assert plain(segment.state()) == plain(state)
        assert (len(segment), segment.n_rows) == (len(known), state.n_rows)
        asked = list(dict.fromkeys([*asked, *list(known)[::2]]))
        places = segment.find(texts(asked))
        there = [task for task, place in zip(asked, places.tolist(), strict=True) if place >= 0]
        assert there == [task for task in asked if task in known]
        expected = {task: plain(state)[task] for task in there}
        assert plain(segment.state(places[places >= 0])) == expected


def test_many_tasks_are_found_among_many_buckets(tmp_path, hash_bits):
    known = {f"task-{number}" * (1 + number % 3): [("ann", "a", number)] for number in range(1000)}
    segment = segment_of(tmp_path, state_of(known))
    names = list(known)[::7] + [f"other-{number}" for number in range(50)]
    places = segment.find(texts(names))
    assert (places >= 0).tolist() == [name in known for name in names]
    found = plain(segment.state(places[places >= 0]))
    assert found == {name: plain(state_of(known))[name] for name in names if name in known}


def test_only_what_is_found_is_looked_at(tmp_path):
    known = {f"task-{number:05d}": [("ann", "a", number), ("bob", "b", number)] for number in range(5000)}
    size = len(pack_state(state_of(known)))
    segment = segment_of(tmp_path, state_of(known))
    find_states([segment], texts(["task-00007", "task-04000", "none"]))
    assert 5000 < segment.bytes_read < size / 3  # two bytes of a hash and the number of rows, a task
    whole = segment_of(tmp_path, state_of(known), "whole")
    whole.state()
    assert whole.bytes_read > size / 2


def test_a_newer_segment_goes_before_an_older_one(tmp_path, hash_bits):
    old = state_of({"t": [("ann", "a", 1)], "u": [("bob", "b", 1)], "": [("ann", None, 1)]})
    new = state_of({"u": [("ann", "a", 2), ("bob", None, 2)], "ü": [("bob", "b", 3)]}, latest=90)
    both = [segment_of(tmp_path, new, "new"), segment_of(tmp_path, old, "old")]
    expected = plain(old) | plain(new)
    assert plain(all_states(both)) == expected
    assert plain(find_states(both, texts(["u", "", "w"]))) == {task: expected[task] for task in ("u", "")}
    assert unshadowed(both[:1], texts(["t", "u", "ü", "w"])).tolist() == [True, False, False, True]


def test_tasks_are_found_by_their_latest_event(tmp_path):
    segment = segment_of(tmp_path, state_of({name: [("ann", "a", 1)] for name in "abcdef"}, latest=10))
    found = segment.state(segment.between(11, 14))
    assert sorted(found.task.to_pylist()) == ["b", "c", "d"]


def test_nothing_is_packed_and_found(tmp_path):
    segment = segment_of(tmp_path, TaskState.none())
    assert (len(segment), segment.find(texts(["t"])).tolist()) == (0, [-1])
    assert plain(segment.state()) == {}
    assert len(find_states([segment], texts(["t"]))) == 0
    assert segment.find(texts([])).tolist() == []


@given(parts=st.lists(tasks, max_size=3))
def test_states_of_different_tasks_are_joined(parts):
    named = [{f"{number}{task}": rows for task, rows in part.items()} for number, part in enumerate(parts)]
    states = [state_of(part, number + 1) for number, part in enumerate(named)]
    expected = {}
    for state in states:
        expected |= plain(state)
    assert plain(joined(states)) == expected


@given(known=tasks, data=st.data())
def test_tasks_and_rows_are_chosen(known, data):
    state = state_of(known)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(known), max_size=len(known))), bool)
    chosen = [task for task, there in zip(known, mask, strict=True) if there]
    assert plain(state.chosen(mask)) == {task: plain(state)[task] for task in chosen}
    places = np.flatnonzero(mask)[::-1]
    assert state.chosen(places).task.to_pylist() == chosen[::-1]
    assert plain(state.chosen(places)) == plain(state.chosen(mask))
    out = state.worker == 3  # ann
    expected = {
        task: (latest, [row for row in rows if row[0] != "ann"]) for task, (latest, rows) in plain(state).items()
    }
    assert plain(state.without_rows(out)) == expected


@given(known=tasks)
def test_labels_that_hold_are_those_that_are_not_withdrawn(known):
    state = state_of(known, received=2)
    labels, workers, classes = state.labels()
    assert classes.to_pylist() == sorted(classes.to_pylist())
    found = {
        (known_task, workers[int(labels.worker[row])].as_py(), classes[int(labels.label[row])].as_py())
        for place, known_task in enumerate(known)
        for row in range(labels.starts[place], labels.starts[place + 1])
    }
    assert found == {(task, worker, label) for task, rows in known.items() for worker, label, _ in rows if label}
    assert state.answered.tolist() == [any(label for _, label, _ in rows) for rows in known.values()]
    by_task = [sum(row[3] for row in rows) for _, rows in plain(state).values()]
    assert state.n_received.tolist() == by_task


@given(sizes=st.lists(st.integers(0, 4), max_size=6), begin=st.integers(0, 9))
def test_rows_of_runs_are_counted(sizes, begin):
    begins = np.arange(len(sizes), dtype=np.int64) * 5 + begin
    expected = [at + step for at, size in zip(begins.tolist(), sizes, strict=True) for step in range(size)]
    assert rows_at(begins, np.array(sizes, np.int64)).tolist() == expected

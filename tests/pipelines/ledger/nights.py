"""Nights of made-up events as files, what `crowdbeam nightly` makes of them, and what a batch of all of them makes."""

import csv
import itertools
import json
import os
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from command_line import run_command

from crowdcore.edges import EdgeCounts
from crowdcore.labels import group_labels
from crowdcore.simulate import simulate_crowd
from pipelines.ledger.folder import LedgerFolder
from pipelines.ledger.night import OpenLedger
from pipelines.ledger.segments import all_states
from pipelines.locking import LOCK
from pipelines.run_tables import read_table

DAY_US = 86_400_000_000
BEGIN_US = 1_750_000_000_000_000
_SCORE_NUMBERS = ("probability", "margin", "score")


def write_events(path, events):
    """A CSV file of (task, worker, label, time): without a label a withdrawal, without a time at no known time."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["task", "worker", "label", "time", "op"])
        for task, worker, label, time in events:
            out.writerow([task, worker, label or "", "" if time is None else time, "" if label else "delete"])
    return path


def write_gold(path, answers):
    """A CSV file of (task, label)."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("task", "label"), *answers])
    return path


def crowd_nights(n_nights, *, n_tasks=300, n_workers=20, labels_per_task=5, n_classes=3, seed=7):
    """Events by night: labels, most on their task's night; corrections, withdrawals, late ones and duplicates."""
    rng = np.random.default_rng(seed)
    crowd = simulate_crowd(
        n_tasks=n_tasks, n_workers=n_workers, labels_per_task=labels_per_task, n_classes=n_classes, rng=rng
    )
    nights = [[] for _ in range(n_nights)]
    born = rng.integers(0, n_nights, n_tasks)
    for task, worker, label in zip(crowd.task.tolist(), crowd.worker.tolist(), crowd.label.tolist(), strict=True):
        night = min(n_nights - 1, int(born[task]) + int(rng.choice([0, 0, 0, 1, 4])))
        time = BEGIN_US + int(born[task]) * DAY_US + int(rng.integers(0, DAY_US))
        event = (f"task-{task:04d}", f"worker-{worker:03d}", f"c{label}", time)
        nights[night].append(event)
        kind, later = rng.random(), min(n_nights - 1, night + int(rng.integers(0, 5)))
        if kind < 0.08:  # corrected, or by a late event that is older and changes nothing
            time += int(rng.integers(-DAY_US, DAY_US))
            nights[later].append((*event[:2], f"c{rng.integers(n_classes)}", time))
        elif kind < 0.14:  # withdrawn
            nights[later].append((*event[:2], None, time + int(rng.integers(0, DAY_US))))
            if kind < 0.10:  # and given again
                nights[min(n_nights - 1, later + 1)].append((*event[:2], f"c{rng.integers(n_classes)}", time + DAY_US))
        elif kind < 0.22:  # sent twice
            nights[later].append(event)
    for worker in ("worker-000", "worker-001") if n_nights > 1 else ():  # a task that loses its answer
        nights[0].append(("task-gone", worker, "c1", BEGIN_US))
        nights[n_nights // 2].append(("task-gone", worker, None, BEGIN_US + 1))
    return nights


def write_nights(folder, nights, files_a_night=2):
    """The files of each night."""
    Path(folder).mkdir(exist_ok=True)
    written = []
    for number, events in enumerate(nights, 1):
        cuts = np.linspace(0, len(events), files_a_night + 1).astype(int).tolist()
        parts = [events[low:high] for low, high in itertools.pairwise(cuts)]
        written.append(
            [str(write_events(f"{folder}/n{number:02d}-{k}.csv", part)) for k, part in enumerate(parts) if part]
        )
    return written


def nightly(ledger, files, *options, code=0):
    """Runs a night in this process; gives what --json prints."""
    run = run_command("nightly", *files, "--ledger", ledger, "--json", *options)
    assert run.code == code, (run.code, run.err)
    return json.loads(run.out) if run.out else run


def ledger_command(action, ledger, *options, code=0):
    """Runs `crowdbeam ledger`; gives what --json prints, or the run when it fails."""
    run = run_command("ledger", action, ledger, "--json", *options)
    assert run.code == code, (run.code, run.err)
    return run if code else json.loads(run.out)


def aggregate(output, files, *options):
    """Runs the batch of all files."""
    run = run_command("aggregate", *files, "--output", output, *options, folder=output)
    assert run.code in (0, 3), run.err
    return run


def state_of(ledger):
    """What the version that holds knows, in plain values that do not depend on how it is kept."""
    folder = LedgerFolder(str(ledger))
    version = folder.existing()
    opened, rows = OpenLedger(folder, version), {}
    for number in range(version.shards):
        state = all_states(opened.segments(number))
        workers, classes, tasks = state.workers.to_pylist(), state.classes.to_pylist(), state.task.to_pylist()
        columns = (state.row_task, state.worker, state.label, state.time, state.received)
        for task, worker, label, time, received in zip(*(one.tolist() for one in columns), strict=True):
            rows[tasks[task], workers[worker]] = (None if label < 0 else classes[label], time, received)
    return {
        "rows": rows,
        "edges": edges_of(ledger),
        "n_tasks": version.n_tasks,
        "classes": dict(version.classes),
        "n_sampled": version.n_sampled,
    }


def latest_of(ledger):
    """{task: time of its latest event} of the version that holds."""
    folder = LedgerFolder(str(ledger))
    opened, found = OpenLedger(folder, folder.existing()), {}
    for number in range(folder.existing().shards):
        state = all_states(opened.segments(number))
        found |= dict(zip(state.task.to_pylist(), state.latest.tolist(), strict=True))
    return found


def edges_of(ledger):
    """The counts that the version that holds keeps, in plain values."""
    folder = LedgerFolder(str(ledger))
    return plain(OpenLedger(folder, folder.existing()).counts().edges)


def plain(edges):
    """Counts as values that == compares."""
    pairs = zip(*(one.tolist() for one in (edges.first, edges.second, edges.n_common, edges.n_agree)), strict=True)
    return (
        list(zip(edges.workers.tolist(), edges.n_labels.tolist(), edges.n_triples.tolist(), strict=True)),
        [(edges.workers[a], edges.workers[b], n, k) for a, b, n, k in pairs],
        edges.class_counts,
        edges.n_sampled,
    )


def rows_of(folder, table, key):
    """{key: row} of a table of a run."""
    found = read_table(str(folder), table).to_pylist(maps_as_pydicts="strict")
    return {(row[key] if isinstance(key, str) else tuple(row[one] for one in key)): row for row in found}


def warehouse_rows(path, table, key, keep=()):
    """{key: row} of a table of a DuckDB file, without what tells the run, but for columns to `keep`."""
    with duckdb.connect(str(path), read_only=True) as connection:
        found = connection.table(table).to_arrow_table().to_pylist(maps_as_pydicts="strict")
    rows = [{name: row[name] for name in row if name in keep or name not in ("run_id", "version")} for row in found]
    keyed = {(row[key] if isinstance(key, str) else tuple(row[one] for one in key)): row for row in rows}
    assert len(keyed) == len(rows)
    return keyed


def run_of(ledger):
    """The run folder of the version that holds."""
    folder = LedgerFolder(str(ledger))
    return folder.at(folder.existing().run)


def assert_same_scores(found, expected):
    """Answers are the same: classes, counts and statuses to the letter, numbers to what skills within 1e-6 allow."""
    assert found.keys() == expected.keys()
    for task, row in expected.items():
        mine = found[task]
        for name, value in row.items():
            if name in _SCORE_NUMBERS:
                assert np.isclose(mine[name], value, rtol=1e-4, atol=1e-5), (task, name, mine, row)
            elif name != "probabilities":
                assert mine[name] == value, (task, name, mine, row)


def assert_same_skills(found, expected):
    """Skills are the same within 1e-6, and all else that is said of workers."""
    assert found.keys() == expected.keys()
    for worker, row in expected.items():
        mine = found[worker]
        assert abs(mine["skill"] - row["skill"]) <= 1e-6, (worker, mine, row)
        for name in ("n_labels", "n_peers", "component", "status"):
            assert mine[name] == row[name], (worker, name, mine, row)


def assert_same_run(found, expected):
    """Two whole runs hold the same edges, skills, graph and answers."""
    pair = ("worker_a", "worker_b")
    assert rows_of(found, "edges", pair) == rows_of(expected, "edges", pair)
    assert_same_skills(rows_of(found, "skills", "worker"), rows_of(expected, "skills", "worker"))
    assert_same_scores(rows_of(found, "scores", "task"), rows_of(expected, "scores", "task"))
    graphs = [rows_of(one, "graph", "component") for one in (found, expected)]
    assert graphs[0].keys() == graphs[1].keys()
    assert [(row["n_workers"], row["n_edges"], row["verdict"]) for row in graphs[0].values()] == [
        (row["n_workers"], row["n_edges"], row["verdict"]) for row in graphs[1].values()
    ]


def bytes_of(folder):
    """{path: content} of all files of a folder, but for the lock, which holds a process id."""
    found = {}
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            if os.path.relpath(path, folder) != LOCK:
                found[os.path.relpath(path, folder)] = Path(path).read_bytes()
    return found


def last_events(events):
    """{(task, worker): (label or None, time)}: the latest by time holds, then the one that comes later."""
    held, received = {}, {}
    for task, worker, label, time in events:
        key, moment = (task, worker), -(1 << 63) if time is None else time
        received[key] = received.get(key, 0) + (label is not None)
        if key not in held or moment >= held[key][1]:
            held[key] = (label, moment)
    return {key: (label, moment, received[key]) for key, (label, moment) in held.items()}


def counted(events):
    """The counts of the labels that hold, by crowdcore alone."""
    rows = [(task, worker, label) for (task, worker), (label, *_) in last_events(events).items() if label is not None]
    if not rows:
        return plain(EdgeCounts.zero())
    names, codes = zip(
        *(np.unique(np.array(column, object), return_inverse=True) for column in zip(*rows, strict=True)), strict=True
    )
    sizes = [len(one) for one in names]
    labels = group_labels(*codes, n_tasks=sizes[0], n_workers=sizes[1], n_classes=sizes[2]).labels
    return plain(EdgeCounts.of(labels, names[1], names[2]))


def texts(values):
    """An Arrow array of ids."""
    return pa.array(values, pa.large_string())

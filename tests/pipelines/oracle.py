"""The same job done by crowdcore alone, in memory: what every road must give, to the last bit."""

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from crowdcore.edges import EdgeCounts
from crowdcore.labels import group_labels
from crowdcore.pgd import fit_skills
from crowdcore.scores import score_tasks, vote_weights
from crowdcore.uncertainty import skill_intervals


def encoded(texts):
    """Codes, and the sorted names they stand for."""
    names, codes = np.unique(np.array(texts, object), return_inverse=True)
    return names, codes


def surviving(rows):
    """The labels that no later row of the same task and worker withdraws."""
    gone = {}
    for task, worker, label, time in rows:
        if label is None:
            gone[task, worker] = max(time, gone.get((task, worker), time))
    return [row for row in rows if row[2] is not None and not row[3] <= gone.get(row[:2], row[3] - 1)]


def aggregated(rows, gold=(), weights="identity", multiclass="one-coin"):
    """{task: (label, probability, margin, score)} and {worker: (skill, low, high)} of (task, worker, label, time).

    A label that is None withdraws one.
    """
    rows = surviving([*rows, *((task, "", label, 0) for task, label in gold)])
    task, worker, label, time = zip(*rows, strict=True)
    tasks, t = encoded(task)
    workers, w = encoded(worker)
    classes, y = encoded(label)
    labels = group_labels(
        t, w, y, n_tasks=len(tasks), n_workers=len(workers), n_classes=len(classes), time=np.array(time, np.int64)
    ).labels
    edges = EdgeCounts.of(labels, workers, classes)
    fit = fit_skills(edges, n_classes=len(classes), weights=weights, rng=np.random.default_rng(0))
    low, high = skill_intervals(edges, fit, confidence=0.9)
    known = fit.workers == ""
    votes = vote_weights(np.where(known, 0.0, fit.skills), fit.bounds, len(classes), multiclass)
    found = score_tasks(
        labels,
        votes,
        n_classes=len(classes),
        rule=multiclass,
        gold=int(np.flatnonzero(known)[0]) if known.any() else -1,
    )
    labelled = {task for task, worker, *_ in rows if worker}
    scores = {
        tasks[k]: (classes[found.answer[k]], found.probability[k], found.margin[k], found.score[k])
        for k in range(len(tasks))
        if tasks[k] in labelled
    }
    skills = {name: (fit.skills[k], low[k], high[k]) for k, name in enumerate(fit.workers) if name}
    return scores, skills


def table(folder, name):
    """One table of a run folder, sorted by its first two columns."""
    found = ds.dataset(f"{folder}/{name}").to_table()
    keys = [
        (column, "ascending")
        for column in found.column_names[:2]
        if pa.types.is_string(found.schema.field(column).type)
    ]
    return found.sort_by(keys or [(found.column_names[0], "ascending")])


def checksum(folder, name):
    """A checksum of a table's sorted rows, every bit of its numbers included."""
    text = "\n".join(repr(sorted(row.items())) for row in table(folder, name).to_pylist())
    return hashlib.sha256(text.encode()).hexdigest()

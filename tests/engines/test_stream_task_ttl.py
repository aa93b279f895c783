"""Tasks close on a real engine: a backlog of a day, from several partitions and readers, loses nothing."""

import numpy as np
import pytest
from stream_runs import START_US, Events, StreamRun, assert_equal_answers, batch_of, produce, topic_rows

HOUR_US = 3_600_000_000
N_TASKS, EACH = 3000, 3


def a_day():
    """Tasks all over a day, whose labels come within two minutes; in order of time."""
    task = np.repeat(np.arange(N_TASKS), EACH)
    turn = np.tile(np.arange(EACH), N_TASKS)
    worker = (task + turn) % 9
    label = (task + (worker == 2)) % 2
    time_us = START_US + task * 24 * HOUR_US // N_TASKS + turn * 60_000_000
    return Events(task, worker, label, time_us, np.zeros(len(task), bool))


@pytest.mark.parametrize("readers", [1, 2])
def test_a_backlog_of_many_ttls_is_read_without_a_late_label(kafka, prism, tmp_path, readers):
    events = a_day()
    topic, out = f"a-day-{readers}", f"kafka://{kafka.bootstrap}/out-day-{readers}"
    kafka.create_topic(topic, 4)
    produce(kafka.bootstrap, topic, events)
    words = ["--source", f"kafka://{kafka.bootstrap}/{topic}", "--sink", out, "--readers", readers]
    with StreamRun([*words, "--task-ttl", "1h", *prism.beam_args(streaming=True)], tmp_path / "control") as run:
        status = run.settle(len(events))
        assert (status["events"], status["counts"]["events_rejected"]) == (len(events), 0)
        assert run.drain() == 0
    rows = topic_rows(kafka.bootstrap, f"out-day-{readers}", "scores")
    _, skills, scores = batch_of(events)
    assert rows.keys() == scores.keys()
    n_closed = sum(row["closed"] for row in rows.values())
    assert N_TASKS * 22 // 24 < n_closed < N_TASKS * 23.5 / 24
    found = topic_rows(kafka.bootstrap, f"out-day-{readers}", "skills")
    assert {worker: row["skill"] for worker, row in found.items()} == pytest.approx(
        {worker: row["skill"] for worker, row in skills.items()}, abs=1e-6
    )
    assert_equal_answers(
        {task: row for task, row in rows.items() if not row["closed"]},
        {task: scores[task] for task, row in rows.items() if not row["closed"]},
    )

"""On real engines the stream ends with the batch's numbers: 200,000 events, some repeated, corrected, withdrawn."""

import pytest
from fault_runs import assert_same_edges
from stream_runs import (
    StreamRun,
    assert_equal_answers,
    batch_of,
    make_events,
    produce,
    topic_rows,
    wait_for_answers,
)

N_EVENTS = 200_000


@pytest.fixture(scope="module")
def history():
    events = make_events(N_EVENTS)
    return events, batch_of(events)


@pytest.mark.parametrize("engine", ["prism", "flink"])
def test_the_stream_ends_with_the_numbers_of_the_batch(engine, request, kafka, history, tmp_path):
    events, (edges, skills, scores) = history
    runner = request.getfixturevalue(engine)
    topic = f"labels-{engine}"
    kafka.create_topic(topic, 4)
    produce(kafka.bootstrap, topic, events)
    words = ["--source", f"kafka://{kafka.bootstrap}/{topic}", "--sink", f"kafka://{kafka.bootstrap}/out-{engine}"]
    run = StreamRun([*words, *runner.beam_args(streaming=True)], tmp_path / "control")
    with run:
        status = run.settle(len(events))
        assert status["events"] == len(events)
        assert status["graph"]["edges"] == edges.n_edges
        rows = wait_for_answers(lambda: topic_rows(kafka.bootstrap, f"out-{engine}", "scores"), scores)
        assert_equal_answers(rows, scores)
        found = topic_rows(kafka.bootstrap, f"out-{engine}", "skills")
        assert {worker: row["skill"] for worker, row in found.items()} == pytest.approx(
            {worker: row["skill"] for worker, row in skills.items()}, abs=1e-6
        )
        assert_same_edges(run, edges, tmp_path / "snapshot")
        assert run.drain() == 0
    if engine == "flink":
        runner.rest.cancel_all()

"""A stream that has accepted no event ends in order: nothing came, or all of it went to the rejects."""

import time

import pytest
from stream_runs import StreamRun, make_events, produce

from pipelines.sinks.interval_files import read_intervals

PROMPT_S = 30.0
SUMMARY = "Nothing was answered: everything read was rejected, {:,} in all, of which {:,} as {}.\n"


def ended(prism, tmp_path, source, *more, n_read=0):
    """What a stream says when it has read so many events and is asked to end: exit code, words and seconds."""
    words = ["--source", source, "--sink", tmp_path / "out", *more, f"--prism_location={prism.binary}"]
    with StreamRun(words, tmp_path / "control") as run:
        run.wait(lambda status: status["counts"].get("events_read", 0) >= n_read, f"{n_read} events read")
        asked = time.monotonic()
        code = run.drain(200)
        return code, run.output.read_text("utf-8"), time.monotonic() - asked


def test_a_stream_that_has_read_nothing_ends_at_once(prism, tmp_path):
    (tmp_path / "in").mkdir()
    code, out, seconds = ended(prism, tmp_path, tmp_path / "in")
    assert (code, out) == (0, "0 events read and answered; model 0.\n")
    assert seconds < PROMPT_S


@pytest.mark.parametrize("own", [False, True])
def test_a_stream_whose_events_were_all_rejected_ends_at_once_and_says_why(own, prism, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("task,worker,label\nt1,,a\nt2,,b\n", "utf-8")
    more = ["--rejects", tmp_path / "rejects"] if own else []
    code, out, seconds = ended(prism, tmp_path, tmp_path / "in", *more, n_read=2)
    assert (code, out) == (0, SUMMARY.format(2, 2, "missing-worker"))
    assert seconds < PROMPT_S
    rejects = read_intervals(str(tmp_path / ("rejects" if own else "out")), "rejects")
    assert rejects["reason"].to_pylist() == ["missing-worker"] * 2


def test_a_topic_whose_columns_are_called_otherwise_is_told_of_at_the_end(prism, kafka, tmp_path):
    kafka.create_topic("called-otherwise", 2)
    events = make_events(1000)
    produce(kafka.bootstrap, "called-otherwise", events)
    source = f"kafka://{kafka.bootstrap}/called-otherwise"
    code, out, seconds = ended(prism, tmp_path, source, "--columns", "task=item", n_read=len(events))
    assert (code, out) == (0, SUMMARY.format(len(events), len(events), "missing-task"))
    assert seconds < PROMPT_S

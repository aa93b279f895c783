"""Rows that wait for the end of their interval: which do, how long, and what is confirmed at once."""

from apache_beam.transforms.window import GlobalWindow
from memory_files import FILES
from sink_rows import component, components, score, scores
from test_sink_intervals import Cell, Writer, files, manifest, read

from pipelines.sinks import RECEIPT, WRITTEN
from pipelines.sinks.interval_files import finished_intervals
from pipelines.tables import to_bytes


def test_an_interval_holds_the_rows_that_came_since_the_last_one_and_no_others(tmp_path):
    writer = Writer(tmp_path)
    for number in range(3):
        writer.scores(score(f"t{number}"))
        writer.pass_interval()
        assert (manifest(tmp_path, number)["files"][0]["rows"], writer.state.bag) == (1, [])


def test_rows_that_nothing_follows_are_written_at_the_end_of_their_window(tmp_path):
    writer = Writer(tmp_path)
    writer.scores(score("a"))
    assert writer.end.at == GlobalWindow().max_timestamp()
    list(writer.fn.write_rest(writer.state, Cell(writer.state)))
    assert read(tmp_path) == [score("a")]


def test_a_table_without_rows_is_confirmed_at_once(tmp_path):
    empty = scores().replace_schema_metadata({RECEIPT: "7"})
    assert Writer(tmp_path).take("scores", to_bytes(empty)) == [(WRITTEN, b"7")]
    assert files(tmp_path) == []


def test_rows_that_follow_a_drain_within_a_minute_are_written_soon(tmp_path):
    writer = Writer(tmp_path)
    writer.take("drained")
    for passed, waits in ((59, 1), (2, 60)):
        writer.now += passed
        writer.scores(score("a"))
        assert writer.state.due_at == writer.now + waits
        writer.pass_interval()
        writer.now -= waits


def test_the_manifest_tells_the_lowest_and_the_highest_revision_of_all_tables(tmp_path):
    writer = Writer(tmp_path)
    writer.scores(score("a", revision=5), score("b", revision=6))
    writer.take("graph", to_bytes(components(component(0, revision=2))))
    writer.take("drained")
    found = manifest(tmp_path)
    assert (found["revision_low"], found["revision_high"]) == (2, 6)


def test_finished_intervals_come_in_the_order_of_their_numbers():
    for number in (1_000_000, 999_999, 7):
        FILES[f"memory://numbers/manifests/{number:06d}.json"] = b"{}"
    assert finished_intervals("memory://numbers") == [7, 999_999, 1_000_000]

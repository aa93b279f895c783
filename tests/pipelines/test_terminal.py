"""What a person sees: aligned text, tables on a terminal, and a line of progress."""

import io

import pytest
from rich.cells import cell_len

from pipelines import terminal
from pipelines.terminal import (
    WIDTH,
    Facts,
    Grid,
    Notes,
    ProgressLine,
    StreamLine,
    plain,
    show_blocks,
    show_progress,
    shown,
    stage_of,
    stream_summary,
)


class Terminal(io.StringIO):
    """A text stream that is a terminal."""

    def isatty(self):
        return True


class Clock:
    """A clock that the test owns."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_columns_are_aligned_also_where_characters_are_wide():
    text = plain(
        [Grid("Workers", ("worker", "status", "skill"), (("日本", "ok", "0.5"), ("w", "saturated", "-0.25")), 2)]
    )
    assert text.splitlines() == [
        "Workers",
        "  worker  status     skill",
        "  日本    ok           0.5",
        "  w       saturated  -0.25",
    ]


def test_sentences_are_wrapped_at_80_columns():
    text = plain([Notes("Graph", ("word " * 60,))])
    assert max(map(len, text.splitlines())) <= WIDTH
    assert text.split().count("word") == 60


@pytest.mark.parametrize(
    "worker", ["\x1b[31mred", "line\nbreak", "tab\there", "[bold]markup[/bold]", "é" * 500, "🙂" * 99]
)
def test_ids_stand_on_one_line_and_a_terminal_obeys_nothing_in_them(worker):
    text = shown(worker, 20)
    assert text.isprintable()
    assert cell_len(text) <= 20


def test_a_terminal_gets_tables_of_the_same_content(monkeypatch):
    blocks = [
        Facts("Labels", (("read", "[red]7"),)),
        Grid("", ("class", "f1"), (("[b]yes", "0.5"),)),
        Notes("", ("Done.",)),
    ]
    screen = Terminal()
    monkeypatch.setattr(terminal.sys, "stdout", screen)
    show_blocks(blocks)
    assert all(word in screen.getvalue() for word in ("Labels", "[red]7", "class", "[b]yes", "0.5", "Done."))
    assert screen.getvalue() != plain(blocks) + "\n"


def test_progress_tells_stage_labels_rate_and_time():
    clock, done = Clock(), {}
    line = ProgressLine(lambda: done, clock=clock)
    assert line.text() == "read  0 s"
    done["read"], clock.now = 3000, 102.0
    assert line.text() == "read  3,000 labels  1,500 labels/s  2 s"
    done["count agreements"], clock.now = 1000, 104.0
    assert line.text() == "count agreements  1,000 labels  4 s"
    clock.now = 105.0
    assert line.text() == "count agreements  1,000 labels  1,000 labels/s  5 s"
    done["solve"] = 0
    assert line.text() == "solve  5 s"


def test_a_run_writes_once_every_counted_label_is_scored():
    counted = {"read": 9, "count agreements": 8, "solve": 0}
    assert stage_of(counted) == "solve"
    assert stage_of({**counted, "score": 7}) == "score"
    assert stage_of({**counted, "score": 8}) == "write"


def test_progress_of_a_runner_elsewhere_names_it():
    clock = Clock()
    line = ProgressLine(dict, "FlinkRunner", clock)
    clock.now += 61
    assert line.text() == "running on FlinkRunner  61 s"


@pytest.mark.parametrize(
    ("stream", "wanted", "expected"), [(Terminal, True, True), (Terminal, False, False), (io.StringIO, True, False)]
)
def test_progress_is_shown_on_a_terminal_only_and_only_if_wanted(stream, wanted, expected, monkeypatch):
    screen = stream()
    monkeypatch.setattr(terminal.sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with show_progress(ProgressLine(dict), wanted):
        pass
    assert ("read" in screen.getvalue()) == expected


@pytest.mark.parametrize("status", [None, {}])
def test_a_stream_that_has_read_nothing_yet_is_starting(status):
    line = StreamLine(clock=lambda: 7.0)
    line.see(status)
    assert line.text() == "starting  0 s"


def test_a_stream_says_why_when_everything_it_read_was_rejected():
    counts = {
        "events_read": 5,
        "events_rejected": 5,
        "events_rejected.missing-task": 3,
        "events_rejected.missing-op": 2,
    }
    status = {"events": 0, "lag": {}, "model_version": 0, "counts": counts}
    line = StreamLine(clock=lambda: 7.0)
    line.see(status)
    assert line.text() == "0 events  0 waiting  model 0  all 5 rejected: missing-task  0 s"
    assert stream_summary(status) == (
        "Nothing was answered: everything read was rejected, 5 in all, of which 3 as missing-task."
    )

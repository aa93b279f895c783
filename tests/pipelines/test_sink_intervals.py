"""Files of intervals: the writer by itself, with a state and a clock of the test; then on runners."""

import hashlib
import json
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.metrics.metric import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import GlobalWindow
from sink_rows import HARD_IDS, component, components, reject, rejects, score, scores

from pipelines.errors import InputError, InvalidSettingError, RunError
from pipelines.sinks import interval_files
from pipelines.sinks.folder import IntervalFolder
from pipelines.sinks.interval_files import read_intervals
from pipelines.sinks.intervals import WriteIntervals, _WriteIntervalsFn
from pipelines.tables import to_bytes


class State:
    """What Beam keeps for the one key; `copy` is a checkpoint."""

    def __init__(self, bag=(), cell=None):
        self.bag, self.cell = list(bag), cell
        self.due_at = None

    def copy(self):
        return State(self.bag, self.cell)

    def add(self, value):
        self.bag.append(value)

    def clear(self):
        self.bag.clear()

    def read(self):
        return list(self.bag)


class Cell:
    def __init__(self, state):
        self._state = state

    def read(self):
        return self._state.cell

    def write(self, value):
        self._state.cell = value


class Timer:
    def __init__(self, state):
        self._state = state

    def set(self, at):
        self.at, self._state.due_at = at, float(at)

    def clear(self):
        self._state.due_at = None


class Writer:
    """The writer's DoFn, called as Beam calls it."""

    def __init__(self, folder, kind="parquet", state=None, patience_s=60.0, every_s=60.0):
        self.now = 1000.0
        self.state = state or State()
        self.end = Timer(State())
        self.fn = _WriteIntervalsFn(
            IntervalFolder(str(folder)),
            WriteIntervals(str(folder), every_s, kind, lambda: self.now, patience_s),
        )

    def take(self, name, data=b""):
        cell, timer = Cell(self.state), Timer(self.state)
        return list(self.fn.process((0, (name, data)), GlobalWindow(), self.state, cell, timer, self.end))

    def scores(self, *rows):
        return self.take("scores", to_bytes(scores(*rows)))

    def pass_interval(self):
        self.now = self.state.due_at
        self.state.due_at = None
        list(self.fn.write_due(self.state, Cell(self.state)))


def manifest(folder, number=0):
    return json.loads((Path(folder) / "manifests" / f"{number:06d}.json").read_text())


def files(folder):
    return sorted(str(one.relative_to(folder)) for one in Path(folder).rglob("*") if one.is_file())


def read(folder, name="scores"):
    return read_intervals(str(folder), name).to_pylist(maps_as_pydicts="strict")


def test_rows_wait_for_the_end_of_the_interval_and_are_written_with_a_manifest(tmp_path):
    writer = Writer(tmp_path)
    writer.scores(score("a", revision=7, model_version=3))
    writer.now = 1020.0
    writer.scores(score("b", revision=9, model_version=4))
    writer.take("rejects", to_bytes(rejects(reject(1), reject(2), reject(3, reason="empty-task"))))
    assert files(tmp_path) == []
    assert writer.state.due_at == 1060.0
    writer.pass_interval()
    assert files(tmp_path) == ["manifests/000000.json", "rejects/part-000000.parquet", "scores/part-000000.parquet"]
    found = manifest(tmp_path)
    data = (tmp_path / "scores/part-000000.parquet").read_bytes()
    assert found.pop("files")[1] == {
        "table": "scores",
        "path": "scores/part-000000.parquet",
        "rows": 2,
        "size_bytes": len(data),
        "checksum": f"sha256:{hashlib.sha256(data).hexdigest()}",
    }
    assert found == {
        "format_version": 1,
        "interval": 0,
        "from_us": 1_000_000_000,
        "to_us": 1_060_000_000,
        "model_version": 4,
        "revision_low": 7,
        "revision_high": 9,
        "rejects": {"empty-task": 1, "not-json": 2},
    }


def test_intervals_follow_each_other_and_empty_ones_are_left_out(tmp_path):
    writer = Writer(tmp_path)
    writer.take("scores", to_bytes(scores()))
    assert writer.state.due_at is None
    for number in range(3):
        writer.scores(score("t", revision=number))
        writer.pass_interval()
    writer.take("drained")
    assert [one for one in files(tmp_path) if "manifest" in one] == [f"manifests/00000{n}.json" for n in range(3)]
    assert read(tmp_path) == [score("t", revision=2)]


def test_a_drain_writes_at_once_and_is_passed_on(tmp_path):
    writer = Writer(tmp_path)
    writer.scores(score("a"))
    assert writer.take("drained", b"x") == [("drained", b"x")]
    assert writer.state.due_at is None
    assert read(tmp_path) == [score("a")]
    assert writer.take("drained", b"x") == [("drained", b"x")]
    assert len(files(tmp_path)) == 2


def test_rows_that_are_many_do_not_wait(tmp_path, monkeypatch):
    monkeypatch.setattr("pipelines.sinks.intervals.MOST_BYTES", 4000)
    writer = Writer(tmp_path)
    for number in range(10):
        writer.scores(score(f"t{number}"))
    assert len(read(tmp_path)) >= 2
    writer.take("drained")
    assert len(read(tmp_path)) == 10


@pytest.mark.parametrize("kind", ["parquet", "avro", "csv", "jsonl"])
def test_rows_come_back_as_they_were_in_every_format(tmp_path, kind):
    writer = Writer(tmp_path, kind)
    rows = [score(one, label=one, probabilities={one: 0.125, "x": 0.5}) for one in HARD_IDS] + [score("plain")]
    writer.scores(*rows)
    writer.take("graph", to_bytes(components(component(1, sigma_min=None), component(2, sigma_min=0.1))))
    writer.take("drained")
    assert read(tmp_path) == sorted(rows, key=lambda row: row["task"].encode())
    assert [row["sigma_min"] for row in read(tmp_path, "graph")] == [None, 0.1]
    assert read(tmp_path, "skills") == []


def test_of_the_graph_the_rows_of_the_newest_verdict_hold_together(tmp_path):
    writer = Writer(tmp_path)
    for rows in ([component(0, revision=5), component(1, revision=5)], [component(0, revision=6)]):
        writer.take("graph", to_bytes(components(*rows)))
        writer.take("drained")
    assert [(row["component"], row["revision"]) for row in read(tmp_path, "graph")] == [(0, 6)]


def test_older_rows_in_later_intervals_change_nothing(tmp_path):
    writer = Writer(tmp_path)
    writer.scores(score("t", revision=5, label="no"), score("t", revision=4))
    writer.take("drained")
    writer.scores(score("t", revision=3))
    writer.take("drained")
    assert manifest(tmp_path)["files"][0]["rows"] == 1
    assert read(tmp_path) == [score("t", revision=5, label="no")]


def test_rejects_that_are_told_again_are_read_once(tmp_path):
    writer = Writer(tmp_path)
    for _ in range(2):
        writer.take("rejects", to_bytes(rejects(reject(1), reject(1, reason="late"))))
        writer.take("drained")
    assert len(read(tmp_path, "rejects")) == 2


def test_an_interval_broken_off_before_its_manifest_is_written_again_over_itself(tmp_path, monkeypatch):
    writer = Writer(tmp_path, patience_s=0)
    writer.scores(score("a"), score("b"))
    checkpoint = writer.state.copy()
    with monkeypatch.context() as patched:
        patched.setattr(interval_files, "manifest_path", lambda folder, number: "/proc/nowhere/manifest")
        with pytest.raises(RunError, match="nowhere"):
            writer.take("drained")
    assert files(tmp_path) == ["scores/part-000000.parquet"]
    assert read(tmp_path) == []
    again = Writer(tmp_path, state=checkpoint)
    again.scores(score("c"))
    again.take("drained")
    assert files(tmp_path) == ["manifests/000000.json", "scores/part-000000.parquet"]
    assert [row["task"] for row in read(tmp_path)] == ["a", "b", "c"]


def test_an_interval_is_written_again_after_a_restore_and_nothing_is_doubled(tmp_path):
    writer = Writer(tmp_path)
    writer.scores(score("a"))
    writer.take("drained")
    writer.scores(score("b"))
    checkpoint = writer.state.copy()
    writer.scores(score("c"))
    writer.take("drained")
    before = read(tmp_path)
    restored = Writer(tmp_path, state=checkpoint)
    restored.scores(score("c"))
    restored.take("drained")
    assert read(tmp_path) == before
    assert len(files(tmp_path)) == 4


def test_a_stream_without_state_goes_on_behind_what_is_there(tmp_path):
    first = Writer(tmp_path)
    first.scores(score("a"))
    first.take("drained")
    second = Writer(tmp_path)
    second.scores(score("b"))
    second.take("drained")
    assert manifest(tmp_path, 1)["interval"] == 1
    assert [row["task"] for row in read(tmp_path)] == ["a", "b"]


def test_a_file_that_is_gone_is_told(tmp_path):
    writer = Writer(tmp_path)
    writer.scores(score("a"))
    writer.take("drained")
    (tmp_path / "scores/part-000000.parquet").unlink()
    with pytest.raises(InputError, match=r"part-000000.parquet cannot be read"):
        read(tmp_path)


@pytest.mark.parametrize(("options", "said"), [({"every_s": 0}, "more than 0"), ({"format": "xml"}, "no format 'xml'")])
def test_settings_that_cannot_be_used_are_refused(options, said):
    with pytest.raises(InvalidSettingError, match=said):
        WriteIntervals("answers", **options)


def run(folder, args, elements, every_s=0.2):
    noted = Path(folder) / "noted"
    with beam.Pipeline(options=PipelineOptions(args)) as pipeline:
        notices = pipeline | beam.Create(elements) | WriteIntervals(str(folder), every_s)
        _ = notices | beam.Map(lambda one, path=str(noted): Path(path).write_text(one[0]))
    found = pipeline.result.metrics().query(MetricsFilter().with_name("intervals"))["counters"]
    return sum(counter.result for counter in found)


@pytest.mark.parametrize("drained", [True, False])
@pytest.mark.timeout(60)  # long before the interval ends
def test_a_pipeline_that_ends_has_written_everything(tmp_path, drained):
    elements = [("scores", to_bytes(scores(score(f"t{n}"), score("last", revision=n + 1)))) for n in range(20)]
    n = run(tmp_path, ["--runner=FnApiRunner"], elements + drained * [("drained", b"")], every_s=3600.0)
    assert n == len(list((tmp_path / "manifests").iterdir())) > 0
    found = {row["task"]: row["revision"] for row in read(tmp_path)}
    assert len(found) == 21
    assert found["last"] == 20
    assert (tmp_path / "noted").exists() is drained


@pytest.mark.parametrize(("every_s", "drained"), [(0.2, False), (3600.0, True)])
def test_prism_writes_when_an_interval_has_passed_or_at_a_drain(tmp_path, prism, every_s, drained):
    elements = [("scores", to_bytes(scores(score(f"t{n}")))) for n in range(20)]
    run(tmp_path, prism.beam_args(streaming=True), elements + drained * [("drained", b"")], every_s)
    assert {row["task"] for row in read(tmp_path)} == {f"t{n}" for n in range(20)}
    assert (tmp_path / "noted").exists() is drained

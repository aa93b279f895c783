"""Options of `crowdbeam stream` that only a snapshot, a broker or a whole stream shows."""

import json
import threading

import pyarrow as pa
import pytest
from command_line import run_command
from kafka_events import message, new_topic, produce
from stream_options_run import ROWS, OptionRun, option_folders, settings_for
from stream_runs import StreamRun

from pipelines.blocks import LabelBlock
from pipelines.errors import InputError, InvalidSettingError
from pipelines.sinks.interval_files import read_intervals
from pipelines.sources.source_addresses import source_of
from pipelines.streaming.control import Control, owned
from pipelines.streaming.label_table import LabelTable
from pipelines.streaming.ledger import Ledger, pack_change
from pipelines.table_files import write_file

OF_SNAPSHOTS, ON_KAFKA, ON_PRISM = {}, {}, {}


def case(cases, option):
    """Registers a check that makes its own runs."""

    def register(check):
        cases[option] = check
        return check

    return register


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return option_folders(tmp_path_factory.mktemp("events"))


class AnsweringStream(threading.Thread):
    """Does what a stream does when it is asked for a snapshot."""

    def __init__(self, control):
        super().__init__(daemon=True)
        self.control, self.ended = control, threading.Event()

    def run(self):
        done = set()
        while not self.ended.wait(0.02):
            for marker in self.control.requests():
                if marker.id not in done:
                    done.add(marker.id)
                    self.write(marker.folder)

    def write(self, folder):
        table, ledger = LabelTable(), Ledger()
        block = events_block()
        ledger.add(pack_change(table.change(table.apply(block)), table.workers, table.classes, len(block)))
        for name, frame in (("labels-00000", table.block().to_bytes()), ("ledger", ledger.to_bytes())):
            write_file(f"{folder}/{name}.frame", lambda sink, frame=frame: sink.write(frame))


def events_block():
    task, worker, label = (pa.array(column, pa.large_string()) for column in zip(*ROWS, strict=True))
    coded = [column.dictionary_encode() for column in (worker, label)]
    codes = [(one.indices.to_numpy(), one.dictionary) for one in coded]
    return LabelBlock(0, 0, task, *codes[0], *codes[1])


@pytest.fixture(scope="module")
def snapshots(folder, tmp_path_factory):
    """Takes a snapshot of a stream with words of one's own; the control folder is that of a plan."""
    control = tmp_path_factory.mktemp("snapshots") / "control"
    words = ("--source", folder / "labels", "--sink", control.parent / "sink", "--shards", "1")
    OptionRun(words, control)
    stream = AnsweringStream(Control(str(control)))
    stream.start()
    with owned(stream.control, outlived=True):
        yield lambda *more: run_command("stream", "snapshot", "--control", control, *more)
    stream.ended.set()
    stream.join()


@pytest.mark.parametrize("option", ["--output", "--overwrite", "--output-format"])
def test_option_changes_the_snapshot(option, snapshots, tmp_path):
    OF_SNAPSHOTS[option](snapshots, tmp_path)


@case(OF_SNAPSHOTS, "--output")
def _(snapshots, tmp_path):
    done = snapshots("--output", tmp_path / "here")
    assert done.code == 0, done.err
    assert (tmp_path / "here" / "manifest.json").exists()
    without = snapshots()
    assert (without.code, without.err) == (2, "crowdbeam: A snapshot needs an --output folder.\n")


@case(OF_SNAPSHOTS, "--overwrite")
def _(snapshots, tmp_path):
    assert [snapshots("--output", tmp_path / "run", *more).code for more in ((), (), ("--overwrite",))] == [0, 2, 0]


@case(OF_SNAPSHOTS, "--output-format")
def _(snapshots, tmp_path):
    snapshots("--output", tmp_path / "run", "--output-format", "csv")
    assert {path.suffix for path in (tmp_path / "run" / "scores").iterdir()} == {".csv"}
    assert snapshots("--output", tmp_path / "other", "--output-format", "xls").code == 2


def kafka_settings(kafka, topic, tmp_path, *words):
    start = ("--source", f"kafka://{kafka.bootstrap}/{topic}", "--sink", tmp_path / "sink")
    return settings_for((*start, *words), tmp_path / "control")


def polled(source, number=0):
    reader = source.reader(number)
    found = reader.poll(b"", 100, 2.0)
    return reader, found, sorted(task for block in found.blocks for task in block.task.to_pylist())


@pytest.mark.parametrize("option", ["--from", "--group", "--kafka-properties"])
def test_option_changes_what_is_read_from_kafka(option, kafka, tmp_path):
    topic = new_topic(kafka)
    produce(kafka, topic, [message(1), message(2)])
    ON_KAFKA[option](kafka, topic, tmp_path)


@case(ON_KAFKA, "--from")
def _(kafka, topic, tmp_path):
    tasks = [
        polled(source_of(kafka_settings(kafka, topic, tmp_path, *words)))[2] for words in ((), ("--from", "latest"))
    ]
    assert tasks == [["t1", "t2"], []]


@case(ON_KAFKA, "--group")
def _(kafka, topic, tmp_path):
    from confluent_kafka import Consumer, TopicPartition

    source = source_of(kafka_settings(kafka, topic, tmp_path, "--group", "watchers"))
    reader, found, _ = polled(source)
    reader.confirm(found.position)
    reader.close()
    offsets = []
    for group in ("watchers", "crowdbeam"):
        consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group})
        offsets.append(consumer.committed([TopicPartition(topic, 0)], 10)[0].offset)
        consumer.close()
    assert offsets[0] == 2
    assert offsets[1] < 0


@case(ON_KAFKA, "--kafka-properties")
def _(kafka, topic, tmp_path):
    source_of(kafka_settings(kafka, topic, tmp_path)).check()
    (tmp_path / "client.properties").write_text("security.protocol=nonsense\n", "utf-8")
    words = ("--kafka-properties", tmp_path / "client.properties")
    with pytest.raises((InvalidSettingError, InputError), match="Kafka properties cannot be used"):
        source_of(kafka_settings(kafka, topic, tmp_path, *words)).check()


@pytest.fixture(scope="module")
def whole_runs(prism, folder, tmp_path_factory):
    """Streams as users start them, until they are told to stop: one tells a person how it went, one a program."""
    runs = {}
    for name, words in {
        "json": ("--json", "--classes", "c0,c1"),
        "quiet": ("--quiet", "--classes", "c0,c1"),
        "plain": (),
    }.items():
        place = tmp_path_factory.mktemp(name)
        more = ("--rejects", place / "rejects") if name == "json" else ()
        places = ("--source", folder / "labels", "--sink", place / "sink", *more)
        with StreamRun([*places, *words, *prism.beam_args(streaming=True)], place / "control") as run:
            run.wait(lambda status: status["settled"] and status["model_version"], "a settled model")
            stopped = run_command("stream", "stop", "--control", place / "control", *words[:1])
            code, err = run.process.wait(120), run.errors.read_text("utf-8")
            assert code == 0, err
            runs[name] = (run.output.read_text("utf-8"), err, place, stopped, run.process.pid)
    return runs


@pytest.mark.parametrize("option", ["--sink", "--rejects", "--control", "--json", "--quiet"])
def test_option_changes_a_whole_stream(option, whole_runs):
    ON_PRISM[option](whole_runs)


def test_whoever_stops_a_stream_is_told_that_it_was_asked(whole_runs):
    told = {name: stopped for name, (*_, stopped, _) in whole_runs.items()}
    assert {(stopped.code, stopped.err) for stopped in told.values()} == {(0, "")}
    pid = whole_runs["plain"][-1]
    sentence = f"The stream (process {pid}) has been asked to end; it answers all it has read first.\n"
    assert (told["plain"].out, told["quiet"].out) == (sentence, "")
    assert json.loads(told["json"].out)["process"] == whole_runs["json"][-1]


@case(ON_PRISM, "--sink")
def _(runs):
    tasks = {row["task"] for row in read_intervals(str(runs["plain"][2] / "sink"), "scores").to_pylist()}
    assert tasks == {task for task, _, _ in ROWS}


@case(ON_PRISM, "--rejects")
def _(runs):
    strangers = sum(label == "c2" for _, _, label in ROWS)
    apart, together = (runs[name][2] for name in ("json", "quiet"))
    assert read_intervals(str(apart / "rejects"), "rejects").num_rows == strangers
    assert read_intervals(str(apart / "sink"), "rejects").num_rows == 0
    assert read_intervals(str(together / "sink"), "rejects").num_rows == strangers


@case(ON_PRISM, "--control")
def _(runs):
    strangers = sum(label == "c2" for _, _, label in ROWS)
    told = {name: Control(str(place / "control")).status()["events"] for name, (_, _, place, *_) in runs.items()}
    assert told == {"plain": len(ROWS), "json": len(ROWS) - strangers, "quiet": len(ROWS) - strangers}


@case(ON_PRISM, "--json")
def _(runs):
    status = json.loads(runs["json"][0])
    assert status["settled"]
    assert status["events"] == sum(label != "c2" for _, _, label in ROWS)
    assert runs["plain"][0] == f"{len(ROWS)} events read and answered; model {model_of(runs['plain'][2])}.\n"


@case(ON_PRISM, "--quiet")
def _(runs):
    assert runs["quiet"][:2] == ("", "")
    assert "requests and status in" in runs["plain"][1]


def model_of(place):
    return Control(str(place / "control")).status()["model_version"]

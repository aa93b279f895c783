"""Step names are an API once a stream runs: a change here is a change for whoever watches or resumes a job."""

from dataclasses import replace
from pathlib import Path

import apache_beam as beam

from pipelines import stream
from pipelines.aggregate import AggregateLabels
from pipelines.batch import BatchPlan, build
from pipelines.inputs import InputPlan
from pipelines.settings import AggregateSettings, BatchSettings
from pipelines.sinks.kafka import KafkaTarget
from pipelines.sinks.write import WriteRows
from pipelines.streaming.planning import plan_of
from pipelines.streaming.settings import StreamSettings

GOLDEN = Path(__file__).parent / "step_names"


def steps_of(pipeline):
    """Our own steps, without the ones that Beam puts inside them."""
    names: set[str] = set()

    class Visitor(beam.pipeline.PipelineVisitor):
        def enter_composite_transform(self, node):
            self.visit_transform(node)

        def visit_transform(self, node):
            if node.transform is not None and node.full_label:
                names.add(node.full_label.split("/ParDo(")[0].split("/FlatMap(")[0].split("/Map(")[0])

    pipeline.visit(Visitor())
    inner = ("CombineGlobally(", "Create/", "/Impulse", "/MaybeReshuffle", "/FlatMap", "/Map", "/Reshuffle")
    return sorted(name for name in names if not any(part in name for part in inner))


def assert_golden(name, pipeline):
    expected = (GOLDEN / f"{name}.txt").read_text("utf-8").splitlines()
    assert steps_of(pipeline) == expected


def test_the_steps_of_aggregate_labels_keep_their_names():
    pipeline = beam.Pipeline("FnApiRunner")
    labels, gold = pipeline | "Labels" >> beam.Create([{}]), pipeline | "Gold" >> beam.Create([{}])
    _ = labels | "AggregateLabels" >> AggregateLabels(gold=gold)
    assert_golden("aggregate_labels", pipeline)


def test_the_steps_of_the_batch_road_keep_their_names():
    pipeline = beam.Pipeline("FnApiRunner")
    settings = BatchSettings(("labels.csv",), "run", AggregateSettings(shards=2))
    build(pipeline, BatchPlan(settings, InputPlan((), (), 0), {}, "run/_staging", True))
    assert_golden("batch", pipeline)


def test_the_steps_of_the_stream_keep_their_names(tmp_path):
    folders = {name: tmp_path / name for name in ("source", "sink", "rejects", "control")}
    folders["source"].mkdir()
    source, sink, rejects, control = map(str, folders.values())
    plan = plan_of(StreamSettings(source, (sink,), control, rejects))
    topics = ("Sink1", WriteRows(KafkaTarget("localhost:1", "crowd")))
    pipeline = beam.Pipeline("FnApiRunner")
    stream.build(pipeline, replace(plan, sinks=(*plan.sinks, topics)))
    assert_golden("stream", pipeline)

"""What a user tells reaches the steps."""

import apache_beam as beam
from apache_beam.pipeline import PipelineVisitor

from pipelines.stream import build
from pipelines.streaming.places import kinds_of
from pipelines.streaming.planning import plan_of
from pipelines.streaming.poll import PollSource
from pipelines.streaming.settings import StreamSettings


class Polls(PipelineVisitor):
    def __init__(self):
        self.found = []

    def enter_composite_transform(self, node):
        if isinstance(node.transform, PollSource):
            self.found.append(node.transform)


def test_the_step_that_polls_knows_the_kinds_of_source_and_sinks(tmp_path):
    source, *sinks, control = (str(tmp_path / name) for name in ("in", "out", "logs", "control"))
    (tmp_path / "in").mkdir()
    pipeline, polls = beam.Pipeline("FnApiRunner"), Polls()
    build(pipeline, plan_of(StreamSettings(source, tuple(sinks), control)))
    pipeline.visit(polls)
    (poll,) = polls.found
    assert poll.kinds == kinds_of(source, sinks) == {"source": "folder", "sinks": ["folder", "folder"]}

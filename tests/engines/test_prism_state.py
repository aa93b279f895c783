"""Prism loses state unless it is told not to split bundles; `with_streaming_flags` tells it."""

import time

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

ELEMENTS = 10


class _CountSlowlyFn(beam.DoFn):
    """Counts the elements of a key, slowly enough for Prism to want a split, and notes each count in a file."""

    COUNT = ReadModifyWriteStateSpec("count", VarIntCoder())

    def __init__(self, path):
        self._path = path

    def process(self, element, count=beam.DoFn.StateParam(COUNT)):
        number = (count.read() or 0) + 1
        count.write(number)
        time.sleep(0.3)
        with open(self._path, "a") as file:
            file.write(f"{number}\n")


def test_no_element_of_a_slow_key_is_forgotten(prism, tmp_path):
    """Without the flag some elements are counted twice over and the state of others is lost: 5 instead of 10."""
    path = tmp_path / "counts"
    with beam.Pipeline(options=PipelineOptions(prism.beam_args(streaming=True))) as pipeline:
        _ = pipeline | beam.Create([("key", n) for n in range(ELEMENTS)]) | beam.ParDo(_CountSlowlyFn(str(path)))
    assert path.read_text().split() == [str(number) for number in range(1, ELEMENTS + 1)]

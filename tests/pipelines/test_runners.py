import pickle
import time

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions, StandardOptions, TypeOptions
from apache_beam.runners.worker.statesampler import StateSampler
from apache_beam.utils.counters import CounterFactory

from pipelines.runners import options_of, sample_often

ARGS = ["--runner=BundleBasedDirectRunner", "--sdk_worker_parallelism=3", "--no_pipeline_type_check"]


def test_remembered_views_say_what_views_of_beam_say():
    ours, theirs = options_of(ARGS), PipelineOptions(ARGS)
    theirs.view_as(PortableOptions).environment_cache_millis = ours.view_as(PortableOptions).environment_cache_millis
    for view in (StandardOptions, PortableOptions, TypeOptions):
        assert ours.view_as(view).get_all_options() == theirs.view_as(view).get_all_options()
    assert ours.view_as(TypeOptions).pipeline_type_check is False


def test_a_value_set_in_one_view_is_in_all():
    options = options_of([])
    before = options.view_as(PortableOptions)
    options.view_as(StandardOptions).streaming = True
    assert options.view_as(StandardOptions).streaming
    assert before.view_as(StandardOptions).streaming
    assert options.get_all_options()["streaming"]


def test_options_survive_the_way_to_a_worker():
    options = pickle.loads(pickle.dumps(options_of(ARGS)))  # noqa: S301 - what Beam does with the options of a pipeline
    assert options.view_as(PortableOptions).sdk_worker_parallelism == "3"


def test_a_pipeline_makes_few_views(monkeypatch):
    made = []
    plain = PipelineOptions.view_as
    monkeypatch.setattr(PipelineOptions, "view_as", lambda self, cls: made.append(cls) or plain(self, cls))
    with beam.Pipeline(options=options_of([])) as pipeline:
        _ = pipeline | beam.Create([1]) | beam.Map(str)
    assert len(made) < 60, len(made)


def test_a_stage_does_not_wait_for_the_thread_that_watches_it():
    sample_often()
    waits = []
    for _ in range(5):
        sampler = StateSampler("stage", CounterFactory())
        sampler.start()
        end = time.perf_counter() + 0.2
        while time.perf_counter() < end:
            pass
        sampler.stop()
        waits.append(time.perf_counter() - end)
    assert min(waits) < 0.012, waits

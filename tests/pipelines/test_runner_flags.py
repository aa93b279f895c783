import pytest

from pipelines.beam_options import beam_options
from pipelines.errors import InvalidSettingError
from pipelines.streaming.runner_flags import with_streaming_flags

PRISM = ["--runner=PrismRunner"]
FLINK = ["--runner=PortableRunner", "--job_endpoint=localhost:8099"]


def added(args):
    """What is added behind the arguments, which stay."""
    found = with_streaming_flags(args)
    assert found[: len(args)] == args
    return found[len(args) :]


def test_prism_is_told_not_to_split():
    assert added(PRISM) == ["--streaming", "--experiments=prism_disable_sdf_split", "--prism_log_level=warn"]


@pytest.mark.parametrize("runner", ["PortableRunner", "FlinkRunner", "apache_beam.runners.FlinkRunner", "flink"])
def test_flink_keeps_checkpoints_to_start_again_from(runner):
    assert added(["--runner", runner]) == [
        "--streaming",
        "--checkpointing_interval=3000",
        "--max_bundle_time_mills=200",
        "--externalized_checkpoints_enabled",
        "--retain_externalized_checkpoints_on_cancellation",
        "--finish_bundle_before_checkpointing",
    ]


def test_what_is_given_stays_as_it_is():
    given = ["--streaming", "--checkpointing_interval=500", "--max_bundle_time_mills", "50"]
    assert [flag.partition("=")[0] for flag in added(FLINK + given)] == [
        "--externalized_checkpoints_enabled",
        "--retain_externalized_checkpoints_on_cancellation",
        "--finish_bundle_before_checkpointing",
    ]
    assert added([*PRISM, "--prism_log_level=info", "--streaming"]) == ["--experiments=prism_disable_sdf_split"]


@pytest.mark.parametrize(
    "experiments",
    [
        ["--experiments=prism_disable_sdf_split"],
        ["--experiments=beam_fn_api,prism_disable_sdf_split"],
        ["--experiments", "prism_disable_sdf_split", "--experiments=beam_fn_api"],
        ["--experiment=prism_disable_sdf_split"],
    ],
)
def test_an_experiment_that_is_on_is_not_added_again(experiments):
    assert added(PRISM + experiments) == ["--streaming", "--prism_log_level=warn"]


def test_other_experiments_are_kept_beside_it():
    assert "--experiments=prism_disable_sdf_split" in added([*PRISM, "--experiments=beam_fn_api"])


def test_adding_twice_adds_nothing():
    for args in (PRISM, FLINK):
        once = with_streaming_flags(args)
        assert with_streaming_flags(once) == once


@pytest.mark.parametrize("args", [PRISM, FLINK])
def test_beam_knows_every_flag(args):
    """A flag that Beam does not know it drops without a word."""
    found = with_streaming_flags(args)
    assert {flag.partition("=")[0] for flag in found} <= set(beam_options(found))


def test_the_last_runner_counts():
    assert "--checkpointing_interval=3000" not in added(["--runner", "FlinkRunner", "--runner=PrismRunner"])
    assert "--checkpointing_interval=3000" in added(["--runner=PrismRunner", "--runner", "FlinkRunner"])


def test_dataflow_needs_only_to_be_told_that_it_streams():
    assert added(["--runner=DataflowRunner"]) == ["--streaming"]


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["--runner=FnApiRunner"],
        ["--runner=DirectRunner"],
        ["--runner", "BundleBasedDirectRunner"],
        ["--runner=PortableRunner", "--job_endpoint=embed"],
    ],
)
def test_a_runner_that_cannot_stream_is_refused_with_what_to_use(args):
    with pytest.raises(InvalidSettingError, match=r"stream.*--runner=PrismRunner on one machine, or a Flink cluster"):
        with_streaming_flags(args)

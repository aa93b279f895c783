"""Dataflow: refusals before anything runs, the job that would be sent, and the flex template's files."""

import json
import re
from pathlib import Path

import pytest
from apache_beam import DoFn
from apache_beam.internal import cloudpickle_pickler
from apache_beam.portability.api import beam_runner_api_pb2
from beam_environments import ROOT, run_python
from command_line import crowd_rows, run_command, write_rows

from pipelines import detached
from pipelines.arguments import option_table
from pipelines.beam_options import beam_options
from pipelines.commands.aggregate import build_parser
from pipelines.detached import template_arguments
from pipelines.errors import InvalidSettingError
from pipelines.run_tables import read_table
from pipelines.settings import BatchSettings

FILES = ROOT / "examples" / "dataflow"
METADATA = json.loads((FILES / "metadata.json").read_text("utf-8"))
PARAMETERS = {one["name"]: one for one in METADATA["parameters"]}
# The fields that the documentation of flex templates' metadata lists, and the kinds of parameters.
FIELDS = {"name", "label", "helpText", "isOptional", "regexes", "paramType"}
KINDS = {"TEXT", "GCS_READ_FILE", "GCS_READ_FOLDER", "GCS_WRITE_FILE", "GCS_WRITE_FOLDER"}
BEAM_DATA = ("beam:transform:", "beam:runner:", "beam:coder:")
NEEDED = ("--project=p", "--region=r", "--temp_location=gs://some-bucket/temp")


@pytest.fixture
def labels(tmp_path):
    return write_rows(tmp_path / "labels.csv", ["task", "worker", "label"], crowd_rows())


def test_without_the_extra_dataflow_is_refused_before_anything_runs(labels, tmp_path):
    run = run_command("aggregate", labels, "--output", tmp_path / "run", "--runner=DataflowRunner", *NEEDED)
    assert run.code == 2
    assert run.err == "crowdbeam: --runner DataflowRunner is not installed. Try: pip install 'apache-beam[gcp]'\n"
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((), "add --project=PROJECT --region=europe-west1 --temp_location=gs://BUCKET/temp."),
        (NEEDED[1:], "wants to know more; add --project=PROJECT."),
        (NEEDED[::2], "wants to know more; add --region=europe-west1."),
        (NEEDED[:2], "wants to know more; add --temp_location=gs://BUCKET/temp."),
        ((*NEEDED[:2], "--temp_location=/tmp/x"), "Dataflow takes gs://BUCKET/FOLDER."),
    ],
)
def test_what_dataflow_must_know_is_asked_for_before_anything_runs(beam_gcp, labels, tmp_path, given, told):
    command = "import sys; from pipelines.cli import main; main()"
    argv = ("aggregate", labels, "--output", tmp_path / "run", "--runner=DataflowRunner", *given)
    done = run_python(beam_gcp, "-c", command, *argv)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert done.stderr.startswith("crowdbeam: ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def job(beam_gcp, tmp_path_factory):
    """The job as JSON, and its pipeline."""
    folder = tmp_path_factory.mktemp("job")
    file = write_rows(folder / "labels.csv", ["task", "worker", "label"], crowd_rows())
    done = run_python(beam_gcp, ROOT / "tests" / "dataflow_job.py", file, folder)
    assert done.returncode == 0, done.stderr[-4000:]
    pipeline = beam_runner_api_pb2.Pipeline.FromString((folder / "pipeline.pb").read_bytes())
    return json.loads((folder / "job.json").read_text("utf-8")), pipeline


def test_the_job_has_every_step(job):
    _, pipeline = job
    names = {step.unique_name for step in pipeline.components.transforms.values()}
    golden = (Path(__file__).parent / "step_names" / "batch.txt").read_text("utf-8").splitlines()
    assert set(golden) <= names


def test_steps_carry_what_their_kind_says(job):
    _, pipeline = job
    steps = [step for step in pipeline.components.transforms.values() if step.spec.urn]
    assert all(step.spec.urn.startswith(BEAM_DATA) for step in steps)
    pardos = [step for step in steps if step.spec.urn == "beam:transform:pardo:v1"]
    assert pardos
    for step in pardos:
        do_fn = beam_runner_api_pb2.ParDoPayload.FromString(step.spec.payload).do_fn
        if do_fn.urn != "beam:dofn:python_key_with_none:v1":  # it has no payload
            assert do_fn.urn == "beam:dofn:pickled_python_info:v1", step.unique_name
            assert isinstance(cloudpickle_pickler.loads(do_fn.payload)[0], DoFn), step.unique_name


def test_between_steps_travel_bytes_and_known_coders(job):
    _, pipeline = job
    coders = pipeline.components.coders
    between = {coders[one.coder_id].spec.urn for one in pipeline.components.pcollections.values()}
    assert all(urn.startswith(("beam:coder:", "beam:coders:")) for urn in between), between
    grouped = [
        pipeline.components.pcollections[step.inputs["0" if "0" in step.inputs else next(iter(step.inputs))]]
        for step in pipeline.components.transforms.values()
        if step.spec.urn == "beam:transform:group_by_key:v1"
    ]
    assert grouped
    assert {coders[one.coder_id].spec.urn for one in grouped} == {"beam:coder:kv:v1"}


def test_the_job_has_its_options_and_its_image(job):
    told, pipeline = job
    environment = told["environment"]
    options = environment["sdkPipelineOptions"]["options"]
    assert (told["name"], told["type"]) == ("crowd-night", "JOB_TYPE_BATCH")
    assert (options["project"], options["region"], options["num_workers"]) == ("crowd-project", "europe-west1", 3)
    assert options["pickle_library"] == "cloudpickle"
    assert environment["serviceAccountEmail"] == "runner@crowd-project.iam.gserviceaccount.com"
    assert environment["tempStoragePrefix"].startswith("storage.googleapis.com/crowd-bucket/temp")
    (pool,) = environment["workerPools"]
    assert pool["numWorkers"] == 3
    assert [one["containerImage"] for one in pool["sdkHarnessContainerImages"]] == ["example/crowdbeam:1"]
    for one in pipeline.components.environments.values():
        assert one.urn == "beam:env:docker:v1"
        assert beam_runner_api_pb2.DockerPayload.FromString(one.payload).container_image == "example/crowdbeam:1"


def test_every_parameter_of_the_template_is_an_option():
    own, beams = option_table(build_parser()), beam_options(["--runner=DataflowRunner"])
    for name in PARAMETERS:
        flag = f"--{name}"
        assert flag == detached.INPUTS or flag.replace("_", "-") in own or flag in beams, name


def test_every_option_is_a_parameter_or_of_no_use_in_a_template():
    own = {name.removeprefix("--").replace("-", "_") for name in option_table(build_parser()) if name.startswith("--")}
    assert own - set(PARAMETERS) == {"help", "json", "quiet", "model", "fail_if", "lineage"}


@pytest.mark.parametrize("given", [{"fail_if": ("no-new-labels",)}, {"lineage": "event.json"}])
def test_what_needs_somebody_who_waits_is_refused(given):
    with pytest.raises(InvalidSettingError, match="nobody waits for"):
        detached.launch(BatchSettings(("labels.csv",), "run", **given))


def test_the_metadata_has_the_documented_fields():
    assert set(METADATA) == {"name", "description", "parameters"}
    assert len(PARAMETERS) == len(METADATA["parameters"])
    for one in METADATA["parameters"]:
        assert {"name", "label", "helpText"} <= set(one) <= FIELDS
        assert one["paramType"] in KINDS
        assert isinstance(one["isOptional"], bool)
        assert all(re.compile(regex) for regex in one.get("regexes", ()))
    required = {name for name, one in PARAMETERS.items() if not one["isOptional"]}
    assert required == {"inputs", "output", "sdk_container_image"}


@pytest.mark.parametrize("name", ["input_format", "output_format", "repeats", "method", "weights", "solver", "start"])
def test_the_regex_of_a_choice_has_all_choices_of_the_option(name):
    """The option's help lists its choices; the template must let each through, and nothing else."""
    text = next(a.help for a in build_parser()._actions if a.dest == name)
    (regex,) = PARAMETERS[name]["regexes"]
    choices = re.match(r"\^\((.*)\)\$", regex)[1].split("|")
    assert all(re.search(rf"\b{choice}\b", text) for choice in choices)
    values = {"--inputs=a", "--output=b"}
    for choice in choices:
        own, _ = template_arguments([*values, f"--{name}={choice}"], build_parser())
        assert f"--{name.replace('_', '-')}={choice}" in own


def test_a_run_that_nobody_waits_for_is_the_run_of_the_command(labels, tmp_path, capsys):
    waited = run_command(
        "aggregate", labels, "--output", tmp_path / "waited", "--min-labels", 2, folder=tmp_path / "waited"
    )
    argv = [f"--inputs={labels}", f"--output={tmp_path / 'left'}", "--min_labels=2", "--runner=FnApiRunner"]
    assert detached.main(argv) == 0
    left = json.loads((tmp_path / "left" / "manifest.json").read_text("utf-8"))
    assert left["run_id"] in capsys.readouterr().out
    for name in ("counts", "classes", "fit", "inputs"):
        assert left[name] == waited.manifest[name]
    for name in ("scores", "skills", "edges", "graph", "rejects"):
        assert read_table(str(tmp_path / "left"), name).equals(read_table(str(waited.folder), name))
    assert not (tmp_path / "left" / "_staging").exists()


def test_a_last_step_that_is_done_again_changes_nothing(labels, tmp_path):
    argv = [f"--inputs={labels}", f"--output={tmp_path / 'run'}"]
    assert detached.main(argv) == 0
    manifest = (tmp_path / "run" / "manifest.json").read_bytes()
    own, _ = template_arguments(argv, build_parser())
    settings = detached.settings_of(build_parser().parse_args(own))
    ending = detached.Ending(json.loads(manifest)["run_id"], 0, settings, (), {})
    assert detached._commit(2, ending) == ending.run_id
    assert (tmp_path / "run" / "manifest.json").read_bytes() == manifest


def test_a_template_with_bad_parameters_says_so_and_runs_nothing(labels, tmp_path, capsys):
    argv = [f"--inputs={labels}", f"--output={tmp_path / 'run'}"]
    assert detached.main([*argv, "--min_labels=0"]) == 2
    assert "--min-labels is 0" in capsys.readouterr().err
    assert detached.main([*argv, "--overwrite=perhaps"]) == 2
    assert "it takes true or false" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    with pytest.raises(InvalidSettingError):
        template_arguments(["--probabilities=2"], build_parser())


def test_the_image_runs_the_main_program_that_is_here():
    lines = (FILES / "Dockerfile").read_text("utf-8")
    assert "COPY examples/dataflow/main.py /template/main.py" in lines
    assert "FLEX_TEMPLATE_PYTHON_PY_FILE=/template/main.py" in lines
    assert "from pipelines.detached import main" in (FILES / "main.py").read_text("utf-8")
    beam = re.search(r"ARG BEAM=(\S+)", lines)[1]
    assert f"apache-beam=={beam} " in (ROOT / "requirements.lock").read_text("utf-8")

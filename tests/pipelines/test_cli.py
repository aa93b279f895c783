"""`crowdbeam`: what it takes, what it refuses, its exit codes; no traceback and no library's log is ever shown."""

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import crowd_rows, run_command, write_rows

import crowdcore
from pipelines import batch, cli
from pipelines.arguments import option_table, parse_arguments
from pipelines.cli import COMMANDS
from pipelines.commands import aggregate, compare, evaluate, simulate
from pipelines.errors import RunError


@pytest.fixture
def labels(tmp_path):
    return write_rows(tmp_path / "labels.csv", ("task", "worker", "label"), crowd_rows())


def crowdbeam(*argv, **kwargs):
    """The command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", "import sys; from pipelines.cli import main; sys.exit(main())", *map(str, argv)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kwargs,
    )  # fmt: skip


@pytest.mark.parametrize("argv", [(), ("--help",), ("-h",)])
def test_crowdbeam_alone_explains_itself(argv):
    run = run_command(*argv)
    assert run.code == 0
    assert all(name in run.out for name in COMMANDS)


def test_version_is_that_of_the_package():
    assert run_command("--version").out == f"crowdbeam {crowdcore.__version__}\n"


@pytest.mark.parametrize("command", [aggregate, simulate, evaluate, compare])
def test_help_lists_every_option_with_its_default(command):
    name = command.__name__.rpartition(".")[2]
    run = run_command(name, "--help")
    assert run.code == 0
    assert command.SUMMARY in run.out
    for action in command.build_parser()._actions:
        assert action.help
        assert action.required or action.dest == "help" or "(default: " in action.help
        assert all(option in run.out for option in action.option_strings)


@pytest.mark.parametrize(
    ("action", "own"),
    [
        ("snapshot", {"--control", "--output", "--overwrite", "--output-format", "--json", "--quiet"}),
        ("stop", {"--control"}),
    ],
)
def test_help_of_an_action_of_a_stream_shows_its_own_options(action, own):
    run = run_command("stream", action, "--help")
    assert (run.code, run.err) == (0, "")
    assert f"crowdbeam stream {action} --control DIR" in run.out
    assert set(re.findall(r"^  (?:-h, )?(--[a-z-]+)", run.out, re.MULTILINE)) == {"--help", *own}
    whole = run_command("stream", "--help").out
    assert all(option in whole for option in (*own, "--source"))


def test_help_of_aggregate_has_examples_and_the_exit_codes():
    out = run_command("aggregate", "--help").out
    assert out.count("  crowdbeam aggregate ") >= 2
    assert all(f"{code}  " in out for code in (0, 1, 2, 3, 130))


def test_help_loads_no_heavy_library():
    code = "import sys; from pipelines.cli import main; main([sys.argv[1], '--help']); print(*sys.modules)"
    for command in COMMANDS:
        done = subprocess.run([sys.executable, "-c", code, command], capture_output=True, text=True, check=True)
        loaded = set(done.stdout.splitlines()[-1].split())
        assert not loaded & {"apache_beam", "numpy", "pyarrow", "polars", "scipy", "rich"}


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["agregate"], "'agregate' is no command of crowdbeam; did you mean aggregate?"),
        (
            ["x"],
            "'x' is no command of crowdbeam; "
            "there are aggregate, stream, nightly, ledger, load, simulate, evaluate, compare, reproduce.",
        ),
        (["aggregate"], "The following arguments are required: INPUT, --output. Try `crowdbeam aggregate --help`."),
        (["aggregate", "--wieghts", "x"], "--wieghts is no option of crowdbeam or Beam; did you mean --weights?"),
        (
            ["aggregate", "--paralelism=2"],
            "--paralelism is no option of crowdbeam or Beam; did you mean --parallelism?",
        ),
        (["aggregate", "-q"], "-q is no option of crowdbeam or Beam; `crowdbeam aggregate --help` lists them."),
        (["aggregate", "--out", "x"], "--out is no option of crowdbeam or Beam; did you mean --output?"),
        (["evaluate", "--runner", "x"], "--runner is no option of crowdbeam evaluate; `crowdbeam eval"),
        (["aggregate", "a.csv", "--output"], "--output takes a value; write --output VALUE."),
        (["aggregate", "a.csv", "--output", "--json"], "--output takes a value; write --output VALUE."),
        (["aggregate", "--json=1"], "--json takes no value; write --json alone."),
        (["aggregate", "a", "--output=o", "--seed=x"], "--seed is 'x'; it takes a whole number."),
        (["aggregate", "a", "--output=o", "--saturation=x"], "--saturation is 'x'; it takes a number."),
        (["aggregate", "a", "--output=o", "--start=x"], "--start is 'x'; it takes auto, half, spectral, tree, random."),
        (["aggregate", "a", "--output=o", "--classes=a,,b"], "--classes is 'a,,b'; it takes A,B,... or a JSON list"),
        (["aggregate", "a", "--output=o", "--classes=[a"], "--classes is '[a', which is not JSON"),
        (["aggregate", "a", "--output=o", "--class-prior=a=x"], "--class-prior is 'a=x'; it takes CLASS=FREQUENCY"),
        (["aggregate", "a", "--output=o", "--columns=a"], "--columns holds 'a'; write FIELD=COLUMN"),
        (["aggregate", "a", "--output=o", "--parallelism=x"], "Beam refuses its options: argument --parallelism"),
        (["aggregate", "a", "--output=o", "--runner=Foo"], "--runner is 'Foo': Unexpected pipeline runner"),
        (["aggregate", "no-such-file.csv", "--output=o"], "INPUT 'no-such-file.csv' names no file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_used_is_refused_with_a_sentence(argv, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = run_command(*argv)
    assert (run.code, run.out) == (2, "")
    assert run.err.startswith(f"crowdbeam: {sentence}")
    assert run.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_values_of_beam_options_are_not_taken_for_inputs(labels, tmp_path):
    second = write_rows(tmp_path / "more.csv", ("task", "worker", "label"), [("new", "w0", "c0")])
    run = run_command(
        "aggregate", labels, "--runner", "BundleBasedDirectRunner", "--direct_num_workers", "1",
        "--output", tmp_path / "run", second, folder=tmp_path / "run",
    )  # fmt: skip
    assert run.code == 0
    assert [file["path"] for file in run.manifest["inputs"]] == [str(labels), str(second)]
    assert run.manifest["settings"]["runner"] == "BundleBasedDirectRunner"


def test_options_of_a_flink_job_server_are_for_runners_that_have_one():
    from pipelines.beam_options import beam_options

    elsewhere, flink = beam_options([]), beam_options(["--runner", "FlinkRunner"])
    assert {
        "--runner",
        "--job_endpoint",
        "--environment_type",
        "--flink_master",
        "--prism_location",
    } <= elsewhere.keys()
    assert flink.keys() - elsewhere.keys() >= {"--checkpointing_interval", "--object_reuse", "--max_bundle_size"}
    assert beam_options(["--runner=flink"]).keys() == beam_options(["--runner=PortableRunner"]).keys() == flink.keys()


def test_crowdbeam_takes_no_name_from_beam():
    from pipelines.beam_options import beam_options

    own = option_table(aggregate.build_parser()).keys() - {"-h", "--help"}
    assert not own & beam_options(["--runner=FlinkRunner"]).keys()


def test_values_may_begin_with_a_dash_and_classes_may_hold_commas(tmp_path):
    rows = [(f"t{n}", f"w{worker}", ("-1", "a,b")[n % 2]) for n in range(6) for worker in range(3)]
    labels = write_rows(tmp_path / "labels.csv", ("task", "worker", "label"), rows)
    for place, (classes, used) in enumerate([("-1,1", 9), ('["-1", "a,b"]', 18)]):
        folder = tmp_path / str(place)
        run = run_command("aggregate", labels, "--classes", classes, "--output", folder, folder=folder)
        assert run.manifest["counts"]["labels_used"] == used


def test_the_demo_uses_options_that_exist():
    script = (Path(__file__).parents[2] / "examples" / "demo.sh").read_text("utf-8").replace("\\\n", "")
    lines = [shlex.split(line)[2:] for line in script.splitlines() if line.startswith("show crowdbeam ")]
    commands = {"aggregate": aggregate, "simulate": simulate, "evaluate": evaluate}
    assert [name for name, *_ in lines] == ["simulate", "aggregate", "evaluate"]
    for name, *words in lines:
        assert parse_arguments(commands[name].build_parser(), words)[1] == []


def test_no_usable_label_has_an_exit_code_of_its_own(tmp_path):
    labels = write_rows(tmp_path / "labels.csv", ("task", "worker", "label"), [("t1", "w1", ""), ("", "w1", "yes")])
    run = run_command("aggregate", labels, "--output", tmp_path / "run", "--json")
    assert run.code == 3
    assert run.err.startswith("crowdbeam: There was no usable label among 2")
    assert json.loads(run.out)["counts"]["labels_rejected"] == 2


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (RunError("The job ended as FAILED."), "The job ended as FAILED.\n"),
        (KeyError("x"), "KeyError: 'x'. Set CROWDBEAM_DEBUG=1 for the traceback.\n"),
        (
            RuntimeError(
                "Traceback (most recent call last):\n  File ...\nOSError: No space left [while running 'Write']"
            ),
            "RuntimeError: OSError: No space left [while running 'Write']. Set CROWDBEAM_DEBUG=1 for the traceback.\n",
        ),
    ],
)
def test_a_run_that_fails_says_so_in_a_sentence(error, sentence, labels, tmp_path, monkeypatch):
    def fail(*args):
        raise error

    monkeypatch.setattr(batch, "run", fail)
    run = run_command("aggregate", labels, "--output", tmp_path / "run")
    assert (run.code, run.out, run.err) == (1, "", f"crowdbeam: {sentence}")


def test_a_full_disk_is_told_as_one_also_when_beam_wraps_it(labels, tmp_path, monkeypatch):
    def fail(*args):
        raise RuntimeError("OSError: [Errno 28] No space left on device [while running 'Write']")

    monkeypatch.setattr(batch, "run", fail)
    run = run_command("aggregate", labels, "--output", tmp_path / "run")
    assert run.code == 1
    assert run.err.startswith("crowdbeam: The disk is full; make room")


def test_debugging_shows_the_traceback_of_a_failure(labels, tmp_path, monkeypatch):
    def fail(*args):
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(batch, "run", fail)
    monkeypatch.setenv("CROWDBEAM_DEBUG", "1")
    run = run_command("aggregate", labels, "--output", tmp_path / "run")
    assert run.code == 1
    assert "Traceback (most recent call last)" in run.err


def test_a_run_shows_a_summary_and_nothing_on_standard_error(labels, tmp_path):
    done = crowdbeam("aggregate", labels, "--output", tmp_path / "run", "--runner", "FnApiRunner")
    out, err = done.communicate()
    assert (done.returncode, err) == (0, "")
    assert out.startswith("Labels\n  read")


def test_a_reader_that_goes_away_is_no_error(tmp_path):
    done = crowdbeam("simulate", "--output", tmp_path / "crowd", "--tasks", "9", "--workers", "9")
    done.stdout.close()
    assert (done.stderr.read(), done.wait()) == ("", 0)
    done.stderr.close()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_stopped_leaves_nothing(number, code, tmp_path):
    crowd, output = tmp_path / "crowd", tmp_path / "run"
    run_command("simulate", "--output", crowd, "--tasks", "100000")
    with crowdbeam("aggregate", crowd / "labels", "--output", output) as run:
        while not (output / "_staging").exists() and run.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                run.wait(0.005)
        os.kill(run.pid, number)
        out, err = run.communicate()
    assert (run.returncode, out) == (code, "")
    assert err.startswith("crowdbeam: ")
    assert err.count("\n") == 1
    assert not output.exists()


@pytest.mark.parametrize(
    ("words", "after"),
    [
        (["stream", "--source", "in"], "what was written stays"),
        (["stream", "snapshot"], "there is no new result"),
        (["nightly"], "run the night again"),
        (["ledger", "forget"], "crowdbeam ledger show"),
        (["ledger", "verify"], "there is no new result"),
    ],
)
def test_what_is_broken_off_says_what_there_is(words, after, capsys):
    assert cli._stopped([signal.SIGINT], words) == cli.INTERRUPTED
    assert after in capsys.readouterr().err

"""Where Prism is looked for; that it runs streams is shown in tests/engines."""

import os
import sys
from pathlib import Path

import pytest
from apache_beam.version import __version__ as beam_version
from command_line import run_command

from pipelines.errors import InvalidSettingError, RunError
from pipelines.streaming import prism
from pipelines.streaming.prism import prism_of, prism_server
from pipelines.streaming.runner_flags import with_streaming_flags

ON_PRISM = "--runner=PrismRunner"


def program(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n", "utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """A machine without a Prism: what is on the PATH, in the caches of engines and in Beam's is ours alone."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("CROWDBEAM_ENGINES", str(tmp_path / "engines"))
    monkeypatch.setattr(prism, "__file__", str(tmp_path / "clone" / "pipelines" / "streaming" / "prism.py"))
    monkeypatch.setattr(prism.PrismJobServer, "BIN_CACHE", str(tmp_path / "beam"))
    return tmp_path


def test_prism_is_found_in_one_place_after_the_other(nowhere):
    fetched = f"prism-v{beam_version}/prism"
    places = [
        nowhere / "beam" / f"apache_beam-v{beam_version}-prism-linux-amd64",
        nowhere / "clone" / ".cache" / "engines" / fetched,
        nowhere / "engines" / fetched,
        nowhere / "bin" / "prism",
    ]
    for place in places:
        made = program(place)
        assert prism_of([ON_PRISM]) == made, "each goes before those that are there already"
    own = program(nowhere / "own")
    assert prism_of([ON_PRISM, f"--prism_location={own}"]) == own


def test_without_a_prism_the_ways_to_one_are_told(nowhere):
    with pytest.raises(InvalidSettingError, match="There is no Prism") as told:
        prism_of([ON_PRISM])
    assert all(way in str(told.value) for way in ("`make engines`", "PATH", "--prism_location"))


def test_a_stream_without_a_prism_is_refused_before_anything_is_made(nowhere):
    (nowhere / "in").mkdir()
    done = run_command(
        "stream", "--source", nowhere / "in", "--sink", nowhere / "out", "--control", nowhere / "control"
    )
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert done.err.startswith("crowdbeam: There is no Prism")
    assert [path.name for path in nowhere.iterdir()] == ["in"]


def test_a_prism_of_another_version_is_left_alone(nowhere):
    program(nowhere / "engines" / "prism-v2.1.0" / "prism")
    with pytest.raises(InvalidSettingError, match="There is no Prism"):
        prism_of([ON_PRISM])


@pytest.mark.parametrize("place", ["missing", "folder", "file"])
def test_a_location_that_is_no_program_is_refused(place, nowhere):
    (nowhere / "folder").mkdir()
    (nowhere / "file").touch()
    with pytest.raises(InvalidSettingError, match="is no program"):
        prism_of([ON_PRISM, f"--prism_location={nowhere / place}"])


def test_an_address_from_which_nothing_can_be_fetched_is_refused(nowhere):
    with pytest.raises(InvalidSettingError, match="cannot be fetched"):
        prism_of([ON_PRISM, "--prism_location=https://127.0.0.1:9/prism.zip"])


SAYS_WHAT_IT_IS_TOLD = """#!{python}
import socket, sys
told = dict(word.lstrip("-").split("=") for word in sys.argv[1:])
sys.stderr.write(f"Prism logs at {{told['log_level']}}\\n")
sys.stderr.flush()
server = socket.create_server(("127.0.0.1", int(told["job_port"])))
while True:
    server.accept()
"""


HAS_ENDED_WHEN_ANOTHER_LISTENS = """#!{python}
import os, socket, sys
told = dict(word.lstrip("-").split("=") for word in sys.argv[1:])
until_it_ends, held = os.pipe()
if os.fork():
    os._exit(1)
os.close(held)
os.read(until_it_ends, 1)
server = socket.create_server(("127.0.0.1", int(told["job_port"])))
server.settimeout(10)
server.accept()
"""


def test_another_that_answers_at_its_port_is_not_taken_for_a_prism_that_did_not_start(tmp_path):
    path = program(tmp_path / "prism")
    Path(path).write_text(HAS_ENDED_WHEN_ANOTHER_LISTENS.format(python=sys.executable), "utf-8")
    with pytest.raises(RunError, match="Prism did not start"), prism_server([ON_PRISM], path):
        pass


def test_prism_listens_below_the_ports_of_outgoing_connections(tmp_path):
    path = program(tmp_path / "prism")
    Path(path).write_text(SAYS_WHAT_IT_IS_TOLD.format(python=sys.executable), "utf-8")
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("utf-8").split()[0])
    for _ in range(3):
        with prism_server(with_streaming_flags([ON_PRISM]), path) as flags:
            (port,) = (int(flag.rpartition(":")[2]) for flag in flags if flag.startswith("--job_endpoint="))
        assert port < first


@pytest.mark.parametrize("debug", ["", "0", "1"])
@pytest.mark.parametrize("given", [(), ("--prism_log_level=debug",)])
def test_the_log_of_prism_is_as_told_and_seen_when_debugging(debug, given, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("CROWDBEAM_DEBUG", debug)
    path = program(tmp_path / "prism")
    Path(path).write_text(SAYS_WHAT_IT_IS_TOLD.format(python=sys.executable), "utf-8")
    with prism_server(with_streaming_flags([ON_PRISM, *given]), path):
        pass
    level = "debug" if given else "warn"
    said = [line for line in capfd.readouterr().err.splitlines() if "Prism" in line]  # gRPC may speak of forks
    assert said == ([f"Prism logs at {level}"] if debug == "1" else [])


def test_no_prism_is_started_for_another_runner_or_where_one_runs(nowhere):
    assert prism_of(["--runner=PortableRunner", "--job_endpoint=localhost:8099"]) == ""
    assert prism_of([ON_PRISM, "--job_endpoint=localhost:8073"]) == ""
    assert not Path(os.environ["CROWDBEAM_ENGINES"]).exists()

"""What cannot work is said before anything runs: exit code 2, and a sentence; bad messages go to the rejects."""

import subprocess

import pytest
from fault_runs import Load, Scene, assert_exact, wait_for
from stream_runs import COMMAND, make_events, topic_rows

from pipelines.ports import free_port

N_EVENTS = 20_000
BROKEN = {
    b"{not json": "malformed-message",
    b"[1, 2]": "malformed-message",
    b"": "empty-message",
    b'{"task": "t1", "label": "c1"}': "missing-worker",
}


def refused(*words):
    """What the command says when it refuses."""
    done = subprocess.run([COMMAND, "stream", *words], capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("crowdbeam: ")
    assert last.endswith((".", "?"))
    return last


def test_a_topic_that_does_not_exist_is_refused(kafka):
    kafka.create_topic("crowd-labels", 1)
    words = ["--sink", f"kafka://{kafka.bootstrap}/never"]
    assert "did you mean 'crowd-labels'" in refused("--source", f"kafka://{kafka.bootstrap}/crowd-label", *words)


def test_a_broker_that_is_down_is_refused(tmp_path):
    source = f"kafka://127.0.0.1:{free_port()}/labels"
    assert "does not answer" in refused("--source", source, "--sink", str(tmp_path / "out"))


@pytest.mark.parametrize("sink", ["kafka://127.0.0.1:{port}/out", "postgres://me@127.0.0.1:{port}/crowd"])
def test_a_sink_that_cannot_be_reached_is_refused(sink, tmp_path):
    (tmp_path / "in").mkdir()
    said = refused("--source", str(tmp_path / "in"), "--sink", sink.format(port=free_port()))
    assert "does not answer" in said or "cannot be reached" in said


def test_broken_messages_go_to_the_rejects_and_the_stream_goes_on(request, kafka, postgres, prism, tmp_path):
    scene = Scene.of(request, kafka, postgres, tmp_path)
    events = make_events(N_EVENTS)
    with scene.stream(prism.beam_args(streaming=True)) as run:
        sent = Load(scene, events)
        sent.wait(N_EVENTS // 3)
        places = scene.send(list(BROKEN))
        sent.finish()
        assert_exact(scene, run, events, n_rejected=len(BROKEN))
        wanted = dict(zip(places, BROKEN.values(), strict=True))
        rows = wait_for("rejects", lambda: scene.rejects() if len(scene.rejects()) == len(wanted) else None)
        assert rows == wanted
        topic = topic_rows(kafka.bootstrap, f"out-{scene.name}", "rejects").values()
        assert {(row["source"], row["position"]): row["reason"] for row in topic} == wanted
        assert run.drain() == 0


def test_messages_of_an_unknown_schema_go_to_the_rejects(request, kafka, postgres, prism, tmp_path):
    scene = Scene.of(request, kafka, postgres, tmp_path)
    events = make_events(N_EVENTS)
    strange = [b"\xc3\x01" + bytes(8) + b"\x02t", b"\xc3\x01" + b"\x07" * 8 + b"\x04t1\x04w1"]
    args = [*prism.beam_args(streaming=True), "--message-format", "avro"]
    with scene.stream(args) as run:
        sent = Load(scene, events, avro=True)
        sent.wait(N_EVENTS // 3)
        places = scene.send(strange)
        sent.finish()
        assert_exact(scene, run, events, n_rejected=len(strange))
        assert scene.rejects() == dict.fromkeys(places, "unknown-schema")
        assert run.drain() == 0

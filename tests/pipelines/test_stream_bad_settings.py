"""Settings of a stream that cannot be used: one sentence each, exit code 2, and nothing left behind."""

import pytest
from command_line import run_command
from stream_options_run import option_folders


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return option_folders(tmp_path_factory.mktemp("events"))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "There is no --source; give kafka://HOST:PORT/TOPIC, pubsub://PROJECT/SUBSCRIPTION or a folder."),
        (("--source", "{}/labels"), "There is no --sink; give a folder, kafka://HOST:PORT/PREFIX or postgres://..."),
        (("--source", "{}/nowhere", "--sink", "s"), "There is no folder"),
        (("--source", "kafak://a:1/t", "--sink", "s"), "--source begins with kafak://, which is not known."),
        (("--source", "kafka://a/t", "--sink", "s"), "is no Kafka URL; write kafka://HOST:PORT/TOPIC."),
        (("+", "--sink", "s", "--sink", "s"), "--sink names a sink twice; name each once."),
        (("+", "--sink", "kafka://nowhere"), "The sink is not of the form"),
        (("+", "--sink", "{}/labels/"), "would read what is written to"),
        (("+", "--rejects", "{}/labels"), "would read what is written to"),
        (("+", "--sink", "{}/others/../labels"), "would read what is written to"),
        (("+", "--sink", "file://{}/labels"), "would read what is written to"),
        (("--source", "out/scores/*.jsonl", "--sink", "./out"), "would read what is written to ./out"),
        (("--source", "kafka://a:1,b:1/t", "--sink", "kafka://b:1/t"), "would read what is written to kafka://b:1/t"),
        (("--source", "kafka://a:1/t.scores", "--sink", "kafka://a:1/t?x=y"), "would read what is written to"),
        (("+", "--sink", "duckdb:x.duckdb"), "is an address of duckdb, which takes finished runs"),
        (("+", "--rejects", "./sink"), "Two of --sink and --rejects are one folder; give each one of its own."),
        (("+", "--control", "{}/labels"), "would read what is in --control"),
        (("+", "--control", "sink/"), "--control sink/ is a sink too; give it a folder of its own."),
        (("+", "--sink", "{}/run"), "run holds a finished run; give a folder of its own."),
        (("+", "--rejects", "{}/run"), "--rejects {}/run holds a finished run; give a folder of its own."),
        (("+", "--control", "{}/run"), "--control {}/run holds a finished run; give a folder of its own."),
        (("+", "--sink", "{}/days"), "days holds '0.csv', which no stream wrote; give a folder of its own."),
        (("+", "--control", "{}/days"), "days holds labels, '0.csv'; give a folder of its own."),
        (("+", "--message-format", "xml"), "--message-format is 'xml'; it takes json, avro."),
        (("+", "--columns", "item=task"), "--columns"),
        (("+", "--time-unit", "h"), "--time-unit is 'h'; it takes"),
        (("+", "--max-ahead", "soon"), "--max-ahead is 'soon'; it takes a time such as 30s, 15m, 12h or 7d."),
        (("+", "--from", "middle"), "--from is 'middle'; it takes earliest, latest."),
        (("+", "--group", ""), "--group is empty; give a name, or leave it out."),
        (("+", "--group", " "), "--group is empty; give a name, or leave it out."),
        (("+", "--readers", "0"), "--readers is 0; it takes a number from 1 to 1024."),
        (("+", "--readers", "two"), "--readers is 'two'; it takes a whole number."),
        (("+", "--block", "0"), "--block is 0; it takes a number from 1 to 1e+06."),
        (("+", "--bootstrap", "{}/labels"), "labels"),
        (("+", "--emit-if", "2"), "--emit-if is 2; it takes a number from 0 to 1."),
        (("+", "--task-ttl", "30"), "--task-ttl is '30', which has no unit; write one of 30s, 30m, 30h, 30d."),
        (("+", "--file-every", "0"), "--file-every is 0; it takes a number from 0.1 to 86400."),
        (("+", "--task-ttl", "-1d"), "--task-ttl is '-1d'; it takes a time such as 30s, 15m, 12h or 7d."),
        (("+", "--late", "drop"), "--late is 'drop'; it takes reject, reopen."),
        (("+", "--solve-every", "0"), "--solve-every is 0; it takes a number from 0.1 to 86400."),
        (("+", "--settle-after", "0"), "--settle-after is 0; it takes a number from 0.1 to 86400."),
        (("+", "--shards", "5000"), "--shards is 5000; it takes a number from 1 to 1024."),
        (("+", "--weights", "heavy"), "--weights is 'heavy'; it takes"),
        (("+", "--prior-skills", "{}/nowhere.csv"), "nowhere.csv"),
        (("+", "--runner", "DirectRunner"), "--runner=DirectRunner cannot run a stream; use --runner=PrismRunner"),
        (("+", "--taks-ttl", "7d"), "--taks-ttl is no option of crowdbeam or Beam; did you mean --task-ttl?"),
        (("+", "--output", "o"), "--output is of snapshot, not of run. Leave it out."),
        (("+", "--overwrite"), "--overwrite is of snapshot, not of run. Leave it out."),
        (("+", "--output-format", "csv"), "--output-format is of snapshot, not of run. Leave it out."),
        (("snapshot", "--sink", "s", "--control", "c"), "--sink is of run, not of snapshot. Leave it out."),
        (("snapshot", "--from", "latest", "--control", "c"), "--from is of run, not of snapshot. Leave it out."),
        (
            ("snapshot", "--confidence", "0.5", "--control", "c"),
            "--confidence is of run, not of snapshot. Leave it out.",
        ),
        (("stop", "--output", "o", "--control", "c"), "--output is of snapshot, not of stop. Leave it out."),
        (("stop", "--shards", "4", "--control", "c"), "--shards is of run, not of stop. Leave it out."),
        (("stop", "--runner=PrismRunner", "--control", "c"), "--runner is of run, not of stop. Leave it out."),
        (("pause",), "'pause' is no action of crowdbeam stream; it takes run, snapshot, stop."),
        (("stop",), "crowdbeam stream stop needs the --control folder of a running stream."),
        (("snapshot", "--output", "o"), "crowdbeam stream snapshot needs the --control folder of a running stream."),
        (("snapshot", "--control", "{}/labels", "--output", "{}/o"), "is no control folder of a stream"),
        (("stop", "--control", "{}/labels"), "is no control folder of a stream"),
    ],
)
def test_bad_settings_are_refused_with_one_sentence_before_anything_runs(
    words, sentence, folder, tmp_path, monkeypatch
):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "tmp").mkdir()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prism").touch(0o755)  # whether the machine has one makes no difference
    monkeypatch.setenv("PATH", str(tmp_path))
    start = ("--source", "{}/labels", "--sink", "sink") if words[:1] == ("+",) else ()
    told = [word.replace("{}", str(folder)) for word in (*start, *words) if word != "+"]
    if words[:1] == ("+",) and "--sink" in words:
        told = told[:2] + told[4:]
    done = run_command("stream", *told)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("crowdbeam: ")
    assert sentence.replace("{}", str(folder)) in done.err
    assert done.err.count("\n") == 1
    assert "Traceback" not in done.err
    assert list((tmp_path / "tmp").iterdir()) == [], "nothing is left"

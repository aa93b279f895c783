import errno
import logging
import os
import socket
import subprocess
import sys
from types import SimpleNamespace

import pytest

from pipelines.errors import InputError, InvalidSettingError
from pipelines.locking import LOCK
from pipelines.streaming import control as control_module
from pipelines.streaming import supervise
from pipelines.streaming.control import DESCRIPTION, OWNER, Control, held, owned, write_json
from pipelines.streaming.envelopes import DRAIN, SNAPSHOT, Marker
from pipelines.streaming.settings import StreamSettings

HOLDER = """
import sys
from pipelines.errors import InvalidSettingError
from pipelines.streaming.control import Control, held
sys.stdin.readline()
try:
    with held(Control(sys.argv[1])):
        print("in", flush=True)
        sys.stdin.readline()
except InvalidSettingError:
    print("out", flush=True)
"""


@pytest.fixture
def control(tmp_path):
    return Control(str(tmp_path / "control"))


def test_requests_come_in_the_order_of_their_ids(there):
    control = there
    markers = [Marker(SNAPSHOT, f"id-{number}", "/somewhere") for number in (3, 1, 2)]
    for marker in markers:
        control.request(marker)
    assert control.requests() == sorted(markers, key=lambda marker: marker.id)


@pytest.fixture
def there(control):
    """A control folder that was made."""
    os.makedirs(control.folder)
    return control


@pytest.fixture
def when_told():
    """Gives what is logged, and has functions called, one at each line."""
    said, first = [], []
    handler = logging.Handler()

    def emit(record):
        said.append(record.getMessage())
        if first:
            first.pop(0)()

    handler.emit = emit
    log = logging.getLogger("pipelines")
    log.addHandler(handler)
    yield said, first
    log.removeHandler(handler)


def away(control):
    """Moves the folder away; gives what brings it back."""
    aside = f"{control.folder}-away"
    os.rename(control.folder, aside)
    return lambda: os.rename(aside, control.folder)


def test_while_the_folder_is_away_what_was_asked_for_holds_and_that_is_told_once(there, when_told):
    marker, later = Marker(DRAIN, "a"), Marker(SNAPSHOT, "b", "/somewhere")
    there.request(marker)
    there.tell({"events": 1})
    assert there.requests() == [marker]
    back = away(there)
    for _ in range(3):
        assert there.requests() == [marker]
        there.tell({"events": 2})
        assert there.n_finished(marker) == 0
        assert there.status() is None
    assert len(when_told[0]) == 2, when_told
    back()
    there.request(later)
    assert there.requests() == [marker, later]
    assert there.status()["events"] == 1


def test_a_stream_that_is_to_end_while_its_folder_is_away_is_asked_when_it_is_back(there, when_told):
    back = away(there)
    when_told[1].extend((lambda: None, back))  # who looks for requests says it first, then who has one
    plan = SimpleNamespace(control=there, shards=1, sinks=(), rejects=None)
    supervise._drained(None, plan, lambda status, waits: None)
    assert [marker.kind for marker in there.requests()] == [DRAIN]


def test_waits_are_those_that_somebody_told_of_lately_each_once(there, monkeypatch):
    there.tell_waits(["Kafka is away", "The sink is away"])
    with monkeypatch.context() as other:
        other.setattr(control_module.os, "getpid", lambda: 1)
        there.tell_waits(["Kafka is away"])
    assert there.waits() == ["Kafka is away", "The sink is away"]
    there.tell_waits([])
    assert there.waits() == ["Kafka is away"]
    now = control_module.time.time()
    monkeypatch.setattr(control_module.time, "time", lambda: now + 61)
    assert there.waits() == []


@pytest.mark.parametrize("odd", ["{", "[]", '{"at_s": "now"}', '{"at_s": 9e9}'])
def test_a_file_among_the_waits_that_nobody_of_ours_wrote_is_passed_over(there, odd):
    there.tell_waits(["The sink is away"])
    with open(there.path("waiting", "odd.json"), "w", encoding="utf-8") as file:
        file.write(odd)
    assert there.waits() == ["The sink is away"]


def test_a_new_stream_waits_for_nothing_that_an_earlier_one_did(there):
    there.tell_waits(["The sink is away"])
    there.clear()
    assert there.waits() == []


def test_while_the_folder_is_away_what_was_waited_for_holds(there):
    there.tell_waits(["The sink is away"])
    assert there.waits() == ["The sink is away"]
    back = away(there)
    there.tell_waits([])
    assert there.waits() == ["The sink is away"]
    back()
    there.tell_waits([])
    assert there.waits() == []


def test_the_end_waits_for_the_answers_of_all_shards_and_for_the_skills_in_every_sink(there):
    marker = Marker(DRAIN, "d")
    there.request(marker)
    open_ones = list(range(6))  # two sinks, each of two shards and of the skills

    def finish_one(status, waits):
        there.finish(marker, open_ones.pop(0))

    plan = SimpleNamespace(control=there, shards=2, sinks=(1, 2), rejects=None)
    supervise._drained(SimpleNamespace(state=lambda: "RUNNING"), plan, finish_one)
    assert open_ones == []


def test_what_is_done_is_told_when_the_folder_is_back(there, when_told):
    marker = Marker(DRAIN, "a")
    when_told[1].append(away(there))
    there.finish(marker, 0)
    assert there.n_finished(marker) == 1
    assert len(when_told[0]) == 1


def test_a_status_that_cannot_be_read_is_told_and_harms_nobody(there, when_told):
    os.mkdir(there.path("status.json"))
    assert there.status() is None
    there.tell({"events": 1})
    assert ["Is a directory" in line for line in when_told[0]] == [True, True]


@pytest.mark.parametrize(
    "odd",
    [
        b"{torn",
        b"\xff",
        b"[1]",
        b'{"kind": "dance", "id": "d"}',
        b'{"kind": "drain"}',
        b'{"kind": "drain", "id": "../d"}',
        b'{"kind": "drain", "id": "d", "sender": "me"}',
        b'{"kind": ["drain"], "id": "d"}',
    ],
)
def test_what_is_no_request_is_told_once_and_left_alone(odd, there, when_told):
    marker = Marker(DRAIN, "good")
    there.request(marker)
    with open(there.path("requests", "a.json"), "wb") as file:
        file.write(odd)
    assert [there.requests() for _ in range(2)] == [[marker], [marker]]
    (told,) = when_told[0]
    assert "a.json holds no request to a stream and is left alone" in told


def test_a_request_may_have_fields_that_are_not_known(there, when_told):
    write_json(there.path("requests", "a.json"), {"kind": SNAPSHOT, "id": "s", "folder": "run", "by": "me"})
    assert there.requests() == [Marker(SNAPSHOT, "s", "run")]
    assert not when_told[0]


def test_a_description_that_cannot_be_read_is_told_with_the_cause(there):
    os.mkdir(there.path(DESCRIPTION))
    with pytest.raises(InputError, match=r"--control .*control cannot be read: .*Is a directory"):
        there.described()


def test_a_process_that_has_the_number_of_an_old_owner_does_not_keep_a_stream_out(control):
    write_json(control.path(OWNER), {"pid": os.getppid(), "host": socket.gethostname(), "outlived": False})
    with held(control):
        pass


def test_where_there_are_no_locks_the_noted_owner_keeps_a_stream_out(control, monkeypatch):
    def flock(lock, how):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", flock)
    with held(control):
        pass
    write_json(control.path(OWNER), {"pid": os.getppid(), "host": socket.gethostname(), "outlived": False})
    with pytest.raises(InvalidSettingError, match=rf"A stream \(process {os.getppid()}\) is at work"), held(control):
        pass


def test_a_folder_that_is_not_there_yet_has_no_requests_and_no_status(control):
    assert control.requests() == []
    assert control.status() is None
    assert control.n_finished(Marker(DRAIN, "x")) == 0


def test_a_request_that_is_taken_back_is_gone(there):
    control = there
    marker = Marker(SNAPSHOT, "one")
    control.request(marker)
    control.withdraw(marker)
    assert control.requests() == []


def test_a_new_stream_finds_nothing_of_an_earlier_one(there):
    control = there
    for marker in (Marker(DRAIN, "old"), Marker(SNAPSHOT, "old too")):
        control.request(marker)
        control.finish(marker, 0)
    control.tell({"events": 1})
    control.clear()
    assert (control.requests(), control.status(), control.n_finished(Marker(DRAIN, "old"))) == ([], None, 0)


def test_the_status_is_what_was_told_last_and_when(there):
    control = there
    control.tell({"events": 1})
    control.tell({"events": 2, "worst_workers": [{"worker": "wé"}]})
    status = control.status()
    assert (status["events"], status["worst_workers"]) == (2, [{"worker": "wé"}])
    assert status["at_s"] > 0


def test_those_who_have_done_what_was_asked_for_are_counted_once_each(there):
    control = there
    asked, other = Marker(DRAIN, "drain-1"), Marker(DRAIN, "drain-2")
    for sender in (0, 1, 1):
        control.finish(asked, sender)
    control.finish(other, 0)
    assert control.n_finished(asked) == 2


def a_dead_process():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.mark.parametrize("outlived", [False, True])
def test_a_request_to_a_stream_whose_command_was_killed_is_refused_unless_its_job_lives_on(control, outlived):
    owner = {"pid": a_dead_process(), "host": socket.gethostname(), "outlived": outlived}
    write_json(control.path(OWNER), owner)
    if outlived:
        control.refuse_if_gone()
        return
    with pytest.raises(InputError, match=r"No stream is at work in --control .*: the last one has ended"):
        control.refuse_if_gone()


def test_a_request_to_a_stream_that_has_ended_is_refused(control):
    with owned(control, outlived=True):
        control.refuse_if_gone()
    with pytest.raises(InputError, match="has ended"):
        control.refuse_if_gone()


def test_a_command_of_another_machine_may_be_alive(control):
    write_json(control.path(OWNER), {"pid": a_dead_process(), "host": "another", "outlived": False})
    control.refuse_if_gone()


def holder(control):
    """A process that takes the folder at the first line it is told, and gives it up at the second."""
    command = [sys.executable, "-c", HOLDER, control.folder]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def tell(process):
    process.stdin.write("\n")
    process.stdin.flush()


def test_of_streams_that_start_at_once_only_one_gets_the_folder(control):
    processes = [holder(control) for _ in range(2)]
    for process in processes:
        tell(process)
    said = [process.stdout.readline().strip() for process in processes]
    for process in processes:
        process.communicate("\n", timeout=60)
    assert sorted(said) == ["in", "out"]


def test_a_stream_is_refused_before_anything_else_while_another_has_the_folder(control, tmp_path):
    process = holder(control)
    tell(process)
    assert process.stdout.readline() == "in\n"
    settings = StreamSettings(str(tmp_path / "no-such-folder"), (str(tmp_path / "sink"),), control.folder)
    with pytest.raises(InvalidSettingError, match=rf"A stream \(process {process.pid}\) is at work in --control"):
        supervise.run(settings, [], lambda status, waits: None)
    process.kill()
    process.communicate(timeout=60)
    with held(control):
        assert (tmp_path / "control" / LOCK).exists(), "a lock ends with its process"


@pytest.mark.parametrize(
    ("source", "bootstrap", "runner"),
    [("no-such-place", "", "Prism"), ("", "no-such-place", "Prism"), ("", "", "Direct")],
)
def test_a_stream_that_is_refused_leaves_no_control_folder(control, tmp_path, source, bootstrap, runner):
    (tmp_path / "source").mkdir()
    settings = StreamSettings(
        str(tmp_path / (source or "source")),
        (str(tmp_path / "sink"),),
        control.folder,
        bootstrap=bootstrap and str(tmp_path / bootstrap),
    )
    with pytest.raises((InputError, InvalidSettingError), match=r"no-such-place|DirectRunner cannot run"):
        supervise.run(settings, [f"--runner={runner}Runner", "--job_endpoint=127.0.0.1:9"], lambda status, waits: None)
    assert not (tmp_path / "control").exists()


def test_a_control_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("", "utf-8")
    with (
        pytest.raises(InvalidSettingError, match="cannot be used: Not a directory"),
        held(Control(str(tmp_path / "file" / "control"))),
    ):
        pass

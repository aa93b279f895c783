"""`make stream-demo`, but short: it says how it went, and leaves nothing behind, also when it is interrupted."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def started(folder, *words):
    """The demo; all that it leaves, and all that its processes name, is in `folder`."""
    return subprocess.Popen(
        [sys.executable, "-m", "examples.stream_demo", *words],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def processes_in(folder):
    """Command lines of processes that name the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if str(folder) in line:
            found.append(line)
    return found


def assert_nothing_is_left(folder):
    assert list(folder.iterdir()) == []
    until = time.monotonic() + 10
    while (left := processes_in(folder)) and time.monotonic() < until:
        time.sleep(0.1)
    assert left == []


@pytest.mark.usefixtures("kafka", "prism")  # skipped where they are missing; the demo starts its own
def test_a_short_demo_finds_better_answers_than_majority_vote_and_cleans_up(tmp_path):
    demo = started(tmp_path, "--seconds", "8", "--rate", "1500", "--workers", "60")
    out, err = demo.communicate(timeout=300)
    assert demo.returncode == 0, err
    facts = dict(re.findall(r"^  (\S.*?)  +(\S.*)$", out, re.M))
    sent, read, rejected = (
        int(facts[name].replace(",", "")) for name in ("messages sent", "events read, each once", "rejected")
    )
    assert sent == read + rejected
    ours, majority = (float(facts[f"error of {name}"].rstrip(" %")) for name in ("the answers", "majority vote"))
    assert ours < majority
    found, spammers = map(int, facts["found (skill surely below 0.25)"].split(" of "))
    assert spammers == 20
    assert found > spammers / 2
    assert facts["honest workers accused"] == "0"
    for reason in ("malformed-message", "missing-worker", "unknown-op", "time-in-the-future", "malformed-time"):
        assert f"\n  {reason} " in out
    assert re.search(r"topic crowd\.scores, [\d,]+ rows", out)
    assert re.search(r"^  5 s .* events .*waiting .*model .*error .*majority vote .*spammers found", out, re.M)
    assert_nothing_is_left(tmp_path)


@pytest.mark.usefixtures("kafka", "prism")
def test_an_interrupted_demo_cleans_up(tmp_path):
    demo = started(tmp_path, "--seconds", "60", "--rate", "500")
    for line in demo.stdout:
        if " events " in line:
            break
    demo.send_signal(signal.SIGINT)
    _, err = demo.communicate(timeout=60)
    assert (demo.returncode, err) == (130, "stream-demo: interrupted; everything it had started has ended.\n")
    assert_nothing_is_left(tmp_path)

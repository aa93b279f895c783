"""`make stream-demo`: Kafka, Prism and `crowdbeam stream` for a minute, on a crowd whose truth is known."""

import argparse
import json
import math
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.live import Live

from engines.errors import EngineError
from engines.kafka import Kafka
from engines.prism import Prism
from engines.processes import Process, start
from examples.stream_demo.crowd import MajorityVote, Script, write_script
from examples.stream_demo.feed import Feeder
from examples.stream_demo.findings import Findings
from examples.stream_demo.screen import View, line_of, screen_of
from examples.stream_demo.summary import summary_of
from pipelines.terminal import show_blocks

TOPIC, PREFIX, PARTITIONS = "labels", "crowd", 4
_LINE_EVERY_S = 5.0
_START_S = 90.0
_CATCH_UP_S = 60.0
_DRAIN_S = 120.0
_STEP_S = 0.2
_RATE_OVER_S = 3.0


class DemoError(Exception):
    """The demo cannot go on; the message is a sentence."""


class Demo:
    """One run: the stream as a process, a feeder, the findings, and what is shown of them."""

    def __init__(self, folder: Path, kafka: Kafka, prism: Prism, script: Script, args: argparse.Namespace) -> None:
        self.source, self.sink = f"kafka://{kafka.bootstrap}/{TOPIC}", f"kafka://{kafka.bootstrap}/{PREFIX}"
        self.control = folder / "control"
        self.view = View(args.seconds)
        self._is_terminal = sys.stdout.isatty()
        self.findings = Findings(kafka.bootstrap, PREFIX, script)
        self.view.verdicts = self.findings.verdicts()
        self.majority = MajorityVote(script)
        self.feeder = Feeder(kafka.bootstrap, TOPIC, script, args.rate)
        kafka.create_topic(TOPIC, PARTITIONS)
        words = ["stream", "--source", self.source, "--sink", self.sink, "--control", str(self.control)]
        command = [str(Path(sys.executable).parent / "crowdbeam"), *words, "--quiet", *prism.beam_args(streaming=True)]
        self.stream: Process = start("stream", command, folder, env={"TMPDIR": str(folder)})
        self._began: float | None = None
        self._marks: list[tuple[float, int]] = []
        self._told_at = 0.0

    def run(self) -> None:
        """From the first label to the last answer."""
        self._wait_for_the_stream()
        self._began = time.monotonic()
        self.view.phase = "labels arrive"
        self.feeder.start()
        while not self.feeder.done:
            self._look()
        self.view.phase = "reads what is left"
        until = time.monotonic() + _CATCH_UP_S
        while self.view.status.get("events", 0) + self._n_rejected() < self.feeder.n_sent and time.monotonic() < until:
            self._look()
        self.view.phase = "was asked to end, and answers all it has read"
        self._drain()
        until = time.monotonic() + _CATCH_UP_S
        while not self.findings.read(_STEP_S) and time.monotonic() < until:
            pass
        self._see()

    def end(self) -> None:
        """Lets go of everything, whatever happened."""
        self.feeder.end()
        if self.feeder.ident is not None:
            self.feeder.join()
        self.stream.kill()
        self.findings.close()

    def _wait_for_the_stream(self) -> None:
        """Until the stream has made its topics: then it can read."""
        until = time.monotonic() + _START_S
        while True:
            self._check()
            try:
                return self.findings.begin()
            except KeyError:
                if time.monotonic() > until:
                    raise DemoError(f"The stream did not begin in {_START_S:g} s; {self._log()}") from None
                time.sleep(_STEP_S)

    def _drain(self) -> None:
        self.stream.popen.send_signal(signal.SIGTERM)
        until = time.monotonic() + _DRAIN_S
        while self.stream.alive:
            self._look(ending=True)
            if time.monotonic() > until:
                raise DemoError(f"The stream did not end in {_DRAIN_S:g} s; {self._log()}")
        if self.stream.popen.returncode:
            raise DemoError(f"The stream ended with {self.stream.popen.returncode}; {self._log()}")

    def _look(self, ending: bool = False) -> None:
        """Takes what is new, and shows it."""
        if not ending:
            self._check()
        self.findings.read(_STEP_S)
        self._see()
        if not self._is_terminal and self.view.seconds >= self._told_at + _LINE_EVERY_S:
            self._told_at = self.view.seconds // _LINE_EVERY_S * _LINE_EVERY_S
            say(line_of(self.view))

    def _see(self) -> None:
        view, findings = self.view, self.findings
        now = time.monotonic()
        view.seconds = now - (self._began or now)
        view.status = self._status() or view.status
        self._marks = [mark for mark in self._marks if mark[0] > now - _RATE_OVER_S]
        self._marks.append((now, view.status.get("events", 0)))
        (then, before), (_, after) = self._marks[0], self._marks[-1]
        view.rate = (after - before) / (now - then) if now - then > 1 else view.rate
        view.n_sent = self.feeder.n_sent
        self.majority.take(view.status.get("events", 0))
        view.error, view.majority = findings.error_of_answers(), findings.error_of(self.majority.answers())
        view.note_errors()
        view.verdicts = findings.verdicts()
        view.worst = [(row, findings.is_spammer(row["worker"])) for row in findings.worst(5)]
        view.n_answers, view.n_rejects = findings.n_answers(), len(findings.rejects)
        view.reject = findings.rejects[-1] if findings.rejects else None

    def _status(self) -> dict[str, Any]:
        """What the stream says of itself; the file is replaced at once, so it is whole or not there."""
        try:
            found: dict[str, Any] = json.loads((self.control / "status.json").read_text("utf-8"))
        except FileNotFoundError:
            return {}
        return found

    def _n_rejected(self) -> int:
        return int(self.view.status.get("counts", {}).get("events_rejected", 0))

    def _check(self) -> None:
        if not self.stream.alive:
            raise DemoError(f"The stream ended with {self.stream.popen.returncode}; {self._log()}")
        if self.feeder.error:
            raise DemoError(self.feeder.error)

    def _log(self) -> str:
        lines = self.stream.log.read_text("utf-8", "replace").strip().splitlines()
        return f"it said last: {lines[-1] if lines else 'nothing'}"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the demo; 0 when the stream has ended in order."""
    parser = argparse.ArgumentParser("python -m examples.stream_demo", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long labels are sent (default: %(default)g)")
    parser.add_argument("--rate", type=float, default=3000.0, help="labels a second (default: %(default)g)")
    parser.add_argument("--workers", type=int, default=200, help="a third of them spammers (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the crowd (default: %(default)s)")
    args = parser.parse_args(argv)
    try:
        with _ends_in_order():
            run(args)
    except (DemoError, EngineError) as error:
        sys.stderr.write(f"stream-demo: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("stream-demo: interrupted; everything it had started has ended.\n")
        return 130
    return 0


def run(args: argparse.Namespace) -> None:
    """Starts everything, runs the demo, and leaves nothing behind."""
    script = write_script(int(args.seconds * args.rate), args.workers, np.random.default_rng(args.seed))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="crowdbeam-demo-")))
        stack.callback(signal.signal, signal.SIGINT, signal.SIG_IGN)  # the way out is not to be interrupted again
        say(f"{args.workers} workers, {len(script.spammers)} of them spammers, label {len(script.truth):,} tasks.")
        say("Kafka starts ...")
        kafka = stack.enter_context(Kafka(folder / "kafka"))
        say("Prism and the stream start ...")
        prism = stack.enter_context(Prism(folder / "prism"))
        demo = Demo(folder, kafka, prism, script, args)
        stack.callback(demo.end)
        with _shown(demo.view):
            demo.run()
        say("")
        show_blocks(summary_of(demo.view, demo.findings, demo.source, demo.sink))
        if math.isnan(demo.view.error):
            raise DemoError("The stream gave no answer.")


def _shown(view: View) -> Any:
    if not sys.stdout.isatty():
        return nullcontext()
    console = Console(highlight=False)
    return Live(get_renderable=lambda: screen_of(view), console=console, refresh_per_second=4, transient=True)


@contextmanager
def _ends_in_order() -> Iterator[None]:
    """SIGTERM and SIGHUP end the demo as Ctrl-C does."""

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # SIGINT too: a shell may have had it ignored
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def say(text: str) -> None:
    """Writes a line, now."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

"""`crowdbeam`: the commands, their exit codes, and what is said when something goes wrong.

Exit codes: 0 done; 1 the run failed; 2 bad usage, settings or inputs, and nothing was run; 3 the run finished, but
there was no usable label; 10 to 20 a gate of --fail-if has tripped; 130 interrupted; 143 ended by SIGTERM.
"""

import atexit
import difflib
import errno
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from types import FrameType
from typing import Any, NoReturn

import crowdcore
from pipelines.arguments import CommandParser, parse_arguments
from pipelines.debugging import DEBUG_VARIABLE, is_debugging
from pipelines.errors import CrowdbeamError, InputError, InvalidSettingError
from pipelines.lean import start_lean
from pipelines.terminal import write_out

COMMANDS = {
    "aggregate": "turn files of labels into worker skills and task answers",
    "stream": "keep skills and answers current while labels arrive",
    "nightly": "add the new labels of a night to a ledger, and bring warehouses up to date",
    "ledger": "look at a ledger, check it, go back, make it smaller, forget a worker",
    "load": "load a finished run into a warehouse, exactly once",
    "simulate": "make up a crowd with a known truth, to try things on",
    "evaluate": "compare the answers of a run with the truth, and with majority vote",
    "compare": "try every method on one dataset whose truth is known",
    "reproduce": "run the paper's experiments again, its figures beside ours",
}
_WITHOUT_BEAM = ("nightly", "ledger")  # roads of their own, which start as lean
DONE, FAILED, REFUSED, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143
_MESSAGE_CHARACTERS = 600
_OF_IMPORTS, _SOON_S = "<frozen importlib", 0.01
_CHANGES_LEDGER = frozenset(("rollback", "compact", "forget"))
_AFTER = {
    "nightly": "run the night again",
    "stream": "what was written stays, and not all that was read is answered; start the stream again",
}
_LEDGER_AFTER = (
    "crowdbeam ledger show tells which version holds. If it is a new one, any other command on the ledger finishes the "
    "removal of earlier ones; if not, run this one again"
)
_USAGE = """\
usage: crowdbeam COMMAND ...

Crowd labels into worker skills and task answers, with Apache Beam.

commands:
{commands}

  crowdbeam COMMAND --help   all that a command takes
  crowdbeam --version

examples:
  crowdbeam simulate --output crowd
  crowdbeam aggregate crowd/labels --output run
  crowdbeam evaluate run --truth crowd/truth.csv

exit codes:
    0  done
    1  the run failed
    2  bad usage, settings or inputs; nothing was run
    3  the run finished, but there was no usable label
   10  and up to 20: a gate of --fail-if has tripped; `crowdbeam aggregate --help` lists them
  130  interrupted (Ctrl-C), 143 ended (SIGTERM)
"""


class _StoppedError(BaseException):
    """A signal has come; no `Exception`, so that nothing on the way takes it for a failure."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `crowdbeam` with the given arguments, or those of the process, and returns the exit code."""
    code = _guarded(list(sys.argv[1:] if argv is None else argv))
    if argv is None:
        _leave(code)
    return code


def _leave(code: int) -> NoReturn:
    """Ends the process at once: Python would take a third of a second to free what the system frees anyway.

    After a signal, threads that are still at work would even keep it alive until they have finished.
    """
    with suppress(BrokenPipeError):
        sys.stdout.flush()
    sys.stderr.flush()
    if code not in (INTERRUPTED, TERMINATED):
        atexit._run_exitfuncs()  # job servers that Beam started end here
    os._exit(code)


def _guarded(argv: list[str]) -> int:
    """The exit code, whatever happens; what happened is said in a sentence."""
    signals: list[int] = []
    try:
        with _signals_raise(signals):
            return _dispatch(argv)
    except (InvalidSettingError, InputError) as error:
        return _say(str(error), REFUSED)
    except CrowdbeamError as error:
        return _say(str(error), FAILED)
    except (_StoppedError, KeyboardInterrupt):
        return _stopped(signals, argv)
    except Exception as error:  # noqa: BLE001 - the top: whatever goes wrong is told in a sentence, not a traceback
        if signals:  # Beam wraps what a signal raises inside a step
            return _stopped(signals, argv)
        if is_debugging():
            traceback.print_exc()
        return _say(f"{_sentence(error, argv[:1])} Set {DEBUG_VARIABLE}=1 for the traceback.", FAILED)


def _stopped(signals: list[int], argv: list[str]) -> int:
    road = "" if argv[:1] == ["stream"] and {"snapshot", "stop"}.intersection(argv) else "".join(argv[:1])
    after = _AFTER.get(road, "there is no new result")
    if argv[:1] == ["ledger"] and not _CHANGES_LEDGER.isdisjoint(argv):
        after = _LEDGER_AFTER
    if signal.SIGTERM in signals:
        return _say(f"Ended by SIGTERM; {after}.", TERMINATED)
    return _say(f"Interrupted; {after}.", INTERRUPTED)


def _dispatch(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        write_out(_usage())
        return DONE
    if argv[0] == "--version":
        write_out(f"crowdbeam {crowdcore.__version__}")
        return DONE
    name, rest = argv[0], argv[1:]
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(COMMANDS)}."
        raise InvalidSettingError(f"{name!r} is no command of crowdbeam; {hint}")
    command: Any = import_module(f"pipelines.commands.{name}")
    parser: CommandParser = command.build_parser()
    if "-h" in rest or "--help" in rest:
        write_out(command.help_of(rest) if hasattr(command, "help_of") else parser.format_help())
        return DONE
    _silence_libraries()
    if command.TAKES_BEAM_OPTIONS or name in _WITHOUT_BEAM:
        start_lean(streams=name == "stream", embedded=not any(arg.startswith("--runner") for arg in rest))
    args, beam_args = parse_arguments(parser, rest, _beam_options if command.TAKES_BEAM_OPTIONS else None)
    code: int = command.run(args, beam_args)
    return code


def _usage() -> str:
    return _USAGE.format(commands="\n".join(f"  {name:<12}{what}" for name, what in COMMANDS.items()))


def _beam_options(argv: Sequence[str]) -> Any:
    from pipelines.beam_options import beam_options

    return beam_options(argv)


def _silence_libraries() -> None:
    """Keeps the log of Beam and gRPC off the terminal; with the debug variable set, shows it."""
    if is_debugging():
        logging.basicConfig(level=logging.INFO)
        return
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    os.environ.setdefault("GLOG_minloglevel", "3")
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(logging.NullHandler())


@contextmanager
def _signals_raise(received: list[int]) -> Iterator[None]:
    """Makes SIGINT and SIGTERM exceptions, so that a run removes what it has not finished, and notes them.

    Not in the middle of an import: Python's lock would stay taken, and threads that import would be waited for forever.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if frame is None or not frame.f_code.co_filename.startswith(_OF_IMPORTS):
            raise _StoppedError
        again.append(threading.Timer(_SOON_S, os.kill, (os.getpid(), number)))
        again[-1].start()

    again: list[threading.Timer] = []
    before = {number: signal.signal(number, leave) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for timer in again:
            timer.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)


def _say(sentence: str, code: int) -> int:
    sys.stderr.write(f"crowdbeam: {' '.join(sentence.split())}\n")
    return code


def _sentence(error: Exception, command: list[str]) -> str:
    """The type and text of an unexpected error; of a traceback in the text, as Beam makes them, the last line."""
    text = str(error).strip()
    if "Traceback (most recent call last)" in text:
        text = text.splitlines()[-1]
    if os.strerror(errno.ENOSPC) in text:
        if command == ["nightly"]:  # outputs and --lineage tell of theirs themselves
            return "The disk of the ledger is full; make room on it, and run the night again."
        return "The disk is full; make room, or give an --output on another disk."
    text = " ".join(text.split())[:_MESSAGE_CHARACTERS].rstrip(".")
    kind = type(error).__name__
    return f"{text}." if text.startswith(f"{kind}:") else f"{kind}: {text}."

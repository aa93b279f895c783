"""`python -m engines`: fetch the engines; start and stop Flink and Kafka for a person to use."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from engines.errors import EngineError
from engines.fetch import ENGINES, fetch
from engines.processes import LOOPBACK, running, stop_by_pid_files
from engines.versions import cache_folder

_REST, _JOBS, _POOL, _KAFKA = 8081, 8099, 50000, 9092


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; 0 when it is done, 1 when it is not."""
    parser = argparse.ArgumentParser("python -m engines", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("fetch", help="fetch what is missing")
    one.add_argument("engines", nargs="*", default=["all"], help=f"{', '.join(ENGINES)} (default: all)")
    for name, what in (("up", "start an engine, until it is stopped"), ("down", "stop it")):
        commands.add_parser(name, help=what).add_argument("engine", choices=["flink", "kafka"])
    args = parser.parse_args(argv)
    if args.command == "fetch":
        return _fetch(ENGINES if "all" in args.engines else args.engines)
    return _guarded(lambda: (_up if args.command == "up" else _down)(args.engine))


def _fetch(wanted: Sequence[str]) -> int:
    """Fetches each, also when one before it cannot be had."""
    return max([_guarded(lambda engine=engine: fetch(engine, _say)) for engine in wanted])  # type: ignore[misc]


def _guarded(action: Callable[[], object]) -> int:
    try:
        action()
    except EngineError as error:
        sys.stderr.write(f"engines: {error}\n")
        return 1
    return 0


def _up(engine: str) -> None:
    folder = _folder(engine)
    if running(folder):
        _say(f"{engine} runs already; stop it with: make {engine}-down")
        return
    fetch(engine, _say)
    if engine == "kafka":
        _start_kafka(folder)
    else:
        _start_flink(folder)
    _say(f"Data and logs: {folder}\nStop it with: make {engine}-down")


def _start_kafka(folder: Path) -> None:
    from engines.kafka import Kafka

    kafka = Kafka(folder, _KAFKA, guarded=False)
    try:
        kafka.start()
    except EngineError:
        kafka.stop()
        raise
    _say(f"Kafka serves at {kafka.bootstrap}")


def _start_flink(folder: Path) -> None:
    from engines.flink import Flink
    from engines.flink_settings import FlinkPorts

    flink = Flink(folder, ports=FlinkPorts(rest=_REST, job_endpoint=_JOBS, pool=_POOL), guarded=False)
    try:
        flink.start()
    except EngineError:
        flink.stop()
        raise
    _say(f"Flink runs: http://{LOOPBACK}:{_REST}\nBeam flags:\n  {' '.join(flink.beam_args())}")


def _down(engine: str) -> None:
    stopped = stop_by_pid_files(_folder(engine))
    _say(f"Stopped {', '.join(stopped)}." if stopped else f"{engine} did not run.")


def _folder(engine: str) -> Path:
    return cache_folder() / "running" / engine


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

"""`python -m engines`: fetch the engines; start and stop Flink and Kafka for a person to use."""

import argparse
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from engines.errors import EngineError
from engines.fetch import ENGINES, fetch
from engines.processes import running, stop_by_pid_files
from engines.versions import cache_folder
from pipelines.ports import LOOPBACK

_PORTS = (
    ("broker", 9092, "of Kafka"),
    ("rest", 8081, "of Flink's page and REST service"),
    ("job-endpoint", 8099, "of Beam's job server"),
    ("pool", 50000, "of the Python workers"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; 0 when it is done, 1 when it is not."""
    parser = argparse.ArgumentParser("python -m engines", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("fetch", help="fetch what is missing")
    one.add_argument("engines", nargs="*", default=["all"], help=f"{', '.join(ENGINES)} (default: all)")
    one = commands.add_parser("up", help="start an engine, until it is stopped")
    one.add_argument("engine", choices=["flink", "kafka"])
    for name, port, what in _PORTS:
        one.add_argument(f"--{name}", type=int, default=port, metavar="PORT", help=f"{what} (default: %(default)s)")
    commands.add_parser("down", help="stop it").add_argument("engine", choices=["flink", "kafka"])
    args = parser.parse_args(argv)
    if args.command == "fetch":
        return _fetch(ENGINES if "all" in args.engines else args.engines)
    return _guarded(lambda: _up(args) if args.command == "up" else _down(args.engine))


def _fetch(wanted: Sequence[str]) -> int:
    """Fetches all at once, for most of it is waiting; what cannot be had does not keep the others."""
    with ThreadPoolExecutor(len(wanted)) as pool:
        return max(pool.map(lambda engine: _guarded(lambda: fetch(engine, _say)), wanted))


def _guarded(action: Callable[[], object]) -> int:
    try:
        action()
    except EngineError as error:
        sys.stderr.write(f"engines: {error}\n")
        return 1
    return 0


def _up(args: argparse.Namespace) -> None:
    engine, folder = args.engine, _folder(args.engine)
    if running(folder):
        _say(f"{engine} runs already; stop it with: make {engine}-down")
        return
    fetch(engine, _say)
    if engine == "kafka":
        _start_kafka(folder, args.broker)
    else:
        _start_flink(folder, args.rest, args.job_endpoint, args.pool)
    _say(f"Data and logs: {folder}\nStop it with: make {engine}-down")


def _start_kafka(folder: Path, port: int) -> None:
    from engines.kafka import Kafka

    kafka = Kafka(folder, port, guarded=False)
    kafka.start()
    _say(f"Kafka serves at {kafka.bootstrap}")


def _start_flink(folder: Path, rest: int, job_endpoint: int, pool: int) -> None:
    from engines.flink import Flink
    from engines.flink_settings import FlinkPorts

    flink = Flink(folder, ports=FlinkPorts(rest=rest, job_endpoint=job_endpoint, pool=pool), guarded=False)
    flink.start()
    _say(
        f"Flink runs: http://{LOOPBACK}:{rest}\nBeam flags:\n  {' '.join(flink.beam_args())}\n"
        f"A stream adds:\n  {' '.join(flink.beam_args(streaming=True)[len(flink.beam_args()) :])}"
    )


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

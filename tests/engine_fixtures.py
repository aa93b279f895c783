"""The real engines, started once in a process for all tests that ask for them, and only if one does."""

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from engines.errors import EngineMissingError
from engines.flink import Flink
from engines.kafka import Kafka
from engines.postgres import Postgres
from engines.prism import Prism

TESTS = Path(__file__).parent
ENGINES = ("flink", "kafka", "postgres", "prism")
TIMEOUT_S = 600
_LEFT = []  # what ends with the process


def mark_engine_tests(items):
    """Gives the tests that need an engine time."""
    for item in items:
        if set(ENGINES) & set(getattr(item, "fixturenames", ())) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


def started(engine, tmp_path_factory, *, stop=True, **options):
    """The engine, running; where it cannot be had the test is skipped, but in continuous integration it fails."""
    with ExitStack() as stack:
        try:
            running = stack.enter_context(engine(tmp_path_factory.mktemp(engine.__name__.lower()), **options))
        except EngineMissingError as error:
            if os.environ.get("CI", "") not in ("", "0", "false"):
                pytest.fail(f"{engine.__name__} is missing: {error}", pytrace=False)
            pytest.skip(f"{engine.__name__} is missing: {error}")
        if not stop:
            _LEFT.append(stack.pop_all())
        yield running


@pytest.fixture(scope="session")
def kafka(tmp_path_factory):
    """A Kafka broker."""
    yield from started(Kafka, tmp_path_factory)


@pytest.fixture(scope="session")
def flink(tmp_path_factory):
    """A Flink cluster of two slots; its workers find the modules of the tests."""
    path = [TESTS.parent, TESTS, TESTS / "pipelines", TESTS / "engines", TESTS.parent / "examples"]
    yield from started(Flink, tmp_path_factory, python_path=path)


@pytest.fixture(scope="session")
def prism(tmp_path_factory):
    """A Prism server. It ends with the process: Beam's threads here hold on to it, and would complain about its end."""
    yield from started(Prism, tmp_path_factory, stop=False)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    """A Postgres server."""
    yield from started(Postgres, tmp_path_factory)

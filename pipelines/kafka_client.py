"""The Kafka client: a library that only those who use Kafka need, and its settings, which may be secret."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pipelines.errors import InputError, InvalidSettingError


def kafka_library() -> Any:
    """The client library."""
    try:
        import confluent_kafka.admin
    except ImportError as error:
        raise InvalidSettingError("Kafka needs the confluent-kafka package: pip install 'crowdbeam[kafka]'.") from error
    return confluent_kafka


def refuse_settings(given: Mapping[str, str], taken: Iterable[str]) -> None:
    """Raises `InvalidSettingError` when a user sets what crowdbeam sets itself."""
    both = sorted(set(taken) & given.keys())
    if both:
        raise InvalidSettingError(f"The Kafka properties set {both[0]}, which crowdbeam sets itself. Remove it.")


def properties_of(path: str) -> tuple[tuple[str, str], ...]:
    """The settings in a file of properties: NAME=VALUE on each line; lines that begin with # are remarks."""
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise InputError(f"The Kafka properties {path} cannot be read: {error}.") from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith(("#", "!")):
            continue
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise InvalidSettingError(f"Line {number} of {path} is no setting; write NAME=VALUE.")
        found[name.strip()] = value.strip()
    return tuple(found.items())

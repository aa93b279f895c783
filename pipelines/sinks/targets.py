"""Where a stream's rows go, from the text a user gives."""

import re
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from pipelines.addresses import FILE_SCHEMES, absolute, is_secret, meant
from pipelines.errors import InvalidSettingError
from pipelines.sinks import SinkTarget
from pipelines.sinks.folder import IntervalFolder
from pipelines.sinks.kafka import KafkaTarget
from pipelines.sinks.postgres import PostgresTarget
from pipelines.sinks.postgres_client import parse_address

_FORMS = {
    "kafka": "kafka://HOST:PORT/PREFIX",
    "postgres": "postgres://USER@HOST:PORT/DATABASE",
    "postgresql": "postgresql://USER@HOST:PORT/DATABASE",
}
_WAREHOUSES = ("duckdb", "iceberg", "bigquery")
_KNOWN = "|".join([*_FORMS, *_WAREHOUSES])


def sink_of(text: str) -> SinkTarget | IntervalFolder:
    """The target that `text` names: Kafka, Postgres, or else a folder.

    Raises `InvalidSettingError` when it names none.

    >>> sink_of("kafka://localhost:9092/crowd")
    KafkaTarget(bootstrap='localhost:9092', prefix='crowd', config_file='', partitions=4, patience_s=600.0)
    """
    if not text.strip():
        raise InvalidSettingError(f"The sink is empty; give a folder, {_FORMS['kafka']} or {_FORMS['postgres']}.")
    begins = re.match(rf"([A-Za-z][A-Za-z0-9+.-]*):/|({_KNOWN}):", text, re.IGNORECASE)
    scheme = (begins[1] or begins[2]).lower() if begins else "file"
    if scheme in _WAREHOUSES:
        raise InvalidSettingError(
            f"The sink is an address of {scheme}, which takes finished runs and no stream: `crowdbeam load` and "
            "`crowdbeam nightly` write there. Give a folder, kafka:// or postgres://."
        )
    if begins and begins[2]:
        raise InvalidSettingError(f"The sink begins with {begins[2]}: and no //; the form is {_FORMS[scheme]}.")
    if scheme == "kafka":
        return _kafka_of(text)
    if scheme in ("postgres", "postgresql"):
        return PostgresTarget(*parse_address(text, "sink"))
    if scheme in FILE_SCHEMES:
        return IntervalFolder(text.removeprefix("file://"))
    hint = meant(scheme, _FORMS, "Give a folder, kafka:// or postgres://.")
    raise InvalidSettingError(f"The sink begins with {scheme}://, which is not known. {hint}")


def _kafka_of(text: str) -> KafkaTarget:
    """Settings of the client may follow, as ?NAME=VALUE&…, and config=FILE for those that nobody should see."""
    parts = _split(text)
    prefix = unquote(parts.path).strip("/")
    brokers = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^,:/\s@]+):\d+(,(\[[0-9a-fA-F:.]+\]|[^,:/\s@]+):\d+)*", parts.netloc)
    if not brokers or not prefix or parts.fragment:
        raise InvalidSettingError(
            f"The sink is not of the form {_FORMS['kafka']}; write for example kafka://localhost:9092/crowd. "
            "A user's name goes behind it, as ?sasl.username=NAME, a password into a file: &config=FILE."
        )
    settings = parse_qsl(parts.query, keep_blank_values=True)
    for name, _ in settings:
        if is_secret(name, "pem"):
            raise InvalidSettingError(
                f"The sink's address holds {name}, which every program on this machine could read. Write it to a file, "
                "one NAME=VALUE a line, and give the file: ?config=FILE."
            )
    files = [value for name, value in settings if name == "config"]
    others = tuple((name, value) for name, value in settings if name != "config")
    return KafkaTarget(parts.netloc, prefix, config=others, config_file=absolute(files[-1]) if files else "")


def _split(text: str) -> SplitResult:
    try:
        return urlsplit(text)
    except ValueError as error:
        raise InvalidSettingError(f"The sink's address cannot be read: {error}.") from error

"""The contract: every record that enters or leaves crowdbeam, one Avro schema a file.

The Arrow schema and the row type are derived from the `.avsc`, here and nowhere else.

>>> arrow_schema("gold").names
['task', 'label']
>>> row_type("gold")(task="t1", label="yes")
Gold(task='t1', label='yes')
"""

import json
import typing
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

NAMES = (
    "label", "gold", "edge", "skill", "score", "graph", "reject", "manifest", "revision", "loaded", "loaded_run",
)  # fmt: skip
TABLES = {"scores": "score", "skills": "skill", "edges": "edge", "graph": "graph", "rejects": "reject"}
FOLDER = Path(__file__).parent

_ARROW = {
    "string": pa.string(),
    "long": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
}
_PYTHON: dict[str, type] = {"string": str, "long": int, "int": int, "double": float, "boolean": bool}


@cache
def avro_schema(name: str) -> dict[str, Any]:
    """The Avro schema called `name`, as a dictionary."""
    if name not in NAMES:
        raise KeyError(f"no schema is called {name!r}; there are {', '.join(NAMES)}")
    schema: dict[str, Any] = json.loads((FOLDER / f"{name}.avsc").read_text("utf-8"))
    return schema


@cache
def avro_versions(name: str) -> tuple[dict[str, Any], ...]:
    """Every published version of the Avro schema called `name`, the current one first, then the older ones.

    >>> [len(version["fields"]) for version in avro_versions("label")]
    [5, 4]
    """
    files = sorted((FOLDER / "older").glob(f"{name}-*.avsc"), reverse=True)
    return (avro_schema(name), *(json.loads(file.read_text("utf-8")) for file in files))


@cache
def arrow_schema(name: str) -> pa.Schema:
    """The Arrow schema of the record called `name`; each field's documentation is in its metadata."""
    return pa.schema(
        [
            pa.field(f["name"], _arrow_type(f["type"]), nullable=_nullable(f["type"]), metadata={"doc": f["doc"]})
            for f in avro_schema(name)["fields"]
        ]
    )


@cache
def stream_schema(name: str) -> pa.Schema:
    """The Arrow schema of a stream's rows of the record called `name`: its fields, then those of `revision`.

    >>> stream_schema("gold").names
    ['task', 'label', 'model_version', 'revision', 'closed']
    """
    return pa.schema([*arrow_schema(name), *arrow_schema("revision")])


@cache
def loaded_schema(name: str) -> pa.Schema:
    """The Arrow schema of a warehouse's rows of the record called `name`: its fields, then those of `loaded`.

    >>> loaded_schema("gold").names
    ['task', 'label', 'run_id', 'version']
    """
    return pa.schema([*arrow_schema(name), *arrow_schema("loaded")])


@cache
def row_type(name: str) -> Any:
    """The row type (a `typing.NamedTuple`) of the record called `name`."""
    schema = avro_schema(name)
    fields = [(f["name"], _python_type(f["type"])) for f in schema["fields"]]
    row = typing.NamedTuple(schema["name"], fields)  # type: ignore[misc]
    row.__module__ = __name__
    row.__doc__ = schema["doc"]
    row._field_defaults = {f["name"]: f["default"] for f in schema["fields"] if "default" in f}
    row.__new__.__defaults__ = tuple(row._field_defaults.values())
    return row


def _nullable(avro: Any) -> bool:
    return isinstance(avro, list)


def _arrow_type(avro: Any) -> pa.DataType:
    match avro:
        case ["null", inner]:
            return _arrow_type(inner)
        case {"type": "map", "values": values}:
            return pa.map_(pa.string(), _arrow_type(values))
        case {"type": "array", "items": items}:
            return pa.list_(_arrow_type(items))
        case {"type": "record", "fields": fields}:
            return pa.struct([(f["name"], _arrow_type(f["type"])) for f in fields])
        case str():
            return _ARROW[avro]
    raise TypeError(f"no Arrow type for {avro!r}")


def _python_type(avro: Any) -> Any:
    match avro:
        case ["null", inner]:
            return typing.Optional[_python_type(inner)]  # noqa: UP045 - the inner type is a value here
        case {"type": "map", "values": values}:
            return Mapping[str, _python_type(values)]  # type: ignore[misc]
        case {"type": "array", "items": items}:
            return Sequence[_python_type(items)]  # type: ignore[misc]
        case {"type": "record"}:
            return Mapping[str, Any]
        case str():
            return _PYTHON[avro]
    raise TypeError(f"no row type for {avro!r}")


# Rows travel between processes: pickle finds their types here, by the names of the records.
Label = row_type("label")
Gold = row_type("gold")
Edge = row_type("edge")
Skill = row_type("skill")
Score = row_type("score")
GraphComponent = row_type("graph")
Reject = row_type("reject")

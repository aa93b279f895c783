"""The files of one interval: its tables, and its manifest, which is written last."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

import schemas
from pipelines.errors import InputError
from pipelines.run_tables import read_file
from pipelines.sinks.latest import as_rows, latest, rows_schema
from pipelines.table_files import file_bytes, write_file

FORMAT_VERSION = 1
MANIFESTS = "manifests"


def write_interval(
    folder: str, number: int, tables: Mapping[str, Sequence[pa.Table]], kind: str, times_us: tuple[int, int]
) -> dict[str, int]:
    """Writes the rows of interval `number`, each table to one file, and the manifest; gives the rows of each.

    Files of that number are replaced, and last when this returns. Of several rows of an id the latest is written.
    """
    rows = {name: latest(name, pa.concat_tables(as_rows(name, one) for one in tables[name])) for name in sorted(tables)}
    files = []
    for name, table in rows.items():
        path = f"{name}/part-{number:06d}.{kind}"
        data = file_bytes(table, kind, _avro_of(name))
        write_file(FileSystems.join(folder, path), lambda sink, data=data: sink.write(data), lasting=True)
        checksum = f"sha256:{hashlib.sha256(data).hexdigest()}"
        files.append(
            {"table": name, "path": path, "rows": table.num_rows, "size_bytes": len(data), "checksum": checksum}
        )
    account = {"format_version": FORMAT_VERSION, "interval": number, "from_us": times_us[0], "to_us": times_us[1]}
    text = json.dumps({**account, **_account(rows), "files": files}, indent=2, ensure_ascii=False) + "\n"
    write_file(manifest_path(folder, number), lambda sink: sink.write(text.encode()), lasting=True)
    return {name: table.num_rows for name, table in rows.items()}


def manifest_path(folder: str, number: int) -> str:
    """Where the manifest of interval `number` is."""
    return str(FileSystems.join(folder, MANIFESTS, f"{number:06d}.json"))


def finished_intervals(folder: str) -> list[int]:
    """The numbers of the intervals that have a manifest, in order."""
    found = FileSystems.match([FileSystems.join(folder, MANIFESTS, "*.json")])[0].metadata_list
    names = [re.fullmatch(r"(\d{6,})\.json", one.path.replace("\\", "/").rpartition("/")[2]) for one in found]
    return sorted(int(name[1]) for name in names if name)


def read_intervals(folder: str, name: str) -> pa.Table:
    """What holds now: the latest row of each id of the table `name`, over all intervals that are finished.

    Raises `InputError` when a file cannot be read.
    """
    tables = [rows_schema(name).empty_table()]
    for number in finished_intervals(folder):
        manifest = _read_manifest(manifest_path(folder, number))
        paths = [FileSystems.join(folder, file["path"]) for file in manifest["files"] if file["table"] == name]
        tables += [read_file(path, rows_schema(name)) for path in paths]
    return latest(name, pa.concat_tables(tables))


def _account(rows: Mapping[str, pa.Table]) -> dict[str, Any]:
    """What the manifest tells of all rows together: null where there are none of that kind."""
    with_revision = [table for name, table in rows.items() if name != "rejects"]
    versions = [pc.max(table["model_version"]).as_py() for table in with_revision]
    revisions = [pc.min_max(table["revision"]).as_py() for table in with_revision]
    reasons = rows["rejects"]["reason"].value_counts().to_pylist() if "rejects" in rows else []
    return {
        "model_version": max(versions, default=None),
        "revision_low": min((one["min"] for one in revisions), default=None),
        "revision_high": max((one["max"] for one in revisions), default=None),
        "rejects": {one["values"]: one["counts"] for one in sorted(reasons, key=lambda one: str(one["values"]))},
    }


def _avro_of(name: str) -> dict[str, Any]:
    """The Avro schema of the stream's table `name`."""
    record = schemas.avro_schema(schemas.TABLES[name])
    if name == "rejects":
        return record
    return {**record, "fields": [*record["fields"], *schemas.avro_schema("revision")["fields"]]}


def _read_manifest(path: str) -> dict[str, Any]:
    try:
        with FileSystems.open(path) as file:
            manifest: dict[str, Any] = json.loads(file.read())
    except (BeamIOError, OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {' '.join(str(error).split())}.") from error
    return manifest

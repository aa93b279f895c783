"""Lineage: the account of a run as an OpenLineage event, for catalogs that know which table was made from which.

The event is a RunEvent of the specification 2-0-2 with the type COMPLETE. Datasets are named by
`pipelines.dataset_names`. Whoever keeps such events can be sent the file as it is:
``curl -H 'Content-Type: application/json' -d @FILE $OPENLINEAGE_URL/api/v1/lineage``.
"""

import json
import os
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa

import schemas
from pipelines.dataset_names import DatasetName, input_name, table_name, warehouse_scheme
from pipelines.errors import InvalidSettingError, RunError
from pipelines.settings import parse_columns
from pipelines.sinks.loads import TABLES as WAREHOUSE_TABLES
from pipelines.sinks.loads import table_schema
from pipelines.sources import storage
from pipelines.sources.storage import is_local
from pipelines.table_files import write_file

NAMESPACE_VARIABLE = "OPENLINEAGE_NAMESPACE"
_SPECIFICATION = "https://openlineage.io/spec"
_CORE = f"{_SPECIFICATION}/2-0-2/OpenLineage.json#/$defs"
_FIELDS = {"labels": ("task", "worker", "label"), "gold": ("task", "label"), "prior-skills": ("worker", "skill")}
_RECORDS = {"labels": "label", "gold": "gold", "prior-skills": "skill"}


def lineage_event(
    manifest: Mapping[str, Any],
    *,
    run_folder: str = "",
    loaded: Mapping[str, Mapping[str, int]] | None = None,
    job_name: str,
) -> dict[str, Any]:
    """The event of a finished run.

    Args:
        manifest: of the run.
        run_folder: where its tables are, if somebody is to know of it.
        loaded: warehouses that hold it, and how many rows were written to each of their tables. A folder with a run a
            night is one of them, so that its datasets have the same names every night.
        job_name: what the job is called in the namespace that OPENLINEAGE_NAMESPACE names, or else in "crowdbeam".
    """
    maker = _Facets(f"urn:crowdbeam:{manifest['versions']['crowdbeam']}")
    return {
        "eventType": "COMPLETE",
        "eventTime": _moment(manifest["finished_at_us"]),
        "run": {"runId": run_uuid(manifest["run_id"]), "facets": _run_facets(maker, manifest)},
        "job": {
            "namespace": os.environ.get(NAMESPACE_VARIABLE) or "crowdbeam",
            "name": job_name,
            "facets": {
                "jobType": maker.of(
                    "2-0-4/JobTypeJobFacet", processingType="BATCH", integration="CROWDBEAM", jobType="JOB"
                )
            },
        },
        "inputs": [_input(maker, one, manifest["settings"]) for one in manifest["inputs"]],
        "outputs": [*_written(maker, run_folder, manifest), *_loaded(maker, loaded or {})],
        "producer": maker.producer,
        "schemaURL": f"{_CORE}/RunEvent",
    }


def run_uuid(run_id: str) -> str:
    """The run's id as OpenLineage wants it: the same UUID for the same id.

    >>> run_uuid("0123456789abcdef0123456789abcdef")
    '01234567-89ab-cdef-0123-456789abcdef'
    """
    try:
        return str(uuid.UUID(run_id))
    except ValueError:
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"urn:crowdbeam:run:{run_id}"))


def check_lineage(path: str, output: str = "") -> None:
    """Raises `InvalidSettingError` when `path` cannot be written, lies in `output`, or holds something else."""
    if is_local(path):
        _check_place(path, output)
    if storage.exists(path) and event_in(path) is None:
        raise InvalidSettingError(f"--lineage {path} is there and is no event of an earlier run; give another file.")


def _check_place(path: str, output: str) -> None:
    place, folder = os.path.realpath(path), os.path.realpath(output) if output and is_local(output) else ""
    if folder and os.path.commonpath([place, folder]) == folder:
        raise InvalidSettingError(f"--lineage {path} lies in --output, where runs alone are; give another place.")
    if os.path.exists(place) and not os.path.isfile(place):  # an event takes the place of what is there: no device's
        kind = "folder" if os.path.isdir(place) else "device or a pipe"
        raise InvalidSettingError(f"--lineage {path} is a {kind}; give a file.")
    if not os.access(os.path.dirname(place), os.W_OK | os.X_OK):
        reason = "its folder is not this user's" if os.path.isdir(os.path.dirname(place)) else "make its folder first"
        raise InvalidSettingError(f"--lineage {path} cannot be written: {reason}.")


def event_in(path: str) -> dict[str, Any] | None:
    """The event in a file; {} where there is no file or an empty one; None of one that holds something else."""
    try:
        text = storage.read_bytes(path) if storage.exists(path) else b""
        found = json.loads(text) if text else {}
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and (not text or "eventType" in found) else None


def completed(event: Mapping[str, Any], earlier: Mapping[str, Any]) -> dict[str, Any]:
    """The event, and of an earlier one of the same run the outputs to which this attempt wrote nothing."""
    if earlier.get("run", {}).get("runId") != event["run"]["runId"]:
        return dict(event)
    outputs = {(one["namespace"], one["name"]): one for one in earlier["outputs"]}
    for one in event["outputs"]:
        if one["outputFacets"] or (one["namespace"], one["name"]) not in outputs:
            outputs[one["namespace"], one["name"]] = one
    return {**event, "outputs": list(outputs.values())}


def write_lineage(path: str, event: Mapping[str, Any]) -> None:
    """Writes the event to `path`, whole or not at all."""
    text = json.dumps(event, indent=2, ensure_ascii=False) + "\n"
    try:
        write_file(os.path.realpath(path) if is_local(path) else path, lambda sink: sink.write(text.encode()))
    except OSError as error:
        raise RunError(f"The run is written, but --lineage {path} could not be: {error.strerror or error}.") from error


class _Facets:
    """Makes facets: what each says of who made it, and which schema it follows."""

    def __init__(self, producer: str) -> None:
        self.producer = producer

    def of(self, schema: str, **content: Any) -> dict[str, Any]:
        """A facet of the specification, `schema` being its version and its name."""
        name = schema.rpartition("/")[2]
        return self._with(f"{_SPECIFICATION}/facets/{schema}.json#/$defs/{name}", content)

    def own(self, kind: str, **content: Any) -> dict[str, Any]:
        """A facet of our own, of the kind that the core of the specification names."""
        return self._with(f"{_CORE}/{kind}", content)

    def schema(self, fields: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The facet "schema"."""
        return self.of("1-2-0/SchemaDatasetFacet", fields=list(fields))

    def _with(self, url: str, content: Mapping[str, Any]) -> dict[str, Any]:
        return {"_producer": self.producer, "_schemaURL": url, **content}


def _run_facets(maker: _Facets, manifest: Mapping[str, Any]) -> dict[str, Any]:
    versions = manifest["versions"]
    is_night = "ledger" in manifest["settings"]  # which needs no Beam
    return {
        "processing_engine": maker.of(
            "1-1-1/ProcessingEngineRunFacet",
            version=versions["crowdbeam" if is_night else "apache-beam"],
            name="crowdbeam" if is_night else "Apache Beam",
            openlineageAdapterVersion=versions["crowdbeam"],
        ),
        "crowdbeam_run": maker.own(
            "RunFacet",
            runId=manifest["run_id"],
            startedAt=_moment(manifest["started_at_us"]),
            counts=dict(manifest["counts"]),
            gates=[dict(gate) for gate in manifest.get("gates", [])],
        ),
    }


def _input(maker: _Facets, given: Mapping[str, Any], settings: Mapping[str, str]) -> dict[str, Any]:
    name = input_name(given["path"])
    facets = {"version": maker.of("1-0-1/DatasetVersionDatasetFacet", datasetVersion=given["checksum"])}
    if given["role"] in _FIELDS:
        facets["schema"] = maker.schema(_input_fields(given["role"], settings))
    read = maker.of("1-0-0/InputStatisticsInputDatasetFacet", size=given["size_bytes"], fileCount=1)
    return {**name._asdict(), "facets": facets, "inputFacets": {"inputStatistics": read}}


def _input_fields(role: str, settings: Mapping[str, str]) -> list[dict[str, Any]]:
    """The columns that were read, under the names they have in the file; their types there are not known."""
    called = _renamed(settings.get("columns", "")) if role == "labels" else {}
    described = schemas.arrow_schema(_RECORDS[role])
    return [{"name": called.get(name, name), "description": _doc(described.field(name))} for name in _FIELDS[role]]


def _renamed(text: str) -> dict[str, str]:
    """The setting `columns` of a manifest: JSON pairs, or as the option is written."""
    return dict(json.loads(text) if text.startswith("[") else parse_columns(text))


def _written(maker: _Facets, folder: str, manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tables of the run's own folder, if it is named."""
    return [
        _output(maker, table_name(folder, table), schemas.arrow_schema(record), _statistics(manifest, table))
        for table, record in schemas.TABLES.items()
        if folder
    ]


def _loaded(maker: _Facets, loaded: Mapping[str, Mapping[str, int]]) -> list[dict[str, Any]]:
    """The tables of warehouses. Rows alone are known of them, and none of one that was up to date before."""
    outputs = []
    for target, rows in loaded.items():
        for table in WAREHOUSE_TABLES if warehouse_scheme(target) else schemas.TABLES:
            schema = table_schema(table) if warehouse_scheme(target) else schemas.arrow_schema(schemas.TABLES[table])
            statistics = {"rowCount": rows[table]} if table in rows else {}
            outputs.append(_output(maker, table_name(target, table), schema, statistics))
    return outputs


def _output(maker: _Facets, name: DatasetName, schema: pa.Schema, statistics: Mapping[str, int]) -> dict[str, Any]:
    columns = [{"name": one.name, "type": str(one.type), "description": _doc(one)} for one in schema]
    facet = "1-0-2/OutputStatisticsOutputDatasetFacet"
    written = {"outputStatistics": maker.of(facet, **statistics)} if statistics else {}
    return {**name._asdict(), "facets": {"schema": maker.schema(columns)}, "outputFacets": written}


def _statistics(manifest: Mapping[str, Any], table: str) -> dict[str, int]:
    files = [one for one in manifest["outputs"] if one["path"].startswith(f"{table}/")]
    rows, size = (sum(one[what] for one in files) for what in ("rows", "size_bytes"))
    return {"rowCount": rows, "size": size, "fileCount": len(files)}


def _doc(field: pa.Field) -> str:
    return str(field.metadata[b"doc"].decode())


def _moment(microseconds: int) -> str:
    moment = datetime.fromtimestamp(microseconds // 1_000_000, timezone.utc)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{microseconds % 1_000_000:06d}Z"

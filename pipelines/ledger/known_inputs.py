"""Known inputs: what a ledger has read, by its content."""

import io
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.inputs import InputFile
from pipelines.ledger.night import OpenLedger, opened


def known_as(file: InputFile, checksum: str) -> str:
    """What an input is called in the ledger: by its content, and as what it was read."""
    return checksum if file.role == "labels" else f"{file.role}:{checksum}"


def known_inputs(ledger: OpenLedger) -> dict[str, int]:
    """The inputs in the ledger: in which version each came, by what it is `known_as`."""
    if ledger.version is None:
        return {}
    table = opened(pq.read_table, ledger.folder.at(ledger.version.inputs.path))
    return dict(zip(table["checksum"].to_pylist(), table["version"].to_pylist(), strict=True))


def inputs_file(inputs: Mapping[str, int]) -> bytes:
    """The table of the inputs in the ledger."""
    sink = io.BytesIO()
    table = pa.table(
        {"checksum": pa.array(list(inputs), pa.string()), "version": pa.array(list(inputs.values()), pa.int64())}
    )
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue()

"""Files of labels in every format, and what the sources read from them."""

import gzip
import io
import json

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from pipelines.inputs import SUFFIXES, ending_of
from pipelines.sources import FilePart
from pipelines.sources.formats import FORMATS
from pipelines.texts import texts_of

NAMES = ("task", "worker", "label")
ODD = ["a,b", 'say "hi"', "two\nlines", "é😀", " blank ", "'", "\\", "\t", '5" pipe', "\u2028"]
ROWS = [(f"{odd}{number}", f"w{number % 7}", odd) for number in range(40) for odd in ODD]


def csv_bytes(rows, names=NAMES, newline="\n", delimiter=","):
    def quoted(value):
        return '"' + value.replace('"', '""') + '"' if any(sign in value for sign in '",\n\t\r') else value

    return "".join(delimiter.join(map(quoted, row)) + newline for row in [names, *rows]).encode()


def jsonl_bytes(rows, names=NAMES):
    return "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows).encode()


def avro_bytes(rows, names=NAMES, codec="deflate", sync_interval=1000, types=None):
    types = types or dict.fromkeys(names, "string")
    schema = {"type": "record", "name": "L", "fields": [{"name": name, "type": types[name]} for name in names]}
    out = io.BytesIO()
    records = [dict(zip(names, row, strict=True)) for row in rows]
    fastavro.writer(out, schema, records, codec, sync_interval, sync_marker=b"0123456789abcdef")
    return out.getvalue()


def parquet_bytes(rows, names=NAMES, row_group_size=90, **options):
    out = io.BytesIO()
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    pq.write_table(
        pa.table([pa.array(column, pa.string()) for column in columns], names), out, row_group_size, **options
    )
    return out.getvalue()


WRITERS = {
    "x.parquet": parquet_bytes,
    "x.avro": avro_bytes,
    "x.csv": csv_bytes,
    "x.tsv": lambda rows: csv_bytes(rows, delimiter="\t"),
    "x.jsonl": jsonl_bytes,
    "x.csv.gz": lambda rows: gzip.compress(csv_bytes(rows)),
    "x.jsonl.gz": lambda rows: gzip.compress(jsonl_bytes(rows)),
    "x.csv.zst": lambda rows: zstandard.compress(csv_bytes(rows)),
    "x.jsonl.zst": lambda rows: zstandard.compress(jsonl_bytes(rows)),
}


def chunks_of(path, names=NAMES):
    kind = SUFFIXES[ending_of(str(path))]
    part = FilePart(str(path), 0, "labels", kind, tuple((name, name) for name in names))
    return [lazy() for lazy in FORMATS[kind].chunks_of(part)]


def read(path, names=NAMES):
    """({position: values}, [(position, reason, record)])."""
    found, bad = {}, []
    for chunk in chunks_of(path, names):
        bad += [(one.position, one.reason, one.record) for one in chunk.bad]
        if not chunk.columns:
            continue
        texts = [texts_of(chunk.columns[name])[0].to_pylist() for name in names]
        positions = range(chunk.first, chunk.first + len(texts[0])) if chunk.positions is None else chunk.positions
        assert len(positions) == len(texts[0])
        for position, row in zip(positions, zip(*texts, strict=True), strict=True):
            assert position not in found
            found[int(position)] = row
    return found, bad


def write(folder, name, data):
    path = folder / name
    path.write_bytes(data)
    return path

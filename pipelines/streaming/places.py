"""Places of a stream: what it reads, what it writes and what it is asked by must be apart, or it reads its own rows."""

import fnmatch
import os
import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

from pipelines.addresses import FILE_SCHEMES
from pipelines.sources.storage import is_local
from schemas import TABLES

_SIGNS = "*?["
_HERE = ("localhost", "127.0.0.1", "[::1]")
_WRITTEN = (*(f"{name}/part-000000.parquet" for name in TABLES), "manifests/000000.json")
_TOLD = ("status.json", "stream.json", "owner.json", "requests/0.json", "done/0.json")


def feeds(sink: str, source: str) -> bool:
    """Whether the source reads what the sink gets: one of its topics, its folder, or one of its tables.

    >>> feeds("kafka://localhost:9092/crowd", "kafka://127.0.0.1:9092/crowd.scores"), feeds("out", "in")
    (True, False)
    >>> feeds("out/", "./out"), feeds("in/out", "in"), feeds("out", "out/scores"), feeds("data/out", "data/in-*.csv")
    (True, False, True, False)
    """
    if _scheme(sink) == _scheme(source) == "kafka":
        (brokers, prefix), (others, topic) = _topic(sink), _topic(source)
        return bool(brokers & others) and topic in {prefix, *(f"{prefix}.{name}" for name in TABLES)}
    return _reads(source, sink, _WRITTEN)


def reads_control(source: str, control: str) -> bool:
    """Whether the source reads the files of the control folder.

    >>> reads_control("in", "./in"), reads_control("in", "in/control"), reads_control("c/*.json", "c")
    (True, False, True)
    """
    return _reads(source, control, _TOLD)


def is_same(one: str, other: str) -> bool:
    """Whether two texts name one folder.

    >>> is_same("out", "file://out/"), is_same("out", "out2"), is_same("kafka://h:1/p", "kafka://h:1/p")
    (True, False, False)
    """
    return _is_folder(one) and _is_folder(other) and _real(one) == _real(other)


def kind_of(address: str) -> str:
    """What sort of place an address names.

    >>> kind_of("kafka://h:1/p"), kind_of("postgresql://me@h/crowd"), kind_of("out"), kind_of("gs://bucket/out")
    ('kafka', 'postgres', 'folder', 'folder')
    """
    return "folder" if _is_folder(address) else _scheme(address).replace("postgresql", "postgres")


def kinds_of(source: str, sinks: Sequence[str]) -> dict[str, Any]:
    """Of what sort the source and the sinks are, in their order: a stream's state can be gone on from only with these.

    Their places may change: a broker may get another name.
    """
    return {"source": kind_of(source), "sinks": [kind_of(sink) for sink in sinks]}


def shown(address: str) -> str:
    """The address without what may be secret.

    >>> shown("kafka://me:hush@h:9092/crowd?sasl.password=hush")
    'kafka://h:9092/crowd'
    """
    return address if _is_folder(address) else re.sub(r"//[^/]*@", "//", address.partition("?")[0])


def _reads(source: str, folder: str, names: tuple[str, ...]) -> bool:
    """Whether a source of files reads those of these names in a folder; what is in folders below it is not read."""
    if not (_is_folder(source) and _is_folder(folder)):
        return False
    read, place = _real(source), _real(folder)
    folders = {place, *((place / name).parent for name in names)}
    if any(sign in source for sign in _SIGNS) and not os.path.exists(source):
        return read.parent in folders or any(fnmatch.fnmatchcase(str(place / name), str(read)) for name in names)
    return read in folders


def _is_folder(text: str) -> bool:
    return _scheme(text) in FILE_SCHEMES


def _scheme(text: str) -> str:
    begins = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", text)
    return begins[1].lower() if begins else "file"


def _real(text: str) -> PurePosixPath:
    """The path that links lead to; elsewhere than on this machine, as it is written."""
    path = text.removeprefix("file://")
    return PurePosixPath(os.path.realpath(path) if is_local(path) else path)


def _topic(address: str) -> tuple[set[str], str]:
    """The brokers that an address names, those of this machine under one name, and its topic or prefix."""
    hosts, _, topic = address.partition("://")[2].partition("?")[0].partition("/")
    pairs = [host.rpartition(":")[::2] for host in hosts.lower().split(",")]
    return {f"{_HERE[0] if host in _HERE else host}:{port}" for host, port in pairs}, unquote(topic).strip("/")

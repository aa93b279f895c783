"""Addresses that users give: their place, what was meant by one that is not known, and what is secret."""

import difflib
import os
import re
from collections.abc import Mapping

from pipelines.errors import InvalidSettingError

FILE_SCHEMES = ("file", "gs", "s3", "hdfs", "azfs")  # what Beam's file systems open
_LOCAL = re.compile(r"^file://(localhost(?=/))?", re.IGNORECASE)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
WAREHOUSES = ("postgresql", "postgres", "duckdb", "iceberg", "bigquery")
_SECRETS = ("password", "secret", "token", "credential")


def local(address: str) -> str:
    """The path that an address of this machine's own files stands for; another address as it is.

    >>> local("file:///data/in/"), local("FILE://localhost/data"), local("file://in"), local("gs://bucket/in")
    ('/data/in/', '/data', 'in', 'gs://bucket/in')
    """
    return _LOCAL.sub("", address)


def absolute(address: str) -> str:
    """The same place for a process that runs in another folder: a path of this machine becomes absolute.

    >>> absolute("kafka://localhost:9092/labels"), absolute("file:///data/in/"), absolute("")
    ('kafka://localhost:9092/labels', '/data/in', '')
    """
    path = local(address)
    return os.path.abspath(path) if path and not _SCHEME.match(path) else address


def meant(scheme: str, forms: Mapping[str, str], otherwise: str) -> str:
    """What to do about an address that begins with an unknown `scheme`; `forms` are those of the known ones.

    >>> meant("kafak", {"kafka": "kafka://HOST:PORT/TOPIC"}, "Give a folder.")
    'Did you mean kafka://HOST:PORT/TOPIC?'
    >>> meant("hfds", {}, "Give a folder."), meant("ftp", {}, "Give a folder.")
    ('Did you mean hdfs://…?', 'Give a folder.')
    """
    near = difflib.get_close_matches(scheme, [*forms, *FILE_SCHEMES], 1)
    return f"Did you mean {forms.get(near[0], near[0] + '://…')}?" if near else otherwise


def refuse_warehouse(text: str, option: str, advice: str) -> None:
    """Raises `InvalidSettingError` where a folder belongs and a warehouse is named; {} in `advice` is its scheme.

    >>> refuse_warehouse("run", "--output", "")
    """
    begins = re.match(rf"({'|'.join(WAREHOUSES)}):", text, re.IGNORECASE)
    if begins:
        raise InvalidSettingError(f"{option} {begins[0]}… is a warehouse. {advice.format(begins[0] + '…')}")


def is_secret(name: str, *also: str) -> bool:
    """Whether the setting `name` may hold what nobody should read; words of one's own may be added.

    >>> is_secret("sasl.password"), is_secret("api_key"), is_secret("api_key", "key")
    (True, False, True)
    """
    return any(word in name.lower() for word in (*_SECRETS, *also))

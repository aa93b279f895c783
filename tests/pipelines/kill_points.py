"""Points at which a process kills itself, before or after the n-th call of a function; tests know them by names."""

import importlib
import os
import signal
from functools import wraps

_FOLDER = "pipelines.ledger.folder"
POINTS = {
    "replace": ("os", "replace"),
    "rename": ("os", "rename"),
    "fsync": ("os", "fsync"),
    "publish": (_FOLDER, "LedgerFolder.publish"),
    "duckdb": ("pipelines.sinks.duckdb", "DuckDbWarehouse.load"),
    "folder": ("pipelines.sinks.run_folders", "FolderWarehouse.load"),
    "duckdb statement": ("duckdb", "DuckDBPyConnection.execute"),
    "duckdb commit": ("duckdb", "DuckDBPyConnection.commit"),
    "postgres copy": ("psycopg", "Copy.__exit__"),
    "postgres commit": ("psycopg", "Transaction.__exit__"),
    "iceberg file": ("pyiceberg.io.pyarrow", "PyArrowFile.create"),
    "iceberg commit": ("pyiceberg.catalog.sql", "SqlCatalog.commit_table"),
    "bigquery load": ("google.cloud.bigquery", "Client.load_table_from_file"),
    "bigquery query": ("google.cloud.bigquery", "Client.query"),
    "bigquery drop": ("google.cloud.bigquery", "Client.delete_table"),
}


def watch(names, fatal=(), call=0, after=False):
    """Counts calls of the points `names`, in what it gives; kills this process at the `call`th of those in `fatal`."""
    calls = {}
    for name in names:
        module, path = POINTS[name]
        *owners, attribute = path.split(".")
        owner = importlib.import_module(module)
        for one in owners:
            owner = getattr(owner, one)
        setattr(owner, attribute, _watched(name, getattr(owner, attribute), calls, (fatal, call, after)))
    return calls


def _watched(name, function, calls, when):
    fatal, call, after = when

    @wraps(function)
    def watched(*args, **kwargs):
        calls[name] = calls.get(name, 0) + 1
        mine = name in fatal and sum(calls.get(one, 0) for one in fatal) == call
        if mine and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        found = function(*args, **kwargs)
        if mine:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    return watched

"""Iceberg, and BigQuery's stand-in, as places where every warehouse is tested."""

import uuid

from bigquery_stand_in import BigQueryStandIn
from pyiceberg.catalog import load_catalog
from warehouse_runs import in_order

from pipelines.sinks.loads import TABLES


class InIceberg:
    """A namespace of a SQL catalog in a file. Its tables change one after the other."""

    module = "sinks/iceberg.py"
    at_once = False
    commits, writes = ("iceberg commit",), ("iceberg file",)

    def __init__(self, folder, request):
        self.name = f"lake{uuid.uuid4().hex}"
        (folder / self.name).mkdir()
        self.settings = {
            "uri": f"sqlite:///{folder}/{self.name}/catalog.db",
            "warehouse": f"file://{folder}/{self.name}",
        }
        setenv = request.getfixturevalue("monkeypatch").setenv
        for name, value in self.settings.items():
            setenv(f"PYICEBERG_CATALOG__{self.name.upper()}__{name.upper()}", value)
        self.address = f"iceberg://{self.name}/crowd"

    def catalog(self):
        return load_catalog(self.name, **self.settings)

    def rows(self, name):
        with self.catalog() as catalog:
            found = catalog.load_table(f"crowd.{name}").scan().to_arrow()
        return in_order(found.to_pylist(maps_as_pydicts="strict"))

    def snapshot(self):
        with self.catalog() as catalog:
            now = {name: catalog.load_table(f"crowd.{name}").metadata.current_snapshot_id for name in TABLES}
        return {name: (now[name], self.rows(name)) for name in TABLES}


class InBigQuery:
    """A dataset of BigQuery's stand-in, by the real client."""

    module = "sinks/bigquery_loading.py"
    at_once = True
    commits, writes = ("bigquery query", "bigquery drop"), ("bigquery load",)

    def __init__(self, folder, request):
        self.server = BigQueryStandIn()
        self.server.__enter__()
        request.addfinalizer(lambda: self.server.__exit__(None, None, None))
        request.getfixturevalue("monkeypatch").setenv("BIGQUERY_EMULATOR_HOST", self.server.host)
        self.address = f"bigquery://{self.server.project}/crowd"

    def rows(self, name):
        rows = self.server.rows("crowd", name).to_pylist()
        for row in rows:
            if "probabilities" in row:
                row["probabilities"] = {one["key"]: one["value"] for one in row["probabilities"]} or None
        return in_order(rows)

    def snapshot(self):
        return {name: self.rows(name) for name in TABLES}

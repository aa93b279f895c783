"""A stand-in of BigQuery's REST API on loopback, to which the real client talks; DuckDB holds the tables.

Parquet files that are uploaded are refused unless they are as the load job's schema says. SQL is parsed as BigQuery's
and written as DuckDB's by sqlglot; a script's transaction is one of DuckDB's. Jobs run one after the other.
"""

import json
import re
import threading
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from urllib.parse import parse_qs, urlsplit

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import sqlglot

_DUCKDB = {"STRING": "VARCHAR", "INTEGER": "BIGINT", "FLOAT": "DOUBLE", "BOOLEAN": "BOOLEAN"}
_ARROW = {"STRING": pa.string(), "INTEGER": pa.int64(), "FLOAT": pa.float64(), "BOOLEAN": pa.bool_()}


class RefusedError(Exception):
    """An answer that is an error."""

    def __init__(self, code, reason, message):
        super().__init__(message)
        self.code, self.reason = code, reason


class BigQueryStandIn:
    """Datasets, tables and jobs of one project.

    Attributes:
        requests: what was asked for, as method and path.
        jobs: the resources of all jobs, by id.
        failures: messages with which the next scripts fail, as BigQuery would when it aborts a transaction.
        lost: how many answers to jobs that did begin are lost.
    """

    def __init__(self, project="lab"):
        self.project = project
        self.requests, self.jobs, self.failures, self.lost = [], {}, [], 0
        self._datasets, self._tables, self._results, self._uploads = {}, {}, {}, {}
        self._lock = threading.Lock()
        self._database = duckdb.connect()
        self._database.execute(f"ATTACH ':memory:' AS \"{project}\"")

    def __enter__(self):
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 1 << 16  # head and body in one packet: else each answer waits for an acknowledgement

            def answer(self):
                stand_in._answer(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815 - the server's names

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.host = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._database.close()

    def tables(self, dataset):
        """The names of a dataset's tables."""
        return sorted(name for place, name in self._tables if place == dataset)

    def rows(self, dataset, name):
        """The rows of a table, as an Arrow table."""
        with self._lock:
            return self._database.sql(f"SELECT * FROM {self._place(dataset, name)}").to_arrow_table()  # noqa: S608

    def _answer(self, request):
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        url = urlsplit(request.path)
        headers = {}
        try:
            with self._lock:
                self.requests.append((request.command, url.path))
                code, found, headers = self._find(request, url, body)
        except RefusedError as error:
            said = {"message": str(error), "reason": error.reason}
            code, found = error.code, {"error": {"code": error.code, "message": str(error), "errors": [said]}}
        text = json.dumps(found).encode()
        request.send_response(code)
        for name, value in {**headers, "Content-Type": "application/json", "Content-Length": len(text)}.items():
            request.send_header(name, str(value))
        request.end_headers()
        request.wfile.write(text)

    def _find(self, request, url, body):
        if url.path.startswith("/upload/"):
            return self._upload(request, parse_qs(url.query), body)
        resource = json.loads(body) if body else {}
        path = url.path.removeprefix(f"/bigquery/v2/projects/{self.project}/")
        parts = (request.command, *path.split("/"))
        match parts:
            case ("GET", "datasets", dataset):
                return 200, self._known(self._datasets, dataset, "Dataset"), {}
            case ("POST", "datasets"):
                return 200, self._make_dataset(resource), {}
            case ("POST", "datasets", dataset, "tables"):
                return 200, self._make_table(dataset, resource), {}
            case ("GET", "datasets", dataset, "tables", name):
                return 200, self._known(self._tables, (dataset, name), "Table"), {}
            case ("PATCH", "datasets", dataset, "tables", name):
                return 200, self._change_table(dataset, name, resource), {}
            case ("DELETE", "datasets", dataset, "tables", name):
                self._known(self._tables, (dataset, name), "Table")
                del self._tables[dataset, name]
                self._database.execute(f"DROP TABLE {self._place(dataset, name)}")
                return 204, {}, {}
            case ("POST", "jobs"):
                return 200, self._begin(resource, None), {}
            case ("GET", "jobs", job_id):
                return 200, self._known(self.jobs, job_id, "Job"), {}
            case ("GET", "queries", job_id):
                return 200, self._result(job_id), {}
        raise RefusedError(404, "notFound", f"The stand-in knows no {request.command} {url.path}")

    def _known(self, found, key, kind):
        if key not in found:
            raise RefusedError(404, "notFound", f"Not found: {kind} {self.project}:{key}")
        return found[key]

    def _make_dataset(self, resource):
        name = resource["datasetReference"]["datasetId"]
        if name in self._datasets:
            raise RefusedError(409, "duplicate", f"Already Exists: Dataset {self.project}:{name}")
        self._database.execute(f'CREATE SCHEMA "{self.project}"."{name}"')
        self._datasets[name] = resource | {"location": resource.get("location") or "US"}
        return self._datasets[name]

    def _make_table(self, dataset, resource):
        self._known(self._datasets, dataset, "Dataset")
        name, fields = resource["tableReference"]["tableId"], resource["schema"]["fields"]
        if (dataset, name) in self._tables:
            raise RefusedError(409, "duplicate", f"Already Exists: Table {self.project}:{dataset}.{name}")
        columns = ", ".join(f'"{one["name"]}" {_duckdb_type(one)}' for one in fields)
        self._database.execute(f"CREATE TABLE {self._place(dataset, name)} ({columns})")
        self._tables[dataset, name] = resource
        return resource

    def _change_table(self, dataset, name, resource):
        table = self._known(self._tables, (dataset, name), "Table")
        there = {one["name"] for one in table["schema"]["fields"]}
        for one in resource.get("schema", {}).get("fields", []):
            if one["name"] not in there:
                if one.get("mode") == "REQUIRED":
                    raise RefusedError(400, "invalid", "Cannot add required columns to an existing schema.")
                place = self._place(dataset, name)
                self._database.execute(f'ALTER TABLE {place} ADD COLUMN "{one["name"]}" {_duckdb_type(one)}')
        table.update(resource)
        return table

    def _upload(self, request, query, body):
        if query["uploadType"] == ["multipart"]:
            head = f"Content-Type: {request.headers['Content-Type']}\r\n\r\n".encode()
            told, file = BytesParser().parsebytes(head + body).get_payload()
            return 200, self._begin(json.loads(told.get_payload()), file.get_payload(decode=True)), {}
        if request.command == "POST":
            self._uploads[key := str(len(self._uploads))] = json.loads(body)
            return 200, {}, {"Location": f"{self.host}{request.path}&upload_id={key}"}
        return 200, self._begin(self._uploads[query["upload_id"][0]], body), {}

    def _begin(self, resource, file):
        job_id = resource["jobReference"]["jobId"]
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,1024}", job_id):
            raise RefusedError(400, "invalid", f"Invalid job ID {job_id!r}")
        if job_id in self.jobs:
            raise RefusedError(409, "duplicate", f"Already Exists: Job {self.project}:{job_id}")
        status = {"state": "DONE"}
        resource["jobReference"].setdefault("location", "US")
        resource["configuration"]["jobType"] = "LOAD" if file is not None else "QUERY"
        self.jobs[job_id] = resource | {"status": status, "statistics": {"creationTime": "1", "endTime": "2"}}
        try:
            if file is not None:
                self._load(resource["configuration"]["load"], file)
            else:
                self._results[job_id] = self._query(resource["configuration"]["query"])
        except (duckdb.Error, sqlglot.errors.SqlglotError, RefusedError, pa.ArrowException) as error:
            missing = isinstance(error, duckdb.CatalogException)
            said = {"reason": "notFound" if missing else "invalidQuery", "message": str(error)}
            status |= {"errorResult": said, "errors": [said]}
        if self.lost:
            self.lost -= 1
            raise RefusedError(503, "backendError", "The answer was lost")
        return self.jobs[job_id]

    def _load(self, config, file):
        dataset, name = config["destinationTable"]["datasetId"], config["destinationTable"]["tableId"]
        fields = config["schema"]["fields"]
        if config["sourceFormat"] != "PARQUET" or config["writeDisposition"] != "WRITE_TRUNCATE":
            raise RefusedError(400, "invalid", "The stand-in loads Parquet, in the place of what is there")
        table = pq.read_table(BytesIO(file))
        wanted = pa.schema([(one["name"], _arrow_type(one, config)) for one in fields])
        if [str(one) for one in table.schema.types] != [str(one) for one in wanted.types]:
            raise RefusedError(400, "invalid", f"The file has {table.schema.types}, the schema {wanted.types}")
        if (dataset, name) not in self._tables:
            self._make_table(dataset, {"tableReference": config["destinationTable"], "schema": config["schema"]})
        place = self._place(dataset, name)
        self._database.register("uploaded", table)
        columns = ", ".join(
            f"coalesce({one['name']}, [])" if one["mode"] == "REPEATED" else one["name"] for one in fields
        )
        self._database.execute(f"DELETE FROM {place}")  # noqa: S608
        self._database.execute(f"INSERT INTO {place} SELECT {columns} FROM uploaded")  # noqa: S608
        self._database.unregister("uploaded")

    def _query(self, config):
        given = {one["name"]: _value(one) for one in config.get("queryParameters", [])}
        found, begun = [], False
        try:
            for statement in filter(None, sqlglot.parse(config["query"], read="bigquery")):
                self._abort_if_asked(statement)
                names = {one.name for one in statement.find_all(sqlglot.exp.Parameter)}
                done = self._database.execute(statement.sql("duckdb"), {name: given[name] for name in names} or None)
                begun = begun or isinstance(statement, sqlglot.exp.Transaction)
                found = done.fetchall() if isinstance(statement, sqlglot.exp.Select) else []
        except (duckdb.Error, RefusedError):
            if begun:
                self._database.execute("ROLLBACK")
            raise
        return found

    def _abort_if_asked(self, statement):
        if self.failures and isinstance(statement, sqlglot.exp.Commit):
            raise RefusedError(400, "invalidQuery", self.failures.pop(0))

    def _result(self, job_id):
        job = self._known(self.jobs, job_id, "Job")
        if "errorResult" in job["status"]:
            said = job["status"]["errorResult"]
            raise RefusedError(404 if said["reason"] == "notFound" else 400, said["reason"], said["message"])
        rows = self._results[job_id]
        kinds = ["STRING" if isinstance(value, str) else "INTEGER" for value in (rows[0] if rows else ())]
        fields = [{"name": f"f{at}", "type": kind} for at, kind in enumerate(kinds)]
        cells = [{"f": [{"v": None if one is None else str(one)} for one in row]} for row in rows]
        known = {"jobReference": job["jobReference"], "jobComplete": True, "totalRows": str(len(rows))}
        return known | {"schema": {"fields": fields}, "rows": cells}

    def _place(self, dataset, name):
        return f'"{self.project}"."{dataset}"."{name}"'


def _duckdb_type(field):
    if field["type"] == "RECORD":
        inner = ", ".join(f'"{one["name"]}" {_DUCKDB[one["type"]]}' for one in field["fields"])
        return f"STRUCT({inner})[]"
    return _DUCKDB[field["type"]] + (" NOT NULL" if field.get("mode") == "REQUIRED" else "")


def _arrow_type(field, config):
    if field["type"] != "RECORD":
        return _ARROW[field["type"]]
    if not config["parquetOptions"]["enableListInference"]:
        raise RefusedError(400, "invalid", "Without list inference an array is a record with a record in it")
    inner = [
        pa.field(one["name"], _ARROW[one["type"]], nullable=one.get("mode") != "REQUIRED") for one in field["fields"]
    ]
    return pa.list_(pa.field("element", pa.struct(inner)))


def _value(parameter):
    value = parameter["parameterValue"]["value"]
    return int(value) if parameter["parameterType"]["type"] == "INT64" else value

"""A stand-in of what BigQuery's REST API gives to read, on loopback, to which the real client talks.

Cells are texts, as the service writes them: times in microseconds since 1970, bytes in base64. A query gives the rows
of the table after FROM, in the order that its ORDER BY says; one without FROM is a syntax error.
"""

import base64
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

_PAGE = 7_000


class BigQueryRowsStandIn:
    """Tables of one project: (fields, rows) by dataset and name; `requests` are the paths that were asked for."""

    def __init__(self, tables, project="lab"):
        self.tables, self.project, self.requests, self.queries = tables, project, [], []

    def __enter__(self):
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                code, found = stand_in.find(urlsplit(self.path), json.loads(body) if body else {})
                text = json.dumps(found).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = answer  # noqa: N815 - the server's names

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

    def find(self, url, resource):
        """The answer to a request."""
        self.requests.append(url.path)
        given = {name: values[-1] for name, values in parse_qs(url.query).items()}
        match url.path.removeprefix(f"/bigquery/v2/projects/{self.project}/").split("/"):
            case ["datasets", dataset, "tables"]:
                found = [self._reference(*key) for key in self.tables if key[0] == dataset]
                return 200, {"tables": [{"tableReference": one} for one in found], "totalItems": len(found)}
            case ["datasets", dataset, "tables", name] if (dataset, name) in self.tables:
                fields, _ = self.tables[dataset, name]
                schema = {"fields": fields}
                return 200, {"tableReference": self._reference(dataset, name), "schema": schema, "type": "TABLE"}
            case ["datasets", dataset, "tables", name, "data"]:
                return 200, self._page(*self.tables[dataset, name], given)
            case ["jobs"]:
                return self._begun(resource)
            case ["jobs", number]:
                return 200, self._job(number)
            case ["queries", number]:
                fields, rows = self._result(self.queries[int(number)])
                known = {"jobReference": self._job(number)["jobReference"], "jobComplete": True}
                return 200, known | {"schema": {"fields": fields}} | self._page(fields, rows, given)
        return 404, {"error": {"code": 404, "message": f"Not found: {url.path}", "errors": []}}

    def _begun(self, resource):
        text = resource["configuration"]["query"]["query"]
        if " from " not in text.lower():
            said = {"message": "Syntax error: Expected FROM at [1:1]", "reason": "invalidQuery"}
            return 400, {"error": {"code": 400, "message": said["message"], "errors": [said]}}
        self.queries.append(text)
        return 200, self._job(len(self.queries) - 1)

    def _job(self, number):
        reference = {"projectId": self.project, "jobId": str(number), "location": "US"}
        query = {"query": self.queries[int(number)], "destinationTable": self._reference("results", str(number))}
        return {
            "jobReference": reference,
            "configuration": {"jobType": "QUERY", "query": query},
            "status": {"state": "DONE"},
            "statistics": {"creationTime": "1", "endTime": "2"},
        }

    def _result(self, text):
        dataset, name = re.search(r"from `?lab\.(\w+)\.(\w+)", text, re.IGNORECASE).groups()
        fields, rows = self.tables[dataset, name]
        order = re.search(r"order by (\w+) desc", text, re.IGNORECASE)
        if order:
            place = [field["name"] for field in fields].index(order[1])
            rows = sorted(rows, key=lambda row: row[place], reverse=True)
        return fields, rows

    def _page(self, fields, rows, given):
        begin = int(given.get("pageToken") or 0)
        wanted = given["selectedFields"].split(",") if "selectedFields" in given else [one["name"] for one in fields]
        places = [place for place, field in enumerate(fields) if field["name"] in wanted]
        size = min(int(given.get("maxResults") or _PAGE), _PAGE)
        cells = [{"f": [{"v": _cell(row[place])} for place in places]} for row in rows[begin : begin + size]]
        more = {"pageToken": str(begin + size)} if begin + size < len(rows) else {}
        return {"totalRows": str(len(rows)), "rows": cells} | more

    def _reference(self, dataset, name):
        return {"projectId": self.project, "datasetId": dataset, "tableId": name}


def _cell(value):
    match value:
        case bool():
            return "true" if value else "false"
        case bytes():
            return base64.b64encode(value).decode()
        case None | str():
            return value
    return str(value)

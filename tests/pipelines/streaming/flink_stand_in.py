"""What Flink tells of its jobs over REST, on a port of its own: for states that the real one is hard to bring into."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer


@contextmanager
def flink_jobs(name="crowdbeam-1", *, cancels=True):
    """Gives the address, the states of its jobs of that name, and the paths of requests to cancel."""
    states, cancelled = [], []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            jobs = [{"jid": str(place), "name": name, "state": state} for place, state in enumerate(states)]
            self.wfile.write(json.dumps({"jobs": [*jobs, {"jid": "z", "name": "else", "state": "RUNNING"}]}).encode())

        def do_PATCH(self):
            cancelled.append(self.path)
            if cancels:
                states[int(self.path.partition("?")[0].rpartition("/")[2])] = "CANCELED"
            self.send_response(202)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}", states, cancelled
    finally:
        server.shutdown()
        server.server_close()

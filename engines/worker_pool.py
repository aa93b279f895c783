"""A pool of Python workers for Beam's EXTERNAL environment; run as a script, with the port to listen at.

Beam's own, `apache_beam.runners.worker.worker_pool_main`, listens on every interface; this one on loopback only. Its
workers start as the command does, without libraries that they do not use: several start at once, on few cores.
"""

import logging
import signal
import subprocess
import sys
from typing import Any

import grpc
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from apache_beam.utils import thread_pool_executor

# The time limit is that of worker_pool_main: buffered output leaves with its bundle.
_WORKER = """\
import sys
from pipelines.lean import start_lean
start_lean(streams=True, embedded=False)
import pipelines.stream, polars  # before the first event waits for them
from apache_beam.runners.worker.sdk_worker import SdkHarness
SdkHarness(sys.argv[1], worker_id=sys.argv[2], state_cache_size=0, data_buffer_time_limit_ms=-1).run()
"""


class _Pool(BeamFnExternalWorkerPoolServicer):
    """Beam's pool of processes; it ends them as Beam's does."""

    def StartWorker(self, asked: Any, context: Any) -> Any:  # noqa: N802 - the name is Beam's
        """Starts one; what it prints goes where the pool's output goes, for nobody would read a pipe."""
        command = [sys.executable, "-c", _WORKER, asked.control_endpoint.url, asked.worker_id]
        self._worker_processes[asked.worker_id] = subprocess.Popen(command)  # noqa: S603
        return beam_fn_api_pb2.StartWorkerResponse()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    server = grpc.server(thread_pool_executor.shared_unbounded_instance())
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(_Pool(use_process=True), server)
    server.add_insecure_port(f"127.0.0.1:{sys.argv[1]}")
    server.start()
    signal.pause()

"""A pool of Python workers for Beam's EXTERNAL environment; run as a script, with the port to listen at.

Beam's own, `apache_beam.runners.worker.worker_pool_main`, listens on every interface; this one on loopback only.
"""

import logging
import signal
import sys

import grpc
from apache_beam.portability.api import beam_fn_api_pb2_grpc
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from apache_beam.utils import thread_pool_executor

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    # The time limit that worker_pool_main gives: buffered output leaves with its bundle.
    pool = BeamFnExternalWorkerPoolServicer(use_process=True, data_buffer_time_limit_ms=-1)
    server = grpc.server(thread_pool_executor.shared_unbounded_instance())
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(pool, server)
    server.add_insecure_port(f"127.0.0.1:{sys.argv[1]}")
    server.start()
    signal.pause()

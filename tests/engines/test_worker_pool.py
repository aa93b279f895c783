"""The pool of Python workers that Flink asks for one."""

from apache_beam.portability.api import beam_fn_api_pb2, endpoints_pb2

from engines import worker_pool

TALKATIVE = "import sys; print('x' * 200_000); sys.exit(7)"


def test_a_worker_may_print_more_than_a_pipe_holds(monkeypatch, capfd):
    monkeypatch.setattr(worker_pool, "_WORKER", TALKATIVE)
    pool = worker_pool._Pool(use_process=True)
    endpoint = endpoints_pb2.ApiServiceDescriptor(url="127.0.0.1:1")
    pool.StartWorker(beam_fn_api_pb2.StartWorkerRequest(worker_id="w", control_endpoint=endpoint), None)
    (worker,) = pool._worker_processes.values()
    try:
        assert worker.wait(30) == 7
    finally:
        worker.kill()
    assert len(capfd.readouterr().out) > 200_000

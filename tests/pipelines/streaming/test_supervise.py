"""What becomes of the job when its command cannot go on."""

import subprocess
import sys

import grpc
from apache_beam.portability.api import beam_job_api_pb2, beam_job_api_pb2_grpc

from engines.processes import wait_until

CODE = """
import sys
from pipelines.streaming import supervise
from pipelines.streaming.settings import StreamSettings

def begun():
    raise BrokenPipeError("nobody reads what is said")

place = sys.argv[1]
settings = StreamSettings(f"{place}/in", (f"{place}/out",), f"{place}/control")
supervise.run(settings, sys.argv[2:], lambda status: None, begun)
"""


def test_a_command_that_cannot_say_that_it_has_begun_ends_its_job(prism, tmp_path):
    (tmp_path / "in").mkdir()
    args = prism.beam_args(streaming=True)
    (endpoint,) = (arg.partition("=")[2] for arg in args if arg.startswith("--job_endpoint="))
    with grpc.insecure_channel(endpoint) as channel:
        service = beam_job_api_pb2_grpc.JobServiceStub(channel)

        def states():
            return {job.job_id: job.state for job in service.GetJobs(beam_job_api_pb2.GetJobsRequest()).job_info}

        before = states()
        command = [sys.executable, "-c", CODE, str(tmp_path), *args]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert "BrokenPipeError: nobody reads" in done.stderr
        (job,) = states().keys() - before.keys()
        wait_until("the job's end", lambda: states()[job] == beam_job_api_pb2.JobState.CANCELLED, 20)

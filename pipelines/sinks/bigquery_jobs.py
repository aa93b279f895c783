"""Jobs of BigQuery with ids of our own: the same job sent twice, by whomever, is one job."""

import random
import time
from collections.abc import Callable
from typing import Any

from google.api_core.exceptions import Conflict, GoogleAPICallError
from google.cloud import bigquery

TRIES = 8
_MOST_ATTEMPTS = 1000
_FIRST_PAUSE_S = 0.5
_AGAIN = ("concurrent update", "aborted", "try again", "rateLimitExceeded", "backendError", "internalError")


class JobFailedError(Exception):
    """A job failed in a way that another try would not mend, or failed `TRIES` times."""


def run_job(
    client: bigquery.Client, job_id: str, location: str, send: Callable[[str], Any], is_done: Callable[[], bool]
) -> bool:
    """Runs a job until `is_done` says that its work stands; False when that was the work of an earlier one.

    Its attempts are numbered. One that is there is waited for: it is ours, whose answer was lost, or another loader's.

    Args:
        client: the client.
        job_id: the id, to which the attempt's number is added.
        location: where jobs run.
        send: begins the job that has the id it is given.
        is_done: whether what the job does is there, asked when an earlier attempt ended well, or one failed.
    """
    tries = 0
    for attempt in range(1, _MOST_ATTEMPTS + 1):
        ours = True
        try:
            job = send(f"{job_id}_{attempt}")
        except Conflict:
            ours = False
            job = client.get_job(f"{job_id}_{attempt}", location=location)
        try:
            job.result()
        except GoogleAPICallError as error:
            if is_done():
                return False
            tries += ours
            if ours and (tries == TRIES or not any(word in str(error) for word in _AGAIN)):
                raise JobFailedError(str(error)) from error
            time.sleep(_FIRST_PAUSE_S * tries * (1 + random.random()))  # noqa: S311 - no secret depends on it
            continue
        if ours or is_done():
            return ours
    raise JobFailedError(f"{_MOST_ATTEMPTS} attempts of the job {job_id} are there, and none did its work")

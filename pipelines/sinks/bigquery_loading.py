"""A run on its way into BigQuery: its tables staged by load jobs, committed by one script, staging dropped."""

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq
from google.api_core.exceptions import NotFound
from google.cloud import bigquery

from pipelines.sinks.bigquery_jobs import run_job
from pipelines.sinks.bigquery_tables import STAGED, columns_of, load_script, place_of, stored
from pipelines.sinks.loads import CURRENT, RUNS, TABLES, LoadTables, rows_written, table_schema
from pipelines.sinks.warehouse import LoadedRun

STAGING_LASTS = timedelta(days=1)


@dataclass(frozen=True)
class Loading:
    """A load at work.

    Attributes:
        client: an open client.
        project: of the dataset and the jobs.
        dataset: of the tables; the staging tables are beside them.
        location: of the dataset, where jobs run.
        loads: what the run brings.
        is_there: whether the run was loaded.
    """

    client: bigquery.Client
    project: str
    dataset: str
    location: str
    loads: LoadTables
    is_there: Callable[[], bool]

    def load(self) -> Mapping[str, int]:
        """Gives the rows written by table, none when another loader of the run was quicker."""
        for name in STAGED:
            self._stage(name)
        committed = run_job(self.client, self._job("commit"), self.location, self._send_script, self.is_there)
        for name in STAGED:
            self.client.delete_table(self._staged(name), not_found_ok=True)
        stayed = {name: sum(part.num_rows for part in self.loads.upserts(name)) for name in CURRENT}
        return rows_written(self.loads, stayed) if committed else {}

    def _stage(self, name: str) -> None:
        with tempfile.TemporaryFile() as file:
            with pq.ParquetWriter(file, stored(table_schema(name).empty_table()).schema) as writer:
                for part in self._parts(name):
                    writer.write_table(stored(part))
            send = partial(self._send_table, name, file, file.tell())
            run_job(self.client, self._job(name), self.location, send, partial(self._is_staged, name))
        with suppress(NotFound):  # another loader of this run has committed it, and dropped what it staged
            table = self.client.get_table(self._staged(name))
            table.expires = datetime.now(timezone.utc) + STAGING_LASTS
            self.client.update_table(table, ["expires"])

    def _parts(self, name: str) -> Iterator[pa.Table]:
        return iter([self.loads.run_row()]) if name == RUNS else self.loads.parts(name)

    def _send_table(self, name: str, file: IO[bytes], n_bytes: int, job_id: str) -> bigquery.LoadJob:
        inferred = bigquery.ParquetOptions()  # type: ignore[no-untyped-call]
        inferred.enable_list_inference = True
        config = bigquery.LoadJobConfig(
            source_format=bigquery.SourceFormat.PARQUET,
            schema=columns_of(name),
            create_disposition=bigquery.CreateDisposition.CREATE_IF_NEEDED,
            write_disposition=bigquery.WriteDisposition.WRITE_TRUNCATE,
            parquet_options=inferred,
        )
        return self.client.load_table_from_file(
            file,
            self._staged(name),
            rewind=True,
            size=n_bytes,
            job_id=job_id,
            location=self.location,
            job_config=config,
        )

    def _is_staged(self, name: str) -> bool:
        try:
            self.client.get_table(self._staged(name))
        except NotFound:
            return self.is_there()
        return True

    def _send_script(self, job_id: str) -> bigquery.QueryJob:
        places = {name: place_of(self.project, self.dataset, name) for name in TABLES}
        staged = {name: f"`{self._staged(name)}`" for name in STAGED}
        script = load_script(self.loads, places, staged)
        config = parameters_of(self.loads.run)
        return self.client.query(script, config, job_id=job_id, location=self.location, job_retry=None)

    def _id(self) -> str:
        """What is loaded into this dataset, as names of jobs and tables take it.

        The run's id is not enough: a night's run may be followed by the whole state of the same night.
        """
        run, outputs = self.loads.run, self.loads.manifest["outputs"]
        said = json.dumps([self.project, self.dataset, run.run_id, run.whole, outputs], sort_keys=True)
        return hashlib.sha256(said.encode()).hexdigest()[:24]

    def _job(self, name: str) -> str:
        return f"crowdbeam_{self._id()}_{name}"

    def _staged(self, name: str) -> str:
        return f"{self.project}.{self.dataset}.crowdbeam_load_{self._id()}_{name}"


def parameters_of(run: LoadedRun) -> bigquery.QueryJobConfig:
    """A run, for `there_sql`."""
    return parameters(run_id=run.run_id, ledger=run.ledger, version=run.version)


def parameters(**given: str | int) -> bigquery.QueryJobConfig:
    """Values that a query names with @."""
    kinds = {str: "STRING", int: "INT64"}
    return bigquery.QueryJobConfig(
        query_parameters=[bigquery.ScalarQueryParameter(name, kinds[type(one)], one) for name, one in given.items()]
    )

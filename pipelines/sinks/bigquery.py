"""Runs into BigQuery: load jobs into staging tables, then one script that is one transaction.

The ids of jobs come from the run's id and its files: a job that is sent again, because its answer was lost or because
another loader is at work on the same run, is the same job, and is waited for. Until the script commits, the tables are
as they were; it refuses a run that is there. Staging tables are dropped then, or expire after a day.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial

from google.api_core.exceptions import GoogleAPIError, NotFound
from google.auth.credentials import AnonymousCredentials
from google.auth.exceptions import GoogleAuthError
from google.cloud import bigquery
from google.cloud.bigquery.retry import DEFAULT_RETRY

from pipelines.errors import CrowdbeamError, InvalidSettingError, RunError, first_line
from pipelines.sinks.bigquery_jobs import JobFailedError
from pipelines.sinks.bigquery_loading import Loading, parameters, parameters_of
from pipelines.sinks.bigquery_tables import columns_of, place_of, there_sql
from pipelines.sinks.loads import CURRENT, RUNS, TABLES, table_doc
from pipelines.sinks.read_through import ReadThrough
from pipelines.sinks.warehouse import LastRun, LoadedRun, refuse_others, refuse_strange

_CHECK_S = 30.0
_LOAD_AGAIN = "Load it again: a run is loaded wholly or not at all, and never twice."
_ERRORS = (GoogleAPIError, GoogleAuthError, JobFailedError, OSError)


@dataclass(frozen=True)
class BigQueryWarehouse:
    """Tables of a BigQuery dataset. Credentials are Google's application default ones.

    Attributes:
        project: the project of the dataset, in which jobs run.
        dataset: it is made when it is missing.
        location: where it is made; a dataset that is there stays where it is. Empty: as BigQuery chooses.
    """

    project: str
    dataset: str
    location: str = ""

    def __post_init__(self) -> None:
        """Refuses names that BigQuery would not take."""
        if not re.fullmatch(r"[a-z][a-z0-9.:-]*", self.project):
            raise InvalidSettingError(f"{self.project!r} is no project of Google Cloud; give its id, as in lab-1234.")
        if not re.fullmatch(r"\w{1,1024}", self.dataset, re.ASCII):
            raise InvalidSettingError(f"{self.dataset!r} is no dataset: it takes letters, digits and '_'.")

    def __str__(self) -> str:
        where = f"?location={self.location}" if self.location else ""
        return f"bigquery://{self.project}/{self.dataset}{where}"

    @property
    def local_path(self) -> str:
        """Nothing: it is no file."""
        return ""

    @property
    def has_state(self) -> bool:
        """Loads change the tables of the current state."""
        return True

    def check(self) -> None:
        """Makes what is missing of the dataset, the tables and their columns."""
        with self._told("cannot be used", InvalidSettingError), self._client() as client:
            self._make_tables(client)
            found = self._dataset(client)
            if self.location and found.location.lower() != self.location.lower():
                raise InvalidSettingError(
                    f"The dataset {self.dataset} is in {found.location}, not in {self.location}; "
                    "leave the location out, or give another dataset."
                )

    def last_run(self, ledger: str) -> LastRun:
        """The last run of a ledger that was loaded: of its highest version."""
        runs = f"{self.place(RUNS)} WHERE ledger = @ledger"
        sql = f"SELECT version, run_id FROM {runs} ORDER BY version DESC LIMIT 1"  # noqa: S608 - ours, quoted
        with self._told("does not tell which runs it holds", RunError), self._client() as client:
            try:
                found = list(client.query(sql, job_config=parameters(ledger=ledger)).result())
            except NotFound:
                return LastRun()
            return LastRun(int(found[0][0]), found[0][1]) if found else LastRun()

    def ledgers(self) -> frozenset[str]:
        """The ids of the ledgers whose runs were loaded, "" for runs of none; empty when nothing was loaded."""
        with self._told("does not tell which runs it holds", RunError), self._client() as client:
            try:
                return self._ledgers(client)
            except NotFound:
                return frozenset()

    def load(self, run: LoadedRun) -> Mapping[str, int]:
        """Loads `run` unless it is there already; gives the rows written by table, none when it was there."""
        loads = ReadThrough.of(run)
        with self._told(f"did not take run {run.run_id}", RunError, _LOAD_AGAIN), self._client() as client:
            try:
                refuse_others(self, self._ledgers(client), run)
                there = self.holds(client, run)
            except NotFound:
                self._make_tables(client)
                there = False
            if there:
                return {}
            is_there = partial(self.holds, client, run)
            return Loading(client, self.project, self.dataset, self._dataset(client).location, loads, is_there).load()

    def _client(self) -> "closing[bigquery.Client]":
        """A client; an emulator, which the environment names, is given no credentials."""
        nobody = AnonymousCredentials() if os.environ.get("BIGQUERY_EMULATOR_HOST") else None  # type: ignore[no-untyped-call]
        return closing(bigquery.Client(self.project, credentials=nobody, location=self.location or None))

    def place(self, name: str) -> str:
        """A table as SQL takes it."""
        return place_of(self.project, self.dataset, name)

    def _dataset(self, client: bigquery.Client) -> bigquery.Dataset:
        return client.get_dataset(f"{self.project}.{self.dataset}", retry=DEFAULT_RETRY.with_timeout(_CHECK_S))

    def holds(self, client: bigquery.Client, run: LoadedRun) -> bool:
        """Whether the run, or a later one of its ledger, was loaded."""
        sql = there_sql(self.place(RUNS))
        return bool(list(client.query(sql, job_config=parameters_of(run)).result()))

    def _ledgers(self, client: bigquery.Client) -> frozenset[str]:
        sql = f"SELECT DISTINCT ledger FROM {self.place(RUNS)}"  # noqa: S608 - ours, quoted
        return frozenset(row[0] for row in client.query(sql).result())

    def _make_tables(self, client: bigquery.Client) -> None:
        try:
            self._dataset(client)
        except NotFound:
            made = bigquery.Dataset(f"{self.project}.{self.dataset}")
            made.location = self.location or None
            client.create_dataset(made, exists_ok=True)
        self._refuse_torn(client)
        for name in TABLES:
            wanted = columns_of(name)
            table = bigquery.Table(f"{self.project}.{self.dataset}.{name}", wanted)
            table.description = table_doc(name)
            found = client.create_table(table, exists_ok=True)
            _refuse_other_types(self.place(name), found.schema, wanted)
            there = {one.name for one in found.schema}
            missing = [one for one in wanted if one.name not in there]
            needed = {one.name for one in found.schema if one.mode == "REQUIRED"}
            refuse_strange(
                self.place(name), sorted(needed - {one.name for one in wanted}), [one.name for one in missing]
            )
            if missing:
                found.schema = [*found.schema, *map(_nullable, missing)]
                client.update_table(found, ["schema"])

    def _refuse_torn(self, client: bigquery.Client) -> None:
        """A table of the current state that was dropped after runs were loaded would be made anew, empty."""
        for name in CURRENT:
            with suppress(NotFound):
                client.get_table(f"{self.project}.{self.dataset}.{name}")
                continue
            with suppress(NotFound):  # nothing was loaded
                if self._ledgers(client):
                    raise InvalidSettingError(
                        f"The table {self.place(name)} was dropped after runs were loaded. Restore it, as BigQuery can "
                        f"for some days; or drop all tables of {self.dataset}, and everything is loaded anew."
                    )

    @contextmanager
    def _told(self, failure: str, kind: type[CrowdbeamError], advice: str = "") -> Iterator[None]:
        try:
            yield
        except _ERRORS as error:
            raise kind(f"{self} {failure}: {first_line(error)}. {advice}".rstrip()) from None


def _nullable(column: bigquery.SchemaField) -> bigquery.SchemaField:
    told = column.to_api_repr()
    return bigquery.SchemaField.from_api_repr(told | {"mode": "NULLABLE"} if column.mode == "REQUIRED" else told)


def _refuse_other_types(place: str, found: list[bigquery.SchemaField], wanted: list[bigquery.SchemaField]) -> None:
    kinds = {one.name: (one.field_type, one.mode == "REPEATED") for one in found}
    for one in wanted:
        if kinds.get(one.name, (one.field_type, one.mode == "REPEATED")) != (one.field_type, one.mode == "REPEATED"):
            raise InvalidSettingError(
                f"The column {one.name} of {place} is {kinds[one.name][0]}, not {one.field_type}. Give another dataset."
            )

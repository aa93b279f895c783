"""Labels from BigQuery: a table's rows page by page, which no query is paid for, or the result of a query."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any

import pyarrow as pa

from pipelines.errors import InputError, first_line
from pipelines.sources.warehouse_addresses import WarehouseAddress
from pipelines.sources.warehouse_rows import missing_package, no_table, refused

_PATIENCE_S = 60.0
_LISTED = "TABLE"  # rows of a view are not listed, only queried


class BigQueryRows:
    """The rows of a table or of a query's result."""

    def __init__(self, client: Any, address: WarehouseAddress) -> None:
        self._client, self._address = client, address
        self._source: Any
        if address.query:
            self._source = self._queried(address.sql())
        else:
            self._source = client.get_table(_name_of(address), retry=_retry(), timeout=_PATIENCE_S)
        self.names: list[str] = [field.name for field in self._source.schema]

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows; a query is not put into another one, which would not keep its order."""
        from google.api_core.exceptions import GoogleAPIError
        from google.auth.exceptions import GoogleAuthError

        wanted = list(columns)
        try:
            for batch in self._rows(wanted).to_arrow_iterable():
                yield batch.select([batch.schema.get_field_index(name) for name in wanted])
        except (GoogleAPIError, GoogleAuthError, OSError) as error:
            raise refused(self._address, error) from error

    def _rows(self, columns: list[str]) -> Any:
        if self._address.query:
            return self._source
        if self._source.table_type != _LISTED:
            chosen = ", ".join(f"`{name}`" for name in columns)
            return self._queried(f"SELECT {chosen} FROM `{_name_of(self._address)}`")  # noqa: S608 - the user's own
        fields = [field for field in self._source.schema if field.name in columns]
        return self._client.list_rows(self._source, selected_fields=fields, retry=_retry(), timeout=_PATIENCE_S)

    def _queried(self, text: str) -> Any:
        return self._client.query(text, retry=_retry(), timeout=_PATIENCE_S).result()


@contextmanager
def open_rows(address: WarehouseAddress) -> Iterator[BigQueryRows]:
    """The rows of the address, as the client's own credentials let them be seen."""
    try:
        from google.api_core.exceptions import GoogleAPICallError, NotFound, RetryError
        from google.auth.exceptions import GoogleAuthError

        bigquery = import_module("google.cloud.bigquery")
    except ImportError as error:
        raise missing_package(address, "google-cloud-bigquery") from error
    with ExitStack() as opened:
        try:
            client = opened.enter_context(bigquery.Client(project=address.place, credentials=_credentials()))
            rows = _rows_of(client, address, NotFound)
        except (GoogleAuthError, RetryError, OSError) as error:
            raise InputError(
                f"BigQuery cannot be reached for {address.text}: {first_line(error)}. See the network and the client's "
                "credentials (GOOGLE_APPLICATION_CREDENTIALS)."
            ) from error
        except GoogleAPICallError as error:
            raise refused(address, error) from error
        yield rows


def _rows_of(client: Any, address: WarehouseAddress, not_found: type[Exception]) -> BigQueryRows:
    try:
        return BigQueryRows(client, address)
    except not_found as error:
        if address.query:
            raise
        raise no_table(address, _tables(client, address, not_found)) from error


def _credentials() -> Any:
    """None, so that the client looks for its own; an emulator, which the environment names, needs none."""
    if not os.environ.get("BIGQUERY_EMULATOR_HOST"):
        return None
    return import_module("google.auth.credentials").AnonymousCredentials()


def _name_of(address: WarehouseAddress) -> str:
    return f"{address.place}.{address.table_name}"


def _retry() -> Any:
    return import_module("google.cloud.bigquery.retry").DEFAULT_RETRY.with_timeout(_PATIENCE_S)


def _tables(client: Any, address: WarehouseAddress, not_found: type[Exception]) -> list[tuple[str, str]]:
    try:
        return [(one.dataset_id, one.table_id) for one in client.list_tables(f"{address.place}.{address.table[0]}")]
    except not_found:
        return []

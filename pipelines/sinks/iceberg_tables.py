"""Tables of an Iceberg catalog: opened, made when missing; the client's errors as sentences without secrets."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyiceberg import exceptions
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.table import Table
from pyiceberg.utils.config import Config
from sqlalchemy.exc import SQLAlchemyError

from pipelines.errors import CrowdbeamError, first_line
from pipelines.sinks.iceberg_runs import REFILL
from pipelines.sinks.loads import CURRENT, RUNS, TABLES, table_doc, table_schema
from pipelines.sinks.warehouse import refuse_strange

_CLIENT_ERRORS = (
    *(one for one in vars(exceptions).values() if isinstance(one, type) and issubclass(one, Exception)),
    SQLAlchemyError,
    pa.ArrowException,
    OSError,
)
_SECRET = re.compile(r"password|secret|token|credential|key|sas", re.IGNORECASE)
_NO_RETRIES = {"commit.retry.num-retries": "0"}
_MADE_WITH = {"commit.manifest-merge.enabled": "true"}


@contextmanager
def opened(name: str, kind: type[CrowdbeamError]) -> Iterator[Catalog]:
    """The catalog that pyiceberg's configuration calls `name`; raises an error of `kind` when there is none."""
    settings = Config().get_catalog_config(name)
    if not settings:
        known = ", ".join(Config().get_known_catalogs()) if Config().config.get("catalog") else "none"
        raise kind(
            f"There is no Iceberg catalog called {name!r}; pyiceberg's configuration has: {known}. Describe it in "
            f".pyiceberg.yaml, or set PYICEBERG_CATALOG__{name.upper()}__URI and what else it needs."
        )
    secrets = _secrets_in(settings)
    with told(f"The Iceberg catalog {name!r} cannot be opened", kind, secrets, ValueError):
        catalog = load_catalog(name, **cast(dict[str, str], settings))
    with catalog:
        yield catalog


@contextmanager
def told(
    failure: str, kind: type[CrowdbeamError], secrets: set[str], *also: type[Exception], advice: str = ""
) -> Iterator[None]:
    """Errors of the client become sentences of `kind` that begin with `failure` and hold none of `secrets`."""
    try:
        yield
    except (*_CLIENT_ERRORS, *also) as error:
        shown = re.sub(r"//[^/@\s]*@", "//***@", str(error) or type(error).__name__)
        for secret in secrets:
            shown = shown.replace(secret, "***")
        sentence = f"{failure}: {first_line(OSError(shown))}. {advice}".rstrip()  # cut last: half a secret is one too
        raise kind(sentence) from None  # the client's own text may hold what nobody should see


def secrets_of(catalog: Catalog) -> set[str]:
    """The values of the catalog's settings that nobody should see."""
    return _secrets_in(catalog.properties)


def _secrets_in(settings: Mapping[str, Any]) -> set[str]:
    found = {str(value) for key, value in settings.items() if _SECRET.search(key)}
    with suppress(ValueError):  # no address, so it holds no password
        password = urlsplit(str(settings.get("uri", ""))).password or ""
        found |= {password, unquote(password)}
    return found - {""}


def identifier_of(namespace: str, name: str) -> tuple[str, ...]:
    """The identifier of a table; a namespace of several levels has dots.

    >>> identifier_of("lab.crowd", "scores")
    ('lab', 'crowd', 'scores')
    """
    return (*namespace.split("."), name)


def table_of(catalog: Catalog, namespace: str, name: str) -> Table:
    """The table as it is now; a commit of what was made of it fails when another was quicker.

    pyiceberg would put an append that came too late behind the other one and try again. But the other one may have been
    of the same run, so that has to be looked at first.
    """
    table = catalog.load_table(identifier_of(namespace, name))
    properties = {**table.metadata.properties, **_NO_RETRIES}
    table.metadata = table.metadata.model_copy(update={"properties": properties})
    return table


def lacking(catalog: Catalog, namespace: str) -> list[str]:
    """The tables of the current state that are missing, or were made after runs were loaded and not filled since."""
    found = {name: identifier_of(namespace, name) for name in CURRENT}
    there = {name for name, one in found.items() if catalog.table_exists(one)}
    return [n for n, one in found.items() if n not in there or REFILL in catalog.load_table(one).properties]


def make_tables(catalog: Catalog, namespace: str) -> None:
    """Makes the namespace and its tables when they are missing, and adds columns that a table lacks."""
    if not catalog.namespace_exists(namespace):
        with suppress(NamespaceAlreadyExistsError):  # made by another one, just now
            catalog.create_namespace(namespace)
    for name in TABLES:
        identifier, wanted = identifier_of(namespace, name), table_schema(name)
        try:
            table = catalog.load_table(identifier)
        except NoSuchTableError:
            again = name in CURRENT and _has_rows(catalog, identifier_of(namespace, RUNS))
            table = _made(catalog, identifier, name, wanted, {REFILL: "true"} if again else {})
        there = set(table.schema().column_names)
        missing = [field.with_nullable(True) for field in wanted if field.name not in there]
        strange = sorted(
            field.name for field in table.schema().fields if field.required and field.name not in wanted.names
        )
        refuse_strange(".".join(identifier), strange, [one.name for one in missing])
        if missing:
            with table.update_schema() as update:
                update.union_by_name(pa.schema(missing))


def _has_rows(catalog: Catalog, identifier: tuple[str, ...]) -> bool:
    return catalog.table_exists(identifier) and catalog.load_table(identifier).scan().count() > 0


def _made(
    catalog: Catalog, identifier: tuple[str, ...], name: str, schema: pa.Schema, also: Mapping[str, str]
) -> Table:
    try:
        properties = {**_MADE_WITH, "comment": table_doc(name), **also}
        return catalog.create_table(identifier, schema, properties=properties)
    except TableAlreadyExistsError:
        return catalog.load_table(identifier)

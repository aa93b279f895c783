"""A table of the current state that somebody dropped: it is filled again, or a sentence says what to do."""

import duckdb
import psycopg
import pytest
from command_line import crowd_rows, run_command, write_rows
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery
from test_warehouses import WAREHOUSES, held
from warehouse_runs import first_night, score, second_night, write_run

from pipelines.errors import InvalidSettingError, RunError
from pipelines.sinks.loads import CURRENT
from pipelines.sinks.warehouses import warehouse_of

FILL = [name for name in WAREHOUSES if name != "bigquery"]


def drop(place, *names):
    """Drops tables, as somebody else would."""
    if hasattr(place, "catalog"):
        with place.catalog() as catalog:
            for name in names:
                catalog.drop_table(f"crowd.{name}")
    elif hasattr(place, "dsn"):
        with psycopg.connect(place.dsn) as connection:
            for name in names:
                connection.execute(f'DROP TABLE "{place.schema}"."{name}"')
    elif hasattr(place, "path"):
        with duckdb.connect(str(place.path)) as connection:
            for name in names:
                connection.execute(f"DROP TABLE {name}")
    else:
        for name in names:
            bigquery.Client(place.server.project, credentials=AnonymousCredentials()).delete_table(f"crowd.{name}")


@pytest.fixture(params=FILL)
def place(request, tmp_path):
    return WAREHOUSES[request.param](tmp_path, request)


class Nights:
    """Nights of a ledger, each loaded into a place."""

    def __init__(self, folder, place):
        self.folder, self.place, rows = folder, place, crowd_rows(labels_per_task=4)
        self.labels = [
            write_rows(folder / f"{n}.csv", ("task", "worker", "label"), part)
            for n, part in enumerate((rows[:200], rows[200:230], rows[230:]))
        ]

    def run(self, night, *, to=True):
        output = ("--output", self.place.address) if to else ()
        done = run_command("nightly", self.labels[night], "--ledger", self.folder / "ledger", *output)
        assert done.code == 0, done.err
        return done.out

    def expected(self):
        """The keys that each table has after all nights so far, from an export of the ledger into a new place."""
        out = self.folder / "export"
        done = run_command("ledger", "export", self.folder / "ledger", "--output", out, folder=out)
        assert done.code == 0, done.err
        return {name: sorted(tuple(row[key] for key in CURRENT[name]) for row in done.rows(name)) for name in CURRENT}

    def found(self):
        return {
            name: sorted(tuple(row[key] for key in CURRENT[name]) for row in self.place.rows(name)) for name in CURRENT
        }


@pytest.mark.parametrize("name", ["scores", "edges"])
def test_the_next_night_loads_the_whole_state_where_a_table_was_dropped(place, tmp_path, name):
    nights = Nights(tmp_path, place)
    nights.run(0)
    drop(place, name)
    nights.run(1)
    assert nights.found() == nights.expected()
    nights.run(2)
    assert [row["whole"] for row in sorted(place.rows("runs"), key=lambda row: row["version"])] == [True, True, False]


def test_a_night_without_news_fills_the_tables_that_were_dropped(place, tmp_path):
    nights = Nights(tmp_path, place)
    nights.run(0)
    nights.run(1)
    before = {name: len(place.rows(name)) for name in ("score_history", "skill_history", "rejects", "runs")}
    drop(place, "scores", "skills")
    assert "up to date" not in nights.run(1)
    assert nights.found() == nights.expected()
    assert {name: len(place.rows(name)) for name in before} == before
    assert "It was up to date." in nights.run(1)


def test_the_last_whole_run_loaded_again_fills_what_was_dropped_and_an_older_one_does_not(place, tmp_path):
    warehouse = warehouse_of(place.address)
    runs = [write_run(tmp_path / name, name, scores=[[score(name), score("t")]]) for name in ("a", "b")]
    for run in runs:
        warehouse.load(run)
    before = held(place)
    drop(place, "scores")
    warehouse.check()
    with pytest.raises(RunError, match=r"table scores of .* was dropped after run b was loaded, and run a does not"):
        warehouse.load(runs[0])
    assert warehouse.load(runs[1])["scores"] == 2
    assert held(place) == before
    assert len(place.rows("runs")) == 2
    assert warehouse.load(runs[1]) == {}


def test_what_changed_is_not_loaded_into_a_table_that_was_dropped(place, tmp_path):
    warehouse = warehouse_of(place.address)
    warehouse.load(first_night(tmp_path / "first"))
    drop(place, "scores")
    night = second_night(tmp_path / "second")
    for _ in range(2):
        with pytest.raises(RunError, match=r"table scores of .* was dropped .* Run crowdbeam nightly"):
            warehouse.load(night)
    done = run_command("load", night.path, "--to", place.address)
    assert done.code == 2
    assert "was dropped" in done.err
    whole = write_run(tmp_path / "third", "night-3", 3, scores=[[score("t9")]])
    assert warehouse.load(whole)["scores"] == 1
    assert warehouse.last_run(whole.ledger).torn is False


def test_bigquery_makes_no_table_anew_that_was_dropped_after_runs_were_loaded(tmp_path, request):
    place = WAREHOUSES["bigquery"](tmp_path, request)
    warehouse = warehouse_of(place.address)
    warehouse.load(first_night(tmp_path / "first"))
    drop(place, "scores")
    with pytest.raises(InvalidSettingError, match=r"crowd.scores` was dropped after runs were loaded. Restore it"):
        warehouse.check()
    with pytest.raises(RunError):
        warehouse.load(second_night(tmp_path / "second"))

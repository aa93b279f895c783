"""docs/nightly.md says what the code does: options, files, fields, reasons, codes, and examples that are run."""

import json
import re
import shlex
from dataclasses import fields
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import Run, crowd_rows, run_command, write_rows

from pipelines.commands import ledger as ledger_command
from pipelines.commands import nightly as nightly_command
from pipelines.frames import unpack
from pipelines.gates import KINDS
from pipelines.late import LATE
from pipelines.ledger import night_work
from pipelines.ledger.folder import CURRENT, EVERYTHING, FETCHED
from pipelines.ledger.version import FORMAT_VERSION, Version
from pipelines.records import REASONS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "nightly.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```\n(\$ crowdbeam .*?)^```$", PAGE, re.M | re.S)
HEADER = ("task", "worker", "label", "time", "op")
CHANGING = re.compile(r"\b[0-9a-f]{12}\b|\b[0-9a-f]{32}\b|\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ|(?<=seconds) +[\d.]+|[\d,]+(?= bytes| before)|(?<=  bytes) +[\d,]+")  # fmt: skip  # noqa: E501


def write_nights(folder):
    """Monday's and Tuesday's labels, as the page tells."""
    rows = crowd_rows(n_tasks=2_000, labels_per_task=5)
    (corrected, who, label), (withdrawn, whose, _) = rows[:2]
    second = [(*row, "2026-11-17T10:00:00Z", "") for row in rows[7_900:]]
    second.append((corrected, who, "c1" if label == "c0" else "c0", "2026-11-17T11:00:00Z", ""))
    second += [(withdrawn, whose, "", "2026-11-17T11:00:00Z", "delete"), (withdrawn, "", "c0", "", "")]
    write_rows(folder / "monday.csv", HEADER, [(*row, "2026-11-16T10:00:00Z", "") for row in rows[:8_000]])
    write_rows(folder / "tuesday.csv", HEADER, second)


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What the page's commands say when they are run one after the other, and the ledger they leave."""
    folder = tmp_path_factory.mktemp("page")
    write_nights(folder)
    said = []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for line in [line for example in EXAMPLES for line in example.splitlines() if line.startswith("$ ")]:
            done = run_command(*shlex.split(line)[2:])
            assert (done.code, done.err) == (0, ""), line
            said.append((line, done.out))
    return folder, said


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    """A ledger after two nights."""
    folder = tmp_path_factory.mktemp("ledger")
    write_nights(folder)
    for day in ("monday", "tuesday"):
        assert run_command("nightly", folder / f"{day}.csv", "--ledger", folder / "ledger").code == 0
    return folder / "ledger"


def table_after(heading, page=PAGE):
    """The rows of the first table after `heading`, each a list of cells."""
    lines = page[page.index(heading) :].splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[first:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows[2:]


def names_in(cell):
    return re.findall(r"`([^`]+)`", cell)


def listed_after(heading):
    return [name for row in table_after(heading) for name in names_in(row[0])]


def test_the_examples_are_what_the_commands_say(told):
    _, said = told
    shown = "\n".join(EXAMPLES)
    for line, out in said:
        assert CHANGING.sub("…", f"{line}\n{out}") in CHANGING.sub("…", shown)


@pytest.mark.parametrize(
    ("command", "heading"), [(nightly_command, "## Options"), (ledger_command, "| option | default | of |")]
)
def test_every_option_is_on_the_page_with_its_default(command, heading):
    wanted = {
        action.option_strings[0]: "required" if action.required else shown(action.default)
        for action in command.build_parser()._actions
        if action.option_strings and "-h" not in action.option_strings
    }
    rows = table_after(heading)
    assert {names_in(option)[0]: (names_in(default) or [default])[0] for option, default, _ in rows} == wanted
    assert len(rows) == len(wanted)


def shown(default):
    if isinstance(default, bool):
        return "yes" if default else "no"
    return str(default) if default not in ("", [], None) else "none"


def test_every_action_is_on_the_page():
    assert listed_after("| action | does |") == list(ledger_command._ACTIONS)


def test_every_exit_code_is_on_the_page():
    listed = {int(code) for row in table_after("| exit code | meaning |") for code in re.findall(r"\d+", row[0])}
    told = nightly_command.build_parser().epilog.partition("exit codes:")[2]
    assert listed == {
        int(code) for code in re.findall(r"^ +(\d+)  |, (\d+) ended", told, re.M) for code in code if code
    }
    gates = next(row for row in table_after("| exit code | meaning |") if row[0].startswith("10"))
    assert re.findall(r"\d+", gates[0]) == [str(kind.code) for kind in KINDS]
    assert names_in(gates[1]) == [kind.name for kind in KINDS]


def test_every_reason_is_on_this_page_or_on_that_of_the_run_folder():
    assert listed_after("| reason | meaning | what to do |") == [LATE]
    others = table_after("## Reasons of rejects", (DOCS / "run-folder.md").read_text("utf-8"))
    assert {names_in(row[0])[0] for row in others} == REASONS


def test_every_key_of_json_is_on_the_page_and_is_there_when_nothing_is_new(ledger, tmp_path):
    write_nights(tmp_path)
    told = json.loads(run_command("nightly", tmp_path / "monday.csv", "--ledger", ledger, "--json").out)
    assert listed_after("## What --json prints") == list(told)
    assert told["held"] is False


def test_every_file_of_a_ledger_is_on_the_page(ledger):
    found = set()
    for path in (path.relative_to(ledger).as_posix() for path in ledger.rglob("*") if path.is_file()):
        named = re.sub(r"/\d{5}\.frame$", "/SHARD.frame", re.sub(r"\d{6}", "VERSION", path, count=1))
        found.add("runs/VERSION/" if named.startswith("runs/") else named)
    assert set(listed_after("| path | holds |")) == found
    assert f"`{FETCHED}/`" in PAGE
    assert f"`runs/VERSION{EVERYTHING}/`" in PAGE
    assert f"`{CURRENT}.new`" in PAGE


def test_every_field_of_a_version_is_on_the_page():
    assert listed_after("**A version**") == [field.name for field in fields(Version)]
    assert f"(`format_version` is {FORMAT_VERSION})" in PAGE


def test_every_array_and_column_is_on_the_page(ledger):
    arrays = {name for path in ledger.glob("labels/*/*.frame") for name in unpack(path.read_bytes())}
    assert set(listed_after("| array | holds |")) == arrays
    with pa.input_stream(ledger / "edges" / "000002.frame", compression="zstd") as stream:
        pairs = unpack(stream.read())
    assert [name for name in listed_after("| array of pairs | holds |") if name != "second"] == list(pairs)
    for name, columns in table_after("| table | columns |"):
        (table,) = names_in(name)
        found = pq.read_schema(ledger / table / "000002.parquet").names
        assert [column for column in names_in(columns) if column not in ("workers", '""')] == found


def test_every_count_that_a_batch_has_not_is_on_the_page(ledger, tmp_path):
    write_nights(tmp_path)
    done = run_command("aggregate", tmp_path / "tuesday.csv", "--output", tmp_path / "run", folder=tmp_path / "run")
    night = Run(0, "", "", ledger / "runs" / "000002")
    more = night.manifest["counts"].keys() - done.manifest["counts"].keys()
    assert set(listed_after("| count | of |")) == more


def test_numbers_in_the_text_are_those_of_the_code():
    assert f"one for {night_work._LABELS_PER_SHARD:,} labels" in PAGE
    assert f"at least {night_work._FEWEST_SHARDS}" in PAGE

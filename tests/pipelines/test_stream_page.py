"""docs/stream.md says what the code does: reasons, options, metrics, flags, the status, and the numbers in the text."""

import json
import re
import time
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from event_reasons import EVENT_REASONS
from stages import TRIANGLE, Keeping, change

from pipelines.answers import NO_LABELS
from pipelines.arguments import option_table
from pipelines.commands.aggregate import build_parser as aggregate_parser
from pipelines.commands.model_options import add_model_options
from pipelines.commands.stream import build_parser
from pipelines.late import LATE
from pipelines.records import REASONS
from pipelines.streaming import desk, supervise, tracking
from pipelines.streaming.answering import AnswerRules
from pipelines.streaming.runner_flags import with_streaming_flags
from pipelines.streaming.skill_keeping import SkillRules

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "stream.md").read_text("utf-8")
METRIC = re.compile(r"Metrics\.(counter|gauge|distribution)\(\s*(\S+?),\s*(.+?)\)(?:\.|\s|$)")
NAMES = {
    'f"rejects.{LATE}"': "rejects.REASON",
    'name.replace("events_rejected.", "rejects.")': "rejects.REASON",
    'f"lag.{partition}"': "lag.PARTITION",
    'f"state_bytes.{key}"': "state_bytes.STEP.SHARD",
    'f"rows_written.{name}"': "rows_written.TABLE",
}


def table_after(heading):
    """The rows of the first table after `heading`, each a list of cells."""
    lines = PAGE[PAGE.index(heading) :].splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[first:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows[2:]


def names_in(cell):
    return re.findall(r"`([^`]+)`", cell)


def test_every_reason_of_a_stream_is_on_the_page_with_a_meaning_and_a_remedy():
    rows = table_after("## Rejects")
    listed = [names_in(row[0])[0] for row in rows]
    assert sorted(listed) == sorted((EVENT_REASONS - REASONS) | {LATE})
    assert all(meaning and remedy for _, meaning, remedy in rows)


def test_every_option_is_on_the_page_with_its_default():
    model = option_table(aggregate_parser()).keys() & set(model_options())
    wanted = {
        action.option_strings[0]: shown(action.default)
        for action in build_parser()._actions
        if action.option_strings and action.option_strings[0] not in (*model, "-h")
    }
    listed = {
        names_in(option)[0]: (names_in(default) or [default])[0] for option, default, _ in table_after("## Options")
    }
    assert listed == wanted


def model_options():
    from pipelines.arguments import CommandParser

    parser = CommandParser(prog="model", add_help=False)
    add_model_options(parser)
    return option_table(parser)


def shown(default):
    if isinstance(default, bool):
        return "yes" if default else "no"
    return str(default) if default not in ("", []) else "none"


def test_every_metric_is_on_the_page_with_its_kind():
    found = set()
    for path in (*(ROOT / "pipelines" / "streaming").glob("*.py"), *(ROOT / "pipelines" / "sinks").glob("*.py")):
        text = path.read_text("utf-8")
        assert text.count("Metrics.") == len(METRIC.findall(text)), (
            f"{path.name} has metrics that this test cannot read"
        )
        for kind, space, name in METRIC.findall(text):
            space = {'"crowdbeam"': "crowdbeam", "METRICS": "crowdbeam.sink"}[space]
            found.add((f"{space}/{NAMES.get(name) or name.strip(chr(34))}", kind))
    assert {(names_in(row[0])[0], row[1]) for row in table_after("## Metrics")} == found


def test_every_field_of_the_status_is_on_the_page(tmp_path):
    keeping = Keeping(tmp_path)
    keeping(change(0, *TRIANGLE))
    until = time.monotonic() + 30
    while "graph" not in (keeping.control.status() or {}) and time.monotonic() < until:
        keeping.tick()
        time.sleep(0.05)
    status = json.loads((tmp_path / "status.json").read_text("utf-8"))
    listed = [name for row in table_after("## The control folder") for name in names_in(row[0])]
    assert sorted(listed) == sorted(status)


@pytest.mark.parametrize(
    ("runner", "args"),
    [
        ("Prism", ["--runner=PrismRunner"]),
        ("Flink", ["--runner=PortableRunner", "--job_endpoint=localhost:8099", "--parallelism=2"]),
    ],
)
def test_every_flag_that_is_added_is_on_the_page(runner, args):
    added = with_streaming_flags(args)[len(args) :]
    listed = [names_in(row[1])[0] for row in table_after("These flags are added") if row[0] in ("all", runner)]
    assert sorted(listed) == sorted("--sdk_worker_parallelism" if "sdk_worker" in flag else flag for flag in added)


def test_the_numbers_on_the_page_are_those_of_the_code():
    rules = AnswerRules()
    assert f"in the last {rules.fresh_s:g} seconds" in PAGE
    assert f"a model every {rules.backlog_every_s:g} seconds" in PAGE
    assert f"{rules.looks_per_s:,.0f} a second and shard" in PAGE
    assert f"written every {SkillRules().skills_every_s:g} seconds" in PAGE
    assert f"remembered for {tracking.REMEMBERED} times the ttl" in PAGE
    assert f"a backlog of {desk._BACKLOG:,} events or more" in PAGE
    assert f"if nothing moves for {supervise.PATIENCE_S:g} s it gives up" in PAGE
    assert f"`{NO_LABELS}`" in PAGE
    defaults = {names_in(option)[0]: names_in(value) for option, value, _ in table_after("## Options")}
    assert defaults["--solve-every"] == [f"{SkillRules().solve_every_s:g}s"]
    assert defaults["--settle-after"] == [f"{SkillRules().settle_after_s:g}s"]


def test_a_topic_and_labels_to_try_it_on_are_made_as_the_page_shows(kafka):
    topic = f"labels-{uuid.uuid4().hex}"
    (code,) = [one for one in re.findall(r"```python\n(.*?)```", PAGE, re.S) if "NewTopic" in one]
    exec(code.replace('"labels"', f'"{topic}"'), {"broker": kafka.bootstrap})  # noqa: S102 - the page's own example
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = [json.loads(message.value()) for message in consumer.consume(300, 60)]
    consumer.close()
    assert len({(one["task"], one["worker"]) for one in found}) == 300
    assert {one["label"] for one in found} == {"cat", "dog"}

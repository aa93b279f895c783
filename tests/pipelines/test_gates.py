"""Gates: what they take, what they measure, and, through the real command, when they trip and what that leaves."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from command_line import crowd_rows, run_command, write_rows
from hypothesis import given
from hypothesis import strategies as st

import schemas
from pipelines.errors import InvalidSettingError
from pipelines.gates import (
    FEWEST_LABELS,
    KINDS,
    TORN,
    Gate,
    GateFacts,
    check_gates,
    codes_table,
    exit_code_of,
    facts_of,
    parse_gates,
    skill_drift,
)
from pipelines.sources import UNREADABLE_BLOCK, UNREADABLE_REST

HEADER = ("task", "worker", "label")
PAIR = [(f"p{n}", worker, "c0") for n in range(4) for worker in ("left", "right")]
LONER = [("s", "solo", "c0")]
BROKEN = [("t00", "", "c0"), ("t01", "w0", "")]


def skills(*rows):
    """A table of skills; each row is a worker, a skill, a number of labels and a status."""
    filled = [
        {"worker": worker, "skill": skill, "n_labels": n_labels, "status": status}
        | {"skill_low": -1.0, "skill_high": 1.0, "accuracy": 0.5, "n_peers": 1, "component": 0}
        for worker, skill, n_labels, status in rows
    ]
    return pa.Table.from_pylist(filled, schemas.arrow_schema("skill"))


def aggregated(folder, rows, *options, name="run"):
    labels = write_rows(folder / f"{name}.csv", HEADER, rows)
    return run_command("aggregate", labels, "--output", folder / name, *options, folder=folder / name)


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        (["reject-share>0.1"], "--fail-if is 'reject-share>0.1', which is no gate; did you mean rejects-share>LIMIT?"),
        (["xyz"], "which is no gate; there are unidentified-share>LIMIT, rejects-share>LIMIT, skill-drift>LIMIT, torn"),
        (
            ["rejects-share"],
            "without a limit; write 'rejects-share>LIMIT', in quotes, or the shell takes > for itself.",
        ),
        (["rejects-share>"], "the limit of rejects-share is a number from 0 to 1."),
        (["rejects-share>=0.1"], "the limit of rejects-share is a number from 0 to 1."),
        (["rejects-share>1 %"], "the limit of rejects-share is a number from 0 to 1."),
        (["rejects-share>nan"], "the limit of rejects-share is a number from 0 to 1."),
        (["unidentified-share>1.01"], "the limit of unidentified-share is a number from 0 to 1."),
        (["unidentified-share>-0.01"], "the limit of unidentified-share is a number from 0 to 1."),
        (["skill-drift>2.01"], "the limit of skill-drift is a number from 0 to 2."),
        (["no-new-labels>0"], "no-new-labels takes no limit, write no-new-labels alone."),
        (["no-new-labels", "no-new-labels"], "--fail-if names the gate no-new-labels twice; name each once."),
        (["rejects-share>0.1", "rejects-share>0.2"], "--fail-if names the gate rejects-share twice; name each once."),
    ],
)
def test_what_is_no_gate_is_refused_with_a_sentence(texts, sentence):
    with pytest.raises(InvalidSettingError) as error:
        parse_gates(texts)
    assert sentence in str(error.value)


def test_limits_reach_to_the_ends_of_what_can_be_measured_and_blanks_do_not_matter():
    texts = ["unidentified-share > 1", " rejects-share>0 ", "skill-drift>2", "no-new-labels"]
    limits = [("unidentified-share", 1), ("rejects-share", 0), ("skill-drift", 2), ("no-new-labels", None)]
    assert [(gate.name, gate.limit) for gate in parse_gates(texts)] == limits
    assert parse_gates([str(gate) for gate in parse_gates(texts)]) == parse_gates(texts)


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_gate_trips_above_its_limit_and_not_at_it(limit, value):
    (result,) = check_gates([Gate("rejects-share", limit)], GateFacts(rejects_share=value))
    assert result.tripped == (value > limit)
    (result,) = check_gates([Gate("rejects-share", limit)], GateFacts(rejects_share=limit))
    assert not result.tripped


def test_what_cannot_be_measured_trips_nothing():
    gates = [Gate(kind.name, None if kind.most is None else 0.0) for kind in KINDS]
    results = check_gates(gates, facts_of({}))
    assert [(one.value, one.tripped) for one in results] == [(None, False)] * len(KINDS)
    assert exit_code_of(results) == 0


def test_the_lowest_code_of_those_that_tripped_is_the_exit_code():
    facts = GateFacts(unidentified_share=0.5, rejects_share=0.5, skill_drift=0.5, new_labels=0)
    every = [
        Gate("no-new-labels"),
        Gate("skill-drift", 0.1),
        Gate("rejects-share", 0.1),
        Gate("unidentified-share", 0.1),
    ]
    codes = [exit_code_of(check_gates(every[:n], facts)) for n in range(5)]
    assert codes == [0, 20, 12, 11, 10]


def test_codes_are_distinct_from_each_other_and_from_those_of_the_commands():
    codes = [code for code, _, _ in codes_table()]
    assert len(set(codes)) == len(codes)
    assert all(10 <= code <= 20 for code in codes)


def test_drift_is_the_largest_change_among_workers_that_can_be_compared():
    enough, few = FEWEST_LABELS, FEWEST_LABELS - 1
    before = skills(
        ("ann", 0.5, enough, "ok"), ("bob", 0.9, enough, "saturated"), ("few then", 0.9, few, "ok"),
        ("few now", 0.9, enough, "ok"), ("loose", 0.9, enough, "unidentified"), ("alone", 0.9, enough, "isolated"),
        ("gone", 0.9, enough, "ok"),
    )  # fmt: skip
    after = skills(
        ("new", -0.9, enough, "ok"), ("alone", -0.9, enough, "ok"), ("loose", -0.9, enough, "ok"),
        ("few now", -0.9, few, "ok"), ("few then", -0.9, enough, "ok"), ("bob", 0.65, enough, "ok"),
        ("ann", 0.6, enough, "ok"),
    )  # fmt: skip
    assert skill_drift(before, after) == pytest.approx(0.25)
    assert skill_drift(after, before) == pytest.approx(0.25)
    assert skill_drift(before.slice(6), after) is None
    assert skill_drift(skills(), skills()) is None


def test_drift_equals_a_loop_over_workers_also_in_tables_of_many_chunks():
    rng = np.random.default_rng(3)
    statuses = ("ok", "saturated", "unidentified", "isolated")

    def table():
        rows = [
            (f"w{n}", float(rng.uniform(-1, 1)), int(rng.integers(0, 60)), statuses[rng.integers(4)])
            for n in rng.permutation(600)[:400]
        ]
        return pa.concat_tables([skills(*rows[:150]), skills(*rows[150:])])

    before, after = table(), table()

    def steady(of):
        rows = of.to_pylist()
        return {r["worker"]: r["skill"] for r in rows if r["n_labels"] >= 20 and r["status"] in ("ok", "saturated")}

    then, now = steady(before), steady(after)
    assert skill_drift(before, after) == max(abs(now[worker] - then[worker]) for worker in now.keys() & then.keys())


@pytest.mark.parametrize(("limit", "code"), [(0.2, 10), (0.25, 0)])
def test_unidentified_share(limit, code, tmp_path):
    """Nine workers of twelve are determined: a pair and a worker alone are not."""
    run = aggregated(tmp_path, [*crowd_rows(), *PAIR, *LONER], "--fail-if", f"unidentified-share>{limit}")
    statuses = list(run.column("skills", "worker", "status").values())
    assert statuses.count("unidentified") + statuses.count("isolated") == 3
    assert run.code == code
    expected = {"gate": "unidentified-share", "limit": limit, "value": 0.25, "tripped": code == 10}
    assert run.manifest["gates"] == [expected]


@pytest.mark.parametrize(("limit", "code"), [(0.01, 11), (0.02, 0)])
def test_rejects_share(limit, code, tmp_path):
    run = aggregated(tmp_path, [*crowd_rows(), *BROKEN], "--fail-if", f"rejects-share>{limit}")
    assert run.code == code
    value = 2 / (len(crowd_rows()) + 2)
    assert run.manifest["gates"] == [
        {"gate": "rejects-share", "limit": limit, "value": value, "tripped": code == 11}
    ]  # fmt: skip


@pytest.mark.parametrize(("limit", "code"), [(0.05, 12), (1.9, 0)])
def test_skill_drift(limit, code, tmp_path):
    """In the second run a worker who was good guesses."""
    rows = crowd_rows(n_tasks=300)
    first = aggregated(tmp_path, rows, name="first")
    best = max(first.rows("skills"), key=lambda row: row["skill"])["worker"]
    changed = [(task, worker, "c0" if worker == best else label) for task, worker, label in rows]
    options = ("--prior-skills", first.folder, "--prior-strength", "0", "--fail-if", f"skill-drift>{limit}")
    second = aggregated(tmp_path, changed, *options, name="second")
    assert second.code == code
    then, now = (run.column("skills", "worker", "skill") for run in (first, second))
    (gate,) = second.manifest["gates"]
    assert gate["value"] == max(abs(now[worker] - then[worker]) for worker in now)
    assert gate["tripped"] == (code == 12)


def test_the_same_labels_again_do_not_drift(tmp_path):
    first = aggregated(tmp_path, crowd_rows(), name="first")
    options = ("--prior-skills", first.folder, "--prior-strength", "0", "--fail-if", "skill-drift>0")
    again = aggregated(tmp_path, crowd_rows(), *options, name="again")
    assert (again.code, again.manifest["gates"][0]["value"]) == (0, 0.0)


@pytest.mark.parametrize(("rows", "code", "value"), [(BROKEN, 20, 0.0), (crowd_rows(), 0, 180.0)])
def test_no_new_labels(rows, code, value, tmp_path):
    run = aggregated(tmp_path, rows, "--fail-if", "no-new-labels")
    assert run.code == code
    assert run.manifest["gates"] == [
        {"gate": "no-new-labels", "limit": None, "value": value, "tripped": code == 20}
    ]  # fmt: skip


def test_a_tripped_gate_is_told_everywhere_and_the_run_is_there(tmp_path):
    options = ("--fail-if", "rejects-share>0.005", "--fail-if", "unidentified-share>0.05")
    run = aggregated(tmp_path, [*crowd_rows(), *BROKEN], *options)
    value = 2 / 182
    assert run.code == 11
    assert run.err == (
        f"crowdbeam: The gate rejects-share has tripped: {value:.6g} is above the limit of 0.005. "
        f"The run is in {run.folder}.\n"
    )
    block = run.out[run.out.index("Gates\n") :].split("\n\n")[0].splitlines()
    assert [line.split() for line in block[1:]] == [
        ["gate", "limit", "value"],
        ["rejects-share", "0.005", f"{value:.6g}", "tripped"],
        ["unidentified-share", "0.05", "0", "passed"],
    ]
    assert len(run.rows("scores")) == 60
    schema = schemas.arrow_schema("manifest").field("gates").type
    assert pa.array([run.manifest["gates"]], schema)[0].as_py() == run.manifest["gates"]


def test_a_run_without_gates_says_nothing_of_gates(tmp_path):
    run = aggregated(tmp_path, crowd_rows())
    assert "Gates" not in run.out
    assert run.manifest["gates"] == []


def test_quiet_says_only_what_tripped_and_json_holds_the_gates(tmp_path):
    options = ("--fail-if", "rejects-share>0")
    quiet = aggregated(tmp_path, [*crowd_rows(), *BROKEN], *options, "--quiet", name="quiet")
    assert (quiet.code, quiet.out, quiet.err.count("\n")) == (11, "", 1)
    told = aggregated(tmp_path, [*crowd_rows(), *BROKEN], *options, "--json", name="json")
    assert json.loads(told.out)["gates"] == told.manifest["gates"] == quiet.manifest["gates"]


def test_no_usable_label_is_told_beside_a_gate_whose_code_comes_first(tmp_path):
    run = aggregated(tmp_path, BROKEN, "--fail-if", "rejects-share>0.5")
    assert run.code == 11
    assert "There was no usable label among 2" in run.err
    assert aggregated(tmp_path, BROKEN, "--fail-if", "unidentified-share>0", name="other").code == 3


def test_a_gate_that_cannot_be_told_is_refused_before_anything_runs(tmp_path):
    prior = write_rows(tmp_path / "prior.csv", ("worker", "skill"), [("w0", 0.5)])
    drift = ("--fail-if", "skill-drift>0.2")
    for options, sentence in [
        (drift, "--fail-if skill-drift cannot be told here: there is no earlier run; give one with --prior-skills."),
        ((*drift, "--prior-skills", prior), "skill-drift cannot be told here: --prior-skills names no run, and a file"),
        (("--fail-if", "skil-drift>0.2"), "did you mean skill-drift>LIMIT?"),
    ]:
        run = aggregated(tmp_path, crowd_rows(), *options)
        assert (run.code, run.out) == (2, "")
        assert sentence in run.err
        assert not run.folder.exists()


def test_exit_codes_of_the_process_are_those_of_the_table(tmp_path):
    labels = write_rows(tmp_path / "labels.csv", HEADER, [*crowd_rows(), *BROKEN])
    crowdbeam = Path(sys.executable).parent / "crowdbeam"
    command = [crowdbeam, "aggregate", labels, "--output", tmp_path / "run", "--fail-if", "rejects-share>0.001"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    code = next(code for code, form, _ in codes_table() if form.startswith("rejects-share"))
    assert done.returncode == code


def test_help_and_the_page_tell_every_code():
    page = (Path(__file__).parents[2] / "docs" / "schedulers.md").read_text("utf-8")
    out = " ".join(run_command("aggregate", "--help").out.split())
    for code, form, trips in codes_table():
        assert f"{code} {form}: {trips}" in out
        assert f"| {code} | `{form}` | {trips} |" in page


def test_a_torn_file_trips_its_gate_and_a_share_of_rejects_does_not_show_it(tmp_path):
    whole = gzip.compress("\n".join([",".join(HEADER), *(",".join(row) for row in crowd_rows())]).encode())
    gates = ("--fail-if", "rejects-share>0.01", "--fail-if", "torn-inputs")
    for name, content, code in [("whole", whole, 0), ("torn", whole[:-40], 13)]:
        labels = tmp_path / f"{name}.csv.gz"
        labels.write_bytes(content)
        batch = run_command("aggregate", labels, "--output", tmp_path / name, *gates)
        night = run_command("nightly", labels, "--ledger", tmp_path / f"ledger-{name}", *gates)
        assert (batch.code, night.code) == (code, code)
        assert ("unreadable-rest" in batch.out, "unreadable-rest" in night.out) == (code == 13, code == 13)


def test_the_reasons_of_torn_inputs_are_those_of_the_sources():
    assert set(TORN) == {UNREADABLE_REST, UNREADABLE_BLOCK}

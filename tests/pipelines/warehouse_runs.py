"""Runs to load, made by hand, and what a warehouse must hold after them."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

import schemas
from pipelines.run_folder import FORMAT_VERSION
from pipelines.sinks.loads import APPENDED, CURRENT
from pipelines.sinks.warehouse import LoadedRun
from pipelines.table_files import write_table

LEDGER = "nights"


def score(task, label="yes", **changed):
    """The answer to a task."""
    row = {"task": task, "label": label, "probability": 0.9, "margin": 1.5, "score": 2.25, "n_labels": 3}
    return row | {"n_workers": 3, "status": "ok", "model": "one-coin", "probabilities": None} | changed


def skill(worker, value=0.5):
    """What is known about a worker."""
    row = {"worker": worker, "skill": value, "skill_low": -1.0, "skill_high": 1.0, "accuracy": (1 + value) / 2}
    return row | {"n_labels": 9, "n_peers": 2, "component": 0, "status": "ok"}


def edge(a, b, n_common=3, n_agree=2):
    """A pair of workers."""
    return {"worker_a": a, "worker_b": b, "n_common": n_common, "n_agree": n_agree}


def component(number=0, **changed):
    """A component of the graph."""
    row = {"component": number, "n_workers": 3, "n_edges": 3, "n_labels": 27, "bipartite": False, "has_gold": False}
    row |= {"identified": True, "sigma_min": None, "verdict": "It's determined.", "fix": "", "example_worker": "ann"}
    return row | changed


def reject(position, record="{"):
    """A record that did not count."""
    return {"record": record, "reason": "not-json", "detail": "It ends.", "source": "a", "position": position}


def write_run(folder, run_id, version=0, whole=True, kind="parquet", **tables):
    """Writes a run folder; a table is a list of files, each a list of rows."""
    outputs = []
    for name, record in schemas.TABLES.items():
        for number, rows in enumerate(tables.get(name) or [[]]):
            path = f"{name}/part-{number:05d}.{kind}"
            table = pa.Table.from_pylist(rows, schemas.arrow_schema(record))
            write_table(table, str(Path(folder, path)), kind, name)
            outputs.append({"path": path, "size_bytes": Path(folder, path).stat().st_size, "rows": len(rows)})
    settings = {"ledger_id": LEDGER, "ledger_version": str(version), "whole": json.dumps(whole)} if version else {}
    manifest = {"format_version": FORMAT_VERSION, "run_id": run_id, "started_at_us": 1, "finished_at_us": 2}
    manifest |= {"inputs": [], "settings": settings, "versions": {}, "classes": ["no", "yes"], "fit": {}}
    counts = {"labels_read": 12, "labels_used": 9, "labels_repeated": 1, "labels_rejected": 1, "labels_withdrawn": 1}
    manifest |= {"counts": counts, "timings_s": {}, "outputs": outputs}
    Path(folder, "manifest.json").write_text(json.dumps(manifest), "utf-8")
    return LoadedRun(str(folder), run_id, version, whole, LEDGER if version else "")


def first_night(folder):
    """A whole run."""
    return write_run(
        folder, "night-1", 1,
        scores=[[score("t1"), score("t2", "no", probabilities={"no": 0.75, "yes": 0.25})], [score("t3")]],
        skills=[[skill("ann"), skill("bob", 0.1), skill("cem")]],
        edges=[[edge("ann", "bob"), edge("ann", "cem"), edge("bob", "cem")]],
        graph=[[component(0), component(1, sigma_min=0.5)]],
        rejects=[[reject(1), reject(2)]],
    )  # fmt: skip


def second_night(folder):
    """What changed: t1 has another answer, t2 none, t4 is new; bob is gone."""
    return write_run(
        folder, "night-2", 2, whole=False,
        scores=[[score("t1", "no"), score("t2", status="no-labels")], [score("t4", n_labels=1)]],
        skills=[[skill("ann", 0.7), skill("cem", 0.6)]],
        edges=[[edge("ann", "bob", 0, 0), edge("ann", "cem", 4, 3), edge("bob", "cem", 0, 0)]],
        graph=[[component(0, n_workers=2, n_edges=1)]],
        rejects=[[reject(7)]],
    )  # fmt: skip


def marked(run, *rows):
    """Rows as a warehouse holds them."""
    return [row | {"run_id": run.run_id, "version": run.version} for row in rows]


def in_order(rows):
    """Rows in an order of their own, to compare."""
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


def after_first(run):
    """What every table but `runs` holds after the first night."""
    scores = [score("t1"), score("t2", "no", probabilities={"no": 0.75, "yes": 0.25}), score("t3")]
    skills = [skill("ann"), skill("bob", 0.1), skill("cem")]
    found = {"scores": scores, "skills": skills, "score_history": scores, "skill_history": skills}
    found["edges"] = [edge("ann", "bob"), edge("ann", "cem"), edge("bob", "cem")]
    found["graph"] = [component(0), component(1, sigma_min=0.5)]
    found["rejects"] = [reject(1), reject(2)]
    return {name: in_order(marked(run, *found[name])) for name in (*CURRENT, *APPENDED)}


def after_second(first, second):
    """What every table but `runs` holds after both nights."""
    before = after_first(first)
    gone = score("t2", status="no-labels")
    new = {"scores": [score("t1", "no"), score("t4", n_labels=1)], "skills": [skill("ann", 0.7), skill("cem", 0.6)]}
    new |= {"edges": [edge("ann", "cem", 4, 3)], "graph": [component(0, n_workers=2, n_edges=1)]}
    new |= {"score_history": [*new["scores"], gone], "skill_history": new["skills"], "rejects": [reject(7)]}
    kept = {"scores": [row for row in before["scores"] if row["task"] == "t3"]}
    kept |= {name: before[name] for name in APPENDED}
    return {name: in_order([*kept.get(name, []), *marked(second, *new[name])]) for name in (*CURRENT, *APPENDED)}


_LOAD = """\
import json, os, signal, sys
from pipelines.sinks.loads import loaded_run_of
from pipelines.sinks.warehouses import warehouse_of
run, to, module, moment = sys.argv[1:]
warehouse, at, seen = warehouse_of(to), int(moment), []

def lines(frame, event, arg):
    if event == "line":
        seen.append(frame.f_code.co_name)
        if len(seen) == at:
            os.kill(os.getpid(), signal.SIGKILL)
    return lines

def calls(frame, event, arg):
    return lines if frame.f_code.co_filename.endswith(module) else None

found = loaded_run_of(run)
sys.settrace(calls)
warehouse.load(found)
sys.settrace(None)
print(json.dumps(seen))
"""


def load_killed(run, to, module, moment):
    """Loads in a process of its own, which kills itself before the `moment`th line of `module`.

    Not killed, with `moment` 0, it gives the function of every line that was run.
    """
    script = [sys.executable, "-c", _LOAD, run.path, to, module, str(moment)]
    done = subprocess.run(script, capture_output=True, text=True, cwd=Path(__file__).parents[2], env=dict(os.environ))
    if moment:
        assert done.returncode == -signal.SIGKILL, done.stderr
        return []
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def load_and_die(run, to, points, call=0, after=False):
    """Loads in a process of its own, which kills itself before or after the `call`th call of `points`.

    Not killed, with `call` 0, it gives how many calls there are.
    """
    script = Path(__file__).with_name("load_and_die.py")
    command = [sys.executable, str(script), run.path, to, ",".join(points), str(call), "after" if after else "before"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == (-signal.SIGKILL if call else 0), done.stderr
    return 0 if call else int(done.stdout)


def moments_of(functions):
    """Moments in the midst of every function's lines, the first of all, and the last ones, where the commit is."""
    n = len(functions)
    places = {name: [at for at, one in enumerate(functions, 1) if one == name] for name in set(functions)}
    return sorted({1, n - 4, n - 2, n - 1, n} | {lines[len(lines) // 2] for lines in places.values()})

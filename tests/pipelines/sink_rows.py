"""Rows for the tests of sinks, and what makes an id hard."""

import pyarrow as pa

import schemas

HARD_IDS = [
    'say "hi"',
    "two\nlines",
    "tab\tand\\",
    "snow ☃ 😀",
    "nul \x00 here",
    "comma, {brace}",
    "",
    " ",
    "NULL",
    "\\N",
]
_SCORE = {
    "label": "yes",
    "probability": 0.9,
    "margin": 1.5,
    "score": 2.25,
    "n_labels": 3,
    "n_workers": 3,
    "status": "ok",
    "model": "one-coin",
    "probabilities": None,
    "model_version": 1,
    "revision": 1,
    "closed": False,
}
_COMPONENT = {
    "n_workers": 2,
    "n_edges": 1,
    "n_labels": 9,
    "bipartite": True,
    "has_gold": False,
    "identified": False,
    "sigma_min": None,
    "verdict": "There is no odd cycle.",
    "fix": "",
    "example_worker": "ann",
    "model_version": 1,
    "revision": 1,
    "closed": False,
}


def score(task, **changed):
    return {"task": task, **_SCORE, **changed}


def component(number, **changed):
    return {"component": number, **_COMPONENT, **changed}


def reject(position, **changed):
    return {"record": "{", "reason": "not-json", "detail": "It ends.", "source": "a", "position": position, **changed}


def scores(*rows):
    return pa.Table.from_pylist(list(rows), schemas.stream_schema("score"))


def components(*rows):
    return pa.Table.from_pylist(list(rows), schemas.stream_schema("graph"))


def rejects(*rows):
    return pa.Table.from_pylist(list(rows), schemas.arrow_schema("reject"))

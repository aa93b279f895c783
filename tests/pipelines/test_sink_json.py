"""Rows as JSON: what a JSON reader makes of them is the row."""

import json
import math

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from sink_rows import HARD_IDS, component, components, score, scores

from pipelines.sinks.json_rows import json_rows, key_texts

_TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)


def read_back(table):
    return [json.loads(one) for one in json_rows(table)]


@given(st.lists(st.tuples(_TEXTS, st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**63), 2**63 - 1))))
def test_json_holds_every_text_and_every_number_exactly(values):
    rows = [score(task, score=number, n_labels=count) for task, number, count in values]
    assert read_back(scores(*rows)) == rows


@given(st.lists(st.none() | st.dictionaries(_TEXTS, st.floats(0, 1), max_size=3), min_size=1, max_size=5))
def test_maps_are_objects(maps):
    rows = [score(f"t{place}", probabilities=one) for place, one in enumerate(maps)]
    assert read_back(scores(*rows)) == rows
    assert read_back(scores(score("before"), *rows).slice(1)) == rows


def test_json_is_compact_with_the_fields_in_the_schemas_order_and_numbers_in_their_shortest_form():
    (text,) = json_rows(scores(score("t", probability=0.1, score=1e-7, probabilities={"no": 0.25, "yes": 0.75})))
    assert text == (
        b'{"task":"t","label":"yes","probability":0.1,"margin":1.5,"score":1e-7,"n_labels":3,"n_workers":3,'
        b'"status":"ok","model":"one-coin","probabilities":{"no":0.25,"yes":0.75},'
        b'"model_version":1,"revision":1,"closed":false}'
    )


def test_null_and_what_json_has_no_number_for_are_null():
    assert read_back(components(component(0, sigma_min=None)))[0]["sigma_min"] is None
    row = score("t", score=math.nan, margin=math.inf, probabilities={"yes": math.nan})
    found = read_back(scores(row))[0]
    assert (found["score"], found["margin"], found["probabilities"]) == (None, None, {"yes": None})


def test_texts_that_are_coded_in_dictionaries_are_written_as_texts():
    table = pa.table({"task": pa.array(["b", "a", "b"]).dictionary_encode()})
    assert read_back(table) == [{"task": "b"}, {"task": "a"}, {"task": "b"}]


def test_keys_are_the_ids_themselves():
    assert key_texts(scores(*map(score, HARD_IDS)), ("task",)) == [one.encode() for one in HARD_IDS]
    assert key_texts(components(component(12)), ("component",)) == [b"12"]


def test_keys_of_two_parts_are_json_lists():
    table = pa.table({"source": HARD_IDS, "position": [*range(len(HARD_IDS))]})
    assert [json.loads(one) for one in key_texts(table, ("source", "position"))] == [
        [one, place] for place, one in enumerate(HARD_IDS)
    ]


def test_no_rows_are_no_texts():
    assert json_rows(scores()) == key_texts(scores(), ("task",)) == []

"""JSON messages: read at once or one by one, they give the same; a bad message is one reject."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.events import EventSettings
from pipelines.records import Origin
from pipelines.sources import messages
from pipelines.sources.messages import parse_messages, read_messages
from pipelines.tables import from_bytes
from pipelines.texts import column_of, texts_of

GOOD = b'{"task": "t", "worker": "w", "label": "x"}'
FIELDS = ("task", "worker", "label", "time", "op")


def texts(chunk):
    found = {name: texts_of(column)[0].to_pylist() for name, column in chunk.columns.items()}
    rows = list(zip(*(found[name] for name in FIELDS), strict=True)) if found else []
    places = range(len(rows)) if chunk.positions is None else chunk.positions.tolist()
    return dict(zip(places, rows, strict=True))


def bad_of(chunk):
    return [(one.position, one.reason) for one in chunk.bad]


def plain(values, names):
    """The same, by a loop over `json.loads`."""
    rows, bad = {}, []
    for place, value in enumerate(values):
        try:
            record = json.loads((value or b"").decode("utf-8", "surrogateescape").removeprefix("\ufeff"))
        except (ValueError, RecursionError):
            record = None
        if not value:
            bad.append((place, "empty-message"))
        elif not isinstance(record, dict):
            bad.append((place, "malformed-message"))
        else:
            time = names.get("time") or ("time" if record.get("submitted_at_us") is None else "submitted_at_us")
            asked = [names.get("task", "task"), "worker", "label", time, "op"]
            rows[place] = tuple(texts_of(column_of([record.get(name)]))[0][0].as_py() for name in asked)
    return rows, bad


VALUE = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=5)
    | st.lists(st.integers(), max_size=2)
    | st.dictionaries(st.text(max_size=2), st.none(), max_size=2)
)
KEY = st.sampled_from(["task", "worker", "label", "time", "submitted_at_us", "op", "more", "é", "a\nb", "}\n{"])
OBJECT = st.dictionaries(KEY, VALUE, max_size=6)
MESSAGE = (
    st.builds(
        lambda record, indent, ascii_only, space: (
            space + json.dumps(record, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass") + space
        ),
        OBJECT,
        st.sampled_from([None, 1]),
        st.booleans(),
        st.sampled_from([b"", b"", b" ", b"\n", b"\r\n"]),
    )
    | st.none()
    | st.binary(max_size=4)
    | st.sampled_from([GOOD, b"\xef\xbb\xbf" + GOOD, GOOD + GOOD, GOOD + b"\n" + GOOD, b"[1]", b"{", b'{"a":', b"{}}"])
)


@given(st.lists(MESSAGE, max_size=8), st.sampled_from([{}, {"time": "more", "task": "é"}]), st.integers(1, 4))
def test_messages_give_what_a_plain_loop_gives(values, names, few):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(messages, "_FEW", few)
        chunk = read_messages(values, "json", names)
    assert (texts(chunk), bad_of(chunk)) == plain(values, names)


@pytest.mark.parametrize("many", [1, 100, 1000])
@pytest.mark.parametrize(
    "value",
    [
        *(b"[1]", b"3", b'"task"', b"{", b'{"task": 1', b"null", b"{} {}", b"\xff", b"[" * 100_000, b"1" * 5000),
        *(b" ", b"\n", GOOD[:-1], GOOD + b"x", GOOD + b"\n" + GOOD, GOOD + GOOD, b'{"task": "a\nb"}', b"\xef\xbb\xbf"),
        *(b'{"task": "}\n', b'{"a":{}', b'{"a":"}', b"{'task': 1}", b'{"task": 1,}'),
    ],
)
def test_a_message_that_is_no_object_is_one_bad_record_and_the_others_stay(value, many):
    chunk = read_messages([GOOD] * many + [value] + [GOOD] * many, "json")
    assert bad_of(chunk) == [(many, "malformed-message")]
    assert sorted(texts(chunk)) == [*range(many), *range(many + 1, 2 * many + 1)]
    assert len(chunk.bad[0].record) <= 1001


def test_two_wrongs_do_not_make_as_many_rows_as_messages():
    chunk = read_messages([b'{"a":', b'{"b":1}}', GOOD + GOOD, GOOD], "json")
    assert bad_of(chunk) == [(place, "malformed-message") for place in range(3)]
    assert list(texts(chunk)) == [3]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (json.dumps({"task": "t", "worker": "w", "label": "x"}, indent=2).encode(), ("t", "w", "x", "", "")),
        (GOOD + b"\r\n", ("t", "w", "x", "", "")),
        (b"\xef\xbb\xbf" + GOOD, ("t", "w", "x", "", "")),
        (b'{"task": "a", "task": "t", "worker": "w", "label": "x"}', ("t", "w", "x", "", "")),
        (b'{"task": 1, "worker": 1.0, "label": true, "time": 5}', ("1", "1", "true", "5", "")),
        (b'{"task": "t", "label": {"a": 1}, "op": "delete"}', ("t", "", '{"a": 1}', "", "delete")),
        (b'{"time": 5, "submitted_at_us": 6}', ("", "", "", "6", "")),
        (b'{"time": 5, "submitted_at_us": null}', ("", "", "", "5", "")),
        ('{"task": "日本", "worker": "\\ud83d\\ude00", "label": "ß"}'.encode(), ("日本", "😀", "ß", "", "")),
    ],
)
def test_a_message_is_read_alike_alone_and_among_others(value, expected):
    assert texts(read_messages([value], "json")) == {0: expected}
    for many in (3, 500):
        found = texts(read_messages([GOOD] * many + [value] + [GOOD] * many, "json"))
        assert (found[many], found[0], len(found)) == (expected, ("t", "w", "x", "", ""), 2 * many + 1)


def test_messages_without_a_value_are_rejected():
    chunk = read_messages([None, GOOD, b"", b"?"], "json")
    assert bad_of(chunk) == [(0, "empty-message"), (2, "empty-message"), (3, "malformed-message")]
    assert list(texts(chunk)) == [1]
    assert bad_of(read_messages([None, b""], "json")) == [(0, "empty-message"), (1, "empty-message")]
    assert read_messages([], "json").columns == {}


def test_fields_may_have_other_names():
    names = {"task": "item", "worker": "who", "label": "answer", "time": "at", "op": "what"}
    value = b'{"item": "t", "who": "w", "answer": "x", "at": 3, "what": "delete", "task": 0, "time": 0}'
    assert texts(read_messages([value], "json", names)) == {0: ("t", "w", "x", "3", "delete")}


def test_the_beginning_of_a_long_message_is_shown():
    (bad,) = read_messages([b"no object " * 1000], "json").bad
    assert (len(bad.record), bad.record[:9], bad.record[-1]) == (1001, "no object", "…")


def test_events_name_the_offsets_of_their_messages():
    values = [GOOD, b"?", None, b'{"task": "t", "worker": "w", "label": "y", "time": "2024-01-01T12:00:00Z"}']
    offsets, arrived = np.array([70, 71, 73, 74]), np.array([1, 2, 3, 1_704_110_400_000_000])
    found = parse_messages(values, offsets, arrived, Origin(2, "p"), EventSettings())
    assert (found.block.sequence, found.block.offset.tolist()) == (70, [0, 4])
    assert found.block.time.tolist() == [1, 1_704_110_400_000_000]
    rejects = from_bytes(found.rejects).to_pylist()
    assert [(one["position"], one["reason"]) for one in rejects] == [(71, "malformed-message"), (73, "empty-message")]
    assert found.counts["events_read"] == 4

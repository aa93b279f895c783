"""Times become integers in the order of time; their unit is told only where the type or the text tells it."""

from datetime import date, datetime, timezone
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.blocks import NO_TIME
from pipelines.texts import BAD_TIME, OK, column_of
from pipelines.times import times_of

NOW = datetime(2024, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
SAME_MOMENT = [
    "2024-01-02T03:04:05Z",
    "2024-01-02T03:04:05",
    "2024-01-02 03:04:05",
    "2024-01-02T03:04:05.000",
    "2024-01-02T03:04:05.000000000Z",
    "2024-01-02t03:04:05z",
    "2024-01-02T04:04:05+01:00",
    "2024-01-02T04:04:05+0100",
    "2024-01-02T01:04:05-02",
    "2024-01-02 03:04:05 UTC",
    "2024-01-02 03:04:05.0 UTC",
    "2024-01-02 04:04:05 +0100",
    " 2024-01-02T03:04:05Z ",
    "1704164645000000",
]


def times(column):
    found, flags = times_of(column if isinstance(column, pa.Array) else pa.array(column))
    assert not flags.any()
    return found.tolist()


def test_one_moment_is_one_time_however_it_is_written():
    columns = [pa.array([text]) for text in SAME_MOMENT]
    columns += [pa.array([NOW], pa.timestamp(unit, zone)) for unit in ("s", "ms", "us", "ns") for zone in ("UTC", None)]
    columns += [pa.array([NOW], pa.timestamp("us", "Asia/Tokyo")), pa.array(SAME_MOMENT[:1]).dictionary_encode()]
    columns += [column_of([NOW]), pa.array([b"2024-01-02T03:04:05Z"]), pa.array([1_704_164_645_000_000])]
    assert len({times(column)[0] for column in columns}) == 1
    assert len(set(times(SAME_MOMENT))) == 1


def test_dates_are_midnight_utc():
    day = date(2024, 1, 2)
    columns = [pa.array([day]), pa.array([day], pa.date64()), pa.array(["2024-01-02"])]
    columns.append(pa.array([datetime(2024, 1, 2)], pa.timestamp("us")))
    assert len({times(column)[0] for column in columns}) == 1


@given(st.lists(st.integers(-(2**61), 2**61), min_size=2, max_size=6))
def test_integers_keep_their_order_whatever_their_unit(values):
    found = times(pa.array(values))
    assert np.argsort(found, kind="stable").tolist() == np.argsort(values, kind="stable").tolist()
    assert [a == b for a in found for b in found] == [a == b for a in values for b in values]
    assert times([str(value) for value in values]) == found


@given(st.lists(st.floats(-1e18, 1e18), min_size=2, max_size=6))
def test_floats_are_never_out_of_order(values):
    found = times(pa.array(values))
    assert np.array(found)[np.argsort(values, kind="stable")].tolist() == sorted(found)


@given(st.floats(0, 2e9), st.floats(0, 2e9))
def test_fractions_of_seconds_count(first, second):
    found = times(pa.array([first, second]))
    if abs(first - second) > 1e-6:
        assert (found[0] < found[1]) == (first < second)
    assert times([repr(first), repr(second)]) == found


@given(st.lists(st.integers(-(2**50), 2**50), min_size=1, max_size=5))
def test_whole_floats_and_decimals_are_the_integers_they_are(values):
    assert times(pa.array(values, pa.float64())) == times(pa.array(values))
    assert times(pa.array([Decimal(value) for value in values], pa.decimal128(30, 2))) == times(pa.array(values))
    assert times([f"{value}.0" for value in values]) == times(pa.array(values))


@given(
    st.permutations(["2024-01-02", "2024-01-02T03:04:05Z", "17", "17.5", "1e3", "2024-01-02T03:04:05.123456789+02:00"])
)
def test_a_time_does_not_depend_on_its_neighbours(texts):
    assert times(texts) == [times([text])[0] for text in texts]


@pytest.mark.parametrize("missing", [None, ""])
def test_a_missing_time_is_no_error(missing):
    assert times([missing, "5"])[0] == NO_TIME
    assert times(pa.array([None, 5], pa.int64()))[0] == NO_TIME
    assert times(pa.array([float("nan"), 5.0]))[0] == NO_TIME
    assert times(pa.array([None, 5.0]))[0] == NO_TIME
    assert times(pa.array([None, NOW], pa.timestamp("ns")))[0] == NO_TIME
    assert times(pa.nulls(2)) == [NO_TIME] * 2


def test_a_missing_time_is_before_any_other():
    assert times(pa.array([-(2**61), None]))[0] > NO_TIME


MALFORMED = [
    *("soon", "NaT", "nan", "inf", "null", "2024-13-01", "2024-02-30", "2024-01-02T25:00:00", "02/01/2024"),
    *("12:30", "2024-01-02Z", "1_000", "99999999999999999999", "1e400", "2024-01-02T03:04:05 Paris", "x" * 70_000),
]


@pytest.mark.parametrize("text", MALFORMED)
def test_a_malformed_time_is_flagged_alone(text):
    found, flags = times_of(pa.array(["2024-01-02T03:04:05Z", text, "17", None]))
    assert flags.tolist() == [OK, BAD_TIME, OK, OK]
    assert found[0] > found[2] > found[3] == NO_TIME
    assert times_of(pa.array([text]))[1].tolist() == [BAD_TIME]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([2**63], pa.uint64()),
        pa.array([2**62]),
        pa.array([float("inf")]),
        pa.array([1e300]),
        pa.array([2**62], pa.timestamp("s")),
        pa.array([True]),
        pa.array([[1]]),
        pa.array([b"\xff"]),
    ],
)
def test_what_is_no_time_is_flagged(column):
    assert times_of(column)[1].tolist() == [BAD_TIME]


def test_one_malformed_time_among_many_costs_little():
    texts = ["2024-01-02T03:04:05Z"] * 100_000
    texts[77_777] = "soon"
    flags = times_of(pa.array(texts))[1]
    assert np.flatnonzero(flags).tolist() == [77_777]

"""Times as integers that grow with time: it decides which of several labels is the last.

Timestamps, dates and ISO 8601 texts (UTC unless they name a zone) are instants, in microseconds since 1970.

In a batch only the order matters. Numbers, also in texts, are compared as they are, so their unit is the user's; a
fraction counts. To keep fractions in integers, numbers below 2⁴⁰ are stretched by 2²², the others moved up by as much
as makes room for that; the order stays. In a stream all times are microseconds since 1970, and numbers have a unit.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.blocks import NO_TIME
from pipelines.settings import TIME_UNITS as UNITS
from pipelines.texts import BAD_TIME, MISSING, OK, Flags, texts_of

Ints = NDArray[np.int64]
_DAY_US = 86_400_000_000
_FINE, _STRETCH, _LIMIT = 1 << 40, 1 << 22, 1 << 62
_DATE = r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
_CLOCK = r"[T ]([01]\d|2[0-3])(:[0-5]\d(:[0-5]\d(\.\d{1,6})?)?)?"
_ZONE = r"(Z|[+-]([01]\d|2[0-3])(:?[0-5]\d)?)$"


@dataclass(frozen=True)
class Scale:
    """How whole numbers, fractions and instants become times: each with what is bad among them."""

    whole: Callable[[Ints, Any], tuple[Ints, Any]]
    fractions: Callable[[NDArray[np.float64]], tuple[Ints, Any]]
    instants: Callable[[Ints, Any], tuple[Ints, Any]]


Converter = Callable[[pa.LargeStringArray, Scale], tuple[Ints, Any]]


def microseconds(unit: str) -> Scale:
    """Times as microseconds since 1970; numbers are in `unit`, a key of `UNITS`.

    >>> times_of(pa.array(["1.5", "1970-01-01T00:00:02Z"]), microseconds("s"))[0].tolist()
    [1500000, 2000000]
    """
    factor = UNITS[unit]
    return Scale(partial(_scaled, factor), partial(_scaled_fractions, factor), partial(_scaled, 1))


def times_of(column: pa.Array, scale: Scale | None = None) -> tuple[Ints, Flags]:
    """(values,) integers that grow with time, `NO_TIME` where there is none, and what is wrong with each value.

    >>> times, flags = times_of(pa.array(["2024-01-02T03:04:05Z", "2024-01-02T03:04:04.5+00:00", None]))
    >>> times.argsort().tolist()
    [2, 1, 0]
    """
    scale = scale or RANKS
    kind = column.type
    if pa.types.is_dictionary(kind):
        return times_of(column.dictionary_decode(), scale)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _flagged(column, *scale.instants(*_microseconds(column)))
    if pa.types.is_integer(kind):
        whole = column.fill_null(0).cast(pa.int64(), safe=False).to_numpy()
        too_large = whole < 0 if pa.types.is_uint64(kind) else np.zeros(len(whole), bool)
        return _flagged(column, *scale.whole(whole, too_large))
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        values = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
        found, bad = scale.fractions(np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf))
        return _flagged(column, np.where(np.isnan(values), NO_TIME, found), bad)
    texts, flags = texts_of(column)
    known = flags == OK
    times, bad = np.full(len(texts), NO_TIME), (flags != OK) & (flags != MISSING)
    times[known], bad[known] = _of_texts(texts if known.all() else texts.filter(pa.array(known)), scale)
    return times, np.where(bad, BAD_TIME, OK).astype(np.uint8)


def _flagged(column: pa.Array, times: Ints, bad: Any) -> tuple[Ints, Flags]:
    if column.null_count:
        missing = column.is_null().to_numpy(zero_copy_only=False)
        times, bad = np.where(missing, NO_TIME, times), bad & ~missing
    return times, np.where(bad, BAD_TIME, OK).astype(np.uint8)


def _scaled(factor: int, values: Ints, bad: Any) -> tuple[Ints, Any]:
    """(values,) integers times `factor`; those that are bad, or too large, are 0 and bad."""
    limit = _LIMIT // factor
    bad = bad | (values >= limit) | (values <= -limit)
    return np.where(bad, 0, values) * factor, bad


def _scaled_fractions(factor: int, values: NDArray[np.float64]) -> tuple[Ints, Any]:
    bad = np.abs(values) >= _LIMIT // factor
    return np.floor(np.where(bad, 0, values) * factor).astype(np.int64), bad


def _ranked(values: Ints, bad: Any) -> tuple[Ints, Any]:
    """(values,) integers stretched; those that are bad, or too large, are 0 and bad."""
    bad = bad | (values >= _LIMIT) | (values <= -_LIMIT)
    values = np.where(bad, 0, values)
    near = np.abs(values) < _FINE
    if near.all():
        return values * _STRETCH, bad
    return np.where(near, values * _STRETCH, values + np.sign(values) * (_LIMIT - _FINE)), bad


def _ranked_floats(values: NDArray[np.float64]) -> tuple[Ints, Any]:
    bad = np.abs(values) >= _LIMIT
    values = np.where(bad, 0, values)
    near = np.abs(values) < _FINE
    fine = np.floor(np.where(near, values, 0) * _STRETCH).astype(np.int64)
    far, _ = _ranked(np.floor(np.where(near, 0, values)).astype(np.int64), False)
    return np.where(near, fine, far), bad


def _microseconds(column: pa.Array) -> tuple[Ints, Any]:
    """(values,) microseconds since 1970, and which are out of range."""
    kind = column.type
    if pa.types.is_date32(kind):
        factor, values = _DAY_US, column.cast(pa.int32()).fill_null(0).to_numpy().astype(np.int64)
    else:
        factor = UNITS.get("ms" if pa.types.is_date64(kind) else kind.unit, 0)
        values = column.cast(pa.int64()).fill_null(0).to_numpy()
    if not factor:
        return values // 1000, np.zeros(len(values), bool)
    bad = np.abs(values) > _LIMIT // factor
    return np.where(bad, 0, values) * factor, bad


def _of_texts(texts: pa.LargeStringArray, scale: Scale) -> tuple[Ints, Any]:
    """(values,) times of texts: all at once if they are of the first one's kind, else kind by kind."""
    if not len(texts):
        return np.empty(0, np.int64), np.empty(0, bool)
    first = texts[0].as_py()
    likely = next((convert for pattern, convert in _KINDS if re.search(pattern, first)), _numbers)
    if likely is not _numbers:
        try:
            return likely(texts, scale)
        except pa.ArrowInvalid:
            pass
    texts = _normalised(texts)
    times, bad = np.zeros(len(texts), np.int64), np.ones(len(texts), bool)
    for pattern, convert in _KINDS:
        places = np.flatnonzero(pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False) & bad)
        if len(places):
            times[places], bad[places] = _halved(texts.take(pa.array(places)), convert, scale)
    return times, bad


def _halved(texts: pa.LargeStringArray, convert: Converter, scale: Scale) -> tuple[Ints, Any]:
    """Converts `texts`; those that cannot be converted are found by halving."""
    try:
        return convert(texts, scale)
    except pa.ArrowInvalid:
        if len(texts) == 1:
            return np.zeros(1, np.int64), np.ones(1, bool)
    middle = len(texts) // 2
    halves = [_halved(half, convert, scale) for half in (texts.slice(0, middle), texts.slice(middle))]
    return np.concatenate([times for times, _ in halves]), np.concatenate([bad for _, bad in halves])


def _normalised(texts: pa.LargeStringArray) -> pa.LargeStringArray:
    """Blanks trimmed, zones as Arrow writes them, fractions cut to microseconds."""
    texts = pc.utf8_upper(pc.utf8_trim_whitespace(texts))
    texts = pc.replace_substring_regex(texts, r"(:\d\d(?:\.\d+)?) ?(?:Z|UTC|GMT)$", r"\1Z")
    texts = pc.replace_substring_regex(texts, r"(:\d\d(?:\.\d+)?) ([+-]\d\d(?::?\d\d)?)$", r"\1\2")
    return pc.replace_substring_regex(texts, r"(:\d\d\.\d{6})\d+", r"\1")


def _integers(texts: pa.LargeStringArray, scale: Scale) -> tuple[Ints, Any]:
    return scale.whole(np.asarray(texts.cast(pa.int64()).to_numpy()), False)


def _numbers(texts: pa.LargeStringArray, scale: Scale) -> tuple[Ints, Any]:
    return scale.fractions(texts.cast(pa.float64()).to_numpy())


def _instants(texts: pa.LargeStringArray, scale: Scale) -> tuple[Ints, Any]:
    return scale.instants(*_microseconds(texts.cast(pa.timestamp("us"))))


def _zoned_instants(texts: pa.LargeStringArray, scale: Scale) -> tuple[Ints, Any]:
    return scale.instants(*_microseconds(texts.cast(pa.timestamp("us", "UTC"))))


RANKS = Scale(_ranked, _ranked_floats, _ranked)
_KINDS: tuple[tuple[str, Converter], ...] = (
    (r"^-?\d{1,19}$", _integers),
    (r"^[+-]?(\d+\.?\d*|\.\d+)(E[+-]?\d+)?$", _numbers),
    (_DATE + _CLOCK + _ZONE, _zoned_instants),
    (f"{_DATE}({_CLOCK})?$", _instants),
)

"""Ids and labels as texts, times as microseconds, whatever they were in the input.

Integers become their decimal text, floats the shortest one (``1.0`` is ``"1"``, NaN is missing), booleans ``"true"`` or
``"false"``; a text stays as it is, blanks included.
"""

import json
from datetime import datetime, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.blocks import NO_TIME

MAX_BYTES = 65_535
OK, MISSING, TOO_LONG, NOT_UTF8, BAD_TIME = range(5)
_INTEGRAL_LIMIT = float(1 << 53)

Flags = NDArray[np.uint8]


def text_of(value: Any) -> str | None:
    """One value as text; None when it is missing.

    >>> [text_of(value) for value in (1, 1.0, 0.5, True, float("nan"), " x", None)]
    ['1', '1', '0.5', 'true', None, ' x', None]
    """
    match value:
        case None:
            return None
        case str():
            return value if value.isascii() else value.encode("utf-8", "replace").decode()
        case bool() | np.bool_():
            return "true" if value else "false"
        case float() | np.floating():
            return None if np.isnan(value) else str(int(value)) if _is_integral(float(value)) else repr(float(value))
        case bytes():
            return value.decode("utf-8", "replace")
        case dict() | list():
            return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def texts_of(column: pa.Array) -> tuple[pa.LargeStringArray, Flags]:
    """(values,) the texts of a column, and what is wrong with each; a wrong one has an empty text."""
    flags = np.zeros(len(column), np.uint8)
    kind = column.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        column, flags = _decoded(column)
    elif pa.types.is_floating(kind):
        column = _float_texts(column)
    elif pa.types.is_nested(kind) or pa.types.is_null(kind):
        column = pa.array([text_of(value) for value in column.to_pylist()], pa.large_string())
    texts = column.cast(pa.large_string())
    if texts.null_count:
        flags = np.maximum(flags, texts.is_null().to_numpy(zero_copy_only=False).astype(np.uint8) * MISSING)
        texts = texts.fill_null("")
    sizes = pc.binary_length(texts).to_numpy()
    if len(sizes) and (sizes.min() == 0 or sizes.max() > MAX_BYTES):
        flags = np.where((sizes == 0) & (flags == OK), MISSING, flags)
        flags = np.where(sizes > MAX_BYTES, TOO_LONG, flags).astype(np.uint8)
    return texts, flags


def codes_of(column: pa.Array) -> tuple[NDArray[Any], pa.LargeStringArray, Flags]:
    """(values,) codes into a dictionary of texts, the dictionary, and what is wrong with each value."""
    if not pa.types.is_dictionary(column.type):
        column = texts_of(column)[0] if pa.types.is_nested(column.type) else column
        column = column.dictionary_encode()
    texts, wrong = texts_of(column.dictionary)
    indices = column.indices
    missing = indices.null_count > 0
    codes = (indices.fill_null(0) if missing else indices).to_numpy()
    if not len(texts):
        texts, wrong = pa.array([""], pa.large_string()), np.array([MISSING], np.uint8)
    flags = wrong[codes] if wrong.any() else np.zeros(len(codes), np.uint8)
    if missing:
        flags = np.where(indices.is_null().to_numpy(zero_copy_only=False), MISSING, flags).astype(np.uint8)
    distinct = texts.dictionary_encode()
    if len(distinct.dictionary) < len(texts):
        return distinct.indices.to_numpy()[codes], distinct.dictionary, flags
    return codes, texts, flags


def times_of(column: pa.Array) -> tuple[NDArray[np.int64], Flags]:
    """(values,) microseconds since 1970, `NO_TIME` where there is none, and what is wrong with each value.

    Timestamps and ISO 8601 texts (UTC unless they name a zone) are converted; integers stay as they are, for only their
    order counts; floats are seconds.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _filled(column.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False).cast(pa.int64()))
    if pa.types.is_integer(kind):
        return _filled(column.cast(pa.int64(), safe=False))
    if pa.types.is_floating(kind):
        values = column.to_numpy(zero_copy_only=False).astype(float)
        known = np.isfinite(values)
        return np.where(known, np.where(known, values, 0) * 1e6, NO_TIME).astype(np.int64), np.zeros(
            len(values), np.uint8
        )
    texts, flags = texts_of(column)
    known = texts.filter(pa.array(flags == OK)) if flags.any() else texts
    for convert in (_integers, _instants):
        times = convert(known)
        if times is not None:
            filled = np.full(len(texts), NO_TIME)
            filled[flags == OK] = times
            return filled, np.zeros(len(texts), np.uint8)
    found = [
        NO_TIME if flag == MISSING else _time_of(text) for text, flag in zip(texts.to_pylist(), flags, strict=True)
    ]
    bad = np.array([time is None for time in found], bool)
    times = np.array([NO_TIME if time is None else time for time in found], np.int64)
    return times, np.where(bad, BAD_TIME, OK).astype(np.uint8)


def _integers(texts: pa.LargeStringArray) -> NDArray[np.int64] | None:
    try:
        return np.asarray(texts.cast(pa.int64()).to_numpy())
    except pa.ArrowInvalid:
        return None


def _instants(texts: pa.LargeStringArray) -> NDArray[np.int64] | None:
    zone = "UTC" if len(texts) and texts[0].as_py().endswith("Z") else None
    try:
        return np.asarray(texts.cast(pa.timestamp("us", zone)).cast(pa.int64()).to_numpy())
    except pa.ArrowInvalid:
        return None


def _time_of(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text.strip().replace("Z", "+00:00").replace("z", "+00:00"))
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    since = moment - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _filled(column: pa.Array) -> tuple[NDArray[np.int64], Flags]:
    return column.fill_null(NO_TIME).to_numpy(), np.zeros(len(column), np.uint8)


def _decoded(column: pa.Array) -> tuple[pa.Array, Flags]:
    """Bytes as texts; what is not UTF-8 is flagged, with an empty text."""
    flags = np.zeros(len(column), np.uint8)
    large = column.cast(pa.large_binary())
    try:
        return large.cast(pa.large_string()), flags
    except pa.ArrowInvalid:
        values = [None if value is None else _utf8(value) for value in large.to_pylist()]
    for place, value in enumerate(values):
        if value == "" and large[place].as_py():
            flags[place] = NOT_UTF8
    return pa.array(values, pa.large_string()), flags


def _utf8(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return ""


def _float_texts(column: pa.Array) -> pa.Array:
    values = column.to_numpy(zero_copy_only=False).astype(np.float64)
    known = np.isfinite(values)
    if bool(_are_integral(values[known]).all()) and bool((known | np.isnan(values)).all()):
        whole = np.where(known, values, 0).astype(np.int64)
        return pa.array(whole, mask=~known).cast(pa.large_string())
    return pa.array([text_of(value) for value in values.tolist()], pa.large_string())


def _are_integral(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    return (values == np.rint(values)) & (np.abs(values) < _INTEGRAL_LIMIT)


def _is_integral(value: float) -> bool:
    return value.is_integer() and abs(value) < _INTEGRAL_LIMIT

"""Ids and labels as texts, whatever they were in the input.

Integers become their decimal text, floats and decimals the shortest one (``1.0`` is ``"1"``, NaN is missing), booleans
``"true"`` or ``"false"``, dates and times ISO 8601; lists and structs become JSON; a text stays as it is, blanks
included. What a value becomes depends on the value alone, never on the others in its column.
"""

import json
from collections.abc import Iterable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

MAX_BYTES = 65_535
OK, MISSING, TOO_LONG, NOT_UTF8, BAD_TIME = range(5)
_INTEGRAL_LIMIT = float(1 << 63)
_PLAIN_TEXTS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
_SAMPLE = 1 << 14
_MANY_DISTINCT = 7 / 8

Flags = NDArray[np.uint8]


def text_of(value: Any) -> str | None:
    """One value as text; None when it is missing. Bytes that are not UTF-8 become surrogates.

    >>> [text_of(value) for value in (1, 1.0, 0.5, True, float("nan"), " x", None)]
    ['1', '1', '0.5', 'true', None, ' x', None]
    """
    match value:
        case None:
            return None
        case str():
            return value
        case bool() | np.bool_():
            return "true" if value else "false"
        case float() | np.floating():
            return _float_text(value)
        case bytes():
            return value.decode("utf-8", "surrogateescape")
        case Decimal():
            return None if value.is_nan() else format(value.normalize(), "f")
        case datetime() | date() | time():
            return str(texts_of(pa.array([value]))[0][0].as_py())
        case dict() | list() | tuple():
            return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def column_of(values: Iterable[Any]) -> pa.LargeBinaryArray:
    """(values,) a column of any Python values, as bytes that `texts_of` reads.

    >>> texts_of(column_of(["é", 2, None]))[0].to_pylist()
    ['é', '2', '']
    """
    return pa.array([_bytes_of(text_of(value)) for value in values], pa.large_binary())


def as_bytes(column: pa.Array) -> pa.LargeBinaryArray:
    """(values,) the texts of a column as bytes, nothing flagged or lost; null where a value is missing."""
    column = _unwrapped(column)
    return column.cast(pa.large_binary()) if _is_text(column.type) else _printed(column).cast(pa.large_binary())


def texts_of(column: pa.Array) -> tuple[pa.LargeStringArray, Flags]:
    """(values,) the texts of a column, and what is wrong with each; one that is missing or not UTF-8 is empty."""
    column = _unwrapped(column)
    flags = np.zeros(len(column), np.uint8)
    if _is_text(column.type):
        texts, flags = _decoded(column)
    else:
        texts = _printed(column)
    if texts.null_count:
        flags = np.maximum(flags, texts.is_null().to_numpy(zero_copy_only=False).astype(np.uint8) * MISSING)
        texts = texts.fill_null("")
    sizes = pc.binary_length(texts).to_numpy()
    if len(sizes) and (sizes.min() == 0 or sizes.max() > MAX_BYTES):
        flags = np.where((sizes == 0) & (flags == OK), MISSING, flags)
        flags = np.where(sizes > MAX_BYTES, TOO_LONG, flags).astype(np.uint8)
    return texts, flags


def codes_of(column: pa.Array) -> tuple[NDArray[Any], pa.LargeStringArray, Flags]:
    """(values,) codes into a dictionary of texts, the dictionary, and what is wrong with each value.

    The dictionary holds no text that is wrong, unless all are: then it is one empty text. Where hardly any value seems
    to occur twice, each has an entry of its own: to find those that do would take longer than it saves.
    """
    if column.type in _PLAIN_TEXTS and _hardly_repeats(column):
        texts, flags = texts_of(column)
        if not flags.any():
            return np.arange(len(texts)), texts, flags
    if not pa.types.is_dictionary(column.type):
        try:
            column = column.dictionary_encode()
        except pa.ArrowNotImplementedError:
            column = texts_of(column)[0].dictionary_encode()
    texts, wrong = texts_of(column.dictionary)
    indices = column.indices
    missing = indices.null_count > 0
    codes = (indices.fill_null(0) if missing else indices).to_numpy()
    flags = wrong[codes] if wrong.any() else np.zeros(len(codes), np.uint8)
    if missing:
        flags = np.where(indices.is_null().to_numpy(zero_copy_only=False), MISSING, flags).astype(np.uint8)
    good = wrong == OK
    if not good.any():
        return np.zeros(len(codes), np.uint8), pa.array([""], pa.large_string()), flags
    distinct = texts.filter(pa.array(good)).dictionary_encode()
    if len(distinct.dictionary) == len(texts):
        return codes, texts, flags
    place = np.zeros(len(texts), np.int64)
    place[good] = distinct.indices.to_numpy()
    return place[codes], distinct.dictionary, flags


def _hardly_repeats(column: pa.Array) -> bool:
    """Whether most of the first values differ from one another."""
    sample = column.slice(0, _SAMPLE)
    return len(sample) == _SAMPLE and len(sample.unique()) > _MANY_DISTINCT * _SAMPLE


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_string_view(kind):
        return True
    return kind in _PLAIN_TEXTS


def _unwrapped(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _unwrapped(column.dictionary_decode())
    if pa.types.is_run_end_encoded(kind):
        return _unwrapped(pc.run_end_decode(column))
    if not isinstance(kind, pa.BaseExtensionType):
        return column
    if kind.extension_name == "arrow.uuid":
        return column_of(None if value is None else UUID(bytes=value) for value in column.storage.to_pylist())
    return _unwrapped(column.storage)


def _decoded(column: pa.Array) -> tuple[pa.LargeStringArray, Flags]:
    """Bytes as texts; what is not UTF-8 is flagged, with an empty text."""
    column = column.cast(pa.large_binary())
    try:
        return column.cast(pa.large_string()), np.zeros(len(column), np.uint8)
    except pa.ArrowInvalid:
        wrong = [value is not None and not _is_utf8(value) for value in column.to_pylist()]
    texts = pc.if_else(pa.array(wrong), pa.scalar(b"", pa.large_binary()), column).cast(pa.large_string())
    return texts, np.where(wrong, NOT_UTF8, OK).astype(np.uint8)


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _printed(column: pa.Array) -> pa.LargeStringArray:
    """Values that are no texts, as texts."""
    kind = column.type
    if pa.types.is_floating(kind):
        return _float_texts(column)
    try:
        texts = column.cast(pa.large_string())
    except pa.ArrowNotImplementedError:
        return pa.array([text_of(value) for value in column.to_pylist()], pa.large_string())
    if pa.types.is_decimal(kind) and kind.scale != 0:
        if pc.any(pc.match_substring(texts, "E")).as_py():
            return pa.array([text_of(value) for value in column.to_pylist()], pa.large_string())
        return pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), ".")
    if (pa.types.is_timestamp(kind) or pa.types.is_time(kind)) and kind.unit != "s":
        texts = pc.replace_substring_regex(texts, r"0+(Z|[+-]\d{4})?$", r"\1")
        return pc.replace_substring_regex(texts, r"\.(Z|[+-]\d{4})?$", r"\1")
    return texts


def _float_texts(column: pa.Array) -> pa.LargeStringArray:
    values = column.to_numpy(zero_copy_only=False)
    known = np.isfinite(values)
    finite = values[known].astype(np.float64)
    whole = (finite == np.rint(finite)) & (np.abs(finite) < _INTEGRAL_LIMIT)
    if whole.all() and (known | np.isnan(values)).all():
        integers = np.where(known, values, 0).astype(np.int64)
        return pa.array(integers, mask=~known).cast(pa.large_string())
    return pa.array([_float_text(value) for value in values], pa.large_string())


def _float_text(value: Any) -> str | None:
    number = float(value)
    if np.isnan(number):
        return None
    return str(int(number)) if number.is_integer() and abs(number) < _INTEGRAL_LIMIT else str(value)


def _bytes_of(text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")

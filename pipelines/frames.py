"""Frames: named arrays as one flat `bytes`, the only thing that travels between stages.

A frame needs no coder and no pickle, any runner carries it, and `unpack` copies nothing.

>>> frame = pack({"n": np.array([1, 2, 300]), "name": np.frombuffer(b"abc", np.uint8)})
>>> {name: array.tolist() for name, array in unpack(frame).items()}
{'n': [1, 2, 300], 'name': [97, 98, 99]}
"""

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_MAGIC = b"CBF1"
_HEAD = struct.Struct("<4sI")
_ALIGN = 8


def pack(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """One flat frame of `arrays`, all of one dimension."""
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    header = json.dumps([[name, array.dtype.str, len(array)] for name, array in contiguous.items()]).encode()
    header += b" " * (-(len(header) + _HEAD.size) % _ALIGN)
    parts: list[Any] = [_HEAD.pack(_MAGIC, len(header)), header]
    for array in contiguous.values():
        parts.append(array.data.cast("B") if array.size else b"")
        parts.append(b"\0" * (-array.nbytes % _ALIGN))
    return b"".join(parts)


def unpack(frame: Any) -> dict[str, NDArray[Any]]:
    """The arrays of a frame: views of it, not to be written to."""
    magic, length = _HEAD.unpack_from(frame, 0)
    if magic != _MAGIC:
        raise ValueError(f"not a frame: it begins with {magic!r}")
    at = _HEAD.size + length
    arrays = {}
    for name, dtype, count in json.loads(bytes(memoryview(frame)[_HEAD.size : at])):
        arrays[name] = np.frombuffer(frame, np.dtype(dtype), count, at)
        at += arrays[name].nbytes
        at += -arrays[name].nbytes % _ALIGN
    return arrays


def narrow(codes: NDArray[Any], limit: int) -> NDArray[Any]:
    """`codes`, all below `limit`, in the smallest unsigned integers that hold them."""
    for dtype in (np.uint8, np.uint16, np.uint32):
        if limit <= np.iinfo(dtype).max + 1:
            return codes.astype(dtype, copy=False)
    return codes.astype(np.int64, copy=False)


def pack_texts(name: str, texts: pa.LargeStringArray) -> dict[str, NDArray[Any]]:
    """A column of texts without nulls, as arrays for `pack`."""
    offsets, data = text_buffers(texts)
    lengths = np.diff(offsets)
    same = len(lengths) > 1 and bool((lengths == lengths[0]).all())
    longest = int(lengths.max(initial=0))
    return {
        f"{name}.count": np.array([len(texts)]),
        f"{name}.lengths": narrow(lengths[:1] if same else lengths, longest + 1),
        f"{name}.bytes": data[offsets[0] : offsets[-1]],
    }


def unpack_texts(name: str, arrays: Mapping[str, NDArray[Any]]) -> pa.LargeStringArray:
    """The column that `pack_texts` packed."""
    count = int(arrays[f"{name}.count"][0])
    lengths = arrays[f"{name}.lengths"]
    offsets = np.zeros(count + 1, np.int64)
    if len(lengths) == count:
        np.cumsum(lengths, out=offsets[1:])
    else:
        offsets[1:] = np.arange(1, count + 1) * int(lengths[0])
    return texts_of(offsets, arrays[f"{name}.bytes"])


def texts_of(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> pa.LargeStringArray:
    """An Arrow column over `offsets` and UTF-8 `data`, nothing copied."""
    return pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))


def text_buffers(texts: pa.LargeStringArray) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Offsets and UTF-8 data of an Arrow column without nulls, nothing copied."""
    _, offsets, data = texts.buffers()
    if offsets is None or len(texts) == 0:
        return np.zeros(1, np.int64), np.zeros(0, np.uint8)
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return ends, np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)

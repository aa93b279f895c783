"""Rows as JSON texts: a whole table at once, never row by row."""

import json

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc


def json_rows(table: pa.Table) -> list[bytes]:
    r"""Each row as compact JSON in UTF-8: fields named as the columns, maps as objects, numbers in their shortest form.

    A number that JSON does not have (NaN, infinity) is null.

    >>> json_rows(pa.table({"task": ['say "a"'], "score": [0.5]}))
    [b'{"task":"say \\"a\\"","score":0.5}']
    """
    if not table.num_columns or not table.num_rows:
        return [b"{}"] * table.num_rows
    frame, maps = _framed(table)
    pieces: list[pl.Expr] = []
    plain: list[str] = []
    for name in frame.columns:
        if name not in maps:
            plain.append(name)
            continue
        pieces += _fields(plain, bool(pieces))
        pieces += [pl.lit((',"' if pieces else '"') + name + '":'), pl.col(name).fill_null("null")]
        plain = []
    pieces += _fields(plain, bool(pieces))
    if not maps:
        return _bytes_of(frame.select(pl.struct(pl.all()).struct.json_encode()).to_series())
    return _bytes_of(frame.select(pl.concat_str(pl.lit("{"), *pieces, pl.lit("}"))).to_series())


def key_texts(table: pa.Table, columns: tuple[str, ...]) -> list[bytes]:
    """The id of each row: its text as it is, or a JSON list when the id has several parts.

    >>> key_texts(pa.table({"source": ["a.csv"], "position": [7]}), ("source", "position"))
    [b'["a.csv",7]']
    """
    frame, _ = _framed(table.select(list(columns)))
    if len(columns) == 1:
        return _bytes_of(frame.select(pl.col(columns[0]).cast(pl.String)).to_series())
    parts = [_value(name) for name in columns]
    commas = [pl.lit("["), *(one for part in parts for one in (part, pl.lit(",")))][:-1]
    return _bytes_of(frame.select(pl.concat_str(*commas, pl.lit("]"))).to_series())


def _framed(table: pa.Table) -> tuple[pl.DataFrame, set[str]]:
    """The table for polars, and which columns are maps, now as JSON texts; one that is null throughout is none."""
    maps = set()
    for place, field in enumerate(table.schema):
        column = table.column(place)
        if pa.types.is_map(field.type):
            if column.null_count == len(column):
                table = table.set_column(place, field.name, pa.nulls(len(column)))
            else:
                maps.add(field.name)
                table = table.set_column(place, field.name, json_objects(pa.array(column.combine_chunks())))
        elif pa.types.is_dictionary(field.type):
            table = table.set_column(place, field.name, column.cast(field.type.value_type))
    return pl.DataFrame(table), maps


def json_objects(maps: pa.MapArray) -> pa.Array:
    """Each map as the text of a JSON object; null stays null."""
    keys = maps.keys.dictionary_encode()
    texts = pa.array([json.dumps(one, ensure_ascii=False) for one in keys.dictionary.to_pylist()], pa.string())
    values = pc.if_else(pc.is_finite(maps.items), maps.items, None).cast(pa.string())
    entries = pc.binary_join_element_wise(
        texts.take(keys.indices), pc.fill_null(values, "null"), ":"
    )  # a whole number has no point: 1, not 1.0
    lists = pa.ListArray.from_arrays(maps.offsets, entries)
    objects = pc.binary_join_element_wise("{", pc.binary_join(lists, ","), "}", "")
    return pc.if_else(pc.is_valid(maps), objects, None)


def _fields(names: list[str], follows: bool) -> list[pl.Expr]:
    """The fields of `names` as in an object, without its braces."""
    if not names:
        return []
    text = pl.struct(names).struct.json_encode().str.slice(1).str.strip_suffix("}")
    return [pl.lit(","), text] if follows else [text]


def _value(name: str) -> pl.Expr:
    """The values of a column as JSON."""
    return pl.struct(name).struct.json_encode().str.strip_prefix(f'{{"{name}":').str.strip_suffix("}")


def _bytes_of(texts: pl.Series) -> list[bytes]:
    found: list[bytes] = texts.to_arrow().cast(pa.large_binary()).to_numpy(zero_copy_only=False).tolist()
    return found

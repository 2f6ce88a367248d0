"""Parquet files as manifests, read with pyarrow. The library reads them as JSON lines."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .errors import UnsupportedError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa


def is_parquet(path: str) -> bool:
    """Whether a source of tarn.pack is a Parquet file."""
    return path.lower().endswith(".parquet") and not os.path.isdir(path)


def _open(path: str) -> Any:
    try:
        import pyarrow.parquet
    except ImportError:
        raise ImportError(f"{path}: pyarrow is needed to read a Parquet file as a manifest; "
                          f"install it (pip install pyarrow), or use a manifest in JSON lines or "
                          f"CSV") from None
    os.stat(path)  # a clear error for a missing file
    try:
        return pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise UsageError(f"{path}: not a Parquet file: {error}") from None


def _values(path: str, field: pa.Field) -> pa.DataType:
    """Returns the type in which the values of a column are read, or raises."""
    import pyarrow as pa

    plain = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if pa.types.is_timestamp(plain):
        return pa.timestamp("us", plain.tz)
    for refused in (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary,
                    pa.types.is_decimal, pa.types.is_time, pa.types.is_duration):
        if refused(plain):
            raise UnsupportedError(f"{path}: column {field.name} has the type {field.type}, which "
                                   f"a manifest cannot hold; it holds text, numbers, times and "
                                   f"the paths of files (tarn.write takes bytes)")
    return plain


def column_types(path: str) -> dict[str, str]:
    """Returns the types of the columns of a record pack that is made from a Parquet file. Lists
    have the types of their values."""
    import pyarrow as pa

    kinds = [(pa.types.is_integer, "int"), (pa.types.is_floating, "float"),
             (pa.types.is_boolean, "bool"), (pa.types.is_timestamp, "timestamp"),
             (pa.types.is_date, "timestamp"), (pa.types.is_string, "text"),
             (pa.types.is_large_string, "text")]
    found = {}
    for field in _open(path).schema_arrow:
        plain = _values(path, field)
        for check, name in kinds:
            if field.name != "file" and check(plain):
                found[field.name] = name
    return found


def _rows(path: str) -> Iterator[dict[str, Any]]:
    with _open(path) as file:
        wanted = {field.name: _values(path, field) for field in file.schema_arrow}
        for batch in file.iter_batches(batch_size=4096):
            columns = [batch.column(i).cast(wanted[name]).to_pylist()
                       for i, name in enumerate(batch.schema.names)]
            for row in zip(*columns):
                yield dict(zip(batch.schema.names, row))


def _json(value: Any) -> str:
    return str(value.isoformat())  # of dates and times, the only values json does not know


def write_lines(path: str, out: str) -> None:
    """Writes the rows of a Parquet file as JSON lines."""
    import pyarrow as pa

    with open(out, "w", encoding="utf-8") as file:
        try:
            for row in _rows(path):
                json.dump(row, file, default=_json)
                file.write("\n")
        except pa.ArrowInvalid as error:
            raise UnsupportedError(f"{path}: {error}") from None

"""Record packs by kind of record: `VariableRecordPack` for encoded payloads of any length, and
`FixedRecordPack` for the rows of a matrix."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from . import _write
from ._cache import Path
from ._images import ImageCodec
from ._read import Batch, PackReader, Wrapped
from .codecs import Codec, RawCodec, _Bytes, get_codec, header_of, in_threads, positive

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

ContiguousRecordBatch = Batch

_threads: tuple[bool, int] = (False, 4)  # what read_many does without `workers`


def set_parallel_decoding(enabled: bool, workers: int = 4) -> None:
    """Sets whether `VariableRecordPack.read_many` decodes in `workers` threads when the call does
    not say how many; for all readers of the process.

    >>> from tarn.iac import get_parallel_workers, set_parallel_decoding
    >>> set_parallel_decoding(True, workers=8)
    >>> get_parallel_workers()
    8
    >>> set_parallel_decoding(False)
    """
    global _threads
    count = positive(workers)
    _threads = bool(enabled), 4 if count is None else count


def is_parallel_decoding_enabled() -> bool:
    """Whether `set_parallel_decoding` turned threads on."""
    return _threads[0]


def get_parallel_workers() -> int:
    """The number of threads that `set_parallel_decoding` set."""
    return _threads[1]


class _Pack(Wrapped):
    """Base class of both kinds."""

    _reader: PackReader

    @property
    def slide_table(self) -> pa.Table:
        return self._reader.slide_table

    def __len__(self) -> int:
        return len(self._reader)


class VariableRecordPack(_Pack):
    """Payloads of any length; `read` undoes the codec that the header names.

    >>> from tarn.iac import Codec, VariableRecordPack
    >>> VariableRecordPack.build("v.iac", payload_type="note", slide_table={"slide_id": ["s"]},
    ...                          index_table={"n": [1, 2]}, objects=[b"one", b"two"],
    ...                          codec=Codec.create("brotli"), overwrite=True)
    >>> with VariableRecordPack("v.iac") as pack:
    ...     pack.read(1), pack.read_many([1, 0]), pack.read_many_contiguous([0, 1]).offsets
    (b'two', [b'two', b'one'], (0, 3, 6))
    """

    def __init__(self, package_path: Path) -> None:
        super().__init__(package_path)
        self._codec: Any = None

    @staticmethod
    def build(output_path: Path, *, payload_type: str, slide_table: Any, index_table: Any,
              objects: Iterable[Any], codec: Any = None, extra_header: dict[str, Any] | None = None,
              overwrite: bool = False, streaming: bool = False) -> None:
        """Encodes the objects and writes the file; with `streaming`, one object is in memory at a
        time."""
        codec = codec or RawCodec()
        header = {"payload_type": payload_type, **header_of(codec), **(extra_header or {})}
        payloads = (codec.encode(obj) for obj in objects)
        build = _write.build_pack_streaming if streaming else _write.build_pack
        build(output_path, header, slide_table, index_table, payloads, overwrite=overwrite)

    @staticmethod
    def build_from_payloads(output_path: Path, *, payload_type: str, slide_table: Any,
                            index_table: Any, payloads: Iterable[bytes], codec_name: str,
                            codec_params: dict[str, Any] | None = None,
                            extra_header: dict[str, Any] | None = None,
                            overwrite: bool = False) -> None:
        """Writes payloads that are already encoded."""
        header: dict[str, Any] = {"payload_type": payload_type, "codec": codec_name}
        if codec_params:
            header["codec_params"] = codec_params
        header.update(extra_header or {})
        _write.build_pack(output_path, header, slide_table, index_table, payloads,
                          overwrite=overwrite)

    @property
    def codec(self) -> Any:
        """The codec that the header names; raises ValueError if it is unknown."""
        if self._codec is None:
            header = self._reader.header
            self._codec = Codec.create(header.get("codec", "none"),
                                       **(header.get("codec_params") or {}))
        return self._codec

    def read_bytes(self, row: int) -> bytes:
        """Returns a record as it is stored."""
        return self._reader.read_payload(row)

    def read(self, row: int) -> Any:
        """Returns a decoded record."""
        codec = self.codec
        if isinstance(codec, _Bytes):
            return self._reader.decode(row)
        return codec.decode(self._reader.read_payload(row))

    def read_many(self, rows: Iterable[int], workers: int | None = None) -> list[Any]:
        """Returns several decoded records in the requested order; `workers` threads decode if
        there is more than one. `set_parallel_decoding` sets the number for calls without it."""
        count = positive(workers) or (_threads[1] if _threads[0] else 1)
        if isinstance(self.codec, ImageCodec):
            return self.codec.decode_many(self._reader.read_payloads(rows), workers=workers)
        return in_threads(self.read, rows, count)

    def read_many_contiguous(self, rows: Iterable[int], *, workers: int | None = None) -> Batch:
        """Returns several decoded records in one buffer; the codec must return bytes."""
        count = positive(workers)
        if isinstance(self.codec, RawCodec):
            return self._reader.batch(rows)
        if isinstance(self.codec, ImageCodec):
            raise TypeError("read_many_contiguous requires a byte-decoding codec")
        records = self.read_many(rows, count)
        offsets = [0]
        for record in records:
            if not isinstance(record, (bytes, bytearray, memoryview)):
                raise TypeError("read_many_contiguous requires a byte-decoding codec")
            offsets.append(offsets[-1] + memoryview(record).nbytes)
        return Batch(b"".join(records), offsets)


class FixedRecordPack(_Pack):
    """The rows of a matrix, found by their number.

    >>> import numpy as np
    >>> from tarn.iac import FixedRecordPack
    >>> FixedRecordPack.build("f.iac", payload_type="feature", slide_table={"slide_id": ["s"]},
    ...                       index_table={"n": [1, 2]}, matrix=np.array([[1, 2], [3, 4]], "f2"),
    ...                       overwrite=True)
    >>> with FixedRecordPack("f.iac") as pack:
    ...     pack.read(1), pack.read_matrix([1, 0]).tolist()
    (array([3., 4.], dtype=float16), [[3.0, 4.0], [1.0, 2.0]])
    """

    @staticmethod
    def build(output_path: Path, *, payload_type: str, slide_table: Any, index_table: Any,
              matrix: npt.NDArray[Any], extra_header: dict[str, Any] | None = None,
              overwrite: bool = False) -> None:
        """Writes a matrix with one row for each row of the index table."""
        import numpy as np

        matrix = np.ascontiguousarray(matrix)
        # The header has the name of the type, which does not include the byte order.
        matrix = matrix.astype(matrix.dtype.newbyteorder("="), copy=False)
        if matrix.ndim != 2:
            raise ValueError(f"FixedRecordPack matrix must be 2D (rows, dim), got {matrix.shape}")
        rows = _rows(index_table)
        if rows is not None and rows != len(matrix):
            raise ValueError(f"row count mismatch: matrix={len(matrix)} index={rows}")
        header = {"payload_type": payload_type, "codec": "none",
                  "feature_dim": int(matrix.shape[1]), "dtype": matrix.dtype.name,
                  "feature_record_bytes": matrix.shape[1] * matrix.dtype.itemsize,
                  **(extra_header or {})}
        _write.build_pack_data_segment(output_path, header, slide_table, index_table, matrix,
                                       overwrite=overwrite)

    def __init__(self, package_path: Path) -> None:
        super().__init__(package_path)
        self._spans: bool | None = None  # whether the index has columns for spans

    def _shape(self) -> tuple[Any, int]:
        """Returns (dtype, values in a record), after checking them against the record size."""
        import numpy as np

        header = self._reader.header
        dtype, width = np.dtype(header["dtype"]), int(header["feature_dim"])
        if int(header["feature_record_bytes"]) != width * dtype.itemsize:
            raise ValueError(f"invalid feature_record_bytes: header="
                             f"{header['feature_record_bytes']} expected={width * dtype.itemsize}")
        return dtype, width

    def _row(self, row: int) -> int:
        number, count = operator.index(row), len(self._reader)
        if not 0 <= number < count:
            raise ValueError(f"record {number} is outside data segment, which has {count} records")
        return number

    def read(self, row: int) -> npt.NDArray[Any]:
        """Returns one row, read-only, in its stored type."""
        import numpy as np

        dtype, width = self._shape()
        size = width * dtype.itemsize
        return np.frombuffer(self._reader.read_data_span(self._row(row) * size, size), dtype)

    def read_many(self, rows: Iterable[int], workers: int | None = None) -> list[npt.NDArray[Any]]:
        """Returns several rows as float32; `workers` has no effect."""
        return list(self.read_matrix(rows).astype("float32"))

    def read_matrix(self, rows: Iterable[int]) -> npt.NDArray[Any]:
        """Returns several rows as a new matrix, in their stored type."""
        import numpy as np

        dtype, width = self._shape()
        numbers = [self._row(row) for row in rows]
        if self._by_size(width):
            data: Any = self._reader.batch(numbers).buffer
        else:
            size = width * dtype.itemsize
            data = self._reader.read_data_spans((number * size, size) for number in numbers)
        return np.frombuffer(data, dtype).reshape(len(numbers), width).copy()

    def _by_size(self, width: int) -> bool:
        """Whether the reader can find records by their size. If the index has span columns, the
        reader uses those, and they do not describe the rows of a matrix."""
        if self._spans is None:
            self._spans = {"offset", "length"} <= self._reader.index.types.keys()
        return width > 0 and not self._spans


def _rows(table: Any) -> int | None:
    """Returns the number of rows of a table, if it is known."""
    if isinstance(table, dict):
        return max((len(values) for values in table.values()), default=0)
    try:
        return len(table)
    except TypeError:
        return None

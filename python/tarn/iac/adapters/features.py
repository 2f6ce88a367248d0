"""Record packs of features: one vector of a fixed length for each tile of a grid on a slide."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._cache import Path as PackagePath
from .._read import PackReader
from .._write import build_pack_data_segment_from_file
from ..manifests import TileRecord
from ._grid import Grid, GridReader, creator, records_of
from .tiles import read_package_manifest, read_package_metadata

if TYPE_CHECKING:
    import numpy.typing as npt


def _write_rows(file: Any, features: Iterable[Any], dtype: str, width: int | None) -> int:
    """Writes vectors one after the other; returns their length."""
    import numpy as np

    for feature in features:
        vector = np.asarray(feature).astype(dtype, copy=False)
        if vector.ndim != 1:
            raise ValueError(f"teacher feature must be 1D, got {vector.shape}")
        width = len(vector) if width is None else width
        if len(vector) != width:
            raise ValueError(f"inconsistent feature dim: got {len(vector)} expected {width}")
        file.write(np.ascontiguousarray(vector).data)
    if width is None:
        raise ValueError("features are empty")
    return int(width)


def build_teacher_feature_package(
        records: Sequence[TileRecord], features: Iterable[Any], output_path: PackagePath,
        teacher_name: str = "", dtype: str = "float32", feature_dim: int | None = None,
        tile_width: int | None = None, tile_height: int | None = None,
        stride_x: int | None = None, stride_y: int | None = None, overwrite: bool = False, *,
        style: str = "0.0.2") -> None:
    """Writes one vector for each tile. The vectors may come from an iterator; they are converted
    to `dtype`. `style="0.1"` writes what iatro-iac-adapters 0.1 writes.

    >>> import numpy as np
    >>> from tarn.iac import FeatureCacheReader, TileRecord, build_teacher_feature_package
    >>> tiles = [TileRecord(f"t{x}", "p", "s", f"t{x}.png", x * 8, 0, "") for x in range(2)]
    >>> build_teacher_feature_package(tiles, np.eye(2), "features.iac", "model", overwrite=True)
    >>> with FeatureCacheReader("features.iac") as reader:
    ...     reader.read_feature("t1").tolist()
    [0.0, 1.0]
    """
    import numpy as np

    if not records:
        raise ValueError("records are empty")
    if not teacher_name:
        raise ValueError("teacher_name is required for teacher feature packages")
    kind = np.dtype(dtype)
    grid = Grid(records)
    grid.set_stride(stride_x, stride_y, (1, 1))
    width = grid.stride_x if tile_width is None else int(tile_width)
    height = grid.stride_y if tile_height is None else int(tile_height)
    if width <= 0 or height <= 0:
        raise ValueError(f"tile size must be positive, got ({width}, {height})")
    table = grid.index_table()
    output_path = Path(output_path)
    output_path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=output_path.parent) as file:
        dim = _write_rows(file, features, kind.name, feature_dim)
        size, each = file.tell(), dim * kind.itemsize
        if size != each * len(records):
            count = size // each if each else 0
            raise ValueError(f"feature count mismatch: features={count} records={len(records)}")
        file.flush()
        header = {"payload_type": "teacher_features", "teacher": teacher_name,
                  "feature_dim": dim, "dtype": kind.name, "feature_record_bytes": each,
                  "tile_width": width, "tile_height": height, "stride_x": grid.stride_x,
                  "stride_y": grid.stride_y, "coordinate_mode": "tile_grid",
                  "origin": "top_left", "slide_idx_dtype": "uint8", "tile_xy_dtype": "uint16",
                  "flags_dtype": "uint8", "checksum": "crc32", "created_by": creator(style)}
        build_pack_data_segment_from_file(output_path, header, grid.slide_table(), table,
                                          file.name, data_length=size, overwrite=overwrite)


def build_teacher_feature_package_from_feature_map(
        records: Sequence[TileRecord], feature_by_tile_id: Mapping[str, Any],
        output_path: PackagePath, teacher_name: str = "", dtype: str = "float32",
        tile_width: int | None = None, tile_height: int | None = None,
        stride_x: int | None = None, stride_y: int | None = None, overwrite: bool = False, *,
        style: str = "0.0.2") -> None:
    """Like `build_teacher_feature_package`, with vectors by `tile_id`; raises FileNotFoundError
    for a tile without one."""
    for record in records:
        if record.tile_id not in feature_by_tile_id:
            raise FileNotFoundError(f"missing teacher feature: {record.tile_id}")
    build_teacher_feature_package(
        records, (feature_by_tile_id[record.tile_id] for record in records), output_path,
        teacher_name, dtype, None, tile_width, tile_height, stride_x, stride_y, overwrite,
        style=style)


def build_teacher_feature_package_from_tile_package(
        tile_package_path: PackagePath, features: Iterable[Any], output_path: PackagePath,
        teacher_name: str = "", dtype: str = "float32", feature_dim: int | None = None,
        overwrite: bool = False, *, style: str = "0.0.2") -> None:
    """Like `build_teacher_feature_package`, for the tiles of a record pack."""
    header = read_package_metadata(tile_package_path)
    if header.get("payload_type") != "image_tiles":
        raise ValueError(f"not an image tile package: {os.fspath(tile_package_path)}")
    build_teacher_feature_package(
        read_package_manifest(tile_package_path), features, output_path, teacher_name, dtype,
        feature_dim, int(header["tile_width"]), int(header["tile_height"]),
        int(header["stride_x"]), int(header["stride_y"]), overwrite, style=style)


def _require_features(header: Mapping[str, Any]) -> None:
    if header.get("payload_type") != "teacher_features":
        raise ValueError(f"not a teacher feature package: {header.get('payload_type')}")


class FeatureCacheReader(GridReader):
    """Features of a record pack by `tile_id` or row, as float32."""

    _kind = "feature"
    _missing = "teacher feature"

    def _check_header(self) -> None:
        _require_features(self._reader.header)

    def _shape(self) -> tuple[Any, int, int]:
        """Returns (dtype, values, bytes) of a record, after comparing them."""
        import numpy as np

        header = self._reader.header
        dtype, width = np.dtype(header["dtype"]), int(header["feature_dim"])
        size = int(header["feature_record_bytes"])
        if size != width * dtype.itemsize:
            raise ValueError(f"invalid feature_record_bytes: expected={width * dtype.itemsize} "
                             f"got={size}")
        return dtype, width, size

    def read_features_at(self, rows: Iterable[int]) -> npt.NDArray[Any]:
        """Returns several rows as one matrix, in the requested order."""
        import numpy as np

        numbers = [int(row) for row in rows]
        for row in numbers:
            self._check_row(row)
        dtype, width, size = self._shape()
        data = self._reader.read_data_spans((row * size, size) for row in numbers)
        return np.frombuffer(data, dtype).reshape(len(numbers), width).astype("float32")

    def read_feature_at(self, row: int) -> npt.NDArray[Any]:
        """Returns one row."""
        vector: npt.NDArray[Any] = self.read_features_at([row])[0]
        return vector

    def read_feature(self, tile_id: str) -> npt.NDArray[Any]:
        """Returns the vector of a tile; raises FileNotFoundError if there is none."""
        return self.read_feature_at(self._row_of(tile_id))


def read_feature_package_records(package_path: PackagePath) -> list[TileRecord]:
    """Returns the tiles of a record pack of features, in file order."""
    with PackReader(package_path) as reader:
        _require_features(reader.header)
        return records_of(reader, "features/{}.bin")

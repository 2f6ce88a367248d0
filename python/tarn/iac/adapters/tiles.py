"""Record packs of image tiles: one JPEG XL image for each tile of a grid on a slide.

Images need the packages Pillow and imagecodecs; everything else works without them."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import _images
from .._cache import Path as PackagePath
from .._core import read_header
from .._read import PackReader
from .._write import build_pack
from ..codecs import JxlCodec, in_threads
from ..manifests import TileRecord, read_tile_manifest
from ._grid import MAX_SLIDES, Grid, GridReader, creator, records_of

if TYPE_CHECKING:
    import numpy.typing as npt
    import PIL.Image


def _bar(show: bool, steps: Iterable[Any], total: int) -> Iterable[Any]:
    """The steps, with a progress bar if it is wanted."""
    if not show:
        return steps
    try:
        tqdm = importlib.import_module("tqdm").tqdm
    except ImportError as error:
        raise ImportError("show_progress=True needs the package tqdm (pip install tqdm)") from error
    bar: Iterable[Any] = tqdm(steps, total=total, desc="Encoding JXL tiles", unit="tile")
    return bar


# --- Images ----------------------------------------------------------------------------------


def encode_jxl_array(arr: npt.NDArray[Any], lossless: bool, distance: float | None,
                     effort: int | None) -> bytes:
    """Encodes an array of height x width x channels as JPEG XL."""
    return JxlCodec(lossless, distance, effort).encode(arr)


def encode_jxl(image_path: PackagePath, lossless: bool, distance: float | None,
               effort: int | None) -> bytes:
    """Encodes an image file, converted to RGB, as JPEG XL."""
    import numpy as np

    with _images.pillow().open(image_path) as image:
        array = np.asarray(image.convert("RGB"))
    return encode_jxl_array(array, lossless, distance, effort)


def decode_jxl_array(payload: bytes) -> npt.NDArray[Any]:
    """Decodes JPEG XL into height x width x 3."""
    return _images.three_channels(_images.decode_jxl(payload))


def decode_jxl(payload: bytes) -> PIL.Image.Image:
    """Decodes JPEG XL into a Pillow image."""
    image: PIL.Image.Image = _images.pillow().fromarray(decode_jxl_array(payload))
    return image


# --- Writing ---------------------------------------------------------------------------------


def _header(grid: Grid, size: tuple[int, int], codec: JxlCodec, style: str) -> dict[str, Any]:
    return {"payload_type": "image_tiles", "codec": "jxl",
            "codec_params": {"mode": "lossless" if codec.lossless else "lossy",
                             **codec.parameters(), "tile_color_space": "RGB",
                             "input_dtype": "uint8"},
            "tile_width": size[0], "tile_height": size[1],
            "stride_x": grid.stride_x, "stride_y": grid.stride_y,
            "coordinate_mode": "tile_grid", "origin": "top_left", "slide_idx_dtype": "uint8",
            "tile_xy_dtype": "uint16", "offset_dtype": "uint64", "length_dtype": "uint32",
            "flags_dtype": "uint8", "checksum": "crc32", "max_slides_per_pack": MAX_SLIDES,
            "created_by": creator(style)}


def _build(output_path: PackagePath, grid: Grid, header: dict[str, Any],
           payloads: Sequence[bytes], overwrite: bool) -> None:
    nothing = [0] * len(payloads)  # replaced by build_pack, which keeps the place of the columns
    table = grid.index_table(text_split=[record.split for record in grid.records],
                             uint_offset=nothing, u32_length=nothing, u32_crc32=nothing)
    build_pack(output_path, header, grid.slide_table(), table, payloads, overwrite=overwrite)


def build_tile_package_from_records(
        records: Sequence[TileRecord], payloads: Sequence[bytes], output_path: PackagePath, *,
        tile_width: int, tile_height: int, lossless: bool = False, distance: float | None = 1.0,
        effort: int | None = 7, overwrite: bool = False, stride_x: int | None = None,
        stride_y: int | None = None, extra_header: Mapping[str, Any] | None = None,
        style: str = "0.0.2") -> None:
    """Writes tiles that are already JPEG XL. `lossless`, `distance` and `effort` go into the
    header only. `style="0.1"` writes what iatro-iac-adapters 0.1 writes.

    >>> from tarn.iac import TileRecord, build_tile_package_from_records, read_package_manifest
    >>> tiles = [TileRecord(f"t{x}", "p", "s", f"t{x}.jxl", x * 8, 0, "train") for x in range(2)]
    >>> build_tile_package_from_records(tiles, [b"jxl", b"jxl"], "tiles.iac", tile_width=8,
    ...                                 tile_height=8, overwrite=True)
    >>> read_package_manifest("tiles.iac")[1].x
    8
    """
    if not records:
        raise ValueError("records are empty")
    if len(records) != len(payloads):
        raise ValueError(f"record/payload count mismatch: {len(records)} != {len(payloads)}")
    grid = Grid(records)
    grid.set_stride(stride_x, stride_y, (tile_width, tile_height))
    header = _header(grid, (int(tile_width), int(tile_height)),
                     JxlCodec(lossless, distance, effort), style)
    header.update(extra_header or {})
    _build(output_path, grid, header, payloads, overwrite)


def build_tile_package(
        manifest_path: PackagePath, output_path: PackagePath,
        tile_root: PackagePath | None = None, lossless: bool = False,
        distance: float | None = 1.0, effort: int | None = 7, overwrite: bool = False,
        stride_x: int | None = None, stride_y: int | None = None, workers: int = 1,
        show_progress: bool = False, *, style: str = "0.0.2") -> None:
    """Encodes the image files of a tile manifest and writes them. All must have one size. Relative
    paths in the manifest are relative to `tile_root`. `workers` threads encode."""
    records = read_tile_manifest(manifest_path)
    if not records:
        raise ValueError(f"manifest is empty: {os.fspath(manifest_path)}")
    grid = Grid(records)
    paths = [record.tile_path if tile_root is None else Path(tile_root) / record.tile_path
             for record in records]
    sizes = set()
    for path in paths:
        with _images.pillow().open(path) as image:
            sizes.add(image.size)
    if len(sizes) != 1:
        raise ValueError(f"all packaged tiles must share one size, got {sorted(sizes)}")
    size = sizes.pop()
    grid.set_stride(stride_x, stride_y, size)
    header = _header(grid, size, JxlCodec(lossless, distance, effort), style)

    def encode(path: Path) -> bytes:
        return encode_jxl(path, lossless, distance, effort)

    payloads = _encoded(encode, paths, max(1, int(workers)), show_progress)
    _build(output_path, grid, header, payloads, overwrite)


def _encoded(encode: Callable[[Path], bytes], paths: list[Path], workers: int,
             show: bool) -> list[bytes]:
    if workers == 1:
        return [encode(path) for path in _bar(show, paths, len(paths))]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max_workers=workers) as pool:
        return list(_bar(show, pool.map(encode, paths), len(paths)))


# --- Reading ---------------------------------------------------------------------------------


def _require_tiles(header: Mapping[str, Any]) -> None:
    if header.get("payload_type") != "image_tiles":
        raise ValueError(f"not an image tile package: {header.get('payload_type')}")
    if header.get("codec") != "jxl":
        raise ValueError(f"unsupported image tile codec: {header.get('codec')}")


def read_package_metadata(package_path: PackagePath) -> dict[str, Any]:
    """Returns the header of a record pack."""
    return read_header(package_path)


def read_package_manifest(package_path: PackagePath) -> list[TileRecord]:
    """Returns the tiles of a record pack, in file order."""
    with PackReader(package_path) as reader:
        _require_tiles(reader.header)
        return records_of(reader, "tiles/{}.jxl")


class TilePackageReader(GridReader):
    """Tiles of a record pack by `tile_id` or row."""

    _kind = _missing = "tile"

    def _check_header(self) -> None:
        _require_tiles(self._reader.header)

    def _checked(self, row: int, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        header = self._reader.header
        expected = int(header["tile_height"]), int(header["tile_width"])
        if array.shape[:2] != expected:
            raise ValueError(f"invalid tile shape at row={row}: expected={expected} "
                             f"got={array.shape[:2]}")
        return array

    def read_array_at(self, row: int) -> npt.NDArray[Any]:
        """Returns a tile as an array of height x width x 3."""
        self._check_row(row)
        return self._checked(row, decode_jxl_array(self._reader.read_payload(row)))

    def read_image_at(self, row: int) -> PIL.Image.Image:
        """Returns a tile as a Pillow image."""
        image: PIL.Image.Image = _images.pillow().fromarray(self.read_array_at(row))
        return image

    def read_image(self, tile_id: str) -> PIL.Image.Image:
        """Returns the tile with an id; raises FileNotFoundError if there is none."""
        return self.read_image_at(self._row_of(tile_id))

    def read_arrays_at(self, rows: Iterable[int], *,
                       workers: int | None = None) -> list[npt.NDArray[Any]]:
        """Returns several tiles in the requested order; `workers` threads decode."""
        rows = [int(row) for row in rows]
        if isinstance(workers, bool):
            raise TypeError("workers must be an integer, not bool")
        count = 1 if workers is None else index(workers)
        if count < 1:
            raise ValueError(f"workers must be positive, got {workers}")
        for row in rows:
            self._check_row(row)
        arrays = in_threads(decode_jxl_array, self._reader.read_payloads(rows), count)
        return [self._checked(row, array) for row, array in zip(rows, arrays)]

    def read_images_at(self, rows: Iterable[int], *,
                       workers: int | None = None) -> list[PIL.Image.Image]:
        """Like `read_arrays_at`, as Pillow images."""
        return [_images.pillow().fromarray(array) for array in self.read_arrays_at(rows, workers=workers)]


def iter_package_tiles(
        package_path: PackagePath) -> Iterator[tuple[TileRecord, PIL.Image.Image]]:
    """Yields all tiles with their images, in file order."""
    records = read_package_manifest(package_path)
    with TilePackageReader(package_path) as reader:
        for row, record in enumerate(records):
            yield record, reader.read_image_at(row)

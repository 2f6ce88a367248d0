"""Checks record packs of tiles and of features: their tables, their payloads, and a sample of
their images. `tarn.iac.verify` checks record packs of any kind, and all of the file.

    python -m tarn.iac.validate --input FILE_OR_FOLDER
"""

from __future__ import annotations

import argparse
import os
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Union

from ._read import PackReader, Table, read_payload, read_tables
from .adapters._grid import require_unique
from .adapters.tiles import decode_jxl, decode_jxl_array, read_package_metadata

__all__ = ["decode_jxl", "main", "read_package_metadata", "read_payload", "read_tables",
           "validate_package"]

_TEXTS = {"image_tiles": ("codec", "decoded", "crc_checked"),
          "teacher_features": ("teacher", "dim", "dtype", "rows_checked")}


def _require(table: Table, columns: Iterable[str], name: str) -> None:
    missing = [column for column in columns if column not in table.types]
    if missing:
        raise ValueError(f"{name} missing columns: {missing}")


def _check_tables(reader: PackReader) -> None:
    slides, index = reader.slides, reader.index
    _require(slides, ("slide_idx", "slide_id", "patient_id"), "slide table")
    _require(index, ("slide_idx", "tile_x", "tile_y", "tile_id", "flags"), "record table")
    require_unique(index["tile_id"], "tile_id values")
    known = set(slides["slide_idx"])
    for row, slide in enumerate(index["slide_idx"]):
        if slide not in known:
            raise ValueError(f"invalid slide_idx at row {row}: {slide}")


def _rows(limit: int, count: int) -> range:
    return range(min(limit, count) if limit else count)


def _check_tiles(reader: PackReader, max_decode: int, max_crc: int) -> dict[str, Any]:
    header, index = reader.header, reader.index
    _require(index, ("offset", "length", "crc32"), "record table")
    spans = list(zip(index["offset"], index["length"], index["crc32"]))
    for row, (offset, length, _) in enumerate(spans):
        if offset < 0 or length < 0 or offset + length > header["data_length"]:
            raise ValueError(f"payload span outside data segment at row {row}: offset={offset} "
                             f"length={length}")
    checked = _rows(max_crc, len(spans))
    for row in checked:
        found = zlib.crc32(reader.read_payload(row))
        if found != spans[row][2]:
            raise ValueError(f"crc32 mismatch at row {row}: expected={spans[row][2]} "
                             f"actual={found}")
    if header.get("codec") != "jxl":
        raise ValueError(f"unsupported image tile codec: {header.get('codec')}")
    size = int(header["tile_width"]), int(header["tile_height"])
    decoded = _rows(max_decode, len(spans))
    for row in decoded:
        height, width = decode_jxl_array(reader.read_payload(row)).shape[:2]
        if (width, height) != size:
            raise ValueError(f"expected {size} tile at row {row}, got {(width, height)}")
    return {"codec": header["codec"], "decoded": len(decoded), "crc_checked": len(checked)}


def _check_features(reader: PackReader, max_rows: int) -> dict[str, Any]:
    import numpy as np

    header = reader.header
    teacher, dim = header.get("teacher"), int(header.get("feature_dim", 0))
    if not isinstance(teacher, str) or not teacher:
        raise ValueError("teacher_features header requires non-empty teacher")
    if dim <= 0:
        raise ValueError(f"invalid feature_dim: {header.get('feature_dim')}")
    try:
        dtype = np.dtype(header["dtype"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"invalid feature dtype: {header.get('dtype')}") from error
    each = int(header.get("feature_record_bytes", 0))
    if each != dim * dtype.itemsize:
        raise ValueError(f"invalid feature_record_bytes: expected={dim * dtype.itemsize} "
                         f"got={each}")
    count = reader.index.num_rows
    if int(header["data_length"]) != count * each:
        raise ValueError(f"invalid feature data length: expected={count * each} "
                         f"got={header['data_length']}")
    rows = _rows(max_rows, count)
    for row in rows:
        reader.read_data_span(row * each, each)
    return {"teacher": teacher, "dim": dim, "dtype": header["dtype"], "rows_checked": len(rows)}


def validate_package(package_path: Union[str, "os.PathLike[str]"], max_decode: int = 8,
                     max_crc: int = 0) -> dict[str, Any]:
    """Checks a record pack of tiles or features, and returns what was checked; raises ValueError
    for the first thing that is wrong. `max_decode` images (or feature rows) and `max_crc`
    checksums are checked; 0 means all.

    >>> import numpy as np
    >>> from tarn.iac import TileRecord, build_teacher_feature_package
    >>> from tarn.iac.validate import validate_package
    >>> tiles = [TileRecord("t", "p", "s", "t.png", 0, 0, "")]
    >>> build_teacher_feature_package(tiles, np.eye(1), "features.iac", "model", overwrite=True)
    >>> validate_package("features.iac")["rows_checked"]
    1
    """
    with PackReader(package_path) as reader:
        kind = reader.header.get("payload_type")
        _check_tables(reader)
        if kind == "image_tiles":
            found = _check_tiles(reader, max_decode, max_crc)
        elif kind == "teacher_features":
            found = _check_features(reader, max_decode)
        else:
            raise ValueError(f"unsupported payload_type: {kind}")
        return {"type": kind, "records": int(reader.header["num_records"]), **found}


# --- The command -----------------------------------------------------------------------------


def _line(result: dict[str, Any]) -> str:
    names = ("type", "records", *_TEXTS[result["type"]])
    return " ".join(f"{name}={result[name]}" for name in names)


def _packages(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise FileNotFoundError(f"package path does not exist: {path}")
    found = sorted(file for file in path.rglob("*.iac") if file.is_file())
    if not found:
        raise FileNotFoundError(f"no .iac packages found under {path}")
    return found


def main() -> None:
    """Checks a file, or all record packs in a folder; exits with a message if one is wrong."""
    parser = argparse.ArgumentParser(
        description="Validate record packs of tiles or features: one file, or all in a folder.")
    parser.add_argument("--input", required=True, help="a record pack, or a folder with some")
    parser.add_argument("--max-decode", type=int, default=8,
                        help="images to decode in each file; 0: all (default: 8)")
    parser.add_argument("--max-crc", type=int, default=0,
                        help="checksums to compare in each file; 0: all (default: 0)")
    parser.add_argument("--fail-fast", action="store_true", help="stop at the first wrong file")
    options = parser.parse_args()
    packages = _packages(Path(options.input))
    if len(packages) == 1:
        print("package_valid", _line(validate_package(packages[0], options.max_decode,
                                                      options.max_crc)))
        return
    good, wrong = 0, []
    for path in packages:
        try:
            result = validate_package(path, options.max_decode, options.max_crc)
        except (OSError, ValueError, RuntimeError) as error:
            wrong.append(f"{path}: {error}")
            print(f"package_invalid path={path} error={error}")
            if options.fail_fast:
                break
            continue
        good += 1
        print(f"package_valid path={path}", _line(result))
    print(f"validation_summary total={len(packages)} ok={good} failed={len(wrong)}")
    if wrong:
        raise SystemExit(f"validation_failed count={len(wrong)} sample={'; '.join(wrong[:5])}")


if __name__ == "__main__":
    main()

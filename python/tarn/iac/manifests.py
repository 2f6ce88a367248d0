"""Tables of tiles as CSV files: one line for each tile."""

from __future__ import annotations

import csv
import errno
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

from ..errors import shown

TILE_COLUMNS = ("tile_id", "patient_id", "slide_id", "tile_path", "x", "y", "split")
REQUIRED_TILE_COLUMNS = set(TILE_COLUMNS)


@dataclass(frozen=True)
class TileRecord:
    """A tile of a slide: its names, its file, its place in pixels, and its split."""

    tile_id: str
    patient_id: str
    slide_id: str
    tile_path: Path
    x: int
    y: int
    split: str


def _local(path: Union[str, "os.PathLike[str]"]) -> Path:
    if ":/" in os.fspath(path):  # a Path of a URL has one slash
        raise FileNotFoundError(errno.ENOENT, "a tile manifest must be a local file, not a URL",
                                shown(path))
    return Path(path)


def _record(row: Mapping[str, Any], path: Path, line: int) -> TileRecord:
    try:
        return TileRecord(row["tile_id"], row["patient_id"], row["slide_id"],
                          Path(row["tile_path"]), int(row["x"]), int(row["y"]), row["split"])
    except (TypeError, ValueError) as error:
        raise type(error)(f"{path}: line {line}: {error}") from None


def read_tile_manifest(path: Union[str, "os.PathLike[str]"]) -> list[TileRecord]:
    """Reads a CSV file with the columns of `TILE_COLUMNS`; more columns are ignored.

    >>> from tarn.iac import read_tile_manifest, write_tile_manifest
    >>> write_tile_manifest("tiles.csv", [dict(tile_id="t", patient_id="p", slide_id="s",
    ...                                        tile_path="t.png", x=0, y=8, split="train")])
    >>> read_tile_manifest("tiles.csv")[0].y
    8
    """
    path = _local(path)
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        missing = REQUIRED_TILE_COLUMNS - set(rows.fieldnames or ())
        if missing:
            raise ValueError(f"tile manifest missing columns: {sorted(missing)} ({path})")
        return [_record(row, path, rows.line_num) for row in rows]


def write_tile_manifest(path: Union[str, "os.PathLike[str]"],
                        rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes a CSV file of tiles; each row is a dict with the keys of `TILE_COLUMNS`."""
    path = _local(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, TILE_COLUMNS)
        writer.writeheader()
        writer.writerows(rows)

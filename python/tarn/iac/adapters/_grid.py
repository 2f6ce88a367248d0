"""What record packs of tiles and of features have in common: tables with one row for each tile of
a grid on a slide, and readers that find rows by `tile_id`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._cache import Path as PackagePath
from .._read import PackReader, Wrapped
from ..manifests import TileRecord

if TYPE_CHECKING:
    import pyarrow as pa

MAX_SLIDES = 255    # slide_idx is an unsigned byte
MAX_GRID = 65535    # tile_x and tile_y have 16 bits
CREATORS = {"0.0.2": "hcc-sempath", "0.1": "iatro-base-iac"}  # the header's created_by


def creator(style: str) -> str:
    """Returns the header's created_by of a version of iatro-base-iac."""
    if style not in CREATORS:
        raise ValueError(f"style must be one of {', '.join(CREATORS)}, not {style!r}")
    return CREATORS[style]


def require_unique(values: Iterable[Any], what: str) -> None:
    """Raises ValueError, with examples, if values occur more than once."""
    seen: set[Any] = set()
    again = [value for value in values if value in seen or seen.add(value)]  # type: ignore[func-returns-value]
    if again:
        sample = ", ".join(map(str, again[:3]))
        raise ValueError(f"duplicate {what}: count={len(again)} sample={sample}")


class Grid:
    """The slides and grid places of tiles, checked and ready for the tables of a record pack."""

    def __init__(self, records: Sequence[TileRecord]) -> None:
        require_unique((record.tile_id for record in records), "tile_id values")
        self.records = records
        self.slides: dict[str, tuple[int, str]] = {}  # slide_id: (slide_idx, patient_id)
        for record in records:
            new = (len(self.slides), record.patient_id)
            patient = self.slides.setdefault(record.slide_id, new)[1]
            if patient != record.patient_id:
                raise ValueError(f"inconsistent patient_id for slide {record.slide_id}: "
                                 f"{patient} != {record.patient_id}")
        if len(self.slides) > MAX_SLIDES:
            raise ValueError(f"too many slides: {len(self.slides)} > {MAX_SLIDES}")

    def set_stride(self, x: int | None, y: int | None, default: tuple[int, int]) -> None:
        """Sets the pixels from one grid place to the next; None stands for the largest that all
        coordinates are multiples of, or the default if all are 0."""
        records = self.records
        self.stride_x = int(x) if x is not None else \
            gcd(*(r.x for r in records if r.x > 0)) or default[0]
        self.stride_y = int(y) if y is not None else \
            gcd(*(r.y for r in records if r.y > 0)) or default[1]
        if self.stride_x <= 0 or self.stride_y <= 0:
            raise ValueError(f"stride must be positive, got ({self.stride_x}, {self.stride_y})")

    def places(self) -> tuple[list[int], list[int]]:
        """Returns the columns tile_x and tile_y."""
        stride = self.stride_x, self.stride_y
        for r in self.records:
            if r.x < 0 or r.y < 0:
                raise ValueError(f"negative tile coordinate: {r.tile_id} ({r.x}, {r.y})")
            if r.x % stride[0] or r.y % stride[1]:
                raise ValueError(f"tile coordinate is not aligned to stride for {r.tile_id}: "
                                 f"({r.x}, {r.y}) stride=({stride[0]}, {stride[1]})")
        x = [r.x // stride[0] for r in self.records]
        y = [r.y // stride[1] for r in self.records]
        if max((*x, *y), default=0) > MAX_GRID:
            raise ValueError(f"tile-grid coordinates exceed uint16: {max(*x, *y)} > {MAX_GRID}; "
                             "use a larger stride or several record packs")
        return x, y

    def slide_table(self) -> Any:
        return _table({"u8:slide_idx": [i for i, _ in self.slides.values()],
                       "text:slide_id": list(self.slides),
                       "text:patient_id": [patient for _, patient in self.slides.values()]})

    def index_table(self, **more: list[Any]) -> Any:
        """Returns the index; `more` are columns between tile_id and flags, as kind_name."""
        x, y = self.places()
        between = {name.replace("_", ":", 1): column for name, column in more.items()}
        return _table({"u8:slide_idx": [self.slides[r.slide_id][0] for r in self.records],
                       "u16:tile_x": x, "u16:tile_y": y,
                       "text:tile_id": [r.tile_id for r in self.records], **between,
                       "u8:flags": [0] * len(self.records)})


def _table(columns: dict[str, list[Any]]) -> Any:
    from ... import _tarn

    return _tarn.iac_rows(list(columns), tuple(zip(*columns.values())))


def records_of(reader: PackReader, file: str) -> list[TileRecord]:
    """Returns the tiles of a record pack; `file` is the pattern of `tile_path`."""
    header, index = reader.header, reader.index.to_pydict()
    require_unique(index["tile_id"], "tile_id values in package")
    slides = reader.slides.to_pydict()
    names = dict(zip(slides["slide_idx"], zip(slides["slide_id"], slides["patient_id"])))
    grid = header.get("coordinate_mode") == "tile_grid"
    step_x, step_y = (int(header["stride_x"]), int(header["stride_y"])) if grid else (1, 1)
    splits = index.get("split", [""] * len(index["tile_id"]))
    return [TileRecord(tile, names[slide][1], names[slide][0], Path(file.format(tile)),
                       x * step_x, y * step_y, split)
            for tile, slide, x, y, split in zip(index["tile_id"], index["slide_idx"],
                                                index["tile_x"], index["tile_y"], splits)]


class GridReader(Wrapped):
    """Base class of the readers. Like `PackReader`, they open the file on first use, and can be
    pickled."""

    _kind = ""   # how messages call the records
    _missing = ""

    def __init__(self, package_path: PackagePath) -> None:
        super().__init__(package_path)
        self._ids: list[str] | None = None
        self._rows: dict[str, int] = {}

    def _check_header(self) -> None:
        """Raises ValueError if the file is not what the reader is for."""
        raise NotImplementedError

    def _tile_ids(self) -> list[str]:
        if self._ids is None:
            self._check_header()
            ids = [str(value) for value in self._reader.index["tile_id"]]
            require_unique(ids, "tile_id values in package")
            self._rows = {tile: row for row, tile in enumerate(ids)}
            self._ids = ids
        return self._ids

    def _row_of(self, tile_id: str) -> int:
        self._tile_ids()
        if tile_id not in self._rows:
            raise FileNotFoundError(f"missing packaged {self._missing}: {tile_id}")
        return self._rows[tile_id]

    def _check_row(self, row: int) -> None:
        if not 0 <= row < self.record_count:
            raise IndexError(f"{self._kind} row out of range: {row} of {self.record_count}")

    @property
    def record_table(self) -> pa.Table:
        return self._reader.record_table

    def tile_id_at(self, row: int) -> str:
        """Returns the `tile_id` of a row."""
        ids = self._tile_ids()
        self._check_row(row)
        return ids[row]

    def close(self) -> None:
        """Closes the file; the next use opens it again."""
        super().close()
        self._ids = None

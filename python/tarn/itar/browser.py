"""BrowserWrapper: the images of a dataset with their labels, page by page, and a selection that
can be exported to JSON and imported again. It does not draw anything on a screen."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .encoders import is_image

if TYPE_CHECKING:
    from .dataset import iTarDataset

__all__ = ["BrowserWrapper"]

Item = tuple[Any, Any, dict[str, Any]]


class BrowserWrapper:
    """A sequence of (image, label, meta) over a dataset, as returned by `iTarDataset.browse`.

    The label is the value in labeldict for the field lab_ext. Without a labeldict it is the field
    itself, and it is None if the dataset has no such field. meta has idx, the number of the sample
    in file order, and stem and fid if the dataset has those pseudo extensions. Transforms and
    groupings of the dataset are ignored. Its order is used: item i is the sample at position i.
    """

    def __init__(self, dataset: iTarDataset, img_ext: str = "jpg", lab_ext: str = "cls",
                 labeldict: Mapping[Any, Any] | None = None, page_size: int = 24, cols: int = 6,
                 width: int = 128) -> None:
        names = dataset.extensions
        if not is_image(img_ext.rpartition(".")[2]):
            raise ValueError(f"{img_ext!r} is not an image extension")
        if img_ext not in names:
            raise ValueError(f"{img_ext!r} is not among the dataset's extensions: "
                             + ", ".join(names))
        if page_size < 1 or cols < 1 or width < 1:
            raise ValueError("page_size, cols and width must be positive")
        self.dataset, self.labeldict = dataset, labeldict
        self.page_size, self.cols, self.width = page_size, cols, width
        self.selected: set[str] = set()
        self._image = names.index(img_ext)
        self._label = names.index(lab_ext) if lab_ext in names else None
        self._stem = next((at for at, name in enumerate(names) if name in ("_stem", "_name")), None)
        self._fid = names.index("_fid") if "_fid" in names else None
        self._reader: Any = None
        self._of: Any = None  # the dataset's reader from which _reader was made

    def _plain(self) -> Any:
        current = self.dataset._follow()
        if current is not self._of:
            self._reader = self.dataset._make_reader(self.dataset._handle, plain=True)
            self._of = current
        return self._reader

    def _numbers(self) -> list[int]:
        """Returns the sample number at each position."""
        reader = self._plain()
        return memoryview(reader._handle.sequence(0, len(reader))).tolist()

    def __len__(self) -> int:
        return len(self._plain())

    def __getitem__(self, position: int) -> Item:
        reader = self._plain()
        if position < 0:
            position += len(reader)
        if position < 0:
            raise IndexError(f"position {position - len(reader)} is out of range for {len(reader)}")
        fields = reader[position]
        meta: dict[str, Any] = {"idx": memoryview(reader._handle.sequence(position, 1))[0]}
        if self._stem is not None:
            meta["stem"] = fields[self._stem]
        if self._fid is not None:
            meta["fid"] = fields[self._fid]
        return fields[self._image], self._label_of(fields), meta

    def _label_of(self, fields: tuple[Any, ...]) -> Any:
        if self._label is None:
            return None
        label = fields[self._label]
        return label if self.labeldict is None else self.labeldict.get(label)

    def __iter__(self) -> Iterator[Item]:
        for position in range(len(self)):
            yield self[position]

    @property
    def pages(self) -> int:
        """Number of pages; 1 if there is nothing to show."""
        return max(1, -(-len(self) // self.page_size))

    def page(self, number: int) -> list[Item]:
        """Returns the items of a page, counted from 0; raises IndexError after the last page."""
        if not 0 <= number < self.pages:
            raise IndexError(f"page {number} is out of range for {self.pages} pages")
        begin = number * self.page_size
        return [self[at] for at in range(begin, min(begin + self.page_size, len(self)))]

    # --- Selection ---

    def select(self, positions: Iterable[int], selected: bool = True) -> None:
        """Adds the samples at these positions to the selection, or removes them."""
        stems = self._plain()._handle.keys(list(positions))
        self.selected = self.selected | set(stems) if selected else self.selected - set(stems)

    def positions(self) -> list[int]:
        """Returns the positions of the selected samples, in the dataset's order."""
        stems = sorted(self.selected)
        wanted = {number for number in self.dataset._handle.lookup(stems) if number is not None}
        return [at for at, number in enumerate(self._numbers()) if number in wanted]

    def export_json(self) -> str:
        """Returns the selected stems in the format that `iTarDataset.filter_stems_by_json`
        reads."""
        return json.dumps(sorted(self.selected), indent=2, ensure_ascii=False)

    def import_json(self, text: str | bytes) -> tuple[int, int]:
        """Replaces the selection by the stems of a JSON list. Returns how many are in the dataset
        and how many are not."""
        names = json.loads(text)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("a selection must be a JSON list of strings")
        stems = [stem for stem in dict.fromkeys(name.strip() for name in names) if stem]
        there = {stem for stem, number in zip(stems, self.dataset._handle.lookup(stems))
                 if number is not None}
        self.selected = there
        return len(there), len(stems) - len(there)

"""Browser: images with their labels, page by page, and a selection that can be exported to JSON
and imported again. A notebook shows its first page, and `Browser.show` all of it."""

from __future__ import annotations

import base64
import html
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from .itar.utils import stripext
from .._browse import page_of_keys

if TYPE_CHECKING:
    from .._browse import Page, Sheet
    from .dataset import iTarDataset

__all__ = ["Browser", "BrowserWrapper", "browse_dataset"]

Item = tuple[Any, Any, dict[str, Any]]


class _Items(Protocol):
    def __len__(self) -> int: ...
    def __getitem__(self, position: int, /) -> Any: ...


class BrowserWrapper:
    """A sequence of (image, label, meta) over a dataset, with its order and its transforms.

    The label is the value in labeldict for the field lab_ext, or the field itself if labeldict does
    not have it. It is None if the dataset has no such field. meta has idx, the position of the
    sample or, if the dataset has the extension `_idx`, the number of the sample, and stem and fid
    if the dataset has those pseudo extensions.
    """

    def __init__(self, dataset: iTarDataset, img_ext: str = "jpg", lab_ext: str = "cls",
                 labeldict: Mapping[Any, Any] | None = None) -> None:
        from .encoders import PIL

        names = dataset.extensions
        self.dataset, self.labeldict = dataset, labeldict
        self.img_ext, self.lab_ext = (stripext(name).lower() for name in (img_ext, lab_ext))
        images = sorted(stripext(name) for name in PIL.decoder().supported_extensions or ())
        if self.img_ext not in images:
            raise ValueError(f"Invalid image extension {self.img_ext}. Valid PIL extensions are: "
                             + ", ".join(images))
        if self.img_ext not in names:
            raise ValueError(f"No current extensions {self.img_ext}. Valid current extensions are: "
                             + ", ".join(names))
        self._image = names.index(self.img_ext)
        self._label = self._find(self.lab_ext)
        stem = self._find("_stem")
        self._meta = {"stem": self._find("_name") if stem is None else stem,
                      "idx": self._find("_idx"), "fid": self._find("_fid")}

    def _find(self, name: str) -> int | None:
        names = self.dataset.extensions
        return names.index(name) if name in names else None

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, i: int) -> Item:
        fields = self.dataset[i]
        label = None if self._label is None else fields[self._label]
        if self._label is not None and self.labeldict is not None:
            label = self.labeldict.get(label, label)
        meta = {"idx": i}
        meta.update((name, fields[at]) for name, at in self._meta.items() if at is not None)
        return fields[self._image], label, meta


def _parsed(item: Any) -> Item:
    """Returns the parts of an item: an image, or a tuple (image, label, stem or meta, idx, fid)."""
    if not isinstance(item, tuple):
        return item, None, {}
    if not item:
        raise ValueError("an item must have at least one element, its image")
    image, label, third, *others = (*item, None, None)[:max(len(item), 3)]
    meta: dict[str, Any] = {}
    if len(item) > 2:
        meta = dict(third) if isinstance(third, Mapping) else {"stem": third}
    for name, value in zip(("idx", "fid"), others):
        meta.setdefault(name, value)
    return image, label, meta


class Browser:
    """Pages over a sequence of images, or of tuples (image, label, stem or dict of meta data).

    page_size: images in a page. cols, width: how a notebook shows them. selected: the stems of the
    selected items.
    """

    def __init__(self, items: _Items, page_size: int = 24, cols: int = 6,
                 width: int = 128) -> None:
        if page_size < 1 or cols < 1 or width < 1:
            raise ValueError("page_size, cols and width must be positive")
        self.items = items
        self.page_size, self.cols, self.width = page_size, cols, width
        self.selected: set[str] = set()

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, position: int) -> Item:
        count = len(self)
        if not -count <= position < count:
            raise IndexError(f"position {position} is out of range for {count}")
        position %= count
        image, label, meta = _parsed(self.items[position])
        if not _is_picture(image):
            raise TypeError(f"item {position} must begin with a PIL image, not "
                            f"{type(image).__name__}")
        meta.setdefault("idx", position)
        return image, label, meta

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

    def _stems(self) -> list[str]:
        """Returns the stem at each position, without reading images if this is a dataset."""
        dataset = getattr(self.items, "dataset", None)
        if dataset is not None and hasattr(dataset, "_follow"):
            reader = dataset._follow()
            return list(reader._handle.keys(range(len(reader))))
        stems = (meta.get("stem") for _, _, meta in self)
        return ["" if stem is None else str(stem) for stem in stems]

    def select(self, positions: Iterable[int], selected: bool = True) -> None:
        """Adds the samples at these positions to the selection, or removes them."""
        known = self._stems()
        stems = {known[position] for position in positions} - {""}
        self.selected = self.selected | stems if selected else self.selected - stems

    def positions(self) -> list[int]:
        """Returns the positions of the selected samples, in the order of the items."""
        return [at for at, stem in enumerate(self._stems()) if stem in self.selected]

    def export_json(self) -> str:
        """Returns the selected stems in the format that `iTarDataset.filter_stems_by_json`
        reads."""
        return json.dumps(sorted(self.selected), indent=2, ensure_ascii=False)

    def import_json(self, text: str | bytes) -> tuple[int, int]:
        """Replaces the selection by the stems of a JSON list. Returns how many are among the items
        and how many are not."""
        names = json.loads(text)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("a selection must be a JSON list of strings")
        stems = {name.strip() for name in names} - {""}
        there = stems & set(self._stems())
        self.selected = there
        return len(there), len(stems) - len(there)

    # --- Notebooks ---

    def show(self, *, serve: bool = True) -> Page | Sheet:
        """Returns the page of `tarn browse` about the items, if they are those of a dataset: with
        search, all fields, filters and a selection. serve=False returns a contact sheet."""
        dataset = getattr(self.items, "dataset", None)
        if dataset is None or not hasattr(dataset, "_follow"):
            raise TypeError("show: only the items of an iTarDataset can be shown as a page")
        return page_of_keys(dataset._index_path, self._stems(), serve, self.page_size)

    def _repr_html_(self) -> str:
        """Returns the first page."""
        cells = "".join(f"<div>{_picture(image, self.width)}<br>"
                        f"{'' if label is None else html.escape(str(label))}</div>"
                        for image, label, _ in self.page(0))
        shown = min(self.page_size, len(self))
        return (f'<div style="display:grid;grid-template-columns:repeat({self.cols},max-content);'
                f'gap:8px">{cells}</div><div>{shown:,} of {len(self):,}</div>')


def _is_picture(image: Any) -> bool:
    import PIL.Image

    return isinstance(image, PIL.Image.Image)


def _picture(image: Any, width: int) -> str:
    small = image.copy()
    small.thumbnail((width, width))
    out = io.BytesIO()
    small.save(out, format="PNG")
    return f'<img src="data:image/png;base64,{base64.b64encode(out.getvalue()).decode()}">'


def browse_dataset(items: _Items, page_size: int = 24, cols: int = 6,
                   width: int = 128) -> Browser:
    """Returns a browser of a sequence whose items are images, or tuples (image, label, ...). A
    notebook shows its first page. Raises TypeError if an item of that page has no image."""
    browser = Browser(items, page_size, cols, width)
    browser.page(0)
    return browser

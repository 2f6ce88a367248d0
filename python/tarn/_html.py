"""The HTML view of a dataset in notebooks: counts, fields with their sizes, some images."""

from __future__ import annotations

import base64
import html
from typing import TYPE_CHECKING, Any

from . import _tarn
from .errors import Error
from ._reading import IMAGES, extension

if TYPE_CHECKING:
    from ._dataset import Dataset

PICTURES = 8
SIDE = 96
FIELDS = 50
MEASURED = 1_000_000  # samples whose sizes are added up


def size_text(count: float) -> str:
    """
    >>> size_text(999), size_text(1536), size_text(5 * 1024**3)
    ('999 B', '1.5 KiB', '5.0 GiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if count < 1024 or unit == "TiB":
            break
        count /= 1024
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"


def _field_row(dataset: Dataset, field: str) -> str:
    total = mean = ""
    handle = dataset._handle
    if len(handle) and len(handle) <= MEASURED:
        try:
            sizes = memoryview(handle.sizes(field))
            total = size_text(sum(sizes))
            mean = size_text(sum(sizes) / len(sizes))
        except Error:  # not every sample has it
            total = "in some samples"
    return f"<tr><td>{html.escape(field)}</td><td>{total}</td><td>{mean}</td></tr>"


def _pictures(dataset: Dataset) -> str:
    fields = [name for name in dataset._handle.fields() if extension(name) in IMAGES]
    out = []
    for index in range(min(PICTURES, len(dataset)) if fields else 0):
        key = dataset._handle.keys([index])[0]
        try:
            data = dataset._handle.read_batch([index], (fields[0],), None).data
            small = base64.b64encode(_tarn.thumbnail(data, SIDE)).decode()
        except Error:
            continue
        out.append(f'<img title="{html.escape(key)}" src="data:image/jpeg;base64,{small}">')
    return f"<div>{''.join(out)}</div>" if out else ""


def dataset_html(dataset: Dataset) -> str:
    """Returns the HTML of a dataset. Names come from files and are escaped."""
    info: dict[str, Any] = dataset.info
    files = f", {info['shards']} file" + "s" * (info["shards"] != 1)
    of_all = f" of {info['in_file']:,}" if info["in_file"] != len(dataset) else ""
    names = dataset._handle.fields()
    rows = "".join(_field_row(dataset, name) for name in names[:FIELDS])
    if len(names) > FIELDS:
        rows += f"<tr><td>and {len(names) - FIELDS} more</td><td></td><td></td></tr>"
    return (f"<div><b>tarn.Dataset</b> {html.escape(dataset._recipe.name())}: "
            f"{len(dataset):,}{of_all} samples{files}"
            "<table><tr><th>field</th><th>bytes</th><th>mean</th></tr>"
            f"{rows}</table>{_pictures(dataset)}</div>")

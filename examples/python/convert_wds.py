"""Turns WebDataset shards, here or at any URL, into a dataset with an index.

  convert_wds.py 'shards/x-{000000..000003}.tar' FOLDER [FOLD]

Only samples that have a picture and a label are taken. Keys of WebDataset may have folders in
them; those of a dataset have none, so slashes become dashes.
"""
import sys
from collections.abc import Iterator
from typing import Any

import tarn
import tarn.wds as wds


def samples(urls: str) -> Iterator[dict[str, Any]]:
    stream = wds.WebDataset(urls, shardshuffle=False, handler=wds.warn_and_continue)
    for sample in stream.rename(jpg="jpg;jpeg;png", handler=wds.ignore_and_continue):
        if "cls" in sample:
            sample["__key__"] = sample["__key__"].replace("/", "-")
            yield sample


def main(urls: str, folder: str, fold: str = "train") -> None:
    with tarn.DatasetWriter(folder, fold, progress=sys.stderr.isatty()) as out:
        out.write_many(samples(urls))
    print(f"{folder}:{fold}: {out.written.samples} samples in {out.written.shards} shards")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(*sys.argv[1:])

"""Converts WebDataset shards, local or at any URL, into a dataset with an index.

  convert_wds.py ['shards/x-{000000..000003}.tar' FOLDER [FOLD]]

Without arguments it makes some shards first, in a scratch folder. Only samples with a picture and a label are used.
Keys of WebDataset may contain folders; keys of a dataset may not, so slashes become dashes.
"""
import sys
import tempfile
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


def demo(scratch: str) -> None:
    with wds.ShardWriter(scratch + "/x-%06d.tar", maxcount=40, verbose=0) as sink:
        for i in range(100):
            sink.write({"__key__": f"some/folder/{i:03d}", "jpeg": b"a picture", "cls": i % 10})
    main(scratch + "/x-{000000..000002}.tar", scratch + "/dataset")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(*sys.argv[1:])
    else:
        with tempfile.TemporaryDirectory() as folder:
            demo(folder)

#!/usr/bin/env python3
"""img2dataset 1.47: its writer of WebDataset shards, unchanged, writes the same samples and tables with tarn.wds
and with webdataset."""
import json
import pathlib
import tarfile

import peer

peer.needs("webdataset", "fsspec", "numpy", "pyarrow.parquet")

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
import tarn  # noqa: E402
import tarn.wds  # noqa: E402
import webdataset  # noqa: E402

# The rest of img2dataset needs albumentations, OpenCV and wandb.
PACKAGES = (webdataset, tarn.wds)
WRITERS = [peer.imported("img2dataset.writer", package, ["img2dataset"]) for package in PACKAGES]
SCHEMA = pa.schema([pa.field("key", pa.string()), pa.field("caption", pa.string()), pa.field("status", pa.string()),
                    pa.field("width", pa.int32()), pa.field("face_bboxes", pa.list_(pa.float32()))])


def samples():
    """An image, one without a caption, one that could not be downloaded, and 120 more: the table is written in
    parts of 100 rows."""
    yield b"\xff\xd8picture", "000000000", "a caption, ä 漢", {"width": 4, "face_bboxes": np.array([0.5, 1])}
    yield b"", "000000001", None, {"width": 0, "face_bboxes": None}
    yield None, "000000002", "missing", {"width": None, "face_bboxes": None}
    for number in range(3, 123):
        yield bytes([number]) * number * 9, f"{number:09}", f"caption {number}", {"width": number, "face_bboxes": [1]}


def write(module, folder, **options):
    writer = module.WebDatasetSampleWriter(**{**dict(
        shard_id=7, output_folder=str(folder), save_caption=True, oom_shard_count=5, schema=SCHEMA,
        encode_format="jpg"), **options})
    for image, key, caption, meta in samples():
        status = "success" if image is not None else "failed_to_download"
        writer.write(image, key, caption, {"key": key, "caption": caption, "status": status, **meta})
    writer.close()


def members(path):
    """All of an archive except the time."""
    with tarfile.open(path) as archive:
        return [(m.name, m.size, m.mode, m.uid, m.gid, m.uname, m.gname, m.type, archive.extractfile(m).read())
                for m in archive]


def written(**options):
    """The folders that both packages wrote: (theirs, ours)."""
    with peer.folder() as name:
        folders = [pathlib.Path(name) / package.__name__ for package in PACKAGES]
        for module, folder in zip(WRITERS, folders):
            folder.mkdir()
            write(module, folder, **options)
        yield folders


def each_module_uses_its_package(_):
    assert [module.wds for module in WRITERS] == list(PACKAGES)


def members_and_their_bytes_are_the_same(_):
    for options in ({}, {"save_caption": False}, {"encode_format": "webp"}):
        for theirs, ours in written(**options):
            assert sorted(p.name for p in ours.iterdir()) == ["00007.parquet", "00007.tar"]
            assert members(ours / "00007.tar") == members(theirs / "00007.tar") != []


def tables_are_the_same(_):
    for theirs, ours in written():
        table = pq.read_table(ours / "00007.parquet")
        assert table.equals(pq.read_table(theirs / "00007.parquet")) and table.num_rows == 123


def both_packages_read_what_both_wrote(_):
    for folders in written():
        read = []
        for folder in folders:
            for package in PACKAGES:
                data = package.WebDataset(str(folder / "00007.tar"), shardshuffle=False).decode()
                read.append([{k: sample[k] for k in ("__key__", "jpg", "txt", "json")} for sample in data])
        assert read[0] == read[1] == read[2] == read[3] and len(read[0]) == 122


def shards_can_be_indexed(_):
    for _, ours in written():
        assert tarn._tarn.main(["tarn", "index", "-q", str(ours)]) == 0
        ds = tarn.open(str(ours), decode=False)
        assert len(ds) == 122 and ds[0]["jpg"] == b"\xff\xd8picture"
        assert json.loads(bytes(ds[0]["json"]))["face_bboxes"] == [0.5, 1]


peer.run(each_module_uses_its_package, members_and_their_bytes_are_the_same, tables_are_the_same,
         both_packages_read_what_both_wrote, shards_can_be_indexed)

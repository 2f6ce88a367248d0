#!/usr/bin/env python3
"""open_clip 3.3: its pipelines for training and validation, unchanged, with tarn.wds in place of webdataset.
They were written for webdataset 0.2.86 and fail with 1.0, which yields an empty dict after each shard."""
import io
import pathlib
import sys
import tarfile
import tempfile
import types

import peer

peer.needs("torch", "pandas", "braceexpand", "open_clip_train")

import PIL.Image  # noqa: E402
import tarn.wds  # noqa: E402

# Only the readers of other formats need torchvision.
sys.modules["torchvision"] = types.ModuleType("torchvision")
sys.modules["torchvision.datasets"] = sys.modules["torchvision"].datasets = types.ModuleType("torchvision.datasets")

open_clip = peer.imported("open_clip_train.data", tarn.wds)

SHARDS, EACH = 4, 6


def write_shards(folder):
    """Shards of pictures of one colour with their captions; two samples are incomplete, one is damaged."""
    for shard in range(SHARDS):
        with tarfile.open(folder / f"{shard:05}.tar", "w", format=tarfile.USTAR_FORMAT) as out:
            for i in range(EACH):
                picture, number = io.BytesIO(), shard * EACH + i
                PIL.Image.new("RGB", (4, 4), (number, 0, 0)).save(picture, "PNG")
                fields = [("png", picture.getvalue()), ("txt", f"caption {number}".encode())]
                if number in (3, 10):
                    fields = fields[1:]
                if number == 17:
                    fields[0] = ("png", b"no picture")
                for field, data in fields:
                    info = tarfile.TarInfo(f"{number:09}.{field}")
                    info.size = len(data)
                    out.addfile(info, io.BytesIO(data))


def options(shards, **more):
    return types.SimpleNamespace(**{**dict(
        train_data=shards, val_data=shards, train_num_samples=SHARDS * EACH, val_num_samples=0, seed=1,
        dataset_resampled=False, train_data_upsampling_factors=None, batch_size=3, workers=0, world_size=1), **more})


def epoch(train, number=0, **more):
    """[(colour, number in the caption)] of an epoch."""
    with tempfile.TemporaryDirectory() as name:
        write_shards(pathlib.Path(name))
        shards = name + "/{00000..%05d}.tar" % (SHARDS - 1)
        data = open_clip.get_wds_dataset(
            options(shards, **more), lambda image: image.getpixel((0, 0))[0], train, epoch=number,
            tokenizer=lambda text: [int(text.split()[1])])
        data.set_epoch(number)
        return [pair for images, texts in data.dataloader for pair in zip(images.tolist(), texts.tolist())]


WHOLE = sorted(set(range(SHARDS * EACH)) - {3, 10, 17})


def validation_reads_every_whole_sample_in_order(_):
    assert epoch(False) == [(n, n) for n in WHOLE]


def training_reads_every_whole_sample(_):
    seen = epoch(True)
    assert all(colour == caption for colour, caption in seen)
    assert {caption for _, caption in seen} == set(WHOLE) and len(seen) == SHARDS * EACH, seen


def the_order_of_shards_is_that_of_the_epoch(_):
    open_clip._SAMPLE_SHUFFLE_SIZE = open_clip._SAMPLE_SHUFFLE_INITIAL = 1
    first, again, second = epoch(True), epoch(True), epoch(True, 1)
    assert first == again != second and sorted(set(first)) == sorted(set(second))


def resampled_training_with_workers_reads_whole_samples(_):
    seen = epoch(True, dataset_resampled=True, workers=2)
    assert all(colour == caption and caption in WHOLE for colour, caption in seen), seen
    assert len(seen) == SHARDS * EACH, len(seen)


peer.run(validation_reads_every_whole_sample_in_order, training_reads_every_whole_sample,
         the_order_of_shards_is_that_of_the_epoch, resampled_training_with_workers_reads_whole_samples)

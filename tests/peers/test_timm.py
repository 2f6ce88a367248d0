#!/usr/bin/env python3
"""timm 1.0: ReaderWds, unchanged, returns the same samples in the same order with tarn.wds and with webdataset:
for training and validation, and for each epoch, rank, number of workers and seed."""
import contextlib
import io
import json
import logging
import pathlib
import tarfile

import peer

peer.needs("torch", "torch.testing._internal.distributed.fake_pg", "webdataset", "yaml", "PIL.Image")

import PIL.Image  # noqa: E402
import tarn.wds  # noqa: E402
import torch  # noqa: E402
import webdataset  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402

# The rest of timm needs torchvision.
BARE = ("timm", "timm.data", "timm.utils")
PACKAGES = (webdataset, tarn.wds)
READERS = [peer.imported("timm.data.readers.reader_wds", package, BARE) for package in PACKAGES]
from timm.data.dataset import IterableImageDataset  # noqa: E402

logging.disable(logging.WARNING)  # timm warns about each sample that it leaves out
SHARDS, EACH = 6, 5
NO_IMAGE, NO_PICTURE, NO_CLASS, WITHOUT_LABEL = 3, 11, 17, 22


def fields(number):
    picture = io.BytesIO()
    PIL.Image.new("RGB", (4, 4), (number, 9, 9)).save(picture, "PNG")
    found = {"png": picture.getvalue(), "cls": str(number % 7).encode(),
             "json": json.dumps({"label": -1 if number == WITHOUT_LABEL else number * 2,
                                 "filename": f"{number}.png"}).encode()}
    if number == NO_PICTURE:
        found["png"] = b"no picture"
    found.pop({NO_IMAGE: "png", NO_CLASS: "cls"}.get(number), None)
    return found


def write_shards(folder):
    names = [f"shard-{shard}.tar" for shard in range(SHARDS)]
    for shard, name in enumerate(names):
        with tarfile.open(folder / name, "w", format=tarfile.USTAR_FORMAT) as out:
            for number in range(shard * EACH, shard * EACH + EACH):
                for field, data in fields(number).items():
                    info = tarfile.TarInfo(f"{number:04}.{field}")
                    info.size = len(data)
                    out.addfile(info, io.BytesIO(data))
    split = {"name": "train", "num_samples": SHARDS * EACH, "filenames": names, "shard_lengths": [EACH] * SHARDS}
    (folder / "_info.json").write_text(json.dumps({"splits": {"train": split}}))


@contextlib.contextmanager
def rank(number, world):
    """The process is one rank of several, with collectives that do nothing."""
    if world > 1:
        torch.distributed.init_process_group("fake", rank=number, world_size=world, store=FakeStore())
    try:
        yield
    finally:
        if world > 1:
            torch.distributed.destroy_process_group()


def pixel(image):
    return image.getpixel((0, 0))


def epochs(module, folder, workers, count=2, persistent=False, **options):
    """What the reader yields in each epoch: [(pixel, target)]."""
    reader = module.ReaderWds(folder, **options)
    data = IterableImageDataset(folder, reader=reader, transform=pixel)
    data.set_loader_cfg(num_workers=workers)
    loader = torch.utils.data.DataLoader(
        data, batch_size=None, num_workers=workers, persistent_workers=persistent,
        generator=torch.Generator().manual_seed(5))
    seen = [len(data)]
    for epoch in range(count):
        data.set_epoch(epoch)
        seen.append([(tuple(colour), target) for colour, target in loader])
    return seen


def same(**options):
    """What both packages yield, if it is the same."""
    with peer.folder() as name:
        write_shards(pathlib.Path(name))
        theirs, ours = (epochs(module, name, **options) for module in READERS)
    assert ours == theirs, f"{options}:\n{ours}\n{theirs}"
    return ours


def numbers(seen):
    return [colour[0] for colour, _ in seen]


WHOLE = [n for n in range(SHARDS * EACH) if n not in (NO_IMAGE, NO_PICTURE, NO_CLASS)]


def each_module_uses_its_package(_):
    assert [module.wds for module in READERS] == list(PACKAGES)
    assert READERS[1].tar_file_expander is tarn.wds.tariterators.tar_file_expander


def validation_is_the_same(_):
    assert numbers(same(workers=0)[1]) == WHOLE
    assert sorted(numbers(same(workers=2)[1])) == WHOLE
    assert numbers(same(workers=0, split="shard-{1..2}.tar|10")[1]) == [n for n in WHOLE if 5 <= n < 15]


def a_missing_shard_is_left_out(_):
    assert numbers(same(workers=0, split="shard-{4..7}.tar|20")[1]) == [n for n in WHOLE if n >= 20]


def training_is_the_same_for_each_number_of_workers_and_seed(_):
    orders = []
    for seed in (42, 43):
        for workers in (0, 2):
            _, first, second = same(workers=workers, seed=seed, is_training=True, batch_size=5)
            assert first != second and set(numbers(first)) <= set(WHOLE), (first, second)
            orders.append(numbers(first))
    assert len({tuple(order) for order in orders}) == 4, orders


def a_small_buffer_of_samples_is_the_same(_):
    for workers in (0, 2):
        same(workers=workers, is_training=True, sample_shuffle_size=4, sample_initial_size=2)


def each_rank_is_the_same(_):
    for is_training in (False, True):
        for workers in (0, 2):
            parts = []
            for number in range(2):
                with rank(number, 2):
                    parts.append(same(workers=workers, is_training=is_training, batch_size=3))
            assert parts[0][1] != parts[1][1], parts


def workers_that_remain_between_epochs_are_the_same(_):
    _, first, second, third = same(workers=2, persistent=True, count=3, is_training=True)
    assert len({tuple(first), tuple(second), tuple(third)}) == 3


def targets_from_json_and_a_map_of_classes_are_the_same(_):
    seen = same(workers=0, target_key="label")[1]
    assert seen == [((n, 9, 9), n * 2) for n in range(SHARDS * EACH)
                    if n not in (NO_IMAGE, NO_PICTURE, WITHOUT_LABEL)]
    mapped = same(workers=0, class_map={number: number + 100 for number in range(7)})[1]
    assert [target for _, target in mapped] == [n % 7 + 100 for n in WHOLE]


def a_target_that_no_sample_has_is_the_same_error(_):
    errors = []
    with peer.folder() as name:
        write_shards(pathlib.Path(name))
        for module in READERS:
            try:
                epochs(module, name, 0, target_key="labl")
            except module.WdsTargetKeyError as error:
                errors.append(str(error))
    assert len(errors) == 2 and errors[0] == errors[1], errors


def names_of_files_are_the_same(_):
    with peer.folder() as name:
        write_shards(pathlib.Path(name))
        theirs, ours = (module.ReaderWds(name).filenames() for module in READERS)
    assert ours == theirs == [f"{n:04}.JPEG" for n in WHOLE], ours


def resampled_shards_are_the_same(_):
    lists = []
    for module in READERS:
        shards = module.ResampledShards2("x-{0..5}.tar", nshards=20, epoch=3, worker_seed=lambda: 8)
        lists.append([list(shards), list(shards)])
    assert lists[0] == lists[1] and lists[0][0] != lists[0][1], lists


peer.run(each_module_uses_its_package, validation_is_the_same, a_missing_shard_is_left_out,
         training_is_the_same_for_each_number_of_workers_and_seed, a_small_buffer_of_samples_is_the_same,
         each_rank_is_the_same, workers_that_remain_between_epochs_are_the_same,
         targets_from_json_and_a_map_of_classes_are_the_same, a_target_that_no_sample_has_is_the_same_error,
         names_of_files_are_the_same, resampled_shards_are_the_same)

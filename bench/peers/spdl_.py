"""SPDL: a pipeline of functions on threads, with FFmpeg's decoders."""
import json
import mmap
import random

import numpy as np
import spdl.io
import spdl.pipeline

from . import base, images

BUFFER = 1000


def mapped(path):
    with open(path, "rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def pairs(folder, rng):
    """Pairs of jpg and json from shards in random order, without copies, by way of a shuffle buffer."""
    paths = base.shards(folder)
    rng.shuffle(paths)
    held = []
    for path in paths:
        members = (view for _, view in spdl.io.iter_tarfile(mapped(path)))
        for pair in zip(members, members):
            if len(held) < BUFFER:
                held.append(pair)
                continue
            place = rng.randrange(BUFFER)
            yield held[place]
            held[place] = pair
    rng.shuffle(held)
    yield from held


def decode(batch):
    sources = [np.frombuffer(jpg, np.uint8) for jpg, _ in batch]
    pixels = spdl.io.load_image_batch(sources, width=None, height=None, filter_desc=SCALE, demux_config=FORMAT)
    return spdl.io.to_numpy(pixels), [json.loads(bytes(text))["label"] for _, text in batch]


SCALE = spdl.io.get_video_filter_desc(scale_width=images.SIDE, scale_height=images.SIDE, scale_mode=None,
                                      scale_algo="bilinear", pix_fmt="rgb24")
FORMAT = spdl.io.demux_config(format="jpeg_pipe")  # also loads FFmpeg, so that the reason is known if it is missing


class Peer(base.Peer):
    package = "spdl-io"
    kinds = ("d2",)
    reads = "tarn"
    settings = ("A `Pipeline` with two threads: the same plain ustar shards as tarn, mapped, in random order and read with "
                "`iter_tarfile`, a shuffle buffer of 1,000 samples without copies, then whole batches decoded and scaled "
                "bilinearly by `load_image_batch`, two at a time.")
    lacks = {"random": "no random access", "batches": "no random access", "sequential": "reads whole archives",
             "resume": "no state", "write": "writes no datasets", "verify": "no checksums"}

    def epoch(self, folder, data, batch, workers):
        return Epochs(folder, batch, workers)


class Epochs:
    def __init__(self, folder, batch, workers):
        self.folder, self.batch, self.workers = folder, batch, workers
        self.rng = random.Random(7)

    def __iter__(self):
        builder = spdl.pipeline.PipelineBuilder().add_source(pairs(self.folder, self.rng)).aggregate(self.batch)
        pipe = builder.pipe(decode, concurrency=self.workers).add_sink(3).build(num_threads=self.workers, max_failures=0)
        with pipe.auto_stop():
            yield from pipe

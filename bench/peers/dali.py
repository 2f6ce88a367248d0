"""DALI: a pipeline that reads tar shards, here without a GPU."""
import json

from nvidia.dali import fn, pipeline_def, types

from . import base, images


@pipeline_def
def pipeline(shards, antialias):
    jpg, text = fn.readers.webdataset(paths=shards, ext=["jpg", "json"], random_shuffle=True, initial_fill=1000,
                                      missing_component_behavior="error", name="shards")
    pixels = fn.decoders.image(jpg, device="cpu", output_type=types.RGB)
    return fn.resize(pixels, size=(images.SIDE, images.SIDE), interp_type=types.INTERP_LINEAR, antialias=antialias), text


class Peer(base.Peer):
    package = "nvidia-dali-cuda130"
    kinds = ("d2",)
    reads = "tarn"
    settings = ("A pipeline for the CPU with two threads: `readers.webdataset` with a shuffle buffer of 1,000 samples, "
                "`decoders.image`, and `resize` with linear interpolation and antialiasing, as in Pillow and tarn; also without "
                "antialiasing, which is less work. It reads the same plain ustar shards as tarn, and lists their members when the "
                "pipeline is built.")
    ways = {"epoch": ("antialiased", "not antialiased")}
    lacks = {"random": "no random access", "batches": "no random access", "sequential": "only pipelines of operators",
             "resume": "not examined", "write": "reads WebDataset's shards", "verify": "no checksums"}

    def epoch(self, folder, data, batch, workers):
        pipe = pipeline(base.shards(folder), self.way != "not antialiased", batch_size=batch, num_threads=workers, device_id=None,
                        seed=7)
        return Epochs(pipe, -(-data.samples // batch))


class Epochs:
    """The epochs of a pipeline; the last batch of an epoch is filled with samples of the next."""

    def __init__(self, pipe, steps):
        self.pipe, self.steps = pipe, steps
        self.pipe.build()

    def __iter__(self):
        for _ in range(self.steps):
            pixels, texts = self.pipe.run()
            labels = [json.loads(texts.at(i).tobytes())["label"] for i in range(len(texts))]
            yield pixels.as_array(), labels

"""The Python half of tests/tools/image_tool.c: images in, pixels out."""
import os
import pathlib
import struct
import subprocess

import numpy as np

from codec_tool import STATUS, Reader, Refused, packed

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOOL = pathlib.Path(os.environ.get("TARN", str(ROOT / "build/tarn"))).parent / "tests/image_tool"
EXACT, STRETCH, CENTRE, RANDOM = range(4)
TYPES = [np.uint8, np.float32, np.float16]
U8, F32, F16 = range(3)
HWC, CHW = range(2)
STEPS = {"width": 0, "height": 0, "channels": 3, "fit": STRETCH, "shorter": 0, "type": U8, "layout": HWC,
         "scale": (0.08, 1.0), "ratio": (3 / 4, 4 / 3), "flip": 0.0, "reduce": 1.0, "mean": (0.0,) * 4,
         "std": (1.0,) * 4}


def run(records):
    done = subprocess.run([TOOL], input=b"".join(records), stdout=subprocess.PIPE, check=True)
    return Reader(done.stdout)


def u64(*numbers):
    return struct.pack(f"<{len(numbers)}Q", *numbers)


def answer(reader, take):
    status = reader.take(1)[0]
    if status:
        return Refused(STATUS[status], take_bytes(reader).decode())
    return take(reader)


def take_u64(reader, count):
    return struct.unpack(f"<{count}Q", reader.take(8 * count))


def take_bytes(reader):
    return reader.take(take_u64(reader, 1)[0])


def probe_all(images):
    """(format, width, height, channels) of each."""
    reader = run([b"P" + packed(d) for d in images])
    return [answer(reader, lambda r: take_u64(r, 4)) for _ in images]


def take_image(reader):
    width, height, channels = take_u64(reader, 3)
    return np.frombuffer(take_bytes(reader), "u1").reshape(height, width, channels)


def decode_all(images, channels=0, least=(0, 0)):
    reader = run([b"D" + u64(channels, *least) + packed(d) for d in images])
    return [answer(reader, take_image) for _ in images]


def resize_all(cases, loops=9):
    """Cases of (array [h, w, c], (width, height), box)."""
    records = []
    for pixels, size, box in cases:
        height, width, channels = pixels.shape
        records.append(b"R" + u64(loops, width, height, channels) + packed(pixels.tobytes()) + u64(*size) +
                       struct.pack("<4f", *(box or (0, 0, width, height))))
    reader = run(records)
    return [answer(reader, lambda r, c=c: np.frombuffer(take_bytes(r), "u1")
                   .reshape(c[1][1], c[1][0], c[0].shape[2])) for c in cases]


def packed_steps(steps):
    s = {**STEPS, **steps}
    assert s.keys() == STEPS.keys()
    return (u64(*(s[k] for k in ("width", "height", "channels", "fit", "shorter", "type", "layout"))) +
            struct.pack("<14d", *s["scale"], *s["ratio"], s["flip"], s["reduce"],
                        *(tuple(s["mean"]) + (0.0,) * 4)[:4], *(tuple(s["std"]) + (1.0,) * 4)[:4]))


def run_masks(cases, **steps):
    """Cases of (seed, epoch, sample, labels [h, w])."""
    s = {**STEPS, **steps}
    records = [u64(*c[:3], c[3].shape[1], c[3].shape[0], c[3].itemsize) + packed(c[3].tobytes()) for c in cases]
    reader = run([b"M" + packed_steps(steps) + u64(len(cases))] + records)
    return [answer(reader, lambda r, c=c: np.frombuffer(take_bytes(r), c[3].dtype).reshape(s["height"], s["width"]))
            for c in cases]


def run_all(cases, upright=False, **steps):
    """Cases of (seed, epoch, sample, bytes)."""
    s = {**STEPS, **steps}
    shape = (s["height"], s["width"], s["channels"])
    if s["layout"] == CHW:
        shape = (shape[2], *shape[:2])
    reader = run([b"U" + u64(upright), b"S" + packed_steps(steps) + u64(len(cases))] + [u64(*c[:3]) + packed(c[3]) for c in cases])
    return [answer(reader, lambda r: np.frombuffer(take_bytes(r), TYPES[s["type"]]).reshape(shape)) for _ in cases]


def choose_all(cases, **steps):
    """Cases of (seed, epoch, sample, width, height); (left, top, width, height, flip) of each."""
    reader = run([b"C" + packed_steps(steps) + u64(len(cases))] + [u64(*c) for c in cases])
    return [answer(reader, lambda r: take_u64(r, 5)) for _ in cases]

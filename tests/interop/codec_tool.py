"""The Python half of tests/tools/codec_tool.c: values in, bytes out, and back."""
import os
import pathlib
import struct
import subprocess

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOOL = pathlib.Path(os.environ.get("TARN", str(ROOT / "build/tarn"))).parent / "tests/codec_tool"
BYTES, TEXT, JSON, INTEGER, REAL, ARRAY, ARRAYS = range(7)
STATUS = {2: "usage", 3: "memory", 4: "io", 5: "format", 6: "truncated", 7: "unsupported",
          8: "limit", 12: "checksum"}
DEFAULTS = {"jpeg_quality": 100, "subsampling": 0, "webp_quality": 80, "webp_lossless": 0,
            "png_level": 6, "gzip_level": 9, "zstd_level": 3, "npz_stored": 0}


class Refused(Exception):
    def __init__(self, status, text):
        super().__init__(f"{status}: {text}")
        self.status = status


class Json(str):
    """A JSON text, where str is plain text."""


def packed(data):
    return struct.pack("<Q", len(data)) + data


def packed_array(array, name=""):
    """The array's memory: the block that contains all its elements, and the strides."""
    low = sum(min(0, (n - 1) * s) for n, s in zip(array.shape, array.strides))
    high = sum(max(0, (n - 1) * s) for n, s in zip(array.shape, array.strides))
    if array.size:
        start = array.__array_interface__["data"][0] + low
        length = high - low + array.itemsize
        block = bytes((np.ctypeslib.ctypes.c_char * length).from_address(start)) if length else b""
        offset = -low
    else:
        block, offset = b"", 0
    return (packed(name.encode()) + packed(array.dtype.str.encode()) +
            struct.pack(f"<Q{array.ndim}Q{array.ndim}qQ", array.ndim, *array.shape, *array.strides,
                        offset) + packed(block))


def packed_value(value):
    if isinstance(value, bytes):
        return bytes([BYTES]) + packed(value)
    if isinstance(value, Json):
        return bytes([JSON]) + packed(value.encode())
    if isinstance(value, str):
        return bytes([TEXT]) + packed(value.encode())
    if isinstance(value, int):
        return bytes([INTEGER]) + struct.pack("<q", value)
    if isinstance(value, float):
        return bytes([REAL]) + struct.pack("<d", value)
    if isinstance(value, (np.ndarray, np.generic)):
        return bytes([ARRAY]) + struct.pack("<Q", 1) + packed_array(np.asanyarray(value))
    if isinstance(value, dict):
        items = [packed_array(a, n) for n, a in value.items()]
    else:
        items = [packed_array(a) for a in value]
    return bytes([ARRAYS]) + struct.pack("<Q", len(items)) + b"".join(items)


def run(records):
    done = subprocess.run([TOOL], input=b"".join(records), stdout=subprocess.PIPE, check=True)
    return done.stdout


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, size):
        self.at += size
        assert self.at <= len(self.data)
        return self.data[self.at - size:self.at]

    def number(self, form="<Q"):
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def bytes(self):
        return self.take(self.number())

    def array(self):
        name, kind = self.bytes().decode(), self.bytes().decode()
        shape = [self.number() for _ in range(self.number())]
        return name, np.frombuffer(self.bytes(), dtype=kind).reshape(shape)

    def value(self):
        kind = self.take(1)[0]
        if kind == INTEGER:
            return self.number("<q")
        if kind == REAL:
            return self.number("<d")
        if kind == ARRAY:
            assert self.number() == 1
            return self.array()[1]
        if kind == ARRAYS:
            items = [self.array() for _ in range(self.number())]
            return dict(items) if items and items[0][0] else [a for _, a in items]
        data = self.bytes()
        return data if kind == BYTES else data.decode() if kind == TEXT else Json(data.decode())

    def failure(self):
        status = self.take(1)[0]
        return Refused(STATUS[status], self.bytes().decode()) if status else None


def encode_all(cases, **options):
    """Bytes, or a Refused, for each (field, value)."""
    numbers = struct.pack("<8i", *{**DEFAULTS, **options}.values())
    out = Reader(run([b"E" + packed(f.encode()) + numbers + packed_value(v) for f, v in cases]))
    return [out.failure() or out.bytes() for _ in cases]


def decode_all(cases, channels=0, max_size=1 << 30, max_pixels=1 << 28):
    """A value, or a Refused, for each (field, bytes)."""
    limits = struct.pack("<3Q", channels, max_size, max_pixels)
    out = Reader(run([b"D" + packed(f.encode()) + limits + packed(d) for f, d in cases]))
    found = []
    for _ in cases:
        failure = out.failure()
        found.append(failure if failure else out.value())
    return found


def encode(field, value, **options):
    return encode_all([(field, value)], **options)[0]


def decode(field, data, **limits):
    return decode_all([(field, data)], **limits)[0]

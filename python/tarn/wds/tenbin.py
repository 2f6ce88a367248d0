"""The format of `.ten` fields: arrays as chunks of a magic number, a length, and bytes padded to a
multiple of 64. Each array is two chunks, a header (type, name, shape) and its values."""

from __future__ import annotations

import io
import math
import struct
import sys
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO

import numpy as np

long_to_short = {"float16": "f2", "float32": "f4", "float64": "f8", "int8": "i1", "int16": "i2",
                 "int32": "i4", "int64": "i8", "uint8": "u1", "uint16": "u2", "uint32": "u4",
                 "uint64": "u8"}
short_to_long = {short: long for long, short in long_to_short.items()}
magic_str = "~TenBin~"
magic_bytes = magic_str.encode("ascii")
_MAX_DIMENSIONS = 9


def str64(s: str) -> int:
    """Returns up to 8 ASCII characters as a number."""
    packed = s.encode("ascii")
    if len(packed) > 8:
        raise ValueError(f"{s!r}: a name has at most 8 characters")
    return int(struct.unpack("<q", packed.ljust(8, b"\0"))[0])


def unstr64(i: int) -> str:
    """Returns the characters in a number."""
    return struct.pack("<q", i).decode("ascii").strip("\0")


magic = str64(magic_str)


def roundup(n: int, k: int = 64) -> int:
    """Returns the next multiple of k."""
    return -(-n // k) * k


def bytelen(a: Any) -> int:
    """Returns the number of bytes of an array or of bytes."""
    return int(memoryview(a).nbytes)


def bytedata(a: Any) -> Any:
    """Returns the bytes of an array."""
    return a if isinstance(a, (bytes, bytearray, memoryview)) else a.data


def check_infos(data: Any, infos: Sequence[str], required_infos: Any = None) -> Any:
    """Returns the arrays, with their names for True; raises ValueError if the names are not the
    required ones."""
    if required_infos is False or required_infos is None:
        return data
    if required_infos is True:
        return data, infos
    if not isinstance(required_infos, (tuple, list)):
        raise ValueError("required_infos must be tuple or list")
    if list(required_infos) != list(infos):
        raise ValueError(f"actual info {infos} doesn't match required info {required_infos}")
    return data


def encode_header(a: Any, info: str = "") -> memoryview:
    """Returns the header of an array."""
    if a.ndim > _MAX_DIMENSIONS:
        raise ValueError(f"too many dimensions (found {a.ndim}, at most {_MAX_DIMENSIONS})")
    if a.dtype.name not in long_to_short:
        raise ValueError(f"unsupported array type {a.dtype}")
    words = [str64(long_to_short[a.dtype.name]), str64(info), a.ndim, *a.shape]
    return memoryview(struct.pack(f"<{len(words)}q", *words))


def decode_header(h: Any) -> tuple[tuple[int, ...], Any, str]:
    """Returns shape, type and name from a header."""
    if len(h) < 24 or len(h) % 8:
        raise ValueError(f"a tenbin header has at least 24 bytes (found {len(h)})")
    kind, info, rank, *shape = struct.unpack(f"<{len(h) // 8}q", h)
    name = struct.pack("<q", kind).strip(b"\0").decode("ascii", "replace")
    if name not in short_to_long:
        raise ValueError(f"unsupported array type {name!r}")
    if not 0 <= rank <= min(_MAX_DIMENSIONS, len(shape)) or any(n < 0 for n in shape[:rank]):
        raise ValueError(f"invalid shape in a tenbin header: {rank} dimensions {shape}")
    return tuple(shape[:rank]), np.dtype("<" + name), unstr64(info)


def encode_list(l: Sequence[Any], infos: Sequence[str] | None = None) -> list[Any]:
    """Returns the chunks of a list of arrays: header, values, header, values."""
    if infos is not None and len(infos) != len(l):
        raise ValueError(f"{len(l)} arrays must have as many infos (found {len(infos)})")
    chunks: list[Any] = []
    for number, array in enumerate(l):
        header = encode_header(array, infos[number] if infos else "")
        plain = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
        chunks += [header, memoryview(plain.tobytes())]
    return chunks


def decode_list(l: Sequence[Any], infos: Any = False) -> Any:
    """Returns the arrays of a list of chunks."""
    if len(l) % 2:
        raise ValueError("premature EOF: a tenbin header without its array")
    arrays, found = [], []
    for header, data in zip(l[::2], l[1::2]):
        shape, dtype, info = decode_header(header)
        if math.prod(shape) * dtype.itemsize > len(data):
            raise ValueError(f"a tenbin array {shape} of {dtype} needs more than the {len(data)} "
                             "bytes it has")
        arrays.append(np.frombuffer(data, dtype, math.prod(shape)).reshape(shape))
        found.append(info)
    return check_infos(arrays, found, infos)


def encode_chunks(l: Iterable[Any]) -> bytearray:
    """Returns chunks as bytes, each with magic number, length and padding."""
    out = io.BytesIO()
    for chunk in l:
        write_chunk(out, chunk)
    return bytearray(out.getbuffer())


def decode_chunks(buf: Any) -> list[Any]:
    """Returns the chunks in a buffer, without copying them."""
    view, chunks, at = memoryview(buf).cast("B"), [], 0
    while at < len(view):
        if view[at:at + 8] != magic_bytes:
            raise ValueError(f"magic bytes mismatch at byte {at}")
        size = int.from_bytes(view[at + 8:at + 16], "little", signed=True)
        if len(view) < at + 16 or not 0 <= size <= len(view) - at - 16:
            raise ValueError(f"the tenbin chunk at byte {at} has {size} bytes, but only "
                             f"{max(0, len(view) - at - 16)} remain")
        chunks.append(view[at + 16:at + 16 + size])
        at += 16 + roundup(size)
    return chunks


def encode_buffer(l: list[Any], infos: Sequence[str] | None = None) -> bytearray:
    """Returns a list of arrays as bytes.

    >>> decode_buffer(encode_buffer([np.arange(3)]))
    [array([0, 1, 2])]
    """
    if not isinstance(l, list):
        raise ValueError("requires list")
    return encode_chunks(encode_list(l, infos))


def decode_buffer(buf: Any, infos: Any = False) -> Any:
    """Returns the arrays in a buffer. infos: True also returns their names, and a list demands
    them."""
    return decode_list(decode_chunks(buf), infos)


def write_chunk(stream: BinaryIO, buf: Any) -> None:
    """Writes one chunk."""
    size = bytelen(buf)
    stream.write(magic_bytes + struct.pack("<q", size))
    stream.write(bytedata(buf))
    stream.write(bytes(roundup(size) - size))


def read_chunk(stream: BinaryIO) -> bytes | None:
    """Reads one chunk; None at the end."""
    start = stream.read(16)
    if not start:
        return None
    if start[:8] != magic_bytes:
        raise ValueError("magic number does not match")
    size = int.from_bytes(start[8:], "little", signed=True)
    if len(start) < 16 or size < 0:
        raise ValueError(f"invalid length of a tenbin chunk: {size}")
    data = stream.read(size)
    if len(data) < size:
        raise ValueError(f"premature EOF: a tenbin chunk has {len(data)} of {size} bytes")
    stream.read(roundup(size) - size)
    return data


def write(stream: BinaryIO, l: Sequence[Any], infos: Sequence[str] | None = None) -> None:
    """Writes a list of arrays to a file."""
    for chunk in encode_list(l, infos):
        write_chunk(stream, chunk)


def read(stream: BinaryIO, n: int = sys.maxsize, infos: Any = False) -> Any:
    """Reads up to n arrays from a file."""
    chunks: list[bytes] = []
    while len(chunks) < 2 * n:
        chunk = read_chunk(stream)
        if chunk is None:
            break
        chunks.append(chunk)
    return decode_list(chunks, infos)


def _check_name(fname: str, nocheck: bool) -> None:
    if not nocheck and not fname.endswith(".ten"):
        raise ValueError("file name should end in .ten")


def save(fname: str, *args: Any, infos: Sequence[str] | None = None,
         nocheck: bool = False) -> None:
    """Writes arrays to a .ten file."""
    _check_name(fname, nocheck)
    with open(fname, "wb") as stream:
        write(stream, args, infos)


def load(fname: str, infos: Any = False, nocheck: bool = False) -> Any:
    """Reads the arrays of a .ten file."""
    _check_name(fname, nocheck)
    with open(fname, "rb") as stream:
        return read(stream, infos=infos)

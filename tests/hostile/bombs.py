"""Files of at most 1 MiB that demand much: false counts and lengths, deep nesting, many small
items, and streams that expand."""
import bz2
import json
import lzma
import os
import random
import struct
import subprocess
import zlib

MOST = 1 << 20


def tar_header(name, size, kind=b"0", size_field=None):
    head = bytearray(512)
    head[:len(name)] = name
    head[100:108] = b"0000644\0"
    head[108:124] = b"0000000\0" * 2
    head[124:136] = size_field or b"%011o\0" % size
    head[136:148] = b"00000000000\0"
    head[148:156] = b" " * 8
    head[156:157] = kind
    head[257:265] = b"ustar\00000"
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head)


def pax(records):
    """An extended header with these bytes."""
    return tar_header(b"pax", len(records), b"x") + records + bytes(-len(records) % 512)


def tars():
    end = bytes(1024)
    yield "members.tar", b"".join(tar_header(b"%d.x" % i, 0) for i in range(2045)) + end
    yield "one-sample.tar", b"".join(tar_header(b"a.f%d" % i, 0) for i in range(2045)) + end
    yield "pax-records.tar", pax(b"10 a=bcde\n" * 100_000) + tar_header(b"a.x", 0) + end
    yield "pax-long.tar", pax(b"%d comment=" % 1_000_000 + b"c" * (1_000_000 - 17) + b"\n") + end
    yield "pax-claims.tar", tar_header(b"pax", 1 << 33, b"x", b"77777777777\0") + bytes(4096)
    yield "pax-size.tar", pax(b"28 size=1152921504606846975\n") + tar_header(b"a.x", 0) + end
    yield "base256.tar", tar_header(b"a.x", 0, size_field=b"\x80" + b"\xff" * 11) + end
    yield "base256-large.tar", tar_header(b"a.x", 0, size_field=b"\x80" + bytes(3) +
                                          b"\x0f" + b"\xff" * 7) + end
    yield "zeros.tar", bytes(MOST)
    yield "noise.tar", bytes((i * 7919 >> 3) & 255 for i in range(MOST))
    name = b"d/" * 30_000 + b"a.x"
    yield "deep-name.tar", tar_header(b"././@LongLink", len(name) + 1, b"L") + (
        name + b"\0").ljust(-(-len(name) // 512) * 512 + 512, b"\0")[:61_440] + \
        tar_header(b"a.x", 0) + end


def array_files():
    def gnz(header, length=None, rest=b""):
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        body = b"GNZ1" + struct.pack("<I", len(text) if length is None else length) + text
        return body.ljust(-(-len(body) // 4096) * 4096, b"\0") + rest

    array = {"offset": 1 << 20, "shape": [0], "dtype": "<f4"}
    yield "length.gnz", gnz({"version": 1}, 0xffffffff)
    yield "deep.gnz", gnz(b'{"version": 1, "metadata": ' + b'{"a":' * 180_000 + b"1")
    yield "lists.gnz", gnz(b'{"version": 1, "metadata": {"a": [' + b"[]," * 340_000 + b"[]]}}")
    yield "numbers.gnz", gnz(b'{"version": 1, "metadata": {"a": [' + b"1," * 500_000 + b"1]}}")
    yield "digits.gnz", gnz(b'{"version": 1, "metadata": {"a": ' + b"9" * 1_000_000 + b"}}")
    yield "escapes.gnz", gnz(b'{"version": 1, "metadata": {"a": "' + b"\\u0041" * 170_000 +
                             b'"}}')
    yield "keys.gnz", gnz({"version": 1, "metadata": {f"k{i}": 0 for i in range(70_000)}})
    yield "arrays.gnz", gnz({"version": 1, "arrays": {f"a{i}": array for i in range(14_000)}})
    huge = {"offset": 4096, "shape": [2**31] * 2, "dtype": "<f8"}
    yield "shape.gnz", gnz({"version": 1, "arrays": {"a": huge}}, rest=bytes(4096))
    many = {"offset": 4096, "shape": [1] * 64, "dtype": "<f8"}
    yield "dims.gnz", gnz({"version": 1, "arrays": {"a": many}}, rest=bytes(4096))


def iac(header, rest=b"", version=2):
    text = json.dumps(header).encode()
    front = b"IATROC\0" + bytes([version]) + struct.pack("<I", len(text))
    return (front + struct.pack("<I", version) + text).ljust(65536, b"\0") + rest


def packs():
    base = {"version": 2, "slide_table_offset": 65536, "slide_table_length": 8,
            "index_table_offset": 65544, "index_table_length": 8, "data_offset": 65552,
            "data_length": 0, "num_slides": 0, "num_records": 0}
    yield "claims.iac", iac({**base, "num_records": 2**62, "data_length": 2**62})
    yield "lengths.iac", iac({**base, "index_table_length": 2**63 - 1})
    yield "message.iac", iac(base, b"\xff\xff\xff\xff\xff\xff\xff\x7f" * 2)
    yield "zeros.iac", iac(base, bytes(900_000))


def tables():
    """IAC files whose index is a column of zeros."""
    import io

    import pyarrow as pa

    def stream(columns, compression):
        out = io.BytesIO()
        table = pa.table(columns)
        options = pa.ipc.IpcWriteOptions(compression=compression)
        with pa.ipc.new_stream(out, table.schema, options=options) as writer:
            writer.write_table(table)
        return out.getvalue()

    rows = 90_000
    for compression, width in (("zstd", 1600), ("lz4", 1600), ("zstd", 180)):
        zeros = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), rows,
                                                     [None, pa.py_buffer(bytes(rows * width))])
        index = stream({"offset": pa.array([0] * rows, pa.uint64()), "x": zeros,
                        "length": pa.array([0] * rows, pa.uint32())}, compression)
        slides = stream({"slide_id": ["a"]}, compression)
        header = {"version": 2, "slide_table_offset": 65536, "slide_table_length": len(slides),
                  "index_table_offset": 65536 + len(slides), "index_table_length": len(index),
                  "data_offset": 65536 + len(slides) + len(index), "data_length": 100_000,
                  "num_slides": 1, "num_records": rows}
        yield f"{compression}-{width}.iac", iac(header, slides + index + bytes(100_000))


def streams():
    """Zeros, which are not an archive, and members of zeros: compressed."""
    zeros = bytes(8 << 20)
    part = tar_header(b"zeros.bin", 8 << 20) + zeros
    for name, compress in (("gz", gzip), ("bz2", bz2.compress), ("xz", lzma.compress),
                           ("zst", zstd)):
        first, more = compress(part + bytes(1024)), compress(zeros)
        yield f"small.tar.{name}", first
        yield f"bomb.tar.{name}", compress(part) + more * min((MOST - len(first)) // len(more), 200)
    # As much as the limit of expansion allows, in the largest accepted window.
    noise = random.Random(1).randbytes(900_000 if "TARN_FULL" in os.environ else 200_000)
    begin = tar_header(b"a.bin", 2_000_000_000) + noise
    for name, compress in (("gz", gzip), ("bz2", bz2.compress)):
        first, more = compress(begin), compress(zeros)
        room = (MOST - len(first)) // len(more)
        yield f"long.tar.{name}", first + more * min(room, len(noise) * 1000 // len(zeros))
    for name, command in (("zst", ["zstd", "-q", "--long=27", "-c"]),
                          ("xz", ["xz", "-0", "--lzma2=preset=0,dict=64MiB", "-c"])):
        yield f"window.tar.{name}", subprocess.run(
            command, input=begin + bytes(len(noise) * 1000), capture_output=True,
            check=True).stdout


def gzip(data):
    made = zlib.compressobj(9, wbits=31)
    return made.compress(data) + made.flush()


def zstd(data):
    return subprocess.run(["zstd", "-q", "-19", "-c"], input=data, capture_output=True,
                          check=True).stdout

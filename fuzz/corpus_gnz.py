"""Seeds of the fuzz target for array files: valid and invalid headers, as Python writes them."""
import json
import pathlib
import struct

DATA = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data"
FIX_LENGTH, VERIFY_TOO, STATS_TOO = 16, 32, 64


def array_entry(offset, shape, dtype, **more):
    return dict({"offset": offset, "shape": shape, "dtype": dtype}, **more)


def array_file(header, pages=4, options=FIX_LENGTH | VERIFY_TOO | STATS_TOO):
    """The input of fuzz_gnz: the file's length in pages and how to use it, a zero, and the
    beginning of the file."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return bytes([pages | options, 0]) + b"GNZ1" + struct.pack("<I", len(text)) + text


def arrays(**entries):
    return {"arrays": entries, "metadata": {}, "version": 1}


def array_files():
    yield "empty", array_file({"version": 1}, pages=1)
    yield "plain", array_file(arrays(x=array_entry(4096, [3, 4], "<f4", order="C"),
                                     y=array_entry(8192, [3], ">i8")))
    for kind in "|b1 |i1 <u2 >i4 <u8 <f2 >f4 <f8 <c8 >c16 |S5 <U3 >U1 |S0".split():
        name = kind.translate({ord("|"): "n", ord("<"): "l", ord(">"): "b"})
        yield "type_" + name, array_file(arrays(x=array_entry(4096, [2, 7], kind)))
    yield "fortran", array_file(arrays(x=array_entry(4096, [5, 3, 2], "<i2", order="F")))
    yield "no_dimensions", array_file(arrays(x=array_entry(4096, [], "<f8")))
    yield "no_rows", array_file(arrays(x=array_entry(16384, [0, 5], "<f8"),
                                       y=array_entry(4096, [4096], "|u1")))
    yield "overlap", array_file(arrays(x=array_entry(4096, [4097], "|u1"),
                                       y=array_entry(8192, [1], "|u1")))
    yield "overflow", array_file(arrays(x=array_entry(4096, [2**32, 2**32], "<f4")))
    yield "in_header", array_file(arrays(x=array_entry(0, [1], "|u1")))
    yield "past_end", array_file(arrays(x=array_entry(4096, [12289], "|u1")))
    yield "same_name", array_file(b'{"version": 1, "arrays": {"x": {}, "x": {}}}')
    yield "real_size", array_file(arrays(x=array_entry(4096, [1e3], "|u1")))
    yield "negative", array_file(arrays(x=array_entry(-4096, [-1], "|u1")))
    yield "unknown_type", array_file(arrays(x=array_entry(4096, [1], "|O")))
    yield "deep", array_file(b'{"metadata": ' + b"[" * 600)
    yield "long_header", array_file({"version": 1})[:6] + b"\xff\xff\xff\xff{}"
    yield "metadata", array_file({"version": 1, "metadata": {
        "a": float("nan"), "b": [float("inf"), -1e300, 1e-05, 2**70, None, {"z": "\U0001f600"}],
        "__tarn__": {"arrays": {"x": {"crc32c": "00000000", "rows": 900}},
                     "header": "00000000"}}, "arrays": {"x": array_entry(4096, [9, 2], "<u4")}})
    yield "names", array_file(arrays(**{"": array_entry(4096, [1], "|u1"),
                                        "コ": array_entry(8192, [1], "|u1"),
                                        'a"b\\n\n': array_entry(12288, [1], "|u1")}))
    yield "name_with_nul", array_file(arrays(**{"a\0": array_entry(4096, [1], "|u1")}))
    yield "version_2", array_file({"version": 2})
    yield "truncated", array_file(arrays(x=array_entry(4096, [1], "|u1")), pages=0)
    for path in sorted((DATA / "gnz").glob("*.gnz")):
        if path.stat().st_size <= 12288:
            yield "real_" + path.stem, bytes([VERIFY_TOO | STATS_TOO, 0]) + path.read_bytes()

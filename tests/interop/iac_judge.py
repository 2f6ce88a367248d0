#!/usr/bin/env python3
"""Runs inside the environment of one of the real packages, and makes and compares IAC files.

  iac_judge.py make DIR SEED COUNT     IAC files with odd tables, by the package and by hand
  iac_judge.py pairs DIR SEED          clinical text pairs
  iac_judge.py same A B                tables, payloads and the caller's header fields agree
  iac_judge.py patients A B            the adapter reads the same patients from both
  iac_judge.py refuses A               the package does not read it
  iac_judge.py taken A B N,N,...       B has those records of A, in this order, with all columns
  iac_judge.py dump A                  header, and payload (in hexadecimal) and columns of each record
  iac_judge.py exchange LIB B A...     tables of A through the C stream interface, both ways, into B
"""
import decimal
import json
import pathlib
import random
import struct
import sys
import types

for name in ("PIL", "PIL.Image", "imagecodecs", "tqdm"):  # 0.0.2 imports them for images only
    sys.modules.setdefault(name, types.ModuleType(name))
sys.modules["PIL"].Image = sys.modules["PIL.Image"]
sys.modules["PIL.Image"].Image = object
sys.modules["tqdm"].tqdm = iter

import pyarrow as pa  # noqa: E402
from iatro import iac  # noqa: E402

LAYOUT = {"format", "version", "header_bytes", "slide_table_offset", "slide_table_length",
          "index_table_offset", "index_table_length", "data_offset", "data_length", "num_slides",
          "num_records"}


class Label(pa.ExtensionType):
    def __init__(self):
        super().__init__(pa.string(), "tarn.label")

    def __arrow_ext_serialize__(self):
        return b"for the test"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type, serialized):
        return cls()


def text(rng):
    return "".join(rng.choice("aé中𝄞 \n\"\\z") for _ in range(rng.randrange(20)))


def some(rng, n, make, nulls=True):
    return [None if nulls and rng.random() < 0.2 else make() for _ in range(n)]


def whole(bits, signed):
    low = -(1 << bits - 1) if signed else 0
    return lambda rng: rng.randrange(low, low + (1 << bits))


def plain_columns():
    """name -> (type, value maker)"""
    columns = {"null": (pa.null(), lambda rng: None), "bool": (pa.bool_(), lambda rng: rng.random() < .5)}
    for bits in (8, 16, 32, 64):
        columns[f"i{bits}"] = (getattr(pa, f"int{bits}")(), whole(bits, True))
        columns[f"u{bits}"] = (getattr(pa, f"uint{bits}")(), whole(bits, False))
    columns |= {
        "f32": (pa.float32(), lambda rng: float(rng.randrange(1000)) / 8),
        "f64": (pa.float64(), lambda rng: rng.choice([0.1, float("inf"), -0.0, 1e300])),
        "string": (pa.string(), text), "large_string": (pa.large_string(), text),
        "string_view": (pa.string_view(), text),
        "binary": (pa.binary(), lambda rng: rng.randbytes(rng.randrange(30))),
        "large_binary": (pa.large_binary(), lambda rng: rng.randbytes(rng.randrange(30))),
        "binary_view": (pa.binary_view(), lambda rng: rng.randbytes(rng.randrange(30))),
        "fixed": (pa.binary(5), lambda rng: rng.randbytes(5)),
        "decimal": (pa.decimal128(20, 3), lambda rng: decimal.Decimal(rng.randrange(10 ** 9)) / 1000),
        "decimal256": (pa.decimal256(50, 3), lambda rng: decimal.Decimal(rng.randrange(10 ** 9)) / 1000),
        "date32": (pa.date32(), whole(16, False)), "date64": (pa.date64(), lambda rng: 86400000 * rng.randrange(9999)),
        "time32": (pa.time32("ms"), lambda rng: rng.randrange(86400000)),
        "time64": (pa.time64("ns"), lambda rng: 1000 * rng.randrange(86400 * 10 ** 6)),
        "timestamp": (pa.timestamp("us", tz="Asia/Shanghai"), whole(40, False)),
        "naive": (pa.timestamp("s"), whole(30, False)),
        "duration": (pa.duration("ns"), lambda rng: 1000 * rng.randrange(-10 ** 9, 10 ** 9)),
        "list": (pa.list_(pa.string()), lambda rng: some(rng, rng.randrange(4), lambda: text(rng))),
        "large_list": (pa.large_list(pa.int16()), lambda rng: some(rng, rng.randrange(4), lambda: 7)),
        "list_view": (pa.list_view(pa.int32()), lambda rng: some(rng, rng.randrange(4), lambda: 9)),
        "fixed_list": (pa.list_(pa.float32(), 3), lambda rng: [1.0, None, 2.5]),
        "struct": (pa.struct([("a", pa.int8()), ("b", pa.list_(pa.string()))]),
                   lambda rng: {"a": 1, "b": [text(rng)]}),
        "map": (pa.map_(pa.string(), pa.int32()), lambda rng: [(text(rng) + str(i), i) for i in range(rng.randrange(3))]),
        "empty struct": (pa.struct([]), lambda rng: {}),
    }
    return columns


def odd_columns(rng, n):
    """Arrays that need more than values."""
    words = pa.array(some(rng, n, lambda: rng.choice("abc")), pa.string())
    yield "dictionary", words.dictionary_encode()
    yield "ordered", pa.DictionaryArray.from_arrays(pa.array([i % 2 for i in range(n)], pa.int8()),
                                                    ["x", "y"], ordered=True)
    nested = pa.DictionaryArray.from_arrays(pa.array([0] * n, pa.uint16()),
                                            pa.array([["q", None], ["r"]], pa.list_(pa.string())))
    yield "dictionary of lists", nested
    yield "list of dictionary", pa.ListArray.from_arrays(
        pa.array(range(n + 1), pa.int32()), pa.array(["k"] * n, pa.string()).dictionary_encode())
    yield "extension", pa.ExtensionArray.from_storage(Label(), words)
    types_ = pa.array([i % 2 for i in range(n)], pa.int8())
    yield "sparse", pa.UnionArray.from_sparse(types_, [pa.array(range(n)), pa.array(["s"] * n)])
    counts = [(i // 2) for i in range(n)]
    yield "dense", pa.UnionArray.from_dense(types_, pa.array(counts, pa.int32()),
                                            [pa.array(range(n)), pa.array(["s"] * max(n, 1))])
    if n:
        yield "runs", pa.RunEndEncodedArray.from_arrays(pa.array([n], pa.int32()), pa.array(["same"]))


def column(rng, kind, n):
    type_, make = plain_columns()[kind]
    return pa.array(some(rng, n, lambda: make(rng)), type_)


def odd_table(rng, n):
    kinds = rng.sample(sorted(plain_columns()), rng.randrange(1, 8))
    arrays = [(k, column(rng, k, n)) for k in kinds]
    extra = list(odd_columns(rng, n))
    arrays += rng.sample(extra, rng.randrange(0, min(4, len(extra)) + 1))
    rng.shuffle(arrays)
    table = pa.table([a for _, a in arrays], names=[k for k, _ in arrays])
    if rng.random() < 0.5:
        table = table.replace_schema_metadata({"who": "测试", "": "\x00bytes"})
    if rng.random() < 0.3:
        field = pa.field("required", pa.int32(), nullable=False, metadata={"unit": "mm"})
        table = table.append_column(field, pa.array(range(n), pa.int32()))
    if n > 3 and rng.random() < 0.4 and "runs" not in table.column_names:
        cut = rng.randrange(1, n)
        table = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    return table


def slides(rng):
    n = rng.randrange(0, 5)
    return pa.table({"slide_idx": pa.array(range(n), pa.uint8()), "slide_id": [f"s{i}" for i in range(n)],
                     "patient_id": [text(rng) for _ in range(n)]})


def by_hand(path, header, slide_table, index_table, payloads, options):
    """An IAC file with table bodies that the package itself would not write: compressed, split."""
    index, offsets, at = index_table, [], 0
    for one in payloads:
        offsets.append(at)
        at += len(one)
    import zlib
    for name, values, type_ in (("offset", offsets, pa.uint64()), ("length", [len(p) for p in payloads], pa.uint32()),
                                ("crc32", [zlib.crc32(p) for p in payloads], pa.uint32())):
        index = index.append_column(name, pa.array(values, type_))
    parts = []
    for table in (slide_table, index):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
            writer.write_table(table, max_chunksize=3)
        parts.append(sink.getvalue().to_pybytes())
    start = 65536
    full = dict(header, format="IatroCache", version=2, header_bytes=65536, slide_table_offset=start,
                slide_table_length=len(parts[0]), index_table_offset=start + len(parts[0]),
                index_table_length=len(parts[1]), data_offset=start + len(parts[0]) + len(parts[1]),
                data_length=at, num_slides=slide_table.num_rows, num_records=index.num_rows)
    raw = json.dumps(full, indent=2, sort_keys=True).encode()
    head = b"IATROC\0\2" + struct.pack("<II", len(raw), 2) + raw
    path.write_bytes(head.ljust(start, b"\0") + b"".join(parts) + b"".join(payloads))


def make(folder, seed, count):
    for i in range(count):
        rng = random.Random(seed * 1000 + i)
        n = rng.choice([0, 1, 2, 7, 40])
        table = odd_table(rng, n)
        payloads = [rng.randbytes(rng.choice([0, 1, 10, 3000])) for _ in range(n)]
        header = {"payload_type": "odd", "codec": "none", "number": 1.5, "list": [1, None, "é"]}
        path = folder / f"{i:03}.iac"
        how = rng.randrange(4)
        if how == 0:
            iac.build_pack(path, header, slides(rng), table, payloads)
        elif how == 1 and "runs" not in table.column_names:
            codec = rng.choice(["lz4", "zstd", None])
            by_hand(path, header, slides(rng), table, payloads, pa.ipc.IpcWriteOptions(compression=codec))
        else:
            iac.build_pack_streaming(path, header, slides(rng), table, iter(payloads))


def make_pairs(folder, seed):
    from iatro.iac.adapters.text_pair import (ClinicalTextPairDoc, PatientTextPairs,
                                              build_clinical_text_pair_pack)
    rng = random.Random(seed)
    patients = []
    for i in range(12):
        docs = [ClinicalTextPairDoc(doc_id=f"患者{i}/{k}", source=text(rng), source_text=text(rng) * rng.choice([0, 1, 300]),
                                    compressed_text=text(rng), doc_type="入院记录", encounter="2024-01-01",
                                    doc_timestamp=text(rng), episode_index=rng.randrange(-1, 4))
                for k in range(rng.randrange(4))]
        patients.append(PatientTextPairs(patient_id=f"Patient_{i:08}", institution="XJ", docs=docs))
    build_clinical_text_pair_pack(folder / "pairs.iac", patients)


def payload(reader, row):
    return bytes(reader.read_payload(row))


def same(a, b):
    head_a, slides_a, index_a = iac.read_tables(a)
    head_b, slides_b, index_b = iac.read_tables(b)
    assert {k: v for k, v in head_a.items() if k not in LAYOUT} == \
        {k: v for k, v in head_b.items() if k not in LAYOUT}, (head_a, head_b)
    for x, y in ((slides_a, slides_b), (index_a, index_b)):
        y.validate(full=True)
        assert x.schema.equals(y.schema, check_metadata=True), (x.schema, y.schema)
        # equals() does not support every type (views of lists, unions); comparing Python values
        # does.
        assert x.num_rows == y.num_rows and str(x.to_pydict()) == str(y.to_pydict())
    first, second = iac.PackReader(a), iac.PackReader(b)
    if "offset" in index_a.column_names and "length" in index_a.column_names:
        for row in range(index_a.num_rows):
            assert payload(first, row) == payload(second, row), row
    first.close()
    second.close()


def same_patients(a, b):
    from iatro.iac.adapters.text_pair import ClinicalTextPairReader
    first, second = ClinicalTextPairReader(a), ClinicalTextPairReader(b)
    ids = first.index_table["patient_id"].to_pylist()
    assert ids and ids == second.index_table["patient_id"].to_pylist()
    for one in ids:
        assert first.read_patient(one) == second.read_patient(one), one


def refuses(a):
    try:
        iac.read_tables(a)
    except Exception:  # whatever its message
        return
    raise AssertionError("the package read it")


def taken(a, b, rows):
    head_a, slides_a, index_a = iac.read_tables(a)
    head_b, slides_b, index_b = iac.read_tables(b)
    spans = [n for n in ("offset", "length", "crc32") if n in index_a.column_names]
    assert {k: v for k, v in head_a.items() if k not in LAYOUT} == \
        {k: v for k, v in head_b.items() if k not in LAYOUT}, (head_a, head_b)
    assert str(slides_a.to_pydict()) == str(slides_b.to_pydict())
    x, y = index_a.drop_columns(spans), index_b.drop_columns(["offset", "length", "crc32"])
    y.validate(full=True)
    assert x.schema.equals(y.schema, check_metadata=True), (x.schema, y.schema)
    want = {k: [v[i] for i in rows] for k, v in x.to_pydict().items()}
    assert str(want) == str(y.to_pydict()), (want, y.to_pydict())
    first, second = iac.PackReader(a), iac.PackReader(b)
    for number, row in enumerate(rows):
        assert payload(first, row) == payload(second, number), row
    first.close()
    second.close()


def dump(path):
    head, _, index = iac.read_tables(path)
    index.validate(full=True)
    columns = index.drop_columns(["offset", "length", "crc32"]).to_pydict()
    reader = iac.PackReader(path)
    print(json.dumps({k: v for k, v in head.items() if k not in LAYOUT}))
    print(json.dumps({f.name: str(f.type) for f in index.schema}))
    for row in range(index.num_rows):
        print(json.dumps([payload(reader, row).hex(), {k: v[row] for k, v in columns.items()}],
                         default=str))
    reader.close()


def exchange(library, target, paths):
    """libtarn exports a table to pyarrow, and imports a slice of one from it, directly."""
    import ctypes
    lib = ctypes.CDLL(str(library))
    error = ctypes.create_string_buffer(4096)

    def call(name, *arguments):
        assert getattr(lib, name)(*arguments, error) == 0, (name, bytes(error)[1040:1400])

    class WriteOptions(ctypes.Structure):
        _fields_ = [("size", ctypes.c_size_t), ("header", ctypes.c_char_p),
                    ("version", ctypes.c_uint), ("codec", ctypes.c_char_p),
                    ("level", ctypes.c_int), ("encoded", ctypes.c_bool),
                    ("segment", ctypes.c_bool)]

    def stream():
        return ctypes.create_string_buffer(5 * 8)

    for path in paths:
        _, slides_, index = iac.read_tables(path)
        pack = ctypes.c_void_p()
        call("tarn_iac_open", str(path).encode(), None, ctypes.byref(pack))
        for number, want in enumerate((slides_, index)):
            raw = stream()
            call("tarn_iac_export", pack, number, raw)
            reader = pa.RecordBatchReader._import_from_c(ctypes.addressof(raw))
            if number:
                lib.tarn_iac_close(pack)  # the arrays stay valid
            got = reader.read_all()
            got.validate(full=True)
            assert got.schema.equals(want.schema, check_metadata=True), path
            assert str(got.to_pydict()) == str(want.to_pydict()), path
        part = index.slice(1, max(index.num_rows - 2, 0)).drop_columns(["offset", "length", "crc32"])
        part = part.drop_columns([n for n in part.column_names if n == "runs"])
        first, second = stream(), stream()
        slides_.to_reader()._export_to_c(ctypes.addressof(first))
        part.to_reader()._export_to_c(ctypes.addressof(second))
        target.unlink(missing_ok=True)
        options = WriteOptions(ctypes.sizeof(WriteOptions), None, 2, None, 0, False, True)
        writer = ctypes.c_void_p()
        call("tarn_iac_writer_open", str(target).encode(), first, second, ctypes.byref(options),
             ctypes.byref(writer))
        call("tarn_iac_writer_add", writer, b"data", ctypes.c_size_t(4))
        call("tarn_iac_writer_finish", writer)
        back = iac.read_tables(target)[2]
        back.validate(full=True)
        assert back.schema.equals(part.schema, check_metadata=True), path
        assert str(back.to_pydict()) == str(part.to_pydict()), path


def main():
    pa.register_extension_type(Label())
    command, *rest = sys.argv[1:]
    paths = [pathlib.Path(x) for x in rest]
    if command == "make":
        make(paths[0], int(rest[1]), int(rest[2]))
    elif command == "pairs":
        make_pairs(paths[0], int(rest[1]))
    elif command == "same":
        for a, b in zip(paths[0::2], paths[1::2]):
            try:
                same(a, b)
            except Exception as e:
                raise AssertionError(f"{a} {b}") from e
    elif command == "patients":
        same_patients(*paths)
    elif command == "exchange":
        exchange(paths[0], paths[1], paths[2:])
    elif command == "taken":
        taken(paths[0], paths[1], [int(x) for x in rest[2].split(",") if x])
    elif command == "dump":
        dump(paths[0])
    elif command == "refuses":
        refuses(*paths)


main()

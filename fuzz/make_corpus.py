#!/usr/bin/env python3
"""Makes the seed files of the fuzz corpus, the same bytes every time.

  make_corpus.py                adds them to the archives of fuzz/corpus (which keep their other files)
  make_corpus.py --check TARN   exits with 1 unless the corpus is what it would write and the
                                command TARN finds no error in the valid indexes

Indexes and checksum files are composed here by hand, from docs/formats, not by the library.
"""
import bz2
import lzma
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

from corpus_gnz import array_files
from corpus_jxl import jxl_images
from corpus_image import filtered_png, images

ROOT = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT.parent / "scripts"))
import corpus as archives_of  # noqa: E402

DATA = ROOT.parent / "tests" / "data"
END = bytes(1024)

# --- Archives ------------------------------------------------------------------------


def pad(data):
    return data + bytes(-len(data) % 512)


def block(name=b"a.txt", size=0, kind=b"0", magic=b"ustar\00000", prefix=b"", mode=b"0000644\0",
          size_field=None, mtime=b"00000000000\0", link=b"", signed=False, checksum=None):
    """One header block."""
    field = size_field if size_field is not None else b"%011o\0" % size
    head = (name[:100].ljust(100, b"\0") + mode + b"0000000\0" * 2 + field + mtime + b" " * 8 +
            kind + link.ljust(100, b"\0") + magic.ljust(8, b"\0"))
    head = head.ljust(345, b"\0") + prefix.ljust(155, b"\0")
    head = head.ljust(512, b"\0")
    total = sum(b - 256 if signed and b > 127 else b for b in head)
    stored = checksum if checksum is not None else b"%06o\0 " % total
    return head[:148] + stored + head[156:]


def member(name=b"a.txt", data=b"alpha\n", **more):
    return block(name, len(data), **more) + pad(data)


def record(key, value):
    body = b" " + key + b"=" + value + b"\n"
    length = len(body) + 1
    while len(b"%d" % length) + len(body) != length:
        length += 1
    return b"%d" % length + body


def pax(*records, kind=b"x"):
    data = b"".join(record(k, v) for k, v in records)
    return block(b"pax", len(data), kind) + pad(data)


def gnu(text, kind=b"L"):
    return block(b"././@LongLink", len(text) + 1, kind, magic=b"ustar  \0") + pad(text + b"\0")


LONG = b"long/" * 25 + b"name.txt"
A, B = member(), member(b"b.cls", b"1")
NESTED = member(b"in.txt", b"inner\n") + END


def archives():
    yield "empty_file", b""
    yield "empty_archive", END
    yield "v7", member(magic=b"") + member(b"dir/", b"", magic=b"", kind=b"\0") + END
    yield "v7_type_nul", member(magic=b"", kind=b"\0") + END
    yield "ustar", A + B + END
    yield "ustar_prefix", member(b"c.txt", b"x", prefix=b"some/folder") + END
    yield "ustar_name_100", member(b"n" * 96 + b".txt", b"x") + END
    yield "prefix_without_magic", member(magic=b"", prefix=b"p") + END
    yield "gnu_magic", member(magic=b"ustar  \0") + END
    yield "contiguous_type_7", member(kind=b"7") + END
    yield "pax_path", A + pax((b"path", LONG)) + member(LONG, b"x") + B + END
    yield "pax_path_folder_only", (pax((b"path", "é/a.txt".encode())) + member(b"?/a.txt") +
                                   END)
    yield "pax_size", pax((b"size", b"600")) + block() + pad(b"p" * 600) + B + END
    yield "pax_size_smaller", pax((b"size", b"6")) + member(data=b"q" * 600) + END
    yield "pax_size_key_fits", pax((b"size", b"512")) + block(b"a.txt", 0) + b"s" * 512 + END
    yield "pax_mtime", pax((b"mtime", b"1700000000.123456789")) + A + END
    yield "pax_mtime_negative", pax((b"mtime", b"-1.5")) + A + END
    yield "pax_twice_one_key", pax((b"path", b"x.txt"), (b"path", b"y.txt")) + A + END
    yield "pax_nul_in_path", pax((b"path", b"x\0y.txt")) + A + END
    yield "pax_malformed", block(b"pax", 5, b"x") + pad(b"9 a=b") + A + END
    yield "pax_malformed_and_cut_padding", block(b"pax", 5, b"x") + pad(b"9 a=b") + A[:600]
    yield "pax_malformed_before_pax", (block(b"pax", 5, b"x") + pad(b"9 a=b") +
                                       pax((b"path", b"x.txt")) + A + END)
    yield "pax_without_member", A + pax((b"path", b"x.txt")) + END
    yield "pax_two_headers", pax((b"path", b"x.txt")) * 2 + A + END
    yield "pax_empty", block(b"pax", 0, b"x") + A + END
    yield "pax_charset", pax((b"hdrcharset", b"BINARY"), (b"path", b"\xff.txt")) + A + END
    yield "pax_sparse", pax((b"GNU.sparse.major", b"1")) + A + END
    yield "pax_header_in_records", (pax((b"comment", bytes(499) + block(b"pax", 20, b"x") +
                                         b"c" * 500), (b"path", b"z.txt")) + A + END)
    yield "global", pax((b"comment", b"hello"), kind=b"g") + A + END
    yield "global_mtime", pax((b"mtime", b"5"), kind=b"g") + A + END
    yield "global_size", pax((b"size", b"6"), kind=b"g") + A + END
    yield "global_between", pax((b"path", b"x.txt")) + pax((b"a", b"b"), kind=b"g") + A + END
    yield "gnu_name", gnu(LONG) + member(LONG, b"x") + B + END
    yield "gnu_name_and_link", gnu(LONG, b"K") + gnu(LONG) + member(LONG, b"x") + END
    yield "gnu_link", gnu(LONG, b"K") + block(b"l", 0, b"2", link=LONG[:100]) + A + END
    yield "gnu_name_and_pax", gnu(LONG) + pax((b"path", b"x.txt")) + A + END
    yield "gnu_name_with_nul", gnu(b"x\0y") + A + END
    yield "gnu_name_dirty_padding", gnu(b"x.txt")[:-1] + b"!" + A + B + END
    yield "pax_dirty_padding", pax((b"path", b"x.txt"))[:-1] + b"!" + A + B + END
    yield "base256", block(size_field=b"\x80" + (6).to_bytes(11, "big")) + pad(b"alpha\n") + END
    yield "base256_negative", block(size_field=b"\xff" * 12) + pad(b"alpha\n") + END
    yield "base256_huge", block(size_field=b"\x80" + b"\x7f" * 11) + END
    yield "base256_mtime", member(mtime=b"\xff" * 12) + END
    yield "size_blanks", block(size_field=b"         6 \0") + pad(b"alpha\n") + END
    yield "size_not_octal", block(size_field=b"00000000_06\0") + pad(b"alpha\n") + END
    yield "size_12_digits", block(size_field=b"000000000006") + pad(b"alpha\n") + END
    yield "sparse", block(b"s.bin", 0, b"S", magic=b"ustar  \0") + END
    yield "unknown_type", block(b"s.bin", 0, b"Z") + A + END
    yield "links", block(b"h", 0, b"1", link=b"a.txt") + block(b"s", 0, b"2", link=b"a") + A + END
    yield "link_with_size", member(b"s", b"x", kind=b"2", link=b"a.txt") + A + END
    yield "folders", block(b"dir/", 0, b"5") + member(b"dir/a.txt") + END
    yield "folder_with_size", member(b"dir/", b"x", kind=b"5") + A + END
    yield "file_with_slash", member(b"dir/", b"x") + A + END
    yield "devices", b"".join(block(b"d" + k, 0, k) for k in (b"3", b"4", b"6")) + A + END
    yield "lone_zero_block", A + bytes(512) + B + END
    yield "zero_blocks_then_member", A + END + B + END
    yield "trailing_garbage", A + END + b"garbage"
    yield "trailing_zeros", A + END + bytes(777)
    yield "no_end", A + B
    yield "one_zero_block", A + bytes(512)
    yield "truncated_header", A + B[:300]
    yield "truncated_payload", A + member(data=b"x" * 600)[:700]
    yield "truncated_padding", A + B[:514]
    yield "truncated_pax", A + pax((b"path", LONG))[:600]
    yield "bad_checksum", member(checksum=b"000001\0 ") + B + END
    yield "bad_checksum_alone", member(checksum=b"000001\0 ") + END
    yield "blank_checksum", member(checksum=b" " * 8) + B + END
    yield "signed_checksum", member(b"\xe9.txt", signed=True) + END
    yield "high_bytes", member(b"\xe9\xff.TXT") + member("É.ÉΣ".encode()) + END
    yield "damage_before_pax_member", (A + block(b"pax", 20, b"x", checksum=b"000001\0 ") +
                                       pad(record(b"path", b"longer.txt")) + member(b"lo") + END)
    yield "damage_before_cut_padding", (block(b"pax", 0, b"x", size_field=b"0000000zzzz\0") +
                                        pad(record(b"path", b"y.txt")) + A[:600])
    yield "nested", member(b"n.tar", NESTED) + B + END
    yield "nested_damaged", member(b"n.tar", NESTED, checksum=b"000001\0 ") + B + END
    yield "nested_damaged_size", (block(b"n.tar", 1, checksum=b"000001\0 ") + NESTED + B + END)
    yield "nested_last_damaged", A + member(b"n.tar", NESTED, checksum=b"000001\0 ") + END
    yield "nested_truncated", A + member(b"n.tar", NESTED * 2)[:1600]
    yield "nested_without_end", (A + block(b"n.tar", 1024, checksum=b"000001\0 ",
                                           size_field=b"0000000zzzz\0") + NESTED[:1024] + B + END)
    yield "duplicates", A + member(data=b"other\n") + END
    yield "same_base_name", A + member(b"dir/a.txt", b"other\n") + END
    yield "control_character", member(b"a\nb.txt") + B + END
    yield "upper_case", member(b"A.JPG") + member(b"B.Seg.PNG") + END
    yield "no_dot", member(b"README") + member(b".hidden") + member(b"__meta__") + END
    yield "empty_key_first", member(b".hidden") + member(b"x.txt") + END
    yield "dot_slash", member(b"./a.txt") + member(b"./b.txt") + END
    yield "empty_name", member(b"") + B + END
    yield "not_tar", b"this is no archive\n" * 30
    yield "compressed_xz", b"\xfd7zXZ\0" + bytes(600)
    yield "compressed_gzip", b"\x1f\x8b\x08" + bytes(20)


# --- Hashes ---------------------------------------------------------------------------

MASK = (1 << 64) - 1
P1, P2, P3 = 11400714785074694791, 14029467366897019727, 1609587929392839161
P4, P5 = 9650029242287828579, 2870177450012600261


def rotl(x, r):
    return (x << r | x >> (64 - r)) & MASK


def lane(acc, word):
    return rotl((acc + word * P2) & MASK, 31) * P1 & MASK


def xxh64(data):
    n, at = len(data), 0
    h = P5
    if n >= 32:
        v = [(P1 + P2) & MASK, P2, 0, -P1 & MASK]
        for at in range(0, n - 31, 32):
            v = [lane(a, w) for a, w in zip(v, struct.unpack_from("<4Q", data, at))]
        at += 32
        h = sum(rotl(a, r) for a, r in zip(v, (1, 7, 12, 18))) & MASK
        for a in v:
            h = ((h ^ lane(0, a)) * P1 + P4) & MASK
    h = (h + n) & MASK
    for at in range(at, n - 7, 8):
        h = (rotl(h ^ lane(0, struct.unpack_from("<Q", data, at)[0]), 27) * P1 + P4) & MASK
    at = n - n % 8
    if n - at >= 4:
        word = struct.unpack_from("<I", data, at)[0]
        h = (rotl(h ^ (word * P1 & MASK), 23) * P2 + P3) & MASK
        at += 4
    for byte in data[at:]:
        h = rotl(h ^ (byte * P5 & MASK), 11) * P1 & MASK
    h = (h ^ h >> 33) * P2 & MASK
    h = (h ^ h >> 29) * P3 & MASK
    return h ^ h >> 32


def crc32c(data, crc=0):
    crc ^= 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


# --- The shards of shard.h --------------------------------------------------------------

REST = "_" * 24
ONE = "twin_one" + REST + "twin_one" + REST
TWO = "ezbdywnd" + REST + "rQ#FS-y!" + REST
PLAIN, PAX_PATH, GNU_NAME, PAX_SIZE = range(4)
MEMBERS = [
    (0, "a", "txt", "a.txt", PLAIN, b"A", 6),
    (0, "a", "cls", "a.cls", PLAIN, b"B", 1),
    (0, "b", "jpg", "dir/b.JPG", PLAIN, b"C", 600),
    (0, "c", "seg.png", "d" * 100 + "/c.seg.png", PAX_PATH, b"D", 10),
    (0, "d", "txt", "g" * 100 + "/d.txt", GNU_NAME, b"E", 512),
    (0, ONE, "txt", ONE + ".txt", PLAIN, b"F", 3),
    (0, TWO, "txt", TWO + ".txt", PLAIN, b"G", 3),
    (0, "p", "bin", "p.bin", PAX_SIZE, b"H", 512),
    (1, "e", "txt", "e.txt", PLAIN, b"I", 0),
    (1, "f", "txt", "f.txt", PLAIN, b"J", 6),
    (1, "f", "cls", "f.cls", PLAIN, b"K", 1),
    (2, "m", "txt", "m.txt", PLAIN, b"L", 4),
    (2, "n", "txt", "n.txt", PLAIN, b"M", 4),
    (2, "m", "cls", "m.cls", PLAIN, b"N", 1),
    (2, TWO, "txt", TWO + ".txt", PLAIN, b"O", 3),
    (2, ONE, "txt", ONE + ".txt", PLAIN, b"P", 3),
    (2, "n", "cls", "n.cls", PLAIN, b"Q", 1),
    (2, TWO, "cls", TWO + ".cls", PLAIN, b"R", 1),
]
FOLDS = {"train": {"train_0.tar": 0, "train_1.tar": 1}, "mix": {"mix_0.tar": 2}}
CRCS = (0xc0de8066, 0x03c6ea26, 0x506dfdcc)


def mix(digest, word):
    return (rotl(digest, 5) ^ word) * 0x9e3779b97f4a7c15 & MASK


def mix_header(digest, head):
    """A header block, followed by the records if it is an extended header."""
    digest = mix(digest, struct.unpack_from("<Q", head, 136)[0])
    digest = mix(digest, struct.unpack_from("<Q", head, 148)[0])
    if len(head) == 512:
        return digest
    return mix(digest, crc32c(head[512:512 + int(head[124:135], 8)]))


def shard(number):
    """The bytes of a shard, its header digest, and (member, offset) of each member."""
    data, digest, places = b"", 0, []
    for m in MEMBERS:
        if m[0] != number:
            continue
        name, how, letter, size = m[3].encode(), m[4], m[5], m[6]
        before = b""
        if how == PAX_PATH:
            before = pax((b"path", name))
        elif how == PAX_SIZE:
            before = pax((b"size", b"512"))
        elif how == GNU_NAME:
            before = (block(b"././@LongLink", len(name) + 1, b"L") + pad(name + b"\0"))
        head = block(name, 0 if how == PAX_SIZE else size)
        places.append((m, len(data) + len(before)))
        data += before + head + pad(letter * size)
        digest = mix_header(mix_header(digest, before) if before else digest, head)
    return data + END, digest >> 32, places


SHARDS = [shard(i) for i in range(3)]


# --- Indexes ----------------------------------------------------------------------------


class Fold:
    """The rows of a fold, to be changed before they are composed into files."""

    def __init__(self, name):
        self.shards = FOLDS[name]
        self.fields, self.crashes, self.rows = [], [], []
        first, keys, runs = {}, [], 0
        for at, number in enumerate(self.shards.values()):
            for m, offset in SHARDS[number][2]:
                key, field, size = m[1], m[2], m[6]
                hashed = xxh64(key.encode())
                if first.setdefault(hashed, key) != key and key not in self.crashes:
                    self.crashes.append(key)
                if field not in self.fields:
                    self.fields.append(field)
                runs += not keys or keys[-1] != key
                keys.append(key)
                crash = self.crashes.index(key) + 1 if key in self.crashes else 0
                self.rows.append([at, offset, size, self.fields.index(field), crash, hashed])
        self.stems = len(set(keys))
        self.contiguous = runs == self.stems
        self.payloads = [m[5] * m[6] for n in self.shards.values() for m, _ in SHARDS[n][2]]

    def head(self):
        fields = "\n".join(self.fields).encode()
        crashes = "\n".join(self.crashes).encode()
        at = 64 + len(fields)
        return struct.pack("<8s4HQQIIQQB7x", b"TARIDX", 1, 0, 32, 64, self.stems, len(self.rows),
                           len(self.fields), len(self.crashes), at, at + len(crashes),
                           self.contiguous) + fields + crashes

    def index(self):
        return self.head() + self.packed_rows()

    def packed_rows(self):
        return b"".join(struct.pack("<HQQHIQ", *row) for row in self.rows)

    def keep(self, numbers):
        """Only these rows, as contiguous samples."""
        self.rows = [self.rows[i] for i in numbers]
        self.payloads = [self.payloads[i] for i in numbers]
        self.stems, self.contiguous = len({row[5] for row in self.rows}), True
        return self

    def stride(self):
        """The rows of each sample, if all have the same fields in the same order."""
        n = len(self.rows) // self.stems if self.stems else 0
        samples = [self.rows[i:i + n] for i in range(0, len(self.rows), n or 1)]
        regular = self.contiguous and 0 < n <= 64 and all(
            [row[3] for row in s] == [row[3] for row in samples[0]] and len({(row[5], row[4]) for row in s}) == 1
            for s in samples)
        return n if regular else 0

    def sums(self, order=True, checksums=True, rank=None, stride=None):
        n = len(self.rows)
        stride = self.stride() if stride is None else stride
        rank = rank or sorted(range(n), key=lambda i: (self.rows[i][5], self.rows[i][4], i))
        ordered = struct.pack(f"<{n}I", *rank) if order else b""
        checks = struct.pack(f"<{n}I", *map(crc32c, self.payloads)) if checksums else b""
        stamps = b"".join(
            struct.pack("<QqII8x", len(SHARDS[number][0]), 0,
                        sum(row[0] == i for row in self.rows), SHARDS[number][1])
            for i, number in enumerate(self.shards.values()))
        names = "\n".join(self.shards).encode()
        pages_at = 128 + len(stamps + names) + -len(stamps + names) % 8
        rest = (stamps + names).ljust(pages_at - 128, b"\0")
        for part in (self.packed_rows(), ordered, checks):
            for page in range(0, len(part), 4096):
                rest += struct.pack("<I", crc32c(part[page:page + 4096]))
        at = 128 + len(rest)
        head = struct.pack("<8s4HQIIQQQQQQQII", b"TARSUM", 1, 0, 128, 32, n, len(self.shards),
                           order | checksums << 1, 128 + len(stamps), len(names), pages_at,
                           at if order else 0, at + len(ordered) if checksums else 0,
                           at + len(ordered) + len(checks), len(self.index()),
                           crc32c(self.head()), stride).ljust(124, b"\0")
        return head + struct.pack("<I", crc32c(head + rest)) + rest + ordered + checks


MIX, CHECKED, READ, BY_HASH, VERIFY, FILTER = 1, 2, 4, 8, 16, 32


def seed(options, index, sums=b""):
    return struct.pack("<I", len(index) | options << 24) + index + sums


def indexes():
    train, mix = Fold("train"), Fold("mix")
    yield "train", seed(VERIFY | FILTER, train.index())
    yield "train_sums", seed(VERIFY | FILTER, train.index(), train.sums())
    yield "train_sums_checked", seed(CHECKED, train.index(), train.sums())
    yield "train_sums_without_checksums", seed(VERIFY, train.index(),
                                               train.sums(checksums=False))
    yield "train_sums_without_order", seed(VERIFY, train.index(), train.sums(order=False))
    yield "train_by_hash", seed(BY_HASH | READ, train.index())
    yield "mix", seed(MIX | VERIFY | FILTER, mix.index())
    yield "mix_sums", seed(MIX | VERIFY | FILTER, mix.index(), mix.sums())
    yield "mix_sums_checked", seed(MIX | CHECKED | READ, mix.index(), mix.sums())
    yield "mix_by_hash", seed(MIX | BY_HASH, mix.index(), mix.sums(checksums=False))
    yield "mix_sums_with_another_order", seed(MIX | VERIFY, mix.index(),
                                              mix.sums(rank=[1, 5, 0, 165, 3, 6, 4]))
    yield "mix_sums_in_row_order", seed(MIX | VERIFY | FILTER, mix.index(),
                                        mix.sums(rank=list(range(7))))
    yield "sums_of_another_fold", seed(0, train.index(), mix.sums())
    yield "truncated", seed(VERIFY, train.index()[:-7])
    yield "truncated_sums", seed(VERIFY, train.index(), train.sums()[:-7])
    yield "empty", b""

    none = Fold("train")
    none.rows, none.fields, none.crashes, none.stems, none.payloads = [], [], [], 0, []
    yield "no_rows", seed(VERIFY, none.index(), none.sums())

    # Every sample has a txt and a cls: the checksum file promises this, and the rows must keep it.
    even = Fold("train").keep((0, 1, 9, 10))
    yield "regular_sums", seed(VERIFY | FILTER, even.index(), even.sums())
    yield "regular_sums_checked", seed(CHECKED, even.index(), even.sums())
    yield "regular_sums_other_stride", seed(0, even.index(), even.sums(stride=1))
    odd = Fold("train").keep((0, 1, 9, 10))
    odd.rows[1:3] = odd.rows[2:0:-1]
    odd.payloads[1:3] = odd.payloads[2:0:-1]
    yield "regular_sums_broken", seed(FILTER, odd.index(), odd.sums(stride=2))
    mixed = Fold("train").keep((0, 1, 5, 6))
    yield "regular_sums_other_fields", seed(FILTER, mixed.index(), mixed.sums(stride=2))

    empty = Fold("train")
    empty.fields[1] = ""
    yield "empty_field_name", seed(VERIFY, empty.index())

    # Rows that match a member's own header, but not the extended header before it.
    short = Fold("train")
    short.rows[7][2] = 0
    yield "size_of_own_header", seed(0, short.index())
    # The same, after a row whose size hides that extended header.
    short.rows[6][2] = 1027
    yield "size_of_own_header_hidden", seed(0, short.index())
    named = Fold("train")
    named.fields.append("")
    named.rows[3][3] = len(named.fields) - 1
    named.rows[3][5] = xxh64(b"d" * 100)
    yield "name_of_own_header", seed(0, named.index())

    twice = Fold("mix")
    twice.rows[2] = list(twice.rows[0])
    yield "row_twice", seed(MIX | FILTER, twice.index())
    for name in ("02_multidot", "03_noncontiguous", "04a_crash_weakhash", "05_empty_ext",
                 "05_zero_length", "09a_writer_maxfiles"):
        yield "real_" + name, seed(VERIFY, (DATA / name / "train.taridx").read_bytes())


# --- Streams of samples -----------------------------------------------------------------

LENIENT, KEEP_FIRST, SIZES_ONLY, ONE_FIELD = 4, 8, 16, 32


def streams():
    def options(flags, chunk):
        return bytes((flags, chunk))

    for i, (name, data) in enumerate(archives()):
        yield f"strict_{name}", options(i % 3, i % 7 * 9) + data
        yield f"lenient_{name}", options(LENIENT | KEEP_FIRST | i % 3, i % 5 * 17) + data
    two = A + member(b"a.cls", b"7") + member(b"b.txt", b"beta") + B
    yield "select", options(ONE_FIELD, 0) + two + END
    yield "sizes", options(SIZES_ONLY, 0) + two + END
    yield "twice", options(0, 0) + A + A + END
    yield "twice_kept", options(KEEP_FIRST, 0) + A + A + END
    yield "scattered", options(0, 0) + A + B + member(b"a.cls", b"7") + END
    yield "bad", options(0, 0) + A + member(b"a.__bad__", b"x") + B + END
    yield "reserved", options(0, 0) + A + member(b"a.__key__", b"x") + END
    for i, (name, data) in enumerate((("whole", two + END), ("cut", two[:1200]),
                                      ("damaged", A + b"\1" + two[1:] + END))):
        for flags in (0, LENIENT):
            yield f"gzip_{name}_{flags}", options(flags, i) + gzip_stored(data)
            yield f"gzip_{name}_twice_{flags}", (options(flags, i) + gzip_stored(data[:700]) +
                                                 gzip_stored(data[700:]))
            yield f"gzip_{name}_torn_{flags}", options(flags, i) + gzip_stored(data)[:-9]
            yield f"zstd_{name}_{flags}", options(flags, i) + zstd_raw(data)
            yield f"bzip2_{name}_{flags}", options(flags, i) + bz2.compress(data)


# --- Headers and names --------------------------------------------------------------------


def headers():
    for name, data in archives():
        if name in ("v7", "ustar", "ustar_prefix", "base256", "base256_mtime", "size_blanks",
                    "signed_checksum", "sparse", "links", "devices", "bad_checksum",
                    "gnu_name", "size_not_octal"):
            yield name, data[:512]
    yield "pax_all", block(b"pax", 60, b"x") + b"".join(
        record(k, v) for k, v in ((b"path", b"a.txt"), (b"size", b"42"), (b"mtime", b"-1.25"),
                                  (b"hdrcharset", b"BINARY"), (b"comment", b"x=y\nz")))
    yield "pax_records_only", record(b"path", b"x" * 120) + record(b"mtime", b"1.0000000001")
    yield "pax_length_wrong", b"99 path=a\n"
    yield "pax_no_key", b"6 =ab\n"
    yield "pax_size_too_large", record(b"size", b"9" * 19)


def names():
    texts = ["", "a.txt", "dir/sub/x.cls.txt", "README", ".hidden", "a.", "a..b", "a/.b", "a/",
             "/a.b", "__meta__", "__meta__/x.y", "X.JPG", "é.ÀÉ", "x.ΟΔΟΣ", "x.Σ", "x.İI",
             "x.ẞß", "a\nb.txt", "a\x7f.b", "train_0001.tar", "train-0001.tar", "train.0001.tar",
             "0001.tar", "train.tar", "_0.tar", "train_a.tar", "a_b_7.tar", ".tar", "x.tar.gz",
             "back\\slash", "tab\there", "𝔘𝔫𝔦.𐐀", "x.\u0345Σ\u0345a", "x.aΣ\u00adb"]
    for i, text in enumerate(texts):
        yield f"{i:02}", text.encode()
    raw = [b"\xff\xfe.\xc0\x80", b"\xe2\x82.\xe2\x82", b"\xed\xa0\x80.x", b"\xf4\x90\x80\x80",
           b"x.\xf0\x9f\x98", b"\xc3.\xc3", b"n" * 300 + b"." + b"F" * 300]
    for i, text in enumerate(raw):
        yield f"raw_{i:02}", text


def json_texts():
    texts = ["", "null", "[true, false, NaN, Infinity, -Infinity]", '"\\u0000\\ud83d\\ude00\\ud800"',
             '{"a": 1, "b": {"c": [1.5e300, -0, 1e400]}, "\\u00e9": "\\"\\\\\\/\\b\\f\\n\\r\\t"}',
             '{"a":1,"b":[{}],"a":{"x":1,"x":2}}', "9" * 60, "0.1", "5e-324", "[[[[[]]]]]",
             '{"k0":0,"k1":1,"k2":2,"k3":3,"k4":4,"k5":5,"k6":6,"k7":7,"k8":8,"k3":9}',
             "[1,", '{"a":', '"open', "01", "é", '"é😀\x7f"', "[" * 600, '[1 ,\n\t2\r]']
    for i, text in enumerate(texts):
        yield f"{i:02}", text.encode()
    yield "not_utf8", b'"\xed\xa0\x80"'
    yield "nul", b"1\0"


# --- Fields -----------------------------------------------------------------------------

FIELD_NAMES = ("npy npz rle ten cls json seg8 seg16 seg24 seg32 ppm txt.gz a.zst npy.gz png jpg webp "
               "txt").split()


def npy(shape="(2, 3)", descr="<f4", payload=bytes(24), version=1, order="False"):
    text = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    return (b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(2 if version == 1 else 4, "little")
            + text + payload)


def stored_zip(**members):
    """A zip with stored members, with every size where readers look for it."""
    out, directory = b"", b""
    for name, data in members.items():
        name = name.encode() + b".npy"
        sizes = struct.pack("<IIIHH", zlib.crc32(data), len(data), len(data), len(name), 0)
        directory += (b"PK\1\2" + struct.pack("<6H", 20, 20, 0, 0, 0, 33) + sizes +
                      struct.pack("<HHHII", 0, 0, 0, 0, len(out)) + name)
        out += b"PK\3\4" + struct.pack("<5H", 20, 0, 0, 0, 33) + sizes + name + data
    n = len(members)
    return out + directory + b"PK\5\6" + struct.pack("<4HIIH", 0, 0, n, n, len(directory), len(out), 0)


def chunk(data):
    return b"~TenBin~" + struct.pack("<Q", len(data)) + data + bytes(-len(data) % 64)


def png(width, height, depth, colour, rows):
    return filtered_png(width, height, depth, colour, [b"\0" + row for row in rows])


def field_seeds():
    yield "npy", "npy_c", npy()
    yield "npy", "npy_fortran", npy(order="True")
    yield "npy", "npy_v2", npy(version=2)
    yield "npy", "npy_v3_zero_d", npy("()", ">c16", bytes(16), 3)
    yield "npy", "npy_text", npy("(2,)", "<U3")
    yield "npy", "npy_empty", npy("(0, 5L)", "|S0", b"")
    yield "npy", "npy_object", npy(descr="|O")
    yield "npy", "npy_too_large", npy("(4294967296, 4294967296)")
    yield "npz", "npz", stored_zip(a=npy(), b=npy("()", "|b1", b"\1"))
    yield "npz", "npz_empty", stored_zip()
    yield "npz", "npz_no_npy", stored_zip(a=b"no npy")
    yield "ten", "tenbin", (chunk(struct.pack("<8s8sqqq", b"f4", b"", 2, 2, 3)) + chunk(bytes(24)) +
                            chunk(struct.pack("<8s8sq", b"u1", b"info", 0)) + chunk(b"x"))
    for text in ("7", " -12\n", "1_000", "9223372036854775808"):
        yield "cls", f"cls_{text.strip()}", text.encode()
    yield "json", "json", b'{"a": [1, NaN], "a": "\\ud800"}'
    yield "seg8", "seg8", png(2, 2, 8, 0, [b"ab", b"cd"])
    yield "seg16", "seg16", png(1, 2, 16, 0, [b"ab", b"cd"])
    yield "seg24", "seg24", png(1, 1, 8, 2, [b"abc"])
    yield "seg32", "seg32", png(1, 1, 8, 6, [b"abcd"])
    yield "png", "png_one_bit", png(9, 1, 1, 0, [b"\xaa\x80"])
    yield "png", "png_grey_alpha", png(1, 1, 8, 4, [b"ab"])
    yield "png", "png_no_palette", png(1, 1, 8, 3, [b"a"])
    yield "png", "png_as_ppm", b"P6 1 1 255\nabc"
    yield "ppm", "ppm_grey_comment", b"P5\n# x\n2 1 65535\nabcd"
    yield "ppm", "ppm_short", b"P6\n2 2\n255\nabc"
    yield "txt.gz", "gzip", gzip_stored(b"text") + gzip_stored("é".encode())
    yield "npy.gz", "npy_gzip", gzip_stored(npy())
    yield "a.zst", "zstd_raw_block", b"\x28\xb5\x2f\xfd\x20\x05\x29\0\0hello"
    yield "a.zst", "zstd_window_32", zstd_raw(b"hello", b"\x78")
    yield "a.zst", "zstd_window_64", zstd_raw(b"hello", b"\x80")
    yield "txt", "text", "é".encode()
    for path in sorted((DATA / "08_encoders").iterdir()):
        if path.suffix in (".rle", ".seg8", ".seg16", ".seg24", ".seg32", ".npy") and path.stat().st_size < 300:
            yield path.suffix[1:], "real_" + path.name, path.read_bytes()


def fields():
    for field, name, data in field_seeds():
        yield name, bytes([FIELD_NAMES.index(field)]) + data


# --- Compressed data and lists of URLs ------------------------------------------------------

TEXT = b"some text, some more text\n" * 3


def gzip_stored(data, flags=0, fields=b""):
    """One stored member: any version of zlib would write the same bytes."""
    return (b"\x1f\x8b\x08" + bytes([flags]) + b"\0\0\0\0\0\x03" + fields + b"\1" +
            struct.pack("<HH", len(data), len(data) ^ 0xffff) + data +
            struct.pack("<II", zlib.crc32(data), len(data)))


def zstd_raw(data, window=b"\x38"):
    """One frame with one raw block."""
    return (b"\x28\xb5\x2f\xfd\x00" + window + struct.pack("<I", len(data) << 3 | 1)[:3] + data)


def filters():
    fixed = bytes.fromhex("1f8b08000000000002034b4c4a4e494d4bcfc8cccacec9cdcb2f282c2a2e292d"
                          "2bafa8ac0200bd50274c1a000000")
    xz = lzma.compress(TEXT)
    skip = b"\x5a\x2a\x4d\x18\4\0\0\0skip"
    plain = {
        "empty": b"", "text": TEXT, "gzip": gzip_stored(TEXT), "gzip_fixed": fixed,
        "gzip_fields": gzip_stored(TEXT, 0x1c, b"\2\0ab" + b"name\0" + b"comment\0"),
        "gzip_members": gzip_stored(b"a") + gzip_stored(b"") + gzip_stored(b"b"),
        "gzip_padded": gzip_stored(b"a") + bytes(5),
        "gzip_garbage": gzip_stored(b"a") + b"garbage", "gzip_cut": gzip_stored(TEXT)[:-3],
        "bzip2": bz2.compress(TEXT), "bzip2_joined": bz2.compress(b"a") + bz2.compress(b""),
        "bzip2_cut": bz2.compress(TEXT)[:20], "xz": xz, "xz_joined": xz + bytes(4) + xz,
        "xz_padding_odd": xz + bytes(3), "xz_cut": xz[:-5],
        "lzma": lzma.compress(TEXT, format=lzma.FORMAT_ALONE), "zstd": zstd_raw(TEXT),
        "zstd_frames": zstd_raw(b"a") + skip + zstd_raw(b"b"), "zstd_skip": skip,
        "zstd_window": zstd_raw(b"a", b"\xa8"), "zstd_cut": zstd_raw(TEXT)[:9],
    }
    for i, (name, data) in enumerate(plain.items()):
        yield name, bytes([6 * (i % 4)]) + data
    for i, name in enumerate(("text", "gzip", "bzip2", "xz", "zstd")):
        yield f"{name}_named", bytes([1 + i]) + plain[name]
    for name in ("gzip_fixed", "gzip_fields", "gzip_members", "gzip_padded", "gzip_cut"):
        yield f"{name}_named", bytes([2]) + plain[name]


def urls():
    texts = ["", "x.tar", "train_{0000..0031}.tar", "{0..10..5}", "{a..e}", "{z..A..3}", "{b}",
             "{a,b{1,2},}", "a::b{1,2}", "::", "{", "}", "}{", "}{{a,b}", "\\{a,b\\}", "{a\\,b,c}", "\\",
             "{-01..3}", "{1..99999999999999999999}", "{0..999999}{0..9}", "{{{{a,b}}}}", "{,}",
             "http://user:secret@host/x?sig=1#f", "s3://bucket/k y", "pipe:cat x | wc", "pipe:A=b c",
             "file:///tmp/a%20b", "file:%", "file://localhost/x", "-", "c:olon", "\x1b[31m"]
    for i, text in enumerate(texts):
        yield f"{i:02}", text.encode()


def requests():
    """Addresses of tarn browse; after a NUL a Range header."""
    texts = ["", "/", "/token/", "/token/page?from=60&count=60", "/t/raw?i=3&field=jpg&save=1\0bytes=0-99",
             "/t/page?f=size:1:2048:jpg&f=is:3:clsx&f=has:a%26b&order=shuffle&seed=-7", "/t/page?f=num:-1.5e3:2:a:b",
             "/t/x?f=problems&f=lacks:json&f=width:1:99:png&f=height:0:5:jpg", "/t/%2e%2e/x", "/t/a?b=%00", "/t/a?b=%f", "/t/a?b=%ff",
             "/t/a?b=%c3%a9+c", "/a%zz/", "//", "/t?x", "/t/?&&a&=b&a=b=c", "/t/a?i=18446744073709551616", "/t/?" + "a&" * 70,
             "/t/page?f=is:99:x", "/t/page?f=is:1:\xc3\xa9", "/\0bytes=-5", "/\0bytes=7-", "/\0bytes=9-3", "/\0bytes=0-1,3-4"]
    for i, text in enumerate(texts):
        yield f"{i:02}", text.encode("latin-1")


def answers():
    whole = (b"HTTP/1.1 206 Partial Content\r\nContent-Length: 100\r\netag: \"v1\"\r\n"
             b"Content-Range: bytes 50-149/150\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n")
    error = b"<Error><Code>NoSuchKey</Code><Message>The key does not exist.</Message></Error>"
    yield "partial", whole
    yield "redirected", b"HTTP/1.1 302 Found\r\nETag: x\r\n\r" + whole
    yield "http2", b"HTTP/2 200 \r\ncontent-length:5\r\n\nhello"
    yield "missing", b"HTTP/1.1 404 Not Found\r\n\n" + error
    yield "moved", b"HTTP/1.1 301 M\r\nx-amz-bucket-region: eu-west-1\r\n\n" + error
    yield "unknown_total", b"HTTP/1.0 206\nContent-Range: bytes 0-1/*\n"
    yield "too_large", b"HTTP/1.1 99999999999999999999 x\nContent-Length: 99999999999999999999\n"
    yield "long_etag", b"HTTP/1.1 200 OK\nETag: " + b"x" * 300 + b"\n"
    yield "cut_tag", b"HTTP/1.1 500 X\n\n<Code>half</Code><Message>open"
    yield "control", b"HTTP/1.1 403 X\n\n<Code>\x1b[31m</Code><Message>\xff\0</Message>"


def journals():
    """The lines between the first line and the checksum, which the target adds."""
    index = "%064x" % 0x1234 * 2
    texts = ["", "-\n", "-\n+train_0000.tar\n", "-\n+train_0000.tar\n+train_0001.tar\n",
             "-\n+train_0000.tar\n-train_0000.tar\n-train_0001.tar\n", "-\n-train-7.tar\n",
             f"{index}\n+train_0002.tar\n", "-\n+../train_0000.tar\n", "-\n-/train_0.tar\n",
             "-\n+.train_0000.tar\n", "-\n+val_0000.tar\n", "-\n+train.tar\n", "-\n+train_1",
             "-\n*train_0000.tar\n", "-\n\n+train_0000.tar\n", "\n", "-\n+train_ä.tar\n",
             "-\n+train_0000.tar\0x\n", "-\n+train_0.tar\n+train_0.tar\n", "-\n+\n-\n"]
    for i, text in enumerate(texts):
        yield f"{i:02}", text.encode()
    whole = b"tarn commit 1\n-\n+train_0000.tar\n"
    yield "whole", whole + b"%08x\n" % crc32c(whole)


def states():
    """States of the target's datasets: rows, and mixes of two sources."""
    def state(epoch=3, position=5, counts=None, used=None, chain="CHAIN", more=""):
        mix = f'"counts": {counts}, "used": {used}, ' if counts else ""
        return (f'{{"tarn": 2, "data": DATA, {mix}"chain": {chain}, "epoch": {epoch}, '
                f'"position": {position}{more}}}')

    texts = [state(), state(position=20), state(position=36), state(position=37), state(2**64 - 1),
             state(2**64 - 2), state(-1), state(chain='"shuffle(seed=8)"'), state(more=', "x": 1'),
             state(counts=[11, 25], used=[36, 80]), state(counts=[11, 25], used=[0, 0]),
             state(counts=[11, 25], used=[2**63 - 1, 2**63 - 1], position=0),
             state(counts=[5, 5], used=[7, 9]), state(counts=[5, 5], used=[7, 9], position=10),
             state(counts=[2**62, 2**62], used=[2**62, 2**62]), state(counts=[1], used=[1]),
             state(counts=[11, 25], used=[36, 80]).replace("[36", "[[36]"),
             state(2**58, 0, [5, 5], [7, 9]), '{"tarn": 3}', "{}", "[]", ""]
    for i, text in enumerate(texts):
        yield f"{i:02}", text.encode()


def manifests():
    """One byte for the kind, and the text."""
    texts = [(0, "key,txt,bin\na,hello,b.bin\nb,@a.txt,b.bin\n"),
             (0, 'key,"a ""b""",cls\r\nx,"two\nlines",3\r\n\r\ny,"",4'),
             (0, "key,txt\na,1\na,2\n"), (0, "key,txt\na\n"), (0, 'key,txt\na,"open'),
             (0, "\ufeffkey,txt\na,@@at\n"), (0, "txt,txt\n1,2\n"), (0, ""),
             (1, "key\ttxt\tbin\na\thello\tb.bin\n"), (1, "txt\nno key\n"),
             (2, '{"key": "a", "txt": "hello", "json": {"x": [1, 2.5]}, "cls": 3}\n'
                 '{"key": "b", "bin": "b.bin", "txt": "@a.txt"}\n'),
             (2, '{"key": "a", "txt": "1"}\n\n{"key": "a.b", "txt": "2"}\n{"key": 5, "cls": 5}'),
             (2, '{"key": "a\\u0000b", "txt": "x"}\n'), (2, '[1]\n'), (2, '{"key": "a", "txt": '),
             (2, '{"key": "../a", "txt": "x", "bin": "../../etc/hostname"}\n'),
             (3, '{"file": "a.txt", "name": "a", "n": 1}\n{"file": "b.bin", "name": null, "n": 2}\n'),
             (3, '{"file": "a.txt", "n": 1}\n{"file": "b.bin", "n": "two", "more": [true]}\n'),
             (3, '{"file": "a.txt\\u0000b", "n": 1}\n'), (3, '{"n": 1}\n'),
             (3, '{"file": "missing.bin", "n": 1}\n'), (3, '{"file": "a.txt"}\n'),
             (4, '["kea.txt", "tui.txt"]'), (4, '["kea.txt", "emu.txt", "kea.cls"]'), (4, "[]"),
             (4, '[1, null]'), (4, '{"kea": 1}'), (4, '["d/moa.txt", ""]')]
    for i, (kind, text) in enumerate(texts):
        yield f"{i:02}", bytes([kind]) + text.encode()


def listings():
    """Answers of stores; the first byte chooses S3, Google, Azure or Hugging Face."""
    entry = "<Contents><Key>%s</Key><ETag>&quot;0f&quot;</ETag><Size>%s</Size></Contents>"
    texts = [(0, "<?xml version='1.0'?>\n<ListBucketResult xmlns=\"x\">" + entry % ("a+b%2Fc", 5) + entry % ("d/", 0) +
              "<EncodingType>url</EncodingType><IsTruncated>false</IsTruncated></ListBucketResult>"),
             (0, "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>" +
              entry % ("b", 1) + entry % ("a", 2) + "</ListBucketResult>"),
             (0, "<ListBucketResult>" + entry % ("%00", 5) + "</ListBucketResult>"),
             (0, "<ListBucketResult>" + entry % ("x", "-1") + "</ListBucketResult>"),
             (0, "<a:b xmlns:a='c'><!-- d --><e f = \"g\"/><![CDATA[<h>]]>&#x41;&#66;&lt;&bad;</a:b>"),
             (0, "<!DOCTYPE x [<!ENTITY a 'b'>]><x>&a;</x>"), (0, "<a>" * 20), (0, "<a></b>"), (0, "<a/><b/>"),
             (1, "<ListBucketResult>" + entry % ("a&amp;b&#10;", 7) + "</ListBucketResult>"),
             (2, "\ufeff<?xml version='1.0' encoding='utf-8'?><EnumerationResults><Blobs><Blob><Name>a b</Name>"
              "<Properties><Etag>0x8D</Etag><Content-Length>9</Content-Length></Properties></Blob></Blobs>"
              "<NextMarker>m</NextMarker></EnumerationResults>"),
             (3, '[{"type": "file", "path": "a.tar", "size": 3, "oid": "0"}, {"type": "directory", "path": "d"}]'),
             (3, '[{"type": "file", "path": 5}]'), (3, "{}"), (3, '[{"type": "file", "path": "a\\u0000b", "size": 1}]')]
    for i, (store, text) in enumerate(texts):
        yield f"{i:02}", bytes([store]) + text.encode()


def corpus():
    """Every (target, {name: bytes})."""
    for target, seeds in (("tar", archives()), ("header", headers()), ("names", names()),
                          ("taridx", indexes()), ("json", json_texts()),
                          ("codec", fields()), ("samples", streams()), ("filter", filters()),
                          ("urls", urls()), ("browse", requests()), ("http", answers()), ("gnz", array_files()),
                          ("journal", journals()), ("order", states()), ("image", images()),
                          ("manifest", manifests()), ("jxl", jxl_images()),
                          ("listing", listings())):
        yield target, dict(seeds)


def write_shards(folder):
    for name, shards in FOLDS.items():
        for file, number in shards.items():
            (folder / file).write_bytes(SHARDS[number][0])
            os.utime(folder / file, (0, 0))
        (folder / f"{name}.taridx").write_bytes(Fold(name).index())
        (folder / f"{name}.tarsum").write_bytes(Fold(name).sums())


def check(tarn):
    old = [f"{target}/{name}" for target, seeds in corpus()
           for name in dict(seeds.items() - archives_of.read(target).items())]
    for name in old:
        print(f"{name} in fuzz/corpus is not what make_corpus.py writes", file=sys.stderr)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_shards(folder)
        verified = subprocess.run([tarn, "verify", folder], check=False).returncode == 0
        composed = {path: path.read_bytes() for path in folder.glob("*.tar[is]*")}
        for path in composed:
            path.unlink()
        subprocess.run([tarn, "index", "-q", "--sums", folder], check=True)
        same = [path.read_bytes() == data or print(f"{path.name} is not what tarn index writes", file=sys.stderr)
                for path, data in composed.items()]
    return 0 if verified and not old and len(same) == 2 * len(FOLDS) and all(same) else 1


def main():
    assert tuple(crc32c(s[0]) for s in SHARDS) == CRCS, [hex(crc32c(s[0])) for s in SHARDS]
    if len(sys.argv) == 3 and sys.argv[1] == "--check":
        return check(sys.argv[2])
    for target, seeds in corpus():
        archives_of.write(target, {**archives_of.read(target), **seeds})
    return 0


if __name__ == "__main__":
    sys.exit(main())

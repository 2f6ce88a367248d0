"""Tar archives made by hand, block by block, valid or invalid."""

BLOCK = 512
END = bytes(2 * BLOCK)
USTAR, GNU, V7 = b"ustar\x0000", b"ustar  \0", bytes(8)


def ramp(size):
    """Bytes that differ from their neighbours, in blocks that differ from theirs."""
    return bytes(i * 7 % 251 for i in range(size))


def padded(data):
    return data + bytes(-len(data) % BLOCK)


def checksum(block, signed=False):
    rest = block[:148] + b" " * 8 + block[156:]
    return sum(b - 256 if signed and b > 127 else b for b in rest)


def summed(block, signed=False):
    """The block with its checksum field filled in."""
    return block[:148] + b"%06o\0 " % (checksum(block, signed) & 0o777777) + block[156:]


FIELDS = {"name": (0, 100), "mode": (100, 8), "uid": (108, 8), "gid": (116, 8),
          "size": (124, 12), "mtime": (136, 12), "sum": (148, 8), "type": (156, 1),
          "link": (157, 100), "magic": (257, 8), "uname": (265, 32), "gname": (297, 32),
          "major": (329, 8), "minor": (337, 8), "prefix": (345, 155), "tail": (500, 12)}
DEFAULTS = {"mode": b"0000644", "uid": b"0000000", "gid": b"0000000",
            "mtime": b"00000000000", "magic": USTAR, "type": b"0"}


def header(name=b"a.txt", size=0, signed=False, **fields):
    """One header block. A size that is a number is written in octal; other fields are bytes. A
    field called at123 puts bytes at offset 123. The checksum is correct unless given as sum=."""
    block = bytearray(BLOCK)
    values = dict(DEFAULTS, name=name, size=b"%011o" % size if isinstance(size, int) else size)
    values.update(fields)
    for key, value in values.items():
        start, length = FIELDS[key] if key in FIELDS else (int(key[2:]), len(value))
        assert len(value) <= length, key
        block[start:start + len(value)] = value
    return bytes(block) if "sum" in fields else summed(bytes(block), signed)


def member(name=b"a.txt", data=b"hello\n", **fields):
    fields.setdefault("size", len(data))
    return header(name, **fields) + padded(data)


def record(key, value):
    """One pax record; its length includes itself."""
    text = b" %s=%s\n" % (key, value)
    length = len(text) + 1
    while len(b"%d" % length) + len(text) != length:
        length = len(b"%d" % length) + len(text)
    return b"%d" % length + text


def counted(text):
    """A record as given, with its length in place of ##."""
    return text.replace(b"##", b"%02d" % len(text))


def pax(*records, kind=b"x", **fields):
    """An extended header. Each record is bytes as given or a (key, value) pair."""
    body = b"".join(r if isinstance(r, bytes) else record(*r) for r in records)
    return member(b"././@PaxHeader", body, type=kind, **fields)


def pax_global(*records, **fields):
    return pax(*records, kind=b"g", **fields)


def gnu_long(name, kind=b"L", end=b"\0"):
    return member(b"././@LongLink", name + end, type=kind, magic=GNU)


def base256(value, length=12):
    if value < 0:
        return (value + (1 << 8 * length)).to_bytes(length, "big")
    return bytes([0x80]) + value.to_bytes(length - 1, "big")


B = member(b"b.txt", b"second\n")
INSIDE = member(b"inside.txt", b"not a member\n")  # as the payload of something


def archive(*parts):
    return b"".join(parts) + B + END

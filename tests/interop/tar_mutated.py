"""Archives generated from a seed and then damaged, usually with correct checksums."""
import random
import re

from tar_by_hand import (BLOCK, FIELDS, GNU, INSIDE, USTAR, V7, checksum, gnu_long, header,
                         member, pax, pax_global, record, summed)
from tar_odd import NUMBERS


class Generator:
    """An archive as a list of blocks, generated and damaged from one seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.story = []

    def name(self):
        r = self.random
        stem = r.choice((b"a", b"bb", b"0001", b"c d", b"x_y", "é".encode(), b"n" * 60))
        ext = r.choice((b".txt", b".jpg", b".JSON", b".seg.png", b"", b".cls"))
        folder = r.choice((b"", b"", b"", b"d/", b"./", b"d.e/f/", b"p" * 70 + b"/"))
        return (folder + stem + ext)[-100:].lstrip(b"/")

    def data(self):
        size = self.random.choice((0, 0, 1, 6, 511, 512, 513, 1024, 1500))
        if self.random.random() < 0.3:  # what a misled reader would list
            return (INSIDE * 3)[:size]
        return self.random.randbytes(size)

    def extended(self, data, fields):
        """Headers before a member; may change the member's own fields."""
        r = self.random
        what = r.choice(("none", "none", "none", "mtime", "path", "size", "L", "g", "many"))
        if what == "mtime":
            return pax((b"mtime", b"%d.%d" % (r.randrange(1 << 31), r.randrange(1000))))
        if what == "path":
            return pax((b"path", self.name()))
        if what == "size":
            fields["size"] = r.choice((0, len(data)))
            return pax((b"size", b"%d" % len(data)))
        if what == "L":
            return gnu_long(self.name() + b"l" * r.choice((0, 120, 500)))
        if what == "g":
            return pax_global((b"comment", b"c" * r.randrange(1, 60)))
        if what == "many":
            records = [(b"path", self.name()), (b"size", b"%d" % len(data)),
                       (b"mtime", b"5.25"), (b"uid", b"%d" % r.randrange(1 << 22)),
                       (b"comment", b"\n=\n"), (b"uname", b"me")]
            r.shuffle(records)
            return pax(*records[:r.randrange(1, 7)])
        return b""

    def member(self):
        r = self.random
        magic = r.choice((USTAR, USTAR, USTAR, GNU, V7))
        kind = r.choice((b"0",) * 8 + (b"\0", b"\0", b"7", b"1", b"2", b"3", b"5", b"5", b"6"))
        fields = {"type": kind, "magic": magic}
        data = self.data() if kind in b"0\x007" else b""
        if kind in b"12":
            fields["link"] = b"a.txt"
        if magic == USTAR and r.random() < 0.2:
            fields["prefix"] = r.choice((b"pre", b"q" * 155, b"pre/fix"))
        name = self.name() + (b"/" if kind == b"5" else b"")
        front = self.extended(data, fields)
        return front + member(name[:100], data, **fields)

    def build(self):
        r = self.random
        whole = b"".join(self.member() for _ in range(r.randrange(1, 5)))
        whole += bytes(BLOCK * r.choice((1, 2, 2, 2, 5)))
        blocks = [bytearray(whole[i:i + BLOCK]) for i in range(0, len(whole), BLOCK)]
        for _ in range(r.choice((0, 1, 1, 1, 1, 2, 2, 3))):
            r.choice((self.set_field, self.set_field, self.set_field, self.set_field,
                      self.set_byte, self.edit_text, self.edit_text, self.move_blocks,
                      self.splice))(blocks)
        whole = b"".join(blocks)
        if r.random() < 0.05:
            cut = r.randrange(len(whole) + 1)
            whole = whole[:cut]
            self.story.append(f"cut to {cut} bytes")
        return whole

    @staticmethod
    def headers(blocks):
        """The blocks that are headers by their checksum."""
        found = []
        for i, block in enumerate(blocks):
            try:
                if any(block) and int(block[148:154], 8) == checksum(bytes(block)):
                    found.append(i)
            except ValueError:
                pass
        return found

    def field_value(self, field, block):
        r = self.random
        start, length = FIELDS[field]
        if field in ("mode", "uid", "gid", "size", "mtime", "major", "minor"):
            if field == "size" and r.random() < 0.5:
                return b"%011o" % r.choice((0, 1, 511, 512, 513, 1024, 1536, 1 << 33))
            value = r.choice(list(NUMBERS.values()))
            return value if len(value) <= length else value[:1] + value[1 - length:]
        if field == "type":
            return bytes([r.choice(b"0012345677xxgLKSVMDNXAZ\0\0\0")])
        if field == "magic":
            return r.choice((USTAR, GNU, V7, b"ustar\0\0\0", b"ustar\x0001", b"ustar   ",
                             b"ustar000", b"ustar \0\0"))
        if field == "tail":
            return r.choice((b"tar\0", b"\0" * 8 + b"tar\0", b"x" * 12))
        if field == "prefix" and r.random() < 0.4:
            text = bytearray(155)
            at = r.choice((0, 12, 24, 36, 41, 137, 138, 130))
            text[at:at + 11] = b"%011o" % r.choice((0, 6, 512, 1024))
            return bytes(text)
        text = r.choice((b"", self.name(), b"/", b"./", self.name() + b"/", b"a\0b", b"\xff.x",
                         bytes(block[start:start + length]).rstrip(b"\0")[:-1]))
        return text[:length]

    def set_field(self, blocks):
        headers = self.headers(blocks)
        if not headers:
            return
        at = self.random.choice(headers)
        field = self.random.choice(("name", "size", "size", "type", "type", "magic", "prefix",
                                    "link", "mode", "uid", "gid", "mtime", "major", "minor",
                                    "uname", "tail"))
        start, length = FIELDS[field]
        value = self.field_value(field, blocks[at])
        blocks[at][start:start + length] = value.ljust(length, b"\0")
        blocks[at][:] = summed(bytes(blocks[at]))
        self.story.append(f"block {at}: {field} = {value!r}")

    def set_byte(self, blocks):
        """Changes any byte of a header; usually corrects the checksum."""
        headers = self.headers(blocks)
        if not headers:
            return
        at, where = self.random.choice(headers), self.random.randrange(BLOCK)
        value = self.random.choice((0, 1, 9, 32, 47, 48, 49, 55, 56, 127, 128, 255))
        blocks[at][where] = value
        right = self.random.random() < 0.85 and not 148 <= where < 156
        if right:
            blocks[at][:] = summed(bytes(blocks[at]))
        self.story.append(f"block {at}: byte {where} = {value}, "
                          f"sum {'' if right else 'not '}right")

    def edit_text(self, blocks):
        """Changes the body of an extended header, and usually its size."""
        r = self.random
        bodies = [i + 1 for i in self.headers(blocks)
                  if blocks[i][156] in b"xgLK" and i + 1 < len(blocks)]
        if not bodies:
            return
        at = r.choice(bodies)
        text = bytes(blocks[at]).rstrip(b"\0")
        choice = r.randrange(5)
        if choice == 0 and text:
            where = r.randrange(len(text))
            new = r.choice((b"\0", b" ", b"=", b"\n", b"9", b"/"))
            text = text[:where] + new + text[where + 1:]
        elif choice == 1:
            key = r.choice((b"path", b"size", b"size", b"mtime", b"linkpath", b"hdrcharset",
                            b" path", b"\tsize", b"path ", b"GNU.sparse.name", b"atime",
                            b"SCHILY.realsize", b"uid", b"gid", b"ctime", b"SUN.holesdata",
                            b"uname"))
            value = r.choice((b"0", b"512", b"1024", b"p.txt", b"", b"-1", b"BINARY", b"1.5",
                              b".5", b"a\0b", b"p/", b"0 512 1024", b"\xff\xfe"))
            text += record(key, value)
        elif choice == 2:
            text = re.sub(rb"\d+ ", lambda m: b"%d " % (int(m[0]) + r.choice((-1, 1))), text, 1)
        elif choice == 3:
            text = text + r.choice((b"\0", b"\n", b" ", b"x"))
        else:
            text = text * 2
        text = text[:BLOCK]
        blocks[at][:] = text.ljust(BLOCK, b"\0")
        if size_too := r.random() < 0.7:
            size = len(text) + (blocks[at - 1][156] in b"LK")
            blocks[at - 1][124:136] = b"%011o\0" % size
            blocks[at - 1][:] = summed(bytes(blocks[at - 1]))
        self.story.append(f"block {at}: text {text!r}{'' if size_too else ', size as it was'}")

    def move_blocks(self, blocks):
        r = self.random
        at = r.randrange(len(blocks))
        what = r.choice(("drop", "double", "swap", "zero", "header"))
        if what == "drop":
            del blocks[at]
        elif what == "double":
            blocks.insert(at, bytearray(blocks[at]))
        elif what == "swap":
            other = r.randrange(len(blocks))
            blocks[at], blocks[other] = blocks[other], blocks[at]
        elif what == "zero":
            blocks.insert(at, bytearray(BLOCK))
        else:
            blocks.insert(at, bytearray(header(b"new.txt", r.choice((0, 0, 512)))))
        self.story.append(f"{what} at block {at}")

    def splice(self, blocks):
        """Adds an extended header before some header."""
        headers = self.headers(blocks)
        if not headers:
            return
        at = self.random.choice(headers)
        extra = self.random.choice((pax((b"path", b"s.txt")), pax((b"size", b"512")), pax(),
                                    gnu_long(b"long.txt"), gnu_long(b"t", b"K"),
                                    pax_global((b"comment", b"s")), pax((b"comment", b"s"))))
        blocks[at:at] = [bytearray(extra[i:i + BLOCK]) for i in range(0, len(extra), BLOCK)]
        self.story.append(f"extended header {chr(extra[156])} before block {at}")

"""Seeds for fuzz_image: eight bytes that choose the steps, then an image. The compressed images
were made with Pillow once and are stored here, so that the corpus does not depend on its version.
"""
import base64
import struct
import zlib

FILES = {
    "jpeg":
        "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDACgcHiMeGSgjISMtKygwPGRBPDc3PHtYXUlkkYCZlo+AjIqgtObDoKrarYqMyP/L2u71"
        "////m8H////6/+b9//j/2wBDASstLTw1PHZBQXb4pYyl+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4"
        "+Pj4+Pj4+Pj/wAARCAATACEDASIAAhEBAxEB/8QAGQAAAwEBAQAAAAAAAAAAAAAAAAMFAQIE/8QAJhAAAQMCBQMFAAAAAAAAAAAA"
        "AAECAwQhESMxcrESE8EzQVFhgf/EABYBAQEBAAAAAAAAAAAAAAAAAAMEAf/EAB0RAAEEAgMAAAAAAAAAAAAAAAABAgMxEyEUMkL/"
        "2gAMAwEAAhEDEQA/AJcbblGlbdDxxtuUaVt0Nli0Y6hNM3IftXgcxt4f3wZTNyH7V4GtTBIVX2xXgJ0WyhLUn9ICu+/4aA+BRuQw"
        "7j1KVLqgAUy0Quo5pvQftXg2a0cH2q+AAP0JJ1cSQACwE//Z",
    "jpeg_grey":
        "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDACgcHiMeGSgjISMtKygwPGRBPDc3PHtYXUlkkYCZlo+AjIqgtObDoKrarYqMyP/L2u71"
        "////m8H////6/+b9//j/wAALCAATACEBAREA/8QAGAAAAwEBAAAAAAAAAAAAAAAAAQMFAgT/xAAmEAABAwIFAwUAAAAAAAAAAAAA"
        "AQIDBCERIzFysRITwTNBUWGB/9oACAEBAAA/AJcbblGlbdAUzch+1eBzG3h/fBx9IqNtyjStugKZuQ/avA1qYJCq+2K8Ervv+Gm4"
        "9SlS6oZpvQftXgM1o4PtV8Ek/9k=",
    "jpeg_progressive":
        "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDACgcHiMeGSgjISMtKygwPGRBPDc3PHtYXUlkkYCZlo+AjIqgtObDoKrarYqMyP/L2u71"
        "////m8H////6/+b9//j/2wBDASstLTw1PHZBQXb4pYyl+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4"
        "+Pj4+Pj4+Pj/wgARCAAJABEDASIAAhEBAxEB/8QAFgABAQEAAAAAAAAAAAAAAAAAAgMA/8QAFQEBAQAAAAAAAAAAAAAAAAAAAQL/"
        "2gAMAwEAAhADEAAAAZVNKThmP//EABgQAAMBAQAAAAAAAAAAAAAAAAABAiFB/9oACAEBAAEFAoQlhBw//8QAFhEBAQEAAAAAAAAA"
        "AAAAAAAAAAET/9oACAEDAQE/AY1r/8QAFxEAAwEAAAAAAAAAAAAAAAAAAAECE//aAAgBAgEBPwGpRmj/xAAUEAEAAAAAAAAAAAAA"
        "AAAAAAAg/9oACAEBAAY/Al//xAAaEAACAgMAAAAAAAAAAAAAAAAAARAhETGx/9oACAEBAAE/IbigZRuLmP/aAAwDAQACAAMAAAAQ"
        "2B//xAAWEQADAAAAAAAAAAAAAAAAAAABECH/2gAIAQMBAT8Qgp//xAAVEQEBAAAAAAAAAAAAAAAAAAAQEf/aAAgBAgEBPxCo/wD/"
        "xAAbEAACAQUAAAAAAAAAAAAAAAAAAbEQITFhkf/aAAgBAQABPxCxOQ5RvMJKlU//2Q==",
    "jpeg_inks":
        "/9j/7gAOQWRvYmUAZAAAAAAA/9sAQwCgbniMeGSgjIKMtKqgvvD///Dc3PD/////////////////////////////////////////"
        "/////////////////8AAFAgACAAIBEMRAE0RAFkRAEsRAP/EABYAAQEBAAAAAAAAAAAAAAAAAAEAA//EABoQAAICAwAAAAAAAAAA"
        "AAAAAAABAhEDEzL/2gAOBEMATQBZAEsAAD8AsapWEeUGo2P/2Q==",
    "webp_lossy":
        "UklGRpIAAABXRUJQVlA4IIYAAAAQBQCdASohABMAP5m60185LyolKqwDIDMJbAC/axL3cFBJkKumTFIlaWqZ7W1jo8YAAP7o76Py"
        "dzOsBzua5k2Y8tV5HLZpNn2hwTOGu3QMsmkBzhCEJd7Q3ws9D6ab208o4ax5UPZ7zfJ9scP9V7XG4UMVzGQohPIP6B79XzgDAOYu"
        "AAAAAA==",
    "webp_lossless":
        "UklGRlwAAABXRUJQVlA4TFAAAAAvIIAEABegkG0EGMPM6F6xYBqCmEN0CQlSTPSu8x/8FwEMIklqdHZABRKyCdxEB1lmhn8FEf0P"
        "AJIIih7e04Ue2oH+IGd8SCt+CkN1vcluAA==",
    "webp_alpha":
        "UklGRlgAAABXRUJQVlA4WAoAAAAQAAAABQAABAAAQUxQSAoAAAABB9CmiAhERP8DVlA4ICgAAACQAQCdASoGAAUACQCsJbACdADB"
        "xrwA/bJq6WMb5GKSEdNfa/nLwAAA",
}


def filtered_png(width, height, depth, colour, rows, *more, interlace=0):
    """Each row begins with its filter number."""
    def part(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    # A stored block, so that the bytes do not depend on the version of zlib.
    raw = b"".join(rows)
    flat = b"\x78\1\1" + struct.pack("<HH", len(raw), len(raw) ^ 0xffff) + raw
    return (b"\x89PNG\r\n\x1a\n" +
            part(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlace)) +
            b"".join(part(*m) for m in more) +
            part(b"IDAT", flat + struct.pack(">I", zlib.adler32(raw))) + part(b"IEND", b""))


def plain_images():
    """(name, bytes)"""
    yield "png_grey", filtered_png(5, 3, 8, 0, [bytes([f]) + bytes(range(9, 14)) for f in (0, 1, 2)])
    yield "png_rgb_filters", filtered_png(4, 5, 8, 2, [bytes([f]) + bytes(range(f, f + 12)) for f in range(5)])
    yield "png_rgba", filtered_png(3, 2, 8, 6, [b"\4" + bytes(range(200, 212))] * 2)
    yield "png_grey_alpha", filtered_png(2, 2, 8, 4, [b"\0abcd"] * 2)
    yield "png_deep", filtered_png(2, 2, 16, 2, [b"\0" + bytes(range(12))] * 2)
    yield "png_bits", filtered_png(11, 2, 1, 0, [b"\0\xaa\xa0"] * 2)
    yield "png_palette", filtered_png(4, 1, 2, 3, [b"\0\x1b"], (b"PLTE", bytes(range(12))), (b"tRNS", b"\0\x80"))
    yield "png_interlaced", filtered_png(2, 2, 8, 0, [b"\0a", b"\0b", b"\0cd"], interlace=1)
    yield "png_huge", filtered_png(0x7fffffff, 0x7fffffff, 8, 6, [b"\0abc"])
    yield "png_tall", filtered_png(1, 30000, 8, 0, [b"\0a"] * 30000)[:3000]
    yield "ppm", b"P6\n3 2\n255\n" + bytes(range(18))
    yield "ppm_grey_deep", b"P5 2 2 65535\n" + bytes(range(8))
    yield "ppm_long", b"P5 2000 1 255\n" + bytes(2000)
    yield "jpeg_tables_only", b"\xff\xd8\xff\xd9"
    yield "nothing", b""
    yield "png_paeth_pairs", filtered_png(5, 6, 8, 2, [b"\4" + bytes(range(7 * y, 7 * y + 15)) for y in range(6)])
    yield "png_paeth_rgba", filtered_png(2, 4, 8, 6, [b"\4" + bytes(range(9 * y, 9 * y + 8)) for y in range(4)])
    yield "png_deep_rgba", filtered_png(2, 3, 16, 6, [bytes([f]) + bytes(range(f, f + 16)) for f in (4, 3, 1)])
    yield "png_deep_grey_alpha", filtered_png(2, 2, 16, 4, [b"\3abcdefgh", b"\4hgfedcba"])
    yield "png_key", filtered_png(3, 1, 8, 2, [b"\0abcabcxyz"], (b"tRNS", b"\0a\0b\0c"))
    yield "png_deep_key", filtered_png(2, 1, 16, 0, [b"\0abcd"], (b"tRNS", b"ab"))
    yield "png_two_bits", filtered_png(5, 2, 2, 0, [b"\1\x1b\xc0", b"\2\xff\0"], (b"tRNS", b"\0\3"))
    yield "png_palette_4", filtered_png(3, 2, 4, 3, [b"\0\x01\xf0", b"\4\x10\0"], (b"PLTE", bytes(range(30))))
    yield "png_interlaced_rgb", filtered_png(3, 3, 8, 2, [b"\0abc", b"\4abc", b"\1abcdef", b"\3abc", b"\4cba", b"\2abcdefghi"],
                                            interlace=1)
    yield "png_interlaced_deep", filtered_png(9, 2, 16, 0, [b"\0abab", b"\1ab", b"\2ababab", b"\3abababab", b"\4" + b"ab" * 9],
                                             interlace=1)
    yield "png_bad_filter", filtered_png(2, 1, 8, 0, [b"\5ab"])
    yield "png_row_too_few", filtered_png(2, 2, 8, 0, [b"\0ab"])
    yield "png_row_too_many", filtered_png(2, 1, 8, 0, [b"\0ab", b"\0ab"])
    yield "png_idats", filtered_png(2, 1, 8, 0, [b"\0ab"], (b"tEXt", b"a\0b"), (b"IDAT", b""))


def exif(orientation, order, kind=3):
    """A directory of two entries in an order of bytes: "<" or ">"."""
    entry = struct.pack(order + "HHI", 0x0112, kind, 1) + struct.pack(order + ("H2x" if kind == 3 else "I"), orientation)
    return ((b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "IH", 8, 2) +
            struct.pack(order + "HHII", 0x010f, 2, 4, 0) + entry + bytes(4))


def turned_images():
    """Images with EXIF data: in a segment, a chunk of PNG, and a chunk of WebP."""
    jpeg = base64.b64decode(FILES["jpeg"])
    for orientation, order, kind in ((6, ">", 3), (3, "<", 3), (7, "<", 4), (9, ">", 3)):
        body = b"Exif\0\0" + exif(orientation, order, kind)
        yield f"jpeg_turned_{orientation}", (jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body + jpeg[2:])
    rows = [bytes([f]) + bytes(range(f, f + 12)) for f in range(5)]
    yield "png_turned", filtered_png(4, 5, 8, 2, rows, (b"eXIf", exif(5, ">")))
    yield "png_turned_deep", filtered_png(2, 3, 16, 0, [b"\0abcd"] * 3, (b"eXIf", exif(8, "<")))
    webp = base64.b64decode(FILES["webp_alpha"]) + b"EXIF" + struct.pack("<I", 38) + exif(2, "<")
    yield "webp_turned", webp[:4] + struct.pack("<I", len(webp) - 8) + webp[8:20] + b"\x18" + webp[21:]


# width, height, channels with fit, shorter and type; layout, reduce, flip and upright; draw; decoding
STEPS = [b"\7\x05\x0d\7\1\2\0\0", b"\x1f\x1f\x2d\2\1\2\2\4", b"\3\3\x19\3\1\2\3\1",
         b"\0\0\x05\2\0\0\1\1", b"\2\1\x46\5\0\0\3\0", b"\2\1\x01\0\0\0\2\0"]


def images():
    files = [(name, base64.b64decode(text)) for name, text in FILES.items()] + list(plain_images())
    for i, (name, data) in enumerate(files):
        yield name, STEPS[i % len(STEPS)] + data
        yield name + "_2", STEPS[(i + 3) % len(STEPS)] + data
    for i, (name, data) in enumerate(turned_images()):
        for k in (0, 3):
            steps = STEPS[(i + k) % len(STEPS)]
            yield f"{name}_{k}", steps[:3] + bytes([steps[3] | 8]) + steps[4:] + data

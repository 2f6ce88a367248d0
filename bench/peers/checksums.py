"""Checksums of whole files: the usual method for formats without checksums."""
import zlib

from . import base

READ_SIZE = 1 << 20


def pieces(folder):
    buffer = memoryview(bytearray(READ_SIZE))
    for path in base.shards(folder):
        with open(path, "rb", buffering=0) as file:
            while size := file.readinto(buffer):
                yield buffer[:size]


class Peer(base.Peer):
    kinds = ("d1", "d2")
    reads = "tarn"
    settings = "`zlib.crc32` in a Python loop over pieces of 1 MB."

    def version(self):
        return f"zlib {zlib.ZLIB_RUNTIME_VERSION}"

    def verify(self, folder, data):
        crc = 0
        for piece in pieces(folder):
            crc = zlib.crc32(piece, crc)

"""Reads a tar through cffi: all declarations come from the installed headers.

usage: cffi_read.py PREFIX FILE.tar

The members must be those that Python's tarfile finds, and every function that the headers
declare must be in the library.
"""
import re
import subprocess
import sys
import tarfile

import cffi


def declarations(prefix):
    """What the headers declare, as base.h says to print it."""
    return subprocess.run(["cc", "-E", "-P", "-DTARN_BINDINGS", f"-I{prefix}/include", "-include", "tarn/tarn.h",
                           "-x", "c", "/dev/null"], stdout=subprocess.PIPE, check=True, text=True).stdout


class Tar:
    """One archive, opened with options that the library itself initialised."""

    def __init__(self, ffi, lib, path):
        self.ffi, self.lib = ffi, lib
        self.err = ffi.new("tarn_error *")
        options = ffi.new("tarn_tar_options *")
        lib.tarn_tar_options_init(options, ffi.sizeof("tarn_tar_options"))
        assert options.size == ffi.sizeof("tarn_tar_options")
        out = ffi.new("tarn_tar **")
        self.check(lib.tarn_tar_open(path.encode(), options, out, self.err))
        self.tar = out[0]

    def check(self, status):
        if status != self.lib.TARN_OK:
            text = self.ffi.new("char[2200]")
            self.lib.tarn_error_text(self.err, text, 2200)
            raise OSError(self.ffi.string(text).decode())

    def members(self):
        """Pairs of name and payload, to the end."""
        member = self.ffi.new("tarn_member *")
        while True:
            status = self.lib.tarn_tar_next(self.tar, member, self.err)
            if status == self.lib.TARN_END:
                return
            self.check(status)
            data = self.ffi.new("char[]", member.size)
            self.check(self.lib.tarn_tar_read(self.tar, member, 0, data, member.size, self.err))
            yield self.ffi.string(member.name, member.name_len).decode(), self.ffi.buffer(data)[:]

    def count(self):
        counts = self.ffi.new("tarn_tar_counts *")
        self.lib.tarn_tar_counts_get(self.tar, counts, self.ffi.sizeof("tarn_tar_counts"))
        return counts.members


def main():
    prefix, path = sys.argv[1:]
    text = declarations(prefix)
    ffi = cffi.FFI()
    ffi.cdef(text)
    lib = ffi.dlopen(f"{prefix}/lib/libtarn.so")
    names = set(re.findall(r"\b(tarn_\w+)\(", re.sub(r"typedef [^;{]*;", "", text)))
    assert len(names) > 100, len(names)
    for name in names:
        getattr(lib, name)
    tar = Tar(ffi, lib, path)
    with tarfile.open(path) as other:
        wanted = [(m.name, other.extractfile(m).read()) for m in other if m.isreg()]
    assert wanted and list(tar.members()) == wanted
    assert tar.count() == len(wanted)
    lib.tarn_tar_close(tar.tar)
    assert lib.tarn_value_integer(7).integer == 7
    print(len(names), "functions,", len(wanted), "members")


main()

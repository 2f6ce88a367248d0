"""Reads a tar and loads a dataset through cffi: all declarations come from the installed headers.

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


class Library:
    """Calls with one error struct, and options that the library itself initialised."""

    def __init__(self, ffi, lib):
        self.ffi, self.lib = ffi, lib
        self.err = ffi.new("tarn_error *")

    def options(self, name):
        options = self.ffi.new(f"{name} *")
        getattr(self.lib, f"{name}_init")(options, self.ffi.sizeof(name))
        assert options.size == self.ffi.sizeof(name)
        return options

    def make(self, handle, function, *args):
        """What a function gives out through its last pointer before the error."""
        out = self.ffi.new(f"{handle} **")
        self.check(function(*args, out, self.err))
        return out[0]

    def check(self, status):
        if status != self.lib.TARN_OK:
            text = self.ffi.new("char[2200]")
            self.lib.tarn_error_text(self.err, text, 2200)
            raise OSError(self.ffi.string(text).decode())

class Tar(Library):
    """One archive."""

    def __init__(self, ffi, lib, path):
        super().__init__(ffi, lib)
        self.tar = self.make("tarn_tar", lib.tarn_tar_open, path.encode(), self.options("tarn_tar_options"))

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


class Loaded(Library):
    """The samples of an archive but the first, through a slice of a dataset and a loader."""

    def __init__(self, ffi, lib, path):
        super().__init__(ffi, lib)
        options = self.options("tarn_dataset_options")
        options.scan = True
        whole = self.make("tarn_dataset", lib.tarn_dataset_open, path.encode(), options)
        info = ffi.new("tarn_dataset_info *")
        lib.tarn_dataset_info_get(whole, info, ffi.sizeof("tarn_dataset_info"))
        part = self.make("tarn_dataset", lib.tarn_dataset_slice, whole, 1, 1, info.samples - 1)
        options = self.options("tarn_loader_options")
        options.batch = info.samples
        fields = ffi.new("tarn_load_field[]", info.fields)
        for number in range(info.fields):
            fields[number].field = lib.tarn_dataset_field(part, number)
            setattr(fields[number], "as", lib.TARN_LOAD_BYTES)
        options.fields, options.n_fields = fields, info.fields
        self.loader = self.make("tarn_loader", lib.tarn_loader_open, part, options)
        lib.tarn_dataset_close(part)
        lib.tarn_dataset_close(whole)

    def members(self):
        """Pairs of name and payload of the only batch, column by column."""
        batch = self.make("tarn_batch", self.lib.tarn_loader_next, self.loader, 2**32 - 1)
        for number in range(batch.n_columns):
            column = batch.columns[number]
            assert column.kind == self.lib.TARN_COLUMN_BYTES, column.kind
            for i in range(batch.count):
                key, field = batch.keys + batch.key_offsets[i], self.ffi.string(column.field)
                data = self.ffi.buffer(column.data + column.offsets[i], column.offsets[i + 1] - column.offsets[i])
                yield f"{self.ffi.string(key).decode()}.{field.decode()}", data[:]
        self.lib.tarn_batch_release(batch)
        self.lib.tarn_loader_close(self.loader)


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
    first = wanted[0][0].split(".")[0]
    rest = [(name, data) for name, data in wanted if name.split(".")[0] != first]
    assert rest and sorted(Loaded(ffi, lib, path).members()) == sorted(rest)
    print(len(names), "functions,", len(wanted), "members")


main()

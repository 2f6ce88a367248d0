"""Makes headers of an imagined older release: the last member of some structs is not there yet.

usage: older_headers.py INCLUDE-FOLDER COPY

Structs that are nested in others, structs that nest them, and structs that the library
fills.
"""
import pathlib
import re
import shutil
import sys

SHORTER = {
    "codec.h": ["tarn_decode_options"],
    "dataset.h": ["tarn_dataset_options", "tarn_dataset_info", "tarn_field_form",
                  "tarn_field_set"],
    "folds.h": ["tarn_listed_fold", "tarn_folds"],
    "index.h": ["tarn_index_options"],
    "loader.h": ["tarn_loader_options"],
    "order.h": ["tarn_order_options"],
    "source.h": ["tarn_sink_options"],
    "write.h": ["tarn_tar_writer_options", "tarn_fold_writer_options", "tarn_written"],
    "tar.h": ["tarn_tar_counts"],
}


def shorten(text, struct):
    """The text without the struct's last member."""
    found = re.search(r"typedef struct %s \{\n(.*?)\n\} %s;" % (struct, struct), text, re.DOTALL)
    members = re.sub(r"/\*.*?\*/", "", found[1], flags=re.DOTALL)
    lines = [line for line in members.split(";") if line.strip()]
    assert len(lines) > 2, struct
    body = ";".join(lines[:-1]) + ";"
    return text[:found.start(1)] + body + text[found.end(1):]


def main():
    source, target = map(pathlib.Path, sys.argv[1:])
    shutil.copytree(source, target)
    for name, structs in SHORTER.items():
        header = target / "tarn" / name
        text = header.read_text(encoding="utf-8")
        for struct in structs:
            text = shorten(text, struct)
        header.write_text(text, encoding="utf-8")


main()

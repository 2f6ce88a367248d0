"""The contestants of bench/peers.py, one file each, and the modules that run them and show the results.

A contestant is a class derived from base.Peer; base.py says what its functions have to do. To add one,
write a file with such a class and put its name into PEERS below: the runs, the tables, the plots and
the check that all read the same bytes find it there. Leave out
functions that a package cannot provide; `lacks` gives the reason in a few words, for the page.

  base.py     the definition of a contestant
  data.py     the samples, the same for all
  rows.py     shared by contestants that return rows of arrays
  images.py   decoding by Pillow, for contestants without a decoder
  work.py     one measurement, in a separate process
  contest.py  starts those processes in turns, watches their memory, keeps the results
  svg.py      plots
  tables.py   tables; aims.py and texts.py: the text beside them
  pages.py    the pages under docs/benchmarks
"""
import importlib

PEERS = {
    "tarn": "tarn_fold", "tarn.iac": "tarn_pack", "tarn.gnz": "tarn_arrays",
    "webdataset": "webdataset_", "wids": "wids_", "mosaicml-streaming": "mosaic",
    "litdata": "litdata_", "array-record": "arrayrecord", "lance": "lance_", "dali": "dali", "spdl": "spdl_",
    "files": "files", "pyarrow": "arrow", "numpy": "memmap", "npz": "npz",
    "iatro-base-iac": "iac", "GNU tar": "gnu_tar", "bsdtar": "bsdtar",
    "zlib.crc32": "checksums", "md5": "md5",
}
OURS = ("tarn", "tarn.iac", "tarn.gnz")


def load(name, way=""):
    """The contestant of this name, set to one of its ways of working."""
    return importlib.import_module(f"peers.{PEERS[name]}").Peer(way)

"""The contestants of bench/peers.py, one file each, and the code that runs them and shows the results.

A contestant is a class derived from base.Peer; base.py describes its functions. To add one, write a file with such
a class and add its name to PEERS below: the runs, the tables, the plots and the check that all contestants read
the same bytes find it there. Leave out functions for which a package has no equivalent, and give a short reason
for the page in `lacks`.

  base.py     the definition of a contestant
  data.py     the samples, the same for all
  rows.py     shared code of contestants that return rows of arrays
  images.py   decoding with Pillow, for contestants without their own decoder
  work.py     one measurement, in its own process
  contest.py  runs those processes alternately, watches their memory, keeps the results
  svg.py      plots
  tables.py   tables; aims.py and texts.py: the text next to them
  pages.py    the pages under docs/benchmarks
"""
import importlib

PEERS = {
    "tarn": "tarn_fold", "tarn.iac": "tarn_pack", "tarn.gnz": "tarn_arrays",
    "webdataset": "webdataset_", "wids": "wids_", "mosaicml-streaming": "mosaic",
    "litdata": "litdata_", "array-record": "arrayrecord", "lance": "lance_",
    "files": "files", "pyarrow": "arrow", "numpy": "memmap", "npz": "npz",
    "iatro-base-iac": "iac", "GNU tar": "gnu_tar", "bsdtar": "bsdtar",
    "zlib.crc32": "checksums", "md5": "md5",
}
OURS = ("tarn", "tarn.iac", "tarn.gnz")


def load(name, way=""):
    """The contestant of this name, set to one of its ways of working."""
    return importlib.import_module(f"peers.{PEERS[name]}").Peer(way)

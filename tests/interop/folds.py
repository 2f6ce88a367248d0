"""Shared by tests that examine shards and folds with other programs: as WebDataset reads them, as
bytes, and as a scan finds them."""
import hashlib

import webdataset as wds

from checks import check, tarn


def read_real(*paths):
    """Every sample as the real WebDataset reads it, [(key, {field: data})]."""
    return [(s["__key__"], {k: v for k, v in s.items() if not k.startswith("__")})
            for s in wds.WebDataset([str(p) for p in paths], shardshuffle=False, empty_check=False)]


def read_fold(folder, fold="train"):
    return read_real(*sorted(folder.glob(f"{fold}_*.tar")))


def digests(folder):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir())}


def same_as_scan(folder, name, fold="train"):
    """The index and the sums must equal those that tarn index --sums makes from the shards."""
    written = digests(folder)
    tarn("index", "-q", "--sums", f"{folder}:{fold}")
    scanned = digests(folder)
    check(f"{name}: the index and sums that a scan makes", written == scanned,
          [k for k in written if written[k] != scanned.get(k)])
    tarn("verify", f"{folder}:{fold}")
    check(f"{name}: nothing hidden is left", not any(n.startswith(".") for n in scanned), scanned)

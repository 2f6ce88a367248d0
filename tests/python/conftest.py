"""Test data, created in a fresh folder."""
import io
import json
import os
import pathlib
import tarfile

import numpy as np
import pytest

import tarn

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DATA = ROOT / "tests/data"

BIRDS = [("auk", "An auk.", 0), ("jay", "A jay.", 1), ("kiwi", "A kiwi.", 2),
         ("owl", "An owl.", 3)]


def write_tar(path, members):
    """Writes a plain tar of (name, bytes)."""
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as out:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            out.addfile(info, io.BytesIO(data))
    return path


def make_birds(folder):
    """Writes four samples with txt, cls and json as one fold with an index."""
    folder.mkdir(parents=True, exist_ok=True)
    members = []
    for key, text, number in BIRDS:
        members += [(f"{key}.txt", text.encode()), (f"{key}.cls", str(number).encode()),
                    (f"{key}.json", json.dumps({"name": key, "n": number}).encode())]
    write_tar(folder / "train_0.tar", members)
    assert tarn._tarn.main(["tarn", "index", str(folder)]) == 0
    return folder


@pytest.fixture(scope="session")
def birds(tmp_path_factory):
    return str(make_birds(tmp_path_factory.mktemp("birds") / "birds"))


@pytest.fixture(scope="session")
def many(tmp_path_factory):
    """2000 samples with bin (1 KB that depends on its number) and cls, in four shards with an
    index."""
    folder = tmp_path_factory.mktemp("many") / "many"
    folder.mkdir()
    for shard in range(4):
        members = []
        for i in range(shard * 500, shard * 500 + 500):
            members += [(f"s{i:05d}.bin", payload(i)), (f"s{i:05d}.cls", str(i % 7).encode())]
        write_tar(folder / f"train_{shard:04d}.tar", members)
    assert tarn._tarn.main(["tarn", "index", "--sums", str(folder)]) == 0
    return str(folder)


def payload(i):
    return i.to_bytes(4, "little") * 256


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    """16 images, jpg and png, of known sizes."""
    numpy = pytest.importorskip("numpy")
    folder = tmp_path_factory.mktemp("pictures") / "pictures"
    folder.mkdir()
    members = []
    for i in range(16):
        pixels = picture(numpy, i)
        members += [(f"p{i:02d}.jpg", tarn._tarn.encode("jpg", pixels)),
                    (f"p{i:02d}.png", tarn._tarn.encode("png", pixels)),
                    (f"p{i:02d}.npy", tarn._tarn.encode("npy", pixels.astype("f4")))]
    write_tar(folder / "train_0.tar", members)
    assert tarn._tarn.main(["tarn", "index", str(folder)]) == 0
    return str(folder)


def picture(numpy, i):
    down, right = numpy.mgrid[0:20 + i, 0:30 + i]
    return numpy.stack([down * 3, right * 2, down + right + i], axis=2).astype("u1")


HANG = 600  # seconds to wait for another process; only a hanging test takes this long


def sanitized():
    return "TARN_SANITIZED" in os.environ


def same(one, other):
    """Whether values, types and shapes are equal at every level."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[name], other[name]) for name in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if type(one).__module__ == "torch":
        import torch
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, (np.ndarray, np.generic)):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if type(one).__module__.startswith("PIL"):
        return (one.mode, one.size, one.tobytes()) == (other.mode, other.size, other.tobytes())
    return bool(one == other)


@pytest.fixture
def leave_while_writing(tmp_path, monkeypatch):
    """Writes two samples with each writer and changes to the folder "there" between the two."""
    (tmp_path / "there").mkdir()

    def samples():
        yield {"__key__": "a", "txt": "1"}
        monkeypatch.chdir(tmp_path / "there")
        yield {"__key__": "b", "txt": "2"}

    def write(*makers):
        for make in makers:
            monkeypatch.chdir(tmp_path)
            with make() as out:
                out.write_many(samples())

    return write

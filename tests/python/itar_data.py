"""Fixtures and test folds that the tests of tarn.itar's readers share."""
import json
import os
import pathlib
import random

from conftest import write_tar

import tarn

DATA = pathlib.Path(os.environ["TARN_DATA"])
_P1, _P2, _MASK = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 2**64 - 1


def vectors(name):
    return json.loads((DATA / name).read_text())


def make_fold(root, shards, fold="train", index=True):
    """Writes shards of [(name, bytes)] as <fold>_0.tar and so on, with an index."""
    root.mkdir(parents=True, exist_ok=True)
    for number, members in enumerate(shards):
        write_tar(root / f"{fold}_{number}.tar", members)
    if index:
        assert tarn._tarn.main(["tarn", "index", f"{root}:{fold}"]) == 0
    return root


def _lane(word):
    """One lane of XXH64, seed 0, third of four, after eight bytes."""
    mixed = int.from_bytes(word, "little") * _P2 & _MASK
    return ((mixed << 31 | mixed >> 33) & _MASK) * _P1 & _MASK


def colliding_stems(count, seed=1):
    """Returns different stems of 64 letters with the same XXH64: the second eight bytes of a lane
    cancel the difference in its first eight."""
    letters = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_=+()[]{}~^&%$#@!"
    chance = random.Random(seed)
    inverse = pow(_P2, -1, 2**64)
    first = bytes(chance.choices(letters, k=8))
    second = int.from_bytes(bytes(chance.choices(letters, k=8)), "little")
    pairs = [(first, second.to_bytes(8, "little"))]
    while len(pairs) < count:
        other = bytes(chance.choices(letters, k=8))
        made = (second + (_lane(first) - _lane(other)) * inverse) & _MASK
        word = made.to_bytes(8, "little")
        if other != first and all(byte in letters for byte in word):
            pairs.append((other, word))
    return [("a" * 16 + one.decode() + "b" * 24 + two.decode() + "c" * 8) for one, two in pairs]

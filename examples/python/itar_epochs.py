"""Reads a dataset as a training loop on several ranks would, without a model: epochs, a stop, and
    resuming.

  itar_epochs.py [LOC NAME]

Without arguments, it writes a small dataset into a scratch folder.
"""
import sys
import tempfile

from tarn.itar import iTarDataset, iTarDatasetWriter


def write(loc: str, name: str) -> None:
    with iTarDatasetWriter(name, loc, folds=["train"], shard_maxfiles=40) as out:
        for number in range(100):
            out.fold("train").write(f"s{number:03d}", {"txt": f"sample {number}", "cls": number % 7})


def read(loc: str, name: str, world: int = 2) -> None:
    ranks = [iTarDataset(name, loc, "train", ["_idx", "cls"], internal_seed=7)
             .set_shuffle(rounds=4).set_distributed(rank, world) for rank in range(world)]
    for epoch in range(2):
        seen: list[int] = []
        for ds in ranks:
            ds.set_epoch(epoch)
            seen += [number for number, _ in ds]
        print(f"epoch {epoch}: {len(seen)} samples on {world} ranks, {len(set(seen))} different, "
              f"rank 0 begins with {seen[:5]}")
    state = ranks[0].state_dict()
    again = iTarDataset(name, loc, "train", ["_idx", "cls"]).set_distributed(0, world)
    again.load_state_dict(state)
    print("the same after a restart:", list(again) == list(ranks[0]))


if len(sys.argv) > 2:
    read(sys.argv[1], sys.argv[2])
else:
    with tempfile.TemporaryDirectory() as scratch:
        write(scratch, "small")
        read(scratch, "small")

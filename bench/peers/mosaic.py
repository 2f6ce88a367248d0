"""MosaicML Streaming: MDS shards."""
import logging
import sys
import types

from transformers import BatchEncoding, BatchFeature  # noqa: F401  looks for torchvision itself: first

for name in ("torchvision", "torchvision.datasets", "torchvision.transforms", "torchvision.transforms.functional"):
    # Imported for its image classes, which are not used here; the PyPI build needs the CUDA build of torch.
    sys.modules.setdefault(name, types.ModuleType(name))
sys.modules["torchvision.datasets"].VisionDataset = object
sys.modules["torchvision.transforms.functional"].to_tensor = None

import streaming  # noqa: E402
import streaming.base.util  # noqa: E402

from . import base, images  # noqa: E402

logging.getLogger("streaming").setLevel(logging.ERROR)


class Images(streaming.StreamingDataset):
    def __getitem__(self, i):
        sample = super().__getitem__(i)
        return images.pair(sample["jpg"], sample["json"])


def numbers(samples):
    """As a dict with a tensor: it counts the samples of a batch by its first value."""
    import torch
    return {"ids": torch.tensor([base.sample_id(s["bin"]) for s in samples])}


class Peer(base.Peer):
    package = "mosaicml-streaming"
    kinds = ("d1", "d2", "tiny")
    settings = ("`MDSWriter` with columns of bytes, uncompressed, shards of 64 MB (the default), no hashes; "
                "`StreamingDataset` on the local folder; epochs with `StreamingDataLoader`, two workers and the "
                "default shuffle `py1e`.")
    lacks = {"batches": "one sample at a time", "index": "written with the shards", "verify": "hashes were not written"}

    def write(self, folder, samples, data):
        with streaming.MDSWriter(out=folder, columns={f: "bytes" for f in data.fields}) as out:
            for _, fields in samples:
                out.write(fields)

    def open(self, folder, data, cls=streaming.StreamingDataset, **more):
        streaming.base.util.clean_stale_shared_memory()
        return cls(local=folder, batch_size=data.batch, **more)

    def iterate(self, handle):
        return iter(handle)

    def getter(self, handle):
        return handle.__getitem__

    def epoch(self, folder, data, batch, workers):
        import torch
        torch.set_num_threads(1)
        handle = self.open(folder, data, Images, shuffle=True, shuffle_seed=7)
        return streaming.StreamingDataLoader(handle, batch_size=batch, num_workers=workers, persistent_workers=True,
                                             collate_fn=images.stack)

    def loader(self, folder, data, batch):
        handle = self.open(folder, data, shuffle=True, shuffle_seed=7)
        return streaming.StreamingDataLoader(handle, batch_size=batch, num_workers=2, collate_fn=numbers)

    def begin(self, folder, data, batch, steps):
        loader = self.loader(folder, data, batch)
        batches = iter(loader)
        ids = [i for _ in range(steps) for i in next(batches)["ids"].tolist()]
        return ids, loader.state_dict()

    def resume(self, folder, data, batch, state):
        loader = self.loader(folder, data, batch)
        loader.load_state_dict(state)
        for found in loader:
            yield found["ids"].tolist()

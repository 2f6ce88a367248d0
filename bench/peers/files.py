"""A folder of files, a thousand samples in a subfolder, and torch's DataLoader with Pillow."""
import pathlib

from . import base, images


class Samples:
    def __init__(self, stems, draft):
        self.stems, self.draft = stems, draft

    def __len__(self):
        return len(self.stems)

    def __getitem__(self, i):
        stem = self.stems[i]
        return images.pair(read(stem + ".jpg"), read(stem + ".json"), self.draft)


def read(path):
    with open(path, "rb", buffering=0) as file:
        return file.read()


class Peer(base.Peer):
    package = "torch"
    kinds = ("d2",)
    settings = ("Plain files, listed once when opened; epochs with torch's `DataLoader`, two persistent workers, "
                "Pillow; also with Pillow's `draft`, which lets libjpeg omit detail.")
    ways = {"epoch": ("Pillow", "Pillow with draft")}
    lacks = {"batches": "one sample at a time", "resume": "torch's `DataLoader` has no state",
             "index": "the file system is the index", "verify": "no checksums"}

    def version(self):
        import importlib.metadata as found
        return f"torch {found.version('torch')}, pillow {found.version('pillow')}"

    def write(self, folder, samples, data):
        for i, (key, fields) in enumerate(samples):
            place = pathlib.Path(folder) / f"{i // 1000:04d}"
            if i % 1000 == 0:
                place.mkdir(parents=True)
            for field, value in fields.items():
                with open(f"{place}/{key}.{field}", "wb", buffering=0) as out:
                    out.write(value)

    def open(self, folder, data):
        self.fields = data.fields
        return [str(path.with_suffix("")) for path in sorted(pathlib.Path(folder).glob(f"*/*.{data.fields[0]}"))]

    def iterate(self, handle):
        return map(self.getter(handle), range(len(handle)))

    def getter(self, handle):
        return lambda i: {field: read(f"{handle[i]}.{field}") for field in self.fields}

    def epoch(self, folder, data, batch, workers):
        return images.loader(Samples(self.open(folder, data), self.way.endswith("draft")), batch, workers)

"""iatro-base-iac, whose files tarn also reads and writes."""
import pathlib

import pyarrow as pa
from iatro import iac

from . import base


class Peer(base.Peer):
    package = "iatro-base-iac"
    kinds = ("pack",)
    settings = ("`build_pack_streaming`; `PackReader` with its defaults: `read_payload`, `read_payload_views`, "
                "`read_payloads` for batches.")
    ways = {"random": ("bytes", "views")}

    def write(self, folder, samples, data):
        pathlib.Path(folder).mkdir(parents=True)
        iac.build_pack_streaming(f"{folder}/x.iac", {"codec": "none"}, pa.table({"slide_id": ["s"]}),
                                 pa.table({"i": list(range(data.samples))}), (fields["bin"] for _, fields in samples))

    def open(self, folder, data):
        return iac.PackReader(f"{folder}/x.iac")

    def iterate(self, handle):
        return iac.iter_payloads(handle.package_path)

    def getter(self, handle):
        if self.way == "views":
            return lambda i: handle.read_payload_views([i])[0]
        return handle.read_payload

    def batcher(self, handle):
        return lambda numbers: handle.read_payloads(numbers.tolist())

    def plain(self, sample, data):
        return (bytes(sample),)

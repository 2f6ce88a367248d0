"""tarn's reader and writer of IAC files."""
import pathlib

import tarn.iac

from . import base


class Peer(base.Peer):
    kinds = ("pack",)
    settings = ("`build_pack_streaming`; `read_payload`, `view`, and `batch`, which reads many records into one "
                "buffer.")
    ways = {"random": ("bytes", "views")}

    def version(self):
        return tarn.__version__

    def write(self, folder, samples, data):
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
        tarn.iac.build_pack_streaming(f"{folder}/x.iac", {"codec": "none"}, {"slide_id": ["s"]},
                                      {"i": list(range(data.samples))},
                                      (fields["bin"] for _, fields in samples), overwrite=True)

    def open(self, folder, data):
        return tarn.iac.open(f"{folder}/x.iac")

    def iterate(self, handle):
        return map(handle.read_payload, range(len(handle)))

    def getter(self, handle):
        return handle.view if self.way == "views" else handle.read_payload

    def batcher(self, handle):
        return handle.batch

    def plain(self, sample, data):
        return (bytes(sample),)

    def verify(self, folder, data):
        tarn.iac.verify(f"{folder}/x.iac")

"""Code shared by the contestants GNU tar and bsdtar."""
import shutil
import subprocess

from . import base


class Program(base.Peer):
    kinds = ("d1", "d2", "tiny")
    reads = "tarn"
    program = ""
    lacks = {"sequential": "writes files or one stream, not samples", "random": "no random access",
             "batches": "no random access", "verify": "no checksums of contents"}

    def version(self):
        if not shutil.which(self.program):
            raise FileNotFoundError(f"{self.program} is not installed")
        return subprocess.run([self.program, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]

    def index(self, folder, data):
        with open(f"{folder}.listing", "w") as listing:
            for path in base.shards(folder):
                subprocess.run([self.program, "tf", path], check=True, stdout=listing)

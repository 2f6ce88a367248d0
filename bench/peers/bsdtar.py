"""libarchive's bsdtar."""
from .tar_program import Program


class Peer(Program):
    program = "bsdtar"
    settings = "`bsdtar tf` for one shard after another, the list written to a file."

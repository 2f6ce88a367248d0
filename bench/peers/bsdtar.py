"""libarchive's bsdtar."""
from .tar_program import Program


class Peer(Program):
    program = "bsdtar"
    settings = "`bsdtar tf` of one shard after the other, the list written to a file."

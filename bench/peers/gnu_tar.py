"""GNU tar."""
from .tar_program import Program


class Peer(Program):
    program = "tar"
    settings = "`tar tf` of one shard after the other, the list written to a file."

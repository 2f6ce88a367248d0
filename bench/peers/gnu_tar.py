"""GNU tar."""
from .tar_program import Program


class Peer(Program):
    program = "tar"
    settings = "`tar tf` for one shard after another, the list written to a file."

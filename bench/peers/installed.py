"""Prints as JSON which contestants can run here, their versions, and what they can do.

  python -m peers.installed NAME...
"""
import importlib.metadata
import json
import sys

from peers import load
from peers.work import WORK

FUNCTIONS = ("write", "open", "iterate", "getter", "batcher", "epoch", "begin", "resume", "index", "verify")


def about(name):
    try:
        peer = load(name)
        version = peer.version() if hasattr(peer, "version") else importlib.metadata.version(peer.package)
    except Exception as error:  # the page shows any exception of the import as the reason
        return {"ok": False, "why": f"{type(error).__name__}: {error}"[:300], "reads": ""}
    return {"ok": True, "version": version, "kinds": peer.kinds, "ways": peer.ways, "reads": peer.reads,
            "settings": peer.settings, "lacks": peer.lacks, "does": [f for f in FUNCTIONS if peer.does(f)]}


assert WORK
print("\n" + json.dumps({name: about(name) for name in sys.argv[1:]}))

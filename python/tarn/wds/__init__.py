"""The webdataset API on top of tarn's readers and writers.

Programs written for `webdataset` need only a different import:

>>> import tarn.wds as wds
>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     with wds.ShardWriter(folder + "/x-%04d.tar", maxcount=2, verbose=0) as sink:
...         for i in range(4):
...             sink.write({"__key__": f"k{i}", "cls": i, "txt": f"number {i}"})
...     dataset = wds.WebDataset(folder + "/x-{0000..0001}.tar", shardshuffle=False)
...     print([pair for pair in dataset.decode().to_tuple("cls", "txt")][-1])
(3, 'number 3')

Arguments, defaults, results and exceptions are the same as in webdataset. docs/compat.md lists the
differences: no code in a data file is run unless the program allows it (`allow_pickles`,
`allow_pipes`), damage
raises an exception instead of ending the data early, and a shard gets its final name only when it
is complete.
"""

from __future__ import annotations

import importlib
from typing import Any

from . import (autodecode, cache, compat, extradatasets, filters, handlers, mix, pipeline, shardlists,
               tariterators, utils, writer)
from .autodecode import (Continue, Decoder, DecodingError, gzfilter, handle_extension, imagehandler,
                         pytorch_weights_only, torch_audio, torch_loads, torch_video, unpickle)
from .cache import FileCache, LRUCleanup, pipe_cleaner
from .compat import FluidInterface, FluidWrapper, WebDataset, WebLoader
from .extradatasets import MockDataset, with_epoch, with_length
from .filters import (Cached, LMDBCached, associate, batched, decode, detshuffle, extract_keys, getfirst,
                      info, listed, log_keys, map, map_dict, map_tuple, pipelinefilter, rename,
                      rename_keys, rsample, select, shuffle, slice, to_tuple, transform_with,
                      unbatched, unlisted, xdecode)
from .gopen import gopen, gopen_schemes
from .handlers import (ignore_and_continue, ignore_and_stop, reraise_exception,
                       warn_and_continue, warn_and_stop)
from .mix import RandomMix, RoundRobin
from .pipeline import DataPipeline
from .shardlists import (MultiShardSample, ResampledShards, SimpleShardList, non_empty, resampled, shardspec,
                         single_node_only, split_by_node, split_by_worker)
from .tariterators import ReadError, tarfile_samples, tarfile_to_samples
from .utils import PipelineStage, repeatedly
from .writer import ShardWriter, TarWriter, numpy_dumps, torch_dumps
from .._policy import NotAllowedError, allow_pickles, allow_pipes

__version__ = "1.0.2"  # of the webdataset whose names these are


def __getattr__(name: str) -> Any:
    """Imports the modules that load NumPy or torch when they are used."""
    if name in ("tenbin", "pytorch"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Cached", "Continue", "DataPipeline", "Decoder", "DecodingError", "FileCache",
    "FluidInterface", "FluidWrapper", "LMDBCached", "LRUCleanup", "MockDataset",
    "MultiShardSample", "NotAllowedError", "PipelineStage", "RandomMix", "ReadError",
    "ResampledShards", "RoundRobin", "ShardWriter", "SimpleShardList", "TarWriter", "WebDataset",
    "WebLoader", "allow_pickles", "allow_pipes", "associate", "batched", "decode", "detshuffle", "extract_keys", "getfirst",
    "gopen", "gopen_schemes", "gzfilter", "handle_extension", "ignore_and_continue",
    "ignore_and_stop", "imagehandler", "info", "listed", "log_keys", "map", "map_dict",
    "map_tuple", "non_empty", "numpy_dumps", "pipe_cleaner", "pipelinefilter", "pytorch_weights_only", "rename", "rename_keys",
    "repeatedly", "reraise_exception", "resampled", "rsample", "select", "shardspec", "shuffle",
    "single_node_only", "slice", "split_by_node", "split_by_worker", "tarfile_samples",
    "tarfile_to_samples", "to_tuple", "torch_audio", "torch_dumps", "torch_loads", "torch_video",
    "transform_with", "unbatched", "unlisted", "unpickle", "warn_and_continue", "warn_and_stop",
    "with_epoch", "with_length", "xdecode",
]

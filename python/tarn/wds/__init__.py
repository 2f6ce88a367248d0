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
differences: no code in a data file is run (pickles must be named and `pipe:` URLs allowed), damage
raises an exception instead of ending the data early, and a shard gets its final name only when it
is complete.
"""

from __future__ import annotations

from . import autodecode, filters, handlers, mix, pipeline, shardlists, tariterators, utils, writer
from .autodecode import (Continue, Decoder, DecodingError, gzfilter, handle_extension,
                         imagehandler, torch_audio, torch_loads, torch_video, unpickle)
from .cache import FileCache
from .compat import FluidInterface, FluidWrapper, MockDataset, WebDataset, WebLoader
from .compat import with_epoch, with_length
from .filters import (Cached, associate, batched, decode, detshuffle, extract_keys, getfirst,
                      info, listed, log_keys, map, map_dict, map_tuple, pipelinefilter, rename,
                      rename_keys, rsample, select, shuffle, slice, to_tuple, transform_with,
                      unbatched, unlisted, xdecode)
from .gopen import gopen, gopen_schemes
from .handlers import (ignore_and_continue, ignore_and_stop, reraise_exception,
                       warn_and_continue, warn_and_stop)
from .mix import RandomMix, RoundRobin
from .pipeline import DataPipeline
from .shardlists import (ResampledShards, SimpleShardList, non_empty, resampled, shardspec,
                         single_node_only, split_by_node, split_by_worker)
from .tariterators import ReadError, tarfile_samples, tarfile_to_samples
from .utils import PipelineStage, repeatedly
from .writer import ShardWriter, TarWriter, numpy_dumps, torch_dumps

__all__ = [
    "Cached", "Continue", "DataPipeline", "Decoder", "DecodingError", "FileCache",
    "FluidInterface", "FluidWrapper", "MockDataset", "PipelineStage", "RandomMix", "ReadError",
    "ResampledShards", "RoundRobin", "ShardWriter", "SimpleShardList", "TarWriter", "WebDataset",
    "WebLoader", "associate", "batched", "decode", "detshuffle", "extract_keys", "getfirst",
    "gopen", "gopen_schemes", "gzfilter", "handle_extension", "ignore_and_continue",
    "ignore_and_stop", "imagehandler", "info", "listed", "log_keys", "map", "map_dict",
    "map_tuple", "non_empty", "numpy_dumps", "pipelinefilter", "rename", "rename_keys",
    "repeatedly", "reraise_exception", "resampled", "rsample", "select", "shardspec", "shuffle",
    "single_node_only", "slice", "split_by_node", "split_by_worker", "tarfile_samples",
    "tarfile_to_samples", "to_tuple", "torch_audio", "torch_dumps", "torch_loads", "torch_video",
    "transform_with", "unbatched", "unlisted", "unpickle", "warn_and_continue", "warn_and_stop",
    "with_epoch", "with_length", "xdecode",
]

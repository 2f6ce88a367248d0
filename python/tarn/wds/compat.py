"""WebDataset and its fluent interface: each method adds a stage to a copy of the pipeline."""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

from . import filters, gopen, shardlists, utils
from .autodecode import Decoder, named_handler
from .cache import FileCache, pipe_cleaner, unique_cache_name
from .extradatasets import MockDataset, with_epoch, with_length
from .handlers import Handler, reraise_exception
from .filters import pipelinefilter
from .pipeline import DataPipeline, IterableSource
from .tariterators import group_by_keys, tar_file_expander, tarfile_samples
from .._policy import pipes_allowed

if TYPE_CHECKING:
    from typing import Self


class FluidInterface:
    """Pipeline stages as methods."""

    if TYPE_CHECKING:
        def compose(self, *args: Any) -> Self: ...

    def batched(self, batchsize: int,
                collation_fn: Callable[[list[Any]], Any] | None = filters.default_collation_fn,
                partial: bool = True) -> Self:
        """Groups samples into batches of `batchsize`."""
        return self.compose(filters.batched(batchsize, collation_fn=collation_fn,
                                            partial=partial))

    def unbatched(self) -> Self:
        """Splits batches into samples."""
        return self.compose(filters.unbatched())

    def listed(self, batchsize: int, partial: bool = True) -> Self:
        """Groups samples into lists of `batchsize`."""
        return self.compose(filters.listed(batchsize, partial=partial))

    def unlisted(self) -> Self:
        """Splits lists into samples."""
        return self.compose(filters.unlisted())

    def log_keys(self, logfile: str | None = None) -> Self:
        """Appends the key of each sample to a file."""
        return self.compose(filters.log_keys(logfile))

    def shuffle(self, size: int, **kw: Any) -> Self:
        """Shuffles samples in a buffer of this size."""
        return self if size < 1 else self.compose(filters.shuffle(size, **kw))

    def map(self, f: Callable[[Any], Any], handler: Handler = reraise_exception) -> Self:
        """Applies a function to each sample."""
        return self.compose(filters.map(f, handler=handler))

    def decode(self, *args: Any, pre: Any = None, post: Any = None, only: Any = None,
               partial: bool = False, handler: Handler = reraise_exception) -> Self:
        """Decodes fields. Arguments are image specs ("pil", "torchrgb"), "pickle", "torch_load",
        and functions of a field name and its bytes."""
        handlers = [named_handler(x) if isinstance(x, str) else x for x in args]
        return self.map(Decoder(handlers, pre=pre, post=post, only=only, partial=partial),
                        handler=handler)

    def map_dict(self, handler: Handler = reraise_exception, **kw: Any) -> Self:
        """Applies functions to fields: jpg=function."""
        return self.compose(filters.map_dict(handler=handler, **kw))

    def select(self, predicate: Callable[[Any], Any], **kw: Any) -> Self:
        """Keeps the samples for which a predicate is true."""
        return self.compose(filters.select(predicate, **kw))

    def to_tuple(self, *args: Any, **kw: Any) -> Self:
        """Turns samples into tuples of fields: "jpg;png", "cls", or one space-separated string."""
        return self.compose(filters.to_tuple(*args, **kw))

    def map_tuple(self, *args: Any, handler: Handler = reraise_exception) -> Self:
        """Applies one function to each value of a tuple."""
        return self.compose(filters.map_tuple(*args, handler=handler))

    def slice(self, *args: Any) -> Self:
        """Takes a slice of the stream."""
        return self.compose(filters.slice(*args))

    def rename(self, **kw: Any) -> Self:
        """Renames fields: image="jpg;png"."""
        return self.compose(filters.rename(**kw))

    def rsample(self, p: float = 0.5) -> Self:
        """Keeps each sample with probability p."""
        return self.compose(filters.rsample(p))

    def rename_keys(self, *args: Any, **kw: Any) -> Self:
        """Renames fields by patterns: ("image", "*.jpg")."""
        return self.compose(filters.rename_keys(*args, **kw))

    def extract_keys(self, *args: Any, **kw: Any) -> Self:
        """Turns samples into tuples of the fields that match patterns."""
        return self.compose(filters.extract_keys(*args, **kw))

    def xdecode(self, *args: Any, **kw: Any) -> Self:
        """Decodes fields by patterns."""
        return self.compose(filters.xdecode(*args, **kw))

    def mcached(self) -> Self:
        """Keeps all samples in memory after the first pass."""
        return self.compose(filters.Cached())

    def lmdb_cached(self, *args: Any, **kw: Any) -> Self:
        """Keeps all samples in an LMDB file after the first pass."""
        return self.compose(filters.LMDBCached(*args, **kw))


def check_empty(source: Iterator[Any]) -> Iterator[Any]:
    """Yields all samples; raises ValueError if there are none."""
    samples = iter(source)
    for sample in samples:
        yield sample
        yield from samples
        return
    raise ValueError("No samples found in dataset; perhaps you have fewer shards than workers.\n"
                     "Turn off using empty_check=False in the WebDataset constructor.")


class _ShardReader:
    """The stage that turns shards into samples. It is one object so that samples from the C reader
    reach the consumer without another generator in between."""

    def __init__(self, empty_check: bool, **options: Any) -> None:
        self.empty_check, self.options = empty_check, options

    def __call__(self, shards: Iterator[Any]) -> Iterator[Any]:
        samples = tarfile_samples(shards, **self.options)
        return check_empty(samples) if self.empty_check else samples


def _seed(seed: int | None) -> int:
    if seed is not None:
        return seed
    return int(os.environ.get("WDS_SEED", random.randint(0, 1000000)))


class WebDataset(DataPipeline, FluidInterface):
    """The samples of tar shards, in order, as dicts of bytes.

    >>> import tempfile
    >>> from tarn import wds
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with wds.TarWriter(folder + "/x.tar") as out:
    ...         size = out.write({"__key__": "a", "cls": 1})
    ...     dataset = WebDataset(folder + "/x.tar", shardshuffle=False).decode()
    ...     print([sample["cls"] for sample in dataset])
    [1]

    urls: a string with braces and `::`, or a list. handler: called with each error. shardshuffle:
    the size of the buffer in which shards are shuffled, in a different order each epoch.
    cache_dir: a folder for copies of shards. verbose: warn about skipped members (links, members
    that belong to no sample). url_to_name: names the copies in cache_dir. allow_pipe: let pipe: URLs
    run their command; None means as the program says (`allow_pipes`).
    """

    def __init__(self, urls: Any, handler: Handler = reraise_exception, mode: str | None = None,
                 resampled: bool = False, repeat: bool = False,
                 shardshuffle: bool | int | None = None, cache_size: int = -1,
                 cache_dir: str | None = None, url_to_name: Any = pipe_cleaner, detshuffle: bool = False,
                 nodesplitter: Any = shardlists.single_node_only,
                 workersplitter: Any = shardlists.split_by_worker, select_files: Any = None,
                 rename_files: Any = None, empty_check: bool = True, verbose: bool = False,
                 seed: int | None = None, *, allow_pipe: bool | None = None) -> None:
        super().__init__()
        mode = "resampled" if resampled else mode
        shardshuffle = self._shuffling(shardshuffle, mode)
        self.seed = _seed(seed)
        self.append(self._shards(urls, mode))
        allow_pipe = pipes_allowed(allow_pipe)
        for url in getattr(self.pipeline[0], "urls", ()):
            gopen.check_pipe(gopen.rewrite_url(url), allow_pipe)
        if nodesplitter is not None:
            self.append(nodesplitter)
        if workersplitter:
            self.append(workersplitter)
        if shardshuffle:
            self.append(filters.detshuffle(shardshuffle, seed=self.seed))
        cache_dir = cache_dir or os.environ.get("WDS_CACHE")
        cache_size = int(os.environ.get("WDS_CACHE_SIZE", cache_size))
        if cache_dir is not None and cache_size != 0:
            self._check_cache(cache_dir)
            namer = unique_cache_name if url_to_name in (None, pipe_cleaner) else url_to_name
            cache = FileCache(cache_dir, url_to_name=namer, cache_size=cache_size, handler=handler,
                              cache_cleanup_interval=0, allow_pipe=allow_pipe)
            self.append(cache.copies)
        self.append(_ShardReader(empty_check, handler=handler, select_files=select_files,
                                 rename_files=rename_files, verbose=verbose,
                                 allow_pipe=allow_pipe, local_paths=True))

    @staticmethod
    def _shuffling(shardshuffle: bool | int | None, mode: str | None) -> int:
        if mode == "resampled":
            if shardshuffle:
                warnings.warn("WebDataset(shardshuffle=...) is ignored for resampled datasets",
                              stacklevel=3)
            return 0
        if shardshuffle is None:
            warnings.warn("WebDataset(shardshuffle=...) is None; set explicitly to False or a "
                          "number", stacklevel=3)
        if shardshuffle is True:
            warnings.warn("set WebDataset(shardshuffle=...) to a positive integer or 0 or False",
                          stacklevel=3)
            return 100
        return int(shardshuffle or 0)

    @staticmethod
    def _check_cache(cache_dir: str) -> None:
        if not os.path.exists(os.path.expanduser(cache_dir)):
            raise ValueError(f"cache directory {cache_dir} does not exist")

    @staticmethod
    def _shards(urls: Any, mode: str | None) -> IterableSource:
        if isinstance(urls, dict) or isinstance(urls, str) and urls.endswith((".yaml", ".yml")):
            obsolete: IterableSource = shardlists.MultiShardSample(urls)
            return obsolete
        if isinstance(urls, str) and urls.endswith(".json"):
            raise ValueError("unimplemented")
        if isinstance(urls, str) and urlparse(urls).path.endswith("/"):
            urls = shardlists.archives_in(urls)
        if not isinstance(urls, str) and not utils.is_iterable(urls):
            raise ValueError(f"cannot handle urls of type {type(urls)}")
        if mode == "resampled":
            return shardlists.ResampledShards(urls)
        return shardlists.SimpleShardList(urls)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


class FluidWrapper(DataPipeline, FluidInterface):
    """Any iterable source, with pipeline stages as methods."""

    def __init__(self, initial: Any) -> None:
        super().__init__()
        self.append(initial)


class WebLoader(DataPipeline, FluidInterface):
    """A torch DataLoader, with pipeline stages as methods."""

    def __init__(self, *args: Any, **kw: Any) -> None:
        from torch.utils.data import DataLoader

        super().__init__(DataLoader(*args, **kw))

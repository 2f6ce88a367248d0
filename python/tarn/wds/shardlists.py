"""Choosing the shards to read: brace lists, splitting by node and worker, resampling."""

from __future__ import annotations

import os
import random
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from . import utils
from .filters import pipelinefilter
from .pipeline import IterableSource
from .. import _tarn

Shard = dict[str, Any]


def envsubst(text: str) -> str:
    """Replaces `${NAME}` by the environment variable WDS_NAME, recursively."""

    def look_up(found: re.Match[str]) -> str:
        name = "WDS_" + found[1]
        assert name in os.environ, f"missing environment variable {name}"
        return os.environ[name]

    for _ in range(10):
        changed = re.sub(r"\$\{(\w+)\}", look_up, text)
        if changed == text:
            break
        text = changed
    return text


def expand_urls(urls: str) -> list[str]:
    """Expands a shard list: `::` separators, variables, braces, and patterns of local files.

    >>> expand_urls("a-{000..001}.tar::b.tar")
    ['a-000.tar', 'a-001.tar', 'b.tar']
    """
    return _tarn.expand_urls(envsubst(urls))


def expand_source(source: Any, max_urls: int = int(1e9)) -> list[str]:
    """Returns a string or an iterable of URLs as a list."""
    if isinstance(source, str):
        return expand_urls(source)
    if utils.is_iterable(source):
        return list(islice(source, max_urls))
    raise ValueError(f"cannot handle {type(source)}")


def split_by_node(src: Iterable[Any], group: Any = None) -> Iterator[Any]:
    """Yields every n-th shard, starting at this rank."""
    rank, world, _, _ = utils.pytorch_worker_info(group=group)
    yield from islice(src, rank, None, world)


def single_node_only(src: Iterable[Any], group: Any = None) -> Iterator[Any]:
    """Yields all shards if there is only one rank; raises ValueError otherwise."""
    if utils.pytorch_worker_info(group=group)[1] > 1:
        raise ValueError("you need to add an explicit nodesplitter to your input pipeline for "
                         "multi-node training")
    yield from src


def split_by_worker(src: Iterable[Any]) -> Iterator[Any]:
    """Yields every n-th shard, starting at this worker."""
    _, _, worker, workers = utils.pytorch_worker_info()
    yield from islice(src, worker, None, workers)


class SimpleShardList(IterableSource):
    """The shards of a list, in order or in an order that depends on a seed.

    >>> list(SimpleShardList("x-{0..1}.tar"))
    [{'url': 'x-0.tar'}, {'url': 'x-1.tar'}]
    """

    def __init__(self, urls: Any, seed: Any = None) -> None:
        super().__init__()
        self.urls = expand_source(urls)
        assert self.urls and isinstance(self.urls[0], str), "no shards"
        self.seed = time.time() if seed is True else seed

    def __len__(self) -> int:
        return len(self.urls)

    def __iter__(self) -> Iterator[Shard]:
        urls = list(self.urls)
        if self.seed is not None:
            random.Random(self.seed).shuffle(urls)
        for url in urls:
            yield {"url": url}


class ResampledShards(IterableSource):
    """Shards drawn at random with replacement, endlessly unless `nshards` is given."""

    def __init__(self, urls: Any, nshards: int = sys.maxsize, seed: int = 0,
                 worker_seed: Callable[[], int] | None = None, deterministic: bool = False,
                 max_urls: int = int(1e6), empty_check: bool = True) -> None:
        super().__init__()
        self.urls = expand_source(urls, max_urls)
        if empty_check and not self.urls:
            raise ValueError("empty_check=True, but no shards found in ResampledShards")
        assert isinstance(self.urls[0], str)
        self.nshards, self.seed, self.deterministic = nshards, seed, deterministic
        self.worker_seed = worker_seed or utils.pytorch_worker_seed
        self.epoch = -1

    def __iter__(self) -> Iterator[Shard]:
        self.epoch += 1
        parts: list[object] = [self.worker_seed(), self.epoch, self.seed]
        if not self.deterministic:
            parts += [os.getpid(), time.time_ns(), os.urandom(4)]
        seed = utils.make_seed(*parts)
        if os.environ.get("WDS_SHOW_SEED", "0") == "1":
            print(f"# ResampledShards seed {seed}")
        rng = random.Random(seed)
        for _ in range(self.nshards):
            yield {"url": self.urls[rng.randint(0, len(self.urls) - 1)]}


ResampledShardList = ResampledShards


class DirectoryShardList(IterableSource):
    """The archives in a folder, sorted by name."""

    suffixes = (".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst")

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def __iter__(self) -> Iterator[Shard]:
        for name in sorted(os.listdir(self.path)):
            if name.endswith(self.suffixes) and not name.startswith("."):
                yield {"url": os.path.join(self.path, name)}


def _resampled(src: Iterable[Any], n: int = sys.maxsize) -> Iterator[Any]:
    """Draws items of a source at random with replacement."""
    rng, items = random.SystemRandom(), list(src)
    for _ in range(n):
        yield rng.choice(items)


resampled = pipelinefilter(_resampled)


def non_empty(src: Iterable[Any]) -> Iterator[Any]:
    """Yields all items; raises ValueError if there are none."""
    empty = True
    for item in src:
        empty = False
        yield item
    if empty:
        raise ValueError("pipeline stage received no data at all and this was declared as an "
                         "error")


def shardspec(spec: str) -> SimpleShardList:
    """Returns the shard list that a string describes."""
    return SimpleShardList(spec)

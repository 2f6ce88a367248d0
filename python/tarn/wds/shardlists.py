"""Choosing the shards to read: brace lists, splitting by node and worker, resampling."""

from __future__ import annotations

import dataclasses
import glob
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
from .utils import is_iterable, obsolete
from .. import _tarn

Shard = dict[str, Any]


default_rng = random.Random()


def envlookup(m: re.Match[str]) -> str:
    """Returns the environment variable WDS_NAME for a match of NAME."""
    name = "WDS_" + m[1]
    assert name in os.environ, f"missing environment variable {name}"
    return os.environ[name]


def envsubst(s: str) -> str:
    """Replaces `${NAME}` by the environment variable WDS_NAME, recursively."""
    for _ in range(10):
        changed = re.sub(r"\$\{(\w+)\}", envlookup, s)
        if changed == s:
            break
        s = changed
    return s


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
    if is_iterable(source):
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


_ARCHIVES = (".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst")


def archives_in(path: str) -> list[str]:
    """Returns the archives in a folder, sorted by name."""
    return [os.path.join(path, name) for name in sorted(os.listdir(path))
            if name.endswith(_ARCHIVES) and not name.startswith(".")]


def check_pid_is_running(pid: int) -> bool:
    """Whether there is a process with this number."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def without_last_extension(fname: str) -> str:
    """Returns a name without its last extension."""
    return re.sub(r"\.[^.]*$", "", fname)


def get_pid_from_filename(fname: str) -> int | None:
    """Returns the process number in a name that ends in `._NUMBER_`, or None."""
    found = re.match(r"^(.*)\._(\d+)_$", fname)
    return int(found[2]) if found else None


class DirectoryShardList(IterableSource):
    """Takes shards from a folder while other programs add to it.

    A shard in use is renamed to `NAME._PID_`. Afterwards `mode` decides: "unlink" deletes it, "keep"
    renames it to `NAME._done_`, "resample" gives it its name back, so that it may be taken again.
    select: "random" or "oldest". poll: seconds between looks into an empty folder; None ends the
    iteration then. timeout: seconds until it ends in any case.
    """

    def __init__(self, path: str, pattern: str = "*.{tar,tgz,tar.tgz}", poll: float | None = 1,
                 timeout: float = 1e12, mode: str | None = "resample", select: str = "random",
                 fate: Any = None) -> None:
        super().__init__()
        assert path.endswith("/"), f"{path}: must end in /"
        assert os.path.isdir(path), f"{path}: not a folder"
        self.path, self.pattern, self.poll, self.timeout = path, pattern, poll, timeout
        self.mode, self.select, self.fate = mode, select, fate

    def recycle(self, activename: str) -> None:
        """Deletes or renames a shard that was read."""
        if self.mode == "unlink":
            os.unlink(activename)
        elif self.mode == "keep":
            os.rename(activename, without_last_extension(activename) + "._done_")
        elif self.mode == "resample":
            os.rename(activename, without_last_extension(activename))

    def cleanup_files_without_processes(self) -> None:
        """Recycles the shards of processes that have ended."""
        for name in glob.glob(os.path.join(glob.escape(self.path), "*._*_")):
            pid = get_pid_from_filename(name)
            if pid is not None and not check_pid_is_running(pid):
                self.recycle(name)

    def _candidate(self) -> str | None:
        names = [name for name in sorted(os.listdir(self.path)) if name[0] != "."
                 and utils.fnmatch_with_braces(name, self.pattern)]
        paths = [self.path + name for name in names]
        if not paths:
            return None
        if self.select == "oldest":
            return min(paths, key=lambda path: os.stat(path).st_mtime)
        if self.select == "random":
            return random.choice(paths)
        raise ValueError(f"unknown selection strategy {self.select}")

    def __iter__(self) -> Iterator[Shard]:
        start = time.time()
        while time.time() - start < self.timeout:
            try:
                path = self._candidate()
                if path is not None:
                    active = f"{path}._{os.getpid()}_"
                    os.rename(path, active)
            except FileNotFoundError:
                continue  # another process took it
            if path is None:
                if self.poll is None:
                    return
                time.sleep(self.poll)
                continue
            yield {"url": active}
            self.recycle(active)
            self.cleanup_files_without_processes()


@dataclasses.dataclass
class MSSource:
    """One dataset of a MultiShardSample."""

    name: str = ""
    perepoch: int = -1
    resample: bool | int = False
    urls: list[str] = dataclasses.field(default_factory=list)


def expand(s: str) -> str:
    """Expands `~` and environment variables."""
    return os.path.expanduser(os.path.expandvars(s))


class MultiShardSample(IterableSource):
    """Shards of several datasets, from a YAML file or a dict. Obsolete in webdataset: it needs
    ALLOW_OBSOLETE=1 in the environment, and PyYAML for files."""

    @obsolete(reason="this is going to be replaced with the WIDS JSON format")  # type: ignore[untyped-decorator]
    def __init__(self, fname: Any) -> None:
        super().__init__()
        self.epoch = -1
        self.parse_spec(fname)

    def parse_spec(self, fname: Any) -> None:
        """Reads the datasets of a file or a dict."""
        self.rng = default_rng
        spec = fname
        if not isinstance(fname, dict):
            import yaml  # type: ignore[import-not-found,import-untyped,unused-ignore]

            with open(fname) as stream:
                spec = yaml.safe_load(stream)
        assert set(spec) <= {"prefix", "datasets", "buckets"}, list(spec)
        self.sources = [self._source(spec, part) for part in spec["datasets"]]

    @staticmethod
    def _source(spec: dict[str, Any], part: dict[str, Any]) -> MSSource:
        assert set(part) <= {"buckets", "name", "shards", "resample", "choose"}, list(part)
        buckets = part.get("buckets", spec.get("buckets", []))
        buckets = [buckets] if isinstance(buckets, str) else buckets or [""]
        assert len(buckets) == 1, f"{buckets}: only one bucket is supported"
        bucket, prefix = expand(buckets[0]), expand(spec.get("prefix", ""))
        shards = part["shards"]
        urls = [prefix + os.path.join(bucket, url)
                for shard in ([shards] if isinstance(shards, str) else shards)
                for url in utils.expand_braces(expand(shard))]
        resample, choose = part.get("resample", -1), part.get("choose", -1)
        if choose > len(urls):
            raise ValueError(f"perepoch {choose} must be no greater than the number of shards")
        if choose > 0 and resample > 0:
            raise ValueError("specify only one of perepoch or choose")
        return MSSource(name=part.get("name", "@" + bucket), urls=urls, perepoch=choose,
                        resample=resample)

    def set_epoch(self, seed: int) -> None:
        """Sets the seed of the next epoch, so that all nodes choose the same shards."""
        self.rng = random.Random(seed)

    def get_shards_for_epoch(self) -> list[str]:
        """Draws the shards of one epoch."""
        chosen: list[str] = []
        for source in self.sources:
            urls = list(source.urls)
            if source.resample > 0:
                urls = self.rng.choices(urls, k=source.resample)
            elif source.perepoch > 0:
                self.rng.shuffle(urls)
                urls = urls[:source.perepoch]
            chosen += urls
        self.rng.shuffle(chosen)
        return chosen

    def __iter__(self) -> Iterator[Shard]:
        for url in self.get_shards_for_epoch():
            yield {"url": url}


def resampled_(src: Iterable[Any], n: int = sys.maxsize) -> Iterator[Any]:
    """Draws items of a source at random with replacement."""
    rng, items = random.SystemRandom(), list(src)
    for _ in range(n):
        yield rng.choice(items)


resampled = pipelinefilter(resampled_)


def non_empty(src: Iterable[Any]) -> Iterator[Any]:
    """Yields all items; raises ValueError if there are none."""
    empty = True
    for item in src:
        empty = False
        yield item
    if empty:
        raise ValueError("pipeline stage received no data at all and this was declared as an "
                         "error")


def shardspec(spec: str) -> IterableSource:
    """Returns the shard list that a string describes: URLs, or the name of a .yaml file."""
    return MultiShardSample(spec) if spec.endswith(".yaml") else SimpleShardList(spec)

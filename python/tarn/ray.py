"""Reads and writes datasets with Ray Data.

`read` makes a Ray dataset of any tarn dataset: one row for each sample, one column for each field.
`write` writes a Ray dataset as a fold. Tasks that are retried, and workers and nodes that die, leave
no half shard and no sample twice: each write task writes a part, and the fold appears when all
parts are complete.

This module can be imported without Ray; its functions need it.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._dataset import Dataset
from ._open import open as _open
from ._pack import commit
from ._remote import is_url
from ._write import DatasetWriter
from .errors import Error, NotFoundError, PartExistsError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa
    import ray.data

__all__ = ["read", "write"]

_ROWS = 1024  # of a block, at most, while it is read


def _ray() -> Any:
    try:
        import ray.data
    except ImportError as problem:
        raise ImportError("tarn.ray needs the package ray: pip install 'ray[data]'") from problem
    return ray


# --- Reading ---


def _table(samples: Sequence[Mapping[str, Any]]) -> pa.Table:
    from ray.data._internal.delegating_block_builder import DelegatingBlockBuilder
    from ray.data.block import BlockAccessor

    builder = DelegatingBlockBuilder()
    for sample in samples:
        builder.add(dict(sample))
    return BlockAccessor.for_block(builder.build()).to_arrow()


def _blocks(dataset: Dataset, first: int, end: int) -> Iterator[pa.Table]:
    for at in range(first, end, _ROWS):
        yield _table([dataset[i] for i in range(at, min(at + _ROWS, end))])


def _reader(dataset: Dataset, first: int, end: int) -> Any:
    return lambda: _blocks(dataset, first, end)


def _source(ray: Any, dataset: Dataset) -> Any:
    from ray.data.block import BlockMetadata
    from ray.data.datasource import Datasource, ReadTask

    class TarnDatasource(Datasource):  # type: ignore[misc]
        def get_name(self) -> str:
            return "Tarn"

        def estimate_inmemory_data_size(self) -> int | None:
            return None

        def get_read_tasks(self, parallelism: int, *args: Any, **options: Any) -> list[ReadTask]:
            count = len(dataset)
            tasks = max(1, min(parallelism, count))
            limit = options.get("per_task_row_limit", args[0] if args else None)
            out = []
            for i in range(tasks):
                first, end = count * i // tasks, count * (i + 1) // tasks
                metadata = BlockMetadata(num_rows=end - first, size_bytes=None, exec_stats=None,
                                         input_files=None)
                out.append(ReadTask(_reader(dataset, first, end), metadata,
                                    per_task_row_limit=limit))
            return out

    return TarnDatasource()


def read(path: str | os.PathLike[str] | Dataset, *, override_num_blocks: int | None = None,
         concurrency: int | None = None, ray_remote_args: Mapping[str, Any] | None = None,
         **options: Any) -> ray.data.Dataset:
    """A Ray dataset with a row for each sample: the column `__key__`, and one for each field.

    path is what `tarn.open` takes, with its options, or a `tarn.Dataset`: fields, filters, slices
    and orders of that dataset are kept, so block i of n has the samples
    `len(ds) * i // n` to `len(ds) * (i + 1) // n` of it. Ray returns the blocks in order if
    `ray.data.DataContext.get_current().execution_options.preserve_order` is true.

    Each task opens the dataset itself, so all nodes need access to the path.
    """
    ray = _ray()
    dataset = path if isinstance(path, Dataset) else _open(path, **options)
    if isinstance(path, Dataset) and options:
        raise UsageError("options apply to a path; the dataset is already open")
    given: dict[str, Any] = {"override_num_blocks": override_num_blocks, "concurrency": concurrency}
    if ray_remote_args is not None:
        given["ray_remote_args"] = dict(ray_remote_args)
    return ray.data.read_datasource(_source(ray, dataset), **given)


# --- Writing ---


def _rows(blocks: Iterable[Any]) -> Iterator[dict[str, Any]]:
    from ray.data.block import BlockAccessor

    for block in blocks:
        for row in BlockAccessor.for_block(block).iter_rows(public_row_format=True):
            if row.get("__key__") is None:
                raise UsageError("a row has no value in the column __key__, which must hold "
                                 f"the key of the sample; its columns are {', '.join(row)}")
            yield {name: value for name, value in dict(row).items() if value is not None}


def _sink(ray: Any, folder: str, fold: str, job: str, mode: Mapping[str, bool],
          options: Mapping[str, Any]) -> Any:
    from ray.data.datasource import Datasink

    new = not is_url(folder) and not os.path.exists(folder)

    class TarnDatasink(Datasink):  # type: ignore[misc]
        def get_name(self) -> str:
            return "Tarn"

        def write(self, blocks: Iterable[Any], ctx: Any) -> int:
            task = int(ctx.task_idx)
            try:
                out = DatasetWriter(folder, fold, task=(task, None), job=job, **options)
            except PartExistsError:  # from an attempt whose result was lost
                return task
            with out:
                out.write_many(_rows(blocks))
            return task

        def on_write_complete(self, write_result: Any) -> None:
            tasks = len(set(write_result.write_returns))
            if tasks:
                commit(f"{folder}:{fold}", tasks=tasks, **mode)

        def on_write_failed(self, error: Exception) -> None:
            try:
                commit(f"{folder}:{fold}", discard=True)
                if new:
                    os.rmdir(folder)
            except (Error, OSError):
                pass  # the failure of the job is what matters

    return TarnDatasink()


def write(dataset: ray.data.Dataset, path: str | os.PathLike[str], fold: str = "train", *,
          append: bool = False, overwrite: bool = False, concurrency: int | None = None,
          ray_remote_args: Mapping[str, Any] | None = None, **options: Any) -> None:
    """Writes a Ray dataset as a fold: rows are samples, and columns are fields.

    The column `__key__` holds the keys, which must be unique. Values are encoded by the names of
    their columns, as by `tarn.DatasetWriter`, which also takes the other options. None is a field
    that the sample does not have. path is a folder that all nodes share, or `s3://bucket/folder`.

    The fold appears when everything is written. If the job fails, nothing is left. append and
    overwrite say what happens to an existing fold; without them it is an error. With
    `preserve_order` the samples have the order of the dataset.
    """
    ray = _ray()
    if append and overwrite:
        raise UsageError("append and overwrite exclude each other")
    folder = os.fsdecode(path)
    if not is_url(folder):
        folder = os.path.abspath(folder)
    if not (append or overwrite) and _exists(folder, fold):
        raise FileExistsError(f"{folder}: fold {fold} already exists; use append or overwrite")
    sink = _sink(ray, folder, fold, uuid.uuid4().hex,
                 {"append": append, "overwrite": overwrite}, options)
    given = {} if ray_remote_args is None else {"ray_remote_args": dict(ray_remote_args)}
    dataset.write_datasink(sink, concurrency=concurrency, **given)


def _exists(folder: str, fold: str) -> bool:
    from glob import escape, glob

    if is_url(folder):
        try:
            _open(f"{folder}:{fold}")
        except NotFoundError:
            return False
        return True
    return bool(glob(os.path.join(escape(folder), escape(fold) + ".taridx")))

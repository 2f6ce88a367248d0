"""Values between processes: pickles, and the memory of their arrays outside of them.

Arrays are pickled without their data (protocol 5), which is in shared memory: where the native
loader decoded it, or copied there once. Every offset and size from another process is checked
against the memory that was given to it.
"""

from __future__ import annotations

import copyreg
import io
import mmap
import pickle
import sys
from collections.abc import Callable, Sequence
from typing import Any

from . import _tarn
from ._results import _numpy_dtype, _plain, aligned, is_tensor
from ._work import Failure
from .errors import WorkerError

Range = tuple[int, int]  # offset and size in the shared memory
Place = tuple[int, int, bool]  # the same, and whether the worker may see later changes

GAP = 1 << 20  # ranges that are closer are mapped together
SMALL = 1 << 15  # ranges that are not larger are copied instead


def _tensor_of(array: Any) -> Any:
    import torch

    return torch.from_numpy(array)


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if is_tensor(value) and _plain(value) and _numpy_dtype(value) is not None:
            return _tensor_of, (value.numpy(),)
        return NotImplemented


def dumps(value: Any, collect: Callable[[pickle.PickleBuffer], Any] | None) -> bytes:
    """Pickles a value. collect gets the memory of its arrays, which are then not in the pickle."""
    if "torch" not in sys.modules:
        return pickle.dumps(value, 5, buffer_callback=collect)
    out = io.BytesIO()
    _Pickler(out, 5, buffer_callback=collect).dump(value)
    return out.getvalue()


def _parts(column: _tarn._Pieces) -> Any:
    data, offsets, kind = column.parts()
    return _tarn._Pieces, (pickle.PickleBuffer(data), offsets, kind)


copyreg.pickle(_tarn._Pieces, _parts)


def wrapped(columns: dict[str, Any]) -> dict[str, Any]:
    """Returns columns that can be pickled: views become buffers."""
    return {name: [pickle.PickleBuffer(value) if isinstance(value, memoryview) else value
                   for value in column]
            if isinstance(column, list) and column and isinstance(column[0], memoryview)
            else column for name, column in columns.items()}


# --- The side that has the memory ------------------------------------------------------------


def message(memory: Any, about: Any, columns: dict[str, Any]) -> tuple[Any, Any]:
    """Returns a block with a message of two values, and what must be kept with it. The data of
    columns, which have no tensors, is found in memory, or copied into the block."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(wrapped(columns), 5, buffer_callback=buffers.append)
    places, inside = [], 0
    for buffer in buffers:
        raw = buffer.raw()
        place = memory.place(raw) if raw.nbytes else 0
        if place is None:
            place, inside = -1 - inside, inside + aligned(raw.nbytes)
        places.append((place, raw.nbytes, raw))
    ranges = [(place, size, isinstance(raw.obj, _tarn._Pieces)) for place, size, raw in places]
    head = pickle.dumps((len(body), ranges, about), 5)
    start = aligned(8 + len(head) + len(body))
    block = memory.allocate(start + inside)
    view = memoryview(block)
    view[:8] = len(head).to_bytes(8, "little")
    view[8:8 + len(head)] = head
    view[8 + len(head):8 + len(head) + len(body)] = body
    for place, size, raw in places:
        if place < 0:
            at = start - 1 - place
            view[at:at + size] = raw
    return block, buffers


def results(data: bytes, ranges: Sequence[Range], block: Any, room: Range) -> Any:
    """Returns a value of a worker, whose arrays use the memory of block. room is what the worker
    was given of it."""
    view = memoryview(block)
    start = block.offset
    buffers = []
    for offset, size in ranges:
        if size < 0 or offset < room[0] or size > room[0] + room[1] - offset:
            raise WorkerError(f"a worker sent an array of {size} bytes at {offset}, outside the memory "
                              "that it was given; it may have written to wrong addresses")
        buffers.append(view[offset - start:offset - start + size])
    return pickle.loads(data, buffers=buffers)


# --- The worker ------------------------------------------------------------------------------


class Inputs:
    """The columns of a task. Their arrays are copies on write, so that a function may change them
    without changing them for another worker that gets the same samples."""

    def __init__(self, memory: Any, offset: int, size: int) -> None:
        view = memory.view(offset, size)
        head = int.from_bytes(view[:8], "little")
        length, ranges, self.about = pickle.loads(view[8:8 + head])
        start = offset + aligned(8 + head + length)
        places = [(place if place >= 0 else start - 1 - place, size, shared) for place, size, shared in ranges]
        self._maps: list[mmap.mmap] = []
        buffers = self._mapped(memory, places)
        self.columns = pickle.loads(view[8 + head:8 + head + length], buffers=buffers)

    def _mapped(self, memory: Any, places: Sequence[Place]) -> list[memoryview]:
        """Returns views of ranges of the memory: private ones, unless their values are copied."""
        buffers: list[Any] = [memory.view(offset, size) if shared else None for offset, size, shared in places]
        order = sorted((offset, size, i) for i, (offset, size, shared) in enumerate(places)
                       if size and not shared)
        at = 0
        while at < len(order):
            first, end, last = at, order[at][0] + order[at][1], at + 1
            while last < len(order) and order[last][0] <= end + GAP:
                end = max(end, order[last][0] + order[last][1])
                last += 1
            begin = order[first][0] // mmap.PAGESIZE * mmap.PAGESIZE
            if end - begin <= SMALL:
                view = memoryview(bytearray(memory.view(begin, end - begin)))
            else:
                mapped = mmap.mmap(memory.fd, end - begin, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE,
                                   offset=begin)
                self._maps.append(mapped)
                view = memoryview(mapped)
            for offset, size, i in order[first:last]:
                buffers[i] = view[offset - begin:offset - begin + size]
            at = last
        return [memoryview(bytearray()) if buffer is None else buffer for buffer in buffers]

    def release(self) -> None:
        """Called when the task is done and the memory is used for something else. If the function
        has kept an array, its pages are copied."""
        self.columns = None
        for mapped in self._maps:
            try:
                mapped.close()
            except BufferError:
                for at in range(0, len(mapped), mmap.PAGESIZE):
                    mapped[at] = mapped[at]
        self._maps = []


def packed(memory: Any, value: Any, room: Range) -> tuple[bytes, list[Range], int]:
    """Pickles results, with the data of arrays in the memory of a task if there is room. Returns the
    pickle, the ranges, and how much room would have been enough."""
    buffers: list[pickle.PickleBuffer] = []
    data = dumps(value, buffers.append)
    raws = [buffer.raw() for buffer in buffers]
    needed = sum(aligned(raw.nbytes) for raw in raws)
    if needed > room[1]:
        return dumps(value, None), [], needed
    ranges, at = [], room[0]
    for raw in raws:
        memory.view(at, raw.nbytes)[:] = raw
        ranges.append((at, raw.nbytes))
        at += aligned(raw.nbytes)
    return data, ranges, needed


def portable(failure: Failure) -> Failure:
    """Returns a failure that can be sent to another process, with its traceback as text."""
    import traceback

    error = failure.error
    trace = "".join(traceback.format_exception(error)).rstrip()
    error = error.with_traceback(None)
    error.__cause__ = error.__context__ = None
    try:
        if type(pickle.loads(pickle.dumps(error))) is not type(error):
            raise TypeError
    except Exception:
        named = f"{type(error).__module__}.{type(error).__qualname__}: {error}"
        error = WorkerError(f"a function raised an exception that cannot be sent to this process: {named}")
    return Failure(error, failure.where, trace)

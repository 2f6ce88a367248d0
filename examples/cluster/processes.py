"""Writes one fold from several processes, which compute its samples.

    python processes.py FOLDER TASKS
"""
import multiprocessing
import sys

import tarn

COUNT = 1000


def write(folder, task, tasks):
    """Writes one part. A part that exists was written by an earlier run."""
    try:
        out = tarn.DatasetWriter(folder, task=(task, tasks), job="squares", max_count=100)
    except tarn.PartExistsError:
        return
    with out:
        for n in range(COUNT * task // tasks, COUNT * (task + 1) // tasks):
            out.write({"__key__": f"n{n:06}", "json": {"n": n, "square": n * n}})


if __name__ == "__main__":
    folder, tasks = sys.argv[1], int(sys.argv[2])
    with multiprocessing.Pool() as pool:
        pool.starmap(write, [(folder, task, tasks) for task in range(tasks)])
    print(tarn.commit(folder).samples, "samples")

#!/usr/bin/env python3
"""examples/cluster/datatrove_writer.py: the fold of a pipeline, also when the pipeline is killed and run again."""
import json
import os
import pathlib
import signal
import subprocess
import sys

import peer

peer.needs("datatrove", "orjson")

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples/cluster/datatrove_writer.py"
os.environ["PYTHONPATH"] = f"{os.environ['PYTHONPATH']}:{EXAMPLE.parent}"
os.environ["HF_HUB_OFFLINE"] = "1"

import tarn  # noqa: E402

FILES, COUNT, TASKS = 5, 40, 4
KILLS = ("d0-020", "d3-000", "d2-039")
# Kills itself and all its workers when it first sees one of some documents. A second argument is the first task
# of a machine that has two of them.
PIPELINE = """
import os, pathlib, signal, sys
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.readers import JsonlReader
from datatrove_writer import FoldWriter

def disturbed(data, rank, world_size):
    for document in data:
        mark = pathlib.Path("killed", document.id.replace("/", "-"))
        if mark.name in KILLS and not mark.exists():
            mark.touch()
            os.killpg(0, signal.SIGKILL)
        yield document

if __name__ == "__main__":
    part = {"local_tasks": 2, "local_rank_offset": int(sys.argv[1])} if sys.argv[1:] else {}
    LocalPipelineExecutor([JsonlReader("documents"), disturbed, FoldWriter("out")], tasks=%d, workers=2,
                          logging_dir="logs", **part).run()
""".replace("KILLS", repr(KILLS)) % TASKS


def documents():
    """Of each file, in the order in which JsonlReader reads them."""
    return [[{"text": f"document {i} of file {file}", "id": f"d{file}/{i:03}", "number": i} for i in range(COUNT)]
            for file in range(FILES)]


def prepare(folder, kills=True):
    """Creates the files that a pipeline reads."""
    for name in ("documents", "killed"):
        pathlib.Path(folder, name).mkdir()
    for file, of_file in enumerate(documents()):
        pathlib.Path(folder, f"documents/{file}.jsonl").write_text("".join(json.dumps(d) + "\n" for d in of_file))
    pathlib.Path(folder, "pipeline.py").write_text(PIPELINE)
    for name in () if kills else KILLS:
        pathlib.Path(folder, "killed", name).touch()


def digests(folder):
    return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()
            if path.suffix in (".tar", ".taridx")}


def expected(source):
    """The same parts, written one after another without datatrove. Task i reads every TASKS-th file."""
    with peer.folder() as folder:
        for task in range(TASKS):
            with tarn.DatasetWriter(folder, task=(task, TASKS)) as out:
                for file in range(task, FILES, TASKS):
                    for d in documents()[file]:
                        out.write({"__key__": d["id"].replace("/", "-"), "txt": d["text"],
                                   "json": {"id": d["id"], "number": d["number"],
                                            "file_path": f"{source}/{file}.jsonl"}})
        tarn.commit(folder)
        return digests(folder), sorted(os.listdir(folder))


def run(folder, *words):
    return subprocess.run([sys.executable, *map(str, words)], cwd=folder, text=True, timeout=600, start_new_session=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def finished(folder, *words):
    done = run(folder, *words)
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


def check_committed(folder):
    out = pathlib.Path(folder, "out")
    assert tarn.commit(out).samples == FILES * COUNT
    want, names = expected(pathlib.Path(folder, "documents"))
    assert digests(out) == want
    assert sorted(os.listdir(out)) == names, os.listdir(out)


def the_program_writes_and_commits_once(_):
    with peer.folder() as folder:
        prepare(folder)
        for _ in range(2):
            printed = finished(folder, EXAMPLE, "documents", "out", TASKS)
            assert f"{FILES * COUNT} samples" in printed, printed[-500:]
            check_committed(folder)


def a_pipeline_that_was_killed_is_run_again(_):
    with peer.folder() as folder:
        prepare(folder)
        killed = 0
        while (done := run(folder, "pipeline.py")).returncode == -signal.SIGKILL:
            killed += 1
            assert not list(pathlib.Path(folder, "out").glob("*.tar")), "a reader sees a part"
        assert done.returncode == 0, done.stdout[-3000:]
        assert killed == len(os.listdir(pathlib.Path(folder, "killed"))) and 2 <= killed <= 3, killed
        check_committed(folder)


def tasks_whose_results_were_lost_are_run_again(_):
    with peer.folder() as folder:
        prepare(folder, kills=False)
        finished(folder, "pipeline.py")
        for mark in pathlib.Path(folder, "logs/completions").iterdir():
            mark.unlink()
        finished(folder, "pipeline.py")
        check_committed(folder)


def tasks_of_two_machines_make_one_fold(_):
    with peer.folder() as folder:
        prepare(folder, kills=False)
        for first in (2, 0):
            finished(folder, "pipeline.py", first)
        check_committed(folder)


peer.run(the_program_writes_and_commits_once, a_pipeline_that_was_killed_is_run_again,
         tasks_whose_results_were_lost_are_run_again, tasks_of_two_machines_make_one_fold)

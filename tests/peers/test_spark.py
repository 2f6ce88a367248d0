#!/usr/bin/env python3
"""examples/cluster/spark_writer.py with a Spark cluster of two executors: what it writes, also when Python workers
and executors are killed while they write."""
import atexit
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import peer

peer.needs("pyspark")
if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
    peer.skip("java is not installed (default-jre-headless)")

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples/cluster/spark_writer.py"
sys.path.insert(0, str(EXAMPLE.parent))
os.environ.update(SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable,
                  PYTHONPATH=f"{os.environ['PYTHONPATH']}:{EXAMPLE.parent}")

import pyspark  # noqa: E402
from pyspark import SparkConf, SparkContext, TaskContext  # noqa: E402

import spark_writer  # noqa: E402
import tarn  # noqa: E402

COUNT, PARTS = 400, 8


def start():
    conf = SparkConf().setMaster("local-cluster[2,1,1024]").setAppName("tarn")
    for name, value in {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF",
                        "spark.driver.host": "127.0.0.1", "spark.driver.memory": "512m",
                        "spark.executor.memory": "512m", "spark.task.maxFailures": "4"}.items():
        conf.set(name, value)
    context = SparkContext(conf=conf)
    # The executors of a local cluster always have their folders in the package.
    work = pathlib.Path(pyspark.__file__).parent / "work" / context.applicationId
    atexit.register(lambda: (context.stop(), shutil.rmtree(work, ignore_errors=True)))
    return context


def numbered(i):
    return {"__key__": f"k{i:05}", "txt": f"text {i} " * (i % 50 + 1), "cls": i % 7}


def nothing(i, log):
    pass


def first_attempt_at(numbers, i, log):
    """Whether a task computes one of these samples for the first time; then it leaves a file."""
    if i not in numbers or TaskContext.get().attemptNumber():
        return False
    pathlib.Path(log, str(i)).touch()
    return True


def samples(disturb=nothing, log=""):
    """An RDD that is computed while it is written."""
    def compute(i):
        disturb(i, log)
        return numbered(i)
    return CONTEXT.parallelize(range(COUNT), PARTS).map(compute)


def digests(folder):
    return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()
            if path.suffix in (".tar", ".taridx")}


def expected():
    """The same parts, written one after another without Spark."""
    with peer.folder() as folder:
        for i in range(PARTS):
            with tarn.DatasetWriter(folder, task=(i, PARTS)) as out:
                out.write_many(map(numbered, range(COUNT * i // PARTS, COUNT * (i + 1) // PARTS)))
        tarn.commit(folder)
        return digests(folder), sorted(os.listdir(folder))


def check_written(disturb=nothing, disturbed=()):
    with peer.folder() as out, peer.folder() as log:
        assert spark_writer.write_fold(samples(disturb, log), out).samples == COUNT
        assert sorted(os.listdir(log)) == sorted(map(str, disturbed)), os.listdir(log)
        want, names = expected()
        assert digests(out) == want
        assert sorted(os.listdir(out)) == names, os.listdir(out)


def a_written_fold_equals_the_same_tasks_on_one_machine(_):
    check_written()


def workers_that_are_killed_leave_no_trace(_):
    numbers = (20, 111, 399)

    def kill_worker(i, log):
        if first_attempt_at(numbers, i, log):
            os.kill(os.getpid(), signal.SIGKILL)
    check_written(kill_worker, numbers)


def executors_that_are_killed_leave_no_trace(_):
    numbers = (30, 380)  # the first and the last task, so the first one does not end the second

    def kill_executor(i, log):
        if first_attempt_at(numbers, i, log):
            pid = os.getpid()
            while b"CoarseGrainedExecutorBackend" not in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                pid = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
            os.kill(pid, signal.SIGKILL)
            signal.pause()  # until Spark ends the workers of the executor
    check_written(kill_executor, numbers)


def a_task_whose_part_exists_is_not_written_again(_):
    def fail_after_the_part(task, part):
        yield from part
        if TaskContext.get().attemptNumber() == 0:
            raise RuntimeError("the result is lost")

    class Lossy:
        """An RDD whose tasks fail once after they have written their parts."""
        context, getNumPartitions = CONTEXT, staticmethod(lambda: PARTS)

        @staticmethod
        def mapPartitionsWithIndex(write):
            return samples().mapPartitionsWithIndex(write).mapPartitionsWithIndex(fail_after_the_part)

    with peer.folder() as out:
        assert spark_writer.write_fold(Lossy, out).samples == COUNT
        assert digests(out) == expected()[0]


def a_job_that_fails_leaves_nothing(_):
    def fail(i, _):
        if i == COUNT - 3:
            raise ValueError("a bad sample")

    with peer.folder() as out:
        try:
            spark_writer.write_fold(samples(fail), out)
            raise AssertionError("no error")
        except Exception as problem:  # noqa: BLE001
            assert "a bad sample" in str(problem), problem
        assert os.listdir(out) == [], os.listdir(out)


def the_program_writes_the_lines_of_a_file(_):
    with peer.folder() as folder:
        lines = pathlib.Path(folder, "lines.txt")
        lines.write_text("".join(f"line {i}\n" for i in range(COUNT)))
        done = subprocess.run([sys.executable, EXAMPLE, lines, pathlib.Path(folder, "out")], text=True, timeout=600,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=dict(os.environ, PYSPARK_SUBMIT_ARGS="--conf spark.ui.enabled=false pyspark-shell"))
        assert f"{COUNT} samples" in done.stdout, done.stderr[-2000:]
        got = [sample["txt"] for sample in tarn.open(pathlib.Path(folder, "out"), fields=["txt"])]
        assert got == [f"line {i}" for i in range(COUNT)], got[:5]


CONTEXT = start()
peer.run(a_written_fold_equals_the_same_tasks_on_one_machine, workers_that_are_killed_leave_no_trace,
         executors_that_are_killed_leave_no_trace, a_task_whose_part_exists_is_not_written_again,
         a_job_that_fails_leaves_nothing, the_program_writes_the_lines_of_a_file)

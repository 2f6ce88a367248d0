#!/usr/bin/env python3
"""tarn.ray with a cluster of several nodes: what is read and written, also when workers and nodes are killed
while they write. TARN_RAY_ROUNDS is the number of rounds with kills (default 2; `make test-ray`: 50)."""
import atexit
import collections
import concurrent.futures
import os
import pathlib
import random
import signal
import sys
import tarfile
import time

import peer

peer.needs("ray", "pyarrow", "pandas", "moto", "boto3")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "interop"))
from s3_support import Moto  # noqa: E402

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_DATA_DISABLE_PROGRESS_BARS", "1")

import ray  # noqa: E402
import ray.data  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402

import tarn  # noqa: E402
import tarn.ray  # noqa: E402

ROUNDS = int(os.environ.get("TARN_RAY_ROUNDS", "2"))
COUNT = 400
BLOCKS = 16
ENV = {"env_vars": {"PYTHONPATH": os.environ["PYTHONPATH"]}}


def start(nodes):
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    for _ in range(nodes - 1):
        cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False, configure_logging=False, runtime_env=ENV)
    # In this order: if the cluster ends first, Ray may end this process with status 1.
    atexit.register(lambda: (ray.shutdown(), cluster.shutdown()))
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = True
    context.max_errored_blocks = 0
    return cluster


def numbered(row):
    i = int(row["id"])
    return {"__key__": f"k{i:05}", "txt": f"text {i} " * (i % 50 + 1), "cls": i % 7}


def rows(slow=0.0):
    """A dataset that is computed while it is written."""
    def compute(row):
        time.sleep(slow)
        return numbered(row)
    return ray.data.range(COUNT, override_num_blocks=BLOCKS).map(compute)


def digests(folder):
    return {path.name: path.read_bytes() for path in sorted(pathlib.Path(folder).iterdir())
            if path.suffix == ".tar" or path.suffix == ".taridx"}


def stored(prefix):
    """The same of a folder in the store, where nothing else must be, nor any upload that is not complete."""
    listed = STORE.client.list_objects_v2(Bucket="bucket", Prefix=prefix + "/").get("Contents", [])
    names = [item["Key"][len(prefix) + 1:] for item in listed]
    assert not [name for name in names if name.startswith(".")], names
    assert "Uploads" not in STORE.client.list_multipart_uploads(Bucket="bucket", Prefix=prefix)
    return {name: STORE.get(f"{prefix}/{name}") for name in names if not name.endswith(".tarsum")}


def expected(folder):
    """The same parts, written one after another on one machine without Ray."""
    for i in range(BLOCKS):
        first, end = COUNT * i // BLOCKS, COUNT * (i + 1) // BLOCKS
        with tarn.DatasetWriter(folder, task=(i, BLOCKS)) as out:
            out.write_many(numbered({"id": k}) for k in range(first, end))
    tarn.commit(folder)
    return digests(folder)


def columns_and_rows_are_those_of_the_dataset(folder):
    ds = tarn.open(folder, fields=["json", "cls"])
    read = tarn.ray.read(folder, fields=["json", "cls"], override_num_blocks=5)
    assert read.count() == peer.COUNT and set(read.schema().names) == {"__key__", "json", "cls"}, read.schema()
    got = read.take_all()
    assert [row["__key__"] for row in got] == [sample["__key__"] for sample in ds]
    assert [row["json"]["n"] for row in got] == list(range(peer.COUNT))
    assert [int(row["cls"]) for row in got] == [sample["cls"] for sample in ds]


def orders_and_filters_of_a_dataset_are_kept(folder):
    ds = tarn.open(folder, fields=["json"]).shuffle(seed=5)[:30]
    got = tarn.ray.read(ds, override_num_blocks=4).take_all()
    assert [row["json"]["n"] for row in got] == [sample["json"]["n"] for sample in ds]


def arrays_become_tensors(folder):
    batch = next(iter(tarn.ray.read(folder, fields=["npy"]).iter_batches(batch_size=64)))
    assert batch["npy"].shape == (peer.COUNT, 4) and batch["npy"][5].tolist() == [5.0] * 4


def a_written_fold_equals_the_same_tasks_on_one_machine(_):
    with peer.folder() as out, peer.folder() as alone:
        tarn.ray.write(rows(), out)
        assert digests(out) == expected(alone)
        assert sorted(os.listdir(out)) == sorted(os.listdir(alone)), os.listdir(out)


def an_existing_fold_is_extended_or_replaced_only_on_request(_):
    with peer.folder() as out:
        tarn.ray.write(rows(), out)
        try:
            tarn.ray.write(rows(), out)
            raise AssertionError("written over")
        except FileExistsError:
            pass
        more = ray.data.range(50, override_num_blocks=3).map(
            lambda row: {"__key__": f"more{int(row['id']):03}", "cls": 1})
        tarn.ray.write(more, out, append=True)
        assert len(tarn.open(out, fields=["cls"])) == COUNT + 50
        assert tarn._tarn.main(["tarn", "verify", out]) == 0
        tarn.ray.write(more, out, overwrite=True)
        assert len(tarn.open(out)) == 50, len(tarn.open(out))


def a_job_that_fails_leaves_nothing(_):
    def bad(row):
        if int(row["id"]) == COUNT - 3:
            raise ValueError("a bad row")
        return numbered(row)

    with peer.folder() as out:
        for target in (out, os.path.join(out, "new")):
            try:
                tarn.ray.write(ray.data.range(COUNT, override_num_blocks=BLOCKS).map(bad), target)
                raise AssertionError("no error")
            except Exception as problem:  # noqa: BLE001
                assert "a bad row" in str(problem), problem
            assert os.listdir(out) == [], os.listdir(out)


def a_row_without_a_key_is_an_error_that_names_the_column(_):
    with peer.folder() as out:
        try:
            tarn.ray.write(ray.data.range(3, override_num_blocks=1), out)
            raise AssertionError("no error")
        except Exception as problem:  # noqa: BLE001
            assert "no value in the column __key__" in str(problem), problem


def the_webdataset_sink_of_ray_has_no_commit(_):
    """What the guide says about it: final names one by one, names that differ in each run, no index."""
    with peer.folder() as out:
        rows().map(lambda row: {**row, "cls": str(row["cls"])}).write_webdataset(out)
        names = os.listdir(out)
        assert len(names) >= BLOCKS and not any(name.endswith(".taridx") for name in names), names
        with tarfile.open(os.path.join(out, names[0])) as archive:
            assert archive.getnames()


def a_fold_in_a_store_equals_the_same_tasks_in_a_folder(_):
    with peer.folder() as alone:
        want = expected(alone)
    tarn.ray.write(rows(), "s3://bucket/ray/plain/")
    assert stored("ray/plain") == want
    try:
        tarn.ray.write(rows(), "s3://bucket/ray/plain")
        raise AssertionError("written over")
    except FileExistsError:
        pass
    tarn.ray.write(rows(), "s3://bucket/ray/plain", overwrite=True)
    assert stored("ray/plain") == want
    read = tarn.ray.read("s3://bucket/ray/plain:train", fields=["cls"], override_num_blocks=4).take_all()
    assert [row["__key__"] for row in read] == [f"k{i:05}" for i in range(COUNT)]


# --- Kills ---


def workers():
    """The processes that run tasks of a write."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            if b"Map(compute)" in pathlib.Path("/proc", entry, "cmdline").read_bytes():
                found.append(int(entry))
        except OSError:
            pass
    return found


def disturb(cluster, rng, done, counts):
    """Kills workers, and now and then a node, which is replaced. The job needs some time to recover."""
    for _ in range(rng.randint(1, 4)):
        concurrent.futures.wait([done], rng.uniform(0.2, 1.2))
        running = workers()
        if done.done() or not running:
            return
        if rng.random() < 0.3:
            cluster.remove_node(rng.choice(sorted(cluster.worker_nodes, key=str)), allow_graceful=False)
            cluster.add_node(num_cpus=1)
            counts["nodes"] += 1
            continue
        try:
            os.kill(rng.choice(running), signal.SIGKILL)
            counts["workers"] += 1
        except ProcessLookupError:
            pass


def killed_workers_and_nodes_leave_no_trace(_):
    counts = collections.Counter()
    with peer.folder() as alone:
        want = expected(alone)
    for number in range(ROUNDS):
        with peer.folder() as out, concurrent.futures.ThreadPoolExecutor(1) as pool:
            done = pool.submit(tarn.ray.write, rows(slow=0.02), out)
            while not done.done() and not workers():
                time.sleep(0.05)
            # Only the main thread can start nodes.
            disturb(CLUSTER, random.Random(number), done, counts)
            done.result()
            got = digests(out)
            assert got == want, f"round {number}: {sorted(got)}"
            assert not [name for name in os.listdir(out) if name.startswith(".")], os.listdir(out)
    for number in range(max(1, ROUNDS // 5)):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            done = pool.submit(tarn.ray.write, rows(slow=0.02), f"s3://bucket/ray/{number}")
            while not done.done() and not workers():
                time.sleep(0.05)
            disturb(CLUSTER, random.Random(1000 + number), done, counts)
            done.result()
            assert stored(f"ray/{number}") == want, f"round {number} in the store"
    assert counts["workers"] + counts["nodes"], counts
    print(f"# figure: {ROUNDS} rounds: {counts['workers']} workers and {counts['nodes']} nodes killed")


STORE = Moto().__enter__()
os.environ.update(STORE.env)
ENV["env_vars"].update(STORE.env, no_proxy="*")
CLUSTER = start(3)
peer.run(columns_and_rows_are_those_of_the_dataset, orders_and_filters_of_a_dataset_are_kept,
         arrays_become_tensors, a_written_fold_equals_the_same_tasks_on_one_machine,
         an_existing_fold_is_extended_or_replaced_only_on_request, a_job_that_fails_leaves_nothing,
         a_row_without_a_key_is_an_error_that_names_the_column,
         the_webdataset_sink_of_ray_has_no_commit, a_fold_in_a_store_equals_the_same_tasks_in_a_folder, killed_workers_and_nodes_leave_no_trace)

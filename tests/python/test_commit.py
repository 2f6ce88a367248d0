"""Tasks and commits in Python."""
import os
import pathlib
import subprocess
import sys

import pytest

import tarn


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    for i in range(20):
        (folder / f"k{i:02}.txt").write_text(f"text {i}")
    return folder


def tars(folder):
    return {p.name: p.read_bytes() for p in pathlib.Path(folder).iterdir() if p.suffix in (".tar", ".taridx")}


def test_tasks_and_commit_give_the_samples_of_one_call(files, tmp_path):
    tarn.pack(files, tmp_path / "one")
    for i in range(3):
        packed = tarn.pack(files, tmp_path / "many", task=(i, 3))
        assert not packed.existed
    assert tarn.pack(files, tmp_path / "many", task=(1, 3)).existed
    with pytest.raises(FileNotFoundError):
        tarn.open(tmp_path / "many")
    done = tarn.commit(tmp_path / "many")
    assert (done.tasks, done.folds, done.shards, done.samples, done.members, done.existed) == (3, 1, 3, 20, 20, False)
    assert [s["__key__"] for s in tarn.open(tmp_path / "many")] == [s["__key__"] for s in tarn.open(tmp_path / "one")]
    assert tarn.commit(tmp_path / "many").existed


def test_processes_write_the_parts_of_one_fold(tmp_path):
    program = """if True:
        import sys, tarn
        i, folder = int(sys.argv[1]), sys.argv[2]
        with tarn.DatasetWriter(folder, task=(i, 4), job="squares") as out:
            for n in range(i * 5, i * 5 + 5):
                out.write({"__key__": f"n{n:03}", "cls": n * n})
        """
    started = [subprocess.Popen([sys.executable, "-c", program, str(i), str(tmp_path / "t")]) for i in range(4)]
    assert [p.wait() for p in started] == [0] * 4
    tarn.commit(tmp_path / "t")
    assert [sample["cls"] for sample in tarn.open(tmp_path / "t")] == [n * n for n in range(20)]


def test_missing_tasks_and_repeated_keys_are_named(tmp_path):
    def write(task, keys):
        with tarn.DatasetWriter(tmp_path, task=task) as out:
            out.write_many({"__key__": key, "cls": 1} for key in keys)

    write((0, 2), ["a", "b"])
    with pytest.raises(tarn.errors.Error, match="1 of 2 tasks missing: 1"):
        tarn.commit(tmp_path)
    with pytest.raises(tarn.PartExistsError, match="the part of task 0 of 2 is complete"):
        write((0, 2), ["a"])
    write((1, 2), ["c", "b"])
    with pytest.raises(FileExistsError, match="the key b is also in"):
        tarn.commit(tmp_path)
    assert os.listdir(tmp_path) == [".train.tasks"]
    assert tarn.commit(tmp_path, discard=True).tasks == 2
    assert os.listdir(tmp_path) == []


def test_sources_that_change_between_tasks_are_refused(files, tmp_path):
    target = tmp_path / "t"
    tarn.pack(files, target, task=(0, 2))
    (files / "k99.txt").write_text("new")
    with pytest.raises(tarn.errors.StaleError, match="20 samples then, 21 samples now"):
        tarn.pack(files, target, task=(1, 2))
    (files / "k99.txt").unlink()
    tarn.pack(str(files) + "/", target, task=(1, 2))
    assert tarn.commit(target).samples == 20


def test_a_change_that_two_tasks_saw_differently_is_found_by_the_commit(files, tmp_path):
    tarn.pack(files, tmp_path / "t", task=(0, 2))
    (files / "k99.txt").write_text("new")
    tarn.pack(files, tmp_path / "u", task=(1, 2))
    for job in (tmp_path / "u/.train.tasks").iterdir():  # as if both had begun at the same time
        job.rename(tmp_path / "t/.train.tasks" / job.name)
    with pytest.raises(tarn.errors.StaleError, match="20 samples for some of them, 21 samples for others"):
        tarn.commit(tmp_path / "t")
    assert tarn.commit(tmp_path / "t", discard=True).tasks == 2


def test_tasks_pack_a_parquet_file_together(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.table({"key": ["a", "b", "c"], "txt": ["1", "2", "3"]}), table)
    for i in range(2):
        tarn.pack(table, tmp_path / "t", task=(i, 2))
    assert tarn.commit(tmp_path / "t").samples == 3


def test_a_writer_that_fails_leaves_no_part(tmp_path):
    with pytest.raises(RuntimeError):
        with tarn.DatasetWriter(tmp_path, task=(0, 1)) as out:
            out.write({"__key__": "a", "cls": 1})
            raise RuntimeError
    with pytest.raises(tarn.errors.Error, match="no task is complete"):
        tarn.commit(tmp_path)


def test_a_number_of_tasks_may_be_known_only_at_the_end(tmp_path):
    for i in range(3):
        with tarn.DatasetWriter(tmp_path, task=(i, None)) as out:
            out.write({"__key__": f"k{i}", "cls": i})
    with pytest.raises(tarn.errors.Error, match="task 2 has written a part, but the commit was given 2 tasks"):
        tarn.commit(tmp_path, tasks=2)
    assert tarn.commit(tmp_path, tasks=3).samples == 3


@pytest.mark.parametrize("task", [(2, 2), (-1, 2), (0, 0), 3, (1,), ("a", 2), (0, 100_000)])
def test_impossible_tasks_are_refused(files, tmp_path, task):
    with pytest.raises((ValueError, TypeError)):
        tarn.pack(files, tmp_path / "t", task=task)
    assert not (tmp_path / "t").exists()


def test_tarn_ray_can_be_imported_without_ray_and_names_the_package(tmp_path):
    program = """if True:
        import sys
        sys.modules["ray"] = None
        import tarn.ray
        try:
            tarn.ray.read(sys.argv[1])
        except ImportError as problem:
            assert "pip install 'ray[data]'" in str(problem), problem
        else:
            raise AssertionError
        """
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)

"""tarn.pack: the same bytes as the command, its report, refused arguments, and cancelling."""
import datetime
import gzip
import io
import json
import os
import pathlib
import signal
import sys
import tarfile
import threading

import pytest
from tool import tool

import tarn
import tarn.iac


@pytest.fixture
def pets(tmp_path):
    """A folder of two classes, with two files that belong to no sample."""
    for kind in ("cat", "dog"):
        (tmp_path / "pets" / kind).mkdir(parents=True)
        for i in range(20):
            (tmp_path / "pets" / kind / f"{kind}{i:02}.txt").write_text(f"{kind} {i}")
            (tmp_path / "pets" / kind / f"{kind}{i:02}.bin").write_bytes(bytes([i]) * 3000)
    (tmp_path / "pets" / "README").write_text("none")
    (tmp_path / "pets" / ".hidden").write_text("none")
    return tmp_path / "pets"


def contents(folder):
    """Returns all files except the .tarsum, which has the times of the shards."""
    return {str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(pathlib.Path(folder).rglob("*"))
            if path.is_file() and path.suffix != ".tarsum"}


def command(*words):
    tool("pack", "-q", *words)


SAME = [
    ({}, []),
    ({"fold": "all", "max_count": 7}, ["--fold", "all", "--max-count", "7"]),
    ({"max_size": 40_000}, ["--max-size", "40k"]),
    ({"val": 0.25, "test": 0.1, "seed": 3}, ["--val", "0.25", "--test", "0.1", "--seed", "3"]),
    ({"shuffle": 5, "threads": 3}, ["--shuffle", "5", "-j", "3"]),
    ({"class_from_dir": True, "sync": False}, ["--class-from-dir", "--no-sync"]),
    ({"keys": "path", "pax": True}, ["--keys", "path", "--pax"]),
]


@pytest.mark.parametrize("options,words", SAME)
def test_a_folder_gives_the_bytes_of_the_command(pets, tmp_path, options, words):
    packed = tarn.pack(pets, tmp_path / "a", **options)
    command(pets, "-o", tmp_path / "b", *words)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert packed.samples == 40 and packed.skipped == 2 and packed.files == 80


def test_other_sources_and_targets_give_the_bytes_of_the_command(pets, tmp_path):
    (tmp_path / "list.csv").write_text("key,txt,cls\na,one,1\nb,two,2\n")
    (tmp_path / "list.jsonl").write_text('{"file": "list.csv", "n": 1}\n')
    with tarfile.open(tmp_path / "in.tar", "w") as archive:
        archive.add(pets / "cat", "cat")
    cases = [(tmp_path / "list.csv", "x{}.tar"), (tmp_path / "in.tar", "s{}_%02d.tar"),
             (str(tmp_path / "i*.tar"), "t{}.tar"), (pets, "p{}.iac"),
             (tmp_path / "list.jsonl", "l{}.iac"), (tmp_path / "list.csv", "c{}:one")]
    for number, (source, pattern) in enumerate(cases):
        for half, write in enumerate((tarn.pack, lambda s, t: command(s, "-o", t))):
            folder = tmp_path / f"out{number}" / str(half)
            folder.mkdir(parents=True)
            write(source, f"{folder}/{pattern.format(0)}")
        assert contents(folder) and contents(folder) == contents(folder.parent / "0"), pattern


def test_sources_are_any_sequence_of_paths(pets, tmp_path):
    several = (pets / "cat", str(pets / "dog"))
    packed = tarn.pack(several, tmp_path / "a")
    assert tarn.pack(iter(several), tmp_path / "b") == packed
    assert tarn.pack(list(several), str(tmp_path / "c")).folds == packed.folds
    assert packed.samples == 40 and list(packed.folds) == ["train"]


def test_the_result_adds_up(pets, tmp_path):
    packed = tarn.pack(pets, tmp_path / "a", val=0.25, max_count=10)
    assert {name: w.samples for name, w in packed.folds.items()} == {"train": 30, "val": 10}
    assert (packed.samples, packed.members, packed.shards) == (40, 80, 4)
    assert packed.payload == sum(p.stat().st_size for p in pets.rglob("*.*") if p.is_file()) - 4
    assert packed.bytes == sum(p.stat().st_size for p in (tmp_path / "a").glob("*.tar"))
    assert len(packed.notices) == 2 and any("README" in text for text in packed.notices)
    assert "samples" not in vars(packed) and "folds=" in repr(packed)


def test_a_dry_run_counts_and_writes_nothing(pets, tmp_path):
    planned = tarn.pack(pets, None, val=0.1, dry_run=True)
    assert {name: w.samples for name, w in planned.folds.items()} == {"train": 36, "val": 4}
    tarn.pack(pets, tmp_path / "a", dry_run=True)
    assert not (tmp_path / "a").exists()


def test_append_and_overwrite(pets, tmp_path):
    out = tmp_path / "out"
    tarn.pack(pets / "cat", out)
    with pytest.raises(tarn.ExistsError):
        tarn.pack(pets / "dog", out)
    tarn.pack(pets / "dog", out, append=True)
    assert len(tarn.open(out)) == 40
    with pytest.raises(FileExistsError):
        tarn.pack(pets / "dog", out, append=True)
    assert len(tarn.open(out)) == 40
    tarn.pack(pets / "dog", out, overwrite=True)
    assert len(tarn.open(out)) == 20
    assert sorted(contents(out)) == ["train.taridx", "train_0000.tar"]


def test_one_archive_may_be_compressed(pets, tmp_path):
    packed = tarn.pack(pets, tmp_path / "x.tar.gz", level=9)
    assert list(packed.folds) == [""] and packed.shards == 1
    assert gzip.open(tmp_path / "x.tar.gz").read(5) == b"cat00"


def test_records_have_a_codec_and_a_header(pets, tmp_path):
    packed = tarn.pack(pets / "cat", tmp_path / "x.iac", codec="zstd", header={"by": "hand"})
    reader = tarn.iac.PackReader(tmp_path / "x.iac")
    assert packed.samples == len(reader) == 40
    assert reader.header["by"] == "hand" and reader.header["codec"] == "zstd"


def test_progress_sees_the_last_sample(pets, tmp_path):
    seen = []
    tarn.pack(pets, tmp_path / "a", progress=lambda *numbers: seen.append(numbers))
    assert seen[-1][:2] == (40, 40) and seen[-1][2] > 120_000
    assert [n for n, _, _ in seen] == sorted(n for n, _, _ in seen)
    tarn.pack(pets, tmp_path / "a.iac", progress=lambda *numbers: seen.append(numbers))
    assert seen[-1][:2] == (82, 82)


class Slow:
    """A stream that continues on request: a pipe that another thread fills."""

    def __init__(self, path):
        self.path = path
        os.mkfifo(path)
        self.go = threading.Event()
        self.thread = threading.Thread(target=self.write)
        self.thread.start()

    def write(self):
        try:
            with open(self.path, "wb") as out, tarfile.open(fileobj=out, mode="w|") as archive:
                for i in range(100_000):
                    if self.go.is_set():
                        break
                    info = tarfile.TarInfo(f"s{i:06}.bin")
                    info.size = 1000
                    archive.addfile(info, io.BytesIO(bytes(1000)))
        except BrokenPipeError:
            pass

    def stop(self):
        self.go.set()
        self.thread.join()


def test_an_exception_in_progress_cancels_and_leaves_nothing(tmp_path):
    slow = Slow(tmp_path / "in.tar")

    def fail(done, total, size):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        tarn.pack(slow.path, tmp_path / "out", max_count=100, sync=False, progress=fail)
    slow.stop()
    assert list((tmp_path / "out").iterdir()) == []


def test_a_signal_cancels_and_leaves_nothing(tmp_path):
    slow = Slow(tmp_path / "in.tar")

    def handle(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, handle)
    with pytest.raises(KeyboardInterrupt):
        tarn.pack(slow.path, tmp_path / "out", max_count=100, sync=False,
                  progress=lambda *numbers: os.kill(os.getpid(), signal.SIGUSR1))
    signal.signal(signal.SIGUSR1, before)
    slow.stop()
    assert list((tmp_path / "out").iterdir()) == []


def test_failures_are_exceptions_that_name_the_file(pets, tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing"):
        tarn.pack("nothing", tmp_path / "a")
    (tmp_path / "m.csv").write_text("key,txt\na.b,x\n")
    with pytest.raises(tarn.FormatError, match="line 2") as caught:
        tarn.pack(tmp_path / "m.csv", tmp_path / "a")
    assert caught.value.path == str(tmp_path / "m.csv")
    (tmp_path / "empty").mkdir()
    with pytest.raises(tarn.NotFoundError, match="no sample"):
        tarn.pack(tmp_path / "empty", tmp_path / "a")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("options", [
    {"val": 2}, {"val": "x"}, {"val": 0.7, "test": 0.7}, {"keys": "both"}, {"seed": -1},
    {"threads": 1.5}, {"fold": "a_b"}, {"fold": "val", "val": 0.1}, {"codec": "zstd"},
    {"append": True, "overwrite": True}, {"level": 3}, {"progress": 7}, {"max_count": -1},
    {"version": 3}])
def test_wrong_arguments_are_usage_errors(pets, tmp_path, options):
    with pytest.raises(tarn.UsageError):
        tarn.pack(pets, tmp_path / "a", **options)
    assert not (tmp_path / "a").exists() or not list((tmp_path / "a").iterdir())


def test_input_that_does_not_fit_the_target_is_refused(pets, tmp_path):
    for target, options in (("x.tar", {"fold": "a"}), ("x.tar", {"max_count": 3}),
                            ("x.iac", {"shuffle": 3}), ("x.iac", {"max_count": 3}),
                            ("x.gnz", {}), ("", {}), ("x.iac", {"codec": "lzma"})):
        with pytest.raises(tarn.UsageError):
            tarn.pack(pets, target and tmp_path / target, **options)
    with pytest.raises(tarn.UsageError):
        tarn.pack(pets, None)
    with pytest.raises(tarn.UsageError):
        tarn.pack([], tmp_path / "a")
    with pytest.raises(TypeError):
        tarn.pack([3], tmp_path / "a")
    with pytest.raises(TypeError):
        tarn.pack(pets, tmp_path / "a", no_such_option=1)
    with pytest.raises(TypeError):
        tarn.pack(pets, None, fold=3, dry_run=True)


def image(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"P6\n1 1\n255\nabc")
    return path


def test_patterns_names_and_classes_are_those_of_the_command(tmp_path):
    for name in ("cat/a.jpg", "cat/b.jpeg", "dog/c.png", "thumbs/d.jpg"):
        image(tmp_path / "in" / name)
    (tmp_path / "in/README.txt").write_text("stray")
    options = ["--class-from-dir", "--include", "*.jp*g", "--include", "*.txt", "--exclude", "thumbs",
               "--rename", "jpg,jpeg=img"]
    tool("pack", tmp_path / "in", "-q", "-o", tmp_path / "c", *options)
    packed = tarn.pack(tmp_path / "in", tmp_path / "p", class_from_dir=True,
                       include=("*.jp*g", "*.txt"), exclude="thumbs",
                       rename={"jpg": "img", "jpeg": "img"})
    assert contents(tmp_path / "p") == contents(tmp_path / "c")
    assert packed.samples == 2 and packed.skipped == 1 and "no sub-folder" in packed.notices[0]
    assert tarn.open(tmp_path / "p").fields == ("cls", "img")
    deeper = tarn.pack(tmp_path, tmp_path / "q", class_level=2, include="in/*/*.jpg")
    assert deeper.classes == 2
    with pytest.raises(tarn.errors.UsageError, match="include takes patterns"):
        tarn.pack(tmp_path / "in", tmp_path / "x", include=[3])
    with pytest.raises(tarn.errors.UsageError, match="rename takes a dict"):
        tarn.pack(tmp_path / "in", tmp_path / "x", rename=["jpg", "img"])


@pytest.mark.parametrize("threads", [1, 4])
def test_check_finds_every_bad_field_and_writes_nothing_or_leaves_samples_out(tmp_path, threads):
    for i in range(200):
        image(tmp_path / f"in/i{i:03}.jpg")
    bad = {17: b"", 99: b"<html>", 140: b"P6\n9 9\n255\nabc", 199: b"<" * 300_000}
    for i, data in bad.items():
        (tmp_path / f"in/i{i:03}.jpg").write_bytes(data)
    with pytest.raises(tarn.errors.FormatError, match="i017.jpg.*first of 4 bad fields") as raised:
        tarn.pack(tmp_path / "in", tmp_path / "x", check=True, threads=threads)
    assert [f"i{i:03}.jpg" in note for i, note in zip(bad, raised.value.__notes__)] == [True] * 4
    assert not list((tmp_path / "x").glob("*"))
    packed = tarn.pack(tmp_path / "in", tmp_path / "y", check="skip", threads=threads)
    assert (packed.samples, packed.bad, len(packed.notices)) == (196, 4, 4)
    keys = set(tarn.open(tmp_path / "y").keys())
    assert keys == {f"i{i:03}" for i in range(200)} - {f"i{i:03}" for i in bad}
    assert tarn.pack(tmp_path / "in", None, check="skip", dry_run=True).samples == 196
    with pytest.raises(tarn.errors.UsageError, match="check must be"):
        tarn.pack(tmp_path / "in", tmp_path / "z", check="stop")


def test_a_manifest_may_name_the_folder_of_its_paths(tmp_path):
    image(tmp_path / "data/a.jpg")
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists/m.csv").write_text("key,jpg\na,a.jpg\n")
    assert tarn.pack(tmp_path / "lists/m.csv", tmp_path / "out", root=tmp_path / "data").samples == 1
    with pytest.raises(FileNotFoundError):
        tarn.pack(tmp_path / "lists/m.csv", tmp_path / "no")


def test_a_parquet_file_is_a_manifest_like_its_rows_in_json_lines(tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    image(tmp_path / "img/a.jpg")
    image(tmp_path / "img/b.jpg")
    rows = [{"key": "a", "jpg": "img/a.jpg", "cls": 3, "txt": "tall", "json": {"x": [1, None]}},
            {"key": "b", "jpg": "img/b.jpg", "cls": None, "txt": "@@home", "json": None}]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "m.parquet")
    (tmp_path / "m.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tarn.pack(tmp_path / "m.jsonl", tmp_path / "lines")
    for cwd, source in ((tmp_path, "m.parquet"), (pathlib.Path("/"), tmp_path / "m.parquet")):
        monkeypatch.chdir(cwd)
        tarn.pack(source, tmp_path / "table", overwrite=True)
        assert contents(tmp_path / "table") == contents(tmp_path / "lines")
    rows[1]["jpg"] = "img/none.jpg"
    parquet.write_table(pa.Table.from_pylist(rows[:1] + [{"key": ""}]), tmp_path / "n.parquet")
    with pytest.raises(tarn.errors.FormatError, match=r"n\.parquet: line 2: ") as raised:
        tarn.pack(tmp_path / "n.parquet", tmp_path / "x")
    assert raised.value.path == str(tmp_path / "n.parquet")
    parquet.write_table(pa.table({"key": ["a"], "jpg": [b"raw"]}), tmp_path / "b.parquet")
    with pytest.raises(tarn.errors.UnsupportedError, match="column jpg has the type binary"):
        tarn.pack(tmp_path / "b.parquet", tmp_path / "x")
    (tmp_path / "no.parquet").write_text("PAR1 and no more")
    with pytest.raises(tarn.errors.UsageError, match="not a Parquet file"):
        tarn.pack(tmp_path / "no.parquet", tmp_path / "x")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/m.csv").write_text("key,txt\nc,x\n")
    with pytest.raises(tarn.errors.UsageError, match="in one folder"):
        tarn.pack([tmp_path / "m.parquet", tmp_path / "other/m.csv"], tmp_path / "x")
    assert tarn.pack([tmp_path / "m.parquet", tmp_path / "other/m.csv"], tmp_path / "y",
                     root=tmp_path).samples == 3
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match="pip install pyarrow"):
        tarn.pack(tmp_path / "m.parquet", tmp_path / "x")


def test_a_record_pack_has_the_types_of_its_parquet_file(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    image(tmp_path / "a.ppm")
    when = datetime.datetime(2024, 5, 31, 12, tzinfo=datetime.timezone.utc)
    table = pa.table({
        "file": ["a.ppm"] * 2, "n": pa.array([1, None], pa.int32()), "f": pa.array([2.0, None]),
        "b": [True, None], "none": pa.array([None, None], pa.float32()), "l": [[1, 2], None],
        "at": pa.array([when, None], pa.timestamp("ns", "Europe/Berlin")),
        "day": [datetime.date(1969, 12, 31), None], "t": pa.array(["x", "x"]).dictionary_encode()})
    parquet.write_table(table, tmp_path / "m.parquet")
    tarn.pack(tmp_path / "m.parquet", tmp_path / "m.iac")
    with tarn.iac.PackReader(tmp_path / "m.iac") as records:
        index = records.index_table
    stored = {name: str(index.schema.field(name).type) for name in table.column_names[1:]}
    utc = "timestamp[us, tz=UTC]"
    assert stored == {"n": "int64", "f": "double", "b": "bool", "none": "double",
                      "l": "list<item: int64>", "at": utc, "day": utc, "t": "string"}
    first = index.slice(0, 1).to_pylist()[0]
    day = datetime.datetime(1969, 12, 31, tzinfo=datetime.timezone.utc)
    assert (first["n"], first["f"], first["b"], first["l"], first["at"], first["day"]) == (
        1, 2.0, True, [1, 2], when, day)
    assert index.slice(1, 1).to_pylist()[0]["at"] is None
    tarn.pack(tmp_path / "m.parquet", tmp_path / "t.iac", types={"n": "text"})
    with tarn.iac.PackReader(tmp_path / "t.iac") as records:
        assert str(records.index_table.schema.field("n").type) == "string"


def test_the_codec_of_a_record_pack_names_the_images_in_it(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    tarn.pack(tmp_path / "in", tmp_path / "a.iac", codec="png")
    with tarn.iac.PackReader(tmp_path / "a.iac") as records:
        assert records.header["codec"] == "png"
    with pytest.raises(tarn.errors.FormatError, match="a.png: offset 0: not a JPEG"):
        tarn.pack(tmp_path / "in", tmp_path / "b.iac", codec="jpeg")

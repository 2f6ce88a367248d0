"""tarn.pack: the same bytes as the command, its report, refused arguments, and cancelling."""
import gzip
import io
import os
import pathlib
import signal
import tarfile
import threading

import pytest
from tool import tool

import tarn


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
    reader = tarn.iac.open(tmp_path / "x.iac")
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

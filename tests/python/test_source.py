"""Sources and sinks as file objects."""
import bz2
import gc
import gzip
import io
import lzma
import os
import shutil
import subprocess
import sys

import pytest

import tarn
from tarn._source import SinkFile


@pytest.mark.parametrize("suffix, unpack", [("", bytes), (".gz", gzip.decompress), (".bz2", bz2.decompress),
                                            (".xz", lzma.decompress)])
def test_what_is_written_is_read(tmp_path, suffix, unpack):
    path = tmp_path / ("x" + suffix)
    data = os.urandom(1 << 20) + b"x" * (1 << 20)
    with tarn.open_source(path, "wb") as out:
        assert out.writable() and not out.readable()
        assert out.write(memoryview(data)[:100]) == 100
        out.write(data[100:])
        assert not path.exists()
    assert unpack(path.read_bytes()) == data
    with tarn.open_source(path) as file:
        assert file.read(10) == data[:10]
        assert file.read() == data[10:]
        assert file.read() == b""
    with tarn.open_source(path, compress=False) as file:
        assert file.read() == path.read_bytes()


def test_it_is_a_file_for_others(tmp_path):
    with tarn.open_source(tmp_path / "x.gz", "wb", compress="gz") as out:
        shutil.copyfileobj(io.BytesIO(b"one\ntwo\n"), out)
    with tarn.open_source(str(tmp_path / "x.gz")) as file:
        assert list(file) == [b"one\n", b"two\n"]
    with io.TextIOWrapper(tarn.open_source(tmp_path / "x.gz")) as text:
        assert text.read() == "one\ntwo\n"


def test_a_sink_that_is_given_up_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError):
        with tarn.open_source(tmp_path / "x", "wb") as out:
            out.write(b"x")
            1 / 0
    out = tarn.open_source(tmp_path / "x", "wb")
    out.write(b"x")
    del out
    gc.collect()
    assert os.listdir(tmp_path) == []
    out = tarn.open_source(tmp_path / "x", "wb")
    out.close()
    out.close()
    with pytest.raises(ValueError):
        out.write(b"")
    assert os.listdir(tmp_path) == ["x"]


def test_refusals(tmp_path):
    with pytest.raises(FileNotFoundError):
        tarn.open_source(tmp_path / "none")
    (tmp_path / "x").write_bytes(b"")
    with pytest.raises(FileExistsError):
        tarn.open_source(tmp_path / "x", "wb")
    with pytest.raises(ValueError, match="'rb' or 'wb'"):
        tarn.open_source(tmp_path / "x", "r+")
    with pytest.raises(tarn.UnsupportedError):
        tarn.open_source("gopher://x")
    with pytest.raises(tarn.UnsupportedError, match="allow_pipe"):
        tarn.open_source("pipe:true")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"x" * 10000)[:-10])
    with pytest.raises(EOFError) as caught:
        tarn.open_source(tmp_path / "cut.gz").read()
    assert caught.value.path.endswith("cut.gz")


def test_commands_when_allowed(tmp_path):
    assert tarn.open_source("pipe:echo hello", allow_pipe=True).read() == b"hello\n"
    with tarn.open_source(f"pipe:cat >{tmp_path}/x", "wb", allow_pipe=True) as out:
        out.write(b"there")
    assert (tmp_path / "x").read_bytes() == b"there"
    with pytest.raises(OSError):
        tarn.open_source("pipe:echo part; exit 3", allow_pipe=True).read()


def test_standard_streams():
    code = ("import tarn, shutil\n"
            "with tarn.open_source('-') as a, tarn.open_source('-', 'wb') as b:\n"
            "    shutil.copyfileobj(a, b)\n")
    done = subprocess.run([sys.executable, "-c", code], input=b"x" * 100000, capture_output=True)
    assert done.stdout == b"x" * 100000, done.stderr


def test_closed_sources(tmp_path):
    (tmp_path / "x").write_bytes(b"abc")
    file = tarn.open_source(tmp_path / "x")
    file.close()
    with pytest.raises(ValueError):
        file.read()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(100):
        tarn.open_source(tmp_path / "x").read(1)
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


def test_lists(tmp_path):
    for name in "ab":
        (tmp_path / (name + ".tar")).touch()
    assert tarn.expand_urls(tmp_path / "*.tar") == [str(tmp_path / "a.tar"), str(tmp_path / "b.tar")]
    with pytest.raises(ValueError):
        tarn.expand_urls("x{1..")
    assert repr(SinkFile(tmp_path / "y")).startswith("<SinkFile ")


@pytest.fixture(scope="module")
def bucket():
    """An S3 server with a bucket."""
    moto = pytest.importorskip("moto.server")
    boto3 = pytest.importorskip("boto3")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none", "AWS_REGION": "us-east-1",
                            "AWS_ENDPOINT_URL_S3": f"http://{host}:{port}", "no_proxy": "*"}.items():
            patch.setenv(name, value)
        client = boto3.client("s3", region_name="us-east-1", endpoint_url=f"http://{host}:{port}")
        client.create_bucket(Bucket="bucket")
        yield client
    server.stop()


def test_s3(bucket):
    from tarn import wds

    def objects():
        return sorted(o["Key"] for o in bucket.list_objects_v2(Bucket="bucket").get("Contents", []))
    with tarn.open_source("s3://bucket/x.gz", "wb") as out:
        out.write(b"hello")
    assert tarn.open_source("s3://bucket/x.gz").read() == b"hello"
    with tarn.ShardWriter("s3://bucket/y-%d.tar", max_count=2) as out:
        out.write_many({"__key__": f"k{i}", "cls": i} for i in range(3))
    with pytest.raises(ZeroDivisionError):
        with wds.TarWriter("s3://bucket/z.tar") as out:
            out.write({"__key__": "a", "txt": "x"})
            1 / 0
    assert objects() == ["x.gz", "y-0.tar", "y-1.tar"]
    stream = wds.WebDataset("s3://bucket/y-{0..1}.tar", shardshuffle=False).decode().to_tuple("cls")
    assert list(stream) == [(0,), (1,), (2,)]
    with pytest.raises(FileNotFoundError):
        tarn.open_source("s3://bucket/none")

"""Shared by the tests of datasets: the library's datasets, driven line by line, and the members of
shards as Python reads them."""
import os
import pathlib
import subprocess
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARN = pathlib.Path(os.environ.get("TARN", str(ROOT / "build/tarn")))
DATA = ROOT / "tests/data"


class Refused(Exception):
    pass


class Tool:
    """The library's datasets, driven line by line."""

    def __init__(self):
        self.process = subprocess.Popen([TARN.parent / "tests/dataset_tool"], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.next = 0

    def __call__(self, *words):
        self.process.stdin.write("\t".join(str(w) for w in words) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().rstrip("\n")
        if answer.startswith("ok"):
            return answer.split("\t")[1:]
        raise Refused(answer or f"dataset_tool ended with {self.process.wait()}")

    def new(self, verb, *words):
        """A dataset's number."""
        self.next = (self.next + 1) % 60
        self("close", self.next)
        self(verb, self.next, *words)
        return self.next

    def open(self, path, fields=None, flags="-"):
        return self.new("open", path, ",".join(fields) if fields else "-", flags)

    def count(self, n):
        return int(self("count", n)[0])

    def get(self, n, sample, field):
        return bytes.fromhex(self("get", n, sample, field)[0])

    def keys(self, n):
        return [self("key", n, i)[0] for i in range(self.count(n))]

    def rows(self, n):
        return [tuple(None if x == "-" else bytes.fromhex(x) for x in self("sample", n, i))
                for i in range(self.count(n))]

    def end(self):
        self.process.stdin.close()
        assert self.process.wait() == 0, self.process.returncode


def refused(code, part, call, *words):
    try:
        call(*words)
    except Refused as e:
        assert str(e).startswith("!" + code), f"{e}, not {code}"
        assert part in str(e), f"{part!r} is not in {e}"
        return
    raise AssertionError(f"{words} was not refused with {code}")


def members(path):
    """{stem: {field: bytes}} of a fold's shards, in order of first appearance."""
    found = {}
    for shard in sorted(path):
        with tarfile.open(shard) as tar:
            for member in tar:
                stem, _, field = member.name.rsplit("/", 1)[-1].partition(".")
                found.setdefault(stem, {})[field.lower()] = tar.extractfile(member).read()
    return found


def run_all(tests):
    """Tests that take a tool, or a tool and a scratch folder; the exit status."""
    failed = 0
    print(f"1..{len(tests)}")
    for number, test in enumerate(tests, 1):
        tool = Tool()
        with tempfile.TemporaryDirectory() as scratch:
            try:
                takes = test.__code__.co_argcount
                test(*(tool, pathlib.Path(scratch))[:takes])
                tool.end()
                print(f"ok {number} - {test.__name__}")
            except Exception as e:  # pylint: disable=broad-except
                failed += 1
                print(f"not ok {number} - {test.__name__}")
                text = f"{type(e).__name__}: {e} (line {e.__traceback__.tb_next.tb_lineno})"
                print("\n".join("# " + line for line in text.splitlines()))
                tool.process.kill()
    return 1 if failed else 0

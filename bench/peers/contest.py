"""Runs measurements in turns: every contestant once, then all again, each in a separate process
    whose memory use is sampled while it runs. Results are rows of plain values.
"""
import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import time

from measure import evict, warm_in_order

from . import work
from .data import draw
from .work import descendants

HERE = pathlib.Path(__file__).resolve().parent.parent
ROOT = HERE.parent
LOOK_SECONDS = 0.05
LIMIT_SECONDS = 3600
FUNCTION = {"sequential": "iterate", "random": "getter", "batches": "batcher", "open": "open", "growth": "open",
            "resume": "resume", "cold sequential": "iterate", "cold batches": "batcher"}


def held(pid):
    """Bytes of memory of a process and its children: (private, with mapped files)."""
    own = resident = 0
    for one in [pid, *descendants(pid)]:
        try:
            lines = pathlib.Path(f"/proc/{one}/status").read_text().splitlines()
        except OSError:
            continue
        values = {line.split(":")[0]: line.split() for line in lines if line.startswith(("Rss", "VmRSS"))}
        if "VmRSS" in values:
            resident += int(values["VmRSS"][1]) << 10
            own += (int(values["RssAnon"][1]) + int(values["RssShmem"][1])) << 10
    return own, resident


@dataclasses.dataclass
class Row:
    """A contestant in a workload, with the results of each round."""
    workload: str
    kind: str
    samples: int
    peer: str
    way: str = ""
    rounds: list = dataclasses.field(default_factory=list)
    failed: str = ""

    @property
    def name(self):
        return f"{self.peer}, {self.way}" if self.way else self.peer

    def median(self, what):
        values = [r[what] for r in self.rounds if r.get(what) is not None]
        return statistics.median(values) if values else None

    def rates(self):
        return [r["count"] / r["seconds"] for r in self.rounds if r.get("seconds")]

    @property
    def rate(self):
        return statistics.median(self.rates()) if self.rates() else None

    @property
    def cpu(self):
        """CPU seconds for one unit."""
        values = [r["cpu"] / r["count"] for r in self.rounds if r.get("count")]
        return statistics.median(values) if values else None


class Contest:
    """State that all measurements share: paths, durations, and the rows so far."""

    def __init__(self, args):
        self.args = args
        self.rows, self.stored = [], {}
        self.data = pathlib.Path(args.data)
        self.data.mkdir(parents=True, exist_ok=True)
        self.environment = self.environ()
        if args.inside:
            os.environ.update(self.environment)
        self.here = self.installed()

    def environ(self):
        env = dict(os.environ, PYTHONPATH=f"{self.args.build}/python:{HERE}", TARN_BENCH_TOOL=f"{self.args.build}/tarn",
                   TOKENIZERS_PARALLELISM="false", OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1",
                   PYTHONWARNINGS="ignore")
        return env

    def installed(self):
        """{peer: version} of the packages that can be imported, and the reason for the others."""
        asked = subprocess.run([self.args.python, "-m", "peers.installed", *self.args.peers], env=self.with_wids(),
                               capture_output=True, text=True, check=True, cwd=HERE)
        return json.loads(asked.stdout.splitlines()[-1])

    def with_wids(self):
        """wids is part of webdataset 0.2 and was removed in 1.0: it has a separate folder."""
        return dict(self.environment, TARN_BENCH_WIDS=str(self.args.wids))

    @property
    def peers(self):
        return [name for name in self.args.peers if self.here[name]["ok"]]

    # --- One process ---

    def start(self, task):
        """Runs a task and returns its result, with its peak memory."""
        if self.args.inside:
            return {**work.perform(task), "own_bytes": 0, "resident_bytes": 0}
        argv = [str(self.args.python), "-m", "peers.work", json.dumps(task)]
        out = self.data / "out.txt"
        with open(out, "wb") as target, open(self.data / "err.txt", "wb") as errors:
            child = subprocess.Popen(argv, stdout=target, stderr=errors, env=self.with_wids(), cwd=HERE,
                                     start_new_session=True)
            own = resident = 0
            began = time.time()
            while child.poll() is None:
                now = held(child.pid)
                own, resident = max(own, now[0]), max(resident, now[1])
                time.sleep(LOOK_SECONDS)
                if time.time() - began > LIMIT_SECONDS:
                    os.killpg(child.pid, signal.SIGKILL)  # including its workers
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)  # remaining workers would disturb the next run
        if child.returncode:
            text = (self.data / "err.txt").read_text(errors="replace").strip().splitlines()
            raise RuntimeError(text[-1] if text else f"exit {child.returncode}")
        found = json.loads(out.read_text().splitlines()[-1])
        return {**found, "own_bytes": own, "resident_bytes": resident}

    def task(self, row, number):
        folder = self.folder(row)
        task = {"peer": row.peer, "way": row.way, "workload": row.workload.split()[-1], "kind": row.kind,
                "samples": row.samples, "round": number, "seconds": self.args.seconds, "folder": str(folder),
                "scratch": str(self.data / "written"), "state": str(self.data / "state"),
                "pictures": str(self.pictures())}
        if row.workload.startswith("cold"):
            task["reads"] = self.args.cold_reads
        return task

    # --- Data ---

    def pictures(self):
        return self.data / f"pictures_{self.args.pictures}"

    def draw(self):
        if self.pictures().exists():
            return None
        if self.args.inside:
            return draw(self.pictures(), self.args.pictures)
        code = f"import pathlib, peers.data; peers.data.draw(pathlib.Path({str(self.pictures())!r}), {self.args.pictures})"
        return subprocess.run([self.args.python, "-c", code], env=self.environment, check=True, cwd=HERE)

    def folder(self, row):
        owner = self.reads(row.peer) or row.peer
        return self.data / f"{row.kind}_{row.samples}" / owner.replace(" ", "_")

    def reads(self, peer):
        return self.here[peer]["reads"]

    def fill(self, row):
        """The files that a row reads, written by the contestant if they do not exist."""
        folder, owner = self.folder(row), self.reads(row.peer) or row.peer
        if not folder.exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            print(f"  filling {folder.relative_to(self.data)}", file=sys.stderr, flush=True)
            made = self.start({**self.task(row, 0), "peer": owner, "way": "", "workload": "fill"})
            (folder.parent / f"{folder.name}.json").write_text(json.dumps(made))
        key = f"{row.kind} {row.samples} {owner}"
        if key not in self.stored:
            self.stored[key] = json.loads((folder.parent / f"{folder.name}.json").read_text())
            warm_in_order(self.files(row))

    def files(self, row):
        return [p for p in self.folder(row).rglob("*") if p.is_file()]

    # --- Contests ---

    def candidates(self, workload, kind, samples):
        function = FUNCTION.get(workload, workload)
        name = workload.split()[-1]
        for peer in self.peers:
            about = self.here[peer]
            if kind in about["kinds"] and function in about["does"]:
                ways = about["ways"].get(name, [""]) if not workload.startswith("cold") else [""]
                yield from (Row(workload, kind, samples, peer, way) for way in ways)

    def run(self, workload, kind, samples, rounds=None):
        rows = list(self.candidates(workload, kind, samples))
        print(f"{workload}, {kind}, {samples:,} samples", file=sys.stderr, flush=True)
        if kind == "d2":
            self.draw()
        for row in rows:
            self.guarded(row, lambda row: None if workload == "write" else self.fill(row))
        for number in range(rounds or self.args.rounds):
            for row in rows:
                if not row.failed:
                    self.guarded(row, lambda row: self.once(row, number))
        self.rows += rows
        return rows

    def guarded(self, row, call):
        """If a contestant fails, the page says so, and the others continue."""
        try:
            call(row)
        except (RuntimeError, OSError) as error:
            row.failed = str(error)
            print(f"  {row.name}: {row.failed}", file=sys.stderr, flush=True)

    def once(self, row, number):
        task = self.task(row, number)
        if row.workload.startswith("cold"):
            evict(self.files(row))
        if row.workload == "resume":
            self.start({**task, "workload": "begin"})
        row.rounds.append(self.start(task))
        shutil.rmtree(self.data / "written", ignore_errors=True)

#!/usr/bin/env python3
"""Compares tarn with its peers in every workload, in one run, with tables and plots.

  peers.py [--full] [--write-docs] [--only WORKLOAD ...] [--peer NAME ...]
  peers.py --selftest     some hundred samples through all of tarn's own contestants, in seconds; no other packages
  peers.py --check        whether all installed contestants read the same bytes

Needs `make`, and `scripts/setup.sh build test bench` for the packages (.venv-bench, .venv-wids). Contestants
take turns, each measurement in a separate process; medians of the rounds, with their spread. Data goes to
bench/data/peers, some GB, and is kept for the next run. --write-docs writes docs/benchmarks/README.md, the
plots beside it and results.json; --from-json rewrites the pages from the results of an earlier run, and
--also adds the workloads of another run, which the page then mentions.

The contestants are in bench/peers/, one file each.
"""
import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

import make_data
from peers import OURS, PEERS, pages, tables
from peers.contest import Contest, Row

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
SHORT = {"d1": 40_000, "small": 20_000, "d2": 2_000, "shards d1": 200_000, "shards d2": 20_000, "write d1": 20_000, "write d2": 1_000, "epoch": 1_024, "resume": 40_000,
         "pack": 40_000, "rows": 200_000, "growth": (1_000, 10_000, 100_000, 1_000_000), "pictures": 128,
         "rounds": 3, "seconds": 0.6, "cold_reads": 1_024}
FULL = {"d1": 200_000, "small": 100_000, "d2": 20_000, "shards d1": 200_000, "shards d2": 20_000, "write d1": 100_000, "write d2": 4_000, "epoch": 10_000, "resume": 200_000,
        "pack": 200_000, "rows": 1_000_000, "growth": (1_000, 10_000, 100_000, 1_000_000, 10_000_000),
        "pictures": 512, "rounds": 5, "seconds": 2.0, "cold_reads": 8_192}
TINY = {**SHORT, "d1": 600, "small": 600, "d2": 100, "shards d1": 600, "shards d2": 100, "write d1": 100, "write d2": 100, "epoch": 100, "resume": 1_200, "pack": 100,
        "rows": 100, "growth": (100,), "pictures": 2, "rounds": 1, "seconds": 0.01, "cold_reads": 64}


def plan(sizes):
    """(workload, kind, samples) of a run, in the order of the page."""
    for kind in ("d1", "d2"):
        yield "index", kind, sizes[f"shards {kind}"]
        yield "sequential", kind, sizes[kind]
        yield "random", kind, sizes[kind]
        yield "batches", kind, sizes[kind]
        yield "cold sequential", kind, sizes[kind]
        yield "cold batches", kind, sizes[kind]
        yield "write", kind, sizes[f"write {kind}"]
        yield "verify", kind, sizes[f"shards {kind}"]
    yield "sequential", "small", sizes["small"]
    yield "cold sequential", "small", sizes["small"]
    yield "epoch", "d2", sizes["epoch"]
    yield "resume", "d1", sizes["resume"]
    for kind in ("pack", "rows"):
        for workload in ("open", "sequential", "random", "batches"):
            yield workload, kind, sizes[kind]
    for samples in sizes["growth"]:
        yield "growth", "tiny", samples


WORKLOADS = list(dict.fromkeys(workload for workload, *_ in plan(TINY)))


def machine():
    """The machine and versions of the measurement."""
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    memory = int(open("/proc/meminfo").readline().split()[1]) >> 20
    return {"processor": cpu, "cores": len(os.sched_getaffinity(0)), "memory_gib": memory,
            "system": f"Linux {platform.release()}, {platform.freedesktop_os_release().get('PRETTY_NAME', '')}",
            "python": platform.python_version(), "load_before": os.getloadavg()[0], "date": time.strftime("%Y-%m-%d"),
            "commit": subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True,
                                     text=True).stdout.strip()}


def measure_all(args, sizes):
    contest = Contest(args)
    result = {"machine": machine(), "form": "full" if args.full else "short", "rounds": args.rounds,
              "seconds": args.seconds, "cold_reads": args.cold_reads, "peers": contest.here}
    for workload, kind, samples in plan(sizes):
        if args.only and workload not in args.only:
            continue
        rows = contest.run(workload, kind, samples, 1 if workload == "growth" and not args.full else None)
        if not args.quiet:
            print(f"\n{workload}, {kind}\n{tables.table(workload, rows)}", flush=True)
        result.update(rows=[vars(row) for row in contest.rows], stored=contest.stored)
        save(result, args.json or contest.data / "results.json")
    return result


def take_in(result, other):
    """Replaces workloads of this run by those of another run."""
    theirs = {row["workload"] for row in other["rows"]}
    places = {(row["workload"], row["kind"]): place for place, row in reversed([*enumerate(result["rows"])])}
    result["rows"] = [row for row in result["rows"] if row["workload"] not in theirs] + other["rows"]
    result["rows"].sort(key=lambda row: places.get((row["workload"], row["kind"]), len(places) + len(result["rows"])))
    result["stored"].update(other["stored"])
    result["peers"].update({name: about for name, about in other["peers"].items() if about["ok"] or name not in result["peers"]})
    for earlier in result.setdefault("also", []):
        earlier["workloads"] = [workload for workload in earlier["workloads"] if workload not in theirs]
    result["also"] = [earlier for earlier in result["also"] if earlier["workloads"]]
    result["also"].append({"workloads": sorted(theirs), "form": other["form"], "rounds": other["rounds"],
                                          "machine": other["machine"]})


def save(result, path):
    """Called after each workload, so that a stopped run is not lost: --from-json can use partial results."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(result, indent=1) + "\n")
    part.replace(path)


def check(args):
    """TAP: each contestant reads what was written."""
    contest, number, failed = Contest(args), 0, 0
    for kind in ("d1", "small", "d2", "tiny", "pack", "rows"):
        if kind == "d2":
            contest.draw()
        for peer in contest.peers:
            about = contest.here[peer]
            if kind not in about["kinds"] or "open" not in about["does"]:
                continue
            for way in about["ways"].get("random", [""]):
                row = Row("check", kind, 100, peer, way)
                contest.guarded(row, contest.fill)
                contest.guarded(row, lambda row: row.rounds.append(contest.start(contest.task(row, 0))))
                wrong = row.failed or ", ".join(row.rounds[0]["wrong"])
                number, failed = number + 1, failed + bool(wrong)
                print(f"{'not ok' if wrong else 'ok'} {number} - {row.name}, {kind} {wrong}", flush=True)
    return 1 if failed or not number else 0


def selftest(args):
    """TAP: all workloads of tarn's own contestants, some hundred samples each, and their pages. Runs in
    this process, which is faster: the package must be on the path of this Python."""
    with tempfile.TemporaryDirectory() as scratch:
        args.data, args.quiet, args.inside = scratch, True, True
        sys.path.insert(0, str(args.build / "python"))
        result = measure_all(args, TINY)
        failed = [f"{r['workload']} {r['kind']} {r['peer']}: {r['failed']}" for r in result["rows"] if r["failed"]]
        failed += [f"{r['workload']} {r['peer']}: resumed wrongly" for r in result["rows"]
                   for found in r["rounds"] if not found.get("exact", True)]
        missing = set(WORKLOADS) - {row["workload"] for row in result["rows"] if row["rounds"]}
        failed += [f"{workload}: nobody" for workload in missing]
        pages.write(result, pathlib.Path(scratch))
        code = check(args)
    for text in failed:
        print(f"not ok - {text}")
    print(f"ok - {len(result['rows'])} measurements and their pages" if not failed else "not ok - workloads")
    return 1 if failed or code else 0


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="large data, five rounds: more than an hour")
    parser.add_argument("--write-docs", action="store_true", help="write the pages under docs/benchmarks")
    parser.add_argument("--from-json", type=pathlib.Path, help="use the results of an earlier run instead of measuring")
    parser.add_argument("--also", type=pathlib.Path, action="append", default=[], help="results of another run to use for its workloads")
    parser.add_argument("--only", action="append", choices=WORKLOADS)
    parser.add_argument("--peer", action="append", choices=PEERS, dest="peers")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float, help="length of each warm measurement")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--python", type=pathlib.Path, default=ROOT / ".venv-bench/bin/python")
    parser.add_argument("--wids", type=pathlib.Path, default=ROOT / ".venv-wids")
    parser.add_argument("--data", type=pathlib.Path, default=make_data.DATA / "peers")
    parser.add_argument("--json", type=pathlib.Path, help="write the results to this file (default: beside the data)")
    parser.add_argument("--quiet", action="store_true", help="print no tables during the run")
    parser.add_argument("--check", action="store_true", help="compare what the contestants read")
    parser.add_argument("--selftest", action="store_true", help="only tarn's own contestants on tiny data, as a test")
    return parser.parse_args(argv, argparse.Namespace(inside=False))


def main(argv=None):
    args = parse(argv)
    sizes = TINY if args.selftest or args.check else FULL if args.full else SHORT
    if args.selftest:
        args.peers, args.python = list(OURS), sys.executable
    args.peers = args.peers or list(PEERS)
    args.build, args.python = args.build.resolve(), pathlib.Path(args.python).absolute()  # not resolved: it may be a link into an environment
    args.pictures, args.cold_reads = sizes["pictures"], sizes["cold_reads"]
    args.rounds, args.seconds = args.rounds or sizes["rounds"], args.seconds or sizes["seconds"]
    if not args.from_json and not (args.build / "tarn").exists():
        raise SystemExit(f"{args.build}/tarn does not exist: build it first, with make")
    if args.selftest or args.check:
        return selftest(args) if args.selftest else check(args)
    result = json.loads(args.from_json.read_text()) if args.from_json else measure_all(args, sizes)
    for path in args.also:
        take_in(result, json.loads(path.read_text()))
    if args.write_docs:
        pages.write(result, ROOT / "docs/benchmarks")
    return 0


if __name__ == "__main__":
    sys.exit(main())

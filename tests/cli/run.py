#!/usr/bin/env python3
"""Runs the CLI tests: NAME.sh in an empty folder, its output compared with NAME.out.

A script sees $TARN (the tool) and $DATA (a private copy of tests/data). Its standard output
and error, joined, must be exactly what NAME.out holds. `run.py --accept [NAME...]` writes the
NAME.out files from what the scripts print; look at the difference before committing it.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE.parent / "data"


def run(script):
    with tempfile.TemporaryDirectory() as scratch:
        data = pathlib.Path(scratch) / "data"
        work = pathlib.Path(scratch) / "work"
        shutil.copytree(DATA, data)
        for path in [data, *data.rglob("*")]:
            path.chmod(path.stat().st_mode | 0o200)
        work.mkdir()
        env = dict(os.environ, DATA=str(data), LC_ALL="C.UTF-8", TZ="UTC")
        done = subprocess.run(["bash", "-u", str(script)], cwd=work, env=env, timeout=300,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        return done.stdout.replace(scratch.encode(), b"SCRATCH")


def main():
    accept = sys.argv[1:2] == ["--accept"]
    names = sys.argv[2:] if accept else sys.argv[1:]
    scripts = [s for s in sorted(HERE.glob("*.sh")) if not names or s.stem in names]
    print(f"1..{len(scripts)}")
    failed = 0
    for number, script in enumerate(scripts, 1):
        got = run(script)
        expected = script.with_suffix(".out")
        if accept:
            expected.write_bytes(got)
        want = expected.read_bytes() if expected.exists() else b"(no .out file)\n"
        if got == want:
            print(f"ok {number} - {script.stem}")
            continue
        failed += 1
        print(f"not ok {number} - {script.stem}")
        with tempfile.NamedTemporaryFile() as a, tempfile.NamedTemporaryFile() as b:
            a.write(want), b.write(got)
            a.flush(), b.flush()
            subprocess.run(["diff", "-a", "-u", "--label", "expected", "--label", "got",
                            a.name, b.name])
        sys.stdout.flush()
    return 1 if failed else 0


sys.exit(main())

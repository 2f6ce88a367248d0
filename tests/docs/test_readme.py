#!/usr/bin/env python3
"""Runs the console blocks of the README and of guides and compares what they print.

Lines that begin with "$ " are commands; what follows is their output, standard error first
where a command has both. All blocks of a page run one after the other in one folder. Lines that
say how long something took are left out.
"""
import io
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGES = ["README.md", "docs/guides/preparing.md"]
TARN = os.environ.get("TARN", str(ROOT / "build/tarn"))


def blocks(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for body in re.findall(r"^```console\n(.*?)^```", text, re.S | re.M):
        commands = re.split(r"^\$ ", body, flags=re.M)[1:]
        for command in commands:
            line, _, output = command.partition("\n")
            yield line, output


def make_birds(folder):
    os.mkdir(folder / "birds")
    for shard in range(2):
        with tarfile.open(folder / f"birds/train-{shard:06}.tar", "w",
                          format=tarfile.USTAR_FORMAT) as out:
            for bird in range(3 * shard, 3 * shard + 3):
                fields = {"cls": f"{bird}\n", "json": f'{{"place": {bird}}}\n',
                          "txt": f"a bird, number {bird}"}
                for field, text in fields.items():
                    info = tarfile.TarInfo(f"bird_{bird}.{field}")
                    info.size = len(text)
                    out.addfile(info, io.BytesIO(text.encode()))


def make_pictures(folder):
    for name in ("kiwi", "emu"):
        (folder / "pictures" / name).mkdir(parents=True)
        for number in range(4):
            (folder / "pictures" / name / f"{name}_{number}.txt").write_text(f"{name} {number}")


def run(command, folder):
    env = dict(os.environ, PATH=f"{folder / 'bin'}:{os.environ['PATH']}", LC_ALL="C.UTF-8")
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.stderr + done.stdout


def timeless(text):
    return re.sub(r"^[\d.]+ s: .*\n", "", text, flags=re.M)


def run_page(page, number):
    """How many commands there are, and how many of them printed something else."""
    failed = count = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        os.mkdir(folder / "bin")
        os.symlink(TARN, folder / "bin/tarn")
        if page == "README.md":
            make_birds(folder)
            make_pictures(folder)
        for command, want in blocks(page):
            count += 1
            got = run(command, folder)
            good = timeless(got) == timeless(want)
            failed += not good
            print(f"{'ok' if good else 'not ok'} {number + count} - {page}: {command}")
            if not good:
                print(f"# expected {want!r}\n# got      {got!r}")
    return count, failed


def main():
    total = bad = 0
    for page in PAGES:
        count, failed = run_page(page, total)
        total += count
        bad += failed or not count
    print(f"1..{total}")
    return 1 if bad else 0


sys.exit(main())

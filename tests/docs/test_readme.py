#!/usr/bin/env python3
"""Runs the console blocks of the README and compares what they print.

Lines that begin with "$ " are commands; what follows is their output, standard error first
where a command has both. All blocks of a page run one after the other in one folder.
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


def main():
    failed = number = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        os.mkdir(folder / "bin")
        os.symlink(TARN, folder / "bin/tarn")
        make_birds(folder)
        make_pictures(folder)
        for command, want in blocks("README.md"):
            number += 1
            got = run(command, folder)
            good = got == want
            failed += not good
            print(f"{'ok' if good else 'not ok'} {number} - {command}")
            if not good:
                print(f"# expected {want!r}\n# got      {got!r}")
    print(f"1..{number}")
    return 1 if failed or number == 0 else 0


sys.exit(main())

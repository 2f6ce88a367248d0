#!/usr/bin/env python3
"""Runs the demo and compares it with the tour (docs/tour.md), the README and the picture of it.

The demo's own checks (each sample once, the same weights) end it with an error if they fail. To save time
it trains for two epochs here instead of three, and the last step, tarn bench, is left out; tests/cli
tests it.
"""
import os
import re
import subprocess
import sys
import xml.dom.minidom

from pages import BUILD, ROOT, Tap, blocks, commands, environment, matches, sanitized
from test_guides import Interpreter, compiles

TITLE = re.compile(r"^\d+\. .*$|^\([\d.]+ s\)$|^# .*$|^Done in .*|^Next: .*$|^$", re.M)


def demo():
    env = dict(os.environ, TARN_BUILD=str(BUILD), DEMO_BENCH="no", DEMO_EPOCHS="2",
               DEMO_PYTHON=sys.executable)
    return subprocess.run([ROOT / "scripts/demo.sh"], env=env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def told(output):
    """(command, output) of a run, without headings, remarks and times."""
    kept = "".join(line for line in output.splitlines(keepends=True)
                   if not TITLE.match(line.rstrip("\n")))
    return list(commands(kept.replace(" --epochs 2", "")))


def shorter(want):
    """What the pages show for two epochs."""
    return re.sub(r"^epoch 2: .*\n", "", want, flags=re.M).replace("same 180 batches", "same 120 batches")


def picture():
    """The commands that the recording shows."""
    page = xml.dom.minidom.parse(str(ROOT / "docs/images/demo.svg"))
    return page.getElementsByTagName("desc")[0].firstChild.data.splitlines()


def run_others(check):
    """The README's blocks that are not the tour, where the demo left its data."""
    folder = BUILD / "demo"
    python = Interpreter(folder, environment(folder))
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
    for block in blocks("README.md"):
        if block.language == "python":
            check((told := python.run(block.body)) is None, f"{block} runs", told)
        elif block.language == "c":
            check((told := compiles(block, folder)) is None, f"{block} compiles", told)
        elif block.language == "sh":
            asked = re.findall(r"^make ([\w-]+)", block.body, re.M)
            check(len(asked) == block.body.count("\n") and set(asked) <= set(targets),
                  f"{block} names targets of the Makefile")
    python.close()


def console(page):
    """(command, output) of a page."""
    return [pair for block in blocks(page) if block.language == "console" for pair in commands(block.body)]


def main():
    check = Tap()
    shown = console("docs/tour.md")
    if sanitized():
        check.skip("the demo", "torch is not run under AddressSanitizer")
        return check.end()
    done = demo()
    check(done.returncode == 0, "the demo ends well", done.stdout)
    got = told(done.stdout)
    check([command for command, _ in got] == [command for command, _ in shown[:-1]],
          "docs/tour.md has the demo's commands",
          "\n".join(sorted({c for c, _ in got} ^ {c for c, _ in shown[:-1]})))
    for (command, want), (_, output) in zip(shown, got):
        check(matches(shorter(want), output), f"tour: {command}", f"want {want!r}\ngot  {output!r}")
    for pair in console("README.md"):
        check(pair in shown, f"README: {pair[0]} is part of the tour")
    bench = shown[-1][0]
    check(f'run "{bench}"' in (ROOT / "scripts/demo.sh").read_text(), "and its last one")
    check(picture() == [command for command, _ in got] + [bench],
          "so has docs/images/demo.svg: scripts/record.py draws it again")
    run_others(check)
    return check.end()


sys.exit(main())

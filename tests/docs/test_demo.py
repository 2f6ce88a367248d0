#!/usr/bin/env python3
"""Runs the demo and compares it with the README's tour and with the picture of it.

The demo's own checks (each sample once, the same weights) end it with an error if they fail. The
last step, tarn bench, is left out here to save its time; tests/cli has it.
"""
import os
import re
import subprocess
import sys
import xml.dom.minidom

from pages import BUILD, ROOT, Tap, blocks, commands, matches, sanitized

TITLE = re.compile(r"^\d+\. .*$|^\([\d.]+ s\)$|^# .*$|^All of it took.*|^Next: .*$|^$", re.M)


def demo():
    env = dict(os.environ, TARN_BUILD=str(BUILD), DEMO_BENCH="no", DEMO_PYTHON=sys.executable)
    return subprocess.run([ROOT / "scripts/demo.sh"], env=env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def told(output):
    """(command, output) of a run, without headings, remarks and times."""
    kept = "".join(line for line in output.splitlines(keepends=True)
                   if not TITLE.match(line.rstrip("\n")))
    return list(commands(kept))


def picture():
    """The commands that the recording shows."""
    page = xml.dom.minidom.parse(str(ROOT / "docs/images/demo.svg"))
    return page.getElementsByTagName("desc")[0].firstChild.data.splitlines()


def main():
    check = Tap()
    shown = [pair for block in blocks("README.md") if block.language == "console"
             for pair in commands(block.body)]
    if sanitized():
        check.skip("the demo", "torch is not run under AddressSanitizer")
        return check.end()
    done = demo()
    check(done.returncode == 0, "the demo ends well", done.stdout)
    got = told(done.stdout)
    check([command for command, _ in got] == [command for command, _ in shown[:-1]],
          "the README's tour has the demo's commands",
          "\n".join(sorted({c for c, _ in got} ^ {c for c, _ in shown[:-1]})))
    for (command, want), (_, output) in zip(shown, got):
        check(matches(want, output), f"README: {command}", f"want {want!r}\ngot  {output!r}")
    bench = shown[-1][0]
    check(f'run "{bench}"' in (ROOT / "scripts/demo.sh").read_text(), "and its last one")
    check(picture() == [command for command, _ in got] + [bench],
          "so has docs/images/demo.svg: scripts/record.py draws it anew")
    return check.end()


sys.exit(main())

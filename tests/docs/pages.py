"""Shared by the tests of the documents: pages, their fenced blocks, and how they are run.

A fenced block of python, c, sh or console is an example and is run (C: compiled). A paragraph in
parentheses right before it that begins with "(Not run" excludes it, and readers see that. A comment
<!-- given: ... --> before a block of C declares what the fragment assumes.
"""
import os
import pathlib
import re
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("TARN_BUILD", ROOT / "build")).resolve()
TARN = os.environ.get("TARN", str(BUILD / "tarn"))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.S | re.M)


class Block:
    def __init__(self, page, language, body, line, before):
        self.page, self.language, self.body, self.line = page, language, body, line
        given = re.search(r"<!-- given: (.*?) -->\s*\Z", before, re.S)
        self.given = given.group(1) if given else ""
        self.not_run = re.search(r"^\(Not run\b[^\n]*(\n[^\n]+)*\)\n*\Z", before, re.M) is not None

    def __str__(self):
        return f"{self.page}:{self.line}"


def blocks(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    end = 0
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield Block(page, match.group(1), match.group(2), line, text[end:match.start()])
        end = match.end()


def commands(body):
    """The commands of a console block, each with the output below it."""
    for command in re.split(r"^\$ ", body, flags=re.M)[1:]:
        line, _, output = command.partition("\n")
        yield line, output


def matches(want, got):
    """Whether the output equals the page, where … matches anything in a line, and on its own line any
    lines."""
    forms = {"…\n": "(?:.*\n)*?", "…": ".*?"}
    parts = re.split(r"((?m:^…\n)|…)", want)
    return re.fullmatch("".join(forms.get(part, re.escape(part)) for part in parts), got) is not None


def sanitized():
    extension = BUILD / "python/tarn/_tarn.abi3.so"
    return extension.exists() and b"__asan_init" in extension.read_bytes()


def environment(folder, **more):
    """For examples: the command in PATH, and the package of this build."""
    tools = folder / "bin"
    if not tools.exists():
        tools.mkdir()
        (tools / "tarn").symlink_to(TARN)
        python = tools / "python"
        python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
    path = f"{tools}:{os.environ['PATH']}"
    return dict(os.environ, PATH=path, PYTHONPATH=str(BUILD / "python"), LC_ALL="C.UTF-8", **more)


def shell(command, folder, env):
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.returncode, done.stderr + done.stdout


class Tap:
    """Prints TAP lines; may be shared by threads."""

    def __init__(self):
        self.count = self.bad = 0
        self.lock = threading.Lock()

    def __call__(self, good, name, told=""):
        with self.lock:
            self.count += 1
            self.bad += not good
            print(f"{'ok' if good else 'not ok'} {self.count} - {name}")
            if not good and told:
                print("\n".join("# " + line for line in str(told).splitlines()))

    def skip(self, name, why):
        with self.lock:
            self.count += 1
            print(f"ok {self.count} - {name} # SKIP {why}")

    def end(self):
        print(f"1..{self.count}")
        return 1 if self.bad or not self.count else 0

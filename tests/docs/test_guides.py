#!/usr/bin/env python3
"""Runs the examples of the guides: commands with their output, shell, Python, and C (compiled).

All blocks of a page run in order in one folder; Python blocks share their names. A comment <!--
setup: commands --> in the page creates what it assumes. Lines with durations are left out.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from pages import BUILD, ROOT, TARN, Tap, blocks, commands, environment, matches, sanitized, shell

PAGES = sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs/guides").glob("*.md"))
PRELUDE = """#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/tarn.h>
int fail(const tarn_error *err);
int example(void);
int example(void)
{
%s
%s
    return 0;
}
"""
DRIVER = """
import json, sys, traceback
names = {"__name__": "__main__"}
out = sys.stdout
sys.stdout = sys.stderr
for line in sys.stdin:
    try:
        exec(compile(json.loads(line), "example", "exec"), names)
        print("null", file=out, flush=True)
    except BaseException:
        print(json.dumps(traceback.format_exc()), file=out, flush=True)
"""


class Interpreter:
    """A Python process that runs the blocks of a page, started for the first block."""

    def __init__(self, folder, env):
        self.folder, self.env, self.process = folder, env, None

    def run(self, code):
        """None, or the error."""
        if self.process is None:
            self.process = subprocess.Popen([sys.executable, "-c", DRIVER], cwd=self.folder, text=True,
                                            env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.process.stdin.write(json.dumps(code) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        return json.loads(answer) if answer else "the interpreter ended"

    def close(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()


def compiles(block, folder):
    body = block.body if "int main(" in block.body else PRELUDE % (block.given, block.body)
    source = folder / "example.c"
    source.write_text(body)
    done = subprocess.run(["cc", "-std=c17", "-Wall", "-Werror", "-Wno-unused", "-Wno-misleading-indentation", "-fsyntax-only",
                           f"-I{ROOT / 'include'}", f"-I{BUILD / 'include'}", str(source)], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    source.unlink()
    return None if done.returncode == 0 else done.stdout


def timeless(text):
    return re.sub(r"^[\d.]+ s: .*\n", "", text, flags=re.M)


def run_block(block, folder, env, python, check):
    if block.language == "c":
        check((told := compiles(block, folder)) is None, f"{block} compiles", told)
    elif block.language == "python":
        check((told := python.run(block.body)) is None, f"{block} runs", told)
    elif block.language == "sh":
        code, told = shell("set -eo pipefail\n" + block.body, folder, env)
        check(code == 0, f"{block} runs", told)
    for command, want in commands(block.body) if block.language == "console" else ():
        _, got = shell(command, folder, env)
        good = matches(timeless(want), timeless(got))
        check(good, f"{block.page}: {command}", f"want {want!r}\ngot  {got!r}")


def run_page(page, check, **more):
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        env = environment(folder, **more)
        python = Interpreter(folder, env)
        text = (ROOT / page).read_text(encoding="utf-8")
        for setup in re.findall(r"<!-- setup:\n(.*?)-->", text, re.S):
            code, told = shell("set -e\n" + setup, folder, dict(env, ROOT=str(ROOT)))
            if code:
                check(False, f"{page}: what it needs", told)
        for block in blocks(page):
            if not block.not_run:
                run_block(block, folder, env, python, check)
        python.close()


def store():
    """A local S3 server with a bucket, and the environment variables for it."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    env = {"AWS_ENDPOINT_URL_S3": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "a",
           "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}
    boto3.client("s3", endpoint_url=env["AWS_ENDPOINT_URL_S3"], aws_access_key_id="a",
                 aws_secret_access_key="b", region_name="us-east-1").create_bucket(Bucket="bucket")
    return server, env


def uses_python(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    return "```python" in text or re.search(r"^(\$ )?python ", text, re.M)


def other_blocks(folder):
    """Examples that would not be run: those of docs/python are Python, and tests/python runs them."""
    for page in sorted((ROOT / folder).glob("*.md")):
        for block in blocks(str(page.relative_to(ROOT))):
            if block.language in ("c", "sh", "console") and not block.not_run:
                yield str(block)


def main():
    os.environ.pop("AWS_PROFILE", None)
    check = Tap()
    left = list(other_blocks("docs/python"))
    check(not left, "docs/python has examples in Python alone", "\n".join(left))

    def run(page):
        if sanitized() and uses_python(page):
            check.skip(page, "Python examples are run without AddressSanitizer")
        elif page.endswith(("/s3.md", "/cloud.md", "/billion.md")):
            server, env = store()
            run_page(page, check, **env)
            server.stop()
        else:
            run_page(page, check)

    chosen = [page for page in PAGES if not sys.argv[1:] or any(word in page for word in sys.argv[1:])]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(run, chosen))
    return check.end()


if __name__ == "__main__":
    assert os.path.exists(TARN), TARN
    sys.exit(main())

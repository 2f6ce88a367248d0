#!/usr/bin/env python3
"""Brace patterns against the real braceexpand, which WebDataset calls.

Patterns are random sequences of special characters and text, balanced or not. Both must expand a
pattern to the same list, or both refuse it.
"""
import os
import pathlib
import random
import subprocess
import sys

from braceexpand import UnbalancedBracesError, braceexpand

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
URLCAT = pathlib.Path(os.environ.get("TARN_BUILD", ROOT / "build-plain")) / "tests/urlcat"
BATCH = 200
PIECES = ["{", "}", ",", "{", "}", ",", "..", "a", "z", "A", "Z", "c", "0", "1", "3", "10", "007",
          "-2", "-01", "00", "x.tar", "\\", "\\{", "\\}", "\\,", "\\\\", ".", "{0..3}", "{a,b}",
          "{a..e..2}", "{05..1..2}", "{1..3..0}", "{3..1..-1}", "{,}", "{}", "{x}"]


def judge(pattern):
    try:
        return list(braceexpand(pattern))
    except UnbalancedBracesError:
        return None


def make(rng):
    while True:
        pattern = "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 9)))
        # braceexpand removes escapes once for each level of braces, so that an escaped backslash
        # inside braces escapes the next character after all; tarn removes them once.
        if not ("\\\\" in pattern and "{" in pattern):
            return pattern


def ours(patterns):
    done = subprocess.run([str(URLCAT), "expand", *patterns], stdout=subprocess.PIPE, text=True,
                          check=True)
    answers = done.stdout.split("\0")[:-1]
    assert len(answers) == len(patterns)
    for answer in answers:
        assert answer[:1] != "\1" or answer.startswith("\1usage: unbalanced braces"), answer
    return [None if a.startswith("\1") else a.split("\n")[:-1] for a in answers]


def main():
    rng = random.Random(3)
    fixed = ["train_{0000..0031}.tar", "{0..10..5}", "{a..e}", "{b}", "}{", "}{{a,b}", "}{a,b}",
             "{a,b}}{", "{{a,b},c}", "{Z..a}", "{z..A..7}", "{A..A}", "{1..1}", "{0..-3}",
             "{-5..5..3}", "{01..100..33}", "{-01..3}", "{1..2..}", "{1..}", "{..}", "{a..1}",
             "a\\", "{a,\\}", "\\{a,b}", "{a,b\\\\}", "{{{{a,b}}}}", "{a{b{c,d},e},f}{1..3}"]
    groups = [("the patterns that matter", fixed)]
    groups += [(f"random patterns, batch {i}", [make(rng) for _ in range(BATCH)])
               for i in range(10)]
    failed = 0
    print(f"1..{len(groups)}")
    for number, (name, patterns) in enumerate(groups, 1):
        wrong = [(p, judge(p), o) for p, o in zip(patterns, ours(patterns)) if judge(p) != o]
        print(f"{'not ok' if wrong else 'ok'} {number} - {name}")
        for pattern, want, got in wrong[:5]:
            print(f"# {pattern!r}: braceexpand {want}, tarn {got}")
        failed += bool(wrong)
    return failed > 0


sys.exit(main())

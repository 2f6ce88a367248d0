#!/usr/bin/env python3
"""The generators compared with Python's random and NumPy's default_rng, and with vectors recorded
with glzn's versions of them."""
import json
import os
import pathlib
import random
import subprocess
import sys

import numpy

from checks import run_all

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARN = pathlib.Path(os.environ.get("TARN", str(ROOT / "build/tarn")))
TOOL = TARN.parent / "tests/random_tool"
DATA = ROOT / "tests/data"


def ask(requests):
    text = "\n".join(" ".join(str(part) for part in r) for r in requests) + "\n"
    out = subprocess.run([TOOL], input=text, check=True, stdout=subprocess.PIPE, text=True).stdout
    lines = out.splitlines()
    assert len(lines) == len(requests)
    return [line if line == "error" else [int(n) for n in line.split()] for line in lines]


def words(n):
    n = abs(n)
    out = [n & 0xFFFFFFFF]
    while n := n >> 32:
        out.append(n & 0xFFFFFFFF)
    return [len(out), *out]


def compare(requests, wanted):
    for request, got, want in zip(requests, ask(requests), wanted, strict=True):
        assert got == want, f"{str(request)[:200]}: got {str(got)[:200]}, wanted {str(want)[:200]}"


def getrandbits_is_pythons():
    rng = random.Random(20)
    requests, wanted = [], []
    seeds = [0, 1, -1, 2**31, 2**32 - 1, 2**32, 2**64 - 1, 2**64, -(2**80), 3**500, 7**9000]
    for seed in seeds + [rng.getrandbits(rng.randint(1, 130)) for _ in range(100)]:
        sizes = [rng.randint(0, 64) for _ in range(900)]
        requests.append(["bits", *words(seed), len(sizes), *sizes])
        judge = random.Random(seed)
        wanted.append([judge.getrandbits(k) for k in sizes])
    compare(requests, wanted)


def seed_sequence_is_numpys():
    rng = random.Random(21)
    seeds = [0, 1, 2**32 - 1, 2**32, 2**64 - 1, 2**128 - 1, 2**128, 5**300]
    seeds += [rng.getrandbits(rng.randint(1, 300)) for _ in range(200)]
    compare([["seedseq", *words(s), 9] for s in seeds],
            [numpy.random.SeedSequence(s).generate_state(9, numpy.uint64).tolist() for s in seeds])


def raw_outputs_are_numpys():
    rng = random.Random(22)
    seeds = [0, 1, 2**64 - 1] + [rng.getrandbits(rng.randint(1, 64)) for _ in range(200)]
    compare([["raw", s, 20] for s in seeds],
            [numpy.random.default_rng(s).bit_generator.random_raw(20).tolist() for s in seeds])


def bounded_draws_are_numpys():
    rng = random.Random(23)
    requests, wanted = [], []
    for seed in range(300):
        lasts = [rng.choice([0, 1, 2, 5, 2**31, 2**32 - 2, 2**32 - 1, 2**32, 2**62,
                             2**63, 2**64 - 2, 2**64 - 1, rng.getrandbits(rng.randint(1, 64))])
                 for _ in range(30)]
        requests.append(["upto", seed, len(lasts), *lasts])
        judge = numpy.random.default_rng(seed)
        wanted.append([int(judge.integers(0, n, endpoint=True, dtype=numpy.uint64))
                       for n in lasts])
    compare(requests, wanted)


def choice_is_numpys():
    rng = random.Random(24)
    requests, wanted = [], []
    shapes = [(1, 1), (64, 64), (65, 65), (10000, 10000), (10001, 200), (10001, 201),
              (10001, 10001), (50000, 1000), (50000, 1001), (2**40, 100)]
    shapes += [(rng.randint(1, 40), None) for _ in range(1500)]
    for population, count in shapes:
        for replace in (False, True):
            k = count or rng.randint(1, 60 if replace else population)
            seed = rng.getrandbits(rng.choice([4, 30, 33, 64]))
            requests.append(["choice", seed, population, k, int(replace)])
            judge = numpy.random.default_rng(seed)
            wanted.append(judge.choice(population, k, replace=replace).tolist())
    requests += [["choice", 1, 3, 4, 0], ["choice", 1, 0, 1, 1]]
    wanted += ["error", "error"]
    compare(requests, wanted)


def vectors_of_the_reference():
    vectors = json.loads((DATA / "sampler_vectors.json").read_text())["python_getrandbits"]
    compare([["bits", *words(int(v["seed"])), len(v["k"]), *v["k"]] for v in vectors],
            [[int(n) for n in v["getrandbits"]] for v in vectors])
    vectors = json.loads((DATA / "grouping_vectors.json").read_text())
    compare([["choice", v["seed"], v["pop"], v["size"], int(v["replace"])]
             for v in vectors["numpy_choice"]], [v["indices"] for v in vectors["numpy_choice"]])
    compare([["raw", v["seed"], 4] for v in vectors["numpy_raw"]],
            [[int(n) for n in v["pcg64_first_u64"]] for v in vectors["numpy_raw"]])
    compare([["seedseq", *words(int(v["seed"])), 4] for v in vectors["numpy_raw"]],
            [[int(n) for n in v["seedsequence_state4_u64"]] for v in vectors["numpy_raw"]])


TESTS = [getrandbits_is_pythons, seed_sequence_is_numpys, raw_outputs_are_numpys,
         bounded_draws_are_numpys, choice_is_numpys, vectors_of_the_reference]


sys.exit(run_all(TESTS))

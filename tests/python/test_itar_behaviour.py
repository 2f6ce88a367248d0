"""Programs written for glzn.data do the same with tarn.itar: glzn_snippets.py has the programs.

Results are compared with those recorded from glzn (glzn_behaviour.py) and, if TARN_GLZN has the
folders of the package and of what it needs, with those of the package itself for other random data.
"""
import importlib.util
import json
import os
import random
import subprocess
import sys

import glzn_behaviour as behaviour
import pytest
from conftest import sanitized

pytest.importorskip("numpy")

# Attributes that glzn does not have, and those of another type (decoders is a dict, too).
MORE = {"iTarState": {"id2ext", "n_rows"}}
OTHER = {("iTarDataset", "decoders"), ("iTarState", "next_fid")}

GLZN = os.environ.get("TARN_GLZN")
SEED = random.randrange(10**6) if GLZN else behaviour.SEED
ATTRIBUTES = "show_attributes_of_all_classes_torch_images"
RECORDED = json.loads(behaviour.RECORD.read_text(encoding="utf-8"))
SNIPPETS = behaviour.load("tarn.itar")


def glzn_at(seed):
    """Returns what the snippets do with glzn."""
    if seed == behaviour.SEED:
        return RECORDED
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "glzn_behaviour.py")
    done = subprocess.run([sys.executable, path, GLZN, str(seed)], stdout=subprocess.PIPE,
                          check=True)
    return json.loads(done.stdout)


REAL = {behaviour.SEED: RECORDED, SEED: glzn_at(SEED)}


def compared(real, ours):
    """Whether descriptions are the same; an exception may be of a subclass."""
    if isinstance(real, list) and isinstance(ours, list):
        if real[:1] == ours[:1] == ["raises"]:
            return real[1][0] in ours[1]
        return len(real) == len(ours) and all(map(compared, real, ours))
    return real == ours and type(real) is type(ours)


def run(name, seed):
    needed = [module for word, module in (("torch", "torch"), ("images", "PIL"), ("mat", "scipy"))
              if word in name.split("_")]
    for module in needed:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"needs {module}")
    if "torch" in needed and sanitized():
        pytest.skip("torch is not run under AddressSanitizer")
    return json.loads(json.dumps(behaviour.outcome(SNIPPETS[name], name, seed)))


def named(prefix):
    return [name for name in SNIPPETS if name.startswith(prefix) and name != ATTRIBUTES]


def test_each_snippet_is_recorded():
    assert RECORDED.keys() == SNIPPETS.keys() == REAL[SEED].keys()
    assert len(named("show_")) > 90


@pytest.mark.parametrize("seed", REAL)
@pytest.mark.parametrize("name", named("show_"))
def test_a_program_does_the_same(name, seed):
    real, ours = REAL[seed][name], run(name, seed)
    assert real["printed"] == ours["printed"]
    assert compared(real["value"], ours["value"]), f"{real['value']}\n{ours['value']}"
    assert real["value"][:1] != ["raises"], "the snippet itself is wrong"


@pytest.mark.parametrize("name", named("differ_"))
def test_a_documented_difference_is_one(name):
    ours = run(name, behaviour.SEED)
    real = RECORDED[name]
    assert real["printed"] != ours["printed"] or not compared(real["value"], ours["value"])
    for each in (ours, real):
        assert "raises" not in each["value"][:1], "the snippet itself is wrong"


def test_instances_have_the_attributes_of_glzn():
    told = [{name: dict(attributes) for (name, (_, *attributes)) in outcome[ATTRIBUTES]["value"][1:]}
            for outcome in (REAL[SEED], {ATTRIBUTES: run(ATTRIBUTES, SEED)})]
    real, ours = told
    assert real.keys() == ours.keys() and len(real) == 30
    for name, attributes in real.items():
        assert ours[name].keys() - attributes.keys() == MORE.get(name, set()), name
        for attribute, kind in attributes.items():
            if (name, attribute) not in OTHER:
                assert ours[name].get(attribute) == kind, f"{name}.{attribute}"

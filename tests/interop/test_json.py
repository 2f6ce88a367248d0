#!/usr/bin/env python3
"""JSON compared with Python's own module: tarn loads what Python loads, refuses what it refuses,
and writes what it dumps byte for byte. Generated values and texts, doubles of every kind."""
import json
import math
import pathlib
import random
import struct
import subprocess
import sys

from checks import TARN as TOOL, check

TARN = pathlib.Path(TOOL)
TOOL = TARN.parent / "tests/json_tool"
sys.set_int_max_str_digits(0)


def run(args, data):
    return subprocess.run([TOOL, *args], input=data, check=True,
                          stdout=subprocess.PIPE).stdout


def convert(texts, how, indent=None):
    data = b"".join(t.encode("utf-8", "surrogatepass") + b"\0" for t in texts)
    out = run([how, str(-1 if indent is None else indent)], data).split(b"\0")
    assert len(out) == len(texts) + 1
    return [o.decode("utf-8") for o in out[:-1]]


# --- Values -------------------------------------------------------------------------

CHARS = ('abcXYZ 019"\\/\b\f\n\r\t\x01\x1f\x7f\x80\xa0\xe9\u03a3\u2028\u2029\ufeff\ufffd\uffff'
         "\U00010000\U0001f600\U0010ffff\ud800\udbff\udc00\udfff")


def random_text(rng):
    return "".join(rng.choice(CHARS) for _ in range(rng.randint(0, 8)))


def random_double(rng):
    kind = rng.random()
    if kind < 0.3:
        return rng.choice([0.0, -0.0, 1.0, -1.0, 0.1, 1e-5, 1e-4, 1e16, 1e15, 123456789012345680.0,
                           -1e300, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308,
                           math.nan, math.inf, -math.inf, 9007199254740993.0])
    if kind < 0.6:
        return rng.uniform(-1000, 1000)
    return struct.unpack("<d", rng.randbytes(8))[0]


def random_value(rng, depth):
    kind = rng.random()
    if depth > 0 and kind < 0.25:
        return [random_value(rng, depth - 1) for _ in range(rng.randint(0, 5))]
    if depth > 0 and kind < 0.55:
        return {random_text(rng): random_value(rng, depth - 1) for _ in range(rng.randint(0, 14))}
    if kind < 0.65:
        return random_text(rng)
    if kind < 0.8:
        return rng.choice([0, -1, 7, rng.getrandbits(64), -rng.getrandbits(70), 10 ** 400])
    if kind < 0.95:
        return random_double(rng)
    return rng.choice([None, True, False])


def first_difference(texts, got, want):
    for text, g, w in zip(texts, got, want):
        if g != w:
            return f"{text[:300]!r}: {g[:300]!r}, and Python says {w[:300]!r}"
    return None


def dumped(how, indent):
    rng = random.Random(3)
    values = [random_value(rng, 4) for _ in range(800)]
    values += [[], {}, [[]], [{}], {"": {}}, {"a": []}, [[], {}, ""]]
    texts = [json.dumps(v) for v in values]
    values = [json.loads(t) for t in texts]  # joins adjacent surrogates
    ascii_only = "utf8" not in how
    want = []
    for value in values:
        text = json.dumps(value, sort_keys="sort" in how, indent=indent, ensure_ascii=ascii_only)
        # Python leaves lone surrogates, which then cannot be encoded; tarn escapes them.
        want.append("".join(f"\\u{ord(c):04x}" if 0xd800 <= ord(c) < 0xe000 else c for c in text))
    return first_difference(texts, convert(texts, how, indent), want)


def odd_but_good():
    texts = ["-0", "-0.0", "1E5", "1e400", "-1e400", "1e-400", "0.1e1", "1.0", "0e0", "-0e-0",
             " \t\r\n[ 1 , 2 ]\n", '{"a" : 1 , "b":2}', '"\\/\\u0041\\u00e9\\u0000"',
             '"\\ud83d\\ude00"', '"\\ud83d"', '"\\ude00\\ud83d"', '"\\ud83dx\\ude00"',
             '"\\ud83d\\ud83d\\ude00"', '"\\uD83D\\uDE00"', '"é😀"', "NaN", "Infinity",
             "-Infinity", "[NaN,Infinity,-Infinity]", "9" * 5000, "0." + "0" * 400 + "1",
             "1" * 400 + ".5", "1e" + "0" * 400 + "5", "2.50", "100.0e-1", "null", "true",
             "[" * 400 + "]" * 400, '"\x7f"', '{"":0}', '{"a":{"a":{"a":1}}}']
    return first_difference(texts, convert(texts, "write"),
                            [json.dumps(json.loads(t)) for t in texts])


def keys_twice():
    """Refused, with the offset of the second; or accepted as in Python, if requested."""
    rng = random.Random(5)
    texts = ['{"a":1,"b":2,"a":3}', '{"a":1,"\\u0061":[{"x":1,"x":[2]}],"b":{}}']
    for _ in range(500):
        pairs = [(rng.choice("abcdefgh") * rng.randint(1, 2),
                  rng.choice(["1", "[1,2]", '{"x":1,"x":2}', '{"y":[{}]}', '[{"k":{},"k":[[],{"z":1,"z":{}}]},3]']))
                 for _ in range(rng.randint(2, 20))]
        texts.append("{" + ",".join(f'"{k}":{v}' for k, v in pairs) + "}")
    problem = first_difference(texts, convert(texts, "last"),
                               [json.dumps(json.loads(t)) for t in texts])
    if problem:
        return problem
    refused = convert(texts[:2], "write")
    if not refused[0].startswith('!format 13 JSON: duplicate key "a"'):
        return refused[0]
    return None if refused[1].startswith('!format 24 JSON: duplicate key "x"') else refused[1]


def refused():
    rng = random.Random(9)
    texts = ["", " ", "[", "]", "{", "}", "[1", "[1,", "[1,]", "[,1]", '{"a"', '{"a":', '{"a":1,',
             '{"a":1,}', '{,"a":1}', "{1:2}", "{a:1}", "'a'", '"', '"a', '"\\', '"\\x"', '"\\u"',
             '"\\u12"', '"\\u12g4"', '"\\ud800\\u"', '"\t"', '"\n"', '"\x01"', "01", "-01", "-", "+1",
             ".5", "1.", "1.e5", "1e", "1e+", "0x10", "1_000", "nul", "nulll", "True", "nan",
             "infinity", "-Inf", "- 1", "--1", "1 2", "[] []", "[1 2]", '{"a" 1}', '{"a":1 "b":2}',
             "\ufeff1", "\u00a01", "1\u2003", "//x\n1", "[1]x", "\x0b1", "\x0c1", "NaNx",
             '"a" "b"', "[}", "{]", '{"a":]', "[" * 600, "[1" + "]" * 2]
    good = [json.dumps(random_value(rng, 3)) for _ in range(400)]
    for text in good:
        for _ in range(5):
            at = rng.randrange(len(text))
            texts.append(rng.choice([text[:at], text[:at] + rng.choice('",:[]{}\\0e.-x ') + text[at:],
                                     text[:at] + text[at + 1:]]))
    texts = [t for t in texts if "\0" not in t]
    for text, got in zip(texts, convert(texts, "last")):
        try:
            want = json.dumps(json.loads(text))
        except (ValueError, RecursionError):
            want = "!"
        if got != want and not (want == "!" and got.startswith("!format ")) and \
                not (got.startswith("!limit") and text.startswith("[" * 513)):
            return f"{text!r}: {got!r}, and Python says {want!r}"
    return None


def not_utf8():
    texts = [b'"\xff"', b'"\xc0\x80"', b'"\xed\xa0\x80"', b'"\xf4\x90\x80\x80"', b'"\xe2\x82"',
             b'"ab\x80"', b"\xff"]
    out = run(["write", "-1"], b"\0".join(texts) + b"\0").split(b"\0")[:-1]
    bad = [o for o in out if not o.startswith(b"!format ")]
    return f"{bad}" if bad or b"offset" in out[0] or b"!format 3 " not in out[5] else None


def doubles():
    rng = random.Random(11)
    values = [random_double(rng) for _ in range(30000)]
    for exponent in range(-1074, 1024):
        power = math.ldexp(1.0, exponent)
        values += [power, math.nextafter(power, 0), math.nextafter(power, math.inf)]
    values += [float(f"{m}e{e}") for e in range(-30, 30) for m in (1, 9, 15, 123456, 99999999)]
    values += [rng.randrange(1, 10 ** 17) / 10 ** rng.randrange(20) for _ in range(15000)]
    got = run(["doubles"], struct.pack(f"<{len(values)}d", *values)).decode().split("\n")[:-1]
    for value, text in zip(values, got):
        if text != json.dumps(value):
            return f"{json.dumps(value)} is written {text}"
    return None if len(got) == len(values) else "lines are missing"


def hostile():
    """With quadratic work this would not end."""
    many = 300000
    texts = ["{" + ",".join(f'"{"x" * 40}{i}":0' for i in range(many)) + "}",
             "[" * 100000, '[{"a":' * 100000, "[" + "0," * many + "0]",
             '"' + "\\u0041" * many + '"', "1" * 1000000, "0." + "1" * 1000000]
    out = convert(texts, "sort")
    if not out[0].startswith('{"xxx') or out[4] != '"' + "A" * many + '"' or out[5] != texts[5]:
        return "a large text is not read"
    # Duplicate keys at every level, around a large value.
    nest = '{"a":0,"b":1,"a":' * 500 + "[" + "0," * many + "0]" + "}" * 500
    if convert([nest], "last") != [json.dumps(json.loads(nest))]:
        return "duplicate keys at every level"
    deep = [o[:60] for o, at in zip(out[1:3], (512, 1536))
            if not o.startswith(f"!limit {at} JSON: more than 512 levels")]
    return str(deep) if deep or out[6] != "0.1111111111111111" else None


def main():
    tests = [("dumps", lambda: dumped("write", None)),
             ("dumps with sorted keys", lambda: dumped("sort", None)),
             ("dumps with indent 2", lambda: dumped("write", 2)),
             ("dumps with indent 0", lambda: dumped("write", 0)),
             ("dumps with sorted keys and indent 4", lambda: dumped("sort", 4)),
             ("dumps without ensure_ascii", lambda: dumped("utf8", None)),
             ("dumps sorted without ensure_ascii, indented", lambda: dumped("sort-utf8", 1)),
             ("texts that are odd but good", odd_but_good),
             ("duplicate keys", keys_twice),
             ("what Python refuses", refused),
             ("bytes that are not UTF-8 are refused", not_utf8),
             ("doubles", doubles),
             ("hostile texts", hostile)]
    for title, test in tests:
        problem = test()
        check(title, problem is None, problem)
    return check.end()


sys.exit(main())

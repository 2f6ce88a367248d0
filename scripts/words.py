#!/usr/bin/env python3
"""Finds phrases that our prose does not use, and suggests alternatives.

  words.py                counts by folder, of everything
  words.py PATH...        every place in these files and folders
  words.py --check        every place in the tree; exits with 1 if there is one
  words.py --test         tests the finder with each phrase, in each kind of file

Prose is: Markdown without its code; comments and string literals of C and Python; comments of
shell scripts, Makefiles, lists (.txt) and configuration. The manual pages and the help are string literals of cli/.
scripts/words_allow.txt has the exceptions.
"""
import collections
import io
import pathlib
import re
import subprocess
import sys
import tokenize

ROOT = pathlib.Path(__file__).resolve().parent.parent
HERE = ROOT / "scripts"
SKIPPED = ("fuzz/corpus", "tests/data", "third_party", "docs/benchmarks/results.json", "scripts/words")

# (pattern, what to write instead, a text that must be found)
PHRASES = (
    (r"one behind the other", "consecutively, in order", "written one behind the other"),
    (r"behind", "after", "the bytes behind the header"),
    (r"is told|are told|told|tells?|telling", "reports, warns, prints, says", "the user is told"),
    (r"go(?:es|ing)? on|went on", "continues, resumes", "the run goes on"),
    (r"stands?|stood|standing", "is, is stored, appears", "the length stands in the header"),
    (r"lies?|lying", "is, is stored, appears", "what lies in the file"),
    (r"pass(?:es|ed|ing)? over", "skips, skipped", "damaged members are passed over"),
    (r"anew|once more", "again, rewrites", "the index is made anew"),
    (r"whoever|somebody|anybody who", "callers that, users who, you", "whoever calls it"),
    (r"(?<=[.;:] )who \w+s", "callers that, users who, you", "It is shared. Who writes copies it"),
    (r"(?:is|are) there already|there already|that (?:is|are) there", "existing, already exists",
     "files that are there"),
    (r"(?<!there )(?:is|are|was|were) no (?!longer|more|less|fewer|such|one\b|way|need)\w+", "is not a valid X, is not an X",
     "this is no state"),
    (r"the reference(?! count| manual| page| section)", "glzn, webdataset, iatro-base-iac: name it",
     "as the reference does"),
    (r"alike", "of the same shape, identical", "samples that are alike"),
    (r"be had", "be read, be obtained, is unavailable", "it cannot be had"),
    (r"put right|mend(?:s|ed|ing)?", "fixed", "errors that were mended"),
    (r"at fault", "invalid, damaged", "the data is at fault"),
    (r"look(?:s|ed|ing)? whether|(?:is|are|was|were|be) looked at", "checks whether, is checked",
     "it looks whether there is room"),
    (r"without a word", "silently", "it ends without a word"),
    (r"hash crash(?:es)?|crash(?:es)? of (?:keys|hashes)|keys (?:that )?crash", "collision", "a hash crash"),
    (r"so many", "that many, N", "after so many epochs"),
    (r"(?:a|the|this|that|each|every|one|another|whole|medical) packs?(?![-\w/]|[.]\w)", "record pack, IAC file",
     "rows of a pack"),
)
FOUND = [(re.compile(rf"(?<![\w-])(?:{pattern})(?!\w)", re.I), instead, example)
         for pattern, instead, example in PHRASES]


def lines_of(name):
    text = (HERE / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def allowed():
    """[(path prefix or *, text)]: a hit inside this text is allowed in files whose path begins with
    the prefix."""
    return [tuple(line.split(None, 1)) for line in lines_of("words_allow.txt")]


# --- The prose of a file: (line number, text) ----------------------------------------------


def blank(match):
    """The same number of lines, without words."""
    return "\n" * match.group(0).count("\n")


def markdown(text):
    text = re.sub(r"^```.*?^```", blank, text, flags=re.M | re.S)
    text = re.sub(r"`[^`\n]*`|\]\([^)]*\)", " ", text)
    return paragraphs(text)


def paragraphs(text):
    """Lines of one paragraph, so that a phrase is found across the end of a line."""
    start, held = 1, []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.strip():
            held.append(line)
            start = number if len(held) == 1 else start
        elif held:
            yield start, "\n".join(held)
            held = []


C_TOKEN = re.compile(r"""/\*.*?\*/|//[^\n]*|'(?:\\.|[^'\\\n])+'|"(?:\\.|[^"\\\n])*"(?:\s*"(?:\\.|[^"\\\n])*")*""", re.S)


def c_source(text):
    text = re.sub(r"^#\s*include.*$", "", text, flags=re.M)
    for match in C_TOKEN.finditer(text):
        token = match.group(0)
        if token.startswith("'"):
            continue
        if token.startswith('"'):
            token = re.sub(r'"(\s*)"', r"\1", token).replace("\\n", " ")
        else:
            token = re.sub(r"^\s*\* ?|\*/$|^/\*", " ", token, flags=re.M)
        yield text.count("\n", 0, match.start()) + 1, token


def python_source(text):
    comments = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments[token.start[0]] = token.string.lstrip("#")
        elif token.type == tokenize.STRING or "FSTRING_MIDDLE" == tokenize.tok_name.get(token.type):
            plain = re.match(r"[rbuRBU]*['\"]", token.string)
            yield token.start[0], token.string if plain else re.sub(r"\{[^{}]*\}", "{}", token.string)
    yield from joined(comments)


def shell_source(text):
    comments = {number: re.search(r"(?:^|\s)#(?!!)(.*)", line) for number, line in enumerate(text.splitlines(), 1)}
    yield from joined({number: found.group(1) for number, found in comments.items() if found})


def joined(lines):
    """Joins comments on consecutive lines."""
    start = None
    for number in sorted(lines):
        if start is None or number != start + len(held):
            if start:
                yield start, "\n".join(held)
            start, held = number, []
        held.append(lines[number])
    if start:
        yield start, "\n".join(held)


READERS = {".md": markdown, ".c": c_source, ".h": c_source, ".map": c_source, ".py": python_source, ".pyi": python_source,
           ".sh": shell_source, ".build": shell_source, ".yml": shell_source, ".toml": shell_source, ".txt": shell_source, ".rs": c_source,
           "Makefile": shell_source}


def reader_of(path):
    return READERS.get(path.suffix or path.name)


# --- Finding ---------------------------------------------------------------------------------


def is_allowed(rows, name, text, match):
    for prefix, phrase in rows:
        if prefix == "*" or name.startswith(prefix):
            for place in re.finditer(re.escape(phrase).replace(r"\ ", r"\s+"), text, re.I):
                if place.start() <= match.start() and match.end() <= place.end():
                    return True
    return False


def hits(name, text, reader, rows):
    """(line, what was found, what to write instead); a longer phrase counts once."""
    for start, prose in reader(text):
        taken = []
        for pattern, instead, _ in FOUND:
            for match in pattern.finditer(prose):
                inside = any(match.start() < end and begin < match.end() for begin, end in taken)
                if not inside and not is_allowed(rows, name, prose, match):
                    taken.append(match.span())
                    line = start + prose.count("\n", 0, match.start())
                    yield line, " ".join(match.group(0).split()), instead


def files(under=()):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z", "--", *under], cwd=ROOT, check=True,
                            stdout=subprocess.PIPE, text=True)
    for name in sorted(set(listed.stdout.split("\0")) - {""}):
        if not name.startswith(SKIPPED) and (ROOT / name).is_file() and reader_of(pathlib.Path(name)):
            yield name


def hits_of(name, rows):
    text = (ROOT / name).read_text(encoding="utf-8")
    return sorted(hits(name, text, reader_of(pathlib.Path(name)), rows))


def show(names):
    """Prints all hits and returns their number."""
    rows, count = allowed(), 0
    for name in names:
        for line, what, instead in hits_of(name, rows):
            print(f"{name}:{line}: {what!r}: write: {instead}")
            count += 1
    return count


def folder_of(name):
    parts = name.split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def counts():
    rows = allowed()
    by_folder, by_phrase, listed = collections.Counter(), collections.Counter(), collections.Counter()
    for name in files():
        found = hits_of(name, rows)
        by_folder[folder_of(name)] += len(found)
        listed[folder_of(name)] += 1
        by_phrase.update(instead for _, _, instead in found)
    for folder, count in sorted(by_folder.items(), key=lambda row: (-row[1], row[0])):
        print(f"{count:6} {folder} ({listed[folder]} files)")
    print(f"{by_folder.total():6} in all. By what to write instead:")
    for instead, count in by_phrase.most_common():
        print(f"{count:6} {instead}")


# --- Testing the finder ------------------------------------------------------------------------

KINDS = {
    "x.md": "Some text: {}.\n", "x.c": "/* Some text:\n * {}. */\n", "y.c": 'puts("Some text: {}.");\n',
    "x.h": "// {}\n", "x.py": '"""Some text: {}."""\n', "y.py": "x = 1  # {}\n", "z.py": 'raise ValueError(f"{}")\n',
    "x.sh": "# {}\n", "y.sh": "x=1 # {}\n", "x.txt": "# {}\n",
}


def test():
    """Checks that each phrase is found in each kind of file, also across two lines, and that allowed ones are not."""
    wrong = []
    for _, instead, example in FOUND:
        for name, frame in KINDS.items():
            text = frame.replace("{}", example)
            if not any(found[2] == instead for found in hits(name, text, READERS[pathlib.Path(name).suffix], [])):
                wrong.append(f"{example!r} is not found in {name}")
        first, _, rest = example.partition(" ")
        if rest and not list(hits("x.c", f"/* {first}\n * {rest} */", c_source, [])):
            wrong.append(f"{example!r} is not found across two lines")
    for text in ("`tell()` and `behind`", "a standard header", "```\nit is told\n```\n", "[x](behind.md)"):
        wrong += [f"{text!r} is found" for _ in hits("x.md", text, markdown, [])]
    if list(hits("x.md", "what stands behind it", markdown, [("*", "stands behind it")])):
        wrong.append("an allowed text is found")
    if len(list(hits("x.md", "x stands behind it", markdown, [("docs/", "stands behind it")]))) != 2:
        wrong.append("an exception holds where it is not meant to")
    print("\n".join(wrong) or f"{len(FOUND)} phrases are found in {len(KINDS)} kinds of places")
    return 1 if wrong else 0


def main():
    arguments = sys.argv[1:]
    if arguments == ["--test"]:
        return test()
    if arguments == ["--check"]:
        return 1 if show(files()) else 0
    if arguments:
        return 1 if show(files(arguments)) else 0
    counts()
    return 0


if __name__ == "__main__":
    sys.exit(main())

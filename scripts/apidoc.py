#!/usr/bin/env python3
"""Writes the pages of the C reference from the comments of the headers in include/tarn.

  apidoc.py FOLDER

Headers must have this form: an overview in the first comment; sections in comments
/* --- Title --- */; a comment belongs to the declarations that follow it up to an empty line.
"""
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADERS = ROOT / "include/tarn"
NAME = re.compile(r"\b(tarn_\w+|TARN_\w+|Arrow\w+)\b")
HIDDEN = {"TARN_API", "TARN_CHECKED", "TARN_INLINE"}


class Item:
    """Consecutive declarations, and the comment about them."""

    def __init__(self, comment):
        self.comment, self.code = comment, []

    def names(self):
        return [name for name in (declared(code) for code in self.code) if name not in HIDDEN]


def declared(code):
    """The name that a declaration introduces."""
    if code.startswith("#define"):
        return re.match(r"#define (\w+)", code).group(1)
    code = re.sub(r"/\*.*?\*/", "", code, flags=re.S).rstrip()
    if re.match(r"(typedef )?(struct|enum|union) ", code) and (code[-2:] != ");" or "{" in code):
        if "{" not in code or code.startswith("typedef"):
            return re.search(r"(\w+)\s*;\s*$", code).group(1)
        return re.match(r"(?:struct|enum|union) (\w+)", code).group(1)
    return re.search(r"(?:\(\*(?=\w+\)))?(\w+)\)?\(", code).group(1)


def comment_text(raw):
    lines = raw.strip().removeprefix("/*").removesuffix("*/").splitlines() or [""]
    return "\n".join([lines[0].strip()] + [re.sub(r"^ ?\* ?", "", line.rstrip()) for line in lines[1:]]).strip("\n")


def chunks(text):
    """The comments, declarations and empty lines of a header, in order."""
    lines = text.splitlines()
    i = 0
    while i < len(lines):
        start = i
        line = lines[i]
        if line.startswith("/*"):
            while "*/" not in lines[i]:
                i += 1
            yield "comment", "\n".join(lines[start:i + 1])
        elif line.startswith("#"):
            while lines[i].endswith("\\"):
                i += 1
            if line.startswith("#define"):
                yield "code", "\n".join(lines[start:i + 1])
        elif not line.strip():
            yield "empty", ""
        elif line.rstrip() not in ('extern "C" {', "}"):
            while not complete(lines[start:i + 1]) and lines[i] != "}":
                i += 1
            yield "code", "\n".join(lines[start:i + 1])
        i += 1


def complete(lines):
    code = re.sub(r"/\*.*?\*/", "", "\n".join(lines), flags=re.S).rstrip()
    return code.endswith(";") and code.count("{") == code.count("}") and code.count("(") == code.count(")")


def parse(path):
    """(overview, [(section, [Item])]) of a header."""
    text = re.sub(r"^TARN_INLINE .*?^\}\n", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    overview, sections, pending, current = None, [("", [])], "", None
    for kind, body in chunks(text):
        if kind == "comment" and overview is None:
            overview = comment_text(body)
        elif kind == "comment" and (match := re.match(r"/\* -{3} (.*?) -{3,}(.*)\*/\s*$", body, re.S)):
            sections.append((match.group(1), []))
            current, pending = None, comment_text("/*" + match.group(2)).strip()
        elif kind == "comment":
            pending, current = comment_text(body), None
        elif kind == "empty":
            if pending:
                sections[-1][1].append(Item(pending))
            current, pending = None, ""
        elif not body.startswith("#define TARN_") or not body.rstrip().endswith("_H"):
            if current is None:
                current = Item(pending)
                sections[-1][1].append(current)
            current.code.append(body)
            pending = ""
    return overview, [(title, [item for item in items if item.comment or item.names()])
                      for title, items in sections if items]


def shown(code):
    """A declaration without attributes, and without the body of macros."""
    if code.startswith("#define"):
        first = code.split("\n")[0].rstrip("\\").rstrip()
        return re.sub(r"\s+", " ", first)
    if "{" in code:
        return code
    code = re.sub(r"\s+", " ", re.sub(r"TARN_API |TARN_CHECKED |TARN_INLINE ", "", code)).strip()
    return "\n".join(textwrap.wrap(code, 96, subsequent_indent="    ", break_on_hyphens=False))


def slug(title):
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def heading(item):
    return ", ".join(f"`{name}`" for name in item.names())


def capital(text):
    return text[0].upper() + text[1:]


def linked(text, where, page):
    def link(match):
        name = match.group(1)
        if name not in where:
            return f"`{name}`"
        target, anchor = where[name]
        return f"[`{name}`]({'' if target == page else target}#{anchor})"

    text = re.sub(r"([*<])", r"\\\1", text)
    return NAME.sub(link, text)


def prose(text, where, page):
    """A comment as Markdown; indented lines become code blocks."""
    out = []
    for paragraph in re.split(r"\n\s*\n", text):
        lines = paragraph.split("\n")
        listed = any(line.startswith("- ") for line in lines)
        while lines:
            indented = lines[0].startswith("  ") and not listed
            same = [line.startswith("  ") and not listed for line in lines]
            end = same.index(not indented) if (not indented) in same else len(lines)
            part, lines = "\n".join(lines[:end]), lines[end:]
            out.append("```text\n" + textwrap.dedent(part) + "\n```" if indented else linked(part, where, page))
    return "\n\n".join(out).replace("\n```\n\n```text\n", "\n\n")


def render(path, overview, sections, where):
    page = path.stem + ".md"
    title, _, rest = overview.partition(": ")
    out = [f"# {title}", "<!-- Made from the header by scripts/apidoc.py. -->",
           prose(capital(rest), where, page)]
    contents = []
    for section, items in sections:
        names = ", ".join(f"[`{name}`](#{slug(heading(item))})" for item in items for name in item.names())
        if section or names:
            contents.append(f"- [{section}](#{slug(section)}): {names}" if section else f"- {names}")
    if contents:
        out.append("\n".join(contents))
    for section, items in sections:
        if section:
            out.append(f"## {section}")
        for item in items:
            if item.code:
                out.append(f"### {heading(item)}")
                out.append("```c\n" + "\n".join(shown(code) for code in item.code
                                                if declared(code) not in HIDDEN) + "\n```")
            if item.comment:
                out.append(prose(item.comment, where, page))
    return "\n\n".join(out) + "\n"


def index(parsed, where):
    out = ["# The C library", "<!-- Made from the headers by scripts/apidoc.py. -->",
           prose(capital(parsed["tarn"][0].partition(": ")[2]), where, "README.md"),
           "```c\n#include <tarn/tarn.h>\n```", "| header | |\n| --- | --- |\n" + "\n".join(
               f"| [tarn/{name}.h]({name}.md) | {linked(first_words(overview), where, 'README.md')} |"
               for name, (overview, _) in sorted(parsed.items()) if name != "tarn"), "## Functions"]
    names = sorted(name for name in where if name.startswith("tarn_") and name in functions(parsed))
    out.append("\n".join(f"- [`{name}`]({where[name][0]}#{where[name][1]})" for name in names))
    return "\n\n".join(out) + "\n"


def first_words(overview):
    text = overview.partition(": ")[2].replace("\n", " ")
    return re.split(r"\.(?= |$)|  ", text)[0].strip()


def functions(parsed):
    return {declared(code) for _, sections in parsed.values() for _, items in sections
            for item in items for code in item.code if "TARN_API" in code}


def pages():
    parsed = {path.stem: parse(path) for path in sorted(HEADERS.glob("*.h"))}
    where = {}
    for stem, (_, sections) in parsed.items():
        for _, items in sections:
            for item in items:
                constants = [name for code in item.code if "enum" in code.split("{")[0]
                             for name in re.findall(r"^ +(TARN_\w+)", code, re.M)]
                for name in item.names() + constants:
                    where.setdefault(name, (stem + ".md", slug(heading(item))))
    out = {f"{stem}.md": render(HEADERS / f"{stem}.h", *parsed[stem], where) for stem in parsed if stem != "tarn"}
    out["README.md"] = index(parsed, where)
    return out


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Builds the documentation site in build-docs/site: the pages of docs/, the README, the project pages, and references
generated from the headers and the docstrings.

  docs.py [BUILD]    BUILD (default: build-plain) contains the Python package

Links in the repository point to files of the repository. On the site, a link to a header points to its page in the
C reference, a link to the folder of the Python package points to the page of all names, and a link to an example
points to a copy of it. mkdocs runs with --strict: a broken link or anchor is an error.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True

import apidoc  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "build-docs"
PAGES = OUT / "pages"
LINK = re.compile(r"(\[(?:[^\[\]]|\[[^\]]*\])*\]\()([^()\s]+)(\))")
# Files of the repository that have a different place on the site.
PLACES = {
    "README.md": "README.md", "docs/README.md": "pages.md", "CONTRIBUTING.md": "project/contributing.md", "SECURITY.md": "project/security.md",
    "CHANGELOG.md": "project/changelog.md", "LICENSE": "project/license.txt", "examples": "examples/README.md",
    "include/tarn": "c-api/README.md", "python/tarn": "python/names.md", "docs/benchmarks": "benchmarks/README.md",
}
SECTIONS = (("Guides", "guides"), ("Python", "python"), ("C", "c-api"), ("Formats", "formats"),
            ("Benchmarks", "benchmarks"), ("Inside", "internals"), ("Examples", "examples"), ("Project", "project"))


def place(name):
    """The place of a file of the repository on the site, or None. README.md becomes the index of its folder, so no
    page may be named index.md. The README of the project is the first page.
    """
    if name in PLACES:
        return PLACES[name]
    if name.startswith("docs/"):
        return re.sub(r"/index\.md$", "/indexes.md", name.removeprefix("docs/"))
    if name.startswith("include/tarn/") and name.endswith(".h"):
        return place(f"docs/c-api/{pathlib.Path(name).stem}.md")
    return name if name.startswith("examples/") else None


def relinked(text, source, target):
    """The links of a page, converted for the site."""
    def change(match):
        link, _, anchor = match.group(2).partition("#")
        if not link or re.match(r"[a-z]+:", link):
            return match.group(0)
        name = os.path.relpath((ROOT / source).parent / link, ROOT)
        there = place(name)
        if there is None:
            raise SystemExit(f"docs.py: {source}: no page of the site shows {name}")
        path = os.path.relpath(there, pathlib.PurePath(target).parent)
        return f"{match.group(1)}{path}{'#' + anchor if anchor else ''}{match.group(3)}"

    return LINK.sub(change, text)


def converted(text, source, target):
    """A page for mkdocs: without hidden comments, with converted links, and with an empty line before each list."""
    out = []
    for part in re.split(r"(^```.*?^```$)", re.sub(r"<!--.*?-->\n?", "", text, flags=re.S), flags=re.M | re.S):
        if not part.startswith("```"):
            part = relinked(part, source, target)
            part = re.sub(r"^(?![-*|#\s]|\d+\. )(.+)\n(?=(?:[-*]|\d+\.) )", r"\1\n\n", part, flags=re.M)
        out.append(part)
    return "".join(out)


def write(name, text):
    path = PAGES / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def copy_pages():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "docs", "examples", *PLACES],
                            cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    for name in sorted({name for name in listed if name and (ROOT / name).is_file()}):
        there = place(name)
        if name.startswith(("include/", "python/")) or there is None:
            continue
        if name.endswith(".md"):
            write(there, converted((ROOT / name).read_text(encoding="utf-8"), name, there))
        else:
            (PAGES / there).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, PAGES / there)


def add_references(build):
    for name, text in apidoc.pages().items():
        there = place(f"docs/c-api/{name}")
        write(there, relinked(text, f"docs/c-api/{name}", there))
    python = ROOT / ".venv/bin/python"
    subprocess.run([python, ROOT / "scripts/pynames.py", PAGES / "python/names.md"], check=True,
                   env={**os.environ, "PYTHONPATH": str(build / "python")})


def add_examples():
    """A page with every example; the example files are next to it."""
    names = sorted(path.relative_to(PAGES / "examples").as_posix() for path in (PAGES / "examples").rglob("*")
                   if path.is_file() and path.suffix in (".c", ".py"))
    write("examples/README.md", "# Examples\n\n" + "".join(f"- [{name}]({name})\n" for name in names))


def title(path):
    match = re.search(r"^# +(.*)$", path.read_text(encoding="utf-8"), re.M)
    return match.group(1).replace("`", "") if match else path.stem


def navigation():
    """All pages: the first ones, then a section for each folder."""
    out = [{"Home": "README.md"}, {"Tour": "tour.md"}]
    for name, folder in SECTIONS:
        pages = sorted((PAGES / folder).glob("*.md"), key=lambda path: (path.name != "README.md", path.name))
        out.append({name: [{title(path): f"{folder}/{path.name}"} for path in pages]})
    out.append({"More": [{title(path): path.name} for path in sorted(PAGES.glob("*.md"))
                         if path.name not in ("README.md", "tour.md")]})
    return out


def main():
    build = ROOT / (sys.argv[1] if sys.argv[1:] else "build-plain")
    shutil.rmtree(PAGES, ignore_errors=True)
    copy_pages()
    add_references(build)
    add_examples()
    config = OUT / "mkdocs.yml"
    # JSON is YAML.
    config.write_text(f"INHERIT: {ROOT / 'mkdocs.yml'}\ndocs_dir: {PAGES}\nsite_dir: {OUT / 'site'}\n"
                      f"nav: {json.dumps(navigation())}\n", encoding="utf-8")
    done = subprocess.run([ROOT / ".venv-docs/bin/mkdocs", "build", "--strict", "-f", config],
                          env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    if done.returncode == 0:
        print(f"{len(list((OUT / 'site').rglob('*.html')))} pages. To read and search them: "
              f"python3 -m http.server -d {(OUT / 'site').relative_to(ROOT)}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())

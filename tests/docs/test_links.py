#!/usr/bin/env python3
"""Every relative link and anchor in a Markdown page is valid, and the index has all pages."""
import re
import subprocess
import sys

from pages import FENCE, ROOT, Tap

LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+(?:\([^()]*\))?)\)")


def tracked():
    """Pages of the checkout, including untracked ones."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    names = listed.stdout.split() if listed.returncode == 0 else [
        str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]]
    return sorted(name for name in names if (ROOT / name).exists())


def prose(page):
    """A page without its code, where brackets have other meanings."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    return re.sub(r"<!--.*?-->", "", text, flags=re.S)


def anchors(page):
    """The anchors of the headings, as GitHub names them."""
    seen, out = {}, set()
    for title in re.findall(r"^#+ +(.*?) *$", prose(page), re.M):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
        name = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        count = seen.get(name, 0)
        seen[name] = count + 1
        out.add(f"{name}-{count}" if count else name)
    return out


def broken(name):
    page = ROOT / name
    text = re.sub(r"(?<!\[)`[^`\n]*`(?!\])", "", prose(page))
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists():
            yield f"{target}: no such file"
        elif anchor and there.suffix == ".md" and anchor not in anchors(there):
            yield f"{target}: no such heading"


def main():
    check = Tap()
    names = tracked()
    for name in names:
        wrong = sorted(set(broken(name)))
        check(not wrong, f"links of {name}", "\n".join(wrong))
    index = "".join((ROOT / page).read_text(encoding="utf-8")
                    for page in ("docs/README.md", "docs/internals/README.md"))
    for name in names:
        parts = name.split("/")
        if parts[0] == "docs" and parts[1] != "benchmarks" and name != "docs/README.md":
            check(f"({'/'.join(parts[1:])})" in index or f"({parts[-1]})" in index,
                  f"{name} is in an index")
    return check.end()


sys.exit(main())

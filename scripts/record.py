#!/usr/bin/env python3
"""Draws docs/images/demo.svg: a terminal in which `make demo` runs.

  record.py [OUTPUT.svg [TRANSCRIPT]]

The lines and colours are those that scripts/demo.sh printed just now (or those of a file with its
output); only the timing is artificial. The picture is one column of text in a window. A cover moves
down line by line until the window is full, and then the text scrolls up. Without animation, the
window shows its first lines. <desc> contains the commands, for tests and for screen readers.
"""
import html
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS, ROWS = 100, 30
WIDTH, HEIGHT, EDGE, TOP = 8.43, 19, 14, 34  # sizes of a character, a line, the margin, the title bar
COLOURS = {"1;36": "t", "1": "c", "2": "q"}
PAUSES = {"t": 0.9, "c": 0.8, "q": 0.25, "": 0.12}  # seconds until a line of that kind appears
HOLD = 6.0
PAPER = "#1b2127"
STYLE = """text { font: 14px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #d6dbe0; white-space: pre }
.t { fill: #5fc9d8; font-weight: bold } .c { fill: #ffffff; font-weight: bold } .q { fill: #7f8a94 }
@media (prefers-reduced-motion: reduce) { .roll, .cover { animation: none !important } }"""


def run_demo():
    env = dict(os.environ, DEMO_COLOUR="yes")
    return subprocess.run([ROOT / "scripts/demo.sh"], env=env, text=True, check=True,
                          stdout=subprocess.PIPE).stdout


def lines_of(text):
    """(class, text) of each line, wrapped at the terminal's width."""
    for line in text.expandtabs(8).splitlines():
        match = re.match(r"\x1b\[([\d;]*)m", line)
        kind = COLOURS.get(match.group(1), "") if match else ""
        line = re.sub(r"\x1b\[[\d;]*m", "", line)
        yield kind, line[:COLUMNS]
        for start in range(COLUMNS, len(line), COLUMNS):
            yield kind, line[start:start + COLUMNS]


def commands_of(text):
    plain = re.sub(r"\x1b\[[\d;]*m", "", text)
    return re.findall(r"^\$ (.*)$", plain, re.M)


def moments(lines):
    """When each line appears, in seconds, and the total duration."""
    times, now = [], 0.0
    for kind, text in lines:
        now += PAUSES[kind] if text else 0.05
        times.append(now)
    return times, now + HOLD


def keyframes(name, total, steps):
    """steps: (seconds, lines down from the position of the element)."""
    moves = " ".join(f"{100 * at / total:.2f}% {{ transform: translateY({down * HEIGHT}px) }}" for at, down in steps)
    return (f".{name} {{ animation: {name} {total:.1f}s step-end infinite }}\n"
            f"@keyframes {name} {{ {moves} }}")


def motion(lines):
    times, total = moments(lines)
    shown = list(enumerate(times, 1))
    cover = [(0, 0)] + [(at, number) for number, at in shown[:ROWS]]
    roll = [(0, 0)] + [(at, ROWS - number) for number, at in shown[ROWS:]]
    return keyframes("cover", total, cover) + "\n" + keyframes("roll", total, roll)


def draw(text):
    lines = list(lines_of(text.strip("\n")))
    width, height = COLUMNS * WIDTH + 2 * EDGE, TOP + ROWS * HEIGHT + EDGE
    rows = "\n".join(
        f'<text class="{kind}" y="{number * HEIGHT + 14}">{html.escape(line, quote=False)}</text>'
        for number, (kind, line) in enumerate(lines) if line)
    lights = "".join(f'<circle cx="{18 + 18 * i}" cy="17" r="5.5" fill="{colour}"/>'
                     for i, colour in enumerate(("#ec6a5e", "#f4bf4f", "#61c554")))
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img">
<title>make demo</title>
<desc>{html.escape(chr(10).join(commands_of(text)), quote=False)}</desc>
<style>{STYLE}
{motion(lines)}</style>
<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>
{lights}
<svg x="{EDGE}" y="{TOP}" width="{width - 2 * EDGE:.0f}" height="{ROWS * HEIGHT}"><g class="roll" xml:space="preserve">
{rows}
</g><rect class="cover" width="100%" height="100%" fill="{PAPER}" transform="translate(0 {ROWS * HEIGHT})"/></svg>
</svg>
"""


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "docs/images/demo.svg")
    text = pathlib.Path(sys.argv[2]).read_text(encoding="utf-8") if len(sys.argv) > 2 else run_demo()
    out.write_text(draw(text), encoding="utf-8")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes files as arrays into a C header: embed.py HEADER FILE... The array of browse.html is
browse_html, and its size is sizeof browse_html."""
import pathlib
import sys

out = ["/* Made by scripts/embed.py. */"]
for name in map(pathlib.Path, sys.argv[2:]):
    data = name.read_bytes()
    out.append(f"static const unsigned char {name.name.replace('.', '_')}[] = {{")
    out += [",".join(map(str, data[i:i + 20])) + "," for i in range(0, len(data), 20)]
    out.append("};")
pathlib.Path(sys.argv[1]).write_text("\n".join(out) + "\n")

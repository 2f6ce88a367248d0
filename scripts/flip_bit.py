#!/usr/bin/env python3
"""Flips the lowest bit of one byte of a file: flip_bit.py FILE OFFSET"""
import sys

with open(sys.argv[1], "r+b") as file:
    file.seek(int(sys.argv[2]))
    byte = file.read(1)[0]
    file.seek(-1, 1)
    file.write(bytes([byte ^ 1]))

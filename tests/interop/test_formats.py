#!/usr/bin/env python3
"""The file formats as docs/formats defines them, compared with what tarn writes.

fuzz/make_corpus.py composes .taridx and .tarsum files in Python, from the specifications only. tarn
index --sums must write the same bytes for the same shards, and the fuzz corpus must be what the
script makes today.
"""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARN = os.environ.get("TARN", str(ROOT / "build/tarn"))

done = subprocess.run([sys.executable, str(ROOT / "fuzz/make_corpus.py"), "--check", TARN],
                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
print("1..1")
print(f"{'not ok' if done.returncode else 'ok'} 1 - files composed from the documents are tarn's")
if done.returncode:
    print("# " + done.stdout.replace("\n", "\n# "))
sys.exit(done.returncode)

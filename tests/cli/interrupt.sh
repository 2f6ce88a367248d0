# A killed index run keeps the old index; an interrupted one leaves no temporary file and
# exits with 130.
cp -r "$DATA/01_basic" basic
rm basic/*.json
before=$(md5sum < basic/train.taridx)
python3 - "$TARN" <<'PY'
import os, signal, subprocess, sys, time
# Enough work that the signal arrives while it runs.
os.mkdir("big")
member = None
import io, tarfile
buffer = io.BytesIO()
with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as t:
    for i in range(2000):
        info = tarfile.TarInfo(f"k{i:05}.bin")
        info.size = 100000
        t.addfile(info, io.BytesIO(bytes(100000)))
for i in range(4):
    with open(f"big/b_{i}.tar", "wb") as f:
        f.write(buffer.getvalue())
codes = set()
for delay in (0.0, 0.002, 0.005, 0.01, 0.02, 0.03):
    p = subprocess.Popen([sys.argv[1], "index", "-q", "--sums", "-j1", "big"],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(delay)
    p.send_signal(signal.SIGINT)
    codes.add(p.wait())
    left = sorted(f for f in os.listdir("big") if "tmp" in f)
    assert not left, left
print("codes are those of done, stopped, or killed before the start:",
      codes <= {0, 130, -signal.SIGINT})
PY
echo "$before" | cmp - <(md5sum < basic/train.taridx) && echo unchanged

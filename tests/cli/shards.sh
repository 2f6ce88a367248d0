# Ten thousand shards with a limit of 256 descriptors, and a second fold next to them.
python3 - <<'PY'
import io, tarfile, os
os.mkdir("many")
for i in range(10000):
    with open(f"many/t_{i:05}.tar", "wb") as f:
        name = f"k{i:05}.txt".encode()
        h = bytearray(512)
        h[:len(name)] = name
        h[100:124] = b"0000644\0" b"0000000\0" b"0000000\0"
        h[124:148] = b"00000000005\0" b"00000000000\0"
        h[156:157] = b"0"
        h[257:265] = b"ustar\0" b"00"
        h[148:156] = b" " * 8
        h[148:156] = b"%06o\0 " % sum(h)
        f.write(bytes(h) + (b"%05d" % i).ljust(512, b"\0") + bytes(1024))
PY
ulimit -n 256
"$TARN" index -q many
"$TARN" get many k09999 txt; echo
"$TARN" ls many | tail -n 1
"$TARN" ls many | wc -l
"$TARN" extract -q many -o out --samples k00000,k05000
cat out/*; echo
"$TARN" verify -q many

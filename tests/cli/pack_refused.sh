# Input that `tarn pack` rejects, and its messages: never silently, never half done.
mkdir -p src/sub; echo 1 > src/a.txt; echo 2 > src/sub/b.txt
refused() { "$TARN" pack "$@" 2>&1; echo "exit $?"; }
echo "== options of another output"
refused src -o x --codec zstd
refused src -o x --reserve 5
refused src -o x.iac --dry-run
refused src -o x.iac --val 0.5
refused src -o x.gnz --dry-run
refused src -o x.tar --max-count 1
refused src -o x.tar --fold a
refused src -o x.tar.lz4
refused src -o x -j -3
refused src -o ""
ls -d x* 2>/dev/null
echo "== packs are quiet, and JSON, when told"
refused src -q -o q.iac
refused src --json -o j.iac
refused src -q -o src/p.iac; refused src -q -o src/p.iac -f; "$TARN" ls src/p.iac; rm src/p.iac
mkdir real; echo 1 > real/a.txt; ln -s a.txt real/b.txt; ln -s none real/c.txt; ln -s real linked
refused linked -q -o l.iac; "$TARN" ls l.iac
echo "== the output among the sources"
refused src -o src
refused src -q -o src/out
refused src -q -o src/out --overwrite
refused src -q -o src/all.tar
refused src -q -o src/all.tar --overwrite
"$TARN" ls src/out; "$TARN" ls src/all.tar
echo "== names for pax"
long=$(printf 'k%.0s' $(seq 97)); mkdir long; echo x > "long/$long.txt"
refused long -q -o l
refused long -q -o l --pax; "$TARN" ls l; "$TARN" verify l
echo "== manifests"
rows() { printf "$1" > m.csv; rm -rf m; refused m.csv -q -o m; }
rows 'key,txt\na,x\nb,\nc,z\n'
"$TARN" ls m
rows 'key,txt\na,x\nb.c,y\n'
rows 'key,txt\na,x\n\033[31m,y\n'
rows 'key,txt\na,x\nb,\0\n'
rows 'key,jpg\na,\033[31mx\n'
printf '\xef\xbb\xbf{"key":"a","txt":"x"}\n{"key":"b","txt":null}\n{"key":"c/.","txt":"x"}\n' > m.jsonl
refused m.jsonl -q -o n
for field in txt jpg; do
    for at in "" @; do
        printf '{"key":"a","txt":"x"}\n\n{"key":"b","%s":"%ssrc/a.txt\\u0000/b"}\n' $field $at > m.jsonl
        refused m.jsonl -q -o n; [ ! -e n ] || "$TARN" get n b txt | od -c; rm -rf n
    done
done
printf 'key,txt\nk\xfc,x\n' > m.csv; refused m.csv -q -o n
echo "== manifests of packs"
lines() { printf "$1" > m.jsonl; refused m.jsonl -q -o m.iac; }
lines '{"file":"src/a.txt","n":1}\n\n{"file":"src/a.txt\\u0000.jpg","n":2}\n'
lines '{"file":"src/a.txt","n":1}\n{"n":2}\n'
lines '{"file":"src/a.txt","n":1}\n{"file":5,"n":2}\n'
lines '{"file":"src/a.txt","n":1}\n[]\n'
lines '{"file":"src/a.txt","n":1}\n{"file":}\n'
lines '{"file":"src/a.txt","n\\u0000":1}\n'
lines '{"file":"src/none","n":1}\n'
echo "== one name in two folders of an archive"
mkdir -p x y; echo 1 > x/a.txt; echo 2 > y/a.txt; tar cf two.tar x/a.txt y/a.txt
refused two.tar -q -o two; refused two.tar -q -o two --keys path; "$TARN" ls two
echo "== nobody reads"
mkdir many; for i in $(seq 300); do echo $i > many/$i.txt; done
"$TARN" pack many -o - | head -c 1 > /dev/null; echo "exit ${PIPESTATUS[0]}"
"$TARN" help > /dev/full; echo "exit $?"
echo "== not samples"
"$TARN" extract q.iac -o e; echo "exit $?"
"$TARN" extract "$DATA/none.gnz" -o e; echo "exit $?"

echo "--- reaching the file size limit is an error and leaves nothing"
head -c 100000 /dev/zero > large.bin
(ulimit -f 8; "$TARN" pack large.bin -q -o full 2>&1 | sed 's/part.tmp-.*: offset/part.tmp: offset/'; echo "exit ${PIPESTATUS[0]}")
ls -A full
echo "== options without effect"
refused src -o x --seed 3
refused src -o x --lenient
refused src -o x --allow-pipe
refused x.tar -o x --check
refused src -o x.gnz --pax
refused src -o x.iac --pax
echo PAR1 > t.parquet; refused t.parquet -o x; refused t.parquet -o p --as-file -q; "$TARN" ls p

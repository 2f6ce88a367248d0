# A cache of remote files: listing, checking and clearing it.
tool=${TARN%/tarn}/tests/cache_tool
run() { "$TARN" "$@" 2>&1; echo "exit $?"; }
plain() { sed 's/last used [0-9-]* [0-9:]*/last used TIME/; s/"last_used": [0-9]*/"last_used": N/g; s/[0-9]* bytes on disk/N bytes on disk/; s/"on_disk": [0-9]*/"on_disk": N/g; s/[0-9]* bytes left/N bytes left/; s/removed \(.*\), [0-9]* bytes;/removed \1, N bytes;/; s/[0-9a-f]\{16\}/HASH/g; s/"left": [0-9]*/"left": N/; s/"bytes": [0-9]*/"bytes": N/'; }
birds=https://host/birds
objects() {
    $tool fill c $birds $birds/train-0000.tar v1 100000
    $tool fill c $birds $birds/train-0001.tar v1 50000 0 3
    $tool fill c s3://bucket/cats s3://bucket/cats/a.tar 7 9000
}
objects
touch -d 2020-01-01 c/tarn-cache-1/*/dataset
for d in c/tarn-cache-1/*/; do [ "$(cat "$d/dataset")" = $birds ] && touch -d 2021-01-01 "$d/dataset"; done

echo "--- list"
run cache c | plain
run cache c --objects | plain
run cache c --json | plain
TARN_CACHE=c run cache | plain | tail -2
ls -A c
find c -name '*.tar' | wc -l

echo "--- a complete file is the object"
file=$("$TARN" cache c --objects --json | tr '{' '\n' | sed -n 's/.*train-0000.*"path": "\([^"]*\)".*/\1/p')
stat -c %s "$file"

echo "--- verify"
run cache c --verify
printf 'damage' | dd of="$file" bs=1 seek=5000 conv=notrunc status=none
run cache c --verify | plain
run cache c --verify --json | plain
run cache c --verify --repair | plain
run cache c --verify
$tool check c $birds $birds/train-0000.tar v1 100000
dd if=/dev/zero of="$file" bs=4096 seek=8 count=5 conv=notrunc status=none
run cache c --verify --repair | plain
$tool fill c $birds $birds/train-0000.tar v1 100000
$tool check c $birds $birds/train-0000.tar v1 100000
truncate -s 777 "$file"
run cache c --verify | plain
run cache c --verify --repair | plain | tail -2
run cache c --verify | tail -2
objects

echo "--- clear"
$tool fill c $birds $birds/train-0001.tar v2 50000
touch -d 2020-01-01 c/tarn-cache-1/*/*-*
$tool fill c $birds $birds/train-0001.tar v3 50000
run cache c --objects | plain | grep -c old
run cache c --clear-old | plain
run cache c --clear='*/cats' | plain
run cache c | plain
mkfifo pipe
$tool hold c $birds $birds/train-0000.tar v1 100000 <pipe >held &
exec 3>pipe
until grep -qs ready held; do sleep 0.01; done
run cache c | plain
run cache c --clear | plain
exec 3>&-
wait
run cache c --clear -q
echo mine >c/tarn-cache-1/mine
run cache c
ls c/tarn-cache-1
objects
touch -d 2020-01-01 c/tarn-cache-1/*/dataset
$tool check c $birds $birds/train-0000.tar v1 100000
run cache c --limit 140k --json | plain
run cache c | plain

echo "--- errors"
run cache
mkdir empty
run cache empty
run cache nowhere
run cache nowhere --verify
run cache nowhere --verify --json
run cache c --repair
run cache c --verify --clear
run cache c --objects --limit 5
run cache c --limit five

#!/bin/sh
# A tour on data made on the spot: index, look, fetch, break, repair, pack.
set -eu
cd "$(dirname "$0")/.."
PATH=$PWD/build:$PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
cd "$work"

bold=""; plain=""
if [ -t 1 ]; then bold=$(printf '\033[1m'); plain=$(printf '\033[0m'); fi
step() { printf '\n%s$ %s%s\n' "$bold" "$*" "$plain"; }
run() { step "$*"; "$@"; }

echo "Three shards of a small WebDataset, made with tar:"
mkdir birds files
i=0
while [ $i -lt 30 ]; do
    key=$(printf 'bird_%03d' $i)
    head -c $((2000 + i * 37)) /dev/urandom >"files/$key.jpg"
    echo $((i % 7)) >"files/$key.cls"
    printf '{"id": %d, "place": "tarn %d"}\n' $i $((i % 3)) >"files/$key.json"
    i=$((i + 1))
done
for shard in 0 1 2; do
    (cd files && tar --format=ustar -cf ../birds/train-00000$shard.tar bird_0${shard}*)
done
ls -l birds

run tarn index --sums birds
run tarn info birds
step "tarn ls birds | head -3"
tarn ls birds | head -n 3
run tarn get birds bird_012 json
run tarn extract birds -o out --samples bird_003,bird_021 --fields jpg,cls
run tarn verify birds

printf '\nNow a copy breaks off inside the last shard:\n'
truncate -s 30000 birds/train-000002.tar
step "tarn verify birds"
tarn verify birds || true
step "tarn verify --repair birds"
tarn verify --repair birds
run ls birds
run tarn verify birds

printf '\nShards of our own, out of the folder of files, with a part for validation:\n'
run tarn pack files -o packed --val 0.2 --seed 7 --max-count 10
run ls packed
run tarn verify packed
step "tarn pack files -o - | tarn ls - | tail -1"
tarn pack files -o - | tarn ls - | tail -n 1

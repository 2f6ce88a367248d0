# A row for each way to read, regardless of the figures; wrong usage.
cp -r "$DATA/01_basic" basic
masked() { sed -E 's/[0-9]+%?/N/g; s/ +/ /g; s/(read|decode)$/STAGE/; s/^(The bottleneck is) .*/\1/'; }
"$TARN" bench -j 1 -f jpg,cls basic:train | masked
"$TARN" bench -j 1 -f cls --json basic:train |
    sed -E 's/: [0-9.]+/: N/g; s/, \{/,\n{/g; s/"slow": "(read|decode)"/"slow": STAGE/g'
"$TARN" bench --batch 0 basic:train; echo "exit $?"
"$TARN" bench -f gone basic:train; echo "exit $?"
"$TARN" bench nowhere; echo "exit $?"
echo "--- no advice about images where there are none"
"$TARN" bench -f cls basic:train | grep -c 'smaller images'

# Rows for each way to read, whatever the figures and the slow stage; what cannot be.
cp -r "$DATA/01_basic" basic
masked() { sed -E 's/[0-9]+%?/N/g; s/ +/ /g; s/(read|decode)$/STAGE/; s/^(The slow stage is) .*/\1/'; }
"$TARN" bench -j 1 -f jpg,cls basic:train | masked
"$TARN" bench -j 1 -f cls --json basic:train |
    sed -E 's/: [0-9.]+/: N/g; s/, \{/,\n{/g; s/"slow": "(read|decode)"/"slow": STAGE/g'
"$TARN" bench --batch 0 basic:train; echo "exit $?"
"$TARN" bench -f gone basic:train; echo "exit $?"
"$TARN" bench nowhere; echo "exit $?"

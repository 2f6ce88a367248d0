# Lists all problems; repair fixes what it can and keeps what it cuts off.
cp -r "$DATA/01_basic" basic
rm basic/*.json
"$TARN" verify basic; echo "exit $?"
"$TARN" index -q --sums basic:train > /dev/null
"$TARN" verify basic:train; echo "exit $?"
printf X | dd of=basic/train_0001.tar bs=1 seek=600 conv=notrunc status=none
"$TARN" verify basic:train; echo "exit $?"
"$TARN" verify --repair basic:train; echo "exit $?"
"$TARN" verify --json basic:train | python3 -c 'import json,sys; r=json.load(sys.stdin); print(r["problem_count"], r["problems"][0]["kind"])'
truncate -s 20000 basic/val_0002.tar
"$TARN" verify --repair basic:val 2>&1 | tail -n 3; echo "exit $?"
ls basic | grep bad
"$TARN" verify basic:val; echo "exit $?"
rm basic/val_0001.tar
"$TARN" verify basic:val | head -n 3
"$TARN" ls basic:val; echo "exit $?"
"$TARN" verify "$DATA/06_tar_oddities/bad_checksum.tar"; echo "exit $?"
"$TARN" verify nowhere; echo "exit $?"
gzip -c basic/train_0000.tar > zipped.tar
"$TARN" verify --repair zipped.tar; echo "exit $?"

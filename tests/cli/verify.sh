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
echo "--- samples that cannot be decoded"
mkdir mixed; cd mixed
cp -r "$DATA/01_basic"/train_0000.tar some.tar
mkdir one; cd one
tar -xf ../some.tar
first=$(ls | sed -n 's/\.jpg$//p' | head -n 1)
printf '<html>' > "$first.jpg"; printf 'x1' > "$first.cls"
tar -cf ../bad_0.tar --format=ustar *
cd ..; rm -r one some.tar
"$TARN" verify --decode bad_0.tar; echo "exit $?"
"$TARN" verify --decode --json . | python3 -c '
import json, sys
r = json.load(sys.stdin)
print(r["problem_count"], r["decoded"], r["undecodable_count"], sorted(r["undecodable"][0]))
print([(u["key"], u["field"], u["kind"], u["path"]) for u in r["undecodable"]])'
"$TARN" verify --decode --bad-keys bad.txt -q . > /dev/null; echo "exit $?"; cat bad.txt
"$TARN" ls -1 --without @bad.txt . | head -n 2
"$TARN" convert -q . good.tar --without @bad.txt > /dev/null; "$TARN" verify --decode good.tar; echo "exit $?"
"$TARN" verify --bad-keys x good.tar; echo "exit $?"
"$TARN" verify --decode --bad-keys no/x good.tar; echo "exit $?"
"$TARN" verify --decode - < good.tar; echo "exit $?"
"$TARN" convert -q good.tar all.iac --fields jpg,cls > /dev/null
"$TARN" verify --decode all.iac; echo "exit $?"
"$TARN" convert -q good.tar all.gnz --fields cls > /dev/null
"$TARN" verify --decode all.gnz; echo "exit $?"

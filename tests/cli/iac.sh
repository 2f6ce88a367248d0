# IAC files: info, rows, payloads, checks.
cp "$DATA"/iac/*.iac .
"$TARN" info made_by_0.1.4.iac
"$TARN" info --json fixed_by_0.1.4.iac | head -c 120; echo
"$TARN" ls pairs_by_0.0.2.iac
"$TARN" ls --columns num_docs,patient_id --where institution=XJ pairs_by_0.0.2.iac
"$TARN" ls --json --where num_docs=0 pairs_by_0.1.4.iac
"$TARN" ls -1 fixed_by_0.1.4.iac
"$TARN" ls --where patient_id=nobody pairs_by_0.0.2.iac; echo "exit $?"
"$TARN" ls --where patient_id pairs_by_0.0.2.iac 2>&1 | head -n 1
"$TARN" ls --columns nothing pairs_by_0.0.2.iac; echo "exit $?"
"$TARN" get made_by_0.0.2.iac 0; echo
"$TARN" get --check made_by_0.0.2.iac item_id=item_b -o b && cat b; echo
"$TARN" get --decode pairs_by_0.0.2.iac patient_id=p2 | tail -c +5; echo
"$TARN" get made_by_0.0.2.iac 2; echo "exit $?"
"$TARN" get made_by_0.0.2.iac item_id=none; echo "exit $?"
"$TARN" get made_by_0.0.2.iac nonsense 2>&1 | head -n 1
"$TARN" verify pairs_by_0.1.4.iac; echo "exit $?"
printf x | dd of=made_by_0.0.2.iac bs=1 seek=66772 conv=notrunc status=none
"$TARN" verify made_by_0.0.2.iac; echo "exit $?"
"$TARN" verify --json made_by_0.0.2.iac; echo "exit $?"
"$TARN" get --check made_by_0.0.2.iac 1; echo "exit $?"
truncate -s 66000 made_by_0.1.4.iac
"$TARN" verify made_by_0.1.4.iac; echo "exit $?"
"$TARN" info made_by_0.1.4.iac; echo "exit $?"
echo no pack > wrong.iac; "$TARN" info wrong.iac; echo "exit $?"
"$TARN" info missing.iac; echo "exit $?"
mkdir tiles && printf one > tiles/a.bin && printf two > tiles/b.bin
"$TARN" pack tiles -o plain.iac
"$TARN" pack --json tiles -o json.iac
"$TARN" pack -q --json tiles -o quiet.iac; echo "exit $?"
for option in "-s 0" "-f x" -l -0 --stats; do
    "$TARN" ls $option plain.iac; echo "exit $?"
done
"$TARN" get --rows 0:1 plain.iac 0; echo "exit $?"
echo "--- several conditions, and comparisons"
i=0
for row in HE:80 PAS:47 HE:47 HE:81; do
    printf x > "f$i"
    echo "{\"file\": \"f$i\", \"stain\": \"${row%:*}\", \"age\": ${row#*:}}"; i=$((i + 1))
done > m.jsonl
"$TARN" pack -q m.jsonl -o m.iac > /dev/null; "$TARN" ls --columns stain,age m.iac
where() { "$TARN" ls -1 "$@" m.iac; echo "exit $?"; }
where --where stain=HE --where age=47
where --where 'age>80'; where --where 'age>=80' --where 'age<81'; where --where 'age<=47' --where stain=PAS
where --where 'age>100'
where --where age=old; where --where 'age>old'; where --where '=5'; where --where 'stain>5'

# The samples of a rank: orders of a fold, after filters; the orders of glzn; wrong usage.
cp -r "$DATA/01_basic" basic
"$TARN" ls -1 --order shuffle --seed 7 --epoch 1 --rank 0/4 basic:train
for r in 0 1 2 3; do "$TARN" ls -1 --order shuffle --seed 7 --rank $r/4 basic:train; done | sort | uniq -c | awk '{n[$1]++} END {for (k in n) print n[k], "samples", k, "time"}'
for r in 0 1 2 3; do "$TARN" ls -1 --order shuffle --rank $r/4 --uneven drop basic:train | wc -l; done
for r in 0 1 2 3; do "$TARN" ls -1 --order shuffle --rank $r/4 --uneven pad basic:train | wc -l; done
"$TARN" ls -1 --rank 1/20 basic:train
"$TARN" ls -1 --order buckets --epoch 1 basic:train | head -n 4
"$TARN" ls -1 --order blocks --block 4 --window 2 basic:train | head -n 8
"$TARN" ls --order lengths --by json --chunk 5 --fields json basic:train | head -n 10
"$TARN" ls -1 --order balanced --by cls basic:train | sort | uniq -c | sort -rn | head -n 2
"$TARN" ls -1 --order weighted-once --by cls basic:train | wc -l
"$TARN" ls -1 --order shuffle --samples train-00003,train-00009,train-00001 basic:train
"$TARN" ls --json --order shuffle --seed -3 --rank 44/45 --fields cls basic:train
"$TARN" ls --order balanced --by txt basic:train; echo "exit $?"
"$TARN" ls --order balanced --by npy basic:train; echo "exit $?"
"$TARN" ls --order lengths basic:train; echo "exit $?"
"$TARN" ls --order sorted basic:train; echo "exit $?"
"$TARN" ls --order shuffle --rank 4/4 basic:train; echo "exit $?"
"$TARN" ls --order shuffle --rank x basic:train; echo "exit $?"
"$TARN" ls --order shuffle --seed 1x basic:train; echo "exit $?"
"$TARN" ls --order shuffle --uneven odd basic:train; echo "exit $?"
"$TARN" ls --order blocks --block 0 basic:train; echo "exit $?"
"$TARN" ls --seed 1 basic:train; echo "exit $?"
cat basic/train_0000.tar | "$TARN" ls --order shuffle -; echo "exit $?"
echo "--- any dataset"
"$TARN" convert basic:train b.iac -q
"$TARN" ls -1 --order shuffle --seed 7 b.iac | cmp - <("$TARN" ls -1 --order shuffle --seed 7 basic:train) && echo the same
"$TARN" ls --order balanced --by cls --fields txt,json b.iac | head -n 2
"$TARN" ls --order shuffle --seed 3 "$DATA/iac/pairs_by_0.1.4.iac"
"$TARN" ls -l --order shuffle --seed 3 --key patient_id --fields payload,num_docs "$DATA/iac/pairs_by_0.1.4.iac"
"$TARN" ls --order lengths --by payload --chunk 1 "$DATA/iac/pairs_by_0.1.4.iac" | cut -f 1
"$TARN" convert basic:train b.gnz -q --fields cls,jpg --range 0:10
"$TARN" ls --order shuffle --seed 1 b.gnz | head -n 2
"$TARN" ls --json --order shuffle --seed 1 --rank 9/10 b.gnz
"$TARN" ls -1 --order balanced --by cls b.gnz | sort
"$TARN" ls -1 --order weighted-once --by cls b.gnz | wc -l
"$TARN" ls -1 --order buckets b.gnz | wc -l
"$TARN" ls --order balanced --by jpg b.gnz; echo "exit $?"
"$TARN" ls -1 --order shuffle --samples train-00003,train-00005 b.gnz
"$TARN" ls --order shuffle --samples nobody b.gnz; echo "exit $?"
"$TARN" ls --order shuffle --where a=b b.iac; echo "exit $?"

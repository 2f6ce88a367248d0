# When a run sees a sample, and what a step has: agreement with ls, orders that repeat, mixes; wrong usage.
cp -r "$DATA/01_basic" basic
"$TARN" when basic:train train-00003 --seed 7 --rank 0/4 --batch 3
"$TARN" when basic:train train-00003 --seed 7 --rank 2/4 --batch 3 --epochs 3
"$TARN" at basic:train --step 0 --seed 7 --rank 3/4 --batch 3
"$TARN" ls -1 --order shuffle --seed 7 --rank 3/4 basic:train | head -n 3
"$TARN" at basic:train --step 5 --seed 7 --rank 3/4 --batch 3
"$TARN" at basic:train --step 1 --seed 7 --epoch 1 --rank 3/4 --batch 3
"$TARN" ls -1 --order shuffle --seed 7 --epoch 1 --rank 3/4 basic:train | head -n 6 | tail -n 3
echo "--- every key is found where at lists it"
for r in 0 1 2; do for s in 0 1 2; do
    for key in $("$TARN" at basic:train --order blocks --block 4 --seed 3 --rank $r/3 --uneven pad --batch 5 --step $s); do
        "$TARN" when basic:train $key --order blocks --block 4 --seed 3 --rank 0/3 --uneven pad --batch 5 | grep -c "^epoch 0, step $s, rank $r, "
    done
done; done | sort | uniq -c
echo "--- json, other orders, selections"
"$TARN" when basic:train train-00003 --batch 4 --json
"$TARN" at basic:train --step 1 --batch 4 --order identity --json
"$TARN" when basic:train train-00003 --batch 4 --order balanced --by cls | head -n 2
"$TARN" when basic:train train-00003 --batch 4 --batches full --order identity --samples train-00003,train-00009
"$TARN" convert basic:train b.iac -q
"$TARN" when b.iac train-00003 --seed 7 --rank 0/4 --batch 3
echo "--- a mix"
"$TARN" when basic:train b.iac train-00003 --weights 2,1 --batch 4 --epochs 2
"$TARN" at basic:train b.iac --weights 2,1 --batch 4 --step 2 --order identity
echo "--- wrong usage"
"$TARN" when basic:train nobody --batch 4; echo "exit $?"
"$TARN" when basic:train b.iac train-00003 --batch 4; echo "exit $?"
"$TARN" when basic:train train-00003; echo "exit $?"
"$TARN" at basic:train --batch 4; echo "exit $?"
"$TARN" at basic:train --step 1x --batch 4; echo "exit $?"
"$TARN" at basic:train --step 1 --batch 0; echo "exit $?"
"$TARN" when basic:train train-00003 --batch 4 --batches all; echo "exit $?"
"$TARN" at basic:train --step 0 --batch 4 --rank 60/99 --batches full; echo "exit $?"
cat basic/train_0000.tar | "$TARN" when - x --batch 4; echo "exit $?"

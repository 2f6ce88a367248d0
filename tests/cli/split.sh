# Splitting a fold: exactly, by samples; without copying, by shards.
run() { "$TARN" "$@" 2>&1 | sed '/^[0-9.]* s: /d'; echo "exit ${PIPESTATUS[0]}"; }
mkdir files
for i in $(seq 10 49); do echo $i >files/k$i.cls; done
"$TARN" pack files -o d --max-count 4 -q
before=$(cat d/* | sha256sum)

echo "--- by samples"
run split d --into train,val=0.1,test=0.25 --seed 3 -o s
"$TARN" verify s
(for f in train val test; do "$TARN" ls -1 s:$f; done) | sort | cmp - <("$TARN" ls -1 d) && echo "all, and each once"
run pack files -o p --val 0.1 --test 0.25 --seed 3 -q
for f in train val test; do "$TARN" ls -1 s:$f | cmp - <("$TARN" ls -1 p:$f) && echo "$f as by pack"; done
run split d --into train=0.9,val=0.1 --seed 4 -o s -q
run split d --into train=0.9,val=0.1 --seed 4 -o s -q --overwrite
"$TARN" ls -1 s:val | tr '\n' ' '; echo

echo "--- by shards"
run split d --into train=0.8,val=0.2 --seed 3 --by shards -o w
"$TARN" verify w
(for f in train val; do "$TARN" ls -1 w:$f; done) | sort | cmp - <("$TARN" ls -1 d) && echo "all, and each once"
stat -c '%h %n' w/*.tar d/train_0000.tar
run split d --into train=0.8,val=0.2 --seed 3 --by shards -o c --copy -q
stat -c '%h %n' c/val*.tar
cmp w/val.taridx c/val.taridx && cmp w/val_0000.tar c/val_0000.tar && echo same
run split d --into train=0.8,val=0.2 --seed 3 --by shards -o c --resume
run split d --into train=0.99,val=0.01 --by shards -o x

echo "--- a sample in two shards"
mkdir t
echo 1 >a.txt; echo 2 >b.txt; echo 3 >b.cls; echo 4 >c.cls
tar cf t/t_0.tar a.txt b.txt; tar cf t/t_1.tar b.cls c.cls
run split t --into p=0.5,q=0.5 --by shards -o x
run split t --into p=0.5,q=0.5 -o x -q
"$TARN" ls x:p; "$TARN" ls x:q

echo "--- errors"
run split d --into train=0.9,val=0.2 -o x
run split d --into train=0.5,val=0.2 -o x
run split d --into train,val -o x
run split d --into train=ten,val -o x
run split d --into all -o x
run split d --into a,b=0.5 -o x.tar
run split d --into a=0.5,a=0.5 -o x
run split d --into a,b=0.5 --by hand -o x
run split d --into a_b,c=0.5 -o x
run split d --into a,b=0.5
[ "$before" = "$(cat d/* | sha256sum)" ] && echo "the source is as it was"
echo "--- no fold is published if one of them fails"
mkdir tens; for i in 0 1 2 3 4 5 6 7 8 9; do head -c 10000 /dev/zero > tens/t$i.bin; done
"$TARN" pack tens -q -o tens.d
(ulimit -f 64; "$TARN" split tens.d --into few=0.1,many -q -o parted 2>&1
 echo "exit $?") | sed 's/tmp-[^:]*: offset [0-9]*/tmp: offset N/' | cat
"$TARN" info parted; echo "exit $?"
run split tens.d --into few=0.1,many -q -o parted --resume
"$TARN" verify parted

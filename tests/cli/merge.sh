# Several folds into one, without rewriting a shard.
run() { "$TARN" "$@" 2>&1 | sed '/^[0-9.]* s: /d'; echo "exit ${PIPESTATUS[0]}"; }
for f in a b c; do
    mkdir $f.files
    for i in 1 2 3 4 5; do printf "$f $i" >$f.files/$f$i.txt; done
    "$TARN" pack $f.files -o $f --max-count 2 -q
done
before=$(cat a/* b/* c/* | sha256sum)

run merge a b -o m:all
"$TARN" verify m
ls -A m
stat -c '%h %n' m/*.tar | uniq -c -w 2 | wc -l
"$TARN" ls -1 m | tr '\n' ' '; echo
cmp a/train_0001.tar m/all_0001.tar && cmp b/train_0000.tar m/all_0003.tar && echo "the same shards"

echo "--- existing shards"
run merge c -o m:all
run merge c -o m:all --append
"$TARN" ls -1 m | wc -l
run merge a c -o m:all --resume
run merge c:train m:all -o m:all --append
run merge m a -o n
ls -A n
run merge c a -o m:all --overwrite --copy --json | sed 's/"milliseconds": [0-9]*/"milliseconds": N/'
"$TARN" verify m
stat -c '%h %n' m/all_0000.tar
run merge m:all b -o m:all --overwrite -q
"$TARN" verify m

echo "--- no index, no sums"
rm b/train.tarsum c/train.taridx c/train.tarsum
run merge b c -o k
"$TARN" verify k

echo "--- errors"
run merge a b
run merge a nowhere -o x
run merge a b -o x.tar
run merge a b -o x:a_b
cp -r a stale
cp b/train_0000.tar stale/train_0001.tar
run merge stale -o x
ls -A x
"$TARN" index -q --keys path a
run merge a -o x
whole=$(cat m/all_0000.tar | sha256sum)
rm -rf a b c
"$TARN" verify m
[ "$whole" = "$(cat m/all_0000.tar | sha256sum)" ] && echo "the merged fold stands alone"

echo "--- finishing an interrupted run"
mkdir i
cp m/all_0000.tar i/.x_0000.tar.part
cp m/all_0001.tar i/.x_0001.tar.part
run merge -o i:x
run merge m -o i:x
run merge --resume -o i:x
"$TARN" verify i
ls -A i

# Tasks that write the parts of a fold, and the commit that publishes it.
run() { "$TARN" "$@" 2>&1 | sed '/^[0-9.]* s: /d; s/[0-9a-f]\{16\}-[0-9a-f]\{16\}-[a-z][0-9a-f]\{15\}/JOB/'; echo "exit ${PIPESTATUS[0]}"; }
mkdir files
for i in $(seq 10 32); do printf "text $i" >files/s$i.txt; printf $i >files/s$i.cls; done
"$TARN" pack files -o one --max-count 4 -q

echo "--- pack"
run pack files -o many --max-count 4 --task 2/3
run pack files -o many --max-count 4 --task 0/3 --json | sed 's/"milliseconds": [0-9]*/"milliseconds": N/'
ls -A many
run ls many
run commit many
run pack files -o many --max-count 4 --task 1/3 -q
run pack files -o many --max-count 4 --task 1/3
run commit many
ls -A many
"$TARN" ls many | cmp - <("$TARN" ls one) && echo "the samples of one run, in its order"
"$TARN" verify many
run commit many

echo "--- the same tasks, one after another"
for i in 0 1 2; do "$TARN" pack files -o again --max-count 4 -q --task $i/3; done
"$TARN" commit again -q
diff -r -x '*.tarsum' many again && echo "the same files, except for the times of the shards"

echo "--- several folds and classes"
mkdir -p by/emu by/kiwi
for i in 1 2 3 4 5 6 7 8 9; do echo $i >by/emu/e$i.txt; echo $i >by/kiwi/k$i.txt; done
for i in 0 1; do "$TARN" pack by -o birds --class-from-dir --val 0.5 --task $i/2 -q; done
run commit birds
ls -A birds
paste -sd' ' birds/classes.txt
"$TARN" pack by -o birds1 --class-from-dir --val 0.5 -q
for f in train val; do "$TARN" ls birds:$f | cmp - <("$TARN" ls birds1:$f) && echo "the same $f"; done

echo "--- convert: a shuffle without a shuffle stage"
for i in 0 1 2 3; do "$TARN" convert one mixed --order shuffle --seed 7 --task $i/4 -q; done
run commit mixed
"$TARN" ls -1 mixed | cmp - <("$TARN" ls -1 --order shuffle --seed 7 one) && echo "the order of one run"
for i in 0 1; do "$TARN" convert one few --range 3:14 --task $i/2 -q; done
"$TARN" commit few -q
"$TARN" ls -1 few | paste -sd' '
for i in 0 1; do "$TARN" convert one named --order shuffle --number --task $i/2 -q; done
"$TARN" commit named -q
"$TARN" ls -1 named | tail -n 1
"$TARN" convert one 'x_%02d.tar' --max-count 5 -q
for i in 0 1 2; do "$TARN" convert 'x_{00..04}.tar' streams --task $i/3 -q; done
run commit streams
"$TARN" ls -1 streams | cmp - <("$TARN" ls -1 one) && echo "the samples of all archives"

echo "--- index"
mkdir shards
for i in 0 1 2 3 4 5; do ln one/train_000$i.tar shards/; done
for i in 0 1 2 3; do run index shards --sums --task $i/4; done
run commit shards
cmp shards/train.taridx one/train.taridx && cmp shards/train.tarsum one/train.tarsum && echo "the index of one run"
for i in 0 1; do "$TARN" index shards --task $i/2 -q >/dev/null; done
rm shards/train_0005.tar
run commit shards
run commit shards --discard
ls -A shards

for i in 0 1; do "$TARN" index shards --task $i/2 -q >/dev/null; done
cp one/train_0001.tar new.tar
cat one/train_0002.tar >>new.tar
mv new.tar shards/train_0001.tar
run commit shards | sed 's/[0-9]* bytes/N bytes/g'
cp -p one/train_0001.tar shards/
touch -d @1000 shards/train_0004.tar
run commit shards | sed 's/[0-9]* bytes/N bytes/g'
run commit shards --discard
"$TARN" index shards --task 0/2 -q >/dev/null
rm shards/train_0004.tar
run index shards --task 1/2 -q
run commit shards --discard -q

echo "--- sources that change"
mkdir grow && for i in 1 2 3 4; do echo $i >grow/a$i.txt; done
"$TARN" pack grow -o grown --task 0/2 -q
echo 5 >grow/a5.txt
echo 6 >grow/a6.txt
run pack grow -o grown --task 1/2 -q
run pack grow -o grown --task 0/2
rm grow/a5.txt grow/a6.txt
mv grow/a4.txt grow/b4.txt
run pack grow -o grown --task 1/2 -q
mv grow/b4.txt grow/a4.txt
run pack "$PWD/grow/" -o ./grown --task 1/2 -q
run pack ./grow -o grown/ --task 0/2
run commit grown
"$TARN" ls -1 grown | paste -sd' '
rm grow/a1.txt grow/a2.txt
"$TARN" pack grow -o raced --task 0/2 -q
rm grow/a3.txt
"$TARN" pack grow -o raced2 --task 1/2 -q
mv raced2/.train.tasks/* raced/.train.tasks
run commit raced
run commit raced --discard
printf 'key,txt\na,1\nb,2\nc,3\n' >list.csv
"$TARN" pack list.csv -o listed --task 0/2 -q
printf 'd,4\n' >>list.csv
run pack list.csv -o listed --task 1/2 -q
"$TARN" convert 'x_{00..04}.tar' listed:two --task 0/2 -q
cat x_01.tar >>x_02.tar
run convert 'x_{00..04}.tar' listed:two --task 1/2 -q
for how in "" "--order shuffle"; do
    "$TARN" convert grown from --task 0/2 -q $how
    echo z >z.txt && "$TARN" pack z.txt -o grown --append -q
    run convert grown from --task 1/2 -q $how
    run commit from --discard -q
    "$TARN" pack $PWD/files/s1?.txt -o grown --overwrite -q
done

echo "--- a task that dies first is in the way of nobody"
mkdir "deaf" && echo x >deaf/a.png && echo y >deaf/b.txt
run pack deaf -o dead --check --task 0/1 -q 2>&1 | tail -n 1
rm deaf/a.png
run pack deaf -o dead --check --task 0/1 -q

echo "--- a task that runs again after the commit"
run pack ./files -o many --max-count 4 --task 1/3 -q
run commit many
ls -A many
run pack by -o birds --class-from-dir --val 0.5 --task 1/2 -q
run commit birds
run pack files -o many --max-count 5 --task 1/3 -q
run commit many
run commit many --discard

echo "--- refused"
for i in 0 1; do "$TARN" pack files -o many --task $i/2 -q; done
run commit many
run commit many --append | sed 's/offset [0-9]*/offset N/; s/key s[0-9]*/key S/; s/many.train_[0-9]*.tar/SHARD/'
run pack files -o many --task 0/4 -q
run pack files -o many --task 0/2 --max-count 2 -q
run commit many --discard
run pack files -o many --task 2/2
run pack files -o many --task 1
run pack files -o 'x_%d.tar' --task 0/2
run pack files -o many --append --task 0/2
run convert one x.gnz --task 0/2
run convert 'x_{00..04}.tar' streams --number --task 0/2
run convert one files2 --files --task 0/2
run commit many --append --overwrite
run commit gs://bucket/x
run commit nothing

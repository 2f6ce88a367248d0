# Converting samples: the selected samples are written, in order, with unchanged bytes.
# The line with the seconds is left out.
convert() { "$TARN" convert "$@" 2>&1 | sed '/^[0-9.]* s: /d'; echo "exit ${PIPESTATUS[0]}"; }
export SOURCE_DATE_EPOCH=0
mkdir files
for i in 01 02 03 04 05 06 07 08; do
    printf 'text %s' $i >files/k$i.txt
    printf '%s' $i >files/k$i.cls
done
printf '{}' >files/k03.json
convert files d:train --max-count 3
"$TARN" verify d

echo "--- another size, and back"
convert d 'x_%02d.tar' --max-count 5
convert x_00.tar x_01.tar e --max-count 3
for f in train_0000.tar train_0001.tar train_0002.tar; do cmp d/$f e/$f; done
cmp d/train.taridx e/train.taridx

echo "--- compressed, by name"
for z in gz bz2 xz zst; do
    convert d y.tar.$z --level 3
    convert y.tar.$z z.tar -q --overwrite
    "$TARN" ls z.tar | cmp - <("$TARN" ls x_00.tar; "$TARN" ls x_01.tar) && echo "same in $z"
done

echo "--- a selection"
convert d some.tar --fields txt,cls --samples k07,k02,k03
tar tf some.tar
convert d some.tar --fields json --overwrite
tar tf some.tar
"$TARN" convert d - --range 2:4 --fields cls | tar tf -
cat x_00.tar | convert - n.tar --range 4:
tar tf n.tar
printf 'k01\nk08\n' >keys
convert d none.tar --samples k01,nobody
convert x_00.tar none.tar --samples @keys
convert d none.tar --fields nothing
convert d none --range 9:4
ls none* 2>&1

echo "--- an exact order"
convert d s1:train --shuffle 4 -q
convert e s2.tar --shuffle 4 -q
convert d s3.tar --order shuffle --seed 4 -q
"$TARN" ls -1 s1 | tr '\n' ' '; echo
"$TARN" ls -1 s1 | cmp - <("$TARN" ls -1 s2.tar) && echo same
cmp s2.tar s3.tar && echo same
"$TARN" ls -1 s1 | sort | cmp - <("$TARN" ls -1 d) && echo "all of them"
convert d none --shuffle 4 --seed 4
convert files none --shuffle 4
"$TARN" convert files f1:train -q
cat x_00.tar | convert - none --shuffle 4
convert x_00.tar x_01.tar s4.tar --shuffle 4 -q
"$TARN" ls -1 s1 | cmp - <("$TARN" ls -1 s4.tar) && echo same

echo "--- files"
convert d out --files
diff -r files out && echo same
convert d out --files
convert x_00.tar x_01.tar out2 --files --json
diff -r files out2 && echo same
convert d out3 --files --shuffle 1
convert files out3 --files

echo "--- replacing an existing target"
convert d e
convert d:train d:train --max-count 100 --overwrite
"$TARN" verify d; ls -A d
convert x_01.tar e --append
convert d e --resume
convert d g:a --json | sed 's/"milliseconds": [0-9]*/"milliseconds": N/'

echo "--- folders in names"
mkdir -p deep/a deep/b
echo 1 >deep/a/x.txt
echo 2 >deep/b/x.txt
tar cf deep.tar --sort=name deep
convert deep.tar flat:train
convert deep.tar flat:train --keys path --overwrite
"$TARN" ls flat
convert deep.tar deep2.tar
tar tf deep2.tar
printf '?' >.hidden
tar rf deep.tar .hidden
convert deep.tar deep3.tar

echo "--- damage in the source"
cp -r d bad
printf 'X' | dd of=bad/train_0000.tar bs=1 seek=512 conv=notrunc 2>/dev/null
convert bad none --check
convert bad good -q

echo "--- several, in order"
convert d:train f1:train two --number --range 7:10
"$TARN" ls two
echo "--- errors"
convert d e x.tar
convert d x_00.tar x
cat x_00.tar | convert - d x.tar
convert d http://host/folder
convert d new --level 3
convert nowhere new
convert d

echo "--- other kinds of files"
"$TARN" pack files --codec zstd -o p.iac
convert p.iac q.iac --codec gzip
convert p.iac quiet.iac --codec gzip -q
convert p.iac q.iac --codec gzip --shuffle 3 -f
convert p.iac out.tar
convert d out.iac
convert d out.gnz
convert d out --as '<f2'
convert x.npy y.gnz --fields a

echo "--- a target is not changed"
convert d whole.tar -q
cp whole.tar before.tar
convert d whole.tar --overwrite --threads x
cmp whole.tar before.tar
convert d 'none_%02d.tar' --threads -1
ls none_* .none* 2>/dev/null
cp -r d old
(cd old && sha256sum *) > sums
convert old:train old:train --overwrite --range 9000:9001
(cd old && sha256sum -c --quiet ../sums; ls -A) | grep -v '^train'
convert d quiet_files --files -q

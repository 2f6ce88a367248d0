# Members as files; never outside the folder.
cp -r "$DATA/01_basic" basic
"$TARN" extract basic:train -o all
mkdir judge; for s in basic/train_*.tar; do tar -C judge -xf "$s"; done
diff -r all judge && echo same as tar
stat -c %a all/train-00000.cls
"$TARN" extract basic:train -o some --samples train-00001,train-00004 --fields cls,txt
ls some
"$TARN" extract basic:train -o some --samples train-00001; echo "exit $?"
"$TARN" extract basic:train -o some --samples train-00001 --overwrite; echo "exit $?"
"$TARN" extract basic:train; echo "exit $?"
mkdir evil; echo x > evil/f
tar -C evil -cf up.tar --transform 's,f,../outside.txt,' -P f
"$TARN" extract up.tar -o in/deep; echo "exit $?"
mkdir in; "$TARN" extract up.tar -o in/deep; echo "exit $?"
tar -C evil -cf abs.tar --transform "s,f,$PWD/outside.txt," -P f
"$TARN" extract abs.tar -o in/abs; echo "exit $?"
test -e outside.txt || test -e in/outside.txt || echo nothing outside
mkdir trap; ln -s ../evil trap/d
tar -C evil -cf link.tar --transform 's,f,d/f2.txt,' f
"$TARN" extract link.tar -o trap; echo "exit $?"
ls evil
echo "--- a file that cannot be written leaves the old one"
mkdir large && head -c 100000 /dev/zero > large/big.bin && "$TARN" pack large -q -o big
mkdir there && echo old > there/big.bin
(ulimit -f 64; "$TARN" extract big -o there --overwrite 2>&1; echo "exit $?") | cat
ls -A there; cat there/big.bin
"$TARN" extract big -o there --overwrite; ls -A there; cmp large/big.bin there/big.bin
mkdir -p folder/big.bin; "$TARN" extract big -o folder --overwrite; echo "exit $?"; ls -A folder

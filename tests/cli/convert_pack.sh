# Between folds and IAC files: nothing is lost, and options without effect are errors.
cp -r "$DATA/01_basic" basic
members() { "$TARN" extract "$1" -q -o "$2" >/dev/null; (cd "$2" && sha256sum -- * | sort); }
"$TARN" convert basic:train b.iac -q; "$TARN" ls b.iac | head -n 3; "$TARN" verify b.iac
"$TARN" convert b.iac back:train -q; "$TARN" verify back
diff <(members basic:train one) <(members back:train two) && echo same members
diff <("$TARN" ls -1 basic:train) <("$TARN" ls -1 back:train) && echo same order
"$TARN" convert basic:train z.iac -q --codec zstd --fields cls,jpg --samples train-00003,train-00004
"$TARN" convert z.iac 'z_%02d.tar' -q --max-count 1; "$TARN" ls 'z_{00..01}.tar'
mkdir files; echo one > files/a.txt; echo two > files/b.txt
"$TARN" pack files -o f.iac; "$TARN" convert f.iac rows -q; "$TARN" ls rows; "$TARN" get rows 000000001 json; echo
"$TARN" convert f.iac rows2 --key path; echo "exit $?"
"$TARN" convert f.iac rows2 --key nothing; echo "exit $?"
"$TARN" convert b.iac x -q --fields cls,jpg --samples train-00009,train-00002; "$TARN" ls x
"$TARN" convert basic:train x.iac --max-count 3; echo "exit $?"
"$TARN" convert basic:train b.iac; echo "exit $?"

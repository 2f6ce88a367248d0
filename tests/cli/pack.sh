# Packing: dry run, folds, errors, appending, resuming; no rates in the output.
mkdir -p pets/cat pets/dog
for i in 1 2 3; do echo "cat $i" > pets/cat/c$i.txt; echo "dog $i" > pets/dog/d$i.txt; done
echo hidden > pets/.hidden; echo none > pets/README
"$TARN" pack pets --dry-run --val 0.5 --class-from-dir
"$TARN" pack pets -q -o out --class-from-dir 2>&1; ls -A out; cat out/classes.txt
"$TARN" ls out
"$TARN" pack pets -q -o out 2>/dev/null; echo "exit $?"
"$TARN" pack pets/cat -o out 2>&1 | sed 's/^[0-9.]* s:.*/RATES/'
mkdir more; echo x > more/new.txt
"$TARN" pack more -o out --append | sed 's/^[0-9.]* s:.*/RATES/'; "$TARN" ls -1 out; "$TARN" verify out
"$TARN" pack more -o out --append; echo "exit $?"
"$TARN" pack more -q -o out --overwrite; "$TARN" ls out; ls -A out
"$TARN" pack more -o out --append --overwrite; echo "exit $?"
"$TARN" pack more -q -o whole --resume; "$TARN" pack more -o whole --resume | sed 's/^[0-9.]* s:.*/RATES/'
"$TARN" pack pets -o whole --resume; echo "exit $?"; ls -A whole
"$TARN" pack pets -q -o whole --append --resume; "$TARN" ls -1 whole | wc -l
"$TARN" pack more; echo "exit $?"
"$TARN" pack more -o out --fold a_b; echo "exit $?"
"$TARN" pack more -o out --val 2; echo "exit $?"
"$TARN" pack more -o out --max-size 5Q; echo "exit $?"
"$TARN" pack nothing -o out; echo "exit $?"
"$TARN" pack more -o 'x_%s.tar'; echo "exit $?"
"$TARN" pack more -o 'x_%03d.tar' --append; echo "exit $?"
mkdir big; head -c 30000 /dev/zero > big/a.bin
"$TARN" pack big -o b --max-size 20k; echo "exit $?"; ls -A b
mkdir dots; echo 1 > dots/a.txt; echo 2 > dots/a.TXT
"$TARN" pack dots -o d; echo "exit $?"
"$TARN" pack more -q -o x.tar.gz && "$TARN" ls x.tar.gz
"$TARN" pack more -q -o x.tar.gz; echo "exit $?"
tar cf scattered.tar pets/cat/c1.txt pets/cat/c2.txt pets/dog/d1.txt
"$TARN" pack scattered.tar -q -o s && "$TARN" ls -1 s
"$TARN" pack scattered.tar more -o s2; echo "exit $?"
printf 'key,jpg,txt\na,gone.jpg,x\n' > m.csv
"$TARN" pack m.csv -o m; echo "exit $?"
mkdir l; echo 1 > l/a.txt; echo M > l/LICENSE; tar cf l.tar -C l a.txt LICENSE
"$TARN" pack l.tar -q -o fl; "$TARN" ls fl

# One sample's bytes.
cp -r "$DATA/09a_writer_maxfiles" data
"$TARN" ls data | head -n 2
key=$("$TARN" ls -1 data | sed -n 2p)
"$TARN" get data "$key" txt > one
tar -xOf data/train_0000.tar "$key.txt" | cmp - one && echo right bytes
"$TARN" get data "$key" txt -o two && cmp one two && echo right file
mkdir out; "$TARN" get data "$key" -o out && ls out
"$TARN" get data "$key"; echo "exit $?"
"$TARN" get data "$key" gif; echo "exit $?"
"$TARN" get data nobody; echo "exit $?"
"$TARN" get --check data "$key" txt > /dev/null; echo "exit $?"
"$TARN" index -q --sums data
"$TARN" get --check data "$key" txt | cmp - one && echo checked
"$TARN" get "$DATA/06_tar_oddities/pax_longname.tar" "$(printf 'q%.0s' $(seq 120))" cls; echo
"$TARN" get data "$key" -o fresh/ && ls fresh
"$TARN" get data "$key" TXT -o fresh/; echo "exit $?"
rm fresh/*; "$TARN" get data "$key" TXT -o fresh && ls fresh
"$TARN" get --check data/train_0000.tar "$key" txt; echo "exit $?"
for option in "--rows 0:1" --raw --decode; do
    "$TARN" get $option data "$key" txt; echo "exit $?"
done

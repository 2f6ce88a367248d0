# If a standard stream is closed, no file gets its descriptor: messages never end up in data.
mkdir members && cd members
for i in 1 2 3; do printf '%s' $i > a$i.txt; done
printf 'no sample' > zLICENSE
tar --format=ustar -cf ../x.tar *
cd ..
"$TARN" convert - good.tar.gz -q < x.tar
"$TARN" convert - closed.tar.gz -q < x.tar 2>&-; echo "exit $?"
cmp good.tar.gz closed.tar.gz && gzip -t closed.tar.gz
"$TARN" convert - none.tar <&-; echo "exit $?"
"$TARN" get good.tar.gz a1 txt >&-; echo "exit $?"
"$TARN" convert good.tar.gz again.tar.gz -q <&- >&- 2>&-; echo "exit $?"
cmp good.tar.gz again.tar.gz
ls -A

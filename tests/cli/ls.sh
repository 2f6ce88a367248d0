# Listing: samples, members, keys, JSON, filters; without an index; an index alone.
cp -r "$DATA/01_basic" basic
"$TARN" ls basic:train | head -n 4
"$TARN" ls -l basic:train | head -n 3
"$TARN" ls -1 basic:train | tail -n 2
"$TARN" ls -0 basic:train | tr '\0' '|' | head -c 24; echo
"$TARN" ls --json --samples train-00003 basic:train
"$TARN" ls --fields npy,cls --samples train-00003,train-00004 basic:train
printf 'train-00009\r\n\ntrain-00001\n' > list
"$TARN" ls -1 --samples @list basic:train
"$TARN" ls --samples nobody basic:train; echo "exit $?"
"$TARN" ls --fields gif basic:train; echo "exit $?"
"$TARN" ls basic; echo "exit $?"
rm basic/train.taridx
"$TARN" ls basic:train 2>&1 | head -n 2
mkdir alone; cp basic/val.taridx alone
"$TARN" ls alone/val.taridx | head -n 2
"$TARN" ls "$DATA/03_noncontiguous" | head -n 3
"$TARN" ls "$DATA/06_tar_oddities/garbage.tar"; echo "exit $?"
"$TARN" ls basic:val > /dev/full; echo "exit $?"
"$TARN" ls -0 basic:val | head -z -n 2 > keys; "$TARN" ls -1 -s @keys basic:val
"$TARN" ls -1 -s @- basic:val < keys
for option in "--where cls=3" "--columns cls" --stats "--key cls"; do
    "$TARN" ls $option basic:val; echo "exit $?"
    "$TARN" ls $option - < basic/val_0000.tar; echo "exit $?"
done
"$TARN" ls -1 alone/val.taridx; echo "exit $?"
"$TARN" ls -s nobody alone/val.taridx; echo "exit $?"
echo "--- alternatives, other names, and what is left out"
mkdir mixed; cd mixed
for i in 0 1 2; do printf "jpg$i" > k$i.jpg; printf "$i" > k$i.cls; done
printf png3 > k3.png; printf 3 > k3.cls; printf 4 > k4.cls; printf p > k0.png
tar -cf x_0.tar --format=ustar k*; rm k*
"$TARN" index -q . > /dev/null
"$TARN" ls --fields 'jpg;png,cls' . 2>&1; echo "exit $?"
"$TARN" ls --fields 'IMG=png;jpg;gif' . 2>&1
"$TARN" ls --fields jpg,png . 2>&1
"$TARN" ls --order identity --fields 'img=png;jpg' . 2>&1
"$TARN" ls --fields 'jpg;;png' . ; echo "exit $?"
"$TARN" ls --fields 'gif;bmp' . ; echo "exit $?"
"$TARN" ls -1 --without k0,k3 .
"$TARN" ls -1 --without k9 .; echo "exit $?"
"$TARN" ls -1 --order identity --without k0,k3 x_0.tar
gzip -kc x_0.tar > z.tar.gz
"$TARN" ls --fields 'jpg;png' z.tar.gz; echo "exit $?"
"$TARN" ls --without k0 z.tar.gz; echo "exit $?"
"$TARN" get . k3 'jpg;png'; echo; "$TARN" get . k0 'img=png;jpg'; echo
"$TARN" get . k4 'jpg;png'; echo "exit $?"
"$TARN" get . k3 'img=jpg;png' -o out/; "$TARN" extract -o out --fields 'jpg;png' . 2>&1; ls out
"$TARN" convert -q . y.tar --fields 'img=jpg;png,n=cls' > /dev/null; "$TARN" ls y.tar

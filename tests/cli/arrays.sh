# Array files: listing, reading, writing, and changing them in place.
cp -r "$DATA/gnz" in
"$TARN" info in/basic.gnz
"$TARN" info --json in/cast.gnz
"$TARN" ls in/edge.gnz
"$TARN" ls -1 in/basic.gnz
"$TARN" ls --stats in/dtypes.gnz
"$TARN" ls --stats --json in/basic.gnz | tail -n 1
"$TARN" ls --members in/basic.gnz; echo "exit $?"
"$TARN" verify in/basic.gnz
echo "--- get"
"$TARN" get in/basic.gnz x | od -An -tf4 -w16
"$TARN" get in/basic.gnz x --rows 1:2 | od -An -tf4 -w16
"$TARN" get in/basic.gnz x -o x.npy && head -c 118 x.npy | tail -c 108; od -An -tf4 -j128 -w16 x.npy
"$TARN" get in/basic.gnz x --raw -o raw.npy && wc -c < raw.npy
"$TARN" get in/basic.gnz ids --rows 98: -o ids.npy && wc -c < ids.npy
"$TARN" get in/basic.gnz ids --rows 99:101; echo "exit $?"
"$TARN" get in/basic.gnz nobody; echo "exit $?"
"$TARN" get in/basic.gnz x y; echo "exit $?"
"$TARN" get --check in/basic.gnz x > /dev/null; echo "exit $?"
echo "--- pack and convert"
"$TARN" get in/basic.gnz ids -o ids.npy
"$TARN" pack x.npy ids.npy --metadata "$("$TARN" info --json in/basic.gnz | sed 's/.*"metadata": "\(.*}\)", "bytes".*/\1/; s/\\"/"/g')" -o again.gnz
cmp again.gnz in/basic.gnz && echo same bytes
"$TARN" pack x.npy -o again.gnz; echo "exit $?"
"$TARN" convert in/dtypes.gnz d.npz && "$TARN" convert d.npz d.gnz && cmp d.gnz in/dtypes.gnz && echo same bytes
"$TARN" convert --compress in/bigheader.gnz b.npz && "$TARN" convert b.npz b.gnz --metadata "$("$TARN" info --json in/bigheader.gnz | sed 's/.*"metadata": "\(.*}\)", "bytes".*/\1/; s/\\"/"/g')" && cmp b.gnz in/bigheader.gnz && echo same bytes
for f in in/*.gnz; do "$TARN" convert "$f" copy.gnz -f && cmp copy.gnz "$f"; done && echo all the same
"$TARN" convert in/basic.gnz one.npy; echo "exit $?"
"$TARN" convert in/basic.gnz x.npz; "$TARN" convert in/basic.gnz x.npz; echo "exit $?"
"$TARN" convert x.npz x.txt; echo "exit $?"
"$TARN" pack emb=x.npy x.npy --as 'emb=<f2,x=|u1' --checksums --header-pages 2 -o cast.gnz
"$TARN" info cast.gnz
"$TARN" get --check cast.gnz emb | od -An -tx2
echo "--- in place"
"$TARN" pack x.npy --reserve 7 -o grow.gnz
"$TARN" pack x.npy --append -o grow.gnz && "$TARN" ls --stats grow.gnz
"$TARN" pack x.npy --append -o grow.gnz; echo "exit $?"
"$TARN" pack ids.npy --add -o grow.gnz && "$TARN" info grow.gnz
"$TARN" pack ids.npy --add -o grow.gnz; echo "exit $?"
"$TARN" verify grow.gnz
echo "--- damage"
printf '\001' | dd of=cast.gnz bs=1 seek=8193 conv=notrunc status=none
"$TARN" verify cast.gnz; echo "exit $?"
"$TARN" verify --json cast.gnz
"$TARN" get --check cast.gnz x > /dev/null; echo "exit $?"
head -c 9000 in/basic.gnz > cut.gnz; "$TARN" ls cut.gnz; echo "exit $?"
"$TARN" verify cut.gnz; echo "exit $?"
echo hello > no.gnz; "$TARN" info no.gnz; echo "exit $?"
"$TARN" ls none.gnz; echo "exit $?"
cp in/basic.gnz unnamed; "$TARN" ls unnamed
"$TARN" pack nofile.npy -o z.gnz; echo "exit $?"
"$TARN" pack no.gnz; echo "exit $?"
: > empty.npy; "$TARN" pack empty.npy -o z.gnz; echo "exit $?"
"$TARN" pack x.npy --metadata '[1]' -o z.gnz; echo "exit $?"
"$TARN" pack x.npy --as '<f3' -o z.gnz; echo "exit $?"
ls
"$TARN" pack x.npy --as 'y=<f2' -o z.gnz; echo "exit $?"
"$TARN" pack x.npy --reserve 3M -o room.gnz && "$TARN" info room.gnz | grep room
"$TARN" pack x.npy --header-pages 2000000 -o z.gnz; echo "exit $?"
"$TARN" get in/basic.gnz ids --rows a:b; echo "exit $?"

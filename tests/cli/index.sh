# Indexing writes the same bytes as glzn, reports what it skipped, and leaves no temporary
# files.
cp -r "$DATA/01_basic" basic
cp basic/train.taridx reference
rm basic/*.taridx
"$TARN" index basic
cmp reference basic/train.taridx && echo same as the reference
ls -A basic | grep -v json
"$TARN" index --json --sums basic:val
"$TARN" index -j 1 basic:nowhere; echo "exit $?"
"$TARN" index nowhere; echo "exit $?"
mkdir empty; "$TARN" index empty; echo "exit $?"
mkdir odd; cp "$DATA/06_tar_oddities/dirs_links.tar" odd/x_0.tar
"$TARN" index odd
cp "$DATA/06_tar_oddities/truncated_payload.tar" odd/x_1.tar
"$TARN" index odd; echo "exit $?"
"$TARN" index --lenient odd; echo "exit $?"
mkdir both; mkdir both/a both/b
echo 1 > both/a/x.txt; echo 2 > both/b/x.txt
tar -C both -cf both/t_0.tar a/x.txt b/x.txt
"$TARN" index both
"$TARN" index --keys path both
"$TARN" ls both
"$TARN" index both
"$TARN" index -q --sums basic:val > /dev/null; "$TARN" index -q basic:val
"$TARN" index -q --sums basic:val > /dev/null; rm basic/val.taridx; "$TARN" index -q basic:val
"$TARN" index -q --keys path both > /dev/null; rm both/t.taridx; "$TARN" index both; "$TARN" ls both
printf damaged > both/t.tarsum; "$TARN" index both
mkdir gz; tar -C both -czf gz/g_0.tar a/x.txt
"$TARN" index --lenient gz; echo "exit $?"
"$TARN" index gz/g_0.tar; echo "exit $?"

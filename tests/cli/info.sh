# info on a folder, a fold, an archive and an index.
cp -r "$DATA/01_basic" basic
"$TARN" info basic
"$TARN" info basic:val | head -n 2
"$TARN" info --json basic:val
"$TARN" info "$DATA/06_tar_oddities/v7.tar"
mkdir alone; cp basic/train.taridx alone
"$TARN" info alone/train.taridx | head -n 5
"$TARN" info nowhere; echo "exit $?"
head -c 100 basic/train.taridx > basic/val.taridx
"$TARN" info basic:val; echo "exit $?"

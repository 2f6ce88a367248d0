# Shards with different naming schemes.
mkdir d; echo 1 > x.txt; tar -cf d/one.tar x.txt
cp d/one.tar d/train-000000.tar; cp d/one.tar d/my_val_0.tar; cp d/one.tar d/00007.tar
cp d/one.tar d/test.0001.tar; cp d/one.tar d/ignored.tar.gz; cp d/one.tar d/.hidden_0.tar
"$TARN" index d
cp d/one.tar d/train_000000.tar
"$TARN" index d; echo "exit $?"

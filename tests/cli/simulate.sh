# The requests of a training run, before it runs: local data, as if it were on a server.
run() { "$TARN" "$@" 2>&1; echo "exit $?"; }
mkdir few && for i in 1 2 3 4 5 6; do head -c $((i * 3000)) /dev/zero > few/s$i.bin; echo $i > few/s$i.cls; done
"$TARN" pack few --max-count 3 -q -o data

echo "--- without a cache: merged ranges"
run simulate -b 2 data
run simulate -b 2 --order identity data
run simulate -b 6 --order identity data --epochs 1

echo "--- with a cache"
run simulate -b 2 data --cache all
run simulate -b 2 data --cache 50k --epochs 3

echo "--- the network, prices, fields"
run simulate -b 2 data -j 0 --latency 100 --bandwidth 1M --epochs 1
run simulate -b 2 data -j 0 --latency 100 --connections 1 --epochs 1
run simulate -b 2 data --request-price 0.4 --gb-price 90 --epochs 1
run simulate -b 2 data -f cls --epochs 1

echo "--- ranks"
run simulate -b 1 data --ranks 2 --nodes 3 --cache all --json
run simulate -b 2 data --order weighted --by cls --seed 3 --epochs 1 --json

echo "--- usage"
run simulate
run simulate data --batch 0
run simulate data --cache some
run simulate data --cache 0
run simulate data --latency -3
run simulate data --order weighted
run simulate data -f gone
run simulate nowhere

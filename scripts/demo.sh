#!/bin/sh
# The tour: draws pictures, packs them, trains on them and damages them. docs/tour.md shows the same
# commands; tests/docs/test_demo.py compares the two. The results stay in build/demo. DEMO_BENCH=no
# skips the last step, DEMO_EPOCHS sets the number of epochs, and DEMO_COLOUR=yes writes colours to a pipe.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
build=$(cd "${TARN_BUILD:-build}" && pwd)
PATH=$build:$PATH
export PYTHONPATH="$build/python"

has() { "$interpreter" -c "import importlib.util, sys; sys.exit(not importlib.util.find_spec('$1'))" 2>/dev/null; }
pythons="${DEMO_PYTHON:-.venv/bin/python} .venv-demo/bin/python python3"
for interpreter in $pythons; do has PIL && has torch && break; done
has torch || for interpreter in $pythons; do has PIL && break; done
case $interpreter in /*) ;; */*) interpreter=$root/$interpreter ;; esac
python() { "$interpreter" "$@"; }

torch=no
if has torch; then torch=yes; fi

title=""; command=""; quiet=""; plain=""
if [ -t 1 ] || [ "${DEMO_COLOUR:-}" = yes ]; then
    title=$(printf '\033[1;36m'); command=$(printf '\033[1m')
    quiet=$(printf '\033[2m'); plain=$(printf '\033[0m')
fi
now() { date +%s.%N; }
since() { echo "$1 $(now)" | awk '{ printf "%.1f s", $2 - $1 }'; }
began=$(now); number=0; step_began=""
finish_step() { [ -z "$step_began" ] || printf '%s%s%s\n' "$quiet" "($(since "$step_began"))" "$plain"; }
step() {
    finish_step
    number=$((number + 1)); step_began=$(now)
    printf '\n%s%d. %s%s\n' "$title" $number "$1" "$plain"
}
say() { printf '%s# %s%s\n' "$quiet" "$1" "$plain"; }
show() { printf '%s$ %s%s\n' "$command" "$1" "$plain"; }
run() { show "$1"; eval "$1"; }
# For commands that must fail.
run_failing() { show "$1"; if eval "$1"; then echo "demo: that should have failed" >&2; exit 1; fi; }

rm -rf "$build/demo"
mkdir "$build/demo"
cd "$build/demo"
ln -s "$root"/examples/shapes/*.py "$root/scripts/flip_bit.py" .

step "A folder of pictures, one subfolder for each class"
has PIL || { echo "demo: drawing needs Pillow: pip install pillow" >&2; exit 1; }
run "python draw.py shapes"
run "ls shapes | paste -sd' '"
run "ls shapes/star | head -n 2"

step "Pack them into shards: plain tar files, with an index and checksums"
run "tarn pack shapes --class-from-dir --val 0.2 --seed 7 --max-count 500 -q -o data"
run "ls data | paste -sd' '"
run "tarn info data:train | head -n 7"

step "Read any sample, by key or in training order"
run "tarn ls data:train | head -n 2"
run "tarn get data:train star_0042 json; echo"
run "tarn ls -1 --order shuffle --seed 7 --epoch 1 data:train | head -n 4 | paste -sd' '"

train() {
    more=${DEMO_EPOCHS:+ --epochs $DEMO_EPOCHS}
    step "Train: native threads decode the images and fill the batches"
    run "python train.py data whole$more"

    step "Train again, and kill the run in the middle of an epoch"
    show "python train.py data killed$more &"
    # shellcheck disable=SC2086
    "$interpreter" train.py data killed $more &
    trainer=$!
    until [ "$(grep -c '^1 ' killed.log 2>/dev/null)" -ge 13 ] 2>/dev/null; do
        kill -0 $trainer || exit 1
        sleep 0.02
    done
    show 'kill -9 $!'
    kill -9 $trainer
    wait $trainer 2>/dev/null || true
    say "the last checkpoint is a few batches old; the same command resumes from it"
    run "python train.py data killed$more"
    run "python compare.py whole killed"
}
if [ "$torch" = yes ]; then
    train
else
    step "Training is skipped: torch is not installed"
    say "run: pip install -r examples/shapes/requirements.txt, then make demo"
fi

step "Flip one bit of five megabytes"
run "python flip_bit.py data/train_0002.tar 1234567"
run_failing "tarn verify data"
run "tarn ls -l data:train | awk -F'\t' '\$1 == \"train_0002.tar\" && \$2 <= 1234567' | tail -n 1"
say "--repair cannot restore a payload; the pictures still exist, so pack them again"
run "tarn pack shapes --class-from-dir --val 0.2 --seed 7 --max-count 500 --overwrite -q -o data"
run "tarn verify data"

step "Convert the samples to arrays (.gnz) and to a record pack (.iac)"
run "tarn convert data:val val.gnz --fields jpg,cls"
run "tarn ls val.gnz"
run "tarn convert data:val val.iac --payload jpg --fields jpg,cls"
run "tarn get val.iac key=star_0005 | cmp - shapes/star/star_0005.jpg && echo the same bytes"

if [ "${DEMO_BENCH:-yes}" = yes ]; then
    step "Measure how fast this machine reads them, and which stage limits it"
    run "tarn bench -j 2 --side 32 -f jpg,cls data:train"
fi
finish_step

printf '\nDone in %s. The results are in %s.\n' "$(since "$began")" "${PWD#"$root"/}"
echo "Next: README.md, docs/README.md, and tarn help."

# Any dataset into any other, in any order: messages and errors. The bytes are compared in
# tests/interop/test_convert_any.py.
convert() { "$TARN" convert "$@" 2>&1 | sed '/^[0-9.]* s: /d'; echo "exit ${PIPESTATUS[0]}"; }
cp -r "$DATA/01_basic" basic
cp "$DATA/gnz/dtypes.gnz" "$DATA/iac/pairs_by_0.1.4.iac" .
echo "--- a fold into arrays"
convert basic:train a.gnz --fields cls,txt,jpg --order shuffle --seed 7 --checksums --metadata '{"by": "hand"}'
"$TARN" info a.gnz | cut -c -70
"$TARN" verify a.gnz
convert basic:train no.gnz
convert basic:train no.gnz --fields json
convert basic:train no.gnz --samples nobody
convert basic:train no.gnz --fields cls --range 45:
convert basic:train a.gnz --fields cls
echo "--- arrays into a fold, an archive, arrays"
convert a.gnz back:train --max-count 20
"$TARN" ls back | head -n 2
"$TARN" ls -1 back | cmp - <("$TARN" ls -1 --fields cls,txt,jpg --order shuffle --seed 7 basic:train) && echo the same order
"$TARN" convert a.gnz - --fields cls --range 0:2 | tar tf -
convert a.gnz b.gnz --order blocks --block 4 --window 2 --seed 1
"$TARN" info b.gnz | sed -n 's/  metadata *//p'
convert dtypes.gnz d.tar
convert a.gnz 'p_%02d.gnz' --max-count 20 --fields cls,txt --as 'cls=|u1'
convert a.gnz 'p_%s.gnz'
convert a.gnz p.gnz --max-count 20
convert a.gnz 'q_%d.gnz'
echo "--- IAC files"
convert a.gnz a.iac --codec zstd
convert basic:train r.iac --payload jpg --fields jpg,cls,txt --order shuffle
"$TARN" ls r.iac | head -n 2
convert basic:train no.iac --payload jpg
convert basic:train no.iac --payload cls --fields cls,npy
convert r.iac s.iac --order shuffle --seed 2 --range 0:3
"$TARN" ls s.iac
convert r.iac 't_%d.iac' --max-count 30 --fields payload,cls
"$TARN" ls t_1.iac | head -n 1
convert r.iac s.iac rs.iac --range 38:41
"$TARN" ls rs.iac
convert pairs_by_0.1.4.iac pairs --key patient_id --order shuffle
"$TARN" ls pairs
convert pairs_by_0.1.4.iac pairs.gnz --fields num_docs,patient_id
"$TARN" ls --order identity pairs.gnz
convert pairs_by_0.1.4.iac no.gnz
echo "--- several"
convert pairs_by_0.1.4.iac pairs.gnz all --number
"$TARN" ls all
convert pairs.gnz pairs.gnz mixed.tar --weights 1,2 --number
tar tf mixed.tar
convert pairs.gnz pairs.gnz no.tar --weights 1
convert basic:train first.iac --range 0:6
convert basic:train second.iac --range 6:12
convert first.iac second.iac later.iac --weights 3,1 --order identity --epoch 1
"$TARN" ls --order identity later.iac | cut -f 1
convert a.gnz a.gnz no
convert "$DATA/05_empty_ext" e.tar --order identity --samples a,b,c
tar tf e.tar
convert "$DATA/05_empty_ext" e.iac
echo "--- options that exclude each other"
convert basic:train no.gnz --shuffle 3 --order blocks
convert a.gnz no --codec zstd
convert a.gnz no.iac --checksums
convert a.gnz no.gnz --resume --fields cls
convert a.gnz no --order sideways
convert a.gnz no --key cls.txt
convert a.gnz no --by cls
convert basic:train no.tar --key cls --number
convert basic:train no.gnz --fields cls --as 'x=<f4'
convert basic:train json.gnz --fields cls --json
cat basic/train_0000.tar | convert - no.gnz
find . | grep no | sort
echo "--- lone surrogates"
mkdir halves
for text in '\ud800\u0041' '\ud83d\ud83d' '\ud800' '\ude00\ud83d' '\ud83d\ude00'; do
    printf '"%s"' "$text" > halves/h.json
    "$TARN" pack halves -q --overwrite -o half
    convert half half.gnz --overwrite
done
"$TARN" get half.gnz json | od -An -tx4
echo "--- an option of one kind of target is an error with all others"
for option in '--as <f2' '--metadata {}' --checksums '--header-pages 4' '--reserve 9' --compress '--codec zstd' '--level 3' \
    '--version 2' '--header {}' '--payload cls' --upgrade '--max-size 1M' --resume --append; do
    for target in no:fold no.tar no.tar.gz no_%d.tar 'no --files' no.gnz no.npz no.iac; do
        case $target in *.npz) from=a.gnz ;; *.gnz | *.iac) from='basic:train --fields cls,txt' ;; *) from=basic:train ;; esac
        if out=$("$TARN" convert $from $target $option --quiet 2>&1); then
            echo "taken: $option $target"
        elif [[ $out != *"Try: tarn convert --help"* ]]; then
            echo "$option $target: $out"
        fi
        rm -rf no no.tar no.tar.gz no_0.tar no.gnz no.npz no.iac
    done
done
convert basic:train no.npz --metadata '{}'
convert a.gnz no.npz --metadata '{}'
convert basic:train no --files --checksums
convert basic:train no.iac --level 3
convert basic:train - --level 3
convert basic:train no.tar --level 3
convert basic:train no.gnz --level 3
convert basic:train no --key cls
ls -d no* 2>/dev/null
echo "--- the help shows each option once, under a heading"
"$TARN" convert --help | sed -n '/^Selection:/,/^Examples:/p' | grep -E '^[A-Z]'
"$TARN" convert --help | grep -oE '^ .{3} *--[a-z-]+ ' | sort | uniq -d
"$TARN" help convert --man | grep '^\.SS'
"$TARN" convert --= x y
echo "--- options that apply to none of the sources"
mkdir plain; echo 1 > plain/a.cls; "$TARN" convert plain idle -q; "$TARN" convert idle idle.gnz -q; "$TARN" convert idle idle.iac -q
for given in "idle.gnz --lenient" "idle.iac --keys path" "idle.gnz --check" "plain --lenient" "idle --max-sample 3" \
    "plain --allow-pipe" "idle --weights 1"; do
    "$TARN" convert ${given%% *} none ${given#* } 2>&1 | head -n 1
done
"$TARN" convert idle none.gnz --threads 2
ls -d none* 2>&1

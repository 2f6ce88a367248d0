# Wrong usage is exit 2 with a hint; help is exit 0.
try() { "$TARN" "$@"; echo "exit $?"; }
try nonsense
try index
try index a b
try ls --nonsense x
try ls --samples
try index --threads many "$DATA/01_basic"
try ls --keys sideways "$DATA/01_basic:train"
try ls --json=yes x
try help nonsense
echo "--- a word that is nearly right"
try pakc
try help conver
try pack --overwite x
try pack --over x
try pack --ouptut=y x
try ls --order shufle "$DATA/01_basic:train"
try ls --keys paht "$DATA/01_basic:train"
try split --by shard --into a=1 -o x "$DATA/01_basic:train"
try ls --xyzzy x
echo "---"
"$TARN" --version | sed 's/[0-9.]*$//'; echo "exit $?"
"$TARN" 2>&1 | head -n 1 | sed 's/[0-9.]*:/VERSION:/'
commands=$("$TARN" help | sed -n 's/^  \([a-z]\{2,\}\) .*/\1/p')
[ "$(echo "$commands" | wc -l)" -ge 11 ] || echo "few commands: $commands"
for c in $commands; do
    "$TARN" "$c" --help | grep -q '^Examples:' || echo "$c has no examples"
    "$TARN" help "$c" | cmp - <("$TARN" "$c" -h) || echo "$c --help is not help $c"
done
echo "--- an empty name is not the current folder"
cp -r "$DATA/01_basic" basic; mkdir empty; cd empty
try convert ../basic:train '' --overwrite
try convert ../basic:train ../basic:val '' --number
try split ../basic:train --into a=0.5,b -o ''
try merge ../basic:train -o ''
try pack ../basic -o ''
ls -A
cd ..
echo "--- a list that cannot be read is not an empty one"
try ls -s @- basic:train < basic
try ls -s @basic basic:train
try index basic --name x.tar

# A class has one number in all folds of a folder, whenever they are written.
mkdir -p train/{ant,bee,cat} val/{bee,cat} more/{aye,bee,owl}
for c in ant bee cat; do echo $c > train/$c/t_$c.txt; done
for c in bee cat; do echo $c > val/$c/v_$c.txt; done
for c in aye bee owl; do echo $c > more/$c/m_$c.txt; done
numbers() { for k in "${@:2}"; do echo "$k $("$TARN" get "$1" "$k" cls)"; done; }
"$TARN" pack train --class-from-dir -q -o d; cat d/classes.txt; numbers d t_ant t_bee t_cat
"$TARN" pack val --class-from-dir --fold val -q -o d; cat d/classes.txt; numbers d:val v_bee v_cat
"$TARN" pack more --class-from-dir --append -q -o d; cat d/classes.txt
numbers d:train t_bee m_aye m_bee m_owl
echo bee >> d/classes.txt
"$TARN" pack val --class-from-dir --fold test -q -o d; echo "exit $?"
mkdir -p $'odd/a\nb'; echo 1 > $'odd/a\nb/x.txt'
"$TARN" pack odd --class-from-dir -q -o o; echo "exit $?"; ls o 2>/dev/null
echo "== DIR:FOLD is the folder DIR"
"$TARN" pack train --class-from-dir -q -o f
"$TARN" pack val --class-from-dir -q -o f:val; numbers f:val v_bee v_cat
mkdir -p in/ant; echo 1 > in/ant/i.txt
"$TARN" pack in -q -o in/out:train; "$TARN" pack in -q -o in/out:train --overwrite; "$TARN" ls in/out

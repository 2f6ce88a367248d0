# What `tarn pack` takes from folders: patterns, other names, classes, and only what decodes.
image() { mkdir -p "$(dirname "$1")"; printf 'P6\n1 1\n255\nabc' > "$1"; }
for f in in/cat/a.jpg in/cat/b.jpeg in/dog/c.png in/dog/D.JPG in/cat/old/e.jpg in/small/f.jpg; do
    image $f
done
echo stray > in/README.txt; echo x > in/dog/Thumbs.db; echo x > in/dog/desktop.ini; touch in/.DS_Store
pack() { "$TARN" pack "$@" 2>&1 | sed 's/^[0-9.]* s:.*/RATES/'; echo "exit ${PIPESTATUS[0]}"; }
list() { rm -rf o; "$TARN" pack "$@" -q -o o 2>/dev/null && "$TARN" ls -1 o | paste -sd' '; }

echo "== a stray file is reported and does not stop the rest"
pack in --class-from-dir -o o -q; "$TARN" ls o; cat o/classes.txt
echo "== patterns without a slash are matched with names, others with paths"
list in --include '*.jpg'
list in --include '*.jpg' --include '*.png'
list in --exclude small
list in --exclude 'cat/*'
list in --exclude cat/old
list in --exclude 'at/old'
list in --exclude /cat
list in --include '*/*.jpg'
list in --include cat --exclude old
list in --exclude '[a-b].*'
list in/cat/a.jpg in/cat/b.jpeg --exclude '*.jpeg'
pack in --exclude '.*' --exclude '*.txt' --exclude 'T*' --exclude '*.ini' -q -o x; rm -r x
pack in --include '*.gif' -o x
pack in --exclude '' -o x
printf 'key,txt\na,x\n' > m.csv; pack m.csv --include '*.txt' -o x
"$TARN" pack in --include 'cat' -q -o f.iac; "$TARN" ls f.iac

echo "== fields get other names"
rm -rf o; pack in --rename jpg,jpeg,PNG=img --include cat --include dog -q -o o 2>/dev/null
"$TARN" ls o
mkdir two; image two/x.left.jpg; image two/x.right.png; "$TARN" pack two --rename jpg,png=img -q -o t; "$TARN" ls t
image two/y.jpg; image two/y.png; pack two --rename jpg,png=img -o x
pack two --rename jpg -o x
pack two --rename jpg= -o x
pack two --rename jpg=a/b -o x
printf 'key,jpg,png\na,two/y.jpg,\nb,,two/y.png\n' > m.csv
"$TARN" pack m.csv --rename jpg,png=img -q -o n; "$TARN" ls n
pack x.tar --rename jpg=img -o x
pack two --rename jgp=img -o x; ls x

echo "== the level of the class"
for f in sp/train/ant/a.jpg sp/train/bee/b.jpg sp/val/bee/c.jpg; do image $f; done
pack sp --class-from-dir --keys path -o x
pack sp --class-level 0 -o x
"$TARN" pack sp --class-level 2 -q -o s; "$TARN" ls s; cat s/classes.txt
"$TARN" pack sp --class-level 1 -q -o s1; cat s1/classes.txt
"$TARN" pack sp --class-level 1 -q -o s1:more --exclude train; cat s1/classes.txt
pack sp/train --class-level 2 -o x

echo "== only what can be decoded"
: > in/dog/zero.jpg; echo '<html>' > in/dog/page.jpg; echo '{' > in/cat/a.json
pack in --check --exclude '.*' --include cat --include dog --exclude '*.db' --exclude '*.ini' -o c
ls c
pack in --check --include cat --include dog --exclude '*.db' --exclude '*.ini' --dry-run
pack in --check=skip --include cat --include dog --exclude '*.db' --exclude '*.ini' -o c
"$TARN" ls c
pack in --check --include 'dog/c.png' -o ok
pack in --check=all -o x
printf 'key,jpg,cls\na,two/y.jpg,seven\nb,two/y.png,7\n' > m.csv
pack m.csv --check -o x
tar cf x.tar -C in/cat a.jpg; pack x.tar --check -o x
pack in --check -o x.iac
ls -d x x.iac 2>&1

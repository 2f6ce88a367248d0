# The types of the columns of a record pack that is made from a manifest, and its codec.
mkdir t; for i in 1 2 3; do printf 'P6\n1 1\n255\nab%d' $i > t/$i.ppm; done
types() { "$TARN" info "$1" | sed -n '/^  index/,/^  header/s/^    //p' | grep -v 'offset\|length\|crc32'; }
rows() { printf "$1" > m.jsonl; "$TARN" pack m.jsonl -q -f -o m.iac "${@:2}" && types m.iac && "$TARN" ls --json m.iac; echo "exit $?"; }
two() { rows '{"file":"t/1.ppm","x":'"$1"'}\n{"file":"t/2.ppm","x":'"$2"'}\n' "${@:3}"; }
echo "== JSON lines: what the values are"
rows '{"file":"t/1.ppm","n":1,"f":0.5,"b":true,"s":"a","l":[1,2],"e":[]}\n{"file":"t/2.ppm","n":null,"f":2,"b":false,"l":[0.25],"t":["x"],"z":null}\n{"file":"t/3.ppm"}\n'
two 9007199254740992 0.5
two 9007199254740993 0.5
two 9223372036854775807 1
two 9223372036854775808 1
echo "== what does not fit is an error, or text if asked"
two 1 '"a"'
two 1 '"a"' --types x=text
two true 1
two '[1]' 1
two '[1]' '["a"]'
two '[1,"a"]' null
two '[null]' null
two '{"a":1}' null
two '{"a":1}' '"b"' --types x=text
two '"\\ud800"' null
echo "== types by option"
two '"2024-02-29T12:00:00.25+02:00"' '"1969-12-31"' --types x=timestamp
two '"2024-02-30"' null --types x=timestamp
two '"2024-01-01T24:00"' null --types x=timestamp
two '"2024-01-01T10:00:00.1234567Z"' null --types x=timestamp
two '17' null --types x=timestamp
two '"12"' '-3' --types x=int
two '"12.0"' null --types x=int
two '" 12"' null --types x=float
two '"yes"' null --types x=bool
two 1 2 --types y=int
two 1 2 --types x=integer
two 1 2 --types x
two 1 2 --types x=int,x=int
printf 'file,age,dose,good\nt/1.ppm,47,0.5,true\nt/2.ppm,,1e3,0\n' > m.csv
"$TARN" pack m.csv -q -o c.iac; types c.iac
"$TARN" pack m.csv -q -o d.iac --types age=int,dose=float,good=bool; types d.iac; "$TARN" ls --json d.iac
"$TARN" pack m.csv -q -o x --types age=int; "$TARN" pack t -q -o x.iac --types age=int
echo "== types survive a conversion"
two '[1.5]' null --types x=text > /dev/null
rows '{"file":"t/1.ppm","f":0.5,"b":true,"l":["a"],"w":"2024-01-01"}\n{"file":"t/2.ppm","f":1}\n' --types w=timestamp
"$TARN" convert m.iac n.iac --range 0:2 --shuffle 1 -q; types n.iac; "$TARN" ls --json n.iac
"$TARN" convert m.iac fold -q; "$TARN" get fold 000000000 json; echo
echo "== the codec says what the payloads are"
mkdir p; printf '\211PNG\r\n\032\n1' > p/1.png; printf '\211PNG\r\n\032\n2' > p/2.png
codec() { "$TARN" info "$1" | grep payloads; "$TARN" verify "$1"; }
"$TARN" pack p --codec png -q -o p.iac; codec p.iac; "$TARN" ls -1 --order identity p.iac
"$TARN" pack p --codec jpg -q -o q.iac; "$TARN" pack p --codec png --level 3 -q -o q.iac
"$TARN" pack p --codec bmp -q -o q.iac
"$TARN" pack p --codec zstd -q -o z.iac
"$TARN" convert z.iac y.iac --codec png -q; codec y.iac; "$TARN" get y.iac 1 | od -An -c
"$TARN" convert y.iac w.iac -q; codec w.iac
"$TARN" convert y.iac v.iac --range 1:2 --codec png -q; codec v.iac
"$TARN" pack p -q -o fold2; "$TARN" convert fold2 u.iac --payload png --codec png -q; codec u.iac

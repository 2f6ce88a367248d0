"""The command with a terminal or a closed pipe as its output."""
import gzip
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import tarfile
import tty

import numpy as np
import pyarrow as pa

import tarn
import tarn.gnz
import tarn.iac


def test_the_command_that_pip_installs_ends_silently_when_its_reader_has_left(birds):
    """Python ignores SIGPIPE, so this would be an error message otherwise."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-m", "tarn", "ls", str(birds)], stdout=writer,
                          stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, b"")


EVIL = "\x1b]0;x\x07\x9b1m\x7f\u202e"  # sets a title, twice; a deletion; a change of direction
PROGRESS = re.compile(rb"\r[^\r\x1b]*\x1b\[K")
CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")


def on_terminal(cwd, *args):
    """Returns what the command writes to a terminal, without its own progress bar."""
    controller, terminal = pty.openpty()
    tty.setraw(terminal)
    env = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    with subprocess.Popen([os.environ["TARN"], *args], stdin=subprocess.DEVNULL, stdout=terminal,
                          stderr=terminal, cwd=cwd, env=env):
        os.close(terminal)
        text = b""
        try:
            while block := os.read(controller, 65536):
                text += block
        except OSError:  # all other ends are closed
            pass
    os.close(controller)
    return PROGRESS.sub(b"", text)


def make_hostile(folder):
    """Writes a file of every kind with such names in all places. The first 7 are datasets."""
    name = EVIL.encode()
    members = [(name + b"k.jpg" + name, b"x"), (name + b"k.json", b'{"a":"' + name + b'"}'),
               (b"plain.cls", name), (b"plain.txt", name), (b"bad", b"")]
    for file in ("fold/train_0.tar", f"{EVIL}.tar", "two.tar"):
        (folder / file).parent.mkdir(exist_ok=True)
        with tarfile.open(folder / file, "w", format=tarfile.PAX_FORMAT) as out:
            for member, data in members:
                info = tarfile.TarInfo(os.fsdecode(member))
                info.size = len(data)
                out.addfile(info, io.BytesIO(data))
    (folder / "s.tar.gz").write_bytes(gzip.compress((folder / "two.tar").read_bytes()))
    (folder / "cut.tar").write_bytes((folder / "two.tar").read_bytes()[:1800])
    arrays = {EVIL: np.arange(2), "_key": np.array([EVIL, "b"])}
    with tarn.gnz.create(folder / "e.gnz", metadata={"m": EVIL}) as out:
        for array, values in arrays.items():
            out.add(array, values)
    np.savez(folder / "e.npz", **arrays)
    table = pa.table({EVIL: [EVIL, "b"], "key": [EVIL, EVIL]})
    tarn.iac.build_pack(folder / "e.iac", {"payload_type": EVIL, EVIL: EVIL},
                        pa.table({"slide_idx": pa.array([], pa.uint32())}), table, [b"x", b"y"])
    (folder / "files" / EVIL).mkdir(parents=True)
    for file in (f"files/{EVIL}/{EVIL}.txt", f"files/{EVIL}.txt", f"files/{EVIL}/a.j{EVIL}",
                 f"files/.{EVIL}", f"files/{EVIL}/a.jpg"):
        (folder / file).write_text(EVIL)
    (folder / f"{EVIL}.csv").write_text(f"key,{EVIL}\n{EVIL},{EVIL}\n")
    (folder / "m.jsonl").write_text(json.dumps({"file": f"{EVIL}.csv", EVIL: EVIL}) + "\n" +
                                    json.dumps({"file": f"{EVIL}.csv", EVIL: 1}))
    return ["fold", f"{EVIL}.tar", "s.tar.gz", "cut.tar", "e.gnz", "e.iac", "fold/train.taridx",
            "e.npz", "files", f"{EVIL}.csv", "m.jsonl"]


def readings(path, number):
    """All ways to look at a dataset, and to copy parts of it."""
    yield from (["info", path], ["info", "--json", path], ["ls", path], ["ls", "-l", path],
                ["ls", "-1", path], ["ls", "--json", path], ["ls", "--stats", path],
                ["ls", "--order", "identity", path], ["ls", "--order", "identity", "-l", path],
                ["ls", "--samples", EVIL, path], ["ls", "--fields", EVIL, path], ["ls", "--where", f"{EVIL}={EVIL}", path],
                ["ls", "--columns", EVIL, path], ["ls", "--order", EVIL, path],
                ["get", path, EVIL], ["get", path, "0"], ["get", path, f"{EVIL}k"],
                ["get", path, f"{EVIL}=b{EVIL}"], ["get", path, "plain", EVIL],
                ["get", path, f"key={EVIL}", "-o", f"{EVIL}/x/y"], ["index", path],
                ["verify", path], ["verify", "--json", path],
                ["bench", "--fields", EVIL, path], ["split", path, "--into", f"{EVIL}=0.5,b"],
                ["split", path, "--into", "a=0.5,b", "-o", f"split{number}{EVIL}"],
                ["merge", path, path, "-o", f"merged{number}{EVIL}"],
                ["extract", path, "-o", f"out{number}{EVIL}"])


def conversions(path, number):
    """All ways to pack and to convert a path."""
    yield from (["pack", path, "--dry-run", "--class-from-dir"], ["pack", path, "--check", "-o", "x"],
                ["pack", path, "--rename", f"txt={EVIL}/", "-o", "x"])
    for target, *options in (["fold"], [".tar"], [".gnz"], [".iac"], [".npz"],
                             [".iac", "--payload", EVIL]):
        yield ["convert", path, f"to{number}{EVIL}{target}", *options]
    for target in ("fold", ".tar", ".gnz", ".iac"):
        yield ["pack", path, "-o", f"packed{number}{EVIL}{target}"]


def test_no_command_writes_a_control_character_to_a_terminal(tmp_path):
    raw = []
    for number, path in enumerate(make_hostile(tmp_path)):
        work = [*readings(path, number)] if number < 7 else []
        for arguments in [*work, *conversions(path, number)]:
            if arguments[0] == "get" and "-o" not in arguments:
                arguments.append("nofield")  # the payload itself is never escaped
            text = on_terminal(tmp_path, *arguments)
            if CONTROL.search(text):
                raw.append((arguments, text[:300]))
    assert raw == []

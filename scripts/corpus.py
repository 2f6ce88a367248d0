#!/usr/bin/env python3
"""The fuzz corpus: fuzz/corpus/TARGET.tar.gz, and regressions next to it as fuzz/corpus/TARGET/crash-WHAT.

  corpus.py unpack [FOLDER]            unpacks both into FOLDER/TARGET (default: build-corpus)
  corpus.py add TARGET FILE...         adds files to the archive of a target, under found-HASH
  corpus.py crash TARGET WHAT FILE     keeps a crash as fuzz/corpus/TARGET/crash-WHAT
  corpus.py grow [TARGET...]           adds the inputs that `make fuzz` found (build-fuzz/corpus) and that
                                       reach new code
  corpus.py count                      prints how many files each target has

The archives are reproducible: names in order, no times, no owners. A file that the corpus already has is
not added again.
"""
import gzip
import hashlib
import io
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CORPUS = ROOT / "fuzz/corpus"
UNPACKED = ROOT / "build-corpus"


def targets():
    return sorted(path.name.removesuffix(".tar.gz") for path in CORPUS.glob("*.tar.gz"))


def archive(target):
    return CORPUS / f"{target}.tar.gz"


def read(target):
    """{name: bytes} of the archive of a target; empty for a new target."""
    if not archive(target).exists():
        return {}
    with tarfile.open(archive(target)) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}


def write(target, files):
    """Writes the archive of a target if it changes."""
    if files == read(target):
        return
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(files):
            member = tarfile.TarInfo(name)
            member.size = len(files[name])
            tar.addfile(member, io.BytesIO(files[name]))
    archive(target).write_bytes(gzip.compress(plain.getvalue(), 9, mtime=0))


def crashes(target):
    """{name: bytes} of the regressions of a target."""
    return {path.name: path.read_bytes() for path in sorted((CORPUS / target).glob("*"))}


def everything(target):
    return {**read(target), **crashes(target)}


def stamp(target):
    digest = hashlib.sha256(archive(target).read_bytes())
    for name, data in crashes(target).items():
        digest.update(name.encode() + b"\0" + data)
    return digest.hexdigest()


def unpack(folder=UNPACKED):
    """Unpacks what changed. Several runs may do so at once: a folder appears only when it is
    complete."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for target in targets():
        note, now = folder / f".{target}", stamp(target)
        if note.exists() and note.read_text() == now and (folder / target).is_dir():
            continue
        fresh = pathlib.Path(tempfile.mkdtemp(dir=folder, prefix=".new-"))
        for name, data in everything(target).items():
            (fresh / name).write_bytes(data)
        fresh.chmod(0o755)
        shutil.rmtree(folder / target, ignore_errors=True)
        try:
            fresh.rename(folder / target)
        except OSError:  # another run was faster
            shutil.rmtree(fresh, ignore_errors=True)
        note.write_text(now)


def add(target, paths):
    files = read(target)
    known = {*files.values(), *crashes(target).values()}
    added = 0
    for path in map(pathlib.Path, paths):
        data = path.read_bytes()
        if data not in known:
            known.add(data)
            files[f"found-{hashlib.sha1(data).hexdigest()[:16]}"] = data
            added += 1
    write(target, files)
    print(f"{target}: {added} added, {len(files)} files in {archive(target).relative_to(ROOT)}")


def crash(target, what, path):
    if target not in targets():
        raise SystemExit(f"corpus.py: no target {target} (there are {', '.join(targets())})")
    place = CORPUS / target / f"crash-{what}"
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(pathlib.Path(path).read_bytes())
    print(place.relative_to(ROOT))


def grow(names):
    """libFuzzer's merge keeps only the found files that reach code the corpus does not."""
    unpack()
    for target in names or targets():
        found, program = ROOT / "build-fuzz/corpus" / target, ROOT / f"build-fuzz/fuzz/fuzz_{target}"
        if not found.is_dir() or not program.exists():
            print(f"{target}: nothing found yet (make fuzz)")
            continue
        with tempfile.TemporaryDirectory() as scratch:
            merged = pathlib.Path(scratch) / "merged"
            shutil.copytree(UNPACKED / target, merged)
            before = {path.name for path in merged.iterdir()}
            subprocess.run([program, "-merge=1", merged, found], cwd=scratch, check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            add(target, sorted(path for path in merged.iterdir() if path.name not in before))


def count():
    for target in targets():
        print(f"{target:10} {len(read(target)):5} in the archive, {len(crashes(target))} regressions")


def main():
    what, *rest = sys.argv[1:] or ["help"]
    if what == "unpack" and len(rest) <= 1:
        unpack(*rest)
    elif what == "add" and len(rest) >= 2:
        add(rest[0], rest[1:])
    elif what == "crash" and len(rest) == 3:
        crash(*rest)
    elif what == "grow":
        grow(rest)
    elif what == "count" and not rest:
        count()
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main()

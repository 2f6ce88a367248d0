"""Markdown tables of the results of a run."""
from measure import seconds, with_unit

from . import OURS, PEERS
from .aims import AIMS
from .texts import FASTER, KINDS, TEXTS

TOO_SHORT = ("open", "growth")  # for the CPU column: reading the clocks of processes takes longer


def is_time(workload):
    return TEXTS[workload].unit.startswith("seconds")


def value(row):
    """The value that rows are compared by: a rate, or a time where less is better."""
    rate = row.rate
    return None if rate is None else 1 / rate if is_time(row.workload) else rate


def shown(workload, number):
    if is_time(workload):
        return seconds(number)
    return with_unit(number) + ("B/s" if TEXTS[workload].unit == "bytes/s" else "/s")


def spread(row):
    values = sorted(1 / r if is_time(row.workload) else r for r in row.rates())
    return values[0], values[-1]


def first_of_ours(rows):
    return next((r for r in rows if r.peer in OURS and r.rate), None)


def times_ours(row, rows):
    """The speed of our usual way relative to this row."""
    mine = first_of_ours(rows)
    return mine.rate / row.rate if mine and row.rate else None


def best_other(rows):
    return max((r for r in rows if r.peer not in OURS and r.rate), key=lambda r: r.rate, default=None)


def exactness(row):
    found = [r for r in row.rounds if "exact" in r]
    if not found:
        return ""
    if all(r["exact"] for r in found):
        return "each once"
    return f"{max(r['lost'] for r in found):,} lost, {max(r['repeated'] for r in found):,} twice"


def line_of(row, rows):
    if row.failed or row.rate is None:
        return [row.name, "failed", row.failed[:120].replace("|", "\\|"), "", "", "", ""]
    low, high = spread(row)
    ratio = times_ours(row, rows)
    against = "" if ratio is None or row.peer in OURS else f"{ratio:.3g} ×" if ratio >= 1 else f"**{ratio:.2g} ×**"
    memory = [f"{row.median(what) / 1e6:,.0f}" for what in ("own_bytes", "resident_bytes")]
    cells = [row.name, shown(row.workload, value(row)), f"{shown(row.workload, low)} – {shown(row.workload, high)}",
             "" if row.workload in TOO_SHORT else seconds(row.cpu), *memory, against]
    return cells + [exactness(row)] if row.workload == "resume" else cells


def grid(head, lines, right=()):
    marks = ["---:" if i in right else "---" for i in range(len(head))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, marks, *lines])


def ordered(rows):
    return sorted(rows, key=lambda r: -(r.rate or 0))


def table(workload, rows):
    """All contestants of one workload."""
    head = ["contestant", TEXTS[workload].unit, "least – most", "CPU per item", "own MB", "resident MB", "tarn is faster by"]
    if workload == "resume":
        head.append("every sample")
    return grid(head, [line_of(r, rows) for r in ordered(rows)], right=range(1, 7))


def groups(rows):
    """{(workload, kind, samples): rows}, in the order of the run."""
    out = {}
    for row in rows:
        out.setdefault((row.workload, row.kind, row.samples), []).append(row)
    return out


def heading(workload, kind):
    return f"{TEXTS[workload].title}, {KINDS[kind]}"


def summary(found):
    lines = []
    for (workload, kind, samples), rows in found.items():
        mine, other = first_of_ours(rows), best_other(rows)
        if workload == "growth" or not mine:
            continue
        ratio = mine.rate / other.rate if other else None
        best = max((r for r in rows if r.peer in OURS and r.rate), key=lambda r: r.rate)
        more = f" ({best.way}: {shown(workload, value(best))})" if best is not mine else ""
        verdict = "" if ratio is None else f"{ratio:.3g} ×" if ratio >= 1 else f"**{ratio:.2g} ×: {other.name} {FASTER}**"
        lines.append([f"[{heading(workload, kind)}](tables.md#{anchor(workload, kind)})",
                      shown(workload, value(mine)) + more,
                      f"{other.name}: {shown(workload, value(other))}" if other else "–", verdict])
    return grid(["", "tarn", "fastest other", "tarn is"], lines, right=(1, 2))


def anchor(workload, kind):
    text = f"{TEXTS[workload].title}, {KINDS[kind]}".lower()
    return "".join(c if c.isalnum() or c in "-_" else "-" if c == " " else "" for c in text)


def aims(rows):
    lines, missed = [], []
    for aim in AIMS:
        ratio = aim.judge(rows)
        if ratio is None:
            continue
        met = ratio >= aim.ratio
        against = aim.other + (f", {aim.other_workload}" if aim.other_workload else "")
        lines.append([aim.job, f"≥ {aim.ratio:g} × {against}", f"{ratio:.3g} ×", "met" if met else "**missed**"])
        if not met:
            job = aim.job[0].upper() + aim.job[1:]
            missed.append(f"**{job}** ({ratio:.3g} × {aim.other}, aim {aim.ratio:g} ×). {aim.bounds}")
    return grid(["task", "aim", "measured", ""], lines, right=(2,)), missed


def growth_lines(found):
    """(opening, random) by contestant: {name: [(samples, value)]}, ours first."""
    opening, reading = {}, {}
    for (workload, _, samples), rows in found.items():
        if workload != "growth":
            continue
        for row in rows:
            if row.rate:
                opening.setdefault(row.peer, []).append((samples, value(row)))
            if row.median("random"):
                reading.setdefault(row.peer, []).append((samples, row.median("random")))
    return opening, reading


def growth_table(series, show):
    sizes = sorted({x for values in series.values() for x, _ in values})
    lines = [[name] + [show(dict(values)[x]) if x in dict(values) else "–" for x in sizes]
             for name, values in series.items()]
    return grid(["contestant", *(f"{x:,}" for x in sizes)], lines, right=range(1, len(sizes) + 1))


def stored_table(stored):
    """Bytes on disk beyond those of the samples."""
    lines = []
    for key, made in stored.items():
        kind, samples, owner = key.split(" ", 2)
        if kind not in ("d1", "d2", "tiny") or (kind == "tiny" and samples != largest(stored)):
            continue
        members = int(samples) * (1 if kind == "tiny" else 2)
        index = "in the files" if made["index_bytes"] is None else f"{made['index_bytes'] / members:.1f} B"
        lines.append([f"{KINDS[kind]}, {int(samples):,}", owner, f"{made['size'] / 1e6:,.1f} MB",
                      f"{(made['size'] - made['payload']) / int(samples):,.0f} B", index])
    lines.sort(key=lambda cells: cells[0])
    return grid(["data", "contestant", "on disk", "overhead per sample", "index per member"], lines, right=(2, 3, 4))


def largest(stored):
    return str(max((int(key.split()[1]) for key in stored if key.startswith("tiny")), default=0))


def contestants(peers):
    lines, missing = [], []
    for name in PEERS:
        about = peers.get(name)
        if about is None:
            continue
        if not about["ok"]:
            missing.append(f"- **{name}** could not run: {about['why']}")
            continue
        lacks = "; ".join(f"{workload}: {why}" for workload, why in about["lacks"].items())
        lines.append([name, about["version"], about["settings"] + (f" Not available: {lacks}." if lacks else "")])
    return grid(["contestant", "version", "settings"], lines), missing

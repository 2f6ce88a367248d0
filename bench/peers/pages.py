"""The pages under docs/benchmarks: a summary with plots, all tables, and the results as they were found."""
import json
import os

from measure import seconds, with_unit

from . import OURS, PEERS, svg
from .aims import AIMS, ELSEWHERE
from .contest import Row
from .texts import FASTER, KINDS, TEXTS


def is_time(workload):
    return TEXTS[workload].unit.startswith("seconds")


def value(row):
    """What a row is compared by: a rate, or a time where less is better."""
    rate = row.rate
    return None if rate is None else 1 / rate if is_time(row.workload) else rate


def shown(workload, number):
    return seconds(number) if is_time(workload) else with_unit(number) + "/s"


def spread(row):
    values = sorted(1 / r if is_time(row.workload) else r for r in row.rates())
    return values[0], values[-1]


def first_of_ours(rows):
    return next((r for r in rows if r.peer in OURS and r.rate), None)


def times_ours(row, rows):
    """How many times as fast our usual way is as this row."""
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
    cells = [row.name, shown(row.workload, value(row)), f"{shown(row.workload, low)} – {shown(row.workload, high)}",
             f"{with_micro(row.cpu)}", f"{row.median('own_bytes') / 1e6:,.0f}", f"{row.median('resident_bytes') / 1e6:,.0f}", against]
    return cells + [exactness(row)] if row.workload == "resume" else cells


def with_micro(cpu):
    return seconds(cpu) if cpu >= 1e-3 else f"{cpu * 1e6:.3g} µs" if cpu >= 1e-6 else f"{cpu * 1e9:.3g} ns"


def grid(head, lines, right=()):
    marks = ["---:" if i in right else "---" for i in range(len(head))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, marks, *lines])


def ordered(rows):
    return sorted(rows, key=lambda r: -(r.rate or 0))


def table_text(workload, kind, rows):
    """The table of one workload, in Markdown."""
    head = ["contestant", TEXTS[workload].unit, "least – most", "CPU for one", "own MB", "resident MB", "tarn is faster by"]
    if workload == "resume":
        head.append("every sample")
    return f"\n{workload}, {kind}\n" + grid(head, [line_of(r, rows) for r in ordered(rows)], right=range(1, 7))


def groups(rows):
    """{(workload, kind, samples): rows}, in the order of the run."""
    out = {}
    for row in rows:
        out.setdefault((row.workload, row.kind, row.samples), []).append(row)
    return out


# --- The summary -----------------------------------------------------------------------------


def heading(workload, kind, samples):
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
        lines.append([f"[{heading(workload, kind, samples)}](tables.md#{anchor(workload, kind)})",
                      shown(workload, value(mine)) + more,
                      f"{other.name}: {shown(workload, value(other))}" if other else "–", verdict])
    return grid(["", "tarn", "the fastest other", "tarn is"], lines, right=(1, 2))


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
            missed.append(f"**{aim.job[0].upper()}{aim.job[1:]}** ({ratio:.3g} × {aim.other}, aim {aim.ratio:g} ×). {aim.bounds}")
    return grid(["job", "aim", "here", ""], lines, right=(2,)), missed


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
    lines = [[name] + [show(dict(values)[x]) if x in dict(values) else "–" for x in sizes] for name, values in series.items()]
    return grid(["contestant", *(f"{x:,}" for x in sizes)], lines, right=range(1, len(sizes) + 1))


def stored_table(stored):
    """Bytes on the disk beside the samples' own."""
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
    return grid(["data", "contestant", "on disk", "beside the payload, a sample", "index, a member"], lines, right=(2, 3, 4))


def largest(stored):
    return str(max((int(key.split()[1]) for key in stored if key.startswith("tiny")), default=0))


def plot(workload, kind, samples, rows):
    """Bars; for times the shortest comes first, for rates the highest."""
    drawn = [(r.name, value(r), *spread(r), shown(workload, value(r)), r.peer in OURS) for r in ordered(rows) if r.rate]
    subtitle = f"{TEXTS[workload].unit}; {'less' if is_time(workload) else 'more'} is better; the dark line is the spread"
    return svg.bars(f"{heading(workload, kind, samples)}", subtitle, drawn)


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
        lines.append([name, about["version"], about["settings"] + (f" Not there: {lacks}." if lacks else "")])
    return grid(["contestant", "version", "settings"], lines), missing


INTRODUCTION = """# tarn next to its peers

Written by `bench/peers.py{flag} --write-docs` (`make bench`, `make bench-full`), which measures all of this in one run. Do not edit.

{machine}. Form: {form}; medians of {rounds} rounds (growth: {growth}), {seconds:g} s for each warm measurement.{busy}

Every contestant holds the same samples in its own format and reads them with the settings its authors recommend (below). Contestants take turns;
each measurement is a process of its own. Files were read once from front to back before warm measurements; before cold ones they are
taken out of the page cache. *CPU* is seconds of processors for one sample, all processes together. *Own MB* is the peak of what the
processes hold for themselves, *resident MB* counts mapped files too, which the system can drop at any time; both count pages that worker
processes share once for each. Ratios are what to look at: the figures of a virtual machine change from hour to hour.

"""


def machine_text(m):
    return (f"{m['processor']}, {m['cores']} cores, {m['memory_gib']} GiB, {m['system']}, Python {m['python']}; commit {m['commit']}, "
            f"{m['date']}")


def busy_text(m):
    load = m["load_most"]
    if load <= m["cores"] * 1.5:
        return ""
    return (f" **The machine was busy with other work** (load up to {load:.0f} on {m['cores']} cores), so rates by the clock on the wall are "
            "provisional; the CPU columns suffer less.")


def readme(result, rows, found):
    m = result["machine"]
    out = [INTRODUCTION.format(flag=" --full" if result["form"] == "full" else "", machine=machine_text(m), form=result["form"],
                               rounds=result["rounds"], seconds=result["seconds"], busy=busy_text(m),
                               growth="one, of five openings each" if result["form"] != "full" else f"{result['rounds']}")]
    out.append("## Summary\n\n" + summary(found) + "\n\n*tarn* is its usual way: bytes, not synced, one thread for index and verify, two for the "
               "loader. [All tables](tables.md), [results as JSON](results.json), [more cores and a GPU](scaling.md).\n")
    out += filter(None, (section(workload, found) for workload in TEXTS if workload != "growth"))
    out.append(growth_section(found))
    out.append("## Bytes on disk\n\n" + stored_table(result["stored"]) + "\n\nTar costs a block of 512 bytes for each member and fills its payload up "
               "to the next: that is the price of a format that every program reads. tarn's index is 32 bytes for a member, the sums at most 8.\n")
    table, missed = aims(rows)
    out.append("## Aims\n\n" + table + "\n\n" + ("\n\n".join(missed) if missed else "None of these is missed.") + "\n\nAims that other benchmarks judge, "
               "with their own tables:\n\n" + "\n".join(f"- {job}: `{command}`" for job, command in ELSEWHERE) + "\n")
    table, missing = contestants(result["peers"])
    out.append("## Contestants\n\n" + table + "\n\n" + absent(missing))
    return "\n".join(out)


def section(workload, found):
    """What a workload is, and a plot for each kind of data."""
    here = {key: rows for key, rows in found.items() if key[0] == workload and any(r.rate for r in rows)}
    if not here:
        return ""
    text = TEXTS[workload]
    plots = [f"![{heading(*key)}]({plot_name(*key[:2])})\n{faster(key[1], rows)}" for key, rows in here.items()]
    return f"## {text.title}\n\n{text.measures}\n\n*What bounds it:* {text.bounds}\n\n" + "\n".join(plots)


def faster(kind, rows):
    """Says plainly who is faster."""
    mine = first_of_ours(rows)
    names = [f"{r.name} ({r.rate / mine.rate:.3g} ×)" for r in ordered(rows) if mine and r.rate and r.peer not in OURS and r.rate > mine.rate]
    return f"\n**Faster than {mine.name}, with {KINDS[kind]}: {', '.join(names)}.**\n" if names else ""


def growth_section(found):
    opening, reading = growth_lines(found)
    if not opening:
        return ""
    text = TEXTS["growth"]
    return (f"## {text.title}\n\n![opening](growth-open.svg)\n\n{growth_table(opening, seconds)}\n\n![random](growth-random.svg)\n\n"
            f"{growth_table(reading, lambda v: with_unit(v) + '/s')}\n\n{text.measures} *What bounds it:* {text.bounds}\n")


def absent(missing):
    fixed = ["- **FFCV** builds only from source, against OpenCV and its own headers, and has no wheel: not installed.",
             "- **Megatron Energon** reads WebDataset's shards by an index of its own and needs torchvision and a set of packages pinned to "
             "CUDA builds of torch: not installed.",
             "- **torchvision**'s wheel needs the CUDA build of torch: MosaicML Streaming is given an empty module in its place, as only its "
             "classes for images use it."]
    return "Not measured, or not as their packages say:\n\n" + "\n".join([*missing, *fixed]) + "\n"


def plot_name(workload, kind):
    return f"{workload.replace(' ', '-')}-{kind}.svg"


def tables(found):
    out = ["# All tables\n\nOf the run that [the summary](README.md) tells of, in the same order. *tarn is faster by* is the rate of tarn's first row there "
           "divided by this one; in bold where the other is faster. *Least – most* are the rounds.\n"]
    for (workload, kind, samples), rows in found.items():
        title = heading(workload, kind, samples)
        if workload == "growth":
            title += f", {samples:,}"
        text = table_text(workload, kind, rows).split("\n", 2)[2]
        out.append(f"## {title}\n\n{samples:,} samples.\n\n{text}\n")
    return "\n".join(out)


def write(result, folder):
    """All pages of a run."""
    rows = [Row(**row) for row in result["rows"]]
    found = groups(rows)
    os.makedirs(folder, exist_ok=True)
    for (workload, kind, samples), rows_here in found.items():
        if workload != "growth" and any(r.rate for r in rows_here):
            (folder / plot_name(workload, kind)).write_text(plot(workload, kind, samples, rows_here))
    opening, reading = growth_lines(found)
    if opening:
        (folder / "growth-open.svg").write_text(svg.lines("Opening, to the first sample", "samples (across) and time; less is better",
                                                          opening, lambda v: f"{v:g} s" if v >= 1 else f"{v * 1e3:g} ms"))
    if reading:
        (folder / "growth-random.svg").write_text(svg.lines("Random access after opening", "samples (across) and samples/s; more is better",
                                                            reading, lambda v: with_unit(v)))
    (folder / "README.md").write_text(readme(result, rows, found))
    (folder / "tables.md").write_text(tables(found))
    (folder / "results.json").write_text(json.dumps(result, indent=1) + "\n")

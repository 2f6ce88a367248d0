"""The pages under docs/benchmarks: a summary with plots, all tables, and the raw results."""
import json
import os

from measure import seconds, with_unit

from . import OURS, svg, tables
from .contest import Row
from .texts import (ABSENT, AIMS_ELSEWHERE, ALL_TABLES, ALSO, BUSY, INTRODUCTION, KINDS, ON_DISK, PROFILE, TEXTS, USUAL,
                    VERDICTS)


def machine_text(m):
    return (f"{m['processor']}, {m['cores']} cores, {m['memory_gib']} GiB, {m['system']}, Python {m['python']}; "
            f"commit {m['commit']}, {m['date']}")


def is_busy(m):
    """Uses the load before the run: during the run, the load comes from the contestants."""
    return m["load_before"] > m["cores"]


def is_apart(result, workload):
    """Whether a workload comes from another run."""
    return any(workload in other["workloads"] for other in result.get("also", ()))


def introduction(result):
    m, full = result["machine"], result["form"] == "full"
    return INTRODUCTION.format(
        flag=" --full" if full else "", machine=machine_text(m), form=result["form"], rounds=result["rounds"],
        seconds=result["seconds"], growth="" if full or is_apart(result, "growth") else " (growth: one round of five openings)",
        busy=BUSY.format(load=m["load_before"], cores=m["cores"]) if is_busy(m) else "",
        also="".join(ALSO.format(what=" and ".join(TEXTS[w].title for w in o["workloads"]), form=o["form"], rounds=o["rounds"],
                                 commit=o["machine"]["commit"], date=o["machine"]["date"]) for o in result.get("also", ())))


def faster(kind, rows):
    """States which contestant is faster."""
    mine = tables.first_of_ours(rows)
    if mine is None:
        return ""
    names = [f"{r.name} ({r.rate / mine.rate:.3g} ×)" for r in tables.ordered(rows)
             if r.rate and r.peer not in OURS and r.rate > mine.rate]
    return f"\n**Faster than {mine.name}, with {KINDS[kind]}: {', '.join(names)}.**\n" if names else ""


def section(workload, found):
    """The description of a workload, and a plot for each kind of data."""
    here = {key: rows for key, rows in found.items() if key[0] == workload and any(r.rate for r in rows)}
    text = TEXTS[workload]
    plots = [f"![{tables.heading(*key[:2])}]({plot_name(*key[:2])})\n{faster(key[1], rows)}" for key, rows in here.items()]
    return f"## {text.title}\n\n{text.measures}\n\n*Limited by:* {text.bounds}\n\n" + "\n".join(plots) if here else ""


def growth_section(found):
    opening, reading = tables.growth_lines(found)
    if not opening:
        return ""
    text = TEXTS["growth"]
    return (f"## {text.title}\n\n{text.measures}\n\n*Limited by:* {text.bounds}\n\n"
            f"![Opening](growth-open.svg)\n\n{tables.growth_table(opening, seconds)}\n\n"
            f"![Random access](growth-random.svg)\n\n{tables.growth_table(reading, lambda v: with_unit(v) + '/s')}\n")


def readme(result, rows, found):
    judged, missed = tables.aims(rows)
    contestants, failed = tables.contestants(result["peers"])
    parts = [introduction(result), f"## Summary\n\n{tables.summary(found)}\n\n{USUAL}"]
    parts += [section(workload, found) for workload in TEXTS if workload != "growth"]
    parts += [growth_section(found), f"## Bytes on disk\n\n{tables.stored_table(result['stored'])}\n\n{ON_DISK}",
              f"## Aims\n\n{judged}\n\n" + PROFILE + (VERDICTS if is_busy(result["machine"]) else "") + "\n\n" + "\n\n".join(missed or ["All of these are met."]) + f"\n\n{AIMS_ELSEWHERE}",
              f"## Contestants\n\n{contestants}\n\n" + "\n".join([ABSENT, *failed]) + "\n"]
    return "\n".join(filter(None, parts))


def all_tables(found):
    out = [ALL_TABLES]
    for (workload, kind, samples), rows in found.items():
        title = tables.heading(workload, kind) + (f", {samples:,}" if workload == "growth" else "")
        out.append(f"## {title}\n\n{samples:,} samples.\n\n{tables.table(workload, rows)}\n")
    return "\n".join(out)


def plot_name(workload, kind):
    return f"{workload.replace(' ', '-')}-{kind}.svg"


def plot(workload, kind, rows):
    """Bars; for times the shortest comes first, for rates the highest. Views are only in the tables: their
    bytes are not read, and beside them the other bars would be too short to compare."""
    drawn = [(r.name, tables.value(r), *tables.spread(r), tables.shown(workload, tables.value(r)), r.peer in OURS)
             for r in tables.ordered(rows) if r.rate and r.way != "views"]
    better = "less" if tables.is_time(workload) else "more"
    return svg.bars(tables.heading(workload, kind), f"{TEXTS[workload].unit}, {better} is better; bars are medians, thin lines show the range", drawn)


def plots(found):
    """{file name: SVG} of a run."""
    out = {plot_name(workload, kind): plot(workload, kind, rows) for (workload, kind, _), rows in found.items()
           if workload != "growth" and any(r.rate for r in rows)}
    opening, reading = tables.growth_lines(found)
    colours = dict(zip(opening | reading, svg.COLOURS, strict=False))  # same in both plots
    if opening:
        out["growth-open.svg"] = svg.lines("Opening, to the first sample", "time, less is better; both axes are logarithmic",
                                           "samples in the dataset", opening, colours, seconds)
    if reading:
        out["growth-random.svg"] = svg.lines("Random access after opening", "samples/s, more is better; both axes are logarithmic",
                                             "samples in the dataset", reading, colours,
                                             lambda v: with_unit(v) + "/s")
    return out


def write(result, folder):
    """All pages of a run."""
    rows = [Row(**row) for row in result["rows"]]
    found = tables.groups(rows)
    os.makedirs(folder, exist_ok=True)
    for name, drawing in plots(found).items():
        (folder / name).write_text(drawing)
    (folder / "README.md").write_text(readme(result, rows, found))
    (folder / "tables.md").write_text(all_tables(found))
    (folder / "results.json").write_text(json.dumps(result, indent=1) + "\n")

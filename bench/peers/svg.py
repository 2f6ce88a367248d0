"""Plots as SVG: bars with their spread, and lines over sizes. Text and axes take the colours of the page's
scheme, light or dark; nothing is painted behind them.
"""
import html
import math

WIDTH = 760
STYLE = """<style>
  text { font: 13px system-ui, sans-serif; fill: #3d444d }
  .title { font-weight: 600; font-size: 15px }
  .quiet { fill: #6e7781 }
  .axis { stroke: #8c959f; stroke-width: 1; fill: none }
  .grid { stroke: #8c959f; stroke-opacity: .25; fill: none }
  .ours { fill: #2f7de1 } .theirs { fill: #9aa4af }
  .spread { stroke: #57606a; stroke-width: 1.5 }
  @media (prefers-color-scheme: dark) {
    text { fill: #d1d7e0 } .quiet { fill: #9198a1 } .spread { stroke: #d1d7e0 }
    .ours { fill: #4493f8 } .theirs { fill: #6e7681 }
  }
</style>"""
COLOURS = ("#2f7de1", "#d1495b", "#3a9d5d", "#c08a1e", "#8a63d2", "#c65da6", "#2f9aa0", "#8c6d46", "#7a8590", "#b5651d")
BAR, GAP, LEFT, RIGHT, TOP = 18, 8, 210, 130, 56


def document(height, body, title):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" '
            f'height="{height:.0f}" role="img" aria-label="{html.escape(title)}">\n{STYLE}\n' + "\n".join(body) + "\n</svg>\n")


def text(x, y, words, kind="", anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{html.escape(words)}</text>'


def line(x1, y1, x2, y2, kind):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def bars(title, subtitle, rows):
    """rows: (name, value, least, most, label, ours), drawn in the order given, from zero."""
    room = WIDTH - LEFT - RIGHT
    top = max((most for _, _, _, most, _, _ in rows), default=1) or 1
    body = [text(12, 24, title, "title"), text(12, 42, subtitle, "quiet")]
    y = TOP
    for name, value, least, most, label, ours in rows:
        middle = y + BAR / 2
        body.append(text(LEFT - 8, middle + 4.5, name, "", "end"))
        body.append(f'<rect x="{LEFT}" y="{y}" width="{max(1, value / top * room):.1f}" height="{BAR}" rx="2" '
                    f'class="{"ours" if ours else "theirs"}"/>')
        body.append(line(LEFT + least / top * room, middle, LEFT + most / top * room, middle, "spread"))
        body.append(text(LEFT + max(value, most) / top * room + 8, middle + 4.5, label))
        y += BAR + GAP
    body.append(line(LEFT, TOP - 4, LEFT, y - GAP + 4, "axis"))
    return document(y + 8, body, title)


def spread_out(wanted, gap, low, high):
    """Places near those wanted, in order, at least a gap apart."""
    places = sorted(wanted.items(), key=lambda item: item[1])
    out, last = {}, low - gap
    for name, place in places:
        last = max(place, last + gap)
        out[name] = last
    over = last - high
    if over > 0:
        last = high + gap
        for name, _ in reversed(places):
            last = min(out[name], last - gap)
            out[name] = last
    return out


def lines(title, subtitle, series, show):
    """series: {name: [(x, y)]}, the first one ours; both axes logarithmic. show: a value in words."""
    height, left, right, bottom = 400, 84, WIDTH - 150, 360
    points = [p for values in series.values() for p in values]
    x_low, x_high = (round(math.log10(f(x for x, _ in points)), 6) for f in (min, max))
    y_low, y_high = math.floor(math.log10(min(y for _, y in points))), math.ceil(math.log10(max(y for _, y in points)))
    x_high, y_high = max(x_high, x_low + 1), max(y_high, y_low + 1)

    def at(x, y):
        return (left + (math.log10(x) - x_low) / (x_high - x_low) * (right - left),
                bottom - (math.log10(y) - y_low) / (y_high - y_low) * (bottom - TOP - 8))
    body = [text(12, 24, title, "title"), text(12, 42, subtitle, "quiet")]
    for power in range(y_low, y_high + 1):
        _, y = at(10 ** x_low, 10.0 ** power)
        body += [line(left, y, right, y, "grid"), text(left - 8, y + 4.5, show(10.0 ** power), "quiet", "end")]
    for power in range(math.ceil(x_low), math.floor(x_high) + 1):
        x, _ = at(10.0 ** power, 10 ** y_low)
        body += [line(x, bottom, x, bottom + 4, "axis"), text(x, bottom + 20, f"{10 ** power:,}", "quiet", "middle")]
    body.append(line(left, bottom, right, bottom, "axis"))
    ends = {}
    for number, (name, values) in enumerate(series.items()):
        colour, width = COLOURS[number % len(COLOURS)], 3 if number == 0 else 1.6
        places = [at(x, y) for x, y in values]
        path = " ".join(f"{'L' if i else 'M'}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(places))
        body.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>')
        body += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        ends[name] = (places[-1], colour)
    labels = spread_out({name: place[1] for name, (place, _) in ends.items()}, 16, TOP, bottom)
    for name, ((x, _), colour) in ends.items():
        body.append(f'<text x="{x + 10:.1f}" y="{labels[name] + 4.5:.1f}" style="fill:{colour}">{html.escape(name)}</text>')
    return document(height, body, title)

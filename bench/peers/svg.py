"""Plots as SVG: bars with their spread, and lines over sizes. Text and axes take the colours of the page's
scheme, light or dark; there is no background.
"""
import html
import math

WIDTH = 760
STYLE = """<style>
  text { font: 13px system-ui, sans-serif; fill: #3d444d }
  .title { font-weight: 600; font-size: 15px }
  .quiet { fill: #59636e }
  .value { font-variant-numeric: tabular-nums }
  .axis { stroke: #8c959f; stroke-width: 1; fill: none }
  .grid { stroke: #8c959f; stroke-opacity: .25; fill: none }
  .ours { fill: #2f7de1 } .theirs { fill: #a9b3bd }
  .spread { stroke: #1f2328; stroke-width: 1.5; fill: none }
  .lead { stroke: #8c959f; stroke-width: .8; fill: none }
  @media (prefers-color-scheme: dark) {
    text { fill: #d1d7e0 } .quiet { fill: #9198a1 } .spread { stroke: #f0f6fc }
    .ours { fill: #4493f8 } .theirs { fill: #59636e }
  }
</style>"""
COLOURS = ("#2f81f7", "#d9534f", "#3a9d5d", "#b8860b", "#8f6fe0", "#cc5fae", "#1f9aa5", "#a0764a", "#7d8894", "#6b8e23")
BAR, GAP, NAMES, VALUES, LEFT, RIGHT, TOP = 18, 8, 196, 282, 296, 24, 56  # x where names and values end


def document(height, body, title):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" '
            f'height="{height:.0f}" role="img" aria-label="{html.escape(title)}">\n{STYLE}\n' + "\n".join(body) + "\n</svg>\n")


def text(x, y, words, kind="", anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{html.escape(words)}</text>'


def line(x1, y1, x2, y2, kind):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def spread(least, most, y):
    """From the minimum to the maximum, closed at both ends."""
    return (f'<path d="M{least:.1f} {y - 4:.1f}v8m0 -4H{most:.1f}m0 -4v8" class="spread"/>')


def bars(title, subtitle, rows):
    """rows: (name, value, minimum, maximum, label, ours), drawn in the given order, from zero."""
    room = WIDTH - LEFT - RIGHT
    top = max((most for _, _, _, most, _, _ in rows), default=1) or 1
    body = [text(12, 24, title, "title"), text(12, 42, subtitle, "quiet")]
    y = TOP
    for name, value, least, most, label, ours in rows:
        middle = y + BAR / 2
        body.append(text(NAMES, middle + 4.5, name, "", "end"))
        body.append(text(VALUES, middle + 4.5, label, "value", "end"))
        body.append(f'<rect x="{LEFT}" y="{y}" width="{max(1, value / top * room):.1f}" height="{BAR}" rx="2" '
                    f'class="{"ours" if ours else "theirs"}"/>')
        body.append(spread(LEFT + least / top * room, LEFT + most / top * room, middle))
        y += BAR + GAP
    body.append(line(LEFT, TOP - 4, LEFT, y - GAP + 4, "axis"))
    return document(y + 8, body, title)


def spread_out(wanted, gap, low, high):
    """Positions near the wanted ones, in order, at least a gap apart."""
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


def lines(title, subtitle, across, series, colours, show, ticks=None):
    """series: {name: [(x, y)]}, the first one ours; both axes logarithmic. across: the label of x. show: formats a
    value. ticks: values of x; the powers of ten by default."""
    height, left, right, bottom = 420, 84, WIDTH - 175, 360
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
    for tick in ticks or [10 ** power for power in range(math.ceil(x_low), math.floor(x_high) + 1)]:
        x, _ = at(tick, 10 ** y_low)
        body += [line(x, bottom, x, bottom + 4, "axis"), text(x, bottom + 20, f"{tick:,}", "quiet", "middle")]
    body += [line(left, bottom, right, bottom, "axis"), text((left + right) / 2, bottom + 42, across, "quiet", "middle")]
    ends = {}
    for name, values in reversed(series.items()):  # ours last, on top
        colour = colours.get(name, COLOURS[-1])
        places = [at(x, y) for x, y in values]
        path = " ".join(f"{'L' if i else 'M'}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(places))
        width = 3 if name == next(iter(series)) else 1.6
        body.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>')
        body += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        ends[name] = (places[-1], colour)
    labels = spread_out({name: place[1] for name, (place, _) in ends.items()}, 16, TOP, bottom)
    for name, ((x, y), colour) in ends.items():
        body.append(line(x + 5, y, x + 20, labels[name], "lead"))
        body.append(f'<text x="{x + 24:.1f}" y="{labels[name] + 4.5:.1f}" style="fill:{colour}">{html.escape(name)}</text>')
    return document(height, body, title)

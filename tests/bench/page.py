# SPDX-License-Identifier: Apache-2.0
"""docs/MEASUREMENTS.md: puts the figures of a run between the marks of their group, with a plot of their ratios."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from table import Row, curves_of, format_table, sizes_of

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "MEASUREMENTS.md"
_ROW_PIXELS = 26
_PANEL_PIXELS = 450, 380


def _block(group: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- figures: {group} -->\n).*?(<!-- end -->)", re.DOTALL)


def check(groups: list[str]) -> None:
    """ValueError if the page has no place for one of the groups."""
    text = PAGE.read_text()
    missing = [group for group in groups if not _block(group).search(text)]
    if missing:
        raise ValueError(f"{PAGE} has no <!-- figures: {missing[0]} -->")


def write(group: str, about: str, rows: list[Row]) -> None:
    """Replaces the figures of the group, and its plot."""
    plotted = [row for row in rows if (ratio := row.get_ratio()) and ratio.value > 0]
    lines = [about, "", *format_table(rows), ""]
    picture = DOCS / "pictures" / f"measured-{group}.svg"
    if len(plotted) > 1:
        _plot(plotted, picture)
        lines += [f"![Each figure divided by what it is compared with](pictures/{picture.name})", ""]
    elif len(sizes_of(rows)) > 1:
        _plot_curves(rows, picture)
        lines += [f"![Each figure at each size](pictures/{picture.name})", ""]
    text = "".join(f"{line}\n" for line in lines)
    PAGE.write_text(_block(group).sub(lambda found: f"{found[1]}\n{text}{found[2]}", PAGE.read_text()))


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _plot(rows: list[Row], picture: Path) -> None:
    """A row for each ratio, on a logarithmic scale, with its error, and the limit as a bar where one is of the ratio."""
    n = len(rows)
    ratios = [row.get_ratio() for row in rows]
    data = [
        f"{one.value} {max(one.value - one.error, one.value / 10)} {one.value + one.error} {n - i}"
        for i, one in enumerate(ratios)
    ]
    limits = [f"{row.limit.value} {n - i}" for i, row in enumerate(rows) if row.limit and row.limit.of == "ratio"]
    names = ", ".join(f"{_quote(row.name)} {n - i}" for i, row in enumerate(rows))
    highest = max(2.0, *(one.value + one.error for one in ratios)) * 1.1
    lowest = min(0.5, *(one.value - one.error for one in ratios if one.value > one.error)) / 1.1
    plots = ["$data using 1:4:2:3 with xerrorbars pointtype 7 linecolor rgb '#1f6feb' title 'ratio'"]
    plots += ["$limits using 1:2 with points pointtype 2 linecolor rgb '#cf222e' title 'limit'"] if limits else []
    lines = [
        f"set terminal svg size 900,{_ROW_PIXELS * n + 70} font 'sans-serif,12' background rgb 'white'",
        f"set output {_quote(str(picture))}",
        "set logscale x 2",
        "set format x '%.3g'",
        f"set xrange [{lowest}:{highest}]",
        f"set yrange [0.4:{n + 0.6}]",
        f"set ytics ({names}) noenhanced",
        "set grid x",
        "set key outside top right horizontal",
        "set arrow from 1, graph 0 to 1, graph 1 nohead linecolor rgb '#57606a'",
        *("$data << EOD", *data, "EOD"),
        *(("$limits << EOD", *limits, "EOD") if limits else ()),
        "plot " + ", ".join(plots),
    ]
    subprocess.run(["gnuplot"], input="\n".join(lines) + "\n", text=True, check=True)


def _plot_curves(rows: list[Row], picture: Path) -> None:
    """A panel for each unit that several figures have, on logarithmic scales."""
    panels: dict[str, list[str]] = {}
    data: list[str] = []
    for (name, unit), curve in curves_of(rows).items():
        if all(row.figure > 0 for row in curve.values()):
            data += [f"$curve{len(data)} << EOD\n" + "\n".join(f"{size} {row.figure}" for size, row in curve.items()) + "\nEOD"]
            panels.setdefault(unit, []).append(f"$curve{len(data) - 1} with linespoints title {_quote(name)} noenhanced")
    shown = {unit: plots for unit, plots in panels.items() if len(plots) > 1}
    width, height = _PANEL_PIXELS
    n_rows = (len(shown) + 1) // 2
    sizes = sizes_of(rows)
    lines = [
        f"set terminal svg size {2 * width},{n_rows * height} font 'sans-serif,10' background rgb 'white'",
        f"set output {_quote(str(picture))}",
        *data,
        f"set multiplot layout {n_rows},2",
        "set logscale xy",
        f"set xrange [{sizes[0] / 1.1}:{sizes[-1] * 1.1}]",
        f"set xtics ({', '.join(map(str, sizes))})",
        "set grid",
        "set key below left Left reverse maxcols 1",
    ]
    for unit, plots in shown.items():
        lines += [f"set title {_quote(unit)}", "plot " + ", ".join(plots)]
    subprocess.run(["gnuplot"], input="\n".join([*lines, "unset multiplot"]) + "\n", text=True, check=True)

# SPDX-License-Identifier: Apache-2.0
"""Draws what a terminal showed as an SVG that plays by itself: a strip with all screens side by side, of which CSS
moves one after the other behind the window. A viewer that plays nothing shows the last screen."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 8.4, 18.0  # of a character, in pixels
PADDING, BAR = 16, 30
LAST_SECONDS = 6.0  # how long the last screen stays

BACKGROUND, FOREGROUND = "#14191f", "#d7dde4"
COLORS = {
    "black": "#5c6773", "red": "#f07178", "green": "#7fd962", "brown": "#ffb454", "blue": "#59c2ff",
    "magenta": "#d2a6ff", "cyan": "#95e6cb", "white": "#ffffff",
}

# A character and how it looks: color, bold, reverse.
Cell = tuple[str, str, bool, bool]
Line = tuple[Cell, ...]
Screen = tuple[Line, ...]


def draw_line(line: Line) -> str:
    """Words that look alike and have one blank between them are one text, of the width that it has on a terminal."""
    drawn, column = [], 0
    for (color, bold, reverse), cells in groupby(line, key=lambda cell: cell[1:]):
        run = "".join(cell[0] for cell in cells)
        fill = BACKGROUND if reverse else COLORS.get(color)
        look = (f' fill="{fill}"' if fill else "") + (' font-weight="bold"' if bold else "")
        if reverse:
            behind = COLORS.get(color, FOREGROUND)
            drawn.append(f'<path fill="{behind}" d="M{column * WIDTH:g} -13.5h{len(run) * WIDTH:g}v18H{column * WIDTH:g}z"/>')
        for words in re.finditer(r"\S+( \S+)*", run):
            place = f'x="{(column + words.start()) * WIDTH:g}" textLength="{len(words[0]) * WIDTH:g}"'
            drawn.append(f"<text {place}{look}>{escape(words[0])}</text>")
        column += len(run)
    return "".join(drawn)


def draw(screens: Sequence[tuple[float, Screen]], title: str) -> str:
    """`screens` begin at these times, in seconds; each differs from the one before."""
    rows, columns = len(screens[0][1]), len(screens[0][1][0])
    width, height = columns * WIDTH + 2 * PADDING, rows * HEIGHT + BAR + PADDING
    began = screens[0][0]
    whole = screens[-1][0] - began + LAST_SECONDS
    names: dict[str, int] = {}
    strip = []
    for number, (_, screen) in enumerate(screens):
        uses = []
        for row, line in enumerate(screen):
            drawn = draw_line(line)
            if drawn:
                name = names.setdefault(drawn, len(names))
                uses.append(f'<use href="#l{name}" y="{(row + 1) * HEIGHT - 4:g}"/>')
        strip.append(f'<g transform="translate({number * width:g})">{"".join(uses)}</g>')
    steps = "".join(
        f"{(at - began) / whole:.3%}{{transform:translateX({-number * width:g}px)}}" for number, (at, _) in enumerate(screens)
    )
    lines = "".join(f'<g id="l{number}">{drawn}</g>' for drawn, number in names.items())
    last = -(len(screens) - 1) * width
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" role="img">
<!-- SPDX-License-Identifier: Apache-2.0; made by docs/pictures/record -->
<title>{escape(title)}</title>
<style>
text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}}
@keyframes play{{{steps}}}
#strip{{animation:play {whole:.2f}s step-end infinite}}
@media (prefers-reduced-motion:reduce){{#strip{{animation:none}}}}
</style>
<defs>{lines}</defs>
<rect width="{width:g}" height="{height:g}" rx="8" fill="{BACKGROUND}" stroke="#444c56"/>
<g fill="#5c6773"><circle cx="20" cy="16" r="5"/><circle cx="38" cy="16" r="5"/><circle cx="56" cy="16" r="5"/></g>
<svg x="{PADDING}" y="{BAR}" width="{columns * WIDTH:g}" height="{rows * HEIGHT:g}" fill="{FOREGROUND}"><g id="strip" transform="translate({last:g})">
{chr(10).join(strip)}
</g></svg>
</svg>
"""

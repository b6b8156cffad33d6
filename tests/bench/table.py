# SPDX-License-Identifier: Apache-2.0
"""The table of results, in Markdown that can be read as it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Literal

_HEADINGS = ["figure", "inplaced", "compared with", "ratio", "limit", "met"]


@dataclass(frozen=True)
class Estimate:
    """A value, and how far off it may well be."""

    value: float
    error: float = 0

    def scale(self, factor: float) -> Estimate:
        return Estimate(self.value * factor, self.error * factor)


def estimate(samples: Iterable[float]) -> Estimate:
    """The median, with twice its standard error as that follows from where the middle half lies."""
    values = list(samples)
    low, _, high = quantiles(values, n=4)
    return Estimate(median(values), 1.86 * (high - low) / len(values) ** 0.5)


@dataclass(frozen=True)
class Limit:
    """The most that the project allows itself, and in what words: of the figure itself, of its
    excess over what it is compared with, or of its ratio to that."""

    value: float
    words: str
    of: Literal["figure", "excess", "ratio"] = "figure"


@dataclass(frozen=True)
class Row:
    """A figure and the base that it is compared with, if there is any.

    `unit` goes with both, and with `excess`. `ratio` and `excess` are given where they were
    measured in pairs, and follow from the two figures otherwise. `size` is how many agents or
    other things there were; the same figure at other sizes stands beside it.
    """

    name: str
    figure: float
    base: float | None
    unit: str
    limit: Limit | None = None
    ratio: Estimate | None = None
    excess: Estimate | None = None
    digits: int = 1
    size: int | None = None

    def get_ratio(self) -> Estimate | None:
        if self.ratio is not None or not self.base:
            return self.ratio
        return Estimate(self.figure / self.base)

    def judge(self) -> str:
        """Whether the limit was met; "unclear" if it is nearer than the figure is exact."""
        if self.limit is None:
            return ""
        given = {
            "figure": Estimate(self.figure),
            "excess": self.excess,
            "ratio": self.get_ratio(),
        }[self.limit.of]
        assert given is not None, f"{self.name} has no {self.limit.of}"
        if abs(given.value - self.limit.value) < given.error:
            return "unclear"
        return "yes" if given.value <= self.limit.value else "NO"


def _format_ratio(row: Row) -> str:
    ratio = row.get_ratio()
    if ratio is None:
        return ""
    digits = 2 if ratio.value >= 0.1 else 4
    text = f"{ratio.value:.{digits}f}"
    if ratio.error > 0:
        text += f" ± {ratio.error:.{digits}f}"
    if row.excess is not None:
        text += f" ({row.excess.value:+.{row.digits}f} {row.unit})"
    return text


def _cells(row: Row) -> list[str]:
    return [
        row.name,
        f"{row.figure:.{row.digits}f} {row.unit}",
        "" if row.base is None else f"{row.base:.{row.digits}f} {row.unit}",
        _format_ratio(row),
        "" if row.limit is None else row.limit.words,
        row.judge(),
    ]


def sizes_of(rows: list[Row]) -> list[int]:
    return sorted({row.size for row in rows if row.size is not None})


def curves_of(rows: list[Row]) -> dict[tuple[str, str], dict[int, Row]]:
    """The rows that have a size, by name and unit and then by size."""
    curves: dict[tuple[str, str], dict[int, Row]] = {}
    for row in rows:
        if row.size is not None:
            curves.setdefault((row.name, row.unit), {})[row.size] = row
    return curves


def _size_cells(rows: list[Row]) -> list[list[str]]:
    lines = [["figure", "unit", *(f"{size:,}" for size in sizes_of(rows))]]
    for (name, unit), curve in curves_of(rows).items():
        figures = (f"{curve[size].figure:.{curve[size].digits}f}" if size in curve else "" for size in sizes_of(rows))
        lines.append([name, unit, *figures])
    return lines


def format_table(rows: list[Row]) -> list[str]:
    """Two tables if only some of the rows have a size."""
    single = [row for row in rows if row.size is None]
    tables = [_format([_HEADINGS, *map(_cells, single)])] if single else []
    tables += [_format(_size_cells(rows))] if len(single) < len(rows) else []
    return tables[0] + (["", *tables[1]] if len(tables) > 1 else [])


def _format(lines: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*lines)]
    lines.insert(1, ["-" * width for width in widths])
    padded = [[cell.ljust(width) for cell, width in zip(line, widths)] for line in lines]
    return [f"| {' | '.join(cells)} |" for cells in padded]

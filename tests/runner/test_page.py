# SPDX-License-Identifier: Apache-2.0
"""The figures that tests/bench/run --page writes into docs/MEASUREMENTS.md."""

import sys

import pytest
from conftest import REPOSITORY

sys.path.append(str(REPOSITORY / "tests" / "bench"))

import bench  # noqa: E402
import page  # noqa: E402
from table import Row  # noqa: E402


def test_each_group_has_its_place():
    page.check(list(bench.GROUPS))
    with pytest.raises(ValueError, match="no <!-- figures: none -->"):
        page.check(["none"])


def test_figures_of_one_group_are_replaced(monkeypatch, tmp_path):
    around = "<!-- figures: other -->\nkept\n<!-- end -->\n<!-- figures: start -->\n{}<!-- end -->\n\nkept as well\n"
    monkeypatch.setattr(page, "PAGE", tmp_path / "page.md")
    page.PAGE.write_text(around.format("old\n"))
    page.write("start", "A machine.", [Row("start until ready", 12.34, None, "ms")])
    text = page.PAGE.read_text()
    figures = text.partition("start -->\n")[2].partition("<!-- end -->")[0]
    assert "A machine." in figures and "| start until ready | 12.3 ms  |" in figures
    assert text == around.format(figures)


def test_figures_of_sizes_stand_side_by_side(monkeypatch, tmp_path):
    """With a plot of them, which draws what is above zero."""
    monkeypatch.setattr(page, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(page, "DOCS", tmp_path)
    plots = []
    monkeypatch.setattr(page.subprocess, "run", lambda argv, **more: plots.append(more["input"]))
    page.PAGE.write_text("<!-- figures: fleet -->\n<!-- end -->\n")
    rows = [
        Row(name, figure + size, None, "s", size=size)
        for size in (500, 1000)
        for name, figure in (("start", 0.5), ("end", -1000))
    ]
    page.write("fleet", "A machine.", [*rows, Row("more", 3, None, "s", size=1000)])
    lines = [line for line in page.PAGE.read_text().splitlines() if line.startswith("|")]
    assert lines == [
        "| figure | unit | 500    | 1,000  |",
        "| ------ | ---- | ------ | ------ |",
        "| start  | s    | 500.5  | 1000.5 |",
        "| end    | s    | -500.0 | 0.0    |",
        "| more   | s    |        | 3.0    |",
    ]
    (plot,) = plots
    assert "500 500.5\n1000 1000.5\nEOD" in plot and "title 'start'" in plot and "title 'end'" not in plot

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

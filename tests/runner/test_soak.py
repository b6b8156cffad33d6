# SPDX-License-Identifier: Apache-2.0
"""tests/soak/run: its schedule follows from the seed alone, and what it judges by can fail."""

import sys
from collections import Counter

import pytest

from conftest import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tests" / "soak"))

from growth import Growth, Sample, slope_of
from lives import Life, Wanted, judge
from schedule import DISTURBANCES, make_chaos, make_requests

A, B, C = Wanted(0, "a"), Wanted(10, "b"), Wanted(20, "c")


def test_a_seed_is_a_schedule():
    for make in (make_chaos, make_requests):
        first, again, other = (list(map(str, make(seed, 300))) for seed in (1, 1, 2))
        assert first == again != other


@pytest.mark.parametrize("seed", range(20))
def test_disturbances(seed):
    """All come about, one at a time for each part, and end; agent and controller live on in the second half."""
    plan = make_chaos(seed, 1800)
    assert {(one.who, one.what) for one in plan} == {(one.who, one.what) for one in DISTURBANCES}
    free_at = Counter()
    for one in plan:
        end = one.second + one.details["seconds"]
        assert free_at[one.who] <= one.second and end <= 1800
        free_at[one.who] = end
    killed = [one.second for one in plan if one.who == "agent" and one.what in ("kill", "terminate")]
    assert len(killed) > 10 and max(killed) <= 910


@pytest.mark.parametrize(
    ("life", "wanted", "requests", "complaint"),
    [
        ("start 1 a", [A], (0, 0), None),
        ("start 1 a, term 11 a, start 12 b, term 21 b, start 22 c", [A, B, C], (0, 0), None),
        ("start 1 a, term 21 a, start 22 c", [A, B, C], (0, 0), None),  # the last one overtook
        ("start 1 a, term 11 a, start 12 a, term 13 a, start 14 b", [A, B], (0, 0), None),  # a late kubelet
        ("start 1 a, start 5 a", [A], (0, 0), None),  # lost by the runtime
        ("start 1 a, term 3 a, start 4 a", [A], (1, 1), None),
        ("start 1 a, term 11 a, start 12 b, term 13 b, start 14 b", [A, B], (0, 0), "doubled"),
        ("start 1 a, term 3 a, start 4 a, term 5 a, start 6 a", [A], (1, 1), "doubled"),
        ("start 1 a, term 11 a, start 12 a" + ", term 13 a, start 14 a" * 3 + ", term 15 a, start 16 b", [A, B], (0, 0), "doubled"),
        ("start 1 a, hook 11 a, term 12 a, start 13 b", [A, B], (0, 0), None),
        ("start 1 a, hook 11 a, hook 12 a, term 12 a, start 13 b", [A, B], (0, 0), "ran twice"),
        ("start 1 a, hook 2 a, start 3 a", [A], (0, 0), "doubled"),
        ("start 1 a, term 3 a, start 4 b", [A, B], (0, 0), "not requested then"),
        ("start 1 a, term 11 a, start 12 x", [A, B], (0, 0), "not requested then"),
        ("start 1 a, term 11 a", [A, B], (0, 0), "lost"),
        ("start 1 a", [A], (1, 1), "lost"),
        ("", [A], (0, 0), "lost"),
    ],
)
def test_lives(life, wanted, requests, complaint):
    complaints = judge(Life(life.split(", ") if life else []), wanted, *requests).complaints
    assert complaint in " ".join(complaints) if complaint else complaints == []


def test_growth():
    growth = Growth("agent", lambda: None)
    assert growth.complaints() == ["agent was never measured"]
    growth.samples = [Sample(second, 30 + second, 9, 20_000 + second % 7, 4000) for second in range(200)]
    assert growth.complaints() == ["agent has grown: descriptors from 109 to 190"]
    assert "agent: descriptors 109 → 190 in 199 s, +3600 an hour" in list(growth.lines())
    assert slope_of([(second, 7 + 2 * second) for second in range(50)]) == pytest.approx(2)


@pytest.mark.parametrize(
    "arguments",
    [(), ("0",), ("0.0",), ("x",), ("2", "--seed"), ("2", "--seed", "x"), ("2", "--sea", "1"), ("2", "--seed", "1", "3")],
)
def test_wrong_arguments(run, arguments):
    done = run(REPOSITORY / "tests/soak/run", *arguments)
    assert done.returncode == 2 and "tests/soak/run --help" in done.stdout

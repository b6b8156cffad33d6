# SPDX-License-Identifier: Apache-2.0
"""The turns of the loop that tests/bench/way.py finds."""

import struct
import sys

import pytest
from conftest import REPOSITORY

sys.path.append(str(REPOSITORY / "tests" / "bench"))

from way import _LEFT, Recording  # noqa: E402


@pytest.fixture
def record(tmp_path):
    def make(*calls):
        recording = Recording(tmp_path)
        with recording.path.open("r+b") as file:
            file.write(struct.pack(f"=QQ{len(calls)}Q", len(calls), len(calls), *calls))
        return recording

    return make


@pytest.mark.parametrize(
    ("calls", "turns"),
    [
        ([], []),
        ([1, 1 | _LEFT], [(1,)]),
        ([1, 2, 2 | _LEFT, 3, 3 | _LEFT, 1 | _LEFT, 4, 4 | _LEFT], [(1, 2, 3), (4,)]),
        ([1, 2], [(1, 2)]),  # not over yet
        ([9 | _LEFT, 1, 2, 2 | _LEFT, 1 | _LEFT], [(1, 2)]),  # had begun before
    ],
)
def test_turns(record, calls, turns):
    assert record(*calls).turns(0, len(calls)) == turns


def test_recording_is_full(record):
    recording = record(1, 2, 3)
    with recording.path.open("r+b") as file:
        file.write(struct.pack("=QQ", 4, 3))
    with pytest.raises(RuntimeError, match="4 calls are more"):
        print(recording.n)

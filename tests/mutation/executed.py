# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest: writes for each test which mistakes the programs could have made in it.

Each process of pytest adds lines of JSON to a file of its own in the folder INPLACED_EXECUTED_FOLDER.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

_FOLDER = Path(os.environ["INPLACED_EXECUTED_FOLDER"])
_BYTES = _FOLDER / f"{os.getpid()}.bytes"
_PASSED = pytest.StashKey[float]()


def pytest_configure() -> None:
    _BYTES.write_bytes(bytes(int(os.environ["INPLACED_MISTAKES"])))
    os.environ["INPLACED_EXECUTED"] = str(_BYTES)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    outcome = yield
    if call.when == "call" and outcome.get_result().passed:  # type: ignore[attr-defined]
        item.stash[_PASSED] = call.duration


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Clears the file in place, since programs that go on have mapped it."""
    with _BYTES.open("r+b") as file:
        file.write(bytes(_BYTES.stat().st_size))
    yield
    if _PASSED in item.stash:
        executed = [number for number, byte in enumerate(_BYTES.read_bytes()) if byte]
        name = item.nodeid.rsplit("@", 1)[0]  # without the group that xdist adds
        with (_FOLDER / f"{os.getpid()}.json").open("a") as lines:
            print(json.dumps([name, item.stash[_PASSED], executed]), file=lines)

# SPDX-License-Identifier: Apache-2.0
"""Tests of the programs that run the tests and the README's commands: each way in which a test can fail, and
each way of becoming root. ctest runs them as lint/runner.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.dont_write_bytecode = True
REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / "tests"), str(REPOSITORY / "tests" / "lint")]

# Variables of the tests' own surroundings, which must not reach the runners under test.
_FOREIGN = ("CI", "SUDO_UID", "SUDO_GID")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Under tests/run, each test counts by itself."""
    folder = os.environ.get("INPLACED_REPORTS")
    if folder:
        config.option.xmlpath = str(Path(folder) / "lint-runner.xml")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that other users may enter."""
    with tempfile.TemporaryDirectory(prefix="runner-") as made:
        os.chmod(made, 0o755)
        yield Path(made)


@pytest.fixture
def run(folder: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """run(COMMAND..., cwd=…, NAME=VALUE…): with that environment, and nothing of this run's."""

    def run_command(*command: object, cwd: Path = folder, **more: str) -> "subprocess.CompletedProcess[str]":
        kept = {n: v for n, v in os.environ.items() if n not in _FOREIGN and not n.startswith("INPLACED_")}
        return subprocess.run(
            [str(word) for word in command],
            cwd=cwd,
            env={**kept, **more},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )

    return run_command


@pytest.fixture
def write_script(folder: Path) -> Callable[[str, str], Path]:
    def write(name: str, text: str) -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)
        return path

    return write


@pytest.fixture
def checkout(folder: Path, write_script: Callable[[str, str], Path]) -> Path:
    """The scripts of this project around one that has nothing to build; CMakeLists.txt is the test's."""
    root = folder / "checkout"
    for name in ("tests/run", "tests/count.py", "tests/cmocka.py", "tests/expected-skips", "tests/fuzz/run",
                 "tests/lint/counts.py", "tests/lint/lint.py", "packaging/root.sh"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, root / name)
    write_script(
        "checkout/packaging/packages.sh",
        '. "$(dirname "${BASH_SOURCE[0]}")/root.sh"\n'
        "build_packages=() test_packages=() cluster_packages=() fuzz_packages=()\n"
        "install_packages() { :; }",
    )
    presets = {"version": 6, "configurePresets": [], "buildPresets": []}
    for name in ("dev", "asan"):
        folder = f"${{sourceDir}}/build/{name}"
        presets["configurePresets"].append({"name": name, "generator": "Ninja", "binaryDir": folder})
        presets["buildPresets"].append({"name": name, "configurePreset": name})
    (root / "CMakePresets.json").write_text(json.dumps(presets))
    return root

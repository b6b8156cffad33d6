# SPDX-License-Identifier: Apache-2.0
"""A lint whose tool is missing, hangs or crashes has failed."""

import shutil

import lint
import pytest

from conftest import REPOSITORY

# Lint, its tool, and a word that is in the tool's arguments only when it is about the project.
LINTS = [
    ("format", "clang-format", "agent/base/"),
    ("shell", "shellcheck", "tests/run"),
    ("man", "mandoc", "inplaced.8"),
]


@pytest.mark.parametrize(("name", "tool", "word"), LINTS)
@pytest.mark.parametrize("end", ["kill -SEGV $$", "exit 9", "exit 1"])
def test_tool_crashes(write_script, run, folder, name, tool, word, end):
    """It does so only on the project's own files: the samples prove nothing about that."""
    real = shutil.which(tool)
    write_script(f"tools/{tool}", f'case $* in *{word}*) {end} ;; *) exec {real} "$@" ;; esac')
    done = run("/usr/bin/python3", "-B", REPOSITORY / f"tests/lint/{name}.py", REPOSITORY,
               PATH=f"{folder}/tools:/usr/bin:/bin")
    assert done.returncode == 1, done.stdout
    assert f"{tool} ended with status" in done.stdout


@pytest.mark.parametrize(("name", "tool", "word"), LINTS)
def test_tool_is_missing(folder, run, name, tool, word):
    done = run("/usr/bin/python3", "-B", REPOSITORY / f"tests/lint/{name}.py", REPOSITORY, PATH=str(folder))
    assert done.returncode == 1
    assert f"{tool} cannot be run: No such file or directory" in done.stdout


def test_tool_hangs(folder):
    with pytest.raises(lint.ToolFailed, match="sleep did not end within 0.1 seconds"):
        lint.run_tool(folder, ["sleep", "60"], timeout=0.1)


@pytest.mark.parametrize(("end", "status"), [("kill -SEGV $$", 1), ("exit 3", 1)])
def test_service_file(folder, write_script, run, end, status):
    write_script("tools/systemd-analyze", end)
    done = run("/usr/bin/python3", "-B", REPOSITORY / "tests/lint/unit.py", "/bin/true", "inplaced.service",
               PATH=f"{folder}/tools:/usr/bin:/bin")
    assert done.returncode == status
    assert "systemd-analyze ended with status" in done.stdout

# SPDX-License-Identifier: Apache-2.0
"""tests/fresh-root, around an empty root: it names all parts, and reports the outcome of each."""

import os
import re
import shutil

import pytest

from conftest import REPOSITORY

STAGES = ("lint", "unit", "fuzz", "node", "cluster", "soak", "runtimes", "handover", "packaging", "image")


def test_parts(run):
    """The commands that README.md runs begin with no sudo, which a bare machine does not have."""
    done = run("tests/fresh-root", "--list", cwd=REPOSITORY)
    assert done.stdout.splitlines() == [
        "packaging/quickstart",
        "tests/run",
        *(f"tests/run --only {stage}" for stage in STAGES),
        *("packaging/build --native --only deb", "packaging/image/build", "packaging/build"),
    ]


@pytest.fixture
def run_parts(checkout, folder, write_script, run):
    """run_parts(COMMAND…): each in a folder instead of a root, and with this machine's programs."""
    for name in ("fresh-root", "debian.sh"):
        shutil.copy(REPOSITORY / "tests" / name, checkout / "tests" / name)
    write_script("tools/mmdebstrap", 'while [[ $1 == --* ]]; do shift; done\n'
                 'mkdir -p "$2/etc" && echo "$1" >"$2/etc/name" && cat "${@:3}" | grep -qw "$1"')
    # Called with options, env, variables, a shell that enters the root, the root, and the command.
    write_script("tools/unshare", 'while [ "$1" != env ]; do shift; done; cd "${@: -2:1}/checkout" || exit 1\n'
                 'exec "${@:1:$#-5}" bash -c "${!#}"')
    git = ("git", "-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main")
    for arguments in (("init",), ("add", "."), ("commit", "--message", "made")):
        assert run(*git, *arguments, cwd=checkout).returncode == 0

    def run_parts(*commands):
        more = {"PATH": f"{folder}/tools:{os.environ['PATH']}", "TMPDIR": str(folder), "XDG_CACHE_HOME": "/warm",
                "GOPROXY": "https://proxy"}
        return run("tests/fresh-root", *commands, cwd=checkout, **more)

    return run_parts


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes roots")
def test_table(run_parts, folder):
    """No part sees the files of another one, nor this machine's caches; a failure is the last word."""
    sees_nothing = '[ -f tests/run ] && [ "$GOPROXY$XDG_CACHE_HOME" = https://proxy ] && [ ! -e left ]'
    done = run_parts("touch left; echo 7 passed, 0 failed", sees_nothing, "echo 1 passed, 2 failed; exit 3")
    assert done.returncode == 1, done.stdout
    head, *table = done.stdout.splitlines()[-4:]
    date = r"\d{4}-\d\d-\d\d"
    assert re.fullmatch(
        rf"==> [0-9a-f]{{7,}} of {date}, each in a new Debian 12, {date} \d\d:\d\d UTC, \d+ processors", head
    )
    assert [re.sub(r"^ +\d+ s  ", "", line) for line in table] == [
        "passed  touch left; echo 7 passed, 0 failed: 7 passed, 0 failed",
        f"passed  {sees_nothing}",
        "FAILED  echo 1 passed, 2 failed; exit 3: 1 passed, 2 failed",
    ]
    assert not list(folder.glob("tmp.*"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes roots")
@pytest.mark.parametrize(("arguments", "name"), [((), "bookworm"), (("--debian", "13"), "trixie")])
def test_release(run_parts, arguments, name):
    """The packages are those of that release, whatever this machine's is."""
    done = run_parts(*arguments, f'[ "$(cat ../etc/name)" = {name} ]')
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("arguments", [("--debian",), ("--debian", "11"), ("--debian", "x"), ("--unknown",)])
def test_bad_options(run, arguments):
    done = run("tests/fresh-root", *arguments, cwd=REPOSITORY)
    assert done.returncode == 2 and done.stdout.startswith("tests/fresh-root: ") and done.stdout.count("\n") == 1

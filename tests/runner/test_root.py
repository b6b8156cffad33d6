# SPDX-License-Identifier: Apache-2.0
"""The scripts that people call become root by themselves, and say so if they cannot."""

import os
import shutil
from pathlib import Path

import pytest

from conftest import REPOSITORY

SCRIPTS = ("packaging/quickstart", "tests/run", "tests/bench/run", "tests/fresh-root")
NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be other users")


@pytest.fixture
def tools(folder):
    """A folder for PATH with the programs that the scripts need until they are root's, and no sudo."""
    made = folder / "tools"
    made.mkdir()
    for name in ("bash", "cat", "dirname", "grep", "id", "paste", "realpath"):
        (made / name).symlink_to(shutil.which(name))
    return made


@pytest.fixture
def scripts(folder):
    """These scripts where every user can read them."""
    for name in ("packaging", "tests"):
        shutil.copytree(
            REPOSITORY / name,
            folder / name,
            ignore=lambda _, names: [n for n in names if n.endswith((".c", ".h", ".py"))],
        )
    return folder


@only_root
@pytest.mark.parametrize("script", SCRIPTS)
def test_no_sudo(scripts, tools, run, script):
    done = run(*NOBODY, "env", f"PATH={tools}", f"./{script}", cwd=scripts)
    assert done.stdout == f"{script} needs root, and there is no sudo here; call it as root\n"
    assert done.returncode == 2


@only_root
@pytest.mark.parametrize("script", SCRIPTS)
def test_help_needs_no_root(scripts, tools, run, script):
    done = run(*NOBODY, "env", f"PATH={tools}", f"./{script}", "--help", cwd=scripts)
    assert done.stdout.startswith(f"Usage: {script}")
    assert "sudo " + script not in done.stdout
    assert done.returncode == 0


@only_root
@pytest.mark.parametrize(
    ("script", "arguments"),
    [
        ("packaging/quickstart", []),
        ("packaging/quickstart", ["--runtime-endpoint", "unix:///no/socket", "a b"]),
        ("tests/run", ["--only", "lint"]),
        ("tests/bench/run", ["--only", "small"]),
        ("tests/fresh-root", ["--worktree", "echo 'a b'"]),
    ],
)
def test_by_sudo(scripts, tools, write_script, run, script, arguments):
    """The script runs again with the same arguments, and with the environment's variables about the network."""
    write_script("tools/sudo", 'printf "%s\\n" "$@"; exit 7')
    environment = {"CI": "true", "https_proxy": "http://user:secret@proxy", "OTHER": "x"}
    done = run(*NOBODY, "env", "-u", "http_proxy", f"PATH={tools}", f"./{script}", *arguments, cwd=scripts,
               **environment)
    kept, *command = done.stdout.splitlines()
    assert {"CI", "https_proxy"} <= set(kept.removeprefix("--preserve-env=").split(","))
    assert "OTHER" not in kept and "secret" not in done.stdout
    assert command == ["--", str(tools / "bash"), f"./{script}", *arguments] or command == [
        "--", "/bin/bash", f"./{script}", *arguments,
    ]
    assert done.returncode == 7


def test_missing_packages_are_named_once(run):
    done = run(
        "bash", "-c", '. packaging/packages.sh; list_missing_packages "$@"', "bash",
        "no-such-b", "libc6", "no-such-a", "no-such-b", "libc6", cwd=REPOSITORY,
    )
    assert done.stdout.splitlines() == ["no-such-b", "no-such-a"]


FAKE_GO = """
case $1 in
env) echo go9.9.9 ;;
build) for word in "$@"; do [[ $last != -o ]] || id -u >"$word"; last=$word; done ;;
esac"""


@only_root
def test_the_control_plane_is_built_by_the_caller(scripts, folder, write_script, run):
    """In that user's cache; and by root where the checkout is closed to that user."""
    write_script("tools/go", FAKE_GO)
    cache = folder / "cache"
    cache.mkdir()
    os.chown(cache, 65534, 65534)
    environment = {
        "PATH": f"{folder}/tools:/usr/bin:/bin",
        "XDG_CACHE_HOME": str(cache),
        "SUDO_UID": "65534",
        "SUDO_GID": "65534",
    }
    done = run("tests/cluster/control-plane/build", cwd=scripts, **environment)
    assert done.returncode == 0, done.stdout
    built = Path(done.stdout.splitlines()[-1])
    assert (built / "control-plane").read_text() == "65534\n"
    assert {path.lstat().st_uid for path in cache.rglob("*")} == {65534}

    (scripts / "tests").chmod(0o700)
    environment["XDG_CACHE_HOME"] = str(folder / "cache-of-root")
    done = run("tests/cluster/control-plane/build", cwd=scripts, **environment)
    built = Path(done.stdout.splitlines()[-1])
    assert (built / "control-plane").read_text() == "0\n"


# A Go whose first download breaks off.
FAKE_MODULES = """
sources=$GOMODCACHE/crio/pinns/src
case "$*" in
env*) echo go9.9.9 ;;
"mod download "*)
    mkdir $GOMODCACHE && exit 1
    mkdir -p $sources && echo "int main(void) { return 0; }" >$sources/pinns.c ;;
*.Dir*) [ ! -d $GOMODCACHE/crio ] || echo $GOMODCACHE/crio ;;
esac"""


def test_crio_is_built_from_empty_caches(scripts, folder, write_script, run):
    """Go says where a module is only once it has been downloaded."""
    write_script("tools/go", FAKE_MODULES)
    environment = {
        "PATH": f"{folder}/tools:/usr/bin:/bin",
        "XDG_CACHE_HOME": str(folder / "cache"),
        "GOMODCACHE": str(folder / "modules"),
    }
    done = run("tests/runtimes/build", "crio", cwd=scripts, **environment)
    assert done.returncode == 0, done.stdout
    assert (Path(done.stdout.splitlines()[-1]) / "pinns").is_file()


@pytest.mark.parametrize(("version", "is_used"), [("1.26.6", True), ("1.27.0", True), ("1.26.5", False), ("1.9.9", False)])
def test_go_is_new_enough(scripts, folder, write_script, run, version, is_used):
    """For the module that is to be built."""
    module = scripts / "tests/runtimes/containerd/go.mod"
    module.write_text("module containerd\n\ngo 1.26.6\n")
    write_script("tools/go", f"echo go{version}")
    environment = {"PATH": f"{folder}/tools:/usr/bin:/bin", "XDG_CACHE_HOME": str(folder / "cache")}
    done = run("tests/runtimes/build", "containerd", "--find-go", cwd=scripts, **environment)
    assert (f"{folder}/tools/go" in done.stdout) == is_used


FAKE_APT = """
case $1 in
indextargets) [ ! -e $0.lists ] || echo "http://archive/debian bookworm main" ;;
*) touch $0.lists ;;
esac"""


@only_root
def test_archives_are_asked_where_apt_has_no_lists(scripts, folder, write_script, run):
    """As in images from which they were removed: what builds for another architecture reads them."""
    write_script("tools/apt-get", FAKE_APT)
    begin = f". packaging/sysroot.sh; apt={folder}; arch=arm64; _write_apt_configuration"
    done = run("bash", "-euc", begin, cwd=scripts, PATH=f"{folder}/tools:/usr/bin:/bin")
    assert done.returncode == 0, done.stdout
    lines = (folder / "sources.list").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["deb", "deb-src"]
    assert all(line.endswith("http://archive/debian bookworm main") for line in lines)

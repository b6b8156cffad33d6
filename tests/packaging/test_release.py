# SPDX-License-Identifier: Apache-2.0
"""A release: what packaging/release refuses, and what a stranger can verify of what it makes, as docs/INSTALL.md says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from conftest import REPOSITORY
from lab.version import VERSION

_MAINTAINER = "The release test <release@example.org>"

# In place of packaging/build, which would take half an hour: what it has made before.
_BUILD = """#!/bin/bash
[ "$1" = --check ] && touch "$BUILT" && cp -a "$MADE/." "$2/"
"""


def not_sources(folder, names):
    return set(names) & ({"build", ".cache", ".git"} if Path(folder) == REPOSITORY else {"__pycache__"})


def run(*argv, **more):
    return subprocess.run(argv, capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL, **more)


def must_run(*argv, **more):
    done = run(*argv, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Maker:
    """A checkout of this tree, with keys, that releases into a folder."""

    def __init__(self, folder, keys):
        self.checkout, self.released = folder / "checkout", folder / "released"
        self.built, self.keys = folder / "built", keys
        self.environment = {
            **os.environ, "GNUPGHOME": str(keys), "BUILT": str(self.built),
            "INPLACED_MAINTAINER": _MAINTAINER, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
        }
        for role in ("AUTHOR", "COMMITTER"):
            self.environment |= {f"GIT_{role}_NAME": "The release test", f"GIT_{role}_EMAIL": "release@example.org"}
        shutil.copytree(REPOSITORY, self.checkout, symlinks=True, ignore=not_sources)
        (self.checkout / "packaging/build").write_text(_BUILD)
        self.edit("CHANGELOG.md", "Unreleased", "2026-01-31")
        self.git("init", "--quiet")
        self.commit()

    def git(self, *arguments):
        return must_run("git", *arguments, cwd=self.checkout, env=self.environment)

    def commit(self):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "test")

    def edit(self, name, before, after):
        path = self.checkout / name
        path.write_text(path.read_text().replace(before, after))

    def release(self, *arguments):
        return run(self.checkout / "packaging/release", *arguments, self.released, cwd=self.checkout, env=self.environment)

    def verify(self, commands):
        """As a stranger, who has the public keys."""
        environment = {**self.environment, "GNUPGHOME": str(self.keys / "stranger")}
        for command in commands:
            done = run(*command.split(), cwd=self.released, env=environment)
            if done.returncode != 0:
                return command.split()[0]
        return "verified"


@pytest.fixture(scope="module")
def keys():
    """GPG's home with the secret key "release@example.org", that of a stranger in it, and two files of minisign."""
    home = Path(tempfile.mkdtemp())  # GPG's sockets need a short name
    environment = {**os.environ, "GNUPGHOME": str(home)}
    must_run("gpg", "--batch", "--passphrase", "", "--quick-generate-key", _MAINTAINER, "ed25519", "sign", "never",
             env=environment)
    must_run("gpg", "--armor", "--export", "--output", home / "inplaced.asc", "release@example.org", env=environment)
    must_run("minisign", "-G", "-W", "-p", home / "inplaced.pub", "-s", home / "minisign.key")
    (home / "stranger").mkdir(mode=0o700)
    stranger = environment | {"GNUPGHOME": str(home / "stranger")}
    must_run("gpg", "--batch", "--import", home / "inplaced.asc", env=stranger)
    yield home
    for one in (environment, stranger):
        must_run("gpgconf", "--kill", "all", env=one)
    shutil.rmtree(home)


@pytest.fixture(scope="module")
def made(artifacts, session_folder):
    """A folder with all that packaging/build has made."""
    folder = session_folder / "made"
    folder.mkdir()
    for source in {artifacts(kind) for kind in ("archive", "deb", "image", "rpm")}:
        shutil.copytree(source, folder, dirs_exist_ok=True)
    return folder


@pytest.fixture
def maker(folder, keys):
    return Maker(folder.path, keys)


def commands_of_the_page():
    """How docs/INSTALL.md tells to verify a release."""
    page = (REPOSITORY / "docs/INSTALL.md").read_text().partition("\n## Verify a release\n")[2]
    (commands,) = re.findall(r"(?ms)^```sh\n(gpg --verify.*?)^```$", page)
    return [line.partition("#")[0].strip() for line in commands.splitlines()]


def test_release(maker, made):
    """Everything is there, signed by both, and tagged; a change of a file is found, and one of its digest as well."""
    maker.environment["MADE"] = str(made)
    commands = [line.replace("inplaced.pub", str(maker.keys / "inplaced.pub")) for line in commands_of_the_page()]
    assert [line.split()[0] for line in commands] == ["gpg", "minisign", "sha256sum"]
    done = maker.release("--key", "release@example.org", "--minisign", maker.keys / "minisign.key", VERSION)
    assert done.returncode == 0, done.stdout + done.stderr
    assert maker.verify(commands) == "verified"
    assert "Good signature" in run("git", "tag", "--verify", f"v{VERSION}", cwd=maker.checkout, env=maker.environment).stderr
    assert maker.git("rev-parse", f"v{VERSION}^{{commit}}") == maker.git("rev-parse", "HEAD")

    sums, signatures = maker.released / "SHA256SUMS", {"SHA256SUMS", "SHA256SUMS.asc", "SHA256SUMS.minisig"}
    listed = {line.split(maxsplit=1)[1] for line in sums.read_text().splitlines()}
    assert listed == {path.name for path in maker.released.iterdir()} - signatures > {"RELEASE.md"}
    notes = (maker.released / "RELEASE.md").read_text()
    assert notes.startswith(f"# inplaced {VERSION}\n") and maker.git("rev-parse", "HEAD").strip() in notes
    assert "\n### Added\n" in notes and "\n## [" not in notes
    assert re.search(r"\n\* image index `sha256:[0-9a-f]{64}` in ", notes) and f'INPLACED_MAINTAINER="{_MAINTAINER}"' in notes

    (package,) = maker.released.glob("inplaced_*_amd64.deb")
    with package.open("ab") as file:
        file.write(b"\n")
    assert maker.verify(commands) == "sha256sum"
    sums.write_text(must_run("sha256sum", *sorted(listed), cwd=maker.released))
    assert maker.verify(commands) == "gpg"
    assert maker.verify(commands[1:]) == "minisign"


def uncommitted(maker):
    (maker.checkout / "new-file").touch()


def undated(maker):
    maker.edit("CHANGELOG.md", f"## [{VERSION}] - 20", f"## [{VERSION}] - about 20")
    maker.commit()


def unreleased(maker):
    path = maker.checkout / "CHANGELOG.md"
    path.write_text(re.sub(rf"(?m)^(## \[{re.escape(VERSION)}\] - ).*$", r"\1Unreleased", path.read_text()))
    maker.commit()


def other_chart(maker):
    maker.edit("packaging/kubernetes/chart/Chart.yaml", f"version: {VERSION}", "version: 9.9.9")
    maker.commit()


def tagged(maker):
    maker.git("tag", f"v{VERSION}")


def occupied(maker):
    maker.released.mkdir()
    (maker.released / "file").touch()


def without_maintainer(maker):
    del maker.environment["INPLACED_MAINTAINER"]


def nothing(maker):
    pass


_KEY = ("--key", "release@example.org")


@pytest.mark.parametrize(
    ("prepare", "arguments", "said"),
    [
        (uncommitted, (*_KEY, VERSION), 'not everything is committed, such as "?? new-file"'),
        (nothing, (*_KEY, "9.9.9"), f"VERSION has {VERSION}, not 9.9.9"),
        (undated, (*_KEY, VERSION), "CHANGELOG.md"),
        (unreleased, (*_KEY, VERSION), f'CHANGELOG.md has no section "## [{VERSION}] - YYYY-MM-DD"'),
        (other_chart, (*_KEY, VERSION), "the sources have more than one version: packaging/kubernetes/chart/Chart.yaml:6"),
        (tagged, (*_KEY, VERSION), f"there is a tag v{VERSION} already"),
        (nothing, (VERSION,), "no key: give --key, --minisign or both"),
        (nothing, ("--key", "stranger@example.org", VERSION), 'GPG has no secret key "stranger@example.org" in '),
        (nothing, ("--minisign", "no-such-file", VERSION), "there is no file "),
        (without_maintainer, (*_KEY, VERSION), "INPLACED_MAINTAINER does not say who answers for the packages"),
        (occupied, (*_KEY, VERSION), " is not empty"),
    ],
    ids=lambda value: value.__name__ if callable(value) else None,
)
def test_refusals(maker, prepare, arguments, said):
    """In one line, before anything is built; there is no tag then."""
    prepare(maker)
    tags = maker.git("tag")
    done = maker.release(*arguments)
    assert done.returncode == 1 and said in done.stderr and done.stderr.count("\n") == 1, done.stdout + done.stderr
    assert not maker.built.exists() and maker.git("tag") == tags


def test_folder_of_its_own(maker, made):
    """Without a folder in the arguments, in a checkout where a preset of the same name has built before."""
    (maker.checkout / "build/release/agent").mkdir(parents=True)
    maker.environment["MADE"] = str(made)
    script = maker.checkout / "packaging/release"
    done = run(script, *_KEY, VERSION, cwd=maker.checkout, env=maker.environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (maker.checkout / f"build/release-{VERSION}" / "SHA256SUMS.asc").exists()

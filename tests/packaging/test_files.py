# SPDX-License-Identifier: Apache-2.0
"""The content of the package: it is what Debian asks for, and says the same as the programs."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from conftest import REPOSITORY
from lab.version import PACKAGE_VERSION, VERSION

# Each has a bill of materials beside it.
_PROGRAMS = [
    *(rf"inplaced_{PACKAGE_VERSION}_{architecture}\.deb" for architecture in ("amd64", "arm64")),
    *(rf"kubectl-inplace_{PACKAGE_VERSION}_{architecture}\.deb" for architecture in ("amd64", "arm64")),
    *(rf"inplaced-{PACKAGE_VERSION}-1\.{machine}\.rpm" for machine in ("x86_64", "aarch64")),
    *(rf"kubectl-inplace-{PACKAGE_VERSION}-1\.{machine}\.rpm" for machine in ("x86_64", "aarch64")),
    rf"inplaced-{re.escape(VERSION)}\.oci\.tar",
    *(rf"kubectl-inplace-{re.escape(VERSION)}-linux-{architecture}\.tar\.gz" for architecture in ("amd64", "arm64")),
]

_ARTIFACTS = [
    *_PROGRAMS,
    *(rf"{pattern}\.spdx\.json" for pattern in _PROGRAMS),
    rf"inplaced-{re.escape(VERSION)}\.tgz",
    r"kubectl-inplace-krew\.yaml",
    *(rf"inplaced-{path.name}\.yaml" for path in (REPOSITORY / "packaging/kubernetes/overlays").iterdir()),
    *(r"inplaced-crds\.yaml", r"inplaced-namespace\.yaml"),
    *(r"inplaced-rules\.yaml", r"inplaced-dashboard\.json"),
]

COMMANDS = [
    *("", "pull", "pulls", "pin", "unpin", "wait", "cancel", "retry", "restart", "verify", "probes", "status"),
    *("images", "doctor"),
    *("version", "help"),
]


def run(*argv, **more):
    done = subprocess.run(argv, capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def path(installed):
    """$PATH with the package's programs first."""
    return f"{installed}/usr/bin:/usr/bin:/bin"


def options_of(program, *command):
    return set(re.findall(r"(?m)^  (?:-\w, )?(--[a-z-]+)", run(program, *command, "--help")))


def test_lintian(packages, kubectl_packages):
    """It finds no error and gives no warning."""
    assert set(packages) == set(kubectl_packages) == {"amd64", "arm64"}
    for package in (*packages.values(), *kubectl_packages.values()):
        said = run("lintian", "--fail-on", "error,warning", "--allow-root", "--profile", "debian", package)
        assert said == ""


def test_dependencies(packages):
    """The packages of the loader's libraries, and of the one that is loaded at run time; the same for each
    architecture.
    """
    depends = {a: run("dpkg-deb", "--field", package, "Depends") for a, package in packages.items()}
    names = {a: {entry.split()[0] for entry in said.split(",")} for a, said in depends.items()}
    assert names["amd64"] == names["arm64"]
    assert names["amd64"] >= {"libcurl4", "systemd", "libgrpc29", "libsystemd0", "libc6"}


def test_dependencies_of_kubectl_inplace(packages, kubectl_packages):
    """Nothing that only a node needs. The agent's package recommends it, and has none of its files."""
    for architecture, package in kubectl_packages.items():
        depends = run("dpkg-deb", "--field", package, "Depends")
        names = {entry.split()[0] for entry in depends.split(",")}
        assert names >= {"libcurl4", "libjson-c5", "libc6"}
        assert names.isdisjoint({"libgrpc29", "systemd", "libmicrohttpd12"})
        agent = packages[architecture]
        assert run("dpkg-deb", "--field", agent, "Recommends").strip() == "kubectl-inplace"
        assert files_in(agent).isdisjoint(files_in(package))


def files_in(package):
    """All that are not folders."""
    lines = run("dpkg-deb", "--contents", package).splitlines()
    return {line.split()[5] for line in lines if not line.startswith("d")}


@pytest.mark.parametrize("name", ["packages", "kubectl_packages"])
def test_same_files(name, request):
    """The packages differ in their programs alone."""
    listed = {}
    for architecture, package in request.getfixturevalue(name).items():
        assert run("dpkg-deb", "--field", package, "Architecture").strip() == architecture
        lines = run("dpkg-deb", "--contents", package).splitlines()
        listed[architecture] = {(line.split()[0], line.split()[5]) for line in lines}
    assert listed["amd64"] == listed["arm64"]


def test_maintainer(package):
    """An address at which no mail arrives, unless who packages it gives one."""
    said = run("dpkg-deb", "--field", package, "Maintainer").strip()
    assert said == os.environ.get("INPLACED_MAINTAINER", "local build of inplaced <inplaced@example.org>")


@pytest.mark.parametrize(
    ("n_restarts", "seconds"), [("0", 0), ("1", 0), ("3", 0), ("4", 2), ("5", 6), ("6", 14), ("7", 28), ("900", 28), ("", 0)]
)
def test_delay_of_restarts(installed, folder, n_restarts, seconds):
    """By how often systemd has restarted the service, beside the two seconds of RestartSec=."""
    unit = (installed / "usr/lib/systemd/system/inplaced.service").read_text()
    (script,) = re.findall(r"(?ms)^ExecStartPre=-/bin/sh -c '(.*?)'$", unit)
    said = {"systemctl": f"echo {n_restarts}" if n_restarts else "exit 1", "sleep": 'echo "$1"'}
    tools = folder / "bin"
    tools.mkdir()
    for name, text in said.items():
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    script = script.replace("$$", "$").replace("\\\n", "")
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, env={"PATH": str(tools)})
    assert (done.stdout.strip(), done.stderr) == (str(seconds) if seconds else "", "")


def test_no_path_of_the_build(installed):
    for program in ("inplaced", "inplacectl", "kubectl-inplace"):
        assert str(REPOSITORY).encode() not in (installed / "usr/bin" / program).read_bytes()


def test_configuration_has_every_key(installed):
    """Each key that the agent knows, and no other one, stands there behind a comment sign."""
    text = (installed / "etc/inplaced/config.yaml").read_text()
    keys = re.findall(r'(?m)^        \{ "[a-z-]+", +"(\w+)",', (REPOSITORY / "agent/options.c").read_text())
    assert len(keys) > 20
    assert sorted(re.findall(r"(?m)^#(\w+):", text)) == sorted(keys)
    assert [line for line in text.splitlines() if line and not line.startswith("#")] == []


def test_configuration_is_accepted(installed, make_agent, fake_runtime, folder):
    """By the agent, as it is, and with all defaults and examples in force."""
    text = (installed / "etc/inplaced/config.yaml").read_text()
    for name, content in (("as-it-is", text), ("all", re.sub(r"(?m)^#(\w+:|- )", r"\1", text))):
        config = folder / f"{name}.yaml"
        config.write_text(content)
        flags = [f"--config={config}", "--mode=standalone", "--register-node", "--restart-group=", "--socket-group="]
        make_agent(fake_runtime.endpoint, flags=flags).start()
    assert len(yaml.safe_load(config.read_text())) > 20


def test_catalog_has_every_message(installed, folder):
    """Each message ID of the log is explained; systemd reads the file without a complaint."""
    catalog = installed / "usr/lib/systemd/catalog/inplaced.catalog"
    ids = re.findall(r'#define MESSAGE_\w+ "([0-9a-f]{32})"', (REPOSITORY / "agent/base/log.h").read_text())
    assert sorted(re.findall(r"(?m)^-- ([0-9a-f]{32})$", catalog.read_text())) == sorted(ids) != []
    assert "rror" not in run("journalctl", f"--root={installed}", "--update-catalog")
    explained = run("journalctl", f"--root={installed}", "--dump-catalog", *ids)
    assert explained.count("Defined-By: inplaced") == len(ids)


BASH = """
source "$1"
COMP_WORDS=("${@:3}")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
"$2"
printf '%s\\n' "${COMPREPLY[@]}"
"""

ZSH = """
compadd() { [[ $1 != -- ]] || shift; print -l -- "$@" }
_files() { print FILES }
words=("${@:2}")
CURRENT=$#words
source "$1"
"""


def in_bash(installed, path, program, *words):
    file = installed / "usr/share/bash-completion/completions" / program
    return set(run("bash", "-c", BASH, "bash", file, f"_{program}", program, *words, env={"PATH": path}).split())


def in_zsh(installed, path, program, *words):
    file = installed / "usr/share/zsh/vendor-completions" / f"_{program}"
    said = run("zsh", "-f", "-c", ZSH, "zsh", file, program, *words, env={"PATH": path})
    return {word for word in said.split() if word.startswith(words[-1])}


def say_fish(installed, path, program, *words):
    """A line for each candidate, with its description behind a tab."""
    file = installed / "usr/share/fish/vendor_completions.d" / f"{program}.fish"
    line = shlex.join([program, *words[:-1]]) + " " + words[-1]
    script = f"source {file}; complete --do-complete {shlex.quote(line)}"
    environment = {"PATH": path, "HOME": str(installed), "XDG_CONFIG_HOME": str(installed / "home")}
    return run("fish", "--no-config", "--command", script, env=environment).splitlines()


def in_fish(installed, path, program, *words):
    return {entry.split("\t")[0] for entry in say_fish(installed, path, program, *words)}


SHELLS = pytest.mark.parametrize("complete", [in_bash, in_zsh, in_fish])


@SHELLS
@pytest.mark.parametrize("command", COMMANDS)
def test_options_of_inplacectl(installed, path, complete, command):
    """Each option of --help is completed, for each command."""
    words = [command] if command else []
    known = options_of(installed / "usr/bin/inplacectl", *words)
    assert known >= {"--socket", "--output", "--help", "--version"}
    assert {o for o in complete(installed, path, "inplacectl", *words, "--") if o.startswith("--")} == known


@SHELLS
def test_options_of_inplaced(installed, path, complete):
    known = {o for o in options_of(installed / "usr/bin/inplaced")} | {"--version", "--help"}
    assert complete(installed, path, "inplaced", "--") == known


@SHELLS
def test_words_of_inplacectl(installed, path, complete):
    commands = set(COMMANDS) - {""}
    assert complete(installed, path, "inplacectl", "") == commands
    assert complete(installed, path, "inplacectl", "help", "") >= commands
    assert complete(installed, path, "inplacectl", "--socket", "/x/y", "st") == {"status"}
    assert complete(installed, path, "inplacectl", "-n", "team", "resta") == {"restart"}
    assert complete(installed, path, "inplacectl", "-o", "") == {"table", "wide", "json", "yaml"}
    assert complete(installed, path, "inplacectl", "status", "--output", "j") == {"json"}
    assert complete(installed, path, "inplacectl", "pull", "--pull-policy", "") == {"Always", "IfNotPresent"}


def test_descriptions_of_inplacectl(installed, path):
    """fish shows each command with the first line of its help."""
    shown = dict(entry.split("\t") for entry in say_fish(installed, path, "inplacectl", ""))
    helps = {command: run(installed / "usr/bin/inplacectl", command, "--help") for command in COMMANDS if command}
    assert shown == {command: text.splitlines()[2] for command, text in helps.items()}


def in_kubectl(installed, path, program, *words):
    """As kubectl asks its plugin."""
    said = run(installed / "usr/bin/kubectl_complete-inplace", *words, env={"PATH": path}).splitlines()
    assert said[-1] in (":0", ":4", ":6")
    return {line.split("\t")[0] for line in said[:-1]}


KUBECTL_COMMANDS = (
    *("status", "images", "preload", "pulls", "restart", "refresh", "rollout", "set image", "controller", "doctor"),
    "version",
)


def in_bash_alone(installed, path, program, *words):
    file = installed / "usr/share/bash-completion/completions" / program
    said = run("bash", "-c", BASH, "bash", file, "_kubectl_inplace", program, *words, env={"PATH": path})
    return set(said.split())


@pytest.mark.parametrize("complete", [in_bash_alone, in_zsh, in_fish, in_kubectl])
def test_words_of_kubectl_inplace(installed, path, complete):
    """Each flag of --help, for each command; commands, and values that are known."""
    program = "kubectl-inplace"
    commands = {word for word in complete(installed, path, program, "") if word}
    first_words = {command.split()[0] for command in KUBECTL_COMMANDS}
    assert commands >= {*first_words, "help"}
    assert complete(installed, path, program, "help", "") >= first_words
    assert complete(installed, path, program, "-n", "x", "stat") == {"status"}
    assert complete(installed, path, program, "status", "-o", "") == {"wide", "json", "yaml", "name"}
    flag = r"(?m)^  (?:-\w, |    )(--[a-z-]+)"
    general = set(re.findall(flag, run(installed / "usr/bin" / program, "help")))
    assert general >= {"--namespace", "--kubeconfig", "--help"}
    for command in KUBECTL_COMMANDS:
        said = run(installed / "usr/bin" / program, *command.split(), "--help")
        assert "Flags:\n\n" not in said
        known = general | set(re.findall(flag, said))
        assert complete(installed, path, program, *command.split(), "--") == known


def test_checksums_and_help():
    """packaging/build names each kind that it makes, and lists each file that it has made."""
    said = run(REPOSITORY / "packaging/build", "--help")
    for build in REPOSITORY.glob("packaging/*/build"):
        assert re.search(rf"(?m)^  {build.parent.name} ", said), build
    if "INPLACED_ARTIFACTS" in os.environ:
        folder = Path(os.environ["INPLACED_ARTIFACTS"])
        run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=folder)
        listed = {line.split(maxsplit=1)[1] for line in (folder / "SHA256SUMS").read_text().splitlines()}
        assert listed == {path.name for path in folder.iterdir()} - {"SHA256SUMS"}
        for pattern in _ARTIFACTS:
            assert len([name for name in listed if re.fullmatch(pattern, name)]) == 1, pattern

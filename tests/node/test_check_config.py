# SPDX-License-Identifier: Apache-2.0
"""Proves that what is wrong with a configuration is found before a start, all of it, by the same code."""

from __future__ import annotations

import json
import shlex
import subprocess

import pytest

from lab.documents import node_image, write_whole
from lab.kubeconfig import write_kubeconfig
from lab.trouble import assert_clear

VALID = "The configuration, the documents and the credentials are valid.\n"
TYPO = "apiVersion: apps.kruise.io/v1alpha1\nkind: NodeImage\nspec:\n  image: {}\n"


@pytest.fixture
def agent(make_agent):
    """Not started, and with a runtime that is not there."""
    return make_agent("unix:///nowhere.sock")


def find(agent, *flags: str, status: int = 1) -> list[str]:
    """The findings of --check-config, each one line, and if there are any, with this exit status."""
    done = agent.run("--check-config", *flags)
    lines = done.stderr.splitlines()
    for line in lines:
        assert_clear(line)
    assert all(line.startswith("inplaced: ") for line in lines)
    assert (done.returncode, done.stdout) == ((status, "") if lines else (0, VALID)), done
    return [line.removeprefix("inplaced: ") for line in lines]


def test_nothing_is_wrong(agent, folder):
    """A valid configuration is 0; a check starts nothing, writes nothing and needs no root."""
    agent.request("demo/web:1")
    agent.give_credentials("registry.example", "jo", "secret")
    for path in (agent.config_path, agent.images_dir / "wanted.yaml", agent.auth_dir / "a.json"):
        path.chmod(0o644)
    assert find(agent) == []
    for above in (agent.folder, *agent.folder.parents[:-2]):
        above.chmod(above.stat().st_mode | 0o111)
    program = folder / "inplaced"
    program.write_bytes(open(agent.argv[0], "rb").read())
    program.chmod(0o755)
    agent.argv[0] = str(program)
    done = agent.run("--check-config", user=65534, group=65534, extra_groups=[])
    assert (done.returncode, done.stdout, done.stderr) == (0, VALID, "")
    assert not agent.socket.exists() and list(agent.state_dir.iterdir()) == []


def test_all_is_found(agent):
    """Each thing that is wrong is a line, in all kinds of files; no secret is in it."""
    agent.config_path.write_text(
        "maxParalelPulls: 3\n# more\nlogLevel: loud\nsocketGroup: {a: {b: c}}\nimages-dir: /x\n"
        "nodeName: 0017\nrestartGroup: yes\n"
    )
    write_whole(agent.images_dir / "a.yaml", TYPO)
    write_whole(agent.images_dir / "b.yaml", "a: [")
    write_whole(agent.images_dir / "c.yaml", json.dumps(node_image(("good/one:1", "demo/UPPER:1"))))
    bad = {"auths": {"a.example": {"username": "jo", "password": "hunter2"}, "b": {"auth": "hunter3%"}}}
    write_whole(agent.auth_dir / "bad.json", json.dumps(bad))
    found = find(agent, "--stall-timeout=x", "--max-paralel-pulls", "7", "--socket", status=2)
    config, images = agent.config_path, agent.images_dir
    expected = [
        f'{config}: line 1: "maxParalelPulls": no such key; did you mean maxParallelPulls?',
        f"{config}: line 3: logLevel: ",
        f"{config}: line 4: socketGroup: expected a text or a number",
        f'{config}: line 5: "images-dir": no such key; did you mean imagesDir?',
        f"{config}: line 6: nodeName: expected a text: write it in quotes",
        f"{config}: line 7: restartGroup: expected a text: write it in quotes",
        '--stall-timeout: "x" is not a number from 0 to ',
        '"--max-paralel-pulls": no such option; did you mean --max-parallel-pulls?',
        "--socket: needs a value",
        f"{images}/a.yaml: line 4: spec.image: unknown key, ignored; did you mean images?",
        f"{images}/b.yaml: line 2, column 1: ",
        f'{agent.auth_dir}/bad.json: the field "auth" of "b" is not base64',
        f'{images}/c.yaml: invalid image name "demo/UPPER": ',
    ]
    assert len(found) == len(expected), found
    for line, start in zip(found, expected, strict=True):
        assert line.startswith(start), line
    assert "hunter" not in str(found)


def test_start_finds_the_same(agent):
    """A start with such a configuration ends with 2 and the same lines."""
    agent.config_path.write_text("maxParalelPulls: 3\nlogLevel: loud\n")
    done = agent.run("--stall-timeout=x")
    assert (done.returncode, done.stdout) == (2, "")
    assert [f"inplaced: {line}" for line in find(agent, "--stall-timeout=x", status=2)] == done.stderr.splitlines()


CANNOT_WORK = {
    "metrics-address": ("--metrics-address=localhost", "--metrics-address"),
    "metrics-name": ("--metrics-address=node.example:10221", "--metrics-address"),
    "kubelet-address": ("--kubelet-health-address=127.0.0.1", "--kubelet-health-address"),
    "socket": (f"--socket=/{'a' * 108}", "--socket"),
    "socket-folder": ("--socket=/dev/null/x.sock", "cannot listen on /dev/null/x.sock"),
    "node-name": ("--node-name=Node_1", "--node-name"),
    "node-name-empty": ("--node-name=", "--node-name"),
    "no-pod": ("--mode=cluster", "--mode"),
    "kubeconfig": ("--kubeconfig={file}", "--kubeconfig"),
    "context": ("--kubeconfig-context=x", "--kubeconfig-context"),
}


@pytest.mark.parametrize("case", CANNOT_WORK)
def test_cannot_work(agent, folder, case):
    """A configuration that cannot work ends a start with 2 in one line that names the option."""
    flag, option = CANNOT_WORK[case]
    (folder / "kubeconfig").write_text("apiVersion: v1\nkind: Config\n")
    (folder / "kubeconfig").chmod(0o600)
    flag = flag.format(file=folder / "kubeconfig")
    done = agent.run(flag)
    lines = [line for line in done.stderr.splitlines() if not line.startswith("{")]
    assert done.returncode == 2, done
    assert len(lines) == 1 and lines[0].startswith(f"inplaced: {option}: "), lines
    assert option in lines[0] and "--" in lines[0]
    if case != "socket-folder":  # a check makes no socket
        status = 1 if case in ("no-pod", "kubeconfig") else 2
        assert [f"inplaced: {line}" for line in find(agent, flag, status=status)] == lines


@pytest.mark.parametrize(("n_bytes", "is_key"), [(317, True), (318, False)])
def test_longest_key_of_a_taint(agent, n_bytes, is_key):
    """A key has a prefix of 253 bytes at most, a slash, and a name of 63."""
    done = agent.run("--check-config", f"--startup-taint={'a' * n_bytes}")
    assert ("is no key of a taint" in done.stderr) is not is_key, done


def test_number_in_the_place_of_a_text(agent):
    """A number is shown with as many digits as it has."""
    for tag, shown in (("1.10", "1.10"), ("-1.5", "-1.5"), ("12", "12"), ("yes", "true")):
        document = f"apiVersion: apps.kruise.io/v1alpha1\nkind: NodeImage\nspec:\n  images:\n    a/b:\n      tags:\n      - tag: {tag}\n"
        write_whole(agent.images_dir / "a.yaml", document)
        (line,) = find(agent)
        assert line.endswith(f"expected a string (in quotes), got {shown}"), line


def test_credentials_that_are_not_there(agent):
    """Credentials in a helper program of docker, and files that are not read, are reported, each in a line."""
    config = {
        "auths": {"a.example": {}, "u:p@b.example": None, "c.example": {"auth": "dTpw"}, "d.example": {"email": "x"}},
        "credsStore": "desktop",
    }
    write_whole(agent.auth_dir / "a.json", json.dumps(config))
    config = {"auths": {"a.example": {}, "b.example": {}}, "credHelpers": {"b.example": "ecr-login"}}
    write_whole(agent.auth_dir / "b.json", json.dumps(config))
    write_whole(agent.auth_dir / "c.json", json.dumps({"auths": {"a.example": {}}}))
    for name in ("z.JSON", "README", "a.json.bak"):
        write_whole(agent.auth_dir / name, "{}")
    why = "a helper program keeps them (\"credsStore\" or \"credHelpers\"), which is not run here"
    nobody = "write a username and a password, or leave it out"
    assert find(agent) == [
        f'{agent.auth_dir}/a.json: the entry "a.example" holds no credentials: {why}',
        f'{agent.auth_dir}/a.json: the entry "b.example" holds no credentials: {why}',
        f'{agent.auth_dir}/b.json: the entry "a.example" holds no credentials: {nobody}',
        f'{agent.auth_dir}/b.json: the entry "b.example" holds no credentials: {why}',
        f'{agent.auth_dir}/c.json: the entry "a.example" holds no credentials: {nobody}',
        f'{agent.auth_dir}/z.JSON: not read: its name does not end with ".json"',
    ]


def test_account_of_a_pod(agent):
    """A fault of the pod's account is not reported as that of an option that was not given."""
    account = "/run/secrets/kubernetes.io/serviceaccount"
    made = f"mount -t tmpfs tmpfs /run && mkdir -p {account} && echo t > {account}/token && : > {account}/ca.crt"
    pod = ["env", "KUBERNETES_SERVICE_HOST=127.0.0.1", "KUBERNETES_SERVICE_PORT=1", "unshare", "--mount", "sh", "-ec"]
    program = shlex.join(agent.argv)
    for more, code in (("--check-config", 1), ("", 2)):
        done = subprocess.run([*pod, f"{made} && exec {program} {more}"], capture_output=True, text=True, check=False)
        (line,) = [line for line in done.stderr.splitlines() if not line.startswith("{")]
        assert line.startswith("inplaced: the pod's service account: /var/run/secrets/"), line
        assert line.endswith("ca.crt: is empty"), line
        assert done.returncode == code


@pytest.mark.parametrize("is_there", [False, True], ids=["missing", "empty"])
def test_kubeconfig_is_not_there_yet(agent, folder, is_there):
    """A kubeconfig that is still to be written ends a start with 1: a service manager tries again."""
    if is_there:
        (folder / "later").touch()
    done = agent.run(f"--kubeconfig={folder.path}/later")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"inplaced: --kubeconfig: {folder.path}/later: ")
    (line,) = find(agent, f"--kubeconfig={folder.path}/later")
    assert line.startswith("--kubeconfig: ")


def test_files_of_the_kubeconfig_are_not_there_yet(agent, folder):
    """So does a file that it names, such as a token that another program writes after each boot."""
    path = folder / "kubeconfig"
    write_kubeconfig(path, "https://127.0.0.1:1", None, token_file=folder / "later")
    done = agent.run(f"--kubeconfig={path}")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(f"{folder.path}/later: No such file or directory")


def test_credentials_that_cannot_be_read(agent):
    """A file or a folder of credentials that cannot be read is named once in its line."""
    (agent.auth_dir / "empty.json").touch()
    assert find(agent) == [f"{agent.auth_dir}/empty.json: empty"]
    (agent.auth_dir / "empty.json").unlink()
    agent.auth_dir.rmdir()
    assert find(agent) == []
    agent.auth_dir.touch()
    assert find(agent) == [f"{agent.auth_dir}: Not a directory"]


def test_plugins_are_checked(agent, folder):
    """A broken configuration of credential plugins, which a start survives, is found as well."""
    (folder / "plugins.yaml").write_text("kind: Nonsense\n")
    flags = [f"--image-credential-provider-{name}" for name in ("config", "bin-dir")]
    (line,) = find(agent, f"{flags[0]}={folder.path}/plugins.yaml", f"{flags[1]}={folder.path}")
    assert line.startswith(f"{flags[0]}: {folder.path}/plugins.yaml: ")
    for given, missing in (flags, flags[::-1]):
        assert find(agent, f"{given}={folder.path}") == [f"{given}: needs {missing}, too"]

# SPDX-License-Identifier: Apache-2.0
"""Proves that `kubectl inplace` finds the API server, the namespace and the user as kubectl does."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import yaml

from lab.documents import write_whole

# Puts a pod's files in their usual place, in a mount namespace of its own.
_AS_POD = """
set -e
mount -t tmpfs pod /run
mkdir -p /run/secrets/kubernetes.io/serviceaccount
cp "$1"/* /run/secrets/kubernetes.io/serviceaccount
shift
exec "$@"
"""


@pytest.fixture
def parts(control_plane):
    """The admin's kubeconfig, as a document to be taken apart."""
    return yaml.safe_load(control_plane.admin_kubeconfig.read_text())


@pytest.fixture
def pods(kube):
    """A pod in each of two namespaces, named like it; no node runs them."""
    spec = {"containers": [{"name": "main", "image": "none"}], "nodeName": "no-node"}
    names = ("kubectl-a", "kubectl-b")
    for name in names:
        kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        kube.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": name, "labels": {"kubectl": "access"}},
                "spec": spec,
            }
        )
    yield names
    for name in names:
        kube.delete(f"/api/v1/namespaces/{name}/pods/{name}", gracePeriodSeconds="0")


@pytest.fixture
def silent_server():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def shown(ran) -> list[str]:
    """The names of the pods that a status shows."""
    assert ran.code == 0, ran.stderr
    return [line.removeprefix("pod/") for line in ran.stdout.split()]


def status(inplace, *flags: str, **environment) -> list[str]:
    return shown(inplace.run("status", "-l", "kubectl=access", "-o", "name", *flags, **environment))


def write_part(path: Path, document: dict) -> Path:
    path.parent.mkdir(exist_ok=True)
    write_whole(path, yaml.safe_dump(document))
    return path


def test_several_files(inplace, folder, parts, pods):
    """The first file of $KUBECONFIG that has an entry counts, and missing files are skipped.

    Paths are relative to the file that names them. The second cluster of that name is nowhere.
    """
    [cluster], [user], [context] = parts["clusters"], parts["users"], parts["contexts"]
    authority = Path(cluster["cluster"].pop("certificate-authority"))
    context["context"]["namespace"] = "kubectl-a"
    first = write_part(
        folder / "one" / "config",
        {"clusters": [{**cluster, "cluster": {**cluster["cluster"], "certificate-authority": "ca"}}]},
    )
    (first.parent / "ca").write_bytes(authority.read_bytes())
    second = write_part(
        folder / "two" / "config",
        {
            "current-context": context["name"],
            "contexts": [context],
            "clusters": [{"name": cluster["name"], "cluster": {"server": "https://127.0.0.1:1"}}],
        },
    )
    third = write_part(
        folder / "three" / "config", {"users": [user], "current-context": "no-such-context"}
    )
    listed = f"{folder.path}/missing:{first}::{second}:{third}"
    assert status(inplace, KUBECONFIG=listed) == ["kubectl-a"]


def test_context_and_namespace(inplace, folder, parts, pods):
    [context] = parts["contexts"]
    for name in pods:
        more = {**context["context"], "namespace": name}
        parts["contexts"].append({"name": f"of-{name}", "context": more})
    path = write_part(folder / "config", parts)
    assert status(inplace, KUBECONFIG=path) == []
    assert status(inplace, "--context=of-kubectl-b", KUBECONFIG=path) == ["kubectl-b"]
    assert status(inplace, "--context", "of-kubectl-b", "-n", "kubectl-a", KUBECONFIG=path) == ["kubectl-a"]
    assert sorted(status(inplace, "-A", KUBECONFIG=path)) == ["kubectl-a", "kubectl-b"]
    refused = inplace.run("status", "--context=nowhere", KUBECONFIG=path)
    assert refused.code == 1
    assert f'{path}: there is no context "nowhere"' in refused.stderr


def test_flag_before_environment(inplace, folder, control_plane, pods):
    """--kubeconfig stands above $KUBECONFIG, and has to be there."""
    flag = f"--kubeconfig={control_plane.admin_kubeconfig}"
    assert status(inplace, flag, "-nkubectl-a", KUBECONFIG="/nowhere") == ["kubectl-a"]
    refused = inplace.run("status", f"--kubeconfig={folder.path}/none")
    assert refused.code == 1
    assert f"{folder.path}/none: No such file" in refused.stderr


def test_home(inplace, folder, control_plane, parts, pods):
    write_part(folder / ".kube" / "config", parts)
    assert status(inplace, "-n", "kubectl-b", KUBECONFIG=None) == ["kubectl-b"]


def test_none(inplace, folder):
    ran = inplace.run("status", KUBECONFIG=None)
    assert ran.code == 1
    assert f"there is no kubeconfig: {folder.path}/.kube/config" in ran.stderr
    assert ran.stdout == ""


def test_as_pod(inplace, folder, control_plane, kube, pods):
    """A program in a pod uses the pod's account and namespace."""
    given = folder / "given"
    given.mkdir()
    (given / "token").write_text("lab-admin")
    (given / "namespace").write_text("kubectl-a")
    (given / "ca.crt").write_bytes(control_plane.authority.certificate.read_bytes())
    inplace.prefix = ["unshare", "-m", "sh", "-c", _AS_POD, "sh", str(given)]
    variables = {
        "KUBECONFIG": None,
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(control_plane.port),
    }
    assert status(inplace, **variables) == ["kubectl-a"]


def test_program_makes_token(inplace, folder, control_plane, pods):
    """A credential program gets no terminal; one that needs one is refused, with the reason."""
    program = folder / "program"
    answer = (
        '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
        '"status":{"token":"lab-admin"}}'
    )
    program.write_text(f"#!/bin/sh\necho '{answer}'\n")
    program.chmod(0o700)
    path = control_plane.write_kubeconfig(folder / "config", command=[program])
    assert status(inplace, "-n", "kubectl-a", KUBECONFIG=path) == ["kubectl-a"]
    path.write_text(path.read_text().replace("Never", "Always"))
    refused = inplace.run("status", KUBECONFIG=path)
    assert refused.code == 1
    assert "interactiveMode: the program needs a terminal" in refused.stderr


def test_wrong_token(inplace, folder, control_plane):
    path = control_plane.write_kubeconfig(folder / "config", token="no-such-token")
    ran = inplace.run("status", KUBECONFIG=path)
    assert ran.code == 1
    assert "Unauthorized" in ran.stderr
    assert "no-such-token" not in ran.stderr


def test_another_user_and_cluster(inplace, folder, parts, pods):
    """--user, --cluster, --server and --token choose as kubectl's do, and no token is printed."""
    [cluster], [user], [context] = parts["clusters"], parts["users"], parts["contexts"]
    parts["clusters"].append({"name": "nowhere", "cluster": {"server": "https://127.0.0.1:1"}})
    parts["users"].append({"name": "stranger", "user": {"token": "no-such-token"}})
    context["context"].update(cluster="nowhere", user="stranger")
    path = write_part(folder / "config", parts)
    right = {"cluster": cluster["name"], "user": user["name"]}
    flags = [f"--{key}={value}" for key, value in right.items()]
    assert status(inplace, "-nkubectl-a", *flags, KUBECONFIG=path) == ["kubectl-a"]
    by_token = ["--cluster", right["cluster"], "--token", "lab-admin"]
    assert status(inplace, "-nkubectl-a", *by_token, KUBECONFIG=path) == ["kubectl-a"]
    context["context"].update(right)
    del cluster["cluster"]["server"]
    path = write_part(folder / "config", parts)
    server = yaml.safe_load(inplace.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    assert status(inplace, "-nkubectl-a", "-s", server, KUBECONFIG=path) == ["kubectl-a"]
    refused = inplace.run("status", "--token=hunter2", KUBECONFIG=inplace.kubeconfig)
    assert refused.code == 1 and "Unauthorized" in refused.stderr
    assert "hunter2" not in refused.stdout + refused.stderr


def test_impersonation(inplace, folder, parts, pods):
    """Impersonates as the flags and the kubeconfig say; the server decides by that user's rights."""
    flags = ["--as", "jane", "--as-group=system:masters", "--as-group=dev"]
    assert status(inplace, "-nkubectl-a", *flags) == ["kubectl-a"]
    refused = inplace.run("status", "-nkubectl-a", "--as=jane")
    assert refused.code == 1 and 'User "jane" cannot list resource "pods"' in refused.stderr
    [user] = parts["users"]
    user["user"].update({"as": "jane", "as-groups": ["system:masters"]})
    path = write_part(folder / "config", parts)
    assert status(inplace, "-nkubectl-a", KUBECONFIG=path) == ["kubectl-a"]
    refused = inplace.run("status", "-nkubectl-a", "--as=joe", KUBECONFIG=path)
    assert refused.code == 1 and 'User "joe" cannot list resource "pods"' in refused.stderr


def test_time_of_a_request(inplace, folder, parts, silent_server):
    """A server that accepts connections and never answers."""
    parts["clusters"][0]["cluster"] = {"server": silent_server}
    path = write_part(folder / "config", parts)
    ran = inplace.run("status", "--request-timeout=1s", KUBECONFIG=path, timeout=20)
    assert ran.code == 1 and "1 s" in ran.stderr

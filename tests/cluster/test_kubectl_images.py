# SPDX-License-Identifier: Apache-2.0
"""Proves `kubectl inplace images` and `doctor`, with nodes that are written by the test."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from fake.api_server import Call, FakeApiServer
from lab import clock, sanitizers
from lab.clients import MANIFESTS
from lab.kubeconfig import write_kubeconfig
from lab.version import VERSION
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS

_NODE_IMAGES = "/apis/apps.kruise.io/v1beta1/nodeimages"


def tag(name: str, phase: str, progress: int, message: str = "") -> dict:
    return {
        "tag": name,
        "phase": phase,
        "progress": progress,
        "message": message,
        "startTime": "2020-01-01T00:00:00Z",
    }


def write(kube, name: str, tags: list[dict], **labels: str) -> None:
    """A NodeImage of one image, as if an agent had written its status."""
    wanted = {"tags": [{"tag": one["tag"]} for one in tags]}
    kube.create(
        {
            "apiVersion": "apps.kruise.io/v1beta1",
            "kind": "NodeImage",
            "metadata": {"name": name, "labels": labels},
            "spec": {"images": {"registry.test/app": wanted}},
        }
    )
    status = {
        "desired": len(tags),
        **dict.fromkeys(("succeeded", "failed", "pulling"), 0),
        "imageStatuses": {"registry.test/app": {"tags": tags}},
    }
    kube.patch(f"{_NODE_IMAGES}/{name}/status", {"status": status}, fieldManager="inplaced")


@pytest.fixture
def hollow(kube):
    """hollow(name, tags, label=…): such a NodeImage."""
    made = []

    def make(name: str, *tags: dict, **labels: str) -> str:
        made.append(name)
        write(kube, name, list(tags), **labels)
        return name

    yield make
    for name in made:
        kube.delete(f"{_NODE_IMAGES}/{name}")


def rows(ran, code: int = 0) -> list[list[str]]:
    assert ran.code == code, ran.stderr
    heading, *lines = ran.stdout.splitlines()
    assert heading.split()[:3] == ["NODE", "IMAGE", "PHASE"]
    return [line.split() for line in lines]


def test_images(inplace, hollow):
    hollow("kubectl-1", tag("1", "Succeeded", 100), tag("2", "Pulling", 40), pool="kubectl")
    hollow("kubectl-2", tag("1", "Failed", 0, "NotFound: no such tag \x1b[31m"), pool="kubectl")
    found = rows(inplace.run("images", "-l", "pool=kubectl"))
    assert [row[:4] for row in found] == [
        ["kubectl-1", "registry.test/app:1", "Succeeded", "100%"],
        ["kubectl-1", "registry.test/app:2", "Pulling", "40%"],
        ["kubectl-2", "registry.test/app:1", "Failed", "0%"],
    ]
    one = rows(inplace.run("images", "registry.test/app:1", "--nodes=kubectl-1,kubectl-2"))
    assert [row[:2] for row in one] == [[node, "registry.test/app:1"] for node in ("kubectl-1", "kubectl-2")]
    for form in ("wide", "json", "yaml"):
        ran = inplace.run("images", "-l", "pool=kubectl", "-o", form)
        assert "NotFound" in ran.stdout
        assert "\x1b" not in ran.stdout
    names = inplace.run("images", "-l", "pool=kubectl", "-o", "name")
    assert names.stdout == "nodeimage/kubectl-1\nnodeimage/kubectl-2\n"


def test_images_of_missing_nodes(inplace, hollow):
    hollow("kubectl-1", tag("1", "Succeeded", 100))
    ran = inplace.run("images", "--nodes=kubectl-1,not-there")
    assert len(rows(ran, code=3)) == 1
    assert 'nodeimages.apps.kruise.io "not-there" not found' in ran.stderr
    assert inplace.run("images", "--nodes=not-there").code == 1
    none = inplace.run("images", "-l", "pool=nowhere")
    assert (none.code, none.stdout) == (0, "")
    assert "no images found" in none.stderr
    wrong = inplace.run("images", "Not/An:Image:1")
    assert (wrong.code, wrong.stdout) == (1, "")


class CountingServer(FakeApiServer):
    """Keeps the queries of the lists that it has answered."""

    def __init__(self, folder: Path) -> None:
        self.lists: list[dict[str, str]] = []
        super().__init__(folder)

    def _list(self, call: Call) -> dict:
        self.lists.append(call.query)
        return super()._list(call)


@pytest.mark.parametrize(
    ("n_nodes", "n_tags", "n_pages"), [(1000, 4, 10), (300, 500, 7)], ids=["many-nodes", "many-images"]
)
def test_many_nodes(inplace, folder, n_nodes, n_tags, n_pages):
    """In pages of which one at a time is in memory, and smaller ones where objects are large."""
    tags = [tag(str(i), "Succeeded", 100, "m" * 100) for i in range(n_tags)]
    status = {"imageStatuses": {"registry.test/app": {"tags": tags}}}
    names = [f"many-{i:04}" for i in range(n_nodes)]
    with CountingServer(folder / "server") as server:
        for name in names:
            server.create("nodeimages", {"metadata": {"name": name}, "spec": {}, "status": status})
        path = write_kubeconfig(
            folder / "many.conf", server.url, server.authority, token="lab-token"
        )
        patience = f"--request-timeout={30 * sanitizers.SLOWNESS}s"  # with the stand-in, which is slow
        ran, peak = inplace.measure("images", patience, timeout=150 * sanitizers.SLOWNESS, KUBECONFIG=path)
    assert ran.code == 0, ran.stderr
    assert [row[0] for row in rows(ran)[::n_tags]] == names
    assert len(server.lists) == n_pages
    assert {query["limit"] for query in server.lists} <= {"100", "50"}
    if not sanitizers.NAME:
        assert peak < 64 * 1024


@pytest.fixture
def agents(kube):
    """Nodes with agents as pods: one of another version, one not ready; and one without."""
    made = []

    def make(document: dict, status: dict | None = None) -> None:
        path = kube.path_of(document)
        kube.create(document)
        made.append(path)
        if status is not None:
            kube.patch(f"{path}/status", {"status": status}, "strategic")

    for name, version, ready in (
        ("good-1", VERSION, "True"),
        ("good-2", VERSION, "True"),
        ("older", "0.0.9", "True"),
        ("broken", VERSION, "False"),
        ("bare", None, ""),
    ):
        meta = {"name": f"doctor-{name}", "labels": {"kubernetes.io/os": "linux"}}
        make({"apiVersion": "v1", "kind": "Node", "metadata": meta})
        if version is None:
            continue
        labels = {"app.kubernetes.io/name": "inplaced"}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"agent-{name}", "namespace": "inplaced", "labels": labels},
            "spec": {
                "nodeName": f"doctor-{name}",
                "containers": [{"name": "inplaced", "image": f"registry.test/inplaced:{version}"}],
            },
        }
        state = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
        entry = {"name": "inplaced", "image": "x", "imageID": "", "ready": False, "restartCount": 1}
        entry["lastState"] = {"terminated": {"exitCode": 1, "message": "no runtime is there"}}
        status = {"conditions": [{"type": "Ready", "status": ready}]}
        if ready == "False":
            status["containerStatuses"] = [{**entry, "state": state}]
        make(pod, status)
    yield
    for path in made:
        kube.delete(path, gracePeriodSeconds="0")


def problems(ran) -> dict[str, str]:
    """By subject, but for other tests' nodes."""
    found = json.loads(ran.stdout)["problems"]
    return {one["subject"]: one["message"] for one in found}


def test_doctor(inplace, agents):
    ran = inplace.run("doctor", "-o", "json")
    assert ran.code == 3, ran.stderr
    found = problems(ran)
    assert found["1 node (doctor-older)"] == f"the agent is of version 0.0.9, most others are of {VERSION}"
    assert (
        found["1 node (doctor-broken)"]
        == "the agent is not ready: CrashLoopBackOff: no runtime is there"
    )
    assert any("doctor-bare" in subject for subject in found)
    assert "there is no agent" in found.values()
    text = inplace.run("doctor").stdout
    assert "nodeimages.apps.kruise.io" in text
    assert "problem: 1 node (doctor-older): the agent is of version 0.0.9" in text


def test_doctor_beside_deep_managed_fields(inplace, agents, kube):
    """Users label pods of theirs, and write managedFields as deep as they like: the agents are found all the same."""
    deep: dict[str, object] = {}
    for _ in range(200):
        deep = {"f:a": deep}
    entry = {"manager": "deep", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    entry |= {"time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:metadata": {"f:labels": {"f:deep": deep}}}}
    labels = {"app.kubernetes.io/name": "inplaced"}
    metadata = {"name": "deep", "namespace": "default", "labels": labels, "managedFields": [entry]}
    spec = {"nodeName": "doctor-good-1", "containers": [{"name": "inplaced", "image": "none"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    made = kube.create(pod)
    try:
        assert "deep" in [one["manager"] for one in made["metadata"]["managedFields"]]
        found = problems(inplace.run("doctor", "-o", "json"))
        assert found["1 node (doctor-older)"] == f"the agent is of version 0.0.9, most others are of {VERSION}"
    finally:
        kube.delete(kube.path_of(pod), gracePeriodSeconds="0")


def n_of_unknown_version(inplace) -> int:
    answer = json.loads(inplace.run("doctor", "-o", "json").stdout)
    facts = {one["subject"]: one["value"] for one in answer["facts"]}
    found = re.search(rf" with an agent, mostly of version {re.escape(VERSION)}(?:, (\d+) of unknown version)?$", facts["nodes"])
    assert found, facts
    return int(found[1] or 0)


def test_doctor_of_services(inplace, agents, kube, hollow):
    """An agent that is no pod is known by what it writes, its version by an annotation of a NodeImage of its own;
    kruise-daemon is no agent.
    """
    before = n_of_unknown_version(inplace)  # nodes of other tests
    hollow("doctor-bare", tag("1", "Succeeded", 100))
    status = {"desired": 1, **dict.fromkeys(("succeeded", "failed", "pulling"), 0)}
    hollow("doctor-good-1")  # beside the pod
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "doctor-kruise"}}
    kube.create(node)
    kube.create(
        {
            "apiVersion": "apps.kruise.io/v1beta1",
            "kind": "NodeImage",
            "metadata": {"name": "doctor-kruise"},
            "spec": {"images": {}},
        }
    )
    try:
        path = f"{_NODE_IMAGES}/doctor-kruise"
        kube.patch(f"{path}/status", {"status": status}, fieldManager="kruise-daemon")
        ran = inplace.run("doctor", "-o", "json")
        assert n_of_unknown_version(inplace) == before + 1
        (missing,) = (name for name, message in problems(ran).items() if message == "there is no agent")
        assert "doctor-kruise" in missing and "doctor-bare" not in missing
        for version, n_unknown in ((VERSION, 0), (f"{VERSION}\n", 1), ("1" * 65, 1), ("", 1), ("0.0.7+x~1-2", 0)):
            annotations = {"inplaced.io/agent-version": version}
            kube.patch(f"{_NODE_IMAGES}/doctor-bare", {"metadata": {"annotations": annotations}})
            assert n_of_unknown_version(inplace) == before + n_unknown, version
        assert f"the agent is of version 0.0.7+x~1-2, most others are of {VERSION}" in (
            problems(inplace.run("doctor", "-o", "json")).values()
        )
    finally:
        kube.delete(kube.path_of(node))
        kube.delete(path)


def test_doctor_of_a_silent_agent(inplace, agents, kube, hollow):
    """The old report of a silent agent, a pod or a service, does not count when it does not take up a request. The
    time of this machine does not matter."""
    nodes = ["doctor-bare", "doctor-good-1"]
    for name in nodes:
        hollow(name, tag("1", "Succeeded", 100))

    def doctor(**environment: str) -> tuple[list[str], str]:
        answer = inplace.run("doctor", "-o", "json", **environment)
        facts = {one["subject"]: one["value"] for one in json.loads(answer.stdout)["facts"]}
        said = " ".join(name for name, said in problems(answer).items() if "does not answer" in said)
        silent = [name for name in nodes if name in said]  # Other tests leave silent nodes, too.
        return silent, facts.get("agents known by what they wrote", "")

    _, traces = doctor()
    assert re.search(r"services of their nodes, or removed since; the oldest write was .* ago", traces)

    for name in nodes:
        path = f"{_NODE_IMAGES}/{name}"
        # The time of a write has seconds only.
        wrote = max(one["time"] for one in kube.get(path)["metadata"]["managedFields"])
        wait_until(lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()) > wrote, 5, "a second")
        images = {"registry.test/new": {"tags": [{"tag": "2", "version": 3}]}}
        kube.patch(path, {"spec": {"images": images}})
    assert doctor(**clock.environment(clock.HOUR))[0] == []
    wait_until(lambda: doctor()[0] == nodes, 30 * SLOWLY, lambda: f"silent agents: {doctor()}")

    statuses = {"registry.test/new": {"tags": [{"tag": "2", "version": 3, "phase": "Waiting"}]}}
    for name in nodes:
        status = {"status": {"imageStatuses": statuses}}
        kube.patch(f"{_NODE_IMAGES}/{name}/status", status, fieldManager="inplaced")
    assert doctor()[0] == []


def test_doctor_of_limits(inplace, agents, kube, control_plane):
    """The policies that limit agents are there, and are bound."""
    said = "no admission policy limits what agents write to "
    assert said not in inplace.run("doctor").stdout
    bindings = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
    try:
        kube.patch(f"{bindings}/inplaced-pods", {"spec": {"validationActions": ["Audit"]}})
        assert f"{said}pods;" in inplace.run("doctor").stdout
        kube.delete(f"{bindings}/inplaced-resources")
        assert f"{said}NodeImages and pods;" in inplace.run("doctor").stdout
    finally:
        control_plane.install()
    assert said not in inplace.run("doctor").stdout


def test_doctor_of_components(inplace, agents, kube, control_plane):
    """The policy of a component is there, and refuses, where its right is granted."""
    file = MANIFESTS / "components" / "pull-slots" / "policy.yaml"
    admission = "/apis/admissionregistration.k8s.io/v1"
    policy, binding = (f"{admission}/validatingadmissionpolic{end}/inplaced-leases" for end in ("ies", "ybindings"))
    was_there = kube.find(policy) is not None
    right = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {
            "name": "my-inplaced-pull-slots",
            "namespace": "default",
            "labels": {"app.kubernetes.io/part-of": "inplaced"},
        },
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "none"},
    }
    control_plane.apply_files(file)
    kube.create(right)
    try:
        assert "component pull-slots" not in inplace.run("doctor").stdout
        kube.patch(binding, {"spec": {"validationActions": ["Audit"]}})
        said = 'component pull-slots: the policy "inplaced-leases" '
        assert f"{said}has no binding that denies" in inplace.run("doctor").stdout
        kube.delete(binding)
        kube.delete(policy)
        assert f"{said}is missing" in inplace.run("doctor").stdout
    finally:
        kube.delete(kube.path_of(right))
        control_plane.apply_files(file)
        for path in () if was_there else (binding, policy):
            kube.delete(path)


def test_image_ids(inplace, hollow):
    """Image IDs are shown without a repository, since they are no reference to pull by."""
    digest = "sha256:" + "0123456789abcdef" * 4
    hollow("kubectl-id", {**tag("1", "Succeeded", 100), "imageID": f"registry.test/app@{digest}"}, pool="id")
    (row,) = rows(inplace.run("images", "-l", "pool=id", "-o", "wide"))
    assert digest in row and f"registry.test/app@{digest}" not in row


def test_agent_of_a_status(inplace, agents, kube):
    """status shows the version of the agent of the pod's node."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "of-older", "namespace": "default"},
        "spec": {"nodeName": "doctor-older", "containers": [{"name": "main", "image": "app:1"}]},
    }
    kube.create(pod)
    try:
        assert " 0.0.9" in inplace.run("status", "of-older").stdout
    finally:
        kube.delete(kube.path_of(pod), gracePeriodSeconds="0")


def test_doctor_without_rights(inplace, control_plane, kube, folder):
    """Missing rights are named, by the command that needs them. Who may not write a kind may not want to."""
    kube.apply(
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "kubectl-none", "namespace": "inplaced"},
        }
    )
    token = control_plane.service_account_token("inplaced", "kubectl-none")
    path = control_plane.write_kubeconfig(folder / "none.conf", token=token)
    ran = inplace.run("doctor", "-o", "json", KUBECONFIG=path)
    assert ran.code == 3, ran.stderr
    found = problems(ran)
    assert found == {"rights": "this user may use none of the commands above"}
    facts = {fact["subject"]: fact["value"] for fact in json.loads(ran.stdout)["facts"]}
    assert facts["restart"] == (
        "this user lacks get, patch pods; list, watch pods; list, watch poddisruptionbudgets.policy; "
        "list replicasets.apps"
    )
    assert facts["set image of StatefulSets"] == (
        "this user lacks get, list, watch, patch statefulsets.apps; list, watch pods; patch pods; "
        "list, watch controllerrevisions.apps; list, watch poddisruptionbudgets.policy; patch pods/status"
    )
    assert "forbidden" in facts["nodes"]
    denied = inplace.run("status", KUBECONFIG=path)
    assert denied.code == 1
    assert "forbidden" in denied.stderr

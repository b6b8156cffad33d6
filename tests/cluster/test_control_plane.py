# SPDX-License-Identifier: Apache-2.0
"""Proves the lab itself: the control plane, our custom resources in it, and what the agent may do."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from lab.control_plane import ControlPlane
from lab.kube import KubeError
from lab.kubeconfig import write_kubeconfig
from lab.node_image import NodeImage
from lab.wait import wait_until

MODULES = Path(__file__).parent / "control-plane"
KRUISE = "/apis/apps.kruise.io"
TIME = "2026-01-02T03:04:05Z"
COUNTS = {"desired": 1, "succeeded": 0, "failed": 0, "pulling": 1, "waiting": 0}
REFERENCE = {
    "apiVersion": "apps.kruise.io/v1beta1",
    "kind": "ImagePullJob",
    "namespace": "default",
    "name": "job",
    "uid": "f3a5",
    "resourceVersion": "7",
    "fieldPath": "spec",
}
IMAGE = {
    "pullSecrets": [{"namespace": "kruise-daemon-config", "name": "hub", "mode": "batch"}],
    "sandboxConfig": {"labels": {"app": "web"}, "annotations": {"note": "x"}},
    "tags": [
        {
            "tag": "1.25",
            "createdAt": TIME,
            "version": 3,
            "imagePullPolicy": "IfNotPresent",
            "ownerReferences": [REFERENCE],
            "pullPolicy": {
                "timeoutSeconds": 600,
                "backoffLimit": 3,
                "activeDeadlineSeconds": 1200,
                "ttlSecondsAfterFinished": 300,
            },
        }
    ],
}
TAG_STATUS = {
    "tag": "1.25",
    "phase": "Succeeded",
    "progress": 100,
    "startTime": TIME,
    "completionTime": TIME,
    "version": 3,
    "imageID": "nginx@sha256:0a",
    "message": "none",
}
STATUS = {
    **COUNTS,
    "imageStatuses": {"nginx": {"tags": [TAG_STATUS]}},
    "firstSyncStatus": {"syncAt": TIME, "status": "Succeeded", "message": "none"},
}

HTTP_GET = {
    "path": "/stop",
    "port": "web",
    "host": "10.0.0.1",
    "scheme": "HTTPS",
    "httpHeaders": [{"name": "X-Reason", "value": "update"}],
}
RECREATE_SPEC = {
    "podName": "web-0",
    "containers": [
        {
            "name": "main",
            "preStop": {
                "exec": {"command": ["/bin/true"]},
                "httpGet": HTTP_GET,
                "tcpSocket": {"port": 80, "host": "10.0.0.1"},
            },
            "ports": [
                {
                    "name": "web",
                    "containerPort": 80,
                    "hostPort": 8080,
                    "hostIP": "10.0.0.1",
                    "protocol": "TCP",
                }
            ],
            "statusContext": {"containerID": "containerd://0a", "restartCount": 0},
        }
    ],
    "strategy": {
        "failurePolicy": "Ignore",
        "orderedRecreate": True,
        "forceRecreate": True,
        "terminationGracePeriodSeconds": 5,
        "unreadyGracePeriodSeconds": 3,
        "minStartedSeconds": 2,
    },
    "activeDeadlineSeconds": 60,
    "ttlSecondsAfterFinished": 600,
}
RECREATE_STATUS = {
    "phase": "Recreating",
    "completionTime": TIME,
    "message": "none",
    "containerRecreateStates": [
        {"name": "main", "phase": "Recreating", "message": "none", "isKilled": True}
    ],
    "containerStatusSnapshot": [
        {"name": "main", "ready": True, "restartCount": 1, "containerID": "containerd://0b"}
    ],
    "conditions": [
        {
            "type": "PreRecreateGrace",
            "status": "True",
            "reason": "PreRecreateGrace",
            "message": "none",
            "lastTransitionTime": TIME,
        }
    ],
}
PROBE_SPEC = {
    "podProbes": [
        {
            "name": "web-0",
            "namespace": "default",
            "uid": "0a",
            "IP": "10.0.0.1",
            "probes": [
                {
                    "name": "marker#idle",
                    "containerName": "main",
                    "probe": {
                        "exec": {"command": ["/idle"]},
                        "httpGet": HTTP_GET,
                        "tcpSocket": {"port": 80, "host": "10.0.0.1"},
                        "grpc": {"port": 80, "service": "web"},
                        "initialDelaySeconds": 1,
                        "timeoutSeconds": 2,
                        "periodSeconds": 3,
                        "successThreshold": 4,
                        "failureThreshold": 5,
                        "terminationGracePeriodSeconds": 6,
                    },
                }
            ],
        }
    ]
}
PROBE_STATE = {
    "name": "marker#idle",
    "state": "Unknown",
    "lastProbeTime": TIME,
    "lastTransitionTime": TIME,
    "message": "none",
}
PROBE_STATUS = {
    "podProbeStatuses": [
        {"name": "web-0", "namespace": "default", "uid": "0a", "probeStates": [PROBE_STATE]}
    ]
}
OBJECTS = {
    "NodeImage": ({"images": {"nginx": IMAGE}}, STATUS),
    "ContainerRecreateRequest": (RECREATE_SPEC, RECREATE_STATUS),
    "NodePodProbe": (PROBE_SPEC, PROBE_STATUS),
}


def test_api_answers(kube, control_plane):
    version = kube.get("/version")["gitVersion"]
    release = version.removeprefix("v").rpartition(".")[0]
    assert f"k8s.io/kubernetes {version}" in (MODULES / release / "go.mod").read_text()
    assert kube.request("GET", "/readyz") == "ok"
    with pytest.raises(KubeError) as error:
        control_plane.client("wrong").get("/api/v1/nodes")
    assert (error.value.code, error.value.reason) == (401, "Unauthorized")


@pytest.mark.parametrize(
    ("kind", "written", "read"),
    [
        ("NodeImage", "v1alpha1", "v1beta1"),
        ("NodeImage", "v1beta1", "v1alpha1"),
        ("ContainerRecreateRequest", "v1alpha1", "v1beta1"),
        ("ContainerRecreateRequest", "v1beta1", "v1alpha1"),
        ("NodePodProbe", "v1alpha1", "v1alpha1"),
    ],
)
def test_every_field_is_kept(kube, node_name, kind, written, read):
    """An object written in one version has all its fields in each version."""
    spec, status = OBJECTS[kind]
    meta = {"name": f"{node_name}-{written}"}
    document = {"apiVersion": f"apps.kruise.io/{written}", "kind": kind, "metadata": meta}
    path = kube.path_of(document)
    made = kube.create({**document, "spec": spec, "status": status})
    assert "status" not in made, "the status is not written with the rest"
    assert kube.patch(f"{path}/status", {"status": status})["spec"] == spec
    for version in (written, read):
        seen = kube.get(path.replace(f"/{written}/", f"/{version}/"))
        assert seen["apiVersion"] == f"apps.kruise.io/{version}"
        assert (seen["spec"], seen["status"]) == (spec, status)
    kube.delete(path)


def test_unknown_fields_are_pruned(node_image):
    image_spec = {"tags": [{"tag": "1", "unheard": 1}], "unheard": {}}
    answer = node_image.set_spec({"images": {"nginx": image_spec}, "unheard": []})
    assert answer["spec"] == {"images": {"nginx": {"tags": [{"tag": "1"}]}}}
    answer = node_image.patch_status({**COUNTS, "unheard": 1})
    assert answer["status"] == COUNTS


@pytest.mark.parametrize(
    "image",
    [
        "text",
        {},
        {"tags": {}},
        {"tags": [{}]},
        {"tags": [{"tag": ""}]},
        {"tags": [{"tag": 1}]},
        {"tags": [{"tag": "1", "version": "2"}]},
        {"tags": [{"tag": "1", "version": -1}]},
        {"tags": [{"tag": "1", "createdAt": "today"}]},
        {"tags": [{"tag": "1", "pullPolicy": {"timeoutSeconds": 0.5}}]},
        {"tags": [{"tag": "1"}, {"tag": "1"}]},
        {"tags": [], "pullSecrets": ["name"]},
    ],
    ids=str,
)
def test_invalid_specs_are_refused(node_image, image):
    with pytest.raises(KubeError) as error:
        node_image.set_spec({"images": {"nginx": image}})
    assert (error.value.code, error.value.reason) == (422, "Invalid")
    assert node_image.get()["spec"]["images"] == {}


@pytest.mark.parametrize(
    "status",
    [
        {"desired": 1},
        {**COUNTS, "failed": "1"},
        {**COUNTS, "imageStatuses": {"nginx": {"tags": [{"tag": "1"}]}}},
        {**COUNTS, "imageStatuses": {"nginx": {"tags": [{**TAG_STATUS, "progress": 0.5}]}}},
    ],
    ids=str,
)
def test_wrong_statuses_are_refused(node_image, status):
    """The schemas are as strict as OpenKruise's: an object accepted here is accepted there."""
    with pytest.raises(KubeError) as error:
        node_image.patch_status(status)
    assert (error.value.code, error.value.reason) == (422, "Invalid")


def test_a_recreate_request_has_a_phase(kube):
    crr = {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "ContainerRecreateRequest",
        "metadata": {"name": "phase"},
        "spec": {"podName": "web-0", "containers": [{"name": "main"}]},
    }
    kube.create(crr)
    path = kube.path_of(crr)
    for status in ({"message": "no phase"}, {"phase": "Unheard"}):
        with pytest.raises(KubeError) as error:
            kube.patch(f"{path}/status", {"status": status})
        assert error.value.reason == "Invalid"
    kube.delete(path)


def test_how_people_call_them(kube):
    """Requests have a short name, and lists have columns of their own."""
    found = {entry["name"]: entry for entry in kube.get(f"{KRUISE}/v1beta1")["resources"]}
    assert found["containerrecreaterequests"]["shortNames"] == ["crr"]
    assert {"nodeimages/status", "containerrecreaterequests/status"} <= set(found)
    for definition in kube.list("/apis/apiextensions.k8s.io/v1/customresourcedefinitions"):
        assert definition["metadata"]["labels"]["app.kubernetes.io/part-of"] == "inplaced"
        columns = definition["spec"]["versions"][0]["additionalPrinterColumns"]
        assert [column["name"] for column in columns][-1] == "Age"


@pytest.mark.parametrize(
    ("is_allowed", "verb", "resource", "namespace"),
    [
        (True, "watch", "apps.kruise.io/nodeimages", ""),
        (True, "create", "apps.kruise.io/nodeimages", ""),
        (True, "patch", "apps.kruise.io/nodeimages", ""),
        (True, "patch", "apps.kruise.io/nodeimages/status", ""),
        (True, "get", "/nodes", ""),
        (True, "watch", "/pods", ""),
        (True, "patch", "/pods/status", "default"),
        (True, "watch", "apps.kruise.io/containerrecreaterequests", ""),
        (True, "patch", "apps.kruise.io/containerrecreaterequests", "default"),
        (True, "delete", "apps.kruise.io/containerrecreaterequests", "default"),
        (True, "patch", "apps.kruise.io/containerrecreaterequests/status", "default"),
        (True, "get", "coordination.k8s.io/leases", "kube-node-lease"),
        (True, "create", "/events", "default"),
        (True, "patch", "/events", "team-a"),
        (True, "get", "/secrets", "kruise-daemon-config"),
        (False, "update", "apps.kruise.io/nodeimages", ""),
        (False, "delete", "apps.kruise.io/nodeimages", ""),
        (False, "list", "/nodes", ""),
        (False, "patch", "/nodes", ""),
        (False, "list", "/secrets", "kruise-daemon-config"),
        (False, "create", "/secrets", "kruise-daemon-config"),
        (False, "get", "/secrets", "default"),
        (False, "get", "/secrets", "kube-system"),
        (False, "patch", "/pods", "default"),
        (False, "delete", "/pods", "default"),
        (False, "create", "/pods/eviction", "default"),
        (False, "create", "apps.kruise.io/containerrecreaterequests", "default"),
        (False, "list", "coordination.k8s.io/leases", "kube-node-lease"),
        (False, "delete", "/events", "default"),
    ],
)
def test_what_the_agent_may_do(kube, is_allowed, verb, resource, namespace):
    group, name, part = (*resource.split("/"), "")[:3]
    attributes = {"verb": verb, "group": group, "resource": name, "subresource": part}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": "system:serviceaccount:inplaced:inplaced",
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "resourceAttributes": {**attributes, "namespace": namespace},
        },
    }
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    assert kube.post(path, review)["status"]["allowed"] == is_allowed


def test_service_account(control_plane, node_image, node_name):
    """The agent's token is a real one, and the server logs its requests."""
    token = control_plane.agent_token()
    agent = NodeImage(control_plane.client(token), node_name)
    agent.patch_status(COUNTS)
    with pytest.raises(KubeError) as error:
        agent.delete()
    assert error.value.reason == "Forbidden"

    def done() -> list[tuple]:
        return [
            (entry["verb"], entry["responseStatus"]["code"], entry.get("requestObject"))
            for entry in control_plane.audit()
            if node_name in entry["requestURI"]
        ]

    wait_until(lambda: len(done()) >= 2, 10, lambda: f"both, only {done()}")
    expected = [("patch", 200, {"status": COUNTS}), ("delete", 403, None)]
    assert sorted(done(), key=str) == sorted(expected, key=str)


def test_client_certificate(control_plane):
    """A node may read its own Node object and no other."""
    node = control_plane.client(certificate=control_plane.node_certificate("one"))
    assert node.find("/api/v1/nodes/one") is None
    with pytest.raises(KubeError) as error:
        node.get("/api/v1/nodes/two")
    assert error.value.reason == "Forbidden"


def test_watch(node_image):
    watch = node_image.watch()
    assert next(watch)["type"] == "ADDED"
    node_image.request("nginx:1.25")
    changed = next(watch)
    assert (changed["type"], list(changed["object"]["spec"]["images"])) == ("MODIFIED", ["nginx"])
    node_image.patch_status(COUNTS)
    changed = next(watch)
    assert (changed["type"], changed["object"]["status"]) == ("MODIFIED", COUNTS)
    node_image.delete()
    assert next(watch)["type"] == "DELETED"
    watch.close()


def test_kubeconfig(folder):
    """Every kind of credential is written where clients read it."""
    for name, content in (("ca.crt", "authority"), ("a.crt", "certificate"), ("a.key", "key")):
        (folder / name).write_text(content)
    pair = folder / "a.crt", folder / "a.key"
    path = write_kubeconfig(
        folder / "config",
        "https://127.0.0.1:1",
        folder / "ca.crt",
        token="secret",
        token_file=folder / "token",
        certificate=pair,
        command=["/bin/login", "--now"],
        is_inline=True,
        tls_server_name="api",
    )
    assert path.stat().st_mode & 0o777 == 0o600
    document = yaml.safe_load(path.read_text())
    assert document["clusters"][0]["cluster"] == {
        "server": "https://127.0.0.1:1",
        "tls-server-name": "api",
        "certificate-authority-data": "YXV0aG9yaXR5",
    }
    user = document["users"][0]["user"]
    assert (user["token"], user["tokenFile"]) == ("secret", str(folder / "token"))
    assert user["client-certificate-data"] == "Y2VydGlmaWNhdGU="
    assert user["client-key-data"] == "a2V5"
    assert (user["exec"]["command"], user["exec"]["args"]) == ("/bin/login", ["--now"])


def stream_of(control_plane):
    """The first event of a streamed list, apart from the objects."""
    query = {"sendInitialEvents": "true", "allowWatchBookmarks": "true"}
    query["resourceVersionMatch"] = "NotOlderThan"
    for event in control_plane.admin.watch(f"{KRUISE}/v1beta1/nodeimages", **query):
        if event["type"] != "ADDED":
            return event
    raise AssertionError("the watch ended")


def test_lists_are_streamed(control_plane, node_image):
    event = stream_of(control_plane)
    assert event["type"] == "BOOKMARK"
    assert "k8s.io/initial-events-end" in event["object"]["metadata"]["annotations"]


@pytest.mark.slow
def test_parts_die_and_come_back(folder):
    """The control plane also runs with Debian's etcd, which is too old for streamed lists."""
    with ControlPlane(folder / "cp", etcd="debian") as control_plane:
        control_plane.install()
        image = NodeImage(control_plane.admin, "one")
        image.create("nginx:1.25")
        assert stream_of(control_plane)["type"] == "ERROR"
        control_plane.apiserver.kill9()
        with pytest.raises(OSError):
            image.get()
        control_plane.apiserver.start()
        assert "nginx" in image.get()["spec"]["images"]
        control_plane.etcd.restart()
        control_plane.apiserver.wait_ready()
        image.patch_status(COUNTS)
        control_plane.apiserver.freeze()
        control_plane.apiserver.thaw()
        assert image.status() == COUNTS


def test_closed_means_gone(folder):
    control_plane = ControlPlane(folder / "cp")
    control_plane.etcd.start()
    process = control_plane.etcd.process
    control_plane.close()
    wait_until(lambda: process.code is not None, 5, "end of etcd")
    assert not control_plane.folder.exists()

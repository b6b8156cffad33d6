# SPDX-License-Identifier: Apache-2.0
"""Proves that an agent can write only what belongs to its own node, whatever its roles allow.

The account of the agent may do everything here, so that what is refused is refused by the policies. That
the whole agent works under them is proved by all tests with pods: their agents have tokens that are bound to
their Node (`start_node_agent`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from lab import sanitizers
from lab.control_plane import ControlPlane
from lab.kube import Kube, KubeError, Object
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS

META = "apps.kruise.io/runtime-containers-meta"
LABEL = "crr.apps.kruise.io/node-name"
KRUISE = "/apis/apps.kruise.io/v1beta1"
IMAGES = f"{KRUISE}/nodeimages"
PROBES = "/apis/apps.kruise.io/v1alpha1/nodepodprobes"
REQUESTS = f"{KRUISE}/namespaces/default/containerrecreaterequests"
COUNTS = {"desired": 0, "succeeded": 0, "failed": 0, "pulling": 0, "waiting": 0}

_numbers = itertools.count(1)


def condition(kind: str, status: str = "True") -> Object:
    return {"status": {"conditions": [{"type": kind, "status": status}]}}


def meta(**metadata: object) -> Object:
    return {"metadata": metadata}


class World:
    """Two nodes, `mine` and `other`, with a NodeImage, a pod and a request each; all may be changed."""

    def __init__(self, control_plane: ControlPlane) -> None:
        self.control_plane = control_plane
        self.admin = control_plane.admin
        for node in ("mine", "other"):
            self.admin.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}})
            self.admin.create(node_image(node))
            self.admin.create(node_probe(node))
        self.everything = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "everything"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "cluster-admin",
            },
            "subjects": [
                {"kind": "ServiceAccount", "name": "inplaced", "namespace": "inplaced"},
                {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "Group",
                    "name": "system:nodes",
                },
            ],
        }
        self.admin.create(self.everything)
        tokens = control_plane.service_account_token
        certificate = control_plane.node_certificate("mine")
        self.who: dict[str, Kube] = {
            "agent": control_plane.client(tokens("inplaced", "inplaced", node="mine")),
            "unbound": control_plane.client(tokens("inplaced", "inplaced")),
            "kubelet": control_plane.client(certificate=certificate),
        }

    def pod(self, node: str) -> str:
        """The path of a new pod."""
        name = f"pod-{next(_numbers)}"
        made = self.admin.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": name,
                    "labels": {"app": "web"},
                    "annotations": {"note": "x"},
                    "finalizers": ["lab.example/keep"],
                },
                "spec": {"nodeName": node, "containers": [{"name": "main", "image": "none"}]},
            }
        )
        path = self.admin.path_of(made)
        self.admin.patch(f"{path}/status", condition("Ready", "False"), "strategic")
        return path

    def request(self, node: str | None) -> str:
        """The path of a new request, prepared for the node or not at all."""
        labels = {LABEL: node} if node else {}
        made = self.admin.create(
            {
                "apiVersion": "apps.kruise.io/v1beta1",
                "kind": "ContainerRecreateRequest",
                "metadata": {"name": f"request-{next(_numbers)}", "labels": labels},
                "spec": {"podName": "web-0", "containers": [{"name": "main"}]},
            }
        )
        return self.admin.path_of(made)

    def close(self) -> None:
        for kube in self.who.values():
            kube.close()


def node_image(name: str | None, **metadata: str) -> Object:
    about = {"name": name} if name else {}
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "NodeImage",
        "metadata": {**about, **metadata},
        "spec": {"images": {}},
    }


def node_probe(name: str) -> Object:
    return {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "NodePodProbe",
        "metadata": {"name": name},
        "spec": {"podProbes": []},
    }


@pytest.fixture(scope="module")
def world(session_folder) -> Iterator[World]:
    with ControlPlane(session_folder / "policy") as control_plane:
        control_plane.install()
        made = World(control_plane)
        agent = made.who["agent"]

        # The server begins with roles and policies a moment after they were made.
        for path in (f"{IMAGES}/other", made.pod("other")):
            wait_until(lambda path=path: is_limited(agent, path), 30 * SLOWLY, "policy", 0.1)
        yield made
        made.close()


def is_limited(agent: Kube, path: str) -> bool:
    """Whether the policies refuse a request that the roles allow."""
    try:
        agent.patch(path, meta(labels={"late": "x"}))
    except KubeError as error:
        return "ValidatingAdmissionPolicy" in str(error)
    return False


def refusal(action: Callable[[], object]) -> str | None:
    """The name and message of the policy that refuses the action; None if it is allowed."""
    try:
        action()
    except KubeError as error:
        assert (error.code, error.reason) == (403, "Forbidden"), error
        assert "ValidatingAdmissionPolicy 'inplaced-" in str(error), error
        return str(error).partition("ValidatingAdmissionPolicy ")[2]
    return None


# The account and its action on the pod `path` of the node.
_POD_ROWS: dict[str, tuple[str, str, Callable[[Kube, str], object], str | None]] = {
    "annotation": (
        "agent",
        "mine",
        lambda kube, path: kube.patch(f"{path}/status", meta(annotations={META: "{}"})),
        None,
    ),
    "verified": (
        "agent",
        "mine",
        lambda kube, path: kube.patch(
            f"{path}/status", condition("inplaced.io/InPlaceVerified"), "strategic"
        ),
        None,
    ),
    "ready-gate": (
        "agent",
        "mine",
        lambda kube, path: kube.patch(f"{path}/status", condition("KruisePodReady"), "strategic"),
        None,
    ),
    "own-gate": (
        "agent",
        "mine",
        lambda kube, path: kube.patch(
            f"{path}/status", condition("inplaced.io/Ready"), "strategic"
        ),
        None,
    ),
    "both": (
        "agent",
        "mine",
        lambda kube, path: kube.patch(
            f"{path}/status",
            meta(annotations={META: "{}"}) | condition("inplaced.io/InPlaceVerified", "False"),
            "strategic",
        ),
        None,
    ),
    "pod-of-another-node": (
        "agent",
        "other",
        lambda kube, path: kube.patch(f"{path}/status", meta(annotations={META: "{}"})),
        "only the pods of its node",
    ),
    "token-without-node": (
        "unbound",
        "mine",
        lambda kube, path: kube.patch(f"{path}/status", meta(annotations={META: "{}"})),
        "only the pods of its node",
    ),
    "another-annotation": (
        "agent",
        "mine",
        lambda kube, path: kube.patch(f"{path}/status", meta(annotations={"more": "x"})),
        "only its annotation",
    ),
    "changed-annotation": (
        "agent",
        "mine",
        lambda kube, path: kube.patch(f"{path}/status", meta(annotations={"note": "y"})),
        "only its annotation",
    ),
    "removed-annotation": (
        "agent",
        "mine",
        lambda kube, path: kube.patch(f"{path}/status", meta(annotations={"note": None})),
        "only its annotation",
    ),
    "label": (
        "agent",
        "mine",
        lambda kube, path: kube.patch(f"{path}/status", meta(labels={"app": "api"})),
        "only its annotation",
    ),
    "finalizers": (
        "agent",
        "mine",
        lambda kube, path: kube.patch(f"{path}/status", meta(finalizers=None)),
        "only its annotation",
    ),
    "another-condition": (
        "agent",
        "mine",
        lambda kube, path: kube.patch(f"{path}/status", condition("Ready"), "strategic"),
        "conditions of a pod",
    ),
    "new-condition": (
        "agent",
        "mine",
        lambda kube, path: kube.patch(f"{path}/status", condition("InPlaceUpdateReady"), "strategic"),
        "conditions of a pod",
    ),
    "no-conditions": (
        "agent",
        "mine",
        lambda kube, path: kube.patch(f"{path}/status", {"status": {"conditions": None}}),
        "conditions of a pod",
    ),
    "phase": (
        "agent",
        "mine",
        lambda kube, path: kube.patch(f"{path}/status", {"status": {"phase": "Failed"}}),
        "status of a pod",
    ),
    "pod-ip": (
        "agent",
        "mine",
        lambda kube, path: kube.patch(f"{path}/status", {"status": {"podIP": "192.0.2.1"}}),
        "status of a pod",
    ),
    "qos-removed": (
        "agent",
        "mine",
        lambda kube, path: kube.patch(
            f"{path}/status", [{"op": "remove", "path": "/status/phase"}], "json"
        ),
        "status of a pod",
    ),
    "the-pod-itself": (
        "agent",
        "mine",
        lambda kube, path: kube.patch(path, meta(annotations={META: "{}"})),
        "only through their status",
    ),
    "delete": (
        "agent",
        "mine",
        lambda kube, path: kube.request("DELETE", path),
        "only through their status",
    ),
    "evict": (
        "agent",
        "mine",
        lambda kube, path: kube.post(
            f"{path}/eviction",
            {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": path.rpartition("/")[2]},
            },
        ),
        "only through their status",
    ),
    "exec": (
        "agent",
        "mine",
        lambda kube, path: kube.get(f"{path}/exec", command="id", stdout="true"),
        "only through their status",
    ),
    "create": (
        "agent",
        "mine",
        lambda kube, path: kube.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "new"},
                "spec": {"nodeName": "mine", "containers": [{"name": "main", "image": "none"}]},
            }
        ),
        "only through their status",
    ),
}


@pytest.mark.parametrize("row", _POD_ROWS)
def test_pods(world, row):
    who, node, action, refused = _POD_ROWS[row]
    path = world.pod(node)
    found = refusal(lambda: action(world.who[who], path))
    print(f"{row}: {found or 'allowed'}")
    if refused is None:
        assert found is None
    else:
        assert found is not None and refused in found


def test_others_are_not_limited(world):
    """The policies restrict neither administrators nor kubelets, whose rights are another plugin's."""
    path = world.pod("mine")
    world.admin.patch(f"{path}/status", {"status": {"phase": "Running"}})
    world.who["kubelet"].patch(f"{path}/status", condition("Ready"), "strategic")
    world.admin.patch(f"{IMAGES}/other", meta(labels={"by": "admin"}))


# The account and its action on the NodeImage, or the NodePodProbe, of the node.
_OWN: list[tuple[str, Callable[[Kube, str], object]]] = [
    ("status", lambda kube, node: kube.patch(f"{IMAGES}/{node}/status", {"status": COUNTS})),
    ("labels", lambda kube, node: kube.patch(f"{IMAGES}/{node}", meta(labels={"a": "b"}))),
    ("probe", lambda kube, node: kube.patch(f"{PROBES}/{node}", meta(labels={"a": "b"}))),
    (
        "probe-status",
        lambda kube, node: kube.patch(f"{PROBES}/{node}/status", {"status": {"podProbeStatuses": []}}),
    ),
]


@pytest.mark.parametrize("who", ["agent", "kubelet"])
@pytest.mark.parametrize("name", [name for name, _ in _OWN])
def test_own_objects_only(world, who, name):
    action = dict(_OWN)[name]
    assert refusal(lambda: action(world.who[who], "mine")) is None
    found = refusal(lambda: action(world.who[who], "other"))
    assert found is not None and 'agent of the node "mine"' in found
    found = refusal(lambda: action(world.who["unbound"], "mine"))
    assert found is not None and "is not bound to a node" in found


@pytest.mark.parametrize("who", ["agent", "kubelet"])
def test_create_and_delete_node_images(world, who):
    agent = world.who[who]
    for document in (node_image(None, generateName="mine"), node_image("third")):
        path = IMAGES
        found = refusal(lambda document=document: agent.post(path, document))
        assert found is not None and "only the object of that name" in found
    found = refusal(lambda: agent.request("DELETE", f"{IMAGES}/other"))
    assert found is not None and "only the object of that name" in found
    world.admin.delete(f"{IMAGES}/mine")
    assert refusal(lambda: agent.post(IMAGES, node_image("mine"))) is None


_STATUS = {"status": {"phase": "Recreating"}}

# The label before, the action, and whether it is allowed.
_REQUEST_ROWS: dict[str, tuple[str | None, Callable[[Kube, str], object], bool]] = {
    "own-status": ("mine", lambda kube, path: kube.patch(f"{path}/status", _STATUS), True),
    "own-label": ("mine", lambda kube, path: kube.patch(path, meta(labels={"a": "b"})), True),
    "own-delete": ("mine", lambda kube, path: kube.request("DELETE", path), True),
    "adopted": (None, lambda kube, path: kube.patch(path, meta(labels={LABEL: "mine"})), True),
    "other-status": ("other", lambda kube, path: kube.patch(f"{path}/status", _STATUS), False),
    "other-delete": ("other", lambda kube, path: kube.request("DELETE", path), False),
    "taken": ("other", lambda kube, path: kube.patch(path, meta(labels={LABEL: "mine"})), False),
    "given": ("mine", lambda kube, path: kube.patch(path, meta(labels={LABEL: "other"})), False),
    "freed": ("mine", lambda kube, path: kube.patch(path, meta(labels={LABEL: None})), False),
    "free-status": (None, lambda kube, path: kube.patch(f"{path}/status", _STATUS), False),
    "free-delete": (None, lambda kube, path: kube.request("DELETE", path), False),
    "free-given": (None, lambda kube, path: kube.patch(path, meta(labels={LABEL: "other"})), False),
    "created": (
        None,
        lambda kube, path: kube.create(
            {
                "apiVersion": "apps.kruise.io/v1beta1",
                "kind": "ContainerRecreateRequest",
                "metadata": {"name": f"own-{next(_numbers)}", "labels": {LABEL: "mine"}},
                "spec": {"podName": "web-0", "containers": [{"name": "main"}]},
            }
        ),
        False,
    ),
}


@pytest.mark.parametrize("who", ["agent", "kubelet"])
@pytest.mark.parametrize("row", _REQUEST_ROWS)
def test_requests(world, who, row):
    label, action, is_allowed = _REQUEST_ROWS[row]
    path = world.request(label)
    found = refusal(lambda: action(world.who[who], path))
    assert (found is None) == is_allowed, found
    assert found is None or "ContainerRecreateRequests of its node" in found


def test_requests_without_a_node(world):
    path = world.request("mine")
    found = refusal(lambda: world.who["unbound"].patch(f"{path}/status", _STATUS))
    assert found is not None and "is not bound to a node" in found


def test_token_of_a_pod(world):
    """The token names the node of the pod, as the token of the agent's own pod does."""
    pod = world.admin.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "agent", "namespace": "inplaced"},
            "spec": {
                "nodeName": "mine",
                "serviceAccountName": "inplaced",
                "containers": [{"name": "main", "image": "none"}],
            },
        }
    )
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {
            "boundObjectRef": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": "agent",
                "uid": pod["metadata"]["uid"],
            }
        },
    }
    path = "/api/v1/namespaces/inplaced/serviceaccounts/inplaced/token"
    agent = world.control_plane.client(world.admin.post(path, request)["status"]["token"])
    status = {"status": COUNTS}
    assert refusal(lambda: agent.patch(f"{IMAGES}/mine/status", status)) is None
    assert refusal(lambda: agent.patch(f"{IMAGES}/other/status", status)) is not None
    agent.close()

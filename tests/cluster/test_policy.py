# SPDX-License-Identifier: Apache-2.0
"""Proves that an agent can write only what belongs to its own node, whatever its roles allow, and however
it was installed: in its usual namespace, in another one, with other names, by helm, or on the nodes with the
identity of the kubelet.

The account of the agent may do everything here, so that what is refused is refused by the policies. That
the whole agent works under them is proved by all tests with pods: their agents have tokens that are bound to
their Node (`start_node_agent`).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from lab import sanitizers
from lab.clients import MANIFESTS, render, run_client
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


@dataclass(frozen=True)
class Installation:
    """How users install: by kustomize, with `more` in their own kustomization.yaml, or by helm."""

    overlay: str = "standalone"
    more: Object = field(default_factory=dict)
    release: str = ""  # helm
    components: tuple[str, ...] = ()
    values: tuple[str, ...] = ()  # helm

    def render(self, folder: Path, namespace: str) -> list[Object]:
        if self.release:
            options = ("--namespace", namespace, "--kube-version", "1.34")
            options += tuple(part for value in self.values for part in ("--set", value))
            text = run_client("helm", "template", self.release, MANIFESTS / "chart", *options)
        else:
            folder.mkdir()
            upwards = Path("../" * (len(folder.resolve().parts) - 1))
            manifests = upwards / str(MANIFESTS).lstrip("/")
            kustomization = {"resources": [str(manifests / "overlays" / self.overlay)], **self.more}
            if self.components:
                kustomization["components"] = [str(manifests / "components" / one) for one in self.components]
            (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
            text = render(folder)
        return [document for document in yaml.safe_load_all(text) if document]


_STARTUP = "inplaced.io/images-pending"

# Installations that differ in the names of the account, of the policies and of their bindings.
_INSTALLATIONS: dict[str, Installation] = {
    "inplaced": Installation(),
    "own": Installation(more={"namespace": "own"}),
    "team": Installation(
        more={"namespace": "team", "namePrefix": "team-", "nameSuffix": "-blue"},
        components=("startup-taint", "pull-slots"),
    ),
    "chart": Installation(
        release="preloader",
        values=(
            "imagesReady.enabled=true",
            f"imagesReady.startupTaint={_STARTUP}",
            "pullSlots.enabled=true",
        ),
    ),
    "kubelets": Installation(overlay="kubelet-identity"),
}
# Rights that the roles of each installation grant, and rights that they do not: the verb, the resource, the
# namespace.
_MAY = (
    ("patch", "apps.kruise.io/nodeimages/status", ""),
    ("patch", "/pods/status", "default"),
    ("get", "coordination.k8s.io/leases", "kube-node-lease"),
    ("get", "/secrets", "OWN"),
)
# Rights that only an agent needs that writes to its Node, or takes turns with others.
_MAY_WITH_NODES = (
    ("watch", "/nodes", ""),
    ("patch", "/nodes", ""),
    ("patch", "/nodes/status", ""),
    ("list", "coordination.k8s.io/leases", "OWN"),
    ("create", "coordination.k8s.io/leases", "OWN"),
    ("patch", "coordination.k8s.io/leases", "OWN"),
)
_MAY_NOT = (
    ("delete", "coordination.k8s.io/leases", "OWN"),
    ("patch", "coordination.k8s.io/leases", "kube-node-lease"),
    ("delete", "/nodes", ""),
    ("delete", "apps.kruise.io/nodeimages", ""),
    ("create", "apps.kruise.io/containerrecreaterequests", "default"),
    ("patch", "/pods", "default"),
    ("delete", "/pods", "default"),
    ("create", "/pods/exec", "default"),
    ("list", "coordination.k8s.io/leases", "kube-node-lease"),
    ("list", "/secrets", "OWN"),
    ("get", "/secrets", "kube-system"),
    ("create", "/serviceaccounts/token", "OWN"),
    ("patch", "admissionregistration.k8s.io/validatingadmissionpolicies", ""),
    ("create", "rbac.authorization.k8s.io/clusterrolebindings", ""),
)


def prepare(control_plane: ControlPlane) -> None:
    """Two nodes, `mine` and `other`, with a NodeImage and a NodePodProbe each."""
    control_plane.apply_files(*sorted((MANIFESTS / "crds").glob("*.apps.kruise.io.yaml")))
    for node in ("mine", "other"):
        control_plane.admin.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}})
        control_plane.admin.create(node_image(node))
        control_plane.admin.create(node_probe(node))


class World:
    """An installation, whose account may do everything that the policies do not refuse."""

    def __init__(self, control_plane: ControlPlane, folder: Path, name: str) -> None:
        self.control_plane = control_plane
        self.admin = control_plane.admin
        self.namespace = name
        self.has_nodes = name in ("team", "chart")  # writes to its Node
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        self.documents = [space, *_INSTALLATIONS[name].render(folder, name)]
        if name == "kubelets":  # it brings none
            about = {"name": "inplaced", "namespace": name}
            self.documents.append({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": about})
        for document in self.documents:
            self.admin.apply(document)
        (self.account,) = [
            one["metadata"]["name"] for one in self.documents if one["kind"] == "ServiceAccount"
        ]
        tokens = control_plane.service_account_token
        certificate = control_plane.node_certificate("mine")
        self.who: dict[str, Kube] = {
            "agent": control_plane.client(tokens(name, self.account, node="mine")),
            "unbound": control_plane.client(tokens(name, self.account)),
            "kubelet": control_plane.client(certificate=certificate),
        }
        # As the roles grant it, before the account may do everything.
        self.granted = {right for right in (*_MAY, *_MAY_WITH_NODES, *_MAY_NOT) if self._may(*right)}
        everything = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"everything-{name}"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "cluster-admin",
            },
            "subjects": [
                {"kind": "ServiceAccount", "name": self.account, "namespace": name},
                {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "Group",
                    "name": "system:nodes",
                },
            ],
        }
        self.documents.append(self.admin.create(everything))

    def wait_limited(self, is_limited: bool) -> None:
        """The server begins with roles and policies, and ends, a moment after they were made or deleted."""
        for path in (f"{IMAGES}/other", self.pod("other")):
            wait_until(
                lambda path=path: refuses(self.who["agent"], path) == is_limited,
                30 * SLOWLY,
                f"policies that limit: {is_limited}",
                0.1,
            )

    def remove(self) -> None:
        """The next installation is limited by its own policies."""
        kinds = "ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"
        for document in self.documents:
            if document["kind"] in kinds:
                self.admin.delete(self.admin.path_of(document))
        self.wait_limited(False)
        for document in reversed(self.documents):
            self.admin.delete(self.admin.path_of(document))
        for kube in self.who.values():
            kube.close()

    def _may(self, verb: str, resource: str, namespace: str) -> bool:
        group, name, part = (*resource.split("/"), "")[:3]
        where = self.namespace if namespace == "OWN" else namespace
        asked = {"verb": verb, "group": group, "resource": name, "subresource": part}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {**asked, "namespace": where}},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        return self.who["agent"].post(path, review)["status"]["allowed"]

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


def node_image(name: str | None, **metadata: object) -> Object:
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
def prepared(session_folder) -> Iterator[ControlPlane]:
    with ControlPlane(session_folder / "policy") as control_plane:
        prepare(control_plane)
        yield control_plane


@pytest.fixture(scope="module", params=_INSTALLATIONS)
def world(request, session_folder, prepared) -> Iterator[World]:
    made = World(prepared, session_folder / f"policy-{request.param}", request.param)
    try:
        made.wait_limited(True)
        yield made
    finally:
        made.remove()


def refuses(agent: Kube, path: str) -> bool:
    """Whether the policies refuse a request that the roles allow."""
    try:
        agent.patch(path, meta(labels={"late": "x"}), dryRun="All")
    except KubeError as error:
        return "ValidatingAdmissionPolicy" in str(error)
    return False


def refusal(action: Callable[[], object]) -> str | None:
    """The name and message of the policy that refuses the action; None if it is allowed."""
    try:
        action()
    except KubeError as error:
        assert (error.code, error.reason) == (403, "Forbidden"), error
        assert re.search(r"ValidatingAdmissionPolicy '[^']*inplaced-", str(error)), error
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
    "nothing-on-another-node": (
        "agent",
        "other",
        lambda kube, path: kube.patch(f"{path}/status", {}),
        "only the pods of its node",
    ),
    "condition-on-another-node": (
        "agent",
        "other",
        lambda kube, path: kube.patch(
            f"{path}/status", condition("inplaced.io/InPlaceVerified"), "strategic"
        ),
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
    "generate-name": (
        "agent",
        "mine",
        lambda kube, path: kube.patch(f"{path}/status", meta(generateName="evil-")),
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
    "replaced": (
        "agent",
        "mine",
        lambda kube, path: kube.put(
            f"{path}/status", {**kube.get(path), "status": {"phase": "Succeeded"}}
        ),
        "of a pod",
    ),
    "applied": (
        "agent",
        "mine",
        lambda kube, path: kube.patch(
            f"{path}/status",
            {"apiVersion": "v1", "kind": "Pod", **meta(labels={"more": "x"})},
            "apply",
            fieldManager="lab",
        ),
        "only its annotation",
    ),
    "ephemeral-container": (
        "agent",
        "mine",
        lambda kube, path: kube.patch(
            f"{path}/ephemeralcontainers",
            {"spec": {"ephemeralContainers": [{"name": "debug", "image": "none"}]}},
            "strategic",
        ),
        "only through their status",
    ),
    "resize": (
        "agent",
        "mine",
        lambda kube, path: kube.patch(
            f"{path}/resize",
            {"spec": {"containers": [{"name": "main", "resources": {}}]}},
            "strategic",
        ),
        "only through their status",
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
    "delete-collection": (
        "agent",
        "mine",
        lambda kube, path: kube.request(
            "DELETE",
            path.rpartition("/")[0],
            query={"fieldSelector": f"metadata.name={path.rpartition('/')[2]}"},
        ),
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
    "attach": (
        "agent",
        "mine",
        lambda kube, path: kube.get(f"{path}/attach", stdout="true"),
        "only through their status",
    ),
    "port-forward": (
        "agent",
        "mine",
        lambda kube, path: kube.get(f"{path}/portforward", ports="80"),
        "only through their status",
    ),
    "proxy": (
        "agent",
        "mine",
        lambda kube, path: kube.get(f"{path}/proxy/"),
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


def test_other_metadata(world):
    """Other metadata of pods, which owners and controllers act upon, stays as it is."""
    path = world.pod("mine")
    owner = {"apiVersion": "v1", "kind": "Node", "name": "mine", "uid": "u"}
    before = world.admin.get(path)["metadata"]
    for changed in (
        {"ownerReferences": [owner]},
        {"deletionTimestamp": "2026-01-01T00:00:00Z"},
        {"deletionGracePeriodSeconds": 0},
        {"creationTimestamp": "2026-01-01T00:00:00Z"},
        {"generation": 99},
        {"selfLink": "/api"},
        {"clusterName": "x"},
        {"uid": "u"},
        {"name": "another"},
        {"namespace": "kube-system"},
    ):
        try:
            world.who["agent"].patch(f"{path}/status", meta(**changed))
        except KubeError as error:
            assert error.code in (400, 403, 409, 422), error
    after = world.admin.get(path)["metadata"]
    for key in ("managedFields", "resourceVersion"):
        before.pop(key, None)
        after.pop(key, None)
    assert after == before


def test_roles_of_the_installation(world):
    """The roles are bound to the account and reach what is in fixed namespaces, wherever it is."""
    expected = set(_MAY) if world.namespace != "kubelets" else set()
    assert world.granted == (expected | set(_MAY_WITH_NODES) if world.has_nodes else expected)


def test_others_are_not_limited(world):
    """The policies restrict neither administrators nor kubelets, whose rights are another plugin's."""
    path = world.pod("mine")
    world.admin.patch(f"{path}/status", {"status": {"phase": "Running"}})
    world.who["kubelet"].patch(f"{path}/status", condition("Ready"), "strategic")
    world.admin.patch(f"{IMAGES}/other", meta(labels={"by": "admin"}))


NODES = "/api/v1/nodes"


def taints(*keys: str) -> Object:
    return {"spec": {"taints": [{"key": key, "effect": "NoSchedule"} for key in keys]}}


# The node, the action on it, and the refusal.
_NODE_ROWS: dict[str, tuple[str, Callable[[Kube, str], object], str | None]] = {
    "condition": (
        "mine",
        lambda kube, path: kube.patch(
            f"{path}/status", condition("inplaced.io/ImagesReady"), "strategic"
        ),
        None,
    ),
    "startup-taint": ("mine", lambda kube, path: kube.patch(path, taints("lab/other")), None),
    "condition-of-another-node": (
        "other",
        lambda kube, path: kube.patch(
            f"{path}/status", condition("inplaced.io/ImagesReady"), "strategic"
        ),
        "only the Node of that name",
    ),
    "startup-taint-of-another-node": (
        "other",
        lambda kube, path: kube.patch(path, taints("lab/other")),
        "only the Node of that name",
    ),
    "another-condition": (
        "mine",
        lambda kube, path: kube.patch(f"{path}/status", condition("MemoryPressure"), "strategic"),
        "conditions of a Node",
    ),
    "no-conditions": (
        "mine",
        lambda kube, path: kube.patch(f"{path}/status", {"status": {"conditions": None}}),
        "conditions of a Node",
    ),
    "capacity": (
        "mine",
        lambda kube, path: kube.patch(f"{path}/status", {"status": {"capacity": {"cpu": "99"}}}),
        "status of a Node",
    ),
    "addresses": (
        "mine",
        lambda kube, path: kube.patch(
            f"{path}/status",
            {"status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}},
            "strategic",
        ),
        "status of a Node",
    ),
    "another-taint": (
        "mine",
        lambda kube, path: kube.patch(path, taints(_STARTUP)),
        "taints of a Node",
    ),
    "all-taints": ("mine", lambda kube, path: kube.patch(path, taints()), "taints of a Node"),
    "added-taint": (
        "mine",
        lambda kube, path: kube.patch(path, taints("lab/other", _STARTUP, "lab/new")),
        "taints of a Node",
    ),
    "swapped-taint": (
        "mine",
        lambda kube, path: kube.patch(path, taints("lab/other", "lab/new")),
        "taints of a Node",
    ),
    "unschedulable": (
        "mine",
        lambda kube, path: kube.patch(path, {"spec": {"unschedulable": True}}),
        "spec of a Node",
    ),
    "pod-cidr": (
        "mine",
        lambda kube, path: kube.patch(path, {"spec": {"podCIDR": "192.0.2.0/24"}}),
        "spec of a Node",
    ),
    "labels": (
        "mine",
        lambda kube, path: kube.patch(path, meta(labels={"pool": "x"})),
        "metadata of a Node",
    ),
    "labels-by-status": (
        "mine",
        lambda kube, path: kube.patch(f"{path}/status", meta(labels={"pool": "x"})),
        "metadata of a Node",
    ),
    "annotations": (
        "mine",
        lambda kube, path: kube.patch(path, meta(annotations={"note": "x"})),
        "metadata of a Node",
    ),
    "finalizers": (
        "mine",
        lambda kube, path: kube.patch(path, meta(finalizers=["lab.example/keep"])),
        "metadata of a Node",
    ),
    "owner": (
        "mine",
        lambda kube, path: kube.patch(
            path,
            meta(ownerReferences=[{"apiVersion": "v1", "kind": "Node", "name": "other", "uid": "u"}]),
        ),
        "metadata of a Node",
    ),
    "delete": (
        "mine",
        lambda kube, path: kube.request("DELETE", path),
        "only by its condition",
    ),
    "create": (
        "mine",
        lambda kube, path: kube.create(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "new"}}
        ),
        "only by its condition",
    ),
    "proxy": ("mine", lambda kube, path: kube.get(f"{path}/proxy/"), "only by its condition"),
}


@pytest.mark.parametrize("row", _NODE_ROWS)
def test_nodes(world, row):
    """Where the agent may write to Nodes at all."""
    if not world.has_nodes:
        assert ("patch", "/nodes", "") not in world.granted
        return
    node, action, refused = _NODE_ROWS[row]
    path = f"{NODES}/{node}"
    world.admin.patch(path, taints("lab/other", _STARTUP))
    world.admin.patch(f"{path}/status", condition("MemoryPressure", "False"), "strategic")
    found = refusal(lambda: action(world.who["agent"], path))
    if refused is None:
        assert found is None
        assert refusal(lambda: action(world.who["unbound"], path)) is not None
    else:
        assert found is not None and refused in found
    world.who["kubelet"].patch(f"{NODES}/mine/status", condition("Ready"), "strategic")


SLOT = "inplaced-pull-0123456789abcdef-0"


def lease(name: str, holder: str | None = "mine", **metadata: object) -> Object:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, **metadata},
        "spec": {"holderIdentity": holder},
    }


def hold(holder: str | None) -> Object:
    return {"spec": {"holderIdentity": holder}}


_SLOTS_ONLY = "only the slots of pulls"
_OWN_NODE_ONLY = "hold a slot only for that node"

# The action on Leases, given the path of all of them and that of a slot that another node holds; and the refusal.
_LEASE_ROWS: dict[str, tuple[Callable[[Kube, str, str], object], str | None]] = {
    "take": (lambda kube, all, slot: kube.patch(slot, hold("mine")), None),
    "give-back": (lambda kube, all, slot: kube.patch(slot, hold("")), None),
    "no-holder": (lambda kube, all, slot: kube.patch(slot, hold(None)), None),
    "create": (lambda kube, all, slot: kube.post(all, lease("inplaced-pull-0123456789abcdef-999")), None),
    "hold-for-another": (lambda kube, all, slot: kube.patch(slot, hold("third")), _OWN_NODE_ONLY),
    "keep-for-another": (
        lambda kube, all, slot: kube.patch(slot, meta(annotations={"a": "b"})),
        _OWN_NODE_ONLY,
    ),
    "create-for-another": (
        lambda kube, all, slot: kube.post(all, lease("inplaced-pull-0123456789abcdef-1", "other")),
        _OWN_NODE_ONLY,
    ),
    "delete": (lambda kube, all, slot: kube.request("DELETE", slot), _SLOTS_ONLY),
    "controller": (lambda kube, all, slot: kube.post(all, lease("inplaced-controller")), _SLOTS_ONLY),
    "other-name": (lambda kube, all, slot: kube.post(all, lease(f"x-{SLOT}")), _SLOTS_ONLY),
    "slot-of-text": (lambda kube, all, slot: kube.post(all, lease("inplaced-pull-web-0")), _SLOTS_ONLY),
    "fourth-digit": (lambda kube, all, slot: kube.post(all, lease(f"{SLOT}000")), _SLOTS_ONLY),
    "generated-name": (
        lambda kube, all, slot: kube.post(all, lease("", generateName="inplaced-pull-")),
        _SLOTS_ONLY,
    ),
    "node-lease": (
        lambda kube, all, slot: kube.post(
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", lease("other")
        ),
        _SLOTS_ONLY,
    ),
    "finalizers": (
        lambda kube, all, slot: kube.patch(
            slot, meta(finalizers=["lab.example/keep"]) | hold("mine")
        ),
        "neither finalizers nor owners",
    ),
}


@pytest.mark.parametrize("row", _LEASE_ROWS)
def test_leases(world, row):
    """Where agents take turns: slots, for the own node."""
    if not world.has_nodes:
        assert ("create", "coordination.k8s.io/leases", "OWN") not in world.granted
        return
    action, refused = _LEASE_ROWS[row]
    all_leases = f"/apis/coordination.k8s.io/v1/namespaces/{world.namespace}/leases"
    path = f"{all_leases}/{SLOT}"
    world.admin.delete(path)
    world.admin.post(all_leases, lease(SLOT, "other"))
    found = refusal(lambda: action(world.who["agent"], all_leases, path))
    if refused is None:
        assert found is None
        assert refusal(lambda: world.who["unbound"].patch(path, hold("mine"))) is not None
    else:
        assert found is not None and refused in found
    world.admin.delete(path)


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
    by_name = {"fieldSelector": "metadata.name=other"}
    for path, query in ((f"{IMAGES}/other", None), (IMAGES, by_name), (f"{PROBES}/other", None)):
        found = refusal(lambda path=path, query=query: agent.request("DELETE", path, query=query))
        assert found is not None and "only the object of that name" in found
    world.admin.delete(f"{IMAGES}/mine")
    assert refusal(lambda: agent.post(IMAGES, node_image("mine"))) is None


@pytest.mark.parametrize("who", ["agent", "kubelet"])
def test_no_image_sets(world, who):
    """Other nodes would pull what the NodeImage of this one says."""
    agent, annotations = world.who[who], {"inplaced.io/node-selector": ""}
    found = refusal(lambda: agent.patch(f"{IMAGES}/mine", meta(annotations=annotations)))
    assert found is not None and "no image set" in found
    world.admin.delete(f"{IMAGES}/mine")
    found = refusal(lambda: agent.post(IMAGES, node_image("mine", annotations=annotations)))
    assert found is not None and "no image set" in found
    assert refusal(lambda: agent.post(IMAGES, node_image("mine", annotations={"note": "x"}))) is None


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
    "other-delete-collection": (
        "other",
        lambda kube, path: kube.request(
            "DELETE",
            REQUESTS,
            query={"fieldSelector": f"metadata.name={path.rpartition('/')[2]}"},
        ),
        False,
    ),
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
            "metadata": {"name": "agent", "namespace": world.namespace},
            "spec": {
                "nodeName": "mine",
                "serviceAccountName": world.account,
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
    path = f"/api/v1/namespaces/{world.namespace}/serviceaccounts/{world.account}/token"
    agent = world.control_plane.client(world.admin.post(path, request)["status"]["token"])
    status = {"status": COUNTS}
    assert refusal(lambda: agent.patch(f"{IMAGES}/mine/status", status)) is None
    assert refusal(lambda: agent.patch(f"{IMAGES}/other/status", status)) is not None
    agent.close()

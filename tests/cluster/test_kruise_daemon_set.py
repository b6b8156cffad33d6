# SPDX-License-Identifier: Apache-2.0
"""The DaemonSet of kruise-daemon, in which only image and command are changed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fixtures import Gate
from lab import sanitizers
from lab.agent_image import build_agent_image
from lab.clients import MANIFESTS
from lab.cluster import Cluster
from lab.kube import Object
from lab.node_image import NodeImage
from lab.pod import Pod, container, until_term
from lab.recreate_request import RecreateRequest
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS

pytestmark = [pytest.mark.slow, pytest.mark.containers, pytest.mark.timeout(240 * SLOWLY)]

_NAME = "kruise-daemon"
_NAMESPACE = "kruise-system"
_DAEMON_SET = f"/apis/apps/v1/namespaces/{_NAMESPACE}/daemonsets/{_NAME}"
_STATUSES = ["nodeimages/status", "containerrecreaterequests/status", "nodepodprobes/status"]
_KINDS = ["nodeimages", "containerrecreaterequests", "nodepodprobes"]


def _rule(group: str, resources: list[str], *verbs: str) -> Object:
    return {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}


def _objects(image: str, runtime_folder: str) -> list[Object]:
    """As OpenKruise 1.8 installs them, but in a network namespace of the pod's own: several tests share
    this machine.
    """
    names = {"name": _NAME, "namespace": _NAMESPACE}
    labels = {"control-plane": "daemon"}
    rules = [
        _rule("apps.kruise.io", _KINDS, "get", "list", "watch", "patch", "update"),
        _rule("apps.kruise.io", _STATUSES, "get", "patch", "update"),
        _rule("", ["pods"], "get", "list", "watch"),
        _rule("", ["pods/status"], "get", "patch", "update"),
        _rule("", ["events"], "create", "patch", "update"),
    ]
    rbac = "rbac.authorization.k8s.io"
    main = {
        "name": "daemon",
        "image": image,
        "command": ["/usr/bin/inplaced"],
        "args": [
            "--logtostderr=true",
            "-v=4",
            "--addr=:10221",
            "--feature-gates=ImagePullJobGate=true,PodProbeMarkerGate=true",
            "--max-workers-for-pull-image=-1",
        ],
        "env": [
            {"name": "KUBE_CACHE_MUTATION_DETECTOR", "value": "true"},
            {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        ],
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": 10221, "scheme": "HTTP"},
            "initialDelaySeconds": 5,
        },
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": 10221, "scheme": "HTTP"}},
        "volumeMounts": [
            {"name": "runtime-socket", "mountPath": "/hostvarrun", "readOnly": True}
        ],
    }
    pod = {
        "serviceAccountName": _NAME,
        "terminationGracePeriodSeconds": 10,
        "tolerations": [{"operator": "Exists"}],
        "containers": [main],
        "volumes": [{"name": "runtime-socket", "hostPath": {"path": runtime_folder, "type": ""}}],
    }
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": names},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "kruise-daemon-role"},
            "rules": rules,
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "kruise-daemon-rolebinding"},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "kruise-daemon-role"},
            "subjects": [{"kind": "ServiceAccount", **names}],
        },
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {**names, "labels": labels},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        },
    ]


@pytest.fixture(scope="module")
def images(registry) -> list[str]:
    return [
        registry.push("inplaced-kruise", str(number), build_agent_image(str(number))).reference
        for number in (1, 2)
    ]


@pytest.fixture(scope="module")
def cluster(session_folder, registry, images) -> Iterator[Cluster]:
    with Cluster(session_folder / "k", registry) as made:
        made.kubectl("apply", "-k", MANIFESTS / "crds")
        made.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
        for document in _objects(images[0], str(made.node.containerd.folder)):
            made.admin.create(document)
        yield made


@pytest.fixture
def node_image(cluster) -> Iterator[NodeImage]:
    """As OpenKruise's manager makes one for each node."""
    made = NodeImage(cluster.admin, cluster.node.name)
    made.create()
    yield made
    made.delete()


@pytest.fixture
def pod(cluster, registry) -> Iterator[Pod]:
    """Its container ends when the test lets it."""
    tools = registry.push_image("pods/tools", "1", busybox=True).reference
    lingers = until_term("touch /data/term; while [ ! -e /data/go ]; do sleep 0.1; done")
    main = container("main", tools, command=lingers)
    made = Pod(cluster.node, main, owner=False, terminationGracePeriodSeconds=120)
    yield made.start(60 * SLOWLY)
    made.delete()


def _wait_rolled_out(cluster: Cluster) -> None:
    def is_done(daemons: Object) -> bool:
        status = daemons["status"]
        return (
            status.get("observedGeneration") == daemons["metadata"]["generation"]
            and status.get("updatedNumberScheduled") == status.get("numberReady") == 1
        )

    try:
        cluster.admin.wait_for(_DAEMON_SET, is_done, 90 * SLOWLY)
    except TimeoutError:
        namespace = f"--namespace={_NAMESPACE}"
        shown = cluster.kubectl(namespace, "describe", "pods")
        shown += cluster.kubectl(namespace, "logs", f"daemonset/{_NAME}")
        raise TimeoutError(f"the DaemonSet is not ready\n{shown}") from None


def test_image_and_command_alone(cluster, images, node_image, pod, fake_registry):
    """The agent serves there, and an update of its image loses neither a pull nor a request."""
    _wait_rolled_out(cluster)
    gate = Gate(fake_registry, "kruise/gate", 2 << 20)
    node_image.request(gate.reference)
    node_image.wait_status(gate.reference, "Pulling")
    request = RecreateRequest(pod, "main").create()
    wait_until(pod.file("term").exists, 60 * SLOWLY, "SIGTERM")

    template = {"containers": [{"name": "daemon", "image": images[1]}]}
    cluster.admin.patch(_DAEMON_SET, {"spec": {"template": {"spec": template}}}, kind="strategic")
    _wait_rolled_out(cluster)
    gate.open()
    pod.file("go").touch()
    node_image.wait_status(gate.reference, "Succeeded", 60 * SLOWLY)
    request.wait_phase("Completed", 60 * SLOWLY)
    assert request.state("main")["phase"] == "Succeeded"
    assert pod.restarts() == {"main": 1}
    request.delete()
    log = cluster.kubectl(f"--namespace={_NAMESPACE}", "logs", f"daemonset/{_NAME}")
    assert log.count("Ignoring flags of kruise-daemon") == 1

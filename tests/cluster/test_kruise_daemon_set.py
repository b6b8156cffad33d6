# SPDX-License-Identifier: Apache-2.0
"""The DaemonSet of kruise-daemon, in which only image and command are changed: from the real kruise-daemon to the
agent, and back.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from fake.registry import FakeRegistry
from fixtures import Gate
from lab import sanitizers
from lab.cluster import Cluster, push_agent_images
from lab.kruise import build_kruise_image
from lab.kube import Object
from lab.node_image import NodeImage
from lab.pod import Pod, container, until_term
from lab.recreate_request import Manager, RecreateRequest
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS

pytestmark = [pytest.mark.slow, pytest.mark.containers, pytest.mark.timeout(240 * SLOWLY)]

_NAME = "kruise-daemon"
_NAMESPACE = "kruise-system"
_AGENT = "/usr/bin/inplaced"
_KRUISE = "/kruise-daemon"
_DAEMON_SET = f"/apis/apps/v1/namespaces/{_NAMESPACE}/daemonsets/{_NAME}"
_STATUSES = ["nodeimages/status", "containerrecreaterequests/status", "nodepodprobes/status"]
_KINDS = ["nodeimages", "containerrecreaterequests", "nodepodprobes"]

_numbers = itertools.count(1)


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
        "command": [_AGENT],
        "args": [
            "--logtostderr=true",
            "-v=4",
            "--addr=:10221",
            "--feature-gates=ImagePullJobGate=true,PodProbeMarkerGate=true",
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
    return push_agent_images(registry, "inplaced-kruise")


@pytest.fixture(scope="module")
def kruise_image(registry) -> str:
    return registry.push("kruise", "1", build_kruise_image()).reference


@pytest.fixture(scope="module")
def cluster(session_folder, registry, images) -> Iterator[Cluster]:
    with Cluster(session_folder / "k", registry) as made:
        made.prepare()
        for document in _objects(images[0], str(made.node.runtime.folder)):
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
    """A pod whose container ends when the test lets it."""
    tools = registry.push_image("pods/tools", "1", busybox=True).reference
    lingers = until_term("touch /data/term; while [ ! -e /data/go ]; do sleep 0.1; done")
    main = container("main", tools, command=lingers)
    made = Pod(cluster.node, main, owner=False, terminationGracePeriodSeconds=120)
    yield made.start(60 * SLOWLY)
    made.delete()


def _deploy(cluster: Cluster, image: str, command: str) -> None:
    """Changes image and command of the DaemonSet, and nothing else."""
    main = {"name": "daemon", "image": image, "command": [command]}
    template = {"containers": [main]}
    cluster.admin.patch(_DAEMON_SET, {"spec": {"template": {"spec": template}}}, kind="strategic")
    cluster.wait_rolled_out(_NAMESPACE, _NAME)


def _log(cluster: Cluster) -> str:
    return cluster.kubectl(f"--namespace={_NAMESPACE}", "logs", f"daemonset/{_NAME}")


def _assert_nothing_lost(
    cluster: Cluster,
    node_image: NodeImage,
    pod: Pod,
    registry: FakeRegistry,
    begin: tuple[str, str],
    end: tuple[str, str],
) -> None:
    """A pull and a request that one program has begun are completed by the other one, which does not repeat what
    the first one has finished.
    """
    name = f"swap-{next(_numbers)}"
    done, gate = Gate(registry, f"{name}/done", 2 << 10), Gate(registry, f"{name}/gate", 2 << 20)
    done.open()
    _deploy(cluster, *begin)
    node_image.request(done.reference, gate.reference, policy="Always")
    node_image.wait_status(done.reference, "Succeeded", 60 * SLOWLY)
    node_image.wait_status(gate.reference, "Pulling", 60 * SLOWLY)
    n_asked = len(registry.requests("manifest", f"{name}/done"))
    request = RecreateRequest(pod, "main").create_managed()
    wait_until(pod.file("term").exists, 60 * SLOWLY, lambda: f"SIGTERM: {_log(cluster)}")

    _deploy(cluster, *end)
    gate.open()
    pod.file("go").touch()
    node_image.wait_status(gate.reference, "Succeeded", 90 * SLOWLY)
    node_image.wait_status(done.reference, "Succeeded")
    assert len(registry.requests("manifest", f"{name}/done")) == n_asked
    status = Manager(request).serve(90 * SLOWLY)
    assert [one["phase"] for one in status["containerRecreateStates"]] == ["Succeeded"]
    assert pod.restarts() == {"main": 1}
    request.delete()


def test_update_of_the_image(cluster, images, node_image, pod, fake_registry):
    """The agent serves there, and an update of its image loses nothing."""
    old, new = ((image, _AGENT) for image in images)
    _assert_nothing_lost(cluster, node_image, pod, fake_registry, old, new)
    assert _log(cluster).count("Ignoring flags of kruise-daemon") == 1


def test_takeover(cluster, images, kruise_image, node_image, pod, fake_registry):
    """From the real kruise-daemon to the agent."""
    kruise, ours = (kruise_image, _KRUISE), (images[0], _AGENT)
    _assert_nothing_lost(cluster, node_image, pod, fake_registry, kruise, ours)


def test_back(cluster, images, kruise_image, node_image, pod, fake_registry):
    """From the agent to the real kruise-daemon."""
    kruise, ours = (kruise_image, _KRUISE), (images[0], _AGENT)
    _assert_nothing_lost(cluster, node_image, pod, fake_registry, ours, kruise)

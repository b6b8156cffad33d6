# SPDX-License-Identifier: Apache-2.0
"""Proves the agent and `kubectl inplace` with the real OpenKruise 1.9.0: its manager with controllers and webhooks,
its manifests, and its node agent, from which ours takes over as the guide for operators says.

One thing is not as in a cluster: the manager runs on this machine, so that the API server calls its webhooks by URL.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fixtures import Gate
from lab import documents, sanitizers
from lab.cluster import Cluster, push_agent_images
from lab.inplace import Inplace
from lab.kruise import NAMESPACE, Kruise, build_kruise_image
from lab.kube import Kube, Object
from lab.kubelet import is_ready
from lab.node_image import NodeImage
from lab.pod import GATE, VERIFIED, Pod, container, from_annotations, until_term
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS
LIMIT = 90 * SLOWLY

pytestmark = [pytest.mark.slow, pytest.mark.containers, pytest.mark.timeout(300 * SLOWLY)]

GROUP = "apps.kruise.io"
JOBS = f"/apis/{GROUP}/v1alpha1/namespaces/default/imagepulljobs"
REQUESTS = f"/apis/{GROUP}/v1alpha1/namespaces/default/containerrecreaterequests"
PODS = "/api/v1/namespaces/default/pods"
HERE = "inplaced"  # the label of nodes that our agent serves

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def kruise(session_folder, registry) -> Iterator[Kruise]:
    """With both agents' DaemonSets: a label of the node says which of them serves it."""
    ours = push_agent_images(registry, "inplaced-manager")[0]
    theirs = registry.push("kruise-daemon", "1", build_kruise_image()).reference
    pod = "/spec/template/spec"
    chosen = {"op": "add", "path": f"{pod}/nodeSelector/{HERE}", "value": "here"}
    terms = [{"matchExpressions": [{"key": HERE, "operator": "NotIn", "values": ["here"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    others = {"op": "add", "path": f"{pod}/affinity", "value": {"nodeAffinity": required}}
    with Cluster(session_folder / "m", registry) as cluster, Kruise(cluster, theirs, [others]) as made:
        cluster.prepare(definitions=False)
        cluster.kubectl("apply", "-k", cluster.write_kustomization(ours, "openkruise", [chosen]))
        yield made


@pytest.fixture(scope="module")
def cluster(kruise) -> Cluster:
    return kruise.cluster


@pytest.fixture
def kube(cluster) -> Kube:
    return cluster.admin


def label_node(cluster: Cluster, value: str | None) -> None:
    cluster.admin.patch(cluster.node.path, {"metadata": {"labels": {HERE: value}}})


def wait_agent(cluster: Cluster, namespace: str, name: str) -> None:
    """Waits until the pod of this DaemonSet is the node's ready one, and no other agent's is there."""

    def serves() -> bool:
        found = {
            pod["metadata"]["namespace"]: pod
            for space in ("inplaced", NAMESPACE)
            for pod in cluster.admin.list(f"/api/v1/namespaces/{space}/pods")
        }
        return list(found) == [namespace] and is_ready(found[namespace])

    wait_until(serves, LIMIT, f"{namespace}/{name}", pause=0.1)


@pytest.fixture
def agent(cluster) -> None:
    """Ours serves the node."""
    label_node(cluster, "here")
    wait_agent(cluster, "inplaced", "inplaced")


@pytest.fixture
def node_image(cluster) -> NodeImage:
    """The NodeImage that the manager makes."""
    made = NodeImage(cluster.admin, cluster.node.name, "v1alpha1")
    wait_until(made.find, LIMIT, "NodeImage", 0.1)
    return made


@pytest.fixture
def inplace(cluster, folder) -> Inplace:
    return Inplace(cluster.control_plane.admin_kubeconfig, folder.path)


@pytest.fixture
def push(registry) -> Callable[[], str]:
    """push(): the name of an image with a shell, which nothing has pulled yet."""

    def push() -> str:
        n = next(_numbers)
        return registry.push_image("t/manager", str(n), busybox=True, labels={"n": str(n)}).reference

    return push


# For each kind: its name in commands, its version, and its strategy for updates in place.
KINDS: dict[str, tuple[str, str, Object]] = {
    "CloneSet": ("cloneset", "v1alpha1", {"type": "InPlaceIfPossible"}),
    "StatefulSet": (
        "asts",
        "v1beta1",
        {"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible"}},
    ),
    "DaemonSet": (
        "ads",
        "v1alpha1",
        {"type": "RollingUpdate", "rollingUpdate": {"rollingUpdateType": "InPlaceIfPossible"}},
    ),
}


class Workload:
    """A workload of OpenKruise, whose pods have one container, `app`, with an annotation as a variable."""

    def __init__(self, cluster: Cluster, kind: str, image: str, strategy: Object | None = None) -> None:
        self.cluster = cluster
        self.kube = cluster.admin
        self.app = f"work{next(_numbers)}"
        word, version, in_place = KINDS[kind]
        self.name = f"{word}/{self.app}"
        labels = {"app": self.app}
        main = container("app", image, env=from_annotations(COLOUR="colour"))
        self.document: Object = {
            "apiVersion": f"{GROUP}/{version}",
            "kind": kind,
            "metadata": {"name": self.app, "namespace": "default"},
            "spec": {
                "selector": {"matchLabels": labels},
                "updateStrategy": strategy or in_place,
                "template": {
                    "metadata": {"labels": labels, "annotations": {"colour": "red"}},
                    "spec": {
                        "readinessGates": [{"conditionType": GATE}],
                        "terminationGracePeriodSeconds": 2,
                        "automountServiceAccountToken": False,
                        "volumes": [{"name": "data", "emptyDir": {}}],
                        "containers": [main],
                    },
                },
            },
        }
        self.n = 1 if kind == "DaemonSet" else 2
        if kind != "DaemonSet":
            self.document["spec"]["replicas"] = self.n
        if kind == "StatefulSet":
            self.document["spec"]["serviceName"] = self.app
        self.kube.create(self.document)
        self.path = self.kube.path_of(self.document)

    def change(self, image: str | None = None, **annotations: str) -> None:
        """Patches the template, as `kubectl patch`."""
        template: Object = {"metadata": {"annotations": annotations}}
        if image is not None:
            containers = self.kube.get(self.path)["spec"]["template"]["spec"]["containers"]
            template["spec"] = {"containers": [{**containers[0], "image": image}]}
        self.kube.patch(self.path, {"spec": {"template": template}})

    def pods(self) -> list[Pod]:
        """The pods, once all are ready."""

        def all_ready() -> list[Object]:
            found = self.kube.list(PODS, labelSelector=f"app={self.app}")
            return found if len(found) == self.n and all(map(is_ready, found)) else []

        found = wait_until(all_ready, LIMIT, lambda: f"pods of {self.name}:\n{self.describe()}", 0.1)
        return [self._adopt(one) for one in sorted(found, key=lambda one: one["metadata"]["name"])]

    def _adopt(self, found: Object) -> Pod:
        pod = Pod(self.cluster.node, *found["spec"]["containers"], name=found["metadata"]["name"])
        pod.uid = found["metadata"]["uid"]
        return pod

    def wait_updated(self) -> None:
        """As the controller says."""

        def is_updated(one: Object) -> bool:
            status = one["status"]
            counts = ("updatedReadyReplicas", "updatedNumberScheduled", "updatedReplicas")
            n_updated = next((status[key] for key in counts if key in status), 0)
            n_ready = status.get("readyReplicas", status.get("numberReady", 0))
            is_seen = status.get("observedGeneration") == one["metadata"]["generation"]
            return is_seen and n_updated == n_ready == self.n

        self.kube.wait_for(self.path, is_updated, LIMIT)

    def describe(self) -> str:
        return self.cluster.kubectl("describe", "pods", "-l", f"app={self.app}")

    def delete(self) -> None:
        self.kube.delete(self.path)


@pytest.fixture
def make_workload(cluster) -> Iterator[Callable[..., Workload]]:
    made: list[Workload] = []

    def make(*arguments: Any) -> Workload:
        made.append(Workload(cluster, *arguments))
        return made[-1]

    yield make
    for one in made:
        one.delete()


def gate_states(pod: Pod, since: str) -> list[str]:
    """The states of the controller's gate since that version of the pods."""
    last = pod.get()["metadata"]["resourceVersion"]
    states: list[str] = []
    query = {"fieldSelector": f"metadata.name={pod.name}", "resourceVersion": since}
    for event in pod.kube.watch(PODS, 30, **query):
        conditions = event["object"]["status"].get("conditions", [])
        states += [one["status"] for one in conditions if one["type"] == GATE]
        if event["object"]["metadata"]["resourceVersion"] == last:
            break
    return [state for state, _ in itertools.groupby(states)]


def restarts_of(pod: Object) -> int:
    return pod["status"]["containerStatuses"][0]["restartCount"]


def assert_verified(pods: list[Pod], image: str, colour: str, restarts: int) -> None:
    for pod in pods:
        assert pod.get()["spec"]["containers"][0]["image"] == image
        # More often where the kubelet learned of an annotation after the restart.
        pod.wait(lambda found: restarts_of(found) >= restarts, LIMIT)
        pod.wait_environment("app", "COLOUR", colour, LIMIT)
        pod.wait_meta(LIMIT)
        pod.wait_condition(VERIFIED, "True", LIMIT)


def version_of(cluster: Cluster) -> str:
    return cluster.admin.get(PODS)["metadata"]["resourceVersion"]


# Images


def make_job(kube: Kube, image: str, **spec: Any) -> str:
    """Returns its path."""
    name = f"job-{next(_numbers)}"
    kube.create(
        {
            "apiVersion": f"{GROUP}/v1alpha1",
            "kind": "ImagePullJob",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"image": image, "completionPolicy": {"type": "Always"}, **spec},
        }
    )
    return f"{JOBS}/{name}"


def wait_job(kube: Kube, path: str) -> Object:
    done = kube.wait_for(path, lambda job: job.get("status", {}).get("completionTime"), LIMIT)
    return done["status"]


def counts(status: Object) -> tuple[int, ...]:
    return tuple(status.get(key, 0) for key in ("desired", "active", "succeeded", "failed"))


def test_image_pull_jobs(cluster, kube, agent, node_image, push):
    """The job's first image is there in the end, and the registry does not have the second."""
    image = push()
    missing = f"{image.rpartition(':')[0]}:missing"
    job = make_job(kube, image)
    bad = make_job(kube, missing, pullPolicy={"backoffLimit": 0, "timeoutSeconds": 60})
    assert counts(wait_job(kube, job)) == (1, 0, 1, 0)
    assert cluster.node.runtime.cri.image_status(image) is not None
    status = wait_job(kube, bad)
    assert counts(status) == (1, 0, 0, 1)
    assert status["failedNodes"] == [cluster.node.name]
    message = node_image.tag_status(missing)["message"]
    assert "NotFound" in message or "not found" in message, message
    # Without the jobs, the manager takes the requests back.
    for path in (job, bad):
        kube.delete(path)
    wait_until(lambda: node_image.get()["spec"].get("images", {}) == {}, LIMIT, "empty spec", 0.1)
    wait_until(lambda: node_image.status()["desired"] == 0, LIMIT, "empty status", 0.1)


def test_pull_secret(cluster, kube, agent, auth_registry):
    """The manager copies the secret of a workload's namespace to where the agent may read it, and removes it again."""
    image = auth_registry.push_image("t/manager", str(next(_numbers)), [3000]).reference
    assert auth_registry.credentials is not None
    secret = documents.pull_secret("login", "default", auth_registry.host, auth_registry.credentials)
    kube.create(secret)
    copies = "/api/v1/namespaces/kruise-daemon-config/secrets"
    job = make_job(kube, image, pullSecrets=["login"])
    assert counts(wait_job(kube, job)) == (1, 0, 1, 0)
    assert cluster.node.runtime.cri.image_status(image) is not None
    wait_until(lambda: kube.list(copies) == [], LIMIT, lambda: f"end of {kube.list(copies)}", 0.1)
    for path in (job, kube.path_of(secret)):
        kube.delete(path)


def test_preload(cluster, kube, agent, inplace, node_image, push):
    image = push()
    ran = inplace.run("preload", image, "--parallelism=50%", timeout=LIMIT)
    assert ran.code == 0, ran.stderr + ran.stdout
    assert cluster.node.runtime.cri.image_status(image) is not None
    (job,) = kube.list(JOBS, labelSelector="app.kubernetes.io/managed-by=kubectl-inplace")
    assert job["spec"]["image"] == image
    wait_job(kube, kube.path_of({**job, "apiVersion": f"{GROUP}/v1alpha1", "kind": "ImagePullJob"}))

    ran = inplace.run("preload", f"{image}-missing", timeout=LIMIT)
    assert ran.code == 3
    assert f"on node {cluster.node.name}" in ran.stdout + ran.stderr, ran

    for name in (image, f"{image}-missing"):
        ran = inplace.run("preload", "--withdraw", name)
        assert ran.code == 0 and "deleted" in ran.stdout, ran
    wait_until(lambda: node_image.get()["spec"].get("images", {}) == {}, LIMIT, "empty spec", 0.1)


# Updates in place


@pytest.mark.parametrize("kind", KINDS)
def test_commands_for_a_workload(cluster, kube, agent, inplace, push, make_workload, kind):
    """set image, restart and preload --like: the pods stay, and its controller agrees."""
    old, new = push(), push()
    workload = make_workload(kind, old)
    before = workload.pods()
    for pod in before:
        pod.wait_meta(LIMIT)
    since = version_of(cluster)

    ran = inplace.run("set", "image", workload.name, f"app={new}", timeout=LIMIT)
    assert ran.code == 0, ran.stderr + ran.stdout
    assert f"{new}      1     1" in ran.stdout, ran  # preloaded before
    after = workload.pods()
    assert [pod.uid for pod in after] == [pod.uid for pod in before]
    assert_verified(after, new, "red", 1)
    for pod in after:
        assert gate_states(pod, since)[-2:] == ["False", "True"]
    workload.wait_updated()

    ran = inplace.run("restart", workload.name, timeout=LIMIT)
    assert ran.code == 0, ran.stderr + ran.stdout
    assert_verified(workload.pods(), new, "red", 2)

    more = push()
    ran = inplace.run("preload", more, "--like", workload.name, timeout=LIMIT)
    assert ran.code == 0, ran.stderr + ran.stdout
    assert cluster.node.runtime.cri.image_status(more) is not None
    ran = inplace.run("status", workload.name, "-o", "wide")
    assert ran.code == 0 and ran.stdout.count("Verified") == len(before), ran


def test_back_from_an_image_that_is_missing(agent, inplace, push, make_workload):
    """A CloneSet does not change when the preload fails; without it, the images before are the way back."""
    image = push()
    workload = make_workload("CloneSet", image)
    before = workload.pods()
    command = ("set", "image", workload.name, f"app={image}-missing")
    ran = inplace.run(*command, timeout=LIMIT)
    assert ran.code == 1 and "NotFound on node" in ran.stderr and "\\n" not in ran.stderr, ran
    assert [pod.restarts() for pod in workload.pods()] == [{"app": 0}] * 2

    ran = inplace.run(*command, "--no-preload", timeout=LIMIT)
    assert ran.code == 3 and f"{image}-missing" in ran.stderr, ran
    ran = inplace.run("set", "image", workload.name, f"app={image}", timeout=LIMIT)
    assert ran.code == 0, ran.stderr + ran.stdout
    workload.wait_updated()
    assert [pod.uid for pod in workload.pods()] == [pod.uid for pod in before]


def test_deployment_with_a_budget(cluster, kube, agent, inplace, push):
    """A plain Deployment in place, whose pods a PodUnavailableBudget protects: it holds the second pod until the
    first one counts as available.
    """
    old, new = push(), push()
    labels = {"app": f"plain{next(_numbers)}"}
    pod = {
        "terminationGracePeriodSeconds": 2,
        "containers": [{"name": "app", "image": old, "command": until_term()}],
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": labels["app"], "namespace": "default"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    budget = {
        "apiVersion": "policy.kruise.io/v1alpha1",
        "kind": "PodUnavailableBudget",
        "metadata": {"name": labels["app"], "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, "maxUnavailable": 1},
    }
    kube.create(deployment)
    kube.create(budget)
    path = kube.path_of(deployment)
    try:
        kube.wait_for(path, lambda one: one["status"].get("readyReplicas") == 3, LIMIT)
        kube.wait_for(
            kube.path_of(budget), lambda one: one.get("status", {}).get("unavailableAllowed") == 1, LIMIT
        )
        selected = {"labelSelector": f"app={labels['app']}"}
        before = {one["metadata"]["uid"] for one in kube.list(PODS, **selected)}
        ran = inplace.run("set", "image", f"deployment/{labels['app']}", f"app={new}", timeout=LIMIT)
        assert ran.code == 0, ran.stderr + ran.stdout
        assert {one["metadata"]["uid"] for one in kube.list(PODS, **selected)} == before
        assert kube.get(path)["spec"].get("paused") is None
    finally:
        kube.delete(kube.path_of(budget))
        kube.delete(path)


@pytest.mark.parametrize("policy", ["InPlaceIfPossible", "InPlaceOnly"])
def test_patches_of_a_template(cluster, agent, push, make_workload, policy):
    """A CloneSet is patched with an image, an annotation that is a variable, and both at once."""
    old, new, newer = push(), push(), push()
    strategy = {"type": policy, "inPlaceUpdateStrategy": {"gracePeriodSeconds": 1}}
    workload = make_workload("CloneSet", old, strategy)
    before = workload.pods()
    for pod in before:
        pod.wait_meta(LIMIT)

    image, colour = old, "red"
    changes = [{"image": new}, {"colour": "blue"}, {"image": newer, "colour": "green"}]
    for restarts, change in enumerate(changes, start=1):
        since = version_of(cluster)
        image, colour = change.get("image", image), change.get("colour", colour)
        workload.change(**change)
        workload.wait_updated()
        after = workload.pods()
        assert [pod.uid for pod in after] == [pod.uid for pod in before]
        assert_verified(after, image, colour, restarts)
        for pod in after:
            assert gate_states(pod, since)[-2:] == ["False", "True"]


# Restarts


def test_recreate_request(cluster, kube, agent, push, make_workload):
    """As kubectl creates it: the webhook completes it, the agent does it, the controller takes the pod out of service
    and removes the request.
    """
    workload = make_workload("CloneSet", push())
    pod = workload.pods()[0]
    gates = pod.get()["spec"]["readinessGates"]
    assert {"conditionType": "KruisePodReady"} in gates
    path = f"{REQUESTS}/by-kubectl"
    request = {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "ContainerRecreateRequest",
        "metadata": {"name": "by-kubectl"},
        "spec": {
            "podName": pod.name,
            "containers": [{"name": "app"}],
            "strategy": {"unreadyGracePeriodSeconds": 2, "minStartedSeconds": 1},
            "activeDeadlineSeconds": 300,
            "ttlSecondsAfterFinished": 5,
        },
    }
    file = cluster.folder / "request.json"
    file.write_text(json.dumps(request))
    cluster.kubectl("create", "-f", file)
    made = kube.get(path)
    assert made["metadata"]["labels"]["crr.apps.kruise.io/node-name"] == cluster.node.name
    assert made["spec"]["containers"][0]["statusContext"]["restartCount"] == 0
    done = kube.wait_for(path, lambda one: one.get("status", {}).get("phase") == "Completed", LIMIT)
    (state,) = done["status"]["containerRecreateStates"]
    assert (state["name"], state["phase"], state["isKilled"]) == ("app", "Succeeded", True)
    assert done["metadata"]["annotations"]["crr.apps.kruise.io/unready-acquired"]
    pod.wait_restarted("app", 1, LIMIT)
    kube.wait_gone(path, LIMIT)
    pod.wait_condition("KruisePodReady", "True", LIMIT)
    pod.wait(is_ready, LIMIT)


# Probes


def test_pod_probe_marker(cluster, kube, agent, push, make_workload):
    """The manager asks for a probe, the agent runs it, and the manager marks the pod by its result."""
    workload = make_workload("CloneSet", push())
    pod, other = workload.pods()
    policy = [
        {"state": "Succeeded", "labels": {"up": "yes"}},
        {"state": "Failed", "labels": {"up": "no"}},
    ]
    probe = {
        "name": "up",
        "containerName": "app",
        "probe": {"exec": {"command": ["cat", "/data/up"]}, "periodSeconds": 1},
        "podConditionType": "lab.io/up",
        "markerPolicy": policy,
    }
    marker = {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "PodProbeMarker",
        "metadata": {"name": workload.app, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": workload.app}}, "probes": [probe]},
    }

    def wait_marked(pod: Pod, label: str, status: str) -> None:
        pod.wait(lambda found: found["metadata"]["labels"].get("up") == label, LIMIT)
        pod.wait_condition("lab.io/up", status, LIMIT)

    pod.file("up").write_text("fine")
    kube.create(marker)
    wait_marked(pod, "yes", "True")
    wait_marked(other, "no", "False")
    assert pod.condition("lab.io/up")["message"] == "fine"
    pod.file("up").unlink()
    wait_marked(pod, "no", "False")

    # Without the marker there is no probe.
    cluster.kubectl("delete", "podprobemarkers.apps.kruise.io", workload.app)
    path = f"/apis/{GROUP}/v1alpha1/nodepodprobes/{cluster.node.name}"
    kube.wait_for(path, lambda one: not one["spec"].get("podProbes"), LIMIT)


# The way from kruise-daemon, and back


def test_takeover(cluster, kube, node_image, push, make_workload, fake_registry):
    """From the real kruise-daemon to the agent, while a job and an update in place are under way."""
    label_node(cluster, None)
    wait_agent(cluster, NAMESPACE, "kruise-daemon")
    old, new = push(), push()
    workload = make_workload("CloneSet", old)
    pods = workload.pods()
    gate = Gate(fake_registry, f"takeover/{next(_numbers)}", 2 << 20)
    done = push()
    finished = make_job(kube, done)
    assert counts(wait_job(kube, finished)) == (1, 0, 1, 0)
    finished_at = node_image.tag_status(done)["completionTime"]
    job = make_job(kube, gate.reference)
    gate.wait_fetched(LIMIT)

    label_node(cluster, "here")
    workload.change(image=new, colour="blue")
    wait_agent(cluster, "inplaced", "inplaced")
    gate.open()
    assert counts(wait_job(kube, job)) == (1, 0, 1, 0)
    assert node_image.tag_status(done)["completionTime"] == finished_at
    workload.wait_updated()
    after = workload.pods()
    assert [pod.uid for pod in after] == [pod.uid for pod in pods]
    assert_verified(after, new, "blue", 1)
    for path in (finished, job):
        kube.delete(path)

# SPDX-License-Identifier: Apache-2.0
"""Proves that our manifests bring the agent to the nodes of a real cluster, and that it works there: applied
by kubectl, scheduled, started by a kubelet from an image, limited by its roles and by the policies.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fixtures import Gate
from lab import sanitizers
from lab.agent_image import build_foreign_image
from lab.clients import MANIFESTS
from lab.cluster import Cluster, push_agent_images, replace
from lab.image import build_image, build_index
from lab.kube import Kube, Object
from lab.layers import random_layer
from lab.metrics import fetch_metrics
from lab.node_image import NodeImage
from lab.pod import OPT_IN, VERIFIED, Pod, container, from_annotations, until_term
from lab.recreate_request import RecreateRequest
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS

# An image with a sanitizer needs more memory than the manifests allow.
pytestmark = [pytest.mark.slow, pytest.mark.containers, pytest.mark.timeout(240 * SLOWLY)]

CHART = MANIFESTS / "chart"

_numbers = itertools.count(1)

Push = Callable[[], str]


@pytest.fixture(scope="module")
def images(registry) -> list[str]:
    return push_agent_images(registry, "inplaced")


@pytest.fixture(scope="module")
def cluster(session_folder, registry, images) -> Iterator[Cluster]:
    with Cluster(session_folder / "c", registry) as made:
        made.prepare()
        made.kubectl("apply", "-k", made.write_kustomization(images[0]))
        made.wait_rolled_out("inplaced", "inplaced")
        yield made


@pytest.fixture
def kube(cluster) -> Kube:
    return cluster.admin


@pytest.fixture
def node_image(cluster) -> NodeImage:
    """The NodeImage that the agent creates."""
    made = NodeImage(cluster.admin, cluster.node.name)
    wait_until(made.find, 60 * SLOWLY, "NodeImage", 0.1)
    return made


@pytest.fixture
def push(registry) -> Push:
    """push(): the name of an image that nothing has pulled yet."""
    return lambda: registry.push_image("t/daemon-set", str(next(_numbers)), [2000]).reference


@pytest.fixture
def make_pod(cluster) -> Iterator[Callable[..., Pod]]:
    made: list[Pod] = []

    def make(*containers: Object, **options: object) -> Pod:
        made.append(Pod(cluster.node, *containers, owner=False, **options))
        return made[-1].start(60 * SLOWLY)

    yield make
    for pod in made:
        pod.delete()


@pytest.fixture
def repaired(cluster, images) -> Iterator[None]:
    """Restores a working agent after a test, whatever the test deployed."""
    yield
    cluster.kubectl("delete", "--namespace=inplaced", "daemonset/inplaced")
    cluster.kubectl("apply", "-k", cluster.write_kustomization(images[0]))
    cluster.wait_rolled_out("inplaced", "inplaced")


def agent_pod(cluster: Cluster) -> Object | None:
    """The pod of the DaemonSet and its present template; None while there is none. One of an earlier template ends meanwhile."""
    daemon_set = cluster.admin.find("/apis/apps/v1/namespaces/inplaced/daemonsets/inplaced")
    if daemon_set is None:
        return None
    meta = daemon_set["metadata"]
    generation = meta["annotations"]["deprecated.daemonset.template.generation"]
    for pod in cluster.admin.list("/api/v1/namespaces/inplaced/pods"):
        if (
            "deletionTimestamp" not in pod["metadata"]
            and pod["metadata"]["labels"]["pod-template-generation"] == generation
            and pod["metadata"]["ownerReferences"][0]["uid"] == meta["uid"]
        ):
            return pod
    return None


def describe(cluster: Cluster) -> str:
    pod = agent_pod(cluster)
    if pod is None:
        return ""
    return cluster.kubectl("--namespace=inplaced", "describe", "pod", pod["metadata"]["name"])


def inplacectl(cluster: Cluster, *arguments: str) -> str:
    return cluster.kubectl(
        "--namespace=inplaced", "exec", "daemonset/inplaced", "--", "inplacectl", *arguments
    )


def process_of(cluster: Cluster) -> Path:
    """The agent's folder in /proc."""
    pod = agent_pod(cluster)
    cri = cluster.node.runtime.cri
    (main,) = [
        one
        for one in cri.pod_containers(pod["metadata"]["uid"])
        if one.state == cri.messages.CONTAINER_RUNNING
    ]
    return Path("/proc") / str(cri.container_status(main.id)[1]["pid"])


def assert_preloads(node_image: NodeImage, reference: str) -> None:
    """Adds an image to the spec of the NodeImage."""
    node_image.request(reference)
    node_image.wait_status(reference, "Succeeded", 60 * SLOWLY)


def assert_restarts(make_pod: Callable[..., Pod], tools: str) -> None:
    """The agent restarts a container for a changed annotation and for a request."""
    main = container("main", tools, env=from_annotations(COLOUR="colour"))
    pod = make_pod(main, annotations={OPT_IN: "true", "colour": "red"})
    pod.wait_condition(VERIFIED, "True", 30 * SLOWLY)
    pod.change(annotations={"colour": "blue"})
    pod.wait_environment("main", "COLOUR", "blue", 60 * SLOWLY)
    pod.wait_restarted("main", 1, 60 * SLOWLY)
    pod.wait_condition(VERIFIED, "True", 60 * SLOWLY)
    request = RecreateRequest(pod, "main").create()
    request.wait_phase("Completed", 60 * SLOWLY)
    assert request.state("main")["phase"] == "Succeeded" and request.state("main")["isKilled"]
    request.delete()


def test_it_serves(cluster, node_image, push, make_pod, tools):
    assert_preloads(node_image, push())
    assert_restarts(make_pod, tools)
    assert len(node_image.wait_events()) > 0
    doctor = json.loads(inplacectl(cluster, "doctor", "-o", "json"))
    assert doctor["problems"] == []
    metrics = fetch_metrics(f"{agent_pod(cluster)['status']['podIP']}:10221")
    assert metrics.get_value("inplaced_runtime_ready") == 1
    assert metrics.get_value("inplaced_pods") >= 2


def test_what_its_process_may_do(cluster):
    """The process has no capability or new privileges, a system call filter, and writes to its folders only."""
    process = process_of(cluster)
    status = dict(
        line.split(":\t", 1) for line in (process / "status").read_text().splitlines() if ":\t" in line
    )
    assert {status[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert (status["Uid"].split()[0], status["Gid"].split()[0]) == ("65532", "0")
    mounts = [line.split() for line in (process / "mountinfo").read_text().splitlines()]
    writable = {fields[4] for fields in mounts if "rw" in fields[5].split(",")}
    # The runtime's folder includes the mounts below it.
    others = ("/dev", "/proc", "/sys", "/run/containerd/")
    kubelet = {"/etc/hosts", "/etc/hostname", "/etc/resolv.conf"}
    own = {name for name in writable - kubelet if not name.startswith(others)}
    assert own == {"/var/lib/inplaced", "/run/inplaced"}
    for kind in ("net", "pid", "ipc", "mnt"):
        assert (process / "ns" / kind).readlink() != (Path("/proc/self/ns") / kind).readlink()
    memory = fetch_metrics(f"{agent_pod(cluster)['status']['podIP']}:10221").get_value(
        "process_resident_memory_bytes"
    )
    print(f"resident: {memory / 1e6:.1f} MB")
    assert memory < 64e6


def test_runtime_and_api_server_restart(cluster, node_image, push, make_pod, tools):
    """The pod of the agent keeps running; its folder of the socket has the new socket in it."""
    before = agent_pod(cluster)["metadata"]["uid"]
    cluster.node.runtime.restart()
    assert_preloads(node_image, push())
    cluster.control_plane.apiserver.restart()
    cluster.control_plane.apiserver.wait_ready()
    assert_preloads(node_image, push())
    assert_restarts(make_pod, tools)
    pod = agent_pod(cluster)
    assert pod["metadata"]["uid"] == before
    assert [one["restartCount"] for one in pod["status"]["containerStatuses"]] == [0]


def test_rolling_update(
    cluster, images, node_image, push, make_pod, tools, fake_registry, repaired
):
    """The next agent completes pulls and a stop that are under way, repeats no pull, and runs no hook twice.
    """
    done = Gate(fake_registry, "daemon/done", 2 << 10)
    done.open()
    gate = Gate(fake_registry, "daemon/gate", 2 << 20)
    local = Gate(fake_registry, "daemon/local", 2 << 20)
    node_image.request(done.reference, gate.reference, policy="Always")
    node_image.wait_status(done.reference, "Succeeded", 60 * SLOWLY)
    n_asked = len(fake_registry.requests("manifest", "daemon/done"))
    lingers = until_term("touch /data/term; while [ ! -e /data/go ]; do sleep 0.1; done")
    hook = {"preStop": {"exec": {"command": ["/bin/sh", "-c", "echo run >>/data/hooks"]}}}
    main = container("main", tools, command=lingers, lifecycle=hook)
    pod = make_pod(main, terminationGracePeriodSeconds=120)
    request = RecreateRequest(pod, "main").create()
    wait_until(pod.file("term").exists, 30 * SLOWLY, "SIGTERM")
    node_image.wait_status(gate.reference, "Pulling")
    inplacectl(cluster, "pull", "--no-wait", local.reference)

    before = agent_pod(cluster)
    cluster.kubectl("apply", "-k", cluster.write_kustomization(images[1]))
    cluster.wait_rolled_out("inplaced", "inplaced")
    after = agent_pod(cluster)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["spec"]["containers"][0]["image"] == images[1]

    pod.file("go").touch()
    request.wait_phase("Completed", 60 * SLOWLY)
    assert request.state("main")["phase"] == "Succeeded" and request.state("main")["isKilled"]
    assert pod.restarts() == {"main": 1} and pod.lines("hooks") == ["run"]
    request.delete()
    gate.open()
    local.open()
    runtime = cluster.node.runtime
    wait_until(lambda: runtime.image_status(local.reference), 60 * SLOWLY, "local image", 0.1)
    node_image.wait_status(gate.reference, "Succeeded", 60 * SLOWLY)
    node_image.wait_status(done.reference, "Succeeded")
    assert len(fake_registry.requests("manifest", "daemon/done")) == n_asked


def test_a_change_of_the_configuration(cluster, images, repaired):
    """It replaces the pod, whose agent has the new configuration; the same one applied again does not."""
    before = agent_pod(cluster)
    configured = cluster.write_kustomization(images[0], config={"logLevel": "debug"})
    cluster.kubectl("apply", "-k", configured)
    cluster.wait_rolled_out("inplaced", "inplaced")
    after = agent_pod(cluster)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    # Without -c: the pod says which container is meant.
    assert '"level":"debug"' in cluster.kubectl("--namespace=inplaced", "logs", after["metadata"]["name"])
    cluster.kubectl("apply", "-k", configured)
    cluster.wait_rolled_out("inplaced", "inplaced")
    assert agent_pod(cluster)["metadata"]["uid"] == after["metadata"]["uid"]


def test_the_disk_of_the_images(cluster, images, node_image, push, repaired):
    """minFreeDisk is kept, though the pod sees no folder of the runtime but that of its socket."""
    runtime = cluster.node.runtime
    if not runtime.has_overlayfs:
        pytest.skip("no overlayfs here")
    disk = os.statvfs(runtime.root)
    facts = json.loads(inplacectl(cluster, "doctor", "-o", "json"))["facts"]
    (fact,) = [fact["value"] for fact in facts if fact["subject"] == "disk"]
    print(fact)
    found = re.fullmatch(r"/ of this container has ([0-9.]+) GB free .*", fact)
    assert found is not None
    assert abs(float(found[1]) - disk.f_bavail * disk.f_frsize / 1e9) < 2
    much = f"{disk.f_blocks * disk.f_frsize * 2}"
    cluster.kubectl("apply", "-k", cluster.write_kustomization(images[0], config={"minFreeDisk": much}))
    cluster.wait_rolled_out("inplaced", "inplaced")
    reference = push()
    node_image.request(reference)
    message = wait_until(
        lambda: (node_image.tag_status(reference) or {}).get("message"), 60 * SLOWLY, "reason to wait", 0.1
    )
    print(message)
    assert message.startswith("DiskPressure: ") and "minFreeDisk" in message
    assert runtime.image_status(reference) is None
    # A folder that is mounted comes first. The agent may not enter it, and measures its disk.
    folder = runtime.cri.image_folder()
    assert Path(folder).stat().st_mode & 0o077 == 0
    volume = {"name": "images", "hostPath": {"path": folder, "type": "Directory"}}
    mount = {"name": "images", "mountPath": folder, "readOnly": True}
    pod = "/spec/template/spec"
    patches = [
        {"op": "add", "path": f"{pod}/volumes/-", "value": volume},
        {"op": "add", "path": f"{pod}/containers/0/volumeMounts/-", "value": mount},
    ]
    deploy(cluster, images, *patches)
    cluster.wait_rolled_out("inplaced", "inplaced")
    node_image.wait_status(reference, "Succeeded", 90 * SLOWLY)
    assert f"{folder} has " in inplacectl(cluster, "doctor")


def test_as_root(cluster, images, node_image, push, make_pod, tools, repaired):
    """The agent runs as root for a socket of root; afterwards the usual user takes over root's files."""
    kustomization = cluster.write_kustomization(images[0], components=["root"])
    cluster.kubectl("apply", "-k", kustomization)
    cluster.wait_rolled_out("inplaced", "inplaced")
    status = (process_of(cluster) / "status").read_text()
    assert "Uid:\t0\t0" in status and "CapEff:\t0000000000000000" in status
    assert_preloads(node_image, push())
    assert_restarts(make_pod, tools)
    assert {path.stat().st_uid for path in cluster.state.glob("*.json")} == {0}
    cluster.kubectl("apply", "-k", cluster.write_kustomization(images[0]))
    cluster.wait_rolled_out("inplaced", "inplaced")
    assert {path.stat().st_uid for path in cluster.state.iterdir()} == {65532}
    assert_preloads(node_image, push())
    assert json.loads(inplacectl(cluster, "doctor", "-o", "json"))["problems"] == []


def test_the_socket_alone(cluster, images, node_image, push, repaired):
    """As cri-dockerd needs it: root, and the file of the socket. A socket that is made anew is another one, until
    the pod is.
    """
    socket = replace("/spec/template/spec/volumes/0/hostPath/path", str(cluster.node.runtime.socket))
    kustomization = cluster.write_kustomization(images[0], patches=[socket], components=["cri-dockerd"])
    cluster.kubectl("apply", "-k", kustomization)
    cluster.wait_rolled_out("inplaced", "inplaced")
    mounts = (process_of(cluster) / "mountinfo").read_text()
    assert " /run/cri-dockerd.sock " in mounts and " /run/containerd " not in mounts
    assert_preloads(node_image, push())
    cluster.node.runtime.restart()
    line = wait_described(cluster, "Readiness probe failed: HTTP probe failed with statuscode: 503")
    print(line)
    cluster.kubectl("--namespace=inplaced", "rollout", "restart", "daemonset/inplaced")
    cluster.wait_rolled_out("inplaced", "inplaced")
    assert_preloads(node_image, push())


# Bad cases


def deploy(cluster: Cluster, images: list[str], *patches: Object) -> None:
    cluster.kubectl("apply", "-k", cluster.write_kustomization(images[0], patches=patches))


def wait_described(cluster: Cluster, text: str) -> str:
    """Waits until `kubectl describe` shows it; returns the line."""
    found = wait_until(
        lambda: [line for line in describe(cluster).splitlines() if text in line],
        90 * SLOWLY,
        lambda: f"{text!r}: {describe(cluster)}",
        0.5,
    )
    return found[0].strip()


def test_configuration_error(cluster, images, repaired):
    """The pod reports the reason in one line, and kubectl shows it."""
    configured = cluster.write_kustomization(images[0], config={"maxParallelPulls": "many"})
    cluster.kubectl("apply", "-k", configured)
    line = wait_described(cluster, "inplaced: ")
    print(line)
    assert "/etc/inplaced/config.yaml" in line and "maxParallelPulls" in line and "many" in line
    assert "Exit Code:    2" in describe(cluster)


def test_socket_folder_is_missing(cluster, images, repaired):
    deploy(cluster, images, replace("/spec/template/spec/volumes/0/hostPath/path", "/no/such/folder"))
    line = wait_described(cluster, "FailedMount")
    print(line)
    assert "/no/such/folder" in line and "is not a directory" in line


def test_another_architecture(cluster, registry, node_image, repaired):
    """An image without this architecture is named by the agent, if it is desired, and by the kubelet, if it is the
    agent's own; so is a program for another machine in an image that says otherwise.
    """
    foreign = build_image([random_layer(1000, 1)])
    registry.push("foreign", "only", foreign)
    reference = registry.push("foreign", "1", build_index(foreign, "s390x")).reference
    node_image.request(reference, backoffLimit=0)
    message = node_image.wait_status(reference, "Failed", 60 * SLOWLY)["message"]
    assert message.startswith("Unsupported: ") and "no match for platform" in message
    cluster.kubectl("apply", "-k", cluster.write_kustomization(reference))
    line = wait_described(cluster, "no match for platform")
    assert reference in line
    print(message, line, sep="\n")

    reference = registry.push("foreign", "2", build_foreign_image()).reference
    cluster.kubectl("apply", "-k", cluster.write_kustomization(reference))
    line = wait_described(cluster, "exec format error")
    print(line)
    assert line.split(maxsplit=1) == ["Message:", "exec /usr/bin/inplaced: exec format error"]


def test_no_runtime(cluster, images, repaired):
    """The pod runs, is not ready, and reports what it waits for."""
    empty = cluster.node.runtime.folder / "empty"
    empty.mkdir()
    deploy(cluster, images, replace("/spec/template/spec/volumes/0/hostPath/path", str(empty)))
    line = wait_described(cluster, "Readiness probe failed: HTTP probe failed with statuscode: 503")
    print(line)
    pod = agent_pod(cluster)
    assert [one["restartCount"] for one in pod["status"]["containerStatuses"]] == [0]
    with pytest.raises(RuntimeError, match="no runtime"):
        inplacectl(cluster, "doctor")


def test_definitions_are_missing(cluster, kube, images, push, repaired):
    """Without the custom resources doctor advises to install them; with them the agent serves."""
    definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodeimages.apps.kruise.io"
    cluster.kubectl("delete", "customresourcedefinition", "nodeimages.apps.kruise.io")
    cluster.kubectl("--namespace=inplaced", "rollout", "restart", "daemonset/inplaced")
    wait_until(lambda: "CRDs of packaging" in inplacectl_or_none(cluster), 90 * SLOWLY, "advice", 0.5)
    wait_described(cluster, "statuscode: 503")
    cluster.prepare()
    kube.wait_for(definition, lambda made: "status" in made)
    node_image = NodeImage(kube, cluster.node.name)
    wait_until(node_image.find, 120 * SLOWLY, "NodeImage", 0.5)
    cluster.wait_rolled_out("inplaced", "inplaced")
    assert_preloads(node_image, push())


def inplacectl_or_none(cluster: Cluster) -> str:
    """The output of doctor, or the error of kubectl."""
    try:
        return inplacectl(cluster, "doctor", "-o", "json")
    except RuntimeError as error:
        return str(error)


def test_overlays_are_accepted(cluster, images):
    """The server's own validation accepts them; other tests prove their contents."""
    cluster.kubectl("create", "namespace", "kruise-daemon-config")
    for overlay in ("standalone", "openkruise", "k3s", "microk8s"):
        folder = cluster.write_kustomization(images[0], overlay)
        shown = cluster.kubectl("apply", "--dry-run=server", "-k", folder)
        assert "daemonset.apps/inplaced" in shown
    for component in ("k0s", "crio", "cri-dockerd", "selinux", "network-policy"):
        folder = cluster.write_kustomization(images[0], components=[component])
        shown = cluster.kubectl("apply", "--dry-run=server", "-k", folder)
        assert "daemonset.apps/inplaced" in shown, component


def test_helm_install(cluster, images, push, make_pod, tools):
    """helm installs the same after the objects of kubectl were deleted; uninstalling leaves the CRDs.

    What kubectl and helm delete are no objects of the users.
    """
    kept = NodeImage(cluster.admin, cluster.node.name).get()["metadata"]["uid"]
    kustomization = cluster.write_kustomization(images[0])
    cluster.kubectl("delete", "--wait=true", "-k", kustomization)
    folder = cluster.node.runtime.folder
    name, _, tag = images[0].rpartition(":")
    values = {
        "image.repository": name,
        "image.tag": tag,
        "runtimeFolder": folder,
        "stateFolder": cluster.state,
        # Without SELinux it means nothing.
        "podSecurityContext.seLinuxOptions.type": "spc_t",
        "extraArgs[0]": f"--runtime-endpoint=unix://{folder}/containerd.sock",
    }
    options = [part for key, value in values.items() for part in ("--set-string", f"{key}={value}")]
    options += ["--namespace", "inplaced", "--create-namespace", "--wait", "--timeout", "3m"]
    shown = cluster.helm("install", "inplaced", CHART, *options)
    assert "STATUS: deployed" in shown
    cluster.wait_rolled_out("inplaced", "inplaced")
    node_image = NodeImage(cluster.admin, cluster.node.name)
    wait_until(node_image.find, 60 * SLOWLY, "NodeImage", 0.1)
    assert_preloads(node_image, push())
    assert_restarts(make_pod, tools)
    logs = "--namespace=inplaced", "logs", "daemonset/inplaced"
    assert '"level":"info"' in cluster.kubectl(*logs)
    pod = agent_pod(cluster)["metadata"]["uid"]
    cluster.helm("upgrade", "inplaced", CHART, *options, "--set", "config.logLevel=warning")
    cluster.wait_rolled_out("inplaced", "inplaced")
    assert agent_pod(cluster)["metadata"]["uid"] != pod
    assert '"level":"info"' not in cluster.kubectl(*logs)
    cluster.helm("uninstall", "inplaced", "--namespace", "inplaced", "--wait")
    assert node_image.get()["metadata"]["uid"] == kept
    assert cluster.admin.find("/apis/rbac.authorization.k8s.io/v1/clusterroles/inplaced") is None

# SPDX-License-Identifier: Apache-2.0
"""`kubectl inplace pulls`: what the kubelet of a node pulls, as the agent in a pod of our DaemonSet sees it, with
kubectl, the API server and the kubelet between them; and what the group of viewers may do with the same connection.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fake.registry import FakeRegistry, Line
from lab.built import find_built
from lab.cleanup import Closing
from lab.cluster import Cluster, push_agent_images
from lab.image import build_image
from lab.inplace import Inplace
from lab.kubelet import is_ready
from lab.layers import busybox_layer, random_layer
from lab.pod import Pod, container
from lab.process import Child
from lab.registry import PushedImage
from lab.sanitizers import SLOWNESS
from lab.terminal import screen
from lab.wait import stretch, wait_until

_MEGABYTE = 1 << 20
_RATE = 8 * _MEGABYTE  # bytes per second of the node's line to the registry
_ENDS_SEC = 30  # after its caller is gone, the program in the agent's pod ends by itself

VIEWER = ("--as=anna", "--as-group=inplaced:pull-viewers")

# An image with a sanitizer needs more memory than the manifests allow.
pytestmark = [pytest.mark.slow, pytest.mark.containers, pytest.mark.timeout(240 * SLOWNESS)]

_numbers = itertools.count(1)

AddImage = Callable[..., tuple[PushedImage, str]]
MakePod = Callable[..., Pod]


@pytest.fixture(scope="module")
def cluster(session_folder, registry) -> Iterator[Cluster]:
    with Cluster(session_folder / f"pulls-{next(_numbers)}", registry) as made:  # a process may run several parts
        made.prepare()
        image = push_agent_images(registry, "inplaced")[0]
        made.kubectl("apply", "-k", made.write_kustomization(image, components=["pull-viewers"]))
        made.wait_rolled_out("inplaced", "inplaced")
        # Rights of everyone who uses kubectl inplace, in the namespaces of their pods.
        made.kubectl("create", "rolebinding", "users", "--clusterrole=view", "--user=anna", "--user=bert")
        yield made


@pytest.fixture
def inplace(cluster, folder, monkeypatch) -> Inplace:
    monkeypatch.setenv("PATH", f"{find_built('clients')}:{os.environ['PATH']}")
    return Inplace(cluster.control_plane.admin_kubeconfig, folder.path)


@pytest.fixture
def line(fake_registry: FakeRegistry) -> Line:
    made = Line(_RATE)
    fake_registry.on("layer", made.behave)
    return made


@pytest.fixture
def add_image(cluster: Cluster, fake_registry: FakeRegistry, image_name: str) -> Iterator[AddImage]:
    made = []

    def add(*sizes: float, tag: str = "1") -> tuple[PushedImage, str]:
        seed = zlib.crc32(f"{image_name}:{tag}".encode())
        layers = [random_layer(int(size * _MEGABYTE), seed=seed + i) for i, size in enumerate(sizes)]
        made.append(fake_registry.add(image_name, tag, build_image([busybox_layer(), *layers])))
        return made[-1], image_name

    yield add
    for image in made:
        cluster.node.runtime.remove_image(image.reference)


@pytest.fixture
def make_pod(cluster: Cluster) -> Iterator[MakePod]:
    made: list[Pod] = []

    def make(image: str, namespace: str = "default") -> Pod:
        name = f"web-{next(_numbers)}"
        made.append(Pod(cluster.node, container("main", image), name=name, namespace=namespace, owner=False))
        return made[-1].create()

    yield make
    for pod in made:
        pod.delete()


class Followed(Closing):
    """Reads documents from `--watch -o json` as they come: `events` are they, each with its time.monotonic()."""

    def __init__(self, inplace: Inplace, *arguments: str) -> None:
        self.events: list[tuple[float, list[dict[str, Any]]]] = []
        self.child: Child = inplace.start("pulls", "--watch", "-o", "json", *arguments)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.child.terminate()
        self.child.wait(20)
        self._thread.join(10)

    def of(self, image: str) -> list[dict[str, Any]]:
        return [pull for _, pulls in list(self.events) for pull in pulls if pull["image"] == image]

    def since(self, image: str) -> float:
        return next(at for at, pulls in self.events if any(pull["image"] == image for pull in pulls))

    def since_bytes(self, image: str) -> float:
        return next(at for at, pulls in self.events if any(pull["image"] == image and pull["bytesDone"] for pull in pulls))

    def wait(self, image: str, accept: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        def find() -> dict[str, Any] | None:
            return next((pull for pull in self.of(image) if accept(pull)), None)

        return wait_until(find, 60 * SLOWNESS, lambda: f"pull of {image}, only {self.events[-2:]}")

    def wait_none(self) -> None:
        wait_until(lambda: not self.events[-1][1], 30 * SLOWNESS, lambda: f"end of all pulls: {self.events[-1]}")

    def _read(self) -> None:
        decoder, text = json.JSONDecoder(), ""
        for part in self.child.stdout:
            text += part
            if part == "}\n":
                self.events.append((time.monotonic(), decoder.decode(text)["items"]))
                text = ""


def is_downloading(pull: dict[str, Any]) -> bool:
    return pull["bytesDone"] > _MEGABYTE


def programs_in_pods() -> list[str]:
    """Processes of inplacectl that show pulls, anywhere on this machine."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"inplacectl", b"pulls"]:
            found.append(path.parent.name)
    return found


def test_pull_of_the_kubelet(inplace, cluster, make_pod, line, add_image, fake_registry):
    """Shown within a second, with pod, node, bytes and total; nothing runs in the agent's pod unless a pod waits."""
    image, name = add_image(15, 15)
    with Followed(inplace) as followed:
        wait_until(lambda: followed.events, 20 * SLOWNESS, "first document")
        assert followed.events[0][1] == [] and not programs_in_pods()
        pod = make_pod(image.reference)
        wait_until(lambda: fake_registry.requests(kind="manifest"), 20 * SLOWNESS, "pull by the kubelet")
        began = time.monotonic()
        followed.wait(image.reference, is_downloading)
        assert len(programs_in_pods()) == 1
        pod.wait(is_ready, 60 * SLOWNESS)
        followed.wait_none()
    delay = followed.since(image.reference) - began
    began_at = next(at for at, of, _ in line.sent if of == name)
    delay_of_bytes = followed.since_bytes(image.reference) - began_at
    seen = [pull for pull in followed.of(image.reference) if pull["bytesTotal"]]
    sent = line.n_sent(name)
    print(f"shown after {delay:.2f} s, bytes after {delay_of_bytes:.2f} s, total {seen[0]['bytesTotal'] / sent - 1:+.2%}, {len(seen)} documents")
    assert delay < stretch(SLOWNESS) and delay_of_bytes < stretch(2 * SLOWNESS)
    assert {(pull["node"], *pull["pods"], pull["digest"]) for pull in seen} == {
        (cluster.node.name, f"default/{pod.name}", image.manifest_digest)
    }
    assert all(pull["bytesTotal"] == pytest.approx(sent, rel=0.02) for pull in seen)
    assert {"Downloading"} <= {pull["step"] for pull in seen} <= {"WaitingForKubelet", "Downloading", "Unpacking"}
    assert len({pull["bytesDone"] for pull in seen}) >= 3 and any(pull["secondsLeft"] for pull in seen)
    wait_until(lambda: not programs_in_pods(), _ENDS_SEC + 10, programs_in_pods)


def test_two_images_of_one_repository(inplace, make_pod, line, add_image):
    images = [add_image(10, 10, tag=tag)[0] for tag in ("1", "2")]
    with Followed(inplace) as followed:
        pods = [make_pod(images[0].reference)]
        followed.wait(images[0].reference, is_downloading)
        wait_until(lambda: time.monotonic() - followed.since(images[0].reference) > 1.2, 5, "time between the pods")
        pods.append(make_pod(images[1].reference))
        for pod, image in zip(pods, images):
            pull = followed.wait(image.reference, is_downloading)
            assert (pull["pods"], pull["digest"]) == ([f"default/{pod.name}"], image.manifest_digest)
            pod.wait(is_ready, 60 * SLOWNESS)


def test_longer_than_one_question(inplace, make_pod, fake_registry, add_image):
    """A question ends after 30 s, and the pull is in all documents until it has ended: the next question is asked in time."""
    fake_registry.on("layer", Line(_MEGABYTE).behave)
    image, _ = add_image(36)
    with Followed(inplace) as followed:
        make_pod(image.reference)
        pull = followed.wait(image.reference, lambda pull: pull["bytesDone"] > 34 * _MEGABYTE)
        times = [at for at, pulls in followed.events if pulls]
        shown = [bool(pulls) for at, pulls in followed.events if times[0] <= at <= times[-1]]
        wait_until(lambda: len(programs_in_pods()) == 1, 10, "end of the question before")
    assert pull["bytesPerSecond"] > _MEGABYTE / 2 and times[-1] - times[0] > _ENDS_SEC
    assert all(shown) and max(later - at for at, later in zip(times, times[1:])) < stretch(3 * SLOWNESS)


@pytest.fixture
def pulling(inplace, make_pod, add_image, fake_registry) -> Iterator[tuple[str, str]]:
    """A pod for whose image the kubelet has a pull that outlasts all that a test asks meanwhile, and that image.

    The agent knows of the pull already.
    """
    line = Line(_RATE / 4)
    fake_registry.on("layer", line.behave)
    image, name = add_image(40, 40)
    pod = make_pod(image.reference)
    wait_until(lambda: line.n_sent(name) > _MEGABYTE, 30 * SLOWNESS, "pull by the kubelet")
    shown = f"pod/{pod.name}\n"
    wait_until(lambda: shown in inplace.run("pulls", "-o", "name").stdout, 30 * SLOWNESS, "the agent to show it")
    yield pod.name, image.reference
    line.widen()


def test_shown_once(inplace, cluster, pulling):
    """In a table, by the namespace, the pod, the node or everything; and nothing of other pods."""
    pod, image = pulling
    for arguments in ((), (pod,), ("-A",), ("--nodes", cluster.node.name), ("-l", f"kubernetes.io/hostname={cluster.node.name}")):
        ran = inplace.run("pulls", *arguments)
        assert (ran.code, ran.stderr) == (0, ""), arguments
        heading, row = ran.stdout.splitlines()
        assert heading.split() == ["POD", "IMAGE", "STATE", "PROGRESS", "RATE", "LEFT", "NODE"]
        assert row.startswith(f"default/{pod}  {image}  downloading  ") and row.endswith(f"  {cluster.node.name}"), row
    assert inplace.run("pulls", "-o", "name").stdout == f"pod/{pod}\n"
    assert "sha256:" in inplace.run("pulls", "-o", "wide").stdout
    (item,) = json.loads(inplace.run("pulls", "-o", "json").stdout)["items"]
    assert (item["node"], item["pods"], item["image"]) == (cluster.node.name, [f"default/{pod}"], image)
    other = inplace.run("pulls", "-n", "kube-system")
    assert (other.code, other.stdout.splitlines()[-1]) == (0, "No image is being pulled.")
    missing = inplace.run("pulls", "absent-0")
    assert missing.code == 1 and 'pods "absent-0" not found in namespace default' in missing.stderr


def test_status(inplace, pulling):
    """`status` shows it in a column, which is not there for a user who may not ask, nor when no pod waits."""
    pod, image = pulling
    heading, row = inplace.run("status", f"pod/{pod}").stdout.splitlines()
    assert "PULL" in heading and re.search(r"  downloading [0-9.]+/8[0-9.]+ MB", row), row
    (item,) = json.loads(inplace.run("status", f"pod/{pod}", "-o", "json").stdout)["items"]
    assert item["pull"]["image"] == image and item["pull"]["bytesTotal"] > 80 * _MEGABYTE
    refused = inplace.run("status", f"pod/{pod}", "--as=bert")
    assert (refused.code, refused.stderr) == (0, "") and "PULL" not in refused.stdout
    running = inplace.run("status", "-n", "inplaced")
    assert running.code == 0 and "PULL" not in running.stdout


def test_on_a_terminal(inplace, cluster, pulling):
    """The table is drawn again in its place, within the width of the terminal; Ctrl-C ends it."""
    pod, _ = pulling
    terminal = inplace.on_terminal("pulls", "--watch", columns=100)
    wait_until(lambda: terminal.text.count("downloading") > 3, 30 * SLOWNESS, lambda: terminal.text)
    terminal.press(b"\x03")
    assert terminal.wait_end() == 130
    lines = [line for line in screen(terminal.text) if "downloading" in line]
    assert len(lines) == 1 and max(map(len, screen(terminal.text))) <= 100, screen(terminal.text)


def test_node_without_an_agent(inplace, cluster, pulling):
    """A line says so; the other nodes are shown, and the exit status tells."""
    ran = inplace.run("pulls", "--nodes", f"ghost,{cluster.node.name}")
    assert ran.code == 3 and pulling[1] in ran.stdout
    assert ran.stderr.splitlines() == [
        "kubectl-inplace: node ghost: no pod of an agent is known there; on the node: inplacectl pulls"
    ]
    assert inplace.run("pulls", "--nodes", "ghost").code == 1


def test_viewer(inplace, cluster, pulling):
    """A member of the group sees the pulls of the pods that it may read; another user learns what is missing."""
    pod, image = pulling
    for arguments in ((), ("-o", "wide"), ("--nodes", cluster.node.name)):
        ran = inplace.run("pulls", *VIEWER, *arguments)
        assert (ran.code, ran.stderr) == (0, "") and image in ran.stdout, ran
    with Followed(inplace, *VIEWER) as followed:
        followed.wait(image, is_downloading)
    other = inplace.run("pulls", "--as=bert")
    assert other.code == 1 and other.stdout.splitlines()[-1] == "No image is being pulled."
    assert f"node {cluster.node.name}: no pod of an agent is known there: " in other.stderr
    cluster.kubectl("create", "role", "reader", "--namespace=inplaced", "--verb=list", "--resource=pods")
    cluster.kubectl("create", "rolebinding", "reader", "--namespace=inplaced", "--role=reader", "--user=bert")
    other = inplace.run("pulls", "--as=bert")
    assert other.code == 1 and len(other.stderr.splitlines()) == 1
    assert f"node {cluster.node.name}: kubectl exec in namespace inplaced ended with status 1: " in other.stderr
    assert other.stderr.endswith("it takes the right to create pods/exec there, see inplaced-pull-viewers\n")
    lacking = r"^pulls +this user lacks create pods/exec in namespace inplaced$"
    assert re.search(lacking, inplace.run("doctor", "--as=bert").stdout, re.MULTILINE)
    assert re.search(r"^pulls +allowed$", inplace.run("doctor", *VIEWER).stdout, re.MULTILINE)


# Each begins a connection that the policy decides about: what follows POD, and whether a member may.
_ONCE = ("inplacectl", "pulls", "-o", "json")
_ROWS = {
    "once": (("exec", "-c", "inplaced", "--", *_ONCE), True),
    "by default in the first container": (("exec", "--", *_ONCE), True),
    "another command": (("exec", "-c", "inplaced", "--", "inplacectl", "status"), False),
    "a longer command": (("exec", "-c", "inplaced", "--", *_ONCE, "--socket=/run/other.sock"), False),
    "without an end": (("exec", "-c", "inplaced", "--", *_ONCE, "--watch"), False),
    "for longer": (("exec", "-c", "inplaced", "--", *_ONCE, "--watch", "--timeout=9h"), False),
    "another program": (("exec", "-c", "inplaced", "--", "/inplacectl", *_ONCE[1:]), False),
    "in one word": (("exec", "-c", "inplaced", "--", " ".join(_ONCE)), False),
    "with stdin": (("exec", "-i", "-c", "inplaced", "--", *_ONCE), False),
    "with a terminal": (("exec", "-i", "-t", "-c", "inplaced", "--", *_ONCE), False),
    "another container": (("exec", "-c", "state", "--", *_ONCE), False),
    "attach": (("attach", "-c", "inplaced"), False),
    "port-forward": (("port-forward",), False),
}


def connect(cluster: Cluster, pod: str, row: str, *user: str) -> str:
    verb, *rest = _ROWS[row][0]
    port = ["10221"] if verb == "port-forward" else []
    return cluster.kubectl(verb, "--namespace=inplaced", pod, *port, *user, *rest)


@pytest.fixture(scope="module")
def agent_pod(cluster) -> str:
    (pod,) = cluster.admin.list("/api/v1/namespaces/inplaced/pods")
    return pod["metadata"]["name"]


@pytest.mark.parametrize("row", _ROWS)
def test_connections_of_viewers(cluster, agent_pod, row):
    if _ROWS[row][1]:
        assert json.loads(connect(cluster, agent_pod, row, *VIEWER))["runtime"]["ready"]
        return
    with pytest.raises(RuntimeError, match="orbidden") as refused:
        connect(cluster, agent_pod, row, *VIEWER)
    by_policy = "inplaced:pull-viewers may run only what kubectl inplace pulls runs" in str(refused.value)
    assert by_policy == (_ROWS[row][0][0] == "exec"), refused.value


@pytest.mark.parametrize("row", ["another command", "attach", "port-forward"])
def test_policy_wins_over_other_roles(cluster, agent_pod, row):
    """A member that has more rights in the namespace by another role has them only outside of the group."""
    admin = ("--as=root", "--as-group=system:masters")
    with pytest.raises(RuntimeError, match="may run only what kubectl inplace pulls runs"):
        connect(cluster, agent_pod, row, *admin, "--as-group=inplaced:pull-viewers")


def test_other_rights_of_viewers(cluster, agent_pod):
    def may(verb: str, resource: str, *more: str) -> bool:
        with suppress(RuntimeError):
            return cluster.kubectl("auth", "can-i", verb, resource, "--namespace=inplaced", *more, *VIEWER) == "yes\n"
        return False

    assert may("list", "pods") and may("create", "pods", "--subresource=exec")
    for subresource in ("attach", "portforward", "ephemeralcontainers", "log", "proxy"):
        for verb in ("create", "get", "update", "patch"):
            assert not may(verb, "pods", f"--subresource={subresource}")
    assert not any(may(verb, "pods") for verb in ("create", "delete", "patch", "watch"))
    assert not may("get", "secrets") and not may("list", "configmaps")


# A kubectl that misbehaves, and the line about it.
_BAD = {
    "old agent": ("echo 'inplacectl: unknown command \"pulls\"' >&2; exit 2", "update its agent, which is too old"),
    "no list": ("echo '{}'", "its agent's answer is no list of pulls"),
    "no document": ("echo hello", "its agent's answer is no list of pulls"),
    "nothing": ("exit 0", "its agent's answer is no list of pulls"),
    "too much": ("echo '{'; exec yes", "wrote more than 1048576 bytes"),
    "control characters": ("printf '{\"pulls\":[{\"image\":\"a\\\\u001b[31m\"}]}'", None),
}


@pytest.fixture
def fake_kubectl(folder, inplace, monkeypatch) -> Callable[[str], None]:
    """fake_kubectl(script): takes the place of kubectl."""

    def make(script: str) -> None:
        path = folder / "bin"
        path.mkdir()
        (path / "kubectl").write_text(f"#!/bin/sh\n{script}\n")
        (path / "kubectl").chmod(0o755)
        monkeypatch.setenv("PATH", f"{path}:{os.environ['PATH']}")

    return make


@pytest.fixture
def twenty_nodes(cluster) -> Iterator[list[str]]:
    """Nodes of which there is nothing but the object of an agent's pod."""
    space = cluster.admin.get("/api/v1/namespaces/inplaced")["metadata"]
    # A pod with a controller is none that the DaemonSet adopts, and then deletes.
    owner = {"apiVersion": "v1", "kind": "Namespace", "name": space["name"], "uid": space["uid"], "controller": True}
    labels = {"app.kubernetes.io/name": "inplaced"}
    nodes = [f"far-{n:02}" for n in range(20)]
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": node, "namespace": "inplaced", "labels": labels, "ownerReferences": [owner]},
            "spec": {"nodeName": node, "containers": [{"name": "inplaced", "image": "none"}]},
        }
        for node in nodes
    ]
    for pod in pods:
        cluster.admin.create(pod)
    yield nodes
    for pod in pods:
        cluster.admin.delete(cluster.admin.path_of(pod), gracePeriodSeconds="0")


def test_sixteen_at_a_time(inplace, folder, twenty_nodes, fake_kubectl):
    """The other nodes are asked in turn; with --watch a line says how many are left out."""
    fake_kubectl(
        f"cd {folder.path}; mkdir run-$$; set -- run-*; echo $# >>counts\n"
        "until [ $(wc -l <counts) -ge 16 ]; do sleep 0.05; done; rmdir run-$$; echo '{\"pulls\": []}'"
    )
    ran = inplace.run("pulls", "--nodes", ",".join(twenty_nodes))
    counts = [int(count) for count in (folder / "counts").read_text().split()]
    assert (ran.code, ran.stderr, len(counts), max(counts)) == (0, "", 20, 16), (ran, counts)
    (folder / "bin" / "kubectl").write_text("#!/bin/sh\necho '{\"pulls\": []}'; exec sleep 60\n")
    with inplace.start("pulls", "--watch", "--nodes", ",".join(twenty_nodes)) as watch:
        said = watch.stderr.readline()
        watch.terminate()
    assert said == "kubectl-inplace: 16 nodes are followed at a time: 4 more are left out; choose with --nodes\n"


@pytest.mark.parametrize("row", _BAD)
def test_bad_answers(inplace, cluster, fake_kubectl, row):
    """Bounded, in one line, and safe for a terminal."""
    script, expected = _BAD[row]
    fake_kubectl(script)
    ran = inplace.run("pulls", "--nodes", cluster.node.name)
    if expected is None:
        assert ran.code == 0 and "a\\x1b[31m" in ran.stdout and "\x1b" not in ran.stdout
    else:
        assert ran.code == 1 and expected in ran.stderr and len(ran.stderr.splitlines()) == 1, ran


@pytest.mark.parametrize("arguments", [(), ("-A", "-o", "name")])
def test_pod_without_a_name(inplace, cluster, pulling, fake_kubectl, arguments):
    fake_kubectl("echo '{\"pulls\":[{\"image\":\"a\",\"pods\":[null]}]}'")
    ran = inplace.run("pulls", *arguments)
    assert (ran.code, ran.stderr) == (0, ""), ran


def test_pods_of_others(inplace, pulling, fake_kubectl):
    """They may wait for the same pull, and are not shown to who asks for a pod or a namespace."""
    pod, _ = pulling
    others = json.dumps(["alien/web-0", f"default/{pod}"])
    fake_kubectl(f"echo '{{\"pulls\":[{{\"image\":\"a\",\"digest\":null,\"pods\":{others}}}]}}'")
    for arguments in ((), (pod,)):
        assert inplace.run("pulls", *arguments, "-o", "name").stdout == f"pod/{pod}\n"
        assert inplace.run("pulls", *arguments).stdout.splitlines()[1].split()[:2] == [f"default/{pod}", "a"]
    assert inplace.run("pulls", "-A", "-o", "name").stdout == f"pod/web-0\npod/{pod}\n"


@pytest.fixture
def impostor(cluster, pulling) -> Iterator[None]:
    """A pod of another user with the label of the agents; its name is the last one in every list."""
    labels = {"app.kubernetes.io/name": "inplaced"}
    cluster.kubectl("create", "namespace", "zoo")
    pod = cluster.admin.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "zebra", "namespace": "zoo", "labels": labels},
            "spec": {"nodeName": cluster.node.name, "containers": [{"name": "inplaced", "image": "none"}]},
        }
    )
    yield
    cluster.admin.delete(cluster.admin.path_of(pod), gracePeriodSeconds="0")
    cluster.kubectl("delete", "namespace", "zoo", "--wait=false")


def test_pod_that_poses_as_an_agent(inplace, cluster, pulling, impostor):
    """The agent is asked, and not a pod that another user has labelled as one."""
    ran = inplace.run("pulls")
    assert (ran.code, ran.stderr) == (0, "") and pulling[1] in ran.stdout, ran


def test_no_kubectl(inplace, cluster, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    ran = inplace.run("pulls", "--nodes", cluster.node.name)
    assert ran.code == 1 and "install kubectl, or add its folder to PATH" in ran.stderr

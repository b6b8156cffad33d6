# SPDX-License-Identifier: Apache-2.0
"""Proves `kubectl inplace restart` on real nodes: by the kubelet alone, in a cluster without our definitions and
agent, and by ContainerRecreateRequests; in batches, and what it says when it cannot.
"""

from __future__ import annotations

import itertools
import json
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rollouts import Workload, admission, image_of, none_replaced
from fake import api_faults
from fake.api_proxy import ApiProxy
from lab import clock
from lab.cluster import Cluster
from lab.inplace import Inplace
from lab.kube import Object
from lab.kubeconfig import write_kubeconfig
from lab.kubelet import is_ready
from lab.pod import VERIFIED, Pod, container, from_annotations, from_labels, shell, until_term
from lab.registry import PushedImage, Registry
from lab.terminal import screen
from lab.wait import wait_until

pytestmark = pytest.mark.containers

_numbers = itertools.count(1)  # a process may run several parts of this file
_REQUESTS = "/apis/apps.kruise.io/v1beta1/namespaces/default/containerrecreaterequests"


@pytest.fixture(autouse=True)
def clean(kube):
    """Removes the requests of each test."""
    yield
    kube.delete(_REQUESTS)


@pytest.fixture
def web(node_agent, make_pod, tools):
    """Two pods of two containers each."""
    return [
        make_pod(
            container("main", tools), container("side", tools), labels={"app": "kubectl-restart"}
        )
        for _ in range(2)
    ]


@pytest.mark.parametrize(
    ("is_of_kruise", "flags", "n_requests"),
    [(False, (), 0), (False, ("--request",), 1), (True, (), 1)],
    ids=["kubelet", "request", "kruise"],
)
def test_one_container(inplace, node_agent, make_pod, tools, kube, is_of_kruise, flags, n_requests):
    """The kubelet alone restarts, but for --request and for pods of OpenKruise's controllers."""
    pod, other = (
        make_pod(container("main", tools), container("side", tools), owner=is_of_kruise)
        for _ in range(2)
    )
    ran = inplace.run("restart", f"{pod.name}/main", *flags)
    assert ran.code == 0, ran.stderr
    assert ran.stdout == f"pod/{pod.name} restarting\npod/{pod.name} restarted\n"
    assert len(kube.list(_REQUESTS)) == n_requests
    assert pod.restarts() == {"main": 1, "side": 0}
    assert other.restarts() == {"main": 0, "side": 0}


def test_selector_in_batches(inplace, web, kube):
    """Restarts a pod after the other: the second request is made after the first has ended."""
    version = kube.get(_REQUESTS)["metadata"]["resourceVersion"]
    ran = inplace.run("restart", "-l", "app=kubectl-restart", "--request", "--containers=side", "-o", "json")
    assert ran.code == 0, ran.stderr
    items = json.loads(ran.stdout)["items"]
    assert {item["pod"] for item in items} == {pod.name for pod in web}
    assert [item["phase"] for item in items] == ["Succeeded", "Succeeded"]
    assert [pod.restarts() for pod in web] == 2 * [{"main": 0, "side": 1}]
    events = []
    for event in kube.watch(_REQUESTS, 60, resourceVersion=version):
        name, is_over = event["object"]["metadata"]["name"], _is_over(event["object"])
        if (name, is_over) not in events:
            events.append((name, is_over))
        if len(events) == 4:
            break
    first, second = (item["request"] for item in items)
    assert events == [(first, False), (first, True), (second, False), (second, True)]


def _is_over(request: dict) -> bool:
    return "completionTime" in request.get("status", {})


def test_gone_before_its_request(inplace, web, kube):
    """No request is made for a pod that is gone when its turn comes."""
    first, second = sorted(web, key=lambda pod: pod.name)
    with inplace.running("restart", "-l", "app=kubectl-restart", "--request") as child:
        wait_until(lambda: kube.list(_REQUESTS), 60, "the first request")
        second.delete()
        output, errors = child.communicate(timeout=60)
    assert child.returncode == 0, output + errors
    assert f"pod/{first.name} restarted" in output and f"pod/{second.name} gone" in output
    assert [one["spec"]["podName"] for one in kube.list(_REQUESTS)] == [first.name]


def test_gone_with_its_request(inplace, web, kube, node_agent):
    """A pod that goes before its containers restart needs no restart, though its request fails."""
    node_agent.terminate()
    with inplace.start("restart", web[0].name, "--request") as child:
        (request,) = wait_until(lambda: kube.list(_REQUESTS), 30, "request")
        web[0].delete()
        status = {"phase": "Completed", "message": "pod has gone"}
        kube.patch(f"{_REQUESTS}/{request['metadata']['name']}/status", {"status": status})
        output, errors = child.communicate(timeout=60)
    assert child.returncode == 0, output + errors
    assert output.endswith(f"pod/{web[0].name} gone\n")


def test_same_pod_twice(inplace, web):
    """Several arguments for one pod are one request."""
    name = web[0].name
    arguments = f"{name}/main", f"pod/{name}/side", f"{name}/main"
    ran = inplace.run("restart", *arguments, "--request", "-o", "name")
    assert ran.code == 0, ran.stderr
    assert ran.stdout == f"pod/{name}\n"
    assert web[0].restarts() == {"main": 1, "side": 1}


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_pull_that_would_end_it_here(inplace, node_agent, make_pod, tools, kube, policy):
    """No request takes its place: nothing would start the container again."""
    pod = make_pod(container("main", tools, imagePullPolicy="Always"), owner=False, restartPolicy=policy)
    ran = inplace.run("restart", pod.name)
    assert ran.code == 1
    assert "container main would not come back if its registry did not answer" in ran.stderr
    assert kube.list(_REQUESTS) == []
    assert pod.restarts() == {"main": 0} and is_ready(pod.get())


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_request_that_would_end_it(inplace, node_agent, make_pod, tools, kube, policy):
    """A request would stop the container, which might not be started again: none is made, for no pod of the command."""
    pod = make_pod(container("main", tools), owner=False, restartPolicy=policy)
    other = make_pod(container("main", tools), owner=False)
    ran = inplace.run("restart", other.name, pod.name, "--request")
    assert (ran.code, ran.stdout) == (1, "")
    assert f"pod/{pod.name}: container main would not come back: a request stops it" in ran.stderr
    assert kube.list(_REQUESTS) == []
    assert [one.restarts() for one in (pod, other)] == 2 * [{"main": 0}] and is_ready(pod.get())


@pytest.mark.parametrize("flags", [(), ("--request",)], ids=["kubelet", "request"])
def test_dry_run(inplace, web, kube, flags):
    ran = inplace.run("restart", web[0].name, "--dry-run=server", *flags)
    assert (ran.code, ran.stdout) == (0, f"pod/{web[0].name} restarted (server dry run)\n")
    assert kube.list(_REQUESTS) == []
    assert "@" not in web[0].get()["spec"]["containers"][0]["image"]


@pytest.mark.parametrize(
    ("code", "arguments", "words"),
    [
        (1, ("no-such-pod",), "no-such-pod: there is no such pod that runs in namespace default: see kubectl get pods -A"),
        (1, ("{pod}/none",), 'has no container "none" that keeps running; the pod has main'),
        (1, ("{pod}", "no-such-pod"), "no-such-pod: there is no such pod"),
        (2, ("{pod}", "--max-unavailable=many"), '--max-unavailable: "many"'),
        (1, ("a/b/c/d",), "expected POD"),
        (2, ("{pod}", "--label=colour"), "expected KEY=VALUE"),
    ],
)
def test_refused_before_anything(inplace, web, kube, code, arguments, words):
    ran = inplace.run("restart", *(text.format(pod=web[0].name) for text in arguments))
    assert ran.code == code
    assert words in ran.stderr
    assert kube.list(_REQUESTS) == []


def test_failure_stops(inplace, web, kube, node_agent):
    """A pod whose containers are not started again ends the command, and the rest is left alone."""
    node_agent.terminate()
    with inplace.start("restart", "-l", "app=kubectl-restart", "--request") as child:
        (request,) = wait_until(lambda: kube.list(_REQUESTS), 30, "request")
        state = {"name": "main", "phase": "Failed", "message": "it cannot be stopped"}
        status = {"phase": "Completed", "containerRecreateStates": [state]}
        kube.patch(f"{_REQUESTS}/{request['metadata']['name']}/status", {"status": status})
        output, errors = child.communicate(timeout=60)
    assert child.returncode == 1
    assert output.endswith(" restarting\n") and output.count("\n") == 1
    assert "was not restarted: container main: it cannot be stopped" in errors
    assert "1 of 2 pods were not restarted" in errors
    assert len(kube.list(_REQUESTS)) == 1


def test_interrupted(inplace, web, kube, node_agent):
    """Ctrl-C leaves the request that runs, and says how to follow it."""
    node_agent.terminate()
    with inplace.start("restart", "-l", "app=kubectl-restart", "--request") as child:
        wait_until(lambda: kube.list(_REQUESTS), 30, "request")
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=60)
    assert child.returncode == 128 + signal.SIGINT
    assert "restarts in progress continue" in errors
    assert "1 of 2 pods were not restarted" in errors
    (request,) = kube.list(_REQUESTS)
    run = request["metadata"]["labels"]["inplaced.io/restart"]
    assert f"-l inplaced.io/restart={run}" in errors


def test_interrupted_while_it_writes(behind, web, kube, node_agent):
    """A request that the server has taken, but not confirmed yet, counts as begun."""
    api, inplace = behind
    node_agent.terminate()
    confirmed = threading.Event()
    api.on("^POST .*containerrecreaterequests", api_faults.answer_when(confirmed))
    with inplace.start("restart", "-l", "app=kubectl-restart", "--request") as child:
        wait_until(lambda: kube.list(_REQUESTS), 30, "request")
        child.send_signal(signal.SIGINT)
        wait_until(lambda: not _has_signals(child.pid), 30, "end of the signal's way")
        confirmed.set()
        _, errors = child.communicate(timeout=60)
    assert child.returncode == 128 + signal.SIGINT
    assert "restarts in progress continue" in errors
    assert "1 of 2 pods were not restarted" in errors


def _has_signals(pid: int) -> bool:
    """Whether signals wait to be read by the process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"^ShdPnd:\s*(\w+)", status, re.MULTILINE)[1], 16) != 0


def test_timeout(inplace, web, kube, node_agent):
    node_agent.terminate()
    ran = inplace.run("restart", web[0].name, "--request", "--timeout=2s")
    assert ran.code == 124
    assert "timed out" in ran.stderr
    assert len(kube.list(_REQUESTS)) == 1


def test_awaited_request_is_named(inplace, web, node_agent):
    """If no agent serves the request, the command says so after five seconds."""
    node_agent.terminate()
    ran = inplace.run("restart", web[0].name, "--request", "--timeout=8s")
    assert ran.code == 124
    assert f"waiting for pod/{web[0].name}: the agent of its node has not completed" in ran.stderr


def test_agent_agrees(inplace, node_agent, make_pod, tools, settle):
    """The agent does not restart a container again whose metadata the kubelet has applied, and verifies the
    other spelling.
    """
    pod = make_pod(container("main", tools, env=from_annotations(COLOUR="colour")), annotations={"colour": "red"})
    pod.wait_meta()
    pod.begin_update(annotations={"colour": "blue"})
    pod.wait_restarted("main", 1)
    pod.wait_condition(VERIFIED, "True")
    pod.set_condition("InPlaceUpdateReady", "True")
    ran = inplace.run("restart", pod.name, "--annotation", "colour=green")
    assert ran.code == 0, ran.stderr
    pod.wait_environment("main", "COLOUR", "green")
    settle()
    assert pod.restarts() == {"main": 2}
    pod.wait_condition(VERIFIED, "True")


# In a cluster with nothing of ours in it, and with the kubelet's own back-off


@pytest.fixture(scope="module")
def bare(session_folder, registry) -> Iterator[Cluster]:
    with Cluster(session_folder / f"bare-{next(_numbers)}", registry, hasty=False) as made:
        yield made


@pytest.fixture
def person(bare, folder) -> Inplace:
    return Inplace(bare.control_plane.admin_kubeconfig, folder.path)


@pytest.fixture(scope="module")
def images(registry) -> list[PushedImage]:
    return [registry.push_image("t/restart", str(n), [1000 + n], busybox=True) for n in (1, 2)]


@pytest.fixture
def start_pod(bare) -> Iterator[Callable[..., Pod]]:
    made: list[Pod] = []

    def start(*containers: Object, must_wait: bool = True, **more: Any) -> Pod:
        made.append(Pod(bare.node, *containers, owner=False, **more))
        return made[-1].start() if must_wait else made[-1].create()

    yield start
    for pod in made:
        pod.delete()


@pytest.fixture
def make_workload(bare, images) -> Iterator[Callable[..., Workload]]:
    made: list[Workload] = []

    def make(kind: str, *arguments: Any, **spec: Any) -> Workload:
        made.append(Workload(bare, kind, images[0].reference, *arguments, **spec))
        return made[-1]

    yield make
    for one in made:
        one.delete()


def _restart(person: Inplace, *arguments: str) -> str:
    ran = person.run("restart", *arguments)
    assert ran.code == 0, ran.stdout + ran.stderr
    return ran.stderr


def _image(pod: Pod) -> str:
    return image_of(pod.get())


@pytest.mark.timeout(180)
def test_there_and_back(person, start_pod, images):
    """No image is pulled; the tag comes back; and the kubelet's delay is announced and explained."""
    tag, digest = images[0].reference, images[0].manifest_digest
    pod = start_pod(container("main", tag))
    image_id = pod.status("main")["imageID"]
    spellings = [f"{tag}@{digest}", tag, f"{tag.rpartition(':')[0]}@{digest}"]
    for n, spelling in enumerate(spellings, 1):
        errors = _restart(person, pod.name)
        assert errors == ""
        assert (_image(pod), pod.restarts()) == (spelling, {"main": n})
        shown = person.run("status", pod.name, "-o", "wide")
        assert shown.code == 0 and f" {tag} " in shown.stdout, shown.stdout + shown.stderr
    errors = _restart(person, pod.name)
    assert f"pod/{pod.name}: the kubelet may start it up to 10s later" in errors
    assert re.search(rf"waiting for pod/{pod.name}: the kubelet starts main again in \ds: it delays", errors), errors
    assert pod.restarts() == {"main": 4}
    assert pod.status("main")["imageID"] == image_id
    assert not pod.events("Pulling", from_kubelet=True)[1:]


def test_metadata(person, start_pod, images):
    """Labels and annotations change with the restart, and the container has the variables made from them."""
    env = [*from_labels(COLOUR="colour"), *from_annotations(SIZE="size", SHAPE="shape")]
    pod = start_pod(
        container("main", images[0].reference, env=env),
        labels={"colour": "red"},
        annotations={"size": "1", "shape": "round"},
    )
    changes = "--label=colour=blue", "--annotation", "size=2,3", "--annotation=shape-"
    _restart(person, pod.name, *changes)
    assert pod.restarts() == {"main": 1}
    environment = pod.environment("main")
    assert (environment["COLOUR"], environment["SIZE"], environment["SHAPE"]) == ("blue", "2,3", "")
    assert "shape" not in pod.get()["metadata"]["annotations"]


@pytest.mark.parametrize("kind", ["deployment", "statefulset", "daemonset", "replicaset"])
@pytest.mark.timeout(180)
def test_workload(person, make_workload, images, kind):
    """The pods stay, one restarts at a time, and no controller takes another spelling for another revision."""
    workload = make_workload(kind)
    before = workload.uids()
    version = workload.kube.get(_PODS)["metadata"]["resourceVersion"]
    with none_replaced(workload):
        ran = person.run("restart", workload.name, "--label=colour=blue")
        assert ran.code == 0, ran.stderr
        verbs = [line.split()[1] for line in ran.stdout.splitlines()]
        assert verbs == workload.n_pods * ["restarting", "restarted"]
        assert {_restarts(pod) for pod in workload.pods()} == {1}
        assert all("@" in image_of(pod) for pod in workload.pods())
        _restart(person, f"{workload.name}/main")
        workload.assert_runs(images[0].reference)
    assert workload.uids() == before
    assert len({pod["metadata"]["labels"]["colour"] for pod in workload.pods()}) == 1
    assert _most_unready(workload, version) <= 1


@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
def test_pod_of_another(person, make_workload, start_pod, images, kind):
    """A pod that only has the workload's labels, as that of a Job may have, goes on as it is."""
    workload = make_workload(kind, 1)
    stranger = start_pod(container("main", images[0].reference), labels={"app": workload.app}, restartPolicy="Never")
    assert "pod/" + stranger.name not in _restart(person, workload.name)
    assert stranger.restarts() == {"main": 0}
    assert sorted(map(_restarts, workload.pods())) == [0, 1]


def test_replica_set_of_another(bare, person, make_workload, images):
    """The same of the pod of a ReplicaSet that the Deployment does not own."""
    workload = make_workload("deployment", 1)
    (own,) = workload.pods()
    labels = {"app": workload.app, "part": "another"}
    main = {"name": "main", "image": images[0].reference, "command": until_term()}
    other = bare.admin.create({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": f"{workload.app}-other", "labels": {"part": "another"}},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {"containers": [main]}}},
    })
    try:
        wait_until(lambda: len(workload.ready()) == 2, 60, "the pod of the other ReplicaSet")
        _restart(person, workload.name)
        restarts = {pod["metadata"]["name"]: _restarts(pod) for pod in workload.pods()}
    finally:
        bare.admin.delete(bare.admin.path_of(other), propagationPolicy="Background")
    assert restarts.pop(own["metadata"]["name"]) == 1
    assert list(restarts.values()) == [0]


@pytest.mark.parametrize("flags", [(), ("-o", "json")], ids=["text", "json"])
def test_scaled_meanwhile(bare, person, make_workload, flags):
    """Pods that are gone when their turn comes need no restart, and fewer pods have to be available then."""
    workload = make_workload("deployment", 3, minReadySeconds=2)
    pods = workload.pods()
    with person.running("restart", workload.name, *flags) as child:
        wait_until(lambda: 1 in map(_restarts, workload.pods()), 60, "the first restart", 0.05)
        bare.kubectl("scale", workload.name, "--replicas=1")
        workload.n_pods = 1
        output, errors = child.communicate(timeout=120)
    assert child.returncode == 0, output + errors
    (left,) = workload.ready()
    gone = {pod["metadata"]["name"] for pod in pods} - {left["metadata"]["name"]}
    assert _restarts(left) == 1
    if flags:
        said = {item["pod"]: item.get("message") for item in json.loads(output)["items"]}
        assert [said[name] for name in gone].count("the pod is gone") >= 1
    else:
        assert [f"pod/{name} gone" in output for name in gone].count(True) >= 1


@pytest.mark.timeout(180)
def test_scaled_while_it_waits(bare, person, make_workload, images):
    """A pod waits for its turn because of one that is not ready, which then goes."""
    ill = "/data/ill"
    main = container("main", images[0].reference)
    often = {"periodSeconds": 1, "timeoutSeconds": 10, "failureThreshold": 1}
    main["readinessProbe"] = {"exec": {"command": shell(f"[ ! -e {ill} ]")}, **often}
    pod = {"containers": [main], "volumes": [{"name": "data", "emptyDir": {}}]}
    workload = make_workload("statefulset", 3, pod=pod)
    bare.kubectl("exec", f"{workload.app}-2", "--", *shell(f"touch {ill}"))
    wait_until(lambda: len(workload.ready()) == 2, 60, "the pod that is not ready")
    with person.running("restart", workload.name) as child:
        line = child.stderr.readline()
        assert "until more pods are available: 1 of 3 are not, --max-unavailable is 1" in line
        bare.kubectl("scale", workload.name, "--replicas=2")
        output, errors = child.communicate(timeout=90)
    assert child.returncode == 0, output + errors
    assert [_restarts(one) for one in workload.ready()] == [1, 1]


@pytest.mark.timeout(180)
def test_on_a_terminal(person, make_workload):
    """Draws a table again in place, and below it the awaited steps."""
    workload = make_workload("statefulset")
    terminal = person.on_terminal("restart", workload.name, columns=80)
    try:
        assert terminal.wait_end(120) == 0, terminal.text
    finally:
        terminal.child.kill()
    for phases in ("restarting", "waiting"), ("restarted", "restarting"):
        rows = r"\s+".join(rf"{workload.app}-{n}\s+\S+\s+{phase}\s+\d+s" for n, phase in zip((1, 0), phases, strict=True))
        assert re.search(rows, terminal.text), terminal.text
    assert re.search(r"1 of 2 restarted; the old container of main is stopping \(grace period 1s\): po", terminal.text)
    heading, *pods, total, rest = screen(terminal.text)
    assert heading.split() == ["POD", "NODE", "PHASE", "SINCE"]
    assert [line.split()[2] for line in pods] == 2 * ["restarted"]
    assert (total, rest) == ("2 of 2 pods restarted", "")


_PODS = "/api/v1/namespaces/default/pods"


def _restarts(pod: Object) -> int:
    return pod["status"]["containerStatuses"][0]["restartCount"]


def _most_unready(workload: Workload, version: str) -> int:
    """The most pods that were unready at the same time, since that version."""
    unready: set[str] = set()
    most = 0
    query = {"labelSelector": f"app={workload.app}", "resourceVersion": version, "timeoutSeconds": "2"}
    for event in workload.kube.watch(_PODS, 60, **query):
        name = event["object"]["metadata"]["name"]
        unready = unready - {name} if is_ready(event["object"]) else unready | {name}
        most = max(most, len(unready))
    return most


def test_label_of_the_selector(person, make_workload):
    """The ReplicaSet would replace the pod that it loses."""
    workload = make_workload("deployment", 1)
    (pod,) = workload.pods()
    for name in workload.name, pod["metadata"]["name"]:
        ran = person.run("restart", name, "--label=app=other")
        assert ran.code == 1
        assert "--label changes a label by which its controller finds the pod" in ran.stderr
    assert [_restarts(one) for one in workload.pods()] == [0]


@pytest.mark.timeout(180)
def test_budget(bare, person, make_workload):
    """A PodDisruptionBudget that allows nothing is waited for, by name."""
    workload = make_workload("deployment", 2)
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": workload.app, "namespace": "default"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": workload.app}}},
    }
    path = f"/apis/policy/v1/namespaces/default/poddisruptionbudgets/{workload.app}"
    bare.admin.create(budget)
    bare.admin.wait_for(path, lambda one: one.get("status", {}).get("currentHealthy") == 2, 30)
    try:
        with person.running("restart", workload.name) as child:
            line = child.stderr.readline()
            assert f'until the PodDisruptionBudget "{workload.app}" allows another pod' in line
            assert {_restarts(pod) for pod in workload.pods()} == {0}
            bare.admin.patch(path, {"spec": {"minAvailable": 1}})
            output, errors = child.communicate(timeout=60)
        assert child.returncode == 0, errors
    finally:
        bare.admin.delete(path)
    assert {_restarts(pod) for pod in workload.pods()} == {1}
    assert output.count(" restarted\n") == 2


@pytest.mark.parametrize("path", ["pods[?].*metadata.name", "poddisruptionbudgets[?]"])
def test_server_away(bare, folder, make_workload, path):
    """A server that shows nothing is named, and the restart goes on when it answers again."""
    workload, is_back = make_workload("deployment", 1), threading.Event()
    control_plane = bare.control_plane
    with ApiProxy(folder / "proxy", control_plane.url, control_plane.authority.certificate) as proxy:
        kubeconfig = write_kubeconfig(folder / "proxy.conf", proxy.url, proxy.authority, token="lab-admin")
        away = api_faults.when(is_back, api_faults.behave_well)
        proxy.on(f"^GET .*/{path}", away)
        with Inplace(kubeconfig, folder.path).running("restart", workload.name) as child:
            line = child.stderr.readline()
            is_back.set()
            output, errors = child.communicate(timeout=60)
    assert re.search(r"waiting for pod/\S+: the API server: no answer yet", line), line
    assert child.returncode == 0 and output.endswith(" restarted\n"), errors


@pytest.mark.timeout(180)
def test_lost_answer(bare, folder, make_workload):
    """The pod tells that it was written: the command waits for it, and it restarts once."""
    workload = make_workload("deployment", 1)
    control_plane = bare.control_plane
    with ApiProxy(folder / "proxy", control_plane.url, control_plane.authority.certificate) as proxy:
        kubeconfig = write_kubeconfig(folder / "proxy.conf", proxy.url, proxy.authority, token="lab-admin")
        proxy.on("^PATCH .*/pods/", api_faults.lose_reply, times=1)
        ran = Inplace(kubeconfig, folder.path).run("restart", workload.name)
        assert proxy.requests("^PATCH .*/pods/")
    (pod,) = workload.pods()
    assert ran.code == 0 and ran.stdout.endswith(" restarted\n"), ran.stderr
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 1


@pytest.mark.timeout(240)
def test_pods_that_become_ready_meanwhile(folder, person, make_workload, images):
    """Two pods are ill when the command begins. They serve again when the first of them restarts: then they wait their turn."""
    shared = folder / "ill"
    shared.mkdir()
    container = {
        "name": "main",
        "image": images[0].reference,
        "command": until_term("sleep 2"),
        "volumeMounts": [{"name": "ill", "mountPath": "/ill"}],
        "readinessProbe": {"exec": {"command": ["/bin/sh", "-c", "! test -e /ill/$HOSTNAME"]}, "periodSeconds": 1,
                           "timeoutSeconds": 10, "initialDelaySeconds": 5, "failureThreshold": 1},
    }
    volume = {"name": "ill", "hostPath": {"path": str(shared)}}
    workload = make_workload("deployment", 3, pod={"containers": [container], "volumes": [volume]})
    ill = [shared / pod["metadata"]["name"] for pod in workload.pods()][:2]
    for file in ill:
        file.touch()
    wait_until(lambda: len(workload.ready()) == 1, 60, "two pods that are ill")
    with person.running("restart", workload.name) as child:
        wait_until(lambda: any("@" in image_of(pod) for pod in workload.pods()), 30, "the first one")
        for file in ill:
            file.unlink()
        wait_until(lambda: len(workload.ready()) >= 2, 30, "pods that are well")
        fewest = 3
        while child.poll() is None:
            fewest = min(fewest, len(workload.ready()))
        _, errors = child.communicate()
    assert (child.returncode, fewest) == (0, 2), errors


@pytest.mark.timeout(180)
def test_min_ready_seconds(person, make_workload):
    """The second pod begins when the first one has been ready for the given time, by the clock of the server."""
    workload = make_workload("deployment", 2, minReadySeconds=4)
    wait_until(lambda: workload.get()["status"].get("availableReplicas") == 2, 60, "available pods")
    ran = person.run("restart", workload.name, **clock.environment(clock.HOUR))
    assert ran.code == 0, ran.stderr
    starts = sorted(
        pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"] for pod in workload.pods()
    )
    first, second = (int(time[-3:-1]) for time in starts)
    assert (second - first) % 60 >= 4


@pytest.mark.timeout(240)
@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
def test_update_after_restart(person, make_workload, images, kind):
    """An update and its undo go on from either spelling, and the same image is no update."""
    workload = make_workload(kind)
    before = workload.uids()
    with none_replaced(workload):
        _restart(person, workload.name)
        again = person.run("set", "image", workload.name, f"main={images[0].reference}")
        assert again.code == 0 and "has these images already" in again.stdout, again.stdout + again.stderr
        ran = person.run("set", "image", workload.name, f"main={images[1].reference}")
        assert ran.code == 0, ran.stderr
        workload.assert_runs(images[1].reference)
        _restart(person, workload.name)
        ran = person.run("rollout", workload.name, "--undo", timeout=120)
        assert ran.code == 0, ran.stderr
        workload.assert_runs(images[0].reference)
    assert workload.uids() == before


@pytest.mark.timeout(180)
def test_open_update(person, make_workload, images):
    """A pod that waits for the image of an update gets no other image by a restart, and is no proof of the update."""
    workload = make_workload("deployment")
    missing = images[0].reference.rpartition(":")[0] + ":none"
    assert person.run("set", "image", workload.name, f"main={missing}", "--no-preload").code == 3
    before = {pod["metadata"]["name"]: image_of(pod) for pod in workload.pods()}
    assert sorted(before.values()) == sorted([images[0].reference, missing])
    (waiting,) = (name for name, image in before.items() if image == missing)
    for name in workload.name, waiting:
        ran = person.run("restart", name)
        assert ran.code == 1
        assert f"pod/{waiting}: container main does not run" in ran.stderr, ran.stderr
        assert "its update from" in ran.stderr and "still open" in ran.stderr
    assert person.run("rollout", workload.name).code != 0
    assert {pod["metadata"]["name"]: image_of(pod) for pod in workload.pods()} == before
    ran = person.run("rollout", workload.name, "--undo", timeout=90)
    assert ran.code == 0, ran.stderr
    workload.assert_runs(images[0].reference)


def test_missing_rights(bare, person, make_workload):
    """Missing rights are named before anything restarts; those of the manual are enough, but for the optional one."""
    workload = make_workload("deployment", 1)
    name = workload.app
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["list", "watch"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]},
    ]
    group = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": {"name": name, "namespace": "default"}}
    user = {"kind": "User", "apiGroup": group, "name": name}
    reference = {"apiGroup": group, "kind": "Role", "name": name}
    bare.admin.create({**role, "rules": rules})
    bare.admin.create({**role, "kind": "RoleBinding", "roleRef": reference, "subjects": [user]})
    ran = person.run("restart", workload.name, f"--as={name}")
    assert (ran.code, ran.stdout) == (1, "")
    assert "lacks rights in namespace default: patch pods; list replicasets.apps; an administrator" in ran.stderr
    rules[0]["verbs"].append("patch")
    bare.admin.patch(f"/apis/{group}/v1/namespaces/default/roles/{name}", {"rules": rules}, "merge")
    ran = person.run("restart", workload.name, f"--as={name}")
    assert ran.code == 0, ran.stderr
    assert [_restarts(one) for one in workload.pods()] == [1]


def test_crash_loop(person, start_pod, images):
    """A container that waits in CrashLoopBackOff is started at once, with the new annotations."""
    command = shell("test -z $FAIL || exit 7; trap exit TERM; while :; do sleep 3600 & wait; done")
    crashing = container("main", images[0].reference, command=command, env=from_annotations(FAIL="fail"))
    pod = start_pod(crashing, annotations={"fail": "yes"}, must_wait=False)
    pod.wait(lambda one: _waits_for(one, "CrashLoopBackOff"), 60)
    _restart(person, pod.name, "--annotation=fail-")
    pod.wait(is_ready, 30)


@pytest.mark.timeout(180)
def test_delay_that_would_end_it(person, start_pod, images):
    """During its delay, the kubelet would end a pod with the policy Never; until then such a pod is restarted."""
    pod = start_pod(container("main", images[0].reference), restartPolicy="Never")
    for _ in range(3):
        _restart(person, pod.name)
    ran = person.run("restart", pod.name)
    assert ran.code == 1 and "container main would not come back alone: the kubelet delays its start" in ran.stderr
    assert pod.restarts() == {"main": 3} and is_ready(pod.get())


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_pull_that_would_end_it(person, start_pod, images, policy):
    """If the registry did not answer, the kubelet would end such a pod."""
    pod = start_pod(container("main", images[0].reference, imagePullPolicy="Always"), restartPolicy=policy)
    ran = person.run("restart", pod.name)
    assert ran.code == 1
    assert "container main would not come back if its registry did not answer" in ran.stderr
    assert (_image(pod), pod.restarts()) == (images[0].reference, {"main": 0}) and is_ready(pod.get())


def test_pod_that_has_ended(folder, bare, person, start_pod):
    """The image was removed from the node: the kubelet cannot pull it, and starts the container no more."""
    with Registry(folder / "away") as away:
        image = away.push_image("t/ended", "1", [4444], busybox=True)
        pod = start_pod(container("main", image.reference), restartPolicy="Never")
        for name in image.reference, image.digest_reference, image.image_id:
            bare.node.runtime.untag(name)
        away.stop()
        ran = person.run("restart", pod.name, timeout=90)
    assert (ran.code, ran.stdout) == (1, f"pod/{pod.name} restarting\n")
    assert "was not restarted: the pod has ended: its containers are not started again" in ran.stderr
    assert pod.get()["status"]["phase"] == "Failed"


@contextmanager
def _admission_in_force(bare: Cluster, pod: Pod, written: str, made: str) -> Iterator[None]:
    """Admission makes one image of another in the main container of pods."""
    patch = {"spec": {"containers": [{"name": "main", "image": written}]}}
    with admission(bare, "pods", written, made):
        wait_until(
            lambda: image_of(bare.admin.patch(pod.path, patch, "strategic", dryRun="All")) == made,
            60,
            "the admission policy",
            0.2,
        )
        yield


def test_admission_of_the_image(bare, person, start_pod, registry):
    """Admission that writes the image as it was is named at once: nothing would restart."""
    image = registry.push_image("t/restart-admission", "1", [5555], busybox=True)
    tag, spelled = image.reference, f"{image.reference}@{image.manifest_digest}"
    pod = start_pod(container("main", tag))
    with _admission_in_force(bare, pod, spelled, tag):
        ran = person.run("restart", pod.name, timeout=60)
    assert ran.code == 1, ran.stdout
    assert f'admission makes "{tag}" of the image "{spelled}" of container "main"' in ran.stderr
    assert (_image(pod), pod.restarts()) == (tag, {"main": 0})


def test_admission_of_another_image(bare, person, start_pod, registry, images):
    """Where admission makes another image of it, the kubelet starts that: it counts as begun."""
    image = registry.push_image("t/restart-admitted", "1", [5556], busybox=True)
    tag, spelled, other = image.reference, f"{image.reference}@{image.manifest_digest}", images[1].reference
    pod = start_pod(container("main", tag))
    with _admission_in_force(bare, pod, spelled, other):
        ran = person.run("restart", pod.name, timeout=60)
    assert ran.code == 1, ran.stdout
    assert f'admission makes "{other}" of the image "{spelled}" of container "main"' in ran.stderr
    assert "restarts in progress continue" in ran.stderr and "were not restarted" not in ran.stderr
    assert _image(pod) == other
    pod.wait(lambda one: _restarts(one) == 1, 60)


def test_label_of_an_unknown_controller(bare, person, images):
    """A controller whose selector is unknown may find the pod by any label that it has, but by no new one."""
    labels = {"app": "unknown", "tier": "web"}
    main = {"name": "main", "image": images[0].reference, "command": until_term()}
    template = {"metadata": {"labels": labels}, "spec": {"terminationGracePeriodSeconds": 1, "containers": [main]}}
    controller = bare.admin.create({
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "metadata": {"name": "unknown"},
        "spec": {"replicas": 1, "selector": labels, "template": template},
    })

    def find() -> list[Object]:
        return [pod for pod in bare.admin.list(_PODS, labelSelector="app=unknown") if is_ready(pod)]

    try:
        (before,) = wait_until(find, 60, "the pod")
        name = before["metadata"]["name"]
        for change in "tier=other", "tier-":
            ran = person.run("restart", name, f"--label={change}")
            assert ran.code == 1, ran.stdout
            assert "--label changes a label by which its controller finds the pod" in ran.stderr
        _restart(person, name, "--label=colour=blue")
        (after,) = find()
    finally:
        bare.admin.delete(bare.admin.path_of(controller), propagationPolicy="Background")
    assert after["metadata"]["uid"] == before["metadata"]["uid"] and _restarts(after) == 1
    assert after["metadata"]["labels"] == {**labels, "colour": "blue"}


def test_first_label_of_an_owned_pod(bare, person, start_pod, images):
    """A controller of an unknown kind finds a pod without labels by none."""
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner-of-a-pod"}}
    owner = bare.admin.create(document)
    pod = start_pod(container("main", images[0].reference))
    metadata = {"name": "owner-of-a-pod", "uid": owner["metadata"]["uid"]}
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "controller": True, **metadata}
    bare.admin.patch(pod.path, {"metadata": {"ownerReferences": [reference]}})
    try:
        _restart(person, pod.name, "--label=colour=blue")
        assert pod.get()["metadata"]["labels"] == {"colour": "blue"}
    finally:
        bare.admin.delete(bare.admin.path_of(owner))


def _waits_for(pod: Object, reason: str) -> bool:
    statuses = pod["status"].get("containerStatuses", [])
    return any(one["state"].get("waiting", {}).get("reason") == reason for one in statuses)


@pytest.mark.timeout(180)
def test_registry_away(folder, person, start_pod):
    """With the pull policy Always the kubelet asks the registry; where that fails, the pod gets its image's name back."""
    with Registry(folder / "away") as away:
        image = away.push_image("t/away", "1", busybox=True)
        pods = [
            start_pod(container("main", image.reference, imagePullPolicy=policy))
            for policy in ("IfNotPresent", "Always")
        ]
        away.stop()
        _restart(person, pods[0].name)
        ran = person.run("restart", pods[1].name, timeout=90)
        assert ran.code == 1
        assert "was not restarted: container main: ImagePullBackOff" in ran.stderr
        assert "its images were written back" in ran.stderr
        assert _image(pods[1]) == image.reference
        away.start()
        pods[1].wait(is_ready, 90)


@pytest.mark.timeout(180)
def test_another_image_while_the_registry_is_away(folder, bare, person, start_pod):
    """An image that another client has written meanwhile stays, also where it cannot be had either."""
    with Registry(folder / "away") as away:
        # The node calls an image by the first name that it had: the one of the other registry had the same content.
        image = away.push_image("t/away", "2", [2], busybox=True).reference
        pod = start_pod(container("main", image, imagePullPolicy="Always"))
        other = image.rpartition(":")[0] + ":none"
        away.stop()
        with person.running("restart", pod.name) as child:
            pod.wait(lambda one: _waits_for(one, "ErrImagePull"), 60)
            bare.admin.patch(pod.path, {"spec": {"containers": [{"name": "main", "image": other}]}}, "strategic")
            _, errors = child.communicate(timeout=90)
        assert child.returncode == 1 and "ImagePullBackOff" in errors and "written back" not in errors
        assert _image(pod) == other


def test_loaded_image(bare, person, start_pod, registry):
    """A loaded image has no digest of its repository: the command says the reason, and changes nothing."""
    image = registry.push_image("t/loaded", "1", [3333], busybox=True)
    runtime, loaded = bare.node.runtime, "loaded.example/app:1"
    runtime.pull(image.reference)
    runtime.ctr("images", "tag", image.reference, loaded)
    for name in image.reference, image.digest_reference:
        runtime.untag(name)
    pod = start_pod(container("main", loaded))
    ran = person.run("restart", pod.name)
    assert ran.code == 1
    assert "cannot be restarted by its digest" in ran.stderr
    assert (_image(pod), pod.restarts()) == (loaded, {"main": 0})


def test_interrupted_in_the_kubelet(person, start_pod, images):
    """Ctrl-C while the old container stops: the kubelet goes on."""
    slow = container("main", images[0].reference, command=until_term("sleep 5"))
    pod = start_pod(slow, terminationGracePeriodSeconds=30)
    with person.running("restart", pod.name) as child:
        wait_until(lambda: "@" in _image(pod), 30, "another spelling")
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=30)
    assert child.returncode == 128 + signal.SIGINT
    assert "restarts in progress continue: the kubelet restarts the containers" in errors
    pod.wait_restarted("main", 1)


@pytest.mark.parametrize("command", ["restart", "set image"])
@pytest.mark.timeout(180)
def test_beside_another_restart(person, make_workload, images, command):
    """A pod is ready while its old container stops for another command, and counts as unavailable all the same."""
    slow = {"name": "main", "image": images[0].reference, "command": until_term("sleep 5")}
    workload = make_workload("statefulset", 3, pod={"containers": [slow], "terminationGracePeriodSeconds": 30})
    first = workload.pods()[0]
    name, before = first["metadata"]["name"], first["status"]["containerStatuses"][0]["containerID"]
    version = workload.kube.get(_PODS)["metadata"]["resourceVersion"]
    images_to_set = [f"main={images[1].reference}"] if command == "set image" else []
    with person.running("restart", name) as child:
        wait_until(lambda: "@" in image_of(workload.kube.get(f"{_PODS}/{name}")), 30, "another spelling", 0.05)
        ran = person.run(*command.split(), workload.name, *images_to_set, timeout=120)
        _, errors = child.communicate(timeout=60)
    assert (child.returncode, ran.code) == (0, 0), errors + ran.stderr
    is_replaced, others = False, set()
    query = {"labelSelector": f"app={workload.app}", "resourceVersion": version, "timeoutSeconds": "2"}
    for event in workload.kube.watch(_PODS, 60, **query):
        pod = event["object"]
        if pod["metadata"]["name"] == name:
            is_replaced = is_replaced or pod["status"]["containerStatuses"][0].get("containerID", before) != before
        elif image_of(pod) != images[0].reference:
            others.add(pod["metadata"]["name"])
            assert is_replaced
    assert len(others) == 2


def test_deleted_in_the_kubelet(person, start_pod, images):
    """A pod that is deleted while its old container stops is gone, and not restarted."""
    slow = container("main", images[0].reference, command=until_term("sleep 5"))
    pod = start_pod(slow, terminationGracePeriodSeconds=30)
    with person.running("restart", pod.name) as child:
        wait_until(lambda: "@" in _image(pod), 30, "another spelling")
        pod.delete()
        output, errors = child.communicate(timeout=60)
    assert (child.returncode, output) == (0, f"pod/{pod.name} restarting\npod/{pod.name} gone\n"), errors


def test_no_requests(person, start_pod, images):
    pod = start_pod(container("main", images[0].reference))
    ran = person.run("restart", pod.name, "--request")
    assert ran.code == 1
    assert "serves no ContainerRecreateRequests" in ran.stderr

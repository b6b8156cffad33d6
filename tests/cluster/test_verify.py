# SPDX-License-Identifier: Apache-2.0
"""Proves that users can see whether containers run the requested image, and restart one on its
node: `inplacectl verify` and `restart`, the pod's condition, and the metrics.
"""

from __future__ import annotations

import json
import time

import pytest

from fake import api_faults
from fake.api_proxy import ApiProxy
from lab import sanitizers
from lab.kubeconfig import write_kubeconfig
from lab.pod import GATE, VERIFIED, container, from_annotations, shell, until_term
from lab.wait import stretch, wait_until

SLOWLY = sanitizers.SLOWNESS

pytestmark = [pytest.mark.containers, pytest.mark.timeout(90 * SLOWLY)]

_COLOUR = from_annotations(COLOUR="colour")

# Does not end on SIGTERM before there is a file, so that its restart can be seen.
_LINGERS = until_term("while [ ! -e /data/go ]; do sleep 0.1; done")


@pytest.fixture
def image(registry, node, image_name):
    """image(tag, content) as PushedImage: whatever has the same content is the same image."""
    pushed = []

    def push(tag: str, content: str):
        labels = {"test": image_name, "content": content}
        made = registry.push_image(image_name, tag, busybox=True, labels=labels)
        pushed.append(made)
        return made

    yield push
    for made in pushed:
        node.runtime.remove_image(made.image_id)


def verify(agent, *arguments: str, pod=None) -> tuple[int, dict[str, dict]]:
    """The exit status, and the report on each container of the pod."""
    ran = agent.ctl("-o", "json", "verify", *arguments)
    said = json.loads(ran.stdout)["containers"]
    return ran.returncode, {
        one["container"]: one for one in said if pod is None or one["pod"] == pod.name
    }


def wait_metric(agent, verdict: str, n: int) -> None:
    def value() -> float:
        return agent.metrics().get_value("inplaced_containers", verdict=verdict)

    wait_until(lambda: value() == n, 10 * SLOWLY, lambda: f"{n} {verdict}: {value()}", 0.05)


def restart(agent, *arguments: str, timeout: float = 60):
    """The exit status, and the containers that the command reports."""
    ran = agent.ctl("-o", "json", "restart", *arguments, timeout=stretch(timeout * SLOWLY))
    return ran, json.loads(ran.stdout)["containers"] if ran.stdout else []


# Running images and environments


def test_all_is_as_it_should_be(node_agent, make_pod, image):
    made = image("1", "first")
    pod = make_pod(container("one", made.reference), container("two", made.reference))
    code, said = verify(node_agent, pod.name)
    assert code == 0
    for name in ("one", "two"):
        assert said[name]["verdict"] == "Current" and said[name]["namespace"] == "default"
        assert said[name]["image"] == made.reference
        assert said[name]["nodeImageID"] == said[name]["runningImageID"] == made.image_id
    table = node_agent.ctl("verify", pod.name)
    assert table.returncode == 0 and "Current" in table.stdout and pod.name in table.stdout


def test_a_tag_that_has_moved_and_another_name(node_agent, make_pod, image, node):
    """The same content under another name is current; other content is stale."""
    first = image("moving", "first")
    pod = make_pod(container("main", first.reference))
    other = make_pod(container("main", first.reference))
    code, said = verify(node_agent, pod=pod)
    assert said["main"]["verdict"] == "Current"

    alias = image("alias", "first")
    assert alias.image_id == first.image_id and alias.reference != first.reference
    node.runtime.pull(alias.reference)
    assert verify(node_agent, pod.name)[0] == 0

    second = image("moving", "second")
    assert second.reference == first.reference and second.image_id != first.image_id
    # A new image in the registry does not count before it is on the node.
    assert verify(node_agent, pod.name)[0] == 0
    node.runtime.pull(second.reference)
    code, said = verify(node_agent, pod.name)
    assert code == 3
    assert said["main"]["verdict"] == "Stale" and said["main"]["message"]
    assert said["main"]["nodeImageID"] == second.image_id
    assert said["main"]["runningImageID"] == first.image_id
    assert "stale" in node_agent.ctl("verify").stderr

    # Another pod with the same reference is stale as well, until it is restarted.
    assert verify(node_agent, other.name)[0] == 3
    assert restart(node_agent, f"{other.name}/main", "--wait")[0].returncode == 0
    assert verify(node_agent, other.name)[0] == 0


def test_an_environment_that_is_not_what_it_should_be(node_agent, make_pod, tools):
    """`verify` reports a stale environment although no restart was requested."""
    pod = make_pod(container("main", tools, env=_COLOUR), annotations={"colour": "red"})
    pod.wait_meta()
    code, said = verify(node_agent, pod.name)
    assert code == 0 and said["main"]["environment"] == "Current"
    pod.change(annotations={"colour": "blue"})

    def is_stale() -> bool:
        code, said = verify(node_agent, pod.name)
        return code == 3 and said["main"]["environment"] == "Stale"

    wait_until(is_stale, 10 * SLOWLY, "stale environment", pause=0.05)


def test_a_pod_that_is_not_there(node_agent):
    assert node_agent.ctl("verify", "missing").returncode == 1


# The condition of a pod


def test_the_condition_of_a_pod_in_an_update(node_agent, make_pod, image, node):
    first = image("1", "first")
    pod = make_pod(
        container("main", first.reference, env=_COLOUR, command=_LINGERS),
        annotations={"colour": "red"},
        terminationGracePeriodSeconds=60,
    )
    pod.wait_meta()
    pod.begin_update(annotations={"colour": "blue"})
    pod.wait_condition(VERIFIED, "False", 10 * SLOWLY)
    pod.file("go").touch()
    pod.wait_restarted("main")
    found = pod.wait_condition(VERIFIED, "True", 10 * SLOWLY)
    assert found["reason"] == "Verified" and found["message"] and found["lastTransitionTime"]
    assert "blue" not in found["message"]

    second = image("2", "second")
    pod.file("go").unlink()
    pod.change(images={"main": second.reference})
    pod.wait_condition(VERIFIED, "False", 10 * SLOWLY)
    pod.file("go").touch()
    pod.wait_restarted("main", 2)
    found = pod.wait_condition(VERIFIED, "True", 20 * SLOWLY)
    assert second.image_id[:19] in found["message"]
    pod.set_condition(GATE, "True")


def test_the_agent_was_away_while_the_image_changed(node_agent, make_pod, image):
    """A pod that never had the condition gets it: the runtime still has the container before."""
    first, second = image("1", "first"), image("2", "second")
    pod = make_pod(container("main", first.reference), owner=False)
    node_agent.kill9()
    pod.change(images={"main": second.reference})
    pod.wait_restarted("main")
    assert pod.condition(VERIFIED) is None
    node_agent.start()
    found = pod.wait_condition(VERIFIED, "True", 10 * SLOWLY)
    assert second.image_id[:19] in found["message"]


def test_a_pod_that_runs_something_else_says_so(node_agent, make_pod, image, node):
    """The condition names both image IDs."""
    first = image("moving", "first")
    pod = make_pod(
        container("main", first.reference, env=_COLOUR), annotations={"colour": "red"}
    )
    pod.wait_meta()
    pod.set_condition(GATE, "False")
    pod.wait_condition(VERIFIED, "True", 10 * SLOWLY)
    second = image("moving", "second")
    ran = node_agent.ctl("pull", "--pull-policy=Always", second.reference)
    assert ran.returncode == 0, ran.stderr
    found = pod.wait_condition(VERIFIED, "False", 10 * SLOWLY)
    assert found["reason"] == "ImageStale"
    for made in (first, second):
        assert made.image_id[:19] in found["message"]


def test_no_condition_where_none_is_asked_for(start_node_agent, make_pod, tools):
    agent = start_node_agent(flags=("--pod-condition=false",))
    pod = make_pod(container("main", tools, env=_COLOUR), annotations={"colour": "red"})
    pod.wait_meta()
    pod.begin_update(annotations={"colour": "blue"})
    pod.wait_restarted("main")
    pod.wait_meta()
    assert pod.condition(VERIFIED) is None
    assert verify(agent, pod.name)[0] == 0


def test_metrics_count_containers(node_agent, make_pod, image, node):
    first = image("moving", "first")
    pod = make_pod(container("main", first.reference), container("more", first.reference))
    pod.wait_meta()
    current = node_agent.metrics().get_value("inplaced_containers", verdict="current")
    assert current >= 2
    stale = node_agent.metrics().get_value("inplaced_containers", verdict="stale")
    second = image("moving", "second")
    ran = node_agent.ctl("pull", "--pull-policy=Always", second.reference)
    assert ran.returncode == 0, ran.stderr
    wait_metric(node_agent, "stale", stale + 2)


# Restarts by a local caller


def test_restarts_a_container_and_waits_for_it(node_agent, make_pod, tools):
    pod = make_pod(container("one", tools), container("two", tools), owner=False)
    old = pod.container_id("one")
    ran, said = restart(node_agent, f"{pod.name}/one", "--wait", "--reason", "new certificates")
    assert ran.returncode == 0, ran.stderr
    (one,) = said
    assert one["phase"] == "Running" and old.partition("://")[2] == one["oldContainerID"]
    assert pod.wait_restarted("one")["containerID"].partition("://")[2] == one["newContainerID"]
    assert pod.restarts() == {"one": 1, "two": 0}
    assert "new certificates" in pod.wait_event("Killing", 10 * SLOWLY)["message"]


def test_restarts_a_whole_pod(node_agent, make_pod, tools):
    pod = make_pod(container("one", tools), container("two", tools), owner=False)
    ran = node_agent.ctl("restart", pod.name, "--wait")
    assert ran.returncode == 0, ran.stderr
    for name in ("one", "two"):
        assert pod.wait_restarted(name)["containerID"].partition("://")[2][:12] in (
            ran.stdout
        )


def test_sidecars_end_after_what_they_serve(node_agent, make_pod, tools):
    """Sidecars end in reverse order of the pod's spec, as the kubelet ends them, and all run again."""

    def ends(name: str, after: float = 0, **more):
        command = until_term(f"sleep {after}; echo {name} >>/data/notes")
        return container(name, tools, command=command, **more)

    sidecars = [ends(name, restartPolicy="Always") for name in ("first", "second")]
    more = {"initContainers": sidecars, "terminationGracePeriodSeconds": 30}
    pod = make_pod(ends("main", 1), owner=False, **more)
    for name in ("main", "second", "first"):
        pod.wait_heeds_term(name)
    ran, said = restart(node_agent, pod.name, "--wait")
    assert ran.returncode == 0, ran.stderr
    assert {one["container"]: one["phase"] for one in said} == dict.fromkeys(
        ("main", "first", "second"), "Running"
    )
    notes, killed = pod.lines("notes"), pod.events("Killing")
    assert notes == ["main", "second", "first"], (said, [one["message"] for one in killed], pod.get()["status"])
    assert pod.restarts() == {"main": 1, "first": 1, "second": 1}, pod.get()["status"]


def test_the_api_server_is_away(start_node_agent, control_plane, folder, make_pod, tools):
    """The agent uses the pod's last known state: here, that its restartPolicy is Never."""
    pod = make_pod(container("main", tools), restartPolicy="Never", owner=False)
    server = control_plane.url, control_plane.authority.certificate
    token = control_plane.agent_token(pod.node.name)
    with ApiProxy(folder / "api", *server) as api:
        path = write_kubeconfig(folder / "behind.conf", api.url, api.authority, token=token)
        agent = start_node_agent(kubeconfig=path)

        def says(what: str) -> bool:
            return f"of this node are {what}" in agent.ctl("doctor").stdout

        wait_until(lambda: says("watched"), 10 * SLOWLY, "pods")
        api.on("", api_faults.refuse(503))
        for watch in api.watches():
            watch.cut()
        wait_until(lambda: says("known"), 10 * SLOWLY, "loss of the server", 0.1)
        ran, (main,) = restart(agent, pod.name, "--wait")
        assert ran.returncode == 3 and main["phase"] == "Stopped"
        assert "restartPolicy Never" in main["message"]
        api.behave()


def test_without_waiting_it_is_stopped(node_agent, make_pod, tools):
    hook = {"preStop": {"exec": {"command": shell("echo hook >>/data/notes")}}}
    command = until_term("echo term >>/data/notes")
    pod = make_pod(container("main", tools, command=command, lifecycle=hook), owner=False)
    old = pod.runtime_container("main").id
    ran, (one,) = restart(node_agent, f"{pod.name}/main")
    assert ran.returncode == 0 and one["phase"] == "Stopped" and one["oldContainerID"] == old
    assert pod.lines("notes") == ["hook", "term"]
    pod.wait_restarted("main")


def test_with_another_grace_period(node_agent, make_pod, tools):
    deaf = container("main", tools, command=shell("trap '' TERM; while :; do sleep 3600; done"))
    pod = make_pod(deaf, owner=False, terminationGracePeriodSeconds=60)
    began = time.monotonic()
    ran, _ = restart(node_agent, f"{pod.name}/main", "--grace", "3")
    assert ran.returncode == 0, ran.stderr
    assert 2.9 < time.monotonic() - began < stretch(8 * SLOWLY)


def test_a_name_in_two_namespaces_is_not_enough(node_agent, make_pod, tools, kube):
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}}
    kube.apply(namespace)
    pods = [
        make_pod(container("main", tools), owner=False, name="twin", namespace=namespace)
        for namespace in ("default", "elsewhere")
    ]
    ran, _ = restart(node_agent, "twin/main")
    assert ran.returncode == 2
    assert "default" in ran.stderr and "elsewhere" in ran.stderr
    assert [pod.restarts() for pod in pods] == [{"main": 0}] * 2

    ran, (one,) = restart(node_agent, "--namespace", "elsewhere", "twin/main", "--wait")
    assert ran.returncode == 0 and one["namespace"] == "elsewhere"
    assert [pod.restarts()["main"] for pod in pods] == [0, 1]


def test_what_is_not_there_cannot_be_restarted(node_agent, make_pod, tools):
    pod = make_pod(container("main", tools), owner=False)
    for name in ("missing", f"{pod.name}/nothing"):
        ran, _ = restart(node_agent, name)
        assert ran.returncode == 1 and name.partition("/")[2] in ran.stderr
    assert pod.restarts() == {"main": 0}

# SPDX-License-Identifier: Apache-2.0
"""Proves that restarts for changed metadata survive failures: the agent restarts no container twice,
none that was not requested, and forgets none.
"""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time

import pytest

from fake import api_faults, behaviours
from fake.runtime_proxy import RuntimeProxy
from lab import sanitizers
from lab.kubelet import is_ready
from lab.pod import GATE, META, VERIFIED, Pod, container, from_annotations, shell, until_term
from lab.trouble import complaints
from lab.wait import stretch, wait_until

SLOWLY = sanitizers.SLOWNESS

pytestmark = [pytest.mark.containers, pytest.mark.timeout(120 * SLOWLY)]

_COLOUR = from_annotations(COLOUR="colour")
_BLUE = {"colour": "blue"}

_DEAF = shell("trap '' TERM; while :; do sleep 3600 & wait; done")
_SLOW = until_term("echo term >>/data/notes; sleep 4")


@pytest.fixture
def coloured(make_pod, tools):
    """coloured(command, …): a pod whose container `main` has an annotation in its environment."""

    def make(command=None, grace: int = 10, **more):
        main = container("main", tools, env=_COLOUR, **more)
        main["command"] = command or main["command"]
        return make_pod(
            main, annotations={"colour": "red"}, terminationGracePeriodSeconds=grace
        )

    return make


@pytest.fixture
def runtime(node, folder):
    with RuntimeProxy(folder / "runtime", node.runtime.socket) as proxy:
        yield proxy


@pytest.fixture
def agent_behind_runtime(start_node_agent, runtime):
    """An agent whose calls to containerd pass through the fixture `runtime`."""
    return start_node_agent(endpoint=runtime.endpoint)


def assert_healed(pod: Pod, settle, colour: str = "blue") -> None:
    """The container was restarted once, has the requested environment, and the annotation shows it."""
    pod.wait_restarted("main", timeout=40)
    assert pod.environment("main")["COLOUR"] == colour
    pod.wait_meta()
    settle()
    assert pod.restarts() == {"main": 1}


# Processes and hooks


def test_a_process_that_does_not_heed_sigterm(node_agent, coloured, settle):
    """The process is killed when its grace period is over, not before."""
    pod = coloured(_DEAF, grace=3)
    pod.wait_meta()
    first = pod.runtime_container("main").id
    began = time.time()
    pod.begin_update(annotations=_BLUE)
    old = pod.wait_ended(first, 40)
    assert_healed(pod, settle)
    assert old.exit_code == 128 + signal.SIGKILL
    assert 2.9 < old.finished_at / 1e9 - began < stretch(15 * SLOWLY)


def test_a_hook_that_hangs(node_agent, coloured, settle):
    """The hook uses up the grace period; the process gets two more seconds at most."""
    hook = {"preStop": {"exec": {"command": shell("echo hook >>/data/notes; sleep 600")}}}
    pod = coloured(until_term("echo term >>/data/notes"), grace=3, lifecycle=hook)
    pod.wait_meta()
    first = pod.runtime_container("main").id
    began = time.time()
    pod.begin_update(annotations=_BLUE)
    old = pod.wait_ended(first, 40)
    assert_healed(pod, settle)
    assert pod.lines("notes") == ["hook", "term"] * (1 + pod.n_late("main"))
    assert 2.9 < old.finished_at / 1e9 - began < stretch(15 * SLOWLY)


@pytest.mark.parametrize("instant", ["before it is inspected", "before it is stopped"])
def test_a_container_that_dies_by_itself(agent_behind_runtime, runtime, coloured, settle, instant):
    """The kubelet restarts the container with the new value; there is no second restart."""
    pod = coloured()
    pod.wait_meta()
    released = threading.Event()
    old = pod.runtime_container("main").id
    method = {"before it is inspected": "ListContainers"}.get(instant, "StopContainer")
    runtime.on(method, behaviours.when(released), container=old)
    n_before = len(runtime.calls(method, old))

    pod.begin_update(annotations=_BLUE)
    wait_until(lambda: len(runtime.calls(method, old)) > n_before, 10 * SLOWLY, method)
    os.kill(pod.process("main"), signal.SIGKILL)
    cri = pod.node.runtime.cri
    exited = cri.messages.CONTAINER_EXITED  # the newest may be its successor
    wait_until(lambda: cri.container_status(old)[0].state == exited, 10, "death")
    released.set()
    assert_healed(pod, settle)


# Pods that are deleted and created again


@pytest.fixture
def decided(agent_behind_api, api, coloured):
    """decided(…): a pod whose container the agent has decided to restart, and an Event that lets the
    agent read the pod again before it acts."""

    def decide(**more):
        pod = coloured(**more)
        pod.wait_meta()
        released = threading.Event()
        reads = rf"^GET {pod.path}(\?|$)"
        n_before = len(api.requests(reads))
        api.on(reads, api_faults.when(released))
        pod.begin_update(annotations=_BLUE)
        wait_until(lambda: len(api.requests(reads)) > n_before, 10 * SLOWLY, "second read")
        return pod, released

    return decide


def test_a_pod_that_is_being_deleted(decided, settle):
    """The kubelet ends a pod that is being deleted, with the pod's grace period."""
    pod, released = decided(command=_SLOW, grace=20)
    pod.delete(grace=20)
    released.set()
    settle()
    assert pod.events("Killing") == []
    pod.kube.wait_gone(pod.path, 30)
    assert pod.lines("notes") in ([], ["term"])


def test_another_pod_of_that_name(decided, make_pod, tools, settle):
    """A new pod under the same name, as a StatefulSet creates it, is not restarted."""
    pod, released = decided(grace=1)
    pod.delete()
    pod.kube.wait_gone(pod.path)
    main = container("main", tools, env=_COLOUR)
    other = make_pod(main, name=pod.name, annotations={"colour": "green"})
    assert other.uid != pod.uid
    released.set()
    other.wait_meta()
    settle()
    assert other.restarts() == {"main": 0}
    assert pod.events("Killing") == other.events("Killing") == []


def test_an_update_that_is_taken_back(decided, settle):
    """A change that is reverted between the decision and the stop restarts nothing."""
    pod, released = decided()
    pod.change(annotations={"colour": "red"})
    released.set()
    settle()
    assert pod.restarts() == {"main": 0} and pod.events("Killing") == []
    assert pod.environment("main")["COLOUR"] == "red"
    pod.wait_meta()


# Values that do not stay


def test_there_and_back_within_a_moment(node_agent, coloured, settle):
    """The timing decides whether the container is stopped; it ends with the requested value."""
    pod = coloured()
    pod.wait_meta()
    pod.set_condition(GATE, "False")
    pod.wait(lambda document: not is_ready(document))
    for colour in ("blue", "red"):
        pod.change(annotations={"colour": colour})
    settle()
    pod.wait_environment("main", "COLOUR", "red", 30)
    pod.wait_meta(20)
    assert pod.restarts()["main"] <= 2


def test_a_hundred_values_in_a_second(node_agent, coloured, settle):
    """The agent restarts once while the values change, and at most once more for the last one.

    On a stalled machine the values stall as well, and one of them may be taken for the last.
    """
    pod = coloured()
    pod.wait_meta()
    pod.set_condition(GATE, "False")
    changed_at = []
    for n in range(100):
        pod.change(annotations={"colour": f"colour {n}"})
        changed_at.append(time.monotonic())
    n_rests = sum(after - before > 1 for before, after in itertools.pairwise(changed_at))
    pod.wait_environment("main", "COLOUR", "colour 99", 40)
    pod.wait_meta(20)
    settle()
    pod.wait_meta()
    assert 1 <= pod.restarts()["main"] <= 2 + n_rests
    assert pod.environment("main")["COLOUR"] == "colour 99"


def test_an_ineffective_restart_is_reported_and_not_repeated(node_agent, make_pod, tools, settle):
    """Another variable of the same name overrides the value in the environment."""
    env = [*_COLOUR, {"name": "COLOUR", "value": "fixed"}]
    pod = make_pod(container("main", tools, env=env), annotations={"colour": "fixed"})
    pod.wait_meta()
    pod.begin_update(annotations=_BLUE)
    pod.wait_restarted("main")
    event = pod.wait_event("InPlaceRestartFailed", 20 * SLOWLY)
    assert event["type"] == "Warning" and "main" in event["message"]
    assert "blue" not in event["message"] and "fixed" not in event["message"]
    settle()
    settle()
    assert pod.restarts() == {"main": 1}
    node_agent.terminate()
    node_agent.start()
    settle()
    settle()
    assert pod.restarts() == {"main": 1}
    pod.begin_update(annotations={"colour": "fixed"})
    pod.wait_meta()
    settle()
    assert pod.restarts() == {"main": 1}


# Restarts of the runtime, the kubelet and the agent


@pytest.mark.parametrize("how", [pytest.param("stop", marks=pytest.mark.slow), "kill9"])
def test_the_runtime_restarts_in_the_middle(node_agent, coloured, settle, node, how):
    pod = coloured(_SLOW)
    pod.wait_meta()
    pod.begin_update(annotations=_BLUE)
    wait_until(lambda: pod.lines("notes"), 10 * SLOWLY, "SIGTERM")
    getattr(node.runtime, how)()
    node.runtime.start()
    assert_healed(pod, settle)


def test_no_kubelet_to_start_it_again(node_agent, coloured, settle, node):
    """The agent leaves the container running and reports that."""
    pod = coloured()
    pod.wait_meta()
    process = pod.process("main")
    node.kubelet.stop()
    pod.begin_update(annotations=_BLUE)

    def says_so() -> bool:
        reported = [event["message"] for event in pod.events()] + complaints(node_agent)
        reported.append((pod.condition(VERIFIED) or {}).get("message", ""))
        return any("kubelet" in text or node.health_address in text for text in reported)

    wait_until(says_so, 20 * SLOWLY, "report of the missing kubelet", pause=0.1)
    assert pod.is_running("main") and pod.process("main") == process
    node.kubelet.start()
    assert_healed(pod, settle)


def test_the_agent_is_killed_between_stop_and_report(node_agent, coloured, settle):
    """The next run knows that the previous run stopped the container, and does not stop it again."""
    pod = coloured(_SLOW)
    pod.wait_meta()
    pod.begin_update(annotations=_BLUE)
    wait_until(lambda: pod.lines("notes"), 10 * SLOWLY, "SIGTERM")
    node_agent.kill9()
    node_agent.start()
    assert_healed(pod, settle)


def test_the_agent_is_killed_in_a_hook(node_agent, coloured, settle):
    """The next run does not repeat a hook that has begun."""
    # containerd 1.6 hangs if its caller goes before such a command has quite started.
    command = shell("echo hook >>/data/notes; sleep 1; : >/data/begun; sleep 3")
    hook = {"preStop": {"exec": {"command": command}}}
    pod = coloured(until_term("echo term >>/data/notes"), lifecycle=hook)
    pod.wait_meta()
    pod.begin_update(annotations=_BLUE)
    wait_until(pod.file("begun").exists, 10 * SLOWLY, "hook")
    node_agent.kill9()
    node_agent.start()
    assert_healed(pod, settle)
    assert pod.lines("notes") == ["hook", "term"] * (1 + pod.n_late("main"))


def test_taken_back_while_no_agent_runs(node_agent, coloured, settle):
    """The next run kills a container that ignores SIGTERM, though the change was reverted."""
    grace = 12
    pod = coloured(until_term("echo term >>/data/notes; sleep 3600"), grace=grace)
    pod.wait_meta()
    pod.begin_update(annotations=_BLUE)
    wait_until(lambda: pod.lines("notes"), 10 * SLOWLY, "SIGTERM")
    first, stopped = pod.runtime_container("main").id, time.time()
    node_agent.kill9()
    pod.change(annotations={"colour": "red"})
    node_agent.start()
    old = pod.wait_ended(first, 40)
    assert_healed(pod, settle, "red")
    assert old.exit_code == 128 + signal.SIGKILL
    assert grace - 2 <= old.finished_at / 1e9 - stopped <= grace + stretch(5 * SLOWLY)


def test_a_change_while_no_agent_runs(node_agent, coloured, settle):
    pod = coloured()
    pod.wait_meta()
    node_agent.kill9()
    pod.begin_update(annotations=_BLUE)
    node_agent.start()
    assert_healed(pod, settle)


@pytest.mark.parametrize(
    "fault", ["refuse", "lose_reply", pytest.param("hang_reply", marks=pytest.mark.slow)]
)
def test_the_report_arrives_in_the_end(agent_behind_api, api, coloured, settle, fault):
    """The agent repeats a failed write of its report, without another restart."""
    pod = coloured()
    pod.wait_meta()
    behaviour = {"refuse": api_faults.refuse(503)}.get(fault) or getattr(api_faults, fault)
    api.on(rf"^PATCH {pod.path}/status", behaviour, times=2)
    pod.begin_update(annotations=_BLUE)
    pod.wait_restarted("main")
    pod.wait_meta(60)
    api.behave()
    assert_healed(pod, settle)


def test_another_writer_spoils_the_annotation(node_agent, coloured, settle):
    """The agent restores the annotation without a restart."""
    pod = coloured()
    pod.wait_meta()
    for text in ("no JSON", '{"containers":[{"name":"main"}]}', None):
        pod.change(annotations={META: text})
        pod.wait_meta()
    settle()
    assert pod.restarts() == {"main": 0}


def test_no_program_is_run_in_a_container_and_no_event_is_subscribed_to(
    agent_behind_runtime, runtime, coloured, settle
):
    """The agent subscribes to no events: before containerd 2.0 the kubelet would lose them."""
    pod = coloured()
    pod.wait_meta()
    pod.begin_update(annotations=_BLUE)
    assert_healed(pod, settle)
    asked = {call.method for call in runtime.calls()}
    assert "StopContainer" in asked
    assert not asked & {"ExecSync", "Exec", "GetContainerEvents"}


@pytest.mark.slow
def test_many_pods_at_once(node_agent, make_pod, tools, settle):
    """The agent restarts each container once."""
    main = container("main", tools, env=_COLOUR)
    red = {"colour": "red"}
    pods = [make_pod(main, annotations=red, must_wait=False) for _ in range(20)]
    for pod in pods:
        pod.wait(is_ready, 90)
        pod.wait_meta()
    for pod in pods:
        pod.begin_update(annotations=_BLUE)
    for pod in pods:
        pod.wait_restarted("main", timeout=60)
        assert pod.environment("main")["COLOUR"] == "blue"
        pod.wait_meta()
    settle()
    assert [pod.restarts() for pod in pods] == [{"main": 1}] * len(pods)

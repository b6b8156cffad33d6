# SPDX-License-Identifier: Apache-2.0
"""Proves that a ContainerRecreateRequest made with kubectl, without OpenKruise, is served
whole: adopted, carried out as its strategy says, completed, and deleted when its time is over.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from datetime import datetime

import pytest

from fake import behaviours
from fake.runtime import FakeRuntime
from fake.runtime_proxy import RuntimeProxy
from lab import clock, sanitizers
from lab.kubelet import is_ready
from lab.pod import container, shell, until_term
from lab.recreate_request import PREFIX, RecreateRequest
from lab.wait import stretch, wait_until

SLOWLY = sanitizers.SLOWNESS

pytestmark = [pytest.mark.containers, pytest.mark.timeout(120 * SLOWLY)]

_REQUESTS = "/apis/apps.kruise.io/v1beta1/namespaces/default/containerrecreaterequests"

_READY = "KruisePodReady"

# Fails to start as long as the program is missing.
_PROGRAM = "program"
_FAILS_AT_FIRST = [f"/data/{_PROGRAM}"]
_GOOD_PROGRAM = "#!/bin/sh\ntrap exit TERM; sleep 3600 & wait\n"

# A program in a container may take more than the second that a probe has by default, on a busy machine each time.
_READY_BY_FILE = {"exec": {"command": shell("[ -e /data/ready ]")}, "periodSeconds": 1, "timeoutSeconds": 10}

# Ignores SIGTERM until the file exists.
_LINGERS = until_term("echo term >>/data/notes; while [ ! -e /data/go ]; do sleep 0.1; done")


@pytest.fixture
def pair(make_pod, tools):
    """A pod with two containers; no workload of OpenKruise owns it."""
    return make_pod(container("one", tools), container("two", tools), owner=False)


@pytest.fixture
def runtime(node, folder):
    with RuntimeProxy(folder / "runtime", node.runtime.socket) as proxy:
        yield proxy


@pytest.fixture
def ask():
    """ask(pod, container, …) as RecreateRequest, created."""
    made = []

    def create(*arguments, **more):
        made.append(RecreateRequest(*arguments, **more))
        return made[-1].create()

    yield create
    for one in made:
        one.delete()


def runtimes(agent) -> list[dict]:
    """The runtimes, in the order of the agent's flags."""
    return json.loads(agent.ctl("doctor", "-o", "json").stdout)["runtimes"]


def ended_at(pod, name: str) -> float:
    """The time when the pod's first container of that name ended."""
    return pod.runtime_status(name, 0).finished_at / 1e9


def began_at(pod, name: str) -> float:
    """The time when the pod's newest container of that name began."""
    return pod.runtime_status(name).started_at / 1e9


def make_ready(pod, name: str) -> None:
    """Makes a new pod ready; one of its containers is ready only by a file."""
    pod.wait(lambda document: pod.status(name).get("started"))
    pod.file("ready").touch()
    pod.wait(is_ready)


def wait_term(pod) -> None:
    wait_until(lambda: "term" in pod.lines("notes"), 10 * SLOWLY, "SIGTERM")


def install(pod, text: str) -> None:
    """Writes the program at once, so that it is started whole or not at all."""
    new = pod.file("new")
    new.write_text(text)
    new.chmod(0o755)
    new.rename(pod.file(_PROGRAM))


def seconds_of(text: str) -> float:
    """A time in the API server's format, as seconds."""
    return datetime.fromisoformat(text).timestamp()


def hurry(pod, request) -> None:
    """Waits until the request is completed, without the kubelet's pause of 10 s between syncs.

    The kubelet syncs a pod at once when it changes.
    """
    numbers = itertools.count(1)

    def is_completed() -> bool:
        pod.change(annotations={"sync": str(next(numbers))})
        return request.status().get("phase") == "Completed"

    wait_until(is_completed, 30, lambda: f"end: {request.status()}", 0.3)


def test_restarts_and_completes(node_agent, pair, ask):
    before = pair.get()["status"]
    request = ask(pair, "one")
    status = request.wait_phase("Completed")
    assert status["completionTime"] and status["message"]
    (state,) = status["containerRecreateStates"]
    assert (state["name"], state["phase"], state["isKilled"]) == ("one", "Succeeded", True)
    assert pair.restarts() == {"one": 1, "two": 0}
    snapshot = {"name": "one", "ready": True, "restartCount": 1}
    snapshot["containerID"] = pair.container_id("one")
    assert status["containerStatusSnapshot"] == [snapshot]
    after = pair.get()["status"]
    assert after["podIP"] == before["podIP"]
    event = pair.wait_event("Killing", 10 * SLOWLY)
    assert event["involvedObject"]["fieldPath"] == "spec.containers{one}"
    assert request.name in event["message"]
    assert len(pair.events("Killing")) == 1


@pytest.mark.parametrize("is_away", [False, True], ids=["there", "away"])
def test_two_runtimes_of_one_name(folder, node, start_node_agent, pair, ask, is_away):
    """The chosen runtime serves a request, though another one of its name is listed before it; a request waits while it is away."""
    with FakeRuntime(folder / "other") as other:
        # Until the real one is chosen, the other one refuses; it is asked again 250 ms later.
        chosen = threading.Event()
        refuse = behaviours.fail("UNIMPLEMENTED", "no CRI yet")
        other.on("Version", behaviours.in_turn(refuse, behaviours.when(chosen)))
        agent = start_node_agent([other.endpoint, node.runtime.endpoint])
        agent.wait_runtime()
        chosen.set()
        wait_until(lambda: all(one["ready"] for one in runtimes(agent)), 60, "the other runtime")
        assert [(one["name"], one["chosen"]) for one in runtimes(agent)] == [("containerd", False), ("containerd", True)]
        if is_away:
            node.runtime.process.kill9()
            wait_until(lambda: not runtimes(agent)[1]["ready"], 10, "end of the runtime")
        request = ask(pair, "one")
        if is_away:
            request.wait_phase("Recreating")
            node.runtime.start()
        request.wait_phase("Completed", 60)
        assert request.state("one")["phase"] == "Succeeded"
        assert pair.restarts() == {"one": 1, "two": 0}
        assert not other.calls("ListContainers")


@pytest.mark.parametrize("is_ordered", [True, False], ids=["ordered", "unordered"])
def test_in_the_order_of_the_request(node_agent, make_pod, tools, ask, is_ordered):
    """The agent stops the next container when the previous one is ready (ordered) or has ended."""
    two = container("two", tools, readinessProbe=_READY_BY_FILE)
    pod = make_pod(container("one", tools), two, owner=False, must_wait=False)
    make_ready(pod, "two")
    pod.file("ready").unlink()
    request = ask(pod, "two", "one", orderedRecreate=is_ordered)
    pod.wait_restarted("two" if is_ordered else "one")
    # Now it runs again, or will soon, but is not ready before the file exists.
    state = request.wait_state("two", "Recreating", 10 * SLOWLY)
    assert state.get("isKilled"), (state, pod.story())
    if is_ordered:
        assert pod.restarts() == {"one": 0, "two": 1}, (request.status(), pod.story())
    pod.file("ready").touch()
    status = request.wait_phase("Completed", 60)
    assert [state["name"] for state in status["containerRecreateStates"]] == ["two", "one"]
    for state in status["containerRecreateStates"]:
        assert state["phase"] == "Succeeded" and state.get("isKilled"), (status, pod.story())
    assert pod.restarts() == {"one": 1, "two": 1}, (status, pod.story())
    assert ended_at(pod, "two") < ended_at(pod, "one")
    assert not is_ordered or began_at(pod, "two") < ended_at(pod, "one")


def test_waits_until_it_is_ready(node_agent, make_pod, tools, ask):
    main = container("main", tools, readinessProbe=_READY_BY_FILE)
    pod = make_pod(main, owner=False, must_wait=False)
    make_ready(pod, "main")
    pod.file("ready").unlink()
    request = ask(pod, "main")
    pod.wait_restarted("main")
    assert request.wait_state("main", "Recreating")["isKilled"]
    pod.file("ready").touch()
    request.wait_phase("Completed")
    assert request.state("main")["phase"] == "Succeeded"


def test_is_deleted_when_its_time_is_over(node_agent, pair, ask):
    version = pair.kube.get(_REQUESTS)["metadata"]["resourceVersion"]
    request = ask(pair, "one", keep_seconds=1)
    # The request may be gone before the test reads it, so its last status counts.
    name = f"metadata.name={request.name}"
    events = pair.kube.watch(_REQUESTS, resourceVersion=version, fieldSelector=name)
    last = next(event["object"] for event in events if event["type"] == "DELETED")
    assert last["status"]["phase"] == "Completed"
    assert pair.kube.find(request.path) is None


def test_a_container_that_is_not_in_the_pod(node_agent, pair, ask):
    """The request ends with the reason; the other containers keep running."""
    request = ask(pair, "one", "three")
    request.wait_phase("Completed")
    state = request.state("three")
    assert state["phase"] == "Failed" and not state.get("isKilled")
    assert "three" in request.status()["message"]
    assert pair.restarts() == {"one": 0, "two": 0}


def test_an_init_container(node_agent, make_pod, tools, ask):
    """It has ended, and nothing starts it again: the request ends, and the next one has its turn."""
    once = container("once", tools, command=shell("true"))
    pod = make_pod(container("one", tools), initContainers=[once], owner=False)
    request = ask(pod, "once", forceRecreate=True)
    status = request.wait_phase("Completed")
    assert request.state("once")["phase"] == "Failed" and "init" in status["message"]
    assert pod.is_running("one")
    after = ask(pod, "one")
    after.wait_phase("Completed")
    assert after.state("one")["phase"] == "Succeeded"


def test_an_ephemeral_container(node_agent, pair, ask):
    """Nothing would start it again: it is not stopped."""
    debugger = {**container("debugger", pair.get()["spec"]["containers"][0]["image"])}
    del debugger["volumeMounts"]
    pair.kube.patch(f"{pair.path}/ephemeralcontainers", {"spec": {"ephemeralContainers": [debugger]}}, "strategic")

    def is_running() -> bool:
        statuses = pair.get()["status"].get("ephemeralContainerStatuses", [])
        return any("running" in one["state"] for one in statuses)

    wait_until(is_running, 30 * SLOWLY, "the debugger")
    request = ask(pair, "debugger")
    request.wait_phase("Completed")
    assert request.state("debugger")["phase"] == "Failed" and not request.state("debugger").get("isKilled")
    assert is_running()


def test_a_container_that_fails_again_and_again(node_agent, make_pod, tools, ask):
    """The agent waits for a container that ended by itself, and does not report a stop."""
    main = container("main", tools, command=_FAILS_AT_FIRST)
    pod = make_pod(main, owner=False, must_wait=False)
    pod.wait(lambda document: pod.restarts().get("main", 0) >= 1)
    request = ask(pod, "main", deadline=60)
    request.wait_state("main", "Recreating", 10 * SLOWLY)
    install(pod, _GOOD_PROGRAM)
    hurry(pod, request)
    state = request.state("main")
    assert state["phase"] == "Succeeded" and not state.get("isKilled")
    assert pod.events("Killing") == []


def test_a_pod_that_has_finished(node_agent, make_pod, tools, ask):
    main = container("main", tools, command=shell("exit 0"))
    pod = make_pod(main, owner=False, must_wait=False, restartPolicy="Never")
    pod.wait(lambda document: document["status"]["phase"] == "Succeeded")
    request = ask(pod, "main", deadline=30)
    status = request.wait_phase("Completed", 20)
    assert status["message"]
    state = request.state("main")
    assert state.get("phase") != "Succeeded" and not state.get("isKilled")


def test_a_pod_that_goes_away_meanwhile(node_agent, make_pod, tools, ask):
    lingers = container("main", tools, command=_LINGERS)
    pod = make_pod(lingers, owner=False, terminationGracePeriodSeconds=20)
    request = ask(pod, "main")
    wait_term(pod)
    pod.delete()
    status = request.wait_phase("Completed")
    assert "gone" in status["message"]


def test_one_after_the_other_and_none_forgotten(node_agent, make_pod, tools, ask):
    """The agent serves requests for one pod one after the other."""
    names = ["one", "two", "three"]
    one, *others = (container(name, tools) for name in names)
    one["command"] = _LINGERS  # until the others have been seen to wait
    pod = make_pod(one, *others, owner=False, terminationGracePeriodSeconds=60)
    requests = [ask(pod, "one")]
    wait_term(pod)
    requests += [ask(pod, name) for name in names[1:]]
    for waiting in requests[1:]:
        waiting.wait_phase("Pending", 10 * SLOWLY)
    pod.file("go").touch()
    ended, began = {}, {}
    for name, request in zip(names, requests, strict=True):
        request.wait_phase("Completed", 60)
        (state,) = request.status()["containerRecreateStates"]
        assert state["phase"] == "Succeeded" and state["isKilled"]
        # At once: the kubelet removes what has ended after a while.
        ended[name], began[name] = ended_at(pod, name), began_at(pod, name)
    assert pod.restarts() == {"one": 1, "two": 1, "three": 1}
    # The agent serves requests of the same second in the order of their names.
    served = sorted(names, key=lambda name: ended[name])
    assert served[0] == "one", ended
    for before, after in itertools.pairwise(served):
        assert ended[after] > began[before]


def test_requests_for_different_pods_do_not_wait_for_each_other(node_agent, make_pod, tools, ask):
    lingers = container("main", tools, command=_LINGERS)
    late = make_pod(lingers, owner=False, terminationGracePeriodSeconds=60, must_wait=False)
    quick = make_pod(container("main", tools), owner=False)
    late.wait(is_ready)
    waiting = ask(late, "main")
    wait_term(late)
    ask(quick, "main").wait_phase("Completed")
    assert waiting.status()["phase"] == "Recreating" and late.is_running("main")
    late.file("go").touch()
    waiting.wait_phase("Completed")


def test_what_was_restarted_meanwhile_need_not_be_again(node_agent, make_pod, tools, ask):
    """forceRecreate stops a container although it was restarted already."""
    lingers = container("two", tools, command=_LINGERS)
    pod = make_pod(container("one", tools), lingers, owner=False, terminationGracePeriodSeconds=60)
    ask(pod, "two")
    wait_term(pod)
    waits, insists = ask(pod, "one"), ask(pod, "one", forceRecreate=True)
    waits.wait_phase("Pending", 10 * SLOWLY)
    cri = pod.node.runtime.cri
    old = pod.runtime_container("one").id
    cri.runtime.StopContainer(cri.messages.StopContainerRequest(container_id=old, timeout=2))
    pod.wait_restarted("one")
    pod.file("go").touch()
    waits.wait_phase("Completed")
    assert waits.state("one")["phase"] == "Succeeded"
    assert not waits.state("one").get("isKilled")
    hurry(pod, insists)
    assert insists.state("one")["phase"] == "Succeeded"
    assert insists.state("one")["isKilled"]
    assert pod.restarts() == {"one": 2, "two": 1}


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_a_container_that_cannot_be_stopped(runtime, start_node_agent, pair, ask, policy):
    """The failure policy decides whether the agent restarts the remaining containers."""
    stuck = pair.runtime_container("one").id
    runtime.on("StopContainer", behaviours.fail("UNKNOWN", "as scripted"), container=stuck)
    start_node_agent(endpoint=runtime.endpoint)
    request = ask(pair, "one", "two", failurePolicy=policy)
    status = request.wait_phase("Completed", 60)
    failed, other = status["containerRecreateStates"]
    assert failed["phase"] == "Failed" and "as scripted" in failed["message"]
    assert "one" in status["message"]
    assert (other["phase"] == "Succeeded") is (policy == "Ignore")
    assert pair.restarts() == {"one": 0, "two": int(policy == "Ignore")}


def test_another_grace_period(node_agent, make_pod, tools, ask):
    """The request's grace period overrides the pod's for a process that ignores SIGTERM."""
    deaf = container("main", tools, command=shell("trap '' TERM; while :; do sleep 3600; done"))
    pod = make_pod(deaf, owner=False, terminationGracePeriodSeconds=60)
    began = time.time()
    request = ask(pod, "main", terminationGracePeriodSeconds=2)
    request.wait_phase("Completed", 40)
    assert 1.9 < ended_at(pod, "main") - began < stretch(8 * SLOWLY)


def test_the_pod_is_taken_out_of_service_before(node_agent, make_pod, tools, ask):
    """The agent closes the readiness gate of OpenKruise's pods, and opens it afterwards."""
    pod = make_pod(
        container("main", tools),
        owner=False,
        readinessGates=[{"conditionType": _READY}],
        must_wait=False,
    )
    pod.set_condition(_READY, "True")
    pod.wait(is_ready)
    request = ask(pod, "main", unreadyGracePeriodSeconds=2)
    closed = pod.wait_condition(_READY, "False")
    request.wait_phase("Completed", 40)
    # The time of the condition is in whole seconds.
    assert ended_at(pod, "main") - seconds_of(closed["lastTransitionTime"]) > 1.9
    pod.wait_condition(_READY, "True")
    pod.wait(is_ready)


@pytest.fixture
def make_gated(make_pod, tools):
    """make_gated(): a pod with the readiness gate of OpenKruise's pods, open."""

    def make():
        gates = [{"conditionType": _READY}]
        main = container("main", tools)
        pod = make_pod(main, owner=False, readinessGates=gates, must_wait=False)
        pod.set_condition(_READY, "True")
        pod.wait(is_ready)
        return pod

    return make


def test_a_gate_is_opened_when_its_request_went_while_no_agent_ran(node_agent, make_gated, ask):
    """The gate stays closed for a remaining request and for another writer."""
    pod, waiting, shared = (make_gated() for _ in range(3))
    requests = [ask(one, "main", unreadyGracePeriodSeconds=300) for one in (pod, waiting, shared)]
    for one in (pod, waiting, shared):
        one.wait_condition(_READY, "False")
    for request in requests:
        wait_until(lambda one=request: one.status().get("conditions"), 10 * SLOWLY, "drain")
    node_agent.kill9()
    listed = json.loads(shared.condition(_READY)["message"])
    other = {"userAgent": "Other", "key": "x"}
    condition = {"type": _READY, "status": "False", "message": json.dumps([other, *listed])}
    shared.kube.patch(f"{shared.path}/status", {"status": {"conditions": [condition]}}, "strategic")
    before = waiting.condition(_READY)
    requests[0].delete()
    requests[2].delete()
    node_agent.start()
    pod.wait_condition(_READY, "True")
    pod.wait(is_ready)

    def is_left_to_others() -> bool:
        return json.loads(shared.condition(_READY)["message"]) == [other]

    wait_until(is_left_to_others, 10 * SLOWLY, lambda: f"one writer: {shared.condition(_READY)}")
    assert shared.condition(_READY)["status"] == "False"
    assert waiting.condition(_READY) == before
    requests[1].delete()
    waiting.wait_condition(_READY, "True")


def test_it_has_to_run_for_a_while(node_agent, pair, ask):
    request = ask(pair, "one", minStartedSeconds=2)
    request.wait_phase("Completed", 40)
    assert time.time() - began_at(pair, "one") >= 2
    assert request.state("one")["phase"] == "Succeeded"


def test_obeys_also_where_nothing_starts_it_again(node_agent, make_pod, tools, ask):
    """Controllers that end sidecars of finished jobs rely on that; a deadline ends the request."""
    containers = [container(name, tools) for name in ("job", "sidecar")]
    pod = make_pod(*containers, owner=False, restartPolicy="Never")
    request = ask(pod, "sidecar", deadline=round(stretch(4 + SLOWLY)), forceRecreate=True, failurePolicy="Ignore")
    wait_until(lambda: not pod.is_running("sidecar"), 10 * SLOWLY, "end of the sidecar")
    state = request.wait_state("sidecar", "Recreating", 10 * SLOWLY)
    assert state["isKilled"]
    status = request.wait_phase("Completed", 20 * SLOWLY)
    assert "activeDeadlineSeconds" in status["message"]
    assert pod.is_running("job") and pod.restarts() == {"job": 0, "sidecar": 0}


@pytest.mark.parametrize("ends_meanwhile", [True, False], ids=["ended", "ending"])
def test_the_agent_is_killed_in_the_middle(node_agent, make_pod, tools, ask, ends_meanwhile):
    """The next run continues, and repeats neither hook nor stop."""
    hook = {"preStop": {"exec": {"command": shell("echo hook >>/data/notes")}}}
    one = container("one", tools, command=_LINGERS, lifecycle=hook)
    pod = make_pod(one, container("two", tools), owner=False, terminationGracePeriodSeconds=60)
    request = ask(pod, "one", "two")
    wait_term(pod)
    node_agent.kill9()
    if ends_meanwhile:
        pod.file("go").touch()
        pod.wait_restarted("one")
    node_agent.start()
    pod.file("go").touch()
    status = request.wait_phase("Completed", 60)
    for state in status["containerRecreateStates"]:
        assert state["phase"] == "Succeeded" and state["isKilled"], status
    assert pod.lines("notes") == ["hook", "term"]
    assert pod.restarts() == {"one": 1, "two": 1}


def test_the_request_goes_while_no_agent_runs(node_agent, make_pod, tools, ask):
    """The agent kills a container that ignores SIGTERM even if the request is deleted."""
    grace = 12
    one = container("one", tools, command=_LINGERS)
    pod = make_pod(one, owner=False, terminationGracePeriodSeconds=grace)
    request = ask(pod, "one")
    wait_term(pod)
    stopped_at = time.time()
    node_agent.kill9()
    request.delete()
    node_agent.start()
    pod.wait_restarted("one")
    assert pod.runtime_status("one", 0).exit_code == 137
    assert grace - 2 <= ended_at(pod, "one") - stopped_at <= grace + stretch(5 * SLOWLY)
    assert pod.lines("notes") == ["term"]


def test_a_request_made_while_no_agent_runs(node_agent, pair, ask):
    node_agent.kill9()
    request = ask(pair, "one")
    node_agent.start()
    request.wait_phase("Completed")
    assert pair.restarts() == {"one": 1, "two": 0}


def find_label(name: str, request):
    """The request's label of that name; None without it."""
    return request["metadata"].get("labels", {}).get(f"{PREFIX}/{name}")


def take_node(request):
    return find_label("node-name", request) and {f"{PREFIX}/node-name": None}


def make_active(request):
    is_ended = request.get("status", {}).get("phase") == "Completed"
    return is_ended and not find_label("active", request) and {f"{PREFIX}/active": "true"}


def set_back(request):
    return request.get("status", {}).get("phase") == "Recreating" and {"phase": "Pending"}


def end_drain(request):
    return request.get("status", {}).get("conditions") and {"conditions": []}


@pytest.mark.parametrize("spoil", [take_node, make_active, set_back, end_drain])
def test_another_writer_changes_it_back(node_agent, pair, ask, spoil):
    """Neither of two conflicting writers makes the other one write without end."""
    name = "three" if spoil is make_active else "one"
    request = ask(pair, name, unreadyGracePeriodSeconds=0 if spoil is make_active else 300)
    request.wait_phase("Completed" if spoil is make_active else "Recreating")
    n_changed = 0
    begun = {"fieldSelector": f"metadata.name={request.name}", "timeoutSeconds": "8"}
    for event in pair.kube.watch(_REQUESTS, **begun):
        change = spoil(event["object"])
        if change and spoil in (set_back, end_drain):
            pair.kube.patch(f"{request.path}/status", {"status": change})
        elif change:
            pair.kube.patch(request.path, {"metadata": {"labels": change}})
        n_changed += bool(change)
    # The agent doubles its delay before each write.
    assert 2 <= n_changed <= 10
    assert pair.restarts() == {"one": 0, "two": 0}


def test_a_label_is_taken_away_after_the_restart(node_agent, make_pod, tools, ask):
    """The container that the kubelet has started meanwhile is not restarted as well."""
    pod = make_pod(container("main", tools, readinessProbe=_READY_BY_FILE), owner=False, must_wait=False)
    make_ready(pod, "main")
    pod.file("ready").unlink()
    request = ask(pod, "main")
    pod.wait_restarted("main")
    request.wait_state("main", "Recreating")
    pod.kube.patch(request.path, {"metadata": {"labels": {f"{PREFIX}/node-name": None}}})
    pod.kube.wait_for(request.path, lambda found: find_label("node-name", found), 10 * SLOWLY)
    pod.file("ready").touch()
    request.wait_phase("Completed", 60)
    assert request.state("main")["phase"] == "Succeeded"
    assert pod.restarts() == {"main": 1}


def test_a_clock_that_runs_ahead(start_node_agent, make_gated, ask):
    """A request is neither completed before it is served nor deleted before its time."""
    pod = make_gated()
    start_node_agent(environment=clock.environment(clock.HOUR))
    request = ask(pod, "main", deadline=60, keep_seconds=600, unreadyGracePeriodSeconds=1)
    status = request.wait_phase("Completed", 50)
    assert request.state("main")["phase"] == "Succeeded", status
    assert abs(seconds_of(status["completionTime"]) - time.time()) < 60
    condition = pod.wait_condition(_READY, "True")
    assert abs(seconds_of(condition["lastTransitionTime"]) - time.time()) < 60
    assert pod.restarts() == {"main": 1}


def test_a_huge_request_does_not_block_others(node_agent, ask, pair):
    """A request of the API server's maximum size does not block other requests."""
    huge = RecreateRequest(pair, "two")
    huge.spec["podName"] = "missing"
    labels = {f"label-{number:05}-{'x' * 40}": "y" * 60 for number in range(4000)}
    try:
        huge.create(labels=labels)
        assert len(json.dumps(huge.get())) > 600_000
        assert ask(pair, "one").wait_phase("Completed")["containerRecreateStates"]
        assert pair.restarts() == {"one": 1, "two": 0}
    finally:
        huge.delete()

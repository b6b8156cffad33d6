# SPDX-License-Identifier: Apache-2.0
"""Proves that recreate requests are served beside OpenKruise's webhook and controller, whose
parts the tests play, in both dialects: the agent does its own part and none of theirs.
"""

from __future__ import annotations

import json
import re
import time

import pytest

from fake import api_faults
from fake.api_proxy import ApiProxy
from lab import sanitizers
from lab.pod import container, shell, until_term
from lab.recreate_request import PREFIX, Manager, RecreateRequest
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS

pytestmark = [pytest.mark.containers, pytest.mark.timeout(120 * SLOWLY)]


def without_requests(body: bytes) -> bytes:
    """The resources of a server in one version, without these requests."""
    answer = json.loads(body)
    kept = [one for one in answer["resources"] if "containerrecreate" not in one["name"]]
    return json.dumps({**answer, "resources": kept}).encode()


@pytest.fixture
def version(request) -> str:
    """The newest version of the API in which requests are served."""
    return getattr(request, "param", "v1beta1")


# For fields that differ between the dialects, or are missing in one.
in_both_dialects = pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"], indirect=True)


@pytest.fixture
def api(control_plane, folder, version):
    server = control_plane.url, control_plane.authority.certificate
    with ApiProxy(folder / "api", *server) as proxy:
        if version == "v1alpha1":
            newer = r"^GET /apis/apps\.kruise\.io/v1beta1(\?|$)"
            proxy.on(newer, api_faults.rewrite(without_requests))
        yield proxy


@pytest.fixture
def pair(make_pod, tools):
    return make_pod(container("one", tools), container("two", tools))


@pytest.fixture
def ask(version):
    """ask(pod, container, …): a request as the webhook leaves it, and the controller of it."""
    made = []

    def create(*arguments, **more):
        request = RecreateRequest(*arguments, version=version, **more)
        made.append(request)
        return request.create_managed(), Manager(request)

    yield create
    for one in made:
        one.delete()


@in_both_dialects
def test_each_does_its_part(agent_behind_api, api, ask, pair, version):
    request, manager = ask(pair, "one", "two", orderedRecreate=True, keep_seconds=0)
    status = manager.serve()
    assert [(one["phase"], one["isKilled"]) for one in status["containerRecreateStates"]] == [
        ("Succeeded", True)
    ] * 2
    assert pair.restarts() == {"one": 1, "two": 1}

    # The agent lists only its node's requests, in this version, and writes only the status.
    asked = [one.name for one in api.requests("/containerrecreaterequests")]
    assert all(f"/apis/apps.kruise.io/{version}/" in name for name in asked)
    written = [name for name in asked if not name.startswith("GET ")]
    assert written and all(re.search(rf"/{request.name}/status(\?|$)", name) for name in written)
    # The controller deletes the request, and keeps its labels.
    found = request.get()
    assert found["metadata"]["labels"][f"{PREFIX}/active"] == "true"


def test_sees_by_itself_that_it_runs_again(agent_behind_api, ask, pair):
    """The agent completes the request without the controller, whose snapshot it does not write."""
    request, _ = ask(pair, "one")
    status = request.wait_phase("Completed")
    assert request.state("one")["phase"] == "Succeeded"
    assert "containerStatusSnapshot" not in status


@in_both_dialects
def test_waits_until_the_pod_is_out_of_service(agent_behind_api, ask, pair):
    request, manager = ask(pair, "one", unreadyGracePeriodSeconds=1)
    request.wait_phase("Recreating")
    other, served = ask(pair, "two")
    other.wait_phase("Pending")
    assert pair.restarts() == {"one": 0, "two": 0}
    manager.report_drained()
    manager.serve()
    served.serve()
    assert pair.restarts() == {"one": 1, "two": 1}


def test_a_request_that_is_ended_during_a_stop(agent_behind_api, ask, make_pod, tools):
    """The agent completes and reports the stop, and leaves the next container alone."""
    lingers = until_term("touch /data/term; while [ ! -e /data/go ]; do sleep 0.1; done")
    one = container("one", tools, command=lingers)
    pod = make_pod(one, container("two", tools), terminationGracePeriodSeconds=60)
    request, manager = ask(pod, "one", "two")
    wait_until(pod.file("term").exists, 10 * SLOWLY, "SIGTERM")
    manager.complete("recreating has exceeded the activeDeadlineSeconds")
    wait_until(lambda: "completed by another client" in agent_behind_api.log_text(), 10 * SLOWLY, "the end in the agent")
    manager.withdraw()
    pod.file("go").touch()
    pod.wait_restarted("one")

    def is_reported() -> bool:
        return request.state("one").get("isKilled", False)

    wait_until(is_reported, 10 * SLOWLY, lambda: f"report of the stop: {request.status()}")
    status = request.status()
    assert status["phase"] == "Completed"
    assert status["message"] == "recreating has exceeded the activeDeadlineSeconds"
    assert not request.state("two").get("isKilled")

    # The next request is served, and the other container is unchanged.
    assert pod.restarts() == {"one": 1, "two": 0}
    _, served = ask(pod, "two")
    served.serve()
    assert pod.restarts() == {"one": 1, "two": 1}


def test_a_late_report_is_not_about_a_successor(agent_behind_api, api, ask, make_pod, tools, version):
    """A request is deleted during its stop, and another one is created under its name."""
    lingers = until_term("touch /data/term; while [ ! -e /data/go ]; do sleep 0.1; done")
    one = container("one", tools, command=lingers)
    pod = make_pod(one, container("two", tools), terminationGracePeriodSeconds=60)
    request, _ = ask(pod, "one", "two")
    wait_until(pod.file("term").exists, 10 * SLOWLY, "SIGTERM")
    request.wait_state("two", "Pending")  # The agent writes nothing during the deletion.
    request.delete()
    # The new request is for a pod of another node, so that the agent does not see it.
    request.create(labels={f"{PREFIX}/node-name": "elsewhere", f"{PREFIX}/active": "true"})
    request.kube.patch(f"{request.path}/status", {"status": {"phase": "Pending"}})
    before = request.get()
    named = rf"^PATCH .*/{request.name}/status(\?|$)"
    n_before = len(api.requests(named))
    pod.file("go").touch()
    pod.wait_restarted("one")

    def is_reported() -> bool:
        return any(one.code is not None for one in api.requests(named)[n_before:])

    wait_until(is_reported, 10 * SLOWLY, "report of the stop")
    report = api.requests(named)[-1]
    assert report.code == 422
    assert request.get() == before
    # The agent does not repeat the report for a deleted request.
    assert ask(pod, "two")[1].serve()["phase"] == "Completed"
    assert len(api.requests(named)) == n_before + 1


def test_runs_the_hook_that_the_webhook_has_lost(agent_behind_api, ask, make_pod, tools):
    """The webhook does not copy all kinds of hooks; the runtime has them all."""
    sleeps = {"preStop": {"sleep": {"seconds": 2}}}
    notes = {"preStop": {"exec": {"command": shell("echo hook >>/data/notes")}}}
    pod = make_pod(
        container("one", tools, lifecycle=sleeps),
        container("two", tools, lifecycle=notes),
        terminationGracePeriodSeconds=20,
    )
    began = time.time()
    _, manager = ask(pod, "one", "two")
    manager.serve(40)

    def is_reported() -> bool:
        return any("container one" in event["message"] for event in pod.events("Killing"))

    wait_until(is_reported, 10 * SLOWLY, lambda: f"report of the stop: {pod.events('Killing')}")
    assert pod.lines("notes") == ["hook"]
    # CRI-O says it a moment after the container has ended.
    ended = wait_until(lambda: pod.runtime_status("one", 0).finished_at, 10, "end of the container in its status")
    assert ended / 1e9 - began >= 2


def test_a_request_for_the_pod_that_had_that_name_before(agent_behind_api, ask, make_pod, tools, version):
    """The agent ignores the request for another pod, and serves one for the pod itself."""
    pod = make_pod(container("one", tools))
    pod.delete()
    pod.kube.wait_gone(pod.path)
    other = make_pod(container("one", tools), name=pod.name)
    stale = RecreateRequest(other, "one", version=version).create_managed(pod_uid=pod.uid)
    try:
        request, manager = ask(other, "one")
        manager.serve()
        assert other.restarts() == {"one": 1}
        assert not stale.state("one").get("isKilled")
    finally:
        stale.delete()

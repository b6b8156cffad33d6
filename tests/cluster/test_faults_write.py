# SPDX-License-Identifier: Apache-2.0
"""Proves that whatever becomes of a write costs the node nothing but time, and that no status is false.

faults.py describes what stands between the agent and the server.
"""

from __future__ import annotations

import itertools
import threading

import pytest

from faults import *  # noqa: F403
from fake import api_faults
from fake.api_proxy import Exchange
from lab.trouble import complaints, readiness, the_complaint, wait_problem, wait_well
from lab.wait import wait_until

# Writes of the status


def test_spec_is_of_no_use_at_start(make_member, proxy, desired, fake_runtime):
    """The agent writes no status while it cannot read the spec."""
    fake_runtime.hold("demo/done:1")
    done = {"tag": "1", "phase": "Succeeded", "progress": 100, "imageID": "x@sha256:0a"}
    done |= {"startTime": "2026-01-02T03:04:05Z", "completionTime": "2026-01-02T03:04:05Z"}
    desired.request("demo/done:1", policy="Always")
    statuses = {"demo/done": {"tags": [done]}}
    desired.patch_status({"desired": 1, "succeeded": 1, "imageStatuses": statuses})
    good = desired.get()["spec"]
    desired.set_spec({"images": "demo/bad"})
    agent = make_member()
    agent.start()
    wait_problem(agent, "NodeImage", "spec.images")
    wait_until(lambda: readiness(agent)[0] == 200, 10 * SLOWLY, lambda: f"{readiness(agent)}")
    assert_pulls_locally(agent)
    assert proxy.requests(STATUS_WRITES) == []
    desired.set_spec(good)
    desired.add("demo/bad:1")
    desired.wait_status("demo/bad:1", "Succeeded")
    assert desired.tag_status("demo/done:1") == done
    assert fake_runtime.calls("PullImage", "demo/done:1") == []
    for request in proxy.requests(STATUS_WRITES):
        assert "demo/done" not in (request.json()["status"].get("imageStatuses") or {})
    wait_well(agent)


def test_write_is_asked_to_wait(member, proxy, desired, fake_runtime):
    """The agent respects the server's Retry-After header."""
    proxy.on(STATUS_WRITES, api_faults.refuse(429, retry_after=2), times=1)
    desired.add("demo/web:1")
    desired.wait_status("demo/web:1", "Succeeded")
    _, refused, taken = wait_requests(proxy, STATUS_WRITES, 3)[:3]
    wait_until(lambda: taken.code, 5 * SLOWLY, "answer")  # the object changes before it comes
    assert (refused.code, taken.code) == (429, 200)
    # The agent may have the answer before the proxy notes that it has ended.
    assert taken.began_at - refused.began_at >= 2
    assert len(fake_runtime.calls("PullImage", "demo/web:1")) == 1


@pytest.mark.parametrize("code", [500, 503])
def test_writes_are_refused_for_a_while(member, proxy, desired, code):
    """Pulls continue; the agent writes the newest status once the server accepts it."""
    proxy.on(STATUS_WRITES, api_faults.refuse(code, "as scripted"))
    desired.add("demo/one:1", "demo/two:1")
    wait_requests(proxy, STATUS_WRITES, 3)
    wait_problem(member, "status of the NodeImage", "as scripted")
    assert_pulls_locally(member)
    desired.add("demo/three:1")
    names = [f"demo/{name}:1" for name in ("one", "two", "three")]
    newest = dict.fromkeys(names, "Succeeded")

    def last_try() -> dict[str, str]:
        return phases(proxy.requests(STATUS_WRITES)[-1])

    # No older status is in flight from here on.
    wait_until(lambda: last_try() == newest, 20 * SLOWLY, lambda: f"the newest, only {last_try()}")
    proxy.behave()
    for name in names:
        desired.wait_status(name, "Succeeded", 20)
    wait_well(member)  # the object changes before the answer comes
    _, *taken = [request for request in proxy.requests(STATUS_WRITES) if request.code == 200]
    assert [phases(request) for request in taken] == [newest]


def test_write_is_answered_after_the_watch_has_moved_on(member, proxy, desired, fake_runtime):
    """The answer has an older version than the watch has shown meanwhile."""
    released = threading.Event()
    proxy.on(STATUS_WRITES, api_faults.answer_when(released), times=1)
    desired.add("demo/one:1")
    wait_until(lambda: desired.tag_status("demo/one:1"), 5 * SLOWLY, "write")
    desired.add("demo/two:1")
    wait_until(lambda: fake_runtime.calls("PullImage", "demo/two:1"), 5 * SLOWLY, "second pull")
    released.set()
    desired.wait_status("demo/two:1", "Succeeded", 5 * SLOWLY)


@pytest.mark.parametrize("behaviour", [api_faults.lose_request, api_faults.lose_reply])
def test_write_is_lost(member, proxy, desired, behaviour):
    """The status is right in the end, whether or not the server carried out the lost write."""
    proxy.on(STATUS_WRITES, behaviour, times=1)
    desired.add("demo/web:1")
    desired.wait_status("demo/web:1", "Succeeded")
    assert desired.get()["status"]["succeeded"] == 1
    wait_well(member)


def test_last_write_is_lost(member, proxy, desired):
    """The server carried out the write, so the agent does not repeat it, and its problem ends."""

    async def lose_last(exchange: Exchange) -> None:
        is_last = "Succeeded" in phases(exchange.request).values()
        await (api_faults.lose_reply if is_last else api_faults.behave_well)(exchange)

    proxy.on(STATUS_WRITES, lose_last)
    desired.add("demo/web:1")
    desired.wait_status("demo/web:1", "Succeeded")
    the_complaint(member, "Cannot write the status")
    wait_well(member)
    # Not even a request that curl has repeated by itself was another one.
    assert len({each.body for each in proxy.requests(STATUS_WRITES) if not each.code}) == 1


def test_write_is_refused_until_the_object_is_gone(member, proxy, desired):
    """The agent drops the write and its problem."""
    proxy.on(STATUS_WRITES, api_faults.refuse(404, "as scripted"))
    desired.add("demo/web:1")
    wait_problem(member, "status of the NodeImage", "as scripted")
    desired.delete()
    wait_well(member)


def test_conflicts_without_end(member, proxy, desired):
    """The agent reports the conflict and retries more and more rarely until the object changes."""
    proxy.on(STATUS_WRITES, api_faults.refuse(409, "as scripted"))
    n = len(proxy.requests(STATUS_WRITES))
    desired.add("demo/web:1")
    wait_problem(member, "status of the NodeImage", "as scripted", 20)
    assert "as scripted" in the_complaint(member)
    tries = wait_requests(proxy, STATUS_WRITES, n + 6, 30)[n:]
    assert tries[5].began_at - tries[4].began_at >= 4 * 0.8
    # A change that the agent sees before it has this answer does not end the conflict.
    wait_until(
        lambda: member.metrics().total(REQUESTS, verb="patch", code="409") >= 6,
        5 * SLOWLY,
        "answer to the sixth",
    )
    proxy.behave()
    desired.add("demo/other:1")
    desired.wait_status("demo/web:1", "Succeeded", 4 * SLOWLY)
    desired.wait_status("demo/other:1", "Succeeded", 4 * SLOWLY)
    wait_well(member)


@pytest.mark.parametrize(
    "behaviour",
    [api_faults.truncate(30), api_faults.relabel("text/html"), api_faults.truncate(0)],
    ids=["truncated", "relabelled", "empty"],
)
def test_answer_to_a_write_is_spoilt(member, proxy, desired, behaviour):
    """The agent uses only the code of the answer; the watch shows the result."""
    proxy.on(STATUS_WRITES, behaviour, times=1)
    desired.add("demo/web:1")
    desired.wait_status("demo/web:1", "Succeeded")
    wait_well(member)
    written = [phases(each) for each in proxy.requests(STATUS_WRITES) if each.code == 200]
    assert all(one != other for one, other in itertools.pairwise(written)), "written twice"


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.parametrize("behaviour", [api_faults.hang, api_faults.hang_reply])
def test_write_hangs(member, proxy, desired, behaviour):
    """The agent cancels the write after a while and retries it; the rest continues meanwhile."""
    proxy.on(STATUS_WRITES, behaviour, times=1)
    desired.add("demo/web:1")
    wait_requests(proxy, STATUS_WRITES, 2)
    assert_pulls_locally(member)
    desired.wait_status("demo/web:1", "Succeeded", 60)
    wait_well(member)


@pytest.mark.parametrize("code", [404, 409, 422])
def test_write_is_refused_for_good(member, proxy, desired, code):
    """The agent repeats a rejected write only a few times."""
    proxy.on(STATUS_WRITES, api_faults.refuse(code, "as scripted"), times=3)
    desired.add("demo/web:1")
    desired.wait_status("demo/web:1", "Succeeded", 60)
    assert len(proxy.requests(STATUS_WRITES)) <= 6


# Rights


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    ("verbs", "subject"),
    [(("patch",), "status of the NodeImage"), (("list", "watch"), "API server")],
    ids=["patch", "list"],
)
def test_right_is_missing(make_member, server, proxy, desired, verbs, subject):
    """doctor and /readyz name the missing right until it is granted."""
    server.forbidden = {(verb, "nodeimages") for verb in verbs}
    desired.add("demo/web:1")
    agent = make_member()
    agent.start()
    assert "nodeimages" in wait_problem(agent, subject, "cannot")
    wait_unready(agent, "cannot")
    assert agent.ctl("doctor").returncode == 3
    assert "cannot" in the_complaint(agent, timeout=15)
    assert_pulls_locally(agent)
    server.forbidden = set()
    desired.wait_status("demo/web:1", "Succeeded", UNTIL_HOPE)
    wait_well(agent)


def test_rights_are_read_late(make_member, proxy, desired):
    """The agent does not log the refusals of a server that has just started."""
    desired.add("demo/web:1")
    proxy.on(ANY_LIST, api_faults.refuse(403), times=2)
    agent = make_member()
    agent.start()
    desired.wait_status("demo/web:1", "Succeeded", 20)
    assert [request.code for request in proxy.requests(ANY_LIST)[:2]] == [403] * 2
    wait_well(agent)
    assert complaints(agent) == []


def test_secret_may_not_be_read(member, server, desired, fake_runtime):
    """The agent does not pull an image without its pull secret, and writes the reason to the status."""
    server.forbidden = {("get", "secrets")}
    server.create("secrets", {"metadata": {"name": "keys", "namespace": "team"}, "data": {}})
    entry = {"tag": "1", "imagePullPolicy": "Always", "pullPolicy": {"backoffLimit": 0}}
    secrets = [{"namespace": "team", "name": "keys"}]
    images = {"demo/web": {"tags": [entry], "pullSecrets": secrets}}
    desired.kube.patch(desired.path, {"spec": {"images": images}})
    status = desired.wait_status("demo/web:1", "Failed", 30)
    assert "keys" in status["message"] and "cannot get" in status["message"]
    assert fake_runtime.calls("PullImage", "demo/web:1") == []


# Events


@pytest.mark.parametrize(
    "behaviour",
    [api_faults.refuse(403, "as scripted"), api_faults.refuse(500), api_faults.hang],
    ids=["forbidden", "broken", "hangs"],
)
def test_events_are_not_taken(member, proxy, desired, behaviour):
    """Refused events delay neither pulls nor statuses."""
    proxy.on(r"^(POST|PATCH) \S*/events", behaviour)
    for number in range(3):
        desired.add(f"demo/image{number}:1")
        desired.wait_status(f"demo/image{number}:1", "Succeeded")

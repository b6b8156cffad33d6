# SPDX-License-Identifier: Apache-2.0
"""Proves that whatever is wrong with watches, lists and discovery costs the node nothing but time.

faults.py describes what stands between the agent and the server.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from faults import *  # noqa: F403
from fake import api_faults
from fake.api_proxy import ApiProxy, Request, Watch
from lab.kubeconfig import write_kubeconfig
from lab.trouble import assert_clear, complaints, wait_problem, wait_well
from lab.wait import wait_until

# Watches

_BROKEN_WATCHES: dict[str, Callable[[Watch], object]] = {
    "cut": Watch.cut,
    "ended": Watch.end,
    "half-a-line": lambda watch: (watch.say(b'{"type":"MODIFIED","obj'), watch.end()),
    "half-a-line-cut": lambda watch: (watch.say(b'{"type":"MODIFIED","obj'), watch.cut()),
    "gone": lambda watch: (watch.say(api_faults.error_event(410)), watch.end()),
    "gone-and-open": lambda watch: watch.say(api_faults.error_event(410)),
    "error": lambda watch: (watch.say(api_faults.error_event(500, "as scripted")), watch.end()),
    "no-json": lambda watch: watch.say(b"this is no JSON\n"),
    "no-object": lambda watch: watch.say(b'{"type":"MODIFIED","object":17}\n'),
    "no-name": lambda watch: watch.say(b'{"type":"MODIFIED","object":{"metadata":{}}}\n'),
    "no-type": lambda watch: watch.say(b"[]\n"),
    "huge": lambda watch: watch.say(b'{"type":"' + b"x" * (16 << 20) + b'"}\n'),
}


@pytest.mark.parametrize("how", _BROKEN_WATCHES)
def test_watch_breaks(member, proxy, desired, fake_runtime, how):
    """However a watch ends, the agent serves an image added meanwhile, and repeats no pull."""
    desired.add("demo/early:1", policy="Always")
    desired.wait_status("demo/early:1", "Succeeded")
    _BROKEN_WATCHES[how](the_watch(proxy))
    desired.add("demo/late:1")
    desired.wait_status("demo/late:1", "Succeeded")
    wait_well(member)
    assert len(fake_runtime.calls("PullImage", "demo/early:1")) == 1
    assert len(fake_runtime.calls("PullImage", "demo/late:1")) == 1
    assert len(complaints(member)) <= 1
    for line in complaints(member):
        assert_clear(line)


def test_watch_breaks_again_and_again(member, proxy, desired):
    """The agent watches again each time, with a delay and without needless messages."""
    for number in range(5):
        the_watch(proxy).cut()
        desired.add(f"demo/image{number}:1")
        desired.wait_status(f"demo/image{number}:1", "Succeeded", 20)
    assert len(complaints(member)) <= 5
    assert len(proxy.requests(ANY_LIST)) <= 20


def test_watch_ends_at_once(member, proxy, desired):
    """The agent delays its requests to a server that ends every watch at once."""
    proxy.on(WATCHES, api_faults.say(b""))
    the_watch(proxy).cut()
    before = len(wait_requests(proxy, ANY_LIST, 4, 30))
    desired.add("demo/late:1")
    proxy.behave()
    desired.wait_status("demo/late:1", "Succeeded", 30)
    assert len(proxy.requests(ANY_LIST)) < before + 10


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_watch_falls_silent(member, proxy, desired):
    """The agent replaces a watch that is silent for too long, without even a bookmark."""
    the_watch(proxy).silence()
    desired.add("demo/late:1")
    desired.wait_status("demo/late:1", "Succeeded", 400)
    wait_well(member)


def test_lists_anew_in_mid_pull(member, proxy, desired, hold):
    """A new list keeps what it does not change: every write names a resource version."""
    desired.add(hold.reference)
    hold.wait_begun()
    desired.wait_status(hold.reference, "Pulling")
    n = len(proxy.requests(ANY_LIST))
    _BROKEN_WATCHES["gone"](the_watch(proxy))
    wait_requests(proxy, ANY_LIST, n + 1)
    hold.release()
    desired.wait_status(hold.reference, "Succeeded")
    for request in proxy.requests(STATUS_WRITES):
        assert request.json()["metadata"].get("resourceVersion"), request.body


@pytest.mark.parametrize("is_troubled", [False, True])
def test_store_is_restored(member, proxy, desired, is_troubled):
    """The agent applies a new list even if it has seen a higher version."""
    desired.add("demo/web:1")
    desired.wait_status("demo/web:1", "Succeeded")
    old = desired.get()
    old["metadata"]["resourceVersion"] = "5"
    del old["status"]
    end = {"resourceVersion": "6", "annotations": {"k8s.io/initial-events-end": "true"}}
    events = [
        {"type": "ADDED", "object": old},
        {"type": "BOOKMARK", "object": {"metadata": end}},
    ]
    listed = api_faults.say(b"".join(json.dumps(each).encode() + b"\n" for each in events), True)
    if is_troubled:
        proxy.on(ANY_LIST, api_faults.in_turn(api_faults.refuse(500), listed))
        the_watch(proxy).cut()
    else:
        proxy.on(ANY_LIST, listed)
        _BROKEN_WATCHES["gone"](the_watch(proxy))

    def writes() -> list[Request]:
        return [
            request
            for request in proxy.requests(STATUS_WRITES)
            if request.json()["metadata"].get("resourceVersion") == "5"
        ]

    assert phases(wait_until(writes, 10 * SLOWLY, "write")[0]) == {"demo/web:1": "Succeeded"}


@pytest.mark.parametrize("how", ["cut", "gone"])
def test_watch_of_a_real_server_breaks(
    make_agent, folder, control_plane, fake_runtime, node_image, node_name, how
):
    """A real server behaves as the fake does."""
    about = control_plane.authority.certificate
    with ApiProxy(folder / "proxy", control_plane.url, about) as proxy:
        token = control_plane.agent_token()
        path = write_kubeconfig(folder / "kubeconfig", proxy.url, proxy.authority, token=token)
        agent = make_agent(fake_runtime.endpoint, kubeconfig=path, node_name=node_name)
        agent.start()
        node_image.add("demo/early:1", policy="Always")
        node_image.wait_status("demo/early:1", "Succeeded")
        _BROKEN_WATCHES[how](the_watch(proxy))
        node_image.add("demo/late:1")
        node_image.wait_status("demo/late:1", "Succeeded")
        wait_well(agent)
        assert len(fake_runtime.calls("PullImage", "demo/early:1")) == 1


# Lists


@pytest.mark.parametrize("streams_lists", [True, False])
@pytest.mark.parametrize("code", [410, 429, 500, 503])
def test_list_is_refused(make_member, server, proxy, desired, streams_lists, code):
    """The agent repeats a list until the server answers it."""
    server.streams_lists = streams_lists
    desired.add("demo/web:1")
    proxy.on(ANY_LIST, api_faults.refuse(code), times=2)
    agent = make_member()
    agent.start()
    desired.wait_status("demo/web:1", "Succeeded", 20)
    assert [request.code for request in proxy.requests(ANY_LIST)[:2]] == [code] * 2
    wait_well(agent)


def test_streamed_lists_are_unknown(make_member, server, proxy, desired):
    """The agent uses a plain list with an older server, and logs nothing about it."""
    server.streams_lists = False
    desired.add("demo/web:1")
    agent = make_member()
    agent.start()
    desired.wait_status("demo/web:1", "Succeeded")
    assert proxy.requests(LISTS)
    assert complaints(agent) == []


def test_page_token_expires(make_member, server, proxy, desired):
    """The agent starts the list again from its first page."""

    def promise_more(body: bytes) -> bytes:
        page = json.loads(body)
        page["metadata"]["continue"] = "stale"
        return json.dumps(page).encode()

    server.streams_lists = False
    desired.add("demo/web:1")
    proxy.on(LISTS, api_faults.rewrite(promise_more), times=1)
    agent = make_member()
    agent.start()
    desired.wait_status("demo/web:1", "Succeeded")
    first, second, third = wait_requests(proxy, LISTS, 3)[:3]
    assert (second.code, "continue=stale" in second.path) == (410, True)
    assert "continue=" not in third.path
    assert first.code == third.code == 200


_SPOILT_LISTS = {
    "truncated": api_faults.truncate(60),
    "relabelled": api_faults.relabel("text/html"),
    "empty": api_faults.answer(200, b""),
    "html": api_faults.answer(200, b"<html>Welcome</html>", "text/html"),
    "no-list": api_faults.answer(200, b"[]"),
    "no-items": api_faults.answer(200, b'{"items":{}}'),
    "cut-in-head": api_faults.cut_head,
    "cut-in-body": api_faults.cut_body(60),
    "ended-in-body": api_faults.cut_body(60, in_order=True),
    "lost": api_faults.lose_reply,
}


@pytest.mark.parametrize("how", _SPOILT_LISTS)
def test_list_is_spoilt(make_member, server, proxy, desired, how):
    """The agent discards a truncated list as a whole and lists again."""
    server.streams_lists = False
    desired.add("demo/web:1")
    proxy.on(LISTS, _SPOILT_LISTS[how], times=1)
    agent = make_member()
    agent.start()
    desired.wait_status("demo/web:1", "Succeeded", 20)
    wait_well(agent)
    for line in complaints(agent):
        assert_clear(line)


# Kinds that are not served


def test_kind_goes_with_the_object(make_member, server, proxy, desired, hold):
    """The agent notices a deletion that it did not watch, and registers the node again."""
    desired.add(hold.reference)
    uid = desired.get()["metadata"]["uid"]
    agent = make_member(flags=["--register-node"])
    agent.start()
    call = hold.wait_begun()
    served, server.versions = server.versions, []
    the_watch(proxy).cut()
    wait_problem(agent, "API server", "no nodeimages")
    server.delete("nodeimages", NODE)
    server.versions = served
    assert call.wait_over(30 * SLOWLY) and call.cancelled
    made = wait_until(desired.find, 20 * SLOWLY, "NodeImage")
    assert made["metadata"]["uid"] != uid
    wait_well(agent)


def test_kind_is_served_in_name_only(member, proxy, desired):
    """The agent delays its requests for a kind that discovery names but the server does not list."""
    proxy.on(ANY_LIST, api_faults.refuse(404, "as scripted"))
    before = len(proxy.requests(DISCOVERIES))
    the_watch(proxy).cut()
    wait_problem(member, "API server", "as scripted")
    asked = wait_requests(proxy, DISCOVERIES, before + 4, 20)[before:]
    assert asked[3].began_at - asked[0].began_at >= (0.5 + 1 + 2) * 0.8
    assert len(complaints(member)) == 1
    proxy.behave()
    desired.add("demo/late:1")
    desired.wait_status("demo/late:1", "Succeeded", 20)
    wait_well(member)

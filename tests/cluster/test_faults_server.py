# SPDX-License-Identifier: Apache-2.0
"""Proves that a server that is away, strange, or written to by others costs the node nothing but time.

faults.py describes what stands between the agent and the server, except in the last test.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from faults import *  # noqa: F403
from lab.certificates import make_certificates
from lab.control_plane import ControlPlane
from lab.documents import split_reference, write_whole
from lab.node_image import NodeImage
from lab.trouble import assert_clear, complaints, the_complaint, wait_problem, wait_well
from lab.wait import wait_until

# Servers that are away


def test_server_is_away_at_start(make_member, proxy, desired):
    """The agent starts, reports that the server is missing, and serves when it appears."""
    proxy.vanish()
    desired.add("demo/web:1")
    agent = make_member()
    agent.start()
    wait_problem(agent, "API server", "cannot connect")
    wait_unready(agent, "cannot connect")
    assert_clear(the_complaint(agent))
    assert_pulls_locally(agent)
    proxy.listen()
    desired.wait_status("demo/web:1", "Succeeded", 20)
    wait_well(agent)


def test_server_dies_in_mid_pull(member, proxy, server, desired, hold, fake_runtime):
    """The server's death and return lose neither a pull nor its outcome."""
    desired.add("demo/done:1", hold.reference, policy="Always")
    desired.wait_status("demo/done:1", "Succeeded")
    hold.wait_begun()
    proxy.vanish()
    wait_problem(member, "API server")
    hold.release()
    assert_pulls_locally(member)
    desired.add("demo/late:1")
    server.compact()
    proxy.listen()
    for reference in (hold.reference, "demo/late:1"):
        desired.wait_status(reference, "Succeeded", 20)
    wait_well(member)
    for reference in ("demo/done:1", hold.reference, "demo/late:1"):
        assert len(fake_runtime.calls("PullImage", reference)) == 1, reference
    assert len(lasting_complaints(member)) <= 1


def test_server_dies_again_and_again(member, proxy, desired):
    """Each death of the server costs one log line at most, and leaks no descriptor."""
    before = member.descriptors()
    for number in range(5):
        proxy.vanish()
        wait_problem(member, "API server")
        proxy.listen()
        wait_well(member, 20)
        desired.add(f"demo/image{number}:1")
        desired.wait_status(f"demo/image{number}:1", "Succeeded", 20)
    assert len(lasting_complaints(member)) <= 5
    assert len(complaints(member)) <= 10
    wait_until(
        lambda: member.descriptors() <= before + 2,
        10 * SLOWLY,
        lambda: f"end of {member.descriptors() - before} descriptors",
    )
    wait_until(
        lambda: proxy.open_connections <= 5,
        10 * SLOWLY,
        lambda: f"end of old ones among {proxy.open_connections} connections",
    )


# Certificates and tokens


def test_server_has_another_authority(make_member, folder, proxy, desired):
    """The agent sends nothing to a server with another authority's certificate, not even its token."""
    (folder / "strange").mkdir()
    agent = make_member(authority=make_certificates(folder / "strange").authority)
    agent.start()
    assert "certificate" in wait_problem(agent, "API server", "cannot be trusted")
    wait_unready(agent, "cannot be trusted")
    assert_clear(the_complaint(agent))
    assert_pulls_locally(agent)
    assert proxy.requests() == []


def test_token_rotates(member, proxy, server, desired, token_file):
    """The agent uses a new token in the file at once, after two refusals at most."""
    server.tokens.add("newer")
    write_whole(token_file, "newer")
    server.tokens.discard(TOKEN)
    the_watch(proxy).cut()
    desired.add("demo/web:1")
    desired.wait_status("demo/web:1", "Succeeded")
    assert proxy.requests()[-1].bearer == "newer"
    assert len([request for request in proxy.requests() if request.code == 401]) <= 2


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_token_expires(member, proxy, server, desired, token_file):
    """The agent reports a refused token, and reads a new one without a restart."""
    server.tokens.discard(TOKEN)
    server.tokens.add("newer")
    the_watch(proxy).cut()
    wait_problem(member, "API server", "Unauthorized", 20)
    assert TOKEN not in member.log_text()
    assert_pulls_locally(member)
    write_whole(token_file, "newer")
    desired.add("demo/web:1")
    desired.wait_status("demo/web:1", "Succeeded", UNTIL_HOPE)
    wait_well(member)
    assert "newer" not in member.log_text()


# Other writers of the object


def test_object_is_made_again(member, desired, fake_runtime):
    """An object created again under the same name does not inherit the status of the first."""
    desired.add("demo/web:1", policy="Always")
    first = desired.wait_status("demo/web:1", "Succeeded")
    desired.delete()
    desired.create("demo/web:1", policy="Always")
    second = desired.wait_status("demo/web:1", "Succeeded")
    assert second["startTime"] >= first["completionTime"]
    assert len(fake_runtime.calls("PullImage", "demo/web:1")) == 2


def test_object_is_made_again_unseen(member, proxy, desired, fake_runtime):
    """The second object inherits no status either if the watch breaks before the change."""
    desired.add("demo/web:1", policy="Always")
    desired.wait_status("demo/web:1", "Succeeded")
    proxy.vanish()
    desired.delete()
    desired.create("demo/web:1", policy="Always")
    proxy.listen()
    desired.wait_status("demo/web:1", "Succeeded", 20)
    assert len(fake_runtime.calls("PullImage", "demo/web:1")) == 2


def test_object_is_deleted_in_mid_pull(member, desired, hold):
    """The agent cancels the pull of an image that is no longer desired."""
    desired.add(hold.reference)
    call = hold.wait_begun()
    desired.delete()
    assert call.wait_over(10 * SLOWLY) and call.cancelled


def test_controller_fails_a_task(member, desired, hold):
    """The agent stops a pull that a controller has failed, and keeps the controller's status."""
    desired.add(hold.reference, backoffLimit=0)
    call = hold.wait_begun()
    desired.wait_status(hold.reference, "Pulling")
    name, tag = split_reference(hold.reference)
    failed = {"tag": tag, "phase": "Failed", "message": "no answer for a long time"}
    failed["completionTime"] = "2020-01-01T00:00:00Z"
    desired.patch_status({"imageStatuses": {name: {"tags": [failed]}}})
    assert call.wait_over(10 * SLOWLY) and call.cancelled
    desired.add("demo/other:1")
    desired.wait_status("demo/other:1", "Succeeded")
    wait_until(desired.events, 10 * SLOWLY, "event of the other image")
    assert desired.tag_status(hold.reference)["message"] == "no answer for a long time"
    assert [event["reason"] for event in desired.events()] == ["PullImageSucceed"]
    assert len(hold.calls()) == 1


@pytest.mark.parametrize("status", [None, 17, [], {"imageStatuses": []}, {"succeeded": "many"}])
def test_others_write_nonsense(member, proxy, desired, status):
    """The agent replaces a status that it cannot read."""
    desired.patch_status(status)
    desired.add("demo/web:1")

    def is_written() -> bool:
        return '"Succeeded"' in json.dumps(desired.get().get("status"))

    wait_until(is_written, 10 * SLOWLY, lambda: f"status, only {desired.get()}")
    assert desired.tag_status("demo/web:1")["phase"] == "Succeeded"
    assert desired.get()["status"]["succeeded"] == 1


# A real server


@pytest.fixture
def mortal(folder) -> Iterator[ControlPlane]:
    """A control plane for this test alone."""
    with ControlPlane(folder / "control-plane") as made:
        made.install()
        yield made


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("how", ["kill9", "freeze"])
def test_real_server_dies_in_mid_pull(start_agent, folder, mortal, fake_runtime, hold, how):
    """The agent recovers from a server that was killed, or stopped with its connections open."""
    desired = NodeImage(mortal.admin, NODE)
    desired.create("demo/done:1", hold.reference, policy="Always")
    kubeconfig = mortal.write_agent_kubeconfig(folder / "agent.conf")
    agent = start_agent(fake_runtime.endpoint, kubeconfig=kubeconfig, node_name=NODE)
    desired.wait_status("demo/done:1", "Succeeded")
    hold.wait_begun()
    getattr(mortal.apiserver, how)()
    hold.release()
    assert_pulls_locally(agent)
    if how == "kill9":
        wait_problem(agent, "API server")
        mortal.apiserver.start()
    else:
        mortal.apiserver.thaw()
    desired.add("demo/late:1")
    for reference in (hold.reference, "demo/late:1"):
        desired.wait_status(reference, "Succeeded", 60)
    wait_well(agent, 30)
    for reference in ("demo/done:1", hold.reference, "demo/late:1"):
        assert len(fake_runtime.calls("PullImage", reference)) == 1, reference

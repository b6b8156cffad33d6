# SPDX-License-Identifier: Apache-2.0
"""Requests that are withdrawn, and requests that outlive who made them."""

from __future__ import annotations

import grpc
import pytest

from fake import behaviours
from lab.preload import Preload
from lab.wait import wait_until


def wait_ingests(containerd, there: bool) -> None:
    wait_until(lambda: bool(containerd.cri.ingests()) == there, 10, f"ingests: {there}")


@pytest.mark.handover
def test_caller_that_goes_away_cancels(agent, containerd, gate):
    """When the caller hangs up, the runtime stops fetching and the request is withdrawn."""
    preload = Preload(agent, gate.reference)
    preload.wait_phase("PULLING")
    wait_ingests(containerd, True)
    preload.cancel()
    wait_ingests(containerd, False)
    wait_until(lambda: agent.status()["status"]["desired"] == 0, 10, "end of the request")
    assert containerd.image_status(gate.reference) is None


def test_caller_that_is_killed_cancels(agent, containerd, gate):
    """It is the same when the caller is killed and cannot say goodbye."""
    with agent.start_ctl("pull", gate.reference) as child:
        wait_ingests(containerd, True)
        child.kill()
        wait_ingests(containerd, False)


@pytest.mark.handover
@pytest.mark.parametrize("by", ["request", "image"])
def test_cancel(agent, containerd, gate, by):
    """Cancel ends a request, by its ID or by its image; its stream reports that and ends."""
    preload = Preload(agent, gate.reference)
    request_id = preload.wait_phase("PULLING").request_id
    wait_ingests(containerd, True)
    fields = {"request_id": request_id} if by == "request" else {"image": gate.reference}
    answer = agent.node.Cancel(agent.messages.CancelRequest(**fields))
    assert answer.canceled == 1
    last = preload.wait_end()
    assert (last.phase, last.reason) == (agent.messages.PHASE_FAILED, "Canceled")
    wait_ingests(containerd, False)
    again = agent.node.Cancel(agent.messages.CancelRequest(**fields))
    assert again.canceled == 0


def test_cancel_spares_what_others_request(start_agent, fake_runtime):
    """A withdrawn request leaves the pull to a file or a request for the same image."""
    fake_runtime.on("PullImage", behaviours.hang())
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/web:1")
    wait_until(lambda: fake_runtime.calls("PullImage"), 10, "pull")
    first, second = Preload(agent, "demo/web:1"), Preload(agent, "demo/web:1")
    request_id = first.wait_phase("PULLING").request_id
    second.wait_phase("PULLING")
    agent.node.Cancel(agent.messages.CancelRequest(request_id=request_id))
    assert first.wait_end().reason == "Canceled"
    second.cancel()
    agent.node.Cancel(agent.messages.CancelRequest(image="demo/web:1"))
    (call,) = fake_runtime.calls("PullImage")
    assert not call.over.is_set()
    assert agent.tag_status("demo/web:1")["phase"] == "Pulling"


def test_cancel_of_one_image_of_two(start_agent, fake_runtime):
    """Of a request for two images one can be withdrawn; the other is pulled to its end."""
    fake_runtime.on("PullImage", behaviours.hang(), image="demo/slow:1")
    agent = start_agent(fake_runtime.endpoint)
    preload = Preload(agent, "demo/slow:1", "demo/fast:1")
    preload.wait_phase("SUCCEEDED", "demo/fast:1")
    agent.node.Cancel(agent.messages.CancelRequest(image="docker.io/demo/slow:1"))
    preload.wait_end()
    assert preload.phases("demo/slow:1")[-1] == "FAILED"
    assert preload.phases("demo/fast:1")[-1] == "SUCCEEDED"


@pytest.mark.parametrize("fields", [{}, {"request_id": "x", "image": "y"}, {"image": "UPPER X"}])
def test_bad_cancel(agent, fields):
    """Cancel requires either a request or a well-formed image."""
    with pytest.raises(grpc.RpcError) as error:
        agent.node.Cancel(agent.messages.CancelRequest(**fields), timeout=10)
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.handover
def test_detached_request_outlives_a_restart(start_agent, fake_runtime):
    """A detached call ends at once; its request outlives the caller and kill -9 of the agent."""
    fake_runtime.on("PullImage", behaviours.hang())
    agent = start_agent(fake_runtime.endpoint)
    accepted = Preload(agent, "demo/web:1", detach=True).wait_end()
    assert accepted.phase in (agent.messages.PHASE_WAITING, agent.messages.PHASE_PULLING)
    wait_until(lambda: fake_runtime.calls("PullImage"), 10, "pull")
    agent.wait_status("demo/web:1", "Pulling")
    agent.kill9()
    fake_runtime.behave()
    agent.start()
    agent.wait_status("demo/web:1", "Succeeded")
    assert len(fake_runtime.calls("PullImage")) == 2
    owners = agent.status()["spec"]["images"]["demo/web"]["tags"][0]["ownerReferences"]
    assert [(owner["kind"], owner["name"]) for owner in owners] == [
        ("Request", accepted.request_id)
    ]


def test_detached_request_is_kept_before_the_caller_is_notified(start_agent, fake_runtime):
    """Once a detached request is accepted, kill -9 in the same instant does not lose it."""
    fake_runtime.on("PullImage", behaviours.hang())
    agent = start_agent(fake_runtime.endpoint)
    # A burst of work before it, so that the status was written only just now.
    Preload(agent, *(f"demo/many:{number}" for number in range(50)), detach=True).wait_end()
    Preload(agent, "demo/web:1", detach=True).wait_end()
    agent.kill9()
    agent.start()
    assert agent.tag_status("demo/web:1") is not None


@pytest.mark.handover
def test_detached_request_is_cancelled(start_agent, fake_runtime):
    """A detached request can be withdrawn by its ID, also after a restart."""
    fake_runtime.on("PullImage", behaviours.hang())
    agent = start_agent(fake_runtime.endpoint)
    request_id = Preload(agent, "demo/web:1", detach=True).wait_end().request_id
    agent.wait_status("demo/web:1", "Pulling")
    wait_until(lambda: fake_runtime.calls("PullImage"), 10, "first pull")
    assert agent.terminate().code == 0
    agent.start()
    agent.wait_status("demo/web:1", "Pulling")
    wait_until(lambda: len(fake_runtime.calls("PullImage")) == 2, 10, "second pull")
    request = agent.messages.CancelRequest(request_id=request_id)
    assert agent.node.Cancel(request, wait_for_ready=True, timeout=10).canceled == 1
    assert fake_runtime.calls("PullImage")[1].wait_over(60)


def test_waiting_callers_learn_of_the_end(start_agent, fake_runtime):
    """When the agent ends, callers that wait are notified at once."""
    fake_runtime.on("PullImage", behaviours.hang())
    agent = start_agent(fake_runtime.endpoint)
    preload = Preload(agent, "demo/web:1")
    preload.wait_phase("PULLING")
    ended = agent.terminate()
    with pytest.raises(grpc.RpcError) as error:
        preload.wait_end(5)
    assert error.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
    assert ended.code == 0

# SPDX-License-Identifier: Apache-2.0
"""Requests that are withdrawn, and requests that outlive who made them."""

from __future__ import annotations

import json
import os

import grpc
import pytest

from fake import behaviours
from lab.preload import Preload
from lab.user import DAEMON, NOBODY, node_stub_of
from lab.wait import wait_until


@pytest.mark.handover
def test_caller_that_goes_away_cancels(agent, runtime, gate):
    """When the caller hangs up, the runtime stops fetching and the request is withdrawn."""
    preload = Preload(agent, gate.reference)
    preload.wait_phase("PULLING")
    gate.wait_fetched()
    preload.cancel()
    gate.wait_left()
    wait_until(lambda: agent.status()["status"]["desired"] == 0, 10, "end of the request")
    assert runtime.image_status(gate.reference) is None


def test_caller_that_is_killed_cancels(agent, runtime, gate):
    """A killed caller, who cannot say goodbye, cancels its request as well."""
    with agent.start_ctl("pull", gate.reference) as child:
        gate.wait_fetched()
        child.kill()
        gate.wait_left()


@pytest.mark.handover
@pytest.mark.parametrize("by", ["request", "image"])
def test_cancel(agent, runtime, gate, by):
    """Cancel ends a request, by its ID or by its image; its stream reports that and ends."""
    preload = Preload(agent, gate.reference)
    request_id = preload.wait_phase("PULLING").request_id
    gate.wait_fetched()
    fields = {"request_id": request_id} if by == "request" else {"image": gate.reference}
    answer = agent.node.Cancel(agent.messages.CancelRequest(**fields))
    assert answer.canceled == 1
    last = preload.wait_end()
    assert (last.phase, last.reason) == (agent.messages.PHASE_FAILED, "Canceled")
    gate.wait_left()
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
    agent.wait_status("demo/web:1", "Pulling")


def test_cancel_of_one_image_of_two(start_agent, fake_runtime):
    """An image of a request for two can be withdrawn; the other is pulled to its end."""
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


def test_request_of_a_caller_that_gave_up(start_agent, fake_runtime):
    """A request whose caller waits ends with the agent: a caller that still waits asks the next run again."""
    fake_runtime.on("PullImage", behaviours.hang())
    agent = start_agent(fake_runtime.endpoint)
    preload = Preload(agent, "demo/web:1")
    preload.wait_phase("PULLING")
    agent.wait_status("demo/web:1", "Pulling")
    wait_until(lambda: fake_runtime.calls("PullImage"), 10, "pull")
    agent.kill9()
    preload.cancel()
    fake_runtime.behave()
    agent.request("demo/other:1")
    agent.start()
    agent.wait_status("demo/other:1", "Succeeded")
    assert [call.image for call in fake_runtime.calls("PullImage")][1:] == ["demo/other:1"]
    assert agent.tag_status("demo/web:1") is None


def test_status_of_a_call_outlives_a_restart(start_agent, fake_runtime):
    """The outcome of a call that ended is shown after a restart, with its caller."""
    agent = start_agent(fake_runtime.endpoint)
    request_id = Preload(agent, "demo/web:1").wait_end().request_id
    agent.wait_status("demo/web:1", "Succeeded")
    agent.kill9()
    agent.start()
    agent.wait_status("demo/web:1", "Succeeded")
    (owner,) = agent.status()["spec"]["images"]["demo/web"]["tags"][0]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Call", request_id, "0")
    assert owner["fieldPath"] == f"root (uid 0, pid {os.getpid()})"
    assert len(fake_runtime.calls("PullImage")) == 1


def test_caller_is_named(start_agent, fake_runtime):
    """The list of images, the status and the log name who requests: user, uid and pid."""
    fake_runtime.hold("demo/web:1")
    fake_runtime.on("PullImage", behaviours.hang())
    agent = start_agent(fake_runtime.endpoint)
    request = Preload(agent, "demo/web:1", pull_policy="PULL_POLICY_ALWAYS", detach=True)
    request_id = request.wait_end().request_id
    caller = f"root (uid 0, pid {os.getpid()})"
    words = f"{caller}, request {request_id}"
    agent.wait_status("demo/web:1", "Pulling")
    for _ in range(2):
        (image,) = json.loads(agent.ctl("images", "-o", "json").stdout)["images"]
        assert image["requestedBy"] == [words]
        assert words in agent.ctl("status", "-o", "wide").stdout
        agent.kill9()
        agent.start()
        agent.wait_runtime()
    accepted = [line for line in agent.logs() if line["message"].startswith("Accepted request")]
    assert caller in accepted[0]["message"] and accepted[0]["caller_user"] == "root"


def test_cancel_command(start_agent, fake_runtime):
    """cancel withdraws a request by its ID, as pull --no-wait prints it, or by the image."""
    fake_runtime.on("PullImage", behaviours.hang())
    agent = start_agent(fake_runtime.endpoint)
    asked = agent.ctl("pull", "--no-wait", "demo/web:1", "demo/web:2")
    request_id = asked.stdout.split()[-1]
    assert f"inplacectl cancel {request_id}" in asked.stdout
    agent.ctl("pull", "--no-wait", "demo/other:1")
    wait_until(lambda: len(fake_runtime.calls("PullImage")) == 3, 10, "pulls")
    ran = agent.ctl("cancel", request_id)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"{request_id} canceled\n", "")
    ran = agent.ctl("cancel", "docker.io/demo/other:1", "-o", "json")
    assert ran.returncode == 0 and json.loads(ran.stdout)["canceled"] == 1
    assert all(call.wait_over(60) for call in fake_runtime.calls("PullImage"))
    again = agent.ctl("cancel", "demo/other:1")
    assert (again.returncode, again.stdout) == (1, "")
    assert "image demo/other:1 is not requested, or is finished" in again.stderr
    unknown = agent.ctl("cancel", "deadbeef")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "deadbeef is neither a request (16 hexadecimal digits) nor a requested image" in unknown.stderr
    gone = agent.ctl("cancel", request_id)
    assert f"request {request_id} does not exist, or is finished" in gone.stderr
    for command in ("cancel", "retry", "unpin"):
        malformed = agent.ctl(command, "UPPER X")
        assert malformed.returncode == 2 and len(malformed.stderr.splitlines()) == 1


def test_cancel_of_an_image_of_the_folder(start_agent, fake_runtime):
    """A request of a document cannot be canceled: the message names it and what to do."""
    fake_runtime.on("PullImage", behaviours.hang())
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/web:1", file="web.yaml")
    agent.wait_status("demo/web:1", "Pulling")
    alone = agent.ctl("cancel", "demo/web:1")
    assert alone.returncode == 1
    assert alone.stderr == (
        "inplacectl: demo/web:1 is requested by folder:web.yaml; remove it from that document\n"
    )
    agent.ctl("pull", "--no-wait", "demo/web:1")
    both = agent.ctl("cancel", "demo/web:1")
    assert (both.returncode, both.stdout) == (0, "demo/web:1 canceled\n")
    assert "still requested by folder:web.yaml" in both.stderr
    (call,) = wait_until(lambda: fake_runtime.calls("PullImage"), 10, "pull")
    assert not call.over.is_set()


def test_cancel_of_another_user(start_agent, fake_runtime, folder):
    """A user cancels own requests only, root any."""
    os.chmod(folder.path, 0o711)
    fake_runtime.on("PullImage", behaviours.hang())
    agent = start_agent(fake_runtime.endpoint, flags=["--socket-group=daemon"])
    of_root = Preload(agent, "demo/web:1", detach=True).wait_end().request_id
    Cancel = agent.messages.CancelRequest
    with node_stub_of(agent, NOBODY, DAEMON) as node:
        request = agent.messages.PreloadRequest(images=["demo/web:1"], detach=True)
        own = next(node.Preload(request)).request_id
        with pytest.raises(grpc.RpcError) as error:
            node.Cancel(Cancel(request_id=of_root), timeout=10)
        assert error.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert "root (uid 0, pid" in error.value.details()
        answer = node.Cancel(Cancel(image="demo/web:1"), timeout=10)
        assert answer.canceled == 1
        (kept,) = answer.requested_by
        assert kept.startswith("root (uid 0") and of_root in kept
        assert node.Cancel(Cancel(request_id=own), timeout=10).canceled == 0
        own = next(node.Preload(request)).request_id
    assert agent.node.Cancel(Cancel(request_id=own), timeout=10).canceled == 1


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

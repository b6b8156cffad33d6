# SPDX-License-Identifier: Apache-2.0
"""Proves that neither the sudden death of the runtime nor that of the agent in the middle of a pull
costs a failure, a lie, or work that was already done.
"""

from __future__ import annotations

import json
import os
import resource
import signal

import pytest

from fake import behaviours
from lab import sanitizers
from lab.documents import node_image, write_whole
from lab.trouble import complaints, no_leak, problems, pull_another, the_complaint, without_hints
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS


@pytest.fixture
def mortal(new_runtime):
    """A containerd of its own."""
    with new_runtime("mortal") as runtime:
        yield runtime


@pytest.mark.parametrize("how", ["kill9", "stop"])
def test_runtime_dies_in_mid_pull(start_agent, mortal, gate, how):
    """The pull waits for the runtime to return, is taken up within a second, and succeeds."""
    agent = start_agent(mortal.endpoint)
    agent.request(gate.reference, backoffLimit=0)
    gate.wait_fetched(10 * SLOWLY)
    with no_leak(agent):
        getattr(mortal, how)()
        wait_until(lambda: "container runtime" in problems(agent), 5 * SLOWLY, "problem")
        assert agent.tag_status(gate.reference)["phase"] in ("Pulling", "Waiting")
        assert "runtime" in the_complaint(agent)
        gate.open()
        mortal.start()
        wait_until(lambda: problems(agent) == {}, 5 * SLOWLY, "end of the problem")
        agent.wait_status(gate.reference, "Succeeded", 10 * SLOWLY)
    assert mortal.image_id(gate.reference) == gate.image.image_id
    assert len(complaints(agent)) == 1
    assert agent.metrics().total("inplaced_pulls_total", result="failed") == 0


def test_runtime_dies_again_and_again(start_agent, fake_runtime):
    """Each death is one line, and no descriptor; what was asked for meanwhile is done at last."""
    agent = start_agent(fake_runtime.endpoint)
    pull_another(agent, "good/first:1")
    fake_runtime.on("PullImage", behaviours.hang(), "bad/one:1")
    agent.request("bad/one:1", backoffLimit=0)
    wait_until(lambda: fake_runtime.calls("PullImage", "bad/one:1"), 5 * SLOWLY, "attempt")
    with no_leak(agent):
        for number in range(8):
            fake_runtime.front.vanish(leave_file=number % 2 == 0)
            wait_until(lambda: "container runtime" in problems(agent), 5 * SLOWLY, "problem")
            fake_runtime.front.listen()
            wait_until(lambda: problems(agent) == {}, 5 * SLOWLY, "end of the problem")
        fake_runtime.behave()
        agent.wait_status("bad/one:1", "Succeeded", 60 * SLOWLY)
    assert len(complaints(agent)) == 8
    assert agent.metrics().get_value("inplaced_runtime_reconnects_total") == 8


@pytest.mark.handover
def test_agent_dies_in_mid_pull(start_agent, fake_runtime):
    """After kill -9 the runtime is let go, finished work stays done, and the rest goes on."""
    agent = start_agent(fake_runtime.endpoint)
    pull_another(agent, "good/done:1")
    done = agent.tag_status("good/done:1")
    fake_runtime.on("PullImage", behaviours.hang(), "good/one:1")
    agent.request("good/one:1", backoffLimit=0)
    agent.wait_status("good/one:1", "Pulling", 5 * SLOWLY)
    wait_until(lambda: fake_runtime.calls("PullImage", "good/one:1"), 5, "call")
    agent.kill9()
    (call,) = fake_runtime.calls("PullImage", "good/one:1")
    assert call.wait_over(60) and call.cancelled
    fake_runtime.behave()
    agent.start()
    agent.wait_status("good/one:1", "Succeeded", 5 * SLOWLY)
    assert agent.tag_status("good/done:1") == done
    assert len(fake_runtime.calls("PullImage", "good/done:1")) == 1
    assert complaints(agent) == []


def leases_of(runtime) -> list[str]:
    return runtime.ctr("leases", "ls", "--quiet").stdout.split()


@pytest.mark.parametrize("goes_on", [True, False])
def test_agent_leaves_a_lease(start_agent, mortal, gate, goes_on):
    """The content of a pull is kept while one goes on after kill -9, and then given up, not a day later."""
    agent = start_agent(mortal.endpoint)
    agent.request(gate.reference)
    gate.wait_fetched(10 * SLOWLY)
    (left,) = wait_until(lambda: leases_of(mortal), 5 * SLOWLY, "lease")
    agent.kill9()
    if not goes_on:
        os.unlink(agent.images_dir / "wanted.yaml")
    agent.start()
    if goes_on:
        wait_until(lambda: len(leases_of(mortal)) == 2, 10 * SLOWLY, "second lease")
        assert left in leases_of(mortal)
        gate.open()
        agent.wait_status(gate.reference, "Succeeded", 10 * SLOWLY)
    wait_until(lambda: leases_of(mortal) == [], 10 * SLOWLY, "end of the leases")


def test_agent_dies_with_failures(start_agent, fake_runtime):
    """A failure that was final stays so, with its reason, and is not tried again after kill -9."""
    fake_runtime.on("PullImage", behaviours.fail("NOT_FOUND", "no such thing"), "bad/one:1")
    agent = start_agent(fake_runtime.endpoint)
    agent.request("bad/one:1", backoffLimit=0)
    failed = agent.wait_status("bad/one:1", "Failed", 5 * SLOWLY)
    agent.kill9()
    agent.start()
    pull_another(agent)
    assert agent.tag_status("bad/one:1") == failed
    assert len(fake_runtime.calls("PullImage", "bad/one:1")) == 1
    assert len(complaints(agent)) == 1


def request_twice(agent, **own) -> None:
    """A file with two spellings of an image, of which the first has a pull policy of its own."""
    document = node_image(("demo/web:1", "docker.io/demo/web:1"), backoffLimit=3)
    document["spec"]["images"]["demo/web"]["tags"][0]["pullPolicy"] = own
    write_whole(agent.images_dir / "web.yaml", document)


def wait_note(agent, key: str) -> None:
    note = lambda: agent.status().get("metadata", {}).get("annotations", {}).get(key)  # noqa: E731
    wait_until(note, 10, key)


def test_agent_dies_with_two_spellings(start_agent, fake_runtime):
    """A spelling whose attempts are used up takes none from the other one of its file."""
    broken = behaviours.fail("UNKNOWN", "it is broken")
    fake_runtime.on("PullImage", behaviours.in_turn(broken, behaviours.hang()))
    agent = start_agent(fake_runtime.endpoint)
    request_twice(agent, backoffLimit=0)
    wait_note(agent, "inplaced.io/outcomes")
    wait_until(lambda: len(fake_runtime.calls("PullImage")) == 2, 10, "second attempt")
    agent.kill9()
    fake_runtime.behave()
    agent.start()
    agent.wait_status("demo/web:1", "Succeeded")


def test_agent_dies_when_a_spelling_has_expired(start_agent, fake_runtime):
    """The time to live of one spelling does not end the other one of its file."""
    agent = start_agent(fake_runtime.endpoint)
    request_twice(agent, ttlSecondsAfterFinished=1)
    wait_note(agent, "inplaced.io/expired")
    agent.kill9()
    agent.start()
    pull_another(agent)
    assert agent.owners("demo/web:1") == [("File", "web.yaml")]
    assert len(fake_runtime.calls("PullImage", "demo/web:1")) == 1


def test_agent_dies_often(start_agent, fake_runtime):
    """Whenever it is killed, the status file is whole, and in the end every image was pulled and
    none of those that were done is pulled again.
    """
    references = [f"good/n{number}:1" for number in range(300)]
    fake_runtime.on("PullImage", behaviours.slow(0.01))
    agent = start_agent(fake_runtime.endpoint)
    agent.request(*references)
    seen: set[str] = set()
    for number in range(10):
        pulls = len(fake_runtime.calls("PullImage"))
        enough = pulls + 5 + number
        wait_until(lambda n=enough: len(fake_runtime.calls("PullImage")) >= n, 20, "some pulls")
        agent.kill9()
        status = json.loads((agent.state_dir / "nodeimage.json").read_text())["status"]
        finished = {
            f"{name}:1"
            for name, image in status["imageStatuses"].items()
            if image["tags"][0]["phase"] == "Succeeded"
        }
        assert seen <= finished
        seen = finished
        counts = {name: len(fake_runtime.calls("PullImage", name)) for name in finished}
        agent.start()
    for reference in references:
        agent.wait_status(reference, "Succeeded", 20 * SLOWLY)
    again = {name: len(fake_runtime.calls("PullImage", name)) for name in counts}
    assert again == counts
    assert complaints(agent) == []
    assert sorted(os.listdir(agent.state_dir)) == ["lock", "nodeimage.json"]


def test_desired_image_withdrawn_while_dead(start_agent, fake_runtime):
    """An image that no file requests any more when the agent comes back is neither pulled nor reported."""
    fake_runtime.on("PullImage", behaviours.hang(), "bad/one:1")
    agent = start_agent(fake_runtime.endpoint)
    agent.request("bad/one:1")
    wait_until(lambda: fake_runtime.calls("PullImage", "bad/one:1"), 5, "call")
    agent.kill9()
    write_whole(agent.images_dir / "wanted.yaml", node_image(("good/one:1",)))
    agent.start()
    agent.wait_status("good/one:1", "Succeeded", 5 * SLOWLY)
    assert agent.tag_status("bad/one:1") is None
    assert len(fake_runtime.calls("PullImage", "bad/one:1")) == 1


def test_caller_outlives_agent(start_agent, fake_runtime):
    """A command that waits for an image says that the agent went away, and has it in the end."""
    fake_runtime.on("PullImage", behaviours.hang(), "good/one:1")
    agent = start_agent(fake_runtime.endpoint)
    child = agent.start_ctl("pull", "good/one:1")
    wait_until(lambda: fake_runtime.calls("PullImage", "good/one:1"), 5 * SLOWLY, "call")
    agent.kill9()
    fake_runtime.behave()
    agent.start()
    _, errors = child.communicate(timeout=60 * SLOWLY)
    assert child.returncode == 0
    assert without_hints(errors) == "inplacectl: lost the connection to inplaced, connecting again\n"
    assert len(fake_runtime.calls("PullImage", "good/one:1")) == 2


def test_no_core(agent):
    """A crash leaves no core dump, in which credentials would be, whatever limit was set for it."""
    pid = agent.process.pid
    soft, hard = resource.prlimit(pid, resource.RLIMIT_CORE)
    assert soft == 0
    resource.prlimit(pid, resource.RLIMIT_CORE, (hard, hard))
    agent.process.send(signal.SIGABRT)
    assert os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT).si_code == os.CLD_KILLED
    agent.kill9()

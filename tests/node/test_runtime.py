# SPDX-License-Identifier: Apache-2.0
"""Finding the container runtime, losing it and finding it again."""

from __future__ import annotations

import json
import signal
import threading
import time

import pytest

from fake import behaviours
from fake.front import Line
from fake.runtime import FakeRuntime
from lab import sanitizers
from lab.preload import Preload
from lab.trouble import complaints, problems, readiness
from lab.wait import stretch, wait_until


def wait_ready(agent, is_ready: bool, timeout: float = 10) -> str:
    code = 200 if is_ready else 503
    wait_until(lambda: readiness(agent)[0] == code, timeout, lambda: f"{code}: {readiness(agent)}")
    return readiness(agent)[1]


def runtimes(agent) -> dict[str, dict]:
    document = json.loads(agent.ctl("doctor", "-o", "json").stdout)
    return {runtime["endpoint"]: runtime for runtime in document["runtimes"]}


@pytest.fixture
def absent_runtime(fake_runtime):
    """A runtime that is not there before its front listens."""
    fake_runtime.front.vanish()
    return fake_runtime


def test_runtime_appears(make_agent, absent_runtime):
    """Without a runtime the agent is up and says so everywhere; it works when there is one."""
    agent = make_agent(absent_runtime.endpoint)
    assert agent.start() < stretch(2 * sanitizers.SLOWNESS)
    path = str(absent_runtime.socket)
    assert path in wait_ready(agent, False)
    agent.request("demo/web:1")
    agent.wait_status("demo/web:1", "Waiting")
    assert path in agent.status()["metadata"]["annotations"]["inplaced.io/runtime"]
    assert path in agent.ctl("doctor").stdout
    assert path in agent.ctl("images").stderr
    assert any(path in line["message"] for line in agent.logs())
    notice = agent.notify.wait_for("STATUS", 5)
    assert notice.value
    absent_runtime.front.listen()
    began = time.monotonic()
    agent.wait_status("demo/web:1", "Succeeded")
    assert time.monotonic() - began < stretch(3 * sanitizers.SLOWNESS)
    assert wait_ready(agent, True) == "ok"


def test_status_file_says_whether_the_runtime_is_there(start_agent, fake_runtime):
    """Also on a node without any image."""
    agent = start_agent(fake_runtime.endpoint)

    def said() -> str:
        document = json.loads((agent.state_dir / "nodeimage.json").read_text())
        return document["metadata"]["annotations"]["inplaced.io/runtime"]

    ready = wait_until(said, 10, "sentence about the runtime")
    assert "ready" in ready
    fake_runtime.front.vanish()
    wait_until(lambda: said() != ready, 10, lambda: f"other sentence than {said()}")
    assert str(fake_runtime.socket) in said()
    fake_runtime.front.listen()
    wait_until(lambda: said() == ready, 10, lambda: f"the first sentence, only {said()}")


@pytest.mark.handover
def test_runtime_dies_and_returns(start_agent, fake_runtime):
    """A runtime that died is used again soon after its return; the pull begins anew."""
    fake_runtime.on("PullImage", behaviours.hang())
    agent = start_agent(fake_runtime.endpoint)
    preload = Preload(agent, "demo/web:1", backoff_limit=0)
    preload.wait_phase("PULLING")
    wait_until(lambda: fake_runtime.calls("PullImage"), 5, "pull")
    fake_runtime.front.vanish(leave_file=True)
    preload.wait_step("WAITING_FOR_RUNTIME")
    wait_ready(agent, False)
    assert agent.metrics().get_value("inplaced_runtime_ready") == 0
    fake_runtime.behave()
    fake_runtime.front.listen()
    began = time.monotonic()
    last = preload.wait_end()
    assert time.monotonic() - began < stretch(3 * sanitizers.SLOWNESS)
    assert (last.phase, last.attempt) == (agent.messages.PHASE_SUCCEEDED, 1)
    assert agent.metrics().get_value("inplaced_runtime_ready") == 1
    assert agent.metrics().get_value("inplaced_runtime_reconnects_total") == 1


@pytest.mark.slow
def test_runtime_dies_and_returns(new_runtime, start_agent, fake_registry, gate):
    """kill -9 of a real containerd in the middle of a pull costs none of the attempts."""
    with new_runtime("mortal") as runtime:
        agent = start_agent(runtime.endpoint)
        agent.request(gate.reference, backoffLimit=0)
        agent.wait_status(gate.reference, "Pulling")
        gate.wait_fetched()
        runtime.kill9()
        wait_ready(agent, False)
        gate.open()
        runtime.start()
        wait_ready(agent, True, 5 * sanitizers.SLOWNESS)
        status = agent.wait_status(gate.reference, "Succeeded")
        assert status["imageID"].endswith(runtime.image_id(gate.reference))


def test_old_runtime(start_agent, fake_runtime):
    """The agent reports a runtime without CRI v1 in a sentence; after its update it is used."""
    fake_runtime.api = "v1alpha2"
    agent = start_agent(fake_runtime.endpoint)
    wait_until(lambda: "CRI v1" in readiness(agent)[1], 10, lambda: f"{readiness(agent)}")
    ran = agent.ctl("doctor")
    assert ran.returncode == 3 and "does not speak CRI v1" in ran.stdout
    fake_runtime.api = "v1"
    wait_ready(agent, True, 5)


@pytest.mark.parametrize("line", [Line.JUNK, Line.CLOSE, Line.MUTE])
def test_socket_that_is_no_runtime(start_agent, fake_runtime, line):
    """A socket without gRPC behind it makes the agent not ready, and nothing worse."""
    fake_runtime.front.line = line
    agent = start_agent(fake_runtime.endpoint)
    assert str(fake_runtime.socket) in wait_ready(agent, False)
    fake_runtime.front.line = Line.FORWARD
    fake_runtime.front.drop()
    wait_ready(agent, True, 5)


def test_first_of_several_is_chosen(folder, start_agent):
    """The first of several endpoints that answers is used; all are listed with their state."""
    with FakeRuntime(folder / "a") as first, FakeRuntime(folder / "b") as second:
        first.version, second.version = "1.1.1", "2.2.2"
        missing = f"unix://{folder.path}/missing.sock"
        agent = start_agent([missing, first.endpoint, second.endpoint])
        wait_ready(agent, True)
        Preload(agent, "demo/web:1").wait_end()
        assert len(first.calls("PullImage")) == 1 and not second.calls("PullImage")
        wait_until(lambda: runtimes(agent)[second.endpoint]["ready"], 5, "the second runtime")
        listed = runtimes(agent)
        assert list(listed) == [missing, first.endpoint, second.endpoint]
        assert [one["chosen"] for one in listed.values()] == [False, True, False]
        assert [one["ready"] for one in listed.values()] == [False, True, True]
        assert listed[first.endpoint]["version"] == "1.1.1"


def test_endpoint_is_chosen_by_hand(folder, start_agent):
    """With --runtime-endpoint no other socket is tried."""
    with FakeRuntime(folder / "a") as runtime:
        agent = start_agent(runtime.endpoint)
        wait_ready(agent, True)
        assert list(runtimes(agent)) == [runtime.endpoint]


@pytest.mark.parametrize(
    "place",
    [
        "run/containerd/containerd.sock",
        "run/k3s/containerd/containerd.sock",
        "var/snap/microk8s/common/run/containerd.sock",
        "run/k0s/containerd.sock",
        "run/crio/crio.sock",
        "run/cri-dockerd.sock",
    ],
)
def test_discovery(folder, make_agent, fake_runtime, place):
    """Without an endpoint the usual sockets are tried, below --host-root where it is given."""
    root = folder / "root"
    socket = root / place
    socket.parent.mkdir(parents=True)
    socket.symlink_to(fake_runtime.socket)
    agent = make_agent([], flags=[f"--host-root={root}"])
    agent.start()
    wait_ready(agent, True)
    chosen = [one for one, about in runtimes(agent).items() if about["chosen"]]
    assert chosen == [f"unix://{socket}"]
    assert Preload(agent, "demo/web:1").wait_end().phase == agent.messages.PHASE_SUCCEEDED


def test_discovery_finds_nothing(folder, make_agent):
    """Where there is no runtime at all, the sentence says so and names the option."""
    (folder / "root").mkdir()
    agent = make_agent([], flags=[f"--host-root={folder.path}/root"])
    agent.start()
    assert "--runtime-endpoint" in wait_ready(agent, False)
    assert "--runtime-endpoint" in agent.ctl("doctor").stdout


def test_pull_is_not_repeated_while_the_runtime_is_away(start_agent, fake_runtime):
    """A runtime that goes away again and again costs a request none of its attempts."""
    released = threading.Event()
    fake_runtime.on("PullImage", behaviours.when(released))
    agent = start_agent(fake_runtime.endpoint)
    preload = Preload(agent, "demo/web:1", backoff_limit=0)
    for number in range(1, 4):
        wait_until(lambda n=number: len(fake_runtime.calls("PullImage")) == n, 5, "pull")
        fake_runtime.front.drop()
        assert fake_runtime.calls("PullImage")[-1].wait_over(60)
    released.set()
    last = preload.wait_end()
    assert (last.phase, last.attempt) == (agent.messages.PHASE_SUCCEEDED, 1)


def test_runtime_hangs(start_agent, new_runtime, registry, image_name):
    """A runtime that is there and answers nothing is reported as not ready everywhere, until it answers."""
    image = registry.push_image(image_name, "1")
    with new_runtime("hangs") as runtime:
        agent = start_agent(runtime.endpoint)
        wait_ready(agent, True)
        runtime.process.send(signal.SIGSTOP)
        try:
            agent.request(image.reference)
            said = wait_ready(agent, False, 30 * sanitizers.SLOWNESS)
            assert "does not answer" in said
            assert "does not answer" in problems(agent)["container runtime"]
            assert agent.metrics().get_value("inplaced_runtime_ready") == 0
            assert not runtimes(agent)[runtime.endpoint]["ready"]
            assert "does not answer" in agent.ctl("status").stdout
            # It is asked on and on, and stays away.
            asked = agent.metrics().total("inplaced_cri_requests_total", method="Version")
            more = lambda: agent.metrics().total("inplaced_cri_requests_total", method="Version")  # noqa: E731
            wait_until(lambda: more() > asked, 10, "question")
            assert readiness(agent)[0] == 503
        finally:
            runtime.process.send(signal.SIGCONT)
        wait_ready(agent, True)
        assert "container runtime" not in problems(agent)
        agent.wait_status(image.reference, "Succeeded", 60)
    assert len([line for line in complaints(agent) if "does not answer" in line]) == 1

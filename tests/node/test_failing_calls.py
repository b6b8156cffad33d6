# SPDX-License-Identifier: Apache-2.0
"""Proves that any allocation and any system call of the agent may fail, one at a time: it reports that and goes on, or ends
with a message; its files stay whole, and nothing is done twice.
"""

from __future__ import annotations

from contextlib import suppress

import grpc
import pytest

from lab import sanitizers
from lab.documents import write_whole
from lab.failing_call import begin, check_end, time_limit
from lab.sandbox import Sandbox
from lab.trouble import complaints, node_stub
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS

pytestmark = pytest.mark.timeout(time_limit(600))

_HEEDS = ["/bin/sh", "-c", "trap 'exit 7' TERM; echo ready; while :; do sleep 1 & wait; done"]


@pytest.fixture
def agent(make_agent, runtime, failing):
    """Not started. The agent does not ask whether there is a kubelet."""
    return make_agent(runtime.endpoint, environment=failing.environment, flags=["--kubelet-health-address="])


def answers(agent) -> bool:
    with node_stub(agent) as node, suppress(grpc.RpcError):
        return bool(node.GetVersion(agent.messages.GetVersionRequest(), timeout=5 * SLOWLY))
    return False


def test_start(agent, push, failing):
    """From the first instruction to the last; the status has what the run before did, or the log says why not."""
    images = [push([], tag=str(n)).reference for n in range(3)]
    agent.request(*images)
    agent.start()
    for image in images:
        agent.wait_status(image, "Succeeded")
    agent.terminate()
    good = agent.status()

    def run():
        write_whole(agent.state_dir / "nodeimage.json", good)
        begin(agent)
        check_end(agent)

    for point in failing.points(run):
        with failing.at(point):
            run()
            assert complaints(agent) or agent.status()["status"] == good["status"]
    agent.start()
    for image in images:
        agent.wait_status(image, "Succeeded")


def test_pull(agent, push, failing):
    """A document, the pull and the status of it: what failed is done again, by the same agent or by the next one."""
    image = push()
    versions = iter(range(1, 1_000_000))
    agent.start()

    def is_pulled(version):
        status = agent.tag_status(image.reference)
        return status and (status["phase"], status["version"]) == ("Succeeded", version)

    def run():
        version = next(versions)
        agent.request(image.reference, policy="Always", version=version)
        wait_until(
            lambda: agent.process.code is not None or failing.has_failed or is_pulled(version), 15 * SLOWLY, "pull"
        )
        return version

    for point in failing.points(run):
        with failing.at(point):
            version = run()
            failing.disarm()
            if agent.process.code is None and not is_pulled(version):
                agent.reload()  # the agent looks at the document again
            wait_until(lambda n=version: agent.process.code is not None or is_pulled(n), 15 * SLOWLY, "pull after it")
            if agent.process.code is not None:
                check_end(agent)
                begin(agent)
            wait_until(lambda n=version: is_pulled(n), 15 * SLOWLY, "pull by the next agent")
    check_end(agent)


@pytest.mark.containers
def test_restart(agent, runtime, push, failing, image_name):
    """A restart that the socket requests stops its container once; the next one of that name is left alone."""
    image = push([], busybox=True, command=_HEEDS)
    begin(agent)
    with Sandbox(runtime, image.reference, image_name.removeprefix("t/").replace("/", "-")) as pod:
        container = pod.run_heeding("app", _HEEDS)
        request = agent.messages.RestartRequest(pod=pod.name, namespace="default")

        def restart():
            """None, or why not."""
            with node_stub(agent) as node:
                try:
                    list(node.Restart(request, timeout=20 * SLOWLY))
                except grpc.RpcError as error:
                    return error
            return None

        def run():
            nonlocal container
            assert pod.state(container) == "RUNNING", "a container was stopped twice"
            error = restart()
            failing.disarm()
            wait_until(lambda: agent.process.code is not None or answers(agent), 10 * SLOWLY, "end or answer")
            if agent.process.code is not None:
                check_end(agent)
                begin(agent)
                agent.wait_runtime()
            if error and pod.state(container) == "RUNNING":
                assert restart() is None
            pod.wait_exited(container)
            container = pod.run_heeding("app", _HEEDS)

        for point in failing.points(run):
            with failing.at(point):
                run()
    check_end(agent)

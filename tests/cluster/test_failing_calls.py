# SPDX-License-Identifier: Apache-2.0
"""Proves that in a cluster, too, any allocation and any system call of the agent may fail, one at a time: it reports that
and goes on, or ends with a message; and no container is restarted twice.
"""

from __future__ import annotations

import itertools

import pytest

from lab import sanitizers
from lab.failing_call import begin, check_end, time_limit
from lab.pod import container, from_annotations
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS
PATIENCE = 60 * SLOWLY  # a request that libcurl breaks without memory ends after 30 s

pytestmark = [pytest.mark.slow, pytest.mark.timeout(time_limit(900))]


def test_watch_event(start_agent, runtime, kubeconfig, node_name, node_image, push, failing):
    """A NodeImage that has changed is served, by the same agent or by the next one."""
    agent = start_agent(runtime.endpoint, kubeconfig=kubeconfig, node_name=node_name, environment=failing.environment)
    image = push()
    versions = itertools.count(1)

    def is_pulled(version):
        status = node_image.tag_status(image.reference)
        return status and (status["phase"], status.get("version")) == ("Succeeded", version)

    def run():
        version = next(versions)
        node_image.request(image.reference, policy="Always", version=version)
        wait_until(
            lambda: agent.process.code is not None or failing.has_failed or is_pulled(version), PATIENCE, "pull"
        )
        return version

    for point in failing.points(run):
        with failing.at(point):
            version = run()
            failing.disarm()
            wait_until(lambda n=version: agent.process.code is not None or is_pulled(n), PATIENCE, "pull after it")
            if agent.process.code is not None:
                check_end(agent)
                begin(agent)
            wait_until(lambda n=version: is_pulled(n), PATIENCE, "pull by the next agent")
    check_end(agent)


@pytest.mark.containers
def test_restart(start_node_agent, make_pod, tools, failing):
    """A container whose metadata has changed is restarted once, and its annotation says so."""
    agent = start_node_agent(environment=failing.environment)
    pod = make_pod(container("main", tools, env=from_annotations(ROUND="round")))
    rounds = itertools.count(1)

    def is_done(n):
        return pod.restarts() == {"main": n} and pod.has_meta()

    def run():
        n = next(rounds)
        assert pod.restarts() == {"main": n - 1}
        pod.begin_update(annotations={"round": str(n)})
        wait_until(
            lambda: agent.process.code is not None or failing.has_failed or is_done(n), 30 * SLOWLY, "restart"
        )
        failing.disarm()
        wait_until(lambda: agent.process.code is not None or is_done(n), 30 * SLOWLY, "restart after it")
        if agent.process.code is not None:
            check_end(agent)
            begin(agent)
        pod.wait_restarted("main", n, 30 * SLOWLY)
        assert pod.environment("main")["ROUND"] == str(n)
        pod.wait_meta()

    pod.wait_meta()
    for point in failing.points(run):
        with failing.at(point):
            run()
    run()
    check_end(agent)

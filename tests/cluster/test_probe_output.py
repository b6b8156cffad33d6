# SPDX-License-Identifier: Apache-2.0
"""Proves that pods harm neither the agent nor each other by what their probes and hooks answer."""

from __future__ import annotations

import pytest

from lab import memory_limit, sanitizers
from lab.latency import Latency
from lab.node_pod_probe import probe, probes_of
from lab.pod import container, from_annotations, shell

SLOWLY = sanitizers.SLOWNESS

pytestmark = [pytest.mark.containers, pytest.mark.timeout(120 * SLOWLY)]

# Serves the pod's volume on port 8080, and ends on SIGTERM.
_SERVES = shell("httpd -p 8080 -h /data; trap exit TERM; while :; do sleep 3600 & wait; done")


@pytest.mark.parametrize(("byte", "shown"), [(b"\x01", "?"), (b"<", "<")], ids=["control", "html"])
def test_messages_that_grow_in_json(node_agent, requested, make_pod, tools, byte, shown):
    hostile = make_pod(container("main", tools, command=_SERVES), owner=False)
    good = make_pod(container("main", tools, command=_SERVES), owner=False)
    hostile.file("page").write_bytes(byte * 1024)
    ask = {"port": 8080, "path": "/page"}
    requested.request(
        probes_of(hostile, *(probe(f"m#{i}", httpGet=ask, periodSeconds=5) for i in range(450))),
        probes_of(good, probe("m#good", httpGet={"port": 8080, "path": "/good"})),
    )
    for i in (0, 449):
        message = requested.wait_state(hostile, f"m#{i}", "Succeeded", shown)["message"]
        assert set(message) == {shown}
    # Whatever the status has by now: the next result of another pod reaches it, too.
    good.file("good").write_text("fine")
    requested.wait_state(good, "m#good", "Succeeded", "fine")
    assert set(hostile.wait_event("KruiseProbeSucceeded")["message"].partition(": ")[2]) == {shown}


LIMIT = 128 << 20  # memory limit of the pods that packaging/kubernetes/base/daemon-set.yaml makes
BUDGET = 8 << 10  # KiB that answers of pods may cost in all


def check(latency: Latency, before: int) -> None:
    latency.check()
    if not sanitizers.NAME:
        assert latency.most_memory - before < BUDGET, (before, latency.most_memory)


@pytest.fixture
def limited_agent(node_agent):
    """In a control group with little memory."""
    if sanitizers.NAME or not memory_limit.is_possible():
        yield node_agent
        return
    with memory_limit.MemoryLimit(node_agent.process.pid, LIMIT):
        yield node_agent


def test_probes_that_print_megabytes(limited_agent, requested, node, make_pod, tools):
    hostile = make_pod(container("main", tools), owner=False)
    good = make_pod(container("main", tools), owner=False)
    hostile.file("flood").write_bytes(b"x" * 15_000_000)
    hostile.file("complaint").write_bytes(b"y" * 15_000_000)
    flood = {"command": ["cat", "/data/flood"]}
    fails = {"command": shell("cat /data/complaint >&2; exit 3")}
    requested.request(probes_of(good, probe("m#good", exec={"command": ["echo", "fine"]})))
    requested.wait_state(good, "m#good", "Succeeded", "fine")
    before = limited_agent.memory().anonymous
    with Latency(limited_agent, node.runtime.cri) as latency:
        requested.request(
            probes_of(
                hostile,
                *(probe(f"m#{i}", exec=flood, timeoutSeconds=20 * SLOWLY) for i in range(36)),
                *(probe(f"m#{i}", exec=fails, timeoutSeconds=20 * SLOWLY) for i in range(36, 40)),
            ),
            probes_of(good, probe("m#good", exec={"command": ["cat", "/data/good"]})),
        )
        for i in (0, 35):
            found = requested.wait_state(hostile, f"m#{i}", "Succeeded", "x", timeout=60)
            assert found["message"] == "x" * 1024
        found = requested.wait_state(hostile, "m#39", "Failed", "y", timeout=60)
        assert found["message"] == "y" * 1024
        # Meanwhile others have their turns.
        good.file("good").write_text("as well")
        requested.wait_state(good, "m#good", "Succeeded", "as well")
    check(latency, before)


def test_hooks_that_print_megabytes(limited_agent, node, make_pod, tools):
    hook = {"preStop": {"exec": {"command": shell("cat /data/flood; echo >>/data/hooks-$NAME")}}}
    names = [f"c{i}" for i in range(32)]
    hostile = make_pod(
        *(
            container(
                name,
                tools,
                lifecycle=hook,
                env=[{"name": "NAME", "value": name}, *from_annotations(V="v")],
            )
            for name in names
        ),
        terminationGracePeriodSeconds=60 * SLOWLY,  # else the hooks of a slow agent end before they are done
    )
    good = make_pod(container("main", tools, env=from_annotations(V="v")))
    hostile.file("flood").write_bytes(b"x" * 15_000_000)
    hostile.wait_meta(30 * SLOWLY)
    good.wait_meta(10 * SLOWLY)
    before = limited_agent.memory().anonymous
    with Latency(limited_agent, node.runtime.cri) as latency:
        hostile.begin_update(annotations={"v": "1"})
        good.begin_update(annotations={"v": "1"})
        good.wait_restarted("main", timeout=30 * SLOWLY)
        for name in names:
            hostile.wait_restarted(name, timeout=90 * SLOWLY)
    check(latency, before)
    assert [len(hostile.lines(f"hooks-{name}")) for name in names] == [1 + hostile.n_late(name) for name in names]
    assert hostile.events("FailedPreStopHook") == []

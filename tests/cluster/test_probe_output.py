# SPDX-License-Identifier: Apache-2.0
"""Proves that pods harm neither the agent nor each other by what their probes and hooks answer."""

from __future__ import annotations

import pytest

from lab import sanitizers
from lab.node_pod_probe import NodePodProbe, probe, probes_of
from lab.pod import container, shell

SLOWLY = sanitizers.SLOWNESS

pytestmark = [pytest.mark.containers, pytest.mark.timeout(120 * SLOWLY)]

# Serves the pod's volume on port 8080, and ends on SIGTERM.
_SERVES = shell("httpd -p 8080 -h /data; trap exit TERM; while :; do sleep 3600 & wait; done")


@pytest.fixture
def requested(kube, node):
    made = NodePodProbe(kube, node.name)
    yield made
    made.delete()


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

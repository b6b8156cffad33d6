# SPDX-License-Identifier: Apache-2.0
"""Proves that the agent recovers when the cluster's store is restored from a backup.

The agent then knows a version that the store does not have: a watch from that version is silent,
and the server refuses a write to it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab import sanitizers
from lab.agent import Agent
from lab.control_plane import ControlPlane
from lab.node_image import NodeImage
from lab.trouble import assert_clear, complaints, problems
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS

pytestmark = pytest.mark.timeout(180 * SLOWLY)

# How far the versions of the lost future are ahead of what is written after the restore.
_FUTURE = 400


@pytest.fixture
def restorable(folder) -> Iterator[ControlPlane]:
    with ControlPlane(folder / "restorable") as made:
        made.install()
        yield made


@pytest.fixture
def desired(restorable, node_name) -> NodeImage:
    made = NodeImage(restorable.admin, node_name)
    made.create()
    return made


@pytest.fixture
def member(start_agent, runtime, restorable, folder, node_name, desired) -> Agent:
    path = restorable.write_agent_kubeconfig(folder / "member.conf")
    agent = start_agent(runtime.endpoint, kubeconfig=path, node_name=node_name)
    wait_until(desired.status, 10 * SLOWLY, "status")
    return agent


def raise_version(desired: NodeImage, *references: str) -> None:
    """Raises the object's version far, and waits until the agent has seen it."""
    for number in range(_FUTURE):
        desired.kube.patch(desired.path, {"metadata": {"labels": {"number": str(number)}}})
    desired.request(*references)
    desired.wait_status(references[-1], "Succeeded", 20 * SLOWLY)


@pytest.mark.parametrize("server", ["goes on", "starts again"])
def test_status_after_a_restore(member, restorable, desired, gate, push, server):
    """The agent reports the images of the restored spec, though the version that it knows is gone,
    and a server that was not started again still lists it."""
    desired.request(gate.reference)
    desired.wait_status(gate.reference, "Pulling", 20 * SLOWLY)
    restorable.save()
    raise_version(desired, gate.reference, push().reference)
    restorable.restore(restart_server=server == "starts again")
    gate.open()
    desired.wait_status(gate.reference, "Succeeded", 60 * SLOWLY)
    wait_until(lambda: problems(member) == {}, 20 * SLOWLY, lambda: f"end of {problems(member)}")
    for line in complaints(member):
        assert_clear(line)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_change_after_a_restore(member, restorable, desired, push):
    """The agent detects that a watch from a lost version is silent."""
    first, later = push(tag="1"), push(tag="2")
    restorable.save()
    raise_version(desired, first.reference)
    restorable.restore(restart_server=True)
    wait_until(lambda: problems(member) == {}, 60 * SLOWLY, lambda: f"end of {problems(member)}")
    desired.request(later.reference)
    desired.wait_status(later.reference, "Succeeded", 400)

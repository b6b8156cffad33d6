# SPDX-License-Identifier: Apache-2.0
"""Proves what `kubectl inplace` shows of a real cluster, and how it finds it."""

from __future__ import annotations

import pytest

from lab.pod import VERIFIED, container


@pytest.mark.containers
def test_status(inplace, node_agent, make_pod, tools):
    pod = make_pod(container("main", tools), labels={"app": "fleet-status"})
    pod.wait_condition(VERIFIED, "True")
    ran = inplace.run("status", "-l", "app=fleet-status")
    assert ran.code == 0, ran.stderr
    heading, row = ran.stdout.splitlines()
    assert heading.split()[0] == "POD"
    assert row.split()[0] == pod.name
    assert "Verified" in row


def test_no_server(inplace, folder):
    path = folder / "none.conf"
    ran = inplace.run("status", KUBECONFIG=path)
    assert ran.code == 1
    assert str(path) in ran.stderr
    assert ran.stdout == ""

# SPDX-License-Identifier: Apache-2.0
"""Proves that the lab sees what an agent does, and that it judges one that does not end well."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from lab.agent import Agent
from lab.documents import split_reference
from lab.metrics import parse_metrics
from lab.wait import wait_until

TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture
def stand_in(folder, tmp_path_factory):
    """Makes agents that are tests/fake/agent.py."""
    build_dir = folder / "build"
    (build_dir / "agent").mkdir(parents=True)
    (build_dir / "agent" / "inplaced").symlink_to(TESTS / "fake" / "agent.py")

    def make(behaviour: str = "") -> Agent:
        environment = {"FAKE_AGENT": behaviour}
        endpoint = "unix:///nowhere"
        return Agent(folder / "agent", endpoint, build_dir=build_dir, environment=environment)

    return make


def test_agent_is_observed(stand_in):
    agent = stand_in()
    agent.request("demo/web:1")
    with agent:
        assert agent.wait_status("demo/web:1", "Succeeded", 5)["tag"] == "1"
        assert agent.logs() == [{"message": "ready"}]
        assert agent.descriptors() >= 3
        assert 0 < agent.memory().anonymous <= agent.memory().rss
        agent.reload()
        reloading = agent.notify.wait_for("RELOADING", 5)
        agent.notify.wait_for("READY", 5, since=reloading.at)
    stopping = [notice.name for notice in agent.notify.notices()][-1]
    assert stopping == "STOPPING"


@pytest.mark.parametrize(
    ("behaviour", "text"),
    [
        ("fail", "exited with 3"),
        ("linger", "to end, more than"),
        ("sanitizer", "heap-use-after-free"),
    ],
)
def test_agent_is_judged(stand_in, monkeypatch, behaviour, text):
    monkeypatch.setattr("lab.agent.stretch", lambda seconds: seconds)
    agent = stand_in(behaviour)
    agent.start()
    with pytest.raises(AssertionError, match=text):
        agent.close()
    assert not agent.folder.exists()


def test_agent_that_does_not_start(stand_in):
    agent = stand_in("die")
    with pytest.raises(RuntimeError, match="no such runtime"):
        agent.start()
    agent.close(check=False)


def test_agent_that_dies(stand_in):
    agent = stand_in()
    agent.start()
    os.kill(agent.process.pid, signal.SIGKILL)
    wait_until(lambda: agent.process.code is not None, 5, "end")
    with pytest.raises(AssertionError, match="ended by itself with -9"):
        agent.close()


def test_references():
    digest = "sha256:" + "0" * 64
    assert split_reference("127.0.0.1:5000/a/b:1") == ("127.0.0.1:5000/a/b", "1")
    assert split_reference("127.0.0.1:5000/a/b") == ("127.0.0.1:5000/a/b", "latest")
    assert split_reference(f"busybox@{digest}") == ("busybox", digest)


def test_metrics():
    metrics = parse_metrics('# HELP x\nx_total{a="1",b="q\\"\\n"} 3\nx_total{a="2"} 4\ny 1.5e3\n')
    assert metrics.get_value("x_total", a="1") == 3
    assert metrics.total("x_total") == 7
    assert metrics.get_value("y") == 1500
    with pytest.raises(KeyError):
        metrics.get_value("x_total")
    with pytest.raises(ValueError):
        parse_metrics("x{a=1} 2")

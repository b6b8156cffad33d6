# SPDX-License-Identifier: Apache-2.0
"""Proves `kubectl inplace restart` on a real node: in batches, and what it says when it cannot."""

from __future__ import annotations

import json
import re
import signal
import threading
from pathlib import Path

import pytest

from fake import api_faults
from lab.pod import container
from lab.wait import wait_until

pytestmark = pytest.mark.containers

_REQUESTS = "/apis/apps.kruise.io/v1beta1/namespaces/default/containerrecreaterequests"


@pytest.fixture(autouse=True)
def clean(kube):
    """No request is left, nor is one of before there."""
    yield
    kube.delete(_REQUESTS)


@pytest.fixture
def web(node_agent, make_pod, tools):
    """Two pods of two containers each."""
    return [
        make_pod(
            container("main", tools), container("side", tools), labels={"app": "kubectl-restart"}
        )
        for _ in range(2)
    ]


def test_one_container(inplace, web):
    pod = web[0]
    ran = inplace.run("restart", f"{pod.name}/main")
    assert ran.code == 0, ran.stderr
    assert ran.stdout == f"pod/{pod.name} restarted\n"
    assert pod.restarts() == {"main": 1, "side": 0}
    assert web[1].restarts() == {"main": 0, "side": 0}


def test_selector_in_batches(inplace, web, kube):
    """One pod after the other: the second request is made after the first has ended."""
    version = kube.get(_REQUESTS)["metadata"]["resourceVersion"]
    ran = inplace.run("restart", "-l", "app=kubectl-restart", "--containers=side", "-o", "json")
    assert ran.code == 0, ran.stderr
    items = json.loads(ran.stdout)["items"]
    assert {item["pod"] for item in items} == {pod.name for pod in web}
    assert [item["phase"] for item in items] == ["Succeeded", "Succeeded"]
    assert [pod.restarts() for pod in web] == 2 * [{"main": 0, "side": 1}]
    events = []
    for event in kube.watch(_REQUESTS, 60, resourceVersion=version):
        name, is_over = event["object"]["metadata"]["name"], _is_over(event["object"])
        if (name, is_over) not in events:
            events.append((name, is_over))
        if len(events) == 4:
            break
    first, second = (item["request"] for item in items)
    assert events == [(first, False), (first, True), (second, False), (second, True)]


def _is_over(request: dict) -> bool:
    return "completionTime" in request.get("status", {})


def test_same_pod_twice(inplace, web):
    """Several arguments for one pod are one request."""
    name = web[0].name
    ran = inplace.run("restart", f"{name}/main", f"pod/{name}/side", f"{name}/main", "-o", "name")
    assert ran.code == 0, ran.stderr
    assert ran.stdout == f"pod/{name}\n"
    assert web[0].restarts() == {"main": 1, "side": 1}


def test_dry_run(inplace, web, kube):
    ran = inplace.run("restart", web[0].name, "--dry-run=server")
    assert (ran.code, ran.stdout) == (0, f"pod/{web[0].name} restarted (server dry run)\n")
    assert kube.list(_REQUESTS) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("no-such-pod",), "no-such-pod: there is no such pod that runs in namespace default"),
        (("{pod}/none",), 'has no container "none"'),
        (("{pod}", "no-such-pod"), "no-such-pod: there is no such pod"),
        (("{pod}", "--max-unavailable=many"), '--max-unavailable: "many"'),
        (("a/b/c/d",), "expected POD"),
    ],
)
def test_refused_before_anything(inplace, web, kube, arguments, words):
    ran = inplace.run("restart", *(text.format(pod=web[0].name) for text in arguments))
    assert ran.code == 1
    assert words in ran.stderr
    assert kube.list(_REQUESTS) == []


def test_failure_stops(inplace, web, kube, node_agent):
    """A pod whose containers are not started again ends it, and the rest is left alone."""
    node_agent.terminate()
    with inplace.start("restart", "-l", "app=kubectl-restart") as child:
        (request,) = wait_until(lambda: kube.list(_REQUESTS), 30, "request")
        state = {"name": "main", "phase": "Failed", "message": "it cannot be stopped"}
        status = {"phase": "Completed", "containerRecreateStates": [state]}
        kube.patch(f"{_REQUESTS}/{request['metadata']['name']}/status", {"status": status})
        output, errors = child.communicate(timeout=60)
    assert child.returncode == 1
    assert output == ""
    assert "was not restarted: container main: it cannot be stopped" in errors
    assert "1 of 2 pods were left alone" in errors
    assert len(kube.list(_REQUESTS)) == 1


def test_interrupted(inplace, web, kube, node_agent):
    """Ctrl-C leaves the request that runs, and says how to follow it."""
    node_agent.terminate()
    with inplace.start("restart", "-l", "app=kubectl-restart") as child:
        wait_until(lambda: kube.list(_REQUESTS), 30, "request")
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=60)
    assert child.returncode == 128 + signal.SIGINT
    assert "what has begun goes on" in errors
    assert "1 of 2 pods were left alone" in errors
    (request,) = kube.list(_REQUESTS)
    run = request["metadata"]["labels"]["inplaced.io/restart"]
    assert f"-l inplaced.io/restart={run}" in errors


def test_interrupted_while_it_writes(behind, web, kube, node_agent):
    """A request that the server has taken, but not confirmed yet, counts as begun."""
    api, inplace = behind
    node_agent.terminate()
    confirmed = threading.Event()
    api.on("^POST .*containerrecreaterequests", api_faults.answer_when(confirmed))
    with inplace.start("restart", "-l", "app=kubectl-restart") as child:
        wait_until(lambda: kube.list(_REQUESTS), 30, "request")
        child.send_signal(signal.SIGINT)
        wait_until(lambda: not _has_signals(child.pid), 30, "end of the signal's way")
        confirmed.set()
        _, errors = child.communicate(timeout=60)
    assert child.returncode == 128 + signal.SIGINT
    assert "what has begun goes on" in errors
    assert "1 of 2 pods were left alone" in errors


def _has_signals(pid: int) -> bool:
    """Some wait to be read by the process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"^ShdPnd:\s*(\w+)", status, re.MULTILINE)[1], 16) != 0


def test_timeout(inplace, web, kube, node_agent):
    node_agent.terminate()
    ran = inplace.run("restart", web[0].name, "--timeout=2s")
    assert ran.code == 124
    assert "timed out" in ran.stderr
    assert len(kube.list(_REQUESTS)) == 1

# SPDX-License-Identifier: Apache-2.0
"""inplacectl restart and verify: their requests, their output, and their exit status.

The agent is a fake, so that it says all that an agent can say.
"""

from __future__ import annotations

import json
import signal
import threading
import time

import grpc
import pytest
import yaml

from fake.node import FakeNode
from lab.wait import stretch

_LOAD = {"json": json.loads, "yaml": yaml.safe_load}
_NEW = "0123456789ab" + "c" * 52


@pytest.fixture
def ctl(make_agent, fake_runtime):
    """Only its inplacectl is used; the agent itself is not started."""
    return make_agent(fake_runtime.endpoint)


@pytest.fixture
def node(ctl):
    with FakeNode(ctl.socket) as made:
        yield made


def _report(node, *events):
    node.restart = lambda request, context: iter(events)


def _restarted(node):
    return [
        node.event("WAITING"),
        node.event("WAITING", message="the kubelet is away"),
        node.event("STOPPING"),
        node.event("STOPPED"),
        node.event("RUNNING", final=True, new_container_id=_NEW),
    ]


def test_restart_asks_for_what_was_said(ctl, node):
    """Names, options and the presence of a grace period arrive as they were written."""
    _report(node, node.event("STOPPED", final=True))
    assert ctl.ctl("restart", "web").returncode == 0
    arguments = ["-n", "team", "--wait", "--grace", "0", "--reason", "new secret", "--timeout=9"]
    _report(node, node.event("RUNNING", final=True))
    assert ctl.ctl("restart", "web/app", *arguments).returncode == 0
    plain, full = node.requests
    assert (plain.namespace, plain.pod, plain.container, plain.reason) == ("", "web", "", "")
    assert not plain.HasField("grace_seconds") and not plain.wait
    assert (plain.wait_seconds, full.wait_seconds) == (0, 9)
    assert (full.namespace, full.pod, full.container) == ("team", "web", "app")
    assert full.HasField("grace_seconds") and full.grace_seconds == 0
    assert (full.reason, full.wait) == ("new secret", True)


def test_restart_prints_a_line_per_news(ctl, node):
    """A line for each news, and none while there is nothing to say."""
    _report(node, *_restarted(node))
    ran = ctl.ctl("restart", "--wait", "web")
    assert (ran.returncode, ran.stderr) == (0, "")
    waiting, stopping, stopped, running = ran.stdout.splitlines()
    assert waiting == "default/web/app  waiting: the kubelet is away"
    assert stopping == "default/web/app  stopping"
    assert stopped.startswith("default/web/app  stopped (") and stopped.endswith(" ms)")
    assert running == "default/web/app  running again as 0123456789ab"
    wide = ctl.ctl("restart", "--wait", "-o", "wide", "web")
    assert wide.stdout.splitlines()[-1].endswith(_NEW)


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_restart_for_programs(ctl, node, form):
    """-o json and -o yaml print one document, at the end."""
    _report(node, *_restarted(node), node.event("FAILED", "db", final=True, message="it is stuck"))
    ran = ctl.ctl("restart", "-o", form, "--wait", "web")
    assert ran.returncode == 3
    app, db = _LOAD[form](ran.stdout)["containers"]
    assert app == {
        "namespace": "default",
        "pod": "web",
        "container": "app",
        "phase": "Running",
        "oldContainerID": "a" * 64,
        "newContainerID": _NEW,
        "message": "",
    }
    assert (db["container"], db["phase"], db["message"]) == ("db", "Failed", "it is stuck")


@pytest.mark.parametrize(
    ("arguments", "events", "status", "said"),
    [
        ([], [("STOPPED", "a")], 0, ""),
        ([], [("STOPPED", "a"), ("STOPPED", "b")], 0, ""),
        (["--wait"], [("RUNNING", "a")], 0, ""),
        (["--wait"], [("STOPPED", "a")], 3, "not started again"),
        ([], [("FAILED", "a")], 1, "container a: it failed"),
        ([], [("FAILED", "a"), ("FAILED", "b")], 1, "2 of 2 containers failed"),
        ([], [("STOPPED", "a"), ("FAILED", "b")], 3, "container b: it failed"),
        ([], [], 1, "ended the request early"),
    ],
)
def test_exit_status_of_restart(ctl, node, arguments, events, status, said):
    """0 if all is done, 1 if nothing, 3 if a part; the reason is one line on standard error."""
    _report(node, *[node.event(p, c, final=True, message="it failed") for p, c in events])
    ran = ctl.ctl("restart", *arguments, "web")
    assert ran.returncode == status
    assert said in ran.stderr
    assert len(ran.stderr.splitlines()) == (1 if status else 0)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (grpc.StatusCode.NOT_FOUND, 1),
        (grpc.StatusCode.UNAVAILABLE, 1),
        (grpc.StatusCode.INVALID_ARGUMENT, 2),
    ],
)
def test_restart_is_refused(ctl, node, code, status):
    """A refusal of the agent is reported in its own words."""
    node.restart = lambda request, context: context.abort(code, "so it is")
    ran = ctl.ctl("restart", "web")
    assert (ran.returncode, ran.stdout) == (status, "")
    assert len(ran.stderr.splitlines()) == 1 and "so it is" in ran.stderr


def _hold(node):
    """The first news, and then nothing until the caller has gone."""
    gone = threading.Event()

    def restart(request, context):
        context.add_callback(gone.set)
        yield node.event("STOPPING")
        gone.wait(30)

    node.restart = restart
    return gone


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_restart_is_interrupted(ctl, node, number):
    """Ctrl-C and SIGTERM end the call, which drops stops that have not begun."""
    gone = _hold(node)
    with ctl.start_ctl("restart", "web") as child:
        assert child.stdout.readline() == "default/web/app  stopping\n"
        child.send_signal(number)
        _, errors = child.communicate(timeout=60)
    assert child.returncode == 128 + number
    assert errors == "inplacectl: interrupted; restarts in progress continue, the others are canceled\n"
    assert gone.wait(60)


def test_restart_takes_too_long(ctl, node):
    """--timeout bounds the wait, and says so."""
    gone = _hold(node)
    began = time.monotonic()
    ran = ctl.ctl("restart", "--timeout", "1s", "web")
    assert 1 <= time.monotonic() - began < stretch(5)
    assert ran.returncode == 124 and "not done within the 1s of --timeout" in ran.stderr
    assert gone.wait(60)


def test_agent_stops_before_it_gets_the_request(ctl, node):
    """The words of gRPC for it are not shown."""

    def end(request, context):
        context.abort(grpc.StatusCode.UNAVAILABLE, "Cancelling all calls")

    node.restart = end
    ran = ctl.ctl("restart", "web")
    assert ran.returncode == 1
    assert "closed the connection without an answer" in ran.stderr and "Cancelling" not in ran.stderr


def test_agent_goes_away_during_a_restart(ctl, node):
    """An agent that goes away meanwhile is not asked again: that could stop something twice."""
    _hold(node)
    with ctl.start_ctl("restart", "web") as child:
        child.stdout.readline()
        node.vanish()
        _, errors = child.communicate(timeout=60)
    assert child.returncode == 1
    assert len(errors.splitlines()) == 1 and "lost the connection to inplaced" in errors
    assert len(node.requests) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["restart"],
        ["restart", "a", "b"],
        ["restart", ""],
        ["restart", "/app"],
        ["restart", "web/"],
        ["restart", "a/b/c"],
        ["restart", "web", "--grace", "soon"],
        ["restart", "web", "--quiet"],
        ["verify", "a", "b"],
        ["verify", "a/b"],
        ["verify", "--wait"],
        ["status", "-n", "team"],
        ["pull", "x:1", "--wait"],
    ],
)
def test_wrong_usage(ctl, node, arguments):
    """Wrong usage is exit status 2, with the reason in one line, and no agent is asked."""
    ran = ctl.ctl(*arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert len(ran.stderr.splitlines()) == 1 and ran.stderr.startswith("inplacectl: ")
    assert not node.requests


def test_what_others_say_is_made_safe(ctl, node):
    """Control characters in the agent's messages reach no terminal."""
    _report(node, node.event("FAILED", final=True, message="\x1b[2Jboo\nboo"))
    ran = ctl.ctl("restart", "web")
    assert "\x1b" not in ran.stdout + ran.stderr
    assert len(ran.stdout.splitlines()) == len(ran.stderr.splitlines()) == 1


def _verified(node, container, verdict, **more):
    return node.messages.VerifiedContainer(
        namespace="default",
        pod="web",
        container=container,
        reference="registry.example/web:1",
        reference_id="sha256:" + "1" * 64,
        running_id="sha256:" + "2" * 64,
        verdict=node.messages.Verdict.Value(f"VERDICT_{verdict}"),
        **more,
    )


@pytest.mark.parametrize(
    ("rows", "status", "said"),
    [
        ([("CURRENT", "")], 0, ""),
        ([("CURRENT", "Current")], 0, ""),
        ([("CURRENT", "Stale")], 3, "1 of 1 containers are stale"),
        ([("CURRENT", ""), ("STALE", "")], 3, "1 of 2 containers are stale"),
        ([("CURRENT", ""), ("UNKNOWN", "")], 1, "the state of 1 of 2 containers"),
        ([("CURRENT", ""), ("CURRENT", "Unknown")], 1, "the state of 1 of 2 containers"),
    ],
)
def test_exit_status_of_verify(ctl, node, rows, status, said):
    """The exit status is 3 if an image or an environment is stale; 1 if some are unknown."""
    node.verified = [
        _verified(node, f"c{n}", verdict, environment=environment)
        for n, (verdict, environment) in enumerate(rows)
    ]
    ran = ctl.ctl("verify")
    assert ran.returncode == status
    assert said in ran.stderr and len(ran.stderr.splitlines()) == (1 if said else 0)
    head, *lines = ran.stdout.splitlines()
    assert ("ENVIRONMENT" in head) == any(environment for _, environment in rows)
    assert len(lines) == len(rows)


def test_verify_prints_what_was_compared(ctl, node):
    """The table has both IDs; -o wide has them whole, and the reason."""
    node.verified = [_verified(node, "app", "STALE", message="it was moved")]
    table, wide = ctl.ctl("verify", "web", "-n", "default"), ctl.ctl("verify", "-o", "wide")
    head, row = table.stdout.splitlines()
    assert head.split("  ")[0] == "NAMESPACE" and "NODE ID" in head and "RUNNING ID" in head
    assert row.split() == [
        *("default", "web", "app", "registry.example/web:1"),
        *("1" * 12, "2" * 12, "Stale"),
    ]
    assert "sha256:" + "1" * 64 in wide.stdout and "it was moved" in wide.stdout
    assert [(r.pod, r.namespace) for r in node.requests] == [("web", "default"), ("", "")]
    for form, load in _LOAD.items():
        (found,) = load(ctl.ctl("verify", "-o", form).stdout)["containers"]
        assert found["nodeImageID"] == "sha256:" + "1" * 64
        assert found["runningImageID"] == "sha256:" + "2" * 64
        assert (found["verdict"], found["message"]) == ("Stale", "it was moved")


def test_verify_finds_nothing(ctl, node):
    """A node without pods is fine; a pod that was named has to be there."""
    nothing = ctl.ctl("verify")
    assert (nothing.returncode, nothing.stderr) == (0, "")
    assert nothing.stdout == "No containers of pods run on this node.\n"
    assert json.loads(ctl.ctl("verify", "-o", "json").stdout) == {"containers": []}
    elsewhere = ctl.ctl("verify", "-n", "team")
    assert (elsewhere.returncode, elsewhere.stdout) == (0, "No containers of pods in namespace team run on this node.\n")
    named = ctl.ctl("verify", "web", "-n", "team")
    assert (named.returncode, named.stdout) == (1, "")
    assert named.stderr == "inplacectl: no container of pod web in namespace team runs on this node\n"


@pytest.mark.parametrize("command", [["restart", "web"], ["verify"]])
def test_agent_is_not_there(ctl, command):
    """Without an agent each command reports that in one line, with the remedy; exit status 1."""
    ran = ctl.ctl(*command)
    assert ran.returncode == 1
    assert len(ran.stderr.splitlines()) == 1
    assert str(ctl.socket) in ran.stderr and "systemctl" in ran.stderr

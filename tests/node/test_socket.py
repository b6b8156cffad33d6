# SPDX-License-Identifier: Apache-2.0
"""The socket of the local API: who may use it, and how it comes to be there."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys

import pytest

from fake import behaviours
from lab.user import DAEMON, NOBODY, node_stub_of
from lab.wait import wait_until


# Sends the first bytes of every gRPC client and prints whether the server answers.
_CALLER = """
import socket, sys
caller = socket.socket(socket.AF_UNIX)
caller.settimeout(10)
caller.connect(sys.argv[1])
try:
    caller.sendall(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + b"\\0\\0\\0\\4\\0\\0\\0\\0\\0")
    said = caller.recv(9)
except ConnectionError:
    said = b""
print("served" if said else "closed")
"""

# As systemd does it: makes the socket, hands it over as descriptor 3 and becomes the agent.
_ACTIVATOR = """
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen(64)
os.dup2(listener.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
"""


def call_as(agent, user: int, *groups: int) -> str:
    """Calls with that user, primary group and further groups; returns the outcome."""
    more = [f"--groups={','.join(map(str, groups[1:]))}"] if groups[1:] else ["--clear-groups"]
    argv = ["setpriv", f"--reuid={user}", f"--regid={groups[0]}", *more]
    argv += ["/usr/bin/python3", "-c", _CALLER, str(agent.socket)]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=20, cwd="/", check=False)
    return ran.stdout.strip() or ran.stderr.splitlines()[-1]


@pytest.fixture
def open_folder(folder):
    """Opens the folder to all users, so that only the socket itself guards it."""
    os.chmod(folder.path, 0o711)
    return folder


def test_mode(agent):
    """Only the socket's owner and group can connect, from the first instant."""
    status = agent.socket.stat()
    assert stat.S_IMODE(status.st_mode) == 0o660
    assert (status.st_uid, status.st_gid) == (os.getuid(), os.getgid())


@pytest.mark.parametrize("group", ["daemon", str(DAEMON)])
def test_group(start_agent, fake_runtime, open_folder, group):
    """--socket-group, a name or a number, lets in only its members."""
    agent = start_agent(fake_runtime.endpoint, flags=[f"--socket-group={group}"])
    assert stat.S_IMODE(agent.socket.stat().st_mode) == 0o660
    assert agent.socket.stat().st_gid == DAEMON
    assert call_as(agent, NOBODY, DAEMON) == "served"
    assert call_as(agent, NOBODY, NOBODY, DAEMON) == "served"
    assert "Permission denied" in call_as(agent, NOBODY, NOBODY)


def test_default_group(make_agent, fake_runtime, open_folder):
    """Without a word about it, the group of the package's name, if this node has it."""
    groups = open_folder.path / "group"
    groups.write_text(f"root:x:0:\ninplaced:x:{DAEMON}:\n")
    agent = make_agent(fake_runtime.endpoint)
    bind = f"mount --bind {groups} /etc/group"
    agent.argv = ["unshare", "--mount", "sh", "-c", f'{bind} && exec "$@"', "sh", *agent.argv]
    agent.start()
    assert agent.socket.stat().st_gid == DAEMON


def test_peer_is_checked(start_agent, fake_runtime, open_folder):
    """Even if the socket is open to all users, only root may call."""
    agent = start_agent(fake_runtime.endpoint)
    os.chmod(agent.socket, 0o666)
    assert call_as(agent, 0, 0) == "served"
    assert call_as(agent, NOBODY, NOBODY) == "closed"
    name = "inplaced_local_api_refused_connections_total"
    assert agent.metrics().get_value(name, reason="denied") == 1


def test_stale_socket_is_replaced(make_agent, fake_runtime):
    """A socket that kill -9 left behind is no obstacle."""
    agent = make_agent(fake_runtime.endpoint)
    agent.start()
    agent.kill9()
    assert agent.socket.exists()
    agent.start()
    assert agent.node.GetVersion(agent.messages.GetVersionRequest()).version


def test_socket_goes_with_the_agent(start_agent, fake_runtime):
    """An agent that ends takes its socket with it."""
    agent = start_agent(fake_runtime.endpoint)
    assert agent.terminate().code == 0
    assert not agent.socket.exists()


def test_socket_activation(make_agent, fake_runtime):
    """A socket that systemd hands over is served, and left in place at the end."""
    agent = make_agent(fake_runtime.endpoint)
    agent.argv = [sys.executable, "-c", _ACTIVATOR, str(agent.socket), *agent.argv]
    agent.start()
    answer = agent.node.GetVersion(agent.messages.GetVersionRequest())
    assert answer.version
    assert agent.terminate().code == 0
    assert agent.socket.exists()


def test_clients_come_and_go(start_agent, fake_runtime):
    """Connections that were closed are not kept: neither counted nor as descriptors."""
    agent = start_agent(fake_runtime.endpoint)
    name = "inplaced_local_api_connections"
    before = agent.descriptors()
    for _ in range(20):
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(agent.socket))
    assert agent.ctl("version").returncode == 0
    wait_until(lambda: agent.metrics().get_value(name) == 0, 10, "end of all connections")
    wait_until(
        lambda: agent.descriptors() <= before, 10, lambda: f"{before}, not {agent.descriptors()}"
    )


def test_changes_name_their_caller(start_agent, fake_runtime, open_folder):
    """Each request for images and each cancellation is logged with the user that made it."""
    agent = start_agent(fake_runtime.endpoint, flags=["--socket-group=daemon"])
    images = ["demo/web:1", "demo/web:2"]
    with node_stub_of(agent, NOBODY, DAEMON) as node:
        request = agent.messages.PreloadRequest(images=images, detach=True)
        fake_runtime.on("PullImage", behaviours.hang())
        (identity,) = {event.request_id for event in node.Preload(request, timeout=20)}
        node.Cancel(agent.messages.CancelRequest(request_id=identity), timeout=20)
        node.GetStatus(agent.messages.GetStatusRequest(), timeout=20)
    lines = [line for line in agent.logs() if "caller_uid" in line]
    assert [line["request_id"] for line in lines] == [identity, identity]
    assert {(line["caller_user"], line["caller_uid"]) for line in lines} == {
        ("nobody", str(NOBODY))
    }
    caller = f"nobody (uid {NOBODY}, pid {os.getpid()})"
    assert [line["message"] for line in lines] == [
        f'Accepted request {identity} to preload "demo/web:1" and 1 more, detached, for {caller}.',
        f"Canceled 2 pulls of request {identity} for {caller}.",
    ]

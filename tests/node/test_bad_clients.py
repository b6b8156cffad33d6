# SPDX-License-Identifier: Apache-2.0
"""Proves that clients of the local API which are silent, talk junk, or never read cannot disturb
others, and leave nothing behind.
"""

from __future__ import annotations

import itertools
import os
import socket
import struct
import subprocess
import sys
import time
from contextlib import ExitStack, suppress

import grpc
import pytest

from fake import behaviours
from lab import http2, sanitizers
from lab.http2 import PREFACE, connect, frame, greet, is_closed, settings
from lab.trouble import assert_prompt, complaints, no_leak, node_stub, pull_another
from lab.user import DAEMON, NOBODY, become, node_stub_of
from lab.wait import wait_until

PATH = "/inplaced.v1.Node/"
SLOWLY = sanitizers.SLOWNESS
OPENING = PREFACE + settings()

_FORGED = '\n{"level": "error", "message": "a peer wrote this"}\n'

# All bytes that each client sends before it falls silent.
BAD_CLIENTS = {
    "silent": b"",
    "junk": os.urandom(5000),
    "http-1": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "half-preface": PREFACE[:12],
    "preface-alone": PREFACE,
    "junk-after-preface": PREFACE + os.urandom(5000),
    "huge-frame": OPENING + b"\xff\xff\xff" + bytes([http2.DATA, 0]) + bytes(4) + bytes(5000),
    "unknown-frames": OPENING + frame(0xEE, 0xFF, 7, b"x" * 100) * 100,
    "data-without-call": OPENING + frame(http2.DATA, 0, 99, b"x" * 1000),
    "stream-0": OPENING + http2.request(0, PATH + "GetVersion"),
    "even-stream": OPENING + http2.request(2, PATH + "GetVersion"),
    "bad-header": OPENING + frame(http2.HEADERS, http2.END_HEADERS, 1, b"\xff" * 200),
    "forged-line": OPENING + http2.request(1, PATH + "GetVersion", b"", {"te": _FORGED}),
    "endless-header": OPENING + frame(http2.HEADERS, 0, 1, b"\0\x01a\x01b" * 2000),
    "half-a-call": OPENING + http2.request(1, PATH + "Preload", None),
    "half-a-message": OPENING
    + http2.request(1, PATH + "Preload", None)
    + frame(http2.DATA, 0, 1, b"\0" + struct.pack(">I", 1 << 30) + b"x"),
    "window-of-0": PREFACE + settings(window=0) + http2.request(1, PATH + "GetStatus"),
    "window-too-large": OPENING + frame(http2.WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff") * 3,
    "many-calls": OPENING
    + b"".join(http2.request(2 * number + 1, PATH + "GetVersion") for number in range(300)),
    "calls-reset": OPENING
    + b"".join(
        http2.request(2 * number + 1, PATH + "GetStatus")
        + frame(http2.RST_STREAM, 0, 2 * number + 1, bytes(4))
        for number in range(500)
    ),
    "pings": OPENING + frame(http2.PING, 0, 0, bytes(8)) * 3000,
    "goaway": OPENING + frame(http2.GOAWAY, 0, 0, bytes(8)),
}


def _connect(agent, said: bytes) -> socket.socket:
    """A connection of this client, which acknowledges the agent's settings if it sends any."""
    if said.startswith(OPENING):
        return greet(agent.socket, said.removeprefix(OPENING))
    return connect(agent.socket, said)


@pytest.fixture
def agent(start_agent, fake_runtime):
    agent = start_agent(fake_runtime.endpoint)
    pull_another(agent, "good/first:1")
    assert_prompt(agent, 1)
    return agent


@pytest.mark.parametrize("client", BAD_CLIENTS)
def test_bad_client(agent, client):
    """Ten bad clients of one kind are not noticed by a good one, nor in the log, nor afterwards."""
    with no_leak(agent):
        with ExitStack() as stack:
            for _ in range(10):
                stack.enter_context(_connect(agent, BAD_CLIENTS[client]))
            assert_prompt(agent)
            pull_another(agent)
        assert_prompt(agent, 5)
    assert complaints(agent) == []


@pytest.mark.handover
def test_200_clients(agent, fake_runtime):
    """Among two hundred bad ones of all kinds at once a good client is served promptly."""
    before = agent.memory().anonymous
    said = list(BAD_CLIENTS.values())
    with no_leak(agent):
        with ExitStack() as stack:
            for number in range(200):
                stack.enter_context(_connect(agent, said[number % len(said)]))
            assert_prompt(agent)
            pull_another(agent)
            assert agent.metrics().total("inplaced_local_api_connections") <= 256
        pull_another(agent, "good/after:1")
    assert complaints(agent) == []
    if not sanitizers.NAME:
        little = lambda: agent.memory().anonymous - before < 10_000  # noqa: E731
        wait_until(little, 10, "return of the memory")


def test_silent_ones_are_sent_away(agent):
    """A connection that is silent, or sends half of a greeting, ends after some seconds."""
    greetings = [PREFACE[: number % 24] for number in range(48)]
    with ExitStack() as stack, no_leak(agent):
        waiting = [stack.enter_context(connect(agent.socket, said)) for said in greetings]
        wait_until(lambda: all(map(is_closed, waiting)), 60 * SLOWLY, "end of all connections")


def test_crowd_of_silent_ones(agent):
    """However many of root's connections are silent, the next client is served after some seconds."""
    with no_leak(agent):
        with ExitStack() as stack:
            waiting = [stack.enter_context(connect(agent.socket)) for _ in range(400)]
            assert agent.descriptors() < 1000
            wait_until(lambda: all(map(is_closed, waiting)), 60 * SLOWLY, "end of all connections")
            assert_prompt(agent, 10)
            pull_another(agent)
    assert complaints(agent) == []


@pytest.mark.handover
def test_clients_that_never_read(agent, fake_runtime):
    """Unread streams are held back, not heaped up, while others are answered in full."""
    fake_runtime.on("PullImage", behaviours.slow(0.5), "good/slow:1")
    images = ["good/slow:1", *(f"good/n{number}:1" for number in range(19))]
    message = agent.messages.PreloadRequest(images=images).SerializeToString()
    calls = b"".join(http2.request(2 * n + 1, PATH + "Preload", message) for n in range(10))
    before = agent.memory().anonymous
    with no_leak(agent):
        with ExitStack() as stack:
            for _ in range(20):
                stack.enter_context(connect(agent.socket, PREFACE + settings(window=0) + calls))
            wait_until(lambda: fake_runtime.calls("PullImage", "good/slow:1"), 10 * SLOWLY, "call")
            assert_prompt(agent)
            with node_stub(agent) as node:
                request = agent.messages.PreloadRequest(images=["good/slow:1"])
                last = list(node.Preload(request, timeout=10 * SLOWLY))[-1]
            assert last.phase == agent.messages.PHASE_SUCCEEDED
            pull_another(agent)
            if not sanitizers.NAME:
                assert agent.memory().anonymous - before < 40_000
        assert_prompt(agent, 5)
    assert len(fake_runtime.calls("PullImage", "good/slow:1")) == 1


@pytest.fixture
def shared_agent(start_agent, fake_runtime, folder):
    """Lets members of the group "daemon" use the agent's socket."""
    folder.path.chmod(0o711)
    agent = start_agent(fake_runtime.endpoint, flags=["--socket-group=daemon"])
    pull_another(agent, "good/first:1")
    assert_prompt(agent, 1)
    return agent


def _heard(connection) -> bytes:
    """All bytes from the other side so far."""
    heard = b""
    try:
        while some := connection.recv(1 << 16):
            heard += some
    except (BlockingIOError, ConnectionError):
        pass
    return heard


@pytest.mark.handover
def test_one_user_does_not_lock_out_others(shared_agent):
    """Calls whose message never comes, on as many connections as there are, cost their user alone."""
    agent = shared_agent
    half = OPENING + http2.request(1, PATH + "Preload", None)
    version = agent.messages.GetVersionRequest()
    with no_leak(agent, 30):
        with ExitStack() as stack:
            with become(NOBODY, DAEMON):
                waiting = [stack.enter_context(connect(agent.socket, half)) for _ in range(300)]
            count = lambda: agent.metrics().total("inplaced_local_api_connections")  # noqa: E731
            wait_until(lambda: count() >= 64, 10 * SLOWLY, lambda: f"64 connections, not {count()}")
            assert_prompt(agent, 10)
            with node_stub_of(agent, DAEMON, DAEMON) as node:
                assert node.GetVersion(version, timeout=10 * SLOWLY).version
            with (
                node_stub_of(agent, NOBODY, DAEMON) as node,
                pytest.raises(grpc.RpcError) as error,
            ):
                node.GetVersion(version, timeout=10 * SLOWLY)
            assert error.value.code() is grpc.StatusCode.UNAVAILABLE
            assert f"user {NOBODY} has too many connections: 64" in error.value.details()
            heard = [b""] * len(waiting)

            def all_refused() -> bool:
                for number, connection in enumerate(waiting):
                    heard[number] += _heard(connection)
                return sum(b"did not arrive within 10 s" in said for said in heard) >= 64

            wait_until(all_refused, 30 * SLOWLY, "the refusal of each call", 0.2)
        assert_prompt(agent, 5)
    assert complaints(agent) == []


def test_memory_of_a_flood_comes_back(agent):
    """The memory that gRPC holds for clients that flood it is given back when they are gone."""
    before = agent.memory().anonymous
    used = lambda: agent.memory().anonymous - before  # noqa: E731
    with ExitStack() as stack:
        clients = [stack.enter_context(greet(agent.socket)) for _ in range(4)]
        unsent = [b""] * len(clients)
        streams = itertools.count(1, 2)
        end = time.monotonic() + 30
        while used() < 80_000 and time.monotonic() < end:
            for number, client in enumerate(clients):
                if not unsent[number]:
                    unsent[number] = b"".join(map(_reset_call, itertools.islice(streams, 200)))
                with suppress(BlockingIOError):
                    unsent[number] = unsent[number][client.send(unsent[number]) :]
    if not sanitizers.NAME:  # which keep freed memory
        wait_until(lambda: used() < 30_000, 30, lambda: f"end: {used()} KiB are held", 0.2)
    assert_prompt(agent, 5)


def _reset_call(stream: int) -> bytes:
    call = http2.request(stream, PATH + "GetVersion", None)
    return call + frame(http2.RST_STREAM, 0, stream, bytes(4))


def test_callers_that_vanish(agent, fake_runtime):
    """The desired images of callers that vanish go with them, in the runtime, too."""
    fake_runtime.on("PullImage", behaviours.hang())
    images = [f"bad/n{number}:1" for number in range(5)]
    message = agent.messages.PreloadRequest(images=images).SerializeToString()
    said = OPENING + http2.request(1, PATH + "Preload", message)
    with no_leak(agent):
        with ExitStack() as stack:
            for _ in range(30):
                stack.enter_context(connect(agent.socket, said))
            wait_until(lambda: len(fake_runtime.calls("PullImage")) == 6, 10, "all pulls")
        calls = fake_runtime.calls("PullImage")[1:]
        wait_until(lambda: all(call.cancelled for call in calls), 10, "end of all pulls")
        wait_until(lambda: agent.tag_status("bad/n0:1") is None, 10, "end of the requests")
    fake_runtime.behave()
    pull_another(agent)


@pytest.mark.parametrize(
    ("method", "message", "code"),
    [
        ("Preload", b"\x0a\xff\xff\xff\x7fx", "INVALID_ARGUMENT"),
        ("GetStatus", os.urandom(1000), "INVALID_ARGUMENT"),
        ("Preload", b"\x0a\x02\xff\xfe", "INVALID_ARGUMENT"),
        ("Preload", b"\x0a" + b"x" * (5 << 20), "RESOURCE_EXHAUSTED"),
        ("Explode", b"", "UNIMPLEMENTED"),
        ("../../etc/passwd", b"", "UNIMPLEMENTED"),
        ("x" * 4000, b"", "UNIMPLEMENTED"),
    ],
    ids=["garbage", "random", "not-utf-8", "5-mb", "unknown", "path", "long"],
)
def test_bad_call(agent, method, message, code):
    """A call that cannot be understood is refused with the right status, and not logged."""
    with (
        no_leak(agent),
        grpc.insecure_channel(
            f"unix:{agent.socket}", options=[("grpc.max_send_message_length", -1)]
        ) as channel,
    ):
        call = channel.unary_unary(PATH + method)
        for _ in range(5):
            with pytest.raises(grpc.RpcError) as error:
                call(message, timeout=10 * SLOWLY)
            assert error.value.code().name == code, error.value
    pull_another(agent)
    assert complaints(agent) == []


def test_compressed_call(agent):
    """A compressed message is refused, since a small one may be a large one."""
    before = agent.memory().anonymous
    options = [("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(f"unix:{agent.socket}", options=options) as channel:
        call = channel.unary_unary(PATH + "GetVersion")
        for _ in range(3):
            with pytest.raises(grpc.RpcError) as error:
                call(bytes(100 << 20), timeout=60 * SLOWLY, compression=grpc.Compression.Gzip)
            assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED, error.value
    if not sanitizers.NAME:
        assert agent.memory().anonymous - before < 20_000
    pull_another(agent)
    assert complaints(agent) == []


def test_pings_keep_a_stream(agent):
    """A client may ask as often as it likes whether a quiet stream is still served."""
    ping, answer = (frame(http2.PING, flag, 0, b"are you?") for flag in (0, 1))
    with greet(agent.socket, http2.request(1, PATH + "Watch")) as client:
        client.settimeout(10 * SLOWLY)
        heard = b""
        for number in range(10):
            client.send(ping)
            while heard.count(answer) <= number:
                some = client.recv(1 << 16)
                assert some, "the agent has closed the connection"
                heard += some
        client.setblocking(False)
        assert not is_closed(client)


def test_stranger(agent):
    """Users other than root and the group are hung up on, even where the mode lets all in.

    A hundred strangers are not a hundred lines.
    """
    script = (
        "import socket, sys, time\n"
        "for _ in range(100):\n"
        "    caller = socket.socket(socket.AF_UNIX)\n"
        "    caller.settimeout(5)\n"
        f"    caller.connect({str(agent.socket)!r})\n"
        "    try:\n"
        "        caller.send(b'PRI')\n"
        "        said = caller.recv(10)\n"
        "    except ConnectionError:\n"
        "        said = b''\n"
        "    assert said == b'', said\n"
    )
    for folder in (agent.folder, agent.folder.parent):
        folder.chmod(0o755)
    agent.socket.chmod(0o666)
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    with no_leak(agent):
        subprocess.run([*nobody, sys.executable, "-c", script], check=True, timeout=30)
        pull_another(agent)
    refused = agent.metrics().get_value(
        "inplaced_local_api_refused_connections_total", reason="denied"
    )
    assert refused == 100
    assert complaints(agent) == []


def test_descriptors_run_out(make_agent, fake_runtime):
    """Without free descriptors callers wait; when some are free again, all goes on."""
    agent = make_agent(fake_runtime.endpoint)
    unserved = "cannot serve a connection"
    agent.argv[:0] = ["prlimit", "--nofile=64:64", "--"]
    agent.start()
    pull_another(agent)
    with no_leak(agent):
        with ExitStack() as stack:
            for _ in range(150):
                stack.enter_context(connect(agent.socket, OPENING))
            wait_until(lambda: complaints(agent, unserved), 10, "end of the descriptors")
            with socket.create_connection(agent.metrics_address.split(":"), timeout=5):
                pass
        pull_another(agent, "good/after:1")
        assert_prompt(agent, 5)
    [said] = complaints(agent, unserved)
    assert "Too many open files; raise the limit" in said
    assert all("Too many open files" in one for one in complaints(agent))

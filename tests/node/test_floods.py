# SPDX-License-Identifier: Apache-2.0
"""A member of the socket's group who sends as much as goes costs the agent little, and others are served."""

from __future__ import annotations

import itertools
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from lab import http2, sanitizers
from lab.cleanup import Closing
from lab.http2 import PREFACE, connect, frame, greet, settings
from lab.trouble import assert_prompt, complaints, no_leak, pull_another
from lab.user import DAEMON, NOBODY, become, node_stub_of
from lab.wait import wait_until

PATH = "/inplaced.v1.Node/"
SLOWLY = sanitizers.SLOWNESS
_CONTINUATION = 9
_PAIRS = b"\0\x01a\x01b" * 3000
_SECONDS = 3

# A length of a GB, which is never reached.
_HUGE = b"\0\x01a" + b"\x7f\x81\xff\xff\xff\x03"


def _header(begin: bytes, part: bytes) -> Iterator[bytes]:
    yield frame(http2.HEADERS, 0, 1, begin)
    yield from itertools.repeat(frame(_CONTINUATION, 0, 1, part) * 16)


def _calls(make) -> Iterator[bytes]:
    for first in itertools.count(1, 400):
        yield b"".join(make(stream) for stream in range(first, first + 400, 2))


def _again(frames: bytes) -> Iterator[bytes]:
    yield http2.request(1, PATH + "Preload", None)
    yield from itertools.repeat(frames)


def _reset(stream: int) -> bytes:
    call = http2.request(stream, PATH + "GetVersion", None)
    return call + frame(http2.RST_STREAM, 0, stream, bytes(4))


_WINDOW_OF_1 = struct.pack(">HI", 4, 1)

FLOODS = {
    "header-of-many-fields": lambda: _header(_PAIRS, _PAIRS),
    "header-of-a-huge-field": lambda: _header(_HUGE, bytes(16000)),
    "header-of-nothing": lambda: _header(b"", b""),
    "pings": lambda: _again(frame(http2.PING, 0, 0, bytes(8)) * 1000),
    "answers-to-pings": lambda: _again(frame(http2.PING, 1, 0, bytes(8)) * 1000),
    "settings": lambda: _again(frame(http2.SETTINGS, 0, 0, _WINDOW_OF_1) * 1000),
    "windows": lambda: _again(frame(http2.WINDOW_UPDATE, 0, 0, b"\0\0\0\1") * 1000),
    "empty-data": lambda: _again(frame(http2.DATA, 0, 1) * 1000),
    "calls": lambda: _calls(lambda stream: http2.request(stream, PATH + "GetVersion")),
    "calls-without-message": lambda: _calls(
        lambda stream: http2.request(stream, PATH + "GetVersion", None)
    ),
    "calls-reset": lambda: _calls(_reset),
}


class _Flood(Closing):
    """Connections that send as fast as they may, and read nothing."""

    def __init__(self, agent, make, connections: int) -> None:
        self._stack = ExitStack()
        with become(NOBODY, DAEMON):
            self._senders = [
                [self._stack.enter_context(greet(agent.socket)), make(), b""]
                for _ in range(connections)
            ]
        self._ends = False
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def close(self) -> None:
        self._ends = True
        self._thread.join()
        self._stack.close()

    def _send(self) -> None:
        while not self._ends:
            time.sleep(0.001)
            for sender in self._senders:
                connection, make, unsent = sender
                with suppress(BlockingIOError, ConnectionError):
                    unsent = unsent or next(make)
                    unsent = unsent[connection.send(unsent) :]
                sender[2] = unsent


@pytest.mark.parametrize("flood", FLOODS)
def test_flood(start_agent, fake_runtime, folder, flood):
    folder.path.chmod(0o711)
    agent = start_agent(fake_runtime.endpoint, flags=["--socket-group=daemon"])
    pull_another(agent, "good/first:1")
    before = agent.memory().anonymous
    request = agent.messages.GetVersionRequest()
    with no_leak(agent, 60), node_stub_of(agent, DAEMON, DAEMON) as other:
        with _Flood(agent, FLOODS[flood], 8):
            most, end = 0, time.monotonic() + _SECONDS
            while time.monotonic() < end and most < 300_000:
                assert other.GetVersion(request, timeout=10 * SLOWLY).version
                most = max(most, agent.memory().anonymous - before)
            assert_prompt(agent, 5)
        print(f"{flood}: at most {most} KiB were held")
        if not sanitizers.NAME:
            assert most < 100_000
            little = lambda: agent.memory().anonymous - before < 20_000  # noqa: E731
            wait_until(little, 30, lambda: f"end: {agent.memory().anonymous - before} KiB")
    pull_another(agent)
    assert complaints(agent) == []


def test_fields_without_a_limit(start_agent, fake_runtime, folder):
    """Callers who have not acknowledged the limit of a header cannot make a large one of a short one."""
    folder.path.chmod(0o711)
    agent = start_agent(fake_runtime.endpoint, flags=["--socket-group=daemon"])
    field = b"\x40" + http2.string(b"lb-cost-bin") + http2.string(bytes(9) + b"x" * 1900)
    head = http2.header(PATH + "Preload") + field + b"\xbe" * 1900
    said = PREFACE + settings() + frame(http2.HEADERS, http2.END_HEADERS, 1, head)
    before = agent.memory().anonymous
    with no_leak(agent), ExitStack() as stack:
        with become(NOBODY, DAEMON):
            for _ in range(64):
                stack.enter_context(connect(agent.socket, said))
        most, end = 0, time.monotonic() + _SECONDS
        while time.monotonic() < end:
            most = max(most, agent.memory().anonymous - before)
        print(f"at most {most} KiB were held")
        if not sanitizers.NAME:
            assert most < 60_000
        assert_prompt(agent, 5)


def test_a_flood_delays_its_user_alone(start_agent, fake_runtime, folder):
    """A user who has sent too much gets no connection for some seconds, and then is served again."""
    folder.path.chmod(0o711)
    agent = start_agent(fake_runtime.endpoint, flags=["--socket-group=daemon"])
    name = "inplaced_local_api_refused_connections_total"

    def is_refused() -> bool:
        with become(NOBODY, DAEMON):
            connection = connect(agent.socket)
        with connection:
            connection.settimeout(1)
            try:
                return connection.recv(1) == b""
            except TimeoutError:
                return False
            except ConnectionError:
                return True

    with _Flood(agent, FLOODS["pings"], 8):
        wait_until(is_refused, 10 * SLOWLY, "refusal")
        assert agent.metrics().get_value(name, reason="limit") >= 1
        assert_prompt(agent, 5)
    wait_until(lambda: not is_refused(), 20 * SLOWLY, "end of the refusals", 0.2)
    with node_stub_of(agent, NOBODY, DAEMON) as node:
        assert node.GetVersion(agent.messages.GetVersionRequest(), timeout=10 * SLOWLY).version

# SPDX-License-Identifier: Apache-2.0
"""Members of the socket's group can make the agent hold so much and no more, and root has its share."""

from __future__ import annotations

import json
import struct
import time
from contextlib import ExitStack

import grpc
import pytest

from fake import behaviours
from lab import http2, sanitizers
from lab.cleanup import Closing
from lab.http2 import greet
from lab.trouble import assert_prompt, complaints, no_leak, without_hints
from lab.user import DAEMON, NOBODY, become, node_stub_of
from lab.wait import wait_until

PATH = "/inplaced.v1.Node/"
SLOWLY = sanitizers.SLOWNESS
_GREEDY, _OTHER, _ROOT = (NOBODY, DAEMON), (DAEMON, DAEMON), (0, 0)

_IMAGES_MAX, _IMAGES_OF_ROOT_MAX = 4096, 5120
_ANSWER_MAX = 16 << 20


def _long_names(count: int, first: int = 0) -> list[str]:
    """References of which none could be longer."""
    names = []
    for number in range(first, first + count):
        name = f"registry.example/{number}/"
        names.append(name + "x" * (255 - len(name)) + ":" + "t" * 128)
    return names


@pytest.fixture
def agent(start_agent, folder):
    """An agent without a runtime, so that all requests stay."""
    folder.path.chmod(0o711)
    flags = ["--socket-group=daemon"]
    return start_agent(f"unix://{folder.path}/nowhere.sock", flags=flags)


def _ask(agent, node, images):
    """Leaves a request with the agent; returns how it was refused, or None."""
    request = agent.messages.PreloadRequest(images=images, detach=True)
    try:
        for _ in node.Preload(request, timeout=60 * SLOWLY):
            pass
    except grpc.RpcError as error:
        return error.code().name, error.details()
    return None


def test_detached_requests_have_a_limit(agent):
    """So many that the answer and the file can be read again; some more are left for root."""
    with node_stub_of(agent, NOBODY, DAEMON) as node:
        for first in range(0, _IMAGES_MAX, 1024):
            assert _ask(agent, node, _long_names(1024, first)) is None
        code, said = _ask(agent, node, ["one/more:1"])
        assert code == "UNAVAILABLE" and "too many images" in said
        code, said = _ask(agent, node, ["the/same:1"] * _IMAGES_MAX)
        assert code == "UNAVAILABLE"
    with node_stub_of(agent, 0, 0) as node:
        more = _long_names(_IMAGES_OF_ROOT_MAX - _IMAGES_MAX, _IMAGES_MAX)
        assert _ask(agent, node, more) is None
        assert _ask(agent, node, ["one/more:1"])[0] == "UNAVAILABLE"
    shown = agent.ctl("status", "-o", "json")
    assert (shown.returncode, without_hints(shown.stderr)) == (0, "")
    assert json.loads(shown.stdout)["status"]["desired"] == _IMAGES_OF_ROOT_MAX
    for end in (agent.kill9, agent.terminate):
        end()
        agent.start()
        assert complaints(agent, "nodeimage.json") == []
        again = agent.ctl("status", "-o", "json")
        assert json.loads(again.stdout)["status"]["desired"] == _IMAGES_OF_ROOT_MAX


def test_finished_requests_make_room(start_agent, fake_runtime):
    """A finished request is forgotten earlier than after ten minutes when others have to be served."""
    agent = start_agent(fake_runtime.endpoint)
    identities = []
    for number in range(4):
        images = [f"demo/a{number}:{tag}" for tag in range(1400)]
        for image in images:
            fake_runtime.hold(image)
        request = agent.messages.PreloadRequest(images=images)
        last = list(agent.node.Preload(request, timeout=120 * SLOWLY))[-1]
        assert last.phase == agent.messages.PHASE_SUCCEEDED
        identities.append(last.request_id)
        # Ends are kept in seconds, and the first end goes first.
        ended = int(time.time())
        wait_until(lambda: int(time.time()) > ended, 2, "next second")  # noqa: B023
    assert not fake_runtime.calls("PullImage")
    status = agent.node.GetStatus(agent.messages.GetStatusRequest()).node_image_json
    assert [identity in status for identity in identities] == [False, True, True, True]


def test_unread_answers(agent):
    """Callers that ask for the status and never read it hold one large answer, and not for long."""
    with node_stub_of(agent, NOBODY, DAEMON) as node:
        assert _ask(agent, node, _long_names(4000)) is None
    answer = agent.node.GetStatus(agent.messages.GetStatusRequest())
    size = len(answer.SerializeToString())
    assert 2 << 20 < size < _ANSWER_MAX
    calls = b"".join(http2.request(2 * number + 1, PATH + "GetStatus") for number in range(60))
    before = agent.memory().anonymous
    with no_leak(agent, 60):
        with ExitStack() as stack:
            with become(NOBODY, DAEMON):
                for _ in range(10):
                    stack.enter_context(greet(agent.socket, calls, window=0))
            name = "inplaced_local_api_requests_total"
            asked = lambda: agent.metrics().total(name, method="GetStatus")  # noqa: E731
            wait_until(lambda: asked() > 60, 60 * SLOWLY, lambda: f"calls, only {asked()}", 0.2)
            assert agent.ctl("version").returncode == 0
            held = agent.memory().anonymous - before
            print(f"answers of {size >> 10} KiB: {held} KiB are held")
            if not sanitizers.NAME:
                assert held < 60_000
                fewer = lambda: agent.memory().anonymous - before < 20_000  # noqa: E731
                wait_until(fewer, 90, lambda: f"end: {agent.memory().anonymous - before} KiB", 0.5)
        assert_prompt(agent, 5)
    assert complaints(agent, "API") == []


def test_unread_answers_of_many(agent):
    """Users who do not read their answers hold together what two may; root is answered all the same."""
    with node_stub_of(agent, NOBODY, DAEMON) as node:
        assert _ask(agent, node, _long_names(4000)) is None
    request = agent.messages.GetStatusRequest()
    calls = b"".join(http2.request(2 * number + 1, PATH + "GetStatus") for number in range(10))
    with no_leak(agent, 60), ExitStack() as stack:
        for user in (NOBODY, DAEMON, DAEMON + 1):
            with become(user, DAEMON):
                stack.enter_context(greet(agent.socket, calls, window=0))
        asked = lambda: agent.metrics().total(  # noqa: E731
            "inplaced_local_api_requests_total", method="GetStatus"
        )
        wait_until(lambda: asked() == 30, 60 * SLOWLY, lambda: f"30 calls, only {asked()}", 0.2)
        with (
            node_stub_of(agent, DAEMON + 2, DAEMON) as node,
            pytest.raises(grpc.RpcError) as error,
        ):
            node.GetStatus(request, timeout=10 * SLOWLY)
        assert error.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "all users but root have" in error.value.details()
        assert agent.ctl("status").returncode == 0


def test_root_may_verify(start_agent, fake_runtime, folder):
    """A user whose calls wait for the runtime does not keep root from making the same call."""
    fake_runtime.on("ListContainers", behaviours.hang())
    folder.path.chmod(0o711)
    agent = start_agent(fake_runtime.endpoint, flags=["--socket-group=daemon"])
    request = agent.messages.VerifyRequest()
    asked = lambda: len(fake_runtime.calls("ListContainers"))  # noqa: E731
    with node_stub_of(agent, NOBODY, DAEMON) as node, node_stub_of(agent, 0, 0) as root:
        calls = [node.Verify.future(request) for _ in range(64)]
        wait_until(lambda: asked() == 64, 20 * SLOWLY, lambda: f"64 calls, but {asked()}")
        calls.append(root.Verify.future(request))
        wait_until(lambda: asked() == 65, 5 * SLOWLY, "call of root's")
        for call in calls:
            call.cancel()


@pytest.mark.parametrize(
    ("method", "what"), [("Watch", "follow the status"), ("WatchPulls", "follow the pulls")]
)
def test_followers_of_one_user(start_agent, fake_runtime, folder, method, what):
    """A user who follows 16 times is refused the next call, while other users may still follow, up to 64 calls in all."""
    folder.path.chmod(0o711)
    agent = start_agent(fake_runtime.endpoint, flags=["--socket-group=daemon"])
    request = getattr(agent.messages, f"{method}Request")()
    with ExitStack() as stack:
        nodes = [stack.enter_context(node_stub_of(agent, *who)) for who in (_GREEDY, _OTHER, _ROOT)]
        greedy, other, root = (getattr(node, method) for node in nodes)
        calls = [greedy(request, timeout=60 * SLOWLY) for _ in range(16)]
        for call in calls:
            next(call)
        with pytest.raises(grpc.RpcError) as error:
            next(greedy(request, timeout=10 * SLOWLY))
        assert error.value.code() is grpc.StatusCode.UNAVAILABLE
        said = f"user {NOBODY} has too many callers that {what}: 16 and 1 more"
        assert said in error.value.details()
        for follow in (other, *[root] * (64 - 16 - 1)):
            calls.append(follow(request, timeout=60 * SLOWLY))
            next(calls[-1])
        with pytest.raises(grpc.RpcError) as error:
            next(root(request, timeout=10 * SLOWLY))
        assert f"too many callers that {what}: there are 64" in error.value.details()
        calls.pop(0).cancel()

        def may_follow_again() -> bool:
            calls.append(greedy(request, timeout=60 * SLOWLY))
            try:
                next(calls[-1])
            except grpc.RpcError:
                return False
            return True

        wait_until(may_follow_again, 10 * SLOWLY, "room for another")
        for call in calls:
            call.cancel()


def test_requests_that_are_never_whole(agent):
    """Large requests of which the last byte is missing are held for some seconds, and not all."""
    size = (2 << 20) - 1
    body = b"\0" + struct.pack(">I", size) + b"\x0a\xff\xff\x7f" + b"x" * (size - 5)
    before = agent.memory().anonymous
    with no_leak(agent, 60):
        with ExitStack() as stack:
            with become(NOBODY, DAEMON):
                senders = [
                    stack.enter_context(_Sender(agent, calls=16, body=body)) for _ in range(20)
                ]
            most = 0

            def all_answered() -> bool:
                nonlocal most
                most = max(most, agent.memory().anonymous - before)
                return all([sender.pump() for sender in senders])

            wait_until(all_answered, 60 * SLOWLY, "the refusal of all calls", 0.01)
            assert agent.ctl("version").returncode == 0
            print(f"at most {most} KiB were held")
            if not sanitizers.NAME:
                assert most < 25_000
        assert_prompt(agent, 5)


class _Sender(Closing):
    """A connection that sends large messages as fast as it may, but never their last byte."""

    def __init__(self, agent, calls: int, body: bytes) -> None:
        self._connection = greet(agent.socket)
        self._windows = {0: 65535}
        self._unsent = {2 * number + 1: body for number in range(calls)}
        self._out = b"".join(http2.request(s, PATH + "Preload", None) for s in self._unsent)
        self._windows.update({stream: 65535 for stream in self._unsent})
        self._in = b""
        self._ended = 0
        self._calls = calls

    def close(self) -> None:
        self._connection.close()

    def pump(self) -> bool:
        """Reads and writes as far as it goes without waiting. Returns whether all calls were answered."""
        self._read()
        self._fill()
        try:
            while self._out:
                self._out = self._out[self._connection.send(self._out) :]
        except (BlockingIOError, ConnectionError):
            pass
        return self._ended >= self._calls

    def _fill(self) -> None:
        for stream, body in self._unsent.items():
            room = min(self._windows[0], self._windows[stream], 16384, len(body))
            if room > 0 and len(self._out) < 1 << 18:
                self._out += http2.frame(http2.DATA, 0, stream, body[:room])
                self._unsent[stream] = body[room:]
                self._windows[0] -= room
                self._windows[stream] -= room

    def _read(self) -> None:
        try:
            while some := self._connection.recv(1 << 16):
                self._in += some
        except (BlockingIOError, ConnectionError):
            pass
        while len(self._in) >= 9:
            size = int.from_bytes(self._in[:3], "big")
            kind, flags = self._in[3], self._in[4]
            stream = int.from_bytes(self._in[5:9], "big")
            if len(self._in) < 9 + size:
                return
            payload, self._in = self._in[9 : 9 + size], self._in[9 + size :]
            if kind == http2.WINDOW_UPDATE and stream in self._windows:
                self._windows[stream] += int.from_bytes(payload, "big")
            elif kind == http2.SETTINGS and not flags & 1:
                self._apply(payload)
            elif kind == http2.HEADERS and flags & http2.END_STREAM:
                self._ended += 1
                self._unsent.pop(stream, None)

    def _apply(self, payload: bytes) -> None:
        for at in range(0, len(payload), 6):
            key, value = struct.unpack(">HI", payload[at : at + 6])
            if key == 4:  # the initial window of streams
                for stream in self._unsent:
                    self._windows[stream] += value - 65535
        self._out += http2.frame(http2.SETTINGS, 1)

# SPDX-License-Identifier: Apache-2.0
"""Stands between the agent and a real runtime, and spoils what a test sets.

    with RuntimeProxy(folder, containerd.socket) as proxy:
        agent = ...  # with proxy.endpoint
        proxy.on("StopContainer", behaviours.fail("UNKNOWN", "as set"))
        ...
        assert len(proxy.calls("ExecSync")) == 1

What it is not set to spoil passes through as it is, streams as well.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from fake.behaviours import Answer, Behaviour, Call
from lab import stubs
from lab.cleanup import Closing
from lab.cri import CHANNEL_OPTIONS

_SERVICES = ("runtime.v1.RuntimeService", "runtime.v1.ImageService")
_FOR_LONG = 300


class RuntimeProxy(Closing):
    """Listens at `endpoint` from the moment it is made."""

    def __init__(self, folder: Path, runtime: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.socket = folder / "proxy.sock"
        self.endpoint = f"unix://{self.socket}"
        self._messages = stubs.load("runtime.v1.api").messages
        self._channel = grpc.insecure_channel(f"unix:{runtime}", options=CHANNEL_OPTIONS)
        self._rules: list[tuple[str, str | None, Behaviour]] = []
        self._calls: list[Call] = []
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(64)
        self._server = grpc.server(self._pool, options=[("grpc.max_receive_message_length", -1)])
        self._server.add_generic_rpc_handlers((_Router(self),))
        self._server.add_insecure_port(f"unix:{self.socket}")
        self._server.start()

    def close(self) -> None:
        self._server.stop(grace=None).wait(5)
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._channel.close()

    def on(self, method: str, behaviour: Behaviour, container: str | None = None) -> None:
        """From now on, for calls about this container of the runtime, or about any."""
        self._rules.insert(0, (method, container, behaviour))

    def behave(self) -> None:
        """Forgets all that `on` has set."""
        self._rules.clear()

    def calls(self, method: str | None = None, container: str | None = None) -> list[Call]:
        """The calls so far, oldest first."""
        with self._lock:
            return [
                call
                for call in self._calls
                if method in (None, call.method) and container in (None, _container_of(call))
            ]

    # The rest is for the router below.

    def serve(self, path: str, request: bytes, context: Any) -> Iterator[Answer]:
        """A unary call is, on the wire, a stream of one message."""
        _, service, method = path.split("/")
        kind = getattr(self._messages, f"{method}Request", None) if service in _SERVICES else None
        parsed = kind.FromString(request) if kind is not None else None
        call = Call(method, service, parsed, "", {}, time.monotonic(), context=context)
        with self._lock:
            self._calls.append(call)
        context.add_callback(lambda: _end(call))
        behaviour = self._choose(call)
        if behaviour is None:
            yield from self._forward(path, request, context)
        else:
            yield behaviour(call, lambda: b"".join(self._forward(path, request, context)))

    def _choose(self, call: Call) -> Behaviour | None:
        for method, container, behaviour in list(self._rules):
            if method == call.method and container in (None, _container_of(call)):
                return behaviour
        return None

    def _forward(self, path: str, request: bytes, context: Any) -> Iterator[bytes]:
        metadata = [(name, value) for name, value in context.invocation_metadata()]
        metadata = [one for one in metadata if one[0] != "user-agent"]
        limit = min(context.time_remaining() or _FOR_LONG, _FOR_LONG)
        answers = self._channel.unary_stream(path)(request, timeout=limit, metadata=metadata)
        context.add_callback(answers.cancel)
        try:
            yield from answers
        except grpc.RpcError as error:
            context.abort(error.code(), error.details())


class _Router(grpc.GenericRpcHandler):
    def __init__(self, proxy: RuntimeProxy) -> None:
        self._proxy = proxy

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        serve: Callable[..., Any] = self._proxy.serve
        return grpc.unary_stream_rpc_method_handler(
            lambda request, context: serve(details.method, request, context),
            response_serializer=_serialize,
        )


def _serialize(answer: Answer) -> bytes:
    return answer if isinstance(answer, bytes) else answer.SerializeToString()


def _container_of(call: Call) -> str | None:
    """None where a call is about all of them."""
    if call.method == "ListContainers":
        return call.request.filter.id or None
    return getattr(call.request, "container_id", None)


def _end(call: Call) -> None:
    call.ended_at = time.monotonic()
    call.over.set()

# SPDX-License-Identifier: Apache-2.0
"""The local API of an agent that says what a test sets: for what `inplacectl` makes of it.

    with FakeNode(socket) as node:
        node.restart = lambda request, context: iter([node.messages.RestartEvent(...)])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from lab import stubs
from lab.cleanup import Closing


class FakeNode(Closing):
    """Serves until closed. `requests` holds the requests so far, in order."""

    def __init__(self, socket: Path) -> None:
        api = stubs.load("inplaced.v1.node")
        self.messages = api.messages
        self.requests: list[Any] = []
        self.restart: Callable[[Any, Any], Iterator[Any]] = lambda request, context: iter([])
        self.verified: list[Any] = []
        outer = self

        class Servicer(api.services.NodeServicer):
            def Restart(self, request: Any, context: Any) -> Iterator[Any]:
                outer.requests.append(request)
                yield from outer.restart(request, context)

            def Verify(self, request: Any, context: Any) -> Any:
                outer.requests.append(request)
                return outer.messages.VerifyResponse(containers=outer.verified)

        self._server = grpc.server(ThreadPoolExecutor(max_workers=4))
        api.services.add_NodeServicer_to_server(Servicer(), self._server)
        self._server.add_insecure_port(f"unix:{socket}")

    def start(self) -> None:
        self._server.start()

    def close(self) -> None:
        self.vanish()

    def vanish(self) -> None:
        """Ends all connections, as an agent does that is killed."""
        self._server.stop(grace=None).wait()

    def event(self, phase: str, container: str = "app", **more: Any) -> Any:
        """Makes an event of default/web: event("STOPPED", final=True)."""
        more.setdefault("old_container_id", "a" * 64)
        return self.messages.RestartEvent(
            namespace="default",
            pod="web",
            container=container,
            phase=self.messages.RestartPhase.Value(f"RESTART_PHASE_{phase}"),
            **more,
        )

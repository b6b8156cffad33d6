# SPDX-License-Identifier: Apache-2.0
"""A caller of the agent's local API that asks for images and keeps all events."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import grpc

from lab.agent import Agent
from lab.wait import stretch, wait_until


class Preload:
    """A Preload call, read in the background; `fields` are more of the request.

    `events` are all messages so far, oldest first, and `times` when they came, of time.monotonic().
    """

    def __init__(self, agent: Agent, *images: str, **fields: Any) -> None:
        self.messages = agent.messages
        self.events: list[Any] = []
        self.times: list[float] = []
        self.began_at = time.monotonic()
        self._error: grpc.RpcError | None = None
        self._call = agent.node.Preload(self.messages.PreloadRequest(images=images, **fields))
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def cancel(self) -> None:
        """The caller goes away."""
        self._call.cancel()
        self._thread.join(10)

    def wait_end(self, timeout: float = 30) -> Any:
        """Waits until the agent ends the call; returns the last event. Raises its error, if any."""
        self._thread.join(stretch(timeout))
        if self._thread.is_alive():
            raise TimeoutError(f"after {stretch(timeout):g} s the call still runs: {self.events[-3:]}")
        if self._error is not None:
            raise self._error
        return self.events[-1]

    def wait_event(
        self, condition: Callable[[Any], bool], timeout: float = 30, what: str = "such event"
    ) -> Any:
        """Waits for an event that meets the condition; returns the first one that does."""

        def find() -> Any | None:
            return next((event for event in list(self.events) if condition(event)), None)

        return wait_until(find, timeout, lambda: f"{what}, only {self.events[-3:]}")

    def wait_phase(self, phase: str, image: str | None = None, timeout: float = 30) -> Any:
        """As in wait_phase("SUCCEEDED")."""
        expected = self.messages.Phase.Value(f"PHASE_{phase}")
        return self.wait_event(
            lambda event: event.phase == expected and image in (None, event.image), timeout, phase
        )

    def wait_step(self, step: str, timeout: float = 30) -> Any:
        """As in wait_step("DOWNLOADING")."""
        expected = self.messages.Step.Value(f"STEP_{step}")
        return self.wait_event(lambda event: event.step == expected, timeout, step)

    def phases(self, image: str | None = None) -> list[str]:
        """The phases that were reported, each change once: ["WAITING", "PULLING", "SUCCEEDED"]."""
        reported: list[str] = []
        for event in list(self.events):
            name = self.messages.Phase.Name(event.phase).removeprefix("PHASE_")
            if image in (None, event.image) and reported[-1:] != [name]:
                reported.append(name)
        return reported

    def _read(self) -> None:
        try:
            for event in self._call:
                self.times.append(time.monotonic())
                self.events.append(event)
        except grpc.RpcError as error:
            self._error = error

# SPDX-License-Identifier: Apache-2.0
"""The pulls of a node as its agent reports them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import grpc

from lab.agent import Agent
from lab.cleanup import Closing
from lab.sanitizers import SLOWNESS
from lab.wait import wait_until


def _always(pull: Any) -> bool:
    return True


class Pulls(Closing):
    """Follows them: `events` are the messages so far, each with its time.monotonic()."""

    def __init__(self, agent: Agent) -> None:
        self.events: list[tuple[float, Any]] = []
        self._steps = agent.messages.Step
        self._call = agent.node.WatchPulls(agent.messages.WatchPullsRequest())
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._call.cancel()
        self._thread.join(10)

    def of(self, name: str) -> list[Any]:
        """All that was reported of images with this in their names."""
        return [pull for _, event in list(self.events) for pull in event.pulls if name in pull.image]

    def steps(self, name: str) -> list[str]:
        """The steps of such an image, each change once."""
        reported: list[str] = []
        for pull in self.of(name):
            step = self._steps.Name(pull.step).removeprefix("STEP_")
            if reported[-1:] != [step]:
                reported.append(step)
        return reported

    def wait(self, name: str, accept: Callable[[Any], bool] = _always) -> Any:
        def find() -> Any | None:
            return next((pull for pull in self.of(name) if accept(pull)), None)

        return wait_until(find, 20 * SLOWNESS, lambda: f"pull of {name}, only {self.events[-3:]}")

    def wait_none(self) -> None:
        def is_over() -> bool:
            return bool(self.events) and not self.events[-1][1].pulls

        wait_until(is_over, 20 * SLOWNESS, lambda: f"end of all pulls: {self.events[-3:]}")

    def since(self, name: str) -> float:
        """When such an image was reported first."""
        return next(at for at, event in self.events if any(name in pull.image for pull in event.pulls))

    def _read(self) -> None:
        with suppress(grpc.RpcError):
            for event in self._call:
                self.events.append((time.monotonic(), event))

# SPDX-License-Identifier: Apache-2.0
"""Sees changes of an object in a cluster as soon as the API server sends them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from lab.kube import Object

# Longer than any group of figures takes.
_TIMEOUT_SECONDS = 3600


class Watched(Protocol):
    """A kind to watch, such as a NodeImage; there has to be an object of it."""

    path: str

    def watch(self, timeout: float) -> Iterator[Object]: ...


class ObjectWatch:
    """Watches an object, or all of a kind, until its API server ends.

    `seen` are all its states so far, oldest first, each with the time.monotonic() at which it came.
    """

    def __init__(self, watched: Watched) -> None:
        self.seen: list[tuple[float, Object]] = []
        self._watched = watched
        self._changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()
        self.wait_for(lambda document: True)

    def wait_for(
        self, condition: Callable[[Object], bool], since: int = 0, timeout: float = 120
    ) -> float:
        """When the first state after so many that meets the condition came; waits for it."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while True:
                for at, document in self.seen[since:]:
                    if condition(document):
                        return at
                since = len(self.seen)
                if not self._changed.wait(deadline - time.monotonic()):
                    raise TimeoutError(
                        f"{self._watched.path} did not become as expected in {timeout:g} s"
                    )

    def _read(self) -> None:
        try:
            for event in self._watched.watch(_TIMEOUT_SECONDS):
                now = time.monotonic()
                with self._changed:
                    self.seen.append((now, event["object"]))
                    self._changed.notify_all()
        except OSError:
            pass  # the API server has ended; a call that still waits runs into its time limit

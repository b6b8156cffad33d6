# SPDX-License-Identifier: Apache-2.0
"""Waiting for conditions, with a bound, and free ports."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


def wait_until(
    condition: Callable[[], Value],
    timeout: float,
    what: str | Callable[[], str],
    pause: float = 0.005,
) -> Value:
    """Asks until the answer is true and returns it; TimeoutError names `what` was waited for.

    `what` may be a function, so that the message can tell the last state that was seen.
    """
    deadline = time.monotonic() + timeout
    while True:
        if value := condition():
            return value
        if time.monotonic() > deadline:
            text = what if isinstance(what, str) else what()
            raise TimeoutError(f"after {timeout:g} s there is still no {text}")
        time.sleep(pause)


def free_port() -> int:
    """A port on the loopback address that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]

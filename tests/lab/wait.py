# SPDX-License-Identifier: Apache-2.0
"""Waiting for conditions, with a bound, and free ports."""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Callable
from itertools import chain
from typing import TypeVar

Value = TypeVar("Value")

_STRETCH_MAX = 8
_PAUSE_MAX = 0.1  # a longer pause finds the answer late, a shorter one takes time from the machine that has to answer


def stretch(seconds: float) -> float:
    """A limit that a machine with nothing else to do keeps, for one that is as busy as this one."""
    load = os.getloadavg()[0] / len(os.sched_getaffinity(0))
    return seconds * min(max(load, 1), _STRETCH_MAX)


def wait_until(
    condition: Callable[[], Value | None],
    timeout: float,
    what: str | Callable[[], str],
    pause: float = 0.005,
    is_exact: bool = False,
    rest: Callable[[float], object] = time.sleep,
) -> Value:
    """Asks until the answer is true and returns it; TimeoutError names `what` was waited for.

    `what` may be a function, so that the message can name the last state that was seen. A busy
    machine gets more time, unless the limit is exact: that nothing comes is what is to be proved.
    `rest` gets the length of each pause, and may return as soon as another answer is possible.
    """
    began = time.monotonic()
    while True:
        if value := condition():
            return value
        if (waited := time.monotonic() - began) > (timeout if is_exact else stretch(timeout)):
            text = what if isinstance(what, str) else what()
            raise TimeoutError(f"after {waited:.1f} s there is still no {text}")
        rest(max(pause, min(waited / 20, _PAUSE_MAX)))


# Held until this process ends. Their names are of this network namespace, as ports are, and vanish
# with the process.
_reservations: list[socket.socket] = []

def reserve(name: str) -> socket.socket | None:
    """Held until it is closed or this process ends; None: it is reserved already."""
    reservation = socket.socket(socket.AF_UNIX)
    try:
        reservation.bind(f"\0inplaced-tests-{name}")
    except OSError:
        reservation.close()
        return None
    _reservations.append(reservation)
    return reservation


_PORTS = range(20000, 30000)  # outgoing connections use higher ones, see ip_local_port_range


def free_port() -> int:
    """A port on the loopback address that no program listens on, and that no other call returns.

    A server may be stopped and started on it: neither a connection nor another test takes it.
    """
    first = random.randrange(len(_PORTS))
    for port in chain(_PORTS[first:], _PORTS[:first]):
        reservation = reserve(f"port-{port}")
        if reservation is None:
            continue
        try:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            reservation.close()
            continue
        return port
    raise RuntimeError(f"no port from {_PORTS.start} to {_PORTS.stop - 1} is free")

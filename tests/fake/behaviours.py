# SPDX-License-Identifier: Apache-2.0
"""Behaviours of the fake runtime, which it may show instead of answering a call well.

A behaviour is a function of the call and of the good answer, which it may ask for, change, delay or
forget. The functions here make the usual ones:

    runtime.on("PullImage", behaviours.hang())
    runtime.on("ImageStatus", behaviours.lie_about_id("sha256:beef"), image="demo/web:1")
    runtime.on("Version", behaviours.in_turn(behaviours.fail("UNAVAILABLE", "away"), normal()))
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import grpc

# A call that is not ended keeps its thread; this bounds how long a broken test can.
_LONGEST_SECONDS = 300


@dataclass(eq=False)
class Call:
    """A call that reached the runtime. Times are of time.monotonic().

    `ended_at` is set when the call is over, and `cancelled` says whether the caller had given up
    on it (cancelled it, let its deadline pass, or went away) before it got an answer.
    """

    method: str
    service: str
    request: Any
    image: str
    metadata: dict[str, str]
    began_at: float
    ended_at: float | None = None
    cancelled: bool = False
    context: Any = field(default=None, repr=False)
    over: threading.Event = field(default_factory=threading.Event, repr=False)

    def wait_over(self, timeout: float) -> bool:
        """Waits until the caller is gone or has its answer."""
        return self.over.wait(timeout)


Answer = Any  # a protobuf message, or bytes that are sent as they are
Behaviour = Callable[[Call, Callable[[], Answer]], Answer]


def normal() -> Behaviour:
    return lambda call, good: good()


def hang() -> Behaviour:
    """Never answers; the call ends when the caller gives up."""

    def behave(call: Call, good: Callable[[], Answer]) -> Answer:
        call.wait_over(_LONGEST_SECONDS)
        return b""

    return behave


def slow(seconds: float) -> Behaviour:
    """Answers well, but late, and not at all once the caller gave up."""

    def behave(call: Call, good: Callable[[], Answer]) -> Answer:
        return b"" if call.wait_over(seconds) else good()

    return behave


def when(released: threading.Event) -> Behaviour:
    """Answers well once the test sets the event."""

    def behave(call: Call, good: Callable[[], Answer]) -> Answer:
        deadline = time.monotonic() + _LONGEST_SECONDS
        while not released.wait(0.005):
            if call.over.is_set() or time.monotonic() > deadline:
                return b""
        return good()

    return behave


def fail(code: str, text: str) -> Behaviour:
    """`code` is the name of a gRPC status, such as "NOT_FOUND"."""

    def behave(call: Call, good: Callable[[], Answer]) -> Answer:
        call.context.abort(grpc.StatusCode[code], text)

    return behave


def answer(message: Answer) -> Behaviour:
    """Sends a message, or bytes that need not be one."""
    return lambda call, good: message


def garbage() -> Behaviour:
    """Sends bytes that are no protobuf message at all: a length that points beyond the end."""
    return answer(b"\x0a\xff\xff\xff\x7fgarbage")


def lie_about_id(image_id: str) -> Behaviour:
    """Answers well but for the image's ID, in ImageStatus, PullImage or ListImages."""

    def behave(call: Call, good: Callable[[], Answer]) -> Answer:
        message = good()
        if call.method == "PullImage":
            message.image_ref = image_id
        elif call.method == "ImageStatus":
            message.image.id = image_id
        else:
            for image in message.images:
                image.id = image_id
        return message

    return behave


def huge(megabytes: int) -> Behaviour:
    """Answers ImageStatus or ListImages with that many megabytes of well-formed digests."""

    def behave(call: Call, good: Callable[[], Answer]) -> Answer:
        message = good()
        image = message.image if call.method == "ImageStatus" else message.images.add()
        digest = "example.invalid/huge@sha256:" + "0" * 64
        image.repo_digests.extend([digest] * (megabytes * 1_000_000 // (len(digest) + 2)))
        return message

    return behave


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """Takes the behaviours one after the other, a call each; the last one stays."""
    rest = itertools.chain(behaviours, itertools.repeat(behaviours[-1]))
    lock = threading.Lock()

    def behave(call: Call, good: Callable[[], Answer]) -> Answer:
        with lock:
            chosen = next(rest)
        return chosen(call, good)

    return behave

# SPDX-License-Identifier: Apache-2.0
"""Connections that another user makes: the kernel notes who calls connect(), and no later change."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc

from lab import stubs
from lab.agent import Agent

NOBODY = 65534
DAEMON = 1  # Debian's group "daemon" is always this one


@contextmanager
def become(user: int, *groups: int) -> Iterator[None]:
    """All threads of this process are that user's; the first group is the primary one."""
    before = os.getgroups()
    os.setgroups(groups[1:])
    os.setegid(groups[0])
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(before)


@contextmanager
def node_stub_of(agent: Agent, user: int, *groups: int) -> Iterator[Any]:
    """The local API over a connection of that user."""
    options = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    with become(user, *groups):
        channel = grpc.insecure_channel(f"unix:{agent.socket}", options=options)
        grpc.channel_ready_future(channel).result(timeout=20)
    with channel:
        yield stubs.load("inplaced.v1.node").services.NodeStub(channel)

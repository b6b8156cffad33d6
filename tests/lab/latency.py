# SPDX-License-Identifier: Apache-2.0
"""How long callers wait for an agent while something keeps it busy."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable

import grpc

from . import sanitizers
from .agent import Agent
from .cri import Cri
from .wait import stretch

from lab.cleanup import Closing

_LIMIT = 0.5 * sanitizers.SLOWNESS  # seconds


class Latency(Closing):
    """In its block, calls the local API again and again: what the agent answers by itself, and what it has to ask
    the runtime for. The runtime is asked directly as well, since it may be the one that is slow.
    """

    def __init__(self, agent: Agent, cri: Cri) -> None:
        node, messages = agent.node, agent.messages
        self.most_memory = 0  # most memory that the agent has had, in KiB
        self._agent = agent
        self._calls: dict[str, Callable[[], object]] = {
            "agent": lambda: node.GetVersion(messages.GetVersionRequest(), timeout=10),
            "through": lambda: node.Verify(messages.VerifyRequest(), timeout=10),
            "runtime": lambda: cri.pod_containers("nobody"),
        }
        self._took: dict[str, list[float]] = {name: [] for name in self._calls}
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(name,)) for name in self._calls]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _run(self, name: str) -> None:
        while not self._end.wait(0.05):
            began = time.monotonic()
            try:
                self._calls[name]()
                self.most_memory = max(self.most_memory, self._agent.memory().anonymous)
            except (grpc.RpcError, OSError):
                pass
            self._took[name].append(time.monotonic() - began)

    def check(self) -> None:
        """Nearly all are served in time: the tests share the machine with the agent, which stands still at times."""
        self._agent.process.check_alive()
        last = {name: statistics.quantiles(took, n=20)[-1] for name, took in self._took.items()}
        assert last["agent"] < stretch(_LIMIT), last
        assert last["through"] - last["runtime"] < stretch(_LIMIT), last

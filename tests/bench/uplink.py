# SPDX-License-Identifier: Apache-2.0
"""A registry that is far away."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right

from fake.tcp_proxy import TcpProxy


class Uplink(TcpProxy):
    """The uplink of a registry: all connections share so many bytes a second."""

    def __init__(self, server: tuple[str, int], bytes_per_second: float) -> None:
        self.bytes_per_second = bytes_per_second
        self._free_at = 0.0
        self._times: list[float] = []
        self._totals: list[int] = []
        super().__init__(server)

    def carried(self, began: float, ended: float) -> int:
        """How many bytes passed between two times of time.monotonic()."""
        return self._total(ended) - self._total(began)

    def _total(self, at: float) -> int:
        n = bisect_right(self._times, at)
        return self._totals[n - 1] if n > 0 else 0

    async def _admit(self, n_bytes: int) -> None:
        self._free_at = max(self._free_at, time.monotonic()) + n_bytes / self.bytes_per_second
        await asyncio.sleep(self._free_at - time.monotonic())
        self._totals.append((self._totals[-1] if self._totals else 0) + n_bytes)
        self._times.append(time.monotonic())

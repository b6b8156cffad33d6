# SPDX-License-Identifier: Apache-2.0
"""A network interface with addresses that nothing else on the machine has.

Its other end is in a network namespace that only a mount in our folder keeps alive. So
sweeping the folder removes the interface as well, however we died.
"""

from __future__ import annotations

import itertools
import json
import secrets
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from ipaddress import IPv4Network
from pathlib import Path

from lab.wait import reserve

# For tests of networks (RFC 2544): neither the internet nor a private network is there.
_FIRST_NETWORK = (198, 18)
_N_NETWORKS = 512


class Interface:
    """`address` is its own; `subnet` is free for pods, apart from that one."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        namespace = folder / "netns"
        namespace.touch()
        _run("unshare", f"--net={namespace}", "true")
        self.name = f"lab{secrets.token_hex(5)}"
        _run(*("ip", "link", "add", self.name, "type", "veth"), *("peer", "name", f"p{self.name}"))
        shown = _run("ip", "-json", "link", "show", self.name)
        first, second = _FIRST_NETWORK
        # The index is unique as long as the interface is there, but there are more indexes.
        for number in itertools.count(json.loads(shown)[0]["ifindex"]):
            high, low = divmod(number % _N_NETWORKS, 256)
            network = f"{first}.{second + high}.{low}"
            if not json.loads(_run("ip", "-json", "address", "show", "to", f"{network}.1")):
                break
        self.address = f"{network}.1"
        self.subnet = f"{network}.0/24"
        _run("ip", "address", "add", f"{self.address}/32", "dev", self.name)
        _run("ip", "link", "set", self.name, "up")
        with namespace.open() as target:
            there = f"/proc/self/fd/{target.fileno()}"
            _run("ip", "link", "set", f"p{self.name}", "netns", there, keep=target.fileno())


    def add(self, address: str) -> None:
        """Adds an address of this machine, until the interface is gone."""
        _run("ip", "address", "add", f"{address}/32", "dev", self.name)


@contextmanager
def free_network(networks: Iterable[IPv4Network]) -> Iterator[IPv4Network]:
    """The first of which this machine has no address. No other test gets it inside; to keep it, give an interface an address of
    it there.
    """
    for network in networks:
        reservation = reserve(f"network-{network}")
        if reservation is None:
            continue
        with reservation:
            if not json.loads(_run("ip", "-json", "address", "show", "to", str(network))):
                yield network
                return
    raise RuntimeError("this machine has addresses of all networks for tests")


def _run(*argv: str, keep: int | None = None) -> str:
    kept = () if keep is None else (keep,)
    ran = subprocess.run(argv, capture_output=True, text=True, pass_fds=kept)
    if ran.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: {ran.stderr.strip()}")
    return ran.stdout

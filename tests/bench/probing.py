# SPDX-License-Identifier: Apache-2.0
"""The cost of probes that run every second, and the writes about them.

Beside it stands what the same probes cost a program that only makes them (probe-floor.c).
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from functools import cache

from lab.cleanup import Closing
from lab.folder import LabFolder
from lab.node_pod_probe import NodePodProbe, probe, probes_of
from lab.pod import Pod, container
from lab.process import Process
from lab.wait import wait_until

from floor import build_program
from node import Node
from pods import PodNode
from resting import measure_cost
from table import Limit, Row

_WRITE_SECONDS = 1
_COUNTS = (10, 100, 500)
_QUICK_SECONDS, _SECONDS = 5, 60
_FLOOR_SECONDS = 20

# As if there were some pods: who closes a connection first keeps its port for a minute, and there
# are 28,232 of them for each address and port of a server.
_N_PORTS = 10
_LIMIT = Limit(3, "< 3 % for 500")
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


class _Server(Closing):
    """Takes all connections to some ports at once and answers what is asked in HTTP, until closed.

    What serves pods in a shell starts a process for each connection, and is slower than 500 probes.
    """

    def __init__(self, address: str) -> None:
        self._sockets = [
            socket.create_server((address, 0), backlog=1024) for _ in range(_N_PORTS)
        ]
        self.address = address
        self.ports = [one.getsockname()[1] for one in self._sockets]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        self.stop()

    def stop(self) -> None:
        """From now on connections are refused."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            for one in self._sockets:
                one.close()

    def _run(self) -> None:
        for one in self._sockets:
            self._loop.run_until_complete(asyncio.start_server(self._serve, sock=one))
        self._loop.run_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.read(4096):
            writer.write(_ANSWER)
        writer.close()


def measure(node: Node) -> list[Row]:
    with PodNode(node) as lab, _Server(lab.kubelet.interface.address) as server:
        main = container("main", lab.image, volumeMounts=[])
        more = dict(owner=False, volumes=[], hostNetwork=True)
        pod = Pod(lab.kubelet, main, name="probed", **more).start()
        requested = NodePodProbe(lab.kube, lab.kubelet.name)
        rows = []
        for kind in ("tcpSocket", "httpGet"):
            for n in _COUNTS:
                asked = [probe(f"{kind}#{i}", **_handler(kind, server, i)) for i in range(n)]
                requested.request(probes_of(pod, *asked))
                rows += _measure(lab, kind, n, server)
        # An object may only have so many events, and that pod has had them.
        other = Pod(lab.kubelet, main, name="other", **more).start()
        requested.request(probes_of(other, probe("one#tcp", **_handler("tcpSocket", server))))
        rows += _measure_transition(lab, other, requested, server)
        return rows


def _handler(kind: str, server: _Server, number: int = 0) -> dict[str, dict[str, object]]:
    port = server.ports[number % _N_PORTS]
    return {kind: {"port": port, "path": "/page"} if kind == "httpGet" else {"port": port}}


@cache
def _build_floor() -> LabFolder:
    return build_program("probe-floor.c", ["libcurl"])


def _measure_floor(lab: PodNode, kind: str, n: int, server: _Server) -> float:
    """Percent of a core."""
    ports = [str(port) for port in server.ports]
    argv = [str(_build_floor() / "probe-floor"), kind, str(n), server.address, *ports]
    folder = lab.node.folder
    floor = Process(argv, folder, folder / f"floor-{kind}-{n}.log")
    try:
        cost = measure_cost(floor.pid, _QUICK_SECONDS if lab.quick else _FLOOR_SECONDS)
        floor.check_alive()
    finally:
        floor.kill9()
    return cost.cpu / 600


def _measure(lab: PodNode, kind: str, n: int, server: _Server) -> list[Row]:
    _wait_written(lab, n)
    metrics = lab.agent.metrics
    writes, runs = _writes(lab), metrics().total("inplaced_probe_runs_total")
    began = time.monotonic()
    cost = measure_cost(lab.agent.process.pid, _QUICK_SECONDS if lab.quick else _SECONDS)
    rate = (metrics().total("inplaced_probe_runs_total") - runs) / (time.monotonic() - began)
    floor = _measure_floor(lab, kind, n, server)
    name = f"{n} {kind} probes"
    return [
        Row(f"{name}: CPU of one core", cost.cpu / 600, floor, "%", _LIMIT, digits=2),
        Row(f"{name}: runs", rate, None, "/s"),
        Row(f"{name}: resident memory", cost.rss, None, "MB"),
        Row(f"{name}: writes meanwhile", _writes(lab) - writes, None, "", Limit(0, "0")),
    ]


def _measure_transition(
    lab: PodNode, pod: Pod, requested: NodePodProbe, server: _Server
) -> list[Row]:
    _wait_written(lab, 1)
    lab.audit.begin()
    server.stop()
    requested.wait_state(pod, "one#tcp", "Failed")
    wait_until(lambda: lab.audit.created_events("KruiseProbeFailed"), 10, "event")
    patches, events = lab.audit.probe_patches(), lab.audit.created_events("KruiseProbe")
    return [
        Row("one probe fails: patches", patches, None, "", Limit(1, "1")),
        Row("one probe fails: events", events, None, "", Limit(1, "1")),
    ]


def _wait_written(lab: PodNode, n: int) -> None:
    """Waits until all have succeeded, and the last result was written: a write a second at most."""

    def is_done() -> bool:
        found = lab.agent.metrics()
        others = sum(found.total("inplaced_probes", state=s) for s in ("failed", "unknown"))
        return found.total("inplaced_probes", state="succeeded") == n and not others

    wait_until(is_done, 60, f"success of {n} probes", pause=0.5)
    time.sleep(2 * _WRITE_SECONDS)


def _writes(lab: PodNode) -> float:
    return lab.agent.metrics().total("inplaced_probe_writes_total")

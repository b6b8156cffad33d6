# SPDX-License-Identifier: Apache-2.0
"""Thousands of agents on this machine, each a process with a node of its own, against one API server and one runtime.

Pulling is not measured: the runtime has the images before. What counts is what the agents ask of the API server.
The fleet grows from size to size while there is memory, and each size goes through the same steps.
"""

from __future__ import annotations

import ctypes
import math
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from lab.cleanup import MARKER, Closing
from lab.control_plane import ControlPlane
from lab.documents import has_succeeded
from lab.inplace import Inplace
from lab.kube import KubeError, Object
from lab.metrics import Metrics, parse_metrics
from lab.node_image import GROUP, ImageSet
from lab.process import DIES_WITH_US
from lab.wait import wait_until

import machine
from node import Node
from table import Row

_SIZES = [500, 1000, 2000, 3500, 5000]
_UNMEASURED = 3500  # the fleet rests there until its pages are merged, else the next agents would find no room
_SPARE_MEBIBYTES = 3000
_MEBIBYTES_EACH = 6  # until its pages are merged, and what the API server keeps for it
_STEP_SECONDS = 900
_SAMPLE_SECONDS = 1
_OWN_RATE = 6  # requests a second of the API server itself and of this program
_STEADY_RATE = 0.01  # the same of an agent without pods, which reads its Node every 5 minutes, and tries a write every 10
_IDLE_SECONDS = 60
_WATCHES_EACH = 5
_MERGING = Path("/sys/kernel/mm/ksm")
_PR_SET_MEMORY_MERGE = 67  # prctl(2)
_LIMITS = {Path("/proc/sys/fs/inotify/max_user_instances"): 4, Path("/proc/sys/kernel/pid_max"): 16}  # each agent needs so many
_IMAGES = f"/apis/{GROUP}/v1beta1/nodeimages"
_STATUS = {"resource": "nodeimages", "subresource": "status"}
_MIB = 1 << 20


@dataclass(frozen=True)
class Sample:
    """The API server's counters since its start."""

    at: float
    requests: float  # without watches; with the API server's own, a few a second
    sent: float  # bytes of answers and of watches
    cpu: float  # seconds
    watches: float
    resident: float  # bytes
    checks: float  # writes that agents tried, to see whether they are refused
    statuses: float  # statuses that agents wrote

    @classmethod
    def of(cls, metrics: Metrics) -> Sample:
        requests = metrics.total("apiserver_request_total") - metrics.total("apiserver_request_total", verb="WATCH")
        sent = metrics.total("apiserver_response_sizes_sum") + metrics.total("apiserver_watch_events_sizes_sum")
        return cls(
            time.monotonic(),
            requests,
            sent,
            metrics.total("process_cpu_seconds_total"),
            metrics.total("apiserver_longrunning_requests", verb="WATCH"),
            metrics.total("process_resident_memory_bytes"),
            metrics.total("apiserver_request_total", dry_run="All"),
            metrics.total("apiserver_request_total", verb="PATCH", code="200", **_STATUS),
        )


@dataclass(frozen=True)
class Step:
    """The work of the API server from the begin of a step until nothing came any more."""

    seconds: float  # until the step was done; events, for one, may come thereafter
    requests: float
    peak: float  # requests a second
    sent: float
    cpu: float


class Fleet(Closing):
    """Agents that are registered by themselves, until closed.

    Two thirds of an agent's memory are relocated libraries, equal in all of them if they lie at equal addresses. The kernel
    merges such pages, where it can, between the steps: else 5,000 agents would need 17 GB.
    """

    def __init__(self, node: Node, control_plane: ControlPlane) -> None:
        self.control_plane = control_plane
        self.admin = control_plane.admin
        self._node = node
        self._folder = node.folder / "fleet"
        self._config = self._folder / "config.yaml"
        self._kubeconfig = node.folder / "fleet.conf"
        self._environment = {**os.environ, MARKER: str(self._folder), "MALLOC_ARENA_MAX": "2", "KUBECONFIG": ""}
        self._agents: list[subprocess.Popen[bytes]] = []
        self._limits: dict[Path, str] = {}
        self._prctl = ctypes.CDLL(None).prctl

    def start(self) -> None:
        self._folder.mkdir()
        self._config.touch()
        token = self.control_plane.service_account_token("inplaced", "unbound")
        self.control_plane.write_kubeconfig(self._kubeconfig, token=token)
        for limit, n_each in _LIMITS.items():
            self._limits[limit] = limit.read_text()
            limit.write_text(str(max(int(self._limits[limit]), n_each * _SIZES[-1])))
        if _MERGING.exists():
            for name in ("run", "pages_to_scan"):
                self._limits[_MERGING / name] = (_MERGING / name).read_text()
            (_MERGING / "pages_to_scan").write_text("10000")

    def close(self) -> None:
        for agent in self._agents:
            agent.kill()
        for agent in self._agents:
            agent.wait()
        if _MERGING.exists():
            (_MERGING / "run").write_text("2")  # the kernel forgets the pages of those that have ended
        for limit, text in self._limits.items():
            limit.write_text(text)

    def merge(self) -> None:
        """Equal pages of the agents take memory once from now on, until one of them writes to its own.

        Nothing where the kernel does not let an agent take part: then it makes no scans either.
        """
        status = Path(f"/proc/{self._agents[0].pid}/ksm_stat")
        if not status.exists() or "ksm_merge_any: yes" not in status.read_text():
            return

        def n_scans() -> int:
            return int((_MERGING / "full_scans").read_text())

        scans = n_scans() + 3  # a page is merged by the second that finds it unchanged; the first has begun
        (_MERGING / "run").write_text("1")
        wait_until(lambda: n_scans() >= scans, _STEP_SECONDS, "merged pages")
        (_MERGING / "run").write_text("0")

    def __len__(self) -> int:
        return len(self._agents)

    def grow(self, size: int) -> None:
        """The nodes are there before the first agent starts."""
        for number in range(len(self), size):
            self.admin.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": _name(number)}})
        for number in range(len(self), size):
            self._agents.append(self._spawn(number))

    def restart(self, share: float) -> None:
        """Kills so many of them, and starts them again at once."""
        numbers = range(round(len(self) * share))
        for number in numbers:
            self._agents[number].kill()
        for number in numbers:
            self._agents[number].wait()
        for number in numbers:
            self._agents[number] = self._spawn(number)

    def check(self) -> None:
        """RuntimeError if one has ended."""
        ended = [f"{_name(i)}: {one.returncode}" for i, one in enumerate(self._agents) if one.poll() is not None]
        if ended:
            raise RuntimeError(f"{len(ended)} agents have ended: {', '.join(ended[:5])}")

    def memory(self) -> float:
        """Mebibytes of an agent as if no page had been merged; the files that they share are divided among them."""
        return mean(_kilobytes(agent.pid) for agent in self._agents) / 1024

    def cpu(self) -> float:
        """Seconds that they have used since their start."""
        return sum(_cpu_ticks(agent.pid) for agent in self._agents) / os.sysconf("SC_CLK_TCK")

    def n_registered(self) -> int:
        metadata = self.admin.get(_IMAGES, limit="1")
        return len(metadata["items"]) + metadata["metadata"].get("remainingItemCount", 0)

    def count(self, is_right: Callable[[Object], bool]) -> int:
        return sum(map(is_right, self.admin.list(_IMAGES)))

    def _spawn(self, number: int) -> subprocess.Popen[bytes]:
        folder = self._folder / str(number)
        for name in ("state", "images.d", "auth"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        argv = [
            *DIES_WITH_US, "setarch", "-R", "--", self._node.build_dir / "agent" / "inplaced",
            f"--node-name={_name(number)}", f"--config={self._config}", f"--socket={folder}/s",
            f"--state-dir={folder}/state", f"--images-dir={folder}/images.d", f"--auth-dir={folder}/auth",
            "--metrics-address=", "--kubelet-health-address=", "--register-node", "--min-free-disk=0",
            f"--runtime-endpoint={self._node.runtime.endpoint}", "--mode=cluster",
            f"--kubeconfig={self._kubeconfig}", "--log-format=text", "--log-level=warning",
        ]  # fmt: skip
        log = self._folder / "log"
        with log.open("ab") as output:
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment,
                preexec_fn=lambda: self._prctl(_PR_SET_MEMORY_MERGE, 1, 0, 0, 0),
            )


class Meter:
    """Watches the API server's work."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def sample(self) -> Sample:
        return Sample.of(parse_metrics(self._fleet.admin.request("GET", "/metrics")))

    def step(
        self,
        begin: Callable[[], object],
        is_done: Callable[[Sample], bool] | None = None,
        is_proven: Callable[[], bool] = lambda: True,
        is_new: bool = False,
    ) -> Step:
        """Runs a step until it is done (None: when it has begun) and quiet. is_new: the counters begin anew in it.

        is_proven is a costly question, asked when it seems to be over; if it is not, the end is when it becomes quiet again.
        """
        before = self.sample()
        began = time.monotonic()
        begin()
        done = math.inf if is_done else time.monotonic()
        samples = [Sample(began, *[0] * 7) if is_new else before]
        quiet, was_early, deadline = 0, False, began + _STEP_SECONDS
        while quiet < 3:
            if time.monotonic() > deadline:
                raise TimeoutError(f"not done after {_STEP_SECONDS} s: {samples[-1]}")
            time.sleep(_SAMPLE_SECONDS)
            try:
                samples.append(self.sample())
                is_right = not is_done or is_done(samples[-1])
            except TimeoutError:  # the API server is too busy
                is_right = False
            is_quiet = is_right and _rate(*samples[-2:]) <= max(_OWN_RATE, len(self._fleet) * _STEADY_RATE)
            if is_done:
                done = min(done, samples[-1].at) if is_right and (is_quiet or not was_early) else math.inf
            quiet = quiet + 1 if is_quiet else 0
            if quiet == 3 and not is_proven():
                quiet, was_early = 0, True
            self._fleet.check()
        first, last = samples[0], samples[-1]
        return Step(
            done - began,
            last.requests - first.requests,
            max(_rate(*pair) for pair in zip(samples, samples[1:])),
            last.sent - first.sent,
            last.cpu - first.cpu,
        )


def _rate(before: Sample, after: Sample) -> float:
    return (after.requests - before.requests) / (after.at - before.at)


def _name(number: int) -> str:
    return f"fleet-{number:05}"


def _kilobytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Anonymous:", "Pss_File:", "Swap:")))


def _cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return int(fields[11]) + int(fields[12])


def measure(node: Node) -> list[Row]:
    sizes = [20, 40] if node.quick else _SIZES
    rows: list[Row] = []
    with ControlPlane(node.folder / "control-plane") as control_plane:
        control_plane.install()
        with Fleet(node, control_plane) as fleet:
            for size in sizes:
                needed = (size - len(fleet)) * _MEBIBYTES_EACH + _SPARE_MEBIBYTES
                if machine.available_mebibytes() < needed:
                    print(f"fleet: {size} agents need {needed} MiB, which this machine has not", flush=True)
                    break
                try:
                    if size == _UNMEASURED:
                        _start(node, fleet, Meter(fleet), size)
                    else:
                        rows += _measure_size(node, fleet, size)
                except (OSError, RuntimeError) as error:
                    if not rows:
                        raise
                    print(f"fleet: {size} agents: {error!r}; its figures are left out", flush=True)
                    break
    return rows


def _start(node: Node, fleet: Fleet, meter: Meter, size: int) -> tuple[Step, Callable[[Sample], bool]]:
    """Starts agents until there are so many; also says how to see that all watch."""
    n_new = size - len(fleet)
    before = meter.sample()
    watches, n_checks = before.watches + n_new * _WATCHES_EACH, before.checks + n_new

    def all_watch(sample: Sample) -> bool:
        return sample.watches >= watches

    started = meter.step(lambda: fleet.grow(size), lambda one: all_watch(one) and fleet.n_registered() == size)
    fleet.merge()
    if not node.quick:  # an agent tries a write a minute after its start: the next step begins thereafter
        meter.step(lambda: None, lambda one: one.checks >= n_checks)
    return started, all_watch


def _measure_size(node: Node, fleet: Fleet, size: int) -> list[Row]:
    meter = Meter(fleet)
    n_new = size - len(fleet)
    started, all_watch = _start(node, fleet, meter, size)
    tool, preload = _preload(node, fleet, meter)
    image_set = _serve_set(node, fleet, meter)
    idle, cpu = _be_idle(node, fleet, meter)
    restarted = meter.step(lambda: fleet.restart(0.1), all_watch)
    fleet.merge()
    memory, resident = fleet.memory(), meter.sample().resident
    server = meter.step(lambda: _restart_server(fleet), all_watch, is_new=True)

    def row(name: str, figure: float, unit: str, digits: int = 1) -> Row:
        return Row(name, figure, None, unit, digits=digits, size=size)

    return [
        row("memory of each agent", memory, "MB"),
        row("memory of the API server", resident / _MIB, "MB", 0),
        row("preload, memory of kubectl inplace", tool, "MB"),
        row("start of new ones, how many", n_new, "agents", 0),
        row("start, until all watch", started.seconds, "s"),
        row("start, requests of each", started.requests / n_new, "requests"),
        row("start, peak", started.peak, "requests/s", 0),
        row("preload, until all nodes say Succeeded", preload.seconds, "s"),
        row("preload, requests of each", preload.requests / size, "requests"),
        row("preload, sent to each", preload.sent / size / 1000, "kB"),
        row("preload, CPU of the API server", preload.cpu, "CPU s"),
        row("image set, until all nodes say Succeeded", image_set.seconds, "s"),
        row("image set, requests of each", image_set.requests / size, "requests"),
        row("image set, sent to each", image_set.sent / size / 1000, "kB"),
        row("image set, CPU of the API server", image_set.cpu, "CPU s"),
        row("idle minute, requests of each", idle.requests / size, "requests", 2),
        row("idle minute, CPU of the API server", idle.cpu, "CPU s"),
        row("idle minute, CPU of each agent", cpu / size, "CPU s", 4),
        row("10 % killed and started, until all watch again", restarted.seconds, "s"),
        row("10 % killed and started, requests of each", restarted.requests / round(size * 0.1), "requests"),
        row("10 % killed and started, peak", restarted.peak, "requests/s", 0),
        row("API server killed and started, until all watch again", server.seconds, "s"),
        row("API server killed and started, requests of each", server.requests / size, "requests"),
        row("API server killed and started, peak", server.peak, "requests/s", 0),
    ]


def _push(node: Node, name: str, size: int) -> str:
    reference = node.registry.push_image(f"bench/{name}", str(size), [1000], seed=size).reference
    node.runtime.pull(reference)
    return reference


def _preload(node: Node, fleet: Fleet, meter: Meter) -> tuple[float, Step]:
    """Also the most memory that the command took, in MB."""
    reference = _push(node, "fleet", len(fleet))
    tool = Inplace(fleet.control_plane.admin_kubeconfig, node.folder / "home", node.build_dir)
    tool.folder.mkdir(exist_ok=True)
    peak = 0

    def run() -> None:
        nonlocal peak
        arguments = ("preload", reference, "--parallelism", "100%", "--timeout", f"{_STEP_SECONDS}s")
        ran, peak = tool.measure(*arguments, timeout=_STEP_SECONDS)
        if ran.code != 0:
            raise RuntimeError(f"kubectl inplace preload ended with {ran.code}: {ran.stderr[-500:]}")

    step = meter.step(run)
    if (n := fleet.count(lambda one: has_succeeded(one, reference))) != len(fleet):
        raise RuntimeError(f"{n} of {len(fleet)} nodes have {reference}")
    return peak / 1024, step


def _serve_set(node: Node, fleet: Fleet, meter: Meter) -> Step:
    reference = _push(node, "set", len(fleet))
    image_set = ImageSet(fleet.admin, "fleet-set")

    def is_there(one: Object) -> bool:
        return one["metadata"]["name"] != image_set.name and has_succeeded(one, reference)

    n_before = meter.sample().statuses
    step = meter.step(
        lambda: image_set.create_set("", reference),
        lambda one: one.statuses >= n_before + len(fleet),
        lambda: fleet.count(is_there) == len(fleet),
    )
    n_before = meter.sample().statuses
    meter.step(image_set.delete, lambda one: one.statuses >= n_before + len(fleet))
    return step


def _be_idle(node: Node, fleet: Fleet, meter: Meter) -> tuple[Step, float]:
    """Measures a minute in which nothing happens; also the seconds of CPU of all agents."""
    seconds = 5 if node.quick else _IDLE_SECONDS
    before, cpu = meter.sample(), fleet.cpu()
    time.sleep(seconds)
    after, factor = meter.sample(), 60 / seconds
    used = fleet.cpu() - cpu
    step = Step(
        after.at - before.at,
        (after.requests - before.requests - 1) * factor,
        0,
        (after.sent - before.sent) * factor,
        (after.cpu - before.cpu) * factor,
    )
    return step, used * factor


def _restart_server(fleet: Fleet) -> None:
    def answers() -> bool:
        try:
            return fleet.admin.request("GET", "/readyz") == "ok"
        except (OSError, KubeError):
            return False

    fleet.control_plane.apiserver.kill9()
    fleet.control_plane.apiserver.start(wait_ready=False)
    wait_until(answers, _STEP_SECONDS, "API server")

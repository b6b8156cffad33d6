# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of the whole program, with and without a cluster.

One real runtime and one real registry serve all tests, so a test names its images after itself
(fixture `image_name`) and removes what it leaves in the runtime (fixture `push` does that).
"""

from __future__ import annotations

import math
import os
import platform
import re
import threading
import zlib
from collections.abc import Callable, Iterator, Set
from pathlib import Path
from typing import Any

import pytest

from compatibility import note
from count import read_reasons
from fake.registry import FakeRegistry
from fake.runtime import FakeRuntime
from lab import runtimes, sanitizers
from lab.agent import Agent
from lab.failing_call import FailingCall
from lab.folder import LabFolder
from lab.image import build_image
from lab.layers import random_layer
from lab.registry import PushedImage, Registry
from lab.runtime import Runtime
from lab.wait import wait_until

_TESTS = Path(__file__).parent
_UNSANITIZED = set(read_reasons((_TESTS / "unsanitized").read_text()))
_TWICE = set(read_reasons((_TESTS / "twice").read_text()))
_MAIN = set(read_reasons((_TESTS / "main").read_text()))
_OLDER = set(read_reasons((_TESTS / "older").read_text()))
_MUST_REPEAT = os.environ.get("INPLACED_REPEATED") != "no"
_REPEATED = set(read_reasons((_TESTS / "repeated").read_text()))
_KIND = re.compile("(?<![a-z])(deployment|statefulset|daemonset|replicaset)(?![a-z])")
_EACH_RUNTIME = set(read_reasons((_TESTS / "each-runtime").read_text()))
_ELSEWHERE = _TESTS / "not-on" / runtimes.NAME
_NOT_HERE = set(read_reasons(_ELSEWHERE.read_text())) if _ELSEWHERE.exists() else set()
_RUNTIME_FIXTURES = {"runtime", "new_runtime", "node"}
_TIMEOUT_SECONDS = 60
_PATIENCE = 3
# The most of a long file that one worker runs together. In tests/node nothing is dear that a part has of its own. In
# tests/cluster it may be a cluster, but not on further runtimes; with sanitizers and on an older Kubernetes a stage has
# fewer files with one, and is over sooner.
_PART_SECONDS_OF_NODE = 6
_PART_SECONDS = 60 if runtimes.NAME != runtimes.DEFAULT else 250 if sanitizers.NAME else 900
_PART_SECONDS_OF_OLDER = 300
_LASTING_SECONDS = 200  # for one test
_AGENTS = pytest.StashKey[list[Agent]]()

PushImage = Callable[..., PushedImage]
StartAgent = Callable[..., Agent]


def pytest_configure(config: pytest.Config) -> None:
    system = platform.freedesktop_os_release()
    note(system["ID"].capitalize(), system.get("VERSION_ID", "0"))
    config.addinivalue_line("markers", "main: is in tests/main")
    config.addinivalue_line("markers", "older: is in tests/older")
    config.addinivalue_line("markers", "sanitized: runs with sanitizers in tests/run, and then not without")
    config.addinivalue_line("markers", "slow: takes more than a few seconds")
    config.addinivalue_line("markers", "containers: runs containers, so needs root and runc")
    config.addinivalue_line("markers", "handover: goes through the threads of gRPC and of the loop")


def _is_in(names: Set[str], item: pytest.Item) -> bool:
    file = str(item.path.relative_to(_TESTS))
    function = getattr(item, "originalname", item.name)
    return not names.isdisjoint({file, f"{file}::{function}", f"{file}::{item.name}"})


def _is_wanted(item: pytest.Item) -> bool:
    """On further runtimes only what has to do with one that is real, and of cluster what tests/each-runtime lists; without
    repetitions of node, too."""
    if sanitizers.NAME and _is_in(_UNSANITIZED, item):
        return False
    if runtimes.NAME == runtimes.DEFAULT:
        return True
    if (item.path.parent.name == "cluster" or not _MUST_REPEAT) and not _is_in(_EACH_RUNTIME, item):
        return False
    fixtures = set(getattr(item, "fixturenames", ()))
    return not _RUNTIME_FIXTURES.isdisjoint(fixtures) and not _is_in(_NOT_HERE, item)


def _find_repeated(items: list[pytest.Item]) -> set[pytest.Item]:
    """Finds what tests/repeated lists, and the tests in a whole cluster that differ from another in the kind of workload
    alone: one kind is left, which the test's name decides, so that each is the one of some tests."""
    found = {item for item in items if _is_in(_REPEATED, item)}
    same: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item not in found and "cluster" in getattr(item, "fixturenames", ()):
            same.setdefault(_KIND.sub("KIND", item.nodeid), []).append(item)
    for name, group in same.items():
        group.sort(key=lambda item: item.nodeid)
        group.pop(zlib.crc32(name.encode()) % len(group))
        found.update(group)
    return found


def _seconds_of(item: pytest.Item) -> float:
    """About so many, on a machine with nothing else to do."""
    limit = item.get_closest_marker("timeout")
    if item.get_closest_marker("slow"):
        seconds = limit.args[0] / 4 if limit else 30
        return seconds or _LASTING_SECONDS  # 0 is no limit
    if item.get_closest_marker("containers"):
        # A test with another limit than its file has it for a reason.
        return limit.args[0] / 10 if limit in item.own_markers else 7
    return 1


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the tests, and moves the longest to the front, since each of several workers runs a file, or a part of one, at
    a time.

    Before them go the files that share no cluster with others: no worker has begun the shared one then, and has both; and
    before these the files with a single test of minutes, which would be left at the end for one worker alone.
    xdist reads the names of the parts in this hook, too.
    """
    repeated = set() if _MUST_REPEAT else _find_repeated(items)
    unwanted = {item for item in items if item in repeated or not _is_wanted(item)}
    config.hook.pytest_deselected(items=[item for item in items if item in unwanted])
    items[:] = [item for item in items if item not in unwanted]
    for item in items:
        _mark(item)
    # Only those that run count: pytest does the same itself, too late for us.
    config.pluginmanager.getplugin("mark").pytest_collection_modifyitems(items, config)
    sizes: dict[Path, float] = {}
    sharing, having, lasting = set(), set(), set()
    for item in items:
        sizes[item.path] = sizes.get(item.path, 0) + _seconds_of(item)
        if _seconds_of(item) >= _LASTING_SECONDS:
            lasting.add(item.path)
        if "control_plane" in getattr(item, "fixturenames", ()):
            sharing.add(item.path)
        if "cluster" in getattr(item, "fixturenames", ()):
            having.add(item.path)
    # Each file stays together, and tests as long as each other keep their order.
    items.sort(
        key=lambda item: (
            item.path not in lasting,
            item.path in sharing - having,
            -sizes[item.path],
            item.path,
            not item.get_closest_marker("slow"),
        )
    )
    seconds_before: dict[Path, float] = {}
    for item in items:
        before = seconds_before.get(item.path, 0.0)
        seconds_before[item.path] = before + _seconds_of(item)
        n_parts = math.ceil(sizes[item.path] / _part_seconds(config, item))
        item.add_marker(pytest.mark.xdist_group(f"{item.path.stem}-{int(before / sizes[item.path] * n_parts)}"))
    for item in items:
        _extend_limit(item)


def _part_seconds(config: pytest.Config, item: pytest.Item) -> int:
    if item.path.parent.name == "node":
        return _PART_SECONDS_OF_NODE
    return _PART_SECONDS_OF_OLDER if config.option.markexpr == "older" else _PART_SECONDS


def _mark(item: pytest.Item) -> None:
    if _is_in(_MAIN, item):
        item.add_marker(pytest.mark.main)
    if _is_in(_OLDER, item):
        item.add_marker(pytest.mark.older)
    if not (_is_in(_UNSANITIZED | _TWICE, item) or item.get_closest_marker("slow")):
        item.add_marker(pytest.mark.sanitized)


def _extend_limit(item: pytest.Item) -> None:
    """Waiting is longer on a busy machine; the limits of a whole test are for what hangs."""
    marker = item.get_closest_marker("timeout")
    seconds = marker.args[0] if marker else _TIMEOUT_SECONDS * sanitizers.SLOWNESS
    item.add_marker(pytest.mark.timeout(_PATIENCE * seconds), append=False)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Shows the agents' logs with a test that failed."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if report.failed and call.when == "call":
        for agent in item.stash.get(_AGENTS, []):
            report.sections.append((f"log of {agent.folder.name}", agent.log_text()[-20000:]))


@pytest.fixture(scope="session")
def session_folder() -> Iterator[LabFolder]:
    with LabFolder() as folder:
        yield folder


@pytest.fixture
def folder() -> Iterator[LabFolder]:
    """A private folder, short enough for sockets in it."""
    with LabFolder() as made:
        yield made


@pytest.fixture(scope="session")
def registry(session_folder: LabFolder) -> Iterator[Registry]:
    with Registry(session_folder / "registry") as made:
        yield made


@pytest.fixture(scope="session")
def auth_registry(session_folder: LabFolder) -> Iterator[Registry]:
    """Lets in nobody but the user in its `credentials`."""
    credentials = ("lab-user", "lab-password")
    with Registry(session_folder / "auth", credentials=credentials) as made:
        yield made


@pytest.fixture(scope="session")
def runtime(session_folder: LabFolder) -> Iterator[Runtime]:
    """The runtime that INPLACED_RUNTIME names."""
    with runtimes.make_runtime(session_folder / "runtime") as made:
        yield made


@pytest.fixture
def new_runtime(folder: LabFolder) -> Callable[..., Runtime]:
    """`with new_runtime(name, …) as runtime`: another one, which the test may kill or fill up."""
    return lambda name, **options: runtimes.make_runtime(folder / name, **options)


@pytest.fixture
def image_name(request: pytest.FixtureRequest) -> str:
    """A repository name that no other test uses."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name.lower())
    return f"t/{name.strip('-')}".replace("--", "-")


@pytest.fixture
def push(registry: Registry, runtime: Runtime, image_name: str) -> Iterator[PushImage]:
    """push([sizes], tag=…, busybox=…, …) as Registry.push_image, for the session's registry."""
    pushed: list[PushedImage] = []

    def push_image(layers: list[int] | None = None, tag: str = "1", **more: Any) -> PushedImage:
        # The same layers under another name must not be the same image.
        labels = {"test": image_name, "tag": tag, **more.pop("labels", {})}
        image = registry.push_image(image_name, tag, layers or [1000], labels=labels, **more)
        pushed.append(image)
        return image

    yield push_image
    for image in pushed:
        runtime.remove_image(image.image_id)


@pytest.fixture
def fake_runtime(folder: LabFolder) -> Iterator[FakeRuntime]:
    with FakeRuntime(folder / "runtime") as runtime:
        yield runtime


@pytest.fixture
def fake_registry() -> Iterator[FakeRegistry]:
    with FakeRegistry() as registry:
        yield registry


class Gate:
    """An image whose second half arrives only once the gate is opened."""

    def __init__(self, registry: FakeRegistry, name: str, size: int) -> None:
        layer = random_layer(size, seed=zlib.crc32(name.encode()))
        self.image = registry.add(name, "1", build_image([layer], labels={"test": name}))
        self.reference = self.image.reference
        self._opened = threading.Event()
        self._registry, self._name = registry, name
        registry.on("layer", self._send, name)

    def open(self) -> None:
        self._opened.set()

    def wait_fetched(self, timeout: float = 10) -> None:
        """Waits until a runtime fetches the layer."""
        wait_until(lambda: self._registry.is_fetched_from(self._name), timeout, "pull in a runtime")

    def wait_left(self, timeout: float = 10) -> None:
        """Waits until none does any more."""
        wait_until(
            lambda: not self._registry.is_fetched_from(self._name), timeout, "end of the pull"
        )

    def _send(self, connection: Any, request: Any, reply: Any) -> None:
        connection.send_head(reply)
        half = len(reply.body) // 2
        connection.send_body(reply.body[:half])
        while not self._opened.wait(0.005):
            if connection.wait_gone(0):
                return
        connection.send_body(reply.body[half:])


@pytest.fixture
def gate(fake_registry: FakeRegistry, runtime: Runtime, image_name: str) -> Iterator[Gate]:
    """A pull that is under way for as long as the test wants."""
    made = Gate(fake_registry, image_name, 2 << 20)
    yield made
    made.open()
    runtime.remove_image(made.reference)


@pytest.fixture
def make_agent(request: pytest.FixtureRequest, folder: LabFolder) -> Iterator[StartAgent]:
    """make_agent(endpoint, …) as Agent, not started. At the end each must have ended well."""
    if "INPLACED_BUILD_DIR" not in os.environ:
        pytest.skip("INPLACED_BUILD_DIR is not set")
    agents = request.node.stash[_AGENTS] = []

    def make(endpoint: str | list[str], **options: Any) -> Agent:
        agent = Agent(folder / f"agent-{len(agents)}", endpoint, **options)
        agents.append(agent)
        return agent

    yield make
    problems = []
    for agent in agents:
        try:
            agent.close()
        except AssertionError as problem:
            problems.append(str(problem))
    assert not problems, "\n".join(problems)


@pytest.fixture
def start_agent(make_agent: StartAgent) -> StartAgent:
    """start_agent(endpoint, …): an agent that is started and ready."""

    def start(endpoint: str | list[str], **options: Any) -> Agent:
        agent = make_agent(endpoint, **options)
        agent.start()
        return agent

    return start


@pytest.fixture
def failing(folder: LabFolder, capsys: pytest.CaptureFixture[str]) -> Iterator[FailingCall]:
    """Makes calls of an agent fail that has its environment, and shows how many."""
    made = FailingCall(folder / "failing", "inplaced")
    yield made
    with capsys.disabled():
        print(f"\n{made}")
    made.close()


@pytest.fixture
def agent(start_agent: StartAgent, runtime: Runtime) -> Agent:
    """An agent on the session's runtime, with nothing to do yet."""
    return start_agent(runtime.endpoint)

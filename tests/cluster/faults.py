# SPDX-License-Identifier: Apache-2.0
"""Fixtures and helpers for tests of an API server that misbehaves.

The server is a fake, behind a proxy that spoils what passes, but for a few tests; so is the runtime. Each
fault has to cost the node nothing but time: no image is pulled twice, no status is false, the
agent logs a clear line, and recovers by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from fake import behaviours
from fake.api_proxy import ApiProxy, Request, Watch
from fake.api_server import FakeApiServer
from lab import sanitizers
from lab.agent import Agent
from lab.documents import write_whole
from lab.kube import Kube
from lab.kubeconfig import write_kubeconfig
from lab.node_image import NodeImage
from lab.trouble import complaints, readiness
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS

NODE = "lab"
TOKEN = "lab-token"
WATCHES = r"^GET \S*/nodeimages\?\S*watch="
LISTS = r"^GET \S*/nodeimages\?(?!\S*watch=)"
DISCOVERIES = r"^GET /apis/apps.kruise.io$"
ANY_LIST = r"^GET \S*/nodeimages\?"
STATUS_WRITES = r"^PATCH \S*/nodeimages/lab/status"
REQUESTS = "inplaced_api_server_requests_total"

# The agent retries failures that a person has to fix after up to 30 seconds.
UNTIL_HOPE = 40


@pytest.fixture
def server(folder) -> Iterator[FakeApiServer]:
    with FakeApiServer(folder / "server") as made:
        made.create("nodes", {"metadata": {"name": NODE}})
        yield made


@pytest.fixture
def proxy(folder, server) -> Iterator[ApiProxy]:
    with ApiProxy(folder / "proxy", server.url, server.authority) as made:
        yield made


@pytest.fixture
def desired(server) -> Iterator[NodeImage]:
    """This node's NodeImage, which a test writes as the controller does, without the proxy."""
    kube = Kube(server.url, server.authority, "lab-admin", can_watch=False)
    made = NodeImage(kube, NODE)
    made.create()
    yield made
    kube.close()


@pytest.fixture
def token_file(folder):
    path = folder / "token"
    write_whole(path, TOKEN)
    return path


@pytest.fixture
def make_member(
    make_agent, folder, fake_runtime, proxy, desired, token_file
) -> Callable[..., Agent]:
    """make_member(authority=…, flags=…): an agent that serves the cluster behind the proxy; not
    started.
    """

    def make(authority=None, flags=()) -> Agent:
        trusted = authority or proxy.authority
        path = write_kubeconfig(folder / "kubeconfig", proxy.url, trusted, token_file=token_file)
        return make_agent(fake_runtime.endpoint, kubeconfig=path, node_name=NODE, flags=flags)

    return make


@pytest.fixture
def member(make_member, proxy, desired) -> Agent:
    """An agent that watches already and has reported a status without images."""
    agent = make_member()
    agent.start()

    def watches() -> bool:
        agent.process.check_alive()
        return bool(proxy.watches("/nodeimages"))

    wait_until(watches, 10 * SLOWLY, "watch")
    wait_until(lambda: "desired" in desired.status(), 10 * SLOWLY, "first status")
    wait_until(lambda: readiness(agent)[0] == 200, 10 * SLOWLY, lambda: f"{readiness(agent)}")
    return agent


class Hold:
    """Pulls of an image that last until they are released."""

    def __init__(self, runtime, reference: str) -> None:
        self.reference = reference
        self._runtime = runtime
        self._released = threading.Event()
        runtime.on("PullImage", behaviours.when(self._released), reference)

    def calls(self) -> list[behaviours.Call]:
        return self._runtime.calls("PullImage", self.reference)

    def wait_begun(self) -> behaviours.Call:
        return wait_until(self.calls, 10 * SLOWLY, f"pull of {self.reference}")[0]

    def release(self) -> None:
        self._released.set()


@pytest.fixture
def hold(fake_runtime) -> Iterator[Hold]:
    made = Hold(fake_runtime, "demo/held:1")
    yield made
    made.release()


def the_watch(proxy: ApiProxy) -> Watch:
    (watch,) = wait_until(lambda: proxy.watches("/nodeimages.*metadata.name"), 10 * SLOWLY, "watch")
    return watch


def wait_requests(proxy: ApiProxy, pattern: str, n: int = 1, timeout: float = 10) -> list[Request]:
    return wait_until(
        lambda: found if len(found := proxy.requests(pattern)) >= n else None,
        timeout * SLOWLY,
        lambda: f"{n} of {pattern}, only {[request.name for request in proxy.requests()]}",
    )


def lasting_complaints(agent: Agent) -> list[str]:
    """The complaints, except those about requests that a cut connection interrupted."""
    return [line for line in complaints(agent) if "was cut" not in line]


def assert_pulls_locally(agent: Agent, reference: str = "local/one:1") -> None:
    """The agent serves local callers whatever the state of the cluster."""
    done = agent.ctl("pull", reference, timeout=20 * SLOWLY)
    assert done.returncode == 0, done.stderr


def wait_unready(agent: Agent, reason: str) -> None:
    """While the agent has not heard from the runtime yet, that is the reason."""
    wait_until(
        lambda: reason in (answer := readiness(agent))[1] and answer[0] == 503,
        10 * SLOWLY,
        lambda: f"{reason!r} in {readiness(agent)}",
    )


def phases(request: Request) -> dict[str, str]:
    """The phases in a write of the status, by image and tag."""
    statuses = request.json()["status"].get("imageStatuses") or {}
    return {
        f"{name}:{tag['tag']}": tag["phase"]
        for name, image in statuses.items()
        for tag in (image or {}).get("tags") or []
    }

# SPDX-License-Identifier: Apache-2.0
"""Pulls of which no byte arrives: those that are stalled, and those that only unpack or share a slow line."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from typing import Any
from urllib.request import Request, urlopen

import pytest

from fake import registry as fakes
from fake.registry import FakeRegistry
from lab.containerd import Containerd
from lab.crio import Crio
from lab.folder import LabFolder
from lab.image import Image, build_image, digest_of
from lab.layers import Layer, random_layer
from lab.preload import Preload
from lab.registry import PushedImage, Registry
from lab.runtime import Runtime
from lab.stargz import Stargz, push_lazy_image
from lab.wait import wait_until

RELEASES = ["1.6", "2"]

# With a stall time-out of a second this is long.
_LONG_SECONDS = 2.5

# containerd decompresses by this program where there is one.
_SLOW_UNPIGZ = f"""\
#!/bin/sh
if [ -e "$0.late" ]; then rm "$0.late"; sleep 6; fi
sleep {_LONG_SECONDS}
exec gzip "$@"
"""


_PLAIN = "application/vnd.oci.image.layer.v1.tar+gzip"


def make_slow_to_unpack(containerd: Containerd) -> None:
    program = containerd.folder / "bin" / "unpigz"
    program.parent.mkdir()
    program.write_text(_SLOW_UNPIGZ)
    program.chmod(0o755)


@pytest.fixture(scope="module", params=RELEASES)
def discarding(request, session_folder: LabFolder) -> Iterator[Containerd]:
    """Throws layers away once they are unpacked, which takes long."""
    containerd = Containerd(session_folder / f"d{request.param}", release=request.param)
    containerd.image_options["discard_unpacked_layers"] = True
    make_slow_to_unpack(containerd)
    with containerd:
        yield containerd


@pytest.fixture(params=RELEASES)
def stargz(request, folder: LabFolder) -> Iterator[Stargz]:
    options = {"blob": {"force_single_range_mode": True}, "no_background_fetch": True}
    containerd = Stargz(folder / "lazy", release=request.param, snapshotter_options=options)
    make_slow_to_unpack(containerd)
    with containerd:
        yield containerd


def layers_of(name: str, n: int, size: int) -> list[Layer]:
    """Layers that no other test has, since containerd keeps the parts of a pull."""
    seed = zlib.crc32(name.encode())
    return [random_layer(size, seed=seed + i) for i in range(n)]


def add(registry: FakeRegistry, name: str, layers: list[Layer], tag: str = "1") -> PushedImage:
    return registry.add(name, tag, build_image(layers, labels={"of": name + tag}))


def assert_succeeds(agent, reference: str) -> None:
    last = Preload(agent, reference, backoff_limit=0).wait_end(60)
    assert last.phase == agent.messages.PHASE_SUCCEEDED, last


def assert_stalls(agent, reference: str, **fields) -> None:
    last = Preload(agent, reference, backoff_limit=0, **fields).wait_end(60)
    assert (last.phase, last.reason) == (agent.messages.PHASE_FAILED, "NoProgress"), last
    assert "no data arrived within the stall timeout" in last.message


def test_layers_that_share_a_slow_line(start_agent, discarding, fake_registry, image_name):
    """Layers that arrive side by side show their bytes late, a MiB each, but are no stall together."""
    image = add(fake_registry, image_name, layers_of(image_name, 3, 9 << 17))
    fake_registry.on("layer", fakes.trickle((1 << 20) / 3, step=1 << 16))
    agent = start_agent(discarding.endpoint, stall_timeout=2)
    assert_succeeds(agent, image.reference)


def test_layers_that_wait_for_those_of_another_pull(
    start_agent, discarding, fake_registry, image_name
):
    """containerd 2 downloads three layers at a time, of all pulls together: the others are no stall."""
    first = add(fake_registry, image_name, layers_of(image_name, 3, 6 << 20))
    second = add(fake_registry, image_name, layers_of(f"{image_name}-2", 1, 10_000), tag="2")
    fake_registry.on("layer", fakes.trickle(1 << 20, step=1 << 16))
    agent = start_agent(discarding.endpoint, stall_timeout=1)
    slow = Preload(agent, first.reference, backoff_limit=0)
    fetched = lambda: len(fake_registry.requests(kind="layer")) >= 3  # noqa: E731
    wait_until(fetched, 20, "download of the first image")
    assert_succeeds(agent, second.reference)
    assert slow.wait_end(60).phase == agent.messages.PHASE_SUCCEEDED


def test_layers_of_which_nothing_arrives(start_agent, discarding, fake_registry, image_name):
    """A registry that stops in the middle of several layers is found all the same."""
    image = add(fake_registry, image_name, layers_of(image_name, 3, 2 << 20))
    fake_registry.on("layer", fakes.hang_after_headers(100_000))
    agent = start_agent(discarding.endpoint, stall_timeout=1)
    assert_stalls(agent, image.reference)


def test_layers_that_were_unpacked_before(start_agent, discarding, fake_registry, image_name):
    """A layer that is neither there nor fetched is not waited for while the others are unpacked."""
    base, top = layers_of(image_name, 2, 10_000)
    agent = start_agent(discarding.endpoint, stall_timeout=1)
    assert_succeeds(agent, add(fake_registry, image_name, [base]).reference)
    # The manifest of that image remains, whose layer is gone.
    wait_until(lambda: base.digest not in discarding.ctr("content", "ls", "--quiet").stdout, 20, "removal of a layer")
    second = add(fake_registry, image_name, [base, top], tag="2")
    assert_succeeds(agent, second.reference)
    # It must not be taken for that of a pull whose manifest does not arrive.
    third = add(fake_registry, image_name, [base, top, *layers_of("third", 1, 10_000)], tag="3")
    fake_registry.on("manifest", fakes.hang())
    assert_stalls(agent, third.reference)
    assert_stalls(agent, second.reference, pull_policy=agent.messages.PULL_POLICY_ALWAYS)


def read_json(url: str) -> dict:
    accepted = {"Accept": "application/vnd.oci.image.manifest.v1+json"}
    with urlopen(Request(url, headers=accepted), timeout=10) as answer:
        return json.load(answer)


@pytest.fixture(scope="module")
def half_lazy(session_folder: LabFolder, registry: Registry) -> Image:
    """An image of a layer that can be mounted before it is there, and of one that cannot."""
    name, plain = "t/half-lazy", random_layer(10_000, seed=4711)
    push_lazy_image(registry, name, [300_000], session_folder / "plain")
    manifest = read_json(f"{registry.url}/v2/{name}/manifests/1")
    config = read_json(f"{registry.url}/v2/{name}/blobs/{manifest['config']['digest']}")
    (lazy,) = manifest["layers"]
    with urlopen(f"{registry.url}/v2/{name}/blobs/{lazy['digest']}", timeout=10) as answer:
        content = answer.read()
    (diff_id,) = config["rootfs"]["diff_ids"]
    config["rootfs"]["diff_ids"] = [diff_id, plain.diff_id]
    config.pop("history", None)
    config_bytes = json.dumps(config).encode()
    manifest["config"].update(digest=digest_of(config_bytes), size=len(config_bytes))
    manifest["layers"] = [lazy, {"mediaType": _PLAIN, "digest": plain.digest, "size": plain.size}]
    layers = Layer(lazy["digest"], lazy["size"], diff_id, lambda: iter([content])), plain
    return Image(layers, config_bytes, json.dumps(manifest).encode(), manifest["mediaType"])


def send_parts_late(connection: fakes.Connection, request: fakes.Request, reply: fakes.Reply) -> None:
    """Sends late the parts that are requested for mounting a layer: its end, and the table of its files."""
    if "Range" not in request.headers or not connection.wait_gone(1):
        connection.send(reply)


def test_layers_that_are_fetched_on_demand(start_agent, stargz, fake_registry, half_lazy, image_name):
    """Neither mounting a layer early, be it after long, nor unpacking another one is a stall."""
    image = fake_registry.add(image_name, "1", half_lazy)
    fake_registry.on("layer", send_parts_late)
    agent = start_agent(stargz.endpoint, stall_timeout=1)
    assert_succeeds(agent, image.reference)
    asked = {request.path.rpartition("/")[2]: request.headers for request in fake_registry.requests("layer")}
    lazy, plain = half_lazy.layers
    assert "Range" in asked[lazy.digest] and "Range" not in asked[plain.digest]
    assert lazy.digest not in stargz.ctr("content", "ls", "--quiet").stdout


def _impatient_runtimes(folder: LabFolder) -> dict[str, Callable[[], Runtime]]:
    def containerd(**options: Any) -> Runtime:
        made = Containerd(folder / "impatient", release="2")
        made.image_options.update(image_pull_progress_timeout="1s", **options)
        return made

    def crio() -> Runtime:
        made = Crio(folder / "impatient")
        made.image_options["pull_progress_timeout"] = "1s"
        return made

    return {
        "containerd-2": containerd,
        "containerd-2-local": lambda: containerd(use_local_image_pull=True),
        "crio": crio,
    }


@pytest.mark.parametrize("kind", ["containerd-2", "containerd-2-local", "crio"])
def test_time_out_of_the_runtime(start_agent, folder, fake_registry, image_name, kind):
    """A pull that the runtime gives up has made no progress; it was not canceled."""
    image = add(fake_registry, image_name, layers_of(image_name, 1, 4 << 20))
    fake_registry.on("layer", fakes.hang_after_headers(5 << 18))
    with _impatient_runtimes(folder)[kind]() as runtime:
        agent = start_agent(runtime.endpoint, stall_timeout=0)
        last = Preload(agent, image.reference, backoff_limit=0).wait_end(60)
    assert (last.phase, last.reason) == (agent.messages.PHASE_FAILED, "NoProgress"), last
    assert "the runtime timed out: " in last.message


def leases_of(containerd: Containerd) -> list[str]:
    return containerd.ctr("leases", "ls", "--quiet").stdout.split()


def test_what_was_fetched_is_kept(start_agent, discarding, fake_registry, image_name):
    """The next attempt goes on where the one before ended, also after one that did not get so far."""
    layers = layers_of(image_name, 3, 3 << 20)
    image = add(fake_registry, image_name, layers)
    fake_registry.on("layer", fakes.hang_after_headers(3 << 19))
    agent = start_agent(discarding.endpoint, stall_timeout=1)
    preload = Preload(agent, image.reference, backoff_limit=5)
    assert preload.wait_step("BACKING_OFF").reason == "NoProgress"
    n_stalled = len(fake_registry.requests("layer"))
    fake_registry.on("manifest", fakes.refuse(503))
    preload.wait_event(lambda event: event.reason == "RegistryError", 30, "refusal")
    fake_registry.behave()
    last = preload.wait_end()
    assert last.phase == agent.messages.PHASE_SUCCEEDED, last
    resumed = fake_registry.requests("layer")[n_stalled:]
    assert [one.headers.get("Range") for one in resumed] == [f"bytes={3 << 19}-"] * len(layers)
    wait_until(lambda: not leases_of(discarding), 10, "end of the leases")


def test_what_is_wrong_is_not_kept(start_agent, discarding, fake_registry, image_name):
    """A layer that does not match its digest is fetched again, all of it."""
    image = add(fake_registry, image_name, layers_of(image_name, 1, 100_000))
    fake_registry.on("layer", fakes.forge())
    agent = start_agent(discarding.endpoint)
    preload = Preload(agent, image.reference, backoff_limit=5)
    assert preload.wait_step("BACKING_OFF").reason == "WrongContent"
    n_wrong = len(fake_registry.requests("layer"))
    fake_registry.behave()
    assert preload.wait_end().phase == agent.messages.PHASE_SUCCEEDED
    (again,) = fake_registry.requests("layer")[n_wrong:]
    assert "Range" not in again.headers
    wait_until(lambda: not leases_of(discarding), 10, "end of the leases")


def test_unpacking_what_an_earlier_attempt_fetched(start_agent, discarding, fake_registry, image_name):
    """An image whose layers are all there is unpacked by the next attempt, which is no stall either."""
    image = add(fake_registry, image_name, layers_of(image_name, 1, 10_000))
    (discarding.folder / "bin" / "unpigz.late").touch()
    agent = start_agent(discarding.endpoint, stall_timeout=1)
    preload = Preload(agent, image.reference, backoff_limit=3, timeout_seconds=6)
    assert preload.wait_step("BACKING_OFF").reason == "DeadlineExceeded"
    last = preload.wait_end(60)
    assert last.phase == agent.messages.PHASE_SUCCEEDED, last
    assert "NoProgress" not in {event.reason for event in preload.events}
    assert len(fake_registry.requests("layer")) == 1

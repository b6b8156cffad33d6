# SPDX-License-Identifier: Apache-2.0
"""Proves that the fakes fail as set: the registry before a real containerd, the runtime before a
plain gRPC client.
"""

from __future__ import annotations

import threading
import zlib

import grpc
import pytest

from fake import behaviours
from fake import registry as fakes
from fake.content import Ingest
from fake.front import Line
from fake.registry import FakeRegistry
from fake.runtime import FakeRuntime
from lab.cri import Cri, describe_error
from lab.image import build_image
from lab.layers import random_layer
from lab.wait import wait_until

# A registry that misbehaves, and containerd's errors about it


@pytest.fixture
def fragile(fake_registry: FakeRegistry, image_name: str):
    """An image whose bytes no other test has, since containerd keeps what it got of a pull."""
    layer = random_layer(300_000, seed=zlib.crc32(image_name.encode()))
    return fake_registry.add("t/fragile", "1", build_image([layer]))


def test_fake_registry_serves(runtime, fake_registry, fragile):
    assert runtime.pull(fragile.reference).image_id == fragile.image_id
    assert len(fake_registry.requests("layer")) == 1
    runtime.remove_image(fragile.reference)


@pytest.mark.parametrize(
    ("kind", "behaviour", "text"),
    [
        ("manifest", fakes.refuse(401), "401 Unauthorized"),
        ("manifest", fakes.refuse(403), "403 Forbidden"),
        ("manifest", fakes.refuse(404), "not found"),
        ("manifest", fakes.refuse(429, Retry_After="1"), "429 Too Many Requests"),
        ("manifest", fakes.refuse(500), "500 Internal Server Error"),
        ("manifest", fakes.redirect_for_ever(), "stopped after 10 redirects"),
        ("layer", fakes.refuse(403), "403 Forbidden"),
        ("layer", fakes.refuse(404), "not found"),
        ("layer", fakes.refuse(500), "500 Internal Server Error"),
        ("layer", fakes.reset_after(1000), "connection reset by peer"),
    ],
)
def test_fake_registry_fails(runtime, fake_registry, fragile, kind, behaviour, text):
    fake_registry.on(kind, behaviour)
    with pytest.raises(grpc.RpcError) as error:
        runtime.pull(fragile.reference)
    assert text in describe_error(error.value), describe_error(error.value)
    assert fake_registry.requests(kind)
    fake_registry.behave()
    assert runtime.pull(fragile.reference).image_id == fragile.image_id
    runtime.remove_image(fragile.reference)


def test_fake_registry_truncates(runtime, fake_registry, fragile):
    """containerd asks for the rest, as often as it takes."""
    fake_registry.on("layer", fakes.truncate(100_000))
    assert runtime.pull(fragile.reference).image_id == fragile.image_id
    ranges = [request.headers.get("Range") for request in fake_registry.requests("layer")]
    assert ranges == [None, "bytes=100000-", "bytes=200000-", "bytes=300000-"]
    runtime.remove_image(fragile.reference)


@pytest.mark.parametrize("kind", ["manifest", "layer"])
def test_fake_registry_forges(runtime, fake_registry, fragile, kind):
    """Such an image cannot be pulled later either: containerd keeps the forged bytes."""
    fake_registry.on(kind, fakes.forge())
    with pytest.raises(grpc.RpcError) as error:
        runtime.pull(fragile.reference)
    assert f'failed commit on ref "{kind}-sha256:' in describe_error(error.value)
    assert "unexpected commit digest" in describe_error(error.value)


@pytest.mark.parametrize(
    ("kind", "behaviour"),
    [
        ("manifest", fakes.hang()),
        ("layer", fakes.hang()),
        ("layer", fakes.hang_after_headers(1000)),
        ("layer", fakes.trickle(bytes_per_second=100)),
    ],
    ids=["manifest", "layer", "layer-after-headers", "layer-trickles"],
)
def test_fake_registry_keeps_waiting(runtime, fake_registry, fragile, kind, behaviour):
    fake_registry.on(kind, behaviour)
    messages = runtime.cri.messages
    request = messages.PullImageRequest(image=messages.ImageSpec(image=fragile.reference))
    pull = runtime.cri.images.PullImage.future(request, timeout=60)
    wait_until(lambda: fake_registry.requests(kind), 10, "request")
    with pytest.raises(grpc.FutureTimeoutError):
        pull.result(timeout=0.5)
    pull.cancel()


# A runtime that misbehaves, as a plain gRPC client sees it


@pytest.fixture
def cri(fake_runtime: FakeRuntime):
    client = Cri(fake_runtime.socket, timeout=10)
    yield client
    client.close()


def test_fake_runtime_behaves(fake_runtime, cri):
    assert cri.version().runtime_api_version == "v1"
    assert cri.image_status("demo/web:1") is None
    pulled = cri.pull("demo/web:1")
    assert cri.image_status("demo/web:1").id == pulled.image_id
    assert [image.repo_tags for image in cri.list_images()] == [["demo/web:1"]]
    cri.remove_image("demo/web:1")
    assert cri.list_images() == []
    assert [call.image for call in fake_runtime.calls("PullImage")] == ["demo/web:1"]
    assert not any(call.cancelled for call in fake_runtime.calls())


def test_fake_runtime_fails_for_one_image(fake_runtime, cri):
    fake_runtime.on("PullImage", behaviours.fail("NOT_FOUND", "no such thing"), image="bad:1")
    with pytest.raises(grpc.RpcError) as error:
        cri.pull("bad:1")
    assert describe_error(error.value) == "NOT_FOUND: no such thing"
    assert cri.pull("good:1").image_id
    assert not fake_runtime.calls("PullImage", "bad:1")[0].cancelled


def test_fake_runtime_notices_cancellation(fake_runtime, cri):
    fake_runtime.on("PullImage", behaviours.hang())
    request = cri.messages.PullImageRequest(image=cri.messages.ImageSpec(image="x:1"))
    call = cri.images.PullImage.future(request)
    wait_until(lambda: fake_runtime.calls("PullImage"), 5, "call")
    recorded = fake_runtime.calls("PullImage")[0]
    assert recorded.ended_at is None
    call.cancel()
    assert recorded.wait_over(60)
    assert recorded.cancelled


@pytest.mark.parametrize("lie", ["", "sha256:nonsense", "sha256:a\nb", "x" * 1_000_000])
def test_fake_runtime_lies(fake_runtime, cri, lie):
    fake_runtime.hold("x:1")
    for method in ("ImageStatus", "PullImage", "ListImages"):
        fake_runtime.on(method, behaviours.lie_about_id(lie))
    assert cri.image_status("x:1").id == lie
    assert cri.pull("x:1").image_id == lie
    assert cri.list_images()[0].id == lie


def test_fake_runtime_floods(fake_runtime, cri):
    fake_runtime.hold("x:1")
    for method in ("ImageStatus", "ListImages"):
        fake_runtime.on(method, behaviours.huge(megabytes=20))
    assert cri.image_status("x:1").ByteSize() > 19_000_000
    assert cri.list_images()[-1].ByteSize() > 19_000_000


def test_fake_runtime_sends_garbage(fake_runtime, cri):
    fake_runtime.on("Version", behaviours.garbage())
    with pytest.raises(grpc.RpcError) as error:
        cri.version()
    assert "deserializing" in describe_error(error.value)


def test_fake_runtime_takes_turns(fake_runtime, cri):
    released = threading.Event()
    unavailable = behaviours.fail("UNAVAILABLE", "away")
    fake_runtime.on("Version", behaviours.in_turn(unavailable, behaviours.when(released)))
    with pytest.raises(grpc.RpcError):
        cri.version()
    waiting = cri.runtime.Version.future(cri.messages.VersionRequest(), timeout=10)
    assert not waiting.done()
    released.set()
    assert waiting.result().runtime_name == "containerd"


def test_fake_runtime_of_old(fake_runtime, cri):
    fake_runtime.api = "v1alpha2"
    with pytest.raises(grpc.RpcError) as error:
        cri.version()
    assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED
    old = cri.channel.unary_unary(
        "/runtime.v1alpha2.RuntimeService/Version",
        cri.messages.VersionRequest.SerializeToString,
        cri.messages.VersionResponse.FromString,
    )
    assert old(cri.messages.VersionRequest()).runtime_api_version == "v1alpha2"
    services = [call.service for call in fake_runtime.calls("Version")]
    assert services == ["runtime.v1.RuntimeService", "runtime.v1alpha2.RuntimeService"]


@pytest.mark.parametrize("line", [Line.MUTE, Line.JUNK, Line.CLOSE])
def test_fake_runtime_does_not_speak(fake_runtime, line):
    fake_runtime.front.line = line
    client = Cri(fake_runtime.socket, timeout=1)
    with pytest.raises(grpc.RpcError) as error:
        client.version()
    client.close()
    assert error.value.code().name in ("UNAVAILABLE", "DEADLINE_EXCEEDED")
    wait_until(lambda: fake_runtime.front.accepted > 0, 5, "connection")


def test_fake_runtime_drops_calls(fake_runtime, cri):
    fake_runtime.on("PullImage", behaviours.hang())
    request = cri.messages.PullImageRequest(image=cri.messages.ImageSpec(image="x:1"))
    call = cri.images.PullImage.future(request, timeout=10)
    wait_until(lambda: fake_runtime.calls("PullImage"), 5, "call")
    fake_runtime.front.drop()
    assert call.exception().code() is grpc.StatusCode.UNAVAILABLE
    assert fake_runtime.calls("PullImage")[0].wait_over(60)
    fake_runtime.front.vanish()
    assert not fake_runtime.socket.exists()
    fake_runtime.front.listen()
    again = Cri(fake_runtime.socket)
    assert again.version().runtime_name == "containerd"
    again.close()


def test_fake_runtime_reports_bytes(fake_runtime, cri):
    done = Ingest("sha256:" + "a" * 64, total=1000, bytes_per_second=1e6)
    stuck = Ingest("sha256:" + "b" * 64, total=1000, bytes_per_second=1e6, stops_at=400)
    fake_runtime.on("PullImage", fake_runtime.content.fetch(done, stuck))
    request = cri.messages.PullImageRequest(image=cri.messages.ImageSpec(image="x:1"))
    call = cri.images.PullImage.future(request)
    wait_until(lambda: [one.offset for one in cri.ingests()] == [400], 5, "stalled ingest")
    assert cri.ingests()[0].ref == f"layer-{stuck.digest}"
    call.cancel()
    wait_until(lambda: not cri.ingests(), 5, "end of the ingests")


def test_fake_runtime_without_content(folder):
    with FakeRuntime(folder / "crio", has_content=False) as runtime:
        client = Cri(runtime.socket)
        with pytest.raises(grpc.RpcError) as error:
            client.ingests()
        client.close()
    assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED

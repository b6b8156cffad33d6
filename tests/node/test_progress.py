# SPDX-License-Identifier: Apache-2.0
"""Bytes while a pull runs."""

from __future__ import annotations

import json
import threading

import pytest

from fake import behaviours
from fake import registry as fakes
from fake.content import CONTENT, Ingest
from fake.runtime import FakeRuntime
from lab.containerd import Containerd
from lab.crio import Crio
from lab.image import build_image
from lab.layers import random_layer
from lab.preload import Preload
from lab.wait import stretch, wait_until

_TRANSFER = 'plugins."io.containerd.transfer.v1.local"'


def steps(preload) -> list[str]:
    """The steps that were reported, each change once."""
    reported: list[str] = []
    for event in preload.events:
        name = preload.messages.Step.Name(event.step).removeprefix("STEP_")
        if reported[-1:] != [name]:
            reported.append(name)
    return reported


@pytest.fixture
def slow_image(fake_registry, runtime, image_name):
    """Two layers that take two seconds, or more on a busy machine; with the sum of the sizes in its manifest."""
    layers = [random_layer(6 << 20, seed=901), random_layer(4 << 20, seed=902)]
    built = build_image(layers, labels={"test": image_name})
    image = fake_registry.add(image_name, "1", built)
    fake_registry.on("layer", fakes.trickle((3 << 20) / stretch(1), step=1 << 18))
    yield image.reference, sum(layer.size for layer in layers) + len(built.config)
    runtime.remove_image(image.reference)


def test_bytes_grow_to_the_manifests_total(start_agent, runtime, slow_image):
    """Bytes only grow, up to the sum of the manifest's sizes, which is known from the beginning."""
    reference, total = slow_image
    agent = start_agent(runtime.endpoint)
    preload = Preload(agent, reference)
    last = preload.wait_end()
    reported = [event for event in preload.events if event.bytes_total]
    assert {event.bytes_total for event in reported} == {total}
    done = [event.bytes_done for event in reported]
    assert done == sorted(done) and len(set(done)) >= 4, done
    assert last.bytes_done == last.bytes_fetched == total
    assert done[0] < total / 2, "the first one came late"
    counted = agent.metrics().get_value("inplaced_pull_bytes_total")
    assert counted == pytest.approx(total, rel=0.01)


def test_layer_by_parallel_requests(folder, start_agent, fake_registry, image_name):
    """containerd fetches parts of a layer at once, and its bytes grow all the same, up to the total."""
    layer = random_layer(6 << 20, seed=903)
    built = build_image([layer], labels={"test": image_name})
    image = fake_registry.add(image_name, "1", built)
    fake_registry.on("layer", fakes.trickle(1 << 20, step=1 << 18))
    containerd = Containerd(folder / "parallel", release="2")
    containerd.more = f"[{_TRANSFER}]\nconcurrent_layer_fetch_buffer = {1 << 20}\n"
    with containerd:
        preload = Preload(start_agent(containerd.endpoint), image.reference)
        last = preload.wait_end()
    assert len(fake_registry.requests(kind="layer")) == 7  # it is a little larger
    done = [event.bytes_done for event in preload.events if event.bytes_total]
    assert done == sorted(done) and len(set(done)) >= 3, done
    assert last.bytes_done == last.bytes_fetched == layer.size + len(built.config)


def _bytes_of(agent, *arguments: str) -> list[int]:
    """Runs `inplacectl pull`; returns the bytes that it reports for each image."""
    ended = agent.ctl("pull", *arguments, "-o", "json")
    assert ended.returncode == 0, ended.stderr
    return [result["bytes"] for result in json.loads(ended.stdout)["results"]]


def _counted(agent) -> int:
    return int(agent.metrics().get_value("inplaced_pull_bytes_total"))


def test_an_unchanged_image_fetches_nothing(start_agent, runtime, push):
    """Layers that are there already are not fetched by a pull that asks the registry again."""
    image = push([5_000_000, 2_000_000])
    agent = start_agent(runtime.endpoint)
    (first,) = _bytes_of(agent, image.reference)
    assert 7_000_000 < first < 7_100_000
    assert _counted(agent) == first
    assert _bytes_of(agent, "--pull-policy=Always", image.reference) == [0]
    assert _counted(agent) == first
    shown = agent.ctl("pull", "--pull-policy=Always", image.reference).stdout
    assert "  0 B  " in shown and "MB" not in shown, shown
    runtime.remove_image(image.image_id)
    (again,) = _bytes_of(agent, image.reference)
    assert again in (0, first), "all of it if its blobs were collected meanwhile, else nothing"


def test_shared_layers_are_fetched_once(start_agent, runtime, push):
    """A layer that is there, or that another pull fetches at the same time, counts once."""
    base = 6_000_000
    first, second, third = (push([base, 100_000 + n], tag=str(n)) for n in range(3))
    agent = start_agent(runtime.endpoint)
    (whole,) = _bytes_of(agent, first.reference)
    assert base + 100_000 <= whole < base + 110_000
    (rest,) = _bytes_of(agent, second.reference)
    assert 100_000 < rest < 110_000
    assert _counted(agent) == whole + rest
    assert 100_000 < _bytes_of(agent, third.reference)[0] < 110_000


def test_simultaneous_pulls_share_a_layer(start_agent, runtime, fake_registry, image_name):
    """The bytes of two pulls that wait for the same layer add up to what was fetched."""
    base = random_layer(6 << 20, seed=911)
    built = [build_image([base, random_layer(100_000, seed=912 + n)]) for n in range(2)]
    references = [
        fake_registry.add(f"{image_name}-{n}", "1", image).reference for n, image in enumerate(built)
    ]
    fake_registry.on("layer", fakes.trickle(6 << 20, step=1 << 18))
    agent = start_agent(runtime.endpoint)
    fetched = _bytes_of(agent, *references)
    blobs = {layer.digest: layer.size for image in built for layer in image.layers}
    blobs.update({image.image_id: len(image.config) for image in built})
    assert sum(fetched) == _counted(agent) == sum(blobs.values())
    for reference in references:
        runtime.remove_image(reference)


def test_names_of_one_image_at_once(start_agent, runtime, push):
    """Pulls of one image under several names all end, and fetch it once between them."""
    image = push([3_000_000])
    others = [push([3_000_000], tag=f"{n}", labels={"tag": "1"}) for n in range(2, 7)]
    assert {other.image_id for other in others} == {image.image_id}
    agent = start_agent(runtime.endpoint, max_parallel_pulls=8)
    references = [image.digest_reference, image.reference, *(one.reference for one in others)]
    assert 3_000_000 < sum(_bytes_of(agent, *references)) < 3_010_000


def test_an_attempt_that_failed_counts(start_agent, runtime, fake_registry, image_name):
    """The bytes of a failed attempt are part of the sum, and are not counted again."""
    layers = [random_layer(2 << 20, seed=921), random_layer(3 << 20, seed=922)]
    built = build_image(layers)
    image = fake_registry.add(image_name, "1", built)
    released = threading.Event()
    sent: list[int] = []

    def send(connection, request, reply) -> None:
        if layers[1].digest not in request.path or released.is_set():
            sent.append(len(reply.body))
            connection.send(reply)
            return
        preload.wait_event(lambda event: event.bytes_done >= layers[0].size)
        released.set()
        connection.send(fakes.Reply(403, {}, b"broken"))  # 500: containerd 2 would ask again

    fake_registry.on("layer", send)
    fake_registry.on("config", send)
    agent = start_agent(runtime.endpoint)
    preload = Preload(agent, image.reference)
    last = preload.wait_end()
    assert last.attempt > 1
    # containerd may have removed the first layer meanwhile, and fetches it again then.
    assert last.bytes_fetched == sum(sent) == _counted(agent)
    runtime.remove_image(image.reference)


def test_download_and_unpacking_are_separate(start_agent, fake_runtime):
    """Once all bytes are there, the step is unpacking until the runtime has the image."""
    layers = [Ingest(f"sha256:{digit * 64}", 1_000_000, bytes_per_second=1e6) for digit in "ab"]
    config = Ingest(f"sha256:{'c' * 64}", 2, bytes_per_second=1e6, kind="config")
    described = [{"digest": blob.digest, "size": blob.total} for blob in (config, *layers)]
    manifest = {"schemaVersion": 2, "config": described[0], "layers": described[1:]}
    fake_runtime.content.add_blob(json.dumps(manifest).encode())
    layers[0].stops_at = 500_000
    begun, unpacked = threading.Event(), threading.Event()
    begin, unpack = behaviours.when(begun), behaviours.when(unpacked)
    fetch = fake_runtime.content.fetch(config, *layers)
    fake_runtime.on(
        "PullImage",
        lambda call, good: begin(call, lambda: fetch(call, lambda: unpack(call, good))),
    )
    agent = start_agent(fake_runtime.endpoint)
    preload = Preload(agent, "demo/web:1")
    preload.wait_step("RESOLVING")
    begun.set()
    preload.wait_step("DOWNLOADING")
    layers[0].stops_at = None
    unpacking = preload.wait_step("UNPACKING")
    unpacked.set()
    last = preload.wait_end()
    assert steps(preload)[-4:] == ["RESOLVING", "DOWNLOADING", "UNPACKING", "UNSPECIFIED"]
    assert unpacking.bytes_done == unpacking.bytes_total == last.bytes_done == 2_000_002


def test_manifest_that_cannot_be_counted(start_agent, new_runtime, fake_registry, image_name):
    """A manifest with more layers than the agent counts is read once, not with each poll, and has no total.

    containerd 2 goes on to open an ingest for each layer after the pull was canceled: leases that others ask for meanwhile
    come too late, and their pulls show no bytes.
    """
    built = build_image([random_layer(10, seed=n) for n in range(1025)])
    image = fake_registry.add(image_name, "1", built)
    fake_registry.on("layer", fakes.hang_after_headers())
    with new_runtime("own") as runtime:
        agent = start_agent(runtime.endpoint)
        count = lambda method: agent.metrics().total("inplaced_cri_requests_total", method=method)  # noqa: E731
        preload = Preload(agent, image.reference)
        wait_until(lambda: fake_registry.is_fetched_from(image_name), 30, "pull in the runtime")
        wait_until(lambda: count("Read") > 0, 10, "manifest that is read")
        polls = count("ListStatuses")
        wait_until(lambda: count("ListStatuses") > polls + 10, 10, "ten polls")
        assert count("Read") == 1
        assert {event.bytes_total for event in preload.events} == {0}
        preload.cancel()
        wait_until(lambda: not fake_registry.is_fetched_from(image_name), 10, "end of the pull")


def test_two_tags_of_one_repository(start_agent, runtime, fake_registry, slow_image):
    """A second image of the same repository that is pulled meanwhile has its own total."""
    reference, total = slow_image
    other = build_image([random_layer(2 << 20, seed=903)])
    name = reference.removeprefix(f"{fake_registry.host}/").removesuffix(":1")
    second = fake_registry.add(name, "2", other)
    agent = start_agent(runtime.endpoint)
    large = Preload(agent, reference)
    large.wait_step("DOWNLOADING")
    small = Preload(agent, second.reference)
    small.wait_end()
    large.wait_end()
    assert {event.bytes_total for event in large.events} == {0, total}
    small_total = other.layers[0].size + len(other.config)
    assert {event.bytes_total for event in small.events} == {0, small_total}
    runtime.remove_image(second.reference)


def test_total_of_a_pull_whose_manifest_comes_late(start_agent, runtime, fake_registry, slow_image):
    """Manifests of one repository that arrive in the other order are not taken for each other's."""
    reference, total = slow_image
    name = reference.removeprefix(f"{fake_registry.host}/").removesuffix(":1")
    other = build_image([random_layer(2 << 20, seed=904)])
    second = fake_registry.add(name, "2", other)
    released = threading.Event()

    def hold_first(connection, request, reply) -> None:
        if request.path.endswith("/1"):
            released.wait(60)
        connection.send(reply)

    fake_registry.on("manifest", hold_first)
    agent = start_agent(runtime.endpoint)
    late = Preload(agent, reference)
    late.wait_step("RESOLVING")
    early = Preload(agent, second.reference)
    early.wait_step("DOWNLOADING")
    released.set()
    early.wait_end()
    late.wait_end()
    assert {event.bytes_total for event in early.events} == {0, other.layers[0].size + len(other.config)}
    assert {event.bytes_total for event in late.events} == {0, total}
    runtime.remove_image(second.reference)


def assert_shows_no_bytes(agent) -> None:
    """Nor invents them."""
    document = json.loads(agent.ctl("doctor", "-o", "json").stdout)
    assert document["runtimes"][0]["hasProgress"] is False
    fact = {"subject": "progress in bytes", "value": "no, this runtime does not report it"}
    assert fact in document["facts"]
    assert document["problems"] == []
    assert "inplaced_pull_bytes_total" not in {name for name, _ in agent.metrics()}


def test_progress_of_crio(folder, start_agent, fake_registry, image_name):
    """CRI-O reports nothing but the end: until then the pull is shown as a download of unknown size."""
    layer = random_layer(1 << 20, seed=931)
    image = fake_registry.add(image_name, "1", build_image([layer]))
    fake_registry.on("layer", fakes.trickle(1 << 20, step=1 << 16))
    with Crio(folder / "crio") as runtime:
        agent = start_agent(runtime.endpoint)
        assert_shows_no_bytes(agent)
        preload = Preload(agent, image.reference)
        preload.wait_step("DOWNLOADING")
        last = preload.wait_end()
        assert last.phase == agent.messages.PHASE_SUCCEEDED
        assert not any(one.bytes_total or one.HasField("bytes_fetched") for one in preload.events)
        assert_shows_no_bytes(agent)


def test_runtime_without_numbers(folder, start_agent):
    """Where the runtime reports no bytes, a pull has no progress, and that is no error."""
    with FakeRuntime(folder / "crio", has_content=False) as runtime:
        runtime.name, runtime.version = "cri-o", "1.30.0"
        runtime.on("PullImage", behaviours.slow(0.5))
        agent = start_agent(runtime.endpoint, stall_timeout=1)
        assert_shows_no_bytes(agent)
        preload = Preload(agent, "demo/web:1")
        last = preload.wait_end()
        assert "DOWNLOADING" in steps(preload)
        assert last.phase == agent.messages.PHASE_SUCCEEDED
        assert {event.bytes_total for event in preload.events} == {0}
        assert not any(event.HasField("bytes_fetched") for event in preload.events)
        assert_shows_no_bytes(agent)
        # The image's size is not the number of fetched bytes.
        line = agent.ctl("pull", "--pull-policy=Always", "demo/web:1").stdout
        assert line.split()[2] == "-", line
        document = json.loads(agent.ctl("pull", "--pull-policy=Always", "demo/web:1", "-o", "json").stdout)
        assert "bytes" not in document["results"][0]
        # It was asked once for everything, not for each pull.
        asked = [call.method for call in runtime.calls() if call.service == CONTENT]
        assert len(asked) == len(set(asked)), asked
        assert not [line for line in agent.logs() if line["level"] in ("warning", "error")]


def _asked_for_bytes(fake_runtime) -> list[float]:
    """When the runtime was asked how many bytes there are."""
    return [call.began_at for call in fake_runtime.calls("ListStatuses")]


def test_nothing_is_polled_when_nothing_is_pulled(start_agent, fake_runtime):
    """The runtime is not asked for bytes while no pull runs."""
    agent = start_agent(fake_runtime.endpoint)
    broken = behaviours.fail("UNKNOWN", "it is broken")
    released = threading.Event()
    fake_runtime.on("PullImage", behaviours.in_turn(broken, broken, behaviours.when(released)))
    preload = Preload(agent, "demo/web:1", backoff_limit=6)
    wait_until(lambda: len(fake_runtime.calls("PullImage")) == 3, 30, "third attempt")
    _, second, third = fake_runtime.calls("PullImage")
    wait_until(
        lambda: [call for call in _asked_for_bytes(fake_runtime) if call > third.began_at],
        10,
        "question for bytes",
    )
    released.set()
    preload.wait_end()
    # The second pause takes 1.6 s at least. The agent, which asks ten times a second while it pulls,
    # may learn of the failure a little later than it happens.
    begins, ends = second.ended_at + 0.5, second.ended_at + 1.5
    assert third.began_at > ends
    assert [call for call in _asked_for_bytes(fake_runtime) if begins < call < ends] == []

# SPDX-License-Identifier: Apache-2.0
"""`inplacectl pulls`: every pull of the node, also one that the runtime makes for another program, as for a kubelet."""

from __future__ import annotations

import json
import os
import socket
import time
import zlib
from collections.abc import Callable, Iterator

import grpc
import pytest

from fake import behaviours
from fake.content import CONTENT, LEASES, Ingest
from fake.registry import Line
from fake.runtime_proxy import RuntimeProxy
from lab.crio import Crio
from lab.image import build_image
from lab.layers import random_layer
from lab.pulls import Pulls
from lab.registry import PushedImage
from lab.sanitizers import SLOWNESS
from lab.terminal import Terminal, screen
from lab.wait import stretch, wait_until

_MEGABYTE = 1 << 20
_RATE = 8 * _MEGABYTE  # bytes per second of the node's line to the registry, on a machine with nothing else to do
_SLOWEST = 4  # parts of that on a busy one, so that the agent looks as often at each pull


@pytest.fixture
def add(fake_registry, runtime, image_name) -> Iterator[Callable[..., PushedImage]]:
    """add(tag, megabytes): an image of a slow registry."""
    name = f"{image_name}/slow"
    fake_registry.on("layer", Line(_RATE / min(stretch(1), _SLOWEST)).behave, name)
    made = []

    def add_image(tag: str, megabytes: float) -> PushedImage:
        layers = [random_layer(int(megabytes * _MEGABYTE / 2), seed=zlib.crc32(f"{tag}{i}".encode())) for i in range(2)]
        made.append(fake_registry.add(name, tag, build_image(layers, labels={"test": name, "tag": tag})))
        return made[-1]

    yield add_image
    for image in made:
        runtime.remove_image(image.reference)


class OtherProgram:
    """Has the runtime pull an image, in a thread."""

    def __init__(self, runtime, reference: str) -> None:
        self.began = time.monotonic()
        messages = runtime.cri.messages
        request = messages.PullImageRequest(image=messages.ImageSpec(image=reference))
        self._call = runtime.cri.images.PullImage.future(request, timeout=60)

    def wait(self) -> None:
        self._call.result(60)

    def cancel(self) -> None:
        self._call.cancel()


def name_of(image: PushedImage) -> str:
    """The agent knows neither the tag nor the port of an image that no pod waits for."""
    host, _, rest = image.digest_reference.partition("/")
    return f"{host.partition(':')[0]}/{rest}"


def test_pull_of_another_program(start_agent, runtime, add):
    """It is shown within a second, with its bytes, total, rate and time left, until it has been unpacked."""
    image = add("1", 16)
    with Pulls(start_agent(runtime.endpoint)) as pulls:
        wait_until(lambda: pulls.events, 10, "first event")
        pull = OtherProgram(runtime, image.reference)
        pulls.wait(name_of(image))
        assert pulls.since(name_of(image)) - pull.began < stretch(SLOWNESS)
        pull.wait()
        pulls.wait_none()
    seen = pulls.of("")
    assert {(one.image, one.digest) for one in seen} == {(name_of(image), image.manifest_digest)}
    assert not any(one.pods or one.requested_by for one in seen)
    assert all(one.bytes_total == pytest.approx(image.size, rel=0.02) for one in seen)
    done = [one.bytes_done for one in seen]
    assert done == sorted(done) and len(set(done)) >= 3 and done[-1] > 0.7 * image.size, done
    last = [one for one in seen if one.bytes_per_second][-1]
    times = [at for at, event in pulls.events if event.pulls]
    assert 1 / 4 < last.bytes_per_second * (times[-1] - times[0]) / image.size < 3
    left = (last.bytes_total - last.bytes_done) / last.bytes_per_second
    assert left <= last.seconds_left <= left + 1
    assert abs(seen[0].started_at - time.time()) < 30


def test_two_images_of_one_repository(start_agent, runtime, add):
    """They are distinguished by their manifests; each has its own bytes."""
    images = [add("1", 4), add("2", 6)]
    with Pulls(start_agent(runtime.endpoint)) as pulls:
        others = [OtherProgram(runtime, image.reference) for image in images]
        for image in images:
            pull = pulls.wait(name_of(image), lambda pull: pull.bytes_done > 0)
            assert pull.bytes_total == pytest.approx(image.size, rel=0.02)
        for other in others:
            other.wait()
        pulls.wait_none()


def test_pulls_of_the_agent_stand_beside_them(start_agent, runtime, add, gate):
    """With who requested them; as a table, as documents, in a pipe and on a terminal of 80 columns."""
    agent = start_agent(runtime.endpoint)
    assert agent.ctl("pulls").stdout.splitlines()[-1] == "No image is being pulled."
    agent.request(gate.reference, file="web.yaml")
    agent.wait_status(gate.reference, "Pulling")
    gate.wait_fetched()
    image = add("1", 24)
    program = [str(agent.build_dir / "agent" / "inplacectl"), f"--socket={agent.socket}"]
    terminal = Terminal([*program, "pulls", "--watch"], os.environ, columns=80)
    with agent.start_ctl("pulls", "-w") as piped:
        other = OtherProgram(runtime, image.reference)
        wait_until(lambda: "MB/s" in terminal.text, 20, lambda: terminal.text)
        shown = agent.ctl("pulls").stdout.splitlines()
        document = json.loads(agent.ctl("pulls", "-o", "json").stdout)
        own = next(pull for pull in document["pulls"] if pull["requestedBy"])
        foreign = next(pull for pull in document["pulls"] if not pull["requestedBy"])
        other.wait()
        wait_until(lambda: "\n- " not in "\n".join(screen(terminal.text)), 20, lambda: f"{screen(terminal.text)}")
        piped.terminate()
        lines = piped.communicate()[0].splitlines()
    terminal.press(b"\x03")
    assert terminal.wait_end() == 130
    assert shown[0].split() == ["POD", "IMAGE", "STATE", "PROGRESS", "RATE", "LEFT"]
    assert any(line.startswith("folder:web.yaml ") and " downloading " in line for line in shown), shown
    assert any(line.startswith("- ") and "MB/s" in line for line in shown), shown
    assert own["image"] == gate.reference and own["step"] == "Downloading" and own["requestedBy"] == ["folder:web.yaml"]
    assert (foreign["image"], foreign["digest"]) == (name_of(image), image.manifest_digest)
    assert foreign["bytesTotal"] == pytest.approx(image.size, rel=0.02) and foreign["bytesPerSecond"] > _MEGABYTE
    assert max(len(line) for line in screen(terminal.text)) <= 80
    assert len([line for line in lines if line.startswith("- ")]) >= 5, lines


def test_end_after_a_time(start_agent, runtime, add):
    """With --timeout it ends by itself, which is no failure, also while images are being pulled."""
    agent = start_agent(runtime.endpoint)
    other = OtherProgram(runtime, add("1", 24).reference)
    began = time.monotonic()
    ran = agent.ctl("pulls", "--watch", "-o", "json", "--timeout=2s")
    assert ran.returncode == 0 and 2 <= time.monotonic() - began < 2 + stretch(2 * SLOWNESS)
    assert '"step": "Downloading"' in ran.stdout
    other.cancel()


def test_an_agent_that_does_not_answer(make_agent, runtime):
    """With --timeout its silence is a failure, and not a node without pulls."""
    agent = make_agent(runtime.endpoint)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(agent.socket))
        listener.listen()
        ran = agent.ctl("pulls", "-o", "json", "--timeout=2s")
    assert (ran.returncode, ran.stdout) == (124, "")
    last = ran.stderr.splitlines()[-1]
    assert last == f"inplacectl: timed out after the 2s of --timeout waiting for inplaced at {agent.socket}"


def test_nothing_is_asked_unless_someone_watches(folder, start_agent, runtime, add):
    """containerd gets calls while there is a caller, and none before and after."""
    proxy = RuntimeProxy(folder / "proxy", runtime.socket)

    def calls() -> int:
        return len([call for call in proxy.calls() if call.service in (CONTENT, LEASES)])

    with proxy:
        agent = start_agent(proxy.endpoint)
        before = 2  # by which the agent learns what the runtime can, and what an earlier run left
        wait_until(lambda: calls() == before, 10, "the calls of a start")
        OtherProgram(runtime, add("1", 4).reference).wait()
        assert calls() == before
        with Pulls(agent) as pulls:
            wait_until(lambda: pulls.events, 10, "first event")
        wait_until(lambda: "WatchPulls" in str(agent.metrics()), 10, "end of the call")
        during = calls()
        assert during > before
        OtherProgram(runtime, add("2", 4).reference).wait()
        assert calls() == during


def test_a_pull_that_is_given_up(start_agent, runtime, add):
    """The line of a cancelled pull goes away."""
    image = add("1", 40)
    with Pulls(start_agent(runtime.endpoint)) as pulls:
        other = OtherProgram(runtime, image.reference)
        pulls.wait(name_of(image), lambda pull: pull.bytes_done > 0)
        other.cancel()
        pulls.wait_none()


def test_containerd_dies(start_agent, new_runtime, add):
    """A killed containerd leaves a lease, which is no pull. The next pull of the image is one, and goes on with the rest."""
    image = add("1", 16)
    with new_runtime("other") as runtime:
        agent = start_agent(runtime.endpoint)
        with Pulls(agent) as pulls:
            first = OtherProgram(runtime, image.reference)
            pulls.wait(name_of(image), lambda pull: pull.bytes_done > 4 * _MEGABYTE)
            runtime.kill9()
            with pytest.raises(grpc.RpcError):
                first.wait()
            wait_until(lambda: not pulls.events[-1][1].runtime.ready, 20, "news of the runtime")
            runtime.start()
            wait_until(lambda: pulls.events[-1][1].runtime.ready, 20, "news of the runtime")
            assert runtime.cri.ingests(), "containerd keeps nothing of the pull"
            pulls.wait_none()
            pulls.events.clear()
            other = OtherProgram(runtime, image.reference)
            again = pulls.wait(name_of(image), lambda pull: pull.bytes_done > 0)
            assert again.bytes_done >= 4 * _MEGABYTE and again.bytes_total == pytest.approx(image.size, rel=0.02)
            other.wait()
            pulls.wait_none()
        runtime.remove_image(image.reference)


@pytest.mark.parametrize(
    "manifest",
    [
        b"{",
        b'{"config": {"digest": "sha256:%s", "size": -1}, "layers": []}' % (b"0" * 64),
        b'{"config": {"digest": "x\\u001b[2J", "size": 1}, "layers": []}',
        b'{"config": {"digest": "sha256:%s", "size": 1}, "layers": [%s]}'
        % (b"0" * 64, b",".join([b'{"digest": "sha256:%064x", "size": 1}' % n for n in range(2000)])),
        b" " * (5 << 20),
    ],
    ids=["cut", "size", "digest", "layers", "large"],
)
def test_hostile_manifest(start_agent, fake_runtime, manifest):
    """A manifest that cannot be read is no pull, and the answer comes all the same."""
    fake_runtime.content.add_blob(manifest)
    fake_runtime.content.leases.append("1234-abcd")
    agent = start_agent(fake_runtime.endpoint)
    ended = agent.ctl("pulls")
    assert (ended.returncode, ended.stdout.splitlines()[-1]) == (0, "No image is being pulled.")
    assert any(call.method == "Read" for call in fake_runtime.calls())


def test_unpacking(start_agent, fake_runtime):
    """A pull whose blobs are all there unpacks them; no time is left for bytes then."""
    image = build_image([random_layer(100_000, seed=3)])
    digest = fake_runtime.content.add_blob(image.manifest)
    for blob, size in (image.image_id, len(image.config)), (image.layers[0].digest, image.layers[0].size):
        ingest = Ingest(blob, size, bytes_per_second=1e9)
        ingest.began_at, ingest.began_ns = time.monotonic() - 1, time.time_ns() + 10**10
        fake_runtime.content.ingests.append(ingest)
    agent = start_agent(fake_runtime.endpoint)
    fake_runtime.content.leases.append("1234-abcd")
    (pull,) = json.loads(agent.ctl("pulls", "-o", "json").stdout)["pulls"]
    assert (pull["image"], pull["step"]) == (f"registry.example/demo/web@{digest}", "Unpacking")
    assert pull["bytesDone"] == pull["bytesTotal"] == image.layers[0].size + len(image.config)
    assert pull["bytesPerSecond"] == pull["secondsLeft"] == 0


def test_a_lease_from_before_the_agent(start_agent, fake_runtime):
    """It is a pull only once its bytes move: a program that was killed leaves one as well."""
    image = build_image([random_layer(8_000_000, seed=5)])
    digest = fake_runtime.content.add_blob(image.manifest)
    layer = Ingest(image.layers[0].digest, image.layers[0].size, bytes_per_second=10_000, stops_at=3_000_000)
    layer.began_at, layer.began_ns = time.monotonic() - 600, time.time_ns() - 600 * 10**9
    fake_runtime.content.ingests.append(layer)
    fake_runtime.content.leases.append("1234-abcd")
    fake_runtime.content.leases_made_at = time.time() - 600
    agent = start_agent(fake_runtime.endpoint)
    assert agent.ctl("pulls").stdout.splitlines()[-1] == "No image is being pulled."
    with Pulls(agent) as pulls:
        layer.stops_at = None
        assert pulls.wait(digest, lambda pull: pull.bytes_done > 0).bytes_done > 3_000_000


def test_a_pull_that_begins_again(start_agent, fake_runtime):
    """In a pipe the second pull of an image has a line, although it says the same as that of the first."""
    fake_runtime.on("PullImage", behaviours.hang())
    agent = start_agent(fake_runtime.endpoint)
    with agent.start_ctl("pulls", "--watch") as child:
        for _ in range(2):
            agent.request("demo/web:1")
            while "demo/web:1" not in (line := child.stdout.readline()):
                assert line, child.stderr.read()
            (agent.images_dir / "wanted.yaml").unlink()
            wait_until(lambda: "demo/web:1" not in agent.ctl("pulls").stdout, 20, "its end")
        child.terminate()
        assert "demo/web:1" not in child.communicate()[0]


def test_rate_of_a_pull_that_stands_still(start_agent, fake_runtime):
    """It is that of the last seconds, and falls below the average of the whole pull."""
    image = build_image([random_layer(8_000_000, seed=4)])
    digest = fake_runtime.content.add_blob(image.manifest)
    layer = Ingest(image.layers[0].digest, image.layers[0].size, bytes_per_second=2e6, stops_at=6_000_000)
    config = Ingest(image.image_id, len(image.config), bytes_per_second=1e9)
    fake_runtime.content.ingests += [layer, config]
    fake_runtime.content.leases.append("1234-abcd")
    agent = start_agent(fake_runtime.endpoint)
    for ingest in layer, config:
        ingest.began_at, ingest.began_ns = time.monotonic(), time.time_ns()

    def has_fallen(pull) -> bool:
        average = pull.bytes_done / (time.time() - pull.started_at)
        return pull.bytes_done >= layer.stops_at and pull.bytes_per_second < average / 8

    with Pulls(agent) as pulls:
        pulls.wait(digest, lambda pull: pull.bytes_per_second > 1_000_000)
        pulls.wait(digest, has_fallen)


def test_no_runtime(folder, start_agent):
    """Nothing is pulled then; a line says why."""
    ended = start_agent(f"unix://{folder / 'none.sock'}").ctl("pulls")
    assert (ended.returncode, ended.stdout.splitlines()[-1]) == (0, "No image is being pulled.")
    assert ended.stderr == "inplacectl: no container runtime is ready; try: inplacectl doctor\n"


def test_a_runtime_without_content(folder, start_agent, fake_registry, image_name):
    """CRI-O shows nothing of pulls: those of the agent have no bytes, and others are not there."""
    fake_registry.on("layer", Line(_MEGABYTE).behave)
    image = fake_registry.add(image_name, "1", build_image([random_layer(2 * _MEGABYTE, seed=7)]))
    with Crio(folder / "crio") as crio:
        agent = start_agent(crio.endpoint)
        agent.request(image.reference)
        with Pulls(agent) as pulls:
            pull = pulls.wait(image.reference)
            assert pull.requested_by and pull.bytes_total == pull.bytes_per_second == 0
            pulls.wait_none()

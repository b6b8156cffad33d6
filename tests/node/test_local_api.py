# SPDX-License-Identifier: Apache-2.0
"""The local API, as a program sees it that knows nothing of the agent but its .proto file."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time

import grpc
import pytest

from fake import behaviours
from lab import sanitizers, stubs
from lab.preload import Preload
from lab.wait import stretch, wait_until

_CLIENT = """
import sys, grpc, node_pb2, node_pb2_grpc
stub = node_pb2_grpc.NodeStub(grpc.insecure_channel("unix:" + sys.argv[1]))
for event in stub.Preload(node_pb2.PreloadRequest(images=sys.argv[2:])):
    if event.phase >= node_pb2.PHASE_SUCCEEDED:
        print(event.image, event.image_id)
print(stub.GetVersion(node_pb2.GetVersionRequest()).runtime_name)
"""


def test_proto_file_is_enough(agent, runtime, folder, push):
    """A program made of the one .proto file gets an image and its ID, with nothing else of ours."""
    image = push()
    proto = stubs.REPOSITORY / "proto" / "inplaced" / "v1"
    argv = [sys.executable, "-m", "grpc_tools.protoc", f"-I{proto}", f"--python_out={folder.path}"]
    subprocess.run([*argv, f"--grpc_python_out={folder.path}", "node.proto"], check=True)
    (folder / "client.py").write_text(_CLIENT)
    client = [sys.executable, "-B", "client.py", str(agent.socket), image.reference]
    ran = subprocess.run(client, cwd=folder.path, capture_output=True, text=True, timeout=30)
    assert (ran.returncode, ran.stdout.splitlines()) == (
        0,
        [f"{image.reference} {image.image_id}", runtime.cri_name],
    ), ran.stderr


@pytest.mark.handover
def test_preload_reports_all_there_is(agent, runtime, push):
    """A stream of events leads from waiting to the runtime's own ID and digest, and then ends."""
    image = push([1 << 20])
    preload = Preload(agent, image.reference)
    last = preload.wait_end()
    assert preload.phases()[-1] == "SUCCEEDED"
    assert (last.image, last.image_id) == (image.reference, image.image_id)
    assert list(last.repo_digests) == [image.digest_reference]
    assert (last.was_present, last.reason, last.message) == (False, "", "")
    assert len({event.request_id for event in preload.events}) == 1
    again = Preload(agent, image.digest_reference).wait_end()
    assert (again.image_id, again.was_present) == (image.image_id, True)


def test_first_events_come_at_once(start_agent, fake_runtime):
    """Each image of a request is reported at once, also while nothing of it can be done."""
    fake_runtime.on("ImageStatus", behaviours.hang())
    agent = start_agent(fake_runtime.endpoint)
    images = [f"demo/web:{number}" for number in range(20)]
    agent.node.GetVersion(agent.messages.GetVersionRequest())
    preload = Preload(agent, *images)
    wait_until(lambda: {event.image for event in preload.events} == set(images), 10, "events")
    assert preload.times[19] - preload.began_at < stretch(2 * sanitizers.SLOWNESS)
    assert set(preload.phases()) == {"WAITING"}


def test_slow_reader_gets_the_newest_state(start_agent, fake_runtime):
    """A slow reader gets each image's end, but not every state that it went through."""
    agent = start_agent(fake_runtime.endpoint)
    images = [f"demo/{'long-name-' * 15}{number}:1" for number in range(1000)]
    # A reader that does not let gRPC read ahead for it.
    options = [("grpc.http2.bdp_probe", 0), ("grpc.use_local_subchannel_pool", 1)]
    channel = grpc.insecure_channel(f"unix:{agent.socket}", options=options)
    stub = stubs.load("inplaced.v1.node").services.NodeStub(channel)
    agent.node.GetVersion(agent.messages.GetVersionRequest())  # connects before all are busy
    stream = stub.Preload(agent.messages.PreloadRequest(images=images))
    request = agent.messages.GetStatusRequest()

    def succeeded() -> int:
        return json.loads(agent.node.GetStatus(request).node_image_json)["status"]["succeeded"]

    wait_until(lambda: succeeded() == len(images), 40, lambda: f"1000, but {succeeded()}", 0.1)
    states: dict[str, list[int]] = {}
    for event in stream:
        states.setdefault(event.image, []).append(event.phase)
    channel.close()
    assert len(states) == len(images)
    assert {reported[-1] for reported in states.values()} == {agent.messages.PHASE_SUCCEEDED}
    assert sum(len(reported) == 1 for reported in states.values()) > 100


@pytest.mark.handover
def test_several_clients_share_one_pull(start_agent, runtime, gate):
    """Requests for the same image, by stream or file, share one call to the runtime."""
    agent = start_agent(runtime.endpoint)
    agent.request(gate.reference)
    preloads = [Preload(agent, gate.reference) for _ in range(5)]
    for preload in preloads:
        preload.wait_phase("PULLING")
    gate.open()
    ids = {preload.wait_end().image_id for preload in preloads}
    agent.wait_status(gate.reference, "Succeeded")
    assert ids == {runtime.image_id(gate.reference)}
    assert agent.metrics().total("inplaced_cri_requests_total", method="PullImage") == 1


def test_late_client_joins_the_pull(start_agent, fake_runtime):
    """A caller that asks in the middle of a pull is served by it, also if the image is to be pulled Always."""
    released = threading.Event()
    fake_runtime.on("PullImage", behaviours.when(released))
    agent = start_agent(fake_runtime.endpoint)
    always = agent.messages.PULL_POLICY_ALWAYS
    first = Preload(agent, "demo/web:1", pull_policy=always)
    wait_until(lambda: fake_runtime.calls("PullImage"), 10, "pull")
    second = Preload(agent, "demo/web:1", pull_policy=always)
    second.wait_phase("PULLING")
    released.set()
    assert second.wait_end().image_id == first.wait_end().image_id
    assert len(fake_runtime.calls("PullImage")) == 1


def test_one_image_twice_in_a_request(start_agent, fake_runtime):
    """An image that is named twice, in two ways, is pulled once and reported under both names."""
    agent = start_agent(fake_runtime.endpoint)
    names = {"nginx:1", "docker.io/library/nginx:1"}
    preload = Preload(agent, *names)
    preload.wait_end()
    ended = [event for event in preload.events if event.phase == agent.messages.PHASE_SUCCEEDED]
    assert {event.image for event in ended} == names
    assert len(fake_runtime.calls("PullImage")) == 1


def test_one_fails_the_other_is_there(start_agent, fake_runtime):
    """The good image of a request for two succeeds, and the bad one has its reason."""
    fake_runtime.on("PullImage", behaviours.fail("NOT_FOUND", "no such image"), image="demo/bad:1")
    agent = start_agent(fake_runtime.endpoint)
    preload = Preload(agent, "demo/good:1", "demo/bad:1", backoff_limit=0)
    preload.wait_end()
    assert preload.phases("demo/good:1")[-1] == "SUCCEEDED"
    failed = preload.wait_phase("FAILED", "demo/bad:1", 1)
    assert failed.reason == "NotFound"
    assert "no such image" in failed.message and "\n" not in failed.message


@pytest.mark.parametrize(
    "fields", [{}, {"images": ["UPPER CASE"]}, {"images": ["good:1"] * 4097}, {"images": [""]}]
)
def test_bad_requests_are_refused_whole(start_agent, fake_runtime, fields):
    """A request with malformed references alone, none or too many is refused; nothing is pulled."""
    agent = start_agent(fake_runtime.endpoint)
    with pytest.raises(grpc.RpcError) as error:
        list(agent.node.Preload(agent.messages.PreloadRequest(**fields), timeout=10))
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert error.value.details()
    assert not fake_runtime.calls("PullImage")


def test_limits_of_a_request(start_agent, fake_runtime):
    """The time-out of an attempt, the number of retries and the policy of a request are heeded."""
    fake_runtime.on("PullImage", behaviours.hang())
    fake_runtime.hold("demo/web:1")
    agent = start_agent(fake_runtime.endpoint)
    always = agent.messages.PULL_POLICY_ALWAYS
    began = time.monotonic()
    preload = Preload(
        agent, "demo/web:1", timeout_seconds=1, backoff_limit=0, pull_policy=always
    )
    assert preload.wait_end().reason == "DeadlineExceeded"
    assert 1 <= time.monotonic() - began < stretch(5 * sanitizers.SLOWNESS)
    assert len(fake_runtime.calls("PullImage")) == 1


def test_get_status(agent, runtime, push):
    """GetStatus gives the NodeImage of the status file, the runtime, and no problem here."""
    image = push()
    agent.request(image.reference)
    agent.wait_status(image.reference, "Succeeded")
    answer = agent.node.GetStatus(agent.messages.GetStatusRequest())
    assert json.loads(answer.node_image_json) == agent.status()
    assert answer.runtime.name == runtime.cri_name
    assert answer.runtime.ready and answer.runtime.chosen
    assert not answer.problems


def test_list_images(agent, runtime, push):
    """ListImages gives what the runtime lists, and the owners of each image."""
    image = push()
    agent.request(image.reference, file="web.yaml")
    agent.wait_status(image.reference, "Succeeded")
    Preload(agent, image.reference).wait_end()
    images = agent.node.ListImages(agent.messages.ListImagesRequest()).images
    held = {"sha256:" + one.id.removeprefix("sha256:") for one in runtime.list_images()}
    assert {one.id for one in images} == held
    (found,) = [one for one in images if one.id == image.image_id]
    assert list(found.repo_tags) == [image.reference]
    assert list(found.repo_digests) == [image.digest_reference]
    assert found.size_bytes == runtime.image_status(image.reference).size
    # The local request is done: its status can be read, but it requests nothing any more.
    assert list(found.requested_by) == ["folder:web.yaml"]


def test_diagnose(agent, runtime):
    """Diagnose lists the sockets that were tried, what answered there, and what is fine."""
    agent.wait_runtime()
    answer = agent.node.Diagnose(agent.messages.DiagnoseRequest())
    (found,) = answer.runtimes
    assert found.endpoint == runtime.endpoint
    assert found.ready and found.chosen and found.has_progress == runtime.has_own_api
    facts = {fact.subject: fact.value for fact in answer.facts}
    assert str(agent.images_dir) in facts["images folder"]
    assert str(agent.state_dir) in facts["status file"]
    assert not answer.problems


def test_get_version(agent, runtime):
    """GetVersion gives the versions of the agent and of the runtime."""
    agent.wait_runtime()
    answer = agent.node.GetVersion(agent.messages.GetVersionRequest())
    version = runtime.cri.version()
    assert answer.version
    assert answer.runtime_name == version.runtime_name
    assert answer.runtime_version == version.runtime_version
    assert answer.runtime_api_version == "v1"

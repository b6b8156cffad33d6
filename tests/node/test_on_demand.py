# SPDX-License-Identifier: Apache-2.0
"""A snapshotter that has an image pulled before its content is there, with the real one for eStargz."""

from __future__ import annotations

import json

import pytest

from fake import registry as fakes
from lab.documents import node_image, write_whole
from lab.image import build_image
from lab.layers import random_layer
from lab.stargz import Stargz, push_lazy_image
from lab.trouble import problems
from lab.wait import wait_until

_LAYERS = [3_000_000, 1_000_000]


@pytest.fixture(scope="module")
def lazy_image(session_folder, registry):
    return push_lazy_image(registry, "t/on-demand", _LAYERS, session_folder / "converts")


@pytest.fixture
def start_stargz(folder):
    """start_stargz(no_background_fetch=…): the runtime, ready, with containerd of this release."""
    started = []

    def start(release="1.6", root_megabytes=None, **options):
        stargz = Stargz(
            folder / "stargz",
            release=release,
            root_megabytes=root_megabytes,
            snapshotter_options=options,
        )
        started.append(stargz)
        stargz.start()
        return stargz

    yield start
    for stargz in started:
        stargz.close()


def _on_demand(agent, image):
    images = json.loads(agent.ctl("images", "-o", "json").stdout)["images"]
    return next(i for i in images if image in i["repoTags"])["onDemand"]


def _read_all(stargz):
    """The bytes of all files, as a container would read them."""
    layers = (stargz.stargz_root / "snapshotter" / "snapshots").glob("*/fs")
    files = [path for layer in layers for path in layer.rglob("*") if path.is_file()]
    return sum(len(path.read_bytes()) for path in files)


def test_says_what_is_on_the_node(start_stargz, start_agent, lazy_image):
    stargz = start_stargz(no_background_fetch=True)
    agent = start_agent(stargz.endpoint)
    agent.request(lazy_image, file="stays.yaml")  # a request of inplacectl ends with it
    pulled = agent.ctl("pull", lazy_image)
    assert pulled.returncode == 0
    assert "2 of 2 layers are fetched on demand, 0." in pulled.stdout

    found = _on_demand(agent, lazy_image)
    assert found["layers"] == 2
    assert 0 < found["bytesPresent"] < found["bytesTotal"] / 10
    assert found["bytesTotal"] > sum(_LAYERS)
    assert "MB on demand" in agent.ctl("images").stdout
    message = agent.wait_status(lazy_image, "Succeeded")["message"]
    assert message.startswith("2 of 2 layers are fetched on demand")
    assert "layers are fetched on demand" in agent.ctl("status").stdout
    agent.terminate()
    agent.start()
    assert _on_demand(agent, lazy_image) == found
    facts = agent.ctl("doctor").stdout
    assert "fetched on demand" in facts and "layers of 1 images" in facts


@pytest.mark.parametrize("release", ["1.6", "2"])
def test_complete_waits_for_all(start_stargz, start_agent, lazy_image, registry, release):
    """Then its files can be read without the registry."""
    stargz = start_stargz(release)
    agent = start_agent(stargz.endpoint)
    pulled = agent.ctl("pull", "--complete", "-o", "json", lazy_image)
    assert pulled.returncode == 0
    (result,) = json.loads(pulled.stdout)["results"]
    assert result["onDemand"]["bytesPresent"] == result["onDemand"]["bytesTotal"] > sum(_LAYERS)

    registry.stop()
    try:
        assert _read_all(stargz) == sum(_LAYERS)
    finally:
        registry.start()


def test_without_complete_files_go_with_the_registry(
    start_stargz, start_agent, lazy_image, registry
):
    stargz = start_stargz(no_background_fetch=True)
    agent = start_agent(stargz.endpoint)
    assert agent.ctl("pull", lazy_image).returncode == 0
    registry.stop()
    try:
        with pytest.raises(OSError):
            _read_all(stargz)
    finally:
        registry.start()


@pytest.mark.slow
def test_says_what_arrives_later(start_stargz, start_agent, lazy_image):
    """The snapshotter begins to fetch some seconds after the pull, and the status follows."""
    agent = start_agent(start_stargz().endpoint)
    assert agent.ctl("pull", lazy_image).returncode == 0

    def says_all():
        return "all 4." in agent.tag_status(lazy_image)["message"]

    assert "on demand, 0." in agent.wait_status(lazy_image, "Succeeded")["message"]
    wait_until(says_all, 120, "the status of what has arrived")
    found = _on_demand(agent, lazy_image)
    assert found["bytesPresent"] == found["bytesTotal"]


def test_a_document_asks_for_all(start_stargz, make_agent, lazy_image):
    stargz = start_stargz()
    agent = make_agent(stargz.endpoint)
    document = node_image((lazy_image,))
    for image in document["spec"]["images"].values():
        image["tags"][0]["complete"] = True
    write_whole(agent.images_dir / "all.yaml", document)
    agent.start()
    status = agent.wait_status(lazy_image, "Succeeded", timeout=60)
    assert "2 of 2 layers are fetched on demand, all 4." in status["message"]


def test_a_snapshotter_that_fetches_nothing(start_stargz, start_agent, lazy_image):
    stargz = start_stargz(no_background_fetch=True)
    agent = start_agent(stargz.endpoint, stall_timeout=1)
    pulled = agent.ctl("pull", "--complete", "--attempts=1", lazy_image)
    assert pulled.returncode == 1
    assert "NoProgress" in pulled.stderr
    assert agent.ctl("pull", lazy_image).returncode == 0


def test_mounts_that_the_agent_does_not_see(start_stargz, make_agent, lazy_image):
    """As in a container without the snapshotter's folder."""
    stargz = start_stargz()
    agent = make_agent(stargz.endpoint)
    agent.argv = ["unshare", "--mount", "--propagation=private", *agent.argv]
    agent.start()
    pulled = agent.ctl("pull", "--complete", lazy_image)
    assert pulled.returncode == 1
    assert "Incomplete" in pulled.stderr
    assert "cannot be seen" in agent.ctl("pull", lazy_image).stdout
    assert "?/" in agent.ctl("images").stdout


def test_a_snapshotter_that_unpacks(agent, push):
    """Nothing is said of layers, and there is nothing to wait for."""
    image = push(busybox=True)
    pulled = agent.ctl("pull", "--complete", "-o", "json", image.reference)
    assert pulled.returncode == 0
    (result,) = json.loads(pulled.stdout)["results"]
    assert "onDemand" not in result and result["message"] == ""


def test_cancel(start_stargz, start_agent, gate):
    """Neither containerd nor the snapshotter fetches any more."""
    agent = start_agent(start_stargz().endpoint)
    with agent.start_ctl("pull", gate.reference) as child:
        gate.wait_fetched()
        child.kill()
        gate.wait_left()


def test_removed_by_others(start_stargz, start_agent, lazy_image):
    """It is seen by the same event, and the image comes back."""
    stargz = start_stargz(no_background_fetch=True)
    agent = start_agent(stargz.endpoint)
    agent.request(lazy_image)
    agent.wait_status(lazy_image, "Succeeded")
    stargz.untag(lazy_image)
    agent.wait_status(lazy_image, "Missing")
    agent.wait_status(lazy_image, "Succeeded", 60)


def test_another_manifest_than_that_of_the_digest(
    start_stargz, start_agent, fake_registry, image_name
):
    image = fake_registry.add(image_name, "1", build_image([random_layer(1000)]))
    fake_registry.on("manifest", fakes.forge())
    agent = start_agent(start_stargz().endpoint)
    agent.request(image.reference, backoffLimit=0)
    assert "WrongContent" in agent.wait_status(image.reference, "Failed")["message"]


def test_keeps_the_disks_reserve(start_stargz, start_agent, lazy_image):
    """The folder that containerd names is not there; what is downloaded is in its root."""
    stargz = start_stargz(root_megabytes=96)
    (stargz.root / "filler").write_bytes(bytes(50_000_000))
    agent = start_agent(stargz.endpoint, min_free_disk="90%")
    agent.request(lazy_image)
    found = wait_until(lambda: problems(agent).get("disk"), 20, "complaint about the disk")
    assert f"are free in {stargz.root}, less than minFreeDisk" in found

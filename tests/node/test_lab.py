# SPDX-License-Identifier: Apache-2.0
"""Proves the lab itself: that its real parts work, and that nothing of it is left behind."""

from __future__ import annotations

import json
import os
import random
import signal
import re
import subprocess
import sys
from ipaddress import IPv4Network
from pathlib import Path

import grpc
import pytest

from lab.cri import Cri, describe_error
from lab.folder import LabFolder
from lab.interface import free_network
from lab.layers import random_layer
from lab.registry import Registry
from lab.wait import wait_until

TESTS = Path(__file__).resolve().parents[1]


def test_runtime_starts_fast(new_runtime):
    with new_runtime("again") as runtime:
        seconds = runtime.process.began_at
        runtime.kill9()
        runtime.start(timeout=5)
        assert runtime.process.began_at > seconds
        assert runtime.cri.version().runtime_api_version == "v1"


def test_networks_are_given_once():
    """Two clusters that are made at once have a network each, though neither has an address of it yet."""
    reserved = IPv4Network("240.0.0.0/4")  # a part of the internet in which nothing has an address
    first = random.randrange(int(reserved[0]), int(reserved[-2]))
    networks = [IPv4Network(first), IPv4Network(first + 1)]
    with free_network(networks) as one, free_network(networks) as other:
        assert [one, other] == networks
        with pytest.raises(RuntimeError), free_network(networks):
            pass
    with free_network(networks) as again:
        assert again == networks[0]


@pytest.mark.parametrize("image_format", ["docker", "oci"])
def test_pull_by_tag_and_digest(runtime, push, image_format):
    image = push([30 << 20], image_format=image_format)
    for reference in (image.reference, image.digest_reference):
        runtime.pull(reference)
        assert runtime.image_id(reference) == image.image_id
    status = runtime.image_status(image.reference)
    assert status.repo_tags == [image.reference]
    assert status.repo_digests == [image.digest_reference]
    assert image.size > 30 << 20
    assert status.id in [held.id for held in runtime.list_images()]
    runtime.remove_image(image.reference)
    assert runtime.image_status(image.reference) is None


@pytest.mark.containers
def test_containers_run(runtime, push):
    image = push([], busybox=True, env={"GREETING": "hello"})
    runtime.pull(image.reference)
    ran = runtime.run(image.reference, "/bin/sh", "-c", "echo $GREETING", name="greeter")
    assert (ran.returncode, ran.stdout) == (0, "hello\n"), ran.stderr


def test_images_survive_kill9(new_runtime, registry):
    image = registry.push_image("t/survivor", "1", [1000])
    with new_runtime("small") as runtime:
        runtime.pull(image.reference)
        runtime.kill9()
        runtime.start()
        assert runtime.image_id(image.reference) == image.image_id


def test_full_disk(new_runtime, registry):
    image = registry.push_image("t/too-large", "1", [20 << 20])
    with new_runtime("small", root_megabytes=16) as runtime:
        with pytest.raises(grpc.RpcError) as error:
            runtime.pull(image.reference)
    assert "no space left on device" in describe_error(error.value)


def test_auth_registry_refuses_anonymous(runtime, auth_registry):
    image = auth_registry.push_image("t/secret", "1", [1000])
    with pytest.raises(grpc.RpcError) as error:
        runtime.pull(image.reference)
    refusals = "401 Unauthorized|authentication required|no basic auth credentials"
    assert re.search(refusals, describe_error(error.value))
    with pytest.raises(grpc.RpcError):
        runtime.pull(image.reference, ("lab-user", "wrong"))
    runtime.pull(image.reference, auth_registry.credentials)
    assert runtime.image_id(image.reference) == image.image_id
    runtime.remove_image(image.reference)


def test_tls_registry(folder, runtime):
    with Registry(folder / "registry", tls=True) as registry:
        image = registry.push_image("t/tls", "1", [1000])
        with pytest.raises(grpc.RpcError):
            runtime.pull(image.reference)
        runtime.trust(registry)
        runtime.pull(image.reference)
        assert runtime.image_id(image.reference) == image.image_id
        runtime.remove_image(image.reference)


def test_many_images_are_pushed_fast(registry):
    pushed = [
        registry.push_image("t/many", str(number), [100], labels={"number": str(number)})
        for number in range(50)
    ]
    assert len({image.image_id for image in pushed}) == 50


def test_layers_are_the_same_every_time():
    content = b"".join(random_layer(3_000_000, seed=5).chunks())
    random_layer.cache_clear()
    again = random_layer(3_000_000, seed=5)
    assert b"".join(again.chunks()) == content
    assert again.size == len(content) > 3_000_000


def processes_in(folder: str) -> dict[int, str]:
    found = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if folder in line:
            found[int(path.parent.name)] = line
    return found


def kill_runtime(folder: str, *more: str) -> None:
    """Kills containerd, then its shims, which it would clean up after, and what else has one of these words."""
    for word in ("bin/containerd ", "containerd-shim", *more):
        for pid, line in processes_in(folder).items():
            if word in line:
                os.kill(pid, signal.SIGKILL)


def control_groups(container: str) -> list[Path]:
    """cgroups of either version."""
    return [*Path("/sys/fs/cgroup").glob(f"k8s.io/{container}")] + [
        *Path("/sys/fs/cgroup").glob(f"*/k8s.io/{container}")
    ]


def start_command_line(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(TESTS / "lab" / "up.py"), "--large-megabytes", "1", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.containers
@pytest.mark.parametrize("end", ["stdin", "SIGTERM", "SIGKILL", "runtime", "dead"])
def test_command_line_leaves_nothing(folder, end):
    place = folder / "up"
    container = f"sleeper-{os.getpid()}-{end}"
    with start_command_line("--dir", str(place)) as child:
        about = json.loads(child.stdout.readline())
        assert set(about) >= {"endpoint", "registry", "image_hello", "image_large"}
        cri = Cri(Path(about["socket"]))
        cri.pull(about["image_hello"])
        cri.close()
        # A container in the background: neither it nor its shim is a child of containerd.
        ctr = ["ctr", "-a", about["socket"], "-n", "k8s.io", "run", "-d"]
        ctr += ["--runc-root", f"{place}/containerd/runc", about["image_hello"], container]
        subprocess.run([*ctr, "/bin/sh", "-c", "while sleep 1; do :; done", place], check=True)
        for process in ("containerd-shim", "while sleep 1"):
            found = lambda text=process: text in " ".join(processes_in(str(place)).values())  # noqa: E731
            wait_until(found, 10, process)
        assert control_groups(container)
        if end == "runtime":
            kill_runtime(str(place))
        elif end == "dead":
            kill_runtime(str(place), "while sleep 1")
        if end in ("SIGTERM", "SIGKILL"):
            child.send_signal(signal.Signals[end])
        else:
            child.stdin.close()
        code = child.wait(30)
    assert code == (-9 if end == "SIGKILL" else 0)
    wait_until(lambda: not place.exists(), 30, f"end of {place}")
    assert processes_in(str(place)) == {}
    assert str(place) not in Path("/proc/mounts").read_text()
    assert control_groups(container) == []


def test_folder_too_long():
    with pytest.raises(ValueError, match="too long for sockets"):
        LabFolder(Path("/tmp") / ("x" * 100))
    assert not (Path("/tmp") / ("x" * 100)).exists()

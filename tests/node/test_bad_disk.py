# SPDX-License-Identifier: Apache-2.0
"""Proves that a full or read-only disk is one line, for the images and for the agent's own
status, and that nothing true is lost by it.
"""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from lab import sanitizers
from lab.documents import node_image, write_whole
from lab.trouble import complaints, facts, no_leak, node_stub, problems, pull_another, the_complaint, wait_logged
from lab.wait import stretch, wait_until

SLOWLY = sanitizers.SLOWNESS


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


@pytest.fixture
def full_agent(make_agent, fake_runtime):
    """An agent whose status has no room: `state_dir` is a tiny file system that is filled up."""
    agent = make_agent(fake_runtime.endpoint)
    mount("-t", "tmpfs", "-o", "size=64k", "tmpfs", str(agent.state_dir))
    return agent


def fill(folder) -> None:
    with (folder / "filler").open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(bytes(4096))
        except OSError:
            pass


def test_runtime_out_of_space(start_agent, new_runtime, registry, image_name):
    """An image that does not fit fails for lack of space; a small one still fits; room helps."""
    with new_runtime("small", root_megabytes=40) as runtime:
        large = registry.push_image(image_name, "large", [30_000_000], seed=7)
        small = registry.push_image(image_name, "small", [1000], seed=8)
        agent = start_agent(runtime.endpoint)
        with no_leak(agent):
            agent.request(large.reference, backoffLimit=0)
            status = agent.wait_status(large.reference, "Failed", 20 * SLOWLY)
            assert status["message"].startswith("NoSpace: "), status
            assert "no space left on device" in status["message"]
            assert "; free disk space on the node (" in status["message"]
            assert the_complaint(agent) == f'Cannot pull "{large.reference}": {status["message"]}'
        # containerd keeps what it has fetched for a while
        subprocess.run(["mount", "-o", "remount,size=200m", str(runtime.root)], check=True)
        agent.request(small.reference, file="small.yaml")
        agent.wait_status(small.reference, "Succeeded", 20 * SLOWLY)
        agent.request(large.reference, version=1)
        agent.wait_status(large.reference, "Succeeded", 20 * SLOWLY)
        assert runtime.image_id(large.reference) == large.image_id
        assert len(complaints(agent)) == 1


def test_little_space_is_reported(start_agent, new_runtime):
    """Before anything fails, the diagnosis says that the disk of the images is nearly full."""
    with new_runtime("small", root_megabytes=24) as runtime:
        agent = start_agent(runtime.endpoint)
        wait_until(lambda: problems(agent) == {}, 10 * SLOWLY, "runtime")
        fill(runtime.root)
        assert "0.0 GB free (0 %)" in problems(agent)["disk"]


def test_hidden_disk_is_reported(start_agent, fake_runtime, folder):
    """Where a sandbox hides the runtime's folder, the diagnosis says that, and it is no problem."""
    fake_runtime.filesystem = str(folder / "hidden")
    agent = start_agent(fake_runtime.endpoint)
    wait_until(lambda: "disk" in facts(agent), 10 * SLOWLY, "runtime")
    why = "No such file or directory"
    assert facts(agent)["disk"] == (
        f"the agent cannot read the free space of {folder / 'hidden'}, so it does not keep minFreeDisk: {why}"
    )
    assert problems(agent) == {}


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("victim")])
def test_temporary_file_is_taken(make_agent, fake_runtime, make):
    """A file in place of the status' temporary file is removed: not opened, not waited for."""
    agent = make_agent(fake_runtime.endpoint)
    (agent.state_dir / "victim").write_text("precious")
    make(agent.state_dir / ".nodeimage.json.new")
    agent.start()
    pull_another(agent, "good/first:1")
    assert (agent.state_dir / "victim").read_text() == "precious"
    assert (agent.state_dir / "nodeimage.json").stat().st_mode & 0o7777 == 0o640
    assert complaints(agent) == []


def test_status_without_space(full_agent):
    """The status on disk stays the last whole one, one line says why, and the API knows better."""
    agent = full_agent
    agent.start()
    pull_another(agent, "good/first:1")
    last = agent.status()
    with no_leak(agent):
        fill(agent.state_dir)
        references = [f"good/n{number}:1" for number in range(100)]
        agent.request(*references)
        the_complaint(agent, "Cannot write")
        assert "No space left on device" in complaints(agent)[0]
        path = str(agent.state_dir / "nodeimage.json")
        assert "No space" in problems(agent)[path]
        (said,) = [line for line in agent.ctl("status").stdout.splitlines() if path in line]
        assert said.count(path) == 1
        assert agent.status() == last

        with node_stub(agent) as node:

            def n_succeeded() -> int:
                answer = node.GetStatus(agent.messages.GetStatusRequest())
                return json.loads(answer.node_image_json)["status"]["succeeded"]

            wait_until(lambda: n_succeeded() == 101, 10 * SLOWLY, "success of all images")
        (agent.state_dir / "filler").unlink()
        wait_until(lambda: agent.status()["status"]["succeeded"] == 101, 10 * SLOWLY, "new status")
    assert len(complaints(agent)) == 1
    assert problems(agent) == {}
    assert [line["message"] for line in agent.logs() if "again" in line["message"]] == [
        f'Wrote "{agent.state_dir / "nodeimage.json"}" again.'
    ]


def test_status_that_is_too_large(start_agent, fake_runtime):
    """A status that the next run would not read, as annotations stand with each tag, does not replace the last good one."""
    agent = start_agent(fake_runtime.endpoint)
    for number in range(9):
        name = f"large/n{number}"
        document = node_image(tuple(f"{name}:{tag}" for tag in range(8)))
        document["spec"]["images"][name]["sandboxConfig"] = {"annotations": {"a": "x" * 1_000_000}}
        write_whole(agent.images_dir / f"n{number}.yaml", document)
    assert "File too large" in the_complaint(agent, "Cannot write", 30)
    assert (agent.state_dir / "nodeimage.json").stat().st_size <= 64 << 20
    (agent.images_dir / "n8.yaml").unlink()
    wait_logged(agent, 'nodeimage.json" again', 30)
    assert len(agent.status()["spec"]["images"]) == 8
    assert len(complaints(agent)) == 1


def test_start_and_end_without_space(full_agent):
    """Without room for even the first status the agent starts, works and ends as always."""
    fill(full_agent.state_dir)
    full_agent.start()
    full_agent.request("good/one:1")
    done = full_agent.ctl("pull", "good/one:1")
    assert done.returncode == 0, done.stderr
    the_complaint(full_agent, "Cannot write")
    ended = full_agent.terminate()
    assert ended.code == 0 and ended.seconds < stretch(5 * SLOWLY)
    first, last = complaints(full_agent)
    assert "retrying" in first and "retrying" not in last and "No space left on device" in last


@pytest.mark.parametrize("kind", ["read-only", "file", "impossible", "dangling-link"])
def test_status_cannot_be_written(make_agent, fake_runtime, kind):
    """A state folder that cannot be written costs the status file, one line, and nothing else."""
    agent = make_agent(fake_runtime.endpoint)
    folder = agent.state_dir
    if kind == "read-only":
        mount("-t", "tmpfs", "-o", "ro,size=64k", "tmpfs", str(folder))
    else:
        folder.rmdir()
    if kind == "file":
        folder.write_text("precious")
    elif kind == "impossible":
        agent.argv.append("--state-dir=/proc/none/below")
    elif kind == "dangling-link":
        folder.symlink_to("nowhere")
    agent.start()
    done = agent.ctl("pull", "good/one:1")
    assert done.returncode == 0, done.stderr
    line = the_complaint(agent)
    assert line.startswith("Cannot ") and "nodeimage.json" in line
    assert len(problems(agent)) == 1
    if kind == "file":
        assert folder.read_text() == "precious"


def test_state_folder_vanishes(start_agent, fake_runtime):
    """A folder that is taken away is made again or complained of once; the agent goes on."""
    agent = start_agent(fake_runtime.endpoint)
    pull_another(agent, "good/first:1")
    for path in agent.state_dir.iterdir():
        path.unlink()
    agent.state_dir.rmdir()
    done = agent.ctl("pull", "good/one:1", "good/two:1")
    assert done.returncode == 0, done.stderr
    agent.state_dir.mkdir(exist_ok=True)
    agent.wait_status("good/first:1", "Succeeded", 10 * SLOWLY)
    assert len(complaints(agent)) <= 1

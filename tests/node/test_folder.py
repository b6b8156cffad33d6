# SPDX-License-Identifier: Apache-2.0
"""Desired state in a folder: files come, change and go, in all ways of people and tools."""

from __future__ import annotations

import json
import os
import threading
import time

from fake import behaviours
from lab.documents import node_image, write_whole
from lab.wait import wait_until


def requested_tags(agent) -> list[str]:
    images = agent.status().get("spec", {}).get("images", {})
    return [f"{name}:{tag['tag']}" for name, image in images.items() for tag in image["tags"]]


def wait_requested(agent, *references: str) -> None:
    expected = sorted(references)
    wait_until(
        lambda: sorted(requested_tags(agent)) == expected,
        10,
        lambda: f"status of {expected}, but of {requested_tags(agent)}",
    )


def test_file_is_added(agent, runtime, push):
    """A file that appears has its image pulled, and the status has the runtime's own ID."""
    image = push()
    agent.request(image.reference)
    status = agent.wait_status(image.reference, "Succeeded")
    assert status["imageID"].endswith(f"@{runtime.image_id(image.reference)}")
    assert agent.owners(image.reference) == [("File", "wanted.yaml")]


def test_files_that_are_there_at_start(make_agent, runtime, push):
    """A file that is in the folder before the agent starts is pulled as well."""
    image = push()
    agent = make_agent(runtime.endpoint)
    agent.request(image.reference)
    agent.start()
    agent.wait_status(image.reference, "Succeeded")


def test_file_is_changed_and_removed(agent, runtime, push):
    """A changed file requests other images, a removed one none; pulled images stay on the node."""
    first, second = push(tag="1"), push(tag="2")
    agent.request(first.reference)
    agent.wait_status(first.reference, "Succeeded")
    agent.request(second.reference)
    agent.wait_status(second.reference, "Succeeded")
    assert requested_tags(agent) == [second.reference]
    os.unlink(agent.images_dir / "wanted.yaml")
    wait_requested(agent)
    assert agent.status()["status"]["desired"] == 0
    assert runtime.image_id(first.reference) == first.image_id


def test_file_is_renamed(start_agent, fake_runtime):
    """A file under a new name requests the same for a new owner, and nothing is pulled again."""
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/web:1", file="old.yaml")
    agent.wait_status("demo/web:1", "Succeeded")
    os.rename(agent.images_dir / "old.yaml", agent.images_dir / "new.yaml")
    wait_until(
        lambda: agent.owners("demo/web:1") == [("File", "new.yaml")], 10, "the new owner"
    )
    agent.wait_status("demo/web:1", "Succeeded")
    assert len(fake_runtime.calls("PullImage")) == 1


def test_half_written_file(start_agent, fake_runtime):
    """A file that is being written counts when it is closed; until then its last content does."""
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/web:1", file="web.yaml")
    agent.wait_status("demo/web:1", "Succeeded")
    text = json.dumps(node_image(("demo/web:2",)))
    with (agent.images_dir / "web.yaml").open("w") as file:
        file.write(text[: len(text) // 2])
        file.flush()
        # By the time that another file has been read, this one would have been, too.
        agent.request("demo/other:1", file="other.yaml")
        agent.wait_status("demo/other:1", "Succeeded")
        assert sorted(requested_tags(agent)) == ["demo/other:1", "demo/web:1"]
        file.write(text[len(text) // 2 :])
    agent.wait_status("demo/web:2", "Succeeded")
    wait_requested(agent, "demo/other:1", "demo/web:2")
    assert not agent.node.GetStatus(agent.messages.GetStatusRequest()).problems


def test_file_that_is_not_ready_at_start(start_agent, fake_runtime):
    """A file that is being written or broken when the agent starts has what the last run had of it."""
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/web:1", file="web.yaml")
    agent.wait_status("demo/web:1", "Succeeded")
    agent.terminate()
    with (agent.images_dir / "web.yaml").open("w") as file:
        agent.start()
        agent.request("demo/other:1", file="other.yaml")
        agent.wait_status("demo/other:1", "Succeeded")
        assert agent.owners("demo/web:1") == [("File", "web.yaml")]
        json.dump(node_image(("demo/web:2",)), file)
    agent.wait_status("demo/web:2", "Succeeded")
    wait_requested(agent, "demo/other:1", "demo/web:2")
    agent.terminate()
    write_whole(agent.images_dir / "web.yaml", "kind: [\n")
    os.unlink(agent.images_dir / "other.yaml")
    agent.start()
    wait_requested(agent, "demo/web:2")
    problems = agent.node.GetStatus(agent.messages.GetStatusRequest()).problems
    advice = {problem.subject: problem.advice for problem in problems}
    assert "last good content" in advice[str(agent.images_dir / "web.yaml")]
    os.unlink(agent.images_dir / "web.yaml")
    wait_requested(agent)
    assert len(fake_runtime.calls("PullImage")) == 3


def test_mounted_configuration(make_agent, fake_runtime):
    """A folder as a mounted ConfigMap is swapped at once when its hidden link is replaced."""
    agent = make_agent(fake_runtime.endpoint)
    folder = agent.images_dir
    for number in ("1", "2"):
        (folder / f"..{number}").mkdir()
        write_whole(folder / f"..{number}" / "web.yaml", node_image((f"demo/web:{number}",)))
    (folder / "..data").symlink_to("..1")
    (folder / "web.yaml").symlink_to("..data/web.yaml")
    agent.start()
    agent.wait_status("demo/web:1", "Succeeded")
    (folder / "..data_tmp").symlink_to("..2")
    os.rename(folder / "..data_tmp", folder / "..data")
    agent.wait_status("demo/web:2", "Succeeded")
    wait_requested(agent, "demo/web:2")


def test_folder_is_a_link(make_agent, fake_runtime):
    """When the folder itself is a link that is replaced, the files of its new target count."""
    agent = make_agent(fake_runtime.endpoint)
    agent.images_dir.rmdir()
    for number in ("1", "2"):
        target = agent.folder / f"target-{number}"
        target.mkdir()
        write_whole(target / "web.yaml", node_image((f"demo/web:{number}",)))
    agent.images_dir.symlink_to("target-1")
    agent.start()
    agent.wait_status("demo/web:1", "Succeeded")
    half = agent.folder / "half"
    half.symlink_to("target-2")
    os.rename(half, agent.images_dir)
    agent.wait_status("demo/web:2", "Succeeded")
    wait_requested(agent, "demo/web:2")
    # The new folder is watched like the one before.
    agent.request("demo/late:1", file="late.yaml")
    agent.wait_status("demo/late:1", "Succeeded")


def test_folder_that_is_unreadable_at_start(start_agent, fake_runtime):
    """The files of the last run count until the folder shows which of them are still there."""
    agent = start_agent(fake_runtime.endpoint)
    for name in ("kept", "removed"):
        agent.request(f"demo/{name}:1", file=f"{name}.yaml", policy="Always")
        agent.wait_status(f"demo/{name}:1", "Succeeded")
    agent.terminate()
    aside = agent.folder / "aside"
    os.rename(agent.images_dir, aside)
    agent.images_dir.symlink_to(agent.images_dir)
    agent.start()
    problems = agent.node.GetStatus(agent.messages.GetStatusRequest()).problems
    assert str(agent.images_dir) in [problem.subject for problem in problems]  # the runtime may not be there yet
    wait_requested(agent, "demo/kept:1", "demo/removed:1")
    os.unlink(aside / "removed.yaml")
    os.unlink(agent.images_dir)
    os.rename(aside, agent.images_dir)
    agent.request("demo/next:1", file="next.yaml")
    agent.wait_status("demo/next:1", "Succeeded")
    wait_requested(agent, "demo/kept:1", "demo/next:1")
    pulls = [call.image for call in fake_runtime.calls("PullImage")]
    assert pulls == ["demo/kept:1", "demo/removed:1", "demo/next:1"]


def test_folder_appears_late(make_agent, fake_runtime):
    """A folder that is not there at the start counts from the moment that it appears."""
    agent = make_agent(fake_runtime.endpoint)
    agent.images_dir.rmdir()
    agent.start()
    agent.images_dir.mkdir()
    agent.request("demo/web:1")
    agent.wait_status("demo/web:1", "Succeeded")


def test_several_documents_in_a_file(start_agent, fake_runtime):
    """A file may hold several documents, in YAML as people write it."""
    agent = start_agent(fake_runtime.endpoint)
    write_whole(
        agent.images_dir / "all.yml",
        """\
# Two of them.
apiVersion: apps.kruise.io/v1alpha1
kind: NodeImage
metadata: {name: web}
spec:
  images:
    demo/web:
      tags:
      - tag: "1.27"   # a number without its quotes
        imagePullPolicy: IfNotPresent
---
apiVersion: apps.kruise.io/v1beta1
kind: NodeImage
metadata:
  name: tools
spec:
  images:
    demo/tools:
      tags:
      - {tag: latest}
      - {tag: "2"}
...
""",
    )
    for reference in ("demo/web:1.27", "demo/tools:latest", "demo/tools:2"):
        agent.wait_status(reference, "Succeeded")


def test_kinds_of_files(start_agent, fake_runtime):
    """Files in .yaml, .yml and .json count; hidden ones and others do not."""
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/web:0", file=".hidden.yaml")
    agent.request("demo/web:0", file="notes.txt")
    agent.request("demo/web:1", file="a.json")
    agent.request("demo/web:2", file="b.yml")
    agent.request("demo/web:3", file="c.yaml")
    agent.wait_status("demo/web:3", "Succeeded")
    wait_requested(agent, "demo/web:1", "demo/web:2", "demo/web:3")


def slowest_answer_during(agent, attempt: int) -> float:
    """Measures calls while five large files come into force; returns the slowest as a part of the time that
    this takes.
    """
    padding = {f"padding-{number}": "x" * 100 for number in range(25_000)}
    references = [f"demo/web:{attempt}{number}" for number in range(5)]
    for number, reference in enumerate(references):
        document = node_image((reference,))
        document["metadata"]["annotations"] = padding
        (agent.images_dir / f".large-{number}").write_text(json.dumps(document))
    slowest, begun = 0.0, time.monotonic()
    for number in range(5):
        os.rename(agent.images_dir / f".large-{number}", agent.images_dir / f"large-{number}.yaml")
    while sorted(requested_tags(agent)) != references:
        asked = time.monotonic()
        assert asked < begun + 60, "the files do not come into force"
        agent.node.GetStatus(agent.messages.GetStatusRequest())
        slowest = max(slowest, time.monotonic() - asked)
    return slowest / (time.monotonic() - begun)


def test_large_files_do_not_block_callers(start_agent, fake_runtime):
    """A caller of the local API waits for one large file at most, not for all that have changed."""
    agent = start_agent(fake_runtime.endpoint)
    parts: list[float] = []
    while not parts or parts[-1] > 0.5:
        assert len(parts) < 3, f"the slowest answers took these parts of the time: {parts}"
        parts.append(slowest_answer_during(agent, len(parts)))


def test_desired_images_are_merged(start_agent, fake_runtime):
    """Files that name one image share one pull and own it together, however they write its name."""
    agent = start_agent(fake_runtime.endpoint)
    released = threading.Event()
    fake_runtime.on("PullImage", behaviours.when(released))
    agent.request("nginx:1", file="a.yaml", policy="Always", version=2)
    wait_until(lambda: fake_runtime.calls("PullImage"), 10, "pull")
    agent.request("docker.io/library/nginx:1", file="b.yaml", policy="Always")
    wait_until(
        lambda: agent.owners("nginx:1") == [("File", "a.yaml"), ("File", "b.yaml")],
        10,
        lambda: f"two owners, but {agent.owners('nginx:1')}",
    )
    assert agent.status()["status"]["desired"] == 1
    (call,) = fake_runtime.calls("PullImage")
    assert not call.over.is_set()
    released.set()
    agent.wait_status("nginx:1", "Succeeded")
    agent.request("demo/next:1", file="c.yaml")
    agent.wait_status("demo/next:1", "Succeeded")
    assert [call.image for call in fake_runtime.calls("PullImage")] == ["nginx:1", "demo/next:1"]


def test_pull_outlives_one_of_its_owners(start_agent, fake_runtime):
    """When one of two files goes, the pull goes on; when the second goes, it is cancelled."""
    fake_runtime.on("PullImage", behaviours.hang())
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/web:1", file="a.yaml")
    agent.request("demo/web:1", file="b.yaml")
    wait_until(lambda: fake_runtime.calls("PullImage"), 10, "pull")
    wait_until(lambda: len(agent.owners("demo/web:1")) == 2, 10, "second owner")
    os.unlink(agent.images_dir / "a.yaml")
    wait_until(lambda: agent.owners("demo/web:1") == [("File", "b.yaml")], 10, "one owner")
    (call,) = fake_runtime.calls("PullImage")
    assert not call.over.is_set()
    os.unlink(agent.images_dir / "b.yaml")
    assert call.wait_over(60) and call.cancelled
    assert len(fake_runtime.calls("PullImage")) == 1


def test_name_that_is_no_utf8(start_agent, fake_runtime):
    """Any name will do; the status stays JSON, and what the file was served with is remembered."""
    agent = start_agent(fake_runtime.endpoint)
    documents = [node_image((f"demo/web:{number}",)) for number in range(3)]
    names = [b"\xff.yaml", b"\xfe.yaml", b"%FF.yaml"]
    for name, document in zip(names, documents):
        path = os.path.join(os.fsencode(agent.images_dir), name)
        with open(path + b".half", "w") as file:
            json.dump(document, file)
        os.rename(path + b".half", path)
    for number in range(3):
        agent.wait_status(f"demo/web:{number}", "Succeeded")
    assert agent.owners("demo/web:0") == [("File", "./%FF.yaml")]
    assert agent.owners("demo/web:1") == [("File", "./%FE.yaml")]
    assert agent.owners("demo/web:2") == [("File", "%FF.yaml")]
    assert "./%FF.yaml" in agent.ctl("images", "-o", "json").stdout
    for image in fake_runtime.images.copy():
        del fake_runtime.images[image]
    agent.terminate()
    agent.start()
    agent.request("demo/next:1", file="next.yaml")
    agent.wait_status("demo/next:1", "Succeeded")
    assert len(fake_runtime.calls("PullImage")) == 4


def test_bad_file_keeps_its_last_good_content(start_agent, fake_runtime):
    """A file that cannot be understood is named with its line, and its last good content counts."""
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/web:1", file="web.yaml")
    agent.wait_status("demo/web:1", "Succeeded")
    write_whole(agent.images_dir / "web.yaml", "apiVersion: apps.kruise.io/v1alpha1\nkind: [\n")

    def problems() -> list:
        return list(agent.node.GetStatus(agent.messages.GetStatusRequest()).problems)

    (problem,) = wait_until(problems, 10, "problem")
    assert problem.subject == str(agent.images_dir / "web.yaml")
    assert "line 3" in problem.message and problem.advice
    assert requested_tags(agent) == ["demo/web:1"]
    shown, checked = agent.ctl("status"), agent.ctl("doctor")
    assert "web.yaml" in shown.stdout + shown.stderr and shown.returncode == 0
    assert "web.yaml" in checked.stdout + checked.stderr and checked.returncode == 3
    assert agent.metrics().get_value("inplaced_desired_documents", state="refused") == 1
    agent.request("demo/web:2", file="web.yaml")
    agent.wait_status("demo/web:2", "Succeeded")
    wait_until(lambda: not problems(), 10, "end of the problem")

# SPDX-License-Identifier: Apache-2.0
"""Proves that files that cannot be used cost one line each and nothing else."""

from __future__ import annotations

import json
import os

import pytest

from lab import sanitizers
from lab.documents import node_image, write_whole
from lab.trouble import complaints, no_leak, node_stub, problems, pull_another, the_complaint
from lab.wait import wait_until

GOOD = json.dumps(node_image(("good/one:1",)))


def write_bytes(path, content: bytes) -> None:
    """All at once, as write_whole() does with texts."""
    half = path.with_name(".half")
    half.write_bytes(content)
    os.rename(half, path)


def spec_of(images: str) -> bytes:
    head = "apiVersion: apps.kruise.io/v1alpha1\nkind: NodeImage\nspec:\n  images: "
    return (head + images).encode()


UNUSABLE = {
    "unclosed-list": (b"a: [", "line 2"),
    "unclosed-quote": (b'a: "b', "line 1"),
    "tab": (b"a:\n\t- b", "line 2"),
    "not-utf-8": (b"a: \xff\xfe\xfa", ""),
    "nul": (b"kind: Node\0Image", ""),
    "binary": (bytes(range(256)) * 64, ""),
    "utf-16": ("kind: NodeImage".encode("utf-16"), ""),
    "unknown-alias": (b"a: *b", ""),
    "key-twice": (spec_of("{}") + b"\nkind: NodeImage", "twice"),
    "text": (b"hello", ""),
    "number": (b"42", ""),
    "list": (b"[]", ""),
    "pod": (b"apiVersion: v1\nkind: Pod\nmetadata: {name: a}", "Pod"),
    "other-group": (b"apiVersion: example.org/v1\nkind: NodeImage", "example.org"),
    "other-version": (b"apiVersion: apps.kruise.io/v9\nkind: NodeImage", "apps.kruise.io/v9"),
    "no-kind": (b"apiVersion: apps.kruise.io/v1alpha1", "kind"),
    "spec-is-text": (b"apiVersion: apps.kruise.io/v1alpha1\nkind: NodeImage\nspec: x", "spec"),
    "images-is-list": (spec_of("[a]"), "spec.images"),
    "image-is-text": (spec_of("{a: b}"), "a"),
    "no-tags": (spec_of("{a: {}}"), "tags"),
    "tag-is-number": (spec_of("{a: {tags: [{tag: 1.5}]}}"), "tag"),
    "tag-twice": (spec_of("{a: {tags: [{tag: b}, {tag: b}]}}"), "twice"),
    "second-of-two": (GOOD.encode() + b"\n---\nkind: Pod\n", "document 2"),
    "control-codes": (spec_of('{"\\e[31mred\\n": b}'), ""),
    "long-name": (spec_of(f"{{{'a' * 5000}: b}}"), ""),
    "many-images": (spec_of(json.dumps({f"a{i}": {"tags": []} for i in range(4097)})), "4096"),
    "nested-lists": (b"[" * 1_000_000, ""),
    "nested-maps": (b'{"a":' * 600_000, ""),
    "nested-blocks": (b"- " * 1_000_000, ""),
    "10-mb-nested": (b"[" * 10_000_000, "larger than 4 MiB"),
    "many-values": (b"[" + b"1," * 1_000_000 + b"1]", ""),
    "alias-bomb": (
        b"a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
        + b"".join(
            f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n".encode() for i in range(1, 12)
        ),
        "",
    ),
    "long-line": (spec_of("{a: " + "x" * 4_000_000 + "}"), ""),
}


@pytest.fixture
def agent(start_agent, fake_runtime):
    agent = start_agent(fake_runtime.endpoint)
    pull_another(agent, "good/first:1")
    return agent


@pytest.mark.parametrize("case", UNUSABLE)
def test_unusable_document(agent, fake_runtime, case):
    """A file that cannot be used costs one line, in the log and in the diagnosis, until corrected."""
    content, hint = UNUSABLE[case]
    bad = agent.images_dir / "bad.yaml"
    before = agent.memory().anonymous
    with no_leak(agent):
        write_bytes(bad, content)
        line = the_complaint(agent, "bad.yaml")
        assert line.startswith(f'Cannot use "{bad}": ') and hint in line, line
        assert list(problems(agent)) == [str(bad)]
        pull_another(agent)
        write_whole(bad, GOOD)
        agent.wait_status("good/one:1", "Succeeded", 5 * sanitizers.SLOWNESS)
        assert problems(agent) == {}
    assert len(complaints(agent)) == 1
    if not sanitizers.NAME:  # the kernel decides how much of the program's own file is in memory
        wait_until(lambda: agent.memory().anonymous - before < 4000, 5, "end of the memory")


def test_last_good_content_counts(agent, fake_runtime):
    """The requests of a file before it broke stay in force, and nothing is pulled again."""
    file = agent.images_dir / "web.yaml"
    write_whole(file, GOOD)
    agent.wait_status("good/one:1", "Succeeded", 5)
    write_whole(file, "a: [")
    the_complaint(agent, "web.yaml")
    pull_another(agent)
    assert agent.tag_status("good/one:1")["phase"] == "Succeeded"
    file.unlink()
    wait_until(lambda: agent.tag_status("good/one:1") is None, 5, "end of the request")
    assert len(fake_runtime.calls("PullImage", "good/one:1")) == 1


TYPO = """\
apiVersion: apps.kruise.io/v1alpha1
kind: NodeImage
metadata: {annotations: {a: b}, creationTimestamp: null, managedFields: []}
spec:
  images:
    good/one:
      tags:
      - tag: "1"
        pullPolicy: {timeoutSecond: 5}
      pullSecret: [{name: a}]
status: {desired: 7}
"""


def test_unknown_keys(agent):
    """Unknown keys are named with file, line and likely key; the rest of the document is used."""
    file = agent.images_dir / "web.yaml"
    write_whole(file, TYPO)
    line = the_complaint(agent, "web.yaml")
    assert f'"{file}", line 9: ' in line, line
    assert "pullPolicy.timeoutSecond: unknown key" in line and "mean timeoutSeconds?" in line
    assert "1 more" in line
    agent.wait_status("good/one:1", "Succeeded", 5 * sanitizers.SLOWNESS)
    with node_stub(agent) as node:
        found = node.Diagnose(agent.messages.DiagnoseRequest()).problems
    assert [problem.subject for problem in found] == [str(file)] * 2
    assert "line 10: " in found[1].message and "mean pullSecrets?" in found[1].message
    agent.reload()
    pull_another(agent)
    write_whole(file, TYPO.replace("Second:", "Seconds:").replace("pullSecret:", "pullSecrets:"))
    wait_until(lambda: problems(agent) == {}, 5, "no problems")
    assert len(complaints(agent)) == 1


def test_image_for_images(agent):
    """A spec whose only key is mistyped asks for nothing, and the agent says so."""
    write_bytes(agent.images_dir / "web.yaml", spec_of("{a: {tags: []}}").replace(b"images", b"image"))
    line = the_complaint(agent, "web.yaml")
    assert "line 4: spec.image: unknown key, ignored; did you mean images?" in line


def test_same_mistake_again(agent):
    """Writing the same mistake again and again, or reloading, is no news."""
    bad = agent.images_dir / "bad.yaml"
    for number in range(10):
        write_whole(bad, "a: [")
        agent.reload()
        pull_another(agent, f"good/after-{number}:1")
    the_complaint(agent, "bad.yaml")


def test_many_bad_files(agent):
    """A folder full of junk costs a line per file, and the good file in it is still read."""
    for number in range(200):
        write_whole(agent.images_dir / f"bad-{number:03}.yaml", "a: [")
    pull_another(agent, "good/last:1")
    wait_until(lambda: len(problems(agent)) == 200, 10, "200 problems")
    assert len(complaints(agent)) == 200
    assert len({line.split('"')[1] for line in complaints(agent)}) == 200


@pytest.mark.parametrize("kind", ["folder", "fifo", "device", "loop", "dangling", "socket"])
def test_not_a_file(agent, kind):
    """Something that is no file is not waited for, not read for ever, and said in one line."""
    bad = agent.images_dir / "bad.yaml"
    if kind == "folder":
        bad.mkdir()
    elif kind == "fifo":
        os.mkfifo(bad)
    elif kind == "device":
        bad.symlink_to("/dev/zero")
    elif kind == "loop":
        bad.symlink_to(bad.name)
    elif kind == "dangling":
        bad.symlink_to("nowhere")
    else:
        bad.symlink_to(agent.socket)
    with no_leak(agent):
        the_complaint(agent, "bad.yaml")
        pull_another(agent)
    assert len(complaints(agent)) == 1


def test_reading_is_no_standstill(agent):
    """While much junk is read, callers are served between one file and the next."""
    for number in range(8):
        write_bytes(agent.folder / f"junk-{number}", b"- a: [1, {b: c}]\n" * 200_000)
    for number in range(8):
        (agent.folder / f"junk-{number}").rename(agent.images_dir / f"junk-{number}.yaml")
    answers = 0
    with node_stub(agent) as node:
        while len(complaints(agent)) < 8:
            node.GetVersion(agent.messages.GetVersionRequest(), timeout=10 * sanitizers.SLOWNESS)
            answers += 1
    assert answers > 4


def test_document_that_grows(agent):
    """A file that is written slowly is used once it is whole, not half, and without a line."""
    with (agent.images_dir / "slow.yaml").open("w") as output:
        for letter in GOOD[: len(GOOD) // 2]:
            output.write(letter)
            output.flush()
        pull_another(agent)
        assert agent.tag_status("good/one:1") is None
        output.write(GOOD[len(GOOD) // 2 :])
    agent.wait_status("good/one:1", "Succeeded", 5)
    assert complaints(agent) == []

# SPDX-License-Identifier: Apache-2.0
"""Proves that references which can name nothing are refused in one line, from any source."""

from __future__ import annotations

import json

import grpc
import pytest

from lab import sanitizers
from lab.documents import write_whole
from lab.trouble import assert_clear, complaints, no_leak, node_stub, pull_another, the_complaint

DIGEST = "sha256:" + "0" * 64

# name and tag as a document has them; together they are what people write
MALFORMED = {
    "space": ("demo/we b", "1"),
    "space-in-tag": ("demo/web", "1 2"),
    "only-space": (" ", "1"),
    "newline": ("demo/web\nx", "1"),
    "uppercase": ("demo/Web", "1"),
    "two-colons": ("demo/web:1", "2"),
    "scheme": ("https://example.invalid/web", "1"),
    "5000-characters": ("a" * 5000, "1"),
    "5000-in-tag": ("demo/web", "1" * 5000),
    "255-and-more": ("demo/" + "a" * 251, "1"),
    "tag-of-129": ("demo/web", "1" * 129),
    "short-digest": ("demo/web", "sha256:0123"),
    "other-digest": ("demo/web", "md5:" + "0" * 32),
    "uppercase-digest": ("demo/web", "sha256:" + "A" * 64),
    "two-digests": (f"demo/web@{DIGEST}", DIGEST),
    "leading-dash": ("-demo/web", "1"),
    "double-slash": ("demo//web", "1"),
    "leading-slash": ("/demo/web", "1"),
    "dots": ("../../etc/passwd", "1"),
    "port-is-text": ("example.invalid:port/web", "1"),
    "umlaut": ("demo/wéb", "1"),
    "control-codes": ("demo/\x1b[31mweb", "1"),
    "percent": ("demo/%s%n", "1"),
    "option": ("--help", "1"),
    "image-id": ("0" * 64, "1"),
}


def written(case: str) -> str:
    name, tag = MALFORMED[case]
    if case == "image-id":
        return name
    return f"{name}{'@' if 'digest' in case else ':'}{tag}"


def document_of(images: dict[str, list[str]]) -> str:
    policy = {"backoffLimit": 0}
    entries = {
        name: {"tags": [{"tag": tag, "pullPolicy": policy} for tag in tags]}
        for name, tags in images.items()
    }
    head = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "NodeImage"}
    return json.dumps({**head, "spec": {"images": entries}})


@pytest.fixture
def agent(start_agent, fake_runtime):
    agent = start_agent(fake_runtime.endpoint)
    pull_another(agent, "good/first:1")
    return agent


@pytest.fixture
def asked_for(fake_runtime):
    """The references that the runtime was asked for."""
    return lambda: {call.image for call in fake_runtime.calls() if call.image}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_reference_in_folder(agent, asked_for, case):
    """A malformed reference fails at once by itself, in one line; others in its file are pulled."""
    name, tag = MALFORMED[case]
    with no_leak(agent):
        write_whole(agent.images_dir / "a.yaml", document_of({name: [tag], "good/one": ["1"]}))
        if "5000" in case:  # longer than anything a document may hold: refused with its file
            line = the_complaint(agent, "a.yaml")
            assert "longer than 4096" in line
        else:
            agent.wait_status("good/one:1", "Succeeded", 5 * sanitizers.SLOWNESS)
            line = the_complaint(agent)
            assert "InvalidReference: invalid image " in line
            assert "; correct the name, the tag or the digest" in line
            (status,) = agent.status()["status"]["imageStatuses"][name]["tags"]
            assert (status["tag"], status["phase"]) == (tag, "Failed")
            assert_clear(status["message"])
        pull_another(agent)
    assert len(complaints(agent)) == 1
    assert asked_for() <= {"good/first:1", "good/one:1", "good/another:1"}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_reference_by_api(agent, asked_for, case):
    """A malformed reference fails at once by itself, in one line; the other images of its request are pulled."""
    request = agent.messages.PreloadRequest(images=[written(case), "good/one:1", written(case)])
    with no_leak(agent), node_stub(agent) as node:
        events = list(node.Preload(request, timeout=10 * sanitizers.SLOWNESS))
        pull_another(agent)
    bad = [event for event in events if event.image == written(case)]
    assert [(event.phase, event.reason) for event in bad] == [
        (agent.messages.PHASE_FAILED, "InvalidReference")
    ] * 2
    assert "invalid image reference" in bad[0].message
    assert_clear(bad[0].message)
    good = [event.phase for event in events if event.image == "good/one:1"]
    assert good[-1] == agent.messages.PHASE_SUCCEEDED
    assert asked_for() == {"good/first:1", "good/one:1", "good/another:1"}
    assert complaints(agent) == []


@pytest.mark.parametrize("case", MALFORMED)
def test_nothing_but_malformed_references_by_api(agent, asked_for, case):
    """A request without any valid reference is refused as a whole, in one line."""
    request = agent.messages.PreloadRequest(images=[written(case), "UPPER"])
    with no_leak(agent), node_stub(agent) as node:
        with pytest.raises(grpc.RpcError) as error:
            list(node.Preload(request, timeout=10 * sanitizers.SLOWNESS))
        assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "invalid image " in error.value.details()
        assert_clear(error.value.details())
        pull_another(agent)
    assert asked_for() == {"good/first:1", "good/another:1"}
    assert complaints(agent) == []


@pytest.mark.parametrize("case", ["space", "uppercase", "two-colons", "5000-characters"])
def test_malformed_reference_by_command(agent, case):
    """`inplacectl pull` pulls the valid images, and reports the others, about which nothing can be done."""
    done = agent.ctl("pull", "good/one:1", written(case), "good/two:1")
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    (line,) = [line for line in done.stdout.splitlines() if "InvalidReference" in line]
    assert "invalid image reference" in line
    for reference in ("good/one:1", "good/two:1"):
        agent.wait_status(reference, "Succeeded")
    alone = agent.ctl("pull", written(case))
    assert alone.returncode == 2
    assert alone.stderr.count("\n") == 1 and "invalid image reference" in alone.stderr
    assert_clear(alone.stderr.rstrip("\n"))
    left = agent.ctl("pull", "--no-wait", written(case), "good/three:1")
    assert left.returncode == 3
    agent.wait_status("good/three:1", "Succeeded")


@pytest.mark.parametrize("text", ["good/one:1\0junk", "\0", "good/one:1\0"])
def test_reference_with_nul(agent, asked_for, text):
    """The bytes behind a NUL are not overlooked: it is another reference, and a malformed one."""
    request = agent.messages.PreloadRequest(images=[text])
    with node_stub(agent) as node, pytest.raises(grpc.RpcError) as error:
        list(node.Preload(request, timeout=10))
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert asked_for() == {"good/first:1"}


@pytest.mark.parametrize(
    "fields",
    [
        {"images": ["good/one:1"], "pull_policy": 7},
        {"images": ["good/one:1"], "timeout_seconds": -1},
        {"images": ["good/one:1"], "backoff_limit": -1},
        {"images": ["good/one:1"], "active_deadline_seconds": -1},
        {"images": ["good/one:1"], "ttl_seconds_after_finished": -1},
    ],
    ids=["policy", "timeout", "backoff", "deadline", "ttl"],
)
def test_impossible_request(agent, asked_for, fields):
    """An invalid request is refused as a whole, in one line."""
    request = agent.messages.PreloadRequest(**fields)
    with node_stub(agent) as node, pytest.raises(grpc.RpcError) as error:
        list(node.Preload(request, timeout=10 * sanitizers.SLOWNESS))
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert_clear(error.value.details())
    assert asked_for() == {"good/first:1"}

# SPDX-License-Identifier: Apache-2.0
"""Proves that a thousand images asked for at once are worked off in order: each comes to its end,
few at a time, in little memory, with one line for its beginning and one for its end.
"""

from __future__ import annotations

import threading

import pytest

from fake import behaviours
from lab import sanitizers
from lab.documents import node_image, write_whole
from lab.trouble import assert_prompt, complaints, no_leak, node_stub, pull_another
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS
N_IMAGES = 1000
REFERENCES = [f"many/n{number:04}:1" for number in range(N_IMAGES)]
MISSING = REFERENCES[::10]


class Crowd:
    """How many calls of one method are in the runtime at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_now = 0
        self.most = 0

    def __call__(self, call, good):
        with self._lock:
            self._n_now += 1
            self.most = max(self.most, self._n_now)
        try:
            if call.method == "PullImage" and call.image in MISSING:
                return behaviours.fail("NOT_FOUND", "no such image")(call, good)
            return good()
        finally:
            with self._lock:
                self._n_now -= 1


@pytest.fixture
def pulls(fake_runtime):
    crowd = Crowd()
    fake_runtime.on("PullImage", crowd)
    return crowd


@pytest.fixture
def agent(start_agent, fake_runtime, pulls):
    agent = start_agent(fake_runtime.endpoint, max_parallel_pulls=7, log_level="info")
    pull_another(agent, "good/first:1")
    assert_prompt(agent, 1)
    return agent


def assert_worked_off(agent, fake_runtime, pulls, before) -> None:
    assert pulls.most <= 7
    assert len(fake_runtime.calls("PullImage")) == N_IMAGES + 1
    assert len(complaints(agent, "NotFound: no such image")) == len(MISSING)
    assert len(complaints(agent)) == len(MISSING)
    assert len(agent.logs()) < 2 * N_IMAGES + 10
    metrics = agent.metrics()
    assert metrics.get_value("inplaced_pulls_total", result="succeeded", reason="") == 901
    assert metrics.get_value("inplaced_pulls_total", result="failed", reason="NotFound") == 100
    if not sanitizers.NAME:
        wait_until(
            lambda: agent.memory().anonymous - before < 5000, 5, lambda: f"end of {agent.memory()}"
        )


def n_of(agent, phase: str) -> int:
    return agent.status().get("status", {}).get(phase, 0)


@pytest.mark.parametrize("n_files", [1, 100])
def test_many_in_folder(agent, fake_runtime, pulls, n_files):
    """A thousand images in the folder, of which every tenth does not exist, all come to an end,
    while callers are answered promptly.
    """
    before = agent.memory().anonymous
    with no_leak(agent):
        for number in range(n_files):
            part = tuple(REFERENCES[number::n_files])
            document = node_image(part, backoffLimit=0)
            write_whole(agent.images_dir / f"many-{number}.yaml", document)
        wait_until(lambda: n_of(agent, "desired") == N_IMAGES + 1, 10 * SLOWLY, "all desired images")
        assert_prompt(agent)
        assert agent.descriptors() < 60
        wait_until(
            lambda: n_of(agent, "succeeded") + n_of(agent, "failed") == N_IMAGES + 1,
            40 * SLOWLY,
            lambda: f"end of all images: {agent.status()['status']}"[:300],
        )
    assert n_of(agent, "failed") == len(MISSING)
    assert_worked_off(agent, fake_runtime, pulls, before)


def test_many_in_one_request(agent, fake_runtime, pulls):
    """A thousand images in one request all come to an end in its stream, each once."""
    before = agent.memory().anonymous
    request = agent.messages.PreloadRequest(images=REFERENCES, backoff_limit=0)
    ends: dict[str, list[int]] = {}
    with no_leak(agent):
        with node_stub(agent) as node:
            for event in node.Preload(request, timeout=40 * SLOWLY):
                if event.phase >= agent.messages.PHASE_SUCCEEDED:
                    ends.setdefault(event.image, []).append(event.phase)
    missing = {image for image, end in ends.items() if end == [agent.messages.PHASE_FAILED]}
    there = {image for image, end in ends.items() if end == [agent.messages.PHASE_SUCCEEDED]}
    assert missing == set(MISSING)
    assert missing | there == set(REFERENCES)
    assert_worked_off(agent, fake_runtime, pulls, before)


def test_many_given_up(agent, fake_runtime):
    """The thousand images of a caller that leaves are forgotten, and delay no others."""
    fake_runtime.on("PullImage", behaviours.hang())
    request = agent.messages.PreloadRequest(images=REFERENCES)
    with no_leak(agent):
        with node_stub(agent) as node:
            call = node.Preload(request, timeout=40 * SLOWLY)
            wait_until(lambda: len(fake_runtime.calls("PullImage")) == 8, 20 * SLOWLY, "pulls")
            call.cancel()
        hanging = fake_runtime.calls("PullImage")[1:]
        wait_until(lambda: all(one.cancelled for one in hanging), 10 * SLOWLY, "end of all pulls")
        wait_until(lambda: n_of(agent, "desired") == 1, 10 * SLOWLY, "end of the requests")
    fake_runtime.behave()
    pull_another(agent)
    assert len(fake_runtime.calls("PullImage")) == 9
    assert complaints(agent) == []


def test_many_behind_a_hanging_one(agent, fake_runtime):
    """An image that hangs takes one place of seven; the others go past it."""
    fake_runtime.on("PullImage", behaviours.hang(), "bad/one:1")
    agent.request("bad/one:1", file="bad.yaml")
    wait_until(lambda: fake_runtime.calls("PullImage", "bad/one:1"), 5 * SLOWLY, "call")
    agent.request(*REFERENCES[1:10], file="others.yaml")
    for reference in REFERENCES[1:10]:
        agent.wait_status(reference, "Succeeded", 10 * SLOWLY)
    assert agent.tag_status("bad/one:1")["phase"] == "Pulling"


@pytest.mark.handover
def test_many_callers_of_one_image(agent, fake_runtime):
    """Sixty callers of one image share one pull, and all are notified of its end."""
    released = threading.Event()
    fake_runtime.on("PullImage", behaviours.when(released), "good/shared:1")
    request = agent.messages.PreloadRequest(images=["good/shared:1"])
    with no_leak(agent):
        with node_stub(agent) as node:
            calls = [node.Preload(request, timeout=20 * SLOWLY) for _ in range(60)]
            for call in calls:
                assert next(call).phase < agent.messages.PHASE_SUCCEEDED
            released.set()
            ends = [list(call)[-1].phase for call in calls]
    assert set(ends) == {agent.messages.PHASE_SUCCEEDED}
    assert len(fake_runtime.calls("PullImage", "good/shared:1")) == 1
    assert "an unknown image" not in agent.log_text()
    succeeded = agent.metrics().get_value("inplaced_pulls_total", result="succeeded", reason="")
    assert succeeded == 2

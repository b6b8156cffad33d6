# SPDX-License-Identifier: Apache-2.0
"""Proves that a container runtime which hangs, lies, floods or breaks off is distinguished from one
that works, in one line, and that the agent outlives all of it and goes on.
"""

from __future__ import annotations

import threading
import time

import pytest

from fake import behaviours
from fake.front import Line
from fake.runtime import FakeRuntime
from lab import sanitizers
from lab.trouble import (
    assert_clear,
    assert_prompt,
    complaints,
    no_leak,
    problems,
    pull_another,
    the_complaint,
)
from lab.wait import wait_until

BAD = "bad/one:1"
DIGEST = "sha256:" + "d" * 64
SLOWLY = sanitizers.SLOWNESS


@pytest.fixture
def agent(start_agent, fake_runtime):
    agent = start_agent(fake_runtime.endpoint, stall_timeout=0)
    pull_another(agent, "good/first:1")
    return agent


def request_and_fail(agent, *, reference: str = BAD, timeout: float = 5, **limits: int) -> str:
    """The message of the failure, about which there is one line."""
    agent.request(reference, backoffLimit=0, **limits)
    status = agent.wait_status(reference, "Failed", timeout * SLOWLY)
    assert_clear(status["message"])
    assert "imageID" not in status
    assert the_complaint(agent) == f'Cannot pull "{reference}": {status["message"]}'
    return status["message"]


# It hangs


def test_pull_hangs(agent, fake_runtime):
    """A pull without end ends with its time-out, in the runtime, too; another image is pulled."""
    fake_runtime.on("PullImage", behaviours.hang(), BAD)
    with no_leak(agent):
        began = time.monotonic()
        agent.request(BAD, backoffLimit=0, timeoutSeconds=1)
        wait_until(lambda: fake_runtime.calls("PullImage", BAD), 5, "call")
        pull_another(agent)
        phase = agent.tag_status(BAD)["phase"]
        # A slow machine may have come this far only when the time was over.
        assert phase == "Pulling" or time.monotonic() - began > 1
        assert_prompt(agent)
        message = request_and_fail(agent, timeoutSeconds=1)
    assert message.startswith("DeadlineExceeded: ") and "timeoutSeconds" in message
    (call,) = fake_runtime.calls("PullImage", BAD)
    assert call.wait_over(60) and call.cancelled


@pytest.mark.slow
def test_image_status_hangs(agent, fake_runtime):
    """A runtime that does not answer about an image is given up after ten seconds, for that image."""
    fake_runtime.on("ImageStatus", behaviours.hang(), BAD)
    with no_leak(agent):
        agent.request(BAD, backoffLimit=0)
        wait_until(lambda: fake_runtime.calls("ImageStatus", BAD), 5, "call")
        pull_another(agent)
        message = request_and_fail(agent, timeout=15)
    assert message.startswith("RuntimeUnavailable: the runtime did not answer")
    assert fake_runtime.calls("PullImage", BAD) == []


@pytest.mark.slow
def test_all_calls_hang(agent, fake_runtime):
    """A runtime that answers nothing for a while has refused no image: that is no attempt."""
    released = threading.Event()
    for method in ("ImageStatus", "Version"):
        fake_runtime.on(method, behaviours.when(released))
    agent.request(BAD, backoffLimit=0)
    asked = lambda: len(fake_runtime.calls("ImageStatus", BAD)) == 2  # noqa: E731
    wait_until(asked, 20 * SLOWLY, lambda: f"second attempt: {agent.tag_status(BAD)}")
    assert agent.tag_status(BAD)["message"].startswith("RuntimeUnavailable: ")
    released.set()
    agent.wait_status(BAD, "Succeeded", 20 * SLOWLY)


def test_version_hangs(start_agent, fake_runtime):
    """A runtime that accepts and is silent is one line, however often it is tried, until it works.

    The agent is ready for its other work meanwhile.
    """
    fake_runtime.on("Version", behaviours.hang())
    agent = start_agent(fake_runtime.endpoint)
    agent.request("good/waits:1")
    wait_until(lambda: len(fake_runtime.calls("Version")) >= 2, 10 * SLOWLY, "second attempt")
    line = the_complaint(agent)
    assert "accepts connections but does not answer" in line
    assert "does not answer" in problems(agent)["container runtime"]
    assert agent.tag_status("good/waits:1")["phase"] == "Waiting"
    fake_runtime.behave()
    agent.wait_status("good/waits:1", "Succeeded", 5 * SLOWLY)
    assert len(complaints(agent)) == 1 and problems(agent) == {}


def test_progress_hangs(start_agent, fake_runtime):
    """The store that reports bytes may hang for ever; that is no reason to give up a pull that works."""
    agent = start_agent(fake_runtime.endpoint, stall_timeout=1)
    fake_runtime.on("ListStatuses", behaviours.hang())
    fake_runtime.on("PullImage", behaviours.slow(2))
    agent.request("good/one:1", backoffLimit=0)
    agent.wait_status("good/one:1", "Succeeded", 10 * SLOWLY)
    assert complaints(agent) == []


# It lies

LIES = {
    "empty": "",
    "nonsense": "sha256:nonsense",
    "newline": "sha256:" + "a" * 63 + "\n",
    "two-lines": "sha256:" + "a" * 64 + "\nFailed",
    "control-codes": "\x1b[31m" + "a" * 59,
    "uppercase": "sha256:" + "A" * 64,
    "name": "good/first:1",
    "1-mb": "x" * 1_000_000,
    "1-mb-of-digits": "sha256:" + "a" * 1_000_000,
}


@pytest.mark.parametrize("is_held", [False, True], ids=["pulled", "held"])
@pytest.mark.parametrize("lie", LIES)
def test_lie_about_the_id(agent, fake_runtime, lie, is_held):
    """An image whose ID is invalid is not reported as there, whether pulled or held before."""
    fake_runtime.on("ImageStatus", behaviours.lie_about_id(LIES[lie]), BAD)
    fake_runtime.on("PullImage", behaviours.lie_about_id(LIES[lie]), BAD)
    if is_held:
        fake_runtime.hold(BAD)
    else:  # a good answer that there is no such image cannot be spoilt
        answers = behaviours.in_turn(behaviours.normal(), behaviours.lie_about_id(LIES[lie]))
        fake_runtime.on("ImageStatus", answers, BAD)
    with no_leak(agent):
        message = request_and_fail(agent)
        pull_another(agent)
    assert message.startswith("WrongContent: the runtime reported "), message


@pytest.mark.parametrize("lie", LIES)
def test_lie_in_the_answer_to_a_pull(agent, fake_runtime, lie):
    """The ID is what the runtime holds after the pull, not what the pull answers."""
    fake_runtime.on("PullImage", behaviours.lie_about_id(LIES[lie]), "good/one:1")
    agent.request("good/one:1")
    status = agent.wait_status("good/one:1", "Succeeded", 5 * SLOWLY)
    assert status["imageID"] == f"good/one@{fake_runtime.images['good/one:1'].image_id}"
    assert complaints(agent) == []


def test_other_id_than_pulled(agent, fake_runtime):
    """If the runtime holds another image than it said it pulled, there is a line about it."""
    fake_runtime.on("PullImage", behaviours.lie_about_id(DIGEST), "good/one:1")
    agent.request("good/one:1")
    agent.wait_status("good/one:1", "Succeeded", 5 * SLOWLY)
    line = the_complaint(agent)
    assert DIGEST in line and fake_runtime.images["good/one:1"].image_id in line


@pytest.mark.parametrize("is_held", [False, True], ids=["pulled", "held"])
def test_other_digest_than_asked_for(agent, fake_runtime, is_held):
    """Another image under a digest is not taken for the one that was asked for."""
    reference = f"bad/one@{DIGEST}"
    if is_held:
        fake_runtime.hold(reference)
    message = request_and_fail(agent, reference=reference)
    assert message.startswith("WrongContent: ") and "another image" in message
    pull_another(agent)


def test_success_without_image(agent, fake_runtime):
    """Only an image that the runtime shows afterwards counts as pulled."""
    fake_runtime.on("PullImage", behaviours.answer(b""), BAD)
    message = request_and_fail(agent)
    assert message.startswith("WrongContent: the runtime reported success but does not hold")
    pull_another(agent)


# It floods, and talks nonsense

FLOODS = {
    "huge-image": ("ImageStatus", behaviours.huge(20)),
    "garbage-image": ("ImageStatus", behaviours.garbage()),
    "garbage-pull": ("PullImage", behaviours.garbage()),
    "huge-pull": ("PullImage", behaviours.answer(b"\x0a\x80\xda\xc4\x09" + b"x" * 20_000_000)),
    "long-error": ("PullImage", behaviours.fail("UNKNOWN", "no " * 2000)),
    "error-of-lines": ("PullImage", behaviours.fail("UNKNOWN", "one\ntwo\r\n\tthree\x1b[31m")),
    "format": ("PullImage", behaviours.fail("UNKNOWN", "%s%n%s%d {} $HOME `id`")),
}


@pytest.mark.parametrize("flood", FLOODS)
def test_flood(agent, fake_runtime, flood):
    """An answer that is too long or no answer at all is a failure in one line, and is not kept."""
    method, behaviour = FLOODS[flood]
    if method == "ImageStatus":
        fake_runtime.hold(BAD)
    fake_runtime.on(method, behaviour, BAD)
    before = agent.memory().anonymous
    with no_leak(agent):
        message = request_and_fail(agent)
        pull_another(agent)
    assert message.endswith("; check the log of the container runtime (attempt 1 of 1)"), message
    assert_nothing_is_kept(agent, fake_runtime, before)


def assert_nothing_is_kept(agent, fake_runtime, before: int) -> None:
    """The buffer that gRPC has prepared for the connection, as large as the largest piece, goes with the connection."""
    fake_runtime.front.drop()
    pull_another(agent, "good/afterwards:1")
    if not sanitizers.NAME:  # which keep freed memory
        used = lambda: agent.memory().anonymous - before  # noqa: E731
        wait_until(lambda: used() < 2000, 10, lambda: f"end: {used()} KiB are held")


def test_many_floods(agent, fake_runtime):
    """Twenty huge answers at once do not add up, and none is kept."""
    references = [f"bad/n{number}:1" for number in range(20)]
    for reference in references:
        fake_runtime.hold(reference)
        fake_runtime.on("ImageStatus", behaviours.huge(12), reference)
    before = agent.memory().anonymous
    with no_leak(agent):
        agent.request(*references, backoffLimit=0)
        for reference in references:
            agent.wait_status(reference, "Succeeded", 30 * SLOWLY)
        pull_another(agent)
    assert_nothing_is_kept(agent, fake_runtime, before)


@pytest.mark.handover
@pytest.mark.parametrize("method", ["ListStatuses", "List", "Info", "Read"])
def test_garbage_about_bytes(agent, fake_runtime, method):
    """Nonsense about bytes costs the bar its numbers, not the pull its success."""
    fake_runtime.on(method, behaviours.garbage())
    fake_runtime.on("PullImage", behaviours.slow(0.6))
    with no_leak(agent):
        pull_another(agent)
    assert complaints(agent) == []


@pytest.mark.parametrize("method", ["Version", "ImageFsInfo"])
def test_garbage_at_first(start_agent, fake_runtime, method):
    """A runtime whose first words are nonsense is refused in one line, until it speaks properly."""
    fake_runtime.on(method, behaviours.garbage())
    agent = start_agent(fake_runtime.endpoint)
    wait_until(lambda: len(fake_runtime.calls(method)) >= 5, 10 * SLOWLY, "fifth attempt")
    assert "answers but not as a CRI runtime" in the_complaint(agent)
    fake_runtime.behave()
    pull_another(agent)
    assert len(complaints(agent)) == 1


# Below its calls


def test_list_is_refused(agent, fake_runtime):
    """The runtime's words alone would not say who spoke."""
    fake_runtime.on("ListImages", behaviours.fail("UNAVAILABLE", "Socket closed"))
    asked = agent.ctl("images")
    assert asked.returncode == 1
    assert "the runtime cannot be asked: Socket closed" in asked.stderr


@pytest.mark.parametrize("code", ["DEADLINE_EXCEEDED", "CANCELLED", "UNIMPLEMENTED"])
@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("ListImages", ["images"]),
        ("ListContainers", ["verify"]),
        ("ListContainers", ["restart", "web"]),
    ],
)
def test_refusal_is_not_the_agents(agent, fake_runtime, code, method, arguments):
    """The caller would take such a status for a time limit of its own, or for the end of the agent."""
    fake_runtime.on(method, behaviours.fail(code, "no list today"))
    asked = agent.ctl(*arguments)
    assert (asked.returncode, asked.stdout) == (1, "")
    assert asked.stderr.endswith("no list today\n")


@pytest.mark.handover
def test_connection_drops(agent, fake_runtime):
    """A pull whose connection breaks is no failure: it goes on after the next connection."""
    fake_runtime.on("PullImage", behaviours.in_turn(behaviours.hang(), behaviours.normal()))
    with no_leak(agent):
        agent.request("good/one:1", backoffLimit=0)
        wait_until(lambda: fake_runtime.calls("PullImage", "good/one:1"), 5, "call")
        fake_runtime.front.drop()
        agent.wait_status("good/one:1", "Succeeded", 3 * SLOWLY)
    assert "has ended the connection" in the_complaint(agent)


def test_runtime_takes_no_calls(agent, fake_runtime):
    """A runtime that ends keeps the connection while pulls run, and takes no other call: that is no failure."""
    for method in ("PullImage", "Version"):
        fake_runtime.on(method, behaviours.fail("UNAVAILABLE", "GOAWAY received"))
    agent.request("good/one:1", backoffLimit=0)
    agent.wait_status("good/one:1", "BackOff")
    fake_runtime.behave()
    agent.wait_status("good/one:1", "Succeeded", 10 * SLOWLY)


def test_image_that_breaks_the_runtime(agent, fake_runtime):
    """An image over which the runtime goes away twice is asked for less often; others are not."""
    fake_runtime.on("PullImage", behaviours.hang(), BAD)
    agent.request(BAD, file="bad.yaml", backoffLimit=6)
    for number in (1, 2):
        wait_until(lambda n=number: len(fake_runtime.calls("PullImage", BAD)) == n, 5, "call")
        fake_runtime.front.drop()
    pull_another(agent)
    wait_until(lambda: len(fake_runtime.calls("PullImage", BAD)) == 3, 15 * SLOWLY, "third call")
    first, second, third = (call.began_at for call in fake_runtime.calls("PullImage", BAD))
    assert second - first < third - second
    # The second back-off is 2 s, a fifth more or less; the first would be 1.2 s at most. A busy fake
    # notes a call somewhat later than it comes.
    assert third - second > 1.3


@pytest.mark.parametrize("line", [Line.MUTE, Line.JUNK, Line.CLOSE])
def test_socket_that_does_not_speak(start_agent, fake_runtime, folder, line):
    """A server at the socket that is no runtime costs one line, and the other runtime is used."""
    with FakeRuntime(folder / "other") as other:
        other.front.line = line
        agent = start_agent([other.endpoint, fake_runtime.endpoint])
        pull_another(agent)
        the_complaint(agent, str(other.socket))
        assert len(complaints(agent)) == 1
        assert len(fake_runtime.calls("PullImage")) == 1


def reported(agent) -> str:
    """Why there is no runtime, at this moment."""
    return problems(agent).get("container runtime", "")


def test_outage_has_one_line(agent, fake_runtime):
    """The agent finds the runtime again after any absence, and any answer while it starts."""
    fake_runtime.front.vanish(leave_file=True)
    the_complaint(agent, "has ended the connection")
    wait_until(lambda: "nothing listens" in reported(agent), 10 * SLOWLY, "the next attempt")
    starting = behaviours.fail("UNKNOWN", "server is not initialized yet")
    fake_runtime.on("Version", starting)
    fake_runtime.front.listen()
    wait_until(lambda: "not ready yet" in reported(agent), 10 * SLOWLY, "an answer")
    fake_runtime.on("ImageFsInfo", behaviours.fail("UNAVAILABLE", "not now"))
    so_far = len(fake_runtime.calls("ImageFsInfo"))
    fake_runtime.on("Version", behaviours.normal())
    more = lambda: len(fake_runtime.calls("ImageFsInfo")) > so_far + 2  # noqa: E731
    wait_until(more, 10 * SLOWLY, "more attempts")
    assert "not ready yet" in reported(agent)
    assert sum("not ready yet" in line["message"] for line in agent.logs()) == 1
    fake_runtime.behave()
    pull_another(agent)
    the_complaint(agent)


def test_refused_in_other_words(start_agent, fake_runtime):
    """The same refusal is no news because the library noticed another side of it first."""
    fake_runtime.on("Version", behaviours.fail("INTERNAL", "Trying to connect an http1.x server"))
    agent = start_agent(fake_runtime.endpoint)
    wait_until(lambda: fake_runtime.calls("Version"), 10 * SLOWLY, "a first attempt")
    the_complaint(agent, "as a CRI runtime")
    fake_runtime.front.line = Line.CLOSE
    fake_runtime.front.drop()
    so_far = fake_runtime.front.accepted
    wait_until(lambda: fake_runtime.front.accepted >= so_far + 3, 10 * SLOWLY, "more attempts")
    wait_until(lambda: "ends connections" in reported(agent), 10 * SLOWLY, "the other words")
    the_complaint(agent)


@pytest.mark.parametrize("line", [Line.MUTE, Line.JUNK, Line.CLOSE])
def test_only_socket_does_not_speak(start_agent, fake_runtime, line):
    """Trying it again and again is not said again and again; once it speaks, all goes on."""
    fake_runtime.front.line = line
    agent = start_agent(fake_runtime.endpoint)
    agent.request("good/waits:1")
    expected = 2 if line is Line.MUTE else 6
    wait_until(lambda: fake_runtime.front.accepted >= expected, 10 * SLOWLY, "more attempts")
    the_complaint(agent)
    assert "container runtime" in problems(agent)
    fake_runtime.front.line = Line.FORWARD
    agent.wait_status("good/waits:1", "Succeeded", 5 * SLOWLY)
    assert len(complaints(agent)) == 1 and problems(agent) == {}


# It discloses secrets


def test_secret_in_a_refusal(agent, fake_runtime):
    """Secrets in the URLs of a runtime's message are published nowhere; the rest is."""
    url = "https://me:PASSWORD@blob.example/v2/blob?sig=SIGNATURE&se=1"
    text = f'failed to copy: Get "{url}": dial tcp: lookup blob.example: no such host; {url}'
    fake_runtime.on("PullImage", behaviours.fail("UNKNOWN", "; ".join([text] * 5)), BAD)
    message = request_and_fail(agent)
    assert 'Get "https://blob.example/v2/blob": dial tcp' in message
    shown = str(agent.node.GetStatus(agent.messages.GetStatusRequest()))
    asked = agent.ctl("-o", "json", "pull", "--attempts=1", BAD)
    assert asked.returncode == 1 and "blob.example" in asked.stdout
    said = agent.ctl("-o", "json", "images")
    kept = (agent.state_dir / "nodeimage.json").read_text()
    published = [agent.log_text(), kept, shown, asked.stdout, asked.stderr, said.stdout]
    for secret in ("PASSWORD", "SIGNATURE", "me:P", "se=1"):
        assert secret not in "\n".join(published)

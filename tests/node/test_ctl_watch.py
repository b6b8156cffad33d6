# SPDX-License-Identifier: Apache-2.0
"""inplacectl status --watch and inplacectl wait, and the Watch call behind both."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import threading

import grpc

from fake import behaviours
from lab import stubs
from lab.documents import split_reference
from lab.process import Child
from lab.terminal import Terminal, screen
from lab.wait import wait_until


class Lines:
    """Reads a program's output line by line, as it comes."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self.lines: list[str] = []
        self._thread = threading.Thread(target=self._read, args=(child,), daemon=True)
        self._thread.start()

    def _read(self, child: subprocess.Popen[str]) -> None:
        for line in child.stdout:
            self.lines.append(line.rstrip("\n"))

    def wait(self, *words: str) -> str:
        """The first line that has all these words."""

        def find() -> str | None:
            return next((line for line in list(self.lines) if set(words) <= set(line.split())), None)

        return wait_until(find, 30, lambda: f"line with {words}, only {self.lines}")


def end(child: subprocess.Popen[str]) -> tuple[int, str]:
    """Ends a program with Ctrl-C; returns its exit status and its standard error."""
    child.send_signal(signal.SIGINT)
    errors = child.stderr.read()
    return child.wait(20), errors


def test_watch_follows_a_pull(agent, gate):
    """In a pipe each image has a line, and another one at once when it has changed."""
    name, tag = split_reference(gate.reference)
    with agent.start_ctl("status", "--watch") as child:
        lines = Lines(child)
        agent.request(gate.reference, file="web.yaml")
        lines.wait("IMAGE", "TAG", "PHASE")
        pulling = lines.wait(name, tag, "Pulling")
        gate.open()
        succeeded = lines.wait(name, tag, "Succeeded")
        (agent.images_dir / "web.yaml").unlink()
        removed = lines.wait(name, tag, "Removed")
        assert end(child) == (130, "")
    # The columns stay where they were.
    assert pulling.index("Pulling") == succeeded.index("Succeeded") == removed.index("Removed")
    assert len([line for line in lines.lines if line.startswith("IMAGE")]) == 1


def test_watch_of_some(start_agent, fake_runtime):
    """--watch with images or --failed shows these alone, each of them at first."""
    fake_runtime.on("PullImage", behaviours.fail("NOT_FOUND", "no such image"), "bad:1")
    agent = start_agent(fake_runtime.endpoint)
    agent.request("good:1", "good:2", "bad:1", backoffLimit=0)
    agent.wait_status("bad:1", "Failed")
    agent.wait_status("good:2", "Succeeded")
    with agent.start_ctl("status", "--watch", "--failed") as failed:
        lines = Lines(failed)
        lines.wait("bad", "1", "Failed")
        agent.request("good:3", file="more.yaml")
        agent.wait_status("good:3", "Succeeded")
        assert end(failed) == (130, "")
    assert not any(line.startswith("good") for line in lines.lines)
    with agent.start_ctl("status", "-w", "good:2", "-o", "json") as some:
        output = []
        while not output or output[-1] != "}\n":
            output.append(some.stdout.readline())
        assert end(some) == (130, "")
    assert list(json.loads("".join(output))["status"]["imageStatuses"]) == ["good"]
    missing = agent.ctl("status", "--watch", "other:1")
    assert missing.returncode == 1 and "other:1 is not among" in missing.stderr


def test_failures_that_come_again(start_agent, fake_runtime):
    """With --failed, an image that fails once more has another line, although that says the same."""
    fail, fails_again = behaviours.fail("NOT_FOUND", "no such image"), threading.Event()

    def fail_later(call, good):
        fails_again.wait(60)
        return fail(call, good)

    fake_runtime.on("PullImage", fail, "bad:1")
    agent = start_agent(fake_runtime.endpoint)
    agent.request("bad:1", backoffLimit=0)
    agent.wait_status("bad:1", "Failed")
    with agent.start_ctl("status", "--watch", "--failed") as child:
        lines = Lines(child)
        lines.wait("bad", "1", "Failed")
        fake_runtime.on("PullImage", fail_later, "bad:1")
        agent.request("bad:1", version=2, backoffLimit=0)
        agent.wait_status("bad:1", "Pulling")
        fails_again.set()
        wait_until(lambda: len(lines.lines) == 3, 20, lambda: f"another line, only {lines.lines}")
        assert end(child) == (130, "")
    assert lines.lines[1].split()[:3] == lines.lines[2].split()[:3] == ["bad", "1", "Failed"]


def test_watch_outlives_the_agent(start_agent, fake_runtime):
    """A restart of the agent is noted on standard error; lines that say the same do not come again."""
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/web:1")
    agent.wait_status("demo/web:1", "Succeeded")
    with agent.start_ctl("status", "--watch") as child:
        lines = Lines(child)
        lines.wait("demo/web", "1", "Succeeded")
        agent.kill9()
        agent.start()
        agent.request("demo/web:2", file="more.yaml")
        lines.wait("demo/web", "2", "Succeeded")
        away = "inplacectl: lost the connection to inplaced, connecting again\n"
        assert end(child) == (130, away)
    assert len([line for line in lines.lines if line.split()[:2] == ["demo/web", "1"]]) == 1


def test_watch_of_what_is_removed_meanwhile(start_agent, fake_runtime):
    """While the agent was away: another line says so, and of no other image."""
    agent = start_agent(fake_runtime.endpoint)
    for number in 1, 2:
        agent.request(f"demo/web:{number}", file=f"{number}.yaml")
        agent.wait_status(f"demo/web:{number}", "Succeeded")
    with agent.start_ctl("status", "--watch") as child:
        lines = Lines(child)
        lines.wait("demo/web", "2", "Succeeded")
        agent.kill9()
        (agent.images_dir / "1.yaml").unlink()
        agent.start()
        lines.wait("demo/web", "1", "Removed")
        assert end(child)[0] == 130
    assert len([line for line in lines.lines if "Removed" in line.split()]) == 1


def test_watch_on_a_terminal(start_agent, fake_runtime):
    """On a terminal the whole table is drawn anew in its place, and what stood above it stays."""
    agent = start_agent(fake_runtime.endpoint)
    controller, terminal = pty.openpty()
    program = [str(agent.build_dir / "agent" / "inplacectl"), f"--socket={agent.socket}"]
    with Child(
        [*program, "status", "--watch"],
        stdin=subprocess.DEVNULL,
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm"},
    ) as child:
        os.close(terminal)
        shown = b""
        while b"Images: none" not in shown:
            shown += os.read(controller, 4096)
        agent.request("demo/web:1")
        while b"1 pulled" not in shown.rsplit(b"\x1b[J", 1)[-1] or not shown.endswith(b"\n"):
            shown += os.read(controller, 4096)
        child.send_signal(signal.SIGINT)
        assert child.wait(20) == 130
    os.close(controller)
    screen = shown.rsplit(b"\x1b[J", 1)[-1].decode()
    assert screen.startswith("Node lab, containerd ")
    assert b"\x1b[H" not in shown
    assert "demo/web" in screen and "Succeeded" in screen


def test_terminal_outlives_the_agent(start_agent, fake_runtime):
    """The next table stands below the line that the agent went away, and does not eat it."""
    agent = start_agent(fake_runtime.endpoint)
    program = [str(agent.build_dir / "agent" / "inplacectl"), f"--socket={agent.socket}"]
    terminal = Terminal([*program, "status", "--watch"], os.environ)
    wait_until(lambda: "Images: none" in terminal.text, 20, lambda: f"{terminal.text!r}")
    agent.kill9()
    agent.start()
    agent.request("demo/web:1")
    wait_until(lambda: "1 pulled" in terminal.text, 20, lambda: f"{terminal.text!r}")
    terminal.press(b"\x03")
    assert terminal.wait_end() == 130
    seen = screen(terminal.text)
    away = seen.index("inplacectl: lost the connection to inplaced, connecting again")
    assert seen[away + 1].startswith("Node lab, ")


def test_watch_call(start_agent, fake_runtime):
    """The first events have all images, a few in each; then come those that change, and no others."""
    agent = start_agent(fake_runtime.endpoint)
    agent.request(*(f"demo/many:{number}" for number in range(150)))
    agent.wait_status("demo/many:149", "Succeeded")
    wait_until(lambda: agent.status()["status"]["succeeded"] == 150, 30, "all images")
    call = agent.node.Watch(agent.messages.WatchRequest(), timeout=60)
    events = []
    while not events or not events[-1].is_complete:
        events.append(next(call))
    sizes = [len(tags_of(event)) for event in events]
    assert sum(sizes) == 150 and max(sizes) <= 64
    assert set().union(*map(tags_of, events)) == {f"demo/many:{n}" for n in range(150)}
    assert events[-1].runtime.name == "containerd"
    fake_runtime.on("PullImage", behaviours.hang())
    agent.request("demo/web:1", file="more.yaml")
    event = next(call)
    assert tags_of(event) == {"demo/web:1"} and event.is_complete
    assert json.loads(event.node_image_json)["status"]["desired"] == 151
    (agent.images_dir / "more.yaml").unlink()
    while not event.removed:
        event = next(call)
    assert list(event.removed) == ["demo/web:1"]
    call.cancel()


def tags_of(event) -> set[str]:
    statuses = json.loads(event.node_image_json)["status"]["imageStatuses"]
    return {f"{name}:{tag['tag']}" for name in statuses for tag in statuses[name]["tags"]}


def test_runtime_change_is_pushed(start_agent, fake_runtime):
    """A caller that follows the status learns that the runtime went away, though no image has changed."""
    agent = start_agent(fake_runtime.endpoint)
    agent.wait_runtime()
    call = agent.node.Watch(agent.messages.WatchRequest(), timeout=60)
    assert next(call).runtime.ready
    fake_runtime.front.vanish()
    while (event := next(call)).runtime.ready:
        pass
    assert not tags_of(event)
    call.cancel()


def test_too_many_lists_of_images(start_agent, fake_runtime):
    """Each call would hold the runtime's list: calls beyond 256 are refused, and later ones are answered."""
    agent = start_agent(fake_runtime.endpoint)
    agent.wait_runtime()
    release = threading.Event()
    fake_runtime.on("ListImages", behaviours.when(release))
    node = stubs.load("inplaced.v1.node")
    options = [("grpc.use_local_subchannel_pool", 1)]  # a connection each
    channels = [grpc.insecure_channel(f"unix:{agent.socket}", options=options) for _ in range(26)]
    ask = lambda channel: node.services.NodeStub(channel).ListImages.future(  # noqa: E731
        agent.messages.ListImagesRequest(), timeout=120
    )
    calls = [ask(channel) for channel in channels for _ in range(10)]
    refused = lambda: [call for call in calls if call.done()]  # noqa: E731
    wait_until(lambda: len(refused()) == 260 - 256, 30, "refusals")
    assert all("too many callers ask at the same time" in call.exception().details() for call in refused())
    release.set()
    assert len([call for call in calls if call.exception() is None]) == 256
    assert ask(channels[0]).exception() is None
    for channel in channels:
        channel.close()


def test_too_many_watches(start_agent, fake_runtime):
    """The number of followers is limited, so that callers cannot take all memory; a follower that leaves makes room."""
    agent = start_agent(fake_runtime.endpoint)
    calls = [agent.node.Watch(agent.messages.WatchRequest(), timeout=60) for _ in range(64)]
    for call in calls:
        next(call)
    ran = agent.ctl("status", "--watch")
    assert ran.returncode == 1 and "too many callers that follow the status" in ran.stderr
    calls.pop().cancel()

    def may_follow() -> bool:
        call = agent.node.Watch(agent.messages.WatchRequest(), timeout=60)
        try:
            return bool(next(call).is_complete)
        except Exception:
            return False

    wait_until(may_follow, 10, "room for another")
    for call in calls:
        call.cancel()


def test_wait(agent, gate, push):
    """wait prints each image as soon as it is there and ends with 0; the awaited images it names at once."""
    there = push()
    agent.request(there.reference, gate.reference)
    agent.wait_status(there.reference, "Succeeded")
    done = agent.ctl("wait", there.reference)
    met = f"{there.reference} condition met\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, met, "")
    with agent.start_ctl("wait", there.reference, gate.reference) as child:
        assert child.stdout.readline() == met
        assert child.stderr.readline().startswith(f"inplacectl: waiting for {gate.reference}: ")
        gate.open()
        output, errors = child.communicate(timeout=60)
    assert (child.returncode, output, errors) == (0, f"{gate.reference} condition met\n", "")


def test_wait_times_out(agent, gate):
    """After --timeout the exit status is 124, and the message names the missing images."""
    agent.request(gate.reference)
    agent.wait_status(gate.reference, "Pulling")
    ran = agent.ctl("wait", "--timeout=1s", gate.reference)
    assert (ran.returncode, ran.stdout) == (124, "")
    last = ran.stderr.splitlines()[-1]
    assert f"timed out after the 1s of --timeout waiting for {gate.reference}: Pulling" in last


def test_wait_for_a_failure(start_agent, fake_runtime):
    """An image that has failed ends the wait: 1 if none is there, 3 if some are."""
    fake_runtime.on("PullImage", behaviours.fail("NOT_FOUND", "no such image"), "bad:1")
    agent = start_agent(fake_runtime.endpoint)
    agent.request("good:1", "bad:1", backoffLimit=0)
    agent.wait_status("bad:1", "Failed")
    none = agent.ctl("wait", "bad:1")
    assert (none.returncode, none.stdout) == (1, "")
    assert none.stderr.splitlines()[-1].startswith("inplacectl: bad:1 failed: NotFound: ")
    some = agent.ctl("wait", "bad:1", "good:1", "-o", "json")
    assert some.returncode == 3
    assert set(json.loads(some.stdout)["status"]["imageStatuses"]) == {"bad", "good"}
    missing = agent.ctl("wait", "other:1")
    assert missing.returncode == 1 and "other:1 is not among the desired images" in missing.stderr
    assert agent.ctl("wait", "UPPER X").returncode == 2


def test_wait_with_requests_that_end(start_agent, fake_runtime):
    """An image that was there counts, also when its request has ended before the others; no other one does."""
    late = threading.Event()
    fake_runtime.on("PullImage", behaviours.when(late), "late:1")
    fake_runtime.on("PullImage", behaviours.hang(), "never:1")
    agent = start_agent(fake_runtime.endpoint)
    for name in "early", "late", "never":
        agent.request(f"{name}:1", file=f"{name}.yaml")
    agent.wait_status("early:1", "Succeeded")
    agent.wait_status("never:1", "Pulling")

    def withdraw(name: str) -> None:
        (agent.images_dir / f"{name}.yaml").unlink()
        wait_until(lambda: name not in agent.status()["spec"]["images"], 20, f"{name} to be withdrawn")

    with agent.start_ctl("wait", "early:1", "late:1") as child:
        assert child.stdout.readline() == "early:1 condition met\n"
        withdraw("early")
        late.set()
        output, _ = child.communicate(timeout=60)
    assert (child.returncode, output) == (0, "late:1 condition met\n")
    with agent.start_ctl("wait", "late:1", "never:1") as child:
        child.stderr.readline()
        withdraw("never")
        _, errors = child.communicate(timeout=60)
    assert (child.returncode, errors) == (1, "inplacectl: never:1 is no longer desired; try: inplacectl status\n")


def test_images_get_other_names(start_agent, fake_runtime):
    """CRI-O takes no name for Docker Hub's: once it is known, images have other names, under which a wait goes on."""
    fake_runtime.name, fake_runtime.search = "cri-o", "quay.test"
    fake_runtime.front.vanish()
    agent = start_agent(fake_runtime.endpoint)
    agent.request("docker.io/library/full:1", "short:1")
    wait_until(lambda: len(agent.status().get("spec", {}).get("images", {})) == 2, 20, "both images")
    images = "docker.io/library/full:1", "short:1"
    with agent.start_ctl("status", "--watch") as child, agent.start_ctl("wait", *images) as waiting:
        lines = Lines(child)
        lines.wait("full", "1", "Waiting")
        assert waiting.stderr.readline().startswith("inplacectl: waiting for full:1 and 1 more: ")
        fake_runtime.front.listen()
        output, errors = waiting.communicate(timeout=60)
        lines.wait("full", "1", "Removed")
        lines.wait("docker.io/library/full", "1", "Succeeded")
        lines.wait("short", "1", "Succeeded")
        assert end(child) == (130, "")
    assert (waiting.returncode, errors) == (0, "")
    assert sorted(output.splitlines()) == [f"{image} condition met" for image in images]
    assert not any({"short", "Removed"} <= set(line.split()) for line in lines.lines)


def test_wait_is_interrupted(start_agent, fake_runtime):
    """Ctrl-C ends it with 130, and withdraws nothing."""
    fake_runtime.on("PullImage", behaviours.hang())
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/web:1")
    agent.wait_status("demo/web:1", "Pulling")
    with agent.start_ctl("wait", "demo/web:1") as child:
        child.stderr.readline()
        assert end(child) == (130, "inplacectl: interrupted\n")
    (call,) = wait_until(lambda: fake_runtime.calls("PullImage"), 10, "pull")
    assert not call.over.is_set()

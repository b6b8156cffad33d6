# SPDX-License-Identifier: Apache-2.0
"""The log: as lines of JSON, as text, and in the journal."""

from __future__ import annotations

import json
import os
import queue
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fake import behaviours
from fake import registry as fakes
from lab import sanitizers
from lab.image import build_image
from lab.layers import random_layer
from lab.preload import Preload
from lab.trouble import wait_logged
from lab.wait import stretch

# Gives the agent a journal of its own, and hides the machine's.
_PRIVATE_JOURNAL = """
mount -t tmpfs none /run && mkdir -p /run/systemd/journal &&
mount --bind "$1" /run/systemd/journal && shift && exec "$@"
"""


def test_json_log(start_agent, fake_runtime):
    """Each line is an object with time, level and message; those about images have their fields."""
    fake_runtime.on("PullImage", behaviours.fail("NOT_FOUND", "no such image"), image="demo/bad:1")
    agent = start_agent(fake_runtime.endpoint)
    Preload(agent, "demo/web:1", "demo/bad:1", backoff_limit=0).wait_end()
    for line in agent.logs():
        assert line["time"].endswith("Z")
        assert line["level"] in ("error", "warning", "notice", "info", "debug")
    started = wait_logged(agent, 'Pulling "demo/web:1"')
    assert (started["level"], started["image"]) == ("info", "demo/web:1")
    pulled = wait_logged(agent, 'Pulled "demo/web:1"')
    assert pulled["image"] == "demo/web:1" and pulled["image_id"].startswith("sha256:")
    assert float(pulled["duration_sec"]) >= 0
    failed = wait_logged(agent, 'Cannot pull "demo/bad:1"')
    assert (failed["level"], failed["reason"]) == ("warning", "NotFound")
    assert re.fullmatch("[0-9a-f]{32}", pulled["message_id"])
    assert pulled["message_id"] != failed["message_id"]
    text = agent.log_text()
    whole = text[: text.rfind("\n")].splitlines()
    assert all(isinstance(json.loads(line), dict) for line in whole), "other output on stderr"


def test_text_log(make_agent, fake_runtime):
    """In text each message is one line with its date, and no field repeats the message."""
    agent = make_agent(fake_runtime.endpoint)
    agent.argv = [word.replace("--log-format=json", "--log-format=text") for word in agent.argv]
    agent.start()
    Preload(agent, "demo/web:1").wait_end()
    (line,) = [line for line in agent.log_text().splitlines() if 'Pulled "demo/web:1"' in line]
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d info Pulled ", line)
    assert line.count("demo/web:1") == line.count("sha256:") == 1 and "=" not in line, line


def test_lines_of_a_pull(start_agent, runtime, fake_registry, image_name):
    """The log has a line when a pull begins, one for each attempt that failed, and one with the bytes at the end."""
    layer = random_layer(3_000_000, seed=931)
    image = fake_registry.add(image_name, "1", build_image([layer]))
    # containerd 2 would ask again by itself after an error of the server.
    answers = iter([fakes.Reply(403, {}, b"broken")])
    fake_registry.on(
        "layer", lambda connection, request, reply: connection.send(next(answers, reply))
    )
    agent = start_agent(runtime.endpoint, log_level="info")
    Preload(agent, image.reference).wait_end()
    pulled = wait_logged(agent, "Pulled ")
    lines = [line for line in agent.logs() if line.get("image") == image.reference]
    begun, failed, ended = lines
    assert begun["message"] == f'Pulling "{image.reference}".'
    assert failed["message"].startswith(f'Cannot pull "{image.reference}" yet: ')
    assert (failed["attempt"], failed["level"]) == ("1", "warning")
    assert re.search(r"\(attempt 1\b.*\), trying again in \d+ s\.$", failed["message"])
    assert ended == pulled and re.search(r" in [\d.]+ s, 3\.0 MB fetched\.$", ended["message"])
    assert 3_000_000 < int(ended["bytes"]) < 3_010_000
    assert len({line["message_id"] for line in lines}) == 3
    runtime.remove_image(image.reference)


def test_debug_shows_each_step(start_agent, fake_runtime):
    """At the level debug each step of a pull is a line."""
    agent = start_agent(fake_runtime.endpoint)
    agent.wait_runtime()
    Preload(agent, "demo/web:1").wait_end()
    wait_logged(agent, "is succeeded")
    said = [line["message"] for line in agent.logs() if line["level"] == "debug"]
    steps = [line.rpartition(" is ")[2] for line in said if line.startswith("The pull of ")]
    assert steps[:4] == ["inspecting.", "waiting.", "authenticating.", "pulling."]
    assert steps[-3:] == ["identifying.", "assessing.", "succeeded."]


def test_the_end_is_logged(start_agent, fake_runtime):
    """The last line says that the agent stops, and why."""
    agent = start_agent(fake_runtime.endpoint)
    agent.terminate()
    assert re.fullmatch(r"inplaced \S+ stops on SIGTERM\.", agent.logs()[-1]["message"])


def test_unread_log(start_agent, fake_runtime):
    """A pipe that is full stops neither the pulls nor the end."""
    agent = start_agent(fake_runtime.endpoint)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(writer, True)
    assert agent.terminate().code == 0
    argv = ["/bin/sh", "-c", f'exec "$@" 2>/proc/{os.getpid()}/fd/{writer}', "sh", *agent.argv]
    agent.argv = argv
    agent.start()
    assert Preload(agent, "demo/web:1").wait_end().phase == agent.messages.PHASE_SUCCEEDED
    ended = agent.terminate()
    assert ended.code == 0 and ended.seconds < stretch(5 * sanitizers.SLOWNESS)
    os.close(reader)
    os.close(writer)


def parse_journal(message: bytes) -> dict[str, str]:
    """The fields of one message in the journal's own protocol."""
    fields = {}
    while message:
        line, _, message = message.partition(b"\n")
        name, equals, value = line.partition(b"=")
        if not equals:
            size = int.from_bytes(message[:8], "little")
            value, message = message[8 : 8 + size], message[8 + size + 1 :]
        fields[name.decode()] = value.decode()
    return fields


@contextmanager
def read_datagrams(path: Path) -> Iterator[queue.Queue[bytes]]:
    """A queue of the datagrams that reach the socket, which holds ten itself: the agent waits for no journal."""
    arrived: queue.Queue[bytes] = queue.Queue()

    def read() -> None:
        while datagram := listener.recv(1 << 16):
            arrived.put(datagram)

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
        reader = threading.Thread(target=read)
        reader.start()
        try:
            yield arrived
        finally:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
                last.sendto(b"", str(path))
            reader.join()


@pytest.mark.containers
def test_journal(folder, make_agent, fake_runtime):
    """In the journal each message has its priority and its fields, and its ID if it has one."""
    fake_runtime.on("PullImage", behaviours.fail("NOT_FOUND", "no such image"), image="demo/bad:1")
    journal = folder / "journal"
    journal.mkdir()
    with read_datagrams(journal / "socket") as datagrams:
        agent = make_agent(fake_runtime.endpoint)
        argv = [word.replace("--log-format=json", "--log-format=journal") for word in agent.argv]
        agent.argv = ["unshare", "--mount", "sh", "-c", _PRIVATE_JOURNAL, "sh", str(journal), *argv]
        agent.start()
        preload = Preload(agent, "demo/web:1", "demo/bad:1", backoff_limit=0)
        lines: dict[str, dict[str, str]] = {}
        while not {"demo/web:1", "demo/bad:1"} <= set(lines):
            fields = parse_journal(datagrams.get(timeout=10 * sanitizers.SLOWNESS))
            if "DURATION_SEC" in fields:
                lines[fields["IMAGE"]] = fields
        preload.wait_end()
    pulled, failed = lines["demo/web:1"], lines["demo/bad:1"]
    assert pulled["MESSAGE"].startswith('Pulled "demo/web:1"')
    assert (pulled["PRIORITY"], pulled["SYSLOG_IDENTIFIER"]) == ("6", "inplaced")
    assert pulled["IMAGE_ID"].startswith("sha256:")
    assert (failed["PRIORITY"], failed["REASON"]) == ("4", "NotFound")
    assert re.fullmatch("[0-9a-f]{32}", failed["MESSAGE_ID"])
    assert agent.log_text() == ""

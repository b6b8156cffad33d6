# SPDX-License-Identifier: Apache-2.0
"""Proves that what is wrong when the agent starts either ends it at once, with one line that says
what to do, or costs one line and nothing else.
"""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import signal
import socket
import stat
import subprocess
from pathlib import Path

import pytest

from lab import sanitizers
from lab.documents import node_image, write_whole
from lab.stubs import REPOSITORY
from lab.trouble import (
    assert_clear,
    assert_prompt,
    complaints,
    no_leak,
    problems,
    pull_another,
    the_complaint,
)
from lab.wait import stretch, wait_until

SLOWLY = sanitizers.SLOWNESS


@pytest.fixture
def agent(make_agent, fake_runtime):
    """Not started."""
    return make_agent(fake_runtime.endpoint)


def assert_refused(done: subprocess.CompletedProcess[str], code: int, *hints: str) -> None:
    """Checks that it wrote one line on stderr, beside the log for people who debug."""
    lines = [line for line in done.stderr.splitlines() if '"level":"debug"' not in line]
    assert len(lines) == 1 and lines[0].startswith("inplaced: "), done.stderr
    assert_clear(lines[0])
    assert all(hint in lines[0] for hint in hints), lines[0]
    assert (done.returncode, done.stdout) == (code, "")


# Flags and configuration

FLAGS = {
    "unknown": ["--nonsense"],
    "unknown-with-value": ["--nonsense=1"],
    "short": ["-x"],
    "argument": ["nonsense"],
    "no-value": ["--socket"],
    "relative-path": ["--state-dir=state"],
    "relative-socket": ["--socket=inplaced.sock"],
    "tcp": ["--runtime-endpoint=tcp://localhost:1234"],
    "relative-endpoint": ["--runtime-endpoint=unix://containerd.sock"],
    "long-endpoint": [f"--runtime-endpoint=unix:///{'a' * 5000}"],
    "not-a-number": ["--max-parallel-pulls=many"],
    "zero": ["--max-parallel-pulls=0"],
    "negative": ["--max-parallel-pulls=-1"],
    "too-many": ["--max-parallel-pulls=99999999999999999999"],
    "number-and-more": ["--stall-timeout=5x"],
    "empty-number": ["--stall-timeout="],
    "level": ["--log-level=loud"],
    "format": ["--log-format=xml"],
    "empty-path": ["--images-dir="],
    "escape": ["--\x1b[31mred\n"],
}
CONFIG = {
    "unparsable": b"a: [",
    "unknown-key": b"nonsense: 1",
    "list": b"[]",
    "text": b"hello",
    "two-documents": b"socket: /a\n---\nsocket: /b",
    "key-twice": b"socket: /a\nsocket: /b",
    "nested": b"socket: {a: b}",
    "null": b"socket: null",
    "not-a-number": b"maxParallelPulls: many",
    "not-an-endpoint": b"runtimeEndpoints: [tcp://x]",
    "binary": bytes(range(256)) * 16,
    "nested-junk": b"[" * 500_000,
    "2-mb": b"#" * 2_000_000,
}


@pytest.mark.parametrize("case", FLAGS)
def test_bad_flags(agent, case):
    """An invalid flag ends it with 2, in one line, before it has touched anything."""
    assert_refused(agent.run(*FLAGS[case]), 2)
    assert not agent.socket.exists() and agent.status() == {}


@pytest.mark.parametrize("case", CONFIG)
def test_bad_configuration(agent, case):
    """An invalid configuration ends it with 2 and one line that names the file."""
    agent.config_path.write_bytes(CONFIG[case])
    assert_refused(agent.run(), 2, str(agent.config_path))


@pytest.mark.parametrize("kind", ["missing", "folder", "device", "loop"])
def test_configuration_is_no_file(agent, kind):
    """A configuration that is no file is not waited for, and not read for ever."""
    agent.config_path.unlink()
    if kind == "folder":
        agent.config_path.mkdir()
    elif kind != "missing":
        target = "/dev/zero" if kind == "device" else agent.config_path.name
        agent.config_path.symlink_to(target)
    assert_refused(agent.run(), 2, str(agent.config_path))


@pytest.mark.parametrize("case", ["unparsable", "unknown-key", "not-a-number", "binary", "2-mb"])
def test_bad_configuration_at_reload(agent, case):
    """A reload with a bad configuration is one line, and everything goes on as it was."""
    agent.start()
    with no_leak(agent):
        agent.config_path.write_bytes(CONFIG[case])
        agent.reload()
        assert str(agent.config_path) in the_complaint(agent)
        pull_another(agent)
    assert agent.metrics().get_value("inplaced_config_reloads_total", result="failed") == 1


# The socket


def test_socket_is_a_file(agent):
    """A file in the place of the socket belongs to others, and is left alone."""
    agent.socket.write_text("precious")
    assert_refused(agent.run(), 1, str(agent.socket), "is not a socket", "--socket")
    assert agent.socket.read_text() == "precious"


def test_socket_is_too_long(agent):
    """A path that no socket can have is named as the reason, and how long it may be."""
    assert_refused(agent.run(f"--socket=/{'a' * 108}"), 2, "107 bytes", "--socket")


@pytest.mark.parametrize("path", ["/proc/self/x.sock", "/proc/none/below/x.sock", "/dev/null/x.sock"])
def test_socket_cannot_be_made(agent, path):
    """A folder that cannot be made, or in which no socket can be made, ends it with one line."""
    assert_refused(agent.run(f"--socket={path}"), 2, path, "--socket")


def test_socket_is_served(agent, make_agent, fake_runtime):
    """The first of two agents at one socket goes on undisturbed; the second says so and ends."""
    agent.start()
    second = make_agent(fake_runtime.endpoint)
    with no_leak(agent):
        refused = second.run(f"--socket={agent.socket}")
        assert_refused(refused, 1, str(agent.socket), "served by another process", "--socket")
        pull_another(agent)
        assert_prompt(agent, 3)


def test_socket_of_a_stranger_is_served(agent):
    """The socket of a program that accepts no connection is not taken away either."""
    with socket.socket(socket.AF_UNIX) as stranger, socket.socket(socket.AF_UNIX) as waiting:
        stranger.bind(str(agent.socket))
        stranger.listen(0)
        waiting.connect(str(agent.socket))
        assert_refused(agent.run(), 1, "served by another process")
        assert agent.socket.is_socket()


# Things that the agent can do without


def test_metrics_port_is_taken(agent):
    """Without its port for metrics it works, says so in one line, and serves them once it can listen."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        agent.argv.append(f"--metrics-address={address}")
        agent.start()
        pull_another(agent)
        assert "metrics" in the_complaint(agent)
    agent.metrics_address = address
    wait_until(lambda: "Metrics and health are served now." in agent.log_text(), 20, "metrics")
    assert agent.metrics().get_value("inplaced_runtime_ready") == 1
    assert "metrics" in the_complaint(agent)


@pytest.mark.parametrize("is_there", [True, False], ids=["there", "new"])
def test_state_folder_of_another_agent(agent, is_there):
    """A second agent on the node ends with one line; after the first one's end it may start."""
    if not is_there:
        agent.state_dir.rmdir()
    agent.start()
    other = f"--socket={agent.socket}.other"
    assert_refused(agent.run(other), 1, str(agent.state_dir), "another agent", "--state-dir")
    agent.kill9()
    agent.argv.append(other)
    agent.start()


def test_state_folder_that_a_user_locks(agent):
    """A user who can only read the folder cannot pretend to be another agent."""
    descriptor = os.open(agent.state_dir, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    agent.start()
    os.close(descriptor)
    assert stat.S_IMODE((agent.state_dir / "lock").stat().st_mode) == 0o600


def test_images_folder_is_a_file(agent):
    """A file in place of the folder is one line; once it is a folder, it is used."""
    agent.images_dir.rmdir()
    agent.images_dir.write_text("precious")
    agent.start()
    the_complaint(agent, str(agent.images_dir))
    with no_leak(agent):
        done = agent.ctl("pull", "good/one:1")
        assert done.returncode == 0, done.stderr
    agent.images_dir.unlink()
    agent.images_dir.mkdir()
    pull_another(agent)
    assert len(complaints(agent)) == 1 and problems(agent) == {}


BROKEN_KEYS = {
    "unparsable": b'{"auths": ',
    "empty": b"",
    "list": b"[]",
    "binary": bytes(range(256)),
    "bad-base64": b'{"auths": {"a.invalid": {"auth": "%%%"}}}',
    "2-mb": b" " * 2_000_000,
    "nested-junk": b"[" * 500_000,
    "folder": None,
}


@pytest.mark.parametrize("case", BROKEN_KEYS)
def test_broken_credentials(agent, case, fake_runtime):
    """A broken file of credentials is reported in the diagnosis; those in other files still count."""
    broken = agent.auth_dir / "broken.json"
    if BROKEN_KEYS[case] is None:
        broken.mkdir()
    else:
        broken.write_bytes(BROKEN_KEYS[case])
    agent.give_credentials("good.invalid", "user", "password", file="good.json")
    agent.start()
    with no_leak(agent):
        pull_another(agent, "good.invalid/t/one:1")
        assert "broken.json" in " ".join([*problems(agent), *problems(agent).values()])
    (call,) = fake_runtime.calls("PullImage")
    assert (call.request.auth.username, call.request.auth.password) == ("user", "password")


# An earlier status

GOOD = json.dumps(node_image(("good/one:1",)))
STATUSES = {
    "empty": b"",
    "truncated": GOOD[:100].encode(),
    "binary": os.urandom(10_000),
    "zeros": bytes(5000),
    "gzip": gzip.compress(GOOD.encode()),
    "list": b"[]",
    "null": b"null",
    "other-kind": b'{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}',
    "nested-junk": b'{"a":' * 200_000,
    "many-values": b"[" + b"1," * 3_000_000 + b"1]",
}


def is_good(path) -> bool:
    """Whether there is a status with both images by now."""
    try:
        return json.loads(path.read_bytes())["status"]["succeeded"] == 2
    except (ValueError, TypeError, KeyError):
        return False


@pytest.mark.parametrize("case", [*STATUSES, "70-mb", "folder", "fifo", "loop"])
def test_corrupt_status(agent, case):
    """A status that cannot be read is one line at start; the agent is ready as soon as ever, does
    its work, and writes a new one.
    """
    path = agent.state_dir / "nodeimage.json"
    if case in STATUSES:
        path.write_bytes(STATUSES[case])
    elif case == "70-mb":
        with path.open("wb") as output:
            output.truncate(70 << 20)
    elif case == "folder":
        path.mkdir()
    elif case == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to(path.name)
    agent.request("good/one:1")
    assert agent.start() < stretch(3 * SLOWLY)
    if case == "folder":  # which is not removed for that
        done = agent.ctl("pull", "good/one:1")
        assert done.returncode == 0, done.stderr
        assert len(complaints(agent, "nodeimage.json")) == 2
        return
    write_whole(agent.images_dir / "another.yaml", json.dumps(node_image(("good/another:1",))))
    wait_until(lambda: is_good(path), 5 * SLOWLY, "new status")
    assert "starting without it" in the_complaint(agent)


def test_status_with_a_bad_tag(agent):
    """A tag of an earlier status that cannot be read is named in one line at start, and left out alone."""
    document = node_image(("good/one:1", "good/two:1", "good/two:2"))
    document["spec"]["images"]["good/two"]["tags"][0]["version"] = -1
    for image in document["spec"]["images"].values():
        for tag in image["tags"]:
            tag["ownerReferences"] = [{"kind": "Request", "apiVersion": "inplaced.io/v1", "name": "a", "uid": "a"}]
    write_whole(agent.state_dir / "nodeimage.json", document)
    agent.start()
    agent.wait_status("good/one:1", "Succeeded")
    agent.wait_status("good/two:2", "Succeeded")
    said = the_complaint(agent, "nodeimage.json")
    assert "tags[0].version: expected zero or more, got -1, starting without that part" in said
    assert "good/two:1" not in agent.ctl("status").stdout


def test_status_with_a_limit_out_of_range(agent):
    """A limit that would overflow to zero microseconds counts as the greatest one, as in a document."""
    document = node_image(("good/one:1",))
    owner = {"kind": "Request", "apiVersion": "inplaced.io/v1", "name": "a", "uid": "a"}
    document["spec"]["images"]["good/one"]["tags"][0]["ownerReferences"] = [owner]
    limits = {"name": "good/one", "tag": "1", "owner": "request/a", "activeDeadlineSeconds": 1 << 58}
    document.setdefault("metadata", {})["annotations"] = {"inplaced.io/limits": json.dumps([limits])}
    write_whole(agent.state_dir / "nodeimage.json", document)
    agent.start()
    agent.wait_status("good/one:1", "Succeeded")


def test_status_that_makes_no_sense(agent, fake_runtime):
    """Members of an earlier status that have the wrong type, are too long or have several lines are not shown."""
    tag = {"tag": "1", "phase": "Failed", "imageID": "x" * 100_000, "message": "a\nb" * 100_000}
    document = node_image(("good/one:1",))
    document["status"] = {"imageStatuses": {"good/one": {"tags": [tag]}, "x": 7}}
    write_whole(agent.state_dir / "nodeimage.json", document)
    agent.start()
    pull_another(agent)
    assert (agent.state_dir / "nodeimage.json").stat().st_size < 10_000
    assert len(complaints(agent)) <= 1


# Threads


def short_of_threads(n: int) -> dict[str, str]:
    """The environment of a program that cannot make its thread of that number."""
    library = Path(os.environ["INPLACED_BUILD_DIR"], "tests", "libfailing-thread.so").absolute()
    assert library.exists()
    environment = {**os.environ, **sanitizers.environment()}
    environment |= {"LD_PRELOAD": str(library), "INPLACED_FAILING_THREAD": str(n)}
    if sanitizers.NAME:  # The sanitizer requires to be the first library.
        others = environment.get("ASAN_OPTIONS", "")
        environment["ASAN_OPTIONS"] = f"{others}:verify_asan_link_order=0"
        suppressions = REPOSITORY / "tests" / "lsan.supp"
        environment["LSAN_OPTIONS"] = f"suppressions={suppressions}:print_suppressions=0"
    return environment


@pytest.mark.parametrize("is_hasty", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize("failing", range(6))
def test_ends_without_one_of_its_threads(agent, failing, is_hasty):
    """It starts or refuses to, but a signal ends it in time; a second one does at once."""

    def has_ended() -> bool:
        if is_hasty:
            child.send_signal(signal.SIGTERM)
        return child.poll() is not None

    with agent.log_path.open("w") as log:
        child = subprocess.Popen(agent.argv, stderr=log, env=short_of_threads(failing))
    try:
        wait_until(
            lambda: child.poll() is not None or "is ready on node" in agent.log_text(), 20, "start"
        )
        child.send_signal(signal.SIGTERM)
        wait_until(
            lambda: child.poll() is not None or "stops on SIGTERM" in agent.log_text(), 5, "signal"
        )
        wait_until(has_ended, 3 if is_hasty else 8, "end of the agent")
    finally:
        child.kill()
        child.wait()
    assert child.returncode in (0, 1)
    assert (child.returncode == 0) == ("stops on SIGTERM" in agent.log_text())

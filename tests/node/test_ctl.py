# SPDX-License-Identifier: Apache-2.0
"""inplacectl in scripts: its output, in each format, and its exit status."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
import yaml

from fake import behaviours
from fake import registry as fakes
from lab.image import build_image
from lab.layers import random_layer
from lab.trouble import without_hints
from lab.user import NOBODY
from lab.wait import wait_until

_LOAD = {"json": json.loads, "yaml": yaml.safe_load}


def test_pull_prints_a_line_per_image(agent, push):
    """Where standard output is no terminal, each image is one line, with its ID, and no more."""
    first, second = push(tag="1"), push(tag="2")
    ran = agent.ctl("pull", first.reference, second.reference)
    assert (ran.returncode, ran.stderr) == (0, "")
    lines = {line.split()[0]: line for line in ran.stdout.splitlines()}
    assert set(lines) == {first.reference, second.reference}
    assert first.image_id in lines[first.reference]
    assert "\x1b" not in ran.stdout and "\r" not in ran.stdout
    again = agent.ctl("pull", first.reference)
    assert "present" in again.stdout and first.image_id in again.stdout


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_pull_for_programs(agent, push, form):
    """-o json and -o yaml give one document with each image's outcome."""
    image = push([1 << 20])
    ran = agent.ctl("-o", form, "pull", image.reference)
    assert ran.returncode == 0, ran.stderr
    document = _LOAD[form](ran.stdout)
    (result,) = document["results"]
    assert (result["image"], result["phase"]) == (image.reference, "Succeeded")
    assert result["imageID"] == image.image_id
    assert (result["wasPresent"], result["reason"]) == (False, "")
    assert document["requestID"]


def test_quiet_pull(agent, push):
    """-q prints the image ID alone."""
    image = push()
    ran = agent.ctl("pull", "-q", image.reference)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"{image.image_id}\n", "")


def test_quiet_pull_names_the_reason_once(start_agent, fake_runtime):
    """The message begins with the reason, which is not said before it again."""
    fake_runtime.on("PullImage", behaviours.fail("NOT_FOUND", "no such image"))
    ran = start_agent(fake_runtime.endpoint).ctl("pull", "-q", "--attempts=1", "bad:1")
    assert ran.stderr.splitlines()[0].startswith("inplacectl: bad:1: NotFound: no such image; ")


def test_runtime_without_a_name(start_agent, fake_runtime):
    """A runtime that does not say its name leaves no hole in the first line of the status."""
    fake_runtime.name = fake_runtime.version = ""
    agent = start_agent(fake_runtime.endpoint)
    first_line = lambda: agent.ctl("status").stdout.splitlines()[0]  # noqa: E731
    wait_until(lambda: "no container runtime" not in first_line(), 10, first_line)
    assert first_line() == f"Node lab, an unknown runtime at {fake_runtime.endpoint}"


def test_exit_status_of_pull(start_agent, fake_runtime):
    """0 if all is there, 1 if nothing, 3 if a part; standard error ends with the reason."""
    for code, name in (("NOT_FOUND", "bad:1"), ("UNKNOWN", "worse:1")):
        fake_runtime.on("PullImage", behaviours.fail(code, "no such image"), image=name)
    agent = start_agent(fake_runtime.endpoint)
    good = agent.ctl("pull", "good:1", "good:2")
    assert (good.returncode, without_hints(good.stderr)) == (0, "")
    bad = agent.ctl("pull", "--attempts=1", "bad:1")
    assert bad.returncode == 1
    assert bad.stderr.splitlines()[-1].startswith("inplacectl: cannot pull bad:1: ")
    assert "no such image" in bad.stdout
    partly = agent.ctl("pull", "--attempts", "1", "good:1", "bad:1", "worse:1")
    assert partly.returncode == 3
    assert partly.stderr.splitlines()[-1].startswith("inplacectl: 2 of 3 images failed; ")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["pull"],
        ["jump"],
        ["pull", "UPPER CASE"],
        ["pull", "--jump", "x:1"],
        ["-o", "x", "status"],
    ],
)
def test_wrong_usage(agent, arguments):
    """Wrong usage is exit status 2, with the reason in one line."""
    ran = agent.ctl(*arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert len(ran.stderr.splitlines()) == 1 and ran.stderr.startswith("inplacectl: ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_cancels(start_agent, runtime, gate, number):
    """Ctrl-C and SIGTERM withdraw the request: the runtime stops, and the exit status names the signal."""
    agent = start_agent(runtime.endpoint)
    with agent.start_ctl("pull", gate.reference) as child:
        gate.wait_fetched()
        child.send_signal(number)
        output, errors = child.communicate(timeout=60)
    assert (child.returncode, errors) == (128 + number, "inplacectl: interrupted\n")
    assert "Canceled: interrupted; still " in output
    gate.wait_left()


def test_time_out_while_the_runtime_is_away(make_agent, folder):
    """--timeout holds, and before that the reason of the waiting is on standard error."""
    agent = make_agent(f"unix://{folder.path}/nowhere.sock")
    agent.start()
    with agent.start_ctl("pull", "--timeout=3s", "demo/web:1") as child:
        waiting = child.stderr.readline()
        assert child.poll() is None
        output, errors = child.communicate(timeout=60)
    assert child.returncode == 124
    assert waiting.startswith("inplacectl: waiting for the container runtime: ")
    assert "nowhere.sock" in waiting
    assert "within the 3s of --timeout; still waiting for the container runtime" in output
    assert "cannot pull demo/web:1: DeadlineExceeded" in errors and "--timeout" in errors


def test_time_out_of_an_attempt_that_cannot_be_made(make_agent, folder):
    """--attempt-timeout holds as well where no attempt can be made."""
    agent = make_agent(f"unix://{folder.path}/nowhere.sock")
    agent.start()
    ran = agent.ctl("pull", "--attempt-timeout=1s", "demo/web:1")
    assert ran.returncode == 1
    waited = "within the 1s of --attempt-timeout; still waiting for the container runtime"
    assert waited in ran.stdout
    assert "--attempt-timeout" in ran.stderr.splitlines()[-1]


def test_wait_for_a_turn(start_agent, fake_runtime):
    """The command says on standard error that other pulls come first, as long as they do."""
    fake_runtime.on("PullImage", behaviours.hang())
    agent = start_agent(fake_runtime.endpoint, max_parallel_pulls=1)
    agent.request("demo/first:1")
    agent.wait_status("demo/first:1", "Pulling")
    with agent.start_ctl("pull", "demo/second:1") as child:
        assert child.stderr.readline().startswith("inplacectl: 1 of 1 image waits for a turn; ")
        child.send_signal(signal.SIGINT)
        assert child.wait(20) == 130


def test_time_out_of_a_request_left_with_the_agent(make_agent, folder):
    """The time limit of a detached request holds without a runtime, too, and is the reason then."""
    agent = make_agent(f"unix://{folder.path}/nowhere.sock")
    agent.start()
    ran = agent.ctl("pull", "--timeout=1s", "demo/other:1")
    stage = "DeadlineExceeded (--timeout), still waiting for the container runtime"
    assert ran.stderr.splitlines()[-1] == f"inplacectl: cannot pull demo/other:1: {stage}; allow more with --timeout"
    assert agent.ctl("pull", "--no-wait", "--timeout=1s", "demo/web:1").returncode == 0
    message = agent.wait_status("demo/web:1", "Failed")["message"]
    assert "activeDeadlineSeconds (1), which inplacectl calls --timeout; before that: Runtime" in message
    advice = "DeadlineExceeded after RuntimeUnavailable: check that the container runtime is running"
    assert advice in agent.ctl("status").stdout
    assert f"{message}; then try: inplacectl retry IMAGE\n" in agent.ctl("doctor").stdout


@pytest.mark.parametrize(
    ("status", "reason"), [(404, "NotFound"), (401, "Unauthorized")], ids=["404", "401"]
)
def test_time_out_says_what_failed(
    start_agent, runtime, fake_registry, image_name, status, reason
):
    """The end by a time-out names the option and the last attempt's failure; each failed attempt is reported
    at once.
    """
    fake_registry.on("manifest", fakes.refuse(status))
    image = fake_registry.add(image_name, "1", build_image([random_layer(1000)])).reference
    agent = start_agent(runtime.endpoint)
    with agent.start_ctl("pull", "--timeout=4s", image) as child:
        attempt = child.stderr.readline()
        assert child.poll() is None
        output, errors = child.communicate(timeout=60)
    assert child.returncode == 124
    assert attempt.startswith(f"inplacectl: {image}: {reason}: ")
    assert f"the 4s of --timeout; the last attempt failed with {reason}: " in output
    last = errors.splitlines()[-1]
    assert f"cannot pull {image}: DeadlineExceeded (--timeout) after {reason}; " in last


def test_time_out_where_another_has_none(start_agent, fake_runtime):
    """The time-out holds though another request for the same image has none, which goes on."""
    fake_runtime.on("PullImage", behaviours.hang())
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/web:1", file="web.yaml")
    agent.wait_status("demo/web:1", "Pulling")
    ran = agent.ctl("pull", "--timeout=1s", "demo/web:1")
    assert ran.returncode == 124 and "within the 1s of --timeout" in ran.stdout
    (call,) = wait_until(lambda: fake_runtime.calls("PullImage"), 10, "pull")
    assert not call.over.is_set()


@pytest.mark.parametrize(("limit", "code"), [("--timeout=2s", 124), ("--attempt-timeout=2s", 1)])
def test_agent_does_not_answer(make_agent, fake_runtime, limit, code):
    """An agent that hangs is waited for no longer than that, and the command names it."""
    agent = make_agent(fake_runtime.endpoint)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(agent.socket))
        listener.listen()
        ran = agent.ctl("pull", limit, "demo/web:1")
        assert ran.returncode == code
        first, last = ran.stderr.splitlines()
        assert first == f"inplacectl: waiting for an answer of inplaced at {agent.socket}"
        option = limit.partition("=")[0]
        assert f"within the 2s of {option}; still waiting for inplaced" in ran.stdout
        assert option in last


def test_time_out_of_an_agent_that_does_not_answer(make_agent, fake_runtime):
    """The time-out is not extended for an agent that has never answered: the other limit, which is started
    after it, does not end the images first."""
    agent = make_agent(fake_runtime.endpoint)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(agent.socket))
        listener.listen()
        ran = agent.ctl("pull", "--timeout=2s", "--attempt-timeout=2s", "demo/web:1")
        assert ran.returncode == 124
        assert "within the 2s of --timeout; still waiting for inplaced" in ran.stdout


def test_no_wait(start_agent, fake_runtime):
    """--no-wait leaves the request with the agent and returns at once."""
    fake_runtime.on("PullImage", behaviours.hang())
    agent = start_agent(fake_runtime.endpoint)
    ran = agent.ctl("pull", "--no-wait", "demo/web:1", timeout=10)
    assert ran.returncode == 0, ran.stderr
    assert "demo/web:1" in ran.stdout and "requested" in ran.stdout
    agent.wait_status("demo/web:1", "Pulling")
    (call,) = wait_until(lambda: fake_runtime.calls("PullImage"), 10, "pull")
    assert not call.over.is_set()


def test_pull_policy(start_agent, fake_runtime):
    """--pull-policy Always asks the registry also for an image that is there."""
    fake_runtime.hold("demo/web:1")
    agent = start_agent(fake_runtime.endpoint)
    assert agent.ctl("pull", "demo/web:1").returncode == 0
    assert not fake_runtime.calls("PullImage")
    assert agent.ctl("pull", "--pull-policy=Always", "demo/web:1").returncode == 0
    assert len(fake_runtime.calls("PullImage")) == 1
    assert agent.ctl("pull", "--pull-policy=always", "demo/web:1").returncode == 0
    assert len(fake_runtime.calls("PullImage")) == 2


def test_agent_restarts_meanwhile(start_agent, fake_runtime):
    """When the agent is restarted, inplacectl waits for it and asks again for what is missing."""
    fake_runtime.on("PullImage", behaviours.hang())
    agent = start_agent(fake_runtime.endpoint)
    with agent.start_ctl("pull", "demo/web:1") as child:
        wait_until(lambda: fake_runtime.calls("PullImage"), 10, "pull")
        agent.kill9()
        fake_runtime.behave()
        agent.start()
        output, errors = child.communicate(timeout=60)
    assert child.returncode == 0, errors
    assert "demo/web:1" in output
    assert without_hints(errors) == "inplacectl: lost the connection to inplaced, connecting again\n"


def test_agent_restarts_before_it_answers(make_agent, fake_runtime):
    """The request is lost as well if the agent has not said anything to it yet."""
    agent = make_agent(fake_runtime.endpoint)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(agent.socket))
        listener.listen()
        with agent.start_ctl("pull", "demo/web:1") as child:
            connection, _ = listener.accept()
            connection.close()
            listener.close()
            agent.start()
            output, errors = child.communicate(timeout=60)
    assert child.returncode == 0, errors
    assert "demo/web:1" in output
    assert without_hints(errors) == "inplacectl: lost the connection to inplaced, connecting again\n"


@pytest.mark.parametrize("how", ["kill9", "terminate"])
def test_agent_dies_before_it_answers(start_agent, fake_runtime, how):
    """The line says what happened, and where to look."""
    fake_runtime.on("ListImages", behaviours.hang())
    agent = start_agent(fake_runtime.endpoint)
    with agent.start_ctl("images") as child:
        wait_until(lambda: fake_runtime.calls("ListImages"), 10, "the agent's question")
        getattr(agent, how)()
        _, errors = child.communicate(timeout=60)
    assert child.returncode == 1
    assert "closed the connection without an answer" in errors and "journalctl -u inplaced" in errors


def test_status(agent, push):
    """status shows each image in a row; for programs it is the NodeImage of the status file."""
    image = push()
    agent.request(image.reference, file="web.yaml")
    agent.wait_status(image.reference, "Succeeded")
    table = agent.ctl("status")
    assert table.returncode == 0
    name, _, tag = image.reference.rpartition(":")
    (row,) = [line for line in table.stdout.splitlines() if line.startswith(name)]
    assert row.split()[1:3] == [tag, "Succeeded"]
    assert table.stdout.splitlines()[1] == "Images: 1 pulled"
    assert image.image_id in agent.ctl("-o", "wide", "status").stdout
    for form, load in _LOAD.items():
        assert load(agent.ctl("-o", form, "status").stdout) == agent.status()


def test_status_of_some(start_agent, fake_runtime):
    """status IMAGE... and --failed show these images alone, in each format."""
    fake_runtime.on("PullImage", behaviours.fail("NOT_FOUND", "no such image"), "bad:1")
    agent = start_agent(fake_runtime.endpoint)
    agent.ctl("pull", "--attempts=1", "good:1", "good:2", "bad:1")

    def shown(*arguments):
        ran = agent.ctl("status", "-o", "json", *arguments)
        assert ran.returncode == 0
        images = json.loads(ran.stdout)["status"]["imageStatuses"]
        return {f"{name}:{tag['tag']}" for name in images for tag in images[name]["tags"]}

    assert shown() == {"good:1", "good:2", "bad:1"}
    assert shown("docker.io/library/good:2") == {"good:2"}
    assert shown("good") == {"good:1", "good:2"}
    assert shown("--failed") == {"bad:1"}
    assert shown("--failed", "good") == set()
    table = agent.ctl("status", "good:2").stdout
    assert "good" in table and "bad" not in table
    missing = agent.ctl("status", "other:1")
    assert (missing.returncode, missing.stdout) == (1, "")
    missed = "other:1 is not among the desired images of this node; try: inplacectl status\n"
    assert missed in missing.stderr


def test_status_counts_what_it_shows(start_agent, fake_runtime):
    """The head counts the images below it, also those of finished requests, and of a selection these alone."""
    fake_runtime.on("PullImage", behaviours.fail("NOT_FOUND", "no such image"), "bad:1")
    agent = start_agent(fake_runtime.endpoint)
    agent.request("kept:1")
    agent.wait_status("kept:1", "Succeeded")
    agent.ctl("pull", "--attempts=1", "kept:1", "good:1", "bad:1")
    head = lambda *arguments: agent.ctl("status", *arguments).stdout.splitlines()[1]  # noqa: E731
    assert head() == "Images: 2 pulled, 1 failed"
    assert head("good:1") == "Images: 1 pulled"
    assert head("--failed") == "Images: 1 failed"
    assert head("--failed", "good:1") == "Images: none"


def test_suggestions(agent):
    """A mistyped command or option is answered with a similar one."""
    assert 'did you mean "status"?' in agent.ctl("statsu").stderr
    assert "did you mean --timeout?" in agent.ctl("pull", "--tiemout", "2s", "a:1").stderr
    assert "did you mean --timeout?" in agent.ctl("pull", "--deadline", "2s", "a:1").stderr


def test_socket_of_the_environment(agent, monkeypatch):
    """$INPLACED_SOCKET is where the agent is, unless --socket says otherwise."""
    ctl = [str(agent.build_dir / "agent" / "inplacectl"), "status", "-o", "json"]
    environment = {"INPLACED_SOCKET": f"unix://{agent.socket}", "PATH": "/usr/bin"}
    ran = subprocess.run(ctl, env=environment, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0 and json.loads(ran.stdout)["kind"] == "NodeImage"
    ran = subprocess.run(
        [*ctl, "--socket", "/nowhere"], env=environment, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 1 and "/nowhere" in ran.stderr


@pytest.mark.parametrize(
    ("command", "reason"), [(["status"], ": No space left on device"), (["pull", "demo/web:1"], "")]
)
def test_output_that_cannot_be_written(start_agent, fake_runtime, command, reason):
    """It is a failure. The reason is given only if it is that of the last write."""
    agent = start_agent(fake_runtime.endpoint)
    ctl = [str(agent.build_dir / "agent" / "inplacectl"), f"--socket={agent.socket}", *command]
    with open("/dev/full", "w") as full:
        ran = subprocess.run(ctl, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (1, f"inplacectl: cannot write the output{reason}\n")


def test_images(agent, push):
    """images lists what the runtime holds, and the owners of each image."""
    image = push()
    agent.request(image.reference, file="web.yaml")
    agent.wait_status(image.reference, "Succeeded")
    table = agent.ctl("images")
    (row,) = [line for line in table.stdout.splitlines() if image.reference in line]
    assert row.startswith(image.image_id.removeprefix("sha256:")[:12])
    assert "REQUESTED BY" in table.stdout and "folder:web.yaml" in row
    for form, load in _LOAD.items():
        listed = load(agent.ctl("images", "-o", form).stdout)["images"]
        (found,) = [one for one in listed if one["id"] == image.image_id]
        assert found["repoTags"] == [image.reference]
        assert found["requestedBy"] == ["folder:web.yaml"]


def test_names_of_images(start_agent, fake_runtime):
    """An image is shown and sorted by its first tag, else by its digest; a request for a short name counts for the image that
    the runtime finds under it, and for no other. Names that are no plain text are left out.
    """
    fake_runtime.name, fake_runtime.search = "cri-o", "quay.test"
    nameless = [fake_runtime.hold(f"none:{n}", f"sha256:{n * 64}", repo_tags=[], repo_digests=[]) for n in "20"]
    by_digest = fake_runtime.hold(f"q.test/bare@sha256:{'0' * 64}")
    tags = [f"quay.test/demo/web:{tag}" for tag in ("1", "2", "3\x1b[2J", "4")]
    web = fake_runtime.hold(tags[0], repo_tags=tags, pinned=True)
    other = fake_runtime.hold("b.test/other:1")
    agent = start_agent(fake_runtime.endpoint)
    for file, reference in (("web.yaml", "demo/web:1"), ("other.yaml", "b.test/other:1")):
        agent.request(reference, file=file)
        agent.wait_status(reference, "Succeeded")

    rows = [line.split() for line in agent.ctl("images").stdout.splitlines()[1:]]
    short = lambda image: image.image_id.removeprefix("sha256:")[:12]  # noqa: E731
    name, _, digest = by_digest.repo_digests[0].partition("@sha256:")
    assert rows == [
        [short(other), "b.test/other:1", "1.0", "kB", "no", "folder:other.yaml"],
        [short(by_digest), f"{name}@sha256:{digest[:12]}", "1.0", "kB", "no", "-"],
        [short(web), tags[0], "(+2)", "1.0", "kB", "other", "folder:web.yaml"],
        [short(nameless[1]), "-", "1.0", "kB", "no", "-"],
        [short(nameless[0]), "-", "1.0", "kB", "no", "-"],
    ]
    wide = agent.ctl("images", "-o", "wide").stdout
    assert f"{tags[0]},{tags[1]},{tags[3]} " in wide and web.image_id in wide and web.repo_digests[0] in wide


def test_doctor(agent, runtime):
    """doctor finds no fault on a good node, and lists its checks."""
    agent.wait_runtime()
    table = agent.ctl("doctor")
    assert (table.returncode, table.stderr) == (0, "")
    assert runtime.endpoint in table.stdout and "No problem was found." in table.stdout
    for form, load in _LOAD.items():
        document = load(agent.ctl("doctor", "-o", form).stdout)
        (found,) = document["runtimes"]
        assert (found["endpoint"], found["ready"]) == (runtime.endpoint, True)
        assert document["problems"] == []


def test_doctor_finds_a_problem(make_agent, folder):
    """doctor says in one line the fault of the runtime and the remedy; exit status 3."""
    agent = make_agent(f"unix://{folder.path}/nowhere.sock")
    agent.start()
    ran = agent.ctl("doctor")
    assert ran.returncode == 3
    assert "nowhere.sock" in ran.stdout
    (problem,) = json.loads(agent.ctl("doctor", "-o", "json").stdout)["problems"]
    assert "nowhere.sock" in problem["message"] and problem["advice"]


def test_version(agent, runtime):
    """version prints the versions of the program, of the agent and of the runtime."""
    agent.wait_runtime()
    table = agent.ctl("version")
    assert table.returncode == 0
    version = runtime.cri.version()
    assert f"{version.runtime_name} {version.runtime_version}" in table.stdout
    for form, load in _LOAD.items():
        document = load(agent.ctl("version", "-o", form).stdout)
        assert document["clientVersion"] == document["serverVersion"]
        assert document["runtimeVersion"] == version.runtime_version
    assert agent.ctl("--version").stdout.split()[1] == document["clientVersion"]


_COMMANDS = [["status"], ["images"], ["pull", "x:1"], ["restart", "x"], ["version"]]


@pytest.mark.parametrize("command", _COMMANDS)
def test_socket_of_another_program(agent, runtime, command):
    """--socket with the runtime's socket is answered with the mistake, not in gRPC's words."""
    ran = agent.ctl(f"--socket={runtime.socket}", *command)
    assert ran.returncode == 1 and len(ran.stderr.splitlines()) == 1
    assert f"the server at {runtime.socket} is not inplaced" in ran.stderr
    assert "check --socket" in ran.stderr


class _Refusing(grpc.GenericRpcHandler):
    """Refuses each call as unknown, in these words."""

    def __init__(self, words):
        self._words = words

    def service(self, handler_call_details):
        return grpc.unary_unary_rpc_method_handler(
            lambda _request, context: context.abort(grpc.StatusCode.UNIMPLEMENTED, self._words)
        )


@pytest.mark.parametrize("command", _COMMANDS)
def test_agent_of_another_version(agent, folder, command):
    """A command whose method the agent does not know names the cause."""
    with grpc.insecure_channel(f"unix:{agent.socket}") as channel, pytest.raises(grpc.RpcError) as error:
        channel.unary_unary("/inplaced.v1.Node/Newer")(b"")
    server = grpc.server(ThreadPoolExecutor(1), [_Refusing(error.value.details())])
    older = folder.path / "older.sock"
    server.add_insecure_port(f"unix:{older}")
    server.start()
    ran = agent.ctl(f"--socket={older}", *command)
    server.stop(None)
    assert ran.returncode == 1
    said = f"inplaced at {older} does not know this command; are both of the same version? try: inplacectl version"
    assert ran.stderr == f"inplacectl: {said}\n"


@pytest.mark.parametrize("command", _COMMANDS)
def test_refused_user(start_agent, fake_runtime, folder, command):
    """A user whom the agent does not serve learns that from inplacectl, in one line."""
    os.chmod(folder.path, 0o711)
    agent = start_agent(fake_runtime.endpoint, flags=["--socket-group=daemon"])
    os.chmod(agent.socket, 0o666)
    ctl = [str(agent.build_dir.resolve() / "agent" / "inplacectl"), f"--socket={agent.socket}"]
    other = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    ran = subprocess.run(
        [*other, *ctl, *command], capture_output=True, text=True, timeout=60, cwd="/", check=False
    )
    assert ran.returncode == 1 and len(ran.stderr.splitlines()) == 1
    assert 'permission denied; run it as root or join the group "daemon"' in ran.stderr


@pytest.mark.parametrize("command", [["status"], ["images"], ["pull", "x:1"], ["version"]])
def test_agent_is_not_there(make_agent, fake_runtime, command):
    """Without an agent each command says so in one line, with the remedy; exit status 1."""
    agent = make_agent(fake_runtime.endpoint)
    ran = agent.ctl(*command)
    assert ran.returncode == 1
    assert len(ran.stderr.splitlines()) == 1
    assert str(agent.socket) in ran.stderr and "systemctl" in ran.stderr


def test_doctor_without_agent(make_agent, fake_runtime):
    """doctor works without the agent, and says that it is not there."""
    agent = make_agent(fake_runtime.endpoint)
    ran = agent.ctl("doctor")
    assert ran.returncode == 3
    assert str(agent.socket) in ran.stdout
    assert json.loads(agent.ctl("doctor", "-o", "json").stdout)["problems"]

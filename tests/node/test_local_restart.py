# SPDX-License-Identifier: Apache-2.0
"""Restart and Verify of the local API on a node without an API server, in a real containerd.

There is no kubelet: where a container is to run again, the test starts it.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time

import grpc
import pytest

from lab import sanitizers
from lab.sandbox import Sandbox
from lab.user import DAEMON, NOBODY, node_stub_of
from lab.wait import stretch, wait_until

pytestmark = pytest.mark.containers

_BIN = 2  # Debian's group "bin" is always this one
_GROUPS = ["--socket-group=daemon", "--restart-group=bin", "--kubelet-health-address="]

# Ends at once on SIGTERM, and shows by its exit status whether the hook came before.
_HEEDS = [
    *("/bin/sh", "-c"),
    "trap '[ -e /hook ] && exit 7; exit 8' TERM; while :; do sleep 1 & wait; done",
]
_IGNORES = ["/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done"]
_DEFIES = ["/bin/sh", "-c", "trap 'echo term >>/term' TERM; while :; do sleep 1 & wait; done"]
_HOOK = {"exec": {"command": ["/bin/touch", "/hook"]}}


@pytest.fixture
def agent(start_agent, runtime):
    """The agent does not ask whether there is a kubelet: the tests play its part."""
    return start_agent(runtime.endpoint, flags=["--kubelet-health-address="])


@pytest.fixture
def name(image_name):
    return image_name.removeprefix("t/").replace("/", "-")


@pytest.fixture
def make_pod(runtime, push):
    """make_pod(name, namespace, …) as Sandbox, started."""
    image = push([], busybox=True, command=_HEEDS)
    pods = []

    def make(name, namespace="default", **options):
        pod = Sandbox(runtime, image.reference, name, namespace, **options)
        pods.append(pod)
        pod.start()
        return pod

    yield make
    for pod in pods:
        pod.close()


@pytest.fixture
def pod(make_pod, name):
    return make_pod(name)


class Restart:
    """A call and its messages, read beside the test."""

    def __init__(self, agent, pod, **fields) -> None:
        self.messages = agent.messages
        self.call = agent.node.Restart(agent.messages.RestartRequest(pod=pod, **fields))
        self.events = []
        self.error = None
        self._stopped = threading.Event()
        self._ended = threading.Thread(target=self._read)
        self._ended.start()

    def wait_stopped(self) -> None:
        assert self._stopped.wait(60), self.events

    def wait_end(self):
        self._ended.join(20)
        assert not self._ended.is_alive(), self.events
        return self

    def phases(self, container) -> list[str]:
        phase = self.messages.RestartPhase
        return [
            phase.Name(event.phase).removeprefix("RESTART_PHASE_")
            for event in self.events
            if event.container == container
        ]

    def last(self, container):
        return [event for event in self.events if event.container == container][-1]

    def _read(self) -> None:
        try:
            for event in self.call:
                self.events.append(event)
                if event.phase == self.messages.RESTART_PHASE_STOPPED:
                    self._stopped.set()
        except grpc.RpcError as error:
            self.error = error


def _run_heeding(pod, name, command=_HEEDS, **more):
    return pod.run_heeding(name, command, **more)


def _refusal(agent, pod, **fields):
    error = Restart(agent, pod, **fields).wait_end().error
    assert error is not None
    return error.code().name, error.details()


def test_stops_gracefully(agent, pod, name):
    """Each container gets its hook, then SIGTERM; the others of the node are left alone."""
    app, db = _run_heeding(pod, "app", pre_stop=_HOOK), _run_heeding(pod, "db")
    restart = Restart(agent, name, namespace="default").wait_end()
    assert restart.error is None
    for container, made, exit_code in (("app", app, 7), ("db", db, 8)):
        last = restart.last(container)
        assert restart.phases(container)[-1] == "STOPPED" and last.final
        assert (last.namespace, last.pod) == ("default", name)
        assert (last.old_container_id, last.new_container_id, last.message) == (made, "", "")
        assert pod.wait_exited(made).exit_code == exit_code


def test_one_container(agent, pod, name):
    """Only the container that is named is stopped."""
    app, db = pod.run("app", _HEEDS), pod.run("db", _HEEDS)
    restart = Restart(agent, name, container="app").wait_end()
    assert {event.container for event in restart.events} == {"app"}
    assert (pod.state(app), pod.state(db)) == ("EXITED", "RUNNING")


def test_waits_until_it_runs_again(agent, pod, name):
    """With `wait` the stream ends when another container of that name runs."""
    old = pod.run("app", _HEEDS)
    restart = Restart(agent, name, wait=True)
    restart.wait_stopped()
    assert pod.state(old) == "EXITED" and not restart.last("app").final
    new = pod.run("app", _HEEDS)
    restart.wait_end()
    last = restart.last("app")
    assert restart.phases("app")[-2:] == ["STOPPED", "RUNNING"] and last.final
    assert (last.old_container_id, last.new_container_id) == (old, new)
    assert pod.state(new) == "RUNNING"


def test_waits_as_long_as_asked(agent, pod, name):
    """The caller's time to wait counts, and not the ten minutes of those who name none."""
    pod.run("app", _HEEDS)
    restart = Restart(agent, name, wait=True, wait_seconds=1).wait_end()
    last = restart.last("app")
    assert restart.phases("app")[-2:] == ["STOPPED", "FAILED"] and last.final
    assert last.message == "it did not run again within 1 s"


def test_grace_of_the_request(agent, make_pod, name):
    """A grace period that is asked for counts, and not the pod's own of a minute."""
    pod = make_pod(name, grace=60)
    app = pod.run("app", _IGNORES)
    began = time.monotonic()
    restart = Restart(agent, name, grace_seconds=0).wait_end()
    assert time.monotonic() - began < stretch(10 * sanitizers.SLOWNESS)
    assert restart.phases("app")[-1] == "STOPPED"
    assert pod.status(app).exit_code == 137


def test_what_is_refused(agent, make_pod, name):
    """A request that names nothing, or several pods, or is invalid is refused, and nothing is stopped."""
    first, second = make_pod(name, "a"), make_pod(name, "b")
    made = [(pod, pod.run("app", _HEEDS)) for pod in (first, second)]
    assert _refusal(agent, "nowhere")[0] == "NOT_FOUND"
    assert _refusal(agent, name, namespace="a", container="db")[0] == "NOT_FOUND"
    code, said = _refusal(agent, name)
    assert code == "INVALID_ARGUMENT" and '"a" and "b"' in said
    for fields in ({"reason": "x" * 257}, {"reason": "a\nb"}, {"grace_seconds": -1}, {"wait_seconds": -1}):
        assert _refusal(agent, name, namespace="a", **fields)[0] == "INVALID_ARGUMENT"
    for wrong in ("", "UPPER", "a b", "../x", "x" * 300):
        assert _refusal(agent, wrong)[0] == "INVALID_ARGUMENT"
    assert {pod.state(container) for pod, container in made} == {"RUNNING"}
    Restart(agent, name, namespace="b").wait_end()
    assert [pod.state(container) for pod, container in made] == ["RUNNING", "EXITED"]


def test_caller_goes_away(agent, pod, name):
    """A stop that has begun goes on without its caller."""
    app = _run_heeding(pod, "app", pre_stop={"exec": {"command": ["/bin/sleep", "1"]}})
    restart = Restart(agent, name)
    stopping = agent.messages.RESTART_PHASE_STOPPING
    wait_until(lambda: any(e.phase == stopping for e in list(restart.events)), 10, "its hook")
    restart.call.cancel()
    restart.wait_end()
    assert pod.wait_exited(app).exit_code == 8
    assert agent.node.GetVersion(agent.messages.GetVersionRequest()).version


# containerd 1.6 hangs if its caller goes before such a command has quite started.
_LONG_HOOK = {
    "exec": {"command": ["/bin/sh", "-c", "echo hook >>/hook; sleep 1; : >/begun; sleep 600"]}
}


@pytest.mark.parametrize(
    ("hook", "sign"), [(_LONG_HOOK, "begun"), (None, "term")], ids=["hook", "SIGTERM"]
)
def test_agent_is_killed_during_a_stop(agent, make_pod, name, hook, sign):
    """The next run ends the container within its grace period, though no caller asks for it again.

    No hook runs twice, and the container has all of its time, counted once.
    """
    grace = 12
    pod = make_pod(name, grace=grace)
    app = _run_heeding(pod, "app", _DEFIES, pre_stop=hook)
    root = pod.process(app) / "root"
    began = time.time()
    restart = Restart(agent, name)
    wait_until((root / sign).exists, 10, sign)
    agent.kill9()
    restart.wait_end()
    agent.start()
    wait_until((root / "term").exists, 10, "SIGTERM")
    if hook:
        assert (root / "hook").read_text() == "hook\n"
    status = pod.wait_exited(app, grace + 10 * sanitizers.SLOWNESS)
    assert status.exit_code == 137
    assert grace - 2 <= status.finished_at / 1e9 - began <= grace + stretch(5 * sanitizers.SLOWNESS)
    wait_until(lambda: "Stopped container" in agent.log_text(), 10, "line of its end")


def test_agent_is_killed_and_the_stop_ends(agent, pod, name):
    """A container that ended while no agent ran is known to have been stopped, and left alone."""
    app = _run_heeding(pod, "app", _DEFIES)
    process = pod.process(app)
    restart = Restart(agent, name)
    wait_until((process / "root/term").exists, 10, "SIGTERM")
    agent.kill9()
    restart.wait_end()
    os.kill(int(process.name), signal.SIGKILL)
    pod.wait_exited(app)
    successor = _run_heeding(pod, "app")
    agent.start()
    wait_until(lambda: "Stopped container" in agent.log_text(), 10, "line of its end")
    assert pod.state(successor) == "RUNNING"


def test_without_a_runtime(start_agent, folder):
    """While no runtime is there both calls are refused with the reason."""
    agent = start_agent(f"unix://{folder.path}/nowhere.sock")
    code, said = _refusal(agent, "web")
    assert code == "UNAVAILABLE" and "nowhere.sock" in said
    with pytest.raises(grpc.RpcError) as error:
        agent.node.Verify(agent.messages.VerifyRequest())
    assert error.value.code() is grpc.StatusCode.UNAVAILABLE


def _verify(agent, name, **fields):
    answer = agent.node.Verify(agent.messages.VerifyRequest(pod=name, **fields))
    return {found.container: found for found in answer.containers}


def test_verdicts(agent, runtime, push, pod, name):
    """A tag that was moved is stale; the same content under another name is not."""
    pod.run("app", _HEEDS)
    current, stale = agent.messages.VERDICT_CURRENT, agent.messages.VERDICT_STALE
    found = _verify(agent, name, namespace="default")["app"]
    assert (found.pod, found.reference, found.verdict) == (name, pod.image, current)
    assert found.reference_id == found.running_id == runtime.image_id(pod.image)
    assert (found.environment, found.message) == ("", "")
    assert agent.ctl("verify", name).returncode == 0

    moved = push([2000], busybox=True)  # under the same tag
    runtime.pull(moved.reference)
    found = _verify(agent, name)["app"]
    assert found.verdict == stale and found.message
    assert found.reference_id == moved.image_id != found.running_id
    table = agent.ctl("verify", "-n", "default", name)
    assert table.returncode == 3 and "Stale" in table.stdout
    with pytest.raises(grpc.RpcError) as error:
        _verify(agent, name, namespace="elsewhere")
    assert error.value.code() is grpc.StatusCode.NOT_FOUND
    assert agent.ctl("verify", "nowhere").returncode == 1


def test_inplacectl_restart(agent, pod, name):
    """The whole way from the command line to the container that has ended."""
    app = pod.run("app", _HEEDS)
    ran = agent.ctl("restart", f"{name}/app", "--reason", "a test", "-o", "json")
    assert (ran.returncode, ran.stderr) == (0, "")
    (reported,) = json.loads(ran.stdout)["containers"]
    assert (reported["phase"], reported["oldContainerID"]) == ("Stopped", app)
    assert pod.state(app) == "EXITED"
    again = agent.ctl("restart", name)
    assert again.returncode == 1 and f"no container of pod {name} runs" in again.stderr
    assert agent.ctl("restart", "UPPER").returncode == 2


def _restart_as(agent, who, pod):
    """Asks as another user, and returns the refusal."""
    with node_stub_of(agent, *who) as node, pytest.raises(grpc.RpcError) as error:
        list(node.Restart(agent.messages.RestartRequest(pod=pod), timeout=20))
    return error.value.code().name, error.value.details()


@pytest.mark.parametrize(
    ("flags", "who", "refused_with"),
    [
        (_GROUPS, (NOBODY, NOBODY, DAEMON, _BIN), None),
        (_GROUPS, (NOBODY, _BIN, DAEMON), None),
        (_GROUPS, (NOBODY, DAEMON), 'members of the group "bin" may'),
        (_GROUPS, (0, 0), None),
        (_GROUPS[:1], (NOBODY, DAEMON), "only root may"),
        ([*_GROUPS[:1], "--restart-group="], (NOBODY, DAEMON), "only root may"),
        ([*_GROUPS[:1], "--restart-group=nowhere"], (NOBODY, DAEMON), '"nowhere"'),
        ([*_GROUPS[:1], f"--restart-group={DAEMON}"], (NOBODY, DAEMON), None),
        ([], (0, 0), None),
    ],
)
def test_restarting_is_a_right_of_its_own(
    start_agent, runtime, folder, flags, who, refused_with
):
    """A user who may request images may not therefore stop containers; the refusal names what to do."""
    folder.path.chmod(0o711)
    agent = start_agent(runtime.endpoint, flags=flags)
    agent.wait_runtime()
    code, said = _restart_as(agent, who, "nowhere")
    if refused_with is None:
        assert code == "NOT_FOUND", said
    else:
        assert code == "PERMISSION_DENIED" and refused_with in said
        assert f"nobody (uid {NOBODY}, pid {os.getpid()})" in said
    if who[0] == NOBODY:
        logged = [line for line in agent.logs() if line.get("caller_uid") == str(NOBODY)]
        assert len(logged) == 1
        verb = "Accepted request" if refused_with is None else "Refused to restart"
        assert logged[0]["message"].startswith(verb)
        assert (logged[0]["caller_user"], logged[0]["caller_pid"]) == ("nobody", str(os.getpid()))


def test_socket_group_stops_nothing(start_agent, runtime, folder, pod, name):
    """A member of the socket's group cannot stop a container; one of both groups can."""
    folder.path.chmod(0o711)
    app = _run_heeding(pod, "app")
    agent = start_agent(runtime.endpoint, flags=_GROUPS)
    agent.wait_runtime()
    assert _restart_as(agent, (NOBODY, DAEMON), name)[0] == "PERMISSION_DENIED"
    assert pod.state(app) == "RUNNING"
    with node_stub_of(agent, NOBODY, DAEMON, _BIN) as node:
        list(node.Restart(agent.messages.RestartRequest(pod=name), timeout=30))
    assert pod.state(app) == "EXITED"

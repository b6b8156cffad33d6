# SPDX-License-Identifier: Apache-2.0
"""Proves that the agent restarts in place the containers whose environment comes from changed labels
or annotations: those and no others, once, gracefully, and that the pod shows it.
"""

from __future__ import annotations

import time
from pathlib import Path

import grpc
import pytest

from lab import sanitizers
from lab.hashes import env_hash
from lab.kubelet import is_ready
from lab.pod import (
    GATE,
    META,
    OPT_IN,
    VERIFIED,
    container,
    from_annotations,
    from_labels,
    shell,
    until_term,
)
from lab.wait import stretch, wait_until

SLOWLY = sanitizers.SLOWNESS

pytestmark = [pytest.mark.containers, pytest.mark.timeout(90 * SLOWLY)]

_COLOUR = from_annotations(COLOUR="colour")

# The server that a hook has to reach records the request.
_NOTES_REQUESTS = """\
nc -ll -p 8080 -e /bin/sh -c '
    read -r line
    echo hook $line >>/data/notes
    printf "HTTP/1.0 204 No Content\\r\\n\\r\\n"
    cat >/dev/null
' &"""
# Records each request and answers it in plain HTTP.
_ANSWERS_PLAINLY = """\
nc -ll -p 8080 -e /bin/sh -c '
    dd bs=8192 count=1 >>/data/notes
    printf "HTTP/1.0 204 No Content\\r\\n\\r\\n"
    cat >/dev/null
' &"""
_LISTENS = ":1F90 "  # as /proc shows a socket that listens on port 8080

# A client that only connects does not wait until the server records it. But when SIGTERM arrives, the connection must be
# there, unless it is recorded already: the client may have seen it established first, or have closed it.
_NOTES_THE_LAST = """\
while ! grep -q hook /data/notes && grep -q ":1F90 [0-9A-F]*:[0-9A-F]* 0[138] " /proc/net/tcp6
do :
done"""


@pytest.fixture
def coloured(node_agent, make_pod, tools):
    """coloured(…): a pod with a container `main` that has an annotation in its environment.

    The process writes the signals that it gets into the file `notes`.
    """

    def make(script: str = "", at_term: str = "", **more):
        command = until_term(f"{at_term}\necho term >>/data/notes")
        command[2] = f"{script}\n{command[2]}"
        main = container("main", tools, env=_COLOUR, command=command, **more)
        # A hook has this time, too, and on a busy machine its server may need some of it.
        pod = make_pod(main, annotations={"colour": "red"}, terminationGracePeriodSeconds=30)
        pod.wait_meta()
        pod.wait_heeds_term("main")
        return pod

    return make


def wait_blue(pod, name: str = "main", times: int = 1) -> None:
    """Waits for so many restarts, and checks the new value in the process."""
    pod.wait_restarted(name, times)
    assert pod.environment(name)["COLOUR"] == "blue", pod.story()


def patches_of(control_plane, pod) -> int:
    """The number of the agent's writes to the pod."""
    written = control_plane.audit(verb="patch") + control_plane.audit(verb="update")
    about = [entry["objectRef"] for entry in written]
    return len([one for one in about if one["resource"] == "pods" and one["name"] == pod.name])


def test_restarts_exactly_the_containers_that_use_it(node_agent, make_pod, tools, settle):
    """The pod declares them in another order than the kubelet reports them."""
    pod = make_pod(
        container("zeta", tools, env=_COLOUR),
        container("alpha", tools, env=from_labels(TEAM="team")),
        container("middle", tools, env=[{"name": "COLOUR", "value": "fixed"}]),
        annotations={"colour": "red"},
        labels={"team": "one"},
    )
    entries = pod.wait_meta()
    assert [entry["name"] for entry in entries] == ["alpha", "middle", "zeta"]
    before = pod.get()
    pod.file("kept").write_text("content")

    pod.begin_update(annotations={"colour": "blue"})
    wait_blue(pod, "zeta")
    pod.wait_meta()
    assert pod.restarts() == {"alpha": 0, "middle": 0, "zeta": 1}

    pod.begin_update(labels={"team": "two"})
    pod.wait_restarted("alpha")
    assert pod.environment("alpha")["TEAM"] == "two"
    pod.wait_meta()

    settle()
    assert pod.restarts() == {"alpha": 1, "middle": 0, "zeta": 1}
    after = pod.get()
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["status"]["podIP"] == before["status"]["podIP"]
    assert pod.file("kept").read_text() == "content"


def test_reports_pods_when_first_seen(start_node_agent, make_pod, tools, settle):
    """The agent reports pods that are older than itself, if their owner opts in."""
    main = container("main", tools, env=_COLOUR)
    owned = make_pod(main, annotations={"colour": "red"})
    willing = make_pod(main, owner=False, annotations={OPT_IN: "true"})
    excluded = make_pod(main, owner=False, annotations={"colour": "red"})

    # The fixture `settle` does not need the agent before it is called.
    start_node_agent()
    owned.wait_meta()
    willing.wait_meta()
    settle()
    assert excluded.meta() is None
    assert owned.restarts() == willing.restarts() == excluded.restarts() == {"main": 0}


def test_waits_for_the_owner_to_begin_an_update(coloured, settle):
    """A change restarts nothing until the condition is False."""
    pod = coloured()
    before = pod.get()["metadata"]["annotations"][META]
    pod.change(annotations={"colour": "blue"})
    settle()
    assert pod.restarts() == {"main": 0}
    assert pod.get()["metadata"]["annotations"][META] == before

    pod.set_condition(GATE, "False")
    wait_blue(pod)
    pod.wait_meta()


def test_writes_at_most_twice(coloured, control_plane, settle):
    pod = coloured()
    settle()
    before = patches_of(control_plane, pod)
    pod.begin_update(annotations={"colour": "blue"})
    wait_blue(pod)
    pod.wait_meta()
    settle()
    # A late kubelet makes another restart.
    assert 1 <= patches_of(control_plane, pod) - before <= 2 * (1 + pod.n_late("main"))


def test_a_pod_without_openkruise_takes_part_by_annotation(node_agent, make_pod, tools, settle):
    """The annotation selects all containers or lists some; a pod without it is skipped."""
    containers = [container(name, tools, env=_COLOUR) for name in ("one", "two", "three")]
    red = {"colour": "red"}
    whole = make_pod(*containers, owner=False, annotations={**red, OPT_IN: "true"})
    listed = make_pod(*containers, owner=False, annotations={**red, OPT_IN: "two,three"})
    silent = make_pod(*containers, owner=False, annotations=red)
    refuses = make_pod(*containers, owner=False, annotations={**red, OPT_IN: "false"})

    for pod in (whole, listed, silent, refuses):
        pod.change(annotations={"colour": "blue"})
    for pod, names in ((whole, ("one", "two", "three")), (listed, ("two", "three"))):
        for name in names:
            wait_blue(pod, name)
    whole.wait_meta()

    settle()
    assert whole.restarts() == {"one": 1, "two": 1, "three": 1}
    assert listed.restarts() == {"one": 0, "two": 1, "three": 1}
    assert silent.restarts() == refuses.restarts() == {"one": 0, "two": 0, "three": 0}
    assert silent.meta() is None and refuses.meta() is None
    assert silent.condition(VERIFIED) is None and refuses.condition(VERIFIED) is None


def test_an_image_with_one_program_and_nothing_else(node_agent, make_pod, bare):
    """The image has no `env` program; the agent runs none."""
    main = {"name": "main", "image": bare.reference, "env": _COLOUR}
    pod = make_pod(main, annotations={"colour": "red"})
    with pytest.raises(grpc.RpcError):
        pod.node.runtime.cri.execute(pod.runtime_container("main").id, "env")
    pod.wait_meta()
    pod.begin_update(annotations={"colour": "blue"})
    wait_blue(pod)
    pod.wait_meta()
    assert pod.restarts() == {"main": 1}


_VALUES = {
    "lines": ("one", "two\nlines\n\n"),
    "blanks": ("  outer ", "\tother  blanks "),
    "quotes": ("'", "\"double\" 'single' \\back `tick` $(HOME) $$ <&>"),
    "unicode": ("ä", "grün 緑 🟢 \u2028 \x7f"),
    "long": ("short", "0123456789" * 10_000),
    "assignment": ("A=1", "COLOUR=2\nPATH=/nowhere"),
    "empty": ("full", ""),
    "added": (None, "new"),
    "removed": ("old", None),
}


def test_values_arrive_byte_by_byte(node_agent, make_pod, tools, settle):
    """Each value is in a container of its own; no value is confused with another one."""
    pod = make_pod(
        *(container(key, tools, env=from_annotations(VALUE=key)) for key in _VALUES),
        annotations={key: value for key, (value, _) in _VALUES.items() if value is not None},
    )
    pod.wait_meta()
    pod.begin_update(annotations={key: value for key, (_, value) in _VALUES.items()})
    for key, (_, value) in _VALUES.items():
        pod.wait_restarted(key)
        assert pod.environment(key)["VALUE"] == (value or "")
    pod.wait_meta()
    settle()
    assert set(pod.restarts().values()) == {1}


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_what_would_not_come_back_is_left_alone(node_agent, make_pod, tools, settle, policy):
    """The container exits with 0 on SIGTERM, so the kubelet would not start it again."""
    main = container("main", tools, env=_COLOUR)
    pod = make_pod(main, annotations={"colour": "red"}, restartPolicy=policy)
    pod.wait_meta()
    process = pod.process("main")
    pod.begin_update(annotations={"colour": "blue"})
    event = pod.wait_event("InPlaceRestartSkipped", 10 * SLOWLY)
    assert "main" in event["message"] and policy in event["message"]
    settle()
    assert pod.restarts() == {"main": 0} and pod.process("main") == process
    assert pod.events("Killing") == []


def test_what_would_ask_for_the_next_restart_is_left_alone(node_agent, make_pod, tools, settle):
    """The container reads the annotation which the agent writes after each restart."""
    env = [*_COLOUR, *from_annotations(SEEN=META)]
    pod = make_pod(container("main", tools, env=env), annotations={"colour": "red"})
    wait_until(pod.meta, 10 * SLOWLY, "annotation of the agent")
    pod.begin_update(annotations={"colour": "blue"})
    event = pod.wait_event("InPlaceRestartSkipped", 10 * SLOWLY)
    assert "main" in event["message"] and META in event["message"]
    settle()
    assert pod.restarts() == {"main": 0} and pod.events("Killing") == []


def test_another_image_and_another_value_are_one_restart(coloured, registry, settle):
    """The kubelet restarts the container for its image anyhow."""
    pod = coloured()
    other = registry.push_image("pods/tools", "other", busybox=True, labels={"other": "yes"})
    pod.begin_update(annotations={"colour": "blue"}, images={"main": other.reference})
    wait_blue(pod)
    assert pod.status("main")["image"] == other.reference
    pod.wait_meta()
    settle()
    assert pod.restarts() == {"main": 1}
    assert pod.events("Killing") == []


_HOOKS = {
    "exec": ({"exec": {"command": shell("echo hook >>/data/notes")}}, "hook"),
    "httpGet": ({"httpGet": {"port": "web", "path": "/bye?now"}}, "hook GET /bye?now HTTP/1.1"),
    "tcpSocket": ({"tcpSocket": {"port": 8080}}, "hook"),
}


@pytest.mark.parametrize("kind", _HOOKS)
def test_runs_the_hook_before_the_stop(node_agent, coloured, settle, kind):
    hook, note = _HOOKS[kind]
    ports = [{"name": "web", "containerPort": 8080}]
    pod = coloured(_NOTES_REQUESTS, _NOTES_THE_LAST, lifecycle={"preStop": hook}, ports=ports)
    sockets = Path(f"/proc/{pod.process('main')}/net/tcp6")
    wait_until(lambda: _LISTENS in sockets.read_text(), 10, "listener")
    pod.begin_update(annotations={"colour": "blue"})
    wait_blue(pod)
    settle()
    assert pod.events("FailedPreStopHook") == []
    place = "" if kind == "exec" else f", at {pod.get()['status']['podIP']}"
    assert f'The preStop hook of container \\"main\\" has ended{place}.' in node_agent.log_text(), pod.story()
    n_stops = 1 + pod.n_late("main")
    assert [line.rstrip() for line in pod.lines("notes")] == [note, "term"] * n_stops, pod.story()
    assert pod.restarts() == {"main": 1}, pod.story()


def test_a_hook_that_was_to_use_tls(coloured):
    """The agent repeats the request in plain HTTP without its secret; the pod's events show it."""
    headers = [{"name": name, "value": "s3cret"} for name in ("Authorization", "X-Other")]
    hook = {"httpGet": {"scheme": "HTTPS", "port": 8080, "httpHeaders": headers}}
    pod = coloured(_ANSWERS_PLAINLY, lifecycle={"preStop": hook})
    sockets = Path(f"/proc/{pod.process('main')}/net/tcp6")
    wait_until(lambda: _LISTENS in sockets.read_text(), 10, "listener")
    pod.begin_update(annotations={"colour": "blue"})
    wait_blue(pod)
    event = pod.wait_event("LifecycleHTTPFallback", 10 * SLOWLY)
    assert event["type"] == "Warning" and ":8080 got HTTP response" in event["message"]
    assert "fieldPath" not in event["involvedObject"]
    wait_until(lambda: b"X-Other: s3cret" in pod.file("notes").read_bytes(), 10, "request")
    assert b"Authorization" not in pod.file("notes").read_bytes()
    assert pod.events("FailedPreStopHook") == []


def test_sleeps_before_the_stop_if_the_hook_says_so(coloured):
    pod = coloured(lifecycle={"preStop": {"sleep": {"seconds": 2}}})
    began = time.monotonic()
    pod.begin_update(annotations={"colour": "blue"})
    wait_until(lambda: pod.lines("notes"), 20 * SLOWLY, "SIGTERM")
    assert time.monotonic() - began > 1.9
    wait_blue(pod)


def test_a_hook_that_fails_is_reported_and_does_not_stop_it(coloured):
    pod = coloured(lifecycle={"preStop": {"exec": {"command": shell("echo no way; exit 3")}}})
    pod.begin_update(annotations={"colour": "blue"})
    wait_blue(pod)
    event = pod.wait_event("FailedPreStopHook", 10 * SLOWLY)
    assert event["type"] == "Warning" and "main" in event["message"]


def test_reports_the_stop_as_the_kubelet_does(coloured):
    pod = coloured()
    pod.begin_update(annotations={"colour": "blue"})
    wait_blue(pod)
    event = pod.wait_event("Killing", 10 * SLOWLY)
    assert event["type"] == "Normal" and "main" in event["message"]
    about = event["involvedObject"]
    assert about["fieldPath"] == "spec.containers{main}" and about["name"] == pod.name
    assert "blue" not in event["message"]
    assert sum(one["count"] for one in pod.events("Killing")) == 1 + pod.n_late("main")


def test_a_process_has_its_grace_period(coloured):
    """The process needs three of its thirty seconds to end."""
    pod = coloured("trap 'sleep 3; echo orderly >>/data/notes; exit 0' TERM; sleep 3600 & wait")
    pod.begin_update(annotations={"colour": "blue"})
    wait_blue(pod)
    assert pod.lines("notes") == ["orderly"] * (1 + pod.n_late("main"))
    assert pod.status("main")["lastState"]["terminated"]["exitCode"] == 0


def test_a_native_sidecar_is_a_container_like_others(node_agent, make_pod, tools, settle):
    """The pod's annotation lists the sidecar after the other containers."""
    sidecar = container("sidecar", tools, env=_COLOUR, restartPolicy="Always")
    pod = make_pod(
        container("main", tools), initContainers=[sidecar], annotations={"colour": "red"}
    )
    entries = pod.wait_meta()
    assert [entry["name"] for entry in entries] == ["main", "sidecar"]
    pod.begin_update(annotations={"colour": "blue"})
    wait_blue(pod, "sidecar")
    pod.wait_meta()
    settle()
    assert pod.restarts() == {"main": 0, "sidecar": 1}


def test_the_report_is_about_the_container_that_runs(coloured, settle):
    """The reported hash is that of the values with which the running container was created."""
    pod = coloured()
    pod.change(annotations={"colour": "blue"})
    settle()
    cri = pod.node.runtime.cri
    request = cri.messages.StopContainerRequest(
        container_id=pod.runtime_container("main").id, timeout=5
    )
    cri.runtime.StopContainer(request)
    wait_blue(pod)
    (entry,) = pod.wait_meta()
    assert entry["restartCount"] == 1
    document = pod.get()
    reported = entry["hashes"]["extractedEnvFromMetadataHash"]
    assert reported == env_hash(document["spec"]["containers"][0], document["metadata"])


def test_is_stopped_at_once(coloured):
    """The agent stops the container without a fixed delay; benchmarks measure the figures."""
    pod = coloured()
    pod.set_condition(GATE, "False")
    pod.wait(lambda document: not is_ready(document))
    first = pod.runtime_container("main").id
    began = time.time()
    pod.change(annotations={"colour": "blue"})
    assert pod.wait_ended(first).finished_at / 1e9 - began < stretch(5 * SLOWLY)

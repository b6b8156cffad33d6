# SPDX-License-Identifier: Apache-2.0
"""Proves that the probes of a NodePodProbe are run in the pods of a real node, and that their results
reach its status, as OpenKruise's PodProbeMarkers need them.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from concurrent import futures
from datetime import datetime

import grpc
import pytest

from fake import behaviours, hostile
from fake.hostile import HostileServer
from fake.runtime import FakeRuntime
from fake.runtime_proxy import RuntimeProxy
from lab import memory_limit, sanitizers
from lab.agent import Agent
from lab.certificates import Authority
from lab.latency import Latency
from lab.node_pod_probe import probe, probes_of
from lab.pod import container, shell, until_term
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS

pytestmark = [pytest.mark.containers, pytest.mark.timeout(90 * SLOWLY)]

# Serves the pod's volume on port 8080, and ends on SIGTERM.
_SERVES = shell("httpd -p 8080 -h /data; trap exit TERM; while :; do sleep 3600 & wait; done")


@pytest.fixture
def server_pod(make_pod, tools):
    """A pod whose container `main` serves the pod's volume over HTTP."""
    return make_pod(container("main", tools, command=_SERVES), owner=False)


def write(pod, name: str, text: str = "") -> None:
    """At once, so that no probe sees half of it."""
    new = pod.file(f".{name}")
    new.write_text(text)
    new.rename(pod.file(name))


def runs(agent, **labels: str) -> float:
    return agent.metrics().total("inplaced_probe_runs_total", **labels)


def wait_runs(agent, n: int, **labels: str) -> None:
    """Waits until so many more probes have been run."""
    before = runs(agent, **labels)
    wait_until(lambda: runs(agent, **labels) >= before + n, 30, f"{n} runs of probes")


def shown(agent) -> list[str]:
    return [one["name"] for one in json.loads(agent.ctl("probes", "-o", "json").stdout)["probes"]]


def writes(agent) -> float:
    return agent.metrics().total("inplaced_probe_writes_total")


def stop(pod) -> None:
    cri = pod.node.runtime.cri
    old = pod.runtime_container("main").id
    cri.runtime.StopContainer(cri.messages.StopContainerRequest(container_id=old, timeout=5))


def time_of(state: dict, key: str) -> datetime:
    return datetime.fromisoformat(state[key])


def test_each_kind_reports_what_it_finds(node_agent, requested, server_pod):
    pod = server_pod
    command = shell("cat /data/word && [ -e /data/good ] || { echo bad >&2; exit 3; }")
    write(pod, "word", "hello")
    requested.request(
        probes_of(
            pod,
            probe("m#exec", exec={"command": command}),
            probe("m#http", httpGet={"port": 8080, "path": "/page", "scheme": "HTTP"}),
            probe("m#tcp", tcpSocket={"port": 8080}),
            probe("m#closed", tcpSocket={"port": 8081}),
            probe("m#later", tcpSocket={"port": 8080}, initialDelaySeconds=3600),
        )
    )
    requested.wait_state(pod, "m#exec", "Failed", "bad")
    requested.wait_state(pod, "m#http", "Failed", "HTTP probe failed with statuscode: 404")
    up = requested.wait_state(pod, "m#tcp", "Succeeded")
    assert "message" not in up
    requested.wait_state(pod, "m#closed", "Failed", "Connection refused")

    write(pod, "good")
    write(pod, "page", "the page")
    requested.wait_state(pod, "m#exec", "Succeeded", "hello")
    requested.wait_state(pod, "m#http", "Succeeded", "the page")
    pod.file("page").unlink()
    down = requested.wait_state(pod, "m#http", "Failed")
    assert time_of(down, "lastTransitionTime") <= time_of(down, "lastProbeTime")
    # Neighbours in the same container keep their own results.
    after = requested.state(pod, "m#tcp")
    assert after["lastTransitionTime"] == up["lastTransitionTime"]

    failed = pod.wait_event("KruiseProbeFailed")
    assert failed["type"] == "Warning"
    assert pod.wait_event("KruiseProbeSucceeded")["type"] == "Normal"
    shown = json.loads(node_agent.ctl("probes", pod.name, "-o", "json").stdout)["probes"]
    assert [one["name"] for one in shown] == ["m#closed", "m#exec", "m#http", "m#later", "m#tcp"]
    assert shown[1]["state"] == "Succeeded" and shown[1]["message"] == "hello"
    assert shown[1]["kind"] == "exec" and shown[1]["runs"] > 0
    table = node_agent.ctl("probes").stdout.splitlines()
    assert table[0].split() == [*("NAMESPACE", "POD", "CONTAINER", "PROBE", "STATE"), "SINCE", "TOOK", "MESSAGE"]
    assert table[1].split()[:5] == ["default", pod.name, "main", "m#closed", "Failed"]
    assert table[4].split()[3::3] == ["m#later", "-"]  # it has not taken any time yet
    assert node_agent.ctl("probes", "no-such-pod").returncode == 1
    metrics = node_agent.metrics()
    assert metrics.get_value("inplaced_probes", state="failed") == 2
    assert metrics.get_value("inplaced_probes", state="succeeded") == 2


class Health:
    """A gRPC server at the node's address, where pods with the node's network are."""

    def __init__(self, address: str, credentials: grpc.ServerCredentials | None = None) -> None:
        self.answers: dict[bytes, bytes] = {b"": b"\x08\x01"}
        self.delay_seconds = 0.0
        self.server = grpc.server(futures.ThreadPoolExecutor(2))
        handler = grpc.unary_unary_rpc_method_handler(self._check)
        service = grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": handler})
        self.server.add_generic_rpc_handlers((service,))
        if credentials is None:
            self.port = self.server.add_insecure_port(f"{address}:0")
        else:
            self.port = self.server.add_secure_port(f"{address}:0", credentials)
        self.server.start()

    def _check(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        time.sleep(self.delay_seconds)
        answer = self.answers.get(request)
        if answer is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
        return answer

    def close(self) -> None:
        self.server.stop(0).wait()


def test_grpc(node_agent, requested, node, make_pod, tools):
    pod = make_pod(container("main", tools), owner=False, hostNetwork=True)
    health = Health(node.interface.address)
    try:
        health.answers[b"\x0a\x04cart"] = b"\x08\x02"
        requested.request(
            probes_of(
                pod,
                probe("m#all", grpc={"port": health.port}),
                probe("m#cart", grpc={"port": health.port, "service": "cart"}),
                probe("m#none", grpc={"port": health.port, "service": "none"}),
            )
        )
        requested.wait_state(pod, "m#all", "Succeeded")
        requested.wait_state(
            pod, "m#cart", "Failed", 'service unhealthy (responded with "NOT_SERVING")'
        )
        requested.wait_state(pod, "m#none", "Failed", "unknown service")
        health.answers[b"\x0a\x04cart"] = b"\x08\x01"
        requested.wait_state(pod, "m#cart", "Succeeded")
    finally:
        health.close()
    requested.wait_state(pod, "m#all", "Failed", "Connection refused")


def test_grpc_server_that_does_not_answer(
    node_agent, requested, node, folder, make_pod, tools, request
):
    pod = make_pod(container("main", tools), owner=False, hostNetwork=True)
    address = node.interface.address
    keys = folder / "health-keys"
    keys.mkdir()
    certificate, key = Authority(keys).issue("health", "/CN=health", address)
    tls = grpc.ssl_server_credentials([(key.read_bytes(), certificate.read_bytes())])
    slow, encrypted = Health(address), Health(address, tls)
    request.addfinalizer(slow.close)
    request.addfinalizer(encrypted.close)
    slow.delay_seconds = 1.5
    # A server of gRPC, but of nothing in it.
    other = grpc.server(futures.ThreadPoolExecutor(1))
    other_port = other.add_insecure_port(f"{address}:0")
    other.start()
    request.addfinalizer(lambda: other.stop(0).wait())
    requested.request(
        probes_of(
            pod,
            probe("m#late", grpc={"port": slow.port}),
            probe("m#slow", grpc={"port": slow.port}, timeoutSeconds=20),
            probe("m#tls", grpc={"port": encrypted.port}),
            probe("m#other", grpc={"port": other_port}),
        )
    )
    requested.wait_state(pod, "m#late", "Failed", "it did not finish within 1 s")
    requested.wait_state(pod, "m#slow", "Succeeded")
    requested.wait_state(pod, "m#tls", "Failed", "does not speak HTTP/2 without TLS")
    requested.wait_state(
        pod, "m#other", "Failed", "this server does not implement the grpc health protocol"
    )


def test_results_belong_to_one_container(node_agent, requested, make_pod, tools):
    # The first container answers; the second one waits until it may.
    command = shell(
        "[ ! -e /data/second ] || until [ -e /data/go ]; do sleep 0.1; done\n"
        ">/data/second; httpd -p 8080 -h /data\n"
        "trap exit TERM; while :; do sleep 3600 & wait; done"
    )
    pod = make_pod(container("main", tools, command=command), owner=False)
    requested.request(probes_of(pod, probe("m#up", tcpSocket={"port": 8080}, failureThreshold=600)))
    requested.wait_state(pod, "m#up", "Succeeded")
    stop(pod)
    # The new one has not been found good or bad.
    requested.wait_state(pod, "m#up", "Unknown")
    write(pod, "go")
    requested.wait_state(pod, "m#up", "Succeeded")


def test_container_that_does_not_run(node_agent, requested, make_pod, tools):
    pod = make_pod(
        container("main", tools),
        container("other", tools, command=until_term()),
        owner=False,
        restartPolicy="Never",
    )
    requested.request(
        probes_of(
            pod,
            probe("m#main", exec={"command": ["true"]}, periodSeconds=3600),
            probe("m#other", "other", exec={"command": ["true"]}),
        )
    )
    requested.wait_state(pod, "m#main", "Succeeded")
    stop(pod)
    requested.wait_state(pod, "m#main", "Failed", "Container(main) is Non-running")
    requested.wait_state(pod, "m#other", "Succeeded")
    # And no run of its command follows.
    version = requested.version()
    wait_runs(node_agent, 5)
    assert requested.version() == version


def test_thresholds_and_changes_while_it_runs(node_agent, requested, server_pod):
    pod = server_pod

    def ask(path: str, **more: int) -> None:
        handler = {"port": 8080, "path": path}
        requested.request(probes_of(pod, probe("m#http", httpGet=handler, **more)))

    write(pod, "a", "first")
    ask("/a", periodSeconds=3600)
    requested.wait_state(pod, "m#http", "Succeeded", "first")
    pod.file("a").unlink()
    # Another period and another threshold count at once, and what was found stays.
    ask("/a", periodSeconds=1, failureThreshold=1000000)
    wait_runs(node_agent, 3, result="failed")
    assert requested.state(pod, "m#http")["state"] == "Succeeded"
    ask("/a", periodSeconds=1, failureThreshold=3)
    requested.wait_state(pod, "m#http", "Failed")
    # The new handler does not inherit the former one's result.
    ask("/b", initialDelaySeconds=3600)
    requested.wait_state(pod, "m#http", "Unknown")
    write(pod, "b", "second")
    ask("/b")
    requested.wait_state(pod, "m#http", "Succeeded", "second")


def test_probe_that_is_taken_away_and_comes_back(node_agent, requested, server_pod):
    pod = server_pod
    one = probe("m#tcp", tcpSocket={"port": 8080})
    for _ in range(5):
        requested.request(probes_of(pod, one, probe("m#more", tcpSocket={"port": 8080})))
        requested.request(probes_of(pod, one))
        requested.request()
    requested.request(probes_of(pod, one))
    requested.wait_state(pod, "m#tcp", "Succeeded")
    wait_until(lambda: requested.state(pod, "m#more") is None, 10, "end of m#more")
    wait_runs(node_agent, 3)
    requested.request()
    wait_until(lambda: requested.state(pod, "m#tcp") is None, 10, "end of m#tcp")


def test_list_that_began_before_a_change(start_node_agent, requested, node, server_pod, folder):
    """It counts for the probes that stay: where others come and go all the time, no list would ever end."""
    pod, released = server_pod, threading.Event()
    one, more = probe("m#tcp", tcpSocket={"port": 8080}), probe("m#more", tcpSocket={"port": 8080})
    first_only = behaviours.in_turn(behaviours.when(released), behaviours.hang())

    def is_for_probes(call) -> bool:
        """Others list the containers of one pod."""
        return not call.request.HasField("filter")

    def list_for_probes(call, good):
        return first_only(call, good) if is_for_probes(call) else good()

    with RuntimeProxy(folder / "runtime", node.runtime.socket) as runtime:
        agent = start_node_agent(endpoint=runtime.endpoint)

        def ask(*probes) -> None:
            requested.request(probes_of(pod, *probes))
            known = [asked["name"] for asked in probes]
            wait_until(lambda: shown(agent) == known, 10, lambda: f"{known}: {shown(agent)}")

        runtime.on("ListContainers", list_for_probes)
        ask(more, one)
        wait_until(lambda: any(map(is_for_probes, runtime.calls("ListContainers"))), 10, "list")
        ask(one)
        ask(more, one)
        released.set()
        wait_runs(agent, 3)


def test_quiet_probes_write_nothing(node_agent, requested, server_pod):
    pod = server_pod
    probes = [probe(f"m#{i}", tcpSocket={"port": 8080}) for i in range(10)]
    requested.request(probes_of(pod, *probes))
    for i in range(10):
        requested.wait_state(pod, f"m#{i}", "Succeeded")
    version, before = requested.version(), writes(node_agent)
    n_events = len(pod.events("KruiseProbeSucceeded"))
    wait_runs(node_agent, 100)
    assert requested.version() == version
    assert writes(node_agent) == before
    assert len(pod.events("KruiseProbeSucceeded")) == n_events


def test_messages_that_always_change_are_written_seldom(node_agent, requested, server_pod):
    pod = server_pod
    command = shell("cat /proc/uptime")
    requested.request(probes_of(pod, probe("m#time", exec={"command": command})))
    requested.wait_state(pod, "m#time", "Succeeded")
    first = requested.state(pod, "m#time")["message"]
    before = writes(node_agent)
    wait_runs(node_agent, 6)
    assert writes(node_agent) - before <= 2
    wait_until(lambda: requested.state(pod, "m#time")["message"] != first, 20, "newer message")


def test_agent_that_is_restarted_believes_what_it_wrote(start_node_agent, requested, server_pod):
    pod = server_pod
    requested.request(probes_of(pod, probe("m#tcp", tcpSocket={"port": 8080})))
    agent = start_node_agent()
    requested.wait_state(pod, "m#tcp", "Succeeded")
    agent.terminate()
    version = requested.version()
    agent = start_node_agent()
    wait_runs(agent, 3)
    assert requested.version() == version
    assert len(pod.events("KruiseProbeSucceeded")) == 1


@pytest.mark.parametrize("is_chosen", [True, False], ids=["chosen", "other"])
def test_runtime_that_is_away(folder, start_node_agent, requested, node, server_pod, is_chosen):
    """No probe takes its container for gone then, also where another runtime is the chosen one."""
    pod = server_pod
    with FakeRuntime(folder / "other") as other:
        other.on("ListContainers", behaviours.answer(b""))
        start_node_agent([node.runtime.endpoint] if is_chosen else [other.endpoint, node.runtime.endpoint])
        requested.request(probes_of(pod, probe("m#tcp", tcpSocket={"port": 8080})))
        requested.wait_state(pod, "m#tcp", "Succeeded")
        node.runtime.process.kill9()
        requested.wait_state(pod, "m#tcp", "Unknown", "the container runtime does not answer")
        node.runtime.start()
        requested.wait_state(pod, "m#tcp", "Succeeded")


def test_object_that_is_made_again(node_agent, requested, server_pod):
    pod = server_pod
    requested.request(probes_of(pod, probe("m#tcp", tcpSocket={"port": 8080})))
    requested.wait_state(pod, "m#tcp", "Succeeded")
    requested.delete()
    requested.create()
    requested.request(probes_of(pod, probe("m#tcp", tcpSocket={"port": 8080})))
    requested.wait_state(pod, "m#tcp", "Succeeded")


# Attempts of others


def test_pod_that_is_gone_or_another_one(node_agent, requested, server_pod, make_pod, tools):
    pod, victim = server_pod, make_pod(container("main", tools), owner=False)
    own = probe("m#own", tcpSocket={"port": 8080})
    run = probe("m#run", exec={"command": ["touch", "/data/was-here"]})
    requested.request(
        probes_of(pod, own),
        probes_of(victim, run, uid=pod.uid),
        probes_of(victim, run, uid="00000000-0000-0000-0000-000000000000"),
        probes_of(victim, run, namespace="kube-system"),
        probes_of(victim, run, name=pod.name),
    )
    requested.wait_state(pod, "m#own", "Succeeded")
    wait_runs(node_agent, 5)
    assert not victim.file("was-here").exists()
    assert runs(node_agent, kind="exec") == 0


def test_reaches_no_other_address(node_agent, requested, node, server_pod):
    pod = server_pod
    target = HostileServer(node.interface.address, lambda connection: connection.close())
    try:
        at = {"host": node.interface.address, "port": target.port}
        requested.request(
            probes_of(
                pod,
                probe("m#http", httpGet=at),
                probe("m#tcp", tcpSocket=at),
                # The pod's own address is probed, whatever the object says.
                probe("m#address", tcpSocket={"port": target.port}),
                probe("m#own", tcpSocket={"port": 8080}),
                IP=node.interface.address,
            )
        )
        requested.wait_state(pod, "m#http", "Unknown", "a probe reaches its own pod alone")
        requested.wait_state(pod, "m#tcp", "Unknown", "a probe reaches its own pod alone")
        requested.wait_state(pod, "m#address", "Failed", "Connection refused")
        requested.wait_state(pod, "m#own", "Succeeded")
        wait_runs(node_agent, 5)
        assert target.n_accepted == 0
    finally:
        target.close()


def drip_headers(connection) -> None:
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.sendall(b"x: " + b"y" * 60000 + b"\r\n")


def flood(connection) -> None:
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
    while True:
        connection.sendall(b"z" * 65536)


def redirect(connection) -> None:
    address, port = connection.getsockname()
    connection.recv(4096)
    connection.sendall(
        f"HTTP/1.1 302 Found\r\nLocation: http://{address}:{port}/x\r\n"
        "Content-Length: 0\r\nConnection: close\r\n\r\n".encode()
    )


def send_junk(connection) -> None:
    connection.recv(4096)
    connection.sendall(b"\x00\xff\xfe junk\r\n\r\n" * 100)
    connection.close()


def say_nothing(connection) -> None:
    connection.recv(4096)
    connection.recv(4096)


@pytest.mark.parametrize(
    ("serve", "kind", "state", "message"),
    [
        (say_nothing, "httpGet", "Failed", "it did not finish within 1 s"),
        (say_nothing, "grpc", "Failed", "it did not finish within 1 s"),
        (flood, "httpGet", "Succeeded", "zzz"),
        (flood, "grpc", "Failed", ""),
        (redirect, "httpGet", "Failed", "redirects more than 10 times"),
        (drip_headers, "httpGet", "Failed", ""),
        (send_junk, "httpGet", "Failed", ""),
        (send_junk, "grpc", "Failed", ""),
        (lambda connection: connection.close(), "httpGet", "Failed", ""),
        (lambda connection: connection.close(), "grpc", "Failed", ""),
    ],
    ids=["silent", "silent-grpc", "1GB", "1GB-grpc", "redirects", "headers", "junk", "junk-grpc", "closes",
         "closes-grpc"],
)
def test_hostile_server(
    node_agent, requested, node, make_pod, tools, server_pod, serve, kind, state, message
):
    pod = make_pod(container("main", tools), owner=False, hostNetwork=True)
    target = HostileServer(node.interface.address, serve)
    try:
        requested.request(
            probes_of(pod, *(probe(f"m#{i}", **{kind: {"port": target.port}}) for i in range(5))),
            probes_of(server_pod, probe("m#good", tcpSocket={"port": 8080})),
        )
        for i in range(5):
            found = requested.wait_state(pod, f"m#{i}", state, message)
            assert len(found.get("message", "").encode()) <= 1024
        # Whom they do not concern goes on.
        requested.wait_state(server_pod, "m#good", "Succeeded")
        before = runs(node_agent, kind="tcpSocket")
        wait_until(
            lambda: runs(node_agent, kind="tcpSocket") >= before + 3, 10, "runs of the good probe"
        )
        assert node_agent.memory().rss < 80_000 * SLOWLY
    finally:
        target.close()


@pytest.mark.skipif(not memory_limit.is_possible(), reason="no control of memory on this machine")
@pytest.mark.parametrize(
    ("kind", "servers", "n_probes", "seconds"),
    [
        ("grpc", (hostile.endless_data,), 1, 1),
        ("grpc", hostile.HTTP2, 48, 1),
        ("grpc", (hostile.bomb,), 160, 30),
        ("httpGet", hostile.HTTP1, 160, 30),
    ],
    ids=["grpc-1", "grpc-48", "grpc-slow", "http-slow"],
)
def test_cost_of_hostile_servers(
    start_node_agent, requested, node, make_pod, tools, server_pod, kind, servers, n_probes, seconds
):
    """Hostile pods cost the agent neither its life, nor its time, nor its reports about other pods."""
    pod = make_pod(container("main", tools), owner=False, hostNetwork=True)
    health = Health(node.interface.address)
    agent = start_node_agent()
    with contextlib.ExitStack() as stack:
        stack.callback(health.close)
        if not sanitizers.NAME:  # which keep what was freed
            stack.enter_context(memory_limit.MemoryLimit(agent.process.pid, 128 << 20))
        ports = [
            stack.enter_context(HostileServer(node.interface.address, serve)).port
            for serve in servers
        ]
        honest = probes_of(
            server_pod,
            probe("m#good", tcpSocket={"port": 8080}),
            probe("m#page", httpGet={"port": 8080}, timeoutSeconds=10),
        )
        good = probe("m#health", grpc={"port": health.port}, timeoutSeconds=10)
        requested.request(honest, probes_of(pod, good))
        requested.wait_state(pod, "m#health", "Succeeded")
        before = agent.memory().anonymous
        bad = [
            probe(f"m#{i}", **{kind: {"port": ports[i % len(ports)]}}, timeoutSeconds=seconds)
            for i in range(n_probes)
        ]
        with Latency(agent, node.runtime.cri) as latency:
            requested.request(honest, probes_of(pod, *bad))
            runs_before = runs(agent, kind="tcpSocket")

            def has_gone_on() -> bool:
                agent.process.check_alive()
                return runs(agent, kind="tcpSocket") >= runs_before + 12

            wait_until(has_gone_on, 60 * SLOWLY, "runs of the good probe")
            # Results are written meanwhile.
            write(server_pod, "index.html", "changed")
            requested.wait_state(server_pod, "m#page", "Succeeded", "changed")
        if seconds == 1:
            for i in range(n_probes):
                requested.wait_state(pod, f"m#{i}", "Failed")
        if not sanitizers.NAME:
            assert latency.most_memory - before <= 8 * 1024, f"{before} kB before, {latency.most_memory} kB"
        latency.check()


def test_hanging_probes_leave_descriptors(
    control_plane, requested, node, folder, make_pod, tools, server_pod
):
    """More hostile probes than there are descriptors, each for a minute."""
    pod = make_pod(container("main", tools), owner=False, hostNetwork=True)
    agent = Agent(
        folder / "few-descriptors",
        node.runtime.endpoint,
        kubeconfig=control_plane.write_agent_kubeconfig(folder / "few.conf", node=node.name),
        node_name=node.name,
        flags=[f"--kubelet-health-address={node.health_address}"],
    )
    agent.argv[:0] = ["prlimit", "--nofile=64:64", "--"]
    with agent, HostileServer(node.interface.address, hostile.silent) as silent:
        hanging = (
            probe(f"m#{i}", **{kind: {"port": silent.port}}, timeoutSeconds=60)
            for i in range(250)
            for kind in ("httpGet", "grpc")
        )
        requested.request(
            probes_of(pod, *hanging), probes_of(server_pod, probe("m#good", tcpSocket={"port": 8080}))
        )
        wait_until(lambda: silent.n_accepted >= 4, 30, "probes that hang")
        requested.wait_state(server_pod, "m#good", "Succeeded")
        wait_runs(agent, 5, kind="tcpSocket")
        assert agent.ctl("status").returncode == 0
        assert agent.descriptors() < 64


def test_hostile_commands_and_ports(node_agent, requested, server_pod):
    pod = server_pod
    floods = [shell(f"yes ä | head -c {size}") for size in (1_000_000, 20_000_000)]
    requested.request(
        probes_of(
            pod,
            probe("m#flood", exec={"command": floods[0]}, timeoutSeconds=20),
            probe("m#sea", exec={"command": floods[1]}, timeoutSeconds=20),
            probe("m#slow", exec={"command": ["sleep", "1d"]}),
            # A runtime that is late would make it another problem.
            probe("m#none", exec={"command": ["/no/such/program"]}, timeoutSeconds=20),
            probe("m#0", tcpSocket={"port": 0}),
            probe("m#65536", tcpSocket={"port": 65536}),
            probe("m#name", httpGet={"port": "web"}),
            probe("m#empty"),
            probe("m#good", tcpSocket={"port": 8080}),
        )
    )
    requested.wait_state(pod, "m#good", "Succeeded")
    requested.wait_state(pod, "m#0", "Unknown", "0 is not a port")
    requested.wait_state(pod, "m#65536", "Unknown", "65536 is not a port")
    requested.wait_state(pod, "m#name", "Unknown", "no port called")
    requested.wait_state(pod, "m#empty", "Unknown", "none of exec, httpGet")
    requested.wait_state(
        pod, "m#slow", "Failed", 'command timed out: "sleep 1d" timed out after 1s'
    )
    message = requested.wait_state(pod, "m#flood", "Succeeded", "ä")["message"]
    assert len(message.encode()) in (1023, 1024)
    assert set(message) == {"ä", "\n"}
    # More than a runtime may answer is for containerd no answer at all.
    requested.wait_state(pod, "m#sea", "Unknown", "larger than max")
    requested.wait_state(pod, "m#none", "Unknown", "/no/such/program")
    wait_runs(node_agent, 5, kind="exec", result="unknown")
    said = [line["message"] for line in node_agent.logs() if "Cannot run probe" in line["message"]]
    assert sorted(line.split('"')[1] for line in said) == ["m#none", "m#sea"], said


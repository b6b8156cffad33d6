# SPDX-License-Identifier: Apache-2.0
"""Proves that what stands between the agent and an API server passes on what it is not set to
spoil, and spoils what it is set to: as a plain HTTPS client sees it.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from fake import api_faults
from fake.api_proxy import ApiProxy
from fake.api_server import FakeApiServer
from fake.tcp_proxy import TcpProxy
from lab.wait import wait_until

_NODE_IMAGES = "/apis/apps.kruise.io/v1beta1/nodeimages"
_STATUS = f"{_NODE_IMAGES}/lab/status"
_LIMIT = 10


@pytest.fixture
def server(folder) -> Iterator[FakeApiServer]:
    with FakeApiServer(folder / "server") as made:
        made.create("nodeimages", {"metadata": {"name": "lab"}, "spec": {}})
        yield made


@pytest.fixture
def proxy(folder, server) -> Iterator[ApiProxy]:
    with ApiProxy(folder / "proxy", server.url, server.authority) as made:
        yield made


@pytest.fixture
def line(server) -> Iterator[TcpProxy]:
    with TcpProxy(("127.0.0.1", int(server.url.rpartition(":")[2]))) as made:
        yield made


class Client:
    """A connection to the proxy, or to a TcpProxy in front of it."""

    def __init__(self, authority: Any, port: int) -> None:
        trust = ssl.create_default_context(cafile=str(authority))
        self.connection = http.client.HTTPSConnection(
            "127.0.0.1", port, timeout=_LIMIT, context=trust
        )

    def begin(
        self,
        method: str = "GET",
        path: str = f"{_NODE_IMAGES}/lab",
        body: Any = None,
        token: str = "lab-token",
    ) -> http.client.HTTPResponse:
        headers = {"Authorization": f"Bearer {token}"}
        text = None
        if body is not None:
            headers["Content-Type"] = "application/merge-patch+json"
            text = json.dumps(body)
        self.connection.request(method, path, text, headers)
        return self.connection.getresponse()

    def ask(self, *arguments: Any, **more: Any) -> tuple[int, Any]:
        reply = self.begin(*arguments, **more)
        return reply.status, json.loads(reply.read())

    def watch(self, query: str = "") -> http.client.HTTPResponse:
        return self.begin(path=f"{_NODE_IMAGES}?watch=1&allowWatchBookmarks=true{query}")


@pytest.fixture
def client(proxy) -> Iterator[Client]:
    made = Client(proxy.authority, proxy.port)
    with closing(made.connection):
        yield made


def next_event(watch: http.client.HTTPResponse) -> tuple[str, Any]:
    event = json.loads(watch.readline())
    return event["type"], event["object"]


def the_watch(proxy: ApiProxy):
    (watch,) = wait_until(lambda: proxy.watches(), _LIMIT, "watch")
    return watch


# Requests that pass


def test_passes_on(proxy, server, client):
    code, found = client.ask()
    assert (code, found["kind"], found["metadata"]["name"]) == (200, "NodeImage", "lab")
    code, found = client.ask("PATCH", _STATUS, {"status": {"desired": 1}})
    assert (code, found["status"]) == (200, {"desired": 1})
    assert client.ask(path=f"{_NODE_IMAGES}/other")[0] == 404
    assert client.ask(token="unknown")[0] == 401
    assert server.get("nodeimages", "lab")["status"] == {"desired": 1}
    assert proxy.accepted == proxy.open_connections == 1


def test_records(proxy, client):
    size = len(client.begin().read())
    client.ask("PATCH", _STATUS, {"status": {"desired": 1}})
    first, second = proxy.requests()
    assert (first.name, first.code, first.sent) == (f"GET {_NODE_IMAGES}/lab", 200, size)
    assert (first.bearer, first.body, first.content_type) == ("lab-token", b"", None)
    assert second.content_type == "application/merge-patch+json"
    assert second.json() == {"status": {"desired": 1}}
    assert first.began_at < first.ended_at < second.began_at
    assert proxy.requests("^PATCH .*/status$") == [second]
    assert "lab-token" not in repr(first)


def test_speaks_http1_alone(proxy):
    trust = ssl.create_default_context(cafile=str(proxy.authority))
    trust.set_alpn_protocols(["h2", "http/1.1"])
    with socket.create_connection(("127.0.0.1", proxy.port)) as plain:
        with trust.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
            assert connection.selected_alpn_protocol() == "http/1.1"


def test_does_not_lead_to_strangers(proxy, server, client):
    """A server is only as good as its certificate."""
    proxy.lead_to(server.url, proxy.authority)
    with pytest.raises(ConnectionError):
        client.begin()


def test_watch_passes_piece_by_piece(proxy, server, client):
    watch = client.watch()
    assert next_event(watch)[0] == "ADDED"
    for number in range(3):
        server.patch("nodeimages", "lab", {"status": {"desired": number}}, status=True)
        kind, found = next_event(watch)
        assert (kind, found["status"]["desired"]) == ("MODIFIED", number)
    server.bookmark()
    assert next_event(watch)[0] == "BOOKMARK"
    server.delete("nodeimages", "lab")
    assert next_event(watch)[0] == "DELETED"


def test_hang_up_reaches_the_server(proxy, server, line, client):
    """A client that leaves a watch leaves nothing behind."""
    proxy.lead_to(f"https://127.0.0.1:{line.port}", server.authority)
    watch = client.watch()
    next_event(watch)
    the_watch(proxy)
    assert line.open_connections == 1
    watch.close()
    client.connection.close()
    wait_until(lambda: not proxy.watches(), _LIMIT, "end of the watch")
    wait_until(lambda: proxy.open_connections == 0, _LIMIT, "end of the connection")
    wait_until(lambda: line.open_connections == 0, _LIMIT, "end of the one to the server")


# Answers that are no good


@pytest.mark.parametrize("code", [401, 403, 404, 409, 410, 429, 500, 503])
def test_refuses(proxy, server, client, code):
    before = server.get("nodeimages", "lab")
    proxy.on("^PATCH", api_faults.refuse(code, "no luck", retry_after=7), times=2)
    for _ in range(2):
        reply = client.begin("PATCH", _STATUS, {"status": {"desired": 1}})
        status = json.loads(reply.read())
        assert (reply.status, reply.headers["Retry-After"]) == (code, "7")
        assert (status["kind"], status["code"], status["message"]) == ("Status", code, "no luck")
        assert server.get("nodeimages", "lab") == before
    assert client.ask("PATCH", _STATUS, {"status": {"desired": 1}})[0] == 200
    assert proxy.accepted == 1


def test_behaves_again(proxy, client):
    proxy.on("", api_faults.refuse(500))
    assert [client.ask()[0] for _ in range(3)] == [500] * 3
    proxy.on("/lab$", api_faults.refuse(503), times=1)
    assert [client.ask()[0] for _ in range(2)] == [503, 500]
    proxy.behave()
    assert client.ask()[0] == 200


def test_takes_turns(proxy, client):
    proxy.on("", api_faults.in_turn(api_faults.refuse(500), api_faults.behave_well))
    assert [client.ask()[0] for _ in range(3)] == [500, 200, 200]


def test_refuses_tokens(proxy, server, client):
    server.tokens.add("new")
    proxy.on("", api_faults.refuse_tokens_but("new"))
    assert [client.ask()[0], client.ask(token="new")[0]] == [401, 200]


def test_answers_garbage(proxy, client):
    proxy.on("", api_faults.answer(200, b"\xff<html>", "text/html"))
    reply = client.begin()
    assert (reply.headers["Content-Type"], reply.read()) == ("text/html", b"\xff<html>")
    assert client.connection.sock is not None


def test_truncates(proxy, client):
    proxy.on("", api_faults.truncate(10))
    reply = client.begin()
    assert (reply.status, len(reply.read())) == (200, 10)


def test_relabels(proxy, client):
    proxy.on("", api_faults.relabel("application/yaml"))
    reply = client.begin()
    assert reply.headers.get_all("Content-Type") == ["application/yaml"]
    assert json.loads(reply.read())["kind"] == "NodeImage"


# Watches that are no good


def test_watch_says_what_a_test_sets(proxy, client):
    proxy.on("watch=", api_faults.say(api_faults.error_event(410)), times=1)
    watch = client.watch()
    kind, status = next_event(watch)
    assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
    assert watch.read() == b""
    assert next_event(client.watch())[0] == "ADDED"


def test_watch_ends_within_a_line(proxy, client):
    proxy.on("watch=", api_faults.half_line(20))
    watch = client.watch()
    assert len(watch.read()) == 20


def test_watch_has_a_huge_line(proxy, client):
    proxy.on("watch=", api_faults.huge_line(3 << 20))
    line = client.watch().readline()
    assert len(line) > 3 << 20
    assert json.loads(line)["type"] == "ADDED"


def test_watch_under_way_falls_silent(proxy, server, client):
    watch = client.watch()
    next_event(watch)
    the_watch(proxy).silence()
    server.patch("nodeimages", "lab", {"status": {"desired": 1}}, status=True)
    server.bookmark()
    client.connection.sock.settimeout(0.2)
    with pytest.raises(TimeoutError):
        watch.readline()
    assert proxy.open_connections == 1


def test_watch_under_way_lies(proxy, server, client):
    watch = client.watch()
    next_event(watch)
    stream = the_watch(proxy)
    stream.say(b'{"type":"LIE","object":1}\n')
    assert next_event(watch) == ("LIE", 1)
    stream.replace_next(api_faults.error_event(410))
    server.patch("nodeimages", "lab", {"status": {"desired": 1}}, status=True)
    assert next_event(watch)[0] == "ERROR"
    server.patch("nodeimages", "lab", {"status": {"desired": 2}}, status=True)
    assert next_event(watch)[1]["status"] == {"desired": 2}
    stream.end()
    assert watch.read() == b""
    assert client.ask()[0] == 200
    assert proxy.accepted == 1


def test_watch_under_way_is_cut(proxy, client):
    watch = client.watch()
    next_event(watch)
    the_watch(proxy).cut()
    with pytest.raises((ConnectionError, http.client.IncompleteRead)):
        watch.read()


# Connections that break


def test_loses_request(proxy, server, client):
    proxy.on("^PATCH", api_faults.lose_request)
    with pytest.raises(ConnectionError):
        client.begin("PATCH", _STATUS, {"status": {"desired": 1}})
    assert "status" not in server.get("nodeimages", "lab")


def test_loses_reply(proxy, server, client):
    proxy.on("^PATCH", api_faults.lose_reply)
    with pytest.raises(ConnectionError):
        client.begin("PATCH", _STATUS, {"status": {"desired": 1}})
    assert server.get("nodeimages", "lab")["status"] == {"desired": 1}


def test_cuts_head(proxy, client):
    proxy.on("", api_faults.cut_head)
    reply = client.begin()
    assert (reply.status, reply.headers.get("Content-Length")) == (200, None)
    assert reply.read() == b""
    assert proxy.requests()[0].code is None


@pytest.mark.parametrize("in_order", [False, True])
def test_cuts_body(proxy, client, in_order):
    proxy.on("", api_faults.cut_body(10, in_order))
    with pytest.raises((ConnectionError, http.client.IncompleteRead)):
        client.begin().read()
    wait_until(lambda: proxy.open_connections == 0, _LIMIT, "end of the connection")
    assert proxy.requests()[0].sent == 10


def test_vanishes_and_returns(proxy, client):
    watch = client.watch()
    next_event(watch)
    proxy.vanish()
    with pytest.raises((ConnectionError, http.client.IncompleteRead)):
        watch.read()
    client.connection.close()
    with pytest.raises(ConnectionRefusedError):
        client.begin()
    client.connection.close()
    proxy.listen()
    assert client.ask()[0] == 200


def test_server_goes_away(proxy, server, client):
    assert client.ask()[0] == 200
    server.close()
    with pytest.raises(ConnectionError):
        client.begin()


# Answers that are late, or never come


def test_delays(proxy, client):
    proxy.on("", api_faults.delay(0.2))
    began = time.monotonic()
    assert client.ask()[0] == 200
    assert 0.2 <= time.monotonic() - began < _LIMIT


def test_waits_for_the_test(proxy, client):
    released = threading.Event()
    proxy.on("", api_faults.when(released))
    timer = threading.Timer(0.1, released.set)
    timer.start()
    assert client.ask()[0] == 200
    assert released.is_set()


@pytest.mark.parametrize(
    ("behaviour", "done"), [(api_faults.hang, False), (api_faults.hang_reply, True)]
)
def test_hangs(proxy, server, client, behaviour, done):
    proxy.on("", behaviour)
    client.connection.connect()
    client.connection.sock.settimeout(0.3)
    with pytest.raises(TimeoutError):
        client.begin("PATCH", _STATUS, {"status": {"desired": 1}})
    wait_until(proxy.requests, _LIMIT, "request")
    wait_until(lambda: ("status" in server.get("nodeimages", "lab")) == done, _LIMIT, "write")
    client.connection.close()
    wait_until(lambda: proxy.requests()[0].ended_at, _LIMIT, "end of the request")


def test_hangs_in_the_body(proxy, client):
    proxy.on("", api_faults.hang_body(10))
    reply = client.begin()
    assert len(reply.read(10)) == 10
    client.connection.sock.settimeout(0.3)
    with pytest.raises(TimeoutError):
        reply.read()


# Faults of the fake server that clients of a good one must bear


def test_list_in_pages(server, client):
    for number in range(4):
        server.create("nodeimages", {"metadata": {"name": f"n{number}"}, "spec": {}})
    path, names = f"{_NODE_IMAGES}?limit=2", []
    while True:
        code, page = client.ask(path=path)
        assert (code, page["kind"]) == (200, "NodeImageList")
        names += [item["metadata"]["name"] for item in page["items"]]
        if "continue" not in page["metadata"]:
            break
        path = f"{_NODE_IMAGES}?limit=2&continue={page['metadata']['continue']}"
    assert names == ["lab", "n0", "n1", "n2", "n3"]
    server.expire_pages()
    assert client.ask(path=path)[0] == 410


def test_version_is_too_old(server, client):
    old = server.get("nodeimages", "lab")["metadata"]["resourceVersion"]
    server.patch("nodeimages", "lab", {"metadata": {"labels": {"a": "b"}}})
    watch = client.watch(f"&resourceVersion={old}")
    assert next_event(watch)[1]["metadata"]["labels"] == {"a": "b"}
    server.compact()
    server.bookmark()
    assert next_event(watch)[0] == "BOOKMARK"
    watch.close()
    client.connection.close()
    kind, status = next_event(client.watch(f"&resourceVersion={old}"))
    assert (kind, status["code"]) == ("ERROR", 410)


def test_streams_lists(server, client):
    query = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    watch = client.watch(query + "&timeoutSeconds=1")
    assert next_event(watch)[0] == "ADDED"
    kind, found = next_event(watch)
    assert kind == "BOOKMARK"
    assert found["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert watch.read() == b""
    server.streams_lists = False
    assert client.watch(query).status == 422


def test_selects(server, client):
    server.create("nodeimages", {"metadata": {"name": "other", "labels": {"a": "b"}}, "spec": {}})
    for query, names in [
        ("fieldSelector=metadata.name%3Dlab", ["lab"]),
        ("labelSelector=a%3Db", ["other"]),
        ("labelSelector=a%3Dc", []),
    ]:
        items = client.ask(path=f"{_NODE_IMAGES}?{query}")[1]["items"]
        assert [item["metadata"]["name"] for item in items] == names


def test_discovers(server, client):
    code, group = client.ask(path="/apis/apps.kruise.io")
    assert [each["version"] for each in group["versions"]] == ["v1beta1", "v1alpha1"]
    resources = client.ask(path="/apis/apps.kruise.io/v1beta1")[1]["resources"]
    assert [each["name"] for each in resources] == ["nodeimages", "nodeimages/status"]
    server.versions = ["v1alpha1"]
    assert client.ask(path="/apis/apps.kruise.io/v1beta1")[0] == 404
    assert client.ask()[0] == 404
    server.versions = []
    assert client.ask(path="/apis/apps.kruise.io")[0] == 404


def test_forbids(server, client):
    server.forbidden.add(("patch", "nodeimages"))
    code, status = client.ask("PATCH", _STATUS, {"status": {}})
    assert (code, status["reason"]) == (403, "Forbidden")
    assert "cannot patch resource" in status["message"]


def test_patches(server, client):
    """A status apart from the rest, versions that have to fit, and nothing done is no change."""
    lab = server.get("nodeimages", "lab")["metadata"]
    both = {"spec": {"images": {}}, "status": {"desired": 1}}
    assert "status" not in client.ask("PATCH", f"{_NODE_IMAGES}/lab", both)[1]
    found = client.ask("PATCH", _STATUS, {**both, "spec": None})[1]
    assert (found["spec"], found["status"]) == ({"images": {}}, {"desired": 1})
    again = client.ask("PATCH", _STATUS, {"status": {"desired": 1}})[1]
    assert again["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]
    stale = {"metadata": {"resourceVersion": lab["resourceVersion"]}, "status": {"desired": 2}}
    assert client.ask("PATCH", _STATUS, stale)[0] == 409
    steps = [{"op": "add", "path": "/spec/images", "value": {"a": {}}}]
    assert client.ask("PATCH", f"{_NODE_IMAGES}/lab", steps)[1]["spec"] == {"images": {"a": {}}}
    other = {"metadata": {"uid": "other"}, "status": {"desired": 2}}
    assert client.ask("PATCH", _STATUS, other)[0] == 409


def test_creates_and_deletes(server, client):
    events = "/api/v1/namespaces/default/events"
    code, made = client.ask("POST", events, {"metadata": {"generateName": "e."}, "reason": "R"})
    assert (code, made["kind"], made["metadata"]["namespace"]) == (201, "Event", "default")
    path = f"{events}/{made['metadata']['name']}"
    same = {"metadata": {"name": made["metadata"]["name"]}}
    assert client.ask("POST", events, same)[0] == 409
    assert client.ask("DELETE", path)[0] == 200
    assert client.ask(path=path)[0] == 404


# Connections as such


@pytest.fixture
def far_client(server, line) -> Iterator[Client]:
    made = Client(server.authority, line.port)
    with closing(made.connection):
        yield made


def test_line_carries(line, far_client):
    watch = far_client.watch()
    assert next_event(watch)[0] == "ADDED"
    assert line.open_connections == line.accepted == 1
    assert line.n_bytes > 1000
    watch.close()
    far_client.connection.close()
    wait_until(lambda: line.open_connections == 0, _LIMIT, "end of the connection")


def test_line_freezes(line, server, far_client):
    watch = far_client.watch()
    next_event(watch)
    line.freeze()
    server.patch("nodeimages", "lab", {"status": {"desired": 1}}, status=True)
    other = Client(server.authority, line.port)
    other.connection.timeout = 0.2
    with closing(other.connection), pytest.raises(TimeoutError):
        other.begin()
    line.thaw()
    assert next_event(watch)[1]["status"] == {"desired": 1}


def test_line_delays(line, far_client):
    far_client.ask()
    line.delay(0.1)
    began = time.monotonic()
    far_client.ask()
    assert 0.2 <= time.monotonic() - began < _LIMIT
    line.behave()
    assert far_client.ask()[0] == 200


def test_line_cuts(line, far_client):
    line.cut_after(3000)
    with pytest.raises((OSError, http.client.HTTPException)):
        for _ in range(100):
            far_client.ask()
    line.behave()
    far_client.connection.close()
    assert far_client.ask()[0] == 200


def test_line_drops_and_refuses(line, far_client):
    far_client.ask()
    line.drop()
    with pytest.raises((ConnectionError, ssl.SSLError)):
        far_client.ask()
    far_client.connection.close()
    line.refuse()
    with pytest.raises(ConnectionRefusedError):
        far_client.ask()
    far_client.connection.close()
    line.listen()
    assert far_client.ask()[0] == 200

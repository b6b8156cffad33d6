# SPDX-License-Identifier: Apache-2.0
"""Proves that whatever an API server and the way to it may do wrong costs the node nothing but
time: nothing is pulled twice, no status is a lie, there is a clear line about it, and it ends by
itself.

The server is a fake, behind a proxy that spoils what passes, but for a few tests at the end; so is
the runtime.
"""

from __future__ import annotations

import itertools
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator

import pytest

from fake import api_faults, behaviours
from fake.api_proxy import ApiProxy, Exchange, Request, Watch
from fake.api_server import FakeApiServer
from lab import sanitizers
from lab.agent import Agent
from lab.certificates import make_certificates
from lab.control_plane import ControlPlane
from lab.documents import node_image as document_for
from lab.documents import split_reference, write_whole
from lab.kube import Kube
from lab.kubeconfig import write_kubeconfig
from lab.node_image import NodeImage
from lab.trouble import assert_clear, complaints, problems, the_complaint
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS

_NODE = "lab"
_TOKEN = "lab-token"
_WATCHES = r"^GET \S*/nodeimages\?\S*watch="
_LISTS = r"^GET \S*/nodeimages\?(?!\S*watch=)"
_DISCOVERIES = r"^GET /apis/apps.kruise.io$"
_ANY_LIST = r"^GET \S*/nodeimages\?"
_STATUS_WRITES = r"^PATCH \S*/nodeimages/lab/status"
_REQUESTS = "inplaced_api_server_requests_total"

# What is hopeless without a person is tried again after up to 30 seconds.
_UNTIL_HOPE = 40


@pytest.fixture
def server(folder) -> Iterator[FakeApiServer]:
    with FakeApiServer(folder / "server") as made:
        made.create("nodes", {"metadata": {"name": _NODE}})
        yield made


@pytest.fixture
def proxy(folder, server) -> Iterator[ApiProxy]:
    with ApiProxy(folder / "proxy", server.url, server.authority) as made:
        yield made


@pytest.fixture
def wishes(server) -> Iterator[NodeImage]:
    """This node's NodeImage, through which a test is the controller; not through the proxy."""
    kube = Kube(server.url, server.authority, "lab-admin")
    made = NodeImage(kube, _NODE)
    made.create()
    yield made
    kube.close()


@pytest.fixture
def token_file(folder):
    path = folder / "token"
    write_whole(path, _TOKEN)
    return path


@pytest.fixture
def make_member(
    make_agent, folder, fake_runtime, proxy, wishes, token_file
) -> Callable[..., Agent]:
    """make_member(authority=…, flags=…): an agent that serves the cluster behind the proxy; not
    started.
    """

    def make(authority=None, flags=()) -> Agent:
        trusted = authority or proxy.authority
        path = write_kubeconfig(folder / "kubeconfig", proxy.url, trusted, token_file=token_file)
        return make_agent(fake_runtime.endpoint, kubeconfig=path, node_name=_NODE, flags=flags)

    return make


@pytest.fixture
def member(make_member, proxy, wishes) -> Agent:
    """One that watches already, and has said that nothing is wanted of it."""
    agent = make_member()
    agent.start()

    def watches() -> bool:
        agent.process.check_alive()
        return bool(proxy.watches("/nodeimages"))

    wait_until(watches, 10 * SLOWLY, "watch")
    wait_until(lambda: "desired" in wishes.status(), 10 * SLOWLY, "first status")
    wait_until(lambda: readiness(agent)[0] == 200, 10 * SLOWLY, lambda: f"{readiness(agent)}")
    return agent


class Hold:
    """Pulls of an image that last until they are released."""

    def __init__(self, runtime, reference: str) -> None:
        self.reference = reference
        self._runtime = runtime
        self._released = threading.Event()
        runtime.on("PullImage", behaviours.when(self._released), reference)

    def calls(self) -> list[behaviours.Call]:
        return self._runtime.calls("PullImage", self.reference)

    def wait_begun(self) -> behaviours.Call:
        return wait_until(self.calls, 10 * SLOWLY, f"pull of {self.reference}")[0]

    def release(self) -> None:
        self._released.set()


@pytest.fixture
def hold(fake_runtime) -> Iterator[Hold]:
    made = Hold(fake_runtime, "demo/held:1")
    yield made
    made.release()


def the_watch(proxy: ApiProxy) -> Watch:
    (watch,) = wait_until(lambda: proxy.watches("/nodeimages"), 10 * SLOWLY, "watch")
    return watch


def wait_requests(proxy: ApiProxy, pattern: str, n: int = 1, timeout: float = 10) -> list[Request]:
    return wait_until(
        lambda: found if len(found := proxy.requests(pattern)) >= n else None,
        timeout * SLOWLY,
        lambda: f"{n} of {pattern}, only {[request.name for request in proxy.requests()]}",
    )


def wait_problem(agent: Agent, subject: str, text: str = "", timeout: float = 10) -> str:
    """Waits until doctor says something with the text about the subject; returns that."""

    def find() -> str | None:
        found = problems(agent).get(subject)
        return found if found is not None and text in found else None

    found = wait_until(
        find, timeout * SLOWLY, lambda: f"{text!r} about the {subject} among {problems(agent)}"
    )
    assert found is not None
    return found


def wait_well(agent: Agent, timeout: float = 10) -> None:
    wait_until(
        lambda: problems(agent) == {} and readiness(agent)[0] == 200,
        timeout * SLOWLY,
        lambda: f"end of {problems(agent)}, {readiness(agent)}",
    )


def lasting_complaints(agent: Agent) -> list[str]:
    """Without those about what was under way just when a connection was cut, if anything was."""
    return [line for line in complaints(agent) if "was cut" not in line]


def assert_pulls_locally(agent: Agent, reference: str = "local/one:1") -> None:
    """Whoever is on the node is served whatever the cluster does."""
    done = agent.ctl("pull", reference, timeout=20 * SLOWLY)
    assert done.returncode == 0, done.stderr


def add(wishes: NodeImage, *references: str, policy: str = "IfNotPresent", **more: int) -> None:
    """To what is wanted already."""
    wishes.kube.patch(wishes.path, {"spec": document_for(references, policy, **more)["spec"]})


def readiness(agent: Agent) -> tuple[int, str]:
    """What /readyz says."""
    try:
        with urllib.request.urlopen(f"http://{agent.metrics_address}/readyz", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def phases(request: Request) -> dict[str, str]:
    """What a write of the status says, by image and tag."""
    statuses = request.json()["status"].get("imageStatuses") or {}
    return {
        f"{name}:{tag['tag']}": tag["phase"]
        for name, image in statuses.items()
        for tag in (image or {}).get("tags") or []
    }


# Watches

_BROKEN_WATCHES: dict[str, Callable[[Watch], object]] = {
    "cut": Watch.cut,
    "ended": Watch.end,
    "half-a-line": lambda watch: (watch.say(b'{"type":"MODIFIED","obj'), watch.end()),
    "half-a-line-cut": lambda watch: (watch.say(b'{"type":"MODIFIED","obj'), watch.cut()),
    "gone": lambda watch: (watch.say(api_faults.error_event(410)), watch.end()),
    "gone-and-open": lambda watch: watch.say(api_faults.error_event(410)),
    "error": lambda watch: (watch.say(api_faults.error_event(500, "as told")), watch.end()),
    "no-json": lambda watch: watch.say(b"this is no JSON\n"),
    "no-object": lambda watch: watch.say(b'{"type":"MODIFIED","object":17}\n'),
    "no-name": lambda watch: watch.say(b'{"type":"MODIFIED","object":{"metadata":{}}}\n'),
    "no-type": lambda watch: watch.say(b"[]\n"),
    "huge": lambda watch: watch.say(b'{"type":"' + b"x" * (16 << 20) + b'"}\n'),
}


@pytest.mark.parametrize("how", _BROKEN_WATCHES)
def test_watch_breaks(member, proxy, wishes, fake_runtime, how):
    """However a watch ends, a wish that came meanwhile is served, and what was done stays done."""
    add(wishes, "demo/early:1", policy="Always")
    wishes.wait_status("demo/early:1", "Succeeded")
    _BROKEN_WATCHES[how](the_watch(proxy))
    add(wishes, "demo/late:1")
    wishes.wait_status("demo/late:1", "Succeeded")
    wait_well(member)
    assert len(fake_runtime.calls("PullImage", "demo/early:1")) == 1
    assert len(fake_runtime.calls("PullImage", "demo/late:1")) == 1
    assert len(complaints(member)) <= 1
    for line in complaints(member):
        assert_clear(line)


def test_watch_breaks_again_and_again(member, proxy, wishes):
    """It is begun again each time, without haste and without a word too many."""
    for number in range(5):
        the_watch(proxy).cut()
        add(wishes, f"demo/image{number}:1")
        wishes.wait_status(f"demo/image{number}:1", "Succeeded", 20)
    assert len(complaints(member)) <= 5
    assert len(proxy.requests(_ANY_LIST)) <= 20


def test_watch_ends_at_once(member, proxy, wishes):
    """A server that ends every watch right away is not asked as fast as it can answer."""
    proxy.on(_WATCHES, api_faults.say(b""))
    the_watch(proxy).cut()
    before = len(wait_requests(proxy, _ANY_LIST, 4, 30))
    add(wishes, "demo/late:1")
    proxy.behave()
    wishes.wait_status("demo/late:1", "Succeeded", 30)
    assert len(proxy.requests(_ANY_LIST)) < before + 10


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_watch_falls_silent(member, proxy, wishes):
    """Without even a bookmark for so long, it must be dead, and is begun anew."""
    the_watch(proxy).silence()
    add(wishes, "demo/late:1")
    wishes.wait_status("demo/late:1", "Succeeded", 400)
    wait_well(member)


def test_lists_anew_in_mid_pull(member, proxy, wishes, hold):
    """What a new list does not change is known as well as before: no write is for any version."""
    add(wishes, hold.reference)
    hold.wait_begun()
    wishes.wait_status(hold.reference, "Pulling")
    n = len(proxy.requests(_ANY_LIST))
    _BROKEN_WATCHES["gone"](the_watch(proxy))
    wait_requests(proxy, _ANY_LIST, n + 1)
    hold.release()
    wishes.wait_status(hold.reference, "Succeeded")
    for request in proxy.requests(_STATUS_WRITES):
        assert request.json()["metadata"].get("resourceVersion"), request.body


@pytest.mark.parametrize("is_troubled", [False, True])
def test_store_is_restored(member, proxy, wishes, is_troubled):
    """What a new list shows is what is true, even if a higher version was known."""
    add(wishes, "demo/web:1")
    wishes.wait_status("demo/web:1", "Succeeded")
    old = wishes.get()
    old["metadata"]["resourceVersion"] = "5"
    del old["status"]
    end = {"resourceVersion": "6", "annotations": {"k8s.io/initial-events-end": "true"}}
    events = [
        {"type": "ADDED", "object": old},
        {"type": "BOOKMARK", "object": {"metadata": end}},
    ]
    listed = api_faults.say(b"".join(json.dumps(each).encode() + b"\n" for each in events), True)
    if is_troubled:
        proxy.on(_ANY_LIST, api_faults.in_turn(api_faults.refuse(500), listed))
        the_watch(proxy).cut()
    else:
        proxy.on(_ANY_LIST, listed)
        _BROKEN_WATCHES["gone"](the_watch(proxy))

    def writes() -> list[Request]:
        return [
            request
            for request in proxy.requests(_STATUS_WRITES)
            if request.json()["metadata"].get("resourceVersion") == "5"
        ]

    assert phases(wait_until(writes, 10 * SLOWLY, "write")[0]) == {"demo/web:1": "Succeeded"}


# Lists


@pytest.mark.parametrize("streams_lists", [True, False])
@pytest.mark.parametrize("code", [410, 429, 500, 503])
def test_list_is_refused(make_member, server, proxy, wishes, streams_lists, code):
    """A list is asked for until it is there."""
    server.streams_lists = streams_lists
    add(wishes, "demo/web:1")
    proxy.on(_ANY_LIST, api_faults.refuse(code), times=2)
    agent = make_member()
    agent.start()
    wishes.wait_status("demo/web:1", "Succeeded", 20)
    assert [request.code for request in proxy.requests(_ANY_LIST)[:2]] == [code] * 2
    wait_well(agent)


def test_streamed_lists_are_unknown(make_member, server, proxy, wishes):
    """An older server lists as it always did, and nobody has to hear of it."""
    server.streams_lists = False
    add(wishes, "demo/web:1")
    agent = make_member()
    agent.start()
    wishes.wait_status("demo/web:1", "Succeeded")
    assert proxy.requests(_LISTS)
    assert complaints(agent) == []


def test_page_token_expires(make_member, server, proxy, wishes):
    """The list begins anew, as if it had not been begun."""

    def promise_more(body: bytes) -> bytes:
        page = json.loads(body)
        page["metadata"]["continue"] = "stale"
        return json.dumps(page).encode()

    server.streams_lists = False
    add(wishes, "demo/web:1")
    proxy.on(_LISTS, api_faults.rewrite(promise_more), times=1)
    agent = make_member()
    agent.start()
    wishes.wait_status("demo/web:1", "Succeeded")
    first, second, third = wait_requests(proxy, _LISTS, 3)[:3]
    assert (second.code, "continue=stale" in second.path) == (410, True)
    assert "continue=" not in third.path
    assert first.code == third.code == 200


_SPOILT_LISTS = {
    "truncated": api_faults.truncate(60),
    "relabelled": api_faults.relabel("text/html"),
    "empty": api_faults.answer(200, b""),
    "html": api_faults.answer(200, b"<html>Welcome</html>", "text/html"),
    "no-list": api_faults.answer(200, b"[]"),
    "no-items": api_faults.answer(200, b'{"items":{}}'),
    "cut-in-head": api_faults.cut_head,
    "cut-in-body": api_faults.cut_body(60),
    "ended-in-body": api_faults.cut_body(60, in_order=True),
    "lost": api_faults.lose_reply,
}


@pytest.mark.parametrize("how", _SPOILT_LISTS)
def test_list_is_spoilt(make_member, server, proxy, wishes, how):
    """Half an answer is none: it is asked for again, and nothing is done by halves."""
    server.streams_lists = False
    add(wishes, "demo/web:1")
    proxy.on(_LISTS, _SPOILT_LISTS[how], times=1)
    agent = make_member()
    agent.start()
    wishes.wait_status("demo/web:1", "Succeeded", 20)
    wait_well(agent)
    for line in complaints(agent):
        assert_clear(line)


# Kinds that are not served


def test_kind_goes_with_the_object(make_member, server, proxy, wishes, hold):
    """An object that went unseen is gone all the same, and made again if that is our task."""
    add(wishes, hold.reference)
    uid = wishes.get()["metadata"]["uid"]
    agent = make_member(flags=["--register-node"])
    agent.start()
    call = hold.wait_begun()
    served, server.versions = server.versions, []
    the_watch(proxy).cut()
    wait_problem(agent, "API server", "no nodeimages")
    server.delete("nodeimages", _NODE)
    server.versions = served
    assert call.wait_over(30 * SLOWLY) and call.cancelled
    made = wait_until(wishes.find, 20 * SLOWLY, "NodeImage")
    assert made["metadata"]["uid"] != uid
    wait_well(agent)


def test_kind_is_served_in_name_only(member, proxy, wishes):
    """Discovery names it and its list is not there: nobody is asked as fast as he can answer."""
    proxy.on(_ANY_LIST, api_faults.refuse(404, "as told"))
    before = len(proxy.requests(_DISCOVERIES))
    the_watch(proxy).cut()
    wait_problem(member, "API server", "as told")
    asked = wait_requests(proxy, _DISCOVERIES, before + 4, 20)[before:]
    assert asked[3].began_at - asked[0].began_at >= (0.5 + 1 + 2) * 0.8
    assert len(complaints(member)) == 1
    proxy.behave()
    add(wishes, "demo/late:1")
    wishes.wait_status("demo/late:1", "Succeeded", 20)
    wait_well(member)


# Writes of the status


def test_spec_is_of_no_use_at_start(make_member, proxy, wishes, fake_runtime):
    """Who cannot read what is wanted has nothing to say about what became of it."""
    done = {"tag": "1", "phase": "Succeeded", "progress": 100, "imageID": "x@sha256:0a"}
    done |= {"startTime": "2026-01-02T03:04:05Z", "completionTime": "2026-01-02T03:04:05Z"}
    wishes.want("demo/done:1", policy="Always")
    statuses = {"demo/done": {"tags": [done]}}
    wishes.patch_status({"desired": 1, "succeeded": 1, "imageStatuses": statuses})
    good = wishes.get()["spec"]
    wishes.set_spec({"images": "demo/bad"})
    agent = make_member()
    agent.start()
    wait_problem(agent, "NodeImage", "spec.images")
    wait_until(lambda: readiness(agent)[0] == 200, 10 * SLOWLY, lambda: f"{readiness(agent)}")
    assert_pulls_locally(agent)
    assert proxy.requests(_STATUS_WRITES) == []
    wishes.set_spec(good)
    add(wishes, "demo/bad:1")
    wishes.wait_status("demo/bad:1", "Succeeded")
    assert wishes.tag_status("demo/done:1") == done
    assert fake_runtime.calls("PullImage", "demo/done:1") == []
    for request in proxy.requests(_STATUS_WRITES):
        assert "demo/done" not in request.json()["status"]["imageStatuses"]
    wait_well(agent)


def test_write_is_asked_to_wait(member, proxy, wishes, fake_runtime):
    """What the server says about when to come back is heeded."""
    proxy.on(_STATUS_WRITES, api_faults.refuse(429, retry_after=2), times=1)
    add(wishes, "demo/web:1")
    wishes.wait_status("demo/web:1", "Succeeded")
    _, refused, taken = wait_requests(proxy, _STATUS_WRITES, 3)[:3]
    wait_until(lambda: taken.code, 5 * SLOWLY, "answer")  # the object changes before it comes
    assert (refused.code, taken.code) == (429, 200)
    # The agent may have the answer before the proxy notes that it has ended.
    assert taken.began_at - refused.began_at >= 2
    assert len(fake_runtime.calls("PullImage", "demo/web:1")) == 1


@pytest.mark.parametrize("code", [500, 503])
def test_writes_are_refused_for_a_while(member, proxy, wishes, code):
    """Pulls go on; of their statuses the newest is written once the server takes it."""
    proxy.on(_STATUS_WRITES, api_faults.refuse(code, "as told"))
    add(wishes, "demo/one:1", "demo/two:1")
    wait_requests(proxy, _STATUS_WRITES, 3)
    wait_problem(member, "status of the NodeImage", "as told")
    assert_pulls_locally(member)
    add(wishes, "demo/three:1")
    names = [f"demo/{name}:1" for name in ("one", "two", "three")]
    newest = dict.fromkeys(names, "Succeeded")

    def last_try() -> dict[str, str]:
        return phases(proxy.requests(_STATUS_WRITES)[-1])

    # From then on none is on its way that says less.
    wait_until(lambda: last_try() == newest, 20 * SLOWLY, lambda: f"the newest, only {last_try()}")
    proxy.behave()
    for name in names:
        wishes.wait_status(name, "Succeeded", 20)
    wait_well(member)  # the object changes before the answer comes
    _, *taken = [request for request in proxy.requests(_STATUS_WRITES) if request.code == 200]
    assert [phases(request) for request in taken] == [newest]


def test_write_is_answered_after_the_watch_has_moved_on(member, proxy, wishes, fake_runtime):
    """The answer tells of a version that is older than what the watch has shown meanwhile."""
    released = threading.Event()
    proxy.on(_STATUS_WRITES, api_faults.answer_when(released), times=1)
    add(wishes, "demo/one:1")
    wait_until(lambda: wishes.tag_status("demo/one:1"), 5 * SLOWLY, "write")
    add(wishes, "demo/two:1")
    wait_until(lambda: fake_runtime.calls("PullImage", "demo/two:1"), 5 * SLOWLY, "second pull")
    released.set()
    wishes.wait_status("demo/two:1", "Succeeded", 5 * SLOWLY)


@pytest.mark.parametrize("behaviour", [api_faults.lose_request, api_faults.lose_reply])
def test_write_is_lost(member, proxy, wishes, behaviour):
    """Whether or not the server has done it: it is what counts in the end."""
    proxy.on(_STATUS_WRITES, behaviour, times=1)
    add(wishes, "demo/web:1")
    wishes.wait_status("demo/web:1", "Succeeded")
    assert wishes.get()["status"]["succeeded"] == 1
    wait_well(member)


def test_last_write_is_lost(member, proxy, wishes):
    """The server has done it, so it is not done again, and nothing is wrong any more."""

    async def lose_last(exchange: Exchange) -> None:
        is_last = "Succeeded" in phases(exchange.request).values()
        await (api_faults.lose_reply if is_last else api_faults.behave_well)(exchange)

    proxy.on(_STATUS_WRITES, lose_last)
    add(wishes, "demo/web:1")
    wishes.wait_status("demo/web:1", "Succeeded")
    the_complaint(member, "Cannot write the status")
    wait_well(member)
    # Not even a request that curl has repeated by itself was another one.
    assert len({each.body for each in proxy.requests(_STATUS_WRITES) if not each.code}) == 1


def test_write_is_refused_until_the_object_is_gone(member, proxy, wishes):
    """There is nothing left to write."""
    proxy.on(_STATUS_WRITES, api_faults.refuse(404, "as told"))
    add(wishes, "demo/web:1")
    wait_problem(member, "status of the NodeImage", "as told")
    wishes.delete()
    wait_well(member)


def test_conflicts_without_end(member, proxy, wishes):
    """That is said, and tried more and more rarely, until the object changes."""
    proxy.on(_STATUS_WRITES, api_faults.refuse(409, "as told"))
    n = len(proxy.requests(_STATUS_WRITES))
    add(wishes, "demo/web:1")
    wait_problem(member, "status of the NodeImage", "as told", 20)
    assert "as told" in the_complaint(member)
    tries = wait_requests(proxy, _STATUS_WRITES, n + 6, 30)[n:]
    assert tries[5].began_at - tries[4].began_at >= 4 * 0.8
    # A change that the agent sees before it has this answer does not end the conflict.
    wait_until(
        lambda: member.metrics().total(_REQUESTS, verb="patch", code="409") >= 6,
        5 * SLOWLY,
        "answer to the sixth",
    )
    proxy.behave()
    add(wishes, "demo/other:1")
    wishes.wait_status("demo/web:1", "Succeeded", 4 * SLOWLY)
    wishes.wait_status("demo/other:1", "Succeeded", 4 * SLOWLY)
    wait_well(member)


@pytest.mark.parametrize(
    "behaviour",
    [api_faults.truncate(30), api_faults.relabel("text/html"), api_faults.truncate(0)],
    ids=["truncated", "relabelled", "empty"],
)
def test_answer_to_a_write_is_spoilt(member, proxy, wishes, behaviour):
    """Of a write only the code counts; what it did is seen on the watch."""
    proxy.on(_STATUS_WRITES, behaviour, times=1)
    add(wishes, "demo/web:1")
    wishes.wait_status("demo/web:1", "Succeeded")
    wait_well(member)
    told = [phases(each) for each in proxy.requests(_STATUS_WRITES) if each.code == 200]
    assert all(one != other for one, other in itertools.pairwise(told)), "told twice"


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.parametrize("behaviour", [api_faults.hang, api_faults.hang_reply])
def test_write_hangs(member, proxy, wishes, behaviour):
    """It is given up after a while and tried again; meanwhile all else goes on."""
    proxy.on(_STATUS_WRITES, behaviour, times=1)
    add(wishes, "demo/web:1")
    wait_requests(proxy, _STATUS_WRITES, 2)
    assert_pulls_locally(member)
    wishes.wait_status("demo/web:1", "Succeeded", 60)
    wait_well(member)


@pytest.mark.parametrize("code", [404, 409, 422])
def test_write_is_refused_for_good(member, proxy, wishes, code):
    """What the server does not take is not sent without end."""
    proxy.on(_STATUS_WRITES, api_faults.refuse(code, "as told"), times=3)
    add(wishes, "demo/web:1")
    wishes.wait_status("demo/web:1", "Succeeded", 60)
    assert len(proxy.requests(_STATUS_WRITES)) <= 6


# Rights


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    ("verbs", "subject"),
    [(("patch",), "status of the NodeImage"), (("list", "watch"), "API server")],
    ids=["patch", "list"],
)
def test_right_is_missing(make_member, server, proxy, wishes, verbs, subject):
    """Which right is missing is said by doctor and /readyz; once it is given, all is well."""
    server.forbidden = {(verb, "nodeimages") for verb in verbs}
    add(wishes, "demo/web:1")
    agent = make_member()
    agent.start()
    assert "nodeimages" in wait_problem(agent, subject, "cannot")
    code, text = readiness(agent)
    assert code == 503 and "cannot" in text
    assert agent.ctl("doctor").returncode == 1
    assert "cannot" in the_complaint(agent, timeout=15)
    assert_pulls_locally(agent)
    server.forbidden = set()
    wishes.wait_status("demo/web:1", "Succeeded", _UNTIL_HOPE)
    wait_well(agent)


def test_rights_are_read_late(make_member, proxy, wishes):
    """A server that has just started refuses everybody for a moment: that is worth no word."""
    add(wishes, "demo/web:1")
    proxy.on(_ANY_LIST, api_faults.refuse(403), times=2)
    agent = make_member()
    agent.start()
    wishes.wait_status("demo/web:1", "Succeeded", 20)
    assert [request.code for request in proxy.requests(_ANY_LIST)[:2]] == [403] * 2
    wait_well(agent)
    assert complaints(agent) == []


def test_secret_may_not_be_read(member, server, wishes, fake_runtime):
    """An image is not pulled without the secret that it names, and the reason is in its status."""
    server.forbidden = {("get", "secrets")}
    server.create("secrets", {"metadata": {"name": "keys", "namespace": "team"}, "data": {}})
    entry = {"tag": "1", "imagePullPolicy": "Always", "pullPolicy": {"backoffLimit": 0}}
    secrets = [{"namespace": "team", "name": "keys"}]
    images = {"demo/web": {"tags": [entry], "pullSecrets": secrets}}
    wishes.kube.patch(wishes.path, {"spec": {"images": images}})
    status = wishes.wait_status("demo/web:1", "Failed", 30)
    assert "keys" in status["message"] and "cannot get" in status["message"]
    assert fake_runtime.calls("PullImage", "demo/web:1") == []


# Servers that are away


def test_server_is_away_at_start(make_member, proxy, wishes):
    """The agent is up and of use, says what is missing, and serves when the server appears."""
    proxy.vanish()
    add(wishes, "demo/web:1")
    agent = make_member()
    agent.start()
    wait_problem(agent, "API server", "cannot connect")
    code, text = readiness(agent)
    assert code == 503 and "cannot connect" in text
    assert_clear(the_complaint(agent))
    assert_pulls_locally(agent)
    proxy.listen()
    wishes.wait_status("demo/web:1", "Succeeded", 20)
    wait_well(agent)


def test_server_dies_in_mid_pull(member, proxy, server, wishes, hold, fake_runtime):
    """Its death and return cost neither a pull nor what came of it."""
    add(wishes, "demo/done:1", hold.reference, policy="Always")
    wishes.wait_status("demo/done:1", "Succeeded")
    hold.wait_begun()
    proxy.vanish()
    wait_problem(member, "API server")
    hold.release()
    assert_pulls_locally(member)
    add(wishes, "demo/late:1")
    server.compact()
    proxy.listen()
    for reference in (hold.reference, "demo/late:1"):
        wishes.wait_status(reference, "Succeeded", 20)
    wait_well(member)
    for reference in ("demo/done:1", hold.reference, "demo/late:1"):
        assert len(fake_runtime.calls("PullImage", reference)) == 1, reference
    assert len(lasting_complaints(member)) <= 1


def test_server_dies_again_and_again(member, proxy, wishes):
    """Each death is one line at most, and no descriptor."""
    before = member.descriptors()
    for number in range(5):
        proxy.vanish()
        wait_problem(member, "API server")
        proxy.listen()
        wait_well(member, 20)
        add(wishes, f"demo/image{number}:1")
        wishes.wait_status(f"demo/image{number}:1", "Succeeded", 20)
    assert len(lasting_complaints(member)) <= 5
    assert len(complaints(member)) <= 10
    wait_until(
        lambda: member.descriptors() <= before + 2,
        10 * SLOWLY,
        lambda: f"end of {member.descriptors() - before} descriptors",
    )
    wait_until(
        lambda: proxy.open_connections <= 5,
        10 * SLOWLY,
        lambda: f"end of old ones among {proxy.open_connections} connections",
    )


# Who trusts whom


def test_server_is_a_stranger(make_member, folder, proxy, wishes):
    """A server with another authority's certificate learns nothing, not even the token."""
    (folder / "strange").mkdir()
    agent = make_member(authority=make_certificates(folder / "strange").authority)
    agent.start()
    assert "certificate" in wait_problem(agent, "API server", "cannot be trusted")
    assert "cannot be trusted" in readiness(agent)[1]
    assert_clear(the_complaint(agent))
    assert_pulls_locally(agent)
    assert proxy.requests() == []


def test_token_rotates(member, proxy, server, wishes, token_file):
    """A new token in the file is used before anybody notices that the old one has expired."""
    server.tokens.add("newer")
    write_whole(token_file, "newer")
    server.tokens.discard(_TOKEN)
    the_watch(proxy).cut()
    add(wishes, "demo/web:1")
    wishes.wait_status("demo/web:1", "Succeeded")
    assert proxy.requests()[-1].bearer == "newer"
    assert len([request for request in proxy.requests() if request.code == 401]) <= 2


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_token_expires(member, proxy, server, wishes, token_file):
    """While the token is refused that is said; a new one is found without a restart."""
    server.tokens.discard(_TOKEN)
    server.tokens.add("newer")
    the_watch(proxy).cut()
    wait_problem(member, "API server", "Unauthorized", 20)
    assert _TOKEN not in member.log_text()
    assert_pulls_locally(member)
    write_whole(token_file, "newer")
    add(wishes, "demo/web:1")
    wishes.wait_status("demo/web:1", "Succeeded", _UNTIL_HOPE)
    wait_well(member)
    assert "newer" not in member.log_text()


# What others do to the object


def test_object_is_made_again(member, wishes, fake_runtime):
    """One with the same name is another one: what was done for the first is not claimed for it."""
    add(wishes, "demo/web:1", policy="Always")
    first = wishes.wait_status("demo/web:1", "Succeeded")
    wishes.delete()
    wishes.create("demo/web:1", policy="Always")
    second = wishes.wait_status("demo/web:1", "Succeeded")
    assert second["startTime"] >= first["completionTime"]
    assert len(fake_runtime.calls("PullImage", "demo/web:1")) == 2


def test_object_is_made_again_unseen(member, proxy, wishes, fake_runtime):
    """The same, if the watch did not live to see it."""
    add(wishes, "demo/web:1", policy="Always")
    wishes.wait_status("demo/web:1", "Succeeded")
    proxy.vanish()
    wishes.delete()
    wishes.create("demo/web:1", policy="Always")
    proxy.listen()
    wishes.wait_status("demo/web:1", "Succeeded", 20)
    assert len(fake_runtime.calls("PullImage", "demo/web:1")) == 2


def test_object_is_deleted_in_mid_pull(member, wishes, hold):
    """Nobody wants the image any more."""
    add(wishes, hold.reference)
    call = hold.wait_begun()
    wishes.delete()
    assert call.wait_over(10 * SLOWLY) and call.cancelled


def test_controller_fails_a_task(member, wishes, hold):
    """What a controller has given up is not pulled on, and its verdict is left as it is."""
    add(wishes, hold.reference, backoffLimit=0)
    call = hold.wait_begun()
    wishes.wait_status(hold.reference, "Pulling")
    name, tag = split_reference(hold.reference)
    verdict = {"tag": tag, "phase": "Failed", "message": "no answer for a long time"}
    verdict["completionTime"] = "2020-01-01T00:00:00Z"
    wishes.patch_status({"imageStatuses": {name: {"tags": [verdict]}}})
    assert call.wait_over(10 * SLOWLY) and call.cancelled
    add(wishes, "demo/other:1")
    wishes.wait_status("demo/other:1", "Succeeded")
    wait_until(wishes.events, 10 * SLOWLY, "event of the other image")
    assert wishes.tag_status(hold.reference)["message"] == "no answer for a long time"
    assert [event["reason"] for event in wishes.events()] == ["PullImageSucceed"]
    assert len(hold.calls()) == 1


@pytest.mark.parametrize("status", [None, 17, [], {"imageStatuses": []}, {"succeeded": "many"}])
def test_others_write_nonsense(member, proxy, wishes, status):
    """A status that cannot be read is written anew."""
    wishes.patch_status(status)
    add(wishes, "demo/web:1")

    def is_written() -> bool:
        return '"Succeeded"' in json.dumps(wishes.get().get("status"))

    wait_until(is_written, 10 * SLOWLY, lambda: f"status, only {wishes.get()}")
    assert wishes.tag_status("demo/web:1")["phase"] == "Succeeded"
    assert wishes.get()["status"]["succeeded"] == 1


# Events


@pytest.mark.parametrize(
    "behaviour",
    [api_faults.refuse(403, "as told"), api_faults.refuse(500), api_faults.hang],
    ids=["forbidden", "broken", "hangs"],
)
def test_events_are_not_taken(member, proxy, wishes, behaviour):
    """Nobody waits for events."""
    proxy.on(r"^(POST|PATCH) \S*/events", behaviour)
    for number in range(3):
        add(wishes, f"demo/image{number}:1")
        wishes.wait_status(f"demo/image{number}:1", "Succeeded")


# A real server


@pytest.fixture
def mortal(folder) -> Iterator[ControlPlane]:
    """A control plane that nobody else uses."""
    with ControlPlane(folder / "control-plane") as made:
        made.install()
        yield made


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("how", ["kill9", "freeze"])
def test_real_server_dies_in_mid_pull(start_agent, folder, mortal, fake_runtime, hold, how):
    """Killed, or stuck so that its connections stay: all is well once it is back."""
    wishes = NodeImage(mortal.admin, _NODE)
    wishes.create("demo/done:1", hold.reference, policy="Always")
    kubeconfig = mortal.write_agent_kubeconfig(folder / "agent.conf")
    agent = start_agent(fake_runtime.endpoint, kubeconfig=kubeconfig, node_name=_NODE)
    wishes.wait_status("demo/done:1", "Succeeded")
    hold.wait_begun()
    getattr(mortal.apiserver, how)()
    hold.release()
    assert_pulls_locally(agent)
    if how == "kill9":
        wait_problem(agent, "API server")
        mortal.apiserver.start()
    else:
        mortal.apiserver.thaw()
    add(wishes, "demo/late:1")
    for reference in (hold.reference, "demo/late:1"):
        wishes.wait_status(reference, "Succeeded", 60)
    wait_well(agent, 30)
    for reference in ("demo/done:1", hold.reference, "demo/late:1"):
        assert len(fake_runtime.calls("PullImage", reference)) == 1, reference


@pytest.mark.parametrize("how", ["cut", "gone"])
def test_watch_of_a_real_server_breaks(
    make_agent, folder, control_plane, fake_runtime, node_image, node_name, how
):
    """What the fake proves holds before a real one."""
    about = control_plane.authority.certificate
    with ApiProxy(folder / "proxy", control_plane.url, about) as proxy:
        token = control_plane.agent_token()
        path = write_kubeconfig(folder / "kubeconfig", proxy.url, proxy.authority, token=token)
        agent = make_agent(fake_runtime.endpoint, kubeconfig=path, node_name=node_name)
        agent.start()
        add(node_image, "demo/early:1", policy="Always")
        node_image.wait_status("demo/early:1", "Succeeded")
        _BROKEN_WATCHES[how](the_watch(proxy))
        add(node_image, "demo/late:1")
        node_image.wait_status("demo/late:1", "Succeeded")
        wait_well(agent)
        assert len(fake_runtime.calls("PullImage", "demo/early:1")) == 1

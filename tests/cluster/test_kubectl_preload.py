# SPDX-License-Identifier: Apache-2.0
"""Proves that `kubectl inplace preload` has the given nodes pull images, reports that truthfully, and neither
loses nor hides pulls that go on when it ends early.
"""

from __future__ import annotations

import itertools
import json
import re
import signal
import threading
import time
from contextlib import suppress
from datetime import datetime, timedelta

import pytest

from fake import api_faults
from lab import clock, sanitizers
from lab.kube import KubeError
from lab.hollow import PATH, HollowNodes
from lab.pod import container
from lab.terminal import screen
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS

pytestmark = pytest.mark.timeout(60 * SLOWLY)

_numbers = itertools.count(1)


@pytest.fixture
def hollow(control_plane):
    """hollow(n) as HollowNodes."""
    made = []

    def make(n: int) -> HollowNodes:
        nodes = HollowNodes(control_plane, f"hollow{next(_numbers)}", n)
        made.append(nodes)
        return nodes.__enter__()

    yield make
    for nodes in made:
        nodes.__exit__()


def rows(ran) -> dict[str, dict[str, str]]:
    """The table, by image."""
    heading, *lines = (line.split() for line in ran.stdout.splitlines() if "  " in line)
    return {line[0]: dict(zip(heading, line, strict=True)) for line in lines}


# On a real node


@pytest.mark.containers
def test_the_image_is_on_the_node(inplace, node, node_agent, registry, image_name):
    made = registry.push_image(image_name, "1", layers=[100_000])
    ran = inplace.run("preload", made.reference, "--nodes", node.name)
    assert ran.code == 0, ran.stderr
    row = rows(ran)[made.reference]
    assert (row["NODES"], row["DONE"], row["FAILED"], row["PROGRESS"]) == ("1", "1", "0", "100%")
    assert node.runtime.cri.image_status(made.reference) is not None

    # A second request of the same image finds it there.
    ran = inplace.run("preload", made.reference, "--nodes", node.name, "-o", "json")
    assert ran.code == 0, ran.stderr
    said = json.loads(ran.stdout)
    assert said["items"] == [{"name": node.name, "phase": "Succeeded"}]
    ran = inplace.run("preload", "--withdraw", made.reference, "--nodes", node.name)
    assert ran.code == 0, ran.stderr
    node.runtime.remove_image(made.image_id)


@pytest.mark.containers
def test_like_a_workload(inplace, node, node_agent, make_pod, tools, kube):
    """The nodes and pull secrets are those of the workload's pods, which its selector chooses."""
    secrets = [{"name": "registry-login"}]
    make_pod(container("main", tools), labels={"app": "liked"}, imagePullSecrets=secrets)
    template = {
        "metadata": {"labels": {"app": "liked"}},
        "spec": {"containers": [{"name": "main", "image": tools}]},
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "liked", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "liked"}}, "template": template},
    }
    kube.create(deployment)
    try:
        ran = inplace.run("preload", tools, "--like", "deployment/liked", "-o", "name")
        assert ran.code == 0, ran.stderr
        assert ran.stdout.split() == [f"nodeimage.apps.kruise.io/{node.name}"]
        entry = kube.get(f"{PATH}/{node.name}")["spec"]["images"][tools.rpartition(":")[0]]
        assert entry["pullSecrets"] == [{"namespace": "default", "name": "registry-login"}]
    finally:
        kube.delete(kube.path_of(deployment))
        assert inplace.run("preload", "--withdraw", tools, "--nodes", node.name).code == 0

    ran = inplace.run("preload", tools, "--like", "deployment/liked")
    assert ran.code == 1 and "liked" in ran.stderr


# On many


def test_so_many_at_a_time(inplace, hollow):
    nodes = hollow(12)
    nodes.outcome = lambda node, tag: (
        f"NotFound: no {tag}" if node.endswith(("3", "7")) else None
    )
    ran = inplace.run("preload", "r.io/app:2", "-l", nodes.selector, "--parallelism", "25%")
    assert ran.code == 3, ran.stderr
    assert rows(ran)["r.io/app:2"]["DONE"] == "10"
    assert (
        f"NotFound on 2 nodes ({nodes.prefix}-0003, {nodes.prefix}-0007): no 2" in ran.stdout
    )
    assert nodes.most_at_once <= 3
    assert sorted(nodes.requested) == nodes.names
    spec = nodes.get(nodes.names[0])["spec"]["images"]
    assert spec["other"]["tags"] == [{"tag": "1"}]
    (tag,) = spec["r.io/app"]["tags"]
    assert tag["imagePullPolicy"] == "IfNotPresent"
    assert tag["pullPolicy"]["ttlSecondsAfterFinished"] == 3600


def test_ends_after_failures(inplace, hollow):
    nodes = hollow(9)
    nodes.outcome = lambda node, tag: "Unauthorized: no password"
    flags = ("-l", nodes.selector, "--parallelism=2", "--max-failures=3", "--ttl=5m")
    ran = inplace.run("preload", "r.io/app:2", *flags, "-o", "json")
    assert ran.code == 3
    said = json.loads(ran.stdout)
    phases = [one["phase"] for one in said["items"]]
    assert 4 <= phases.count("Failed") <= 5
    assert phases.count("NotRequested") == 9 - phases.count("Failed")
    assert len(nodes.tags("r.io/app")) == phases.count("Failed")


def test_time_of_the_server(inplace, hollow):
    """A request says when it was made, whatever the clock of the person's machine says."""
    nodes = hollow(1)
    ran = inplace.run("preload", "r.io/app:2", "-l", nodes.selector, **clock.environment(clock.HOUR))
    assert ran.code == 0, ran.stderr
    node = nodes.get(nodes.names[0])
    (tag,) = node["spec"]["images"]["r.io/app"]["tags"]
    made = [datetime.fromisoformat(text) for text in (node["metadata"]["creationTimestamp"], tag["createdAt"])]
    assert made[1] - made[0] < timedelta(minutes=30)


def test_several_images(inplace, hollow):
    nodes = hollow(2)
    images = ("r.io/app:1", "r.io/app:2", "nginx")
    ran = inplace.run("preload", *images, "--nodes", ",".join(nodes.names))
    assert ran.code == 0, ran.stderr
    assert [row["DONE"] for row in rows(ran).values()] == ["2", "2", "2"]
    spec = nodes.get(nodes.names[0])["spec"]["images"]
    assert [tag["tag"] for tag in spec["r.io/app"]["tags"]] == ["1", "2"]
    assert [tag["tag"] for tag in spec["nginx"]["tags"]] == ["latest"]

    ran = inplace.run("preload", "--withdraw", *images[:2], "--nodes", nodes.names[0])
    assert ran.code == 0, ran.stderr
    assert set(nodes.get(nodes.names[0])["spec"]["images"]) == {"other", "nginx"}
    assert set(nodes.get(nodes.names[1])["spec"]["images"]) == {"other", "r.io/app", "nginx"}


def test_interrupted_followed_and_withdrawn(inplace, hollow):
    nodes = hollow(5)
    nodes.hold()
    flags = ("-l", nodes.selector)
    with inplace.running("preload", "r.io/app:2", *flags, "--parallelism=2") as child:
        wait_until(lambda: len(nodes.tags("r.io/app")) == 2, 20 * SLOWLY, "requests")
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=20 * SLOWLY)
    assert child.returncode == 128 + signal.SIGINT
    assert "2 nodes are still pulling" in errors and "3 nodes were not requested" in errors
    for way in ("--watch", "--withdraw"):
        assert f"  kubectl inplace preload r.io/app:2 {way} --selector {nodes.selector} -n default\n" in errors
    assert len(nodes.tags("r.io/app")) == 2

    with inplace.running("preload", "--watch", "r.io/app:2", *flags) as child:
        nodes.release()
        output, errors = child.communicate(timeout=20 * SLOWLY)
    assert child.returncode == 0, errors
    assert output.splitlines()[-1].split()[1:3] == ["2", "2"]

    assert inplace.run("preload", "--withdraw", "r.io/app:2", *flags).code == 0
    assert nodes.tags("r.io/app") == []
    assert len(nodes.tags("other")) == 5
    for way in ("--watch", "--withdraw"):
        ran = inplace.run("preload", way, "r.io/app:2", *flags)
        assert ran.code == 1 and "no node has such a request" in ran.stderr


def test_on_a_terminal(inplace, hollow):
    """The table is drawn again in place as nodes begin and end."""
    nodes = hollow(3)
    nodes.hold()
    terminal = inplace.on_terminal("preload", "r.io/app:2", "-l", nodes.selector, "--parallelism=2")
    try:
        running = re.compile(r"\x1b\[2A\x1b\[JIMAGE .*\r\n.*r\.io/app:2 +3 +0 +0 +2 ")
        wait_until(lambda: running.search(terminal.text), 20 * SLOWLY, lambda: f"table: {terminal.text!r}")
        nodes.release()
        assert terminal.wait_end(20 * SLOWLY) == 0, terminal.text
    finally:
        terminal.child.kill()
    heading, row, *rest = screen(terminal.text)
    shown = dict(zip(heading.split(), row.split(), strict=True))
    assert shown.pop("SINCE").endswith("s")
    assert shown == {
        "IMAGE": "r.io/app:2",
        "NODES": "3",
        "DONE": "3",
        "WAITING": "0",
        "RUNNING": "0",
        "FAILED": "0",
        "PROGRESS": "100%",
    }
    assert rest == [""]


def test_on_a_small_terminal(inplace, hollow):
    """A frame fits the screen, since a line that has left it could not be taken back; the end shows everything."""
    nodes = hollow(1)
    nodes.hold()
    images = [f"r.io/app:{n}" for n in range(20)]
    command = inplace.on_terminal("preload", *images, "--nodes", nodes.names[0], rows=10)
    try:
        waits = "waiting: the image is being pulled"
        wait_until(lambda: waits in command.text, 60 * SLOWLY, lambda: f"table: {command.text!r}")
        nodes.release()
        assert command.wait_end(20 * SLOWLY) == 0, command.text
    finally:
        command.child.kill()
    assert f"\r\n14 more\r\n{waits}" in command.text
    heading, *shown = screen(command.text)
    assert heading.startswith("IMAGE ") and [line.split()[0] for line in shown[:-1]] == images


def test_time_is_up(inplace, hollow):
    """Says what it was waiting for, also beside a document."""
    nodes = hollow(1)
    nodes.hold()
    ran = inplace.run("preload", "r.io/app:2", "--nodes", nodes.names[0], "--timeout", "8s", "-o", "json")
    assert ran.code == 124
    assert "r.io/app:2 --watch" in ran.stderr
    pulled = f"waiting: the image is being pulled on node {nodes.names[0]}"
    assert f": {pulled}\n" in ran.stderr and f": timed out {pulled}\n" in ran.stderr


def test_no_agent_answers(inplace, hollow):
    """An agent that does not answer is awaited briefly, takes no other node's turn, and may answer later."""
    nodes = hollow(3)
    nodes.mute = set(nodes.names[:2])
    flags = ("-l", nodes.selector, "--parallelism=1")
    ran = inplace.run("preload", "r.io/app:2", *flags, timeout=90 * SLOWLY)
    assert ran.code == 3, ran.stderr
    said, *lines = ran.stdout.splitlines()
    assert said == "preloading r.io/app:2 on 3 nodes"
    assert lines[0] == f"waiting: no agent has begun on node {nodes.names[0]}"
    row = rows(ran)["r.io/app:2"]
    assert (row["DONE"], row["WAITING"], row["RUNNING"], row["FAILED"]) == ("1", "0", "0", "2")
    assert lines[-1] == f"no agent answers on 2 nodes ({nodes.names[0]}, {nodes.names[1]})"
    for way in ("--watch", "--withdraw"):
        assert f"kubectl inplace preload r.io/app:2 {way}" in ran.stderr

    nodes.hold()
    terminal = inplace.on_terminal("preload", "r.io/app:3", "-l", nodes.selector)
    try:
        wait_until(
            lambda: re.search(r"r\.io/app:3 +3 +0 +0 +1 +2 ", terminal.text),
            60 * SLOWLY,
            lambda: f"two nodes that have failed: {terminal.text!r}",
        )
        assert re.search(r"r\.io/app:3 +3 +0 +2 +1 +0 ", terminal.text)
        assert f"waiting: no agent has begun on 2 nodes ({nodes.names[0]}, " in terminal.text
        assert f"waiting: the image is being pulled on node {nodes.names[2]}" in terminal.text
        nodes.mute = set()
        nodes.release()
        assert terminal.wait_end(20 * SLOWLY) == 0, terminal.text
    finally:
        terminal.child.kill()


def test_no_progress(inplace, hollow, folder):
    """A pull that stands still is given up after ten minutes, which pass in a moment here."""
    nodes = hollow(2)
    nodes.hold()
    jump = folder / "jump"
    environment = clock.environment(clock.jumps_when_there(jump))
    flags = ("-l", nodes.selector, "--parallelism=1")
    with inplace.start("preload", "r.io/app:2", *flags, **environment) as child:
        try:
            assert child.stdout.readline() == "preloading r.io/app:2 on 2 nodes\n"
            pulled = f"waiting: the image is being pulled on node {nodes.names[0]}\n"
            assert child.stdout.readline() == pulled
            jump.touch()
            output, errors = child.communicate(timeout=30 * SLOWLY)
        finally:
            child.kill()
    assert child.returncode == 3, errors
    assert f"NoProgress on node {nodes.names[0]}: nothing has changed for ten minutes" in output
    assert nodes.tags("r.io/app") == nodes.names[:1]
    assert "1 node was not requested to pull" in errors and "--watch" in errors


def test_no_answer_of_the_server(behind, hollow, folder):
    """The wait for the server has the same limit."""
    api, inplace = behind
    nodes = hollow(1)
    jump = folder / "jump"
    environment = clock.environment(clock.jumps_when_there(jump))
    api.on("GET .*/nodeimages", api_faults.refuse(503))
    with inplace.start("preload", "r.io/app:2", "--nodes", nodes.names[0], **environment) as child:
        try:
            assert child.stdout.readline() == "waiting: the API server does not answer\n"
            jump.touch()
            _, errors = child.communicate(timeout=30 * SLOWLY)
        finally:
            child.kill()
    assert child.returncode == 1, errors
    assert "the API server has not answered for ten minutes" in errors
    assert nodes.tags("r.io/app") == []


def test_nodes_without_an_agent(inplace, hollow):
    nodes = hollow(1)
    ran = inplace.run("preload", "r.io/app:2", "--nodes", f"{nodes.names[0]},no-such-node")
    assert ran.code == 3
    assert "NoNodeImage on node no-such-node" in ran.stdout
    assert rows(ran)["r.io/app:2"]["DONE"] == "1"
    assert inplace.run("preload", "r.io/app:2", "-l", "no=node").code == 1


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        (("--nodes=a", "-l", "b=c"), 2, "only one of"),
        (("--watch", "--withdraw"), 2, "only one of"),
        (("--parallelism=0",), 2, "at least 1"),
        (("--parallelism=many",), 2, "many"),
        (("--max-failures=101%",), 2, "101%"),
        (("-l", "pool gpu"), 1, "unable to parse requirement"),
        (("--nodes", "pool=gpu"), 1, "invalid field selector"),
        (("--watch", "-l", "pool gpu"), 1, "unable to parse requirement"),
    ],
)
def test_bad_flags(inplace, flags, code, said):
    ran = inplace.run("preload", "r.io/app:2", *flags)
    assert ran.code == code and said in ran.stderr


def test_a_bad_name(inplace, hollow):
    nodes = hollow(1)
    ran = inplace.run("preload", "No Image", "-l", nodes.selector)
    assert ran.code == 1 and "No Image" in ran.stderr


def test_a_dry_run(inplace, hollow):
    nodes = hollow(3)
    ran = inplace.run("preload", "r.io/app:2", "-l", nodes.selector, "--dry-run=server")
    assert ran.code == 0, ran.stderr
    assert nodes.tags("r.io/app") == []


def test_others_write_as_well(inplace, hollow, kube):
    """Each write is made from the present state of the object."""
    nodes = hollow(3)
    is_over = threading.Event()

    def write() -> None:
        for i in itertools.count():
            if is_over.is_set():
                return
            kube.patch(f"{PATH}/{nodes.names[i % 3]}", {"metadata": {"labels": {"n": str(i)}}})

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        images = [f"r.io/app{i}:1" for i in range(5)]
        ran = inplace.run("preload", *images, "-l", nodes.selector)
    finally:
        is_over.set()
        writer.join()
    assert ran.code == 0, ran.stderr
    for name in nodes.names:
        assert len(nodes.get(name)["spec"]["images"]) == 6


def test_a_right_is_missing(behind, hollow):
    api, inplace = behind
    nodes = hollow(2)
    api.on("^PATCH ", api_faults.refuse(403))
    ran = inplace.run("preload", "r.io/app:2", "-l", nodes.selector)
    assert ran.code == 3
    assert "patch nodeimages.apps.kruise.io" in ran.stdout


@pytest.mark.slow
def test_writes_are_refused_for_a_while(behind, hollow):
    """A node that has no request yet cannot answer it, and gets it later."""
    api, inplace = behind
    nodes = hollow(1)
    api.on("^PATCH ", api_faults.refuse(503))
    with inplace.running("preload", "r.io/app:2", "-l", nodes.selector) as child:
        began = time.monotonic()
        wait_until(lambda: api.requests("^PATCH ") and time.monotonic() - began > 12, 60 * SLOWLY, "the end of the time")
        api.behave()
        output, errors = child.communicate(timeout=60 * SLOWLY)
    assert child.returncode == 0 and len(nodes.tags("r.io/app")) == 1, output + errors


def test_the_server_goes_away_meanwhile(behind, hollow):
    api, inplace = behind
    nodes = hollow(6)
    nodes.hold()
    with inplace.running("preload", "r.io/app:2", "-l", nodes.selector, "--parallelism=3") as child:
        wait_until(lambda: len(nodes.tags("r.io/app")) == 3, 20 * SLOWLY, "requests")
        api.on("", api_faults.refuse(503))
        for watch in api.watches():
            watch.cut()
        nodes.release()
        wait_until(lambda: api.requests("GET .*nodeimages.*")[2:], 20 * SLOWLY, "new attempts")
        api.behave()
        _, errors = child.communicate(timeout=60 * SLOWLY)
    assert child.returncode == 0, errors
    assert len(nodes.tags("r.io/app")) == 6


@pytest.mark.slow
def test_a_thousand_nodes(behind, hollow):
    """Needs one list, one watch, and one patch of each node; and memory for the shown part of them alone.

    The one who plays the agents of all of them has to answer each in time.
    """
    api, inplace = behind
    nodes = hollow(1000)
    ran, peak = inplace.measure(
        "preload", "r.io/app:2", "-l", nodes.selector, "--parallelism=25", timeout=120 * SLOWLY
    )
    assert ran.code == 0, ran.stderr
    row = rows(ran)["r.io/app:2"]
    assert (row["NODES"], row["DONE"]) == ("1000", "1000")
    assert nodes.most_at_once <= 25
    patches = api.requests("^PATCH ")
    assert len({request.name for request in patches}) == 1000
    assert len(patches) <= 1100, "each node is written once, but for conflicts"
    others = [request.name for request in api.requests() if not request.name.startswith("PATCH")]
    assert len(others) <= 8, others
    if not sanitizers.NAME:
        assert peak < 64_000


# Where OpenKruise is

JOBS = "/apis/apps.kruise.io/v1beta1/namespaces/default/imagepulljobs"


@pytest.fixture
def jobs(kube):
    """A server that has ImagePullJobs; the test is their controller."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "imagepulljobs.apps.kruise.io"},
        "spec": {
            "group": "apps.kruise.io",
            "scope": "Namespaced",
            "names": {"kind": "ImagePullJob", "plural": "imagepulljobs", "singular": "imagepulljob"},
            "versions": [
                {
                    "name": "v1beta1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }

    def is_served() -> bool:
        served = kube.get("/apis/apps.kruise.io/v1beta1")["resources"]
        return any(one["name"] == "imagepulljobs" for one in served)

    def is_usable() -> bool:
        """The storage is made a moment later."""
        with suppress(KubeError):
            return is_served() and kube.list(JOBS) == []
        return False

    kube.create(definition)
    wait_until(is_usable, 30, "ImagePullJobs")
    yield lambda: kube.list(JOBS)
    kube.delete(kube.path_of(definition))
    wait_until(lambda: not is_served(), 30, "end of the ImagePullJobs")


def serve_job(nodes: HollowNodes, job: dict, names: list[str]) -> None:
    """Adds the requests as the controller does; a later job has joined it."""
    owner = {"kind": "ImagePullJob", "name": job["metadata"]["name"], "uid": job["metadata"]["uid"]}
    image, _, tag = job["spec"]["image"].rpartition(":")
    for name in names:
        entry = {"tags": [{"tag": tag, "version": 3, "ownerReferences": [owner, {**owner, "uid": "later"}]}]}
        nodes.kube.patch(f"{PATH}/{name}", {"spec": {"images": {image: entry}}})


def test_an_image_pull_job(inplace, hollow, jobs, kube):
    nodes = hollow(3)
    nodes.outcome = lambda node, tag: "NotFound: x" if node.endswith("2") else None
    flags = ("--nodes", ",".join(nodes.names), "--parallelism", "50%", "--ttl", "90s")
    with inplace.running("preload", "r.io/app:2", *flags) as child:
        (job,) = wait_until(jobs, 20 * SLOWLY, "job")
        spec = job["spec"]
        assert (spec["image"], spec["parallelism"]) == ("r.io/app:2", 2)
        assert spec["selector"] == {"names": nodes.names}
        assert spec["completionPolicy"] == {"type": "Always", "ttlSecondsAfterFinished": 90}
        assert nodes.tags("r.io/app") == []
        serve_job(nodes, job, nodes.names[1:])
        wait_until(lambda: len(nodes.requested) == 2, 20 * SLOWLY, "requests")
        done = {"status": {"completionTime": "2026-01-02T03:04:05Z"}}
        kube.patch(f"{JOBS}/{job['metadata']['name']}/status", done)
        output, errors = child.communicate(timeout=20 * SLOWLY)
    assert child.returncode == 3, errors
    assert f"NotFound on node {nodes.names[2]}" in output
    assert f"NotTaken on node {nodes.names[0]}" in output

    ran = inplace.run("preload", "--withdraw", "r.io/app:2")
    assert ran.code == 0 and job["metadata"]["name"] in ran.stdout
    assert jobs() == []


def test_a_dry_run_of_a_job(inplace, hollow, jobs):
    """Nothing is requested, and only a node without a NodeImage has failed."""
    nodes = hollow(2)
    ran = inplace.run("preload", "r.io/app:2", "-l", nodes.selector, "--dry-run=server")
    assert ran.code == 0, ran.stdout + ran.stderr
    ran = inplace.run("preload", "r.io/app:2", "--nodes", f"{nodes.names[0]},none", "--dry-run=server")
    assert ran.code == 3 and "NoNodeImage on node none" in ran.stdout, ran.stdout + ran.stderr
    assert jobs() == [] and nodes.tags("r.io/app") == []


def test_too_many_failures_of_a_job(inplace, hollow, jobs):
    nodes = hollow(3)
    nodes.outcome = lambda node, tag: "NotFound: x"
    flags = ("-l", nodes.selector, "--max-failures=0")
    with inplace.running("preload", "r.io/app:2", *flags) as child:
        (job,) = wait_until(jobs, 20 * SLOWLY, "job")
        serve_job(nodes, job, nodes.names[:1])
        child.communicate(timeout=20 * SLOWLY)
    assert child.returncode == 3
    assert jobs() == []

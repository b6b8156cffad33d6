# SPDX-License-Identifier: Apache-2.0
"""Proves the output of `kubectl inplace status`, for pods on a real node and for written objects."""

from __future__ import annotations

import json
import signal

import pytest
import yaml

from fake import api_faults
from lab.pod import VERIFIED, container, from_labels

_LABELS = {"kubectl": "status"}


@pytest.fixture
def make_hollow(kube):
    """make_hollow(name, image, message): makes a pod that nothing runs, with an agent's condition."""
    made = []

    def make(name: str, image: str, reason: str, message: str = "", **labels: str) -> str:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": {**_LABELS, **labels}},
            "spec": {"nodeName": "no-node", "containers": [{"name": "main", "image": image}]},
        }
        path = kube.path_of(pod)
        kube.create(pod)
        made.append(path)
        status = {
            "conditions": [
                {
                    "type": VERIFIED,
                    "status": "False",
                    "reason": reason,
                    "message": message,
                    "lastTransitionTime": "2020-01-01T00:00:00Z",
                }
            ],
            "containerStatuses": [
                {
                    "name": "main",
                    "image": "older",
                    "imageID": "registry.test/app@sha256:" + "0123456789abcdef" * 4,
                    "ready": True,
                    "restartCount": 3,
                    "state": {"running": {"startedAt": "2020-01-01T00:00:00Z"}},
                }
            ],
        }
        kube.patch(f"{path}/status", {"status": status}, "strategic")
        return path

    yield make
    for path in made:
        kube.delete(path, gracePeriodSeconds="0")


def rows(ran, code: int = 0) -> list[dict[str, str]]:
    """The lines of a table without blanks in its cells, by heading."""
    assert ran.code == code, ran.stderr
    heading, *lines = ran.stdout.splitlines()
    return [dict(zip(heading.split(), line.split())) for line in lines]


@pytest.mark.containers
def test_real_pod(inplace, node_agent, make_pod, tools):
    pod = make_pod(
        container("main", tools, env=from_labels(APP="kubectl")), labels={"kubectl": "real-pod"}
    )
    pod.wait_condition(VERIFIED, "True")
    (row,) = rows(inplace.run("status", f"pod/{pod.name}"))
    image_id = pod.status("main")["imageID"].rpartition("sha256:")[2]
    assert row["POD"] == pod.name
    assert row["IMAGE"] == tools.rpartition("/")[2]
    (wide,) = rows(inplace.run("status", f"pod/{pod.name}", "-o", "wide"))
    assert wide["IMAGE"] == tools
    assert row["RUNNING"] == image_id[:12]
    assert (row["VERDICT"], row["ENVIRONMENT"], row["RESTARTS"]) == ("Verified", "current", "0")


def test_stale_pod(inplace, make_hollow):
    make_hollow("stale", "registry.test/app:2", "ImageStale")
    (row,) = rows(inplace.run("status", "-l", "kubectl=status"))
    assert row["IMAGE"] == "app:2"
    assert row["RUNNING"] == "0123456789ab"
    assert (row["VERDICT"], row["RESTARTS"]) == ("ImageStale", "3")
    assert "ENVIRONMENT" not in row and "AGENT" not in row  # both states are unknown
    assert row["SINCE"].endswith("d")


def test_eighty_columns(inplace, kube):
    """On a terminal each pod is one line, in which all images can be seen."""
    name = "web-with-a-long-name-5d9c8b7f6-x7k2p"
    images = ["localhost:5000/team/shop/web:2", "localhost:5000/team/shop/side:3"]
    containers = [{"name": f"c{n}", "image": image} for n, image in enumerate(images)]
    status = {
        "conditions": [{"type": VERIFIED, "status": "True", "reason": "Verified", "message": "all is well"}],
        "containerStatuses": [
            {"name": one["name"], "image": one["image"], "imageID": f"x@sha256:{n:064}", "ready": True}
            | {"restartCount": 0, "state": {"running": {"startedAt": "2020-01-01T00:00:00Z"}}}
            for n, one in enumerate(containers)
        ],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}}
    path = kube.path_of(pod)
    kube.create(pod | {"spec": {"nodeName": "no-node", "containers": containers}})
    try:
        kube.patch(f"{path}/status", {"status": status}, "strategic")
        terminal = inplace.on_terminal("status", name, columns=80)
        assert terminal.wait_end(60) == 0
        wide = inplace.run("status", name, "-o", "wide")
    finally:
        kube.delete(path, gracePeriodSeconds="0")
    lines = terminal.text.replace("\r", "").splitlines()
    assert len(lines) == 2 and max(map(len, lines)) <= 80
    assert "web:2,side:3" in lines[1] and "Verified" in lines[1] and "-x7k2p" in lines[1]
    assert ",".join(images) in wide.stdout and "all is well" not in wide.stdout


@pytest.mark.parametrize(("name", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_documents(inplace, make_hollow, name, read):
    make_hollow("one", "app:1", "ImageStale", "container main runs another image")
    ran = inplace.run("status", "pod/one", "-o", name)
    assert ran.code == 0, ran.stderr
    (item,) = read(ran.stdout)["items"]
    assert item["verdict"] == "ImageStale"
    assert item["message"] == "container main runs another image"
    assert item["since"] == "2020-01-01T00:00:00Z"
    (main,) = item["containers"]
    assert (main["name"], main["image"], main["runningImage"]) == ("main", "app:1", "older")


def test_hostile_message(inplace, make_hollow):
    """Control characters that another writer puts into a status do not reach the terminal."""
    make_hollow("hostile", "app:1", "Stale\x1b[2J", "red \x1b[31m \u202e right to left")
    for flags in (["-o", "wide"], ["-o", "json"], ["-o", "yaml"], []):
        ran = inplace.run("status", "hostile", *flags)
        assert ran.code == 0
        assert "\x1b" not in ran.stdout
        assert "\u202e" not in ran.stdout


def test_workload(inplace, kube, make_hollow):
    """The pods of a workload are those that its selector chooses."""
    make_hollow("in", "app:1", "Verified", app="in-workload")
    make_hollow("out", "app:1", "Verified")
    template = {
        "metadata": {"labels": {"app": "in-workload"}},
        "spec": {"containers": [{"name": "main", "image": "app:1"}]},
    }
    workload = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "kubectl", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "in-workload"}}, "template": template},
    }
    kube.create(workload)
    try:
        for name in ("deployment/kubectl", "deploy/kubectl", "deployments/kubectl"):
            assert [row["POD"] for row in rows(inplace.run("status", name))] == ["in"]
    finally:
        kube.delete(kube.path_of(workload))


def test_missing_ones(inplace, make_hollow):
    """Existing pods are shown, and the command complains of missing ones."""
    make_hollow("there", "app:1", "Verified")
    ran = inplace.run("status", "there", "not-there", "deployment/not-there")
    assert [row["POD"] for row in rows(ran, code=3)] == ["there"]
    assert 'pods "not-there" not found' in ran.stderr
    assert 'deployments.apps "not-there" not found' in ran.stderr
    assert inplace.run("status", "not-there").code == 1
    none = inplace.run("status", "-l", "kubectl=nowhere")
    assert (none.code, none.stdout) == (0, "")
    assert "no pods found in namespace default" in none.stderr


def test_agents_that_cannot_be_read(behind, make_hollow):
    """As while a webhook that converts NodeImages is away: the pods are shown, and nothing is known of their agents."""
    api, inplace = behind
    make_hollow("there", "app:1", "Verified")
    api.on("GET .*/nodeimages", api_faults.refuse(500))
    ran = inplace.run("status", "there")
    assert [row["VERDICT"] for row in rows(ran)] == ["Verified"] and "AGENT" not in ran.stdout
    assert inplace.run("doctor").code == 1


def test_pod_that_may_only_be_listed(behind, make_hollow):
    """No right to get pods is needed, by whatever name."""
    api, inplace = behind
    make_hollow("there", "app:1", "Verified")
    api.on("GET .*/pods/there", api_faults.refuse(403))
    for name in ("there", "pod/there"):
        assert [row["VERDICT"] for row in rows(inplace.run("status", name))] == ["Verified"]


@pytest.mark.parametrize("arguments", [("-l", "app web"), ("app=web",)])
@pytest.mark.parametrize("way", [(), ("--watch",)])
def test_no_selector(inplace, arguments, way):
    """The server refuses it, and so a watch of it ends as well."""
    ran = inplace.run("status", *arguments, *way)
    assert (ran.code, ran.stdout) == (1, "") and ran.stderr.count("\n") == 1, ran


def test_watch(inplace, make_hollow, kube):
    """A change makes a further line; Ctrl-C ends the command as in a shell."""
    path = make_hollow("watched", "app:1", "Restarting")
    with inplace.start("status", "pod/watched", "--watch") as child:
        assert child.stdout.readline().split()[0] == "POD"
        assert "Restarting" in child.stdout.readline()
        condition = {"type": VERIFIED, "status": "True", "reason": "Verified"}
        kube.patch(f"{path}/status", {"status": {"conditions": [condition]}}, "strategic")
        assert "Verified" in child.stdout.readline()
        kube.delete(path, gracePeriodSeconds="0")
        while "Deleted" not in (line := child.stdout.readline()):
            assert line
        child.send_signal(signal.SIGINT)
        assert child.wait(30) == 128 + signal.SIGINT


def test_watched_documents(inplace, make_hollow, kube):
    """With -o yaml each change is a document of its own."""
    path = make_hollow("watched", "app:1", "Restarting")
    with inplace.start("status", "pod/watched", "--watch", "-o", "yaml") as child:
        lines = [next(line for line in child.stdout if line == "verdict: Restarting\n")]
        condition = {"type": VERIFIED, "status": "True", "reason": "Verified"}
        kube.patch(f"{path}/status", {"status": {"conditions": [condition]}}, "strategic")
        while lines[-1] != "verdict: Verified\n":
            lines.append(child.stdout.readline())
            assert lines[-1]
        child.send_signal(signal.SIGINT)
        child.wait(30)
    first, second = yaml.safe_load_all("".join(lines))
    assert (first["verdict"], second["verdict"]) == ("Restarting", "Verified")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("status", "-l", "a=b", "web"), "exclude each other"),
        (("status", "-A", "web"), "exclude each other"),
        (("status", "--max-unavailable=1"), "--max-unavailable is no flag of this command"),
        (("status", "--wacth"), "did you mean --watch?"),
        (("status", "-o", "xml"), "none of wide|json|yaml|name"),
        (("status", "--watch=maybe"), "none of true|false"),
        (("statsu",), 'did you mean "status"?'),
        (("set",), 'did you mean "set image"?'),
        (("set", "images", "web"), 'did you mean "set image"?'),
        (("status", "foo/bar"), "kind"),
        (("status", "job/once"), "status -l job-name=NAME"),
        (("rollout", "web"), "expected KIND/NAME"),
        (("set", "image", "cronjob/night", "a=b"), "kubectl set image"),
        (("set", "image", "deployment", "a=b"), "expected KIND/NAME"),
        (("rollout", "deployment", "web", "db"), 'superfluous argument "deployment/db"'),
    ],
)
def test_wrong_usage(inplace, arguments, words):
    ran = inplace.run(*arguments)
    assert ran.code == 2
    assert words in ran.stderr
    assert ran.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "Commands:\n"),
        (("--version",), "kubectl-inplace "),
        (("set", "--help"), "Usage: kubectl inplace set image "),
        (("help", "set"), "Usage: kubectl inplace set image "),
        (("rollout", "-h"), "Examples:\n  kubectl inplace rollout deployment/web\n"),
    ],
)
def test_help(inplace, arguments, words):
    """Help needs no cluster."""
    ran = inplace.run(*arguments, KUBECONFIG="/nowhere")
    assert (ran.code, ran.stderr) == (0, "")
    assert words in ran.stdout


def test_type_and_names(make_hollow, inplace):
    """Arguments are as kubectl's: the type once, and names after it."""
    for name in ("first", "second"):
        make_hollow(name, "app:1", "Verified")
    ran = inplace.run("status", "pod", "first", "second", "-o", "name")
    assert (ran.code, ran.stdout.split()) == (0, ["pod/first", "pod/second"])


def test_completion(inplace, kube, make_hollow):
    """Names of the cluster complete in a shell; without a server there are none, and no error."""
    make_hollow("web-0", "app:1", "Verified")
    make_hollow("web-1", "app:1", "Verified")
    containers = [{"name": name, "image": "app:1"} for name in ("app", "side")]
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}}
    workload = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "web-db", "namespace": "default"},
        "spec": {
            "replicas": 0,
            "serviceName": "web",
            "selector": {"matchLabels": {"app": "web"}},
            "template": template,
        },
    }
    kube.create(workload)

    def offered(*words: str, **environment: str) -> tuple[set[str], str]:
        ran = inplace.run("__complete", *words, **environment)
        assert (ran.code, ran.stderr) == (0, ""), ran
        *names, directive = ran.stdout.splitlines()
        return {name.split("\t")[0] for name in names}, directive

    try:
        assert "statefulset/web-db" in offered("set", "image", "")[0]
        assert offered("set", "image", "state") == ({"statefulset/web-db"}, ":4")
        assert offered("rollout", "sts/w") == ({"sts/web-db"}, ":4")
        assert offered("rollout", "sts", "w") == ({"web-db"}, ":4")
        assert offered("rollout", "sts/web-db", "") == (set(), ":4")
        assert offered("status", "pod/web-1", "web-") == ({"web-0", "web-1"}, ":4")
        assert offered("set", "image", "sts/web-db", "") == ({"app=", "side="}, ":6")
        assert offered("set", "image", "sts", "web-db", "s") == ({"side="}, ":6")
        assert offered("set", "image", "sts/web-db", "-n", "kube-system", "") == (set(), ":6")
        assert offered("restart", "sts/web-db", "--containers", "app,s") == ({"app,side"}, ":4")
        assert offered("status", "-n", "kube-sys") == ({"kube-system"}, ":4")
        assert offered("status", "--namespace=kube-sys") == ({"kube-system"}, ":4")
        assert offered("restart", "--dry-run=s") == ({"server"}, ":4")
        assert offered("status", "--kubeconfig", "") == (set(), ":0")
        assert offered("set", "image", "", KUBECONFIG="/nowhere") == (set(), ":4")
    finally:
        kube.delete(kube.path_of(workload))

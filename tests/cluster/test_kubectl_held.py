# SPDX-License-Identifier: Apache-2.0
"""Updates in place that wait: between two runs, for another person, or after their first pods."""

from __future__ import annotations

import json
import signal

import pytest

from rollouts import *  # noqa: F403
from lab.inplace import Inplace
from lab.kubelet import is_ready
from lab.pod import until_term
from lab.wait import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.containers, pytest.mark.timeout(300 * SLOWLY)]


@pytest.fixture
def bob(cluster, folder) -> Inplace:
    """Another person, with all rights."""
    certificate = cluster.control_plane.authority.issue("bob", "/O=system:masters/CN=bob")
    path = cluster.control_plane.write_kubeconfig(folder / "bob.conf", certificate=certificate)
    return Inplace(path, folder)


@pytest.mark.parametrize(
    ("way", "kind"), [("set-image", "deployment"), ("rollout", "daemonset"), ("undo", "statefulset"), ("undo", "deployment")]
)
def test_take_over(make, by_proxy, proxy, bob, images, kind, way):
    """The command refuses another person, and names who, since when, how far and the way: then goes on, or back."""
    workload = make(kind)
    arguments = {
        "set-image": ["set", "image", workload.name, f"main={images[1]}"],
        "rollout": ["rollout", workload.name],
        "undo": ["rollout", workload.name, "--undo"],
    }[way]
    with none_replaced(workload):
        interrupted(by_proxy, proxy, workload, images[1], 2)
        record = workload.record()
        ran = bob.run(*arguments)
        assert ran.code == 1 and 'by "lab-admin" since ' in ran.stderr, ran.stderr
        assert f"of {workload.n_pods} pods updated" in ran.stderr
        assert f"/{workload.app} --take-over -n default" in ran.stderr
        assert workload.record() == record
        assert_done(bob.run(*arguments, "--take-over"))
        workload.assert_runs(images[0 if way == "undo" else 1])
    assert workload.record()["by"] == "bob"


@pytest.mark.parametrize("fault", ["refused", "cut"])
def test_nameless(make, by_proxy, proxy, images, fault):
    """While the server does not say who asks, the command ends before its first write: a record names its user."""
    workload = make("deployment")
    update = ["set", "image", workload.name, f"main={images[1]}"]
    proxy.on("^POST .*/selfsubjectreviews", api_faults.refuse(500, "busy") if fault == "refused" else api_faults.lose_reply)
    ran = by_proxy.run(*update)
    assert ran.code == 1 and ran.stderr.count("\n") == 1, ran.stderr
    assert workload.record() is None
    proxy.behave()
    assert_done(by_proxy.run(*update))
    workload.assert_runs(images[1])


def test_nameless_for_a_moment(make, by_proxy, proxy, images):
    """A user whom the server names only at the second request has one name in all records."""
    workload = make("deployment", 1)
    proxy.on("^POST .*/selfsubjectreviews", api_faults.refuse(403), times=1)
    assert_done(by_proxy.run("set", "image", workload.name, f"main={images[1]}"))
    assert workload.record()["by"] == "lab-admin"


def test_taken_over_meanwhile(make, by_proxy, proxy, bob, images):
    """The run that began the update leaves it to the run that took over."""
    workload = make("deployment", 3)
    with none_replaced(workload):
        with in_the_middle(by_proxy, proxy, "set", "image", workload.name, f"main={images[1]}") as middle:
            assert_done(bob.run("rollout", workload.name, "--undo", "--take-over"))
            ran = middle.end()
        assert ran.code == 3 and '"bob" has taken the update over' in ran.stderr, ran.stderr
        assert f"  kubectl inplace status deployment.apps/{workload.app} " in ran.stderr
        workload.assert_runs(images[0])


@pytest.mark.parametrize("way", ["undo", "first"])
def test_turned_meanwhile(make, by_proxy, proxy, inplace, images, way):
    """A run whose update another run of the same user turns has not done what it was for, and says so."""
    workload = make("statefulset", 3)
    update = ["set", "image", workload.name, f"main={images[1]}"]
    with in_the_middle(by_proxy, proxy, *update, n=2) as middle:
        turned = ["rollout", workload.name, "--undo"] if way == "undo" else [*update, "--first=1"]
        assert_done(inplace.run(*turned))
        ran = middle.end()
    said = f"brings the pods to main={images[0]}" if way == "undo" else "lets the update wait after the first 1"
    assert ran.code == 3 and f'another run of "lab-admin" {said}' in ran.stderr, ran.stdout + ran.stderr


@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
def test_other_images_meanwhile(make, by_proxy, proxy, inplace, bob, images, kind):
    """An update leads out of a bad one: pods with the bad image, and those without, get the next images;
    --undo knows the first.
    """
    workload = make(kind)
    uids, strategy = workload.uids(), workload.strategy()
    update, undo = ["set", "image", workload.name], ["rollout", workload.name, "--undo"]
    with none_replaced(workload):
        ran = inplace.run(*update, f"main={images[3]}", timeout=90 * SLOWLY)
        assert ran.code == 3, ran.stderr
        record = workload.record()
        ran = bob.run(*update, f"main={images[1]}")
        assert ran.code == 1 and "--take-over" in ran.stderr
        ran = inplace.run(*update, f"man={images[1]}")
        assert ran.code == 1 and 'no container "man"' in ran.stderr
        assert_done(inplace.run(*update, f"main={images[1]}", "--dry-run=server"))
        assert workload.record() == record
        assert_done(inplace.run(*update, f"main={images[1]}"))
        workload.assert_runs(images[1])
        assert workload.record()["since"] == record["since"]
        assert_done(inplace.run(*undo))
        workload.assert_runs(images[0])

        # The same in the middle of a good update, by another person; and back to the images before.
        n_writes = 3 if kind in ("deployment", "replicaset") else 2
        interrupted(by_proxy, proxy, workload, images[1], n_writes)
        assert_done(bob.run(*update, f"main={images[2]}", "--take-over"))
        workload.assert_runs(images[2])
        assert workload.record()["before"] == {"main": images[0]}
        interrupted(by_proxy, proxy, workload, images[1], n_writes)
        ran = assert_done(inplace.run(*update, f"main={images[2]}"))
        assert "image update undone" in ran.stdout
        workload.assert_runs(images[2])
    assert workload.uids() == uids and workload.strategy() == strategy


@pytest.mark.parametrize("kind", ["deployment", "statefulset", "daemonset"])
def test_release(make, by_proxy, proxy, inplace, bob, images, kind):
    """The command hands the workload back as it is; no pod of a Deployment is replaced, in any state of its update."""
    workload = make(kind)
    strategy, before = workload.strategy(), workload.uids()
    for flag, words in ("--release", "inplace status "), ("--undo", "inplace set image "):
        ran = inplace.run("rollout", workload.name, flag)
        assert ran.code == 1 and f"\n  kubectl {words}" in ran.stderr, ran.stderr
    for n in range(1, workload.n_pods + 5):
        if kind == "deployment":
            forget_history(workload)
        interrupted(by_proxy, proxy, workload, images[1], n)
        assert bob.run("rollout", workload.name, "--release").code == 1 and rollout_is_open(workload)
        person, flags = (bob, ["--take-over"]) if n == 1 else (inplace, [])
        ran = assert_done(person.run("rollout", workload.name, "--release", *flags))
        assert f"/{workload.app} handed back: " in ran.stdout
        assert workload.strategy() == strategy and not rollout_is_open(workload)
        if kind != "deployment":
            break
        with none_replaced(workload):
            workload.cluster.kubectl("rollout", "status", workload.name, "--timeout=20s")
            assert_done(inplace.run("set", "image", workload.name, f"main={images[0]}"))
        workload.assert_runs(images[0])
    if kind == "deployment":
        assert workload.uids() == before
    else:
        workload.cluster.kubectl("rollout", "status", workload.name, "--timeout=90s")
        workload.assert_runs(image_of(workload.get()["spec"]["template"]))


def test_unreadable_record(make, inplace):
    """status and doctor name a workload whose record cannot be read, and offer no command that would be refused."""
    workload = make("deployment")
    text = f'the annotation inplaced.io/rollout of "{workload.app}" cannot be read'
    workload.patch({"metadata": {"annotations": {"inplaced.io/rollout": "{"}}, "spec": {"paused": True}})
    for arguments in [], [workload.name], ["-l", f"app={workload.app}"]:
        ran = assert_done(inplace.run("status", *arguments))
        assert ran.stdout.count(text) == 1 and "kubectl inplace rollout" not in ran.stderr
        (shown,) = json.loads(inplace.run("status", *arguments, "-o", "json").stdout)["rollouts"]
        assert (shown["name"], shown["state"]) == (workload.app, "unreadable")
    assert text not in inplace.run("status", "-l", "app=other").stdout
    doctor = inplace.run("doctor")
    assert doctor.code == 3 and f"problem: deployment.apps/{workload.app}: {text}" in doctor.stdout
    assert text in inplace.run("rollout", workload.name).stderr


def test_hold(make, inplace):
    """status and doctor show a workload that is held, and not one that has the annotation of a hold alone."""
    workload = make("deployment")
    text = f"deployment.apps/{workload.app}: it is held for an update in place that has not begun"
    label = ["-l", f"app={workload.app}"]
    workload.patch({"metadata": {"annotations": {"inplaced.io/held": "paused"}}})
    for arguments in ["status"], ["status", *label], ["doctor"]:
        assert text not in inplace.run(*arguments).stdout
    workload.patch({"spec": {"paused": True}})
    for arguments in ["status"], ["status", *label], ["doctor"]:
        assert text in inplace.run(*arguments).stdout
    assert text not in inplace.run("status", "-l", "app=other").stdout


def test_open_updates(make, by_proxy, proxy, inplace, images):
    """status and doctor show open updates: whose, since when, how far."""
    workload = make("deployment")
    interrupted(by_proxy, proxy, workload, images[1], 2)
    line = f'deployment.apps/{workload.app}: update to main={images[1]} by "lab-admin"'
    elsewhere = ["-A", "-n", "kube-system"]
    for arguments in [], [workload.name], ["-A"], elsewhere, ["-l", f"app in ({workload.app}, other)"]:
        ran = inplace.run("status", *arguments)
        assert line in ran.stdout and "has not ended: " in ran.stdout and " of 2 pods updated" in ran.stdout
        assert f"rollout deployment.apps/{workload.app} -n default" in ran.stderr
        assert ran.stdout.count("has not ended") == 1
        (shown,) = json.loads(inplace.run("status", *arguments, "-o", "json").stdout)["rollouts"]
        assert shown["name"] == workload.app
        assert shown["kind"] == "deployment.apps" and shown["held"]
        assert (shown["by"], shown["state"], shown["after"]) == ("lab-admin", "forward", {"main": images[1]})
        assert shown["pods"] == 2 and shown["updated"] in (0, 1)
    assert line not in inplace.run("status", "-l", "app=other").stdout
    for arguments in [], ["-l", f"app={workload.app}"]:
        with inplace.running("status", "-w", *arguments) as child:
            assert line in child.stdout.readline()
            assert child.stdout.readline().split()[0] == "POD"
            child.send_signal(signal.SIGINT)
            child.communicate(timeout=20 * SLOWLY)
    doctor = inplace.run("doctor")
    assert doctor.code == 3 and f"problem: deployment.apps/{workload.app}: " in doctor.stdout
    assert 'by "lab-admin"' in doctor.stdout and " of 2 pods updated" in doctor.stdout
    assert_done(inplace.run("rollout", workload.name, "--undo"))
    assert json.loads(inplace.run("status", workload.name, "-o", "json").stdout).get("rollouts", []) == []
    ran = assert_done(inplace.run("doctor"))  # without agents, which this cluster does not want
    assert f"deployment.apps/{workload.app}" not in ran.stdout and "updates, restarts and status work without" in ran.stdout


def test_watched_updates(make, inplace, images):
    """status -w prints an update that begins later, how it goes on, and its end."""
    workload = make("deployment")
    name = f"deployment.apps/{workload.app}: "
    with inplace.running("status", "-w", workload.name) as child:
        assert child.stdout.readline().split()[0] == "POD"
        assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}", "--first=1"))
        lines = iter(child.stdout.readline, "")
        line = next(line for line in lines if "1 of 2 pods updated; it waits after the first 1" in line)
        assert line.startswith(f"{name}update to main={images[1]} ")
        assert_done(inplace.run("rollout", workload.name))
        assert next(line for line in lines if line == f"{name}its update has ended\n")


@pytest.mark.parametrize(
    ("way", "kind"),
    [
        ("on", "statefulset"),
        ("undo", "daemonset"),
        ("first", "statefulset"),
        ("release", "daemonset"),
        ("other", "statefulset"),
        ("other", "daemonset"),
    ],
)
def test_changed_while_it_waits(cluster, make, by_proxy, proxy, inplace, images, kind, way):
    """A template that another client has changed while no run was under way is never overwritten, neither."""
    workload = make(kind)
    strategy = workload.strategy()
    if kind == "statefulset":
        assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}", "--first=1"))
    else:
        interrupted(by_proxy, proxy, workload, images[1], 1)
    now = images[0 if way in ("on", "first") else 2]
    if way == "first":
        cluster.kubectl("rollout", "undo", workload.name)
    else:
        cluster.kubectl("set", "image", workload.name, f"main={now}")
    version = workload.get()["metadata"]["resourceVersion"]
    arguments = {"on": [], "undo": ["--undo"], "first": ["--first=2"], "release": ["--release"]}.get(way)
    if arguments is None:
        command = ["set", "image", workload.name, f"main={images[0]}-none"]
        ran = inplace.run(*command, "--dry-run=server")
        assert ran.code == 1 and "another client has changed its template" in ran.stderr, ran.stderr
        ran = inplace.run(*command)
    else:
        ran = inplace.run("rollout", workload.name, *arguments)
    assert ran.code == 3 and "another client has changed its template" in ran.stderr, ran.stderr
    cluster.kubectl("rollout", "status", workload.name, "--timeout=90s")
    wait_until(lambda: len(workload.ready()) == workload.n_pods, 60 * SLOWLY, "pods")
    workload.assert_runs(now)
    assert workload.strategy() == strategy
    query = {"fieldSelector": f"metadata.name={workload.app}", "resourceVersion": version, "timeoutSeconds": "2"}
    for event in workload.kube.watch(workload.path.rpartition("/")[0], 60 * SLOWLY, **query):
        assert image_of(event["object"]["spec"]["template"]) == now


def test_reverted_after_the_template(cluster, make, by_proxy, proxy, inplace, images):
    """A Deployment gets the new template when a pod has proven it; the old images are another client's from then on."""
    workload = make("deployment")
    interrupted(by_proxy, proxy, workload, images[1], 2, rf"^PATCH .*/deployments/{workload.app}(\?|$)")
    assert image_of(workload.get()["spec"]["template"]) == images[1]
    cluster.kubectl("set", "image", workload.name, f"main={images[0]}")
    version = workload.get()["metadata"]["resourceVersion"]
    ran = inplace.run("rollout", workload.name)
    assert ran.code == 3 and "another client has changed its template" in ran.stderr, ran.stderr
    cluster.kubectl("rollout", "status", workload.name, "--timeout=90s")
    workload.assert_runs(images[0])
    query = {"fieldSelector": f"metadata.name={workload.app}", "resourceVersion": version, "timeoutSeconds": "2"}
    for event in workload.kube.watch(workload.path.rpartition("/")[0], 60 * SLOWLY, **query):
        assert image_of(event["object"]["spec"]["template"]) == images[0]


def test_abandoned_record_stays_dead(cluster, make, by_proxy, proxy, inplace, images):
    """kubectl rollout undo brings no record back that its ReplicaSet had a copy of while the update was open."""
    workload = make("deployment")
    (replica_set,) = workload.kube.list(
        "/apis/apps/v1/namespaces/default/replicasets", labelSelector=f"app={workload.app}"
    )
    interrupted(by_proxy, proxy, workload, images[1], 1)
    workload.kube.wait_for(
        f"/apis/apps/v1/namespaces/default/replicasets/{replica_set['metadata']['name']}",
        lambda one: '"forward"' in one["metadata"]["annotations"].get(RECORD, ""),
        30 * SLOWLY,
    )
    cluster.kubectl("set", "image", workload.name, f"main={images[2]}")
    ran = inplace.run("rollout", workload.name)
    assert ran.code == 3 and "another client has changed its template" in ran.stderr, ran.stderr
    cluster.kubectl("rollout", "status", workload.name, "--timeout=90s")
    cluster.kubectl("rollout", "undo", workload.name)
    cluster.kubectl("rollout", "status", workload.name, "--timeout=90s")
    wait_until(lambda: len(workload.ready()) == workload.n_pods, 60 * SLOWLY, "pods")
    workload.assert_runs(images[0])
    assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}"))
    workload.assert_runs(images[1])


def images_of(workload: Workload) -> list[str]:
    return sorted(image_of(pod) for pod in workload.ready())


@pytest.mark.parametrize("kind", ["deployment", "replicaset", "statefulset"])
def test_first(make, by_proxy, proxy, inplace, images, kind):
    """The other pods wait, new pods have the image before, and the limit outlives the program."""
    workload = make(kind, 3)
    strategy, update = workload.strategy(), ["set", "image", workload.name, f"main={images[1]}"]
    first, second = [*[images[0]] * 2, images[1]], [images[0], *[images[1]] * 2]
    for n in "0", "none", "-1", "50%":
        assert inplace.run(*update, "--first", n).code == 2
    with none_replaced(workload):
        ran = assert_done(inplace.run(*update, "--first=1"))
        assert f"/{workload.app} image updated in 1 of 3 pods; the others wait" in ran.stdout
        assert "  kubectl inplace rollout" in ran.stderr and "--undo" in ran.stderr
        assert images_of(workload) == first and rollout_is_open(workload)
    shown = inplace.run("status", workload.name)
    assert "has not ended: 1 of 3 pods updated; it waits after the first 1" in shown.stdout
    (item,) = json.loads(inplace.run("status", workload.name, "-o", "json").stdout)["rollouts"]
    assert (item["first"], item["updated"], item["pods"]) == (1, 1, 3)

    gone = next(pod["metadata"] for pod in workload.pods() if image_of(pod) == images[0])
    workload.kube.delete(f"{PODS}/{gone['name']}")
    wait_until(lambda: len(workload.ready()) == 3, 60 * SLOWLY, "pods")
    assert images_of(workload) == first and gone["uid"] not in workload.uids()
    with none_replaced(workload):
        reached = stop_after(proxy, 1)
        with by_proxy.start(*update, "--first=2") as child:
            wait_until(reached.is_set, 60 * SLOWLY, "the record")
            child.kill()
        proxy.behave()
        assert workload.record()["first"] == 2 and images_of(workload) == first
        assert_done(inplace.run(*update, "--first=2"))
        assert images_of(workload) == second
        assert_done(inplace.run(*update, "--first=1"))
        assert images_of(workload) == second and rollout_is_open(workload)
        assert_done(inplace.run("rollout", workload.name))
        workload.assert_runs(images[1])
        assert workload.strategy() == strategy and "first" not in workload.record()

        assert_done(inplace.run("set", "image", workload.name, f"main={images[2]}", "--first=2"))
        assert images_of(workload) == [images[1], *[images[2]] * 2]
        assert_done(inplace.run("rollout", workload.name, "--undo"))
        workload.assert_runs(images[1])
        assert_done(inplace.run("set", "image", workload.name, f"main={images[2]}", "--first=3"))
        workload.assert_runs(images[2])
    assert workload.strategy() == strategy


def test_first_is_scaled(cluster, make, inplace, images):
    """New pods have the image before; when no others are left the update ends at the next command."""
    workload = make("deployment", minReadySeconds=2)
    path = make_budget(cluster, workload, maxUnavailable=1)
    update = ["set", "image", workload.name, f"main={images[1]}", "--first=1"]
    with none_replaced(workload):
        assert_done(inplace.run(*update))
    cluster.kubectl("scale", workload.name, "--replicas=3")
    wait_until(lambda: len(workload.ready()) == 3, 60 * SLOWLY, "pods")
    assert images_of(workload) == [images[0], images[0], images[1]]
    cluster.kubectl("scale", workload.name, "--replicas=1")
    wait_until(lambda: len(workload.pods()) == 1, 60 * SLOWLY, "one pod")
    assert rollout_is_open(workload)
    workload.n_pods = 1
    assert_done(inplace.run("rollout", workload.name))
    workload.assert_runs(images[1])
    cluster.admin.delete(path)


@pytest.mark.parametrize("kind", ["deployment", "replicaset"])
def test_first_after_all(make, by_proxy, proxy, inplace, images, kind):
    """New pods have the image before although the update had no limit when it was interrupted."""
    workload = make(kind, 4)
    strategy, update = workload.strategy(), ["rollout", workload.name]
    interrupted(by_proxy, proxy, workload, images[1], 3)
    assert_done(inplace.run(*update, "--first=2"))
    expected = [*[images[0]] * 2, *[images[1]] * 2]
    assert images_of(workload) == expected
    old = next(pod["metadata"] for pod in workload.pods() if image_of(pod) == images[0])
    workload.kube.delete(f"{PODS}/{old['name']}")
    workload.patch({"spec": {"replicas": 5}})
    wait_until(lambda: len(workload.ready()) == 5, 60 * SLOWLY, "pods")
    assert images_of(workload) == [images[0], *expected] and old["uid"] not in workload.uids()
    workload.n_pods = 5
    with none_replaced(workload):
        assert_done(inplace.run(*update))
        workload.assert_runs(images[1])
    assert workload.strategy() == strategy


def test_first_of_the_ready(cluster, make, inplace, images):
    """Pods that are not ready come last, and none changes while they use up --max-unavailable."""
    probe = {"exec": {"command": ["/bin/sh", "-c", "! test -e /dev/shm/ill"]}, "periodSeconds": 1, "timeoutSeconds": 10}
    container = {"image": images[0], "command": until_term(), "readinessProbe": probe}
    workload = make("deployment", 4, pod={"containers": [{"name": "main", **container}]})
    ill = [pod["metadata"]["name"] for pod in workload.pods()][:2]
    for name in ill:
        cluster.kubectl("exec", name, "--", "touch", "/dev/shm/ill")
    wait_until(lambda: len(workload.ready()) == 2, 60 * SLOWLY, "two pods that are not ready")
    with none_replaced(workload):
        ran = inplace.run(
            "set", "image", workload.name, f"main={images[1]}", "--first=1", "--timeout=15s"
        )
        assert ran.code == 124 and "is available: --max-unavailable is 1" in ran.stderr, ran.stderr
        assert {image_of(pod) for pod in workload.pods()} == {images[0]}
        assert_done(inplace.run("rollout", workload.name, "--first=1", "--max-unavailable=3"))
    (changed,) = (pod for pod in workload.pods() if image_of(pod) == images[1])
    assert changed["metadata"]["name"] not in ill and is_ready(changed)


def test_first_and_release(make, inplace, images):
    """The others stay as they are: no delay is expected of them on the way back, and none of any at a release."""
    held = {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}
    workload = make("statefulset", 2, **held)
    update, delay = ["set", "image", workload.name], "the kubelet may start pod"
    for image in images[1], images[0]:
        assert_done(inplace.run(*update, f"main={image}"))
    assert_done(inplace.run(*update, f"main={images[1]}", "--first=1", timeout=120 * SLOWLY))
    back = assert_done(inplace.run("rollout", workload.name, "--undo", "--dry-run=server"))
    assert f"{delay} {workload.app}-1 up to" in back.stderr, back.stderr
    ran = assert_done(inplace.run("rollout", workload.name, "--release"))
    assert "handed back: 1 of 2 pods updated; the others stay as they are" in ran.stdout
    assert delay not in ran.stderr

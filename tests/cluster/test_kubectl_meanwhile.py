# SPDX-License-Identifier: Apache-2.0
"""Proves that an interrupted update in place goes on or back from anywhere, and that it does not undo others'
changes.
"""

from __future__ import annotations

import itertools
import json
import re
import shlex
import signal
import threading
from contextlib import suppress

import pytest
import yaml

from rollouts import *  # noqa: F403
from fake import api_faults
from fake.api_proxy import Exchange
from lab import clock
from lab.cluster import Cluster
from lab.documents import write_whole
from lab.kube import KubeError, Object
from lab.kubelet import is_ready
from lab.pod import until_term
from lab.wait import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.containers, pytest.mark.timeout(300 * SLOWLY)]


@pytest.mark.parametrize(
    ("way", "kind"), [("on", "deployment"), ("on", "statefulset"), ("back", "deployment"), ("back", "daemonset")]
)
def test_killed_after_each_write(make, inplace, by_proxy, proxy, images, kind, way):
    """The same command, or --undo, from elsewhere ends the update well: no pod is replaced."""
    workload = make(kind)
    uids, strategy = workload.uids(), workload.strategy()
    now, other = images[:2]
    with none_replaced(workload):
        for n in itertools.count(1):
            proxy.behave()
            reached = stop_after(proxy, n)
            child = by_proxy.start("set", "image", workload.name, f"main={other}")
            with child:
                wait_until(
                    lambda child=child, reached=reached: reached.is_set() or child.poll() is not None,
                    60 * SLOWLY,
                    "the write",
                )
                child.kill()
            if not reached.is_set():
                break
            if way == "on":
                assert_done(inplace.run("set", "image", workload.name, f"main={other}"))
                now, other = other, now
                if kind == "deployment":
                    forget_history(workload)
            else:
                assert_done(inplace.run("rollout", workload.name, "--undo"))
            workload.assert_runs(now)
            assert workload.uids() == uids and workload.strategy() == strategy
    # The writes: take over, update pods, hand back. A Deployment has further ones: its ReplicaSet; an older
    # ReplicaSet, which gets another template or is made after the Deployment's own; perhaps a copy of the
    # record.
    others = {"deployment": {6, 7} if way == "on" else {5, 6}}.get(kind, {3})
    assert n - workload.n_pods in others


@pytest.mark.parametrize(
    ("way", "kind"), [("undo", "deployment"), ("undo", "statefulset"), ("rollout", "statefulset"), ("reverse", "deployment")]
)
def test_interrupted_undo_of_ended_update(make, by_proxy, proxy, inplace, images, kind, way):
    """The undo goes on by the same command and by a plain one; only the images before it lead back."""
    workload = make(kind)
    undo = ["rollout", workload.name, "--undo"]
    with none_replaced(workload):
        assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}"))
        reached = stop_after(proxy, 3)
        with by_proxy.start(*undo) as child:
            wait_until(reached.is_set, 60 * SLOWLY, "the write")
            child.kill()
        proxy.behave()
        assert f": undo to main={images[0]} by" in inplace.run("status", workload.name).stdout
        (shown,) = json.loads(inplace.run("status", workload.name, "-o", "json").stdout)["rollouts"]
        assert (shown["state"], shown["before"]["main"], shown["after"]["main"]) == ("undo", *images[:2])
        arguments = {
            "undo": undo,
            "rollout": ["rollout", workload.name],
            "reverse": ["set", "image", workload.name, f"main={images[1]}"],
        }
        ran = assert_done(inplace.run(*arguments[way]))
        assert ran.stdout.endswith("image update undone\n")
        workload.assert_runs(images[1 if way == "reverse" else 0])


def test_signal(make, inplace, folder, images):
    """Ctrl-C leaves the update where it is; the offered commands are those to go on, back and out, ready to copy."""
    workload = make("statefulset")
    elsewhere = yaml.safe_load(inplace.kubeconfig.read_text())
    elsewhere["contexts"][0]["context"]["namespace"] = "kube-system"
    write_whole(folder / "config", yaml.safe_dump(elsewhere))
    flags = ["--kubeconfig", str(folder / "config"), "-n", "default"]
    with inplace.start("set", "image", workload.name, f"main={images[1]}", *flags) as child:
        assert "updating" in child.stdout.readline()
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=30 * SLOWLY)
    assert child.returncode == 130
    onward, back, out = (shlex.split(line) for line in errors.splitlines() if line.startswith("  "))
    assert onward[:2] == back[:2] == out[:2] == ["kubectl", "inplace"]
    assert onward[2] == "rollout" and "--undo" not in onward and "--release" not in onward
    assert "--undo" in back and "--release" in out
    assert_done(inplace.run(*onward[2:]))
    workload.assert_runs(images[1])


def test_signal_while_it_takes_over(make, inplace, by_proxy, proxy, images):
    """The server takes the write that begins the update, and does not say so: the ways out are offered all the same."""
    workload = make("deployment")
    reached, released = hold_write(proxy, 1, api_faults.answer_when)
    try:
        with by_proxy.running("set", "image", workload.name, f"main={images[1]}") as child:
            wait_until(reached.is_set, 60 * SLOWLY, "the write")
            child.send_signal(signal.SIGINT)
            _, errors = child.communicate(timeout=30 * SLOWLY)
    finally:
        released.set()
    assert child.returncode == 130
    assert "the API server has not said whether the update has begun" in errors
    offered = [shlex.split(line)[2:] for line in errors.splitlines() if line.startswith("  ")]
    assert [words[0] for words in offered] == ["status", "rollout", "rollout", "rollout"]
    assert ["--undo" in words for words in offered] == [False, False, True, False]
    wait_until(lambda: rollout_is_open(workload), 30 * SLOWLY, "the record")
    assert_done(inplace.run("rollout", workload.name, "--undo"))
    workload.assert_runs(images[0])


def test_signal_while_the_server_is_busy(make, by_proxy, proxy, images):
    """The command ends though the server takes its last write, which notes the interruption, only minutes later."""
    workload = make("deployment", 1)
    assert_done(by_proxy.run("set", "image", workload.name, f"main={images[1]}"))
    reached = threading.Event()

    async def hold(exchange: Exchange) -> None:
        reached.set()
        await exchange.wait_over()

    proxy.on(f"^PATCH .*/deployments/{workload.app}", api_faults.refuse(429, retry_after=60))
    proxy.on(f"^PATCH .*/deployments/{workload.app}.*dryRun", hold)
    n_before = len(proxy.requests(f"^PATCH .*/deployments/{workload.app}$"))
    with by_proxy.running("set", "image", workload.name, f"main={images[2]}") as child:
        wait_until(reached.is_set, 60 * SLOWLY, "the rehearsal")
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=30 * SLOWLY)
    assert child.returncode == 130
    assert len(proxy.requests(f"^PATCH .*/deployments/{workload.app}$")) == n_before + 1


def test_closed_pipe(make, inplace, images):
    """A reader that goes away, as `head` does, ends no update: that would leave the workload held without a word."""
    workload = make("deployment", 3)
    with none_replaced(workload), inplace.start("set", "image", workload.name, f"main={images[1]}") as child:
        assert "updating" in child.stdout.readline()
        child.stdout.close()
        errors = child.stderr.read()
        assert child.wait(60 * SLOWLY) == 1 and "cannot write the output" in errors
    workload.assert_runs(images[1])


@pytest.mark.parametrize("kind", ["deployment", "statefulset", "daemonset"])
def test_edited_meanwhile(cluster, make, by_proxy, proxy, inplace, images, kind):
    """Another client's template wins: the workload goes back to its controller, which brings the pods there."""
    workload = make(kind)
    strategy = workload.strategy()
    interrupted(by_proxy, proxy, workload, images[1], 2)
    workload.patch(set_template(images[2], env=[{"name": "A", "value": "b"}]))
    ran = inplace.run("rollout", workload.name)
    assert ran.code == 3
    assert "another client has changed its template in spec.containers[0].env" in ran.stderr
    assert workload.strategy() == strategy
    cluster.kubectl("rollout", "status", workload.name, "--timeout=90s")
    wait_until(lambda: len(workload.ready()) == workload.n_pods, 60 * SLOWLY, "pods")
    workload.assert_runs(images[2])


@pytest.mark.parametrize(("way", "kind"), [("set-image", "statefulset"), ("undo", "daemonset")])
def test_reverted_meanwhile(cluster, make, by_proxy, proxy, images, kind, way):
    """Another client puts the image before back: that is a change like any other, and is never overwritten."""
    workload = make(kind)
    strategy = workload.strategy()
    with in_the_middle(by_proxy, proxy, "set", "image", workload.name, f"main={images[1]}", n=2) as middle:
        if way == "undo":
            cluster.kubectl("rollout", "undo", workload.name)
        else:
            cluster.kubectl("set", "image", workload.name, f"main={images[0]}")
        version = workload.get()["metadata"]["resourceVersion"]
        ran = middle.end()
    assert ran.code == 3 and "another client has changed its template" in ran.stderr, ran.stderr
    cluster.kubectl("rollout", "status", workload.name, "--timeout=90s")
    wait_until(lambda: len(workload.ready()) == workload.n_pods, 60 * SLOWLY, "pods")
    workload.assert_runs(images[0])
    assert workload.strategy() == strategy
    query = {"fieldSelector": f"metadata.name={workload.app}", "resourceVersion": version, "timeoutSeconds": "2"}
    for event in workload.kube.watch(workload.path.rpartition("/")[0], 60 * SLOWLY, **query):
        assert image_of(event["object"]["spec"]["template"]) == images[0]


def test_resumed_meanwhile(cluster, make, by_proxy, proxy, inplace, images):
    """A user who resumes a Deployment gives it back to its controller."""
    workload = make("deployment")
    interrupted(by_proxy, proxy, workload, images[1], 1, "^PATCH .*/replicasets/")
    cluster.kubectl("rollout", "resume", workload.name)
    ran = inplace.run("rollout", workload.name)
    assert ran.code == 3 and "let its controller go on" in ran.stderr
    cluster.kubectl("rollout", "status", workload.name, "--timeout=90s")
    wait_until(lambda: len(workload.ready()) == workload.n_pods, 60 * SLOWLY, "pods")
    workload.assert_runs(images[0])


def test_resumed_and_paused_again(cluster, make, by_proxy, proxy, inplace, images):
    """Pods that its controller has replaced meanwhile would count as missing without end."""
    workload = make("deployment", 3, minReadySeconds=5)
    interrupted(by_proxy, proxy, workload, images[1], 1, "^PATCH .*/replicasets/")
    cluster.kubectl("rollout", "resume", workload.name)
    wait_until(lambda: len({pod["metadata"]["labels"]["pod-template-hash"] for pod in workload.pods()}) == 2, 60 * SLOWLY, "a pod")
    cluster.kubectl("rollout", "pause", workload.name)
    ran = inplace.run("rollout", workload.name, "--timeout=60s")
    assert ran.code == 3 and "to let it go on: kubectl rollout resume" in ran.stderr, ran.stderr
    assert not rollout_is_open(workload)
    cluster.kubectl("rollout", "resume", workload.name)
    cluster.kubectl("rollout", "status", workload.name, "--timeout=90s")
    workload.assert_runs(images[0])


def test_scaled_to_zero_meanwhile(cluster, make, by_proxy, proxy, inplace, images):
    """Pods that come back from another ReplicaSet while no program runs end the update, which gives the Deployment back."""
    workload = make("deployment")
    cluster.kubectl("set", "image", workload.name, f"main={images[1]}")
    cluster.kubectl("rollout", "status", workload.name, "--timeout=90s")
    wait_until(lambda: len(workload.pods()) == 2, 60 * SLOWLY, "end of the pods before")
    interrupted(by_proxy, proxy, workload, images[0], 2, "^PATCH .*/replicasets/")
    for n in (0, 2):
        cluster.kubectl("scale", workload.name, f"--replicas={n}")
        wait_until(lambda n=n: len(workload.pods()) == len(workload.ready()) == n, 60 * SLOWLY, f"{n} pods")
    with none_replaced(workload):
        ran = inplace.run("rollout", workload.name, "--timeout=60s")
        assert ran.code == 3 and "scaled it to 0 and up again" in ran.stderr, ran.stderr
        cluster.kubectl("rollout", "status", workload.name, "--timeout=90s")
    workload.assert_runs(images[1])
    assert not workload.get()["spec"].get("paused", False)


def test_resumed_with_the_images_before(cluster, make, inplace, images):
    """The images of an update that follows the template are no longer there: the next run ends it, and another can begin."""
    workload = make("deployment", 3)
    with none_replaced(workload):
        cluster.kubectl("rollout", "pause", workload.name)
        cluster.kubectl("set", "image", workload.name, f"main={images[1]}")
        assert_done(inplace.run("rollout", workload.name, "--first=1"))
        cluster.kubectl("set", "image", workload.name, f"main={images[0]}")
        cluster.kubectl("rollout", "resume", workload.name)
        wait_observed(workload)
        ran = inplace.run("rollout", workload.name, "--timeout=60s")
        assert ran.code == 3 and "resumed it with other images" in ran.stderr, ran.stderr
        assert not rollout_is_open(workload)
        assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}"))
        workload.assert_runs(images[1])


@pytest.fixture
def manager(cluster):
    """kube-controller-manager, which may be frozen."""
    yield cluster.control_plane.controllers
    cluster.control_plane.controllers.thaw()


def test_held_after_its_end(make, manager, by_proxy, proxy, images):
    """A run that has handed its workload back, and waits for the controller, leaves it to the user who holds it now."""
    workload = make("deployment")

    async def freeze(exchange: Exchange) -> None:
        if b"done" in exchange.request.body and is_write(exchange.request.path):
            manager.freeze()
        await api_faults.behave_well(exchange)

    proxy.on("^PATCH .*/deployments/", freeze)
    with none_replaced(workload):
        with by_proxy.start("set", "image", workload.name, f"main={images[1]}") as child:
            wait_until(lambda: (workload.record() or {}).get("state") == "done", 60 * SLOWLY, "the end")
            workload.patch({"metadata": {"annotations": {RECORD: None}}, "spec": {"paused": True}}, "merge")
            manager.thaw()
            _, errors = child.communicate(timeout=60 * SLOWLY)
        assert child.returncode == 0, errors
    assert workload.get()["spec"]["paused"]


@pytest.mark.parametrize("way", ["on", "undo", "release"])
def test_resumed_while_it_waits(cluster, make, inplace, images, way):
    """Where the controller has nothing to do, a resumed Deployment stays mixed, and the next run goes on with it."""
    workload = make("deployment", 3)
    with none_replaced(workload):
        assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}", "--first=1"))
        cluster.kubectl("rollout", "resume", workload.name)
        wait_observed(workload)
        shown = inplace.run("status", workload.name)
        assert "has not ended: 1 of 3 pods updated; " in shown.stdout
        assert "; another client has resumed it; to go on:\n" in shown.stdout
        (item,) = json.loads(inplace.run("status", workload.name, "-o", "json").stdout)["rollouts"]
        assert item["held"] is False
        ran = assert_done(inplace.run("rollout", workload.name, *({"on": []}.get(way, [f"--{way}"]))))
        if way == "release":
            assert "handed back: 1 of 3 pods updated" in ran.stdout and not rollout_is_open(workload)
        else:
            workload.assert_runs(images[1 if way == "on" else 0])
    assert workload.strategy() == (False, None)


def test_resumed_during_a_run(cluster, make, by_proxy, proxy, inplace, images):
    """The run that meets it stops, and says how to go on."""
    workload = make("deployment", 2)
    with none_replaced(workload):
        with in_the_middle(by_proxy, proxy, "set", "image", workload.name, f"main={images[1]}", n=2) as middle:
            cluster.kubectl("rollout", "resume", workload.name)
            ran = middle.end()
        assert ran.code == 3 and "another client has resumed it" in ran.stderr, ran.stderr
        assert f"  kubectl inplace rollout deployment.apps/{workload.app} " in ran.stderr
        assert_done(inplace.run("rollout", workload.name))
        workload.assert_runs(images[1])


@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
def test_record_removed_meanwhile(cluster, make, by_proxy, proxy, images, kind):
    """Another client, such as a repository without it, removes the record: the update leaves nothing held."""
    workload = make(kind)
    strategy = workload.strategy()
    reached, released = hold_write(proxy, 2, api_faults.answer_when)
    with by_proxy.start("set", "image", workload.name, f"main={images[1]}") as child:
        wait_until(reached.is_set, 60 * SLOWLY, "the write")
        workload.patch({"metadata": {"annotations": {RECORD: None}}}, "merge")
        released.set()
        _, errors = child.communicate(timeout=60 * SLOWLY)
    assert child.returncode == 3 and "has removed the annotation" in errors, errors
    assert workload.strategy() == strategy and not rollout_is_open(workload)
    cluster.kubectl("rollout", "status", workload.name, "--timeout=90s")


@pytest.mark.parametrize("is_removed", [False, True])
def test_strategy_changed_meanwhile(make, by_proxy, proxy, images, is_removed):
    """Another user has the controller wait until pods are deleted: so it does, whatever the workload had before."""
    workload = make("statefulset")
    reached, released = hold_write(proxy, 2, api_faults.answer_when)
    with none_replaced(workload), by_proxy.start("set", "image", workload.name, f"main={images[1]}") as child:
        wait_until(reached.is_set, 60 * SLOWLY, "the write")
        removed = {"metadata": {"annotations": {RECORD: None}}} if is_removed else {}
        workload.patch({**removed, "spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}}, "merge")
        released.set()
        _, errors = child.communicate(timeout=60 * SLOWLY)
    assert child.returncode == (3 if is_removed else 0), errors
    assert workload.strategy() == (False, {"type": "OnDelete"})


def test_record_removed_between_templates(cluster, make, by_proxy, proxy, inplace, images):
    """An older ReplicaSet has the template after, too, and the record goes when the ReplicaSet of the pods has just got it:
    the next run finds no images that would tell the two apart, and brings the other pod there.
    """
    workload = make("deployment")
    cluster.kubectl("set", "image", workload.name, f"main={images[1]}")
    cluster.kubectl("rollout", "status", workload.name, "--timeout=90s")
    wait_until(lambda: len(workload.pods()) == 2, 60 * SLOWLY, "end of the pods before")
    cluster.kubectl("rollout", "pause", workload.name)
    cluster.kubectl("set", "image", workload.name, f"main={images[0]}")
    wait_observed(workload)
    with none_replaced(workload):
        reached = stop_after(proxy, 3)
        with by_proxy.start("rollout", workload.name) as child:
            wait_until(reached.is_set, 60 * SLOWLY, "the write")
            child.kill()
        proxy.behave()
        assert sorted(map(image_of, workload.pods())) == images[:2]
        workload.patch({"metadata": {"annotations": {RECORD: None}}}, "merge")
        assert_done(inplace.run("rollout", workload.name))
    assert [image_of(pod) for pod in workload.ready()] == [images[0]] * 2 and not rollout_is_open(workload)


def test_two_at_once(make, by_proxy, proxy, inplace, images):
    """The second writer is refused, and the record of the first stays as it is."""
    workload = make("deployment")
    uids, strategy = workload.uids(), workload.strategy()
    reached, released = hold_write(proxy, 1, api_faults.when)
    with by_proxy.start("set", "image", workload.name, f"main={images[2]}") as second:
        wait_until(reached.is_set, 60 * SLOWLY, "the write")
        with inplace.start("set", "image", workload.name, f"main={images[1]}") as first:
            wait_until(lambda: rollout_is_open(workload), 60 * SLOWLY, "the record of the first")
            first.kill()
        released.set()
        _, errors = second.communicate(timeout=60 * SLOWLY)
    assert second.returncode == 1 and re.search(r"by \"lab-admin\" since \d+s \(\S+Z\) has not ended", errors), errors
    assert_done(inplace.run("rollout", workload.name))
    workload.assert_runs(images[1])
    assert workload.uids() == uids and workload.strategy() == strategy


def test_refused_while_another_begins(make, by_proxy, proxy, inplace, images):
    """The note of an attempt that was refused leaves the record of an update that has begun meanwhile as it is."""
    workload = make("deployment")
    strategy = workload.strategy()
    assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}"))
    reached, released = threading.Event(), threading.Event()

    async def refuse(exchange: Exchange) -> None:
        reached.set()
        await api_faults.when(released, api_faults.delay(2 * SLOWLY, api_faults.refuse(403)))(exchange)

    proxy.on("^PATCH .*dryRun", refuse)
    with by_proxy.start("set", "image", workload.name, f"main={images[2]}") as second:
        wait_until(reached.is_set, 60 * SLOWLY, "the rehearsal")
        with inplace.start("set", "image", workload.name, f"main={images[0]}") as first:
            wait_until(lambda: rollout_is_open(workload), 60 * SLOWLY, "the record of the first")
            first.kill()
        released.set()
        second.communicate(timeout=60 * SLOWLY)
    assert second.returncode == 1
    assert rollout_is_open(workload)
    assert_done(inplace.run("rollout", workload.name))
    workload.assert_runs(images[0])
    assert workload.strategy() == strategy


def test_written_after_the_end(make, by_proxy, proxy, inplace, images):
    """A run whose write arrives after another one has gone back names the pod, and the command that brings it back."""
    workload = make("deployment")
    reached, released = hold_write(proxy, 2, api_faults.when)
    with by_proxy.running("set", "image", workload.name, f"main={images[1]}") as late:
        wait_until(reached.is_set, 60 * SLOWLY, "the write")
        assert_done(inplace.run("rollout", workload.name, "--undo"))
        released.set()
        _, errors = late.communicate(timeout=60 * SLOWLY)
    assert late.returncode == 3 and "it has other images than the template" in errors, errors
    assert sorted(map(image_of, workload.pods())) == images[:2]
    (offered,) = (shlex.split(line)[2:] for line in errors.splitlines() if line.startswith("  "))
    assert_done(inplace.run(*offered))
    workload.assert_runs(images[0])


def test_turned_unseen(make, by_proxy, proxy, inplace, images):
    """A run whose watch does not show yet that another one has gone back takes no pod forward again."""
    workload, may_show = make("replicaset", 1, minReadySeconds=5 * SLOWLY), threading.Event()
    proxy.on("^GET .*/replicasets[?].*watch=true", api_faults.hold_behind(rb"initial-events-end", may_show))
    try:
        with by_proxy.running("set", "image", workload.name, f"main={images[1]}") as child:
            wait_until(lambda: list(map(image_of, workload.pods())) == [images[1]], 60 * SLOWLY, "the pod")
            assert_done(inplace.run("rollout", workload.name, "--undo"))
            _, errors = child.communicate(timeout=60 * SLOWLY)
    finally:
        may_show.set()
    assert child.returncode == 3 and "another run of" in errors, errors
    workload.assert_runs(images[0])


def test_conflict_at_the_beginning(make, by_proxy, proxy, images):
    """Another client writes to the workload just before it is taken over: that is no reason to end."""
    workload = make("deployment")
    for n, command in enumerate((["set", "image", workload.name, f"main={images[1]}"], ["rollout", workload.name])):
        first = threading.Event()

        async def behave(exchange: Exchange, first: threading.Event = first, n: int = n) -> None:
            if is_write(exchange.request.path) and not first.is_set():
                first.set()
                workload.patch({"metadata": {"labels": {"touched": str(n)}}})
            await api_faults.behave_well(exchange)

        proxy.on("^PATCH ", behave)
        assert_done(by_proxy.run(*command, *(["--undo"] if n else [])))
        assert first.is_set() and workload.get()["metadata"]["labels"]["touched"] == str(n)
        workload.assert_runs(images[1 - n])


def test_template_changed_while_it_is_rehearsed(cluster, make, by_proxy, proxy, images):
    """Another client writes further images while the writes are tried: those with these are tried, too, before any is made."""
    workload = make("deployment")
    cluster.kubectl("rollout", "pause", workload.name)
    workload.patch(set_template(images[1]))
    wait_observed(workload)
    first = threading.Event()

    async def change(exchange: Exchange) -> None:
        if not first.is_set():
            first.set()
            workload.patch(set_template(images[2]))
        await api_faults.behave_well(exchange)

    async def refuse(exchange: Exchange) -> None:
        is_refused = images[2].encode() in exchange.request.body
        await (api_faults.refuse(403, "not this image") if is_refused else api_faults.behave_well)(exchange)

    proxy.on("^PATCH .*/deployments/", change)
    proxy.on("^PATCH .*/pods/", refuse)
    with none_replaced(workload):
        ran = by_proxy.run("rollout", workload.name)
    assert first.is_set() and ran.code == 1 and "not this image" in ran.stderr, ran.stdout + ran.stderr
    assert workload.record() is None


def test_refused_after_a_conflict(cluster, make, by_proxy, proxy, images):
    """With the first write comes a template that pods cannot get in place. Nothing has changed, and a note keeps --undo from
    undoing the update before.
    """
    workload = make("deployment")
    assert_done(by_proxy.run("set", "image", workload.name, f"main={images[1]}"))
    cluster.kubectl("rollout", "pause", workload.name)
    first = threading.Event()

    async def behave(exchange: Exchange) -> None:
        if is_write(exchange.request.path) and not first.is_set():
            first.set()
            workload.patch(set_template(images[1], env=[{"name": "A", "value": "b"}]))
        await api_faults.behave_well(exchange)

    proxy.on("^PATCH ", behave)
    with none_replaced(workload):
        ran = by_proxy.run("set", "image", workload.name, f"main={images[2]}")
    assert first.is_set() and ran.code == 1, ran.stdout + ran.stderr
    assert f"nothing has changed; the pods keep main={images[1]}\n" in ran.stderr, ran.stderr
    assert workload.record()["state"] == "done" and "refused" in workload.record()


def test_conflict_brings_partition_back(make, by_proxy, proxy, images):
    """--undo still knows the partition before when the first write that takes over is refused."""
    workload = make("statefulset")
    strategy = workload.strategy()
    assert_done(by_proxy.run("set", "image", workload.name, f"main={images[1]}", "--partition=1"))
    first = threading.Event()

    async def behave(exchange: Exchange) -> None:
        if is_write(exchange.request.path) and not first.is_set():
            first.set()
            workload.patch({"metadata": {"labels": {"touched": "1"}}})
        await api_faults.behave_well(exchange)

    proxy.on("^PATCH ", behave)
    assert workload.strategy() != strategy
    assert_done(by_proxy.run("rollout", workload.name, "--undo"))
    assert first.is_set() and workload.strategy() == strategy


def test_lost_answers(make, by_proxy, proxy, images):
    """Every write is done, and every second answer is lost, the one to the take-over among them."""
    workload = make("deployment")
    uids, strategy = workload.uids(), workload.strategy()
    with none_replaced(workload):
        for n, image in enumerate((images[1], images[0])):
            counter = itertools.count(n)

            async def behave(exchange: Exchange, counter: itertools.count[int] = counter) -> None:
                is_lost = is_write(exchange.request.path) and next(counter) % 2 == 0
                await (api_faults.lose_reply if is_lost else api_faults.behave_well)(exchange)

            proxy.on("^PATCH ", behave)
            assert_done(by_proxy.run("set", "image", workload.name, f"main={image}"))
            workload.assert_runs(image)
    assert workload.uids() == uids and workload.strategy() == strategy


def test_lost_answer_to_the_release(make, by_proxy, proxy, images):
    """The program sends a write a second time before it asks: the release is done, and reported so."""
    workload = make("deployment")
    with none_replaced(workload):
        assert_done(by_proxy.run("set", "image", workload.name, f"main={images[1]}", "--first=1"))

        async def behave(exchange: Exchange) -> None:
            is_lost = is_write(exchange.request.path) and b"abandoned" in exchange.request.body
            await (api_faults.lose_reply if is_lost else api_faults.behave_well)(exchange)

        proxy.on("^PATCH ", behave)
        ran = assert_done(by_proxy.run("rollout", workload.name, "--release"))
    assert "handed back: 1 of 2 pods updated" in ran.stdout, ran.stdout


def test_refused_in_the_middle(make, by_proxy, proxy, images):
    """A write that the server answers with 5xx is tried again ever more slowly, and said; nothing is read anew."""
    workload = make("deployment")
    counter, tries, is_well = itertools.count(1), [], threading.Event()

    async def behave(exchange: Exchange) -> None:
        if not is_write(exchange.request.path) or next(counter) < 3 or is_well.is_set():
            await api_faults.behave_well(exchange)
            return
        tries.append(len(proxy.requests("^GET ")))
        await api_faults.refuse(500, "a webhook is down")(exchange)

    proxy.on("^PATCH ", behave)
    with by_proxy.running("set", "image", workload.name, f"main={images[1]}", "--timeout=90s") as child:
        while "waiting for the API server" not in (line := child.stdout.readline()):
            assert line, child.communicate()
        assert "a webhook is down" in line
        is_well.set()
        _, errors = child.communicate(timeout=90 * SLOWLY)
    assert child.returncode == 0, errors
    assert 4 <= len(tries) <= 7, tries
    assert tries[-1] == tries[0]
    workload.assert_runs(images[1])


def test_away_in_the_middle(cluster, make, inplace, images):
    """The command says that it waits for an API server that does not come back."""
    workload = make("deployment")
    apiserver = cluster.control_plane.apiserver
    with inplace.running("set", "image", workload.name, f"main={images[1]}", "--timeout=90s") as child:
        assert "updating" in child.stdout.readline()
        apiserver.kill9()
        try:
            while "waiting for the API server" not in (line := child.stdout.readline()):
                assert line, child.communicate()
        finally:
            apiserver.start()
        _, errors = child.communicate(timeout=120 * SLOWLY)
    assert child.returncode == 0, errors
    workload.assert_runs(images[1])


def test_away_at_the_beginning(make, by_proxy, proxy, images):
    """The command says that it waits for the list of pods, whose answer is late."""
    workload = make("deployment", 1)
    proxy.on("^GET .*/pods", api_faults.refuse(503, "the server is busy"))
    with by_proxy.running("set", "image", workload.name, f"main={images[1]}") as child:
        line = child.stderr.readline()
        proxy.behave()
        _, errors = child.communicate(timeout=90 * SLOWLY)
    assert "waiting for the API server: " in line and "the server is busy" in line, line
    assert child.returncode == 0, errors
    workload.assert_runs(images[1])


def test_no_progress(make, inplace, registry, folder, images):
    """A pod that never becomes ready ends the update after ten minutes, which pass in a moment here."""
    unready = registry.push_image("t/rollout", "unready", [1000], busybox=True, env={"NEEDS": "service"}).reference
    probe = {"exec": {"command": ["/bin/sh", "-c", '[ -z "$NEEDS" ]']}, "periodSeconds": 1, "timeoutSeconds": 10}
    container = {"name": "main", "image": images[0], "command": until_term(), "readinessProbe": probe}
    workload = make("deployment", pod={"containers": [container]})
    jump = folder / "jump"
    environment = clock.environment(clock.jumps_when_there(jump))
    with none_replaced(workload):
        with inplace.start("set", "image", workload.name, f"main={unready}", **environment) as child:
            try:
                while "waiting for pod" not in (line := child.stdout.readline()):
                    assert line, child.communicate()
                jump.touch()
                _, errors = child.communicate(timeout=30 * SLOWLY)
            finally:
                child.kill()
        assert child.returncode == 3 and "nothing has changed for 36" in errors, errors
        assert "it was waiting for pod " in errors and "it is not ready" in errors
        assert_done(inplace.run("rollout", workload.name, "--undo"))
        workload.assert_runs(images[0])


def test_changed_back_meanwhile(cluster, make, by_proxy, proxy, images):
    """Another client puts the image before back into a pod: the same write is not made twice, and the pod is named."""
    workload = make("deployment", 3)
    command = "set", "image", workload.name, f"main={images[1]}"
    with none_replaced(workload):
        with in_the_middle(by_proxy, proxy, *command, n=4) as middle:
            first = next(pod for pod in workload.ready() if restarts(pod) == 1)["metadata"]["name"]
            changed = {"spec": {"containers": [{"name": "main", "image": images[0]}]}}
            cluster.admin.patch(f"{PODS}/{first}", changed, "strategic")
            ran = middle.end()
        assert ran.code == 3 and f'"{first}" does not stay as it was written' in ran.stderr, ran.stderr


@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
def test_scaled_and_deleted_meanwhile(cluster, make, by_proxy, proxy, inplace, images, kind):
    """The number of pods changes and one is evicted: the pods that come have the new image in the end."""
    workload = make(kind)
    interrupted(by_proxy, proxy, workload, images[1], 3)
    cluster.kubectl("scale", workload.name, "--replicas=3")
    gone, kept = sorted(pod["metadata"]["name"] for pod in workload.pods())[:2]
    uid = workload.kube.get(f"{PODS}/{kept}")["metadata"]["uid"]
    workload.kube.delete(f"{PODS}/{gone}")
    workload.n_pods = 3
    assert_done(inplace.run("rollout", workload.name))
    wait_until(lambda: len(workload.ready()) == 3, 60 * SLOWLY, "pods")
    workload.assert_runs(images[1])
    assert uid in workload.uids()


def wait_followed(workload: Workload, image: str) -> None:
    """Until the controller of the ReplicaSet makes pods with the image."""

    def has_followed() -> bool:
        sets = workload.kube.list("/apis/apps/v1/namespaces/default/replicasets", labelSelector=f"app={workload.app}")
        return any(
            image_of(one["spec"]["template"]) == image
            and one["status"]["observedGeneration"] == one["metadata"]["generation"]
            for one in sets
        )

    wait_until(has_followed, 60 * SLOWLY, f"ReplicaSet with {image}")


@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
def test_autoscaler(cluster, make, by_proxy, proxy, images, kind):
    """An autoscaler adds pods in the middle of an update, and removes some in the middle of the next one."""
    workload = make(kind)
    strategy, before = workload.strategy(), workload.uids()
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": workload.app},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": KINDS[kind][0], "name": workload.app},
            "minReplicas": 2,
            "maxReplicas": 5,
        },
    }
    path = cluster.admin.path_of(cluster.admin.create(scaler))

    def scale(replicas: int, **bounds: int) -> None:
        cluster.admin.patch(path, {"spec": bounds})
        workload.kube.wait_for(
            workload.path, lambda one: one["spec"]["replicas"] == replicas, 60 * SLOWLY
        )
        wait_until(lambda: len(workload.pods()) == replicas, 60 * SLOWLY, "pods")
        workload.n_pods = replicas

    update = ["set", "image", workload.name]
    with in_the_middle(by_proxy, proxy, *update, f"main={images[1]}") as middle:
        if kind == "deployment":
            wait_followed(workload, images[1])
        scale(4, minReplicas=4)
        added = [pod for pod in workload.pods() if pod["metadata"]["uid"] not in before]
        if kind == "deployment":
            assert {image_of(pod) for pod in added} == {images[1]}
        assert_done(middle.end())
    wait_until(lambda: len(workload.ready()) == 4, 60 * SLOWLY, "pods")
    workload.assert_runs(images[1])
    assert workload.strategy() == strategy and before < workload.uids()

    before = workload.uids()
    with in_the_middle(by_proxy, proxy, *update, f"main={images[2]}") as middle:
        scale(2, minReplicas=1, maxReplicas=2)
        assert_done(middle.end())
    workload.assert_runs(images[2])
    assert workload.strategy() == strategy and workload.uids() < before
    cluster.admin.delete(path)


def test_restarts_after_it_counted(cluster, make, by_proxy, proxy, images):
    """If an updated pod does not keep running, no further one is begun."""
    workload = make("deployment", 3)
    command = "set", "image", workload.name, f"main={images[1]}"
    with in_the_middle(by_proxy, proxy, *command, n=4) as middle:
        first = next(pod for pod in workload.ready() if restarts(pod) == 1)["metadata"]["name"]
        with suppress(RuntimeError):  # the command ends with the container
            cluster.kubectl("exec", first, "--", "/bin/sh", "-c", "kill 1")
        cluster.admin.wait_for(
            f"{PODS}/{first}", lambda pod: restarts(pod) == 2 and is_ready(pod), 90 * SLOWLY
        )
        ran = middle.end()
    assert ran.code == 3 and f'pod "{first}": a container has restarted' in ran.stderr, ran.stderr
    assert [image_of(pod) for pod in workload.pods()].count(images[0]) == 1


def restarts(pod: Object) -> int:
    return pod["status"]["containerStatuses"][0]["restartCount"]


def evict(cluster: Cluster, name: str) -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    cluster.admin.post(f"{PODS}/{name}/eviction", eviction)


@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
def test_evicted_meanwhile(cluster, make, by_proxy, proxy, images, kind):
    """The successor has the new image in the end; a budget refuses the pod after it."""
    workload = make(kind, 3)
    strategy, before = workload.strategy(), workload.uids()
    path = make_budget(cluster, workload, maxUnavailable=1)
    with in_the_middle(by_proxy, proxy, "set", "image", workload.name, f"main={images[1]}") as middle:
        first, second = sorted(workload.pods(), key=lambda pod: image_of(pod) != images[0])[:2]
        wait_until(lambda: len(workload.ready()) == 3, 60 * SLOWLY, "pods")
        cluster.admin.wait_for(
            path, lambda one: one["status"]["disruptionsAllowed"] == 1, 30 * SLOWLY
        )
        evict(cluster, first["metadata"]["name"])
        with pytest.raises(KubeError, match="disruption budget"):
            evict(cluster, second["metadata"]["name"])
        assert_done(middle.end())
    wait_until(lambda: len(workload.ready()) == 3, 60 * SLOWLY, "pods")
    workload.assert_runs(images[1])
    assert workload.strategy() == strategy
    assert before - workload.uids() == {first["metadata"]["uid"]}
    cluster.admin.delete(path)


@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
def test_drained_meanwhile(cluster, make, by_proxy, proxy, images, kind):
    """The successors have no node until it is uncordoned."""
    workload = make(kind)
    strategy, before = workload.strategy(), workload.uids()
    node = cluster.node.name
    with in_the_middle(by_proxy, proxy, "set", "image", workload.name, f"main={images[1]}") as middle:
        cluster.kubectl("drain", node, f"--pod-selector=app={workload.app}", "--timeout=60s")
        cluster.kubectl("uncordon", node)
        assert_done(middle.end())
    wait_until(lambda: len(workload.ready()) == workload.n_pods, 60 * SLOWLY, "pods")
    workload.assert_runs(images[1])
    assert workload.strategy() == strategy and not workload.uids() & before


def test_pod_is_seen_before_its_revision(cluster, make, by_proxy, proxy, images):
    """The server shows a pod earlier than the revision that it was made of: the command waits for that."""
    workload = make("daemonset", updateStrategy={"type": "OnDelete"})
    are_listed, may_list, may_show = threading.Event(), threading.Event(), threading.Event()
    proxy.on("^GET .*/pods[?]", api_faults.when(may_list, api_faults.behave_well))
    proxy.on("^GET .*/controllerrevisions[?]", api_faults.hold_behind(rb"initial-events-end", may_show, are_listed))
    try:
        with by_proxy.running("rollout", workload.name) as child:
            wait_until(are_listed.is_set, 60 * SLOWLY, "the revisions")
            workload.patch(set_template(images[1]))
            (former,) = workload.uids()
            cluster.kubectl("delete", "pod", "-l", f"app={workload.app}")
            wait_until(lambda: workload.ready() and former not in workload.uids(), 60 * SLOWLY, "the next pod")
            may_list.set()
            said = child.stderr.readline()
            assert "waiting for the revisions of its pods" in said, (said, child.communicate())
            may_show.set()
            said = child.communicate(timeout=60 * SLOWLY)
    finally:
        may_list.set()
        may_show.set()
    assert child.returncode == 0, said
    assert [image_of(pod) for pod in workload.ready()] == [images[1]]


def test_gate_that_was_left_closed(cluster, agent, make, inplace, images):
    """A pod was away while an update went back: the same images again open its gate, which waits for others."""
    workload = make("deployment", pod={"readinessGates": [{"conditionType": GATE}]})
    path = f"{PODS}/{workload.pods()[0]['metadata']['name']}"
    awaited = {"by": "alice", "since": "2026-01-01T00:00:00Z", "images": {"main": images[1]}}
    closed = {"type": GATE, "status": "False", "reason": "InPlaceUpdate", "message": json.dumps(awaited)}
    cluster.admin.patch(f"{path}/status", {"status": {"conditions": [closed]}}, "strategic")
    cluster.admin.wait_for(path, lambda pod: not is_ready(pod), 60 * SLOWLY)
    with none_replaced(workload):
        assert_done(inplace.run("set", "image", workload.name, f"main={images[0]}"))
    workload.assert_runs(images[0])


def test_evicted_while_scaled_down(cluster, make, by_proxy, proxy, images):
    """The pod that the scale-down leaves behind does not stand for the evicted one, whose successor is shown late: its
    controller makes that of the revision before, and the newest revision the current one, at the same time.
    """
    workload = make("statefulset")
    strategy, may_show = workload.strategy(), threading.Event()
    proxy.on("^GET .*/pods[?].*watch=true", api_faults.hold_behind(rb'^{"type":"DELETED"', may_show))
    first, node = f"{PODS}/{workload.app}-0", cluster.node.name
    with in_the_middle(by_proxy, proxy, "set", "image", workload.name, f"main={images[1]}", n=2) as middle:
        cluster.admin.wait_for(
            f"{PODS}/{workload.app}-1", lambda pod: restarts(pod) == 1 and is_ready(pod), 60 * SLOWLY
        )
        evicted = cluster.admin.patch(first, {"metadata": {"finalizers": ["example.org/wait"]}})["metadata"]["uid"]
        cluster.kubectl("cordon", node)
        try:
            cluster.admin.delete(first)
            cluster.kubectl("scale", workload.name, "--replicas=1")
            wait_observed(workload)
            cluster.admin.patch(first, {"metadata": {"finalizers": None}})
            made = cluster.admin.wait_for(first, lambda pod: pod["metadata"]["uid"] != evicted, 60 * SLOWLY)
            assert image_of(made) == images[0]
            cluster.admin.wait_for(
                workload.path, lambda one: one["status"]["currentRevision"] == one["status"]["updateRevision"], 30 * SLOWLY
            )
            middle.released.set()
            for line in middle.child.stdout:
                if "for its controller to make the missing pods" in line:
                    break
        finally:
            cluster.kubectl("uncordon", node)
            may_show.set()
        assert_done(middle.end())
    workload.n_pods = 1
    wait_until(lambda: len(workload.ready()) == len(workload.pods()) == 1, 60 * SLOWLY, "pods")
    workload.assert_runs(images[1])
    assert workload.uids() == {made["metadata"]["uid"]} and workload.strategy() == strategy


@pytest.mark.parametrize(("kind", "n"), [("deployment", 1), ("replicaset", 2)])
def test_successor_shown_late(make, by_proxy, proxy, images, kind, n):
    """The only pod is made anew before its ReplicaSet has the new template, and no watch shows that before the end."""
    workload = make(kind, 1)
    reached, released = hold_write(proxy, n, api_faults.when, "^PATCH .*/replicasets/")
    with by_proxy.start("set", "image", workload.name, f"main={images[1]}") as child:
        wait_until(reached.is_set, 60 * SLOWLY, "the new template")
        for watch in proxy.watches("/pods[?]"):
            watch.silence()
        (updated,) = workload.ready()
        workload.kube.delete(f"{PODS}/{updated['metadata']['name']}")
        wait_until(lambda: [image_of(pod) for pod in workload.ready()] == [images[0]], 60 * SLOWLY, "the successor")
        assert_done(Middle(child, released).end())
    workload.assert_runs(images[1])


@pytest.mark.parametrize("kind", ["deployment", "daemonset"])
def test_deleted_meanwhile(make, by_proxy, proxy, images, kind):
    """Another client deletes the workload, and with it its pods."""
    workload = make(kind)
    with in_the_middle(by_proxy, proxy, "set", "image", workload.name, f"main={images[1]}", n=2) as middle:
        workload.delete()
        workload.kube.wait_gone(workload.path, 30 * SLOWLY)
        ran = middle.end()
    assert ran.code == 3 and f"/{workload.app}: it is gone" in ran.stderr
    assert "go on with" not in ran.stderr


def delete_unseen(workload, proxy) -> None:
    """Deletes it, and its pods, when no watch shows anything any more: a write of a pod that is there would be waited for."""
    for watch in proxy.watches():
        watch.silence()
    workload.delete()
    workload.kube.wait_gone(workload.path, 30 * SLOWLY)
    pods = lambda: workload.kube.list(PODS, labelSelector=f"app={workload.app}")  # noqa: E731
    wait_until(lambda: not pods(), 60 * SLOWLY, "the end of its pods")


def test_deleted_unseen(make, by_proxy, proxy, images):
    """No watch shows the deletion: the workload is missing when all objects are read anew."""
    workload = make("statefulset")
    command = "set", "image", workload.name, f"main={images[1]}"
    with in_the_middle(by_proxy, proxy, *command, n=2, is_lost=True) as middle:
        delete_unseen(workload, proxy)
        ran = middle.end()
    assert ran.code == 3 and f"/{workload.app}: it is gone" in ran.stderr


def test_made_anew_of_an_older_template(cluster, make, by_proxy, proxy, images):
    """While it is held, a StatefulSet's controller makes pods of its current revision, here the one before a canary: such a
    pod does not count as updated, and gets the whole template in the end.
    """
    partition = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    workload = make("statefulset", 2, updateStrategy=partition)
    path = f"{PODS}/{workload.app}-1"
    variable = [{"name": "CANARY", "value": "yes"}]
    has_variable = lambda pod: pod["spec"]["containers"][0].get("env") == variable  # noqa: E731
    workload.patch(set_template(images[0], env=variable))
    wait_until(lambda: any(map(has_variable, workload.ready())), 60 * SLOWLY, "the canary")
    canary = cluster.admin.get(path)["metadata"]["uid"]
    with in_the_middle(by_proxy, proxy, "set", "image", workload.name, f"main={images[1]}", n=2) as middle:
        cluster.admin.delete(path)
        wait_until(
            lambda: canary not in workload.uids() and len(workload.ready()) == 2, 60 * SLOWLY, "the pod anew", 0.05
        )
        assert not has_variable(cluster.admin.get(path))
        ran = middle.end()
    assert ran.code == 3
    assert f'pod "{workload.app}-1": it was made of an older template, and its controller replaces it' in ran.stderr
    assert not rollout_is_open(workload) and workload.strategy()[1]["rollingUpdate"]["partition"] == 1
    cluster.admin.wait_for(path, lambda pod: has_variable(pod) and image_of(pod) == images[1], 60 * SLOWLY)


def test_made_anew_unseen(make, by_proxy, proxy, images):
    """Another workload has the name when all objects are read anew: nothing is written to it."""
    workload = make("daemonset")
    made = workload.get()
    spec = {key: made["spec"][key] for key in ("selector", "template")}
    command = "set", "image", workload.name, f"main={images[1]}"
    with in_the_middle(by_proxy, proxy, *command, n=2, is_lost=True) as middle:
        delete_unseen(workload, proxy)
        workload.kube.create({
            **{key: made[key] for key in ("apiVersion", "kind")},
            "metadata": {"name": workload.app},
            "spec": {**spec, "updateStrategy": {"type": "OnDelete"}},
        })
        ran = middle.end()
    assert ran.code == 3 and f"/{workload.app}: it is gone" in ran.stderr
    assert workload.record() is None and workload.strategy()[1]["type"] == "OnDelete"


@pytest.mark.parametrize("kind", ["deployment", "statefulset", "daemonset"])
def test_restarted_meanwhile(cluster, make, by_proxy, proxy, images, kind):
    """kubectl refuses to restart a paused Deployment; other workloads go back to their controller."""
    workload = make(kind)
    strategy, before = workload.strategy(), workload.uids()
    command = "set", "image", workload.name, f"main={images[1]}"
    with in_the_middle(by_proxy, proxy, *command, n=3 if kind == "deployment" else 2) as middle:
        if kind == "deployment":
            with pytest.raises(RuntimeError, match="paused"):
                cluster.kubectl("rollout", "restart", workload.name)
            assert_done(middle.end())
        else:
            cluster.kubectl("rollout", "restart", workload.name)
            ran = middle.end()
            assert ran.code == 3
            assert "another client has changed its template in metadata.annotations" in ran.stderr
            cluster.kubectl("rollout", "status", workload.name, "--timeout=90s")
    wait_until(lambda: len(workload.ready()) == workload.n_pods, 60 * SLOWLY, "pods")
    workload.assert_runs(images[1])
    assert workload.strategy() == strategy
    assert (workload.uids() == before) == (kind == "deployment")


def test_api_server_restarts_meanwhile(cluster, make, inplace, images):
    workload = make("deployment", 3)
    before = workload.uids()
    with inplace.start("set", "image", workload.name, f"main={images[1]}") as child:
        assert "updating" in child.stdout.readline()
        cluster.control_plane.apiserver.kill9()
        cluster.control_plane.apiserver.start()
        _, errors = child.communicate(timeout=120 * SLOWLY)
    assert child.returncode == 0, errors
    workload.assert_runs(images[1])
    assert workload.uids() == before

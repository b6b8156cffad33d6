# SPDX-License-Identifier: Apache-2.0
"""kubectl's own commands after updates in place, and the ReplicaSets that keep the templates before."""

from __future__ import annotations

import itertools
import re

import pytest

from rollouts import *  # noqa: F403
from lab.cluster import Cluster
from lab.wait import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.containers, pytest.mark.timeout(300 * SLOWLY)]


@pytest.mark.parametrize("kind", ["deployment", "statefulset", "daemonset"])
def test_kubectl_afterwards(cluster, make, inplace, images, kind):
    """kubectl's commands work afterwards, also on the way back to the template whose hash is in the
    ReplicaSet's name.
    """
    workload = make(kind)
    assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}"))
    before = workload.uids()
    cluster.kubectl("set", "image", workload.name, f"main={images[0]}")
    cluster.kubectl("rollout", "status", workload.name, "--timeout=60s")
    wait_until(lambda: len(workload.ready()) == workload.n_pods, 60 * SLOWLY, "pods")
    workload.assert_runs(images[0])
    assert not workload.uids() & before
    cluster.kubectl("rollout", "undo", workload.name)
    cluster.kubectl("rollout", "status", workload.name, "--timeout=60s")
    workload.assert_runs(images[1])
    cluster.kubectl("rollout", "restart", workload.name)
    cluster.kubectl("rollout", "status", workload.name, "--timeout=60s")
    before = workload.uids()
    assert_done(inplace.run("set", "image", workload.name, f"main={images[2]}"))
    workload.assert_runs(images[2])
    assert workload.uids() == before


def rolled_out(cluster: Cluster, workload: Workload, image: str) -> None:
    """The controller replaces the pods, as ever."""
    cluster.kubectl("set", "image", workload.name, f"main={image}")
    cluster.kubectl("rollout", "status", workload.name, "--timeout=60s")
    label = f"app={workload.app}"
    wait_until(
        lambda: len(workload.kube.list(PODS, labelSelector=label)) == workload.n_pods,
        60 * SLOWLY,
        "the end of the pods before",
    )


def history_of(workload: Workload) -> list[str]:
    """The images of all revisions as kubectl shows them, the oldest first."""
    rows = workload.cluster.kubectl("rollout", "history", workload.name).splitlines()
    numbers = [row.split()[0] for row in rows if row[:1].isdigit()]
    shown = [
        workload.cluster.kubectl("rollout", "history", workload.name, f"--revision={number}") for number in numbers
    ]
    return [re.search(r"Image:\s*(\S+)", text)[1] for text in shown]


@pytest.mark.parametrize(("limit", "has_older"), [(10, False), (1, True)])
def test_kubectl_undo(cluster, make, inplace, images, limit, has_older):
    """kubectl rollout undo goes to the images before the update, and keeps the members that others have written."""
    workload = make("deployment", revisionHistoryLimit=limit)
    workload.patch({"metadata": {"annotations": {"owner": "shop"}}})
    wait_observed(workload)
    if has_older:
        rolled_out(cluster, workload, images[2])
    before = image_of(workload.get()["spec"]["template"])
    with none_replaced(workload):
        assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}"))
        workload.assert_runs(images[1])
    assert history_of(workload)[-2:] == [before, images[1]]
    cluster.kubectl("rollout", "undo", workload.name)
    cluster.kubectl("rollout", "status", workload.name, "--timeout=60s")
    wait_until(lambda: len(workload.pods()) == workload.n_pods, 60 * SLOWLY, "pods")
    workload.assert_runs(before)
    annotations = workload.get()["metadata"]["annotations"]
    assert annotations["owner"] == "shop" and RECORD not in annotations


@pytest.mark.parametrize("limit", [10, 1])
def test_history_of_many_updates(cluster, make, inplace, images, limit):
    """Updates forward, back, and forward again: each has its predecessor as the last revision but one, and
    all the pods.
    """
    workload = make("deployment", revisionHistoryLimit=limit)
    with none_replaced(workload):
        for last, now in itertools.pairwise([0, 1, 2, 0, 1, 0, 1]):
            command = ["set", "image", workload.name, f"main={images[now]}"]
            if (last, now) == (1, 0):
                command = ["rollout", workload.name, "--undo"]
            assert_done(inplace.run(*command))
            workload.assert_runs(images[now])
            assert history_of(workload)[-2:] == [images[last], images[now]]
        ran = inplace.run("set", "image", workload.name, f"main={images[3]}", timeout=90 * SLOWLY)
        assert ran.code == 3
        assert_done(inplace.run("rollout", workload.name, "--undo"))
        workload.assert_runs(images[1])
        assert history_of(workload)[-2:] == [images[0], images[1]]


def test_no_history(cluster, make, inplace, images):
    """If the Deployment keeps no old ReplicaSets, none is made."""
    workload = make("deployment", revisionHistoryLimit=0)
    with none_replaced(workload):
        assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}"))
        workload.assert_runs(images[1])
    assert history_of(workload) == [images[1]]
    with pytest.raises(RuntimeError, match="no rollout history found"):
        cluster.kubectl("rollout", "undo", workload.name)


@pytest.mark.parametrize("kind", ["statefulset", "daemonset"])
def test_kubectl_undo_of_revisions(cluster, make, inplace, images, kind):
    """Their controllers keep the templates."""
    workload = make(kind)
    for now, last in ((1, 0), (2, 1), (0, 2)):
        assert_done(inplace.run("set", "image", workload.name, f"main={images[now]}"))
        workload.assert_runs(images[now])
        assert history_of(workload)[-2:] == [images[last], images[now]]
    cluster.kubectl("rollout", "undo", workload.name)
    cluster.kubectl("rollout", "status", workload.name, "--timeout=60s")
    wait_until(lambda: len(workload.ready()) == workload.n_pods, 60 * SLOWLY, "pods")
    workload.assert_runs(images[2])


@pytest.mark.parametrize("way", ["set-image", "rollout"])
def test_an_image_of_an_older_replica_set(cluster, make, inplace, images, way):
    """The controller finds that ReplicaSet again, and must not take it for the new one."""
    workload = make("deployment")
    rolled_out(cluster, workload, images[1])
    if way == "rollout":
        workload.patch({"spec": {"paused": True}})
        workload.patch(set_template(images[0]))
        wait_observed(workload)
    with none_replaced(workload):
        if way == "rollout":
            assert_done(inplace.run("rollout", workload.name))
            workload.patch({"spec": {"paused": False}})
        else:
            assert_done(inplace.run("set", "image", workload.name, f"main={images[0]}"))
        workload.assert_runs(images[0])
    with none_replaced(workload):
        assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}"))
        workload.assert_runs(images[1])
        assert_done(inplace.run("rollout", workload.name, "--undo"))
        workload.assert_runs(images[0])
    cluster.kubectl("rollout", "undo", workload.name)
    cluster.kubectl("rollout", "status", workload.name, "--timeout=60s")
    workload.assert_runs(images[1])

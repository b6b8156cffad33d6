# SPDX-License-Identifier: Apache-2.0
"""Declared updates in place of workloads that Flux applies from a repository, every second."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from declared import *  # noqa: F403
from lab.flux import Repository
from lab.wait import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.containers, pytest.mark.timeout(300 * SLOWLY)]


@pytest.fixture
def publish(cluster, controller, folder) -> Iterator[Callable[..., Repository]]:
    """publish(workload, image, …): makes the repository of a workload; Flux has applied its first commit."""
    made = []

    def make(workload: Workload, image: str, **options: bool) -> Repository:
        kubeconfig = cluster.control_plane.admin_kubeconfig
        made.append(Repository(folder / "repository", kubeconfig, manifest(workload, image), **options))
        made[0].start()
        return made[0]

    yield make
    for one in made:
        one.close()


def assert_unopposed(repository: Repository) -> None:
    """Flux has applied the last commit, and has found no drift since. It compares an object that it has read with a dry run a
    moment later: a write of ours in between is a difference as well, but seldom.
    """
    actions = repository.actions()
    assert actions[-1] == "unchanged" and actions[1:].count("configured") <= 1, actions


@pytest.mark.parametrize("kind", KINDS_OF_CONTROLLERS)
def test_commit(publish, make, images, kind):
    """No pod is replaced, and Flux finds no drift, neither during the update nor after it."""
    workload = make(kind, 3, minReadySeconds=3)
    repository = publish(workload, images[0])
    before = workload.strategy()
    with none_replaced(workload):
        repository.commit(manifest(workload, images[1]))
        wait_until(lambda: rollout_is_open(workload), RUNS, "the update")
        repository.wait_reconciled(2)
        assert is_held(workload), "the update was over before the next reconciliation"
        wait_updated(workload, images[1])
    assert workload.strategy() == before
    repository.wait_reconciled()
    assert repository.actions()[0] == "configured"
    assert_unopposed(repository)
    assert events(workload) == ["InPlaceUpdateStarted", "InPlaceUpdateSucceeded"]


@pytest.mark.parametrize("kind", KINDS_OF_CONTROLLERS)
def test_put_back(cluster, publish, make, images, kind):
    """A change by hand is put back in place, and so is a commit that is reverted in the middle of its update."""
    workload = make(kind, 3, minReadySeconds=1)
    repository = publish(workload, images[0])
    with none_replaced(workload):
        cluster.kubectl("set", "image", workload.name, f"main={images[2]}")
        wait_until(lambda: image_of(workload.get()["spec"]["template"]) == images[0], RUNS, "the repository")
        wait_updated(workload, images[0])
        repository.commit(manifest(workload, images[1]))
        wait_until(lambda: images[1] in map(image_of, workload.pods()), RUNS, "the first pod", 0.02)
        repository.commit(manifest(workload, images[0]))
        wait_until(lambda: repository.actions(), RUNS, "the revert")
        wait_updated(workload, images[0])
    repository.wait_reconciled()
    assert_unopposed(repository)


@pytest.mark.parametrize("kind", KINDS_OF_CONTROLLERS)
def test_more_than_images(publish, make, images, kind):
    """An ordinary rollout, as soon as Flux has applied the commit."""
    workload = make(kind)
    repository = publish(workload, images[0])
    uids = workload.uids()
    repository.commit(manifest(workload, images[1], env=[{"name": "A", "value": "1"}]))
    wait_until(lambda: repository.actions(), RUNS, "the commit")
    assert not is_held(workload)
    wait_until(lambda: [image_of(pod) for pod in workload.ready()] == [images[1]] * workload.n_pods, RUNS, "the rollout")
    assert not uids & workload.uids()


@pytest.mark.parametrize("kind", KINDS_OF_CONTROLLERS)
def test_bad_image(publish, make, images, kind):
    """It stops after one pod, which Flux learns of a Deployment; the next commit heals the workload."""
    workload = make(kind)
    repository = publish(workload, images[0], must_wait=kind == "deployment")
    with none_replaced(workload):
        repository.commit(manifest(workload, images[3]))
        wait_until(lambda: STATUS in annotations_of(workload), RUNS, "the reason")
        if kind == "deployment":
            wait_until(lambda: any("status: 'Failed'" in one.get("error", "") for one in repository.reconciliations()),
                       RUNS, "Flux's verdict")
        repository.wait_reconciled(2)
        assert [image_of(pod) for pod in workload.pods()].count(images[3]) == 1
        repository.commit(manifest(workload, images[1]))
        wait_updated(workload, images[1])
        repository.wait_reconciled(2)
        assert "error" not in repository.reconciliations()[-1]

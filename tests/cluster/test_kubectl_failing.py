# SPDX-License-Identifier: Apache-2.0
"""Proves that any allocation and any system call of `kubectl inplace` may fail during an update in place: the same command
ends the update well, and no pod is lost; and in its rehearsal, which changes nothing.
"""

from __future__ import annotations

import itertools

import pytest

from rollouts import *  # noqa: F403
from lab.failing_call import FailingCall, time_limit

pytestmark = [pytest.mark.slow, pytest.mark.containers, pytest.mark.timeout(time_limit(900))]

LOST_SECONDS = 180  # libcurl 7.88 without memory may lose an answer: a list and its repetition take 30 s each then


def test_update(make, inplace, images, folder, capsys):
    """It is done, or the tool says why not and the next call does the rest."""
    failing = FailingCall(folder / "failing", "kubectl-inplace")
    workload = make("deployment")
    uids, strategy = workload.uids(), workload.strategy()
    targets = itertools.cycle(images[1::-1])

    def run():
        image = next(targets)
        command = ["set", "image", workload.name, f"main={image}"]
        ran = inplace.run(*command, timeout=LOST_SECONDS, **failing.environment)
        failing.disarm()
        assert ran.code in (0, 1, 3) and (ran.code == 0 or ran.stderr), ran
        if ran.code != 0:
            assert_done(inplace.run(*command))
        workload.assert_runs(image)
        assert workload.uids() == uids and workload.strategy() == strategy

    for point in failing.points(run):
        with failing.at(point):
            run()
    with none_replaced(workload):  # for minutes the API server keeps no changes to watch from
        run()
    with capsys.disabled():
        print(f"\n{failing}")
    failing.close()


def test_rehearsal(make, inplace, images, folder, capsys):
    """It changes nothing, neither of the workload nor of a pod, whatever it lacks."""
    failing = FailingCall(folder / "failing", "kubectl-inplace")
    workload = make("deployment")
    command = ["set", "image", workload.name, f"main={images[1]}", "--dry-run=server"]

    def state():
        pods = {pod["metadata"]["uid"]: pod["metadata"]["generation"] for pod in workload.pods()}
        return workload.get()["metadata"]["generation"], pods

    before = state()

    def run():
        ran = inplace.run(*command, **failing.environment)
        failing.disarm()
        assert ran.code in (0, 1) and (ran.code == 0 or ran.stderr), ran
        assert state() == before

    for point in failing.points(run):
        with failing.at(point):
            run()
    with capsys.disabled():
        print(f"\n{failing}")
    failing.close()

# SPDX-License-Identifier: Apache-2.0
"""Proves the rules of the model in tests/model on the real controllers: each recording is what they do.

A recording is a list of writes, and of the facts when the controllers had nothing left to do; simulate-updates --replay
repeats it in the model. With INPLACED_RECORD=1 the facts are written anew:

    sudo INPLACED_RECORD=1 INPLACED_BUILD_DIR=build/dev /usr/bin/python3 -m pytest -p no:cacheprovider \
        tests/cluster/test_model.py
"""

from __future__ import annotations

import json
import os
import pathlib
import time
from typing import Any

import pytest

from rollouts import *  # noqa: F403
from lab.kube import Object
from lab.kubelet import is_ready
from lab.wait import wait_until

pytestmark = [pytest.mark.containers, pytest.mark.timeout(300 * SLOWLY)]

RECORDINGS = pathlib.Path(__file__).parent.parent / "model" / "recordings"
APPS = "/apis/apps/v1/namespaces/default"
REVISION = "controller-revision-hash"
STEADY_SEC = 5  # time without a change


class Watched:
    """A workload, and since which turn each of its pods is there."""

    def __init__(self, workload: Workload, images: list[str]) -> None:
        self.workload = workload
        self.kube = workload.kube
        self.names = dict(zip(images, "AB"))
        self.images = dict(zip("AB", images))
        self.since: dict[str, int] = {}

    def all_pods(self) -> list[Object]:
        return self.kube.list(PODS, labelSelector=f"app={self.workload.app}")

    def is_quiet(self) -> bool:
        workload, pods = self.workload.get(), self.all_pods()
        wanted = workload["spec"].get("replicas", 1)
        observed = workload["status"].get("observedGeneration") == workload["metadata"]["generation"]
        ready = [pod for pod in pods if is_ready(pod) and "deletionTimestamp" not in pod["metadata"]]
        return observed and len(pods) == len(ready) == wanted

    def owned(self, resource: str) -> list[Object]:
        uid = self.workload.get()["metadata"]["uid"]
        found = self.kube.list(f"{APPS}/{resource}")
        return [
            one for one in found if any(owner["uid"] == uid for owner in one["metadata"].get("ownerReferences", []))
        ]

    def facts(self, turn: int) -> Object:
        workload, kind = self.workload.get(), self.workload.kind
        status = workload["status"]
        pods = []
        for pod in self.all_pods():
            since = self.since.setdefault(pod["metadata"]["uid"], turn)
            entry: list[Any] = [self.names[image_of(pod)], since]
            if kind == "statefulset":
                entry.append(pod["metadata"]["labels"][REVISION] == status["updateRevision"])
            pods.append(entry)
        updated = "updatedNumberScheduled" if kind == "daemonset" else "updatedReplicas"
        facts: Object = {"pods": sorted(pods), "updated": status.get(updated, 0)}
        if kind == "deployment":
            facts["replicaSets"] = sorted(
                [
                    self.names[image_of(one["spec"]["template"])],
                    one["spec"]["replicas"],
                    one["status"].get("replicas", 0),
                    RECORD in one["metadata"]["annotations"],
                ]
                for one in self.owned("replicasets")
            )
        else:
            facts["revisions"] = len(self.owned("controllerrevisions"))
        if kind == "statefulset":
            facts["isCurrent"] = status["currentRevision"] == status["updateRevision"]
        return facts

    def body(self, write: Object) -> Object:
        body = json.loads(json.dumps(write["body"]).replace('"app"', '"main"'))
        for place in (body.get("spec", {}), body.get("spec", {}).get("template", {}).get("spec", {})):
            for container in place.get("containers", []):
                container["image"] = self.images[container["image"]]
        labels = body.get("metadata", {}).get("labels", {})
        if labels.get(REVISION) == "UPDATE":
            labels[REVISION] = self.workload.get()["status"]["updateRevision"]
        return body

    def write(self, write: Object) -> None:
        if write["of"] == "workload":
            paths = [self.workload.path]
        elif write["of"] == "pods":
            paths = sorted(f"{PODS}/{pod['metadata']['name']}" for pod in self.all_pods())
        else:
            sets = self.owned("replicasets")
            paths = [f"{APPS}/replicasets/{one['metadata']['name']}" for one in sets if one["spec"]["replicas"]]
        for path in paths[:1] if write.get("first") else paths:
            if write.get("deletes"):
                self.kube.delete(path)
            else:
                self.kube.patch(path, self.body(write), "strategic")


def wait_steady(watched: Watched, turn: int) -> Object:
    """The facts after they have not changed for a while."""
    seen: list[Any] = [None, 0.0]

    def is_steady() -> bool:
        facts = watched.facts(turn) if watched.is_quiet() else None
        if facts is None or facts != seen[0]:
            seen[:] = [facts, time.monotonic()]
        return facts is not None and time.monotonic() > seen[1] + STEADY_SEC

    wait_until(is_steady, 120 * SLOWLY, "steady facts")
    return seen[0]


@pytest.mark.parametrize("kind", ["deployment", "statefulset", "daemonset"])
def test_recorded(make, images, kind):
    """The controllers do what the model does, which repeats the same recording."""
    path = RECORDINGS / f"{kind}.json"
    recording = json.loads(path.read_text())
    watched = Watched(make(kind, recording["pods"]), images[:2])
    for number, turn in enumerate(recording["turns"]):
        if "write" in turn:
            watched.write(turn["write"])
        facts = wait_steady(watched, number)
        if os.environ.get("INPLACED_RECORD"):
            turn["facts"] = facts
        else:
            assert facts == turn["facts"], turn["what"]
    if os.environ.get("INPLACED_RECORD"):
        lines = ",\n ".join(json.dumps(turn) for turn in recording["turns"])
        head = json.dumps({"kind": kind, "pods": recording["pods"]})[:-1]
        path.write_text(f'{head}, "turns": [\n {lines}\n]}}\n')

# SPDX-License-Identifier: Apache-2.0
"""Threads that request something during a soak: each actor makes its requests one after the other.

Actors only request, wait for what is visible from outside, and write down what they have requested: the ledger, which the
oracle compares with what has happened.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import grpc

from lab import documents
from lab.cri import Cri, describe_error
from lab.kube import KubeError, Object
from lab.kubelet import is_ready
from lab.node_image import NodeImage
from lab.node_pod_probe import NodePodProbe, probe, probes_of
from lab.pod import OPT_IN, Pod, container, from_annotations, from_labels, shell
from lab.recreate_request import RecreateRequest
from rollouts import Workload, image_of, set_template

from lives import Life, Wanted
from schedule import N_RELEASES, Action
from world import NODE, World, secret, uptime

Value = TypeVar("Value")

PATIENCE = 300  # seconds until a request counts as lost, on a machine however busy
_MOST_ATTEMPTS = 30  # by a person who repeats a command that failed
_AGAIN = (409, 429, 500, 502, 503, 504)
_UPDATE, HELD, UPDATE_STATUS = "inplaced.io/update", "inplaced.io/held", "inplaced.io/update-status"

# A container records its start, its preStop hook, and SIGTERM, with its VALUE. It takes its time to end, so that many a
# stop is disturbed.
_NOTE = 'note() { read -r now rest </proc/uptime; echo "$1 $now $VALUE" >>/data/life; }'
_LIVES = f"""\
{_NOTE}
trap 'note term; sleep 1; exit' TERM
note start
while :; do sleep 3600 & wait; done"""
_HOOK = {"preStop": {"exec": {"command": shell(f"{_NOTE}; note hook; sleep 0.5")}}}
_GRACE = 20


def alive(image: str, **more: Any) -> Object:
    return container("main", image, command=shell(_LIVES), lifecycle=_HOOK, **more)


@dataclass
class Ledger:
    """Requests of one actor, and their answers."""

    made: int = 0
    fulfilled: int = 0
    refused: list[str] = field(default_factory=list)  # reasons
    skipped: int = 0  # planned requests for which the time did not suffice
    seconds: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def refuse(self, code: int, complaint: str) -> None:
        """Notes the complaint of a command; one that a signal has ended has refused nothing."""
        reason = " | ".join(complaint.split("\n")).strip(" |")
        if code < 0:
            self.problems.append(f"a command ended by signal {-code}: {reason}")
        else:
            self.refused.append(reason)


class Actor(threading.Thread):
    """Makes the requests of its plan at their times; after `end`, no more. `set_up` comes before."""

    def __init__(self, world: World, name: str, plan: list[Action]) -> None:
        super().__init__(name=name, daemon=True)
        self.world = world
        self.kube = world.control_plane.make_admin()
        self.ledger = Ledger()
        self._plan = [action for action in plan if action.who == name]
        self._clock: Callable[[], float] = lambda: 0
        self._say: Callable[[str], None] = print
        self._client = threading.Lock()
        self._over = threading.Event()
        self.set_up()

    def set_up(self) -> None:
        """Runs while nothing is disturbed yet."""

    def perform(self, action: Action) -> None:
        """Makes the request and waits for its end."""
        raise NotImplementedError

    def begin(self, clock: Callable[[], float], say: Callable[[str], None]) -> None:
        """`clock` returns the seconds since the soak began; `say` prints a line."""
        self._clock, self._say = clock, say
        self.start()

    def end(self) -> None:
        """Makes no further request. One that has begun goes on; `join` waits for it."""
        self._over.set()

    def run(self) -> None:
        for number, action in enumerate(self._plan):
            if self._over.wait(max(0, action.second - self._clock())):
                self.ledger.skipped = len(self._plan) - number
                return
            began = time.monotonic()
            self.ledger.made += 1
            try:
                self.perform(action)
                outcome = "done"
            except Exception as error:  # noqa: BLE001: a request that has no end is a result
                outcome = f"FAILED: {type(error).__name__}: {error}"
                self.ledger.problems.append(f"{action}: {outcome}")
            self.ledger.seconds.append(time.monotonic() - began)
            self._say(f"{action}: {outcome} in {self.ledger.seconds[-1]:.1f} s")

    def insist(self, request: Callable[[], Value]) -> Value:
        """Repeats what an API server that is away has not answered."""
        began = time.monotonic()
        while True:
            try:
                with self._client:
                    return request()
            except (OSError, http.client.HTTPException) as error:
                last: Exception = error
            except KubeError as error:
                if error.code not in _AGAIN or error.reason == "AlreadyExists":
                    raise
                last = error
            if time.monotonic() - began > PATIENCE:
                raise TimeoutError(f"the API server did not serve a request: {last}") from last
            time.sleep(0.2)

    def wait(self, condition: Callable[[], Value], what: Callable[[], str]) -> Value:
        began = time.monotonic()
        while not (value := self.insist(condition)):
            if time.monotonic() - began > PATIENCE:
                raise TimeoutError(f"after {time.monotonic() - began:.0f} s there is no {what()}")
            time.sleep(0.1)
        return value

    def create(self, make: Callable[[], object]) -> None:
        """It may be there already: the answer to the first attempt may be lost."""
        try:
            self.insist(make)
        except KubeError as error:
            if error.reason != "AlreadyExists":
                raise


class Images(Actor):
    """Requests images in the NodeImage and withdraws others; each request has a version of its own."""

    def set_up(self) -> None:
        self.node_image = NodeImage(self.kube, NODE)
        self.names = {_name_of(image.reference) for image in self.world.images}
        self.wanted: dict[str, str] = {}  # reference → phase that it has to reach
        self.version = 0
        host = self.world.images[0].reference.partition("/")[0]
        assert self.world.vault.credentials is not None
        made = documents.pull_secret("vault", "kruise-daemon-config", host, self.world.vault.credentials)
        self.kube.create(made)
        self._secrets = [{key: made["metadata"][key] for key in ("namespace", "name")}]

    def perform(self, action: Action) -> None:
        self.version += 1
        self.wanted = {self.world.images[tag].reference: "Succeeded" for tag in action.details["tags"]}
        if action.details["missing"]:
            self.wanted[f"{self.world.images[0].reference}-missing"] = "Failed"
        images: dict[str, Object | None] = dict.fromkeys(self.names)
        for reference, phase in self.wanted.items():
            name = _name_of(reference)
            images[name] = images[name] or {"tags": [], "pullSecrets": self._secrets}
            images[name]["tags"].append(self._entry(reference, 1 if phase == "Failed" else 1000))
        self.insist(lambda: self.kube.patch(self.node_image.path, {"spec": {"images": images}}))
        if action.details["must_wait"]:
            self.wait_done()

    def wait_done(self) -> None:
        document = self.node_image.get
        self.wait(lambda: not self.unfinished(document()), lambda: f"end of {self.unfinished(document())}")
        self.ledger.fulfilled += 1
        refused = [one for one, phase in self.wanted.items() if phase == "Failed"]
        if refused:
            answered = self.insist(document)
            self.ledger.refused += [
                (documents.find_tag_status(answered, one) or {}).get("message", "") for one in refused
            ]

    def unfinished(self, document: Object) -> dict[str, object]:
        """The wanted images that are not done yet, with their statuses."""
        found = {one: documents.find_tag_status(document, one) or {} for one in self.wanted}
        return {
            one: found[one]
            for one, phase in self.wanted.items()
            if (found[one].get("phase"), found[one].get("version")) != (phase, self.version)
        }

    def _entry(self, reference: str, limit: int) -> Object:
        tag = documents.split_reference(reference)[1]
        policy = {"backoffLimit": limit, "timeoutSeconds": 60}
        return {"tag": tag, "version": self.version, "imagePullPolicy": "IfNotPresent", "pullPolicy": policy}


class Pulls(Actor):
    """A person on the node who calls `inplacectl pull`."""

    def set_up(self) -> None:
        self.present: set[str] = set()

    def perform(self, action: Action) -> None:
        reference = self.world.images[action.details["tag"]].reference
        done = self.world.agent.ctl("pull", "--timeout=60s", reference, timeout=PATIENCE)
        if done.returncode == 0:
            self.ledger.fulfilled += 1
            self.present.add(reference)
        else:
            self.ledger.refuse(done.returncode, done.stderr)


class Remover(Actor):
    """Something else on the node that removes images; the agent keeps those that the NodeImage requests."""

    def set_up(self) -> None:
        self.removed: set[str] = set()
        self._cri = Cri(self.world.node.runtime.socket)

    def perform(self, action: Action) -> None:
        reference = self.world.images[action.details["tag"]].reference
        self.removed.add(reference)
        try:
            self._cri.remove_image(reference)
            self.ledger.fulfilled += 1
        except grpc.RpcError as error:
            self.ledger.refused.append(describe_error(error))


class Podded(Actor):
    """Has a pod of its own whose container records its life; `least` and `most` restarts were requested one by one."""

    source = "annotations"

    def set_up(self) -> None:
        self.least = self.most = 0
        self.wanted: list[Wanted] = []
        env = {"annotations": from_annotations, "labels": from_labels}[self.source](VALUE="value")
        self.pod = Pod(
            self.world.node,
            alive(self.world.tools, env=env),
            name=self.name,
            owner=False,
            terminationGracePeriodSeconds=_GRACE,
            **self._metadata(),
        )
        self.pod.kube = self.kube
        self.pod.start(60)

    @property
    def life(self) -> Life:
        return Life(self.pod.lines("life"))

    def _metadata(self) -> dict[str, dict[str, str]]:
        """With the next value. Of a label it is one that is allowed there."""
        self.wanted.append(Wanted(uptime(), secret(f"{self.name}-{len(self.wanted)}")))
        metadata = {"annotations": {OPT_IN: "true"}, "labels": {}}
        metadata[self.source]["value"] = self.wanted[-1].value
        return metadata

    def change(self) -> None:
        metadata = self._metadata()
        self.insist(lambda: self.pod.change(**metadata))

    def wait_value(self) -> None:
        self.wait(
            lambda: self.life.value() == self.wanted[-1].value,
            lambda: f"start with value {len(self.wanted) - 1}: {self.life}",
        )

    def recreate(self, name: str = "main") -> None:
        """Makes a request and waits for its end: one start, or the reason why there is none."""
        request = RecreateRequest(self.pod, name)
        before = self.life.n_starts
        self.most += 1
        self.create(request.create)
        status: Object = {}

        def is_completed() -> bool:
            status.update(request.status())
            return status.get("phase") == "Completed"

        self.wait(is_completed, lambda: f"end of {status}")
        (state,) = status["containerRecreateStates"]
        if state["phase"] == "Succeeded":
            self.ledger.fulfilled += 1
        else:
            self.ledger.refused.append(state.get("message", ""))
        if state.get("isKilled"):
            self.least += 1
            self.wait(lambda: self.life.n_starts > before, lambda: f"start for {request.name}")

    def restart(self) -> None:
        ctl = self.world.agent.ctl
        self.most += 1
        done = ctl("restart", "--wait", f"{self.pod.name}/main", timeout=PATIENCE)
        if done.returncode == 0:
            self.ledger.fulfilled += 1
            self.least += 1
        else:
            self.ledger.refuse(done.returncode, done.stderr)


class Annotated(Podded):
    """Changes what its container's environment is made from: once, or several times in a row."""

    def perform(self, action: Action) -> None:
        for number in range(action.details["times"]):
            if number:
                time.sleep(action.details["pause"])
            self.change()
        self.wait_value()
        self.ledger.fulfilled += 1


class Labelled(Annotated):
    source = "labels"


class Recreated(Podded):
    def perform(self, action: Action) -> None:
        self.recreate(action.details["container"])


class Restarted(Podded):
    def perform(self, action: Action) -> None:
        self.restart()


class Mixed(Podded):
    """Requests in two ways at the same time."""

    def perform(self, action: Action) -> None:
        ways = {"change": self.change, "recreate": self.recreate, "restart": self.restart}
        threads = [threading.Thread(target=self._go, args=(ways[way],)) for way in action.details["ways"].split("+")]
        self.ledger.made += len(threads) - 1
        least = self.least
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # A single stop may serve both, so only the most is known.
        self.least = least
        self.wait_value()
        self.ledger.fulfilled += "change" in action.details["ways"]

    def _go(self, way: Callable[[], None]) -> None:
        try:
            way()
        except Exception as error:  # noqa: BLE001
            self.ledger.problems.append(f"{way.__name__}: {type(error).__name__}: {error}")


class Probed(Podded):
    """A pod that is well or not; a NodePodProbe of the node asks each second."""

    PROBE = "soak#well"

    def set_up(self) -> None:
        super().set_up()
        self.is_well = False
        self.probes = NodePodProbe(self.kube, NODE)
        asks = {"command": ["test", "-e", "/data/well"]}
        self.probes.request(probes_of(self.pod, probe(self.PROBE, exec=asks)))

    def perform(self, action: Action) -> None:
        for number in range(action.details["times"]):
            if number:
                time.sleep(0.3)
            self.is_well = not self.is_well
            if self.is_well:
                self.pod.file("well").touch()
            else:
                self.pod.file("well").unlink()
        self.wait(lambda: self.state() == self.right_state, lambda: f"{self.right_state}, but {self.state()}")
        self.ledger.fulfilled += 1

    @property
    def right_state(self) -> str:
        return "Succeeded" if self.is_well else "Failed"

    def state(self) -> str | None:
        return (self.probes.state(self.pod, self.PROBE) or {}).get("state")


class Updated(Actor):
    """A Deployment whose images are updated in place by a person, who repeats what failed."""

    kind = "deployment"

    def set_up(self) -> None:
        self.release = 0
        self.wanted = [Wanted(uptime(), "0")]
        volume = {"name": "data", "emptyDir": {}}
        image = self.world.releases[0]
        pod = {"containers": [alive(image)], "volumes": [volume], "terminationGracePeriodSeconds": _GRACE}
        self.workload = Workload(self.world, self.kind, image, 2, pod=pod)
        self.workload.kube = self.kube
        self.uids = self.workload.uids()
        self.strategy = self.workload.strategy()

    @property
    def image(self) -> str:
        return self.world.releases[self.release]

    def perform(self, action: Action) -> None:
        self.release = (self.release + action.details["step"]) % N_RELEASES
        self.wanted.append(Wanted(uptime(), str(self.release)))
        self.update()
        self.wait(self.is_updated, lambda: f"{self.image} in {self.workload.name}")
        self.ledger.fulfilled += 1

    def update(self) -> None:
        command = ("set", "image", self.workload.name, f"main={self.image}")
        for _ in range(_MOST_ATTEMPTS):
            ran = self.world.person.run(*command, timeout=PATIENCE)
            if ran.code == 0:
                return
            self.ledger.refuse(ran.code, ran.stderr)
            time.sleep(1)
        raise TimeoutError(f"{command} failed {_MOST_ATTEMPTS} times: {ran.stderr}")

    def is_updated(self) -> bool:
        pods = self.workload.pods()
        return len(pods) == self.workload.n_pods and all(
            is_ready(pod) and image_of(pod) == pod["status"]["containerStatuses"][0]["image"] == self.image
            for pod in pods
        )


class Stateful(Updated):
    kind = "statefulset"


class Declared(Updated):
    """A Deployment that declares updates in place, which its owner only gives another image."""

    def set_up(self) -> None:
        super().set_up()
        self.workload.patch({"metadata": {"annotations": {_UPDATE: "InPlaceIfPossible"}}})

    def update(self) -> None:
        self.insist(lambda: self.workload.patch(set_template(self.image)))
        self.wait(lambda: self.is_updated() and not self.is_held(), lambda: f"end of {self.marks()}")

    def marks(self) -> dict[str, str]:
        annotations = self.workload.get()["metadata"].get("annotations", {})
        return {key: annotations[key] for key in (HELD, UPDATE_STATUS) if key in annotations}

    def is_held(self) -> bool:
        return bool(self.marks())


def make_actors(world: World, plan: list[Action]) -> list[Actor]:
    kinds = {
        "images": Images,
        "pull": Pulls,
        "remover": Remover,
        "annotated": Annotated,
        "labelled": Labelled,
        "mixed": Mixed,
        "recreated": Recreated,
        "restarted": Restarted,
        "probe": Probed,
        "updated": Updated,
        "stateful": Stateful,
        "declared": Declared,
    }
    return [kind(world, name, plan) for name, kind in kinds.items()]


def _name_of(reference: str) -> str:
    return documents.split_reference(reference)[0]

# SPDX-License-Identifier: Apache-2.0
"""Judges a soak from outside, by the API server, the runtime, /proc, and what containers and programs have written.

Nothing of the agent's code and none of its own answers are used. Each check is a function that returns complaints; what
takes a moment after the last disturbance is waited for, with a limit.
"""

from __future__ import annotations

import base64
import http.client
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import yaml

from lab.kube import KubeError, Object
from lab.kubelet import is_ready
from lab.pod import VERIFIED, expected_meta
from lab.wait import wait_until

from actors import Actor, Images, Podded, Probed, Pulls, Remover, Updated
from chaos import Chaos
from growth import Growth
from lives import Life, Verdict, judge
from world import World, secret

_SETTLE = 120  # seconds
_COMES_BACK = 10  # seconds in which the agent pulls again what was removed, after another such image
_MOST_REFUSED = 5  # requests of one actor that may all meet a disturbance
_WATCH_EVERY = 0.3


class Oracle:
    """`checks` are the promises by name; each returns complaints."""

    def __init__(self, world: World, actors: list[Actor], chaos: Chaos, growths: list[Growth]) -> None:
        self._world = world
        self._kube = world.admin
        self._actors = actors
        self._chaos = chaos
        self._growths = growths
        self.verdicts: dict[str, Verdict] = {}
        self._regressions: dict[tuple[str, int], str] = {}
        self._finished: set[tuple[str, int]] = set()
        self.checks: dict[str, Callable[[], list[str]]] = {
            "each request is fulfilled, or refused with a reason": self._check_requests,
            "each restart happens exactly once": self._check_lives,
            "pods are ready, verified and the same as before": self._check_pods,
            "no image is missing or too many": self._check_images,
            "a finished image stays finished": self._check_regressions,
            "probes report what is so": self._check_probes,
            "no workload is held, no pod is replaced": self._check_workloads,
            "descriptors, threads and memory do not grow": self._check_growth,
            "no secret is in any log": self._check_secrets,
            # Last, since a program may end while the others are checked.
            "no program under test ends by itself": self._check_ends,
        }
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def _see(self, document: Object) -> None:
        """Notes regressions, which may not be seen any more at the end."""
        statuses = document.get("status", {}).get("imageStatuses") or {}
        for name in self._of(Images).names & statuses.keys():
            for tag in (statuses[name] or {}).get("tags") or []:
                key = (f"{name}:{tag['tag']}", tag.get("version", 0))
                if tag["phase"] in ("Succeeded", "Failed"):
                    self._finished.add(key)
                elif key in self._finished:
                    self._regressions[key] = f"{key[0]} of version {key[1]} was finished, and is {tag['phase']} again"

    def _watch(self) -> None:
        """Runs beside the soak, since the API server may be frozen."""
        kube = self._world.control_plane.make_admin()
        path = self._of(Images).node_image.path
        while True:
            with suppress(OSError, http.client.HTTPException, KubeError):
                self._see(kube.get(path))
            time.sleep(_WATCH_EVERY)

    def _of(self, kind: type) -> Any:
        return next(actor for actor in self._actors if isinstance(actor, kind))

    def _all(self, kind: type) -> list[Any]:
        return [actor for actor in self._actors if isinstance(actor, kind)]

    def _check_requests(self) -> list[str]:
        found = [f"{actor.name}: {one}" for actor in self._actors for one in actor.ledger.problems]
        found += [f"{actor.name} still waits" for actor in self._actors if actor.is_alive()]
        found += [
            f"{actor.name}: none of {actor.ledger.made} requests was fulfilled"
            for actor in self._actors
            if actor.ledger.made > _MOST_REFUSED and not actor.ledger.fulfilled
        ]
        found += [
            f"{actor.name}: refused without a reason"
            for actor in self._actors
            for reason in actor.ledger.refused
            if not reason.strip()
        ]
        images = self._of(Images)
        found += _await(
            lambda: [
                f"image {one}: {status or 'no status'}"
                for one, status in images.unfinished(images.node_image.get()).items()
            ]
        )
        return found

    def _check_ends(self) -> list[str]:
        """A controller may end, and be started again: when another one leads, or its API server is away for long."""
        self._chaos.revive()
        return [
            f"{name} ended by itself with {code}"
            for name, code in self._chaos.ended
            if name == "agent" or (name == "controller" and code < 0)
        ]

    def _check_lives(self) -> list[str]:
        found = []
        for actor in self._all(Podded):
            found += self._judge(actor.name, actor.pod.uid, actor)
        for actor in self._all(Updated):
            for uid in sorted(actor.uids):
                found += self._judge(actor.name, uid, actor)
        return found

    def _judge(self, name: str, uid: str, actor: Any) -> list[str]:
        path = self._world.life_file(uid)
        if not path.exists():
            return [f"{name}: the pod {uid} is gone"]
        life = Life(path.read_text().splitlines())
        if isinstance(actor, Podded):
            verdict = judge(life, actor.wanted, actor.least, actor.most)
        else:
            verdict = judge(life, actor.wanted, by_agent=False)
        self.verdicts[f"{name} {uid[:4]}"] = verdict
        return [f"{name}: {one}: {life}" for one in verdict.complaints]

    def _check_pods(self) -> list[str]:
        return [one for actor in self._all(Podded) for one in _await(lambda actor=actor: self._faults_of(actor))]

    def _faults_of(self, actor: Podded) -> list[str]:
        pod = actor.pod.get()
        if pod["metadata"]["uid"] != actor.pod.uid:
            return [f"{actor.name} is another pod"]
        conditions = {one["type"]: one for one in pod["status"].get("conditions", [])}
        found = []
        if not is_ready(pod):
            found.append(f"{actor.name} is not ready")
        if conditions.get(VERIFIED, {}).get("status") != "True":
            found.append(f"{actor.name}: {conditions.get(VERIFIED)}")
        if (actor.pod.meta() or {}).get("containers") != expected_meta(pod):
            found.append(f"{actor.name}: its annotation is {actor.pod.meta()}, not {expected_meta(pod)}")
        if actor.pod.environment("main").get("VALUE") != actor.wanted[-1].value:
            found.append(f"{actor.name}: its process has another value")
        running = [one for one in self._world.node.runtime.cri.pod_containers(actor.pod.uid) if one.state == 1]
        if [one.metadata.attempt for one in running] != [actor.pod.status("main")["restartCount"]]:
            found.append(f"{actor.name}: the runtime has {running}, the pod {actor.pod.status('main')}")
        return found

    def _check_images(self) -> list[str]:
        return _await(self._faults_of_images) or self._faults_of_removals()

    def _faults_of_removals(self) -> list[str]:
        """Images are removed while no agent runs: the next run pulls one again that the NodeImage requests, and none that was
        withdrawn, or that a call has pulled which is over.
        """
        world, cri = self._world, self._world.node.runtime.cri
        wanted = [one for one, phase in self._of(Images).wanted.items() if phase == "Succeeded"]
        others = [image.reference for image in world.images if image.reference not in wanted]
        ended = world.agent.terminate()
        if ended.code != 0:
            self._chaos.ended.append(("agent", ended.code))
        for reference in wanted[:1] + others:
            cri.remove_image(reference)
        world.agent.start()
        missing = _await(lambda: [f"{one} was removed, and is missing" for one in wanted[:1] if not cri.image_status(one)])
        held = lambda: [one for one in others if cri.image_status(one)]  # noqa: E731
        with suppress(TimeoutError):
            wait_until(held, _COMES_BACK, "image that is too many", 0.2, is_exact=True)
        return missing + [f"{one} is too many: nothing requests it" for one in held()]

    def _faults_of_images(self) -> list[str]:
        world, images = self._world, self._of(Images)
        cri = world.node.runtime.cri
        ids = {image.reference: image.image_id for image in world.images}
        present = [one for one, phase in images.wanted.items() if phase == "Succeeded"]
        present += sorted(self._of(Pulls).present - self._of(Remover).removed)
        found = [f"{one} is missing" for one in present if (held := cri.image_status(one)) is None or held.id != ids[one]]
        document = images.node_image.get()
        for name in images.names:
            listed = (document["status"]["imageStatuses"].get(name) or {}).get("tags") or []
            extra = [one["tag"] for one in listed if f"{name}:{one['tag']}" not in images.wanted]
            found += [f"{name}:{tag} was withdrawn, and is in the status" for tag in extra]
        return found

    def _check_regressions(self) -> list[str]:
        """A watcher that has died, or has seen no image that was finished, has not judged anything."""
        found = list(self._regressions.values())
        if not self._watcher.is_alive():
            found.append("the watcher of the NodeImage has died, see above")
        if not self._finished:
            found.append("no image was seen finished")
        return found

    def _check_probes(self) -> list[str]:
        actor = self._of(Probed)
        return _await(lambda: [] if actor.state() == actor.right_state else [f"{actor.right_state}, but {actor.state()}"])

    def _check_workloads(self) -> list[str]:
        found = []
        for actor in self._all(Updated):
            found += _await(lambda actor=actor: self._faults_of_workload(actor))
            found += self._replacements(actor)
        return found

    def _faults_of_workload(self, actor: Updated) -> list[str]:
        workload = actor.workload
        annotations = workload.get()["metadata"].get("annotations", {})
        found = [f"{workload.name}: {key} is {annotations[key]}" for key in _HOLDS if key in annotations]
        if not actor.is_updated():
            found.append(f"{workload.name} does not run {actor.image}")
        if workload.strategy() != actor.strategy:
            found.append(f"{workload.name}: its strategy is {workload.strategy()}, not {actor.strategy}")
        record = workload.record()
        if record is not None and record["state"] in ("forward", "undo"):
            found.append(f"{workload.name}: its update is open")
        return found

    def _replacements(self, actor: Updated) -> list[str]:
        if actor.workload.uids() != actor.uids:
            return [f"{actor.workload.name} has other pods than before"]
        made = [one for one in self._kube.list("/api/v1/namespaces/default/events")
                if one["reason"] in ("SuccessfulCreate", "SuccessfulDelete")
                and one["involvedObject"]["name"].startswith(actor.workload.app)]
        n_made = sum(one.get("count") or 1 for one in made)
        return [] if n_made == actor.workload.n_pods else [f"{actor.workload.name}: {n_made} pods made and deleted"]

    def _check_growth(self) -> list[str]:
        return [one for growth in self._growths for one in growth.complaints()]

    def _check_secrets(self) -> list[str]:
        kubeconfig = yaml.safe_load((self._world.folder / "agent.conf").read_text())
        login = base64.b64encode(":".join(self._world.vault.credentials).encode())  # as in a header and in a pull secret
        needles = [secret("").encode(), kubeconfig["users"][0]["user"]["token"].encode(), login]
        return [
            f"{path} has {text.count(needle)} times a secret: {_around(text, needle)}"
            for path, text in self._texts()
            for needle in needles
            if needle in text
        ]

    def _texts(self) -> Iterator[tuple[str, bytes]]:
        """All that the programs under test have written: logs, state, and into the API server."""
        world = self._world
        for path in (world.agent.log_path, world.controller_log, *world.agent.state_dir.rglob("*")):
            if path.is_file():
                yield path.name, path.read_bytes()
        yield "the audit log", (world.control_plane.folder / "audit.log").read_bytes()
        for actor in self._actors:
            yield f"output for {actor.name}", repr(actor.ledger).encode()
        events = self._kube.list("/api/v1/namespaces/default/events")
        yield "events", repr(events).encode()
        yield "NodeImage", repr(self._of(Images).node_image.get().get("status")).encode()


_HOLDS = ("inplaced.io/held", "inplaced.io/update-status")


def _await(find: Callable[[], list[str]]) -> list[str]:
    """Gives complaints a while to vanish; returns those that do not."""
    last: list[str] = []

    def is_well() -> bool:
        try:
            last[:] = find()
        except Exception as error:  # noqa: BLE001: the last one is the complaint
            last[:] = [f"{type(error).__name__}: {error}"]
        return not last

    try:
        wait_until(is_well, _SETTLE, "well", 0.2)
    except TimeoutError:
        return last
    return []


def _around(text: bytes, needle: bytes) -> str:
    at = text.index(needle)
    return repr(text[max(at - 80, 0) : at])

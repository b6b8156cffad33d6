# SPDX-License-Identifier: Apache-2.0
"""Nodes that are NodeImages and nothing else: a thread plays the agents of all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from lab.cleanup import Closing
from lab.control_plane import ControlPlane
from lab.kube import Kube, KubeError, Object

PATH = "/apis/apps.kruise.io/v1beta1/nodeimages"


class HollowNodes(Closing):
    """NodeImages `PREFIX-0000` and so on, with the label lab/hollow=PREFIX.

    What is requested of them is pulled at once, unless `outcome(node, tag)` returns why it fails. Between
    `hold()` and `release()` it is taken up and not pulled; of nodes in `mute` no agent answers.
    """

    def __init__(self, control_plane: ControlPlane, prefix: str, n: int) -> None:
        self.kube = control_plane.make_admin()
        self._watcher = control_plane.make_admin()
        self._agent = control_plane.make_admin()
        self.prefix = prefix
        self.names = [f"{prefix}-{i:04}" for i in range(n)]
        self.outcome: Callable[[str, str], str | None] = lambda node, tag: None
        self.most_at_once = 0
        self.requested: list[str] = []  # nodes, in the order in which they were
        self.mute: set[str] = set()
        self._unfinished: dict[str, Object] = {}
        self._is_held = False
        self._is_over = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._play, daemon=True)

    @property
    def selector(self) -> str:
        return f"lab/hollow={self.prefix}"

    def start(self) -> None:
        for name in self.names:
            self.kube.create(
                {
                    "apiVersion": "apps.kruise.io/v1beta1",
                    "kind": "NodeImage",
                    "metadata": {"name": name, "labels": {"lab/hollow": self.prefix}},
                    "spec": {"images": {"other": {"tags": [{"tag": "1"}]}}},
                }
            )
        self._thread.start()

    def close(self) -> None:
        self._is_over = True
        self.kube.request("DELETE", f"{PATH}?labelSelector={self.selector.replace('/', '%2F')}")
        self._thread.join(10)
        self.kube.close()
        self._watcher.close()
        self._agent.close()

    def get(self, name: str) -> Object:
        return self.kube.get(f"{PATH}/{name}")

    def tags(self, image: str) -> list[str]:
        """The nodes of which it is requested now, in any version."""
        found = self.kube.list(PATH, labelSelector=self.selector)
        return [
            one["metadata"]["name"] for one in found if image in one["spec"].get("images", {})
        ]

    def hold(self) -> None:
        """No pull ends from now on."""
        with self._lock:
            self._is_held = True

    def release(self) -> None:
        with self._lock:
            self._is_held = False
            held = list(self._unfinished.values())
        for node_image in held:
            self._answer(self.kube, node_image)

    # Inside

    def _play(self) -> None:
        with suppress(OSError, ValueError, TimeoutError, KubeError):
            for event in self._watcher.watch(PATH, 300, labelSelector=self.selector):
                if self._is_over:
                    return
                if event["type"] in ("ADDED", "MODIFIED"):
                    self._see(event["object"])

    def _see(self, node_image: Object) -> None:
        name = node_image["metadata"]["name"]
        with self._lock:
            if not _unfinished(node_image):
                self._unfinished.pop(name, None)
                return
            if name not in self._unfinished:
                self.requested.append(name)
            self._unfinished[name] = node_image
            self.most_at_once = max(self.most_at_once, len(self._unfinished))
            is_held = self._is_held
        self._answer(self._agent, node_image, is_held)

    def _answer(self, kube: Kube, node_image: Object, is_held: bool = False) -> None:
        """Writes the status of all tags but those that were there from the beginning."""
        name = node_image["metadata"]["name"]
        if name in self.mute:
            return
        statuses = {
            image: {"tags": [self._status(name, tag, is_held) for tag in entry["tags"]]}
            for image, entry in node_image["spec"]["images"].items()
            if image != "other"
        }
        counts = dict.fromkeys(("desired", "succeeded", "failed", "pulling", "waiting"), 0)
        with suppress(KubeError):
            kube.patch(
                f"{PATH}/{name}/status", {"status": {**counts, "imageStatuses": statuses}}
            )

    def _status(self, node: str, tag: Object, is_held: bool) -> Object:
        if is_held:
            return {"tag": tag["tag"], "version": tag.get("version", 0), "phase": "Pulling"}
        reason = self.outcome(node, tag["tag"])
        return {
            "tag": tag["tag"],
            "version": tag.get("version", 0),
            "phase": "Failed" if reason else "Succeeded",
            "completionTime": "2026-01-02T03:04:05Z",
            **({"message": reason} if reason else {}),
        }


def _unfinished(node_image: Object) -> bool:
    """Whether a tag is requested and not done, but for those of the beginning."""
    statuses = node_image.get("status", {}).get("imageStatuses", {})
    for image, entry in node_image["spec"].get("images", {}).items():
        done = {
            (status["tag"], status.get("version", 0))
            for status in statuses.get(image, {}).get("tags", [])
            if "completionTime" in status
        }
        for tag in entry["tags"]:
            if image != "other" and (tag["tag"], tag.get("version", 0)) not in done:
                return True
    return False

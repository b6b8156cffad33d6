# SPDX-License-Identifier: Apache-2.0
"""A node whose kubelet collects unused images as soon as its disk is nearly full, and images on it that are pinned."""

from __future__ import annotations

import subprocess
import time
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lab import disk, sanitizers
from lab.agent import Agent
from lab.containerd import Containerd
from lab.control_plane import ControlPlane
from lab.kubelet import Kubelet
from lab.node_image import NodeImage
from lab.registry import PushedImage, Registry
from lab.wait import wait_until

_CONFIG = {
    "evictionHard": {"memory.available": "10Mi", "imagefs.available": "64Mi"},
    "evictionPressureTransitionPeriod": "1s",
    "imageMinimumGCAge": "1s",
    "imageMaximumGCAge": "2s",
}
_DISK_MEGABYTES = 200
_LEFT = 32 << 20  # half of what the kubelet wants to be free
_PINNED_SIZE, _OTHER_SIZE = 64 << 10, 1 << 20
_N_OTHERS = 4
_SOON = 30 * sanitizers.SLOWNESS
_PASSES = 60 * sanitizers.SLOWNESS  # the kubelet looks every 10 s, and removes an image at the second look

MARK = "inplaced.io/pinned"


def make_node(folder: Path, control_plane: ControlPlane, registry: Registry, name: str) -> Kubelet:
    """With a containerd that pins, and a small disk."""
    options = {"config": _CONFIG, "runtime": "containerd-2", "root_megabytes": _DISK_MEGABYTES}
    return Kubelet(folder, control_plane, registry, name, **options)


@dataclass(frozen=True)
class Round:
    """Pinned images that were lost, other images, those of them that stayed, and the seconds until they were gone."""

    lost: Sequence[str]
    n_others: int
    stayed: Sequence[str]
    seconds: float


class Collection:
    """Has the kubelet of a node collect images, and sees which are left.

    The node's NodeImage pins `n_pinned` images, each with content of its own; the node's agent runs.
    """

    def __init__(self, node: Kubelet, registry: Registry, agent: Agent, name: str, n_pinned: int) -> None:
        assert isinstance(node.runtime, Containerd)
        self.agent = agent
        self._kubelet = node.kubelet
        self._runtime = node.runtime
        self._registry = registry
        self._name = name
        self._pinned = [self._push(f"pinned-{n}", _PINNED_SIZE) for n in range(n_pinned)]
        self._ids = {one.reference: one.image_id for one in self._pinned}
        self._others: dict[str, str] = {}  # references, or IDs where no name is left, and what they are
        self._moved: PushedImage | None = None
        self._node_image = NodeImage(node.control_plane.admin, node.name)
        self._node_image.pin(*self._ids)
        self.wait_pinned()

    def run_round(self, number: int) -> Round:
        """Pulls other images, and fills the disk until the kubelet has removed them."""
        for n in range(_N_OTHERS):
            self._pull(f"other-{number}-{n}")
        return self._collect()

    def disturb(self, number: int) -> float:
        """Moves a tag, pulls the one that was moved before, and starts containerd again; kills it every other time.

        Returns the seconds until all are pinned.
        """
        began = time.monotonic()
        self._move_tag(number)
        if number % 2:
            self._runtime.stop()
        else:
            self._runtime.kill9()
        self._runtime.start()
        self.wait_pinned()
        return time.monotonic() - began

    def restart_kubelet(self) -> None:
        """The kubelet then knows no image of before."""
        self._kubelet.stop()
        self._kubelet.start()

    def remove_pins(self) -> list[str]:
        """Ends the agent, as its package does when it is removed. Returns the names that still have its label, or are
        reported as pinned."""
        self.agent.terminate()
        argv = [self.agent.argv[0], "--remove-pins", f"--runtime-endpoint={self._runtime.endpoint}",
                f"--state-dir={self.agent.state_dir}"]
        subprocess.run(argv, env=sanitizers.environment(), capture_output=True, timeout=60, check=True)
        marked = self._runtime.ctr("images", "ls", "--quiet", f'labels."{MARK}"').stdout.split()
        statuses = {reference: self._runtime.image_status(reference) for reference in self._ids}
        return [*marked, *(reference for reference, found in statuses.items() if found is None or found.pinned)]

    def collect_pinned(self) -> Round:
        """After the removal of the pins."""
        self._others |= {reference: reference for reference in self._ids}
        self._ids.clear()
        return self._collect()

    def wait_pinned(self) -> None:
        wait_until(lambda: not self._find_lost(), _SOON, lambda: f"pins of {self._find_lost()}")

    def _push(self, tag: str, size: int) -> PushedImage:
        kind = tag.partition("-")[0]
        return self._registry.push_image(f"{self._name}/{kind}", tag, [size], labels={"tag": tag}, seed=zlib.crc32(tag.encode()))

    def _pull(self, tag: str) -> PushedImage:
        """An image that nothing pins."""
        pushed = self._push(tag, _OTHER_SIZE)
        self._runtime.pull(pushed.reference)
        self._others[pushed.reference] = pushed.reference
        return pushed

    def _move_tag(self, number: int) -> None:
        """To a new image, and the tag of the last time back, by a pull; either drops the labels of the tag."""
        if self._moved is not None:
            self._runtime.pull(self._moved.reference)
            self._ids[self._moved.reference] = self._moved.image_id
        self._moved = moved = self._pinned[number % len(self._pinned)]
        new = self._pull(f"new-{number}")
        done = self._runtime.ctr("images", "tag", "--force", new.reference, moved.reference)
        assert done.returncode == 0, done
        self._runtime.untag(new.reference)
        del self._others[new.reference]
        self._others[moved.image_id] = f"what {moved.reference} named before"
        self._ids[moved.reference] = new.image_id

    def _find_lost(self) -> list[str]:
        """Names of another image than they should be, or of none, or of one that the kubelet may remove."""

        def is_kept(reference: str, image_id: str) -> bool:
            found = self._runtime.image_status(reference)
            return found is not None and found.pinned and found.id == image_id

        return [reference for reference, image_id in self._ids.items() if not is_kept(reference, image_id)]

    def _find_others(self) -> list[str]:
        return [what for reference, what in self._others.items() if self._runtime.image_status(reference) is not None]

    def _collect(self) -> Round:
        began = time.monotonic()
        filler = disk.fill(self._runtime, _LEFT)
        with suppress(TimeoutError):
            wait_until(lambda: not self._find_others(), _PASSES, "end of the other images", 0.1)
        done = Round(self._find_lost(), len(self._others), self._find_others(), time.monotonic() - began)
        filler.unlink()
        self._others.clear()
        return done

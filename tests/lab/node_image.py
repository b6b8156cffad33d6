# SPDX-License-Identifier: Apache-2.0
"""The NodeImage of one node in a cluster, as a controller writes it and reads its status."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lab import documents
from lab.kube import Kube, Object, one_of

GROUP = "apps.kruise.io"
_SELECTOR = "inplaced.io/node-selector"
COUNTS = ("desired", "succeeded", "failed", "pulling", "waiting")


class NodeImage:
    """Calls the API server as the user of `kube`. The object need not be there."""

    def __init__(self, kube: Kube, name: str, version: str = "v1beta1") -> None:
        self.kube = kube
        self.name = name
        self.version = version
        self.path = f"/apis/{GROUP}/{version}/nodeimages/{name}"

    def create(self, *references: str, labels: dict[str, str] | None = None, **more: Any) -> Object:
        """It requests these images, if any; `more` as for `request`."""
        document = documents.node_image(references, **more)
        document["apiVersion"] = f"{GROUP}/{self.version}"
        document["metadata"] = {"name": self.name, "labels": labels or {}}
        return self.kube.create(document)

    def request(
        self,
        *references: str,
        policy: str = "IfNotPresent",
        version: int = 0,
        secrets: list[dict[str, str]] | None = None,
        **pull_policy: int,
    ) -> Object:
        """Requests these images, and withdraws all others; `secrets` are for all of them."""
        spec = documents.node_image(references, policy, version, **pull_policy)["spec"]
        if secrets:
            for image in spec["images"].values():
                image["pullSecrets"] = secrets
        return self.set_spec(spec)

    def add(self, *references: str, policy: str = "IfNotPresent", **pull_policy: int) -> Object:
        """Requests these images beside the others."""
        return self.kube.patch(self.path, {"spec": documents.node_image(references, policy, **pull_policy)["spec"]})

    def settle(self, reference: str) -> None:
        """Has one more image pulled: when it is done, all earlier statuses are written."""
        self.add(reference)
        self.wait_status(reference, "Succeeded")

    def pin(self, *references: str) -> Object:
        """Requests these images, pinned, and withdraws all others. An API server drops `pin` of a tag."""
        spec = documents.node_image(references)["spec"]
        for image in spec["images"].values():
            image["sandboxConfig"] = {"annotations": {"inplaced.io/pin": "true"}}
        return self.set_spec(spec)

    def set_spec(self, spec: Object) -> Object:
        return self.kube.patch(self.path, [{"op": "add", "path": "/spec", "value": spec}], "json")

    def patch_status(self, status: Object) -> Object:
        """As the agent or a manager does."""
        return self.kube.patch(f"{self.path}/status", {"status": status})

    def delete(self) -> None:
        self.kube.delete(self.path)

    def get(self) -> Object:
        return self.kube.get(self.path)

    def find(self) -> Object | None:
        return self.kube.find(self.path)

    def status(self) -> Object:
        """Empty while there is none."""
        return self.get().get("status", {})

    def tag_status(self, reference: str) -> Object | None:
        return documents.find_tag_status(self.get(), reference)

    def wait_status(self, reference: str, phase: str, timeout: float = 30) -> Object:
        """Waits until the status says so; returns the status of the reference."""

        def reached() -> Object | None:
            found = self.tag_status(reference)
            return found if found is not None and found["phase"] == phase else None

        return self._wait(
            reached, timeout, lambda: f"{phase} of {reference}, but {self.tag_status(reference)}"
        )

    def counts(self) -> tuple[int, ...]:
        """The numbers of tags, as COUNTS calls them; empty while there is no status."""
        status = self.status()
        return tuple(status[key] for key in COUNTS) if status else ()

    def wait_counts(self, *numbers: int, timeout: float = 30) -> Object:
        """Waits until there are so many; returns the status."""
        self._wait(lambda: self.counts() == numbers, timeout, lambda: f"{numbers}: {self.status()}")
        return self.status()

    def watch(self, timeout: float = 30, since: Object | None = None) -> Iterator[Object]:
        """As Kube.watch, of this one object.

        What the server begins with may be a little older than what it has answered before; with
        `since`, a state of the object, only what comes after that is returned.
        """
        path = self.path.rpartition("/")[0]
        query = {"fieldSelector": f"metadata.name={self.name}"}
        if since is not None:
            query["resourceVersion"] = since["metadata"]["resourceVersion"]
        return self.kube.watch(path, timeout, **query)

    def events(self, namespace: str = "default") -> list[Object]:
        """The events about this NodeImage."""
        path, query = self._list_of_events(namespace)
        return self.kube.list(path, **query)

    def wait_events(self, n: int = 1, timeout: float = 10) -> list[Object]:
        """Waits until there are so many about it, or more."""
        about = self._list_of_events("default")
        self.kube.wait_until(lambda: len(self.events()) >= n, about, timeout, lambda: f"{n}: {self.events()}")
        return self.events()

    def _list_of_events(self, namespace: str) -> tuple[str, dict[str, str]]:
        selector = f"involvedObject.kind=NodeImage,involvedObject.name={self.name}"
        return f"/api/v1/namespaces/{namespace}/events", {"fieldSelector": selector}

    def _wait(self, ask: Callable[[], Any], timeout: float, what: Callable[[], str]) -> Any:
        return self.kube.wait_until(ask, one_of(self.path), timeout, what)


class ImageSet(NodeImage):
    """A NodeImage that is named like no node, for the nodes that a label selector matches."""

    def create_set(self, selector: str, *references: str, **limits: int) -> Object:
        """`limits` are its annotations of that name, such as parallelism."""
        made = documents.node_image(references)
        made["apiVersion"] = f"{GROUP}/{self.version}"
        made["metadata"] = {
            "name": self.name,
            "labels": {"inplaced.io/set": ""},
            "annotations": {_SELECTOR: selector, **_limits(limits)},
        }
        return self.kube.create(made)

    def limit(self, **limits: int | None) -> None:
        """Other annotations of that name; None removes one."""
        self.kube.patch(self.path, {"metadata": {"annotations": _limits(limits)}})

    def select(self, selector: str | None) -> None:
        """None: it is no set any more."""
        self.kube.patch(self.path, {"metadata": {"annotations": {_SELECTOR: selector}}})


def _limits(limits: Mapping[str, int | None]) -> dict[str, str | None]:
    return {f"inplaced.io/{key}": None if n is None else str(n) for key, n in limits.items()}

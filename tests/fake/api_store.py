# SPDX-License-Identifier: Apache-2.0
"""The content of a FakeApiServer: objects, and the history of their changes."""

from __future__ import annotations

import copy
import itertools
import threading
import time
import uuid
from dataclasses import dataclass
from typing import Any

from fake.api_faults import status_object

Object = dict[str, Any]


@dataclass(frozen=True)
class Resource:
    group: str
    kind: str
    has_namespaces: bool
    has_status: bool


RESOURCES = {
    "nodeimages": Resource("apps.kruise.io", "NodeImage", has_namespaces=False, has_status=True),
    "nodes": Resource("", "Node", has_namespaces=False, has_status=True),
    "secrets": Resource("", "Secret", has_namespaces=True, has_status=False),
    "events": Resource("", "Event", has_namespaces=True, has_status=False),
}


class Refusal(Exception):
    """The code and the message of a Status."""

    def __init__(self, code: int, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.body = status_object(code, message, reason)


@dataclass(frozen=True)
class Change:
    """A change of an object; `kind` is the type of the watch's event."""

    version: int
    kind: str
    resource: str
    object: Object


def look_up(found: Any, *path: str) -> Any:
    """None where there is nothing."""
    for key in path:
        found = (found or {}).get(key)
    return found


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def apply_patch(target: Object, patch: Any) -> Object:
    """A merge patch, or a list of "add" and "replace" as in RFC 6902, of members of objects."""
    if not isinstance(patch, list):
        return merge(target, patch)
    patched = copy.deepcopy(target)
    for step in patch:
        *path, last = step["path"].strip("/").split("/")
        parent = look_up(patched, *path)
        if step["op"] not in ("add", "replace") or not isinstance(parent, dict):
            raise Refusal(422, f"cannot {step['op']} {step['path']}", "Invalid")
        parent[last] = step["value"]
    return patched


class ApiStore:
    """Everything may be called from any thread. What is returned is the caller's to change.

    `changed` is notified of each change, and held by callers that need more than one call to fit.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        # The newest version, and the oldest one that a watch may begin with.
        self.version, self.oldest = 100, 100
        self._objects: dict[tuple[str, str, str], Object] = {}
        self._changes: list[Change] = []
        self._numbers = itertools.count(1)

    def create(self, resource: str, made: Object) -> Object:
        with self.changed:
            metadata = {**made["metadata"]}
            if "name" not in metadata:
                metadata["name"] = f"{metadata.pop('generateName')}{next(self._numbers):x}"
            if RESOURCES[resource].has_namespaces:
                metadata.setdefault("namespace", "default")
            key = resource, metadata.get("namespace", ""), metadata["name"]
            if key in self._objects:
                text = f'{resource} "{metadata["name"]}" already exists'
                raise Refusal(409, text, "AlreadyExists")
            metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": _now()}
            return self._store("ADDED", key, {**made, "metadata": metadata})

    def get(self, resource: str, name: str, namespace: str = "") -> Object:
        with self.changed:
            found = self._objects.get((resource, namespace, name))
            if found is None:
                raise Refusal(404, f'{resource} "{name}" not found')
            return copy.deepcopy(found)

    def list(self, resource: str) -> list[Object]:
        with self.changed:
            found = [self._objects[key] for key in sorted(self._objects) if key[0] == resource]
            return copy.deepcopy(found)

    def patch(
        self, resource: str, name: str, patch: Any, namespace: str = "", status: bool = False
    ) -> Object:
        """Patches the status alone, or all but the status; see apply_patch()."""
        with self.changed:
            old = self.get(resource, name, namespace)
            new = apply_patch(old, patch)
            for key in ("resourceVersion", "uid"):
                if look_up(new, "metadata", key) not in (None, old["metadata"][key]):
                    raise Refusal(409, f'{resource} "{name}": the object has been modified')
            new["metadata"] |= {key: old["metadata"][key] for key in ("name", "uid")}
            if status:
                new = {**old, "status": new.get("status", {})}
            elif RESOURCES[resource].has_status:
                new.pop("status", None)
                new |= {"status": old["status"]} if "status" in old else {}
            if new == old:
                return old
            return self._store("MODIFIED", (resource, namespace, name), new)

    def delete(self, resource: str, name: str, namespace: str = "") -> Object:
        with self.changed:
            gone = self.get(resource, name, namespace)
            del self._objects[resource, namespace, name]
            return self._store("DELETED", (resource, namespace, name), gone)

    def bookmark(self) -> None:
        """Sends a bookmark to all watches that asked for it."""
        with self.changed:
            self.version += 1
            for resource in RESOURCES:
                self._remember("BOOKMARK", resource, {"metadata": {}})

    def compact(self) -> None:
        """Forgets all versions but the newest: a watch from an older one is 410."""
        with self.changed:
            self.version += 1
            self.oldest = self.version
            self._changes.clear()

    def changes(self, since: int) -> list[Change]:
        """Newer ones, oldest first."""
        with self.changed:
            return [change for change in self._changes if change.version > since]

    def _store(self, kind: str, key: tuple[str, str, str], stored: Object) -> Object:
        self.version += 1
        stored = copy.deepcopy(stored)
        stored["metadata"]["resourceVersion"] = str(self.version)
        if kind != "DELETED":
            self._objects[key] = stored
        self._remember(kind, key[0], stored)
        return copy.deepcopy(stored)

    def _remember(self, kind: str, resource: str, about: Object) -> None:
        self._changes.append(Change(self.version, kind, resource, about))
        self.changed.notify_all()


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

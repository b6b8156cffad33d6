# SPDX-License-Identifier: Apache-2.0
"""NodeImage documents as the agent reads and writes them where there is no API server."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any


def split_reference(reference: str) -> tuple[str, str]:
    """The image's name and its tag; for NAME@DIGEST the digest takes the tag's place."""
    name, at, digest = reference.partition("@")
    if at:
        return name, digest
    head, slash, last = reference.rpartition("/")
    last, _, tag = last.partition(":")
    return head + slash + last, tag or "latest"


def node_image(
    references: tuple[str, ...],
    policy: str = "IfNotPresent",
    version: int = 0,
    pin: bool = False,
    **pull_policy: int,
) -> dict[str, Any]:
    """A document with these images; `pull_policy` as in `timeoutSeconds=5, backoffLimit=0`."""
    images: dict[str, Any] = {}
    for reference in references:
        name, tag = split_reference(reference)
        entry: dict[str, Any] = {"tag": tag, "imagePullPolicy": policy, "version": version}
        if pin:
            entry["pin"] = True
        if pull_policy:
            entry["pullPolicy"] = pull_policy
        images.setdefault(name, {"tags": []})["tags"].append(entry)
    return {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "NodeImage",
        "metadata": {"name": "lab"},
        "spec": {"images": images},
    }


def pull_secret(name: str, namespace: str, host: str, credentials: tuple[str, str]) -> dict[str, Any]:
    """A Secret with the credentials of a registry."""
    login = base64.b64encode(":".join(credentials).encode()).decode()
    config = json.dumps({"auths": {host: {"auth": login}}}).encode()
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"name": name, "namespace": namespace},
        "data": {".dockerconfigjson": base64.b64encode(config).decode()},
    }


def find_tag_status(document: dict[str, Any], reference: str) -> dict[str, Any] | None:
    """Finds the status of one reference."""
    name, tag = split_reference(reference)
    statuses = document.get("status", {}).get("imageStatuses", {})
    tags = statuses.get(name, {}).get("tags", [])
    return next((status for status in tags if status["tag"] == tag), None)


def has_succeeded(document: dict[str, Any], reference: str) -> bool:
    """Whether a NodeImage says that the image is there; RuntimeError if it says that the pull failed."""
    status = find_tag_status(document, reference)
    if status is not None and status["phase"] == "Failed":
        raise RuntimeError(f"{reference} was not pulled: {status}")
    return status is not None and status["phase"] == "Succeeded"


def write_whole(path: Path, content: str | dict[str, Any]) -> None:
    """So that no reader ever sees half of it; a dict becomes JSON, which is YAML as well."""
    text = content if isinstance(content, str) else json.dumps(content, indent=2)
    half = path.with_name(f".{path.name}.half")
    half.write_text(text)
    os.rename(half, path)

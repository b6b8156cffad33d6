# SPDX-License-Identifier: Apache-2.0
"""Writes kubeconfig files, in each of the ways in which people have them."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from lab.documents import write_whole


def write_kubeconfig(
    path: Path,
    server: str,
    authority: Path | None,
    *,
    token: str | None = None,
    token_file: Path | None = None,
    certificate: tuple[Path, Path] | None = None,
    command: Sequence[str | Path] = (),
    is_inline: bool = False,
    namespace: str | None = None,
    **cluster: Any,
) -> Path:
    """Writes a kubeconfig with one context for one user with the given credentials; returns the path.

    `certificate` is a file and that of its key, `command` a program that prints an ExecCredential,
    with its arguments. With `is_inline` certificates are put into the file itself. `cluster` is
    more of the cluster's entry, for which - is written as _.
    """
    user: dict[str, Any] = {}
    if token is not None:
        user["token"] = token
    if token_file is not None:
        user["tokenFile"] = str(token_file)
    if certificate is not None:
        user |= _file("client-certificate", certificate[0], is_inline)
        user |= _file("client-key", certificate[1], is_inline)
    if command:
        user["exec"] = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": str(command[0]),
            "args": [str(argument) for argument in command[1:]],
            "interactiveMode": "Never",
        }
    about = {"server": server} | {name.replace("_", "-"): value for name, value in cluster.items()}
    if authority is not None:
        about |= _file("certificate-authority", authority, is_inline)
    context = {"cluster": "lab", "user": "lab"} | ({"namespace": namespace} if namespace else {})
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": about}],
        "users": [{"name": "lab", "user": user}],
        "contexts": [{"name": "lab", "context": context}],
        "current-context": "lab",
    }
    write_whole(path, yaml.safe_dump(document, sort_keys=False))
    os.chmod(path, 0o600)
    return path


def _file(name: str, path: Path, is_inline: bool) -> dict[str, str]:
    if is_inline:
        return {f"{name}-data": base64.b64encode(path.read_bytes()).decode()}
    return {name: str(path)}

# SPDX-License-Identifier: Apache-2.0
"""The hashes of the annotation apps.kruise.io/runtime-containers-meta, written down once more.

Independent of the agent's own: FNV-1a over a JSON text in the spelling of Go's encoding/json, each
of its bytes as a decimal number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_FIELD = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]", re.DOTALL)
_NEVER_COUNTED = ("SIDECARSET_VERSION", "SIDECARSET_VERSION_ALT")
_ESCAPES = {character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def env_hash(container: Mapping[str, Any], metadata: Mapping[str, Any]) -> int:
    """Hashes the variables of a container in a pod's spec, with the values that the metadata has."""
    found = [
        {"name": name, **({"value": value} if value else {})} for name, value in _variables(container, metadata)
    ]
    found.sort(key=lambda one: one["name"].encode())
    return _hash(found or None)


def env_values(container: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, str]:
    """The same variables by name, except those that another one of the name overrides."""
    last = {variable["name"]: variable for variable in container.get("env", [])}
    return dict(_variables({"env": list(last.values())}, metadata))


def _variables(container: Mapping[str, Any], metadata: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for variable in container.get("env", []):
        path = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
        field = _FIELD.fullmatch(path)
        if field is None or variable.get("value") or variable["name"] in _NEVER_COUNTED:
            continue
        yield variable["name"], metadata.get(field[1], {}).get(field[2], "")


def plain_hash(container: Mapping[str, Any]) -> int:
    """As the kubelet computes it since 1.31: of name and image alone."""
    return _hash({"image": container["image"], "name": container["name"]})


def _hash(value: Any) -> int:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    spelled = f"([]uint8)[{' '.join(map(str, text.encode()))}]"
    result = 2166136261
    for byte in spelled.encode():
        result = (result ^ byte) * 16777619 & 0xFFFFFFFF
    return result

# SPDX-License-Identifier: Apache-2.0
"""Reads a /metrics endpoint."""

from __future__ import annotations

import re
import urllib.request

from . import sanitizers

_SAMPLE = re.compile(
    r"(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)(?:\s+-?\d+)?"
)
_LABEL = re.compile(r'\s*([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


class Metrics(dict[tuple[str, frozenset[tuple[str, str]]], float]):
    """Samples by name and labels."""

    def get_value(self, name: str, **labels: str) -> float:
        """The one sample with these labels, perhaps among others; KeyError if it is not one."""
        found = [value for key, value in self.items() if _matches(key, name, labels)]
        if len(found) != 1:
            raise KeyError(f"{len(found)} samples of {name} with {labels} among {list(self)}")
        return found[0]

    def total(self, name: str, **labels: str) -> float:
        """The sum over all samples with these labels; 0 if there are none."""
        return sum(value for key, value in self.items() if _matches(key, name, labels))


def _matches(
    key: tuple[str, frozenset[tuple[str, str]]], name: str, labels: dict[str, str]
) -> bool:
    return key[0] == name and labels.items() <= dict(key[1]).items()


def parse_metrics(text: str) -> Metrics:
    """ValueError names the line that is not in the Prometheus text format."""
    metrics = Metrics()
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        sample = _SAMPLE.fullmatch(line)
        if sample is None:
            raise ValueError(f"not a sample: {line!r}")
        key = sample["name"], frozenset(_parse_labels(sample["labels"] or ""))
        if key in metrics:
            raise ValueError(f"said twice: {line!r}")
        metrics[key] = float(sample["value"])
    return metrics


def fetch_metrics(address: str, timeout: float = 5) -> Metrics:
    timeout *= sanitizers.SLOWNESS
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=timeout) as answer:
        return parse_metrics(answer.read().decode())


def _parse_labels(text: str) -> list[tuple[str, str]]:
    labels = []
    position = 0
    while position < len(text):
        label = _LABEL.match(text, position)
        if label is None:
            raise ValueError(f"not labels: {text!r}")
        value = re.sub(r"\\.", lambda found: _ESCAPES.get(found[0], found[0]), label[2])
        labels.append((label[1], value))
        position = label.end()
    return labels

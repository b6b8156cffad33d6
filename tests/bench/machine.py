# SPDX-License-Identifier: Apache-2.0
"""The machine on which the figures were measured."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from pathlib import Path


def describe() -> str:
    """Describes it in a line: "Intel(R) Xeon(R) Processor, 2 cores, 23.5 GiB, Linux 6.1.0, Debian 12.5, ..."."""
    debian = Path("/etc/debian_version").read_text().strip()
    words = [_cpu_model(), f"{os.cpu_count()} cores", f"{_memory('MemTotal') >> 20} MiB"]
    if swap := _memory("SwapTotal") >> 20:
        words.append(f"{swap} MiB of swap space")
    words += [f"Linux {platform.release()}", f"Debian {debian}", _containerd_version()]
    return ", ".join(words)


def available_mebibytes() -> int:
    """Swap space counts: of a process at rest, most pages are not needed."""
    return (_memory("MemAvailable") + _memory("SwapFree")) >> 20


def load_of_others(seconds: float = 1) -> float:
    """The share of all cores that was busy for a moment, in which we do nothing."""
    idle, total = _cpu_ticks()
    time.sleep(seconds)
    idle_after, total_after = _cpu_ticks()
    return 1 - (idle_after - idle) / (total_after - total)


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def _memory(name: str) -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{name}:"))


def _containerd_version() -> str:
    words = subprocess.run(["containerd", "--version"], capture_output=True, text=True, check=True)
    return f"containerd {words.stdout.split()[2]}"


def _cpu_ticks() -> tuple[int, int]:
    """Idle and all, of all cores since the machine started."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)

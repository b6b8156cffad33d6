#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Brings up a private containerd and a registry with a few images, to try the agent with.

Prints one line when they are ready, then waits: until its standard input ends (unless that is
/dev/null), or until SIGINT, SIGTERM or SIGHUP. Then takes down and removes all that it started.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import sys
from pathlib import Path
from types import FrameType

if not __package__:
    # Run as a file: make `lab` importable, and its modules importable as nothing else.
    sys.path[0] = str(Path(__file__).resolve().parents[1])
sys.dont_write_bytecode = True

try:
    from lab.containerd import Containerd
    from lab.folder import LabFolder
    from lab.registry import Registry
except ModuleNotFoundError as error:
    if __package__:
        raise
    sys.exit(
        f"{sys.executable} has no module {error.name!r}; run this as: /usr/bin/python3 {sys.argv[0]} "
        "(Debian's modules are listed in packaging/packages.sh)"
    )

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def push_demo_images(registry: Registry, large_megabytes: int) -> dict[str, str]:
    """Returns their references by short name."""
    hello = registry.push_image("demo/hello", "1", busybox=True, command=["/bin/echo", "hello"])
    web = [
        registry.push_image(
            "demo/web", tag, [3 << 20], busybox=True, seed=int(tag), env={"VERSION": tag}
        )
        for tag in ("1", "2")
    ]
    large = registry.push_image("demo/large", "1", _large_layers(large_megabytes), busybox=True)
    return {
        "hello": hello.reference,
        "web1": web[0].reference,
        "web2": web[1].reference,
        "large": large.reference,
    }


def _large_layers(megabytes: int) -> list[int]:
    """Four, as in real images: they arrive side by side."""
    return [megabytes << 18] * 4


def _describe(containerd: Containerd, registry: Registry, images: dict[str, str]) -> dict[str, str]:
    about = {
        "endpoint": containerd.endpoint,
        "socket": str(containerd.socket),
        "registry": registry.host,
        "pid": str(os.getpid()),
    }
    return about | {f"image_{name}": reference for name, reference in images.items()}


def _print_ready(about: dict[str, str], style: str) -> None:
    if style == "json":
        print(json.dumps(about), flush=True)
    else:
        pairs = (f"LAB_{name.upper()}={shlex.quote(value)}" for name, value in about.items())
        print(" ".join(pairs), flush=True)


def _wait_for_end() -> None:
    if os.fstat(0).st_rdev == os.stat(os.devnull).st_rdev:
        while True:
            signal.pause()
    while os.read(0, 4096):
        pass


def _on_signal(number: int, frame: FrameType | None) -> None:
    # Once is enough: a second one must not interrupt the taking down.
    for other in _STOP_SIGNALS:
        signal.signal(other, signal.SIG_IGN)
    sys.exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(prog="lab", description=__doc__)
    parser.add_argument(
        "--dir", type=Path, help="new or empty, removed afterwards; default: a temporary folder"
    )
    parser.add_argument(
        "--format", choices=("json", "env"), default="json", help="of the line; env is for `eval`"
    )
    parser.add_argument(
        "--large-megabytes", type=int, default=200, metavar="N", help="size of demo/large:1"
    )
    options = parser.parse_args()
    for number in _STOP_SIGNALS:
        signal.signal(number, _on_signal)
    try:
        folder = LabFolder(options.dir)
    except (OSError, ValueError) as error:
        sys.exit(f"lab: {error}")
    with folder, Registry(folder / "registry") as registry:
        with Containerd(folder / "containerd") as containerd:
            images = push_demo_images(registry, options.large_megabytes)
            _print_ready(_describe(containerd, registry, images), options.format)
            _wait_for_end()


if __name__ == "__main__":
    main()

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Stands in for `inplaced` where the lab itself is under test: does the least that a service must,
and misbehaves as its environment variable FAKE_AGENT says.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
from pathlib import Path

_SANITIZER_REPORT = "==1==ERROR: AddressSanitizer: heap-use-after-free on address 0x1"


def _notify(text: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(text.encode(), os.environ["NOTIFY_SOCKET"])


def _report_requests(images_dir: Path, state_dir: Path) -> None:
    """As if all that is asked for had been there at once."""
    statuses: dict[str, dict[str, list[dict[str, str]]]] = {}
    for path in images_dir.glob("*.yaml"):
        for name, image in json.loads(path.read_text())["spec"]["images"].items():
            tags = [{"tag": entry["tag"], "phase": "Succeeded"} for entry in image["tags"]]
            statuses[name] = {"tags": tags}
    document = {"status": {"imageStatuses": statuses}}
    (state_dir / "nodeimage.json").write_text(json.dumps(document))


def main() -> None:
    behaviour = os.environ.get("FAKE_AGENT", "")
    parser = argparse.ArgumentParser()
    parser.add_argument("--images-dir", type=Path)
    parser.add_argument("--state-dir", type=Path)
    options, _ = parser.parse_known_args()
    awaited = {signal.SIGTERM, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    if behaviour == "die":
        sys.exit("no such runtime")
    _report_requests(options.images_dir, options.state_dir)
    print(json.dumps({"message": "ready"}), file=sys.stderr, flush=True)
    _notify("READY=1\nSTATUS=0 of 0 images")
    while signal.sigwait(awaited) == signal.SIGHUP:
        _notify("RELOADING=1")
        _notify("READY=1")
    _notify("STOPPING=1")
    if behaviour == "sanitizer":
        print(_SANITIZER_REPORT, file=sys.stderr)
    if behaviour == "linger":
        # A bit longer than an agent may take to end, which is more with sanitizers.
        signal.sigtimedwait({signal.SIGUSR1}, 5.5 if os.environ.get("INPLACED_SANITIZER") else 3.5)
    sys.exit(3 if behaviour == "fail" else 0)


if __name__ == "__main__":
    main()

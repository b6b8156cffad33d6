#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How many files and functions an event passes through in the agent, from a recording of one that ran.

    cmake --preset way && cmake --build --preset way
    /usr/bin/python3 tests/bench/way.py [--build-dir build/way] [--list]

The agent is built with -finstrument-functions and loads recorder.c, which notes each function that its
loop's thread enters and leaves. It runs on a real node: containerd, a kubelet, a registry and a control plane.

  tag    A NodeImage gets a tag: from the bytes at curl's callback to the call that pulls the image.
  label  A label changes from which a container's environment is made: to the call that stops it.

What the loop calls is a turn: a socket has bytes, a time has come, a reply is there. Each function counts
that is entered in a turn between the two, whatever for: also what such a turn logs or counts beside. These
turns do not count: those of which a twin ran in the idle time before the event, with the same functions, such
as timers and watches that say that they are there; and those that report to others what has happened so far
(_REPORTS). The second thread, which only waits for gRPC, is not recorded.

A file is a .c together with its header. Generated code and libraries are not recorded as files of ours.
"""

from __future__ import annotations

import argparse
import mmap
import re
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from lab.folder import LabFolder  # noqa: E402
from lab.node_image import NodeImage  # noqa: E402
from lab.wait import wait_until  # noqa: E402

from node import Node  # noqa: E402
from pods import PodNode  # noqa: E402

_ARRIVAL = "on_body"  # function of agent/kube/http.c
_RECORDING_BYTES = 1 << 30  # a sparse file
_HEADER = struct.Struct("=QQ")
_OURS = re.compile(r".*/((?:agent|cri)/.*)\.[ch]:.*")  # wherever a compiler cache has it from
_LEFT = 1 << 63  # as in recorder.c
_REPORTS = {  # the first functions of turns, after those of agent/base
    "on_compare": "agent/kube/writer",  # patches a status
    "on_due": "agent/node/state-file",  # writes the status file
}
_IDLE_SECONDS = 12  # longer than the kubelet and the agent wait between two looks

Turn = tuple[int, ...]  # addresses in the order in which the functions are entered


@dataclass(frozen=True)
class Function:
    name: str
    file: str  # without .c or .h; empty if it is not one of ours

    def __str__(self) -> str:
        return f"{self.file}: {self.name}"


class Program:
    """The functions of a program by their addresses."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._functions: dict[int, Function] = {}

    def address_of(self, name: str, file: str = "") -> int:
        """The address of the only function of this name, or of the one in that file."""
        nm = subprocess.run(["nm", self.path], check=True, capture_output=True, text=True)
        found = [int(line.split()[0], 16) for line in nm.stdout.splitlines() if line.endswith(f" {name}")]
        self.look_up(found)
        found = [address for address in found if file in ("", self[address].file)]
        if len(found) != 1:
            raise ValueError(f"{name} {file} is there {len(found)} times")
        return found[0]

    def look_up(self, addresses: list[int]) -> None:
        missing = [address for address in addresses if address not in self._functions]
        command = ["addr2line", "--exe", self.path, "--functions", *map(hex, missing)]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        for address, name, place in zip(missing, said[::2], said[1::2]):
            file = _OURS.fullmatch(place)
            self._functions[address] = Function(name, file[1] if file else "")

    def __getitem__(self, address: int) -> Function:
        return self._functions[address]


class Recording:
    """The recording that recorder.c writes."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "recording"
        with self.path.open("wb") as made:
            made.truncate(_RECORDING_BYTES)
        with self.path.open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    @property
    def n(self) -> int:
        n, room = _HEADER.unpack_from(self._bytes)
        if n > room:
            raise RuntimeError(f"{n} calls are more than the {room} that a recording has room for")
        return n

    def calls(self, begin: int, end: int) -> Iterator[int]:
        chunk = self._bytes[_HEADER.size + 8 * begin : _HEADER.size + 8 * end]
        return (call for (call,) in struct.iter_unpack("=Q", chunk))

    def turns(self, begin: int, end: int) -> list[Turn]:
        """The turns in that time. The rest of a turn that had begun before may look like several."""
        turns: list[Turn] = []
        entered: list[int] = []
        depth = 0
        for call in self.calls(begin, end):
            if call & _LEFT:
                depth = max(depth - 1, 0)
            else:
                depth += 1
                entered.append(call)
            if depth == 0 and entered:
                turns.append(tuple(entered))
                entered = []
        return [*turns, tuple(entered)] if entered else turns

    def has_call(self, address: int, begin: int, end: int) -> bool:
        return address in self.calls(begin, end)


@dataclass(frozen=True)
class Way:
    """Turns from the arrival of the event to the last call, which ends the last turn."""

    program: Program
    turns: list[Turn]

    @cached_property
    def functions(self) -> set[Function]:
        addresses = sorted({address for turn in self.turns for address in turn})
        self.program.look_up(addresses)
        return {one for one in map(self.program.__getitem__, addresses) if one.file}

    @property
    def files(self) -> set[str]:
        return {one.file for one in self.functions}

    def __str__(self) -> str:
        base = sum(file.startswith("agent/base/") for file in self.files)
        n = f"{len(self.files)} files, {base} of them in agent/base, {len(self.functions)} functions"
        return f"{n}, {len(self.turns)} turns of the loop"


class Lab:
    def __init__(self, pods: PodNode, recording: Recording) -> None:
        self.pods = pods
        self.recording = recording
        self.program = Program(pods.node.build_dir / "agent" / "inplaced")
        for name, file in _REPORTS.items():
            self.program.address_of(name, file)  # or it is called otherwise now

    def follow(self, last: str, cause: Callable[[], object]) -> Way:
        """From the bytes that the cause makes arrive to the call of the function `last`."""
        begin = self.recording.n
        time.sleep(_IDLE_SECONDS)
        middle = self.recording.n
        cause()
        arrival = self.program.address_of(_ARRIVAL, "agent/kube/http")
        target = self.program.address_of(last)
        wait_until(
            lambda: self.recording.has_call(target, middle, self.recording.n), 60, lambda: last
        )
        beside = {frozenset(turn) for turn in self.recording.turns(begin, middle)}
        turns = self.recording.turns(middle, self.recording.n)
        end = next(i for i, turn in enumerate(turns) if target in turn)
        way = [turn for turn in turns[:end] if frozenset(turn) not in beside and not self._reports(turn)]
        while arrival not in way[0]:
            way.pop(0)
        return Way(self.program, [*way, turns[end][: turns[end].index(target) + 1]])

    def _reports(self, turn: Turn) -> bool:
        self.program.look_up(list(turn))
        functions = map(self.program.__getitem__, turn)
        first = next((one for one in functions if not one.file.startswith("agent/base/")), None)
        return first is not None and _REPORTS.get(first.name) == first.file


def follow_tag(lab: Lab) -> Way:
    """An image of 1 MB that no registry asks a password for."""
    pods = lab.pods
    reference = pods.node.registry.push_image("way/tag", "1", [10**6]).reference
    image = NodeImage(pods.kube, "lab")
    way = lab.follow("cri_pull_image", lambda: image.request(reference))
    image.wait_status(reference, "Succeeded")
    return way


def follow_label(lab: Lab) -> Way:
    """A pod with one container, without a hook."""
    pod = lab.pods.create_pod("way")
    lab.pods.wait_ready([pod])
    lab.pods.wait_known([pod])
    return lab.follow("cri_stop_container", lambda: pod.change(labels={"round": "two"}))


WAYS = {"tag": follow_tag, "label": follow_label}


def main() -> None:
    parser = argparse.ArgumentParser(prog="way.py")
    parser.add_argument("--build-dir", type=Path, default=ROOT / "build" / "way")
    parser.add_argument("--list", action="store_true", help="print the functions of each file, too")
    options = parser.parse_args()
    build_dir = options.build_dir.resolve()
    with LabFolder() as folder, Node(folder, build_dir, quick=True) as node:
        recording = Recording(folder)
        environment = {
            "LD_PRELOAD": str(build_dir / "tests" / "librecorder.so"),
            "INPLACED_RECORDING": str(recording.path),
        }
        with PodNode(node, environment=environment) as pods:
            lab = Lab(pods, recording)
            for name, follow in WAYS.items():
                way = follow(lab)
                print(f"{name}: {way}", flush=True)
                for line in sorted(map(str, way.functions)) if options.list else ():
                    print(f"    {line}")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Measures a release build beside what it is compared with, and prints one table.

Groups of figures, each with parts of its own on this machine (a containerd, a registry, an agent):

  small  From a request to "Succeeded" for an image of 1 MB, asked for through the local API and by
         a document in the images folder, beside a bare PullImage call for the same image.
  large  The same for an image of 500 MB, through the local API; and, as a figure that the noise of
         long pulls does not reach, the time that the agent spends before and after its own
         PullImage call.
  runtimes
         "small" and "large", with 400 MB, through the local API, on each runtime that the tests run on.
  start  From exec to READY=1, beside a program that only starts the same libraries (floor.c).
  idle   Memory, context switches and CPU time when nothing happens, beside that program.
  many   The same with 1,000 images in the folder that have all been pulled, and again after a
         restart.
  folder What verifying that 60 images are still there costs in ten idle minutes: requests to the
         runtime and context switches, beside that program and beside an agent without images, all
         at the same time; and the same with a runtime that has no events, so that its images are
         listed every minute.
  cluster
         In a cluster, with a control plane of its own: from the request for an image of 1 MB to the
         status that says "Succeeded", beside the two requests and the one call that it takes by
         hand; what is written for that; the same for ten images, each requested as soon as
         the one before is reported; what is written for 200 images at once, of a runtime that is made
         up; and the costs of "idle", beside a program that has a connection to the API server, too.
  restart
         On a real node: from the change of a pod's label to the end of the container whose
         environment is made from it, and until it runs again, beside a program that stops it;
         the same for 110 pods at once; and how often the agent writes to a pod for that.
  pods   What it costs to watch the pods of a node, beside a program that reads the same and
         throws it away.
  inplace
         On a real node: how long it takes until a change of a label, and an image of 300 MB, are
         ready in place, beside a new pod in place of the old one.
  workloads
         On five real nodes: what it takes until all pods of a Deployment and of a StatefulSet run an
         image of 300 MB from a registry with 50 MB/s, by `kubectl inplace set image`, beside
         `kubectl set image`: time, pods that are missing meanwhile, and requests to the API server.
  yield  On a real node: until a pod runs whose image of 100 MB comes over a line of 50 MB/s, while the
         agent pulls 5 GB over the same line, beside the same without these pulls.
  ready  On a real node that waits for the images of its sets: five images, 1 GB in sum, over a line of 50 MB/s. From
         the end of the last pull until the Node says so, and until its startup taint is gone, in the slowest
         round, beside the same two writes by hand; and how many bytes a pod with these images still fetches.
  pins   On a real node with a containerd that pins: the disk gets full 20 times, so that the kubelet removes what it
         may, and in between containerd restarts, or is killed, and tags move: how many of 20 pinned images are
         lost, and how many others stay; then the same without the agent, whose pins `--remove-pins` has removed.
  declared
         On a real node: 20 Deployments of 5 pods get a new image at once, by the controller of declared
         updates, beside `kubectl inplace set image` for each; and the controller's memory.
  peer   On a real node, with OpenKruise's manager: the agent beside kruise-daemon. Pulls by a NodeImage and by
         an ImagePullJob, restarts for a changed label, and the costs of "idle", also with 110 pods.
  probes On a real node: the CPU time and memory of 10, 100 and 500 probes that run every second, beside
         a program that only makes them (probe-floor.c), and what is written about them.

  fleet  500 to 5,000 agents on this machine, each with a node of its own, against one API server and one
         runtime, which has the images already: what they ask of the API server at their start, for a preload
         and an image set over all nodes, in an idle minute, when 10 % of them start again, and when the API
         server does. It ends at the size for which there is no memory.

A pull is compared with the call that did the same work a moment before or after, by the same
process and thread: the order changes from round to round, and the image is removed in between. What
counts is the median, of differences and ratios as well; "±" is twice its standard error. What the
Python client itself costs is on both sides. Images lie on a file system in memory if there is room,
so that the disk does not add its noise.

The result says whether a limit was met, or that the noise was too great, but it decides nothing:
machines differ, and so do their days. The exit status is 1 only if something could not be measured.
"""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab.folder import LabFolder  # noqa: E402

import machine  # noqa: E402
import page  # noqa: E402
import pulls  # noqa: E402
import resting  # noqa: E402
import starting  # noqa: E402
from node import Node  # noqa: E402
from table import Row, format_table  # noqa: E402

Group = Callable[[Node], list[Row]]


def in_module(name: str) -> Group:
    """Imported when it runs, since these need more packages than the others."""
    return lambda node: importlib.import_module(name).measure(node)


GROUPS: dict[str, Group] = {
    "small": pulls.measure_small,
    "large": pulls.measure_large,
    "runtimes": pulls.measure_runtimes,
    "start": starting.measure,
    "idle": resting.measure_idle,
    "many": resting.measure_many,
    "folder": resting.measure_folder,
    "cluster": in_module("serving"),
    "restart": in_module("restarting"),
    "pods": in_module("eventing"),
    "inplace": in_module("updating"),
    "workloads": in_module("workloads"),
    "yield": in_module("yielding"),
    "ready": in_module("readying"),
    "pins": in_module("pinning"),
    "declared": in_module("declaring"),
    "probes": in_module("probing"),
    "peer": in_module("peer"),
    "fleet": in_module("fleet"),
}


def run_group(name: str, build_dir: Path, quick: bool) -> list[Row] | None:
    """None if it could not be measured; says why."""
    print(f"measuring: {name}", file=sys.stderr, flush=True)
    try:
        with LabFolder() as folder, Node(folder, build_dir, quick) as node:
            return GROUPS[name](node)
    except Exception as error:  # the other groups can still be measured
        print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return None


def measure(name: str, options: argparse.Namespace) -> list[Row] | None:
    """Notes how busy the machine was before, and writes what can be quoted into the page if that is wanted."""
    load = f"Before the run other processes kept {machine.load_of_others():.0%} of it busy."
    rows = run_group(name, options.build_dir, options.quick)
    print(f"{name}: {load}", file=sys.stderr, flush=True)
    if options.page and rows:
        page.write(name, f"{machine.describe()}, {date.today():%-d %B %Y}. {load}", rows)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench")
    parser.add_argument("--build-dir", type=Path, required=True)
    parser.add_argument("--only", action="append", choices=list(GROUPS), default=[])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    if options.page and options.quick:
        parser.error("--page needs figures that can be quoted; --quick makes none")

    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # parts are closed on the way

    names = options.only or list(GROUPS)
    if options.page:
        page.check(names)
    results = {name: measure(name, options) for name in names}
    print(machine.describe())
    print()
    if any(results.values()):
        print("\n".join(format_table([row for rows in results.values() for row in rows or []])))

    missing = [name for name, rows in results.items() if rows is None]
    if missing:
        sys.exit(f"Not measured, see above: {', '.join(missing)}.")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Lets the agent, the plugin and its controller work on a real node while everything around them fails at random.

What happens at which second follows from the seed alone (schedule.py). Then an oracle judges from outside.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import sys
import time
import traceback
import xml.etree.ElementTree as ET
from contextlib import ExitStack
from pathlib import Path

sys.dont_write_bytecode = True
_TESTS = Path(__file__).resolve().parents[1]
sys.path[1:1] = [str(_TESTS), str(_TESTS / "cluster")]

from lab.folder import LabFolder  # noqa: E402

from actors import PATIENCE, Actor, make_actors  # noqa: E402
from chaos import Chaos  # noqa: E402
from growth import Growth  # noqa: E402
from oracle import Oracle  # noqa: E402
from schedule import Action, make_chaos, make_requests  # noqa: E402
from world import World  # noqa: E402

_TICK = 0.05  # seconds
_SAMPLE_EVERY = 1.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests/soak/run")
    parser.add_argument("minutes", type=float)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--report", type=Path)
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    seconds = arguments.minutes * 60
    command = f"tests/soak/run {arguments.minutes:g} --seed {arguments.seed}"
    _say(f"seed {arguments.seed}; this repeats the run: {command}")
    chaos, requests = make_chaos(arguments.seed, seconds), make_requests(arguments.seed, seconds)
    for action in sorted(chaos + requests, key=lambda one: one.second):
        print(f"  {action}")
    with LabFolder() as folder:
        try:
            results = _soak(folder, seconds, chaos, requests, arguments.keep)
        except Exception as error:  # noqa: BLE001: the last line names the command whatever happens
            traceback.print_exc()
            results = {"the soak can be carried out": [f"{type(error).__name__}: {error}"]}
    if arguments.report is not None:
        _write_report(arguments.report, results, command)
    n_failed = sum(bool(complaints) for complaints in results.values())
    _say(f"{len(results) - n_failed} of {len(results)} promises kept; {command}")
    return 1 if n_failed else 0


def _soak(
    folder: LabFolder, seconds: float, plan: list[Action], requests: list[Action], keep: Path | None
) -> dict[str, list[str]]:
    with World(folder) as world, ExitStack() as last:
        if keep is not None:
            last.callback(_keep, folder, keep)
        _say("the cluster is up")
        actors = make_actors(world, requests)
        _say("the workloads run")
        began = time.monotonic()
        clock = lambda: time.monotonic() - began  # noqa: E731
        say = lambda text: _say(text, clock())  # noqa: E731
        chaos = Chaos(world, plan, say)
        growths = [
            Growth("agent", lambda: world.agent.process),
            Growth("controller", lambda: world.controller),
        ]
        oracle = Oracle(world, actors, chaos, growths)
        for actor in actors:
            actor.begin(clock, say)
        _run(clock, seconds, chaos, growths, lambda: False)
        for actor in actors:
            actor.end()
        chaos.finish()
        say("nothing is disturbed any more")
        limit = clock() + PATIENCE
        _run(clock, limit, chaos, growths, lambda: not any(one.is_alive() for one in actors))
        say("the requests have ended")
        results = {name: check() for name, check in oracle.checks.items()}
        _report(actors, chaos, oracle, growths, results)
        return results


def _run(clock, until: float, chaos: Chaos, growths: list[Growth], is_over) -> None:
    sample_at = 0.0
    while clock() < until and not is_over():
        chaos.step(clock())
        if clock() >= sample_at:
            sample_at = clock() + _SAMPLE_EVERY
            for growth in growths:
                growth.take(clock())
        time.sleep(_TICK)


def _report(actors: list[Actor], chaos: Chaos, oracle: Oracle, growths, results) -> None:
    print()
    for what, count in sorted(chaos.counts.items()):
        print(f"{count:4} × {what}")
    for name, code in chaos.ended:
        print(f"       {name} ended by itself with {code}")
    print(f"\n{'requests':12}{'made':>6}{'done':>6}{'refused':>9}{'skipped':>9}{'slowest':>10}")
    for actor in actors:
        one = actor.ledger
        slowest = max(one.seconds, default=0)
        print(f"{actor.name:12}{one.made:6}{one.fulfilled:6}{len(one.refused):9}{one.skipped:9}{slowest:8.1f} s")
    for actor in actors:
        for reason in sorted(set(actor.ledger.refused)):
            print(f"  {actor.name} was refused: {reason[:600]}")
    print(f"\n{'restarts':18}{'changes':>8}{'merged':>8}{'late':>6}{'unforced':>10}{'requested':>11}")
    for name, one in oracle.verdicts.items():
        print(f"{name:18}{one.changes:8}{one.merged:8}{one.late:6}{one.unforced:10}{one.requested:11}")
    print()
    for growth in growths:
        print(*growth.lines(), sep="\n")
    print()
    for name, complaints in results.items():
        print(f"{'FAILED' if complaints else 'kept'}: {name}")
        for one in complaints:
            print(f"  {one}")
    sys.stdout.flush()


def _write_report(path: Path, results: dict[str, list[str]], command: str) -> None:
    suite = ET.Element("testsuite", name="soak")
    for name, complaints in results.items():
        case = ET.SubElement(suite, "testcase", classname="soak", name=name, time="0")
        if complaints:
            ET.SubElement(case, "failure", message=f"{'; '.join(complaints)[:400]}; {command}")
    ET.ElementTree(suite).write(path)


def _keep(folder: LabFolder, target: Path) -> None:
    """The logs of all parts."""
    for log in folder.path.rglob("*.log"):
        kept = target / log.relative_to(folder.path)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(log.read_bytes())


def _say(text: str, second: float | None = None) -> None:
    print(text if second is None else f"[{second:7.1f}] {text}", flush=True)


if __name__ == "__main__":
    faulthandler.enable()
    os.environ.pop("INPLACED_SANITIZER", None)
    sys.exit(main())

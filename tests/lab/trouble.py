# SPDX-License-Identifier: Apache-2.0
"""Questions of the tests of bad cases: is there one clear line, does the rest go on, does nothing leak?"""

from __future__ import annotations

import os
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc

from lab import sanitizers, stubs
from lab.agent import Agent
from lab.wait import stretch, wait_until

# Length of a line with a name, a reason and an advice; a runtime's nested errors are cut before that.
_LONGEST_LINE = 1200

_PROMPT = 0.5  # seconds


def complaints(agent: Agent, about: str = "") -> list[str]:
    """The agent's warnings and errors so far that hold `about`."""
    return [
        line["message"]
        for line in agent.logs()
        if line["level"] in ("warning", "error") and about in line["message"]
    ]


def without_hints(errors: str) -> str:
    """The output of inplacectl without the hints that it adds only when something takes more than a second."""
    hints = ("waiting for an answer", "waits for a turn", "wait for a turn")
    lines = errors.splitlines(keepends=True)
    return "".join(line for line in lines if not any(hint in line for hint in hints))


def the_complaint(agent: Agent, about: str = "", timeout: float = 5) -> str:
    """Waits until there is one about this; fails if there are more, or if it is not one line."""
    wait_until(
        lambda: complaints(agent, about),
        timeout * sanitizers.SLOWNESS,
        lambda: f"complaint about {about!r}, only {complaints(agent)}",
    )
    found = complaints(agent, about)
    assert len(found) == 1, found
    assert_clear(found[0])
    return found[0]


def assert_clear(text: str) -> None:
    """Checks that the text can be read as one line, with any name in it."""
    assert text and text.isprintable(), repr(text[:2000])
    assert len(text) <= _LONGEST_LINE, f"{len(text)} characters: {text[:2000]}"


def problems(agent: Agent) -> dict[str, str]:
    """The problems that `inplacectl doctor` would show: subject → message."""
    with node_stub(agent) as node:
        answer = node.Diagnose(agent.messages.DiagnoseRequest(), timeout=10 * sanitizers.SLOWNESS)
    for problem in answer.problems:
        assert_clear(problem.message)
        assert_clear(problem.advice)
    return {problem.subject: problem.message for problem in answer.problems}


def wait_problem(agent: Agent, subject: str, text: str = "", timeout: float = 10) -> str:
    """Waits until doctor reports a problem of the subject with the text; returns the problem."""

    def find() -> str | None:
        found = problems(agent).get(subject)
        return found if found is not None and text in found else None

    return wait_until(
        find,
        timeout * sanitizers.SLOWNESS,
        lambda: f"{text!r} about the {subject} among {problems(agent)}",
    )


def readiness(agent: Agent) -> tuple[int, str]:
    """The status code and the text of /readyz."""
    try:
        with urllib.request.urlopen(f"http://{agent.metrics_address}/readyz", timeout=5) as answer:
            return answer.status, answer.read().decode().strip()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode().strip()


def wait_well(agent: Agent, timeout: float = 10) -> None:
    wait_until(
        lambda: problems(agent) == {} and readiness(agent)[0] == 200,
        timeout * sanitizers.SLOWNESS,
        lambda: f"end of {problems(agent)}, {readiness(agent)}",
    )


def wait_logged(agent: Agent, text: str, timeout: float = 10) -> dict[str, Any]:
    """Waits for a line of the log whose message holds the text; returns the line."""

    def find() -> dict[str, Any] | None:
        return next((line for line in agent.logs() if text in line["message"]), None)

    return wait_until(
        find,
        timeout * sanitizers.SLOWNESS,
        lambda: f"{text!r} in the log:\n{agent.log_text()[-2000:]}",
    )


def facts(agent: Agent) -> dict[str, str]:
    """The facts that `inplacectl doctor` shows beside problems: subject → value."""
    with node_stub(agent) as node:
        answer = node.Diagnose(agent.messages.DiagnoseRequest(), timeout=10 * sanitizers.SLOWNESS)
    return {fact.subject: fact.value for fact in answer.facts}


@contextmanager
def node_stub(agent: Agent) -> Iterator[Any]:
    """The agent's local API over a connection of its own, which is closed afterwards."""
    options = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(f"unix:{agent.socket}", options=options) as channel:
        yield stubs.load("inplaced.v1.node").services.NodeStub(channel)


def pull_another(agent: Agent, reference: str = "good/another:1", timeout: float = 10) -> None:
    """Proves that unspoilt images are still pulled."""
    agent.request(reference, file=f"{reference.replace('/', '-').replace(':', '-')}.yaml")
    agent.wait_status(reference, "Succeeded", timeout * sanitizers.SLOWNESS)


def assert_prompt(agent: Agent, calls: int = 30) -> None:
    """Callers of its local API are answered at once.

    The whole machine may stand still for a moment, but hardly during each call.
    """
    slowest: list[float] = []
    while not slowest or slowest[-1] >= stretch(_PROMPT):
        assert len(slowest) < 3, (
            f"the slowest answers took {slowest} s, with a load of {os.getloadavg()[0]}; "
            f"the agent has used {_processor_seconds(agent)} s of a processor"
        )
        slowest.append(_slowest_answer(agent, calls))


def _processor_seconds(agent: Agent) -> float:
    """In all since its start; an agent that is slow because it is busy has used most of the time."""
    fields = Path(f"/proc/{agent.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _slowest_answer(agent: Agent, calls: int) -> float:
    """In seconds of a fast program."""
    request = agent.messages.GetVersionRequest()
    slowest = 0.0
    with node_stub(agent) as node:
        for _ in range(calls):
            began = time.monotonic()
            node.GetVersion(request, timeout=10 * sanitizers.SLOWNESS)
            slowest = max(slowest, time.monotonic() - began)
    return slowest / sanitizers.SLOWNESS


@contextmanager
def no_leak(agent: Agent, timeout: float = 10) -> Iterator[None]:
    """Descriptors that the block caused to be opened are closed some time after it."""
    before = agent.descriptors()
    files = _open_files(agent)
    yield
    wait_until(
        lambda: agent.descriptors() <= before,
        timeout * sanitizers.SLOWNESS,
        lambda: f"end of {agent.descriptors() - before} descriptors: more are {_open_files(agent) - files}, "
        f"fewer are {files - _open_files(agent)}",
    )


def _open_files(agent: Agent) -> Counter[str]:
    """The files behind its descriptors, such as "socket" or a file's name."""
    folder = Path(f"/proc/{agent.process.pid}/fd")
    found: Counter[str] = Counter()
    for descriptor in os.listdir(folder):
        with suppress(FileNotFoundError):  # closed meanwhile
            found[os.readlink(folder / descriptor).partition(":[")[0]] += 1
    return found

# SPDX-License-Identifier: Apache-2.0
"""How inplacectl pull ends: by itself where the registry says no, else by the limits that it was given."""

from __future__ import annotations

import json
import re
import signal

import pytest

from lab.trouble import complaints
from lab.wait import stretch, wait_until


@pytest.fixture
def absent(registry, image_name):
    """A mistyped name, of a registry that works."""
    return f"{registry.host}/{image_name}:none"


def hurry(agent, image, attempts=99, process=None):
    """Has the image tried at once until so many attempts have failed, or that was the last one, or the
    process has ended: each caller has an attempt of its own without waiting for the end of the pause."""

    def is_over():
        if process is not None and process.poll() is not None:
            return True
        message = (agent.tag_status(image) or {}).get("message", "")
        if found := re.search(r"\(attempt (\d+)(?: of (\d+))?\)$", message):
            if int(found[1]) >= attempts or found[1] == found[2]:
                return True
        assert agent.ctl("pull", "--attempts=1", image).returncode == 1
        return False

    wait_until(is_over, 60, lambda: f"attempt {attempts}: {agent.tag_status(image)}")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_mistyped_name(agent, absent):
    """Without an option it ends after about a minute with exit status 1, the reason and what would try for
    ever; each attempt that failed says when the next one begins and how to limit that."""
    ran = agent.ctl("pull", absent, timeout=150)
    assert ran.returncode == 1
    assert f"{absent}  failed  NotFound: " in ran.stdout
    *attempts, last = ran.stderr.splitlines()
    assert last == (
        f"inplacectl: cannot pull {absent}: NotFound in 5 attempts; check the name and the tag; "
        "--attempts 0 tries for ever"
    )
    assert len(attempts) == 4
    for number, line in enumerate(attempts, 1):
        assert line.startswith(f"inplacectl: {absent}: NotFound: ")
        said = f"(attempt {number} of 5); trying again in "
        assert said in line and line.endswith("s (--attempts, --timeout)"), line


def test_folder_goes_on(agent, absent):
    """A vain request of a folder goes on when the command has given up."""
    agent.request(absent)
    agent.wait_status(absent, "BackOff")
    with agent.start_ctl("pull", absent) as child:
        child.stderr.readline()
        hurry(agent, absent, process=child)
        _, errors = child.communicate(timeout=60)
    assert child.returncode == 1
    assert "; check the name and the tag; --attempts 0 tries for ever" in errors.splitlines()[-1]
    assert agent.wait_status(absent, "BackOff")["nextAttemptTime"]


def test_each_image_ends_by_itself(agent, absent, push):
    """Exit status 3 where one is there and the other one is not found; with several that are not found, 1."""
    image = push()
    with agent.start_ctl("pull", absent, image.reference) as child:
        assert image.reference in child.stdout.readline()
        hurry(agent, absent, process=child)
        _, errors = child.communicate(timeout=stretch(60))
    assert child.returncode == 3
    assert "; --attempts 0 tries for ever" in errors.splitlines()[-1]
    others = [absent.replace(":none", tag) for tag in (":neither", ":nor")]
    with agent.start_ctl("pull", "-q", *others) as child:
        # The first attempt of the haste would be the last one of its own request.
        wait_until(lambda: all(agent.tag_status(one) for one in others), 30, "the request")
        for one in others:
            hurry(agent, one)
        output, errors = child.communicate(timeout=stretch(60))
    assert (child.returncode, output) == (1, "")
    assert errors.splitlines()[-1] == (
        "inplacectl: 2 of 2 images failed; check the name and the tag; --attempts 0 tries for ever"
    )


def test_tries_for_ever(agent, absent):
    """--attempts 0 goes on. Ctrl-C keeps what the last attempt failed with."""
    with agent.start_ctl("pull", "--attempts=0", "-o", "json", absent) as child:
        first = child.stderr.readline()
        hurry(agent, absent, 7)
        assert child.poll() is None
        child.send_signal(signal.SIGINT)
        output, _ = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "(attempt 1); trying again in " in first
    assert first.endswith("s, until it is there (--attempts, --timeout)\n")
    (result,) = json.loads(output)["results"]
    assert result["reason"] == "Canceled"
    assert result["message"].startswith("interrupted; the last attempt failed with NotFound: ")


def test_registry_that_is_away(agent):
    """A registry that refuses connections is tried on, and the line says so; --timeout ends it with 124."""
    image = "127.0.0.1:1/demo/web:1"
    with agent.start_ctl("pull", image) as child:
        first = child.stderr.readline()
        hurry(agent, image, 7)
        assert child.poll() is None
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=60)
    assert child.returncode == 128 + signal.SIGTERM
    assert first.startswith(f"inplacectl: {image}: RegistryUnreachable: ")
    assert first.endswith("s, until it is there (--attempts, --timeout)\n")
    ran = agent.ctl("pull", "--timeout=2s", image)
    assert ran.returncode == 124
    assert "DeadlineExceeded (--timeout) after RegistryUnreachable; " in ran.stderr.splitlines()[-1]


def test_left_with_the_agent(agent, absent):
    """A request that was left with the agent gives up as well, though no caller waits for it."""
    assert agent.ctl("pull", "--no-wait", absent).returncode == 0
    agent.wait_status(absent, "BackOff")
    hurry(agent, absent)
    agent.wait_status(absent, "Failed")
    assert any(" yet: " not in line for line in complaints(agent, "(attempt 5 of 5)"))

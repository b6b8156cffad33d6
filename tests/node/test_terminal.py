# SPDX-License-Identifier: Apache-2.0
"""inplacectl on a terminal: bars that grow, and Ctrl-C."""

from __future__ import annotations

import json
import os
import re
from datetime import datetime, timedelta, timezone

import pytest

from fake import behaviours
from lab import sanitizers
from lab.terminal import Terminal, screen
from lab.wait import wait_until

_BYTES = re.compile(r"([\d.]+)\s*/\s*([\d.]+) ([kMG]?B)")


def open_terminal(agent, *arguments: str, **options) -> Terminal:
    """Runs inplacectl on a terminal."""
    program = str(agent.build_dir / "agent" / "inplacectl")
    return Terminal(
        [program, f"--socket={agent.socket}", *arguments],
        {**os.environ, **sanitizers.environment()},
        **options,
    )


@pytest.mark.slow
def test_bytes_grow_to_the_total(agent, push):
    """While 400 MB arrive, the bar shows more and more bytes of the real total, then the ID."""
    image = push([50 << 20] * 8)
    terminal = open_terminal(agent, "pull", image.reference)
    assert terminal.wait_end() == 0, terminal.text
    shown = [(float(done), total, unit) for done, total, unit in _BYTES.findall(terminal.text)]
    assert {(total, unit) for _, total, unit in shown} == {(f"{image.size / 1e6:.1f}", "MB")}, shown
    done = [done for done, _, _ in shown]
    assert len(set(done)) >= 3 and done == sorted(done), done
    last = terminal.text.rstrip().splitlines()[-1]
    assert image.reference in last and image.image_id[:19] in last
    assert f"{image.size / 1e6:.1f} MB" in last


def test_ctrl_c(start_agent, runtime, gate):
    """Ctrl-C on the terminal withdraws the request and leaves the terminal in order."""
    agent = start_agent(runtime.endpoint)
    terminal = open_terminal(agent, "pull", gate.reference)
    wait_until(lambda: "downloading" in terminal.text, 20, lambda: f"bar: {terminal.text!r}")
    terminal.press(b"\x03")
    assert terminal.wait_end(10) == 130
    assert "interrupted" in terminal.text
    assert terminal.text.count("\x1b[?25l") == terminal.text.count("\x1b[?25h")
    gate.wait_left()


def test_attempt_that_failed(agent, registry, image_name):
    """An image that is tried again is a line in few words, with the time that is left; below is how to limit
    that. The known state stays when Ctrl-C ends the command.
    """
    absent = f"{registry.host}/{image_name}:none"
    terminal = open_terminal(agent, "pull", absent, columns=160)
    wait_until(lambda: "(attempt 1 of 5)" in terminal.text, 20, lambda: f"{terminal.text!r}")
    seen = screen(terminal.text)
    (line,) = [line for line in seen if "retrying" in line]
    note = r"retrying +next attempt in \ds; NotFound \(attempt 1 of 5\): check the name and the tag$"
    assert re.search(note, line), line
    assert seen[seen.index(line) + 1].startswith("--attempts and --timeout limit the attempts; Ctrl-C")
    terminal.press(b"\x03")
    assert terminal.wait_end(10) == 130
    assert "Canceled: interrupted; the last attempt failed with NotFound: " in terminal.text


def test_download_that_stands_still(start_agent, runtime, gate):
    """Where no byte arrives the line says since when, and neither a rate nor the time left."""
    agent = start_agent(runtime.endpoint)
    terminal = open_terminal(agent, "pull", gate.reference)
    wait_until(lambda: "no byte for 6s" in terminal.text, 30, lambda: f"{terminal.text!r}")
    (line,) = [line for line in screen(terminal.text) if "no byte for" in line]
    assert "B/s" not in line
    gate.open()
    assert terminal.wait_end() == 0


def test_watch_shows_what_is_to_come(start_agent, fake_runtime):
    """If there are more images than lines, status --watch shows those first that are not present yet."""
    fake_runtime.on("PullImage", behaviours.hang(), "zz/late:1")
    agent = start_agent(fake_runtime.endpoint)
    agent.request(*(f"demo/web{number:02}:1" for number in range(40)), "zz/late:1")
    agent.wait_status("zz/late:1", "Pulling")
    for number in range(40):
        agent.wait_status(f"demo/web{number:02}:1", "Succeeded")
    terminal = open_terminal(agent, "status", "--watch", rows=12)
    wait_until(lambda: "more" in terminal.text, 20, lambda: f"{terminal.text!r}")
    terminal.press(b"\x03")
    terminal.wait_end(10)
    shown = terminal.text.replace("\r", "").split("\x1b[J")[-1].splitlines()
    head = next(number for number, line in enumerate(shown) if line.startswith("Images: "))
    assert shown[head] == "Images: 40 pulled, 1 pulling"
    assert shown[head + 2].startswith("zz/late "), shown


def test_watch_counts_wrapped_lines(start_agent, fake_runtime):
    """status --watch shows no more rows than a narrow screen has, so that the frame before can be cleared."""
    agent = start_agent(fake_runtime.endpoint)
    agent.request(*(f"a{number:02}:1" for number in range(20)))
    for number in range(20):
        agent.wait_status(f"a{number:02}:1", "Succeeded")
    terminal = open_terminal(agent, "status", "--watch", rows=14, columns=60)
    wait_until(lambda: "more" in terminal.text, 20, lambda: f"{terminal.text!r}")
    terminal.press(b"\x03")
    terminal.wait_end(10)
    shown = terminal.text.replace("\r", "").split("\x1b[J")[-1].splitlines()
    assert any(len(line) > 60 for line in shown if line.startswith("Node ")), shown
    last = next(number for number, line in enumerate(shown) if line.endswith(" more"))
    assert sum(max(1, -(-len(line) // 60)) for line in shown[: last + 1]) == 13, shown


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_line_at_the_end(agent, push, term):
    """An image that is there soon is one line at the end; a dumb terminal gets nothing else."""
    image = push()
    terminal = open_terminal(agent, "pull", image.reference, term=term)
    assert terminal.wait_end() == 0
    assert image.image_id[:19] in terminal.text.rstrip().splitlines()[-1]
    assert term != "dumb" or "\x1b" not in terminal.text


def _show(agent, *arguments: str) -> list[str]:
    """The lines of a command on a terminal of 80 columns."""
    terminal = open_terminal(agent, *arguments, columns=80)
    terminal.wait_end()
    return terminal.text.replace("\r", "").splitlines()


@pytest.fixture
def long_names(agent, push, registry, image_name):
    """Pulls an image by tag, one by digest and one that does not exist, all with a long name."""
    image = push()
    absent = f"{registry.host}/a/very/long/path/to/an/image/which-is-not-there/{image_name}:none"
    agent.request(image.reference, image.digest_reference, absent, backoffLimit=0)
    agent.wait_status(absent, "Failed")
    agent.wait_status(image.reference, "Succeeded")
    agent.wait_status(image.digest_reference, "Succeeded")
    return image, absent


def test_status_fits_80_columns(agent, long_names):
    """A long name keeps its end, digests are short, and so are messages; -o wide has all of it."""
    image, absent = long_names
    lines = _show(agent, "status")[2:]
    assert max(map(len, lines)) <= 80, lines
    (failed,) = [line for line in lines if "Failed" in line]
    assert "NotFound" in failed and "failed to" not in failed
    assert failed.split()[0].startswith("...") and failed.split()[0][3:] in absent
    assert failed.split()[0][3:].endswith(absent.rpartition(":")[0][-5:])
    (by_digest,) = [line for line in lines if "sha256:" in line]
    digest = image.manifest_digest
    assert digest[:19] in by_digest and digest[:20] not in by_digest
    wide = agent.ctl("status", "-o", "wide").stdout
    assert absent.rpartition(":")[0] in wide and digest in wide
    message = agent.tag_status(absent)["message"]
    assert message in wide and json.dumps(message) in agent.ctl("status", "-o", "json").stdout
    # Elsewhere names are searched for, and are whole.
    piped = agent.ctl("status").stdout
    assert absent.rpartition(":")[0] in piped and message not in piped


def test_other_tables_fit_80_columns(agent, long_names):
    """The images of the runtime fit as well, sorted by name, and so do the findings of doctor."""
    image, _ = long_names
    lines = _show(agent, "images")
    assert max(map(len, lines)) <= 80, lines
    (row,) = [line for line in lines if image.image_id[7:19] in line]
    assert image.reference.endswith(row.split()[1].removeprefix("...")), row
    names = [line.split()[1] for line in agent.ctl("images").stdout.splitlines()[1:]]
    assert names == sorted(names)
    table = [line for line in _show(agent, "doctor") if not line.startswith("problem")]
    assert max(map(len, table)) <= 80, table


def test_a_header_over_nothing(fake_runtime, start_agent):
    """A table without rows says what it would show."""
    agent = start_agent(fake_runtime.endpoint)
    assert agent.ctl("status").stdout.splitlines()[-1].split()[:3] == ["IMAGE", "TAG", "PHASE"]
    assert agent.ctl("images").stdout.split()[:2] == ["ID", "NAMES"]


def test_age_counts_from_the_state(agent, push):
    """AGE is the time since the image succeeded, not since it was asked for; also after a restart."""
    reference = push().reference
    agent.request(reference)
    agent.wait_status(reference, "Succeeded")
    agent.terminate()
    path = agent.state_dir / "nodeimage.json"
    text = path.read_text()
    for key, hours in ("startTime", 5), ("completionTime", 2):
        then = datetime.now(timezone.utc) - timedelta(hours=hours, minutes=5)
        text = re.sub(rf'("{key}": *)"[^"]*"', rf'\g<1>"{then:%Y-%m-%dT%H:%M:%SZ}"', text)
    path.write_text(text)
    agent.start()
    agent.wait_runtime()
    (row,) = [line for line in agent.ctl("status").stdout.splitlines() if "Succeeded" in line]
    assert row.split()[-1] == "2h", row

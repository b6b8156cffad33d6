# SPDX-License-Identifier: Apache-2.0
"""Proves that `inplacectl doctor` finds what is wrong on a node, one line each, and that its exit status says so."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from fake import behaviours
from lab.documents import write_whole
from lab.trouble import assert_clear
from lab.user import NOBODY

FINDINGS = 3


def findings(agent) -> dict[str, list[str]]:
    """Subject → messages; checks that each is a line of the text, too, and the exit status."""
    found: dict[str, list[str]] = {}
    text, document = agent.ctl("doctor"), agent.ctl("doctor", "-o", "json")
    problems = json.loads(document.stdout)["problems"]
    for problem in problems:
        assert_clear(problem["message"])
        assert_clear(problem["advice"])
        found.setdefault(problem["subject"], []).append(problem["message"])
        line = f"problem: {problem['subject']}: {problem['message']}; {problem['advice']}"
        assert line in text.stdout.splitlines(), text.stdout
    status = FINDINGS if problems else 0
    assert (text.returncode, document.returncode) == (status, status)
    number = "1 problem was" if len(problems) == 1 else f"{len(problems)} problems were"
    assert text.stderr == (f"inplacectl: {number} found\n" if problems else "")
    return found


def test_failed_images(start_agent, fake_runtime):
    """An image that could not be pulled is a finding with the reason, until it is there."""
    fake_runtime.on("PullImage", behaviours.fail("NOT_FOUND", "no such image"), image="bad:1")
    agent = start_agent(fake_runtime.endpoint)
    assert findings(agent) == {}
    agent.request("good:1", "bad:1", backoffLimit=0)
    agent.wait_status("bad:1", "Failed")
    agent.wait_status("good:1", "Succeeded")
    found = findings(agent)
    assert list(found) == ["bad:1"]
    assert "NotFound" in found["bad:1"][0] and "no such image" in found["bad:1"][0]
    assert not any("bad" in line for line in agent.ctl("status").stdout.splitlines() if "problem" in line)
    fake_runtime.behave()
    assert agent.ctl("pull", "bad:1").returncode == 0
    assert findings(agent) == {}


def test_configuration_on_disk(start_agent, fake_runtime):
    """A configuration that would not start is found while the agent runs, all that is wrong with it."""
    agent = start_agent(fake_runtime.endpoint)
    write_whole(agent.config_path, "maxParalelPulls: 3\nstallTimeoutSeconds: x\n")
    (first, second) = findings(agent)[str(agent.config_path)]
    assert first.startswith("line 1: ") and "did you mean maxParallelPulls?" in first
    assert second.startswith("line 2: stallTimeoutSeconds: ")
    write_whole(agent.config_path, "mode: cluster\n")
    assert "not a pod" in findings(agent)["--mode"][0]
    agent.config_path.unlink()
    assert findings(agent)[str(agent.config_path)] == ["No such file or directory"]
    write_whole(agent.config_path, "maxParallelPulls: 3\n")
    assert findings(agent) == {}


def test_files(make_agent, fake_runtime):
    """Unknown keys of documents and credentials, and credentials that all users may read, are found."""
    agent = make_agent(fake_runtime.endpoint)
    for path in (agent.folder.parent, agent.folder):
        path.chmod(0o755)
    spec = "apiVersion: apps.kruise.io/v1alpha1\nkind: NodeImage\nspec:\n  image: {}\n"
    write_whole(agent.images_dir / "web.yaml", spec)
    entries = {"user:hunter2@hub.example": {"usernam": "jo", "password": "hunter3", "hunter4": 1}}
    write_whole(agent.auth_dir / "a.json", json.dumps({"auths": entries}, indent=1))
    write_whole(agent.auth_dir / "b.json", json.dumps({"auth": {"hub.example": {"auth": "hunter5"}}}))
    write_whole(agent.auth_dir / "c.json", json.dumps({"auths": {"x": {"Username": "a", "email": "b"}}, "psFormat": ""}))
    for name in ("a.json", "b.json", "c.json"):
        (agent.auth_dir / name).chmod(0o600)
    (agent.auth_dir / "c.json").chmod(0o644)
    agent.start()
    found = findings(agent)
    assert found == {
        f"{agent.images_dir}/web.yaml": ["line 4: spec.image: unknown key, ignored; did you mean images?"],
        f"{agent.auth_dir}/a.json": [
            "line 4: usernam: unknown key, ignored; did you mean username?",
            "line 6: unknown key, ignored; known here: username, password, auth, email, "
            "identitytoken, registrytoken",
        ],
        f"{agent.auth_dir}/b.json": [
            "line 1: unknown key, ignored; known here: username, password, auth, email, "
            "identitytoken, registrytoken"
        ],
        str(agent.auth_dir / "c.json"): ["other users may read it (mode 0644)"],
    }
    assert "hunter" not in agent.log_text() + agent.ctl("doctor", "-o", "yaml").stdout


def test_low_disk(start_agent, fake_runtime):
    """A disk on which less is free than minFreeDisk is a finding."""
    agent = start_agent(fake_runtime.endpoint, min_free_disk="100000GB")
    agent.wait_runtime()
    found = findings(agent)
    assert list(found) == ["disk"] and " free" in found["disk"][0]


def test_groups(start_agent, fake_runtime):
    """A group that does not exist gives no user a right, which is a finding."""
    agent = start_agent(fake_runtime.endpoint, flags=["--socket-group=inplacedd", "--restart-group=x"])
    found = findings(agent)
    assert 'no group "inplacedd"' in found["--socket-group"][0]
    assert 'no group "x"' in found["--restart-group"][0]


@pytest.fixture
def open_program(folder) -> Path:
    """A folder that all users may enter, with programs that they may run."""
    folder.path.chmod(0o711)
    programs = folder / "programs"
    programs.mkdir()
    programs.chmod(0o755)
    for name in ("inplaced", "inplacectl"):
        shutil.copy(Path(os.environ["INPLACED_BUILD_DIR"]) / "agent" / name, programs / name)
        (programs / name).chmod(0o755)
    return programs


def test_runtime_refuses_the_agent(make_agent, fake_runtime, open_program):
    """A runtime's socket that the agent's user may not use is named as that, not as absent."""
    agent = make_agent([fake_runtime.endpoint, "unix:///nowhere.sock"])
    for path in (agent.folder, agent.state_dir):
        os.chown(path, NOBODY, NOBODY)
    agent.folder.chmod(0o755)
    agent.notify.path.chmod(0o777)
    Path(fake_runtime.endpoint.removeprefix("unix://")).chmod(0o600)
    agent.argv[0] = str(open_program / "inplaced")
    agent.argv[:0] = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    agent.start()
    runtime = findings(agent)["container runtime"][0]
    assert "may not connect to" in runtime and "runtime.sock" in runtime and "group" in runtime


def test_agent_refuses_the_caller(start_agent, fake_runtime, open_program):
    """A caller without the right to use the socket reads so, and the remedy; exit status 3."""
    agent = start_agent(fake_runtime.endpoint)
    agent.folder.chmod(0o711)
    program = [str(open_program / "inplacectl"), f"--socket={agent.socket}", "doctor"]
    ran = subprocess.run(
        program, user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 3
    (problem, *_) = [line for line in ran.stdout.splitlines() if line.startswith("problem: inplaced: ")]
    assert "permission denied" in problem and "run it as root" in problem


def test_agent_is_not_there(make_agent, fake_runtime):
    """An agent that does not answer is a problem, exit status 3, and doctor shows the facts that it finds
    without it.
    """
    agent = make_agent(fake_runtime.endpoint)
    ran = agent.ctl("doctor")
    assert ran.returncode == 3 and "problem: inplaced: " in ran.stdout
    assert "RUNTIME SOCKET" not in ran.stdout, "a table of nothing"

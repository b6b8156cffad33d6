# SPDX-License-Identifier: Apache-2.0
"""Flags and the configuration file."""

from __future__ import annotations

import os
import subprocess

import pytest

from lab.documents import write_whole
from lab.preload import Preload
from lab.wait import wait_until


def run(agent, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the agent's program to its end."""
    argv = [agent.argv[0], *arguments]
    return subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)


def test_help_and_version(make_agent, fake_runtime):
    """--help names each option of the program, and --version its version."""
    agent = make_agent(fake_runtime.endpoint)
    shown = run(agent, "--help")
    assert shown.returncode == 0
    for option in ("--config", "--runtime-endpoint", "--images-dir", "--socket", "--log-level"):
        assert option in shown.stdout
    version = run(agent, "--version")
    assert version.returncode == 0
    assert version.stdout.split()[1] == agent.ctl("--version").stdout.split()[1]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--max-parallel-pulls=0"], "--max-parallel-pulls"),
        (["--log-level=loud"], "loud"),
        (["--runtime-endpoint=tcp://1.2.3.4:5"], "tcp://1.2.3.4:5"),
        (["--jump"], "--jump"),
        (["--config=/nowhere/config.yaml"], "/nowhere/config.yaml"),
        (["--socket"], "--socket"),
        (["--prepare-state-dir=-1"], "--prepare-state-dir"),
        (["--prepare-state-dir=me"], "--prepare-state-dir"),
        (["--kubeconfig-context=lab"], "--kubeconfig"),
        (["--max-workers-for-pull-image=many"], "--max-workers-for-pull-image"),
        (["--plugin-config-file=relative"], "--plugin-config-file"),
        (["--feature-gates"], "--feature-gates"),
        (["--cloneset-workers=1"], "--cloneset-workers"),
    ],
)
def test_bad_flags(make_agent, fake_runtime, arguments, text):
    """A wrong flag or file ends the start with status 2 and one line that names it."""
    agent = make_agent(fake_runtime.endpoint)
    ran = run(agent, *arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert text in ran.stderr and len(ran.stderr.splitlines()) == 1


def test_relative_configuration(agent, monkeypatch):
    """--config may be relative to the folder that the agent is started in, also at a reload."""
    agent.terminate()
    name = agent.config_path.name
    agent.argv = [word for word in agent.argv if not word.startswith("--config=")]
    folder = str(agent.config_path.parent)
    agent.argv = ["/usr/bin/env", f"--chdir={folder}", *map(os.path.abspath, agent.argv[:1]),
                  *agent.argv[1:], f"--config={name}"]
    agent.start()
    agent.reload({"logLevel": "warning"})
    wait_until(lambda: len(agent.notify.notices("READY")) > 2, 10, "reload")
    assert not [line for line in agent.logs() if "Cannot reload" in line["message"]]


@pytest.mark.parametrize("path", ["relative", "/a:/b"])
def test_bad_kubeconfig_of_the_environment(make_agent, fake_runtime, monkeypatch, path):
    """It is refused as a flag would be, but for an agent without a cluster."""
    monkeypatch.setenv("KUBECONFIG", path)
    agent = make_agent(
        fake_runtime.endpoint, flags=["--mode=standalone"], environment={"KUBECONFIG": path}
    )
    ran = run(agent, "--mode=cluster")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "$KUBECONFIG: " in ran.stderr and len(ran.stderr.splitlines()) == 1
    agent.start()


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--help"], 0, ""),
        (["--version"], 0, ""),
        (["--prepare-state-dir=65532"], 0, ""),
        (["--remove-pins"], 1, "inplaced: the pins were not removed\n"),
    ],
)
def test_kubeconfig_that_is_not_used(make_agent, fake_runtime, folder, monkeypatch, arguments, status, said):
    """Commands that have nothing to do with a cluster do not need it, nor the context in it."""
    monkeypatch.setenv("KUBECONFIG", "/a:/b")
    agent = make_agent(fake_runtime.endpoint)
    agent.config_path.write_text("kubeconfigContext: lab\n")
    ran = run(agent, *arguments, f"--state-dir={folder / 'new'}", f"--config={agent.config_path}",
              "--runtime-endpoint=/nowhere.sock")
    assert ran.returncode == status, ran.stderr
    assert ran.stderr.endswith(said)


def test_prepare_state_dir(make_agent, fake_runtime, folder):
    """The folder is made, and its content belongs to that user; the target of a link does not."""
    agent = make_agent(fake_runtime.endpoint)
    state, victim = folder / "new", folder / "victim"
    victim.touch()
    for _ in range(2):
        ran = run(agent, f"--state-dir={state}", "--prepare-state-dir=65532")
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
        assert {path.lstat().st_uid for path in (state, *state.iterdir())} == {65532}
        (state / "stops.json").touch()
        (state / "link").unlink(missing_ok=True)
        (state / "link").symlink_to(victim)
        os.chown(state / "stops.json", 0, 0)
    assert state.stat().st_mode & 0o777 == 0o750 and victim.stat().st_uid == 0
    ran = run(agent, f"--state-dir={victim}", "--prepare-state-dir=65532")
    assert ran.returncode == 1 and str(victim) in ran.stderr and len(ran.stderr.splitlines()) == 1


def test_prepare_state_dir_of_an_agent(make_agent, fake_runtime):
    """A folder that an agent uses is left to it, also by root that may do no more than change owners."""
    agent = make_agent(fake_runtime.endpoint)
    agent.start()
    wait_until((agent.state_dir / "nodeimage.json").exists, 10, "status")
    os.chown(agent.state_dir / "lock", 1, -1)
    before = {path.name: path.lstat().st_uid for path in agent.state_dir.iterdir()}
    argv = ["setpriv", "--bounding-set=-all,+chown", *agent.argv, "--prepare-state-dir=65532"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "another agent" in done.stderr and len(done.stderr.splitlines()) == 1
    assert {path.name: path.lstat().st_uid for path in agent.state_dir.iterdir()} == before
    assert agent.state_dir.stat().st_uid == 0
    agent.terminate()
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert {path.lstat().st_uid for path in (agent.state_dir, *agent.state_dir.iterdir())} == {65532}


def test_flags_of_kruise_daemon(make_agent, fake_runtime):
    """The arguments of kruise-daemon's DaemonSet can stay: the agent uses or ignores each."""
    agent = make_agent("unix:///unused")
    socket = fake_runtime.endpoint.removeprefix("unix://")
    metrics = next(word for word in agent.argv if word.startswith("--metrics-address="))
    ours = ("--metrics-address=", "--runtime-endpoint=")
    agent.argv = [word for word in agent.argv if not word.startswith(ours)]
    agent.argv += ["-v", "4", "--logtostderr=true", "--enable-pprof", "--rest-config-qps=30"]
    agent.argv += ["--feature-gates", "ImagePullJobGate=true,PodProbeMarkerGate=false"]
    agent.argv += [f"--addr={metrics.partition('=')[2]}", f"--socket-file={socket}"]
    agent.argv += ["--max-workers-for-pull-image=-1", "--plugin-config-file=", "--plugin-bin-dir="]
    agent.start()
    assert Preload(agent, "demo/web:1").wait_end().phase == agent.messages.PHASE_SUCCEEDED
    assert agent.metrics().get_value("inplaced_runtime_ready") == 1
    (line,) = [line for line in agent.logs() if "kruise-daemon" in line["message"]]
    assert line["level"] == "warning"
    ignored = "--v, --logtostderr, --enable-pprof, --rest-config-qps, --feature-gates"
    assert line["message"].endswith(f": {ignored}.")


def test_folders_are_made(make_agent, fake_runtime, folder):
    """The folders of the state and of the socket are made with all that is missing above them."""
    agent = make_agent(fake_runtime.endpoint)
    state, socket = folder / "state/a/b", folder / "run/a/b/x.sock"
    agent.argv += [f"--state-dir={state}", f"--socket={socket}"]
    agent.socket = socket
    agent.start()
    assert Preload(agent, "demo/web:1").wait_end().phase == agent.messages.PHASE_SUCCEEDED
    wait_until((state / "nodeimage.json").exists, 10, "status file")


def test_configuration_file(make_agent, fake_runtime):
    """The configuration file has each option that the flags have."""
    agent = make_agent("unix:///unused")
    flags = dict(word.removeprefix("--").split("=", 1) for word in agent.argv[1:])
    write_whole(
        agent.config_path,
        {
            "nodeName": "from-file",
            "runtimeEndpoints": [fake_runtime.endpoint],
            "imagesDir": flags["images-dir"],
            "authDir": flags["auth-dir"],
            "stateDir": flags["state-dir"],
            "socket": flags["socket"],
            "metricsAddress": flags["metrics-address"],
            "maxParallelPulls": 2,
            "stallTimeoutSeconds": 30,
            "logLevel": "info",
            "logFormat": "json",
        },
    )
    agent.argv = [agent.argv[0], f"--config={agent.config_path}"]
    agent.start()
    assert Preload(agent, "demo/web:1").wait_end().phase == agent.messages.PHASE_SUCCEEDED
    assert agent.status()["metadata"]["name"] == "from-file"
    assert agent.metrics().get_value("inplaced_runtime_ready") == 1
    assert all(line["level"] == "info" for line in agent.logs())


def test_flags_win(make_agent, fake_runtime):
    """A flag wins over the configuration file, and endpoints of flags replace those of the file."""
    config = {"nodeName": "from-file", "runtimeEndpoints": ["unix:///nowhere"]}
    agent = make_agent(fake_runtime.endpoint, config=config)
    agent.start()
    assert Preload(agent, "demo/web:1").wait_end().phase == agent.messages.PHASE_SUCCEEDED
    assert agent.status()["metadata"]["name"] == "lab"
    answer = agent.node.Diagnose(agent.messages.DiagnoseRequest())
    assert [runtime.endpoint for runtime in answer.runtimes] == [fake_runtime.endpoint]


def test_node_name_of_the_environment(make_agent, fake_runtime):
    """Without a flag, NODE_NAME is the name of the node."""
    agent = make_agent(fake_runtime.endpoint, environment={"NODE_NAME": "from-environment"})
    agent.argv.remove("--node-name=lab")
    agent.start()
    agent.request("demo/web:1")
    agent.wait_status("demo/web:1", "Succeeded")
    assert agent.status()["metadata"]["name"] == "from-environment"


def test_node_name_of_the_machine(make_agent, fake_runtime):
    """Without either, it is the name of the machine in lower case, as the kubelet registers it."""
    agent = make_agent(fake_runtime.endpoint)
    agent.argv.remove("--node-name=lab")
    agent.argv[:0] = ["unshare", "--uts", "sh", "-c", 'hostname Lab-ONE.Example; exec "$@"', "sh"]
    agent.start()
    agent.request("demo/web:1")
    agent.wait_status("demo/web:1", "Succeeded")
    assert agent.status()["metadata"]["name"] == "lab-one.example"


@pytest.mark.parametrize("value", [["debug", "info"], ["info"], []])
def test_list_for_one_value(make_agent, fake_runtime, value):
    """An option with several values is refused, rather than reduced to the last of them."""
    agent = make_agent(fake_runtime.endpoint, config={"logLevel": value})
    ran = run(agent, *agent.argv[1:])
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "logLevel: expected one value, got a list" in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_configuration_that_is_no_file(make_agent, fake_runtime, make):
    """Nothing is waited for, and a FIFO does not count as an empty configuration."""
    agent = make_agent(fake_runtime.endpoint)
    agent.config_path.unlink()
    make(agent.config_path)
    ran = run(agent, *agent.argv[1:])
    assert ran.returncode == 2
    assert ran.stderr == f"inplaced: {agent.config_path}: not a file\n"

# SPDX-License-Identifier: Apache-2.0
"""The program under test, run as systemd would run it, with everything it touches private.

The build folder is taken from the environment variable INPLACED_BUILD_DIR.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc

from lab import sanitizers, stubs
from lab.cleanup import MARKER, sweep
from lab.cri import CHANNEL_OPTIONS
from lab.documents import find_tag_status, node_image, split_reference, write_whole
from lab.metrics import Metrics, fetch_metrics
from lab.notify import NotifySocket
from lab.process import Child, Exit, Process
from lab.wait import free_port, stretch, wait_until


@dataclass(frozen=True)
class Memory:
    """In kilobytes, of the kernel's 1024 bytes."""

    rss: int
    anonymous: int


class Agent:
    """Runs `inplaced` until closed; closing checks that it ended well.

    It is in standalone mode, unless it is given a kubeconfig. `config` is what its configuration
    file says, `flags` are more of its flags. It keeps no room on the disk, so that tests pass on a
    machine whose own disk is nearly full; None is the agent's default. Everything is in place before it is started, so a test
    can put documents into `images_dir` first.
    """

    def __init__(
        self,
        folder: Path,
        runtime_endpoint: str | Sequence[str],
        *,
        node_name: str = "lab",
        kubeconfig: Path | None = None,
        build_dir: Path | None = None,
        config: Mapping[str, Any] | None = None,
        max_parallel_pulls: int | None = None,
        stall_timeout: float | None = None,
        min_free_disk: str | None = "0",
        watchdog_seconds: float | None = None,
        log_level: str = "debug",
        flags: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.build_dir = build_dir or Path(os.environ["INPLACED_BUILD_DIR"])
        self.socket = folder / "inplaced.sock"
        self.state_dir = folder / "state"
        self.images_dir = folder / "images.d"
        self.auth_dir = folder / "auth"
        self.config_path = folder / "config.yaml"
        self.log_path = folder / "inplaced.log"
        for made in (self.state_dir, self.images_dir, self.auth_dir):
            made.mkdir(parents=True)
        write_whole(self.config_path, dict(config or {}))
        self.metrics_address = f"127.0.0.1:{free_port()}"
        self.notify = NotifySocket(folder / "notify.sock")
        self.messages = stubs.load("inplaced.v1.node").messages
        self._channel: grpc.Channel | None = None
        self._process: Process | None = None
        self._ctl_output = ""
        self._expected_end = False
        self._environment = {
            **sanitizers.environment(),
            "NOTIFY_SOCKET": str(self.notify.path),
            "KUBECONFIG": "",
            **(environment or {}),
        }
        if watchdog_seconds is not None:
            self._environment["WATCHDOG_USEC"] = str(round(watchdog_seconds * 1e6))
        endpoints = [runtime_endpoint] if isinstance(runtime_endpoint, str) else runtime_endpoint
        self.argv = [str(self.build_dir / "agent" / "inplaced")]
        self.argv += [f"--node-name={node_name}", "--log-format=json"]
        self.argv += [f"--config={self.config_path}", f"--log-level={log_level}"]
        self.argv += [f"--socket={self.socket}", f"--state-dir={self.state_dir}"]
        self.argv += [f"--images-dir={self.images_dir}", f"--auth-dir={self.auth_dir}"]
        self.argv += [f"--metrics-address={self.metrics_address}"]
        self.argv += [f"--runtime-endpoint={endpoint}" for endpoint in endpoints]
        if kubeconfig is not None:
            self.argv += ["--mode=cluster", f"--kubeconfig={kubeconfig}"]
        if max_parallel_pulls is not None:
            self.argv += [f"--max-parallel-pulls={max_parallel_pulls}"]
        if stall_timeout is not None:
            self.argv += [f"--stall-timeout={stall_timeout:g}"]
        if min_free_disk is not None:
            self.argv += [f"--min-free-disk={min_free_disk}"]
        self.argv += flags

    def __enter__(self) -> Agent:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(check=error is None)

    # Start and end

    @property
    def process(self) -> Process:
        assert self._process is not None, "the agent was not started"
        return self._process

    def start(self, timeout: float = 10, wait_ready: bool = True) -> float:
        """Returns how long it took to be ready, in seconds."""
        process = Process(self.argv, self.folder, self.log_path, self._environment)
        self._process, self._expected_end = process, False

        def is_ready() -> bool:
            process.check_alive()
            return any(said.at >= process.began_at for said in self.notify.notices("READY"))

        if not wait_ready:
            return 0
        wait_until(is_ready, timeout * sanitizers.SLOWNESS, lambda: f"READY=1:\n{self.log_text()}")
        return self.notify.wait_for("READY", 1, process.began_at).at - process.began_at

    def run(self, *flags: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """Starts it, with the test's environment, and waits for the end that has to come by itself."""
        return subprocess.run(
            [*self.argv, *flags],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=20 * sanitizers.SLOWNESS,
            env={**os.environ, **sanitizers.environment()},
            check=False,
            **more,
        )

    def terminate(self) -> Exit:
        """How it ended is then for the test to judge."""
        self._expected_end = True
        return self.process.terminate()

    def kill9(self) -> Exit:
        self._expected_end = True
        return self.process.kill9()

    def reload(self, config: Mapping[str, Any] | None = None) -> None:
        """Asks it to read its configuration again, perhaps a new one. Does not wait."""
        if config is not None:
            write_whole(self.config_path, dict(config))
        self.process.send(signal.SIGHUP)

    def close(self, check: bool = True) -> None:
        """Ends it, if need be, and removes its folder.

        With `check`, AssertionError if it ended before it was to, took too long, did not exit
        with 0, or if a sanitizer found something in it or in `inplacectl`.
        """
        try:
            problem = self._find_problem()
        finally:
            if self._channel is not None:
                self._channel.close()
            self.notify.close()
            sweep(self.folder)
        assert problem is None or not check, problem

    def _find_problem(self) -> str | None:
        problem = None
        if self._process is not None and not self._expected_end:
            if self._process.code is not None:
                problem = f"the agent ended by itself with {self._process.code}"
            else:
                problem = _judge(self._process.terminate())
        report = sanitizers.find_report(self.log_text() + self._ctl_output)
        if report is not None:
            problem = f"a sanitizer found:\n{report}"
        return problem and f"{problem}\n{self.log_text()[-4000:]}"

    # Requests

    def request(
        self,
        *references: str,
        file: str = "wanted.yaml",
        policy: str = "IfNotPresent",
        version: int = 0,
        pin: bool = False,
        **pull_policy: int,
    ) -> None:
        """Writes a document into its images folder, see documents.node_image()."""
        document = node_image(references, policy, version, pin, **pull_policy)
        write_whole(self.images_dir / file, document)

    def give_credentials(self, host: str, user: str, password: str, file: str = "a.json") -> None:
        auths = {host: {"username": user, "password": password}}
        write_whole(self.auth_dir / file, {"auths": auths})

    def ctl(self, *arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Runs `inplacectl` to its end."""
        with self.start_ctl(*arguments) as child:
            try:
                output, errors = child.communicate(timeout=timeout)
            except BaseException:
                child.kill()
                raise
        self._ctl_output += errors
        return subprocess.CompletedProcess(child.args, child.returncode, output, errors)

    def start_ctl(self, *arguments: str) -> Child:
        """Runs `inplacectl` beside the test, which has to wait for it."""
        program = self.build_dir / "agent" / "inplacectl"
        return Child(
            [str(program), f"--socket={self.socket}", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **sanitizers.environment(), MARKER: str(self.folder)},
        )

    @property
    def node(self) -> Any:
        """A stub of its local API; the messages are in `messages`."""
        if self._channel is None:
            self._channel = grpc.insecure_channel(f"unix:{self.socket}", options=CHANNEL_OPTIONS)
        return stubs.load("inplaced.v1.node").services.NodeStub(self._channel)

    # Output

    def status(self) -> dict[str, Any]:
        """The NodeImage in its status file; empty while there is none."""
        try:
            return json.loads((self.state_dir / "nodeimage.json").read_text())
        except FileNotFoundError:
            return {}

    def tag_status(self, reference: str) -> dict[str, Any] | None:
        return find_tag_status(self.status(), reference)

    def owners(self, reference: str) -> list[tuple[str, str]]:
        """Kind and name of each owner of the image, as in the status file."""
        name, tag = split_reference(reference)
        tags = self.status().get("spec", {}).get("images", {}).get(name, {}).get("tags", [])
        found = next((entry for entry in tags if entry["tag"] == tag), {"ownerReferences": []})
        return [(owner["kind"], owner["name"]) for owner in found["ownerReferences"]]

    def wait_status(self, reference: str, phase: str, timeout: float = 30) -> dict[str, Any]:
        """Waits until the status file says so; returns the status of the reference."""

        def reached() -> dict[str, Any] | None:
            self.process.check_alive()
            found = self.tag_status(reference)
            return found if found is not None and found["phase"] == phase else None

        return wait_until(
            reached, timeout, lambda: f"{phase} of {reference}, but {self.tag_status(reference)}"
        )

    def log_text(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def logs(self) -> list[dict[str, Any]]:
        """The agent's log lines; other output on stderr is left out."""
        lines = self.log_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def metrics(self) -> Metrics:
        return fetch_metrics(self.metrics_address)

    def wait_runtime(self) -> None:
        """An agent is ready also while a runtime that takes its time has not answered yet."""
        ready = lambda: self.metrics().get_value("inplaced_runtime_ready") == 1  # noqa: E731
        wait_until(ready, 10, "runtime")

    # Costs

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def threads(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    def memory(self) -> Memory:
        text = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        fields = {line.split(":")[0]: line.split()[1] for line in text.splitlines()[1:]}
        return Memory(int(fields["Rss"]), int(fields["Anonymous"]))


def _judge(ended: Exit) -> str | None:
    limit = stretch(max(3, sanitizers.SLOWNESS))  # it takes far less, but machines stand still at times
    if ended.code != 0:
        return f"the agent exited with {ended.code} after SIGTERM"
    if ended.seconds > limit:
        return f"the agent took {ended.seconds:.2f} s to end, more than {limit:g} s"
    return None

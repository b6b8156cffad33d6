# SPDX-License-Identifier: Apache-2.0
"""Pods of a runtime without a kubelet: containers with the labels that a kubelet would give them.

Nothing starts a container again here but the test:

    with Sandbox(runtime, image, name="web") as pod:
        first = pod.run("app", until_term())
        ...
        second = pod.run("app", until_term())
"""

from __future__ import annotations

import importlib
import json
import signal
import sys
import uuid
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from lab.cleanup import Closing
from lab.folder import LabFolder
from lab.runtime import Runtime
from lab.wait import wait_until

_SERVICE = "/runtime.v1.RuntimeService"
_HERE = Path(__file__).resolve().parent


@cache
def _generate() -> tuple[LabFolder, ModuleType]:
    """The messages; their folder goes with this process."""
    from grpc_tools import protoc

    output = LabFolder()
    argv = ["protoc", f"-I{_HERE}", f"--python_out={output.path}", "cri-sandbox.proto"]
    if protoc.main(argv) != 0:
        raise RuntimeError("protoc failed on cri-sandbox.proto")
    sys.path.insert(0, str(output.path))
    return output, importlib.import_module("cri_sandbox_pb2")


class Sandbox(Closing):
    """A pod on the network of this machine, until closed. `grace` is in seconds."""

    def __init__(
        self,
        runtime: Runtime,
        image: str,
        name: str = "web",
        namespace: str = "default",
        *,
        grace: int = 5,
    ) -> None:
        """`image` also keeps the sandbox, so its own command goes on until SIGTERM."""
        self.runtime = runtime
        self.image = image
        self.name, self.namespace, self.uid = name, namespace, str(uuid.uuid4())
        self.grace = grace
        self.attempts: dict[str, int] = {}
        self._messages = _generate()[1]
        self._id = ""

    def start(self) -> None:
        self.runtime.pull(self.image)
        self.runtime.keep_sandboxes_with(self.image)
        request = self._messages.RunPodSandboxRequest(config=self._config())
        self._id = self._call("RunPodSandbox", request, "RunPodSandboxResponse").pod_sandbox_id

    def close(self) -> None:
        """Takes it down with all its containers."""
        if self._id:
            request = self._messages.PodSandboxRequest(pod_sandbox_id=self._id)
            self._call("StopPodSandbox", request, "Empty")
            self._call("RemovePodSandbox", request, "Empty")
            self._id = ""

    def run(
        self,
        name: str,
        command: Sequence[str],
        *,
        image: str | None = None,
        image_id: str | None = None,
        pre_stop: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> str:
        """Starts a container, for the second time as a kubelet would; returns the runtime's ID. The
        kubelet gives the runtime an `image_id`, and the name of the image beside that."""
        chosen = image or self.image
        attempt = self.attempts.get(name, -1) + 1
        self.attempts[name] = attempt
        annotations = {
            "io.kubernetes.container.hash": "5f3e7a1c",
            "io.kubernetes.container.restartCount": str(attempt),
            "io.kubernetes.pod.terminationGracePeriod": str(self.grace),
        }
        if pre_stop is not None:
            annotations["io.kubernetes.container.preStopHandler"] = json.dumps(pre_stop)
        options = self._messages.NamespaceOption(network="NODE", pid="CONTAINER")
        security = self._messages.ContainerSecurity(namespace_options=options)
        config = self._messages.ContainerConfig(
            metadata=self._messages.ContainerMetadata(name=name, attempt=attempt),
            image=self._messages.ImageSpec(image=image_id or chosen, user_specified_image=chosen),
            command=command,
            envs=[self._messages.KeyValue(key=k, value=v) for k, v in (env or {}).items()],
            labels={**self._labels, "io.kubernetes.container.name": name},
            annotations=annotations,
            linux=self._messages.ContainerLinux(security_context=security),
        )
        request = self._messages.CreateContainerRequest(
            pod_sandbox_id=self._id, config=config, sandbox_config=self._config()
        )
        made = self._call("CreateContainer", request, "CreateContainerResponse").container_id
        request = self._messages.StartContainerRequest(container_id=made)
        self._call("StartContainer", request, "Empty")
        return made

    def run_heeding(self, name: str, command: Sequence[str], **more: Any) -> str:
        """As run(), until the container heeds SIGTERM, which the kernel would drop before its trap."""
        made = self.run(name, command, **more)
        process = self.process(made)

        def heeds() -> bool:
            # runc's init, which is there before the command, catches all signals itself.
            if (process / "cmdline").read_bytes().split(b"\0")[0].decode() != command[0]:
                return False
            lines = (process / "status").read_text().splitlines()
            (caught,) = [line.split()[1] for line in lines if line.startswith("SigCgt:")]
            return bool(int(caught, 16) & 1 << signal.SIGTERM - 1)

        wait_until(heeds, 10, f"trap of {name}")
        return made

    def process(self, container_id: str) -> Path:
        """The folder of its first process in /proc."""
        _, about = self.runtime.cri.container_status(container_id)
        return Path(f"/proc/{about['pid']}")

    def state(self, container_id: str) -> str:
        """ "RUNNING", "EXITED"..."""
        messages = self.runtime.cri.messages
        status = self.status(container_id)
        return messages.ContainerState.Name(status.state).removeprefix("CONTAINER_")

    def status(self, container_id: str) -> Any:
        cri = self.runtime.cri
        request = cri.messages.ContainerStatusRequest(container_id=container_id)
        return cri.runtime.ContainerStatus(request, timeout=cri.timeout).status

    def wait_exited(self, container_id: str, timeout: float = 10) -> Any:
        wait_until(lambda: self.state(container_id) == "EXITED", timeout, f"end of {container_id}")
        return self.status(container_id)

    @property
    def _labels(self) -> dict[str, str]:
        return {
            "io.kubernetes.pod.name": self.name,
            "io.kubernetes.pod.namespace": self.namespace,
            "io.kubernetes.pod.uid": self.uid,
        }

    def _config(self) -> Any:
        options = self._messages.NamespaceOption(network="NODE", pid="CONTAINER")
        security = self._messages.SandboxSecurity(namespace_options=options)
        return self._messages.SandboxConfig(
            metadata=self._messages.PodMetadata(
                name=self.name, uid=self.uid, namespace=self.namespace
            ),
            labels=self._labels,
            linux=self._messages.SandboxLinux(security_context=security),
        )

    def _call(self, method: str, request: Any, reply: str) -> Any:
        call = self.runtime.cri.channel.unary_unary(
            f"{_SERVICE}/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=getattr(self._messages, reply).FromString,
        )
        return call(request, timeout=self.runtime.cri.timeout)

# SPDX-License-Identifier: Apache-2.0
"""Proves the agent in a pod of its image on a real node: nothing of the machine is at hand there.

The pod may do nothing: no capabilities, its root read-only, a user other than root, whose group opens
the runtime's socket. Only the network is the node's, on whose loopback address the API server is.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fake.dns import FakeDns
from lab.documents import write_whole
from lab.kubeconfig import write_kubeconfig
from lab.metrics import fetch_metrics
from lab.node_image import NodeImage
from lab.wait import free_port, wait_until

_RSS_MEGABYTES_MAX = 12
_PLUGIN = r"""
#include <stdio.h>
int main(void) {
        puts("{\"kind\": \"CredentialProviderResponse\","
             " \"apiVersion\": \"credentialprovider.kubelet.k8s.io/v1\","
             " \"cacheKeyType\": \"Registry\","
             " \"auth\": {\"HOST\": {\"username\": \"USER\", \"password\": \"PASSWORD\"}}}");
        return 0;
}
"""

pytestmark = [pytest.mark.containers, pytest.mark.timeout(240)]


class AgentPod:
    """The agent in a pod, ready."""

    def __init__(self, make_pod, image: str, flags: list, mounts: dict, dns: dict) -> None:
        self.metrics_address = f"127.0.0.1:{free_port()}"
        port = int(self.metrics_address.rpartition(":")[2])
        names = {inside: f"v{n}" for n, inside in enumerate(mounts)}
        agent = {
            "name": "agent",
            "image": image,
            "args": [f"--metrics-address={self.metrics_address}", "--log-format=json", *flags],
            "readinessProbe": {
                "httpGet": {"host": "127.0.0.1", "path": "/healthz", "port": port},
                "periodSeconds": 1,
            },
            "securityContext": {
                "runAsUser": 65532,
                "runAsGroup": 0,
                "readOnlyRootFilesystem": True,
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "volumeMounts": [
                {"name": name, "mountPath": inside} for inside, name in names.items()
            ],
        }
        volumes = [
            {"name": names[inside], "hostPath": {"path": str(outside)}}
            if outside
            else {"name": names[inside], "emptyDir": {}}
            for inside, outside in mounts.items()
        ]
        pod = make_pod(agent, must_wait=False, owner=False, volumes=volumes, hostNetwork=True, **dns)
        self.pod = pod
        wait_until(self.serves, 60, lambda: f"its metrics:\n{self.log()}{pod.get().get('status')}")
        marker = self.metrics_address.encode()
        self.proc = next(
            path.parent
            for path in Path("/proc").glob("[0-9]*/cmdline")
            if marker in path.read_bytes()
        )

    def serves(self) -> bool:
        try:
            return bool(fetch_metrics(self.metrics_address, timeout=1))
        except OSError:
            return False

    def log(self) -> str:
        folders = (self.pod.node.folder / "logs").glob(f"*_{self.pod.name}_{self.pod.uid}")
        return "".join(p.read_text() for folder in folders for p in folder.rglob("*.log"))

    def status(self) -> dict[str, str]:
        lines = (self.proc / "status").read_text().splitlines()
        return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


@pytest.fixture(scope="session")
def image(archive, registry) -> str:
    """The image goes through a registry, as it does for users."""
    version = archive.name.removeprefix("inplaced-").removesuffix(".oci.tar")
    reference = f"{registry.host}/inplaced:{version}"
    argv = ["skopeo", "copy", "--quiet", "--all", "--dest-tls-verify=false"]
    subprocess.run([*argv, f"oci-archive:{archive}", f"docker://{reference}"], check=True)
    return reference


@pytest.fixture
def node_image(kube, node):
    """The NodeImage of the node where the pod is."""
    return NodeImage(kube, node.name)


@pytest.fixture
def run(make_pod, node, image, folder):
    """run(kubeconfig, flags, mounts, dns) as AgentPod."""

    def start(kubeconfig: Path, flags=(), mounts=None, dns=None) -> AgentPod:
        secrets = folder / "kube"
        secrets.mkdir()
        kubeconfig = kubeconfig.rename(secrets / "kubeconfig")
        kubeconfig.chmod(0o640)
        usual = ["--mode=cluster", "--kubeconfig=/etc/inplaced/kubeconfig"]
        usual += ["--runtime-endpoint=unix:///run/containerd/containerd.sock"]
        usual += [f"--node-name={node.name}", *flags]
        inside = {
            "/etc/inplaced": secrets,
            "/run/containerd": node.runtime.folder,
            "/run/inplaced": None,
            "/var/lib/inplaced": None,
            **(mounts or {}),
        }
        return AgentPod(make_pod, image, usual, inside, dns or {})

    return start


def write_inline(control_plane, node, path: Path, server: str | None = None) -> Path:
    """A kubeconfig that needs no other file."""
    token = control_plane.agent_token(node.name)
    return control_plane.write_kubeconfig(path, server, token=token, is_inline=True)


def test_import(archive, runtime):
    """containerd takes the archive as it is, without a registry."""
    argv = ["ctr", "--address", runtime.socket, "--namespace", "import", "images"]
    taking = [*argv, "import", "--snapshotter", runtime.snapshotter, archive]
    subprocess.run(taking, check=True)
    listed = subprocess.run([*argv, "ls"], capture_output=True, text=True, check=True).stdout
    assert "localhost/inplaced:" in listed and "linux/amd64" in listed
    name = listed.splitlines()[1].split()[0]
    subprocess.run([*argv, "rm", "--sync", name], check=True)


def test_cluster_by_name(run, control_plane, node, folder, node_image, push, record_property):
    """The API server is found by DNS, with the pod's search list, and proved by the bundle in the
    image's place; the agent pulls, and takes little memory."""
    token = control_plane.agent_token(node.name)
    server = f"https://api:{control_plane.port}"
    kubeconfig = write_kubeconfig(
        folder / "agent.conf", server, None, token=token, tls_server_name="localhost"
    )
    certificates = folder / "certs"
    certificates.mkdir()
    bundle = certificates / "ca-certificates.crt"
    bundle.write_bytes(control_plane.authority.certificate.read_bytes())
    with FakeDns({"api.cluster.lab": "127.0.0.1"}) as dns:
        resolver = {
            "nameservers": [dns.address],
            "searches": ["pods.lab", "cluster.lab"],
            "options": [{"name": "ndots", "value": "5"}],
        }
        agent = run(
            kubeconfig,
            mounts={"/etc/ssl/certs": certificates},
            dns={"dnsPolicy": "None", "dnsConfig": resolver},
        )
        pushed = push()
        node_image.request(pushed.reference)
        node_image.wait_status(pushed.reference, "Succeeded")
        assert {"api.pods.lab", "api.cluster.lab"} <= set(dns.asked)

    status = agent.status()
    assert status["Uid"].split()[0] == "65532" and status["Seccomp"] == "2"
    assert status["CapEff"] == status["CapBnd"] == "0000000000000000"
    megabytes = int(status["VmRSS"].split()[0]) * 1024 / 1e6
    print(f"RSS in a cluster: {megabytes:.1f} MB")
    record_property("rss-megabytes", megabytes)
    assert megabytes <= _RSS_MEGABYTES_MAX


def test_name_that_nobody_knows(run, control_plane, node, folder):
    """It says so, and goes on."""
    server = f"https://nowhere:{control_plane.port}"
    kubeconfig = write_inline(control_plane, node, folder / "agent.conf", server)
    with FakeDns({}) as dns:
        resolver = {"dnsPolicy": "None", "dnsConfig": {"nameservers": [dns.address]}}
        agent = run(kubeconfig, dns=resolver)
        said = lambda: "host name cannot be resolved" in agent.log()  # noqa: E731
        wait_until(said, 30, agent.log)
    assert agent.serves()


def test_mounted_plugin(
    run, control_plane, node, folder, auth_registry, image_name, node_image
):
    """A credential plugin needs no more than the agent: a static program in a mounted folder."""
    user, password = auth_registry.credentials
    text = _PLUGIN.replace("HOST", auth_registry.host).replace("USER", user)
    source, plugins = folder / "plugin.c", folder / "plugins"
    source.write_text(text.replace("PASSWORD", password))
    plugins.mkdir()
    subprocess.run(["gcc", "-static", "-o", plugins / "lab-plugin", source], check=True)
    provider = {
        "name": "lab-plugin",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "matchImages": [auth_registry.host],
        "defaultCacheDuration": "1h",
    }
    config = {"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig"}
    write_whole(plugins / "config.yaml", {**config, "providers": [provider]})
    (plugins / "config.yaml").chmod(0o644)
    pushed = auth_registry.push_image(image_name, "1", [1000], labels={"test": image_name})
    agent = run(
        write_inline(control_plane, node, folder / "agent.conf"),
        [
            "--image-credential-provider-config=/plugins/config.yaml",
            "--image-credential-provider-bin-dir=/plugins",
        ],
        {"/plugins": plugins},
    )
    node_image.request(pushed.reference)
    node_image.wait_status(pushed.reference, "Succeeded")
    assert password not in agent.log()

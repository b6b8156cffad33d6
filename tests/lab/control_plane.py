# SPDX-License-Identifier: Apache-2.0
"""A real Kubernetes control plane on the loopback address."""

from __future__ import annotations

import ipaddress
import json
import shutil
import socket
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import yaml

from compatibility import note
from lab.built import find_built
from lab.certificates import Authority, make_signing_key
from lab.cleanup import Closing, sweep
from lab.kube import Kube, KubeError, Object
from lab.kubeconfig import write_kubeconfig
from lab.part import Part, says_ok
from lab.stubs import REPOSITORY
from lab.wait import free_port, wait_until

_ADMIN_TOKEN = "lab-admin"
_MANIFESTS = REPOSITORY / "packaging" / "kubernetes"
_NAMESPACE = "inplaced"
_UNBOUND = "unbound"  # the account of agents for which there is no Node
_SECRETS = "kruise-daemon-config"  # the namespace in which OpenKruise collects them

# Only what service accounts do is of interest: the agent is one.
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Request", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}],
}


# Other accounts than the agent's, whose agents the policy does not limit, look limited to these: agents try
# by dry runs whether they are.
_NO_DRY_RUNS = [
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "lab-no-dry-runs"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": ["", "apps.kruise.io", "coordination.k8s.io"],
                        "apiVersions": ["*"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": ["pods/status", "nodeimages/status", "nodes/status", "leases"],
                    }
                ]
            },
            "matchConditions": [
                {
                    "name": "account",
                    "expression": f"'system:serviceaccounts:{_NAMESPACE}' in request.userInfo.groups",
                }
            ],
            "validations": [{"expression": "request.dryRun != true", "reason": "Forbidden"}],
        },
    },
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "lab-no-dry-runs"},
        "spec": {"policyName": "lab-no-dry-runs", "validationActions": ["Deny"]},
    },
]


class ControlPlane(Closing):
    """etcd and kube-apiserver until closed, and further parts on request; data survive restarts.

    Each part is a `Part`: control_plane.apiserver.kill9() and so on. `etcd="debian"` is release 3.4,
    with which the API server cannot stream lists. `services` are the addresses of services.
    `apiserver_flags` win over ours.
    """

    def __init__(
        self,
        folder: Path,
        *,
        etcd: Literal["new", "debian"] = "new",
        controllers: bool = False,
        scheduler: bool = False,
        services: str = "10.96.0.0/24",
        apiserver_flags: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True)
        self.authority = Authority(folder)
        self.services = ipaddress.ip_network(services)
        self.service_address = str(self.services[1])  # address of the API server, for pods
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.admin = self.make_admin()
        self.admin_kubeconfig = self.write_kubeconfig(folder / "admin.conf", token=_ADMIN_TOKEN)
        self._audit = folder / "audit.log"
        self._data = folder / "etcd"
        self._signing_key = make_signing_key(folder / "service-accounts.key")
        programs = find_built("control-plane")
        self.etcd = self._make_etcd(Path("/usr/bin") if etcd == "debian" else programs)
        self.apiserver = self._make_apiserver(programs, controllers, apiserver_flags)
        self.controllers = self._make_controllers(programs) if controllers else None
        self.scheduler = self._make_scheduler(programs) if scheduler else None

    def start(self) -> None:
        """Returns once all of it answers."""
        self.etcd.start()
        # The controllers wait ten seconds for the API server, which is too short on a busy machine.
        self.apiserver.start()
        parts = [part for part in (self.controllers, self.scheduler) if part]
        for part in parts:
            part.start(wait_ready=False)
        for part in parts:
            part.wait_ready()
        note("Kubernetes API server", self.admin.get("/version")["gitVersion"])
        with urllib.request.urlopen(f"{self._etcd_url}/version", timeout=30) as answer:
            note("etcd", json.load(answer)["etcdserver"])

    def close(self) -> None:
        """Nothing of it is kept, so nothing has to end well."""
        self.admin.close()
        sweep(self.folder)

    # Users and their rights

    def client(
        self, token: str | None = None, certificate: tuple[Path, Path] | None = None
    ) -> Kube:
        return Kube(self.url, self.authority.certificate, token, certificate)

    def make_admin(self) -> Kube:
        """A client that may do everything, with a connection of its own."""
        return self.client(_ADMIN_TOKEN)

    def write_kubeconfig(self, path: Path, server: str | None = None, **user: Any) -> Path:
        """See kubeconfig.py. `server` is where something that stands in between listens."""
        return write_kubeconfig(path, server or self.url, self.authority.certificate, **user)

    def node_certificate(self, name: str) -> tuple[Path, Path]:
        """The certificate of the kubelet of that node, and its key."""
        return self.authority.issue(f"node-{name}", f"/O=system:nodes/CN=system:node:{name}")

    def service_account_token(
        self, namespace: str, name: str, seconds: int = 86400, node: str | None = None
    ) -> str:
        """A new token of a service account that exists. Less than 600 seconds is refused.

        With `node` it is bound to that Node, as the token of a pod is.
        """
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        spec: Object = {"expirationSeconds": seconds}
        if node is not None:
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Node", "name": node}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return self.admin.post(path, request)["status"]["token"]

    def agent_token(self, node: str | None = None) -> str:
        """For an agent, with the rights that `install` gives it.

        With `node` the token is bound to that Node, and the policy limits what it may write. Where there
        is no Node it is another account's, with the same rights.
        """
        if node is None:
            return self.service_account_token(_NAMESPACE, _UNBOUND)
        return self.service_account_token(_NAMESPACE, "inplaced", node=node)

    def write_agent_kubeconfig(
        self, path: Path, server: str | None = None, node: str | None = None
    ) -> Path:
        """With such a token."""
        return self.write_kubeconfig(path, server, token=self.agent_token(node))

    # Objects

    def install(self) -> None:
        """Our custom resources, what the agent may do, and the policy that limits it to its node."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _SECRETS}}
        self.admin.apply(namespace)
        self.apply_files(*sorted((_MANIFESTS / "crds").glob("*.apps.kruise.io.yaml")))
        self.apply_files(_MANIFESTS / "namespace" / "namespace.yaml")
        account = {"name": _UNBOUND, "namespace": _NAMESPACE}
        self.admin.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
        for path in (
            _MANIFESTS / "base" / "rbac.yaml",
            _MANIFESTS / "components" / "registration" / "rbac.yaml",
            _MANIFESTS / "overlays" / "openkruise" / "rbac-secrets.yaml",
        ):
            for document in read_documents(path):
                if "subjects" in document:
                    document["subjects"].append({"kind": "ServiceAccount", **account})
                self.admin.apply(document)
        self.apply_files(_MANIFESTS / "policy" / "policy.yaml")
        for document in _NO_DRY_RUNS:
            self.admin.apply(document)

    def install_node_rights(self) -> None:
        """Installs the rights of agents that use the identity of the kubelet."""
        self.apply_files(_MANIFESTS / "overlays" / "kubelet-identity" / "rbac.yaml")

    def apply_files(self, *paths: Path) -> None:
        """As `kubectl apply`; returns when new kinds are served."""
        for path in paths:
            for document in read_documents(path):
                applied = self.admin.apply(document)
                if document["kind"] == "CustomResourceDefinition":
                    self._wait_served(applied)

    def save(self) -> None:
        """Keeps what is in it now, for `restore`. The API server goes on running."""
        self.etcd.stop()
        shutil.copytree(self._data, self.folder / "saved")
        self.etcd.start()
        self.apiserver.wait_ready()

    def restore(self, restart_server: bool) -> None:
        """Restores the saved state, as from a backup: later objects and versions never were.

        An API server that is not started again goes on with what it remembers of them.
        """
        self.etcd.kill9()
        shutil.rmtree(self._data)
        shutil.move(self.folder / "saved", self._data)
        self.etcd.start()
        if restart_server:
            self.apiserver.restart()
        self.apiserver.wait_ready()

    def audit(self, **expected: Any) -> list[Object]:
        """The requests of service accounts, oldest first.

        Arguments select requests, as in verb="patch" or userAgent="…". The server logs a request a
        moment after it was served: wait for it.
        """
        if not self._audit.exists():
            return []
        # The last line may be written right now.
        lines = self._audit.read_text().split("\n")[:-1]
        entries = [json.loads(line) for line in lines]
        return [entry for entry in entries if expected.items() <= entry.items()]

    def _wait_served(self, definition: Object) -> None:
        spec = definition["spec"]
        plural = spec["names"]["plural"]
        for version in spec["versions"]:
            group = f"/apis/{spec['group']}/{version['name']}"
            if version["served"]:
                wait_until(
                    lambda group=group: self._serves(group, plural),
                    20,
                    f"{plural} in {group}",
                    pause=0.02,
                )

    def _serves(self, group: str, plural: str) -> bool:
        """Both that it is listed and that it is served; one may come before the other."""
        try:
            names = [entry["name"] for entry in self.admin.get(group)["resources"]]
            return plural in names and "items" in self.admin.get(f"{group}/{plural}", limit="1")
        except KubeError as error:
            if error.code in (404, 429, 503):
                return False
            raise

    # Parts

    def _make_etcd(self, programs: Path) -> Part:
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self._etcd_url = client
        argv = [
            *(programs / "etcd", f"--data-dir={self._data}", "--unsafe-no-fsync"),
            *(f"--listen-client-urls={client}", f"--advertise-client-urls={client}"),
            *(f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}"),
            *(f"--initial-cluster=default={peer}", "--log-level=warn"),
        ]
        if programs == Path("/usr/bin"):
            argv.remove("--unsafe-no-fsync")
        return Part(self.folder, argv, lambda: says_ok(f"{client}/health"))

    def _make_apiserver(
        self, programs: Path, has_controllers: bool, more: Sequence[str]
    ) -> Part:
        tokens, policy = self.folder / "tokens.csv", self.folder / "audit-policy.json"
        tokens.write_text(f'{_ADMIN_TOKEN},lab-admin,lab-admin,"system:masters"\n')
        policy.write_text(json.dumps(_AUDIT_POLICY))
        certificate, key = self.authority.issue(
            "apiserver", "/CN=lab API server", self.service_address
        )
        argv = [
            programs / "kube-apiserver",
            *(f"--etcd-servers={self._etcd_url}", "--bind-address=127.0.0.1"),
            *(f"--secure-port={self.port}", "--endpoint-reconciler-type=none"),
            *(f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}"),
            *(f"--client-ca-file={self.authority.certificate}", f"--token-auth-file={tokens}"),
            *("--authorization-mode=Node,RBAC", "--allow-privileged=true"),
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._signing_key}",
            f"--service-account-signing-key-file={self._signing_key}",
            *(f"--service-cluster-ip-range={self.services}", "--profiling=false"),
            "--kubelet-preferred-address-types=InternalIP",
            *(f"--audit-policy-file={policy}", f"--audit-log-path={self._audit}"),
        ]
        if not has_controllers:
            # No controller makes the service accounts that pods would need.
            argv.append("--disable-admission-plugins=ServiceAccount")
        return Part(self.folder, [*argv, *more], self._is_ready)

    def _make_controllers(self, programs: Path) -> Part:
        port = free_port()
        argv = [
            *(programs / "kube-controller-manager", f"--secure-port={port}"),
            *("--bind-address=127.0.0.1", "--leader-elect=false"),
            f"--kubeconfig={self.admin_kubeconfig}",
            f"--service-account-private-key-file={self._signing_key}",
            f"--root-ca-file={self.authority.certificate}",
            f"--cert-dir={self.folder}/controller-manager",
            "--horizontal-pod-autoscaler-sync-period=1s",
        ]
        return Part(self.folder, argv, lambda: _listens(port))

    def _make_scheduler(self, programs: Path) -> Part:
        port = free_port()
        argv = [
            *(programs / "kube-scheduler", f"--secure-port={port}", "--bind-address=127.0.0.1"),
            *("--leader-elect=false", f"--kubeconfig={self.admin_kubeconfig}"),
            f"--cert-dir={self.folder}/scheduler",
        ]
        return Part(self.folder, argv, lambda: _listens(port))

    def _is_ready(self) -> bool:
        try:
            return self.admin.request("GET", "/readyz") == "ok"
        except (OSError, KubeError):
            return False


def read_documents(path: Path) -> list[Object]:
    """Reads the documents of a YAML file."""
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0

# SPDX-License-Identifier: Apache-2.0
"""Proves that an agent on a node can use the kubelet's own certificate, as overlays/kubelet-identity allows
it, and that it follows the rotation of that certificate.

The API server runs with the admission plugin NodeRestriction, as in clusters of kubeadm.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import sanitizers
from lab.agent import Agent
from lab.control_plane import ControlPlane
from lab.documents import write_whole
from lab.kube import KubeError
from lab.kubelet import HASTY, Kubelet
from lab.node_image import ImageSet, NodeImage
from lab.pod import OPT_IN, VERIFIED, Pod, container, from_annotations
from lab.recreate_request import RecreateRequest
from lab.trouble import problems
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS

pytestmark = [pytest.mark.containers, pytest.mark.timeout(120 * SLOWLY)]

_TAINT = "inplaced.io/images-pending"
_PLUGIN = "--enable-admission-plugins=NodeRestriction"


@pytest.fixture(scope="module")
def node(session_folder, registry) -> Iterator[Kubelet]:
    with ControlPlane(session_folder / "identity", apiserver_flags=[_PLUGIN]) as control_plane:
        control_plane.install()
        control_plane.install_node_rights()
        with Kubelet(session_folder / "mine", control_plane, registry, "mine", config=HASTY) as made:
            yield made


class Certificates:
    """The kubelet's folder of certificates: each one with its key in a file, and a link to the newest."""

    def __init__(self, folder: Path, control_plane: ControlPlane) -> None:
        self.folder = folder
        self.folder.mkdir()
        self.current = folder / "kubelet-client-current.pem"
        self._control_plane = control_plane

    def rotate(self, node: str) -> None:
        """Writes a new file and replaces the link atomically, as the kubelet does."""
        number = len(list(self.folder.iterdir()))
        pair = self._control_plane.authority.issue(
            f"rotated-{node}-{number}", f"/O=system:nodes/CN=system:node:{node}"
        )
        file, link = self.folder / f"kubelet-client-{number}.pem", self.folder / "new"
        write_whole(file, "".join(part.read_text() for part in pair))
        link.symlink_to(file)
        os.replace(link, self.current)


@pytest.fixture
def certificates(folder, node) -> Certificates:
    return Certificates(folder / "pki", node.control_plane)


@pytest.fixture
def start(start_agent, node, certificates, folder):
    """start(*flags) as Agent: with a kubeconfig like /etc/kubernetes/kubelet.conf."""

    def start(*flags: str) -> Agent:
        pair = certificates.current, certificates.current
        return start_agent(
            node.runtime.endpoint,
            kubeconfig=node.control_plane.write_kubeconfig(folder / "kubelet.conf", certificate=pair),
            node_name=node.name,
            flags=["--register-node", f"--kubelet-health-address={node.health_address}", *flags],
        )

    return start


def test_the_whole_agent(node, certificates, start, push, registry):
    """The agent registers, pulls, restarts in place, and serves requests that no webhook has prepared."""
    certificates.rotate(node.name)
    agent = start()
    admin = node.control_plane.admin
    image = NodeImage(admin, node.name)
    wait_until(image.find, 15 * SLOWLY, "NodeImage")
    pushed = push()
    image.request(pushed.reference)
    image.wait_status(pushed.reference, "Succeeded")
    assert image.wait_events()

    tools = registry.push_image("pods/tools", "1", busybox=True).reference
    main = container("main", tools, env=from_annotations(COLOUR="colour"))
    marks = {OPT_IN: "true", "colour": "red"}
    pod = Pod(node, main, annotations=marks, owner=False).start()
    try:
        pod.wait_condition(VERIFIED, "True")
        pod.change(annotations={"colour": "blue"})
        pod.wait_environment("main", "COLOUR", "blue", 30 * SLOWLY)
        pod.wait_condition(VERIFIED, "True", 30 * SLOWLY)
        assert pod.wait_meta()
        request = RecreateRequest(pod, "main").create()
        try:
            request.wait_phase("Completed", 60 * SLOWLY)
            assert request.state("main")["phase"] == "Succeeded"
        finally:
            request.delete()
    finally:
        pod.delete()
    assert problems(agent) == {}
    image.delete()


def test_rotation(node, certificates, start, push):
    """The agent reads the certificate behind the link again after a rotation.

    The first certificate is another node's, so that the test sees which one is used.
    """
    certificates.rotate("other")
    agent = start()
    admin = node.control_plane.admin
    image = NodeImage(admin, node.name)
    image.create()
    try:
        pushed = push()
        image.request(pushed.reference)
        wait_until(
            lambda: "status of the NodeImage" in problems(agent),
            15 * SLOWLY,
            lambda: f"refusal, only {problems(agent)}",
        )
        assert "other" in problems(agent)["status of the NodeImage"]
        assert image.status() == {}
        certificates.rotate(node.name)
        image.wait_status(pushed.reference, "Succeeded", 90 * SLOWLY)
        certificates.rotate(node.name)
        later = push(tag="2")
        image.request(later.reference)
        image.wait_status(later.reference, "Succeeded")
        wait_until(lambda: problems(agent) == {}, 60 * SLOWLY, lambda: f"end of {problems(agent)}")
    finally:
        image.delete()


def test_images_ready(node, certificates, start, push):
    """The agent writes the condition of its Node. NodeRestriction lets no kubelet change a taint: the startup taint stays,
    and `inplacectl doctor` says why."""
    certificates.rotate(node.name)
    admin, path = node.control_plane.admin, node.path
    image, image_set = push(), ImageSet(admin, "set-of-mine")
    image_set.create_set(f"kubernetes.io/hostname={node.name}", image.reference)
    admin.patch(path, {"spec": {"taints": [{"key": _TAINT, "effect": "NoSchedule"}]}})
    try:
        agent = start(f"--startup-taint={_TAINT}")
        conditions = lambda: {one["type"]: one["reason"] for one in admin.get(path)["status"]["conditions"]}  # noqa: E731
        wait_until(lambda: conditions().get("inplaced.io/ImagesReady") == "AllPresent", 20 * SLOWLY, "condition")
        wait_until(lambda: problems(agent), 20 * SLOWLY, "finding")
        refusal = problems(agent)["readiness of images"]
        assert f'node "{node.name}" is not allowed to modify taints' in refusal
        assert "with the identity of the kubelet it can never have them" in agent.ctl("doctor").stdout.replace("\n", " ")
        assert [one["key"] for one in admin.get(path)["spec"]["taints"]] == [_TAINT]
    finally:
        image_set.delete()
        NodeImage(admin, node.name).delete()
        admin.patch(path, {"spec": {"taints": None}})


def test_pull_secrets_are_bound_by_namespace(node):
    """A kubelet's certificate may not read secrets before its group is bound in that namespace."""
    control_plane = node.control_plane
    kubelet = control_plane.client(certificate=control_plane.node_certificate(node.name))
    with pytest.raises(KubeError) as error:
        kubelet.get("/api/v1/namespaces/kruise-daemon-config/secrets/hub")
    assert error.value.reason == "Forbidden"
    kubelet.close()

# SPDX-License-Identifier: Apache-2.0
"""Proves docs/GITOPS.md: its commands, run in their order in a real cluster, do what the page says.

Only the names of the registry and of the checkout are other ones.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import sanitizers
from lab.agent_image import build_agent_image
from lab.built import find_built
from lab.clients import HELMS
from lab.cluster import Cluster
from lab.image import build_image
from lab.kube import Object
from lab.layers import busybox_layer
from lab.pod import until_term
from lab.stubs import REPOSITORY
from lab.version import VERSION
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS
PAGE = REPOSITORY / "docs" / "GITOPS.md"
PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/api/v1/namespaces/default/events"
WEB = "/apis/apps/v1/namespaces/default/deployments/web"
BINDING_KIND = "mutatingadmissionpolicybinding"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"

pytestmark = [pytest.mark.slow, pytest.mark.containers, pytest.mark.timeout(600 * SLOWLY)]

_BLOCK = re.compile(r"^(<!-- not run: .*-->\n)?```(sh|yaml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def read_page() -> dict[str, list[tuple[str, str]]]:
    """The blocks of each section: the name of a file and its text, or an empty name and commands."""
    sections = {}
    for section in PAGE.read_text().split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        blocks = sections.setdefault(title, [])
        for is_example, kind, content in _BLOCK.findall(text):
            named = re.match(r"# (\S+\.yaml)\n", content)
            if kind == "yaml" and named:
                blocks.append((named[1], content))
            elif kind == "sh" and not is_example:
                blocks.append(("", content))
    return sections


class Reader:
    """A user who follows the page, in a folder beside the repository."""

    def __init__(self, cluster: Cluster, folder: Path, host: str) -> None:
        self.cluster = cluster
        self.host = host
        self.folder = folder / "work"
        self.folder.mkdir()
        (folder / "inplaced").symlink_to(REPOSITORY)
        self.sections = read_page()
        programs = Path(os.environ["INPLACED_BUILD_DIR"]) / "agent"
        self.environment = {
            "PATH": f"{find_built('clients')}:{programs}:{os.environ['PATH']}",
            "KUBECONFIG": str(cluster.control_plane.admin_kubeconfig),
            "HOME": str(folder),
        }

    def follow(self, section: str) -> Iterator[str]:
        """Carries out the blocks; after each block of commands, what it has printed."""
        for name, text in self.sections[section]:
            text = text.replace("registry.internal", self.host)
            if name:
                (self.folder / name).write_text(text)
                continue
            ran = self.run("bash", "-euc", text)
            yield ran.stdout + ran.stderr

    def run(self, *argv: str, may_fail: bool = False) -> subprocess.CompletedProcess[str]:
        ran = subprocess.run(
            argv,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300 * SLOWLY,
        )
        assert may_fail or ran.returncode == 0, f"{argv}\n{ran.stdout}{ran.stderr}"
        return ran

    def pods(self) -> dict[str, tuple[str, int]]:
        """Image and restarts of each pod, by its UID."""
        found = self.cluster.admin.list(PODS, labelSelector="app=web")
        return {
            pod["metadata"]["uid"]: (
                pod["spec"]["containers"][0]["image"].rpartition(":")[2],
                pod["status"]["containerStatuses"][0]["restartCount"],
            )
            for pod in found
            if "deletionTimestamp" not in pod["metadata"]
        }

    def events(self) -> set[str]:
        """The reasons of the events of the workload."""
        found = self.cluster.admin.list(EVENTS, fieldSelector="involvedObject.name=web")
        return {event["reason"] for event in found}

    def workload(self) -> Object:
        return self.cluster.admin.get(WEB)

    def annotations(self) -> set[str]:
        return set(self.workload()["metadata"]["annotations"])


@pytest.fixture(scope="module")
def reader(session_folder, registry) -> Iterator[Reader]:
    registry.push("inplaced", VERSION, build_agent_image())
    for tag in ("1", "2"):
        image = build_image([busybox_layer()], command=until_term(), labels={"version": tag})
        registry.push("team/web", tag, image)
    folder = session_folder / "gitops"
    folder.mkdir()
    with Cluster(session_folder / "g", registry) as cluster:
        yield Reader(cluster, folder, registry.host)


@pytest.mark.parametrize(("helm", "end"), [("helm", "uninstall"), *((helm, "upgrade") for helm in HELMS)])
def test_helm_lets_go(reader, helm, end):
    """A workload is held by a failed update when the controller leaves the release, or the release is deleted:
    Kubernetes goes on with it.
    """
    release = ("inplaced", "--namespace", "inplaced")
    chart = (*release, "../inplaced/packaging/kubernetes/chart")
    image = f"image.repository={reader.host}/inplaced"
    values = f"updates.enabled=true,nodeSelector.no=node,{image}"
    reader.run(helm, "install", *chart, "--create-namespace", "--set", values)
    reader.run("kubectl", "wait", "--for=create", f"{BINDING_KIND}/inplaced-hold", "--timeout=2m")
    manifest = dict(reader.sections["A first update"])["web.yaml"].replace("registry.internal", reader.host)
    changed = ("kubectl", "set", "image", "deployment/web", "app=other", "--dry-run=server")
    is_paused = (*changed, "--output=jsonpath={.spec.paused}")
    for tag in ("1", "broken"):
        (reader.folder / "web.yaml").write_text(manifest.replace("web:1", f"web:{tag}"))
        reader.run("kubectl", "apply", "-f", "web.yaml")
        is_over = reader.run("kubectl", "rollout", "status", "deployment/web", may_fail=True).returncode == 0
        assert is_over == (tag == "1")
        wait_until(lambda: reader.run(*is_paused).stdout == "true", 20 * SLOWLY, "the policy in force")
    assert "inplaced.io/update-status" in reader.annotations()
    if end == "upgrade":
        without = (*chart, "--reset-then-reuse-values", "--set", "updates.enabled=false")
        reader.run(helm, "upgrade", *without)
        assert not reader.cluster.admin.find("/apis/apps/v1/namespaces/inplaced/deployments/inplaced-controller")
        assert reader.cluster.admin.list(f"{ADMISSION}/mutatingadmissionpolicybindings") == []
        # There is nothing to let go any more, nor the account of the Job.
        reader.run(helm, "upgrade", *without)
        assert reader.run(helm, "get", "hooks", *release).stdout.strip() == ""
    else:
        reader.run(helm, "uninstall", *release)
    assert reader.cluster.admin.list(f"{ADMISSION}/mutatingadmissionpolicybindings") == []
    left = {name for name in reader.annotations() if name.startswith("inplaced.io/")}
    assert left == {"inplaced.io/update"}
    assert "paused" not in reader.workload()["spec"]
    reader.run("kubectl", "delete", "deployment/web", "--cascade=foreground")
    if end == "upgrade":
        reader.run(helm, "uninstall", *release)


def test_the_page(reader):
    for _ in reader.follow("Install"):
        pass
    assert reader.cluster.admin.find(f"{ADMISSION}/mutatingadmissionpolicybindings/inplaced-hold")

    steps = reader.follow("A first update")
    next(steps)
    before = reader.pods()
    assert sorted(before.values()) == [("1", 0)] * 3
    next(steps)
    assert reader.pods().keys() == before.keys()
    assert sorted(reader.pods().values()) == [("2", 1)] * 3
    assert "InPlaceUpdateStarted" in next(steps)
    # The events are written a moment after what they tell.
    wait_until(lambda: "InPlaceUpdateSucceeded" in reader.events(), 20 * SLOWLY, lambda: f"event, only {reader.events()}")
    next(steps)
    assert reader.pods().keys() == before.keys()
    assert sorted(reader.pods().values()) == [("1", 2)] * 3
    assert not list(steps)

    (failed, healed) = reader.follow("When an update fails")
    assert "the update has failed" in failed and "container app: " in failed
    assert reader.pods().keys() == before.keys()
    assert {image for image, _ in reader.pods().values()} == {"2"}
    wait_until(
        lambda: not {"inplaced.io/update-status", "inplaced.io/held"} & reader.annotations(), 20 * SLOWLY, "end of the hold"
    )

    (rolled, refused) = reader.follow("Other changes")
    assert not reader.pods().keys() & before.keys()
    assert "refused" in refused
    for _ in reader.follow("In CI"):
        pass

    for _ in reader.follow("Remove"):
        pass
    for kind in ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "validatingadmissionpolicies"):
        assert reader.cluster.admin.list(f"{ADMISSION}/{kind}") == []
    assert not {"inplaced.io/held", "inplaced.io/rollout"} & reader.annotations()
    assert "paused" not in reader.workload()["spec"]


def test_sections():
    """All that can be run is run: no command is in a section that the test does not follow."""
    followed = ("Install", "A first update", "When an update fails", "Other changes", "In CI", "Remove")
    assert {title for title, blocks in read_page().items() if blocks} == set(followed)

# SPDX-License-Identifier: Apache-2.0
"""Proves that what kustomize and helm make of our manifests is the same, and what it should be. No cluster is
needed.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.clients import MANIFESTS, render, run_client
from lab.stubs import REPOSITORY

CHART = MANIFESTS / "chart"

Document = dict[str, Any]
Documents = dict[tuple[str, str, str], Document]

_VALUES: dict[str, list[str]] = {
    "standalone": [],
    "openkruise": ["openKruise=true"],
    "k3s": ["runtimeFolder=/run/k3s/containerd"],
    "microk8s": ["runtimeFolder=/var/snap/microk8s/common/run"],
}


def by_name(text: str) -> Documents:
    """The documents by kind, namespace and name; each is there once."""
    found = {}
    for document in yaml.safe_load_all(text):
        if document:
            about = document["metadata"]
            key = document["kind"], about.get("namespace", ""), about["name"]
            assert key not in found, key
            found[key] = document
    return found


def template(
    *values: str, namespace: str = "inplaced", version: str = "1.34", chart: Path = CHART
) -> Documents:
    """The documents that `helm install` would apply."""
    options = [part for value in values for part in ("--set", value)]
    has_own = any(value == "openKruise=true" for value in values)
    options.append("--skip-crds" if has_own else "--include-crds")
    options += ["--namespace", namespace, "--kube-version", version]
    return by_name(run_client("helm", "template", "inplaced", chart, *options))


def read_overlay(name: str) -> Documents:
    return by_name(render(MANIFESTS / "overlays" / name))


def compose(folder: Path, *components: str) -> Documents:
    """The overlay `standalone` with components, as an operator writes it."""
    relative = Path("../" * (len(folder.resolve().parts) - 1)) / str(MANIFESTS).lstrip("/")
    kustomization = {
        "resources": [str(relative / "overlays" / "standalone")],
        "components": [str(relative / "components" / name) for name in components],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return by_name(render(folder))


def without_namespace(documents: Documents) -> Documents:
    """helm makes the namespace of a release itself."""
    return {key: document for key, document in documents.items() if key[0] != "Namespace"}


@pytest.mark.parametrize("overlay", _VALUES)
def test_helm_and_kustomize_agree(overlay):
    expected = without_namespace(read_overlay(overlay))
    found = template(*_VALUES[overlay])
    assert found.keys() == expected.keys()
    for key, document in expected.items():
        assert found[key] == document, key


@pytest.mark.parametrize(
    ("component", "values"),
    [
        ("monitoring", ["podMonitor=true", "prometheusRule=true", "dashboard=true"]),
        ("root", ["root=true"]),
    ],
)
def test_components_agree(folder, component, values):
    expected = without_namespace(compose(folder.path, component))
    assert expected != without_namespace(read_overlay("standalone"))
    assert template(*values) == expected


def test_another_namespace():
    """No object keeps the usual name; the policy names the account of this release."""
    found = template("policy=true", namespace="team")
    text = yaml.safe_dump_all(list(found.values()))
    assert "namespace: inplaced" not in text and "system:serviceaccount:inplaced:" not in text
    assert text.count("system:serviceaccount:team:inplaced") == 2
    subjects = [
        subject for document in found.values() for subject in document.get("subjects", [])
    ]
    assert {subject["namespace"] for subject in subjects} == {"team"}


def test_values():
    """Each value is described and has an effect; helm refuses a wrong value."""
    values = (CHART / "values.yaml").read_text()
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())
    assert set(schema["properties"]) - {"global"} == set(yaml.safe_load(values))
    for name in yaml.safe_load(values):
        described = re.search(rf"((?:^#[^\n]*\n)|(?:^\w[^\n]*\n))+{name}:", values, re.MULTILINE)
        assert described is not None, name

    usual = template()
    for value in (
        "image.repository=registry.example/other",
        "image.tag=next",
        "image.pullPolicy=Always",
        "image.pullSecrets={hub}",
        "openKruise=true",
        "runtimeFolder=/run/crio",
        "stateFolder=/srv/inplaced",
        "config.maxParallelPulls=2",
        "extraArgs={--log-level=debug}",
        "extraEnv[0].name=A,extraEnv[0].value=b",
        "extraVolumes[0].name=auth,extraVolumes[0].emptyDir.medium=Memory",
        "extraVolumeMounts[0].name=auth,extraVolumeMounts[0].mountPath=/auth",
        "secretNamespaces={team-a}",
        "policy=false",
        "root=true",
        "resources.limits.memory=1Gi",
        "priorityClassName=",
        "maxUnavailable=3",
        "nodeSelector.disk=fast",
        "tolerations[0].key=only",
        "podAnnotations.a=b",
        "podMonitor=true",
        "prometheusRule=true",
        "dashboard=true",
    ):
        assert template(value) != usual, value
    for value in (
        "openKruise=maybe",
        "runtimeFolder=run",
        "imagee.tag=x",
        "extraArgs={x}",
        "image.pullPolicy=Sometimes",
        "maxUnavailable=0",
    ):
        with pytest.raises(RuntimeError, match="values don't meet the specifications"):
            template(value)


def test_lint():
    shown = run_client("helm", "lint", "--strict", CHART)
    print(shown)
    assert "1 chart(s) linted, 0 chart(s) failed" in shown


def test_older_servers():
    """Without the API of the policy, helm fails with a message that says what to do."""
    with pytest.raises(RuntimeError, match="set policy=false"):
        template(version="1.29")
    assert not any("Policy" in key[0] for key in template("policy=false", version="1.29"))


def test_versions_agree():
    """The program, the chart and the image in the manifests have one version."""
    (version,) = re.findall(
        r"project\(inplaced VERSION (\S+)", (REPOSITORY / "CMakeLists.txt").read_text()
    )
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    daemon_set = read_overlay("standalone")["DaemonSet", "inplaced", "inplaced"]
    image = daemon_set["spec"]["template"]["spec"]["containers"][0]["image"]
    assert chart["version"] == chart["appVersion"] == image.rpartition(":")[2] == version


@pytest.mark.parametrize("overlay", _VALUES)
def test_pods_are_confined(overlay):
    """The pods meet the restricted Pod Security Standard, except for the volumes and the user."""
    daemon_set = read_overlay(overlay)["DaemonSet", "inplaced", "inplaced"]
    pod = daemon_set["spec"]["template"]["spec"]
    (main,) = pod["containers"]
    (first,) = pod["initContainers"]
    assert first["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["CHOWN"]}
    user = {key: pod["securityContext"][key] for key in ("runAsUser", "runAsGroup", "runAsNonRoot")}
    assert user == {"runAsUser": 65532, "runAsGroup": 0, "runAsNonRoot": True}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert main["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "privileged": False,
        "readOnlyRootFilesystem": True,
    }
    folders = [volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume]
    assert len(folders) == 2 and not any(folder.endswith(".sock") for folder in folders)
    mounts = {mount["name"]: mount["mountPath"] for mount in main["volumeMounts"]}
    assert folders == [mounts["runtime"], mounts["state"]]
    assert daemon_set["spec"]["updateStrategy"]["rollingUpdate"]["maxSurge"] == 0


def test_roles_hold_no_more_than_is_used():
    """The roles grant single objects where possible, and secrets by name only."""
    for overlay in (*_VALUES, "kubelet-identity"):
        documents = read_overlay(overlay)
        rules = [rule for one in documents.values() for rule in one.get("rules", [])]
        assert not any("*" in rule[key] for rule in rules for key in rule)
        granted = {
            (resource, verb)
            for rule in rules
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
        assert {verb for resource, verb in granted if resource == "secrets"} == {"get"}
        assert {verb for resource, verb in granted if resource == "pods"} <= {"get", "list", "watch"}
        bound_everywhere = {
            one["roleRef"]["name"]
            for (kind, _, _), one in documents.items()
            if kind == "ClusterRoleBinding"
        }
        assert "inplaced-secrets" not in bound_everywhere


def test_artifacts(folder):
    """The artifacts equal the checkout's manifests, and their build is reproducible."""
    contents = []
    for number in range(2):
        directory = folder / f"artifacts-{number}"
        build = REPOSITORY / "packaging" / "kubernetes" / "build"
        subprocess.run([build, directory], check=True, capture_output=True)
        contents.append({path.name: path.read_bytes() for path in directory.iterdir()})
    assert contents[0] == contents[1]
    (chart,) = directory.glob("*.tgz")
    assert template(chart=chart) == template()
    overlays = {path.name for path in (MANIFESTS / "overlays").iterdir()}
    assert {path.name for path in directory.iterdir()} == {
        chart.name,
        *(f"inplaced-{overlay}.yaml" for overlay in overlays),
    }
    rendered = (directory / "inplaced-standalone.yaml").read_text()
    assert by_name(rendered) == read_overlay("standalone")

# SPDX-License-Identifier: Apache-2.0
"""Proves that what kustomize and helm make of our manifests is the same, and what it should be. No cluster is
needed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.built import find_built
from lab.clients import HELMS, MANIFESTS, render, run_client
from lab.stubs import REPOSITORY
from lab.version import VERSION

CHART = MANIFESTS / "chart"
LEASE = "inplaced-controller"  # the program knows it by this name

Document = dict[str, Any]
Documents = dict[tuple[str, str, str], Document]

_VALUES: dict[str, list[str]] = {
    "standalone": [],
    "openkruise": ["openKruise=true"],
    "k3s": ["runtime=k3s"],
    "microk8s": ["runtime=microk8s"],
}

_OVERLAYS = (*_VALUES, "kubelet-identity", "updates", "updates-namespace")

# Each key of the configuration with values that the agent takes, and with others.
_CONFIG: dict[str, tuple[list[Any], list[Any]]] = {
    "mode": (["cluster"], ["clusters"]),
    "kubeconfig": (["/etc/k"], ["k", True]),
    "kubeconfigContext": (["prod"], [["prod"]]),
    "registerNode": ([True, False], ["yes", 1]),
    "podCondition": ([False], ["no"]),
    "kubeletHealthAddress": (["", "127.0.0.1:10248", "[::1]:1"], ["example.com:1", "127.0.0.1"]),
    "nodeName": (["worker-1.b"], ["Worker", "-a", "", "a" * 254]),
    "runtimeEndpoints": ([["unix:///run/a.sock", "/b"]], [["run/a.sock"], ["/a"] * 17]),
    "hostRoot": (["/host"], ["host"]),
    "imagesDir": (["/i"], ["i"]),
    "authDir": (["/a"], ["a"]),
    "imageCredentialProviderConfig": (["/c"], ["c"]),
    "imageCredentialProviderBinDir": (["/b"], ["b"]),
    "stateDir": (["/s"], ["s"]),
    "socket": (["/run/s"], ["s", "/" + "s" * 107]),
    "socketGroup": ([""], [[1]]),
    "restartGroup": (["wheel"], [{"a": 1}]),
    "metricsAddress": (["", "0.0.0.0:10221", "localhost:1"], ["10221", "a b:1"]),
    "maxParallelPulls": ([1, 1000], [0, 1001, "many", 1.5]),
    "stallTimeoutSeconds": ([0, 604800], [-1, 604801]),
    "yieldToPodsSeconds": ([0, 604800], [-1, 604801]),
    "minFreeDisk": (
        [0, 5000000000, "5GB", "10%", "15%,5GB", "512Mi,90%", "7", "1kB"],
        ["lots", "91%", "10%,20%", "0%,5GB", "5GB,", "5X", -1],
    ),
    "maxPinned": ([0, "5GB", "10%", "15%,5GB"], ["lots", "91%", -1]),
    "keepImages": ([True], ["maybe"]),
    "imagesReady": ([True], ["maybe"]),
    "imagesReadyDeadlineSeconds": ([0, 604800], [-1, 604801]),
    "startupTaint": (["", "example.com/starting"], ["a b", "key=value", "key:NoSchedule"]),
    "logLevel": (["debug"], ["loud"]),
    "logFormat": (["json"], ["xml"]),
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
    *values: str, namespace: str = "inplaced", version: str = "1.37", chart: Path = CHART
) -> Documents:
    """The documents that `helm install` would apply."""
    options = [part for value in values for part in ("--set", value)]
    has_own = any(value == "openKruise=true" for value in values)
    options.append("--skip-crds" if has_own else "--include-crds")
    options += ["--namespace", namespace, "--kube-version", version]
    return by_name(run_client("helm", "template", "inplaced", chart, *options))


def read_overlay(name: str) -> Documents:
    return by_name(render(MANIFESTS / "overlays" / name))


def compose(folder: Path, *components: str, overlay: str = "standalone", **more: object) -> Documents:
    """An overlay with components and `more`, as an operator writes it."""
    relative = Path("../" * (len(folder.resolve().parts) - 1)) / str(MANIFESTS).lstrip("/")
    kustomization = {
        "resources": [str(relative / "overlays" / overlay)],
        "components": [str(relative / "components" / name) for name in components],
        **more,
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return by_name(render(folder))


def daemon_set(documents: Documents) -> Document:
    return documents["DaemonSet", "inplaced", "inplaced"]


def pod_of(documents: Documents) -> Document:
    return daemon_set(documents)["spec"]["template"]["spec"]


def config_name(documents: Documents) -> str:
    """The name of the configuration that the pods mount."""
    (name,) = [one["configMap"]["name"] for one in pod_of(documents)["volumes"] if "configMap" in one]
    return name


def comparable(documents: Documents) -> Documents:
    """Without what differs by intent.

    helm installs the definitions itself, and has a Job that runs before it deletes. So that a change of the configuration replaces the pods, kustomize puts
    its hash into a name, and helm into an annotation.
    """
    same = {
        key: document
        for key, document in documents.items()
        if key[0] not in ("CustomResourceDefinition", "Job")
    }
    name = config_name(same)
    config = same.pop(("ConfigMap", "inplaced", name))
    config["metadata"]["name"] = "inplaced"
    same["ConfigMap", "inplaced", "inplaced"] = config
    (volume,) = [volume for volume in pod_of(same)["volumes"] if "configMap" in volume]
    volume["configMap"]["name"] = "inplaced"
    daemon_set(same)["spec"]["template"]["metadata"]["annotations"].pop("checksum/config", None)
    return same


@pytest.mark.parametrize("overlay", _VALUES)
def test_helm_and_kustomize_agree(overlay):
    expected = comparable(read_overlay(overlay))
    found = comparable(template(*_VALUES[overlay]))
    assert found.keys() == expected.keys()
    for key, document in expected.items():
        assert found[key] == document, key


@pytest.mark.parametrize(
    ("component", "values"),
    [
        (
            "monitoring",
            ["podMonitor.enabled=true", "prometheusRule.enabled=true", "dashboard.enabled=true"],
        ),
        ("root", ["root=true"]),
        ("k3s", ["runtime=k3s"]),
        ("microk8s", ["runtime=microk8s"]),
        ("k0s", ["runtime=k0s"]),
        ("crio", ["runtime=crio"]),
        ("cri-dockerd", ["runtime=cri-dockerd"]),
        ("selinux", ["podSecurityContext.seLinuxOptions.type=spc_t"]),
        ("openshift", ["openshift=true"]),
        ("network-policy", ["networkPolicy.enabled=true"]),
        ("images-ready", ["imagesReady.enabled=true"]),
        (
            "startup-taint",
            ["imagesReady.enabled=true", "imagesReady.startupTaint=inplaced.io/images-pending"],
        ),
        ("pull-slots", ["pullSlots.enabled=true"]),
        ("pull-viewers", ["pullViewers=true"]),
        ("updates", ["updates.enabled=true"]),
        ("updates updates-config", ["updates.enabled=true", "updates.restartOnConfigChange=true"]),
        ("updates updates-openshift openshift", ["updates.enabled=true", "openshift=true"]),
        (
            "updates updates-network-policy network-policy",
            ["updates.enabled=true", "networkPolicy.enabled=true"],
        ),
    ],
)
def test_components_agree(folder, component, values):
    expected = comparable(compose(folder.path, *component.split()))
    assert expected != comparable(read_overlay("standalone"))
    assert comparable(template(*values)) == expected


def test_each_component_is_compared():
    (mark,) = [one for one in test_components_agree.pytestmark if one.name == "parametrize"]
    compared = {name for component, _ in mark.args[1] for name in component.split()} | {"registration"}
    assert compared == {path.name for path in (MANIFESTS / "components").iterdir()}


def test_the_socket_of_cri_dockerd_alone(folder):
    """The pod sees no other file of /run."""
    pod = pod_of(compose(folder.path, "cri-dockerd"))
    runtime = pod["volumes"][0]
    assert runtime["hostPath"] == {"path": "/run/cri-dockerd.sock", "type": "Socket"}
    mount = pod["containers"][0]["volumeMounts"][0]
    assert mount == {"name": "runtime", "mountPath": "/run/cri-dockerd.sock", "readOnly": True}


def test_what_openshift_admits(folder):
    """The constraints are as narrow as the pods: each permission is one that they use."""
    documents = compose(folder.path, "openshift", "crio")
    constraints = documents["SecurityContextConstraints", "", "inplaced-pods"]
    pod = pod_of(documents)
    kinds = {next(key for key in volume if key != "name") for volume in pod["volumes"]}
    assert set(constraints["volumes"]) == kinds
    allowed = {key for key, value in constraints.items() if key.startswith("allow") and value is True}
    assert allowed == {"allowHostDirVolumePlugin"}
    added = pod["initContainers"][0]["securityContext"]["capabilities"]["add"]
    assert constraints["allowedCapabilities"] == added
    containers = pod["initContainers"] + pod["containers"]
    assert all(one["securityContext"]["readOnlyRootFilesystem"] for one in containers)
    assert pod["securityContext"]["seLinuxOptions"] == {"type": "spc_t"}
    (rule,) = documents["ClusterRole", "", "inplaced-scc"]["rules"]
    assert (rule["resourceNames"], rule["verbs"]) == ([constraints["metadata"]["name"]], ["use"])
    (subject,) = documents["RoleBinding", "inplaced", "inplaced-scc"]["subjects"]
    assert subject["name"] == pod["serviceAccountName"]


def test_openshift_admits_the_volumes_of_values():
    secret = "extraVolumes[0].name=hub,extraVolumes[0].secret.secretName=hub"
    memory = "extraVolumes[1].name=more,extraVolumes[1].emptyDir.medium=Memory"
    documents = template("openshift=true", secret, memory)
    kinds = {next(key for key in volume if key != "name") for volume in pod_of(documents)["volumes"]}
    assert "secret" in kinds
    assert documents["SecurityContextConstraints", "", "inplaced-pods"]["volumes"] == sorted(kinds)


def test_network_policy(folder):
    """It opens the port that the pods name, and no other one."""
    documents = compose(folder.path, "network-policy")
    spec = documents["NetworkPolicy", "inplaced", "inplaced"]["spec"]
    labels = daemon_set(documents)["spec"]["template"]["metadata"]["labels"]
    assert spec["podSelector"]["matchLabels"].items() <= labels.items()
    (rule,) = spec["ingress"]
    (port,) = pod_of(documents)["containers"][0]["ports"]
    assert [one["port"] for one in rule["ports"]] == [port["name"]]
    other = template("networkPolicy.enabled=true", "networkPolicy.from[0].podSelector.matchLabels.a=b")
    (rule,) = other["NetworkPolicy", "inplaced", "inplaced"]["spec"]["ingress"]
    assert rule["from"] == [{"podSelector": {"matchLabels": {"a": "b"}}}]


def test_another_namespace():
    """No object keeps the usual namespace."""
    found = template("policy=true", "updates.enabled=true", "pullViewers=true", namespace="team")
    text = yaml.safe_dump_all(list(found.values()))
    assert "namespace: inplaced" not in text and "metadata.name: inplaced" not in text
    subjects = [
        subject for document in found.values() for subject in document.get("subjects", [])
    ]
    assert {subject["namespace"] for subject in subjects if subject["kind"] != "Group"} == {"team"}


@pytest.mark.parametrize("overlay", _OVERLAYS)
@pytest.mark.parametrize("folder_of_user", [False, True])
def test_nothing_of_the_users_is_deleted(folder, overlay, folder_of_user):
    """No overlay has a kind whose deletion takes other objects along, whatever the namespace is."""
    documents = (
        compose(folder.path, overlay=overlay, namespace="monitoring")
        if folder_of_user
        else read_overlay(overlay)
    )
    assert not {"CustomResourceDefinition", "Namespace"} & {kind for kind, _, _ in documents}


@pytest.mark.parametrize(
    ("overlay", "components"),
    [*((overlay, ()) for overlay in _OVERLAYS), ("standalone", ("openshift", "updates", "startup-taint", "pull-viewers"))],
)
def test_other_names(folder, overlay, components):
    """With a prefix, a suffix and another namespace each reference has the new name; no two installations
    share an object.
    """
    names = {"namespace": "own", "namePrefix": "team-", "nameSuffix": "-blue"}
    documents = compose(folder.path, *components, overlay=overlay, **names)
    usual = read_overlay(overlay)
    assert len(documents) >= len(usual) and not documents.keys() & usual.keys()
    kinds_and_names = {(kind, name) for kind, _, name in documents}
    for (kind, namespace, name), document in documents.items():
        assert name.startswith("team-") and "-blue" in name and namespace in ("", "own")
        if kind == "ValidatingAdmissionPolicyBinding":
            policy = document["spec"]["policyName"]
            assert ("ValidatingAdmissionPolicy", policy) in kinds_and_names
        for rule in document.get("rules", []):
            found = {other for _, other in kinds_and_names} | {LEASE}
            assert set(rule.get("resourceNames", ())) <= found
        if kind == "ValidatingAdmissionPolicy" and "namespaceSelector" in document["spec"]["matchConstraints"]:
            selector = document["spec"]["matchConstraints"]["namespaceSelector"]
            assert selector == {"matchLabels": {"kubernetes.io/metadata.name": "own"}}
        if "roleRef" in document:
            role = document["roleRef"]
            assert (role["kind"], role["name"]) in kinds_and_names
        for subject in document.get("subjects", []):
            if subject["kind"] == "ServiceAccount":
                assert ("ServiceAccount", subject["namespace"], subject["name"]) in documents
        if kind in ("DaemonSet", "Deployment"):
            pod = document["spec"]["template"]["spec"]
            assert ("ServiceAccount", "own", pod["serviceAccountName"]) in documents
        if kind == "Deployment" and overlay != "updates-namespace":
            policy = pod["containers"][0]["args"][-1]
            assert ("MutatingAdmissionPolicy", policy) in kinds_and_names
            (bindings,) = [
                rule["resourceNames"]
                for one in documents.values()
                for rule in one.get("rules", [])
                if "mutatingadmissionpolicybindings" in rule["resources"] and "resourceNames" in rule
            ]
            assert bindings == [policy]
        if kind == "DaemonSet":
            (config,) = [one["configMap"] for one in pod["volumes"] if one["name"] == "config"]
            assert ("ConfigMap", "own", config["name"]) in documents


def test_values():
    """Each value has an effect; helm refuses a wrong value."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert set(schema["properties"]) - {"global"} == set(values)

    usual = template()
    effective = (
        "image.repository=registry.example/other",
        "image.tag=next",
        f"image.digest=sha256:{'0' * 64}",
        "image.pullPolicy=Always",
        "image.pullSecrets={hub}",
        "openKruise=true",
        "openshift=true",
        "runtime=crio",
        "runtimeFolder=/run/other",
        "mountPropagation=None",
        "imagesFolder=/var/lib/images",
        "stateFolder=/srv/inplaced",
        "config.maxParallelPulls=2",
        "extraArgs={--log-level=debug}",
        "extraEnv[0].name=A,extraEnv[0].value=b",
        "extraVolumes[0].name=auth,extraVolumes[0].emptyDir.medium=Memory",
        "extraVolumeMounts[0].name=auth,extraVolumeMounts[0].mountPath=/auth",
        "secretNamespaces={team-a}",
        "policy=false",
        "resourceQuota=false",
        "root=true",
        "podSecurityContext.fsGroup=1",
        "securityContext.procMount=Default",
        "serviceAccount.annotations.a=b",
        "resources.limits.memory=1Gi",
        "priorityClassName=",
        "maxUnavailable=3",
        "revisionHistoryLimit=2",
        "nodeSelector.disk=fast",
        "affinity.podAffinity.a=b",
        "tolerations[0].key=only",
        "podLabels.a=b",
        "podAnnotations.a=b",
        "networkPolicy.enabled=true",
        "podMonitor.enabled=true",
        "prometheusRule.enabled=true",
        "dashboard.enabled=true",
        "updates.enabled=true",
        "imagesReady.enabled=true",
        "pullSlots.enabled=true",
        "pullViewers=true",
    )
    assert {re.split(r"[.=\[]", value)[0] for value in effective} == set(values)
    for value in effective:
        assert template(value) != usual, value
    for value in (
        "openKruise=maybe",
        "runtimeFolder=run",
        "runtime=docker",
        "imagee.tag=x",
        "image.digest=latest",
        "extraArgs={x}",
        "image.pullPolicy=Sometimes",
        "maxUnavailable=0",
        "podMonitor=true",
        "pullViewers=maybe",
        "networkPolicy.from={x}",
        "config.nosuch=1",
        "updates.enabled=maybe",
        "updates.extraArgs={x}",
        "policy=null",
        "networkPolicy.from=null",
        "updates=null",
        "updates.policy=null",
    ):
        with pytest.raises(RuntimeError, match="values don't meet the specifications"):
            template(value)


def test_values_that_are_left_empty():
    """A key with nothing below it, as where all of it is commented out, is a list or a mapping without members."""
    empty = (
        *("config", "extraArgs", "extraEnv", "extraVolumes", "extraVolumeMounts", "secretNamespaces", "affinity"),
        *("podSecurityContext", "securityContext", "nodeSelector", "podLabels", "podAnnotations"),
        *("image.pullSecrets", "serviceAccount.annotations", "podMonitor.relabelings"),
        *("updates.extraArgs", "updates.nodeSelector", "updates.affinity", "updates.tolerations"),
    )
    usual = template("updates.enabled=true", "podMonitor.enabled=true")
    for key in empty:
        assert template("updates.enabled=true", "podMonitor.enabled=true", f"{key}=null") == usual, key


def test_pull_viewers_only_with_policies():
    """By the role alone, the group would have the nodes."""
    with pytest.raises(RuntimeError, match="without policies, pullViewers would give the group the nodes"):
        template("pullViewers=true", "policy=false")


def test_values_of_a_part():
    """Several values together make one object."""
    digest = f"sha256:{'1' * 64}"
    pod = pod_of(template("image.tag=next", f"image.digest={digest}"))
    images = {one["image"] for one in pod["containers"] + pod["initContainers"]}
    assert images == {f"registry.example/inplaced@{digest}"}
    pod = pod_of(template("config.stateDir=/state", "stateFolder=/srv/state"))
    assert pod["volumes"][1] == {"name": "state", "hostPath": {"path": "/srv/state", "type": "DirectoryOrCreate"}}
    (first,), (main,) = pod["initContainers"], pod["containers"]
    assert first["args"] == ["--state-dir=/state", "--prepare-state-dir=65532"]
    assert first["volumeMounts"] == [{"name": "state", "mountPath": "/state"}] == main["volumeMounts"][1:2]
    pod = pod_of(template("imagesFolder=/srv/images"))
    assert pod["volumes"][-1]["hostPath"] == {"path": "/srv/images", "type": "Directory"}
    mount = pod["containers"][0]["volumeMounts"][-1]
    assert mount == {"name": "images", "mountPath": "/srv/images", "readOnly": True}
    usual = pod_of(template())
    pod = pod_of(template("affinity.podAffinity.a=b"))
    assert pod["affinity"] == usual["affinity"] | {"podAffinity": {"a": "b"}}
    pod = pod_of(template("affinity.nodeAffinity.a=b"))
    assert pod["affinity"] == {"nodeAffinity": {"a": "b"}}
    pod = pod_of(template("securityContext.runAsUser=7", "podSecurityContext.fsGroup=8"))
    main = usual["containers"][0]["securityContext"]
    assert pod["containers"][0]["securityContext"] == main | {"runAsUser": 7}
    assert pod["securityContext"] == usual["securityContext"] | {"fsGroup": 8}
    for values, user in (
        (["podSecurityContext.runAsUser=1000700000"], 1000700000),
        (["podSecurityContext.runAsUser=8", "securityContext.runAsUser=7"], 7),
        (["podSecurityContext.runAsUser=8", "securityContext.runAsUser=0"], 0),
        (["root=true"], 0),
        (["root=true", "podSecurityContext.runAsUser=8"], 8),
    ):
        (first,) = pod_of(template(*values))["initContainers"]
        assert first["args"] == [f"--prepare-state-dir={user}"]
    metadata = daemon_set(template("podLabels.a=b", "podAnnotations.c=d"))["spec"]["template"]["metadata"]
    usual = daemon_set(template())["spec"]["template"]["metadata"]
    assert metadata["labels"] == usual["labels"] | {"a": "b"}
    assert metadata["annotations"] == usual["annotations"] | {"c": "d"}
    account = template("serviceAccount.annotations.role=reader")["ServiceAccount", "inplaced", "inplaced"]
    assert account["metadata"]["annotations"] == {"role": "reader"}
    quota = template("priorityClassName=mine")["ResourceQuota", "inplaced", "inplaced"]
    assert quota["spec"]["scopeSelector"]["matchExpressions"][0]["values"] == ["mine"]
    assert ("ResourceQuota", "inplaced", "inplaced") not in template("priorityClassName=")


def test_quota_of_both_classes():
    """The class of the controller has a quota as well, where the controller is."""
    node, cluster = "system-node-critical", "system-cluster-critical"

    def classes(*values: str) -> list[str]:
        documents = template(f"updates.priorityClassName={cluster}", *values)
        (match,) = documents["ResourceQuota", "inplaced", "inplaced"]["spec"]["scopeSelector"]["matchExpressions"]
        return match["values"]

    assert classes() == [node]
    assert classes("updates.enabled=true") == [node, cluster]
    assert classes("updates.enabled=true", "priorityClassName=") == [cluster]
    assert classes("updates.enabled=true", f"priorityClassName={cluster}") == [cluster]


def controller_of(documents: Documents) -> Document:
    return documents["Deployment", "inplaced", "inplaced-controller"]["spec"]["template"]["spec"]


def test_values_of_updates():
    """Each value has its effect on the controller, and on the Job that runs before the release is deleted."""
    usual = controller_of(template("updates.enabled=true"))
    found = template(
        *("updates.enabled=true", "updates.policy=false", "updates.extraArgs={--log-level=debug}"),
        *("updates.resources.limits.memory=1Gi", "updates.priorityClassName=mine", "updates.nodeSelector.a=b"),
        *("updates.affinity.nodeAffinity.a=b", "updates.tolerations[0].key=only", "image.tag=next"),
        *("image.pullPolicy=Always", "image.pullSecrets={hub}"),
        version="1.35",
    )
    assert not any("Mutating" in kind or name == "inplaced-in-place-only" for kind, _, name in found)
    pod = controller_of(found)
    (main,) = pod["containers"]
    assert main["args"] == ["controller", "--all-namespaces", "--log-level=debug"]
    assert (main["image"], main["imagePullPolicy"]) == ("registry.example/inplaced:next", "Always")
    assert main["resources"]["limits"] == {"memory": "1Gi"}
    assert pod["nodeSelector"] == usual["nodeSelector"] | {"a": "b"}
    assert pod["affinity"] == {"nodeAffinity": {"a": "b"}}
    assert (pod["tolerations"], pod["priorityClassName"]) == ([{"key": "only"}], "mine")
    assert pod["imagePullSecrets"] == [{"name": "hub"}]
    job = found["Job", "inplaced", "inplaced-release-all"]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-delete"
    (last,) = job["spec"]["template"]["spec"]["containers"]
    assert last == main | {"args": [*main["args"], "--policy", "inplaced-hold", "--release-all"]}
    # The Deployment does not take its pod for one of its own.
    labels = job["spec"]["template"]["metadata"]["labels"]
    assert labels == {"app.kubernetes.io/part-of": "inplaced"}
    with pytest.raises(RuntimeError, match="set updates.policy=false"):
        template("updates.enabled=true", version="1.35")


def test_what_kube_prometheus_stack_reads():
    """The selectors of kube-prometheus-stack want the label of its release."""
    options = [
        f"{part}.{option}"
        for part in ("podMonitor", "prometheusRule", "dashboard")
        for option in ("enabled=true", "labels.release=stack", "annotations.a=b")
    ]
    relabeling = "podMonitor.relabelings[0].action=labelmap", "podMonitor.metricRelabelings[0].action=drop"
    found = template(*options, *relabeling, "podMonitor.interval=1m")
    for key in (
        ("PodMonitor", "inplaced", "inplaced"),
        ("PrometheusRule", "inplaced", "inplaced"),
        ("ConfigMap", "inplaced", "inplaced-dashboard"),
    ):
        metadata = found[key]["metadata"]
        assert metadata["labels"]["release"] == "stack"
        assert metadata["labels"]["app.kubernetes.io/part-of"] == "inplaced"
        assert metadata["annotations"] == {"a": "b"}
    dashboard = found["ConfigMap", "inplaced", "inplaced-dashboard"]
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    (endpoint,) = found["PodMonitor", "inplaced", "inplaced"]["spec"]["podMetricsEndpoints"]
    assert endpoint["interval"] == "1m"
    assert [one.get("targetLabel", one.get("action")) for one in endpoint["relabelings"]] == ["node", "labelmap"]
    assert endpoint["metricRelabelings"] == [{"action": "drop"}]


# The configuration of the agent


def check_config(folder: Path, config: object) -> list[str]:
    """The agent's own complaints about the configuration."""
    path = folder / "config.yaml"
    path.write_text(config if isinstance(config, str) else yaml.safe_dump(config))
    program = Path(os.environ["INPLACED_BUILD_DIR"]) / "agent" / "inplaced"
    flags = "--mode=standalone", "--check-config", f"--config={path}"
    ran = subprocess.run([program, *flags], capture_output=True, text=True, env={})
    return [line for line in ran.stderr.splitlines() if str(path) in line]


def template_config(folder: Path, config: Document) -> Documents:
    """With the configuration in a file of values."""
    path = folder / "values.yaml"
    path.write_text(yaml.safe_dump({"config": config}))
    options = "--namespace", "inplaced", "--kube-version", "1.34", "--values", path
    return by_name(run_client("helm", "template", "inplaced", CHART, *options))


def test_the_schema_knows_each_key():
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert set(schema["properties"]["config"]["properties"]) == set(_CONFIG)


def test_helm_takes_what_the_agent_takes(folder):
    """The agent reads what helm writes, key by key."""
    n_values = max(len(good) for good, _ in _CONFIG.values())
    for i in range(n_values):
        config = {key: good[i] for key, (good, _) in _CONFIG.items() if i < len(good)}
        assert check_config(folder.path, config) == []
        (written,) = [
            document["data"]["config.yaml"]
            for (kind, _, name), document in template_config(folder.path, config).items()
            if (kind, name) == ("ConfigMap", "inplaced")
        ]
        assert check_config(folder.path, written) == []
        assert yaml.safe_load(written) == config


def test_helm_refuses_what_the_agent_refuses(folder):
    n_values = max(len(bad) for _, bad in _CONFIG.values())
    for i in range(n_values):
        config = {key: bad[i] for key, (_, bad) in _CONFIG.items() if i < len(bad)}
        with pytest.raises(RuntimeError, match="values don't meet the specifications") as error:
            template_config(folder.path, config)
        for key, value in config.items():
            assert f"config.{key}" in str(error.value).replace("/", "."), (key, value)
            assert check_config(folder.path, {key: value}), (key, value)


def test_a_change_of_the_configuration_replaces_the_pods(folder):
    """The pods' template differs then, and only then."""

    def template_of(documents: Documents) -> Document:
        return daemon_set(documents)["spec"]["template"]

    usual = template_of(template())
    assert template_of(template("config.maxParallelPulls=2")) != usual
    assert template_of(template("podMonitor.enabled=true")) == usual

    (folder / "config.yaml").write_text("maxParallelPulls: 2\n")
    usual = template_of(compose(folder.path))
    path = folder / "kustomization.yaml"
    kustomization = yaml.safe_load(path.read_text())
    generator = {"name": "inplaced", "namespace": "inplaced", "behavior": "replace", "files": ["config.yaml"]}
    path.write_text(yaml.safe_dump(kustomization | {"configMapGenerator": [generator]}))
    changed = by_name(render(folder.path))
    assert template_of(changed) != usual
    config = changed["ConfigMap", "inplaced", config_name(changed)]
    assert config["data"] == {"config.yaml": "maxParallelPulls: 2\n"}


@pytest.mark.parametrize("helm", HELMS)
def test_lint(helm):
    shown = run_client(helm, "lint", "--strict", CHART)
    print(shown)
    assert "1 chart(s) linted, 0 chart(s) failed" in shown


def test_older_servers():
    """Without the API of the policy, helm fails with a message that says what to do."""
    with pytest.raises(RuntimeError, match="set policy=false"):
        template(version="1.29")
    assert not any("Policy" in key[0] for key in template("policy=false", version="1.29"))


@pytest.mark.parametrize("overlay", _VALUES)
def test_pods_are_confined(overlay):
    """The pods meet the restricted Pod Security Standard, except for the volumes and the user."""
    documents = read_overlay(overlay)
    pod = pod_of(documents)
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
    assert daemon_set(documents)["spec"]["updateStrategy"]["rollingUpdate"]["maxSurge"] == 0
    annotations = daemon_set(documents)["spec"]["template"]["metadata"]["annotations"]
    assert annotations["kubectl.kubernetes.io/default-container"] == main["name"]


def test_roles_hold_no_more_than_is_used():
    """The roles grant single objects where possible, and secrets by name only."""
    for overlay in (*_VALUES, "kubelet-identity"):
        documents = read_overlay(overlay)
        roles = [one for (_, _, name), one in documents.items() if name != "inplaced-user"]
        rules = [rule for one in roles for rule in one.get("rules", [])]
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
        assert not bound_everywhere & {"inplaced-secrets", "inplaced-user"}
        assert ("ClusterRole", "", "inplaced-user") in documents


def rights(role: Document) -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_controller_is_confined():
    """The pod meets the restricted Pod Security Standard, and no policy for agents applies to the account."""
    for overlay in ("updates", "updates-namespace"):
        documents = read_overlay(overlay)
        pod = controller_of(documents)
        (main,) = pod["containers"]
        assert not {"hostNetwork", "hostPID", "hostIPC", "volumes", "initContainers"} & pod.keys()
        assert pod["securityContext"] == {
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert main["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "privileged": False,
            "readOnlyRootFilesystem": True,
        }
        assert not re.fullmatch("[^:]*inplaced[^:]*", pod["serviceAccountName"])


def test_rights_of_the_controller():
    """It may do what people may, but request restarts; and beyond that what only it does."""
    documents = read_overlay("updates")
    people = rights(read_overlay("standalone")["ClusterRole", "", "inplaced-user"])
    people = {right for right in people if right[1] != "containerrecreaterequests"}
    found = rights(documents["ClusterRole", "", "inplaced-updates"])
    assert found - people == {
        ("apps", "deployments/status", "patch"),
        ("", "events", "create"),
        ("", "events", "patch"),
    }
    assert people <= found
    admission = "admissionregistration.k8s.io"
    assert rights(documents["ClusterRole", "", "inplaced-controller"]) == {
        *(("apps.kruise.io", "nodeimages", verb) for verb in ("list", "watch", "patch")),
        *((admission, "mutatingadmissionpolicybindings", verb) for verb in ("create", "delete")),
    }


def readers_of_secrets(documents: Documents) -> set[str]:
    """The accounts that may read Secrets in the namespace of the controller."""
    return {
        subject["name"]
        for (kind, namespace, _), binding in documents.items()
        if kind in ("ClusterRoleBinding", "RoleBinding") and namespace in ("", "inplaced")
        for subject in binding["subjects"]
        for name, role in documents.items()
        if (name[0], name[2]) == (binding["roleRef"]["kind"], binding["roleRef"]["name"])
        and ("", "secrets", "get") in rights(role)
    }


@pytest.mark.parametrize("overlay", ["standalone", "openkruise", "updates"])
def test_agents_cannot_read_what_the_controller_keeps(folder, overlay):
    """The hashes of Secrets are in its namespace, with their key: who reads both can test guesses of their values."""
    components = ("updates-config",) if overlay == "updates" else ("updates", "updates-config")
    assert readers_of_secrets(compose(folder.path, *components, overlay=overlay)) == {"in-place-updates"}
    values = ("updates.enabled=true", "updates.restartOnConfigChange=true", *_VALUES.get(overlay, ()))
    found = template(*values, "secretNamespaces={team-a}")
    assert readers_of_secrets(found) == {"in-place-updates"}
    bound = {namespace for kind, namespace, name in found if (kind, name) == ("RoleBinding", "inplaced-secrets")}
    assert bound == {"team-a"} | ({"kruise-daemon-config"} if overlay == "openkruise" else set())


def test_the_controller_of_one_namespace():
    """Nothing of it is outside that namespace, and it has the same rights there."""
    documents = read_overlay("updates-namespace")
    assert {namespace for _, namespace, _ in documents} == {"inplaced"}
    everywhere = read_overlay("updates")["ClusterRole", "", "inplaced-updates"]
    assert documents["Role", "inplaced", "inplaced-updates"]["rules"] == everywhere["rules"]
    assert controller_of(documents)["containers"][0]["args"] == ["controller"]


def build(folder: Path, *arguments: str, **environment: str) -> dict[str, Path]:
    """The artifacts of packaging/kubernetes/build, by name."""
    program = REPOSITORY / "packaging" / "kubernetes" / "build"
    done = os.environ | environment
    subprocess.run([program, *arguments, folder], check=True, capture_output=True, env=done)
    return {path.name: path for path in folder.iterdir()}


def test_artifacts(folder):
    """The artifacts equal the checkout's manifests, and their build is reproducible."""
    first, made = (build(folder / f"artifacts-{number}") for number in range(2))
    assert {name: path.read_bytes() for name, path in first.items()} == {
        name: path.read_bytes() for name, path in made.items()
    }
    (chart,) = [path for name, path in made.items() if name.endswith(".tgz")]
    assert template(chart=chart) == template()
    overlays = {path.name for path in (MANIFESTS / "overlays").iterdir()}
    assert set(made) == {
        *(chart.name, "inplaced-rules.yaml", "inplaced-dashboard.json"),
        *(f"inplaced-{folder}.yaml" for folder in {"crds", "namespace", *overlays}),
    }
    rendered = made["inplaced-standalone.yaml"].read_text()
    assert by_name(rendered) == read_overlay("standalone")
    rules = yaml.safe_load((MANIFESTS / "components" / "monitoring" / "rules.yaml").read_text())
    path = made["inplaced-rules.yaml"]
    assert yaml.safe_load(path.read_text()) == {"groups": rules["spec"]["groups"]}
    subprocess.run(["promtool", "check", "rules", path], check=True, capture_output=True)


@pytest.mark.parametrize("helm", HELMS)
def test_the_chart_is_whole(folder, helm):
    """helm has nothing to say about the packaged chart, which is made without a program that is built first."""
    nowhere = str(folder / "no-clients")
    (chart,) = build(folder / "chart", "--chart", INPLACED_CLIENTS=nowhere, HOME=nowhere).values()
    argv = [find_built("clients") / helm, "template", "inplaced", chart, "--kube-version", "1.34"]
    ran = subprocess.run(argv, check=True, capture_output=True, text=True, env={})
    assert ran.stderr == ""


def test_the_image_of_the_artifacts(folder):
    """INPLACED_IMAGE is where manifests and chart look for the image."""
    repository = "registry.internal:5000/node/inplaced"
    made = build(folder / "named", INPLACED_IMAGE=repository)
    (chart,) = [path for name, path in made.items() if name.endswith(".tgz")]
    for documents in (template(chart=chart), by_name(made["inplaced-standalone.yaml"].read_text())):
        pod = pod_of(documents)
        images = {one["image"] for one in pod["containers"] + pod["initContainers"]}
        assert images == {f"{repository}:{VERSION}"}
    with pytest.raises(subprocess.CalledProcessError):
        build(folder / "wrong", INPLACED_IMAGE="registry.internal/inplaced:1")

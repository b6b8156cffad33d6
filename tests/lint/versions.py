#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The page about compatibility names the versions that the tests are built with: all of them, and no other."""

import re
import sys

import lint

PAGE = "docs/COMPATIBILITY.md"
DEBIAN = {"1.6.20"}  # containerd's, which is not built

# A module, and in which folders below tests its version counts.
MODULES = {
    "k8s.io/kubernetes": r"cluster/control-plane/[\d.]+",
    "go.etcd.io/etcd/server/v3": r"cluster/control-plane/[\d.]+",
    "k8s.io/kubectl": "cluster/clients",
    "helm.sh/helm/v3": "cluster/clients",
    "helm.sh/helm/v4": "cluster/clients",
    "github.com/openkruise/kruise": "cluster/kruise",
    "github.com/containerd/containerd/v2": "runtimes/containerd",
    "github.com/cri-o/cri-o": "runtimes/crio",
    "github.com/containerd/stargz-snapshotter": "runtimes/stargz",
}


def wants(root, name):
    return name == PAGE or re.fullmatch(r"tests/(cluster|runtimes)/.*go\.mod", name) is not None


def read_versions(text, folder):
    """The versions of the modules that count there; kubectl's module calls 1.37.2 v0.37.2."""
    for module, version in re.findall(r"(?m)^(?:require)?\s*(\S+) v([\d.]+)(?: // indirect)?$", text):
        if module in MODULES and re.fullmatch(MODULES[module], folder):
            yield module, re.sub(r"^0", "1", version) if module == "k8s.io/kubectl" else version


def check(root, names):
    tested = {}
    for name in names:
        if name != PAGE:
            folder = name.removeprefix("tests/").removesuffix("/go.mod")
            tested |= {v: f"{module} in {name}" for module, v in read_versions((root / name).read_text(), folder)}
    named = set(re.findall(r"(?<![\d.])\d+\.\d+\.\d+(?![\d.]*\d)", (root / PAGE).read_text())) if PAGE in names else set()
    complaints = [f"{PAGE} does not name {v}, the version of {why}" for v, why in tested.items() if v not in named]
    complaints += [f"{PAGE} names {v}, with which nothing is built" for v in sorted(named - set(tested) - DEBIAN)]
    return complaints


FILES = {
    "tests/cluster/control-plane/1.34/go.mod": "require (\n\tk8s.io/kubernetes v1.34.4\n\tk8s.io/kubectl v0.34.4 // indirect\n)\n",
    "tests/cluster/clients/go.mod": "require (\n\tk8s.io/kubectl v0.37.2\n\thelm.sh/helm/v4 v4.3.1 // indirect\n)\n",
}
BAD = {
    "one that is not named": {**FILES, PAGE: "kubectl 1.37.2, helm 4.3.1"},
    "one that is not tested": {**FILES, PAGE: "Kubernetes 1.34.4 and 1.36.3, kubectl 1.37.2, helm 4.3.1"},
}
GOOD = {"all": {**FILES, PAGE: "Kubernetes 1.34.4 with containerd 1.6.20, kubectl 1.37.2, helm 4.3.1."}}

if __name__ == "__main__":
    sys.exit(lint.main(check, wants, BAD, GOOD))

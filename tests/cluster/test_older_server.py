# SPDX-License-Identifier: Apache-2.0
"""Proves how an API server without policies accepts our manifests."""

from __future__ import annotations

import pytest

from lab.clients import MANIFESTS, run_client
from lab.control_plane import ControlPlane
from lab.kube import KubeError

# No plugin either that needs them. Without the whole group an API server of 1.37 is not ready.
_KINDS = ("policies", "policybindings")
_WITHOUT = (
    "--runtime-config="
    + ",".join(f"admissionregistration.k8s.io/v1/validatingadmission{kind}=false" for kind in _KINDS),
    "--disable-admission-plugins=ServiceAccount,ValidatingAdmissionPolicy",
)


def test_policies_are_not_served(folder):
    """kubectl names the kind that is missing, and applies the rest."""
    with ControlPlane(folder / "cp", apiserver_flags=_WITHOUT) as control_plane:
        with pytest.raises(RuntimeError) as error:
            for folder in ("namespace", "crds", "overlays/standalone"):
                run_client(
                    *("kubectl", "apply", "-k", MANIFESTS / folder),
                    kubeconfig=control_plane.admin_kubeconfig,
                )
        print(error.value)
        assert 'no matches for kind "ValidatingAdmissionPolicy"' in str(error.value)
        admin = control_plane.admin
        with pytest.raises(KubeError):
            admin.get("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies")
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        for path in (
            "/apis/apps/v1/namespaces/inplaced/daemonsets/inplaced",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodeimages.apps.kruise.io",
            f"{rbac}/clusterrolebindings/inplaced",
            f"{rbac}/clusterrolebindings/inplaced-registration",
        ):
            assert admin.find(path) is not None, path

# SPDX-License-Identifier: Apache-2.0
"""The programs with which people apply manifests: kubectl, which contains kustomize, and helm in two releases."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path

from compatibility import note
from lab.built import find_built
from lab.stubs import REPOSITORY

MANIFESTS = REPOSITORY / "packaging" / "kubernetes"

HELMS = ("helm", "helm3")  # the newest release, and the newest one of the series before


def run_client(*argv: str | Path, kubeconfig: Path | None = None) -> str:
    """Runs kubectl or helm and returns its output; RuntimeError with its complaint if it fails.

    `kubeconfig` is in a folder that they may use for their caches.
    """
    program, *arguments = map(str, argv)
    environment = {"PATH": os.environ["PATH"], "GOGC": "off"}  # they end before there is much garbage
    if kubeconfig is not None:
        environment |= {"KUBECONFIG": str(kubeconfig), "HOME": str(kubeconfig.parent)}
    ran = subprocess.run(
        [find_built("clients") / program, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environment,
    )
    if ran.returncode != 0:
        raise RuntimeError(f"{' '.join([program, *arguments])}: {ran.stderr}{ran.stdout}")
    _note_version(program)
    return ran.stdout


@functools.cache
def _note_version(program: str) -> None:
    arguments = ["--client"] if program == "kubectl" else ["--template={{.Version}}"]
    argv = [find_built("clients") / program, "version", *arguments]
    note("kubectl" if program == "kubectl" else "helm", subprocess.check_output(argv, text=True))


def render(folder: Path) -> str:
    """The objects that `kubectl apply -k` of that folder would apply."""
    return run_client("kubectl", "kustomize", folder)

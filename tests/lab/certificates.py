# SPDX-License-Identifier: Apache-2.0
"""A throwaway certificate authority, for registries that speak TLS on the loopback address."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Certificates:
    """Files: `authority` is what clients trust, `certificate` and `key` are the server's."""

    authority: Path
    certificate: Path
    key: Path


def make_certificates(folder: Path) -> Certificates:
    """Makes an authority and a certificate of it for 127.0.0.1, good for a day."""
    made = Certificates(folder / "ca.crt", folder / "server.crt", folder / "server.key")
    authority_key = folder / "ca.key"
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    _openssl(
        *("req", "-x509", *new_key, "-days", "1", "-subj", "/CN=lab authority"),
        *("-keyout", authority_key, "-out", made.authority),
    )
    _openssl(
        *("req", "-x509", *new_key, "-days", "1", "-subj", "/CN=lab registry"),
        *("-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"),
        *("-addext", "basicConstraints=critical,CA:FALSE"),
        *("-CA", made.authority, "-CAkey", authority_key),
        *("-keyout", made.key, "-out", made.certificate),
    )
    return made


def _openssl(*arguments: str | Path) -> None:
    ran = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True)
    if ran.returncode != 0:
        raise RuntimeError(f"openssl {arguments[0]} failed: {ran.stderr}")

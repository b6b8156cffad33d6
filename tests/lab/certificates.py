# SPDX-License-Identifier: Apache-2.0
"""A throwaway certificate authority, for servers with TLS on the loopback address."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_LOOPBACK = "subjectAltName=IP:127.0.0.1,DNS:localhost"


@dataclass(frozen=True)
class Certificates:
    """Files: clients trust `authority`, the server has `certificate` and `key`."""

    authority: Path
    certificate: Path
    key: Path


class Authority:
    """Makes certificates that are good for a day. Its own is the file `certificate`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.certificate = folder / "ca.crt"
        self._key = folder / "ca.key"
        _openssl(
            *("req", "-x509", *_NEW_KEY, "-days", "1", "-subj", "/CN=lab authority"),
            *("-keyout", self._key, "-out", self.certificate),
        )

    def issue(self, name: str, subject: str, *addresses: str) -> tuple[Path, Path]:
        """A certificate, for a server on the loopback address or for a client, and its key.

        `name` is that of the files, `subject` as in "/O=system:nodes/CN=system:node:one". `addresses` are
        more of the server.
        """
        names = ",".join([_LOOPBACK, *(f"IP:{address}" for address in addresses)])
        certificate, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        _openssl(
            *("req", "-x509", *_NEW_KEY, "-days", "1", "-subj", subject, "-addext", names),
            *("-addext", "basicConstraints=critical,CA:FALSE"),
            *("-CA", self.certificate, "-CAkey", self._key, "-keyout", key, "-out", certificate),
        )
        return certificate, key


def make_certificates(folder: Path) -> Certificates:
    """Makes an authority and a certificate of it for 127.0.0.1, good for a day."""
    authority = Authority(folder)
    return Certificates(authority.certificate, *authority.issue("server", "/CN=lab registry"))


def make_signing_key(path: Path) -> Path:
    """A private key on its own; a server checks signatures with the same file."""
    _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path)
    return path


def _openssl(*arguments: str | Path) -> None:
    ran = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True)
    if ran.returncode != 0:
        raise RuntimeError(f"openssl {arguments[0]} failed: {ran.stderr}")

# SPDX-License-Identifier: Apache-2.0
"""gRPC stubs from the project's own .proto files, generated when they are first asked for.

A test that speaks to the agent or to a runtime therefore always uses the protocol of this checkout:

    from lab import stubs
    cri = stubs.load("runtime.v1.api")
    cri.messages.VersionRequest(), cri.services.RuntimeServiceStub(channel)
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

from lab.folder import LabFolder

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Stubs:
    """`messages` holds the message classes, `services` the stubs and servicers of one file."""

    messages: ModuleType
    services: ModuleType


@cache
def load(name: str) -> Stubs:
    """The stubs of proto/NAME.proto, with dots for slashes: "inplaced.v1.node"."""
    _generate()
    return Stubs(
        importlib.import_module(f"proto.{name}_pb2"),
        importlib.import_module(f"proto.{name}_pb2_grpc"),
    )


@cache
def _generate() -> LabFolder:
    """Generates all of them; the folder goes with this process."""
    import grpc_tools
    from grpc_tools import protoc

    output = LabFolder()
    sources = [str(path.relative_to(REPOSITORY)) for path in REPOSITORY.glob("proto/**/*.proto")]
    well_known = Path(grpc_tools.__file__).parent / "_proto"
    arguments = [f"-I{REPOSITORY}", f"-I{well_known}"]
    arguments += [f"--python_out={output.path}", f"--grpc_python_out={output.path}"]
    if protoc.main(["protoc", *arguments, *sources]) != 0:
        raise RuntimeError(f"protoc failed on {', '.join(sources)}")
    sys.path.insert(0, str(output.path))
    return output

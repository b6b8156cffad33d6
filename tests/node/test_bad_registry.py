# SPDX-License-Identifier: Apache-2.0
"""Proves that each way in which a registry can fail ends as the right class of failure, in one line
that says what to do, through a real containerd, while another registry is not affected.
"""

from __future__ import annotations

import socket
import time
import zlib
from dataclasses import dataclass

import pytest

from fake import registry as fakes
from lab import runtimes, sanitizers
from lab.documents import write_whole
from lab.image import build_image
from lab.layers import random_layer
from lab.registry import Registry
from lab.trouble import assert_clear, complaints, no_leak, the_complaint
from lab.wait import wait_until

ADVICE = {
    "NotFound": "check the name and the tag",
    "Unauthorized": "check the name, and give credentials that may pull the image",
    "RegistryUnreachable": "check that the node can reach the registry: its name, DNS, proxy and "
    "firewall",
    "TLS": "check the registry's certificate and the runtime's settings for this registry",
    "RateLimited": "wait, or give credentials or a mirror that allow more",
    "RegistryError": "check the registry and the proxy in front of it",
    "WrongContent": "push the image again, and check the proxies on the way",
    "NoProgress": "check the network between node and registry",
    "DeadlineExceeded": "allow more time, or check the network between node and registry",
    "InvalidCredentials": "correct the credentials of this registry",
}


@dataclass(frozen=True)
class Case:
    kind: str
    behaviour: fakes.Behaviour
    reason: str
    hint: str


HTML = "<html>Please log in</html>"
FAILING = {
    "401": Case("manifest", fakes.refuse(401), "Unauthorized", "401 Unauthorized"),
    "403": Case("manifest", fakes.refuse(403), "Unauthorized", "403 Forbidden"),
    "404": Case("manifest", fakes.refuse(404), "NotFound", "not found"),
    "429": Case("manifest", fakes.refuse(429, Retry_After="1"), "RateLimited", "429 Too Many"),
    "500": Case("manifest", fakes.refuse(500), "RegistryError", "500 Internal Server Error"),
    "503": Case("manifest", fakes.refuse(503), "RegistryError", "503 Service Unavailable"),
    "418": Case("manifest", fakes.refuse(418), "RegistryError", "418"),
    "html": Case(
        "manifest", fakes.refuse(200, HTML, Content_Type="text/html"), "RegistryError", "text/html"
    ),
    "redirects": Case("manifest", fakes.redirect_for_ever(), "RegistryError", "10 redirects"),
    "reset-at-once": Case("manifest", lambda c, q, r: c.reset(), "RegistryUnreachable", ""),
    "layer-401": Case("layer", fakes.refuse(401), "Unauthorized", "401 Unauthorized"),
    "layer-403": Case("layer", fakes.refuse(403), "Unauthorized", "403 Forbidden"),
    "layer-404": Case("layer", fakes.refuse(404), "RegistryError", "from remote: not found"),
    "layer-500": Case("layer", fakes.refuse(500), "RegistryError", "500 Internal Server Error"),
    "layer-reset": Case("layer", fakes.reset_after(1000), "RegistryUnreachable", "reset by peer"),
    "config-500": Case("config", fakes.refuse(500), "RegistryError", "500 Internal Server Error"),
    "wrong-manifest": Case("manifest", fakes.forge(), "WrongContent", "unexpected commit digest"),
    "wrong-layer": Case("layer", fakes.forge(), "WrongContent", "unexpected commit digest"),
    "wrong-config": Case("config", fakes.forge(), "WrongContent", "unexpected commit digest"),
}
# Results of other runtimes. CRI-O takes a manifest by tag as it comes, and cannot read this one.
INSTEAD = {
    "containerd-2": {
        "401": ("Unauthorized", "no basic auth credentials"),
        "layer-401": ("Unauthorized", "no basic auth credentials"),
    },
    "crio": {
        "401": ("Unauthorized", "authentication required"),
        "403": ("Unauthorized", "StatusCode: 403"),
        "404": ("NotFound", "StatusCode: 404"),
        "429": ("RateLimited", "StatusCode: 429"),
        "html": ("RegistryError", "parse manifest"),
        "layer-401": ("Unauthorized", "authentication required"),
        "layer-403": ("Unauthorized", "StatusCode: 403"),
        "layer-404": ("RegistryError", "StatusCode: 404"),
        "wrong-manifest": ("RegistryError", "parse manifest"),
        "wrong-layer": ("WrongContent", "Digest did not match"),
        "wrong-config": ("WrongContent", "does not match expected"),
    },
}
_NOT_FOUND = "manifest unknown" if runtimes.NAME == "crio" else "not found"
SILENT = {
    "manifest": ("manifest", fakes.hang()),
    "layer": ("layer", fakes.hang()),
    "layer-after-headers": ("layer", fakes.hang_after_headers()),
    "layer-after-bytes": ("layer", fakes.hang_after_headers(100_000)),
}


@pytest.fixture
def fragile(fake_registry, image_name):
    """An image whose bytes no other test has, since containerd keeps what it got of a pull."""
    layer = random_layer(300_000, seed=zlib.crc32(image_name.encode()))
    return fake_registry.add(image_name, "1", build_image([layer], labels={"of": image_name}))


@pytest.fixture
def good(push):
    """An image that is in another registry, where all is well."""
    return push([2000])


@pytest.fixture
def absent():
    """The address of a registry that is not there: no other program can listen there meanwhile."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{holder.getsockname()[1]}"


def assert_failed(agent, reference: str, reason: str, hint: str) -> None:
    status = agent.wait_status(reference, "Failed", 15 * sanitizers.SLOWNESS)
    message = status["message"]
    assert message.startswith(f"{reason}: ") and hint in message, message
    assert message.endswith(f"; {ADVICE[reason]} (attempt 1 of 1)"), message
    assert_clear(message)
    assert "imageID" not in status
    assert the_complaint(agent) == f'Cannot pull "{reference}": {message}'
    assert agent.metrics().get_value("inplaced_pulls_total", result="failed", reason=reason) == 1


@pytest.mark.parametrize("case", FAILING)
def test_failing_registry(agent, runtime, fake_registry, fragile, good, case):
    """A failure of a registry is one failed image, one line, and no harm to the others."""
    failing = FAILING[case]
    fake_registry.on(failing.kind, failing.behaviour)
    with no_leak(agent):
        agent.request(good.reference, file="good.yaml")
        agent.wait_status(good.reference, "Succeeded", 10 * sanitizers.SLOWNESS)
    with no_leak(agent):
        agent.request(fragile.reference, backoffLimit=0)
        usual = failing.reason, failing.hint
        instead = INSTEAD.get(runtimes.NAME, {}).get(case, usual)
        assert_failed(agent, fragile.reference, *instead)
    assert agent.tag_status(good.reference)["phase"] == "Succeeded"
    assert runtime.image_status(fragile.reference) is None


@pytest.mark.parametrize("case", SILENT)
def test_silent_registry(start_agent, runtime, fake_registry, fragile, good, case):
    """A registry that says nothing more is given up, in the runtime, too; others go on."""
    stall_timeout = 2
    agent = start_agent(runtime.endpoint, stall_timeout=stall_timeout)
    kind, behaviour = SILENT[case]
    fake_registry.on(kind, behaviour)
    with no_leak(agent):
        began = time.monotonic()
        agent.request(fragile.reference, backoffLimit=0)
        wait_until(lambda: fake_registry.requests(kind), 10, "request")
        agent.request(good.reference, file="good.yaml")
        agent.wait_status(good.reference, "Succeeded", 10 * sanitizers.SLOWNESS)
        phase = agent.tag_status(fragile.reference)["phase"]
        # A slow machine may have come this far only when it was time to give up.
        assert phase == "Pulling" or time.monotonic() - began > stall_timeout
        assert_failed(agent, fragile.reference, "NoProgress", "no data arrived")
    wait_until(lambda: not fake_registry.is_fetched_from(), 10, "end of the pull in the runtime")


def test_trickling_registry(start_agent, runtime, fake_registry, fragile):
    """Bytes that come slowly are progress, but not more time than was given.

    containerd shows them a MiB at a time, so a stall is only what is slower than that.
    """
    agent = start_agent(runtime.endpoint, stall_timeout=30)
    fake_registry.on("layer", fakes.trickle(bytes_per_second=50_000, step=5000))
    agent.request(fragile.reference, backoffLimit=0, timeoutSeconds=2)
    assert_failed(agent, fragile.reference, "DeadlineExceeded", "timeoutSeconds")
    wait_until(lambda: not fake_registry.is_fetched_from(), 10, "end of the pull in the runtime")


def test_registry_that_recovers(start_agent, runtime, fake_registry, fragile):
    """After a single fault of a registry the next request is done, with the right image."""
    agent = start_agent(runtime.endpoint)
    fake_registry.on("layer", fakes.reset_after(1000))
    agent.request(fragile.reference, backoffLimit=0)
    agent.wait_status(fragile.reference, "Failed", 10 * sanitizers.SLOWNESS)
    fake_registry.behave()
    agent.request(fragile.reference, version=1)
    status = agent.wait_status(fragile.reference, "Succeeded", 10 * sanitizers.SLOWNESS)
    assert "message" not in status
    assert runtime.image_id(fragile.reference) == fragile.image_id
    runtime.remove_image(fragile.reference)


@pytest.mark.parametrize("case", ["refuses", "no-address"])
def test_no_registry(agent, absent, case):
    """A registry that is not there, or has no address, is reported as unreachable."""
    host, hint = {
        "refuses": (absent, "connection refused"),
        "no-address": ("registry.invalid", "registry.invalid"),
    }[case]
    reference = f"{host}/t/none:1"
    agent.request(reference, backoffLimit=0)
    assert_failed(agent, reference, "RegistryUnreachable", hint)


def test_no_such_image(agent, registry):
    """An image, a tag or a digest that a good registry does not have is not found."""
    digest = "sha256:" + "0" * 64
    for number, name in enumerate((f"t/none-{id(agent)}:1", f"t/none@{digest}")):
        reference = f"{registry.host}/{name}"
        agent.request(reference, file=f"{number}.yaml", backoffLimit=0)
        status = agent.wait_status(reference, "Failed", 10 * sanitizers.SLOWNESS)
        assert status["message"].startswith("NotFound: "), status
        the_complaint(agent, reference)
    assert len(complaints(agent)) == 2


def test_name_that_sounds_like_a_failure(agent, registry):
    """The name of an image does not decide the reason of its failure."""
    reference = f"{registry.host}/t/401-unauthorized/no-space-left-on-device:x509"
    agent.request(reference, backoffLimit=0)
    assert_failed(agent, reference, "NotFound", _NOT_FOUND)


def test_registry_requires_credentials(agent, auth_registry, image_name):
    """Without credentials, or with wrong ones, access is refused, and no password is ever shown."""
    image = auth_registry.push_image(image_name, "1", [1000])
    agent.request(image.reference, backoffLimit=0)
    agent.wait_status(image.reference, "Failed", 10 * sanitizers.SLOWNESS)
    agent.give_credentials(auth_registry.host, "lab-user", "wrong-secret")
    agent.request(image.reference, backoffLimit=0, version=1)
    wait_until(lambda: len(complaints(agent)) == 2, 10 * sanitizers.SLOWNESS, "second failure")
    for line in complaints(agent):
        assert f": Unauthorized: " in line and ADVICE["Unauthorized"] in line
    assert "wrong-secret" not in agent.log_text() + str(agent.status())


def test_signed_url(agent, fake_registry, fragile, absent):
    """The URL that a registry sends containerd to is a credential: it is not shown."""
    url = f"http://me:PASSWORD@{absent}/blob?sig=SIGNATURE"
    fake_registry.on("layer", fakes.refuse(307, Location=url))
    agent.request(fragile.reference, backoffLimit=0)
    assert_failed(agent, fragile.reference, "RegistryUnreachable", f"http://{absent}/blob")
    published = agent.log_text() + str(agent.status()) + agent.ctl("doctor").stdout
    for secret in ("PASSWORD", "SIGNATURE", "sig="):
        assert secret not in published


def test_registry_with_unknown_certificate(start_agent, runtime, folder):
    """A certificate that no authority vouches for is a failure of TLS."""
    with Registry(folder / "tls", tls=True) as registry:
        image = registry.push_image("t/tls", "1", [1000])
        hosts = runtime.folder / "certs.d" / registry.host
        hosts.mkdir(parents=True)
        write_whole(hosts / "hosts.toml", f'server = "{registry.url}"\n[host."{registry.url}"]\n')
        agent = start_agent(runtime.endpoint)
        agent.request(image.reference, backoffLimit=0)
        assert_failed(agent, image.reference, "TLS", "certificate")

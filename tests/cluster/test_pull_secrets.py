# SPDX-License-Identifier: Apache-2.0
"""Proves how the agent uses pull secrets that are missing, wrong, forbidden or corrected."""

from __future__ import annotations

import base64
import json

import pytest

from lab import sanitizers
from lab.trouble import assert_clear
from lab.wait import wait_until

SLOWLY = sanitizers.SLOWNESS

_SPACE = "kruise-daemon-config"


@pytest.fixture
def image(auth_registry, runtime, image_name):
    made = auth_registry.push_image(image_name, "1", [1000], labels={"test": image_name})
    yield made
    runtime.remove_image(made.image_id)


@pytest.fixture
def secret(kube, auth_registry, node_name):
    """A pull secret that is not created yet."""
    made = Secret(kube, f"secret-{node_name}", auth_registry.host)
    yield made
    made.delete()


class Secret:
    def __init__(self, kube, name: str, host: str) -> None:
        self.reference = {"namespace": _SPACE, "name": name}
        self._kube = kube
        self._path = f"/api/v1/namespaces/{_SPACE}/secrets"
        self._host = host

    def create(self, user: str, password: str) -> None:
        about = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson"}
        metadata = {"name": self.reference["name"]}
        self._kube.post(self._path, {**about, "metadata": metadata, **self._data(user, password)})

    def change(self, user: str, password: str) -> None:
        self._kube.patch(f"{self._path}/{self.reference['name']}", self._data(user, password))

    def delete(self) -> None:
        self._kube.delete(f"{self._path}/{self.reference['name']}")

    def _data(self, user: str, password: str) -> dict:
        auths = {self._host: {"username": user, "password": password}}
        text = json.dumps({"auths": auths}).encode()
        return {"data": {".dockerconfigjson": base64.b64encode(text).decode()}}


def wait_failure(node_image, reference: str) -> str:
    """Waits until the pull has failed for good; the event has the message of the status."""
    message = node_image.wait_status(reference, "Failed")["message"]
    assert_clear(message)
    (event,) = wait_until(node_image.events, 10 * SLOWLY, "event")
    assert message in event["message"]
    return message


def wait_visible(agent, text: str) -> None:
    """Waits until `inplacectl status` shows the text while the agent retries the pull."""
    wait_until(
        lambda: text in agent.ctl("status", "-o", "wide").stdout,
        10 * SLOWLY,
        lambda: f"{text!r}, only {agent.ctl('status', '-o', 'wide').stdout}",
        pause=0.05,
    )


def test_missing(cluster_agent, node_image, image, secret):
    """The reason names the secret."""
    node_image.request(image.reference, secrets=[secret.reference], backoffLimit=0)
    message = wait_failure(node_image, image.reference)
    assert message.startswith("Unauthorized: ")
    assert f"{_SPACE}/{secret.reference['name']}" in message and "does not exist" in message


def test_missing_and_not_needed(cluster_agent, node_image, image, secret, auth_registry):
    """OpenKruise leaves the name of a secret that it has removed: the credentials of the node are there still."""
    cluster_agent.give_credentials(auth_registry.host, *auth_registry.credentials)
    node_image.request(image.reference, secrets=[secret.reference], backoffLimit=0)
    node_image.wait_status(image.reference, "Succeeded")


def test_missing_until_it_appears(cluster_agent, node_image, image, secret, auth_registry):
    """A later attempt finds the secret, with the default number of attempts."""
    node_image.request(image.reference, secrets=[secret.reference])
    wait_visible(cluster_agent, secret.reference["name"])
    secret.create(*auth_registry.credentials)
    node_image.wait_status(image.reference, "Succeeded")


def test_wrong_until_it_is_corrected(cluster_agent, node_image, image, secret, auth_registry):
    """The agent reads a secret again after its password was refused."""
    secret.create("lab-user", "not-the-password")
    node_image.request(image.reference, secrets=[secret.reference], backoffLimit=5)
    wait_visible(cluster_agent, "401")
    secret.change(*auth_registry.credentials)
    node_image.wait_status(image.reference, "Succeeded")
    assert "not-the-password" not in cluster_agent.log_text()


@pytest.mark.parametrize("bringer", ["the set", "a later request"])
def test_pull_without_an_end_gets_a_secret(
    start_agent, runtime, kubeconfig, node_image, image_set, image, secret, auth_registry, bringer
):
    """A set has no limit of attempts, so its pull goes on; the next attempt has the secret that was added."""
    agent = start_agent(
        runtime.endpoint, kubeconfig=kubeconfig, node_name=node_image.name, flags=["--register-node"]
    )
    image_set.create_set("", image.reference)
    wait_visible(agent, "401")
    secret.create(*auth_registry.credentials)
    if bringer == "the set":
        image_set.request(image.reference, secrets=[secret.reference])
    else:
        node_image.request(image.reference, secrets=[secret.reference], version=1, backoffLimit=0)
    node_image.wait_status(image.reference, "Succeeded", 20 * SLOWLY)


def test_wrong(cluster_agent, node_image, image, secret):
    secret.create("lab-user", "not-the-password")
    node_image.request(image.reference, secrets=[secret.reference], backoffLimit=0)
    message = wait_failure(node_image, image.reference)
    assert message.startswith("Unauthorized: ")
    assert "not-the-password" not in cluster_agent.log_text() + message


def test_forbidden(cluster_agent, node_image, image):
    """The agent may read secrets in one namespace; it reports those elsewhere as forbidden."""
    secret = {"namespace": "kube-system", "name": "theirs"}
    node_image.request(image.reference, secrets=[secret], backoffLimit=0)
    message = wait_failure(node_image, image.reference)
    assert "forbidden" in message.lower()
    assert "theirs" in message and "kube-system" in message


def test_one_of_two_is_missing(cluster_agent, node_image, image, secret, auth_registry):
    """The agent pulls with the remaining secret."""
    secret.create(*auth_registry.credentials)
    missing = {"namespace": _SPACE, "name": "missing"}
    node_image.request(image.reference, secrets=[missing, secret.reference], backoffLimit=0)
    node_image.wait_status(image.reference, "Succeeded")


def test_is_read_by_name_only(
    cluster_agent, control_plane, node_image, image, secret, auth_registry
):
    """The agent neither lists nor watches secrets, and does not read them for each attempt."""
    secret.create(*auth_registry.credentials)
    node_image.request(image.reference, secrets=[secret.reference])
    node_image.wait_status(image.reference, "Succeeded")

    def asked(**about: str) -> list[dict]:
        about["resource"] = "secrets"
        entries = control_plane.audit()
        return [one for one in entries if about.items() <= one.get("objectRef", {}).items()]

    name = secret.reference["name"]
    wait_until(lambda: asked(name=name), 10 * SLOWLY, "logged read")
    assert len(asked(name=name)) == 1
    assert {entry["verb"] for entry in asked()} == {"get"}

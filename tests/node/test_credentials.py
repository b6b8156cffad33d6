# SPDX-License-Identifier: Apache-2.0
"""Credentials of registries: the chosen ones, and the reports about those that cannot be used."""

from __future__ import annotations

import base64
import json
from pathlib import Path
import threading

import pytest

from fake import behaviours
from fake import registry as fakes
from lab.documents import node_image, write_whole
from lab.image import build_image
from lab.layers import random_layer
from lab.preload import Preload
from lab.trouble import complaints, problems, pull_another, the_complaint
from lab.wait import wait_until

# Seconds. CRI-O repeats a request that was answered with 429 by itself, for half a minute.
_SLOWEST = 120

_REFUSED = behaviours.fail("UNKNOWN", "failed with status code [manifests 1]: 401 Unauthorized")


@pytest.fixture
def secret_image(auth_registry, runtime, image_name):
    image = auth_registry.push_image(image_name, "1", [1000], labels={"test": image_name})
    yield image
    runtime.remove_image(image.image_id)


def request_with_secrets(agent, reference: str, *secrets: str, file: str = "secret.yaml", **policy: int) -> None:
    document = node_image((reference,), **{"backoffLimit": 0, **policy})
    (image,) = document["spec"]["images"].values()
    image["pullSecrets"] = [{"namespace": "default", "name": name} for name in secrets]
    write_whole(agent.images_dir / file, document)


def auths(user: str, password: str, *hosts: str) -> dict:
    return {"auths": {host: {"username": user, "password": password} for host in hosts}}


def used(fake_runtime) -> list[str]:
    return [call.request.auth.username for call in fake_runtime.calls("PullImage")]


def test_right_credentials(agent, runtime, auth_registry, secret_image):
    """With the right credentials the image of a closed registry is pulled."""
    agent.give_credentials(auth_registry.host, *auth_registry.credentials)
    agent.request(secret_image.reference)
    agent.wait_status(secret_image.reference, "Succeeded")
    assert runtime.image_id(secret_image.reference) == secret_image.image_id


@pytest.mark.parametrize("given", ["wrong", "none"])
def test_no_way_in(agent, auth_registry, secret_image, given):
    """With wrong credentials or none the failure is called Unauthorized, and nothing is leaked."""
    if given == "wrong":
        agent.give_credentials(auth_registry.host, "lab-user", "not-the-password")
    agent.request(secret_image.reference, backoffLimit=0)
    status = agent.wait_status(secret_image.reference, "Failed")
    assert status["message"].startswith("Unauthorized: ")
    output = agent.log_text() + agent.ctl("status").stdout + agent.ctl("doctor").stdout
    assert "not-the-password" not in output


def test_corrected_credentials(agent, auth_registry, secret_image):
    """Each attempt reads the credentials anew, so corrected ones count without a restart."""
    agent.give_credentials(auth_registry.host, "lab-user", "wrong")
    preload = Preload(agent, secret_image.reference)
    preload.wait_step("BACKING_OFF")
    agent.give_credentials(auth_registry.host, *auth_registry.credentials)
    assert preload.wait_end().phase == agent.messages.PHASE_SUCCEEDED


def test_wrong_ones_before_right_ones(agent, auth_registry, secret_image):
    """Several credentials for one registry are tried in turn within one attempt."""
    agent.give_credentials(auth_registry.host, "lab-user", "wrong", file="a.json")
    agent.give_credentials(auth_registry.host, *auth_registry.credentials, file="b.json")
    agent.request(secret_image.reference, backoffLimit=0)
    agent.wait_status(secret_image.reference, "Succeeded")


def test_wrong_ones_are_not_followed_by_an_anonymous_pull(start_agent, fake_runtime):
    """When all credentials are refused, the pull fails; it is not tried without any."""
    fake_runtime.on("PullImage", _REFUSED)
    agent = start_agent(fake_runtime.endpoint)
    agent.give_credentials("hub.test", "one", "x")
    agent.give_credentials("hub.test/demo", "two", "x", file="b.json")
    agent.request("hub.test/demo/web:1", backoffLimit=0)
    agent.wait_status("hub.test/demo/web:1", "Failed")
    assert used(fake_runtime) == ["two", "one"]


def _user_of(request) -> str:
    kind, _, text = request.headers.get("Authorization", "").partition(" ")
    return base64.b64decode(text).decode().partition(":")[0] if kind == "Basic" else ""


def _basic(status: int) -> fakes.Behaviour:
    """Answers the caller named "first" with the status."""

    def behave(connection, request, reply) -> None:
        refusals = {"": fakes.refuse(401), "first": fakes.refuse(status)}
        refuse = refusals.get(_user_of(request))
        refuse(connection, request, reply) if refuse else connection.send(reply)

    return behave


def _token(registry, status: int) -> fakes.Behaviour:
    """A registry that sends to its own token server, which answers "first" with the status."""
    challenge = f'Bearer realm="http://{registry.host}/token",service="fake"'
    challenge = fakes.refuse(401, WWW_Authenticate=challenge)
    token = fakes.Reply(200, {"Content-Type": "application/json"}, b'{"token": "good"}')

    def behave(connection, request, reply) -> None:
        if request.path != "/token":
            is_in = request.headers.get("Authorization") == "Bearer good"
            connection.send(reply) if is_in else challenge(connection, request, reply)
        elif request.method == "POST":
            connection.send(reply)  # it is not there, so GET follows
        else:
            refuse = fakes.refuse(status) if _user_of(request) == "first" else None
            refuse(connection, request, reply) if refuse else connection.send(token)

    return behave


@pytest.mark.parametrize(
    ("where", "status"),
    [
        *(("registry", status) for status in (401, 403, 404, 429)),
        *(("token-server", status) for status in (400, 401, 403, 404, 429)),
    ],
)
def test_refusals_of_one_credential(agent, runtime, fake_registry, image_name, where, status):
    """The next credential is tried after any failure of the first one, within one attempt."""
    image = fake_registry.add(image_name, "1", build_image([random_layer(1000)]))
    behaviour = _basic(status) if where == "registry" else _token(fake_registry, status)
    for kind in ("ping", "manifest", "config", "layer", "other"):
        fake_registry.on(kind, behaviour)
    agent.give_credentials(f"{fake_registry.host}/t", "first", "x", file="a.json")
    agent.give_credentials(fake_registry.host, "second", "x", file="b.json")
    agent.request(image.reference, backoffLimit=0)
    agent.wait_status(image.reference, "Succeeded", _SLOWEST)
    users = [_user_of(request) for request in fake_registry.requests()]
    assert users.index("first") < users.index("second")
    runtime.remove_image(image.reference)


@pytest.mark.parametrize(
    ("key", "reference", "is_used"),
    [
        ("*.hub.test", "a.hub.test/x/y:1", True),
        ("*.hub.test", "hub.test/x/y:1", False),
        ("*.hub.test", "a.b.hub.test/x/y:1", False),
        ("r*.hub.test:5000", "reg.hub.test:5000/x/y:1", True),
        ("r*.hub.test:5000", "reg.hub.test/x/y:1", False),
        ("https://hub.test/v2/", "hub.test/x/y:1", True),
        ("hub.test/x", "hub.test/x/y:1", True),
        ("hub.test/x", "hub.test/z/y:1", False),
        ("https://index.docker.io/v1/", "nginx:1", True),
        ("docker.io", "docker.io/team/app:1", True),
    ],
)
def test_which_entry_matches(start_agent, fake_runtime, key, reference, is_used):
    """The host of an entry may hold "*" for a part, a port and a path, as the kubelet has it."""
    agent = start_agent(fake_runtime.endpoint)
    agent.give_credentials(key, "alice", "x")
    Preload(agent, reference).wait_end()
    assert used(fake_runtime) == ["alice" if is_used else ""]


def test_pull_secrets_by_name(start_agent, fake_runtime):
    """The entries of a named secret come before those of other files, and each is tried once."""
    agent = start_agent(fake_runtime.endpoint)
    fake_runtime.on("PullImage", _REFUSED)
    write_whole(agent.auth_dir / "team.json", auths("team", "x", "hub.test"))
    write_whole(agent.auth_dir / "all.json", auths("all", "x", "hub.test/demo"))
    request_with_secrets(agent, "hub.test/demo/web:1", "team")
    agent.wait_status("hub.test/demo/web:1", "Failed")
    assert used(fake_runtime) == ["team", "all"]


def test_secrets_of_one_tag_after_a_restart(start_agent, fake_runtime):
    """The file of the last run has them with their tag, although another tag of the name sorts first."""
    agent = start_agent(fake_runtime.endpoint)
    write_whole(agent.auth_dir / "team.json", auths("team", "x", "hub.test"))
    write_whole(agent.auth_dir / "all.json", auths("all", "x", "hub.test/demo"))
    agent.request("hub.test/demo/web:1")
    agent.wait_status("hub.test/demo/web:1", "Succeeded")
    fake_runtime.on("PullImage", behaviours.fail("UNAVAILABLE", "not now"))
    request_with_secrets(agent, "hub.test/demo/web:2", "team", backoffLimit=20)
    wait_until(lambda: used(fake_runtime)[1:], 10, "an attempt")
    agent.terminate()
    aside = agent.folder / "aside"
    agent.images_dir.rename(aside)
    agent.images_dir.symlink_to(agent.images_dir)  # so that only the file says what is requested
    n = len(used(fake_runtime))
    agent.start()
    wait_until(lambda: len(used(fake_runtime)) > n, 10, "an attempt")
    assert used(fake_runtime)[n] == "team"


def test_other_secrets_join_a_pull(start_agent, fake_runtime):
    """A request with another secret that comes while a pull runs does not fail with it."""
    released = threading.Event()
    first = behaviours.when(released)
    fake_runtime.on(
        "PullImage",
        behaviours.in_turn(
            lambda call, good: first(call, lambda: _REFUSED(call, good)), behaviours.normal()
        ),
    )
    agent = start_agent(fake_runtime.endpoint)
    write_whole(agent.auth_dir / "team.json", auths("team", "x", "hub.test"))
    request_with_secrets(agent, "hub.test/demo/web:1", "team")
    wait_until(lambda: fake_runtime.calls("PullImage"), 10, "pull")
    (agent.auth_dir / "team.json").unlink()
    write_whole(agent.auth_dir / "other.json", auths("other", "x", "hub.test"))
    request_with_secrets(agent, "hub.test/demo/web:1", "other", file="other.yaml")
    wait_until(lambda: len(agent.owners("hub.test/demo/web:1")) == 2, 10, "second owner")
    released.set()
    agent.wait_status("hub.test/demo/web:1", "Succeeded")
    assert used(fake_runtime) == ["team", "other"]


@pytest.mark.parametrize("content", [None, b"{", b'{"auths": []}', b"\xff"])
def test_named_secret_that_cannot_be_used(start_agent, fake_runtime, content):
    """If the secret that was named is missing or malformed, nothing is pulled without it."""
    agent = start_agent(fake_runtime.endpoint)
    if content is not None:
        (agent.auth_dir / "team.json").write_bytes(content)
    request_with_secrets(agent, "hub.test/demo/web:1", "team")
    status = agent.wait_status("hub.test/demo/web:1", "Failed")
    assert status["message"].startswith("InvalidCredentials: ")
    assert "team.json" in status["message"]
    assert not fake_runtime.calls("PullImage")


def test_one_usable_secret_of_two_is_enough(start_agent, fake_runtime):
    """If one of two named secrets can be used, that is enough."""
    agent = start_agent(fake_runtime.endpoint)
    write_whole(agent.auth_dir / "team.json", auths("team", "x", "hub.test"))
    request_with_secrets(agent, "hub.test/demo/web:1", "missing", "team")
    agent.wait_status("hub.test/demo/web:1", "Succeeded")
    assert used(fake_runtime) == ["team"]


def test_malformed_file_is_reported(start_agent, fake_runtime):
    """A malformed file that no image names is a problem in doctor; the other files still count."""
    agent = start_agent(fake_runtime.endpoint)
    (agent.auth_dir / "bad.json").write_text('{"auths": {"hub.test": {"auth": "!!"}}}')
    agent.give_credentials("hub.test", "alice", "x", file="good.json")
    Preload(agent, "hub.test/demo/web:1").wait_end()
    assert used(fake_runtime) == ["alice"]
    ran = agent.ctl("doctor")
    assert ran.returncode == 3 and "bad.json" in ran.stdout


def test_exposed_files(make_agent, fake_runtime):
    """Files that other users may write, and secrets that they may read, are used, and reported at the start
    and by doctor.
    """
    agent = make_agent(fake_runtime.endpoint)
    write_whole(agent.auth_dir / "all.json", auths("alice", "hidden", "other.example"))
    write_whole(agent.auth_dir / "root.json", auths("alice", "hidden", "third.example"))
    (agent.auth_dir / "all.json").chmod(0o644)
    (agent.auth_dir / "root.json").chmod(0o600)
    agent.config_path.chmod(0o666)
    agent.images_dir.chmod(0o777)
    for path in (agent.folder.parent, agent.folder):  # else none of them could come near
        path.chmod(0o755)
    agent.start()
    agent.wait_runtime()
    exposed = {
        str(agent.auth_dir / "all.json"): "other users may read it (mode 0644)",
        str(agent.config_path): "other users may write it (mode 0666)",
        str(agent.images_dir): "other users may write it (mode 0777)",
    }
    assert problems(agent) == exposed
    said = [line for line in complaints(agent) if line.startswith('Using "')]
    for path, why in exposed.items():
        assert sum(f'"{path}" although {why}: ' in line for line in said) == 1
    assert len(said) == len(exposed)
    pull_another(agent)
    for path in exposed:
        Path(path).chmod(0o700)
    assert problems(agent) == {}


_PLUGIN = """#!/bin/sh
# As the kubelet has them.
cat >{request}
cat <<'END'
{{"kind": "CredentialProviderResponse", "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
 "cacheKeyType": "Registry",
 "auth": {{"{host}": {{"username": "{user}", "password": "{password}"}}}}}}
END
"""


def provider_flags(folder, registry) -> list[str]:
    """A plugin that knows the registry's credentials, and the agent's configuration for it."""
    bin_dir, config = folder / "plugins", folder / "providers.yaml"
    bin_dir.mkdir()
    user, password = registry.credentials
    request = folder / "request"
    text = _PLUGIN.format(request=request, host=registry.host, user=user, password=password)
    write_whole(bin_dir / "lab-plugin", text)
    (bin_dir / "lab-plugin").chmod(0o755)
    provider = {
        "name": "lab-plugin",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "matchImages": [registry.host],
        "defaultCacheDuration": "1h",
    }
    document = {
        "apiVersion": "kubelet.config.k8s.io/v1",
        "kind": "CredentialProviderConfig",
        "providers": [provider],
    }
    write_whole(config, document)
    return [
        f"--image-credential-provider-config={config}",
        f"--image-credential-provider-bin-dir={bin_dir}",
    ]


def test_credential_provider_plugin(
    start_agent, runtime, auth_registry, secret_image, folder
):
    """A plugin is asked as the kubelet asks it, and its answer opens the registry."""
    agent = start_agent(runtime.endpoint, flags=provider_flags(folder, auth_registry))
    agent.request(secret_image.reference)
    agent.wait_status(secret_image.reference, "Succeeded")
    request = json.loads((folder / "request").read_text())
    assert request["kind"] == "CredentialProviderRequest"
    assert request["image"] == secret_image.reference.rpartition(":")[0]
    assert auth_registry.credentials[1] not in agent.log_text()


def test_plugin_that_requires_a_token(
    start_agent, runtime, auth_registry, secret_image, folder
):
    """A plugin that cannot be used here is one line, and the others are used."""
    flags = provider_flags(folder, auth_registry)
    document = json.loads((folder / "providers.yaml").read_text())
    attributes = {"serviceAccountTokenAudience": "lab", "requireServiceAccount": True}
    requiring = {**document["providers"][0], "name": "requiring", "tokenAttributes": attributes}
    document["providers"].insert(0, requiring)
    write_whole(folder / "providers.yaml", document)
    agent = start_agent(runtime.endpoint, flags=flags)
    agent.request(secret_image.reference)
    agent.wait_status(secret_image.reference, "Succeeded")
    line = the_complaint(agent)
    assert line.startswith("Cannot use the credential provider requiring of ") and "token" in line


def test_broken_provider_configuration(start_agent, fake_runtime, folder):
    """A broken plugin is one line, and images that need no credentials come all the same."""
    write_whole(folder / "providers.yaml", {"kind": "Nonsense"})
    agent = start_agent(
        fake_runtime.endpoint,
        flags=[
            f"--image-credential-provider-config={folder / 'providers.yaml'}",
            f"--image-credential-provider-bin-dir={folder / 'plugins'}",
        ],
    )
    assert "providers.yaml" in the_complaint(agent)
    pull_another(agent)


@pytest.mark.parametrize("is_there", [False, True], ids=["missing", "broken"])
def test_late_provider_configuration(start_agent, runtime, auth_registry, secret_image, folder, is_there):
    """A missing configuration of plugins is no fault; it is used once it is written, and a broken one once it is valid."""
    flags, path = provider_flags(folder, auth_registry), folder / "providers.yaml"
    document = json.loads(path.read_text())
    path.unlink()
    if is_there:
        write_whole(path, {"kind": "Nonsense"})
    agent = start_agent(runtime.endpoint, flags=flags)
    agent.request(secret_image.reference)
    agent.wait_status(secret_image.reference, "BackOff")
    said = [line for line in complaints(agent) if "plugins" in line]
    assert ["providers.yaml" in line for line in said] == [True] * is_there
    write_whole(path, document)
    agent.reload()
    agent.wait_status(secret_image.reference, "Succeeded")


def test_docker_configuration(start_agent, runtime, auth_registry, secret_image, folder):
    """Credentials that docker or podman would use of this user are used, too."""
    (folder / "home/.docker").mkdir(parents=True)
    login = auths(*auth_registry.credentials, auth_registry.host)
    write_whole(folder / "home/.docker/config.json", login)
    agent = start_agent(runtime.endpoint, environment={"HOME": str(folder / "home")})
    agent.request(secret_image.reference)
    agent.wait_status(secret_image.reference, "Succeeded")


def test_credentials_are_never_logged(start_agent, fake_runtime):
    """No password appears in the log at its most talkative, in the status or in an answer."""
    fake_runtime.on("PullImage", _REFUSED)
    agent = start_agent(fake_runtime.endpoint, log_level="debug")
    agent.give_credentials("hub.test", "alice", "pass-w0rd")
    Preload(agent, "hub.test/demo/web:1", backoff_limit=0).wait_end()
    (agent.auth_dir / "bad.json").write_text('{"auths": {"hub.test": "pass-w0rd"}}')
    output = agent.log_text() + str(agent.status()) + agent.ctl("doctor", "-o", "json").stdout
    assert "pass-w0rd" not in output

# SPDX-License-Identifier: Apache-2.0
"""Proves the ways in which an agent gets access to a real API server, and what it
reports without access."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
import yaml

from fake.connect_proxy import ConnectProxy
from fake.socks_proxy import SocksProxy
from lab import sanitizers
from lab.certificates import make_certificates
from lab.documents import write_whole
from lab.kubeconfig import write_kubeconfig
from lab.trouble import assert_clear, complaints, problems, the_complaint
from lab.wait import stretch, wait_until

SLOWLY = sanitizers.SLOWNESS

# The agent's user name in the roles.
_USER = "system:serviceaccount:inplaced:unbound"

# Puts a pod's files in their usual place, in a mount namespace that only the agent has.
_AS_POD = """
set -e
mount -t tmpfs pod /run
mkdir -p /run/secrets/kubernetes.io/serviceaccount
cp "$1/token" "$1/ca.crt" /run/secrets/kubernetes.io/serviceaccount
shift
exec "$@"
"""


@pytest.fixture
def start(start_agent, runtime, node_name, node_image):
    """start(kubeconfig) as Agent, ready."""
    return lambda kubeconfig: start_agent(
        runtime.endpoint, kubeconfig=kubeconfig, node_name=node_name
    )


def serves(node_image, push, tag: str = "1") -> None:
    """Waits until the agent watches and has written a status."""
    image = push(tag=tag)
    node_image.request(image.reference)
    node_image.wait_status(image.reference, "Succeeded")


def wait_problem(agent, *words: str) -> str:
    """Waits until the problem that doctor reports for the API server has these words in it."""

    def find() -> str | None:
        found = problems(agent).get("API server", "")
        return found if all(word in found.lower() for word in words) else None

    return wait_until(find, 10 * SLOWLY, lambda: f"{words}, only {problems(agent)}")


@pytest.mark.parametrize("is_inline", [False, True], ids=["files", "inline"])
def test_client_certificate(start, control_plane, folder, node_image, push, is_inline):
    certificate = control_plane.authority.issue(f"agent-{node_image.name}", f"/CN={_USER}")
    path = control_plane.write_kubeconfig(
        folder / "agent.conf", certificate=certificate, is_inline=is_inline
    )
    agent = start(path)
    serves(node_image, push)
    assert problems(agent) == {}


def test_one_of_several_contexts(start_agent, runtime, control_plane, folder, node_image, push):
    """The agent uses the named context, not the current one, which names no server."""
    path = folder / "agent.conf"
    document = yaml.safe_load(control_plane.write_agent_kubeconfig(path).read_text())
    document["clusters"].append({"name": "away", "cluster": {"server": "https://127.0.0.1:1"}})
    document["contexts"].append({"name": "away", "context": {"cluster": "away", "user": "lab"}})
    write_whole(path, yaml.safe_dump(document | {"current-context": "away"}))
    agent = start_agent(
        runtime.endpoint,
        kubeconfig=path,
        node_name=node_image.name,
        flags=["--kubeconfig-context=lab"],
    )
    serves(node_image, push)
    assert problems(agent) == {}


def test_kubeconfig_of_the_environment(
    start_agent, runtime, control_plane, folder, node_image, push
):
    """$KUBECONFIG alone is enough."""
    path = control_plane.write_agent_kubeconfig(folder / "agent.conf")
    agent = start_agent(
        runtime.endpoint, node_name=node_image.name, environment={"KUBECONFIG": str(path)}
    )
    serves(node_image, push)
    assert problems(agent) == {}


def test_token_file_rotates(start, control_plane, folder, node_image, push):
    """The agent uses a new token without a restart and without a message."""
    file = folder / "token"

    def rotate() -> None:
        write_whole(file, control_plane.agent_token())

    rotate()
    agent = start(control_plane.write_kubeconfig(folder / "agent.conf", token_file=file))
    serves(node_image, push)
    rotate()
    serves(node_image, push, tag="2")
    # The server logs a request after it has carried it out.
    wait_until(
        lambda: len(tokens_of_writes(control_plane, node_image.name)) >= 2,
        10 * SLOWLY,
        "writes with the new token",
    )
    assert len(tokens_of_writes(control_plane, node_image.name)) == 2
    assert complaints(agent) == []


def tokens_of_writes(control_plane, name: str) -> set[str]:
    """The IDs of the tokens in the agent's writes, as the server logs them."""
    return {
        entry["user"]["extra"]["authentication.kubernetes.io/credential-id"][0]
        for entry in control_plane.audit(verb="patch")
        if entry["objectRef"].get("name") == name
    }


def test_token_is_wrong_at_first(start, control_plane, folder, node_image, push):
    file = folder / "token"
    write_whole(file, "no-such-token")
    agent = start(control_plane.write_kubeconfig(folder / "agent.conf", token_file=file))
    wait_problem(agent, "unauthorized")
    assert_clear(the_complaint(agent, timeout=15))
    write_whole(file, control_plane.agent_token())
    serves(node_image, push)
    wait_until(lambda: problems(agent) == {}, 10 * SLOWLY, lambda: f"end of {problems(agent)}")
    assert "no-such-token" not in agent.log_text()


def test_program_makes_tokens(start, control_plane, folder, node_image, push):
    """The agent runs the program again when its token has expired, and no more often."""
    answer, runs = folder / "answer.json", folder / "runs"
    program = folder / "program"
    program.write_text(f"#!/bin/sh\necho run >>{runs}\ncat {answer}\n")
    program.chmod(0o700)

    def prepare(seconds: float) -> datetime:
        token = control_plane.agent_token()
        end = datetime.now(timezone.utc) + timedelta(seconds=seconds)
        status = {"token": token, "expirationTimestamp": f"{end:%Y-%m-%dT%H:%M:%SZ}"}
        kind = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
        write_whole(answer, {**kind, "status": status})
        return end

    def n_runs() -> int:
        return len(runs.read_text().split())

    life = stretch(4)
    end = prepare(life)
    start(control_plane.write_kubeconfig(folder / "agent.conf", command=[program]))
    serves(node_image, push)
    prepare(3600)
    before = n_runs()  # once, unless all that took longer than that token lasted
    wait_until(lambda: datetime.now(timezone.utc) > end, life + 1, "end of the first token")
    serves(node_image, push, tag="2")
    serves(node_image, push, tag="3")
    assert 2 <= n_runs() <= before + 1


def test_another_authority(start, control_plane, folder):
    """The agent does not send its token to a server with another authority's certificate."""
    (folder / "strange").mkdir()
    authority = make_certificates(folder / "strange").authority
    path = write_kubeconfig(folder / "agent.conf", control_plane.url, authority, token="secret")
    agent = start(path)
    wait_problem(agent, "certificate", "trusted")
    assert_clear(the_complaint(agent))
    assert "certificate" in agent.ctl("doctor").stdout
    assert "secret" not in agent.log_text()


def test_no_rights(start, control_plane, folder, kube, node_image):
    """For an account without rights, the agent logs each missing right in a line of its own."""
    kube.apply(
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "no-rights", "namespace": "inplaced"},
        }
    )
    token = control_plane.service_account_token("inplaced", "no-rights")
    agent = start(control_plane.write_kubeconfig(folder / "agent.conf", token=token))
    wait_problem(agent, "nodeimages", "forbidden")
    for resource in ("nodeimages", "pods", "containerrecreaterequests"):
        assert "forbidden" in the_complaint(agent, f"GET {resource}:", timeout=15)


@pytest.mark.parametrize("mode", ["cluster", "auto"])
def test_as_pod(make_agent, runtime, control_plane, folder, node_name, node_image, push, mode):
    """With the variables and files that Kubernetes gives to every pod."""
    given = folder / "given"
    given.mkdir()
    (given / "token").write_text(control_plane.agent_token())
    (given / "ca.crt").write_bytes(control_plane.authority.certificate.read_bytes())
    agent = make_agent(
        runtime.endpoint,
        node_name=node_name,
        flags=[f"--mode={mode}"],
        environment={
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(control_plane.port),
        },
    )
    agent.argv = ["unshare", "-m", "sh", "-c", _AS_POD, "sh", str(given), *agent.argv]
    agent.start()
    serves(node_image, push)
    assert problems(agent) == {}


@pytest.mark.parametrize(
    ("variables", "is_asked"),
    [
        ({"HTTPS_PROXY": "proxy", "NO_PROXY": "*.inplaced.test:1,.api.inplaced.test"}, True),
        ({"https_proxy": "proxy", "no_proxy": "10.0.0.0/8"}, True),
        ({"HTTPS_PROXY": "proxy", "NO_PROXY": "*.inplaced.test"}, False),
        ({"HTTPS_PROXY": "proxy", "NO_PROXY": "api.inplaced.test:6443"}, False),
        ({"ALL_PROXY": "proxy", "HTTP_PROXY": "proxy"}, False),
    ],
)
def test_proxy_of_the_environment(
    start_agent, runtime, control_plane, folder, node_name, node_image, push, variables, is_asked
):
    """Only the proxy resolves the server's name: the variables mean what they mean to kubectl."""
    path = control_plane.write_kubeconfig(
        folder / "agent.conf",
        "https://api.inplaced.test:6443",
        token=control_plane.agent_token(),
        tls_server_name="localhost",
    )
    with ConnectProxy(("127.0.0.1", control_plane.port)) as proxy:
        agent = start_agent(
            runtime.endpoint,
            kubeconfig=path,
            node_name=node_name,
            environment={
                name: proxy.url if value == "proxy" else value for name, value in variables.items()
            },
        )
        if is_asked:
            serves(node_image, push)
            assert set(proxy.asked) == {"api.inplaced.test:6443"}
        else:
            wait_problem(agent, "cannot be resolved")
            assert proxy.asked == []
        agent.terminate()


@pytest.mark.parametrize(
    ("scheme", "is_configured"), [("socks5", False), ("SOCKS5", True), ("socks5h", True)]
)
def test_socks_proxy(
    start_agent, runtime, control_plane, folder, node_name, node_image, push, scheme, is_configured
):
    """The proxy resolves the server's name, with either scheme: it may be one that only the proxy's network knows."""
    with SocksProxy(("127.0.0.1", control_plane.port)) as proxy:
        url = proxy.url.replace("socks5", scheme)
        path = control_plane.write_kubeconfig(
            folder / "agent.conf",
            "https://api.inplaced.test:6443",
            token=control_plane.agent_token(),
            tls_server_name="localhost",
            **({"proxy_url": url} if is_configured else {}),
        )
        agent = start_agent(
            runtime.endpoint,
            kubeconfig=path,
            node_name=node_name,
            environment={} if is_configured else {"HTTPS_PROXY": url},
        )
        serves(node_image, push)
        assert set(proxy.asked) == {"api.inplaced.test:6443"}
        agent.terminate()

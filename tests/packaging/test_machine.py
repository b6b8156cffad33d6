# SPDX-License-Identifier: Apache-2.0
"""The package on a machine that systemd has booted: from its installation until it is purged.

The tests share one machine of each release of Debian and run in this order. It has containerd and two registries as
services, the second one with a password, and no network but loopback.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest

from conftest import VERSION_OF_UPGRADE, list_files
from lab.certificates import make_certificates
from lab.machine import Machine
from lab.registry import Registry, password_line
from lab.version import VERSION
from lab.wait import wait_until

pytestmark = pytest.mark.timeout(300)

OPEN, CLOSED = "127.0.0.1:5000", "127.0.0.1:5001"
USER, PASSWORD = "lab-user", "lab-password"
HIDDEN = "/root", "/home"
AGENT, SOCKET = "inplaced.service", "inplaced.socket"
PIN = "inplaced.io/pinned=true"
CONFIG = "/etc/inplaced/config.yaml"
CONTAINERD = {"12": "1.6", "13": "1.7"}  # by the release of Debian
PULLED = "MESSAGE_ID=6f0c1f4f2b6b4e0f9c1d3a50c8a6e101"

REGISTRY = """version: 0.1
log: {level: warn, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: /srv/registry}, maintenance: {uploadpurging: {enabled: false}}}
http: {addr: "ADDRESS"}
"""

REGISTRY_UNIT = """[Service]
ExecStart=/usr/bin/docker-registry serve /srv/closed.yml
[Install]
WantedBy=multi-user.target
"""

# The last line shows what the sandbox lets a plugin see.
PLUGIN = """#!/bin/sh
cat >/dev/null
cat <<END
{"kind": "CredentialProviderResponse", "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
 "cacheKeyType": "Registry", "cacheDuration": "0s",
 "auth": {"CLOSED": {"username": "USER", "password": "PASSWORD"}}}
END
! touch /etc/inplaced/plugin-was-here 2>/dev/null
"""

PLUGIN_CONFIG = """apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: lab-plugin
  matchImages: ["CLOSED"]
  defaultCacheDuration: "0s"
  apiVersion: credentialprovider.kubelet.k8s.io/v1
"""

KUBELET_CONF = """apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:6443", insecure-skip-tls-verify: true}}]
users:
- name: u
  user:
    client-certificate: /var/lib/kubelet/pki/current.pem
    client-key: /var/lib/kubelet/pki/current.pem
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""

DOCUMENT = """apiVersion: apps.kruise.io/v1alpha1
kind: NodeImage
spec:
  images:
    %s:
      tags:
      - tag: "%s"
        imagePullPolicy: %s
        version: %d
"""


def fill(text):
    for name in ("CLOSED", "USER", "PASSWORD"):
        text = text.replace(name, globals()[name])
    return text


@pytest.fixture(scope="module")
def images(session_folder):
    """name → image ID of what both registries have."""
    with Registry(session_folder / "filler") as registry:
        names = ["doc", "call", "plugin", "file", "credential", "later", "upgrade"]
        pushed = {name: registry.push_image(f"t/{name}", "1", [1000], seed=i) for i, name in enumerate(names)}
        registry.stop()
        shutil.copytree(session_folder / "filler/data", session_folder / "images")
    return {name: image.image_id for name, image in pushed.items()}


class Node:
    """The machine, with the commands that tests run on it."""

    def __init__(self, machine, images):
        self.machine, self.images = machine, images
        self.run, self.show = machine.run, machine.show

    def write(self, path, text, mode=0o644):
        target = self.machine.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(mode)

    def read(self, path):
        return (self.machine.root / path.lstrip("/")).read_text()

    def pid(self):
        return int(self.show(AGENT, "MainPID"))

    def wait_active(self, other_than=0):
        """The agent is ready, as another process than that one; its ID."""

        def is_active():
            is_new = self.pid() not in (0, other_than)
            return is_new and self.show(AGENT, "ActiveState") == "active"

        wait_until(is_active, 60, lambda: f"active agent: {self.run('systemctl', 'status', AGENT, check=False)}", 0.1)
        return self.pid()

    def wait_process(self, command):
        """Waits for the program that the service runs before the agent."""

        def runs():
            pid = self.show(AGENT, "ControlPID")
            shown = self.run("cat", f"/proc/{pid}/cmdline", check=False).replace("\0", " ").strip()
            return shown == command

        wait_until(runs, 60, lambda: f"{command!r}: {self.run('systemctl', 'status', AGENT, check=False)}", 0.1)

    def wait_text(self, pattern):
        """The text of `systemctl status`."""
        said = []

        def matches():
            said[:] = [self.show(AGENT, "StatusText")]
            return re.search(pattern, said[0])

        wait_until(matches, 60, lambda: f"{pattern!r} in the status {said}", 0.1)

    def desire(self, name, policy="IfNotPresent", version=1):
        self.write(f"/etc/inplaced/images.d/{name}.yaml", DOCUMENT % (f"{OPEN}/t/{name}", 1, policy, version))

    def held(self):
        return self.run("ctr", "--namespace", "k8s.io", "images", "ls")

    def wait_held(self, reference):
        wait_until(lambda: reference in self.held(), 60, lambda: f"{reference}: {self.log()}", 0.1)

    def pull(self, reference):
        said = self.run("inplacectl", "pull", "--quiet", reference, check=False)
        assert self.images[reference.rsplit("/", 1)[1].split(":")[0]] in said, said + self.log()

    def log(self):
        return self.run("journalctl", "--no-pager", "--unit", AGENT, "--lines", "40")

    def configure(self, text):
        """The package's own configuration, and this."""
        self.write(CONFIG, self.default_config + text)
        self.run("systemctl", "restart", AGENT)
        self.wait_active()

    def drop_in(self, text):
        self.write(f"/etc/systemd/system/{AGENT}.d/test.conf", text)
        self.run("systemctl", "daemon-reload")
        self.run("systemctl", "restart", AGENT)
        return self.wait_active()

    def remove_drop_in(self):
        shutil.rmtree(self.machine.root / f"etc/systemd/system/{AGENT}.d")
        self.run("systemctl", "daemon-reload")


@pytest.fixture(scope="module", params=CONTAINERD)
def node(request, session_folder, machine_archive, package, newer_package, images):
    """Booted, with the package at hand, which is not installed."""
    release = request.param
    machine = Machine(session_folder / f"machine-{release}", machine_archive(release))
    node = Node(machine, images)
    node.containerd = CONTAINERD[release]
    shutil.copytree(session_folder / "images", machine.root / "srv/registry")
    node.write("/etc/docker/registry/config.yml", REGISTRY.replace("ADDRESS", OPEN))
    node.write("/srv/closed.yml", REGISTRY.replace("ADDRESS", CLOSED)
               + "auth: {htpasswd: {realm: lab, path: /srv/htpasswd}}\n")
    node.write("/srv/htpasswd", password_line(USER, PASSWORD))
    node.write("/etc/systemd/system/closed-registry.service", REGISTRY_UNIT)
    wants = machine.root / "etc/systemd/system/multi-user.target.wants"
    (wants / "closed-registry.service").symlink_to("/etc/systemd/system/closed-registry.service")
    node.package, node.newer_package = package, f"/srv/{newer_package.name}"
    for made in (package, newer_package):
        shutil.copy(made, machine.root / "srv")
    subprocess.run(["chmod", "-R", "a+rX", machine.root / "srv"], check=True)
    machine.boot(120)
    node.files_before = list_files(machine)
    yield node


def test_install(node):
    """`apt install ./inplaced_*.deb` is all that it takes: it runs, without a question."""
    node.run("sh", "-c", f"cd /srv && apt install --yes ./{node.package.name}")
    node.default_config = node.read(CONFIG)
    node.wait_active()
    assert node.show(SOCKET, "ActiveState") == "active"
    for unit in (AGENT, SOCKET):
        assert node.run("systemctl", "is-enabled", unit).strip() == "enabled"
    runtime = rf"containerd {re.escape(node.containerd)}\.\S+ at \S+ is ready"
    node.wait_text(rf"^0 images desired, 0 being pulled, 0 waiting; {runtime}$")
    assert "No problem was found." in node.run("inplacectl", "doctor")
    assert "GB free" in node.run("inplacectl", "doctor")
    assert node.run("inplaced", "--version") == f"inplaced {VERSION}\n"


def test_order_at_boot(node):
    """It is started after what it uses: the runtime, the network, and the service that knows groups."""
    wanted = {"containerd.service", "network-online.target", "nss-lookup.target", "nss-user-lookup.target"}
    assert wanted <= set(node.show(AGENT, "After").split())


def test_sandbox(node):
    """It is no root process, has one capability, and exposes what the unit says that it does."""
    said = node.run("systemd-analyze", "security", "--no-pager", AGENT)
    exposure = float(re.search(r"Overall exposure level for inplaced.service: ([0-9.]+)", said).group(1))
    print(f"exposure {exposure}")
    assert exposure <= 1.5
    status = dict(line.split(":\t", 1) for line in node.run("cat", f"/proc/{node.pid()}/status").splitlines())
    assert status["Uid"].split()[0] == node.run("id", "--user", "inplaced").strip() != "0"
    assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 1 << 2  # CAP_DAC_READ_SEARCH
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    assert node.run("stat", "--format=%U:%G %a", "/run/inplaced/inplaced.sock").split()[1] == "660"
    assert node.run("stat", "--format=%G", "/run/inplaced/inplaced.sock").strip() == "inplaced"
    assert node.run("stat", "--format=%U:%G %a", "/etc/inplaced/auth.d").strip() == "root:root 700"


def test_preload(node):
    """A document in the folder becomes an image in the runtime, and lines that machines can search."""
    node.desire("doc")
    reference = f"{OPEN}/t/doc:1"
    node.wait_held(reference)
    node.wait_text(r"^1 images desired, 0 being pulled, 0 waiting; ")
    entry = node.machine.journal(PULLED, f"IMAGE={reference}")[0]
    assert node.images["doc"] in entry["IMAGE_ID"]
    assert entry["_SYSTEMD_UNIT"] == AGENT and entry["SYSLOG_IDENTIFIER"] == "inplaced"
    assert float(entry["DURATION_SEC"]) >= 0 and entry["PRIORITY"] == "6"
    explained = node.run("journalctl", "--catalog", PULLED)
    assert f"The image {reference} is on this node" in explained
    assert "Containers of this image start without a pull." in explained
    status = json.loads(node.read("/var/lib/inplaced/nodeimage.json"))
    assert "Succeeded" in json.dumps(status)


def test_socket_activation(node):
    """A call starts the agent, and is answered; members of the group may call, others may not."""
    node.run("useradd", "--groups", "inplaced", "member")
    node.run("useradd", "stranger")
    node.run("systemctl", "stop", AGENT)
    assert node.show(AGENT, "ActiveState") == "inactive" and node.show(SOCKET, "ActiveState") == "active"
    reference = f"{OPEN}/t/call:1"
    said = node.run("setpriv", "--reuid=member", "--regid=member", "--init-groups", "inplacectl", "pull",
                    "--quiet", reference)
    assert node.images["call"] in said
    node.wait_active()
    callers = [entry for entry in node.machine.journal(f"_SYSTEMD_UNIT={AGENT}") if "CALLER_USER" in entry]
    assert callers[-1]["CALLER_USER"] == "member"
    assert callers[-1]["CALLER_UID"] == node.run("id", "--user", "member").strip()
    said = node.run("setpriv", "--reuid=stranger", "--regid=stranger", "--clear-groups", "inplacectl", "status",
                    check=False)
    assert "ermission denied" in said


def test_reload(node):
    """The process takes up the new configuration without a restart, and refuses a wrong one."""
    pid = node.pid()
    node.write(CONFIG, node.default_config + "logLevel: debug\n")
    node.run("systemctl", "reload", AGENT)
    wait_until(lambda: "Reloaded the configuration." in node.log(), 30, node.log, 0.1)
    node.write(CONFIG, node.default_config + "logLevel: loud\n")
    assert "failed" in node.run("systemctl", "reload", AGENT, check=False)
    wait_until(lambda: "Cannot reload the configuration" in node.log(), 30, node.log, 0.1)
    assert node.show(AGENT, "ActiveState") == "active"
    node.write(CONFIG, node.default_config)
    node.write("/etc/inplaced/images.d/bad.yaml", "a: [")
    node.run("systemctl", "reload", AGENT)
    node.run("rm", "/etc/inplaced/images.d/bad.yaml")
    assert node.pid() == pid and node.show(AGENT, "ActiveState") == "active"


def test_watchdog(node):
    """An agent that does not run any more is replaced."""
    pid = node.drop_in("[Service]\nWatchdogSec=5\n")
    node.run("systemctl", "kill", "--signal=STOP", AGENT)
    assert node.wait_active(other_than=pid) != pid
    assert "Watchdog timeout (limit 5s)!" in node.machine.console()
    node.wait_text("is ready$")
    node.remove_drop_in()


def test_kill(node):
    """It comes back by itself, and nothing is pulled again."""
    pid, n_pulled = node.pid(), len(node.machine.journal(PULLED))
    node.run("systemctl", "kill", "--signal=KILL", AGENT)
    assert node.wait_active(other_than=pid) != pid
    node.wait_text(r"^2 images desired, 0 being pulled, 0 waiting; .* is ready$")
    assert len(node.machine.journal(PULLED)) == n_pulled


def test_delay_of_restarts(node):
    """It grows from the fourth time on; a start by a person waits for nothing, and begins anew."""
    pid = node.drop_in("[Service]\nRestartSec=100ms\n")
    for n_restarts in range(1, 6):
        node.run("systemctl", "kill", "--signal=KILL", AGENT)
        if n_restarts > 3:
            node.wait_process(f"sleep {[2, 6][n_restarts - 4]}")
        pid = node.wait_active(other_than=pid)
        assert node.show(AGENT, "NRestarts") == str(n_restarts)
    node.run("systemctl", "kill", "--signal=KILL", AGENT)
    node.wait_process("sleep 14")
    node.run("systemctl", "restart", AGENT)
    node.wait_active(other_than=pid)
    assert node.show(AGENT, "NRestarts") == "0"
    node.remove_drop_in()


def test_restart_of_containerd(node):
    """The agent outlives the runtime, starts without it, and never takes it down."""
    pid = node.pid()
    node.run("systemctl", "stop", "containerd")
    node.wait_text("no runtime at|lost|refused|away|no container runtime|gone")
    assert node.pid() == pid
    node.run("systemctl", "restart", AGENT)
    pid = node.wait_active()
    node.desire("later")
    node.run("systemctl", "start", "containerd")
    node.wait_held(f"{OPEN}/t/later:1")
    assert node.pid() == pid
    began = node.show("containerd", "ActiveEnterTimestampMonotonic")
    node.run("systemctl", "restart", AGENT)
    node.wait_active()
    assert node.show("containerd", "ActiveEnterTimestampMonotonic") == began


def try_once(node, reference: str) -> str:
    return node.run("inplacectl", "pull", "--attempts=1", reference, check=False)


def test_credential_plugin(node):
    """The plugin runs within the sandbox, and its answer opens the registry."""
    assert "Unauthorized" in try_once(node, f"{CLOSED}/t/plugin:1")
    node.write("/usr/local/lib/lab-plugins/lab-plugin", fill(PLUGIN), 0o755)
    node.write("/etc/lab-plugins.yaml", fill(PLUGIN_CONFIG))
    node.configure("imageCredentialProviderConfig: /etc/lab-plugins.yaml\n"
                   "imageCredentialProviderBinDir: /usr/local/lib/lab-plugins\n")
    node.pull(f"{CLOSED}/t/plugin:1")
    assert not (node.machine.root / "etc/inplaced/plugin-was-here").exists()


def test_credential_file(node):
    """A file that only root may read is enough: mode 0600 in a folder of mode 0700."""
    node.configure("")
    assert "Unauthorized" in try_once(node, f"{CLOSED}/t/file:1")
    text = json.dumps({"auths": {CLOSED: {"username": USER, "password": PASSWORD}}})
    node.write("/etc/inplaced/auth.d/lab.json", text, 0o600)
    node.pull(f"{CLOSED}/t/file:1")
    assert "No problem was found." in node.run("inplacectl", "doctor")
    (node.machine.root / "etc/inplaced/auth.d/lab.json").rename(node.machine.root / "srv/lab.json")


def test_load_credential(node):
    """systemd hands a file over that is kept elsewhere."""
    assert "Unauthorized" in try_once(node, f"{CLOSED}/t/credential:1")
    node.configure("authDir: /run/credentials/inplaced.service\n")
    node.drop_in("[Service]\nLoadCredential=auth.json:/srv/lab.json\n")
    node.pull(f"{CLOSED}/t/credential:1")
    node.remove_drop_in()
    node.configure("")


def test_what_the_sandbox_hides(node):
    """doctor names files that are there and that the agent may not see."""
    credentials, images = (f"{folder}/inplaced.d" for folder in HIDDEN)
    node.write(f"{credentials}/lab.json", "{}", 0o600)
    node.write(f"{images}/x.yaml", "{}")
    node.configure(f"authDir: {credentials}\nimagesDir: {images}\n")
    said = node.run("inplacectl", "doctor", check=False)
    for hidden, folder in zip(HIDDEN, (credentials, images), strict=True):
        assert re.search(rf"problem: {folder}: {hidden} has mode 0000, .*SYSTEMD UNITS", said), said
    node.configure("")
    for folder in (credentials, images):
        shutil.rmtree(node.machine.root / folder.lstrip("/"))
    assert "No problem was found." in node.run("inplacectl", "doctor")


def test_identity_of_the_kubelet(node, session_folder):
    """The agent may use kubeconfig and client certificate of the kubelet, which only root may read."""
    made = make_certificates(session_folder)
    node.write("/var/lib/kubelet/pki/first.pem", made.certificate.read_text() + made.key.read_text(), 0o600)
    (node.machine.root / "var/lib/kubelet").chmod(0o700)
    (node.machine.root / "var/lib/kubelet/pki/current.pem").symlink_to("/var/lib/kubelet/pki/first.pem")
    node.write("/etc/kubernetes/kubelet.conf", KUBELET_CONF, 0o600)
    node.configure("kubeconfig: /etc/kubernetes/kubelet.conf\n")
    wait_until(lambda: "127.0.0.1:6443" in node.run("inplacectl", "doctor", check=False), 60, node.log, 0.1)
    said = node.run("inplacectl", "doctor", check=False)
    assert "127.0.0.1:6443: Connection refused" in said
    assert "denied" not in said
    node.configure("")
    shutil.rmtree(node.machine.root / "var/lib/kubelet")
    shutil.rmtree(node.machine.root / "etc/kubernetes")


def test_wrong_configuration(node):
    """It says so and is not started again until the file is corrected, also not by callers."""
    node.write(CONFIG, node.default_config + "maxParallelPulls: many\n")
    node.run("systemctl", "restart", AGENT, check=False)
    assert node.show(AGENT, "ExecMainStatus") == "2"
    assert 'maxParallelPulls: "many" is not a number from 1 to 1000' in node.log()
    assert "inplaced" in node.run("inplacectl", "status", check=False)
    assert node.show(SOCKET, "Result") == "trigger-limit-hit" and node.pid() == 0
    node.configure("")
    assert node.show(SOCKET, "ActiveState") == "active"
    assert "No problem was found." in node.run("inplacectl", "doctor")


def test_upgrade(node):
    """The newer program takes over; a pull that is under way ends well, and the configuration stays."""
    changed = node.default_config + "maxParallelPulls: 3\n"
    node.configure("maxParallelPulls: 3\n")
    pid = node.pid()
    reference = f"{OPEN}/t/upgrade:1"
    node.run("systemctl", "kill", "--signal=STOP", "docker-registry")
    node.desire("upgrade")
    node.wait_text(" 1 being pulled")
    node.run("apt-get", "install", "--yes", node.newer_package)
    assert node.wait_active(other_than=pid) != pid
    assert VERSION_OF_UPGRADE in node.run("dpkg-query", "--show", "inplaced")
    node.wait_text(" 1 being pulled")
    node.run("systemctl", "kill", "--signal=CONT", "docker-registry")
    node.wait_held(reference)
    node.wait_text(" 0 being pulled, 0 waiting; ")
    assert node.images["upgrade"] in node.machine.journal(PULLED, f"IMAGE={reference}")[0]["IMAGE_ID"]
    assert node.read(CONFIG) == changed
    assert not list((node.machine.root / "etc/inplaced").glob("*.dpkg-*"))


def test_disabled_stays_disabled(node):
    """An upgrade does not start a service that an administrator has switched off."""
    node.run("systemctl", "disable", "--now", SOCKET, AGENT)
    node.run("apt-get", "install", "--yes", "--reinstall", node.newer_package)
    for unit in (AGENT, SOCKET):
        assert node.run("systemctl", "is-enabled", unit, check=False).strip() == "disabled"
        assert node.show(unit, "ActiveState") == "inactive"
    node.run("systemctl", "enable", "--now", SOCKET, AGENT)
    node.wait_active()


def test_remove(node):
    """The service ends, and its pins; configuration, credentials and status stay, and a new installation has them."""
    node.run("inplacectl", "pin", f"{OPEN}/t/doc:1")
    wait_until(lambda: PIN in node.held(), 60, lambda: f"pin: {node.log()}", 0.1)
    node.run("apt-get", "remove", "--yes", "inplaced")
    assert PIN not in node.held()
    assert node.show(AGENT, "LoadState") == "not-found" and node.pid() == 0
    assert not (node.machine.root / "usr/bin/inplaced").exists()
    assert "maxParallelPulls: 3" in node.read(CONFIG)
    node.read("/var/lib/inplaced/nodeimage.json")
    node.run("apt-get", "install", "--yes", node.newer_package)
    node.wait_active()
    node.wait_text(r"^[1-9]\d* images desired, 0 being pulled, 0 waiting; ")
    assert "maxParallelPulls: 3" in node.read(CONFIG)
    wait_until(lambda: PIN in node.held(), 60, lambda: f"pin: {node.log()}", 0.1)


def test_purge_beside_another_agent(node):
    """The agent of a DaemonSet has the folder of the state mounted, and locks a file there: its state and pins stay. A
    new installation leaves the folder to it as well.
    """
    state = "/var/lib/inplaced"
    assert PIN in node.held()
    node.run("systemctl", "stop", SOCKET, AGENT)
    lock = f"{state}/lock"
    node.run("systemd-run", "--unit=another-agent", "flock", lock, "sleep", "infinity")
    wait_until(lambda: node.run("sh", "-c", f"flock -n {lock} true || echo held", check=False) == "held\n", 20, "lock")
    said = node.run("apt-get", "purge", "--yes", "inplaced")
    node.read(f"{state}/nodeimage.json")
    assert f"{state} stays: " in said and PIN in node.held()
    assert not (node.machine.root / "etc/inplaced").exists()
    node.run("chown", "--recursive", "65532", state)
    said = node.run("apt-get", "install", "--yes", node.newer_package)
    assert f"{AGENT} is not started: another agent uses {state}" in said
    assert node.run("stat", "--format=%u", state, lock) == "65532\n65532\n"
    node.run("systemctl", "stop", "another-agent")
    node.run("systemctl", "start", SOCKET, AGENT)
    node.wait_active()


def test_purge(node):
    """No files are left but those of the tests and the images in the runtime."""
    node.run("userdel", "member", check=False)
    node.run("userdel", "stranger", check=False)
    node.run("apt-get", "purge", "--yes", "inplaced")
    ours = {"/etc/lab-plugins.yaml", "/usr/local/lib/lab-plugins", "/usr/local/lib/lab-plugins/lab-plugin"}
    backups = {path for path in list_files(node.machine) if re.fullmatch(r"/etc/(passwd|group|shadow|gshadow|sub[ug]id)-", path)}
    assert list_files(node.machine) - ours - backups - node.files_before == set()
    assert node.files_before - list_files(node.machine) == set()
    for database in ("passwd", "group"):
        assert "inplaced" not in node.run("getent", database)
    assert "inplaced" not in node.run("find", "/run", "/var/lib/systemd", "/etc/systemd", check=False)
    assert "inplaced" not in node.run("systemctl", "list-units", "--all", "--no-legend")
    assert node.show("containerd", "ActiveState") == "active"
    assert f"{OPEN}/t/doc:1" in node.held() and PIN not in node.held()

# SPDX-License-Identifier: Apache-2.0
"""Proves that the policies of declared updates hold a workload in the write that changes its images, with each client
and in each way to write, and do nothing else; and that they refuse what InPlaceOnly cannot do.

No controller runs: the binding is created by hand, as the controller does it.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from lab.clients import MANIFESTS, run_client
from lab.control_plane import ControlPlane
from lab.kube import Kube, KubeError, Object
from lab.wait import wait_until

POLICY = MANIFESTS / "components" / "updates" / "policy.yaml"
UPDATE, HELD, RECORD = "inplaced.io/update", "inplaced.io/held", "inplaced.io/rollout"
OLD, NEW = "registry.example/app:1", "registry.example/app:2"
PARTITION = 2147483647
KINDS = ("Deployment", "StatefulSet", "DaemonSet")
BINDING = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "MutatingAdmissionPolicyBinding",
    "metadata": {"name": "inplaced-hold"},
    "spec": {"policyName": "inplaced-hold"},
}

_numbers = itertools.count(1)


def make(kind: str, mode: str | None = "InPlaceIfPossible") -> Object:
    """A manifest as users write it, with no more than is needed."""
    name = f"{kind.lower()}-{next(_numbers)}"
    pod: Object = {
        "initContainers": [{"name": "first", "image": OLD}],
        "containers": [{"name": "main", "image": OLD}, {"name": "side", "image": OLD}],
    }
    template = {"metadata": {"labels": {"app": name}}, "spec": pod}
    spec: Object = {"selector": {"matchLabels": {"app": name}}, "template": template}
    if kind == "StatefulSet":
        spec["serviceName"] = name
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default", "annotations": {UPDATE: mode} if mode else {}},
        "spec": spec,
    }


def spell_out(document: Object) -> None:
    """Writes into the manifest what is the default of its kind, as many charts do."""
    if document["kind"] == "Deployment":
        document["spec"]["strategy"] = {"type": "RollingUpdate"}
    else:
        document["spec"]["updateStrategy"] = {"type": "RollingUpdate"}
    if document["kind"] == "StatefulSet":
        document["spec"]["updateStrategy"]["rollingUpdate"] = {"partition": 0}


def template_of(document: Object) -> Object:
    return document["spec"]["template"]


def containers(document: Object) -> list[Object]:
    return template_of(document)["spec"]["containers"]


def set_image(document: Object, image: str = NEW) -> Object:
    containers(document)[0]["image"] = image
    return document


def held(document: Object) -> tuple[bool, str | None]:
    """Whether it is held, and what the annotation keeps."""
    spec = document["spec"]
    strategy = spec.get("updateStrategy", {})
    is_held = {
        "Deployment": spec.get("paused") is True,
        "StatefulSet": strategy.get("rollingUpdate", {}).get("partition") == PARTITION,
        "DaemonSet": strategy.get("type") == "OnDelete",
    }[document["kind"]]
    return is_held, document["metadata"].get("annotations", {}).get(HELD)


FORMER = {"Deployment": "paused", "StatefulSet": "0", "DaemonSet": "RollingUpdate"}


class World:
    """An API server with the policies in force."""

    def __init__(self, control_plane: ControlPlane, folder: Path, older: list[Object]) -> None:
        """`older`: workloads with a wrong value, from before there were policies."""
        self.older = older
        self.admin: Kube = control_plane.admin
        self.kubeconfig = control_plane.admin_kubeconfig
        self.folder = folder

    def path(self, document: Object) -> str:
        return self.admin.path_of(document)

    def get(self, document: Object) -> Object:
        return self.admin.get(self.path(document))

    def run(self, *arguments: str | Path) -> str:
        return run_client(*arguments, kubeconfig=self.kubeconfig)

    def file(self, document: Object) -> Path:
        path = self.folder / "workload.yaml"
        path.write_text(yaml.safe_dump(document))
        return path

    def chart(self, document: Object) -> Path:
        path = self.folder / document["metadata"]["name"]
        (path / "templates").mkdir(parents=True, exist_ok=True)
        about = {"apiVersion": "v2", "name": document["metadata"]["name"], "version": "1.0.0"}
        (path / "Chart.yaml").write_text(yaml.safe_dump(about))
        (path / "templates" / "workload.yaml").write_text(yaml.safe_dump(document))
        return path


@pytest.fixture(scope="module")
def world(control_plane: ControlPlane, session_folder) -> Iterator[World]:
    older = [make(kind, "inplace") for kind in KINDS]
    for document in older:
        control_plane.admin.create(document)
    control_plane.apply_files(POLICY)
    control_plane.admin.create(BINDING)
    folder = session_folder / "hold"
    folder.mkdir()
    made = World(control_plane, folder, older)
    wait_in_force(made)
    yield made
    for document in [BINDING, *yaml.safe_load_all(POLICY.read_text())]:
        control_plane.admin.delete(control_plane.admin.path_of(document))


def wait_in_force(world: World) -> None:
    """The server evaluates a policy a moment after it was created."""
    probe = world.admin.create(make("Deployment"))
    images = itertools.count(1)

    def is_held() -> bool:
        body = set_image(copy.deepcopy(probe), f"registry.example/probe:{next(images)}")
        return held(world.admin.patch(world.path(probe), body_of(body)))[0]

    wait_until(is_held, 30, "the policy that holds", pause=0.05)

    def is_refused() -> bool:
        try:
            world.admin.post(world.admin.path_of(probe, with_name=False), make("Deployment", "x"), dryRun="All")
        except KubeError:
            return True
        return False

    wait_until(is_refused, 30, "the policy that refuses", pause=0.05)


def body_of(document: Object) -> Object:
    return {"spec": {"template": template_of(document)}}


# Ways to write the images


def kubectl_apply(world: World, document: Object) -> None:
    world.run("kubectl", "apply", "-f", world.file(document))


def kubectl_apply_server_side(world: World, document: Object) -> None:
    world.run("kubectl", "apply", "--server-side", "-f", world.file(document))


def kubectl_replace(world: World, document: Object) -> None:
    world.run("kubectl", "replace", "-f", world.file(document))


def kubectl_set_image(world: World, document: Object) -> None:
    name = f"{document['kind'].lower()}/{document['metadata']['name']}"
    pairs = [f"{one['name']}={one['image']}" for one in containers(document)]
    world.run("kubectl", "set", "image", name, *pairs)


def undo(world: World, document: Object) -> None:
    """As `kubectl rollout undo` of a Deployment writes it."""
    template = template_of(world.get(document))
    template["spec"]["containers"][0]["image"] = containers(document)[0]["image"]
    operation = {"op": "replace", "path": "/spec/template", "value": template}
    world.admin.patch(world.path(document), [operation], "json")


def helm_upgrade(program: str) -> Callable[[World, Object], None]:
    def upgrade(world: World, document: Object) -> None:
        world.run(program, "upgrade", "--install", document["metadata"]["name"], world.chart(document))

    return upgrade


Write = Callable[[World, Object], None]

# How the workload is created, and how its images change.
_WAYS: dict[str, tuple[Write, Write]] = {
    "apply": (kubectl_apply, kubectl_apply),
    "server-side": (kubectl_apply_server_side, kubectl_apply_server_side),
    "replace": (kubectl_apply, kubectl_replace),
    "set-image": (kubectl_apply, kubectl_set_image),
    "undo": (kubectl_apply, undo),
    "helm": (helm_upgrade("helm"), helm_upgrade("helm")),
    "helm3": (helm_upgrade("helm3"), helm_upgrade("helm3")),
}


# Each way with each kind, and half of them with the defaults: so are each way and each kind.
_HELD = [(way, kind, (n + m) % 2 == 1) for n, way in enumerate(_WAYS) for m, kind in enumerate(KINDS)]


@pytest.mark.parametrize(("way", "kind", "is_spelled_out"), _HELD)
def test_is_held_in_the_write(world, way, kind, is_spelled_out):
    """Then also when the repository is applied again, before an update begins and after, when it goes back, and with two changes."""
    create, write = _WAYS[way]
    document = make(kind)
    if is_spelled_out:
        spell_out(document)
    create(world, document)
    before = world.get(document)
    assert held(before) == (False, None)
    write(world, set_image(document))
    after = world.get(document)
    assert held(after) == (True, FORMER[kind])
    assert containers(after)[0]["image"] == NEW
    assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1
    write(world, document)
    assert held(world.get(document)) == (True, FORMER[kind])
    # The record that the controller writes then.
    world.admin.patch(world.path(document), {"metadata": {"annotations": {RECORD: "{}"}}})
    for image in (NEW, OLD, NEW):
        write(world, set_image(document, image))
        now = world.get(document)
        assert held(now) == (True, FORMER[kind]), image
        assert now["metadata"]["annotations"][RECORD] == "{}"
        assert containers(now)[0]["image"] == image


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["server-side", "apply"])
def test_applying_again_writes_nothing(world, kind, way):
    """A loop that applies the repository causes no new version of a held workload."""
    create, write = _WAYS[way]
    document = make(kind)
    spell_out(document)
    create(world, document)
    write(world, set_image(document))
    write(world, document)
    before = world.get(document)["metadata"]
    write(world, document)
    after = world.get(document)["metadata"]
    assert after["resourceVersion"] == before["resourceVersion"]


# Changes of which none is an update in place


def add_container(document: Object) -> None:
    containers(document).append({"name": "more", "image": OLD})


def add_init_container(document: Object) -> None:
    template_of(document)["spec"]["initContainers"].append({"name": "more", "image": OLD})


def rename_container(document: Object) -> None:
    containers(document)[0]["name"] = "other"


def set_env(document: Object) -> None:
    containers(document)[0]["env"] = [{"name": "A", "value": "b"}]


def set_both(document: Object) -> None:
    set_image(document)
    set_env(document)


def label_template(document: Object) -> None:
    template_of(document)["metadata"]["labels"]["tier"] = "blue"


def annotate_template(document: Object) -> None:
    """As `kubectl rollout restart` does."""
    about = template_of(document)["metadata"]
    about["annotations"] = {"kubectl.kubernetes.io/restartedAt": "now"}


_CHANGES: dict[str, Callable[[Object], object]] = {
    "env": set_env,
    "image-and-env": set_both,
    "container": add_container,
    "fewer-containers": lambda document: containers(document).pop(),
    "name": rename_container,
    "order": lambda document: containers(document).reverse(),
    "init-container": add_init_container,
    "no-init-containers": lambda document: template_of(document)["spec"].pop("initContainers"),
    "label": label_template,
    "annotation": annotate_template,
    "policy": lambda document: containers(document)[0].update(imagePullPolicy="Always"),
    "pod": lambda document: template_of(document)["spec"].update(terminationGracePeriodSeconds=1),
    "scale": lambda document: document["spec"].update(minReadySeconds=1),
    "metadata": lambda document: document["metadata"].update(labels={"a": "b"}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", _CHANGES)
def test_other_changes_are_ordinary(world, change, kind):
    document = make(kind)
    world.admin.create(document)
    _CHANGES[change](document)
    world.admin.put(world.path(document), document)
    assert held(world.get(document)) == (False, None)


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
def test_another_change_ends_the_hold(world, kind):
    """A manifest with the strategy lets the workload go, in the write that changes more than images."""
    document = make(kind)
    spell_out(document)
    kubectl_apply_server_side(world, document)
    kubectl_apply_server_side(world, set_image(document))
    assert held(world.get(document))[0]
    set_env(document)
    kubectl_apply_server_side(world, document)
    assert not held(world.get(document))[0]


@pytest.mark.parametrize("kind", KINDS)
def test_images_of_init_containers(world, kind):
    document = make(kind)
    kubectl_apply(world, document)
    template_of(document)["spec"]["initContainers"][0]["image"] = NEW
    kubectl_apply(world, document)
    assert held(world.get(document)) == (True, FORMER[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_defaults_are_no_change(world, kind):
    """A whole object as a client of Go writes it, with empty fields and without what the server filled in."""
    document = make(kind)
    world.admin.create(document)
    set_image(document)
    template_of(document)["metadata"]["creationTimestamp"] = None
    document["metadata"]["creationTimestamp"] = None
    document["status"] = {}
    containers(document)[1].update(imagePullPolicy="IfNotPresent", resources={})
    template_of(document)["spec"].update(restartPolicy="Always", dnsPolicy="ClusterFirst")
    world.admin.put(world.path(document), document)
    assert held(world.get(document)) == (True, FORMER[kind])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", [None, "Other"])
def test_undeclared_workloads(world, kind, mode):
    document = make(kind, None)
    world.admin.create(document)
    if mode:
        document["metadata"]["annotations"] = {"inplaced.io/updates": mode}
    world.admin.put(world.path(document), set_image(document))
    assert held(world.get(document)) == (False, None)


@pytest.mark.parametrize("kind", KINDS)
def test_declared_in_the_same_write(world, kind):
    document = make(kind, None)
    world.admin.create(document)
    document["metadata"]["annotations"] = {UPDATE: "InPlaceOnly"}
    world.admin.put(world.path(document), set_image(document))
    assert held(world.get(document)) == (True, FORMER[kind])


def hold_by_hand(document: Object) -> None:
    spec = document["spec"]
    if document["kind"] == "Deployment":
        spec["paused"] = True
    elif document["kind"] == "StatefulSet":
        spec["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"partition": PARTITION}}
    else:
        spec["updateStrategy"] = {"type": "OnDelete"}


@pytest.mark.parametrize("kind", KINDS)
def test_held_by_the_manifest(world, kind):
    """The policy does not touch a workload that its manifest holds: nothing is to be restored."""
    document = make(kind)
    hold_by_hand(document)
    kubectl_apply(world, document)
    kubectl_apply(world, set_image(document))
    assert held(world.get(document)) == (True, None)


def test_on_delete(world):
    """Nothing replaces the pods of such a StatefulSet."""
    document = make("StatefulSet")
    document["spec"]["updateStrategy"] = {"type": "OnDelete"}
    kubectl_apply(world, document)
    kubectl_apply(world, set_image(document))
    assert held(world.get(document)) == (False, None)


def test_a_type_alone(world):
    """The server fills in no rollingUpdate beside the type of a StatefulSet."""
    document = make("StatefulSet")
    world.admin.create(document)
    document["spec"]["updateStrategy"] = {"type": "RollingUpdate"}
    world.admin.put(world.path(document), set_image(document))
    assert held(world.get(document)) == (True, "0")
    document["metadata"]["annotations"][HELD] = "0"
    world.admin.put(world.path(document), set_image(document, OLD))
    assert held(world.get(document)) == (True, "0")


def test_the_rest_of_the_strategy(world):
    """The partition and the limits of a StatefulSet and a DaemonSet are kept for later."""
    document = make("StatefulSet")
    document["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"partition": 3}}
    kubectl_apply(world, document)
    kubectl_apply(world, set_image(document))
    assert held(world.get(document)) == (True, "3")
    # Another partition in the repository is the one to restore.
    document["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = 1
    kubectl_apply(world, document)
    assert held(world.get(document)) == (True, "1")
    document = make("DaemonSet")
    document["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 5}}
    kubectl_apply(world, document)
    kubectl_apply(world, set_image(document))
    strategy = world.get(document)["spec"]["updateStrategy"]
    assert strategy["rollingUpdate"]["maxUnavailable"] == 5


# The ways out


def let_go(document: Object) -> Object:
    spec: Object = {
        "Deployment": {"paused": None},
        "StatefulSet": {"updateStrategy": {"rollingUpdate": {"partition": 0}}},
        "DaemonSet": {"updateStrategy": {"type": "RollingUpdate"}},
    }[document["kind"]]
    return {"metadata": {"annotations": {HELD: None}}, "spec": spec}


@pytest.mark.parametrize("has_record", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_controller_lets_go(world, kind, has_record):
    """By one write if there is a record of the update, which may go after it; otherwise by two."""
    document = make(kind)
    world.admin.create(document)
    world.admin.put(world.path(document), set_image(document))
    assert held(world.get(document))[0]
    if has_record:
        world.admin.patch(world.path(document), {"metadata": {"annotations": {RECORD: "{}"}}})
    first = let_go(document)
    if not has_record:
        first["metadata"]["annotations"][HELD] = ""
    world.admin.patch(world.path(document), first)
    assert held(world.get(document)) == (False, None if has_record else "")
    world.admin.patch(world.path(document), {"metadata": {"annotations": {RECORD: None, HELD: None}}})
    assert held(world.get(document)) == (False, None)


def test_resume(world):
    """A person lets a Deployment go."""
    document = make("Deployment")
    kubectl_apply(world, document)
    kubectl_apply(world, set_image(document))
    world.run("kubectl", "rollout", "resume", f"deployment/{document['metadata']['name']}")
    assert not held(world.get(document))[0]
    # The next change of images is the next update.
    kubectl_apply(world, set_image(document, OLD))
    assert held(world.get(document)) == (True, "paused")


def test_pause_and_restart(world):
    document = make("Deployment")
    name = f"deployment/{document['metadata']['name']}"
    kubectl_apply(world, document)
    world.run("kubectl", "rollout", "restart", name)
    assert held(world.get(document)) == (False, None)
    world.run("kubectl", "rollout", "pause", name)
    kubectl_set_image(world, set_image(document))
    assert held(world.get(document)) == (True, None)


@pytest.mark.parametrize("kind", KINDS)
def test_the_declaration_is_removed(world, kind):
    """The policy does nothing any more: the controller lets go."""
    document = make(kind)
    kubectl_apply(world, document)
    kubectl_apply(world, set_image(document))
    world.admin.patch(world.path(document), {"metadata": {"annotations": {UPDATE: None}}})
    world.admin.patch(world.path(document), {"spec": let_go(document)["spec"]})
    assert not held(world.get(document))[0]


@pytest.mark.parametrize("kind", KINDS)
def test_subresources(world, kind):
    """Scaling and the status are none of the policy's business."""
    document = make(kind)
    world.admin.create(document)
    world.admin.put(world.path(document), set_image(document))
    before = world.get(document)
    if kind != "DaemonSet":
        world.admin.patch(f"{world.path(document)}/scale", {"spec": {"replicas": 3}})
        assert world.get(document)["spec"]["replicas"] == 3
    status = {"status": {"observedGeneration": 1}}
    world.admin.patch(f"{world.path(document)}/status", status)
    after = world.get(document)
    assert held(after) == held(before) == (True, FORMER[kind])


def test_without_the_binding(world):
    """No controller, no hold."""
    binding = world.admin.path_of(BINDING)
    world.admin.delete(binding)
    document = make("Deployment")
    world.admin.create(document)
    images = itertools.count(1)

    def is_free() -> bool:
        world.admin.patch(world.path(document), {"metadata": {"annotations": {HELD: None}}, "spec": {"paused": None}})
        set_image(document, f"registry.example/app:free-{next(images)}")
        world.admin.patch(world.path(document), body_of(document))
        return not held(world.get(document))[0]

    wait_until(is_free, 30, "end of the hold", pause=0.05)
    world.admin.create(BINDING)
    wait_in_force(world)


# InPlaceOnly


def refusal(action: Callable[[], object]) -> str:
    try:
        action()
    except KubeError as error:
        assert error.code == 422
        return error.status["message"]
    return ""


_ONLY_REFUSED = [name for name in _CHANGES if name not in ("scale", "metadata")]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", _ONLY_REFUSED)
def test_in_place_only(world, change, kind):
    document = make(kind, "InPlaceOnly")
    world.admin.create(document)
    _CHANGES[change](document)
    path = world.path(document)
    found = refusal(lambda: world.admin.put(path, document))
    assert "set the annotation to InPlaceIfPossible" in found
    # As the message says, the same write is an ordinary update then.
    document["metadata"]["annotations"][UPDATE] = "InPlaceIfPossible"
    assert refusal(lambda: world.admin.put(path, document)) == ""
    assert held(world.get(document)) == (False, None)


@pytest.mark.parametrize("kind", KINDS)
def test_in_place_only_allows(world, kind):
    document = make(kind, "InPlaceOnly")
    world.admin.create(document)
    path = world.path(document)
    for change in ("scale", "metadata"):
        _CHANGES[change](document)
        assert refusal(lambda: world.admin.put(path, document)) == ""
    assert refusal(lambda: world.admin.put(path, set_image(document))) == ""
    assert held(world.get(document)) == (True, FORMER[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_values(world, kind):
    """A value that is not known is refused when it is written; where it is already, other writes pass."""
    expected = 'the annotation inplaced.io/update is "inplace", which is neither InPlaceIfPossible nor InPlaceOnly'
    document = make(kind, "inplace")
    collection = world.admin.path_of(document, with_name=False)
    assert expected in refusal(lambda: world.admin.post(collection, document))
    document["metadata"]["annotations"] = {}
    world.admin.create(document)
    document["metadata"]["annotations"] = {UPDATE: "inplace"}
    assert expected in refusal(lambda: world.admin.put(world.path(document), document))
    (older,) = [one for one in world.older if one["kind"] == kind]
    assert refusal(lambda: world.admin.patch(world.path(older), {"metadata": {"labels": {"a": "b"}}})) == ""

# SPDX-License-Identifier: Apache-2.0
"""Proves that `kubectl inplace set image` updates workloads in a real cluster without replacing a pod, and that the
workloads are as usable afterwards as before.
"""

from __future__ import annotations

import json
import re
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from rollouts import *  # noqa: F403
from lab import clock
from lab.kube import Object
from lab.kubelet import is_ready
from lab.node_image import NodeImage
from lab.pod import from_labels, until_term
from lab.terminal import screen
from lab.wait import stretch, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.containers, pytest.mark.timeout(300 * SLOWLY)]


@pytest.mark.parametrize("kind", KINDS)
def test_update_and_undo(make, inplace, images, kind):
    """Pods, addresses and the strategy stay; kubectl's own commands work as before."""
    workload = make(kind)
    before, strategy = workload.uids(), workload.strategy()
    addresses = {pod["status"]["podIP"] for pod in workload.pods()}
    assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}", "--dry-run=server"))
    assert workload.record() is None and image_of(workload.pods()[0]) == images[0]

    with none_replaced(workload):
        ran = assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}"))
        assert f"/{workload.app} image updated" in ran.stdout
        workload.assert_runs(images[1])
        again = assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}"))
        assert "already" in again.stdout
        assert_done(inplace.run("rollout", workload.name, "--undo"))
        workload.assert_runs(images[0])
        assert_done(inplace.run("set", "image", workload.name, f"main={images[2]}"))
    workload.assert_runs(images[2])
    assert workload.uids() == before and workload.strategy() == strategy
    assert {pod["status"]["podIP"] for pod in workload.pods()} == addresses


def test_selector_of_expressions(make, inplace, images):
    """The pods that the controller selects are updated, and no others."""
    tier = {"key": "tier", "operator": "In", "values": ["front", "middle"]}
    conditions = [tier, {**tier, "operator": "NotIn", "values": ["middle"]}]
    conditions += [{"key": "app", "operator": "Exists"}, {"key": "canary", "operator": "DoesNotExist"}]
    workload = make("deployment", labels={"tier": "front"}, selector={"matchExpressions": conditions})
    other = make("deployment", 1, labels={"tier": "middle"})
    with none_replaced(workload, other):
        assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}"))
    workload.assert_runs(images[1])
    other.assert_runs(images[0])


@pytest.mark.parametrize("has_gate", [False, True])
def test_beside_a_tag_that_has_moved(cluster, agent, make, inplace, registry, images, has_gate):
    """The update is about its own containers: the node has another image by now under the name of the sidecar's."""
    proxy = registry.push_image(f"t/moving-{has_gate}".lower(), "1", [1101], busybox=True)
    named = [{"name": name, "image": image, "command": until_term(), "env": from_labels(APP="app")}
             for name, image in (("main", images[0]), ("proxy", proxy.reference))]
    cluster.node.runtime.pull(proxy.reference)
    gates = {"readinessGates": [{"conditionType": GATE}]} if has_gate else {}
    workload = make("deployment", 2, pod={"containers": named, **gates})
    moved = registry.push_image(f"t/moving-{has_gate}".lower(), "1", [1102], busybox=True)
    assert proxy.reference == moved.reference and proxy.image_id != moved.image_id
    cluster.node.runtime.pull(moved.reference)
    with none_replaced(workload):
        for image in (images[1], images[0]):
            assert_done(inplace.run("set", "image", workload.name, f"main={image}"))
    reasons = {one["reason"] for pod in workload.pods() for one in pod["status"]["conditions"]
               if one["type"] == "inplaced.io/InPlaceVerified"}
    assert reasons == {"ImageStale"}


def crashing(registry: Any, images: list[str]) -> tuple[str, Object]:
    """Makes an image that works for two seconds, and a pod that runs as well with the others."""
    bad = registry.push_image("t/rollout", "crash", [1000], busybox=True, env={"FAULT": "yes"})
    script = until_term()[-1]
    command = [*until_term()[:-1], f'[ -z "$FAULT" ] || {{ sleep 2; exit 7; }}\n{script}']
    return bad.reference, {"containers": [{"name": "main", "image": images[0], "command": command}]}


@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
def test_min_ready_seconds(make, inplace, registry, images, kind):
    """A pod counts when it has been ready for that long: if it dies before, no other one is updated."""
    bad, pod = crashing(registry, images)
    # The kubelet of a busy machine reports late that the container has ended.
    ready_sec = round(min(stretch(8), 30))
    workload = make(kind, 3, minReadySeconds=ready_sec, pod=pod)
    with none_replaced(workload):
        ran = inplace.run("set", "image", workload.name, f"main={bad}", timeout=180 * SLOWLY)
    assert ran.code == 3, ran.stdout + ran.stderr
    now = sorted(image_of(pod) for pod in workload.pods())
    assert now == sorted([images[0], images[0], bad]), ran.stdout + ran.stderr
    with none_replaced(workload):
        assert_done(inplace.run("rollout", workload.name, "--undo", timeout=180 * SLOWLY))
    workload.assert_runs(images[0])


def test_a_pod_that_waits_for_another_service(make, inplace, registry, folder, images):
    """The pod crashes until the service is there; the next run gives it time, also while the kubelet backs off."""
    shared = folder / "shared"
    shared.mkdir()
    late = registry.push_image("t/rollout", "late", [1000], busybox=True, env={"NEEDS": "service"}).reference
    command = [*until_term()[:-1], f'[ -z "$NEEDS" ] || [ -e /folder/service ] || exit 7\n{until_term()[-1]}']
    mounts = [{"name": "folder", "mountPath": "/folder"}]
    container = {"name": "main", "image": images[0], "command": command, "volumeMounts": mounts}
    volume = {"name": "folder", "hostPath": {"path": str(shared)}}
    ready_sec = round(min(stretch(8), 30))
    workload = make("deployment", minReadySeconds=ready_sec, pod={"containers": [container], "volumes": [volume]})
    with none_replaced(workload):
        ran = inplace.run("set", "image", workload.name, f"main={late}", timeout=120 * SLOWLY)
        assert ran.code == 3 and "ends with exit code 7" in ran.stderr, ran.stderr
        # A run whose first look falls between two back-offs of this hasty kubelet sees a crash, and ends as the one before.
        for _ in range(20):
            with inplace.running("rollout", workload.name) as child:
                lines = iter(child.stdout.readline, "")
                if any("its back-off after several starts" in line for line in lines):
                    (shared / "service").touch()
                _, errors = child.communicate(timeout=120 * SLOWLY)
            if (shared / "service").exists():
                break
            assert child.returncode == 3 and "ends with exit code 7" in errors, errors
        assert child.returncode == 0, errors
        workload.assert_runs(late)


# Stands before runc: refuses to create one such container as long as there is a file `refuses`, which it takes away, and
# creates no further one as long as there is a file `holds`.
_REFUSES_ONCE = """\
#!/bin/sh
for argument; do
    [ "$previous" != --bundle ] || bundle=$argument
    previous=$argument
done
if [ -n "$bundle" ] && grep -q /folder/program "$bundle/config.json"; then
    if rm {folder}/refuses 2>/dev/null; then
        echo "refused once" >&2
        exit 1
    fi
    while [ -e {folder}/holds ]; do sleep 0.05; done
fi
exec /usr/sbin/runc "$@"
"""


@pytest.fixture
def refusing(cluster, folder):
    """The runtime, which refuses the first start of a container of /folder/program once both files are there."""
    wrapper = cluster.node.runtime.folder / "bin" / "runc"
    wrapper.parent.mkdir(exist_ok=True)
    write_program(wrapper, _REFUSES_ONCE.format(folder=folder.path))
    yield folder
    for name in ("refuses", "holds"):
        (folder / name).unlink(missing_ok=True)
    wrapper.unlink()


def write_program(path: Path, text: str) -> None:
    """Whole, since it may be started at any moment."""
    whole = path.with_suffix(".whole")
    whole.write_text(text)
    whole.chmod(0o755)
    whole.rename(path)


def test_a_runtime_that_does_not_start_the_container(make, inplace, refusing, images):
    """The runtime may have died: the kubelet's second attempt counts. A second refusal is the end."""
    shared = refusing / "shared"
    shared.mkdir()
    program = shared / "program"
    container = {
        "name": "main",
        "image": images[0],
        "command": ["/folder/program"],
        "volumeMounts": [{"name": "folder", "mountPath": "/folder"}],
    }
    volume = {"name": "folder", "hostPath": {"path": str(shared)}}

    def is_refused(pod: dict) -> bool:
        waiting = pod["status"]["containerStatuses"][0]["state"].get("waiting", {})
        return waiting.get("reason") == "RunContainerError"

    write_program(program, f"#!/bin/sh\n{until_term()[-1]}\n")
    workload = make("deployment", 1, pod={"containers": [container], "volumes": [volume]})
    with none_replaced(workload):
        # The kubelet reports the refusal while it makes its second attempt, which has to wait until it was seen.
        for name in ("holds", "refuses"):
            (refusing / name).touch()
        with inplace.running("set", "image", workload.name, f"main={images[1]}") as child:
            wait_until(lambda: any(map(is_refused, workload.pods())), 60 * SLOWLY, "a refused start")
            (refusing / "holds").unlink()
            _, errors = child.communicate(timeout=120 * SLOWLY)
        assert child.returncode == 0, errors
        assert not (refusing / "refuses").exists()
        workload.assert_runs(images[1])
        program.unlink()
        ran = inplace.run("set", "image", workload.name, f"main={images[2]}", timeout=120 * SLOWLY)
        assert ran.code == 3 and "/folder/program" in ran.stderr and "no such file" in ran.stderr, ran.stderr


def test_an_image_that_does_not_exist(make, inplace, images):
    """The first pod stops the update, with the reason, and so does the next such image; the others go on serving."""
    workload = make("deployment", 3)
    ran = inplace.run("set", "image", workload.name, f"main={images[3]}", timeout=90 * SLOWLY)
    assert ran.code == 3
    assert images[3] in ran.stderr and "--undo" in ran.stderr
    (failed,) = (pod for pod in workload.pods() if image_of(pod) == images[3])
    assert f'pod "{failed["metadata"]["name"]}"' in ran.stderr
    assert len(workload.ready()) == 2
    (row,) = inplace.run("status", f"pod/{failed['metadata']['name']}").stdout.splitlines()[1:]
    assert row.split()[2] in ("ImagePullBackOff", "ErrImagePull")
    again = inplace.run("set", "image", workload.name, f"main={images[3]}")
    assert again.code == 3 and images[3] in again.stderr
    # The pod that this command has made unready is not taken for one that was so before: no further one is spent.
    again = inplace.run("set", "image", workload.name, f"main={images[3]}-2", timeout=90 * SLOWLY)
    assert again.code == 3 and f"{images[3]}-2" in again.stderr
    assert len(workload.ready()) == 2
    # A pod that is made meanwhile, after a drain say, gets the image that works.
    other = next(pod["metadata"] for pod in workload.ready())
    workload.kube.delete(f"{PODS}/{other['name']}")
    wait_until(lambda: len(workload.ready()) == 2, 60 * SLOWLY, "the pod that comes instead")
    assert {image_of(pod) for pod in workload.ready()} == {images[0]}
    before = workload.uids()
    assert_done(inplace.run("rollout", workload.name, "--undo"))
    workload.assert_runs(images[0])
    assert workload.uids() == before


def test_a_refused_attempt(make, inplace, images):
    """A refused attempt has changed nothing, and --undo, which says what it undoes, does not take an older
    update for it.
    """
    workload = make("deployment")
    update, undo = ("set", "image", workload.name), ("rollout", workload.name, "--undo")
    assert_done(inplace.run(*update, f"main={images[1]}"))
    back = f'by "lab-admin": main from {images[1]} back to {images[0]}'
    for dry_run in ["--dry-run=server"], []:
        refused = inplace.run(*update, f"main={images[2]}", "--partition=1")
        assert refused.code == 1
        assert f"nothing has changed; the pods keep main={images[1]}" in refused.stderr
        with none_replaced(workload):
            ran = inplace.run(*undo, *dry_run)
            assert ran.code == 1 and back in ran.stderr
            assert re.search(r"nothing to undo: the last attempt, at \S+ \(\d+s ago\)", ran.stderr)
        workload.assert_runs(images[1])
        assert_done(inplace.run(*update, f"main={images[1]}"))
    rehearsed = assert_done(inplace.run(*undo, "--dry-run=server")).stdout
    assert back in rehearsed and "image update undone (server dry run)" in rehearsed
    with none_replaced(workload):
        ran = assert_done(inplace.run(*undo))
    assert back in ran.stdout.splitlines()[0]
    assert ran.stdout.endswith(f"/{workload.app} image update undone\n")
    workload.assert_runs(images[0])
    # The template of a ReplicaSet may be another one than its pods'.
    workload = make("replicaset", 1)
    workload.patch(set_template(images[1]))
    refused = inplace.run("set", "image", workload.name, f"main={images[2]}", "--partition=1")
    assert f"nothing has changed; the pods keep main={images[0]}\n" in refused.stderr


def test_documents(make, inplace, images):
    """The only output is one document at the end with -o json and yaml, and the workload with name."""
    workload = make("statefulset")
    command = ["set", "image", workload.name, f"main={images[1]}"]
    change = [{"container": "main", "before": images[0], "after": images[1]}]

    def told(*arguments: str) -> Object:
        ran = assert_done(inplace.run(*arguments, "-o", "yaml"))
        document = yaml.safe_load(ran.stdout)
        assert document["kind"] == "statefulset.apps" and document["name"] == workload.app
        return document

    dry = told(*command, "--dry-run=server")
    assert (dry["outcome"], dry["images"]) == ("checked", change)
    assert [pod["images"] for pod in dry["pods"]] == [{"main": images[0]}] * 2
    done = told(*command)
    assert (done["outcome"], done["images"]) == ("updated", change)
    pods = {pod["name"]: (pod["phase"], pod["images"]) for pod in done["pods"]}
    assert pods == {f"{workload.app}-{n}": ("updated", {"main": images[1]}) for n in range(2)}
    same = told(*command)
    assert (same["outcome"], same["images"]) == ("unchanged", [{**change[0], "before": images[1]}])
    ran = assert_done(inplace.run("rollout", workload.name, "--undo", "-o", "name"))
    assert ran.stdout == f"statefulset.apps/{workload.app}\n"

    with inplace.start(*command, "-o", "json") as child:
        wait_until(lambda: rollout_is_open(workload), 30 * SLOWLY, "take-over")
        child.send_signal(signal.SIGINT)
        output, _ = child.communicate(timeout=30 * SLOWLY)
    assert child.returncode == 130
    assert json.loads(output)["outcome"] == "unfinished"
    back = told("rollout", workload.name, "--undo")
    assert (back["outcome"], back["images"][0]["after"]) == ("undone", images[0])
    assert {pod["phase"] for pod in back["pods"]} == {"updated"}


def test_on_a_terminal(make, inplace, images):
    """Draws a table again in place."""
    workload = make("statefulset")
    terminal = inplace.on_terminal("set", "image", workload.name, f"main={images[1]}", columns=80)
    try:
        assert terminal.wait_end(120 * SLOWLY) == 0, terminal.text
    finally:
        terminal.child.kill()
    # The reason is there as a whole, before the pod, which the table has as well.
    assert re.search(r"1 of 2 updated; the old container is stopping \(grace period \d+ s, \d+ s left\)", terminal.text)
    assert "\r\x1b[4A\x1b[J" in terminal.text  # typed input has moved the cursor
    heading, *pods, total, end, rest = screen(terminal.text)
    assert heading.split() == ["POD", "NODE", "PHASE", "IMAGE", "SINCE"]
    rows = sorted(line.split()[:4] for line in pods)
    node = workload.cluster.node.name
    short = images[1].rpartition("/")[2]
    assert rows == [[f"{workload.app}-{n}", node, "updated", short] for n in range(2)]
    assert (total, rest) == ("2 of 2 pods updated", "")
    assert end.endswith(f"/{workload.app} image updated")


def test_delay_is_announced(make, inplace, images):
    """The kubelet delays an image that the pod has run before; it has no count of restarts with a new one."""
    workload = make("deployment")
    delayed = re.compile(r"the kubelet may start pod \S+ and 1 more up to 10s later")
    for image in images[1], images[0]:
        ran = assert_done(inplace.run("set", "image", workload.name, f"main={image}"))
        assert "later" not in ran.stderr
    for dry_run in (["--dry-run=server"], []):
        ahead = clock.environment(clock.HOUR)
        ran = assert_done(inplace.run("rollout", workload.name, "--undo", *dry_run, timeout=120 * SLOWLY, **ahead))
        assert delayed.search(ran.stderr), ran.stderr
    workload.assert_runs(images[1])
    ran = assert_done(inplace.run("restart", workload.name))
    assert "later" not in ran.stderr
    ran = assert_done(inplace.run("set", "image", workload.name, f"main={images[0]}", timeout=120 * SLOWLY))
    assert delayed.search(ran.stderr), ran.stderr


@pytest.mark.parametrize("kind", ["deployment", "statefulset", "daemonset"])
def test_a_template_that_is_there(make, inplace, images, kind):
    """A strategy that leaves the pods alone stays as it is."""
    workload = make(kind)
    held = {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}
    workload.patch({"spec": {"paused": True} if kind == "deployment" else held})
    wait_observed(workload)
    before, strategy = workload.uids(), workload.strategy()
    ran = inplace.run("rollout", workload.name)
    assert ran.code == 0 and "already" in ran.stdout
    workload.patch(set_template(images[1]))
    wait_observed(workload)
    assert_done(inplace.run("rollout", workload.name))
    assert [image_of(pod) for pod in workload.ready()] == [images[1]] * workload.n_pods
    assert workload.uids() == before and workload.strategy() == strategy
    refused = inplace.run("rollout", workload.name, "--undo")
    assert refused.code == 1
    assert f"/{workload.app} main={images[0]}" in refused.stderr and "kubectl set image" in refused.stderr
    last = refused.stderr.splitlines()[-1]
    assert "kubectl inplace rollout " in last and f"/{workload.app}" in last
    workload.patch(set_template(images[0]))
    wait_observed(workload)
    assert_done(inplace.run("rollout", workload.name, "--undo"))
    assert [image_of(pod) for pod in workload.ready()] == [images[0]] * workload.n_pods
    assert workload.uids() == before and workload.strategy() == strategy
    workload.patch(set_template(images[1]))
    wait_observed(workload)
    assert_done(inplace.run("rollout", workload.name))
    # A Deployment that is paused goes on without replacing a pod.
    if kind == "deployment":
        workload.patch({"spec": {"paused": False}})
        workload.assert_runs(images[1])
        assert workload.uids() == before


@pytest.mark.parametrize(
    "kind, resource",
    [("deployment", "pods"), ("deployment", "replicasets"), ("statefulset", "statefulsets")],
)
def test_admission_of_other_images(cluster, make, inplace, images, kind, resource):
    """Admission of other images is found before anything has changed."""
    workload = make(kind)
    pod = workload.pods()[0]["metadata"]
    path = {
        "pods": f"{PODS}/{pod['name']}",
        "replicasets": f"/apis/apps/v1/namespaces/default/replicasets/{pod['ownerReferences'][0]['name']}",
        "statefulsets": workload.path,
    }[resource]
    spec = {"containers": [{"name": "main", "image": images[1]}]}
    patch = {"spec": spec if resource == "pods" else {"template": {"spec": spec}}}
    with admission(cluster, resource, images[1], images[2]):
        wait_until(
            lambda: images[2] in json.dumps(workload.kube.patch(path, patch, "strategic", dryRun="All")),
            60 * SLOWLY,
            "the admission policy",
            0.2,
        )
        generation = workload.kube.get(path)["metadata"]["generation"]
        with none_replaced(workload):
            ran = inplace.run("set", "image", workload.name, f"main={images[1]}", "--timeout=20s")
        assert ran.code == 1, ran.stdout + ran.stderr
        assert f'admission makes "{images[2]}" of the image "{images[1]}"' in ran.stderr
        assert workload.record() is None
        assert workload.kube.get(path)["metadata"]["generation"] == generation
        assert_done(inplace.run("set", "image", workload.name, f"main={images[2]}"))
    workload.assert_runs(images[2])


@pytest.mark.parametrize(
    ("kind", "field", "value", "hold"),
    [
        ("statefulset", "/rollingUpdate/partition", 0, {"type": "RollingUpdate", "rollingUpdate": {"partition": 9}}),
        ("daemonset", "/type", "RollingUpdate", {"type": "OnDelete"}),
    ],
)
def test_admission_of_another_strategy(cluster, make, inplace, images, kind, field, value, hold):
    """Where admission does not let a workload be held, its controller would replace all pods: it is not begun."""
    workload = make(kind)
    condition, path = f"object.metadata.name == '{workload.app}'", f"/spec/updateStrategy{field}"
    patch, strategy = {"spec": {"updateStrategy": hold}}, workload.get()["spec"]["updateStrategy"]
    asked = lambda: workload.kube.patch(workload.path, patch, "strategic", dryRun="All")  # noqa: E731
    with mutation(cluster, f"{kind}s", condition, path, repr(value)):
        wait_until(lambda: asked()["spec"]["updateStrategy"] == strategy, 60 * SLOWLY, "the admission policy", 0.2)
        with none_replaced(workload):
            ran = inplace.run("set", "image", workload.name, f"main={images[1]}", "--timeout=20s")
        assert ran.code == 1, ran.stdout + ran.stderr
        assert "admission changes the strategy that keeps its controller from replacing pods" in ran.stderr
        assert workload.record() is None
    assert {image_of(pod) for pod in workload.pods()} == {images[0]}


@pytest.mark.parametrize("kind", ["deployment", "statefulset", "daemonset"])
def test_admission_of_new_pods(cluster, make, inplace, images, kind):
    """A registry mirror is put into new pods alone: the update would bypass it, and there would be no way back."""
    with mirror(cluster, images[0]) as mirrored:
        workload = make(kind)
    assert {image_of(one) for one in workload.pods()} == {mirrored}
    for arguments in [], ["--dry-run=server"]:
        with none_replaced(workload):
            ran = inplace.run("set", "image", workload.name, f"main={images[1]}", *arguments)
        assert ran.code == 1, ran.stdout
        assert f'admission makes "{mirrored}" of the image "{images[0]}" for container "main"' in ran.stderr
    assert workload.record() is None
    assert {image_of(one) for one in workload.pods()} == {mirrored}


def test_disruption_budget(cluster, make, inplace, by_proxy, proxy, images):
    """A budget that never allows a pod is found before; one that does not allow it now is waited for."""
    workload = make("deployment")
    path = make_budget(cluster, workload, minAvailable=2)
    command = "set", "image", workload.name, f"main={images[1]}"
    ran = inplace.run(*command)
    assert ran.code == 1 and f'PodDisruptionBudget "{workload.app}" allows no pod to be unavailable' in ran.stderr
    assert "change it, or run more pods" in ran.stderr
    assert workload.record() is None and workload.strategy() == (False, None)
    cluster.admin.patch(path, {"spec": {"minAvailable": 1}})
    cluster.admin.wait_for(path, lambda one: one["status"]["disruptionsAllowed"] == 1, 30 * SLOWLY)
    with in_the_middle(by_proxy, proxy, *command, "--timeout=30s") as middle:
        cluster.admin.patch(path, {"spec": {"minAvailable": 2}})
        cluster.admin.wait_for(
            path, lambda one: one["status"]["disruptionsAllowed"] == 0, 30 * SLOWLY
        )
        ran = middle.end()
    assert ran.code == 124 and f'PodDisruptionBudget "{workload.app}"' in ran.stdout
    assert "timed out waiting until the PodDisruptionBudget" in ran.stderr
    assert [image_of(pod) for pod in workload.pods()].count(images[0]) == 1
    cluster.admin.patch(path, {"spec": {"minAvailable": 1}})
    assert_done(inplace.run("rollout", workload.name))
    workload.assert_runs(images[1])
    cluster.admin.delete(path)


def test_budget_of_one(cluster, make, inplace, images):
    """A single pod at a time is out of service, however many the command may take."""
    workload = make("deployment", 3)
    path = make_budget(cluster, workload, maxUnavailable=1)
    version = cluster.admin.get(PODS)["metadata"]["resourceVersion"]
    assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}", "--max-unavailable=3"))
    workload.assert_runs(images[1])
    ready, updated = dict.fromkeys(workload.uids(), True), set()
    query = {"labelSelector": f"app={workload.app}", "resourceVersion": version}
    for event in cluster.admin.watch(PODS, 60 * SLOWLY, **query):
        pod = event["object"]
        uid = pod["metadata"]["uid"]
        ready[uid] = is_ready(pod)
        assert list(ready.values()).count(False) <= 1
        if ready[uid] and pod["status"]["containerStatuses"][0]["image"] == images[1]:
            updated.add(uid)
        if len(updated) == workload.n_pods:
            break
    cluster.admin.delete(path)


def test_recreate(make, inplace, images):
    """The strategy stays, no pod is replaced, and the command says what Recreate promises otherwise."""
    workload = make("deployment", strategy={"type": "Recreate"})
    before, strategy = workload.uids(), workload.get()["spec"]["strategy"]
    with none_replaced(workload):
        ran = assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}"))
    assert "its strategy Recreate lets no two versions run side by side" in ran.stdout + ran.stderr
    workload.assert_runs(images[1])
    assert workload.uids() == before and workload.get()["spec"]["strategy"] == strategy


def test_deferred_resize(cluster, make, inplace, images):
    """A pod whose resize waits for room on its node gets the image all the same, from the kubelet and from the command."""
    workload = make("deployment", pod={"containers": [sized(images[0])]})
    pod = workload.pods()[0]["metadata"]["name"]
    room = cluster.admin.get(f"/api/v1/nodes/{workload.pods()[0]['spec']['nodeName']}")["status"]["allocatable"]["cpu"]
    bigger = {"containers": [{"name": "main", "resources": {"requests": {"cpu": room}}}]}
    cluster.admin.patch(f"{PODS}/{pod}/resize", {"spec": bigger})
    cluster.admin.wait_for(f"{PODS}/{pod}", is_deferred, 30 * SLOWLY)
    with none_replaced(workload):
        assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}"))
    workload.assert_runs(images[1])
    document = cluster.admin.get(f"{PODS}/{pod}")
    assert is_deferred(document)
    assert document["spec"]["containers"][0]["resources"]["requests"] == {"cpu": room}


@pytest.mark.parametrize("way", ["crash", "resize"])
def test_restarts_while_another_waits(cluster, make, inplace, folder, images, way):
    """The command sees each step: if an updated pod crashes, no further one is begun, and other resources are no crash."""
    shared = folder / "shared"
    shared.mkdir()
    command = until_term("until [ -e /folder/$HOSTNAME ]; do sleep 0.1; done")
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    mounts = [{"name": "folder", "mountPath": "/folder"}]
    container = {**sized(images[0]), "command": command, "resizePolicy": policy, "volumeMounts": mounts}
    volume = {"name": "folder", "hostPath": {"path": str(shared)}}
    pod = {"containers": [container], "volumes": [volume], "terminationGracePeriodSeconds": round(120 * SLOWLY)}
    workload = make("deployment", 3, pod=pod)

    def updated() -> list[str]:
        return [one["metadata"]["name"] for one in workload.pods() if image_of(one) == images[1]]

    def see(n: int) -> None:
        wait_until(lambda: len(updated()) == n or child.poll() is not None, 60 * SLOWLY, f"{n} pods with the image")
        assert child.poll() is None, child.communicate()

    with inplace.running("set", "image", workload.name, f"main={images[1]}") as child:
        see(1)
        first = updated()[0]
        (shared / first).touch()
        see(2)
        if way == "resize":
            bigger = {"containers": [{"name": "main", "resources": {"requests": {"memory": "40Mi"}}}]}
            cluster.admin.patch(f"{PODS}/{first}/resize", {"spec": bigger}, "strategic")
        else:
            with suppress(RuntimeError):  # the command ends with the container
                cluster.kubectl("exec", first, "--", "/bin/sh", "-c", "kill 1")
        path = f"{PODS}/{first}"
        cluster.admin.wait_for(path, lambda one: restarts(one) == 2 and is_ready(one), 90 * SLOWLY)
        for one in workload.pods():
            (shared / one["metadata"]["name"]).touch()
        output, errors = child.communicate(timeout=120 * SLOWLY)
    if way == "resize":
        assert child.returncode == 0, output + errors
        return
    assert child.returncode == 3 and f'pod "{first}": a container has restarted' in errors, output + errors
    assert [image_of(one) for one in workload.pods()].count(images[0]) == 1


def restarts(pod: Object) -> int:
    return pod["status"]["containerStatuses"][0]["restartCount"]


def sized(image: str) -> Object:
    resources = {"requests": {"cpu": "10m"}}
    return {"name": "main", "image": image, "command": until_term(), "resources": resources}


def is_deferred(pod: Object) -> bool:
    return any(
        one["type"] == "PodResizePending" and one["reason"] == "Deferred" for one in pod["status"]["conditions"]
    )


def test_ended_pod(cluster, make, inplace, images):
    """A pod that has ended, as after an eviction by the kubelet, is left behind beside its successor."""
    workload = make("deployment")
    ended = workload.pods()[0]["metadata"]["name"]
    cluster.admin.patch(f"{PODS}/{ended}", {"spec": {"activeDeadlineSeconds": 1}})
    cluster.admin.wait_for(
        f"{PODS}/{ended}", lambda pod: pod["status"]["phase"] == "Failed", 60 * SLOWLY
    )
    wait_until(lambda: len(workload.ready()) == 2, 60 * SLOWLY, "pods")
    assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}"))
    workload.assert_runs(images[1])
    assert image_of(cluster.admin.get(f"{PODS}/{ended}")) == images[0]


@pytest.mark.parametrize("way", ["ended", "open"])
def test_partition(make, by_proxy, proxy, inplace, images, way):
    """Lower ordinals keep their image, also when their pods are made again; a second command updates them, and --undo
    goes back to the beginning of both.
    """
    workload = make("statefulset", 3)
    before, strategy = workload.uids(), workload.strategy()
    with none_replaced(workload):
        assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}", "--partition=2"))
        assert [image_of(pod) for pod in sorted(workload.ready(), key=lambda pod: pod["metadata"]["name"])] == [
            images[0],
            images[0],
            images[1],
        ]
        assert workload.strategy()[1]["rollingUpdate"]["partition"] == 2
        lower = ["set", "image", workload.name, f"main={images[1]}", "--partition=0"]
        if way == "ended":
            assert_done(inplace.run(*lower))
            workload.assert_runs(images[1])
        else:
            reached = stop_after(proxy, 2)
            with by_proxy.start(*lower) as child:
                wait_until(reached.is_set, 60 * SLOWLY, "the write")
                child.kill()
            proxy.behave()
        ran = assert_done(inplace.run("rollout", workload.name, "--undo"))
        assert f"main from {images[1]} back to {images[0]}" in ran.stdout
        workload.assert_runs(images[0])
        assert workload.strategy() == strategy
    assert workload.uids() == before


def test_partition_undone(make, inplace, images):
    """The partition is as before, whether the update had ended or not, and a client that continues it may not ask for
    another one.
    """
    workload = make("statefulset", 3)
    strategy, update = workload.strategy(), ["set", "image", workload.name]
    with none_replaced(workload):
        ran = inplace.run(*update, f"main={images[3]}", "--partition=2", timeout=90 * SLOWLY)
        assert ran.code == 3
        ran = inplace.run(*update, f"main={images[3]}", "--partition=1")
        assert ran.code == 1 and "has another partition" in ran.stderr, ran.stderr
        assert_done(inplace.run("rollout", workload.name, "--undo"))
        workload.assert_runs(images[0])
        assert workload.strategy() == strategy

        assert_done(inplace.run(*update, f"main={images[1]}", "--partition=2"))
        again = assert_done(inplace.run(*update, f"main={images[1]}")).stdout
        assert "pods with ordinals below 2 keep theirs, --partition=0 updates them" in again
        ran = assert_done(inplace.run("rollout", workload.name, "--undo"))
        assert "the partition before" not in ran.stdout
        workload.assert_runs(images[0])
        assert workload.strategy() == strategy


@pytest.mark.parametrize("way", ["set-image", "rollout"])
def test_pods_that_lag(cluster, make, inplace, images, way):
    """The template has the images and the pods do not: those of a ReplicaSet, and one that was patched by hand."""
    workload = make("replicaset")
    cluster.kubectl("set", "image", workload.name, f"main={images[1]}")
    wait_observed(workload)
    set_image = ["set", "image", workload.name, f"main={images[1]}"]
    command = set_image if way == "set-image" else ["rollout", workload.name]
    with none_replaced(workload):
        assert_done(inplace.run(*command))
        workload.assert_runs(images[1])
        assert "already" in assert_done(inplace.run(*command)).stdout
    if way == "rollout":
        return
    workload = make("deployment")
    pod = workload.pods()[0]["metadata"]["name"]
    with none_replaced(workload):
        changed = {"spec": {"containers": [{"name": "main", "image": images[1]}]}}
        cluster.admin.patch(f"{PODS}/{pod}", changed, "strategic")
        cluster.admin.wait_for(
            f"{PODS}/{pod}",
            lambda one: one["status"]["containerStatuses"][0]["image"] == images[1] and is_ready(one),
            60 * SLOWLY,
        )
        assert_done(inplace.run("set", "image", workload.name, f"main={images[0]}"))
        workload.assert_runs(images[0])


def test_several_containers(make, inplace, images):
    """Sidecars are updated, too, and * stands for all containers."""
    sidecar = {"name": "proxy", "image": images[0], "restartPolicy": "Always", "command": until_term()}
    workload = make("deployment", pod={"initContainers": [sidecar]})
    before = workload.uids()
    with none_replaced(workload):
        assert_done(inplace.run("set", "image", workload.name, f"*={images[1]}"))
        workload.assert_runs(images[1])
        for pod in workload.pods():
            (status,) = pod["status"]["initContainerStatuses"]
            assert (status["image"], status["restartCount"]) == (images[1], 1)
        assert "already" in assert_done(inplace.run("set", "image", workload.name, f"*={images[1]}")).stdout
        both = [f"proxy={images[2]}", f"main={images[0]}"]
        assert_done(inplace.run("set", "image", workload.name, *both))
        workload.assert_runs(images[0])
        assert {pod["spec"]["initContainers"][0]["image"] for pod in workload.pods()} == {images[2]}
    assert workload.uids() == before

    ran = inplace.run("set", "image", workload.name, f"none={images[1]}")
    assert ran.code == 1 and 'there is no container "none"' in ran.stderr


def init_image(owner: Object) -> str:
    return owner["spec"]["initContainers"][0]["image"]


@pytest.mark.parametrize("kind", ["deployment", "daemonset"])
def test_init_containers(make, inplace, images, kind):
    """Pods and templates have the new image of an init container that has ended, and it does not run again."""
    once = {"name": "once", "image": images[0], "command": ["/bin/true"]}
    workload = make(kind, pod={"initContainers": [once]})
    uids = workload.uids()
    update = ["set", "image", workload.name]
    line = 'init container "once" has ended in its pods and does not run again'

    def assert_runs(image: str, init: str, restarts: int) -> None:
        workload.assert_runs(image)
        for pod in workload.pods():
            (ended,), (status,) = (pod["status"][f"{one}Statuses"] for one in ("initContainer", "container"))
            assert ended["restartCount"] == 0 and status["restartCount"] == restarts
        templates = [*workload.pods(), workload.get()["spec"]["template"]]
        if kind == "deployment":
            path = workload.path.replace("deployments", "replicasets").rpartition("/")[0]
            sets = workload.kube.list(path, labelSelector=f"app={workload.app}")
            templates += [one["spec"]["template"] for one in sets if one["spec"]["replicas"]]
        assert [init_image(one) for one in templates] == [init] * len(templates)

    with none_replaced(workload):
        ran = assert_done(inplace.run(*update, f"*={images[1]}"))
        assert ran.stderr.count(line) == 1 and ran.stderr.count("\n") == 1, ran.stderr
        assert_runs(images[1], images[1], 1)
        assert "already" in assert_done(inplace.run(*update, f"*={images[1]}")).stdout
        assert line in assert_done(inplace.run(*update, f"once={images[2]}")).stderr
        assert_runs(images[1], images[2], 1)
        assert_done(inplace.run("rollout", workload.name, "--undo"))
        assert_runs(images[1], images[1], 1)
        assert "does not run" not in assert_done(inplace.run(*update, f"main={images[0]}")).stderr
        assert_runs(images[0], images[1], 2)
        if kind == "deployment":
            workload.patch({"spec": {"paused": True}})
            changed = set_template(images[2])
            changed["spec"]["template"]["spec"]["initContainers"] = [{"name": "once", "image": images[2]}]
            workload.patch(changed)
            wait_observed(workload)
            assert line in assert_done(inplace.run("rollout", workload.name)).stderr
            workload.patch({"spec": {"paused": False}})
            assert_runs(images[2], images[2], 3)
    assert workload.uids() == uids


def test_init_container_that_runs(make, inplace, folder, images):
    """The running init container ends as it was started, and only then the others start, with the new image."""
    shared = folder / "shared"
    shared.mkdir()
    opened = shared / "opened"
    opened.touch()
    wait = {
        "name": "once",
        "image": images[0],
        "command": ["/bin/sh", "-c", "until [ -e /folder/opened ]; do sleep 0.2; done"],
        "volumeMounts": [{"name": "folder", "mountPath": "/folder"}],
    }
    volume = {"name": "folder", "hostPath": {"path": str(shared)}}
    workload = make("deployment", pod={"initContainers": [wait], "volumes": [volume]})
    opened.unlink()
    workload.kube.delete(f"{PODS}/{workload.pods()[0]['metadata']['name']}")

    def find_begun() -> list[Object]:
        found = (pod["status"].get("initContainerStatuses", []) for pod in workload.pods())
        return [one for statuses in found for one in statuses if "running" in one["state"]]

    (begun,) = wait_until(find_begun, 60 * SLOWLY, "the init container")
    uids = workload.uids()
    with inplace.running("set", "image", workload.name, f"*={images[1]}") as child:
        wait_until(
            lambda: images[1] in {init_image(pod) for pod in workload.pods()}, 120 * SLOWLY, "its image"
        )
        (still,) = find_begun()
        assert still["containerID"] == begun["containerID"]
        opened.touch()
        _, errors = child.communicate(timeout=120 * SLOWLY)
    assert child.returncode == 0, errors
    workload.assert_runs(images[1])
    assert workload.uids() == uids
    ended = [pod["status"]["initContainerStatuses"][0] for pod in workload.pods()]
    assert begun["containerID"] in {one["containerID"] for one in ended}
    assert {one["restartCount"] for one in ended} == {0}


def test_no_pods(make, inplace, images):
    workload = make("deployment", 0)
    assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}"))
    workload.n_pods = 1
    workload.patch({"spec": {"replicas": 1}})
    wait_until(lambda: len(workload.ready()) == 1, 60 * SLOWLY, "pod")
    workload.assert_runs(images[1])


def test_pod_without_a_node(make, inplace, images):
    """The pod is given the image; the command says why it does not run while it waits."""
    workload = make("deployment")
    workload.patch({"spec": {"replicas": 0}})
    wait_until(lambda: not workload.pods(), 60 * SLOWLY, "end of the pods")
    nowhere = {"spec": {"nodeSelector": {"there-is": "none"}}}
    workload.patch({"spec": {"replicas": 1, "template": nowhere}})
    wait_until(
        lambda: any("conditions" in pod["status"] for pod in workload.pods()), 60 * SLOWLY, "pod"
    )
    wait_observed(workload)
    with inplace.running("set", "image", workload.name, f"main={images[1]}") as child:
        while "nodes are available" not in (line := child.stdout.readline()):
            assert line, child.communicate()
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=30 * SLOWLY)
    assert child.returncode == 130 and "--undo" in errors
    assert {image_of(pod) for pod in workload.pods()} == {images[1]}


def test_refusals_name_the_way(cluster, make, inplace, images):
    """Each refusal is one line, before anything has changed."""
    workload = make("deployment")
    before = workload.get()["spec"]
    image = f"main={images[1]}"
    for arguments, code, words in (
        (["set", "image", workload.name, f"man={images[1]}"], 1, 'no container "man"; the workload has main'),
        (["set", "image", workload.name, "main=A:1"], 2, "image"),
        (["set", "image", workload.name, image, "-n", "shpo"], 1, 'namespaces "shpo" not found'),
        (["set", "image", "deployment/wbe", image], 1, 'deployments.apps "wbe" not found'),
        (["rollout", workload.name], 1, "no update is under way"),
    ):
        ran = inplace.run(*arguments)
        assert ran.code == code and words in ran.stderr, ran.stderr
        assert ran.stderr.count("\n") == 1
    assert workload.get()["spec"] == before
    workload.patch({"spec": {"paused": True, "replicas": 0}})
    wait_observed(workload)
    made = workload.get()
    spec = {**made["spec"], "replicas": 1}
    fresh = {"metadata": {"name": "never-ran"}, "apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}
    cluster.admin.create(fresh)
    path = cluster.admin.path_of({**fresh, "metadata": {"name": "never-ran", "namespace": "default"}})
    cluster.admin.wait_for(path, lambda found: "observedGeneration" in found.get("status", {}), 60 * SLOWLY)
    ran = inplace.run("set", "image", "deployment/never-ran", image)
    assert ran.code == 1 and 'by "kubectl set image", and resume it' in ran.stderr
    cluster.admin.delete(path)


def test_what_comes_after(cluster, make, inplace, images, folder):
    """A manifest with other images would replace the pods; a grace period without the gate is none; and in place, a
    pod is unavailable although the strategy allows none.
    """
    workload = make("deployment", 1, strategy={"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}})
    text = json.dumps({"spec": {"template": workload.get()["spec"]["template"]}})
    applied = {"kubectl.kubernetes.io/last-applied-configuration": text}
    workload.patch({"metadata": {"annotations": applied}})
    ran = assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}", "--grace=1s"))
    assert "its manifest has other images" in ran.stderr and "--grace has no effect" in ran.stderr
    assert "its strategy lets no pod be unavailable; in place, one pod at a time is" in ran.stderr
    ran = assert_done(inplace.run("set", "image", workload.name, f"main={images[0]}"))
    assert "manifest" not in ran.stderr
    workload = make("daemonset", updateStrategy={"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}})
    ran = assert_done(inplace.run("set", "image", workload.name, f"main={images[1]}"))
    assert "its strategy lets no pod be unavailable; in place, one pod at a time is" in ran.stderr


def test_pod_that_has_ended(cluster, inplace, images):
    """The containers of a pod that has ended are not started again, so there is nothing to update."""
    cluster.node.run_pod("ended", images[0], until_term())
    path = f"{PODS}/ended"
    cluster.admin.patch(path, {"spec": {"activeDeadlineSeconds": 1}})
    cluster.admin.wait_for(path, lambda pod: pod["status"]["phase"] == "Failed", 60 * SLOWLY)
    ran = inplace.run("set", "image", "pod/ended", f"main={images[1]}")
    assert ran.code == 1 and "it has ended" in ran.stderr
    cluster.admin.delete(path)


def test_bare_pod(cluster, make, inplace, images):
    for kind in ("deployment", "statefulset"):
        workload = make(kind)
        owned = workload.pods()[0]["metadata"]["name"]
        ran = inplace.run("set", "image", f"pod/{owned}", f"main={images[1]}")
        assert ran.code == 1 and f"{kind}.apps/{workload.app} owns it: update that" in ran.stderr
    cluster.node.run_pod("bare", images[0], until_term())
    before = cluster.admin.get(f"{PODS}/bare")["metadata"]["uid"]
    assert_done(inplace.run("set", "image", "pod/bare", f"main={images[1]}"))
    assert_done(inplace.run("rollout", "pod/bare", "--undo"))
    pod = cluster.admin.get(f"{PODS}/bare")
    assert (pod["metadata"]["uid"], image_of(pod)) == (before, images[0])
    assert pod["status"]["containerStatuses"][0]["image"] == images[0]
    cluster.admin.delete(f"{PODS}/bare")


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_bare_pod_that_would_not_come_back(cluster, inplace, images, policy):
    """If its image could not be pulled at once, its container would not be started again: nothing changes without the
    image on its node.
    """
    name = f"not-back-{policy.lower()}"
    cluster.node.run_pod(name, images[0], until_term(), restartPolicy=policy)
    path = f"{PODS}/{name}"
    before = cluster.admin.get(path)
    ran = inplace.run("set", "image", f"pod/{name}", f"main={images[1]}", "--no-preload")
    assert ran.code == 1, ran.stdout
    assert f'pod "{name}" would be lost if the image of container main could not be pulled at once' in ran.stderr
    after = cluster.admin.get(path)
    assert (after["spec"], after["metadata"].get("annotations")) == (before["spec"], before["metadata"].get("annotations"))
    assert is_ready(after)
    cluster.admin.delete(path)


@pytest.mark.parametrize("policy", ["IfNotPresent", "Always"])
def test_bare_pod_of_a_preloaded_image(cluster, agent, inplace, images, policy):
    """Where the kubelet need not ask the registry, a pod that does not come back is updated, and goes back."""
    name = f"preloaded-{policy.lower()}"
    node_image = NodeImage(cluster.admin, cluster.node.name)
    node_image.create()
    main = {"name": "main", "image": images[0], "imagePullPolicy": policy, "command": until_term()}
    cluster.node.run_pod(name, images[0], restartPolicy="Never", containers=[main])
    path = f"{PODS}/{name}"
    ran = inplace.run("set", "image", f"pod/{name}", f"main={images[1]}", timeout=90 * SLOWLY)
    if policy == "Always":
        assert ran.code == 1 and f'pod "{name}" would be lost' in ran.stderr, ran.stdout
    else:
        assert_done(ran)
        assert image_of(cluster.admin.get(path)) == images[1]
        assert_done(inplace.run("rollout", f"pod/{name}", "--undo", "--no-preload"))
    pod = cluster.admin.get(path)
    assert image_of(pod) == images[0] and is_ready(pod)
    cluster.admin.delete(path)
    node_image.delete()


def test_bare_pod_of_a_silent_agent(cluster, inplace, images):
    """An agent that does not answer has pulled nothing: a pod that does not come back is not updated without it."""
    cluster.control_plane.install()
    node_image = NodeImage(cluster.admin, cluster.node.name)
    node_image.create()
    cluster.node.run_pod("silent", images[0], until_term(), restartPolicy="Never")
    path = f"{PODS}/silent"
    ran = inplace.run("set", "image", "pod/silent", f"main={images[1]}", timeout=90 * SLOWLY)
    pod = cluster.admin.get(path)
    cluster.admin.delete(path)
    node_image.delete()
    assert ran.code == 1, ran.stdout
    assert f"no agent answers on node {cluster.node.name}" in ran.stderr
    assert 'pod "silent" would be lost if the image of container main could not be pulled at once' in ran.stderr
    assert image_of(pod) == images[0] and is_ready(pod)


def test_other_images_of_a_bare_pod(cluster, agent, by_proxy, proxy, inplace, images):
    """An open update of a pod that does not come back gets no other images that were not pulled; it may go back."""
    node_image = NodeImage(cluster.admin, cluster.node.name)
    node_image.create()
    cluster.node.run_pod("others", images[0], until_term(), restartPolicy="Never")
    path = f"{PODS}/others"
    reached = stop_after(proxy, 1, f"^PATCH {path}")
    with by_proxy.start("set", "image", "pod/others", f"main={images[1]}") as child:
        wait_until(reached.is_set, 90 * SLOWLY, "the record")
        child.kill()
    ran = inplace.run("set", "image", "pod/others", f"main={images[2]}", "--no-preload")
    assert ran.code == 1, ran.stdout
    assert 'pod "others" would be lost if the image of container main could not be pulled at once' in ran.stderr
    assert_done(inplace.run("rollout", "pod/others", "--undo", "--no-preload"))
    pod = cluster.admin.get(path)
    assert image_of(pod) == images[0] and is_ready(pod)
    cluster.admin.delete(path)
    node_image.delete()

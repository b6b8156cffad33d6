/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How far a pod is in an update from image A to B: each row is a pod as the API server shows it
 */

#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/kubectl/rollout-pod-plan.h"
#include "tests/unit/failing-memory.h"
#include "tests/unit/quoted-json.h"
#include "tests/unit/unit.h"

#define NOW_SEC 1000000000

#define FROM_A "{'app': {'image': 'A', 'id': '1'}}"
#define FROM_CONTENT "{'app': {'image': 'A', 'id': '1', 'imageID': 'a'}}"
#define READY "{'type': 'Ready', 'status': 'True'}"
#define READY_SINCE(time) "{'type': 'Ready', 'status': 'True', 'lastTransitionTime': '" time "'}"
#define UNREADY "{'type': 'Ready', 'status': 'False'}"
#define UNREADY_SINCE(time) "{'type': 'Ready', 'status': 'False', 'lastTransitionTime': '" time "'}"
#define CONTAINERS_READY "{'type': 'ContainersReady', 'status': 'True'}"
#define GATE ", 'readinessGates': [{'conditionType': 'inplaced.io/Ready'}]"
#define VOLUME \
        ", 'volumes': [{'name': 'tmp', 'emptyDir': {}}, {'name': 'data', 'image': {'reference': 'V'}}]"
#define OPEN "{'type': 'inplaced.io/Ready', 'status': 'True'}"
#define OPEN_SINCE(time) \
        "{'type': 'inplaced.io/Ready', 'status': 'True', 'lastTransitionTime': '" time "'}"
#define CLOSED(reason, image)                                                                      \
        "{'type': 'inplaced.io/Ready', 'status': 'False', 'reason': '" reason "', 'message': '{\\" \
        "'images\\':{\\'app\\':\\'" image "\\'}}', 'lastTransitionTime': '2001-09-09T01:46:40Z'}"
#define HUNDRED \
        "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"
#define HUNDREDS HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED
#define STALE(message)                                                                        \
        "{'type': 'inplaced.io/InPlaceVerified', 'status': 'False', 'reason': 'ImageStale', " \
        "'message': '" message "'}"
#define NOT_RUNNING(message)                                                                  \
        "{'type': 'inplaced.io/InPlaceVerified', 'status': 'False', 'reason': 'NotRunning', " \
        "'message': '" message "'}"
#define ENVIRONMENT(message)                                                                        \
        "{'type': 'inplaced.io/InPlaceVerified', 'status': 'False', 'reason': 'EnvironmentStale', " \
        "'message': '" message "'}"
#define RESTARTING(message)                                                                   \
        "{'type': 'inplaced.io/InPlaceVerified', 'status': 'False', 'reason': 'Restarting', " \
        "'message': '" message "'}"
#define UNKNOWN(message)                                                                     \
        "{'type': 'inplaced.io/InPlaceVerified', 'status': 'Unknown', 'reason': 'Unknown', " \
        "'message': '" message "'}"
#define VERIFIED(status)                                                               \
        "{'type': 'inplaced.io/InPlaceVerified', 'status': '" status "', 'message': '" \
        "VALUE differs'}"
#define CRASHED "}, 'lastState': {'terminated': {'exitCode': 7, 'reason': 'Error'}"
#define UNREADY_A "{'app': {'image': 'A', 'id': '1', 'unready': true}}"
#define RUNNING "'running': {}"
#define RUNS(image) RUNNING "}, 'image': '" image "', 'lastState': {"
/* It was started ten seconds ago, and 61. */
#define CONTENT(content) \
        "'running': {'startedAt': '2001-09-09T01:46:30Z'}}, 'imageID': '" content "', 'x': {"
#define LONG_CONTENT(content) \
        "'running': {'startedAt': '2001-09-09T01:45:39Z'}}, 'imageID': '" content "', 'x': {"
/* The clock of its node is an hour ahead. */
#define AHEAD_CONTENT(content) \
        "'running': {'startedAt': '2001-09-09T02:46:30Z'}}, 'imageID': '" content "', 'x': {"
#define STARTED(time) "}, 'lastState': {'terminated': {'startedAt': '" time "'}"
#define BY_KRUISE(time)                                                                     \
        ", 'annotations': {'apps.kruise.io/inplace-update-state': '{\\'updateTimestamp\\':" \
        "\\'" time "\\'}'}"
#define RESTARTED(image, as)                                                            \
        ", 'annotations': {'inplaced.io/restarted': '{\\'app\\':{\\'image\\':\\'" image \
        "\\',\\'as\\':\\'" as "\\'}}'}"
#define WAITING(reason, message) "'waiting': {'reason': '" reason "', 'message': '" message "'}"

/* Differences from a pod of the update that is ready and runs container "1". */
typedef struct TestPod {
        const char *image;      /* image in its spec */
        const char *id;         /* ID of its container; NULL: "1" */
        const char *state;      /* state of its container; NULL: RUNNING */
        const char *former;     /* the annotation; NULL: none */
        const char *conditions; /* NULL: READY */
        const char *metadata;   /* more of it, as ", 'key': value" */
        const char *spec;       /* and of this */
        const char *phase;      /* NULL: "Running" */
        const char *started;    /* status.startTime; NULL: "" */
        bool is_behind;         /* the kubelet has not seen it as it is */
        bool has_no_generation; /* the kubelet does not say what it has seen */
} TestPod;

static const char *or_else(const char *text, const char *other) {
        return text ? text : other;
}

static json_object *make_pod(const TestPod *pod) {
        json_object *made = parse(
                "{'metadata': {'name': 'web-1', 'generation': 2, 'labels': "
                "{'controller-revision-hash': 'new'}, 'ownerReferences': [{'controller': true, "
                "'uid': 'w'}], 'annotations': {}%s}, 'spec': {'containers': [{'name': 'app', "
                "'image': '%s'}], 'initContainers': [{'name': 'once', 'image': 'A'}]%s}, 'status': {'phase': '%s', 'startTime': '%s', 'conditions': [%s], 'containerStatuses': "
                "[{'name': 'app', 'containerID': '%s', 'state': {%s}}]%s}}",
                or_else(pod->metadata, ""), pod->image, or_else(pod->spec, ""),
                or_else(pod->phase, "Running"), or_else(pod->started, ""),
                or_else(pod->conditions, READY), or_else(pod->id, "1"),
                or_else(pod->state, RUNNING),
                pod->has_no_generation ? ""
                : pod->is_behind       ? ", 'observedGeneration': 1"
                                       : ", 'observedGeneration': 2");

        if (pod->former) {
                cleanup(json_object_put_p) json_object *former = parse("%s", pod->former);

                json_object_object_add(object_at(made, "metadata.annotations"),
                                       ROLLOUT_POD_ANNOTATION,
                                       json_object_new_string(json_object_to_json_string(former)));
        }
        return made;
}

/* A StatefulSet with the pods "web-1" and up, if it is one. */
static json_object *make_workload(int min_ready_sec) {
        return parse("{'metadata': {'name': 'web', 'uid': 'w'}, 'spec': {'minReadySeconds': %d}, "
                     "'status': {'updateRevision': 'new'}}",
                     min_ready_sec);
}

static json_object *make_record(bool is_undo, int partition) {
        return parse("{'state': '%s', 'mode': 'set-image', 'before': {'app': 'A'}, 'after': "
                     "{'app': 'B'}, 'former': {'updateStrategy': {'rollingUpdate': {'partition': "
                     "%d}}}}",
                     is_undo ? "undo" : "forward", partition);
}

typedef struct PhaseCase {
        const char *name;
        TestPod pod;
        RolloutPhase phase;
        const char *reason; /* NULL: any */
        bool is_stateful;   /* the pod is a StatefulSet's; otherwise it has no controller */
        int partition;
        bool is_undo;      /* back to A */
        bool is_of_kruise; /* the pod is a CloneSet's */
        int min_ready_sec;
        const char *first; /* restarts at the beginning of the update; NULL: unknown */
        const char *noted; /* restarts of its containers when it was updated; NULL: it was not */
        const char *since; /* when the update began; NULL: unknown */
        bool is_found;     /* a run takes notes, and has none of it yet */
} PhaseCase;

/* clang-format off */
static const PhaseCase phase_rows[] = {
        { .name = "its turn has not come", { .image = "A" }, ROLLOUT_OLD },
        { .name = "it is deleted", { .image = "A", .metadata = ", 'deletionTimestamp': 'now'" }, ROLLOUT_LEFT },
        { .name = "it is another's",
          { .image = "A", .metadata = ", 'ownerReferences': []" }, ROLLOUT_LEFT, .is_stateful = true },
        { .name = "its controller makes another pod for it",
          { .image = "A", .phase = "Failed" }, ROLLOUT_LEFT, .is_stateful = true },
        { .name = "it is alone, and has ended",
          { .image = "A", .phase = "Succeeded" }, ROLLOUT_FAILED,
          "it has ended, and its containers are not started again" },
        { .name = "it is below the partition",
          { .image = "A" }, ROLLOUT_LEFT, .is_stateful = true, .partition = 2 },
        { .name = "the same, with a note of a container that it does not have",
          { .image = "A", .former = "{'ghost': {'image': 'A', 'id': ''}}" },
          ROLLOUT_LEFT, .is_stateful = true, .partition = 2 },
        { .name = "it is the partition", { .image = "A" }, ROLLOUT_OLD, .is_stateful = true, .partition = 1 },
        { .name = "it has the image, and the other revision",
          { .image = "B", .id = "2", .former = FROM_A, .metadata = ", 'labels': {'controller-revision-hash': 'old'}" },
          ROLLOUT_OLD, .is_stateful = true },
        { .name = "it has both",
          { .image = "B", .id = "2", .former = FROM_A }, ROLLOUT_UPDATED, .is_stateful = true },

        /* the gate */
        { .name = "the gate is open", { .image = "A", .conditions = READY "," OPEN }, ROLLOUT_OLD },
        { .name = "it is closed for B",
          { .image = "A", .conditions = UNREADY "," CLOSED("InPlaceUpdate", "B") }, ROLLOUT_DRAINING },
        { .name = "it is closed for C",
          { .image = "A", .conditions = UNREADY "," CLOSED("InPlaceUpdate", "C") }, ROLLOUT_OLD },
        { .name = "it is closed for another reason",
          { .image = "A", .conditions = UNREADY "," CLOSED("Maintenance", "B") }, ROLLOUT_OLD },
        { .name = "the message is no JSON",
          { .image = "A", .conditions = UNREADY ", {'type': 'inplaced.io/Ready', 'status': 'False', 'reason': "
                               "'InPlaceUpdate', 'message': 'x'}" }, ROLLOUT_OLD },
        { .name = "the kubelet has not seen that it is closed",
          { .image = "B", .id = "2", .former = FROM_A, .conditions = READY "," CLOSED("InPlaceUpdate", "B") }, ROLLOUT_UPDATING },

        /* another spelling of the image, by a restart */
        { .name = "a restart spelled B otherwise",
          { .image = "r@B", .id = "2", .metadata = RESTARTED("B", "r@B") }, ROLLOUT_UPDATED },
        { .name = "a restart spelled A otherwise",
          { .image = "r@A", .id = "2", .metadata = RESTARTED("A", "r@A") }, ROLLOUT_OLD },
        { .name = "it has another image since the restart",
          { .image = "C", .id = "2", .metadata = RESTARTED("B", "r@B") }, ROLLOUT_OLD },

        /* the containers */
        { .name = "the container is still the one before",
          { .image = "B", .former = FROM_A }, ROLLOUT_UPDATING },
        { .name = "another one runs", { .image = "B", .id = "2", .former = FROM_A }, ROLLOUT_UPDATED },
        { .name = "the kubelet does not say what it has seen",
          { .image = "B", .id = "2", .former = FROM_A, .has_no_generation = true },
          ROLLOUT_UPDATED },
        { .name = "another one runs, of an older version of the pod",
          { .image = "B", .id = "2", .former = FROM_A, .is_behind = true },
          ROLLOUT_UPDATING },
        { .name = "another one of the same content runs, as after a crash",
          { .image = "B", .id = "2", .former = FROM_CONTENT, .state = CONTENT("a") },
          ROLLOUT_UPDATING, "container app may be one of the image before, which the kubelet had started just then",
          .is_found = true },
        { .name = "another one of other content runs",
          { .image = "B", .id = "2", .former = FROM_CONTENT, .state = CONTENT("b") },
          ROLLOUT_UPDATED, .is_found = true },
        { .name = "the kubelet had the pod as it is while the old one was the last",
          { .image = "B", .id = "2", .former = FROM_CONTENT, .state = CONTENT("a") },
          ROLLOUT_UPDATED, .noted = "0, 'seen': 2" },
        { .name = "it had the pod as it was before",
          { .image = "B", .id = "2", .former = FROM_CONTENT, .state = CONTENT("a") },
          ROLLOUT_UPDATING, .noted = "0, 'seen': 1" },
        { .name = "an old one would have been replaced by now",
          { .image = "B", .id = "2", .former = FROM_CONTENT, .state = LONG_CONTENT("a") },
          ROLLOUT_UPDATED, .is_found = true },
        { .name = "the same, by a clock that is ahead",
          { .image = "B", .id = "2", .former = FROM_CONTENT, .state = AHEAD_CONTENT("a") },
          ROLLOUT_UPDATED, .noted = "0, 'phase': 'updating', 'since': 999999939" },
        { .name = "an old one may run still, by a clock that is ahead",
          { .image = "B", .id = "2", .former = FROM_CONTENT, .state = AHEAD_CONTENT("a") },
          ROLLOUT_UPDATING, .noted = "0, 'phase': 'updating', 'since': 999999940" },
        { .name = "nothing is noted of what runs",
          { .image = "B", .id = "2", .former = FROM_CONTENT, .state = CONTENT("a") },
          ROLLOUT_UPDATED },
        { .name = "the kubelet does not say which pod it has seen",
          { .image = "B", .id = "2", .former = FROM_CONTENT, .state = CONTENT("a"), .has_no_generation = true },
          ROLLOUT_UPDATED, .is_found = true },
        { .name = "back, and one of the image runs that was to come",
          { .image = "A", .id = "2", .former = FROM_CONTENT, .state = CONTENT("b") },
          ROLLOUT_UPDATING, .is_undo = true, .is_found = true },
        { .name = "back, before the kubelet has replaced one of the image before",
          { .image = "B", .id = "2", .former = FROM_CONTENT, .state = CONTENT("a") },
          ROLLOUT_UPDATING, .is_undo = true, .is_found = true },
        { .name = "back, after it has replaced that",
          { .image = "B", .id = "3", .former = FROM_CONTENT, .state = CONTENT("b") },
          ROLLOUT_OLD, .is_undo = true, .is_found = true },
        { .name = "back, and another one of the image runs",
          { .image = "A", .id = "2", .former = FROM_CONTENT, .state = CONTENT("a") },
          ROLLOUT_UPDATED, .is_undo = true, .is_found = true },
        { .name = "it runs, and is not ready",
          { .image = "B", .id = "2", .former = FROM_A, .conditions = UNREADY }, ROLLOUT_UPDATING },
        { .name = "it does not run",
          { .image = "B", .id = "2", .state = WAITING("ContainerCreating", ""), .former = FROM_A }, ROLLOUT_UPDATING,
          "container app is being created" },
        { .name = "it has ended",
          { .image = "B", .id = "2", .state = "'terminated': {'reason': 'OOMKilled'}", .former = FROM_A },
          ROLLOUT_UPDATING, "container app has ended (OOMKilled), and is started again" },
        { .name = "no node has room",
          { .image = "B", .id = "", .state = WAITING("ContainerCreating", ""), .former = FROM_A,
            .conditions = "{'type': 'PodScheduled', 'status': 'False', 'message': 'no node'}" },
          ROLLOUT_UPDATING, "it has no node: no node" },
        { .name = "the agent has not verified it",
          { .image = "B", .id = "2", .former = FROM_A, .conditions = READY "," VERIFIED("False") },
          ROLLOUT_UPDATING, "the agent of node \"\" has not verified yet what runs in it: VALUE differs" },
        { .name = "the agent has",
          { .image = "B", .id = "2", .former = FROM_A, .conditions = READY "," VERIFIED("True") }, ROLLOUT_UPDATED },
        { .name = "the tag of another container has moved",
          { .image = "B", .id = "2", .former = FROM_A, .conditions = READY "," STALE("container app-proxy runs sha256:0… and its reference p is sha256:1…") }, ROLLOUT_UPDATED },
        { .name = "the environment of another container is stale",
          { .image = "B", .id = "2", .former = FROM_A, .conditions = READY "," ENVIRONMENT("container proxy has the environment of labels or annotations that have changed") }, ROLLOUT_UPDATED },
        { .name = "the tag of another container is gone",
          { .image = "B", .id = "2", .former = FROM_A, .conditions = READY "," UNKNOWN("container proxy runs sha256:0… and its reference p is not on this node") }, ROLLOUT_UPDATED },
        { .name = "its own environment is unknown",
          { .image = "B", .id = "2", .former = FROM_A, .conditions = READY "," UNKNOWN("container proxy runs sha256:0… and its reference p is not on this node; the environment of container app is unknown") }, ROLLOUT_UPDATED },
        { .name = "its own image is unknown",
          { .image = "B", .id = "2", .former = FROM_A, .conditions = READY "," UNKNOWN("the environment of container proxy is unknown; the runtime does not report what container app runs") },
          ROLLOUT_UPDATING, "the agent of node \"\" has not verified yet what runs in it: the environment of container proxy is unknown; the runtime does not report what container app runs" },
        { .name = "its own environment is stale",
          { .image = "B", .id = "2", .former = FROM_A, .conditions = READY "," ENVIRONMENT("container app has the environment of labels or annotations that have changed") }, ROLLOUT_UPDATED },
        { .name = "its container is restarted for its environment",
          { .image = "B", .id = "2", .former = FROM_A, .conditions = READY "," RESTARTING("container app is restarted: its environment comes from labels or annotations that have changed") },
          ROLLOUT_UPDATING, "the agent of node \"\" has not verified yet what runs in it: container app is restarted: its environment comes from labels or annotations that have changed" },
        { .name = "the tag of its image before had moved, and the agent is gone since",
          { .image = "B", .id = "2", .former = FROM_A, .conditions = READY "," STALE("container app runs sha256:0… and its reference A is sha256:1…; container proxy runs sha256:0… and its reference B is sha256:1…") }, ROLLOUT_UPDATED },
        { .name = "it did not run, and the agent is gone since",
          { .image = "B", .id = "2", .former = FROM_A, .conditions = READY "," NOT_RUNNING("container app does not run; container proxy does not run") }, ROLLOUT_UPDATED },
        { .name = "its own tag is gone",
          { .image = "B", .id = "2", .former = FROM_A, .conditions = READY "," STALE("container app runs sha256:0… and its reference B is not on this node") },
          ROLLOUT_UPDATING, "the agent of node \"\" has not verified yet what runs in it: container app runs sha256:0… and its reference B is not on this node" },
        { .name = "the tag of an image before had moved whose name begins as its own",
          { .image = "B", .id = "2", .former = FROM_A, .conditions = READY "," STALE("container app runs sha256:0… and its reference B:1 is sha256:1…") }, ROLLOUT_UPDATED },
        { .name = "its own tag has moved",
          { .image = "B", .id = "2", .former = FROM_A, .conditions = READY "," STALE("container proxy runs x; container app runs") },
          ROLLOUT_UPDATING, "the agent of node \"\" has not verified yet what runs in it: container proxy runs x; container app runs" },
        { .name = "the tag has moved of the image that it had already",
          { .image = "B", .former = "{'app': {'image': 'B', 'id': '1'}}", .conditions = READY "," STALE("container app runs sha256:0… and its reference B is sha256:1…") }, ROLLOUT_UPDATED },
        { .name = "the message does not name all",
          { .image = "B", .id = "2", .former = FROM_A, .conditions = READY "," STALE("container proxy runs " HUNDREDS) },
          ROLLOUT_UPDATING, "the agent of node \"\" has not verified yet what runs in it: container proxy runs " HUNDREDS },
        { .name = "its controller made it, and it is not ready",
          { .image = "B", .conditions = UNREADY }, ROLLOUT_UPDATED },
        { .name = "its controller made it, and the gate is closed",
          { .image = "B", .conditions = UNREADY "," CLOSED("InPlaceUpdate", "B") }, ROLLOUT_UPDATING },
        { .name = "the annotation is no JSON",
          { .image = "B", .metadata = ", 'annotations': {'inplaced.io/updated-containers': '{'}" },
          ROLLOUT_UPDATED },
        { .name = "the annotation is no object",
          { .image = "B", .metadata = ", 'annotations': {'inplaced.io/updated-containers': '[]'}" },
          ROLLOUT_UPDATED },

        /* minReadySeconds, at 01:46:40 */
        { .name = "it has been ready for long enough",
          { .image = "B", .id = "2", .former = FROM_A, .conditions = READY_SINCE("2001-09-09T01:46:29Z") },
          ROLLOUT_UPDATED, .min_ready_sec = 10 },
        { .name = "it has not",
          { .image = "B", .id = "2", .former = FROM_A, .conditions = READY_SINCE("2001-09-09T01:46:30Z") },
          ROLLOUT_UPDATING, "it is ready, but not yet for minReadySeconds", .min_ready_sec = 10 },
        { .name = "its container has not run for so long",
          { .image = "B", .id = "2", .former = FROM_A, .conditions = READY_SINCE("2001-09-09T01:00:00Z"),
            .state = "'running': {'startedAt': '2001-09-09T01:46:30Z'}" },
          ROLLOUT_UPDATING, "it is ready, but not yet for minReadySeconds", .min_ready_sec = 10 },

        /* failures */
        { .name = "it was updated, and its container has restarted",
          { .image = "B", .id = "2", .former = FROM_A, .state = RUNNING "}, 'restartCount': 2, 'x': {" },
          ROLLOUT_FAILED, "a container has restarted since the update: see kubectl logs --previous", .noted = "1" },
        { .name = "it was updated, and its container runs",
          { .image = "B", .id = "2", .former = FROM_A, .state = RUNNING "}, 'restartCount': 2, 'x': {" },
          ROLLOUT_UPDATED, .noted = "2" },
        { .name = "it was updated, and its container has restarted for other resources",
          { .image = "B", .id = "3", .former = FROM_A, .state = RUNNING "}, 'restartCount': 2, 'x': {" },
          ROLLOUT_UPDATED, .noted = "1, 'generation': 1" },
        { .name = "it was updated, and its container has restarted for each of two changes of its resources",
          { .image = "B", .id = "3", .former = FROM_A, .state = RUNNING "}, 'restartCount': 3, 'x': {" },
          ROLLOUT_UPDATED, .noted = "1, 'generation': 0" },
        { .name = "it was updated, and its container has restarted more often than that",
          { .image = "B", .id = "3", .former = FROM_A, .state = RUNNING "}, 'restartCount': 3, 'x': {" },
          ROLLOUT_FAILED, .noted = "1, 'generation': 1" },
        { .name = "it was updated, and has restarted with the same resources",
          { .image = "B", .id = "3", .former = FROM_A, .state = RUNNING "}, 'restartCount': 2, 'x': {" },
          ROLLOUT_FAILED, .noted = "1, 'generation': 2" },
        { .name = "it was updated, and another pod of its name has restarted",
          { .image = "B", .id = "3", .former = FROM_A, .state = RUNNING "}, 'restartCount': 2, 'x': {" },
          ROLLOUT_UPDATED, .noted = "2, 'generation': 3" },
        { .name = "it had the image already, and has waited to be started again",
          { .image = "B", .id = "2", .conditions = UNREADY, .state = RUNNING "}, 'restartCount': 2, 'x': {" },
          ROLLOUT_UPDATED, .noted = "1", .is_stateful = true },
        { .name = "it has the image by an update before, and has restarted",
          { .image = "B", .id = "3", .former = "{'app': {'image': 'A', 'id': '1', 'since': 'then'}}",
            .state = RUNNING "}, 'restartCount': 2, 'x': {" },
          ROLLOUT_UPDATED, .noted = "1", .since = "now" },
        { .name = "it has the image by this update, and has restarted",
          { .image = "B", .id = "3", .former = "{'app': {'image': 'A', 'id': '1', 'since': 'now'}}",
            .state = RUNNING "}, 'restartCount': 2, 'x': {" },
          ROLLOUT_FAILED, .noted = "1", .since = "now" },
        { .name = "it had the image already, and keeps failing",
          { .image = "B", .id = "2", .conditions = UNREADY,
            .state = WAITING("CrashLoopBackOff", "back-off") "}, 'restartCount': 4, 'x': {" },
          ROLLOUT_FAILED, .noted = "1, 'first': 1", .is_stateful = true },
        { .name = "OpenKruise has updated it, and it has restarted",
          { .image = "B", .id = "2", .state = RUNNING "}, 'restartCount': 2, 'x': {" },
          ROLLOUT_FAILED, .noted = "1", .is_of_kruise = true },
        { .name = "the image cannot be pulled",
          { .image = "B", .id = "1", .state = WAITING("ImagePullBackOff", "pulling image B"), .former = FROM_A },
          ROLLOUT_FAILED, "container app: pulling image B" },
        { .name = "the one before could not",
          { .image = "B", .id = "1", .state = WAITING("ImagePullBackOff", "pulling image A"), .former = FROM_A },
          ROLLOUT_UPDATING },
        { .name = "one that is called similarly could not",
          { .image = "B", .id = "1", .state = WAITING("ImagePullBackOff", "pulling B-missing B.1 B:1 B@x r/B"), .former = FROM_A },
          ROLLOUT_UPDATING },
        { .name = "its name ends the sentence",
          { .image = "B", .id = "1", .state = WAITING("ImagePullBackOff", "r/B or B: no."), .former = FROM_A },
          ROLLOUT_FAILED, "container app: r/B or B: no." },
        { .name = "the image of a volume cannot be pulled",
          { .image = "B", .id = "1", .state = WAITING("ImagePullBackOff", "pulling image V"), .former = FROM_A, .spec = VOLUME },
          ROLLOUT_FAILED, "container app: pulling image V" },
        { .name = "the kubelet tries again",
          { .image = "B", .id = "1", .state = WAITING("ErrImagePull", "pulling image B"), .former = FROM_A },
          ROLLOUT_UPDATING, "container app: ErrImagePull: pulling image B" },
        { .name = "its name is no reference",
          { .image = "B", .id = "1", .state = WAITING("InvalidImageName", "B is invalid"), .former = FROM_A },
          ROLLOUT_FAILED, "container app: B is invalid" },
        { .name = "the new container crashes",
          { .image = "B", .id = "2", .state = WAITING("CrashLoopBackOff", "back-off") CRASHED, .former = FROM_A },
          ROLLOUT_FAILED, "container app ends with exit code 7 (Error) (image B); see kubectl logs web-1 -c app --previous" },
        { .name = "it cannot be started",
          { .image = "B", .id = "2", .former = FROM_A, .state = WAITING("CrashLoopBackOff", "back-off")
            "}, 'lastState': {'terminated': {'exitCode': 128, 'reason': 'StartError', 'message': 'no such file'}" },
          ROLLOUT_FAILED, "container app cannot be started (image B): no such file" },
        { .name = "it has crashed twice since the update began",
          { .image = "B", .id = "2", .former = FROM_A, .state = WAITING("CrashLoopBackOff", "back-off 2m40s restarting")
            "}, 'restartCount': 5, 'lastState': {'terminated': {'finishedAt': '2001-09-09T01:45:40Z'}" },
          ROLLOUT_UPDATING, "the kubelet starts app again in 1m40s (its back-off after several starts within ten minutes)",
          .first = "3" },
        { .name = "its back-off ends within a second",
          { .image = "B", .id = "2", .former = FROM_A, .state = WAITING("CrashLoopBackOff", "back-off 2m40s restarting")
            "}, 'restartCount': 5, 'lastState': {'terminated': {'finishedAt': '2001-09-09T01:44:01Z'}" },
          ROLLOUT_UPDATING, "the kubelet starts app again in 0m01s (its back-off after several starts within ten minutes)",
          .first = "3" },
        { .name = "its back-off is over",
          { .image = "B", .id = "2", .former = FROM_A, .state = WAITING("CrashLoopBackOff", "back-off 10s restarting")
            "}, 'restartCount': 5, 'lastState': {'terminated': {'finishedAt': '2001-09-09T01:45:40Z'}" },
          ROLLOUT_UPDATING, "the kubelet starts app again soon (its back-off after several starts within ten minutes)",
          .first = "3" },
        { .name = "and once more",
          { .image = "B", .id = "2", .former = FROM_A, .state = WAITING("CrashLoopBackOff", "back-off") "}, 'restartCount': 6, 'x': {" },
          ROLLOUT_FAILED, "container app does not keep running (image B)", .first = "3" },
        { .name = "this run has found it crashing, and sees its next attempts as well",
          { .image = "B", .id = "2", .state = WAITING("CrashLoopBackOff", "back-off") CRASHED, .former = FROM_A },
          ROLLOUT_UPDATING, .is_found = true },
        { .name = "the runtime has not started it",
          { .image = "B", .id = "2", .state = WAITING("RunContainerError", "EOF") "}, 'restartCount': 4, 'x': {", .former = FROM_A },
          ROLLOUT_UPDATING, "container app: RunContainerError: EOF", .first = "3" },
        { .name = "and does not start it again",
          { .image = "B", .id = "3", .state = WAITING("RunContainerError", "no such file") "}, 'restartCount': 5, 'x': {", .former = FROM_A },
          ROLLOUT_FAILED, "container app: no such file", .first = "3" },
        { .name = "it cannot be made",
          { .image = "B", .id = "1", .state = WAITING("CreateContainerConfigError", "no config map"), .former = FROM_A },
          ROLLOUT_FAILED, "container app: no config map" },
        { .name = "the runtime died while it made it",
          { .image = "B", .id = "1", .state = WAITING("CreateContainerError", "error reading from server: EOF"), .former = FROM_A },
          ROLLOUT_UPDATING, "container app: CreateContainerError: error reading from server: EOF" },
        { .name = "the one before could not be made",
          { .image = "B", .id = "1", .state = WAITING("CreateContainerConfigError", "no config map"), .former = FROM_A,
            .is_behind = true }, ROLLOUT_UPDATING },
        { .name = "its node is lost",
          { .image = "B", .former = FROM_A, .conditions = UNREADY ", {'type': 'ContainersReady', 'status': 'True'}",
            .spec = ", 'nodeName': 'n'" }, ROLLOUT_UPDATING, "its node \"n\" does not answer" },
        { .name = "its node is lost since the gate was opened",
          { .image = "B", .id = "2", .former = FROM_A, .spec = ", 'nodeName': 'n'" GATE,
            .conditions = UNREADY_SINCE("2001-09-09T01:46:30Z") "," CONTAINERS_READY "," OPEN_SINCE("2001-09-09T01:46:29Z") },
          ROLLOUT_UPDATING, "its node \"n\" does not answer" },
        { .name = "the kubelet has not seen that the gate was opened",
          { .image = "B", .id = "2", .former = FROM_A, .spec = ", 'nodeName': 'n'" GATE,
            .conditions = UNREADY_SINCE("2001-09-09T01:46:29Z") "," CONTAINERS_READY "," OPEN_SINCE("2001-09-09T01:46:30Z") },
          ROLLOUT_UPDATING, "it is not ready" },
        { .name = "the gate does not say when it was opened",
          { .image = "B", .id = "2", .former = FROM_A, .spec = ", 'nodeName': 'n'" GATE,
            .conditions = UNREADY_SINCE("2001-09-09T01:46:29Z") "," CONTAINERS_READY "," OPEN },
          ROLLOUT_UPDATING, "it is not ready" },
        { .name = "another client has closed the gate",
          { .image = "B", .id = "2", .former = FROM_A, .spec = ", 'nodeName': 'n'" GATE,
            .conditions = UNREADY_SINCE("2001-09-09T01:46:41Z") "," CONTAINERS_READY "," CLOSED("Maintenance", "B") },
          ROLLOUT_UPDATING, "it is not ready" },
        { .name = "the agent does not open the gate",
          { .image = "B", .id = "2", .former = FROM_A, .spec = ", 'nodeName': 'n'" GATE,
            .conditions = UNREADY "," CONTAINERS_READY "," CLOSED("InPlaceUpdate", "B") },
          ROLLOUT_UPDATING, "the agent on node \"n\" has not opened its readiness gate" },
        { .name = "back, and its node is lost",
          { .image = "B", .former = FROM_A, .conditions = UNREADY ", {'type': 'ContainersReady', 'status': 'True'}" },
          ROLLOUT_OLD, .is_undo = true },
        { .name = "back, and its node was lost behind the closed gate, as a run before has found",
          { .image = "A", .former = "{'app': {'image': 'A', 'id': '1', 'silent': true}}", .spec = ", 'nodeName': 'n'" GATE,
            .conditions = UNREADY "," CONTAINERS_READY "," CLOSED("InPlaceUpdate", "A") },
          ROLLOUT_UPDATING, "its node \"n\" does not answer", .is_undo = true },
        { .name = "back, and it was not ready before either",
          { .image = "B", .former = UNREADY_A, .conditions = UNREADY }, ROLLOUT_OLD, .is_undo = true },
        { .name = "back, and it is not ready yet", { .image = "B", .former = FROM_A, .conditions = UNREADY },
          ROLLOUT_UPDATING, .is_undo = true },
        { .name = "its sandbox has not started for two minutes",
          { .image = "A", .id = "", .state = WAITING("ContainerCreating", "") , .spec = ", 'nodeName': 'n'",
            .started = "2001-09-09T01:44:40Z" }, ROLLOUT_OLD },
        { .name = "the one before crashes",
          { .image = "B", .id = "1", .state = WAITING("CrashLoopBackOff", "back-off"), .former = FROM_A },
          ROLLOUT_UPDATING },
        { .name = "the one before crashes, updated by OpenKruise",
          { .image = "B", .state = WAITING("CrashLoopBackOff", "back-off") STARTED("2001-01-01T09:00:00Z"),
            .metadata = BY_KRUISE("2001-01-01T10:00:00Z") },
          ROLLOUT_UPDATING, .is_of_kruise = true },
        { .name = "the new one crashes, updated by OpenKruise",
          { .image = "B", .state = WAITING("CrashLoopBackOff", "back-off") STARTED("2001-01-01T10:00:01Z"),
            .metadata = BY_KRUISE("2001-01-01T10:00:00Z") },
          ROLLOUT_FAILED, .is_of_kruise = true },
        { .name = "OpenKruise does not say when",
          { .image = "B", .state = WAITING("CrashLoopBackOff", "back-off") STARTED("2001-01-01T09:00:00Z"),
            .metadata = ", 'annotations': {'apps.kruise.io/inplace-update-state': '{'}" },
          ROLLOUT_FAILED, .is_of_kruise = true },
        { .name = "the image before cannot be pulled",
          { .image = "A", .id = "1", .state = WAITING("ImagePullBackOff", "pulling image A") }, ROLLOUT_OLD },

        /* the kubelet's work for the image before has to end first */
        { .name = "the kubelet is about to start it",
          { .image = "A", .id = "", .state = WAITING("ContainerCreating", ""), .spec = ", 'nodeName': 'n'" }, ROLLOUT_UPDATING,
          "container app is being created" },
        { .name = "an init container comes first",
          { .image = "A", .id = "", .state = WAITING("PodInitializing", ""), .spec = ", 'nodeName': 'n'" }, ROLLOUT_UPDATING,
          "its init containers come first" },
        { .name = "it has no node",
          { .image = "A", .id = "", .state = WAITING("ContainerCreating", "") }, ROLLOUT_OLD },
        { .name = "it tries, and cannot",
          { .image = "A", .id = "", .state = WAITING("ErrImagePull", "A"), .spec = ", 'nodeName': 'n'" }, ROLLOUT_OLD },
        { .name = "back, before the kubelet has replaced the container",
          { .image = "B", .former = FROM_A }, ROLLOUT_UPDATING,
          .is_undo = true },
        { .name = "back, after that",
          { .image = "B", .id = "2", .former = FROM_A }, ROLLOUT_OLD, .is_undo = true },
        { .name = "back, since B cannot be pulled",
          { .image = "B", .id = "1", .state = WAITING("ImagePullBackOff", "pulling image B"), .former = FROM_A },
          ROLLOUT_OLD, .is_undo = true },
        { .name = "back, since the image of a volume cannot be pulled",
          { .image = "B", .id = "1", .state = WAITING("ImagePullBackOff", "pulling image V"), .former = FROM_A, .spec = VOLUME },
          ROLLOUT_OLD, .is_undo = true },
        { .name = "back, and the container was never replaced",
          { .image = "A", .former = FROM_A }, ROLLOUT_UPDATED, .is_undo = true },
        { .name = "back, and the kubelet has not seen it",
          { .image = "A", .former = FROM_A, .is_behind = true }, ROLLOUT_UPDATING,
          .is_undo = true },
};
/* clang-format on */

static void check_state(const PhaseCase *row, const PodState *now) {
        if (now->phase != row->phase)
                fail_msg("%s: it is %s, not %s", row->name, rollout_phase_to_string(now->phase),
                         rollout_phase_to_string(row->phase));
        if (row->reason && !text_equal(now->reason, row->reason))
                fail_msg("%s: \"%s\" instead of \"%s\"", row->name, or_else(now->reason, ""),
                         or_else(row->reason, ""));
}

/* A lack of memory is no other phase. */
static void check_phase(const PhaseCase *row) {
        cleanup(json_object_put_p) json_object *pod = make_pod(&row->pod);
        cleanup(json_object_put_p) json_object *workload = make_workload(row->min_ready_sec);
        cleanup(json_object_put_p) json_object *noted =
                row->noted      ? parse("{'web-1': {'restarts': %s}}", row->noted)
                : row->first    ? parse("{'web-1': {'first': %s}}", row->first)
                : row->is_found ? parse("{}")
                                : NULL;
        cleanup(json_object_put_p) json_object *record = make_record(row->is_undo, row->partition);
        cleanup(json_object_put_p) json_object *owned = json_object_new_object();
        const RolloutView view = {
                .kind = row->is_stateful    ? WORKLOAD_STATEFUL_SET
                        : row->is_of_kruise ? WORKLOAD_CLONE_SET
                                            : WORKLOAD_POD,
                .workload = workload,
                .owned = owned,
                .noted = noted,
                .now_sec = NOW_SEC,
        };
        bool has_failed;

        if (row->since)
                json_object_object_add(record, "since", json_object_new_string(row->since));
        do {
                cleanup(pod_state_done) PodState now = { .pod = NULL };
                int r;

                failing_memory_begin();
                r = object_parse_notes(pod);
                if (r >= 0)
                        r = pod_state_read(&view, record, pod, &now);
                has_failed = failing_memory_end();
                if (r >= 0)
                        check_state(row, &now);
                else
                        assert_true(has_failed && r == -ENOMEM);
        } while (has_failed);
}

TEST(test_phase) {
        for (size_t i = 0; i < N_ELEMENTS(phase_rows); i++)
                check_phase(&phase_rows[i]);
}

static const struct GateRow {
        const char *name;
        TestPod pod;
        bool is_closed, must_close; /* before it gets B */
        int64_t closed_sec;
} gate_rows[] = {
        { "it has none", { .image = "A" }, false, false, 0 },
        { "nothing was said of it", { .image = "A", .spec = GATE }, false, true, 0 },
        { "open", { .image = "A", .spec = GATE, .conditions = OPEN }, false, true, 0 },
        { "closed for B",
          { .image = "A", .spec = GATE, .conditions = CLOSED("InPlaceUpdate", "B") },
          true,
          false,
          1000000000 },
        { "closed for C",
          { .image = "A", .spec = GATE, .conditions = CLOSED("InPlaceUpdate", "C") },
          true,
          true,
          1000000000 },
        { "closed by another author",
          { .image = "A", .spec = GATE, .conditions = CLOSED("Maintenance", "C") },
          false,
          false,
          1000000000 },
};

TEST_ROWS(test_gate, gate_rows, name, const struct GateRow *row) {
        cleanup(json_object_put_p) json_object *images = parse("{'app': 'B', 'once': 'B'}");
        cleanup(json_object_put_p) json_object *ended = parse("{'once': 'B'}");
        cleanup(json_object_put_p) json_object *pod = make_pod(&row->pod);

        if (pod_gate_is_closed(pod) != row->is_closed)
                fail_msg("%s: is it closed?", row->name);
        if (pod_gate_must_close(pod, images) != row->must_close)
                fail_msg("%s: must it be closed?", row->name);
        assert_false(pod_gate_must_close(pod, ended));
        if (row->closed_sec > 0)
                assert_int_equal(pod_gate_closed_sec(pod), row->closed_sec);
}

static const struct IsReadyRow {
        const char *conditions;
        bool is_ready;
} is_ready_rows[] = {
        { READY, true },
        { UNREADY, false },
        { OPEN, false },
        { OPEN "," READY, true },
};

TEST_ROWS(test_is_ready, is_ready_rows, conditions, const struct IsReadyRow *row) {
        cleanup(json_object_put_p) json_object *pod =
                make_pod(&(TestPod){ .image = "A", .conditions = row->conditions });

        assert_int_equal(pod_is_ready(pod), row->is_ready);
}

#define TOUCHED(more) "{'app': {'image': 'A', 'id': '1', 'since': 'now'" more "}}"

#define TIME(second) "'lastTransitionTime': '2026-01-31T12:00:" second "Z'"
#define ENDED(second) "{'type': 'ContainersReady', 'status': 'False', " TIME(second) "}"
#define CLOSED_AT(second)                                                                    \
        "{'type': 'inplaced.io/Ready', 'status': 'False', 'reason': 'InPlaceUpdate', " TIME( \
                second) "}"

/* A container that was not replaced still counts as before the first of several updates. */
TEST(test_former) {
        static const struct {
                TestPod pod;
                const char *image, *id; /* in the annotation */
                bool is_unready;        /* it was before this program touched it */
                bool is_undo;
        } rows[] = {
                { { .image = "A" }, "A", "1", false, false },
                { { .image = "A", .id = "" }, "A", "", false, false },
                { { .image = "A", .conditions = UNREADY }, "A", "1", true, false },
                { { .image = "A", .conditions = UNREADY "," CLOSED("InPlaceUpdate", "B") },
                  "A",
                  "1",
                  false,
                  false },
                /* a container ends in the pod, before its gate is closed and after it */
                { { .image = "A", .conditions = ENDED("03") "," CLOSED_AT("04") },
                  "A",
                  "1",
                  true,
                  false },
                { { .image = "A", .conditions = ENDED("04") "," CLOSED_AT("04") },
                  "A",
                  "1",
                  false,
                  false },
                { { .image = "B", .former = FROM_A }, "A", "1", false, false },
                { { .image = "B", .id = "2", .former = FROM_A }, "B", "2", false, false },
                /* bad images before, of this update and of another one */
                { { .image = "B", .former = FROM_A, .conditions = UNREADY },
                  "A",
                  "1",
                  false,
                  false },
                { { .image = "B", .id = "2", .former = FROM_A, .conditions = UNREADY },
                  "B",
                  "2",
                  true,
                  false },
                { { .image = "B", .id = "2", .former = TOUCHED(""), .conditions = UNREADY },
                  "B",
                  "2",
                  false,
                  false },
                { { .image = "B",
                    .id = "2",
                    .former = TOUCHED(", 'unready': true"),
                    .conditions = UNREADY },
                  "B",
                  "2",
                  true,
                  false },
                /* the way back need not wait for it */
                { { .image = "B", .id = "2", .former = TOUCHED(""), .conditions = UNREADY },
                  "B",
                  "2",
                  true,
                  true },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                cleanup(json_object_put_p) json_object *pod = make_pod(&rows[i].pod);
                cleanup(json_object_put_p) json_object *expected =
                        parse("{'app': {'image': '%s', 'id': '%s', 'since': 'now'%s}}",
                              rows[i].image, rows[i].id,
                              rows[i].is_unready ? ", 'unready': true" : "");
                cleanup(json_object_put_p) json_object *record =
                        parse("{'state': '%s', 'since': 'now', '%s': {'app': 'C', 'once': 'C'}}",
                              rows[i].is_undo ? "undo" : "forward",
                              rows[i].is_undo ? "before" : "after");
                cleanup(json_object_put_p) json_object *former =
                        pod_make_former(&(RolloutView){ .workload = NULL }, pod, record);

                if (!json_object_equal(former, expected))
                        fail_msg("row %zu: %s", i, json_object_to_json_string(former));
        }
}

/* The content of the container that runs tells it from the next one as well. */
TEST(test_former_content) {
        cleanup(json_object_put_p) json_object *pod =
                make_pod(&(TestPod){ .image = "A", .state = CONTENT("a") });
        cleanup(json_object_put_p) json_object *record = make_record(/* is_undo= */ false, 0);
        cleanup(json_object_put_p) json_object *former =
                pod_make_former(&(RolloutView){ .workload = NULL }, pod, record);
        cleanup(json_object_put_p) json_object *expected = parse("%s", FROM_CONTENT);

        assert_true(json_object_equal(former, expected));
}

/* The kubelet has started A before it saw B, and has gone back to A since: the ID alone does not tell what the container runs. */
TEST(test_left_alone) {
        static const struct {
                const char *state;
                const char *spec;
                const char *noted;
                int noted_sec;
                RolloutPhase phase;
        } rows[] = {
                { RUNS("A"), NULL, "updating", 61, ROLLOUT_UPDATED },
                { RUNS("A"), NULL, "updating", 60, ROLLOUT_UPDATING },
                { RUNS("A"), ", 'terminationGracePeriodSeconds': 30", "updating", 91,
                  ROLLOUT_UPDATED },
                { RUNS("A"), ", 'terminationGracePeriodSeconds': 30", "updating", 90,
                  ROLLOUT_UPDATING },
                { RUNS("B"), NULL, "updating", 61, ROLLOUT_UPDATING },
                { RUNS("A"), NULL, "updated", 0, ROLLOUT_UPDATED },
                { RUNS("B"), NULL, "updated", 0, ROLLOUT_UPDATING },
        };
        cleanup(json_object_put_p) json_object *record = make_record(/* is_undo= */ true, 0);

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                cleanup(json_object_put_p) json_object *pod =
                        make_pod(&(TestPod){ .image = "A",
                                             .former = "{'app': {'image': 'B', 'id': '1'}}",
                                             .state = rows[i].state,
                                             .spec = rows[i].spec });
                cleanup(json_object_put_p) json_object *noted =
                        parse("{'web-1': {'phase': '%s', 'since': %d}}", rows[i].noted,
                              NOW_SEC - rows[i].noted_sec);
                const RolloutView view = { .kind = WORKLOAD_POD,
                                           .now_sec = NOW_SEC,
                                           .noted = noted };
                cleanup(pod_state_done) PodState state;

                assert_true(pod_state_read(&view, record, pod, &state) >= 0);
                assert_int_equal(state.phase, rows[i].phase);
        }
}

/* The pod remembers for the next run that its node is lost. */
TEST(test_silent) {
        cleanup(json_object_put_p) json_object *pod =
                make_pod(&(TestPod){ .image = "B",
                                     .former = FROM_A,
                                     .spec = GATE,
                                     .conditions = UNREADY "," CLOSED("InPlaceUpdate", "B") });
        cleanup(json_object_put_p) json_object *noted = parse("{'web-1': {'silent': true}}");
        cleanup(json_object_put_p) json_object *record = make_record(/* is_undo= */ true, 0);

        for (int is_silent = 0; is_silent < 2; is_silent++) {
                const RolloutView view = { .noted = is_silent ? noted : NULL };
                cleanup(json_object_put_p) json_object *former =
                        pod_make_former(&view, pod, record);

                assert_int_equal(json_object_get_boolean(object_at(former, "app.silent")),
                                 is_silent);
        }
}

/* The node is back: the next update waits for the pod as for any other. */
TEST(test_silent_before) {
        cleanup(json_object_put_p) json_object *pod =
                make_pod(&(TestPod){ .image = "B",
                                     .former = TOUCHED(", 'silent': true"),
                                     .spec = GATE,
                                     .conditions = UNREADY "," CLOSED("InPlaceUpdate", "B") });
        static const char *const updates[] = { "now", "later" };

        for (size_t i = 0; i < N_ELEMENTS(updates); i++) {
                cleanup(json_object_put_p) json_object *record =
                        parse("{'state': 'forward', 'mode': 'set-image', 'since': '%s', 'before': "
                              "{'app': 'A'}, 'after': {'app': 'B'}}",
                              updates[i]);
                const RolloutView view = { .kind = WORKLOAD_POD, .now_sec = NOW_SEC };
                cleanup(json_object_put_p) json_object *former =
                        pod_make_former(&view, pod, record);
                cleanup(pod_state_done) PodState state;

                assert_true(pod_state_read(&view, record, pod, &state) >= 0);
                assert_int_equal(state.phase, ROLLOUT_UPDATING);
                assert_int_equal(state.is_given_up, i == 0);
                assert_int_equal(json_object_get_boolean(object_at(former, "app.silent")), i == 0);
        }
}

static const struct BackRow {
        const char *name;
        const char *image;  /* image of the pod */
        const char *former; /* as the last update of the pod has noted it */
        const char *state;
        bool has_gone_back;
} back_rows[] = {
        { "it was never updated", "A", NULL, "forward", false },
        { "it goes forward", "B", "{'app': {'image': 'A', 'id': '1', 'since': 'now'}}", "forward",
          false },
        { "it has gone back", "A", "{'app': {'image': 'B', 'id': '1', 'since': 'now'}}", "forward",
          true },
        { "it did so in an update before", "A",
          "{'app': {'image': 'B', 'id': '1', 'since': 'then'}}", "forward", false },
        { "it does so in this one", "A", "{'app': {'image': 'B', 'id': '1', 'since': 'now'}}",
          "undo", false },
};

/* A run that still goes forward has not seen yet that another one goes back. */
TEST_ROWS(test_gone_back, back_rows, name, const struct BackRow *row) {
        cleanup(json_object_put_p) json_object *pod =
                make_pod(&(TestPod){ .image = row->image, .former = row->former });
        cleanup(json_object_put_p) json_object *record = parse(
                "{'state': '%s', 'since': 'now', 'before': {'app': 'A'}, 'after': {'app': 'B'}}",
                row->state);

        assert_int_equal(pod_has_gone_back(pod, record), row->has_gone_back);
}

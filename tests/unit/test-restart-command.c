/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The command "restart": what it writes, and what it says as the kubelet and the agent do their part
 */

#include <time.h>

#include "agent/document/json-patch.h"
#include "agent/kubectl/commands.h"
#include "agent/kubectl/restart-plan.h"
#include "agent/kubectl/rights.h"
#include "agent/kubectl/workload.h"
#define PLAYED_PATCH
#include "tests/unit/played-cluster.h"

#define SAYS "test-restart-command: "
#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

#define STATUS(id)                                                                                \
        "{'name':'app','containerID':'" id "','image':'r.io/app:1','imageID':'r.io/app@sha256:" A \
        "','ready':true,'state':{'running':{'startedAt':'1970-01-01T00:01:00Z'}}}"
#define POD(name, uid, owner)                                                                                       \
        "{'metadata':{'name':'" name "','uid':'" uid                                                                \
        "','resourceVersion':'7','labels':{'app':'web','x':'1'}" owner "},"                                         \
        "'spec':{'restartPolicy':'Always','containers':[{'name':'app','image':'r.io/app:1'}]},"                     \
        "'status':{'phase':'Running','conditions':[{'type':'Ready','status':'True'}],'containerStatuses':[" STATUS( \
                "c1") "]}}"
#define OWNER \
        ",'ownerReferences':[{'controller':true,'apiVersion':'apps/v1','kind':'StatefulSet','name':'web','uid':'w'}]"

/* clang-format off */
static const char objects[] =
        "{'pods':[" POD("web-0", "u0", OWNER) "," POD("web-1", "u1", OWNER) "," POD("alone", "u2", "") "],"
        "'statefulsets':[{'metadata':{'name':'web','uid':'w'},'spec':{'replicas':2,'selector':{'matchLabels':{'app':'web'}}}}]}";

/* The kubelet does these to a pod whose images were written, or that has a request. */
typedef enum Kubelet {
        RESTARTS,
        CRASHES,
        CANNOT_PULL,
        DELETES,
        ENDS,
} Kubelet;

static const struct Row {
        const char *name;
        Flags flags;
        const char *arguments[3];
        Kubelet kubelet;
        unsigned n_conflicts; /* writes of the pod that another client's is before */
        bool is_lost;         /* the answer to the first write */
        bool is_changed;      /* by admission */
        const char *missing;  /* kind of OpenKruise that is not served */
        bool is_dry_run;
        const char *writes, *out, *err;
        int status;
} rows[] = {
        { "a pod", { 0 }, { "alone" }, RESTARTS, 0, false, false, NULL, false, "patch pods/alone {'metadata':{'uid':'u2','resourceVersion':'7','annotations':{},'labels':{}},'spec':{'containers':[{'name':'app','image':'r.io/app:1@sha256:" A "'}]}}\n",
            "pod/alone restarting\n"
            "pod/alone restarted\n", "", EXIT_STATUS_DONE },
        { "a workload", { 0 }, { "statefulset/web" }, RESTARTS, 0, false, false, NULL, false,
            "patch pods/web-1 {'metadata':{'uid':'u1','resourceVersion':'7','annotations':{},'labels':{}},'spec':{'containers':[{'name':'app','image':'r.io/app:1@sha256:" A "'}]}}\n"
            "patch pods/web-0 {'metadata':{'uid':'u0','resourceVersion':'7','annotations':{},'labels':{}},'spec':{'containers':[{'name':'app','image':'r.io/app:1@sha256:" A "'}]}}\n",
            "pod/web-1 restarting\n"
            "pod/web-1 restarted\n"
            "pod/web-0 restarting\n"
            "pod/web-0 restarted\n", "", EXIT_STATUS_DONE },
        { "a pod twice", { 0 }, { "alone", "pod/alone" }, RESTARTS, 0, false, false, NULL, false, "patch pods/alone {'metadata':{'uid':'u2','resourceVersion':'7','annotations':{},'labels':{}},'spec':{'containers':[{'name':'app','image':'r.io/app:1@sha256:" A "'}]}}\n",
            "pod/alone restarting\n"
            "pod/alone restarted\n", "", EXIT_STATUS_DONE },
        { "with a label", { .labels = { "x=2" } }, { "web-0" }, RESTARTS, 0, false, false, NULL, false, "patch pods/web-0 {'metadata':{'uid':'u0','resourceVersion':'7','annotations':{},'labels':{'x':'2'}},'spec':{'containers':[{'name':'app','image':'r.io/app:1@sha256:" A "'}]}}\n",
            "pod/web-0 restarting\n"
            "pod/web-0 restarted\n", "", EXIT_STATUS_DONE },
        { "with a label of its controller", { .labels = { "app=2" } }, { "web-0" }, RESTARTS, 0, false, false, NULL, false, "", "",
            SAYS "pod/web-0: --label changes a label by which its controller finds the pod, and would replace it\n"
            SAYS "1 of 1 pods were not restarted: restart them by name\n", EXIT_STATUS_FAILED },
        { "with an annotation", { .annotations = { "x=2" } }, { "alone" }, RESTARTS, 0, false, false, NULL, false, "patch pods/alone {'metadata':{'uid':'u2','resourceVersion':'7','annotations':{'x':'2'},'labels':{}},'spec':{'containers':[{'name':'app','image':'r.io/app:1@sha256:" A "'}]}}\n",
            "pod/alone restarting\n"
            "pod/alone restarted\n", "", EXIT_STATUS_DONE },
        { "what crashes then", { 0 }, { "alone" }, CRASHES, 0, false, false, NULL, false, "patch pods/alone {'metadata':{'uid':'u2','resourceVersion':'7','annotations':{},'labels':{}},'spec':{'containers':[{'name':'app','image':'r.io/app:1@sha256:" A "'}]}}\n", "pod/alone restarting\n", SAYS "pod/alone was not restarted: container app has ended again, with exit code 1; see kubectl logs --previous\n", EXIT_STATUS_FAILED },
        { "the first of two crashes", { .format = OUTPUT_JSON }, { "statefulset/web" }, CRASHES, 0, false, false, NULL, false, "patch pods/web-1 {'metadata':{'uid':'u1','resourceVersion':'7','annotations':{},'labels':{}},'spec':{'containers':[{'name':'app','image':'r.io/app:1@sha256:" A "'}]}}\n",
            "{\n"
            "  \"items\": [\n"
            "    {\n"
            "      \"pod\": \"web-1\",\n"
            "      \"containers\": [\n"
            "        \"app\"\n"
            "      ],\n"
            "      \"phase\": \"Failed\",\n"
            "      \"message\": \"container app has ended again, with exit code 1; see kubectl logs --previous\"\n"
            "    },\n"
            "    {\n"
            "      \"pod\": \"web-0\",\n"
            "      \"containers\": [\n"
            "        \"app\"\n"
            "      ],\n"
            "      \"phase\": \"NotBegun\"\n"
            "    }\n"
            "  ]\n"
            "}\n",
            SAYS "pod/web-1 was not restarted: container app has ended again, with exit code 1; see kubectl logs --previous\n"
            SAYS "1 of 2 pods were not restarted: restart them by name\n", EXIT_STATUS_FAILED },
        { "what cannot be pulled", { 0 }, { "alone" }, CANNOT_PULL, 0, false, false, NULL, false,
            "patch pods/alone {'metadata':{'uid':'u2','resourceVersion':'7','annotations':{},'labels':{}},'spec':{'containers':[{'name':'app','image':'r.io/app:1@sha256:" A "'}]}}\n"
            "patch pods/alone {'metadata':{'uid':'u2','resourceVersion':'7'},'spec':{'containers':[{'name':'app','image':'r.io/app:1'}]}}\n", "pod/alone restarting\n",
            SAYS "pod/alone: its images were written back\n"
            SAYS "pod/alone was not restarted: container app: ImagePullBackOff: Back-off pulling image \"r.io/app:1@sha256:" A "\"\n", EXIT_STATUS_FAILED },
        { "what cannot be pulled, and is written by others, too", { 0 }, { "alone" }, CANNOT_PULL, 2, false, false, NULL, false,
            "patch pods/alone {'metadata':{'uid':'u2','resourceVersion':'7','annotations':{},'labels':{}},'spec':{'containers':[{'name':'app','image':'r.io/app:1@sha256:" A "'}]}}\n"
            "patch pods/alone {'metadata':{'uid':'u2','resourceVersion':'7'},'spec':{'containers':[{'name':'app','image':'r.io/app:1'}]}}\n", "pod/alone restarting\n",
            SAYS "pod/alone: its images were written back\n"
            SAYS "pod/alone was not restarted: container app: ImagePullBackOff: Back-off pulling image \"r.io/app:1@sha256:" A "\"\n", EXIT_STATUS_FAILED },
        { "what is deleted", { 0 }, { "alone" }, DELETES, 0, false, false, NULL, false, "patch pods/alone {'metadata':{'uid':'u2','resourceVersion':'7','annotations':{},'labels':{}},'spec':{'containers':[{'name':'app','image':'r.io/app:1@sha256:" A "'}]}}\n",
            "pod/alone restarting\n"
            "pod/alone gone\n", "", EXIT_STATUS_DONE },
        { "what ends", { 0 }, { "alone" }, ENDS, 0, false, false, NULL, false, "patch pods/alone {'metadata':{'uid':'u2','resourceVersion':'7','annotations':{},'labels':{}},'spec':{'containers':[{'name':'app','image':'r.io/app:1@sha256:" A "'}]}}\n",
            "pod/alone restarting\n"
            "pod/alone gone\n", "", EXIT_STATUS_DONE },
        { "what others write", { 0 }, { "alone" }, RESTARTS, 2, false, false, NULL, false, "patch pods/alone {'metadata':{'uid':'u2','resourceVersion':'7','annotations':{},'labels':{}},'spec':{'containers':[{'name':'app','image':'r.io/app:1@sha256:" A "'}]}}\n",
            "pod/alone restarting\n"
            "pod/alone restarted\n", "", EXIT_STATUS_DONE },
        { "what others always write", { 0 }, { "alone" }, RESTARTS, 99, false, false, NULL, false, "", "pod/alone restarting\n",
            SAYS "another client was first\n"
            SAYS "1 of 1 pods were not restarted: restart them by name\n", EXIT_STATUS_FAILED },
        { "the answer is lost", { 0 }, { "alone" }, RESTARTS, 0, true, false, NULL, false, "patch pods/alone {'metadata':{'uid':'u2','resourceVersion':'7','annotations':{},'labels':{}},'spec':{'containers':[{'name':'app','image':'r.io/app:1@sha256:" A "'}]}}\n",
            "pod/alone restarting\n"
            "pod/alone restarted\n", "", EXIT_STATUS_DONE },
        { "admission makes another image", { 0 }, { "alone" }, RESTARTS, 0, false, true, NULL, false, "patch pods/alone {'metadata':{'uid':'u2','resourceVersion':'7','annotations':{},'labels':{}},'spec':{'containers':[{'name':'app','image':'r.io/app:1@sha256:" A "'}]}}\n", "pod/alone restarting\n",
            SAYS "admission makes \"mirror/app:1\" of the image \"r.io/app:1@sha256:" A "\" of container \"app\" in object \"alone\": set that image instead, or exempt it\n"
            SAYS "restarts in progress continue: the kubelet restarts the containers\n", EXIT_STATUS_FAILED },
        { "tried", { .is_dry_run = true }, { "statefulset/web" }, RESTARTS, 0, false, false, NULL, true,
            "patch pods/web-1 {'metadata':{'uid':'u1','resourceVersion':'7','annotations':{},'labels':{}},'spec':{'containers':[{'name':'app','image':'r.io/app:1@sha256:" A "'}]}}\n"
            "patch pods/web-0 {'metadata':{'uid':'u0','resourceVersion':'7','annotations':{},'labels':{}},'spec':{'containers':[{'name':'app','image':'r.io/app:1@sha256:" A "'}]}}\n",
            "pod/web-1 restarted (server dry run)\n"
            "pod/web-0 restarted (server dry run)\n", "", EXIT_STATUS_DONE },
        { "by request", { .request = true }, { "alone" }, RESTARTS, 0, false, false, NULL, false, "create containerrecreaterequests {'kind':'ContainerRecreateRequest','metadata':{'generateName':'inplace-restart-','labels':{'inplaced.io/restart':'RRRRRRRRRRRRRRRR'}},'spec':{'podName':'alone','containers':[{'name':'app'}],'ttlSecondsAfterFinished':600},'apiVersion':'apps.kruise.io/v1alpha1'}\n",
            "pod/alone restarting\n"
            "pod/alone restarted\n", "", EXIT_STATUS_DONE },
        { "by request, which fails", { .request = true }, { "alone" }, CRASHES, 0, false, false, NULL, false, "create containerrecreaterequests {'kind':'ContainerRecreateRequest','metadata':{'generateName':'inplace-restart-','labels':{'inplaced.io/restart':'RRRRRRRRRRRRRRRR'}},'spec':{'podName':'alone','containers':[{'name':'app'}],'ttlSecondsAfterFinished':600},'apiVersion':'apps.kruise.io/v1alpha1'}\n", "pod/alone restarting\n", SAYS "pod/alone was not restarted: container app: no\n", EXIT_STATUS_FAILED },
        { "by request, which is deleted", { .request = true, .format = OUTPUT_JSON }, { "alone" }, DELETES, 0, false, false, NULL, false, "create containerrecreaterequests {'kind':'ContainerRecreateRequest','metadata':{'generateName':'inplace-restart-','labels':{'inplaced.io/restart':'RRRRRRRRRRRRRRRR'}},'spec':{'podName':'alone','containers':[{'name':'app'}],'ttlSecondsAfterFinished':600},'apiVersion':'apps.kruise.io/v1alpha1'}\n",
            "{\n"
            "  \"items\": [\n"
            "    {\n"
            "      \"pod\": \"alone\",\n"
            "      \"containers\": [\n"
            "        \"app\"\n"
            "      ],\n"
            "      \"phase\": \"Failed\",\n"
            "      \"message\": \"its request was deleted\",\n"
            "      \"request\": \"new\"\n"
            "    }\n"
            "  ]\n"
            "}\n", SAYS "pod/alone was not restarted: its request was deleted\n", EXIT_STATUS_FAILED },
        { "by request where there are none", { .request = true }, { "alone" }, RESTARTS, 0, false, false, "containerrecreaterequests", false, "", "",
            SAYS "https://k serves no ContainerRecreateRequests; apply the definitions of inplaced, or install OpenKruise\n"
            SAYS "1 of 1 pods were not restarted: restart them by name\n", EXIT_STATUS_FAILED },
        { "by request with a label", { .request = true, .labels = { "x=2" } }, { "alone" }, RESTARTS, 0, false, false, NULL, false, "", "", SAYS "--request changes neither labels nor annotations: leave one out\n", EXIT_STATUS_USAGE },
        { "no such pod", { 0 }, { "none" }, RESTARTS, 0, false, false, NULL, false, "", "", SAYS "none: there is no such pod that runs in namespace shop: see kubectl get pods -A\n", EXIT_STATUS_FAILED },
        { "no such container", { .containers = "x" }, { "alone" }, RESTARTS, 0, false, false, NULL, false, "", "", SAYS "pod/alone has no container \"x\" that keeps running; the pod has app\n", EXIT_STATUS_FAILED },
        { "nothing", { 0 }, { NULL }, RESTARTS, 0, false, false, NULL, false, "", "", SAYS "expected pods, or labels by -l; try: kubectl inplace help restart\n", EXIT_STATUS_USAGE },
        { "pods and labels", { .selector = "app" }, { "alone" }, RESTARTS, 0, false, false, NULL, false, "", "", SAYS "expected pods, or labels by -l; try: kubectl inplace help restart\n", EXIT_STATUS_USAGE },
        { "labels", { .selector = "app", .max_unavailable = "3" }, { NULL }, RESTARTS, 0, false, false, NULL, false,
            "patch pods/web-0 {'metadata':{'uid':'u0','resourceVersion':'7','annotations':{},'labels':{}},'spec':{'containers':[{'name':'app','image':'r.io/app:1@sha256:" A "'}]}}\n"
            "patch pods/web-1 {'metadata':{'uid':'u1','resourceVersion':'7','annotations':{},'labels':{}},'spec':{'containers':[{'name':'app','image':'r.io/app:1@sha256:" A "'}]}}\n"
            "patch pods/alone {'metadata':{'uid':'u2','resourceVersion':'7','annotations':{},'labels':{}},'spec':{'containers':[{'name':'app','image':'r.io/app:1@sha256:" A "'}]}}\n",
            "pod/web-0 restarting\n"
            "pod/web-1 restarting\n"
            "pod/alone restarting\n"
            "pod/web-0 restarted\n"
            "pod/web-1 restarted\n"
            "pod/alone restarted\n", "", EXIT_STATUS_DONE },
        { "no share", { .max_unavailable = "x" }, { "alone" }, RESTARTS, 0, false, false, NULL, false, "", "",
            SAYS "--max-unavailable: \"x\": expected a number, or a percentage such as 25%\n"
            SAYS "1 of 1 pods were not restarted: restart them by name\n", EXIT_STATUS_FAILED },
        { "no label", { .labels = { "x" } }, { "alone" }, RESTARTS, 0, false, false, NULL, false, "", "", SAYS "--label: \"x\": expected KEY=VALUE, or KEY- to remove it; try: kubectl inplace help restart\n", EXIT_STATUS_USAGE },
};
/* clang-format on */

static const struct Row *shown;
static unsigned n_patches, n_pauses;

int clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_session_wait(Session *session, const SessionWait *wait, Error *reterr);
int __wrap_session_list_metadata(Session *session, const KubePath *path, SessionItem on_item,
                                 void *userdata, Error *reterr);
int __wrap_session_pause(Session *session, uint64_t usec, Error *reterr);
int __wrap_session_end_status(const Session *session);
bool __wrap_session_is_ended(const Session *session);
int __wrap_rights_require_task(Session *session, RightsTask task, Error *reterr);

int clock_gettime(clockid_t clock, struct timespec *ret) {
        *ret = (struct timespec){ .tv_sec = PLAYED_NOW };
        return 0;
}

int __wrap_rights_require_task(Session *session, RightsTask task, Error *reterr) {
        return 0;
}

int __wrap_session_end_status(const Session *session) {
        return 0;
}

bool __wrap_session_is_ended(const Session *session) {
        return false;
}

int __wrap_session_pause(Session *session, uint64_t usec, Error *reterr) {
        n_pauses++;
        return 0;
}

int __wrap_session_list_metadata(Session *session, const KubePath *path, SessionItem on_item,
                                 void *userdata, Error *reterr) {
        return __wrap_session_list(session, path, on_item, userdata, reterr);
}

static json_object *find_pod(const char *name) {
        json_object *pods = json_get(cluster.objects, "pods", json_type_array);

        for (size_t i = 0; i < json_object_array_length(pods); i++)
                if (strcmp(object_name(json_object_array_get_idx(pods, i)), name) == 0)
                        return json_object_array_get_idx(pods, i);
        return NULL;
}

/* Merges the patch into the pod as the server does. */
static void merge(json_object *pod, json_object *patch) {
        json_object *list = object_list(patch, "spec.containers");

        json_object_object_foreach(object_at(patch, "metadata"), key, value) {
                if (strcmp(key, "labels") == 0 || strcmp(key, "annotations") == 0)
                        json_object_object_add(object_at(pod, "metadata"), key,
                                               json_object_get(value));
        }
        for (size_t i = 0; list && i < json_object_array_length(list); i++) {
                json_object *item = json_object_array_get_idx(list, i);
                json_object *container = json_find(object_list(pod, "spec.containers"), "name",
                                                   json_get_text(item, "name"));

                json_object_object_add(container, "image",
                                       json_object_new_string(json_get_text(item, "image")));
        }
}

/* Writes of pods have other rules than those of played-cluster.h. */
int __wrap_session_patch(Session *session, const KubePath *path, const char *content_type,
                         json_object *patch, json_object **ret, Error *reterr) {
        cleanup(json_object_put_p) json_object *noted = json_copy(patch);
        json_object *pod = find_pod(path->name);

        n_patches++;
        if (n_patches % (shown->n_conflicts + 1) != 0)
                return error_set(reterr, ERROR_CONFLICT, "another client was first");
        if (object_at(noted, "metadata.annotations"))
                json_object_object_del(object_at(noted, "metadata.annotations"),
                                       "inplaced.io/restarted");
        (void) cluster_note("patch", path, noted);
        merge(pod, patch);
        if (shown->is_changed)
                json_object_object_add(
                        json_object_array_get_idx(object_list(pod, "spec.containers"), 0), "image",
                        json_object_new_string("mirror/app:1"));
        if (shown->is_lost && n_patches == 1)
                return error_set(reterr, ERROR_UNAVAILABLE, "no answer");
        if (ret)
                *ret = json_copy(pod);
        return 0;
}

static const char *const statuses[] = {
        [RESTARTS] = STATUS("c2"),
        [CRASHES] =
                "{'name':'app','containerID':'c2','restartCount':3,'state':{'waiting':{'reason':'CrashLoopBackOff','message':'back-off 20s'}},'lastState':{'terminated':{'exitCode':1,'reason':'Error'}}}",
        [CANNOT_PULL] =
                "{'name':'app','containerID':'c1','state':{'waiting':{'reason':'ImagePullBackOff','message':'Back-off pulling image \\'r.io/app:1@sha256:" A
                "\\''}}}",
        [DELETES] = "{}",
        [ENDS] = "{'name':'app','containerID':'c1','state':{'terminated':{'exitCode':0}}}",
};

static void show_pod(const SessionWait *wait) {
        const char *name = strchr(wait->watches[0].fields, '=') + 1;
        json_object *pod = find_pod(name);
        cleanup(json_object_put_p) json_object *list = parse("[%s]", statuses[shown->kubelet]);
        cleanup(json_object_put_p) json_object *copy = NULL;
        KubeObject object = { .name = name, .uid = object_text(pod, "metadata.uid") };

        if (shown->kubelet == DELETES) {
                assert_ok(wait->watches[0].on_gone(&object, wait->userdata));
                return;
        }
        json_object_object_add(object_at(pod, "status"), "containerStatuses",
                               json_object_get(list));
        if (shown->kubelet == ENDS)
                json_object_object_add(object_at(pod, "status"), "phase",
                                       json_object_new_string("Succeeded"));
        object.json = copy = json_copy(pod);
        assert_ok(wait->watches[0].on_object(&object, wait->userdata));
}

static void show_request(const SessionWait *wait) {
        cleanup(json_object_put_p) json_object *request = parse(
                "{'metadata':{'name':'new'},'status':{'phase':'Completed','containerRecreateStates':[{'name':'app','phase':'%s'%s}]}}",
                shown->kubelet == RESTARTS ? "Succeeded" : "Failed",
                shown->kubelet == RESTARTS ? "" : ",'message':'no'");
        const KubeObject object = { .name = "new", .json = request },
                         other = { .name = "y", .json = request };

        assert_memory_equal(wait->watches[0].labels, "inplaced.io/restart=", 20);
        assert_ok(wait->watches[0].on_object(&other, wait->userdata));
        assert_int_equal(wait->is_done(wait->userdata), 0);
        if (shown->kubelet == DELETES)
                assert_ok(wait->watches[0].on_gone(&object, wait->userdata));
        else
                assert_ok(wait->watches[0].on_object(&object, wait->userdata));
}

static void show_pods(const SessionWait *wait) {
        json_object *pods = json_get(cluster.objects, "pods", json_type_array);

        for (size_t i = 0; wait->n_watches > 1 && i < json_object_array_length(pods); i++) {
                cleanup(json_object_put_p) json_object *pod =
                        json_copy(json_object_array_get_idx(pods, i));
                const KubeObject object = { .name = object_name(pod), .json = pod };

                if (json_get(object_at(pod, "metadata"), "ownerReferences", json_type_array))
                        assert_ok(wait->watches[1].on_object(&object, wait->userdata));
        }
}

int __wrap_session_wait(Session *session, const SessionWait *wait, Error *reterr) {
        const char *resource = wait->watches[0].path.resource;

        if (strcmp(resource, "pods") == 0)
                show_pod(wait);
        else if (strcmp(resource, "containerrecreaterequests") == 0)
                show_request(wait);
        else
                show_pods(wait);
        assert_int_equal(wait->is_done(wait->userdata), 1);
        return 0;
}

/* The ID of a run is random. */
static void hide_run(void) {
        char *at = strstr(cluster.writes, "'inplaced.io/restart':'");

        if (at)
                memset(at + strlen("'inplaced.io/restart':'"), 'R', 16);
}

TEST_ROWS(test_restart, rows, name, const struct Row *row) {
        Flags flags = row->flags;
        Played played;

        shown = row;
        n_patches = n_pauses = 0;
        flags.arguments = (char **) row->arguments;
        while (row->arguments[flags.n_arguments])
                flags.n_arguments++;
        cluster.missing[0] = row->missing;
        cluster.is_dry_run = row->is_dry_run;
        PLAY(&played, objects, kubectl_restart(NULL, &flags));
        hide_run();
        assert_string_equal(cluster.writes, row->writes);
        assert_string_equal(played.out.text, row->out);
        assert_string_equal(played.err.text, row->err);
        assert_int_equal(played.status, row->status);
        assert_int_equal(n_pauses, row->is_lost);
}

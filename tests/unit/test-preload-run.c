/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A preload: its writes and its lines as its nodes go on
 */

#include <time.h>

#include "agent/kube/patch.h"
#include "agent/kubectl/preload.h"
#include "agent/kubectl/workload.h"
#define PLAYED_PATCH
#include "tests/unit/played-cluster.h"

#define SAYS "test-preload-run: "
#define TURNS_MAX 5
#define NODE(name)                                    \
        "{'metadata':{'name':'" name "','uid':'" name \
        "','resourceVersion':'1','labels':{'pool':'a'}},'spec':{'images':{}},'status':{}}"
#define JOB(name, image)                                                                         \
        "{'metadata':{'name':'" name "','uid':'" name                                            \
        "','labels':{'app.kubernetes.io/managed-by':'kubectl-inplace'}},'spec':{'image':'" image \
        "'}}"

#define TAG \
        "{'tag':'1','createdAt':'1970-01-01T00:16:40Z','version':0,'imagePullPolicy':'IfNotPresent','pullPolicy':{'ttlSecondsAfterFinished':3600}}"

/* clang-format off */
/* A step of the nodes and of the server, before the command has its turn:
 * show: the watch shows all NodeImages; taken, conflict, refused, lost: the answer to each write;
 * pulling, succeeded, failed: each image of each node, which is shown; n1 ... succeeded: those of a node;
 * gone: a node is deleted; jobs-end: as their controller says; second, minute, hour: time passes;
 * away: the server does not answer. */
static const struct Row {
        const char *name;
        PreloadMode mode;
        const char *images[5];
        const char *nodes;  /* {name: null} */
        const char *labels, *parallelism, *max_failures;
        bool has_jobs, is_terminal, is_quiet, is_dry_run;
        const char *turns[TURNS_MAX];
        const char *writes, *out, *err;
        int status; /* 100 times the nodes that are done, and those that have failed */
} rows[] = {
        { "two nodes", PRELOAD_PULL, { "r.io/a:1" }, "{'n1':null,'n2':null}", NULL, NULL, NULL, false, false, false, false,
          { "show", "taken", "pulling", "n1 succeeded", "n2 failed" },
            "patch nodeimages/n1 {'spec':{'images':{'r.io/a':{'tags':[" TAG "]}}}}\n"
            "patch nodeimages/n2 {'spec':{'images':{'r.io/a':{'tags':[" TAG "]}}}}\n",
            "preloading r.io/a:1 on 2 nodes\n"
            "IMAGE     NODES  DONE  WAITING  RUNNING  FAILED  PROGRESS  SINCE\n"
            "r.io/a:1      2     1        0        0       1      100%     5s\n", SAYS "reasons: NotFound on node n2: no such tag\\n\n", 101 },
        { "a label, and two images", PRELOAD_PULL, { "r.io/a:1", "r.io/b:1" }, "{}", "pool=a", "1", NULL, false, false, false, false,
          { "show", "taken", "succeeded", "taken", "succeeded" },
            "patch nodeimages/n1 {'spec':{'images':{'r.io/a':{'tags':[" TAG "]},'r.io/b':{'tags':[" TAG "]}}}}\n"
            "patch nodeimages/n2 {'spec':{'images':{'r.io/a':{'tags':[" TAG "]},'r.io/b':{'tags':[" TAG "]}}}}\n",
            "preloading r.io/a:1 and 1 more image on 2 nodes\n"
            "IMAGE     NODES  DONE  WAITING  RUNNING  FAILED  PROGRESS  SINCE\n"
            "r.io/a:1      2     2        0        0       0      100%     5s\n"
            "r.io/b:1      2     2        0        0       0      100%     5s\n", "", 200 },
        { "a terminal", PRELOAD_PULL, { "r.io/a:1", "r.io/b:1" }, "{'n1':null}", NULL, NULL, NULL, false, true, false, false,
          { "show", "taken", "pulling", "minute", "n1 succeeded" }, "patch nodeimages/n1 {'spec':{'images':{'r.io/a':{'tags':[" TAG "]},'r.io/b':{'tags':[" TAG "]}}}}\n",
            "IMAGE     NODES  DONE  WAITING  RUNNING  FAILED  PROGRESS  SINCE\n"
            "r.io/a:1      1     0        1        0       0        0%     1s\n"
            "r.io/b:1      1     0        1        0       0        0%     1s\n"
            "\r\033[3A\033[JIMAGE     NODES  DONE  WAITING  RUNNING  FAILED  PROGRESS  SINCE\n"
            "r.io/a:1      1     0        1        0       0        0%     2s\n"
            "r.io/b:1      1     0        1        0       0        0%     2s\n"
            "\r\033[3A\033[JIMAGE     NODES  DONE  WAITING  RUNNING  FAILED  PROGRESS  SINCE\n"
            "r.io/a:1      1     0        0        1       0       40%     3s\n"
            "r.io/b:1      1     0        0        1       0       40%     3s\n"
            "\r\033[3A\033[JIMAGE     NODES  DONE  WAITING  RUNNING  FAILED  PROGRESS  SINCE\n"
            "r.io/a:1      1     0        0        1       0       40%     1m\n"
            "r.io/b:1      1     0        0        1       0       40%     1m\n"
            "waiting: the image is being pulled on node n1\n"
            "\r\033[4A\033[JIMAGE     NODES  DONE  WAITING  RUNNING  FAILED  PROGRESS  SINCE\n"
            "r.io/a:1      1     1        0        0       0      100%     1m\n"
            "r.io/b:1      1     1        0        0       0      100%     1m\n"
            "\r\033[3A\033[JIMAGE     NODES  DONE  WAITING  RUNNING  FAILED  PROGRESS  SINCE\n"
            "r.io/a:1      1     1        0        0       0      100%     1m\n"
            "r.io/b:1      1     1        0        0       0      100%     1m\n", "", 100 },
        { "many images on a terminal", PRELOAD_PULL, { "r.io/a:1", "r.io/b:1", "r.io/c:1", "r.io/d:1" }, "{'n1':null}", NULL, NULL, NULL, false, true, false, false,
          { "show", "taken", "pulling", "n1 succeeded" }, "patch nodeimages/n1 {'spec':{'images':{'r.io/a':{'tags':[" TAG "]},'r.io/b':{'tags':[" TAG "]},'r.io/c':{'tags':[" TAG "]},'r.io/d':{'tags':[" TAG "]}}}}\n",
            "IMAGE     NODES  DONE  WAITING  RUNNING  FAILED  PROGRESS  SINCE\n"
            "r.io/a:1      1     0        1        0       0        0%     1s\n"
            "r.io/b:1      1     0        1        0       0        0%     1s\n"
            "2 more\n"
            "\r\033[4A\033[JIMAGE     NODES  DONE  WAITING  RUNNING  FAILED  PROGRESS  SINCE\n"
            "r.io/a:1      1     0        1        0       0        0%     2s\n"
            "r.io/b:1      1     0        1        0       0        0%     2s\n"
            "2 more\n"
            "\r\033[4A\033[JIMAGE     NODES  DONE  WAITING  RUNNING  FAILED  PROGRESS  SINCE\n"
            "r.io/a:1      1     0        0        1       0       40%     3s\n"
            "r.io/b:1      1     0        0        1       0       40%     3s\n"
            "2 more\n"
            "\r\033[4A\033[JIMAGE     NODES  DONE  WAITING  RUNNING  FAILED  PROGRESS  SINCE\n"
            "r.io/a:1      1     1        0        0       0      100%     4s\n"
            "r.io/b:1      1     1        0        0       0      100%     4s\n"
            "2 more\n"
            "\r\033[4A\033[JIMAGE     NODES  DONE  WAITING  RUNNING  FAILED  PROGRESS  SINCE\n"
            "r.io/a:1      1     1        0        0       0      100%     4s\n"
            "r.io/b:1      1     1        0        0       0      100%     4s\n"
            "r.io/c:1      1     1        0        0       0      100%     4s\n"
            "r.io/d:1      1     1        0        0       0      100%     4s\n", "", 100 },
        { "beside a document", PRELOAD_PULL, { "r.io/a:1" }, "{'n1':null}", NULL, NULL, NULL, false, false, true, false,
          { "show", "taken", "pulling", "minute", "n1 succeeded" }, "patch nodeimages/n1 {'spec':{'images':{'r.io/a':{'tags':[" TAG "]}}}}\n", "", SAYS "waiting: the image is being pulled on node n1\n", 100 },
        { "no agent answers", PRELOAD_PULL, { "r.io/a:1" }, "{'n1':null}", NULL, NULL, NULL, false, false, false, false,
          { "show", "taken", "show", "minute" }, "patch nodeimages/n1 {'spec':{'images':{'r.io/a':{'tags':[" TAG "]}}}}\n",
            "preloading r.io/a:1 on 1 node\n"
            "IMAGE     NODES  DONE  WAITING  RUNNING  FAILED  PROGRESS  SINCE\n"
            "r.io/a:1      1     0        0        0       1        0%     1m\n", SAYS "reasons: no agent answers on node n1\\n\n", 1 },
        { "nothing goes on", PRELOAD_PULL, { "r.io/a:1" }, "{'n1':null}", NULL, NULL, NULL, false, false, false, false,
          { "show", "taken", "pulling", "hour" }, "patch nodeimages/n1 {'spec':{'images':{'r.io/a':{'tags':[" TAG "]}}}}\n",
            "preloading r.io/a:1 on 1 node\n"
            "IMAGE     NODES  DONE  WAITING  RUNNING  FAILED  PROGRESS  SINCE\n"
            "r.io/a:1      1     0        0        0       1       40%     1h\n", SAYS "reasons: NoProgress on node n1: nothing has changed for ten minutes\\n\n", 1 },
        { "another client is first", PRELOAD_PULL, { "r.io/a:1" }, "{'n1':null}", NULL, NULL, NULL, false, false, false, false,
          { "show", "conflict", "show", "taken", "n1 succeeded" },
            "patch nodeimages/n1 {'spec':{'images':{'r.io/a':{'tags':[" TAG "]}}}}\n"
            "patch nodeimages/n1 {'spec':{'images':{'r.io/a':{'tags':[" TAG "]}}}}\n",
            "preloading r.io/a:1 on 1 node\n"
            "IMAGE     NODES  DONE  WAITING  RUNNING  FAILED  PROGRESS  SINCE\n"
            "r.io/a:1      1     1        0        0       0      100%     5s\n", "", 100 },
        { "no right", PRELOAD_PULL, { "r.io/a:1" }, "{'n1':null}", NULL, NULL, NULL, false, false, false, false,
          { "show", "refused" }, "patch nodeimages/n1 {'spec':{'images':{'r.io/a':{'tags':[" TAG "]}}}}\n",
            "preloading r.io/a:1 on 1 node\n"
            "IMAGE     NODES  DONE  WAITING  RUNNING  FAILED  PROGRESS  SINCE\n"
            "r.io/a:1      1     0        0        0       1        0%     2s\n", SAYS "reasons: no right on node n1\\n\n", 1 },
        { "the node is gone", PRELOAD_PULL, { "r.io/a:1" }, "{'n1':null}", NULL, NULL, NULL, false, false, false, false,
          { "show", "lost" }, "patch nodeimages/n1 {'spec':{'images':{'r.io/a':{'tags':[" TAG "]}}}}\n",
            "preloading r.io/a:1 on 1 node\n"
            "IMAGE     NODES  DONE  WAITING  RUNNING  FAILED  PROGRESS  SINCE\n"
            "r.io/a:1      1     0        0        0       1        0%     2s\n", SAYS "reasons: NodeGone on node n1: its NodeImage was deleted\\n\n", 1 },
        { "the node goes later", PRELOAD_PULL, { "r.io/a:1" }, "{'n1':null,'n2':null}", NULL, NULL, NULL, false, false, false, false,
          { "show", "taken", "gone", "n2 succeeded" },
            "patch nodeimages/n1 {'spec':{'images':{'r.io/a':{'tags':[" TAG "]}}}}\n"
            "patch nodeimages/n2 {'spec':{'images':{'r.io/a':{'tags':[" TAG "]}}}}\n",
            "preloading r.io/a:1 on 2 nodes\n"
            "IMAGE     NODES  DONE  WAITING  RUNNING  FAILED  PROGRESS  SINCE\n"
            "r.io/a:1      2     1        0        0       1       50%     4s\n", SAYS "reasons: NodeGone on node n1: its NodeImage was deleted\\n\n", 101 },
        { "too many fail", PRELOAD_PULL, { "r.io/a:1" }, "{'n1':null,'n2':null}", NULL, "1", "0", false, false, false, false,
          { "show", "taken", "n1 failed" }, "patch nodeimages/n1 {'spec':{'images':{'r.io/a':{'tags':[" TAG "]}}}}\n",
            "preloading r.io/a:1 on 2 nodes\n"
            "IMAGE     NODES  DONE  WAITING  RUNNING  FAILED  PROGRESS  SINCE\n"
            "r.io/a:1      2     0        0        0       1       50%     3s\n", SAYS "reasons: NotFound on node n1: no such tag\\n\n", 2 },
        { "the server is away", PRELOAD_PULL, { "r.io/a:1" }, "{'n1':null}", NULL, NULL, NULL, false, false, false, false,
          { "show", "taken", "away", "hour" }, "patch nodeimages/n1 {'spec':{'images':{'r.io/a':{'tags':[" TAG "]}}}}\n",
            "preloading r.io/a:1 on 1 node\n"
            "IMAGE     NODES  DONE  WAITING  RUNNING  FAILED  PROGRESS  SINCE\n"
            "r.io/a:1      1     0        0        0       1        0%     1h\n", SAYS "reasons: no agent answers on node n1\\n\n", 1 },
        { "withdrawn", PRELOAD_WITHDRAW, { "r.io/a:1" }, "{'n1':null}", NULL, NULL, NULL, false, false, false, false,
          { "show" }, "", "", "", 0 },
        { "watched", PRELOAD_WATCH, { "r.io/a:1" }, "{'n1':null}", NULL, NULL, NULL, false, false, false, false,
          { "show" }, "",
            "IMAGE     NODES  DONE  WAITING  RUNNING  FAILED  PROGRESS  SINCE\n"
            "r.io/a:1      0     0        0        0       0         -     1s\n", "", 0 },
        { "tried", PRELOAD_PULL, { "r.io/a:1" }, "{'n1':null}", NULL, NULL, NULL, false, false, false, true,
          { "show", "taken" }, "dryRun=All nodeimages/n1 {'spec':{'images':{'r.io/a':{'tags':[" TAG "]}}}}\n",
            "preloading r.io/a:1 on 1 node\n"
            "IMAGE     NODES  DONE  WAITING  RUNNING  FAILED  PROGRESS  SINCE\n"
            "r.io/a:1      1     0        1        0       0        0%     2s\n", "", 100 },
        { "jobs", PRELOAD_PULL, { "r.io/a:1", "r.io/b:1" }, "{}", "pool=a", "50%", NULL, true, false, false, false,
          { "show", "pulling", "jobs-end" },
            "create imagepulljobs {'kind':'ImagePullJob','metadata':{'generateName':'preload-','labels':{'app.kubernetes.io/managed-by':'kubectl-inplace'}},'spec':{'completionPolicy':{'type':'Always','ttlSecondsAfterFinished':3600},'selector':{'names':['n1','n2']},'image':'r.io/a:1','parallelism':1},'apiVersion':'apps.kruise.io/v1alpha1'}\n"
            "create imagepulljobs {'kind':'ImagePullJob','metadata':{'generateName':'preload-','labels':{'app.kubernetes.io/managed-by':'kubectl-inplace'}},'spec':{'completionPolicy':{'type':'Always','ttlSecondsAfterFinished':3600},'selector':{'names':['n1','n2']},'image':'r.io/b:1','parallelism':1},'apiVersion':'apps.kruise.io/v1alpha1'}\n",
            "preloading r.io/a:1 and 1 more image on 2 nodes\n"
            "IMAGE     NODES  DONE  WAITING  RUNNING  FAILED  PROGRESS  SINCE\n"
            "r.io/a:1      2     0        0        0       2        0%     3s\n"
            "r.io/b:1      2     0        0        0       2        0%     3s\n", SAYS "reasons: NotTaken on 2 nodes (n1, n2): the ImagePullJob ended without this node\\n\n", 2 },
        { "jobs that are tried", PRELOAD_PULL, { "r.io/a:1" }, "{'n1':null,'n3':null}", NULL, NULL, NULL, true, false, false, true,
          { NULL }, "create imagepulljobs {'kind':'ImagePullJob','metadata':{'generateName':'preload-','labels':{'app.kubernetes.io/managed-by':'kubectl-inplace'}},'spec':{'completionPolicy':{'type':'Always','ttlSecondsAfterFinished':3600},'selector':{'names':['n1','n3']},'image':'r.io/a:1','parallelism':10},'apiVersion':'apps.kruise.io/v1alpha1'}\n",
            "preloading r.io/a:1 on 2 nodes\n"
            "IMAGE     NODES  DONE  WAITING  RUNNING  FAILED  PROGRESS  SINCE\n"
            "r.io/a:1      2     0        0        0       1        0%     0s\n", SAYS "reasons: NoNodeImage on node n3: no agent has registered the node\\n\n", 101 },
        { "jobs are withdrawn", PRELOAD_WITHDRAW, { "r.io/a:1" }, "{'n1':null}", NULL, NULL, NULL, true, false, false, false,
          { NULL }, "delete imagepulljobs/j1 \n", "imagepulljob.apps.kruise.io/j1 deleted\n", "", 99 },
        { "no parallelism", PRELOAD_PULL, { "r.io/a:1" }, "{'n1':null}", NULL, "0", NULL, false, false, false, false,
          { NULL }, "", "", SAYS "a parallelism of 0 would request nothing\n", 0 },
        { "no share", PRELOAD_PULL, { "r.io/a:1" }, "{'n1':null}", NULL, NULL, "x", false, false, false, false,
          { NULL }, "", "", SAYS "\"x\": expected a number, or a percentage such as 25%\n", 0 },
        { "no images", PRELOAD_PULL, { NULL }, "{'n1':null}", NULL, NULL, NULL, false, false, false, false,
          { NULL }, "", "", SAYS "no more than 64 images and 32 pull secrets at a time\n", 0 },
        { "no name of an image", PRELOAD_PULL, { "r.io/A:1" }, "{'n1':null}", NULL, NULL, NULL, false, false, false, false,
          { NULL }, "", "", SAYS "invalid image reference \"r.io/A:1\": the repository must be in lower case\n", 0 },
};

/* clang-format on */

/* The server; its functions stand for those of the session and of the loop, see tests/CMakeLists.txt. */
static struct {
        const struct Row *row;
        uint64_t now_usec;
        bool is_away;
        unsigned version;
        struct {
                KubePatch *patch;
                char *node;
                json_object *body;
        } writes[8];
        size_t n_writes;
} server;

int clock_gettime(clockid_t clock, struct timespec *ret);
sd_event *__wrap_kube_client_event(const KubeClient *client);
void __wrap_kube_patch_cancel(KubePatch *patch);
int __wrap_kube_patch_send(KubePatch *patch, const KubePatchRequest *request);
uint64_t __wrap_loop_now_usec(sd_event *event);
KubeClient *__wrap_session_client(const Session *session);
int __wrap_session_end_status(const Session *session);
bool __wrap_session_is_away(const Session *session);
bool __wrap_session_is_ended(const Session *session);
int __wrap_session_list_metadata(Session *session, const KubePath *path, SessionItem on_item,
                                 void *userdata, Error *reterr);
int __wrap_session_wait(Session *session, const SessionWait *wait, Error *reterr);
bool __wrap_terminal_is_capable(void);

int clock_gettime(clockid_t clock, struct timespec *ret) {
        *ret = (struct timespec){ .tv_sec = (time_t) (server.now_usec / SEC),
                                  .tv_nsec = (long) (server.now_usec % SEC) * 1000 };
        return 0;
}

sd_event *__wrap_kube_client_event(const KubeClient *client) {
        return NULL;
}

uint64_t __wrap_loop_now_usec(sd_event *event) {
        return server.now_usec;
}

KubeClient *__wrap_session_client(const Session *session) {
        return NULL;
}

int __wrap_session_end_status(const Session *session) {
        return 0;
}

bool __wrap_session_is_away(const Session *session) {
        return server.is_away;
}

bool __wrap_session_is_ended(const Session *session) {
        return false;
}

bool __wrap_terminal_is_capable(void) {
        return server.row->is_terminal;
}

int __wrap_session_list_metadata(Session *session, const KubePath *path, SessionItem on_item,
                                 void *userdata, Error *reterr) {
        return __wrap_session_list(session, path, on_item, userdata, reterr);
}

int __wrap_session_patch(Session *session, const KubePath *path, const char *content_type,
                         json_object *patch, json_object **ret, Error *reterr) {
        fail();
        return 0;
}

void __wrap_kube_patch_cancel(KubePatch *patch) {
        patch->call = NULL;
}

int __wrap_kube_patch_send(KubePatch *patch, const KubePatchRequest *request) {
        assert_true(server.n_writes < N_ELEMENTS(server.writes));
        assert_null(patch->call);
        patch->call = (KubeCall *) &server;
        patch->on_answered = request->on_answered;
        server.writes[server.n_writes].patch = patch;
        server.writes[server.n_writes].node = strdup(request->path.name);
        server.writes[server.n_writes++].body = json_copy(request->body);
        return cluster_note(request->path.query ?: "patch", &request->path, request->body);
}

static json_object *find_node(const char *name) {
        json_object *list = json_get(cluster.objects, "nodeimages", json_type_array);

        for (size_t i = 0; i < json_object_array_length(list); i++)
                if (strcmp(object_name(json_object_array_get_idx(list, i)), name) == 0)
                        return json_object_array_get_idx(list, i);
        return NULL;
}

static void renew(json_object *node) {
        char version[16];

        (void) snprintf(version, sizeof(version), "%u", ++server.version);
        json_object_object_add(object_at(node, "metadata"), "resourceVersion",
                               json_object_new_string(version));
}

static void answer(KubePatchOutcome outcome) {
        cleanup(error_done) Error error = ERROR_INIT;
        size_t n = server.n_writes;

        (void) error_set(&error, ERROR_DENIED, "no right");
        server.n_writes = 0;
        for (size_t i = 0; i < n; i++) {
                KubePatch *patch = server.writes[i].patch;
                json_object *node = find_node(server.writes[i].node);
                KubePatchAnswer taken = { .outcome = outcome,
                                          .error = outcome == KUBE_PATCH_TAKEN ? NULL : &error };

                if (outcome == KUBE_PATCH_TAKEN) {
                        assert_ok(json_merge_patch(&node, server.writes[i].body));
                        renew(node);
                        taken.version = object_text(node, "metadata.resourceVersion");
                }
                patch->call = NULL;
                assert_ok(patch->on_answered(&taken, patch->userdata));
                json_object_put(server.writes[i].body);
                free(server.writes[i].node);
        }
}

static void show(const SessionWait *wait) {
        json_object *list = json_get(cluster.objects, "nodeimages", json_type_array);

        for (size_t i = 0; i < json_object_array_length(list); i++) {
                cleanup(json_object_put_p) json_object *node =
                        json_copy(json_object_array_get_idx(list, i));
                const KubeObject object = { .name = object_name(node),
                                            .resource_version =
                                                    object_text(node, "metadata.resourceVersion"),
                                            .json = node };

                assert_ok(wait->watches[0].on_object(&object, wait->userdata));
        }
}

/* The agent says this of each image that is requested. */
static void report(json_object *node, const char *phase) {
        json_object *images = object_at(node, "spec.images"), *statuses = json_object_new_object();

        json_object_object_foreach(images, name, image) {
                json_object *tags = json_object_object_get(image, "tags"),
                            *list = json_object_new_array();
                json_object *status = json_object_new_object();

                for (size_t i = 0; i < json_object_array_length(tags); i++) {
                        json_object *tag = json_object_array_get_idx(tags, i);
                        json_object *one = parse(
                                "{'tag':'%s','version':%d,'phase':'%s','progress':%d%s}",
                                json_get_text(tag, "tag"), (int) json_get_integer(tag, "version"),
                                phase, strcmp(phase, "Pulling") == 0 ? 40 : 100,
                                strcmp(phase, "Failed") == 0
                                        ? ",'message':'NotFound: no such tag','completionTime':'1970-01-01T00:20:00Z'"
                                : strcmp(phase, "Pulling") == 0
                                        ? ""
                                        : ",'imageID':'r.io/a@sha256:aa','completionTime':'1970-01-01T00:20:00Z'");

                        json_object_array_add(list, one);
                }
                json_object_object_add(status, "tags", list);
                json_object_object_add(statuses, name, status);
        }
        json_object_object_add(object_at(node, "status"), "imageStatuses", statuses);
        renew(node);
}

static void report_all(const SessionWait *wait, const char *words) {
        json_object *list = json_get(cluster.objects, "nodeimages", json_type_array);
        const char *phase = strstr(words, "pulling")  ? "Pulling"
                            : strstr(words, "failed") ? "Failed"
                                                      : "Succeeded";

        for (size_t i = 0; i < json_object_array_length(list); i++) {
                json_object *node = json_object_array_get_idx(list, i);

                if (!strchr(words, ' ') ||
                    strncmp(words, object_name(node), strcspn(words, " ")) == 0)
                        report(node, phase);
        }
        show(wait);
}

static int turn(const SessionWait *wait, const char *words) {
        const Error error = { .kind = ERROR_UNAVAILABLE, .message = (char *) "away" };

        server.now_usec += SEC;
        server.is_away = false;
        if (strcmp(words, "show") == 0)
                show(wait);
        else if (strcmp(words, "taken") == 0)
                answer(KUBE_PATCH_TAKEN);
        else if (strcmp(words, "conflict") == 0)
                answer(KUBE_PATCH_CONFLICT);
        else if (strcmp(words, "refused") == 0)
                answer(KUBE_PATCH_REFUSED);
        else if (strcmp(words, "lost") == 0)
                answer(KUBE_PATCH_GONE);
        else if (strcmp(words, "gone") == 0)
                assert_ok(wait->watches[0].on_gone(&(const KubeObject){ .name = "n1" },
                                                   wait->userdata));
        else if (strcmp(words, "jobs-end") == 0)
                assert_ok(wait->watches[wait->n_watches - 1].on_gone(
                        &(const KubeObject){ .name = "j", .uid = "new-uid" }, wait->userdata));
        else if (strcmp(words, "minute") == 0)
                server.now_usec += 60 * SEC;
        else if (strcmp(words, "hour") == 0)
                server.now_usec += 3600 * SEC;
        else if (strcmp(words, "away") == 0) {
                server.is_away = true;
                return wait->is_away(&error, wait->userdata);
        } else if (strcmp(words, "second") != 0)
                report_all(wait, words);
        return wait->is_done(wait->userdata);
}

int __wrap_session_wait(Session *session, const SessionWait *wait, Error *reterr) {
        const char *const *turns = server.row->turns;

        for (size_t i = 0; i < TURNS_MAX && turns[i]; i++)
                assert_int_equal(turn(wait, turns[i]), i + 1 == TURNS_MAX || !turns[i + 1]);
        return 0;
}

static int run(const struct Row *row) {
        cleanup(json_object_put_p) json_object *nodes = parse("%s", row->nodes);
        cleanup(json_object_put_p) json_object *secrets = parse("{}");
        cleanup(preload_result_done) PreloadResult result = { .n_nodes = 0 };
        cleanup(error_done) Error error = ERROR_INIT;
        PreloadRequest request = { .images = row->images,
                                   .nodes = nodes,
                                   .secrets = secrets,
                                   .labels = row->labels,
                                   .parallelism = row->parallelism,
                                   .max_failures = row->max_failures,
                                   .mode = row->mode,
                                   .is_shown = !row->is_quiet };
        int r;

        while (row->images[request.n_images])
                request.n_images++;
        r = preload_run(NULL, &request, &result, &error);
        assert_int_equal(r < 0, error.kind != ERROR_NONE);
        if (r < 0)
                complain("%s", error_message(&error));
        if (result.reasons && result.reasons[0])
                complain("reasons: %s", result.reasons);
        return (int) (100 * result.n_done + (result.n_nodes - result.n_done));
}

TEST_ROWS(test_preload, rows, name, const struct Row *row) {
        Played played;

        memset(&server, 0, sizeof(server));
        server.row = row;
        server.now_usec = 1000 * SEC;
        server.version = 1;
        cluster.missing[0] = row->has_jobs ? NULL : "imagepulljobs";
        cluster.is_dry_run = row->is_dry_run;
        assert_ok(setenv("COLUMNS", "80", /* overwrite= */ 1));
        assert_ok(setenv("LINES", "6", /* overwrite= */ 1));
        PLAY(&played,
             "{'nodeimages':[" NODE("n1") "," NODE(
                     "n2") "],'imagepulljobs':[" JOB("j1", "r.io/a:1") "," JOB("j2",
                                                                               "r.io/b:1") "]}",
             run(row));
        for (size_t i = 0; i < server.n_writes; i++) {
                json_object_put(server.writes[i].body);
                free(server.writes[i].node);
        }
        assert_string_equal(cluster.writes, row->writes);
        assert_string_equal(played.out.text, row->out);
        assert_string_equal(played.err.text, row->err);
        assert_int_equal(played.status, row->status);
}

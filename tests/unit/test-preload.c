/* SPDX-License-Identifier: Apache-2.0 */

/* A node whose agent does not answer a request that is watched, and a write to a node when the command ends. */

#include "tests/unit/unit.h"

#include "agent/base/loop.h"
#include "agent/kube/patch.h"
#include "agent/kubectl/preload.h"
#include "tests/unit/quoted-json.h"

/* The server; its functions stand for those of the session and of the loop, see tests/CMakeLists.txt. */
static struct {
        bool has_jobs;
        bool is_interrupted; /* the command, when the request is sent */
        unsigned n_writes;   /* writes that have yet to be answered */
        uint64_t now_usec;
} server;

sd_event *__wrap_kube_client_event(const KubeClient *client);
void __wrap_kube_patch_cancel(KubePatch *patch);
int __wrap_kube_patch_send(KubePatch *patch, const KubePatchRequest *request);
uint64_t __wrap_loop_now_usec(sd_event *event);
KubeClient *__wrap_session_client(const Session *session);
int __wrap_session_end_status(const Session *session);
int __wrap_session_find_kruise(Session *session, const char *resource, const char **ret,
                               Error *reterr);
bool __wrap_session_is_away(const Session *session);
bool __wrap_session_is_dry_run(const Session *session);
const char *__wrap_session_namespace(const Session *session);
int64_t __wrap_session_server_sec(const Session *session);
int __wrap_session_wait(Session *session, const SessionWait *wait, Error *reterr);

sd_event *__wrap_kube_client_event(const KubeClient *client) {
        return NULL;
}

void __wrap_kube_patch_cancel(KubePatch *patch) {
        server.n_writes -= patch->call != NULL;
        patch->call = NULL;
}

int __wrap_kube_patch_send(KubePatch *patch, const KubePatchRequest *request) {
        server.n_writes++;
        patch->call = (KubeCall *) &server;
        return 0;
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

int __wrap_session_find_kruise(Session *session, const char *resource, const char **ret,
                               Error *reterr) {
        *ret = strcmp(resource, "nodeimages") == 0 || server.has_jobs ? "v1beta1" : NULL;
        return 0;
}

bool __wrap_session_is_away(const Session *session) {
        return false;
}

bool __wrap_session_is_dry_run(const Session *session) {
        return false;
}

const char *__wrap_session_namespace(const Session *session) {
        return "shop";
}

int64_t __wrap_session_server_sec(const Session *session) {
        return 1000;
}

static void show_node(const SessionWait *wait, const char *images) {
        cleanup(json_object_put_p) json_object *node_image =
                parse("{'metadata':{'name':'n1','resourceVersion':'5'},'spec':{'images':{%s}}}",
                      images);
        const KubeObject object = { .name = "n1", .json = node_image };

        assert_ok(wait->watches[0].on_object(&object, wait->userdata));
        assert_int_equal(wait->is_done(wait->userdata), 0);
}

/* Shows a node without a request; or with one, to which no agent answers. */
int __wrap_session_wait(Session *session, const SessionWait *wait, Error *reterr) {
        if (server.is_interrupted) {
                show_node(wait, "");
                assert_int_equal(server.n_writes, 1);
                return error_set(reterr, ERROR_CANCELED, "interrupted");
        }
        show_node(wait, "'app':{'tags':[{'tag':'1'}]}");
        server.now_usec += PRELOAD_ANSWER_USEC;
        assert_int_equal(wait->is_done(wait->userdata), 1);
        return 0;
}

static int run(PreloadMode mode, PreloadResult *ret, Error *reterr) {
        static const char *const images[] = { "app:1" };
        cleanup(json_object_put_p) json_object *nodes = parse("{'n1':null}");
        cleanup(json_object_put_p) json_object *secrets = parse("{}");

        server.now_usec = SEC;
        return preload_run(NULL,
                           &(PreloadRequest){ .images = images,
                                              .n_images = 1,
                                              .nodes = nodes,
                                              .secrets = secrets,
                                              .mode = mode },
                           ret, reterr);
}

static const struct SilentRow {
        const char *name;
        bool has_jobs;
} silent_rows[] = {
        { "on inplaced's nodes", false },
        { "where OpenKruise serves ImagePullJobs", true },
};

/* The command ends, since no agent may ever come. */
TEST_ROWS(test_silent, silent_rows, name, const struct SilentRow *row) {
        cleanup(preload_result_done) PreloadResult result = { .n_nodes = 0 };
        cleanup(error_done) Error error = ERROR_INIT;

        server.is_interrupted = false;
        server.has_jobs = row->has_jobs;
        assert_ok(run(PRELOAD_WATCH, &result, &error));
        assert_int_equal(result.n_nodes, 1);
        assert_int_equal(result.n_silent, 1);
        assert_json(result.nodes,
                    "[{'name':'n1','phase':'NoAnswer','message':'no agent answers'}]");
}

/* A command that goes on, such as to note how it ended, gets no answers for nodes that are not known any more. */
TEST(test_write_at_end) {
        cleanup(preload_result_done) PreloadResult result = { .n_nodes = 0 };
        cleanup(error_done) Error error = ERROR_INIT;

        server.is_interrupted = true;
        server.has_jobs = false;
        assert_true(run(PRELOAD_PULL, &result, &error) < 0);
        assert_int_equal(error.kind, ERROR_CANCELED);
        assert_int_equal(server.n_writes, 0);
}

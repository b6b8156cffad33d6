/* SPDX-License-Identifier: Apache-2.0 */

/* The command line of "kubectl inplace preload": which nodes it means, what it refuses, and how it ends. */

#include "tests/unit/unit.h"

#include "agent/kubectl/commands.h"
#include "agent/kubectl/pod-choice.h"
#include "agent/kubectl/preload.h"
#include "agent/kubectl/sets.h"
#include "agent/view/output.h"
#include "tests/unit/quoted-json.h"
#include "tests/unit/stderr-capture.h"

#define DONE EXIT_STATUS_DONE
#define FAILED EXIT_STATUS_FAILED
#define PARTLY EXIT_STATUS_PARTLY
#define USAGE EXIT_STATUS_USAGE

static char *images[] = { (char *) "app:1" };

/* The server; its functions stand for those of the session, of pod-choice.h, preload.h and sets.h, see tests/CMakeLists.txt. */
static struct {
        const char *pods; /* pods of each workload */
        bool is_dry_run, is_ended;
        PreloadResult result;   /* result of preload_run(), taken by the first call */
        PreloadRequest request; /* the last one */
        char *nodes;            /* nodes of that */
        unsigned n_sets;        /* calls of sets_write() */
        json_object *document;  /* the last one that was printed */
} server;

int __wrap_output_tree(OutputFormat format, json_object *tree);
int __wrap_pod_choice_of_name(Session *session, const char *name, PodChoice *ret, Error *reterr);
int __wrap_pod_choice_list(Session *session, const PodChoice *choice, const char *namespace,
                           SessionItem on_pod, void *userdata, size_t *ret_n, Error *reterr);
int __wrap_preload_run(Session *session, const PreloadRequest *request, PreloadResult *ret,
                       Error *reterr);
int __wrap_session_fail(const Session *session, int r, const Error *error);
bool __wrap_session_is_dry_run(const Session *session);
bool __wrap_session_is_ended(const Session *session);
const char *__wrap_session_namespace(const Session *session);
const SessionOptions *__wrap_session_options(const Session *session);
int __wrap_sets_write(Session *session, const Flags *flags, json_object *secrets);

int __wrap_output_tree(OutputFormat format, json_object *tree) {
        server.document = json_object_get(tree);
        return 0;
}

int __wrap_pod_choice_of_name(Session *session, const char *name, PodChoice *ret, Error *reterr) {
        return 0;
}

int __wrap_pod_choice_list(Session *session, const PodChoice *choice, const char *namespace,
                           SessionItem on_pod, void *userdata, size_t *ret_n, Error *reterr) {
        cleanup(json_object_put_p) json_object *pods = parse("[%s]", server.pods);

        *ret_n = json_object_array_length(pods);
        for (size_t i = 0; i < *ret_n; i++)
                assert_ok(on_pod(json_object_array_get_idx(pods, i), userdata));
        return 0;
}

int __wrap_preload_run(Session *session, const PreloadRequest *request, PreloadResult *ret,
                       Error *reterr) {
        server.request = *request;
        server.nodes = strdup(json_object_to_json_string_ext(request->nodes, 0));
        *ret = server.result;
        return server.is_ended ? error_set(reterr, ERROR_CANCELED, "interrupted") : 0;
}

int __wrap_session_fail(const Session *session, int r, const Error *error) {
        if (!server.is_ended)
                (void) fprintf(stderr, "%s\n", error_message(error));
        return FAILED;
}

bool __wrap_session_is_dry_run(const Session *session) {
        return server.is_dry_run;
}

bool __wrap_session_is_ended(const Session *session) {
        return server.is_ended;
}

const char *__wrap_session_namespace(const Session *session) {
        return "shop";
}

const SessionOptions *__wrap_session_options(const Session *session) {
        static const SessionOptions options;

        return &options;
}

int __wrap_sets_write(Session *session, const Flags *flags, json_object *secrets) {
        server.n_sets++;
        return DONE;
}

/* Returns the exit status. said: a part of what it complains of; NULL: nothing. */
static int run(const Flags *flags, const char *said) {
        Stderr captured;
        int status;

        stderr_pipe(&captured);
        status = kubectl_preload(NULL, flags);
        (void) stderr_restore(&captured);
        if (said)
                assert_contains(captured.text, said);
        else
                assert_string_equal(captured.text, "");
        return status;
}

static void reset(void) {
        free(server.nodes);
        json_object_put(server.document);
        memset(&server, 0, sizeof(server));
        server.pods = "";
}

#define POD(node) "{'spec':{" node "}}"
#define ON(node) POD("'nodeName':'" node "'")

/* clang-format off */
static const struct NodesRow {
        const char *name;
        Flags flags;
        const char *pods;
        const char *nodes, *labels; /* labels: NULL: of no more nodes */
} nodes_rows[] = {
        { "all", { .withdraw = false }, "", "{}", "" },
        { "by labels", { .selector = "a=b" }, "", "{}", "a=b" },
        { "by name", { .nodes = "n1,,n2," }, "", "{\"n1\":null,\"n2\":null}", NULL },
        { "of a workload", { .like = "deployment/web" }, ON("n1") "," POD("") "," ON("n1"), "{\"n1\":null}", NULL },
        { "of a workload, one of whose pods was evicted", { .like = "deployment/web" }, ON("n1") ",{'spec':{'nodeName':'n2'},'status':{'phase':'Failed'}}", "{\"n1\":null}", NULL },
};
/* clang-format on */

TEST_ROWS(test_nodes, nodes_rows, name, const struct NodesRow *row) {
        Flags flags = row->flags;

        reset();
        server.pods = row->pods;
        server.is_dry_run = true;
        flags.arguments = images;
        flags.n_arguments = 1;
        assert_int_equal(run(&flags, NULL), DONE);
        assert_string_equal(server.nodes, row->nodes);
        if (row->labels)
                assert_string_equal(server.request.labels, row->labels);
        else
                assert_null(server.request.labels);
        reset();
}

/* A workload whose pods wait for a node is on none: it does not mean all nodes. */
TEST(test_like_nothing) {
        const Flags flags = { .like = "deployment/web", .arguments = images, .n_arguments = 1 };

        reset();
        server.pods = POD("");
        assert_int_equal(run(&flags, "no pod of deployment/web is on a node"), FAILED);
        assert_null(server.nodes);
        reset();
}

#define SET(...) \
        { .set = "gpu", __VA_ARGS__ }

/* clang-format off */
static const struct CheckRow {
        Flags flags;
        const char *said; /* NULL: it is taken */
} check_rows[] = {
        { SET(.first = "1000", .parallelism = "1000"), NULL },
        { SET(.parallelism = "100%"), NULL },
        { SET(.selector = "a=b"), NULL },
        { SET(.withdraw = true), NULL },
        { SET(.first = "1001"), "--first is a number of nodes up to 1000" },
        { SET(.parallelism = "1001"), "--parallelism is a number of nodes up to 1000, or 100%" },
        { SET(.parallelism = "25%"), "--parallelism is a number of nodes up to 1000, or 100%" },
        { SET(.nodes = "a"), "--nodes has no effect on an image set" },
        { SET(.watch = true), "--watch has no effect on an image set" },
        { SET(.ttl_sec = 1), "--ttl has no effect on an image set" },
        { SET(.max_failures = "1"), "--max-failures has no effect on an image set" },
        { SET(.withdraw = true, .n_arguments = 1), "repeat --set with the other images instead" },
        { SET(.withdraw = true, .first = "1"), "give neither --first nor --parallelism" },
        { SET(.withdraw = true, .parallelism = "1"), "give neither --first nor --parallelism" },
        { SET(.sets = true), "--sets goes with neither --set nor images" },
        { { .sets = true, .n_arguments = 1 }, "--sets goes with neither --set nor images" },
        { { .first = "1" }, "--first needs an image set" },
        { { .nodes = "a", .selector = "b" }, "only one of --nodes, --selector and --like" },
        { { .nodes = "a", .like = "b" }, "only one of --nodes, --selector and --like" },
        { { .selector = "a", .like = "b" }, "only one of --nodes, --selector and --like" },
        { { .watch = true, .withdraw = true }, "only one of --watch and --withdraw" },
};
/* clang-format on */

TEST(test_check) {
        for (size_t i = 0; i < N_ELEMENTS(check_rows); i++) {
                Flags flags = check_rows[i].flags;

                reset();
                flags.arguments = images;
                assert_int_equal(run(&flags, check_rows[i].said),
                                 check_rows[i].said ? USAGE : DONE);
                assert_int_equal(server.n_sets, !check_rows[i].said);
                assert_null(server.nodes);
        }
}

#define NODE(phase) "{'phase':'" phase "'}"
#define WATCH_OR_WITHDRAW(flags)                                     \
        "to take the request back:\n"                                \
        "  kubectl inplace preload app:1 --watch" flags " -n shop\n" \
        "  kubectl inplace preload app:1 --withdraw" flags " -n shop\n"

/* clang-format off */
static const struct EndRow {
        const char *name;
        Flags flags;
        size_t n_nodes, n_done, n_failed, n_silent;
        const char *nodes;
        bool is_dry_run, is_ended;
        int status;
        const char *said;
} end_rows[] = {
        { "done", { .nodes = "a" }, 1, 1, 0, 0, NODE("Succeeded"), false, false, DONE, NULL },
        { "failed", { .nodes = "a" }, 2, 1, 1, 0, NODE("Succeeded") "," NODE("Failed"), false, false, PARTLY, NULL },
        { "no node", { .selector = "a=b" }, 0, 0, 0, 0, "", false, false, FAILED, "kubectl inplace doctor lists" },
        { "no node in a dry run", { .selector = "a=b" }, 0, 0, 0, 0, "", true, false, DONE, NULL },
        { "no request to watch", { .watch = true }, 0, 0, 0, 0, "", false, false, FAILED, "no node has such a request" },
        { "no request to withdraw", { .withdraw = true }, 0, 0, 0, 0, "", false, false, FAILED, "no node has such a request" },
        { "a silent agent", { .nodes = "a,b" }, 2, 1, 1, 1, NODE("Succeeded"), false, false, PARTLY,
          "1 node is to pull when an agent runs there\n" },
        { "silent agents", { .nodes = "a,b" }, 2, 0, 2, 2, "", false, false, PARTLY,
          "2 nodes are to pull when an agent runs there\n" },
        { "too many failures", { .nodes = "a,b" }, 2, 0, 1, 0, NODE("Failed") "," NODE("NotRequested"), false, false, PARTLY,
          "1 node was not requested to pull\n" },
        { "nodes that were not requested", { .nodes = "a,b" }, 2, 0, 0, 0, NODE("NotRequested") "," NODE("NotRequested"), false,
          false, PARTLY, "2 nodes were not requested to pull\n" },
        { "interrupted", { .nodes = "a,b" }, 2, 0, 0, 0, NODE("Running") "," NODE("Running"), false, true, FAILED,
          "2 nodes are still pulling; to watch it, or " WATCH_OR_WITHDRAW(" --nodes a,b") },
        { "interrupted on all nodes", { .watch = false }, 2, 1, 0, 0, NODE("Running") "," NODE("Succeeded"), false, true, FAILED,
          "1 node is still pulling; to watch it, or " WATCH_OR_WITHDRAW("") },
        { "interrupted on some", { .selector = "a=b" }, 1, 0, 0, 0, NODE("Running"), false, true, FAILED,
          WATCH_OR_WITHDRAW(" --selector a=b") },
        { "interrupted on those of a workload", { .like = "ds/web" }, 1, 0, 0, 0, NODE("Running"), false, true, FAILED,
          WATCH_OR_WITHDRAW(" --like ds/web") },
        { "interrupted at the end", { .nodes = "a" }, 1, 1, 0, 0, NODE("Succeeded"), false, true, FAILED, NULL },
        { "a withdrawal that is interrupted", { .withdraw = true }, 1, 0, 0, 0, NODE("Running"), false, true, FAILED, NULL },
};
/* clang-format on */

TEST_ROWS(test_end, end_rows, name, const struct EndRow *row) {
        Flags flags = row->flags;

        reset();
        server.pods = ON("a");
        server.is_dry_run = row->is_dry_run;
        server.is_ended = row->is_ended;
        server.result = (PreloadResult){ .n_nodes = row->n_nodes,
                                         .n_done = row->n_done,
                                         .n_failed = row->n_failed,
                                         .n_silent = row->n_silent,
                                         .reasons = strdup(""),
                                         .nodes = parse("[%s]", row->nodes) };
        flags.arguments = images;
        flags.n_arguments = 1;
        assert_int_equal(run(&flags, row->said), row->status);
        reset();
}

TEST(test_document) {
        const Flags flags = { .format = OUTPUT_JSON, .arguments = images, .n_arguments = 1 };

        reset();
        server.result = (PreloadResult){ .n_nodes = 3,
                                         .n_done = 2,
                                         .n_failed = 1,
                                         .reasons = strdup(""),
                                         .nodes = parse("[{'name':'a','phase':'Succeeded'}]") };
        assert_int_equal(run(&flags, NULL), PARTLY);
        assert_json(server.document, "{'nodes':3,'succeeded':2,'failed':1,"
                                     "'items':[{'name':'a','phase':'Succeeded'}]}");
        reset();
}

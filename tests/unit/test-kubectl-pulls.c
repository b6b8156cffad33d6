/* SPDX-License-Identifier: Apache-2.0 */

/* The end of "kubectl inplace pulls" where no pod waits for an image, so that no node is asked. */

#include "tests/unit/unit.h"

#include "agent/kubectl/commands.h"
#include "agent/kubectl/session.h"
#include "agent/view/output.h"
#include "tests/unit/quoted-json.h"
#include "tests/unit/stderr-capture.h"

/* The server; its functions stand for those of the session, see tests/CMakeLists.txt. */
static struct {
        const char *pods;      /* pods of each watch */
        json_object *document; /* the last one that was printed */
} server;

int __wrap_session_follow_new(Session *session, const SessionWatch *watches, size_t n_watches,
                              void *userdata, SessionFollow **ret);
int __wrap_session_follow_wait(SessionFollow *follow, int (*is_done)(void *userdata),
                               int (*is_away)(const Error *error, void *userdata), void *userdata,
                               Error *reterr);
const char *__wrap_session_namespace(const Session *session);
int __wrap_output_tree(OutputFormat format, json_object *tree);

int __wrap_session_follow_new(Session *session, const SessionWatch *watches, size_t n_watches,
                              void *userdata, SessionFollow **ret) {
        cleanup(json_object_put_p) json_object *pods = parse("[%s]", server.pods);

        for (size_t i = 0; i < n_watches; i++)
                for (size_t k = 0; k < json_object_array_length(pods); k++) {
                        const KubeObject object = { .namespace = "shop",
                                                    .name = "web-0",
                                                    .json = json_object_array_get_idx(pods, k) };

                        assert_ok(watches[i].on_object(&object, watches[i].userdata));
                }
        return 0;
}

int __wrap_session_follow_wait(SessionFollow *follow, int (*is_done)(void *userdata),
                               int (*is_away)(const Error *error, void *userdata), void *userdata,
                               Error *reterr) {
        assert_int_equal(is_done(userdata), 1);
        return 0;
}

const char *__wrap_session_namespace(const Session *session) {
        return "shop";
}

int __wrap_output_tree(OutputFormat format, json_object *tree) {
        server.document = json_object_get(tree);
        return 0;
}

static const struct EndRow {
        const char *name;
        const char *pods;
        const char *said; /* NULL: nothing */
        int status;
} end_rows[] = {
        { "the pod is there", "{'metadata':{'name':'web-0'},'spec':{'nodeName':'n1'}}", NULL,
          EXIT_STATUS_DONE },
        { "it is not", "", "pods \"web-0\" not found in namespace shop", EXIT_STATUS_FAILED },
};

/* A script reads the document in any case. */
TEST_ROWS(test_end, end_rows, name, const struct EndRow *row) {
        char *arguments[] = { (char *) "web-0" };
        const Flags flags = { .format = OUTPUT_JSON, .arguments = arguments, .n_arguments = 1 };
        Stderr captured;
        int status;

        server.pods = row->pods;
        stderr_pipe(&captured);
        status = kubectl_pulls(NULL, &flags);
        (void) stderr_restore(&captured);
        assert_int_equal(status, row->status);
        if (row->said)
                assert_contains(captured.text, row->said);
        else
                assert_string_equal(captured.text, "");
        assert_json(server.document, "{'items':[]}");
        json_object_put(server.document);
        server.document = NULL;
}

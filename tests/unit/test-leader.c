/* SPDX-License-Identifier: Apache-2.0 */

/* Which program leads, and taking its Lease from it. */

#include "tests/unit/unit.h"

#include "agent/document/json-reader.h"
#include "agent/kubectl/leader.h"
#include "tests/unit/quoted-json.h"

#define CONFLICTS_MAX 5 /* so that a loop ends */

/* A server with a Lease; its functions stand for those of the session, see tests/CMakeLists.txt. */
static struct {
        const char *holder; /* NULL: there is no Lease */
        ErrorKind refusal;  /* answer to each write */
        unsigned n_writes;
} server;

int __wrap_session_create(Session *session, const KubePath *path, json_object *body,
                          json_object **ret, Error *reterr);
int __wrap_session_get(Session *session, const KubePath *path, json_object **ret, Error *reterr);
int __wrap_session_patch(Session *session, const KubePath *path, const char *content_type,
                         json_object *body, json_object **ret, Error *reterr);
int64_t __wrap_session_server_sec(const Session *session);

int __wrap_session_create(Session *session, const KubePath *path, json_object *body,
                          json_object **ret, Error *reterr) {
        assert_null(server.holder);
        server.n_writes++;
        *ret = parse("{'metadata':{'resourceVersion':'7'}}");
        return 0;
}

int __wrap_session_get(Session *session, const KubePath *path, json_object **ret, Error *reterr) {
        if (!server.holder)
                return error_set(reterr, ERROR_NOT_FOUND, "no");
        *ret = parse("{'metadata':{'resourceVersion':'7'},'spec':{'holderIdentity':'%s'}}",
                     server.holder);
        return 0;
}

int __wrap_session_patch(Session *session, const KubePath *path, const char *content_type,
                         json_object *body, json_object **ret, Error *reterr) {
        assert_string_equal(json_get_text(json_get(body, "metadata", json_type_object),
                                          "resourceVersion"),
                            "7");
        if (server.n_writes++ < CONFLICTS_MAX && server.refusal != ERROR_NONE)
                return error_set(reterr, server.refusal, "no");
        *ret = parse("{'metadata':{'resourceVersion':'8'}}");
        return 0;
}

int64_t __wrap_session_server_sec(const Session *session) {
        return 1000;
}

static const struct OustRow {
        const char *name;
        const char *holder;
        ErrorKind refusal;
        int result;
        ErrorKind error;
} oust_rows[] = {
        { "another one leads", "other", ERROR_NONE, 1, ERROR_NONE },
        { "none leads but this one", "me", ERROR_NONE, 0, ERROR_NONE },
        { "another one writes it again and again", "other", ERROR_CONFLICT, 1, ERROR_NONE },
        { "it may not be written", "other", ERROR_DENIED, 0, ERROR_NONE },
        { "no answer", "other", ERROR_UNAVAILABLE, -1, ERROR_UNAVAILABLE },
};

/* Each call writes once, whatever the answer is, and the next one is due after a pause. */
TEST_ROWS(test_oust, oust_rows, name, const struct OustRow *row) {
        cleanup(leader_done) Leader leader = { .identity = strdup("me") };
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        server.holder = row->holder;
        server.refusal = row->refusal;
        server.n_writes = 0;
        r = leader_oust(&leader, &error);
        assert_int_equal(r < 0 ? -1 : r, row->result);
        assert_int_equal(error.kind, row->error);
        assert_int_equal(server.n_writes, 1);
        assert_false(leader_is_due(&leader));
}

static const struct StepRow {
        const char *name;
        const char *holder;
        bool is_leading;
} step_rows[] = {
        { "the first one to come", NULL, true },
        { "another one leads", "other", false },
        { "the one before has given it up", "", true },
        { "it leads itself", "me", true },
};

/* Two that lead at once would begin each update twice. */
TEST_ROWS(test_step, step_rows, name, const struct StepRow *row) {
        cleanup(leader_done) Leader leader = { .path.name = "lease", .identity = strdup("me") };
        cleanup(error_done) Error error = ERROR_INIT;

        server.holder = row->holder;
        server.refusal = ERROR_NONE;
        server.n_writes = 0;
        assert_ok(leader_step(&leader, &error));
        assert_int_equal(leader.is_leading, row->is_leading);
        assert_int_equal(server.n_writes, row->is_leading ? 1 : 0);
        assert_false(leader_is_due(&leader));
}

/* SPDX-License-Identifier: Apache-2.0 */

/* Questions about rights that the server does not answer. */

#include "tests/unit/unit.h"

#include "agent/kubectl/rights.h"
#include "tests/unit/quoted-json.h"

static ErrorKind refusal; /* the server's answer; ERROR_NONE: the right is lacking */

int __wrap_session_create(Session *session, const KubePath *path, json_object *body,
                          json_object **ret, Error *reterr);

int __wrap_session_create(Session *session, const KubePath *path, json_object *body,
                          json_object **ret, Error *reterr) {
        if (refusal != ERROR_NONE)
                return error_set(reterr, refusal, "no");
        *ret = parse("{'status':{'allowed':false}}");
        return 0;
}

static const struct AskRow {
        const char *name;
        ErrorKind refusal;
        bool is_failure;
        bool is_allowed;
} ask_rows[] = {
        { "answered", ERROR_NONE, false, false },
        { "the user may not ask", ERROR_DENIED, false, true },
        { "the server has no reviews", ERROR_NOT_FOUND, false, true },
        { "the server is away", ERROR_UNAVAILABLE, true, true },
};

/* Where the server does not tell, no command stops for it. */
TEST_ROWS(test_ask, ask_rows, name, const struct AskRow *row) {
        static const Right right = { .verbs = "patch", .group = "", .resource = "pods" };
        cleanup(error_done) Error error = ERROR_INIT;
        bool is_allowed;

        refusal = row->refusal;
        assert_int_equal(rights_ask(NULL, &right, right.verbs, "shop", NULL, &is_allowed, &error) <
                                 0,
                         row->is_failure);
        assert_int_equal(error.kind, row->is_failure ? row->refusal : ERROR_NONE);
        assert_int_equal(is_allowed, row->is_allowed);
}

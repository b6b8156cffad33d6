/* SPDX-License-Identifier: Apache-2.0 */

/* Which nodes have an agent. */

#include "tests/unit/unit.h"

#include "agent/kubectl/agents.h"
#include "tests/unit/quoted-json.h"

#define NOW_SEC 1767225660 /* 2026-01-01T00:01:00Z */
#define STATUS_OF(manager, time) \
        "{'manager':'" manager "','subresource':'status','time':'" time "'}"
#define SPEC_AT(time) "{'manager':'kubectl','time':'" time "'}"
#define KNOWS(version) \
        ",'status':{'imageStatuses':{'app':{'tags':[{'tag':'1','version':" version "}]}}}"
#define REQUEST "'spec':{'images':{'app':{'tags':[{'tag':'1','version':2}]}}}"

/* Fields of the only NodeImage; see tests/CMakeLists.txt. */
static const char *managed_fields, *status;

int __wrap_session_list(Session *session, const KubePath *path, SessionItem on_item, void *userdata,
                        Error *reterr);
int64_t __wrap_session_server_sec(const Session *session);

int __wrap_session_list(Session *session, const KubePath *path, SessionItem on_item, void *userdata,
                        Error *reterr) {
        cleanup(json_object_put_p) json_object *image = NULL;

        if (strcmp(path->resource, "pods") == 0)
                return 0;
        image = parse("{'metadata':{'name':'worker-1','managedFields':[%s],"
                      "'annotations':{'inplaced.io/agent-version':'1.2'}}," REQUEST "%s}",
                      managed_fields, status ?: "");
        return on_item(image, userdata);
}

int64_t __wrap_session_server_sec(const Session *session) {
        return NOW_SEC;
}

static const struct TraceRow {
        const char *name;
        const char *managed_fields;
        bool has_agent, is_silent;
        const char *status;
} trace_rows[] = {
        { "no write", "", false, false, NULL },
        { "of another program", STATUS_OF("kruise", "2026-01-01T00:00:00Z"), false, false, NULL },
        { "of an agent", STATUS_OF("inplaced", "2026-01-01T00:00:00Z"), true, false, NULL },
        { "of an agent, and a request a minute ago",
          STATUS_OF("inplaced", "2025-12-31T00:00:00Z") "," SPEC_AT("2026-01-01T00:00:00Z"), true,
          true, NULL },
        { "of an agent, and a request just now",
          STATUS_OF("inplaced", "2025-12-31T00:00:00Z") "," SPEC_AT("2026-01-01T00:00:55Z"), true,
          false, NULL },
        { "of an agent, and a request a minute ago that it knows",
          STATUS_OF("inplaced", "2025-12-31T00:00:00Z") "," SPEC_AT("2026-01-01T00:00:00Z"), true,
          false, KNOWS("2") },
        { "of an agent that knows the request before",
          STATUS_OF("inplaced", "2025-12-31T00:00:00Z") "," SPEC_AT("2026-01-01T00:00:00Z"), true,
          true, KNOWS("1") },
};

/* An agent that runs as a service of the node is known by what it writes. */
TEST_ROWS(test_trace, trace_rows, name, const struct TraceRow *row) {
        cleanup(agents_done) Agents agents = AGENTS_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        const NodeAgent *agent;
        char buffer[64];

        managed_fields = row->managed_fields;
        status = row->status;
        assert_ok(agents_read(NULL, "v1alpha1", /* must_answer= */ true, &agents, &error));
        agent = agents_find(&agents, "worker-1");
        assert_string_equal(node_agent_describe(agent, buffer, sizeof(buffer)),
                            row->has_agent ? "1.2" : "-");
        assert_int_equal(agent && agent->is_silent, row->is_silent);
}

/* SPDX-License-Identifier: Apache-2.0 */

/* Updates in place that are shown as open. */

#include "tests/unit/unit.h"

#include "agent/document/json-reader.h"
#include "agent/kubectl/open-updates.h"
#include "agent/kubectl/rollout-watch.h"
#include "tests/unit/quoted-json.h"

#define RECORD(state)                                                                   \
        "{\\'state\\':\\'" state "\\',\\'mode\\':\\'set-image\\',\\'by\\':\\'alice\\'," \
        "\\'since\\':\\'2026-11-23T05:09:20Z\\',\\'revision\\':\\'r\\',"                \
        "\\'before\\':{\\'app\\':\\'app:1\\'},\\'after\\':{\\'app\\':\\'app:2\\'}}"

/* A server with a Deployment and a pod of it; its functions stand for those of the session, see tests/CMakeLists.txt. */
static const char *server_record;
static const char *server_pod; /* name of the pod with the labels that are asked for */

int __wrap_session_list_metadata(Session *session, const KubePath *path, SessionItem on_item,
                                 void *userdata, Error *reterr);
int __wrap_rollout_watch_load_path(Session *session, WorkloadKind kind, const KubePath *path,
                                   RolloutWatch *ret, Error *reterr);
int64_t __wrap_session_server_sec(const Session *session);

static json_object *make_workload(void) {
        return parse("{'metadata':{'name':'web','namespace':'shop','annotations':{"
                     "'" ROLLOUT_ANNOTATION "':'%s'}},'spec':{'replicas':1,'template':{'spec':{"
                     "'containers':[{'name':'app','image':'app:2'}]}}}}",
                     server_record);
}

int __wrap_session_list_metadata(Session *session, const KubePath *path, SessionItem on_item,
                                 void *userdata, Error *reterr) {
        cleanup(json_object_put_p) json_object *item = NULL;

        if (strcmp(path->resource, "deployments") == 0)
                item = make_workload();
        else if (path->labels)
                item = parse("{'metadata':{'name':'%s'}}", server_pod);
        return item ? on_item(item, userdata) : 0;
}

int __wrap_rollout_watch_load_path(Session *session, WorkloadKind kind, const KubePath *path,
                                   RolloutWatch *ret, Error *reterr) {
        ret->path = *path;
        ret->view.kind = kind;
        ret->view.workload = make_workload();
        ret->view.owned = parse("{}");
        ret->view.pods = parse("{'web-0':{'metadata':{'name':'web-0'}}}");
        return 0;
}

int64_t __wrap_session_server_sec(const Session *session) {
        return 1795410600; /* 2026-11-23T05:10:00Z */
}

static const struct OpenRow {
        const char *name;
        const char *record;
        const char *labels, *pod;
        const char *state; /* NULL: it is not shown */
        const char *after;
} open_rows[] = {
        { "one that goes on", RECORD("forward"), NULL, NULL, "forward", "{'app':'app:2'}" },
        { "one that is taken back", RECORD("undo"), NULL, NULL, "undo", "{'app':'app:2'}" },
        { "one that has ended", RECORD("done"), NULL, NULL, NULL, NULL },
        { "of a pod with the labels", RECORD("forward"), "tier=gold", "web-0", "forward",
          "{'app':'app:2'}" },
        { "of pods without the labels", RECORD("forward"), "tier=gold", "db-0", NULL, NULL },
};

TEST_ROWS(test_open, open_rows, name, const struct OpenRow *row) {
        cleanup(json_object_put_p) json_object *list = json_object_new_array();
        cleanup(error_done) Error error = ERROR_INIT;
        json_object *item;

        server_record = row->record;
        server_pod = row->pod;
        assert_ok(open_updates_of_namespace(NULL, NULL, row->labels, list, &error));
        assert_int_equal(json_object_array_length(list), row->state ? 1 : 0);
        if (!row->state)
                return;
        item = json_object_array_get_idx(list, 0);
        assert_string_equal(json_get_text(item, "kind"), "deployment.apps");
        assert_string_equal(json_get_text(item, "namespace"), "shop");
        assert_string_equal(json_get_text(item, "name"), "web");
        assert_string_equal(json_get_text(item, "by"), "alice");
        assert_string_equal(json_get_text(item, "state"), row->state);
        assert_json(json_object_object_get(item, "after"), row->after);
        assert_contains(json_get_text(item, "text"), "has not ended");
}

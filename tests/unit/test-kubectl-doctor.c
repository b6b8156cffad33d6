/* SPDX-License-Identifier: Apache-2.0 */

/* Whether the doctor tells which pods may run preloaded private images. */

#include "tests/unit/unit.h"

#include "agent/document/json-reader.h"
#include "agent/kubectl/agents.h"
#include "agent/kubectl/commands.h"
#include "agent/kubectl/open-updates.h"
#include "agent/kubectl/rights.h"
#include "tests/unit/quoted-json.h"

/* A server with a node and its agent; its functions stand for those of the session, see tests/CMakeLists.txt. */
static const char *server_policy; /* policy of the kubelet; NULL: the user may not ask it */
static char server_value[256];    /* fact of the doctor about these images */

int __wrap_agents_read(Session *session, const char *node_image_version, bool must_answer,
                       Agents *ret, Error *reterr);
int __wrap_agents_read_pods(Session *session, const char *namespace, Agents *ret, Error *reterr);
int __wrap_open_updates_of_namespace(Session *session, const char *namespace, const char *labels,
                                     json_object *list, Error *reterr);
int __wrap_output_tree(OutputFormat format, json_object *tree);
int __wrap_rights_check(Rights *rights, RightsTask task, const char *name, RightsMissing *ret,
                        Error *reterr);
int __wrap_session_find_kruise(Session *session, const char *resource, const char **ret,
                               Error *reterr);
int __wrap_session_find_version(Session *session, const KubeKind *kind, const char **ret,
                                Error *reterr);
int __wrap_session_get(Session *session, const KubePath *path, json_object **ret, Error *reterr);
int __wrap_session_list_metadata(Session *session, const KubePath *path, SessionItem on_item,
                                 void *userdata, Error *reterr);
const char *__wrap_session_namespace(const Session *session);
int64_t __wrap_session_server_sec(const Session *session);
const char *__wrap_session_target(const Session *session);
const char *__wrap_session_user(Session *session);

int __wrap_agents_read(Session *session, const char *node_image_version, bool must_answer,
                       Agents *ret, Error *reterr) {
        NodeAgent *agent = calloc(1, sizeof(*agent));

        *agent = (NodeAgent){ .node = strdup("worker-1"), .version = strdup("1"), .wrote_at = 1 };
        *ret = (Agents){ .items = malloc(sizeof(agent)), .n_items = 1 };
        ret->items[0] = agent;
        return 0;
}

int __wrap_agents_read_pods(Session *session, const char *namespace, Agents *ret, Error *reterr) {
        return 0;
}

int __wrap_open_updates_of_namespace(Session *session, const char *namespace, const char *labels,
                                     json_object *list, Error *reterr) {
        return 0;
}

int __wrap_output_tree(OutputFormat format, json_object *tree) {
        json_object *fact = json_find(json_get(tree, "facts", json_type_array), "subject",
                                      "preloaded private images");

        (void) snprintf(server_value, sizeof(server_value), "%s",
                        json_get_text(fact, "value") ?: "");
        return 0;
}

int __wrap_rights_check(Rights *rights, RightsTask task, const char *name, RightsMissing *ret,
                        Error *reterr) {
        *ret = (RightsMissing){ .text = strdup(""), .has_own = true };
        return 0;
}

int __wrap_session_find_kruise(Session *session, const char *resource, const char **ret,
                               Error *reterr) {
        *ret = "v1alpha1";
        return 0;
}

int __wrap_session_find_version(Session *session, const KubeKind *kind, const char **ret,
                                Error *reterr) {
        *ret = "v1";
        return 0;
}

int __wrap_session_get(Session *session, const KubePath *path, json_object **ret, Error *reterr) {
        assert_string_equal(path->name, "worker-1");
        assert_string_equal(path->proxied, "configz");
        if (!server_policy)
                return error_set(reterr, ERROR_DENIED, "no right to get nodes/proxy");
        *ret = parse("{'kubeletconfig':{'imagePullCredentialsVerificationPolicy':'%s'}}",
                     server_policy);
        return 0;
}

int __wrap_session_list_metadata(Session *session, const KubePath *path, SessionItem on_item,
                                 void *userdata, Error *reterr) {
        cleanup(json_object_put_p) json_object *node = parse("{'metadata':{'name':'worker-1'}}");

        return strcmp(path->resource, "nodes") == 0 ? on_item(node, userdata)
                                                    : error_set(reterr, ERROR_DENIED, "no right");
}

const char *__wrap_session_namespace(const Session *session) {
        return "shop";
}

int64_t __wrap_session_server_sec(const Session *session) {
        return 1000;
}

const char *__wrap_session_target(const Session *session) {
        return "https://10.96.0.1:6443";
}

const char *__wrap_session_user(Session *session) {
        return "alice";
}

static const struct PreloadedRow {
        const char *name;
        const char *policy;
        const char *value;
} preloaded_rows[] = {
        { "any pod", "NeverVerifyPreloadedImages", "any pod may run them: 1 node (worker-1)" },
        { "pods with credentials", "AlwaysVerify",
          "a pod needs pull credentials of its own (AlwaysVerify): 1 node (worker-1)" },
        { "not known", NULL, "no right to get nodes/proxy" },
};

TEST_ROWS(test_preloaded, preloaded_rows, name, const struct PreloadedRow *row) {
        server_policy = row->policy;
        server_value[0] = '\0';
        assert_ok(kubectl_doctor(NULL, &(const Flags){ .format = OUTPUT_JSON }));
        assert_string_equal(server_value, row->value);
}

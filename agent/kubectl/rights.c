/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/rights.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"

int rights_init(Session *session, Rights *ret) {
        *ret = (Rights){ .session = session, .answers = json_object_new_object() };
        return ret->answers ? 0 : -ENOMEM;
}

void rights_done(Rights *rights) {
        json_object_put(rights->answers);
}

void rights_missing_done(RightsMissing *missing) {
        free(missing->text);
}

int rights_ask(Session *session, const Right *right, const char *verb, const char *namespace,
               const char *name, bool *ret, Error *reterr) {
        static const KubePath path = { .group = "authorization.k8s.io",
                                       .version = "v1",
                                       .resource = "selfsubjectaccessreviews" };
        cleanup(json_object_put_p) json_object *question = NULL;
        cleanup(json_object_put_p) json_object *answer = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = right_review(right, verb, namespace, name, &question);
        if (r >= 0)
                r = session_create(session, &path, question, &answer, &error);
        *ret = r < 0 || right_is_allowed(answer);
        if (error.kind == ERROR_DENIED || error.kind == ERROR_NOT_FOUND)
                return 0;

        return error.kind == ERROR_NONE ? r : error_copy(reterr, &error);
}

/* "pods/status", "replicasets.apps" */
static void format_resource(const Right *right, char *buffer, size_t size) {
        (void) snprintf(buffer, size, "%s%s%s%s%s", right->resource, right->group[0] ? "." : "",
                        right->group, right->subresource ? "/" : "", right->subresource ?: "");
}

static int is_allowed(const Rights *rights, const Right *right, const char *verb, const char *name,
                      bool *ret, Error *reterr) {
        char key[160], resource[128];
        json_object *known;
        int r;

        format_resource(right, resource, sizeof(resource));
        (void) snprintf(key, sizeof(key), "%s %s%s", verb, resource, name ? " by name" : "");
        if (json_object_object_get_ex(rights->answers, key, &known)) {
                *ret = json_object_get_boolean(known);
                return 0;
        }

        r = rights_ask(rights->session, right, verb, session_namespace(rights->session), name, ret,
                       reterr);
        return r < 0 ? r : patch_add_bool(rights->answers, key, *ret);
}

/* Adds the verbs that are missing. *ret_may: the last verb is allowed. */
static int check_right(const Rights *rights, const Right *right, const char *name, FILE *to,
                       size_t *n_missing, bool *ret_may, Error *reterr) {
        const char *separator = ftell(to) > 0 ? "; " : "";
        char verb[16], resource[128];
        size_t n = 0;
        int size, r;

        for (const char *verbs = right->verbs; sscanf(verbs, " %15s%n", verb, &size) == 1;
             verbs += size) {
                r = is_allowed(rights, right, verb, name, ret_may, reterr);
                if (r < 0)
                        return r;
                if (*ret_may)
                        continue;

                (void) fprintf(to, "%s%s", n++ > 0 ? ", " : separator, verb);
        }
        if (n == 0)
                return 0;

        *n_missing += right->is_optional ? 0 : n;
        format_resource(right, resource, sizeof(resource));
        return fprintf(to, " %s", resource) < 0 ? -ENOMEM : 0;
}

int rights_check(Rights *rights, RightsTask task, const char *name, RightsMissing *ret,
                 Error *reterr) {
        bool is_first = true, may = false;
        size_t size;
        FILE *to;
        int r = 0;

        *ret = (RightsMissing){ .n = 0 };
        to = text_open(&ret->text, &size);
        if (!to)
                return -ENOMEM;

        for (size_t i = 0; r >= 0 && i < n_right_specs; i++) {
                const Right *right = &right_specs[i];

                if (!(right->tasks & 1u << task))
                        continue;

                r = check_right(rights, right, right_has_name(right, task) ? name : NULL, to,
                                &ret->n, &may, reterr);
                ret->has_own = is_first ? may : ret->has_own;
                is_first = false;
        }
        return text_close(to, &ret->text) ?: r;
}

/* Names the task, "deployment/web" or "restart", in the refusal. */
static int require(Session *session, RightsTask task, const char *what, const char *name,
                   Error *reterr) {
        cleanup(rights_missing_done) RightsMissing missing = { .text = NULL };
        cleanup(rights_done) Rights rights = { .answers = NULL };
        int r = rights_init(session, &rights);

        if (r >= 0)
                r = rights_check(&rights, task, name, &missing, reterr);
        if (r < 0 || missing.n == 0)
                return r;

        return error_set(
                reterr, ERROR_DENIED,
                "%s: the user \"%s\" lacks rights in namespace %s: %s; an administrator grants "
                "them with: " RIGHTS_GRANT,
                what, session_user(session), session_namespace(session), missing.text,
                session_namespace(session), session_user(session));
}

int rights_require(Session *session, const char *workload, Error *reterr) {
        WorkloadKind kind;
        const char *name;
        int r = workload_name_parse(workload, &kind, &name, reterr);

        return r < 0 ? r : require(session, (RightsTask) kind, workload, name, reterr);
}

int rights_require_task(Session *session, RightsTask task, Error *reterr) {
        return require(session, task, rights_task_to_string(task), /* name= */ NULL, reterr);
}

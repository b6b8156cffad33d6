/* SPDX-License-Identifier: Apache-2.0 */

/* Names of the cluster that a shell offers. */

#include "tests/unit/unit.h"

#include "agent/kubectl/complete.h"
#include "agent/view/terminal.h"
#include "tests/unit/quoted-json.h"

/* The words that were printed, each with a space behind it; see tests/CMakeLists.txt. */
static char offered[256];

int __wrap_session_new(const SessionOptions *options, Session **ret, Error *reterr);
const char *__wrap_session_namespace(const Session *session);
int __wrap_session_list_metadata(Session *session, const KubePath *path, SessionItem on_item,
                                 void *userdata, Error *reterr);
int __wrap_print_safe_to(FILE *file, const char *format, ...) __attribute__((format(printf, 2, 3)));

int __wrap_session_new(const SessionOptions *options, Session **ret, Error *reterr) {
        return 0;
}

const char *__wrap_session_namespace(const Session *session) {
        return "shop";
}

int __wrap_session_list_metadata(Session *session, const KubePath *path, SessionItem on_item,
                                 void *userdata, Error *reterr) {
        static const struct {
                const char *resource, *names[3];
        } all[] = {
                { "namespaces", { "default", "kube-public", "kube-system" } },
                { "nodes", { "control", "worker-1", "worker-2" } },
                { "deployments", { "web" } },
                { "statefulsets", { "db", "web-db" } },
                { "pods", { "web-0" } },
        };

        for (size_t i = 0; i < N_ELEMENTS(all); i++)
                for (size_t j = 0; strcmp(all[i].resource, path->resource) == 0 &&
                                   j < N_ELEMENTS(all[i].names) && all[i].names[j];
                     j++) {
                        cleanup(json_object_put_p) json_object *item =
                                parse("{'metadata':{'name':'%s'}}", all[i].names[j]);

                        assert_ok(on_item(item, userdata));
                }
        return 0;
}

int __wrap_print_safe_to(FILE *file, const char *format, ...) {
        size_t size = strlen(offered);
        va_list arguments;

        va_start(arguments, format);
        size += (size_t) vsnprintf(offered + size, sizeof(offered) - size, format, arguments);
        va_end(arguments);
        (void) snprintf(offered + size, sizeof(offered) - size, " ");
        return 0;
}

static const struct CompleteRow {
        const char *name;
        CommandId command;
        const char *flag; /* NULL: an argument is completed */
        const char *current;
        const char *offered;
} complete_rows[] = {
        { "a namespace", COMMAND_STATUS, "--namespace", "kube-", "kube-public kube-system " },
        { "any namespace", COMMAND_STATUS, "-n", "", "default kube-public kube-system " },
        { "no such namespace", COMMAND_STATUS, "-n", "shop", "" },
        { "a further node", COMMAND_IMAGES, "--nodes", "control,work",
          "control,worker-1 control,worker-2 " },
        { "a workload", COMMAND_ROLLOUT, NULL, "",
          "deployment/web statefulset/db statefulset/web-db " },
        { "a workload of a kind", COMMAND_ROLLOUT, NULL, "sts/w", "sts/web-db " },
        { "a pod", COMMAND_RESTART, NULL, "web", "web-0 " },
};

TEST_ROWS(test_complete, complete_rows, name, const struct CompleteRow *row) {
        const CompleteRequest request = { .command = row->command,
                                          .flag = row->flag ? flags_find(row->flag) : NULL,
                                          .current = row->current };
        const char *directive;

        offered[0] = '\0';
        assert_ok(complete_from_cluster(&request, &directive));
        assert_string_equal(offered, row->offered);
        assert_string_equal(directive, COMPLETE_NO_FILES);
}

/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/complete.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/kubectl/pod-choice.h"
#include "agent/kubectl/workload.h"
#include "agent/view/terminal.h"

#define TIMEOUT_USEC ((uint64_t) 3 * 1000000)

/* The texts around each candidate, and the word as typed so far. */
typedef struct Candidates {
        const char *prefix, *suffix;
        const char *current;
} Candidates;

static int add(const Candidates *candidates, const char *name) {
        cleanup(free_p) char *text = NULL;

        if (text_format(&text, "%s%s%s", candidates->prefix, name, candidates->suffix) < 0)
                return -ENOMEM;

        return strncmp(text, candidates->current, strlen(candidates->current)) == 0
                       ? print_safe("%s", text)
                       : 0;
}

static int on_item(json_object *item, void *userdata) {
        return add(userdata, object_name(item));
}

/* Lists the names of the cluster, or of the session's namespace. */
static void list(Session *session, const KubePath *path, const char *prefix, const char *current) {
        Candidates candidates = { .prefix = prefix, .suffix = "", .current = current };

        (void) session_list_metadata(session, path, on_item, &candidates, /* reterr= */ NULL);
}

static void list_kind(Session *session, WorkloadKind kind, const char *prefix,
                      const char *current) {
        KubePath path = workload_path(kind, session_namespace(session), /* name= */ NULL);

        path.version = path.version ?: "v1alpha1";
        list(session, &path, prefix, current);
}

/* Completes "sts/d": the kind before the slash stays. */
static void list_of_kind(Session *session, const char *current) {
        cleanup(free_p) char *prefix = strndup(current, strcspn(current, "/") + 1);
        WorkloadKind kind;

        if (prefix && workload_kind_parse(prefix, strlen(prefix) - 1, &kind))
                list_kind(session, kind, prefix, current);
}

static void list_workloads(Session *session, bool has_pods, const char *current) {
        static const WorkloadKind usual[] = { WORKLOAD_DEPLOYMENT, WORKLOAD_STATEFUL_SET,
                                              WORKLOAD_DAEMON_SET };
        static const char *const prefixes[] = { "deployment/", "statefulset/", "daemonset/" };

        if (strchr(current, '/')) {
                list_of_kind(session, current);
                return;
        }

        for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
                if (strncmp(prefixes[i], current, strlen(current)) == 0)
                        list_kind(session, usual[i], prefixes[i], current);
        if (has_pods)
                list_kind(session, WORKLOAD_POD, "", current);
}

/* "deployment web" or "deployment/web" */
static int find_template(Session *session, const CompleteRequest *request, json_object **ret) {
        cleanup(free_p) char *joined = NULL;
        const char *first = request->arguments[0], *name;
        WorkloadKind kind;
        KubePath path;
        int r = 0;

        if (request->n_arguments > 1 && workload_is_kind(first))
                r = text_format(&joined, "%s/%s", first, request->arguments[1]);
        else if (!strchr(first, '/'))
                r = text_format(&joined, "pod/%s", first);
        if (r < 0)
                return r;

        r = workload_name_parse(joined ?: first, &kind, &name, /* reterr= */ NULL);
        return r < 0 ? r : workload_find(session, kind, name, &path, ret, /* reterr= */ NULL);
}

static void list_containers(Session *session, const CompleteRequest *request, const char *prefix,
                            const char *suffix, const char *current) {
        const Candidates candidates = { .prefix = prefix, .suffix = suffix, .current = current };
        cleanup(json_object_put_p) json_object *workload = NULL;
        cleanup(json_object_put_p) json_object *all = patch_wrap("*", json_object_new_string(""));
        cleanup(json_object_put_p) json_object *images = NULL;

        if (!all || find_template(session, request, &workload) < 0 ||
            template_expand_images(object_template(workload), all, &images) < 0)
                return;

        json_object_object_foreach(images, name, image) {
                (void) image;
                if (request->command == COMMAND_SET_IMAGE ||
                    !template_ends(object_template(workload), name))
                        (void) add(&candidates, name);
        }
}

/* Keeps the names before the last comma of "a,b,c". */
static int split_list(const char *current, char **ret_prefix) {
        const char *comma = strrchr(current, ',');

        *ret_prefix = strndup(current, comma ? (size_t) (comma + 1 - current) : 0);
        return *ret_prefix ? 0 : -ENOMEM;
}

static int complete_flag(Session *session, const CompleteRequest *request) {
        static const KubePath namespaces = { .version = "v1", .resource = "namespaces" };
        static const KubePath nodes = { .version = "v1", .resource = "nodes" };
        const char *flag = request->flag->name;
        cleanup(free_p) char *prefix = NULL;

        if (split_list(request->current, &prefix) < 0)
                return -ENOMEM;

        if (strcmp(flag, "namespace") == 0 || strcmp(flag, "agent-namespace") == 0)
                list(session, &namespaces, "", request->current);
        else if (strcmp(flag, "nodes") == 0)
                list(session, &nodes, prefix, request->current);
        else if (strcmp(flag, "like") == 0)
                list_workloads(session, /* has_pods= */ false, request->current);
        else if (strcmp(flag, "containers") == 0 && request->n_arguments > 0)
                list_containers(session, request, prefix, "", request->current);
        return 0;
}

/* "deployment web": the kind stands alone, and names follow it. */
static bool is_name_of_kind(const CompleteRequest *request, WorkloadKind *ret) {
        const char *first = request->n_arguments > 0 ? request->arguments[0] : "";

        return workload_kind_parse(first, strlen(first), ret);
}

static void complete_argument(Session *session, const CompleteRequest *request, const char **ret) {
        bool is_update = UPDATE_COMMANDS & 1u << request->command;
        bool takes_many = request->command == COMMAND_STATUS || request->command == COMMAND_PULLS ||
                          request->command == COMMAND_RESTART;
        WorkloadKind kind;
        bool has_kind = is_name_of_kind(request, &kind);
        size_t n_names = request->n_arguments - has_kind;

        if (request->command == COMMAND_SET_IMAGE && n_names > 0) {
                list_containers(session, request, "", "=", request->current);
                *ret = COMPLETE_NO_SPACE;
        } else if (has_kind && (takes_many || (is_update && n_names == 0))) {
                list_kind(session, kind, "", request->current);
        } else if (takes_many || (is_update && n_names == 0)) {
                list_workloads(session, takes_many, request->current);
        }
}

int complete_from_cluster(const CompleteRequest *request, const char **ret) {
        cleanup(session_free_p) Session *session = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        SessionOptions options = request->options;
        int r;

        *ret = COMPLETE_NO_FILES;
        options.timeout_usec = TIMEOUT_USEC;
        r = session_new(&options, &session, &error);
        if (r < 0)
                return error.kind == ERROR_NONE ? r : 0;
        if (request->flag)
                return complete_flag(session, request);

        complete_argument(session, request, ret);
        return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/pod-choice.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"

static int choose_pod(const char *name, PodChoice *choice) {
        if (text_format(&choice->fields, "metadata.name=%s", name) < 0)
                return -ENOMEM;

        return 0;
}

static int workload_find_path(Session *session, WorkloadKind kind, const char *name, KubePath *ret,
                              Error *reterr) {
        KubePath path = workload_path(kind, session_namespace(session), name);
        int r = 0;

        if (!path.version)
                r = session_find_kruise(session, path.resource, &path.version, reterr);
        if (r < 0)
                return r;
        if (!path.version)
                return error_set(reterr, ERROR_UNSUPPORTED,
                                 "the cluster has no %s.%s: is OpenKruise installed?",
                                 path.resource, path.group);

        *ret = path;
        return 0;
}

/* "namespaces "shpo" not found" says more than that something in it is not there. */
static int explain_missing(Session *session, const Error *error, Error *reterr) {
        const KubePath path = { .version = "v1",
                                .resource = "namespaces",
                                .name = session_namespace(session) };
        cleanup(error_done) Error of_namespace = ERROR_INIT;

        (void) session_get(session, &path, /* ret= */ NULL, &of_namespace);
        return error_copy(reterr, of_namespace.kind == ERROR_NOT_FOUND ? &of_namespace : error);
}

int workload_find(Session *session, WorkloadKind kind, const char *name, KubePath *ret_path,
                  json_object **ret, Error *reterr) {
        cleanup(error_done) Error error = ERROR_INIT;
        int r = workload_find_path(session, kind, name, ret_path, reterr);

        if (r < 0)
                return r;
        r = session_get(session, ret_path, ret, &error);
        if (error.kind == ERROR_NOT_FOUND)
                return explain_missing(session, &error, reterr);

        return error.kind == ERROR_NONE ? r : error_copy(reterr, &error);
}

static int choose_workload(Session *session, WorkloadKind kind, const char *name, PodChoice *choice,
                           Error *reterr) {
        KubePath path;
        int r = workload_find(session, kind, name, &path, &choice->workload, reterr);

        if (r < 0)
                return r;

        choice->kind = kind;
        return selector_format(object_at(choice->workload, "spec.selector"), &choice->labels);
}

int pod_choice_of_name(Session *session, const char *name, PodChoice *ret, Error *reterr) {
        cleanup(pod_choice_done) PodChoice choice = POD_CHOICE_INIT;
        WorkloadKind kind = WORKLOAD_POD;
        const char *its_name = name;
        int r;

        r = text_copy(name, &choice.name);
        if (r < 0)
                return r;
        if (strchr(name, '/')) {
                r = workload_name_parse(name, &kind, &its_name, reterr);
                if (r < 0)
                        return r;
        }

        r = kind == WORKLOAD_POD ? choose_pod(its_name, &choice)
                                 : choose_workload(session, kind, its_name, &choice, reterr);
        if (r < 0)
                return r;

        *ret = choice;
        choice = POD_CHOICE_INIT;
        return 0;
}

int pod_choice_of_labels(const char *selector, PodChoice *ret) {
        *ret = POD_CHOICE_INIT;
        return text_copy(selector, &ret->labels);
}

void pod_choice_done(PodChoice *choice) {
        free(choice->fields);
        free(choice->labels);
        free(choice->name);
        json_object_put(choice->workload);
        *choice = POD_CHOICE_INIT;
}

typedef struct Listing {
        SessionItem on_pod;
        void *userdata;
        size_t n;
} Listing;

static int on_item(json_object *pod, void *userdata) {
        Listing *listing = userdata;

        listing->n++;
        return listing->on_pod(pod, listing->userdata);
}

int pod_choice_list(Session *session, const PodChoice *choice, const char *namespace,
                    SessionItem on_pod, void *userdata, size_t *ret_n, Error *reterr) {
        const KubePath path = { .version = "v1",
                                .namespace = namespace,
                                .resource = "pods",
                                .fields = choice->fields,
                                .labels = choice->labels };
        Listing listing = { .on_pod = on_pod, .userdata = userdata };
        int r;

        r = session_list(session, &path, on_item, &listing, reterr);
        if (r < 0)
                return r;

        *ret_n = listing.n;
        return 0;
}

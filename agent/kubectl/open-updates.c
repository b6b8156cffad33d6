/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/open-updates.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/controller-plan.h"
#include "agent/kubectl/pod-choice.h"
#include "agent/kubectl/rollout-text.h"
#include "agent/kubectl/rollout-watch.h"

/* An undo goes to the images before, also that of an ended update, whose own record calls the way back an update. */
static int add_direction(json_object *item, json_object *record) {
        bool is_other = record_undoes(record), is_undo = is_other || record_is_undo(record);

        if (patch_add_text(item, "state", is_undo ? "undo" : "forward") < 0 ||
            patch_add(item, "before", json_object_get(record_images(record, !is_other))) < 0)
                return -ENOMEM;
        return patch_add(item, "after", json_object_get(record_images(record, is_other)));
}

/* Why a declared update does not go on; NULL: it does, as far as is known. */
static const char *reason_of(json_object *workload) {
        return object_annotation(workload, UPDATE_STATUS_ANNOTATION);
}

/* census: NULL: the pods are not known. */
static int describe(const KubePath *path, const RolloutView *view, json_object *record,
                    const Census *census, int64_t now_sec, json_object **ret) {
        static const char *const copied[] = { "by", "since" };
        cleanup(json_object_put_p) json_object *item = json_object_new_object();
        cleanup(free_p) char *text = NULL;
        const char *reason = reason_of(view->workload);
        cleanup(free_p) char *open = NULL;
        int r = rollout_text_open(record, view, census, now_sec, &open);

        if (r >= 0)
                r = text_format(&text, "%s%s%s", open, reason ? "; it does not go on: " : "",
                                reason ?: "");
        if (r < 0 || !item ||
            patch_add_text(item, "kind", workload_kind_to_string(view->kind)) < 0 ||
            patch_add_text(item, "namespace", path->namespace) < 0 ||
            patch_add_text(item, "name", path->name) < 0 ||
            patch_add_filled(item, "reason", reason) < 0 || patch_add_text(item, "text", text) < 0)
                return -ENOMEM;
        for (size_t i = 0; i < sizeof(copied) / sizeof(copied[0]); i++)
                if (patch_add(item, copied[i],
                              json_object_get(json_object_object_get(record, copied[i]))) < 0)
                        return -ENOMEM;
        if (add_direction(item, record) < 0)
                return -ENOMEM;
        if (record_first(record) > 0 &&
            patch_add(item, "first", json_object_new_int64(record_first(record))) < 0)
                return -ENOMEM;
        if (census && (patch_add_bool(item, "held", view_is_held(view)) < 0 ||
                       patch_add_number(item, "updated", census->n_by_phase[ROLLOUT_UPDATED]) < 0 ||
                       patch_add_number(item, "pods", census->n_concerned) < 0))
                return -ENOMEM;

        *ret = take_ptr(item);
        return 0;
}

typedef struct Search {
        json_object *pods; /* NULL: they are not known */
        bool is_found;
} Search;

static int on_pod(json_object *pod, void *userdata) {
        Search *search = userdata;

        search->is_found |= json_object_object_get_ex(search->pods, object_name(pod), NULL);
        return 0;
}

/* Whether one of the pods has these labels. */
static int has_pod(const RolloutWatch *watch, const char *labels, bool *ret, Error *reterr) {
        Search search = { .pods = watch->view.pods };
        KubePath path = workload_path(WORKLOAD_POD, watch->path.namespace, NULL);
        int r;

        path.labels = labels;
        r = session_list_metadata(watch->session, &path, on_pod, &search, reterr);
        *ret = search.is_found;
        return r;
}

/* Adds the update without user and images. */
static int add_alone(WorkloadKind kind, const KubePath *path, const char *state, const char *reason,
                     const char *text, json_object *list) {
        cleanup(json_object_put_p) json_object *item = json_object_new_object();

        if (patch_add_text(item, "kind", workload_kind_to_string(kind)) < 0 ||
            patch_add_text(item, "namespace", path->namespace) < 0 ||
            patch_add_text(item, "name", path->name) < 0 ||
            patch_add_text(item, "state", state) < 0 ||
            patch_add_filled(item, "reason", reason) < 0 || patch_add_text(item, "text", text) < 0)
                return -ENOMEM;
        return patch_append(list, take_ptr(item));
}

/* Admission holds the workload, or its manifest does and the controller says why that goes on; no update has begun. The
 * annotation alone, which kubectl rollout undo may bring back, holds nothing. whole: NULL: it may not be read. */
static int add_held(WorkloadKind kind, const KubePath *path, json_object *workload,
                    json_object *whole, json_object *list) {
        const char *reason = reason_of(workload);

        if (whole ? !workload_is_held(kind, whole) : !workload_held(workload))
                return 0;
        return add_alone(kind, path, "held", reason,
                         reason
                                 ?: "it is held for an update in place that has not begun: does "
                                    "kubectl inplace controller run?",
                         list);
}

static int add_open(const RolloutWatch *watch, json_object *record, bool is_whole,
                    json_object *list) {
        cleanup(json_object_put_p) json_object *item = NULL;
        cleanup(census_done) Census census = CENSUS_INIT;

        if ((is_whole && census_take(&watch->view, record, &census) < 0) ||
            describe(&watch->path, &watch->view, record, is_whole ? &census : NULL,
                     session_server_sec(watch->session), &item) < 0)
                return -ENOMEM;
        return patch_append(list, take_ptr(item));
}

/* A workload with something to tell is read once more, with its pods. */
static int add_update(Session *session, WorkloadKind kind, const KubePath *path,
                      json_object *workload, const char *labels, json_object *list, Error *reterr) {
        cleanup(json_object_put_p) json_object *record = NULL;
        cleanup(rollout_watch_done) RolloutWatch watch = { .session = session };
        cleanup(error_done) Error unreadable = ERROR_INIT, error = ERROR_INIT;
        bool is_chosen, is_open, is_whole;
        int r = rollout_record_read(workload, &record, &unreadable);

        if (kind == WORKLOAD_REPLICA_SET && object_owner(workload))
                return 0; /* the record is a copy, which the Deployment's controller has made */
        if (r < 0 && unreadable.kind == ERROR_NONE)
                return r;
        is_open = rollout_record_is_open(record);
        if (r >= 0 && !is_open && !workload_held(workload) && !reason_of(workload))
                return 0;
        r = rollout_watch_load_path(session, kind, path, &watch, &error);
        is_whole = r >= 0;
        if (error.kind == ERROR_NOT_FOUND)
                return 0;
        if (r < 0 && error.kind != ERROR_DENIED)
                return error.kind == ERROR_NONE ? r : error_copy(reterr, &error);
        if (labels) {
                r = has_pod(&watch, labels, &is_chosen, reterr);
                if (r < 0 || !is_chosen)
                        return r;
        }
        if (unreadable.kind != ERROR_NONE)
                return add_alone(kind, path, "unreadable", /* reason= */ NULL,
                                 error_message(&unreadable), list);
        return is_open ? add_open(&watch, record, is_whole, list)
                       : add_held(kind, path, workload, watch.view.workload, list);
}

static int on_workload(json_object *workload, void *userdata) {
        if (!object_annotation(workload, ROLLOUT_ANNOTATION) && !workload_held(workload) &&
            !reason_of(workload))
                return 0;
        return patch_append(userdata, json_object_get(workload));
}

static int add_of_kind(Session *session, WorkloadKind kind, const char *namespace,
                       const char *labels, json_object *list, Error *reterr) {
        const KubePath path = workload_path(kind, namespace, NULL);
        cleanup(json_object_put_p) json_object *found = json_object_new_array();
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        if (!found)
                return -ENOMEM;
        r = session_list_metadata(session, &path, on_workload, found, &error);
        if (r < 0 && error.kind != ERROR_DENIED)
                return error.kind == ERROR_NONE ? r : error_copy(reterr, &error);
        for (size_t i = 0; i < json_object_array_length(found); i++) {
                json_object *workload = json_object_array_get_idx(found, i);
                const KubePath one =
                        workload_path(kind, object_text(workload, "metadata.namespace"),
                                      object_name(workload));

                r = add_update(session, kind, &one, workload, labels, list, reterr);
                if (r < 0)
                        return r;
        }
        return 0;
}

bool open_update_can_go_on(json_object *update) {
        return !json_is(update, "state", "unreadable");
}

int open_updates_of_namespace(Session *session, const char *namespace, const char *labels,
                              json_object *list, Error *reterr) {
        static const WorkloadKind kinds[] = { WORKLOAD_DEPLOYMENT, WORKLOAD_STATEFUL_SET,
                                              WORKLOAD_DAEMON_SET, WORKLOAD_REPLICA_SET,
                                              WORKLOAD_POD };

        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
                int r = add_of_kind(session, kinds[i], namespace, labels, list, reterr);

                if (r < 0)
                        return r;
        }
        return 0;
}

int open_updates_of_workload(Session *session, const char *workload, json_object *list,
                             Error *reterr) {
        cleanup(json_object_put_p) json_object *object = NULL;
        WorkloadKind kind;
        cleanup(error_done) Error error = ERROR_INIT;
        const char *name;
        KubePath path;
        int r = workload_name_parse(workload, &kind, &name, reterr);

        if (r < 0)
                return r;
        r = workload_find(session, kind, name, &path, &object, &error);
        if (error.kind == ERROR_NOT_FOUND || error.kind == ERROR_DENIED)
                return 0;
        if (r < 0)
                return error.kind == ERROR_NONE ? r : error_copy(reterr, &error);
        return add_update(session, kind, &path, object, /* labels= */ NULL, list, reterr);
}

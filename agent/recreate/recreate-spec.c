/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/recreate/recreate-spec.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/rfc3339.h"
#include "agent/base/text.h"
#include "agent/document/documents.h"
#include "agent/document/json-fields.h"

#define BLOCK_SIZE 24 /* bytes that the allocator adds to a text */
#define SECONDS_MAX ((int64_t) 10 * 366 * 24 * 3600)

/* The status, by the agent or a controller, and a controller's annotations: parsing never fails on
 * them */

static int read_state(struct json_object *item, RecreateState *state) {
        const char *message = json_get_filled(item, "message");

        state->is_killed = json_object_get_boolean(json_get(item, "isKilled", json_type_boolean));
        return recreate_state_set(state, recreate_phase_from_string(json_get_filled(item, "phase")),
                                  message);
}

/* Finds by name, since a writer may use another order. */
static int read_states(struct json_object *list, RecreateSpec *spec) {
        RecreateStatus *status = &spec->status;
        size_t n_listed = list ? json_object_array_length(list) : 0;
        int r;

        status->states = calloc(spec->n_containers + 1, sizeof(status->states[0]));
        if (!status->states)
                return -ENOMEM;

        status->n_states = spec->n_containers;
        status->has_other_states = n_listed != 0 && n_listed != spec->n_containers;
        for (size_t i = 0; i < spec->n_containers; i++) {
                const char *name = spec->containers[i].name;
                struct json_object *here = i < n_listed ? json_object_array_get_idx(list, i) : NULL;
                const char *listed = json_get_filled(here, "name");
                struct json_object *item =
                        listed && strcmp(listed, name) == 0 ? here : json_find(list, "name", name);

                status->has_other_states = status->has_other_states || item != here;
                status->states[i].name = strdup(name);
                if (!status->states[i].name)
                        return -ENOMEM;
                r = item ? read_state(item, &status->states[i]) : 0;
                if (r < 0)
                        return r;
        }

        return 0;
}

static int read_status(struct json_object *object, RecreateSpec *spec) {
        const char *message = json_get_filled(object, "message");
        const char *completed = json_get_filled(object, "completionTime");
        RecreateStatus *status = &spec->status;

        status->phase = recreate_phase_from_string(json_get_filled(object, "phase"));
        status->is_completed = completed || status->phase == RECREATE_COMPLETED;
        if (completed)
                (void) rfc3339_parse(completed, &status->completed_at);
        status->message = message ? recreate_text_copy(message) : NULL;
        if (message && !status->message)
                return -ENOMEM;

        return read_states(json_get(object, "containerRecreateStates", json_type_array), spec);
}

static int read_snapshot(struct json_object *list, RecreateSpec *spec) {
        size_t n = list ? json_object_array_length(list) : 0;

        if (n > RECREATE_CONTAINERS_MAX)
                n = RECREATE_CONTAINERS_MAX;

        spec->snapshot = calloc(n + 1, sizeof(spec->snapshot[0]));
        if (!spec->snapshot)
                return -ENOMEM;

        for (size_t i = 0; i < n; i++) {
                struct json_object *item = json_object_array_get_idx(list, i);
                const char *name = json_get_filled(item, "name");
                const char *id = json_get_filled(item, "containerID");
                RecreateSnapshot *snapshot = &spec->snapshot[spec->n_snapshot];

                if (!name || !id)
                        continue;

                spec->n_snapshot++;
                *snapshot = (RecreateSnapshot){
                        .name = strdup(name),
                        .container_id = strdup(id),
                        .is_ready =
                                json_object_get_boolean(json_get(item, "ready", json_type_boolean)),
                };
                if (!snapshot->name || !snapshot->container_id)
                        return -ENOMEM;
        }

        return 0;
}

static int read_drain_time(const char *text, RecreateSpec *spec) {
        spec->is_drained = true;
        if (rfc3339_parse(text, &spec->drained_at) >= 0)
                return 0;

        spec->bad_drain = recreate_text_copy(text);
        return spec->bad_drain ? 0 : -ENOMEM;
}

/* A condition without a time counts as begun when the agent first sees it. */
static void read_condition(struct json_object *status, RecreateSpec *spec) {
        struct json_object *condition = json_find(json_get(status, "conditions", json_type_array),
                                                  "type", RECREATE_CONDITION_DRAINED);
        const char *value = json_get_filled(condition, "status");
        const char *time = json_get_filled(condition, "lastTransitionTime");

        spec->is_drained = value && strcmp(value, "True") == 0;
        spec->drained_at = INT64_MAX;
        if (time)
                (void) rfc3339_parse(time, &spec->drained_at);
}

/* Keeps them as text, which is smaller: the patch that adds one replaces the whole list. */
static int read_conditions(struct json_object *status, RecreateSpec *spec) {
        struct json_object *list = json_get(status, "conditions", json_type_array);

        read_condition(status, spec);
        return list && spec->is_managed && spec->unready_sec >= 0
                       ? json_copy_text(list, &spec->conditions)
                       : 0;
}

/* Parses the JSON in the text of an annotation. */
static int read_annotations(struct json_object *annotations, RecreateSpec *spec) {
        cleanup(documents_done) Documents documents = DOCUMENTS_INIT;
        cleanup(error_done) Error ignored = ERROR_INIT;
        const char *snapshot = json_get_filled(annotations, RECREATE_ANNOTATION_SNAPSHOT);
        const char *drained = json_get_filled(annotations, RECREATE_ANNOTATION_DRAINED);
        bool is_list = false;
        int r;

        r = snapshot ? documents_parse(snapshot, strlen(snapshot), &documents, &ignored) : 0;
        if (r < 0 && ignored.kind == ERROR_NONE)
                return r;

        is_list =
                documents.n_items == 1 && json_object_is_type(documents.items[0], json_type_array);
        r = read_snapshot(is_list ? documents.items[0] : NULL, spec);
        if (r < 0)
                return r;

        return drained ? read_drain_time(drained, spec) : 0;
}

static int read_notes(struct json_object *object, RecreateDialect dialect, RecreateSpec *spec) {
        struct json_object *metadata = json_get(object, "metadata", json_type_object);
        struct json_object *status = json_get(object, "status", json_type_object);
        int r;

        r = read_status(status, spec);
        if (r < 0)
                return r;

        if (dialect == RECREATE_V1ALPHA1)
                return read_annotations(json_get(metadata, "annotations", json_type_object), spec);

        r = read_conditions(status, spec);
        if (r < 0)
                return r;
        return read_snapshot(json_get(status, "containerStatusSnapshot", json_type_array), spec);
}

static void notes_done(RecreateSpec *spec) {
        for (size_t i = 0; i < spec->n_snapshot; i++) {
                free(spec->snapshot[i].name);
                free(spec->snapshot[i].container_id);
        }
        free(spec->snapshot);
        free(spec->bad_drain);
        free(spec->conditions);
        recreate_status_done(&spec->status);
}

DEFINE_CLEANUP(RecreateSpec *, recreate_spec_free)

static int read_policy(const char *text, const JsonPath *path, void *ret, const void *context,
                       Error *reterr) {
        *(bool *) ret = text && strcmp(text, "Ignore") == 0;
        return 0;
}

/* Clamps values out of range. */
static int read_seconds(struct json_object *value, const JsonPath *path, void *ret,
                        const void *context, Error *reterr) {
        int64_t seconds = json_object_get_int64(value);

        if (value)
                *(int64_t *) ret = seconds < 0 ? 0 : seconds > SECONDS_MAX ? SECONDS_MAX : seconds;
        return 0;
}

/* clang-format off */
static const JsonField metadata_fields[] = {
        { "namespace", JSON_STRING, .offset = offsetof(RecreateSpec, namespace), .is_required = true },
        { "name", JSON_STRING, .offset = offsetof(RecreateSpec, name), .is_required = true },
        { "uid", JSON_STRING, .offset = offsetof(RecreateSpec, uid), .is_required = true },
        { "resourceVersion", JSON_STRING, .offset = offsetof(RecreateSpec, version), .is_required = true },
        { .key = NULL },
};

#define SECONDS(key, member) \
        { key, JSON_INTEGER, .offset = offsetof(RecreateSpec, member), .on_value = read_seconds }

static const JsonField strategy_fields[] = {
        { "failurePolicy", JSON_WORD, .offset = offsetof(RecreateSpec, ignores_failure), .on_text = read_policy },
        { "orderedRecreate", JSON_BOOLEAN, .offset = offsetof(RecreateSpec, is_ordered) },
        { "forceRecreate", JSON_BOOLEAN, .offset = offsetof(RecreateSpec, is_forced) },
        SECONDS("terminationGracePeriodSeconds", grace_sec),
        SECONDS("unreadyGracePeriodSeconds", unready_sec),
        SECONDS("minStartedSeconds", min_started_sec),
        { .key = NULL },
};

static const JsonField context_fields[] = {
        { "containerID", JSON_STRING, .offset = offsetof(RecreateContainer, context_id) },
        { "restartCount", JSON_INTEGER, .offset = offsetof(RecreateContainer, restart_count) },
        { .key = NULL },
};

static const JsonField container_fields[] = {
        { "name", JSON_STRING, .offset = offsetof(RecreateContainer, name), .is_required = true },
        { "statusContext", JSON_OBJECT, .fields = context_fields },
        { .key = NULL },
};

static const JsonField spec_fields[] = {
        { "podName", JSON_STRING, .offset = offsetof(RecreateSpec, pod_name), .is_required = true },
        { "strategy", JSON_OBJECT, .fields = strategy_fields },
        SECONDS("activeDeadlineSeconds", deadline_sec),
        SECONDS("ttlSecondsAfterFinished", ttl_sec),
        { .key = NULL },
};

static const JsonField list_fields[] = {
        { "containers", JSON_LIST, .offset = offsetof(RecreateSpec, containers),
          .n_offset = offsetof(RecreateSpec, n_containers), .max = RECREATE_CONTAINERS_MAX,
          .fields = container_fields, .item_size = sizeof(RecreateContainer) },
        { .key = NULL },
};
/* clang-format on */

static int read_metadata(struct json_object *object, RecreateSpec *spec, Error *reterr) {
        struct json_object *metadata = json_get(object, "metadata", json_type_object);
        struct json_object *labels = json_get(metadata, "labels", json_type_object);
        const char *created = json_get_filled(metadata, "creationTimestamp");
        const char *pod_uid = json_get_filled(labels, RECREATE_LABEL_POD_UID);
        const JsonPath path = { .key = "metadata" };
        int r;

        r = json_fields_read(metadata_fields, metadata, &path, spec, NULL, reterr);
        if (r < 0)
                return r;

        if (created)
                (void) rfc3339_parse(created, &spec->created_at);
        spec->is_deleted = json_get_filled(metadata, "deletionTimestamp");
        spec->is_managed = json_is(labels, RECREATE_LABEL_MANAGED, "true");
        return pod_uid ? text_set(&spec->pod_uid, pod_uid) : 0;
}

static int refuse_twins(const RecreateSpec *spec, const JsonPath *path, Error *reterr) {
        const JsonPath here = { .parent = path, .key = "containers" };

        for (size_t i = 0; i < spec->n_containers; i++)
                for (size_t k = 0; k < i; k++)
                        if (strcmp(spec->containers[k].name, spec->containers[i].name) == 0)
                                return json_refuse(&(JsonPath){ .parent = &here, .index = i },
                                                   reterr,
                                                   "is the same container as one before it");
        return 0;
}

static int read_spec(struct json_object *object, RecreateSpec *spec, Error *reterr) {
        const JsonPath path = { .key = "spec" };
        struct json_object *inner;

        return json_read_object(object, NULL, path.key, &inner, reterr)
               ?: json_fields_read(spec_fields, inner, &path, spec, NULL, reterr)
               ?: json_fields_read(list_fields, inner, &path, spec, NULL, reterr)
               ?: refuse_twins(spec, &path, reterr);
}

int recreate_spec_parse(struct json_object *object, RecreateDialect dialect, RecreateSpec **ret,
                        Error *reterr) {
        cleanup(recreate_spec_free_p) RecreateSpec *spec = NULL;
        cleanup(error_done) Error problem = ERROR_INIT;
        int r;

        spec = malloc(sizeof(*spec));
        if (!spec)
                return -ENOMEM;

        *spec = (RecreateSpec){
                .grace_sec = -1, .unready_sec = -1, .deadline_sec = -1, .ttl_sec = -1
        };
        r = read_metadata(object, spec, reterr);
        if (r < 0)
                return r;

        r = read_spec(object, spec, &problem);
        if (r < 0 && problem.kind == ERROR_NONE)
                return r;
        if (r < 0) {
                json_fields_done(list_fields, spec);
                spec->problem = recreate_text_copy(error_message(&problem));
                if (!spec->problem)
                        return -ENOMEM;
        }

        r = read_notes(object, dialect, spec);
        if (r < 0)
                return r;

        *ret = take_ptr(spec);
        return 0;
}

static size_t text_size(const char *text) {
        return text ? strlen(text) + 1 + BLOCK_SIZE : 0;
}

size_t recreate_spec_size(const RecreateSpec *spec) {
        const char *const texts[] = { spec->namespace,     spec->name,      spec->uid,
                                      spec->version,       spec->pod_uid,   spec->pod_name,
                                      spec->problem,       spec->bad_drain, spec->conditions,
                                      spec->status.message };
        size_t size = sizeof(*spec);

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
                size += text_size(texts[i]);
        for (size_t i = 0; i < spec->n_containers; i++)
                size += sizeof(spec->containers[i]) + text_size(spec->containers[i].name) +
                        text_size(spec->containers[i].context_id);
        for (size_t i = 0; i < spec->status.n_states; i++)
                size += sizeof(spec->status.states[i]) + text_size(spec->status.states[i].name) +
                        text_size(spec->status.states[i].message);
        for (size_t i = 0; i < spec->n_snapshot; i++)
                size += sizeof(spec->snapshot[i]) + text_size(spec->snapshot[i].name) +
                        text_size(spec->snapshot[i].container_id);

        return size;
}

RecreateSpec *recreate_spec_free(RecreateSpec *spec) {
        if (!spec)
                return NULL;

        notes_done(spec);
        json_fields_done(metadata_fields, spec);
        json_fields_done(spec_fields, spec);
        json_fields_done(list_fields, spec);
        free(spec->problem);
        free(spec->pod_uid);
        free(spec);
        return NULL;
}

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
#include "agent/document/json-reader.h"

#define SECONDS_MAX ((int64_t) 10 * 366 * 24 * 3600)

/* The status, by the agent or a controller, and a controller's annotations: parsing never fails on
 * them */

static bool is_true(struct json_object *object, const char *key) {
        struct json_object *value = json_get(object, key, json_type_boolean);

        return value && json_object_get_boolean(value);
}

static struct json_object *find_named(struct json_object *list, const char *key, const char *name) {
        size_t n = list ? json_object_array_length(list) : 0;

        for (size_t i = 0; i < n; i++) {
                struct json_object *item = json_object_array_get_idx(list, i);

                if (json_is(item, key, name))
                        return item;
        }

        return NULL;
}

static int read_state(struct json_object *item, RecreateState *state) {
        const char *message = json_get_filled(item, "message");

        state->is_killed = is_true(item, "isKilled");
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
                        listed && strcmp(listed, name) == 0 ? here : find_named(list, "name", name);

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
                        .is_ready = is_true(item, "ready"),
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
        struct json_object *condition = find_named(json_get(status, "conditions", json_type_array),
                                                   "type", RECREATE_CONDITION_DRAINED);
        const char *value = json_get_filled(condition, "status");
        const char *time = json_get_filled(condition, "lastTransitionTime");

        spec->is_drained = value && strcmp(value, "True") == 0;
        spec->drained_at = INT64_MAX;
        if (time)
                (void) rfc3339_parse(time, &spec->drained_at);
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

        read_condition(status, spec);
        return read_snapshot(json_get(status, "containerStatusSnapshot", json_type_array), spec);
}

static void notes_done(RecreateSpec *spec) {
        for (size_t i = 0; i < spec->n_snapshot; i++) {
                free(spec->snapshot[i].name);
                free(spec->snapshot[i].container_id);
        }
        free(spec->snapshot);
        free(spec->bad_drain);
        recreate_status_done(&spec->status);
}

DEFINE_CLEANUP(RecreateSpec *, recreate_spec_free)

static int read_identity(struct json_object *metadata, RecreateSpec *spec, Error *reterr) {
        const JsonPath path = { .key = "metadata" };
        const struct {
                const char *key;
                char **text;
        } texts[] = {
                { "namespace", &spec->namespace },
                { "name", &spec->name },
                { "uid", &spec->uid },
                { "resourceVersion", &spec->version },
        };
        int r;

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                const char *text;

                r = json_read_string(metadata, &path, texts[i].key, &text, reterr);
                if (r < 0)
                        return r;
                if (!text || !text[0])
                        return json_refuse(&path, reterr, "has no %s", texts[i].key);
                r = text_set(texts[i].text, text);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int read_metadata(struct json_object *object, RecreateSpec *spec, Error *reterr) {
        struct json_object *metadata = json_get(object, "metadata", json_type_object);
        struct json_object *labels = json_get(metadata, "labels", json_type_object);
        const char *created = json_get_filled(metadata, "creationTimestamp");
        const char *pod_uid = json_get_filled(labels, RECREATE_LABEL_POD_UID);
        int r;

        r = read_identity(metadata, spec, reterr);
        if (r < 0)
                return r;

        if (created)
                (void) rfc3339_parse(created, &spec->created_at);
        spec->is_deleted = json_get_filled(metadata, "deletionTimestamp");
        spec->is_active = json_is(labels, RECREATE_LABEL_ACTIVE, "true");
        spec->is_managed = json_is(labels, RECREATE_LABEL_MANAGED, "true");
        return pod_uid ? text_set(&spec->pod_uid, pod_uid) : 0;
}

static int read_bool(struct json_object *object, const JsonPath *path, const char *key, bool *ret,
                     Error *reterr) {
        const JsonPath here = { .parent = path, .key = key };
        struct json_object *value = NULL;

        (void) json_object_object_get_ex(object, key, &value);
        if (value && !json_object_is_type(value, json_type_boolean))
                return json_refuse_type(&here, value, "true or false", reterr);

        if (value)
                *ret = json_object_get_boolean(value);
        return 0;
}

/* Clamps values out of range. */
static int read_seconds(struct json_object *object, const JsonPath *path, const char *key,
                        int64_t *ret, Error *reterr) {
        int64_t seconds = -1;
        int r;

        if (!json_object_object_get_ex(object, key, NULL))
                return 0;
        if (json_object_is_type(json_object_object_get(object, key), json_type_null))
                return 0;

        r = json_read_integer(object, path, key, &seconds, reterr);
        if (r < 0)
                return r;

        *ret = seconds < 0 ? 0 : seconds > SECONDS_MAX ? SECONDS_MAX : seconds;
        return 0;
}

static int read_context(struct json_object *object, const JsonPath *path,
                        RecreateContainer *container, Error *reterr) {
        const JsonPath here = { .parent = path, .key = "statusContext" };
        struct json_object *context;
        const char *id;
        int r;

        r = json_read_object(object, path, "statusContext", &context, reterr);
        if (r < 0 || !context)
                return r;
        r = json_read_string(context, &here, "containerID", &id, reterr);
        if (r < 0)
                return r;
        r = json_read_integer(context, &here, "restartCount", &container->restart_count, reterr);
        if (r < 0)
                return r;

        return id && id[0] ? text_set(&container->context_id, id) : 0;
}

static bool is_listed(const RecreateSpec *spec, const char *name) {
        for (size_t i = 0; i < spec->n_containers; i++)
                if (strcmp(spec->containers[i].name, name) == 0)
                        return true;

        return false;
}

static int read_container(struct json_object *object, const JsonPath *path, RecreateSpec *spec,
                          Error *reterr) {
        RecreateContainer *container = &spec->containers[spec->n_containers];
        const char *name;
        int r;

        if (!json_object_is_type(object, json_type_object))
                return json_refuse_type(path, object, "an object", reterr);

        r = json_read_string(object, path, "name", &name, reterr);
        if (r < 0)
                return r;
        if (!name || !name[0])
                return json_refuse(path, reterr, "has no name");
        if (is_listed(spec, name))
                return json_refuse(path, reterr, "is the same container as one before it");

        r = text_set(&container->name, name);
        if (r < 0)
                return r;

        spec->n_containers++;
        return read_context(object, path, container, reterr);
}

static int read_containers(struct json_object *object, const JsonPath *path, RecreateSpec *spec,
                           Error *reterr) {
        const JsonPath here = { .parent = path, .key = "containers" };
        struct json_object *list;
        size_t n;
        int r;

        r = json_read_list(object, path, "containers", &list, reterr);
        if (r < 0)
                return r;

        n = list ? json_object_array_length(list) : 0;
        if (n > RECREATE_CONTAINERS_MAX)
                return json_refuse(&here, reterr, "has more than %d items",
                                   RECREATE_CONTAINERS_MAX);

        spec->containers = calloc(n + 1, sizeof(spec->containers[0]));
        if (!spec->containers)
                return -ENOMEM;

        for (size_t i = 0; i < n; i++) {
                const JsonPath item = { .parent = &here, .index = i };

                r = read_container(json_object_array_get_idx(list, i), &item, spec, reterr);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int read_strategy(struct json_object *object, const JsonPath *path, RecreateSpec *spec,
                         Error *reterr) {
        const JsonPath here = { .parent = path, .key = "strategy" };
        struct json_object *strategy;
        const char *policy = NULL;
        int r;

        r = json_read_object(object, path, "strategy", &strategy, reterr);
        if (r < 0 || !strategy)
                return r;

        r = json_read_string(strategy, &here, "failurePolicy", &policy, reterr);
        if (r >= 0)
                r = read_bool(strategy, &here, "orderedRecreate", &spec->is_ordered, reterr);
        if (r >= 0)
                r = read_bool(strategy, &here, "forceRecreate", &spec->is_forced, reterr);
        if (r >= 0)
                r = read_seconds(strategy, &here, "terminationGracePeriodSeconds", &spec->grace_sec,
                                 reterr);
        if (r >= 0)
                r = read_seconds(strategy, &here, "unreadyGracePeriodSeconds", &spec->unready_sec,
                                 reterr);
        if (r >= 0)
                r = read_seconds(strategy, &here, "minStartedSeconds", &spec->min_started_sec,
                                 reterr);

        spec->ignores_failure = policy && strcmp(policy, "Ignore") == 0;
        return r;
}

static int read_spec(struct json_object *object, RecreateSpec *spec, Error *reterr) {
        const JsonPath path = { .key = "spec" };
        struct json_object *inner;
        const char *pod_name;
        int r;

        r = json_read_object(object, NULL, "spec", &inner, reterr);
        if (r < 0)
                return r;
        r = json_read_string(inner, &path, "podName", &pod_name, reterr);
        if (r < 0)
                return r;
        if (!pod_name || !pod_name[0])
                return json_refuse(&path, reterr, "has no podName");
        r = text_set(&spec->pod_name, pod_name);
        if (r >= 0)
                r = read_strategy(inner, &path, spec, reterr);
        if (r >= 0)
                r = read_seconds(inner, &path, "activeDeadlineSeconds", &spec->deadline_sec,
                                 reterr);
        if (r >= 0)
                r = read_seconds(inner, &path, "ttlSecondsAfterFinished", &spec->ttl_sec, reterr);
        if (r >= 0)
                r = read_containers(inner, &path, spec, reterr);

        return r;
}

static void drop_containers(RecreateSpec *spec) {
        /* A container whose parsing failed may have texts already. */
        for (size_t i = 0; spec->containers && i < spec->n_containers; i++) {
                free(spec->containers[i].name);
                free(spec->containers[i].context_id);
        }
        free(spec->containers);
        spec->containers = NULL;
        spec->n_containers = 0;
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
                drop_containers(spec);
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

RecreateSpec *recreate_spec_free(RecreateSpec *spec) {
        if (!spec)
                return NULL;

        notes_done(spec);
        drop_containers(spec);
        free(spec->problem);
        free(spec->pod_name);
        free(spec->pod_uid);
        free(spec->version);
        free(spec->uid);
        free(spec->name);
        free(spec->namespace);
        free(spec);
        return NULL;
}

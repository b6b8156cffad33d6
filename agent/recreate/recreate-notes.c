/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/recreate/recreate-notes.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/rfc3339.h"
#include "agent/document/documents.h"
#include "agent/recreate/recreate-json.h"
#include "agent/recreate/recreate-text.h"

static bool is_true(struct json_object *object, const char *key) {
        struct json_object *value = recreate_json_get(object, key, json_type_boolean);

        return value && json_object_get_boolean(value);
}

static struct json_object *find_named(struct json_object *list, const char *key, const char *name) {
        size_t n = list ? json_object_array_length(list) : 0;

        for (size_t i = 0; i < n; i++) {
                struct json_object *item = json_object_array_get_idx(list, i);

                if (recreate_json_is(item, key, name))
                        return item;
        }

        return NULL;
}

static int read_state(struct json_object *item, RecreateState *state) {
        const char *message = recreate_json_text(item, "message");

        state->is_killed = is_true(item, "isKilled");
        return recreate_state_set(state,
                                  recreate_phase_from_string(recreate_json_text(item, "phase")),
                                  message);
}

/* By name, since somebody may have written them in another order. */
static int read_states(struct json_object *list, RecreateSpec *spec) {
        RecreateStatus *status = &spec->status;
        size_t n_listed = list ? json_object_array_length(list) : 0;
        int r;

        status->states = calloc(spec->n_containers + 1, sizeof(status->states[0]));
        if (!status->states)
                return -ENOMEM;

        status->n_states = spec->n_containers;
        status->is_foreign = n_listed != 0 && n_listed != spec->n_containers;
        for (size_t i = 0; i < spec->n_containers; i++) {
                const char *name = spec->containers[i].name;
                struct json_object *here = i < n_listed ? json_object_array_get_idx(list, i) : NULL;
                const char *listed = recreate_json_text(here, "name");
                struct json_object *item =
                        listed && strcmp(listed, name) == 0 ? here : find_named(list, "name", name);

                status->is_foreign = status->is_foreign || item != here;
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
        const char *message = recreate_json_text(object, "message");
        const char *completed = recreate_json_text(object, "completionTime");
        RecreateStatus *status = &spec->status;

        status->phase = recreate_phase_from_string(recreate_json_text(object, "phase"));
        status->is_completed = completed || status->phase == RECREATE_COMPLETED;
        if (completed)
                (void) rfc3339_parse(completed, &status->completed_at);
        status->message = message ? recreate_text_copy(message) : NULL;
        if (message && !status->message)
                return -ENOMEM;

        return read_states(recreate_json_get(object, "containerRecreateStates", json_type_array),
                           spec);
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
                const char *name = recreate_json_text(item, "name");
                const char *id = recreate_json_text(item, "containerID");
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

/* A condition without a time is one that begins now, as its observer sees it. */
static void read_condition(struct json_object *status, RecreateSpec *spec) {
        struct json_object *condition =
                find_named(recreate_json_get(status, "conditions", json_type_array), "type",
                           RECREATE_CONDITION_DRAINED);
        const char *value = recreate_json_text(condition, "status");
        const char *time = recreate_json_text(condition, "lastTransitionTime");

        spec->is_drained = value && strcmp(value, "True") == 0;
        spec->drained_at = INT64_MAX;
        if (time)
                (void) rfc3339_parse(time, &spec->drained_at);
}

/* An annotation is JSON in a text. */
static int read_annotations(struct json_object *annotations, RecreateSpec *spec) {
        cleanup(documents_done) Documents documents = DOCUMENTS_INIT;
        cleanup(error_done) Error ignored = ERROR_INIT;
        const char *snapshot = recreate_json_text(annotations, RECREATE_ANNOTATION_SNAPSHOT);
        const char *drained = recreate_json_text(annotations, RECREATE_ANNOTATION_DRAINED);
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

int recreate_notes_read(struct json_object *object, RecreateDialect dialect, RecreateSpec *spec) {
        struct json_object *metadata = recreate_json_get(object, "metadata", json_type_object);
        struct json_object *status = recreate_json_get(object, "status", json_type_object);
        int r;

        r = read_status(status, spec);
        if (r < 0)
                return r;

        if (dialect == RECREATE_V1ALPHA1)
                return read_annotations(recreate_json_get(metadata, "annotations",
                                                          json_type_object),
                                        spec);

        read_condition(status, spec);
        return read_snapshot(recreate_json_get(status, "containerStatusSnapshot", json_type_array),
                             spec);
}

void recreate_notes_done(RecreateSpec *spec) {
        for (size_t i = 0; i < spec->n_snapshot; i++) {
                free(spec->snapshot[i].name);
                free(spec->snapshot[i].container_id);
        }
        free(spec->snapshot);
        free(spec->bad_drain);
        recreate_status_done(&spec->status);
}

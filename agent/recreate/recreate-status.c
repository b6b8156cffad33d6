/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/recreate/recreate-status.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/repeat.h"
#include "agent/base/rfc3339.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"

/* Returns the size of the character in bytes, or 0 if it may not stay. */
static size_t character_size(const unsigned char *text) {
        size_t size = text[0] < 0x80 ? 1 : text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : 4;

        if (text[0] < 0x20 || text[0] == 0x7f || (text[0] >= 0x80 && text[0] < 0xc2) ||
            text[0] > 0xf4)
                return 0;
        for (size_t i = 1; i < size; i++)
                if ((text[i] & 0xc0) != 0x80)
                        return 0;

        if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f) ||
            (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] > 0x8f))
                return 0;

        return size;
}

char *recreate_text_copy(const char *text) {
        size_t length = strlen(text), n = 0;
        char *copy;

        copy = malloc((length < RECREATE_TEXT_MAX ? length : RECREATE_TEXT_MAX) + 1);
        if (!copy)
                return NULL;

        for (size_t i = 0; i < length;) {
                size_t size = character_size((const unsigned char *) text + i);

                if (n + (size ?: 1) > RECREATE_TEXT_MAX)
                        break;
                if (size > 0)
                        memcpy(copy + n, text + i, size);
                else
                        copy[n] = (unsigned char) text[i] < 0x80 ? ' ' : '?';
                n += size ?: 1;
                i += size ?: 1;
        }

        copy[n] = '\0';
        return copy;
}

static const char *const phases[_RECREATE_PHASE_MAX] = {
        [RECREATE_NONE] = "",
        [RECREATE_PENDING] = "Pending",
        [RECREATE_RECREATING] = "Recreating",
        [RECREATE_SUCCEEDED] = "Succeeded",
        [RECREATE_FAILED] = "Failed",
        [RECREATE_COMPLETED] = "Completed",
};

const char *recreate_phase_to_string(RecreatePhase phase) {
        return phases[phase];
}

RecreatePhase recreate_phase_from_string(const char *text) {
        for (RecreatePhase phase = 0; text && phase < _RECREATE_PHASE_MAX; phase++)
                if (strcmp(text, phases[phase]) == 0)
                        return phase;

        return RECREATE_NONE;
}

void recreate_status_done(RecreateStatus *status) {
        for (size_t i = 0; i < status->n_states; i++) {
                free(status->states[i].name);
                free(status->states[i].message);
        }
        free(status->states);
        free(status->message);
        *status = RECREATE_STATUS_INIT;
}

static int copy_state(const RecreateState *from, RecreateState *ret) {
        int r;

        ret->phase = from->phase;
        ret->is_killed = from->is_killed;
        r = text_copy(from->name, &ret->name);
        return r < 0 ? r : text_copy(from->message, &ret->message);
}

int recreate_status_copy(const RecreateStatus *from, RecreateStatus *ret) {
        cleanup(recreate_status_done) RecreateStatus copy = RECREATE_STATUS_INIT;
        int r;

        copy.states = calloc(from->n_states + 1, sizeof(copy.states[0]));
        if (!copy.states)
                return -ENOMEM;

        copy.phase = from->phase;
        copy.is_completed = from->is_completed;
        copy.completed_at = from->completed_at;
        copy.has_other_states = from->has_other_states;
        copy.n_states = from->n_states;
        r = text_copy(from->message, &copy.message);
        for (size_t i = 0; r >= 0 && i < copy.n_states; i++)
                r = copy_state(&from->states[i], &copy.states[i]);
        if (r < 0)
                return r;

        *ret = copy;
        copy = RECREATE_STATUS_INIT;
        return 0;
}

static int set_text(char **text, const char *value) {
        char *copy = NULL;

        if (value) {
                copy = recreate_text_copy(value);
                if (!copy)
                        return -ENOMEM;
        }

        free(*text);
        *text = copy;
        return 0;
}

int recreate_state_set(RecreateState *state, RecreatePhase phase, const char *message) {
        state->phase = phase;
        return set_text(&state->message, message && message[0] ? message : NULL);
}

int recreate_status_complete(RecreateStatus *status, int64_t now_sec, const char *message) {
        status->phase = RECREATE_COMPLETED;
        status->is_completed = true;
        status->completed_at = now_sec;
        return set_text(&status->message, message);
}

static size_t count_succeeded(const RecreateStatus *status) {
        size_t n = 0;

        for (size_t i = 0; i < status->n_states; i++)
                n += status->states[i].phase == RECREATE_SUCCEEDED;

        return n;
}

bool recreate_status_is_success(const RecreateStatus *status) {
        return status->n_states > 0 && count_succeeded(status) == status->n_states;
}

static void write_summary(const RecreateStatus *status, FILE *file) {
        fprintf(file, "%zu of %zu container%s restarted", count_succeeded(status), status->n_states,
                status->n_states == 1 ? "" : "s");

        for (size_t i = 0; i < status->n_states && ftell(file) < RECREATE_TEXT_MAX; i++) {
                const RecreateState *state = &status->states[i];

                if (state->phase == RECREATE_FAILED)
                        fprintf(file, "; %s: %s", state->name, state->message ?: "failed");
        }
}

int recreate_status_summarize(const RecreateStatus *status, char **ret) {
        cleanup(free_p) char *text = NULL;
        size_t size;
        FILE *file;

        file = text_open(&text, &size);
        if (!file)
                return -ENOMEM;

        write_summary(status, file);
        if (text_close(file, &text) < 0)
                return -ENOMEM;

        *ret = recreate_text_copy(text);
        return *ret ? 0 : -ENOMEM;
}

static bool are_states_equal(const RecreateStatus *known, const RecreateStatus *wanted) {
        if (known->has_other_states || known->n_states != wanted->n_states)
                return false;

        for (size_t i = 0; i < known->n_states; i++) {
                const RecreateState *a = &known->states[i], *b = &wanted->states[i];

                if (strcmp(a->name ?: "", b->name ?: "") != 0 || a->phase != b->phase ||
                    strcmp(a->message ?: "", b->message ?: "") != 0 || a->is_killed != b->is_killed)
                        return false;
        }

        return true;
}

uint64_t recreate_status_digest(const RecreateStatus *status) {
        uint64_t digest = repeat_digest(0, phases[status->phase]);

        digest = repeat_digest(digest, status->is_completed ? "completed" : NULL);
        for (size_t i = 0; i < status->n_states; i++) {
                const RecreateState *state = &status->states[i];

                digest = repeat_digest(digest, state->name);
                digest = repeat_digest(digest, phases[state->phase]);
                digest = repeat_digest(digest, state->message);
                digest = repeat_digest(digest, state->is_killed ? "killed" : NULL);
        }

        return digest;
}

/* Before any container was inspected there is nothing to write. */
static bool has_states(const RecreateStatus *status) {
        for (size_t i = 0; i < status->n_states; i++)
                if (status->states[i].phase == RECREATE_NONE)
                        return false;

        return status->n_states > 0;
}

static int make_state(const RecreateState *state, struct json_object **ret) {
        cleanup(json_object_put_p) json_object *object = json_object_new_object();

        if (patch_add_text(object, "name", state->name) < 0 ||
            patch_add_text(object, "phase", recreate_phase_to_string(state->phase)) < 0)
                return -ENOMEM;
        if (patch_add_filled(object, "message", state->message) < 0)
                return -ENOMEM;
        if (state->is_killed && patch_add_bool(object, "isKilled", true) < 0)
                return -ENOMEM;

        *ret = take_ptr(object);
        return 0;
}

static int add_states(struct json_object *patch, const RecreateStatus *wanted) {
        cleanup(json_object_put_p) json_object *list = json_object_new_array();
        int r;

        for (size_t i = 0; i < wanted->n_states; i++) {
                struct json_object *state = NULL;

                r = make_state(&wanted->states[i], &state);
                if (r < 0)
                        return r;
                r = patch_append(list, state);
                if (r < 0)
                        return r;
        }

        return patch_add(patch, "containerRecreateStates", take_ptr(list));
}

static int add_completion(struct json_object *patch, const RecreateStatus *wanted) {
        char time[RFC3339_SIZE];

        return patch_add_text(patch, "completionTime", rfc3339_format(wanted->completed_at, time))
                       ?: patch_add_filled(patch, "message", wanted->message);
}

static int add_guard(struct json_object *body, const char *version) {
        return patch_add(body, "metadata",
                         patch_wrap("resourceVersion", json_object_new_string(version)));
}

int recreate_status_diff(const RecreateStatus *known, const RecreateStatus *wanted,
                         const char *version, struct json_object **ret) {
        cleanup(json_object_put_p) json_object *body = json_object_new_object();
        bool completes = wanted->is_completed && !known->is_completed;
        bool has_phase = known->phase != wanted->phase && wanted->phase != RECREATE_NONE;
        struct json_object *patch = json_object_new_object();
        int r;

        if (patch_add(body, "status", patch) < 0)
                return -ENOMEM;

        r = has_phase ? patch_add_text(patch, "phase", recreate_phase_to_string(wanted->phase)) : 0;
        if (r >= 0 && completes)
                r = add_completion(patch, wanted);
        if (r >= 0 && has_states(wanted) && !are_states_equal(known, wanted))
                r = add_states(patch, wanted);
        if (r >= 0 && (completes || has_phase) && version)
                r = add_guard(body, version);
        if (r < 0)
                return r;

        *ret = json_object_object_length(patch) > 0 ? take_ptr(body) : NULL;
        return 0;
}

int recreate_status_bind(struct json_object *patch, const char *uid, struct json_object **ret) {
        cleanup(json_object_put_p) json_object *list = json_object_new_array();
        struct json_object *status = json_get(patch, "status", json_type_object);

        if (patch_append_step(list, "test", "/metadata/uid", json_object_new_string(uid)) < 0)
                return -ENOMEM;

        json_object_object_foreach(status, key, value) {
                cleanup(free_p) char *path = NULL;

                if (text_format(&path, "/status/%s", key) < 0)
                        return -ENOMEM;
                if (patch_append_step(list, "add", path, json_object_get(value)) < 0)
                        return -ENOMEM;
        }

        *ret = take_ptr(list);
        return 0;
}

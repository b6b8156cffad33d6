/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The status of a request
 *
 * Pure: compares the known status with the wanted one, and makes the merge patch (RFC 7386) from the
 * one to the other. The patch replaces lists as a whole.
 */

#include <json-c/json_types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum RecreatePhase {
        RECREATE_NONE, /* nothing is written */
        RECREATE_PENDING,
        RECREATE_RECREATING,
        RECREATE_SUCCEEDED, /* phase of a container alone, as is RECREATE_FAILED */
        RECREATE_FAILED,
        RECREATE_COMPLETED,
        _RECREATE_PHASE_MAX,
} RecreatePhase;

/* The state of a container. Texts are owned; a message may be NULL. */
typedef struct RecreateState {
        char *name;
        RecreatePhase phase;
        char *message;
        bool is_killed; /* the container was stopped for this request */
} RecreateState;

typedef struct RecreateStatus {
        RecreatePhase phase;
        bool is_completed;    /* the status has the phase or the time of completion */
        int64_t completed_at; /* seconds since 1970; 0: unknown */
        char *message;
        RecreateState *states; /* states of all containers, in the order of the spec */
        size_t n_states;
        bool has_other_states; /* the written list differs in names or order */
} RecreateStatus;

#define RECREATE_TEXT_MAX 1024 /* bytes */

#define RECREATE_STATUS_INIT ((RecreateStatus){ .phase = RECREATE_NONE })

const char *recreate_phase_to_string(RecreatePhase phase);

/* NONE for NULL or an unknown text. */
RecreatePhase recreate_phase_from_string(const char *text);

/* No later event changes this phase. */
static inline bool recreate_phase_is_final(RecreatePhase phase) {
        return phase == RECREATE_SUCCEEDED || phase == RECREATE_FAILED;
}

int recreate_status_copy(const RecreateStatus *from, RecreateStatus *ret);
void recreate_status_done(RecreateStatus *status);

/* Does not touch is_killed. The message is copied, and cut if it is long; NULL: none. */
int recreate_state_set(RecreateState *state, RecreatePhase phase, const char *message);

/* Completes the request at this time. Copies the message, and cuts a long one. */
int recreate_status_complete(RecreateStatus *status, int64_t now_sec, const char *message);

/* Digest of the status, without time and message of its completion; see repeat.h. */
uint64_t recreate_status_digest(const RecreateStatus *status);

/* All containers have been restarted. */
bool recreate_status_is_success(const RecreateStatus *status);

/* "1 of 2 containers restarted; app: kill container error: ..."; the caller owns *ret. */
int recreate_status_summarize(const RecreateStatus *status, char **ret);

/* Makes the patch of the differences, {"status":{...}}, or NULL. A patch with a phase carries the
 * version, lest it reverts another writer's decision; one with states alone applies to any version
 * of this UID, see recreate_status_bind(). The caller owns *ret. */
int recreate_status_diff(const RecreateStatus *known, const RecreateStatus *wanted,
                         const char *version, struct json_object **ret);

/* Converts to a JSON patch (RFC 6902) that fails if an object of another UID has the name by now:
 * the API server ignores the UID in a merge patch of a custom resource's status. Only for a patch
 * without a version, if the object has a status. The caller owns *ret. */
int recreate_status_bind(struct json_object *patch, const char *uid, struct json_object **ret);

/* Makes foreign texts fit for a status: one line of UTF-8, cut at the limit. The caller owns it;
 * NULL: no memory. */
char *recreate_text_copy(const char *text);

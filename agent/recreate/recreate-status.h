/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What became of a request, as it is written into its status
 *
 * Pure: one status as it is known to be there, another one as it should be, and the merge patch
 * (RFC 7386) that makes the one of the other. Lists in it are replaced as a whole.
 */

#include <json-c/json_types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum RecreatePhase {
        RECREATE_NONE, /* nothing is written */
        RECREATE_PENDING,
        RECREATE_RECREATING,
        RECREATE_SUCCEEDED, /* of a container only, like the next one */
        RECREATE_FAILED,
        RECREATE_COMPLETED,
        _RECREATE_PHASE_MAX,
} RecreatePhase;

/* Of one container. Texts are owned; a message may be NULL. */
typedef struct RecreateState {
        char *name;
        RecreatePhase phase;
        char *message;
        bool is_killed; /* it was stopped for this request */
} RecreateState;

typedef struct RecreateStatus {
        RecreatePhase phase;
        bool is_completed;    /* by its phase, or its time */
        int64_t completed_at; /* seconds since 1970; 0: unknown */
        char *message;
        RecreateState *states; /* one for each container of the spec, in its order */
        size_t n_states;
        bool has_other_states; /* what is written there is not these states in this order */
} RecreateStatus;

#define RECREATE_TEXT_MAX 1024 /* bytes */

#define RECREATE_STATUS_INIT ((RecreateStatus){ .phase = RECREATE_NONE })

const char *recreate_phase_to_string(RecreatePhase phase);

/* NONE for what is none, or NULL. */
RecreatePhase recreate_phase_from_string(const char *text);

/* Nothing changes it any more. */
static inline bool recreate_phase_is_final(RecreatePhase phase) {
        return phase == RECREATE_SUCCEEDED || phase == RECREATE_FAILED;
}

int recreate_status_copy(const RecreateStatus *from, RecreateStatus *ret);
void recreate_status_done(RecreateStatus *status);

/* Does not touch is_killed. The message is copied, and cut if it is long; NULL: none. */
int recreate_state_set(RecreateState *state, RecreatePhase phase, const char *message);

/* The request is over, at this time. The message is copied, and cut if it is long. */
int recreate_status_complete(RecreateStatus *status, int64_t now_sec, const char *message);

/* Of what it says, but for the time and the message of the end; see repeat.h. */
uint64_t recreate_status_digest(const RecreateStatus *status);

/* All containers have been restarted. */
bool recreate_status_is_success(const RecreateStatus *status);

/* "1 of 2 containers restarted; app: kill container error: ..."; the caller owns *ret. */
int recreate_status_summarize(const RecreateStatus *status, char **ret);

/* The patch of what differs, {"status":{...}}, or NULL. One with a phase is for this version of the
 * request alone, lest it undoes what another writer has just decided; states are for whichever there
 * is of this UID, see recreate_status_bind(). The caller owns *ret. */
int recreate_status_diff(const RecreateStatus *known, const RecreateStatus *wanted,
                         const char *version, struct json_object **ret);

/* As a JSON patch (RFC 6902), which is refused if an object of another UID has the name by now: of a
 * custom resource the API server does not heed the UID in a merge patch of the status. Only for a
 * patch without a version, whose object has a status. The caller owns *ret. */
int recreate_status_bind(struct json_object *patch, const char *uid, struct json_object **ret);

/* For texts of others that become part of a status: one line of UTF-8, whatever the text is, cut if
 * it is longer than the limit. The caller owns it; NULL: no memory. */
char *recreate_text_copy(const char *text);

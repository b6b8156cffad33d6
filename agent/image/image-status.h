/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Outcome of a desired image, and its progress
 *
 * The node's answer to one tag of a NodeImage, plus the progress of its pull.
 */

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/error.h"
#include "agent/image/on-demand-spec.h"
#include "agent/image/pull-reason.h"

typedef enum ImagePhase {
        IMAGE_WAITING,
        IMAGE_PULLING,
        IMAGE_BACKING_OFF, /* the last attempt failed, and another one follows */
        IMAGE_SUCCEEDED,
        IMAGE_FAILED,
        IMAGE_MISSING, /* removed after it was there; not pulled again yet, or not at all */
        _IMAGE_PHASE_MAX,
} ImagePhase;

typedef enum ImageStep {
        IMAGE_STEP_NONE, /* finished */
        IMAGE_STEP_QUEUED,
        IMAGE_STEP_WAITING_FOR_RUNTIME,
        IMAGE_STEP_INSPECTING,
        IMAGE_STEP_RESOLVING,
        IMAGE_STEP_DOWNLOADING,
        IMAGE_STEP_UNPACKING,
        IMAGE_STEP_BACKING_OFF,
        IMAGE_STEP_WAITING_FOR_DISK,
        IMAGE_STEP_WAITING_FOR_POD,
        IMAGE_STEP_WAITING_FOR_SLOT,
        _IMAGE_STEP_MAX,
} ImageStep;

typedef struct ImageStatus {
        ImagePhase phase;
        ImageStep step;
        int64_t version;
        int64_t waiting_at; /* seconds since the epoch: since when it is Waiting or Missing; 0: unknown */
        int64_t started_at; /* likewise; 0: not yet */
        int64_t completed_at;
        uint64_t duration_usec;  /* duration without time in queues; 0 if unknown */
        unsigned attempt;        /* number of the current or last attempt; 0: none yet */
        int64_t next_attempt_at; /* seconds since the epoch; 0: none is planned */
        uint64_t bytes_done;     /* present bytes of bytes_total */
        uint64_t bytes_total;    /* bytes missing when the pull began; 0: not known, or none */
        bool is_counted;         /* bytes_fetched is known */
        uint64_t bytes_fetched;  /* bytes that only this pull fetched, in all its attempts */
        bool was_present;
        ImageOnDemand on_demand; /* state at its success, or a little later */
        PullReason reason;
        char *message;  /* owned; one line, or NULL */
        char *resolved; /* owned; what a short name or a tag stands for, as one line, or NULL */
        char *pin; /* owned; why a wanted pin is not in effect, one line that begins with IMAGE_NOT_PINNED, or NULL */
        char *image_id;      /* owned; ID that the runtime has under the reference, or NULL */
        char **repo_digests; /* owned, as are the strings; ended by NULL; or NULL */
} ImageStatus;

void image_status_done(ImageStatus *status);
int image_status_copy(const ImageStatus *status, ImageStatus *ret);

#define IMAGE_NOT_PINNED "not pinned: "

#define IMAGE_DIGESTS_MAX 16
#define IMAGE_DIGEST_TEXT_MAX 512 /* bytes; longer ones are left out */

/* Copies the first few digests in place of the old ones: a runtime may send any number. */
int image_status_set_digests(ImageStatus *status, const char *const *digests, size_t n_digests);

bool image_phase_is_final(ImagePhase phase);
const char *image_phase_to_string(ImagePhase phase);

/* Sets the references that a short name or a tag was resolved to; NULL: none, or not known. The text is
 * cleaned and shortened. */
int image_status_set_resolved(ImageStatus *status, const char *reference);

/* Returns why the image is not pinned, else the reason of the phase, else the resolved reference; NULL: none
 * of them. */
const char *image_status_message(const ImageStatus *status);

/* Returns a percentage: 100 only when it succeeded. */
int image_status_progress(const ImageStatus *status);

/* Makes an entry of status.imageStatuses.NAME.tags, with OpenKruise's members only. NULL: no
 * memory. The caller owns the object. */
json_object *image_status_to_json(const ImageStatus *status, const char *name, const char *tag);

/* The same with the members of our own that the agent's file has. */
json_object *image_status_to_own_json(const ImageStatus *status, const char *name, const char *tag);

/* The reverse of both, for a status that was written earlier. name is the key above the entry. */
int image_status_from_json(json_object *entry, const char *name, ImageStatus *ret, Error *reterr);

/* Reads the status of an attempt that has ended: returns 1, 0 if it is none, or a local failure. */
int image_status_read_final(json_object *entry, const char *name, ImageStatus *ret);

/* The following functions describe a failure in one line, which begins with its class, because a
 * NodeImage has no other place for it: "NotFound: <text>; <what to do> (attempt 2 of 4)".
 * n_attempts 0: there is no limit. The text is cleaned and shortened. */
int image_status_set_failure(ImageStatus *status, PullReason reason, const char *text,
                             unsigned attempt, uint64_t n_attempts);

/* Describes a pause that is no failure of the image. */
int image_status_set_pause(ImageStatus *status, PullReason reason, const char *text);

/* Notes that the deadline of all attempts has passed, and keeps an earlier failure behind that. */
int image_status_set_past_deadline(ImageStatus *status, int64_t deadline_sec);

void image_status_clear_failure(ImageStatus *status);

/* Clears the failure and describes layers that are fetched on demand. */
int image_status_set_success(ImageStatus *status);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An image that this node should hold
 *
 * Its owners request it, and a sync pulls it for all requests that were there when the sync began;
 * a request is done once. So a new owner, or a new version of an old one, starts a sync, once the one that
 * runs for others has ended; an owner that leaves does not.
 *
 * A request that is done keeps its outcome, whatever becomes of the image for others later. As long as
 * that is the image's own status, nothing is copied.
 *
 * A sync goes on as long as the most patient of its requests allows; the others fail when their own
 * attempts, or their time, are used up.
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/image/image-status.h"
#include "agent/image/pull.h"
#include "agent/image/requests.h"

typedef struct Image Image;

/* Marks that users of an image set. */
typedef struct ImageMarks {
        bool is_dirty;             /* waits for image_reconcile() */
        bool has_outcome;          /* a sync has ended, but is not reported yet */
        bool is_unverified;        /* the success was copied, not verified */
        bool wants_pin;            /* wanted a pin when it changed last */
        uint64_t forced_usec;      /* time at which a caller last forced an attempt; 0: never */
        uint64_t file_fingerprint; /* fingerprint of the image in the status file; 0 at first */
} ImageMarks;

/* The image needs another image_reconcile(). */
typedef void (*ImageDirty)(Image *image, void *userdata);

/* name and tag as spelled in the first desired image. A malformed reference is a failed image, no error. */
int image_new(const char *name, const char *tag, ShortNames short_names, ImageDirty on_dirty,
              void *userdata, Image **ret);
Image *image_free(Image *image);

/* Returns the identity of an image, its canonical reference. The key of a malformed reference is
 * not a reference, and shows where its name ends. */
int image_key_of(const char *name, const char *tag, ShortNames short_names, char **ret);

const char *image_key(const Image *image);
const char *image_name(const Image *image); /* image_ref_shown_name() */
const char *image_tag(const Image *image);  /* tag or digest */

/* Returns the status of the running sync, else of the last one. Borrowed until the next event. */
const ImageStatus *image_status(const Image *image);

/* Returns the outcome of an owner's request, or the status of its sync. NULL: not its turn. */
const ImageStatus *image_status_for(const Image *image, const char *owner, const char *name);

const ImageRequest *image_requests(const Image *image);

/* Returns a request that got its outcome since the last call; NULL: none. Borrowed. */
const ImageRequest *image_take_result(Image *image);

/* Returns all current requests, merged. NULL if there are none. */
const DesiredImage *desired_image(const Image *image);

/* Whether the image is being pulled, or about to be. */
bool image_is_syncing(const Image *image);

/* To be read and written; lives as long as the image. */
ImageMarks *image_marks(Image *image);

/* Whether there are requests that have not expired. */
bool image_is_desired(const Image *image);

/* Adds or changes the request of one owner. The desired image is copied. It fails at once if it has
 * a fault or the reference is malformed. Returns 1 if the kind of a request with an outcome is another
 * one now. */
int image_set_request(Image *image, const char *owner, const DesiredImage *desired,
                      RequestKind kind);

/* Removes the requests of one owner that were not set since the last sweep. */
int image_sweep_requests(Image *image, const char *owner);

/* Moves a request to the image that its name means now; there it is done anew. */
int image_move_request(Image *image, const ImageRequest *request, Image *to);
/* Applies the new meaning of short names. */
int image_rename(Image *image, ShortNames short_names);

/* Removes the requests of one owner that are not done yet. Returns how many. */
int image_withdraw(Image *image, const char *owner);

/* Starts another attempt for the requests that pass: ends a pause, and renews failed requests,
 * except those that can only fail. Returns 1 if there were such requests. */
typedef bool (*ImageRequestFilter)(const ImageRequest *request, const void *userdata);
int image_retry(Image *image, ImageRequestFilter filter, const void *userdata);

/* Whether a current request wants the image to be pinned. */
bool image_wants_pin(const Image *image);

/* Notes why the image, which is there, is not pinned; NULL: it is, or need not be. Returns 1 if that is new. */
int image_set_pin(Image *image, const char *why_not);

/* Takes the pin from the requests that pass; they end like those without one. Returns how many. */
int image_unpin(Image *image, ImageRequestFilter filter, const void *userdata);

/* Returns the running pull; NULL: none. */
Pull *image_pull(const Image *image);

/* Ends an owner's request for this name and version with a status known from elsewhere, which is
 * taken over unless it is this request's alone, and returns 1. 0: there is no such request that is not
 * done. */
int image_set_done(Image *image, const char *owner, const char *name, int64_t version,
                   ImageStatus *status);

/* Restores a request of a previous run, which is copied. Without an outcome it has the restored status. */
int image_restore_request(Image *image, const FormerRequest *former);
/* Takes the status over. */
void image_restore_status(Image *image, ImageStatus *status);
/* Forgets restored outcomes that were not requested again. */
void image_restore_end(Image *image);

/* Does the next steps: starts, restarts, stops or ends a sync. */
int image_reconcile(Image *image, const PullContext *context);

int image_runtime_changed(Image *image);

/* Whether the runtime can confirm the status: the image was there, or is missing. */
bool image_is_verifiable(const Image *image);

/* Notes that the runtime has lost the image, which is pulled again, after a pause, for requests
 * that keep it; keeps_served: also for REQUEST_ONCE. */
int image_set_missing(Image *image, bool keeps_served);
/* The same for an image that is already missing and not being pulled again. */
int image_pull_again(Image *image, bool keeps_served);
/* Notes that the runtime has the image: perhaps again, perhaps another one of this name. */
int image_set_present(Image *image, const CriImage *found);

/* Whether the image was pulled, but layers that are fetched on demand are still incomplete. */
bool image_is_arriving(const Image *image);
/* Updates the progress of layers that are fetched on demand. */
int image_set_on_demand(Image *image, const ImageOnDemand *found);

/* Returns how often the image was removed, as far as the agent remembers. */
unsigned image_n_removals(const Image *image);

/* Expires requests; *ret_next is the time of the next one to expire, or whose time in a pull is used up, on the
 * monotonic clock, or INT64_MAX. */
int image_expire(Image *image, const RequestClock *now, int64_t *ret_next);

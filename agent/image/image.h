/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One image that this node should hold
 *
 * Its owners request it, and a sync pulls it for all requests that were there when the sync began;
 * a request is done once. So a new owner, or a new version of an old one, starts a sync; an owner
 * that leaves does not.
 *
 * A request that is done keeps its outcome, whatever becomes of the image for others later. As long as
 * that is the image's own status, nothing is copied.
 *
 * A sync goes on as long as the most patient of its requests allows; the others fail when their own
 * attempts are used up.
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/list.h"
#include "agent/image/image-status.h"
#include "agent/image/pull.h"
#include "agent/image/desired-image.h"

typedef struct Image Image;

/* What a request is for when it is done. */
typedef enum RequestKind {
        REQUEST_SERVED,    /* its outcome stands, whatever becomes of the image */
        REQUEST_TRANSIENT, /* the same, and it leaves when it expires */
        REQUEST_KEPT, /* its outcome stands, but an image that something removes is pulled again */
        REQUEST_LASTING, /* an image that something removes is pulled again, and this is its outcome */
} RequestKind;

/* Each owner of an image has a request of its own: a desired image, and what became of it. */
typedef struct ImageRequest {
        LIST_LINKS(struct ImageRequest);
        char *owner; /* "file/web.yaml", "request/7f3a..." */
        DesiredImage desired;
        ImageStatus *outcome; /* if it is done, and the image's status is another one; or NULL */
        bool is_done;
        bool is_unreported; /* it was done, or refused, and this is not reported yet */
        bool is_alone; /* its outcome is no pull's: it has a fault, or ended before the pull did */
        bool is_syncing;
        bool is_late;        /* it joined a sync whose pull was under way */
        PullFailures missed; /* those before it joined */
        bool is_expired; /* its time to live is over: it is kept only so as not to be done again */
        RequestKind kind;
        bool is_lost; /* it was done, but something has removed the image: to be pulled again */
        bool is_seen; /* scratch of images_set_desired() */
} ImageRequest;

/* What the users of an image mark it with. */
typedef struct ImageMarks {
        bool is_dirty;        /* waits for image_reconcile() */
        bool has_outcome;     /* a sync has ended, and this is not reported yet */
        bool is_unverified;   /* its success is known from elsewhere */
        uint64_t forced_usec; /* when a caller last had it tried; 0: never */
        uint64_t shown;       /* what a status file has about it, as a fingerprint; 0 at first */
} ImageMarks;

/* The image needs another image_reconcile(). */
typedef void (*ImageDirty)(Image *image, void *userdata);

/* name and tag as spelled in the first desired image. A malformed reference is a failed image, no error. */
int image_new(const char *name, const char *tag, ShortNames short_names, ImageDirty on_dirty,
              void *userdata, Image **ret);
Image *image_free(Image *image);

/* What identifies an image, whatever it is called: its canonical reference. A malformed reference has a
 * key that is none, and that shows where its name ends. */
int image_key_of(const char *name, const char *tag, ShortNames short_names, char **ret);

const char *image_key(const Image *image);
const char *image_name(const Image *image); /* image_ref_shown_name() */
const char *image_tag(const Image *image);  /* or the digest */

/* Of the sync that runs, else of the last one. Borrowed until the next event. */
const ImageStatus *image_status(const Image *image);

/* What became of one owner's request, or of the sync for it. NULL: it was not its turn. */
const ImageStatus *image_status_for(const Image *image, const char *owner, const char *name);

const ImageRequest *image_requests(const Image *image);

/* One that has its outcome since the last call; NULL: none. Borrowed. */
const ImageRequest *image_take_result(Image *image);

/* All requests that have not expired, as one. NULL if there are none. */
const DesiredImage *desired_image(const Image *image);

/* It is being pulled, or about to be. */
bool image_is_syncing(const Image *image);

/* To be read and written; lives as long as the image. */
ImageMarks *image_marks(Image *image);

/* There are requests that have not expired. */
bool image_is_desired(const Image *image);

/* Adds or changes the request of one owner. The desired image is copied. One with a fault fails at once, as does
 * any for a malformed reference. */
int image_set_request(Image *image, const char *owner, const DesiredImage *desired,
                      RequestKind kind);

/* Removes the requests of one owner that were not set since the last time. */
int image_sweep_requests(Image *image, const char *owner);

/* Moves a request to the image that its name means now; there it is done anew. */
int image_move_request(Image *image, const ImageRequest *request, Image *to);
/* Short names mean something else from now on. */
int image_rename(Image *image, ShortNames short_names);

/* Removes the requests of one owner that are not done yet. Returns how many. */
int image_withdraw(Image *image, const char *owner);

/* Another attempt begins now for the requests that pass: a pause ends, and those that failed are done
 * anew, unless they can only fail. Returns 1 if there were such requests. */
typedef bool (*ImageRequestFilter)(const ImageRequest *request, const void *userdata);
int image_retry(Image *image, ImageRequestFilter filter, const void *userdata);

/* The pull that runs; NULL: none. */
Pull *image_pull(const Image *image);

/* The outcome of an owner's request for this name and version is known from elsewhere: takes the
 * status over, and returns 1. 0: there is no such request that is not done. */
int image_set_done(Image *image, const char *owner, const char *name, int64_t version,
                   ImageStatus *status);

/* A previous run of the agent has done this owner's version. The outcome is copied; NULL: it
 * is the status that is restored. */
int image_restore_done(Image *image, const char *owner, int64_t version, bool is_expired,
                       const ImageStatus *outcome);
/* Takes the status over. */
void image_restore_status(Image *image, ImageStatus *status);
/* Forgets what was restored and not requested again. */
void image_restore_end(Image *image);

/* Does what is due: starts, restarts, stops or ends a sync. */
int image_reconcile(Image *image, const PullContext *context);

int image_runtime_changed(Image *image);

/* Whether something is known about the image that the runtime can confirm: it was there, or is missing. */
bool image_is_verifiable(const Image *image);

/* The runtime does not have it any more. It is pulled again, after a pause, for the requests that it has to
 * stay for; keeps_served: those of REQUEST_SERVED are such as well. */
int image_set_missing(Image *image, bool keeps_served);
/* The same for one that is missing already, and is not being pulled again. */
int image_pull_again(Image *image, bool keeps_served);
/* The runtime has it: perhaps again, perhaps another one of this name. */
int image_set_present(Image *image, const CriImage *found);

/* It was pulled, and layers are fetched on demand of which not all has arrived, as far as is known. */
bool image_is_arriving(const Image *image);
/* What has arrived meanwhile. */
int image_set_on_demand(Image *image, const ImageOnDemand *found);

/* How often something has removed it, as far as is remembered. */
unsigned image_n_removals(const Image *image);

/* Expires requests; *ret_next is the time of the next one to expire, or INT64_MAX. */
int image_expire(Image *image, int64_t now, int64_t *ret_next);

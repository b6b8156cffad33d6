/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The requests for one image
 *
 * Each owner has one request for each name of the image, with its own outcome. No pulls here: image.c
 * starts them for requests that are due. Pure.
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/list.h"
#include "agent/image/desired-image.h"
#include "agent/image/image-status.h"
#include "agent/image/pull-plan.h"

/* Lifetime of a request after it is done. */
typedef enum RequestKind {
        REQUEST_ONCE,      /* the outcome is final, also if the image is removed */
        REQUEST_EPHEMERAL, /* as REQUEST_ONCE, but the request leaves when it expires */
        REQUEST_RESTORE,   /* the outcome is final, but a removed image is pulled again */
        REQUEST_DESIRED,   /* a removed image is pulled again, and changes its outcome */
} RequestKind;

/* Seconds of both clocks: the time since 1970 may be set at any time, the monotonic clock is not. */
typedef struct RequestClock {
        int64_t wall_sec;
        int64_t monotonic_sec;
} RequestClock;

/* Time of an outcome on the monotonic clock, so that a time to live is as long as it says. */
typedef struct RequestAge {
        bool is_known;
        int64_t completed_at;  /* time of the outcome since 1970 */
        int64_t monotonic_sec; /* may be negative: before the machine was started */
} RequestAge;

/* An owner's request for the image: a desired image and its outcome. */
typedef struct ImageRequest {
        LIST_LINKS(struct ImageRequest);
        char *owner; /* "file/web.yaml", "request/7f3a..." */
        DesiredImage desired;
        ImageStatus *outcome; /* if it is done with another status than the image's; or NULL */
        bool is_done;
        bool is_unreported;   /* done or refused, but not reported yet */
        bool has_own_outcome; /* a fault, or it ended before the pull */
        bool is_syncing;
        PullJoin join; /* state of the sync's pull when the request joined it */
        RequestAge age;
        bool is_expired; /* past its time to live; kept only to avoid doing it again */
        RequestKind kind;
        bool must_repull; /* done, but the image was removed: to be pulled again */
        bool is_seen;     /* scratch of images_set_desired() */
} ImageRequest;

/* A request of a previous run. */
typedef struct FormerRequest {
        const char *owner;
        const char *spelling; /* the image's name in it; NULL: not known */
        int64_t version;
        bool is_done;
        bool is_expired;
        const ImageStatus *outcome; /* as in request_set_done() */
} FormerRequest;

/* All zero: no requests. */
typedef struct Requests {
        ImageRequest *first;              /* sorted by owner */
        struct RestoredRequest *restored; /* outcomes of a previous run */
} Requests;

typedef bool (*RequestFilter)(const ImageRequest *request);

bool request_is_current(const ImageRequest *request); /* it has not expired */
bool request_is_due(
        const ImageRequest *request); /* current, and not done, or the image was removed */
bool request_is_urgent(const ImageRequest *request); /* it has not had the image yet */

/* Marks the request as done, with a copy of this outcome; NULL: it is the image's status. */
int request_set_done(ImageRequest *request, const ImageStatus *outcome);

#define UNPINNED_TTL_SEC 600 /* time to live of a local request without a pin */

/* Returns how long a request stays that is done with this outcome, or DESIRED_IMAGE_NO_LIMIT. A caller's request stays
 * without a limit for its pin alone, and one that has failed pins nothing. */
int64_t request_ttl_sec(const ImageRequest *request, const ImageStatus *outcome);

/* Returns when the time to live of a request ends that is done with this outcome, on the monotonic clock. */
int64_t request_end_sec(ImageRequest *request, const ImageStatus *outcome, const RequestClock *now);

/* Makes the request due again, for the next sync. */
void request_renew(ImageRequest *request);

const ImageRequest *requests_first(const Requests *requests, RequestFilter filter);
ImageRequest *requests_find(const Requests *requests, const char *owner, const char *name);

/* Merges the requests that pass the filter; without a name if none does. */
int requests_merge(const Requests *requests, RequestFilter filter, DesiredImage *ret);

/* Adds a request without a desired image. */
int requests_add(Requests *requests, const char *owner, ImageRequest **ret);
void requests_remove(Requests *requests, ImageRequest *request);
void requests_done(Requests *requests);

/* Saves the image's status as the outcome of its done requests, before that status changes. */
int requests_keep_outcome(const Requests *requests, const ImageStatus *status);

/* Makes the image's status the outcome of lasting requests that have succeeded. */
void requests_share_outcome(const Requests *requests);

/* Restores a request, which is copied. */
int requests_restore(Requests *requests, const FormerRequest *former);

/* Gives the request the restored outcome of its owner: that of its spelling, or of any if the owner had no such
 * spelling. */
int requests_apply_restored(const Requests *requests, ImageRequest *request);

/* Gives the request the outcome of one of the same owner that spelled the image in another way, and that the owner has
 * not shown again. */
int requests_apply_respelled(const Requests *requests, ImageRequest *request);
void requests_forget_restored(Requests *requests);

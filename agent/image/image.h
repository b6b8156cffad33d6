/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One image that somebody wants on this node
 *
 * It is pulled in rounds: a round serves all wants that were there when it began, and a want is
 * served once. So a new owner, or a new version of an old one, starts a round; an owner that leaves
 * does not.
 *
 * A want that is served keeps its outcome, whatever becomes of the image for others later. As long as
 * that is what the image's own status says, nothing is copied.
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/list.h"
#include "agent/image/image-status.h"
#include "agent/image/pull.h"
#include "agent/image/desired-image.h"

typedef struct Image Image;

/* Each owner of an image has a want of its own: a desired image, and whether it has been served. */
typedef struct Want {
        LIST_LINKS(struct Want);
        char *owner; /* "file/web.yaml", "request/7f3a..." */
        DesiredImage desired;
        ImageStatus *outcome; /* if it is served, and the image's status is another one; or NULL */
        bool is_served;
        bool is_news;    /* it was served, or refused, and this is not reported yet */
        bool is_refused; /* without a pull: its desired image has a fault */
        bool is_in_round;
        bool is_late;    /* it joined a round whose pull was under way */
        bool is_expired; /* its time to live is over: it is kept only so as not to be served again */
        bool is_transient; /* leaves when it expires */
        bool is_seen;      /* scratch of images_set_desired() */
} Want;

/* What those who look after an image write down with it. */
typedef struct ImageNotes {
        bool is_dirty;    /* waits for image_reconcile() */
        bool has_outcome; /* a round has ended, which is not reported yet; see also Want.is_news */
        uint64_t shown;   /* what a status file says about it, as a fingerprint; 0 at first */
} ImageNotes;

/* The image needs another image_reconcile(). */
typedef void (*ImageDirty)(Image *image, void *userdata);

/* name and tag as spelled in the first desired image. A malformed reference is a failed image, no error. */
int image_new(const char *name, const char *tag, ImageDirty on_dirty, void *userdata, Image **ret);
Image *image_free(Image *image);

/* What identifies an image, whatever it is called: its canonical reference. A malformed reference
 * is its own key. */
int image_key_of(const char *name, const char *tag, char **ret);

const char *image_key(const Image *image);
const char *image_name(const Image *image); /* familiar, without the tag */
const char *image_tag(const Image *image);  /* or the digest */

/* Of the round that runs, else of the last one. Borrowed until the next event. */
const ImageStatus *image_status(const Image *image);

/* Of the round that serves the want of one owner, or what became of it. NULL: it was not its turn. */
const ImageStatus *image_status_for(const Image *image, const char *owner, const char *name);

const Want *image_wants(const Image *image);

/* One that has its outcome since the last call; NULL: none. Borrowed. */
const Want *image_take_news(Image *image);

/* All wants that have not expired, as one. NULL if there are none. */
const DesiredImage *desired_image(const Image *image);

/* It is being pulled, or about to be. */
bool image_has_round(const Image *image);

/* To be read and written; lives as long as the image. */
ImageNotes *image_notes(Image *image);

/* Somebody wants it now. */
bool image_is_wanted(const Image *image);

/* Adds or changes the want of one owner. The desired image is copied. One with a fault fails at once, as does
 * any for a malformed reference. */
int image_set_want(Image *image, const char *owner, const DesiredImage *desired, bool is_transient);

/* Removes the wants that were not marked as seen since the last time. */
int image_sweep_wants(Image *image, const char *owner);

/* Removes the wants of one owner that were not served yet. Returns how many. */
int image_withdraw(Image *image, const char *owner);

/* Somebody else has decided what became of an owner's want of this name and version, which needs no
 * serving any more: then the status is taken over, and 1 returned. 0: there is no such want. */
int image_settle(Image *image, const char *owner, const char *name, int64_t version,
                 ImageStatus *status);

/* The agent has served this owner's version before it was restarted. The outcome is copied; NULL: it
 * is the status that is restored. */
int image_restore_served(Image *image, const char *owner, int64_t version, bool is_expired,
                         const ImageStatus *outcome);
/* Takes the status over. */
void image_restore_status(Image *image, ImageStatus *status);
/* Forgets what was restored and nobody has claimed. */
void image_restore_end(Image *image);

/* Does what is due: starts, restarts, stops or ends a round. */
int image_reconcile(Image *image, const PullContext *context);

int image_runtime_changed(Image *image);

/* Expires wants; *ret_next is the time of the next one to expire, or INT64_MAX. */
int image_expire(Image *image, int64_t now, int64_t *ret_next);

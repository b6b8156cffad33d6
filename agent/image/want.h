/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who wants an image, and who has got it
 *
 * Each owner of an image has a want of its own: a wish, and whether it has been served. What an
 * earlier life of the agent has served is remembered until the owner comes back for it.
 *
 * A want that is served keeps its outcome, whatever becomes of the image for others later. As long as
 * that is what the image's own status says, nothing is copied.
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/list.h"
#include "agent/image/image-status.h"
#include "agent/image/wish.h"

typedef struct Want {
        LIST_LINKS(struct Want);
        char *owner; /* "file/web.yaml", "request/7f3a..." */
        ImageWish wish;
        ImageStatus *outcome; /* if it is served, and the image's status is another one; or NULL */
        bool is_served;
        bool is_news;    /* it was served, or refused, and this is not reported yet */
        bool is_refused; /* without a pull: its wish has a fault */
        bool is_in_round;
        bool is_late;    /* it joined a round whose pull was under way */
        bool is_expired; /* its time to live is over: it is kept only so as not to be served again */
        bool is_transient; /* leaves when it expires */
        bool is_seen;      /* scratch of images_set_wishes() */
} Want;

typedef struct Served Served;

/* All zero: nobody wants it. */
typedef struct Wants {
        Want *first; /* sorted by owner */
        Served *served;
} Wants;

void wants_done(Wants *wants);

Want *wants_find(const Wants *wants, const char *owner, const char *name);

/* A want without a wish yet. */
int wants_add(Wants *wants, const char *owner, Want **ret);
void wants_remove(Wants *wants, Want *want);

/* The want has been served, with this outcome; NULL: it is the image's status. Copied. */
int want_serve(Want *want, const ImageStatus *outcome);
/* It has to be served anew. */
void want_renew(Want *want);

/* The image's status, which so far was their outcome as well, is about to become another one. */
int wants_keep_outcome(const Wants *wants, const ImageStatus *status);

/* The owner has been served this version before; outcome is as above. */
int wants_remember(Wants *wants, const char *owner, int64_t version, bool is_expired,
                   const ImageStatus *outcome);

/* Gives the want what is remembered for its owner. */
int wants_claim(const Wants *wants, Want *want);
void wants_forget(Wants *wants);

typedef bool (*WantFilter)(const Want *want);
bool want_is_current(const Want *want); /* not expired */
bool want_is_due(const Want *want);     /* nor served */

const Want *wants_first(const Wants *wants, WantFilter filter);

/* All that pass as one wish; without a name if none does. */
int wants_merge(const Wants *wants, WantFilter filter, ImageWish *ret);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The images that this node is asked to hold
 *
 * Owners say what they want, this makes it so and says what became of it. It knows neither who the
 * owners are nor where the status goes: desired state comes in through images_set_desired(), and
 * whoever wants to know is a watcher.
 */

#include "agent/image/image.h"

typedef struct Images Images;

/* A pull ended, or a want was refused without one; the status says how. */
typedef void (*ImagesOutcome)(const Image *image, const ImageStatus *status, void *userdata);

/* A want has been served, or refused: image_status_for() says how. */
typedef void (*ImagesServed)(const Image *image, const Want *want, void *userdata);

typedef struct ImagesOptions {
        CompletionQueue *completions;
        Log *log;
        Runtimes *runtimes; /* borrowed, has to outlive the images */
        unsigned max_parallel_pulls;
        uint64_t stall_usec; /* 0: never */
        PullKeySource keys;
        ImagesOutcome on_outcome;
        ImagesServed on_served;
        void *outcome_userdata;
} ImagesOptions;

/* Somebody who wants to know, embedded in whatever that is. */
typedef struct ImagesWatcher ImagesWatcher;
struct ImagesWatcher {
        LIST_LINKS(ImagesWatcher);

        /* An image changed; it is borrowed. It may be no longer wanted, and is gone after that. */
        int (*on_image)(Image *image, void *userdata);
        void *userdata;
};

int images_new(const ImagesOptions *options, Images **ret);

/* Stops all pulls. Returns NULL. */
Images *images_free(Images *images);

void images_watch(Images *images, ImagesWatcher *watcher);
void images_unwatch(Images *images, ImagesWatcher *watcher);

/* All that one owner wants, instead of all that it has wanted before. What a transient owner wants
 * is forgotten when its time to live is over. The desired images are copied. */
int images_set_desired(Images *images, const char *owner, const DesiredImages *desired_images,
                       bool is_transient);

/* An owner no longer wants what it was not served with yet; of one image, or of all if that is NULL.
 * Returns how many. */
int images_withdraw(Images *images, const char *owner, const Image *image);

/* Takes over from an earlier life: what it has done for whom. To be followed by the owners' desired images
 * and then by images_restore_end(). The status is taken over; one that is not final is no news. */
int images_restore(Images *images, const char *name, const char *tag, ImageStatus *status);
int images_restore_served(Images *images, const char *name, const char *tag, const char *owner,
                          int64_t version, bool is_expired, const ImageStatus *outcome);
void images_restore_end(Images *images);

/* A runtime came or went. */
int images_runtime_changed(Images *images);

void images_set_limits(Images *images, unsigned max_parallel_pulls, uint64_t stall_usec);

/* In the order of their keys, so that the tags of a name stand together. */
size_t images_count(const Images *images);
Image *images_get(const Images *images, size_t i);
Image *images_find(const Images *images, const char *name, const char *tag);

typedef struct ImagesWork {
        size_t n_queued; /* pulls that wait for their turn */
        size_t n_pulling;
        uint64_t bytes_pulled; /* so far */
        bool has_progress;     /* the runtime can tell bytes */
} ImagesWork;

ImagesWork images_work(const Images *images);

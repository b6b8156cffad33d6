/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The images that this node should hold
 *
 * Owners set their desired images, this pulls them and reports what became of them. It knows neither
 * who the owners are nor where the status goes: desired images come in through images_set_desired(),
 * and watchers are notified of changes.
 */

#include "agent/image/image.h"
#include "agent/observe/metrics.h"

typedef struct Images Images;

/* A pull ended, or a request was refused without one. */
typedef void (*ImagesOutcome)(const Image *image, void *userdata);

/* A request is done or refused, with the outcome of image_status_for(). */
typedef void (*ImagesDone)(const Image *image, const ImageRequest *request, void *userdata);

typedef struct ImagesLimits {
        unsigned max_parallel_pulls;
        uint64_t stall_usec;  /* 0: never */
        DiskFloor disk_floor; /* disk space that pulls leave free */
        bool keeps_served; /* a removed image is pulled again also for requests of REQUEST_ONCE */
} ImagesLimits;

typedef struct ImagesOptions {
        CompletionQueue *completions;
        Log *log;
        Metrics *metrics;   /* may be NULL */
        Runtimes *runtimes; /* borrowed, has to outlive the images */
        ImagesLimits limits;
        const char *host_root; /* folder where the host's files are mounted; copied; NULL: / */
        bool is_pod;           /* the agent runs in a pod of the node's own runtime */
        PullCredentialsSource keys;
        ImagesOutcome on_outcome;
        ImagesDone on_done;
        void *outcome_userdata;
} ImagesOptions;

/* Receives changes; embedded in its owner. */
typedef struct ImagesWatcher ImagesWatcher;
struct ImagesWatcher {
        LIST_LINKS(ImagesWatcher);

        /* An image changed; it is borrowed. If it is not desired any more, it is gone after the
         * call. */
        int (*on_image)(Image *image, void *userdata);
        void *userdata;
};

int images_new(const ImagesOptions *options, Images **ret);

/* Stops all pulls. Returns NULL. */
Images *images_free(Images *images);

void images_watch(Images *images, ImagesWatcher *watcher);
void images_unwatch(Images *images, ImagesWatcher *watcher);

/* Replaces all desired images of one owner by copies of these. Requests of a transient owner are
 * forgotten when their time to live is over. */
int images_set_desired(Images *images, const char *owner, const DesiredImages *desired_images,
                       RequestKind kind);

/* Removes the requests of one owner that are not done yet, for one image, or for all if that is
 * NULL. Returns how many. */
int images_withdraw(Images *images, const char *owner, const Image *image);

/* Restores the results of the previous run. Call the owners' images_set_desired() next, and then
 * images_restore_end(). The status is taken over; one that is not final is not reported. */
int images_restore(Images *images, const char *name, const char *tag, ImageStatus *status);
int images_restore_request(Images *images, const char *name, const char *tag,
                           const FormerRequest *former);
void images_restore_end(Images *images);
/* Waits for one more source of owners, until images_heard(). */
void images_await(Images *images);
void images_heard(Images *images);
/* Whether all owners have set their images since the start: restored, and none awaited. */
bool images_are_complete(const Images *images);

/* Starts another attempt of each image that has such requests, see image_retry(). */
int images_retry(Images *images, ImageRequestFilter filter, const void *userdata);

/* Starts attempts that wait for this remedy, because it may have come. */
void images_hint(Images *images, PullRemedy remedy);

/* A runtime came or went. */
int images_runtime_changed(Images *images);

int images_set_limits(Images *images, const ImagesLimits *limits);

/* How the runtime reads names without a registry: as in the previous run until the runtime has
 * answered. Setting it moves requests whose names mean other images now to those images, and renews
 * them. Requests with is_hub stay. */
ShortNames images_short_names(const Images *images);
int images_set_short_names(Images *images, ShortNames short_names);

/* Pauses all pulls, except those of these images (canonical references) that already run. why: for
 * people; NULL: ends the pause. All are borrowed during the call. */
int images_pause(Images *images, const char *why, const char *const *keys, size_t n_keys);

/* Sets what holds pulls back, NULL: nothing does. Borrowed; to be called again whenever its answers may have changed. */
int images_set_gate(Images *images, const PullGate *gate);

/* Applies the result of a verification, see image_set_missing() and image_set_present(). */
int images_set_missing(Images *images, Image *image);

/* Returns the guard of the images' disk. Borrowed. */
const DiskGuard *images_disk(const Images *images);

/* In the order of their keys, so that the tags of a name stand together. */
size_t images_count(const Images *images);
Image *images_get(const Images *images, size_t i);
/* These set *ret to NULL if there is no such image. */
int images_find(const Images *images, const char *name, const char *tag, Image **ret);
int images_find_desired(const Images *images, const DesiredImage *desired, Image **ret);
/* Finds an image by a reference as people write it; a text that is not one has none. */
int images_find_reference(const Images *images, const char *text, Image **ret);
Image *images_find_key(const Images *images, const char *key);

typedef struct ImagesWork {
        size_t n_queued; /* pulls that wait for their turn */
        size_t n_pulling;
        uint64_t bytes_pulled;    /* bytes pulled so far */
        ProgressSupport progress; /* whether the runtime reports bytes */
} ImagesWork;

ImagesWork images_work(const Images *images);

/* Sets the gauges. */
void images_measure(Images *images);

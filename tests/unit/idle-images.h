/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An engine without a runtime
 *
 * It takes requests, and pulls nothing.
 */

#include "agent/image/images.h"
#include "tests/unit/unit.h"

static inline PullCredentialsAsk *idle_images_drop_keys(PullCredentialsAsk *ask) {
        return NULL;
}

static inline void idle_images_on_outcome(const Image *image, void *userdata) {
}

static inline void idle_images_on_done(const Image *image, const ImageRequest *request,
                                       void *userdata) {
}

/* The caller owns all three, and frees them last to first. */
static inline void idle_images_new(sd_event *event, Log *log, CompletionQueue **completions,
                                   Runtimes **runtimes, Images **ret) {
        assert_ok(completion_queue_new(event, completions));
        assert_ok(runtimes_new(*completions, &(RuntimesOptions){ .n_paths = 0 }, runtimes));
        assert_ok(images_new(&(ImagesOptions){ .completions = *completions,
                                               .log = log,
                                               .runtimes = *runtimes,
                                               .limits = { .max_parallel_pulls = 1 },
                                               .keys = { .drop = idle_images_drop_keys },
                                               .on_outcome = idle_images_on_outcome,
                                               .on_done = idle_images_on_done },
                             ret));
}

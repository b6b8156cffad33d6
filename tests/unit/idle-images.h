/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An engine without a runtime
 *
 * It takes requests, and pulls nothing.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/image/images.h"

static inline PullKeysAsk *idle_images_drop_keys(PullKeysAsk *ask) {
        return NULL;
}

/* The caller owns all three, and frees them last to first. */
static inline void idle_images_new(sd_event *event, Log *log, CompletionQueue **completions,
                                   Runtimes **runtimes, Images **ret) {
        assert_int_equal(completion_queue_new(event, completions), 0);
        assert_int_equal(runtimes_new(*completions, &(RuntimesOptions){ .n_paths = 0 }, runtimes),
                         0);
        assert_int_equal(images_new(&(ImagesOptions){ .completions = *completions,
                                                      .log = log,
                                                      .runtimes = *runtimes,
                                                      .limits = { .max_parallel_pulls = 1 },
                                                      .keys = { .drop = idle_images_drop_keys } },
                                    ret),
                         0);
}

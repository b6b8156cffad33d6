/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An engine without a runtime: it takes requests, and pulls nothing
 *
 * With fake-runtime.h its options serve an engine that pulls.
 */

#include "agent/image/images.h"
#include "tests/unit/unit.h"

static inline PullCredentialsAsk *idle_images_drop_keys(PullCredentialsAsk *ask) {
        return NULL;
}

/* Finds none. */
static inline int idle_images_ask_keys(void *source, const PullCredentialsQuestion *question,
                                       PullCredentialsReady on_ready, void *userdata,
                                       PullCredentialsAsk **ret) {
        PullCredentials none = { .named = NULL };

        return on_ready(&none, NULL, userdata);
}

static inline void idle_images_on_outcome(const Image *image, void *userdata) {
}

static inline void idle_images_on_done(const Image *image, const ImageRequest *request,
                                       void *userdata) {
}

/* Options of an engine that asks for no keys, and whose owner minds no outcome. */
static inline ImagesOptions idle_images_options(CompletionQueue *completions, Log *log,
                                                Runtimes *runtimes) {
        return (ImagesOptions){ .completions = completions,
                                .log = log,
                                .runtimes = runtimes,
                                .limits = { .max_parallel_pulls = 1 },
                                .keys = { .drop = idle_images_drop_keys },
                                .on_outcome = idle_images_on_outcome,
                                .on_done = idle_images_on_done };
}

/* The caller owns all three, and frees them last to first. */
static inline void idle_images_new(sd_event *event, Log *log, CompletionQueue **completions,
                                   Runtimes **runtimes, Images **ret) {
        ImagesOptions options;

        assert_ok(completion_queue_new(event, completions));
        assert_ok(runtimes_new(*completions, &(RuntimesOptions){ .n_paths = 0 }, runtimes));
        options = idle_images_options(*completions, log, *runtimes);
        assert_ok(images_new(&options, ret));
}

/* An engine with all that it needs. */
typedef struct IdleNode {
        sd_event *event;
        Log *log;
        CompletionQueue *completions;
        Runtimes *runtimes;
        Images *images;
} IdleNode;

static inline void idle_node_open(IdleNode *node) {
        *node = (IdleNode){ .event = NULL };
        assert_true(sd_event_new(&node->event) >= 0);
        assert_ok(log_new(LOG_FORMAT_TEXT, -1, &node->log));
        idle_images_new(node->event, node->log, &node->completions, &node->runtimes, &node->images);
}

static inline void idle_node_close(IdleNode *node) {
        images_free(node->images);
        runtimes_free(node->runtimes);
        completion_queue_free(node->completions);
        log_free(node->log);
        sd_event_unref(node->event);
}

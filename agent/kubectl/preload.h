/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Having images pulled on nodes, for a command that waits for them
 *
 * Where OpenKruise serves ImagePullJobs, one is created for each image, and its controller writes the
 * NodeImages. Elsewhere they are written here, so many at a time. In either case what becomes of it is
 * read from the status of the NodeImages, which the node's agent writes. Whatever ends this early, the
 * nodes that were requested go on.
 */

#include <stddef.h>
#include <stdint.h>

#include "agent/kubectl/preload-plan.h"
#include "agent/kubectl/session.h"

#define PRELOAD_PARALLELISM "10"
#define PRELOAD_TTL_SEC 3600

/* All is borrowed during the call. */
typedef struct PreloadRequest {
        const char *const *images; /* references as people write them */
        size_t n_images;
        /* Selector of more NodeImages than those of `nodes`; NULL: no more. */
        const char *labels;
        json_object *nodes;    /* {name: null} */
        const char *namespace; /* namespace of secrets and ImagePullJobs; NULL: the session's */
        json_object *secrets;  /* {name: null}; 32 at most */
        const char *
                parallelism; /* number of nodes at a time: "10", "25%"; NULL: PRELOAD_PARALLELISM */
        const char *max_failures; /* no more nodes begin after more failures; NULL: all may fail */
        int64_t ttl_sec;          /* how long the request stays after its end; 0: PRELOAD_TTL_SEC */
        PreloadMode mode;
        bool resolves; /* tags anew, also in a dry run; each node says to which digest */
        bool keeps_apart; /* for users who may not write NodeImages: tags and secrets of namespaces do not meet there */
        bool is_shown; /* on stdout, while it goes on */
        /* Ends it early, asked in each turn with `userdata`; NULL: nothing does. */
        bool (*is_outdated)(const void *userdata);
        const void *userdata;
} PreloadRequest;

/* Waits for the end on all nodes, and returns 0 also if some have failed. Refused if it could not
 * begin or go on; *ret then has what is known so far, and is to be freed in any case. */
int preload_run(Session *session, const PreloadRequest *request, PreloadResult *ret, Error *reterr);

/* The same with the images {image: null} in place of the request's, for a command that has changed nothing yet, and says so
 * where it is interrupted. */
int preload_run_first(Session *session, json_object *images, const PreloadRequest *request,
                      PreloadResult *ret, Error *reterr);

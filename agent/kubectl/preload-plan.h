/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Plan of a preload: reads the requests of NodeImages, decides on writes, on the next nodes, and on the
 * end
 *
 * A request has a version: the status of another version is about something else. Each request raises
 * it, but for one that goes on already, which is joined. Pure.
 */

#include <json-c/json_types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/error.h"
#include "agent/image/image-ref.h"

#define PRELOAD_GROUP "apps.kruise.io"
#define PRELOAD_JOB_LABEL "app.kubernetes.io/managed-by"
#define PRELOAD_JOB_LABEL_VALUE "kubectl-inplace"

#define PRELOAD_ANSWER_USEC ((uint64_t) 10 * 1000000)
#define PRELOAD_PROGRESS_USEC ((uint64_t) 600 * 1000000)

#define PRELOAD_SECRETS_MAX ((size_t) 32)
#define PRELOAD_IMAGES_MAX ((size_t) 64)

typedef enum PreloadPhase {
        PRELOAD_ABSENT,  /* the NodeImage does not have it */
        PRELOAD_WAITING, /* the node has not begun */
        PRELOAD_PULLING,
        PRELOAD_SUCCEEDED,
        PRELOAD_FAILED,
        _PRELOAD_PHASE_MAX,
} PreloadPhase;

/* As a NodeImage calls it; owned. */
typedef struct PreloadImage {
        char *name; /* without tag */
        char *tag;  /* or digest */
} PreloadImage;

int preload_image_parse(const char *reference, PreloadImage *ret, Error *reterr);
void preload_image_done(PreloadImage *image);

/* The terms that all requests share. Borrowed. */
typedef struct PreloadTerms {
        const char *namespace; /* namespace of the secrets */
        const char *const *secrets;
        size_t n_secrets;
        int64_t ttl_sec;
        int64_t now_sec;
} PreloadTerms;

/* An image in a NodeImage. */
typedef struct PreloadEntry {
        bool has_images, has_name, has_secrets; /* these are in the spec */
        size_t n_tags;                          /* number of tags of that name */
        size_t tag_index;                       /* unless it is absent */
        uint32_t missing_secrets;               /* bits, in the order of the terms */
        int64_t version;                        /* in the spec */
        int64_t next_version;
        json_object *owners; /* references to ImagePullJobs that requested it, or NULL; owned */
        PreloadPhase phase;
        bool is_taken_up; /* an agent has written a status of this version */
        int64_t percent;  /* 0 to 100 */
        char *message;    /* why it failed, or waits; NULL: nothing is said. Owned. */
} PreloadEntry;

int preload_entry_read(json_object *node_image, const PreloadImage *image,
                       const PreloadTerms *terms, PreloadEntry *ret);
void preload_entry_done(PreloadEntry *entry);

/* The ImagePullJob with this uid has requested it, perhaps with others. */
bool preload_entry_is_of(const PreloadEntry *entry, const char *uid);

/* It can be waited for as it is. */
bool preload_entry_is_under_way(const PreloadEntry *entry);

/* A request for one image on one node, and its outcome. */
typedef struct PreloadPull {
        int64_t version; /* version of the awaited request; -1: there is none yet */
        bool was_seen;
        PreloadPhase outcome; /* PRELOAD_SUCCEEDED, PRELOAD_FAILED; PRELOAD_ABSENT: none yet */
        char *message;        /* owned */
} PreloadPull;

#define PRELOAD_PULL_INIT ((PreloadPull){ .version = -1 })

/* It is requested now, as the entry says what comes next, or was, as it is in the entry. */
int preload_pull_begin(PreloadPull *pull, const PreloadEntry *entry, bool is_requested);
/* The NodeImage is shown with this entry. */
int preload_pull_take(PreloadPull *pull, const PreloadEntry *entry);

/* An ImagePullJob for one of the images; texts are owned. */
typedef struct PreloadJob {
        char *name;
        char *uid;
        bool has_ended;
} PreloadJob;

typedef enum PreloadMode {
        PRELOAD_PULL,
        PRELOAD_WATCH,    /* requests nothing, and waits for what was requested */
        PRELOAD_WITHDRAW, /* takes the request back */
} PreloadMode;

typedef enum PreloadNodeState {
        PRELOAD_NODE_IDLE,
        PRELOAD_NODE_RUNNING,
        PRELOAD_NODE_DONE,
        PRELOAD_NODE_FAILED,
        PRELOAD_NODE_SILENT,      /* requested, and no agent has taken it up in time */
        PRELOAD_NODE_UNCONCERNED, /* it has no such request */
        _PRELOAD_NODE_STATE_MAX,
} PreloadNodeState;

/* The state of a node as the plan sees it. Borrowed. */
typedef struct PreloadNodeView {
        PreloadMode mode;
        size_t n_images;
        const PreloadEntry *entries; /* an entry for each image */
        const PreloadPull *pulls;
        const PreloadJob *jobs; /* NULL: there are none */
        const char *refusal;    /* why nothing more is expected of it; NULL: it is */
        bool is_registered;     /* it has a NodeImage */
        bool has_begun;
        bool is_over;    /* the work on its NodeImage is done, and nothing is awaited */
        bool is_late;    /* PRELOAD_ANSWER_USEC have passed since preload_node_is_unanswered() */
        bool is_stalled; /* PRELOAD_PROGRESS_USEC have passed since preload_node_progress() grew */
} PreloadNodeView;

/* Images are requested, and no agent has taken up any of them. */
bool preload_node_is_unanswered(const PreloadNodeView *node);
PreloadNodeState preload_node_state(const PreloadNodeView *node);
const char *preload_node_state_to_string(PreloadNodeState state);
/* Grows as its images come nearer to their end. Its maximum is bounded, whatever the agent writes. */
int64_t preload_node_progress(const PreloadNodeView *node);
/* Says what a running node has still to do, for preload_reasons_add(); borrowed from the view. */
const char *preload_node_awaited(const PreloadNodeView *node);
/* Why it has failed, or what it waits for; NULL: nothing is said. Borrowed from the view. */
const char *preload_node_message(const PreloadNodeView *node);

typedef struct PreloadImageCounts {
        size_t n_nodes, n_done, n_waiting, n_running, n_failed;
        int64_t percent; /* progress of all pulls together */
} PreloadImageCounts;

/* Counts one of a node's images, unless the node is unconcerned. */
void preload_image_count(const PreloadNodeView *node, size_t i, PreloadImageCounts *counts);

/* An ImagePullJob in that version of its API, owned by the caller. parallelism: a number of nodes, since
 * OpenKruise accepts a percentage and never begins such a job. names: of nodes, taken over. NULL: no
 * memory. */
json_object *preload_job_make(const char *version, const char *image, const PreloadTerms *terms,
                              size_t parallelism, json_object *names);

/* A JSON patch of the NodeImage in that version, which requests those of its images that are not under
 * way, or takes them back; NULL: nothing is to be done. The caller owns *ret. Of images with one name
 * only one is taken back at a time. */
int preload_patch_request(const PreloadImage *images, const PreloadEntry *entries, size_t n,
                          const PreloadTerms *terms, const char *version, json_object **ret);
int preload_patch_withdraw(const PreloadImage *images, const PreloadEntry *entries, size_t n,
                           const char *version, json_object **ret);

/* Numbers of nodes. */
typedef struct PreloadCounts {
        size_t n_idle; /* not requested yet */
        size_t n_running;
        size_t n_done;
        size_t n_failed; /* silent ones included */
} PreloadCounts;

typedef struct PreloadLimits {
        size_t parallelism;
        size_t max_failures;
} PreloadLimits;

/* How many more nodes may begin. */
size_t preload_room(const PreloadCounts *counts, const PreloadLimits *limits);
/* Nothing more will come. */
bool preload_is_over(const PreloadCounts *counts, const PreloadLimits *limits);

/* Why nodes have failed, each reason once: what a message begins with, if that is one word and a colon,
 * as agents write it; else the whole message. */
typedef struct PreloadReasons {
        struct PreloadReason {
                char *reason;
                char *message; /* message of the first node */
                char *nodes;   /* some of them */
                size_t n_nodes;
        } * items;
        size_t n_items;
} PreloadReasons;

#define PRELOAD_REASONS_INIT ((PreloadReasons){ .items = NULL })

int preload_reasons_add(PreloadReasons *reasons, const char *node, const char *message);
/* "NotFound on 3 nodes (node-1, node-2, node-5): ...", "NotFound on node node-1: ...", a line each. The
 * caller owns *ret. */
int preload_reasons_format(const PreloadReasons *reasons, char **ret);
void preload_reasons_done(PreloadReasons *reasons);

/* The outcome on all nodes. */
typedef struct PreloadResult {
        size_t n_nodes, n_done, n_failed, n_silent; /* a silent node has failed as well */
        char *reasons; /* why nodes failed, one line for each reason; "" if none has. Owned. */
        struct json_object *nodes; /* [{"name", "phase", "message"}], owned */
} PreloadResult;

/* Counts a node, unless it is unconcerned, with the reason of its failure. nodes is to be there. */
int preload_result_add(PreloadResult *result, PreloadReasons *reasons, const char *name,
                       const PreloadNodeView *node);
void preload_result_done(PreloadResult *result);

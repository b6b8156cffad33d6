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
#include "agent/kube/retry.h"

#define PRELOAD_GROUP "apps.kruise.io"
#define PRELOAD_JOB_LABEL "app.kubernetes.io/managed-by"
#define PRELOAD_JOB_LABEL_VALUE "kubectl-inplace"

#define PRELOAD_ANSWER_USEC ((uint64_t) 10 * 1000000)
/* The longest pause of an agent that a busy API server has refused, with its jitter, and some time to answer. */
#define PRELOAD_LATE_USEC (KUBE_RETRY_MAX_USEC + KUBE_RETRY_MAX_USEC / 5 + (uint64_t) 2 * 1000000)
#define PRELOAD_PROGRESS_USEC ((uint64_t) 600 * 1000000)

#define PRELOAD_SECRETS_MAX 32
#define PRELOAD_IMAGES_MAX ((size_t) 64)
/* Bytes of a NodeImage up to which updates that are declared request images. The API server stores 1.5 MiB: the rest is for what
 * administrators request, and for what the agent says of each image, which ends the requests. */
#define PRELOAD_SIZE_MAX ((size_t) 384 << 10)

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

/* The entry of the tag in spec.images[NAME] or status.imageStatuses[NAME]; NULL: there is none. Borrowed. */
json_object *preload_find_tag(json_object *image, const char *tag);

/* Adds the pull secrets {name: null} of the namespace, but for those that spec.images[NAME] has already. */
int preload_add_secrets(json_object *secrets, const char *namespace, json_object *image);

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

/* All that is the same for each node. Borrowed. */
typedef struct PreloadTask {
        PreloadMode mode;
        const PreloadImage *images;
        size_t n_images;
        const char *namespace; /* namespace of the secrets */
        json_object *secrets;  /* {name: null} */
        int64_t ttl_sec;
        int64_t now_sec;
        const PreloadJob *jobs; /* a job for each image; NULL: there are none */
        bool resolves;          /* each node asks the registry, also for an image that it has */
        bool keeps_apart;       /* leaves images alone, see PreloadPull */
        bool is_dry_run;
        bool is_stalled; /* PRELOAD_PROGRESS_USEC have passed since preload_node_progress() grew */
} PreloadTask;

/* An image on a node. */
typedef struct PreloadPull {
        /* as the NodeImage has it: */
        char *spec; /* entry of the image in the spec, with all tags, as JSON; NULL: there is none. Owned. */
        bool lacks_secrets; /* the spec does not have all of the task */
        bool is_apart; /* left alone: tags and secrets of namespaces must not meet, or the NodeImage is full */
        PreloadPhase phase;
        int64_t version; /* in the spec */
        int64_t next_version;
        bool is_taken_up; /* an agent has written a status of this version */
        int64_t percent;  /* 0 to 100 */
        char *message;    /* why it failed, or waits; NULL: nothing is said. Owned. */

        /* the awaited request: */
        int64_t awaited; /* version of the request; -1: there is none yet */
        bool was_apart;  /* so there is no request, also where it is not apart any more */
        bool was_seen;
        PreloadPhase outcome; /* PRELOAD_SUCCEEDED, PRELOAD_FAILED; PRELOAD_ABSENT: none yet */
        char *reason;         /* message of the outcome; owned */
} PreloadPull;

/* A node. */
typedef struct PreloadNode {
        const PreloadTask *task;
        char *name;
        char *version;      /* resourceVersion of the NodeImage as last seen; NULL: there is none */
        char *refusal;      /* why nothing more is expected of it; NULL: it is */
        PreloadPull *pulls; /* a pull for each image */
        bool has_begun;
        bool is_written; /* the NodeImage has the request, or does not have it any more */
        bool is_full; /* it had more than PRELOAD_SIZE_MAX when that was asked last, where updates share it */
        bool is_late; /* PRELOAD_ANSWER_USEC have passed since preload_node_is_unanswered() */
} PreloadNode;

/* The name is copied. */
int preload_node_init(PreloadNode *node, const PreloadTask *task, const char *name);
void preload_node_done(PreloadNode *node);

/* The NodeImage is shown. */
int preload_node_read(PreloadNode *node, json_object *node_image);
/* The NodeImage is gone, and what was still to be done there cannot be. */
int preload_node_lose(PreloadNode *node);
/* Notes the requests to wait for after the patch; where others have requested an image already, without it. */
int preload_node_expect(PreloadNode *node);

/* Makes a merge patch of the NodeImage, which requests those of its images that are not under way, or takes them back;
 * NULL: nothing is to be done. It is for this version of the object alone. The caller owns *ret. */
int preload_node_patch(const PreloadNode *node, json_object **ret);

typedef enum PreloadNodeState {
        PRELOAD_NODE_IDLE,
        PRELOAD_NODE_RUNNING,
        PRELOAD_NODE_DONE,
        PRELOAD_NODE_FAILED,
        PRELOAD_NODE_SILENT,      /* requested, and no agent has taken it up in time */
        PRELOAD_NODE_UNCONCERNED, /* it has no such request */
        _PRELOAD_NODE_STATE_MAX,
} PreloadNodeState;

/* Images are requested, and no agent has taken up any of them. */
bool preload_node_is_unanswered(const PreloadNode *node);
PreloadNodeState preload_node_state(const PreloadNode *node);
/* Grows as its images come nearer to their end. Its maximum is bounded, whatever the agent writes. */
int64_t preload_node_progress(const PreloadNode *node);
/* Says what a running node has still to do, for preload_reasons_add(); borrowed from the node. */
const char *preload_node_awaited(const PreloadNode *node);
/* Why it has failed, or what it waits for; NULL: nothing is said. Borrowed from the node. */
const char *preload_node_message(const PreloadNode *node);

typedef struct PreloadImageCounts {
        size_t n_nodes, n_done, n_waiting, n_running, n_failed;
        int64_t percent; /* progress of all pulls together */
} PreloadImageCounts;

/* Counts one of a node's images, unless the node is unconcerned. */
void preload_image_count(const PreloadNode *node, size_t i, PreloadImageCounts *counts);

/* An ImagePullJob in that version of its API, owned by the caller. parallelism: a number of nodes, since
 * OpenKruise accepts a percentage and never begins such a job. names: of nodes, taken over. NULL: no
 * memory. */
json_object *preload_job_make(const char *version, const char *image, const PreloadTask *task,
                              size_t parallelism, json_object *names);

/* Numbers of nodes. */
typedef struct PreloadCounts {
        size_t n_idle; /* not requested yet */
        size_t n_running;
        size_t n_done;
        size_t n_failed; /* silent ones included */
        size_t n_silent;
        bool are_answering; /* a node has answered for the first time within preload_patience_usec() */
} PreloadCounts;

typedef struct PreloadLimits {
        size_t parallelism;
        size_t max_failures;
} PreloadLimits;

/* How long silent nodes are waited for after the last first answer of a node: a busy API server lets agents wait. slowest:
 * the most that a node took for its first answer. */
uint64_t preload_patience_usec(uint64_t slowest_usec);
/* How many more nodes may begin. */
size_t preload_room(const PreloadCounts *counts, const PreloadLimits *limits);
/* Nothing more will come. Silent nodes may answer late while a busy API server or machine lets others answer late. */
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
        /* Nodes on which an image is left alone, see PreloadTask. */
        size_t n_apart;
        char *reasons; /* why nodes failed, one line for each reason; "" if none has. Owned. */
        struct json_object *
                nodes; /* [{"name", "phase", "message"}], owned; of a task that resolves also "resolved", what
                        * the agent says of each image */
} PreloadResult;

/* Counts a node, unless it is unconcerned, with the reason of its failure. nodes is to be there. */
int preload_result_add(PreloadResult *result, PreloadReasons *reasons, const PreloadNode *node);
void preload_result_done(PreloadResult *result);

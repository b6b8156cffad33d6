/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An inspection of the containers of a pod
 *
 * Asks the runtime for the containers, their environment, the images that they run, and the images that
 * their references mean now. It decides nothing.
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/error.h"
#include "agent/rpc/client.h"

typedef struct Inspection Inspection;

typedef struct InspectionQuestion {
        const char *name;
        const char *reference;  /* the pod's image reference; "": none */
        char *const *env_names; /* variables to hash, ended by NULL; NULL: do not hash */
        const char *known_id;   /* ID of a container of which only the reference is unknown */
} InspectionQuestion;

/* Unknown texts are ""; borrowed during the call. */
typedef struct InspectionAnswer {
        const char *id; /* ID of the newest container of this name; "" while it is being made */
        bool is_running;
        bool has_other_image; /* differs from an earlier container that the runtime still has */
        unsigned restart_count;
        uint64_t kubelet_hash;
        bool is_hash_plain; /* see plain_hash(); false if the runtime does not know the container's reference */
        uint32_t env_hash; /* 0: not requested, or unknown */
        const char *running_id;
        const char *reference_id;
        bool is_incomplete; /* asking again may help */
} InspectionAnswer;

/* answers: one per question, in their order; an error may leave some incomplete. NULL if the
 * runtime reported nothing. */
typedef int (*InspectionDone)(const InspectionAnswer *answers, const Error *error, void *userdata);

typedef struct InspectionOptions {
        RpcClient *client;
        const char *namespace;
        const char *pod;
        const char *runtime_uid;
        /* If not set, only resolves the references, of which there is at least one. */
        bool must_list;
        const InspectionQuestion *questions;
        size_t n_questions;
        InspectionDone on_done; /* once; not from within inspection_new(); it may be freed there */
        void *userdata;
} InspectionOptions;

/* Everything is copied. */
int inspection_new(const InspectionOptions *options, Inspection **ret);
/* Returns NULL. */
Inspection *inspection_free(Inspection *inspection);

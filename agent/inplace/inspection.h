/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One inspection of the containers of a pod
 *
 * Asks the runtime which containers they are, what environment they were made with, which images they
 * run, and which images their references are now. It decides nothing.
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/error.h"
#include "agent/rpc/client.h"

typedef struct Inspection Inspection;

typedef struct InspectionQuestion {
        const char *name;
        const char *reference;  /* that the pod asks for; "": none */
        char *const *env_names; /* whose hash is asked for, ended by NULL; NULL: it is not */
        const char *known_id;   /* of a container about which all is known but for its reference */
} InspectionQuestion;

/* Texts are "" where nothing is known; borrowed during the call. */
typedef struct InspectionAnswer {
        const char *id; /* of the newest container of this name, unless it is being made just now */
        bool is_running;
        bool has_other_image; /* than one before it, which the runtime still has */
        unsigned restart_count;
        uint64_t kubelet_hash;
        uint32_t env_hash; /* 0: not asked for, or not known */
        const char *running_id;
        const char *reference_id;
        bool is_incomplete; /* it is worth being asked again */
} InspectionAnswer;

/* As many answers as questions, in their order, where some may be incomplete because of the error;
 * no answers if nothing could be found out. */
typedef int (*InspectionDone)(const InspectionAnswer *answers, const Error *error, void *userdata);

typedef struct InspectionOptions {
        RpcClient *client;
        const char *namespace;
        const char *pod;
        const char *runtime_uid;
        /* Otherwise only the references are resolved, of which there is at least one then. */
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

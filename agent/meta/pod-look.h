/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One look at the containers of a pod: which they are, what environment they were made with, which
 * images they run, and which images their references are now
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/rpc/client.h"

typedef struct PodLook PodLook;

typedef struct PodLookQuestion {
        const char *name;
        const char *reference;  /* that the pod asks for; "": none */
        char *const *env_names; /* whose hash is asked for, ended by NULL; NULL: it is not */
        const char *known_id;   /* of a container about which all is known but for its reference */
} PodLookQuestion;

/* Texts are "" where nothing is known; borrowed during the call. */
typedef struct PodLookAnswer {
        const char
                *id; /* of the newest container of this name, unless it is only just being made */
        bool is_running;
        unsigned restart_count;
        uint64_t kubelet_hash;
        uint32_t env_hash; /* 0: not asked for, or not known */
        const char *running_id;
        const char *reference_id;
        bool is_incomplete; /* it is worth being asked again */
} PodLookAnswer;

/* As many answers as questions, in their order, where some may be incomplete because of the error;
 * no answers if nothing could be found out. */
typedef int (*PodLookDone)(const PodLookAnswer *answers, const Error *error, void *userdata);

typedef struct PodLookOptions {
        RpcClient *client;
        const char *namespace;
        const char *pod;
        const char *runtime_uid;
        /* Otherwise only the references are looked up, of which there is at least one then. */
        bool must_list;
        const PodLookQuestion *questions;
        size_t n_questions;
        PodLookDone on_done; /* once; not from within pod_look_new(); it may be freed there */
        void *userdata;
} PodLookOptions;

/* Everything is copied. */
int pod_look_new(const PodLookOptions *options, PodLook **ret);
PodLook *pod_look_free(PodLook *look);

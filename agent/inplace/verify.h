/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inspects all containers, or those of one pod, and reports which image each runs
 *
 * Asks the runtime alone, now; from the API server's pods, where there are any, it takes the
 * reference that is asked for. A container without such a pod is compared with the reference that
 * the runtime remembers. The kubelet makes containers from image IDs: where the runtime does not
 * remember the name either, the verdict is unknown. CRI-O forgets it as well, and has in its place a
 * name that the image had when the container was made.
 */

#include "agent/inplace/image-ids.h"
#include "agent/pod/pods.h"
#include "agent/rpc/client.h"

typedef struct Verify Verify;

/* Texts are "" where nothing is known; borrowed during the call. */
typedef struct VerifyRow {
        const char *namespace;
        const char *pod;
        const char *uid; /* as in the runtime's labels */
        const char *container;
        const char *reference;    /* asked for */
        const char *reference_id; /* the image that this is on the node */
        const char *running_id;   /* the image that runs */
        Verdict verdict;
        const char *message; /* why it is unknown or stale, in one line; "" if it is current */
} VerifyRow;

typedef struct VerifyOptions {
        RpcClient *client;
        const char *runtime_name;
        const Pods *pods;      /* NULL: there is no API server */
        const char *namespace; /* NULL: any. Copied */
        const char *pod;       /* its name; NULL: all. Copied */

        /* Either the rows, by namespace, pod and container, or an error. Once; not from within
         * verify_new(); it may be freed here. */
        int (*on_done)(const VerifyRow *rows, size_t n_rows, const Error *error, void *userdata);
        void *userdata;
} VerifyOptions;

/* Only containers that run, the newest of each name. At most 8 questions at a time. */
int verify_new(const VerifyOptions *options, Verify **ret);
/* Returns NULL. */
Verify *verify_free(Verify *verify);

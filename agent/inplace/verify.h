/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inspects all containers, or those of one pod, and reports which image each runs
 *
 * Asks only the runtime, and takes the wanted references from the pods that the watch has stored, if
 * any. It compares a container without such a pod with the reference that the runtime remembers. The
 * kubelet makes containers from image IDs: if the runtime does not remember the name either, the verdict
 * is unknown. CRI-O does not, and reports instead a name that the image had when the container was made.
 */

#include "agent/inplace/image-ids.h"
#include "agent/pod/pods.h"
#include "agent/rpc/client.h"

typedef struct Verify Verify;

/* Unknown texts are ""; borrowed during the call. */
typedef struct VerifyRow {
        const char *namespace;
        const char *pod;
        const char *uid; /* names and UID as in the runtime's labels */
        const char *container;
        const char *reference;    /* the pod's */
        const char *reference_id; /* image ID of the reference on the node */
        const char *running_id;   /* image ID that runs */
        Verdict verdict;
        const char *message; /* why the verdict is unknown or stale, in one line; "" if current */
} VerifyRow;

typedef struct VerifyOptions {
        RpcClient *client;
        const char *runtime_name;
        const Pods *pods;      /* NULL: there is no API server */
        const char *namespace; /* NULL: any. Copied */
        const char *pod;       /* name of the pod; NULL: all. Copied */

        /* Either the rows, by namespace, pod and container, or an error. Once; not from within
         * verify_new(); it may be freed here. */
        int (*on_done)(const VerifyRow *rows, size_t n_rows, const Error *error, void *userdata);
        void *userdata;
} VerifyOptions;

/* Verifies the newest container of each name, if it runs. Makes at most 8 calls at a time. */
int verify_new(const VerifyOptions *options, Verify **ret);
/* Returns NULL. */
Verify *verify_free(Verify *verify);

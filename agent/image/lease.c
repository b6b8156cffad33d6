/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/lease.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/list.h"
#include "agent/base/random.h"
#include "agent/base/rfc3339.h"
#include "agent/base/text.h"
#include "cri/containerd.h"

#define LEASE_SEC (24 * 3600) /* lifetime of containerd's own leases */
#define ID_PREFIX "inplaced-"

struct Leases {
        const Runtimes *runtimes;
        Lease *items; /* leases, including those that are being deleted */
};

struct Lease {
        LIST_LINKS(Lease);
        Leases *leases;
        char *id; /* NULL: there is none */
        LeaseReady on_ready;
        void *userdata;
        RpcCall *call;
};

static Lease *lease_free(Lease *lease) {
        if (!lease)
                return NULL;

        list_remove(&lease->leases->items, lease);
        rpc_call_unref(lease->call);
        free(lease->id);
        free(lease);
        return NULL;
}

DEFINE_CLEANUP(Lease *, lease_free)

int leases_new(const Runtimes *runtimes, Leases **ret) {
        Leases *leases = calloc(1, sizeof(*leases));

        if (!leases)
                return -ENOMEM;

        leases->runtimes = runtimes;
        *ret = leases;
        return 0;
}

Leases *leases_free(Leases *leases) {
        if (!leases)
                return NULL;

        while (leases->items)
                lease_free(leases->items);
        free(leases);
        return NULL;
}

static int on_created(const void *reply, const Error *error, void *userdata) {
        Lease *lease = userdata;

        lease->call = rpc_call_unref(lease->call);
        if (error)
                free(take_ptr(lease->id));

        return lease->on_ready(lease->userdata);
}

int lease_begin(Leases *leases, LeaseReady on_ready, void *userdata, Lease **ret) {
        cleanup(lease_free_p) Lease *lease = NULL;
        char expires[RFC3339_SIZE];
        int r;

        lease = calloc(1, sizeof(*lease));
        if (!lease)
                return -ENOMEM;

        lease->leases = leases;
        lease->on_ready = on_ready;
        lease->userdata = userdata;
        list_prepend(&leases->items, lease);
        if (text_format(&lease->id, ID_PREFIX "%016" PRIx64, random_id()) < 0)
                return -ENOMEM;

        r = leases_create(runtimes_client(leases->runtimes), lease->id,
                          rfc3339_format(time(NULL) + LEASE_SEC, expires), on_created, lease,
                          &lease->call);
        if (r < 0)
                return r;

        *ret = take_ptr(lease);
        return 0;
}

const char *lease_id(const Lease *lease) {
        return lease ? lease->id : NULL;
}

bool lease_id_is_own(const char *id) {
        return strncmp(id, ID_PREFIX, strlen(ID_PREFIX)) == 0;
}

static int on_deleted(const void *reply, const Error *error, void *userdata) {
        lease_free(userdata);
        return 0;
}

/* The call goes on without its owner. If it fails, the lease expires later. */
Lease *lease_end(Lease *lease) {
        RpcClient *client;

        if (!lease)
                return NULL;

        lease->call = rpc_call_unref(lease->call);
        client = runtimes_client(lease->leases->runtimes);
        if (!client || !lease->id ||
            leases_delete(client, lease->id, on_deleted, lease, &lease->call) < 0)
                return lease_free(lease);

        return NULL;
}

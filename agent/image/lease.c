/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/lease.h"

#include <errno.h>
#include <inttypes.h>
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
        LeasesFound on_found;
        void *userdata;
        RpcCall *call;
        bool are_found;
};

struct Lease {
        LIST_LINKS(Lease);
        Leases *leases;
        char *id;     /* NULL: there is none */
        bool is_left; /* a previous run began it */
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

        rpc_call_unref(leases->call);
        while (leases->items)
                lease_free(leases->items);
        free(leases);
        return NULL;
}

static int lease_new(Leases *leases, Lease **ret) {
        Lease *lease;

        lease = calloc(1, sizeof(*lease));
        if (!lease)
                return -ENOMEM;

        lease->leases = leases;
        list_prepend(&leases->items, lease);
        *ret = lease;
        return 0;
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

        r = lease_new(leases, &lease);
        if (r < 0)
                return r;

        lease->on_ready = on_ready;
        lease->userdata = userdata;
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

static bool leases_has(const Leases *leases, const char *id) {
        for (const Lease *lease = leases->items; lease; lease = lease->next)
                if (text_equal(lease->id, id))
                        return true;

        return false;
}

static int leases_add_left(Leases *leases, const char *id) {
        Lease *lease;
        int r;

        r = lease_new(leases, &lease);
        if (r < 0)
                return r;

        lease->is_left = true;
        return text_copy(id, &lease->id);
}

static int on_listed(const void *reply, const Error *error, void *userdata) {
        const LeaseList *list = reply;
        Leases *leases = userdata;
        int r = 0;

        leases->call = rpc_call_unref(leases->call);
        leases->are_found = !error || error->kind == ERROR_UNSUPPORTED;
        for (size_t i = 0; !error && r >= 0 && i < list->n_leases; i++) {
                const char *id = list->leases[i]->id;

                if (lease_id_is_own(id) && !leases_has(leases, id))
                        r = leases_add_left(leases, id);
        }
        return r < 0 ? r : leases->on_found(leases->userdata);
}

int leases_find_left(Leases *leases, LeasesFound on_found, void *userdata) {
        if (leases->are_found)
                return 0;

        leases->on_found = on_found;
        leases->userdata = userdata;
        leases->call = rpc_call_unref(leases->call);
        return leases_list_expiring(runtimes_client(leases->runtimes), on_listed, leases,
                                    &leases->call);
}

bool leases_has_left(const Leases *leases) {
        for (const Lease *lease = leases->items; lease; lease = lease->next)
                if (lease->is_left)
                        return true;

        return false;
}

void leases_end_left(Leases *leases) {
        Lease *next;

        for (Lease *lease = leases->items; lease; lease = next) {
                next = lease->next;
                if (lease->is_left) {
                        lease->is_left = false;
                        (void) lease_end(lease);
                }
        }
}
